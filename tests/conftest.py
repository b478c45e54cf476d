"""Fixtures that tests share: the built book, a local server for it, and a real browser.

    def test_slider(page, site):
        page.goto(site + "/book/01-qkv.html")

`site` is the address of the built book, `browser` one Chromium for the whole run, `page` a fresh tab of it.
"""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from autograder import sandbox

ROOT = Path(__file__).resolve().parent.parent
HTML = ROOT / "_build" / "html"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A fresh profile would otherwise phone home, which is noise in a test that asserts that nothing does.
QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def isolated():
    """Make sure that submissions can be isolated here; without, say why the test is left out (in CI: fail)."""
    lacks = sandbox.missing()
    if lacks and os.environ.get("CI"):
        pytest.fail(f"CI needs the sandbox: {'; '.join(lacks)}")
    if lacks:
        pytest.skip(f"no sandbox: {'; '.join(lacks)}")


@pytest.fixture(scope="session")
def html():
    """The folder of the built book, built first where it isn't there."""
    if not (HTML / "book" / "index.html").exists():
        subprocess.run([sys.executable, str(ROOT / "book" / "build.py")], cwd=ROOT, check=True)
    return HTML


@pytest.fixture(scope="session")
def site(html):
    """The address of the built book, without a slash at the end, served from 127.0.0.1."""
    handler = functools.partial(_Quiet, directory=str(html))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium for the whole run; without one, tests skip here and fail in CI."""
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if executable is None:
        reason = f"no browser: none of {', '.join(CHROMIUM)} is installed (Debian: apt-get install chromium)"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        print(reason)
        pytest.skip(reason)
    sync_api = pytest.importorskip("playwright.sync_api")
    # Chromium refuses to sandbox itself for root only; everyone else keeps the sandbox.
    arguments = QUIET + (["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    """A fresh tab with a profile of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()

"""What tests share: the built book, a server for it, a real browser; and a look at what each test
leaves running.

    def test_slider(page, site):
        page.goto(site + "/book/01-qkv.html")

`site` is the address of the built book, `browser` one Chromium for the whole run, `page` a fresh
tab of it.
"""

import contextlib
import functools
import http.server
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from autograder.course import cores, startup
from autograder.sandbox import bubblewrap

startup.begin()  # seconds less in each of pytest's processes

ROOT = Path(__file__).resolve().parent
HTML = ROOT / "_build" / "html"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A fresh profile would otherwise phone home, which is noise in a test that asserts that nothing
# does.
QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
]


# Fixtures that take the built book, or start guests: tests with them are slow.
COSTLY = {"html", "isolated", "guests"}
LEFT_SECONDS = 15  # for what a test started to end by itself, on a busy machine
# What a test starts inherits its environment, wherever in the tree of processes it ends up.
STARTED_BY = "TESTS_OF_PROCESS"
os.environ[STARTED_BY] = str(os.getpid())
# A run in the background ignores SIGINT, and so would the programs that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Compiled tests and modules are kept: tests start hundreds of processes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Python starts 3 seconds sooner wherever it reads notebooks; our own programs see to it themselves
# (`startup.begin`).
LIGHTER = str(ROOT / "tests" / "lighter")
if LIGHTER not in os.environ.get("PYTHONPATH", ""):
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [LIGHTER, os.environ.get("PYTHONPATH")])
    )
# Tests run side by side: with a thread for each core in each of them, sums on small tensors take
# six times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Triton asks for this as it is imported, and torch's compiler imports it.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")


# Modules that take minutes begin first, so that no worker is left with one at the end.
LONGEST = [
    "test_hostile",
    "test_exercises",
    "test_cluster",
    "test_translations",
    "test_batch",
    "test_book",
    "test_postgres",
    "test_engine",
    "test_grading",
    "test_gpu_all",
]


def absent(reason):
    """Leave a test out, and say why."""
    print(reason)
    pytest.skip(reason)


@functools.cache
def loaded(folder):
    """Return an exercise of this course, loaded once in each process: no test changes it."""
    from autograder.authoring import loader  # after `startup.begin`

    return loader.load(folder)


def subjects_of(folder):
    """Return the functions that an exercise's notebook checks, in order, without loading it:
    pytest asks for them.
    """
    return re.findall(
        r'^checks\.run\("(\w+)"', (folder / f"{folder.name}.py").read_text(encoding="utf-8"), re.M
    )


def toy_course(root, settings=""):
    """Write the toy course of the corpus below `root`, with these lines behind our
    nbgrader_config.py; return it.
    """
    from autograder.corpus import TOY
    from autograder.course.config import Course

    shutil.copytree(TOY, root, dirs_exist_ok=True)
    text = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    (root / "nbgrader_config.py").write_text(text + settings, encoding="utf-8")
    return Course(root=root)


def pytest_configure(config):
    """Leave out warnings that are none; named in pyproject.toml, their modules would load before
    `startup.begin`.
    """
    for name in ("sqlalchemy.exc.SAWarning", "nbformat.warnings.DuplicateCellId"):
        config.addinivalue_line("filterwarnings", f"ignore::{name}")
    # Said when the collector comes by, of whatever test is running then: a pipe of the browser's,
    # of an ended worker.
    config.addinivalue_line("filterwarnings", "ignore::ResourceWarning")


def pytest_xdist_auto_num_workers():
    """Two processes for each core: a test that waits for a limit or a page computes nothing."""
    return 2 * cores.count()


@pytest.hookimpl(tryfirst=True)  # before -m chooses by the marks
def pytest_collection_modifyitems(items):
    """Mark as slow what takes a costly fixture or is long itself; put the longest modules first."""
    for item in items:
        if COSTLY & set(item.fixturenames) or any(mark.name == "long" for mark in item.own_markers):
            item.add_marker(pytest.mark.slow)
    items.sort(
        key=lambda item: (
            LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST)
        )
    )


def still_running():
    """Return the sandboxes and workers that tests of this process started and that go on: by
    process, which test.
    """
    mine, found = set(psutil.Process().children(recursive=True)), {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE or not (
                process.name() == "bwrap" or _is_worker(process)
            ):
                continue
            try:
                environment = process.environ()
            except psutil.AccessDenied:  # an ordinary user may not look into a process in a sandbox
                environment = {}
            if process in mine or environment.get(STARTED_BY) == os.environ[STARTED_BY]:
                found[process] = environment.get("PYTEST_CURRENT_TEST", "")
    return found


def _is_worker(process):
    """Tell whether a process was forked by a fork server; the server itself lives as long as who
    started it.
    """
    if not process.name().startswith("python"):
        return False
    return all(
        "multiprocessing.forkserver" in " ".join(one.cmdline())
        for one in (process, process.parent())
        if one
    )


def assert_nothing_left(before, seconds=LEFT_SECONDS):
    """Wait for what was started since `before` to end; end what does not, and fail with the
    names of its tests.
    """
    deadline = time.monotonic() + seconds
    left = {process: test for process, test in still_running().items() if process not in before}
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = {process: test for process, test in still_running().items() if process not in before}
    said = [
        f"process {process.pid} ({process.name()}), started in {test}"
        for process, test in left.items()
    ]
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    if said:
        pytest.fail(f"still running after {seconds} s: {'; '.join(said)}", pytrace=False)


@pytest.fixture(scope="module", autouse=True)
def nothing_outlives_its_module():
    """No sandbox and no worker that a module's tests or fixtures started goes on after it.

    To look costs 13 ms: too much to do it around each test.
    """
    before = still_running()
    yield
    assert_nothing_left(before)


@pytest.fixture(autouse=True)
def the_default_dtype_stays():
    """No test, and no fixture of a module, leaves another default dtype to what comes after it
    in its process.
    """
    yield
    torch = sys.modules.get("torch")  # who has not imported it did not change it
    if torch and torch.get_default_dtype() != torch.float32:
        left = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        pytest.fail(f"torch's default dtype is left at {left}", pytrace=False)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def isolated():
    """Make sure that submissions can be isolated here; without, say why the test is left out (in
    CI: fail).
    """
    lacks = bubblewrap.missing()
    if lacks and os.environ.get("CI"):
        pytest.fail(f"CI needs the sandbox: {'; '.join(lacks)}")
    if lacks:
        pytest.skip(f"no sandbox: {'; '.join(lacks)}")


@pytest.fixture(scope="session")
def html():
    """The folder of the built book, built first where it isn't there."""
    HTML.parent.mkdir(exist_ok=True)
    with FileLock(HTML.parent / "tests.lock"):  # tests may run in several processes
        if not (HTML / "book" / "index.html").exists():
            subprocess.run(
                [sys.executable, str(ROOT / "book" / "tools" / "build.py")], cwd=ROOT, check=True
            )
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
        reason = (
            f"no browser: none of {', '.join(CHROMIUM)} is installed (Debian: apt-get "
            "install chromium)"
        )
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


@pytest.fixture(scope="module")
def tab(browser):
    """One tab for all tests of a module, in which formulas stay as they are written: to set them
    takes seconds.
    """
    context = browser.new_context()
    context.route("**/vendor/mathjax/*", lambda route: route.abort())
    yield context.new_page()
    context.close()


@pytest.fixture
def chapter(tab, site, request):
    """The page of a test module's figure, loaded anew, the figure in sight: the module names its
    PAGE and FIGURE.
    """
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto(site + request.module.PAGE)
    root = tab.locator(request.module.FIGURE)
    root.locator("input, button").first.wait_for(state="attached", timeout=30_000)
    root.evaluate("""async (root) => {  // the theme scrolls gently
      await document.fonts.ready;
      root.scrollIntoView({ block: "center", behavior: "instant" });
    }""")
    return tab

"""What tests share: the built book, a server for it, a real browser; and a look at what each test
leaves running.

    def test_slider(page, site):
        page.goto(site + "/book/01-qkv.html")

`site` is the address of the built book, `browser` one Chromium for the whole run, `page` a fresh
tab of it.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import chromium
import pytest
from browser_tools import QUIET
from filelock import FileLock
from processes import STARTED_BY, assert_nothing_left, still_running

from autograder.course import cores, startup
from autograder.sandbox import bubblewrap

startup.begin()  # seconds less in each of pytest's processes

ROOT = Path(__file__).resolve().parent
HTML = ROOT / "_build" / "html"

# Fixtures that take the built book, or start guests: tests with them are slow.
COSTLY = {"html", "isolated", "guests"}
# What tests start inherits it; `processes.py` finds by it what they leave running.
os.environ[STARTED_BY] = str(os.getpid())
# A run in the background ignores SIGINT, and so would the programs that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Compiled tests and modules are kept: tests start hundreds of processes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Tests run side by side: with a thread for each core in each of them, sums on small tensors take
# six times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Triton asks for this as it is imported, and torch's compiler imports it.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")


# Modules that take minutes begin first, so that no worker is left with one at the end.
LONGEST = [
    "test_hostile",
    "test_hub",
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


def pytest_configure(config):
    """Ignore some warnings of libraries.

    In pyproject.toml they would be named by class, and pytest would import their modules before
    `startup.begin` runs.
    """
    for name in ("sqlalchemy.exc.SAWarning", "nbformat.warnings.DuplicateCellId"):
        config.addinivalue_line("filterwarnings", f"ignore::{name}")
    # It comes when garbage is collected, in a test that is not its cause: of a pipe of the browser
    # or of an ended worker.
    config.addinivalue_line("filterwarnings", "ignore::ResourceWarning")


def pytest_xdist_auto_num_workers():
    """Two processes for each core: a test that waits for a limit or a page computes nothing."""
    return 2 * cores.count()


@pytest.hookimpl(tryfirst=True)  # before -m chooses by the marks
def pytest_collection_modifyitems(items):
    """Mark tests as slow that take a costly fixture or are long themselves; put the longest modules
    first.
    """
    for item in items:
        if COSTLY & set(item.fixturenames) or any(mark.name == "long" for mark in item.own_markers):
            item.add_marker(pytest.mark.slow)
    place = {module: number for number, module in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


@pytest.fixture(autouse=True)
def closed_figures():
    """Close the figures that a test drew: pyplot warns of more than 20, in whichever test draws
    the next one.
    """
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


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
        dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        pytest.fail(f"torch's default dtype is left at {dtype}", pytrace=False)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The toy course, released in a folder whose name has a space."""
    from toy_course import released  # after `startup.begin`

    return released(tmp_path_factory.mktemp("a course"))


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
    with chromium.served(html) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium for the whole run; without one, tests skip here and fail in CI."""
    executable = chromium.executable()
    if executable is None:
        reason = (
            f"no browser: none of {', '.join(chromium.NAMES)} is installed (Debian: apt-get "
            "install chromium)"
        )
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        print(reason)
        pytest.skip(reason)
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=executable, args=[*QUIET, *chromium.arguments()]
        )
        yield launched
        launched.close()


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

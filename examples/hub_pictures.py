"""Takes pictures of what a student sees on a hub, for the page A class on a hub.

It needs what the tests of the hub need: root, Chromium, and requirements-hub.txt.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from hub_machine import NAME, Machine  # noqa: E402 (it is in the folder above)
from hub_student import Student  # noqa: E402 (it too)

PICTURES = ROOT / "book/_static/pictures"
COLORS = 64  # of a palette: a page of text needs no more
WRONG = "import numpy as np\n\ndef project(X, W):\n    return X @ W.T\n"
RIGHT = "import numpy as np\n\ndef project(X, W):\n    return X @ W\n"


def take(page, name):
    """Write a picture of the window."""
    target = PICTURES / f"{name}.png"
    page.screenshot(path=target)
    with Image.open(target) as picture:
        picture.convert("RGB").quantize(COLORS).save(target, optimize=True)


def hand_in(student, count):
    """Submit, wait for feedback and fetch it; `count` hand-ins are listed then."""
    student.open_list()
    student.press("Submit")
    while len(rows := student.submitted()) < count or "feedback available" not in rows[-1]:
        time.sleep(1)
    student.press("Fetch Feedback")
    while "view feedback" not in student.submitted()[-1]:
        time.sleep(1)


def main():
    """Write hub-notebook.png and hub-list.png."""
    folder = Path(tempfile.mkdtemp(prefix="hub-"))
    machine = Machine(folder, ["ada"])
    try:
        machine.start()
        with sync_playwright() as playwright:
            path = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1100, "height": 640})
            ada = Student(page, machine.address, "ada", machine.passwords["ada"])
            ada.open_list()
            ada.fetch()
            ada.open_notebook(NAME)
            ada.write("def project(X, W)", WRONG)
            ada.run('checks.run("project"').scroll_into_view_if_needed()
            page.wait_for_timeout(2000)
            take(page, "hub-notebook")
            ada.save()
            hand_in(ada, 1)
            ada.open_tab(f"{NAME}.ipynb")
            ada.write("def project(X, W)", RIGHT)
            ada.save()
            hand_in(ada, 2)
            page.wait_for_timeout(1000)
            take(page, "hub-list")
            browser.close()
    finally:
        machine.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

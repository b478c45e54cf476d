"""A class on a real hub: students hand in from the browser and read feedback within a minute.

The hub is started as hub/README.md says, by root, on a machine of namespaces (`hub_machine`).
"""

import random
import shutil
import tempfile
import time
from pathlib import Path

import nbformat
import pytest
from hub_machine import COURSE, EXCHANGE, NAME, Machine, lacking
from hub_student import Student
from nbgrader.api import Gradebook

from autograder.exchange import publishing

pytestmark = [pytest.mark.slow, pytest.mark.browser]

MINUTE = 60
WRONG = "def project(X, W):\n    return X @ W.T\n"
RIGHT = "def project(X, W):\n    return X @ W\n"
ATTACKS = Path(__file__).with_name("attacks.py")


@pytest.fixture(scope="module")
def machine(isolated):
    """A running hub with two students; it is gone afterwards."""
    reason = lacking()
    if reason:
        print(reason)
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="hub-"))  # pytest's own folders are private to root
    machine = Machine(folder, ["ada", "boris"])
    try:
        machine.start()
        yield machine
    finally:
        machine.stop()
        shutil.rmtree(folder)


def points(machine, student):
    """Return the points of a student in the course's gradebook, or None."""
    with Gradebook(f"sqlite:///{machine.path(COURSE)}/gradebook.db", "attention-by-hand") as book:
        submissions = [
            each for each in book.find_assignment(NAME).submissions if each.student.id == student
        ]
        return submissions[0].score if submissions else None


def submit(machine, student, answer):
    """Write an answer into a student's notebook, and submit it as nbgrader's button does."""
    path = machine.path(f"/home/{student}/{NAME}/{NAME}.ipynb")
    if not path.exists():
        machine.run(
            student, "python", "-m", "nbgrader", "fetch_assignment", NAME, folder=f"/home/{student}"
        )
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "project":
            cell.source = answer
    nbformat.write(notebook, path)
    machine.run(student, "python", "-m", "nbgrader", "submit", NAME, folder=f"/home/{student}")


def pages(machine, student):
    """Fetch a student's feedback; return the pages, the oldest first."""
    machine.run(
        student, "python", "-m", "nbgrader", "fetch_feedback", NAME, folder=f"/home/{student}"
    )
    paths = sorted(machine.path(f"/home/{student}/{NAME}/feedback").glob(f"*/{NAME}.html"))
    return [page.read_text(encoding="utf-8") for page in paths]


def read_within_a_minute(student, count):
    """Wait until the list offers the newest feedback, and fetch it; fail after a minute."""
    deadline = time.monotonic() + MINUTE
    while "feedback available" not in (rows := student.submitted())[-1] or len(rows) < count:
        assert time.monotonic() < deadline, rows
        time.sleep(1)
    student.press("Fetch Feedback")
    while "view feedback" not in student.submitted()[-1]:
        assert time.monotonic() < deadline
        time.sleep(1)


def test_a_student_reads_feedback_within_a_minute_and_hands_in_again(machine, page):
    ada = Student(page, machine.address, "ada", machine.passwords["ada"])
    assert "Create Assignment" not in page.inner_text("body")
    assert page.request.get(f"{machine.address}/user/ada/formgrader").status == 404
    ada.open_list()
    ada.fetch()
    ada.open_notebook(NAME)
    ada.write("def project(X, W)", f"import numpy as np\n\n{WRONG}")
    assert "project: 0 of 4 points" in ada.run('checks.run("project"').inner_text()
    ada.save()
    ada.open_list()
    ada.press("Submit")
    read_within_a_minute(ada, 1)
    assert points(machine, "ada") == 0
    ada.open_tab(f"{NAME}.ipynb")
    ada.write("def project(X, W)", f"import numpy as np\n\n{RIGHT}")
    ada.save()
    ada.open_list()
    ada.press("Submit")
    read_within_a_minute(ada, 2)
    assert points(machine, "ada") == 4
    first, second = pages(machine, "ada")
    assert "W transposed" in first and "W transposed" not in second


@pytest.mark.long
def test_the_instructor_has_formgrader_in_a_tab(machine, page):
    Student(page, machine.address, "grace", machine.passwords["grace"])
    page.goto(f"{machine.address}/user/grace/formgrader")
    row = page.locator("tr", has_text=NAME)
    assert "released" in row.first.inner_text()
    with pytest.raises(AssertionError, match="Permission denied"):
        machine.run("boris", "ls", f"{COURSE}/solutions")


@pytest.mark.long
def test_another_students_attacks_change_nothing_and_delay_by_less_than_a_minute(machine):
    submit(machine, "ada", RIGHT + "# ada alone has written this\n")
    usual = machine.wait_for(event="published", student="ada")["seconds"]
    before, count = points(machine, "ada"), len(machine.events(event="published", student="ada"))
    known = machine.path(EXCHANGE) / "attention-by-hand" / "feedback"
    pages_before = {path.name: path.read_bytes() for path in known.iterdir()}
    boris = machine.path("/home/boris")
    shutil.copy(ATTACKS, boris / "attacks.py")
    shutil.copytree(machine.path(f"{COURSE}/exercises/{NAME}"), boris / "given")
    machine.run("root", "chown", "-R", "boris:boris", "/home/boris")
    attacks = machine.begin("boris", "python", "attacks.py", folder="/home/boris")
    time.sleep(5)
    submit(machine, "ada", RIGHT + "# ada alone has written this, again\n")
    seconds = machine.wait_for(count + 1, event="published", student="ada")["seconds"]
    assert seconds < usual + MINUTE
    assert attacks.wait() == 0
    submit(machine, "boris", WRONG)
    settle(machine)
    assert (points(machine, "ada"), points(machine, "boris")) == (before, 0)
    changed = {name for name, page in pages_before.items() if (known / name).read_bytes() != page}
    # Her hand-in during the attacks may be one too many: then her oldest page, in both languages,
    # gives way to a notice, which is short.
    assert len(changed) <= 2
    for name in changed:
        notice = (known / name).read_text(encoding="utf-8")
        assert publishing.OLDER[:12] in notice or "反馈" in notice, notice[:3000]
        assert len(notice) < len(pages_before[name]) / 4
    secret = machine.path(f"{COURSE}/.course-secret").read_text().strip()
    mine = b"\0".join(path.read_bytes() for path in boris.rglob("*.html") if path.is_file())
    assert secret.encode() not in mine and b"ada alone" not in mine
    for folder in ("submitted", "autograded", "feedback"):
        for path in machine.path(f"{COURSE}/{folder}/boris").rglob("*"):
            assert not path.is_symlink()
            assert path.is_dir() or b"ada alone" not in path.read_bytes()
    reasons = " ".join(event["reason"] for event in machine.events(event="refused"))
    for part in ("a link", "a hard link", "belongs to boris, not to ada", "pipe"):
        assert part in reasons


def settle(machine, seconds=120):
    """Wait until the watch has logged nothing for a while."""
    deadline, size = time.monotonic() + seconds, -1
    while (now := machine.log.stat().st_size) != size and time.monotonic() < deadline:
        size = now
        time.sleep(5)


@pytest.mark.long
def test_a_watch_that_is_killed_loses_nothing(machine):
    chance = random.Random(1)
    submitted = len(machine.events(event="taken", student="ada"))
    for turn in range(10):
        submit(machine, "ada", f"{RIGHT if turn == 9 else WRONG}# turn {turn}\n")
        time.sleep(chance.uniform(0, 6))
        for process in machine.processes("autograder watch"):
            process.kill()
    machine.wait_for(submitted + 1, event="taken", student="ada")
    deadline = time.monotonic() + 300
    while len(answered := pages(machine, "ada")) < len(list(cached(machine, "ada"))):
        assert time.monotonic() < deadline, len(answered)
        time.sleep(5)
    while points(machine, "ada") != 4:
        assert time.monotonic() < deadline
        time.sleep(1)
    assert "W transposed" not in answered[-1]


def cached(machine, student):
    """Yield the student's copies of what was handed in."""
    folder = machine.path(f"/home/{student}/.local/share/jupyter/nbgrader_cache")
    return folder.glob(f"*/{student}+{NAME}+*")

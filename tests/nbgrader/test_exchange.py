"""nbgrader's exchange, from end to end: two students' folders, the course's, and the engine in
between.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.course.config import ROOT, Course

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="nbgrader has no exchange on Windows"),
]
NAME = "01-qkv"
SETTINGS = """
c.Exchange.root = {exchange!r}
"""
OF_A_STUDENT = """
c = get_config()
c.CourseDirectory.course_id = "attention-by-hand"
c.CourseDirectory.student_id = {student!r}
"""
PROJECT = "import numpy as np\n\ndef project(X, W):\n    return X @ W\n"


WATCH = """
c.Watch.check_owner = False  # both are one system user here
"""


def run(folder, *command):
    """Run a command in somebody's folder, which is also their home."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "JUPYTER_DATA_DIR": str(folder / "data"),
    }
    result = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=variables, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout + result.stderr


@pytest.fixture
def places(tmp_path):
    """The course's folder and two students', which share nothing but the exchange."""
    exchange = SETTINGS.format(exchange=str(tmp_path / "exchange"))
    course = tmp_path / "course"
    shutil.copytree(ROOT / "exercises" / NAME, course / "exercises" / NAME)
    text = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    (course / "nbgrader_config.py").write_text(text + exchange, encoding="utf-8")
    students = []
    for student in ("ada", "bob"):
        students.append(tmp_path / student)
        students[-1].mkdir()
        (students[-1] / "nbgrader_config.py").write_text(
            OF_A_STUDENT.format(student=student) + exchange
        )
    return course, *students


@pytest.mark.long
def test_the_exchange_delivers_exercises_and_feedback(isolated, places):
    course, ada, bob = places
    run(course, "nbgrader", "release_assignment", NAME)
    run(ada, "nbgrader", "fetch_assignment", NAME)
    assert (ada / NAME / "checking.zip").exists()
    shutil.copytree(ada / NAME, bob / NAME)
    path = ada / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "project":
            cell.source = PROJECT
    nbformat.write(notebook, path)
    for folder in (ada, bob):
        run(folder, "nbgrader", "submit", NAME)
    run(course, "nbgrader", "collect", NAME)
    stamps = {
        name: (course / "submitted" / name / NAME / "timestamp.txt").read_text()
        for name in ("ada", "bob")
    }
    run(course, "autograder", "grade", "--course", str(course), "--jobs", "1")
    with Gradebook(Course(root=course).db_url, "attention-by-hand") as book:
        scores = {
            submission.student.id: submission.score
            for submission in book.find_assignment(NAME).submissions
        }
        assert all(submission.timestamp for submission in book.find_assignment(NAME).submissions)
    assert scores["ada"] > scores["bob"] == 0
    run(course, "nbgrader", "release_feedback", NAME)
    for folder, other in ((ada, "bob"), (bob, "ada")):
        run(folder, "nbgrader", "fetch_feedback", NAME)
        (page,) = folder.glob(f"{NAME}/feedback/*/{NAME}.html")
        assert page.parent.name == stamps[folder.name]
        text = page.read_text(encoding="utf-8")
        assert f"<title>{NAME}: {folder.name}</title>" in text and f": {other}</title>" not in text


def write_answer(folder, source):
    """Write an answer into the notebook in a student's folder."""
    path = folder / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "project":
            cell.source = source
    nbformat.write(notebook, path)


@pytest.mark.long
def test_what_nbgrader_submits_the_watch_grades_and_nbgrader_fetches(isolated, places):
    """Without nbgrader's collect and release_feedback; each notebook of a hand-in has its page."""
    course, ada, bob = places
    with (course / "nbgrader_config.py").open("a", encoding="utf-8") as file:
        file.write(WATCH)
    run(course, "nbgrader", "release_assignment", NAME)
    run(ada, "nbgrader", "fetch_assignment", NAME)
    shutil.copytree(ada / NAME, bob / NAME)
    write_answer(ada, PROJECT)
    for folder in (ada, bob):
        run(folder, "nbgrader", "submit", NAME)
    run(course, "autograder", "watch", "--once", "--course", str(course), "--jobs", "1")
    write_answer(ada, PROJECT.replace("X @ W", "W @ X"))
    run(ada, "nbgrader", "submit", NAME)
    run(course, "autograder", "watch", "--once", "--course", str(course), "--jobs", "1")
    for folder, other, count in ((ada, "bob", 2), (bob, "ada", 1)):
        run(folder, "nbgrader", "fetch_feedback", NAME)
        pages = sorted(folder.glob(f"{NAME}/feedback/*/*.html"))
        notebooks = sorted(path.stem for path in (folder / NAME).glob("*.ipynb"))
        assert len(notebooks) == 2 and [page.stem for page in pages] == notebooks * count
        for page in pages:
            text = page.read_text(encoding="utf-8")
            assert f"<title>{NAME}: {folder.name}</title>" in text
            assert f": {other}</title>" not in text
    pages = [path.read_text() for path in sorted(ada.glob(f"{NAME}/feedback/*/{NAME}.html"))]
    assert pages[0] != pages[1] and "Likely cause" in pages[1]

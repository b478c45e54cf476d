"""The course's engine in nbgrader's own `autograde`: one warm parent for a class, and the grades
of `grade`.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from hostile.case import RIGHT, WRONG, ZERO
from nbgrader.api import Gradebook
from toy_course import toy_course

from autograder.authoring.release import release
from autograder.course.config import ROOT, Course

CLASS = {
    "ada": RIGHT,
    "bob": {**RIGHT, **WRONG},
    "cai": {**RIGHT, "twice": "import os\nos._exit(0)"},  # the worker goes on with another guest
    "dee": {},
    "eve": {**RIGHT, "twice": ZERO["twice"]},
    "eli": {
        "add": f"%matplotlib widget\nimport absent_one\n{RIGHT['add']}",
        "twice": "from absent_one import two\ndef twice(a):\n    return two(a)",
    },
    "fay": {
        **RIGHT,
        "add": "import random\n\n\ndef add(a, b):\n    return a + b + (random.random() < 2)",
    },
}
SECRET = "one for both\n"
# Loaded by the command's Python before anything else: it counts the calls of `missing`.
COUNTING = """
import functools, os
from autograder.sandbox import bubblewrap
probe = bubblewrap.missing
def missing():
    with open(os.environ["PROBED"], "a") as file:
        file.write("probed\\n")
    return probe()
bubblewrap.missing = missing
"""


@pytest.fixture(scope="module")
def course(isolated, tmp_path_factory):
    """The toy course with the course's own nbgrader_config.py, and a class of seven."""
    root = tmp_path_factory.mktemp("plugin") / "course"
    course = toy_course(root)
    (root / ".course-secret").write_text(SECRET)
    release(course, course.sources()[0])
    for student, answers in CLASS.items():
        folder = root / "submitted" / student / "01-toy"
        folder.mkdir(parents=True)
        notebook = nbformat.read(course.exercises()[0].notebook, as_version=4)
        for cell in notebook.cells:
            cell.source = answers.get(
                cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source
            )
        nbformat.write(notebook, folder / "01-toy.ipynb")
    return course


def warm_parents(process):
    """Return the warm parents below a process: those that a bubblewrap started; guests are forks
    of them.
    """
    parents = set()
    with contextlib.suppress(psutil.Error):
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                # By name: what ends as a Python was a setpriv and a bwrap before, with the same
                # words behind it.
                python = child.name().startswith("python") and "parent.main" in child.cmdline()
                if python and child.parent().name() == "bwrap":
                    parents.add(child)
    return parents


def watched(command, root, **environment):
    """Run a command; return it, all warm parents that it had, and how many at most at one time."""
    parents, most, ended = set(), 0, threading.Event()
    with subprocess.Popen(
        command,
        cwd=root,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        process = psutil.Process(running.pid)

        def look():
            nonlocal most
            while not ended.wait(0.05):
                now = warm_parents(process)
                parents.update(now)
                most = max(most, len(now))

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            output, _ = running.communicate(timeout=1800)
        finally:
            ended.set()
            watcher.join()
    assert running.returncode == 0, output[-3000:]
    return output, parents, most


def points(course):
    """Return the points of each cell, by student, as the gradebook has them."""
    with Gradebook(course.db_url, course.course_id) as book:
        return {
            submission.student.id: {
                grade.name: grade.auto_score for grade in submission.notebooks[0].grades
            }
            for submission in book.find_assignment("01-toy").submissions
        }


@pytest.fixture(scope="module")
def by_nbgrader(course, tmp_path_factory):
    """The class after `nbgrader autograde`: the parents that it had, and how often it asked what
    is missing.
    """
    probed = tmp_path_factory.mktemp("count")
    (probed / "sitecustomize.py").write_text(COUNTING)
    command = [sys.executable, "-m", "nbgrader", "autograde", "01-toy"]
    paths = os.pathsep.join([str(probed), str(ROOT)])
    _, parents, most = watched(
        command, course.root, PYTHONPATH=paths, PROBED=str(probed / "probed")
    )
    return parents, most, (probed / "probed").read_text().splitlines()


@pytest.mark.slow
def test_a_class_has_one_warm_parent_and_it_is_gone_at_the_end(by_nbgrader):
    parents, most, _ = by_nbgrader
    assert (len(parents), most) == (1, 1)
    deadline = time.monotonic() + 5
    while any(process.is_running() for process in parents) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [process for process in parents if process.is_running()]


@pytest.mark.slow
def test_what_the_sandbox_needs_is_asked_once(by_nbgrader):
    assert by_nbgrader[2] == ["probed"]


@pytest.mark.slow
def test_nbgrader_gives_the_grades_of_grade(course, by_nbgrader, tmp_path):
    theirs = points(course)
    into = Course(root=course.root, output_folder=tmp_path / "grades")
    into.output_folder.mkdir()
    into.secret.write_text(SECRET)
    command = ["grade", "--course", course.root, "--into", into.output_folder, "--jobs", 1]
    watched([sys.executable, "-m", "autograder", *map(str, command)], ROOT)
    ours = points(into)
    assert ours == theirs and set(ours) == set(CLASS)
    checks = {
        student: (grades["check_add"], grades["check_twice"]) for student, grades in ours.items()
    }
    assert checks == {
        "ada": (4, 2),
        "bob": (1, 0),
        "cai": (4, 0),
        "dee": (0, 0),
        "eli": (4, 0),
        "eve": (4, 0),
        "fay": (1, 2),
    }

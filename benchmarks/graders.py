"""Grade a class as an instructor would, by command: with the course's own, and with nbgrader's
as they come.
"""

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook
from nbgrader.preprocessors import SaveCells
from traitlets.config import PyFileConfigLoader

ROOT = Path(__file__).resolve().parent.parent
# The engine writes the seconds of its phases, summed over the submissions, into this file.
TIMINGS = "AUTOGRADER_TIMINGS"
TOLERANCE = 0.005  # points are rounded to hundredths
# nbgrader as it comes. Its own folders' names, and the course's list of files that students do not
# get.
STOCK_CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "benchmark"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "__pycache__", "*.pyc", "[0-9][0-9]-*.py", "grade.json"]
"""  # noqa: E501

# nbgrader calls alembic by name: it is next to this Python, activated or not.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def run(arguments, cwd, **variables):
    """Run Python with these arguments; return its wall seconds, and what it printed.

    Raises
    ------
    SystemExit
        If it ends with another status than 0; the message has the end of what it printed.
    """
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **variables},
    )  # fmt: skip
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout[-3000:]}"
        )
    return seconds, done.stdout


# The course's command.


def our_command(name, submitted, into, *options):
    """Return the arguments that grade a class of an exercise with the course's own command, into
    a folder.
    """
    into.mkdir(parents=True, exist_ok=True)
    return ["-m", "autograder", "grade", name, "--submitted", submitted, "--into", into, *options]


def grade_ours(name, submitted, into, jobs, **variables):
    """Grade a class with the course's own command into a folder without grades; return the wall
    seconds.
    """
    shutil.rmtree(into, ignore_errors=True)
    return run(our_command(name, submitted, into, "--jobs", jobs), ROOT, **variables)[0]


def phases_of(path):
    """Return what the engine wrote of its phases as milliseconds for each submission, longest
    first.

    Parameters
    ----------
    path : Path
        The file that `AUTOGRADER_TIMINGS` named: `{"submissions": n, "wall": s, "phases": {"read":
        s, ...}}`, the phases in seconds of the process that did it, summed over the submissions.

    Returns
    -------
    dict or None
        `submissions`, `wall` (all of the command's wall time, by submission) and `phases`. None if
        there is no file.
    """
    if not path.exists():
        return None
    summary = json.loads(path.read_text(encoding="utf8"))
    count = summary["submissions"]
    phases = sorted(summary["phases"].items(), key=lambda pair: -pair[1])
    return {
        "submissions": count,
        "wall": 1e3 * summary["wall"] / count,
        "phases": {name: 1e3 * seconds / count for name, seconds in phases},
    }


# nbgrader's commands.


def stock_course(folder, name, students, config=STOCK_CONFIG):
    """Make a course of nbgrader's with one exercise of ours, released and registered, and a class
    for it.

    Parameters
    ----------
    folder : Path
        Is made anew.
    name : str
        The exercise.
    students : sequence of Path
        Folders STUDENT of a class, which hold EXERCISE/EXERCISE.ipynb.
    config : str
        What stands in `nbgrader_config.py`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "nbgrader_config.py").write_text(config, encoding="utf8")
    for kind in ("solutions", "exercises"):
        without = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        shutil.copytree(ROOT / kind / name, folder / kind / name, ignore=without)
    for student in students:
        shutil.copytree(student, folder / "submitted" / student.name)
    _register(folder, name)


def _register(folder, name):
    """Write an exercise's cells and points into a new gradebook, as nbgrader does when it
    releases.
    """
    address = f"sqlite:///{folder / 'gradebook.db'}"
    config = PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()
    course_id = config.CourseDirectory.course_id
    with Gradebook(address, course_id) as book:
        book.update_or_create_assignment(name, course_id=course_id)
    about = {"assignment": name, "notebook": name, "student": ".", "db_url": address}
    released = nbformat.read(folder / "exercises" / name / f"{name}.ipynb", as_version=4)
    SaveCells(config=config).preprocess(released, {"nbgrader": about})


def grade_stock(folder, name):
    """Grade the class of a course with nbgrader, one submission after the other, and make the
    feedback pages.

    Returns
    -------
    dict
        `seconds` of the two commands together; `fixed`, what of it does not depend on the size of
        the class; and `each`, seconds for each submission. The last two follow from when each
        submission's files were written.
    """
    total = {"seconds": 0.0, "fixed": 0.0, "each": 0.0}
    for command, made in (
        ("autograde", "autograded/*/{0}/{0}.ipynb"),
        ("generate_feedback", "feedback/*/{0}/{0}.html"),
    ):
        seconds, _ = run(["-m", "nbgrader", command, name], folder)
        written = sorted(path.stat().st_mtime for path in folder.glob(made.format(name)))
        handed_in = len(list(folder.glob("submitted/*")))
        if len(written) != handed_in or handed_in < 2:
            raise SystemExit(
                f"nbgrader {command} wrote {len(written)} of {handed_in} "
                f"submissions' files in {folder}"
            )
        each = statistics.median(after - before for before, after in itertools.pairwise(written))
        # Between the first file and the last one, all submissions but one were graded.
        total["seconds"] += seconds
        total["each"] += each
        total["fixed"] += seconds - (written[-1] - written[0]) - each
    return total


def grade_stock_in_parallel(folder, name, students, processes):
    """Deal a class out to several nbgrader processes at one time, each with a course and a
    gradebook of its own.

    Returns
    -------
    dict, dict
        As `grade_stock` returns it: the wall seconds of all; the mean of `fixed`; and the mean of
        `each`, divided by the number of processes. And the scores, as `scores` returns them.
    """
    courses = [folder / f"slice{number}" for number in range(processes)]
    for number, course in enumerate(courses):
        stock_course(course, name, students[number::processes])
    start = time.perf_counter()
    with ThreadPoolExecutor(processes) as pool:
        parts = list(pool.map(lambda course: grade_stock(course, name), courses))
    seconds = time.perf_counter() - start
    together = {}
    for course in courses:
        together.update(scores(course))
        shutil.rmtree(course)
    mean = {key: sum(part[key] for part in parts) / processes for key in ("fixed", "each")}
    return {"seconds": seconds, "fixed": mean["fixed"], "each": mean["each"] / processes}, together


# What came of it.


def scores(folder, name=None):
    """Return the score and the points of each cell that a machine graded, by student and cell, from
    a gradebook.

    Of a gradebook with several exercises, those of the one that is named.
    """
    path, grades = folder / "gradebook.db", {}
    with Gradebook(f"sqlite:///{path}") as book:
        assignments = [book.find_assignment(name)] if name else book.assignments
        submissions = itertools.chain(*(assignment.submissions for assignment in assignments))
        for submission in submissions:
            graded = itertools.chain(*(notebook.grades for notebook in submission.notebooks))
            for grade in graded:
                # Written answers and cells that wait for a person have no score of a machine.
                if grade.auto_score is None or grade.cell_type != "code":
                    continue
                key = (submission.student.id, grade.name)
                if key in grades:
                    raise SystemExit(f"{key} stands twice in {path}")
                grades[key] = (grade.score, grade.max_score)
    return grades


def not_full(grades, waiting=None):
    """Return the cells that did not get full points, as lines to read, less those that wait for
    a GPU, by cell.
    """
    return [
        f"{student} {cell}: {score:g} of {points:g}"
        for (student, cell), (score, points) in sorted(grades.items())
        if abs(score + (waiting or {}).get(cell, 0.0) - points) > TOLERANCE
    ]


def differences(ours, theirs):
    """Compare grades for every student in `theirs`; return what differs, as lines to read, in two
    lists.

    The first has cells where one grader gives full points and the other does not, or has no grade:
    one of them is at fault. The second has cells that neither gives full points, and that get other
    parts of them. The two draw other inputs, and only the first check that a wrong answer fails
    must fail it for every draw.
    """
    serious, partial = [], []
    students = {student for student, _ in theirs}
    for student, cell in sorted({key for key in ours if key[0] in students} | set(theirs)):
        one, other = ours.get((student, cell)), theirs.get((student, cell))
        if one and other and abs(one[0] - other[0]) <= TOLERANCE:
            continue
        line = (
            f"{student} {cell}: {one[0] if one else 'no grade'} and "
            f"{other[0] if other else 'no grade'}"
        )
        if one and other and _is_full(one) == _is_full(other):
            partial.append(line)
        else:
            serious.append(line)
    return serious, partial


def _is_full(grade):
    score, points = grade
    return abs(score - points) <= TOLERANCE


def records(into, name):
    """Return the paths of an exercise's records, one for each graded submission."""
    return list(into.glob(f"autograded/*/{name}/grade.json"))


def pages(into, name):
    """Return how many feedback pages there are for an exercise."""
    return len(list(into.glob(f"feedback/*/{name}/{name}.html")))

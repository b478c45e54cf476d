"""What stock nbgrader does with the hostile submissions:

    PYTHONPATH=tests .venv/bin/python -m hostile.stock [CASE ...]

Each case is graded in its own copy of a toy course, with nbgrader's default settings, together with
an innocent student who comes after it in the same batch. With names, only those cases are run
again. The outcomes are written to stock.json, and what the book shows of them to
book/data/hostile.json.
"""

import contextlib
import ctypes
import datetime
import hashlib
import json
import multiprocessing
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import nbformat
import psutil
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.utils import capture_log  # noqa: F401 (loaded before the first fork)
from traitlets.config import Config, PyFileConfigLoader

from autograder.authoring import json_entries
from autograder.authoring.release import release
from autograder.course.config import ROOT, Course
from autograder.sandbox.inside import linux
from hostile import CASES, GROUPS, TOY
from hostile.case import ALL, NEIGHBOUR, RIGHT, TOKEN, WORK, live, save

STOCK = Path(__file__).parent / "stock.json"
"""What stock nbgrader did with each case, where that differs from `USUAL`."""

COUNTS = ROOT / "book" / "data" / "hostile.json"
"""How many cases have which outcome, for the book."""

USUAL = {
    "points": list(ALL.values()),
    "reason": "",
    "leaked": False,
    "altered": False,
    "left_behind": 0,
    "no_page": False,
    "live_script": False,
    "batch_stopped": False,
}
"""All points for the check cells (None: no grade, for that reason), and no harm."""

HARMS = ("leaked", "altered", "left_behind", "no_page", "live_script", "batch_stopped")
SECONDS = 90
MOST_DEPTH = 40
MOST_FILES = 128
MOST_MEMORY = 8 << 30
"""Open files, and bytes of memory, of a process: one that takes all that it may have would take
the machine.
"""

CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "toy"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "__pycache__", "*.pyc", "[0-9][0-9]-*.py"]
c.ExecutePreprocessor.timeout = 20
"""


def make_course(root):
    """Make the toy course that every case gets a copy of, with the submission of another student;
    return its released notebook.
    """
    shutil.copytree(TOY, root)
    (root / "nbgrader_config.py").write_text(CONFIG)
    course = Course(root=root, output_folder=root)
    released = release(course, course.sources()[0])
    notebook = nbformat.read(released / "01-toy.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = RIGHT.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    notebook.cells.append(nbformat.v4.new_markdown_cell(WORK))
    folder = root / "submitted" / NEIGHBOUR / "01-toy"
    folder.mkdir(parents=True)
    save(notebook, folder)
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "toy") as book:
        book.update_or_create_student(NEIGHBOUR, last_name="Next-Door")
    return released / "01-toy.ipynb"


def grade(root, student, results, plain):
    """Autograde the batch and make the student's feedback page; runs in a process of its own.

    If `plain`, root has no more rights there than the owner of its files.
    """
    os.setsid()
    os.chdir(root)
    if plain:
        linux.drop_capabilities()
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with (root.parent / "log.txt").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    config = Config(PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config())
    config.CourseDirectory.root = str(root)
    result = {"log": "", "raised": ""}
    try:
        api = NbGraderAPI(config=config)
        result["log"] = str(api.autograde("01-toy", "*"))
        results.write_text(json.dumps(result))
        if (root / "autograded" / student / "01-toy").exists():
            result["feedback"] = str(api.generate_feedback("01-toy", student))
    except BaseException:
        result["raised"] = traceback.format_exc()
    results.write_text(json.dumps(result))
    os._exit(0)


def points_of(root, student):
    """Return the points of the check cells as the gradebook has them (None: none), and what was
    altered in it.
    """
    points = {"check_add": None, "check_twice": None}
    altered = []
    try:
        with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "toy") as book:
            for submission in book.assignment_submissions("01-toy"):
                for notebook in submission.notebooks:
                    for grade in notebook.grades:
                        if grade.manual_score is not None or grade.extra_credit:
                            altered.append(f"{submission.student.id}: points entered by hand")
                        if submission.student.id == student and grade.name in points:
                            graded = grade.auto_score is not None
                            points[grade.name] = grade.score if graded else None
            most = {
                cell.name: cell.max_score
                for cell in book.find_notebook("01-toy", "01-toy").grade_cells
            }
            if most != {"check_add": 4, "check_twice": 2, "proof": 3}:
                altered.append(f"maximum points {most}")
            if book.find_student(NEIGHBOUR).last_name != "Next-Door":
                altered.append("another student's name")
            try:
                next_door = book.find_submission("01-toy", NEIGHBOUR).score
            except Exception:
                next_door = None
    except Exception as error:
        return points, [f"unreadable: {type(error).__name__}"], None
    return points, altered, next_door


def snapshot(root, student):
    """Return a fingerprint of each file of a course that grading this student should not change."""
    expected = [root / "gradebook.db", root / "feedback"]
    expected += [root / "autograded" / name / "01-toy" for name in (student, NEIGHBOUR)]
    prints = {}
    for path in files_below(root):
        if path.name in ("gradebook.db-journal", "timestamp.txt"):
            continue
        if not any(path.is_relative_to(folder) for folder in expected):
            prints[str(path.relative_to(root))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return prints


def files_below(folder):
    """Yield the plain files below a folder, except those that are too deep for Python."""
    for parent, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in ("__pycache__", ".ipynb_checkpoints")]
        if len(Path(parent).relative_to(folder).parts) > MOST_DEPTH:
            names[:] = []
        for name in files:
            path = Path(parent) / name
            with contextlib.suppress(OSError):  # its path is too long
                if path.is_file() and not path.is_symlink():
                    yield path


def left_behind():
    """End the processes that are still there, and return their number."""
    time.sleep(0.5)
    alive = living_children()
    if alive:
        time.sleep(1)
        alive = [child for child in alive if is_alive(child)]
    count = len(alive)
    while alive:
        for child in alive:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(alive, timeout=2)
        alive = living_children()
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return count


def living_children():
    return [child for child in psutil.Process().children(recursive=True) if is_alive(child)]


def is_alive(process):
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def reason_of(result, exit_code):
    """Return in a word why a submission was not graded."""
    if exit_code is None:
        return f"longer than {SECONDS} seconds"
    if exit_code:
        return "the grader was killed"
    names = re.findall(
        r"\b(?:\w+\.)*([A-Z]\w*(?:Error|Exception|Checksums|Kernel|Entry|Old))\b", str(result)
    )
    names = [name for name in names if name not in ("NbGraderException", "CalledProcessError")]
    if "checksum" in str(result).lower():
        return "inconsistent checksums"
    return names[-1] if names else "no reason is named"


@contextlib.contextmanager
def _folder():
    """Make a folder, and remove it with folders in it that are too deep for Python."""
    name = tempfile.mkdtemp(prefix="stock-")
    try:
        yield Path(name)
    finally:
        subprocess.run(["rm", "-rf", name], check=False)


def run(case, course, released):
    """Grade one case on stock nbgrader and return what happened."""
    student = case.student or case.name
    with _folder() as folder:
        root = folder / "a" / "course"
        shutil.copytree(course, root)
        case.write(released, root / "submitted")
        before = snapshot(root, student)
        results = folder / "results.json"
        arguments = (root, student, results, case.root_reads)
        process = multiprocessing.get_context("fork").Process(target=grade, args=arguments)
        process.start()
        process.join(SECONDS)
        exit_code = process.exitcode
        if exit_code is None:
            process.kill()
            process.join()
        processes = left_behind()
        try:
            result = json.loads(results.read_text())
        except (OSError, ValueError):
            result = {}
        points, altered, next_door = points_of(root, student)
        changed = snapshot(root, student) != before
        page = graded = ""
        for path in files_below(root / "feedback" / student):
            page += path.read_text(errors="replace") if path.suffix == ".html" else ""
        for path in files_below(root / "autograded" / student):
            graded += path.read_text(errors="replace") if path.suffix == ".ipynb" else ""
    ungraded = None in points.values()
    return {
        "points": list(points.values()),
        "reason": reason_of(result, exit_code) if ungraded and not any(points.values()) else "",
        "leaked": bool(case.secret) and (case.secret in page or case.secret in graded),
        "altered": bool(altered or changed),
        "left_behind": processes,
        "no_page": not ungraded and not page,
        "live_script": bool(live(page)),
        "batch_stopped": next_door is None,
    }


def in_words(row):
    """Return what happened to one case, in words."""
    points = row["points"]
    outcome = f"{sum(score or 0 for score in points):g} of 6 points"
    if row["reason"]:
        outcome = f"not graded: {row['reason']}"
    elif None in points:
        outcome += ", and one check without any"
    processes = row["left_behind"]
    harms = {
        "shows what is not its own": row["leaked"],
        "altered what is not its own": row["altered"],
        f"{processes} process{'es' * (processes > 1)} left behind": processes,
        "no feedback page": row["no_page"],
        "a live script in the feedback": row["live_script"],
        "the next student was not graded either": row["batch_stopped"],
    }
    return "; ".join([outcome, *(harm for harm, happened in harms.items() if happened)])


def recorded():
    """Return `stock.json`, each case with all keys of `USUAL`."""
    document = json.loads(STOCK.read_text(encoding="utf-8")) if STOCK.exists() else {"cases": {}}
    document["cases"] = {name: {**USUAL, **row} for name, row in document["cases"].items()}
    return document


def harms(case, row):
    """Return how the recorded outcome of a case differs from the required one: `HARMS`, "more" or
    "less" points, "ungraded".
    """
    differences = [
        (score or 0) - case.points[name] for name, score in zip(ALL, row["points"], strict=True)
    ]
    found = [harm for harm in HARMS if row[harm]]
    if None in row["points"]:
        found.append("ungraded")
    if max(differences) > 1e-6:
        found.append("more")
    elif None not in row["points"] and min(differences) < -1e-6:
        found.append("less")
    return found


def counts():
    """Return what the book shows: the required outcomes of each group, and the recorded ones."""
    document = recorded()
    by_name = {case.name: case for case in CASES}
    outcomes = Counter(
        harm
        for name, row in document["cases"].items()
        for harm in harms(by_name[name], row) or ["same"]
    )
    return {
        "groups": {
            name: {"cases": len(cases), **Counter(str(case.kind) for case in cases)}
            for name, cases in GROUPS.items()
        },
        "stock": {
            **{key: document[key] for key in ("date", "nbgrader", "python")},
            "cases": len(document["cases"]),
            "outcomes": dict(sorted(outcomes.items())),
        },
    }


def record(names):
    """Run the cases of these names, or all of them, and record their outcomes; print a line for
    each.
    """
    unknown = sorted(set(names) - {case.name for case in CASES})
    if unknown:
        sys.exit(f"There is no case {unknown[0]!r} in tests/hostile/.")
    os.nice(10)
    os.environ["GRADERS_TOKEN"] = TOKEN
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans come to this process, which ends them
    rows = {}
    if names and STOCK.exists():
        rows = json.loads(STOCK.read_text(encoding="utf-8"))["cases"]
    with tempfile.TemporaryDirectory(prefix="stock-") as home:
        os.environ["HOME"] = home
        course = Path(home) / "course"
        released = make_course(course)
        chosen = [case for case in CASES if not names or case.name in names]
        for number, case in enumerate(chosen, 1):
            start = time.monotonic()
            row = run(case, course, released)
            rows[case.name] = {key: value for key, value in row.items() if value != USUAL[key]}
            document = {
                "date": f"{datetime.date.today():%Y-%m-%d}",
                "nbgrader": version("nbgrader"),
                "python": platform.python_version(),
                "cases": {case.name: rows[case.name] for case in CASES if case.name in rows},
            }
            json_entries.write(STOCK, document)
            seconds = time.monotonic() - start
            print(f"{number}/{len(chosen)} {case.name} ({seconds:.0f} s): {in_words(row)}")
    json_entries.write(COUNTS, counts())


if __name__ == "__main__":
    record(sys.argv[1:])

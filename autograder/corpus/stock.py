"""What stock nbgrader does with the corpus: `python -m autograder stock [CASE ...]` writes
stock.json.

Each case is graded in a copy of its own of a fresh toy course, with nbgrader's plain settings,
together with an innocent student who comes after it in the same batch. With names, only those cases
are run again.
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
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import psutil
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.utils import capture_log  # noqa: F401 (loaded before the first fork)
from traitlets.config import Config, PyFileConfigLoader

from autograder.authoring import json_entries
from autograder.course.config import UserError
from autograder.sandbox.inside import kernel

if TYPE_CHECKING:
    from autograder.corpus.case import Case

HERE = Path(__file__).resolve().parent
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


def make_course(root: Path) -> Path:
    """Make the released toy course that every case gets a copy of, and return its neighbour's
    submission.
    """
    from autograder.authoring.release import release
    from autograder.corpus.case import NEIGHBOUR, RIGHT, WORK, save
    from autograder.course.config import Course

    shutil.copytree(HERE / "toy", root)
    (root / "nbgrader_config.py").write_text(CONFIG)
    course = Course(root=root, into=root)
    released: Path = release(course, course.sources()[0])
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


def grade(root: Path, student: str, results: Path, plain: bool) -> None:
    """Autograde the batch and make the student's feedback page; runs in a process of its own.

    If `plain`, root has no more rights there than the owner of its files.
    """
    os.setsid()
    os.chdir(root)
    if plain:
        kernel.drop_capabilities()
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with (root.parent / "log.txt").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    config = Config(PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config())
    config.CourseDirectory.root = str(root)
    found = {"log": "", "raised": ""}
    try:
        api = NbGraderAPI(config=config)
        found["log"] = str(api.autograde("01-toy", "*"))
        results.write_text(json.dumps(found))
        if (root / "autograded" / student / "01-toy").exists():
            found["feedback"] = str(api.generate_feedback("01-toy", student))
    except BaseException:
        found["raised"] = traceback.format_exc()
    results.write_text(json.dumps(found))
    os._exit(0)


def points_of(root: Path, student: str) -> tuple[dict[str, float | None], list[str], float | None]:
    """Return the points of the check cells as the gradebook has them (None: none), and what was
    altered in it.
    """
    from autograder.corpus.case import NEIGHBOUR

    points: dict[str, float | None] = {"check_add": None, "check_twice": None}
    altered: list[str] = []
    try:
        with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "toy") as book:
            for submission in book.assignment_submissions("01-toy"):
                for notebook in submission.notebooks:
                    for own in notebook.grades:
                        if own.manual_score is not None or own.extra_credit:
                            altered.append(f"{submission.student.id}: points entered by hand")
                        if submission.student.id == student and own.name in points:
                            points[own.name] = None if own.auto_score is None else own.score
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


def snapshot(root: Path, student: str) -> dict[str, str]:
    """Return a fingerprint of each file of a course that grading this student has no business to
    change.
    """
    ours = [root / "gradebook.db", root / "autograded" / student / "01-toy", root / "feedback"]
    ours.append(root / "autograded" / "zoe-next-door" / "01-toy")
    prints = {}
    for path in files_below(root):
        if path.name in ("gradebook.db-journal", "timestamp.txt") or any(
            path.is_relative_to(own) for own in ours
        ):
            continue
        prints[str(path.relative_to(root))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return prints


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the plain files below a folder, but those so deep that walking there would be too
    much for Python.
    """
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in ("__pycache__", ".ipynb_checkpoints")]
        if len(Path(place).relative_to(folder).parts) > MOST_DEPTH:
            names[:] = []
        for name in files:
            path = Path(place) / name
            with contextlib.suppress(OSError):  # no path can name it
                if path.is_file() and not path.is_symlink():
                    yield path


def left_behind() -> int:
    """Return the processes that are still there, and end them."""
    time.sleep(0.5)
    left = [child for child in psutil.Process().children(recursive=True) if alive(child)]
    if left:
        time.sleep(1)
        left = [child for child in left if alive(child)]
    count = len(left)
    while left:
        for child in left:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(left, timeout=2)
        left = [child for child in psutil.Process().children(recursive=True) if alive(child)]
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return count


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def reason_of(found: dict[str, str], exit_code: int | None) -> str:
    """Return in a word why a submission was not graded."""
    if exit_code is None:
        return f"longer than {SECONDS} seconds"
    if exit_code:
        return "the grader was killed"
    names = re.findall(
        r"\b(?:\w+\.)*([A-Z]\w*(?:Error|Exception|Checksums|Kernel|Entry|Old))\b", str(found)
    )
    names = [name for name in names if name not in ("NbGraderException", "CalledProcessError")]
    if "checksum" in str(found).lower():
        return "inconsistent checksums"
    return names[-1] if names else "no reason is named"


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder, and remove it with folders in it that are too deep for Python."""
    name = tempfile.mkdtemp(prefix="stock-")
    try:
        yield Path(name)
    finally:
        subprocess.run(["rm", "-rf", name], check=False)  # noqa: S607 (a folder of our own making)


def run(case: "Case", course: Path, released: Path) -> dict[str, Any]:
    """Grade one case on stock nbgrader and return what happened."""
    from autograder.corpus.case import live

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
        stayed = left_behind()
        try:
            found = json.loads(results.read_text())
        except (OSError, ValueError):
            found = {}
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
        "reason": reason_of(found, exit_code) if ungraded and not any(points.values()) else "",
        "leaked": bool(case.secret) and (case.secret in page or case.secret in graded),
        "altered": bool(altered or changed),
        "left_behind": stayed,
        "no_page": not ungraded and not page,
        "live_script": bool(live(page)),
        "batch_stopped": next_door is None,
    }


def said(row: dict[str, Any]) -> str:
    """Return what happened to one case, in words."""
    points = row["points"]
    got = f"{sum(own or 0 for own in points):g} of 6 points"
    if None in points:
        got = (
            f"not graded: {row['reason']}" if row["reason"] else f"{got}, and one check without any"
        )
    stayed = row["left_behind"]
    harms = {
        "shows what is not its own": row["leaked"],
        "altered what is not its own": row["altered"],
        f"{stayed} process{'es' * (stayed > 1)} left behind": stayed,
        "no feedback page": row["no_page"],
        "a live script in the feedback": row["live_script"],
        "the next student was not graded either": row["batch_stopped"],
    }
    return "; ".join([got, *(what for what, happened in harms.items() if happened)])


def record(names: Sequence[str] = ()) -> Iterator[str]:
    """Run the cases of these names, or all of them, and write down what came of it; yield a line
    for each.

    Raises
    ------
    UserError
        If there is no case of that name.
    """
    from autograder.corpus import CASES, STOCK, USUAL
    from autograder.corpus.case import TOKEN

    for name in names:
        if name not in {case.name for case in CASES}:
            raise UserError(f"There is no case {name!r} in autograder/corpus/.")
    os.nice(10)
    os.environ["GRADERS_TOKEN"] = TOKEN
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans come to this process, which ends them
    rows = (
        json.loads(STOCK.read_text(encoding="utf-8"))["cases"] if STOCK.exists() and names else {}
    )
    with tempfile.TemporaryDirectory(prefix="stock-") as home:
        os.environ["HOME"] = home
        course = Path(home) / "course"
        released = make_course(course)
        chosen = [case for case in CASES if not names or case.name in names]
        for place, case in enumerate(chosen, 1):
            start = time.monotonic()
            row = run(case, course, released)
            rows[case.name] = {key: value for key, value in row.items() if value != USUAL[key]}
            seconds = time.monotonic() - start
            document = {
                "date": f"{datetime.date.today():%Y-%m-%d}",
                "nbgrader": version("nbgrader"),
                "python": platform.python_version(),
                "cases": {own.name: rows[own.name] for own in CASES if own.name in rows},
            }
            json_entries.write(STOCK, document)
            yield f"{place}/{len(chosen)} {case.name} ({seconds:.0f} s): {said(row)}"

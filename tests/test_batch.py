"""A class in one batch: any number of workers, killed at any moment, gives the same grades; nothing is lost."""

import contextlib
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from hostile.case import RIGHT, WRONG
from nbgrader.api import Gradebook

from autograder import grade, gradebook, pool, submission, work
from autograder.course import ROOT, Course
from autograder.limits import Limits
from autograder.release import release

HERE = Path(__file__).parent
COUNT = 24
RUN = """
import functools, sys
if __name__ == "__main__":
    from pathlib import Path
    from autograder import cli
    from autograder.course import Course
    cli.Course = functools.partial(Course, root=Path(sys.argv[1]))
    sys.argv = ["autograder", "grade", *sys.argv[2:]]
    cli.main()
"""


@pytest.fixture(scope="module")
def course(isolated, tmp_path_factory):
    """A toy course and a class of right, wrong, deadly and malformed submissions; the command that grades it."""
    root = tmp_path_factory.mktemp("batch")
    shutil.copytree(HERE / "toy", root, dirs_exist_ok=True)
    text = (ROOT / "nbgrader_config.py").read_text() + "\nc.Limits.cpu_seconds = 3\n"
    (root / "nbgrader_config.py").write_text(text)
    (root / "run.py").write_text(RUN)
    own = Course(root=root, into=root)
    release(own, own.exercises()[0])
    draw = random.Random(3)
    odd = {"add": "import os\nos._exit(0)", "twice": "def twice(a):\n    import os\n    os.abort()"}
    for number in range(COUNT):
        folder = root / "submitted" / f"s{number:02}" / "01-toy"
        folder.mkdir(parents=True)
        notebook = nbformat.read(own.exercises()[0].notebook, as_version=4)
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in RIGHT:
                texts = [RIGHT[name]] * 3 + [WRONG.get(name, ""), odd.get(name, "")]
                cell.source = f"{draw.choice(texts)}\n# {number}"
        (folder / "01-toy.ipynb").write_text("{" if number == 7 else nbformat.writes(notebook))
    return own


def command(course, into, *more):
    arguments = [course.root, "--submitted", course.root / "submitted", "--into", into, *more]
    return [sys.executable, str(course.root / "run.py"), *map(str, arguments)]


def grades(into, course):
    """Return what was graded: by student the score, the reasons, the seed, and what the gradebook has."""
    found = {}
    with Gradebook(f"sqlite:///{into / 'gradebook.db'}", course.course_id) as book:
        for own in book.find_assignment("01-toy").submissions:
            record = json.loads((into / "autograded" / own.student.id / "01-toy" / grade.RECORD).read_text())
            assert own.score == record["score"] and len(own.notebooks) == 1
            assert (into / "feedback" / own.student.id / "01-toy" / "01-toy.html").stat().st_size > 1000
            found[own.student.id] = (own.score, tuple(grade.reasons(record)), record["seed"], len(record["history"]))
    return found


def with_secret(into):
    """Make a folder for grades with the course's secret, so that draws can be compared between folders."""
    into.mkdir(parents=True)
    (into / ".course-secret").write_text("one for all these tests\n")
    return into


@pytest.fixture(scope="module")
def undisturbed(course, tmp_path_factory):
    into = with_secret(tmp_path_factory.mktemp("grades") / "one")
    run = subprocess.run(command(course, into, "--jobs", 1), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    found = grades(into, course)
    assert len(found) == COUNT and len({score for score, *_ in found.values()}) > 3
    return found


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [2, 8])
def test_any_number_of_workers_gives_the_same_grades(course, undisturbed, tmp_path, jobs):
    into = with_secret(tmp_path / "many")
    # Beside it, more work than the machine has cores for: an overloaded machine changes no grade.
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        run = subprocess.run(command(course, into, "--jobs", jobs), capture_output=True, text=True)
    finally:
        for own in load:
            own.kill()
    assert run.returncode == 0, run.stderr[-2000:]
    assert grades(into, course) == undisturbed


@pytest.mark.slow
def test_killed_three_times_and_started_again_nothing_is_lost_or_done_twice(course, undisturbed, tmp_path):
    into = with_secret(tmp_path / "killed")
    before = {own.pid for own in psutil.process_iter() if own.name() in ("bwrap", "python", "python3")}
    draw, counts = random.Random(os.urandom(8)), []
    for _ in range(3):
        own = subprocess.Popen(
            command(course, into, "--jobs", 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        family = [psutil.Process(own.pid)]
        goal, deadline = draw.randint(1, 4) + (counts[-1] if counts else 0), time.monotonic() + 60
        while len(list(into.glob(f"autograded/*/01-toy/{grade.RECORD}"))) < goal and time.monotonic() < deadline:
            time.sleep(0.01)
        family += family[0].children(recursive=True)
        time.sleep(draw.random() / 10)
        os.kill(own.pid, signal.SIGKILL)
        own.wait()
        assert not psutil.wait_procs(family, timeout=10)[1], "something outlived the killed command"
        counts.append(len(list(into.glob(f"autograded/*/01-toy/{grade.RECORD}"))))
    assert 0 < counts[0] <= counts[1] <= counts[2] < COUNT
    run = subprocess.run(command(course, into, "--jobs", 2), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert f"{counts[2]} unchanged and not graded again" in run.stdout
    assert grades(into, course) == undisturbed  # histories too: no submission has a second record
    bwraps = [own for own in psutil.process_iter(["name", "status"]) if own.info["name"] == "bwrap"]
    assert not [own for own in bwraps if own.pid not in before and own.info["status"] != psutil.STATUS_ZOMBIE]


def kill_a_worker():
    """Kill one of this process's workers: a child of its fork server."""
    for own in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "forkserver" in " ".join(own.cmdline()) and "forkserver" in " ".join(own.parent().cmdline()):
                own.kill()
                return 1
    return 0


def setting_of(course, **limits):
    exercise = course.exercises()[0]
    own = pool.Setting(str(course.root), (exercise.name,), {**Limits().plain(), **limits}, True, (str(course.root),))
    items = submission.find(course, [exercise], course.root / "submitted")
    return own, items, {exercise.name: grade.exercise_digest(exercise)}


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_submissions_graded(course, undisturbed, tmp_path):
    into = with_secret(tmp_path / "worker")
    here = Course(root=course.root, into=into)
    own, items, versions = setting_of(course, cpu_seconds=3)
    grade.prepare(here, [course.exercises()[0]], items, course.root / "submitted")
    killed, seen = 0, 0
    with gradebook.opened(here) as book:
        for _ in grade.grade_all(here, book, items, versions, own, pool.nursery(own), jobs=2):
            seen += 1
            if seen in (3, 10):
                killed += kill_a_worker()
    assert killed >= 2 and grades(into, course) == undisturbed


def test_what_crosses_the_queues_of_workers_is_written_at_once(tmp_path, monkeypatch):
    """A worker killed in the middle of a longer message would hang the batch: the rest of it never comes."""
    large = "x" * 1_000_000
    monkeypatch.setattr(work, "_worker", SimpleNamespace(grade=lambda unit: {"notebook": unit}, page=lambda: 1 / 0))
    for name, arguments, answer in [("grade", (large,), {"notebook": large}), ("page", (), ZeroDivisionError)]:
        asked = tmp_path / name
        asked.write_bytes(pickle.dumps((name, arguments)))
        told = work.call(asked)
        assert len(pickle.dumps(told)) < 512 and not asked.exists()
        found = pickle.loads(told.read_bytes())
        assert found == answer or answer.__name__ in str(found)


@pytest.mark.slow
def test_a_submission_that_kills_its_worker_is_our_fault_and_costs_nothing(course, tmp_path, monkeypatch):
    into = with_secret(tmp_path / "fault")
    here = Course(root=course.root, into=into)
    own, items, versions = setting_of(course)
    exercise = Course(root=tmp_path / "broken", into=into)
    shutil.copytree(course.root, exercise.root, ignore=shutil.ignore_patterns("submitted"))
    checks = exercise.root / "exercises" / "01-toy" / "checks.py"
    checks.write_text(checks.read_text() + "\nimport os\nif os.path.exists('/proc/self'): os.kill(os.getpid(), 9)\n")
    own = pool.Setting(str(exercise.root), own.exercises, own.limits, True, own.hidden)
    grade.prepare(here, [course.exercises()[0]], items[:2], course.root / "submitted")
    with gradebook.opened(here) as book:
        records = [
            record for record, _ in grade.grade_all(here, book, items[:2], versions, own, pool.nursery(own), jobs=2)
        ]
        assert [record["kind"] for record in records] == ["infrastructure"] * 2
        assert all(record["needs_manual_grade"] and "our own fault" in record["reason"] for record in records)
        for record in records:
            found = book.find_submission("01-toy", record["student"])
            assert all(own.auto_score is None for own in found.notebooks[0].grades if own.name.startswith("check"))
    own, _, _ = setting_of(course)
    with gradebook.opened(here) as book:  # mended, they are graded without being asked for
        records = [
            record
            for record, old in grade.grade_all(here, book, items[:2], versions, own, pool.nursery(own), jobs=2)
            if not old
        ]
    assert len(records) == 2 and all(record["kind"] != "infrastructure" for record in records)


@pytest.mark.slow
def test_a_folder_that_changes_while_it_is_graded_gets_the_grade_of_what_was_read(course, tmp_path):
    into, class_ = with_secret(tmp_path / "changing"), tmp_path / "submitted"
    shutil.copytree(course.root / "submitted" / "s01", class_ / "s01")
    here = Course(root=course.root, into=into)
    own, _, versions = setting_of(course)
    items = submission.find(course, [course.exercises()[0]], class_)
    grade.prepare(here, [course.exercises()[0]], items, class_)

    def vanish(item):
        shutil.rmtree(item.folder)

    with gradebook.opened(here) as book:
        graded = grade.grade_all(here, book, items, versions, own, pool.nursery(own), jobs=1, on_start=vanish)
        record, _ = next(graded)
        assert record["kind"] == "malformed" and "no 01-toy.ipynb" in record["reason"]
        graded.close()


@pytest.mark.slow
def test_a_full_disk_is_one_clear_line_and_the_next_run_goes_on(course, undisturbed, tmp_path):
    if os.getuid():
        pytest.skip("needs root, to mount a small disk")
    into = tmp_path / "small"
    into.mkdir()
    script = (
        f"mount -t tmpfs -o size=700k tmpfs {into} && echo 'one for all these tests' > {into}/.course-secret && "
        + " ".join(f"'{part}'" for part in command(course, into, "--jobs", 2))
        + f"; code=$?; mount -o remount,size=90m {into}; "
        + " ".join(f"'{part}'" for part in command(course, into, "--jobs", 2))
        + f" > {tmp_path}/second.txt 2>&1; echo second $?; cp -r {into} {tmp_path}/kept; exit $code"
    )
    run = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    assert run.returncode == 1 and "Traceback" not in run.stderr, run.stderr[-2000:]
    said = " ".join(run.stderr.split())
    assert "No space left" in said or "disk is full" in said or "readonly" in said, said[-500:]
    assert "second 0" in run.stdout, (tmp_path / "second.txt").read_text()[-2000:]
    found = grades(tmp_path / "kept", course)
    assert {name: own[:3] for name, own in found.items()} == {name: own[:3] for name, own in undisturbed.items()}


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["raises", "dies"])
def test_a_page_that_cannot_be_made_costs_no_grade(course, tmp_path, fault):
    into = with_secret(tmp_path / "page")
    here = Course(root=course.root, into=into)
    own, items, versions = setting_of(course)
    grade.prepare(here, [course.exercises()[0]], items[:2], course.root / "submitted")
    submit = pool.Workers.submit

    def faulty(workers, name, *arguments):
        if name == "page":
            return workers.executor.submit(_raise if fault == "raises" else _die)
        return submit(workers, name, *arguments)

    with gradebook.opened(here) as book, pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool.Workers, "submit", faulty)
        records = [
            record for record, _ in grade.grade_all(here, book, items[:2], versions, own, pool.nursery(own), jobs=1)
        ]
    assert len(records) == 2 and all(record["kind"] != "infrastructure" for record in records)
    page = (into / "feedback" / records[0]["student"] / "01-toy" / "01-toy.html").read_text()
    assert "our own fault" in page and "of 9 points" in page


def _raise():
    raise ZeroDivisionError


def _die():
    os._exit(9)

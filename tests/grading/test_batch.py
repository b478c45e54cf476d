"""A class in one batch: any number of workers, killed at any moment, gives the same grades;
nothing is lost.
"""

import contextlib
import os
import queue
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from hostile.case import RIGHT, WRONG
from nbgrader.api import Gradebook
from toy_course import toy_course

from autograder.authoring.release import release
from autograder.checking.words import Message
from autograder.course import cores
from autograder.course.config import Course
from autograder.course.limits import Limits
from autograder.grades import gradebook, reasons
from autograder.grades.results import Kind
from autograder.grading import backends, batch, worker
from autograder.grading.executors import LocalExecutor
from autograder.grading.options import Options
from autograder.grading.session import Session
from autograder.grading.submissions import Submission, Unit
from autograder.grading.worker import Worker
from autograder.grading.worker_config import WorkerConfig

pytestmark = pytest.mark.long

COUNT = 24


@pytest.fixture(scope="module")
def course(isolated, tmp_path_factory):
    """A toy course and a class of right, wrong, deadly and malformed submissions; the command
    that grades it.
    """
    root = tmp_path_factory.mktemp("batch")
    course = toy_course(root, "\nc.Limits.cpu_seconds = 3\n")
    release(course, course.sources()[0])
    draw = random.Random(3)
    odd = {"add": "import os\nos._exit(0)", "twice": "def twice(a):\n    import os\n    os.abort()"}
    for number in range(COUNT):
        folder = root / "submitted" / f"s{number:02}" / "01-toy"
        folder.mkdir(parents=True)
        notebook = nbformat.read(course.exercises()[0].notebook, as_version=4)
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in RIGHT:
                texts = [RIGHT[name]] * 3 + [WRONG.get(name, ""), odd.get(name, "")]
                cell.source = f"{draw.choice(texts)}\n# {number}"
        (folder / "01-toy.ipynb").write_text("{" if number == 7 else nbformat.writes(notebook))
    return course


def command(course, into, *more):
    arguments = ["--course", course.root, "--into", into, *more]
    return [sys.executable, "-m", "autograder", "grade", *map(str, arguments)]


def grades(into, course):
    """Return what was graded: by student the score, the reasons, the seed, and what the
    gradebook has.
    """
    scores = {}
    with Gradebook(f"sqlite:///{into / 'gradebook.db'}", course.course_id) as book:
        for submission in book.find_assignment("01-toy").submissions:
            record = batch.record_of(
                Course(root=course.root, output_folder=into), submission.student.id, "01-toy"
            )
            assert submission.score == record.score and len(submission.notebooks) == 1
            assert (
                into / "feedback" / submission.student.id / "01-toy" / "01-toy.html"
            ).stat().st_size > 1000
            scores[submission.student.id] = (
                submission.score,
                tuple(reasons.lines_of(record)),
                record.seed,
                len(record.history),
            )
    return scores


def with_secret(into):
    """Make a folder for grades with the course's secret, so that draws can be compared between
    folders.
    """
    into.mkdir(parents=True)
    (into / ".course-secret").write_text("one for all these tests\n")
    return into


@pytest.fixture(scope="module")
def undisturbed(course, tmp_path_factory):
    into = with_secret(tmp_path_factory.mktemp("grades") / "one")
    run = subprocess.run(command(course, into, "--jobs", 1), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    graded = grades(into, course)
    assert len(graded) == COUNT and len({score for score, *_ in graded.values()}) > 3
    return graded


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "load"), [(2, 0), (8, 2)], ids=["2", "8 beside other work"])
def test_any_number_of_workers_gives_the_same_grades(course, undisturbed, tmp_path, jobs, load):
    """Beside more work than the machine has cores for as well: an overloaded machine changes no
    grade.
    """
    into = with_secret(tmp_path / "many")
    load = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(load * cores.count())
    ]
    try:
        run = subprocess.run(command(course, into, "--jobs", jobs), capture_output=True, text=True)
    finally:
        for process in load:
            process.kill()
    assert run.returncode == 0, run.stderr[-2000:]
    assert grades(into, course) == undisturbed


@pytest.mark.slow
def test_killed_three_times_and_started_again_nothing_is_lost_or_done_twice(
    course, undisturbed, tmp_path
):
    into = with_secret(tmp_path / "killed")
    # other tests kill and leave theirs at the same time
    marked = os.environ | {"KILLED_BY_THIS_TEST": str(tmp_path)}
    seed = random.SystemRandom().randrange(2**32)
    print(f"killed at moments drawn with the seed {seed}")  # pytest shows it if the test fails
    draw, counts = random.Random(seed), []
    for _ in range(3):
        grader = subprocess.Popen(
            command(course, into, "--jobs", 2),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=marked,
        )
        family = [psutil.Process(grader.pid)]
        goal, deadline = draw.randint(1, 4) + (counts[-1] if counts else 0), time.monotonic() + 600
        while (
            len(list(into.glob("autograded/*/01-toy/grade.json"))) < goal
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        family += family[0].children(recursive=True)
        time.sleep(draw.random() / 10)
        os.kill(grader.pid, signal.SIGKILL)
        grader.wait()
        assert not psutil.wait_procs(family, timeout=10)[1], "something outlived the killed command"
        counts.append(len(list(into.glob("autograded/*/01-toy/grade.json"))))
    assert 0 < counts[0] <= counts[1] <= counts[2]
    run = subprocess.run(command(course, into, "--jobs", 2), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert f"{counts[2]} unchanged and not graded again" in run.stdout
    assert grades(into, course) == undisturbed  # histories too: no submission has a second record
    living = [
        process.info
        for process in psutil.process_iter(["pid", "name", "environ"])
        if process.info["environ"]
    ]
    assert not [
        process
        for process in living
        if process["environ"].get("KILLED_BY_THIS_TEST") == str(tmp_path)
    ]


@pytest.mark.slow
def test_a_stopped_and_continued_run_costs_no_points(course, undisturbed, tmp_path):
    into, stopping = with_secret(tmp_path / "stopped"), Course(root=tmp_path / "stopping")
    shutil.copytree(course.root, stopping.root, ignore=shutil.ignore_patterns("gradebook.db"))
    with (stopping.root / "nbgrader_config.py").open("a") as file:
        file.write("\nc.Limits.idle_seconds = 2\n")
    # Ctrl-Z stops the command and its workers, and no guest.
    run = subprocess.Popen(
        command(stopping, into, "--jobs", 2),
        process_group=0,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    stops, deadline = 0, time.monotonic() + 600
    while stops < 3 and run.poll() is None and time.monotonic() < deadline:
        if len(list(into.glob("autograded/*/01-toy/grade.json"))) > 2 * stops:
            os.killpg(run.pid, signal.SIGSTOP)
            time.sleep(4)
            os.killpg(run.pid, signal.SIGCONT)
            stops += 1
        time.sleep(0.01)
    _, errors = run.communicate(timeout=1800)
    assert stops == 3 and run.returncode == 0, errors.decode()[-2000:]
    assert grades(into, course) == undisturbed


def kill_a_worker():
    """Kill one of this process's workers: a child of its fork server."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "forkserver" in " ".join(child.cmdline()) and "forkserver" in " ".join(
                child.parent().cmdline()
            ):
                child.kill()
                return 1
    return 0


def graded(course, into, students=None, **more):
    """Grade some students of the class in this process; return the records."""
    with Session(
        Course(root=course.root, output_folder=into), course.exercises(), course.submitted, **more
    ) as session:
        session.submissions[:] = session.submissions[: students or COUNT]
        for _ in session.run():
            yield session


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_submissions_graded(course, undisturbed, tmp_path):
    into = with_secret(tmp_path / "worker")
    killed = 0
    for step, _ in enumerate(graded(course, into, jobs=2)):
        if step in (3, 10, COUNT + 3):  # while grading, and while pages are made
            killed += kill_a_worker()
    assert killed >= 2 and grades(into, course) == undisturbed


@pytest.mark.slow
def test_a_batch_has_one_warm_parent_and_leaves_nothing(course, tmp_path):
    def warm_parents():
        return [child for child in psutil.Process().children() if child.name() == "bwrap"]

    counted = {
        len(warm_parents()) for _ in graded(course, with_secret(tmp_path / "parents"), jobs=3)
    }
    assert counted == {1} and not warm_parents()


def _answers(pipe, setting, lane, core):
    """Stand in for a worker: one that sends half of a large answer, and is killed."""
    method, _ = pipe.recv()
    if method == "page":
        pipe.send("x" * 5_000_000)
    os.write(pipe.fileno(), (1_000_000).to_bytes(4, "big") + b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)


def _tells_its_core(pipe, setting, lane, core):
    """Stand in for a worker: one that answers with the core that it is given."""
    while True:
        pipe.recv()
        pipe.send(core)


WHO_ASKED_IS_GONE = """
import multiprocessing
from types import SimpleNamespace

from autograder.grading import backends, worker

class Answering:
    def __init__(self, setting, guests):
        pass

    def grade(self):
        there.close()
        return "an answer"

here, there = multiprocessing.Pipe()
there.send(("grade", ()))
worker.Worker = Answering
backends._receive_jobs = lambda pipe, jobs: jobs.put(pipe.recv())
backends._serve(here, SimpleNamespace(uses_gpu=lambda: False), None, None)
"""


def test_a_worker_without_a_reader_ends_silently():
    run = subprocess.run(
        [sys.executable, "-c", WHO_ASKED_IS_GONE], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (1, "", "")


def test_a_worker_without_memory_for_a_job_ends(monkeypatch):
    class Ended(BaseException):
        pass

    def end(status):
        raise Ended(status)

    def receive():
        raise MemoryError

    monkeypatch.setattr(os, "_exit", end)
    with pytest.raises(Ended, match="1"):
        backends._receive_jobs(SimpleNamespace(recv=receive), queue.SimpleQueue())


def test_an_answer_that_cannot_be_sent_is_the_reason():
    sent = []

    def send(answer):
        if answer == "too large":
            raise MemoryError("no room")
        sent.append(answer)

    backends._send(SimpleNamespace(send=send), "too large")
    (error,) = sent
    assert isinstance(error, RuntimeError) and str(error) == "MemoryError: no room"


@pytest.mark.parametrize(("size", "kind"), [(2, Kind.MALFORMED), (0, Kind.INFRASTRUCTURE)])
def test_only_a_large_notebook_may_be_too_large_for_the_memory(course, monkeypatch, size, kind):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr(worker, "restore", fail)
    exercise = course.exercises()[0]
    cells = [nbformat.v4.new_markdown_cell("x" * (size * worker.MODERATE))]
    data = nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()
    unit = Unit("ada", exercise.name, "01-toy.ipynb", data, Message(""), None, {})
    config = WorkerConfig.for_course(course, [exercise], Limits(), sandbox=False)
    grader = Worker(config, SimpleNamespace(start=lambda: None))
    outcome = grader.grade(unit)
    assert outcome.kind == kind
    assert ("fit into memory" in str(outcome.reason)) == (kind == Kind.MALFORMED)


@pytest.mark.slow
def test_a_worker_keeps_nothing_of_a_submission(course):
    exercise = course.exercises()[0]
    data = (course.root / "submitted" / "s00" / "01-toy" / "01-toy.ipynb").read_bytes()
    unit = Unit("s00", exercise.name, "01-toy.ipynb", data, Message(""), None, {})
    grader = Worker(WorkerConfig.for_course(course, [exercise], Limits(), sandbox=False))
    try:
        ran = []
        grader.grade(unit, on_cell=lambda cell: ran.extend(grader.judges["01-toy"].cells_run))
        assert ran and grader.judges["01-toy"].cells_run == []
    finally:
        grader.close()


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "threads"), [(1, [None]), (3, [1, 3, 1])])
def test_a_worker_uses_one_thread_where_each_core_has_a_worker(monkeypatch, jobs, threads):
    monkeypatch.setattr(backends, "_serve", _tells_its_core)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 1})
    local = backends.Local(jobs, None)
    try:
        assert [worker.core for worker in local.workers] == threads
        for number in range(jobs):
            local.submit(backends.Job(number, "grade", ()))
        settings = [local.result()[1] for _ in range(jobs)]
        assert sorted(map(str, settings)) == sorted(map(str, threads))
    finally:
        local.close()


@pytest.mark.slow
def test_a_worker_killed_during_an_answer_delays_no_other(monkeypatch):
    monkeypatch.setattr(backends, "_serve", _answers)
    local = backends.Local(2, None)
    try:
        jobs = [backends.Job(number, "grade", ("x" * 5_000_000,)) for number in range(3)]
        for job in jobs:
            local.submit(job)
        answered = [local.result() for _ in jobs]
        assert {job.key for job, _ in answered} == {0, 1, 2}
        assert all(isinstance(answer, backends.WorkerDied) for _, answer in answered)
    finally:
        local.close()


def fault(self, task, answer):
    """Stand in for `Batch._outcome`: the grader itself failed on the submission."""
    return worker.ungraded(batch._released(task), "this is a test")


@pytest.mark.slow
def test_grading_again_keeps_a_grade_on_which_the_grader_fails(course, tmp_path, monkeypatch):
    into = with_secret(tmp_path / "kept")
    before = {record.student: record.score for record in list(graded(course, into, 2))[-1].records}
    with monkeypatch.context() as patch:
        patch.setattr(batch.Batch, "_outcome", fault)
        records = list(graded(course, into, 2, options=Options(force=True)))[-1].records
        assert [record.kind for record in records] == [Kind.INFRASTRUCTURE] * 2
        # Also if the exercise was released again since.
        patch.setattr(batch.seeds, "version_of", lambda exercise: "of a newer release")
        list(graded(course, into, 2))
    last = list(graded(course, into, 2))[-1]
    assert last.kept == 2
    assert {record.student: record.score for record in last.records} == before
    assert all(record.kind != Kind.INFRASTRUCTURE for record in last.records)


@pytest.mark.slow
def test_what_is_released_during_a_batch_is_graded_again_afterwards(course, tmp_path, monkeypatch):
    into = with_secret(tmp_path / "released")

    def release_meanwhile(number):
        monkeypatch.setattr(batch.seeds, "version_of", lambda exercise: "of a newer release")
        return []

    assert list(graded(course, into, 2, options=Options(next_submissions=release_meanwhile)))
    assert list(graded(course, into, 2))[-1].kept == 0
    assert list(graded(course, into, 2))[-1].kept == 2


@pytest.mark.slow
def test_work_is_graded_again_if_the_gradebook_has_other_points(course, tmp_path):
    """Such as one that was restored from a backup; what a person gave stays."""
    into = with_secret(tmp_path / "restored")
    records = list(graded(course, into, 3))[-1].records
    here = Course(root=course.root, output_folder=into)
    with gradebook.opened(here) as book:
        for record, (name, points) in zip(
            records,
            [("auto_score", 0.25), ("manual_score", 1.5), ("extra_credit", 1.0)],
            strict=True,
        ):
            (row,) = [
                grade
                for grade in book.find_submission("01-toy", record.student).notebooks[0].grades
                if grade.name == "check_add"
            ]
            setattr(row, name, points)
        book.db.commit()
    session = list(graded(course, into, 3))[-1]
    assert session.kept == 2
    (again,) = [record for record in session.records if record.history]
    assert (again.student, again.score) == (records[0].student, records[0].score)
    (line,) = session.missing_grades()
    assert line.startswith("1 submission was graded again, because the gradebook ")
    last = list(graded(course, into, 3))[-1]
    assert (last.kept, last.missing_grades()) == (3, [])
    (into / "gradebook.db").unlink()
    (line,) = list(graded(course, into, 3))[-1].missing_grades()
    assert line.startswith("3 submissions were graded again, because the gradebook ")


@pytest.mark.slow
def test_a_gradebook_that_another_program_writes_is_one_clear_line(course, tmp_path):
    into = with_secret(tmp_path / "locked")
    list(graded(course, into, 1))
    (into / "deadlines.toml").write_text('timezone = "UTC"\n[due]\n01-toy = 2026-01-10\n')
    with contextlib.closing(sqlite3.connect(into / "gradebook.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        run = subprocess.run(command(course, into), capture_output=True, text=True)
    assert run.returncode == 1 and "Traceback" not in run.stderr
    assert "database is locked. Close the program that has it open" in " ".join(run.stderr.split())


@pytest.mark.slow
def test_a_submission_that_kills_its_worker_is_our_fault_and_costs_nothing(
    course, tmp_path, monkeypatch
):
    into = with_secret(tmp_path / "fault")
    broken = Course(root=tmp_path / "broken", output_folder=into)
    shutil.copytree(course.root, broken.root, ignore=shutil.ignore_patterns("gradebook.db"))
    checks = broken.root / "exercises" / "01-toy" / "checks.py"
    mended = checks.read_text()
    checks.write_text(
        mended + "\nimport os\nif os.path.exists('/proc/self'): os.kill(os.getpid(), 9)\n"
    )
    records = list(graded(broken, into, 2))[-1].records
    assert [record.kind for record in records] == [Kind.INFRASTRUCTURE] * 2
    assert all(
        record.needs_manual_grade and "our own fault" in str(record.reason) for record in records
    )
    with gradebook.opened(broken) as book:
        for record in records:
            submission = book.find_submission("01-toy", record.student)
            assert all(
                grade.auto_score is None
                for grade in submission.notebooks[0].grades
                if grade.name.startswith("check")
            )
    checks.write_text(mended)  # mended, they are graded without being asked for
    session = list(graded(broken, into, 2))[-1]
    assert not session.kept and all(
        record.kind != Kind.INFRASTRUCTURE for record in session.records
    )


@pytest.mark.slow
def test_a_folder_that_vanishes_is_an_outcome(course, tmp_path, monkeypatch):
    into, class_ = with_secret(tmp_path / "changing"), tmp_path / "submitted"
    shutil.copytree(course.root / "submitted" / "s01", class_ / "s01")
    read = Submission.read

    def vanish(item, limits):
        shutil.rmtree(item.folder)
        return read(item, limits)

    monkeypatch.setattr(Submission, "read", vanish)
    with Session(
        Course(root=course.root, output_folder=into), course.exercises(), class_
    ) as session:
        list(session.run())
    (record,) = session.records
    assert record.kind == Kind.MALFORMED and "could not be read" in str(record.reason)


@pytest.mark.slow
def test_a_full_disk_is_one_clear_line_and_the_next_run_goes_on(course, undisturbed, tmp_path):
    if os.getuid():
        pytest.skip("needs root, to mount a small disk")
    into = tmp_path / "small"
    into.mkdir()
    script = (
        f"mount -t tmpfs -o size=700k tmpfs {into} && echo 'one for all these tests' > "
        f"{into}/.course-secret && "
        + " ".join(f"'{part}'" for part in command(course, into, "--jobs", 2))
        + f"; code=$?; mount -o remount,size=90m {into}; "
        + " ".join(f"'{part}'" for part in command(course, into, "--jobs", 2))
        + f" > {tmp_path}/second.txt 2>&1; echo second $?; cp -r {into} {tmp_path}/kept; exit $code"
    )
    run = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    assert run.returncode == 1 and "Traceback" not in run.stderr, run.stderr[-2000:]
    output = " ".join(run.stderr.split())
    assert "No space left" in output or "disk is full" in output or "readonly" in output, output[
        -500:
    ]
    assert "second 0" in run.stdout, (tmp_path / "second.txt").read_text()[-2000:]
    graded = grades(tmp_path / "kept", course)
    assert {name: grade[:3] for name, grade in graded.items()} == {
        name: grade[:3] for name, grade in undisturbed.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("more", [0, 1], ids=["none to grade", "one to grade"])
def test_a_graded_notebook_that_was_taken_away_stops_no_class(course, tmp_path, more):
    into = with_secret(tmp_path / "taken")
    first = list(graded(course, into, 3, jobs=1))[-1].records
    graded_paths = Course(root=course.root, output_folder=into).paths_of(first[0].student, "01-toy")
    graded_paths.notebook.unlink()
    graded_paths.page.unlink()
    session = list(graded(course, into, 3 + more, jobs=1))[-1]
    assert len(session.records) == 3 + more and session.kept == 3
    page = graded_paths.page.read_text()
    assert "our own fault" in page and "FileNotFoundError" in page and "default-src 'none'" in page


SERVE = backends._serve


def _pages_raise(*arguments):
    """Be a worker whose pages end in an exception."""
    Worker.page = lambda *more: 1 / 0
    SERVE(*arguments)


def _pages_die(*arguments):
    """Be a worker that ends when it makes a page."""
    Worker.page = lambda *more: os._exit(9)
    SERVE(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["raises", "dies"])
def test_a_page_that_cannot_be_made_costs_no_grade(course, tmp_path, fault, monkeypatch):
    into = with_secret(tmp_path / "page")
    monkeypatch.setattr(backends, "_serve", _pages_raise if fault == "raises" else _pages_die)
    records = list(graded(course, into, 2, jobs=1))[-1].records
    assert len(records) == 2 and all(record.kind != Kind.INFRASTRUCTURE for record in records)
    page = (into / "feedback" / records[0].student / "01-toy" / "01-toy.html").read_text()
    assert "our own fault" in page and "of 9 points" in page


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends workers on Linux")
def test_the_kernel_ends_a_worker_that_a_notebook_keeps_computing():
    program = """
from autograder.grading import worker
from autograder.grading.judge import Judge

Judge.expendable = True
worker.PREPARE_SECONDS = 0.2
with worker._bounded():
    while True:
        pass
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=1800)
    assert ended.returncode == -signal.SIGXCPU


def test_a_notebook_that_takes_too_long_to_read_is_worth_nothing(course, tmp_path, monkeypatch):
    class Overrunning:
        """A backend whose workers the kernel ends, whatever they do."""

        def __init__(self):
            self.jobs = []

        def free(self):
            return 1 - len(self.jobs)

        def submit(self, job):
            self.jobs.append(job)

        def result(self):
            return self.jobs.pop(), backends.JudgeOverran("the judge computed for too long")

        def close(self):
            """Nothing to end."""

    monkeypatch.setattr(LocalExecutor, "backend", lambda executor, jobs: Overrunning())
    records = list(graded(course, with_secret(tmp_path / "slow"), 1))[-1].records
    assert {record.kind for record in records} == {Kind.MALFORMED}
    assert {str(record.reason) for record in records} == {batch.TOO_LONG_TO_READ}

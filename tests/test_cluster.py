"""Grading on a Dask cluster: the same grades, whatever dies; and one line wherever it can't be."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from conftest import toy_course

from autograder.authoring.release import release
from autograder.corpus.case import RIGHT, WRONG
from autograder.course import Course

COUNT = 6


@pytest.fixture(scope="module")
def course(isolated, tmp_path_factory):
    """A toy course and a small class: right, wrong, one that ends Python, one that is no notebook."""
    root = tmp_path_factory.mktemp("cluster")
    own = toy_course(root)
    release(own, own.sources()[0])
    for number in range(COUNT):
        hand_in(root / "submitted" / f"s{number:02}", {**RIGHT, **(WRONG if number % 3 == 1 else {})}, number)
    hand_in(root / "submitted" / "s02", {**RIGHT, "add": "import os\nos._exit(0)"}, 2)
    (root / "submitted" / "s03" / "01-toy" / "01-toy.ipynb").write_text("{")
    return own


def hand_in(student, answers, number, released=None):
    """Write a submission with these answers."""
    folder = student / "01-toy"
    folder.mkdir(parents=True, exist_ok=True)
    path = released or student.parent.parent / "exercises" / "01-toy" / "01-toy.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in answers:
            cell.source = f"{answers[name]}\n# {number}"
    nbformat.write(notebook, folder / "01-toy.ipynb")


def with_secret(into):
    """Make a folder for grades with the course's secret, so that draws can be compared between folders."""
    into.mkdir(parents=True)
    (into / ".course-secret").write_text("one for all these tests\n")
    return into


def command(course, into, *more):
    arguments = ["--course", course.root, "--into", into, *more]
    return [sys.executable, "-m", "autograder", "grade", *map(str, arguments)]


def graded(course, into, *more, status=0, **environment):
    """Grade; return what was said, as one line."""
    run = subprocess.run(
        command(course, into, *more), capture_output=True, text=True, env={**os.environ, **environment}, timeout=240
    )
    said = " ".join((run.stdout + run.stderr).split())
    assert run.returncode == status, said[-2000:]
    assert "Traceback" not in said
    return said


def kept(into):
    """Return what was written of each student, without the time: the record's bytes, the notebook's, the page's."""
    found = {}
    for path in sorted(into.glob("autograded/*/01-toy/grade.json")):
        lines = path.read_text().splitlines(keepends=True)
        student = path.parent.parent.name
        page = into / "feedback" / student / "01-toy" / "01-toy.html"
        record = "".join(line for line in lines if not line.startswith('"graded_at": '))
        assert len(lines) == record.count("\n") + 1 and json.loads("".join(lines))["history"] == []
        found[student] = record, path.with_name("01-toy.ipynb").read_text(), page.read_text()
    return found


@pytest.fixture(scope="module")
def local(course, tmp_path_factory):
    """What grading on this machine, without Dask, writes."""
    into = with_secret(tmp_path_factory.mktemp("local") / "into")
    graded(course, into, "--jobs", 1)
    found = kept(into)
    assert len(found) == COUNT and len({record for record, _, _ in found.values()}) == COUNT
    return found


@pytest.mark.slow
def test_workers_here_write_what_a_local_run_writes(course, local, tmp_path):
    into = with_secret(tmp_path / "into")
    said = graded(course, into, "--cluster", "local:2")
    assert "Graded 6." in said and kept(into) == local


def test_a_local_run_imports_no_dask():
    code = "import sys, autograder.grading.session, autograder.grading.batch, autograder.cli\n"
    code += "assert not {'dask', 'distributed', 'autograder.grading.cluster'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_dask_one_line_says_what_to_install(course, tmp_path):
    (tmp_path / "distributed.py").write_text("raise ImportError('not here')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    said = graded(course, tmp_path / "into", "--cluster", "local:2", status=1, PYTHONPATH=path)
    assert 'python -m pip install ".[cluster]"' in said and not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cluster", "local:many"], "--cluster local:many names no number of workers"),
        (["--cluster", "local:0"], "--cluster local:0 names no number of workers"),
        (["--cluster", "local:2", "--jobs", "3"], "Leave out --jobs, or --cluster"),
        (["--cluster", "tcp://127.0.0.1:9"], "There is no Dask scheduler to be reached at tcp://127.0.0.1:9"),
        (["--cluster", "nonsense"], "There is no Dask scheduler to be reached at nonsense"),
    ],
)
def test_what_names_no_cluster_is_one_line(course, tmp_path, options, said):
    soon = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    assert said in graded(course, tmp_path / "into", *options, status=1, **soon)
    assert not (tmp_path / "into").exists()


# A scheduler and workers that were started by hand.


class ByHand:
    """A scheduler on a free port of this machine, and workers, each a command of its own."""

    def __init__(self, folder, *options, protocol="tcp"):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.address, self.folder, self.options = f"{protocol}://127.0.0.1:{self.port}", folder, options
        self.started = []
        self.scheduler = self.start_scheduler()

    def start(self, *arguments, **environment):
        log = (self.folder / f"{len(self.started)}.log").open("w")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments, "--no-dashboard", *self.options],
                stdout=log, stderr=log, cwd=self.folder, env={**os.environ, **environment}, process_group=0,
            )  # fmt: skip
        self.started.append(process)
        return process

    def start_scheduler(self):
        protocol = self.address.partition(":")[0]
        process = self.start("scheduler", "--host", f"{protocol}://127.0.0.1", "--port", str(self.port))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return process
            time.sleep(0.2)
        raise AssertionError("no scheduler")

    def start_worker(self, *more, **environment):
        arguments = [self.address, "--nthreads", "1", "--local-directory", str(self.folder), *more]
        return self.start("worker", *arguments, **environment)

    def close(self):
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def by_hand(tmp_path):
    """Make clusters by hand, and end them."""
    made = []

    def make(*options, **more):
        folder = tmp_path / f"dask{len(made)}"
        folder.mkdir()
        made.append(ByHand(folder, *options, **more))
        return made[-1]

    yield make
    for own in made:
        own.close()


def begun(course, into, *more, **environment):
    """Begin to grade; return the process, of which `said_by` has what it said."""
    return subprocess.Popen(
        command(course, into, *more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip


def said_by(run):
    said = " ".join(run.communicate(timeout=240)[0].split())
    assert "Traceback" not in said, said[-3000:]
    return said


def wait_for(count, into, run):
    """Wait until so many are graded."""
    deadline = time.monotonic() + 120
    while len(list(into.glob("autograded/*/01-toy/grade.json"))) < count and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def worker_process(nanny):
    """Return the worker's own process below the command that watches over it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in psutil.Process(nanny.pid).children():
            if "spawn_main" in " ".join(child.cmdline()):
                return child
        time.sleep(0.1)
    raise AssertionError("no worker")


@pytest.mark.slow
def test_workers_that_are_killed_or_gone_lose_nothing(course, local, by_hand, tmp_path):
    into, dask = with_secret(tmp_path / "into"), by_hand()
    nannies = [dask.start_worker(), dask.start_worker()]
    run = begun(course, into, "--cluster", dask.address)
    wait_for(1, into, run)
    worker_process(nannies[0]).kill()  # its nanny starts another
    wait_for(2, into, run)
    os.killpg(nannies[1].pid, signal.SIGKILL)  # as if the machine were gone
    said = said_by(run)
    assert run.returncode == 0 and "Graded 6." in said and kept(into) == local


@pytest.mark.slow
def test_when_the_scheduler_is_gone_one_line_says_so_and_the_next_run_goes_on(course, local, by_hand, tmp_path):
    into, dask = with_secret(tmp_path / "into"), by_hand()
    dask.start_worker()
    soon = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s"}
    run = begun(course, into, "--cluster", dask.address, **soon)
    wait_for(1, into, run)
    dask.scheduler.kill()
    said = said_by(run)
    assert run.returncode == 1 and f"The scheduler at {dask.address} is gone. What was graded is kept" in said
    there = len(list(into.glob("autograded/*/01-toy/grade.json")))
    assert 1 <= there < COUNT
    dask.scheduler.wait()
    dask.scheduler = dask.start_scheduler()  # and now one that is started anew in the middle, with a worker
    dask.start_worker()
    run = begun(course, into, "--cluster", dask.address)
    wait_for(there + 1, into, run)
    dask.scheduler.kill()
    dask.scheduler.wait()
    dask.start_scheduler()
    dask.start_worker()
    said = said_by(run)
    assert run.returncode == 0 and f"{there} unchanged" in said and kept(into) == local


@pytest.mark.slow
def test_a_submission_that_kills_its_workers_is_our_fault_after_three(course, tmp_path):
    broken, into = tmp_path / "broken", with_secret(tmp_path / "into")
    shutil.copytree(course.root, broken, ignore=shutil.ignore_patterns("s0[1-9]", "gradebook.db"))
    checks = broken / "exercises" / "01-toy" / "checks.py"
    # The judge's own process was forked by a server that the Dask worker started.
    kill = f"psutil.Process().parent().parent().kill(), open({str(tmp_path / 'deaths')!r}, 'a').write('x')"
    checks.write_text(checks.read_text() + f"\nimport os, psutil\nif os.path.exists('/proc/self'): {kill}\n")
    arguments = ["--cluster", "local:1"]
    run = begun(Course(root=broken), into, *arguments)
    said = said_by(run)
    assert run.returncode in (1, 3) and "1 of 1 could not be graded through our own fault" in said
    assert "the process that graded it ended, 3 times" in said
    assert (tmp_path / "deaths").read_text() == "xxx"


def test_no_worker_is_waited_for_and_then_said(course, by_hand, tmp_path):
    dask = by_hand()
    said = graded(
        course, tmp_path / "into", "--cluster", dask.address, status=1, DASK_AUTOGRADER__WAIT_FOR_WORKERS="1s"
    )
    assert "There is no worker at" in said and "waiting up to 1 s" in said
    assert f"No worker came to the scheduler at {dask.address} in 1 seconds." in said
    assert f"dask worker {dask.address}" in said and not (tmp_path / "into").exists()


SITE = """
import importlib.metadata, os, shutil
if os.environ.get("OTHER_NUMPY"):
    real = importlib.metadata.version
    importlib.metadata.version = lambda name: "1.26.4" if name == "numpy" else real(name)
if os.environ.get("NO_BUBBLEWRAP"):
    found = shutil.which
    shutil.which = lambda name, *more, **other: None if name == "bwrap" else found(name, *more, **other)
"""
"""A module that Python imports as it starts: a worker's machine that has something else, or lacks it."""


@pytest.fixture
def site_path(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE)
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


@pytest.mark.slow
def test_a_worker_that_must_not_grade_is_refused_by_name(course, by_hand, tmp_path, site_path):
    first = by_hand()
    first.start_worker(OTHER_NUMPY="1", PYTHONPATH=site_path)
    said = graded(course, tmp_path / "into", "--cluster", first.address, status=1)
    assert "has numpy 1.26.4, and here it is" in said and f"on {socket.gethostname()}" in said
    second = by_hand()
    second.start_worker(NO_BUBBLEWRAP="1", PYTHONPATH=site_path)
    said = graded(course, tmp_path / "into", "--cluster", second.address, status=1)
    assert "cannot isolate submissions: bubblewrap is not installed" in said and "127.0.0.1" in said
    assert f"on {socket.gethostname()}" in said and not (tmp_path / "into" / "autograded").is_dir()
    said = graded(course, with_secret(tmp_path / "own risk"), "--cluster", second.address, "--no-sandbox")
    assert "Without a sandbox: submissions run with your rights." in said and "Graded 6." in said
    records = [json.loads(path.read_text()) for path in (tmp_path / "own risk").glob("autograded/*/*/grade.json")]
    assert len(records) == COUNT and not any(record["sandbox"] for record in records)

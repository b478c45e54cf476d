"""Grading on a Dask cluster: the same grades, whatever dies; and one line wherever it can't be."""

import contextlib
import dataclasses
import hashlib
import importlib.util
import io
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import types
import zipfile
from collections import deque

import nbformat
import psutil
import pytest
from hostile.case import RIGHT, WRONG
from toy_course import toy_course

from autograder.authoring.release import release
from autograder.checking import Result, Status
from autograder.checking.words import Message
from autograder.course.config import ROOT, Course
from autograder.course.limits import Limits
from autograder.grades.results import CellResult, Kind, Outcome
from autograder.grading import cluster
from autograder.grading.backends import Job, WorkerDied
from autograder.grading.worker_config import WorkerConfig

pytestmark = pytest.mark.long

COUNT = 6


@pytest.fixture(scope="module")
def course(isolated, tmp_path_factory):
    """A toy course and a small class: right, wrong, one that ends Python, one that is no
    notebook.
    """
    root = tmp_path_factory.mktemp("cluster")
    course = toy_course(root)
    release(course, course.sources()[0])
    for number in range(COUNT):
        hand_in(
            root / "submitted" / f"s{number:02}",
            {**RIGHT, **(WRONG if number % 3 == 1 else {})},
            number,
        )
    hand_in(root / "submitted" / "s02", {**RIGHT, "add": "import os\nos._exit(0)"}, 2)
    (root / "submitted" / "s03" / "01-toy" / "01-toy.ipynb").write_text("{")
    return course


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
    """Make a folder for grades with the course's secret, so that draws can be compared between
    folders.
    """
    into.mkdir(parents=True)
    (into / ".course-secret").write_text("one for all these tests\n")
    return into


def command(course, into, *more):
    arguments = ["--course", course.root, "--into", into, *more]
    return [sys.executable, "-m", "autograder", "grade", *map(str, arguments)]


def graded(course, into, *more, status=0, **environment):
    """Grade; return what was said, as one line."""
    run = subprocess.run(
        command(course, into, *more),
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=1800,
    )
    output = " ".join((run.stdout + run.stderr).split())
    assert run.returncode == status, output[-2000:]
    assert "Traceback" not in output
    return output


def results_in(into):
    """Return what was written of each student, without the time: the record's bytes, the
    notebook's, the page's.
    """
    by_student = {}
    for path in sorted(into.glob("autograded/*/01-toy/grade.json")):
        lines = path.read_text().splitlines(keepends=True)
        student = path.parent.parent.name
        page = into / "feedback" / student / "01-toy" / "01-toy.html"
        record = "".join(line for line in lines if not line.startswith('"graded_at": '))
        assert len(lines) == record.count("\n") + 1 and json.loads("".join(lines))["history"] == []
        by_student[student] = record, path.with_name("01-toy.ipynb").read_text(), page.read_text()
    return by_student


@pytest.fixture(scope="module")
def local(course, tmp_path_factory):
    """What grading on this machine, without Dask, writes."""
    into = with_secret(tmp_path_factory.mktemp("local") / "into")
    graded(course, into, "--jobs", 1)
    results = results_in(into)
    assert len(results) == COUNT and len({record for record, _, _ in results.values()}) == COUNT
    return results


@pytest.mark.slow
def test_workers_here_write_what_a_local_run_writes(course, local, tmp_path):
    into = with_secret(tmp_path / "into")
    output = graded(course, into, "--cluster", "local:2")
    assert "Graded 6." in output and results_in(into) == local
    assert re.search(r"2 workers, \d+\.\d/s", output)


@pytest.mark.slow
def test_a_local_run_imports_no_dask():
    code = "import sys, autograder.grading.session, autograder.grading.batch, autograder.cli\n"
    code += "assert not {'dask', 'distributed', 'autograder.grading.cluster'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_dask_one_line_says_what_to_install(course, tmp_path):
    (tmp_path / "distributed.py").write_text("raise ImportError('not here')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    output = graded(course, tmp_path / "into", "--cluster", "local:2", status=1, PYTHONPATH=path)
    assert 'python -m pip install ".[cluster]"' in output and not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cluster", "local:many"], "--cluster local:many does not say how many workers"),
        (["--cluster", "local:2", "--jobs", "3"], "Leave out --jobs or --cluster"),
        (
            ["--cluster", "tcp://127.0.0.1:9"],
            "No Dask scheduler can be reached at tcp://127.0.0.1:9",
        ),
    ],
)
def test_what_names_no_cluster_is_one_line(course, tmp_path, options, message):
    soon = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    assert message in graded(course, tmp_path / "into", *options, status=1, **soon)
    assert not (tmp_path / "into").exists()


# A scheduler and workers that were started by hand.


class ByHand:
    """A scheduler on a free port of this machine, and workers, each a command of its own."""

    def __init__(self, folder, *options, protocol="tcp"):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.address, self.folder, self.options = (
            f"{protocol}://127.0.0.1:{self.port}",
            folder,
            options,
        )
        self.started = []
        self.scheduler = self.start_scheduler()

    def start(self, *arguments, **environment):
        log = (self.folder / f"{len(self.started)}.log").open("w")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments, "--dashboard-address", "127.0.0.1:0", *self.options],
                stdout=log, stderr=log, cwd=self.folder, env={**os.environ, **environment},
                process_group=0,
            )  # fmt: skip
        self.started.append(process)
        return process

    def start_scheduler(self):
        protocol = self.address.partition(":")[0]
        process = self.start(
            "scheduler", "--host", f"{protocol}://127.0.0.1", "--port", str(self.port)
        )
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port), 1),
            ):
                return process
            time.sleep(0.2)
        raise AssertionError("no scheduler")

    def start_worker(self, *more, **environment):
        arguments = [
            self.address,
            "--host",
            "127.0.0.1",
            "--nthreads",
            "1",
            "--local-directory",
            str(self.folder),
            *more,
        ]
        return self.start("worker", *arguments, **environment)

    def close(self):
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def by_hand(tmp_path):
    """Make clusters by hand, and end them."""
    processes = []

    def make(*options, **more):
        folder = tmp_path / f"dask{len(processes)}"
        folder.mkdir()
        processes.append(ByHand(folder, *options, **more))
        return processes[-1]

    yield make
    for process in processes:
        process.close()


PAGE = (ROOT / "book" / "cluster.md").read_text(encoding="utf8")
COMMANDS = [
    line.strip()
    for line in PAGE.splitlines()
    if re.match(r"[ \w=]*\.venv/bin/python -m dask ", line)
]


def listening(*processes):
    """Return the addresses at which processes, and those below them, listen."""
    below = [
        member for process in processes for member in (process, *process.children(recursive=True))
    ]
    connections = [
        connection
        for member in below
        for connection in member.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    return {connection.laddr.ip for connection in connections}


@pytest.mark.slow
def test_what_the_page_starts_listens_nowhere_else(tmp_path):
    """Dask's web server would listen on all addresses; so would a worker without --host."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    here = {
        "grader": "127.0.0.1",
        "8786": port,
        "8787": "0",
        "m1": "127.0.0.1",
        "--nworkers 8": "--nworkers 1",
    }
    started = []
    try:
        for line in COMMANDS[:2]:
            _python, *words = re.sub(
                r"--nworkers 8|\b(?:grader|8786|8787|m1)\b", lambda match: here[match[0]], line
            ).split()
            words = [
                sys.executable,
                *words,
                *(["--local-directory", str(tmp_path)] if "worker" in words else []),
            ]
            started.append(
                subprocess.Popen(words, stderr=subprocess.DEVNULL, cwd=tmp_path, process_group=0)
            )
            deadline = time.monotonic() + 600
            while "scheduler" in words and time.monotonic() < deadline:
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("127.0.0.1", int(port)), 1),
                ):
                    break
                time.sleep(0.2)
        worker = worker_process(started[1])
        deadline = time.monotonic() + 600
        while len(worker.net_connections("tcp")) < 3 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert listening(*(psutil.Process(process.pid) for process in started)) == {"127.0.0.1"}
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_every_command_keeps_its_web_server_to_the_machine():
    assert len(COMMANDS) >= 3
    for line in COMMANDS:
        assert "--dashboard-address 127.0.0.1:" in line and "--host " in line, line
    assert "--dashboard-address 127.0.0.1" in cluster.PRIVATE


def begun(course, into, *more, **environment):
    """Begin to grade; return the process, of which `said_by` has what it said."""
    return subprocess.Popen(
        command(course, into, *more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip


def said_by(run):
    output = " ".join(run.communicate(timeout=1800)[0].split())
    assert "Traceback" not in output, output[-3000:]
    return output


def wait_for(count, into, run):
    """Wait until so many are graded; on a busy machine that can take minutes."""
    deadline = time.monotonic() + 600
    while len(list(into.glob("autograded/*/01-toy/grade.json"))) < count and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def worker_process(nanny):
    """Return the worker's own process below the command that watches over it."""
    deadline = time.monotonic() + 600
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
    output = said_by(run)
    assert run.returncode == 0 and "Graded 6." in output and results_in(into) == local


@pytest.mark.slow
def test_when_the_scheduler_is_gone_one_line_says_so_and_the_next_run_goes_on(
    course, local, by_hand, tmp_path
):
    into, dask = with_secret(tmp_path / "into"), by_hand()
    dask.start_worker()
    soon = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s"}
    run = begun(course, into, "--cluster", dask.address, **soon)
    wait_for(1, into, run)
    dask.scheduler.kill()
    output = said_by(run)
    assert (
        run.returncode == 1
        and f"The scheduler at {dask.address} is gone. Grades so far are kept" in output
    )
    there = len(list(into.glob("autograded/*/01-toy/grade.json")))
    assert 1 <= there < COUNT
    dask.scheduler.wait()
    # and now one that is started anew in the middle, with a worker
    dask.scheduler = dask.start_scheduler()
    dask.start_worker()
    run = begun(course, into, "--cluster", dask.address)
    wait_for(there + 1, into, run)
    dask.scheduler.kill()
    dask.scheduler.wait()
    dask.start_scheduler()
    dask.start_worker()
    output = said_by(run)
    assert run.returncode == 0 and f"{there} unchanged" in output, output
    assert results_in(into) == local


@pytest.mark.slow
def test_a_submission_that_kills_its_workers_is_our_fault_after_three(course, tmp_path):
    broken, into = tmp_path / "broken", with_secret(tmp_path / "into")
    shutil.copytree(course.root, broken, ignore=shutil.ignore_patterns("s0[1-9]", "gradebook.db"))
    checks = broken / "exercises" / "01-toy" / "checks.py"
    # The judge's own process was forked by a server that the Dask worker started.
    kill = (
        f"psutil.Process().parent().parent().kill(), open({str(tmp_path / 'deaths')!r}, "
        "'a').write('x')"
    )
    checks.write_text(
        checks.read_text() + f"\nimport os, psutil\nif os.path.exists('/proc/self'): {kill}\n"
    )
    arguments = ["--cluster", "local:1"]
    run = begun(Course(root=broken), into, *arguments)
    output = said_by(run)
    assert run.returncode == 3 and "1 of 1 could not be graded. That is our own fault" in output
    assert "the grading process crashed 3 times" in output
    assert (tmp_path / "deaths").read_text() == "xxx"


@pytest.mark.slow
def test_a_missing_worker_is_reported_after_a_wait(course, by_hand, tmp_path):
    dask = by_hand()
    output = graded(
        course,
        tmp_path / "into",
        "--cluster",
        dask.address,
        status=1,
        DASK_AUTOGRADER__WAIT_FOR_WORKERS="1s",
    )
    assert "There is no worker at" in output and "waiting up to 1 s" in output
    assert f"No worker connected to the scheduler at {dask.address} in 1 seconds." in output
    assert f"dask worker {dask.address}" in output and not (tmp_path / "into").exists()


SITE = """
import importlib.metadata, os, shutil
if os.environ.get("OTHER_NUMPY"):
    real = importlib.metadata.version
    importlib.metadata.version = lambda name: "1.26.4" if name == "numpy" else real(name)
if os.environ.get("NO_BUBBLEWRAP"):
    found = shutil.which
    shutil.which = lambda name, *more, **other: None if name == "bwrap" else found(name, *more, **other)
"""
"""A module that Python imports as it starts: a worker's machine that has something else, or
lacks it.
"""


@pytest.fixture
def site_path(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE)
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


@pytest.mark.slow
def test_a_worker_that_must_not_grade_is_refused_by_name(course, by_hand, tmp_path, site_path):
    dask, into, two = by_hand(), tmp_path / "into", tmp_path / "two"
    for student in ("s00", "s01"):
        shutil.copytree(course.submitted / student, two / student)
    other = dask.start_worker(OTHER_NUMPY="1", PYTHONPATH=site_path)
    output = graded(course, into, "--cluster", dask.address, status=1)
    assert "has numpy 1.26.4, but here it is" in output and f"on {socket.gethostname()}" in output
    os.killpg(other.pid, signal.SIGKILL)
    dask.start_worker(NO_BUBBLEWRAP="1", PYTHONPATH=site_path)
    time.sleep(1)  # until the scheduler knows that the first is gone
    output = graded(course, into, "--cluster", dask.address, status=1)
    assert (
        "cannot isolate submissions: bubblewrap is not installed" in output
        and "127.0.0.1" in output
    )
    assert f"on {socket.gethostname()}" in output and not list(into.glob("autograded/*"))
    output = graded(course, into, "--cluster", dask.address, "--no-sandbox", "--submitted", two)
    assert (
        "Without a sandbox: submissions run with your rights." in output and "Graded 2." in output
    )
    records = [json.loads(path.read_text()) for path in into.glob("autograded/*/*/grade.json")]
    assert len(records) == 2 and not any(record["sandbox"] for record in records)


# What was measured.

RUN = {"seconds": 9.0, "first_after": 3.0, "rate": 2.0}
MEASURED = {
    "beside": {
        "01-qkv": {"2": {"n": 80, "busy": 1.5, "local": [RUN], "cluster": [RUN | {"rate": 1.6}]}}
    },
    "kill": {"exercise": "01-qkv", "n": 80, "kills": [7, 30]},
    "writer": {
        "exercise": "01-qkv",
        "n": 1000,
        "workers": 8,
        "each": {"grade": 0.1, "page": 0.01},
        "runs": [
            {"share": share, "rate": 70.0, "pages": 90.0, "writer_ms": {"read": 1.0, "files": 2.5}}
            for share in (0.25, 0.0)
        ],
    },
}


def test_the_tables_show_what_was_measured():
    spec = importlib.util.spec_from_file_location(
        "tables_of_benchmarks", ROOT / "benchmarks" / "tables.py"
    )
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    about = {"cpu": "a", "cores": 2, "memory_gb": 8, "system": "b", "python": "3", "date": "today"}
    about |= dict.fromkeys(tables.PACKAGES, "1")
    shown = tables.cluster({"cluster": {**MEASURED, "machine": about}})
    assert (
        "| 80 of 01-qkv, 2 processes | 2.0/s, from 3 s on | 1.6/s, from 3 s on | +25 % | 2 % |"
        in shown
    )
    assert "SIGKILL when 7, 30 were graded" in shown
    assert "| 32 workers | 320/s | 70/s | 90/s | 3.5 |" in shown
    assert "| no time at all |  | 70/s | 90/s | 3.5 |" in shown


# GPUs.

ON_A_GPU = """

@check(weight=4, on="gpu")
def adds_on_a_gpu(add, draw):
    \"\"\"The sum of the two, where there is a GPU.\"\"\"
    a = draw.array(3)
    expect_close(add(a, a), 2 * a)


import os

if os.environ.get("AS_IF_WITH_GPU"):
    from checking import machine

    machine.has = lambda what: True
"""


@pytest.mark.slow
def test_points_that_wait_for_a_gpu_are_settled_by_the_worker_that_declares_one(
    course, by_hand, tmp_path
):
    root, into, dask = tmp_path / "course", with_secret(tmp_path / "into"), by_hand()
    shutil.copytree(course.root, root, ignore=shutil.ignore_patterns("s0[2345]", "gradebook.db"))
    checks = root / "exercises" / "01-toy" / "checks.py"
    checks.write_text(checks.read_text() + ON_A_GPU)
    (root / "exercises" / "01-toy" / "exercise.toml").write_text("gpu = true\n")
    gpu_course = Course(root=root)
    dask.start_worker()
    output = graded(gpu_course, into, "--cluster", dask.address)
    assert (
        "no worker declares one (--resources GPU=1)" in output
        and "2 submissions have pending points" in output
    )
    output = graded(gpu_course, into, "--cluster", dask.address, "--pending", status=1)
    assert "2 submissions have pending points that need a GPU: run" in output
    dask.start_worker("--resources", "GPU=1", AS_IF_WITH_GPU="1")
    deadline = time.monotonic() + 600
    while (
        "Registered to" not in (dask.folder / "2.log").read_text() and time.monotonic() < deadline
    ):
        time.sleep(0.2)
    # The other worker has no less room, and could settle nothing.
    output = graded(gpu_course, into, "--cluster", dask.address, "--pending")
    assert "Graded 2." in output and "that wait" not in output
    for path in into.glob("autograded/*/01-toy/grade.json"):
        record = json.loads(path.read_text())
        assert record["pending"] == 0 and record["history"][0]["pending"] > 0


# TLS.


@pytest.fixture
def encrypted(tmp_path):
    """The environment in which Dask speaks to those alone whom an authority of this test knows."""
    if not shutil.which("openssl"):
        reason = "needs openssl, to make a certificate"
        print(reason)
        pytest.skip(reason)

    def make(line):
        subprocess.run(line.split(), check=True, cwd=tmp_path, capture_output=True)

    make(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test -keyout ca.key -out "
        "ca.pem"
    )
    make("openssl req -newkey rsa:2048 -nodes -subj /CN=me -keyout me.key -out me.csr")
    make(
        "openssl x509 -req -in me.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out me.pem"
    )
    tls = {"CA_FILE": "ca.pem"}
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        tls |= {f"{who}__CERT": "me.pem", f"{who}__KEY": "me.key"}
    files_sent = {
        f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(tmp_path / file) for name, file in tls.items()
    }
    return {**files_sent, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true"}


@pytest.mark.slow
def test_with_tls_a_worker_needs_a_certificate(
    course, local, by_hand, encrypted, tmp_path, monkeypatch
):
    into = with_secret(tmp_path / "into")
    soon = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    with monkeypatch.context() as patch:
        for name, value in encrypted.items():
            patch.setenv(name, value)
        dask = by_hand(protocol="tls")
        dask.start_worker()
    stranger = graded(course, tmp_path / "stranger", "--cluster", dask.address, status=1, **soon)
    assert f"No Dask scheduler can be reached at {dask.address}" in stranger
    plain = dask.address.replace("tls:", "tcp:")
    assert "No Dask scheduler can be reached" in graded(
        course, tmp_path / "stranger", "--cluster", plain, status=1, **soon
    )
    assert "Graded 6." in graded(course, into, "--cluster", dask.address, **encrypted)
    assert results_in(into) == local


# What crosses.


def test_what_is_shipped_is_the_released_exercise_and_no_path_of_this_machine(course):
    setting = WorkerConfig(
        str(course.root), ("01-toy",), Limits(cpu_seconds=7), hidden=(str(course.root),)
    )
    archive = cluster.packed(setting)
    assert (
        archive
        == cluster.packed(setting)
        != cluster.packed(dataclasses.replace(setting, limits=Limits()))
    )
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        names = set(files.namelist())
        settings = json.loads(files.read(cluster.WORKER_CONFIG))
    assert {
        "exercises/01-toy/01-toy.ipynb",
        "exercises/01-toy/checks.py",
        "exercises/01-toy/checking.zip",
    } < names
    assert settings["limits"]["cpu_seconds"] == 7 and str(course.root) not in json.dumps(settings)
    assert not any(name.startswith("/") or ".." in name or "gradebook" in name for name in names)


def test_an_archive_that_arrives_damaged_is_refused(tmp_path):
    digest = hashlib.sha256(b"what was sent").hexdigest()
    assert cluster._equip(digest, None, str(tmp_path), 1, None) == {"needs": True}
    assert "damaged" in cluster._equip(digest, b"what arrived", str(tmp_path), 1, None)["fault"]
    assert not list(tmp_path.iterdir())


def outcome():
    check = Result(
        "adds", "It adds.", 1.0, Status.FAILED, Message("{n} is wrong", n=3), cause="swapped"
    )
    cells = {"check": CellResult(1.5, 4.0, subject="add", checks=[check], error=Message(""))}
    return Outcome(
        Kind.WRONG, Message("why"), [Message("a {b}", b=["c"])], ["e"], cells, "{}", {"run": 0.25}
    )


def test_answers_cross_as_they_are_and_what_is_none_is_refused():
    for answer in (outcome(), ("<p>ü</p>", 0.5)):
        assert cluster._answer(json.loads(cluster.as_text(answer))) == answer
    died = cluster._answer(json.loads(cluster.as_text(WorkerDied("gone"))))
    failed = cluster._answer(json.loads(cluster.as_text(RuntimeError("no page"))))
    assert (
        isinstance(died, WorkerDied) and type(failed) is RuntimeError and str(failed) == "no page"
    )
    for key, value in (("kind", "perfect"), ("cells", []), ("notebook", None), ("evidence", [3])):
        record = json.loads(cluster.as_text(outcome()))
        record["outcome"][key] = value
        with pytest.raises((TypeError, ValueError, AttributeError)):
            cluster._answer(record)


class Silent:
    """A client that takes whatever it is given, and never answers."""

    id = "silent"

    def submit(self, function, *arguments, key, **more):
        return types.SimpleNamespace(key=key, add_done_callback=lambda tell: None)

    def cancel(self, futures, **more):
        pass


def of_two(first_gpus=0, **more):
    """A cluster of two workers that never answer."""
    pool = cluster.Cluster.__new__(cluster.Cluster)
    pool.__dict__.update(
        client=Silent(), number=0, digest="d", submitted={}, unassigned=deque(), answers=deque(),
        on_gpus=set(),
        finished=queue.SimpleQueue(), next_look=float("inf"), gpus_are_gone=False, **more,
        workers={name: cluster._Worker(name, name, 1, n, True) for name, n in (("one", first_gpus), ("two", 0))},
    )  # fmt: skip
    return pool


def test_the_loss_of_the_last_gpu_is_reported_once_and_the_rest_is_graded():
    warned = []
    pool = of_two(first_gpus=1, warn=warned.append)
    pool.on_gpus = {"11-gpu"}
    unit = types.SimpleNamespace(assignment="11-gpu")
    pool.submit(Job(0, "grade", (unit,)))
    assert pool.workers["one"].jobs and not warned
    pool._lost(pool.workers["one"])
    for job in (Job(1, "grade", (unit,)), Job(2, "page", (None,)), Job(3, "grade", (unit,))):
        pool.submit(job)
    assert len(pool.workers["two"].jobs) == 3
    assert warned == [
        "The last worker with a GPU is gone: points that need one are pending until "
        "`grade --pending`."
    ]


def test_only_the_job_that_a_worker_was_at_is_blamed_for_its_end():
    pool = of_two()
    jobs = [Job(number, "page", (None,)) for number in range(4)]
    assert pool.free() == 4
    for job in jobs:
        pool.submit(job)
    assert pool.free() == 0
    assert [[job.key for job in worker.jobs] for worker in pool.workers.values()] == [
        [0, 2],
        [1, 3],
    ]
    pool._lost(pool.workers["one"])
    job, answer = pool.answers.popleft()
    assert job.key == 0 and isinstance(answer, WorkerDied) and not pool.answers
    assert (
        [job.key for job in pool.unassigned] == [2]
        and len(pool.submitted) == 2
        and set(pool.workers) == {"two"}
    )

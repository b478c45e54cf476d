"""Where workers run. A batch knows only `Backend`: jobs go in, answers come out, in any order.

`Local` runs each worker in a process of this machine. Any other class that keeps the same three
promises, such as a cluster's client, can replace it:

* `submit(job)` accepts a job whenever `free()` says that there is room;
* `result()` waits, and returns one job with its answer, or with the exception that it raised;
* if a worker dies, the answer to its job is `WorkerDied`, and the backend continues with another
  worker.
"""

import contextlib
import gc
import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import os
import queue
import signal
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from autograder.course import cores, imports
from autograder.course.config import UserError
from autograder.grading.memory_limit import limit_memory
from autograder.grading.worker_config import WorkerConfig
from autograder.sandbox.guests import GuestPool

if TYPE_CHECKING:
    from autograder.grading.worker import Worker

MOST_EXTRA_MEMORY = 1500 << 20
"""Memory that a guest can make a judge use, beyond its initial memory."""
MOST_EXTRA_WITH_GPU = 16 << 30
"""The same if checks may put tensors on a GPU: CUDA reserves gigabytes of addresses that it does
not fill.
"""
EXIT_SECONDS = 5
"""How long a worker's process may still be there after its pipe has ended."""


@dataclass(frozen=True)
class Job:
    """One call of a worker's method, such as `grade` or `page`, with plain values; `key` says
    what it is for.
    """

    key: int
    method: str
    arguments: tuple[Any, ...]


class WorkerDied(Exception):
    """The worker that had a job is gone, for an unknown reason."""


class JudgeOverran(WorkerDied):
    """The kernel ended the worker: a submission kept its judge computing, and nothing else could
    end that.
    """


class Backend(Protocol):
    """A place where jobs are done."""

    def free(self) -> int:
        """Return how many more jobs may be submitted now."""

    def submit(self, job: Job) -> None:
        """Take a job."""

    def wait(self, seconds: float) -> bool:
        """Wait up to so many seconds; tell whether a job is done, so that `result` returns at
        once.
        """

    def result(self) -> tuple[Job, Any]:
        """Wait for a job to be done; return it with its answer, or with the exception in its
        place.
        """

    def close(self) -> None:
        """End all workers, and forget what is under way."""


@dataclass
class _Process:
    """One worker process, this end of the pipe to it, its jobs, and the core that it is pinned
    to, if any.
    """

    process: multiprocessing.process.BaseProcess
    pipe: multiprocessing.connection.Connection
    jobs: deque[Job]
    core: int | None


class Local:
    """Worker processes of this machine.

    Each has its own pipe: if one is killed, even in the middle of an answer, its pipe reports an
    end of file, and no other worker is held up. By default each has one running job and one
    waiting, so that it need not wait for this process.

    If there is a worker for each core, it is pinned to that core together with its guests: a worker
    and its guest work in turn, a hundred times per submission, and on one core neither has to be
    woken from another.

    Parameters
    ----------
    jobs : int
        How many.
    worker_config : WorkerConfig
        Where they work.
    pool : GuestPool or None
        Where their guests come from; None if these are not isolated.
    core_per_worker : sequence of int or None, optional
        The core of each worker, None if it may run on any.
    jobs_per_worker : int
        How many jobs a worker has at one time: the running one, and those that wait behind it.
    """

    JOBS_PER_WORKER = 2

    def __init__(
        self,
        jobs: int,
        worker_config: WorkerConfig,
        pool: GuestPool | None = None,
        core_per_worker: Sequence[int | None] | None = None,
        jobs_per_worker: int = JOBS_PER_WORKER,
    ):
        self.worker_config, self.pool = worker_config, pool
        self.jobs_per_worker = jobs_per_worker
        # Not "fork": a copy of this process would share its connection to the gradebook.
        self.context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
        self.workers = [self._started(core) for core in core_per_worker or cores.shared_out(jobs)]
        self.answers: deque[tuple[Job, Any]] = deque()

    def free(self) -> int:
        """Return how many more jobs may be submitted now."""
        return sum(self.jobs_per_worker - len(worker.jobs) for worker in self.workers)

    def submit(self, job: Job) -> None:
        """Give a job to the worker that has the fewest."""
        worker = min(self.workers, key=lambda candidate: len(candidate.jobs))
        worker.jobs.append(job)
        with contextlib.suppress(OSError):  # one that has died is noticed by `result`
            worker.pipe.send((job.method, job.arguments))

    def wait(self, seconds: float) -> bool:
        """Wait up to so many seconds; tell whether a job is done, so that `result` returns at
        once.
        """
        if not self.answers:
            self._wait(seconds)
        return bool(self.answers)

    def result(self) -> tuple[Job, Any]:
        """Wait for a job to be done; return it with its answer, or with the exception in its
        place.
        """
        while not self.answers:
            self._wait(None)
        return self.answers.popleft()

    def _wait(self, seconds: float | None) -> None:
        # A worker that died without a job is noticed as soon as it has one: its pipe has ended.
        pipes = {worker.pipe: worker for worker in self.workers if worker.jobs}
        for pipe in multiprocessing.connection.wait(list(pipes), seconds):
            self._receive(pipes[pipe])  # type: ignore[index]

    def close(self) -> None:
        """End all workers, and forget what is under way."""
        for worker in self.workers:
            _end(worker)
        self.workers = []

    def _receive(self, worker: _Process) -> None:
        try:
            answer = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        self.answers.append((worker.jobs.popleft(), answer))

    def _replace(self, worker: _Process) -> None:
        """Replace a worker that died; only the job that it was running can have killed it."""
        worker.process.join(EXIT_SECONDS)  # its pipe may end a little before it does
        overran = hasattr(signal, "SIGXCPU") and worker.process.exitcode == -signal.SIGXCPU
        _end(worker)
        died = (
            JudgeOverran("the judge computed for too long")
            if overran
            else WorkerDied("the grading process crashed")
        )
        self.answers.append((worker.jobs.popleft(), died))
        self.workers[self.workers.index(worker)] = fresh = self._started(worker.core)
        for job in worker.jobs:
            fresh.jobs.append(job)
            with contextlib.suppress(OSError):
                fresh.pipe.send((job.method, job.arguments))

    def _started(self, core: int | None) -> _Process:
        pipe, worker_end = self.context.Pipe()
        channel = self.pool.channel(core) if self.pool else None
        process = self.context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(worker_end, self.worker_config, channel, core), daemon=True
        )
        process.start()
        # The process has its own copies. As long as this end was open, the pipe could not end.
        worker_end.close()
        if channel:
            channel.close()
        return _Process(process, pipe, deque(), core)


def _end(worker: _Process) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join()


def preload(root: Path, exercises: Sequence[str]) -> None:
    """Start loading what workers need, once for all of them, while this process does other
    things.
    """
    if not hasattr(os, "fork"):
        return
    modules = ["autograder.grading.forkserver_preload"]
    # torch takes seconds to load, and many exercises do without it.
    for name in exercises:
        for file in ("checks.py", "misconceptions.py"):
            with contextlib.suppress(OSError, SyntaxError):  # the worker gives a better message
                statements = imports.statements(
                    [{"source": (root / name / file).read_text(encoding="utf-8")}]
                )
                modules += ["torch"] if any(" torch" in line for line in statements) else []
    forkserver.set_forkserver_preload(list(dict.fromkeys(modules)))
    try:
        with ignoring_interrupts():
            forkserver.ensure_running()
    except OSError as error:
        if "too long" not in str(error):
            raise
        raise UserError(
            f"The folder for temporary files, {tempfile.gettempdir()}, has a name that is too "
            "long for a socket. Set TMPDIR to a shorter one, such as /tmp."
        ) from None


@contextlib.contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C: this process ends them, and they print nothing about
    it.
    """
    # Python lets only the main thread set what a signal does.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(
    pipe: multiprocessing.connection.Connection,
    worker_config: WorkerConfig,
    channel: socket.socket | None,
    core: int | None,
) -> None:
    """Be a worker, on one core or on any: answer jobs until the other end is gone."""
    # Imported here, because the process that only distributes jobs needs none of it.
    from autograder.grading.judge import Judge
    from autograder.grading.worker import Worker
    from autograder.sandbox.guests import Channel

    # A terminal sends Ctrl-C to all its processes; the parent ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if core is not None:
        cores.keep_to(core)
    # torch's threads for a GPU would keep this process from being forked
    if not worker_config.uses_gpu():
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    limit_memory(MOST_EXTRA_WITH_GPU if worker_config.uses_gpu() else MOST_EXTRA_MEMORY)
    Judge.expendable = sys.platform == "linux"
    jobs: queue.SimpleQueue[tuple[str, tuple[Any, ...]]] = queue.SimpleQueue()
    threading.Thread(target=_receive_jobs, args=(pipe, jobs), daemon=True).start()
    worker = Worker(worker_config, Channel(channel, worker_config.limits) if channel else None)
    # All that is loaded now lives as long as this process: no later collection looks at it again.
    gc.collect()
    gc.freeze()
    while True:
        _do_job(worker, pipe, *jobs.get())


def _do_job(
    worker: "Worker",
    pipe: multiprocessing.connection.Connection,
    method: str,
    arguments: tuple[Any, ...],
) -> None:
    """Do one job, and send its answer. Neither stays in memory while the next job comes."""
    try:
        answer = getattr(worker, method)(*arguments)
    except Exception as error:  # a page that cannot be made; grading itself has no exceptions
        answer = RuntimeError(f"{type(error).__name__}: {error}")
    try:
        _send(pipe, answer)
    except OSError:  # the parent is gone, so this process also ends
        os._exit(1)


def _send(pipe: multiprocessing.connection.Connection, answer: Any) -> None:
    """Send an answer; the reason, if it cannot be put into bytes, such as for lack of memory."""
    try:
        pipe.send(answer)
    except OSError:
        raise
    except Exception as error:
        pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _receive_jobs(
    pipe: multiprocessing.connection.Connection, jobs: "queue.SimpleQueue[Any]"
) -> None:
    """Take jobs as they come, so that the sender never waits for an answer to be read.

    The process ends with its parent, no matter how that one ends, and if it has no memory for a
    job: the parent then gives the job to another worker.
    """
    while True:
        try:
            jobs.put(pipe.recv())
        except BaseException:
            os._exit(1)

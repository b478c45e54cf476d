"""Grading on a Dask cluster: `Cluster` here distributes jobs, and a `Station` in each Dask worker
does them.

A station has what this machine has when it grades by itself: a warm parent in its sandbox, and
judges in processes of their own (`backends.Local`). It gets its part of the course as one archive,
identified by its digest. This process decides which worker has which job, as `Local` does: Dask
transports jobs and answers, and reports lost workers.

Answers are JSON and are read as strictly as a record. `distributed` is imported when a cluster is
named.
"""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import io
import json
import logging
import multiprocessing
import platform
import queue
import socket
import time
import warnings
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.checking import machine
from autograder.course import config, cores
from autograder.course.config import Exercise, UserError
from autograder.grades.records import CODEC
from autograder.grades.results import Outcome
from autograder.grading import backends
from autograder.grading.backends import Job, JudgeOverran, Local, WorkerDied
from autograder.grading.executors import UNSANDBOXED, unusable, with_trial_results
from autograder.grading.worker_config import WorkerConfig
from autograder.sandbox import bubblewrap
from autograder.sanitize import text

HERE = "local:"
"""The beginning of an address for workers on this machine: `local:4`."""
GPU = "GPU"
"""The Dask resource that a worker with a GPU declares: `dask worker ... --resources GPU=1`."""
PRIVATE = "--host ITS-ADDRESS --dashboard-address 127.0.0.1"
"""Options of a scheduler or worker: without them, its web server listens on all addresses, for
anyone.
"""
COMPARED = ("numpy", "torch", "distributed")
"""Packages that must have the same version on a worker as here; of `2.13.0+cpu`, the part before
the plus.
"""
WORKER_CONFIG = "worker_config.json"
PATIENCE_KEY, DEFAULT_PATIENCE = "autograder.wait-for-workers", "5 minutes"
"""How long to wait for a worker if there is none: the key of Dask's configuration, and the default.
"""
LOOK_SECONDS = 1.0
"""How often to ask the scheduler which workers there are."""
START_SECONDS = 300
"""The time in which our own workers must start."""
OWN_SECONDS = 20
"""How long to wait for them, when all have died, before they are restarted."""
IDLE_SECONDS = 600
"""The idle time after which a station that was not shut down is replaced by another one."""
FETCH_SECONDS = 10
LEANER = {
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
}
"""Settings that make our own Dask workers leaner: each job has its worker, and leaves nothing
there.
"""
KEPT = "Grades so far are kept; the same command continues from there."
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip archive can have. The same files make the same archive, and digest."""
# Dask's release decides which one it raises.
_CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)


# In a Dask worker.


class Station:
    """The grader inside a Dask worker: made once, for one archive.

    Parameters
    ----------
    folder : Path
        Where the archive was unpacked.
    jobs : int
        How many at a time: the threads of the Dask worker.
    core_per_worker : sequence of int or None, optional
        The core of each worker.
    """

    def __init__(
        self, folder: Path, jobs: int, core_per_worker: Sequence[int | None] | None = None
    ):
        hidden = (str(folder), str(config.ROOT))
        sent = CODEC.structure(
            json.loads((folder / WORKER_CONFIG).read_text(encoding="utf-8")), WorkerConfig
        )
        # This machine's paths; the configuration was sent without any.
        sent = dataclasses.replace(sent, root=str(folder), hidden=hidden)
        self.worker_config = with_trial_results(sent)
        self.is_shut_down, self.used = False, time.monotonic()
        # A worker that Dask's nanny started may have no children of its own, unless it says that it
        # does.
        multiprocessing.current_process().daemon = False
        backends.preload(folder / "exercises", sent.exercises)
        self.pool = self.worker_config.pool() if sent.sandbox else None
        if self.pool:
            self.pool.start()
        # One for each thread of the Dask worker, because `work` runs in all of them at once.
        self.all = [
            Local(1, self.worker_config, self.pool, [core])
            for core in core_per_worker or cores.shared_out(jobs)
        ]
        self.idle: queue.SimpleQueue[Local] = queue.SimpleQueue()
        for local in self.all:
            self.idle.put(local)

    def work(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """Do one job; return its answer, or the exception that it raised."""
        local = self.idle.get()
        try:
            local.submit(Job(0, method, arguments))
            return local.result()[1]
        finally:
            self.used = time.monotonic()
            self.idle.put(local)
            # `shut_down` closed only those that were idle then.
            if self.is_shut_down:
                local.close()

    def shut_down(self) -> None:
        """End what it started, including running jobs."""
        self.is_shut_down = True
        for local in self.all:
            for worker in local.workers:
                worker.process.kill()  # the thread that waits for its answer notices, and closes it
        with contextlib.suppress(queue.Empty):
            while True:
                self.idle.get_nowait().close()
        if self.pool:
            self.pool.close()


_stations: dict[str, Station] = {}
_folders: dict[str, Path] = {}


def work(digest: str, method: str, arguments: tuple[Any, ...]) -> str:
    """Do one job at the station of a digest; return the answer as JSON."""
    station = _stations.get(digest)
    answer = station.work(method, arguments) if station else None
    # A station that was shut down meanwhile killed its workers: that is no answer.
    if station is None or station.is_shut_down:
        return json.dumps({"absent": True})
    return as_text(answer)


def as_text(answer: Any) -> str:
    """Return the text that is sent as the answer to a job."""
    if isinstance(answer, JudgeOverran):
        return json.dumps({"overran": str(answer)})
    if isinstance(answer, WorkerDied):
        return json.dumps({"died": str(answer)})
    if isinstance(answer, Exception):
        return json.dumps({"error": str(answer)})
    if isinstance(answer, Outcome):
        return json.dumps({"outcome": CODEC.unstructure(answer)})
    return json.dumps({"page": answer})


async def facts(sandbox: bool, dask_worker: Any = None) -> dict[str, Any]:
    """Return the facts about a Dask worker: its host, versions, what it has, and what it lacks
    for a sandbox.
    """
    return {
        "host": socket.gethostname(),
        "versions": versions(),
        # In a thread: Dask's event loop must go on to answer the scheduler.
        "lacks": await asyncio.to_thread(bubblewrap.missing) if sandbox else [],
        # A GPU counts only if it is declared as a Dask resource: see `GPU`.
        "has": [need for need in machine.LACKS if need != "gpu" and machine.has(need)],
        "threads": dask_worker.state.nthreads,
    }


async def equip(
    digest: str, archive: bytes | None, pin: bool, dask_worker: Any = None
) -> dict[str, Any]:
    """Make the station of a digest, if there is none.

    If that needs the archive and none is given, say so.

    With `pin`, it is pinned to the core of the Dask worker's number.
    """
    usable = cores.usable()
    core_per_worker = [usable[int(dask_worker.name) % len(usable)]] if pin else None
    jobs = dask_worker.state.nthreads
    return await asyncio.to_thread(
        _equip, digest, archive, dask_worker.local_directory, jobs, core_per_worker
    )


def _equip(
    digest: str,
    archive: bytes | None,
    scratch: str,
    jobs: int,
    core_per_worker: Sequence[int | None] | None,
) -> dict[str, Any]:
    if digest not in _folders:
        if archive is None:
            return {"needs": True}
        if hashlib.sha256(archive).hexdigest() != digest:
            return {"fault": "the exercises arrived damaged"}
        # Below the Dask worker's own folder, which the next one removes if this one is killed.
        folder = Path(scratch).resolve() / f"course-{digest[:16]}"
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            packed.extractall(folder)
        _folders[digest] = folder
    for other, station in list(_stations.items()):
        if station.is_shut_down or time.monotonic() - station.used > IDLE_SECONDS:
            _stations.pop(other).shut_down()
    if digest not in _stations:
        _stations[digest] = Station(_folders[digest], jobs, core_per_worker)
    return {"unusable": unusable(_stations[digest].worker_config)}


async def shut_down(digest: str) -> None:
    """End everything that the station of a digest started; its exercises stay until the Dask
    worker ends.
    """
    station = _stations.pop(digest, None)
    if station:
        await asyncio.to_thread(station.shut_down)


# On both sides.


def versions() -> dict[str, str]:
    """Return the versions that grades depend on, in this process, by name."""
    installed = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for name in COMPARED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name).partition("+")[0]
    return {**installed, "the autograder": _engine()}


@functools.cache  # a Dask worker whose files are replaced still runs the code that it has loaded
def _engine() -> str:
    """Return a fingerprint of the program's own code, without the authors' tools."""
    package = Path(config.__file__).parent.parent
    sha = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] != "authoring":
            sha.update(
                path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
            )
    sha.update((bubblewrap.PROGRAM / "syscalls.txt").read_bytes())
    return sha.hexdigest()[:12]


def packed(worker_config: WorkerConfig) -> bytes:
    """Return an archive with what a station needs: the released exercises, and the configuration
    without its paths.
    """
    portable = dataclasses.replace(worker_config, root="", hidden=(), trial_results=())
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for name, data in _contents(worker_config, json.dumps(CODEC.unstructure(portable))):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            files.writestr(entry, data)
    return archive.getvalue()


def _contents(worker_config: WorkerConfig, worker_config_text: str) -> Iterator[tuple[str, bytes]]:
    yield WORKER_CONFIG, worker_config_text.encode()
    for name in worker_config.exercises:
        folder = Exercise(name, Path(worker_config.root)).released
        for path in sorted(folder.rglob("*")):
            relative = path.relative_to(folder)
            if path.is_file() and not path.is_symlink() and "__pycache__" not in relative.parts:
                yield f"exercises/{name}/{relative.as_posix()}", path.read_bytes()


# Where `grade` runs.


@dataclass
class _Worker:
    """One Dask worker as it is seen from here: its name in messages, its threads, and its jobs
    in order.
    """

    address: str
    label: str
    threads: int
    gpus: int
    has: list[str]
    jobs: deque[Job] = field(default_factory=deque)

    def load(self) -> float:
        return len(self.jobs) / self.threads


class Cluster:
    """A Dask cluster as the place where submissions are graded, and as the backend of its batch.

    Each worker has one running job and one waiting job for each of its threads. A lost worker can
    only have been killed by a running job: those are answered with `WorkerDied`, and the others
    silently go to another worker.

    Parameters
    ----------
    address : str
        Of a running scheduler, such as `tcp://10.0.0.5:8786`; or `local:4`, for four workers on
        this machine.
    warn : callable
        Takes lines for the user of the command.

    Raises
    ------
    UserError
        If there is no scheduler, no worker, or a worker that could give different grades.
    """

    name = "the cluster"

    def __init__(self, address: str, warn: Callable[[str], None] = lambda line: None):
        self.address, self.warn, self.option = address, warn, f" --cluster {address}"
        self.workers: dict[str, _Worker] = {}
        self.submitted: dict[str, tuple[Job, str, Any]] = {}  # job, address and future, by key
        self.unassigned: deque[Job] = deque()  # jobs of lost workers
        self.finished: queue.SimpleQueue[Any] = queue.SimpleQueue()  # futures, from Dask's thread
        self.answers: deque[tuple[Job, Any]] = deque()
        self.archive, self.digest = b"", ""
        self.sandbox = False
        self.on_gpus: set[str] = set()  # the exercises that go to workers with a GPU
        self.gpus_are_gone = False
        self.number = 0
        self.next_look = 0.0
        self.scheduler = ""  # its id: another one may have the same address
        self.client: Any = None
        self.local_cluster: Any = None
        self.pin = False
        _quiet()
        try:
            self._connect()
            self._await_workers()
        except BaseException:
            self.close()
            raise

    # The place.

    def has(self, need: str) -> bool:
        """Tell whether its workers have what a check's `on=` names: one of them for a GPU, all
        for the rest.
        """
        workers = self.workers.values()
        if need in ("gpu", "bf16"):
            return any(worker.gpus and (need == "gpu" or need in worker.has) for worker in workers)
        return need == machine.OWN_ANSWER or all(need in worker.has for worker in workers)

    def begin(self, root: Path, exercises: Sequence[str]) -> None:
        """Do nothing: stations load what they need when they are made."""

    def configure(
        self,
        worker_config: WorkerConfig,
        wanted: bool,
        fall_back: bool,
        warn: Callable[[str], None],
    ) -> WorkerConfig:
        """Return the configuration with a sandbox, if it is wanted; refuse workers that cannot
        have one.
        """
        # Workers are asked again, because what they lack for a sandbox counts only now.
        self.sandbox = wanted
        if not wanted:
            warn(UNSANDBOXED.format(because=""))
        if wanted:
            self.workers.clear()
            self._look(now=True)
        gpu = [
            name for name in worker_config.exercises if worker_config.exercise(name).settings.gpu
        ]
        if gpu and self.has("gpu"):
            self.on_gpus = set(gpu)
        elif gpu:
            warn(
                f"{', '.join(gpu)} may need a GPU, but no worker declares one (--resources "
                f"{GPU}=1): the points of checks that need one will be pending."
            )
        return dataclasses.replace(worker_config, sandbox=wanted)

    def open(self, worker_config: WorkerConfig, soon: bool) -> None:
        """Pack what stations need; if there is certain to be work, make them now."""
        self.archive = packed(worker_config)
        self.digest = hashlib.sha256(self.archive).hexdigest()
        if soon:
            self._equip(self.workers)

    def backend(self, jobs: int) -> "Cluster":
        """Return this cluster; it takes two jobs for each thread of its workers, one running and
        one waiting.
        """
        self._equip(self.workers)
        return self

    def progress(self) -> str:
        """Return how many workers there are."""
        return f"{len(self.workers)} worker{'s' * (len(self.workers) != 1)}, "

    # The backend.

    def free(self) -> int:
        """Return how many more jobs may be submitted now; wait for a worker if there is none."""
        self._look()
        if not self.workers:
            self._await_workers()
        room = sum(
            Local.JOBS_PER_WORKER * worker.threads - len(worker.jobs)
            for worker in self.workers.values()
        )
        return room - len(self.unassigned)

    def submit(self, job: Job) -> None:
        """Give a job to the worker with the fewest per thread, among those that have what the
        job may need.
        """
        unit = job.arguments[0]
        # They are gone since `free` was called; `result` submits the job when there is one.
        if not self.workers:
            self.unassigned.append(job)
            return
        asks = job.method == "grade" and unit.assignment in self.on_gpus
        fitting = [worker for worker in self.workers.values() if worker.gpus or not asks]
        gpu = asks and bool(fitting)
        if asks:
            if not gpu and not self.gpus_are_gone:
                self.warn(
                    "The last worker with a GPU is gone: points that need one are pending until "
                    "`grade --pending`."
                )
            self.gpus_are_gone = not gpu
        # Of two with equally few, the one without a GPU: the other's GPU may soon be needed.
        worker = min(
            fitting or self.workers.values(),
            key=lambda candidate: (candidate.load(), candidate.gpus),
        )
        worker.jobs.append(job)
        self.number += 1
        # Dask takes the highest priority first. With falling ones, a worker does its jobs in the
        # order of `jobs`, and `_lost` knows which of them were running.
        try:
            future = self.client.submit(
                work, self.digest, job.method, job.arguments, key=f"{self.client.id}-{self.number}",
                workers=[worker.address], allow_other_workers=False,
                resources={GPU: 1} if gpu else None,
                priority=-self.number, pure=False,
            )  # fmt: skip
        # The client or its connection is closed; `_look` finds out which.
        except Exception as error:
            self.warn(text.line(str(error)))
            self._requeue(worker)
            return
        self.submitted[future.key] = job, worker.address, future
        future.add_done_callback(self.finished.put)

    def wait(self, seconds: float) -> bool:
        """Return True: no batch on a cluster asks for more submissions, so `result` may block."""
        return True

    def result(self) -> tuple[Job, Any]:
        """Wait for a finished job; return it with its answer, or with the exception that it
        raised.
        """
        while not self.answers:
            self._look()
            if not self.workers:
                self._await_workers()
            for _ in range(len(self.unassigned)):
                self.submit(self.unassigned.popleft())
            with contextlib.suppress(queue.Empty):
                self._receive(self.finished.get(timeout=LOOK_SECONDS))
        return self.answers.popleft()

    def close(self) -> None:
        """End what stations started, forget running jobs, and leave the cluster; end it if it is
        our own.
        """
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(Exception):  # whatever is gone needs no end
                if client.status == "running" and self.digest:
                    client.cancel([future for _, _, future in self.submitted.values()], force=True)
                    client.sync(
                        client.run,
                        shut_down,
                        self.digest,
                        on_error="ignore",
                        callback_timeout=FETCH_SECONDS,
                    )
            with contextlib.suppress(Exception):
                client.close(timeout=2)
        self.submitted.clear()
        if self.local_cluster is not None:
            with contextlib.suppress(Exception):
                self.local_cluster.close(timeout=FETCH_SECONDS)
            self.local_cluster = None

    # Answers.

    def _receive(self, future: Any) -> None:
        from distributed import KilledWorker

        if future.key not in self.submitted:
            return  # of a job that has gone to another worker since
        job, address, _ = self.submitted[future.key]
        worker = self.workers.get(address)
        try:
            reply = json.loads(future.result(timeout=FETCH_SECONDS))
            if reply.get("absent"):  # the station was ended: its worker is added again
                self._requeue(worker)
                return
            answer = _answer(reply)
        # Dask gives up a job whose workers died several times.
        except KilledWorker:
            self._lost(worker)
            return
        except (OSError, TimeoutError, *_CANCELLED) as error:
            self.next_look = 0  # the worker is gone, or the scheduler: the look says which
            if future.cancelled() or isinstance(error, _CANCELLED):
                self._requeue(worker)
            else:  # or it is slow
                self.finished.put(future)
            return
        except Exception as error:
            answer = RuntimeError(text.line(f"{type(error).__name__}: {error}"))
        del self.submitted[future.key]
        if worker:
            worker.jobs.remove(job)
        self.answers.append((job, answer))

    def _lost(self, worker: _Worker | None) -> None:
        """Forget a lost worker: only a running job can have ended it."""
        if worker is None:
            return
        for _ in range(min(worker.threads, len(worker.jobs))):
            job = worker.jobs.popleft()
            self.answers.append((job, WorkerDied("the worker that was grading it is gone")))
        self._requeue(worker)

    def _requeue(self, worker: _Worker | None) -> None:
        """Forget a worker until it is seen again; its jobs go to others."""
        if worker is None:
            return
        self.workers.pop(worker.address, None)
        self.unassigned.extend(worker.jobs)
        keys = [key for key, (_, address, _) in self.submitted.items() if address == worker.address]
        futures = [self.submitted.pop(key)[2] for key in keys]
        with contextlib.suppress(Exception):  # the scheduler may be gone with it
            self.client.cancel(futures, force=True, asynchronous=False)

    # Workers.

    def _look(self, now: bool = False) -> None:
        """See which workers there are: add the new ones, and forget those that are gone."""
        if time.monotonic() < self.next_look and not now:
            return
        self.next_look = time.monotonic() + LOOK_SECONDS
        try:
            known = self.client.sync(
                self.client.scheduler.identity, n_workers=-1, callback_timeout=FETCH_SECONDS
            )
        except Exception:
            self._reconnect()
            return
        # Another scheduler at the same address: the workers of the earlier one ended with it.
        if known["id"] != self.scheduler:
            for worker in list(self.workers.values()):
                self._requeue(worker)
            self.scheduler = known["id"]
        for address in set(self.workers) - set(known["workers"]):
            self._lost(self.workers[address])
        new = {
            address: description
            for address, description in known["workers"].items()
            if address not in self.workers
        }
        if new:
            self._welcome(new)

    def _welcome(self, new: dict[str, Any]) -> None:
        """Add workers, after checking each."""
        faults, welcome = [], {}
        for address, info in self._run(new, facts, self.sandbox).items():
            if isinstance(info, ModuleNotFoundError):
                faults.append(
                    f"The worker {address} cannot import {info.name}: install this course's "
                    "autograder there."
                )
                continue
            if isinstance(info, Exception):  # it is gone, or will be found by the next look
                continue
            label = f"{address} on {info['host']}"
            faults += [f"The worker {label} {fault}" for fault in _faults(info)]
            gpus = int((new[address].get("resources") or {}).get(GPU, 0))
            welcome[address] = _Worker(address, label, info["threads"], gpus, info["has"])
        if faults:
            more = (
                f" ({len(faults) - 1} more such problem{'s' * (len(faults) > 2)})"
                if len(faults) > 1
                else ""
            )
            raise UserError(faults[0] + more)
        if self.digest:
            welcome = self._equip(welcome)
        self.workers.update(welcome)

    def _equip(self, workers: dict[str, _Worker]) -> dict[str, _Worker]:
        """Let each of these workers make its station; return those that did."""
        # First without the archive: a worker that has it from an earlier run need not get it again.
        replies = self._run(workers, equip, self.digest, None, self.pin)
        lacking = [
            address
            for address, reply in replies.items()
            if isinstance(reply, dict) and reply.get("needs")
        ]
        replies.update(self._run(lacking, equip, self.digest, self.archive, self.pin))
        equipped = {}
        for address, reply in replies.items():
            label = workers[address].label
            if isinstance(reply, OSError):
                continue  # gone meanwhile
            if isinstance(reply, Exception):
                raise UserError(f"The worker {label} cannot grade: {text.line(str(reply))}")
            if reply.get("fault"):
                raise UserError(f"The worker {label} cannot grade: {reply['fault']}.")
            for line in reply.get("unusable", ()):
                self.warn(f"On the worker {label}: {line}")
            equipped[address] = workers[address]
        return equipped

    def _run(
        self, workers: Iterable[str], function: Callable[..., Any], *arguments: Any
    ) -> dict[str, Any]:
        """Call a function in each of these workers; return by address what it returned, or the
        exception.
        """
        addresses = list(workers)
        if not addresses:
            return {}
        results: dict[str, Any] = self.client.run(
            function, *arguments, workers=addresses, on_error="return"
        )
        return results

    def _await_workers(self) -> None:
        """Wait for a worker; raise `UserError` if none connects."""
        import dask
        from dask.utils import parse_timedelta

        patience = parse_timedelta(dask.config.get(PATIENCE_KEY, DEFAULT_PATIENCE))
        deadline, warned = time.monotonic() + patience, False
        while True:
            self._look(now=True)
            if self.workers:
                return
            if not warned:
                self.warn(
                    f"There is no worker at {self.address}; waiting up to {patience:g} s for one."
                )
                warned = True
            if time.monotonic() > deadline:
                raise UserError(
                    f"No worker connected to the scheduler at {self.address} in {patience:g} "
                    f"seconds. Start one: dask worker {self.address} {PRIVATE}:0. {KEPT}"
                )
            if (
                self.local_cluster is not None
                and time.monotonic() > deadline - patience + OWN_SECONDS
            ):
                self._renew()  # Dask restarts them, but gives up on one that dies while it starts
            time.sleep(0.3)

    # The scheduler.

    def _connect(self) -> None:
        """Connect to the scheduler, or start our own and its workers."""
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise UserError(
                "Grading on a cluster needs Dask, which is not installed. In the course folder, "
                "run: "
                'python -m pip install ".[cluster]"'
            ) from None
        _quiet()
        target: Any = self.address
        count = 0
        if self.address.startswith(HERE):
            count = _count(self.address)
            import dask

            # As `cores.shared_out` decides it for a local run.
            self.pin = count >= cores.count()
            dask.config.set(LEANER)
            # No limit of memory by Dask (0), which would end the whole worker: guests have theirs.
            with backends.ignoring_interrupts():
                target = self.local_cluster = LocalCluster(
                    n_workers=count, threads_per_worker=1, processes=True, memory_limit=0,
                    dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
                )  # fmt: skip
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about other versions, which we report ourselves
                self.client = Client(target, set_as_default=False, direct_to_workers=bool(count))
            if count:
                self.client.wait_for_workers(count, timeout=START_SECONDS)
        except (OSError, ValueError, TypeError, RuntimeError, ImportError) as error:
            reason = text.line(str(error)) or type(error).__name__
            raise UserError(
                f"No Dask scheduler can be reached at {self.address} ({reason}). Start one with "
                f"`dask scheduler {PRIVATE}:8787`, and name the address that it prints, or "
                f"{HERE}N for N workers on this machine."
            ) from None

    def _reconnect(self) -> None:
        """Wait for the scheduler to come back, and restart all running jobs."""
        import dask
        from dask.utils import parse_timedelta

        patience = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))
        for worker in list(self.workers.values()):
            self._requeue(worker)
        self.warn(
            f"The scheduler at {self.address} does not answer; waiting up to {patience:g} s for it."
        )
        try:
            self._renew()
        except UserError:
            raise UserError(
                f"The scheduler at {self.address} is gone. {KEPT} Start a scheduler and workers, "
                "and run it again."
            ) from None

    def _renew(self) -> None:
        """Connect again; if the scheduler and the workers are our own, restart them."""
        with contextlib.suppress(Exception):
            self.client.close(timeout=1)
        self.client = None
        if self.local_cluster is not None:
            with contextlib.suppress(Exception):
                self.local_cluster.close(timeout=FETCH_SECONDS)
            self.local_cluster = None
        self._connect()
        self.next_look = 0


def _answer(reply: dict[str, Any]) -> Any:
    """Return an answer in the batch's own types; raise an error if it is not valid."""
    if "outcome" in reply:
        return CODEC.structure(reply["outcome"], Outcome)
    if "page" in reply:
        page, seconds = reply["page"]
        return CODEC.structure(page, str), CODEC.structure(seconds, float)
    if "overran" in reply:
        return JudgeOverran(str(reply["overran"]))
    return WorkerDied(str(reply["died"])) if "died" in reply else RuntimeError(str(reply["error"]))


def _faults(info: dict[str, Any]) -> Iterator[str]:
    """Yield the reasons why a worker must not grade."""
    ours = versions()
    for name in sorted({*ours, *info["versions"]}):
        theirs = info["versions"].get(name)
        if theirs != ours.get(name):
            difference = f"{name} {theirs}" if theirs else f"no {name}"
            yield (
                f"has {difference}, but here it is {ours.get(name, 'not installed')}: "
                "grades depend on it. Install the same on both, and restart the worker."
            )
    if info["lacks"]:
        yield (
            f"cannot isolate submissions: {'; '.join(info['lacks'])}. Fix that or stop that "
            "worker, or grade at your own risk with --no-sandbox."
        )


def _count(address: str) -> int:
    number = address.removeprefix(HERE)
    if not number.isascii() or not number.isdigit() or not int(number):
        raise UserError(f"--cluster {address} does not say how many workers. Write it as {HERE}4.")
    return int(number)


def _quiet() -> None:
    """Silence Dask's own messages, so that only ours are shown."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # A submission may have megabytes of pictures; they are sent once, to the worker that grades it.
    warnings.filterwarnings("ignore", "Sending large graph")

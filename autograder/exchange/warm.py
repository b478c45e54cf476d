"""Keeps workers and guests warm between batches: a student who hands in alone need not wait until
they have started.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.course import cores
from autograder.course.config import Exercise
from autograder.grading.backends import Backend, Job, Local
from autograder.grading.executors import LocalExecutor
from autograder.grading.worker_config import WorkerConfig


class WarmExecutor(LocalExecutor):
    """This machine, with workers that stay until `release`.

    They serve all batches of the same exercises, as long as these are not released again.

    Parameters
    ----------
    jobs : int
        How many submissions are graded at a time; 0 for one on each core.
    """

    def __init__(self, jobs: int = 0):
        super().__init__()
        self.jobs = jobs or cores.count()
        self.used_at = time.monotonic()
        self._kept: _Kept | None = None
        self._files: tuple[tuple[str, int, int], ...] = ()
        self._settled: dict[Any, WorkerConfig] = {}

    def begin(self, root: Path, exercises: Sequence[str]) -> None:
        """Let the fork server load what workers need."""
        # Workers that stay have loaded it already.
        if self._kept is None:
            super().begin(root, exercises)

    def configure(
        self,
        worker_config: WorkerConfig,
        wanted: bool,
        fall_back: bool,
        warn: Callable[[str], None],
    ) -> WorkerConfig:
        """Return the configuration with the sandbox; what was tried once for one counts again."""
        # What a submission imports changes nothing in it.
        key = replace(worker_config, imports=()), _files_of(worker_config)
        if key not in self._settled:
            self._settled = {key: super().configure(worker_config, wanted, fall_back, warn)}
        return replace(self._settled[key], imports=worker_config.imports)

    def open(self, worker_config: WorkerConfig, soon: bool) -> None:
        """Make the warm parent, unless there is one that serves this configuration as well."""
        if self.pool and self._files == _files_of(self.worker_config):
            if _serves(self.worker_config, worker_config):
                return
            # Both: otherwise two exercises in turn would end each other's workers.
            imports = dict.fromkeys([*self.worker_config.imports, *worker_config.imports])
            worker_config = replace(worker_config, imports=tuple(imports))
        self.release()
        super().open(worker_config, soon)
        self._files = _files_of(worker_config)

    def backend(self, jobs: int) -> Backend:
        """Return the workers; as many as there are cores, since more may come in.

        No job waits behind a running one: that may be slow while another worker has nothing to do.
        """
        if self._kept is None or self._kept.is_closed:
            self._kept = _Kept(Local(self.jobs, self.worker_config, self.pool, jobs_per_worker=1))
        return self._kept

    def is_outdated(self) -> bool:
        """Tell whether an exercise of the workers was released again since they began."""
        return self.pool is not None and self._files != _files_of(self.worker_config)

    def close(self) -> None:
        """Keep all for the next batch."""
        self.used_at = time.monotonic()

    def release(self) -> None:
        """End the workers and the warm parent."""
        if self._kept:
            self._kept.end()
        self._kept = None
        super().close()
        self.pool = None


class _Kept:
    """A backend that stays when a batch closes it, unless jobs of that batch are under way."""

    def __init__(self, backend: Backend):
        self.backend = backend
        self.under_way = 0
        self.is_closed = False

    def free(self) -> int:
        return self.backend.free()

    def submit(self, job: Job) -> None:
        self.under_way += 1
        self.backend.submit(job)

    def wait(self, seconds: float) -> bool:
        return self.backend.wait(seconds)

    def result(self) -> tuple[Job, Any]:
        result = self.backend.result()
        self.under_way -= 1
        return result

    def close(self) -> None:
        # Their results would come in the next batch, which has no such jobs.
        if self.under_way:
            self.end()

    def end(self) -> None:
        if not self.is_closed:
            self.backend.close()
        self.is_closed = True


def _serves(present: WorkerConfig, wanted: WorkerConfig) -> bool:
    """Tell whether workers that were made for one configuration can also work in another one."""
    has_exercises = set(wanted.exercises) <= set(present.exercises)
    has_imports = set(wanted.imports) <= set(present.imports)
    same = replace(present, exercises=wanted.exercises, imports=wanted.imports) == wanted
    return has_exercises and has_imports and same


def _files_of(worker_config: WorkerConfig) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when one of a configuration's exercises is released again."""
    exercises = [Exercise(name, Path(worker_config.root)) for name in worker_config.exercises]
    paths = [path for exercise in exercises for path in sorted(exercise.released.rglob("*"))]
    # If a release removes one at this moment, the watch waits and tries again: see its TROUBLES.
    states = [(str(path), path.stat()) for path in paths if path.is_file()]
    return tuple((path, state.st_mtime_ns, state.st_size) for path, state in states)

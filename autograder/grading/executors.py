"""Where a session's submissions are graded: on this machine, or, in
`autograder.grading.cluster`, on a cluster.
"""

import contextlib
import dataclasses
import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from autograder.checking import kernels, machine
from autograder.course.config import UserError
from autograder.grades.reasons import describe_needs
from autograder.grading import backends
from autograder.grading.worker_config import WorkerConfig
from autograder.sandbox import bubblewrap
from autograder.sandbox.guest import Ended
from autograder.sandbox.guests import GuestPool
from autograder.sanitize import text

# Each answer is sent at once: a later trial may end the guest.
TRIALS = """
import json
for what in {wanted}:
    print(json.dumps([what, trial(what)]), flush=True)
"""
UNUSABLE = "Checks that need {what} cannot run here; their points are pending: {reason}"
MOST_FAULT = 200  # characters
UNSANDBOXED = "Without a sandbox{because}: submissions run with your rights."


class Executor(Protocol):
    """Where submissions are graded.

    Its methods are called in the order in which they are listed here.
    """

    name: str
    option: str
    """Its name, and the extra option that `grade` needs for it."""

    def has(self, need: str) -> bool:
        """Tell whether it has what a check's `on=` names."""

    def begin(self, root: Path, exercises: Sequence[str]) -> None:
        """Begin to load what grading these exercises needs, while other things are done."""

    def configure(
        self,
        worker_config: WorkerConfig,
        wanted: bool,
        fall_back: bool,
        warn: Callable[[str], None],
    ) -> WorkerConfig:
        """Return the configuration with the sandbox that there can be; where one is wanted and
        can't be, refuse.
        """

    def open(self, worker_config: WorkerConfig, soon: bool) -> None:
        """Make ready for work; `soon` tells whether there will be some for sure."""

    def backend(self, jobs: int) -> backends.Backend:
        """Return the backend, for so many jobs at one time where it leaves that open."""

    def progress(self) -> str:
        """Return an addition to the progress line."""

    def close(self) -> None:
        """End what was started."""


class LocalExecutor:
    """This machine: worker processes, and one warm parent for all of them."""

    name, option = "this machine", ""

    def __init__(self) -> None:
        self.pool: GuestPool | None = None

    def has(self, need: str) -> bool:
        """Tell whether this machine has what a check's `on=` names."""
        return machine.has(need)

    def begin(self, root: Path, exercises: Sequence[str]) -> None:
        """Let the fork server load what workers need."""
        backends.preload(root / "exercises", exercises)

    def configure(
        self,
        worker_config: WorkerConfig,
        wanted: bool,
        fall_back: bool,
        warn: Callable[[str], None],
    ) -> WorkerConfig:
        """Return the configuration with the sandbox that there can be; where one is wanted and
        can't be, refuse.
        """
        lacks = bubblewrap.missing() if wanted else []
        if lacks and not fall_back:
            raise UserError(
                f"Submissions cannot be isolated on this machine: {'; '.join(lacks)}. "
                "Fix that, or grade at your own risk with --no-sandbox."
            )
        isolated = wanted and not lacks
        worker_config = dataclasses.replace(worker_config, sandbox=isolated)
        if not isolated:
            warn(UNSANDBOXED.format(because=f", because {'; '.join(lacks)}" if lacks else ""))
        worker_config = with_trial_results(worker_config)
        for line in unusable(worker_config):
            warn(line)
        return worker_config

    def open(self, worker_config: WorkerConfig, soon: bool) -> None:
        """Make the warm parent; where there will be work for sure, it warms up from now on."""
        self.worker_config = worker_config
        self.pool = worker_config.pool() if worker_config.sandbox else None
        if self.pool and soon:
            self.pool.start()

    def backend(self, jobs: int) -> backends.Backend:
        """Return worker processes of this machine."""
        return backends.Local(jobs, self.worker_config, self.pool)

    def progress(self) -> str:
        """Return nothing: the caller knows the number of simultaneous jobs."""
        return ""

    def close(self) -> None:
        """End the warm parent."""
        if self.pool:
            self.pool.close()


def with_trial_results(worker_config: WorkerConfig) -> WorkerConfig:
    """Return the configuration with what was found where its guests run: what checks need, and
    whether it works there.

    Without a trial, a fault of ours would cost students points: a system call that a driver needs
    and the sandbox refuses, a version of Triton that kernels cannot be watched with. What does not
    work on a GPU is tried without.
    """
    wanted, results = worker_config.wants(), dict[str, str]()
    if worker_config.uses_gpu():
        results = _trials(
            worker_config,
            ["gpu", *[need for need in wanted if need != "gpu" and machine.has(need)]],
        )
        if results["gpu"]:
            # With this fault, `uses_gpu` is False: the rest is tried again below, without the GPU.
            results = dict.fromkeys(("gpu", "bf16"), results["gpu"])
            worker_config = dataclasses.replace(worker_config, trial_results=tuple(results.items()))
    else:
        wanted = [need for need in wanted if need not in ("gpu", "bf16")]
    rest = [need for need in wanted if need not in results and machine.has(need)]
    results.update(_trials(worker_config, rest) if rest else {})
    return dataclasses.replace(worker_config, trial_results=tuple(results.items()))


def unusable(worker_config: WorkerConfig) -> list[str]:
    """Return a sentence for each reason why something that is installed does not work for
    guests.
    """
    reasons: dict[str, list[str]] = {}
    for need, reason in worker_config.trial_results:
        if reason:
            reasons.setdefault(reason, []).append(need)
    for names in reasons.values():
        if "gpu" in names:  # without it, there is no more to say of what computes on it
            names[:] = [need for need in names if need != "bf16"]
    return [
        UNUSABLE.format(what=describe_needs(names), reason=reason)
        for reason, names in reasons.items()
    ]


def _trials(worker_config: WorkerConfig, wanted: Sequence[str]) -> dict[str, str]:
    """Let a guest try all these; return for each why it does not work there, or "" if it does."""
    outputs: list[dict[str, Any]] = []
    guests = worker_config.bare_guests()
    # As text: a guest cannot import `kernels`, because only `sandbox/inside` is there.
    cell = inspect.getsource(kernels) + TRIALS.format(wanted=list(wanted))
    fault = "it ended without answering"
    try:
        guests.guest().request({"op": "cell"}, [cell.encode()], on_output=outputs.append)
    except (Ended, RuntimeError) as error:
        fault = str(error)
    finally:
        guests.close()
    reasons = dict[str, str]()
    for line in "".join(output.get("text", "") for output in outputs).splitlines():
        with contextlib.suppress(ValueError, TypeError):  # Triton and drivers print what they like
            need, reason = json.loads(line)
            reasons[need] = text.line(str(reason), MOST_FAULT)
    errors = [output for output in outputs if "evalue" in output]
    if errors:
        fault = f"{errors[0]['ename']}: {errors[0]['evalue']}"
    return {need: reasons.get(need, text.line(fault, MOST_FAULT)) for need in wanted}

"""Where a session's submissions are graded: on this machine, or, in `autograder.grading.cluster`, on a cluster."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from autograder.checking import machine
from autograder.course import UserError
from autograder.grading import backends
from autograder.grading.worker_config import WorkerConfig
from autograder.sandbox import bubblewrap
from autograder.sandbox.guest import Ended
from autograder.sandbox.guests import GuestPool
from autograder.sanitize import text

USE_GPU = """
import importlib.util
import torch
torch.ones(2, device="cuda").sum().item()
if importlib.util.find_spec("triton"):
    import triton
    triton.runtime.driver.active.utils  # builds what launches kernels: with a C compiler, and Python's headers
"""
MOST_FAULT = 200  # characters
UNSANDBOXED = "Without a sandbox{because}: submissions run with your rights."


class Place(Protocol):
    """Where submissions are graded. What is asked of it comes in the order in which it stands here."""

    name: str
    option: str
    """What it is called, and what `grade` needs for it besides."""

    def has(self, what: str) -> bool:
        """Tell whether it has what a check's `on=` names."""

    def begin(self, root: Path, exercises: Sequence[str]) -> None:
        """Begin to load what grading these exercises needs, while other things are done."""

    def settle(
        self, setting: WorkerConfig, wanted: bool, fall_back: bool, warn: Callable[[str], None]
    ) -> WorkerConfig:
        """Return the setting with the sandbox that there can be; where one is wanted and can't be, refuse."""

    def open(self, setting: WorkerConfig, soon: bool) -> None:
        """Make ready for work in this setting; `soon` tells whether there will be some for sure."""

    def backend(self, jobs: int) -> backends.Backend:
        """Return the backend, for so many jobs at one time where it leaves that open."""

    def said(self) -> str:
        """Return what progress should say of it besides."""

    def close(self) -> None:
        """End what was started."""


class Here:
    """This machine: worker processes, and one warm parent for all of them."""

    name, option = "this machine", ""

    def __init__(self) -> None:
        self.pool: GuestPool | None = None

    def has(self, what: str) -> bool:
        """Tell whether this machine has what a check's `on=` names."""
        return machine.has(what)

    def begin(self, root: Path, exercises: Sequence[str]) -> None:
        """Let the fork server load what workers need."""
        backends.preload(root / "exercises", exercises)

    def settle(
        self, setting: WorkerConfig, wanted: bool, fall_back: bool, warn: Callable[[str], None]
    ) -> WorkerConfig:
        """Return the setting with the sandbox that there can be; where one is wanted and can't be, refuse."""
        lacks = bubblewrap.missing() if wanted else []
        if lacks and not fall_back:
            raise UserError(
                f"Submissions cannot be isolated on this machine: {'; '.join(lacks)}. "
                "Mend that, or grade at your own risk with --no-sandbox."
            )
        isolated = wanted and not lacks
        setting = dataclasses.replace(setting, sandbox=isolated)
        if not isolated:
            warn(UNSANDBOXED.format(because=f", because {'; '.join(lacks)}" if lacks else ""))
        setting, fault = without_faulty_gpu(setting)
        if fault:
            warn(f"Submissions cannot use this machine's GPU ({fault}): points for what needs one wait.")
        return setting

    def open(self, setting: WorkerConfig, soon: bool) -> None:
        """Make the warm parent; where there will be work for sure, it warms up from now on."""
        self.setting = setting
        self.pool = setting.pool() if setting.sandbox else None
        if self.pool and soon:
            self.pool.start()

    def backend(self, jobs: int) -> backends.Backend:
        """Return worker processes of this machine."""
        return backends.Local(jobs, self.setting, self.pool)

    def said(self) -> str:
        """Return nothing: how many jobs there are at one time is known to who asked for them."""
        return ""

    def close(self) -> None:
        """End the warm parent."""
        if self.pool:
            self.pool.close()


def without_faulty_gpu(setting: WorkerConfig) -> tuple[WorkerConfig, str]:
    """Return the setting, without a GPU that guests would have but cannot use, and why they can't."""
    fault = gpu_fault(setting) if setting.uses_gpu() else ""
    return (dataclasses.replace(setting, hide_gpu=True) if fault else setting), fault


def gpu_fault(setting: WorkerConfig) -> str:
    """Return why a guest cannot use the GPU that this machine has; an empty text if it can.

    Without asking one, a fault of ours, such as a system call that a driver needs and the sandbox refuses, would cost
    students points.
    """
    found: list[dict[str, Any]] = []
    guests = setting.guests()
    try:
        guests.guest().request({"op": "cell"}, [USE_GPU.encode()], on_output=found.append)
    except (Ended, RuntimeError) as error:
        return text.line(str(error), MOST_FAULT)
    finally:
        guests.close()
    return next((text.line(f"{output['evalue']}", MOST_FAULT) for output in found if "evalue" in output), "")

"""What one submission may use; the one place where it is set.

It is changed for a course in `nbgrader_config.py` (`c.Limits.…`), and for one exercise in its `exercise.toml`.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from traitlets import Bool, Float, Integer
from traitlets.config import Config, Configurable


def _limit(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"help": meaning})


@dataclass(frozen=True)
class Limits:
    """Limits of a submission. Whatever goes beyond them ends the cell that did, and is a reason of the kind *limit*.

    Time is counted in seconds of computing, and in seconds in which nothing ran at all, so that a busy machine
    changes no grade; what is allowed in all is so for the whole submission, however often it has to begin anew.
    Memory is that of all the submission's processes together, read every twentieth of a second, with what they share
    and with 0.4 MB for each socket, and each process's own is bounded by the kernel as well.
    """

    cpu_seconds: float = _limit(60.0, "Seconds of computing for one cell, all its processes together.")
    cpu_seconds_in_all: float = _limit(300.0, "Seconds of computing for a whole submission.")
    idle_seconds: float = _limit(20.0, "Seconds in which a running cell may wait for nothing.")
    idle_seconds_in_all: float = _limit(120.0, "Seconds in which a submission may wait for nothing.")
    wall_seconds_in_all: float = _limit(
        1800.0, "Seconds for which the judge waits for a submission in all, whatever it does."
    )
    memory_mb: int = _limit(2000, "Memory beyond what the warm parent shares, in MB.")
    processes: int = _limit(64, "Processes and threads at one time.")
    disk_mb: int = _limit(200, "Scratch space, in MB; it lies in memory.")
    shared_mb: int = _limit(200, "Shared memory (/dev/shm), in MB.")
    files: int = _limit(5000, "Files and folders in the scratch space.")
    descriptors: int = _limit(256, "Open files of one process.")
    output_kb: int = _limit(400, "Text that is kept of one cell's output, in KB; more is cut off.")
    picture_kb: int = _limit(2000, "Size of one picture that is kept, in KB.")
    notebook_mb: int = _limit(50, "Size of a notebook that is read, in MB.")
    graded_mb: int = _limit(20, "Size of a graded notebook, and of a feedback page, in MB; more is cut.")
    beside_mb: int = _limit(20, "Size of the other files that a student hands in, in MB.")
    judge_seconds: float = _limit(20.0, "Seconds that one check cell may make the judge compute.")
    run_all_cells: bool = _limit(
        False, "Whether to run the cells behind the last graded cell of code, which change no grade."
    )
    received_mb: int = _limit(1000, "Data that a submission may send to the judge in all, in MB.")
    deaths: int = _limit(6, "How often a submission may end Python itself, until the rest is not run.")

    @classmethod
    def configured(cls, config: Config) -> "Limits":
        """Return the limits that nbgrader's configuration of a course sets (`c.Limits.…`).

        Raises
        ------
        traitlets.TraitError
            If one is set to a value of another type.
        """
        said = _Traits(config=config)
        return cls(**{limit.name: getattr(said, limit.name) for limit in dataclasses.fields(cls)})


_KINDS = {bool: Bool, int: Integer, float: Float}
_Traits = type(
    "Limits",  # the name under which a configuration sets them
    (Configurable,),
    {
        limit.name: _KINDS[type(limit.default)](limit.default, help=limit.metadata["help"]).tag(config=True)
        for limit in dataclasses.fields(Limits)
    },
)

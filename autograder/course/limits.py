"""What one submission may use: the only place that sets the defaults.

A course changes them in `nbgrader_config.py` (`c.Limits.…`), and one exercise in its
`exercise.toml`.
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
    """Limits of a submission. A cell that exceeds one is ended, with a reason of the kind *limit*.

    Time is counted in CPU seconds, and in seconds in which nothing ran at all, so that a busy
    machine changes no grade. Limits that end in `_in_all` are for the whole submission, no matter
    how often it is restarted. Memory is the sum over the submission's processes, read every
    twentieth of a second, including what they share and 0.4 MB for each socket. The kernel also
    limits the memory of each process.
    """

    cpu_seconds: float = _limit(60.0, "CPU seconds for one cell, all its processes together.")
    cpu_seconds_in_all: float = _limit(300.0, "CPU seconds for a whole submission.")
    idle_seconds: float = _limit(20.0, "Seconds that a running cell may be idle.")
    idle_seconds_in_all: float = _limit(120.0, "Seconds that a whole submission may be idle.")
    wall_seconds_in_all: float = _limit(
        1800.0, "Seconds for which the judge waits for a submission in all, busy or idle."
    )
    memory_mb: int = _limit(2000, "Memory beyond what the warm parent shares, in MB.")
    processes: int = _limit(64, "Processes and threads at a time.")
    disk_mb: int = _limit(200, "Scratch space, in MB; it is in memory.")
    shared_mb: int = _limit(200, "Shared memory (/dev/shm), in MB.")
    files: int = _limit(5000, "Files and folders in the scratch space.")
    descriptors: int = _limit(256, "Open files of one process.")
    output_kb: int = _limit(400, "Text kept from one cell's output, in KB; the rest is cut off.")
    picture_kb: int = _limit(2000, "Size of one kept picture, in KB.")
    notebook_mb: int = _limit(50, "Size of a notebook, in MB; a larger one is not read.")
    graded_mb: int = _limit(
        20, "Size of a graded notebook, and of a feedback page, in MB; the rest is cut off."
    )
    beside_mb: int = _limit(20, "Size of the other files in a submission, in MB.")
    judge_seconds: float = _limit(20.0, "Seconds that one check cell may make the judge compute.")
    run_all_cells: bool = _limit(
        False, "Whether to run the cells after the last graded code cell, which change no grade."
    )
    received_mb: int = _limit(1000, "Data that a submission may send to the judge in all, in MB.")
    deaths: int = _limit(
        6, "How often a submission may crash Python; after that, the rest is not run."
    )

    @classmethod
    def configured(cls, config: Config) -> "Limits":
        """Return the limits that nbgrader's configuration of a course sets (`c.Limits.…`).

        Raises
        ------
        traitlets.TraitError
            If one is set to a value of another type.
        """
        traits = _Traits(config=config)
        return cls(**{limit.name: getattr(traits, limit.name) for limit in dataclasses.fields(cls)})


_KINDS = {bool: Bool, int: Integer, float: Float}
_Traits = type(
    "Limits",  # the name under which a configuration sets them
    (Configurable,),
    {
        limit.name: _KINDS[type(limit.default)](limit.default, help=limit.metadata["help"]).tag(
            config=True
        )
        for limit in dataclasses.fields(Limits)
    },
)

"""How many cores this process may use, on any system."""

import os


def usable() -> list[int]:
    """Return the numbers of the cores that this process may use; where a system does not say, of
    all there are.
    """
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def count() -> int:
    """Return how many cores this process may use: at least one."""
    return len(usable())


def shared_out(jobs: int) -> list[int | None]:
    """Return a core for each of so many jobs, at least one; where cores would be left over,
    None: any.
    """
    cores = usable()
    wanted = max(jobs, 1)
    # With fewer jobs than cores, the system can move a job to a core that is free.
    if len(cores) > jobs:
        return [None] * wanted
    return [cores[number % len(cores)] for number in range(wanted)]


def keep_to(core: int) -> None:
    """Keep this process, and what it starts, to one core; where that cannot be done, do nothing."""
    if hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(0, {core})
        except OSError:  # one that has been taken away in the meantime
            return

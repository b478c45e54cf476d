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
    each = usable()
    return [
        each[number % len(each)] if len(each) <= jobs else None for number in range(max(jobs, 1))
    ]


def keep_to(core: int) -> None:
    """Keep this process, and what it starts, to one core; where that cannot be done, do nothing."""
    if hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(0, {core})
        except OSError:  # one that has been taken away in the meantime
            return

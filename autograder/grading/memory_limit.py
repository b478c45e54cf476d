"""Limits the memory of this process, so that a computation for a guest raises a `MemoryError`
instead of stopping the machine.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path


def limit_memory(extra: int) -> tuple[int, int] | None:
    """Let this process take so many bytes more at most; return the limits before that.

    None, and no limit, where the system does not count them.
    """
    if sys.platform != "linux":
        return None
    import resource

    # The limit is on all data of the process: Python and torch have some of it already.
    status = Path("/proc/self/status").read_text().splitlines()
    used = next((int(line.split()[1]) << 10 for line in status if line.startswith("VmData:")), 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = used + extra if hard == resource.RLIM_INFINITY else min(used + extra, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    return soft, hard


@contextlib.contextmanager
def at_most_more(size: int) -> Iterator[None]:
    """Limit the memory as `limit_memory` does, within this context."""
    before = limit_memory(size)
    try:
        yield
    finally:
        if before is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, before)

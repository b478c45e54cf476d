"""One at a time: what two commands must not do to the same course at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def held(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock that is the file `path`, which is made if need be; it is free again when this process ends.

    Parameters
    ----------
    path : Path
        Of a folder that all who take part can write to.
    waiting : callable
        Called once if another process holds it, before waiting for that one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()

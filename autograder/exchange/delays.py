"""Hand-ins that the program fails on: each is tried again after a time that grows."""

import errno
import sqlite3
import time

FIRST_DELAY, LONGEST_DELAY = 5.0, 3600.0
"""Seconds until a hand-in that failed is tried again: the first time, and at most."""
GENERAL = (
    # A student's files cause none of these here: `inbound.read` makes its own exceptions of all
    # errors in opening and reading them. So ENOENT, for example, is a lost mount.
    errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOENT, errno.ENODEV, errno.ESTALE,
    errno.ENOTCONN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM,
)  # fmt: skip
"""Errors of disks and of the machine, which would meet all other hand-ins as well."""


def is_general(error: Exception) -> bool:
    """Tell whether an error comes from a disk, a folder or a database, not from one hand-in."""
    if isinstance(error, OSError):
        return error.errno in GENERAL
    return isinstance(error, sqlite3.OperationalError)


class Delays:
    """The hand-ins that failed, by name, and when each is tried again."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[float, float]] = {}

    def is_due(self, name: str) -> bool:
        """Tell whether a hand-in may be tried now."""
        due, _ = self._failed.get(name, (0.0, 0.0))
        return time.monotonic() >= due

    def add(self, name: str) -> bool:
        """Note that a hand-in failed; tell whether that is the first time."""
        _, last = self._failed.get(name, (0.0, 0.0))
        delay = min(2 * last, LONGEST_DELAY) if last else FIRST_DELAY
        self._failed[name] = time.monotonic() + delay, delay
        return not last

    def remove(self, name: str) -> None:
        """Note that a hand-in did not fail."""
        self._failed.pop(name, None)

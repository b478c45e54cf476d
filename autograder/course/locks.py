"""Locks, so that two commands do not change the same course or the same gradebook at once."""

import contextlib
import getpass
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

ANOTHER = "another process"
"""The holder of a lock, if it is unknown."""

GRADEBOOK = 1635020142
"""The number of PostgreSQL's advisory lock; any that no other program takes in this database."""
HOLDER = f"""
    SELECT application_name FROM pg_stat_activity JOIN pg_locks USING (pid)
    WHERE locktype = 'advisory' AND granted AND (classid, objid, objsubid) = (0, {GRADEBOOK}, 1)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""  # noqa: S608 (a number of ours)
POLL_SECONDS = 0.5


class Locked(Exception):
    """Another process has the lock; the message says which."""


def me() -> str:
    """Return a name of this process, for those who wait for it: at most 63 characters, none that
    needs quoting.

    PostgreSQL limits the name of an application to this length.
    """
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user often has no name
        user = "?"
    where = re.sub(r"[^\w.@-]", "?", f"{user[:12]}@{socket.gethostname()[:16]}", flags=re.ASCII)
    return f"{where}, process {os.getpid()}, since {datetime.now(UTC):%H:%M} UTC"


@contextmanager
def lock(path: Path, waiting: Callable[[str], None]) -> Iterator[None]:
    """Lock the file `path`, which is made if necessary; it is free again when this process
    ends.

    Parameters
    ----------
    path : Path
        In a folder that all participants can write to. The file has the name of the holder.
    waiting : callable
        Called once with the holder, if another process has the lock, before waiting for it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file_lock = FileLock(path)
    try:
        file_lock.acquire(timeout=0)
    except Timeout:
        waiting(_holder(path))
        file_lock.acquire()
    try:
        with contextlib.suppress(OSError):  # Windows does not let anyone write to a locked file
            path.write_text(me(), encoding="utf-8")
        yield
    finally:
        with contextlib.suppress(OSError):
            path.write_text("", encoding="utf-8")
        file_lock.release()


def is_locked(path: Path) -> bool:
    """Tell whether another process has the lock of this file."""
    if not path.exists():
        return False
    file_lock = FileLock(path)
    try:
        file_lock.acquire(timeout=0)
    except Timeout:
        return True
    file_lock.release()
    return False


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or ANOTHER
    except (OSError, UnicodeDecodeError):
        return ANOTHER


class OnServer:
    """The lock of a gradebook in PostgreSQL: a connection holds it, and it is free again when that
    ends.

    Parameters
    ----------
    waiting : callable
        Called once with the holder, if there is one, before waiting.
    """

    def __init__(self, waiting: Callable[[str], None]):
        self.waiting = waiting
        self.had = False

    def take(self, connection: Any) -> None:
        """Take the lock for a connection of the driver's.

        Raises
        ------
        Locked
            If an earlier connection had it, and another process has it now.
        """
        warned = False
        while not self._value(connection, f"SELECT pg_try_advisory_lock({GRADEBOOK})"):
            holder = self._value(connection, HOLDER) or ANOTHER
            if self.had:
                raise Locked(holder)
            if not warned:
                self.waiting(holder)
            warned = True
            time.sleep(POLL_SECONDS)
        self._value(connection, f"SELECT set_config('application_name', '{me()}', false)")
        self.had = True

    def _value(self, connection: Any, query: str) -> Any:
        """Return the first value that a query gives, or None; leave no transaction open."""
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(query)
            row = cursor.fetchone()
        connection.commit()
        return row[0] if row else None

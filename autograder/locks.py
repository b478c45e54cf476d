"""One at a time: what two commands must not do to the same course, or to the same gradebook, at once."""

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
"""Who has a lock, where nothing tells it."""

GRADEBOOK = 1635020142
"""The number of PostgreSQL's advisory lock; any that no other program takes in this database."""
HOLDER = f"""
    SELECT application_name FROM pg_stat_activity JOIN pg_locks USING (pid)
    WHERE locktype = 'advisory' AND granted AND (classid, objid, objsubid) = (0, {GRADEBOOK}, 1)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""  # noqa: S608 (a number of ours)
POLL_SECONDS = 0.5


class Held(Exception):
    """Somebody else has the lock; it says who."""


def me() -> str:
    """Return who this process is, for whoever waits for it: 63 characters at most, none that has to be quoted.

    That is how long the name of an application may be in PostgreSQL, where it is seen as that.
    """
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user often has no name
        user = "?"
    where = re.sub(r"[^\w.@-]", "?", f"{user[:12]}@{socket.gethostname()[:16]}", flags=re.ASCII)
    return f"{where}, process {os.getpid()}, since {datetime.now(UTC):%H:%M} UTC"


@contextmanager
def held(path: Path, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock that is the file `path`, which is made if need be; it is free again when this process ends.

    Parameters
    ----------
    path : Path
        Of a folder that all who take part can write to. Who holds the lock stands in it.
    waiting : callable
        Called once with who holds it, if another process does, before waiting for that one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waiting(_holder(path))
        lock.acquire()
    try:
        with contextlib.suppress(OSError):  # on Windows nobody writes to a file that is locked, and none is the wiser
            path.write_text(me(), encoding="utf-8")
        yield
    finally:
        with contextlib.suppress(OSError):
            path.write_text("", encoding="utf-8")
        lock.release()


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip() or ANOTHER
    except (OSError, UnicodeDecodeError):
        return ANOTHER


class OnServer:
    """The lock of a gradebook in PostgreSQL: a connection holds it, and it is free again when that ends.

    Parameters
    ----------
    waiting : callable
        Called once with who holds it, if somebody does, before waiting.
    """

    def __init__(self, waiting: Callable[[str], None]):
        self.waiting = waiting
        self.had = False

    def take(self, connection: Any) -> None:
        """Take the lock for a connection of the driver's.

        Raises
        ------
        Held
            If an earlier connection had it, and now it is another's.
        """
        told = False
        while not self._value(connection, f"SELECT pg_try_advisory_lock({GRADEBOOK})"):
            holder = self._value(connection, HOLDER) or ANOTHER
            if self.had:
                raise Held(holder)
            if not told:
                self.waiting(holder)
            told = True
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

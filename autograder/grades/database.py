"""The gradebook's database: its URL without a password, and connections to it."""

from collections.abc import Callable
from typing import Any

import sqlalchemy
from sqlalchemy import Engine, event

from autograder.course import locks
from autograder.course.config import UserError, masked

CONNECT_SECONDS = 10
"""How long a server may take to answer, if its URL sets no `connect_timeout`."""

BROKEN = (
    "Restore a backup, or move the file away and grade again, which loses points given by hand."
)
FIXES = {
    "file is not a database": BROKEN,
    "database disk image is malformed": BROKEN,
    "database is locked": "Close the program that has it open, such as a database browser.",
    "database or disk is full": "Make room on its disk.",
    "password authentication failed": "Check the user name and the password, as in ~/.pgpass or "
    "PGPASSWORD.",
    "no password supplied": "Give the password in ~/.pgpass or PGPASSWORD.",
    'database "': "Make it with createdb, or correct its name.",
    'role "': "Make it with createuser, or correct its name.",
    "permission denied for schema": "Its owner can run: GRANT USAGE, CREATE ON SCHEMA public TO "
    "the user.",
    "permission denied for table": "The owner of the tables can GRANT the owning role to the user.",
    "connection failed": "Check the host and the port, and that the server is running.",
    "connection timeout": "Check the host and the port, and that the server is running.",
    "failed to resolve host": "Check the host name.",
}
"""What fixes an error, by a part of the message from the server or the network; the first match
counts.
"""


def reason(error: Exception) -> str:
    """Return a database's error in one line."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return masked(lines[0].rstrip(".:")) if lines else type(error).__name__


def fix(error: Exception) -> str:
    """Return what fixes an error, followed by a space; an empty text if that is not known."""
    return next((f"{advice} " for part, advice in FIXES.items() if part in reason(error)), "")


def is_server(url: str) -> bool:
    """Tell whether a URL is that of a PostgreSQL server."""
    return url.startswith("postgresql")


def engine(url: str, on_wait: Callable[[str], None] | None = None, **options: Any) -> Engine:
    """Return SQLAlchemy's engine for a URL.

    Parameters
    ----------
    url : str
    on_wait : callable, optional
        Called with the holder of the database's lock, if this process has to wait for it. If given,
        each connection to a server holds that lock until the connection ends. A writer whose
        connection dropped takes the lock again with the next connection, or gets an error that
        names the new holder.
    options
        For `sqlalchemy.create_engine`.

    Raises
    ------
    UserError
        If the URL is not valid, or the database's driver is not installed.
    """
    try:
        new = sqlalchemy.create_engine(url, **options)
    except ImportError as error:
        raise UserError(
            f"{masked(url)} needs the package {error.name}, which is not installed. "
            'In the course folder, run: python -m pip install ".[postgres]"; the URL then begins '
            "with "
            "postgresql+psycopg://"
        ) from error
    except ValueError as error:  # a port that is no number
        raise UserError(
            f"{masked(url)} is not the URL of a database: {masked(str(error))}."
        ) from error
    if not is_server(url):
        return new
    lock = locks.OnServer(on_wait) if on_wait else None

    # For each connection, also one after a drop: SQLAlchemy makes them when it needs one.
    @event.listens_for(new, "do_connect")
    def connect(dialect: Any, _record: Any, arguments: Any, named: Any) -> Any:
        # Other drivers may not have this option.
        if dialect.driver == "psycopg":
            named.setdefault("connect_timeout", CONNECT_SECONDS)
        connection = dialect.connect(*arguments, **named)
        if lock:
            try:
                lock.take(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    return new

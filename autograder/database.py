"""The database that a gradebook lies in: its address without a password, and how a connection to it is made."""

import re
from collections.abc import Callable
from typing import Any

import sqlalchemy
from sqlalchemy import Engine, event

from autograder import locks
from autograder.config import UserError

CONNECT_SECONDS = 10
"""How long a server has to answer, where its address says nothing of `connect_timeout`."""

PASSWORDS = (re.compile(r"(://[^:@/\s]*:|^[^:@/\s]+:(?!//))\S*@"), re.compile(r"(?i)(\w*passw(?:or)?d=)[^&\s]*"))

BROKEN = "Put back a copy of it, or move it away and grade again: points given by hand are only in it."
FIXES = {
    "file is not a database": BROKEN,
    "database disk image is malformed": BROKEN,
    "password authentication failed": "Look at the user's name and password, as in ~/.pgpass or PGPASSWORD.",
    "no password supplied": "Give the password in ~/.pgpass or PGPASSWORD.",
    'database "': "Make it with createdb, or mend its name.",
    'role "': "Make it with createuser, or mend its name.",
    "permission denied for schema": "Its owner can give the right: GRANT USAGE, CREATE ON SCHEMA public TO the user.",
    "permission denied for table": "Its owner can give the right: GRANT the user the role that owns the tables.",
    "connection failed": "Look at the host and the port, and whether the server runs.",
    "connection timeout": "Look at the host and the port, and whether the server runs.",
    "failed to resolve host": "Look at the host's name.",
}
"""What mends a refusal, by a part of what the server, or the way to it, says; the first that fits counts."""


def masked(url: str) -> str:
    """Return a text with addresses in it, such as one alone, without their passwords."""
    for password in PASSWORDS:
        url = password.sub(lambda found: f"{found[1]}***{'@' * found[0].endswith('@')}", url)
    return url


def reason(error: Exception) -> str:
    """Return in a line why a database refuses."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return masked(lines[0].rstrip(".:")) if lines else type(error).__name__


def fix(error: Exception) -> str:
    """Return what mends a refusal, with a space behind it; an empty text where that is not known."""
    return next((f"{what} " for part, what in FIXES.items() if part in reason(error)), "")


def is_server(url: str) -> bool:
    """Tell whether an address is of a PostgreSQL server."""
    return url.startswith("postgresql")


def engine(url: str, waiting: Callable[[str], None] | None = None, **options: Any) -> Engine:
    """Return SQLAlchemy's engine for an address.

    Parameters
    ----------
    url : str
    waiting : callable, optional
        Called with who has the lock of the database, if it has to be waited for. Where it is given, each connection
        to a server holds that lock, which goes with the connection: who lost it writes nothing more, and a writer
        whose connection dropped takes the lock again with the next one, or learns that somebody else has it.
    options
        For `sqlalchemy.create_engine`.

    Raises
    ------
    UserError
        If the address is none, or the database's driver is not installed.
    """
    try:
        made = sqlalchemy.create_engine(url, **options)
    except ImportError as error:
        raise UserError(
            f"{masked(url)} needs the package {error.name}, which is not installed. "
            'In the course\'s folder: python -m pip install ".[postgres]"; the address then begins with '
            "postgresql+psycopg://"
        ) from error
    except ValueError as error:  # a port that is no number
        raise UserError(f"{masked(url)} is no address of a database: {masked(str(error))}.") from error
    if not is_server(url):
        return made
    lock = locks.OnServer(waiting) if waiting else None

    @event.listens_for(made, "do_connect")
    def connect(dialect: Any, _record: Any, arguments: Any, named: Any) -> Any:
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

    return made

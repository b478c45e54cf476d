"""What `watch` knows of each hand-in: a database, so that a kill at any moment loses nothing."""

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from autograder.course.config import UserError

FILE = "watch.db"
BUSY_SECONDS = 5


class State(StrEnum):
    """How far a hand-in is.

    `WAITING` ones are copied and have no grade yet. `GRADED`, `SUPERSEDED` (a newer one of the same
    student and exercise was graded), `LIMITED` (the student has no attempts left) and `REFUSED` are
    final.
    """

    WAITING = "waiting"
    GRADED = "graded"
    SUPERSEDED = "superseded"
    LIMITED = "limited"
    REFUSED = "refused"


@dataclass(frozen=True)
class HandInRow:
    """A hand-in.

    Attributes
    ----------
    name : str
        Of its folder in the exchange, as `inbound.key_of` writes it.
    student, exercise : str
    state : State
    arrived : float
        When it was complete, in seconds since 1970, as `graded` is.
    secret : str
        What its feedback is filed under; "" if nothing can be published.
    notebooks : list of str
        For which feedback is published.
    note : str
        Why it was refused, or what was left out.
    tries : int
        How often the grader itself failed on it.
    graded : float
        When it was graded, or the grader failed on it last; 0 for neither.
    attempt : bool
        Whether it was new work, which counts as an attempt.
    published : str
        What the student can fetch now, as `Publisher` names it; "" for nothing yet.
    """

    name: str
    student: str = ""
    exercise: str = ""
    state: State = State.WAITING
    arrived: float = 0.0
    secret: str = ""
    notebooks: list[str] = field(default_factory=list)
    note: str = ""
    tries: int = 0
    graded: float = 0.0
    attempt: bool = True
    published: str = ""

    @property
    def work(self) -> tuple[str, str]:
        """Whose hand-in of which exercise it is: the newest of these counts."""
        return self.student, self.exercise


# Also the order in which `_write` lists the values.
COLUMNS = tuple(HandInRow.__dataclass_fields__)
# SQLite uses the last index only for a query with the same two conditions: `unpublished`.
TABLE = f"""
    CREATE TABLE IF NOT EXISTS hand_ins ({", ".join(COLUMNS)}, PRIMARY KEY (name));
    CREATE INDEX IF NOT EXISTS by_work ON hand_ins (student, exercise, arrived);
    CREATE INDEX IF NOT EXISTS by_state ON hand_ins (state, published);
    CREATE INDEX IF NOT EXISTS to_answer ON hand_ins (arrived)
        WHERE published = '' AND secret != '';
"""


class HandInStore:
    """The hand-ins of a course; use it in a `with` block. Each change is on the disk at once.

    Parameters
    ----------
    path : Path
        Made if it does not exist. Only the user of this process can read it: it has secrets.

    Raises
    ------
    UserError
        If the file cannot be used, is damaged, or is of another version.
    """

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite itself would make the file with the permissions that the umask leaves.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        # Always this same set: `Watch` gives its `__contains__` to `Arrivals`.
        self.names: set[str] = set()
        try:
            self._read()
        except sqlite3.OperationalError as error:
            self._database.close()
            raise UserError(
                f"{path} cannot be used: {error}. Close other programs that have it open, and make "
                "room if its disk is full."
            ) from None
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            self._database.close()
            raise UserError(
                f"{path} is damaged, or of another version: {error}. Move it away. Then all "
                "hand-ins in the exchange are looked at again; those that are graded keep their "
                "grades."
            ) from None

    def _read(self) -> None:
        """Make the table if there is none; read all rows, to see that they are readable."""
        self._database.executescript(TABLE)
        present = [name for _, name, *_ in self._database.execute("PRAGMA table_info(hand_ins)")]
        if tuple(present) != COLUMNS:
            raise ValueError(f"its columns are {', '.join(present)}")
        self.names.update(row.name for row in self._rows("1", []))

    def __enter__(self) -> "HandInStore":
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()

    def keep_all(self, rows: Sequence[HandInRow]) -> None:
        """Write several rows, which are on the disk together."""
        self._database.execute("BEGIN")
        try:
            for row in rows:
                self._write(row)
            self._database.execute("COMMIT")
        except BaseException:
            # SQLite itself has ended it after some errors, such as a full disk.
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
        self.names.update(row.name for row in rows)

    def keep(self, row: HandInRow) -> HandInRow:
        """Write a row in place of the one of its name, whose time of arrival stays; return it."""
        self._write(row)
        self.names.add(row.name)
        return row

    def _write(self, row: HandInRow) -> None:
        values = [
            row.name, row.student, row.exercise, row.state.value, row.arrived, row.secret,
            json.dumps(row.notebooks), row.note, row.tries, row.graded, int(row.attempt),
            row.published,
        ]  # fmt: skip
        marks = ", ".join("?" * len(COLUMNS))
        # The time of a known hand-in stays: `limit_times` may have changed it since it was read.
        changes = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name != "arrived")
        self._database.execute(
            f"INSERT INTO hand_ins VALUES ({marks}) ON CONFLICT (name) DO UPDATE SET {changes}",  # noqa: S608
            values,
        )

    def forget(self, name: str) -> None:
        """Remove the row of this name."""
        self._database.execute("DELETE FROM hand_ins WHERE name = ?", [name])
        self.names.discard(name)

    def in_state(self, *states: State) -> list[HandInRow]:
        """Return the hand-ins in these states, in the order of their arrival."""
        marks = ", ".join("?" * len(states))
        return self._rows(f"state IN ({marks})", states)

    def of_work(self, work: tuple[str, str], state: State) -> list[HandInRow]:
        """Return the hand-ins of a student and an exercise in a state, the first ones first."""
        return self._rows("student = ? AND exercise = ? AND state = ?", [*work, state])

    def with_secret(self, work: tuple[str, str], secret: str) -> list[HandInRow]:
        """Return the hand-ins of a student and an exercise with a secret that are graded or wait,
        the first ones first.
        """
        return self._rows(
            "student = ? AND exercise = ? AND secret = ? AND state IN (?, ?)",
            [*work, secret, State.GRADED, State.WAITING],
        )

    def unpublished(self) -> list[HandInRow]:
        """Return the hand-ins in a final state for which nothing is published yet."""
        return self._rows("published = '' AND secret != '' AND state != ?", [State.WAITING])

    def newest_graded(self) -> list[HandInRow]:
        """Return the graded hand-in of each student and exercise."""
        newest = "SELECT max(arrived) FROM hand_ins WHERE state = ? GROUP BY student, exercise"
        rows = self._rows(f"state = ? AND arrived IN ({newest})", [State.GRADED, State.GRADED])
        # A row can match the newest time of another work. Of each work, the newest row comes last.
        return list({row.work: row for row in rows}.values())

    def count_attempts(self, student: str, exercise: str) -> int:
        """Return how many attempts of a student at an exercise were graded."""
        asked = (
            "SELECT count(*) FROM hand_ins "
            "WHERE state = ? AND attempt AND student = ? AND exercise = ?"
        )
        values = [State.GRADED, student, exercise]
        return int(self._database.execute(asked, values).fetchone()[0])

    def count_graded(self, student: str, since: float) -> int:
        """Return how many hand-ins of a student were graded since then, with those that are no
        attempt, and those on which the grader failed and that a newer one followed: each of them
        takes the grader's time.
        """
        asked = (
            "SELECT count(*) FROM hand_ins "
            "WHERE student = ? AND graded > ? AND (state = ? OR state = ? AND tries > 0)"
        )
        values = [student, since, State.GRADED, State.SUPERSEDED]
        return int(self._database.execute(asked, values).fetchone()[0])

    def limit_times(self) -> None:
        """Let no hand-in have a time of the future, as after a clock was set back: it counts as
        come just now. The order stays.
        """
        # The clock may be wrong now, and right before. A second becomes a microsecond.
        self._database.execute(
            "UPDATE hand_ins SET arrived = min(arrived, :now + 1e-6 * (arrived - :now)), "
            "graded = min(graded, :now + 1e-6 * (graded - :now)) "
            "WHERE arrived > :now OR graded > :now",
            {"now": time.time()},
        )

    def _rows(self, condition: str, values: Iterable[object]) -> list[HandInRow]:
        columns = ", ".join(COLUMNS)
        asked = f"SELECT {columns} FROM hand_ins WHERE {condition} ORDER BY arrived, name"  # noqa: S608
        return [_row(values) for values in self._database.execute(asked, list(values))]


def _row(values: tuple[object, ...]) -> HandInRow:
    row = HandInRow(*values)  # type: ignore[arg-type]
    notebooks = json.loads(str(row.notebooks))
    return replace(row, state=State(row.state), notebooks=notebooks, attempt=bool(row.attempt))

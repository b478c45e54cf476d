"""What a watch says: what happens to each hand-in, and what is wrong until it is right again."""

import contextlib
import sqlite3
import time
import traceback
from collections.abc import Iterator
from typing import Any, Protocol

from autograder.course.config import UserError
from autograder.exchange import delays
from autograder.exchange.delays import Delays
from autograder.exchange.state import HandInRow
from autograder.sanitize import text

TROUBLES = (OSError, UserError, sqlite3.Error)
"""What can be wrong with disks, the exchange and the gradebook: the watch waits and tries again."""


class Say(Protocol):
    """Gets each event: its name, and its values."""

    def __call__(self, event: str, **values: Any) -> None:
        """Log one event."""


class EventLog:
    """Says what happens, and remembers what is wrong.

    Parameters
    ----------
    say : callable
        Logs events.
    delays : Delays
        Gets the hand-ins that the program fails on.
    """

    def __init__(self, say: Say, delays: Delays):
        self.say, self.delays = say, delays
        self._troubles: dict[str, str] = {}
        self._notes: set[str] = set()

    @property
    def troubles(self) -> list[str]:
        """What is wrong now, and why something waits; nothing if all is in order."""
        return list(self._troubles.values())

    def log(self, event: str, row: HandInRow, **values: Any) -> None:
        """Say what happened to a hand-in, and how long after its arrival."""
        seconds = round(time.time() - row.arrived, 2)
        self.say(
            event, student=row.student, exercise=row.exercise, name=row.name, seconds=seconds,
            **values,
        )  # fmt: skip

    def note_once(self, line: str) -> None:
        """Say something that is said once in a watch."""
        if line not in self._notes:
            self._notes.add(line)
            self.say("note", note=line)

    @contextlib.contextmanager
    def skipping(self, name: str) -> Iterator[None]:
        """Skip one hand-in that the program fails on, say so once, and try it again later.

        An error that others would meet as well, such as a full disk, is raised.
        """
        try:
            yield
        except Exception as error:
            if delays.is_general(error):
                raise
            if self.delays.add(name):
                reason = text.line(f"{type(error).__name__}: {error}", 200)
                self.say("note", note=f"{name} is skipped, and tried again later: {reason}")

    @contextlib.contextmanager
    def trouble(self, part: str) -> Iterator[None]:
        """Say once what is wrong with a part, and go on; say when it is right again.

        Faults of the program itself are printed as well, and do not end the watch either.
        """
        try:
            yield
        except TROUBLES as error:
            named = f" {error.filename}" if isinstance(error, OSError) and error.filename else ""
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._say_that_it_waits(part, f"{reason}{named}")
        except Exception as error:
            traceback.print_exc()
            self._say_that_it_waits(part, f"{type(error).__name__}: {error}")
        else:
            if self._troubles.pop(part, None):
                self.say("goes on", note=f"{part}: in order again")

    def _say_that_it_waits(self, part: str, line: str) -> None:
        if self._troubles.get(part) != line:
            self._troubles[part] = line
            self.say("waits", note=line)

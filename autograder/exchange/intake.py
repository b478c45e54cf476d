"""Takes hand-ins from the exchange, or refuses them."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autograder.course.config import Course
from autograder.course.limits import Limits
from autograder.exchange import delays, inbound
from autograder.exchange.arrivals import Arrival, Arrivals
from autograder.exchange.event_log import EventLog
from autograder.exchange.hand_in_queue import HandInQueue
from autograder.exchange.inbound import Entry, HandInRefused, Unfinished
from autograder.exchange.state import HandInRow, HandInStore, State
from autograder.sanitize import text

EVERY, LOOK_SHARE = 1.0, 4
"""Seconds from one look into the exchange to the next, and at least so many times as long as the
last one took: while a batch runs, the process has more to do.
"""
PATIENCE = 600.0
"""Seconds that a hand-in may stay unfinished."""
MOST_AT_ONCE = 5
"""Hand-ins of one user that are copied in one look."""
MOST_BYTES, MOST_BYTES_OF_ALL = 150_000_000, 1_000_000_000
"""How much of one user, and of all, is copied in one look, and a last hand-in beyond it."""
BYTES_OF_FAILED, BYTES_OF_ENTRY = 50_000_000, 50_000
"""What a hand-in that is refused or unfinished counts as, as some of it was read; and what each of
its files and folders counts as in addition.
"""


class Intake:
    """Copies what is new in the exchange into the queue.

    Parameters
    ----------
    course : Course
    folder : Path
        The exchange's folder of hand-ins.
    hand_ins : HandInStore
    arrivals : Arrivals
    queue : HandInQueue
    events : EventLog
    owner_of : callable or None
        Returns the name of a system user; see `inbound.read`.
    is_stopping : callable
        Tells whether the watch is to end.
    """

    def __init__(
        self,
        course: Course,
        folder: Path,
        hand_ins: HandInStore,
        arrivals: Arrivals,
        queue: HandInQueue,
        events: EventLog,
        owner_of: Callable[[int], str] | None,
        is_stopping: Callable[[], bool],
    ):
        self.course, self.folder, self.hand_ins = course, folder, hand_ins
        self.arrivals, self.queue, self.events = arrivals, queue, events
        self.owner_of, self.is_stopping = owner_of, is_stopping
        self.limits = Limits.configured(course.config)
        self.next_look = 0.0
        self._refused: list[HandInRow] = []
        self._non_hand_ins_noted = 0

    def look(self) -> bool:
        """Take the hand-ins that are new and complete, in the order of their arrival; tell
        whether there were any.
        """
        known, began = len(self.hand_ins.names), time.monotonic()
        with self.events.trouble("exchange"):
            # Before what is new is compared with it.
            self.hand_ins.limit_times()
            with inbound.opened(self.folder) as folder:
                try:
                    self._take_all(folder)
                finally:
                    self._keep_refused()
        ended = time.monotonic()
        self.next_look = ended + max(EVERY, LOOK_SHARE * (ended - began))
        return len(self.hand_ins.names) > known

    def _take_all(self, folder: int) -> None:
        """Take what is new, so that no user delays the others much."""
        arrivals = self.arrivals.find(folder)
        self._note_non_hand_ins()
        bytes_of: dict[object, int] = defaultdict(int)  # copied in this look, by user
        for arrival in arrivals:
            if self.is_stopping():
                return
            # The first of each user is taken, whatever others hand in.
            is_first = arrival.rank == 0
            is_within_limits = (
                arrival.rank < MOST_AT_ONCE
                and bytes_of[arrival.user] < MOST_BYTES
                and sum(bytes_of.values()) < MOST_BYTES_OF_ALL
            )
            with self.events.skipping(inbound.key_of(arrival.name)):
                if not arrival.is_complete:
                    self._refuse_if_overdue(arrival.name, Unfinished("it was not completed"))
                elif is_first or is_within_limits:
                    bytes_of[arrival.user] += self._counted_take(folder, arrival)

    def _counted_take(self, folder: int, arrival: Arrival) -> int:
        """Take a hand-in, and count it for its user, except if others would fail as well."""
        try:
            cost = self._take(folder, arrival.name)
        except Exception as error:
            if not delays.is_general(error):
                self.arrivals.note_tried(arrival.user)
            raise
        self.arrivals.note_tried(arrival.user)
        return cost

    def _note_non_hand_ins(self) -> None:
        """Log how many entries cannot be hand-ins, once and when there are twice as many."""
        count = self.arrivals.count_non_hand_ins()
        if count > 2 * self._non_hand_ins_noted:
            self._non_hand_ins_noted = count
            self.events.say(
                "note",
                note=f"{count} entries of inbound are passed over: they are not folders with a "
                "name of a hand-in.",
            )

    def _take(self, folder: int, name: str) -> int:
        """Copy a hand-in, unless it is refused or unfinished; return how many bytes it counts."""
        cost = 0
        try:
            entry = Entry.parse(name)
            exercise = next(
                (each for each in self.course.released() if each.name == entry.exercise), None
            )
            if exercise is None:
                shown = text.line(text.name(entry.exercise), 100)
                raise HandInRefused(f"there is no exercise {shown}")
            limits = replace(self.limits, **exercise.settings.limits)
            cost = BYTES_OF_FAILED  # if `read` fails: it may have read that much
            hand_in = inbound.read(folder, entry, limits, self.owner_of)
        except HandInRefused as error:
            self._refuse(name, error)
            return cost
        except Unfinished as error:
            self.events.delays.add(entry.key)
            self._refuse_if_overdue(name, error)
            return cost
        row = HandInRow(
            entry.key,
            entry.student,
            entry.exercise,
            # The time that counts, which may be the one in the name.
            arrived=hand_in.submitted.timestamp(),
            secret=hand_in.secret,
            notebooks=hand_in.notebooks,
            note=hand_in.note,
        )
        self.queue.add(row, hand_in)
        self.events.delays.remove(row.name)
        cost = sum(len(data) for data in hand_in.files.values())
        return cost + BYTES_OF_ENTRY * hand_in.entries

    def _refuse_if_overdue(self, name: str, error: Unfinished) -> None:
        if self.arrivals.seconds_seen(name) > PATIENCE:
            self._refuse(name, HandInRefused(f"{error}, and {PATIENCE / 60:g} minutes have passed"))

    def _refuse(self, name: str, error: HandInRefused) -> None:
        """Refuse a hand-in for good. Its student can fetch the reason, if it is theirs."""
        row = HandInRow(
            inbound.key_of(name),
            state=State.REFUSED,
            arrived=time.time(),
            secret=error.secret,
            notebooks=list(error.notebooks),
            note=str(error),
        )
        with contextlib.suppress(HandInRefused):
            entry = Entry.parse(name)
            # Without them if the name itself is what is refused.
            row = replace(row, student=entry.student, exercise=text.name(entry.exercise))
        self._refused.append(row)
        self.events.delays.remove(row.name)

    def _keep_refused(self) -> None:
        """Write what one look refused, at once: each write waits for the disk."""
        rows, self._refused = self._refused, []
        if rows:
            self.hand_ins.keep_all(rows)
        for row in rows:
            self.events.log("refused", row, reason=row.note)

"""The hand-ins that wait to be graded, and their copies."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from autograder.course.config import Course, Exercise
from autograder.course.limits import Limits
from autograder.course.watch_settings import WatchSettings
from autograder.exchange.arrivals import HOUR, Arrivals
from autograder.exchange.delays import Delays
from autograder.exchange.event_log import EventLog
from autograder.exchange.fairness import choose
from autograder.exchange.hand_in_folders import HandInFolders
from autograder.exchange.inbound import HandIn
from autograder.exchange.running_batch import RunningBatch
from autograder.exchange.state import HandInRow, HandInStore, State
from autograder.grades.records import record_of
from autograder.grading.batch import is_later_copy


class HandInQueue:
    """What waits, from the moment that it is copied until it is placed where `grade` looks for it.

    Parameters
    ----------
    course : Course
    settings : WatchSettings
    hand_ins : HandInStore
    folders : HandInFolders
    arrivals : Arrivals
        Looks again for hand-ins whose copies someone removed.
    batch : RunningBatch
    events : EventLog
    """

    def __init__(
        self,
        course: Course,
        settings: WatchSettings,
        hand_ins: HandInStore,
        folders: HandInFolders,
        arrivals: Arrivals,
        batch: RunningBatch,
        events: EventLog,
    ):
        self.course, self.settings = course, settings
        self.hand_ins, self.folders, self.arrivals = hand_ins, folders, arrivals
        self.batch, self.events = batch, events
        self.limits = Limits.configured(course.config)

    @property
    def _delays(self) -> Delays:
        return self.events.delays

    def add(self, row: HandInRow, hand_in: HandIn) -> None:
        """Add a hand-in with a copy of it. If several of the same work wait, only the newest
        stays.
        """
        waiting = [
            each
            for each in self.hand_ins.of_work(row.work, State.WAITING)
            # Those of the running batch are graded anyway, and their copies have been moved.
            if each not in self.batch
        ]
        is_newest = all(each.arrived <= row.arrived for each in waiting)
        if is_newest:
            # Before the row is kept: a copy without a row is removed at the next start.
            self.folders.write(hand_in)
        self.hand_ins.keep(row if is_newest else replace(row, state=State.SUPERSEDED))
        extra = {} if hand_in.secret else {"note": "it has no proper secret: no feedback"}
        self.events.log("taken", row, **extra)
        if is_newest:  # each student has one copy of an exercise that waits
            for each in waiting:
                self.leave(each, State.SUPERSEDED)
        else:
            self.events.log(str(State.SUPERSEDED), row)

    def leave(self, row: HandInRow, state: State) -> None:
        """Put a hand-in into a final state without a grade; its student gets another notice."""
        self.folders.remove(row.name)
        self.events.log(str(state), self.hand_ins.keep(replace(row, state=state, published="")))

    def gradable(self) -> Iterator[HandInRow]:
        """Yield the hand-ins that wait for nothing but a batch."""
        for row in self.hand_ins.in_state(State.WAITING):
            if self._delays.is_due(row.name) and self._left_this_hour(row.student) > 0:
                yield row

    def choose(self, waiting: list[HandInRow]) -> tuple[list[HandInRow], list[HandInRow]]:
        """Return the hand-ins that can be graded now, in the order of their turns, and those that
        have to wait until the hourly limit permits them. Those that no batch will grade leave.
        """
        waiting = [row for row in waiting if self._has_copy(row)]
        choice = choose(waiting, self._has_no_attempt_left, self._left_this_hour)
        for row in choice.superseded:
            self.leave(row, State.SUPERSEDED)
        for row in choice.limited:
            self.leave(row, State.LIMITED)
        due = [row for row in choice.grade if self._delays.is_due(row.name)]
        return due, choice.later

    def place(self, rows: list[HandInRow]) -> list[HandInRow]:
        """Place hand-ins where `grade` looks for them; return those that are to be graded."""
        placed = []
        for row in rows:
            with self.events.skipping(row.name):
                placed.append(self._place(row))
        return [row for row in placed if row]

    def _place(self, row: HandInRow) -> HandInRow | None:
        """Place a hand-in; return its row, or None if it is not to be graded."""
        if self._is_outdated(row):
            self.leave(row, State.SUPERSEDED)
            return None
        # Before it is graded: after that, its own record makes it look like work done before.
        is_new = self._is_new_work(row)
        row = self.hand_ins.keep(replace(row, attempt=is_new))
        self.folders.place(row.name, row.student, row.exercise)
        return row if self._has_copy(row) else None

    def _is_outdated(self, row: HandInRow) -> bool:
        """Tell whether the submission that is there was handed in later."""
        if self.folders.is_placed(row.name):  # it is there itself
            return False
        secret = self.folders.secret_of(row.student, row.exercise)
        known = self.hand_ins.with_secret(row.work, secret) if secret else []
        if known:  # times of this database agree, even if a clock was wrong
            return row.secret != secret and row.arrived < known[-1].arrived
        arrived = datetime.fromtimestamp(row.arrived, UTC)
        return self.folders.is_newer(row.student, row.exercise, row.secret, arrived)

    def _has_copy(self, row: HandInRow) -> bool:
        """Tell whether the copy of a hand-in is there. If someone removed it, forget the hand-in,
        so that it is taken again.
        """
        if self.folders.has(row.name, row.student, row.exercise, row.secret):
            return True
        self.hand_ins.forget(row.name)
        self.arrivals.forget()
        return False

    def _left_this_hour(self, student: str) -> float:
        """Return how many hand-ins of a student may still be graded in this hour."""
        if not self.settings.per_hour:
            return float("inf")
        hour_ago = time.time() - HOUR
        return self.settings.per_hour - self.hand_ins.count_graded(student, hour_ago)

    def _has_no_attempt_left(self, row: HandInRow) -> bool:
        """Tell whether a hand-in is new work beyond its student's attempts."""
        attempts = self.settings.attempts
        if not attempts or self.hand_ins.count_attempts(row.student, row.exercise) < attempts:
            return False
        if not self._delays.is_due(row.name):
            return False
        # If the program fails on the hand-in, it is not limited: that is no fault of the student.
        is_limited = False
        with self.events.skipping(row.name):
            is_limited = self._is_new_work(row)
        return is_limited

    def _is_new_work(self, row: HandInRow) -> bool:
        """Tell whether a hand-in is not the graded work again, such as with a regrade request."""
        record = record_of(self.course, row.student, row.exercise)
        if record is None:
            return True
        exercise = Exercise(row.exercise, self.course.root)
        submission = self.folders.submission(row.name, row.student, exercise)
        unit = submission.read(replace(self.limits, **exercise.settings.limits))
        # It was graded before a kill, or its folder was renamed.
        if unit.digest == record.submission_digest:
            graded = self.hand_ins.of_work(row.work, State.GRADED)
            # `attempt` is what `_place` noted before the kill. A renamed hand-in has the same
            # secret, and counted under its other name.
            return row.attempt and not any(
                other.attempt and other.secret == row.secret for other in graded
            )
        return not is_later_copy(self.course, unit, record.submission_digest)

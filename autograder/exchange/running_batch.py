"""The batch that is being graded: who may join it, and when it should end."""

import time
from collections.abc import Iterable

from autograder.course.config import Course
from autograder.exchange.state import HandInRow, State
from autograder.exchange.warm import WarmExecutor

MOST_AT_ONCE = 60
"""Hand-ins that begin a batch, or join it, at once."""
JOIN_AFTER = 10.0
"""Seconds after which others may join a batch that a slow hand-in keeps from ending."""
MOST_WAIT = 60.0
"""Seconds that a hand-in which cannot join the batch waits before that should end."""
MOST_SECONDS_ON_SERVER = 600.0
"""Seconds for which others may join a batch if the gradebook is on a server: from other machines,
no one sees who waits for it.
"""
MOST_FAULTS = 3
"""Students on whose hand-ins the grader itself may fail before a batch has to end: perhaps its
workers are at fault.
"""


class RunningBatch:
    """The batch that is being graded, and what is known of those that failed before it.

    Parameters
    ----------
    course : Course
    executor : WarmExecutor
        Has the workers.

    Attributes
    ----------
    rows : dict
        The hand-ins of the batch by student and exercise, also those that are finished.
    exercises : set of str
        The exercises that its workers have.
    students_with_faults : set of str
        The students of the batch on whose hand-ins the grader itself failed.
    """

    def __init__(self, course: Course, executor: WarmExecutor):
        self.course, self.executor = course, executor
        self.rows: dict[tuple[str, str], HandInRow] = {}
        self.exercises: set[str] = set()
        self.students_with_faults: set[str] = set()
        self._names: set[str] = set()
        self._began = 0.0
        # Hand-ins of this batch, and of those that did not end well, perhaps because of one of
        # them: see `next_of`.
        self._suspects: set[str] = set()
        self._turn = 0
        self._is_closed = False  # no one joins any more
        self._should_end = False  # others join only while one of these runs:
        self._last_ones: set[str] = set()

    # From its beginning to its end.

    def next_of(self, rows: list[HandInRow]) -> list[HandInRow]:
        """Return the hand-ins to grade next, one of each student: several slow ones would keep all
        workers from others.

        A suspect, which was in a batch that failed, is graded alone, and only when no other waits:
        it, or its exercise, may have made that batch fail.
        """
        fresh = [row for row in rows if row.name not in self._suspects]
        if fresh or not rows:
            first_of: dict[str, HandInRow] = {}
            for row in fresh:
                first_of.setdefault(row.student, row)
            return list(first_of.values())[:MOST_AT_ONCE]
        # Each in its turn: the first one may never succeed.
        self._turn += 1
        return [rows[self._turn % len(rows)]]

    def begin(self, rows: list[HandInRow]) -> None:
        """Begin with these hand-ins. Those of all released exercises may join."""
        self._began = time.monotonic()
        self._is_closed = self._should_end = False
        self.students_with_faults.clear()
        self.rows.clear()
        self.add(rows)
        released = {
            # `Course.exercises` would refuse all for one without its archive.
            exercise.name
            for exercise in self.course.released()
            if exercise.archive.exists()
        }
        self.exercises = released | {row.exercise for row in rows}

    def add(self, rows: list[HandInRow]) -> None:
        """Add hand-ins that join."""
        self.rows.update((row.work, row) for row in rows)
        self._names.update(row.name for row in rows)
        self._suspects.update(row.name for row in rows)  # until the batch has ended well

    def end(self, well: bool) -> None:
        """End the batch; `well` if all that could be graded is graded."""
        self._names.clear()
        if well:
            self._suspects.clear()

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self._began

    def __contains__(self, row: HandInRow) -> bool:
        return row.name in self._names

    # Joining it.

    def joining(self, gradable: Iterable[HandInRow], free_workers: int) -> list[HandInRow]:
        """Return which hand-ins may join, because the batch takes long and workers are free.

        Students whom it has not served yet come first.
        """
        if self.seconds < JOIN_AFTER or free_workers <= 0 or self._is_over():
            return []
        # These have a hand-in under way; a finished one is no longer in this state.
        busy = {row.student for row in self.rows.values() if row.state == State.WAITING}
        joining = [row for row in gradable if row.student not in busy and self._can_join(row)]
        served = {row.student for row in self.rows.values()}
        # In a rush, there is always someone who is not served yet.
        first = [row for row in joining if row.student not in served or _has_waited_long(row)]
        return first or joining

    def _can_join(self, row: HandInRow) -> bool:
        """Tell whether this batch can grade a hand-in: the workers have its exercise, and it was in
        no batch that failed. One that is in this batch cannot join it again.
        """
        return row.name not in self._suspects and row.exercise in self.exercises

    def _is_over(self) -> bool:
        """Tell whether no more may join: the batch should have ended before.

        While one runs that was under way then, it cannot end: until that is graded, letting
        others join costs no time. So one slow hand-in keeps no class waiting.
        """
        if self._should_end:
            return not self._last_ones & self._under_way()
        return self._is_closed

    def _under_way(self) -> set[str]:
        """Return the names of the hand-ins that are not finished."""
        # One on which the grader failed waits, but for the next batch.
        return {
            row.name
            for row in self.rows.values()
            if row.state == State.WAITING and row.student not in self.students_with_faults
        }

    # Whether it should end.

    def update_closing(self, gradable: Iterable[HandInRow]) -> None:
        """Decide whether others may still join the batch, and whether it should end soon.

        Others could join it for as long as students hand in slow work. But the workers have the
        exercises as they were when it began, and it has the gradebook.
        """
        has_faults = len(self.students_with_faults) >= MOST_FAULTS  # other workers may do better
        if self.executor.is_outdated():  # its workers should grade nothing more
            self._is_closed, self._should_end = True, False
        elif not (has_faults or self._is_next_needed(gradable)):
            self._is_closed = self._should_end = False
        elif not self._should_end:
            self._should_end = True
            self._last_ones = self._under_way()

    def _is_next_needed(self, gradable: Iterable[HandInRow]) -> bool:
        """Tell whether someone waits for this batch to end: another program for the gradebook, or
        a hand-in that cannot join.
        """
        from autograder.grades import database, gradebook

        if database.is_server(self.course.db_url):
            is_wanted = self.seconds > MOST_SECONDS_ON_SERVER
        else:
            is_wanted = gradebook.is_wanted(self.course)
        return is_wanted or any(
            self._is_kept_out(row) and _has_waited_long(row) for row in gradable
        )

    def _is_kept_out(self, row: HandInRow) -> bool:
        """Tell whether a hand-in has to wait for the next batch."""
        if row.student in self.students_with_faults:  # the next batch has other workers for it
            return True
        return row not in self and not self._can_join(row)


def _has_waited_long(row: HandInRow) -> bool:
    return time.time() - row.arrived > MOST_WAIT

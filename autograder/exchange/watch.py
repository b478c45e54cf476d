"""Watches nbgrader's exchange: takes what students hand in, grades it at once, and publishes.

A hand-in passes through the states of `autograder.exchange.state`. Each step can be repeated, so a
watch that is killed at any moment continues with the next one: a copy replaces an unfinished copy,
`grade` keeps the grade that a submission already has, and a page is written again.
"""

import contextlib
import importlib
import sqlite3
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from autograder.course import locks
from autograder.course.config import Course, Exercise, UserError
from autograder.course.limits import Limits
from autograder.course.watch_settings import LTI, WatchSettings
from autograder.exchange import delays, inbound
from autograder.exchange.arrivals import Arrival, Arrivals
from autograder.exchange.delays import Delays
from autograder.exchange.fairness import choose
from autograder.exchange.hand_in_folders import HandInFolders
from autograder.exchange.inbound import Entry, HandInRefused, Unfinished
from autograder.exchange.publishing import HOUR, Publisher
from autograder.exchange.state import FILE, HandInRow, HandInStore, State
from autograder.exchange.warm import WarmExecutor
from autograder.grades.records import record_of
from autograder.grades.results import Kind, Record
from autograder.grading.batch import is_same_work
from autograder.grading.submissions import Submission
from autograder.sanitize import text

LOCK = "watch.lock"
EVERY = 1.0
"""Seconds between two looks into the exchange."""
NAP = 0.1
"""Seconds between two looks at whether the watch is told to end."""
PAGES_EVERY, SCORES_EVERY = 10.0, 60.0
"""Seconds between two looks for pages that have changed, and for scores to send."""
WARM_SECONDS = 600.0
"""Seconds after a batch for which its workers stay."""
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
MOST_IN_BATCH = 60
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
TRIES = 3
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds until a batch that failed is tried again."""
TROUBLES = (OSError, UserError, sqlite3.Error)
"""What can be wrong with disks, the exchange and the gradebook: the watch waits and tries again."""


class Busy(UserError):
    """Another program has the gradebook."""


class Say(Protocol):
    """Gets each event: its name, and its values."""

    def __call__(self, event: str, **values: Any) -> None:
        """Log one event."""


class Watch:
    """One watch of a course; use it in a `with` block.

    Parameters
    ----------
    course : Course
    exchange : Path
        The course's folder in nbgrader's exchange.
    say : callable
        Logs events.
    submitted : Path, optional
        Where submissions are; by default the course's.
    jobs : int
        How many submissions are graded at a time; 0 for one on each core.
    owner_of : callable
        Returns the name of the system user of a number.

    Raises
    ------
    UserError
        If another watch runs for this course, or a setting is wrong.
    """

    def __init__(
        self,
        course: Course,
        exchange: Path,
        say: Say,
        submitted: Path | None = None,
        jobs: int = 0,
        owner_of: Callable[[int], str] = inbound.user_name,
    ):
        self.course, self.exchange, self.say = course, exchange, say
        self.jobs, self.executor = jobs, WarmExecutor(jobs)
        self.settings = WatchSettings.configured(course.config)
        self.owner_of = owner_of if self.settings.check_owner else None
        self.limits = Limits.configured(course.config)
        self.submitted = submitted or course.submitted
        self.stopping = False
        self.progress: Callable[[str, int, int], None] = lambda title, count, total: None
        self._troubles: dict[str, str] = {}
        self._notes: set[str] = set()
        self._delays = Delays()
        self._refused: list[HandInRow] = []
        self._non_hand_ins_noted = 0
        self._in_batch: set[str] = set()
        # Hand-ins of the batch that runs, and of those that did not end well, perhaps because of
        # one of them: see `_batch_of`.
        self._suspects: set[str] = set()
        self._exercises: set[str] = set()
        self._turn = 0
        # None: anyone may join the batch. A set: it should end, and others join only while one of
        # these hand-ins runs, which were under way before. Empty: no one joins.
        self._last_ones: set[str] | None = None
        self._with_faults: set[str] = set()  # students of the batch on whom the grader failed
        self._retry_at = 0.0
        self._pause = FIRST_PAUSE
        self._looked_at = self._answered_at = self._pages_at = self._scores_at = 0.0
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "Watch":
        try:
            self.course.output_folder.mkdir(parents=True, exist_ok=True)
            self._open.enter_context(locks.lock(self.course.output_folder / LOCK, _refuse_second))
            self.hand_ins = self._open.enter_context(HandInStore(self.course.output_folder / FILE))
            self.arrivals = Arrivals(
                is_known=self.hand_ins.names.__contains__,
                is_due=self._delays.is_due,
                owner_of=self.owner_of,
            )
            self.folders = HandInFolders(self.submitted)
            # Another watch, with another --into, would remove the copies that wait for this one.
            lock = self.folders.waiting.with_suffix(".lock")
            self._open.enter_context(locks.lock(lock, _refuse_second))
            waiting = self.hand_ins.in_state(State.WAITING)
            # Copies without a row: a watch was killed between the two, and these are taken again.
            self.folders.remove_others(row.name for row in waiting)
            # Last in, first out: workers end before the database and the lock are let go.
            self._open.callback(self.executor.release)
            feedback = self.exchange / "feedback"
            self.publisher = Publisher(self.course, feedback, self.settings, self.hand_ins)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    @property
    def troubles(self) -> list[str]:
        """What is wrong now, and why something waits; nothing if all is in order."""
        return list(self._troubles.values())

    def run(self, once: bool = False) -> None:
        """Watch until `stopping` is set; `once` does what there is to do now, and ends."""
        while not self.stopping:
            began = time.monotonic()
            has_taken = self.look()
            has_graded = self.grade()
            self.answer()
            self.send_scores(now=has_graded)
            if time.monotonic() > self.executor.used_at + WARM_SECONDS:
                self.executor.release()
            if once and not (has_taken or has_graded):
                break
            while not once and not self.stopping and time.monotonic() < began + EVERY:
                time.sleep(NAP)

    # Taking hand-ins.

    def look(self) -> bool:
        """Take the hand-ins that are new and complete, in the order of their arrival; tell
        whether there were any.
        """
        known = len(self.hand_ins.names)
        with self._trouble("exchange"), inbound.opened(self.exchange / "inbound") as folder:
            try:
                self._take_all(folder)
            finally:
                self._keep_refused()
        self._looked_at = time.monotonic()
        return len(self.hand_ins.names) > known

    def _look_again(self) -> None:
        """Look if the last look is a while ago: batches take longer than that."""
        if time.monotonic() >= self._looked_at + EVERY:
            self.look()

    def _take_all(self, folder: int) -> None:
        """Take what is new, so that no user delays the others much."""
        arrivals = self.arrivals.find(folder)
        self._note_non_hand_ins()
        bytes_of: dict[object, int] = defaultdict(int)  # copied in this look, by user
        for arrival in arrivals:
            if self.stopping:
                return
            # The first of each user is taken, whatever others hand in.
            is_first = arrival.rank == 0
            is_within_limits = (
                arrival.rank < MOST_AT_ONCE
                and bytes_of[arrival.user] < MOST_BYTES
                and sum(bytes_of.values()) < MOST_BYTES_OF_ALL
            )
            with self._skipping(inbound.key_of(arrival.name)):
                if not arrival.is_complete:
                    self._refuse_if_overdue(arrival.name, Unfinished("it was not completed"))
                elif is_first or is_within_limits:
                    bytes_of[arrival.user] += self._counted_take(folder, arrival)

    def _counted_take(self, folder: int, arrival: Arrival) -> int:
        """Take a hand-in, and count it for its user, except if a disk or the database fails."""
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
            self.say(
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
            self._delays.add(entry.key)
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
        # Those of the running batch are graded anyway, and their copies have been moved.
        waiting = [
            each
            for each in self.hand_ins.of_work(row.work, State.WAITING)
            if each.name not in self._in_batch
        ]
        is_newest = all(each.arrived <= row.arrived for each in waiting)
        if is_newest:
            # Before the row is kept: a copy without a row is removed at the next start.
            self.folders.write(hand_in)
        self.hand_ins.keep(row if is_newest else replace(row, state=State.SUPERSEDED))
        extra = {} if hand_in.secret else {"note": "it has no proper secret: no feedback"}
        self._log("taken", row, **extra)
        if is_newest:  # each student has one copy of an exercise that waits
            for each in waiting:
                self._leave(each, State.SUPERSEDED)
        else:
            self._log(str(State.SUPERSEDED), row)
        self._delays.remove(row.name)
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
        self._delays.remove(row.name)

    def _keep_refused(self) -> None:
        """Write what one look refused, at once: each write waits for the disk."""
        rows, self._refused = self._refused, []
        if rows:
            self.hand_ins.keep_all(rows)
        for row in rows:
            self._log("refused", row, reason=row.note)

    # Grading.

    def grade(self) -> bool:
        """Grade a batch of what waits; tell whether anything was graded."""
        from autograder.grades import gradebook

        if time.monotonic() < self._retry_at:
            return False
        waiting = self.hand_ins.in_state(State.WAITING)
        if not waiting:
            return False
        with self._trouble("gradebook"):
            self.publisher.read_dates()
            chosen = self._chosen(waiting)
            if not chosen:
                return False
            if gradebook.is_wanted(self.course):
                _raise_busy("Another program waits for the gradebook: it comes first.")
            with gradebook.opened(self.course, _raise_busy):
                pass  # before anything is placed where the program that has it would grade it
            batch = self._placed(chosen)
            if not batch:
                return False
            self._with_faults.clear()
            self._last_ones = None
            try:
                self._grade_rows(batch)
            finally:
                self._in_batch = set()
            if self._with_faults:  # the next try gets other workers
                self.executor.release()
            self._suspects.clear()
            self._pause = FIRST_PAUSE
            return True
        # Only after trouble, which `_trouble` has reported: wait longer each time.
        self._retry_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return False

    def _batch_of(self, rows: list[HandInRow]) -> list[HandInRow]:
        """Return the first rows, one of each student: several slow ones would keep all workers
        from others. One that failed comes by itself, when no other waits: it may be its fault, or
        that of its exercise, that nothing of its batch was graded.
        """
        fresh = [row for row in rows if row.name not in self._suspects]
        if fresh or not rows:
            first_of: dict[str, HandInRow] = {}
            for row in fresh:
                first_of.setdefault(row.student, row)
            return list(first_of.values())[:MOST_IN_BATCH]
        # Each in its turn: the first one may never succeed.
        self._turn += 1
        return [rows[self._turn % len(rows)]]

    def _go_on_while_grading(self, rows: dict[tuple[str, str], HandInRow], seconds: float) -> None:
        """Do now and then what the watch does between batches, and note whether the one that runs,
        for so many seconds, should end.
        """
        self._look_again()
        if seconds >= JOIN_AFTER and time.monotonic() >= self._answered_at + PAGES_EVERY:
            self.answer()
            self.send_scores(now=False)
            # Not at each look, because it asks the file system and the database.
            self._note_end(rows.values(), seconds)

    def _joining(
        self, rows: dict[tuple[str, str], HandInRow], seconds: float, free_workers: int
    ) -> list[HandInRow]:
        """Place hand-ins that join a batch because it takes long, if workers are free, and return
        them.

        `rows` has those of the batch, also the ones that are finished. Students whom it has not
        served yet come first.
        """
        if seconds < JOIN_AFTER:
            return []
        if free_workers <= 0 or self.stopping or self._is_ending(rows.values()):
            return []
        # These have a hand-in under way; a finished one is no longer in this state.
        busy = {row.student for row in rows.values() if row.state == State.WAITING}
        joining = [
            row for row in self._gradable() if row.student not in busy and self._can_join(row)
        ]
        served = {row.student for row in rows.values()}
        # In a rush, there is always someone who is not served yet.
        first = [row for row in joining if row.student not in served or _has_waited_long(row)]
        joining = first or joining
        return self._placed(self._chosen(joining, free_workers)) if joining else []

    def _gradable(self) -> Iterator[HandInRow]:
        """Yield the hand-ins that wait for nothing but a batch."""
        for row in self.hand_ins.in_state(State.WAITING):
            if self._delays.is_due(row.name) and self._left_this_hour(row.student) > 0:
                yield row

    def _can_join(self, row: HandInRow) -> bool:
        """Tell whether this batch can grade a hand-in: the workers have its exercise, and it was in
        no batch that failed. One that is in this batch cannot join it again.
        """
        return row.name not in self._suspects and row.exercise in self._exercises

    def _note_end(self, rows: Iterable[HandInRow], seconds: float) -> None:
        """Note whether a batch with these hand-ins, which runs for so many seconds, should end as
        soon as it can.

        Others could join it for as long as students hand in slow work. But the workers have the
        exercises as they were when it began, and it has the gradebook.
        """
        if len(self._with_faults) >= MOST_FAULTS or self.executor.is_outdated():
            self._last_ones = set()  # these workers should grade nothing more
        elif not self._is_next_batch_needed(seconds):
            self._last_ones = None
        elif self._last_ones is None:
            self._last_ones = self._under_way(rows)

    def _is_next_batch_needed(self, seconds: float) -> bool:
        """Tell whether someone waits for this batch to end: another program for the gradebook, or
        a hand-in that cannot join.
        """
        from autograder.grades import database, gradebook

        if database.is_server(self.course.db_url):
            is_wanted = seconds > MOST_SECONDS_ON_SERVER
        else:
            is_wanted = gradebook.is_wanted(self.course)
        return is_wanted or any(
            self._is_kept_out(row) and _has_waited_long(row) for row in self._gradable()
        )

    def _is_kept_out(self, row: HandInRow) -> bool:
        """Tell whether a hand-in has to wait for the next batch."""
        if row.student in self._with_faults:  # the next batch has other workers for it
            return True
        return row.name not in self._in_batch and not self._can_join(row)

    def _under_way(self, rows: Iterable[HandInRow]) -> set[str]:
        """Return which hand-ins of this batch are not finished."""
        # One on which the grader failed waits, but for the next batch.
        return {
            row.name
            for row in rows
            if row.state == State.WAITING and row.student not in self._with_faults
        }

    def _is_ending(self, rows: Iterable[HandInRow]) -> bool:
        """Tell whether no more may join the batch of these hand-ins: it should have ended before.

        While one runs that was under way then, it cannot end: until that is graded, letting
        others join costs no time. So one slow hand-in keeps no class waiting.
        """
        if self._last_ones is None:
            return False
        return not self._last_ones & self._under_way(rows)

    def _exercises_of(self, batch: list[HandInRow]) -> list[Exercise]:
        """Note and return the exercises of a batch, and all that are released: their hand-ins may
        join.
        """
        released = {
            # `exercises` below would refuse all for one without its archive.
            exercise.name
            for exercise in self.course.released()
            if exercise.archive.exists()
        }
        self._exercises = released | {row.exercise for row in batch}
        return self.course.exercises(sorted(self._exercises))

    def _left_this_hour(self, student: str) -> float:
        """Return how many hand-ins of a student may still be graded in this hour."""
        if not self.settings.per_hour:
            return float("inf")
        hour_ago = time.time() - HOUR
        return self.settings.per_hour - self.hand_ins.count_graded(student, hour_ago)

    def _chosen(self, waiting: list[HandInRow], most: int = MOST_IN_BATCH) -> list[HandInRow]:
        """Return the hand-ins to grade now; leave those that no batch will grade, and answer those
        that have to wait.
        """

        def has_no_attempt_left(row: HandInRow) -> bool:
            attempts = self.settings.attempts
            if not attempts or self.hand_ins.count_attempts(row.student, row.exercise) < attempts:
                return False
            if not self._delays.is_due(row.name):
                return False
            # It stays so if the program fails on the hand-in: that is no fault of the student.
            is_limited = False
            with self._skipping(row.name):
                is_limited = self._is_new_work(row)
            return is_limited

        waiting = [row for row in waiting if self._has_copy(row)]
        choice = choose(waiting, has_no_attempt_left, self._left_this_hour)
        for row in choice.superseded:
            self._leave(row, State.SUPERSEDED)
        for row in choice.limited:
            self._leave(row, State.LIMITED)
        for row in choice.later:
            self._publish_now(row)  # that the hourly limit is reached
        due = [row for row in choice.grade if self._delays.is_due(row.name)]
        return self._batch_of(due)[:most]

    def _placed(self, rows: list[HandInRow]) -> list[HandInRow]:
        """Place hand-ins where `grade` looks for them; return those that are to be graded."""
        batch = []
        for row in rows:
            with self._skipping(row.name):
                batch += self._place(row)
        return batch

    def _place(self, row: HandInRow) -> list[HandInRow]:
        """Place a hand-in; return it, or nothing if it is not graded."""
        arrived = datetime.fromtimestamp(row.arrived, UTC)
        if self.folders.is_newer(row.student, row.exercise, row.secret, arrived):
            self._leave(row, State.SUPERSEDED)
            return []
        # Before it is graded: after that, its own record makes it look like work done before.
        row = self.hand_ins.keep(replace(row, attempt=self._is_new_work(row)))
        self.folders.place(row.name, row.student, row.exercise)
        return [row] if self._has_copy(row) else []

    def _has_copy(self, row: HandInRow) -> bool:
        """Tell whether the copy of a hand-in is there. If someone removed it, forget the hand-in,
        so that it is taken again.
        """
        if self.folders.has(row.name, row.student, row.exercise, row.secret):
            return True
        self.hand_ins.forget(row.name)
        self.arrivals.forget()
        return False

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
        return not is_same_work(self.course, unit, record.submission_digest)

    def _leave(self, row: HandInRow, state: State) -> None:
        """Let a hand-in be in a final state without a grade; what it was told before changes."""
        self.folders.remove(row.name)
        self._log(str(state), self.hand_ins.keep(replace(row, state=state, published="")))

    def _grade_rows(self, batch: list[HandInRow]) -> None:
        """Grade hand-ins, and publish the feedback on each as soon as it is there."""
        from autograder.grading.session import Session

        rows: dict[tuple[str, str], HandInRow] = {}
        graded: set[tuple[str, str]] = set()
        began = time.monotonic()

        def add(joined: list[HandInRow]) -> None:
            rows.update((row.work, row) for row in joined)
            self._in_batch.update(row.name for row in joined)
            # Until the batch ends well; see `grade`.
            self._suspects.update(row.name for row in joined)

        def more(under_way: int) -> list[Submission]:
            joining: list[HandInRow] = []
            with contextlib.suppress(*TROUBLES):  # if a disk is full, they wait for another batch
                seconds = time.monotonic() - began
                self._go_on_while_grading(rows, seconds)
                joining = self._joining(rows, seconds, self.executor.jobs - under_way)
            add(joining)
            return [
                Submission(
                    row.student,
                    Exercise(row.exercise, self.course.root),
                    self.folders.submission_folder(row.student, row.exercise),
                )
                for row in joining
            ]

        add(batch)
        session = Session(
            self.course,
            self._exercises_of(batch),
            self.submitted,
            self.jobs,
            hide=[self.course.output_folder],
            executor=self.executor,
            only=set(rows),
            early=True,
            more=more,
        )
        session.choose_sandbox(wanted=True, fall_back=False, warn=self._note)
        session.warn = _raise_busy  # a batch does not wait for the gradebook: it is tried again
        with session:
            for step, record, _kept in session.run():
                work = record.student, record.assignment
                if step == "graded":
                    graded.add(work)
                    self._log_grade(rows[work], record)
                else:
                    rows[work] = self._finish(rows[work], record)
                self.progress(f"{record.student} {record.assignment}", len(graded), len(rows))
                self._look_again()

    def _log_grade(self, row: HandInRow, record: Record) -> None:
        if record.kind == Kind.INFRASTRUCTURE:
            self._log("failed", row, reason=str(record.reason))
        else:
            self._log("graded", row, score=record.score, max_score=record.max_score)

    def _finish(self, row: HandInRow, record: Record) -> HandInRow:
        """Let a hand-in be graded, now that it has a page, and publish that; return its row.

        Until then it waits: if the batch ends before, another one makes what is missing.
        """
        is_our_fault = record.kind == Kind.INFRASTRUCTURE
        if is_our_fault and row.tries + 1 < TRIES:
            self._retry_at = time.monotonic() + FIRST_PAUSE
            self._with_faults.add(row.student)
            return self.hand_ins.keep(replace(row, tries=row.tries + 1))
        if row.state != State.GRADED:
            attempt = row.attempt and not is_our_fault
            row = replace(row, state=State.GRADED, graded=time.time(), attempt=attempt)
            self.hand_ins.keep(row)
        return self._publish_now(row)

    # Answers.

    def answer(self) -> None:
        """Publish what is not published yet and, now and then, pages that have changed."""
        self._answered_at = time.monotonic()
        with self._trouble("feedback"):
            rows = self.hand_ins.unanswered()
            if time.monotonic() >= self._pages_at:
                # Set before the work: if that fails, it is not tried again each second.
                self._pages_at = time.monotonic() + PAGES_EVERY
                self.publisher.read_dates()
                rows += self.hand_ins.newest_graded()
            errors = []
            for row in rows:  # one that fails keeps no other from being published
                try:
                    self._publish_unless_failed(row)
                except TROUBLES as error:
                    errors.append(error)
            if errors:
                raise errors[0]

    def _publish_now(self, row: HandInRow) -> HandInRow:
        """Publish the answer to a hand-in if that is possible; otherwise `answer` does it later."""
        with contextlib.suppress(*TROUBLES):
            return self._publish_unless_failed(row)
        return row

    def _publish_unless_failed(self, row: HandInRow) -> HandInRow:
        """Publish the answer to a hand-in, or skip it for some time if the program fails on it."""
        if self._delays.is_due(row.name):
            with self._skipping(row.name):
                row = self._publish(row)
                self._delays.remove(row.name)
        return row

    def _publish(self, row: HandInRow) -> HandInRow:
        """Publish the answer to a hand-in if there is a new one; return its row."""
        if row.state == State.WAITING and row.tries:  # our own fault: it is tried again
            return row
        answered = self.publisher.publish(row)
        if answered is not row and row.state == State.GRADED:
            self._log("published", row)
        return answered

    def send_scores(self, now: bool) -> None:
        """Send scores to the learning platform if the course wants that: now, or once a minute."""
        if self.settings.scores != LTI:
            return
        if now or time.monotonic() >= self._scores_at:
            self._scores_at = time.monotonic() + SCORES_EVERY
            with self._trouble("scores"):
                lti = importlib.import_module("autograder.school.lti")
                for line in lti.send_pending(self.course):
                    self.say("scores", note=line)

    # What is logged.

    def _log(self, event: str, row: HandInRow, **values: Any) -> None:
        seconds = round(time.time() - row.arrived, 2)
        self.say(
            event, student=row.student, exercise=row.exercise, name=row.name, seconds=seconds,
            **values,
        )  # fmt: skip

    def _note(self, line: str) -> None:
        if line not in self._notes:
            self._notes.add(line)
            self.say("note", note=line)

    def _say_that_it_waits(self, part: str, line: str) -> None:
        if self._troubles.get(part) != line:
            self._troubles[part] = line
            self.say("waits", note=line)

    @contextlib.contextmanager
    def _skipping(self, name: str) -> Iterator[None]:
        """Skip one hand-in that the program fails on, say so once, and try it again later.

        What would meet all others as well is raised.
        """
        try:
            yield
        except Exception as error:
            if delays.is_general(error):
                raise
            if self._delays.add(name):
                reason = text.line(f"{type(error).__name__}: {error}", 200)
                self.say("note", note=f"{name} is skipped, and tried again later: {reason}")

    @contextlib.contextmanager
    def _trouble(self, part: str) -> Iterator[None]:
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


def _has_waited_long(row: HandInRow) -> bool:
    return time.time() - row.arrived > MOST_WAIT


def _refuse_second(holder: str) -> None:
    raise UserError(
        f"Another watch runs for this course, or for its submissions: {holder}. End it first."
    )


def _raise_busy(line: str) -> None:
    raise Busy(line)

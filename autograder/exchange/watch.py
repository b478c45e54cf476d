"""Watches nbgrader's exchange: takes what students hand in, grades it at once, and publishes.

A hand-in passes through the states of `autograder.exchange.state`. Each step can be repeated, so a
watch that is killed at any moment continues with the next one: a copy replaces an unfinished copy,
`grade` keeps the grade that a submission already has, and a page is written again.
"""

import contextlib
import importlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autograder.course import locks
from autograder.course.config import Course, Exercise, UserError
from autograder.course.watch_settings import LTI, WatchSettings
from autograder.exchange import inbound
from autograder.exchange.arrivals import Arrivals
from autograder.exchange.delays import Delays
from autograder.exchange.event_log import TROUBLES, EventLog, Say
from autograder.exchange.hand_in_folders import HandInFolders
from autograder.exchange.hand_in_queue import HandInQueue
from autograder.exchange.intake import EVERY, Intake
from autograder.exchange.publishing import Publisher
from autograder.exchange.running_batch import JOIN_AFTER, RunningBatch
from autograder.exchange.state import FILE, HandInRow, HandInStore, State
from autograder.exchange.warm import WarmExecutor
from autograder.grades.results import Kind, Record
from autograder.grading.submissions import Submission

LOCK = "watch.lock"
NAP = 0.1
"""Seconds between two looks at whether the watch is told to end."""
PAGES_EVERY, SCORES_EVERY = 10.0, 60.0
"""Seconds between two looks for pages that have changed, and for scores to send."""
WARM_SECONDS = 600.0
"""Seconds after a batch for which its workers stay."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds until a batch that failed is tried again."""


class Busy(UserError):
    """Another program has the gradebook."""


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
        self.submitted = submitted or course.submitted
        self.stopping = False
        self.progress: Callable[[str, int, int], None] = lambda title, count, total: None
        self.events = EventLog(say, Delays())
        self.batch = RunningBatch(course, self.executor)
        self._retry_at = 0.0
        self._pause = FIRST_PAUSE
        self._published_at = self._pages_at = self._scores_at = 0.0
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "Watch":
        try:
            self._prepare()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def _prepare(self) -> None:
        """Take the locks, open what earlier watches left, and connect the parts."""
        self.course.output_folder.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(locks.lock(self.course.output_folder / LOCK, _refuse_second))
        self.hand_ins = self._open.enter_context(HandInStore(self.course.output_folder / FILE))
        self.folders = HandInFolders(self.submitted)
        # Another watch, with another --into, would remove the copies that wait for this one.
        lock = self.folders.waiting.with_suffix(".lock")
        self._open.enter_context(locks.lock(lock, _refuse_second))
        waiting = self.hand_ins.in_state(State.WAITING)
        # Copies without a row: a watch was killed between the two, and these are taken again.
        self.folders.remove_others(row.name for row in waiting)
        # Last in, first out: workers end before the database and the lock are let go.
        self._open.callback(self.executor.release)
        self.arrivals = Arrivals(
            is_known=self.hand_ins.names.__contains__,
            is_due=self.events.delays.is_due,
            owner_of=self.owner_of,
        )
        self.queue = HandInQueue(
            self.course, self.settings, self.hand_ins, self.folders, self.arrivals,
            self.batch, self.events,
        )  # fmt: skip
        self.intake = Intake(
            self.course, self.exchange / "inbound", self.hand_ins, self.arrivals, self.queue,
            self.events, self.owner_of, is_stopping=lambda: self.stopping,
        )  # fmt: skip
        feedback = self.exchange / "feedback"
        self.publisher = Publisher(self.course, feedback, self.settings, self.hand_ins)

    @property
    def troubles(self) -> list[str]:
        """What is wrong now, and why something waits; nothing if all is in order."""
        return self.events.troubles

    def run(self, once: bool = False) -> None:
        """Watch until `stopping` is set; `once` does what there is to do now, and ends."""
        while not self.stopping:
            began = time.monotonic()
            has_taken = self.intake.look()
            has_graded = self.grade()
            self.publish_due()
            self.send_scores(now=has_graded)
            if time.monotonic() > self.executor.used_at + WARM_SECONDS:
                self.executor.release()
            if once and not (has_taken or has_graded):
                break
            while not once and not self.stopping and time.monotonic() < began + EVERY:
                time.sleep(NAP)

    # Grading.

    def grade(self) -> bool:
        """Grade a batch of what waits; tell whether anything was graded."""
        if time.monotonic() < self._retry_at:
            return False
        waiting = self.hand_ins.in_state(State.WAITING)
        if not waiting:
            return False
        has_graded = None
        with self.events.trouble("gradebook"):
            has_graded = self._grade_waiting(waiting)
        if has_graded is None:  # there is trouble: wait longer each time
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        elif has_graded:
            self._pause = FIRST_PAUSE
        return bool(has_graded)

    def _grade_waiting(self, waiting: list[HandInRow]) -> bool:
        """Grade a batch of the hand-ins that wait; tell whether there was one."""
        self.publisher.read_dates()
        chosen = self.batch.next_of(self._chosen(waiting))
        if not chosen:
            return False
        # Before anything is placed where the program that has the gradebook would grade it.
        self._check_gradebook_is_free()
        placed = self.queue.place(chosen)
        if not placed:
            return False
        self._grade_batch(placed)
        return True

    def _chosen(self, waiting: list[HandInRow]) -> list[HandInRow]:
        """Return the hand-ins that can be graded now; pages say of the others that they wait."""
        chosen, later = self.queue.choose(waiting)
        for row in later:
            self._publish_now(row)  # tells the student that the hourly limit is reached
        return chosen

    def _check_gradebook_is_free(self) -> None:
        """Raise `Busy` if another program has the gradebook, or waits for it."""
        from autograder.grades import gradebook

        if gradebook.is_wanted(self.course):
            _raise_busy("Another program waits for the gradebook: it comes first.")
        with gradebook.opened(self.course, _raise_busy):
            pass

    def _grade_batch(self, rows: list[HandInRow]) -> None:
        """Grade hand-ins that are placed, and those that join them."""
        is_graded = False
        try:
            self.batch.begin(rows)
            self._run_session()
            is_graded = True
        finally:
            self.batch.end(well=is_graded)
        # The work of one student may be the cause; of several, it may be the workers.
        if len(self.batch.students_with_faults) > 1:
            self.executor.release()

    def _run_session(self) -> None:
        """Grade the batch, and publish the feedback on each hand-in as soon as it is there."""
        from autograder.grading.options import Options
        from autograder.grading.session import Session

        rows = self.batch.rows
        graded: set[tuple[str, str]] = set()
        session = Session(
            self.course,
            self.course.exercises(sorted(self.batch.exercises)),
            self.submitted,
            self.jobs,
            hide=[self.course.output_folder],
            executor=self.executor,
            only=set(rows),
            options=Options(early_pages=True, next_submissions=self._next_submissions),
        )
        session.choose_sandbox(wanted=True, fall_back=False, warn=self.events.note_once)
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

    def _next_submissions(self, under_way: int) -> list[Submission]:
        """Return the submissions that join the batch, of which so many are being graded."""
        joining: list[HandInRow] = []
        with contextlib.suppress(*TROUBLES):  # if a disk is full, they wait for another batch
            self._go_on_while_grading()
            joining = self._joining(self.executor.jobs - under_way)
        self.batch.add(joining)
        return [
            Submission(
                row.student,
                Exercise(row.exercise, self.course.root),
                self.folders.submission_folder(row.student, row.exercise),
            )
            for row in joining
        ]

    def _go_on_while_grading(self) -> None:
        """Do now and then what the watch does between batches, and note whether the one that runs
        should end.
        """
        self._look_again()
        is_slow = self.batch.seconds >= JOIN_AFTER
        if is_slow and time.monotonic() >= self._published_at + PAGES_EVERY:
            self.publish_due()
            self.send_scores(now=False)
            # Not at each look, because it asks the file system and the database.
            self.batch.update_closing(self.queue.gradable())

    def _look_again(self) -> None:
        """Look if it is time for that: batches take longer."""
        if time.monotonic() >= self.intake.next_look:
            self.intake.look()

    def _joining(self, free_workers: int) -> list[HandInRow]:
        """Place the hand-ins that join the batch, and return them."""
        if self.stopping:
            return []
        joining = self.batch.joining(self.queue.gradable(), free_workers)
        return self.queue.place(self.batch.next_of(self._chosen(joining))[:free_workers])

    def _log_grade(self, row: HandInRow, record: Record) -> None:
        if record.kind == Kind.INFRASTRUCTURE:
            self.events.log("failed", row, reason=str(record.reason))
        else:
            self.events.log("graded", row, score=record.score, max_score=record.max_score)

    def _finish(self, row: HandInRow, record: Record) -> HandInRow:
        """Note that a hand-in is graded, now that it has a page, and publish that; return its row.
        If the grader itself failed on it, it waits for another try, and the page says so.

        Without a page it waits as well: if the batch ends, the next one makes what is missing.
        """
        if record.kind == Kind.INFRASTRUCTURE:
            self.batch.students_with_faults.add(row.student)
            row = self.hand_ins.keep(replace(row, tries=row.tries + 1, graded=time.time()))
            self.events.delays.add(row.name)
            # Not `_publish_now`, which lets the next delay begin with the shortest.
            with contextlib.suppress(*TROUBLES), self.events.skipping(row.name):
                row = self._publish(row)
            return row
        if row.state != State.GRADED:
            row = self.hand_ins.keep(replace(row, state=State.GRADED, graded=time.time()))
        return self._publish_now(row)

    # Feedback.

    def publish_due(self) -> None:
        """Publish what is not published yet and, now and then, pages that have changed."""
        self._published_at = time.monotonic()
        with self.events.trouble("feedback"):
            rows = self.hand_ins.unpublished()
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
        """Publish the notice of a hand-in if possible; otherwise `publish_due` does it later."""
        with contextlib.suppress(*TROUBLES):
            return self._publish_unless_failed(row)
        return row

    def _publish_unless_failed(self, row: HandInRow) -> HandInRow:
        """Publish the notice of a hand-in, or skip it for some time if the program fails on it."""
        if self.events.delays.is_due(row.name):
            with self.events.skipping(row.name):
                row = self._publish(row)
                self.events.delays.remove(row.name)
        return row

    def _publish(self, row: HandInRow) -> HandInRow:
        """Publish the notice of a hand-in if there is a new one; return its row."""
        published = self.publisher.publish(row)
        if published is not row and row.state == State.GRADED:
            self.events.log("published", row)
        return published

    def send_scores(self, now: bool) -> None:
        """Send scores to the learning platform if the course wants that: now, or once a minute."""
        if self.settings.scores != LTI:
            return
        if now or time.monotonic() >= self._scores_at:
            self._scores_at = time.monotonic() + SCORES_EVERY
            with self.events.trouble("scores"):
                lti = importlib.import_module("autograder.school.lti")
                for line in lti.send_pending(self.course):
                    self.say("scores", note=line)


def _refuse_second(holder: str) -> None:
    raise UserError(
        f"Another watch runs for this course, or for its submissions: {holder}. End it first."
    )


def _raise_busy(line: str) -> None:
    raise Busy(line)

"""Grades a class in two passes: first every submission, then every feedback page.

No submission can stop it.

Workers do both, wherever the backend runs them (`autograder.grading.backends`). This process
distributes the work, and is the only writer of the gradebook and of the files. A submission's
record is the last part of its grade to be written: if it exists, the grade is complete, and a
killed run continues from there.

The second pass reads the graded notebooks from their files. A late penalty is known only when all
submissions of its student are graded; to read takes less than a tenth of a millisecond each, and
the memory for a class stays the same however large its notebooks are.
"""

import contextlib
import dataclasses
import functools
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat

from autograder.checking import files
from autograder.checking.words import Message
from autograder.course import archive, seeds
from autograder.course.cells import grade_id
from autograder.course.config import STAMP, Course, Exercise, UserError
from autograder.course.text_files import keep_text, read_text
from autograder.feedback.bare_page import bare_page, made_of
from autograder.grades import gradebook, reasons, records, requests
from autograder.grades.records import record_of
from autograder.grades.results import (
    Kind,
    Outcome,
    Record,
    StoredGrades,
    SubmissionScore,
    with_manual_points,
)
from autograder.grading import worker
from autograder.grading.backends import Backend, Job, JudgeOverran, WorkerDied
from autograder.grading.log import Log
from autograder.grading.options import Options
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.recompute import Fingerprints, disclosure, fingerprints
from autograder.grading.submission_times import read_stamp
from autograder.grading.submissions import SECRET, Submission, Unit, digest_of
from autograder.grading.worker_config import WorkerConfig
from autograder.sanitize import text

TRIES = 3
"""How often a submission is given to a worker, if each time the worker's process dies."""
MOST_COMMENT = 5000
"""Characters of the automatic comment in the gradebook."""
DIED = "the grading process crashed {tries} times"
REFUSED = "our own fault: the gradebook does not accept this submission ({reason})."
MOST_REASON = 200
MOST_HEAD = 1000
"""The first characters of a page, which say what it was made from."""
TOO_LONG_TO_READ = "The notebook takes too long to read."
PAGE_DIED = "the process that made the page crashed"
MORE_EVERY = 1.0
"""Seconds after which a batch asks for more submissions, if no result has come."""


@dataclass
class _Task:
    """One submission on its way through the two passes.

    `submitted` is the time in its own `timestamp.txt`; `unit.stamp` is the time that counts.
    `method` is what a worker does for it.
    """

    submission: Submission
    unit: Unit
    record: Record | None = None
    stored: StoredGrades | None = None
    kept: bool = False
    tries: int = 0
    overran: bool = False
    method: str = ""
    fingerprints: Fingerprints | None = None
    submitted: str = ""

    def lighten(self) -> None:
        """Free what only grading needs: the notebooks and files of a class would fill the
        memory.
        """
        self.unit.data = None
        self.unit.files = {}


@dataclass
class Batch:
    """One run over a class.

    Parameters
    ----------
    course : Course
    writer : gradebook.Writer
        Of an open gradebook; only this process writes to it.
    make_backend : callable
        Makes the `Backend` when there is work for it.
    worker_config : WorkerConfig
        What workers are made with.
    options : Options
    timer : PhaseTimer, optional
        Counts the time of each phase, including that of workers.
    log : Log, optional
        Gets a line for each finished submission.
    """

    course: Course
    writer: gradebook.Writer
    make_backend: Callable[[], Backend]
    worker_config: WorkerConfig
    options: Options = field(default_factory=Options)
    timer: PhaseTimer = field(default_factory=PhaseTimer)
    log: Log | None = None

    def __post_init__(self) -> None:
        self.seeds = seeds.Seeds(self.course)
        # Now: of what is released while this runs, the grades are made again.
        self.release_digests: dict[str, str] = {}
        for name in self.worker_config.exercises:
            with contextlib.suppress(OSError):  # a damaged release stops only its own submissions
                self._release_digest(self.worker_config.exercise(name))
        # By exercise, read once for a class: where requests may be.
        self.request_cells: dict[str, dict[str, str]] = {}
        self.backend: Backend | None = None
        self.jobs: dict[int, _Task] = {}
        self.number = 0
        self.page_count = 0  # for a progress bar
        self.not_in_gradebook = 0  # submissions whose record has a grade that it lacks

    def run(self, submissions: Sequence[Submission]) -> Iterator[tuple[str, Record, bool]]:
        """Grade these submissions, and make their pages.

        Yields
        ------
        tuple
            `graded` or `page`; the submission's record; and whether it is an earlier one that was
            kept.
        """
        try:
            # A student's next hand-in may join: the second pass is for the last one.
            by_work: dict[tuple[str, str], _Task] = {}
            for step, task in self._first_pass(submissions):
                by_work[task.unit.student, task.unit.assignment] = task
                assert task.record is not None
                yield step, task.record, task.kept
            tasks = list(by_work.values())
            self._reread(tasks)
            for task in self._second_pass(tasks) if self.options.pages else ():
                assert task.record is not None
                yield "page", task.record, task.kept
        finally:
            if self.backend:
                self.backend.close()

    # The first pass.

    def _first_pass(self, submissions: Sequence[Submission]) -> Iterator[tuple[str, _Task]]:
        """Yield `graded` and each submission's task once it has a grade; with early pages, also
        `page` and the task once it has its page.

        Workers make pages before they grade others, and try again what one of them died of.
        """
        waiting, retries, pages = deque(submissions), deque[_Task](), deque[_Task]()
        # One answer is taken in each round, after workers have as many jobs as they take.
        while waiting or retries or pages or self.jobs:
            yield from self._fill_workers(waiting, retries, pages)
            # No worker has a job: the submissions of this round needed none. Pages may wait now.
            if not self.jobs:
                continue
            if self.options.next_submissions:
                assert self.backend is not None
                is_done = self.backend.wait(MORE_EVERY)
                queued = len(waiting) + len(retries) + len(pages)
                under_way = queued + len(self.jobs) - int(is_done)  # a done job takes no worker
                waiting.extend(self.options.next_submissions(under_way))
                if not is_done:
                    continue
            task, answer = self._result()
            if task.method == "page":
                if self._store_page(task, answer):
                    yield "page", task
                else:
                    pages.append(task)
                continue
            outcome = self._outcome(task, answer)
            if outcome is None:
                retries.append(task)
                continue
            self._store_grade(task, outcome)
            task.lighten()
            yield from self._report_graded(task, pages)

    def _fill_workers(
        self, waiting: deque[Submission], retries: deque[_Task], pages: deque[_Task]
    ) -> Iterator[tuple[str, _Task]]:
        """Give workers jobs while they have room; yield what is done without one: a grade that is
        kept, or a page.
        """
        while pages and self._has_room():
            yield from self._begin_page(pages.popleft())
        while retries and self._has_room():
            task = retries.popleft()
            self._submit("stopped" if task.overran else "grade", task, (task.unit,))
        # Each submission is read only when there is room for it: a class may not fit in memory.
        while waiting and self._has_room():
            task = self._start_task(waiting.popleft())
            if task.kept:
                self._log(task)
                task.lighten()
                yield from self._report_graded(task, pages)
            else:
                self._submit("grade", task, (task.unit,))

    def _report_graded(self, task: _Task, pages: deque[_Task]) -> Iterator[tuple[str, _Task]]:
        """Yield `graded` and a task. With early pages, also yield `page` if its page is there, or
        add the task to `pages`.
        """
        yield "graded", task
        if self.options.early_pages:
            self._prepare_page(task)
            if self._needs_page(task):
                pages.append(task)
            else:
                yield "page", task

    def _begin_page(self, task: _Task) -> Iterator[tuple[str, _Task]]:
        """Let a worker make a page; yield the task if it has its page at once."""
        answer = self._submit_or_make_page(task)
        if answer is not None:
            self._store_page(task, answer)
            yield "page", task

    def _outcome(self, task: _Task, answer: Any) -> Outcome | None:
        """Return the outcome of a submission from a worker's answer, or None to try it again.

        If its worker died, it is tried up to `TRIES` times. If the judge took too long, it is not
        run again, but gets its grade as one that was stopped.
        """
        if isinstance(answer, JudgeOverran):
            # The second time, nothing of it was run: reading it takes too long.
            if task.overran:
                return worker.malformed(_released(task), task.unit, Message(TOO_LONG_TO_READ))
            task.overran, task.tries = True, 0
            return None  # the next job is "stopped", which runs nothing
        if isinstance(answer, WorkerDied) and task.tries < TRIES:
            return None
        if isinstance(answer, WorkerDied):
            return worker.ungraded(_released(task), str(Message(DIED, tries=TRIES)))
        if isinstance(answer, Exception):
            return worker.ungraded(_released(task), str(answer))
        assert isinstance(answer, Outcome)
        return answer

    def _start_task(self, submission: Submission) -> _Task:
        """Read a submission; its grade is kept if it is still valid."""
        with self.timer("read"):
            unit = submission.read(self.worker_config.limits_of(submission.exercise.name))
        task = _Task(submission, unit, submitted=unit.stamp or "")
        self._keep_stamp_of_same_work(unit)
        if not (self.options.force or self.options.redraw):
            task.record, task.stored = self._refresh_kept(submission, unit)
            task.kept = task.record is not None
        # A submission that is graded again keeps its seed: the same work gets the same points.
        unit.seed, unit.guest_seed = self.seeds.for_submission(
            unit.assignment, unit.digest, self._seed_of_grade(unit)
        )
        if self.options.redraw:
            unit.seed = seeds.fresh_seed()
        if unit.assignment in self.seeds.revealed:
            task.fingerprints = fingerprints(unit)
        return task

    def _keep_stamp_of_same_work(self, unit: Unit) -> None:
        """Let the graded work that comes again keep its time and its digest: to ask for a regrade
        is no new work, and to submit the same notebook again through nbgrader's exchange is none.

        Students ask after they have read their feedback, which is after the due date.
        """
        record = record_of(self.course, unit.student, unit.assignment)
        if record is not None and is_later_copy(self.course, unit, record.submission_digest):
            unit.stamp = read_text(self.course.paths_of(unit.student, unit.assignment).stamp)
            unit.digest = record.submission_digest

    def refresh(self, submission: Submission) -> tuple[bool, bool]:
        """Bring penalty, comment and requests of a grade that would be kept up to date; return
        whether a submission's seed is decided, and whether its grade would be kept.
        """
        task = self._start_task(submission)
        return self._seed_of_grade(task.unit) is not None, task.kept

    def _seed_of_grade(self, unit: Unit) -> int | None:
        """Return the seed with which this very submission was graded last; None if it has no
        grade.
        """
        record = record_of(self.course, unit.student, unit.assignment)
        return record.seed if record and record.submission_digest == unit.digest else None

    def _refresh_kept(
        self, submission: Submission, unit: Unit, of_any_release: bool = False
    ) -> tuple[Record | None, StoredGrades | None]:
        """Return the record of a submission that need not be graded again, and its grade in the
        gradebook. Its penalty and comment, and its requests, are brought up to date in both.

        With `of_any_release`, the exercise may have been released again since.
        """
        record = record_of(self.course, submission.student, submission.exercise.name)
        # What our own fault left without a grade is tried again in each run.
        if record is None or record.kind == Kind.INFRASTRUCTURE:
            return None, None
        is_of_release = record.release_digest == self._release_digest(submission.exercise)
        if record.submission_digest != unit.digest or not (is_of_release or of_any_release):
            return None, None
        points = {
            name: cell.points for name, cell in record.cells.items() if not cell.is_graded_by_hand
        }
        # The due date or a manual grade may be new, and the penalty and the comment follow from it.
        with self.timer("database"):
            now = self.writer.refresh(
                submission.exercise.name,
                submission.student,
                points,
                functools.partial(_comment, record),
            )
        # Someone has removed the submission from the gradebook, or restored an older gradebook.
        if now is None:
            self.not_in_gradebook += not of_any_release
            return None, None
        record = self._with_current_requests(submission, unit, record, now).with_stored(now)
        now.requests = record.requests
        return record, now

    def _with_current_requests(
        self, submission: Submission, unit: Unit, record: Record, stored: StoredGrades
    ) -> Record:
        """Return a record with the regrade requests that its submission has now, and write it if
        these are others.
        """
        if not unit.request.strip():
            return record
        name = submission.exercise.name
        if name not in self.request_cells:
            released = nbformat.read(submission.exercise.notebook, as_version=4)
            self.request_cells[name] = requests.answers_in(released.cells)
        asked = requests.with_earlier_comments(
            requests.parsed(unit.request, self.request_cells[name])[0],
            record.requests,
            stored.cells,
        )
        if asked != record.requests:
            record = dataclasses.replace(record, requests=asked)
            files.write(self.course.paths_of(unit.student, name).record, records.to_text(record))
        return record

    def _release_digest(self, exercise: Exercise) -> str:
        if exercise.name not in self.release_digests:
            self.release_digests[exercise.name] = seeds.version_of(exercise)
        return self.release_digests[exercise.name]

    def _store_grade(self, task: _Task, outcome: Outcome) -> None:
        """Write an outcome: points to the gradebook, then the graded notebook, and finally the
        record. If the grader itself failed, the grade that this same work has already is kept.
        """
        unit = task.unit
        if outcome.kind == Kind.INFRASTRUCTURE and self._keep_grade(task, outcome):
            return
        timestamp, unread = read_stamp(unit.stamp)
        outcome.repairs += unread
        with self.timer("database"):
            task.stored = self._save(unit, outcome, timestamp)
        self.timer.add(outcome.seconds)
        with self.timer("files"):
            task.record = self._record(task, outcome, task.stored).with_stored(task.stored)
            task.stored.requests = task.record.requests
            paths = self.course.paths_of(unit.student, unit.assignment)
            for folder in (paths.folder, paths.pages):
                folder.mkdir(parents=True, exist_ok=True)
            # The page of an earlier grade; the second pass makes the new one.
            paths.page.unlink(missing_ok=True)
            if unit.stamp is not None:
                files.write(paths.stamp, unit.stamp)
            else:
                paths.stamp.unlink(missing_ok=True)
            # For nbgrader's generate_feedback, which copies it from here.
            keep_text(paths.folder / SECRET, unit.secret)
            files.write(paths.notebook, outcome.notebook)
            files.write(paths.record, records.to_text(task.record))
        self._log(task, outcome)

    def _keep_grade(self, task: _Task, outcome: Outcome) -> bool:
        """Keep the grade of a submission on which the grader itself failed; return False if it has
        none. This run still reports the fault.
        """
        record, stored = self._refresh_kept(task.submission, task.unit, of_any_release=True)
        if record is None or stored is None:
            return False
        task.stored = stored
        task.record = dataclasses.replace(record, kind=outcome.kind, reason=outcome.reason)
        self._log(task, outcome)
        return True

    def _log(self, task: _Task, outcome: Outcome | None = None) -> None:
        if self.log and task.record:
            self.log.write(task.record, outcome)

    def _save(self, unit: Unit, outcome: Outcome, timestamp: datetime | None) -> StoredGrades:
        unchanged = _unchanged(
            self.course.paths_of(unit.student, unit.assignment).notebook, outcome
        )
        comment = functools.partial(_comment, outcome)
        try:
            return self.writer.write(
                unit.assignment, unit.student, outcome, timestamp, comment, unchanged
            )
        except gradebook.GradeRefused as error:  # only this submission; only its record says so
            outcome.kind, outcome.reason = (
                Kind.INFRASTRUCTURE,
                Message(REFUSED, reason=text.line(str(error), MOST_REASON)),
            )
            most = sum(cell.max_points for cell in outcome.cells.values())
            return StoredGrades(SubmissionScore(0.0, most, needs_manual_grade=True))

    def _record(self, task: _Task, outcome: Outcome, stored: StoredGrades) -> Record:
        unit = task.unit
        earlier = record_of(self.course, unit.student, unit.assignment)
        asked = requests.with_earlier_comments(
            outcome.requests, earlier.requests if earlier else [], stored.cells
        )
        return Record(
            student=unit.student,
            assignment=unit.assignment,
            submission_digest=unit.digest,
            release_digest=self._release_digest(task.submission.exercise),
            seed=unit.seed,
            sandbox=self.worker_config.sandbox,
            graded_at=datetime.now(UTC).isoformat(timespec="seconds"),
            kind=outcome.kind,
            reason=outcome.reason,
            repairs=outcome.repairs,
            evidence=outcome.evidence,
            cells=outcome.cells,
            requests=asked,
            versions=outcome.versions,
            history=records.history(self.course.paths_of(unit.student, unit.assignment).record),
            **vars(stored.submission_score),
        )

    def _reread(self, tasks: list[_Task]) -> None:
        """Read late submissions again: what another one of the same student used of the free
        days is known now.
        """
        if not self.writer.has_free_days:
            return
        for task in tasks:
            if not (task.stored and task.record and task.stored.submission_score.seconds_late):
                continue
            now = self.writer.read(task.submission.exercise.name, task.submission.student)
            if now:
                now.requests = task.stored.requests
                task.stored = now
                # In place, because `run` has yielded this very record already.
                vars(task.record).update(vars(task.record.with_stored(now)))

    # The second pass.

    def _second_pass(self, tasks: list[_Task]) -> Iterator[_Task]:
        waiting = deque[_Task]()
        for task in tasks:
            self._prepare_page(task)
            if self._needs_page(task):
                waiting.append(task)
        self.page_count = len(waiting)
        while waiting or self.jobs:
            if waiting and self._has_room():
                task = waiting.popleft()
                answer = self._submit_or_make_page(task)
                if answer is None:
                    continue
            else:
                task, answer = self._result()
            if self._store_page(task, answer):
                yield task
            else:
                waiting.append(task)

    def _prepare_page(self, task: _Task) -> None:
        """Add what a page discloses of the draws, and write the exchange's files next to it."""
        if task.stored and task.record and task.fingerprints:
            task.stored.disclosure = disclosure(self.seeds, task.record, task.fingerprints)
        self._write_exchange_files(task)
        task.tries = 0  # those of grading do not count for the page

    def _needs_page(self, task: _Task) -> bool:
        """Tell whether a submission has no page that agrees with the gradebook."""
        if task.stored is None:
            return False
        try:
            with self._paths(task).page.open(encoding="utf-8", errors="replace") as page:
                return made_of(page.read(MOST_HEAD)) != task.stored.digest()
        except OSError:
            return True

    def _store_page(self, task: _Task, answer: Any) -> bool:
        """Write a page from a worker's answer; return False if the worker died, and it is to be
        tried again.
        """
        if isinstance(answer, WorkerDied) and task.tries < TRIES:
            return False
        if isinstance(answer, tuple):
            answer, took = answer
            self.timer.add({"pages": took})
        assert task.record is not None
        if isinstance(answer, Exception):  # the page could not be made; the grade is safe
            fault = PAGE_DIED if isinstance(answer, WorkerDied) else str(answer)
            answer = bare_page(task.record, text.line(fault))
        with self.timer("files"):
            self._paths(task).page.parent.mkdir(parents=True, exist_ok=True)
            files.write(self._paths(task).page, answer)
        return True

    def _write_exchange_files(self, task: _Task) -> None:
        """Put the files for nbgrader's `release_feedback` where a page is, if the submission came
        by its exchange; remove those of an earlier one otherwise.
        """
        graded, secret = self._paths(task), task.unit.secret
        keep_text(graded.folder / SECRET, secret)
        keep_text(graded.pages / SECRET, secret)
        keep_text(graded.pages / STAMP, task.submitted if secret else "")

    def _submit_or_make_page(self, task: _Task) -> Any:
        """Give a page to a worker and return None; if no worker runs, return the page, or the
        exception it raised.
        """
        try:
            notebook = self._paths(task).notebook.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # someone has removed or changed the graded notebook
            return RuntimeError(f"{type(error).__name__}: {error}")
        assert task.stored is not None
        arguments = dataclasses.replace(task.unit, data=None, files={}), notebook, task.stored
        # Nothing was graded: no worker is started only for pages, unless workers stay (`watch`).
        if self.backend is None and not self.options.early_pages:
            return self._page_here(task.submission.exercise, *arguments)
        self._submit("page", task, arguments)
        return None

    def _page_here(
        self, exercise: Exercise, unit: Unit, notebook: str, stored: StoredGrades
    ) -> Any:
        """Make a page in this process; return it, or the exception that it raised."""
        with self.timer("pages"):
            try:
                limits = self.worker_config.limits_of(unit.assignment)
                locales = archive.locales(exercise)
                return worker.page(unit, notebook, stored, limits, locales)
            except Exception as error:  # as a worker would
                return RuntimeError(f"{type(error).__name__}: {error}")

    def _paths(self, task: _Task) -> Any:
        return self.course.paths_of(task.unit.student, task.unit.assignment)

    # Jobs.

    def _has_room(self) -> bool:
        """Tell whether a job may be submitted; the backend is made for the first."""
        return self.backend is None or self.backend.free() > 0

    def _submit(self, method: str, task: _Task, arguments: tuple[Any, ...]) -> None:
        if self.backend is None:
            self.backend = self.make_backend()
        task.tries += 1
        task.method = method
        self.number += 1
        self.jobs[self.number] = task
        self.backend.submit(Job(self.number, method, arguments))

    def _result(self) -> tuple[_Task, Any]:
        assert self.backend is not None
        with self.timer("waiting for workers"):
            job, answer = self.backend.result()
        return self.jobs.pop(job.key), answer


def _released(task: _Task) -> Any:
    """Return the notebook that a submission answers."""
    return nbformat.read(task.submission.exercise.notebook, as_version=4)


def _comment(result: Outcome | Record, stored: StoredGrades) -> str:
    """Return the automatic comment in the gradebook: why the checks gave no more points.

    It does not repeat what a person still has to do: the gradebook says so next to it, and it
    changes there.
    """
    cells = with_manual_points(result.cells, stored.cells)
    checked = {
        name: dataclasses.replace(cell, waits=False)
        for name, cell in cells.items()
        if not cell.is_graded_by_hand
    }
    shown = dataclasses.replace(result, cells=checked)
    return "\n\n".join(reasons.lines_of(shown))[:MOST_COMMENT]


def _unchanged(path: Path, outcome: Outcome) -> set[str]:
    """Return the cells that people grade whose answers are those in an earlier graded notebook."""
    by_hand = [name for name, cell in outcome.cells.items() if cell.is_graded_by_hand]
    if not by_hand:
        return set()
    try:
        before = _answers(path.read_text(encoding="utf-8"))
    # There is none, or someone has changed it.
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()
    now = _answers(outcome.notebook)
    return {name for name in by_hand if name in before and before[name] == now[name]}


def _answers(notebook: str) -> dict[str, tuple[str, Any]]:
    """Return the text and the pasted pictures of each cell of a notebook, by grade id."""
    return {
        grade_id(cell) or "": ("".join(cell["source"]), cell.get("attachments"))
        for cell in nbformat.from_dict(json.loads(notebook)).cells
    }


def prepare(
    course: Course,
    exercises: Sequence[Exercise],
    submissions: Sequence[Submission],
    submitted: Path,
) -> None:
    """Check before grading: there is something to grade, outputs can be written, the gradebook
    is ours.
    """
    if not submissions:
        names = ", ".join(exercise.name for exercise in exercises)
        raise UserError(
            f"Nothing to grade: {submitted} has no folder STUDENT/EXERCISE for {names}. Put each "
            f"notebook at {submitted}/STUDENT/{exercises[0].name}/{exercises[0].name}.ipynb."
        )
    try:
        for folder in (course.autograded, course.feedback):
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".write-{os.getpid()}"
            probe.touch()
            probe.unlink()
        seeds.course_secret(course)
    except OSError as error:
        raise UserError(
            f"Cannot write to {error.filename}: {error.strerror}. Grades are written below "
            f"{course.output_folder}; make it writable, or name another folder with --into."
        ) from error


def is_later_copy(course: Course, unit: Unit, graded: str) -> bool:
    """Tell whether a submission is the graded work, submitted again later. It is not if it is the
    graded submission itself.

    Parameters
    ----------
    course : Course
    unit : Unit
        Only with a regrade request, or if it came through nbgrader's exchange, can it be a copy.
    graded : str
        The digest of the graded submission. Up to version 0.2, it included the secret of an
        exchange.
    """
    if graded == unit.digest or not (unit.request.strip() or unit.secret):
        return False
    paths = course.paths_of(unit.student, unit.assignment)
    stamp = read_text(paths.stamp)
    secret = read_text(paths.folder / SECRET)
    before, now = read_stamp(stamp)[0], read_stamp(unit.stamp)[0]
    # Someone who submits again does so later: what has an earlier time is other work.
    if stamp is None or before is None or now is None or now < before:
        return False
    # The digests that these files would have with the time of the graded submission.
    with_secret = {**unit.files, SECRET: (secret or "").encode()}
    digests = [digest_of(unit.data, stamp.encode(), beside) for beside in (unit.files, with_secret)]
    return graded in digests

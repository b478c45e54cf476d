"""One `grade` command: what is graded, where guests come from, the open gradebook, and the
results.
"""

import contextlib
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder.checking import machine
from autograder.course import cores
from autograder.course.config import Course, Exercise
from autograder.course.limits import Limits
from autograder.grades import reasons
from autograder.grades.file_problems import OF_ANOTHER
from autograder.grades.results import Record
from autograder.grading import submissions
from autograder.grading.executors import Executor, LocalExecutor
from autograder.grading.log import Log
from autograder.grading.options import Options
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.worker_config import WorkerConfig

MOST_NAMED = 5


class Pending:
    """The records with pending points: those that can be settled where grading happens, and the
    others.

    Parameters
    ----------
    records : sequence of Record
    executor : Executor, optional
        Where grading happens; by default this machine.

    Attributes
    ----------
    settled_here, elsewhere : list of Record
        The records that wait for nothing that the executor lacks, and those that do.
    """

    def __init__(self, records: Sequence[Record], executor: Executor | None = None):
        self.executor = executor or LocalExecutor()
        records = [record for record in records if record.pending]
        needs = {need for record in records for need in record.waits_for()}
        absent = {need for need in needs if not self.executor.has(need)}
        self.settled_here = [record for record in records if not absent & set(record.waits_for())]
        self.elsewhere = [record for record in records if absent & set(record.waits_for())]

    def sentences(self) -> list[str]:
        """Return a sentence on the records that can be settled here, and one on the others, if
        there are any.
        """
        command = f"python -m autograder grade --pending{self.executor.option}"
        ready: list[Record] = []
        again: list[Record] = []
        for record in self.settled_here:
            # With the same versions, the course's own answer would fail in these checks again.
            depends_on_versions = machine.OWN_ANSWER in record.waits_for()
            (again if depends_on_versions else ready).append(record)
        groups = (
            (ready, f", which {self.executor.name} has: run `{command}`."),
            (again, f": run `{command}` with other versions, or on another machine."),
            (
                self.elsewhere,
                ": run `python -m autograder grade --pending` on a machine that has one.",
            ),
        )
        return [_pending_sentence(records, what_to_do) for records, what_to_do in groups if records]


def _pending_sentence(records: Sequence[Record], what_to_do: str) -> str:
    count = "1 submission has" if len(records) == 1 else f"{len(records)} submissions have"
    needs = {need for record in records for need in record.waits_for()}
    return f"{count} pending points that need {reasons.describe_needs(sorted(needs))}{what_to_do}"


class Session:
    """Grades the submissions below a folder; use it in a `with` block.

    Parameters
    ----------
    course : Course
    exercises : sequence of Exercise
        Those to look for.
    submitted : Path
        Where to look.
    jobs : int
        How many submissions to grade at one time; 0 for one on each core.
    options : Options, optional
    pending : bool
        Whether to grade only submissions with pending points that this machine can settle.
    hide : sequence of Path
        Further paths on this machine that guests must not see.
    since : datetime, optional
        Only submissions from then or later.
    log : Path, optional
        A file to which a line is added as each submission is graded.
    executor : Executor, optional
        Where to grade; by default on this machine.
    only : collection of (str, str), optional
        The students and exercises to grade; by default all that are found.

    Attributes
    ----------
    records : list of Record
        The records graded, or kept, so far.
    kept : int
        How many of these were kept.
    left_out : int
        How many were submitted before `since`.
    renewed : int
        How many of the kept ones got a new page, because the gradebook has changed.
    not_in_gradebook : int
        How many had a grade that the gradebook has no longer, and were graded again.
    seconds : dict
        Where the time went: submissions, total seconds, and seconds by phase, added up over all
        workers.
    """

    def __init__(
        self,
        course: Course,
        exercises: Sequence[Exercise],
        submitted: Path,
        jobs: int = 0,
        options: Options | None = None,
        pending: bool = False,
        hide: Sequence[Path] = (),
        since: datetime | None = None,
        log: Path | None = None,
        executor: Executor | None = None,
        only: Collection[tuple[str, str]] | None = None,
    ):
        self.timer = PhaseTimer()
        submissions.expect_folder(submitted)
        self.course, self.exercises, self.jobs = course, exercises, jobs
        self.submitted = submitted.resolve()
        options = options or Options()
        self.options = replace(options, force=options.force or pending)
        # What takes long to load begins now, in other processes: workers here, guests when it is
        # known how they run.
        self.executor = executor or LocalExecutor()
        self.executor.begin(course.root, [exercise.name for exercise in exercises])
        self.submissions = submissions.find(exercises, self.submitted)
        if only is not None:
            self._keep_only(only)
        self.pending = Pending([], self.executor)
        self.left_out, self.log = 0, log
        if since:
            self._keep_only_since(since)
        if pending:
            self._keep_only_pending()
        # Others may join: their exercises are not known yet.
        used = (
            exercises if options.next_submissions else [item.exercise for item in self.submissions]
        )
        self.used = list({exercise.name: exercise for exercise in used}.values())
        # A batch of `watch` is a part of the class, and the folder has all of it.
        self.strays = list(submissions.strays(course, self.submitted)) if only is None else []
        limits = Limits.configured(course.config)
        self.worker_config = WorkerConfig.for_course(
            course,
            self.used,
            limits,
            hidden=[self.submitted, *hide],
            imports=submissions.imported(self.submissions, limits.notebook_mb),
        )
        self.records: list[Record] = []
        self.kept = 0
        self.renewed = 0
        self.not_in_gradebook = 0
        self.seconds: dict[str, Any] = {}
        self.warn: Callable[[str], None] = lambda line: None
        self._open = contextlib.ExitStack()

    def _keep_only(self, wanted: Collection[tuple[str, str]]) -> None:
        """Keep only the submissions of these students for these exercises."""
        self.submissions = [
            item for item in self.submissions if (item.student, item.exercise.name) in wanted
        ]

    def _keep_only_pending(self) -> None:
        """Keep only the submissions whose pending points can be settled where they are graded."""
        from autograder.grades import records

        found = {(item.student, item.exercise.name) for item in self.submissions}
        known = records.all_of(self.course)
        known = [record for record in known if (record.student, record.assignment) in found]
        self.pending = Pending(known, self.executor)
        self._keep_only(
            {(record.student, record.assignment) for record in self.pending.settled_here}
        )

    def _keep_only_since(self, since: datetime) -> None:
        """Keep only the submissions from that time or later."""
        from autograder.grading import submission_times

        since_then = [
            item for item in self.submissions if submission_times.submitted_at(item) >= since
        ]
        self.left_out, self.submissions = len(self.submissions) - len(since_then), since_then

    def choose_sandbox(self, wanted: bool, fall_back: bool, warn: Callable[[str], None]) -> None:
        """Decide whether submissions run in a sandbox; if none is possible, refuse, unless
        `fall_back` is set.
        """
        self.warn = warn
        self.worker_config = self.executor.configure(self.worker_config, wanted, fall_back, warn)

    def __enter__(self) -> "Session":
        try:
            self._open.callback(self.executor.close)
            if self.used:
                # Warm parents warm up while other things are done; where nothing is graded, none
                # is.
                self.executor.open(self.worker_config, soon=self._is_to_grade())
            self._prepare()
        except BaseException:
            # With the error: `gradebook.opened` says what is wrong with a database.
            self._open.__exit__(*sys.exc_info())
            raise
        return self

    def _is_to_grade(self) -> bool:
        """Tell, from a quick look, whether anything will be graded."""
        if self.options.force or self.options.redraw:
            return True
        graded = (
            self.course.paths_of(item.student, item.exercise.name) for item in self.submissions
        )
        return not all(paths.record.exists() for paths in graded)

    def _prepare(self) -> None:
        """Open the gradebook and create the batch; import slow modules while others warm up."""
        from autograder.grades import gradebook
        from autograder.grading import batch

        batch.prepare(self.course, self.exercises, self.submissions, self.submitted)
        log = self._open.enter_context(Log(self.log)) if self.log else None
        book = self._open.enter_context(gradebook.opened(self.course, self.warn))
        for exercise in self.used:
            gradebook.register(self.course, book, exercise)
        writer = gradebook.Writer(self.course, book)
        writer.set_dates()
        # No more workers than submissions: each takes time and memory to start.
        jobs = min(self.jobs if self.jobs > 0 else cores.count(), len(self.submissions))
        self.batch = batch.Batch(
            self.course,
            writer,
            lambda: self.executor.backend(jobs),
            self.worker_config,
            self.options,
            self.timer,
            log,
        )

    def misfiled(self) -> list[str]:
        """Return a sentence on graded notebooks that belong to other exercises, and how to place
        them.
        """
        misfiled = [record for record in self.records if record.reason.text == OF_ANOTHER]
        if not misfiled:
            return []
        named = [f"{record.student}: {record.reason}" for record in misfiled[:MOST_NAMED]]
        more = f" And {len(misfiled) - MOST_NAMED} more." if len(misfiled) > MOST_NAMED else ""
        collect = f"python -m autograder collect {shlex.quote(str(self.submitted))}"
        return [f"{' '.join(named)}{more} To place such files, run: {collect}; then remove them."]

    def missing_grades(self) -> list[str]:
        """Return a sentence on submissions whose grades the gradebook had no longer."""
        count = self.not_in_gradebook
        if not count:
            return []
        were = f"{count} submissions were" if count > 1 else "1 submission was"
        return [
            f"{were} graded again, because the gradebook {self.course.database} did not have the "
            "points of the last run. If it was moved or restored, points and comments that people "
            "gave since are not in it."
        ]

    def run(self) -> Iterator[tuple[str, Record, bool]]:
        """Grade, then make pages; yield each step's name, its record, and whether that is an old
        one.
        """
        for step, record, kept in self.batch.run(self.submissions):
            if step == "graded":
                self.not_in_gradebook = self.batch.not_in_gradebook
                self.records.append(record)
                self.kept += kept
            else:
                self.renewed += kept
            yield step, record, kept

    def __exit__(self, *error: object) -> None:
        self._open.close()
        self.seconds = self.timer.summary(len(self.records) - self.kept)
        self.seconds["phases"] = dict(sorted(self.timer.seconds.items(), key=lambda item: -item[1]))

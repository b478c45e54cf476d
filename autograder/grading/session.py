"""One `grade` command: what is graded, where guests come from, the open gradebook, and what came of it."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder import cores, reasons
from autograder.checking import machine
from autograder.course import Course, Exercise, UserError
from autograder.grading import backends, submissions
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.worker_config import WorkerConfig
from autograder.limits import Limits
from autograder.results import Record
from autograder.sandbox import bubblewrap
from autograder.sandbox.guest import Ended
from autograder.sandbox.guests import GuestPool
from autograder.sanitize import text

USE_GPU = """
import importlib.util
import torch
torch.ones(2, device="cuda").sum().item()
if importlib.util.find_spec("triton"):
    import triton
    triton.runtime.driver.active.utils  # builds what launches kernels: with a C compiler, and Python's headers
"""
MOST_FAULT = 200  # characters


class Waiting:
    """The records with points that wait: those that this machine can settle, and the others.

    Attributes
    ----------
    settled_here, elsewhere : list of Record
        Of the records, those that wait for nothing that this machine lacks, and those that do.
    """

    def __init__(self, records: Sequence[Record]):
        records = [record for record in records if record.pending]
        absent = {what for what in {need for record in records for need in record.waits_for()} if machine.lacks(what)}
        self.settled_here = [record for record in records if not absent & set(record.waits_for())]
        self.elsewhere = [record for record in records if absent & set(record.waits_for())]

    def said(self) -> list[str]:
        """Return a sentence on those that this machine can settle, and one on the others, where there are any."""
        lines = []
        for records, where in (
            (self.settled_here, ", which this machine has: run `python -m autograder grade --pending`."),
            (self.elsewhere, ": run `python -m autograder grade --pending` on a machine that has one."),
        ):
            if records:
                count = "1 submission has" if len(records) == 1 else f"{len(records)} submissions have"
                needs = reasons.named(sorted({what for record in records for what in record.waits_for()}))
                lines.append(f"{count} points that wait for {needs}{where}")
        return lines


def gpu_fault(setting: WorkerConfig) -> str:
    """Return why a guest cannot use the GPU that this machine has; an empty text if it can.

    Without asking one, a fault of ours, such as a system call that a driver needs and the sandbox refuses, would cost
    students points.
    """
    found: list[dict[str, Any]] = []
    guests = setting.guests()
    try:
        guests.guest().request({"op": "cell"}, [USE_GPU.encode()], on_output=found.append)
    except (Ended, RuntimeError) as error:
        return text.line(str(error), MOST_FAULT)
    finally:
        guests.close()
    return next((text.line(f"{output['evalue']}", MOST_FAULT) for output in found if "evalue" in output), "")


class Session:
    """Grades what lies below a folder; use it in a `with` block.

    Parameters
    ----------
    course : Course
    exercises : sequence of Exercise
        Those to look for.
    submitted : Path
        Where to look.
    jobs : int
        How many submissions to grade at one time; 0 for one on each core.
    force, redraw, pending : bool
        Whether to grade again what has a grade that holds, whether with inputs drawn anew, and whether only what has
        points that wait for a machine with what this one has.
    pages : bool
        Whether to make feedback pages.
    hide : sequence of Path
        What else of this machine guests must not see.

    Attributes
    ----------
    records : list of Record
        What was graded, or kept, so far.
    kept : int
        How many of these were kept.
    renewed : int
        How many of those that were kept got a new page, because the gradebook says something else now.
    seconds : dict
        Where the time went: submissions, seconds in all, and seconds by phase, those of all workers added up.
    """

    def __init__(
        self,
        course: Course,
        exercises: Sequence[Exercise],
        submitted: Path,
        jobs: int = 0,
        force: bool = False,
        redraw: bool = False,
        pending: bool = False,
        pages: bool = True,
        hide: Sequence[Path] = (),
    ):
        self.timer = PhaseTimer()
        if not submitted.is_dir():
            raise UserError(f"There is no folder {submitted}. Name the one with the submissions: --submitted DIR")
        self.course, self.exercises, self.submitted, self.jobs = course, exercises, submitted.resolve(), jobs
        self.force, self.redraw, self.pages = force or pending, redraw, pages
        # What takes long to load begins now, in other processes: workers here, guests when it is known how they run.
        backends.preload(course.root / "exercises", [exercise.name for exercise in exercises])
        self.submissions = submissions.find(exercises, self.submitted)
        self.waiting = Waiting([])
        if pending:
            self._leave_pending()
        self.used = list({item.exercise.name: item.exercise for item in self.submissions}.values())
        self.strays = [
            text.line(text.name(entry))
            for entry in sorted(os.listdir(submitted))  # noqa: PTH208 (names, whatever bytes are in them)
            if entry.lower().endswith(".ipynb") and (submitted / entry).is_file()
        ]
        limits = Limits.configured(course.config)
        self.setting = WorkerConfig(
            root=str(course.root),
            exercises=tuple(exercise.name for exercise in self.used),
            limits=limits,
            hidden=(str(course.root), str(course.into), str(self.submitted), *map(str, hide)),
            imports=submissions.imported(self.submissions, limits.notebook_mb),
        )
        self.records: list[Record] = []
        self.kept = 0
        self.renewed = 0
        self.seconds: dict[str, Any] = {}
        self._open = contextlib.ExitStack()

    def _leave_pending(self) -> None:
        """Leave of the submissions those whose points wait for what this machine has."""
        from autograder import records

        wanted = {(item.student, item.exercise.name) for item in self.submissions}
        known = records.all_of(self.course)
        self.waiting = Waiting([record for record in known if (record.student, record.assignment) in wanted])
        here = {(record.student, record.assignment) for record in self.waiting.settled_here}
        self.submissions = [item for item in self.submissions if (item.student, item.exercise.name) in here]

    def isolate(self, wanted: bool, fall_back: bool, warn: Callable[[str], None]) -> None:
        """Settle whether submissions run in a sandbox; where there can be none, refuse unless told otherwise."""
        lacks = bubblewrap.missing() if wanted else []
        if lacks and not fall_back:
            raise UserError(
                f"Submissions cannot be isolated on this machine: {'; '.join(lacks)}. "
                "Mend that, or grade at your own risk with --no-sandbox."
            )
        isolated = wanted and not lacks
        self.setting = dataclasses.replace(self.setting, sandbox=isolated)
        if not isolated:
            because = f", because {'; '.join(lacks)}" if lacks else ""
            warn(f"Without a sandbox{because}: submissions run with your rights.")
        if self.setting.uses_gpu() and (fault := gpu_fault(self.setting)):
            self.setting = dataclasses.replace(self.setting, hide_gpu=True)
            warn(f"Submissions cannot use this machine's GPU ({fault}): points for what needs one wait.")

    def __enter__(self) -> "Session":
        try:
            pool = None
            if self.setting.sandbox and self.used:
                pool = self.setting.pool()
                self._open.callback(pool.close)
                if self._is_to_grade():
                    pool.start()  # it warms up while other things are done; else with the first submission
            self._prepare(pool)
        except BaseException:
            self._open.close()
            raise
        return self

    def _is_to_grade(self) -> bool:
        """Tell, as far as a glance goes, whether anything will be graded."""
        if self.force or self.redraw:
            return True
        places = (self.course.graded(item.student, item.exercise.name) for item in self.submissions)
        return not all(place.record.exists() for place in places)

    def _prepare(self, pool: GuestPool | None) -> None:
        """Open the gradebook and make the batch; imports what takes long, while others warm up."""
        from autograder import gradebook
        from autograder.grading import batch

        batch.prepare(self.course, self.exercises, self.submissions, self.submitted)
        book = self._open.enter_context(gradebook.opened(self.course))
        for exercise in self.used:
            gradebook.register(self.course, book, exercise)
        jobs = min(self.jobs if self.jobs > 0 else cores.count(), len(self.submissions))
        self.batch = batch.Batch(
            self.course,
            gradebook.Writer(self.course, book),
            lambda: backends.Local(jobs, self.setting, pool),
            self.setting,
            batch.Options(self.force, self.redraw, self.pages),
            self.timer,
        )

    def run(self) -> Iterator[tuple[str, Record, bool]]:
        """Grade, then make pages; yield each step's name, its record, and whether that is an old one."""
        for step, record, kept in self.batch.run(self.submissions):
            if step == "graded":
                self.records.append(record)
                self.kept += kept
            else:
                self.renewed += kept
            yield step, record, kept

    def __exit__(self, *error: object) -> None:
        self._open.close()
        self.seconds = self.timer.summary(len(self.records) - self.kept)
        self.seconds["phases"] = dict(sorted(self.timer.seconds.items(), key=lambda item: -item[1]))

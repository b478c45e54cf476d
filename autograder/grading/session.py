"""One `grade` command: what is graded, where guests come from, the open gradebook, and what came of it."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder import text
from autograder.course import Course, Exercise, UserError
from autograder.grading import backends, submissions
from autograder.grading.setting import Setting
from autograder.limits import Limits
from autograder.results import Record
from autograder.sandbox import bubblewrap


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
    force, redraw : bool
        Whether to grade again what has a grade that holds, and whether with inputs drawn anew.

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
    ):
        self.began = time.perf_counter()
        if not submitted.is_dir():
            raise UserError(f"There is no folder {submitted}. Name the one with the submissions: --submitted DIR")
        self.course, self.exercises, self.submitted, self.jobs = course, exercises, submitted.resolve(), jobs
        self.force, self.redraw = force, redraw
        # What takes long to load begins now, in other processes: workers here, guests when it is known how they run.
        backends.preload(course.root / "exercises", [exercise.name for exercise in exercises])
        self.submissions = submissions.find(exercises, self.submitted)
        self.used = list({item.exercise.name: item.exercise for item in self.submissions}.values())
        self.strays = [
            text.line(text.name(entry))
            for entry in sorted(os.listdir(submitted))
            if entry.lower().endswith(".ipynb") and (submitted / entry).is_file()
        ]
        limits = Limits(config=course.config).plain()
        self.setting = Setting(
            root=str(course.root),
            exercises=tuple(exercise.name for exercise in self.used),
            limits=limits,
            hidden=(str(course.root), str(course.into), str(self.submitted)),
            imports=submissions.imported(self.submissions, limits["notebook_mb"]),
        )
        self.records: list[Record] = []
        self.kept = 0
        self.renewed = 0
        self.seconds: dict[str, Any] = {}
        self._open = contextlib.ExitStack()

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

    def __enter__(self) -> "Session":
        try:
            nursery = None
            if self.setting.sandbox and self.used:
                nursery = self.setting.guests()
                self._open.callback(nursery.close)
                if self._is_to_grade():
                    nursery.start()  # it warms up while other things are done; else with the first submission
            self._prepare(nursery)
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

    def _prepare(self, nursery: Any) -> None:
        """Open the gradebook and make the batch; imports what takes long, while others warm up."""
        from autograder import gradebook
        from autograder.grading import batch

        batch.prepare(self.course, self.exercises, self.submissions, self.submitted)
        book = self._open.enter_context(gradebook.opened(self.course))
        for exercise in self.used:
            gradebook.register(self.course, book, exercise)
        jobs = min(self.jobs if self.jobs > 0 else len(os.sched_getaffinity(0)), len(self.submissions))
        self.batch = batch.Batch(
            self.course,
            gradebook.Writer(self.course, book),
            lambda: backends.Local(jobs, self.setting, nursery),
            self.setting,
            batch.Options(self.force, self.redraw),
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
        phases = dict(sorted(self.batch.seconds.items(), key=lambda item: -item[1]))
        wall = time.perf_counter() - self.began
        self.seconds = {"submissions": len(self.records) - self.kept, "wall": wall, "phases": phases}

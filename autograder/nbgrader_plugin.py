"""The engine for nbgrader's own commands: four classes, named in `nbgrader_config.py`.

`Run` replaces what nbgrader's `autograde` does before and while it runs a notebook. Points and
comments are left to nbgrader's own preprocessor, which runs afterwards: `Grades` is this one with
pending points. `LatePenalties` replaces its preprocessor for late work. `Page` is what nbgrader's
`generate_feedback` writes.
"""

import atexit
import functools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import Exporter
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from nbgrader.utils import is_grade
from traitlets import Bool
from traitlets.config import Config

from autograder.checking import words
from autograder.course import archive, cells, seeds
from autograder.course.config import Course, Exercise, UserError, check_limits
from autograder.course.limits import Limits
from autograder.feedback import page
from autograder.grades import gradebook
from autograder.grades.records import record_of
from autograder.grades.results import Disclosure, Kind
from autograder.grading.recompute import disclosure, fingerprints
from autograder.grading.submissions import Submission, notebooks_in
from autograder.grading.worker import Worker
from autograder.grading.worker_config import WorkerConfig
from autograder.sandbox import bubblewrap


class Run(NbGraderPreprocessor):
    """Grades a submission: restores it, runs its cells in a guest and its checks in the judge."""

    sandbox = Bool(
        True, help="Whether guests are isolated; if not, submissions run with your permissions."
    ).tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Return the graded notebook: outputs, an outcome in each check cell, a head that says
        what happened.
        """
        course = _course(self.config)
        names = resources["nbgrader"]
        exercise = course.exercises([names["assignment"]])[0]
        lacks = _lacks() if self.sandbox else []
        if lacks:
            raise UserError(
                f"Submissions cannot be isolated on this machine: {'; '.join(lacks)}. "
                "Fix that, or set c.Run.sandbox = False at your own risk."
            )
        worker = _worker(exercise, self.sandbox, _limits(self.config))
        limits = worker.limits[exercise.name]
        unit = Submission(names["student"], exercise, _submitted(self.config, names)).read(limits)
        # An unchanged submission keeps the seed of its grade, as with `grade`.
        record = record_of(course, unit.student, unit.assignment)
        graded = record.seed if record and record.submission_digest == unit.digest else None
        drawn = seeds.Seeds(course).for_submission(unit.assignment, unit.digest, graded)
        unit.seed, unit.guest_seed = drawn
        outcome = worker.grade(unit)
        # nbgrader reports the error, and goes on with the next submission: this one has no grade.
        if outcome.kind == Kind.INFRASTRUCTURE:
            raise UserError(str(outcome.reason))
        return nbformat.from_dict(json.loads(outcome.notebook)), resources


class Grades(SaveAutoGrades):
    """Saves points and comments as nbgrader does; pending points are marked, as `grade` does."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        """Save a cell's points."""
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        report = cells.report_of(cell) if is_grade(cell) else None
        if report and report.get("pending"):
            grade = self.gradebook.find_grade(
                cell.metadata.nbgrader.grade_id,
                self.notebook_id,
                self.assignment_id,
                self.student_id,
            )
            grade.needs_manual_grade = True
            self.gradebook.db.commit()
        return cell, resources


class LatePenalties(NbGraderPreprocessor):
    """Saves the late penalty as `grade` does: with `deadlines.toml`, and with free days."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Return both unchanged."""
        names = resources["nbgrader"]
        # The gradebook of this run, which nbgrader's --db may name.
        course = replace(_course(self.config), db=names["db_url"])
        with gradebook.opened(course) as book:
            writer = gradebook.Writer(course, book)
            writer.set_dates()
            writer.penalize(names["assignment"], names["student"])
        return nb, resources


class Page(Exporter):
    """The feedback page of a graded notebook: the one that `python -m autograder grade` writes."""

    file_extension = ".html"
    output_mimetype = "text/html"

    def from_notebook_node(  # type: ignore[override]  # as with nbconvert's own exporters of text
        self, nb: Any, resources: Any = None, **more: Any
    ) -> tuple[str, Any]:
        """Return the page, with the submission's data from the gradebook, and nbconvert's
        resources.
        """
        nb, resources = super().from_notebook_node(nb, resources, **more)
        names = resources["nbgrader"]
        course = replace(_course(self.config), db=names["db_url"])
        with gradebook.opened(course) as book:
            stored = gradebook.Writer(course, book).read(names["assignment"], names["student"])
        if stored is None:
            raise UserError(f"{names['student']} has no grade for {names['assignment']} yet.")
        stored.disclosure = self._disclosure(course, names)
        most_mb = _limits(self.config).graded_mb
        locales = archive.locales(Exercise(names["assignment"], course.root))
        with words.use(words.language_of(nb), locales):
            html = page.render(
                nb,
                stored,
                assignment=names["assignment"],
                student=names["student"],
                most_mb=most_mb,
            )
        return html, resources

    def _disclosure(self, course: Course, names: Any) -> Disclosure | None:
        """Return what the page shows of the draws, if these are public and the graded submission
        is still there.
        """
        exercise = Exercise(names["assignment"], course.root)
        record = record_of(course, names["student"], exercise.name)
        if record is None or exercise.name not in seeds.revealed_keys(course.revealed):
            return None
        limits = replace(_limits(self.config), **exercise.settings.limits)
        unit = Submission(names["student"], exercise, _submitted(self.config, names)).read(limits)
        return disclosure(seeds.Seeds(course), record, fingerprints(unit))


def under_its_name(assignment: str, student: str, notebooks: list[str]) -> None:
    """Also copy a submission's notebook to its exercise's name, the only one that nbgrader knows.

    nbgrader calls this in the course's folder, before it checks which of the `notebooks` it knows.
    """
    folder = Path(notebooks[0]).parent
    exercise = Exercise(assignment, Path.cwd())
    wanted = folder / exercise.notebook.name
    if not wanted.exists():
        # A student may have submitted several editions of the notebook.
        newest = max(notebooks_in(folder, exercise), key=lambda path: path.stat().st_mtime)
        shutil.copy2(newest, wanted)
    notebooks[:] = [str(wanted)]


def _course(config: Config) -> Course:
    return Course(
        root=Path(config.CourseDirectory.get("root") or Path.cwd()), output_folder=Path.cwd()
    )


def _limits(config: Config) -> Limits:
    """Return the configured limits; raise `UserError` for one that is not valid."""
    check_limits(config)
    return Limits.configured(config)


def _submitted(config: Config, names: Any) -> Path:
    """Return the folder of a submission, according to nbgrader's configuration."""
    directories = CourseDirectory(config=config)
    folder = directories.submitted_directory
    return Path(directories.format_path(folder, names["student"], names["assignment"]))


@functools.cache
def _lacks() -> list[str]:
    return bubblewrap.missing()


_workers: dict[tuple[Any, ...], Worker] = {}


def _worker(exercise: Exercise, isolated: bool, limits: Limits) -> Worker:
    """Return the one worker of this process for an exercise: nbgrader makes a preprocessor for
    every submission.
    """
    key = (exercise, isolated, limits)
    if key not in _workers:
        close()  # nbgrader grades one exercise after another: a warm parent for each would add up
        course = Course(root=exercise.root)
        _workers[key] = Worker(WorkerConfig.for_course(course, [exercise], limits, isolated))
    return _workers[key]


@atexit.register
def close() -> None:
    """End the worker there is, and its warm parent."""
    while _workers:
        _workers.popitem()[1].close()

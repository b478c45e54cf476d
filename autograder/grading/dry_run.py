"""`grade --dry-run`: everything that grading does, on a copy of what grades are kept in."""

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autograder.course import deadlines
from autograder.course.config import Course
from autograder.grades import records
from autograder.grades.results import Record


@contextlib.contextmanager
def copied_course(course: Course) -> Iterator[Course]:
    """Make a course whose grades go into a folder for the time being, and begin with those that
    this one has.

    Raises
    ------
    UserError
        If its gradebook cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="dry-run-") as folder:
        copied = dataclasses.replace(
            course, output_folder=Path(folder), db=f"sqlite:///{folder}/gradebook.db"
        )
        for file, copy in (
            (course.secret, copied.secret),
            (course.revealed, copied.revealed),
            (deadlines.path_of(course), deadlines.path_of(copied)),
        ):
            if file.exists():
                shutil.copy2(file, copy)
        if course.has_gradebook:
            from autograder.grades import gradebook  # nbgrader takes seconds to load

            gradebook.copy(course.db_url, copied.db_url)
        for record in course.autograded.glob("*/*/grade.json"):
            link = copied.autograded / record.relative_to(course.autograded)
            link.parent.mkdir(parents=True)
            # Records are replaced, never changed: a new one takes the place of the link.
            link.symlink_to(record)
        yield copied


def current_records(course: Course) -> dict[tuple[str, str], Record]:
    """Return the records that a course has now, by student and exercise."""
    return {(record.student, record.assignment): record for record in records.all_of(course)}

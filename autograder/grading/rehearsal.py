"""`grade --dry-run`: everything that grading does, on a copy of what grades are kept in."""

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import create_engine, insert, select
from sqlalchemy.exc import SQLAlchemyError

from autograder import records
from autograder.course import Course, UserError
from autograder.results import Record


@contextlib.contextmanager
def copied(course: Course) -> Iterator[Course]:
    """Make a course whose grades go into a folder for the time being, and begin with those that this one has.

    Raises
    ------
    UserError
        If its gradebook cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        own = dataclasses.replace(course, into=Path(folder), db="")
        if course.secret.exists():
            shutil.copy2(course.secret, own.secret)
        if course.db or course.gradebook.exists():
            _copy_gradebook(course, own)
        for record in course.autograded.glob("*/*/grade.json"):
            link = own.autograded / record.relative_to(course.autograded)
            link.parent.mkdir(parents=True)
            link.symlink_to(record)  # a new record takes the link's place, and leaves what it leads to
        yield own


def _copy_gradebook(course: Course, own: Course) -> None:
    """Copy all rows, from whatever database."""
    from nbgrader.api import Base, Gradebook

    from autograder import gradebook

    with gradebook.newest_schema(), Gradebook(own.db_url, course.course_id):
        pass
    theirs, ours = create_engine(course.db_url), create_engine(own.db_url)
    try:
        with theirs.connect() as source, ours.begin() as target:
            for table in Base.metadata.sorted_tables:
                target.execute(table.delete())
            for table in Base.metadata.sorted_tables:
                rows = [dict(row) for row in source.execute(select(table)).mappings()]
                if rows:
                    target.execute(insert(table), rows)
    except SQLAlchemyError as error:
        raise UserError(f"The gradebook {course.db_url} cannot be read: {error.args[0]}.") from error
    finally:
        theirs.dispose()
        ours.dispose()


def before(course: Course) -> dict[tuple[str, str], Record]:
    """Return the records that a course has now, by student and exercise."""
    return {(record.student, record.assignment): record for record in records.all_of(course)}

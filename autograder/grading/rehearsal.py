"""`grade --dry-run`: everything that grading does, on a copy of what grades are kept in, and what it would change."""

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder import records
from autograder.checking import Status
from autograder.course import Course
from autograder.results import CellResult, Record


@dataclass(frozen=True)
class Change:
    """A grade that would be another: the record before, None where there was none, and after."""

    before: Record | None
    after: Record

    @property
    def difference(self) -> float:
        """The points gained, or lost where it is negative."""
        return round(self.after.score - (self.before.score if self.before else 0.0), 4)

    def through(self) -> list[tuple[str, str]]:
        """Return the checks and cells that come out otherwise, each with how: `failed → passed`."""
        earlier = self.before.cells if self.before else {}
        found = []
        for name, cell in self.after.cells.items():
            then = earlier.get(name)
            checks = _differing(then, cell)
            found += checks
            if not checks and then and then.points != cell.points:
                found.append((cell.subject or name, f"{then.points:g} → {cell.points:g}"))
        return found


def _differing(then: CellResult | None, now: CellResult) -> list[tuple[str, str]]:
    status = {check.name: check.status for check in then.checks} if then else {}
    found = []
    for check in now.checks:
        was = status.pop(check.name, None)
        if then and was != check.status:
            found.append((check.name, f"{was.value if was else 'new'} → {check.status.value}"))
    gone = [(name, f"{was.value} → gone") for name, was in status.items() if was != Status.PASSED or now.checks]
    return found + gone


def changes(before: dict[tuple[str, str], Record], after: list[Record]) -> list[Change]:
    """Return the grades that would be new or other: the largest loss first, and last what is new."""
    found = [Change(before.get((record.student, record.assignment)), record) for record in after]
    other = [
        change
        for change in found
        if change.before is None
        or change.difference
        or change.before.pending != change.after.pending
        or change.before.kind != change.after.kind
    ]
    return sorted(
        other,
        key=lambda change: (change.before is None, change.difference, change.after.student, change.after.assignment),
    )


@contextlib.contextmanager
def copied(course: Course) -> Iterator[Course]:
    """Make a course whose grades go into a folder for the time being, and begin with those that this one has.

    Raises
    ------
    UserError
        If its gradebook cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        own = dataclasses.replace(course, into=Path(folder), db=f"sqlite:///{folder}/gradebook.db")
        if course.secret.exists():
            shutil.copy2(course.secret, own.secret)
        if course.has_gradebook:
            from autograder import gradebook  # nbgrader takes seconds to load

            gradebook.copy(course.db_url, own.db_url)
        for record in course.autograded.glob("*/*/grade.json"):
            link = own.autograded / record.relative_to(course.autograded)
            link.parent.mkdir(parents=True)
            link.symlink_to(record)  # a new record takes the link's place, and leaves what it leads to
        yield own


def before(course: Course) -> dict[tuple[str, str], Record]:
    """Return the records that a course has now, by student and exercise."""
    return {(record.student, record.assignment): record for record in records.all_of(course)}

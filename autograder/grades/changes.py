"""Grades before and after: whose changed, by how much, because of which check, and the sums for
a class.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from autograder.checking import Status
from autograder.checking.words import Message, counted, joined, translated
from autograder.grades import reasons, records
from autograder.grades.results import CellResult, Kind, Record

LEAST, LEAST_OF_GRADE = 0.005, 0.0005
"""The least points that count as a change of a step, and of a grade: points are rounded to
hundredths, and a grade is the sum of several.
"""
ARROW = " → "
LATE = reasons.LATE.text
BY_HAND = Message("points by hand").text
NEW = Message("new").text
GONE = Message("gone").text
RESUBMITTED = Message("resubmitted")


class Step(NamedTuple):
    """A check, a cell or something else with a new result, how it changed, and the points gained
    or lost.
    """

    name: str
    how: str
    points: float

    def __str__(self) -> str:
        how = ARROW.join(translated(part) for part in self.how.split(ARROW))
        return (
            str(Message("{name}: {how}", name=translated(self.name), how=how))
            if how
            else translated(self.name)
        )


@dataclass(frozen=True)
class Change:
    """A changed grade: the record before, None if there was none, and after; `when` is the time
    of that grading.
    """

    before: Record | None
    after: Record
    when: str = ""

    @property
    def difference(self) -> float:
        """The points gained, or lost where it is negative."""
        return round(self.after.score - (self.before.score if self.before else 0.0), 4)

    @property
    def is_resubmission(self) -> bool:
        """Whether something else was submitted, so that no check need have changed."""
        return (
            self.before is not None
            and self.before.submission_digest != self.after.submission_digest
        )

    def steps(self) -> list[Step]:
        """Return what changed; the points of these steps sum to the difference."""
        if self.before is None:
            return []
        if self.before.kind.ungraded or self.after.kind.ungraded:
            how = f"{self.before.kind}{ARROW}{self.after.kind}"
            return [Step(self.after.kind, how, self.difference)]
        steps = []
        for name in dict.fromkeys([*self.after.cells, *self.before.cells]):
            steps += _steps(name, self.before.cells.get(name), self.after.cells.get(name))
        late = self.before.penalty - self.after.penalty
        if late:
            how = f"−{self.before.penalty:g}{ARROW}−{self.after.penalty:g}"
            steps.append(Step(LATE, how, late))
        # All that checks and lateness do not explain comes from a person.
        rest = self.difference - sum(step.points for step in steps)
        return [*steps, Step(BY_HAND, "", rest)] if abs(rest) > LEAST else steps

    def causes(self) -> list[str]:
        """Return what changed, in words."""
        resubmitted = [str(RESUBMITTED)] if self.is_resubmission else []
        return resubmitted + [str(step) for step in self.steps()]


def _steps(name: str, before: CellResult | None, after: CellResult | None) -> list[Step]:
    """Return what changed in one cell, by check if its checks ran both times."""
    had = before.points if before else 0.0
    has = after.points if after else 0.0
    subject = (after and after.subject) or (before and before.subject) or name
    if not (before and after and before.checks and after.checks):
        if abs(has - had) <= LEAST:
            return []
        left = f"{had:g}" if before else NEW
        right = f"{has:g}" if after else GONE
        return [Step(subject, f"{left}{ARROW}{right}", has - had)]
    earned_before, earned_after = _earned(before), _earned(after)
    steps = []
    for check in dict.fromkeys([*earned_after, *earned_before]):
        old_status, old_points = earned_before.get(check, (NEW, 0.0))
        status, points = earned_after.get(check, (GONE, 0.0))
        if status != old_status:
            steps.append(Step(check, f"{old_status}{ARROW}{status}", points - old_points))
    rest = has - had - sum(step.points for step in steps)
    if abs(rest) <= LEAST:
        return steps
    only_on_one_side = earned_before.keys() ^ earned_after.keys()
    # With the same checks, their weights or the cell's points have changed.
    if not only_on_one_side:
        return [*steps, Step(subject, f"{had:g}{ARROW}{has:g}", rest)]
    # A new check makes the others worth less, and a removed one more: the rest is its effect.
    share = rest / len(only_on_one_side)
    return [
        step._replace(points=step.points + share) if step.name in only_on_one_side else step
        for step in steps
    ]


def _earned(cell: CellResult) -> dict[str, tuple[str, float]]:
    """Return the status of each check of a cell, and the points that it earned."""
    total = sum(check.weight for check in cell.checks) or 1
    return {
        check.name: (
            check.status.value,
            cell.max_points * check.weight / total if check.status == Status.PASSED else 0.0,
        )
        for check in cell.checks
    }


def _differ(before: Record, after: Record) -> bool:
    return (
        abs(before.score - after.score) > LEAST_OF_GRADE
        or before.pending != after.pending
        or before.kind != after.kind
    )


def between(before: dict[tuple[str, str], Record], after: Iterable[Record]) -> list[Change]:
    """Return the grades that changed or are new: the largest loss first, new ones last.

    A grading that our own fault interrupted gave no grade.
    """
    changes = []
    for record in after:
        if record.kind == Kind.INFRASTRUCTURE:
            continue
        earlier = before.get((record.student, record.assignment))
        if earlier is None or _differ(earlier, record):
            changes.append(Change(earlier, record))
    return sorted(
        changes,
        key=lambda change: (
            change.before is None,
            change.difference,
            change.after.student,
            change.after.assignment,
        ),
    )


def latest(record: Record) -> Change | None:
    """Return the last change of a submission's grade, from its history; None if it never changed.

    A grading that our own fault interrupted gave no grade.
    """
    if not record.history:
        return None
    parsed = filter(None, map(records.parsed, record.history))
    gradings = [grading for grading in parsed if grading.kind != Kind.INFRASTRUCTURE]
    for before, after in reversed(list(pairwise([*gradings, record]))):
        if _differ(before, after):
            # `after` is a summary of an older grading. Nothing has changed since, and `record`
            # has all details.
            return Change(before, record, after.graded_at)
    return None


class Sum(NamedTuple):
    """The effect of one check, or of all: how many students gain and lose how many points."""

    name: str
    gain: int
    gained: float
    lose: int
    lost: float

    def __str__(self) -> str:
        parts: list[str | Message] = []
        if self.gain:
            points = _points(self.gained)
            parts.append(
                counted(
                    "{count} gains {points}",
                    "{count} gain {points} in all",
                    self.gain,
                    points=points,
                )
            )
        if self.lose:
            points = _points(self.lost)
            parts.append(
                counted(
                    "{count} loses {points}",
                    "{count} lose {points} in all",
                    self.lose,
                    points=points,
                )
            )
        effect = joined("{left}, {right}", parts) if parts else Message("no one gains or loses")
        return str(Message("{name}: {effect}", name=self.name, effect=effect))


def _points(points: float) -> Message:
    number = f"{round(points, 2):g}"
    return (
        Message("{number} point", number=number)
        if number == "1"
        else Message("{number} points", number=number)
    )


def _sum(name: str, points: Sequence[float]) -> Sum:
    gained, lost = [p for p in points if p > LEAST], [-p for p in points if p < -LEAST]
    return Sum(name, len(gained), sum(gained), len(lost), sum(lost))


def sums(changes: Iterable[Change]) -> list[Sum]:
    """Return the sums of a class's changed grades, in words: in total, for resubmissions, and for
    each check.

    Checks count where the submission is the same. The one that costs the most points is first.
    """
    changes = [change for change in changes if change.before]
    totals = [_sum(str(Message("all")), [change.difference for change in changes])]
    if resubmitted := [change.difference for change in changes if change.is_resubmission]:
        totals.append(_sum(str(RESUBMITTED), resubmitted))
    # The same check may be in several exercises.
    several = len({change.after.assignment for change in changes}) > 1
    points_of: defaultdict[str, list[float]] = defaultdict(list)
    for change in changes:
        if change.is_resubmission:
            continue
        # By name first: a student with two functions that have the same check counts once.
        by_name: defaultdict[str, float] = defaultdict(float)
        for step in change.steps():
            name = translated(step.name)
            by_name[f"{change.after.assignment} {name}" if several else name] += step.points
        for name, points in by_name.items():
            points_of[name].append(points)
    checks = [_sum(name, points) for name, points in points_of.items()]
    checks = [total for total in checks if total.gain or total.lose]
    return totals + sorted(checks, key=lambda total: (total.gained - total.lost, total.name))

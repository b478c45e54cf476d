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

LEAST = 0.005
"""Points are rounded to hundredths; less than half of one counts as zero."""
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
    def anew(self) -> bool:
        """Whether something else was submitted, so that no check need have changed."""
        return (
            self.before is not None
            and self.before.submission_digest != self.after.submission_digest
        )

    def through(self) -> list[Step]:
        """Return what changed; the points of these steps sum to the difference."""
        if self.before is None:
            return []
        if self.before.kind.ungraded or self.after.kind.ungraded:
            return [
                Step(self.after.kind, f"{self.before.kind} → {self.after.kind}", self.difference)
            ]
        steps = []
        for name in dict.fromkeys([*self.after.cells, *self.before.cells]):
            steps += _steps(name, self.before.cells.get(name), self.after.cells.get(name))
        late = self.before.penalty - self.after.penalty
        if late:
            steps.append(Step(LATE, f"−{self.before.penalty:g} → −{self.after.penalty:g}", late))
        # All that checks and lateness do not explain comes from a person.
        rest = self.difference - sum(step.points for step in steps)
        return [*steps, Step(BY_HAND, "", rest)] if abs(rest) > LEAST else steps


def _steps(name: str, then: CellResult | None, now: CellResult | None) -> list[Step]:
    """Return what changed in one cell, by check if its checks ran both times."""
    was = then.points if then else 0.0
    is_now = now.points if now else 0.0
    subject = (now and now.subject) or (then and then.subject) or name
    if not (then and now and then.checks and now.checks):
        if abs(is_now - was) <= LEAST:
            return []
        how = f"{f'{was:g}' if then else NEW}{ARROW}{f'{is_now:g}' if now else GONE}"
        return [Step(subject, how, is_now - was)]
    # `unlike` says of each step whether its check was there only once, before or after.
    before, after = _earned(then), _earned(now)
    steps, unlike = [], []
    for check in dict.fromkeys([*after, *before]):
        status, points = after.get(check, (GONE, 0.0))
        earlier, had = before.get(check, (NEW, 0.0))
        if status != earlier:
            steps.append(Step(check, f"{earlier} → {status}", points - had))
            unlike.append(check not in before or check not in after)
    rest = is_now - was - sum(step.points for step in steps)
    if abs(rest) <= LEAST:
        return steps
    # With the same checks, their weights or the cell's points have changed.
    if not any(unlike):
        return [*steps, Step(subject, f"{was:g} → {is_now:g}", rest)]
    # A new check makes the others worth less, and a removed one more: the rest is its effect.
    share = rest / sum(unlike)
    return [
        step._replace(points=step.points + share * other)
        for step, other in zip(steps, unlike, strict=True)
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
        abs(before.score - after.score) > LEAST / 10
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
    if anew := [change.difference for change in changes if change.anew]:
        totals.append(_sum(str(RESUBMITTED), anew))
    # The same check may be in several exercises.
    several = len({change.after.assignment for change in changes}) > 1
    through: defaultdict[str, list[float]] = defaultdict(list)
    for change in changes:
        # By name first: a student with two functions that have the same check counts once.
        by_name: defaultdict[str, float] = defaultdict(float)
        for step in () if change.anew else change.through():
            name = translated(step.name)
            by_name[f"{change.after.assignment} {name}" if several else name] += step.points
        for name, points in by_name.items():
            through[name].append(points)
    checks = [_sum(name, points) for name, points in through.items()]
    checks = [total for total in checks if total.gain or total.lose]
    return totals + sorted(checks, key=lambda total: (total.gained - total.lost, total.name))

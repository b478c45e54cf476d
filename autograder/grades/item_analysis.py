"""Item analysis: which checks separate strong from weak work, how many submissions a pass took, and
another class.

A check is known by its cell and its name. Advice is worth no points, and is left out.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autograder.checking import Result, Status
from autograder.checking.words import shown
from autograder.grades import records
from autograder.grades.results import CellResult, Kind, Record

LEAST_STUDENTS = 20
"""For how many students a check has to be run, so that its discrimination means something."""
LEAST_EACH = 3
"""How many of them have to pass it, and how many to fail it: otherwise the number is about one
or two people.
"""
LOW = 0.2
"""A discrimination below this one is pointed out.

It is a rule of thumb: R. L. Ebel, *Essentials of Educational Measurement* (1972), calls items below
0.2 poor, and means the difference between the best and the worst 27%.
"""
DIGITS = 6
"""Shares of points are compared to this many digits: sums of the same points in another order
differ in the last.
"""


class Item(NamedTuple):
    """A check as a report names it."""

    function: str
    check: str
    title: str


class Discrimination(NamedTuple):
    """How well a check separates strong from weak work, and from how many students that is
    known.
    """

    item: Item
    correlation: float
    passed: int
    students: int


class Attempts(NamedTuple):
    """The median number of submissions until a check passed, and from how many students that is
    known.
    """

    item: Item
    median: float
    students: int


class Tally(NamedTuple):
    """How many students failed a check, of those for whom it was run."""

    failed: int
    run: int

    @property
    def share(self) -> float | None:
        """The share of students who failed it; None if it was run for no one."""
        return self.failed / self.run if self.run else None


class Mean(NamedTuple):
    """The mean share of points of an exercise, and the number of submissions."""

    share: float
    submissions: int


class Pair(NamedTuple):
    """A check in this class and in the other one; None where there is no such check."""

    item: Item
    this_class: Tally | None
    other_class: Tally | None

    @property
    def difference(self) -> float | None:
        """By how much the share of students who fail it is higher here; None if one of the
        shares is unknown.
        """
        share = self.this_class and self.this_class.share
        other_share = self.other_class and self.other_class.share
        return None if share is None or other_share is None else share - other_share


@dataclass(frozen=True)
class Comparison:
    """An exercise in this class and in another one; first the check with the largest increase of
    failures.
    """

    this_class: Mean
    other_class: Mean
    checks: list[Pair]

    @property
    def difference(self) -> float:
        """By how much the mean share of points is higher here."""
        return self.this_class.share - self.other_class.share


Key = tuple[str, str]


def discriminations(graded: Sequence[Record]) -> list[Discrimination]:
    """Return the discrimination of each check of an exercise, the lowest first.

    It is the corrected item-total correlation: Pearson's correlation between passing the check (1
    or 0) and the share of the exercise's other points, with the check's own points taken out of the
    total, as otherwise a check would correlate with itself (S. Henrysson, "Correction of item-total
    correlations in item analysis", *Psychometrika* 28 (1963), 211-218). Only submissions count on
    which the check was run, so a blocked or pending check is no failure. Penalties for late work
    are no part of the total.

    A check has none if it was run for fewer than `LEAST_STUDENTS`, if fewer than `LEAST_EACH`
    passed or failed it, or if all have the same share of the other points.
    """
    items = _items(graded)
    results: dict[Key, list[tuple[bool, float]]] = {key: [] for key in items}
    for record in graded:
        for key, passes, share in _with_rest(record):
            results[key].append((passes, round(share, DIGITS)))
    computed = []
    for key, pairs in results.items():
        passed = sum(passes for passes, _ in pairs)
        enough = len(pairs) >= LEAST_STUDENTS and min(passed, len(pairs) - passed) >= LEAST_EACH
        if enough and len({share for _, share in pairs}) > 1:
            correlation = statistics.correlation(*zip(*pairs, strict=True))
            rounded = round(correlation, 2) + 0.0  # 0.0 instead of -0.0
            computed.append(Discrimination(items[key], rounded, passed, len(pairs)))
    return sorted(computed, key=lambda entry: entry.correlation)


def attempts(graded: Iterable[Record]) -> list[Attempts]:
    """Return how many submissions it took to pass each check, the most first.

    Counted are students who passed the check in the end and whose submissions were graded with it
    more than once. A submission graded several times counts once, with its last grading; what our
    own fault interrupted does not count.
    """
    graded = list(graded)
    items = _items(graded)
    took: dict[Key, list[int]] = {}
    for record in graded:
        submissions = _submissions(record)
        # A class in which each student submits once passes everything at the first attempt.
        if len(submissions) == 1:
            continue
        graded_with = [_statuses(submission) for submission in submissions]
        for key, _, check in _checks(record):
            # Earlier submissions may be from before the check was added to the exercise.
            first = next(number for number, statuses in enumerate(graded_with) if key in statuses)
            history = [statuses.get(key) for statuses in graded_with[first:]]
            if check.status == Status.PASSED and len(history) > 1:
                took.setdefault(key, []).append(history.index(Status.PASSED) + 1)
    counted = [
        Attempts(items[key], statistics.median(counts), len(counts)) for key, counts in took.items()
    ]
    return sorted(counted, key=lambda entry: -entry.median)


def compared(this_class: Sequence[Record], other_class: Sequence[Record]) -> Comparison:
    """Return the comparison of an exercise in this class with the same exercise in another one."""
    items = {**_items(other_class), **_items(this_class)}
    ours, theirs = _tallies(this_class), _tallies(other_class)
    pairs = [Pair(item, ours.get(key), theirs.get(key)) for key, item in items.items()]
    return Comparison(_mean(this_class), _mean(other_class), sorted(pairs, key=_by_change))


def _by_change(pair: Pair) -> tuple[int, float]:
    """Sort by the increase of failures; what is only in this class is next to last, what is only
    there is last.
    """
    if pair.this_class is None or pair.other_class is None:
        return (2 if pair.this_class else 3), 0.0
    return (1, 0.0) if pair.difference is None else (0, -pair.difference)


def _checks(record: Record) -> Iterator[tuple[Key, CellResult, Result]]:
    """Yield the checks of a submission that are worth points, or would be in a graded cell."""
    for name, cell in record.cells.items():
        for check in cell.checks:
            if check.weight:
                yield (name, check.name), cell, check


def _statuses(record: Record) -> dict[Key, Status]:
    return {key: check.status for key, _, check in _checks(record)}


def _items(graded: Iterable[Record]) -> dict[Key, Item]:
    """Return all checks of an exercise, in the order of the notebook."""
    return {
        key: Item(cell.subject, check.name, shown(check.title))
        for record in graded
        for key, cell, check in _checks(record)
    }


def _run(check: Result) -> bool:
    return check.status in (Status.PASSED, Status.FAILED)


def _tallies(graded: Iterable[Record]) -> dict[Key, Tally]:
    tallies: dict[Key, Tally] = {}
    for record in graded:
        for key, _, check in _checks(record):
            failed, run = tallies.get(key, (0, 0))
            tallies[key] = Tally(failed + (check.status == Status.FAILED), run + _run(check))
    return tallies


def _mean(graded: Sequence[Record]) -> Mean:
    return Mean(
        statistics.mean(record.score / (record.max_score or 1) for record in graded), len(graded)
    )


def _with_rest(record: Record) -> Iterator[tuple[Key, bool, float]]:
    """Yield each check that was run, whether it passed, and the share of the exercise's other
    points.

    Points that are pending, or that a person still has to give, are not in the share. If a person
    gave the points of a check's cell, nobody knows the part of one check, so the whole cell is left
    out.
    """
    decided = {name: _decided(cell) for name, cell in record.cells.items()}
    earned = sum(points for points, _ in decided.values())
    possible = sum(most for _, most in decided.values())
    for name, cell in record.cells.items():
        total = sum(check.weight for check in cell.checks) or 1
        for check in cell.checks:
            if not (check.weight and _run(check)):
                continue
            passed = check.status == Status.PASSED
            worth = cell.max_points * check.weight / total
            whole = cell.is_graded_by_hand or cell.manual_points is not None
            own, own_most = decided[name] if whole else (passed * worth, worth)
            # Without other points, there is nothing to compare the check with.
            if possible - own_most > 10**-DIGITS:
                yield (name, check.name), passed, (earned - own) / (possible - own_most)


def _decided(cell: CellResult) -> tuple[float, float]:
    """Return the points of a cell that are earned, and those that are earned or lost."""
    if cell.manual_points is not None:
        return cell.manual_points, cell.max_points
    if cell.is_graded_by_hand and cell.waits:
        return 0.0, 0.0
    return cell.points, cell.max_points - cell.pending


def _submissions(record: Record) -> list[Record]:
    """Return the last grading of each of a student's submissions, in the order in which they
    were submitted.
    """
    # Most histories are of one submission that was graded again: they need not be parsed.
    if all(
        isinstance(raw, dict) and raw.get("submission") == record.submission_digest
        for raw in record.history
    ):
        return [record]
    earlier = (records.parsed(raw) for raw in record.history)
    last: dict[str, Record] = {}
    for grading in [*filter(None, earlier), record]:
        if grading.kind != Kind.INFRASTRUCTURE or grading is record:
            last[grading.submission_digest] = grading
    return list(last.values())

"""Tells whether the points of an answer, and the first cause that feedback names, depend on the
drawn inputs.
"""

import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring import loader, unseen

SEEDS = tuple(range(1, 13))
CLOSE = 0.01
"""The share of a function's points by which two grades of the same answer may differ."""


@dataclass(frozen=True)
class Drawn:
    """The results of one answer under several seeds.

    Attributes
    ----------
    subject, name : str
        The function under test, and the name or description of the answer.
    shares : list of float
        For each seed, the share of the function's points that the answer earns.
    causes : list of str
        For each seed, the first cause that feedback names; "" for none, or if causes were not asked
        for.
    """

    subject: str
    name: str
    shares: list[float]
    causes: list[str]

    @property
    def same_points(self) -> bool:
        """Whether the points are the same for each seed."""
        return max(self.shares) - min(self.shares) <= CLOSE

    @property
    def same_cause(self) -> bool:
        """Whether the first cause is the same for each seed."""
        return len(set(self.causes)) == 1


def listed(
    folder: Path, subjects: set[str], seeds: tuple[int, ...], with_causes: bool
) -> Iterator[Drawn]:
    """Yield the results of the wrong answers that an exercise lists for these functions."""
    exercise = loader.load(folder)
    for subject in exercise.subjects:
        if subject not in subjects:
            continue
        for answer in exercise.suite.listed("wrong_for", subject):
            define = functools.partial(copy.copy, answer)  # a function is its own copy
            yield _drawn(exercise, subject, answer.__name__, define, seeds, with_causes)


def written(
    folder: Path, subjects: set[str], seeds: tuple[int, ...], with_causes: bool
) -> Iterator[Drawn]:
    """Yield the results of the wrong answers that were written without sight of the lists.

    Each seed gets the answer as a notebook defines it anew: what an answer keeps from call to call
    starts empty.
    """
    exercise = loader.load(folder)
    names = unseen.as_written(exercise)
    before = dict(names)
    for answer in unseen.answers(folder.name):
        if answer.kind != "wrong" or answer.subject not in subjects:
            continue

        def define(answer: unseen.Unseen = answer) -> Any:
            names.clear()  # and not another dict: functions of the notebook look into this one
            names.update(before)
            unseen.define(answer.cell, names)
            return names[answer.subject]

        yield _drawn(exercise, answer.subject, answer.about, define, seeds, with_causes)


def _drawn(
    exercise: loader.Loaded,
    subject: str,
    name: str,
    define: Callable[[], Any],
    seeds: tuple[int, ...],
    with_causes: bool,
) -> Drawn:
    shares, causes = [], []
    for seed in seeds:
        report = exercise.suite.examine(subject, define(), 1.0, seed, diagnosis=with_causes)
        shares.append(_share(report))
        causes.append(next((result.cause for result in report.results if result.cause), ""))
    return Drawn(subject, name, shares, causes)


def _share(report: Any) -> float:
    """Return the unrounded share of the points that are earned or pending."""
    total = sum(result.weight for result in report.results) or 1.0
    earned = sum(result.weight for result in report.results if not result.status.costs_points)
    return float(earned / total)

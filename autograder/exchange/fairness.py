"""Which of the hand-ins that wait are graded next, so that no student delays another."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from autograder.exchange.state import HandInRow


@dataclass
class Choice:
    """What is done with the hand-ins that wait.

    `grade` has those to grade now, in this order; `superseded` those of which the student has a
    newer one; `limited` those beyond the student's attempts; `later` those that wait until the
    hourly limit permits them.
    """

    grade: list[HandInRow] = field(default_factory=list)
    superseded: list[HandInRow] = field(default_factory=list)
    limited: list[HandInRow] = field(default_factory=list)
    later: list[HandInRow] = field(default_factory=list)


def choose(
    waiting: Iterable[HandInRow],
    has_no_attempt_left: Callable[[HandInRow], bool],
    left_this_hour: Callable[[str], float],
) -> Choice:
    """Choose from the hand-ins that wait, in the order of their arrival.

    Parameters
    ----------
    waiting : iterable of HandInRow
    has_no_attempt_left : callable
        Tells whether a hand-in is beyond its student's attempts. It may read the hand-in.
    left_this_hour : callable
        Returns how many hand-ins of a student may still be graded in this hour.

    Returns
    -------
    Choice
        Students take turns: the first hand-in of each student comes before the second of anyone.
    """
    choice = Choice()
    newest: dict[tuple[str, str], HandInRow] = {}
    for row in waiting:
        if row.work in newest:
            choice.superseded.append(newest.pop(row.work))
        newest[row.work] = row
    turns: dict[int, list[HandInRow]] = defaultdict(list)
    taken: dict[str, int] = defaultdict(int)
    for row in newest.values():
        if taken[row.student] >= left_this_hour(row.student):
            choice.later.append(row)
        elif has_no_attempt_left(row):
            choice.limited.append(row)
        else:
            turns[taken[row.student]].append(row)
            taken[row.student] += 1
    choice.grade = [row for turn in sorted(turns) for row in turns[turn]]
    return choice

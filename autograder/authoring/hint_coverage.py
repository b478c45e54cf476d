"""How often an unlisted wrong answer gets a hint: each listed one is taken off the list in turn, and checked.

The counts are, for each function of an exercise, what the first failed check reports: a cause (another listed
answer), else a relation, else the function's own error, else how the result differs from the expected one, or none of
these.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from autograder.authoring import loader
from autograder.checking import Result
from autograder.checking.diagnosis import Diagnosis, alike
from autograder.checking.subject import attempt

SAID = ("cause", "relation", "error", "difference", "nothing")


OTHER_SEEDS = (101, 102, 103)
"""Other draws, in which an answer that is named as the cause must also do the same."""


@dataclass
class Told:
    """The feedback for a wrong answer when it is not listed: its name, which of `SAID`, and the text.

    `astray` says whether the answer that is named as the cause does something different in the same check under
    other seeds.
    """

    name: str
    said: str
    words: str
    astray: bool = False


def hints(exercise: loader.Loaded, subject: str, seed: int = 0) -> Iterator[Told]:
    """Yield the feedback that each listed wrong answer of a function gets when it is not listed."""
    remembered = functools.cache(attempt)
    diagnosis = Diagnosis(remembered)
    for wrong in exercise.suite.listed("wrong_for", subject):
        diagnosis.without = [wrong]
        report = exercise.suite.examine(subject, wrong, seed=seed, attempt=remembered, diagnosis=diagnosis)
        result = next(result for result in report.results if result.status.does_not_hold)
        if result.cause:
            yield Told(wrong.__name__, "cause", str(result.label), _is_astray(exercise, subject, wrong, result))
        elif result.relation:
            yield Told(wrong.__name__, "relation", str(result.relation))
        else:
            said = "error" if result.raised else "difference" if result.explained else "nothing"
            yield Told(wrong.__name__, said, str(result.message))


def _is_astray(exercise: loader.Loaded, subject: str, wrong: object, result: Result) -> bool:
    """Tell whether the named cause differs from a wrong answer, in the check that named it."""
    check = next(check for check in exercise.suite.of(subject) if check.__name__ == result.name)
    listed = exercise.suite.listed("wrong_for", subject)
    named = next(answer for answer in listed if answer.__name__ == result.cause)
    for seed in OTHER_SEEDS:
        made = attempt(check, wrong, seed)
        if made.failure and not alike(check, named, seed, made.calls):
            return True
    return False


def table(folder: Path) -> Table:
    """Return a table of the feedback for the listed wrong answers of an exercise, function by function."""
    exercise = loader.load(folder)
    rows = Table("function", "wrong answers", *SAID, title=folder.name)
    for subject in exercise.subjects:
        counts = Counter(told.said for told in hints(exercise, subject))
        rows.add_row(subject, *map(str, [sum(counts.values()), *(counts[said] for said in SAID)]))
    return rows

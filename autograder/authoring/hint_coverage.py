"""How often a wrong answer that is not listed is told why: each listed one is taken off the list, and examined.

Counted is, for each function of an exercise, what the first failed check says: a cause (another listed answer), else
a relation, else an error of the function's own, else what came in place of what was asked for, or none of these.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from autograder.authoring import loader
from autograder.checking.diagnosis import Diagnosis
from autograder.checking.subject import attempt

SAID = ("cause", "relation", "error", "what came", "nothing")


def hints(exercise: loader.Loaded, subject: str, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield each listed wrong answer's name, which of `SAID` it is told when it is not listed, and the words."""
    remembered = functools.cache(attempt)
    diagnosis = Diagnosis(remembered)
    for wrong in exercise.suite.listed("wrong_for", subject):
        diagnosis.without = [wrong]
        report = exercise.suite.examine(subject, wrong, seed=seed, attempt=remembered, diagnosis=diagnosis)
        result = next(result for result in report.results if result.status.does_not_hold)
        if result.cause:
            yield wrong.__name__, "cause", str(result.label)
        elif result.relation:
            yield wrong.__name__, "relation", str(result.relation)
        else:
            said = "error" if result.raised else "what came" if result.tells else "nothing"
            yield wrong.__name__, said, str(result.message)


def table(folder: Path) -> Table:
    """Return what is said of the listed wrong answers of an exercise, function by function."""
    exercise = loader.load(folder)
    rows = Table("function", "wrong answers", *SAID, title=folder.name)
    for subject in exercise.subjects:
        counts = Counter(said for _name, said, _words in hints(exercise, subject))
        rows.add_row(subject, *map(str, [sum(counts.values()), *(counts[said] for said in SAID)]))
    return rows

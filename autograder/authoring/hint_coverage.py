"""How often a wrong answer that is not listed is told why: each listed one is taken off the list, and examined.

`python -m autograder.authoring.hint_coverage NN-name` prints, for each function of an exercise, what the first failed
check says: a cause (another listed answer), else a relation, else an error of the function's own, or none of these.
"""

import functools
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

from rich.console import Console
from rich.progress import track
from rich.table import Table

from autograder.authoring import loader
from autograder.checking import suite

RAISED = "{function} raised {kind} for arguments of shape {shapes}: {error}"
SAID = ("cause", "relation", "error", "nothing")


def unlisted(exercise: loader.Loaded, subject: str, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield each listed wrong answer's name, which of `SAID` it is told when it is not listed, and the words."""
    listed = {kind: exercise.suite.listed(kind, subject) for kind in ("wrong_for", "right_for")}
    remembered: dict[str, Any] = {
        name: functools.cache(getattr(suite, name)) for name in ("_first_call", "_first_answer")
    }
    for wrong in listed["wrong_for"]:
        left = {**listed, "wrong_for": [other for other in listed["wrong_for"] if other is not wrong]}
        with (
            mock.patch.multiple(suite, **remembered),
            mock.patch.object(exercise.suite, "listed", lambda kind, subject, left=left: left[kind]),
        ):
            report = exercise.suite.examine(subject, wrong, points=1, seed=seed)
        result = next(result for result in report.results if result.status == "failed")
        if result.cause:
            yield wrong.__name__, "cause", str(result.label)
        elif result.relation:
            yield wrong.__name__, "relation", str(result.relation)
        else:
            raised = getattr(result.message, "text", "") == RAISED
            yield wrong.__name__, "error" if raised else "nothing", str(result.message)


def main(names: list[str]) -> None:
    """Print a table for each exercise that is named, or for all."""
    for folder in loader.FOLDERS:
        if names and folder.name not in names:
            continue
        exercise = loader.load(folder)
        table = Table("function", "wrong answers", *SAID, title=folder.name)
        for subject in track(exercise.subjects, folder.name, console=Console(stderr=True), transient=True):
            counts = Counter(said for _name, said, _words in unlisted(exercise, subject))
            table.add_row(subject, *map(str, [sum(counts.values()), *(counts[said] for said in SAID)]))
        Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])

"""How often an unlisted wrong answer gets a hint: each listed one is taken off the list in turn,
and checked.

The counts are, for each function of an exercise, what the first failed check reports: a cause
(another listed answer), else a relation, else the function's own error, else how the result differs
from the expected one, or none of these. Below, for each relation: for how many answers it holds
there, and for how many no other one does. A relation that is never alone is not needed.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from autograder.authoring import loader
from autograder.checking import Message, Result
from autograder.checking.diagnosis import Diagnosis, outcome_if_alike
from autograder.checking.relations import confirmed
from autograder.checking.subject import attempt

KINDS = ("cause", "relation", "error", "difference", "nothing")


OTHER_SEEDS = (101, 102, 103)
"""Other draws, in which an answer that is named as the cause must also do the same."""


@dataclass
class Feedback:
    """The feedback for a wrong answer when it is not listed: its name, which of `KINDS`, and the
    text.

    `astray` says whether the answer that is named as the cause does something different in the same
    check under other seeds. `relations` are the names of all relations that hold.
    """

    name: str
    kind: str
    words: str
    astray: bool = False
    relations: tuple[str, ...] = ()


def hints(exercise: loader.Loaded, subject: str) -> Iterator[Feedback]:
    """Yield the feedback that each listed wrong answer of a function gets when it is not listed."""
    # Each answer is compared with all others, so without this each would run many times.
    remembered = functools.cache(attempt)
    # The names of relations, by the message of the first one.
    relations_by_message: dict[str, tuple[str, ...]] = {}

    def relate_all(*mismatches: Any) -> str | Message:
        relations = list(confirmed(*mismatches))
        if not relations:
            return ""
        relations_by_message.setdefault(
            str(relations[0][1]), tuple(name for name, _message in relations)
        )
        return relations[0][1]

    diagnosis = Diagnosis(remembered, relate_all)
    for wrong in exercise.suite.listed("wrong_for", subject):
        diagnosis.without = [wrong]
        relations_by_message.clear()
        report = exercise.suite.examine(
            subject, wrong, seed=0, run_attempt=remembered, diagnosis=diagnosis
        )
        # There is one: `release` refuses a listed wrong answer that passes all checks.
        result = next(result for result in report.results if result.status.is_unmet)
        if result.cause:
            astray = _is_astray(exercise, subject, wrong, result)
            yield Feedback(wrong.__name__, "cause", str(result.label), astray)
        elif result.relation:
            text = str(result.relation)
            relations = relations_by_message.get(text, ("by the check itself",))
            yield Feedback(wrong.__name__, "relation", text, relations=relations)
        else:
            kind = "difference" if result.explained else "nothing"
            if result.raised:
                kind = "error"
            yield Feedback(wrong.__name__, kind, str(result.message))


def _is_astray(exercise: loader.Loaded, subject: str, wrong: object, result: Result) -> bool:
    """Tell whether the named cause differs from a wrong answer, in the check that named it."""
    check = next(
        check for check in exercise.suite.checks_of(subject) if check.__name__ == result.name
    )
    listed = exercise.suite.listed("wrong_for", subject)
    named = next(answer for answer in listed if answer.__name__ == result.cause)
    for seed in OTHER_SEEDS:
        first = attempt(check, wrong, seed)
        if first.failure and not outcome_if_alike(check, named, seed, first):
            return True
    return False


def table(folder: Path) -> Table:
    """Return a table of the feedback for the listed wrong answers of an exercise, function by
    function.
    """
    exercise = loader.load(folder)
    rows = Table("function", "wrong answers", *KINDS, title=folder.name)
    every, alone = Counter[str](), Counter[str]()
    for subject in exercise.subjects:
        answers = list(hints(exercise, subject))
        counts = Counter(answer.kind for answer in answers)
        numbers = [len(answers), *(counts[kind] for kind in KINDS)]
        rows.add_row(subject, *map(str, numbers))
        every.update(name for answer in answers for name in answer.relations)
        alone.update(answer.relations[0] for answer in answers if len(answer.relations) == 1)
    if every:
        counted = (f"{name} {count} ({alone[name]})" for name, count in every.most_common())
        rows.caption = f"relations, and where no other one holds: {', '.join(counted)}"
    return rows

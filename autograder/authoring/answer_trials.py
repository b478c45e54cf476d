"""The results of an exercise's checks on its listed answers: found when it is verified, and
recorded for the book.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from autograder.authoring import loader, verified
from autograder.checking import Report, Result, Status, machine
from autograder.checking.answers import answers_in
from autograder.checking.subject import attempt
from autograder.course import archive

SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Wrong:
    """A listed wrong answer.

    Attributes
    ----------
    name, label, hint : str
        Its function's name; the mistake in words, or ""; the hint that a student reads.
    failed : list of [str, str]
        Name and title of each check that it fails with the first seed, in order.
    recognized : bool
        Whether the first of these names it as the cause.
    passed_seeds : list of int
        The seeds with which it fails no check: there should be none.
    advice : bool
        Whether it loses no points: what it fails, if anything, is advice.
    slip : str
        The error that it raised in the first of these checks, if its author cannot have meant it: a
        missing name or import.
    """

    name: str
    label: str
    hint: str
    failed: list[list[str]]
    recognized: bool
    passed_seeds: list[int]
    advice: bool
    slip: str = ""


GPU = {"gpu", "bf16"}
"""The values of `on=` that only a GPU has."""


@dataclass(frozen=True)
class Right:
    """A listed right answer: its function's name, and where it first lost points, in words; ""
    if it lost none.
    """

    name: str
    lost: str


@dataclass(frozen=True)
class AnswerTrials:
    """The results for the listed answers of one function, which has these checks."""

    subject: str
    checks: list[str]
    wrong: list[Wrong]
    right: list[Right]


def try_answers(exercise: loader.Loaded, subject: str) -> AnswerTrials:
    """Try the answers that are listed for a function, with each of `SEEDS`."""
    suite = exercise.suite
    checks = [check for check in suite.checks_of(subject) if not machine.fails(check.on)]
    wrong = []
    for answer, failed in loader.caught(exercise, subject, SEEDS[0]):
        passed_seeds = [] if failed else [SEEDS[0]]
        for seed in SEEDS[1:]:
            if not any(attempt(check, answer, seed).failure for check in checks):
                passed_seeds.append(seed)
        recognized = bool(failed) and failed[0].cause == answer.__name__
        failures = [[result.name, result.title] for result in failed]
        advice = all(result.status == Status.ADVICE for result in failed)
        slip = _slip(exercise, answer, failed[0]) if failed and failed[0].raised else ""
        wrong.append(
            Wrong(
                answer.__name__,
                answer.label,
                answer.hint,
                failures,
                recognized,
                passed_seeds,
                advice,
                slip,
            )
        )
    right = []
    for answer in suite.listed("right_for", subject):
        reports = (suite.examine(subject, answer, seed=seed) for seed in SEEDS)
        right.append(Right(answer.__name__, next(filter(None, map(lost, reports)), "")))
    return AnswerTrials(
        subject, [check.__name__ for check in suite.checks_of(subject)], wrong, right
    )


def _slip(exercise: loader.Loaded, answer: Any, failed: Result) -> str:
    """Return the error that an answer raised in a check, if it is one that no author intends."""
    (check,) = [
        check
        for check in exercise.suite.checks_of(answer.wrong_for)
        if check.__name__ == failed.name
    ]
    for call in attempt(check, answer, SEEDS[0]).calls:
        error = call.error
        of_module = isinstance(error, AttributeError) and isinstance(error.obj, ModuleType)
        if of_module or isinstance(error, NameError | ImportError):
            return f"{type(error).__name__}: {error}"
    return ""


def lost(report: Report) -> str:
    """Return in words the first check that cost points, as in "does not pass ..."; "" if none
    did.
    """
    for result in report.results:
        if result.status.costs_points or result.on == machine.OWN_ANSWER:
            return f"does not pass the check {result.name} (seed {report.seed}): {result.message}"
    return ""


def results(folder: Path) -> list[AnswerTrials]:
    """Return the results for an exercise's answers: from its record or, if none is valid,
    computed now.
    """
    exercise = loader.load(folder)
    recorded = verified.read(folder)
    if recorded is None:
        return [try_answers(exercise, subject) for subject in exercise.subjects]
    return [_recorded(exercise, subject, function) for subject, function in recorded.items()]


def to_record(
    exercise: loader.Loaded, trials: Iterable[AnswerTrials]
) -> tuple[set[str], dict[str, verified.Function]]:
    """Return what this machine lacked to verify an exercise, and the record for each function.

    Both leave out what only a GPU shows, so that machines with and without one record the same.
    """
    needs = {check.on for check in exercise.suite.checks}
    functions = {}
    gpu_checks = {check.__name__ for check in exercise.suite.checks if check.on in GPU}
    for trial in trials:
        listed = _listed(exercise, trial.subject)
        needs |= {getattr(answer, "on", "") for answer in listed.values()}
        wrong = [
            answer for answer in trial.wrong if getattr(listed[answer.name], "on", "") not in GPU
        ]
        failed = {
            answer.name: [name for name, _ in answer.failed if name not in gpu_checks]
            for answer in wrong
        }
        functions[trial.subject] = verified.Function(
            failed,
            [answer.name for answer in wrong if not answer.recognized],
            [answer.name for answer in trial.right],
        )
    return {on for on in needs - GPU if machine.fails(on)}, functions


def _recorded(exercise: loader.Loaded, subject: str, function: verified.Function) -> AnswerTrials:
    """Return the recorded results for a function's answers, with the exercise's words for them."""
    checks, listed = exercise.suite.checks_of(subject), _listed(exercise, subject)
    titles = {check.__name__: check.title for check in checks}
    worth = {check.__name__ for check in checks if check.weight}
    wrong = []
    for name, failed in function.wrong.items():
        named = [[check, titles[check]] for check in failed]
        answer = listed[name]
        recognized = name not in function.unrecognized
        advice = not worth & set(failed)
        wrong.append(Wrong(name, answer.label, answer.hint, named, recognized, [], advice))
    return AnswerTrials(subject, list(titles), wrong, [Right(name, "") for name in function.right])


def _listed(exercise: loader.Loaded, subject: str) -> dict[str, Any]:
    """Return the wrong answers that are listed for a function, by name, for all machines."""
    answers = [
        answer for module in exercise.answers for answer in answers_in(module, "wrong_for", subject)
    ]
    return {answer.__name__: answer for answer in answers}


def deciding_files(folder: Path) -> list[Path]:
    """Return the files that determine the results."""
    return [
        folder / verified.NAME,
        *sorted(folder.glob("*.py")),
        *sorted(archive.RUNTIME.glob("*.py")),
    ]

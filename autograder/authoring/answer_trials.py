"""What the checks of an exercise make of its listed answers: tried when it is verified, written down for the book.

The record is `_build/listed/NN-name.json`. It counts for as long as the files that decide are the same.
"""

import contextlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autograder import archive, seeds
from autograder.authoring import loader
from autograder.checking import Report, Status, machine
from autograder.checking.subject import attempt

SEEDS = (1, 2, 3)
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Wrong:
    """A listed wrong answer.

    Attributes
    ----------
    name, label, hint : str
        Its function's name; the mistake in words, "" if it has none; what a student reads of it.
    failed : list of [str, str]
        Name and title of each check that it fails with the first seed, in order.
    recognised : bool
        Whether the first of these names it as the cause.
    passes : list of int
        The seeds with which it fails no check: there should be none.
    advice : bool
        Whether it is told by advice alone, and loses no points.
    """

    name: str
    label: str
    hint: str
    failed: list[list[str]]
    recognised: bool
    passes: list[int]
    advice: bool


@dataclass(frozen=True)
class Right:
    """A listed right answer: its function's name, and the first point that it lost, in words: "" if it lost none."""

    name: str
    lost: str


@dataclass(frozen=True)
class Tried:
    """What became of the listed answers of one function, which has these checks."""

    subject: str
    checks: list[str]
    wrong: list[Wrong]
    right: list[Right]


def tried(exercise: loader.Loaded, subject: str) -> Tried:
    """Try the answers that are listed for a function, with each of `SEEDS`."""
    suite = exercise.suite
    checks = [check for check in suite.of(subject) if not machine.lacks(check.on)]
    wrong = []
    for answer, failed in loader.caught(exercise, subject, SEEDS[0]):
        passes = [] if failed else [SEEDS[0]]
        for seed in SEEDS[1:]:
            if not any(attempt(check, answer, seed).failure for check in checks):
                passes.append(seed)
        recognised = bool(failed) and failed[0].cause == answer.__name__
        named = [[result.name, result.title] for result in failed]
        advice = all(result.status == Status.ADVICE for result in failed)
        wrong.append(Wrong(answer.__name__, answer.label, answer.hint, named, recognised, passes, advice))
    right = []
    for answer in suite.listed("right_for", subject):
        reports = (suite.examine(subject, answer, seed=seed) for seed in SEEDS)
        right.append(Right(answer.__name__, next(filter(None, map(lost, reports)), "")))
    return Tried(subject, [check.__name__ for check in suite.of(subject)], wrong, right)


def lost(report: Report) -> str:
    """Return in words the first check that cost points, as in "does not pass ..."; "" if none did."""
    for result in report.results:
        if result.status.costs_points:
            return f"does not pass the check {result.name} (seed {report.seed}): {result.message}"
    return ""


def write(folder: Path, found: Iterable[Tried]) -> None:
    """Write down what was found of the exercise that an author keeps in a folder."""
    record = _record(folder)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"from": _digest(folder), "found": list(map(asdict, found))}), encoding="utf-8")


def recorded(folder: Path) -> list[Tried] | None:
    """Return what was found of an exercise as it is now, function by function; None if that was not written down."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(_record(folder).read_text(encoding="utf-8"))
        if kept["from"] == _digest(folder):
            return [_tried(entry) for entry in kept["found"]]
    return None


def _tried(kept: dict[str, Any]) -> Tried:
    wrong, right = [Wrong(**answer) for answer in kept["wrong"]], [Right(**answer) for answer in kept["right"]]
    return Tried(kept["subject"], kept["checks"], wrong, right)


def of(folder: Path) -> list[Tried]:
    """Return what was found of an exercise as it is now; what was not written down is tried, and is then."""
    found = recorded(folder)
    if found is None:
        exercise = loader.load(folder)
        found = [tried(exercise, subject) for subject in exercise.subjects]
        write(folder, found)
    return found


def decides(folder: Path) -> list[Path]:
    """Return the files that decide what is found."""
    return [*sorted(folder.glob("*.py")), *sorted(archive.RUNTIME.glob("*.py"))]


def _record(folder: Path) -> Path:
    return folder.parent.parent / "_build" / "listed" / f"{folder.name}.json"


def _digest(folder: Path) -> str:
    parts = [path.read_bytes() for path in [*decides(folder), HERE / "loader.py", HERE / "answer_trials.py"]]
    return seeds.digest_of(*parts)

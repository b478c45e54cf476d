"""Load an exercise's modules as its notebook does, and the right answers, which only its author
has.
"""

import functools
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from autograder.authoring import source
from autograder.checking import Result, Suite
from autograder.checking.diagnosis import Diagnosis
from autograder.checking.subject import attempt
from autograder.course import imports
from autograder.course.cells import Cell, Notebook, call_of

ROOT = Path(__file__).resolve().parent.parent.parent


def folders(root: Path) -> list[Path]:
    """Return the authors' folders of a course's exercises, in order."""
    return sorted(
        text.parent for text in (root / "solutions").glob("*/*.py") if text.stem == text.parent.name
    )


FOLDERS = folders(ROOT)
"""The folders of this course itself, for its tests and its book."""


@dataclass
class Loaded:
    """One exercise, loaded: its folder, its modules, and its notebook with solutions."""

    folder: Path
    checks: ModuleType
    answers: list[ModuleType]
    notebook: Notebook

    @property
    def suite(self) -> Suite:
        """The exercise's checks."""
        suite: Suite = self.checks.suite
        return suite

    @property
    def subjects(self) -> list[str]:
        """The names of the functions under test, in order."""
        return list(dict.fromkeys(check.subject for check in self.suite.checks))

    @property
    def without_points(self) -> set[str]:
        """The functions whose check cells are worth 0: a pencil question, and steps toward
        others.
        """
        calls = [call_of(cell) for cell in self.notebook.cells]
        return {call.subject for call in calls if call and call.points == 0}

    @property
    def programs(self) -> list[str]:
        """The names of the other functions under test, in order."""
        return [subject for subject in self.subjects if subject not in self.without_points]

    def cells(self, **flags: Any) -> list[Cell]:
        """Return the cells whose nbgrader metadata have these values."""
        cells = []
        for cell in self.notebook.cells:
            metadata = cell.metadata.get("nbgrader", {})
            if metadata and all(metadata.get(flag) == value for flag, value in flags.items()):
                cells.append(cell)
        return cells


def load(folder: Path) -> Loaded:
    """Return the exercise in `folder`, `Loaded`, no matter which exercise was loaded before.

    `specifications` are found if an exercise has some. Its checks get their listed answers from
    here, so that several exercises can be loaded at the same time.
    """
    for name in imports.EXERCISE:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        checks = importlib.import_module("checks")
        names = [
            name for name in ("misconceptions", "right_answers") if (folder / f"{name}.py").exists()
        ]
        answers = [importlib.import_module(name) for name in names]
    finally:
        sys.path[:] = before
    if hasattr(checks, "suite"):
        checks.suite.answer_modules = answers
    return Loaded(folder, checks, answers, source.read(folder / f"{folder.name}.py"))


def caught(exercise: Loaded, subject: str, seed: int) -> Iterator[tuple[Any, list[Result]]]:
    """Yield each wrong answer listed for a function, and the results of the checks that fail, in
    order.

    A listed answer does the same in a check each time it is compared with another, so its results
    are cached.
    """
    remembered = functools.cache(attempt)
    diagnosis = Diagnosis(remembered)
    for wrong in exercise.suite.listed("wrong_for", subject):
        report = exercise.suite.examine(
            subject, wrong, seed=seed, run_attempt=remembered, diagnosis=diagnosis
        )
        yield wrong, [result for result in report.results if result.status.is_unmet]

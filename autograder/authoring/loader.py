"""Load an exercise's modules as its notebook would, and the right answers, which only its author has."""

import functools
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from unittest import mock

from autograder import imports
from autograder.authoring import source
from autograder.cells import Notebook, call_of
from autograder.checking import suite

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = sorted(text.parent for text in (ROOT / "solutions").glob("*/*.py") if text.stem == text.parent.name)


@dataclass
class Loaded:
    """One exercise, loaded: its folder, its modules, and its notebook with solutions."""

    folder: Path
    checks: ModuleType
    answers: list[ModuleType]
    notebook: Notebook

    @property
    def suite(self):
        """The exercise's checks."""
        return self.checks.suite

    @property
    def subjects(self):
        """The names of the functions under test, in order."""
        return list(dict.fromkeys(check.subject for check in self.suite.checks))

    @property
    def without_points(self):
        """The functions whose check cells are worth 0: questions for a pencil, whose answers are a few numbers."""
        calls = [call_of(cell) for cell in self.notebook.cells]
        return {call.subject for call in calls if call and call.points == 0}

    @property
    def programs(self):
        """The names of the other functions under test, in order."""
        return [subject for subject in self.subjects if subject not in self.without_points]

    def cells(self, **flags):
        """Return the cells whose nbgrader metadata have these values."""
        found = []
        for cell in self.notebook.cells:
            metadata = cell.metadata.get("nbgrader", {})
            if metadata and all(metadata.get(flag) == value for flag, value in flags.items()):
                found.append(cell)
        return found


def load(folder):
    """Return the exercise in `folder`, `Loaded`, whatever exercise was loaded before.

    `specifications` are found where an exercise has some. Its checks list their answers from here, so that several
    exercises may be loaded at one time.
    """
    for name in imports.EXERCISE:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        checks = importlib.import_module("checks")
        names = [name for name in ("misconceptions", "right_answers") if (folder / f"{name}.py").exists()]
        answers = [importlib.import_module(name) for name in names]
    finally:
        sys.path[:] = before
    if hasattr(checks, "suite"):
        checks.suite.answers = answers
    return Loaded(folder, checks, answers, source.read(folder / f"{folder.name}.py"))


def caught(exercise, subject, seed):
    """Yield each wrong answer listed for a function, and the results of the checks that it fails, in order.

    What a listed answer does in a check is the same each time it is compared with another, and is remembered.
    """
    remembered = {name: functools.cache(getattr(suite, name)) for name in ("_try", "_first_call", "_first_answer")}

    def alike(check, subject, wrong, seed, calls):
        made, failure = remembered["_try"](check, subject, wrong, seed)
        if len(made) != len(calls) or not all(map(suite._same_call, calls, made)):
            return None
        return suite.PASSES if failure is None else suite.FAILS

    remembered["_alike"] = alike
    with mock.patch.multiple(suite, **remembered):
        for wrong in exercise.suite.listed("wrong_for", subject):
            report = exercise.suite.examine(subject, wrong, points=1, seed=seed)
            yield wrong, [result for result in report.results if result.status == "failed"]

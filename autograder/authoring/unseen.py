"""Runs the checks on answers that were written from a released notebook alone, without sight of the
lists.

They are text, `tests/unseen/NN-name.py`: a line `# %% wrong NAME: what is wrong` or `# %% right
NAME: how it is written`, followed by the cell that a student would submit. Alternatively, `# As: `
and the description of an earlier answer for that function, followed by the differences: after each
`# @@`, lines with `+` replace those with `-`. These answers are never listed.
"""

import contextlib
import json
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.authoring import loader
from autograder.course.cells import is_check

FOLDER = loader.ROOT / "tests" / "unseen"
RECORD = loader.ROOT / "book" / "data" / "unseen.json"
AS = "# As: "
HEAD = re.compile(r"^# %% (wrong|right) (\w+): (.+)$", re.M)


@dataclass
class Unseen:
    """One answer: "wrong" or "right", its function, a description in one line, and its cell."""

    kind: str
    subject: str
    about: str
    cell: str


@dataclass
class Result:
    """The result for an `Unseen`: the share of the function's points that it lost, and the first
    feedback.

    `why` is "cause", "relation", "words" or "nothing", as on the page about what the checks catch;
    "" if all checks pass. `words` is the text. `labels` names all causes that the checks found,
    each once.
    """

    answer: Unseen
    lost: float
    why: str
    words: str
    labels: tuple[str, ...] = ()


def recorded() -> dict[str, Any]:
    """Return for each exercise the counts that `benchmarks/unseen.py` recorded."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def answers(name: str) -> list[Unseen]:
    """Return the answers to an exercise."""
    path = FOLDER / f"{name}.py"
    parts = HEAD.split(path.read_text(encoding="utf-8")) if path.exists() else [""]
    written: list[Unseen] = []
    # `split` gives the text before the first head, and then four parts for each answer.
    for kind, subject, about, cell in zip(*(parts[at::4] for at in range(1, 5)), strict=True):
        cell = cell.strip()
        if cell.startswith(AS):
            like, *changes = cell.removeprefix(AS).split("\n# @@\n")
            (cell,) = (
                earlier.cell
                for earlier in written
                if earlier.subject == subject and earlier.about == like
            )
            for change in changes:
                cell = _changed(cell, change.split("\n"))
        written.append(Unseen(kind, subject, about, cell))
    return written


def _changed(cell: str, change: list[str]) -> str:
    """Return a cell with one change, given as lines that begin with `# - `, `# + ` or, for
    context, `#   `.
    """
    old, new = ("\n".join(line[4:] for line in change if line[2:3] != sign) for sign in "+-")
    if f"\n{cell}\n".count(f"\n{old}\n") != 1:
        raise ValueError(f"these lines have to occur exactly once in the cell:\n{old}")
    return f"\n{cell}\n".replace(f"\n{old}\n", f"\n{new}\n" if new else "\n")[1:-1]


def as_written(exercise: loader.Loaded) -> dict[str, Any]:
    """Return the names that a notebook with right answers defines."""
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in exercise.notebook.cells:
        if cell.cell_type == "code" and not is_check(cell):
            with contextlib.suppress(Exception):  # a picture that cannot be drawn here
                define(cell.source, names)
    return names


def define(source: str, names: dict[str, Any]) -> None:
    """Run a cell's text, so that `names` has what it defines."""
    file = f"<cell {len(linecache.cache)}>"
    # Triton reads the text of kernels there.
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), names)  # noqa: S102 (our own text)


def results(folder: Path, seed: int = 1, every: int = 1) -> Iterator[Result]:
    """Yield the results for the answers to an exercise: for each right one, and for every
    `every`-th wrong one.
    """
    exercise = loader.load(folder)
    names = as_written(exercise)
    before = dict(names)
    written = answers(folder.name)
    wrong = [answer for answer in written if answer.kind == "wrong"][::every]
    for answer in [*wrong, *(answer for answer in written if answer.kind == "right")]:
        names.clear()  # and not another dict: this one is what functions of the notebook look into
        names.update(before)
        define(answer.cell, names)
        report = exercise.suite.examine(answer.subject, names[answer.subject], 1.0, seed)
        lost = max(0.0, round(1 - report.score - report.pending, 2))
        labels = tuple(
            dict.fromkeys(str(result.label) for result in report.results if result.cause)
        )
        first = next((result for result in report.results if result.status.is_unmet), None)
        if first is None:
            yield Result(answer, lost, "", "")
        elif first.cause or first.relation:
            text = f"{first.label}. {first.hint}" if first.cause else str(first.relation)
            why = "cause" if first.cause else "relation"
            yield Result(answer, lost, why, text, labels)
        else:
            why = "words" if first.raised or first.explained else "nothing"
            yield Result(answer, lost, why, str(first.message), labels)

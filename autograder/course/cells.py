"""What a cell of a notebook is, and how points stand in it: nbgrader's marks, read in this one
place.
"""

import ast
import contextlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import nbformat

from autograder.checking import MIME
from autograder.course import imports

Cell = nbformat.NotebookNode
Notebook = nbformat.NotebookNode

LANGUAGE = re.compile(r'\s*import os\s+os\.environ\["LANGUAGE"\]\s*=\s*"\w+"\s*#.*\s*$')
"""The end of a notebook's first code cell in another language, so that a kernel knows it: only
the cells reach it.
"""
MOST_LANGUAGE = 200
"""How many characters that has at most."""
OUTCOME_ID = "outcome"
"""The id of the cell at the head of a graded notebook that says what happened to it."""

SKIPPED = "skip-execution"
"""The tag of a cell that is run by hand only; nbclient, and with it nbgrader, passes over it
too.
"""


@dataclass(frozen=True)
class CheckCall:
    """What a check cell ends in: `checks.run(subject, points=points)`; points is None where it
    is no number.
    """

    subject: str
    points: float | None


def marks(cell: Cell) -> dict[str, Any]:
    """Return nbgrader's metadata of a cell; an empty dict if there is none, or it is no dict."""
    metadata = cell.get("metadata")
    of_nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return of_nbgrader if isinstance(of_nbgrader, dict) else {}


def grade_id(cell: Cell) -> str | None:
    """Return the id under which nbgrader knows a cell, or None."""
    identifier = marks(cell).get("grade_id")
    return identifier if isinstance(identifier, str) else None


def is_graded(cell: Cell) -> bool:
    """Tell whether a cell is worth points, given by a check or by a person."""
    return bool(marks(cell).get("grade"))


def is_answer(cell: Cell) -> bool:
    """Tell whether a cell is the student's to write."""
    return bool(marks(cell).get("solution"))


def is_check(cell: Cell) -> bool:
    """Tell whether a cell is graded by running it."""
    return cell["cell_type"] == "code" and is_graded(cell) and not is_answer(cell)


def is_read(cell: Cell) -> bool:
    """Tell whether a person grades a cell."""
    return is_graded(cell) and not is_check(cell)


def is_locked(cell: Cell) -> bool:
    """Tell whether a cell comes from the release as it is."""
    return bool(marks(cell)) and not is_answer(cell)


def is_skipped(cell: Cell) -> bool:
    """Tell whether a cell of the release is not run when a submission is graded: it decides
    nothing.
    """
    return is_locked(cell) and not is_graded(cell) and SKIPPED in cell["metadata"].get("tags", [])


def with_language(source: str, language: str) -> str:
    """Return the source of a code cell that also names the language of the feedback."""
    return f'{source}\n\n\nimport os\n\nos.environ["LANGUAGE"] = "{language}"  # of the feedback'


def without_language(source: str) -> str:
    """Return a source without the lines that `with_language` adds."""
    start = max(0, len(source) - MOST_LANGUAGE)  # to look further back takes hours for some sources
    return source[:start] + LANGUAGE.sub("", source[start:])


def is_code(cell: Cell) -> bool:
    """Tell whether a cell holds code."""
    return bool(cell["cell_type"] == "code")


def points_worth(cell: Cell) -> float:
    """Return the most points that a graded cell is worth."""
    return float(marks(cell)["points"])


def call_of(cell: Cell) -> CheckCall | None:
    """Return the call of `checks.run` that a cell's code ends in, or None."""
    if cell["cell_type"] != "code":
        return None
    try:
        body = imports.parsed(cell["source"]).body
    except SyntaxError:
        return None
    last = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
    if not isinstance(last, ast.Call) or ast.unparse(last.func) != "checks.run" or not last.args:
        return None
    arguments = last.args[1:2] + [word.value for word in last.keywords if word.arg == "points"]
    subject = _literal(last.args[0])
    points = _literal(arguments[0]) if arguments else None
    return CheckCall(str(subject), points if isinstance(points, (int, float)) else None)


def _literal(node: ast.expr) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def last_graded(cells: Iterable[Cell]) -> int:
    """Return the index of the last graded code cell, or -1: the cells after it change no grade."""
    graded = [index for index, cell in enumerate(cells) if is_code(cell) and is_graded(cell)]
    return max(graded, default=-1)


def new_output(kind: str, **parts: Any) -> Cell:
    """Return an output. nbformat's `new_output` validates each against its schema, which takes
    longer than everything else here.
    """
    if kind == "execute_result":
        parts.update(metadata={}, execution_count=None)
    output: Cell = nbformat.from_dict({"output_type": kind, **parts})
    return output


def set_points(cell: Cell, points: float) -> float:
    """Leave in a check cell exactly one outcome that nbgrader reads as points: a number from 0
    to its maximum.
    """
    most = points_worth(cell)
    points = float(points) if math.isfinite(points) and 0 <= points <= most else 0.0
    cell.outputs = [output for output in cell.outputs if output.output_type != "execute_result"]
    cell.outputs.append(new_output("execute_result", data={"text/plain": repr(points)}))
    return points


def points_of(cell: Cell) -> float:
    """Return the points in a check cell that has its outcome."""
    earned = 0.0
    for output in cell.outputs:
        if output.output_type == "execute_result":
            with contextlib.suppress(ValueError, KeyError):
                earned = float(output.data["text/plain"])
    return earned


def report_of(cell: Cell) -> dict[str, Any] | None:
    """Return the checks' report in a check cell that has its outcome, or None."""
    for output in cell.get("outputs", []):
        report = output.get("data", {}).get(MIME)
        if isinstance(report, dict):
            return report
    return None


def texts(cell: Cell) -> Iterator[str]:
    """Yield what a code cell printed, stream by stream."""
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            yield output.text

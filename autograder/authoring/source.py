"""The author's text of an exercise, in jupytext's percent format, read as the notebook that
nbgrader releases.

A cell's title is its grade_id. The kind of a cell follows from its contents:

- without a title: the student's own, to play with;
- with a title: given. It is locked, and released unchanged;
- with `### BEGIN SOLUTION`: the student's to write;
- with a last line `checks.run("function", points=4)`: a check, worth 4 points; with `points=0` it
  is not graded;
- with `points=4` after the title: a Markdown cell is an answer that a person grades, a code cell is
  a check that earns the points if it runs to its end, and a code cell with a solution is also
  graded by a person.
"""

import ast
import hashlib
import io
import re
import tokenize
from pathlib import Path
from typing import Any

import jupytext
import nbformat

from autograder.course.cells import Cell, Notebook, call_of
from autograder.course.config import UserError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
OPTIONS = {"title", "points", "tags", "lines_to_next_cell", "lines_to_end_of_cell_marker"}
"""The keys that a cell's metadata may have: jupytext's title, and ours after it; the last two
are jupytext's own.
"""
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_GRADE_ID = re.compile(r"[A-Za-z0-9_-]+")


def read(path: Path) -> Notebook:
    """Return the notebook with solutions for an author's text, with nbgrader's metadata.

    jupytext gives cells new ids at every reading; here they are derived from grade ids and
    contents, so that the same text always makes the same notebook.

    Raises
    ------
    UserError
        If the text is not Python, or a cell's first line is not valid; the error names the file and
        the line.
    """
    text = _text(path)
    notebook: Notebook = jupytext.reads(text, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(METADATA)
    # The first version whose cells have ids.
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    taken: set[str] = set()
    for cell, line in zip(notebook.cells, lines(text, notebook), strict=True):
        title = str(cell.metadata.get("title", ""))
        fault = _fault(cell, title)
        if not fault and title in taken:
            fault = f"the title {title!r} is used twice; titles must differ"
        if fault:
            raise UserError(f"{at(path, line)}: {fault}.")
        cell.metadata = nbformat.from_dict(_metadata(cell, title))
        cell.id = title or "cell-" + hashlib.sha256(cell.source.encode()).hexdigest()[:10]
        # Cells without a title may have the same text; an id comes once in a notebook.
        while cell.id in taken:
            cell.id += "x"
        taken.add(cell.id)
    return notebook


def at(path: Path, line: int) -> str:
    """Return a place in an exercise's folder, as errors name it:
    `solutions/01-qkv/01-qkv.py:12`.
    """
    return f"{Path(*path.parts[-3:])}:{line}"


def lines(text: str, notebook: Notebook) -> list[int]:
    """Return the line on which each cell of the notebook in this text begins."""
    # Comments only: for jupytext, the same characters inside a string begin no cell.
    headers = [
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
        if token.start[1] == 0 and token.string.startswith("# %%")
    ]
    before = len(notebook.cells) - len(headers)  # text before the first header is also a cell
    return [1] * before + headers[max(-before, 0) :]


def _text(path: Path) -> str:
    """Return the text, after checking that it is a Python script."""
    try:
        text = path.read_text(encoding="utf-8")
        ast.parse(text)
    except UnicodeDecodeError:
        raise UserError(f"{at(path, 1)}: this is not UTF-8 text; save it as such.") from None
    except SyntaxError as error:
        raise UserError(
            f"{at(path, error.lineno or 1)}: this is not Python: {error.msg}."
        ) from None
    return text


def _fault(cell: Cell, title: str) -> str:
    """Return what is wrong with a cell, and the fix, or an empty string."""
    options = dict(cell.metadata)
    call = call_of(cell)
    strange = [name for name in options if name not in OPTIONS]
    if strange:
        return (
            f"a cell's first line has {strange[0]!r}; after its title and [markdown] it may only "
            "have points=3 "
            'or tags=["..."]'
        )
    graded = call is not None or "points" in options
    if not title:
        if not graded and BEGIN not in cell.source:
            return ""
        contents = "points" if graded else "a solution"
        return (
            f"this cell has {contents} but no title; write a title after # %%, which "
            "becomes its grade_id"
        )
    if not _GRADE_ID.fullmatch(title):
        return (
            f"the title {title!r} must be a grade_id: only letters, digits, _ and -; or put it "
            "in a comment"
        )
    if cell.source.count(BEGIN) != cell.source.count(END):
        return f"in {title!r}, {BEGIN!r} and {END!r} do not come in pairs"
    if call is not None and "points" in options:
        return f"{title!r} has points twice; keep only those in checks.run(...)"
    points = call.points if call is not None else options.get("points", 0)
    # True is an int to Python.
    if isinstance(points, bool) or not isinstance(points, (int, float)) or points < 0:
        where = "checks.run(...)" if call else "the first line"
        return f"{title!r} needs its points as a number in {where}, such as points=4"
    return ""


def _metadata(cell: Cell, title: str) -> dict[str, Any]:
    """Return a cell's metadata for nbgrader: jupytext's, and what follows from the cell."""
    metadata = {
        name: value for name, value in cell.metadata.items() if name not in ("title", "points")
    }
    if not title:
        return metadata
    call = call_of(cell)
    points = call.points if call else cell.metadata.get("points")
    graded = points is not None
    solution = BEGIN in cell.source or (graded and cell.cell_type == "markdown")
    marks = {
        "grade": graded,
        "grade_id": title,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    if graded:
        marks["points"] = points
    return {**metadata, "nbgrader": marks}

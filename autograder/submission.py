"""A submission as a student handed it in, and the notebook to grade that comes of it."""

import copy
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

MOST_BYTES = 50_000_000


class Malformed(Exception):
    """The file is not the notebook that was given out; the message says what it is instead."""


@dataclass
class Submission:
    """One student's hand-in for one exercise: `submitted/<student>/<exercise>/`."""

    student: str
    exercise: object
    folder: Path

    @property
    def notebook(self):
        """The notebook handed in: the one of the exercise's name, or the only one there is."""
        named = self.folder / f"{self.exercise.name}.ipynb"
        others = sorted(self.folder.glob("*.ipynb"))
        return others[0] if not named.exists() and len(others) == 1 else named

    def digest(self):
        """Return a fingerprint of what was handed in: the notebook and its time stamp."""
        parts = [
            path.read_bytes()
            for path in (self.notebook, self.folder / "timestamp.txt")
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= MOST_BYTES
        ]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()


def find(course, exercises, submitted):
    """Return the submissions for these exercises below the folder `submitted`, by student and exercise."""
    return [
        Submission(student.name, exercise, student / exercise.name)
        for student in sorted(submitted.iterdir())
        if student.is_dir() and not student.name.startswith(".")
        for exercise in exercises
        if (student / exercise.name).is_dir()
    ]


def read(path):
    """Return the notebook at `path`, in nbformat 4.

    Raises
    ------
    Malformed
        If there is no such file, or it is not a notebook.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise Malformed(f"{path.name} is not a plain file.")
    if not path.exists():
        raise Malformed(f"There is no {path.name} in the folder.")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise Malformed(f"{path.name} has {size / 1e6:.0f} MB; {MOST_BYTES / 1e6:.0f} MB is the most.")
    if not size:
        raise Malformed(f"{path.name} is empty.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Malformed(f"{path.name} is not UTF-8 text.") from None
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        place = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise Malformed(f"{path.name} is not a notebook: it is not valid JSON{place}.") from None
    try:
        notebook = nbformat.from_dict(raw)
        if notebook.get("nbformat") != 4:
            notebook = nbformat.convert(notebook, 4)
        for cell in notebook.cells:
            if isinstance(cell.source, list):
                cell.source = "".join(cell.source)
            if not isinstance(cell.source, str) or cell.cell_type not in ("code", "markdown", "raw"):
                raise ValueError("a cell that is none")
    except Exception as error:  # whatever nbformat makes of a file that is JSON, but no notebook
        raise Malformed(f"{path.name} is JSON, but not a notebook ({type(error).__name__}: {error}).") from None
    return notebook


@dataclass
class Restored:
    """A notebook to grade: the released one with the student's cells in it, and what had to be repaired."""

    notebook: object
    repairs: list = field(default_factory=list)


def restore(submitted, released):
    """Put a student's own cells into the released notebook.

    Locked cells, points and metadata come from `released`; the text of solution cells, and cells that the
    student added, come from `submitted`. A cell is found by its grade id; where that is gone, by its cell id.

    Returns
    -------
    Restored
        With a sentence for each locked cell that had been altered, copied or deleted.
    """
    result, repairs = copy.deepcopy(released), []
    own_ids = {cell.id: _grade_id(cell) for cell in released.cells}
    given, extra, last = {}, {}, None
    for cell in submitted.cells:
        grade_id, cell_id = _grade_id(cell), _text(cell.get("id"))
        if grade_id not in own_ids.values():
            grade_id = own_ids.get(cell_id)
        key = grade_id or (cell_id if cell_id in own_ids else None)
        if key is None:
            extra.setdefault(last, []).append(cell)
            continue
        if key in given:
            repairs.append(f"The cell {key} stands twice; the first one counts.")
            continue
        given[key], last = cell, key
    cells = [_plain(cell) for cell in extra.pop(None, [])]
    for cell in result.cells:
        key = _grade_id(cell) or cell.id
        cell.metadata = copy.deepcopy(cell.metadata)
        solution = cell.metadata.get("nbgrader", {}).get("solution", False)
        if key not in given:
            if _grade_id(cell):
                repairs.append(f"The cell {key} was missing and has been put back.")
        elif solution:
            cell.source = given[key].source
        elif _grade_id(cell) and given[key].source.strip() != cell.source.strip():
            repairs.append(f"The locked cell {key} had been changed and has been restored.")
        elif not _grade_id(cell):
            cell.source = given[key].source
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        cells.append(cell)
        cells += [_plain(added) for added in extra.pop(key, [])]
    result.cells = _unique(cells)
    return Restored(result, repairs)


def _grade_id(cell):
    metadata = cell.get("metadata")
    own = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return _text(own.get("grade_id")) if isinstance(own, dict) else None


def _text(value):
    """Return a string as it is, and None for anything else that a notebook may hold in its place."""
    return value if isinstance(value, str) else None


def _plain(cell):
    """Return a student's own cell without metadata, attachments or outputs: its text is all that counts."""
    make = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
    return make.get(cell.cell_type, nbformat.v4.new_raw_cell)(cell.source)


def _unique(cells):
    """Give added cells ids that follow from their place, so that the same submission makes the same notebook."""
    taken = {cell.id for cell in cells if cell.metadata}
    for place, cell in enumerate(cells):
        if not cell.metadata:
            cell.id = next(name for name in (f"own-{place}", f"own-{place}-x") if name not in taken)
    return cells

"""Makes the notebook to grade: always the released one, with the student's cells in it."""

import ast
import copy
import difflib
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from autograder.checking import words
from autograder.checking.words import Message
from autograder.course.cells import (
    Cell,
    Notebook,
    grade_id,
    is_answer,
    is_code,
    is_locked,
    is_skipped,
    marks,
    without_language,
)
from autograder.course.config import Exercise
from autograder.grading import file_kinds, own_cells
from autograder.grading.own_cells import MOST_CODE, defined_in
from autograder.sanitize import text

FORMAT = 4
"""The version of nbformat that is graded; earlier ones are converted."""
MOST_CELLS = 2000
MOST_GIVEN = 1_000_000
"""Bytes of a notebook that may be one without answers: released ones have a tenth of that."""
MOST_COMPARED = 200_000
"""Characters in a student's own cells, above which they are not parsed to look for answers."""
MOST_DIFF = 20_000
MOST_DIFF_LINES = 40
CELL_TYPES = ("code", "markdown", "raw")

NO_ROOM = "{name} is not a notebook: its data do not fit into memory."
TWICE = "The cell {cell} appears twice; the first one counts."
MISSING = "The cell {cell} was missing and has been restored."
TEXT_CHANGED = (
    "The text {cell} was changed or missing, or comes from an older release, and has been restored."
)
CHANGED = "The locked cell {cell} had been changed and has been restored."
OLDER = (
    "The cell {cell} comes from another release of this notebook; it was replaced by the "
    "current one."
)
MANY = {
    TWICE: "These cells appear twice; the first of each counts: {cells}.",
    MISSING: "These cells were missing and have been restored: {cells}.",
    TEXT_CHANGED: "These texts were changed or missing, or come from an older release, and have "
    "been restored: {cells}.",
    CHANGED: "These locked cells had been changed and have been restored: {cells}.",
    OLDER: "These cells come from another release of this notebook; they were replaced by the "
    "current ones: {cells}.",
}


class Malformed(Exception):
    """The file is not the notebook that was given out; the message says what it is instead."""

    def __init__(self, message: Message):
        super().__init__(str(message))
        self.message = message


def parse(data: bytes, name: str) -> Notebook:
    """Return the notebook that `data` holds, in nbformat 4: of each cell its text, id, marks and
    attachments.

    Raises
    ------
    Malformed
        If it is not a notebook; the message calls it `name`.
    """
    decoded, raw = _decoded(data, name)
    try:
        if raw.get("nbformat") != FORMAT:
            raw = nbformat.convert(nbformat.reader.reads(decoded), FORMAT)
        cells = raw["cells"]
        if not isinstance(cells, list):
            raise TypeError("its cells are not a list")
        if len(cells) > MOST_CELLS:
            sentence = "{name} has {count} cells; the maximum is {most}."
            raise Malformed(Message(sentence, name=name, count=len(cells), most=MOST_CELLS))
        metadata = {words.KEY[0]: {words.KEY[1]: words.language_of(raw)}}
        read: Notebook = nbformat.from_dict(
            {"cells": [read_cell(cell) for cell in cells], "metadata": metadata, "nbformat": 4}
        )
        return read
    except Malformed:
        raise
    except Exception as error:  # whatever nbformat makes of a file that is JSON, but no notebook
        sentence = "{name} is JSON but not a notebook ({kind}: {reason})."
        reason = text.line(str(error), 200)
        raise Malformed(
            Message(sentence, name=name, kind=type(error).__name__, reason=reason)
        ) from None


def _decoded(data: bytes, name: str) -> tuple[str, Any]:
    """Return the text of a file, and the JSON in it; raise `Malformed` if it has none."""
    if not data:
        raise Malformed(Message("{name} is empty.", name=name))
    try:
        decoded = data.decode(file_kinds.encoding_of(data))
    except UnicodeDecodeError:
        raise Malformed(file_kinds.not_text_message(data, name)) from None
    try:
        return decoded, json.loads(decoded)
    except json.JSONDecodeError as error:
        raise Malformed(file_kinds.not_json_message(decoded, name, error.lineno)) from None
    except (ValueError, RecursionError):  # a number of too many digits, or brackets too deep
        raise Malformed(
            Message("{name} is not a notebook: it is not valid JSON.", name=name)
        ) from None
    except MemoryError:
        raise Malformed(Message(NO_ROOM, name=name)) from None


def read_current(data: bytes) -> dict[str, Any]:
    """Return the JSON of a notebook that `parse` reads as it is, without converting it from an
    earlier format.

    Raises
    ------
    ValueError
        If it is another file, or has more than `MOST_CELLS` cells.
    """
    raw: Any = json.loads(data.decode(file_kinds.encoding_of(data)))
    is_list = isinstance(raw, dict) and isinstance(raw.get("cells"), list)
    if not is_list or raw.get("nbformat") != FORMAT or len(raw["cells"]) > MOST_CELLS:
        raise ValueError("not a notebook in the current format")
    return dict(raw)


def read_cell(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a cell's text, type, id, marks and attachments; raise if it has no text."""
    source = raw["source"]
    source = "".join(source) if isinstance(source, list) else source
    if not isinstance(source, str):
        raise ValueError("a cell without text")
    # JSON may have half of a surrogate pair, which no file can be written with.
    cell: dict[str, Any] = {
        "cell_type": raw["cell_type"] if raw.get("cell_type") in CELL_TYPES else "raw",
        "source": source.encode("utf-8", "replace").decode("utf-8"),
        "metadata": {},
    }
    if isinstance(raw.get("id"), str):
        cell["id"] = raw["id"]
    if marks(nbformat.NotebookNode(raw)):
        cell["metadata"]["nbgrader"] = raw["metadata"]["nbgrader"]
    if isinstance(raw.get("attachments"), dict) and cell["cell_type"] == "markdown":
        cell["attachments"] = raw["attachments"]
    return cell


def editions_of(exercise: Exercise) -> dict[str, Notebook]:
    """Return the released notebook of an exercise by language. `""` is the English one, which
    decides everything but the texts.
    """
    released: Notebook = nbformat.read(exercise.notebook, as_version=4)
    editions = {"": released}
    for path in exercise.editions:
        texts = nbformat.read(path, as_version=4)
        by_id = {cell.id: cell.source for cell in texts.cells}
        edition = copy.deepcopy(released)
        edition.metadata = texts.metadata
        for cell in edition.cells:
            if _affects_no_grade(cell):
                cell.source = by_id.get(cell.id, cell.source)
        editions[words.language_of(texts)] = edition
    return editions


def is_as_given(exercise: Exercise, data: bytes | None) -> bool:
    """Tell whether a notebook has no answer. If there is no data, it has none; a file that is no
    notebook counts as one with an answer.
    """
    if data is None:
        return True
    if len(data) > MOST_GIVEN:
        return False
    # An answer is in its own cell, or in an added one that defines one of the functions.
    answers = _given_answers(exercise.notebook, exercise.notebook.stat().st_mtime_ns)
    functions = {name for cell in answers.values() for name in defined_in(cell)}
    try:
        cells = parse(data, "").cells
    except Malformed:
        return False
    if sum(len(cell.source) for cell in cells if not marks(cell)) > MOST_COMPARED:
        return False
    for cell in cells:
        as_given = answers.get(grade_id(cell) or "")
        if is_answer(cell) and (as_given is None or as_given.source != cell.source):
            return False
        elsewhere = not marks(cell) and defined_in(cell) & functions
        if elsewhere and all(other.source != cell.source for other in answers.values()):
            return False
    return True


# `written` only identifies the version of the file: a release may write it again.
@functools.lru_cache(200)
def _given_answers(path: Path, written: int) -> dict[str, Cell]:
    """Return the answer cells of a released notebook, as it was at a time, by grade id."""
    return {
        grade_id(cell) or "": cell
        for cell in parse(path.read_bytes(), path.name).cells
        if is_answer(cell)
    }


@dataclass
class Restored:
    """A notebook to grade, what had to be repaired, and the lines in which locked code had been
    altered.

    `as_released` has the ids of the cells that are the course's, or answers that were left as they
    were given.
    """

    notebook: Notebook
    as_released: set[str] = field(default_factory=set)
    repairs: list[Message] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)


def restore(
    submitted: Notebook, released: Notebook, beside: Mapping[str, bytes] | None = None
) -> Restored:
    """Put a student's own cells into the released notebook.

    Locked cells, points and metadata come from `released`; the text of answers, and cells that the
    student added, come from `submitted`. A cell is found by its grade id; where that is gone, by
    its cell id. Where both are gone, as some editors do, it is found by its text, and last by
    standing where it stood. Of the files `beside` it, those that define functions may have answers.

    Returns
    -------
    Restored
        With a sentence for each locked cell that had been altered, copied or deleted, and for
        altered code the lines that differ.
    """
    result = Restored(nbformat.NotebookNode(released, cells=[]))
    by_key, added = _matched(submitted, released, result.repairs)
    cells = [_without_metadata(cell) for cell in added.pop(None, [])]
    for original in released.cells:
        key = _key(original)
        cells.append(_restored(original, by_key.get(key), result))
        cells += [_without_metadata(cell) for cell in added.pop(key, [])]
    result.notebook.cells = _with_ids(cells)
    result.repairs = _combined(result.repairs)
    result.repairs += own_cells.elsewhere(
        result.notebook.cells, result.as_released, released, beside or {}
    )
    result.repairs += own_cells.unreadable(result.notebook.cells, result.as_released)
    return result


def _combined(repairs: list[Message]) -> list[Message]:
    """Combine the same repair of several cells into one sentence."""
    alike: dict[str, dict[str, Message]] = {}
    for message in repairs:
        alike.setdefault(message.text, {})[str(message.values["cell"])] = message
    sentences = []
    for template, by_cell in alike.items():
        if len(by_cell) > 1:
            sentences.append(Message(MANY[template], cells=", ".join(by_cell)))
        else:
            sentences += by_cell.values()
    return sentences


def _key(cell: Cell) -> str:
    return grade_id(cell) or cell.id


def _matched(
    submitted: Notebook, released: Notebook, repairs: list[Message]
) -> tuple[dict[str, Cell], dict[str | None, list[Cell]]]:
    """Return the submitted cells by the released one that each is, and the added ones by the one
    they follow.
    """
    locked = {_key(cell) for cell in released.cells if grade_id(cell) and not is_answer(cell)}
    by_key: dict[str, Cell] = {}
    added: dict[str | None, list[Cell]] = {}
    last: str | None = None
    for cell, key in zip(submitted.cells, _keys(submitted, released), strict=True):
        if key is None:
            added.setdefault(last, []).append(cell)
        elif key not in by_key:
            by_key[key], last = cell, key
        elif key in locked:
            repairs.append(Message(TWICE, cell=key))
        else:  # as in the student's own notebook, the copy runs where it stands
            added.setdefault(last, []).append(cell)
    return by_key, added


def _restored(original: Cell, submitted: Cell | None, result: Restored) -> Cell:
    """Return a released cell with what a student may have written in it; note what had to be
    repaired.
    """
    cell = nbformat.NotebookNode(original, metadata=copy.deepcopy(original.metadata))
    if is_locked(cell):
        result.as_released.add(cell.id)
    if is_code(cell):
        cell.outputs, cell.execution_count = [], None
    if submitted is None:
        # A skipped cell is restored without a word: an older release may lack it.
        if grade_id(cell) and not is_skipped(cell):
            result.repairs.append(
                Message(TEXT_CHANGED if _affects_no_grade(cell) else MISSING, cell=grade_id(cell))
            )
        # Without the given stub: it would hide a definition that the student wrote in another cell.
        if is_answer(cell):
            cell.source = ""
    elif is_answer(cell) or not grade_id(cell):  # or one without a title, for experiments
        has_attachments = "attachments" in submitted and cell.cell_type == "markdown"
        if submitted.source == cell.source and not has_attachments:
            result.as_released.add(cell.id)
        cell.source = submitted.source
        if has_attachments:
            cell.attachments = submitted.attachments
    else:
        diff = _diff(cell, submitted)
        if diff:
            if _affects_no_grade(cell):
                sentence = TEXT_CHANGED
            elif _was_released(submitted):
                sentence = OLDER
            else:
                sentence = CHANGED
            result.repairs.append(Message(sentence, cell=grade_id(cell)))
            if sentence == CHANGED:
                result.evidence.append(diff)
    return cell


def _was_released(cell: Cell) -> bool:
    """Tell whether a locked cell is as nbgrader gave it out in some release: its checksum is that
    of what it says.

    It decides nothing: such a cell is replaced all the same. But it was not its student who changed
    it.
    """
    # What nbgrader's `compute_checksum` takes, in its order.
    metadata = marks(cell)
    try:
        parts = [cell.source.replace("\r\n", "\n"), cell.cell_type]
        parts += [str(bool(metadata[name])) for name in ("grade", "solution", "locked")]
        parts.append(metadata["grade_id"])
        if metadata["grade"]:
            parts.append(str(float(metadata["points"])))
        checksum = hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()
    except (KeyError, TypeError, ValueError, OverflowError):
        return False
    is_locked_cell = metadata["locked"] and not metadata["solution"]
    return bool(is_locked_cell and checksum == metadata.get("checksum"))


def _affects_no_grade(cell: Cell) -> bool:
    """Tell whether a locked cell is text, or is not run: then it cannot change a grade."""
    return is_locked(cell) and (not is_code(cell) or is_skipped(cell))


def _keys(submitted: Notebook, released: Notebook) -> list[str | None]:
    """Return for each submitted cell the released one that it is, by grade id or cell id; None
    for an added cell.
    """
    by_id = {cell.id: _key(cell) for cell in released.cells}
    grade_ids = {grade_id(cell) for cell in released.cells} - {None}
    keys = [
        grade_id(cell) if grade_id(cell) in grade_ids else by_id.get(cell.get("id", ""))
        for cell in submitted.cells
    ]
    # The surest way first; each of the next two looks only for released cells that are missing.
    present = set(keys)
    missing = {_key(cell): cell for cell in released.cells if _key(cell) not in present}
    _find_by_text(submitted, keys, missing)
    _find_by_place(submitted, released, keys, missing)
    return keys


def _find_by_text(submitted: Notebook, keys: list[str | None], missing: dict[str, Cell]) -> None:
    """Fill in the keys of cells whose ids are gone and whose text is that of a released one."""
    for index, cell in enumerate(submitted.cells):
        if keys[index] is not None:
            continue
        source = without_language(cell.source).strip()
        for key, other in missing.items():
            if source and other.source.strip() == source:
                keys[index] = key
                del missing[key]
                break


def _find_by_place(
    submitted: Notebook, released: Notebook, keys: list[str | None], missing: dict[str, Cell]
) -> None:
    """Fill in the keys of cells that are between the same neighbors, and are of the same kind."""
    order = [_key(cell) for cell in released.cells]
    for index, cell in enumerate(submitted.cells):
        before = keys[index - 1] if index else None
        if keys[index] is not None or before not in order or grade_id(cell):
            continue
        after = order.index(before) + 1
        if after < len(order) and order[after] in missing:
            other = missing[order[after]]
            # A locked cell of code has no answer: another cell in its place is the student's own.
            if is_locked(other) and is_code(other):
                continue
            if other.cell_type == cell.cell_type and defined_in(other) <= defined_in(cell):
                keys[index] = order[after]
                del missing[order[after]]


def _diff(locked: Cell, submitted: Cell) -> str:
    """Return the lines in which a locked cell was changed, as a diff; an empty string if it says
    the same.
    """
    lines = []
    metadata = marks(submitted)
    # Some editors remove nbgrader's metadata from all cells; that is no change of points.
    names = ("points", "grade", "locked", "solution") if metadata else ()
    for name in names:
        expected = marks(locked).get(name)
        if name in metadata and metadata[name] != expected:
            lines += [f"-{name}: {expected}", f"+{name}: {text.line(str(metadata[name]), 200)}"]
    if not _same_code(locked, submitted):
        after = text.block(submitted.source, MOST_DIFF).splitlines()
        diff = difflib.unified_diff(locked.source.splitlines(), after, lineterm="", n=0)
        lines += [line[:500] for line in diff if not line.startswith(("---", "+++", "@@"))]
    return "\n".join([f"{grade_id(locked)}:", *lines[:MOST_DIFF_LINES]]) if lines else ""


def _same_code(locked: Cell, submitted: Cell) -> bool:
    """Tell whether two cells have the same code, apart from layout, docstrings and the language
    of the feedback.
    """
    if len(submitted.source) > MOST_CODE:  # to compare it could take more memory than there is
        return False
    before, after = without_language(locked.source), without_language(submitted.source)
    if before.split() == after.split():
        return True
    try:
        return _tree_without_docstrings(before) == _tree_without_docstrings(after)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _tree_without_docstrings(source: str) -> str:
    """Return the syntax tree of code as text, without docstrings, which a release may reword."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.FunctionDef, ast.ClassDef))
            and ast.get_docstring(node, clean=False) is not None
        ):
            del node.body[0]
    return ast.dump(tree)


def _without_metadata(cell: Cell) -> Cell:
    """Return a cell that a student added, without metadata, outputs or id."""
    plain = nbformat.NotebookNode(
        cell_type=cell.cell_type, source=cell.source, metadata=nbformat.NotebookNode()
    )
    if is_code(cell):
        plain.update(outputs=[], execution_count=None)
    if "attachments" in cell:
        plain.attachments = cell.attachments
    return plain


def _with_ids(cells: list[Cell]) -> list[Cell]:
    """Give added cells ids that follow from their place, so that the same submission makes the
    same notebook.
    """
    # Only the cells of the release still have ids here.
    taken = {cell.id for cell in cells if "id" in cell}
    for index, cell in enumerate(cells):
        if "id" not in cell:
            cell.id = next(name for name in (f"own-{index}", f"own-{index}-x") if name not in taken)
    return cells

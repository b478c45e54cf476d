"""A submission as a student handed it in, and the notebook to grade that comes of it."""

import ast
import contextlib
import copy
import difflib
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import nbformat


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
        return others[0] if not os.path.lexists(named) and len(others) == 1 else named

    def read(self, limits):
        """Return the `Unit` of work that grades this submission: everything is read once, here.

        Parameters
        ----------
        limits : dict
            `notebook_mb` and `beside_mb` bound what is read.
        """
        path = self.notebook
        data, problem = read_file(path, limits["notebook_mb"])
        if self.folder.is_symlink():
            data, problem = None, f"{self.folder.name} is a link to another folder."
        stamp, _ = read_file(self.folder / "timestamp.txt", 1)
        parts = [own for own in (data, stamp) if own is not None]
        files, left_out = beside(self.folder, limits["beside_mb"])
        for name in sorted(files):
            parts += [name.encode("utf-8", "replace"), files[name]]
        return Unit(
            student=self.student,
            assignment=self.exercise.name,
            notebook=path.name,
            data=data,
            problem=problem,
            stamp=stamp.decode("utf-8", "replace") if stamp is not None else None,
            files=files,
            left_out=left_out,
            digest=digest_of(*parts),
        )


@dataclass
class Unit:
    """One piece of work: plain values that can be sent to another process, or another machine.

    `data` is the notebook's bytes, or None where there are none to be had (`problem` says why); `files` are the bytes
    of what else was handed in, by relative path. The seeds are filled in by whoever has the course's secret.
    """

    student: str
    assignment: str
    notebook: str
    data: bytes | None
    problem: str
    stamp: str | None
    files: dict
    left_out: str
    digest: str
    seed: int = 0
    guest_seed: int = 0


def read_file(path, most_mb):
    """Return a file's bytes, or None and the reason why there are none."""
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            return None, f"{path.name} is not a plain file."
        if not path.exists():
            return None, f"There is no {path.name} in the folder."
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            data = file.read(most_mb * 1_000_000 + 1)
            size = max(len(data), os.fstat(file.fileno()).st_size)
        if len(data) > most_mb * 1_000_000:
            return None, f"{path.name} has {size / 1e6:.0f} MB; {most_mb} MB is the most."
        return data, ""
    except OSError as error:
        return None, f"{path.name} could not be read: {error.strerror}."


def beside(folder, most_mb):
    """Return the files beside a notebook that are not the course's own, and a sentence if they are too much."""
    files, size = {}, 0
    ours = {"checks.py", "misconceptions.py", "checking", "timestamp.txt"}
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".ipynb_checkpoints")
        for name in sorted(names):
            path = Path(top, name)
            own = path.relative_to(folder)
            if own.parts[0] in ours or own.suffix == ".ipynb" or path.is_symlink() or not path.is_file():
                continue
            with contextlib.suppress(OSError):
                size += path.stat().st_size
                if size > most_mb * 1_000_000 or len(files) >= 1000:
                    return {}, f"The files beside the notebook are more than {most_mb} MB or 1000 and were left out."
                files[own.as_posix()] = path.read_bytes()
    return files, ""


def digest_of(*parts):
    """Return a fingerprint of what was handed in."""
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


def parse(data, name):
    """Return the notebook that `data` holds, in nbformat 4.

    Raises
    ------
    Malformed
        If it is not a notebook; the message calls it `name`.
    """
    if not data:
        raise Malformed(f"{name} is empty.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Malformed(f"{name} is not UTF-8 text.") from None
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise Malformed(f"{name} is not a notebook: it is not valid JSON{place}.") from None
    try:
        notebook = nbformat.from_dict(raw)
        if notebook.get("nbformat") != 4:
            notebook = nbformat.convert(notebook, 4)
        for cell in notebook.cells:
            if isinstance(cell.source, list):
                cell.source = "".join(cell.source)
            if not isinstance(cell.source, str):
                raise ValueError("a cell without text")
            if cell.cell_type not in ("code", "markdown", "raw"):
                cell.cell_type = "raw"
            cell.source = cell.source.encode("utf-8", "replace").decode("utf-8")
    except Exception as error:  # whatever nbformat makes of a file that is JSON, but no notebook
        raise Malformed(f"{name} is JSON, but not a notebook ({type(error).__name__}: {error}).") from None
    return notebook


@dataclass
class Restored:
    """A notebook to grade: the released one with the student's cells in it, and what had to be repaired."""

    notebook: object
    repairs: list = field(default_factory=list)
    evidence: list = field(default_factory=list)


def restore(submitted, released):
    """Put a student's own cells into the released notebook.

    Locked cells, points and metadata come from `released`; the text of solution cells, and cells that the
    student added, come from `submitted`. A cell is found by its grade id; where that is gone, by its cell id.

    Where both are gone, as some editors do, it is found by its text, and last by standing where it stood.

    Returns
    -------
    Restored
        With a sentence for each locked cell that had been altered, copied or deleted, and for an altered one the
        lines that differ.
    """
    result, repairs, evidence = copy.deepcopy(released), [], []
    keys = _keys(submitted, released)
    locked = {
        _grade_id(cell) for cell in released.cells if _grade_id(cell) and not cell.metadata.nbgrader.get("solution")
    }
    given, extra, last = {}, {}, None
    for cell, key in zip(submitted.cells, keys, strict=True):
        if key is None:
            extra.setdefault(last, []).append(cell)
            continue
        if key in given:
            if key in locked:
                repairs.append(f"The cell {key} stands twice; the first one counts.")
            else:  # as in the student's own notebook, the copy runs where it stands
                extra.setdefault(last, []).append(cell)
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
            if solution:  # what the student wrote for it may stand elsewhere, and must not be undone
                cell.source = ""
        elif solution:
            cell.source = given[key].source
        elif _grade_id(cell):
            changed = _changed(cell, given[key])
            if changed:
                repairs.append(f"The locked cell {key} had been changed and has been restored.")
                evidence.append(changed)
        elif not _grade_id(cell):
            cell.source = given[key].source
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        cells.append(cell)
        cells += [_plain(added) for added in extra.pop(key, [])]
    result.cells = _unique(cells)
    return Restored(result, repairs, evidence)


def _keys(submitted, released):
    """Return for each submitted cell the released one that it is, by grade id or cell id; None for an own cell."""
    own_ids = {cell.id: _grade_id(cell) or cell.id for cell in released.cells}
    grade_ids = {_grade_id(cell) for cell in released.cells} - {None}
    keys = []
    for cell in submitted.cells:
        grade_id, cell_id = _grade_id(cell), _text(cell.get("id"))
        keys.append(grade_id if grade_id in grade_ids else own_ids.get(cell_id))
    missing = {own_ids[cell.id]: cell for cell in released.cells if own_ids[cell.id] not in keys}
    for place, cell in enumerate(submitted.cells):  # ids gone: the same text
        if keys[place] is None:
            for key, own in missing.items():
                if own.source.strip() and own.source.strip() == cell.source.strip():
                    keys[place] = key
                    del missing[key]
                    break
    order = [own_ids[cell.id] for cell in released.cells]
    for place, cell in enumerate(submitted.cells):  # and last: between the same neighbours, of the same kind
        if keys[place] is None and place and keys[place - 1] in order:
            after = order.index(keys[place - 1]) + 1
            if after < len(order) and order[after] in missing and not _grade_id(cell):
                own = missing[order[after]]
                if own.cell_type == cell.cell_type and _defines(own) <= _defines(cell):
                    keys[place] = order[after]
                    del missing[order[after]]
    return keys


def _defines(cell):
    """Return the names of the functions and classes that a code cell defines."""
    if cell.cell_type != "code":
        return set()
    try:
        body = ast.parse(cell.source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def _changed(locked, given):
    """Return the lines in which a locked cell was changed, as a diff; an empty string if it says the same."""
    lines = []
    points = given.get("metadata", {}).get("nbgrader") if isinstance(given.get("metadata"), dict) else None
    if isinstance(points, dict):
        for name in ("points", "grade", "locked", "solution"):
            own = locked.metadata.nbgrader.get(name)
            if name in points and points[name] != own:
                lines += [f"-{name}: {own}", f"+{name}: {str(points[name])[:200]}"]
    if not _same_code(locked, given):
        diff = difflib.unified_diff(locked.source.splitlines(), given.source[:20_000].splitlines(), lineterm="", n=0)
        lines += [line for line in diff if not line.startswith(("---", "+++", "@@"))]
    return "\n".join([f"{_grade_id(locked)}:", *lines[:40]]) if lines else ""


def _same_code(locked, given):
    """Tell whether two cells say the same, however they are laid out."""
    if locked.source.split() == given.source.split():
        return True
    try:
        return ast.dump(ast.parse(locked.source)) == ast.dump(ast.parse(given.source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


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

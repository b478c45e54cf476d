"""What a submission's outputs, texts and pictures become before anybody's browser sees them:
bounded, and inert.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import nbformat

from autograder.checking.words import Message
from autograder.course.cells import Cell, Notebook, new_output
from autograder.course.limits import Limits
from autograder.sanitize import code, markdown, markup
from autograder.sanitize.text import line, printed, valid

SAFE_TEXT = ("text/plain", "text/latex")
PAGE_PICTURES = ("image/png", "image/jpeg")
"""Pictures that nbconvert shows by themselves; others are put into an `img`."""
CUT = Message("[this output was too large to keep]")
CUT_CELL = Message(
    "[The outputs of this cell were left out: the whole notebook was too large to keep.]"
)
CUT_SOURCE = Message("[This cell was left out: the whole notebook was too large to keep.]")

MOST_NOTES = 50
"""Sentences about what was left out of a submission, or changed in it."""
MOST_OUTPUTS = 500
"""Outputs of one cell that are kept, of whatever kind."""
MOST_LINES = 100
"""Lines of a traceback that are kept."""
MOST_LABEL = 2000
"""Characters of an error's name, and of its message, that are kept."""
MOST_COLORS = 1000
"""Terminal codes in one text that become colors; with more than that, nbconvert takes too long."""
MESSAGE_COST = 32
"""What each message costs besides its text, so that a million of empty ones end too."""
PICTURES_PER_CELL = 5
"""How many pictures of the largest size one cell may keep."""
TEXTS_WORK = 3
"""How many of the most costly texts a notebook's text cells may cost together."""
SMALL = 500
"""Bytes of a cell's outputs, or of its text, that are not worth cutting."""
MOST_NAME = 200
"""Characters of an attachment's name."""

TERMINAL_CODE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Collected:
    """One cell's outputs, as they come from its guest.

    Parameters
    ----------
    limits : Limits
        `output_kb` and `picture_kb` bound what is kept.
    room : int
        How much is kept at most, whatever the limits say: what other cells of the notebook left.
    """

    def __init__(self, limits: Limits, room: int):
        self.most_picture = limits.picture_kb << 10
        room = max(room, 0)
        self._most_characters = min(limits.output_kb << 10, room)
        self._most_pictures = min(PICTURES_PER_CELL * self.most_picture, room)
        self.characters_left, self.pictures_left = self._most_characters, self._most_pictures
        self.work_left = markup.MOST_WORK
        self.outputs: list[Cell] = []
        self.cut = False

    @property
    def kept(self) -> int:
        """How many characters, and bytes of pictures, are kept."""
        characters = self._most_characters - max(self.characters_left, 0)
        return characters + self._most_pictures - self.pictures_left

    def add(self, raw: Any) -> None:
        """Add one output, bounded and inert."""
        self.characters_left -= MESSAGE_COST
        kind = raw.get("output_type") if isinstance(raw, dict) else None
        if kind == "clear":
            self.outputs = []
        elif self.characters_left <= 0 or len(self.outputs) >= MOST_OUTPUTS:
            self.cut = True
        elif kind == "stream":
            name = "stderr" if raw.get("name") == "stderr" else "stdout"
            self._stream(name, self._printed(raw.get("text")))
        elif kind == "error":
            self._error(raw)
        elif kind in ("display_data", "execute_result") and isinstance(raw.get("data"), dict):
            data = self._bundle(raw["data"])
            if data:
                self.outputs.append(new_output(kind, data=data, metadata={}))

    def _text(self, text: Any, most: int | None = None) -> str:
        text = text if isinstance(text, str) else ""
        room = max(self.characters_left, 0)
        if most is not None:
            room = min(room, most)
        if len(text) > room:
            text = text[:room]
            self.cut = True
        self.characters_left -= len(text)
        if text.count("\x1b") > MOST_COLORS:
            text = without_codes(text)
        return valid(text)

    def _printed(self, text: Any, most: int | None = None) -> str:
        return printed(self._text(text, most))

    def _stream(self, name: str, text: str) -> None:
        last = self.outputs[-1] if self.outputs else None
        if last is not None and last.output_type == "stream" and last.name == name:
            last.text += text
        elif text:
            self.outputs.append(new_output("stream", name=name, text=text))

    def _error(self, raw: dict[str, Any]) -> None:
        name = self._printed(str(raw.get("ename")), MOST_LABEL)
        value = self._printed(str(raw.get("evalue")), MOST_LABEL)
        lines = raw.get("traceback")
        if not isinstance(lines, list):
            lines = []
        trace = [self._printed(line) for line in lines[:MOST_LINES]]
        self.outputs.append(new_output("error", ename=name, evalue=value, traceback=trace))

    def _bundle(self, raw: dict[str, Any]) -> dict[str, str]:
        data: dict[str, str] = {}
        for mime, value in list(raw.items())[:MOST_OUTPUTS]:
            if not isinstance(value, str):
                continue
            if mime in SAFE_TEXT:
                data[mime] = self._printed(value)
            elif mime in markup.MAGIC:
                data.update(self._picture(value))
            elif mime == "image/svg+xml":
                data.update(self._drawing(value))
            elif mime == "text/html":
                data[mime] = self._inert(value, markup.html_work, markup.inert_html)
            elif mime == "text/markdown":
                shown = self._inert(
                    value, markdown.markdown_work, lambda text: markdown.inert_markdown(text)[0]
                )
                data.setdefault("text/html", shown)
        return data

    def _inert(self, value: str, work: Callable[[str], int], inert: Callable[[str], str]) -> str:
        text = self._text(value)
        self.work_left -= work(text)
        return inert(text) if self.work_left >= 0 else markup.plain_text(text, markup.TOO_LARGE)

    def _picture(self, value: str) -> dict[str, str]:
        """Return a picture, by what its bytes are and not by what it is called."""
        if len(value) > self.most_picture * 2:
            self.cut = True
            return {"text/plain": str(CUT)}
        picture = markup.picture_bytes(value)
        mime = markup.picture_type(picture) if picture is not None else None
        if picture is None or mime is None:
            return {}
        if len(picture) > min(self.most_picture, self.pictures_left):
            self.cut = True
            return {"text/plain": str(CUT)}
        self.pictures_left -= len(picture)
        text = "".join(value.split())
        if mime in PAGE_PICTURES:
            return {mime: text}
        return {"text/html": markup.as_picture(mime, text)}

    def _drawing(self, value: str) -> dict[str, str]:
        """Return an SVG as a picture: in an `img`, a browser runs none of its scripts and
        fetches nothing.
        """
        encoded = markup.as_base64(value)
        if len(encoded) > min(self.most_picture, self.pictures_left):
            self.cut = True
            return {"text/plain": str(CUT)}
        self.pictures_left -= len(encoded)
        return {"text/html": markup.as_picture("image/svg+xml", encoded)}


def clean_attachments(
    attachments: Any, limits: Limits
) -> tuple[dict[str, dict[str, str]], list[Message]]:
    """Return the pictures among a text cell's attachments, and a sentence for each attachment that
    is left out.

    Parameters
    ----------
    attachments : dict
        Whatever the submitted cell had there: by name, a bundle of base64 texts by MIME type.
    limits : Limits
        `picture_kb` bounds each picture, and five times that all of them.

    Returns
    -------
    tuple
        The attachments, `{name: {mime: base64 text}}`, and a `Message` for each picture that was
        left out.
    """
    most = limits.picture_kb << 10
    room = PICTURES_PER_CELL * most
    pictures: dict[str, dict[str, str]] = {}
    notes: list[Message] = []
    for name, bundle in attachments.items() if isinstance(attachments, dict) else ():
        mime, text = _picture_in(bundle)
        size = len(text) * 3 // 4
        if not _is_plain_name(name):
            reason = Message("its name is none that Jupyter gives")
        elif mime is None:
            reason = Message("it is no PNG, JPEG, GIF or WebP")
        elif size > most:
            sizes = {"size": size >> 10, "most": limits.picture_kb}
            reason = Message("it has {size} KB; {most} KB is the most", **sizes)
        elif size > room or len(pictures) >= MOST_OUTPUTS:
            reason = Message("the cell has more pictures than are kept")
        else:
            pictures[name] = {mime: text}
            room -= size
            continue
        note = "The picture {name} was left out: {reason}."
        if len(notes) <= MOST_NOTES:
            notes.append(Message(note, name=line(str(name), MOST_NAME), reason=reason))
    return pictures, notes


def _picture_in(bundle: Any) -> tuple[str | None, str]:
    """Return the type and the base64 text of the first picture in a bundle, by its bytes; (None,
    "") without one.
    """
    for value in bundle.values() if isinstance(bundle, dict) else ():
        lines = value if isinstance(value, list) else [value]
        if all(isinstance(line, str) for line in lines):
            text = "".join("".join(lines).split())
            data = markup.picture_bytes(text)
            mime = markup.picture_type(data) if data is not None else None
            if mime is not None:
                return mime, text
    return None, ""


def _is_plain_name(name: object) -> bool:
    """Tell whether an attachment's name leads to no other folder: some programs write
    attachments to files.
    """
    return (
        isinstance(name, str)
        and 0 < len(name) <= MOST_NAME
        and name.isprintable()
        and not name.startswith(".")
        and not any(mark in name for mark in "/\\")
    )


def clean_markdown(cells: Iterable[Cell], limits: Limits) -> list[Message]:
    """Make a student's text cells inert; those that hold only text, formulas, links and pictures
    stay as they are.

    Parameters
    ----------
    cells : iterable of NotebookNode
        The cells that a student may have written. Their attachments are cleaned too.
    limits : Limits
        See `clean_attachments`.

    Returns
    -------
    list of Message
        A sentence for each picture that was left out, up to `MOST_NOTES` and one more.
    """
    notes: list[Message] = []
    with code.limited_coloring():
        for note in _clean_texts(cells, limits):
            if len(notes) <= MOST_NOTES:
                notes.append(note)
    return notes


def _clean_texts(cells: Iterable[Cell], limits: Limits) -> Iterator[Message]:
    work_left = TEXTS_WORK * markup.MOST_WORK
    for cell in cells:
        if cell.cell_type == "raw":
            for name in ("raw_mimetype", "format"):
                cell.metadata.pop(name, None)
        if cell.cell_type != "markdown":
            continue
        attachments, notes = clean_attachments(cell.pop("attachments", {}), limits)
        yield from notes
        work_left -= markdown.markdown_work(cell.source)
        if work_left < 0:
            cleaned, harmless = markup.plain_text(cell.source, markup.TOO_LARGE), False
        else:
            cleaned, harmless = markdown.inert_markdown(cell.source, attachments)
        if not harmless:  # the HTML contains the pictures now
            cell.source = markup.as_markdown(cleaned)
        elif attachments:
            cell["attachments"] = nbformat.from_dict(attachments)


def bound(notebook: Notebook, limits: Limits, is_ours: Callable[[Cell], bool]) -> bool:
    """Cut a graded notebook down to `graded_mb`; a line in the place of each cut says so.

    The largest outputs are cut first and then, where that is not enough, the largest texts.

    Parameters
    ----------
    notebook : NotebookNode
        Is changed.
    limits : Limits
        `graded_mb` is the most.
    is_ours : callable
        Returns whether a cell, with its outputs, is the course's: then it is not cut.

    Returns
    -------
    bool
        Whether anything was cut.
    """
    most = int(limits.graded_mb * 1_000_000)
    total = size_of(notebook)
    if total <= most:
        return False
    students = [cell for cell in notebook.cells if not is_ours(cell)]
    for size, cut in ((_outputs_size, cut_outputs), (_source_size, cut_source)):
        for cell in sorted(students, key=size, reverse=True):
            if total <= most or size(cell) <= SMALL:
                break
            before = size_of(cell)
            cut(cell)
            total += size_of(cell) - before
    return True


def _outputs_size(cell: Cell) -> int:
    return size_of(cell.get("outputs", []))


def _source_size(cell: Cell) -> int:
    return size_of(cell.source) + size_of(cell.get("attachments", {}))


def cut_outputs(cell: Cell) -> None:
    """Leave a line in place of a code cell's outputs."""
    if cell.cell_type == "code" and cell.outputs:
        cell.outputs = [new_output("stream", name="stderr", text=f"{CUT_CELL}\n")]


def cut_source(cell: Cell) -> None:
    """Leave a line in place of a cell's text and attachments."""
    cell.source = str(CUT_SOURCE)
    cell.pop("attachments", None)


def size_of(value: Any) -> int:
    """Return how many bytes a value takes in a notebook's file."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def without_codes(text: str) -> str:
    """Return text without a terminal's codes."""
    return TERMINAL_CODE.sub("", text).replace("\x1b", "")

"""The cell at the top of a graded notebook, in which the grader states the outcome of the
submission.
"""

import html
import re
from dataclasses import dataclass

import nbformat

from autograder.checking.words import Message
from autograder.course.cells import OUTCOME_ID, Cell, Notebook
from autograder.grades import records
from autograder.grades.results import Kind

SAID = "autograder"
"""Under this name the cell's metadata have the same as data; nothing of a student's metadata
comes so far.
"""


@dataclass(frozen=True)
class Said:
    """The content of that cell.

    Attributes
    ----------
    kind : Kind
    reason : Message
    notes : list of Message
        Repairs, and other notes for the student.
    evidence : list of str
        Altered or forged parts that were found.
    stops : list of tuple
        The id of each cell that was stopped, and why.
    """

    kind: Kind
    reason: Message
    notes: list[Message]
    evidence: list[str]
    stops: list[tuple[str, Message]]


def cell(said: Said) -> Cell:
    """Return that cell."""
    what = f"<strong>{html.escape(said.kind)}</strong>"
    if str(said.reason):
        what += f": {html.escape(str(said.reason))}"
    notes = [html.escape(str(note)) for note in said.notes]
    paragraphs = "".join(f"<p>{part}</p>" for part in [what, *notes])
    blocks = "".join(f"<pre>{html.escape(lines)}</pre>" for lines in said.evidence)
    # An empty line would end the HTML block that Markdown takes this for.
    source = re.sub(r"\n\s*\n", "\n", paragraphs + blocks).replace("\n", "&#10;")
    made: Cell = nbformat.v4.new_markdown_cell(source)
    made.id = OUTCOME_ID
    made.metadata[SAID] = records.CODEC.unstructure(said)
    return made


def of(notebook: Notebook) -> Said | None:
    """Return the content of a graded notebook's top cell; None if it has none, or one that
    cannot be read.
    """
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.get("id") != OUTCOME_ID:
        return None
    try:
        return records.CODEC.structure(first.metadata[SAID], Said)
    except Exception:  # from before there were such data, or through other hands
        return None

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

METADATA_KEY = "autograder"
"""Under this name the cell's metadata have the same as data; nothing of a student's metadata
comes so far.
"""


@dataclass(frozen=True)
class Summary:
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


def cell(summary: Summary) -> Cell:
    """Return that cell."""
    headline = f"<strong>{html.escape(summary.kind)}</strong>"
    if str(summary.reason):
        headline += f": {html.escape(str(summary.reason))}"
    notes = [html.escape(str(note)) for note in summary.notes]
    paragraphs = "".join(f"<p>{part}</p>" for part in [headline, *notes])
    blocks = "".join(f"<pre>{html.escape(lines)}</pre>" for lines in summary.evidence)
    # An empty line would end the HTML block that Markdown takes this for.
    source = re.sub(r"\n\s*\n", "\n", paragraphs + blocks).replace("\n", "&#10;")
    new: Cell = nbformat.v4.new_markdown_cell(source)
    new.id = OUTCOME_ID
    new.metadata[METADATA_KEY] = records.CODEC.unstructure(summary)
    return new


def summary_of(notebook: Notebook) -> Summary | None:
    """Return the content of a graded notebook's top cell; None if it has none, or one that
    cannot be read.
    """
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.get("id") != OUTCOME_ID:
        return None
    try:
        return records.CODEC.structure(first.metadata[METADATA_KEY], Summary)
    except Exception:  # from before there were such data, or through other hands
        return None

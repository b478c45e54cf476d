"""The cell at the head of a graded notebook that says what happened to it, and a page for want of a better one."""

import html
import re
from typing import Any

import nbformat

from autograder import reasons
from autograder.cells import OUTCOME_ID, Cell, Notebook
from autograder.checking.words import Message, from_dict, to_dict
from autograder.results import Record

SAID = "autograder"
"""Under this name the cell's metadata have the same as data; nothing of a student's metadata comes so far."""

POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""
"""Of a page without style and pictures: nothing that might have been overlooked in it can act."""

MADE_OF = re.compile(r'<meta name="made-of" content="([0-9a-f]+)">')


def cell(
    kind: str,
    reason: Message,
    notes: list[Message],
    evidence: list[str],
    to_read: list[Message],
    stops: list[tuple[str, Message]],
) -> Cell:
    """Return that cell.

    Parameters
    ----------
    kind : str
        The kind of outcome.
    reason : Message
    notes : list of Message
        What was mended, and what else its author should know.
    evidence : list of str
        What was found altered or forged.
    to_read : list of Message
        What waits for a person. A page asks the gradebook for that.
    stops : list of tuple
        The id of each cell that was stopped, and why.
    """
    said = f"<strong>{html.escape(kind)}</strong>"
    if str(reason):
        said += f": {html.escape(str(reason))}"
    paragraphs = "".join(f"<p>{part}</p>" for part in [said, *(html.escape(str(note)) for note in notes + to_read)])
    blocks = "".join(f"<pre>{html.escape(lines)}</pre>" for lines in evidence)
    # An empty line would end the HTML block that Markdown takes this for.
    source = re.sub(r"\n\s*\n", "\n", paragraphs + blocks).replace("\n", "&#10;")
    made = nbformat.v4.new_markdown_cell(source)
    made.id = OUTCOME_ID
    made.metadata[SAID] = {
        "kind": kind,
        "reason": to_dict(reason),
        "notes": [to_dict(note) for note in notes],
        "evidence": evidence,
        "stops": [[cell_id, to_dict(why)] for cell_id, why in stops],
    }
    return made


def of(notebook: Notebook) -> dict[str, Any] | None:
    """Return what a graded notebook's head says, as data; None where it has no head, or one that cannot be read."""
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.get("id") != OUTCOME_ID:
        return None
    try:
        raw = first.metadata[SAID]
        return {
            "kind": str(raw["kind"]),
            "reason": _message(raw["reason"]),
            "notes": [_message(note) for note in raw["notes"]],
            "evidence": [str(lines) for lines in raw["evidence"]],
            "stops": [(str(cell_id), _message(why)) for cell_id, why in raw["stops"]],
        }
    except Exception:  # from before there were such data, or through other hands
        return None


def _message(raw: Any) -> Message:
    found = from_dict(raw)
    return found if isinstance(found, Message) else Message(str(found))


def made_of(page: str) -> str | None:
    """Return the digest of what a page was made of, as its beginning says it; None where it does not."""
    found = MADE_OF.search(page)
    return found[1] if found else None


def bare_page(record: Record, fault: str) -> str:
    """Return a page in place of one that could not be made: the points, the reasons, and whose fault it is."""
    name = html.escape(record.assignment)
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in reasons.of(record, record.penalty))
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'>{POLICY}<title>{name}</title>"
        f"<h1>{name}: {record.score:g} of {record.max_score:g} points</h1>"
        f"<ul>{lines}</ul><p>The full page could not be made, through our own fault: {html.escape(fault)}</p>"
    )

"""Why a notebook does not define a function, as far as its cells show it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .words import Message

MOST_CODE = 1_000_000
"""Characters of a cell that are looked through; no one writes more by hand."""
MAGIC = re.compile(r"\s*%%(\w{1,40})")
DEFINES = {"time", "capture", "prun"}
"""The cell magics that run a cell in the notebook's own names; all others keep no function of
it.
"""
IN_MAGIC = (
    "{function} is not defined: the cell {cell} begins with `%%{magic}`, which keeps no function "
    "that the cell defines. Delete that line."
)
RAISED = (
    "{function} is not defined. The cell {cell}, which should define it, raised {kind}: {error}"
)


@dataclass(frozen=True)
class Ran:
    """A cell that was run: its name for people, its text and, if it ended in an error, the
    error's kind and text.
    """

    name: str
    source: str
    kind: str = ""
    error: str = ""


def why_undefined(function: str, cells: Sequence[Ran]) -> Message | str:
    """Return why a function is not defined: by the last cell that was meant to define it; "" if
    it does not show.
    """
    name = re.escape(function)
    definition = re.compile(
        rf"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^[ \t]*{name}[ \t]*=[^=]", re.M
    )
    # The quick conditions come first: a student's cell may be long.
    defining = (
        cell
        for cell in reversed(cells)
        if function in cell.source
        and len(cell.source) <= MOST_CODE
        and definition.search(cell.source)
    )
    cell = next(defining, None)
    if cell is None:
        return ""
    # The magic first: such a cell may have run without an error.
    magic = MAGIC.match(cell.source)
    if magic and magic[1] not in DEFINES:
        return Message(IN_MAGIC, function=function, cell=cell.name, magic=magic[1])
    if cell.kind:
        return Message(RAISED, function=function, cell=cell.name, kind=cell.kind, error=cell.error)
    return ""

"""What a submission's cells went on without, as notes for people: packages that are not installed,
and more.

A guest says what that was, and is not trusted: no package is named that is there, and no statement
that its cell does not have.
"""

import re
from typing import Any

from autograder.checking import Report
from autograder.checking.words import Message
from autograder.course import imports
from autograder.course.cells import Cell, grade_id
from autograder.grades.reasons import NOT_INSTALLED
from autograder.sanitize import text

MOST_ENTRIES = 20
"""How many entries a guest may send for one cell."""
MOST_NAME = 60
MOST_CODE = 1_000_000
MOST_NOTES = 6
MOST_CELLS = 6
SKIPPED = "`{statement}` does not work where this was graded, and was skipped. It is in: {cells}."
GOOGLE = re.compile(r"\bgoogle\.[a-z]\w{0,40}")
BESIDE_CODE = str.maketrans("", "", " \t\r\n'\"()\\,;`")
"""What differs between code as it was written, and the same code as Python writes it."""


class MissingPackageNotes:
    """Collects what a submission's cells went on without."""

    def __init__(self) -> None:
        self.packages: dict[str, list[str]] = {}
        self.statements: dict[str, list[str]] = {}

    def add(self, cell: Cell, entries: Any) -> None:
        """Take a guest's entries on a cell that it ran; what no honest guest sends is left out."""
        name = text.line(grade_id(cell) or cell.id, MOST_NAME)
        # Without blanks, quotes and brackets: the guest sends a statement as Python writes it.
        code = cell.source[:MOST_CODE].translate(BESIDE_CODE) if entries else ""
        for entry in entries[:MOST_ENTRIES] if isinstance(entries, list) else ():
            if not (
                isinstance(entry, list)
                and len(entry) == 2
                and all(isinstance(part, str) for part in entry)
            ):
                continue
            # One character more than is shown, so that `_cut` knows that there is more.
            package, statement = (part[: MOST_NAME + 1] for part in entry)
            if package:
                self._add_package(package, name, cell.source)
            elif statement[:MOST_NAME].translate(BESIDE_CODE) in code:
                self._enter(self.statements, text.line(_cut(statement).replace("`", "'")), name)

    def add_errors(self, report: Report) -> None:
        """Take the packages that a function missed only when it was called."""
        for result in report.results:
            values = result.message.values if isinstance(result.message, Message) else {}
            if values.get("kind") == ModuleNotFoundError.__name__:
                package = (
                    str(values.get("error"))
                    .removeprefix("No module named ")
                    .strip("'")[: MOST_NAME + 1]
                )
                self._add_package(package, report.subject)

    def _add_package(self, package: str, cell: str, source: str = "") -> None:
        """Enter a package that a cell lacks, unless it is here, or that is no name."""
        # Many packages share the folder `google`: the note names the one that the cell imports.
        if package == "google" and (whole := GOOGLE.search(source)):
            package = whole[0]
        known = _cut(package) in self.packages
        if known or (len(self.packages) < MOST_NOTES and _is_lacking(package)):
            self._enter(self.packages, _cut(package), cell)

    def _enter(self, entries: dict[str, list[str]], name: str, cell: str) -> None:
        if name in entries or len(entries) < MOST_NOTES:
            cells = entries.setdefault(name, [])
            if cell not in cells and len(cells) < MOST_CELLS:
                cells.append(cell)

    def notes(self) -> list[Message]:
        """Return a sentence for each package, and for each other statement that was left out."""
        return [
            *(
                Message(NOT_INSTALLED, package=name, cells=", ".join(cells))
                for name, cells in self.packages.items()
            ),
            *(
                Message(SKIPPED, statement=line, cells=", ".join(cells))
                for line, cells in self.statements.items()
            ),
        ]


def _is_lacking(package: str) -> bool:
    return all(part.isidentifier() for part in package.split(".")) and not imports.is_installed(
        package
    )


def _cut(line: str) -> str:
    return line if len(line) <= MOST_NAME else f"{line[:MOST_NAME]}…"

"""Handles answers in other cells than the ones provided, and code that Python cannot read."""

import ast
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from autograder.checking.words import Message, joined
from autograder.course.cells import Cell, Notebook, grade_id, is_answer, is_code, is_locked
from autograder.grading.file_kinds import CONFLICT_MARKER

MOST_CODE = 1_000_000
"""Characters that are read as Python: of one cell, and of all that a student added.

No one writes more by hand, and parsing it takes the judge seconds.
"""
MOST_PLACES = 6

ELSEWHERE = (
    "These answers are in added cells, and the cells provided for them are empty or unchanged: "
    "{names}. They count in every check."
)
ODD = (
    "Python does not accept the character {character} ({code}) in {places}: "
    "retype it as {plain}. Text copied from a web page or a document often has such characters."
)
TAKE_OUT = "Python does not accept the character {character} ({code}) in {places}: delete it."
IN_CONFLICT = (
    "There is a merge conflict marker in {places}: keep one side of the conflict, and "
    "delete the markers."
)
PLACE = "line {line} of the cell {cell}"
BLANK = "a plain space"

# Magics, shell commands, and `name?`, which shows help.
FOR_IPYTHON = re.compile(r"(?m)^([ \t]*)(?:[%!].*|[\w.]+\?{1,2}[ \t]*)$")
# Most cell magics make a cell one of another language; these four run Python.
OTHER_LANGUAGE = re.compile(r"%%(?!time\b|timeit\b|capture\b|prun\b)")
ODD_CHARACTER = re.compile(r"invalid (?:non-printable )?character .*?U\+([0-9A-F]{4,6})")
ODD_INDENT = re.compile(r"(?m)^[ \t]*([^\S\x00-\x7f])")
QUOTES = dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033", '"') | dict.fromkeys(
    "\u2018\u2019\u201a\u201b\u2032\u00b4", "'"
)
SIGNS = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-") | {
    "\u00d7": "*",
    "\u00b7": "*",
    "\u22c5": "*",
    "\u00f7": "/",
}
PUNCTUATION = {"\u3001": ",", "\u3002": ".", "\u3010": "[", "\u3011": "]", "\u2026": "..."}
PLAIN = QUOTES | SIGNS | PUNCTUATION
"""The Python characters for those that word processors, web pages and keyboards insert instead."""


def defined_in(cell: Cell) -> set[str]:
    """Return the names of the functions and classes that a code cell defines."""
    if not is_code(cell) or len(cell.source) > MOST_CODE:
        return set()
    try:
        body = ast.parse(cell.source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


# Answers in other cells.


def elsewhere(
    cells: Sequence[Cell], as_released: set[str], released: Notebook, beside: Mapping[str, bytes]
) -> list[Message]:
    """Let answers in other cells than the ones provided count; return a sentence on them.

    A provided cell that was left unchanged would redefine its function as unwritten: if a cell
    above has written it, the unwritten definition is removed. If only a cell below the check has,
    that definition is copied into the provided cell, with what it uses from cells below, so that
    all checks see the same.

    `as_released` has the ids of cells that are as they were released; a cell that is filled here
    is removed from it.
    """
    # The functions that each answer cell should define, if nothing was written there.
    answers = {grade_id(cell): cell for cell in released.cells if is_answer(cell) and is_code(cell)}
    empty = {
        index: defined_in(answers[grade_id(cell)])
        for index, cell in enumerate(cells)
        if grade_id(cell) in answers
        and cell.source.strip() in ("", answers[grade_id(cell)].source.strip())
    }
    names = set[str]().union(*empty.values())
    if not names:
        return []
    written = [index for index in _student_cells(cells, as_released) if index not in empty]
    code = _StudentCode(cells, written, names, beside)
    counted = []
    for index, missing_names in empty.items():
        cell = cells[index]
        check_index = _first_check(cells, index)
        for name in sorted(missing_names):
            # A definition between the cell and its check replaces the unwritten one by itself.
            positions = code.defining[name]
            is_redefined = any(index < at < check_index for at in positions)
            if not positions or is_redefined:
                continue
            source = _Code(cell.source).without(name)
            if positions[0] > check_index:
                texts = code.with_what_it_uses(name, index)
                source = "\n\n".join([*texts, source])
                as_released.discard(cell.id)
            cell.source = source.strip("\n")
            counted.append(name)
    return [Message(ELSEWHERE, names=", ".join(counted))] if counted else []


def _first_check(cells: Sequence[Cell], index: int) -> int:
    """Return the index of the first locked code cell from `index` on, or else of the end."""
    for at in range(index, len(cells)):
        if is_locked(cells[at]) and is_code(cells[at]):
            return at
    return len(cells)


def _student_cells(cells: Sequence[Cell], as_released: AbstractSet[str]) -> Iterator[int]:
    """Yield the indices of the code cells that a student wrote, the shortest first, until
    `MOST_CODE` characters.
    """
    room = MOST_CODE
    positions = [
        at
        for at, cell in enumerate(cells)
        if is_code(cell) and not is_locked(cell) and cell.id not in as_released
    ]
    for at in sorted(positions, key=lambda at: len(cells[at].source)):
        room -= len(cells[at].source)
        if room < 0:
            return
        yield at


class _Code:
    """Code, taken apart into the statements at its top."""

    def __init__(self, source: str):
        source = source.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = source.split("\n")
        try:
            self.body = parse_python(source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.body = []

    def span(self, node: ast.stmt) -> range:
        """Return the lines of a statement, counted from 0."""
        decorators = getattr(node, "decorator_list", [])
        return range(
            min([node.lineno, *(each.lineno for each in decorators)]) - 1,
            node.end_lineno or node.lineno,
        )

    def text(self, node: ast.stmt) -> str:
        """Return the source of a statement."""
        lines = self.span(node)
        return "\n".join(self.lines[lines.start : lines.stop])

    def without(self, name: str) -> str:
        """Return the code without the definition of a name."""
        gone = {
            line
            for node in self.body
            if getattr(node, "name", "") == name
            for line in self.span(node)
        }
        return "\n".join(line for number, line in enumerate(self.lines) if number not in gone)


class _StudentCode:
    """The code that a student wrote: in which cells a function is defined, and what such a
    definition uses.

    Attributes
    ----------
    defining : dict
        The places of the cells that define a function or class, by its name.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        indices: Sequence[int],
        names: set[str],
        beside: Mapping[str, bytes],
    ):
        self.code: dict[int, _Code] = {}
        self.beside = beside
        self.read: dict[str, set[str]] = {}
        self.defining: defaultdict[str, list[int]] = defaultdict(list)
        self.setting: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        # Most students write into the cells provided: no code need be parsed then.
        if (
            not any(name in cells[index].source for index in indices for name in names)
            and not beside
        ):
            return
        for index in sorted(indices):
            self.code[index] = code = _Code(cells[index].source)
            for at, node in enumerate(code.body):
                for name in self._defined_by(node):
                    self.defining[name].append(index)
                for name in self._set_by(node, index):
                    self.setting[name].append((index, at))

    def with_what_it_uses(self, name: str, index: int) -> list[str]:
        """Return the last definition of a name, after what it uses that no cell above `index`
        has.
        """
        last = self.defining[name][-1]
        definitions = [
            at for at, node in enumerate(self.code[last].body) if name in self._defined_by(node)
        ]
        waiting = [(last, definitions[-1])]
        chosen = set[tuple[int, int]]()
        seen = set[str]()
        while waiting:
            statement = waiting.pop()
            if statement in chosen:
                continue
            chosen.add(statement)
            nodes = ast.walk(self._node(statement))
            used = {node.id for node in nodes if isinstance(node, ast.Name)}
            # An `import *` in the same cell may set any name: `_set_by` calls it "* INDEX".
            used.add(f"* {statement[0]}")
            for used_name in used - seen:
                setters = self.setting[used_name]
                # Of several cells that set a name, the last counts, as after running all.
                if setters and setters[0][0] > index:
                    waiting += [setter for setter in setters if setter[0] == setters[-1][0]]
            seen |= used
        written = [self._set_by(self._node(statement), statement[0]) for statement in chosen]
        for written_name in set[str]().union(*written):
            self.setting[written_name].insert(0, (index, 0))  # from now on, it is above
        return [self.code[cell].text(self.code[cell].body[at]) for cell, at in sorted(chosen)]

    def _node(self, statement: tuple[int, int]) -> ast.stmt:
        return self.code[statement[0]].body[statement[1]]

    def _defined_by(self, node: ast.stmt) -> set[str]:
        """Return the names that a statement makes functions or classes: by hand, or out of a
        file handed in.
        """
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return {node.name}
        if isinstance(node, ast.ImportFrom) and not node.level:
            module_names = self._names_of(node.module or "")
            names = {
                alias.asname or alias.name for alias in node.names if alias.name in module_names
            }
            return names | (module_names if node.names[0].name == "*" else set())
        if isinstance(node, ast.Assign):
            value = node.value
            is_imported = isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name)
            is_imported = is_imported and bool(self._names_of(value.value.id))  # type: ignore[attr-defined]
            known = isinstance(value, ast.Name) and value.id in self.defining
            if is_imported or known or isinstance(value, ast.Lambda):
                return {target.id for target in node.targets if isinstance(target, ast.Name)}
        return set()

    def _names_of(self, module: str) -> set[str]:
        """Return the names that a file beside the notebook defines, if it is that module."""
        if module not in self.read:
            path = f"{module.replace('.', '/')}.py"
            data = self.beside.get(path, b"")
            source = data.decode("utf-8", "replace") if len(data) <= MOST_CODE // 10 else ""
            self.read[module] = (
                set[str]().union(*map(self._defined_by, _Code(source).body)) if source else set()
            )
        return self.read[module]

    def _set_by(self, node: ast.stmt, index: int) -> set[str]:
        """Return all names that a statement binds; for an import of everything, a name of its
        cell.
        """
        # The names in a function or class are its own; those in an `if` or `try` are the cell's.
        inside = (
            ast.walk(node)
            if isinstance(node, (ast.If, ast.Try, ast.Assign, ast.AnnAssign))
            else [node]
        )
        names = set[str]()
        for part in inside:
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(part.name)
            elif isinstance(part, (ast.Import, ast.ImportFrom)):
                names |= {(alias.asname or alias.name).partition(".")[0] for alias in part.names}
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                names.add(part.id)
        return {f"* {index}" if name == "*" else name for name in names}


# Code that Python cannot read.


def unreadable(cells: Sequence[Cell], as_released: AbstractSet[str]) -> list[Message]:
    """Return a sentence for each character that Python does not accept, and one for merge
    conflict markers.
    """
    odd: dict[str, list[Message]] = {}
    for index in sorted(_student_cells(cells, as_released)):
        cell = cells[index]
        if cell.source.isascii() and not CONFLICT_MARKER.search(cell.source):
            continue
        fault = _fault_of(cell.source)
        if fault:
            odd.setdefault(fault[0], []).append(
                Message(PLACE, line=fault[1], cell=grade_id(cell) or cell.id)
            )
    return [
        _message_of(character, joined("{left}, {right}", places[:MOST_PLACES]))
        for character, places in odd.items()
    ]


def _fault_of(source: str) -> tuple[str, int] | None:
    """Return the character that keeps Python from reading code, and its line; "<" for the mark
    of a conflict.
    """
    if OTHER_LANGUAGE.match(source):
        return None
    try:
        parse_python(source)
    except SyntaxError as error:
        # Python names the character, except one in an indentation, which we look for.
        odd, mark = ODD_CHARACTER.match(error.msg), CONFLICT_MARKER.search(source)
        if odd and error.lineno:
            return chr(int(odd[1], 16)), error.lineno
        indented = ODD_INDENT.search(source)
        if isinstance(error, IndentationError) and indented:
            return indented[1], source.count("\n", 0, indented.start(1)) + 1
        if mark and mark[0][0] == "<":
            return "<", source.count("\n", 0, mark.start()) + 1
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def _message_of(character: str, places: Message | str) -> Message:
    if character == "<":
        return Message(IN_CONFLICT, places=places)
    name = unicodedata.name(character, "without a name").lower()
    code = f"U+{ord(character):04X}"
    # Full-width letters and signs fold into ASCII; a table has what does not.
    folded = unicodedata.normalize("NFKC", character)
    plain: Message | str = PLAIN.get(
        character, folded if folded.isascii() and folded.strip() else ""
    )
    if unicodedata.category(character) in ("Zs", "Zl", "Zp"):
        plain = Message(BLANK)
    if not str(plain):
        return Message(TAKE_OUT, character=name, code=code, places=places)
    return Message(ODD, character=name, code=code, places=places, plain=plain)


def parse_python(source: str) -> ast.Module:
    """Return code as Python reads it, with `pass` for each line that is IPython's, if it is not
    all Python's; raise SyntaxError if the rest is none either.
    """
    # Not `imports.parsed`: IPython's own translation takes long for many such lines.
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.parse(FOR_IPYTHON.sub(r"\1pass", source))

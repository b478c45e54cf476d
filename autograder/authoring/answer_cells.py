"""The listed answers of an exercise, as the source of the cells that a student would write.

A student's cell can import neither `checking` nor the exercise's modules. So the code that a listed
answer needs from them is copied into its cell.
"""

import ast
import re
import symtable
from functools import cached_property
from pathlib import Path
from typing import cast

from autograder.authoring import loader
from autograder.checking import answer_parts
from autograder.course import imports
from autograder.course.cells import Notebook

# the decorators of `checking` that list an answer
DECLARES = ("misconception", "right", "families")
Definition = ast.FunctionDef | ast.ClassDef
_MARKS = re.compile(r"^[ #]*### (BEGIN|END) SOLUTION\n?", re.M)


class AnswerCells:
    """The answers to one exercise, as the source of the cells that a student would write.

    Parameters
    ----------
    folder : Path
        The exercise in `solutions/`.
    released : nbformat.NotebookNode
        Its notebook, as students get it.
    """

    def __init__(self, folder: Path, released: Notebook) -> None:
        self.name = folder.name
        self.exercise = loader.load(folder)
        self.released = released
        modules = [folder / f"{name}.py" for name in imports.EXERCISE if name != "checks"]
        paths = [Path(answer_parts.__file__), *filter(Path.exists, modules)]
        self.lines = "\n".join(path.read_text(encoding="utf-8") for path in paths).splitlines()
        self.statements: dict[str, ast.stmt] = {}
        for statement in ast.parse("\n".join(self.lines)).body:
            # Names that one of our modules imports from another are already in the text: students
            # do not import them.
            if not _imports_ours(statement):
                self.statements.update(dict.fromkeys(_bound(statement), statement))

    @cached_property
    def solutions(self) -> dict[str, str]:
        """The author's solution for each cell that students write, including text cells, by
        grade id.
        """
        return solutions_in(self.exercise.notebook)

    @cached_property
    def stubs(self) -> dict[str, str]:
        """The cells that students write, as they are released, by grade id."""
        sources = {}
        for cell in self.released.cells:
            metadata = cell.metadata.get("nbgrader", {})
            if metadata.get("solution"):
                sources[metadata["grade_id"]] = cell.source
        return sources

    @cached_property
    def defined(self) -> set[str]:
        """The names that the released notebook defines: imports, given functions, functions to
        be written.
        """
        code = [cell.source for cell in self.released.cells if cell.cell_type == "code"]
        return {
            name
            for source in code
            for statement in ast.parse(source).body
            for name in _bound(statement)
        }

    @property
    def subjects(self) -> list[str]:
        """The names of the functions under test, in order."""
        return self.exercise.subjects

    def listed(self, subject: str, kind: str) -> dict[str, object]:
        """Return the `right` or the `wrong` answers that are listed for a function, in order, by
        name.
        """
        answers = {
            answer.__name__: answer for answer in self.exercise.suite.listed(f"{kind}_for", subject)
        }
        # A function that the exercise's own decorator turns into an answer is not an answer as it
        # is written.
        return {
            name: answers[name]
            for name in answers
            if name in self.statements and _declared(self.statements[name])
        }

    def cell(self, subject: str, answer: str) -> str:
        """Return a listed answer as a student's cell: the imports and helpers that it needs, and
        the function.

        A helper whose name is already used in the notebook is renamed, so that it replaces nothing
        there.
        """
        needed: set[str] = set()
        open_names = [answer]
        while open_names:
            name = open_names.pop()
            if name in self.statements and name not in needed:
                needed.add(name)
                open_names += _used(self._source(self.statements[name]))
        imports = {name for name in needed if _imports(self.statements[name])}
        names = {name: f"my_{name}" for name in needed - imports - {answer} if name in self.defined}
        names[answer] = subject
        parts: list[str] = []
        written: set[ast.stmt] = set()
        for name in sorted(needed - {answer}, key=lambda name: self.statements[name].lineno):
            statement = self.statements[name]
            if statement not in written and not (name in imports and name in self.defined):
                parts.append(_renamed(self._source(statement), names))
            written.add(statement)
        function = _renamed(self._source(self.statements[answer]), names)
        parts.append(_with_docstring(function, self.stubs[subject]))
        return "\n\n\n".join(parts)

    def _source(self, statement: ast.stmt) -> str:
        """Return a statement's source, without the decorators that list it as an answer."""
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        first = statement.lineno
        if decorators and not _declared(statement):
            first = decorators[0].lineno
        return "\n".join(self.lines[first - 1 : statement.end_lineno])


def solutions_in(notebook: Notebook) -> dict[str, str]:
    """Return the solutions in an author's notebook, as students would write them, by grade id."""
    cells = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    return {
        cell.metadata["nbgrader"]["grade_id"]: _MARKS.sub("", cell.source).rstrip()
        for cell in cells
    }


def _declared(statement: ast.stmt) -> bool:
    """Tell whether a statement is a function or a class that `checking` lists as an answer, as
    it is written.
    """
    decorators = getattr(statement, "decorator_list", [])
    functions = [getattr(decorator, "func", decorator) for decorator in decorators]
    return any(getattr(function, "id", None) in DECLARES for function in functions)


def _imports(statement: ast.stmt) -> bool:
    """Tell whether a statement imports, possibly with a replacement for what may be missing."""
    statements = statement.body if isinstance(statement, ast.Try) else [statement]
    return all(isinstance(part, (ast.Import, ast.ImportFrom)) for part in statements)


def _imports_ours(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.ImportFrom)
        and (statement.module or "").partition(".")[0] in imports.OURS
    )


def _bound(statement: ast.stmt) -> list[str]:
    """Return the names that a statement at the level of the module binds."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    return [
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


def _used(source: str) -> set[str]:
    """Return the names that a piece of code uses from its module, or from Python itself."""
    tables = [symtable.symtable(source, "answers", "exec")]
    used: set[str] = set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        module = table.get_type() == "module"
        used |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (module or symbol.is_global())
        }
    return used


def _renamed(source: str, names: dict[str, str]) -> str:
    """Return code with some names replaced by others, where they are used and where they are
    defined.
    """
    lines = source.encode().split(b"\n")
    positions: list[tuple[int, int, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id in names:
            positions.append((node.lineno - 1, node.col_offset, node.id))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in names:
            after = node.col_offset + len("def ")
            line = node.lineno - 1
            column = lines[line].index(node.name.encode(), after)
            positions.append((line, column, node.name))
    for line, column, name in sorted(positions, reverse=True):
        end = column + len(name.encode())
        lines[line] = lines[line][:column] + names[name].encode() + lines[line][end:]
    return b"\n".join(lines).decode()


def _with_docstring(function: str, stub: str) -> str:
    """Return a function with the docstring of the released cell, which students leave in place."""
    written, released = (
        cast(Definition, ast.parse(source).body[-1]) for source in (function, stub)
    )
    if ast.get_docstring(written) or not ast.get_docstring(released):
        return function
    docstring = released.body[0]
    lines, first = function.split("\n"), written.body[0].lineno - 1
    lines[first:first] = stub.split("\n")[docstring.lineno - 1 : docstring.end_lineno]
    return "\n".join(lines)

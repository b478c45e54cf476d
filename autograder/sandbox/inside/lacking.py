"""Lets a student's cell continue without what this machine lacks: a package, a window, a magic.

If an import at the top of a cell fails, each of its names becomes a `NotInstalled`: code that uses
one gets the import's own error. The same is true for an assignment at the top that needs the
package. All other imports raise at once, as in any Python: those in a `try`, an `if` or a function.
"""

import ast
import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

MOST = 20
"""How many of them one cell may name."""
MOST_STATEMENT = 100
FOR_COMFORT = frozenset(
    "autoreload autosave colors conda config gui load_ext matplotlib pip precision pylab "
    "reload_ext".split()
)
"""Magics that change how things look, or what is installed: the rest of a cell runs without
them.
"""
GUARD = """
try:
    pass
except ImportError:
    if not get_ipython().goes_on({names}, {statement!r}):
        raise
"""


class NotInstalled:
    """What an import binds where its package is not installed: each use raises the import's error.

    It looks like nothing else: it has no attributes, is no class, and cannot be tested for truth.
    """

    __slots__ = ("_error",)

    def __init__(self, error: ModuleNotFoundError):
        object.__setattr__(self, "_error", (str(error), error.name))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):  # Python itself looks for these
            raise AttributeError(name)
        _used(self)

    def __repr__(self) -> str:
        return f"<{self._error[1]} is not installed>"


def _used(self: NotInstalled, *arguments: Any, **more: Any) -> NoReturn:
    text, name = object.__getattribute__(self, "_error")
    raise ModuleNotFoundError(text, name=name)


# Python looks for these in the class, not in the object.
for _name in (
    "setattr delattr call getitem setitem delitem contains iter next len bool enter exit array "
    "float int index await mro_entries instancecheck subclasscheck lt le gt ge neg pos abs invert "
    "and rand or ror add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv "
    "rfloordiv mod rmod pow rpow"
).split():
    setattr(NotInstalled, f"__{_name}__", _used)


def bound(statement: ast.stmt) -> list[str] | None:
    """Return the names that an import or an assignment binds: of `import a.b`, `a`; of `from a
    import *`, none.
    """
    if isinstance(statement, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names if alias.name != "*"]
    if isinstance(statement, ast.Assign):
        nodes = [node for target in statement.targets for node in ast.walk(target)]
        names = [node for node in nodes if isinstance(node, ast.Name)]
        return [name.id for name in names if isinstance(name.ctx, ast.Store)]
    return None


def guard(cell: ast.Module) -> None:
    """Let each import, assignment and call at the top of a cell ask the shell, if it fails, whether
    the cell continues.

    A last expression stays as it is: it is displayed.
    """
    displayed = cell.body[-1] if cell.body and isinstance(cell.body[-1], ast.Expr) else None
    body: list[ast.stmt] = []
    for statement in cell.body:
        for part in _one_by_one(statement):
            needs_guard = part is not displayed and _is_guarded(part)
            body.append(_guarded(part) if needs_guard else part)
    cell.body = body


def _one_by_one(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield an import of several packages as several."""
    if not isinstance(statement, ast.Import):
        yield statement
        return
    for alias in statement.names:
        yield ast.copy_location(ast.Import([alias]), statement)


def _is_guarded(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        # A `__future__` import has to come before everything else, and no `try` may be around it.
        return not statement.level and statement.module != "__future__"
    if isinstance(statement, (ast.Assign, ast.Expr)):
        return isinstance(statement.value, (ast.Attribute, ast.Call))
    return isinstance(statement, ast.Import)


def _guarded(statement: ast.stmt) -> ast.Try:
    imports = isinstance(statement, (ast.Import, ast.ImportFrom))
    text = "" if imports else ast.unparse(statement)[:MOST_STATEMENT]
    guarded = ast.parse(GUARD.format(names=bound(statement), statement=text)).body[0]
    assert isinstance(guarded, ast.Try)
    for node in ast.walk(guarded):
        ast.copy_location(node, statement)
    # Instead of `pass`.
    guarded.body = [statement]
    return guarded


class Lacking:
    """What one cell went on without: pairs of a package and the text of a statement, either of
    them perhaps "".
    """

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []

    def add(self, error: BaseException | None, statement: str = "") -> None:
        """Enter a package that is not installed, or a statement that was left out for another
        reason.
        """
        entry = missing_package(error), statement[:MOST_STATEMENT]
        if entry not in self.entries and len(self.entries) < MOST and any(entry):
            self.entries.append(entry)


def missing_package(error: BaseException | None) -> str:
    """Return the package that an error says is not installed; "" if it is another error."""
    # The error may be of a student's own class, with attributes that fail.
    with contextlib.suppress(Exception):
        if isinstance(error, ModuleNotFoundError) and isinstance(error.name, str):
            return error.name[:MOST_STATEMENT]
    return ""

"""What the given cells of a notebook import: the statements to run in a guest, the modules to
load beforehand.
"""

import ast
import functools
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

EXERCISE = ("checks", "specifications", "misconceptions", "right_answers")
"""The modules of one exercise; the last of them only its author has."""

OURS = (*EXERCISE, "checking")
"""The modules of the course: the judge has them, and no guest."""


def statements(cells: Iterable[Any]) -> list[str]:
    """Return the import statements of these cells, each as a text, without those of the course's
    modules.
    """
    return list(dict.fromkeys(line for cell in cells for line in _statements(cell["source"])))


def modules(released: Path) -> list[str]:
    """Return the modules that the given code cells of a released notebook import, up to its last
    check.

    The cells after it draw figures, and no grade waits for them.
    """
    marked = [
        ("".join(cell["source"]), cell["metadata"].get("nbgrader", {}))
        for cell in json.loads(released.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    graded = [index for index, (_, marks) in enumerate(marked) if marks.get("grade")]
    end = 1 + max(graded, default=-1)
    given = [{"source": source} for source, marks in marked[:end] if not marks.get("solution")]
    names = [name for line in statements(given) for name in _names(ast.parse(line).body[0])]
    return list(dict.fromkeys(names))


@functools.lru_cache(1000)
def is_installed(module: str) -> bool:
    """Tell whether Python finds a module here, such as `google.colab`; nothing is imported.

    A module that its package makes only as it is imported, such as `os.path`, counts as installed.
    """
    first, *parts = module.split(".")
    try:
        # Part by part: `find_spec` of a name with dots imports all but the last.
        spec = importlib.util.find_spec(first)
        for depth in range(1, len(parts) + 1):
            if spec is None or spec.submodule_search_locations is None:
                break
            name = ".".join([first, *parts[:depth]])
            spec = importlib.machinery.PathFinder.find_spec(name, spec.submodule_search_locations)
    except (ImportError, ValueError):  # someone replaced the module in `sys.modules`
        return first in sys.modules
    return spec is not None


def parsed(source: str) -> ast.Module:
    """Return a cell's code as a syntax tree, also if it has magics; raise SyntaxError if it is no
    code.
    """
    try:
        return ast.parse(source)
    except SyntaxError:  # perhaps a magic; IPython is imported only then, because it takes long
        from IPython.core.inputtransformer2 import TransformerManager

        return ast.parse(TransformerManager().transform_cell(source))


@functools.lru_cache(1000)
def _statements(source: str) -> list[str]:
    try:
        body = parsed(source).body
    except SyntaxError:
        return []
    return [ast.unparse(node) for node in body if _names(node)]


def _names(node: ast.stmt) -> list[str]:
    """Return the modules that a statement imports and that are not the course's."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        # A relative import may have no module.
        names = [node.module or ""]
    return [] if any(name.partition(".")[0] in OURS for name in names) else names

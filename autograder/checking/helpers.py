"""Which functions of a notebook the code of another one names, in its process or in the text of
its cells.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .modules import run_remote


def names_used(function: Any, helpers: Mapping[str, Any]) -> list[str]:
    """Return the names of those helpers that the code of a function uses, or what it calls of its
    own module.

    They are in the order of `helpers`. A helper that is None is one that the module does not have.
    Another function of the same name, in a module that was imported, is not one of them. A
    student's process can answer anything, and code may name what it never calls: only which
    functions are looked at may depend on this.
    """
    try:
        answer = run_remote(globals_used, function, (dict(helpers),))
    except Exception:  # a student's process may raise anything
        return []
    # It may also answer anything: only names that were asked for count.
    if type(answer) is not list:
        return []
    names = {name for name in answer if type(name) is str}
    return [name for name in helpers if name in names]


def definitions(trees: Iterable[ast.Module], name: str) -> list[ast.AST]:
    """Return what defines a name in the code of cells, and what defines each name that this uses,
    and so on.

    A name that several statements define has all of them: which one counts is known only to who
    runs them.
    """
    defined: dict[str, list[ast.AST]] = {}
    for tree in trees:
        for bound, node in _bindings(tree):
            defined.setdefault(bound, []).append(node)
    nodes: list[ast.AST] = []
    seen, waiting = {name}, [name]
    walked: set[int] = set()
    while waiting:
        for node in defined.get(waiting.pop(), ()):
            if id(node) in walked:  # one statement may bind many names
                continue
            walked.add(id(node))
            nodes.append(node)
            used = _names_read(node) - seen
            seen |= used
            waiting += used
    return nodes


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield each name that code binds in its module, with the statement or, of an import, the
    part that does.
    """
    for part in ast.iter_child_nodes(node):
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield part.name, part
        elif isinstance(part, ast.alias):
            # `import a.b` binds a
            yield part.asname or part.name.partition(".")[0], part
        elif isinstance(part, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            for target in ast.walk(part):
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    yield target.id, part
        else:
            yield from _bindings(part)


def _names_read(node: ast.AST) -> set[str]:
    """Return the names that code reads from its module; a name that a function binds is its own."""
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    read = {part.id for part in names if isinstance(part.ctx, ast.Load)}
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return read
    parameters = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    return read - parameters - {part.id for part in names if isinstance(part.ctx, ast.Store)}


def globals_used(target: "Any", helpers: "dict[str, Any]") -> "list[str]":
    """Return the names of those helpers that the code of a function or a class takes from its
    module.

    What else it takes from there is looked into as well. This runs where the function lives, and
    goes there as text.
    """
    import types

    most = 1000  # names: a bound on the time, whatever the code is
    seen: set[str] = set()
    used: list[str] = []
    waiting = [target]
    while waiting and len(seen) < most:
        value = waiting.pop()
        if isinstance(value, type):
            # `__func__` is the function of a static or class method
            parts = [getattr(part, "__func__", part) for part in vars(value).values()]
            waiting += [part for part in parts if isinstance(part, types.FunctionType)]
            waiting += [base for base in value.__bases__ if base.__module__ == value.__module__]
        if not isinstance(value, types.FunctionType):
            continue
        codes = [value.__code__]
        while codes:
            code = codes.pop()
            # functions, lambdas and comprehensions inside this code
            codes += [part for part in code.co_consts if isinstance(part, types.CodeType)]
            for name in code.co_names:
                if name in seen:
                    continue
                seen.add(name)
                part = value.__globals__.get(name)
                if name in helpers and part is helpers[name]:
                    used.append(name)
                if part is not None and getattr(part, "__module__", None) == value.__module__:
                    waiting.append(part)
    return used

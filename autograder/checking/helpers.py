"""Which functions of a notebook another one calls."""

from collections.abc import Mapping
from typing import Any

from .modules import run_remote


def called_by(function: Any, helpers: Mapping[str, Any]) -> set[str]:
    """Return the names of those helpers that a function, or what it calls of its own module, calls.

    Another function of the same name, in a module that was imported, is none of them.
    """
    try:
        found = run_remote(names_taken, function, (dict(helpers),))
    except Exception:  # of what lives in a student's process anything may come
        return set()
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def names_taken(target: "Any", helpers: "dict[str, Any]") -> "list[str]":
    """Return the names of those helpers that the code of a function or a class takes from its module.

    What else it takes from there is looked into as well. This runs where the function lives, and goes there as text.
    """
    import types

    most = 1000
    seen: set[str] = set()
    found: list[str] = []
    waiting = [target]
    while waiting and len(seen) < most:
        own = waiting.pop()
        if isinstance(own, type):
            waiting += [part for part in vars(own).values() if isinstance(part, types.FunctionType)]
        if not isinstance(own, types.FunctionType):
            continue
        codes = [own.__code__]
        while codes:
            code = codes.pop()
            codes += [part for part in code.co_consts if isinstance(part, types.CodeType)]
            for name in code.co_names:
                if name in own.__globals__ and name not in seen:
                    seen.add(name)
                    value = own.__globals__[name]
                    if value is helpers.get(name, seen):
                        found.append(name)
                    if getattr(value, "__module__", None) == own.__module__:
                        waiting.append(value)
    return found

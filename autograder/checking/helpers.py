"""Which functions of a notebook another one calls."""

from collections.abc import Mapping
from typing import Any

from .modules import run_remote

CALLED, INHERITED = "called", "inherited"


def called_by(function: Any, helpers: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of those helpers that a function, or what it calls of its own module, takes from there.

    Each is `CALLED`, if its name is looked up as the function runs; or `INHERITED`, if a class is derived from it. A
    helper that is None is one that the module does not have. Another function of the same name, in a module that was
    imported, is none of them.
    """
    try:
        found = run_remote(names_taken, function, (dict(helpers),))
    except Exception:  # of what lives in a student's process anything may come
        return {}
    if type(found) is not dict:
        return {}
    return {name: how for name, how in found.items() if name in helpers and how in (CALLED, INHERITED)}


def names_taken(target: "Any", helpers: "dict[str, Any]") -> "dict[str, str]":
    """Return the names of those helpers that the code of a function or a class takes from its module, and how.

    What else it takes from there is looked into as well. This runs where the function lives, and goes there as text.
    """
    import types

    most = 1000
    seen: set[str] = set()
    found: dict[str, str] = {}
    waiting = [target]
    while waiting and len(seen) < most:
        own = waiting.pop()
        if isinstance(own, type):
            waiting += [part for part in vars(own).values() if isinstance(part, types.FunctionType)]
            waiting += [part.__func__ for part in vars(own).values() if isinstance(part, (staticmethod, classmethod))]
            for base in own.__bases__:
                if base.__module__ == own.__module__:
                    waiting.append(base)
                    if base is helpers.get(base.__name__):
                        found[base.__name__] = "inherited"
        if not isinstance(own, types.FunctionType):
            continue
        codes = [own.__code__]
        while codes:
            code = codes.pop()
            codes += [part for part in code.co_consts if isinstance(part, types.CodeType)]
            for name in code.co_names:
                if name in seen:
                    continue
                seen.add(name)
                value = own.__globals__.get(name)
                if name in helpers and value is helpers[name]:
                    found.setdefault(name, "called")
                if value is not None and getattr(value, "__module__", None) == own.__module__:
                    waiting.append(value)
    return found

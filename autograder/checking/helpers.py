"""Which functions of a notebook another one calls."""

from typing import Any

from .modules import run_remote


def called_by(function: Any) -> set[str]:
    """Return the names that a function, and what it calls of its own module, takes from that module."""
    try:
        found = run_remote(names_taken, function, ())
    except Exception:  # of what lives in a student's process anything may come
        return set()
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def names_taken(target: "Any") -> "list[str]":
    """Return the names that the code of a function or a class takes from its module, and that of what these name.

    This runs where the function lives, and goes there as text.
    """
    import types

    most = 1000
    found: dict[str, None] = {}
    waiting = [target]
    while waiting and len(found) < most:
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
                if name in own.__globals__ and name not in found:
                    found[name] = None
                    value = own.__globals__[name]
                    if getattr(value, "__module__", None) == own.__module__:
                        waiting.append(value)
    return list(found)

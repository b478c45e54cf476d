"""The course's own functions and classes in a notebook, each of which notes that it was called."""

import functools
from typing import Any


def noting(name: str, answer: Any, answered: set[str]) -> Any:
    """Return what does as a function or a class does, and adds a name to a set when it is called or
    made.

    Parameters
    ----------
    name : str
    answer : callable
    answered : set of str
    """
    if isinstance(answer, type):
        return _noting_class(name, answer, answered)

    @functools.wraps(answer)
    def function(*arguments: Any, **keywords: Any) -> Any:
        answered.add(name)
        return answer(*arguments, **keywords)

    return function


def _noting_class(name: str, answer: type, answered: set[str]) -> type:
    def make(self: Any, *arguments: Any, **keywords: Any) -> None:
        answered.add(name)
        answer.__init__(self, *arguments, **keywords)  # type: ignore[misc]

    # `inspect.signature` then shows the parameters of the course's class.
    functools.update_wrapper(make, answer.__init__)  # type: ignore[misc]
    same = {
        "__module__": answer.__module__,
        "__qualname__": answer.__qualname__,
        "__doc__": answer.__doc__,
    }
    # A subclass, so that the course's own class stays as it is.
    return type(answer)(answer.__name__, (answer,), {**same, "__init__": make})

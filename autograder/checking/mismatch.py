"""A wrong result and the expected one, as relations compare them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from .subject import twin
from .words import Message

Claims: TypeAlias = Iterable[tuple[Any, Message]]
"""For each finding, a key that another draw must share, and the message."""

MOST_ELEMENTS = 20_000
"""Larger arrays are not looked at."""

CLOSE = 3e-4
"""Numbers count as equal up to this difference, relative to the largest magnitude."""


@dataclass
class Mismatch:
    """One draw in which a check failed.

    Attributes
    ----------
    expected, got : array or None
        What the check compared: of one shape or not.
    what : str or Message
        Their name in messages.
    wrong : array of bool or None
        Which elements are wrong.
    shapes, dtypes : tuple or None
        The expected one and the actual one, where those differ.
    sizes : dict
        The check's names of numbers, such as n_q and d_k.
    arguments : dict
        Those of the last call, by name, as arrays.
    drawn : tuple
        The same as the check drew them.
    intact : bool
        Whether the function left them unchanged.
    changed : str
        The name of the argument that was changed in place.
    result : object
        What the function returned.
    part : int or None
        The index of `got` among the parts of that.
    parts : list of tuple
        Names and expected arrays of a result that is a tuple.
    function : callable
        The function under test.
    call : callable
        Calls it with arrays.
    answer : callable or None
        A right answer.
    modules : tuple or None
        The right one and the one under test, where a module of torch was called.
    steady : bool or None
        Whether both functions return the same in a second call; None before that call.
    wavers : bool
        Whether the right answer does, and the other function does not.
    expected_again : array or None
        The right answer's second result.
    seconds : float
        How long all these calls took.
    """

    expected: np.ndarray | None = None
    got: np.ndarray | None = None
    what: str | Message = "the result"
    wrong: np.ndarray | None = None
    shapes: tuple[Any, ...] | None = None
    dtypes: tuple[Any, ...] | None = None
    sizes: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    drawn: tuple[Any, ...] = ()
    intact: bool = True
    changed: str = ""
    result: Any = None
    part: int | None = None
    parts: list[tuple[str | Message, Any]] = field(default_factory=list)
    function: Any = None
    call: Any = None
    answer: Any = None
    modules: tuple[Any, Any] | None = None
    steady: bool | None = None
    wavers: bool = False
    expected_again: np.ndarray | None = None
    seconds: float = 0.0


def comparable(relation: Callable[[Mismatch, Any, Any], Claims]) -> Callable[[Mismatch], Claims]:
    """Let a relation see only mismatches with two finite arrays of moderate size, the expected
    one not constant.
    """

    def compared(mismatch: Mismatch) -> Claims:
        e, g = mismatch.expected, mismatch.got
        if e is None or g is None or e.size < 2 or not g.size:
            return ()
        if max(e.size, g.size) > MOST_ELEMENTS:
            return ()
        e, g = e.astype(float), g.astype(float)
        if not (np.isfinite(e).all() and np.isfinite(g).all()):
            return ()
        is_constant = np.ptp(e) <= CLOSE * np.abs(e).max()
        if is_constant or equal(g, e):
            return ()
        return relation(mismatch, e, g)

    compared.__doc__ = relation.__doc__
    compared.__name__ = relation.__name__
    return compared


def same_shape(relation: Callable[[Mismatch, Any, Any], Claims]) -> Callable[[Mismatch], Claims]:
    """Do as `comparable`, for arrays of one shape."""

    def compared(mismatch: Mismatch, e: Any, g: Any) -> Claims:
        return relation(mismatch, e, g) if e.shape == g.shape else ()

    compared.__doc__ = relation.__doc__
    compared.__name__ = relation.__name__
    return comparable(compared)


def equal(a: Any, b: Any) -> bool:
    """Tell whether two arrays have one shape and, up to rounding, the same numbers."""
    if a.shape != b.shape or not a.size:
        return False
    scale = np.abs(b).max()
    return bool(np.isfinite(b).all() and (np.abs(a - b) <= CLOSE * scale).all())


def arrays_of(result: Any) -> Any:
    """Return a result, or the parts of one that is a tuple, as arrays of floats."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [array.astype(float) for array in map(np.asarray, parts) if array.dtype.kind in "biuf"]


def twins_of(arguments: Any) -> Any:
    """Return copies of arguments, by name, with the same layout in memory."""
    twins: dict[int, Any] = {}
    return {name: twin(argument, twins, keep_modules=True) for name, argument in arguments.items()}


def refilled(array: Any, numbers: Any) -> Any:
    """Return a copy of an array with other numbers and the same layout; None if its elements
    share memory.
    """
    copied = twin(array, {})
    copied.flags.writeable = True
    copied[...] = numbers
    # Elements that share memory, as after `broadcast_to`, all have the last number written there.
    return copied if np.array_equal(copied, numbers, equal_nan=True) else None

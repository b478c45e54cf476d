"""Counts the memory that a function holds at once beyond its inputs, in a way that is the same on every machine."""

import types
from collections.abc import Callable
from typing import Any

from .expect import Failed, shapes
from .modules import run_remote
from .subject import Subject
from .words import Message

MOST_LINE = 100


def held(target: "Callable[..., Any]", *arguments: "Any") -> "tuple[Any, ...]":
    """Call a function; return its result, its peak memory in bytes, and the largest tensor.

    A storage of torch's counts from where it is first seen until it is gone, however many views share it; those of
    the arguments count nothing. What NumPy and Python hold is counted by `tracemalloc`, in a call of its own, and
    added. This runs where the function lives, and goes there as text, annotations and all.

    Returns
    -------
    tuple
        Result, bytes, shape, dtype as text, and the line of the function's module that made the largest tensor.
    """
    import contextlib
    import linecache
    import sys
    import tracemalloc
    import weakref

    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    home = getattr(target, "__globals__", None)
    inputs = {part.untyped_storage()._cdata for part in arguments if isinstance(part, torch.Tensor)}
    living: dict[Any, Any] = {}
    largest: list[Any] = [0, (), "", ""]
    now = peak = 0

    class Living(weakref.ref["Any"]):
        __slots__ = "name", "size"

    def gone(reference: "Any") -> None:
        nonlocal now
        now -= living.pop(reference.name).size

    def line() -> str:
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals is not home:
            frame = frame.f_back
        return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() if frame else ""

    def see(part: "Any") -> None:
        nonlocal now
        if type(part) in (list, tuple):
            for item in part:
                see(item)
        if not isinstance(part, torch.Tensor):
            return
        storage = part.untyped_storage()
        name, size = storage._cdata, storage.nbytes()
        if name in inputs:
            return
        reference: Any = living.get(name)
        if reference is None:
            reference = living[name] = Living(storage, gone)
            reference.name, reference.size = name, 0
        elif reference.size == size:
            return
        now += size - reference.size
        reference.size = size
        if size > largest[0]:
            largest[:] = size, tuple(part.shape), str(part.dtype).removeprefix("torch."), line()

    class Counting(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # nothing is compiled here, and to skip it takes two seconds of imports

        def __torch_dispatch__(
            self, function: "Any", types: "Any", arguments: "Any" = (), keywords: "Any" = None
        ) -> "Any":
            nonlocal peak
            result = function(*arguments, **(keywords or {}))
            see((*arguments, *(keywords or {}).values(), result))
            peak = max(peak, now)
            return result

    # What is loaded or made once, in a first call, is not held for these inputs: a call of few rows comes before.
    few = [part[..., :3, :].clone() if isinstance(part, torch.Tensor) else part for part in arguments]
    with contextlib.suppress(Exception), Counting():
        target(*few)
    living.clear()
    largest[:], now, peak = [0, (), "", ""], 0, 0
    with Counting():
        result = target(*arguments)
    # NumPy and Python by themselves: both at once take three times as long, and the counting would be counted.
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        target(*arguments)
        others = tracemalloc.get_traced_memory()[1] - before
    finally:
        if not tracing:
            tracemalloc.stop()
    return result, int(peak + max(others, 0)), *largest[1:]


def expect_held(subject: Subject, most: int, *arguments: Any) -> Any:
    """Call the function under test, and fail if it held more than `most` bytes at once; return its result.

    Its inputs do not count, but its result does. For the limits of this method see autograder/README.md.
    """
    told: list[Any] = []

    def measured(*copies: Any) -> tuple[Any, list[Any]]:
        result, *told[:] = _as_told(run_remote(held, subject.function, copies))
        # Two functions did the same if both held enough, or if what was too large looks the same.
        size, shape, dtype, _line = told
        return result, [1, *(n for n in shape if n > 1), dtype] if size > most else [0]

    result, (over, *_) = subject.result(subject.call(arguments, measured, "memory"), subject.name)
    if not over:
        return result
    size, shape, dtype, line = told
    message = Message(
        "{function} held {held} MB at once beyond its inputs of shape {shapes}; {most} MB are enough.",
        function=subject.name,
        shapes=shapes(arguments),
        held=f"{size / 1e6:.1f}",
        most=f"{most / 1e6:.1f}",
    )
    if shape:
        largest = Message("Its largest tensor had shape {shape} and dtype {dtype}", shape=str(shape), dtype=dtype)
        template = "{message} {largest}; it is created in the line `{line}`." if line else "{message} {largest}."
        message = Message(template, message=message, largest=largest, line=line)
    raise Failed(message, explained=True)


def _as_told(told: Any) -> tuple[Any, int, tuple[int, ...], str, str]:
    """Return the result of `held` if it is well-formed: it may come from a student's process."""
    if isinstance(told, (tuple, list)) and len(told) == 5:
        result, size, shape, dtype, line = told
        sizes = (
            isinstance(shape, (tuple, list)) and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape)
        )
        if type(size) is int and size >= 0 and sizes and type(dtype) is str and type(line) is str:
            line = "".join(letter for letter in line if letter.isprintable() and letter != "`")[:MOST_LINE]
            return result, size, tuple(shape), dtype[:20], line
    raise TypeError("its memory could not be counted")

"""Counts the memory that a function holds at once beyond its inputs, in a way that is the same
on every machine.
"""

from typing import Any

from .expect import Failed, shapes
from .modules import run_remote
from .peak_memory import held
from .subject import Subject
from .words import Message

MOST_LINE = 100


def expect_held(subject: Subject, most: int, *arguments: Any) -> Any:
    """Call the function under test, and fail if it held more than `most` bytes at once; return its
    result.

    Its inputs do not count, but its result does. For the limits of this method see
    autograder/README.md.
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
        "{function} held {held} MB at once beyond its inputs of shape {shapes}; {most} MB are "
        "enough.",
        function=subject.name,
        shapes=shapes(arguments),
        held=f"{size / 1e6:.1f}",
        most=f"{most / 1e6:.1f}",
    )
    if shape:
        largest = Message(
            "Its largest tensor had shape {shape} and dtype {dtype}", shape=str(shape), dtype=dtype
        )
        template = (
            "{message} {largest}; it is created in the line `{line}`."
            if line
            else "{message} {largest}."
        )
        message = Message(template, message=message, largest=largest, line=line)
    raise Failed(message, explained=True)


def _as_told(told: Any) -> tuple[Any, int, tuple[int, ...], str, str]:
    """Return the result of `held` if it is well-formed: it may come from a student's process."""
    if isinstance(told, (tuple, list)) and len(told) == 5:
        result, size, shape, dtype, line = told
        sizes = (
            isinstance(shape, (tuple, list))
            and len(shape) <= 32
            and all(type(n) is int and n >= 0 for n in shape)
        )
        if type(size) is int and size >= 0 and sizes and type(dtype) is str and type(line) is str:
            line = "".join(letter for letter in line if letter.isprintable() and letter != "`")[
                :MOST_LINE
            ]
            return result, size, tuple(shape), dtype[:20], line
    raise TypeError("its memory could not be counted")

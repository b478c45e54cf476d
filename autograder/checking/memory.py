"""Counts the memory that a function holds at once beyond its inputs, in a way that is the same
on every machine.
"""

from typing import Any, NamedTuple

from .expect import Failed, shapes
from .modules import run_remote
from .peak_memory import peak_memory
from .subject import Subject
from .words import Message

# Bounds for what a student's process says of its largest tensor. The last two are characters.
MOST_AXES = 32
MOST_DTYPE = 20
MOST_LINE = 100
NOT_COUNTED = "its memory could not be counted"


class Measurement(NamedTuple):
    """The memory of a call, in bytes, and its largest tensor: see `peak_memory.peak_memory`."""

    size: int
    shape: tuple[int, ...]
    dtype: str
    line: str


def expect_held(subject: Subject, most: int, *arguments: Any) -> Any:
    """Call the function under test, and fail if it held more than `most` bytes at once; return its
    result.

    Its inputs do not count, but its result does. For the limits of this method see
    autograder/README.md.
    """
    measurements: list[Measurement] = []

    def measured(*copies: Any) -> tuple[Any, list[Any]]:
        result, measurement = _checked(run_remote(peak_memory, subject.function, copies))
        measurements.append(measurement)
        # This is compared with what a listed answer holds: two functions did the same if neither
        # held too much, or if their largest tensors look the same.
        if measurement.size <= most:
            return result, [0]
        sizes = [n for n in measurement.shape if n > 1]
        return result, [1, *sizes, measurement.dtype]

    call = subject.call(arguments, measured, "memory")
    result, (over, *_) = subject.result(call, subject.name)
    if not over:
        return result
    size, shape, dtype, line = measurements[-1]
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
        template = "{message} {largest}."
        if line:
            template = "{message} {largest}; it is created in the line `{line}`."
        message = Message(template, message=message, largest=largest, line=line)
    raise Failed(message, explained=True)


def _checked(answer: Any) -> tuple[Any, Measurement]:
    """Return the parts of `peak_memory`'s answer if it is well-formed: it may come from a
    student's process.
    """
    if not isinstance(answer, (tuple, list)) or len(answer) != 5:
        raise TypeError(NOT_COUNTED)
    result, size, shape, dtype, line = answer
    if not isinstance(shape, (tuple, list)) or len(shape) > MOST_AXES:
        raise TypeError(NOT_COUNTED)
    if not all(type(n) is int and n >= 0 for n in [size, *shape]):
        raise TypeError(NOT_COUNTED)
    if type(dtype) is not str or type(line) is not str:
        raise TypeError(NOT_COUNTED)
    # A backtick would end the code in the message that quotes the line.
    line = "".join(letter for letter in line if letter.isprintable() and letter != "`")
    return result, Measurement(size, tuple(shape), dtype[:MOST_DTYPE], line[:MOST_LINE])

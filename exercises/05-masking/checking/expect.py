"""Expectations: each either holds, or raises `Failed` with what held, what did not, and where."""

import numpy as np

# Relative to the largest expected magnitude. A right answer may be a loop, an einsum or computed in float32
# inside: those differ by less than 1e-5 for the sizes drawn here. The inputs are drawn so that a wrong answer
# differs by more than 1e-2 (measured in the tests), so 1e-4 lies far from both.
RTOL = 1e-4


class Failed(AssertionError):
    """A check that did not hold: a message, what held before, and the arrays to compare, if any."""

    def __init__(self, message, held=(), expected=None, got=None, wrong=None):
        super().__init__(message)
        self.message = message
        self.held = list(held)
        self.expected, self.got, self.wrong = expected, got, wrong


def as_array(value):
    """Return `value` as a plain numpy array (a copy), or None when it is no array and no number."""
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    if isinstance(value, (np.ndarray, np.generic, bool, int, float)):
        array = np.array(value, subok=False)
        return array if array.dtype.kind in "biuf" else None
    return None


def describe(value):
    """Return a few words that name a value's type, and its shape where it has one."""
    array = as_array(value)
    if value is None:
        return "None (is a `return` missing?)"
    if array is None or not hasattr(value, "shape") or isinstance(value, np.generic):
        name = type(value).__name__
        return f"a {name} of {len(value)}" if isinstance(value, (tuple, list)) else f"a {name}"
    return f"an array of shape {array.shape}"


def shapes(arguments):
    """Return the shapes of a call's arguments, as words: numbers as they are, a function as such."""
    words = []
    for value in arguments:
        if isinstance(value, (bool, int, float)):
            words.append(repr(value))
        else:
            words.append("a function" if callable(value) and not hasattr(value, "shape") else str(np.shape(value)))
    return ", ".join(words)


def expect(condition, message, held=()):
    """Fail with `message` unless `condition` is true."""
    if not condition:
        raise Failed(message, held)


def expect_array(got, shape=None, dtype=None, what="the result"):
    """Fail unless `got` is an array of numbers with this shape and this dtype (where given); return it plain."""
    array = as_array(got)
    if array is None or not hasattr(got, "shape"):
        raise Failed(f"{what} should be an array, and is {describe(got)}.")
    if shape is not None and array.shape != tuple(shape):
        held = []
        if array.ndim == len(shape):
            same = [str(axis) for axis in range(array.ndim) if array.shape[axis] == shape[axis]]
            held = [f"the number of axes ({array.ndim}) is right"]
            if same:
                held.append(f"the size of axis {', '.join(same)} is right")
        raise Failed(f"{what} should have shape {tuple(shape)}, and has {array.shape}.", held)
    if dtype is not None and array.dtype != np.dtype(dtype):
        raise Failed(
            f"{what} should have the inputs' dtype {np.dtype(dtype)}, and has {array.dtype}.",
            [f"the shape {array.shape} is right"] if shape is not None else [],
        )
    return array


def expect_close(got, expected, rtol=RTOL, what="the result"):
    """Fail unless `got` has the shape of `expected` and its values, to `rtol` of the largest magnitude."""
    expected = np.asarray(expected)
    got = expect_array(got, expected.shape, what=what)
    with np.errstate(all="ignore"):
        finite = expected[np.isfinite(expected)]
        scale = np.abs(finite).max(initial=0.0) or 1.0
        same = (np.abs(got.astype(float) - expected) <= rtol * scale) | (got == expected)
    wrong = ~same
    if not wrong.any():
        return
    held = [f"the shape {got.shape} is right"] if got.ndim else []
    if same.any():
        held.append(f"{int(same.sum())} of {same.size} elements are right")
    message = f"{int(wrong.sum())} of {wrong.size} elements of {what} are wrong."
    nans = int(np.isnan(got).sum())
    if nans:
        message += f" {nans} of them are NaN."
    raise Failed(message, held, expected, got, wrong)


def expect_unchanged(subject, names, *arguments):
    """Call the function under test, and fail if it changed one of its arguments in place; `names` names them."""
    subject(*arguments)
    for name, after, before in zip(names, subject.calls[-1].arguments, arguments, strict=True):
        if not np.array_equal(np.asarray(after), np.asarray(before)):
            raise Failed(
                f"The argument {name} was changed in place. Whoever called still needs it: "
                "compute a new array, and avoid +=, -= and out= on arguments."
            )


def expect_raises(kinds, subject, *arguments, because):
    """Fail unless calling `subject` raises one of the exception `kinds`; `because` says what does not fit."""
    wanted = " or ".join(kind.__name__ for kind in kinds)
    error = subject.error(*arguments)
    if error is None:
        raise Failed(
            f"{subject.name} should raise {wanted} for {shapes(arguments)} ({because}), and returned "
            f"{describe(subject.calls[-1].result)}: the caller would never learn of the mistake."
        )
    if not isinstance(error, tuple(kinds)):
        raise Failed(
            f"{subject.name} should raise {wanted} for {shapes(arguments)} ({because}), and raised "
            f"{type(error).__name__}: {error}",
            ["the mistake is noticed"],
        )

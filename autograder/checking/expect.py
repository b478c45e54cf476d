"""Expectations: each one passes, or raises `Failed` with what passed, what failed, and where."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from .draw import read_only
from .shared_with_guest import is_tensor, unusual_kind
from .words import Message, counted, joined

# Relative to the largest expected magnitude. A right answer may be a loop, an einsum or computed in
# float32 inside: those differ by less than 1e-5 for the sizes drawn here. The inputs are drawn so
# that a wrong answer differs by more than 1e-2 (measured in the tests), so 1e-4 lies far from both.
RTOL = 1e-4

# What is worked out with a pencil is asked for to two decimals: rounded, or cut off where rounding
# is a tie.
BY_HAND = 0.0051

# How far a result may be from that in float64, if its numbers are rounded to this dtype in each of
# several steps. A result that is lost in one of the dtypes, such as 0 or NaN, is 1 away or more.
ROUNDED = {"float32": 1e-4, "float16": 0.05, "bfloat16": 0.1}

THE_RESULT = Message("the result")

REPEATED = Message(
    "An earlier call with the same sizes was right. Is something kept from call to call?"
)

NOT_IN_NUMPY = ("torch.bfloat16", "torch.float8_e4m3fn", "torch.float8_e5m2")
"""The dtypes of tensors that arrays cannot have."""

VALUES = {"object": "Python objects", "structured": "records", "str": "text", "bytes": "bytes"}
"""What elements are called that are no numbers."""


class Failed(AssertionError):
    """A failed check: a message, what passed before, and the arrays to compare, if any.

    Parameters
    ----------
    message : str or Message
    held : iterable of str or Message
    expected, got, wrong : numpy.ndarray, optional
        The expected array, the actual one, and where the two differ: all of one shape.
    unit : numpy.ndarray, optional
        The scale that differences were compared with, of a shape that broadcasts to theirs.
    raised : bool
        Whether the function under test raised an unexpected error.
    explained : bool
        Whether the message explains the difference, such as a shape or a missing error, and does
        not only say that numbers are wrong.
    """

    def __init__(
        self,
        message: str | Message,
        held: Iterable[str | Message] = (),
        expected: Any = None,
        got: Any = None,
        wrong: Any = None,
        unit: Any = None,
        raised: bool = False,
        explained: bool = False,
    ):
        super().__init__(message)
        self.message = message
        self.held = list(held)
        self.expected, self.got, self.wrong, self.unit = expected, got, wrong, unit
        # For relations: the arrays that were compared though their shapes differ, the shapes or the
        # dtypes that do, all parts of an expected tuple by name, the name of an argument that was
        # changed in place, and sizes by name that are no local variables of the check.
        self.compared = (expected, got)
        self.shapes: tuple[Any, ...] | None = None
        self.dtypes: tuple[Any, ...] | None = None
        self.parts: list[tuple[str | Message, Any]] = []
        self.changed = ""
        self.sizes: dict[str, int] = {}
        self.raised, self.explained = raised, explained
        self.relation: str | Message = ""  # found by the check itself


@contextlib.contextmanager
def told_by(find: Callable[..., str | Message], *arguments: Any) -> Iterator[None]:
    """If a check fails within this context, add what `find(*arguments)` says about the result.

    If `find` itself raises an error, the failure stays as it is.
    """
    try:
        yield
    except Failed as failure:
        with contextlib.suppress(Exception):
            failure.relation = find(*arguments)
        raise


def as_array(value: Any) -> Any:
    """Return `value` as a plain numpy array (a copy), or None when it is no array and no number."""
    array = as_plain(value)
    return None if array is None else np.array(array)


def as_plain(value: Any) -> Any:
    """Return `value` as a plain numpy array, a view where it can be, or None when it is no array
    and no number.
    """
    if type(value) is not np.ndarray:
        if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
            if unusual_kind(value):
                return None
            # `numpy()` refuses tensors on a GPU, with a graph, or whose sign torch only notes.
            value = value.detach().cpu().resolve_neg()
            value = value.float().numpy() if str(value.dtype) in NOT_IN_NUMPY else value.numpy()
        if not isinstance(value, (np.ndarray, np.generic, bool, int, float)):
            return None
        value = np.asarray(value)  # a subclass, such as a matrix, has operators of its own
    return value if value.dtype.kind in "biuf" else None


def as_row(value: Any) -> Any:
    """Return a list or tuple of Python's own numbers as an array of shape (n,), quickly; None
    when it is no such.
    """
    if not isinstance(value, (list, tuple)):
        return None
    if not all(type(item) in (bool, int, float) for item in value):
        return None
    return as_plain(np.array(value))


def as_numbers(value: Any) -> Any:
    """Return the numbers in `value` in a row, or None when it has others: a number, or lists,
    tuples and arrays.
    """
    if (row := as_row(value)) is not None:
        return row.astype(float)
    if isinstance(value, (list, tuple)):
        rows = [as_numbers(item) for item in value]
        # The zeros are no elements: `concatenate` needs an array, even for an empty list.
        return None if any(row is None for row in rows) else np.concatenate([np.zeros(0), *rows])
    array = as_plain(float(value) if isinstance(value, (Fraction, Decimal)) else value)
    return None if array is None else array.astype(float).ravel()


def has_text(value: Any) -> bool:
    """Tell whether `value` is text, or a list, tuple or array that contains text."""
    if isinstance(value, (list, tuple)):
        return any(has_text(item) for item in value)
    return isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype.kind == "U")


def lives_elsewhere(value: Any) -> bool:
    """Tell whether a value is a handle of an object in another process.

    Such a handle is a `Remote` of `grading/remote.py`, which checks cannot import: an exercise has
    no grader. Its methods, from `_backward` to `_several`, are all that the checks rely on.
    """
    return hasattr(type(value), "_method")


def is_module(value: Any) -> bool:
    """Tell whether a value is a PyTorch module, or a handle of one in another process."""
    return bool(getattr(type(value), "_is_module", hasattr(type(value), "state_dict")))


def describe(value: Any) -> Message:
    """Return a few words that name a value's type, and its shape where it has one: a `Message`."""
    if value is None:
        return Message("None (is a `return` missing?)")
    name = type(value).__name__
    kind = _unusual(value)
    # a tensor of another process is known by its class's name alone
    if kind and (name in ("Tensor", "Parameter") or is_tensor(value)):
        return Message("a {kind} tensor", kind=kind)
    if kind:
        return Message("an array of {kind}", kind=Message(VALUES[kind]) if kind in VALUES else kind)
    array = as_plain(value)
    if array is None or not hasattr(value, "shape") or isinstance(value, np.generic):
        if isinstance(value, (tuple, list)):
            return Message("a {type} of {size}", type=name, size=len(value))
        return Message("a value of type {type}", type=name)
    return Message("an array of shape {shape}", shape=str(array.shape))


def _unusual(value: Any) -> str:
    """Do as `unusual_kind`, also for an array that lives in another process."""
    if lives_elsewhere(value):
        kind: str = getattr(type(value), "_kind_of_values", "")
        return kind
    return unusual_kind(value)


def text_of_error(error: BaseException | None) -> str | Message:
    """Return the text of an exception, without the calls inside torch that led to it."""
    return str(error).partition("\nException raised from ")[0].strip() or Message("no message")


def shapes(arguments: Iterable[Any], named: bool = False) -> str | Message:
    """Return the shapes of a call's arguments, as words: numbers as they are, a function as "a
    function".

    With `named`, a shape reads "an array of shape ...".
    """
    words: list[str | Message] = []
    for value in arguments:
        if isinstance(value, (bool, int, float)):
            words.append(repr(value))
        elif value is None:
            words.append("None")
        elif is_module(value):
            words.append(Message("a module"))
        elif callable(value) and (lives_elsewhere(value) or not hasattr(value, "shape")):
            words.append(Message("a function"))
        elif lives_elsewhere(value) or (named and hasattr(value, "shape")):
            words.append(describe(value))
        else:
            try:
                words.append(str(tuple(np.shape(value))))
            except ValueError:  # a list of parts that are not alike
                words.append(Message("[{items}]", items=shapes(value)))
    return joined("{left}, {right}", words) if words else ""


def expect(condition: Any, message: str | Message, held: Iterable[str | Message] = ()) -> None:
    """Fail with `message`, which says what was expected and what was found, unless `condition`
    is true.
    """
    if not condition:
        raise Failed(message, held, explained=True)


def expect_array(
    got: Any,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    what: str | Message = THE_RESULT,
) -> Any:
    """Fail unless `got` is an array of numbers with this shape and this dtype (where given);
    return it plain.
    """
    array = as_array(got)
    # A number of Python's own is no array: it has no shape.
    if array is None or not hasattr(got, "shape"):
        message = "Expected {what} to be an array, got {found}."
        if _unusual(got):
            message = "Expected {what} to contain real numbers, got {found}."
        raise Failed(Message(message, what=what, found=describe(got)), explained=True)
    if shape is not None and array.shape != tuple(shape):
        raise _wrong_shape(array, tuple(shape), what)
    if dtype is not None and array.dtype != np.dtype(dtype):
        failure = _wrong_dtype(
            array, shape is not None, str(np.dtype(dtype)), str(array.dtype), what
        )
        failure.dtypes = np.dtype(dtype), array.dtype
        raise failure
    return array


def _wrong_dtype(
    array: Any, has_right_shape: bool, expected: str, got: str, what: str | Message
) -> Failed:
    """Return the failure of an array or tensor that should have another dtype."""
    message = "Expected {what} to have dtype {expected}, got {got}."
    passed = [_shape_passed(array)] if has_right_shape else []
    values = {"what": what, "expected": expected, "got": got}
    return Failed(Message(message, **values), passed, explained=True)


def _wrong_shape(array: Any, shape: tuple[int, ...], what: str | Message) -> Failed:
    """Return the failure of an array that should have another shape."""
    passed = []
    if array.ndim == len(shape):
        passed.append(Message("the number of axes ({count}) is right", count=array.ndim))
        same = [str(axis) for axis in range(array.ndim) if array.shape[axis] == shape[axis]]
        if same:
            sizes_passed = counted(
                "the size of axis {axes} is right",
                "the sizes of axes {axes} are right",
                len(same),
                axes=", ".join(same),
            )
            passed.append(sizes_passed)
    message = "Expected {what} to have shape {expected}, got {got}."
    values = {"what": what, "expected": str(shape), "got": str(array.shape)}
    failure = Failed(Message(message, **values), passed, explained=True)
    failure.shapes = shape, array.shape
    return failure


def expect_tensor(
    got: Any,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    what: str | Message = THE_RESULT,
) -> Any:
    """Do as `expect_array`, for a PyTorch tensor and dtype."""
    if not is_tensor(got):
        message = "Expected {what} to be a tensor, got {found}."
        raise Failed(Message(message, what=what, found=describe(got)), explained=True)
    array = expect_array(got, shape, what=what)
    # Of the tensor: the array of a bfloat16 one is float32.
    if dtype is not None and got.dtype != dtype:
        expected, actual = (str(kind).removeprefix("torch.") for kind in (dtype, got.dtype))
        raise _wrong_dtype(array, shape is not None, expected, actual, what)
    return array


def _shape_passed(array: Any) -> Message:
    return Message("the shape {shape} is right", shape=str(array.shape))


def expect_close(
    got: Any, expected: Any, rtol: float = RTOL, what: str | Message = THE_RESULT, unit: Any = None
) -> None:
    """Fail unless `got` has the shape of `expected` and its values, to `rtol` of the largest
    magnitude.

    `unit`, of a shape that broadcasts to theirs, takes the place of the largest magnitude, where
    small numbers count as much as large ones.
    """
    expected = as_array(expected) if is_tensor(expected) else np.asarray(expected)
    try:
        got = expect_array(got, expected.shape, what=what)
    except Failed as failure:
        failure.compared = expected, as_plain(got)
        raise
    with np.errstate(all="ignore"):
        if unit is None:
            finite = expected[np.isfinite(expected)]
            unit = np.abs(finite).max(initial=0.0) or 1.0  # where all is 0, differences as they are
        # Two equal infinities have no difference: it is NaN.
        same = (np.abs(got.astype(float) - expected) <= rtol * unit) | (got == expected)
    if not same.all():
        raise _wrong_elements(got, expected, same, unit, what)


def _wrong_elements(got: Any, expected: Any, same: Any, unit: Any, what: str | Message) -> Failed:
    """Return the failure of an array with wrong elements: those that are not the `same`."""
    wrong = ~same
    passed = [_shape_passed(got)] if got.ndim else []
    if same.any():
        right = int(same.sum())
        passed.append(
            counted(
                "{count} of {size} elements is right",
                "{count} of {size} elements are right",
                right,
                size=same.size,
            )
        )
    message = counted(
        "{count} of {size} elements of {what} is wrong.",
        "{count} of {size} elements of {what} are wrong.",
        int(wrong.sum()),
        size=wrong.size,
        what=what,
    )
    nans = int(np.isnan(got).sum())
    if nans:
        of_them = counted("{count} of them is NaN.", "{count} of them are NaN.", nans)
        message = Message("{left} {right}", left=message, right=of_them)
    return Failed(message, passed, expected, got, wrong, np.asarray(unit), explained=bool(nans))


def expect_by_hand(got: Any, expected: Any, hint: str | Message = "") -> None:
    """Fail unless `got` contains the expected numbers to two decimals, in this order, in any
    container.

    The failure says which number is wrong, but not the right one: the student is still to work that
    out. `hint`, a `Message`, follows it: something that helps with any mistake.
    """
    expected = np.asarray(expected, dtype=float)
    numbers = as_numbers(got)
    if numbers is None or numbers.size != expected.size:
        wanted = counted("{count} number", "{count} numbers", expected.size)
        if numbers is None and has_text(got):
            no_text = "Expected {wanted}, got text. Write the answer without quotation marks."
            raise Failed(Message(no_text, wanted=wanted), explained=True)
        answer = describe(got)
        if numbers is not None:
            answer = counted("{count} number", "{count} numbers", numbers.size)
        message = Message("Expected {wanted}, got {found}.", wanted=wanted, found=answer)
        raise Failed(message, explained=True)
    right = np.abs(numbers - expected.ravel()) <= BY_HAND
    if right.all():
        return
    index = np.argwhere(~right.reshape(expected.shape))[0].tolist()
    template = (
        "The number at index {index} is wrong: {got}." if index else "The number is wrong: {got}."
    )
    message = Message(template, index=str(index), got=f"{numbers[~right][0]:.4g}")
    count = int(right.sum())
    passed = counted(
        "{count} of {size} numbers is right",
        "{count} of {size} numbers are right",
        count,
        size=right.size,
    )
    if hint:
        message = Message("{message} {hint}", message=message, hint=hint)
    raise Failed(message, [passed] if count else [])


def expect_tuple(result: Any, names: Sequence[str]) -> list[Any]:
    """Fail unless `result` is a tuple (or list) of as many arrays as there are names; return them
    plain, in order.

    Parameters
    ----------
    result : object
    names : str or sequence of str
        What to call the parts: "QKV" is short for ("Q", "K", "V").
    """
    if not isinstance(result, (tuple, list)) or len(result) != len(names):
        message = "Expected a tuple of {count} arrays, ({names}), got {found}."
        values = {"count": len(names), "names": ", ".join(names), "found": describe(result)}
        raise Failed(Message(message, **values), explained=True)
    return [expect_array(part, what=name) for part, name in zip(result, names, strict=True)]


class Tested(Protocol):
    """What is under test, as checks ask it: a `Subject` or a `Module`."""

    name: str

    @property
    def calls(self) -> list[Any]:
        """All calls so far."""

    def __call__(self, *arguments: Any) -> Any:
        """Return the result, or raise `Failed`."""

    def ahead(self, cases: Iterable[Sequence[Any]]) -> None:
        """Say with which arguments it is called next."""

    def error(self, *arguments: Any) -> BaseException | None:
        """Return the exception that it raises, or None."""


def expect_agrees(
    subject: Tested,
    specification: Callable[..., Any],
    *arguments: Any,
    names: Sequence[str] = (),
    rtol: float = RTOL,
    unit: Any = None,
) -> None:
    """Call the function under test, and fail unless it returns what `specification` does for the
    same arguments.

    `names` names the parts, where both return a tuple of arrays; see `expect_tuple`. For `rtol` and
    `unit` see `expect_close`.
    """
    expected = specification(*arguments)
    result = subject(*arguments)
    if not names:
        expect_close(result, expected, rtol, unit=unit)
        return
    for part, right, name in zip(expect_tuple(result, names), expected, names, strict=True):
        try:
            expect_close(part, right, rtol, what=name, unit=unit)
        except Failed as failure:
            failure.parts = list(zip(names, map(as_plain, expected), strict=True))
            raise


def expect_all_agree(
    subject: Tested, specification: Callable[..., Any], cases: Iterable[Sequence[Any]], **more: Any
) -> None:
    """Do as `expect_agrees` for one list of arguments after another; all of them are sent ahead
    (`Subject.send_ahead`).
    """
    cases = list(cases)
    _send_ahead(subject, cases)
    for arguments in cases:
        expect_agrees(subject, specification, *arguments, **more)


def _send_ahead(subject: Any, cases: Iterable[Sequence[Any]]) -> None:
    """Say with which arguments a function is called next, where it is asked from afar: see
    `Subject.send_ahead`.
    """
    if hasattr(type(subject), "ahead"):  # not of a function that a check makes around it
        subject.ahead(cases)


def expect_dtypes(subject: Tested, *arguments: Any, names: Sequence[str] = ()) -> None:
    """Fail unless the result has the dtype of the arguments: float32, float64 and float16, one
    after another; and the same values in each, except for rounding.

    Floating-point arrays among the arguments get that dtype, with values that float16 has; others,
    such as a mask, stay as they are. `names` names the parts if the result is a tuple of arrays.
    """
    dtypes = (np.float32, np.float64, np.float16)
    exact = [_converted(argument, np.float16) for argument in arguments]
    cases = [[_converted(argument, dtype) for argument in exact] for dtype in dtypes]
    _send_ahead(subject, cases)
    parts_named: list[str | Message] = list(names) or [THE_RESULT]
    results: list[dict[str, Any]] = [{} for _ in parts_named]
    for dtype, case in zip(dtypes, cases, strict=True):
        result = subject(*case)
        parts = expect_tuple(result, names) if names else [result]
        for in_dtypes, part, name in zip(results, parts, parts_named, strict=True):
            in_dtypes[np.dtype(dtype).name] = expect_array(part, dtype=dtype, what=name)
    for in_dtypes, name in zip(results, parts_named, strict=True):
        expect_as_in_float64(in_dtypes, what=name)


def expect_as_in_float64(results: Mapping[str, Any], what: str | Message = THE_RESULT) -> None:
    """Fail unless results for the same numbers in several dtypes, by its name, are alike, except
    for rounding.

    They are compared with the function's own result in float64, so that a mistake which all dtypes
    share is left to the checks of values.
    """
    exact = as_array(results["float64"])
    for dtype, result in results.items():
        if dtype == "float64":
            continue
        got = as_array(result)
        if got.shape == exact.shape:  # what is NaN or infinite in float64 is left out
            got = np.where(np.isfinite(exact), got, 0)
        of_dtype = Message("{what} in {dtype}", what=what, dtype=dtype)
        expect_close(got, np.where(np.isfinite(exact), exact, 0), ROUNDED[dtype], what=of_dtype)


def expect_tensor_dtypes(
    results: Mapping[Any, Any], shape: Sequence[int], what: str | Message = THE_RESULT
) -> None:
    """Fail unless each result is a tensor of this shape in the dtype that is its key, and they are
    alike, except for rounding.

    The function got the same numbers each time: such as bfloat16 has, if that is one of the dtypes.
    """
    arrays = {
        str(dtype).removeprefix("torch."): expect_tensor(result, shape, dtype, what=what)
        for dtype, result in results.items()
    }
    expect_as_in_float64(arrays, what=what)


def _converted(argument: Any, dtype: Any) -> Any:
    # A mask stays boolean, and indices stay integers.
    floating = isinstance(argument, np.ndarray) and argument.dtype.kind == "f"
    return argument.astype(dtype) if floating else argument


def expect_unchanged(subject: Tested, names: Sequence[str], *arguments: Any) -> None:
    """Call the function under test, and fail if it changed one of its arguments in place;
    `names` names them.
    """
    subject(*arguments)
    for name, after, before in zip(names, subject.calls[-1].arguments, arguments, strict=True):
        if not np.array_equal(np.asarray(after), np.asarray(before)):
            message = (
                "The argument `{name}` was changed in place, but the caller still needs it. "
                "Compute a new array, and avoid +=, -= and out= on arguments."
            )
            failure = Failed(Message(message, name=name), explained=True)
            failure.compared = np.asarray(before), np.asarray(after)
            failure.changed = str(name)
            raise failure


def expect_inputs_kept(subject: Tested, names: Sequence[str], *arguments: Any) -> None:
    """Do as `expect_unchanged`, and call the function once more with arrays that refuse to be
    written to.
    """
    locked = [read_only(value) if isinstance(value, np.ndarray) else value for value in arguments]
    subject.ahead([arguments, locked])
    expect_unchanged(subject, names, *arguments)
    subject(*locked)


def expect_raises(
    kinds: Sequence[type[BaseException]], subject: Tested, *arguments: Any, because: str | Message
) -> None:
    """Fail unless calling `subject` raises one of the exception `kinds`; `because` says what is
    invalid.
    """
    error = subject.error(*arguments)
    if isinstance(error, tuple(kinds)):
        return
    *others, last = [kind.__name__ for kind in kinds]
    wanted: str | Message = last
    if others:
        wanted = joined("{left} or {right}", [joined("{left}, {right}", others), last])
    values: dict[str, Any] = {
        "function": subject.name,
        "wanted": wanted,
        "shapes": shapes(arguments),
        "because": because,
    }
    if error is None:
        message = (
            "Called with {shapes} ({because}), {function} should raise {wanted}, but returned "
            "{found}. The caller would not notice the mistake."
        )
        values["found"] = describe(subject.calls[-1].result)
        raise Failed(Message(message, **values), explained=True)
    message = (
        "Called with {shapes} ({because}), {function} should raise {wanted}, but raised "
        "{kind}: {error}"
    )
    values |= {"kind": type(error).__name__, "error": text_of_error(error)}
    passed = [Message("the function raises an error")]
    raise Failed(Message(message, **values), passed, explained=True)


def expect_all_raise(
    kinds: Sequence[type[BaseException]],
    subject: Tested,
    refused: Iterable[tuple[Sequence[Any], str | Message]],
) -> None:
    """Do as `expect_raises` for one list of arguments, with what does not fit, after another;
    all are sent ahead.
    """
    refused = list(refused)
    subject.ahead([arguments for arguments, _because in refused])
    for arguments, because in refused:
        expect_raises(kinds, subject, *arguments, because=because)

"""Relations: facts about a wrong result compared with the expected one, reported if no listed
answer is the cause.

A relation is searched for in the first draw that failed, and reported only if it also holds in
other draws of the same check, with other sizes and values: a coincidence does not repeat there.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np

from . import responses
from .answer_parts import softmax
from .mismatch import (
    CLOSE,
    MOST_ELEMENTS,
    Claims,
    Mismatch,
    arrays_of,
    comparable,
    equal,
    same_shape,
    twins_of,
)
from .words import Message

PLACES = {-1: "column", -2: "row", -3: "sequence"}
"""The name of an index along an axis, counted from the end."""
ENDS = {"first": Message("first"), "last": Message("last")}


def relate(first: Mismatch, other_draws: Callable[[], list[Mismatch]]) -> str | Message:
    """Return the `Message` of the first relation that holds in a mismatch and in other draws, or
    an empty text.
    """
    return next((message for _, message in confirmed(first, other_draws)), "")


def confirmed(
    first: Mismatch, other_draws: Callable[[], list[Mismatch]]
) -> Iterator[tuple[str, Message]]:
    """Yield the relations that hold in a mismatch and in other draws: the name of each, and its
    message.

    Parameters
    ----------
    first : Mismatch
    other_draws : callable
        Returns the mismatches of other draws. It is called at most once, when there is something to
        confirm.
    """
    others = None
    for relation in RELATIONS:
        with np.errstate(all="ignore"):
            claims = dict(relation(first))
            if not claims:
                continue
            others = other_draws() if others is None else others
            for other in others:
                repeated = dict(relation(other))
                claims = {key: message for key, message in claims.items() if key in repeated}
        # Without another draw, nothing is confirmed.
        if not claims or not others:
            continue
        if relation is a_number and not _vary_across_draws([first, *others]):
            continue
        yield relation.__name__, next(iter(claims.values()))


def single(mismatch: Mismatch) -> bool:
    """Tell whether a single number was expected, and a single number was returned."""
    arrays = (mismatch.expected, mismatch.got)
    return all(array is not None and array.size == 1 for array in arrays)


def _vary_across_draws(mismatches: Sequence[Mismatch]) -> bool:
    """Tell whether the expected and the returned numbers differ from draw to draw: otherwise any
    relation fits.
    """
    expected = {float(mismatch.expected.item()) for mismatch in mismatches}  # type: ignore[union-attr]
    got = {float(mismatch.got.item()) for mismatch in mismatches}  # type: ignore[union-attr]
    return len(expected) > 1 and len(got) > 1


# A relation takes a mismatch and yields, for each finding, a key that another draw must share, and
# a message.


@same_shape
def constant(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is 0, or the same number."""
    if not g.any():
        yield "zero", Message("Every element of {what} is 0.", what=mismatch.what)
    elif np.ptp(g) <= CLOSE * np.abs(g).max():
        yield "alike", Message("Every element of {what} is the same number.", what=mismatch.what)


def _numbers(sizes: dict[str, int]) -> dict[str, float]:
    """Return numbers with a name: well-known constants, and sizes, their roots, and quotients of
    these.
    """
    numbers = {
        "2": 2.0,
        "1 / 2": 0.5,
        "-1": -1.0,
        "ln 2": np.log(2),
        "1 / ln 2": 1 / np.log(2),
        "2 pi": 2 * np.pi,
    }
    # A number that is the value of two sizes has no one name.
    values = list(sizes.values())
    unique = {name: size for name, size in sizes.items() if values.count(size) == 1}
    for name, size in unique.items():
        numbers[name] = size
        numbers[f"1 / {name}"] = 1 / size
        numbers[f"sqrt({name})"] = size**0.5
        numbers[f"1 / sqrt({name})"] = size**-0.5
        numbers[f"sqrt({name}) / 8"] = size**0.5 / 8  # divided by 8, the root of 64, instead
        numbers[f"({name} - 1) / {name}"] = (size - 1) / size  # a variance over n, or over n - 1
        for other, n in unique.items():
            if other != name:
                numbers[f"sqrt({name} / {other})"] = (size / n) ** 0.5
    return numbers


def _factor(e: Any, g: Any) -> Any:
    """Return the one number that turns e into g by multiplication, or None."""
    # The best factor by least squares, which is the exact one if there is one.
    factor = (e * g).sum() / (e * e).sum()
    if abs(factor) > 1e-12 and equal(g, factor * e) and np.count_nonzero(e) > 1:
        return float(factor)
    return None


@same_shape
def multiple(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is multiplied by one number, with a name such as that of a size, or the same
    in every draw.
    """
    factor = _factor(e, g)
    if not factor:
        return
    number, message = f"{factor:.4g}", "Each element of {what} is {factor} times the expected one."
    for text, value in _numbers(mismatch.sizes).items():
        if abs(factor - value) <= CLOSE * abs(value):
            named = "Each element of {what} is {text} = {factor} times the expected one."
            values = {"what": mismatch.what, "factor": number}
            yield (
                ("times", text),
                Message(message, **values)
                if text == number
                else Message(named, **values, text=text),
            )
    yield ("times", f"{factor:.3g}"), Message(message, what=mismatch.what, factor=number)


@same_shape
def other_multiple(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is multiplied by one number, which differs from draw to draw."""
    if factor := _factor(e, g):
        message = "All elements of {what} are off by the same factor, here {factor}."
        yield "times", Message(message, what=mismatch.what, factor=f"{factor:.4g}")


@comparable
def transposed(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The axes are in another order."""
    if not 1 < e.ndim < 5:  # four axes already have 24 orders
        return
    # The first permutation changes nothing.
    for order in list(permutations(range(e.ndim)))[1:]:
        turned = e.transpose(order)
        from_end = tuple(axis - e.ndim for axis in order)
        if equal(g, turned) and not equal(turned, e):
            text = "The axes of {what} are in the wrong order."
            if from_end == (*range(-e.ndim, -2), -1, -2):
                text = "The transpose of {what} is right."
            yield ("order", from_end), Message(text, what=mismatch.what)
        elif e.shape == g.shape and equal(g, turned.reshape(e.shape)) and not equal(g, e):
            text = (
                "The axes of {what} are in the wrong order, and `reshape` or `view` gave it "
                "the right shape."
            )
            yield ("reshaped", from_end), Message(text, what=mismatch.what)


@same_shape
def reversed_along(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The order along one axis is reversed."""
    for axis in range(-e.ndim, 0):
        if e.shape[axis] > 2 and equal(g, np.flip(e, axis)):
            message = "Along axis {axis}, {what} is in reverse order."
            yield ("reversed", axis), Message(message, axis=axis, what=mismatch.what)


@same_shape
def same_for_all(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """All indices of an axis have the same values, but should differ."""
    for axis in range(-e.ndim, 0):
        if e.shape[axis] > 1 and g.any() and _is_repeated(g, axis) and not _is_repeated(e, axis):
            message = "Each {place} of {what} is the same, but they should differ."
            place = name_of_index(axis, e.ndim)
            yield ("same", axis), Message(message, place=place, what=mismatch.what)


def _is_repeated(X: Any, axis: int) -> bool:
    return equal(X, np.broadcast_to(np.take(X, [0], axis), X.shape))


def name_of_index(axis: int, axes: int) -> Any:
    """Return what an index along an axis of an array with so many axes is called."""
    if axes == 1:
        return Message("element")
    if axes == 4 and axis < -2:  # (b, h, n, d)
        return Message("head") if axis == -3 else Message("sequence")
    return Message(PLACES[axis]) if axis in PLACES else Message("index of axis {axis}", axis=axis)


@comparable
def reshaped(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The numbers are right and in order, but the shape is wrong."""
    if g.shape != e.shape and g.size == e.size and equal(g.ravel(), e.ravel()):
        message = "The elements of {what} are right and in the right order, but the shape is wrong."
        yield "reshaped", Message(message, what=mismatch.what)


@same_shape
def misplaced(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """All numbers are there, but in other places: in each row or column, or in the whole."""
    # Few numbers, each many times, are in other places by chance.
    if len(np.unique(e)) <= e.size / 2:
        return
    for axis in range(-1, -e.ndim - 1, -1):
        if e.shape[axis] > 2 and equal(np.sort(g, axis), np.sort(e, axis)):
            message = "Along axis {axis}, {what} has the right numbers in the wrong order."
            yield ("along", axis), Message(message, axis=axis, what=mismatch.what)
    if e.ndim > 1 and equal(np.sort(g, None), np.sort(e, None)):
        message = (
            "All numbers of {what} are right, but in the wrong places. Look at the order of "
            "the axes."
        )
        yield "somewhere", Message(message, what=mismatch.what)


@same_shape
def rows_scaled(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Each row (or column) is the expected one times a factor of its own, or plus a constant."""
    for axis in (-1, -2)[: e.ndim]:
        squares = (e * e).sum(axis, keepdims=True)
        # Of one row, `multiple` says the same in fewer words.
        is_one_row = e.size == e.shape[axis]
        if e.shape[axis] < 3 or is_one_row or squares.min() <= 0:  # a row of zeros has no factor
            continue
        values = {"place": name_of_index(-2 if axis == -1 else -1, e.ndim), "what": mismatch.what}
        factor = (e * g).sum(axis, keepdims=True) / squares
        # Most rows differ from the expected ones, and none is 0.
        is_scaled = (np.abs(factor - 1) > CLOSE).mean() > 0.5 and np.abs(factor).min() > CLOSE
        if is_scaled and equal(g, factor * e):
            message = "Each {place} of {what} is the expected one times a factor of its own."
            yield ("rows scaled", axis), Message(message, **values)
        offset = (g - e).mean(axis, keepdims=True)
        is_shifted = (np.abs(offset) > 10 * CLOSE * np.abs(e).max()).mean() > 0.5
        if is_shifted and equal(g, e + offset):
            message = "Each {place} of {what} is the expected one plus a constant of its own."
            yield ("rows shifted", axis), Message(message, **values)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "1 minus the expected one": lambda e: 1 - e,
    "1 divided by the expected one": lambda e: 1 / e,
    "the absolute value of the expected one": np.abs,
    "the square of the expected one": np.square,
    "the exponential of the expected one": np.exp,
    "the logarithm of the expected one": np.log,
    "the expected one truncated to an integer": np.trunc,
    "the expected one where it is positive, and 0 elsewhere": lambda e: np.maximum(e, 0),
    "the expected one plus 1": lambda e: e + 1,
    "the expected one minus 1": lambda e: e - 1,
}


@same_shape
def transformed(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is a simple function of the expected one."""
    for text, function in TRANSFORMS.items():
        changed = function(e)
        if equal(g, changed) and not equal(changed, e):
            message = "Each element of {what} is {text}."
            yield text, Message(message, what=mismatch.what, text=Message(text))
            return


def _wrong(mismatch: Mismatch, e: Any, g: Any) -> Any:
    if mismatch.wrong is not None and mismatch.wrong.shape == e.shape:
        return mismatch.wrong
    return np.abs(g - e) > CLOSE * np.abs(e).max()


@same_shape
def only_there(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The wrong elements are in one place of an axis: at its ends, or in whole rows or columns."""
    wrong = _wrong(mismatch, e, g)
    if wrong.all() or not wrong.any():
        return
    for axis in range(-e.ndim, 0):
        if e.shape[axis] < 3:
            continue
        others = tuple(other for other in range(e.ndim) if other != axis % e.ndim)
        all_right, all_wrong = (~wrong).all(others), wrong.all(others)
        yield from _at_one_end(mismatch, axis, all_right)
        yield from _up_to_an_index(mismatch, axis, all_right)
        yield from _at_every_other(mismatch, axis, all_right)
        if e.ndim > 1 and all_wrong.any() and (all_right | all_wrong).all():
            text = (
                "Each {place} of {what} is either completely right or completely wrong (wrong: "
                "{count} of {size})."
            )
            values = {"place": name_of_index(axis, e.ndim), "what": mismatch.what}
            message = Message(text, **values, count=int(all_wrong.sum()), size=len(all_wrong))
            yield ("whole", axis), message


def _at_one_end(mismatch: Mismatch, axis: int, good: Any) -> Claims:
    """Only the first or the last index of an axis is wrong, or right; `good` (n,) has those that
    are completely right.
    """
    axes = mismatch.expected.ndim  # type: ignore[union-attr]
    values = {"place": name_of_index(axis, axes), "what": mismatch.what}
    for which, index in (("first", 0), ("last", len(good) - 1)):
        rest = np.arange(len(good)) != index
        if not good[index] and good[rest].all():
            text = "Only the {which} {place} of {what} is wrong."
            yield (which, "wrong", axis), Message(text, which=ENDS[which], **values)
        if good[index] and not good[rest].any():
            text = "Only the {which} {place} of {what} is right."
            yield (which, "right", axis), Message(text, which=ENDS[which], **values)


def _up_to_an_index(mismatch: Mismatch, axis: int, good: Any) -> Claims:
    """One part of an axis is right, and the rest is wrong."""
    values = {"axis": axis, "what": mismatch.what}
    until = int(good.argmin())  # the first wrong index
    if 1 < until < len(good) and not good[until:].any():
        text = (
            "Along axis {axis}, {what} is right up to index {last} and wrong from index {until} on."
        )
        yield ("until", axis), Message(text, **values, last=until - 1, until=until)
    begin = len(good) - int(good[::-1].argmin())  # one after the last wrong index
    if 0 < begin < len(good) - 1 and not good[:begin].any():
        text = "Along axis {axis}, {what} is wrong before index {begin} and right from there on."
        yield ("from", axis), Message(text, **values, begin=begin)


def _at_every_other(mismatch: Mismatch, axis: int, good: Any) -> Claims:
    """Every other index of an axis is wrong."""
    even, odd = good[::2], good[1::2]
    alternates = (even.all() and not odd.any()) or (odd.all() and not even.any())
    if len(good) > 3 and alternates:
        parity = Message("odd") if good[0] else Message("even")
        text = "Along axis {axis}, {what} is wrong only at {which} indices."
        message = Message(text, which=parity, axis=axis, what=mismatch.what)
        yield ("every other", axis, bool(good[0])), message


def zeros(mismatch: Mismatch) -> Claims:
    """The wrong elements are 0."""
    wrong, got = mismatch.wrong, mismatch.got
    if wrong is None or got is None or wrong.shape != got.shape or wrong.all() or not wrong.any():
        return
    if not got[wrong].any():
        yield "zeros", Message("The wrong elements of {what} are all 0.", what=mismatch.what)


@comparable
def another_part(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The result is another part of the expected result, or an unchanged argument."""
    for name, part in mismatch.parts:
        if part is mismatch.expected:
            continue  # it was compared already, and differs
        numbers = part.astype(float)
        if equal(g, numbers) and not equal(numbers, e):
            text = "The values of {what} are those expected for {name}."
            yield ("part", str(name)), Message(text, what=mismatch.what, name=name)
    if mismatch.changed and any(equal(g, array) for array in arrays_of(mismatch.result)):
        text = "The argument `{name}` was overwritten with the result."
        yield "result", Message(text, name=mismatch.changed)
    for name, argument in mismatch.arguments.items():
        has_numbers = isinstance(argument, np.ndarray) and argument.dtype.kind in "fiu"
        if name != mismatch.changed and has_numbers and equal(g, argument.astype(float)):
            text = "The elements of {what} are those of the argument `{name}`."
            yield ("argument", name), Message(text, what=mismatch.what, name=name)


def a_number(mismatch: Mismatch) -> Claims:
    """A single number: a simple function of the expected one, or a multiple by a number with a
    name.
    """
    if mismatch.expected is None or mismatch.got is None or not single(mismatch):
        return
    e = float(mismatch.expected.item())
    g = float(mismatch.got.item())
    # Nothing is a multiple of 0.
    if not np.isfinite([e, g]).all() or abs(e) < 1e-9 or abs(g - e) <= CLOSE * abs(e):
        return
    for text, function in TRANSFORMS.items():
        if abs(g - function(e)) <= CLOSE * abs(g):
            message = "The number in {what} is {text}."
            yield text, Message(message, what=mismatch.what, text=Message(text))
    for text, number in _numbers(mismatch.sizes).items():
        if abs(g / e - number) <= CLOSE * abs(number):
            yield text, Message("The number is {text} times the expected one.", text=text)


def not_finite(mismatch: Mismatch) -> Claims:
    """All elements are NaN or infinite, or the finite ones are right."""
    e, g = mismatch.expected, mismatch.got
    if e is None or g is None or e.shape != g.shape:
        return
    if not g.ndim or g.size > MOST_ELEMENTS or g.dtype.kind != "f":
        return
    lost = ~np.isfinite(g) & np.isfinite(e)
    if not lost.any():
        return
    kind = Message("NaN" if np.isnan(g[lost]).all() else "NaN or infinite")
    # To an absolute tolerance, unless the check has compared elements, with its own.
    right = np.abs(g - e) <= CLOSE
    if mismatch.wrong is not None and mismatch.wrong.shape == e.shape:
        right = ~mismatch.wrong
    if lost.all():
        text = "Every element of {what} is {kind}."
        yield ("all", kind.text), Message(text, what=mismatch.what, kind=kind)
    elif (lost | right).all():
        text = "Where {what} is not {kind}, it is right."
        yield ("else", kind.text), Message(text, what=mismatch.what, kind=kind)


ARGUMENT_CHANGES: dict[str, Callable[[Any], Any]] = {
    "in absolute values": np.abs,
    "with the opposite sign": np.negative,
    "converted to radians": np.radians,
    "divided by its sums over the last axis": lambda X: X / X.sum(-1, keepdims=True),
    "passed through softmax": softmax,
    "set to 1 at the largest number of each row and 0 elsewhere": lambda X: (
        (X.max(-1, keepdims=True) == X) * 1.0
    ),
    "truncated to integers": np.trunc,
    "clipped at 0": lambda X: np.maximum(X, 0),
}


def _variants(arguments: Any, sizes: Any) -> Any:
    """Yield arguments as a mistaken function might take them: a key, a message about them, and
    the arguments.
    """
    names = list(arguments)
    # Each pair is exchanged once: with the names after this one.
    for number, name in enumerate(names, 1):
        yield from _exchanged(arguments, name, names[number:])
        for key, message, value in _other_values(name, arguments[name], sizes):
            yield (*key, name), message, {**arguments, name: value}


def _exchanged(arguments: Any, name: str, later: list[str]) -> Any:
    """Yield arguments in which one is exchanged with a later one, or has the value of another
    one.
    """

    kind = _kind(arguments[name])
    for other, value in arguments.items():
        if other == name or not kind or _kind(value) != kind:
            continue
        if other in later:
            message = Message("`{one}` and `{other}` exchanged", one=name, other=other)
            exchanged = {**arguments, name: value, other: arguments[name]}
            yield ("exchanged", name, other), message, exchanged
        if kind != "int":
            message = Message("`{other}` in place of `{one}`", one=name, other=other)
            yield ("replaced", name, other), message, {**arguments, name: value}


def _kind(value: Any) -> str:
    """Return the kind of numbers that an argument has: an array's dtype's, "int", or "" for
    others.
    """
    if isinstance(value, np.ndarray):
        kind: str = value.dtype.kind
        return kind
    return "int" if type(value) is int else ""


def _other_values(name: str, argument: Any, sizes: Any) -> Any:
    """Yield other values of one argument: a key, a message, and the value."""
    kind = _kind(argument)
    if kind in ("int", "i", "u"):
        for step, sign in ((1, "+ 1"), (-1, "- 1")):
            yield (step,), Message("`{one}` {sign}", one=name, sign=sign), argument + step
    if not isinstance(argument, np.ndarray):
        return
    if kind == "b":
        yield ("not",), Message("`{one}` inverted", one=name), ~argument
        yield ("all",), Message("`{one}` set to True everywhere", one=name), np.ones_like(argument)
    elif kind in ("f", "i", "u") and argument.size:
        for text, change in ARGUMENT_CHANGES.items():
            message = Message("`{one}` {changed}", one=name, changed=Message(text))
            yield (text,), message, change(argument)
        for text, factor in _numbers(sizes).items():
            message = Message("`{one}` times {factor}", one=name, factor=text)
            yield ("times", text), message, argument * factor
    if argument.ndim > 1:
        turned = np.swapaxes(argument, -1, -2)
        yield ("turned",), Message("`{one}` transposed", one=name), turned
        message = Message("`{one}` reshaped instead of transposed", one=name)
        yield ("reshaped",), message, np.swapaxes(argument.reshape(turned.shape), -1, -2)
    for axis in range(-argument.ndim, 0):
        if argument.shape[axis] < 2:
            continue
        place = name_of_index(axis, argument.ndim)
        message = Message("the first {place} of `{one}` repeated for all", place=place, one=name)
        repeated = np.broadcast_to(np.take(argument, [0], axis), argument.shape)
        yield ("first", axis), message, repeated
        message = Message("`{one}` in reverse order along axis {axis}", one=name, axis=axis)
        yield ("reverse", axis), message, np.flip(argument, axis)


def _fitted(arguments: Any, _sizes: Any) -> Any:
    """Yield arguments that do not fit, cut to fit, or with a size of 1 stretched."""
    for name, argument in arguments.items():
        if type(argument) is int:
            yield (-1, name), Message("`{one}` - 1", one=name), {**arguments, name: argument - 1}
    arrays = {name: array for name, array in arguments.items() if isinstance(array, np.ndarray)}
    sizes = sorted({size for array in arrays.values() for size in array.shape})
    for name, array in arrays.items():
        for axis, size in product(range(-array.ndim, 0), sizes):
            n = array.shape[axis]
            if size < n:
                values = {"one": name, "size": size, "axis": axis}
                message = Message("`{one}` cut to size {size} along axis {axis}", **values)
                cut = np.take(array, range(size), axis)
                yield ("cut", axis, name), message, {**arguments, name: cut}
            elif n == 1 and size > 1:
                message = Message("`{one}` repeated along axis {axis}", one=name, axis=axis)
                stretched = np.repeat(array, size, axis)
                yield ("stretched", axis, name), message, {**arguments, name: stretched}


def other_arguments(mismatch: Mismatch) -> Claims:
    """The result is right for other arguments: exchanged, transposed, negated, or cut to fit."""
    if mismatch.answer is None or mismatch.part is None or mismatch.got is None:
        return
    arrays = [value for value in mismatch.arguments.values() if isinstance(value, np.ndarray)]
    if any(array.size > MOST_ELEMENTS for array in [mismatch.got, *arrays]):
        return
    g = mismatch.got.astype(float)
    if not np.isfinite(g).all() or g.size < 2 or np.ptp(g) <= CLOSE * np.abs(g).max():
        return
    expected = None if mismatch.expected is None else mismatch.expected.astype(float)
    # If an error was expected, the right answer raises it for these arguments, but not for others.
    variants = _fitted if expected is None else _variants
    seen = []
    for key, message, changed in variants(mismatch.arguments, mismatch.sizes):
        try:
            result = mismatch.answer(*twins_of(changed).values())
        except Exception:  # noqa: S112 (most changed arguments do not fit)
            continue
        parts = arrays_of(result)
        if expected is None:  # an error was expected: all parts of the result have to agree
            got = arrays_of(mismatch.result)
            fits = len(parts) == len(got) and all(map(equal, got, parts))
        else:
            part = parts[mismatch.part] if mismatch.part < len(parts) else expected
            fits = equal(g, part) and not equal(part, expected)
        if fits and key not in seen:
            seen.append(key)
            # Several draws decide between the claims: only one that is in all of them is reported.
            text = "The values of {what} are those expected for {arguments}."
            yield key, Message(text, what=mismatch.what, arguments=message)


def each_alone(mismatch: Mismatch) -> Claims:
    """Each sequence alone is right, but the batch is not."""
    e, g = mismatch.expected, mismatch.got
    if e is None or e.ndim < 3 or e.shape[0] < 2 or mismatch.call is None or e.size > MOST_ELEMENTS:
        return
    if g is not None and g.shape == e.shape and equal(g.astype(float), e.astype(float)):
        return  # the batch is right, but for its dtype
    batched = {
        name: array
        for name, array in twins_of(mismatch.arguments).items()
        if isinstance(array, np.ndarray) and array.ndim > 2 and array.shape[0] == e.shape[0]
    }
    if not batched:
        return
    for index in range(e.shape[0]):
        alone = {name: array[index] for name, array in batched.items()}
        result = mismatch.call(*{**twins_of(mismatch.arguments), **alone}.values())
        if not any(equal(array, e[index].astype(float)) for array in arrays_of(result)):
            return
    yield "alone", Message("Each sequence on its own is right, but the batch is not.")


def always_one_dtype(mismatch: Mismatch) -> Claims:
    """The dtype is the same for all dtypes of the arguments."""
    if mismatch.dtypes is None or mismatch.call is None:
        return
    dtypes = set()
    for dtype in (np.float16, np.float32, np.float64):
        cast = [
            value.astype(dtype) if _kind(value) == "f" else value
            for value in mismatch.arguments.values()
        ]
        result = mismatch.call(*cast)
        parts = result if isinstance(result, (tuple, list)) else [result]
        dtypes |= {str(part.dtype) for part in parts if hasattr(part, "dtype")}
    if len(dtypes) == 1:
        name = dtypes.pop()
        yield name, Message("The dtype is {dtype} for every dtype of the arguments.", dtype=name)


def shape_in_names(mismatch: Mismatch) -> Claims:
    """The shape of the result, in the check's own names of sizes."""
    if mismatch.shapes is None:
        return
    expected, got = mismatch.shapes
    # `sizes` has no 1, and a long shape is no help.
    if all(size <= 1 for size in got) or len(got) > 5:
        return
    # Of two names with one size, the first that was drawn: the others are replaced.
    names = {size: name for name, size in reversed(mismatch.sizes.items())}
    if any(size in names for size in got):
        expected_text = _shape_in(names, expected)
        got_text = _shape_in(names, got)
        message = "In terms of the sizes, the shape is {came}, but should be {wanted}."
        text = Message(message, came=got_text, wanted=expected_text)
        yield ("shape", got_text, expected_text), text


def _shape_in(names: dict[int, str], shape: Any) -> str:
    """Return a shape as text, with the names of sizes where there are some."""
    parts = [names.get(size, str(size)) for size in shape]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


RELATIONS = [
    responses.another_time,
    responses.memory_layout,
    not_finite,
    a_number,
    multiple,
    another_part,
    transposed,
    other_arguments,
    other_multiple,
    constant,
    same_for_all,
    reshaped,
    transformed,
    reversed_along,
    misplaced,
    rows_scaled,
    each_alone,
    only_there,
    zeros,
    always_one_dtype,
    shape_in_names,
    *responses.LAST_RELATIONS,
]
"""All relations, the most specific first."""

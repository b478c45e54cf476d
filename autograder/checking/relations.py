"""Relations: facts about a wrong result compared with the expected one, reported if no listed answer is the cause.

A relation is searched for in the first draw that failed, and reported only if it also holds in other draws of the
same check, with other sizes and values: a coincidence does not repeat there.
"""

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from . import responses
from .mismatch import CLOSE, MOST, Claims, Mismatch, arrays_of, comparable, equal, same_shape, twins_of
from .words import Message

PLACES = {-1: "column", -2: "row", -3: "sequence"}
"""The name of an index along an axis, counted from the end."""
NAMES = {"first": Message("first"), "last": Message("last"), "sum": Message("sum"), "mean": Message("mean")}


def relate(first: Mismatch, again: Callable[[], list[Mismatch]]) -> str | Message:
    """Return the `Message` of the first relation that holds in a mismatch and in other draws, or an empty text.

    Parameters
    ----------
    first : Mismatch
    again : callable
        Returns the mismatches of other draws. It is called at most once, when there is something to confirm.
    """
    others = None
    with np.errstate(all="ignore"):
        for relation in RELATIONS:
            claims = dict(relation(first))
            if not claims:
                continue
            others = again() if others is None else others
            for other in others:
                held = dict(relation(other))
                claims = {key: message for key, message in claims.items() if key in held}
            if claims and others and (relation is not a_number or _change([first, *others])):
                return next(iter(claims.values()))
    return ""


def single(mismatch: Mismatch) -> bool:
    """Tell whether a single number was expected, and a single number was returned."""
    return all(own is not None and own.size == 1 for own in (mismatch.expected, mismatch.got))


def _change(mismatches: Sequence[Mismatch]) -> bool:
    """Tell whether the expected and the returned numbers differ from draw to draw: otherwise any relation fits."""
    pairs = zip(*[(float(own.expected.item()), float(own.got.item())) for own in mismatches], strict=True)  # type: ignore[union-attr]
    return all(len(set(numbers)) > 1 for numbers in pairs)


# A relation takes a mismatch and yields, for each finding, a key that another draw must share, and a message.


@same_shape
def zero(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is 0."""
    if not g.any():
        yield "zero", Message("Every element of {what} is 0.", what=mismatch.what)


@same_shape
def constant(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is the same number, and not 0."""
    if g.any() and np.ptp(g) <= CLOSE * np.abs(g).max():
        yield "alike", Message("Every element of {what} is the same number.", what=mismatch.what)


@same_shape
def negated(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element has the other sign."""
    if equal(g, -e):
        yield (
            "negated",
            Message("Each element of {what} has the opposite sign.", what=mismatch.what),
        )


def _told_apart(sizes: dict[str, int]) -> dict[str, int]:
    """Return the sizes without those that another one equals: a number could be named after either."""
    values = list(sizes.values())
    return {name: size for name, size in sizes.items() if values.count(size) == 1}


def _named(number: Any, sizes: dict[str, int]) -> Any:
    """Return the ways to write a number with a size or a well-known constant: text by text."""
    made = {
        "2": 2,
        "1 / 2": 0.5,
        "ln 2": np.log(2),
        "1 / ln 2": 1 / np.log(2),
        "1 / ln 10": 1 / np.log(10),
        "2 pi": 2 * np.pi,
    }
    for name, size in _told_apart(sizes).items():
        made |= {name: size, f"1 / {name}": 1 / size, f"sqrt({name})": size**0.5, f"1 / sqrt({name})": size**-0.5}
        for other, count in _told_apart(sizes).items():
            if other != name:
                made |= {f"sqrt({name} / {other})": (size / count) ** 0.5}
        made |= {f"sqrt({name}) / 8": size**0.5 / 8, f"sqrt(sqrt({name}))": size**0.25}
        made |= {f"({name} - 1) / {name}": (size - 1) / size, f"{name} / ({name} - 1)": size / (size - 1)}
    return [text for text, value in made.items() if abs(number - value) <= CLOSE * abs(value)]


def _factor(e: Any, g: Any) -> Any:
    """Return the one number that turns e into g by multiplication, or None."""
    factor = (e * g).sum() / (e * e).sum()
    return float(factor) if abs(factor) > 1e-12 and equal(g, factor * e) and np.count_nonzero(e) > 1 else None


@same_shape
def named_multiple(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is multiplied by a number that has a name: a size, its root, or one over these."""
    factor = _factor(e, g)
    for sign in (1, -1):
        for text in _named(sign * factor, mismatch.sizes) if factor else ():
            text = text if sign > 0 else f"-({text})"
            number = f"{factor:.4g}"
            message = "Each element of {what} is {text} = {factor} times the expected one."
            if text == number:
                message = "Each element of {what} is {factor} times the expected one."
            yield ("times", text), Message(message, what=mismatch.what, text=text, factor=number)


@same_shape
def constant_multiple(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is multiplied by a number that is the same in every draw."""
    factor = _factor(e, g)
    if factor:
        message = "Each element of {what} is {factor} times the expected one."
        yield ("times", f"{factor:.3g}"), Message(message, what=mismatch.what, factor=f"{factor:.4g}")


@same_shape
def multiple(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is multiplied by one number, which differs from draw to draw."""
    factor = _factor(e, g)
    if factor:
        message = "All elements of {what} are off by the same factor, here {factor}."
        yield "times", Message(message, what=mismatch.what, factor=f"{factor:.4g}")


@same_shape
def shifted_by_number(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """One number is added to every element."""
    number = float(np.median(g - e))
    if abs(number) > 10 * CLOSE * np.abs(e).max() and equal(g - e, np.full_like(e, number)):
        message = "Each element of {what} is the expected one plus {number}."
        yield "plus", Message(message, what=mismatch.what, number=f"{number:.4g}")


@comparable
def transposed(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The axes are in another order."""
    for order in list(permutations(range(e.ndim)))[1:] if 1 < e.ndim < 5 else ():
        if equal(g, e.transpose(order)) and not equal(e.transpose(order), e):
            back = tuple(axis - e.ndim for axis in order)
            last = back == (*range(-e.ndim, -2), -1, -2)
            text = "The transpose of {what} is right." if last else "The axes of {what} are in the wrong order."
            yield ("order", back), Message(text, what=mismatch.what)


@same_shape
def reversed_along(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The order along one axis is reversed."""
    for axis in range(-e.ndim, 0):
        if e.shape[axis] > 2 and equal(g, np.flip(e, axis)):
            message = "Along axis {axis}, {what} is in reverse order."
            yield ("reversed", axis), Message(message, axis=axis, what=mismatch.what)


@same_shape
def rolled(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Everything is shifted along one axis, perhaps cyclically."""
    for axis in range(-e.ndim, 0):
        n = e.shape[axis]
        for by in (1, -1, 2, -2):
            if n < abs(by) + 2:
                continue
            wanted, came = np.moveaxis(e, axis, 0), np.moveaxis(g, axis, 0)
            kept = (came[by:], wanted[:-by]) if by > 0 else (came[:by], wanted[-by:])
            if equal(*kept) and not any(equal(wanted[n:], wanted[:-n]) for n in {1, abs(by)}):
                message = "Along axis {axis}, {what} is shifted by {by}."
                yield ("rolled", axis, by), Message(message, axis=axis, what=mismatch.what, by=by)


@same_shape
def first_for_all(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every index of an axis has the values expected at the first."""
    for axis in range(-e.ndim, 0):
        first = np.take(e, [0], axis)
        if (
            e.shape[axis] > 1
            and equal(g, np.broadcast_to(first, e.shape))
            and not equal(e, np.broadcast_to(first, e.shape))
        ):
            message = "Each {place} of {what} equals the first expected {place}."
            yield ("first", axis), Message(message, place=_place(axis, e.ndim), what=mismatch.what)


@same_shape
def same_for_all(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """All indices of an axis have the same values, but should differ."""
    for axis in range(-e.ndim, 0):
        first = np.broadcast_to(np.take(g, [0], axis), e.shape)
        if (
            e.shape[axis] > 1
            and g.any()
            and equal(g, first)
            and not equal(e, np.broadcast_to(np.take(e, [0], axis), e.shape))
        ):
            message = "Each {place} of {what} is the same, but they should differ."
            yield ("same", axis), Message(message, place=_place(axis, e.ndim), what=mismatch.what)


def _place(axis: int, axes: int) -> Any:
    """Return what an index along an axis of an array with so many axes is called."""
    if axes == 1:
        return Message("element")
    if axes == 4 and axis < -2:  # (b, h, n, d)
        return Message("head") if axis == -3 else Message("sequence")
    return Message(PLACES[axis]) if axis in PLACES else Message("index of axis {axis}", axis=axis)


@comparable
def first_alone(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The result is only the first or last index of an axis: the axis is gone, or has size 1."""
    for axis in range(-e.ndim, 0):
        for name, index in (("first", 0), ("last", -1)):
            if e.shape[axis] < 2:
                continue
            for one in (np.take(e, index, axis), np.take(e, [index], axis)):
                if g.shape != e.shape and equal(g, one):
                    message = "Got only the {which} {place} of the expected result."
                    yield (name, axis), Message(message, which=NAMES[name], place=_place(axis, e.ndim))


@comparable
def reduced(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The result is the sum or the mean of the expected values over an axis."""
    for axis in range(-e.ndim, 0):
        if e.shape[axis] < 2:
            continue
        for name, made in (("sum", e.sum(axis, keepdims=True)), ("mean", e.mean(axis, keepdims=True))):
            if any(equal(g, array) for array in (made, made.squeeze(axis), np.broadcast_to(made, e.shape))):
                message = "Each element of {what} is the {name} of the expected ones over axis {axis}."
                yield (name, axis), Message(message, what=mismatch.what, name=NAMES[name], axis=axis)


@comparable
def unreduced(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """There is one axis too many, and the sum or the mean over it is right."""
    if g.ndim != e.ndim + 1:
        return
    for axis in range(-g.ndim, 0):
        if g.shape[axis] < 2:
            continue
        for name, made in (("sum", g.sum(axis)), ("mean", g.mean(axis))):
            if equal(made, e):
                message = "There is one axis too many: the {name} of {what} over axis {axis} is right."
                yield (name, axis), Message(message, what=mismatch.what, name=NAMES[name], axis=axis)


@comparable
def diagonal(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every sequence is combined with every other: there is one axis too many, and its diagonal is right."""
    if (
        g.ndim == e.ndim + 1
        and g.ndim > 2
        and g.shape[0] == g.shape[1] > 1
        and equal(np.moveaxis(np.diagonal(g), -1, 0), e)
    ):
        message = "There is one axis too many: where the first two indices are equal, {what} is right."
        yield "diagonal", Message(message, what=mismatch.what)


@comparable
def reshaped(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The numbers are right and in order, but the shape is wrong."""
    if g.shape != e.shape and g.size == e.size and equal(g.ravel(), e.ravel()):
        message = "The elements of {what} are right and in the right order, but the shape is wrong."
        yield "reshaped", Message(message, what=mismatch.what)


@same_shape
def unnormalised(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The result is right after dividing by its sum over an axis, or after a softmax."""
    for axis in range(-e.ndim, 0):
        total = g.sum(axis, keepdims=True)
        if e.shape[axis] > 1 and np.abs(total).min() > 0 and equal(g / total, e):
            message = "Divided by its sums over axis {axis}, {what} would be right."
            yield ("divide", axis), Message(message, axis=axis, what=mismatch.what)
        powers = np.exp(g - g.max(axis, keepdims=True))
        if e.shape[axis] > 1 and equal(powers / powers.sum(axis, keepdims=True), e):
            message = "The softmax of {what} over axis {axis} would be right."
            yield ("softmax", axis), Message(message, axis=axis, what=mismatch.what)


@same_shape
def normalised(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The expected numbers were normalized over an axis: by their sum or by softmax."""
    for axis in range(-e.ndim, 0):
        if e.shape[axis] < 2:
            continue
        total = e.sum(axis, keepdims=True)
        powers = np.exp(e - e.max(axis, keepdims=True))
        if np.abs(total).min() > CLOSE and equal(g, e / total):
            message = "Each element of {what} is the expected one divided by the sum over axis {axis}."
            yield ("divided", axis), Message(message, what=mismatch.what, axis=axis)
        if equal(g, powers / powers.sum(axis, keepdims=True)):
            message = "The elements of {what} are the softmax of the expected ones over axis {axis}."
            yield ("softmax of", axis), Message(message, what=mismatch.what, axis=axis)


def _sum_to_one(X: Any, axis: int) -> bool:
    return X.shape[axis] > 1 and bool((X > -CLOSE).all()) and equal(X.sum(axis), np.ones_like(X.sum(axis)))


@same_shape
def sums(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The sums are 1 along another axis than expected, or along none."""
    wanted = [axis for axis in range(-e.ndim, 0) if _sum_to_one(e, axis)]
    if wanted != [-1]:
        return
    for axis in range(-e.ndim, -1):
        if _sum_to_one(g, axis) and not _sum_to_one(g, -1):
            message = "The sums of {what} are 1 over axis {axis}, but should be 1 over axis {wanted}."
            yield ("sums", axis), Message(message, what=mismatch.what, axis=axis, wanted=-1)
    if not _sum_to_one(g, -1):
        total = g.sum(-1)
        if equal(total, np.full_like(total, total.flat[0])) and abs(total.flat[0] - 1) > 10 * CLOSE:
            message = "The rows of {what} sum to {total}, but should sum to 1."
            yield ("sum", f"{total.flat[0]:.3g}"), Message(message, what=mismatch.what, total=f"{total.flat[0]:.4g}")
    if g.ndim > 1 and equal(g.sum((-2, -1)), np.ones(g.shape[:-2])) and (g > -CLOSE).all():
        message = "All elements of {what} together sum to 1, but each row should sum to 1."
        yield "all", Message(message, what=mismatch.what)


@same_shape
def rows_scaled(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Each row (or column) is a multiple of the expected one, by a factor of its own."""
    for axis in (-1, -2)[: e.ndim]:
        size = (e * e).sum(axis, keepdims=True)
        if e.shape[axis] < 3 or e.size == e.shape[axis] or size.min() <= 0:
            continue
        factor = (e * g).sum(axis, keepdims=True) / size
        if (np.abs(factor - 1) > CLOSE).mean() > 0.5 and np.abs(factor).min() > CLOSE and equal(g, factor * e):
            place = _place(-2 if axis == -1 else -1, e.ndim)
            message = "Each {place} of {what} is the expected one times a factor of its own."
            yield ("rows scaled", axis), Message(message, place=place, what=mismatch.what)
        offset = (g - e).mean(axis, keepdims=True)
        if (np.abs(offset) > 10 * CLOSE * np.abs(e).max()).mean() > 0.5 and equal(g, e + offset):
            place = _place(-2 if axis == -1 else -1, e.ndim)
            message = "Each {place} of {what} is the expected one plus a constant of its own."
            yield ("rows shifted", axis), Message(message, place=place, what=mismatch.what)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "1 minus the expected one": lambda e: 1 - e,
    "1 divided by the expected one": lambda e: 1 / e,
    "the absolute value of the expected one": np.abs,
    "the square of the expected one": np.square,
    "the square root of the expected one": np.sqrt,
    "the exponential of the expected one": np.exp,
    "the logarithm of the expected one": np.log,
    "the exponential of the expected one, minus 1": np.expm1,
    "the expected one truncated to an integer": np.trunc,
    "the expected one rounded to an integer": np.round,
    "the expected one rounded down": np.floor,
    "the expected one where it is positive, and 0 elsewhere": lambda e: np.maximum(e, 0),
    "the sign of the expected one": np.sign,
    "1 where a nonzero number is expected, and 0 elsewhere": lambda e: (e != 0) * 1.0,
    "the expected one plus 1": lambda e: e + 1,
    "the expected one minus 1": lambda e: e - 1,
}


@same_shape
def transformed(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Every element is a simple function of the expected one."""
    for text, function in TRANSFORMS.items():
        made = function(e)
        if equal(g, made) and not equal(made, e):
            message = "Each element of {what} is {text}."
            yield text, Message(message, what=mismatch.what, text=Message(text))
            return


@same_shape
def in_other_dtype(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The numbers are those of a shorter number format."""
    if equal(g, e):
        return
    with np.errstate(all="ignore"):
        if (np.abs(g - e) <= 2.0**-10 * np.abs(e)).all() and np.array_equal(g, g.astype(np.float16)):
            yield (
                "float16",
                Message("Only three digits of {what} are right, the precision of float16.", what=mismatch.what),
            )


@same_shape
def reordered(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """Along an axis, the expected numbers are in another order."""
    for axis in range(-e.ndim, 0):
        ordered = np.sort(e, axis)
        if e.shape[axis] < 3 or (np.diff(ordered, axis=axis) <= CLOSE * np.abs(e).max()).mean() > 0.05:
            continue  # of equal numbers any order is another one
        if equal(np.sort(g, axis), ordered):
            message = "Along axis {axis}, {what} has the expected numbers in the wrong order."
            yield ("reordered", axis), Message(message, axis=axis, what=mismatch.what)


@same_shape
def cumulated(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The result has the cumulative sums of the expected numbers, or the reverse."""
    for axis in range(-e.ndim, 0):
        if e.shape[axis] > 2 and equal(g, np.cumsum(e, axis)):
            message = "The elements of {what} are the cumulative sums of the expected ones along axis {axis}."
            yield ("running", axis), Message(message, what=mismatch.what, axis=axis)
        if e.shape[axis] > 2 and equal(e, np.cumsum(g, axis)):
            message = "The cumulative sums of {what} along axis {axis} would be right."
            yield ("running of", axis), Message(message, what=mismatch.what, axis=axis)


def _right(mismatch: Mismatch, e: Any, g: Any) -> Any:
    return (
        ~mismatch.wrong
        if mismatch.wrong is not None and mismatch.wrong.shape == e.shape
        else ~(np.abs(g - e) > CLOSE * np.abs(e).max())
    )


def small_ones(mismatch: Mismatch) -> Claims:
    """The wrong elements are the smallest ones."""
    wrong, expected = mismatch.wrong, mismatch.expected
    if wrong is None or expected is None or wrong.shape != expected.shape:
        return
    if not wrong.any() or wrong.all() or wrong.size > MOST:
        return
    size = np.abs(expected.astype(float))
    if not np.isfinite(size).all() or size[wrong].max() >= size[~wrong].min() or not size[wrong].any():
        return
    bound = f"{size[~wrong].min():.2g}"
    if not np.asarray(mismatch.got)[wrong].any():
        yield (
            "small 0",
            Message("Elements of {what} that should be smaller than {bound} are 0.", what=mismatch.what, bound=bound),
        )
    yield (
        "small",
        Message(
            "Only elements of {what} that should be smaller than {bound} are wrong.", what=mismatch.what, bound=bound
        ),
    )


@same_shape
def symmetric(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The result is symmetric, but the expected one is not."""
    if e.ndim > 1 and e.shape[-1] == e.shape[-2] > 2:
        turned = np.swapaxes(g, -1, -2)
        if equal(g, turned) and not equal(e, np.swapaxes(e, -1, -2)) and np.ptp(g) > CLOSE * np.abs(g).max():
            yield "symmetric", Message("The result is symmetric, but should not be.")


@same_shape
def only_there(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The wrong elements are in one place: at the ends of an axis, on the diagonal or to one side of it."""
    right = _right(mismatch, e, g)
    if right.all() or not right.any():
        return
    for axis in range(-e.ndim, 0):
        n = e.shape[axis]
        others = tuple(other for other in range(e.ndim) if other != axis % e.ndim)
        good = right.all(others)
        bad = (~right).all(others)
        if n < 3:
            continue
        along = np.moveaxis(g, axis, 0)
        for which, at in (("first", 0), ("last", n - 1)):
            rest = np.arange(n) != at
            if not good[at] and good[rest].all():
                text = "Only the {which} {place} of {what} is wrong."
                zeros = "Only the {which} {place} of {what} is wrong: it is 0."
                yield (
                    (which, "wrong", axis),
                    Message(
                        text if along[at].any() else zeros,
                        which=NAMES[which],
                        place=_place(axis, e.ndim),
                        what=mismatch.what,
                    ),
                )
            if good[at] and not good[rest].any():
                text = "Only the {which} {place} of {what} is right."
                zeros = "Only the {which} {place} of {what} is right: the others are 0."
                yield (
                    (which, "right", axis),
                    Message(
                        text if along[rest].any() else zeros,
                        which=NAMES[which],
                        place=_place(axis, e.ndim),
                        what=mismatch.what,
                    ),
                )
        until = int(good.argmin())
        if 1 < until < n and not good[until:].any():
            text = "Along axis {axis}, {what} is right up to index {last} and wrong from index {until} on."
            yield ("until", axis), Message(text, axis=axis, what=mismatch.what, last=until - 1, until=until)
        begin = n - int(good[::-1].argmin())
        if 0 < begin < n - 1 and not good[:begin].any():
            text = "Along axis {axis}, {what} is wrong before index {begin} and right from there on."
            yield ("from", axis), Message(text, axis=axis, what=mismatch.what, begin=begin)
        if n > 3 and ((good[::2].all() and not good[1::2].any()) or (good[1::2].all() and not good[::2].any())):
            parity = Message("odd") if good[0] else Message("even")
            text = "Along axis {axis}, {what} is wrong only at {which} indices."
            yield ("every other", axis, bool(good[0])), Message(text, which=parity, axis=axis, what=mismatch.what)
        if e.ndim > 1 and bad.any() and (good | bad).all() and not good.all():
            text = "Each {place} of {what} is either completely right or completely wrong (wrong: {count} of {size})."
            yield (
                ("whole", axis),
                Message(text, place=_place(axis, e.ndim), what=mismatch.what, count=int(bad.sum()), size=n),
            )
    if e.ndim > 1 and min(e.shape[-2:]) > 2:
        i, j = np.indices(e.shape)[-2:]
        for text, where in (
            ("on the diagonal", i == j),
            ("off the diagonal", i != j),
            ("above the diagonal", j > i),
            ("below the diagonal", j < i),
        ):
            if right[~where].all() and not right[where].any():
                yield (
                    text,
                    Message(
                        "Only the elements {where} of {what} are wrong.", what=mismatch.what, where=Message(text)
                    ),
                )


@same_shape
def by_value(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The wrong elements are those of one sign, or those that should be 0 or are 0."""
    wrong = ~_right(mismatch, e, g)
    if not wrong.any() or wrong.all():
        return
    for text, where in (
        ("where 0 is expected", e == 0),
        ("where a nonzero number is expected", e != 0),
        ("where a negative number is expected", e < 0),
        ("where a positive number is expected", e > 0),
    ):
        if np.array_equal(wrong, where):
            yield (
                text,
                Message("The elements of {what} are wrong exactly {where}.", what=mismatch.what, where=Message(text)),
            )
    if wrong.any() and not g[wrong].any():
        yield "zeros", Message("The wrong elements of {what} are all 0.", what=mismatch.what)


@comparable
def another_part(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The result is another part of the expected result, or an unchanged argument."""
    for name, part in mismatch.parts:
        if part is not mismatch.expected and equal(g, part.astype(float)) and not equal(part.astype(float), e):
            yield (
                ("part", str(name)),
                Message("The values of {what} are those expected for {name}.", what=mismatch.what, name=name),
            )
    if mismatch.changed and any(equal(g, array) for array in arrays_of(mismatch.result)):
        yield "result", Message("The argument `{name}` was overwritten with the result.", name=mismatch.changed)
    for name, argument in mismatch.arguments.items():
        if name == mismatch.changed:
            continue
        if isinstance(argument, np.ndarray) and argument.dtype.kind in "fiu" and equal(g, argument.astype(float)):
            yield (
                ("argument", name),
                Message("The elements of {what} are those of the argument `{name}`.", what=mismatch.what, name=name),
            )
        elif (
            isinstance(argument, np.ndarray)
            and argument.dtype.kind == "f"
            and argument.ndim > 1
            and equal(g, np.swapaxes(argument, -1, -2).astype(float))
        ):
            message = "The elements of {what} are those of the argument `{name}`, transposed."
            yield ("turned", name), Message(message, what=mismatch.what, name=name)


OPERATIONS = {
    "`{one}` * `{other}`": np.multiply,
    "`{one}` + `{other}`": np.add,
    "`{one}` - `{other}`": np.subtract,
    "`{one}` / `{other}`": np.divide,
    "`{one}` @ `{other}`": np.matmul,
    "`{one}` @ transposed `{other}`": lambda X, Y: X @ np.swapaxes(Y, -1, -2),
    "transposed `{one}` @ `{other}`": lambda X, Y: np.swapaxes(X, -1, -2) @ Y,
}


@comparable
def combined(mismatch: Mismatch, e: Any, g: Any) -> Claims:
    """The result is a product, sum or difference of two arguments, or of the expected result and an argument."""
    arrays = {
        name: argument.astype(float)
        for name, argument in mismatch.arguments.items()
        if _comparable_argument(argument)
    }
    for text, operation in OPERATIONS.items():
        for one, X in arrays.items():
            for other, Y in arrays.items():
                if not mismatch.changed and one != other and _holds(operation, X, Y, g):
                    message = Message(text, one=one, other=other)
                    yield (
                        (text, one, other),
                        Message("The elements of {what} are those of {made}.", what=mismatch.what, made=message),
                    )
    for name, X in arrays.items():
        for text, made in (
            ("The elements of {what} are the expected ones plus `{name}`.", e + X if X.shape == e.shape else None),
            ("The elements of {what} are the expected ones minus `{name}`.", e - X if X.shape == e.shape else None),
            ("The elements of {what} are the expected ones times `{name}`.", e * X if X.shape == e.shape else None),
            (
                "The elements of {what} are the expected ones divided by `{name}`.",
                e / X if X.shape == e.shape else None,
            ),
        ):
            if made is not None and name != mismatch.changed and equal(g, made):
                yield (text, name), Message(text, what=mismatch.what, name=name)


def _comparable_argument(argument: Any) -> Any:
    return (
        isinstance(argument, np.ndarray) and argument.dtype.kind in "fiu" and argument.ndim and argument.size <= MOST
    )


def _holds(operation: Any, X: Any, Y: Any, g: Any) -> bool:
    try:
        return equal(g, operation(X, Y))
    except ValueError:
        return False


def a_number(mismatch: Mismatch) -> Claims:
    """A single number: a constant or a simple function of the expected one."""
    if mismatch.expected is None or mismatch.got is None or mismatch.expected.size != 1 or mismatch.got.size != 1:
        return
    e, g = float(mismatch.expected.ravel()[0]), float(mismatch.got.ravel()[0])
    if not np.isfinite([e, g]).all() or abs(e) < 1e-9 or abs(g - e) <= CLOSE * abs(e):
        return
    for text, function in TRANSFORMS.items():
        if abs(g - function(e)) <= CLOSE * abs(g):
            yield text, Message("The number in {what} is {text}.", what=mismatch.what, text=Message(text))
    for text in _named(g / e, mismatch.sizes):
        yield text, Message("The number is {text} times the expected one.", text=text)


def not_finite(mismatch: Mismatch) -> Claims:
    """NaN or infinite elements are in one place, or the finite ones are right."""
    e, g = mismatch.expected, mismatch.got
    if e is None or g is None or e.shape != g.shape or not g.ndim or g.size > MOST or g.dtype.kind != "f":
        return
    gone = ~np.isfinite(g) & np.isfinite(e)
    if not gone.any():
        return
    kind = Message("NaN" if np.isnan(g[gone]).all() else "NaN or infinite")
    right = (
        ~mismatch.wrong if mismatch.wrong is not None and mismatch.wrong.shape == e.shape else np.abs(g - e) <= CLOSE
    )
    if gone.all():
        yield ("all", kind.text), Message("Every element of {what} is {kind}.", what=mismatch.what, kind=kind)
        return
    for text, where in (("where 0 is expected", e == 0), ("where a nonzero number is expected", e != 0)):
        if np.array_equal(gone, where):
            message = "The elements of {what} are {kind} exactly {where}."
            yield (text, kind.text), Message(message, what=mismatch.what, where=Message(text), kind=kind)
    for axis in range(-e.ndim, 0):
        others = tuple(other for other in range(e.ndim) if other != axis % e.ndim)
        if e.ndim > 1 and (gone.all(others) == gone.any(others)).all() and (gone | right).all():
            message = "Whole {place}s of {what} are {kind}; the others are right."
            yield (
                ("places", axis, kind.text),
                Message(message, place=_place(axis, e.ndim), what=mismatch.what, kind=kind),
            )
    if (gone | right).all():
        yield ("else", kind.text), Message("Where {what} is not {kind}, it is right.", what=mismatch.what, kind=kind)


MADE: dict[str, Callable[[Any], Any]] = {
    "in absolute values": np.abs,
    "with the opposite sign": np.negative,
    "squared": np.square,
    "with `exp` applied": np.exp,
    "with `log` applied": np.log,
    "converted to degrees": np.degrees,
    "converted to radians": np.radians,
    "doubled": lambda X: 2 * X,
    "halved": lambda X: X / 2,
    "divided by its sums over the last axis": lambda X: X / X.sum(-1, keepdims=True),
    "divided by its norms over the last axis": lambda X: X / np.sqrt((X * X).sum(-1, keepdims=True)),
    "passed through softmax": lambda X: _softmax(X, -1),
    "passed through softmax over axis -2": lambda X: _softmax(X, -2) if X.ndim > 1 else X,
    "set to 1 at the largest number of each row and 0 elsewhere": lambda X: (X.max(-1, keepdims=True) == X) * 1.0,
    "minus the largest number of each row": lambda X: X - X.max(-1, keepdims=True),
    "minus the mean of each row": lambda X: X - X.mean(-1, keepdims=True),
    "truncated to integers": np.trunc,
    "clipped at 0": lambda X: np.maximum(X, 0),
}
OF_WHOLE_NUMBERS = (
    "in absolute values",
    "with the opposite sign",
    "doubled",
    "converted to degrees",
    "converted to radians",
)
BLOCKS = (8, 16, 32, 64, 128, 256, 512)


def _softmax(X: Any, axis: int) -> Any:
    powers = np.exp(X - X.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _factors(sizes: Any) -> Any:
    for name, size in _told_apart(sizes).items():
        yield from (
            (f"sqrt({name})", size**0.5),
            (f"1 / sqrt({name})", size**-0.5),
            (name, size),
            (f"1 / {name}", 1 / size),
            (f"sqrt({name}) / 8", size**0.5 / 8),
        )
        for other, count in _told_apart(sizes).items():
            if other != name:
                yield f"sqrt({name} / {other})", (size / count) ** 0.5


def _changed(arguments: Any, sizes: Any) -> Any:
    """Yield arguments as a mistaken function might take them: a key, a message about them, and the arguments."""
    names = list(arguments)
    arrays = [name for name in names if isinstance(arguments[name], np.ndarray)]

    def similar(one: Any, other: Any) -> bool:
        return one in arrays and other in arrays and arguments[one].dtype.kind == arguments[other].dtype.kind

    for at, name in enumerate(names):
        argument = arguments[name]
        whole = isinstance(argument, int) and not isinstance(argument, bool)
        for other in names[at + 1 :]:
            if similar(name, other) or (whole and type(arguments[other]) is int):
                exchanged = {**arguments, name: arguments[other], other: argument}
                yield (
                    ("exchanged", name, other),
                    Message("`{one}` and `{other}` exchanged", one=name, other=other),
                    exchanged,
                )
        for other in names:
            if other != name and similar(name, other):
                message = Message("`{other}` in place of `{one}`", one=name, other=other)
                yield ("replaced", name, other), message, {**arguments, name: arguments[other]}
        if whole:
            for by in (1, -1):
                sign = "+ 1" if by > 0 else "- 1"
                yield (by, name), Message("`{one}` {sign}", one=name, sign=sign), {**arguments, name: argument + by}
        if name not in arrays:
            continue
        if argument.dtype.kind == "b":
            yield ("not", name), Message("`{one}` inverted", one=name), {**arguments, name: ~argument}
            yield (
                ("all", name),
                Message("`{one}` set to True everywhere", one=name),
                {**arguments, name: np.ones_like(argument)},
            )
        elif argument.dtype.kind == "f":
            for text, change in MADE.items():
                yield (
                    (text, name),
                    Message("`{one}` {changed}", one=name, changed=Message(text)),
                    {**arguments, name: change(argument)},
                )
            for text, factor in _factors(sizes):
                message = Message("`{one}` times {factor}", one=name, factor=text)
                yield ("times", text, name), message, {**arguments, name: argument * factor}
        elif argument.dtype.kind in "iu":
            for text in OF_WHOLE_NUMBERS:
                message = Message("`{one}` {changed}", one=name, changed=Message(text))
                yield (text, name), message, {**arguments, name: MADE[text](argument)}
            for by in (1, -1):
                sign = "+ 1" if by > 0 else "- 1"
                yield (by, name), Message("`{one}` {sign}", one=name, sign=sign), {**arguments, name: argument + by}
        if argument.ndim > 1:
            turned = np.swapaxes(argument, -1, -2)
            yield ("turned", name), Message("`{one}` transposed", one=name), {**arguments, name: turned}
            message = Message("`{one}` reshaped instead of transposed", one=name)
            yield (
                ("reshaped", name),
                message,
                {**arguments, name: np.swapaxes(argument.reshape(turned.shape), -1, -2)},
            )
        for axis in range(-argument.ndim, 0):
            for block in BLOCKS if argument.dtype.kind == "f" else ():
                if block < argument.shape[axis]:
                    kept = np.arange(argument.shape[axis]) < block
                    cut = np.where(np.expand_dims(kept, list(range(1, -axis))), argument, 0)
                    message = Message(
                        "`{one}` set to 0 from index {block} on along axis {axis}", one=name, block=block, axis=axis
                    )
                    yield ("block", axis, block, name), message, {**arguments, name: cut}
            if argument.shape[axis] > 1:
                first = np.broadcast_to(np.take(argument, [0], axis), argument.shape)
                message = Message(
                    "the first {place} of `{one}` repeated for all", place=_place(axis, argument.ndim), one=name
                )
                yield ("first", axis, name), message, {**arguments, name: first}
                message = Message("`{one}` in reverse order along axis {axis}", one=name, axis=axis)
                yield ("reverse", axis, name), message, {**arguments, name: np.flip(argument, axis)}


def _cut(arguments: Any) -> Any:
    """Yield arguments that do not fit, cut to fit, or with a size of 1 stretched."""
    for name, argument in arguments.items():
        if type(argument) is int:
            yield (-1, name), Message("`{one}` - 1", one=name), {**arguments, name: argument - 1}
    arrays = {name: array for name, array in arguments.items() if isinstance(array, np.ndarray)}
    sizes = sorted({size for array in arrays.values() for size in array.shape})
    for name, array in arrays.items():
        for axis in range(-array.ndim, 0):
            n = array.shape[axis]
            for size in sizes:
                if size < n:
                    cut = np.take(array, range(size), axis)
                    message = Message("`{one}` cut to size {size} along axis {axis}", one=name, size=size, axis=axis)
                    yield ("cut", axis, name), message, {**arguments, name: cut}
                elif n == 1 and size > 1:
                    message = Message("`{one}` repeated along axis {axis}", one=name, axis=axis)
                    yield ("stretched", axis, name), message, {**arguments, name: np.repeat(array, size, axis)}


def other_arguments(mismatch: Mismatch) -> Claims:
    """The result is right for other arguments: exchanged, transposed, negated, or cut to fit."""
    if (
        mismatch.answer is None
        or mismatch.part is None
        or mismatch.got is None
        or mismatch.got.size > MOST
        or not np.isfinite(mismatch.got).all()
    ):
        return
    if any(isinstance(argument, np.ndarray) and argument.size > MOST for argument in mismatch.arguments.values()):
        return
    wanted = None if mismatch.expected is None else mismatch.expected.astype(float)
    g, seen = mismatch.got.astype(float), []
    if g.size < 2 or np.ptp(g) <= CLOSE * np.abs(g).max():
        return
    made_up = _cut(mismatch.arguments) if wanted is None else _changed(mismatch.arguments, mismatch.sizes)
    for key, message, changed in made_up:
        try:
            made = mismatch.answer(*twins_of(changed).values())
        except Exception:  # noqa: S112 (most changed arguments do not fit)
            continue
        parts = arrays_of(made)
        if wanted is None:  # an error was expected: all that came instead has to be so
            came = arrays_of(mismatch.result)
            held = len(parts) == len(came) and all(map(equal, came, parts))
        else:
            part = parts[mismatch.part] if mismatch.part < len(parts) else wanted
            held = equal(g, part) and not equal(part, wanted)
        if held and key not in seen:
            seen.append(key)
            text = "The values of {what} are those expected for {arguments}."
            yield key, Message(text, what=mismatch.what, arguments=message)


def each_alone(mismatch: Mismatch) -> Claims:
    """Each sequence alone is right, but the batch is not."""
    e = mismatch.expected
    if e is None or e.ndim < 3 or mismatch.call is None or e.size > MOST:
        return
    batched = [
        argument
        for argument in mismatch.arguments.values()
        if isinstance(argument, np.ndarray) and argument.shape[:1] == e.shape[:1]
    ]
    if not batched or e.shape[0] < 2:
        return
    for index in range(e.shape[0]):
        alone = [
            argument[index]
            if isinstance(argument, np.ndarray) and argument.ndim > 2 and argument.shape[0] == e.shape[0]
            else argument
            for argument in twins_of(mismatch.arguments).values()
        ]
        if not any(equal(array, e[index].astype(float)) for array in arrays_of(mismatch.call(*alone))):
            return
    yield "alone", Message("Each sequence on its own is right, but the batch is not.")


def always_one_dtype(mismatch: Mismatch) -> Claims:
    """The dtype is the same for all dtypes of the arguments, or wider."""
    if mismatch.dtypes is None or mismatch.call is None:
        return
    came = []
    for dtype in (np.float16, np.float32, np.float64):
        cast = [
            argument.astype(dtype) if isinstance(argument, np.ndarray) and argument.dtype.kind == "f" else argument
            for argument in mismatch.arguments.values()
        ]
        result = mismatch.call(*cast)
        parts = result if isinstance(result, (tuple, list)) else [result]
        found = [str(part.dtype) for part in parts if hasattr(part, "dtype")]
        if not found or len(set(found)) > 1:
            return
        came.append(found[0])
    if len(set(came)) == 1:
        yield came[0], Message("The dtype is {dtype} for every dtype of the arguments.", dtype=came[0])
    else:
        message = "The dtype is {half} for float16, {single} for float32 and {double} for float64."
        yield tuple(came), Message(message, half=came[0], single=came[1], double=came[2])


def shape_in_names(mismatch: Mismatch) -> Claims:
    """The shape of the result, in the check's own names of sizes."""
    if mismatch.shapes is None:
        return
    wanted, came = mismatch.shapes
    if any(size > 1 for size in came) and len(came) < 6:
        named = {size: name for name, size in reversed(mismatch.sizes.items())}  # of equals, the first that was drawn
        if any(size in named for size in came):
            text, other = (_in_brackets([named.get(size, str(size)) for size in shape]) for shape in (came, wanted))
            message = "In terms of the sizes, the shape is {came}, but should be {wanted}."
            yield ("shape", text, other), Message(message, came=text, wanted=other)


def _in_brackets(names: Any) -> str:
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


RELATIONS = [
    responses.another_time,
    not_finite,
    a_number,
    zero,
    negated,
    named_multiple,
    constant_multiple,
    another_part,
    transposed,
    combined,
    other_arguments,
    multiple,
    constant,
    first_for_all,
    same_for_all,
    first_alone,
    diagonal,
    reshaped,
    unreduced,
    reduced,
    transformed,
    unnormalised,
    normalised,
    reversed_along,
    rolled,
    shifted_by_number,
    sums,
    rows_scaled,
    cumulated,
    in_other_dtype,
    reordered,
    symmetric,
    each_alone,
    small_ones,
    only_there,
    by_value,
    always_one_dtype,
    shape_in_names,
    *responses.RELATIONS,
]
"""All relations, the most specific first."""

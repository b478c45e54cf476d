"""Relations on how a result responds when an argument changes, compared with a right answer's
response.

The function under test and a right answer are called with one argument changed a little: other
numbers in all of it or in one row, 1 added, doubled. If the right answer obeys a law of this kind
and the function does not, or the reverse, the relation is reported. Further relations say where in
a module the first wrong numbers are, and which results differ from call to call.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .mismatch import CLOSE, MOST, Claims, Mismatch, arrays_of, equal, refilled, twins_of
from .modules import ask, run_remote
from .subject import Stopwatch, twin
from .words import Message

MOST_ROWS = 8
"""Of an argument with more rows, only the first and the last ones, half as many each, are
changed.
"""

MOST_SECONDS = 0.5
"""For all of these relations in one draw, of computing: hints must not use up a limit."""

ROUNDINGS = 500
"""Up to so many roundings of the largest number, a number or a change may be nothing but
rounding.
"""

COARSE = 1e-5
"""With a greater rounding, as float16 has, an element's change is not told from rounding."""

NOTICED, UNNOTICED = 1e-6, 1e-9
"""From which share of the largest magnitude on an element has changed, and up to which it has
not.
"""


class Responses:
    """The results of a right answer and of the function under test for changed arguments.

    Parameters
    ----------
    mismatch : Mismatch
    """

    def __init__(self, mismatch: Mismatch):
        self.mismatch = mismatch
        self.what = mismatch.what
        self.expected, self.got = (
            np.asarray(own).astype(float) for own in (mismatch.expected, mismatch.got)
        )
        self.eps = max(
            map(_rounding_of, (mismatch.got, *mismatch.arguments.values(), *mismatch.drawn))
        )
        self.exact = self.eps < UNNOTICED
        self.rounding = self._rounding()
        self.got, self.expected = map(self._without_rounding, (self.got, self.expected))
        self.part: Any = mismatch.part
        self.random = np.random.default_rng(0)

    def _rounding(self) -> float:
        """Return up to which magnitude a number of the results may be rounding alone.

        An expected result may be so itself, as a difference is that is 0 by the formula: then the
        arguments count.
        """
        given = [
            np.abs(argument[np.isfinite(argument)]).max(initial=0.0)
            for _name, argument in self.arguments()
        ]
        largest, unit = np.abs(self.expected).max(initial=0.0), max(given, default=0.0) or 1.0
        share = ROUNDINGS * self.eps
        return share * float(largest if largest > share * unit else unit)

    def __call__(self, name: str, changed: Any) -> Any:
        """Return both results, the expected one first, with one argument changed; None if there
        are none.
        """
        # another layout must make no difference
        filled = refilled(self.mismatch.arguments[name], changed)
        return None if filled is None else self.results({**self.mismatch.arguments, name: filled})

    def results(self, arguments: dict[str, Any]) -> Any:
        """Return both results for these arguments; None if there are none of the shape of
        before, or no time.
        """
        if self.mismatch.seconds > MOST_SECONDS:
            return None
        watch = Stopwatch(self.mismatch.function)
        try:
            return self._results(arguments)
        finally:
            self.mismatch.seconds += watch.seconds

    def _results(self, arguments: dict[str, Any]) -> Any:
        results = []
        for function in (self.mismatch.answer, self.mismatch.call):
            try:
                parts = arrays_of(function(*twins_of(arguments).values()))
            except Exception:  # what is changed may not fit
                return None
            if len(parts) <= self.part or parts[self.part].shape != self.expected.shape:
                return None
            results.append(self._without_rounding(parts[self.part]))
        return results if all(np.isfinite(own).all() for own in results) else None

    def _without_rounding(self, numbers: Any) -> Any:
        """Return numbers with rounding errors set to 0, because those change with any argument."""
        return np.where(np.abs(numbers) <= self.rounding, 0.0, numbers)

    def changed(self, came: Any) -> tuple[bool | None, bool | None]:
        """Tell for both results whether they have changed: None where it may be rounding."""
        return self._has_changed(came[0], self.expected), self._has_changed(came[1], self.got)

    def _has_changed(self, after: Any, before: Any) -> bool | None:
        by, unit = np.abs(after - before).max(), max(np.abs(before).max(), np.abs(after).max())
        if by <= ROUNDINGS * self.eps * unit:
            return False
        return True if by > CLOSE * unit else None

    def arguments(self, kinds: str = "f", axes: int = 0) -> Iterator[tuple[str, Any]]:
        """Yield the arrays among the arguments, of a kind of number and with so many axes or
        more, by name.
        """
        for name, argument in self.mismatch.arguments.items():
            if (
                isinstance(argument, np.ndarray)
                and argument.dtype.kind in kinds
                and argument.ndim >= axes
            ):
                yield name, argument

    def other(self, argument: Any) -> Any:
        """Return other numbers of the size of an argument's."""
        scale = np.abs(argument).mean() or 1.0
        return (argument + scale * self.random.normal(size=argument.shape)).astype(argument.dtype)


def _rounding_of(value: Any) -> float:
    """Return the relative rounding of a value's numbers; 0 of what is no array of floating-point
    numbers.
    """
    if getattr(value, "dtype", None) is not None and str(value.dtype) == "torch.bfloat16":
        return 2.0**-8
    numbers = value if isinstance(value, np.ndarray) else None
    return (
        float(np.finfo(numbers.dtype).eps)
        if numbers is not None and numbers.dtype.kind == "f"
        else 0.0
    )


def answered(
    relation: Callable[[Responses], Claims], steady: bool = True
) -> Callable[[Mismatch], Claims]:
    """Let a relation see only numeric mismatches in which function and right answer return the same
    again.

    Without `steady`, those in which only the right answer does.
    """

    def looked_at(mismatch: Mismatch) -> Claims:
        e, g = mismatch.expected, mismatch.got
        if (
            mismatch.answer is None
            or mismatch.call is None
            or mismatch.part is None
            or e is None
            or g is None
        ):
            return ()
        sizes = [
            own.size for own in (e, g, *mismatch.arguments.values()) if isinstance(own, np.ndarray)
        ]
        if (
            max(sizes) > MOST
            or e.shape != g.shape
            or not e.size
            or not (np.isfinite(e).all() and np.isfinite(g).all())
        ):
            return ()
        asked = Responses(mismatch)
        if asked.eps > COARSE:
            return ()
        if mismatch.steady is None:
            came = asked.results(mismatch.arguments)
            again = came is not None and equal(came[0], asked.expected)
            changed = asked.changed(came)[1] if again else None
            mismatch.steady, mismatch.wavers = changed is False, changed is True and mismatch.intact
            mismatch.expected_again = came[0] if again else None
        if mismatch.expected_again is not None:
            asked.expected = mismatch.expected_again
        return relation(asked) if (mismatch.steady if steady else mismatch.wavers) else ()

    looked_at.__doc__, looked_at.__name__ = relation.__doc__, relation.__name__
    return looked_at


def _another_time(asked: Responses) -> Claims:
    """The function returns something else for the same arguments."""
    message = (
        "A second call with the same arguments changes {what}. Is it random, or is something "
        "stored between calls?"
    )
    yield "wavers", Message(message, what=asked.what)


another_time = answered(_another_time, steady=False)


@answered
def memory_layout(asked: Responses) -> Claims:
    """The result is right for the same arguments without gaps in memory."""
    arguments = asked.mismatch.arguments
    scattered = [name for name, own in asked.arguments() if not own.flags.c_contiguous]
    if not scattered or equal(asked.got, asked.expected):
        return
    came = asked.results(
        {**arguments, **{name: np.ascontiguousarray(arguments[name]) for name in scattered}}
    )
    if came is not None and equal(came[1], asked.expected):
        message = (
            "For a contiguous copy of `{name}`, {what} is right: it should not depend on "
            "the memory layout."
        )
        yield "layout", Message(message, name=scattered[0], what=asked.what)


@answered
def any_numbers(asked: Responses) -> Claims:
    """An argument has no influence, or one that it should not have."""
    for name, argument in asked.arguments():
        came = asked(name, asked.other(argument))
        if came is None:
            continue
        wanted, found = asked.changed(came)
        if wanted and found is False:
            message = "Changing the numbers in `{name}` should change {what}, but does not."
            yield ("none", name), Message(message, name=name, what=asked.what)
        if found and wanted is False:
            message = "Changing the numbers in `{name}` should not change {what}, but does."
            yield ("some", name), Message(message, name=name, what=asked.what)


def seen_by_parts(module: "Any", arguments: "Any") -> "Any":
    """Call a module; return the tensors that its parts, modules too, took and returned, in order,
    by call.

    Each is a list: what happened ("into" or "out of"), the part's name, its numbers, and its masks.
    This runs where the module lives, and goes there as text.
    """
    import numpy
    import torch

    most = 300
    seen: list[list[object]] = []

    def noting(what: str, name: str) -> "Any":
        def note(_part: torch.nn.Module, given: object, named: "Any", *result: object) -> None:
            values = result[0] if result else (*given, *named.values())  # type: ignore[misc]
            tensors = [
                own
                for own in (values if isinstance(values, tuple) else (values,))
                if hasattr(own, "detach")
            ]
            kinds: list[list[object]] = [[], []]
            for own in tensors if len(seen) < most else []:
                if own.is_floating_point() or own.dtype == torch.bool:
                    kinds[own.dtype == torch.bool].append(own.detach().clone())
            seen.append([what, name, *kinds])

        return note

    hooks = []
    for name, part in module.named_modules():
        if name:
            hooks.append(part.register_forward_pre_hook(noting("into", name), with_kwargs=True))
            hooks.append(part.register_forward_hook(noting("out of", name), with_kwargs=True))
    try:
        module(*[torch.tensor(own) if isinstance(own, numpy.ndarray) else own for own in arguments])
    finally:
        for hook in hooks:
            hook.remove()
    return seen[:most]


FIRST_WRONG = {
    ("", "into"): "The input of `{name}` is wrong.",
    ("into", "into"): "The input of `{before}` is right, but the input of `{name}` is wrong.",
    ("out of", "into"): "The output of `{before}` is right, but the input of `{name}` is wrong.",
    ("same", "out of"): "The input of `{name}` is right, but its output is wrong.",
    ("into", "out of"): "The input of `{before}` is right, but the output of `{name}` is wrong.",
    ("out of", "out of"): "The output of `{before}` is right, but the output of `{name}` is wrong.",
}
"""The messages on the first wrong numbers in a module, by what was right before and what is
wrong.
"""


@answered
def parts_reached(asked: Responses) -> Claims:
    """The place of the first wrong numbers in a module: the input of one of its parts, or its
    output.
    """
    modules = asked.mismatch.modules
    if modules is None or equal(asked.got, asked.expected):
        return
    arguments = [twin(argument, {}, alone=True) for argument in asked.mismatch.drawn]
    try:
        if not _have_the_same(*modules):
            return
        right, own = (run_remote(seen_by_parts, module, (arguments,)) for module in modules)
        found = [
            (what, name, _taken(numbers, masks, what, name, own))
            for what, name, numbers, masks in right
        ]
    except Exception:  # what comes from elsewhere may be anything
        return
    kind, before, skipped = "", "", False  # what was seen to be right, last
    for what, name, wrong in found:
        if wrong is None:
            skipped = True  # written in another way, perhaps
        elif wrong == "mask":
            yield ("mask", name), Message("The mask passed to `{name}` is wrong.", name=name)
            return
        elif wrong:
            order = "same" if name == before else kind, what
            if order in FIRST_WRONG:
                yield (*order, before, name), Message(FIRST_WRONG[order], before=before, name=name)
            return
        else:
            kind, before = what, name
    if kind == "out of" and not skipped:
        message = "The output of `{before}` is right, but the result computed from it is wrong."
        yield ("end", before), Message(message, before=before)


def _have_the_same(right: Any, own: Any) -> bool:
    """Tell whether a module has the numbers of the right one, under its names: else its parts
    are others.
    """
    wanted, came = ask(right, "state_dict"), ask(own, "state_dict")
    return all(
        name in came
        and tuple(came[name].shape) == tuple(value.shape)
        and bool((came[name] == value).all())
        for name, value in wanted.items()
    )


def _taken(numbers: Any, masks: Any, what: str, name: str, calls: Any) -> str | None:
    """Return what is wrong where a part takes or returns something, "numbers" or "mask".

    "" if nothing is, in one of its calls at least; None if it is never called, or in other shapes.
    """
    said: list[str | None] = []
    for own_what, own_name, own_numbers, own_masks in calls:
        if (own_what, own_name) == (what, name):
            pairs = [_alike(*both) for both in zip(numbers, own_numbers, strict=False)]
            pairs_of_masks = [_alike(*both) for both in zip(masks, own_masks, strict=False)]
            if False in pairs:
                said.append("numbers")
            elif None in pairs or not pairs:
                said.append(None)
            else:
                said.append("mask" if False in pairs_of_masks else "")
    return min(said, key=["", None, "mask", "numbers"].index, default=None)


def _alike(wanted: Any, came: Any) -> bool | None:
    """Tell whether two tensors have the same numbers, in another shape perhaps; None if that
    cannot be told.
    """
    wanted, came = (np.asarray(own, dtype=float) for own in (wanted, came))
    if wanted.shape == came.shape:
        return equal(came, wanted)
    if wanted.size == came.size:
        return equal(came.ravel(), wanted.ravel()) or None
    try:  # a mask may be stretched
        return equal(*np.broadcast_arrays(came, wanted)) or None
    except ValueError:
        return None


def _reach(asked: Responses, name: str, argument: Any) -> Any:
    """Return how much the rows of both results change with the rows of an argument, and these
    rows of it.
    """
    count, half = argument.shape[-2], MOST_ROWS // 2
    places = (
        list(range(count)) if count <= MOST_ROWS else [*range(half), *range(count - half, count)]
    )
    others = tuple(axis for axis in range(asked.expected.ndim) if axis != asked.expected.ndim - 2)
    reached: list[list[Any]] = [[], []]
    for place in places:
        changed = argument.copy()
        changed[..., place, :] = asked.other(argument[..., place, :])
        came = asked(name, changed)
        if came is None:
            return None
        for own, before, into in zip(came, (asked.expected, asked.got), reached, strict=True):
            into.append((np.abs(own - before) / (np.abs(before).max() or 1.0)).max(others))
    return (*(np.stack(own, axis=1) for own in reached), places)


@answered
def rows_reached(asked: Responses) -> Claims:
    """A row of the result depends on other rows of an argument than it should."""
    if asked.expected.ndim < 2 or not asked.exact:
        return
    examples = []
    for name, argument in asked.arguments(axes=2):
        found = _reach(asked, name, argument)
        if found is None:
            continue
        wanted, came = (by > NOTICED for by in found[:2])
        more, fewer = came & (found[0] <= UNNOTICED), wanted & (found[1] <= UNNOTICED)
        if not (more.any() or fewer.any()):
            continue
        places = found[2]
        row, place = np.argwhere(more if more.any() else fewer)[0]
        later = np.arange(len(wanted))[:, None] < np.array(places)
        values = {"name": name, "what": asked.what}
        at = {"i": int(row), "j": int(places[place])}
        if more.any() and not (fewer.any() or (more & ~later).any() or (wanted & later).any()):
            message = "Row i of {what} depends on rows after i of `{name}`, but should not."
            yield ("after", name), Message(message, **values)
        elif more.any():
            message = (
                "For example, row {i} of {what} depends on row {j} of `{name}`, but should not."
            )
            examples.append((("more", name), Message(message, **values, **at)))
        else:
            message = (
                "For example, row {i} of {what} should depend on row {j} of `{name}`, but does not."
            )
            examples.append((("fewer", name), Message(message, **values, **at)))
    yield from examples


@answered
def one_added(asked: Responses) -> Claims:
    """The effect on the result of adding 1 to an argument."""
    for name, argument in asked.arguments():
        came = asked(name, argument + np.ones_like(argument))
        if came is None:
            continue
        values = {"name": name, "what": asked.what}
        wanted, found = asked.changed(came)
        if wanted is False and found:
            message = "Adding 1 to all of `{name}` should not change {what}, but does."
            yield ("plus", name, "stays"), Message(message, **values)
        elif wanted and found is False:
            message = "Adding 1 to all of `{name}` should change {what}, but does not."
            yield ("plus", name, "changes"), Message(message, **values)


@answered
def doubled(asked: Responses) -> Claims:
    """The effect on the result of doubling an argument."""
    for name, argument in asked.arguments("fiu"):
        came = asked(name, 2 * argument)
        if came is None:
            continue
        wanted, found = (
            _times(own, old) for own, old in zip(came, (asked.expected, asked.got), strict=True)
        )
        if wanted is None or found is None:
            continue
        values = {"name": name, "what": asked.what}
        if wanted == "1" and found != "1":
            message = "Doubling `{name}` should not change {what}, but does."
            yield ("twice", name, "stays"), Message(message, **values)
        elif wanted and found and wanted != found:
            message = (
                "Doubling `{name}` should multiply {what} by {wanted}, but multiplies it by "
                "{found}."
            )
            yield (
                ("twice", name, wanted, found),
                Message(message, **values, wanted=wanted, found=found),
            )
        if wanted not in ("", "1") and found != wanted:
            message = "Doubling `{name}` should multiply {what} by {wanted}, but does not."
            yield ("twice", name, wanted), Message(message, **values, wanted=wanted)
        elif found and not wanted:
            message = "Doubling `{name}` multiplies {what} by {found}, but should not."
            message = (
                message if found != "1" else "Doubling `{name}` should change {what}, but does not."
            )
            yield ("twice as", name, found), Message(message, **values, found=found)


def _times(after: Any, before: Any) -> str | None:
    """Return by which one number a result was multiplied, as text: "" if by none, None if any
    number would do.
    """
    if not before.any():
        return None  # 0, whatever multiplies it
    factor = float((before * after).sum()) / float((before * before).sum())
    return f"{factor:.3g}" if abs(factor) > 1e-9 and equal(after, factor * before) else ""


RELATIONS = [any_numbers, rows_reached, parts_reached, one_added, doubled]
"""All of them, the most specific first."""

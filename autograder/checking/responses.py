"""Relations on how a result responds when an argument changes, compared with a right answer's response.

The function under test and a right answer are called with one argument changed a little: other numbers in all of it
or in one row, ones, 1 added, doubled. If the right answer obeys a law of this kind and the function does not, or the
reverse, the relation is reported. Further relations say where in a module the first wrong numbers are, and which
results differ from call to call.
"""

import time
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np

from .mismatch import MOST, Claims, Mismatch, arrays_of, equal, twins_of
from .modules import ask, prepare, run_remote
from .words import Message

MOST_ROWS = 8
"""Of an argument with more rows, only the first and the last ones, half as many each, are changed."""

MOST_SECONDS = 0.5
"""For all of these relations in one draw: hints must not use up a limit."""

ROUNDING = 1e-13
"""Below this share of the largest expected magnitude, a number counts as rounding error."""

NOTICED = 1e-7
"""From which share of the largest magnitude on, an element counts as changed."""


class Responses:
    """The results of a right answer and of the function under test for changed arguments.

    Parameters
    ----------
    mismatch : Mismatch
    """

    def __init__(self, mismatch: Mismatch):
        self.mismatch = mismatch
        self.what = mismatch.what
        self.expected, self.got = (np.asarray(own).astype(float) for own in (mismatch.expected, mismatch.got))
        self.rounding = ROUNDING * np.abs(self.expected).max(initial=0.0)
        self.got = self._without_rounding(self.got)
        self.part: Any = mismatch.part
        self.exact = np.asarray(mismatch.got).dtype == np.float64
        self.random = np.random.default_rng(0)

    def __call__(self, name: str, changed: Any) -> Any:
        """Return both results, the expected one first, with one argument changed; None if there are none."""
        return self.results({**self.mismatch.arguments, name: changed})

    def results(self, arguments: dict[str, Any]) -> Any:
        """Return both results for these arguments; None if there are none of the shape of before, or no time."""
        if self.mismatch.seconds > MOST_SECONDS:
            return None
        begun = time.perf_counter()
        try:
            return self._results(arguments)
        finally:
            self.mismatch.seconds += time.perf_counter() - begun

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

    def changed(self, came: Any) -> tuple[bool, bool]:
        """Tell for both results whether they have changed."""
        return not equal(came[0], self.expected), not equal(came[1], self.got)

    def arguments(self, kinds: str = "f", axes: int = 0) -> Iterator[tuple[str, Any]]:
        """Yield the arrays among the arguments, of a kind of number and with so many axes or more, by name."""
        for name, argument in self.mismatch.arguments.items():
            if isinstance(argument, np.ndarray) and argument.dtype.kind in kinds and argument.ndim >= axes:
                yield name, argument

    def other(self, argument: Any) -> Any:
        """Return other numbers of the size of an argument's."""
        scale = np.abs(argument).mean() or 1.0
        return (argument + scale * self.random.normal(size=argument.shape)).astype(argument.dtype)


def answered(relation: Callable[[Responses], Claims], steady: bool = True) -> Callable[[Mismatch], Claims]:
    """Let a relation see only numeric mismatches in which function and right answer return the same again.

    Without `steady`, those in which only the right answer does.
    """

    def looked_at(mismatch: Mismatch) -> Claims:
        e, g = mismatch.expected, mismatch.got
        if mismatch.answer is None or mismatch.call is None or mismatch.part is None or e is None or g is None:
            return ()
        sizes = [own.size for own in (e, g, *mismatch.arguments.values()) if isinstance(own, np.ndarray)]
        if (
            max(sizes) > MOST
            or e.shape != g.shape
            or not e.size
            or not (np.isfinite(e).all() and np.isfinite(g).all())
        ):
            return ()
        asked = Responses(mismatch)
        if mismatch.steady is None:
            came = asked.results(mismatch.arguments)
            again = came is not None and equal(came[0], asked.expected)
            mismatch.steady = again and equal(came[1], asked.got)
            mismatch.wavers = again and not mismatch.steady
        return relation(asked) if (mismatch.steady if steady else mismatch.wavers) else ()

    looked_at.__doc__, looked_at.__name__ = relation.__doc__, relation.__name__
    return looked_at


def _another_time(asked: Responses) -> Claims:
    """The function returns something else for the same arguments."""
    message = (
        "A second call with the same arguments changes {what}. Is it random, or is something stored between calls?"
    )
    yield "wavers", Message(message, what=asked.what)


another_time = answered(_another_time, steady=False)


@answered
def one_for_ones(asked: Responses) -> Claims:
    """With weights that sum to 1, ones give ones."""
    for name, argument in asked.arguments():
        came = asked(name, np.ones_like(argument))
        if came and equal(came[0], np.ones_like(came[0])) and not equal(came[1], came[0]):
            low, high = (f"{own:.4g}" for own in (came[1].min(), came[1].max()))
            message = "With ones for `{name}`, {what} should be 1 everywhere, but is between {low} and {high}."
            if low == high:
                yield (
                    ("ones", name),
                    Message(
                        "With ones for `{name}`, {what} should be 1, but is {low}.",
                        name=name,
                        what=asked.what,
                        low=low,
                    ),
                )
                continue
            yield ("ones", name), Message(message, name=name, what=asked.what, low=low, high=high)


@answered
def any_numbers(asked: Responses) -> Claims:
    """An argument has no influence, or one that it should not have."""
    for name, argument in asked.arguments():
        came = asked(name, asked.other(argument))
        if came is None:
            continue
        wanted, found = asked.changed(came)
        if wanted and not found:
            message = "Changing the numbers in `{name}` should change {what}, but does not."
            yield ("none", name), Message(message, name=name, what=asked.what)
        if found and not wanted:
            message = "Changing the numbers in `{name}` should not change {what}, but does."
            yield ("some", name), Message(message, name=name, what=asked.what)


@answered
def any_parameters(asked: Responses) -> Claims:
    """A parameter of a module has no influence, or one that it should not have."""
    modules = asked.mismatch.modules
    if modules is None:
        return
    right, own = (ask(module, "state_dict") for module in modules)
    for name, value in right.items():
        value = value.detach().clone()
        if not value.is_floating_point() or name not in own or not np.array_equal(own[name].detach(), value):
            continue
        other = value.new_tensor(asked.other(value.double().numpy()))
        try:
            _load(modules, {name: other})
            came = asked.results(asked.mismatch.arguments)
        finally:
            _load(modules, {name: value})
        if came is None:
            return
        wanted, found = asked.changed(came)
        if wanted and not found:
            message = "Changing the numbers in the parameter `{name}` should change {what}, but does not."
            yield ("none", name), Message(message, name=name, what=asked.what)
        if found and not wanted:
            message = "Changing the numbers in the parameter `{name}` should not change {what}, but does."
            yield ("some", name), Message(message, name=name, what=asked.what)


def _load(modules: Any, values: dict[str, Any]) -> None:
    for module in modules:
        run_remote(prepare, module, (values, None, None))


@answered
def other_parameters(asked: Responses) -> Claims:
    """The result is right for other parameters: exchanged, replaced, or transposed."""
    if asked.mismatch.modules is None:
        return
    right = asked.mismatch.modules[0]
    state = {name: value.detach().clone() for name, value in ask(right, "state_dict").items()}
    for key, message, changed in _changed_parameters(state):
        try:
            run_remote(prepare, right, (changed, None, None))
            came = asked.results(asked.mismatch.arguments)
        finally:
            run_remote(prepare, right, (state, None, None))
        if came is None:
            return
        if equal(came[0], asked.got) and not equal(came[0], asked.expected):
            said = "The values of {what} are those expected for {arguments}."
            yield ("parameters", *key), Message(said, what=asked.what, arguments=message)


def _changed_parameters(state: dict[str, Any]) -> Iterator[tuple[Any, Message, dict[str, Any]]]:
    """Yield parameters as a mistaken module might take them: a key, a message about them, and those that change."""
    for name, value in state.items():
        if value.ndim == 2 and value.shape[0] == value.shape[1]:
            yield ("turned", name), Message("the parameter `{one}` transposed", one=name), {name: value.T.clone()}
    parts = list(dict.fromkeys(name.rpartition(".")[0].partition(".")[0] for name in state))
    for one, other in [*combinations(parts, 2), *combinations(state, 2)]:
        exchanged = {}
        for name, value in state.items():
            for old, new in ((one, other), (other, one)):
                twin = new + name.removeprefix(old)
                if (name == old or name.startswith(f"{old}.")) and twin in state and state[twin].shape == value.shape:
                    exchanged[name] = state[twin]
        if exchanged:
            message = Message("the parameters of `{one}` and `{other}` exchanged", one=one, other=other)
            yield ("exchanged", one, other), message, exchanged
            own = {name: value for name, value in exchanged.items() if name == other or name.startswith(f"{other}.")}
            message = Message("the parameters of `{one}` in place of those of `{other}`", one=one, other=other)
            yield ("one", one, other), message, own


def seen_by_parts(module: "Any", arguments: "Any") -> "Any":
    """Call a module; return the tensors that its parts, modules too, took and returned, in order, by call.

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
            tensors = [own for own in (values if isinstance(values, tuple) else (values,)) if hasattr(own, "detach")]
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
"""The messages on the first wrong numbers in a module, by what was right before and what is wrong."""


@answered
def parts_reached(asked: Responses) -> Claims:
    """The place of the first wrong numbers in a module: the input of one of its parts, or its output."""
    modules = asked.mismatch.modules
    if modules is None or equal(asked.got, asked.expected):
        return
    arguments = list(asked.mismatch.arguments.values())
    try:
        if not _have_the_same(*modules):
            return
        right, own = (run_remote(seen_by_parts, module, (arguments,)) for module in modules)
        found = [(what, name, _taken(numbers, masks, what, name, own)) for what, name, numbers, masks in right]
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
    """Tell whether a module has the numbers of the right one, under its names: else its parts are others."""
    wanted, came = ask(right, "state_dict"), ask(own, "state_dict")
    return all(
        name in came and tuple(came[name].shape) == tuple(value.shape) and bool((came[name] == value).all())
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
    """Tell whether two tensors have the same numbers, in another shape perhaps; None if that cannot be told."""
    wanted, came = (np.asarray(own, dtype=float) for own in (wanted, came))
    if wanted.shape == came.shape:
        return equal(came, wanted)
    if wanted.size == came.size:
        return equal(came.ravel(), wanted.ravel()) or None
    try:  # a mask may be stretched
        return equal(*np.broadcast_arrays(came, wanted)) or None
    except ValueError:
        return None


def _reach(asked: Responses, name: str, argument: Any, axis: int) -> Any:
    """Return which places along an axis of both results change with which place of an argument, and these places."""
    count = argument.shape[axis]
    half = MOST_ROWS // 2
    places = list(range(count)) if count <= MOST_ROWS else [*range(half), *range(count - half, count)]
    others = tuple(own for own in range(asked.expected.ndim) if own != axis % asked.expected.ndim)
    reached: list[list[Any]] = [[], []]
    for place in places:
        changed = argument.copy()
        at = (slice(None),) * (axis % argument.ndim) + (place,)
        changed[at] = asked.other(argument[at])
        came = asked(name, changed)
        if came is None:
            return None
        for own, before, into in zip(came, (asked.expected, asked.got), reached, strict=True):
            into.append((np.abs(own - before) > NOTICED * (np.abs(before).max() or 1.0)).any(others))
    return (*(np.stack(own, axis=1) for own in reached), np.array(places))


@answered
def rows_reached(asked: Responses) -> Claims:
    """A row of the result depends on other rows of an argument than it should."""
    if asked.expected.ndim < 2 or not asked.exact:
        return
    examples = []
    for name, argument in asked.arguments(axes=2):
        found = _reach(asked, name, argument, -2)
        if found is None or np.array_equal(*found[:2]):
            continue
        wanted, came, places = found
        i, j = np.arange(len(wanted))[:, None], places[None, :]
        more, fewer = came & ~wanted, wanted & ~came
        values = {"name": name, "what": asked.what}
        law = _law(wanted, came, i, j) if argument.shape[-2] == len(wanted) > 1 else None
        if law:
            yield (law[0], name), Message(law[1], **values)
        elif more.any():
            row, place = np.argwhere(more)[0]
            message = "For example, row {i} of {what} depends on row {j} of `{name}`, but should not."
            examples.append((("more", name), Message(message, **values, i=int(row), j=int(places[place]))))
        else:
            row, place = np.argwhere(fewer)[0]
            message = "For example, row {i} of {what} should depend on row {j} of `{name}`, but does not."
            examples.append((("fewer", name), Message(message, **values, i=int(row), j=int(places[place]))))
    yield from examples


def _law(wanted: Any, came: Any, i: Any, j: Any) -> tuple[str, str] | None:
    """Return what holds for each row of a square: a key, and a message; None if there is none of these."""
    more, fewer = came & ~wanted, wanted & ~came
    if fewer.any() and not more.any():
        if np.array_equal(came, np.broadcast_to(i == j, came.shape)):
            return "own", "Row i of {what} depends only on row i of `{name}`, but should depend on others as well."
        if wanted.all() and np.array_equal(came, np.broadcast_to(i >= j, came.shape)):
            return (
                "before",
                "Row i of {what} depends only on rows up to i of `{name}`, but should depend on later ones as well.",
            )
        if np.array_equal(fewer, np.broadcast_to(i == j, came.shape)):
            return "itself", "Row i of {what} should depend on row i of `{name}`, but does not."
    if more.any() and not fewer.any() and not ((more & (i >= j)) | (wanted & (i < j))).any():
        return "after", "Row i of {what} depends on rows after i of `{name}`, but should not."
    return None


@answered
def elements_reached(asked: Responses) -> Claims:
    """A result computed from a whole array depends on the wrong elements of it."""
    if asked.expected.ndim > 1 or not asked.exact:
        return
    for name, argument in asked.arguments(axes=2):
        if max(argument.shape[-2:]) > MOST_ROWS:
            continue
        for row, column in np.ndindex(argument.shape[-2:]):
            changed = argument.copy()
            changed[..., row, column] = asked.other(argument[..., row, column])
            came = asked(name, changed)
            if came is None:
                break
            wanted, found = asked.changed(came)
            if wanted != found:
                message = "The element in row {row}, column {column} of `{name}` affects {what}, but should not."
                if wanted:
                    message = (
                        "The element in row {row}, column {column} of `{name}` should affect {what}, but does not."
                    )
                values = {"name": name, "what": asked.what, "row": row, "column": column}
                yield ("element", name, wanted), Message(message, **values)
                break


@answered
def sequences_mixed(asked: Responses) -> Claims:
    """A sequence of a batch depends on another one."""
    e = asked.expected
    if e.ndim < 3 or e.shape[0] < 2 or not asked.exact:
        return
    for name, argument in asked.arguments(axes=3):
        if argument.ndim != e.ndim or len(argument) != len(e):
            continue
        found = _reach(asked, name, argument, -e.ndim)
        if found is None:
            continue
        wanted, came, places = found
        apart = np.arange(len(wanted))[:, None] != places[None, :]
        if (came & apart).any() and not (wanted & apart).any():
            message = (
                "Sequences of a batch are mixed: each sequence of {what} should depend only on its own in `{name}`."
            )
            yield ("mixed", name), Message(message, name=name, what=asked.what)


@answered
def one_added(asked: Responses) -> Claims:
    """The effect on the result of adding 1 to an argument."""
    for name, argument in asked.arguments():
        came = asked(name, argument + np.ones_like(argument))
        if came is None:
            continue
        values = {"name": name, "what": asked.what}
        stays = equal(came[1], asked.got)
        if equal(came[0], asked.expected):
            if not stays:
                message = "Adding 1 to all of `{name}` should not change {what}, but does."
                yield ("plus", name, "stays"), Message(message, **values)
        elif equal(came[0] - asked.expected, np.ones_like(came[0])):
            if not equal(came[1] - asked.got, np.ones_like(came[1])):
                message = "Adding 1 to all of `{name}` should add 1 to every element of {what}, but does not."
                yield ("plus", name, "grows"), Message(message, **values)
        elif stays:
            message = "Adding 1 to all of `{name}` should change {what}, but does not."
            yield ("plus", name, "changes"), Message(message, **values)


@answered
def doubled(asked: Responses) -> Claims:
    """The effect on the result of doubling an argument."""
    for name, argument in asked.arguments("fiu"):
        came = asked(name, 2 * argument)
        if came is None:
            continue
        wanted, found = (_times(own, old) for own, old in zip(came, (asked.expected, asked.got), strict=True))
        values = {"name": name, "what": asked.what}
        if wanted == "1" and found != "1":
            message = "Doubling `{name}` should not change {what}, but does."
            yield ("twice", name, "stays"), Message(message, **values)
        elif wanted and found and wanted != found:
            message = "Doubling `{name}` should multiply {what} by {wanted}, but multiplies it by {found}."
            yield ("twice", name, wanted, found), Message(message, **values, wanted=wanted, found=found)
        if wanted not in ("", "1") and found != wanted:
            message = "Doubling `{name}` should multiply {what} by {wanted}, but does not."
            yield ("twice", name, wanted), Message(message, **values, wanted=wanted)
        elif found and not wanted:
            message = "Doubling `{name}` multiplies {what} by {found}, but should not."
            message = message if found != "1" else "Doubling `{name}` should change {what}, but does not."
            yield ("twice as", name, found), Message(message, **values, found=found)


def _times(after: Any, before: Any) -> str:
    """Return by which one number a result was multiplied, as text; "" if by none."""
    square = float((before * before).sum())
    factor = float((before * after).sum()) / square if square else 0.0
    return f"{factor:.3g}" if abs(factor) > 1e-9 and equal(after, factor * before) else ""


RELATIONS = [
    one_for_ones,
    any_numbers,
    other_parameters,
    any_parameters,
    rows_reached,
    elements_reached,
    sequences_mixed,
    parts_reached,
    one_added,
    doubled,
]
"""All of them, the most specific first."""

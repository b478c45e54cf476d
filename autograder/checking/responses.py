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

from .mismatch import CLOSE, MOST_ELEMENTS, Claims, Mismatch, arrays_of, equal, refilled, twins_of
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
        self.expected = np.asarray(mismatch.expected).astype(float)
        self.got = np.asarray(mismatch.got).astype(float)
        # As drawn, for the dtypes: of a bfloat16 tensor, NumPy has a float32 array.
        values = (mismatch.got, *mismatch.arguments.values(), *mismatch.drawn)
        self.eps = max(map(_relative_rounding, values))
        self.exact = self.eps < UNNOTICED
        self.rounding = self._rounding()
        self.expected = self._without_rounding(self.expected)
        self.got = self._without_rounding(self.got)
        self.part: Any = mismatch.part  # the index of the compared array in a result's parts
        self.random = np.random.default_rng(0)  # feedback is the same each time

    def _rounding(self) -> float:
        """Return up to which magnitude a number of the results may be rounding alone.

        An expected result may be so itself, as a difference is that is 0 by the formula: then the
        arguments count.
        """
        magnitudes = [
            np.abs(argument[np.isfinite(argument)]).max(initial=0.0)
            for _name, argument in self.arguments()
        ]
        of_arguments = max(magnitudes, default=0.0) or 1.0
        of_expected = np.abs(self.expected).max(initial=0.0)
        share = ROUNDINGS * self.eps
        return share * float(of_expected if of_expected > share * of_arguments else of_arguments)

    def __call__(self, name: str, changed: Any) -> Any:
        """Return both results, the expected one first, with one argument changed; None if there
        are none.
        """
        # In the argument's own layout: with a mistake, another one may change the result.
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
        return results if all(np.isfinite(result).all() for result in results) else None

    def _without_rounding(self, numbers: Any) -> Any:
        """Return numbers with rounding errors set to 0, because those change with any argument."""
        return np.where(np.abs(numbers) <= self.rounding, 0.0, numbers)

    def changed(self, results: Any) -> tuple[bool | None, bool | None]:
        """Tell for both results whether they have changed: None where it may be rounding."""
        expected, got = results
        return self._has_changed(expected, self.expected), self._has_changed(got, self.got)

    def _has_changed(self, after: Any, before: Any) -> bool | None:
        change = np.abs(after - before).max()
        unit = max(np.abs(before).max(), np.abs(after).max())
        if change <= ROUNDINGS * self.eps * unit:
            return False
        return True if change > CLOSE * unit else None

    def arguments(self, kinds: str = "f", axes: int = 0) -> Iterator[tuple[str, Any]]:
        """Yield the arrays among the arguments, of a kind of number and with so many axes or
        more, by name.
        """
        for name, argument in self.mismatch.arguments.items():
            if not isinstance(argument, np.ndarray):
                continue
            if argument.dtype.kind in kinds and argument.ndim >= axes:
                yield name, argument

    def other(self, argument: Any) -> Any:
        """Return other numbers of the size of an argument's."""
        scale = np.abs(argument).mean() or 1.0
        # Independent numbers in each place: adding one number to all leaves softmax as it is.
        return (argument + scale * self.random.normal(size=argument.shape)).astype(argument.dtype)


def _relative_rounding(value: Any) -> float:
    """Return the relative rounding of a value's numbers; 0 of what is no array of floating-point
    numbers.
    """
    if getattr(value, "dtype", None) is not None and str(value.dtype) == "torch.bfloat16":
        return 2.0**-7
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return float(np.finfo(value.dtype).eps)
    return 0.0


def with_right_answer(
    relation: Callable[[Responses], Claims], steady: bool = True
) -> Callable[[Mismatch], Claims]:
    """Let a relation see only numeric mismatches in which function and right answer return the same
    again.

    Without `steady`, those in which only the right answer does.
    """

    def compared(mismatch: Mismatch) -> Claims:
        if not _has_numbers(mismatch):
            return ()
        responses = Responses(mismatch)
        if responses.eps > COARSE:
            return ()
        # Once for all relations of a mismatch.
        if mismatch.steady is None:
            _repeat(responses)
        if mismatch.expected_again is not None:
            responses.expected = mismatch.expected_again
        applies = mismatch.steady if steady else mismatch.wavers
        return relation(responses) if applies else ()

    compared.__doc__ = relation.__doc__
    compared.__name__ = relation.__name__
    return compared


def _has_numbers(mismatch: Mismatch) -> bool:
    """Tell whether a mismatch has a right answer and two finite arrays of one moderate shape."""
    e, g = mismatch.expected, mismatch.got
    if mismatch.answer is None or mismatch.call is None or mismatch.part is None:
        return False
    if e is None or g is None or e.shape != g.shape or not e.size:
        return False
    arrays = [value for value in mismatch.arguments.values() if isinstance(value, np.ndarray)]
    if max(array.size for array in [e, g, *arrays]) > MOST_ELEMENTS:
        return False
    return bool(np.isfinite(e).all() and np.isfinite(g).all())


def _repeat(responses: Responses) -> None:
    """Call both functions with the same arguments again; enter in the mismatch whether they return
    the same.
    """
    mismatch = responses.mismatch
    results = responses.results(mismatch.arguments)
    if results is None or not equal(results[0], responses.expected):
        mismatch.steady = False
        return
    changed = responses.changed(results)[1]
    mismatch.steady = changed is False
    mismatch.wavers = changed is True and mismatch.intact
    mismatch.expected_again = results[0]


def _another_time(responses: Responses) -> Claims:
    """The function returns something else for the same arguments."""
    message = (
        "A second call with the same arguments changes {what}. Is it random, or is something "
        "stored between calls?"
    )
    yield "wavers", Message(message, what=responses.what)


another_time = with_right_answer(_another_time, steady=False)


@with_right_answer
def memory_layout(responses: Responses) -> Claims:
    """The result is right for the same arguments without gaps in memory."""
    contiguous = {
        name: np.ascontiguousarray(argument)
        for name, argument in responses.arguments()
        if not argument.flags.c_contiguous
    }
    if not contiguous or equal(responses.got, responses.expected):
        return
    results = responses.results({**responses.mismatch.arguments, **contiguous})
    if results is not None and equal(results[1], responses.expected):
        message = (
            "For a contiguous copy of `{name}`, {what} is right: it should not depend on "
            "the memory layout."
        )
        yield "layout", Message(message, name=next(iter(contiguous)), what=responses.what)


@with_right_answer
def any_numbers(responses: Responses) -> Claims:
    """An argument has no influence, or one that it should not have."""
    for name, argument in responses.arguments():
        results = responses(name, responses.other(argument))
        if results is None:
            continue
        should_change, changed = responses.changed(results)
        if should_change and changed is False:
            message = "Changing the numbers in `{name}` should change {what}, but does not."
            yield ("none", name), Message(message, name=name, what=responses.what)
        if changed and should_change is False:
            message = "Changing the numbers in `{name}` should not change {what}, but does."
            yield ("some", name), Message(message, name=name, what=responses.what)


def seen_by_parts(module: "Any", arguments: "Any") -> "Any":
    """Call a module; return the tensors that its parts, modules too, took and returned, in order,
    by call.

    Each is a list: what happened ("into" or "out of"), the part's name, its numbers, and its masks.
    This runs where the module lives, and goes there as text.
    """
    import numpy
    import torch

    most = 300  # calls of parts: a student's module may have any number of them
    seen: list[list[object]] = []

    def noting(direction: str, name: str) -> "Any":
        def note(_part: torch.nn.Module, inputs: "Any", named: "Any", *result: "Any") -> None:
            values = result[0] if result else (*inputs, *named.values())
            numbers: list[object] = []
            masks: list[object] = []
            for value in values if isinstance(values, tuple) else (values,):
                if not hasattr(value, "detach") or len(seen) >= most:
                    continue
                if value.dtype == torch.bool:
                    masks.append(value.detach().clone())
                elif value.is_floating_point():
                    numbers.append(value.detach().clone())
            seen.append([direction, name, numbers, masks])

        return note

    hooks = []
    for name, part in module.named_modules():
        if name:  # the module itself has none
            hooks.append(part.register_forward_pre_hook(noting("into", name), with_kwargs=True))
            hooks.append(part.register_forward_hook(noting("out of", name), with_kwargs=True))
    try:
        module(*[torch.tensor(v) if isinstance(v, numpy.ndarray) else v for v in arguments])
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


@with_right_answer
def parts_reached(responses: Responses) -> Claims:
    """The first wrong numbers in a module: in the input of one of its parts, or in its output."""
    modules = responses.mismatch.modules
    if modules is None or equal(responses.got, responses.expected):
        return
    arguments = [twin(argument, {}, keep_modules=True) for argument in responses.mismatch.drawn]
    try:
        if not _same_parameters(*modules):
            return
        right, tested = (run_remote(seen_by_parts, module, (arguments,)) for module in modules)
        # Of each part, what is wrong: "numbers", "mask" or "" for nothing; None if the part cannot
        # be compared.
        comparisons = [
            (direction, name, _compared(direction, name, numbers, masks, tested))
            for direction, name, numbers, masks in right
        ]
    except Exception:  # a student's process may return anything
        return
    # Go through the parts in order; remember the last one that was right.
    before, before_direction = "", ""
    skipped = False
    for direction, name, wrong in comparisons:
        if wrong is None:
            skipped = True  # the student may have written this part in another way
        elif wrong == "mask":
            yield ("mask", name), Message("The mask passed to `{name}` is wrong.", name=name)
            return
        elif wrong:
            order = ("same" if name == before else before_direction, direction)
            if order in FIRST_WRONG:
                yield (*order, before, name), Message(FIRST_WRONG[order], before=before, name=name)
            return
        else:
            before, before_direction = name, direction
    if before_direction == "out of" and not skipped:
        message = "The output of `{before}` is right, but the result computed from it is wrong."
        yield ("end", before), Message(message, before=before)


def _same_parameters(right: Any, tested: Any) -> bool:
    """Tell whether a module has the right one's numbers, under its names: only then can their
    parts be compared.
    """
    expected = ask(right, "state_dict")
    got = ask(tested, "state_dict")
    for name, value in expected.items():
        if name not in got or tuple(got[name].shape) != tuple(value.shape):
            return False
        if not bool((got[name] == value).all()):
            return False
    return True


def _compared(direction: str, name: str, numbers: Any, masks: Any, calls: Any) -> str | None:
    """Return what is wrong where a part takes or returns something, "numbers" or "mask".

    "" if nothing is, in one of its calls at least; None if it is never called, or in other shapes.
    """
    outcomes: list[str | None] = []
    for other_direction, other_name, other_numbers, other_masks in calls:
        if (other_direction, other_name) != (direction, name):
            continue
        same_numbers = [_alike(*pair) for pair in zip(numbers, other_numbers, strict=False)]
        same_masks = [_alike(*pair) for pair in zip(masks, other_masks, strict=False)]
        if False in same_numbers:
            outcomes.append("numbers")
        elif None in same_numbers or not same_numbers:
            outcomes.append(None)
        else:
            outcomes.append("mask" if False in same_masks else "")
    best_first = ["", None, "mask", "numbers"]
    return min(outcomes, key=best_first.index, default=None)


def _alike(expected: Any, got: Any) -> bool | None:
    """Tell whether two tensors have the same numbers, in another shape perhaps; None if that is
    uncertain.
    """
    expected, got = np.asarray(expected, dtype=float), np.asarray(got, dtype=float)
    if expected.shape == got.shape:
        return equal(got, expected)
    if expected.size == got.size:
        return equal(got.ravel(), expected.ravel()) or None
    try:  # a mask may be stretched
        return equal(*np.broadcast_arrays(got, expected)) or None
    except ValueError:
        return None


def _reach(responses: Responses, name: str, argument: Any) -> Any:
    """Return how much the rows of both results change with the rows of an argument, and the
    indices of these rows: two arrays (result's rows, argument's rows), and a list.
    """
    count = argument.shape[-2]
    half = MOST_ROWS // 2
    rows = list(range(count))
    if count > MOST_ROWS:
        rows = rows[:half] + rows[-half:]
    axes = responses.expected.ndim
    others = tuple(axis for axis in range(axes) if axis != axes - 2)

    def by_row(after: Any, before: Any) -> Any:
        return (np.abs(after - before) / (np.abs(before).max() or 1.0)).max(others)

    changes_of_expected, changes_of_got = [], []
    for row in rows:
        changed = argument.copy()
        changed[..., row, :] = responses.other(argument[..., row, :])
        results = responses(name, changed)
        if results is None:
            return None
        changes_of_expected.append(by_row(results[0], responses.expected))
        changes_of_got.append(by_row(results[1], responses.got))
    return np.stack(changes_of_expected, axis=1), np.stack(changes_of_got, axis=1), rows


@with_right_answer
def rows_reached(responses: Responses) -> Claims:
    """A row of the result depends on other rows of an argument than it should."""
    if responses.expected.ndim < 2 or not responses.exact:
        return
    examples = []
    for name, argument in responses.arguments(axes=2):
        reach = _reach(responses, name, argument)
        if reach is None:
            continue
        by_expected, by_got, rows = reach
        should = by_expected > NOTICED
        # Between the two limits, a change may be rounding: it counts neither way.
        more = (by_got > NOTICED) & (by_expected <= UNNOTICED)
        fewer = should & (by_got <= UNNOTICED)
        if not (more.any() or fewer.any()):
            continue
        row, column = np.argwhere(more if more.any() else fewer)[0]
        # (result's rows, argument's rows): True where the argument's row comes after the result's
        later = np.arange(len(should))[:, None] < np.array(rows)
        values = {"name": name, "what": responses.what}
        at = {"i": int(row), "j": int(rows[column])}
        if more.any() and not (fewer.any() or (more & ~later).any() or (should & later).any()):
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
    yield from examples  # after the general finding, which says more


@with_right_answer
def one_added(responses: Responses) -> Claims:
    """The effect on the result of adding 1 to an argument."""
    for name, argument in responses.arguments():
        results = responses(name, argument + np.ones_like(argument))
        if results is None:
            continue
        values = {"name": name, "what": responses.what}
        should_change, changed = responses.changed(results)
        if should_change is False and changed:
            message = "Adding 1 to all of `{name}` should not change {what}, but does."
            yield ("plus", name, "stays"), Message(message, **values)
        elif should_change and changed is False:
            message = "Adding 1 to all of `{name}` should change {what}, but does not."
            yield ("plus", name, "changes"), Message(message, **values)


@with_right_answer
def doubled(responses: Responses) -> Claims:
    """The effect on the result of doubling an argument."""
    for name, argument in responses.arguments("fiu"):
        results = responses(name, 2 * argument)
        if results is None:
            continue
        expected = _times(results[0], responses.expected)
        got = _times(results[1], responses.got)
        if expected is None or got is None:
            continue
        values = {"name": name, "what": responses.what}
        if expected == "1" and got != "1":
            message = "Doubling `{name}` should not change {what}, but does."
            yield ("twice", name, "stays"), Message(message, **values)
        elif expected and got and expected != got:
            text = (
                "Doubling `{name}` should multiply {what} by {wanted}, but multiplies it by "
                "{found}."
            )
            both = Message(text, **values, wanted=expected, found=got)
            yield ("twice", name, expected, got), both
        if expected not in ("", "1") and got != expected:
            message = "Doubling `{name}` should multiply {what} by {wanted}, but does not."
            yield ("twice", name, expected), Message(message, **values, wanted=expected)
        elif got and not expected:
            message = "Doubling `{name}` multiplies {what} by {found}, but should not."
            if got == "1":
                message = "Doubling `{name}` should change {what}, but does not."
            yield ("twice as", name, got), Message(message, **values, found=got)


def _times(after: Any, before: Any) -> str | None:
    """Return by which one number a result was multiplied, as text: "" if by none, None if any
    number would do.
    """
    if not before.any():
        return None  # 0, whatever multiplies it
    factor = float((before * after).sum()) / float((before * before).sum())
    return f"{factor:.3g}" if abs(factor) > 1e-9 and equal(after, factor * before) else ""


LAST_RELATIONS = [any_numbers, rows_reached, parts_reached, one_added, doubled]
"""Those that are tried after all others, the most specific first."""

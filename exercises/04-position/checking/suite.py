"""Suites: declare checks, run them on a function, and recognise a mistake that has a name."""

import contextlib
import copy
import importlib
import inspect
import os
import secrets
import sys
import warnings
from dataclasses import asdict, dataclass, field

import numpy as np

from checking import show
from checking.draw import Draw
from checking.expect import RTOL, Failed, as_array, describe, shapes

MIME = "application/vnd.checking.report+json"
"""The MIME type under which a check cell's output carries its `Report`, for whoever grades."""


@dataclass
class Call:
    """One call of the function under test: what it returned or raised, and its arguments afterwards."""

    arguments: tuple
    result: object = None
    error: BaseException | None = None
    must_raise: bool = False


class Here:
    """The place where checks run: a student's own notebook or script. Grading puts a judge in its place."""

    @property
    def seed(self):
        """The seed of the draws: a new one each time."""
        return int(os.environ.get("CHECKING_SEED") or secrets.randbits(48))

    def lookup(self, name):
        """Return what the running notebook has under a name, or None."""
        return vars(sys.modules["__main__"]).get(name)

    def show(self, report):
        """Show a `Report` to whoever runs the check."""
        show.report(report, MIME)


here = Here()


class Subject:
    """The function under test, by name: called like the function, and remembers every call.

    `lookup` returns the function as it stands now; whatever runs the checks elsewhere than in the
    student's own process gives its own.
    """

    def __init__(self, name, function):
        self.name, self.function, self.calls = name, function, []

    def __call__(self, *arguments):
        """Return what the function returns; raise `Failed`, with the shapes, if it raises."""
        call = self._call(arguments)
        if call.error is None:
            return call.result
        if getattr(call.error, "ended", False):
            raise Failed(f"{self.name} did not come to an end: {call.error}")
        kind = type(call.error).__name__
        raise Failed(f"{self.name} raised {kind} for arguments of shape {shapes(arguments)}: {call.error}")

    def error(self, *arguments):
        """Return the exception that the function raises for these arguments, or None."""
        call = self._call(arguments)
        call.must_raise = True
        return call.error

    def _call(self, arguments):
        # The function gets twins: what it does to them in place must not change what a check compares with.
        twins = {}
        call = Call(tuple(twin(argument, twins) for argument in arguments))
        self.calls.append(call)
        try:
            # A warning is not a fault, and nbgrader takes whatever stands on stderr for one.
            with np.errstate(all="ignore"), warnings.catch_warnings(), contextlib.redirect_stderr(sys.stdout):
                warnings.simplefilter("ignore")
                call.result = self.function(*call.arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a SystemExit in a submission is a wrong answer too
            call.error = error
        # What a later call does in place must not change what this one is remembered by.
        call.result = copy.deepcopy(call.result) if call.error is None else None
        return call


def twin(value, twins):
    """Return a copy of an argument that is like it in every way: strides, order, read-only or not.

    `twins` remembers what was copied, so that one array given twice is one array still.
    """
    if id(value) in twins:
        return twins[id(value)]
    if type(value) is np.ndarray and value.dtype.kind in "biufc":
        low = sum(min(0, (n - 1) * stride) for n, stride in zip(value.shape, value.strides, strict=True))
        high = sum(max(0, (n - 1) * stride) for n, stride in zip(value.shape, value.strides, strict=True))
        memory = bytearray(max(high - low, 0) + value.itemsize)
        copied = np.ndarray(value.shape, value.dtype, memory, -low if value.size else 0, value.strides)
        copied[...] = value
        copied.flags.writeable = value.flags.writeable
    elif isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        copied = type(value)(twin(item, twins) for item in value)
    elif type(value) is dict:
        copied = {key: twin(item, twins) for key, item in value.items()}
    elif isinstance(value, np.random.Generator) or hasattr(value, "detach") or hasattr(value, "state_dict"):
        copied = copy.deepcopy(value)
    else:
        copied = value
    twins[id(value)] = copied
    return copied


@dataclass
class Result:
    """What one check found. `status` is passed, failed, or waiting (for a check it needs)."""

    name: str
    title: str
    weight: float
    status: str = "passed"
    message: str = ""
    held: list = field(default_factory=list)
    where: dict | None = None
    cause: str = ""
    hint: str = ""


@dataclass
class Report:
    """What all the checks of one function found, and the points that come of it."""

    subject: str
    points: float
    score: float
    seed: int
    read: str
    results: list

    def to_dict(self):
        """Return the report as plain lists, dicts, strings and finite numbers, as JSON has them."""
        return _finite(asdict(self))


def _finite(value):
    if isinstance(value, dict):
        return {name: _finite(own) for name, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(own) for own in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def misconception(subject, hint):
    """Declare a wrong answer for `subject`: a function that people really write, and what to tell them."""

    def declare(function):
        function.wrong_for, function.hint = subject, hint
        return function

    return declare


def right(subject):
    """Declare a right answer for `subject` that is written differently from ours."""

    def declare(function):
        function.right_for = subject
        return function

    return declare


class Suite:
    """The checks of one exercise.

    Parameters
    ----------
    module : str
        `__name__` of the exercise's checks module. A module `misconceptions` beside it is read when a check fails.
    read : dict
        For each function under test, where in the book to read.
    """

    def __init__(self, module, read):
        self.module, self.read = module, read
        self.checks = []

    def check(self, weight=1, needs=()):
        """Declare a check: its first parameter names the function under test, its docstring is its title.

        `weight` is relative to the function's other checks. `needs` names checks that must hold before this
        one says anything useful; until they do, this one waits.
        """

        def declare(function):
            function.weight, function.needs = weight, tuple(needs)
            function.subject = next(iter(inspect.signature(function).parameters))
            self.checks.append(function)
            return function

        return declare

    def of(self, subject):
        """Return the checks of one function, in the order in which they were declared."""
        return [check for check in self.checks if check.subject == subject]

    def listed(self, kind, subject):
        """Return the answers listed for `subject`; `kind` is `wrong_for` or `right_for`."""
        listed = vars(importlib.import_module("misconceptions")).values()
        return [answer for answer in listed if getattr(answer, kind, None) == subject]

    def run(self, subject, points, seed=None):
        """Check the function named `subject` of the running notebook or script; show the feedback.

        Parameters
        ----------
        subject : str
            The name of the function under test.
        points : float
            What the cell is worth.
        seed : int, optional
            Repeats an earlier run's inputs. Without it they are drawn afresh.

        Returns
        -------
        float
            The points earned, from 0 to `points`.
        """
        function = here.lookup(subject)
        report = self.examine(subject, function, points, here.seed if seed is None else seed)
        here.show(report)
        return report.score

    def examine(self, subject, function, points=1.0, seed=0):
        """Return the `Report` on `function`, which stands for `subject`."""
        checks = self.of(subject)
        if not checks:
            raise ValueError(f"there is no check for {subject!r} in {self.module}")
        results, calls = [], {}
        unwritten = _unwritten(subject, function)
        for check in checks:
            result = Result(check.__name__, inspect.getdoc(check).strip(), check.weight)
            results.append(result)
            passed = {earlier.name for earlier in results if earlier.status == "passed"}
            waits = [need for need in check.needs if need not in passed - {check.__name__}]
            if unwritten or waits:
                result.status = "waiting"
                titles = [earlier.title.rstrip(".") for earlier in results if earlier.name in waits]
                result.message = unwritten or f"Waits until this holds: {'; '.join(titles)}."
                continue
            calls[check.__name__], failure = _try(check, subject, function, seed)
            if failure is None:
                continue
            if calls[check.__name__] and isinstance(calls[check.__name__][0].error, NotImplementedError):
                unwritten = f"{subject} is not written yet: it raises NotImplementedError."
                result.status, result.message = "waiting", unwritten
                continue
            result.status, result.message, result.held = "failed", failure.message, failure.held
            result.where = _where(failure)
        # A hint that cannot be had costs nobody a point: the list of wrong answers is ours, and may be at fault.
        with contextlib.suppress(Exception):
            self._diagnose(subject, results, calls, seed)
        total = sum(check.weight for check in checks)
        earned = sum(result.weight for result in results if result.status == "passed")
        score = round(float(points) * earned / total, 2)
        return Report(subject, float(points), score, seed, self.read.get(subject, ""), results)

    def _diagnose(self, subject, results, calls, seed):
        """Name the cause of each failed check: the listed wrong answer that behaves as this function did."""
        failed = [result for result in results if result.status == "failed"]
        if not failed:
            return
        checks = {check.__name__: check for check in self.of(subject)}

        def alike(wrong, names, failing=False):
            tried = {name: _try(checks[name], subject, wrong, seed) for name in names}
            return {
                n for n, (own, failure) in tried.items() if _same_calls(calls[n], own) and (failure or not failing)
            }

        names, agreed = [result.name for result in failed], []
        for wrong in self.listed("wrong_for", subject):
            same = alike(wrong, names, failing=True)  # what passes a check is no cause of failing it
            if same:
                agreed.append((wrong, same | alike(wrong, calls.keys() - same - set(names))))
        # The answer that behaves alike in most checks explains most.
        agreed.sort(key=lambda pair: -len(pair[1]))
        for result in failed:
            for wrong, same in agreed:
                if result.name in same:
                    result.cause, result.hint = wrong.__name__, wrong.hint
                    break


def backward(function, *arguments, upstream=None):
    """Call `function` with autograd, and return its result and the gradients: of a torch function or module.

    Parameters
    ----------
    function : callable
        Returns a tensor, or a tuple whose first element is the tensor to differentiate.
    arguments : tuple
        Floating tensors among them get gradients.
    upstream : Tensor, optional
        The gradient of the loss with respect to that tensor, of its shape. Default: ones.

    Returns
    -------
    tuple
        The result; a list with a gradient for each floating argument, None for the others; and a dict with the
        gradient of each of a module's parameters, by name.
    """
    if hasattr(type(function), "_backward"):  # an object that lives elsewhere differentiates there
        return function._backward(arguments, upstream)
    import torch

    def floating(own):
        return isinstance(own, torch.Tensor) and own.is_floating_point()

    arguments = [own.detach().clone().requires_grad_() if floating(own) else own for own in arguments]
    module = isinstance(function, torch.nn.Module)
    if module:
        function.zero_grad()
    result = function(*arguments)
    first = result[0] if isinstance(result, (tuple, list)) else result
    first.backward(torch.ones_like(first) if upstream is None else upstream)
    named = function.named_parameters() if module else ()
    return result, [own.grad if floating(own) else None for own in arguments], {name: own.grad for name, own in named}


def _unwritten(subject, function):
    """Return why there is nothing to check, or an empty string."""
    if function is None:
        return f"{subject} is not defined: run the cell that defines it, and see whether it ends in an error."
    if not callable(function):
        return f"{subject} should be a function, and is {describe(function)}."
    return ""


def _try(check, subject, function, seed):
    """Run one check on one function; return the calls it made and the `Failed`, or None."""
    under_test = Subject(subject, function)
    failure = None
    try:
        check(under_test, Draw(seed, check.__name__))
    except Failed as error:
        failure = error
    except Exception as error:  # a result so odd that the check itself stumbled over it
        if not under_test.calls:
            raise
        returned = describe(under_test.calls[-1].result)
        failure = Failed(f"{subject} returned {returned}, which does not work here: {error}")
    return under_test.calls, failure


def _same_calls(own, other):
    """Tell whether two functions did the same in every call: results, exceptions, changed arguments."""
    return len(own) == len(other) and all(
        _same_error(a, b) and _same(a.result, b.result) and _same(a.arguments, b.arguments)
        for a, b in zip(own, other, strict=True)
    )


def _same_error(a, b):
    if type(a.error).__name__ != type(b.error).__name__:  # by name: one of them may have come from another process
        return False
    # An error that is asked for is worded by whoever wrote it.
    return (a.must_raise and b.must_raise) or str(a.error) == str(b.error)


def _same(a, b):
    if isinstance(a, (tuple, list)) and type(a) is type(b):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    x, y = as_array(a), as_array(b)
    if x is None or y is None:
        return x is y and type(a) is type(b)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if not x.size:
        return True
    with np.errstate(all="ignore"):
        scale = np.nanmax(np.abs(y, where=np.isfinite(y), out=np.zeros(y.shape)), initial=0.0) or 1.0
        return bool(np.allclose(x, y, rtol=0, atol=RTOL * scale, equal_nan=True))


def _where(failure, most=6):
    """Return the first wrong element and the matrix around it (at most 6 by 6), as plain values."""
    if failure.wrong is None or not failure.wrong.ndim:
        if failure.wrong is None:
            return None
        return {"index": [], "expected": float(failure.expected), "got": float(failure.got)}
    index = tuple(int(i) for i in np.argwhere(failure.wrong)[0])
    lead = index[:-2]
    rows, columns = failure.wrong.shape[-2:] if failure.wrong.ndim > 1 else (1, failure.wrong.shape[-1])
    top = min(index[-2] // most * most, rows - 1) if failure.wrong.ndim > 1 else 0
    left = index[-1] // most * most
    window = (slice(top, top + most), slice(left, left + most))

    def cut(array):
        return np.atleast_2d(array[lead])[window].astype(float).tolist()

    return {
        "index": list(index),
        "expected": float(failure.expected[index]),
        "got": float(failure.got[index]),
        "lead": list(lead),
        "origin": [top, left],
        "expected_matrix": cut(failure.expected),
        "got_matrix": cut(failure.got),
        "wrong_matrix": np.atleast_2d(failure.wrong[lead])[window].tolist(),
    }

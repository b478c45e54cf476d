"""Suites: declare checks, run them on a function, and recognise a mistake that has a name."""

import contextlib
import copy
import functools
import importlib
import inspect
import os
import secrets
import sys
import time
import warnings
from contextvars import ContextVar
from dataclasses import dataclass, field, fields

import numpy as np

from . import machine, show, words
from .answers import listed
from .draw import Draw
from .expect import (
    BY_HAND,
    RTOL,
    THE_RESULT,
    Failed,
    as_numbers,
    as_plain,
    describe,
    is_module,
    lives_elsewhere,
    shapes,
)
from .modules import CUT_OFF, Module, expect_module, kept, run_there, same_draws
from .relations import Case, relate
from .words import Message, joined

QUICK = 0.5
"""Seconds within which a check must have failed to be run again for a relation: hints must not use up a limit."""

MOST_PARTS = 100
"""Of a result with more, no tensor is looked for among its parts."""

MIME = "application/vnd.checking.report+json"
"""The MIME type under which a check cell's output carries its `Report`, for whoever grades."""


@dataclass
class Call:
    """One call of the function under test: what it returned or raised, and its arguments afterwards.

    `function` is what was called. Where that is not the function under test itself but something that it made, `what`
    says how: "forward", "backward", or the name of what else was asked of a `Module`.
    """

    arguments: tuple
    result: object = None
    error: BaseException | None = None
    must_raise: bool = False
    function: object = None
    what: str = ""


class Here:
    """The place where checks run: a student's own notebook or script."""

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


class Points(float):
    """What a check cell's last line comes to. nbgrader reads the number; notebooks show an empty text instead."""

    def _repr_html_(self):
        return ""


_HERE = Here()
_place = ContextVar("place", default=_HERE)


@contextlib.contextmanager
def placed(place):
    """Run checks at another place than a student's notebook, for as long as the context lasts.

    Parameters
    ----------
    place : object
        Has what `Here` has: `seed`, `lookup(name)` and `show(report)`.
    """
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)


class Subject:
    """The function under test, by name: called like the function, and remembers every call.

    Parameters
    ----------
    name : str
    function : callable
    like : list of Call, optional
        The calls of another function. The first call that comes out differently ends the check with `Unlike`.
    """

    def __init__(self, name, function, like=None):
        self.name, self.function, self.like, self.calls = name, function, like, []

    def __call__(self, *arguments):
        """Return what the function returns; raise `Failed`, with the shapes, if it raises."""
        return self.result(self.call(arguments), self.name)

    def error(self, *arguments):
        """Return the exception that the function raises for these arguments, or None."""
        return self.call(arguments, must_raise=True).error

    def module(self, *arguments):
        """Call the function, which makes a module of torch, and return that as a `Module`; or a class, likewise."""
        name = f"{self.name}({shapes(arguments)})"
        module = self.result(self.call(arguments), self.name)
        expect_module(module, name)
        return Module(self, module, name)

    def given(self, module, name):
        """Return a torch module of the check's own as a `Module`, to be an argument, and to be looked at later."""
        return Module(self, kept(self.function, module), name)

    def there(self, function, *arguments):
        """Run a function of the check's own where the function under test lives, with that and arguments.

        Return its result. It is one message; see `Module.there`.
        """
        call = self.call(arguments, lambda *copies: run_there(function, self.function, copies), function.__name__)
        return self.result(call, self.name)

    def call(self, arguments, function=None, what="", must_raise=False):
        """Make a `Call` and remember it: of the function itself, or of something that it made; see `Call`."""
        call = _called(self.function if function is None else function, arguments, must_raise)
        call.what = what
        self.calls.append(call)
        if self.like is not None:
            place = len(self.calls) - 1
            if place >= len(self.like) or not _same_call(self.like[place], call):
                raise Unlike
        return call

    @staticmethod
    def result(call, name):
        """Return what came of a `Call`; raise `Failed`, with the shapes, if that is an error."""
        if call.error is None:
            return call.result
        if getattr(call.error, "ended", False):
            message = Message("{function} did not come to an end: {error}", function=name, error=str(call.error))
            raise Failed(message)
        message = Message(
            "{function} raised {kind} for arguments of shape {shapes}: {error}",
            function=name,
            kind=type(call.error).__name__,
            shapes=shapes(call.arguments),
            error=str(call.error) or Message("no message"),
        )
        raise Failed(message)

    def differentiated(self, arguments, upstream, function=None, name=""):
        """Do as `backward`, of the function itself or of a module that it made."""
        target, name = self.function if function is None else function, name or self.name
        call = self.call(arguments, lambda *arguments: backward(target, *arguments, upstream=upstream), "backward")
        if call.error is not None and CUT_OFF in str(call.error):
            message = (
                "Autograd finds no way back from the result of {function}: `detach`, `.data`, `torch.no_grad`, "
                "`torch.tensor(...)` or NumPy on the way cut it off."
            )
            raise Failed(Message(message, function=name))
        return self.result(call, name)

    def _backward(self, arguments, upstream):
        return self.differentiated(arguments, upstream)


def _called(function, arguments, must_raise=False):
    """Call a function and return the `Call`, whatever came of it."""
    # The function gets twins: what it does to them in place must not change what a check compares with.
    twins = {}
    arguments = tuple([twin(argument, twins) for argument in arguments])
    call = Call(arguments, must_raise=must_raise, function=function)
    try:
        # A warning is not a fault, and nbgrader takes whatever stands on stderr for one.
        with np.errstate(all="ignore"), warnings.catch_warnings(), contextlib.redirect_stderr(sys.stdout):
            warnings.simplefilter("ignore")
            with same_draws():
                call.result = function(*call.arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a SystemExit in a submission is a wrong answer too
        call.error = error
    # What a later call does in place must not change what this one is remembered by.
    call.result = _remembered(call.result) if call.error is None else None
    return call


def _remembered(value):
    """Return a copy of a result: of a tensor without its graph, which cannot be copied; of a module itself."""
    if hasattr(type(value), "detach"):
        copied = value.detach().clone()
        return copied.requires_grad_() if value.requires_grad else copied
    if type(value) in (list, tuple) and len(value) <= MOST_PARTS:
        return type(value)([_remembered(item) for item in value])
    if type(value) is dict and len(value) <= MOST_PARTS:
        return {name: _remembered(item) for name, item in value.items()}
    try:
        return value if is_module(value) else copy.deepcopy(value)
    except Exception:  # of a `yield`, say: what cannot be copied is no number, and is remembered as it is
        return value


class Unlike(BaseException):
    """Two functions did not do the same. Not an `Exception`, so that no check takes it for a fault of its own."""


def twin(value, twins):
    """Return a copy of an argument that is like it in every way: strides, order, read-only or not.

    `twins` remembers what was copied, so that one array given twice is one array still.
    """
    if id(value) in twins:
        return twins[id(value)]
    if type(value) is np.ndarray and value.dtype.kind in "biufc":
        copied = value.copy("K")
        if copied.strides != value.strides:  # a view with gaps or repeats
            copied = _strided_copy(value)
        copied.flags.writeable = value.flags.writeable
    elif isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        copied = type(value)([twin(item, twins) for item in value])
    elif type(value) is dict:
        copied = {key: twin(item, twins) for key, item in value.items()}
    elif type(value) is np.random.Generator:
        copied = _generator(value)
    elif type(value) is Module:
        copied = value.own
    elif hasattr(type(value), "detach"):
        copied = _tensor(value)
    elif hasattr(type(value), "state_dict"):
        copied = copy.deepcopy(value)
    else:
        copied = value
    twins[id(value)] = copied
    return copied


def _tensor(value):
    """Return a tensor like `value`: as `copy.deepcopy` does, in a tenth of the time where nothing hangs on it."""
    if not value.requires_grad:
        copied = value.clone()
        if type(copied) is type(value) and copied.stride() == value.stride():  # no view with gaps or repeats
            return copied
    return copy.deepcopy(value)


def _generator(rng):
    """Return a generator that draws and spawns what `rng` would: as `copy.deepcopy` does, in a fifth of the time."""
    bits = rng.bit_generator
    seeds = bits.seed_seq
    if type(seeds) is not np.random.SeedSequence:
        return copy.deepcopy(rng)
    copied = type(bits)(np.random.SeedSequence(**seeds.state))
    copied.state = bits.state
    return np.random.Generator(copied)


def _strided_copy(array):
    # `_span` in the sandbox's wire.py does the same sums: neither module may import the other, since this one
    # travels with the exercises and that one runs where there are no checks.
    low = sum(min(0, (n - 1) * stride) for n, stride in zip(array.shape, array.strides, strict=True))
    high = sum(max(0, (n - 1) * stride) for n, stride in zip(array.shape, array.strides, strict=True))
    memory = bytearray(max(high - low, 0) + array.itemsize)
    copied = np.ndarray(array.shape, array.dtype, memory, -low if array.size else 0, array.strides)
    copied[...] = array
    return copied


@dataclass
class Result:
    """What one check found. `status` is passed, failed, waiting (for a check it needs), or unverified.

    An unverified check needs what this machine does not have; `on` says what. It was not run.

    `title`, `message`, `held`, `label` and `hint` are for people: each a template in plain text or a `Message`.
    `cause` is the name of the listed wrong answer that fails as this one did, `label` the same in words. Where there
    is none, `relation` may say how the result differs from the expected one.
    """

    name: str
    title: str
    weight: float
    status: str = "passed"
    message: str | Message = ""
    held: list = field(default_factory=list)
    where: dict | None = None
    cause: str = ""
    label: str = ""
    hint: str = ""
    relation: str | Message = ""
    on: str = ""


@dataclass
class Report:
    """What all the checks of one function found, and the points that come of it.

    `pending` are the points of what could not be verified on this machine: neither earned nor lost.
    """

    subject: str
    points: float
    score: float
    seed: int
    read: str
    results: list
    pending: float = 0.0

    @property
    def again(self):
        """What a student runs to have the same inputs once more."""
        return f'checks.run("{self.subject}", points={self.points:g}, seed={self.seed})'

    def to_dict(self):
        """Return the report as plain lists, dicts, strings and finite numbers, as JSON has them."""
        return _json(self)

    @classmethod
    def from_dict(cls, kept):
        """Return the report of which `to_dict` made this; what an older one lacks has its default."""
        results = [Result(**_known(Result, result)) for result in kept["results"]]
        return cls(**{**_known(cls, kept), "results": results})


def _json(value):
    if isinstance(value, (Report, Result)):
        return {part.name: _json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Message):
        return _json(words.to_dict(value))
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _known(kind, kept):
    names = {part.name for part in fields(kind)} & kept.keys()
    return {name: kept[name] if name == "where" else words.from_dict(kept[name]) for name in names - {"results"}}


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
        self.answers = []  # modules of listed answers; without any, `misconceptions` is imported

    def check(self, weight=1, needs=(), on=""):
        """Declare a check: its first parameter names the function under test, its docstring is its title.

        `weight` is relative to the function's other checks. `needs` are the checks that must hold before this
        one says anything useful, the functions themselves or their names; until they do, this one waits. `on` is
        what it needs of the machine: "gpu", one that torch can use, or "triton". Where there is none, neither it nor
        what needs it is run, and their points wait for a machine that has one.

        Raises
        ------
        ValueError
            If the check has no docstring or another's name, needs what no earlier check of the function is called, or
            is to run on what there is no name for.
        """

        def declare(function):
            name, title = function.__name__, (inspect.getdoc(function) or "").strip()
            subject = next(iter(inspect.signature(function).parameters))
            if not title:
                raise ValueError(f"the check {name} has no docstring: write there the sentence that students read")
            earlier = [check.__name__ for check in self.of(subject)]
            if name in earlier:
                raise ValueError(f"{subject} has two checks called {name}: give the second another name")
            alone = isinstance(needs, str) or callable(needs)
            needed = tuple(getattr(need, "__name__", need) for need in ([needs] if alone else needs))
            for need in needed:
                if need not in earlier:
                    known = ", ".join(earlier) or "none"
                    raise ValueError(
                        f"the check {name} needs {need!r}, and no check of {subject} declared before it is called "
                        f"that; those are: {known}"
                    )
            function.weight, function.needs, function.subject, function.title = weight, needed, subject, title
            function.on = machine.known(on, f"the check {name}")
            self.checks.append(function)
            return function

        return declare

    def of(self, subject):
        """Return the checks of one function, in the order in which they were declared."""
        return [check for check in self.checks if check.subject == subject]

    def listed(self, kind, subject):
        """Return the answers listed for `subject`; `kind` is `wrong_for` or `right_for`.

        Left out are those that only show on a machine with what this one does not have.
        """
        modules = self.answers or [importlib.import_module("misconceptions")]
        found = [answer for module in modules for answer in listed(module, kind, subject)]
        return [answer for answer in found if not machine.lacks(getattr(answer, "on", ""))]

    def run(self, subject, points, seed=None):
        """Check the function named `subject` of the running notebook or script; show the feedback.

        Parameters
        ----------
        subject : str
            The name of the function under test.
        points : float
            What the cell is worth. With 0, feedback says whether all holds, and speaks of no points.
        seed : int, optional
            Repeats an earlier run's inputs. Without it they are drawn afresh.

        Returns
        -------
        Points
            The points earned, from 0 to `points`: a number, which notebooks do not show beside the report.
        """
        place = _place.get()
        function = place.lookup(subject)
        report = self.examine(subject, function, points, place.seed if seed is None else seed)
        place.show(report)
        return Points(report.score)

    @np.errstate(all="ignore")  # numbers that memory happened to hold are compared, converted and shown like others
    def examine(self, subject, function, points=1.0, seed=0):
        """Return the `Report` on `function`, which stands for `subject`."""
        checks = self.of(subject)
        if not checks:
            raise ValueError(f"there is no check for {subject!r} in {self.module}")
        results, calls, lacking, failures, absent = [], {}, {}, {}, {}
        unwritten = _unwritten(subject, function)
        for check in checks:
            result = Result(check.__name__, check.title, check.weight)
            results.append(result)
            # What failed, and not what waits for that itself.
            waits_for = list(dict.fromkeys(failed for need in check.needs for failed in lacking.get(need, ())))
            if unwritten or waits_for:
                lacking[check.__name__] = waits_for
                names = joined("{left}, {right}", [f"`{name}`" for name in waits_for]) if waits_for else ""
                result.status, result.message = "waiting", unwritten or Message("Waits for {checks}.", checks=names)
                continue
            lacks = [on for on in (check.on, *(absent.get(need) for need in check.needs)) if machine.lacks(on)]
            if lacks:
                result.on = absent[check.__name__] = lacks[0]
                result.status, result.message = "unverified", machine.lacks(lacks[0])
                continue
            begun = time.perf_counter()
            calls[check.__name__], failure = _try(check, subject, function, seed)
            if failure is None:
                continue
            failure.seconds = time.perf_counter() - begun
            if calls[check.__name__] and _is_unwritten(calls[check.__name__]):
                message = (
                    "{function}, or a function that it calls, is not written yet: it raises NotImplementedError."
                )
                unwritten = Message(message, function=subject)
                result.status, result.message = "waiting", unwritten
                continue
            lacking[check.__name__], failures[check.__name__] = [check.__name__], failure
            result.status, result.message, result.held = "failed", failure.message, failure.held
            result.where = _where(failure)
        # A hint that cannot be had costs nobody a point: the list of wrong answers is ours, and may be at fault.
        with contextlib.suppress(Exception):
            if failures:
                self._diagnose(subject, results, calls, seed)
                self._relate(subject, function, results, calls, failures, seed)
        total = sum(check.weight for check in checks)
        earned = sum(result.weight for result in results if result.status == "passed")
        unverified = sum(result.weight for result in results if result.status == "unverified")
        score, most = (round(float(points) * weight / total, 2) for weight in (earned, earned + unverified))
        read = self.read.get(subject, "")
        return Report(subject, float(points), score, seed, read, results, round(most - score, 2))

    def _diagnose(self, subject, results, calls, seed):
        """Name the cause of each failed check: the listed wrong answer that behaves as this function did.

        What passes a check is no cause of failing it. Where several wrong answers behave alike in a failed check,
        the one that does so in most of all checks explains most; of equals, the one listed first.
        """
        failed = [result for result in results if result.status == "failed"]
        checks = {check.__name__: check for check in self.of(subject)}

        first_calls = {}

        def alike(wrong, name):
            # Most listed answers differ in the first call, which is had without what the check does around it.
            if name not in first_calls:
                first_calls[name] = _first_call(checks[name], subject, seed) if calls[name] else None
            if first_calls[name] and not _same_call(calls[name][0], _first_answer(wrong, first_calls[name])):
                return None
            return _alike(checks[name], subject, wrong, seed, calls[name])

        others = calls.keys() - {result.name for result in failed}
        agreed = []
        for wrong in self.listed("wrong_for", subject):
            same = {result.name for result in failed if alike(wrong, result.name) == FAILS}
            if same:
                agreed.append((wrong, same))

        @functools.cache
        def explained(place):
            wrong, same = agreed[place]
            return len(same) + sum(alike(wrong, name) is not None for name in others)

        for result in failed:
            places = [place for place, (_, same) in enumerate(agreed) if result.name in same]
            if not places:
                continue
            # Only where several could be the cause does it matter how much more each of them explains.
            best = places[0]
            for place in places[1:]:
                if len(agreed[place][1]) + len(others) > explained(best) and explained(place) > explained(best):
                    best = place
            wrong = agreed[best][0]
            result.cause, result.label, result.hint = wrong.__name__, wrong.label, wrong.hint

    def _relate(self, subject, function, results, calls, failures, seed):
        """Say what holds between result and expectation where a failed check has no cause, if other draws agree."""
        answers = self.listed("right_for", subject)
        answer = max(answers, key=lambda right: hasattr(right, "families"), default=None)  # of equals, the first
        for check in self.of(subject):
            result = next(result for result in results if result.name == check.__name__)
            if result.status != "failed" or result.cause:
                continue
            result.relation = failures[result.name].relation
            if result.relation or failures[result.name].seconds > QUICK:
                continue
            if not any(call.arguments for call in calls[result.name]):  # the same in each draw, whatever holds
                continue

            def again(check=check):
                draws = [
                    (other_seed, *_try(check, subject, function, other_seed)) for other_seed in (seed + 1, seed + 2)
                ]
                return [_case(check, made, failure, answer, other_seed) for other_seed, made, failure in draws]

            first = _case(check, calls[check.__name__], failures[check.__name__], answer, seed)
            result.relation = relate(first, again)


def _case(check, calls, failure, answer, seed):
    """Return what relations are looked for in: of a failed check, or of one that did not fail, where none holds."""
    if failure is None or not calls:
        return Case()
    expected, got = failure.compared
    call = calls[-1]
    if call.what and answer:  # what a right answer made is called here
        answer = _reached(check, answer, len(calls) - 1, seed) if call.what == "forward" else None
    if expected is None and call.must_raise and call.error is None:
        got = as_plain(call.result[0] if isinstance(call.result, (tuple, list)) and call.result else call.result)
    what = failure.message.values.get("what", THE_RESULT) if isinstance(failure.message, Message) else THE_RESULT
    changed = failure.changed
    if changed:
        what = Message("the argument `{name}`", name=changed)
    names = list(inspect.signature(getattr(answer, "forward", answer)).parameters) if answer else []
    arguments = dict(zip([*names, *map(str, range(len(names), len(call.arguments)))], call.arguments, strict=False))
    given, function = _numpy(arguments), _in_numpy(call.function, call.arguments)
    answer = _in_numpy(answer, call.arguments) if answer else None
    parts, place = failure.parts, 0
    # Of a kernel, right answers are kernels too, and too slow to be asked a hundred times without a GPU.
    usable = answer and not (check.on or changed or call.error or failure.dtypes or _draws(call.arguments))
    if usable and not call.must_raise:
        wanted = _parts(_called(answer, given.values()).result)
        if expected is None:
            # The check has not said what it expects of this call; a right answer does.
            came = _parts(call.result)
            pairs = zip(wanted, came, strict=len(wanted) == len(came))
            place = next((i for i, pair in enumerate(pairs) if not _same(*pair)), None)
            if place is not None and len(wanted) == len(came):
                expected, got = wanted[place], came[place]
                if len(wanted) > 1:
                    parts = {f"part {i}": part for i, part in enumerate(wanted, 1)}
                    what = f"part {place + 1}"
        else:
            place = next((i for i, part in enumerate(wanted) if _same_values(part, expected)), None)
    return Case(
        expected, got, what, _sizes(failure, check), failure.shapes, failure.dtypes, given, parts,
        answer if usable else None, lambda *arguments: _called(function, arguments).result, failure.wrong, changed,
        _numpy(call.result), place,
    )  # fmt: skip


def _numpy(value):
    """Return a value with arrays in the place of tensors: what relations compare."""
    if hasattr(type(value), "detach"):
        return as_plain(value)
    if type(value) in (list, tuple):
        return type(value)([_numpy(item) for item in value])
    return {name: _numpy(item) for name, item in value.items()} if type(value) is dict else value


def _in_numpy(function, arguments):
    """Return a function that takes arrays, and returns some, in the place of one that was called with tensors."""
    if not any(hasattr(type(argument), "detach") for argument in arguments):
        return function

    def called(*arguments):
        import torch

        tensors = [torch.tensor(argument) if isinstance(argument, np.ndarray) else argument for argument in arguments]
        return _numpy(function(*tensors))

    return called


def _draws(arguments):
    return any(type(argument) is np.random.Generator for argument in arguments)


def _parts(result):
    """Return a result, or the parts of one that is a tuple, as plain arrays: those that are numbers."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [array for array in map(as_plain, parts) if array is not None]


def _same_values(a, b):
    return a.shape == b.shape and _same(a.astype(float), b.astype(float))


def _sizes(failure, check):
    """Return the sizes that a check drew, by the names that it gave them: whole numbers from 2."""
    step = failure.__traceback__
    drawn = {}
    while step is not None:
        if step.tb_frame.f_code.co_filename == check.__code__.co_filename:  # the check, and helpers beside it
            drawn = {**step.tb_frame.f_locals, **drawn}
        step = step.tb_next
    return {name: value for name, value in drawn.items() if type(value) is int and value > 1}


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

    def floating(value):
        return isinstance(value, torch.Tensor) and value.is_floating_point()

    arguments = [
        argument.detach().clone().requires_grad_() if floating(argument) else argument for argument in arguments
    ]
    module = isinstance(function, torch.nn.Module)
    if module:
        function.zero_grad()
    result = function(*arguments)
    first = result[0] if isinstance(result, (tuple, list)) else result
    _send_back(first, upstream)
    named = function.named_parameters(remove_duplicate=False) if module else ()
    return (
        result,
        [argument.grad if floating(argument) else None for argument in arguments],
        {name: parameter.grad for name, parameter in named},
    )


def _send_back(result, upstream):
    """Call `backward` on a result, with its gradient: for a product's sum, since torch loads sympy to be given one.

    That takes a second, once. The guest does the same: `send_back` in the sandbox's shell.py.
    """
    import torch

    upstream = torch.ones_like(result) if upstream is None else upstream
    if result.is_floating_point() and result.shape == upstream.shape:
        (result * upstream).sum().backward()
    else:
        result.backward(upstream)


def _unwritten(subject, function):
    """Return why there is nothing to check, or an empty string."""
    if function is None:
        message = "{function} is not defined: run the cell that defines it, and see whether it ends in an error."
        return Message(message, function=subject)
    if not callable(function):
        return Message("{function} should be a function, and is {found}.", function=subject, found=describe(function))
    return ""


def _is_unwritten(calls):
    """Tell whether the first call says that the function is still to be written, or a call of what it made."""
    return any(isinstance(call.error, NotImplementedError) for call in (calls[0], *[c for c in calls if c.what]))


def _try(check, subject, function, seed):
    """Run one check on one function; return the calls it made and the `Failed`, or None."""
    return _try_like(check, subject, function, seed, None)


def _try_like(check, subject, function, seed, like):
    """Do as `_try`, for as long as every call comes out as in another function's calls.

    Raises
    ------
    Unlike
        If a call came out differently from those in `like`.
    """
    return _run(check, Subject(subject, function, like), seed)


def _run(check, under_test, seed):
    """Run a check on a `Subject`; return the calls that were made and the `Failed`, or None."""
    failure = None
    try:
        check(under_test, Draw(seed, check.__name__))
    except Failed as error:
        failure = error
    except Exception as error:  # a result so odd that the check itself stumbled over it
        if not under_test.calls:
            raise
        message = Message(
            "{function} returned {found}, which does not work here: {error}",
            function=under_test.name,
            found=describe(under_test.calls[-1].result),
            error=str(error),
        )
        failure = Failed(message)
    return under_test.calls, failure


class _FirstCall(BaseException):
    """Ends a check at its first call of the function under test."""


class _Asked(Subject):
    """Learns the arguments of the first call, and that an error was asked for; calls nothing."""

    def call(self, arguments, function=None, what="", must_raise=False):
        raise _FirstCall(what, arguments, must_raise)


class _Reached(BaseException):
    """Ends a check at the call that was asked for, with what is called there."""


class _Reaching(Subject):
    """Comes as far as the call with some number."""

    def __init__(self, name, function, number):
        super().__init__(name, function)
        self.number = number

    def call(self, arguments, function=None, what="", must_raise=False):
        if len(self.calls) == self.number:
            raise _Reached(function)
        return super().call(arguments, function, what, must_raise)


def _reached(check, answer, number, seed):
    """Return what a check calls in its call of some number, where a right answer is under test; None if nothing."""
    try:
        _run(check, _Reaching(check.subject, answer, number), seed)
    except _Reached as reached:
        return reached.args[0]
    return None


def _first_call(check, subject, seed):
    """Return a check's first call, its arguments and whether it must raise; None if they cannot be used again.

    They can if `twin` copies them; a function among them might remember that it was called.
    """
    try:
        check(_Asked(subject, None), Draw(seed, check.__name__))
    except _FirstCall as asked:
        return asked if _is_plain(asked.args) and not asked.args[0] else None
    return None


def _first_answer(wrong, first_call):
    """Return the `Call` that a listed wrong answer makes of a check's first call."""
    return _called(wrong, *first_call.args[1:])


def _is_plain(value):
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return value is None or type(value) in (bool, int, float, str) or as_plain(value) is not None


PASSES, FAILS = "passes", "fails"


def _alike(check, subject, wrong, seed, calls):
    """Tell whether a listed wrong answer does in a check what was done in `calls`: PASSES or FAILS, or None."""
    try:
        made, failure = _try_like(check, subject, wrong, seed, calls)
    except Unlike:
        return None
    if len(made) != len(calls):
        return None
    return PASSES if failure is None else FAILS


def _same_call(a, b):
    """Tell whether two functions did the same in a call: results, exceptions, changed arguments.

    Without arguments, a result is what somebody worked out: the same numbers are the same, in whatever they are kept.
    """
    if not (a.arguments or b.arguments or a.error or b.error):
        x, y = as_numbers(a.result), as_numbers(b.result)
        if x is not None and y is not None:
            return x.size == y.size and bool(np.all(np.abs(x - y) <= BY_HAND))
    return _same_error(a, b) and _same(a.result, b.result) and _same(a.arguments, b.arguments)


def _same_error(a, b):
    if type(a.error).__name__ != type(b.error).__name__:  # by name: one of them may have come from another process
        return False
    # An error that is asked for is worded by whoever wrote it.
    return (a.must_raise and b.must_raise) or str(a.error) == str(b.error)


def _same(a, b):
    if isinstance(a, (tuple, list)) and type(a) is type(b):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is dict and type(b) is dict:
        return a.keys() == b.keys() and all(_same(item, b[name]) for name, item in a.items())
    x, y = as_plain(a), as_plain(b)
    if x is None or y is None:
        return x is y and _same_object(a, b) and (not isinstance(a, str) or a == b)
    if x.shape != y.shape or not _same_kind(x, y):
        return False
    if not x.size or np.array_equal(x, y):
        return True
    x, y = x.astype(float), y.astype(float)
    with np.errstate(all="ignore"):
        scale = np.abs(y[np.isfinite(y)]).max(initial=0.0) or 1.0
        close = np.abs(x - y) <= RTOL * scale
        return bool((close | (x == y) | (np.isnan(x) & np.isnan(y))).all())


def _same_object(a, b):
    """Tell whether two values that are no numbers may be the same: modules show what they are when they are asked."""
    if type(a) is type(b) or (is_module(a) and is_module(b)):
        return True
    # What lives in another process is an object there, of a class of its author's.
    ours = [value for value in (a, b) if not lives_elsewhere(value)]
    objects = all(callable(value) or type(value).__module__ != "builtins" for value in ours)
    return len(ours) < 2 and objects and is_module(a) == is_module(b) and _can_be_called(a) == _can_be_called(b)


def _can_be_called(value):
    return callable(value) and type(value).__call__ is not None  # None: of what lives elsewhere, and is no function


def _same_kind(x, y):
    """Tell whether two arrays have one dtype; of single numbers, whether both are numbers, or both truth values."""
    return x.dtype == y.dtype or (not x.ndim and "b" not in (x.dtype.kind, y.dtype.kind))


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

"""The function under test: called with copies of a check's inputs, and every call is remembered."""

import contextlib
import copy
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from .draw import Draw
from .expect import Failed, describe, is_module, lives_elsewhere, shapes, text_of_error
from .modules import (
    CUT_OFF,
    CUTS,
    Module,
    Step,
    backward,
    copied_to,
    expect_module,
    prepare,
    run_remote,
)
from .shared_with_guest import is_tensor, quiet, span
from .words import Message

MOST_PARTS = 100
"""Of a result with more, no tensor is looked for among its parts."""
KEEPS = (list, dict, set)
"""The containers in which a class may keep state."""
TAKE_DRAWN_ARGUMENTS = ("", "forward", "backward", "memory")
"""The methods of a `Call` whose arguments are those of the function under test itself."""
IDLE = 0.2
"""How much a second counts in which nothing is computed: on a busy machine, functions wait for
their turn.
"""


@dataclass
class Call:
    """One call of the function under test: what it returned or raised, and its arguments
    afterwards.

    `function` is what was called. `method` is empty for the function under test itself; for
    something that it made, it is "forward", "backward", or the name of another request to a
    `Module`. `given` describes the inputs in words, where the arguments are those of a function of
    the check's own. `drawn` are the arguments as the check gave them: the function gets copies, and
    cannot change these.
    """

    arguments: tuple[Any, ...]
    result: Any = None
    error: BaseException | None = None
    must_raise: bool = False
    function: Any = None
    method: str = ""
    given: str | Message = ""
    drawn: tuple[Any, ...] = ()


class Subject:
    """The function under test, by name: called like the function, and remembers every call.

    Parameters
    ----------
    name : str
    function : callable
    """

    def __init__(self, name: str, function: Any):
        self.name, self.function = name, function
        self.calls: list[Call] = []
        self._ahead: deque[tuple[Step, Call, Callable[[], Any]]] = deque()

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function returns; raise `Failed`, with the shapes, if it raises."""
        return self.result(self.call(arguments), self.name)

    def error(self, *arguments: Any) -> BaseException | None:
        """Return the exception that the function raises for these arguments, or None."""
        return self.call(arguments, must_raise=True).error

    def module(self, *arguments: Any) -> Module:
        """Call the function, which makes a module of torch, and return that as a `Module`; or a
        class, likewise.
        """
        name = f"{self.name}({shapes(arguments)})"
        module = self.result(self.call(arguments), self.name)
        expect_module(module, name)
        return Module(self, module, name)

    def loaded(
        self,
        arguments: Sequence[Any],
        values: dict[str, Any],
        dtype: Any = None,
        training: bool | None = None,
        ahead: Iterable[Sequence[Any]] = (),
    ) -> Module:
        """Do as `module(*arguments).load(values, dtype, training)`; `ahead` is as in
        `Module.ahead`.
        """
        self.send_ahead(
            Step("", arguments, "call", self.function, arguments),
            Step("load", (), "run", 0, (values, dtype, training), prepare),
            *[Step("forward", inputs, "call", 0, inputs) for inputs in ahead],
        )
        return self.module(*arguments).load(values, dtype, training)

    def ahead(
        self, cases: Iterable[Sequence[Any]], function: Callable[..., Any] | None = None
    ) -> None:
        """Say with which arguments the function, or `function` by `run_remote`, is called next;
        see `send_ahead`.
        """
        name = function.__name__ if function else ""
        op = "run" if function else "call"
        self.send_ahead(
            *[Step(name, inputs, op, self.function, inputs, function) for inputs in cases]
        )

    def send_ahead(self, *steps: Step) -> None:
        """Say which calls a check makes next, in this order: to a function that lives elsewhere
        they go at once.

        It is a hint, and takes the waiting away. The same calls are made afterwards, with the very
        same arguments, and come out as without it. Where another call is made instead, what was
        sent ahead is forgotten.
        """
        self._ahead.clear()
        if not lives_elsewhere(self.function):
            return
        calls, parts = [], []
        for step in steps:
            # Copies, as in `called`: what a guest changes in place is changed in them as well.
            twins: dict[int, Any] = {}
            inputs = tuple(twin(value, twins, keep_modules=True) for value in step.inputs)
            parts.append(step._replace(inputs=inputs))
            # a call of `load` remembers no arguments, whether it is sent ahead or not
            calls.append(Call(inputs if step.arguments else ()))
        try:
            self._ahead.extend(zip(steps, calls, self.function._several(parts), strict=True))
        except Exception as error:  # of a guest that is gone, each call that follows says so
            if not getattr(error, "ended", False):
                raise

    def given(self, module: Any, name: str) -> Module:
        """Return a torch module of the check's own as a `Module`, to be an argument, and to be
        looked at later.
        """
        return Module(self, copied_to(self.function, module), name)

    def run_remote(
        self, function: Callable[..., Any], *arguments: Any, given: str | Message = ""
    ) -> Any:
        """Run a function of the check's own where the function under test lives, with that and
        arguments.

        Return its result. It is one message; see `Module.run_remote`. `given` says in words for
        what.
        """
        call = self.call(
            arguments,
            lambda *copies: run_remote(function, self.function, copies),
            function.__name__,
        )
        call.given = given
        return self.result(call, self.name)

    def call(
        self,
        arguments: Sequence[Any],
        function: Any = None,
        method: str = "",
        must_raise: bool = False,
    ) -> Call:
        """Make a `Call` and remember it: of the function itself, or of something that it made;
        see `Call`.
        """
        target = self.function if function is None else function
        call = self._sent_ahead(target, arguments, method, must_raise)
        call = call or called(target, arguments, must_raise)
        call.method = method
        call.drawn = tuple(arguments)
        self.calls.append(call)
        return call

    def _sent_ahead(
        self, target: Any, arguments: Sequence[Any], method: str, must_raise: bool
    ) -> Call | None:
        """Return a `Call` that was sent ahead, with its outcome; None if another one is made."""
        if not self._ahead:
            return None
        step, call, answer = self._ahead.popleft()
        same = len(arguments) == len(step.arguments) and all(map(_is, arguments, step.arguments))
        if not same or method != step.method:
            self._ahead.clear()
            return None
        call.function, call.must_raise = target, must_raise
        return _answered(call, answer)

    @staticmethod
    def result(call: Call, name: str) -> Any:
        """Return the result of a `Call`; raise `Failed`, with the shapes, if it is an error."""
        if call.error is None:
            return call.result
        # The guest was ended, by a limit or by the student's code: its error says why.
        if getattr(call.error, "ended", False):
            message = Message(
                "{function} did not finish: {error}", function=name, error=str(call.error)
            )
            raise Failed(message, explained=True)
        if CUT_OFF in str(call.error):
            text = (
                "The result of {function} is cut off from autograd: look for {cuts} on the way "
                "to it."
            )
            raise Failed(Message(text, function=name, cuts=CUTS), explained=True)
        values = {
            "function": name,
            "kind": type(call.error).__name__,
            "error": text_of_error(call.error),
        }
        if call.given:
            message = Message(
                "{function} raised {kind} for {given}: {error}", **values, given=call.given
            )
        elif call.method not in TAKE_DRAWN_ARGUMENTS:
            message = Message("{function} raised {kind}: {error}", **values)
        elif all(hasattr(argument, "shape") for argument in call.arguments):
            template = "{function} raised {kind} for arguments of shape {shapes}: {error}"
            message = Message(template, **values, shapes=shapes(call.arguments))
        else:
            template = "Called with {arguments}, {function} raised {kind}: {error}"
            message = Message(template, **values, arguments=shapes(call.arguments, named=True))
        raise Failed(message, raised=True, explained=True)

    def differentiated(
        self, arguments: Sequence[Any], upstream: Any, function: Any = None, name: str = ""
    ) -> Any:
        """Do as `backward`, of the function itself or of a module that it made."""
        target = self.function if function is None else function
        call = self.call(
            arguments,
            lambda *arguments: backward(target, *arguments, upstream=upstream),
            "backward",
        )
        return self.result(call, name or self.name)

    def _backward(self, arguments: Sequence[Any], upstream: Any) -> Any:
        return self.differentiated(arguments, upstream)


def called(function: Any, arguments: Sequence[Any], must_raise: bool = False) -> Call:
    """Call a function and return the `Call`, even if it raised an error."""
    # The function gets twins: what it does to them in place must not change what a check compares
    # with.
    twins: dict[int, Any] = {}
    elsewhere = lives_elsewhere(function)
    copies = tuple([twin(argument, twins, keep_modules=elsewhere) for argument in arguments])
    call = Call(copies, must_raise=must_raise, function=function)
    with contextlib.nullcontext() if elsewhere else quiet():  # a guest calls it within `quiet`
        return _answered(call, lambda: function(*copies))


def _is(a: Any, b: Any) -> bool:
    return a is b


def _answered(call: Call, answer: Callable[[], Any]) -> Call:
    """Return a `Call` with the outcome of an answer: a result or an error."""
    try:
        call.result = answer()
    except KeyboardInterrupt:  # the student has stopped the check
        raise
    except BaseException as error:  # a SystemExit in a submission is a wrong answer too
        call.error = error
    if call.error is not None:
        call.result = None
    elif not lives_elsewhere(call.function):
        # A later call may change this result in place; a result from elsewhere is a copy already.
        call.result = _remembered(call.result)
    return call


def _remembered(value: Any) -> Any:
    """Return a copy of a result: of a tensor without its graph, which cannot be copied; of a
    module itself.
    """
    if is_tensor(value):
        copied = value.detach().clone()
        return copied.requires_grad_() if value.requires_grad else copied
    if type(value) in (list, tuple) and len(value) <= MOST_PARTS:
        return type(value)([_remembered(item) for item in value])
    if type(value) is dict and len(value) <= MOST_PARTS:
        return {name: _remembered(item) for name, item in value.items()}
    try:
        return value if is_module(value) else copy.deepcopy(value)
    except Exception:  # what cannot be copied, such as a generator, has no numbers to compare
        return value


def twin(value: Any, twins: dict[int, Any], keep_modules: bool = False) -> Any:
    """Return a copy of an argument that is like it in every way: strides, order, read-only or not.

    `twins` remembers what was copied, so that one array given twice is one array still. With
    `keep_modules`, modules are not copied: of an argument that goes to another process, which
    cannot change a module here.
    """
    if id(value) in twins:
        return twins[id(value)]
    copied: Any
    if type(value) is np.ndarray and value.dtype.kind in "biufc":
        copied = value.copy("K")
        if copied.strides != value.strides:  # a view with gaps or repeats
            copied = _strided_copy(value)
        copied.flags.writeable = value.flags.writeable
    elif isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        copied = type(value)([twin(item, twins, keep_modules) for item in value])
    elif type(value) is dict:
        copied = {key: twin(item, twins, keep_modules) for key, item in value.items()}
    elif type(value) is np.random.Generator:
        copied = _generator(value)
    elif type(value) is Module:
        copied = value.module
    elif is_tensor(value):
        copied = _tensor(value)
    elif hasattr(type(value), "state_dict"):
        copied = value if keep_modules else copy.deepcopy(value)
    else:
        copied = value
    twins[id(value)] = copied
    return copied


def _tensor(value: Any) -> Any:
    """Return a tensor like `value`: as `copy.deepcopy` does, in a tenth of the time where
    nothing hangs on it.
    """
    if not value.requires_grad:
        copied = value.clone()
        # Of a view with gaps or repeats, `clone` has other strides.
        if type(copied) is type(value) and copied.stride() == value.stride():
            return copied
    return copy.deepcopy(value)


def _generator(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator that draws and spawns what `rng` would: as `copy.deepcopy` does, in a
    fifth of the time.
    """
    bits = rng.bit_generator
    seeds = bits.seed_seq
    if type(seeds) is not np.random.SeedSequence:  # `state` below is of this class
        return copy.deepcopy(rng)
    copied: Any = type(bits)(np.random.SeedSequence(**seeds.state))
    copied.state = bits.state
    return np.random.Generator(copied)


def _strided_copy(array: Any) -> Any:
    low, high = span(array.shape, array.strides, array.itemsize)
    memory = bytearray(max(high - low, array.itemsize))
    # `low` is not positive: with negative strides, the first element is not at the beginning.
    copied: Any = np.ndarray(array.shape, array.dtype, memory, -low, array.strides)
    copied[...] = array
    return copied


class Stopwatch:
    """Measures the seconds that a function computes: here, and where it lives.

    What feedback says must not depend on how busy the machine is.

    Parameters
    ----------
    function : callable
    """

    def __init__(self, function: Any):
        self._elsewhere = getattr(type(function), "_computed", None) and function._computed
        self._start_computed = self._computed()
        self._start = time.perf_counter()

    def _computed(self) -> float:
        return time.process_time() + (self._elsewhere() if self._elsewhere else 0.0)

    @property
    def seconds(self) -> float:
        """The seconds since this was made."""
        computed = self._computed() - self._start_computed
        return max(computed, IDLE * (time.perf_counter() - self._start))


class Attempt(NamedTuple):
    """The run of a function in a check: its calls, the `Failed` or None, and the seconds by a
    `Stopwatch`.
    """

    calls: list[Call]
    failure: Failed | None
    seconds: float


class Check(Protocol):
    """A check as it was declared; see `Suite.check`."""

    __name__: str
    __code__: Any
    weight: float
    needs: tuple[str, ...]
    subject: str
    title: str
    on: str
    measured: bool

    def __hash__(self) -> int:
        """Be a key of what is remembered."""

    def __call__(self, under_test: Subject, draw: Draw, /) -> object:
        """Run it; raise `Failed` if it does not pass."""


def attempt(check: Check, function: Any, seed: int) -> Attempt:
    """Run one check on one function; what a listed class keeps for all of its objects is
    afterwards as before.
    """
    is_listed_class = isinstance(function, type) and is_listed(function)
    attributes = vars(function).items() if is_listed_class else ()
    before = {name: copy.copy(value) for name, value in attributes if isinstance(value, KEEPS)}
    result = run_check(check, Subject(check.subject, function), seed)
    for name, value in before.items():
        setattr(function, name, value)
    return result


def is_listed(function: Any) -> bool:
    """Tell whether a function or class is a listed answer."""
    if lives_elsewhere(function):  # it would be asked for the attributes
        return False
    return hasattr(function, "wrong_for") or hasattr(function, "right_for")


def run_check(check: Check, under_test: Subject, seed: int) -> Attempt:
    """Run a check on a `Subject`."""
    failure, watch = None, Stopwatch(under_test.function)
    try:
        check(under_test, Draw(seed, check.__name__))
    except Failed as error:
        failure = error
    except Exception as error:  # the check itself failed on an odd result
        if not under_test.calls:  # then it is a fault of the check
            raise
        message = Message(
            "{function} returned {found}, which this check cannot use: {error}",
            function=under_test.name,
            found=describe(under_test.calls[-1].result),
            error=str(error),
        )
        failure = Failed(message, explained=True)
    return Attempt(under_test.calls, failure, watch.seconds)

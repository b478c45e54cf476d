"""PyTorch modules under test, made by a student's class or function, with one interface wherever
they live.

In a student's Jupyter it is their own object; where a class is graded, it stays in the guest, and
is a handle here.
"""

import copy
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .expect import Failed, describe, is_module, lives_elsewhere
from .shared_with_guest import differentiated
from .words import Message, joined


class Step(NamedTuple):
    """A call that is sent ahead; see `Subject.send_ahead`.

    `method` and `arguments` are those of the `Call` that will be made. `op` is the request to
    `target`, which is an object or the number of an earlier step, whose result it is: "call" or,
    with a function of the check's own, "run". `inputs` are the arguments of the request.
    """

    method: str
    arguments: Sequence[Any]
    op: str
    target: Any
    inputs: Sequence[Any]
    function: Callable[..., Any] | None = None


MOST_NAMES = 4
"""Parameters that a message names."""
MOST_NAME = 60
"""Characters of a parameter's name, which comes from a student's process."""
# What torch says of a result without a way back.
CUT_OFF = "does not require grad and does not have a grad_fn"
CUTS = Message("`detach`, `.data`, `torch.no_grad`, `torch.tensor(...)` or NumPy")
"""What cuts gradients off."""


def copied_to(function: Any, module: Any) -> Any:
    """Return a copy of a torch module of the check's own, as an object where `function` lives."""
    return function._keep(module) if lives_elsewhere(function) else copy.deepcopy(module)


def ask(target: Any, method: str, *arguments: Any, **keywords: Any) -> Any:
    """Call a method of an object, in one message if it lives elsewhere."""
    if lives_elsewhere(target):
        return target._method(method, arguments, keywords)
    return getattr(target, method)(*arguments, **keywords)


def run_remote(function: Callable[..., Any], target: Any, arguments: Sequence[Any]) -> Any:
    """Run a function of the check's own with an object and arguments, where that object lives.

    It goes there as text, and so it imports what it needs itself, and uses no names around it: not
    in its annotations either, unless they are text themselves. Of a module with `TRAVELS_WHOLE`,
    such as `kernels`, all goes there.
    """
    if lives_elsewhere(target):
        return target._run(function.__name__, text_of(function), arguments)
    return function(target, *arguments)


@functools.cache
def text_of(function: Callable[..., Any]) -> str:
    """Return the text of a function of the check's own, as it goes elsewhere; see `run_remote`."""
    module = sys.modules.get(function.__module__)
    if getattr(module, "TRAVELS_WHOLE", False):
        return inspect.getsource(module)  # type: ignore[arg-type]
    return textwrap.dedent(inspect.getsource(function))


def prepare(module: "Any", values: "dict[str, Any]", dtype: "Any", training: "bool | None") -> None:
    """Convert a module's parameters, set its mode and load parameters by name, each where it is
    asked for.
    """
    if dtype is not None:
        module.to(dtype)
    if training is not None:
        module.train(training)
    if values:
        # Not strict: a check may load some of the parameters, and compare what depends on them.
        module.load_state_dict(values, strict=False)


def backward(function: Any, *arguments: Any, upstream: Any = None) -> Any:
    """Call `function` with autograd, and return its result and the gradients: of a torch function
    or module.

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
        The result; a list with a gradient for each floating argument, None for the others; and a
        dict with the gradient of each of a module's parameters, by name.
    """
    if hasattr(type(function), "_backward"):  # a `Subject`, a `Module`, or a handle
        return function._backward(arguments, upstream)
    return differentiated(function, arguments, upstream)


class Module:
    """A module under test. Its calls are recorded among the calls of the function that made it.

    Parameters
    ----------
    subject : Subject
        The function under test.
    module : torch.nn.Module, or a handle
    name : str
        Its name in feedback, such as "MultiHeadAttention(6, 2)".
    """

    _is_module = True

    def __init__(self, subject: Any, module: Any, name: str):
        self.subject, self.module, self.name = subject, module, name

    @property
    def own(self) -> Any:
        """The module, by its former name, which checks of earlier releases use."""
        return self.module

    @property
    def calls(self) -> list[Any]:
        """All calls so far of the function that made the module, and of what it made."""
        calls: list[Any] = self.subject.calls
        return calls

    def __call__(self, *arguments: Any) -> Any:
        """Return what the module returns; raise `Failed`, with the shapes, if it raises."""
        call = self.subject.call(arguments, self.module, "forward")
        return self.subject.result(call, self.name)

    def by_name(self, *arguments: Any, **named: Any) -> Any:
        """Do as a call, where some of the arguments, or all, are given by their names."""
        count = len(arguments)

        def by_name(*values: Any) -> Any:
            return self.module(*values[:count], **dict(zip(named, values[count:], strict=True)))

        call = self.subject.call((*arguments, *named.values()), by_name, "by_name")
        return self.subject.result(call, self.name)

    def ahead(self, cases: Iterable[Sequence[Any]]) -> None:
        """Say with which arguments the module is called next; see `Subject.send_ahead`."""
        self.subject.send_ahead(
            *[Step("forward", inputs, "call", self.module, inputs) for inputs in cases]
        )

    def error(self, *arguments: Any) -> BaseException | None:
        """Return the exception that the module raises for these arguments, or None."""
        call = self.subject.call(arguments, self.module, "forward", must_raise=True)
        error: BaseException | None = call.error
        return error

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each of its parameters, by name, without buffers."""
        return {name: shape for name, (shape, _first) in self.named().items()}

    def named(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return the shape of each of its parameters, by name, with the first name of the same
        parameter.
        """

        def named() -> dict[str, tuple[tuple[int, ...], str]]:
            # `keep_vars` has the parameters themselves, which have their type and their identity.
            state = _state(self.module, keep_vars=True)
            parameters = {
                name: part for name, part in state.items() if type(part).__name__ == "Parameter"
            }
            first: dict[int, str] = {}
            for name, part in parameters.items():
                first.setdefault(id(part), name)
            return {name: (tuple(part.shape), first[id(part)]) for name, part in parameters.items()}

        result: dict[str, tuple[tuple[int, ...], str]] = self._request(named, "state_dict")
        return result

    def state(self) -> Any:
        """Return its `state_dict`. What is not loaded is drawn at random: compare what is known."""
        return self._request(lambda: _state(self.module), "state_dict")

    def load(
        self, values: dict[str, Any], dtype: Any = None, training: bool | None = None
    ) -> "Module":
        """Load parameters, by name; others stay as they are. Return the module itself.

        Before that, convert all parameters to a dtype of torch's and set the mode, where these are
        given. It is one message to a module that lives elsewhere.
        """
        self._request(lambda: run_remote(prepare, self.module, (values, dtype, training)), "load")
        return self

    def run_remote(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function of the check's own where the module lives, with the module and arguments;
        return its result.

        It is one message, whatever the function does, such as training. It goes there as text: it
        imports what it needs itself, and uses no names around it.
        """
        return self._request(
            lambda: run_remote(function, self.module, arguments), function.__name__
        )

    def to(self, dtype: Any) -> "Module":
        """Convert the parameters to a dtype of torch's; return the module itself."""
        self._tell("to", dtype)
        return self

    def train(self, mode: bool = True) -> "Module":
        """Set the mode: as in training, or as in use; return the module itself."""
        self._tell("train", mode)
        return self

    def read(self, name: str) -> Any:
        """Return an attribute, None where there is no such."""
        return self._request(lambda: getattr(self.module, name, None), "read")

    def _tell(self, method: str, argument: Any) -> None:
        """Call a method of the module which returns the module, and not anything to remember."""

        def tell() -> None:
            ask(self.module, method, argument)

        self._request(tell, method)

    def _request(self, function: Callable[[], Any], method: str) -> Any:
        call = self.subject.call((), function, method)
        return self.subject.result(call, f"{self.name}.{method}")

    def _backward(self, arguments: Sequence[Any], upstream: Any) -> Any:
        return self.subject.differentiated(arguments, upstream, self.module, self.name)


def _state(module: Any, **keywords: Any) -> dict[str, Any]:
    state = ask(module, "state_dict", **keywords)
    if not isinstance(state, dict) or not all(hasattr(part, "shape") for part in state.values()):
        raise TypeError("its state_dict is not a dict of tensors")
    return {str(name)[:MOST_NAME]: part for name, part in state.items()}


def expect_module(value: Any, function: str) -> None:
    """Fail unless the result of a call is a PyTorch module."""
    if not is_module(value):
        message = "Expected {function} to create a PyTorch module, got {found}."
        raise Failed(Message(message, function=function, found=describe(value)), explained=True)


def expect_parameters(module: Module, expected: dict[str, tuple[int, ...]]) -> None:
    """Fail unless a `Module` has parameters of these names and shapes, and no others.

    A second name for one of these is allowed, as when a `Sequential` contains a layer that also has
    its own name.

    Parameters
    ----------
    module : Module
    expected : dict
        The shapes by name, the names as `state_dict` has them.
    """
    named = module.named()
    shapes = {name: shape for name, (shape, _first) in named.items()}
    missing = [name for name in expected if name not in shapes]
    # A second name of an expected parameter is allowed: the two share their first name.
    first_names = {named[name][1] for name in expected if name in named}
    unexpected = [
        name
        for name, (_shape, first) in named.items()
        if name not in expected and first not in first_names
    ]
    right = [name for name in expected if shapes.get(name) == expected[name]]
    passed = []
    if right:
        passed = [Message("names and shapes are right for {names}", names=_names(right))]
    if missing or unexpected:
        names_differ = _missing_or_unexpected(module, missing, unexpected)
        raise Failed(names_differ, passed, explained=True)
    for name, shape in expected.items():
        if shapes[name] == shape:
            continue
        message = "Expected the parameter {name} of {module} to have shape {expected}, got {got}."
        values = {
            "name": f"`{name}`",
            "module": module.name,
            "expected": str(shape),
            "got": str(shapes[name]),
        }
        failure = Failed(Message(message, **values), passed, explained=True)
        failure.shapes = shape, shapes[name]
        raise failure


def _missing_or_unexpected(module: Module, missing: list[str], unexpected: list[str]) -> Message:
    if not unexpected:
        message = "Missing in the `state_dict` of {module}: {lacks}."
        return Message(message, module=module.name, lacks=_names(missing))
    if not missing:
        message = "Unexpected in the `state_dict` of {module}: {more}."
        return Message(message, module=module.name, more=_names(unexpected))
    message = "Missing in the `state_dict` of {module}: {lacks}. Unexpected: {more}."
    return Message(message, module=module.name, lacks=_names(missing), more=_names(unexpected))


def _names(names: list[str]) -> str | Message:
    named = joined("{left}, {right}", [f"`{name}`" for name in names[:MOST_NAMES]])
    more = len(names) - MOST_NAMES
    return named if more <= 0 else Message("{names} and {more} more", names=named, more=more)


def expect_gradients(
    module: Module, got: dict[str, Any], expected: dict[str, Any]
) -> dict[str, Any]:
    """Fail unless each parameter of a `Module` got a gradient; return the expected ones, as they
    came.

    Parameters
    ----------
    module : Module
    got, expected : dict
        Gradients by the names of parameters. A value of None means that there is no gradient.
    """
    missing = [name for name in expected if got.get(name) is None]
    if missing:
        others = [name for name in expected if name not in missing]
        passed = [Message("{names} got a gradient", names=_names(others))] if others else []
        message = (
            "No gradient reached {lacks} of {module}: autograd is cut off somewhere on the "
            "way to the result."
        )
        values = {"lacks": _names(missing), "module": module.name}
        raise Failed(Message(message, **values), passed, explained=True)
    return {name: got[name] for name in expected}

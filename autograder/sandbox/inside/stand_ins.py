"""What replaces a function or class in a guest by the course's: a call of it asks the judge, and
so does backward.

How it computes is not here. Of a class, the names, kinds and sizes of its parts are, which have
their own parameters.
"""

import copy
import importlib
import sys
from collections.abc import Callable
from typing import Any

from autograder.sandbox.inside.torch_modules import parameters_of

MODULE = "a module of torch"
"""The key of a dict that represents a module in a message: its plain attributes, its own parameters
and its parts.
"""

Ask = Callable[..., Any]
"""Asks the judge: a task, the module's origin, its parameters, arguments, keywords, and what the
task needs.

The origin of a module is (arguments, keywords, path): the course's class was called with these
arguments, and the path of names leads from that module to its part. A function has none.
"""


def stand_in(name: str, kind: str, ask: Ask) -> Any:
    """Return the stand-in for a "function" or a "class" of the course's.

    A function takes and returns what the course's does. A module among its arguments is sent with
    its parameters; one that comes back is a copy of it with other parameters. Gradients flow where
    they do in the course's.
    """
    if kind == "class":
        return _class(name, ask)

    def function(*arguments: Any, **keywords: Any) -> Any:
        return _called(ask, None, {}, arguments, keywords)

    function.__name__ = function.__qualname__ = name
    return function


def described(module: Any) -> dict[str, Any]:
    """Return what represents a module in a message; of one of torch's own kinds, how to make it."""
    torch: Any = sys.modules["torch"]
    kind = type(module)
    plain = {name: value for name, value in vars(module).items() if is_plain(value)}
    parameters = {name: part.detach() for name, part in module.named_parameters(recurse=False)}
    of_torch = kind.__module__.startswith("torch.nn.modules.")
    containers = (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)
    parts = {}
    if isinstance(module, containers) or not of_torch:
        parts = {name: described(part) for name, part in module.named_children()}
    return {
        "class": f"{kind.__module__}.{kind.__name__}" if of_torch else "",
        "noted": plain,
        "shapes": {name: list(part.shape) for name, part in parameters.items()},
        "own": {name: part for name, part in parameters.items() if not part.is_meta},
        "biased": getattr(module, "bias", None) is not None,
        "parts": parts,
    }


def is_plain(value: Any) -> bool:
    """Tell whether a value is noted of a module: a number, a text, or sizes."""
    sizes = type(value) is tuple and all(type(size) is int for size in value)
    return sizes or type(value) in (bool, int, float, str)


def _class(name: str, ask: Ask) -> Any:
    torch: Any = sys.modules["torch"]

    class Part(torch.nn.Module):
        def forward(self, *arguments: Any, **keywords: Any) -> Any:
            state = dict(self.named_parameters(remove_duplicate=False))
            return _called(ask, self._origin, state, arguments, keywords)

        def fill(self, description: dict[str, Any], origin: tuple[Any, ...]) -> None:
            self.__dict__.update(description["noted"], _origin=origin)
            for name, shape in description["shapes"].items():
                self.register_parameter(name, torch.nn.Parameter(torch.randn(shape)))
            for name, part in description["parts"].items():
                self.add_module(name, self.part(part, _part_of(origin, name)))

        @staticmethod
        def part(description: dict[str, Any], origin: tuple[Any, ...]) -> Any:
            if not description["class"]:
                module = Part()
                module.fill(description, origin)
                return module
            path, _, class_name = description["class"].rpartition(".")
            kind = getattr(importlib.import_module(path), class_name)
            attributes = description["noted"]
            if description["parts"] or not attributes.keys() - {"training"}:
                module = kind()
                for name, part in description["parts"].items():
                    module.add_module(name, Part.part(part, _part_of(origin, name)))
                return module
            # A layer of torch's notes its arguments under their names, but for `bias`.
            parameters = parameters_of(kind)
            arguments = {name: attributes[name] for name in parameters if name in attributes}
            if "bias" in parameters:
                arguments["bias"] = description["biased"]
            return kind(**arguments)

    class StandIn(Part):
        def __init__(self, *arguments: Any, **keywords: Any):
            super().__init__()
            origin: tuple[Any, ...] = arguments, keywords, []
            self.fill(ask("make", origin, {}, (), {}), origin)

    StandIn.__name__ = StandIn.__qualname__ = name
    return StandIn


def _part_of(origin: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    """Return the origin of a part of a module."""
    arguments, keywords, path = origin
    return arguments, keywords, [*path, name]


def _called(ask: Ask, origin: Any, state: dict[str, Any], arguments: Any, keywords: Any) -> Any:
    """Return what the course's function or module returns; gradients flow through the judge."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return ask("call", origin, state, arguments, keywords)
    state, arguments, keywords = (_sendable(torch, part) for part in (state, arguments, keywords))
    leaves = floating(torch, (state, arguments, keywords))
    wanted = [leaf.requires_grad and torch.is_grad_enabled() for leaf in leaves]
    sent = tuple(_detached(torch, part) for part in (state, arguments, keywords))
    device = next((leaf.device for leaf in leaves), None)
    if not any(wanted):
        return _received(torch, ask("call", origin, *sent), device, arguments)

    returns_several = False

    class Through(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *_leaves: Any) -> Any:
            nonlocal returns_several
            returns_several, results, flows = ask("forward", origin, *sent, wanted)
            results = [_received(torch, result, device, ()) for result in results]
            pairs = zip(results, flows, strict=True)
            ctx.mark_non_differentiable(*[result for result, is_on in pairs if not is_on])
            ctx.set_materialize_grads(False)
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *upstream: Any) -> Any:
            gradients = ask("backward", origin, *sent, wanted, list(upstream))
            return tuple(_received(torch, gradient, device, ()) for gradient in gradients)

    results = Through.apply(*leaves)
    return results if returns_several else results[0]


def floating(torch: Any, parts: Any) -> list[Any]:
    """Return the floating tensors in nested tuples, lists and dicts, in order."""
    if isinstance(parts, torch.Tensor):
        return [parts] if parts.is_floating_point() else []
    if isinstance(parts, dict):
        parts = list(parts.values())
    if not isinstance(parts, (tuple, list)):
        return []
    return [leaf for part in parts for leaf in floating(torch, part)]


def _sendable(torch: Any, value: Any) -> Any:
    """Return a value with a dict in place of each module in it."""
    if isinstance(value, torch.nn.Module):
        return _Sent({MODULE: described(value)}, value)
    if type(value) in (tuple, list):
        return type(value)(_sendable(torch, part) for part in value)
    if type(value) is dict:
        return {name: _sendable(torch, part) for name, part in value.items()}
    return value


class _Sent(dict[str, Any]):
    """The dict that represents a module in a message, and the module."""

    def __init__(self, description: dict[str, Any], module: Any):
        super().__init__(description)
        self.module = module


def _detached(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (tuple, list)):
        # The course's answer gets plain ones: a class of the student's, such as a named tuple, may
        # want other arguments.
        parts = [_detached(torch, part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {name: _detached(torch, part) for name, part in value.items()}
    return value


def _received(torch: Any, value: Any, device: Any, arguments: Any) -> Any:
    """Return a received value, on the device of the sent ones; a module is a copy of the one that
    was sent.
    """
    if isinstance(value, torch.Tensor):
        return value.to(device) if device is not None else value
    if isinstance(value, (tuple, list)):
        return type(value)(_received(torch, part, device, arguments) for part in value)
    if isinstance(value, dict) and MODULE in value:
        module = copy.deepcopy(next(part.module for part in arguments if isinstance(part, _Sent)))
        with torch.no_grad():
            for name, part in module.named_parameters():
                part.copy_(value[MODULE][name])
        return module
    return value

"""What stands in a guest for a function or class of the course's: to call it is to ask the judge,
and so is backward.

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
"""The key of a dict that stands for a module on the way: what is noted on it, its own parameters
and its parts.
"""

Ask = Callable[..., Any]
"""Asks the judge: a task, how the module was made, its parameters, arguments, keywords, and what
the task needs.
"""


def stand_in(name: str, kind: str, ask: Ask) -> Any:
    """Return what stands for a "function" or a "class" of the course's.

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
    """Return what stands for a module on the way; of one of torch's own kinds, how to make it."""
    torch: Any = sys.modules["torch"]
    kind = type(module)
    plain = {name: value for name, value in vars(module).items() if is_plain(value)}
    own = {name: part.detach() for name, part in module.named_parameters(recurse=False)}
    of_torch = kind.__module__.startswith("torch.nn.modules.")
    holds = isinstance(module, (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential))
    return {
        "class": f"{kind.__module__}.{kind.__name__}" if of_torch else "",
        "noted": plain,
        "shapes": {name: list(part.shape) for name, part in own.items()},
        "own": {name: part for name, part in own.items() if not part.is_meta},
        "biased": getattr(module, "bias", None) is not None,
        "parts": {name: described(part) for name, part in module.named_children()}
        if holds or not of_torch
        else {},
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
            return _called(ask, self._made, state, arguments, keywords)

        def fill(self, of: dict[str, Any], made: tuple[Any, ...]) -> None:
            self.__dict__.update(of["noted"], _made=made)
            for own, shape in of["shapes"].items():
                self.register_parameter(own, torch.nn.Parameter(torch.randn(shape)))
            for part, its in of["parts"].items():
                self.add_module(part, self.part(its, (*made[:2], [*made[2], part])))

        @staticmethod
        def part(of: dict[str, Any], made: tuple[Any, ...]) -> Any:
            if not of["class"]:
                module = Part()
                module.fill(of, made)
                return module
            path, _, kind = of["class"].rpartition(".")
            maker = getattr(importlib.import_module(path), kind)
            if of["parts"] or not of["noted"].keys() - {"training"}:
                module = maker()
                for part, its in of["parts"].items():
                    module.add_module(part, Part.part(its, (*made[:2], [*made[2], part])))
                return module
            taken = parameters_of(maker)
            arguments = {own: of["noted"][own] for own in taken if own in of["noted"]}
            return maker(**arguments, **({"bias": of["biased"]} if "bias" in taken else {}))

    class StandIn(Part):
        def __init__(self, *arguments: Any, **keywords: Any):
            super().__init__()
            made: tuple[Any, ...] = arguments, keywords, []
            self.fill(ask("make", made, {}, (), {}), made)

    StandIn.__name__ = StandIn.__qualname__ = name
    return StandIn


def _called(ask: Ask, made: Any, state: dict[str, Any], arguments: Any, keywords: Any) -> Any:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return ask("call", made, state, arguments, keywords)
    state, arguments, keywords = (_sendable(torch, part) for part in (state, arguments, keywords))
    leaves = floating(torch, (state, arguments, keywords))
    asked = [leaf.requires_grad and torch.is_grad_enabled() for leaf in leaves]
    sent = tuple(_detached(torch, part) for part in (state, arguments, keywords))
    device = next((leaf.device for leaf in leaves), None)
    if not any(asked):
        return _taken(torch, ask("call", made, *sent), device, arguments)

    shape: list[Any] = []

    class Through(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *_leaves: Any) -> Any:
            several, results, flow = ask("forward", made, *sent, asked)
            results = [_taken(torch, result, device, ()) for result in results]
            ctx.mark_non_differentiable(
                *[own for own, flows in zip(results, flow, strict=True) if not flows]
            )
            ctx.set_materialize_grads(False)
            shape.append(several)
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *upstream: Any) -> Any:
            gradients = ask("backward", made, *sent, asked, list(upstream))
            return tuple(_taken(torch, gradient, device, ()) for gradient in gradients)

    results = Through.apply(*leaves)
    return results if shape[0] else results[0]


def floating(torch: Any, parts: Any) -> list[Any]:
    """Return the floating tensors in nested tuples, lists and dicts, in order."""
    if isinstance(parts, torch.Tensor):
        return [parts] if parts.is_floating_point() else []
    if isinstance(parts, dict):
        parts = list(parts.values())
    return (
        [leaf for part in parts for leaf in floating(torch, part)]
        if isinstance(parts, (tuple, list))
        else []
    )


def _sendable(torch: Any, value: Any) -> Any:
    """Return a value with what stands for the modules in it."""
    if isinstance(value, torch.nn.Module):
        return _Sent({MODULE: described(value)}, value)
    if type(value) in (tuple, list):
        return type(value)(_sendable(torch, part) for part in value)
    return (
        {name: _sendable(torch, part) for name, part in value.items()}
        if type(value) is dict
        else value
    )


class _Sent(dict[str, Any]):
    """What stands for a module on the way, and the module."""

    def __init__(self, of: dict[str, Any], module: Any):
        super().__init__(of)
        self.module = module


def _detached(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, (tuple, list)):
        return type(value)(_detached(torch, part) for part in value)
    return (
        {name: _detached(torch, part) for name, part in value.items()}
        if isinstance(value, dict)
        else value
    )


def _taken(torch: Any, value: Any, device: Any, arguments: Any) -> Any:
    """Return what came, on the device of what was sent; a module is a copy of the one that was
    sent.
    """
    if isinstance(value, torch.Tensor):
        return value.to(device) if device is not None else value
    if isinstance(value, (tuple, list)):
        return type(value)(_taken(torch, part, device, arguments) for part in value)
    if isinstance(value, dict) and MODULE in value:
        made = copy.deepcopy(next(part.module for part in arguments if isinstance(part, _Sent)))
        with torch.no_grad():
            for name, part in made.named_parameters():
                part.copy_(value[MODULE][name])
        return made
    return value

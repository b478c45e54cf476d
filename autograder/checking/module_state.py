"""Compares a module before and after a call: all of it, not only its parameters."""

import contextlib
from collections.abc import Iterator
from typing import Any

from .expect import Failed, expect_close
from .modules import Module
from .words import Message

MOST_SAID = 40
"""Characters of a name in a message: names of parts come from a student's process."""


def described(module: "Any", inputs: "Any" = (), begin: "bool" = False) -> "dict[str, Any]":
    """Return a description of a module, part by part, as plain values; it goes to where the module
    lives as text.

    With `begin`, each parameter gets a gradient first, so that a removed one is noticed. Results
    are those for `inputs`, if there are any.
    """
    import torch

    if begin:
        for parameter in module.parameters():
            parameter.grad = torch.ones_like(parameter)
    # Where a module keeps its hooks, and the method that a student has called to add one.
    kinds = {
        "_forward_pre_hooks": "register_forward_pre_hook",
        "_forward_hooks": "register_forward_hook",
        "_backward_pre_hooks": "register_full_backward_pre_hook",
        "_backward_hooks": "register_full_backward_hook",
        "_state_dict_pre_hooks": "register_state_dict_pre_hook",
        "_state_dict_hooks": "register_state_dict_post_hook",
        "_load_state_dict_pre_hooks": "register_load_state_dict_pre_hook",
        "_load_state_dict_post_hooks": "register_load_state_dict_post_hook",
    }
    # Every module has these, such as `_parameters`: what matters of them is described below.
    usual = vars(torch.nn.Module())
    modes: dict[str, bool] = {}
    hooks: dict[str, int] = {}
    attributes: dict[str, str] = {}
    for path, part in module.named_modules():
        modes[path] = part.training
        attributes[f"{path}.__class__"] = type(part).__name__
        for name, value in vars(part).items():
            if name in kinds:
                hooks[f"{path} {kinds[name]}"] = len(value)
            elif name not in usual:
                # Of other values, the text may differ without a change, as with an address in it.
                plain = value is None or type(value) in (bool, int, float, str, tuple, list, dict)
                attributes[f"{path}.{name}"] = repr(value)[:200] if plain else type(value).__name__
    parameters = dict(module.named_parameters())
    for path, parameter in parameters.items():
        hooks[f"{path} register_hook"] = len(parameter._backward_hooks or ())
    results = []
    if len(inputs):
        try:
            with torch.no_grad():
                result = module(*inputs)
            parts = result if isinstance(result, (tuple, list)) else [result]
            results = [part.detach().clone() for part in parts]
        except Exception as error:
            results = [type(error).__name__]  # before and after the call it is the same error
    # Each gradient was set to 1 at the beginning.
    gradients = {
        path: parameter.grad is not None and bool((parameter.grad == 1).all())
        for path, parameter in parameters.items()
    }
    return {
        "parameters": {path: parameter.detach().clone() for path, parameter in parameters.items()},
        "buffers": {path: buffer.detach().clone() for path, buffer in module.named_buffers()},
        "modes": modes,
        "requires_grad": {path: parameter.requires_grad for path, parameter in parameters.items()},
        "hooks": hooks,
        "attributes": attributes,
        "gradients": gradients,
        "results": results,
    }


@contextlib.contextmanager
def left_as_it_was(module: Module, *inputs: Any) -> Iterator[None]:
    """Fail if a module has changed between the beginning and the end of the context; say in a
    sentence what differs.

    Parameters
    ----------
    module : Module
        The module passed to the function under test. `module.name` is its name in feedback.
    inputs
        The inputs to call the module with before and after, in its current mode. Without any, it is
        not called.
    """
    before = module.run_remote(described, inputs, True)
    yield
    expect_left(before, module.run_remote(described, inputs), module.name)


def expect_left(before: dict[str, Any], after: dict[str, Any], name: str | Message) -> None:
    """Fail unless two descriptions of a module, which `described` made, are the same."""
    # First the names: what follows compares parts of the same name.
    if any(list(after[kind]) != list(before[kind]) for kind in ("parameters", "buffers", "modes")):
        raise _fails(
            "`{name}` has different parameters, buffers or modules after the call than before.",
            name=name,
        )
    _expect_numbers(before, after, name)
    _expect_modes(before["modes"], after["modes"], name)
    _expect_trained(before["requires_grad"], after["requires_grad"], name)
    _expect_hooks(before["hooks"], after["hooks"], name)
    _expect_attributes(before["attributes"], after["attributes"], name)
    for path, has_gradient in before["gradients"].items():
        if after["gradients"][path] is not has_gradient:
            message = (
                "The call changed or removed the gradient of the parameter {part} of `{name}`."
            )
            raise _fails(message, part=path[:MOST_SAID], name=name)
    _expect_results(before["results"], after["results"], name)


def _fails(template: str, **values: Any) -> Failed:
    return Failed(Message(template, **values), explained=True)


def _owner(path: str, name: str | Message) -> Message:
    """Return what a part of the module is called."""
    if not path:
        return Message("`{name}`", name=name)
    return Message("`{part}` of `{name}`", part=path[:MOST_SAID], name=name)


def _expect_numbers(before: dict[str, Any], after: dict[str, Any], name: str | Message) -> None:
    for kind, template in (
        ("parameters", "the parameter {part} of `{name}`"),
        ("buffers", "the buffer {part} of `{name}`"),
    ):
        for path, value in before[kind].items():
            expect_close(
                after[kind][path], value, what=Message(template, part=path[:MOST_SAID], name=name)
            )


def _expect_modes(before: dict[str, bool], after: dict[str, bool], name: str | Message) -> None:
    for path, training in before.items():
        if after[path] is training:
            continue
        message = (
            "{owner} was in evaluation mode before the call, but is in training mode after it."
        )
        if training:
            message = (
                "{owner} was in training mode before the call, but is in evaluation mode after it."
            )
        raise _fails(message, owner=_owner(path, name))


def _expect_trained(before: dict[str, bool], after: dict[str, bool], name: str | Message) -> None:
    for path, trained in before.items():
        if after[path] is not trained:
            message = (
                "The parameter {part} of `{name}` had `requires_grad={before}` before the call, "
                "but has {after} after it."
            )
            values = {"before": str(trained), "after": str(not trained)}
            raise _fails(message, part=path[:MOST_SAID], name=name, **values)


def _expect_hooks(before: dict[str, int], after: dict[str, int], name: str | Message) -> None:
    for key in [*before, *after]:
        was, now = before.get(key, 0), after.get(key, 0)
        if now == was:
            continue
        path, _, kind = key.partition(" ")
        message = "{owner} has lost a hook in the call, from `{kind}`."
        if now > was:
            message = "{owner} has a new hook after the call, from `{kind}`."
        raise _fails(message, owner=_owner(path, name), kind=kind[:MOST_SAID])


def _expect_attributes(before: dict[str, str], after: dict[str, str], name: str | Message) -> None:
    for key in [*before, *after]:
        was, now = before.get(key), after.get(key)
        if now == was:
            continue
        path, _, attribute = key.rpartition(".")
        values = {"attribute": attribute[:MOST_SAID], "owner": _owner(path, name)}
        if was is None:
            raise _fails("{owner} has a new attribute `{attribute}` after the call.", **values)
        if now is None:
            raise _fails("{owner} has lost its attribute `{attribute}` in the call.", **values)
        message = "`{attribute}` of {owner} was {before} before the call, but is {after} after it."
        values |= {"before": str(was)[:MOST_SAID], "after": str(now)[:MOST_SAID]}
        raise _fails(message, **values)


def _expect_results(before: list[Any], after: list[Any], name: str | Message) -> None:
    differs = "After the call, `{name}` returns something else for the same input."
    if len(after) != len(before):
        raise _fails(differs, name=name)
    for result, later in zip(before, after, strict=True):
        if hasattr(result, "shape"):
            what = Message("the result of `{name}` for the same input", name=name)
            expect_close(later, result, what=what)
        elif later != result:
            raise _fails(differs, name=name)

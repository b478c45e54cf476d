"""How a module of torch crosses from judge to guest: its class, arguments and parameters, built
again there.

A module of the check's own class stays with the judge. In the guest, another module replaces it,
with the same parameters and plain attributes; a call of it calls the judge's.
"""

import functools
import importlib
import inspect
from typing import Any


def recipe(module: Any) -> dict[str, Any]:
    """Return how to build a torch module of torch's own again: its class, its arguments, its
    parameters by name.

    Of a `ModuleList` or `ModuleDict`, its parts instead, and the plain values that were noted on
    it. Of a module that is not torch's own, how to call it, its own parameters, and these values.
    """
    import torch

    kind = type(module)
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"a {kind.__name__} cannot be sent; PyTorch modules can")
    noted = {
        name: attribute
        for name, attribute in vars(module).items()
        if type(attribute) in (bool, int, float, str)
    }
    if not kind.__module__.startswith("torch.nn."):
        parameters = {name: part.detach() for name, part in module.named_parameters(recurse=False)}
        return {"forward": module.forward, "own": parameters, "noted": noted}
    if isinstance(module, (torch.nn.ModuleList, torch.nn.ModuleDict)):
        parts = {name: recipe(part) for name, part in module.named_children()}
        return {"class": f"{kind.__module__}.{kind.__name__}", "parts": parts, "noted": noted}
    arguments = {}
    for name in parameters_of(kind):  # type: ignore[arg-type]
        argument = getattr(module, name, None)
        if name == "bias":
            # Its value is the parameter itself; the argument says whether there is one.
            argument = any(path.endswith("bias") for path, _ in module.named_parameters())
        if argument is not None and type(argument) in (bool, int, float, str, tuple, list):
            arguments[name] = argument
    state = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "arguments": arguments,
        "state": state,
        "training": module.training,
    }


@functools.cache
def parameters_of(kind: Any) -> list[str]:
    """Return the names of the arguments that a class takes."""
    # The first one is `self`.
    return list(inspect.signature(kind.__init__).parameters)[1:]


def rebuild(description: dict[str, Any]) -> Any:
    """Return the torch module that a `recipe` describes."""
    if "forward" in description:
        return _stand_in(description)
    path, _, name = description["class"].rpartition(".")
    if not path.startswith("torch.nn."):
        raise ValueError("a module that is not PyTorch's own")
    kind = getattr(importlib.import_module(path), name)
    if "parts" in description:
        module = kind()
        for name, part in description["parts"].items():
            module.add_module(name, rebuild(part))
        vars(module).update(description["noted"])
        return module
    module = kind(**description["arguments"])
    parameter = next(iter(description["state"].values()), None)
    if parameter is not None:
        # Loading a state keeps the type that the module has.
        module = module.to(parameter.dtype)
    module.load_state_dict(description["state"])
    return module.train(description["training"])


def _stand_in(description: dict[str, Any]) -> Any:
    """Return a module that calls one of the judge's."""
    import torch

    class StandIn(torch.nn.Module):
        def forward(self, *arguments: Any, **keywords: Any) -> Any:
            return description["forward"](*arguments, **keywords)

    module = StandIn()
    for name, part in description["own"].items():
        module.register_parameter(name, torch.nn.Parameter(part))
    vars(module).update(description["noted"])
    return module

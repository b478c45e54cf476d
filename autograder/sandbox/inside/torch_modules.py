"""How a module of torch crosses from judge to guest: its class, arguments and parameters, built again there."""

import importlib
import inspect


def recipe(module):
    """Return how to build a torch module of torch's own again: its class, its arguments, its parameters by name.

    Of a `ModuleList` or `ModuleDict`, its parts instead, and the plain values that were noted on it.
    """
    import torch

    kind = type(module)
    if not kind.__module__.startswith("torch.nn.") or not isinstance(module, torch.nn.Module):
        raise TypeError(f"a {kind.__name__} cannot cross; torch's own modules can")
    if isinstance(module, (torch.nn.ModuleList, torch.nn.ModuleDict)):
        parts = {name: recipe(part) for name, part in module.named_children()}
        noted = {name: own for name, own in vars(module).items() if type(own) in (bool, int, float, str)}
        return {"class": f"{kind.__module__}.{kind.__name__}", "parts": parts, "noted": noted}
    arguments = {}
    for name in list(inspect.signature(kind.__init__).parameters)[1:]:
        own = getattr(module, name, None)
        if name == "bias":
            own = any(own.endswith("bias") for own, _ in module.named_parameters())
        if own is not None and type(own) in (bool, int, float, str, tuple, list):
            arguments[name] = own
    state = {name: own.detach() for name, own in module.state_dict().items()}
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "arguments": arguments,
        "state": state,
        "training": module.training,
    }


def rebuild(own):
    """Return the torch module that a `recipe` describes."""
    path, _, name = own["class"].rpartition(".")
    if not path.startswith("torch.nn."):
        raise ValueError("a module that is not torch's own")
    kind = getattr(importlib.import_module(path), name)
    if "parts" in own:
        module = kind()
        for part, its in own["parts"].items():
            module.add_module(part, rebuild(its))
        vars(module).update(own["noted"])
        return module
    module = kind(**own["arguments"])
    some = next(iter(own["state"].values()), None)
    if some is not None:
        module = module.to(some.dtype)
    module.load_state_dict(own["state"])
    return module.train(own["training"])

"""How a module of torch crosses from judge to guest: its class, arguments and parameters, built again there."""

import importlib
import inspect


def recipe(module):
    """Return how to build a torch module of torch's own again: its class, its arguments, its parameters by name."""
    import torch

    kind = type(module)
    if not kind.__module__.startswith("torch.nn.") or not isinstance(module, torch.nn.Module):
        raise TypeError(f"a {kind.__name__} cannot cross; torch's own modules can")
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
    module = getattr(importlib.import_module(path), name)(**own["arguments"])
    some = next(iter(own["state"].values()), None)
    if some is not None:
        module = module.to(some.dtype)
    module.load_state_dict(own["state"])
    return module.train(own["training"])

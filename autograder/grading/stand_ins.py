"""The course's own function or class, as a replacement in a guest for a student's that fails.

It stays here and computes values on request. The guest has only a name for it, and the parameters
of a class.
"""

import sys
from collections.abc import Sequence
from typing import Any

from autograder.sandbox.inside.stand_ins import MODULE, described, floating, is_plain

MOST_PARTS = 1000
"""The most modules that a module may contain: no honest layer has more."""
MOST_NUMBERS = 4_000_000
"""The most numbers that one call may have in all, parameters included: ten times those of the
course's checks.
"""


class StandIn:
    """A function or class of the course's, called by a guest: as `ask` of
    `sandbox/inside/stand_ins.py`.

    Parameters
    ----------
    name : str
        The name under which it stands.
    function : callable
        The course's function or class.
    """

    def __init__(self, name: str, function: Any):
        self.name, self.function = name, function
        self.kind = "class" if isinstance(function, type) else "function"

    def __call__(
        self,
        task: str,
        recipe: Any,
        state: dict[str, Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        asked: Sequence[bool] = (),
        upstream: Sequence[Any] = (),
    ) -> Any:
        """Do what a guest asks for.

        Parameters
        ----------
        task : str
            "make": say how the class's module is made. "call": return what comes of a call.
            "forward": the same, as whether it is a tuple, a list of tensors, and for each whether
            gradients flow to it. "backward": return the gradients of all floating tensors in
            `state`, `arguments` and `keywords`, in order.
        recipe : None or tuple
            Of a class: the arguments and keywords that the module was made with, and which of its
            parts is called.
        state : dict
            The parameters of that part, by name.
        arguments, keywords : tuple, dict
        asked : sequence of bool
            For each floating tensor, whether a gradient is asked for.
        upstream : sequence of Tensor or None
            The gradients of the results.
        """
        # If neither the checks nor the course's answers have loaded torch, there is no tensor.
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return self.function(*arguments, **keywords)
        if task == "make":
            return described(self._module(torch, recipe))
        # Not strict: a "call" asks for no gradients, and a guest may send any number of these.
        leaves = floating(torch, (state, arguments, keywords))
        for leaf, wanted in zip(leaves, asked, strict=False):
            leaf.requires_grad_(bool(wanted))
        arguments, keywords = _with_modules(torch, arguments), _with_modules(torch, keywords)
        if task == "call":
            with torch.no_grad():
                return _sendable(torch, self._result(torch, recipe, state, arguments, keywords))
        result = self._result(torch, recipe, state, arguments, keywords)
        is_several = isinstance(result, (tuple, list))
        results = list(result) if is_several else [result]
        if task == "forward":
            return (
                is_several,
                [part.detach() for part in results],
                [part.requires_grad for part in results],
            )
        # Computed again for "backward": no graph is kept between two messages.
        return _gradients(torch, results, upstream, leaves)

    def _result(self, torch: Any, recipe: Any, state: Any, arguments: Any, keywords: Any) -> Any:
        if recipe is None:
            return self.function(*arguments, **keywords)
        module = self._module(torch, recipe).get_submodule(".".join(map(str, recipe[2])))
        return torch.func.functional_call(module, state, arguments, keywords)

    def _module(self, torch: Any, recipe: Any) -> Any:
        """Return a module made as the guest says, whose parameters are sizes alone: so none is
        too large.
        """
        with torch.device("meta"):
            return self.function(*recipe[0], **recipe[1])


def _gradients(
    torch: Any, results: list[Any], upstream: Sequence[Any], leaves: list[Any]
) -> list[Any]:
    """Return the gradients of the leaves that want one, and None for the others."""
    # A result that the guest does not use has no upstream gradient.
    used = [
        (result, gradient)
        for result, gradient in zip(results, upstream, strict=True)
        if result.requires_grad and gradient is not None
    ]
    inputs = [leaf for leaf in leaves if leaf.requires_grad]
    computed = iter(
        torch.autograd.grad(
            [result for result, _ in used],
            inputs,
            [gradient for _, gradient in used],
            allow_unused=True,
        )
    )
    return [next(computed) if leaf.requires_grad else None for leaf in leaves]


def _with_modules(torch: Any, value: Any) -> Any:
    """Return what a guest sent, with modules that have the parameters and plain attributes of
    those in the guest.
    """
    if isinstance(value, tuple):
        return tuple(_with_modules(torch, part) for part in value)
    if isinstance(value, dict):
        if MODULE in value:
            return _shell(torch, value[MODULE], [0])
        return {name: _with_modules(torch, part) for name, part in value.items()}
    return value


def _shell(torch: Any, description: dict[str, Any], count: list[int]) -> Any:
    count[0] += 1
    if count[0] > MOST_PARTS:
        raise ValueError("a module with too many parts")
    shell = torch.nn.Module()
    # No private name: a module keeps its parameters and hooks under such names.
    noted = {
        name: value
        for name, value in description["noted"].items()
        if is_plain(value) and not name.startswith("_")
    }
    vars(shell).update(noted)
    for name, part in description["own"].items():
        shell.register_parameter(name, torch.nn.Parameter(part))
    for name, part in description["parts"].items():
        shell.add_module(name, _shell(torch, part, count))
    return shell


def _sendable(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        return {MODULE: {name: part.detach() for name, part in value.named_parameters()}}
    return value

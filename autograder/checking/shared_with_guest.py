"""Calls and differentiates a function, in the same way where checks run and where a guest answers
them.

A guest has no checks, and checks travel without the sandbox. So this module is self-contained: it
is a part of the checks' runtime, each guest gets it as a separate file, and it imports nothing from
the course.
"""

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np


@contextlib.contextmanager
def same_draws() -> Iterator[None]:
    """Let torch draw the same numbers in each call, and go on afterwards as if nothing had been
    drawn.

    What depends on chance, such as a new layer's parameters or dropout, can then be compared with a
    listed answer.
    """
    # Without torch, or before anything has imported it, nothing is drawn from it.
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    if generator is None:
        yield
        return
    state = generator.get_state()
    generator.manual_seed(0)
    try:
        yield
    finally:
        generator.set_state(state)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Call a function under test within this: with `same_draws`, and without warnings.

    A warning is not a fault, but nbgrader treats any text on stderr as one: so it goes to stdout.
    """
    with (
        np.errstate(all="ignore"),
        warnings.catch_warnings(),
        contextlib.redirect_stderr(sys.stdout),
        same_draws(),
    ):
        warnings.simplefilter("ignore")
        yield


def differentiated(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    upstream: Any = None,
    keywords: Mapping[str, Any] = {},
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Call a function, or a module of torch, with autograd; return its result and the gradients.

    Parameters
    ----------
    function : callable
        Returns a tensor, or a tuple or list whose first element is the tensor to differentiate.
    arguments : sequence
        Floating tensors among them get gradients.
    upstream : Tensor, optional
        The gradient of the loss with respect to that tensor, of its shape. Default: ones.
    keywords : mapping, optional
        Further arguments, by name.

    Returns
    -------
    tuple
        The result; a list with a gradient for each floating argument, None for the others; and a
        dict with the gradient of each of a module's parameters, by name.
    """
    import torch

    def floating(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_floating_point()

    module = function if isinstance(function, torch.nn.Module) else None
    leaves = [
        argument.detach().clone().requires_grad_() if floating(argument) else argument
        for argument in arguments
    ]
    with torch.enable_grad():
        # An earlier call has left gradients, to which `backward` would add.
        if module is not None:
            module.zero_grad()
        result = function(*leaves, **keywords)
        _send_back(result[0] if isinstance(result, (tuple, list)) else result, upstream)
    # A shared parameter has its gradient under each of its names: a check may expect the second.
    named = module.named_parameters(remove_duplicate=False) if module is not None else ()
    gradients = [leaf.grad if floating(leaf) else None for leaf in leaves]
    return result, gradients, {name: parameter.grad for name, parameter in named}


def _send_back(result: Any, upstream: Any) -> None:
    """Call `backward` on a result, with its gradient: for a product's sum, since torch loads sympy
    to be given one.

    That takes a second, once.
    """
    import torch

    upstream = torch.ones_like(result) if upstream is None else upstream
    if result.is_floating_point() and result.shape == upstream.shape:
        (result * upstream).sum().backward()
    else:
        result.backward(upstream)


def is_tensor(value: Any) -> bool:
    """Tell whether a value is a tensor of torch, which need not be installed.

    The type is asked: a value of a student's may answer to any name.
    """
    return hasattr(type(value), "detach")


def unusual_kind(value: Any) -> str:
    """Return what kind of values an array has that are no real numbers, such as "complex128",
    "object" or "str".

    Of a tensor, it may also be a kind of memory, such as "sparse_coo". "" for real numbers, and for
    what is no array.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biuf":
            return ""
        return {"U": "str", "S": "bytes", "V": "structured"}.get(value.dtype.kind, str(value.dtype))
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return ""
    if value.is_quantized or value.is_complex():
        return str(value.dtype).removeprefix("torch.")
    if value.is_nested or value.is_meta:
        return "nested" if value.is_nested else "meta"
    return "" if value.layout is torch.strided else str(value.layout).removeprefix("torch.")


def span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Return the first and the last byte (exclusive) that an array touches, relative to its first
    element.

    `strides` and `itemsize` are in bytes.
    """
    low = high = 0
    for n, stride in zip(shape, strides, strict=True):
        if not n:
            return 0, 0  # no element
        if stride < 0:  # as of X[::-1]: the elements come before the first one
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, itemsize + high

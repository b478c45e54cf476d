"""Pieces that listed answers, wrong and right ones, are put together from."""

import math
from typing import Any

import numpy as np


def fits(a: int, b: int, name: str = "size") -> None:
    """Raise `ValueError` unless two sizes are equal; `name` says what they are sizes of."""
    if a != b:
        raise ValueError(f"the {name} is {a} and {b}")


def transposed(X: Any) -> Any:
    """Return X (..., a, b) with its last two axes exchanged: (..., b, a)."""
    return np.swapaxes(X, -1, -2)


def stretched(left: Any, right: Any) -> Any:
    """Multiply (..., a, b) with (..., b, c) by broadcasting, which stretches a b of 1."""
    return (left[..., :, :, None] * right[..., None, :, :]).sum(-2)


def softmax(S: Any, axis: int = -1) -> Any:
    """Return the softmax of S along an axis: of the same shape, finite for finite scores of any
    size.
    """
    E = np.exp(S - S.max(axis=axis, keepdims=True))
    return E / E.sum(axis=axis, keepdims=True)


def scaled(Q: Any, K: Any) -> Any:
    """Return the scaled scores (..., n_q, n_k) of queries Q (..., n_q, d_k) and keys K (...,
    n_k, d_k).
    """
    return Q @ transposed(K) / math.sqrt(Q.shape[-1])

"""The results that exercise 4 asks for, in another way, for its checks. Released only inside the archive."""

import math

import numpy as np


def gap_row_by_row(attend, X, permutation):
    """Return the largest difference between attending to permuted rows and permuting the result of attention."""
    moved, still = attend(X[permutation]), attend(X)
    return max(np.abs(moved[i] - still[j]).max() for i, j in enumerate(permutation))


def encoding_by_number(n, d_model, base=10000):
    """Return the sinusoidal encoding (n, d_model), number by number."""

    def entry(p, column):
        angle = p / math.pow(base, (column - column % 2) / d_model)
        return math.cos(angle) if column % 2 else math.sin(angle)

    return np.array([[entry(p, column) for column in range(d_model)] for p in range(n)])


def rotated(X, positions, base=10000.0):
    """Turn the pairs (x, y) of X (..., n, d) by t: the real and the imaginary part of (x + iy) e^(it)."""
    d = X.shape[-1]
    X = X.astype(float)
    angles = np.multiply.outer(
        positions, [math.exp(-column / d * math.log(base)) for column in range(0, d, 2)]
    )
    turned = (X[..., 0::2] + 1j * X[..., 1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(X.shape)

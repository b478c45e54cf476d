"""Right answers that look different from ours; the tests run the checks on them. Students do not get this file.

Some allow any broadcasting, and so fail only advice: these also earn all points.
"""

import math

import numpy as np

from checking import right
from misconceptions import (
    differences,
    even,
    fits,
    frequencies,
    interleaved,
    sizes_fit,
    speeds,
    turn,
)

# by_hand


@right("by_hand")
def by_hand_as_a_tuple():
    return -1, -2, -1, 3


@right("by_hand")
def by_hand_as_complex_numbers():
    first, second = complex(1, 2) * -1, complex(3, 1) * 1j
    return np.array([[first.real, first.imag], [second.real, second.imag]])


# permutation_gap


@right("permutation_gap")
def gap_undone(attend, X, permutation):
    fits(X, permutation)
    return np.max(np.abs(attend(X[permutation])[np.argsort(permutation)] - attend(X)))


@right("permutation_gap")
def gap_by_matrix(attend, X, permutation):
    P = np.eye(len(X))[permutation]
    return float(np.linalg.norm((attend(P @ X) - P @ attend(X)).ravel(), np.inf))


@right("permutation_gap")
def gap_by_loops(attend, X, permutation):
    n = X.shape[0]
    if len(permutation) != n:
        raise ValueError("another length")
    moved = attend(np.array([X[row] for row in permutation]))
    still = attend(X)
    gap = 0.0
    for i in range(n):
        for j in range(still.shape[1]):
            gap = max(gap, abs(moved[i][j] - still[permutation[i]][j]))
    return gap


@right("permutation_gap")
def gap_either_sign(attend, X, permutation):
    D = differences(attend, X, permutation)
    return max(D.max(), -D.min())


@right("permutation_gap")
def gap_zero_axes(attend, X, permutation):
    return np.array(np.abs(differences(attend, X, permutation)).max())


# sinusoidal_encoding


@right("sinusoidal_encoding")
def sinusoidal_loops(n, d_model):
    even(d_model)
    P = np.zeros((n, d_model))
    for p in range(n):
        for i in range(0, d_model, 2):
            P[p, i] = math.sin(p / 10000 ** (i / d_model))
            P[p, i + 1] = math.cos(p / 10000 ** (i / d_model))
    return P


@right("sinusoidal_encoding")
def sinusoidal_by_exp(n, d_model):
    angles = np.arange(n)[:, None] * np.exp(np.arange(0, d_model, 2) * (-np.log(10000.0) / d_model))
    P = np.empty((n, d_model))
    P[:, 0::2], P[:, 1::2] = np.sin(angles), np.cos(angles)
    return P


@right("sinusoidal_encoding")
def sinusoidal_complex(n, d_model):
    even(d_model)
    turns = np.exp(1j * np.outer(np.arange(n), frequencies(d_model)))
    return np.stack([turns.imag, turns.real], axis=-1).reshape(n, d_model)


@right("sinusoidal_encoding")
def sinusoidal_shifted_sine(n, d_model):
    even(d_model)
    column = np.arange(d_model)
    return np.sin(
        np.arange(n)[:, None] / 10000 ** ((column - column % 2) / d_model)
        + np.pi / 2 * (column % 2)
    )


@right("sinusoidal_encoding")
def sinusoidal_in_float32(n, d_model):
    even(d_model)
    exponents = np.arange(0, d_model, 2, dtype=np.float32) / np.float32(d_model)
    angles = np.arange(n, dtype=np.float32)[:, None] / np.float32(10000) ** exponents
    return interleaved(angles)


@right("sinusoidal_encoding")
def sinusoidal_torch(n, d_model):
    import torch

    even(d_model)
    P = torch.zeros(n, d_model)
    position = torch.arange(n, dtype=torch.float32).unsqueeze(1)
    w = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    P[:, 0::2] = torch.sin(position * w)
    P[:, 1::2] = torch.cos(position * w)
    return P.numpy()


@right("sinusoidal_encoding")
def sinusoidal_turned_step_by_step(n, d_model):
    even(d_model)
    step, at = np.exp(1j * frequencies(d_model)), np.ones(d_model // 2, dtype=complex)
    rows = []
    for _ in range(n):
        rows.append(np.ravel([at.imag, at.real], order="F"))
        at = at * step
    return np.array(rows)


# rotary


@right("rotary")
def rotary_by_complex_numbers(X, positions, base=10000.0):
    Z = (X[..., 0::2] + 1j * X[..., 1::2]) * np.exp(
        1j * np.outer(positions, speeds(X.shape[-1], base))
    )
    result = np.empty_like(X)
    result[..., 0::2], result[..., 1::2] = Z.real, Z.imag
    return result


@right("rotary")
def rotary_by_matrices(X, positions, base=10000.0):
    sizes_fit(X, positions)
    d = X.shape[-1]
    R = np.zeros((len(positions), d, d))
    for row, position in enumerate(positions):
        for i in range(0, d, 2):
            t = position * base ** (-i / d)
            R[row, i : i + 2, i : i + 2] = [[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]]
    return np.einsum("nij,...nj->...ni", R, X).astype(X.dtype)


@right("rotary")
def rotary_by_loops(X, positions, base=10000.0):
    sizes_fit(X, positions)
    result = X.copy()
    for *lead, row in np.ndindex(*X.shape[:-1]):
        vector = X[tuple(lead)][row]
        for i in range(0, X.shape[-1], 2):
            t = positions[row] * base ** (-i / X.shape[-1])
            result[tuple(lead)][row, i] = vector[i] * np.cos(t) - vector[i + 1] * np.sin(t)
            result[tuple(lead)][row, i + 1] = vector[i] * np.sin(t) + vector[i + 1] * np.cos(t)
    return result


@right("rotary")
def rotary_in_float32(X, positions, base=10000.0):
    sizes_fit(X, positions)
    d = X.shape[-1]
    w = np.float32(1) / np.float32(base) ** (np.arange(0, d, 2, dtype=np.float32) / np.float32(d))
    return turn(X, np.asarray(positions, dtype=np.float32)[:, None] * w)


@right("rotary")
def rotary_vectors_first(X, positions, base=10000.0):
    sizes_fit(X, positions)
    pairs = np.moveaxis(X, (-2, -1), (0, 1)).reshape(
        X.shape[-2], -1, 2, *X.shape[:-2]
    )  # (n, d/2, 2, ...)
    t = np.outer(positions, speeds(X.shape[-1], base)).reshape(
        *pairs.shape[:2], *[1] * (X.ndim - 2)
    )
    x, y = pairs[:, :, 0], pairs[:, :, 1]
    new = np.stack([np.cos(t) * x - np.sin(t) * y, np.sin(t) * x + np.cos(t) * y], axis=2)
    return np.moveaxis(
        new.reshape(X.shape[-2], X.shape[-1], *X.shape[:-2]), (0, 1), (-2, -1)
    ).astype(X.dtype)


@right("rotary")
def rotary_torch(X, positions, base=10000.0):
    import torch

    sizes_fit(X, positions)
    Z = torch.tensor(X).double()
    w = 1.0 / (base ** (torch.arange(0, X.shape[-1], 2).double() / X.shape[-1]))
    angles = torch.outer(torch.tensor(positions).double(), w)
    pairs = torch.view_as_complex(Z.reshape(*Z.shape[:-1], -1, 2).contiguous())
    Z = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    return Z.numpy().astype(X.dtype)

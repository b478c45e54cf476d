"""Expected results, computed differently from the solution."""

import numpy as np


def added(a, b):
    """Return a + b, by a product of matrices: with large ones, it is slow."""
    return np.eye(len(a), dtype=a.dtype) @ a + b

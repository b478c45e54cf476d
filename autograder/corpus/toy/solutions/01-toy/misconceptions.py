"""Wrong answers."""

import numpy as np

from checking import misconception, right


@misconception("add", label="subtracted instead of added", hint="You subtract.")
def subtracts(a, b):
    return a - b


@right("add")
def adds_by_a_product(a, b):
    """Add by a product of matrices: with large ones, it is slow."""
    return np.eye(len(a), dtype=a.dtype) @ a + b

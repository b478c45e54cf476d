"""Wrong answers."""

import numpy as np

from checking import misconception, right


@misconception("add", label="subtracted instead of added", hint="You subtract.")
def subtracts(a, b):
    return a - b


@right("add")
def adds_with_numpy(a, b):
    return np.add(a, b)

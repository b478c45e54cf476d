"""Checks of exercise N. Yours to read: each is one sentence about a function, and inputs that would show it false."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.append(str(Path(__file__).with_name("checking.zip")))
if find_spec("checking") is None:
    raise ImportError("checking.zip is missing beside checks.py. Unpack the exercise again, or run: make release")

import numpy as np

from checking import Suite, expect_array, expect_by_hand, expect_close, expect_dtypes, expect_unchanged

# For each function, the heading in its chapter to read: {"centred": "chapter N, What the heading says"}.
suite = Suite(__name__, read={})
check = suite.check
run = suite.run


@check()
def two_columns_by_hand(by_hand, draw):
    """The four numbers are the rows, less the means of their columns."""
    X = np.array([[1.0, 0.0], [5.0, 2.0]])
    expect_by_hand(by_hand(), X - X.mean(axis=0))


@check()
def keeps_the_shape(centred, draw):
    """The result has the shape of X, if there is one row too."""
    n, d = draw.sizes(2)
    expect_array(centred(draw.array(n, d)), (n, d))
    expect_array(centred(draw.array(1, d)), (1, d))


@check(weight=2, needs=keeps_the_shape)
def columns_lie_around_zero(centred, draw):
    """Each column is what it was, less its own mean."""
    n, d = draw.sizes(2)
    X = draw.array(n, d)
    means = [sum(column) / n for column in X.T]
    expect_close(centred(X), np.array([[X[i, j] - means[j] for j in range(d)] for i in range(n)]))


@check(needs=columns_lie_around_zero)
def keeps_sequences_apart(centred, draw):
    """Each sequence of a batch gives what it gives alone."""
    n, d = draw.sizes(2)
    X = draw.array(2, 3, n, d)
    expect_close(centred(X), np.array([[centred(sequence) for sequence in row] for row in X]))


@check(needs=keeps_the_shape)
def leaves_its_input(centred, draw):
    """X is left as it was."""
    n, d = draw.sizes(2)
    expect_unchanged(centred, ["X"], draw.array(n, d))


@check(needs=keeps_the_shape)
def keeps_the_dtype(centred, draw):
    """The result has the dtype of X: float32 gives float32, float16 gives float16."""
    n, d = draw.sizes(2)
    expect_dtypes(centred, draw.array(n, d))

"""Checks of exercise 14. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Results are compared with `specifications`. It is in checking.zip together with the runtime, `checking`, so that no
one sees an answer by accident.
"""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).with_name("checking.zip")))
importlib.invalidate_caches()
for other in ("specifications", "misconceptions"):  # of an exercise opened earlier
    sys.modules.pop(other, None)
if not importlib.util.find_spec("checking"):
    raise ImportError(
        "checking.zip is missing next to checks.py. Unpack the exercise again, or run: make release"
    )

import numpy as np

from checking import (
    Suite,
    expect_array,
    expect_by_hand,
    expect_close,
    expect_dtypes,
    expect_unchanged,
)
from specifications import less_its_mean

# For each function, the heading to read in its chapter: {"centered": "chapter 14, The heading"}.
suite = Suite(__name__, read={"by_hand": "chapter 14, By hand", "centered": "chapter 14, The code"})
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset


@check()
def two_columns_by_hand(by_hand, draw):
    """The four numbers are the rows minus the means of their columns."""
    X = np.array([[1.0, 0.0], [5.0, 2.0]])
    expect_by_hand(by_hand(), less_its_mean(X))


@check()
def keeps_the_shape(centered, draw):
    """Returns an array with the shape of X, even for one row."""
    n, d = draw.sizes(2)
    expect_array(centered(draw.array(n, d)), (n, d))
    expect_array(centered(draw.array(1, d)), (1, d))


@check(weight=2, needs=keeps_the_shape)
def columns_lie_around_zero(centered, draw):
    """Subtracts its own mean from each column."""
    n, d = draw.sizes(2)
    X = draw.array(n, d)
    expect_close(centered(X), less_its_mean(X))


@check(needs=columns_lie_around_zero)
def keeps_sequences_apart(centered, draw):
    """Gives the same for each sequence of a batch as for that sequence alone."""
    n, d = draw.sizes(2)
    X = draw.array(2, 3, n, d)
    expect_close(centered(X), np.array([[centered(sequence) for sequence in row] for row in X]))


@check(needs=keeps_the_shape)
def leaves_its_input(centered, draw):
    """Does not change its input."""
    n, d = draw.sizes(2)
    expect_unchanged(centered, ["X"], draw.array(n, d))


@check(needs=keeps_the_shape)
def keeps_the_dtype(centered, draw):
    """Keeps the dtype of X: float32 gives float32, float16 gives float16."""
    n, d = draw.sizes(2)
    expect_dtypes(centered, draw.array(n, d))

"""Checks of exercise 1. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Results are compared with `specifications`, which computes them as sums over elements. It is in checking.zip together
with the runtime, `checking`, so that no one sees an answer by accident. The tolerance is `RTOL` in
`checking/expect.py`, which explains how it was chosen. The course's tests measure how far right answers stay below it
and known mistakes above it.
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
    REPEATED,
    Message,
    StandardChecks,
    Suite,
    expect_agrees,
    expect_array,
    expect_by_hand,
    expect_raises,
    expect_tuple,
    expect_unchanged,
    noncontiguous,
    told_by,
)
from specifications import dot_products, each_projected, looked_up, mixture, projected

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 1, By hand",
        "project": "chapter 1, By hand",
        "qkv": "chapter 1, By hand",
        "scores": "chapter 1, All words at once",
        "weighted_sum": "chapter 1, All words at once",
        "soft_lookup": "chapter 1, The code",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset

# by_hand


@check()
def by_hand_row(by_hand, draw):
    """Returns the attention output of the second word."""
    X, W_q = np.array([[1.0, 0], [1, 1], [0, 2]]), np.array([[3.0, 1], [-1, 1]])
    W_k, W_v = np.array([[np.log(2), 0], [1, -1]]), np.array([[9.0, 9], [0, 18]])
    hint = Message("Two of the three scores are equal.")
    expect_by_hand(by_hand(), looked_up(*each_projected(X, W_q, W_k, W_v))[1], hint)


# project


project_checks = StandardChecks(
    suite,
    "project",
    projected,
    sizes="n d_in d_out",
    arguments={"X": "... n d_in", "W": "d_in d_out"},
    result="... n d_out",
)
project_checks.shape(
    "Returns an array of shape (n, d_out) for `X` (n, d_in) and `W` (d_in, d_out)."
)


@check(weight=3, needs=["project_shape"])
def project_values(project, draw):
    """Entry (i, j) of the result is the dot product of row i of `X` and column j of `W`."""
    n, d_in, d_out = draw.sizes(3)
    expect_agrees(project, projected, draw.array(n, d_in), draw.array(d_in, d_out))
    with told_by(lambda: REPEATED):
        expect_agrees(project, projected, draw.array(n, d_in), draw.array(d_in, d_out))
    # All sizes equal, and rows from 1e-4 to 1e4 in size: each is compared relative to its own size.
    size = draw.magnitudes(n)[:, None]
    expect_agrees(project, projected, size * draw.array(n, n), draw.array(n, n), unit=size)
    for n, d_in in [(draw.long(), 3), (2, draw.long())]:
        X, W = noncontiguous(draw.array(n, d_in)), noncontiguous(draw.array(d_in, 4))
        expect_agrees(project, projected, X, W)


@check(weight=2, needs=[project_values])
def project_batch(project, draw):
    """Keeps leading batch dimensions, one or several, and projects every sequence with the same `W`."""
    n, d_in, d_out, b = draw.sizes(4)
    W = draw.array(d_in, d_out)
    for lead in [(b,), (2, b), (3, 2, 2)]:
        X = draw.array(*lead, n, d_in)
        expect_agrees(project, projected, X, W)


project_checks.ones(
    "Keeps dimensions of size 1: one vector, one sequence in the batch, one number in a vector.",
    ["n", "d_in", "batch,d_out"],
)


@check(weight=1, needs=[project_values])
def project_refuses(project, draw):
    """Raises `ValueError` when the inner dimensions (d_in) differ, even if one is 1 or `W.T` would fit."""
    n, d_in, d_out, other = draw.sizes(4)
    # In the last case, W would fit if it were transposed.
    for left, right, width in [
        (d_in, other, d_out),
        (d_in, 1, d_out),
        (1, d_in, d_out),
        (d_in, other, d_in),
    ]:
        X, W = draw.array(n, left), draw.array(right, width)
        because = Message("d_in is {left} and {right}", left=left, right=right)
        expect_raises([ValueError], project, X, W, because=because)


project_checks.dtype("Keeps the dtype of its inputs: float32 gives float32, float16 gives float16.")


project_checks.inputs("Does not change `X` or `W`.", batch=True)


# qkv


def projections(draw, d_in, d_k, d_v):
    """Return W_q (d_in, d_k), W_k (d_in, d_k) and W_v (d_in, d_v)."""
    return [draw.array(d_in, width) for width in (d_k, d_k, d_v)]


qkv_checks = StandardChecks(
    suite,
    "qkv",
    each_projected,
    sizes="n d_in d_k d_v",
    arguments={"X": "... n d_in", "W_q": "d_in d_k", "W_k": "d_in d_k", "W_v": "d_in d_v"},
    result={"Q": "... n d_k", "K": "... n d_k", "V": "... n d_v"},
)


@check(weight=1)
def qkv_shape(qkv, draw):
    """Returns a tuple of three arrays: Q (n, d_k), K (n, d_k) and V (n, d_v)."""
    n, d_in, d_k, d_v = draw.sizes(4)
    if d_v == d_k + 2:  # the integer part of a third of 2 d_k + d_v would be d_k
        d_k, d_v = d_v, d_k
    X, matrices = draw.array(n, d_in), projections(draw, d_in, d_k, d_v)
    parts = expect_tuple(qkv(X, *matrices), "QKV")
    for part, width, name in zip(parts, (d_k, d_k, d_v), "QKV", strict=True):
        expect_array(part, (n, width), what=name)


@check(weight=3, needs=[qkv_shape])
def qkv_values(qkv, draw):
    """Projects `X` by `W_q` to get Q, by `W_k` to get K, and by `W_v` to get V."""
    n, d_in, d_k, d_v = draw.sizes(4)
    expect_agrees(
        qkv, each_projected, draw.array(n, d_in), *projections(draw, d_in, d_k, d_v), names="QKV"
    )
    with told_by(lambda: REPEATED):
        expect_agrees(
            qkv,
            each_projected,
            draw.array(n, d_in),
            *projections(draw, d_in, d_k, d_v),
            names="QKV",
        )
    # All sizes equal, and rows from 1e-4 to 1e4 in size: each is compared relative to its own size.
    X, size = draw.array(n, n), draw.magnitudes(n)[:, None]
    expect_agrees(
        qkv, each_projected, size * X, *projections(draw, n, n, n), names="QKV", unit=size
    )
    for n, d_in in [(draw.long(), 2), (3, draw.long())]:
        matrices = map(noncontiguous, projections(draw, d_in, 3, 2))
        expect_agrees(
            qkv, each_projected, noncontiguous(draw.array(n, d_in)), *matrices, names="QKV"
        )


@check(weight=2, needs=[qkv_values])
def qkv_batch(qkv, draw):
    """Keeps leading batch dimensions, one or several, in Q, K and V."""
    n, d_in, d_k, d_v, b = draw.sizes(5)
    matrices = projections(draw, d_in, d_k, d_v)
    for lead in [(b,), (2, b), (3, 2, 2)]:
        expect_agrees(qkv, each_projected, draw.array(*lead, n, d_in), *matrices, names="QKV")


qkv_checks.ones(
    "Keeps dimensions of size 1: one vector, one sequence in the batch, one number in a query, key or value.",
    ["n", "batch,d_k", "d_in,d_v"],
)


@check(weight=1, needs=[qkv_values])
def qkv_refuses(qkv, draw):
    """Raises `ValueError` when d_in of a matrix differs from d_in of `X`, even if it is 1."""
    n, d_in, d_k, d_v, other = draw.sizes(5)
    for at, name in enumerate(["W_q", "W_k", "W_v"]):
        for wrong in (other, 1):
            rows = [wrong if i == at else d_in for i in range(3)]
            matrices = [
                draw.array(row, width) for row, width in zip(rows, (d_k, d_k, d_v), strict=True)
            ]
            because = Message(
                "d_in is {d_in} in X and {wrong} in {name}", d_in=d_in, wrong=str(wrong), name=name
            )
            expect_raises([ValueError], qkv, draw.array(n, d_in), *matrices, because=because)


qkv_checks.dtype(
    "Returns Q, K and V in the dtype of the inputs: float32 gives float32, float16 gives float16."
)


qkv_checks.inputs("Does not change `X` or the three matrices.", batch=True)


# scores


scores_checks = StandardChecks(
    suite,
    "scores",
    dot_products,
    sizes="n_q n_k d_k",
    arguments={"Q": "... n_q d_k", "K": "... n_k d_k"},
    result="... n_q n_k",
)
scores_checks.shape("Returns an array of shape (n_q, n_k) for `Q` (n_q, d_k) and `K` (n_k, d_k).")


@check(weight=3, needs=["scores_shape"])
def scores_values(scores, draw):
    """Entry (i, j) of the result is the dot product of query i and key j, neither scaled nor normalized."""
    n_q, n_k, d_k = draw.sizes(3)
    expect_agrees(scores, dot_products, draw.array(n_q, d_k), draw.array(n_k, d_k))
    with told_by(lambda: REPEATED):
        expect_agrees(scores, dot_products, draw.array(n_q, d_k), draw.array(n_k, d_k))
    # All sizes equal, and queries and keys from 1e-4 to 1e4: each score is compared relative to its own size.
    sizes_q, sizes_k = draw.magnitudes(n_k)[:, None], draw.magnitudes(n_k)[:, None]
    Q, K = sizes_q * draw.array(n_k, n_k), sizes_k * draw.array(n_k, n_k)
    expect_agrees(scores, dot_products, Q, K, unit=sizes_q * sizes_k.T)
    for n_q, n_k in [(draw.long(), 3), (2, draw.long())]:
        Q, K = noncontiguous(draw.array(n_q, 4)), noncontiguous(draw.array(n_k, 4))
        expect_agrees(scores, dot_products, Q, K)


scores_checks.batch(
    "Keeps leading batch dimensions, one or several: queries meet only the keys of their own sequence."
)


scores_checks.ones(
    "Keeps dimensions of size 1: one query, one key, one number in each, one sequence in the batch.",
    ["n_q", "n_k", "d_k", "batch"],
)


scores_checks.refuses(
    "Raises `ValueError` when the inner dimensions (d_k) differ, even if one of them is 1.",
    {"d_k": "d_k is {left} and {right}"},
)


scores_checks.dtype("Keeps the dtype of its inputs: float32 gives float32, float16 gives float16.")


scores_checks.inputs("Does not change `Q` or `K`.")


# weighted_sum


weighted_sum_checks = StandardChecks(
    suite,
    "weighted_sum",
    mixture,
    sizes="n_q n_k d_v",
    arguments={"A": "... n_q n_k", "V": "... n_k d_v"},
    result="... n_q d_v",
    weights=["A"],
)
weighted_sum_checks.shape(
    "Returns an array of shape (n_q, d_v) for `A` (n_q, n_k) and `V` (n_k, d_v)."
)


@check(weight=3, needs=["weighted_sum_shape"])
def weighted_sum_values(weighted_sum, draw):
    """Row i of the result is the sum of the rows j of `V`, each times `A[i, j]`, with the weights unchanged."""
    n_q, n_k, d_v = draw.sizes(3)
    expect_agrees(weighted_sum, mixture, draw.weights(n_q, n_k), draw.array(n_k, d_v))
    with told_by(lambda: REPEATED):
        expect_agrees(weighted_sum, mixture, draw.weights(n_q, n_k), draw.array(n_k, d_v))
    # All sizes equal, and weights from 1e-6 to 1: the smaller the weight, the larger the value, so all matter.
    size = draw.magnitudes(n_k, orders=6) / 1000
    expect_agrees(
        weighted_sum, mixture, size * draw.array(n_k, n_k), draw.array(n_k, n_k) / size[:, None]
    )
    # These rows do not sum to 1, and the definition does not require it.
    for n_q, n_k in [(draw.long(), 3), (2, draw.long())]:
        A, V = noncontiguous(draw.array(n_q, n_k)), noncontiguous(draw.array(n_k, 4))
        expect_agrees(weighted_sum, mixture, A, V)


weighted_sum_checks.batch(
    "Keeps leading batch dimensions, one or several: weights mix only the values of their own sequence."
)


@check(weight=1, needs=[weighted_sum_values])
def weighted_sum_ones(weighted_sum, draw):
    """Keeps dimensions of size 1: one query, one value, one number in a value, one sequence in the batch."""
    n_q, n_k, d_v = draw.sizes(3)
    for A_shape, V_shape in [
        ((1, n_k), (n_k, d_v)),
        ((n_q, 1), (1, d_v)),
        ((n_q, n_k), (n_k, 1)),
        ((1, n_q, n_k), (1, n_k, d_v)),
    ]:
        A, V = draw.array(*A_shape), draw.array(*V_shape)
        expect_agrees(weighted_sum, mixture, A, V)


weighted_sum_checks.refuses(
    "Raises `ValueError` when the inner dimensions (n_k) differ, even if one of them is 1.",
    {"n_k": "n_k is {left} and {right}"},
)


weighted_sum_checks.dtype(
    "Keeps the dtype of its inputs: float32 gives float32, float16 gives float16."
)


@check(weight=0.5, needs=["weighted_sum_shape"])
def weighted_sum_inputs(weighted_sum, draw):
    """Does not change `A` or `V`."""
    # The result has their shape, and could be written into them; small weights could be set to 0 in them.
    (n,) = draw.sizes(1)
    expect_unchanged(
        weighted_sum,
        "AV",
        draw.magnitudes(n, orders=6) / 1000 * draw.weights(n, n),
        draw.array(n, n),
    )


# soft_lookup


def lookup(draw, *lead, n_q, n_k, d_k, d_v):
    """Return Q, K, V whose weights are neither even nor all on one key, so that a wrong softmax is visible."""
    Q = draw.array(*lead, n_q, d_k) * (1.2 / np.sqrt(d_k))
    return Q, draw.array(*lead, n_k, d_k), draw.array(*lead, n_k, d_v)


soft_lookup_checks = StandardChecks(
    suite,
    "soft_lookup",
    looked_up,
    sizes="n_q n_k d_k d_v",
    arguments={"Q": "... n_q d_k", "K": "... n_k d_k", "V": "... n_k d_v"},
    result="... n_q d_v",
    inputs=lookup,
)
soft_lookup_checks.shape(
    "Returns an array of shape (n_q, d_v) for `Q` (n_q, d_k), `K` (n_k, d_k) and `V` (n_k, d_v)."
)


@check(weight=3, needs=["soft_lookup_shape"])
def soft_lookup_values(soft_lookup, draw):
    """Row i of the result is the sum of the values, weighted by the softmax of query i's raw scores."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    expect_agrees(soft_lookup, looked_up, *lookup(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v))
    with told_by(lambda: REPEATED):
        expect_agrees(soft_lookup, looked_up, *lookup(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v))
    # All sizes equal, and weights from 1e-8 to 1: the smaller the weight, the larger the value, so all matter.
    Q, K, V = lookup(draw, n_q=n_k, n_k=n_k, d_k=n_k, d_v=n_k)
    size = draw.magnitudes(n_k)
    Q[:, 0], K[:, 0] = 1, np.log(size)
    expect_agrees(soft_lookup, looked_up, Q, K, V / size[:, None])
    for n_q, n_k in [(draw.long(), 3), (2, draw.long())]:
        Q, K, V = map(noncontiguous, lookup(draw, n_q=n_q, n_k=n_k, d_k=5, d_v=4))
        expect_agrees(soft_lookup, looked_up, Q, K, V)


soft_lookup_checks.batch(
    "Keeps leading batch dimensions, one or several, and looks up each sequence separately."
)


soft_lookup_checks.ones(
    "Keeps dimensions of size 1: one query, one key, d_k = 1, d_v = 1, one sequence in the batch.",
    ["n_q", "n_k", "d_k", "d_v", "batch"],
)


@check(weight=1, needs=[soft_lookup_values])
def soft_lookup_large(soft_lookup, draw):
    """Handles scores in the thousands, positive or negative: only the differences between them matter."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    # Whole numbers, so that float32 holds the scores exactly; the first number of each query shifts its scores.
    Q, K = (draw.rng.integers(-1, 2, size=(n, d_k)).astype(float) for n in (n_q, n_k))
    K[:, 0] = 1
    Q[:, 0] = np.where(np.arange(n_q) % 2, -2000, 2000)
    V = draw.array(n_k, d_v)
    expect_agrees(soft_lookup, looked_up, Q, K, V)
    # One key's scores are 2000 above the others', or below them.
    K[:, 0] = np.arange(n_k) == 1
    expect_agrees(soft_lookup, looked_up, Q, K, V)


soft_lookup_checks.refuses(
    "Raises `ValueError` when the values of d_k, or the numbers of keys and values, differ, even if one is 1.",
    {"d_k": "d_k is {left} and {right}", "n_k": "keys: {keys}, values: {values}"},
)


soft_lookup_checks.dtype(
    "Keeps the dtype of its inputs: float32 gives float32, float16 gives float16."
)


soft_lookup_checks.inputs("Does not change `Q`, `K` or `V`.")

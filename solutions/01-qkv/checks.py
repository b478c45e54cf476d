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
for other in (
    "specifications",
    "misconceptions",
):  # of another exercise, opened in the same process
    sys.modules.pop(other, None)
if not importlib.util.find_spec("checking"):
    raise ImportError(
        "checking.zip is missing next to checks.py. Unpack the exercise again, or run: make release"
    )

import numpy as np

from checking import (
    REPEATED,
    Message,
    Suite,
    expect_agrees,
    expect_array,
    expect_by_hand,
    expect_dtypes,
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


@check(weight=1)
def project_shape(project, draw):
    """Returns an array of shape (n, d_out) for `X` (n, d_in) and `W` (d_in, d_out)."""
    n, d_in, d_out = draw.sizes(3)
    expect_array(project(draw.array(n, d_in), draw.array(d_in, d_out)), (n, d_out))


@check(weight=3, needs=[project_shape])
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


@check(weight=1, needs=[project_values])
def project_ones(project, draw):
    """Keeps dimensions of size 1: one vector, one sequence in the batch, one number in a vector."""
    n, d_in, d_out = draw.sizes(3)
    for X_shape, W_shape in [
        ((1, d_in), (d_in, d_out)),
        ((n, 1), (1, d_out)),
        ((1, n, d_in), (d_in, 1)),
    ]:
        X, W = draw.array(*X_shape), draw.array(*W_shape)
        expect_agrees(project, projected, X, W)


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


@check(weight=0.5, needs=[project_shape])
def project_dtype(project, draw):
    """Keeps the dtype of its inputs: float32 gives float32, float16 gives float16."""
    n, d_in, d_out = draw.sizes(3)
    expect_dtypes(project, draw.array(n, d_in), draw.array(d_in, d_out))


@check(weight=0.5, needs=[project_shape])
def project_inputs(project, draw):
    """Does not change `X` or `W`."""
    # The result has the shape of X, and could be written into it.
    n, b = draw.sizes(2)
    expect_unchanged(project, "XW", draw.array(b, n, n), draw.array(n, n))


# qkv


def projections(draw, d_in, d_k, d_v):
    """Return W_q (d_in, d_k), W_k (d_in, d_k) and W_v (d_in, d_v)."""
    return [draw.array(d_in, width) for width in (d_k, d_k, d_v)]


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


@check(weight=1, needs=[qkv_values])
def qkv_ones(qkv, draw):
    """Keeps dimensions of size 1: one vector, one sequence in the batch, one number in a query, key or value."""
    n, d_in, d_k, d_v = draw.sizes(4)
    expect_agrees(
        qkv, each_projected, draw.array(1, d_in), *projections(draw, d_in, d_k, d_v), names="QKV"
    )
    expect_agrees(
        qkv, each_projected, draw.array(1, n, d_in), *projections(draw, d_in, 1, d_v), names="QKV"
    )
    expect_agrees(qkv, each_projected, draw.array(n, 1), *projections(draw, 1, d_k, 1), names="QKV")


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


@check(weight=0.5, needs=[qkv_shape])
def qkv_dtype(qkv, draw):
    """Returns Q, K and V in the dtype of the inputs: float32 gives float32, float16 gives float16."""
    n, d_in, d_k, d_v = draw.sizes(4)
    X, matrices = draw.array(n, d_in), projections(draw, d_in, d_k, d_v)
    expect_dtypes(qkv, X, *matrices, names="QKV")


@check(weight=0.5, needs=[qkv_shape])
def qkv_inputs(qkv, draw):
    """Does not change `X` or the three matrices."""
    # The results have the shape of X, and could be written into it.
    n, b = draw.sizes(2)
    expect_unchanged(
        qkv, ["X", "W_q", "W_k", "W_v"], draw.array(b, n, n), *projections(draw, n, n, n)
    )


# scores


@check(weight=1)
def scores_shape(scores, draw):
    """Returns an array of shape (n_q, n_k) for `Q` (n_q, d_k) and `K` (n_k, d_k)."""
    n_q, n_k, d_k = draw.sizes(3)
    expect_array(scores(draw.array(n_q, d_k), draw.array(n_k, d_k)), (n_q, n_k))


@check(weight=3, needs=[scores_shape])
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


@check(weight=2, needs=[scores_values])
def scores_batch(scores, draw):
    """Keeps leading batch dimensions, one or several: queries meet only the keys of their own sequence."""
    n_q, n_k, d_k, b = draw.sizes(4)
    for lead in [(b,), (2, b), (3, 2, 2)]:
        Q, K = draw.array(*lead, n_q, d_k), draw.array(*lead, n_k, d_k)
        expect_agrees(scores, dot_products, Q, K)


@check(weight=1, needs=[scores_values])
def scores_ones(scores, draw):
    """Keeps dimensions of size 1: one query, one key, one number in each, one sequence in the batch."""
    n_q, n_k, d_k = draw.sizes(3)
    for Q_shape, K_shape in [
        ((1, d_k), (n_k, d_k)),
        ((n_q, d_k), (1, d_k)),
        ((n_q, 1), (n_k, 1)),
        ((1, n_q, d_k), (1, n_k, d_k)),
    ]:
        Q, K = draw.array(*Q_shape), draw.array(*K_shape)
        expect_agrees(scores, dot_products, Q, K)


@check(weight=1, needs=[scores_values])
def scores_refuses(scores, draw):
    """Raises `ValueError` when the inner dimensions (d_k) differ, even if one of them is 1."""
    n_q, n_k, d_k, other = draw.sizes(4)
    for left, right in [(d_k, other), (d_k, 1), (1, d_k)]:
        Q, K = draw.array(n_q, left), draw.array(n_k, right)
        because = Message("d_k is {left} and {right}", left=left, right=right)
        expect_raises([ValueError], scores, Q, K, because=because)


@check(weight=0.5, needs=[scores_shape])
def scores_dtype(scores, draw):
    """Keeps the dtype of its inputs: float32 gives float32, float16 gives float16."""
    n_q, n_k, d_k = draw.sizes(3)
    expect_dtypes(scores, draw.array(n_q, d_k), draw.array(n_k, d_k))


@check(weight=0.5, needs=[scores_shape])
def scores_inputs(scores, draw):
    """Does not change `Q` or `K`."""
    # The result has their shape, and could be written into them.
    (n,) = draw.sizes(1)
    expect_unchanged(scores, "QK", draw.array(n, n), draw.array(n, n))


# weighted_sum


@check(weight=1)
def weighted_sum_shape(weighted_sum, draw):
    """Returns an array of shape (n_q, d_v) for `A` (n_q, n_k) and `V` (n_k, d_v)."""
    n_q, n_k, d_v = draw.sizes(3)
    expect_array(weighted_sum(draw.weights(n_q, n_k), draw.array(n_k, d_v)), (n_q, d_v))


@check(weight=3, needs=[weighted_sum_shape])
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


@check(weight=2, needs=[weighted_sum_values])
def weighted_sum_batch(weighted_sum, draw):
    """Keeps leading batch dimensions, one or several: weights mix only the values of their own sequence."""
    n_q, n_k, d_v, b = draw.sizes(4)
    for lead in [(b,), (2, b), (3, 2, 2)]:
        A, V = draw.weights(*lead, n_q, n_k), draw.array(*lead, n_k, d_v)
        expect_agrees(weighted_sum, mixture, A, V)


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


@check(weight=1, needs=[weighted_sum_values])
def weighted_sum_refuses(weighted_sum, draw):
    """Raises `ValueError` when the inner dimensions (n_k) differ, even if one of them is 1."""
    n_q, n_k, d_v, other = draw.sizes(4)
    for left, right in [(n_k, other), (n_k, 1), (1, n_k)]:
        A, V = draw.weights(n_q, left), draw.array(right, d_v)
        because = Message("n_k is {left} and {right}", left=left, right=right)
        expect_raises([ValueError], weighted_sum, A, V, because=because)


@check(weight=0.5, needs=[weighted_sum_shape])
def weighted_sum_dtype(weighted_sum, draw):
    """Keeps the dtype of its inputs: float32 gives float32, float16 gives float16."""
    n_q, n_k, d_v = draw.sizes(3)
    expect_dtypes(weighted_sum, draw.weights(n_q, n_k), draw.array(n_k, d_v))


@check(weight=0.5, needs=[weighted_sum_shape])
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


@check(weight=1)
def soft_lookup_shape(soft_lookup, draw):
    """Returns an array of shape (n_q, d_v) for `Q` (n_q, d_k), `K` (n_k, d_k) and `V` (n_k, d_v)."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    Q, K, V = lookup(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
    expect_array(soft_lookup(Q, K, V), (n_q, d_v))


@check(weight=3, needs=[soft_lookup_shape])
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


@check(weight=2, needs=[soft_lookup_values])
def soft_lookup_batch(soft_lookup, draw):
    """Keeps leading batch dimensions, one or several, and looks up each sequence separately."""
    n_q, n_k, d_k, d_v, b = draw.sizes(5)
    for lead in [(b,), (2, b), (3, 2, 2)]:
        Q, K, V = lookup(draw, *lead, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
        expect_agrees(soft_lookup, looked_up, Q, K, V)


@check(weight=1, needs=[soft_lookup_values])
def soft_lookup_ones(soft_lookup, draw):
    """Keeps dimensions of size 1: one query, one key, d_k = 1, d_v = 1, one sequence in the batch."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    for change in [{"n_q": 1}, {"n_k": 1}, {"d_k": 1}, {"d_v": 1}]:
        Q, K, V = lookup(draw, **({"n_q": n_q, "n_k": n_k, "d_k": d_k, "d_v": d_v} | change))
        expect_agrees(soft_lookup, looked_up, Q, K, V)
    Q, K, V = lookup(draw, 1, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
    expect_agrees(soft_lookup, looked_up, Q, K, V)


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


@check(weight=1, needs=[soft_lookup_values])
def soft_lookup_refuses(soft_lookup, draw):
    """Raises `ValueError` when the values of d_k, or the numbers of keys and values, differ, even if one is 1."""
    n_q, n_k, d_k, d_v, other = draw.sizes(5)
    for left, right in [(d_k, other), (d_k, 1), (1, d_k)]:
        Q, K, V = draw.array(n_q, left), draw.array(n_k, right), draw.array(n_k, d_v)
        because = Message("d_k is {left} and {right}", left=left, right=right)
        expect_raises([ValueError], soft_lookup, Q, K, V, because=because)
    for keys, values in [(n_k, other), (n_k, 1), (1, n_k)]:
        Q, K, V = draw.array(n_q, d_k), draw.array(keys, d_k), draw.array(values, d_v)
        because = Message("keys: {keys}, values: {values}", keys=keys, values=values)
        expect_raises([ValueError], soft_lookup, Q, K, V, because=because)


@check(weight=0.5, needs=[soft_lookup_shape])
def soft_lookup_dtype(soft_lookup, draw):
    """Keeps the dtype of its inputs: float32 gives float32, float16 gives float16."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    expect_dtypes(soft_lookup, *lookup(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v))


@check(weight=0.5, needs=[soft_lookup_shape])
def soft_lookup_inputs(soft_lookup, draw):
    """Does not change `Q`, `K` or `V`."""
    # The result has their shape, and could be written into them.
    (n,) = draw.sizes(1)
    expect_unchanged(soft_lookup, "QKV", *lookup(draw, n_q=n, n_k=n, d_k=n, d_v=n))

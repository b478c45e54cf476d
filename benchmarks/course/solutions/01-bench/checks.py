"""Checks of the exercise that the benchmark measures with: about five for each of six functions."""

import numpy as np

from checking import Suite, expect_array, expect_close, expect_raises, expect_unchanged

suite = Suite(__name__, read={})
check, run = suite.check, suite.run


# What is asked, as sums over elements.


def projected(X, W):
    return np.einsum("...ni,io->...no", X, W)


def scored(Q, K):
    return (Q[..., :, None, :] * K[..., None, :, :]).sum(-1) / np.sqrt(Q.shape[-1])


def shares(S):
    with np.errstate(over="ignore"):
        return 1 / np.exp(S[..., None, :] - S[..., :, None]).sum(-1)


def mixture(A, V):
    return (A[..., None] * V[..., None, :, :]).sum(-2)


def attended(Q, K, V):
    return mixture(shares(scored(Q, K)), V)


def attended_causally(Q, K, V):
    S = scored(Q, K)
    S[..., ~np.tri(*S.shape[-2:], dtype=bool)] = -1e9
    return mixture(shares(S), V)


def expect_agrees(function, specification, *arguments):
    expected = specification(*arguments)
    expect_close(function(*arguments), expected)


def triple(draw, *lead):
    n_q, n_k, d_k, d_v = draw.sizes(4)
    return 2 * draw.array(*lead, n_q, d_k), draw.array(*lead, n_k, d_k), draw.array(*lead, n_k, d_v)


# project


@check(weight=1)
def project_shape(project, draw):
    """`X` (n, d_in) and `W` (d_in, d_out) give an array of shape (n, d_out)."""
    n, d_in, d_out = draw.sizes(3)
    expect_array(project(draw.array(n, d_in), draw.array(d_in, d_out)), (n, d_out))


@check(weight=3, needs=["project_shape"])
def project_values(project, draw):
    """Entry (i, j) is row i of `X` times column j of `W`."""
    n, d_in, d_out = draw.sizes(3)
    expect_agrees(project, projected, draw.array(n, d_in), draw.array(d_in, d_out))


@check(weight=2, needs=["project_values"])
def project_batch(project, draw):
    """Leading axes, one or several, are kept."""
    n, d_in, d_out, b = draw.sizes(4)
    for lead in [(b,), (2, b)]:
        expect_agrees(project, projected, draw.array(*lead, n, d_in), draw.array(d_in, d_out))


@check(weight=1, needs=["project_values"])
def project_refuses(project, draw):
    """Two sizes d_in that differ raise `ValueError`."""
    n, d_in, d_out, other = draw.sizes(4)
    X, W = draw.array(n, d_in), draw.array(other, d_out)
    expect_raises([ValueError], project, X, W, because=f"d_in is {d_in} and {other}")


@check(weight=1, needs=["project_shape"])
def project_inputs(project, draw):
    """`X` and `W` are as they were after the call."""
    n, d_in, d_out = draw.sizes(3)
    expect_unchanged(project, "XW", draw.array(n, d_in), draw.array(d_in, d_out))


# scores


@check(weight=1)
def scores_shape(scores, draw):
    """`Q` (n_q, d_k) and `K` (n_k, d_k) give an array of shape (n_q, n_k)."""
    n_q, n_k, d_k = draw.sizes(3)
    expect_array(scores(draw.array(n_q, d_k), draw.array(n_k, d_k)), (n_q, n_k))


@check(weight=3, needs=["scores_shape"])
def scores_values(scores, draw):
    """Entry (i, j) is the dot product of query i and key j, divided by the root of d_k."""
    n_q, n_k, d_k = draw.sizes(3)
    expect_agrees(scores, scored, draw.array(n_q, d_k), draw.array(n_k, d_k))


@check(weight=2, needs=["scores_values"])
def scores_batch(scores, draw):
    """Leading axes, one or several, are kept."""
    n_q, n_k, d_k, b = draw.sizes(4)
    for lead in [(b,), (2, b)]:
        expect_agrees(scores, scored, draw.array(*lead, n_q, d_k), draw.array(*lead, n_k, d_k))


@check(weight=1, needs=["scores_values"])
def scores_ones(scores, draw):
    """Sizes of 1 stay axes."""
    n_q, n_k, d_k = draw.sizes(3)
    for left, right in [((1, d_k), (n_k, d_k)), ((n_q, d_k), (1, d_k)), ((n_q, 1), (n_k, 1))]:
        expect_agrees(scores, scored, draw.array(*left), draw.array(*right))


@check(weight=1, needs=["scores_shape"])
def scores_inputs(scores, draw):
    """`Q` and `K` are as they were after the call."""
    n_q, n_k, d_k = draw.sizes(3)
    expect_unchanged(scores, "QK", draw.array(n_q, d_k), draw.array(n_k, d_k))


# softmax


@check(weight=1)
def softmax_shape(softmax, draw):
    """The result has the shape of `S`."""
    n, m = draw.sizes(2)
    expect_array(softmax(draw.array(n, m)), (n, m))


@check(weight=3, needs=["softmax_shape"])
def softmax_values(softmax, draw):
    """Entry (i, j) is e to the score, divided by the sum of row i's."""
    n, m = draw.sizes(2)
    expect_agrees(softmax, shares, 2 * draw.array(n, m))


@check(weight=2, needs=["softmax_values"])
def softmax_batch(softmax, draw):
    """Leading axes, none or several, are kept."""
    n, m, b = draw.sizes(3)
    for shape in [(m,), (b, n, m), (2, b, n, m)]:
        expect_agrees(softmax, shares, 2 * draw.array(*shape))


@check(weight=1, needs=["softmax_values"])
def softmax_large(softmax, draw):
    """Scores in the thousands give the same weights as small ones with the same differences."""
    n, m = draw.sizes(2)
    expect_agrees(softmax, shares, draw.array(n, m) + np.where(np.arange(n) % 2, 2000.0, -2000.0)[:, None])


@check(weight=1, needs=["softmax_shape"])
def softmax_inputs(softmax, draw):
    """`S` is as it was after the call."""
    expect_unchanged(softmax, "S", draw.array(*draw.sizes(2)))


# weighted_sum


@check(weight=1)
def weighted_sum_shape(weighted_sum, draw):
    """`A` (n_q, n_k) and `V` (n_k, d_v) give an array of shape (n_q, d_v)."""
    n_q, n_k, d_v = draw.sizes(3)
    expect_array(weighted_sum(draw.weights(n_q, n_k), draw.array(n_k, d_v)), (n_q, d_v))


@check(weight=3, needs=["weighted_sum_shape"])
def weighted_sum_values(weighted_sum, draw):
    """Row i is every row j of `V` times `A[i, j]`, added up."""
    n_q, n_k, d_v = draw.sizes(3)
    expect_agrees(weighted_sum, mixture, draw.array(n_q, n_k), draw.array(n_k, d_v))


@check(weight=2, needs=["weighted_sum_values"])
def weighted_sum_batch(weighted_sum, draw):
    """Leading axes, one or several, are kept."""
    n_q, n_k, d_v, b = draw.sizes(4)
    for lead in [(b,), (2, b)]:
        expect_agrees(weighted_sum, mixture, draw.weights(*lead, n_q, n_k), draw.array(*lead, n_k, d_v))


@check(weight=1, needs=["weighted_sum_values"])
def weighted_sum_refuses(weighted_sum, draw):
    """Two sizes n_k that differ raise `ValueError`."""
    n_q, n_k, d_v, other = draw.sizes(4)
    A, V = draw.weights(n_q, n_k), draw.array(other, d_v)
    expect_raises([ValueError], weighted_sum, A, V, because=f"n_k is {n_k} and {other}")


@check(weight=1, needs=["weighted_sum_shape"])
def weighted_sum_inputs(weighted_sum, draw):
    """`A` and `V` are as they were after the call."""
    n_q, n_k, d_v = draw.sizes(3)
    expect_unchanged(weighted_sum, "AV", draw.weights(n_q, n_k), draw.array(n_k, d_v))


# attention


@check(weight=1)
def attention_shape(attention, draw):
    """The result has a row for each query, as wide as a value."""
    Q, K, V = triple(draw)
    expect_array(attention(Q, K, V), (Q.shape[0], V.shape[1]))


@check(weight=3, needs=["attention_shape"])
def attention_values(attention, draw):
    """Row i is the values, weighted by the softmax of query i's scaled scores."""
    expect_agrees(attention, attended, *triple(draw))


@check(weight=2, needs=["attention_values"])
def attention_batch(attention, draw):
    """Leading axes, one or several, are kept."""
    for lead in [(2,), (2, 3)]:
        expect_agrees(attention, attended, *triple(draw, *lead))


@check(weight=1, needs=["attention_values"])
def attention_large(attention, draw):
    """Scores in the thousands do not overflow."""
    Q, K, V = triple(draw)
    expect_agrees(attention, attended, 3000 * Q, K, V)


@check(weight=1, needs=["attention_shape"])
def attention_inputs(attention, draw):
    """`Q`, `K` and `V` are as they were after the call."""
    expect_unchanged(attention, "QKV", *triple(draw))


# torch_attention


def tensors(*arrays):
    import torch

    return [torch.from_numpy(array) for array in arrays]


@check(weight=1)
def torch_attention_shape(torch_attention, draw):
    """The result has a row for each query, as wide as a value."""
    Q, K, V = triple(draw)
    expect_array(torch_attention(*tensors(Q, K, V)), (Q.shape[0], V.shape[1]))


@check(weight=3, needs=["torch_attention_shape"])
def torch_attention_values(torch_attention, draw):
    """Row i is the values, weighted by the softmax of query i's scaled scores."""
    Q, K, V = triple(draw)
    expect_close(torch_attention(*tensors(Q, K, V)), attended(Q, K, V))


@check(weight=2, needs=["torch_attention_values"])
def torch_attention_batch(torch_attention, draw):
    """Leading axes, one or several, are kept."""
    for lead in [(2,), (2, 3)]:
        Q, K, V = triple(draw, *lead)
        expect_close(torch_attention(*tensors(Q, K, V)), attended(Q, K, V))


@check(weight=2, needs=["torch_attention_values"])
def torch_attention_causal(torch_attention, draw):
    """With `causal=True`, given as the fourth argument, query i sees the keys 0 to i alone."""
    n, d_k, d_v = draw.sizes(3)
    Q, K, V = draw.array(n, d_k), draw.array(n, d_k), draw.array(n, d_v)
    expect_close(torch_attention(*tensors(Q, K, V), True), attended_causally(Q, K, V))


@check(weight=1, needs=["torch_attention_shape"])
def torch_attention_dtype(torch_attention, draw):
    """float32 in, float32 out."""
    arrays = [array.astype(np.float32) for array in triple(draw)]
    expect_array(torch_attention(*tensors(*arrays)), dtype=np.float32)

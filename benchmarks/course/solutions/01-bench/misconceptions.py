"""Wrong answers, each with its hint: what a failing check is compared with."""

import numpy as np
import torch

from checking import misconception


def soft(S, axis=-1):
    E = np.exp(S - S.max(axis=axis, keepdims=True))
    return E / E.sum(axis=axis, keepdims=True)


def dots(Q, K):
    return Q @ np.swapaxes(K, -1, -2)


# project


@misconception("project", hint="`W` is turned over: `X @ W`, without `.T`.")
def project_with_turned_matrix(X, W):
    return X @ W.T


@misconception("project", hint="`*` multiplies entry by entry; a matrix product is `@`.")
def project_entrywise(X, W):
    return X * W


@misconception("project", hint="The matrix stands on the left; vectors are rows here: `X @ W`.")
def project_from_the_left(X, W):
    return W @ X


# scores


@misconception("scores", hint="The scores are not scaled: divide by the root of d_k.")
def scores_unscaled(Q, K):
    return dots(Q, K)


@misconception("scores", hint="The scale is d_k; it should be its root.")
def scores_divided_by_d(Q, K):
    return dots(Q, K) / Q.shape[-1]


@misconception("scores", hint="Rows and columns are exchanged: rows belong to queries.")
def scores_transposed(Q, K):
    return dots(K, Q) / np.sqrt(Q.shape[-1])


@misconception("scores", hint="`.T` turns all axes over; exchange the last two alone.")
def scores_all_axes_turned(Q, K):
    return Q @ K.T / np.sqrt(Q.shape[-1])


# softmax


@misconception("softmax", hint="The sum runs over the wrong axis: it should be the last.")
def softmax_over_first_axis(S):
    return soft(S, axis=0)


@misconception("softmax", hint="Large scores overflow: subtract each row's maximum first.")
def softmax_overflows(S):
    E = np.exp(S)
    return E / E.sum(axis=-1, keepdims=True)


@misconception("softmax", hint="The sum runs over everything: each row should sum to 1.")
def softmax_of_everything(S):
    E = np.exp(S - S.max())
    return E / E.sum()


# weighted_sum


@misconception("weighted_sum", hint="The weights are turned over: `A @ V`.")
def weighted_sum_turned(A, V):
    return np.swapaxes(A, -1, -2) @ V


@misconception("weighted_sum", hint="The weights are used as they are; nothing is to be divided by their sum.")
def weighted_sum_normalised(A, V):
    return (A / A.sum(axis=-1, keepdims=True)) @ V


@misconception("weighted_sum", hint="That is the mean of the values; each has a weight of its own.")
def weighted_sum_mean(A, V):
    return np.broadcast_to(V.mean(axis=-2, keepdims=True), (*A.shape[:-1], V.shape[-1]))


# attention


@misconception("attention", hint="The scores are not scaled: divide by the root of d_k.")
def attention_unscaled(Q, K, V):
    return soft(dots(Q, K)) @ V


@misconception("attention", hint="The softmax is missing: scores are not weights yet.")
def attention_without_softmax(Q, K, V):
    return dots(Q, K) / np.sqrt(Q.shape[-1]) @ V


@misconception("attention", hint="The softmax runs over the queries; it should run over the keys.")
def attention_over_queries(Q, K, V):
    return soft(dots(Q, K) / np.sqrt(Q.shape[-1]), axis=-2) @ V


# torch_attention


@misconception("torch_attention", hint="The scores are not scaled: divide by the root of d_k.")
def torch_attention_unscaled(Q, K, V, causal=False):
    return torch.softmax(Q @ K.transpose(-1, -2), -1) @ V


@misconception("torch_attention", hint="The mask is missing: with `causal=True` query i sees the keys 0 to i alone.")
def torch_attention_without_mask(Q, K, V, causal=False):
    return torch.softmax(Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5, -1) @ V


@misconception("torch_attention", hint="Masked scores of 0 still get weight: fill them with minus infinity.")
def torch_attention_masked_with_zero(Q, K, V, causal=False):
    S = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    return torch.softmax(S.tril() if causal else S, -1) @ V


@misconception("torch_attention", hint="The softmax runs over the queries; it should run over the keys.")
def torch_attention_over_queries(Q, K, V, causal=False):
    return torch.softmax(Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5, -2) @ V

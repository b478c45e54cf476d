"""Right answers that look different from ours; the tests run the checks on them. Students do not get this file."""

import numpy as np

from checking import right
from checking.answer_parts import fits, softmax, transposed
from misconceptions import attend

# by_hand


@right("by_hand")
def by_hand_as_a_tuple():
    return 8, 20


@right("by_hand")
def by_hand_as_a_row():
    return np.array([[8.0, 20.0]])


# project


@right("project")
def project_loops(X, W):
    fits(X.shape[-1], W.shape[0])
    result = np.zeros((*X.shape[:-1], W.shape[1]), dtype=X.dtype)
    for at in np.ndindex(*result.shape):
        result[at] = sum(X[at[:-1]][i] * W[i, at[-1]] for i in range(W.shape[0]))
    return result


@right("project")
def project_einsum(X, W):
    fits(X.shape[-1], W.shape[0])
    return np.einsum("...ij,jk->...ik", X, W)


@right("project")
def project_in_long_double(X, W):
    return (X.astype(np.longdouble) @ W.astype(np.longdouble)).astype(X.dtype)


@right("project")
def project_broadcast(X, W):
    assert W.ndim == 2
    if X.shape[-1] != W.shape[0]:
        raise ValueError("X and W disagree about d_in")
    return (X[..., None] * W).sum(axis=-2)


@right("project")
def project_torch(X, W):
    import torch

    fits(X.shape[-1], W.shape[0])
    return (torch.tensor(X) @ torch.tensor(W)).numpy()


# qkv


@right("qkv")
def qkv_one_product(X, W_q, W_k, W_v):
    d_k = W_q.shape[1]
    joined = X @ np.concatenate([W_q, W_k, W_v], axis=1)
    return joined[..., :d_k], joined[..., d_k : 2 * d_k], joined[..., 2 * d_k :]


@right("qkv")
def qkv_listed(X, W_q, W_k, W_v):
    return [np.matmul(X, W) for W in (W_q, W_k, W_v)]


@right("qkv")
def qkv_einsum(X, W_q, W_k, W_v):
    for W in (W_q, W_k, W_v):
        fits(X.shape[-1], len(W))
    return tuple(np.einsum("...i,io->...o", X, W) for W in (W_q, W_k, W_v))


@right("qkv")
def qkv_torch(X, W_q, W_k, W_v):
    return tuple(project_torch(X, W) for W in (W_q, W_k, W_v))


# scores


@right("scores")
def scores_loops(Q, K):
    fits(Q.shape[-1], K.shape[-1])
    S = np.empty((*Q.shape[:-1], K.shape[-2]), dtype=Q.dtype)
    for *lead, i, j in np.ndindex(*S.shape):
        S[(*lead, i, j)] = np.dot(Q[(*lead, i)], K[(*lead, j)])
    return S


@right("scores")
def scores_einsum(Q, K):
    fits(Q.shape[-1], K.shape[-1])
    return np.einsum("...qd,...kd->...qk", Q, K)


@right("scores")
def scores_transpose_of_swapped(Q, K):
    return (K @ Q.mT).mT


@right("scores")
def scores_broadcast(Q, K):
    fits(Q.shape[-1], K.shape[-1])
    return (Q[..., :, None, :] * K[..., None, :, :]).sum(-1)


@right("scores")
def scores_key_by_key(Q, K):
    return np.stack([(Q @ K[..., j, :, None])[..., 0] for j in range(K.shape[-2])], axis=-1)


@right("scores")
def scores_torch(Q, K):
    import torch

    fits(Q.shape[-1], K.shape[-1])
    return (torch.tensor(Q) @ torch.tensor(K).transpose(-1, -2)).numpy()


# weighted_sum


@right("weighted_sum")
def weighted_sum_loops(A, V):
    fits(A.shape[-1], V.shape[-2])
    Z = np.zeros((*A.shape[:-1], V.shape[-1]), dtype=V.dtype)
    for *lead, i, j in np.ndindex(*A.shape):
        Z[(*lead, i)] += A[(*lead, i, j)] * V[(*lead, j)]
    return Z


@right("weighted_sum")
def weighted_sum_einsum(A, V):
    fits(A.shape[-1], V.shape[-2])
    return np.einsum("...qk,...kd->...qd", A, V)


@right("weighted_sum")
def weighted_sum_broadcast(A, V):
    fits(A.shape[-1], V.shape[-2])
    return np.sum(A[..., :, :, np.newaxis] * V[..., np.newaxis, :, :], axis=-2)


@right("weighted_sum")
def weighted_sum_in_float32(A, V):
    return (A.astype(np.float32) @ V.astype(np.float32)).astype(A.dtype)


@right("weighted_sum")
def weighted_sum_turned_twice(A, V):
    return (V.mT @ A.mT).mT


@right("weighted_sum")
def weighted_sum_torch(A, V):
    import torch

    fits(A.shape[-1], V.shape[-2])
    return torch.matmul(torch.tensor(A), torch.tensor(V)).numpy()


# soft_lookup


@right("soft_lookup")
def soft_lookup_log_sum_exp(Q, K, V):
    S = Q @ transposed(K)
    top = S.max(-1, keepdims=True)
    return np.exp(S - top - np.log(np.exp(S - top).sum(-1, keepdims=True))) @ V


@right("soft_lookup")
def soft_lookup_einsum(Q, K, V):
    fits(Q.shape[-1], K.shape[-1])
    fits(K.shape[-2], V.shape[-2])
    return np.einsum("...qk,...kd->...qd", softmax(np.einsum("...qd,...kd->...qk", Q, K)), V)


@right("soft_lookup")
def soft_lookup_normalised_last(Q, K, V):
    S = np.matmul(Q, transposed(K))
    E = np.exp(S - S.max(-1)[..., None])
    return (E @ V) / E.sum(-1)[..., None]


@right("soft_lookup")
def soft_lookup_query_by_query(Q, K, V):
    fits(Q.shape[-1], K.shape[-1])
    fits(K.shape[-2], V.shape[-2])
    Z = np.zeros((*Q.shape[:-1], V.shape[-1]), dtype=Q.dtype)
    for *lead, i in np.ndindex(*Q.shape[:-1]):
        lead = tuple(lead)
        a = softmax(np.array([Q[lead][i] @ k for k in K[lead]]))
        Z[lead][i] = sum(weight * v for weight, v in zip(a, V[lead], strict=True))
    return Z


@right("soft_lookup")
def soft_lookup_in_float32(Q, K, V):
    return attend(*(array.astype(np.float32) for array in (Q, K, V))).astype(Q.dtype)


@right("soft_lookup")
def soft_lookup_torch(Q, K, V):
    import torch

    fits(Q.shape[-1], K.shape[-1])
    fits(K.shape[-2], V.shape[-2])
    Q, K, V = torch.tensor(Q), torch.tensor(K), torch.tensor(V)
    return torch.nn.functional.scaled_dot_product_attention(Q, K, V, scale=1.0).numpy()

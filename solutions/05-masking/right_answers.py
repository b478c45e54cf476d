"""Right answers that look different from ours; the tests run the checks on them. Students do not get them.

Some allow any broadcasting, and fail only advice: these also earn all points.
"""

import numpy as np

from checking import right
from checking.answer_parts import fits, scaled, softmax, transposed
from misconceptions import attend, every, hidden, share

# by_hand


@right("by_hand")
def by_hand_decimals():
    return (1, 0, 0), (0.67, 0.33, 0), (0.5, 0.33, 0.17)


@right("by_hand")
def by_hand_as_an_array():
    E = np.tril([[1.0, 2, 3], [2, 1, 3], [3, 2, 1]])
    return E / E.sum(axis=1, keepdims=True)


# causal_mask


@right("causal_mask")
def causal_mask_loops(n_q, n_k):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        for j in range(n_k):
            mask[i, j] = j <= i + n_k - n_q
    return mask


@right("causal_mask")
def causal_mask_tri(n_q, n_k):
    return np.tri(n_q, n_k, n_k - n_q, dtype=bool)


@right("causal_mask")
def causal_mask_last_rows(n_q, n_k):
    n = max(n_q, n_k)
    return np.tril(np.ones((n, n))).astype(bool)[n - n_q :, n - n_k :]


@right("causal_mask")
def causal_mask_turned_round(n_q, n_k):
    return np.triu(np.ones((n_q, n_k), dtype=bool))[::-1, ::-1]


# padding_mask


@right("padding_mask")
def padding_mask_loops(lengths, n):
    mask = np.zeros((len(lengths), 1, n), dtype=bool)
    for s, length in enumerate(lengths):
        if length > n:
            raise ValueError(f"sequence {s} is too long")
        mask[s, 0, :length] = True
    return mask


@right("padding_mask")
def padding_mask_outer(lengths, n):
    return np.greater.outer(lengths, np.arange(n)).reshape(-1, 1, n)


@right("padding_mask")
def padding_mask_rows_of_a_triangle(lengths, n):
    if max(lengths.tolist()) > n:
        raise ValueError("too long")
    return np.tri(n + 1, n, -1, dtype=bool)[lengths][:, None]


# masked_softmax


@right("masked_softmax")
def masked_softmax_row_by_row(S, mask):
    A, mask = np.zeros_like(S), np.broadcast_to(mask, S.shape)
    for row in np.ndindex(*S.shape[:-1]):
        allowed = S[row][mask[row]]
        if len(allowed):
            A[row][mask[row]] = softmax(allowed)
    return A


@right("masked_softmax")
def masked_softmax_nan_to_num(S, mask):
    return np.nan_to_num(softmax(np.where(mask, S, S.dtype.type(-np.inf))))


@right("masked_softmax")
def masked_softmax_lowest_number_then_zero(S, mask):
    return softmax(hidden(S, mask, fill=np.finfo(S.dtype).min)) * np.broadcast_to(mask, S.shape)


@right("masked_softmax")
def masked_softmax_where_arguments(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    largest = S.max(axis=-1, keepdims=True, where=mask, initial=np.finfo(S.dtype).min)
    E = np.exp(S - largest, where=mask, out=np.zeros_like(S))
    return np.divide(E, E.sum(axis=-1, keepdims=True), where=mask, out=np.zeros_like(S))


@right("masked_softmax")
def masked_softmax_at_least_one(S, mask):
    S = hidden(S, mask)
    E = np.exp(S - np.nan_to_num(S.max(axis=-1, keepdims=True)))
    return E / np.maximum(E.sum(axis=-1, keepdims=True), 1)  # the largest in a row is e^0 = 1


@right("masked_softmax")
def masked_softmax_log_sum_exp(S, mask):
    S, some = hidden(S, mask), np.broadcast_to(mask, S.shape).any(axis=-1, keepdims=True)
    S = np.where(some, S, S.dtype.type(0))
    largest = S.max(axis=-1, keepdims=True)
    return np.exp(S - largest - np.log(np.exp(S - largest).sum(axis=-1, keepdims=True))) * some


@right("masked_softmax")
def masked_softmax_in_float32(S, mask):
    return share(S.astype(np.float32), mask).astype(S.dtype)


@right("masked_softmax")
def masked_softmax_tiny_number_in_float64(S, mask):
    S, dtype = hidden(S.astype(np.float64), mask), S.dtype
    E = np.exp(S - np.nan_to_num(S.max(axis=-1, keepdims=True)))
    return (E / (E.sum(axis=-1, keepdims=True) + 1e-9)).astype(dtype)


@right("masked_softmax")
def masked_softmax_torch(S, mask):
    import torch

    mask = np.array(np.broadcast_to(mask, S.shape))
    return (
        torch.tensor(S)
        .masked_fill(torch.tensor(~mask), -torch.inf)
        .softmax(-1)
        .nan_to_num(0.0)
        .numpy()
    )


# masked_attention


@right("masked_attention")
def masked_attention_einsum(Q, K, V, mask=None):
    S = np.einsum("...qd,...kd->...qk", Q, K) / Q.shape[-1] ** 0.5
    A = share(S, True if mask is None else mask)
    return np.einsum("...qk,...kd->...qd", A, V), A


@right("masked_attention")
def masked_attention_query_by_query(Q, K, V, mask=None):
    fits(Q.shape[-1], K.shape[-1], "d_k")
    fits(K.shape[-2], V.shape[-2], "number of keys and values")
    A = np.zeros((*Q.shape[:-1], K.shape[-2]), dtype=Q.dtype)
    Z = np.zeros((*Q.shape[:-1], V.shape[-1]), dtype=Q.dtype)
    mask = np.broadcast_to(True if mask is None else mask, A.shape)
    for *lead, i in np.ndindex(*Q.shape[:-1]):
        lead = tuple(lead)
        seen = np.flatnonzero(mask[lead][i])
        if len(seen):
            a = softmax(
                np.array(
                    [Q[lead][i] @ K[lead][j] / Q.shape[-1] ** 0.5 for j in seen], dtype=Q.dtype
                )
            )
            A[lead][i, seen] = a
            Z[lead][i] = a @ V[lead][seen]
    return Z, A


@right("masked_attention")
def masked_attention_scaled_queries(Q, K, V, mask=None):
    root = Q.shape[-1] ** 0.25
    S = (Q / root) @ transposed(K / root)
    A = np.nan_to_num(softmax(hidden(S, True if mask is None else mask)))
    return np.matmul(A, V), A


@right("masked_attention")
def masked_attention_normalised_last(Q, K, V, mask=None):
    S = scaled(Q, K)
    S = hidden(S, every(S) if mask is None else mask)
    E = np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min))
    total = np.maximum(E.sum(axis=-1, keepdims=True), 1)
    return (E @ V) / total, E / total


@right("masked_attention")
def masked_attention_keys_in_rows(Q, K, V, mask=None):
    S = K @ transposed(Q) / Q.shape[-1] ** 0.5  # (..., n_k, n_q)
    A = transposed(share(transposed(S), every(transposed(S)) if mask is None else mask))
    return transposed(transposed(V) @ A), transposed(A)


@right("masked_attention")
def masked_attention_in_float32(Q, K, V, mask=None):
    return tuple(
        part.astype(Q.dtype) for part in attend(*(X.astype(np.float32) for X in (Q, K, V)), mask)
    )


@right("masked_attention")
def masked_attention_torch(Q, K, V, mask=None):
    import torch

    fits(Q.shape[-1], K.shape[-1], "d_k")
    fits(K.shape[-2], V.shape[-2], "number of keys and values")
    shape = (*Q.shape[:-1], K.shape[-2])
    mask = torch.tensor(np.array(np.broadcast_to(True if mask is None else mask, shape)))
    Q, K, V = torch.tensor(Q), torch.tensor(K), torch.tensor(V)
    one_each = torch.eye(K.shape[-2], dtype=K.dtype).expand(
        *K.shape[:-2], -1, -1
    )  # the values that show the weights
    attention = torch.nn.functional.scaled_dot_product_attention
    return tuple(
        attention(Q, K, values, attn_mask=mask).nan_to_num(0.0).numpy() for values in (V, one_each)
    )

"""Answers to notebook 5, masking."""

# %% right causal_mask: np.tri with an offset
def causal_mask(n_q, n_k):
    return np.tri(n_q, n_k, k=n_k - n_q, dtype=bool)

# %% right causal_mask: distances from the end, compared
def causal_mask(n_q, n_k):
    query_from_end = np.arange(n_q, 0, -1)
    key_from_end = np.arange(n_k, 0, -1)
    return np.greater_equal.outer(key_from_end, query_from_end).T

# %% right causal_mask: from a function of the indices
def causal_mask(n_q, n_k):
    def allowed(i, j):
        return ~(j - n_k > i - n_q)

    return np.fromfunction(allowed, (n_q, n_k), dtype=int)

# %% wrong causal_mask: counted from the start
def causal_mask(n_q, n_k):
    return np.tril(np.ones((n_q, n_k), dtype=bool))

# %% wrong causal_mask: True where a key is hidden
def causal_mask(n_q, n_k):
    return np.triu(np.ones((n_q, n_k), dtype=bool), k=n_k - n_q + 1)

# %% wrong causal_mask: a query may not attend to itself
def causal_mask(n_q, n_k):
    i = np.arange(n_q)[:, None]
    j = np.arange(n_k)[None, :]
    return j < i + n_k - n_q

# %% wrong causal_mask: a table of 0 and -inf to be added to the scores
def causal_mask(n_q, n_k):
    hidden = np.arange(n_k) > np.arange(n_q)[:, None] + n_k - n_q
    return np.where(hidden, -np.inf, 0.0)

# %% wrong causal_mask: ones and zeros of floating dtype
def causal_mask(n_q, n_k):
    return np.tril(np.ones((n_q, n_k)), k=n_k - n_q)

# %% wrong causal_mask: the difference of the sizes has the wrong sign
def causal_mask(n_q, n_k):
    i = np.arange(n_q)[:, None]
    j = np.arange(n_k)
    return j <= i + n_q - n_k

# %% wrong causal_mask: with more queries than keys it counts from the start again
def causal_mask(n_q, n_k):
    earlier = max(n_k - n_q, 0)
    return np.tril(np.ones((n_q, n_k), dtype=bool), k=earlier)

# %% wrong causal_mask: the last rows of a square, which has too few rows for more queries than keys
def causal_mask(n_q, n_k):
    square = np.tril(np.ones((n_k, n_k), dtype=bool))
    return square[max(n_k - n_q, 0) :]

# %% wrong causal_mask: the first key is opened for all, so that no row stays empty
def causal_mask(n_q, n_k):
    mask = np.tril(np.ones((n_q, n_k), dtype=bool), k=n_k - n_q)
    mask[:, 0] = True
    return mask

# %% wrong causal_mask: one key too many, the next token
def causal_mask(n_q, n_k):
    mask = np.zeros((n_q, n_k), dtype=bool)
    for i in range(n_q):
        mask[i, : max(i + n_k - n_q + 2, 0)] = True
    return mask

# %% right padding_mask: slices in a loop
def padding_mask(lengths, n):
    mask = np.zeros((len(lengths), 1, n), dtype=bool)
    for s, length in enumerate(lengths):
        if length > n:
            raise ValueError(f"sequence {s} has {length} tokens, more than {n}")
        mask[s, :, :length] = True
    return mask

# %% right padding_mask: rows of a triangle, picked out by length
def padding_mask(lengths, n):
    lengths = np.asarray(lengths)
    if lengths.max() > n:
        raise ValueError("a length is above n")
    triangle = np.tri(n + 1, n, k=-1, dtype=bool)
    return triangle[lengths][:, np.newaxis]

# %% right padding_mask: an outer comparison, reshaped
def padding_mask(lengths, n):
    lengths = np.array(lengths)
    if (lengths > n).any():
        raise ValueError("n is too small")
    return np.greater.outer(lengths, np.arange(n)).reshape(-1, 1, n)

# %% wrong padding_mask: True on the padding
def padding_mask(lengths, n):
    return (np.arange(n) >= np.asarray(lengths)[:, None])[:, None, :]

# %% wrong padding_mask: one token too many
def padding_mask(lengths, n):
    return (np.arange(n) <= lengths[:, None])[:, None, :]

# %% wrong padding_mask: no axis for the queries
def padding_mask(lengths, n):
    return np.arange(n) < np.asarray(lengths)[:, None]

# %% wrong padding_mask: as wide as the longest sequence instead of n
def padding_mask(lengths, n):
    longest = int(np.max(lengths))
    return np.arange(longest)[None, None, :] < lengths[:, None, None]

# %% wrong padding_mask: square, hides the padded queries as well
def padding_mask(lengths, n):
    real = np.arange(n)[None, :] < lengths[:, None]
    return real[:, :, None] & real[:, None, :]

# %% wrong padding_mask: numbers instead of truth values
def padding_mask(lengths, n):
    mask = np.zeros((len(lengths), 1, n))
    for s, length in enumerate(lengths):
        mask[s, 0, :length] = 1
    return mask

# %% wrong padding_mask: the padding is taken to stand in front
def padding_mask(lengths, n):
    lengths = np.asarray(lengths)
    return np.arange(n) >= n - lengths[:, None, None]

# %% wrong padding_mask: without padding the slice from -0 hides the whole sequence
def padding_mask(lengths, n):
    mask = np.ones((len(lengths), 1, n), dtype=bool)
    for s, length in enumerate(lengths):
        padding = n - length
        mask[s, 0, -padding:] = False
    return mask

# %% wrong padding_mask: an empty sequence keeps its first token
def padding_mask(lengths, n):
    lengths = np.maximum(lengths, 1)
    return np.arange(n)[None, None, :] < lengths[:, None, None]

# %% wrong padding_mask: subtracts 1 from the caller's lengths
def padding_mask(lengths, n):
    lengths -= 1
    return np.arange(n) <= lengths[:, None, None]

# %% right masked_softmax: reductions and division with where arguments
def masked_softmax(S, mask):
    M = np.broadcast_to(mask, S.shape)
    lowest = np.finfo(S.dtype).min
    highest = np.max(S, axis=-1, keepdims=True, where=M, initial=lowest)
    shifted = np.subtract(S, highest, out=np.zeros_like(S), where=M)
    E = np.exp(shifted, out=np.zeros_like(S), where=M)
    total = E.sum(axis=-1, keepdims=True)
    return np.divide(E, total, out=np.zeros_like(S), where=M)

# %% right masked_softmax: row by row over the chosen scores alone
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    A = np.zeros(S.shape, dtype=S.dtype)
    for place in np.ndindex(*S.shape[:-1]):
        chosen = mask[place]
        if chosen.any():
            s = S[place][chosen]
            e = np.exp(s - s.max())
            A[place][chosen] = e / e.sum()
    return A

# %% right masked_softmax: -inf for hidden keys, and an empty row gets 0 for its maximum and 1 for its sum
def masked_softmax(S, mask):
    allowed = np.logical_and(mask, np.ones(S.shape, dtype=bool))
    if allowed.shape != S.shape:
        raise ValueError("the mask is larger than the scores")
    some = allowed.any(axis=-1, keepdims=True)
    T = np.where(allowed, S, S.dtype.type(-np.inf))
    highest = np.where(some, T.max(axis=-1, keepdims=True), S.dtype.type(0))
    E = np.exp(T - highest)
    return E / (E.sum(axis=-1, keepdims=True) + ~some)

# %% wrong masked_softmax: a row that may attend to nothing becomes NaN
def masked_softmax(S, mask):
    S = np.where(mask, S, -np.inf)
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong masked_softmax: -1e9 stands for hidden, above scores around -1e10
def masked_softmax(S, mask):
    S = np.where(mask, S, -1e9)
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    A = E / E.sum(axis=-1, keepdims=True)
    return A * np.any(mask, axis=-1, keepdims=True)

# %% wrong masked_softmax: softmax over all keys, and the hidden weights set to 0 afterwards
def masked_softmax(S, mask):
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    A = E / E.sum(axis=-1, keepdims=True)
    return np.where(mask, A, 0)

# %% wrong masked_softmax: writes -inf into the caller's scores
def masked_softmax(S, mask):
    S[~np.broadcast_to(mask, S.shape)] = -np.inf
    highest = S.max(axis=-1, keepdims=True)
    E = np.exp(S - np.where(np.isfinite(highest), highest, 0))
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total > 0, total, 1)

# %% wrong masked_softmax: the maximum is taken over hidden scores too, and NaN times 0 is NaN
def masked_softmax(S, mask):
    E = np.exp(S - S.max(axis=-1, keepdims=True)) * mask
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total == 0, 1, total)

# %% wrong masked_softmax: a small number below the line, which is 0 in float16
def masked_softmax(S, mask):
    S = np.where(mask, S, -np.inf)
    highest = S.max(axis=-1, keepdims=True)
    highest = np.where(highest == -np.inf, 0, highest)
    E = np.exp(S - highest)
    return E / (E.sum(axis=-1, keepdims=True) + 1e-9)

# %% wrong masked_softmax: thinks of an empty mask only, not of an empty row in another
def masked_softmax(S, mask):
    if not mask.any():
        np.broadcast_to(mask, S.shape)
        return np.zeros_like(S)
    S = np.where(mask, S, -np.inf)
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong masked_softmax: indexing with the mask, which then needs the shape of the scores
def masked_softmax(S, mask):
    T = np.full_like(S, -np.inf)
    T[mask] = S[mask]
    highest = T.max(axis=-1, keepdims=True)
    E = np.exp(T - np.where(highest == -np.inf, 0, highest))
    total = E.sum(axis=-1, keepdims=True)
    return np.divide(E, total, out=np.zeros_like(E), where=total > 0)

# %% wrong masked_softmax: exponentials of the scores as they are, without a maximum taken off
def masked_softmax(S, mask):
    E = np.exp(np.where(mask, S, -np.inf))
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total == 0, 1, total)

# %% wrong masked_softmax: one maximum for all rows, and rows far below it lose all their weight
def masked_softmax(S, mask):
    T = np.where(mask, S, -np.inf)
    highest = T.max()
    if highest == -np.inf:
        return np.zeros_like(S)
    E = np.exp(T - highest)
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total == 0, 1, total)

# %% right masked_attention: a mask of one truth value for none, and matmul
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    A = masked_softmax(S, np.array([True]) if mask is None else mask)
    Z = np.matmul(A, V)
    return Z, A

# %% right masked_attention: einsum, and a list
def masked_attention(Q, K, V, mask=None):
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError("sizes differ")
    S = np.einsum("...qc,...kc->...qk", Q, K) * Q.shape[-1] ** -0.5
    if mask is None:
        mask = np.full(S.shape, True)
    A = masked_softmax(S, mask)
    return [np.einsum("...qk,...kd->...qd", A, V), A]

# %% right masked_attention: without masked_softmax, exponentials of allowed scores alone
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    open_ = np.broadcast_to(True if mask is None else mask, S.shape)
    highest = np.where(open_, S, np.finfo(S.dtype).min).max(axis=-1, keepdims=True)
    E = np.zeros_like(S)
    E[open_] = np.exp((S - highest)[open_])
    total = E.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    A = E / total
    return A @ V, A

# %% wrong masked_attention: a missing mask goes on to softmax as None, where it hides every key
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    mask = np.asarray(mask, dtype=bool)
    A = masked_softmax(S, mask)
    return A @ V, A

# %% wrong masked_attention: the given scores are scaled a second time
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K) / math.sqrt(Q.shape[-1])
    if mask is None:
        mask = np.ones((1, 1), dtype=bool)
    A = masked_softmax(S, mask)
    return A @ V, A

# %% wrong masked_attention: returns the weights first
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    if mask is None:
        mask = np.ones(S.shape, dtype=bool)
    A = masked_softmax(S, mask)
    return A, A @ V

# %% wrong masked_attention: the weights are hidden after an ordinary softmax and not shared out anew
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    A = masked_softmax(S, np.ones(S.shape[-2:], dtype=bool))
    if mask is not None:
        A = np.where(mask, A, 0)
    return A @ V, A

# %% wrong masked_attention: asks an array for its truth
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    mask = mask or np.ones(S.shape, dtype=bool)
    A = masked_softmax(S, mask)
    return A @ V, A

# %% wrong masked_attention: without a mask it makes a square one, as wide as there are queries
def masked_attention(Q, K, V, mask=None):
    n = Q.shape[-2]
    if mask is None:
        mask = np.ones((n, n), dtype=bool)
    A = masked_softmax(scaled_scores(Q, K), mask)
    return A @ V, A

# %% wrong masked_attention: an own softmax with -inf, in which an empty row becomes NaN
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    if mask is not None:
        S = np.where(mask, S, -np.inf)
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    A = E / E.sum(axis=-1, keepdims=True)
    return A @ V, A

# %% wrong masked_attention: True is read as hidden, as nn.MultiheadAttention does
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    if mask is None:
        mask = np.zeros(S.shape, dtype=bool)
    A = masked_softmax(S, ~mask)
    return A @ V, A

# %% wrong masked_attention: rows that may attend to nothing are opened, in the caller's mask
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    if mask is None:
        mask = np.ones((1, S.shape[-1]), dtype=bool)
    mask[~mask.any(axis=-1)] = True
    A = masked_softmax(S, mask)
    return A @ V, A

# %% wrong masked_attention: a missing mask is taken for a causal one
def masked_attention(Q, K, V, mask=None):
    if mask is None:
        mask = causal_mask(Q.shape[-2], K.shape[-2])
    A = masked_softmax(scaled_scores(Q, K), mask)
    return A @ V, A

# %% wrong masked_softmax: the maximum is never below 0
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    S = np.where(mask, S, -np.inf)
    largest = np.maximum(S.max(axis=-1, keepdims=True), 0)
    E = np.exp(S - largest)
    total = E.sum(axis=-1, keepdims=True)
    return (E / np.where(total > 0, total, 1)).astype(S.dtype)

# %% wrong masked_softmax: the maximum is never below -50000
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    S = np.where(mask, S, -np.inf)
    largest = np.maximum(S.max(axis=-1, keepdims=True), np.array(-5e4, S.dtype))
    E = np.exp(S - largest)
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total > 0, total, 1)

# %% wrong masked_softmax: the maximum is never below -1e9
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    S = np.where(mask, S, -np.inf)
    largest = np.maximum(S.max(axis=-1, keepdims=True), -1e9)
    E = np.exp(S - largest)
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total > 0, total, 1)

# %% wrong masked_softmax: -10000 instead of -inf, without zeros
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    S = np.where(mask, S, np.array(-10000, S.dtype))
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong masked_softmax: without a visible key the mask is replaced by ones
def masked_softmax(S, mask):
    if not mask.any():
        mask = np.ones_like(mask)
    S = np.where(np.broadcast_to(mask, S.shape), S, -np.inf)
    largest = S.max(axis=-1, keepdims=True)
    largest = np.where(np.isneginf(largest), 0, largest).astype(S.dtype)
    E = np.exp(S - largest)
    total = E.sum(axis=-1, keepdims=True)
    return (E / np.where(total == 0, 1, total)).astype(S.dtype)

# %% wrong masked_softmax: scores of fully masked rows become 0 before the softmax
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    S = np.where(mask, S, np.array(-np.inf, S.dtype))
    S = np.where(mask.any(axis=-1, keepdims=True), S, np.array(0, S.dtype))
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong masked_softmax: fully masked rows get 1 / n_k
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    S = np.where(mask, S, np.array(-np.inf, S.dtype))
    largest = np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min)
    E = np.exp(S - largest)
    E = np.where(mask.any(axis=-1, keepdims=True), E, np.array(1, S.dtype))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong masked_softmax: nan_to_num of the scores, fully masked rows forgotten
def masked_softmax(S, mask):
    S = np.nan_to_num(S) + np.where(np.broadcast_to(mask, S.shape), 0, -np.inf).astype(S.dtype)
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong masked_softmax: 0 / 0 in fully masked rows, although the maximum is guarded
def masked_softmax(S, mask):
    S = np.where(np.broadcast_to(mask, S.shape), S, np.array(-np.inf, S.dtype))
    largest = S.max(axis=-1, keepdims=True)
    largest[np.isneginf(largest)] = 0
    E = np.exp(S - largest)
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong masked_softmax: the maximum of all scores, guarded sum
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    E = np.where(mask, np.exp(S - S.max(axis=-1, keepdims=True)), np.array(0, S.dtype))
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total == 0, np.array(1, S.dtype), total)

# %% wrong masked_softmax: rows without a visible key are opened in the caller's mask
def masked_softmax(S, mask):
    full = np.array(np.broadcast_to(mask, S.shape))
    empty = ~full.any(axis=-1, keepdims=True)
    if mask.shape == S.shape:
        mask |= empty
    S = np.where(full, S, np.array(-np.inf, S.dtype))
    largest = np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min)
    E = np.exp(S - largest)
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total == 0, np.array(1, S.dtype), total)

# %% wrong masked_softmax: nan_to_num writes into the caller's scores
def masked_softmax(S, mask):
    if S.flags.writeable:
        np.nan_to_num(S, copy=False)
    S = np.where(np.broadcast_to(mask, S.shape), S, np.array(-np.inf, S.dtype))
    largest = np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min)
    E = np.exp(S - largest)
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total == 0, np.array(1, S.dtype), total)

# %% wrong masked_attention: a mask without a visible key counts as no mask
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    if mask is None or not mask.any():
        mask = np.ones(S.shape, dtype=bool)
    A = masked_softmax(S, mask)
    return A @ V, A

# %% wrong masked_attention: the default argument keeps the last mask of a shape
def masked_attention(Q, K, V, mask=None, last={}):
    S = scaled_scores(Q, K)
    if mask is None:
        mask = last.get(S.shape, np.ones(S.shape, dtype=bool))
    else:
        last[S.shape] = mask
    A = masked_softmax(S, mask)
    return A @ V, A

# %% wrong masked_attention: keeps the first mask of a shape
def masked_attention(Q, K, V, mask=None, first={}):
    S = scaled_scores(Q, K)
    if mask is None:
        mask = np.ones(S.shape, dtype=bool)
    else:
        mask = first.setdefault(S.shape, mask)
    A = masked_softmax(S, mask)
    return A @ V, A

# %% wrong padding_mask: kept by the number of sequences and tokens
known = {}
def padding_mask(lengths, n):
    lengths = np.asarray(lengths)
    if lengths.max() > n:
        raise ValueError("too long")
    key = len(lengths), n
    if key not in known:
        known[key] = np.arange(n) < lengths[:, None, None]
    return known[key]

# %% wrong causal_mask: counts from the beginning, right for as many queries as keys
def causal_mask(n_q, n_k):
    return np.tri(n_q, n_k, dtype=bool)

# %% wrong causal_mask: does not shift back when there are more queries than keys
def causal_mask(n_q, n_k):
    earlier = max(n_k - n_q, 0)
    i = np.arange(n_q).reshape(-1, 1)
    return np.arange(n_k) <= i + earlier

# %% right causal_mask: numbers queries and keys from the last one
def causal_mask(n_q, n_k):
    query_age = np.arange(n_q)[::-1]
    key_age = np.arange(n_k)[::-1]
    return np.greater_equal.outer(key_age, query_age).T

# %% wrong padding_mask: cuts the padding off with a negative slice, which is everything for -0
def padding_mask(lengths, n):
    mask = np.ones((len(lengths), 1, n), dtype=bool)
    for s, length in enumerate(lengths):
        mask[s, 0, -(n - length) :] = False
    return mask

# %% right padding_mask: picks rows of a triangle
def padding_mask(lengths, n):
    if (np.asarray(lengths) > n).any():
        raise ValueError("a sequence is longer than n")
    triangle = np.tri(n + 1, n, -1, dtype=bool)  # row l has l times True
    return triangle[lengths][:, np.newaxis]

# %% wrong masked_softmax: subtracts the largest of all scores, the masked ones included
def masked_softmax(S, mask):
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    E = np.where(mask, E, 0).astype(S.dtype)
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total == 0, 1, total).astype(S.dtype)

# %% wrong masked_softmax: masked scores become -1e9, which is larger than some visible scores
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    low = np.where(mask, S, -1e9).astype(S.dtype)
    E = np.exp(low - low.max(axis=-1, keepdims=True))
    A = E / E.sum(axis=-1, keepdims=True)
    return np.where(mask.any(axis=-1, keepdims=True), A, 0).astype(S.dtype)

# %% right masked_softmax: row by row, with only the visible scores in hand
def masked_softmax(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    A = np.zeros_like(S)
    for row in np.ndindex(S.shape[:-1]):
        seen = mask[row]
        if seen.any():
            e = np.exp(S[row][seen] - S[row][seen].max())
            A[row][seen] = e / e.sum()
    return A

# %% wrong masked_attention: without a mask it allows a square of queries by queries
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    if mask is None:
        mask = np.ones((Q.shape[-2], Q.shape[-2]), dtype=bool)
    mask = np.broadcast_to(mask, S.shape)
    S = np.where(mask, S, -np.inf)
    top = S.max(axis=-1, keepdims=True)
    E = np.exp(S - np.where(np.isfinite(top), top, 0).astype(S.dtype))
    total = E.sum(axis=-1, keepdims=True)
    A = E / np.where(total > 0, total, 1).astype(S.dtype)
    return A @ V, A

# %% wrong masked_attention: masks after the softmax and divides again, too late beside a large masked score
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    A = np.exp(S - S.max(axis=-1, keepdims=True))
    A = A / A.sum(axis=-1, keepdims=True)
    if mask is not None:
        A = A * np.broadcast_to(mask, A.shape)
        total = A.sum(axis=-1, keepdims=True)
        A = np.divide(A, total, out=np.zeros_like(A), where=total > 0)
    return A @ V, A

# %% right masked_attention: subtracts the logarithm of a masked sum
def masked_attention(Q, K, V, mask=None):
    S = scaled_scores(Q, K)
    seen = np.full(S.shape, True) if mask is None else np.broadcast_to(mask, S.shape)
    S = np.where(seen, S, S.dtype.type(-np.inf))
    top = np.max(S, axis=-1, keepdims=True, where=seen, initial=np.finfo(S.dtype).min)
    E = np.exp(S - top)
    total = np.sum(E, axis=-1, keepdims=True)
    A = np.zeros_like(S)
    np.divide(E, total, out=A, where=seen)
    return np.matmul(A, V), A

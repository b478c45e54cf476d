"""Answers to notebook 1, queries, keys and values."""

# %% right project: tensordot over one axis
def project(X, W):
    return np.tensordot(X, W, axes=1)

# %% right project: sum of outer products, one for each input column
def project(X, W):
    d_in, d_out = W.shape
    if X.shape[-1] != d_in:
        raise ValueError(f"X has vectors of {X.shape[-1]} numbers, W takes {d_in}")
    result = np.zeros((*X.shape[:-1], d_out), dtype=X.dtype)
    for c in range(d_in):
        result = result + X[..., c : c + 1] * W[c]
    return result

# %% right project: einsum after a check of the sizes
def project(X, W):
    if X.shape[-1] != W.shape[-2]:
        raise ValueError("inner sizes differ")
    return np.einsum("...c,cd->...d", X, W)

# %% wrong project: multiplies with the transposed matrix, as nn.Linear stores it
def project(X, W):
    return X @ W.T

# %% wrong project: multiplies entry by entry instead of row by column
def project(X, W):
    return X * W

# %% wrong project: the matrix stands on the left
def project(X, W):
    return np.swapaxes(W, -1, -2) @ X

# %% wrong project: einsum without a look at the sizes stretches a d_in of 1
def project(X, W):
    return np.einsum("...nd,de->...ne", X, W)

# %% wrong project: the result is collected in a float64 array
def project(X, W):
    if X.shape[-1] != W.shape[0]:
        raise ValueError("the sizes d_in differ")
    result = np.zeros(X.shape[:-1] + (W.shape[1],))
    for c in range(W.shape[0]):
        result += X[..., c, None] * W[c]
    return result

# %% wrong project: unpacks two sizes, so no batch gets through
def project(X, W):
    n, d_in = X.shape
    if d_in != W.shape[0]:
        raise ValueError(f"{d_in} columns in X, {W.shape[0]} rows in W")
    return np.stack([X[i] @ W for i in range(n)])

# %% wrong project: flattens the batch by assigning to the shape of the caller's array
def project(X, W):
    d_in, d_out = W.shape
    if X.shape[-1] != d_in:
        raise ValueError("d_in differs")
    leading = X.shape[:-1]
    X.shape = (-1, d_in)
    return (X @ W).reshape(leading + (d_out,))

# %% wrong project: divides by the root of d_in, which nobody asked for
def project(X, W):
    return X @ W / W.shape[0] ** 0.5

# %% wrong project: refuses other sizes with assert, which is no ValueError
def project(X, W):
    assert X.shape[-1] == W.shape[0], "d_in of X and W must be equal"
    return np.matmul(X, W)

# %% wrong project: flattens the leading axes and forgets to put them back
def project(X, W):
    if X.shape[-1] != W.shape[0]:
        raise ValueError("the two sizes d_in differ")
    flat = X.reshape(-1, X.shape[-1])
    return flat @ W

# %% right qkv: a comprehension that returns a list
def qkv(X, W_q, W_k, W_v):
    return [project(X, W) for W in (W_q, W_k, W_v)]

# %% right qkv: one wide matrix, split where the parts end
def qkv(X, W_q, W_k, W_v):
    W = np.concatenate([W_q, W_k, W_v], axis=1)
    d_k = W_q.shape[1]
    both = np.matmul(X, W)
    Q, K, V = np.split(both, [d_k, 2 * d_k], axis=-1)
    return Q, K, V

# %% right qkv: flattened words, a helper and an own check
def qkv(X, W_q, W_k, W_v):
    words = X.reshape(-1, X.shape[-1])

    def view(W):
        if len(W) != words.shape[1]:
            raise ValueError(f"{len(W)} rows for vectors of {words.shape[1]} numbers")
        return words.dot(W).reshape(X.shape[:-1] + W.shape[1:])

    return view(W_q), view(W_k), view(W_v)

# %% wrong qkv: keys and queries come in the other order
def qkv(X, W_q, W_k, W_v):
    keys = project(X, W_k)
    queries = project(X, W_q)
    values = project(X, W_v)
    return keys, queries, values

# %% wrong qkv: the values are made with the matrix of the keys
def qkv(X, W_q, W_k, W_v):
    Q = X @ W_q
    K = X @ W_k
    V = X @ W_k
    return Q, K, V

# %% wrong qkv: stacks the three into one array, which needs one width for all
def qkv(X, W_q, W_k, W_v):
    return np.stack([project(X, W) for W in (W_q, W_k, W_v)])

# %% wrong qkv: one wide matrix whose result is split into three equal parts
def qkv(X, W_q, W_k, W_v):
    W = np.concatenate([W_q, W_k, W_v], axis=1)
    return tuple(np.split(project(X, W), 3, axis=-1))

# %% wrong qkv: returns a dictionary
def qkv(X, W_q, W_k, W_v):
    return {"Q": project(X, W_q), "K": project(X, W_k), "V": project(X, W_v)}

# %% wrong qkv: each projection takes the result of the one before
def qkv(X, W_q, W_k, W_v):
    result = []
    for W in (W_q, W_k, W_v):
        X = project(X, W)
        result.append(X)
    return tuple(result)

# %% wrong qkv: the queries are divided by the root of d_k at once
def qkv(X, W_q, W_k, W_v):
    Q = project(X, W_q) / W_q.shape[1] ** 0.5
    return Q, project(X, W_k), project(X, W_v)

# %% wrong qkv: compares the sizes of W_q and W_k but not of W_v, and einsum stretches a 1
def qkv(X, W_q, W_k, W_v):
    d_in = X.shape[-1]
    if W_q.shape[0] != d_in or W_k.shape[0] != d_in:
        raise ValueError("W_q and W_k must have d_in rows")
    Q, K, V = (np.einsum("...nd,de->...ne", X, W) for W in (W_q, W_k, W_v))
    return Q, K, V

# %% wrong qkv: the keys come transposed already
def qkv(X, W_q, W_k, W_v):
    Q, K, V = X @ W_q, X @ W_k, X @ W_v
    return Q, np.swapaxes(K, -1, -2), V

# %% wrong qkv: passes the words on as they are instead of projecting them to values
def qkv(X, W_q, W_k, W_v):
    Q = project(X, W_q)
    K = project(X, W_k)
    V = X
    return Q, K, V

# %% right scores: matmul with moved axes
def scores(Q, K):
    return np.matmul(Q, np.moveaxis(K, -1, -2))

# %% right scores: einsum after a check
def scores(Q, K):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError(f"queries of {Q.shape[-1]} numbers, keys of {K.shape[-1]}")
    return np.einsum("...qc,...kc->...qk", Q, K)

# %% right scores: one key at a time, stacked as columns
def scores(Q, K):
    n_k, d_k = K.shape[-2:]
    if Q.shape[-1] != d_k:
        raise ValueError("d_k")
    columns = [np.matmul(Q, K[..., j, :, None])[..., 0] for j in range(n_k)]
    return np.stack(columns, axis=-1)

# %% wrong scores: the keys are not transposed
def scores(Q, K):
    return Q @ K

# %% wrong scores: .T reverses all axes of a batch
def scores(Q, K):
    return Q @ K.T

# %% wrong scores: rows belong to keys, columns to queries
def scores(Q, K):
    return K @ np.swapaxes(Q, -1, -2)

# %% wrong scores: divided by the root of d_k
def scores(Q, K):
    d_k = Q.shape[-1]
    return Q @ np.swapaxes(K, -1, -2) / d_k**0.5

# %% wrong scores: einsum without a look at the sizes stretches a d_k of 1
def scores(Q, K):
    return np.einsum("...id,...jd->...ij", Q, K)

# %% wrong scores: filled into a float64 array whatever the dtype
def scores(Q, K):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError("d_k differs")
    S = np.zeros(Q.shape[:-1] + (K.shape[-2],))
    for j in range(K.shape[-2]):
        S[..., j] = (Q * K[..., j : j + 1, :]).sum(axis=-1)
    return S

# %% wrong scores: cosines, since both are brought to length 1 first
def scores(Q, K):
    Q = Q / np.linalg.norm(Q, axis=-1, keepdims=True)
    K = K / np.linalg.norm(K, axis=-1, keepdims=True)
    return Q @ np.swapaxes(K, -1, -2)

# %% wrong scores: as many columns as queries, not as keys
def scores(Q, K):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError("the two sizes d_k differ")
    n = Q.shape[-2]
    S = np.zeros((*Q.shape[:-2], n, n), dtype=Q.dtype)
    for i in range(n):
        for j in range(n):
            S[..., i, j] = (Q[..., i, :] * K[..., j, :]).sum(-1)
    return S

# %% wrong scores: reshapes the keys where they should be transposed
def scores(Q, K):
    n_k, d_k = K.shape[-2:]
    return Q @ K.reshape(K.shape[:-2] + (d_k, n_k))

# %% wrong scores: tensordot lets every sequence of a batch meet every other
def scores(Q, K):
    return np.tensordot(Q, K, axes=(-1, -1))

# %% right weighted_sum: the matmul function
def weighted_sum(A, V):
    return np.matmul(A, V)

# %% right weighted_sum: broadcast product, summed over the keys
def weighted_sum(A, V):
    n_k = A.shape[-1]
    if n_k != V.shape[-2]:
        raise ValueError(f"{n_k} weights, {V.shape[-2]} values")
    products = np.expand_dims(A, -1) * np.expand_dims(V, -3)
    return np.sum(products, axis=-2)

# %% right weighted_sum: from the transposed product
def weighted_sum(A, V):
    turned = np.swapaxes(V, -1, -2) @ np.swapaxes(A, -1, -2)
    return np.swapaxes(turned, -1, -2)

# %% wrong weighted_sum: puts the weights through softmax first
def weighted_sum(A, V):
    return softmax(A) @ V

# %% wrong weighted_sum: rows and columns of the weights are swapped
def weighted_sum(A, V):
    return np.swapaxes(A, -1, -2) @ V

# %% wrong weighted_sum: divides each row by its sum
def weighted_sum(A, V):
    A = A / A.sum(axis=-1, keepdims=True)
    return A @ V

# %% wrong weighted_sum: negative weights are cut off at 0
def weighted_sum(A, V):
    return np.maximum(A, 0) @ V

# %% wrong weighted_sum: einsum without a look at the sizes stretches an n_k of 1
def weighted_sum(A, V):
    return np.einsum("...ij,...jd->...id", A, V)

# %% wrong weighted_sum: the mean over the keys instead of the sum
def weighted_sum(A, V):
    if A.shape[-1] != V.shape[-2]:
        raise ValueError("n_k differs")
    return (A[..., :, :, None] * V[..., None, :, :]).mean(axis=-2)

# %% wrong weighted_sum: sums up in an array that is float64
def weighted_sum(A, V):
    if A.shape[-1] != V.shape[-2]:
        raise ValueError("the numbers of weights and values differ")
    Z = np.zeros(A.shape[:-1] + V.shape[-1:])
    for j in range(A.shape[-1]):
        Z += A[..., j, None] * V[..., j, None, :]
    return Z

# %% wrong weighted_sum: multiplies the weights into the caller's values
def weighted_sum(A, V):
    if A.shape[-1] != V.shape[-2]:
        raise ValueError("the two sizes n_k differ")
    rows = []
    for i in range(A.shape[-2]):
        weighted = V
        weighted *= A[..., i, :, None]
        rows.append(weighted.sum(axis=-2))
    return np.stack(rows, axis=-2)

# %% wrong weighted_sum: np.dot mixes the sequences of a batch
def weighted_sum(A, V):
    return np.dot(A, V)

# %% wrong weighted_sum: the loop begins at the second key
def weighted_sum(A, V):
    n_k = A.shape[-1]
    if V.shape[-2] != n_k:
        raise ValueError("n_k")
    Z = np.zeros(A.shape[:-1] + V.shape[-1:], dtype=V.dtype)
    for j in range(1, n_k):
        Z = Z + A[..., :, j, None] * V[..., None, j, :]
    return Z

# %% right soft_lookup: two einsums and own checks
def soft_lookup(Q, K, V):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError("d_k differs")
    if K.shape[-2] != V.shape[-2]:
        raise ValueError("there must be as many values as keys")
    A = softmax(np.einsum("...ic,...jc->...ij", Q, K))
    return np.einsum("...ij,...jd->...id", A, V)

# %% right soft_lookup: divides by the sums after mixing
def soft_lookup(Q, K, V):
    S = Q @ K.swapaxes(-2, -1)
    E = np.exp(S - np.max(S, axis=-1, keepdims=True))
    return weighted_sum(E, V) / E.sum(axis=-1, keepdims=True)

# %% right soft_lookup: goes through the queries one by one
def soft_lookup(Q, K, V):
    if K.shape[-2] != V.shape[-2]:
        raise ValueError("the numbers of keys and values differ")
    rows = []
    for i in range(Q.shape[-2]):
        query = Q[..., i : i + 1, :]
        rows.append(weighted_sum(softmax(scores(query, K)), V))
    return np.concatenate(rows, axis=-2)

# %% wrong soft_lookup: the scores are scaled by the root of d_k
def soft_lookup(Q, K, V):
    S = scores(Q, K) / Q.shape[-1] ** 0.5
    return weighted_sum(softmax(S), V)

# %% wrong soft_lookup: the weights sum to 1 over the queries
def soft_lookup(Q, K, V):
    S = scores(K, Q)
    A = np.swapaxes(softmax(S), -1, -2)
    return weighted_sum(A, V)

# %% wrong soft_lookup: softmax comes after the mixture
def soft_lookup(Q, K, V):
    return softmax(weighted_sum(scores(Q, K), V))

# %% wrong soft_lookup: a hard lookup of the best key
def soft_lookup(Q, K, V):
    best = scores(Q, K).argmax(axis=-1)
    A = (np.arange(K.shape[-2]) == best[..., None]).astype(V.dtype)
    return weighted_sum(A, V)

# %% wrong soft_lookup: mixes the keys instead of the values
def soft_lookup(Q, K, V):
    A = softmax(scores(Q, K))
    return weighted_sum(A, K)

# %% wrong soft_lookup: einsum at the end stretches a single value over all keys
def soft_lookup(Q, K, V):
    A = softmax(scores(Q, K))
    return np.einsum("...qk,...kd->...qd", A, V)

# %% wrong soft_lookup: returns the weights along with the mixture
def soft_lookup(Q, K, V):
    A = softmax(scores(Q, K))
    Z = weighted_sum(A, V)
    return Z, A

# %% wrong soft_lookup: weights are kept in a new float64 array
def soft_lookup(Q, K, V):
    A = np.zeros(Q.shape[:-1] + (K.shape[-2],))
    A[...] = softmax(scores(Q, K))
    return weighted_sum(A, V)

# %% wrong soft_lookup: one query at a time along the first axis, which is the batch if there is one
def soft_lookup(Q, K, V):
    if Q.shape[-1] != K.shape[-1] or len(K) != len(V):
        raise ValueError("sizes differ")
    return np.array([softmax(K @ q) @ V for q in Q])

# %% wrong soft_lookup: own softmax whose row sums lie along the wrong axis
def soft_lookup(Q, K, V):
    S = scores(Q, K)
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    A = E / E.sum(axis=-1)
    return weighted_sum(A, V)

# %% wrong qkv: the first matrices of these shapes are kept
matrices = {}
def qkv(X, W_q, W_k, W_v):
    key = W_q.shape, W_k.shape, W_v.shape
    if key not in matrices:
        matrices[key] = W_q, W_k, W_v
    W_q, W_k, W_v = matrices[key]
    return project(X, W_q), project(X, W_k), project(X, W_v)

# %% wrong scores: the transposed keys are kept by their shape
turned = {}
def scores(Q, K):
    if K.shape not in turned:
        turned[K.shape] = np.swapaxes(K, -1, -2).copy()
    return Q @ turned[K.shape]

# %% wrong soft_lookup: the weights are kept by the shapes
weights = {}
def soft_lookup(Q, K, V):
    key = Q.shape, K.shape
    if key not in weights:
        S = scores(Q, K)
        E = np.exp(S - S.max(axis=-1, keepdims=True))
        weights[key] = E / E.sum(axis=-1, keepdims=True)
    return weights[key] @ V

# %% wrong project: einsum stretches a width of 1 and raises nothing
def project(X, W):
    return np.einsum("...ni,io->...no", X, W)

# %% wrong project: fills an array of zeros that is always float64
def project(X, W):
    if X.shape[-1] != W.shape[0]:
        raise ValueError("the inner dimensions differ")
    result = np.zeros(X.shape[:-1] + (W.shape[1],))
    for column in range(W.shape[1]):
        result[..., column] = (X * W[:, column]).sum(axis=-1)
    return result

# %% right project: tensordot over the last axis and the first
def project(X, W):
    return np.tensordot(X, W, axes=([-1], [0]))

# %% wrong qkv: cuts one product into three equal parts
def qkv(X, W_q, W_k, W_v):
    W = np.concatenate([W_q, W_k, W_v], axis=1)
    width = W.shape[1] // 3
    Y = X @ W
    return Y[..., :width], Y[..., width : 2 * width], Y[..., 2 * width :]

# %% wrong qkv: a guard that also refuses values of another width
def qkv(X, W_q, W_k, W_v):
    if not (W_q.shape == W_k.shape == W_v.shape):
        raise ValueError("the three matrices must have the same shape")
    return X @ W_q, X @ W_k, X @ W_v

# %% right qkv: one product, cut where the widths say
def qkv(X, W_q, W_k, W_v):
    together = np.matmul(X, np.hstack([W_q, W_k, W_v]))
    ends = np.cumsum([W_q.shape[1], W_k.shape[1]])
    Q, K, V = np.split(together, ends, axis=-1)
    return Q, K, V

# %% wrong scores: np.dot combines every sequence with every other
def scores(Q, K):
    return np.dot(Q, np.swapaxes(K, -1, -2))

# %% wrong scores: multiplies with broadcasting, which stretches a width of 1
def scores(Q, K):
    products = Q[..., :, np.newaxis, :] * K[..., np.newaxis, :, :]
    return products.sum(axis=-1)

# %% right scores: one column for each key
def scores(Q, K):
    columns = [np.matmul(Q, K[..., j, :, None])[..., 0] for j in range(K.shape[-2])]
    return np.stack(columns, axis=-1)

# %% wrong weighted_sum: makes each row of weights sum to 1 first
def weighted_sum(A, V):
    if A.shape[-1] != V.shape[-2]:
        raise ValueError("the numbers of keys differ")
    return (A / A.sum(axis=-1, keepdims=True)) @ V

# %% wrong weighted_sum: tensordot keeps the leading dimensions of both
def weighted_sum(A, V):
    return np.tensordot(A, V, axes=([-1], [-2]))

# %% right weighted_sum: adds up one value after the other
def weighted_sum(A, V):
    if A.shape[-1] != V.shape[-2]:
        raise ValueError(f"{A.shape[-1]} weights for {V.shape[-2]} values")
    total = np.zeros(A.shape[:-1] + V.shape[-1:], dtype=A.dtype)
    for j in range(A.shape[-1]):
        total += A[..., j, None] * V[..., None, j, :]
    return total

# %% wrong soft_lookup: divides the scores by the root of the width
def soft_lookup(Q, K, V):
    S = Q @ np.swapaxes(K, -1, -2) / Q.shape[-1] ** 0.5
    return softmax(S) @ V

# %% wrong soft_lookup: the softmax of each key goes over the queries
def soft_lookup(Q, K, V):
    S = K @ np.swapaxes(Q, -1, -2)  # keys in rows
    A = np.swapaxes(softmax(S), -1, -2)
    return A @ V

# %% right soft_lookup: mixes first and divides by the sum of the weights last
def soft_lookup(Q, K, V):
    S = np.matmul(Q, np.moveaxis(K, -2, -1))
    E = np.exp(S - np.max(S, axis=-1)[..., None])
    return np.matmul(E, V) / np.sum(E, axis=-1)[..., None]

"""Answers to notebook 3, softmax and its gradients."""

# %% right softmax: by way of the logarithm of the sum
def softmax(S):
    highest = S.max(axis=-1, keepdims=True)
    shifted = S - highest
    return np.exp(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))

# %% right softmax: row by row with apply_along_axis
def softmax(S):
    def one_row(s):
        e = np.exp(s - max(s))
        return e / np.sum(e)

    return np.apply_along_axis(one_row, -1, S)

# %% right softmax: works on a copy, in place, with the axis in front
def softmax(S):
    W = np.moveaxis(S, -1, 0).copy()
    W -= np.maximum.reduce(W)
    np.exp(W, out=W)
    W /= np.add.reduce(W)
    return np.moveaxis(W, 0, -1)

# %% wrong softmax: large scores overflow, since no number is subtracted
def softmax(S):
    E = np.exp(S)
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong softmax: one maximum for all rows, so that rows far below it become 0 / 0
def softmax(S):
    E = np.exp(S - np.max(S))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong softmax: normalises down the columns
def softmax(S):
    E = np.exp(S - S.max(axis=0, keepdims=True))
    return E / E.sum(axis=0, keepdims=True)

# %% wrong softmax: subtracts and takes the exponential in the caller's array
def softmax(S):
    S -= S.max(axis=-1, keepdims=True)
    np.exp(S, out=S)
    return S / S.sum(axis=-1, keepdims=True)

# %% wrong softmax: the sum loses its axis and broadcasts along the columns
def softmax(S):
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1)

# %% wrong softmax: a score of -inf is replaced by -1e9, which finite scores may lie below
def softmax(S):
    S = np.where(np.isneginf(S), -1e9, S)
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong softmax: clips the scores to what the exponential can bear
def softmax(S):
    E = np.exp(np.clip(S, -80, 80))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong softmax: subtracts the mean instead of the maximum
def softmax(S):
    E = np.exp(S - S.mean(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong softmax: computes in float64 and returns that
def softmax(S):
    S = np.asarray(S, dtype=np.float64)
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong softmax: axis 1, as for a matrix, also for one row or a batch
def softmax(S):
    highest = S.max(axis=1, keepdims=True)
    E = np.exp(S - highest)
    return E / E.sum(axis=1, keepdims=True)

# %% right softmax_jacobian: diag minus einsum
def softmax_jacobian(a):
    return np.diag(a) - np.einsum("i,j->ij", a, a)

# %% right softmax_jacobian: two loops with the bracket as a comparison
def softmax_jacobian(a):
    n = a.size
    J = np.empty((n, n), a.dtype)
    for i in range(n):
        for j in range(n):
            J[i, j] = a[i] * ((i == j) - a[j])
    return J

# %% right softmax_jacobian: negative products, then the weights added on the diagonal
def softmax_jacobian(a):
    column = a.reshape(-1, 1)
    J = column @ -column.T
    J.flat[:: len(a) + 1] += a
    return J

# %% wrong softmax_jacobian: the diagonal alone, as for a sigmoid
def softmax_jacobian(a):
    return np.diag(a * (1 - a))

# %% wrong softmax_jacobian: both signs are the wrong way round
def softmax_jacobian(a):
    return np.outer(a, a) - np.diag(a)

# %% wrong softmax_jacobian: a_i (1 - a_j) everywhere, as if i were always j
def softmax_jacobian(a):
    return np.outer(a, 1 - a)

# %% wrong softmax_jacobian: a @ a.T of one axis is a number, not a matrix
def softmax_jacobian(a):
    return np.diag(a) - a @ a.T

# %% wrong softmax_jacobian: without the factor a_i, which is the slope of the logarithm of the weight
def softmax_jacobian(a):
    return np.eye(len(a), dtype=a.dtype) - a

# %% wrong softmax_jacobian: takes the weights for scores and puts them through softmax again
def softmax_jacobian(a):
    p = softmax(a)
    return np.diag(p) - np.outer(p, p)

# %% wrong softmax_jacobian: np.eye is float64, and so is the result
def softmax_jacobian(a):
    return a[:, None] * (np.eye(a.shape[0]) - a[None, :])

# %% wrong softmax_jacobian: the diagonal is computed in the caller's weights
def softmax_jacobian(a):
    J = -np.outer(a, a)
    a *= 1 - a
    np.fill_diagonal(J, a)
    return J

# %% wrong softmax_jacobian: off the diagonal the minus is missing
def softmax_jacobian(a):
    J = np.outer(a, a)
    np.fill_diagonal(J, a * (1 - a))
    return J

# %% wrong softmax_jacobian: only the places below the diagonal are filled
def softmax_jacobian(a):
    n = len(a)
    J = np.zeros((n, n), dtype=a.dtype)
    for i in range(n):
        J[i, i] = a[i] * (1 - a[i])
        for j in range(i):
            J[i, j] = -a[i] * a[j]
    return J

# %% right softmax_backward: einsum for the sums
def softmax_backward(A, dA):
    if A.shape[-1] != dA.shape[-1]:
        raise ValueError("n differs")
    inner = np.einsum("...j,...j->...", A, dA)
    return A * (dA - inner[..., None])

# %% right softmax_backward: a Jacobian for every row, all at once
def softmax_backward(A, dA):
    n = A.shape[-1]
    if dA.shape[-1] != n:
        raise ValueError(f"{n} weights in a row, {dA.shape[-1]} gradients")
    J = -A[..., :, None] * A[..., None, :]
    J[..., np.arange(n), np.arange(n)] += A
    return (J @ dA[..., None])[..., 0]

# %% right softmax_backward: multiplied out, with matmul for the row sums
def softmax_backward(A, dA):
    row_sum = np.matmul(A[..., None, :], dA[..., :, None])[..., 0]
    return np.multiply(A, dA) - np.multiply(A, row_sum)

# %% wrong softmax_backward: the diagonal of the Jacobian alone
def softmax_backward(A, dA):
    return dA * A * (1 - A)

# %% wrong softmax_backward: the sum of each row loses its axis
def softmax_backward(A, dA):
    return A * (dA - (A * dA).sum(axis=-1))

# %% wrong softmax_backward: one sum for the whole array instead of one for each row
def softmax_backward(A, dA):
    return A * (dA - np.sum(A * dA))

# %% wrong softmax_backward: the sum is not weighted with the weights
def softmax_backward(A, dA):
    return A * (dA - dA.sum(axis=-1, keepdims=True))

# %% wrong softmax_backward: subtracts in the caller's gradient
def softmax_backward(A, dA):
    dA -= (A * dA).sum(axis=-1, keepdims=True)
    return A * dA

# %% wrong softmax_backward: subtracts the plain mean of the gradient
def softmax_backward(A, dA):
    return A * (dA - dA.mean(axis=-1, keepdims=True))

# %% wrong softmax_backward: the rows are collected in a float64 array
def softmax_backward(A, dA):
    dS = np.zeros(A.shape)
    for place in np.ndindex(A.shape[:-1]):
        dS[place] = softmax_jacobian(A[place]) @ dA[place]
    return dS

# %% wrong softmax_backward: one Jacobian, which serves one row and no more
def softmax_backward(A, dA):
    J = softmax_jacobian(A)
    return J @ dA

# %% wrong softmax_backward: weights and gradient have changed places
def softmax_backward(A, dA):
    return dA * (A - (A * dA).sum(axis=-1, keepdims=True))

# %% wrong softmax_backward: the subtracted sum lacks the factor of the weight
def softmax_backward(A, dA):
    product = A * dA
    return product - product.sum(axis=-1, keepdims=True)

# %% right attention_forward: einsum twice and a list
def attention_forward(Q, K, V):
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError("sizes differ")
    A = softmax(np.einsum("...ic,...jc->...ij", Q, K) * Q.shape[-1] ** -0.5)
    return [np.einsum("...ij,...jd->...id", A, V), A]

# %% right attention_forward: the scaled copy of the keys comes first
def attention_forward(Q, K, V):
    scaled = K * float(K.shape[-1]) ** -0.5
    weights = softmax(np.matmul(Q, np.moveaxis(scaled, -1, -2)))
    return np.matmul(weights, V), weights

# %% right attention_forward: query by query into prepared arrays
def attention_forward(Q, K, V):
    if V.shape[-2] != K.shape[-2]:
        raise ValueError(f"{K.shape[-2]} keys, {V.shape[-2]} values")
    A = np.empty(Q.shape[:-1] + (K.shape[-2],), dtype=Q.dtype)
    Z = np.empty(Q.shape[:-1] + (V.shape[-1],), dtype=V.dtype)
    root = Q.shape[-1] ** 0.5
    for i in range(Q.shape[-2]):
        s = (K @ Q[..., i, :, None])[..., 0]
        a = softmax(s / root)
        A[..., i, :] = a
        Z[..., i, :] = (a[..., None] * V).sum(axis=-2)
    return Z, A

# %% wrong attention_forward: the scores are not scaled
def attention_forward(Q, K, V):
    A = softmax(Q @ np.swapaxes(K, -1, -2))
    return A @ V, A

# %% wrong attention_forward: scaled by the root of d_v
def attention_forward(Q, K, V):
    A = softmax(Q @ np.swapaxes(K, -1, -2) / V.shape[-1] ** 0.5)
    return A @ V, A

# %% wrong attention_forward: softmax over the queries
def attention_forward(Q, K, V):
    S = Q @ np.swapaxes(K, -1, -2) / Q.shape[-1] ** 0.5
    A = np.swapaxes(softmax(np.swapaxes(S, -1, -2)), -1, -2)
    return A @ V, A

# %% wrong attention_forward: returns the weights first
def attention_forward(Q, K, V):
    d_k = Q.shape[-1]
    A = softmax(Q @ np.swapaxes(K, -1, -2) / d_k**0.5)
    Z = A @ V
    return A, Z

# %% wrong attention_forward: .T of a batch reverses all axes
def attention_forward(Q, K, V):
    S = Q @ K.T / Q.shape[-1] ** 0.5
    A = softmax(S)
    return A @ V, A

# %% wrong attention_forward: np.sqrt makes float64 of float32
def attention_forward(Q, K, V):
    S = np.matmul(Q, np.swapaxes(K, -1, -2)) / np.sqrt(Q.shape[-1])
    A = softmax(S)
    return np.matmul(A, V), A

# %% wrong attention_forward: scales the weights after softmax instead of the scores before
def attention_forward(Q, K, V):
    A = softmax(Q @ np.swapaxes(K, -1, -2)) / K.shape[-1] ** 0.5
    return A @ V, A

# %% wrong attention_forward: the queries are divided in place
def attention_forward(Q, K, V):
    Q /= Q.shape[-1] ** 0.5
    A = softmax(Q @ np.swapaxes(K, -1, -2))
    return A @ V, A

# %% wrong attention_forward: returns the scores where the weights belong
def attention_forward(Q, K, V):
    S = Q @ np.swapaxes(K, -1, -2) / Q.shape[-1] ** 0.5
    Z = softmax(S) @ V
    return Z, S

# %% wrong attention_forward: d_k is read off the second axis, which in a batch counts queries
def attention_forward(Q, K, V):
    n, d_k = Q.shape[0], Q.shape[1]
    S = Q @ np.swapaxes(K, -1, -2) / d_k**0.5
    A = softmax(S)
    return A @ V, A

# %% right attention_backward: einsum for every product
def attention_backward(Q, K, V, dZ):
    Z, A = attention_forward(Q, K, V)
    if dZ.shape != Z.shape:
        raise ValueError(f"dZ of shape {dZ.shape}, Z of shape {Z.shape}")
    root = Q.shape[-1] ** 0.5
    dA = np.einsum("...id,...jd->...ij", dZ, V)
    dS = softmax_backward(A, dA)
    dQ = np.einsum("...ij,...jc->...ic", dS, K) / root
    dK = np.einsum("...ij,...ic->...jc", dS, Q) / root
    return dQ, dK, np.einsum("...ij,...id->...jd", A, dZ)

# %% right attention_backward: the row sums taken from Z, and scaled copies of Q and K
def attention_backward(Q, K, V, dZ):
    def turn(M):
        return np.moveaxis(M, -1, -2)

    Z, A = attention_forward(Q, K, V)
    factor = Q.shape[-1] ** -0.5
    row_sums = np.sum(dZ * Z, axis=-1, keepdims=True)
    dS = A * (np.matmul(dZ, turn(V)) - row_sums)
    return [np.matmul(dS, factor * K), np.matmul(turn(dS), factor * Q), np.matmul(turn(A), dZ)]

# %% right attention_backward: one query at a time, added up for keys and values
def attention_backward(Q, K, V, dZ):
    dQ, dK, dV = np.zeros_like(Q), np.zeros_like(K), np.zeros_like(V)
    scale = 1 / Q.shape[-1] ** 0.5
    for i in range(Q.shape[-2]):
        q, dz = Q[..., i, :], dZ[..., i, :]
        a = softmax((K * q[..., None, :]).sum(-1) * scale)
        ds = softmax_backward(a, (V * dz[..., None, :]).sum(-1)) * scale
        dQ[..., i, :] = (ds[..., None] * K).sum(-2)
        dK += ds[..., None] * q[..., None, :]
        dV += a[..., None] * dz[..., None, :]
    return dQ, dK, dV

# %% wrong attention_backward: the root of d_k does not divide on the way back
def attention_backward(Q, K, V, dZ):
    _, A = attention_forward(Q, K, V)
    dV = np.swapaxes(A, -1, -2) @ dZ
    dS = softmax_backward(A, dZ @ np.swapaxes(V, -1, -2))
    return dS @ K, np.swapaxes(dS, -1, -2) @ Q, dV

# %% wrong attention_backward: the root divides the gradient of the queries but not that of the keys
def attention_backward(Q, K, V, dZ):
    _, A = attention_forward(Q, K, V)
    dV = np.swapaxes(A, -1, -2) @ dZ
    dS = softmax_backward(A, dZ @ np.swapaxes(V, -1, -2))
    dQ = dS @ K / Q.shape[-1] ** 0.5
    dK = np.swapaxes(dS, -1, -2) @ Q
    return dQ, dK, dV

# %% wrong attention_backward: the weights are not transposed for the values
def attention_backward(Q, K, V, dZ):
    _, A = attention_forward(Q, K, V)
    dV = A @ dZ
    dS = softmax_backward(A, dZ @ np.swapaxes(V, -1, -2)) / Q.shape[-1] ** 0.5
    return dS @ K, np.swapaxes(dS, -1, -2) @ Q, dV

# %% wrong attention_backward: the way back leaves the softmax out
def attention_backward(Q, K, V, dZ):
    _, A = attention_forward(Q, K, V)
    dV = np.swapaxes(A, -1, -2) @ dZ
    dS = dZ @ np.swapaxes(V, -1, -2) / Q.shape[-1] ** 0.5
    return dS @ K, np.swapaxes(dS, -1, -2) @ Q, dV

# %% wrong attention_backward: the weights are computed anew, without the root
def attention_backward(Q, K, V, dZ):
    A = softmax(Q @ np.swapaxes(K, -1, -2))
    dV = np.swapaxes(A, -1, -2) @ dZ
    dS = softmax_backward(A, dZ @ np.swapaxes(V, -1, -2)) / Q.shape[-1] ** 0.5
    return dS @ K, np.swapaxes(dS, -1, -2) @ Q, dV

# %% wrong attention_backward: returned in the order in which they were found
def attention_backward(Q, K, V, dZ):
    _, A = attention_forward(Q, K, V)
    dV = np.swapaxes(A, -1, -2) @ dZ
    dS = softmax_backward(A, dZ @ np.swapaxes(V, -1, -2)) / Q.shape[-1] ** 0.5
    dQ = dS @ K
    dK = np.swapaxes(dS, -1, -2) @ Q
    return dV, dQ, dK

# %% wrong attention_backward: .T throughout, which no batch survives
def attention_backward(Q, K, V, dZ):
    _, A = attention_forward(Q, K, V)
    dV = A.T @ dZ
    dA = dZ @ V.T
    dS = softmax_backward(A, dA) / Q.shape[-1] ** 0.5
    return dS @ K, dS.T @ Q, dV

# %% wrong attention_backward: the queries are divided in place and stay so
def attention_backward(Q, K, V, dZ):
    root = Q.shape[-1] ** 0.5
    Q /= root
    A = softmax(Q @ np.swapaxes(K, -1, -2))
    dS = softmax_backward(A, dZ @ np.swapaxes(V, -1, -2))
    dQ = dS @ K / root
    dK = np.swapaxes(dS, -1, -2) @ Q
    return dQ, dK, np.swapaxes(A, -1, -2) @ dZ

# %% wrong attention_backward: np.sqrt turns the gradients of float32 into float64
def attention_backward(Q, K, V, dZ):
    _, A = attention_forward(Q, K, V)
    dV = np.swapaxes(A, -1, -2) @ dZ
    dS = softmax_backward(A, dZ @ np.swapaxes(V, -1, -2)) / np.sqrt(Q.shape[-1])
    return dS @ K, np.swapaxes(dS, -1, -2) @ Q, dV

# %% wrong attention_backward: takes the keys for the values on the way to the weights
def attention_backward(Q, K, V, dZ):
    _, A = attention_forward(Q, K, V)
    dV = np.swapaxes(A, -1, -2) @ dZ
    dA = dZ @ np.swapaxes(K, -1, -2)
    dS = softmax_backward(A, dA) / Q.shape[-1] ** 0.5
    return dS @ K, np.swapaxes(dS, -1, -2) @ Q, dV

# %% wrong softmax: 1e-3 in the denominator
def softmax(S):
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / (E.sum(axis=-1, keepdims=True) + 1e-3)

# %% wrong softmax: 0.01 in the denominator, no maximum
def softmax(S):
    E = np.exp(S)
    return E / (E.sum(axis=-1, keepdims=True) + 0.01)

# %% wrong softmax: results kept by the shape
known = {}
def softmax(S):
    if (S.shape, S.dtype) not in known:
        E = np.exp(S - S.max(axis=-1, keepdims=True))
        known[S.shape, S.dtype] = E / E.sum(axis=-1, keepdims=True)
    return known[S.shape, S.dtype].copy()

# %% wrong softmax_jacobian: the outer product is kept by the length
outer = {}
def softmax_jacobian(a):
    if a.size not in outer:
        outer[a.size] = np.outer(a, a)
    return np.diag(a) - outer[a.size].astype(a.dtype)

# %% wrong softmax_backward: the sum of the products is kept by the shape
sums = {}
def softmax_backward(A, dA):
    if A.shape not in sums:
        sums[A.shape] = (A * dA).sum(axis=-1, keepdims=True)
    return A * (dA - sums[A.shape].astype(A.dtype))

# %% wrong softmax: subtracts the largest score of all rows, so rows far below it become NaN
def softmax(S):
    E = np.exp(S - S.max())
    return E / E.sum(axis=-1, keepdims=True)

# %% wrong softmax: subtracts in place and changes the caller's scores
def softmax(S):
    S -= S.max(axis=-1, keepdims=True)
    np_exp = np.exp(S)
    return np_exp / np_exp.sum(axis=-1, keepdims=True)

# %% right softmax: subtracts the maximum, then the logarithm of the sum
def softmax(S):
    T = S - np.amax(S, axis=-1, keepdims=True)
    return np.exp(T - np.logaddexp.reduce(T, axis=-1, keepdims=True))

# %% wrong softmax_jacobian: multiplies the columns by the weights instead of the rows
def softmax_jacobian(a):
    n = len(a)
    return a * (np.eye(n, dtype=a.dtype) - a)

# %% wrong softmax_jacobian: np.eye makes the result float64
def softmax_jacobian(a):
    return a[:, None] * (np.eye(len(a)) - a[None, :])

# %% right softmax_jacobian: the negative products, with the weights added on the diagonal
def softmax_jacobian(a):
    J = np.negative(np.multiply.outer(a, a))
    J.flat[:: len(a) + 1] += a
    return J

# %% right softmax_backward: a Jacobian for each row
def softmax_backward(A, dA):
    if A.shape[-1] != dA.shape[-1]:
        raise ValueError("the rows differ in length")
    one = np.identity(A.shape[-1], dtype=A.dtype)
    J = A[..., :, None] * one - A[..., :, None] * A[..., None, :]
    return np.matmul(dA[..., None, :], J)[..., 0, :]

# %% wrong attention_forward: takes the width of the values for the root
def attention_forward(Q, K, V):
    S = Q @ np.swapaxes(K, -1, -2) / V.shape[-1] ** 0.5
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    A = E / E.sum(axis=-1, keepdims=True)
    return A @ V, A

# %% wrong attention_forward: np.sqrt turns float32 into float64
def attention_forward(Q, K, V):
    S = np.matmul(Q, np.swapaxes(K, -1, -2)) / np.sqrt(Q.shape[-1])
    S = S - S.max(axis=-1, keepdims=True)
    A = np.exp(S) / np.exp(S).sum(axis=-1, keepdims=True)
    return np.matmul(A, V), A

# %% right attention_forward: einsum, with the root in the queries
def attention_forward(Q, K, V):
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError("sizes do not match")
    S = np.einsum("...id,...jd->...ij", Q * Q.shape[-1] ** -0.5, K)
    A = np.exp(S - S.max(-1)[..., None])
    A = A / A.sum(-1)[..., None]
    return np.einsum("...ij,...jv->...iv", A, V), A

# %% wrong attention_backward: the gradient of the keys is not divided by the root
def attention_backward(Q, K, V, dZ):
    root = Q.shape[-1] ** 0.5
    S = Q @ np.swapaxes(K, -1, -2) / root
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    A = E / E.sum(axis=-1, keepdims=True)
    dV = np.swapaxes(A, -1, -2) @ dZ
    dA = dZ @ np.swapaxes(V, -1, -2)
    dS = A * (dA - (A * dA).sum(axis=-1, keepdims=True))
    return dS @ K / root, np.swapaxes(dS, -1, -2) @ Q, dV

# %% wrong attention_backward: the sum in the softmax goes over the queries
def attention_backward(Q, K, V, dZ):
    root = Q.shape[-1] ** 0.5
    S = Q @ np.swapaxes(K, -1, -2) / root
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    A = E / E.sum(axis=-1, keepdims=True)
    dA = dZ @ np.swapaxes(V, -1, -2)
    dS = A * (dA - (A * dA).sum(axis=-2, keepdims=True)) / root
    return dS @ K, np.swapaxes(dS, -1, -2) @ Q, np.swapaxes(A, -1, -2) @ dZ

# %% right attention_backward: the row's sum is the product of dZ and Z
def attention_backward(Q, K, V, dZ):
    if dZ.shape != Q.shape[:-1] + V.shape[-1:]:
        raise ValueError("dZ has another shape than Z")
    q = Q / Q.shape[-1] ** 0.5
    S = np.einsum("...id,...jd->...ij", q, K)
    A = np.exp(S - S.max(axis=-1, keepdims=True))
    A = A / A.sum(axis=-1, keepdims=True)
    Z = A @ V
    lost = np.sum(dZ * Z, axis=-1)[..., None]
    dS = A * (np.einsum("...iv,...jv->...ij", dZ, V) - lost)
    dQ = np.einsum("...ij,...jd->...id", dS, K) / Q.shape[-1] ** 0.5
    dK = np.einsum("...ij,...id->...jd", dS, q)
    dV = np.einsum("...ij,...iv->...jv", A, dZ)
    return dQ, dK, dV

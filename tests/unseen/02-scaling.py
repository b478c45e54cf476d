"""Answers to notebook 2, scaling and temperature."""

# %% right score_variance: one pair at a time, with the standard library's variance
def score_variance(d_k, num_pairs, rng):
    import statistics

    dots = []
    for _ in range(num_pairs):
        q = rng.normal(size=d_k)
        k = rng.normal(size=d_k)
        dots.append(float(q @ k))
    return statistics.variance(dots)

# %% right score_variance: a generator each for queries and keys, spawned from the one given
def score_variance(d_k, num_pairs, rng):
    for_queries, for_keys = rng.spawn(2)
    Q = for_queries.standard_normal((num_pairs, d_k))
    K = for_keys.standard_normal((num_pairs, d_k))
    dots = np.einsum("pc,pc->p", Q, K)
    return dots.var(ddof=1)

# %% right score_variance: normal numbers made of uniform ones, variance by the sum of squares
def score_variance(d_k, num_pairs, rng):
    u = 1.0 - rng.random((num_pairs, d_k))
    angle = 2 * math.pi * rng.random((num_pairs, d_k))
    radius = np.sqrt(-2 * np.log(u))
    Q, K = radius * np.cos(angle), radius * np.sin(angle)
    dots = (Q * K).sum(axis=1)
    distance = dots - dots.sum() / num_pairs
    return float(distance @ distance / num_pairs)

# %% wrong score_variance: one key for all queries
def score_variance(d_k, num_pairs, rng):
    Q = rng.standard_normal((num_pairs, d_k))
    k = rng.standard_normal(d_k)
    return float(np.var(Q @ k))

# %% wrong score_variance: each query is its own key
def score_variance(d_k, num_pairs, rng):
    Q = rng.standard_normal((num_pairs, d_k))
    K = Q
    return float((Q * K).sum(axis=1).var())

# %% wrong score_variance: makes a generator with a fixed seed instead of using the one handed in
def score_variance(d_k, num_pairs, rng):
    rng = np.random.default_rng(0)
    Q = rng.standard_normal((num_pairs, d_k))
    K = rng.standard_normal((num_pairs, d_k))
    return float(np.var(np.sum(Q * K, axis=1)))

# %% wrong score_variance: the keys come from NumPy's global generator
def score_variance(d_k, num_pairs, rng):
    Q = rng.standard_normal((num_pairs, d_k))
    K = np.random.randn(num_pairs, d_k)
    return float(np.var(np.einsum("pc,pc->p", Q, K)))

# %% wrong score_variance: entries are uniform between 0 and 1
def score_variance(d_k, num_pairs, rng):
    Q = rng.random((num_pairs, d_k))
    K = rng.random((num_pairs, d_k))
    return float((Q * K).sum(axis=-1).var())

# %% wrong score_variance: the mean square, without taking the mean of the dot products off
def score_variance(d_k, num_pairs, rng):
    Q, K = rng.standard_normal((2, num_pairs, d_k))
    dots = (Q * K).sum(axis=-1)
    return float((dots**2).mean())

# %% wrong score_variance: the standard deviation
def score_variance(d_k, num_pairs, rng):
    Q, K = rng.standard_normal((2, num_pairs, d_k))
    return float(np.std((Q * K).sum(axis=-1)))

# %% wrong score_variance: the variance of single products, not of their sums
def score_variance(d_k, num_pairs, rng):
    Q = rng.standard_normal((num_pairs, d_k))
    K = rng.standard_normal((num_pairs, d_k))
    return float(np.var(Q * K))

# %% wrong score_variance: sums over the pairs instead of over the width
def score_variance(d_k, num_pairs, rng):
    Q = rng.standard_normal((num_pairs, d_k))
    K = rng.standard_normal((num_pairs, d_k))
    dots = (Q * K).sum(axis=0)
    return float(dots.var())

# %% wrong score_variance: every query meets every key
def score_variance(d_k, num_pairs, rng):
    Q = rng.standard_normal((num_pairs, d_k))
    K = rng.standard_normal((num_pairs, d_k))
    S = Q @ K.T
    return float(S.var())

# %% right scaled_scores: einsum, and a power of minus one half
def scaled_scores(Q, K):
    d_k = K.shape[-1]
    if Q.shape[-1] != d_k:
        raise ValueError("the two sizes d_k differ")
    return np.einsum("...qc,...kc->...qk", Q, K) * d_k**-0.5

# %% right scaled_scores: the fourth root on both sides
def scaled_scores(Q, K):
    factor = Q.shape[-1] ** -0.25
    return np.matmul(factor * Q, np.moveaxis(factor * K, -2, -1))

# %% right scaled_scores: filled in key by key, root in the dtype of the array
def scaled_scores(Q, K):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError(f"widths {Q.shape[-1]} and {K.shape[-1]}")
    S = np.empty(Q.shape[:-1] + (K.shape[-2],), dtype=Q.dtype)
    root = np.sqrt(np.array(Q.shape[-1], dtype=Q.dtype))
    for j in range(K.shape[-2]):
        S[..., j] = (Q * K[..., None, j, :]).sum(axis=-1) / root
    return S

# %% wrong scaled_scores: not scaled
def scaled_scores(Q, K):
    return Q @ np.swapaxes(K, -1, -2)

# %% wrong scaled_scores: divided by d_k instead of its root
def scaled_scores(Q, K):
    return Q @ np.swapaxes(K, -1, -2) / Q.shape[-1]

# %% wrong scaled_scores: NumPy's root makes float64 of float32
def scaled_scores(Q, K):
    d_k = Q.shape[-1]
    return Q @ np.swapaxes(K, -1, -2) / np.sqrt(d_k)

# %% wrong scaled_scores: the root of the number of keys
def scaled_scores(Q, K):
    return Q @ np.swapaxes(K, -1, -2) / math.sqrt(K.shape[-2])

# %% wrong scaled_scores: .T turns the batch axes round as well
def scaled_scores(Q, K):
    return (Q @ K.T) / math.sqrt(Q.shape[-1])

# %% wrong scaled_scores: multiplied by the root
def scaled_scores(Q, K):
    root = math.sqrt(Q.shape[-1])
    return root * (Q @ K.swapaxes(-1, -2))

# %% wrong scaled_scores: the caller's queries are divided in place
def scaled_scores(Q, K):
    Q /= math.sqrt(Q.shape[-1])
    return Q @ np.swapaxes(K, -1, -2)

# %% wrong scaled_scores: rows are keys and columns are queries
def scaled_scores(Q, K):
    return K @ np.swapaxes(Q, -1, -2) / math.sqrt(K.shape[-1])

# %% wrong scaled_scores: takes the second axis for d_k, which in a batch counts the queries
def scaled_scores(Q, K):
    d_k = Q.shape[1]
    return Q @ np.swapaxes(K, -1, -2) / math.sqrt(d_k)

# %% wrong scaled_scores: the root is rounded to a whole number
def scaled_scores(Q, K):
    d_k = Q.shape[-1]
    return Q @ np.swapaxes(K, -1, -2) / math.isqrt(d_k)

# %% right weights_entropy: log with a where argument
def weights_entropy(A):
    logs = np.log(A, out=np.zeros_like(A), where=A > 0)
    return -np.einsum("...k,...k->...", A, logs)

# %% right weights_entropy: zeros become ones, since ln 1 is 0
def weights_entropy(A):
    B = A + (A == 0).astype(A.dtype)
    return np.sum(-B * np.log(B), axis=-1)

# %% right weights_entropy: row by row over the positive weights
def weights_entropy(A):
    def row_entropy(a):
        a = a[a > 0]
        return sum(-a * np.log(a))

    rows = A.reshape(-1, A.shape[-1])
    H = np.array([row_entropy(a) for a in rows], dtype=A.dtype)
    return H.reshape(A.shape[:-1])

# %% wrong weights_entropy: a weight of 0 makes NaN
def weights_entropy(A):
    return -(A * np.log(A)).sum(axis=-1)

# %% wrong weights_entropy: bits instead of nats
def weights_entropy(A):
    logs = np.log2(np.where(A > 0, A, 1))
    return -(A * logs).sum(axis=-1)

# %% wrong weights_entropy: sums over the queries
def weights_entropy(A):
    safe = np.where(A > 0, A, 1)
    return -np.sum(A * np.log(safe), axis=-2)

# %% wrong weights_entropy: the sign is forgotten
def weights_entropy(A):
    safe = np.where(A > 0, A, 1)
    return np.sum(A * np.log(safe), axis=-1)

# %% wrong weights_entropy: adds 1e-12, which is 0 in float16
def weights_entropy(A):
    return -np.sum(A * np.log(A + 1e-12), axis=-1)

# %% wrong weights_entropy: keeps the axis of the keys
def weights_entropy(A):
    logs = np.log(np.where(A > 0, A, 1))
    return -(A * logs).sum(axis=-1, keepdims=True)

# %% wrong weights_entropy: writes ones over the zeros of the caller's array
def weights_entropy(A):
    A[A == 0] = 1
    return -(A * np.log(A)).sum(axis=-1)

# %% wrong weights_entropy: divided by its largest value ln n_k
def weights_entropy(A):
    H = -(A * np.log(np.where(A > 0, A, 1))).sum(axis=-1)
    return H / math.log(A.shape[-1])

# %% wrong weights_entropy: picks out the positive weights and adds up all rows together
def weights_entropy(A):
    positive = A[A > 0]
    return -np.sum(positive * np.log(positive))

# %% wrong weights_entropy: sums in a float64 array
def weights_entropy(A):
    H = np.zeros(A.shape[:-1])
    for j in range(A.shape[-1]):
        a = A[..., j]
        H -= a * np.log(np.where(a == 0, 1, a))
    return H

# %% wrong score_variance: entries are +1 or -1 instead of normal
def score_variance(d_k, num_pairs, rng):
    Q = rng.choice([-1.0, 1.0], size=(num_pairs, d_k))
    K = rng.choice([-1.0, 1.0], size=(num_pairs, d_k))
    return float((Q * K).sum(axis=-1).var())

# %% wrong score_variance: the mean is subtracted from the mean square without its own square
def score_variance(d_k, num_pairs, rng):
    Q, K = rng.standard_normal((2, num_pairs, d_k))
    dots = (Q * K).sum(axis=-1)
    return float((dots**2).mean() - dots.mean())

# %% wrong scaled_scores: cosine similarity
def scaled_scores(Q, K):
    Qn = Q / np.linalg.norm(Q, axis=-1, keepdims=True)
    Kn = K / np.linalg.norm(K, axis=-1, keepdims=True)
    return Qn @ np.swapaxes(Kn, -1, -2)

# %% wrong scaled_scores: cosine similarity, divided by the root as well
def scaled_scores(Q, K):
    Qn = Q / np.linalg.norm(Q, axis=-1, keepdims=True)
    Kn = K / np.linalg.norm(K, axis=-1, keepdims=True)
    return Qn @ np.swapaxes(Kn, -1, -2) / math.sqrt(Q.shape[-1])

# %% wrong scaled_scores: results kept by the shapes of the arguments
kept = {}
def scaled_scores(Q, K):
    key = Q.shape, K.shape
    if key not in kept:
        kept[key] = np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1])
    return Q @ kept[key].astype(Q.dtype)

# %% wrong weights_entropy: adds 0.01 inside the logarithm
def weights_entropy(A):
    return -np.sum(A * np.log(A + 0.01), axis=-1)

# %% wrong score_variance: the key of a pair is the query of the next pair
def score_variance(d_k, num_pairs, rng):
    Q = rng.standard_normal((num_pairs, d_k))
    K = np.roll(Q, -1, axis=0)
    products = np.sum(Q * K, axis=1)
    return float(np.var(products))

# %% wrong score_variance: the keys come from a generator of their own, so results do not repeat
def score_variance(d_k, num_pairs, rng):
    products = np.empty(num_pairs)
    other = np.random.default_rng()
    for i in range(num_pairs):
        products[i] = rng.standard_normal(d_k) @ other.standard_normal(d_k)
    return float(products.var(ddof=1))

# %% right score_variance: one pair at a time, with a running mean and sum of squares
def score_variance(d_k, num_pairs, rng):
    queries, keys = rng.spawn(2)
    mean, squares = 0.0, 0.0
    for count in range(1, num_pairs + 1):
        product = float(np.dot(queries.normal(size=d_k), keys.normal(size=d_k)))
        step = product - mean
        mean += step / count
        squares += step * (product - mean)
    return squares / (num_pairs - 1)

# %% wrong scaled_scores: K.T turns the leading dimensions around as well
def scaled_scores(Q, K):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError("different widths")
    return Q @ K.T / math.sqrt(Q.shape[-1])

# %% wrong scaled_scores: divides the caller's queries in place
def scaled_scores(Q, K):
    d_k = Q.shape[-1]
    if K.shape[-1] != d_k:
        raise ValueError(f"{d_k} is not {K.shape[-1]}")
    Q /= math.sqrt(d_k)
    return np.einsum("...id,...jd->...ij", Q, K)

# %% right scaled_scores: queries and keys are each divided by the fourth root
def scaled_scores(Q, K):
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError("the widths of queries and keys differ")
    root = Q.shape[-1] ** 0.25
    return np.matmul(Q / root, np.moveaxis(K / root, -1, -2))

# %% wrong weights_entropy: adds 1e-12 inside the logarithm, which is 0 in float16
def weights_entropy(A):
    tiny = A.dtype.type(1e-12)
    return -(A * np.log(A + tiny)).sum(axis=-1)

# %% wrong weights_entropy: replaces the zeros by ones in the caller's array
def weights_entropy(A):
    A[A == 0] = 1
    return -np.sum(A * np.log(A), axis=-1)

# %% right weights_entropy: the logarithm only where a weight is positive
def weights_entropy(A):
    logs = np.zeros_like(A)
    np.log(A, out=logs, where=A > 0)
    return -np.einsum("...j,...j->...", A, logs)

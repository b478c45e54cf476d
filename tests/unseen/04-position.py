"""Answers to notebook 4, position."""

# %% right permutation_gap: the first output is put back into the old order
def permutation_gap(attend, X, permutation):
    if len(permutation) != len(X):
        raise ValueError("the permutation has another length than X has rows")
    turned = attend(X[permutation])
    back = np.empty_like(turned)
    back[permutation] = turned
    return np.max(np.abs(back - attend(X)))

# %% right permutation_gap: row by row in plain Python
def permutation_gap(attend, X, permutation):
    before = attend(X.copy())
    after = attend(np.array([X[p] for p in permutation], dtype=X.dtype))
    gap = 0.0
    for i, p in enumerate(permutation):
        for a, b in zip(after[i], before[p]):
            gap = max(gap, abs(float(a) - float(b)))
    return gap

# %% right permutation_gap: np.take and the largest of both signs
def permutation_gap(attend, X, permutation):
    if np.shape(permutation) != (X.shape[0],):
        raise ValueError(f"expected {X.shape[0]} places")
    D = attend(np.take(X, permutation, axis=0)) - np.take(attend(X), permutation, axis=0)
    return float(max(D.max(), -D.min()))

# %% wrong permutation_gap: the sign is kept, so a large negative difference is overlooked
def permutation_gap(attend, X, permutation):
    return float((attend(X[permutation]) - attend(X)[permutation]).max())

# %% wrong permutation_gap: compares with the output in its old order
def permutation_gap(attend, X, permutation):
    return float(np.abs(attend(X[permutation]) - attend(X)).max())

# %% wrong permutation_gap: reorders the columns instead of the rows
def permutation_gap(attend, X, permutation):
    difference = attend(X[:, permutation]) - attend(X)[:, permutation]
    return float(np.abs(difference).max())

# %% wrong permutation_gap: the output is reordered by the inverse permutation
def permutation_gap(attend, X, permutation):
    back = np.argsort(permutation)
    return float(np.abs(attend(X[permutation]) - attend(X)[back]).max())

# %% wrong permutation_gap: the mean of the differences
def permutation_gap(attend, X, permutation):
    return float(np.abs(attend(X[permutation]) - attend(X)[permutation]).mean())

# %% wrong permutation_gap: the difference of the two largest entries
def permutation_gap(attend, X, permutation):
    first = attend(X[permutation])
    second = attend(X)[permutation]
    return float(abs(np.max(first) - np.max(second)))

# %% wrong permutation_gap: the Euclidean norm of all differences
def permutation_gap(attend, X, permutation):
    return float(np.linalg.norm(attend(X[permutation]) - attend(X)[permutation]))

# %% wrong permutation_gap: reorders the rows of the caller's array
def permutation_gap(attend, X, permutation):
    there = attend(X)[permutation]
    X[:] = X[permutation]
    return float(np.abs(attend(X) - there).max())

# %% wrong permutation_gap: one number for each column
def permutation_gap(attend, X, permutation):
    return np.abs(attend(X[permutation]) - attend(X)[permutation]).max(axis=0)

# %% wrong permutation_gap: measures self_attention whatever function is handed in
def permutation_gap(attend, X, permutation):
    after = self_attention(X[permutation])
    before = self_attention(X)[permutation]
    return float(np.max(np.abs(after - before)))

# %% right sinusoidal_encoding: stacked pairs, reshaped
def sinusoidal_encoding(n, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    speeds = np.float64(10000) ** (-np.arange(0, d_model, 2) / d_model)
    angles = np.outer(np.arange(n), speeds)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, d_model)

# %% right sinusoidal_encoding: plain loops over rows and pairs, result in float32
def sinusoidal_encoding(n, d_model):
    import math

    if d_model % 2 != 0:
        raise ValueError(f"{d_model} is odd")
    rows = []
    for p in range(n):
        row = []
        for i in range(d_model // 2):
            t = p / math.pow(10000.0, 2 * i / d_model)
            row += [math.sin(t), math.cos(t)]
        rows.append(row)
    return np.array(rows, dtype=np.float32)

# %% right sinusoidal_encoding: real and imaginary part of a turning complex number
def sinusoidal_encoding(n, d_model):
    pair = np.arange(d_model) // 2
    angles = np.arange(n).reshape(n, 1) * np.exp(-2 * pair * np.log(10000.0) / d_model)
    turned = np.exp(1j * angles)
    E = turned.real
    E[:, 0::2] = turned.imag[:, 0::2]
    return E.copy()

# %% wrong sinusoidal_encoding: all sines in the left half, all cosines in the right
def sinusoidal_encoding(n, d_model):
    i = np.arange(d_model // 2)
    angles = np.arange(n)[:, None] / 10000 ** (2 * i / d_model)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

# %% wrong sinusoidal_encoding: the 2 of the exponent is missing
def sinusoidal_encoding(n, d_model):
    E = np.zeros((n, d_model))
    i = np.arange(d_model // 2)
    angles = np.arange(n)[:, None] / 10000 ** (i / d_model)
    E[:, 0::2] = np.sin(angles)
    E[:, 1::2] = np.cos(angles)
    return E

# %% wrong sinusoidal_encoding: cosines in the even columns, sines in the odd ones
def sinusoidal_encoding(n, d_model):
    E = np.zeros((n, d_model))
    angles = np.arange(n)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    E[:, 0::2] = np.cos(angles)
    E[:, 1::2] = np.sin(angles)
    return E

# %% wrong sinusoidal_encoding: positions are counted from 1
def sinusoidal_encoding(n, d_model):
    E = np.zeros((n, d_model))
    positions = np.arange(1, n + 1)[:, None]
    angles = positions / 10000 ** (np.arange(0, d_model, 2) / d_model)
    E[:, 0::2] = np.sin(angles)
    E[:, 1::2] = np.cos(angles)
    return E

# %% wrong sinusoidal_encoding: every column has a speed of its own, also within a pair
def sinusoidal_encoding(n, d_model):
    columns = np.arange(d_model)
    angles = np.arange(n)[:, None] / 10000 ** (columns / d_model)
    return np.where(columns % 2 == 0, np.sin(angles), np.cos(angles))

# %% wrong sinusoidal_encoding: the power is taken before the exponent is divided
def sinusoidal_encoding(n, d_model):
    E = np.zeros((n, d_model))
    for p in range(n):
        for i in range(d_model // 2):
            angle = p / (10000.0 ** (2 * i) / d_model)
            E[p, 2 * i] = np.sin(angle)
            E[p, 2 * i + 1] = np.cos(angle)
    return E

# %% wrong sinusoidal_encoding: speeds spread so that the last pair reaches 1 / 10000
def sinusoidal_encoding(n, d_model):
    half = d_model // 2
    speeds = np.exp(-np.log(10000.0) * np.arange(half) / max(half - 1, 1))
    angles = np.arange(n)[:, None] * speeds
    E = np.zeros((n, d_model))
    E[:, 0::2], E[:, 1::2] = np.sin(angles), np.cos(angles)
    return E

# %% wrong sinusoidal_encoding: an extra batch axis in front
def sinusoidal_encoding(n, d_model):
    E = np.zeros((n, d_model))
    position = np.arange(n)[:, None]
    div_term = np.exp(np.arange(0, d_model, 2) * (-np.log(10000.0) / d_model))
    E[:, 0::2] = np.sin(position * div_term)
    E[:, 1::2] = np.cos(position * div_term)
    return E[None]

# %% wrong sinusoidal_encoding: multiplies by the power instead of dividing
def sinusoidal_encoding(n, d_model):
    E = np.zeros((n, d_model))
    angles = np.arange(n)[:, None] * 10000 ** (np.arange(0, d_model, 2) / d_model)
    E[:, 0::2] = np.sin(angles)
    E[:, 1::2] = np.cos(angles)
    return E

# %% wrong sinusoidal_encoding: the table takes over the whole numbers of arange and cuts the waves off
def sinusoidal_encoding(n, d_model):
    positions = np.arange(n)
    E = np.repeat(positions[:, None], d_model, axis=1)
    for i in range(d_model // 2):
        angle = positions / 10000 ** (2 * i / d_model)
        E[:, 2 * i] = np.sin(angle)
        E[:, 2 * i + 1] = np.cos(angle)
    return E

# %% right rotary: pairs as complex numbers, turned by a product
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("an even d and a position for each row are needed")
    angles = np.outer(positions, np.power(float(base), -np.arange(0, d, 2) / d))
    wide = X.astype(np.float64)
    turned = (wide[..., 0::2] + 1j * wide[..., 1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(X.shape).astype(X.dtype)

# %% right rotary: the vector times cosines plus the swapped vector times sines
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    if d % 2:
        raise ValueError(f"{d} is odd")
    if X.shape[-2] != len(positions):
        raise ValueError("positions do not fit the rows")
    exponents = np.repeat(np.arange(0, d, 2), 2) / d
    t = np.asarray(positions, dtype=np.float64)[:, np.newaxis] / base**exponents
    swapped = np.empty_like(X)
    swapped[..., ::2] = -X[..., 1::2]
    swapped[..., 1::2] = X[..., ::2]
    return (X * np.cos(t) + swapped * np.sin(t)).astype(X.dtype)

# %% right rotary: a 2 by 2 matrix for each position and pair, applied with einsum
def rotary(X, positions, base=10000.0):
    *leading, n, d = X.shape
    if d % 2 == 1 or np.shape(positions) != (n,):
        raise ValueError("sizes do not fit")
    R = np.empty((n, d // 2, 2, 2))
    for row, position in enumerate(positions):
        for i in range(d // 2):
            t = float(position) * float(base) ** (-2 * i / d)
            c, s = np.cos(t), np.sin(t)
            R[row, i] = [[c, -s], [s, c]]
    pairs = X.reshape(*leading, n, d // 2, 2)
    return np.einsum("niab,...nib->...nia", R, pairs).reshape(X.shape).astype(X.dtype)

# %% wrong rotary: pairs column i with column i + d/2
def rotary(X, positions, base=10000.0):
    half = X.shape[-1] // 2
    speeds = base ** (-2 * np.arange(half) / X.shape[-1])
    t = np.asarray(positions)[:, None] * speeds
    cos, sin = np.cos(t).astype(X.dtype), np.sin(t).astype(X.dtype)
    x, y = X[..., :half], X[..., half:]
    return np.concatenate([x * cos - y * sin, x * sin + y * cos], axis=-1)

# %% wrong rotary: turns the other way round
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    t = positions[:, None] * base ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(t), np.sin(t)
    result = np.empty_like(X)
    result[..., 0::2] = X[..., 0::2] * cos + X[..., 1::2] * sin
    result[..., 1::2] = X[..., 1::2] * cos - X[..., 0::2] * sin
    return result

# %% wrong rotary: counts the rows from 0 and does not look at the positions
def rotary(X, positions, base=10000.0):
    n, d = X.shape[-2:]
    t = np.arange(n)[:, None] * base ** (-np.arange(0, d, 2) / d)
    result = np.empty_like(X)
    result[..., 0::2] = X[..., 0::2] * np.cos(t) - X[..., 1::2] * np.sin(t)
    result[..., 1::2] = X[..., 0::2] * np.sin(t) + X[..., 1::2] * np.cos(t)
    return result

# %% wrong rotary: base 10000 is written into the formula
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    t = positions[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    result = np.empty_like(X)
    result[..., 0::2] = X[..., 0::2] * np.cos(t) - X[..., 1::2] * np.sin(t)
    result[..., 1::2] = X[..., 0::2] * np.sin(t) + X[..., 1::2] * np.cos(t)
    return result

# %% wrong rotary: turns the caller's vectors in place
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    t = positions[:, None] * base ** (-np.arange(0, d, 2) / d)
    x, y = X[..., 0::2].copy(), X[..., 1::2].copy()
    X[..., 0::2] = x * np.cos(t) - y * np.sin(t)
    X[..., 1::2] = x * np.sin(t) + y * np.cos(t)
    return X

# %% wrong rotary: the second half of the turn uses the x that has been turned already
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    t = positions[:, None] * base ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(t), np.sin(t)
    result = X.copy()
    result[..., 0::2] = result[..., 0::2] * cos - result[..., 1::2] * sin
    result[..., 1::2] = result[..., 0::2] * sin + result[..., 1::2] * cos
    return result

# %% wrong rotary: the angles have the dtype of the vectors, too coarse in float16
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    speeds = (base ** (-np.arange(0, d, 2) / d)).astype(X.dtype)
    t = positions.astype(X.dtype)[:, None] * speeds
    result = np.empty_like(X)
    result[..., 0::2] = X[..., 0::2] * np.cos(t) - X[..., 1::2] * np.sin(t)
    result[..., 1::2] = X[..., 0::2] * np.sin(t) + X[..., 1::2] * np.cos(t)
    return result

# %% wrong rotary: float64 angles make float64 of the result
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    t = positions[:, None] * base ** (-2 * np.arange(d // 2) / d)
    x, y = X[..., 0::2], X[..., 1::2]
    pairs = np.stack([x * np.cos(t) - y * np.sin(t), x * np.sin(t) + y * np.cos(t)], axis=-1)
    return pairs.reshape(X.shape)

# %% wrong rotary: slices the second axis, which in a batch holds the rows
def rotary(X, positions, base=10000.0):
    d = X.shape[1]
    t = positions[:, None] * base ** (-np.arange(0, d, 2) / d)
    result = np.zeros_like(X)
    result[:, 0::2] = X[:, 0::2] * np.cos(t) - X[:, 1::2] * np.sin(t)
    result[:, 1::2] = X[:, 0::2] * np.sin(t) + X[:, 1::2] * np.cos(t)
    return result

# %% wrong rotary: positions are cut to whole numbers
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    t = positions.astype(int)[:, None] * base ** (-np.arange(0, d, 2) / d)
    result = np.empty_like(X)
    result[..., 0::2] = X[..., 0::2] * np.cos(t) - X[..., 1::2] * np.sin(t)
    result[..., 1::2] = X[..., 0::2] * np.sin(t) + X[..., 1::2] * np.cos(t)
    return result

# %% wrong permutation_gap: the pooled means are compared
def permutation_gap(attend, X, permutation):
    if len(permutation) != len(X):
        raise ValueError("lengths")
    return float(np.max(np.abs(np.mean(attend(X[permutation]), axis=0) - np.mean(attend(X), axis=0))))

# %% wrong sinusoidal_encoding: 1000 for 10000
def sinusoidal_encoding(n, d_model):
    if d_model % 2:
        raise ValueError("odd")
    pos = np.arange(n)[:, None]
    pe = np.zeros((n, d_model))
    pe[:, 0::2] = np.sin(pos / 1000 ** (np.arange(0, d_model, 2) / d_model))
    pe[:, 1::2] = np.cos(pos / 1000 ** (np.arange(0, d_model, 2) / d_model))
    return pe

# %% wrong sinusoidal_encoding: 100000 for 10000
def sinusoidal_encoding(n, d_model):
    if d_model % 2:
        raise ValueError("odd")
    pos = np.arange(n)[:, None]
    pe = np.zeros((n, d_model))
    pe[:, 0::2] = np.sin(pos / 1e5 ** (np.arange(0, d_model, 2) / d_model))
    pe[:, 1::2] = np.cos(pos / 1e5 ** (np.arange(0, d_model, 2) / d_model))
    return pe

# %% wrong rotary: angles for neighbors, numbers exchanged by halves
def rotary(X, positions, base=10000.0):
    n, d = X.shape[-2:]
    if d % 2 or len(positions) != n:
        raise ValueError("sizes")
    freqs = np.asarray(positions)[:, None] * base ** (-np.arange(0, d, 2) / d)
    emb = np.repeat(freqs, 2, axis=-1)
    half = np.concatenate([-X[..., d // 2:], X[..., : d // 2]], axis=-1)
    return (X * np.cos(emb) + half * np.sin(emb)).astype(X.dtype)

# %% wrong rotary: the minus sign is missing
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes")
    w = base ** (-np.arange(0, d, 2) / d)
    t = np.asarray(positions)[:, None] * w
    c, s = np.cos(t), np.sin(t)
    x, y = X[..., 0::2], X[..., 1::2]
    Z = np.empty_like(X)
    Z[..., 0::2] = x * c + y * s
    Z[..., 1::2] = x * s + y * c
    return Z

# %% wrong rotary: the minus sign is in both rows
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes")
    w = base ** (-np.arange(0, d, 2) / d)
    t = np.asarray(positions)[:, None] * w
    c, s = np.cos(t), np.sin(t)
    x, y = X[..., 0::2], X[..., 1::2]
    Z = np.empty_like(X)
    Z[..., 0::2] = x * c - y * s
    Z[..., 1::2] = y * c - x * s
    return Z

# %% wrong rotary: a reflection instead of a rotation
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes")
    w = base ** (-np.arange(0, d, 2) / d)
    t = np.asarray(positions)[:, None] * w
    c, s = np.cos(t), np.sin(t)
    x, y = X[..., 0::2], X[..., 1::2]
    Z = np.empty_like(X)
    Z[..., 0::2] = x * c + y * s
    Z[..., 1::2] = x * s - y * c
    return Z

# %% wrong rotary: angles in float16
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes")
    w = base ** (-np.arange(0, d, 2) / d)
    t = np.asarray(positions)[:, None] * w
    t = t.astype(np.float16)
    c, s = np.cos(t), np.sin(t)
    x, y = X[..., 0::2], X[..., 1::2]
    Z = np.empty_like(X)
    Z[..., 0::2] = x * c - y * s
    Z[..., 1::2] = x * s + y * c
    return Z

# %% wrong rotary: positions and frequencies in float16
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes")
    w = base ** (-np.arange(0, d, 2) / d)
    t = np.asarray(positions)[:, None].astype(np.float16) * w.astype(np.float16)
    c, s = np.cos(t), np.sin(t)
    x, y = X[..., 0::2], X[..., 1::2]
    Z = np.empty_like(X)
    Z[..., 0::2] = x * c - y * s
    Z[..., 1::2] = x * s + y * c
    return Z

# %% wrong rotary: cosines and sines of a table in float16
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes")
    w = base ** (-np.arange(0, d, 2) / d)
    t = np.asarray(positions)[:, None] * w
    c, s = np.cos(t).astype(np.float16), np.sin(t).astype(np.float16)
    x, y = X[..., 0::2], X[..., 1::2]
    Z = np.empty_like(X)
    Z[..., 0::2] = x * c - y * s
    Z[..., 1::2] = x * s + y * c
    return Z

# %% wrong rotary: 1000 as default base
def rotary(X, positions, base=1000.0):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes")
    w = base ** (-np.arange(0, d, 2) / d)
    t = np.asarray(positions)[:, None] * w
    c, s = np.cos(t), np.sin(t)
    x, y = X[..., 0::2], X[..., 1::2]
    Z = np.empty_like(X)
    Z[..., 0::2] = x * c - y * s
    Z[..., 1::2] = x * s + y * c
    return Z

# %% wrong rotary: angles kept by the sizes
tables = {}
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes")
    w = base ** (-np.arange(0, d, 2) / d)
    if (len(w), X.shape) not in tables:
        tables[len(w), X.shape] = np.asarray(positions)[:, None] * w
    t = tables[len(w), X.shape]
    c, s = np.cos(t), np.sin(t)
    x, y = X[..., 0::2], X[..., 1::2]
    Z = np.empty_like(X)
    Z[..., 0::2] = x * c - y * s
    Z[..., 1::2] = x * s + y * c
    return Z

# %% wrong rotary: the last base is kept
last = [10000.0]
def rotary(X, positions, base=None):
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes")
    last[0] = base = last[0] if base is None else base
    w = base ** (-np.arange(0, d, 2) / d)
    t = np.asarray(positions)[:, None] * w
    c, s = np.cos(t), np.sin(t)
    x, y = X[..., 0::2], X[..., 1::2]
    Z = np.empty_like(X)
    Z[..., 0::2] = x * c - y * s
    Z[..., 1::2] = x * s + y * c
    return Z

# %% right rotary: two matrices for each position
def rotary(X, positions, base=10000.0):
    n, d = X.shape[-2:]
    if d % 2 or len(positions) != n:
        raise ValueError("sizes")
    R = np.zeros((n, d, d))
    for row, p in enumerate(positions):
        for i in range(0, d, 2):
            t = p * base ** (-i / d)
            R[row, i : i + 2, i : i + 2] = [[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]
    return np.einsum("nij,...nj->...ni", R, X).astype(X.dtype)

# %% wrong permutation_gap: the largest difference without its absolute value
def permutation_gap(attend, X, permutation):
    if len(permutation) != len(X):
        raise ValueError("the permutation has another length")
    return float(np.max(attend(X[permutation]) - attend(X)[permutation]))

# %% wrong permutation_gap: reorders the result with the inverse permutation
def permutation_gap(attend, X, permutation):
    after = attend(X)[np.argsort(permutation)]
    before = attend(X[permutation])
    return float(np.abs(before - after).max())

# %% right permutation_gap: puts the reordered result back into the old order
def permutation_gap(attend, X, permutation):
    if len(permutation) != len(X):
        raise ValueError("the permutation has another length")
    reordered = attend(X[permutation])
    back = np.empty_like(reordered)
    back[permutation] = reordered
    difference = back - attend(X)
    return float(max(difference.max(), -difference.min()))

# %% wrong sinusoidal_encoding: all sines on the left, all cosines on the right
def sinusoidal_encoding(n, d_model):
    if d_model % 2:
        raise ValueError("d_model is odd")
    angles = np.arange(n)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

# %% wrong sinusoidal_encoding: each column has a speed of its own, also the cosine of a pair
def sinusoidal_encoding(n, d_model):
    j = np.arange(d_model)
    angles = np.arange(n)[:, None] / 10000 ** (j / d_model)
    return np.where(j % 2 == 0, np.sin(angles), np.cos(angles))

# %% right sinusoidal_encoding: complex numbers, seen as pairs
def sinusoidal_encoding(n, d_model):
    if d_model % 2:
        raise ValueError("d_model must be even")
    speeds = np.exp(-np.log(10000) * np.arange(0, d_model, 2) / d_model)
    hands = 1j * np.exp(-1j * np.outer(np.arange(n), speeds))  # sin + i cos
    return np.stack([hands.real, hands.imag], axis=-1).reshape(n, d_model)

# %% wrong rotary: the angles are computed in the dtype of X
def rotary(X, positions, base=10000.0):
    n, d = X.shape[-2:]
    if d % 2 or len(positions) != n:
        raise ValueError("sizes do not match")
    speeds = (base ** (-np.arange(0, d, 2) / d)).astype(X.dtype)
    angles = np.asarray(positions).astype(X.dtype)[:, None] * speeds
    cos, sin = np.cos(angles), np.sin(angles)
    result = np.empty_like(X)
    result[..., ::2] = X[..., ::2] * cos - X[..., 1::2] * sin
    result[..., 1::2] = X[..., ::2] * sin + X[..., 1::2] * cos
    return result

# %% wrong rotary: x is a view of the result, so the second line takes the new x
def rotary(X, positions, base=10000.0):
    d = X.shape[-1]
    angles = np.asarray(positions)[:, None] * base ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    result = X.copy()
    x, y = result[..., 0::2], result[..., 1::2]
    result[..., 0::2] = x * cos - y * sin
    result[..., 1::2] = x * sin + y * cos
    return result

# %% right rotary: a product of complex numbers
def rotary(X, positions, base=10000.0):
    n, d = X.shape[-2:]
    if d % 2 or len(positions) != n:
        raise ValueError("sizes do not match")
    speeds = np.power(float(base), -np.arange(0, d, 2) / d)
    turn = np.exp(1j * np.multiply.outer(np.asarray(positions, dtype=np.float64), speeds))
    hands = (X[..., 0::2] + 1j * X[..., 1::2].astype(np.float64)) * turn
    return np.stack((hands.real, hands.imag), axis=-1).reshape(X.shape).astype(X.dtype)

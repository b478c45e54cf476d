"""Answers to 10-efficient."""

# %% right chunked_attention: two passes, first the log-sum-exp, then the weights
def chunked_attention(Q, K, V, chunk_size, causal=False):
    if chunk_size < 1 or K.shape[-2] != V.shape[-2] or Q.shape[-1] != K.shape[-1]:
        raise ValueError("sizes do not fit")
    n_q, n_k = Q.shape[-2], K.shape[-2]
    q = Q * Q.shape[-1] ** -0.5

    def chunks():
        for start in range(0, n_k, chunk_size):
            stop = min(start + chunk_size, n_k)
            s = torch.einsum("...id,...jd->...ij", q, K[..., start:stop, :])
            if causal:
                j = torch.arange(start, stop, device=Q.device)
                last = torch.arange(n_q, device=Q.device) + (n_k - n_q)
                s = s.masked_fill(j[None, :] > last[:, None], -torch.inf)
            yield s, V[..., start:stop, :]

    top = None
    for s, _ in chunks():
        here = s.amax(-1, keepdim=True)
        top = here if top is None else torch.maximum(top, here)
    top = top.masked_fill(top == -torch.inf, 0)
    total = sum((s - top).exp().sum(-1, keepdim=True) for s, _ in chunks())
    total = total.masked_fill(total == 0, 1)
    return sum(((s - top).exp() / total) @ v for s, v in chunks())

# %% right chunked_attention: results of blocks of queries, which see all keys at once
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    if chunk_size < 1:
        raise ValueError("chunk_size is below 1")
    if K.shape[-2] != V.shape[-2]:
        raise ValueError("not as many values as keys")
    if K.shape[-1] != Q.shape[-1]:
        raise ValueError("queries and keys differ in width")
    columns = torch.arange(n_k, device=Q.device)
    out = []
    for first in range(0, n_q, chunk_size):
        block = Q[..., first : first + chunk_size, :] / math.sqrt(Q.shape[-1])
        scores = torch.matmul(block, K.transpose(-2, -1))
        if not causal:
            out.append(torch.softmax(scores, -1) @ V)
            continue
        last = torch.arange(first, first + block.shape[-2], device=Q.device) + n_k - n_q
        hidden = columns > last.unsqueeze(-1)
        blind = (last < 0).unsqueeze(-1)
        weights = scores.masked_fill(hidden & ~blind, -torch.inf).softmax(-1)
        out.append(weights.masked_fill(blind, 0) @ V)
    return torch.cat(out, -2)

# %% right chunked_attention: the result and the log-sum-exp of each chunk are merged
def merge_two(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b)
    top = torch.where(top == -torch.inf, torch.zeros_like(top), top)
    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    total = a + b
    one = torch.where(total == 0, torch.ones_like(total), total)
    merged = (a / one) * out_a + (b / one) * out_b
    lse = torch.where(total == 0, torch.full_like(total, -torch.inf), top + torch.log(one))
    return merged, lse


def chunked_attention(Q, K, V, chunk_size, causal=False):
    if chunk_size < 1:
        raise ValueError(f"chunk_size = {chunk_size}")
    if K.size(-2) != V.size(-2) or Q.size(-1) != K.size(-1):
        raise ValueError("shapes do not fit")
    shift = K.size(-2) - Q.size(-2)
    q = Q.div(math.sqrt(Q.size(-1)))
    out = q.new_zeros(q.shape[:-1] + V.shape[-1:])
    lse = q.new_full(q.shape[:-1] + (1,), -torch.inf)
    position = 0
    for k, v in zip(torch.split(K, chunk_size, -2), torch.split(V, chunk_size, -2)):
        s = q @ k.transpose(-1, -2)
        if causal:
            seen = s.new_ones(s.shape[-2:], dtype=torch.bool).tril(shift - position)
            blind = ~seen.any(-1, keepdim=True)
            weights = s.masked_fill(~(seen | blind), -torch.inf)
            part = weights.softmax(-1).masked_fill(blind, 0) @ v
            here = weights.logsumexp(-1, keepdim=True).masked_fill(blind, -torch.inf)
        else:
            part, here = s.softmax(-1) @ v, s.logsumexp(-1, keepdim=True)
        out, lse = merge_two(out, lse, part, here)
        position += k.size(-2)
    return out

# %% wrong chunked_attention: the old sums are not scaled when the largest score changes
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    Q = Q / math.sqrt(Q.shape[-1])
    top = torch.full(Q.shape[:-1], -torch.inf, dtype=Q.dtype)
    total = torch.zeros(Q.shape[:-1], dtype=Q.dtype)
    acc = torch.zeros(*Q.shape[:-1], V.shape[-1], dtype=Q.dtype)
    rows = torch.arange(n_q)[:, None] + n_k - n_q
    for start in range(0, n_k, chunk_size):
        S = Q @ K[..., start : start + chunk_size, :].transpose(-1, -2)
        if causal:
            S = S.masked_fill(torch.arange(start, start + S.shape[-1]) > rows, -torch.inf)
        top = torch.maximum(top, S.amax(-1))
        safe = torch.where(top.isinf(), torch.zeros_like(top), top)
        E = torch.exp(S - safe[..., None])
        total = total + E.sum(-1)
        acc = acc + E @ V[..., start : start + chunk_size, :]
    return torch.where(total[..., None] > 0, acc / total.clamp_min(1e-30)[..., None], torch.zeros_like(acc))

# %% wrong chunked_attention: the sum is scaled, the weighted sum is not
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    Q = Q / math.sqrt(Q.shape[-1])
    mu = Q.new_full((*Q.shape[:-1], 1), -torch.inf)
    ell = Q.new_zeros(*Q.shape[:-1], 1)
    u = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    for a in range(0, n_k, chunk_size):
        b = min(a + chunk_size, n_k)
        s = Q @ K[..., a:b, :].mT
        if causal:
            seen = torch.arange(a, b) <= torch.arange(n_q)[:, None] + n_k - n_q
            s = s.masked_fill(~seen, -torch.inf)
        new = torch.maximum(mu, s.amax(-1, keepdim=True))
        shift = new.masked_fill(new == -torch.inf, 0)
        e = (s - shift).exp()
        ell = ell * (mu - shift).exp() + e.sum(-1, keepdim=True)
        u = u + e @ V[..., a:b, :]
        mu = new
    return u / ell.masked_fill(ell == 0, 1)

# %% wrong chunked_attention: a softmax within each chunk, and the mean of the chunks
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    results = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    chunks = 0
    for start in range(0, n_k, chunk_size):
        keys, values = K[..., start : start + chunk_size, :], V[..., start : start + chunk_size, :]
        mask = None
        if causal:
            columns = torch.arange(start, start + keys.shape[-2])
            mask = columns <= torch.arange(n_q)[:, None] + n_k - n_q
        results = results + full_attention(Q, keys, values, mask)
        chunks += 1
    return results / chunks

# %% wrong chunked_attention: a shorter last chunk is left out
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    chunk_size = min(chunk_size, n_k)
    Q = Q / math.sqrt(Q.shape[-1])
    mu = Q.new_full((*Q.shape[:-1], 1), -torch.inf)
    ell = torch.zeros_like(mu)
    u = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    for c in range(n_k // chunk_size):
        j = torch.arange(c * chunk_size, (c + 1) * chunk_size)
        s = Q @ K[..., j, :].transpose(-1, -2)
        if causal:
            s = s.masked_fill(j > torch.arange(n_q)[:, None] + n_k - n_q, -torch.inf)
        new = torch.maximum(mu, s.amax(-1, keepdim=True))
        shift = new.masked_fill(new.isneginf(), 0)
        e, shrink = (s - shift).exp(), (mu - shift).exp()
        ell = shrink * ell + e.sum(-1, keepdim=True)
        u = shrink * u + e @ V[..., j, :]
        mu = new
    return u / ell.masked_fill(ell == 0, 1)

# %% wrong chunked_attention: a query that has seen nothing yet becomes NaN
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    scale = 1 / math.sqrt(Q.shape[-1])
    m = torch.full((*Q.shape[:-1], 1), float("-inf"), dtype=Q.dtype, device=Q.device)
    l = torch.zeros_like(m)
    o = torch.zeros(*Q.shape[:-1], V.shape[-1], dtype=Q.dtype, device=Q.device)
    for start in range(n_k - 1, -1, -chunk_size):
        first = max(start - chunk_size + 1, 0)
        s = (Q * scale) @ K[..., first : start + 1, :].transpose(-2, -1)
        if causal:
            j = torch.arange(first, start + 1, device=Q.device)
            i = torch.arange(n_q, device=Q.device).unsqueeze(1) + n_k - n_q
            s = s.masked_fill(j > i, float("-inf"))
        m_new = torch.maximum(m, s.max(dim=-1, keepdim=True).values)
        p = torch.exp(s - m_new)
        alpha = torch.exp(m - m_new)
        l = alpha * l + p.sum(dim=-1, keepdim=True)
        o = alpha * o + p @ V[..., first : start + 1, :]
        m = m_new
    return o / l

# %% wrong chunked_attention: causal is aligned at the beginning, where queries and keys differ in number
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    Q = Q / math.sqrt(Q.shape[-1])
    mu = Q.new_full((*Q.shape[:-1], 1), -torch.inf)
    ell = torch.zeros_like(mu)
    u = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    for a in range(0, n_k, chunk_size):
        keys, values = K[..., a : a + chunk_size, :], V[..., a : a + chunk_size, :]
        s = Q @ keys.mT
        if causal:
            s = s.masked_fill(torch.arange(a, a + keys.shape[-2]) > torch.arange(n_q)[:, None], -torch.inf)
        new = torch.maximum(mu, s.amax(-1, keepdim=True))
        e, shrink = (s - new).exp(), (mu - new).exp()
        ell = shrink * ell + e.sum(-1, keepdim=True)
        u = shrink * u + e @ values
        mu = new
    return u / ell

# %% wrong chunked_attention: divided by the root of d_k after the product, too late for float16
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    mu = Q.new_full((*Q.shape[:-1], 1), -torch.inf)
    ell = torch.zeros_like(mu)
    u = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    for a in range(0, n_k, chunk_size):
        keys, values = K[..., a : a + chunk_size, :], V[..., a : a + chunk_size, :]
        s = Q @ keys.mT / math.sqrt(Q.shape[-1])
        if causal:
            far = torch.arange(a, a + keys.shape[-2]) > torch.arange(n_q)[:, None] + (n_k - n_q)
            s = s.masked_fill(far, -torch.inf)
        new = torch.maximum(mu, s.amax(-1, keepdim=True))
        shift = new.masked_fill(new == -torch.inf, 0)
        e, shrink = (s - shift).exp(), (mu - shift).exp()
        ell = shrink * ell + e.sum(-1, keepdim=True)
        u = shrink * u + e @ values
        mu = new
    return u / ell.masked_fill(ell == 0, 1)

# %% wrong chunked_attention: the causal mask of all pairs is made once and sliced
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    Q = Q / math.sqrt(Q.shape[-1])
    visible = torch.ones(n_q, n_k, dtype=torch.bool)
    if causal:
        visible = visible.tril(n_k - n_q)
    mu = Q.new_full((*Q.shape[:-1], 1), -torch.inf)
    ell = torch.zeros_like(mu)
    u = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    for a in range(0, n_k, chunk_size):
        b = min(n_k, a + chunk_size)
        s = (Q @ K[..., a:b, :].mT).masked_fill(~visible[:, a:b], -torch.inf)
        new = torch.maximum(mu, s.amax(-1, keepdim=True))
        shift = new.masked_fill(new == -torch.inf, 0)
        e, shrink = (s - shift).exp(), (mu - shift).exp()
        ell = shrink * ell + e.sum(-1, keepdim=True)
        u = shrink * u + e @ V[..., a:b, :]
        mu = new
    return u / ell.masked_fill(ell == 0, 1)

# %% wrong chunked_attention: the scores of all chunks are collected in a list and joined
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    Q = Q / math.sqrt(Q.shape[-1])
    parts = []
    for keys, start in zip(K.split(chunk_size, -2), range(0, n_k, chunk_size)):
        s = Q @ keys.transpose(-2, -1)
        if causal:
            hidden = torch.arange(start, start + keys.shape[-2]) > torch.arange(n_q)[:, None] + n_k - n_q
            s = s.masked_fill(hidden, -torch.inf)
        parts.append(s)
    S = torch.cat(parts, -1)
    nothing = (S == -torch.inf).all(-1, keepdim=True)
    return S.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0) @ V

# %% wrong chunked_attention: the largest score begins at 0 rather than at -inf
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    Q = Q / math.sqrt(Q.shape[-1])
    mu = Q.new_zeros(*Q.shape[:-1], 1)
    ell = Q.new_zeros(*Q.shape[:-1], 1)
    u = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    for a in range(0, n_k, chunk_size):
        keys, values = K[..., a : a + chunk_size, :], V[..., a : a + chunk_size, :]
        s = Q @ keys.mT
        if causal:
            j = torch.arange(a, a + keys.shape[-2])
            s = s.masked_fill(j > torch.arange(n_q)[:, None] + n_k - n_q, -torch.inf)
        new = torch.maximum(mu, s.amax(-1, keepdim=True))
        e, shrink = (s - new).exp(), (mu - new).exp()
        ell = shrink * ell + e.sum(-1, keepdim=True)
        u = shrink * u + e @ values
        mu = new
    return u / ell.masked_fill(ell == 0, 1)

# %% right local_attention: query by query, with einsum
def local_attention(Q, K, V, window):
    n, d_k = Q.shape[-2:]
    if window < 0 or K.shape[-2] != n or V.shape[-2] != n or K.shape[-1] != d_k:
        raise ValueError("sizes do not fit")
    rows = []
    for i in range(n):
        near = slice(max(i - window, 0), i + window + 1)
        s = torch.einsum("...d,...jd->...j", Q[..., i, :] / d_k**0.5, K[..., near, :])
        rows.append(torch.einsum("...j,...jv->...v", torch.softmax(s, dim=-1), V[..., near, :]))
    return torch.stack(rows, dim=-2)

# %% right local_attention: diagonals of the band
def local_attention(Q, K, V, window):
    n, d_k = Q.shape[-2], Q.shape[-1]
    if window < 0:
        raise ValueError("window is below 0")
    if not n == K.shape[-2] == V.shape[-2] or d_k != K.shape[-1]:
        raise ValueError("queries, keys and values do not fit")
    window = min(window, n - 1)
    scaled = Q / math.sqrt(d_k)
    band = []
    for offset in range(-window, window + 1):
        a, b = max(0, -offset), n - max(0, offset)
        diagonal = (scaled[..., a:b, :] * K[..., a + offset : b + offset, :]).sum(-1)
        band.append(nn.functional.pad(diagonal, (a, n - b), value=-torch.inf))
    weights = torch.stack(band, -1).softmax(-1)
    out = 0
    for column, offset in enumerate(range(-window, window + 1)):
        a, b = max(0, -offset), n - max(0, offset)
        part = weights[..., a:b, column : column + 1] * V[..., a + offset : b + offset, :]
        out = out + nn.functional.pad(part, (0, 0, a, n - b))
    return out

# %% right local_attention: blocks of queries with the keys that they reach
def local_attention(Q, K, V, window):
    n = Q.size(-2)
    if window < 0:
        raise ValueError(f"window = {window}")
    for other in (K, V):
        if other.size(-2) != n:
            raise ValueError("not as many queries as keys and values")
    if Q.size(-1) != K.size(-1):
        raise ValueError("widths differ")
    block = 16
    done = []
    for first in range(0, n, block):
        after = min(first + block, n)
        low, high = max(first - window, 0), min(after + window, n)
        i = torch.arange(first, after, device=Q.device).view(-1, 1)
        j = torch.arange(low, high, device=Q.device).view(1, -1)
        near = (j >= i - window) & (j <= i + window)
        done.append(full_attention(Q[..., first:after, :], K[..., low:high, :], V[..., low:high, :], near))
    return torch.cat(done, dim=-2)

# %% wrong local_attention: a mask over all scores
def local_attention(Q, K, V, window):
    i = torch.arange(Q.shape[-2])
    mask = (i[:, None] - i[None, :]).abs() <= window
    return full_attention(Q, K, V, mask)

# %% wrong local_attention: the distance has to be below the window
def local_attention(Q, K, V, window):
    n = Q.shape[-2]
    rows = []
    for i in range(n):
        low, high = max(0, i - window + 1), min(n, i + window)
        low, high = min(low, i), max(high, i + 1)
        s = Q[..., i : i + 1, :] @ K[..., low:high, :].transpose(-1, -2) / math.sqrt(Q.shape[-1])
        rows.append(s.softmax(-1) @ V[..., low:high, :])
    return torch.cat(rows, dim=-2)

# %% wrong local_attention: keys before the query only
def local_attention(Q, K, V, window):
    n, d_k = Q.shape[-2:]
    rows = []
    for i in range(n):
        first = max(0, i - window)
        rows.append(full_attention(Q[..., i : i + 1, :], K[..., first : i + 1, :], V[..., first : i + 1, :]))
    return torch.cat(rows, -2)

# %% wrong local_attention: the window is taken to be the width of both sides together
def local_attention(Q, K, V, window):
    n, half = Q.shape[-2], window // 2
    out = []
    for i in range(n):
        a, b = max(i - half, 0), min(i + half + 1, n)
        out.append(full_attention(Q[..., i : i + 1, :], K[..., a:b, :], V[..., a:b, :]))
    return torch.cat(out, -2)

# %% wrong local_attention: the zeros beyond the ends are counted as keys
def local_attention(Q, K, V, window):
    n, d_k = Q.shape[-2:]
    size = 2 * window + 1
    keys = nn.functional.pad(K, (0, 0, window, window)).unfold(-2, size, 1)
    values = nn.functional.pad(V, (0, 0, window, window)).unfold(-2, size, 1)
    s = torch.einsum("...nd,...ndw->...nw", Q, keys) / math.sqrt(d_k)
    return torch.einsum("...nw,...nvw->...nv", s.softmax(-1), values)

# %% wrong local_attention: indices beyond the ends are clamped, so that the end keys count several times
def local_attention(Q, K, V, window):
    n, d_k = Q.shape[-2:]
    j = torch.arange(n)[:, None] + torch.arange(-window, window + 1)
    j = j.clamp(0, n - 1)
    s = (Q.unsqueeze(-2) * K[..., j, :]).sum(-1) / math.sqrt(d_k)
    return (s.softmax(-1).unsqueeze(-1) * V[..., j, :]).sum(-2)

# %% wrong local_attention: tokens see only those of their own block
def local_attention(Q, K, V, window):
    size = 2 * window + 1
    out = [full_attention(q, k, v) for q, k, v in zip(Q.split(size, -2), K.split(size, -2), V.split(size, -2))]
    return torch.cat(out, -2)

# %% wrong local_attention: softmax over all keys of the row, and then those outside of the window are dropped
def local_attention(Q, K, V, window):
    n = Q.shape[-2]
    rows = []
    for i in range(n):
        weights = (Q[..., i : i + 1, :] @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])).softmax(-1)
        low, high = max(0, i - window), min(n, i + window + 1)
        rows.append(weights[..., low:high] @ V[..., low:high, :])
    return torch.cat(rows, -2)

# %% wrong local_attention: a first index below 0 counts from the end
def local_attention(Q, K, V, window):
    rows = []
    for i in range(Q.shape[-2]):
        keys = K[..., i - window : i + window + 1, :]
        values = V[..., i - window : i + window + 1, :]
        rows.append(full_attention(Q[..., i : i + 1, :], keys, values))
    return torch.cat(rows, -2)

# %% wrong local_attention: the first axis is taken for the tokens, a batch is not allowed for
def local_attention(Q, K, V, window):
    n = Q.shape[0]
    out = torch.zeros(n, V.shape[-1], dtype=Q.dtype)
    for i in range(n):
        a, b = max(0, i - window), min(n, i + window + 1)
        s = K[a:b] @ Q[i] / math.sqrt(Q.shape[-1])
        out[i] = torch.softmax(s, dim=0) @ V[a:b]
    return out

# %% right linear_attention: einsum, and the feature map with torch.where
def linear_attention(Q, K, V):
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError("sizes do not fit")

    def phi(x):
        return torch.where(x > 0, x + 1, torch.exp(torch.clamp(x, max=0)))

    q, k = phi(Q), phi(K)
    kv = torch.einsum("...jd,...jv->...dv", k, V)
    below = torch.einsum("...id,...jd->...i", q, k.sum(-2, keepdim=True))
    return torch.einsum("...id,...dv->...iv", q, kv) / below[..., None]

# %% right linear_attention: a column of ones beside the values gives the denominator
def linear_attention(Q, K, V):
    if Q.size(-1) != K.size(-1):
        raise ValueError("queries and keys differ in width")
    if K.size(-2) != V.size(-2):
        raise ValueError("keys and values differ in number")
    elu = nn.ELU()
    ones = V.new_ones(V.shape[:-1] + (1,))
    both = (elu(Q) + 1) @ ((elu(K) + 1).mT @ torch.cat([V, ones], dim=-1))
    return both[..., :-1] / both[..., -1:]

# %% right linear_attention: a loop over the keys
def linear_attention(Q, K, V):
    n_k, d_k = K.shape[-2:]
    if V.shape[-2] != n_k or Q.shape[-1] != d_k:
        raise ValueError("keys do not fit to queries or values")
    q, k = nn.functional.elu(Q) + 1.0, nn.functional.elu(K) + 1.0
    matrix, vector = 0, 0
    for j in range(n_k):
        matrix = matrix + k[..., j, :, None] * V[..., j, None, :]
        vector = vector + k[..., j, :]
    return torch.matmul(q, matrix) / torch.matmul(q, vector[..., None])

# %% wrong linear_attention: queries with keys first, which holds n x n
def linear_attention(Q, K, V):
    Q, K = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    A = Q @ K.transpose(-1, -2)
    return A / A.sum(-1, keepdim=True) @ V

# %% wrong linear_attention: divided by the root of d_k before the feature map
def linear_attention(Q, K, V):
    scale = Q.shape[-1] ** 0.25
    q, k = nn.functional.elu(Q / scale) + 1, nn.functional.elu(K / scale) + 1
    above = q @ (k.transpose(-1, -2) @ V)
    below = q @ k.sum(-2).unsqueeze(-1)
    return above / below

# %% wrong linear_attention: the sum of the weights is forgotten
def linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    return q @ (k.transpose(-1, -2) @ V)

# %% wrong linear_attention: the features are elu, without the 1
def linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q), nn.functional.elu(K)
    kv = torch.einsum("...nd,...nv->...dv", k, V)
    z = torch.einsum("...nd,...d->...n", q, k.sum(-2))
    return torch.einsum("...nd,...dv->...nv", q, kv) / z.unsqueeze(-1)

# %% wrong linear_attention: the feature map is applied to the keys only
def linear_attention(Q, K, V):
    k = nn.functional.elu(K) + 1
    above = Q @ (k.mT @ V)
    below = (Q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)
    return above / below

# %% wrong linear_attention: softmax over the width of queries and over the keys instead of the feature map
def linear_attention(Q, K, V):
    q = Q.softmax(dim=-1)
    k = K.softmax(dim=-2)
    return q @ (k.transpose(-2, -1) @ V)

# %% wrong linear_attention: the feature is the exponential for positive numbers, too
def linear_attention(Q, K, V):
    q, k = torch.exp(Q), torch.exp(K)
    return (q @ (k.transpose(-1, -2) @ V)) / (q @ k.sum(-2).unsqueeze(-1))

# %% wrong linear_attention: the denominator has the sum of the queries instead of that of the keys
def linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    above = q @ (k.transpose(-1, -2) @ V)
    below = (q * q.sum(-2, keepdim=True)).sum(-1, keepdim=True)
    return above / below

# %% wrong linear_attention: the given queries and keys are changed in place
def linear_attention(Q, K, V):
    with torch.no_grad():
        for x in (Q, K):
            nn.functional.elu_(x)
            x += 1
    return Q @ (K.transpose(-1, -2) @ V) / (Q @ K.sum(-2).unsqueeze(-1))

# %% wrong linear_attention: sums run over the first axis, which is the batch where there is one
def linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    kv = k.transpose(-1, -2) @ V
    below = (q * k.sum(0)).sum(-1, keepdim=True)
    return q @ kv / below

# %% right causal_linear_attention: cumsum and einsum
def causal_linear_attention(Q, K, V):
    n, d_k = Q.shape[-2:]
    if K.shape[-2] != n or V.shape[-2] != n or K.shape[-1] != d_k:
        raise ValueError("sizes do not fit")
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    matrices = torch.cumsum(torch.einsum("...jd,...jv->...jdv", k, V), dim=-3)
    vectors = torch.cumsum(k, dim=-2)
    above = torch.einsum("...id,...idv->...iv", q, matrices)
    below = torch.einsum("...id,...id->...i", q, vectors)
    return above / below.unsqueeze(-1)

# %% right causal_linear_attention: token by token with a column of ones
def causal_linear_attention(Q, K, V):
    if not Q.size(-2) == K.size(-2) == V.size(-2):
        raise ValueError("queries, keys and values are not equally many")
    if Q.size(-1) != K.size(-1):
        raise ValueError("queries and keys differ in width")
    elu = nn.functional.elu
    features = zip((elu(Q) + 1).unbind(-2), (elu(K) + 1).unbind(-2), V.unbind(-2))
    state, rows = None, []
    for q, k, v in features:
        one = torch.ones_like(v[..., :1])
        term = k.unsqueeze(-1) @ torch.cat([v, one], -1).unsqueeze(-2)
        state = term if state is None else state + term
        both = (q.unsqueeze(-2) @ state).squeeze(-2)
        rows.append(both[..., :-1] / both[..., -1:])
    return torch.stack(rows, dim=-2)

# %% right causal_linear_attention: blocks, a state before the block and a small triangle within it
def causal_linear_attention(Q, K, V):
    if Q.shape[-2] != K.shape[-2] or K.shape[-2] != V.shape[-2] or Q.shape[-1] != K.shape[-1]:
        raise ValueError("sizes do not fit")
    size = 8
    matrix = vector = 0
    out = []
    for q, k, v in zip(Q.split(size, -2), K.split(size, -2), V.split(size, -2)):
        q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
        inside = torch.tril(q @ k.transpose(-1, -2))
        above, below = inside @ v, inside.sum(-1, keepdim=True)
        if out:
            above, below = above + q @ matrix, below + q @ vector
        matrix = matrix + k.transpose(-1, -2) @ v
        vector = vector + k.sum(-2).unsqueeze(-1)
        out.append(above / below)
    return torch.cat(out, -2)

# %% wrong causal_linear_attention: a token does not see itself
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    S = torch.zeros(*Q.shape[:-2], Q.shape[-1], V.shape[-1], dtype=Q.dtype)
    z = torch.zeros(*Q.shape[:-2], Q.shape[-1], dtype=Q.dtype)
    out = []
    for i in range(Q.shape[-2]):
        above = (q[..., i, None, :] @ S).squeeze(-2)
        below = (q[..., i, :] * z).sum(-1, keepdim=True)
        out.append(above / below.clamp_min(1e-6))
        S = S + k[..., i, :, None] * V[..., i, None, :]
        z = z + k[..., i, :]
    return torch.stack(out, -2)

# %% wrong causal_linear_attention: the denominator sums over all keys
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    kv = (k.unsqueeze(-1) * V.unsqueeze(-2)).cumsum(-3)
    above = (q.unsqueeze(-2) @ kv).squeeze(-2)
    below = (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)
    return above / below

# %% wrong causal_linear_attention: the running sums run along the width of the keys
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    kv = torch.einsum("...nd,...nv->...ndv", k, V).cumsum(dim=-2)
    z = k.cumsum(dim=-1)
    return torch.einsum("...nd,...ndv->...nv", q, kv) / (q * z).sum(-1, keepdim=True)

# %% wrong causal_linear_attention: a triangle of n x n weights
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    A = (q @ k.transpose(-1, -2)).tril()
    return (A @ V) / A.sum(-1, keepdim=True)

# %% wrong causal_linear_attention: the same matrix for all, not causal
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    above = q @ (k.transpose(-1, -2) @ V)
    below = (q * k.cumsum(-2)).sum(-1, keepdim=True)
    return above / below

# %% wrong causal_linear_attention: token i sees those from i on
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    S, z, out = 0, 0, []
    for i in reversed(range(Q.shape[-2])):
        S = S + k[..., i, :, None] * V[..., i, None, :]
        z = z + k[..., i, :]
        above = (q[..., i, :, None] * S).sum(-2)
        out.append(above / (q[..., i, :] * z).sum(-1, keepdim=True))
    return torch.stack(out[::-1], -2)

# %% wrong causal_linear_attention: the state is not set back between the sequences of a batch
def causal_linear_attention(Q, K, V):
    d_k, d_v = Q.shape[-1], V.shape[-1]
    q, k = nn.functional.elu(Q).reshape(-1, d_k) + 1, nn.functional.elu(K).reshape(-1, d_k) + 1
    v = V.reshape(-1, d_v)
    S, z, out = torch.zeros(d_k, d_v, dtype=Q.dtype), torch.zeros(d_k, dtype=Q.dtype), []
    for q_i, k_i, v_i in zip(q, k, v):
        S = S + torch.outer(k_i, v_i)
        z = z + k_i
        out.append(q_i @ S / (q_i @ z))
    return torch.stack(out).reshape(V.shape)

# %% wrong causal_linear_attention: the state is changed in place, and the way back fails
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    S = V.new_zeros(*Q.shape[:-2], Q.shape[-1], V.shape[-1])
    z = V.new_zeros(*Q.shape[:-2], Q.shape[-1], 1)
    out = []
    for i in range(Q.shape[-2]):
        S += k[..., i, :, None] * V[..., i, None, :]
        z += k[..., i, :, None]
        q_i = q[..., i, None, :]
        out.append((q_i @ S) / (q_i @ z))
    return torch.cat(out, -2)

# %% wrong causal_linear_attention: the state of the tokens before is detached
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    S, z, out = torch.zeros(()).to(V), torch.zeros(()).to(V), []
    for i in range(Q.shape[-2]):
        S = S.detach() + k[..., i, :, None] * V[..., i, None, :]
        z = z.detach() + k[..., i, :]
        above = torch.einsum("...d,...dv->...v", q[..., i, :], S)
        out.append(above / (q[..., i, :] * z).sum(-1, keepdim=True))
    return torch.stack(out, -2)

# %% wrong causal_linear_attention: the matrix has d_k x d_k, and values of another width do not fit
def causal_linear_attention(Q, K, V):
    d = Q.shape[-1]
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    S = torch.zeros(*Q.shape[:-2], d, d, dtype=Q.dtype)
    z = torch.zeros(*Q.shape[:-2], d, dtype=Q.dtype)
    out = torch.zeros_like(Q)
    for i in range(Q.shape[-2]):
        S = S + k[..., i, :, None] * V[..., i, None, :]
        z = z + k[..., i, :]
        out[..., i, :] = (q[..., i, None, :] @ S).squeeze(-2) / (q[..., i, :] * z).sum(-1, keepdim=True)
    return out

# %% right grouped_query_attention: one more axis for the groups, and einsum
def grouped_query_attention(Q, K, V):
    if Q.shape[1] % K.shape[1]:
        raise ValueError("h_q is no multiple of h_kv")
    if K.shape[:3] != V.shape[:3] or Q.shape[-1] != K.shape[-1]:
        raise ValueError("sizes do not fit")
    grouped = Q.unflatten(1, (K.shape[1], -1))
    scores = torch.einsum("bhgid,bhjd->bhgij", grouped, K) * Q.shape[-1] ** -0.5
    return torch.einsum("bhgij,bhjv->bhgiv", torch.softmax(scores, -1), V).flatten(1, 2)

# %% right grouped_query_attention: a loop over the query heads
def grouped_query_attention(Q, K, V):
    h_q, h_kv = Q.size(1), K.size(1)
    if h_q < h_kv or h_q % h_kv != 0:
        raise ValueError(f"{h_q} query heads, {h_kv} key heads")
    if V.size(1) != h_kv or V.size(2) != K.size(2) or Q.size(3) != K.size(3):
        raise ValueError("keys do not fit to queries or values")
    share = h_q // h_kv
    return torch.stack([full_attention(Q[:, i], K[:, i // share], V[:, i // share]) for i in range(h_q)], dim=1)

# %% right grouped_query_attention: the queries of a group one below the other, as more rows
def grouped_query_attention(Q, K, V):
    b, h_q, n_q, d_k = Q.shape
    b, h_kv, n_k, d_v = V.shape
    if h_q % h_kv or K.shape[1] != h_kv or K.shape[2] != n_k or K.shape[3] != d_k:
        raise ValueError("heads or sizes do not fit")
    rows = Q.reshape(b, h_kv, h_q // h_kv * n_q, d_k)
    return nn.functional.scaled_dot_product_attention(rows, K, V).reshape(b, h_q, n_q, d_v)

# %% wrong grouped_query_attention: key heads are repeated in turn, so that neighbours do not share
def grouped_query_attention(Q, K, V):
    h_q, h_kv = Q.shape[1], K.shape[1]
    if h_q % h_kv:
        raise ValueError("heads do not fit")
    groups = h_q // h_kv
    return full_attention(Q, K.repeat(1, groups, 1, 1), V.repeat(1, groups, 1, 1))

# %% wrong grouped_query_attention: keys of head i % h_kv with values of head i // (h_q / h_kv)
def grouped_query_attention(Q, K, V):
    h_q, h_kv = Q.shape[1], K.shape[1]
    if h_q % h_kv:
        raise ValueError("heads do not fit")
    heads = []
    for i in range(h_q):
        k, v = K[:, i % h_kv], V[:, i // (h_q // h_kv)]
        heads.append(full_attention(Q[:, i], k, v))
    return torch.stack(heads, 1)

# %% wrong grouped_query_attention: heads that do not divide are not refused
def grouped_query_attention(Q, K, V):
    h_q, h_kv = Q.shape[1], K.shape[1]
    share = -(-h_q // h_kv)
    index = torch.arange(h_q) // share
    return full_attention(Q, K[:, index], V[:, index])

# %% wrong grouped_query_attention: the queries of a group are averaged
def grouped_query_attention(Q, K, V):
    b, h_q, n_q, d_k = Q.shape
    h_kv = K.shape[1]
    if h_q % h_kv:
        raise ValueError("h_q is no multiple of h_kv")
    means = Q.view(b, h_kv, h_q // h_kv, n_q, d_k).mean(2)
    return full_attention(means, K, V).repeat_interleave(h_q // h_kv, 1)

# %% wrong grouped_query_attention: the query heads are reshaped with the group in front
def grouped_query_attention(Q, K, V):
    b, h_q, n_q, d_k = Q.shape
    h_kv = K.shape[1]
    if h_q % h_kv:
        raise ValueError("h_q is no multiple of h_kv")
    grouped = Q.reshape(b, h_q // h_kv, h_kv, n_q, d_k).transpose(1, 2)
    out = full_attention(grouped, K.unsqueeze(2), V.unsqueeze(2))
    return out.reshape(b, h_q, n_q, V.shape[-1])

# %% wrong grouped_query_attention: divided by the root of the width of the values
def grouped_query_attention(Q, K, V):
    groups = Q.shape[1] // K.shape[1]
    if groups * K.shape[1] != Q.shape[1]:
        raise ValueError("heads do not fit")
    K, V = K.repeat_interleave(groups, 1), V.repeat_interleave(groups, 1)
    S = Q @ K.transpose(-1, -2) / math.sqrt(V.shape[-1])
    return S.softmax(-1) @ V

# %% wrong grouped_query_attention: all query heads use the first head of values
def grouped_query_attention(Q, K, V):
    groups, rest = divmod(Q.shape[1], K.shape[1])
    if rest:
        raise ValueError("heads do not fit")
    S = Q @ K.repeat_interleave(groups, dim=1).transpose(-1, -2) / math.sqrt(Q.shape[-1])
    return S.softmax(-1) @ V[:, :1]

# %% wrong grouped_query_attention: the batch is repeated instead of the heads
def grouped_query_attention(Q, K, V):
    b, h_q, n_q, d_k = Q.shape
    h_kv = K.shape[1]
    if h_q % h_kv:
        raise ValueError("heads do not fit")
    g = h_q // h_kv
    K, V = K.repeat(g, 1, 1, 1).reshape(b, h_q, -1, d_k), V.repeat(g, 1, 1, 1).reshape(b, h_q, -1, V.shape[-1])
    return full_attention(Q, K, V)

# %% wrong grouped_query_attention: softmax over the queries
def grouped_query_attention(Q, K, V):
    b, h_q, n_q, d_k = Q.shape
    h_kv = K.shape[1]
    if h_q % h_kv != 0:
        raise ValueError("heads do not fit")
    q = Q.reshape(b, h_kv, h_q // h_kv, n_q, d_k)
    S = torch.einsum("bhgid,bhjd->bhgij", q, K) / d_k**0.5
    out = torch.einsum("bhgij,bhjv->bhgiv", S.softmax(3), V)
    return out.reshape(b, h_q, n_q, -1)

# %% wrong grouped_query_attention: a causal mask that nobody asked for
def grouped_query_attention(Q, K, V):
    groups = Q.shape[1] // K.shape[1]
    if Q.shape[1] % K.shape[1]:
        raise ValueError("heads do not fit")
    K, V = K.repeat_interleave(groups, 1), V.repeat_interleave(groups, 1)
    mask = torch.ones(Q.shape[-2], K.shape[-2], dtype=torch.bool).tril(K.shape[-2] - Q.shape[-2])
    return full_attention(Q, K, V, mask)

# %% right KVCache: a list of copies for each, joined anew in each call
class KVCache:
    def __init__(self):
        self.keys, self.values = [], []

    def append(self, k, v):
        if k.shape[:-1] != v.shape[:-1]:
            raise ValueError("keys and values differ in number")
        for kept, new in ((self.keys, k), (self.values, v)):
            if kept and (kept[0].shape[:-2] != new.shape[:-2] or kept[0].shape[-1] != new.shape[-1]):
                raise ValueError("does not fit to what is kept")
        self.keys.append(k.clone())
        self.values.append(v.clone())
        return torch.cat(self.keys, dim=-2), torch.cat(self.values, dim=-2)

# %% right KVCache: a pair of tensors that torch.cat makes anew, the first time from nothing
class KVCache:
    def __init__(self):
        self._kept = None

    @staticmethod
    def _join(old, new):
        if old.dim() != new.dim():
            raise ValueError("not as many axes as before")
        return torch.cat([old, new], -2)

    def append(self, k, v):
        if k.size(-2) != v.size(-2):
            raise ValueError("more keys than values, or fewer")
        old_k, old_v = self._kept or (k[..., :0, :], v[..., :0, :])
        joined = self._join(old_k, k), self._join(old_v, v)
        self._kept = joined
        return joined

# %% right KVCache: token by token in lists, stacked for each answer
class KVCache:
    def __init__(self):
        self.tokens_k = ()
        self.tokens_v = ()

    def append(self, k, v):
        if k.shape[-2] != v.shape[-2]:
            raise ValueError(f"{k.shape[-2]} keys and {v.shape[-2]} values")
        tokens_k = self.tokens_k + tuple(token.clone() for token in k.unbind(-2))
        tokens_v = self.tokens_v + tuple(token.clone() for token in v.unbind(-2))
        result = torch.stack(tokens_k, -2), torch.stack(tokens_v, -2)
        self.tokens_k, self.tokens_v = tokens_k, tokens_v
        return result

# %% wrong KVCache: what is appended first is kept itself, and changes with it
class KVCache:
    def __init__(self):
        self.k = None
        self.v = None

    def append(self, k, v):
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = torch.cat([self.k, k], dim=-2)
            self.v = torch.cat([self.v, v], dim=-2)
        return self.k, self.v

# %% wrong KVCache: lists of the class, which all caches share
class KVCache:
    keys = []
    values = []

    def __init__(self):
        pass

    def append(self, k, v):
        self.keys.append(k.clone())
        self.values.append(v.clone())
        return torch.cat(self.keys, -2), torch.cat(self.values, -2)

# %% wrong KVCache: joined along axis 1 rather than along the tokens
class KVCache:
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        self.k = k.clone() if self.k is None else torch.cat((self.k, k), 1)
        self.v = v.clone() if self.v is None else torch.cat((self.v, v), 1)
        return self.k, self.v

# %% wrong KVCache: the newest come first
class KVCache:
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        self.k = k.clone() if self.k is None else torch.cat((k, self.k), -2)
        self.v = v.clone() if self.v is None else torch.cat((v, self.v), -2)
        return self.k, self.v

# %% wrong KVCache: axis 2 is written for the tokens, right only with four axes
class KVCache:
    def __init__(self):
        self.parts = []

    def append(self, k, v):
        self.parts.append((k.clone(), v.clone()))
        return torch.cat([k for k, _ in self.parts], dim=2), torch.cat([v for _, v in self.parts], dim=2)

# %% wrong KVCache: what is kept is detached
class KVCache:
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        k_all = k.clone() if self.k is None else torch.cat((self.k, k), -2)
        v_all = v.clone() if self.v is None else torch.cat((self.v, v), -2)
        self.k, self.v = k_all.detach(), v_all.detach()
        return k_all, v_all

# %% wrong KVCache: room for 64 tokens and no more
class KVCache:
    def __init__(self, max_length=64):
        self.max_length = max_length
        self.n = 0

    def append(self, k, v):
        if self.n == 0:
            self.k = k.new_zeros(*k.shape[:-2], self.max_length, k.shape[-1])
            self.v = v.new_zeros(*v.shape[:-2], self.max_length, v.shape[-1])
        end = self.n + k.shape[-2]
        self.k[..., self.n : end, :] = k
        self.v[..., self.n : end, :] = v
        self.n = end
        return self.k[..., :end, :].clone(), self.v[..., :end, :].clone()

# %% wrong KVCache: keys and values in one tensor, which needs the same width of both
class KVCache:
    def __init__(self):
        self.kv = None

    def append(self, k, v):
        new = torch.stack([k, v])
        self.kv = new if self.kv is None else torch.cat([self.kv, new], dim=-2)
        return self.kv[0], self.kv[1]

# %% wrong KVCache: the tensor that was returned grows with the cache
class KVCache:
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        if self.k is None:
            self.k, self.v = k.clone(), v.clone()
        else:
            self.k.data = torch.cat([self.k.data, k], dim=-2)
            self.v.data = torch.cat([self.v.data, v], dim=-2)
        return self.k, self.v

# %% wrong KVCache: only the last token of what is appended is kept
class KVCache:
    def __init__(self):
        self.keys, self.values = [], []

    def append(self, k, v):
        self.keys.append(k[..., -1:, :].clone())
        self.values.append(v[..., -1:, :].clone())
        return torch.cat(self.keys, dim=-2), torch.cat(self.values, dim=-2)

"""Answers to 10-efficient."""

# %% right merge: a helper scales each part to the larger score, with 0 in the place of -inf
def rescaled(old, shift):
    m, l, u = old
    factor = torch.exp(m - shift)
    return factor * l, factor.unsqueeze(-1) * u


def merge(first, second):
    m = torch.maximum(first[0], second[0])
    shift = m.masked_fill(m == -math.inf, 0.0)  # exp(-inf - 0) is 0
    l1, u1 = rescaled(first, shift)
    l2, u2 = rescaled(second, shift)
    return m, l1 + l2, u1 + u2

# %% right merge: for each row the part with the larger score stays, and only the other one is scaled
def merge(first, second):
    (m1, l1, u1), (m2, l2, u2) = first, second
    swap = m2 > m1
    column = swap[..., None]
    m_big, m_small = torch.where(swap, m2, m1), torch.where(swap, m1, m2)
    l_big, l_small = torch.where(swap, l2, l1), torch.where(swap, l1, l2)
    u_big, u_small = torch.where(column, u2, u1), torch.where(column, u1, u2)
    floor = torch.finfo(m1.dtype).min
    ratio = torch.exp(m_small - m_big.clamp(min=floor))
    return m_big, l_big + ratio * l_small, u_big + ratio[..., None] * u_small

# %% right merge: each row has the two parts as its keys, and goes through part once more
def merge(first, second):
    scores = torch.stack([first[0], second[0]], dim=-1).unsqueeze(-2)  # (..., n, 1, 2)
    sums = torch.stack([first[1], second[1]], dim=-1).unsqueeze(-1)  # (..., n, 2, 1)
    values = torch.stack([first[2], second[2]], dim=-2)  # (..., n, 2, d_v)
    m, _, both = part(scores, torch.cat([sums, values], dim=-1))
    both = both.squeeze(-2)
    return m.squeeze(-1), both[..., 0], both[..., 1:]

# %% wrong merge: torch.where hides the NaN of two empty rows, which comes back in the gradients
def merge(first, second):
    m1, l1, u1 = first
    m2, l2, u2 = second
    m = torch.maximum(m1, m2)
    a = torch.where(m1 == -torch.inf, torch.zeros_like(m1), torch.exp(m1 - m))
    b = torch.where(m2 == -torch.inf, torch.zeros_like(m2), torch.exp(m2 - m))
    return m, a * l1 + b * l2, a[..., None] * u1 + b[..., None] * u2

# %% wrong merge: all is computed and returned in float32, whatever the dtype of the parts
def merge(first, second):
    m1, l1, u1 = (t.float() for t in first)
    m2, l2, u2 = (t.float() for t in second)
    m = torch.maximum(m1, m2)
    safe = torch.where(torch.isinf(m), torch.zeros_like(m), m)
    w1, w2 = torch.exp(m1 - safe), torch.exp(m2 - safe)
    return m, w1 * l1 + w2 * l2, w1[..., None] * u1 + w2[..., None] * u2

# %% wrong merge: the shift is kept above -10000, so parts whose scores lie a million below 0 vanish
def merge(first, second):
    m1, l1, u1 = first
    m2, l2, u2 = second
    m = torch.maximum(m1, m2)
    ref = m.clamp(min=-1e4)  # no -inf minus -inf
    a = (m1 - ref).exp()
    b = (m2 - ref).exp()
    return m, l1 * a + l2 * b, u1 * a.unsqueeze(-1) + u2 * b.unsqueeze(-1)

# %% wrong merge: undoes both shifts with exp(m), which overflows for scores in the thousands
def merge(first, second):
    m1, l1, u1 = first
    m2, l2, u2 = second
    m = torch.maximum(m1, m2)
    e1, e2 = torch.exp(m1), torch.exp(m2)
    down = torch.exp(-m.masked_fill(m == -torch.inf, 0))
    l = (e1 * l1 + e2 * l2) * down
    u = (e1[..., None] * u1 + e2[..., None] * u2) * down[..., None]
    return m, l, u

# %% wrong merge: one row without keys, and the whole part is thrown away
def merge(first, second):
    m1, l1, u1 = first
    m2, l2, u2 = second
    if (m1 == -torch.inf).any():
        return m2, l2, u2
    if (m2 == -torch.inf).any():
        return m1, l1, u1
    m = torch.maximum(m1, m2)
    a, b = torch.exp(m1 - m), torch.exp(m2 - m)
    return m, a * l1 + b * l2, a[..., None] * u1 + b[..., None] * u2

# %% wrong merge: the factors are constants without gradients
def merge(first, second):
    m1, l1, u1 = first
    m2, l2, u2 = second
    m = torch.maximum(m1, m2)
    with torch.no_grad():
        shift = m.masked_fill(m == -torch.inf, 0)
        a = torch.exp(m1 - shift)
        b = torch.exp(m2 - shift)
    l = a * l1 + b * l2
    u = a.unsqueeze(-1) * u1 + b.unsqueeze(-1) * u2
    return m, l, u

# %% wrong merge: the first part is scaled and added to in place
def merge(first, second):
    m1, l1, u1 = first
    m2, l2, u2 = second
    m = torch.maximum(m1, m2)
    shift = m.masked_fill(torch.isneginf(m), 0)
    a, b = torch.exp(m1 - shift), torch.exp(m2 - shift)
    l1 *= a
    l1 += b * l2
    u1 *= a[..., None]
    u1 += b[..., None] * u2
    return m, l1, u1

# %% wrong merge: two rows without keys get the score 0 instead of -inf
def merge(first, second):
    m1, l1, u1 = first
    m2, l2, u2 = second
    m = torch.maximum(m1, m2)
    m = m.masked_fill(m == float("-inf"), 0.0)
    a = torch.exp(m1 - m)
    b = torch.exp(m2 - m)
    return m, a * l1 + b * l2, a[..., None] * u1 + b[..., None] * u2

# %% wrong merge: u is divided by the sum already, so it cannot be merged again
def merge(first, second):
    m1, l1, u1 = first
    m2, l2, u2 = second
    m = torch.maximum(m1, m2)
    shift = m.masked_fill(m == -torch.inf, 0)
    a, b = torch.exp(m1 - shift), torch.exp(m2 - shift)
    l = a * l1 + b * l2
    u = (a[..., None] * u1 + b[..., None] * u2) / l.masked_fill(l == 0, 1)[..., None]
    return m, l, u

# %% wrong merge: one largest score for all rows of the table, so rows far below it vanish
def merge(first, second):
    m1, l1, u1 = first
    m2, l2, u2 = second
    top = torch.maximum(m1.max(), m2.max())
    top = top if top > -torch.inf else torch.zeros_like(top)
    a, b = torch.exp(m1 - top), torch.exp(m2 - top)
    m = torch.maximum(m1, m2)
    return m, a * l1 + b * l2, a[..., None] * u1 + b[..., None] * u2

# %% right chunked_attention: the last chunk first, and 0 only where -inf would be subtracted from itself
def chunked_attention(Q, K, V, chunk_size, causal=False):
    if chunk_size < 1 or K.shape[-2] != V.shape[-2]:
        raise ValueError("sizes")
    n_q, n_k = Q.shape[-2], K.shape[-2]
    Q = Q / math.sqrt(Q.shape[-1])
    m = Q.new_full((*Q.shape[:-1], 1), -torch.inf)
    total, mixed = torch.zeros_like(m), Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    for start in reversed(range(0, n_k, chunk_size)):
        k, v = K[..., start : start + chunk_size, :], V[..., start : start + chunk_size, :]
        S = Q @ k.transpose(-2, -1)
        if causal:
            later = torch.arange(start, start + k.shape[-2]) > torch.arange(n_q)[:, None] + n_k - n_q
            S = S.masked_fill(later, -torch.inf)
        new = torch.maximum(m, S.amax(-1, keepdim=True))
        base = new.masked_fill(new == -torch.inf, 0)
        E, keep = torch.exp(S - base), torch.exp(m - base)
        total, mixed = total * keep + E.sum(-1, keepdim=True), mixed * keep + E @ v
        m = new
    return mixed / total.masked_fill(total == 0, 1)

# %% wrong chunked_attention: the last chunk first, and 0 in the place of -inf is kept as the largest score
# As: the last chunk first, and 0 only where -inf would be subtracted from itself
# @@
# -         m = new
# +         m = base

# %% wrong chunked_attention: the largest score starts at -50000
# As: the last chunk first, and 0 only where -inf would be subtracted from itself
# @@
# -     for start in reversed(range(0, n_k, chunk_size)):
# +     for start in range(0, n_k, chunk_size):
# @@
# -     m = Q.new_full((*Q.shape[:-1], 1), -torch.inf)
# +     m = Q.new_full((*Q.shape[:-1], 1), -5e4)

# %% wrong chunked_attention: the factor of the old sums is exp(new - old)
# As: the last chunk first, and 0 only where -inf would be subtracted from itself
# @@
# -     for start in reversed(range(0, n_k, chunk_size)):
# +     for start in range(0, n_k, chunk_size):
# @@
# -         E, keep = torch.exp(S - base), torch.exp(m - base)
# +         E, keep = torch.exp(S - base), torch.exp(base - m)

# %% wrong linear_attention: torch.where between x + 1 and exp(x), whose gradient is NaN for large x
def linear_attention(Q, K, V):
    q, k = (torch.where(X > 0, X + 1, torch.exp(X)) for X in (Q, K))
    return q @ (k.transpose(-1, -2) @ V) / (q @ k.sum(-2).unsqueeze(-1))

# %% wrong KVCache: of several new tokens the last alone, except in the first call
class KVCache:
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        if self.k is None:
            self.k, self.v = k.clone(), v.clone()
        else:
            self.k = torch.cat([self.k, k[..., -1:, :]], dim=-2)
            self.v = torch.cat([self.v, v[..., -1:, :]], dim=-2)
        return self.k, self.v

# %% wrong merge: the largest score is never below 0
def merge(first, second):
    (m1, l1, u1), (m2, l2, u2) = first, second
    m = torch.maximum(torch.maximum(m1, m2), torch.zeros_like(m1))
    a, b = torch.exp(m1 - m), torch.exp(m2 - m)
    return m, a * l1 + b * l2, a[..., None] * u1 + b[..., None] * u2

# %% wrong merge: rows without keys get the lowest number in the given parts, and -inf in the result
def merge(first, second):
    (m1, l1, u1), (m2, l2, u2) = first, second
    m = torch.maximum(m1, m2)
    with torch.no_grad():
        for own in (m1, m2):
            own.masked_fill_(own == -torch.inf, torch.finfo(own.dtype).min)
    larger = torch.maximum(m1, m2)
    a, b = torch.exp(m1 - larger), torch.exp(m2 - larger)
    return m, a * l1 + b * l2, a[..., None] * u1 + b[..., None] * u2

# %% wrong merge: -inf is overwritten by -1e30 in the given parts
def merge(first, second):
    (m1, l1, u1), (m2, l2, u2) = first, second
    m1[m1 == -torch.inf] = -1e30
    m2[m2 == -torch.inf] = -1e30
    m = torch.maximum(m1, m2)
    a, b = torch.exp(m1 - m), torch.exp(m2 - m)
    return m, a * l1 + b * l2, a[..., None] * u1 + b[..., None] * u2

# %% wrong merge: the factors of the rows are multiplied by u without a dimension for its columns
def merge(first, second):
    (m1, l1, u1), (m2, l2, u2) = first, second
    m = torch.maximum(m1, m2)
    base = m.masked_fill(m == -torch.inf, 0)
    a, b = torch.exp(m1 - base), torch.exp(m2 - base)
    return m, a * l1 + b * l2, a * u1 + b * u2

# %% wrong chunked_attention: the largest score so far starts at 0
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    Q = Q / math.sqrt(Q.shape[-1])
    mu = Q.new_zeros(*Q.shape[:-1], 1)
    total = torch.zeros_like(mu)
    u = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    last = torch.arange(n_q)[:, None] + n_k - n_q
    for start in range(0, n_k, chunk_size):
        S = Q @ K[..., start : start + chunk_size, :].transpose(-2, -1)
        if causal:
            S = S.masked_fill(start + torch.arange(S.shape[-1]) > last, -torch.inf)
        new = torch.maximum(mu, S.amax(-1, keepdim=True))
        E = torch.exp(S - new)
        shrink = torch.exp(mu - new)
        total = shrink * total + E.sum(-1, keepdim=True)
        u = shrink * u + E @ V[..., start : start + chunk_size, :]
        mu = new
    return u / total.masked_fill(total == 0, 1)

# %% wrong chunked_attention: causal counts from the beginning, right for as many queries as keys
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, d_k = Q.shape[-2:]
    Q = Q / math.sqrt(d_k)
    m = torch.full_like(Q[..., :1], -torch.inf)
    total = torch.zeros_like(m)
    u = Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    first = 0
    for k, v in zip(K.split(chunk_size, dim=-2), V.split(chunk_size, dim=-2)):
        S = Q @ k.transpose(-2, -1)
        if causal:
            later = torch.arange(first, first + k.shape[-2]) > torch.arange(n_q)[:, None]
            S = S.masked_fill(later, -torch.inf)
        m_new = torch.maximum(m, S.amax(-1, keepdim=True))
        safe = m_new.masked_fill(m_new == -torch.inf, 0)
        E = (S - safe).exp()
        old = (m - safe).exp()
        total, u, m = old * total + E.sum(-1, keepdim=True), old * u + E @ v, m_new
        first += k.shape[-2]
    return u / total.masked_fill(total == 0, 1)

# %% right chunked_attention: a few queries at a time instead, each with all of its keys
def chunked_attention(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    if chunk_size < 1 or Q.shape[-1] != K.shape[-1] or V.shape[-2] != n_k:
        raise ValueError("sizes do not match")
    results = []
    for start in range(0, n_q, 8):
        q = Q[..., start : start + 8, :] / math.sqrt(Q.shape[-1])
        S = torch.matmul(q, K.mT)
        if causal:
            i = torch.arange(start, start + q.shape[-2])[:, None]
            hidden = torch.arange(n_k) > i + (n_k - n_q)
            blind = hidden.all(dim=-1, keepdim=True)
            S = S.masked_fill(hidden & ~blind, -torch.inf)
            results.append((S.softmax(-1) @ V).masked_fill(blind, 0))
        else:
            results.append(S.softmax(-1) @ V)
    return torch.cat(results, dim=-2)

# %% wrong local_attention: pads with keys of zeros, which get a weight near the ends
def local_attention(Q, K, V, window):
    n = Q.shape[-2]
    window = min(window, n - 1)
    Q = Q / math.sqrt(Q.shape[-1])
    K = nn.functional.pad(K, (0, 0, window, window))
    V = nn.functional.pad(V, (0, 0, window, window))
    own_keys = K.unfold(-2, 2 * window + 1, 1)  # (..., n, d_k, 2 window + 1)
    own_values = V.unfold(-2, 2 * window + 1, 1)
    A = torch.einsum("...nd,...ndw->...nw", Q, own_keys).softmax(-1)
    return torch.einsum("...nw,...ndw->...nd", A, own_values)

# %% wrong local_attention: the slice of an early token starts at a negative number, so it has no keys
def local_attention(Q, K, V, window):
    n, d = Q.shape[-2:]
    rows = []
    for i in range(n):
        near = slice(i - window, i + window + 1)
        s = (Q[..., i : i + 1, :] / math.sqrt(d)) @ K[..., near, :].transpose(-2, -1)
        rows.append(s.softmax(-1) @ V[..., near, :])
    return torch.cat(rows, dim=-2)

# %% right local_attention: one diagonal of the band after the other
def local_attention(Q, K, V, window):
    n, d = Q.shape[-2:]
    if window < 0 or K.shape[-2] != n or V.shape[-2] != n or K.shape[-1] != d:
        raise ValueError("sizes do not match")
    Q = Q / math.sqrt(d)
    steps = range(-min(window, n - 1), min(window, n - 1) + 1)
    band = []
    for step in steps:  # query i meets key i + step
        low, high = max(0, -step), min(n, n - step)
        s = (Q[..., low:high, :] * K[..., low + step : high + step, :]).sum(-1)
        band.append(nn.functional.pad(s, (low, n - high), value=-torch.inf))
    A = torch.stack(band, dim=-1).softmax(dim=-1)
    Z = 0
    for place, step in enumerate(steps):
        low, high = max(0, -step), min(n, n - step)
        z = A[..., low:high, place, None] * V[..., low + step : high + step, :]
        Z = Z + nn.functional.pad(z, (0, 0, low, n - high))
    return Z

# %% wrong linear_attention: brackets on the left, so all n_q x n_k weights are in memory
def linear_attention(Q, K, V):
    q = nn.functional.elu(Q) + 1
    k = nn.functional.elu(K) + 1
    weights = q @ k.transpose(-2, -1)
    return (weights @ V) / weights.sum(-1, keepdim=True)

# %% wrong linear_attention: elu works in place and changes the caller's queries and keys
def linear_attention(Q, K, V):
    q = nn.functional.elu(Q, inplace=not Q.requires_grad) + 1
    k = nn.functional.elu(K, inplace=not K.requires_grad) + 1
    state = k.transpose(-2, -1) @ V
    norm = q @ k.sum(-2).unsqueeze(-1)
    return (q @ state) / norm

# %% right linear_attention: a column of ones in the values gives the denominator
def linear_attention(Q, K, V):
    if Q.shape[-1] != K.shape[-1] or K.shape[-2] != V.shape[-2]:
        raise ValueError("sizes do not match")

    def features(x):
        return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))

    ones = torch.ones_like(V[..., :1])
    table = torch.einsum("...nd,...nv->...dv", features(K), torch.cat([V, ones], dim=-1))
    both = torch.matmul(features(Q), table)
    return both[..., :-1] / both[..., -1:]

# %% wrong causal_linear_attention: the denominator is the sum over all keys, later ones too
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    state = (k[..., :, None] * V[..., None, :]).cumsum(-3)
    top = (q[..., None, :] @ state).squeeze(-2)
    bottom = q @ k.sum(-2)[..., None]
    return top / bottom

# %% wrong causal_linear_attention: runs along axis 1, which is the tokens only with one leading dimension
def causal_linear_attention(Q, K, V):
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    state = torch.cumsum(k.unsqueeze(-1) * V.unsqueeze(-2), dim=1)
    norm = torch.cumsum(k, dim=1)
    top = torch.einsum("...nd,...ndv->...nv", q, state)
    return top / (q * norm).sum(-1, keepdim=True)

# %% right causal_linear_attention: chunks of 16 tokens with a triangle in each
def causal_linear_attention(Q, K, V):
    n = Q.shape[-2]
    if K.shape != Q.shape or V.shape[-2] != n:
        raise ValueError("sizes do not match")
    V = torch.cat([V, torch.ones_like(V[..., :1])], dim=-1)
    state = 0 * (K[..., :1, :].transpose(-2, -1) * V[..., :1, :])
    results = []
    for q, k, v in zip(*(x.split(16, dim=-2) for x in (Q, K, V))):
        q, k = 1 + nn.functional.elu(q), 1 + nn.functional.elu(k)
        both = q @ state + (q @ k.mT).tril() @ v
        results.append(both[..., :-1] / both[..., -1:])
        state = state + k.mT @ v
    return torch.cat(results, dim=-2)

# %% wrong grouped_query_attention: repeats the key heads in turn, not each for its neighbors
def grouped_query_attention(Q, K, V):
    h_q, h_kv = Q.shape[1], K.shape[1]
    if h_q % h_kv:
        raise ValueError(f"{h_q} is not a multiple of {h_kv}")
    K = K.repeat(1, h_q // h_kv, 1, 1)
    V = V.repeat(1, h_q // h_kv, 1, 1)
    S = Q / math.sqrt(Q.shape[-1]) @ K.transpose(-2, -1)
    return S.softmax(-1) @ V

# %% wrong grouped_query_attention: spreads any number of heads over the key heads without an error
def grouped_query_attention(Q, K, V):
    h_q, h_kv = Q.shape[1], K.shape[1]
    own = [i * h_kv // h_q for i in range(h_q)]
    return full_attention(Q, K[:, own], V[:, own])

# %% right grouped_query_attention: the query heads of a group are more rows of one head
def grouped_query_attention(Q, K, V):
    b, h_q, n_q, d_k = Q.shape
    h_kv = K.shape[1]
    if h_kv > h_q or h_q % h_kv:
        raise ValueError("the heads cannot be shared evenly")
    if V.shape[:3] != K.shape[:3] or K.shape[-1] != d_k:
        raise ValueError("keys, values and queries do not match")
    rows = Q.reshape(b, h_kv, h_q // h_kv * n_q, d_k)
    Z = torch.softmax((rows / math.sqrt(d_k)) @ K.mT, dim=-1) @ V
    return Z.reshape(b, h_q, n_q, -1)

# %% wrong KVCache: the lists belong to the class, so all caches share them
class KVCache:
    keys, values = [], []

    def __init__(self):
        pass

    def append(self, k, v):
        if k.shape[-2] != v.shape[-2]:
            raise ValueError("as many keys as values, please")
        self.keys.append(k.clone())
        self.values.append(v.clone())
        return torch.cat(self.keys, dim=-2), torch.cat(self.values, dim=-2)

# %% wrong KVCache: keeps the first tensors themselves, not copies of them
class KVCache:
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        if k.shape[-2] != v.shape[-2]:
            raise ValueError("numbers differ")
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = torch.cat([self.k, k], dim=-2)
            self.v = torch.cat([self.v, v], dim=-2)
        return self.k, self.v

# %% right KVCache: a dictionary of lists of copies, put together for each call
class KVCache:
    def __init__(self):
        self.parts = {"k": [], "v": []}

    def append(self, k, v):
        if k.shape[-2] != v.shape[-2]:
            raise ValueError("keys and values differ in number")
        new = {"k": self.parts["k"] + [k.clone()], "v": self.parts["v"] + [v.clone()]}
        result = tuple(torch.cat(new[name], dim=-2) for name in ("k", "v"))
        self.parts = new  # only if nothing was raised
        return result

# %% wrong merge: one comparison decides for all rows which part has the larger score
def merge(first, second):
    (m1, l1, u1), (m2, l2, u2) = first, second
    if m1.max() < m2.max():
        m1, l1, u1, m2, l2, u2 = m2, l2, u2, m1, l1, u1
    empty = m1 == -torch.inf
    factor = torch.exp(m2 - m1.masked_fill(empty, 0))
    return m1, l1 + factor * l2, u1 + factor[..., None] * u2

# %% wrong merge: hides the NaN of two empty rows with where, so it comes back in the gradients
def merge(first, second):
    (m1, l1, u1), (m2, l2, u2) = first, second
    m = torch.maximum(m1, m2)
    a = torch.where(m1 == -torch.inf, 0.0, torch.exp(m1 - m)).to(m.dtype)
    b = torch.where(m2 == -torch.inf, 0.0, torch.exp(m2 - m)).to(m.dtype)
    return m, a * l1 + b * l2, a.unsqueeze(-1) * u1 + b.unsqueeze(-1) * u2

# %% right merge: stacks both parts along a new axis in front
def merge(first, second):
    M, L, U = (torch.stack(pair) for pair in zip(first, second))
    m = M.amax(dim=0)
    base = torch.where(torch.isinf(m), torch.zeros_like(m), m)
    factors = (M - base).exp()
    return m, torch.einsum("p...,p...->...", factors, L), torch.einsum("p...,p...v->...v", factors, U)

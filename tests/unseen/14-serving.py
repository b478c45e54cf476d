"""Answers to 14-serving."""

# %% wrong paged_attention: the whole last page is read, with the rows after the last token
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    out = []
    for s in range(b):
        n = int(lengths[s])
        if n == 0:
            out.append(q.new_zeros(h, V_pages.shape[-1]))
            continue
        pages = table[s, : (n + P - 1) // P].long()
        K = K_pages[pages].flatten(0, 1).repeat_interleave(h // h_kv, dim=1)
        V = V_pages[pages].flatten(0, 1).repeat_interleave(h // h_kv, dim=1)
        A = (torch.einsum("hd,nhd->hn", q[s], K) / math.sqrt(d_k)).softmax(-1)
        out.append(torch.einsum("hn,nhd->hd", A, V))
    return torch.stack(out)

# %% wrong paged_attention: query head i uses key head i % h_kv
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    out = []
    for s in range(b):
        n = int(lengths[s])
        if n == 0:
            out.append(q.new_zeros(h, V_pages.shape[-1]))
            continue
        pages = table[s, : -(-n // P)].long()
        K = K_pages[pages].flatten(0, 1)[:n].repeat(1, h // h_kv, 1)
        V = V_pages[pages].flatten(0, 1)[:n].repeat(1, h // h_kv, 1)
        A = (torch.einsum("hd,nhd->hn", q[s], K) / math.sqrt(d_k)).softmax(-1)
        out.append(torch.einsum("hn,nhd->hd", A, V))
    return torch.stack(out)

# %% wrong paged_attention: scores are masked, but values in unused rows are not, and 0 * NaN is NaN
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    pages = table.long().clamp(min=0)
    K = K_pages[pages].flatten(1, 2).repeat_interleave(h // h_kv, 2)
    V = V_pages[pages].flatten(1, 2).repeat_interleave(h // h_kv, 2)
    valid = torch.arange(K.shape[1]) < lengths[:, None]
    S = torch.einsum("bhd,bnhd->bhn", q, K) / d_k**0.5
    S = S.masked_fill(~valid[:, None], float("-inf"))
    Z = torch.einsum("bhn,bnhd->bhd", S.softmax(-1), V)
    return torch.where((lengths > 0)[:, None, None], Z, 0.0)

# %% wrong paged_attention: keys in unused rows are masked after the product, so the gradient of q gets 0 * NaN
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    pages = table.long().clamp(min=0)
    K = K_pages[pages].flatten(1, 2).repeat_interleave(h // h_kv, 2)
    V = V_pages[pages].flatten(1, 2).repeat_interleave(h // h_kv, 2)
    valid = torch.arange(K.shape[1]) < lengths[:, None]
    V = V.masked_fill(~valid[:, :, None, None], 0.0)
    S = torch.einsum("bhd,bnhd->bhn", q, K) / d_k**0.5
    A = S.masked_fill(~valid[:, None], float("-inf")).softmax(-1)
    A = A.masked_fill(~valid[:, None], 0.0)
    return torch.einsum("bhn,bnhd->bhd", A, V)

# %% wrong paged_attention: scaled by the width of the values
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, _ = q.shape
    P, h_kv, d = V_pages.shape[1:]
    group = h // h_kv
    out = []
    for s in range(b):
        n = lengths[s].item()
        if n == 0:
            out.append(torch.zeros(h, d, dtype=q.dtype))
            continue
        t = torch.arange(n)
        page, row = table[s][t // P].long(), t % P
        K, V = K_pages[page, row], V_pages[page, row]  # (n, h_kv, d)
        Q = q[s].reshape(h_kv, group, -1)
        S = torch.einsum("kgd,nkd->kgn", Q, K) / math.sqrt(d)
        out.append(torch.einsum("kgn,nkd->kgd", S.softmax(-1), V).reshape(h, d))
    return torch.stack(out)

# %% wrong paged_attention: a sequence of length 0 gets NaN
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    h_kv = K_pages.shape[2]
    pages = table.long().clamp(min=0)
    valid = torch.arange(pages.shape[1] * K_pages.shape[1])[None] < lengths[:, None]
    K = K_pages[pages].flatten(1, 2).masked_fill(~valid[..., None, None], 0)
    V = V_pages[pages].flatten(1, 2).masked_fill(~valid[..., None, None], 0)
    q = q.reshape(b, h_kv, h // h_kv, d_k)
    S = torch.einsum("bkgd,bnkd->bkgn", q, K) * d_k**-0.5
    A = S.masked_fill(~valid[:, None, None], -torch.inf).softmax(-1)
    return torch.einsum("bkgn,bnkd->bkgd", A, V).reshape(b, h, -1)

# %% wrong paged_attention: an added mask of -inf and nan_to_num, so a sequence of length 0 has NaN gradients
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    h_kv = K_pages.shape[2]
    pages = table.long().clamp(min=0)
    valid = torch.arange(pages.shape[1] * K_pages.shape[1])[None] < lengths[:, None]
    K = K_pages[pages].flatten(1, 2).masked_fill(~valid[..., None, None], 0)
    V = V_pages[pages].flatten(1, 2).masked_fill(~valid[..., None, None], 0)
    bias = torch.zeros(valid.shape, dtype=q.dtype).masked_fill(~valid, -torch.inf)
    q = q.reshape(b, h_kv, h // h_kv, d_k)
    S = torch.einsum("bkgd,bnkd->bkgn", q, K) * d_k**-0.5 + bias[:, None, None]
    A = torch.nan_to_num(S.softmax(-1))
    return torch.einsum("bkgn,bnkd->bkgd", A, V).reshape(b, h, -1)

# %% wrong paged_attention: the last page has n % P rows, none if the length is at a page boundary
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    out = []
    for s in range(b):
        n = int(lengths[s])
        keys, values = [], []
        count = math.ceil(n / P)
        for j in range(count):
            page = int(table[s, j])
            rows = P if j < count - 1 else n % P
            keys.append(K_pages[page, :rows])
            values.append(V_pages[page, :rows])
        if not keys or sum(len(k) for k in keys) == 0:
            out.append(q.new_zeros(h, V_pages.shape[3]))
            continue
        K = torch.cat(keys).repeat_interleave(h // h_kv, dim=1)
        V = torch.cat(values).repeat_interleave(h // h_kv, dim=1)
        A = (torch.einsum("hd,nhd->hn", q[s], K) / math.sqrt(d_k)).softmax(-1)
        out.append(torch.einsum("hn,nhd->hd", A, V))
    return torch.stack(out)

# %% wrong paged_attention: take_along_dim, which does not allow an int32 table
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    out = []
    for s in range(b):
        n = int(lengths[s])
        if n == 0:
            out.append(q.new_zeros(h, V_pages.shape[-1]))
            continue
        pages = table[s, : -(-n // P)].reshape(-1, 1, 1, 1)
        K = torch.take_along_dim(K_pages, pages, dim=0).flatten(0, 1)[:n].repeat_interleave(h // h_kv, dim=1)
        V = torch.take_along_dim(V_pages, pages, dim=0).flatten(0, 1)[:n].repeat_interleave(h // h_kv, dim=1)
        A = (torch.einsum("hd,nhd->hn", q[s], K) / math.sqrt(d_k)).softmax(-1)
        out.append(torch.einsum("hn,nhd->hd", A, V))
    return torch.stack(out)

# %% wrong paged_attention: unused rows are those with NaN, though old numbers may be in them
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    h_kv, P = K_pages.shape[2], K_pages.shape[1]
    needed = torch.arange(table.shape[1]) * P < lengths[:, None]  # pages
    pages = torch.where(needed, table, 0).long()
    K, V = K_pages[pages].flatten(1, 2), V_pages[pages].flatten(1, 2)
    valid = needed.repeat_interleave(P, 1) & ~K.isnan().any(-1).any(-1)
    K = K.masked_fill(~valid[..., None, None], 0).repeat_interleave(h // h_kv, 2)
    V = V.masked_fill(~valid[..., None, None], 0).repeat_interleave(h // h_kv, 2)
    S = torch.einsum("bhd,bnhd->bhn", q, K) / math.sqrt(d_k)
    A = S.masked_fill(~valid[:, None], -torch.inf).softmax(-1).masked_fill(~valid[:, None], 0)
    return torch.einsum("bhn,bnhd->bhd", A, V)

# %% wrong paged_attention: masked scores are -100, which is not small if the others are smaller
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    h_kv = K_pages.shape[2]
    valid = torch.arange(table.shape[1] * K_pages.shape[1]) < lengths[:, None]
    pages = table.clamp(min=0).long()
    K, V = K_pages[pages].flatten(1, 2), V_pages[pages].flatten(1, 2)
    K = K.masked_fill(~valid[..., None, None], 0).repeat_interleave(h // h_kv, 2)
    V = V.masked_fill(~valid[..., None, None], 0).repeat_interleave(h // h_kv, 2)
    S = torch.einsum("bhd,bnhd->bhn", q, K) / math.sqrt(d_k)
    A = S.masked_fill(~valid[:, None], -100.0).softmax(-1)
    return torch.einsum("bhn,bnhd->bhd", A, V)

# %% wrong paged_attention: the result is filled into float32 zeros, also for float64 inputs
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv, d_v = V_pages.shape[1:]
    out = torch.zeros(b, h, d_v)
    for s in range(b):
        n = int(lengths[s])
        if n > 0:
            pages = table[s, : -(-n // P)].long()
            K = K_pages[pages].flatten(0, 1)[:n]
            V = V_pages[pages].flatten(0, 1)[:n]
            for i in range(h):
                k = i // (h // h_kv)
                weights = torch.softmax(K[:, k] @ q[s, i] / d_k**0.5, dim=0)
                out[s, i] = weights @ V[:, k]
    return out

# %% wrong paged_attention: the -1 in the caller's table become 0
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    h_kv = K_pages.shape[2]
    table[table < 0] = 0
    pages = table.long()
    valid = torch.arange(pages.shape[1] * K_pages.shape[1])[None] < lengths[:, None]
    K = K_pages[pages].flatten(1, 2).masked_fill(~valid[..., None, None], 0)
    V = V_pages[pages].flatten(1, 2).masked_fill(~valid[..., None, None], 0)
    q = q.reshape(b, h_kv, h // h_kv, d_k)
    S = torch.einsum("bkgd,bnkd->bkgn", q, K) * d_k**-0.5
    A = S.masked_fill(~valid[:, None, None], -torch.inf).softmax(-1)
    A = A.masked_fill(~valid[:, None, None], 0)
    return torch.einsum("bkgn,bnkd->bkgd", A, V).reshape(b, h, -1)

# %% wrong paged_attention: keys and values are copied from .data into a padded cache, without their gradient
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv, d_v = V_pages.shape[1:]
    longest = max(1, int(lengths.max()))
    K = torch.zeros(b, longest, h_kv, d_k, dtype=q.dtype)
    V = torch.zeros(b, longest, h_kv, d_v, dtype=q.dtype)
    for s in range(b):
        for t in range(int(lengths[s])):
            K[s, t] = K_pages.data[table[s, t // P], t % P]
            V[s, t] = V_pages.data[table[s, t // P], t % P]
    K, V = K.repeat_interleave(h // h_kv, 2), V.repeat_interleave(h // h_kv, 2)
    closed = torch.arange(longest) >= lengths[:, None]
    S = (torch.einsum("bhd,bnhd->bhn", q, K) / d_k**0.5).masked_fill(closed[:, None], -1e30)
    return torch.einsum("bhn,bnhd->bhd", S.softmax(-1), V)

# %% wrong paged_attention: exp without the maximum taken off, so large scores overflow
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv, d_v = V_pages.shape[1:]
    out = []
    for s in range(b):
        top, bottom = q.new_zeros(h, d_v), q.new_zeros(h, 1)
        for t in range(int(lengths[s])):
            page = int(table[s, t // P])
            k = K_pages[page, t % P].repeat_interleave(h // h_kv, 0)
            v = V_pages[page, t % P].repeat_interleave(h // h_kv, 0)
            w = torch.exp((q[s] * k).sum(-1, keepdim=True) / d_k**0.5)
            top, bottom = top + w * v, bottom + w
        out.append(top / bottom if lengths[s] > 0 else top)
    return torch.stack(out)

# %% wrong paged_attention: pages merged without scaling the old sum when the maximum grows
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv, d_v = V_pages.shape[1:]
    rows = []
    for s in range(b):
        n = int(lengths[s])
        m = q.new_full((h, 1), -torch.inf)
        total, u = q.new_zeros(h, 1), q.new_zeros(h, d_v)
        for j in range(-(-n // P)):
            page, count = int(table[s, j]), min(P, n - j * P)
            K = K_pages[page, :count].repeat_interleave(h // h_kv, 1)
            V = V_pages[page, :count].repeat_interleave(h // h_kv, 1)
            S = torch.einsum("hd,nhd->hn", q[s], K) / math.sqrt(d_k)
            m = torch.maximum(m, S.amax(-1, keepdim=True))
            w = (S - m).exp()
            total = total + w.sum(-1, keepdim=True)
            u = u + torch.einsum("hn,nhd->hd", w, V)
        rows.append(u / total if n else u)
    return torch.stack(rows)

# %% wrong paged_attention: counts the pages by entries that are not -1, though later ones may be any page
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    out = []
    for s in range(b):
        if lengths[s] == 0:
            out.append(torch.zeros(h, V_pages.shape[-1], dtype=q.dtype))
            continue
        pages = table[s][table[s] >= 0].long()
        last = (int(lengths[s]) - 1) % P + 1  # tokens on the last page
        K = K_pages[pages].flatten(0, 1)[: (len(pages) - 1) * P + last]
        V = V_pages[pages].flatten(0, 1)[: (len(pages) - 1) * P + last]
        K, V = K.repeat_interleave(h // h_kv, 1), V.repeat_interleave(h // h_kv, 1)
        A = (torch.einsum("hd,nhd->hn", q[s], K) / math.sqrt(d_k)).softmax(-1)
        out.append(torch.einsum("hn,nhd->hd", A, V))
    return torch.stack(out)

# %% wrong paged_attention: the pool is flattened with view, which some memory layouts do not allow
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    num, P, h_kv, d_v = V_pages.shape
    K_rows, V_rows = K_pages.view(num * P, h_kv, d_k), V_pages.view(num * P, h_kv, d_v)
    out = []
    for s in range(b):
        t = torch.arange(int(lengths[s]))
        rows = table[s, t // P].long() * P + t % P
        K, V = K_rows[rows], V_rows[rows]
        S = torch.einsum("kgd,nkd->kgn", q[s].reshape(h_kv, -1, d_k), K) / d_k**0.5
        out.append(torch.einsum("kgn,nkd->kgd", S.softmax(-1), V).reshape(h, d_v))
    return torch.stack(out)

# %% wrong paged_attention: pages in the order of the pool, so the wrong page is cut
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    out = []
    for s in range(b):
        n = int(lengths[s])
        if n == 0:
            out.append(q.new_zeros(h, V_pages.shape[-1]))
            continue
        mine = torch.zeros(len(K_pages), dtype=torch.bool)
        mine[table[s, : -(-n // P)].long()] = True
        K = K_pages[mine].flatten(0, 1)[:n].repeat_interleave(h // h_kv, 1)
        V = V_pages[mine].flatten(0, 1)[:n].repeat_interleave(h // h_kv, 1)
        A = (torch.einsum("hd,nhd->hn", q[s], K) / math.sqrt(d_k)).softmax(-1)
        out.append(torch.einsum("hn,nhd->hd", A, V))
    return torch.stack(out)

# %% wrong paged_attention: a length of 0 is raised to 1, to avoid an empty softmax
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    h_kv = K_pages.shape[2]
    pages = table.long().clamp(min=0)
    lengths = lengths.clamp(min=1)
    valid = torch.arange(pages.shape[1] * K_pages.shape[1])[None] < lengths[:, None]
    K = K_pages[pages].flatten(1, 2).masked_fill(~valid[..., None, None], 0)
    V = V_pages[pages].flatten(1, 2).masked_fill(~valid[..., None, None], 0)
    K, V = (X.transpose(1, 2).repeat_interleave(h // h_kv, 1) for X in (K, V))
    Z = torch.nn.functional.scaled_dot_product_attention(q[:, :, None], K, V, attn_mask=valid[:, None, None])
    return Z.squeeze(2)

# %% wrong paged_attention: everything is computed in float32 and cast back
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    rows = []
    for s in range(b):
        n = int(lengths[s])
        t = torch.arange(n)
        page = table[s, t // P].long()
        K = K_pages[page, t % P].float().repeat_interleave(h // h_kv, 1)
        V = V_pages[page, t % P].float().repeat_interleave(h // h_kv, 1)
        A = (torch.einsum("hd,nhd->hn", q[s].float(), K) / d_k**0.5).softmax(-1)
        rows.append(torch.einsum("hn,nhd->hd", A, V))
    return torch.stack(rows).to(q.dtype)

# %% right paged_attention: a loop over the sequences, as in the chapter
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1], K_pages.shape[2]
    if h % h_kv:
        raise ValueError("h is not a multiple of h_kv")
    out = []
    for s in range(b):
        n = int(lengths[s])
        if n > table.shape[1] * P:
            raise ValueError("a length is beyond the table")
        if n == 0:
            out.append(q.new_zeros(h, V_pages.shape[-1]))
            continue
        pages = table[s, : -(-n // P)].long()
        K = K_pages[pages].flatten(0, 1)[:n].repeat_interleave(h // h_kv, dim=1)
        V = V_pages[pages].flatten(0, 1)[:n].repeat_interleave(h // h_kv, dim=1)
        A = (torch.einsum("hd,nhd->hn", q[s], K) / math.sqrt(d_k)).softmax(-1)
        out.append(torch.einsum("hn,nhd->hd", A, V))
    return torch.stack(out)

# %% right paged_attention: vectorized, unused rows are replaced before the products
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    _, P, h_kv, d_v = V_pages.shape
    if h % h_kv or (lengths > table.shape[1] * P).any():
        raise ValueError("sizes do not match")
    t = torch.arange(table.shape[1] * P, device=q.device)
    valid = t < lengths[:, None]  # (b, N)
    page = torch.where(valid, table[:, t // P], 0).long()
    K = torch.where(valid[..., None, None], K_pages[page, t % P], 0.0)
    V = torch.where(valid[..., None, None], V_pages[page, t % P], 0.0)
    S = torch.einsum("bkgd,bnkd->bkgn", q.reshape(b, h_kv, h // h_kv, d_k), K) / math.sqrt(d_k)
    A = S.masked_fill(~valid[:, None, None], -torch.inf).softmax(-1)
    A = A.masked_fill(~valid[:, None, None], 0.0)
    return torch.einsum("bkgn,bnkd->bkgd", A, V).reshape(b, h, d_v)

# %% right paged_attention: PyTorch's attention with a mask, where an empty sequence sees zeros
def paged_attention(q, K_pages, V_pages, table, lengths):
    h, h_kv, P = q.shape[1], K_pages.shape[2], K_pages.shape[1]
    if h % h_kv or (len(lengths) and int(lengths.max()) > table.shape[1] * P):
        raise ValueError("sizes do not match")
    pages = table.clamp(min=0).long()
    seen = torch.arange(table.shape[1] * P) < lengths[:, None]

    def row(X):  # (num_pages, P, h_kv, d) -> (b, h, N, d)
        X = X[pages].flatten(1, 2).masked_fill(~seen[:, :, None, None], 0.0)
        return X.transpose(1, 2).repeat_interleave(h // h_kv, dim=1)

    mask = seen | (lengths == 0)[:, None]
    Z = torch.nn.functional.scaled_dot_product_attention(
        q.unsqueeze(2), row(K_pages), row(V_pages), attn_mask=mask[:, None, None, :]
    )
    return Z.squeeze(2)

# %% right paged_attention: page by page, with a running maximum
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv, d_v = V_pages.shape[1:]
    group, rest = divmod(h, h_kv)
    if rest:
        raise ValueError("h is not a multiple of h_kv")
    rows = []
    for s, n in enumerate(lengths.tolist()):
        Q = q[s].reshape(h_kv, group, d_k)
        m = q.new_full((h_kv, group, 1), -torch.inf)
        total, u = q.new_zeros(h_kv, group, 1), q.new_zeros(h_kv, group, d_v)
        for j in range(math.ceil(n / P)):
            page, count = int(table[s, j]), min(P, n - j * P)
            K = K_pages[page, :count].transpose(0, 1)  # (h_kv, count, d_k)
            V = V_pages[page, :count].transpose(0, 1)
            S = Q @ K.mT / math.sqrt(d_k)
            new = torch.maximum(m, S.amax(-1, keepdim=True))
            old, w = (m - new).exp(), (S - new).exp()
            total, u, m = old * total + w.sum(-1, keepdim=True), old * u + w @ V, new
        rows.append((u / total if n else u).reshape(h, d_v))
    return torch.stack(rows)

# %% right paged_attention: row numbers in the flat pool, and one head after another
def paged_attention(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    num, P, h_kv, d_v = V_pages.shape
    if h % h_kv:
        raise ValueError("h is not a multiple of h_kv")
    K_flat, V_flat = K_pages.reshape(num * P, h_kv, d_k), V_pages.reshape(num * P, h_kv, d_v)
    out = torch.zeros(b, h, d_v, dtype=q.dtype)
    for s in range(b):
        t = torch.arange(int(lengths[s]))
        where = table[s].long()[t // P] * P + t % P
        for i in range(h):
            g = i // (h // h_kv)
            scores = K_flat[where, g] @ q[s, i] / d_k**0.5
            out[s, i] = torch.softmax(scores, 0) @ V_flat[where, g]
    return out

# %% wrong packed_attention: tokens also see later ones of their sequence
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    K = K.repeat_interleave(h // K.shape[1], 1)
    V = V.repeat_interleave(h // V.shape[1], 1)
    text = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths, dtype=torch.long))
    seen = text[:, None] == text[None, :]
    S = torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k)
    A = S.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hij,jhd->ihd", A, V)

# %% wrong packed_attention: the ids of the sequences are their lengths, so those of equal length see each other
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    K = K.repeat_interleave(h // K.shape[1], 1)
    V = V.repeat_interleave(h // V.shape[1], 1)
    sizes = torch.tensor(lengths, dtype=torch.long)
    text = sizes.repeat_interleave(sizes)
    seen = (text[:, None] == text[None, :]) & torch.ones(n, n, dtype=torch.bool).tril()
    S = torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k)
    A = S.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hij,jhd->ihd", A, V)

# %% wrong packed_attention: only later sequences are closed, earlier ones are seen
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    K, V = (X.repeat_interleave(h // X.shape[1], 1) for X in (K, V))
    text = [i for i, length in enumerate(lengths) for _ in range(length)]
    seen = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(n):
            seen[i, j] = text[j] < text[i] or (text[i] == text[j] and j <= i)
    S = torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k)
    return torch.einsum("hij,jhd->ihd", S.masked_fill(~seen, -torch.inf).softmax(-1), V)

# %% wrong packed_attention: searchsorted from the left, so the first token belongs to the sequence before
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    K, V = (X.repeat_interleave(h // X.shape[1], 1) for X in (K, V))
    ends = torch.tensor(lengths, dtype=torch.long).cumsum(0)
    place = torch.arange(n)
    text = torch.searchsorted(ends, place)
    seen = (text[:, None] == text) & (place[:, None] >= place)
    S = torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k)
    A = S.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hij,jhd->ihd", A, V)

# %% wrong packed_attention: the loop ends at the first empty sequence
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    group = h // K.shape[1]
    Z = torch.zeros(n, h, V.shape[2], dtype=Q.dtype)
    begin = 0
    for length in lengths:
        if length == 0:
            break
        part = slice(begin, begin + length)
        q = Q[part].transpose(0, 1)
        k = K[part].repeat_interleave(group, 1).transpose(0, 1)
        v = V[part].repeat_interleave(group, 1).transpose(0, 1)
        closed = torch.ones(length, length).triu(1).bool()
        A = (q @ k.mT / math.sqrt(d_k)).masked_fill(closed, -torch.inf).softmax(-1)
        Z[part] = (A @ v).transpose(0, 1)
        begin += length
    return Z

# %% wrong packed_attention: marks where sequences begin, which is outside if the last one is empty
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    K, V = (X.repeat_interleave(h // X.shape[1], 1) for X in (K, V))
    mark = torch.zeros(n, dtype=torch.long)
    begin = 0
    for length in lengths:
        mark[begin] = 1
        begin += length
    text = mark.cumsum(0)
    place = torch.arange(n)
    seen = (text[:, None] == text) & (place[:, None] >= place)
    S = torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k)
    return torch.einsum("hij,jhd->ihd", S.masked_fill(~seen, -torch.inf).softmax(-1), V)

# %% wrong packed_attention: sequences of one token are skipped like empty ones, and stay 0
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    group = h // K.shape[1]
    Z = Q.new_zeros(n, h, V.shape[2])
    begin = 0
    for length in lengths:
        end = begin + length
        if end - begin > 1:
            q = Q[begin:end].transpose(0, 1)
            k = K[begin:end].repeat_interleave(group, 1).transpose(0, 1)
            v = V[begin:end].repeat_interleave(group, 1).transpose(0, 1)
            closed = torch.ones(length, length).triu(1).bool()
            A = (q @ k.mT / math.sqrt(d_k)).masked_fill(closed, -torch.inf).softmax(-1)
            Z[begin:end] = (A @ v).transpose(0, 1)
        begin = end
    return Z

# %% wrong packed_attention: the lengths are popped from the caller's list
def packed_attention(Q, K, V, lengths):
    h, d_k = Q.shape[1:]
    K, V = (X.repeat_interleave(h // X.shape[1], 1) for X in (K, V))
    results, begin = [Q.new_zeros(0, h, V.shape[2])], 0
    while lengths:
        length = lengths.pop(0)
        q, k, v = Q[begin : begin + length], K[begin : begin + length], V[begin : begin + length]
        S = torch.einsum("ihd,jhd->hij", q, k) / d_k**0.5
        seen = torch.ones(length, length, dtype=torch.bool).tril()
        results.append(torch.einsum("hij,jhd->ihd", S.masked_fill(~seen, -torch.inf).softmax(-1), v))
        begin += length
    return torch.cat(results)

# %% wrong packed_attention: scores outside of the mask are 0 instead of -inf
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    K, V = (X.repeat_interleave(h // X.shape[1], 1) for X in (K, V))
    blocks = [torch.ones(length, length) for length in lengths]
    seen = torch.block_diag(*blocks)[:n, :n].tril().to(Q.dtype)
    S = torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k) * seen
    return torch.einsum("hij,jhd->ihd", S.softmax(-1), V)

# %% wrong packed_attention: the mask multiplies the weights after the softmax, and they no longer sum to 1
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    K, V = (X.repeat_interleave(h // X.shape[1], 1) for X in (K, V))
    text = torch.tensor([s for s, m in enumerate(lengths) for _ in range(m)], dtype=torch.long)
    seen = (text[:, None] == text).tril()
    A = (torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k)).softmax(-1) * seen
    return torch.einsum("hij,jhd->ihd", A, V)

# %% wrong packed_attention: heads are put back with reshape instead of transpose
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    Q, K, V = Q.transpose(0, 1), K.transpose(0, 1), V.transpose(0, 1)
    K, V = (X.repeat_interleave(h // X.shape[0], 0) for X in (K, V))
    text = torch.tensor([s for s, m in enumerate(lengths) for _ in range(m)], dtype=torch.long)
    seen = (text[:, None] == text).tril()
    A = (Q @ K.mT / math.sqrt(d_k)).masked_fill(~seen, -torch.inf).softmax(-1)
    return (A @ V).reshape(n, h, -1)

# %% wrong packed_attention: one key head for each query head, or one for all; groups in between fail
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    text = torch.tensor([s for s, m in enumerate(lengths) for _ in range(m)], dtype=torch.long)
    seen = (text[:, None] == text).tril()
    S = Q.transpose(0, 1) @ K.permute(1, 2, 0) / math.sqrt(d_k)
    A = S.masked_fill(~seen, -torch.inf).softmax(-1)
    return (A @ V.transpose(0, 1)).transpose(0, 1)

# %% wrong packed_attention: exp without a maximum, so large scores overflow
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    K, V = (X.repeat_interleave(h // X.shape[1], 1) for X in (K, V))
    text = torch.tensor([s for s, m in enumerate(lengths) for _ in range(m)], dtype=torch.long)
    seen = (text[:, None] == text).tril()
    S = torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k)
    E = S.masked_fill(~seen, -torch.inf).exp()
    return torch.einsum("hij,jhd->ihd", E / E.sum(-1, keepdim=True), V)

# %% wrong packed_attention: float32 zeros for the result, also for float64
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    group = h // K.shape[1]
    Z = torch.zeros(n, h, V.shape[2])
    begin = 0
    for length in lengths:
        for i in range(begin, begin + length):
            for head in range(h):
                g = head // group
                w = (K[begin : i + 1, g] @ Q[i, head] / d_k**0.5).softmax(0)
                Z[i, head] = w @ V[begin : i + 1, g]
        begin += length
    return Z

# %% wrong packed_attention: the weights are computed without gradients
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    g = h // K.shape[1]
    text = torch.tensor([s for s, m in enumerate(lengths) for _ in range(m)], dtype=torch.long)
    seen = (text[:, None] == text).tril()
    with torch.no_grad():
        S = torch.einsum("ihd,jhd->hij", Q, K.repeat_interleave(g, 1)) / math.sqrt(d_k)
        A = S.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hij,jhd->ihd", A, V.repeat_interleave(g, 1))

# %% wrong packed_attention: scaled by the width of the values
def packed_attention(Q, K, V, lengths):
    h, d_k, d = Q.shape[1], K.shape[2], V.shape[2]
    group = h // K.shape[1]
    out = [Q.new_zeros(0, h, d)]
    for q, k, v in zip(Q.split(lengths), K.split(lengths), V.split(lengths)):
        n = len(q)
        S = torch.einsum("ihd,jhd->hij", q, k.repeat_interleave(group, 1)) / math.sqrt(d)
        S = S + torch.full((n, n), -torch.inf, dtype=S.dtype).triu(1)
        out.append(torch.einsum("hij,jhd->ihd", S.softmax(-1), v.repeat_interleave(group, 1)))
    return torch.cat(out)

# %% wrong packed_attention: query heads take the key heads in turn
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    heads = torch.arange(h) % K.shape[1]
    text = torch.tensor([s for s, m in enumerate(lengths) for _ in range(m)], dtype=torch.long)
    seen = (text[:, None] == text).tril()
    S = torch.einsum("ihd,jhd->hij", Q, K[:, heads]) / math.sqrt(d_k)
    return torch.einsum("hij,jhd->ihd", S.masked_fill(~seen, -torch.inf).softmax(-1), V[:, heads])

# %% wrong packed_attention: the mask times -inf, and 0 * inf is NaN
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    K, V = (X.repeat_interleave(h // X.shape[1], 1) for X in (K, V))
    seen = torch.block_diag(*[torch.ones(m, m) for m in lengths if m]).tril()
    S = torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k) + (1 - seen) * float("-inf")
    return torch.einsum("hij,jhd->ihd", S.softmax(-1), V)

# %% wrong packed_attention: the ends without a 0 in front, so the first sequence is left out
def packed_attention(Q, K, V, lengths):
    from itertools import accumulate, pairwise

    n, h, d_k = Q.shape
    group = h // K.shape[1]
    Z = torch.zeros(n, h, V.shape[2], dtype=Q.dtype)
    for begin, end in pairwise(accumulate(lengths)):
        q, k, v = (X[begin:end].transpose(0, 1) for X in (Q, K, V))
        k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
        closed = torch.ones(end - begin, end - begin).triu(1).bool()
        A = (q @ k.mT / math.sqrt(d_k)).masked_fill(closed, -torch.inf).softmax(-1)
        Z[begin:end] = (A @ v).transpose(0, 1)
    return Z

# %% right packed_attention: one mask for the whole row
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    if sum(lengths) != n or h % K.shape[1]:
        raise ValueError("sizes do not match")
    sizes = torch.tensor(lengths, dtype=torch.long)
    text = torch.arange(len(sizes)).repeat_interleave(sizes)
    place = torch.arange(n)
    seen = (text[:, None] == text) & (place[:, None] >= place)
    K = K.repeat_interleave(h // K.shape[1], dim=1)
    V = V.repeat_interleave(h // V.shape[1], dim=1)
    S = torch.einsum("ihd,jhd->hij", Q, K) / math.sqrt(d_k)
    A = S.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hij,jhd->ihd", A, V)

# %% right packed_attention: split into sequences, grouped einsum
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    h_kv, d_v = V.shape[1:]
    if h % h_kv or sum(lengths) != n:
        raise ValueError("sizes do not match")
    results = [Q.new_zeros(0, h, d_v)]
    for q, k, v in zip(Q.split(lengths), K.split(lengths), V.split(lengths)):
        m = len(q)
        if m == 0:
            continue
        S = torch.einsum("ikgd,jkd->kgij", q.reshape(m, h_kv, h // h_kv, d_k), k) * d_k**-0.5
        S = S.masked_fill(torch.ones(m, m, dtype=torch.bool).triu(1), -torch.inf)
        results.append(torch.einsum("kgij,jkd->ikgd", S.softmax(-1), v).reshape(m, h, d_v))
    return torch.cat(results)

# %% right packed_attention: PyTorch's causal attention for each sequence
def packed_attention(Q, K, V, lengths):
    from torch.nn.functional import scaled_dot_product_attention

    n, h, _ = Q.shape
    if h % K.shape[1] or sum(lengths) != n:
        raise ValueError("sizes do not match")
    Z = torch.zeros(n, h, V.shape[-1], dtype=Q.dtype, device=Q.device)
    end = 0
    for length in lengths:
        begin, end = end, end + length
        if length > 0:
            q, k, v = (X[begin:end].transpose(0, 1)[None] for X in (Q, K, V))
            k, v = (X.repeat_interleave(h // K.shape[1], dim=1) for X in (k, v))
            Z[begin:end] = scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1)
    return Z

# %% right packed_attention: each token looks back to where its sequence begins
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    if h % K.shape[1] or sum(lengths) != n:
        raise ValueError("sizes do not match")
    heads = torch.arange(h) // (h // K.shape[1])
    ends = torch.tensor([0, *lengths]).cumsum(0)
    place = torch.arange(n)
    begin = ends[torch.searchsorted(ends, place, right=True) - 1]
    seen = (place >= begin[:, None]) & (place <= place[:, None])
    S = Q.transpose(0, 1) @ K[:, heads].permute(1, 2, 0) / math.sqrt(d_k)
    S = torch.where(seen, S, -torch.inf)
    return (S.softmax(-1) @ V[:, heads].transpose(0, 1)).transpose(0, 1)

# %% right packed_attention: padded to a batch, and the padding taken out again
def packed_attention(Q, K, V, lengths):
    n, h, d_k = Q.shape
    group = h // K.shape[1]
    if group * K.shape[1] != h or sum(lengths) != n:
        raise ValueError("sizes do not match")
    pad = torch.nn.utils.rnn.pad_sequence
    if n == 0:
        return Q.new_zeros(0, h, V.shape[-1])
    Q, K, V = (pad(X.split(lengths), batch_first=True).transpose(1, 2) for X in (Q, K, V))  # (b, h, m, d)
    K, V = K.repeat_interleave(group, 1), V.repeat_interleave(group, 1)
    m = Q.shape[2]
    S = (Q @ K.mT / math.sqrt(d_k)).masked_fill(torch.ones(m, m).triu(1).bool(), -torch.inf)
    Z = (S.softmax(-1) @ V).transpose(1, 2)  # (b, m, h, d_v)
    return torch.cat([Z[s, :length] for s, length in enumerate(lengths)])

# %% wrong shared_pages: a page is found by its own tokens alone
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table = []
        for i in range(0, len(prompt), page_size):
            page = tuple(prompt[i : i + page_size])
            if len(page) == page_size and page in known:
                table.append(known[page])
            else:
                if len(page) == page_size:
                    known[page] = count
                table.append(count)
                count += 1
        tables.append(table)
    return tables, count

# %% wrong shared_pages: a page is found by its own tokens and its place, not by what comes before
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table = []
        for j in range(math.ceil(len(prompt) / page_size)):
            page = prompt[j * page_size : (j + 1) * page_size]
            key = (j, *page)
            if len(page) < page_size or key not in known:
                known[key] = count
                count += 1
            table.append(known[key])
        tables.append(table)
    return tables, count

# %% wrong shared_pages: pages that are not full are shared as well
def shared_pages(prompts, page_size):
    known, tables = {}, []
    for prompt in prompts:
        table = []
        for i in range(0, len(prompt), page_size):
            prefix = tuple(prompt[: i + page_size])
            table.append(known.setdefault(prefix, len(known)))
        tables.append(table)
    return tables, len(known)

# %% wrong shared_pages: the last page of a prompt is never shared, even if it is full
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table = []
        for i in range(0, len(prompt), page_size):
            prefix = tuple(prompt[: i + page_size])
            last = i + page_size >= len(prompt)
            if not last and prefix in known:
                table.append(known[prefix])
                continue
            if len(prefix) == i + page_size:
                known.setdefault(prefix, count)
            table.append(count)
            count += 1
        tables.append(table)
    return tables, count

# %% wrong shared_pages: the next number is the number of full pages, so pages that are not full collide
def shared_pages(prompts, page_size):
    known, tables, most = {}, [], 0
    for prompt in prompts:
        table = []
        for i in range(0, len(prompt), page_size):
            prefix = tuple(prompt[: i + page_size])
            if len(prefix) % page_size == 0:
                if prefix not in known:
                    known[prefix] = len(known)
                number = known[prefix]
            else:
                number = len(known)
            table.append(number)
            most = max(most, number + 1)
        tables.append(table)
    return tables, most

# %% wrong shared_pages: compared only with the prompt just before
def shared_pages(prompts, page_size):
    tables, count = [], 0
    before, before_table = [], []
    for prompt in prompts:
        table, same = [], True
        for j in range(-(-len(prompt) // page_size)):
            begin, end = j * page_size, (j + 1) * page_size
            same = same and end <= min(len(prompt), len(before)) and prompt[begin:end] == before[begin:end]
            if same:
                table.append(before_table[j])
            else:
                table.append(count)
                count += 1
        tables.append(table)
        before, before_table = prompt, table
    return tables, count

# %% wrong shared_pages: compared with the first prompt only
def shared_pages(prompts, page_size):
    tables, count = [], 0
    for prompt in prompts:
        table = []
        for i in range(0, len(prompt), page_size):
            end = i + page_size
            if tables and end <= len(prompt) and end <= len(prompts[0]) and prompt[:end] == prompts[0][:end]:
                table.append(tables[0][i // page_size])
            else:
                table.append(count)
                count += 1
        tables.append(table)
    return tables, count

# %% wrong shared_pages: the number of pages is read from the last table, which may share everything or be empty
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table = []
        for i in range(0, len(prompt), page_size):
            prefix = tuple(prompt[: i + page_size])
            if len(prefix) < i + page_size or prefix not in known:
                known[prefix] = count
                count += 1
            table.append(known[prefix])
        tables.append(table)
    return tables, tables[-1][-1] + 1 if tables and tables[-1] else 0

# %% wrong shared_pages: the largest number plus 1, which fails without any page
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table = []
        for i in range(0, len(prompt), page_size):
            prefix = tuple(prompt[: i + page_size])
            if len(prefix) < i + page_size or prefix not in known:
                known[prefix] = count
                count += 1
            table.append(known[prefix])
        tables.append(table)
    return tables, max(number for table in tables for number in table) + 1

# %% wrong shared_pages: the number of entries in all tables is returned
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table = []
        for i in range(0, len(prompt), page_size):
            prefix = tuple(prompt[: i + page_size])
            if len(prefix) < i + page_size or prefix not in known:
                known[prefix] = count
                count += 1
            table.append(known[prefix])
        tables.append(table)
    return tables, sum(len(table) for table in tables)

# %% wrong shared_pages: an empty prompt gets a page
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table = []
        for j in range(max(1, -(-len(prompt) // page_size))):
            prefix = tuple(prompt[: (j + 1) * page_size])
            full = len(prefix) == (j + 1) * page_size
            if full and prefix in known:
                table.append(known[prefix])
            else:
                if full:
                    known[prefix] = count
                table.append(count)
                count += 1
        tables.append(table)
    return tables, count

# %% wrong shared_pages: an empty prompt has no table
def shared_pages(prompts, page_size):
    root, tables, count = {}, [], 0
    for prompt in prompts:
        if not prompt:
            continue
        node, table = root, []
        for i in range(0, len(prompt), page_size):
            page = tuple(prompt[i : i + page_size])
            if len(page) < page_size:
                table.append(count)
                count += 1
            else:
                if page not in node:
                    node[page] = (count, {})
                    count += 1
                number, node = node[page]
                table.append(number)
        tables.append(table)
    return tables, count

# %% wrong shared_pages: tokens are joined to a string without a separator, so 1, 23 is 12, 3
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table, prefix = [], ""
        for i in range(0, len(prompt), page_size):
            page = prompt[i : i + page_size]
            prefix += "".join(str(token) for token in page) + "|"
            if len(page) < page_size:
                table.append(count)
                count += 1
                break
            if prefix not in known:
                known[prefix] = count
                count += 1
            table.append(known[prefix])
        tables.append(table)
    return tables, count

# %% wrong shared_pages: the prefix is hashed to a number, in which zeros at the beginning do not count
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table, code = [], 0
        for t, token in enumerate(prompt):
            code = code * 1_000_003 + token
            if (t + 1) % page_size == 0:
                if code not in known:
                    known[code] = count
                    count += 1
                table.append(known[code])
        if len(prompt) % page_size:
            table.append(count)
            count += 1
        tables.append(table)
    return tables, count

# %% wrong shared_pages: the tokens of a page are compared as sets
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table, before = [], None
        for i in range(0, len(prompt), page_size):
            page = prompt[i : i + page_size]
            key = (before, frozenset(page))
            if len(page) == page_size and key in known:
                before = known[key]
            else:
                if len(page) == page_size:
                    known[key] = count
                before = count
                count += 1
            table.append(before)
        tables.append(table)
    return tables, count

# %% wrong shared_pages: the pages found are kept from one call to the next
def shared_pages(prompts, page_size, known={}):
    tables, count = [], 0
    for prompt in prompts:
        table = []
        for i in range(0, len(prompt), page_size):
            prefix = tuple(prompt[: i + page_size])
            if len(prefix) == i + page_size and prefix in known:
                table.append(known[prefix])
            else:
                if len(prefix) == i + page_size:
                    known[prefix] = count
                table.append(count)
                count += 1
        tables.append(table)
    return tables, count

# %% wrong shared_pages: the pages are cut from the caller's prompts
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table, before = [], -1
        while prompt:
            page = tuple(prompt[:page_size])
            del prompt[:page_size]
            key = (before, page)
            if len(page) < page_size or key not in known:
                known[key] = count
                count += 1
            before = known[key]
            table.append(before)
        tables.append(table)
    return tables, count

# %% wrong shared_pages: numbers are given to the first pages of all prompts, then to the second ones
def shared_pages(prompts, page_size):
    known, count = {}, 0
    tables = [[] for _ in prompts]
    longest = max((len(prompt) for prompt in prompts), default=0)
    for i in range(0, longest, page_size):
        for table, prompt in zip(tables, prompts):
            if i >= len(prompt):
                continue
            prefix = tuple(prompt[: i + page_size])
            if len(prefix) < i + page_size or prefix not in known:
                known[prefix] = count
                count += 1
            table.append(known[prefix])
    return tables, count

# %% wrong shared_pages: the tokens after the last full page get no page
def shared_pages(prompts, page_size):
    known, tables = {}, []
    for prompt in prompts:
        table = []
        for j in range(len(prompt) // page_size):
            prefix = tuple(prompt[: (j + 1) * page_size])
            table.append(known.setdefault(prefix, len(known)))
        tables.append(table)
    return tables, len(known)

# %% wrong shared_pages: a prompt whose length is a multiple of the page size gets one more page
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table = []
        full = len(prompt) // page_size
        for j in range(full):
            prefix = tuple(prompt[: (j + 1) * page_size])
            if prefix not in known:
                known[prefix] = count
                count += 1
            table.append(known[prefix])
        if prompt:
            table.append(count)  # where the sequence goes on writing
            count += 1
        tables.append(table)
    return tables, count

# %% right shared_pages: a dictionary of whole prefixes
def shared_pages(prompts, page_size):
    known, tables, count = {}, [], 0
    for prompt in prompts:
        table = []
        for begin in range(0, len(prompt), page_size):
            end = begin + page_size
            prefix = tuple(prompt[:end])
            if end <= len(prompt) and prefix in known:
                table.append(known[prefix])
                continue
            if end <= len(prompt):
                known[prefix] = count
            table.append(count)
            count += 1
        tables.append(table)
    return tables, count

# %% right shared_pages: a tree of pages
class Node:
    def __init__(self, number):
        self.number = number
        self.children = {}


def shared_pages(prompts, page_size):
    root, tables, next_number = Node(None), [], 0
    for prompt in prompts:
        node, table = root, []
        full, rest = divmod(len(prompt), page_size)
        for j in range(full):
            page = tuple(prompt[j * page_size : (j + 1) * page_size])
            if page not in node.children:
                node.children[page] = Node(next_number)
                next_number += 1
            node = node.children[page]
            table.append(node.number)
        if rest:
            table.append(next_number)
            next_number += 1
        tables.append(table)
    return tables, next_number

# %% right shared_pages: the key is the number of the page before, and the tokens
def shared_pages(prompts, page_size):
    from itertools import count

    numbers, known = count(), {}

    def table_of(prompt):
        table, before = [], -1
        for i in range(0, len(prompt), page_size):
            page = tuple(prompt[i : i + page_size])
            if len(page) < page_size:
                table.append(next(numbers))
            else:
                if (before, page) not in known:
                    known[before, page] = next(numbers)
                before = known[before, page]
                table.append(before)
        return table

    tables = [table_of(prompt) for prompt in prompts]
    return tables, next(numbers)

# %% right shared_pages: compared with each earlier prompt, the one with most common pages is copied
def shared_pages(prompts, page_size):
    def common(one, other):
        """The number of full pages at the beginning that are the same."""
        j = 0
        while (j + 1) * page_size <= min(len(one), len(other)):
            if one[j * page_size : (j + 1) * page_size] != other[j * page_size : (j + 1) * page_size]:
                break
            j += 1
        return j

    tables, total = [], 0
    for r, prompt in enumerate(prompts):
        best = []
        for s in range(r):
            j = common(prompt, prompts[s])
            if j > len(best):
                best = tables[s][:j]
        new = math.ceil(len(prompt) / page_size) - len(best)
        tables.append(best + list(range(total, total + new)))
        total += new
    return tables, total

# %% wrong continuous_batching: the step after the last one
def continuous_batching(arrivals, steps, slots):
    import heapq

    free, ends = [0] * slots, [0] * len(steps)
    for r in sorted(range(len(steps)), key=lambda r: arrivals[r]):
        start = max(heapq.heappop(free), arrivals[r])
        ends[r] = start + steps[r]
        heapq.heappush(free, ends[r])
    return ends

# %% wrong continuous_batching: a slot is taken again in the step in which its request ends
def continuous_batching(arrivals, steps, slots):
    import heapq

    free, ends = [0] * slots, [0] * len(steps)
    for r in sorted(range(len(steps)), key=lambda r: (arrivals[r], r)):
        start = max(heapq.heappop(free), arrivals[r])
        ends[r] = start + steps[r] - 1
        heapq.heappush(free, ends[r])
    return ends

# %% wrong continuous_batching: in the order of the list, not of the arrivals
def continuous_batching(arrivals, steps, slots):
    free, ends = [0] * slots, []
    for arrival, count in zip(arrivals, steps):
        i = free.index(min(free))
        begin = max(free[i], arrival)
        free[i] = begin + count
        ends.append(begin + count - 1)
    return ends

# %% wrong continuous_batching: of those that arrived together, the shortest is first
def continuous_batching(arrivals, steps, slots):
    free, ends = [0] * slots, [0] * len(arrivals)
    for arrival, count, r in sorted(zip(arrivals, steps, range(len(arrivals)))):
        free.sort()
        begin = max(free[0], arrival)
        free[0] = begin + count
        ends[r] = begin + count - 1
    return ends

# %% wrong continuous_batching: the simulation ends in the first step in which nothing runs and no one waits
def continuous_batching(arrivals, steps, slots):
    ends = [0] * len(steps)
    left, running, t = sorted(range(len(steps)), key=lambda r: arrivals[r]), {}, min(arrivals, default=0)
    while True:
        while left and arrivals[left[0]] <= t and len(running) < slots:
            r = left.pop(0)
            running[r] = steps[r]
        if not running:
            return ends
        for r in list(running):
            running[r] -= 1
            if running[r] == 0:
                ends[r] = t
                del running[r]
        t += 1

# %% wrong continuous_batching: a request may begin before it arrives, if a slot is free
def continuous_batching(arrivals, steps, slots):
    import heapq

    free, ends = [0] * slots, [0] * len(steps)
    heapq.heapify(free)
    for r in sorted(range(len(steps)), key=arrivals.__getitem__):
        start = heapq.heappop(free)
        ends[r] = start + steps[r] - 1
        heapq.heappush(free, start + steps[r])
    return ends

# %% wrong continuous_batching: of those that wait, the shortest is first
def continuous_batching(arrivals, steps, slots):
    import heapq

    ends, waiting, running, t = [None] * len(steps), [], [], 0
    todo = sorted(range(len(steps)), key=lambda r: arrivals[r])
    while todo or waiting or running:
        while todo and arrivals[todo[0]] <= t:
            r = todo.pop(0)
            heapq.heappush(waiting, (steps[r], r))
        while waiting and len(running) < slots:
            count, r = heapq.heappop(waiting)
            ends[r] = t + count - 1
            running.append(r)
        running = [r for r in running if ends[r] > t]
        t += 1
    return ends

# %% wrong continuous_batching: only one request begins in each step
def continuous_batching(arrivals, steps, slots):
    from collections import deque

    ends, running, t = [0] * len(steps), [], 0
    queue = deque(sorted(range(len(steps)), key=lambda r: (arrivals[r], r)))
    while queue or running:
        running = [r for r in running if ends[r] >= t]
        if queue and arrivals[queue[0]] <= t and len(running) < slots:
            r = queue.popleft()
            ends[r] = t + steps[r] - 1
            running.append(r)
        t += 1
    return ends

# %% wrong continuous_batching: only one slot becomes free in each step, though two requests may end together
def continuous_batching(arrivals, steps, slots):
    ends, running, t = [0] * len(steps), [], 0
    queue = sorted(range(len(steps)), key=lambda r: arrivals[r])
    while queue or running:
        for r in running:
            if ends[r] < t:
                running.remove(r)
                break
        while queue and arrivals[queue[0]] <= t and len(running) < slots:
            r = queue.pop(0)
            ends[r] = t + steps[r] - 1
            running.append(r)
        t += 1
    return ends

# %% wrong continuous_batching: removes from the list that the loop goes through, so the request after is passed over
def continuous_batching(arrivals, steps, slots):
    left, ends = list(steps), [0] * len(steps)
    queue = sorted(range(len(steps)), key=lambda r: arrivals[r])
    running, t = [], 0
    while queue or running:
        while queue and arrivals[queue[0]] <= t and len(running) < slots:
            running.append(queue.pop(0))
        for r in running:
            left[r] -= 1
            if left[r] == 0:
                ends[r] = t
                running.remove(r)
        t += 1
    return ends

# %% wrong continuous_batching: running requests are kept by the step in which they end, so only one of two remains
def continuous_batching(arrivals, steps, slots):
    ends, running, t = [0] * len(steps), {}, 0
    queue = sorted(range(len(steps)), key=lambda r: arrivals[r])
    while queue:
        running.pop(t - 1, None)
        while queue and arrivals[queue[0]] <= t and len(running) < slots:
            r = queue.pop(0)
            ends[r] = t + steps[r] - 1
            running[ends[r]] = r
        t += 1
    return ends

# %% wrong continuous_batching: whole batches, the next one begins when the longest request has ended
def continuous_batching(arrivals, steps, slots):
    order, ends, begin = sorted(range(len(steps)), key=lambda r: arrivals[r]), [0] * len(steps), 0
    while order:
        begin = max(begin, arrivals[order[0]])
        batch = [r for r in order if arrivals[r] <= begin][:slots]
        for r in batch:
            ends[r] = begin + steps[r] - 1
        begin = 1 + max(ends[r] for r in batch)
        order = order[len(batch) :]
    return ends

# %% wrong continuous_batching: the result is in the order of the arrivals
def continuous_batching(arrivals, steps, slots):
    import heapq

    free, ends = [0] * slots, []
    for arrival, count in sorted(zip(arrivals, steps), key=lambda pair: pair[0]):
        start = max(heapq.heappop(free), arrival)
        ends.append(start + count - 1)
        heapq.heappush(free, start + count)
    return ends

# %% wrong continuous_batching: the steps that are left are counted in the caller's list
def continuous_batching(arrivals, steps, slots):
    ends = [0] * len(steps)
    queue = sorted(range(len(steps)), key=lambda r: arrivals[r])
    running, t = [], 0
    while queue or running:
        while queue and arrivals[queue[0]] <= t and len(running) < slots:
            running.append(queue.pop(0))
        for r in running:
            steps[r] -= 1
            ends[r] = t
        running = [r for r in running if steps[r] > 0]
        t += 1
    return ends

# %% wrong continuous_batching: the request that came last is first
def continuous_batching(arrivals, steps, slots):
    ends, stack, busy, t = [0] * len(steps), [], [], 0
    while any(a >= t for a in arrivals) or stack or busy:
        stack += [r for r, a in enumerate(arrivals) if a == t]
        busy = [r for r in busy if ends[r] >= t]
        while stack and len(busy) < slots:
            r = stack.pop()
            ends[r] = t + steps[r] - 1
            busy.append(r)
        t += 1
    return ends

# %% wrong continuous_batching: slots are taken in turn, not the one that is free first
def continuous_batching(arrivals, steps, slots):
    free, ends = [0] * slots, [0] * len(steps)
    for i, r in enumerate(sorted(range(len(steps)), key=lambda r: arrivals[r])):
        begin = max(arrivals[r], free[i % slots])
        free[i % slots] = begin + steps[r]
        ends[r] = begin + steps[r] - 1
    return ends

# %% wrong continuous_batching: a request begins in the step after its arrival at the earliest
def continuous_batching(arrivals, steps, slots):
    ends, busy, t = [0] * len(steps), [], 0
    queue = sorted(range(len(steps)), key=lambda r: arrivals[r])
    while queue:
        busy = [end for end in busy if end >= t]
        while queue and arrivals[queue[0]] < t and len(busy) < slots:
            r = queue.pop(0)
            ends[r] = t + steps[r] - 1
            busy.append(ends[r])
        t += 1
    return ends

# %% wrong continuous_batching: the clock begins at the smallest arrival, which an empty list does not have
def continuous_batching(arrivals, steps, slots):
    ends, busy, t = [0] * len(steps), [], min(arrivals)
    queue = sorted(range(len(steps)), key=lambda r: arrivals[r])
    while queue:
        busy = [end for end in busy if end >= t]
        while queue and arrivals[queue[0]] <= t and len(busy) < slots:
            r = queue.pop(0)
            ends[r] = t + steps[r] - 1
            busy.append(ends[r])
        t += 1
    return ends

# %% wrong continuous_batching: requests by their arrival in a dictionary, so one of two that arrive together is lost
def continuous_batching(arrivals, steps, slots):
    import heapq

    at = {arrival: r for r, arrival in enumerate(arrivals)}
    free, ends = [0] * slots, [0] * len(steps)
    for arrival in sorted(at):
        r = at[arrival]
        start = max(heapq.heappop(free), arrival)
        ends[r] = start + steps[r] - 1
        heapq.heappush(free, start + steps[r])
    return ends

# %% wrong continuous_batching: sorted backwards by arrival and popped, so ties are served from the highest number
def continuous_batching(arrivals, steps, slots):
    queue = sorted(range(len(steps)), key=lambda r: arrivals[r], reverse=True)
    ends, busy, t = [0] * len(steps), [], 0
    while queue:
        busy = [end for end in busy if end >= t]
        while queue and arrivals[queue[-1]] <= t and len(busy) < slots:
            r = queue.pop()
            ends[r] = t + steps[r] - 1
            busy.append(ends[r])
        t += 1
    return ends

# %% right continuous_batching: a heap of the steps in which slots are free
def continuous_batching(arrivals, steps, slots):
    import heapq

    free, ends = [0] * slots, [0] * len(steps)
    for r in sorted(range(len(steps)), key=lambda r: arrivals[r]):
        start = max(heapq.heappop(free), arrivals[r])
        ends[r] = start + steps[r] - 1
        heapq.heappush(free, start + steps[r])
    return ends

# %% right continuous_batching: step by step, with a queue
def continuous_batching(arrivals, steps, slots):
    from collections import deque

    n = len(arrivals)
    ends, left = [None] * n, list(steps)
    waiting, running, t = deque(), [], 0
    while None in ends:
        waiting.extend(r for r in range(n) if arrivals[r] == t)
        while waiting and len(running) < slots:
            running.append(waiting.popleft())
        for r in running:
            left[r] -= 1
            if left[r] == 0:
                ends[r] = t
        running = [r for r in running if left[r] > 0]
        t += 1
    return ends

# %% right continuous_batching: a list of slots, the first free one is taken
def continuous_batching(arrivals, steps, slots):
    free_from = [0] * slots
    ends = {}
    for arrival, r in sorted((a, r) for r, a in enumerate(arrivals)):
        slot = min(range(slots), key=lambda i: free_from[i])
        begin = max(arrival, free_from[slot])
        free_from[slot] = begin + steps[r]
        ends[r] = begin + steps[r] - 1
    return [ends[r] for r in range(len(arrivals))]

# %% right continuous_batching: numpy, a stable sort
def continuous_batching(arrivals, steps, slots):
    import numpy as np

    free = np.zeros(slots, dtype=int)
    ends = np.zeros(len(steps), dtype=int)
    for r in np.argsort(arrivals, kind="stable"):
        i = free.argmin()
        free[i] = max(free[i], arrivals[r]) + steps[r]
        ends[r] = free[i] - 1
    return ends.tolist()

# %% right continuous_batching: from event to event, with jumps over steps in which nothing changes
def continuous_batching(arrivals, steps, slots):
    import heapq

    order = sorted(range(len(arrivals)), key=lambda r: (arrivals[r], r))
    running, ends, i, t = [], [0] * len(arrivals), 0, 0
    while i < len(order):
        while running and running[0] < t:
            heapq.heappop(running)
        if arrivals[order[i]] > t:
            t = arrivals[order[i]]
        elif len(running) == slots:
            t = running[0] + 1
        else:
            r = order[i]
            ends[r] = t + steps[r] - 1
            heapq.heappush(running, ends[r])
            i += 1
    return ends

# %% wrong accept: after a refusal the token is drawn from p
def accept(draft, p, q, u, v):
    def draw(weights):
        chance = weights / weights.sum()
        for x, total in enumerate(chance.cumsum(0).tolist()):
            if total > v:
                return x
        return int(chance.nonzero()[-1])

    tokens = []
    for i, x in enumerate(draft.tolist()):
        if not u[i] < p[i, x] / q[i, x]:
            return tokens + [draw(p[i])]
        tokens.append(x)
    return tokens + [draw(p[-1])]

# %% wrong accept: a token is also kept if u equals the ratio, so u = 0 keeps what the target never writes
def accept(draft, p, q, u, v):
    def draw(weights):
        chance = weights / weights.sum()
        for x, total in enumerate(chance.cumsum(0).tolist()):
            if total > v:
                return x
        return int(chance.nonzero()[-1])

    tokens = []
    for i, x in enumerate(draft.tolist()):
        if u[i] > p[i, x] / q[i, x]:
            return tokens + [draw((p[i] - q[i]).clamp(min=0))]
        tokens.append(x)
    return tokens + [draw(p[-1])]

# %% wrong accept: the residual is the absolute difference
def accept(draft, p, q, u, v):
    k = len(draft)
    i = 0
    while i < k and u[i] < p[i, draft[i]] / q[i, draft[i]]:
        i += 1
    weights = (p[i] - q[i]).abs() if i < k else p[k]
    sums = torch.cumsum(weights / weights.sum(), 0)
    above = (sums > v).nonzero()
    last = above[0] if len(above) else weights.nonzero()[-1]
    return draft[:i].tolist() + [int(last)]

# %% wrong accept: the residual is not divided by its sum
def accept(draft, p, q, u, v):
    k = len(draft)
    i = 0
    while i < k and u[i] < p[i, draft[i]] / q[i, draft[i]]:
        i += 1
    weights = (p[i] - q[i]).clamp(min=0) if i < k else p[k]
    above = (weights.cumsum(0) > v).nonzero()
    last = above[0] if len(above) else weights.nonzero()[-1]
    return draft[:i].tolist() + [int(last)]

# %% wrong accept: searchsorted from the left, so a sum that equals v is enough
def accept(draft, p, q, u, v):
    k = len(draft)
    i = 0
    while i < k and u[i] < p[i, draft[i]] / q[i, draft[i]]:
        i += 1
    weights = (p[i] - q[i]).clamp(min=0) if i < k else p[k]
    sums = (weights / weights.sum()).cumsum(0)
    x = int(torch.searchsorted(sums, torch.tensor(v, dtype=sums.dtype)))
    return draft[:i].tolist() + [min(x, int(weights.nonzero().max()))]

# %% wrong accept: if all are kept, nothing more is drawn
def accept(draft, p, q, u, v):
    tokens = []
    for i in range(len(draft)):
        x = int(draft[i])
        if u[i] < p[i, x] / q[i, x]:
            tokens.append(x)
            continue
        rest = torch.relu(p[i] - q[i])
        rest = rest / rest.sum()
        total = 0.0
        for y in range(len(rest)):
            total += rest[y].item()
            if total > v:
                break
        else:
            y = int(rest.nonzero()[-1])
        tokens.append(y)
        break
    return tokens

# %% wrong accept: if all are kept, the last token is drawn from the distribution before the last
def accept(draft, p, q, u, v):
    k = len(draft)
    i = 0
    while i < k and u[i] < p[i, draft[i]] / q[i, draft[i]]:
        i += 1
    weights = (p[i] - q[i]).clamp(min=0) if i < k else p[max(k - 1, 0)]
    above = ((weights / weights.sum()).cumsum(0) > v).nonzero()
    last = above[0] if len(above) else weights.nonzero()[-1]
    return draft[:i].tolist() + [int(last)]

# %% wrong accept: argmax of a comparison, which is token 0 if rounding leaves no token
def accept(draft, p, q, u, v):
    k = len(draft)
    n = k
    for i in range(k):
        if u[i] >= p[i, draft[i]] / q[i, draft[i]]:
            n = i
            break
    weights = (p[n] - q[n]).clamp(min=0) if n < k else p[k]
    sums = (weights / weights.sum()).cumsum(0)
    return draft[:n].tolist() + [(sums > v).int().argmax().item()]

# %% wrong accept: if rounding leaves none, the last token of the vocabulary, even with probability 0
def accept(draft, p, q, u, v):
    k = len(draft)
    n = k
    for i in range(k):
        if u[i] >= p[i, draft[i]] / q[i, draft[i]]:
            n = i
            break
    weights = (p[n] - q[n]).clamp(min=0) if n < k else p[k]
    sums = (weights / weights.sum()).cumsum(0)
    x = int(torch.searchsorted(sums, torch.tensor(v, dtype=sums.dtype), right=True))
    return draft[:n].tolist() + [min(x, len(sums) - 1)]

# %% wrong accept: if rounding leaves none, the last token that p allows, which the residual may not
def accept(draft, p, q, u, v):
    k, n = len(draft), 0
    while n < k and u[n] < p[n, draft[n]] / q[n, draft[n]]:
        n += 1
    rest = (p[n] - q[n]).clamp(min=0) if n < k else p[n]
    for x, total in enumerate((rest / rest.sum()).cumsum(0)):
        if total > v:
            return [*draft[:n].tolist(), x]
    return [*draft[:n].tolist(), int(torch.nonzero(p[n])[-1])]

# %% wrong accept: after the loop, i is used, which k = 0 does not have
def accept(draft, p, q, u, v):
    def draw(weights):
        sums = (weights / weights.sum()).cumsum(0)
        above = (sums > v).nonzero()
        return int(above[0] if len(above) else weights.nonzero()[-1])

    tokens = []
    for i in range(len(draft)):
        x = draft[i].item()
        if u[i] < p[i, x] / q[i, x]:
            tokens.append(x)
        else:
            tokens.append(draw((p[i] - q[i]).clamp(min=0)))
            return tokens
    tokens.append(draw(p[i + 1]))
    return tokens

# %% wrong accept: counts all kept tokens, also those after the first refusal
def accept(draft, p, q, u, v):
    k = draft.shape[0]
    place = torch.arange(k)
    kept = u < p[place, draft] / q[place, draft]
    n = int(kept.sum())
    weights = (p[n] - q[n]).clamp(min=0) if n < k else p[k]
    if weights.sum() == 0:
        weights = p[n]
    above = ((weights / weights.sum()).cumsum(0) > v).nonzero()
    last = above[0] if len(above) else weights.nonzero()[-1]
    return draft[:n].tolist() + [int(last)]

# %% wrong accept: a refused token is replaced, but the round goes on
def accept(draft, p, q, u, v):
    def draw(weights):
        sums = (weights / weights.sum()).cumsum(0)
        above = (sums > v).nonzero()
        return int(above[0] if len(above) else weights.nonzero()[-1])

    tokens = []
    for i, x in enumerate(draft.tolist()):
        kept = u[i] < p[i, x] / q[i, x]
        tokens.append(x if kept else draw((p[i] - q[i]).clamp(min=0)))
    tokens.append(draw(p[len(draft)]))
    return tokens

# %% wrong accept: the ratio is q / p
def accept(draft, p, q, u, v):
    k, n = len(draft), 0
    while n < k and u[n] < q[n, draft[n]] / p[n, draft[n]]:
        n += 1
    rest = (p[n] - q[n]).clamp(min=0) if n < k else p[n]
    if rest.sum() == 0:
        rest = p[n]
    for x, total in enumerate((rest / rest.sum()).cumsum(0)):
        if total > v:
            return [*draft[:n].tolist(), x]
    return [*draft[:n].tolist(), int(torch.nonzero(rest)[-1])]

# %% wrong accept: u is compared with the product of all ratios so far
def accept(draft, p, q, u, v):
    k = len(draft)
    rows = torch.arange(k)
    ratio = (p[rows, draft] / q[rows, draft]).clamp(max=1).cumprod(0)
    kept = (u < ratio).long().cumprod(0)
    n = int(kept.sum())
    weights = (p[n] - q[n]).clamp(min=0) if n < k else p[k]
    if weights.sum() == 0:
        weights = p[n]
    above = ((weights / weights.sum()).cumsum(0) > v).nonzero()
    last = above[0] if len(above) else weights.nonzero()[-1]
    return draft[:n].tolist() + [int(last)]

# %% wrong accept: p is changed in place into the residual
def accept(draft, p, q, u, v):
    k, n = len(draft), 0
    while n < k and u[n] < p[n, draft[n]] / q[n, draft[n]]:
        n += 1
    rest = p[n]
    if n < k:
        rest -= q[n]
        rest.clamp_(min=0)
    for x, total in enumerate((rest / rest.sum()).cumsum(0)):
        if total > v:
            return [*draft[:n].tolist(), x]
    return [*draft[:n].tolist(), int(torch.nonzero(rest)[-1])]

# %% wrong accept: the most probable tokens come first in the sums
def accept(draft, p, q, u, v):
    k, n = len(draft), 0
    while n < k and u[n] < p[n, draft[n]] / q[n, draft[n]]:
        n += 1
    rest = (p[n] - q[n]).clamp(min=0) if n < k else p[n]
    chances, tokens = (rest / rest.sum()).sort(descending=True, stable=True)
    above = (chances.cumsum(0) > v).nonzero()
    x = int(above[0]) if len(above) else int((chances > 0).sum()) - 1
    return draft[:n].tolist() + [int(tokens[x])]

# %% wrong accept: torch.multinomial instead of v
def accept(draft, p, q, u, v):
    k, n = len(draft), 0
    while n < k and u[n] < p[n, draft[n]] / q[n, draft[n]]:
        n += 1
    rest = (p[n] - q[n]).clamp(min=0) if n < k else p[n]
    return draft[:n].tolist() + [int(torch.multinomial(rest / rest.sum(), 1))]

# %% wrong accept: the last drafted token is not checked, but kept
def accept(draft, p, q, u, v):
    k, n = len(draft), 0
    while n < k and (n == k - 1 > 0 or u[n] < p[n, draft[n]] / q[n, draft[n]]):
        n += 1
    rest = (p[n] - q[n]).clamp(min=0) if n < k else p[n]
    above = ((rest / rest.sum()).cumsum(0) > v).nonzero()
    last = above[0] if len(above) else rest.nonzero()[-1]
    return draft[:n].tolist() + [int(last)]

# %% wrong accept: the list has tensors in it
def accept(draft, p, q, u, v):
    tokens = []
    for i, x in enumerate(draft):
        if u[i] >= p[i, x] / q[i, x]:
            rest = torch.clamp(p[i] - q[i], min=0)
            break
        tokens.append(x)
    else:
        rest = p[-1]
    above = ((rest / rest.sum()).cumsum(0) > v).nonzero()
    tokens.append(above[0, 0] if len(above) else rest.nonzero()[-1, 0])
    return tokens

# %% wrong accept: the residual is that of the next place
def accept(draft, p, q, u, v):
    k, n = len(draft), 0
    while n < k and u[n] < p[n, draft[n]] / q[n, draft[n]]:
        n += 1
    rest = p[min(n + 1, k)]
    if n < k:
        rest = (rest - q[n]).clamp(min=0)
        rest = rest if rest.sum() > 0 else p[n]
    above = ((rest / rest.sum()).cumsum(0) > v).nonzero()
    last = above[0] if len(above) else rest.nonzero()[-1]
    return draft[:n].tolist() + [int(last)]

# %% right accept: a loop with else
def accept(draft, p, q, u, v):
    tokens = []
    for i, x in enumerate(draft.tolist()):
        if u[i] < p[i, x] / q[i, x]:
            tokens.append(x)
        else:
            chance = (p[i] - q[i]).clamp(min=0)
            chance = chance / chance.sum()
            break
    else:
        chance = p[len(draft)]
    above = (chance.cumsum(0) > v).nonzero()
    last = above[0] if len(above) else chance.nonzero()[-1]
    return tokens + [last.item()]

# %% right accept: vectorized, with cumprod for the first refusal
def accept(draft, p, q, u, v):
    k = draft.shape[0]
    ratio = p[:k].gather(1, draft[:, None]) / q.gather(1, draft[:, None])
    n = int((u < ratio[:, 0]).long().cumprod(0).sum())
    rest = p[n] if n == k else torch.relu(p[n] - q[n])
    rest = rest / rest.sum()
    x = int(torch.searchsorted(rest.cumsum(0), torch.tensor(v, dtype=rest.dtype), right=True))
    last = int(rest.nonzero().max())
    return draft[:n].tolist() + [min(x, last)]

# %% right accept: numpy in float64
def accept(draft, p, q, u, v):
    import numpy as np

    draft, u = draft.numpy(), u.double().numpy()
    p, q = p.double().numpy(), q.double().numpy()
    places = np.arange(len(draft))
    refused = np.flatnonzero(u >= p[places, draft] / q[places, draft])
    if len(refused):
        n = refused[0]
        rest = np.maximum(p[n] - q[n], 0)
        rest /= rest.sum()
    else:
        n = len(draft)
        rest = p[n]
    x = np.searchsorted(np.cumsum(rest), v, side="right")
    if x == len(rest):
        x = np.flatnonzero(rest)[-1]
    return [int(token) for token in draft[:n]] + [int(x)]

# %% right accept: plain lists, a helper that draws
def draw(weights, v):
    total, so_far, last = sum(weights), 0.0, None
    for token, weight in enumerate(weights):
        if weight > 0:
            last = token
            so_far += weight / total
            if so_far > v:
                break
    return last


def accept(draft, p, q, u, v):
    draft, p, q, u = draft.tolist(), p.tolist(), q.tolist(), u.tolist()
    for i, x in enumerate(draft):
        if u[i] * q[i][x] >= p[i][x]:
            return draft[:i] + [draw([max(a - b, 0.0) for a, b in zip(p[i], q[i])], v)]
    return draft + [draw(p[-1], v)]

# %% wrong tokens_expected: the closed form, which divides by 0 for alpha = 1
def tokens_expected(alpha, k):
    return (1 - alpha ** (k + 1)) / (1 - alpha)

# %% wrong tokens_expected: the last power is missing
def tokens_expected(alpha, k):
    return float(sum(alpha**i for i in range(k)))

# %% wrong tokens_expected: for alpha = 1, the token that is drawn is forgotten
def tokens_expected(alpha, k):
    if alpha == 1:
        return float(k)
    return (1 - alpha ** (k + 1)) / (1 - alpha)

# %% wrong tokens_expected: only the kept tokens, without the one that is drawn
def tokens_expected(alpha, k):
    total, term = 0.0, 1.0
    for _ in range(k):
        term *= alpha
        total += term
    return total

# %% wrong tokens_expected: the powers are one too high
def tokens_expected(alpha, k):
    return float(sum(alpha**i for i in range(1, k + 2)))

# %% wrong tokens_expected: all alphas above 0.999 count as 1
def tokens_expected(alpha, k):
    if abs(1 - alpha) < 1e-3:
        return float(k + 1)
    return (1 - alpha ** (k + 1)) / (1 - alpha)

# %% wrong tokens_expected: powers by logarithms, and alpha = 0 has none
def tokens_expected(alpha, k):
    return math.fsum(math.exp(i * math.log(alpha)) for i in range(k + 1))

# %% wrong tokens_expected: alpha = 0 gives no token
def tokens_expected(alpha, k):
    if alpha == 0:
        return 0.0
    if alpha == 1:
        return k + 1.0
    return (1 - alpha ** (k + 1)) / (1 - alpha)

# %% wrong tokens_expected: the round in which all are kept is left out of the mean
def tokens_expected(alpha, k):
    mean = 0.0
    for i in range(k):
        mean += (i + 1) * alpha**i * (1 - alpha)  # token i is the first that is refused
    return mean

# %% wrong tokens_expected: a round in which all are kept counts k tokens, not k + 1
def tokens_expected(alpha, k):
    mean = sum((i + 1) * alpha**i * (1 - alpha) for i in range(k))
    return float(mean + k * alpha**k)

# %% wrong tokens_expected: each drafted token counts alpha, though the round ends at the first refusal
def tokens_expected(alpha, k):
    return 1.0 + k * alpha

# %% wrong tokens_expected: the limit of long drafts, cut at k + 1
def tokens_expected(alpha, k):
    if alpha == 1:
        return float(k + 1)
    return min(1 / (1 - alpha), k + 1.0)

# %% wrong tokens_expected: a simulation
def tokens_expected(alpha, k):
    import random

    rounds, total = 20_000, 0
    for _ in range(rounds):
        kept = 0
        while kept < k and random.random() < alpha:
            kept += 1
        total += kept + 1
    return total / rounds

# %% wrong tokens_expected: no draft, no token
def tokens_expected(alpha, k):
    if k == 0:
        return 0.0
    return float(sum(alpha**i for i in range(k + 1)))

# %% wrong tokens_expected: stops when the powers are below 0.01
def tokens_expected(alpha, k):
    total, term = 1.0, alpha
    for _ in range(k):
        if term < 0.01:
            break
        total += term
        term *= alpha
    return total

# %% wrong tokens_expected: rounded to two places
def tokens_expected(alpha, k):
    return round(float(sum(alpha**i for i in range(k + 1))), 2)

# %% wrong tokens_expected: 1 and the last power only
def tokens_expected(alpha, k):
    return 1 + alpha**k if k > 0 else 1.0

# %% right tokens_expected: a sum of powers
def tokens_expected(alpha, k):
    return float(sum(alpha**i for i in range(k + 1)))

# %% right tokens_expected: the closed form, and k + 1 for alpha = 1
def tokens_expected(alpha, k):
    if alpha == 1:
        return float(k + 1)
    return (1 - alpha ** (k + 1)) / (1 - alpha)

# %% right tokens_expected: Horner's rule
def tokens_expected(alpha, k):
    total = 1.0
    for _ in range(k):
        total = 1.0 + alpha * total
    return total

# %% right tokens_expected: numpy
def tokens_expected(alpha, k):
    import numpy as np

    return float(np.sum(np.power(float(alpha), np.arange(k + 1))))

# %% right tokens_expected: the mean over the number of kept tokens
def tokens_expected(alpha, k):
    mean = (k + 1) * alpha**k
    for kept in range(k):
        mean += (kept + 1) * alpha**kept * (1 - alpha)
    return float(mean)

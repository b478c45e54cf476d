"""Answers to 11-gpu."""

# %% right flash_attention_forward: one pass with the loop ending at the diagonal
@triton.jit
def forward_kernel(q, k, v, out, lse, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    head = tl.program_id(1)
    rows = first + tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    begin = head * n * WIDTH
    here = rows[:, None] * WIDTH + columns[None, :]
    queries = tl.load(q + begin + here, mask=rows[:, None] < n, other=0.0)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    end = n
    if CAUSAL:
        end = tl.minimum(n, first + BLOCK)
    for start in range(0, end, BLOCK):
        others = start + tl.arange(0, BLOCK)
        there = others[:, None] * WIDTH + columns[None, :]
        keys = tl.load(k + begin + there, mask=others[:, None] < n, other=0.0)
        values = tl.load(v + begin + there, mask=others[:, None] < n, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(others[None, :] < n, scores, float("-inf"))
        if CAUSAL:
            scores = tl.where(others[None, :] <= rows[:, None], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp(top - new_top)
        weights = tl.exp(scores - new_top[:, None])
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        top = new_top
    acc = acc / total[:, None]
    tl.store(out + begin + here, acc.to(out.dtype.element_ty), mask=rows[:, None] < n)
    tl.store(lse + head * n + rows, top + tl.log(total), mask=rows < n)


def flash_attention_forward(q, k, v, causal=False):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    b, h, n, d = q.shape
    out = torch.empty_like(q)
    lse = torch.empty(b, h, n, dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(n, BLOCK), b * h)
    forward_kernel[grid](q, k, v, out, lse, n, 1 / math.sqrt(d), CAUSAL=bool(causal), WIDTH=d, BLOCK=BLOCK)
    return out, lse

# %% right flash_attention_forward: two passes, first the log-sum-exp and then the weights from it
@triton.jit
def forward_kernel(q, k, v, out, lse, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    block, head = tl.program_id(0), tl.program_id(1)
    q_rows = block * BLOCK + tl.arange(0, BLOCK)
    width = tl.arange(0, WIDTH)
    inside = (q_rows < n)[:, None]
    k_head = k + head * n * WIDTH
    v_head = v + head * n * WIDTH
    q_tile = tl.load(q + (head * n + q_rows)[:, None] * WIDTH + width[None, :], mask=inside, other=0.0)
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    z = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        k_rows = start + tl.arange(0, BLOCK)
        k_tile = tl.load(k_head + k_rows[:, None] * WIDTH + width[None, :], mask=(k_rows < n)[:, None], other=0.0)
        s = scale * tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
        seen = (k_rows < n)[None, :]
        if CAUSAL:
            seen = seen & (k_rows[None, :] <= q_rows[:, None])
        s = tl.where(seen, s, float("-inf"))
        m_next = tl.maximum(m, tl.max(s, axis=1))
        z = z * tl.exp(m - m_next) + tl.sum(tl.exp(s - m_next[:, None]), axis=1)
        m = m_next
    L = m + tl.log(z)
    tl.store(lse + head * n + q_rows, L, mask=q_rows < n)
    o = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, n, BLOCK):
        k_rows = start + tl.arange(0, BLOCK)
        tile = k_rows[:, None] * WIDTH + width[None, :]
        k_tile = tl.load(k_head + tile, mask=(k_rows < n)[:, None], other=0.0)
        v_tile = tl.load(v_head + tile, mask=(k_rows < n)[:, None], other=0.0)
        s = scale * tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
        seen = (k_rows < n)[None, :]
        if CAUSAL:
            seen = seen & (k_rows[None, :] <= q_rows[:, None])
        p = tl.exp(tl.where(seen, s, float("-inf")) - L[:, None])
        o += tl.dot(p.to(v_tile.dtype), v_tile, input_precision="ieee")
    address = out + (head * n + q_rows)[:, None] * WIDTH + width[None, :]
    tl.store(address, o.to(out.dtype.element_ty), mask=inside)


def flash_attention_forward(q, k, v, causal=False):
    b, h, n, d = q.shape
    q, k, v = (x.contiguous() for x in (q, k, v))
    out = q.new_empty(b, h, n, d)
    lse = q.new_empty(b, h, n, dtype=torch.float32)
    programs = (triton.cdiv(n, BLOCK), b * h)
    forward_kernel[programs](q, k, v, out, lse, n, d**-0.5, CAUSAL=bool(causal), WIDTH=d, BLOCK=BLOCK)
    return out, lse

# %% right flash_attention_forward: scores with the keys down, exponentials to base 2 and a helper for loading
@triton.jit
def load_rows(x, rows, n, WIDTH: tl.constexpr):
    pointers = x + rows[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    return tl.load(pointers, mask=rows[:, None] < n, other=0.0)


@triton.jit
def forward_kernel(q, k, v, out, lse, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.program_id(1)
    q += head * n * WIDTH
    k += head * n * WIDTH
    v += head * n * WIDTH
    out += head * n * WIDTH
    lse += head * n
    to_base_two = 1.4426950408889634
    q_block = load_rows(q, i, n, WIDTH)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    tiles = tl.cdiv(n, BLOCK)
    if CAUSAL:
        tiles = tl.program_id(0) + 1
    for t in range(0, tiles):
        j = t * BLOCK + tl.arange(0, BLOCK)
        k_block = load_rows(k, j, n, WIDTH)
        v_block = load_rows(v, j, n, WIDTH)
        # keys down, queries across
        s = tl.dot(k_block, tl.trans(q_block), input_precision="ieee") * (scale * to_base_two)
        keep = j[:, None] < n
        if CAUSAL:
            keep = keep & (j[:, None] <= i[None, :])
        s = tl.where(keep, s, float("-inf"))
        higher = tl.maximum(top, tl.max(s, 0))
        w = tl.exp2(s - higher[None, :])
        factor = tl.exp2(top - higher)
        total = total * factor + tl.sum(w, 0)
        acc *= factor[:, None]
        acc += tl.dot(tl.trans(w).to(v_block.dtype), v_block, input_precision="ieee")
        top = higher
    pointers = out + i[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(pointers, (acc / total[:, None]).to(out.dtype.element_ty), mask=i[:, None] < n)
    tl.store(lse + i, (top + tl.log2(total)) / to_base_two, mask=i < n)


def flash_attention_forward(q, k, v, causal=False):
    b, h, n, d = q.shape
    q, k, v = [x.reshape(b * h, n, d).contiguous() for x in (q, k, v)]
    out = torch.empty(b * h, n, d, dtype=q.dtype, device=q.device)
    lse = torch.empty(b * h, n, dtype=torch.float32, device=q.device)
    scale = 1.0 / math.sqrt(d)
    blocks = triton.cdiv(n, BLOCK)
    forward_kernel[(blocks, b * h)](q, k, v, out, lse, n, scale, True if causal else False, d, BLOCK)
    return out.view(b, h, n, d), lse.view(b, h, n)

# %% wrong flash_attention_forward: acc is not shrunk when a tile brings a higher score
# As: one pass with the loop ending at the diagonal
# @@
# -         acc = acc * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
# +         acc = acc + tl.dot(weights.to(values.dtype), values, input_precision="ieee")

# %% wrong flash_attention_forward: the log-sum-exp is the logarithm of total alone, without top
# As: scores with the keys down, exponentials to base 2 and a helper for loading
# @@
# -     tl.store(lse + i, (top + tl.log2(total)) / to_base_two, mask=i < n)
# +     tl.store(lse + i, tl.log2(total) / to_base_two, mask=i < n)

# %% wrong flash_attention_forward: keys beyond n keep the score 0
# As: one pass with the loop ending at the diagonal
# @@
# -         scores = tl.where(others[None, :] < n, scores, float("-inf"))

# %% wrong flash_attention_forward: one program for each head of one sequence only, the rest of the batch is left out
# As: two passes, first the log-sum-exp and then the weights from it
# @@
# -     programs = (triton.cdiv(n, BLOCK), b * h)
# +     programs = (triton.cdiv(n, BLOCK), h)

# %% wrong flash_attention_forward: tensors in another order are read as if they were contiguous
# As: one pass with the loop ending at the diagonal
# @@
# -     q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
# @@
# -     out = torch.empty_like(q)
# +     out = q.new_empty(b, h, n, d)

# %% wrong flash_attention_forward: the sums are kept in the dtype of the queries
# As: one pass with the loop ending at the diagonal
# @@
# -     total = tl.zeros((BLOCK,), tl.float32)
# -     acc = tl.zeros((BLOCK, WIDTH), tl.float32)
# +     total = tl.zeros((BLOCK,), queries.dtype)
# +     acc = tl.zeros((BLOCK, WIDTH), queries.dtype)
# @@
# -         total = total * shrink + tl.sum(weights, 1)
# -         acc = acc * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
# +         shrink = shrink.to(queries.dtype)
# +         weights = weights.to(queries.dtype)
# +         total = (total * shrink + tl.sum(weights, 1)).to(queries.dtype)
# +         acc = acc * shrink[:, None] + tl.dot(weights, values, input_precision="ieee").to(queries.dtype)
# @@
# -     tl.store(lse + head * n + rows, top + tl.log(total), mask=rows < n)
# +     tl.store(lse + head * n + rows, top + tl.log(total.to(tl.float32)), mask=rows < n)

# %% wrong flash_attention_forward: with causal, the tile on the diagonal is skipped as well, except for the first
# As: one pass with the loop ending at the diagonal
# @@
# -         end = tl.minimum(n, first + BLOCK)
# +         end = tl.minimum(n, tl.maximum(first, BLOCK))

# %% wrong flash_attention_forward: one highest score for the whole tile instead of one for each row
# As: one pass with the loop ending at the diagonal
# @@
# -         new_top = tl.maximum(top, tl.max(scores, 1))
# +         new_top = tl.maximum(top, tl.max(tl.max(scores, 1), 0))

# %% wrong flash_attention_forward: the output is stored without a mask, beyond the end of the tensor
# As: scores with the keys down, exponentials to base 2 and a helper for loading
# @@
# -     tl.store(pointers, (acc / total[:, None]).to(out.dtype.element_ty), mask=i[:, None] < n)
# +     tl.store(pointers, (acc / total[:, None]).to(out.dtype.element_ty))

# %% wrong flash_attention_forward: the scale is left out of the scores
# As: two passes, first the log-sum-exp and then the weights from it
# @@
#           k_tile = tl.load(k_head + k_rows[:, None] * WIDTH + width[None, :], mask=(k_rows < n)[:, None], other=0.0)
# -         s = scale * tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
# +         s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
# @@
#           v_tile = tl.load(v_head + tile, mask=(k_rows < n)[:, None], other=0.0)
# -         s = scale * tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
# +         s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")

# %% right tiled_backward: two pairs of loops that skip what causality hides
def tiled_backward(q, k, v, d_out, lse, D, causal=False):
    n, d = q.shape
    scale = 1 / math.sqrt(d)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for first in range(0, n, BLOCK):
        rows = slice(first, first + BLOCK)
        for start in range(0, first + 1 if causal else n, BLOCK):
            columns = slice(start, start + BLOCK)
            P = torch.exp(q[rows] @ k[columns].T * scale - lse[rows, None])
            if causal:
                P = P.tril(first - start)
            dS = P * (d_out[rows] @ v[columns].T - D[rows, None])
            dq[rows] += dS @ k[columns] * scale
    for start in range(0, n, BLOCK):
        columns = slice(start, start + BLOCK)
        for first in range(start if causal else 0, n, BLOCK):
            rows = slice(first, first + BLOCK)
            P = torch.exp(q[rows] @ k[columns].T * scale - lse[rows, None])
            if causal:
                P = P.tril(first - start)
            dS = P * (d_out[rows] @ v[columns].T - D[rows, None])
            dk[columns] += dS.T @ q[rows] * scale
            dv[columns] += P.T @ d_out[rows]
    return dq, dk, dv

# %% right tiled_backward: one pair of loops for all three, with index tensors and einsum
def tiled_backward(q, k, v, d_out, lse, D, causal=False):
    n, d = q.shape
    root = d**0.5
    dq, dk, dv = q.new_zeros(n, d), k.new_zeros(n, d), v.new_zeros(n, d)
    position = torch.arange(n, device=q.device)
    for i in position.split(BLOCK):
        for j in position.split(BLOCK):
            S = torch.einsum("id,jd->ij", q[i], k[j]) / root
            P = (S - lse[i].unsqueeze(1)).exp()
            if causal:
                P = torch.where(j[None, :] > i[:, None], torch.zeros_like(P), P)
            dP = torch.einsum("id,jd->ij", d_out[i], v[j])
            dS = P * (dP - D[i].unsqueeze(1))
            dv[j] += torch.einsum("ij,id->jd", P, d_out[i])
            dq[i] += torch.einsum("ij,jd->id", dS, k[j]) / root
            dk[j] += torch.einsum("ij,id->jd", dS, q[i]) / root
    return dq, dk, dv

# %% right tiled_backward: a helper for one tile, lists of blocks joined at the end
def tiled_backward(q, k, v, d_out, lse, D, causal=False):
    n, d = q.shape
    scale = d**-0.5
    starts = list(range(0, n, BLOCK))

    def tile(first, start):
        Q, K = q[first : first + BLOCK] * scale, k[start : start + BLOCK]
        S = Q @ K.mT
        if causal:
            S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(first - start + 1), -torch.inf)
        P = torch.exp(S - lse[first : first + BLOCK].unsqueeze(-1))
        dP = d_out[first : first + BLOCK] @ v[start : start + BLOCK].mT
        return P, P * (dP - D[first : first + BLOCK].unsqueeze(-1))

    dq, dk, dv = [], [], []
    for first in starts:
        parts = [tile(first, start)[1] @ k[start : start + BLOCK] for start in starts]
        dq.append(torch.stack(parts).sum(0) * scale)
    for start in starts:
        sum_k = sum_v = 0
        for first in starts:
            P, dS = tile(first, start)
            sum_k = sum_k + dS.mT @ q[first : first + BLOCK]
            sum_v = sum_v + P.mT @ d_out[first : first + BLOCK]
        dk.append(sum_k * scale)
        dv.append(sum_v)
    return torch.cat(dq), torch.cat(dk), torch.cat(dv)

# %% wrong tiled_backward: dQ is not divided by the root of d
# As: two pairs of loops that skip what causality hides
# @@
# -             dq[rows] += dS @ k[columns] * scale
# +             dq[rows] += dS @ k[columns]

# %% wrong tiled_backward: dK from the keys instead of the queries
# As: one pair of loops for all three, with index tensors and einsum
# @@
# -             dk[j] += torch.einsum("ij,id->jd", dS, q[i]) / root
# +             dk[j] += torch.einsum("ij,id->jd", dS, k[i]) / root

# %% wrong tiled_backward: P is not transposed for dV, which fits for square tiles
# As: two pairs of loops that skip what causality hides
# @@
# -             dv[columns] += P.T @ d_out[rows]
# +             dv[columns] += P @ d_out[rows]

# %% wrong tiled_backward: D is forgotten
# As: a helper for one tile, lists of blocks joined at the end
# @@
# -         return P, P * (dP - D[first : first + BLOCK].unsqueeze(-1))
# +         return P, P * dP

# %% wrong tiled_backward: D is subtracted by column, as a number for each key
# As: one pair of loops for all three, with index tensors and einsum
# @@
# -             dS = P * (dP - D[i].unsqueeze(1))
# +             dS = P * (dP - D[j].unsqueeze(0))

# %% wrong tiled_backward: start and first are the wrong way round in tril
def tiled_backward(q, k, v, d_out, lse, D, causal=False):
    n, d = q.shape
    scale = 1 / math.sqrt(d)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for first in range(0, n, BLOCK):
        rows = slice(first, first + BLOCK)
        for start in range(0, n, BLOCK):
            columns = slice(start, start + BLOCK)
            P = torch.exp(q[rows] @ k[columns].T * scale - lse[rows, None])
            if causal:
                P = P.tril(start - first)
            dS = P * (d_out[rows] @ v[columns].T - D[rows, None])
            dq[rows] += dS @ k[columns] * scale
    for start in range(0, n, BLOCK):
        columns = slice(start, start + BLOCK)
        for first in range(0, n, BLOCK):
            rows = slice(first, first + BLOCK)
            P = torch.exp(q[rows] @ k[columns].T * scale - lse[rows, None])
            if causal:
                P = P.tril(start - first)
            dS = P * (d_out[rows] @ v[columns].T - D[rows, None])
            dk[columns] += dS.T @ q[rows] * scale
            dv[columns] += P.T @ d_out[rows]
    return dq, dk, dv

# %% wrong tiled_backward: rows beyond the last full tile are left out
def tiled_backward(q, k, v, d_out, lse, D, causal=False):
    n, d = q.shape
    scale = 1 / math.sqrt(d)
    full = n // BLOCK * BLOCK
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for first in range(0, full, BLOCK):
        rows = slice(first, first + BLOCK)
        for start in range(0, first + 1 if causal else full, BLOCK):
            columns = slice(start, start + BLOCK)
            P = torch.exp(q[rows] @ k[columns].T * scale - lse[rows, None])
            if causal:
                P = P.tril(first - start)
            dS = P * (d_out[rows] @ v[columns].T - D[rows, None])
            dq[rows] += dS @ k[columns] * scale
    for start in range(0, full, BLOCK):
        columns = slice(start, start + BLOCK)
        for first in range(start if causal else 0, full, BLOCK):
            rows = slice(first, first + BLOCK)
            P = torch.exp(q[rows] @ k[columns].T * scale - lse[rows, None])
            if causal:
                P = P.tril(first - start)
            dS = P * (d_out[rows] @ v[columns].T - D[rows, None])
            dk[columns] += dS.T @ q[rows] * scale
            dv[columns] += P.T @ d_out[rows]
    return dq, dk, dv

# %% wrong tiled_backward: dK and dV keep the last tile instead of the sum over all
# As: one pair of loops for all three, with index tensors and einsum
# @@
# -             dv[j] += torch.einsum("ij,id->jd", P, d_out[i])
# +             dv[j] = torch.einsum("ij,id->jd", P, d_out[i])
# @@
# -             dk[j] += torch.einsum("ij,id->jd", dS, q[i]) / root
# +             dk[j] = torch.einsum("ij,id->jd", dS, q[i]) / root

# %% wrong tiled_backward: softmax within the tile instead of the log-sum-exp of the row
# As: two pairs of loops that skip what causality hides
# @@
#               columns = slice(start, start + BLOCK)
# -             P = torch.exp(q[rows] @ k[columns].T * scale - lse[rows, None])
# +             P = (q[rows] @ k[columns].T * scale).softmax(-1)
# @@
#               rows = slice(first, first + BLOCK)
# -             P = torch.exp(q[rows] @ k[columns].T * scale - lse[rows, None])
# +             P = (q[rows] @ k[columns].T * scale).softmax(-1)

# %% wrong tiled_backward: the causal triangle is missing in the second pair of loops
# As: two pairs of loops that skip what causality hides
# @@
#               rows = slice(first, first + BLOCK)
#               P = torch.exp(q[rows] @ k[columns].T * scale - lse[rows, None])
# -             if causal:
# -                 P = P.tril(first - start)

# %% right flash_attention: two kernels whose loops stop or begin at the diagonal
@triton.jit
def backward_queries(
    q, k, v, d_out, lse, D, dq, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    first = tl.program_id(0) * BLOCK
    head = tl.program_id(1)
    begin = head * n * WIDTH
    columns = tl.arange(0, WIDTH)
    rows = first + tl.arange(0, BLOCK)
    here = begin + rows[:, None] * WIDTH + columns[None, :]
    queries = tl.load(q + here, mask=rows[:, None] < n, other=0.0)
    d_outs = tl.load(d_out + here, mask=rows[:, None] < n, other=0.0)
    L = tl.load(lse + head * n + rows, mask=rows < n, other=0.0)
    D_rows = tl.load(D + head * n + rows, mask=rows < n, other=0.0)
    acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    end = n
    if CAUSAL:
        end = tl.minimum(n, first + BLOCK)
    for start in range(0, end, BLOCK):
        others = start + tl.arange(0, BLOCK)
        there = begin + others[:, None] * WIDTH + columns[None, :]
        keys = tl.load(k + there, mask=others[:, None] < n, other=0.0)
        values = tl.load(v + there, mask=others[:, None] < n, other=0.0)
        S = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        S = tl.where(others[None, :] < n, S, float("-inf"))
        if CAUSAL:
            S = tl.where(others[None, :] <= rows[:, None], S, float("-inf"))
        P = tl.exp(S - L[:, None])
        dP = tl.dot(d_outs, tl.trans(values), input_precision="ieee")
        dS = P * (dP - D_rows[:, None])
        acc += tl.dot(dS.to(keys.dtype), keys, input_precision="ieee")
    tl.store(dq + here, (acc * scale).to(dq.dtype.element_ty), mask=rows[:, None] < n)


@triton.jit
def backward_keys(
    q, k, v, d_out, lse, D, dk, dv, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    start = tl.program_id(0) * BLOCK
    head = tl.program_id(1)
    begin = head * n * WIDTH
    columns = tl.arange(0, WIDTH)
    others = start + tl.arange(0, BLOCK)
    there = begin + others[:, None] * WIDTH + columns[None, :]
    keys = tl.load(k + there, mask=others[:, None] < n, other=0.0)
    values = tl.load(v + there, mask=others[:, None] < n, other=0.0)
    acc_k = tl.zeros((BLOCK, WIDTH), tl.float32)
    acc_v = tl.zeros((BLOCK, WIDTH), tl.float32)
    begin_rows = 0
    if CAUSAL:
        begin_rows = start
    for first in range(begin_rows, n, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        here = begin + rows[:, None] * WIDTH + columns[None, :]
        queries = tl.load(q + here, mask=rows[:, None] < n, other=0.0)
        d_outs = tl.load(d_out + here, mask=rows[:, None] < n, other=0.0)
        L = tl.load(lse + head * n + rows, mask=rows < n, other=0.0)
        D_rows = tl.load(D + head * n + rows, mask=rows < n, other=0.0)
        S = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        S = tl.where((others[None, :] < n) & (rows[:, None] < n), S, float("-inf"))
        if CAUSAL:
            S = tl.where(others[None, :] <= rows[:, None], S, float("-inf"))
        P = tl.exp(S - L[:, None])
        acc_v += tl.dot(tl.trans(P).to(d_outs.dtype), d_outs, input_precision="ieee")
        dP = tl.dot(d_outs, tl.trans(values), input_precision="ieee")
        dS = P * (dP - D_rows[:, None])
        acc_k += tl.dot(tl.trans(dS).to(queries.dtype), queries, input_precision="ieee")
    tl.store(dk + there, (acc_k * scale).to(dk.dtype.element_ty), mask=others[:, None] < n)
    tl.store(dv + there, acc_v.to(dv.dtype.element_ty), mask=others[:, None] < n)


def flash_attention(q, k, v, causal=False):
    return Attend.apply(q, k, v, causal)

# %% right flash_attention: helper functions for a tile, and all tiles masked
@triton.jit
def of_tile(q_tile, k_tile, v_tile, o_tile, L, D_tile, i, j, n, scale, CAUSAL: tl.constexpr):
    seen = (i[:, None] < n) & (j[None, :] < n)
    if CAUSAL:
        seen = seen & (i[:, None] >= j[None, :])
    S = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee") * scale - L[:, None]
    P = tl.where(seen, tl.exp(tl.where(seen, S, 0.0)), 0.0)
    dP = tl.dot(o_tile, tl.trans(v_tile), input_precision="ieee")
    return P, P * (dP - D_tile[:, None]) * scale


@triton.jit
def rows_of(x, i, n, WIDTH: tl.constexpr):
    return tl.load(x + i[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], mask=i[:, None] < n, other=0.0)


@triton.jit
def put_rows(x, tile, i, n, WIDTH: tl.constexpr):
    pointers = x + i[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(pointers, tile.to(x.dtype.element_ty), mask=i[:, None] < n)


@triton.jit
def backward_queries(
    q, k, v, d_out, lse, D, dq, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    shift = tl.program_id(1) * n
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q_tile = rows_of(q + shift * WIDTH, i, n, WIDTH)
    o_tile = rows_of(d_out + shift * WIDTH, i, n, WIDTH)
    L = tl.load(lse + shift + i, mask=i < n, other=0.0)
    D_tile = tl.load(D + shift + i, mask=i < n, other=0.0)
    result = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, n, BLOCK):
        j = start + tl.arange(0, BLOCK)
        k_tile = rows_of(k + shift * WIDTH, j, n, WIDTH)
        v_tile = rows_of(v + shift * WIDTH, j, n, WIDTH)
        P, dS = of_tile(q_tile, k_tile, v_tile, o_tile, L, D_tile, i, j, n, scale, CAUSAL)
        result += tl.dot(dS.to(k_tile.dtype), k_tile, input_precision="ieee")
    put_rows(dq + shift * WIDTH, result, i, n, WIDTH)


@triton.jit
def backward_keys(
    q, k, v, d_out, lse, D, dk, dv, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    shift = tl.program_id(1) * n
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k_tile = rows_of(k + shift * WIDTH, j, n, WIDTH)
    v_tile = rows_of(v + shift * WIDTH, j, n, WIDTH)
    result_k = tl.zeros((BLOCK, WIDTH), tl.float32)
    result_v = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        q_tile = rows_of(q + shift * WIDTH, i, n, WIDTH)
        o_tile = rows_of(d_out + shift * WIDTH, i, n, WIDTH)
        L = tl.load(lse + shift + i, mask=i < n, other=0.0)
        D_tile = tl.load(D + shift + i, mask=i < n, other=0.0)
        P, dS = of_tile(q_tile, k_tile, v_tile, o_tile, L, D_tile, i, j, n, scale, CAUSAL)
        result_k += tl.dot(tl.trans(dS).to(q_tile.dtype), q_tile, input_precision="ieee")
        result_v += tl.dot(tl.trans(P).to(o_tile.dtype), o_tile, input_precision="ieee")
    put_rows(dk + shift * WIDTH, result_k, j, n, WIDTH)
    put_rows(dv + shift * WIDTH, result_v, j, n, WIDTH)


def flash_attention(q, k, v, causal=False):
    return Attend.apply(q, k, v, bool(causal))

# %% right flash_attention: transposed tiles, an infinite log-sum-exp for rows beyond n
@triton.jit
def backward_queries(
    q, k, v, d_out, lse, D, dq, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    w = tl.arange(0, WIDTH)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.program_id(1)
    q_at = (head * n + i)[:, None] * WIDTH + w[None, :]
    q_in = (i < n)[:, None]
    Q = tl.load(q + q_at, mask=q_in, other=0.0)
    dO = tl.load(d_out + q_at, mask=q_in, other=0.0)
    L = tl.load(lse + head * n + i, mask=i < n, other=float("inf"))
    row_sum = tl.load(D + head * n + i, mask=i < n, other=0.0)
    dQ = tl.zeros((BLOCK, WIDTH), tl.float32)
    tiles = tl.cdiv(n, BLOCK)
    if CAUSAL:
        tiles = tl.program_id(0) + 1
    for t in range(0, tiles):
        j = t * BLOCK + tl.arange(0, BLOCK)
        # keys and values come transposed, (WIDTH, BLOCK)
        k_at = w[:, None] + (head * n + j)[None, :] * WIDTH
        K_t = tl.load(k + k_at, mask=(j < n)[None, :], other=0.0)
        V_t = tl.load(v + k_at, mask=(j < n)[None, :], other=0.0)
        S = tl.dot(Q, K_t, input_precision="ieee") * scale
        hidden = (j >= n)[None, :]
        if CAUSAL:
            hidden = hidden | (j[None, :] > i[:, None])
        P = tl.exp(tl.where(hidden, float("-inf"), S) - L[:, None])
        dS = (tl.dot(dO, V_t, input_precision="ieee") - row_sum[:, None]) * P * scale
        dQ += tl.dot(dS.to(K_t.dtype), tl.trans(K_t), input_precision="ieee")
    tl.store(dq + q_at, dQ.to(dq.dtype.element_ty), mask=q_in)


@triton.jit
def backward_keys(
    q, k, v, d_out, lse, D, dk, dv, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    w = tl.arange(0, WIDTH)
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.program_id(1)
    k_at = (head * n + j)[:, None] * WIDTH + w[None, :]
    k_in = (j < n)[:, None]
    K = tl.load(k + k_at, mask=k_in, other=0.0)
    V = tl.load(v + k_at, mask=k_in, other=0.0)
    dK = tl.zeros((BLOCK, WIDTH), tl.float32)
    dV = tl.zeros((BLOCK, WIDTH), tl.float32)
    t_first = 0
    if CAUSAL:
        t_first = tl.program_id(0)
    for t in range(t_first, tl.cdiv(n, BLOCK)):
        i = t * BLOCK + tl.arange(0, BLOCK)
        q_at = (head * n + i)[:, None] * WIDTH + w[None, :]
        Q = tl.load(q + q_at, mask=(i < n)[:, None], other=0.0)
        dO = tl.load(d_out + q_at, mask=(i < n)[:, None], other=0.0)
        L = tl.load(lse + head * n + i, mask=i < n, other=float("inf"))
        row_sum = tl.load(D + head * n + i, mask=i < n, other=0.0)
        # transposed tiles: keys down, queries across
        S_t = tl.dot(K, tl.trans(Q), input_precision="ieee") * scale
        hidden = (j >= n)[:, None]
        if CAUSAL:
            hidden = hidden | (j[:, None] > i[None, :])
        P_t = tl.exp(tl.where(hidden, float("-inf"), S_t) - L[None, :])
        dV += tl.dot(P_t.to(dO.dtype), dO, input_precision="ieee")
        dS_t = (tl.dot(V, tl.trans(dO), input_precision="ieee") - row_sum[None, :]) * P_t
        dK += tl.dot(dS_t.to(Q.dtype), Q, input_precision="ieee")
    tl.store(dk + k_at, (dK * scale).to(dk.dtype.element_ty), mask=k_in)
    tl.store(dv + k_at, dV.to(dv.dtype.element_ty), mask=k_in)


def flash_attention(q, k, v, causal=False):
    return Attend.apply(q, k, v, causal)

# %% wrong flash_attention: dK is not divided by the root of d
# As: transposed tiles, an infinite log-sum-exp for rows beyond n
# @@
# -     tl.store(dk + k_at, (dK * scale).to(dk.dtype.element_ty), mask=k_in)
# +     tl.store(dk + k_at, dK.to(dk.dtype.element_ty), mask=k_in)

# %% wrong flash_attention: D is not subtracted in backward_keys
# As: two kernels whose loops stop or begin at the diagonal
# @@
#           acc_v += tl.dot(tl.trans(P).to(d_outs.dtype), d_outs, input_precision="ieee")
#           dP = tl.dot(d_outs, tl.trans(values), input_precision="ieee")
# -         dS = P * (dP - D_rows[:, None])
# +         dS = P * dP

# %% wrong flash_attention: P of keys beyond n is not set to 0 in backward_queries, and overflows
# As: two kernels whose loops stop or begin at the diagonal
# @@
# -         S = tl.where(others[None, :] < n, S, float("-inf"))

# %% wrong flash_attention: no causal mask in backward_keys, the loop alone begins at the diagonal
# As: transposed tiles, an infinite log-sum-exp for rows beyond n
# @@
# -         if CAUSAL:
# -             hidden = hidden | (j[:, None] > i[None, :])

# %% wrong flash_attention: with causal, backward_keys begins after its own block
# As: two kernels whose loops stop or begin at the diagonal
# @@
# -         begin_rows = start
# +         begin_rows = start + BLOCK

# %% wrong flash_attention: P is not transposed for dV
# As: helper functions for a tile, and all tiles masked
# @@
# -         result_v += tl.dot(tl.trans(P).to(o_tile.dtype), o_tile, input_precision="ieee")
# +         result_v += tl.dot(P.to(o_tile.dtype), o_tile, input_precision="ieee")

# %% wrong flash_attention: the log-sum-exp and D are those of the first head for all heads
# As: helper functions for a tile, and all tiles masked
# @@
# -     L = tl.load(lse + shift + i, mask=i < n, other=0.0)
# -     D_tile = tl.load(D + shift + i, mask=i < n, other=0.0)
# +     L = tl.load(lse + i, mask=i < n, other=0.0)
# +     D_tile = tl.load(D + i, mask=i < n, other=0.0)
# @@
# -         L = tl.load(lse + shift + i, mask=i < n, other=0.0)
# -         D_tile = tl.load(D + shift + i, mask=i < n, other=0.0)
# +         L = tl.load(lse + i, mask=i < n, other=0.0)
# +         D_tile = tl.load(D + i, mask=i < n, other=0.0)

# %% wrong flash_attention: causal is not handed on
# As: two kernels whose loops stop or begin at the diagonal
# @@
# -     return Attend.apply(q, k, v, causal)
# +     return Attend.apply(q, k, v, False)

# %% wrong flash_attention: calls the forward kernel alone, without a way back
# As: transposed tiles, an infinite log-sum-exp for rows beyond n
# @@
# -     return Attend.apply(q, k, v, causal)
# +     out, _ = flash_attention_forward(q, k, v, causal)
# +     return out

# %% wrong flash_attention: dK and dV are stored without a mask
# As: two kernels whose loops stop or begin at the diagonal
# @@
# -     tl.store(dk + there, (acc_k * scale).to(dk.dtype.element_ty), mask=others[:, None] < n)
# -     tl.store(dv + there, acc_v.to(dv.dtype.element_ty), mask=others[:, None] < n)
# +     tl.store(dk + there, (acc_k * scale).to(dk.dtype.element_ty))
# +     tl.store(dv + there, acc_v.to(dv.dtype.element_ty))

# %% right MultiHeadLayer: four projections and scaled_dot_product_attention, blind rows opened and set to 0
class MultiHeadLayer(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError("heads do not divide")
        self.num_heads, self.num_kv_heads, self.d_head = num_heads, num_kv_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_head, bias=bias)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_head, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, mask=None, is_causal=False, cache=None):
        b, n, d_model = x.shape
        q = self.W_q(x).view(b, n, self.num_heads, self.d_head).transpose(1, 2)
        k = self.W_k(x).view(b, n, self.num_kv_heads, self.d_head).transpose(1, 2)
        v = self.W_v(x).view(b, n, self.num_kv_heads, self.d_head).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        n_k = k.shape[-2]
        groups = self.num_heads // self.num_kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        if is_causal and (mask is not None or 1 < n < n_k):
            seen = torch.ones(n, n_k, dtype=torch.bool, device=x.device).tril(n_k - n)
            mask = seen if mask is None else mask & seen
        if mask is None:
            z = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal and n == n_k)
        else:
            nothing = ~mask.any(-1, keepdim=True)
            z = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask | nothing)
            z = z.masked_fill(nothing, 0)
        return self.W_o(z.transpose(1, 2).reshape(b, n, d_model))

# %% right MultiHeadLayer: one W_qkv, an index of heads and a bias of 0 and -inf
class MultiHeadLayer(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
        super().__init__()
        self.h = num_heads
        self.h_kv = num_kv_heads or num_heads
        if d_model % self.h != 0:
            raise ValueError("d_model is not divisible by num_heads")
        if self.h % self.h_kv != 0:
            raise ValueError("num_heads is not divisible by num_kv_heads")
        self.d_head = d_model // self.h
        self.W_qkv = nn.Linear(d_model, (self.h + 2 * self.h_kv) * self.d_head, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def _bias(self, mask, is_causal, n, n_k, like):
        allowed = torch.ones(1, 1, n, n_k, dtype=torch.bool, device=like.device)
        if mask is not None:
            allowed = allowed & (mask[:, None] if mask.ndim == 3 else mask)
        if is_causal:
            last = torch.arange(n_k - n, n_k, device=like.device)
            allowed = allowed & (torch.arange(n_k, device=like.device) <= last[:, None])
        nothing = allowed.logical_not().all(-1, keepdim=True)
        bias = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
        return bias.masked_fill(~(allowed | nothing), float("-inf")), nothing

    def forward(self, x, mask=None, is_causal=False, cache=None):
        b, n, _ = x.shape
        heads = self.W_qkv(x).unflatten(-1, (-1, self.d_head)).permute(0, 2, 1, 3)
        q, k, v = heads.split([self.h, self.h_kv, self.h_kv], dim=1)
        if cache is not None:
            k, v = cache.append(k, v)
        n_k = k.size(2)
        index = torch.arange(self.h, device=x.device) // (self.h // self.h_kv)
        k, v = k[:, index], v[:, index]
        attend = functional.scaled_dot_product_attention
        if mask is None and (not is_causal or n == 1):
            z = attend(q, k, v)
        elif mask is None and n == n_k:
            z = attend(q, k, v, is_causal=True)
        else:
            bias, nothing = self._bias(mask, is_causal, n, n_k, q)
            z = torch.where(nothing, torch.zeros((), dtype=q.dtype, device=q.device), attend(q, k, v, attn_mask=bias))
        return self.W_o(z.permute(0, 2, 1, 3).flatten(2))

# %% right MultiHeadLayer: expanded heads, and a softmax by hand only where there is a mask
class MultiHeadLayer(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError("heads do not divide")
        self.num_heads, self.num_kv_heads, self.d_head = num_heads, num_kv_heads, d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_head, bias=bias)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_head, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def split(self, x, heads):
        return x.reshape(x.shape[0], x.shape[1], heads, self.d_head).swapaxes(1, 2)

    def forward(self, x, mask=None, is_causal=False, cache=None):
        n = x.shape[1]
        q = self.split(self.W_q(x), self.num_heads)
        k, v = self.split(self.W_k(x), self.num_kv_heads), self.split(self.W_v(x), self.num_kv_heads)
        if cache is not None:
            k, v = cache.append(k, v)
        n_k = k.shape[2]
        allowed = None if mask is None else (mask[:, None] if mask.dim() == 3 else mask)
        if is_causal and (allowed is not None or n < n_k):
            hidden = torch.ones(n, n_k, dtype=torch.bool, device=x.device).triu(n_k - n + 1)
            allowed = ~hidden if allowed is None else allowed & ~hidden
        share = self.num_heads // self.num_kv_heads
        k = k[:, :, None].expand(-1, -1, share, -1, -1).flatten(1, 2)
        v = v[:, :, None].expand(-1, -1, share, -1, -1).flatten(1, 2)
        if allowed is None:
            z = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        else:
            scores = torch.einsum("bhid,bhjd->bhij", q * self.d_head**-0.5, k)
            weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
            weights = weights.masked_fill(~allowed, 0)
            z = torch.einsum("bhij,bhjd->bhid", weights, v)
        return self.W_o(z.swapaxes(1, 2).flatten(2, 3))

# %% wrong MultiHeadLayer: heads of keys and values are repeated in turn, neighbours do not share
# As: four projections and scaled_dot_product_attention, blind rows opened and set to 0
# @@
# -         k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
# +         k, v = k.repeat(1, groups, 1, 1), v.repeat(1, groups, 1, 1)

# %% wrong MultiHeadLayer: with a cache, causality counts from the first key
# As: four projections and scaled_dot_product_attention, blind rows opened and set to 0
# @@
# -         if is_causal and (mask is not None or 1 < n < n_k):
# -             seen = torch.ones(n, n_k, dtype=torch.bool, device=x.device).tril(n_k - n)
# -             mask = seen if mask is None else mask & seen
# +         if is_causal and mask is not None:
# +             mask = mask & torch.ones(n, n_k, dtype=torch.bool, device=x.device).tril()
# @@
# -             z = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal and n == n_k)
# +             z = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

# %% wrong MultiHeadLayer: with a mask, is_causal is left out
# As: one W_qkv, an index of heads and a bias of 0 and -inf
# @@
# -         if is_causal:
# +         if is_causal and mask is None:

# %% wrong MultiHeadLayer: queries that may attend to nothing are looked for before causality is added
# As: expanded heads, and a softmax by hand only where there is a mask
# @@
#           allowed = None if mask is None else (mask[:, None] if mask.dim() == 3 else mask)
# +         nothing = None if allowed is None else ~allowed.any(-1, keepdim=True)
# @@
# -             weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
# -             weights = weights.masked_fill(~allowed, 0)
# +             weights = scores.masked_fill(~allowed, float("-inf")).softmax(-1)
# +             if nothing is not None:
# +                 weights = weights.masked_fill(nothing, 0)

# %% wrong MultiHeadLayer: a mask with three axes gets no axis for the heads
# As: four projections and scaled_dot_product_attention, blind rows opened and set to 0
# @@
# -         if mask is not None and mask.dim() == 3:
# -             mask = mask.unsqueeze(1)

# %% wrong MultiHeadLayer: a query that attends to nothing gets 0 after W_o, without its bias
# As: four projections and scaled_dot_product_attention, blind rows opened and set to 0
# @@
# -             z = z.masked_fill(nothing, 0)
# +             out = self.W_o(z.transpose(1, 2).reshape(b, n, d_model))
# +             blind = nothing.expand(b, self.num_heads, n, 1).all(1)
# +             return out.masked_fill(blind, 0)

# %% wrong MultiHeadLayer: softmax over all scores at once, n x n numbers without a mask, too
# As: expanded heads, and a softmax by hand only where there is a mask
# @@
#           v = v[:, :, None].expand(-1, -1, share, -1, -1).flatten(1, 2)
# +         scores = q @ k.transpose(-1, -2) / math.sqrt(self.d_head)
# @@
# -             z = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
# -         else:
# -             scores = torch.einsum("bhid,bhjd->bhij", q * self.d_head**-0.5, k)
# -             weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
# -             weights = weights.masked_fill(~allowed, 0)
# -             z = torch.einsum("bhij,bhjd->bhid", weights, v)
# +             allowed = torch.ones(n, n_k, dtype=torch.bool, device=x.device)
# +             allowed = allowed.tril(n_k - n) if is_causal else allowed
# +         weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~allowed, 0)
# +         z = weights @ v

# %% wrong MultiHeadLayer: the cache gets the repeated heads, h of them instead of h_kv
class MultiHeadLayer(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
        super().__init__()
        self.h = num_heads
        self.h_kv = num_kv_heads or num_heads
        if d_model % self.h != 0:
            raise ValueError("d_model is not divisible by num_heads")
        if self.h % self.h_kv != 0:
            raise ValueError("num_heads is not divisible by num_kv_heads")
        self.d_head = d_model // self.h
        self.W_qkv = nn.Linear(d_model, (self.h + 2 * self.h_kv) * self.d_head, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def _bias(self, mask, is_causal, n, n_k, like):
        allowed = torch.ones(1, 1, n, n_k, dtype=torch.bool, device=like.device)
        if mask is not None:
            allowed = allowed & (mask[:, None] if mask.ndim == 3 else mask)
        if is_causal:
            last = torch.arange(n_k - n, n_k, device=like.device)
            allowed = allowed & (torch.arange(n_k, device=like.device) <= last[:, None])
        nothing = allowed.logical_not().all(-1, keepdim=True)
        bias = torch.zeros(allowed.shape, dtype=like.dtype, device=like.device)
        return bias.masked_fill(~(allowed | nothing), float("-inf")), nothing

    def forward(self, x, mask=None, is_causal=False, cache=None):
        b, n, _ = x.shape
        heads = self.W_qkv(x).unflatten(-1, (-1, self.d_head)).permute(0, 2, 1, 3)
        q, k, v = heads.split([self.h, self.h_kv, self.h_kv], dim=1)
        index = torch.arange(self.h, device=x.device) // (self.h // self.h_kv)
        k, v = k[:, index], v[:, index]
        if cache is not None:
            k, v = cache.append(k, v)
        n_k = k.size(2)
        attend = functional.scaled_dot_product_attention
        if mask is None and (not is_causal or n == 1):
            z = attend(q, k, v)
        elif mask is None and n == n_k:
            z = attend(q, k, v, is_causal=True)
        else:
            bias, nothing = self._bias(mask, is_causal, n, n_k, q)
            z = torch.where(nothing, torch.zeros((), dtype=q.dtype, device=q.device), attend(q, k, v, attn_mask=bias))
        return self.W_o(z.permute(0, 2, 1, 3).flatten(2))

# %% wrong MultiHeadLayer: causality is written into the mask that was given
# As: four projections and scaled_dot_product_attention, blind rows opened and set to 0
# @@
# -             mask = seen if mask is None else mask & seen
# +             if mask is None:
# +                 mask = seen
# +             elif mask.shape[-2] == n:
# +                 mask &= seen
# +             else:
# +                 mask = mask & seen

# %% wrong MultiHeadLayer: W_o has a bias, whatever bias is
# As: expanded heads, and a softmax by hand only where there is a mask
# @@
# -         self.W_o = nn.Linear(d_model, d_model, bias=bias)
# +         self.W_o = nn.Linear(d_model, d_model)

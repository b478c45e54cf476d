"""Answers to notebook 06."""

# %% right split_heads: slices in a loop, stacked
def split_heads(X, num_heads):
    width, rest = divmod(X.shape[-1], num_heads)
    if rest:
        raise ValueError(f"{X.shape[-1]} columns cannot be shared by {num_heads} heads")
    heads = []
    for start in range(0, num_heads * width, width):
        heads.append(X[:, :, start : start + width])
    return torch.stack(heads, dim=1)

# %% right split_heads: unfold along the last axis, then permute
def split_heads(X, num_heads):
    d = X.size(2)
    if d % num_heads != 0:
        raise ValueError("num_heads must divide d")
    d_head = d // num_heads
    return X.unfold(2, d_head, d_head).permute(0, 2, 1, 3)

# %% right split_heads: reshape of the transposed columns, which refuses what does not divide
def split_heads(X, num_heads):
    b, n, d = X.shape
    columns_first = X.mT.reshape(b, num_heads, d // num_heads, n)
    return columns_first.transpose(-2, -1).contiguous()

# %% wrong split_heads: one reshape straight to (b, h, n, d/h), so tokens and heads are mixed up
def split_heads(X, num_heads):
    b, n, d = X.shape
    if d % num_heads != 0:
        raise ValueError("d must be divisible by num_heads")
    return X.reshape(b, num_heads, n, d // num_heads)

# %% wrong split_heads: columns are dealt out in turn, like cards, not in blocks
def split_heads(X, num_heads):
    b, n, d = X.shape
    if d % num_heads:
        raise ValueError("d is not divisible by num_heads")
    return X.reshape(b, n, d // num_heads, num_heads).permute(0, 3, 1, 2)

# %% wrong split_heads: the axis of the heads stays behind that of the tokens
def split_heads(X, num_heads):
    b, n, d = X.shape
    if d % num_heads:
        raise ValueError(f"cannot split {d} columns into {num_heads} heads")
    return X.view(b, n, num_heads, d // num_heads)

# %% wrong split_heads: columns left over are dropped in silence where d is no multiple of num_heads
def split_heads(X, num_heads):
    b, n, d = X.shape
    d_head = d // num_heads
    X = X[:, :, : num_heads * d_head]
    return X.reshape(b, n, num_heads, d_head).transpose(1, 2)

# %% wrong split_heads: split is given the number of heads as the size of a piece
def split_heads(X, num_heads):
    if X.shape[-1] % num_heads:
        raise ValueError("d is no multiple of num_heads")
    return torch.stack(X.split(num_heads, dim=-1), dim=1)

# %% wrong split_heads: chunk makes fewer heads than asked for where d is no multiple, 3 for d = 6 and h = 4
def split_heads(X, num_heads):
    return torch.stack(X.chunk(num_heads, dim=-1), dim=1)

# %% wrong split_heads: goes through NumPy, and gradients are cut off
def split_heads(X, num_heads):
    b, n, d = X.shape
    if d % num_heads:
        raise ValueError("d is no multiple of num_heads")
    array = X.detach().numpy().reshape(b, n, num_heads, d // num_heads)
    return torch.from_numpy(array.swapaxes(1, 2).copy())

# %% wrong split_heads: the result is allocated in float32, whatever the dtype of X
def split_heads(X, num_heads):
    b, n, d = X.shape
    if d % num_heads:
        raise ValueError("d is no multiple of num_heads")
    d_head = d // num_heads
    result = torch.zeros(b, num_heads, n, d_head)
    for i in range(num_heads):
        result[:, i] = X[:, :, i * d_head : (i + 1) * d_head]
    return result

# %% wrong split_heads: block i begins at column i in place of i * d_head
def split_heads(X, num_heads):
    d = X.size(-1)
    if d % num_heads != 0:
        raise ValueError("embedding size must be divisible by the number of heads")
    d_head = d // num_heads
    return torch.stack([X[..., i : i + d_head] for i in range(num_heads)], dim=1)

# %% wrong split_heads: a width that cannot be dealt out is refused by assert, which raises AssertionError
def split_heads(X, num_heads):
    b, n, d = X.shape
    assert d % num_heads == 0, "d must be divisible by num_heads"
    return X.view(b, n, num_heads, d // num_heads).transpose(1, 2)

# %% right merge_heads: the heads are taken apart with unbind and put side by side with cat
def merge_heads(X):
    return torch.cat(X.unbind(dim=1), dim=2)

# %% right merge_heads: einsum changes the order of the axes, then flatten
def merge_heads(X):
    return torch.einsum("bhnd->bnhd", X).flatten(-2)

# %% right merge_heads: token by token, in two list comprehensions
def merge_heads(X):
    b, h, n, d_head = X.shape
    tokens = [X[:, :, i].reshape(b, h * d_head) for i in range(n)]
    return torch.stack(tokens, dim=1)

# %% wrong merge_heads: reshape without bringing the tokens' axis to the front first
def merge_heads(X):
    b, h, n, d_head = X.shape
    return X.reshape(b, n, h * d_head)

# %% wrong merge_heads: the axes are exchanged, and the last two are never joined
def merge_heads(X):
    return X.permute(0, 2, 1, 3).contiguous()

# %% wrong merge_heads: the heads' axis goes last, so columns of the heads alternate
def merge_heads(X):
    b, h, n, d_head = X.shape
    return X.permute(0, 2, 3, 1).reshape(b, n, d_head * h)

# %% wrong merge_heads: view after transpose, without contiguous, which raises
def merge_heads(X):
    b, h, n, d_head = X.shape
    return X.transpose(1, 2).view(b, n, h * d_head)

# %% wrong merge_heads: iterates over the batch in place of the heads
def merge_heads(X):
    return torch.cat([head for head in X], dim=-1)

# %% wrong merge_heads: the heads come in reverse order
def merge_heads(X):
    h = X.shape[1]
    merged = X[:, 0]
    for i in range(1, h):
        merged = torch.cat([X[:, i], merged], dim=-1)
    return merged

# %% wrong merge_heads: squeeze removes the batch of one sequence, or the only token
def merge_heads(X):
    b, h, n, d_head = X.shape
    return X.transpose(1, 2).reshape(b, n, h * d_head).squeeze()

# %% wrong merge_heads: works on .data, so no gradient flows back
def merge_heads(X):
    b, h, n, d_head = X.shape
    return X.data.transpose(1, 2).reshape(b, n, h * d_head)

# %% wrong merge_heads: the result is made with torch.empty in the default dtype
def merge_heads(X):
    b, h, n, d_head = X.shape
    merged = torch.empty(b, n, h * d_head)
    for i in range(h):
        merged[..., i * d_head : (i + 1) * d_head] = X[:, i]
    return merged

# %% wrong merge_heads: transpose_ with an underscore turns the axes of the input itself
def merge_heads(X):
    X.transpose_(1, 2)
    return X.flatten(start_dim=2)

# %% right MultiHeadAttentionLoop: ModuleDicts for the heads, einsum for scores and results
class MultiHeadAttentionLoop(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        d_head, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"{num_heads} heads cannot share a width of {d_model}")
        self.d_model, self.num_heads = d_model, num_heads
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            projections = {name: nn.Linear(d_model, d_head, bias=bias) for name in ("W_q", "W_k", "W_v")}
            self.heads.append(nn.ModuleDict(projections))
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def _part_of_mask(self, mask, i):
        if mask is None or mask.ndim < 4:
            return mask
        if mask.shape[1] not in (1, self.num_heads):
            raise ValueError("the mask is for another number of heads")
        return mask.expand(-1, self.num_heads, -1, -1)[:, i]

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        found, looked = [], []
        for i in range(self.num_heads):
            head = self.heads[i]
            q, k, v = head["W_q"](query), head["W_k"](key), head["W_v"](value)
            scores = torch.einsum("bqd,bkd->bqk", q, k) * q.shape[-1] ** -0.5
            A = masked_softmax(scores, self._part_of_mask(mask, i))
            found.append(torch.einsum("bqk,bkd->bqd", A, v))
            looked.append(A)
        return self.W_o(torch.cat(found, dim=2)), torch.stack(looked, dim=1)

# %% right MultiHeadAttentionLoop: the mask is spread to four axes once, softmax is written out with exp
class AttentionHead(nn.Module):
    def __init__(self, d_model, d_head, bias):
        super().__init__()
        self.scale = math.sqrt(d_head)
        self.W_v = nn.Linear(d_model, d_head, bias=bias)
        self.W_k = nn.Linear(d_model, d_head, bias=bias)
        self.W_q = nn.Linear(d_model, d_head, bias=bias)

    def forward(self, query, key, value, allowed):
        S = torch.bmm(self.W_q(query), self.W_k(key).transpose(1, 2)) / self.scale
        S = torch.where(allowed, S, torch.full_like(S, torch.finfo(S.dtype).min))
        E = torch.exp(S - S.max(dim=-1, keepdim=True).values) * allowed
        total = E.sum(dim=-1, keepdim=True)
        A = E / torch.where(total > 0, total, torch.ones_like(total))
        return torch.bmm(A, self.W_v(value)), A


class MultiHeadAttentionLoop(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("num_heads does not divide d_model")
        self.d_model = d_model
        self.num_heads = num_heads
        self.heads = nn.ModuleList(AttentionHead(d_model, d_model // num_heads, bias) for _ in range(num_heads))
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        full = (query.shape[0], self.num_heads, query.shape[1], key.shape[1])
        if mask is None:
            allowed = torch.ones(full, dtype=torch.bool, device=query.device)
        else:
            if mask.shape[-1] != full[-1]:
                raise ValueError("the mask is for another number of keys")
            allowed = (mask[:, None] if mask.dim() == 3 else mask).expand(full)
        pairs = [head(query, key, value, allowed[:, i]) for i, head in enumerate(self.heads)]
        z, A = zip(*pairs)
        return self.W_o(torch.cat(z, dim=-1)), torch.stack(A, dim=1)

# %% right MultiHeadAttentionLoop: W_o is applied block by block and summed, the heads are bare nn.Module
class MultiHeadAttentionLoop(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("d_model has to be a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        heads = []
        for _ in range(num_heads):
            head = nn.Module()
            for name in ("W_q", "W_k", "W_v"):
                setattr(head, name, nn.Linear(d_model, d_model // num_heads, bias))
            heads.append(head)
        self.heads = nn.ModuleList(heads)
        self.W_o = nn.Linear(d_model, d_model, bias)

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        if mask is None:
            masks = [None] * self.num_heads
        elif mask.ndim == 4:
            masks = list(mask.unbind(1))
            if len(masks) == 1:
                masks = masks * self.num_heads
            if len(masks) != self.num_heads:
                raise ValueError("wrong number of heads in the mask")
        else:
            masks = [mask] * self.num_heads
        blocks = self.W_o.weight.chunk(self.num_heads, dim=1)  # each (d_model, d_head)
        out, all_weights = 0, []
        for head, head_mask, block in zip(self.heads, masks, blocks, strict=True):
            q = head.W_q(query) / math.sqrt(self.d_model / self.num_heads)
            A = masked_softmax(torch.matmul(q, head.W_k(key).mT), head_mask)
            out = out + torch.matmul(A, head.W_v(value)) @ block.T
            all_weights.append(A.unsqueeze(1))
        if self.W_o.bias is not None:
            out = out + self.W_o.bias
        return out, torch.cat(all_weights, dim=1)

# %% wrong MultiHeadAttentionLoop: the scores are divided by the root of d_model, the width of the inputs
class Head(nn.Module):
    def __init__(self, d_model, d_head, bias):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_head, bias=bias)
        self.W_k = nn.Linear(d_model, d_head, bias=bias)
        self.W_v = nn.Linear(d_model, d_head, bias=bias)

    def forward(self, query, key, value, mask):
        q, k, v = self.W_q(query), self.W_k(key), self.W_v(value)
        scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
        weights = masked_softmax(scores, mask)
        return weights @ v, weights


class MultiHeadAttentionLoop(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("d_model must be a multiple of num_heads")
        self.d_model = d_model
        self.num_heads = num_heads
        self.heads = nn.ModuleList([Head(d_model, d_model // num_heads, bias) for _ in range(num_heads)])
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        outs, weights = [], []
        for i, head in enumerate(self.heads):
            head_mask = mask
            if mask is not None and mask.dim() == 4:
                head_mask = mask[:, 0] if mask.shape[1] == 1 else mask[:, i]
            z, A = head(query, key, value, head_mask)
            outs.append(z)
            weights.append(A)
        return self.W_o(torch.cat(outs, dim=-1)), torch.stack(weights, dim=1)

# %% wrong MultiHeadAttentionLoop: the heads are in a plain Python list, so their parameters are not registered
# As: the scores are divided by the root of d_model, the width of the inputs
# @@
# -         scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
# +         scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
# @@
# -         self.heads = nn.ModuleList([Head(d_model, d_model // num_heads, bias) for _ in range(num_heads)])
# +         self.heads = [Head(d_model, d_model // num_heads, bias) for _ in range(num_heads)]

# %% wrong MultiHeadAttentionLoop: the list holds the same head num_heads times, so all share their weights
# As: the scores are divided by the root of d_model, the width of the inputs
# @@
# -         scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
# +         scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
# @@
# -         self.heads = nn.ModuleList([Head(d_model, d_model // num_heads, bias) for _ in range(num_heads)])
# +         self.heads = nn.ModuleList([Head(d_model, d_model // num_heads, bias)] * num_heads)

# %% wrong MultiHeadAttentionLoop: of a mask with four axes every head takes entry 0
# As: the scores are divided by the root of d_model, the width of the inputs
# @@
# -         scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
# +         scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
# @@
# -                 head_mask = mask[:, 0] if mask.shape[1] == 1 else mask[:, i]
# +                 head_mask = mask[:, 0]

# %% wrong MultiHeadAttentionLoop: a mask (b, 1, n_q, n_k) is indexed with the head's number, which fails
# As: the scores are divided by the root of d_model, the width of the inputs
# @@
# -         scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
# +         scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
# @@
# -             head_mask = mask
# @@
# -                 head_mask = mask[:, 0] if mask.shape[1] == 1 else mask[:, i]
# -             z, A = head(query, key, value, head_mask)
# +                 z, A = head(query, key, value, mask[:, i])
# +             else:
# +                 z, A = head(query, key, value, mask)

# %% wrong MultiHeadAttentionLoop: each head projects only its own slice of the input, from d_head to d_head
class MultiHeadAttentionLoop(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.d_head = d_model // num_heads
        self.heads = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(self.d_head, self.d_head, bias=bias) for name in ("W_q", "W_k", "W_v")})
            for _ in range(num_heads)
        )
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        results, weights = [], []
        for i, head in enumerate(self.heads):
            part = slice(i * self.d_head, (i + 1) * self.d_head)
            q, k, v = head["W_q"](query[..., part]), head["W_k"](key[..., part]), head["W_v"](value[..., part])
            m = mask
            if m is not None and m.dim() == 4:
                m = m[:, i if m.shape[1] > 1 else 0]
            A = masked_softmax(q @ k.mT / math.sqrt(self.d_head), m)
            results.append(A @ v)
            weights.append(A)
        return self.W_o(torch.cat(results, -1)), torch.stack(weights, 1)

# %% wrong MultiHeadAttentionLoop: W_o keeps its bias with bias=False
# As: the scores are divided by the root of d_model, the width of the inputs
# @@
# -         scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
# +         scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
# @@
# -         self.W_o = nn.Linear(d_model, d_model, bias=bias)
# +         self.W_o = nn.Linear(d_model, d_model)

# %% wrong MultiHeadAttentionLoop: the values default to the queries, even where keys are given
# As: the scores are divided by the root of d_model, the width of the inputs
# @@
# -         scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
# +         scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
# @@
# -         if key is None:
# -             key = query
# -         if value is None:
# -             value = key
# +         key = query if key is None else key
# +         value = query if value is None else value

# %% wrong MultiHeadAttentionLoop: own masking with minus infinity, so a query that may attend to nothing gets NaN
# As: the scores are divided by the root of d_model, the width of the inputs
# @@
# -         scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
# -         weights = masked_softmax(scores, mask)
# +         scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
# +         if mask is not None:
# +             if mask.shape[-1] != scores.shape[-1]:
# +                 raise ValueError("the mask does not fit")
# +             scores = scores.masked_fill(~mask.expand(scores.shape), float("-inf"))
# +         weights = torch.softmax(scores, dim=-1)

# %% wrong MultiHeadAttentionLoop: the weights are averaged over the heads, as PyTorch's layer does
# As: the scores are divided by the root of d_model, the width of the inputs
# @@
# -         scores = q @ k.transpose(-2, -1) / math.sqrt(query.shape[-1])
# +         scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
# @@
# -         return self.W_o(torch.cat(outs, dim=-1)), torch.stack(weights, dim=1)
# +         return self.W_o(torch.cat(outs, dim=-1)), torch.stack(weights, dim=1).mean(dim=1)

# %% right MultiHeadAttention: einsum over five letters, heads as an axis of the projections, no split_heads
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def _project(self, linear, x):
        return linear(x).unflatten(2, (self.num_heads, self.d_model // self.num_heads))  # (b, n, h, d_head)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = self._project(self.W_q, query), self._project(self.W_k, key), self._project(self.W_v, value)
        if mask is not None and mask.ndim == 3:
            mask = mask[:, None, :, :]
        S = torch.einsum("bqhd,bkhd->bhqk", q, k).div((self.d_model / self.num_heads) ** 0.5)
        A = masked_softmax(S, mask)
        z = torch.einsum("bhqk,bkhd->bqhd", A, v)
        return self.W_o(z.reshape(*z.shape[:2], -1)), A

# %% right MultiHeadAttention: heads folded into the batch, bmm, and softmax by way of logsumexp
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.d_head, left = divmod(d_model, num_heads)
        if left:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.d_model = d_model
        self.num_heads = num_heads
        self.W_q = nn.Linear(d_model, d_model, bias)
        self.W_k = nn.Linear(d_model, d_model, bias)
        self.W_v = nn.Linear(d_model, d_model, bias)
        self.W_o = nn.Linear(d_model, d_model, bias)

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        b, n_q, n_k, h = query.size(0), query.size(1), key.size(1), self.num_heads
        if value.size(1) != n_k:
            raise ValueError("as many values as keys are needed")
        q = split_heads(self.W_q(query) / math.sqrt(self.d_head), h).flatten(0, 1)  # (b * h, n_q, d_head)
        k = split_heads(self.W_k(key), h).flatten(0, 1)
        v = split_heads(self.W_v(value), h).flatten(0, 1)
        S = torch.bmm(q, k.transpose(1, 2)).view(b, h, n_q, n_k)
        if mask is not None:
            if mask.size(-1) != n_k:
                raise ValueError("the mask is for another number of keys")
            if mask.dim() == 3:
                mask = mask.unsqueeze(1)
            mask = mask.expand(b, h, n_q, n_k)
            S = S.masked_fill(~mask, -1e30 if S.dtype != torch.float16 else -6e4)
        A = torch.exp(S - torch.logsumexp(S, dim=-1, keepdim=True))
        if mask is not None:
            A = A * mask
        z = torch.bmm(A.view(b * h, n_q, n_k), v).view(b, h, n_q, self.d_head)
        return self.W_o(merge_heads(z)), A

# %% right MultiHeadAttention: sequence by sequence, with helpers for the mask and for the heads
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("num_heads does not divide d_model")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_q = nn.Linear(d_model, d_model, bias=bias)

    def _four_axes(self, mask, b):
        if mask is None:
            return [None] * b
        if mask.dim() == 2:
            mask = mask[None, None]
        elif mask.dim() == 3:
            mask = mask[:, None]
        return mask.expand(b, -1, -1, -1).unbind(0)  # of each sequence: (h or 1, n_q or 1, n_k)

    def _one_sequence(self, q, k, v, mask):
        scores = torch.matmul(q, k.permute(0, 2, 1))
        weights = masked_softmax(scores, mask)
        return torch.matmul(weights, v), weights

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        root = math.sqrt(self.d_model // self.num_heads)
        q = split_heads(self.W_q(query), self.num_heads) / root
        k = split_heads(self.W_k(key), self.num_heads)
        v = split_heads(self.W_v(value), self.num_heads)
        pairs = [self._one_sequence(*four) for four in zip(q, k, v, self._four_axes(mask, len(q)))]
        z = torch.stack([pair[0] for pair in pairs])
        A = torch.stack([pair[1] for pair in pairs])
        return self.W_o(merge_heads(z)), A

# %% wrong MultiHeadAttention: a mask of three axes gets no axis for the heads, so its b meets h
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be divisible by num_heads")
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        q = split_heads(self.W_q(query), self.num_heads)
        k = split_heads(self.W_k(key), self.num_heads)
        v = split_heads(self.W_v(value), self.num_heads)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        weights = masked_softmax(scores, mask)
        out = self.W_o(merge_heads(weights @ v))
        return out, weights

# %% wrong MultiHeadAttention: queries and keys are both divided by the root of d_head, so the scores by d_head
# As: a mask of three axes gets no axis for the heads, so its b meets h
# @@
# -         q = split_heads(self.W_q(query), self.num_heads)
# -         k = split_heads(self.W_k(key), self.num_heads)
# +         q = split_heads(self.W_q(query), self.num_heads) / math.sqrt(self.d_head)
# +         k = split_heads(self.W_k(key), self.num_heads) / math.sqrt(self.d_head)
# @@
# -         scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
# +         if mask is not None and mask.dim() == 3:
# +             mask = mask.unsqueeze(1)
# +         scores = q @ k.transpose(-2, -1)

# %% wrong MultiHeadAttention: the mask is read as PyTorch's layer does: True means may not attend
# As: a mask of three axes gets no axis for the heads, so its b meets h
# @@
#           v = split_heads(self.W_v(value), self.num_heads)
# +         if mask is not None and mask.dim() == 3:
# +             mask = mask[:, None]
# @@
# -         weights = masked_softmax(scores, mask)
# +         weights = masked_softmax(scores, None if mask is None else ~mask)

# %% wrong MultiHeadAttention: masked scores become -1e9, so a query that may attend to nothing gets even weights
# As: a mask of three axes gets no axis for the heads, so its b meets h
# @@
#           v = split_heads(self.W_v(value), self.num_heads)
# +         if mask is not None and mask.dim() == 3:
# +             mask = mask.unsqueeze(1)
# @@
# -         weights = masked_softmax(scores, mask)
# +         if mask is not None:
# +             if mask.shape[-1] != scores.shape[-1]:
# +                 raise ValueError("mask does not fit")
# +             scores = scores.masked_fill(mask.expand(scores.shape) == 0, -1e9)
# +         weights = torch.softmax(scores, dim=-1)

# %% wrong MultiHeadAttention: the weights that are returned are those without the mask
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be divisible by num_heads")
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        q = split_heads(self.W_q(query), self.num_heads)
        k = split_heads(self.W_k(key), self.num_heads)
        v = split_heads(self.W_v(value), self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        weights = scores.softmax(dim=-1)
        attended = masked_softmax(scores, mask) @ v
        return self.W_o(merge_heads(attended)), weights

# %% wrong MultiHeadAttention: the weights go through dropout in training mode
# As: a mask of three axes gets no axis for the heads, so its b meets h
# @@
#           self.W_o = nn.Linear(d_model, d_model, bias=bias)
# +         self.dropout = nn.Dropout(0.1)
# @@
#           v = split_heads(self.W_v(value), self.num_heads)
# +         if mask is not None and mask.dim() == 3:
# +             mask = mask.unsqueeze(1)
# @@
# -         weights = masked_softmax(scores, mask)
# +         weights = self.dropout(masked_softmax(scores, mask))

# %% wrong MultiHeadAttention: the heads are merged by a reshape, without transposing back
# As: a mask of three axes gets no axis for the heads, so its b meets h
# @@
#           v = split_heads(self.W_v(value), self.num_heads)
# +         if mask is not None and mask.dim() == 3:
# +             mask = mask.unsqueeze(1)
# @@
# -         out = self.W_o(merge_heads(weights @ v))
# +         b, n_q, d = query.shape
# +         out = self.W_o((weights @ v).reshape(b, n_q, d))

# %% wrong MultiHeadAttention: keys and values are reshaped with the number of queries
# As: a mask of three axes gets no axis for the heads, so its b meets h
# @@
# -         q = split_heads(self.W_q(query), self.num_heads)
# -         k = split_heads(self.W_k(key), self.num_heads)
# -         v = split_heads(self.W_v(value), self.num_heads)
# +         b, n, _ = query.shape
# +         q = self.W_q(query).view(b, n, self.num_heads, self.d_head).transpose(1, 2)
# +         k = self.W_k(key).view(b, n, self.num_heads, self.d_head).transpose(1, 2)
# +         v = self.W_v(value).view(b, n, self.num_heads, self.d_head).transpose(1, 2)
# +         if mask is not None and mask.dim() == 3:
# +             mask = mask.unsqueeze(1)

# %% wrong MultiHeadAttention: one linear layer W_qkv for all three projections, in place of W_q, W_k and W_v
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model must be divisible by num_heads")
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        q = split_heads(self.W_qkv(query).chunk(3, dim=-1)[0], self.num_heads)
        k = split_heads(self.W_qkv(key).chunk(3, dim=-1)[1], self.num_heads)
        v = split_heads(self.W_qkv(value).chunk(3, dim=-1)[2], self.num_heads)
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        weights = masked_softmax(scores, mask)
        out = self.W_o(merge_heads(weights @ v))
        return out, weights

# %% wrong MultiHeadAttention: unsqueeze_ changes the mask that was handed in
# As: a mask of three axes gets no axis for the heads, so its b meets h
# @@
#           v = split_heads(self.W_v(value), self.num_heads)
# +         if mask is not None and mask.dim() == 3:
# +             mask.unsqueeze_(1)

# %% right fuse: a state_dict is put together by name and loaded
def fuse(loop):
    with_bias = loop.W_o.bias is not None
    kinds = ["weight", "bias"] if with_bias else ["weight"]
    state = {f"W_o.{kind}": getattr(loop.W_o, kind).detach().clone() for kind in kinds}
    for name in ["W_q", "W_k", "W_v"]:
        for kind in kinds:
            rows = [getattr(getattr(head, name), kind).detach() for head in loop.heads]
            state[f"{name}.{kind}"] = torch.vstack(rows) if kind == "weight" else torch.hstack(rows)
    fused = MultiHeadAttention(loop.d_model, loop.num_heads, bias=with_bias)
    fused.to(dtype=loop.W_o.weight.dtype)
    fused.load_state_dict(state)
    return fused

# %% right fuse: rows are written head by head into slices of the new parameters
def fuse(loop):
    d_head = loop.d_model // loop.num_heads
    bias = loop.heads[0].W_q.bias is not None
    fused = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias).to(loop.heads[0].W_q.weight)

    @torch.no_grad()
    def move(source, target, first):
        last = first + source.weight.shape[0]
        target.weight[first:last] = source.weight
        if source.bias is not None:
            target.bias[first:last] = source.bias

    for i, head in enumerate(loop.heads):
        move(head.W_q, fused.W_q, i * d_head)
        move(head.W_k, fused.W_k, i * d_head)
        move(head.W_v, fused.W_v, i * d_head)
    move(loop.W_o, fused.W_o, 0)
    return fused

# %% right fuse: new nn.Parameters are put in place of the old ones
def fuse(loop):
    def parameter(tensors):
        return None if tensors[0] is None else nn.Parameter(torch.cat([t.detach().clone() for t in tensors], 0))

    layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias=loop.W_o.bias is not None)
    groups = {"W_o": [loop.W_o]}
    for name in ("W_q", "W_k", "W_v"):
        groups[name] = [getattr(head, name) for head in loop.heads]
    for name, linears in groups.items():
        new = getattr(layer, name)
        new.weight = parameter([linear.weight for linear in linears])
        new.bias = parameter([linear.bias for linear in linears])
    return layer

# %% wrong fuse: the heads' weights are put side by side and then reshaped to a square
def fuse(loop):
    bias = loop.W_o.bias is not None
    layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias).to(loop.W_o.weight.dtype)
    with torch.no_grad():
        for name in ("W_q", "W_k", "W_v"):
            linears = [getattr(head, name) for head in loop.heads]
            weight = torch.cat([linear.weight for linear in linears], dim=1)
            getattr(layer, name).weight.copy_(weight.reshape(loop.d_model, loop.d_model))
            if bias:
                getattr(layer, name).bias.copy_(torch.cat([linear.bias for linear in linears]))
        layer.W_o.weight.copy_(loop.W_o.weight)
        if bias:
            layer.W_o.bias.copy_(loop.W_o.bias)
    return layer

# %% wrong fuse: rows of the heads alternate in the fused weights and biases
def fuse(loop):
    bias = loop.W_o.bias is not None
    layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias).to(loop.W_o.weight.dtype)
    with torch.no_grad():
        for name in ("W_q", "W_k", "W_v"):
            linears = [getattr(head, name) for head in loop.heads]
            getattr(layer, name).weight.copy_(torch.stack([linear.weight for linear in linears], dim=1).flatten(0, 1))
            if bias:
                getattr(layer, name).bias.copy_(torch.stack([linear.bias for linear in linears], dim=1).flatten())
        layer.W_o.weight.copy_(loop.W_o.weight)
        if bias:
            layer.W_o.bias.copy_(loop.W_o.bias)
    return layer

# %% wrong fuse: W_o is transposed on the way
def fuse(loop):
    bias = loop.W_o.bias is not None
    layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias).to(loop.W_o.weight.dtype)
    with torch.no_grad():
        for name in ("W_q", "W_k", "W_v"):
            linears = [getattr(head, name) for head in loop.heads]
            getattr(layer, name).weight.copy_(torch.cat([linear.weight for linear in linears], dim=0))
            if bias:
                getattr(layer, name).bias.copy_(torch.cat([linear.bias for linear in linears]))
        layer.W_o.weight.copy_(loop.W_o.weight.T)
        if bias:
            layer.W_o.bias.copy_(loop.W_o.bias)
    return layer

# %% wrong fuse: W_o is taken over as the same module, so both layers train it
def fuse(loop):
    bias = loop.W_o.bias is not None
    layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias)
    for name in ["W_q", "W_k", "W_v"]:
        linear = getattr(layer, name)
        linear.weight = nn.Parameter(torch.cat([getattr(head, name).weight.detach() for head in loop.heads]))
        if bias:
            linear.bias = nn.Parameter(torch.cat([getattr(head, name).bias.detach() for head in loop.heads]))
    layer.W_o = loop.W_o
    return layer

# %% wrong fuse: only the weights are moved; the new layer keeps the biases that it was born with
def fuse(loop):
    bias = loop.W_o.bias is not None
    layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias).to(loop.W_o.weight.dtype)
    with torch.no_grad():
        for name in ("W_q", "W_k", "W_v"):
            linears = [getattr(head, name) for head in loop.heads]
            getattr(layer, name).weight.copy_(torch.cat([linear.weight for linear in linears], dim=0))
        layer.W_o.weight.copy_(loop.W_o.weight)
    return layer

# %% wrong fuse: the new layer always has biases, random ones where the list of heads has none
def fuse(loop):
    layer = MultiHeadAttention(loop.d_model, loop.num_heads).to(loop.W_o.weight.dtype)
    state = {}
    for name in ("W_q", "W_k", "W_v"):
        for kind in ("weight", "bias"):
            parts = [getattr(getattr(head, name), kind) for head in loop.heads]
            if parts[0] is not None:
                state[f"{name}.{kind}"] = torch.cat(parts)
    state["W_o.weight"] = loop.W_o.weight
    if loop.W_o.bias is not None:
        state["W_o.bias"] = loop.W_o.bias
    layer.load_state_dict(state, strict=False)
    return layer

# %% wrong fuse: the new layer stays in float32
def fuse(loop):
    bias = loop.W_o.bias is not None
    layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias)
    with torch.no_grad():
        for name in ("W_q", "W_k", "W_v"):
            linears = [getattr(head, name) for head in loop.heads]
            getattr(layer, name).weight.copy_(torch.cat([linear.weight for linear in linears], dim=0))
            if bias:
                getattr(layer, name).bias.copy_(torch.cat([linear.bias for linear in linears]))
        layer.W_o.weight.copy_(loop.W_o.weight)
        if bias:
            layer.W_o.bias.copy_(loop.W_o.bias)
    return layer

# %% wrong fuse: a slip: the keys' projection is filled from the queries'
def fuse(loop):
    has_bias = loop.W_o.bias is not None
    new = MultiHeadAttention(loop.d_model, loop.num_heads, bias=has_bias)
    new = new.to(loop.W_o.weight.dtype)
    with torch.no_grad():
        new.W_q.weight.copy_(torch.cat([h.W_q.weight for h in loop.heads]))
        new.W_k.weight.copy_(torch.cat([h.W_q.weight for h in loop.heads]))
        new.W_v.weight.copy_(torch.cat([h.W_v.weight for h in loop.heads]))
        new.W_o.weight.copy_(loop.W_o.weight)
        if has_bias:
            new.W_q.bias.copy_(torch.cat([h.W_q.bias for h in loop.heads]))
            new.W_k.bias.copy_(torch.cat([h.W_k.bias for h in loop.heads]))
            new.W_v.bias.copy_(torch.cat([h.W_v.bias for h in loop.heads]))
            new.W_o.bias.copy_(loop.W_o.bias)
    return new

# %% wrong fuse: the new parameters are frozen, they get no gradients
def fuse(loop):
    bias = loop.W_o.bias is not None
    layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias).to(loop.W_o.weight.dtype)
    with torch.no_grad():
        for name in ("W_q", "W_k", "W_v"):
            linears = [getattr(head, name) for head in loop.heads]
            getattr(layer, name).weight.copy_(torch.cat([linear.weight for linear in linears], dim=0))
            if bias:
                getattr(layer, name).bias.copy_(torch.cat([linear.bias for linear in linears]))
        layer.W_o.weight.copy_(loop.W_o.weight)
        if bias:
            layer.W_o.bias.copy_(loop.W_o.bias)
    for parameter in layer.parameters():
        parameter.requires_grad = False
    return layer

# %% wrong fuse: asks for loop.bias, which the list of heads need not have
# As: the new layer stays in float32
# @@
# -     bias = loop.W_o.bias is not None
# -     layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias)
# +     bias = loop.bias
# +     layer = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias).to(loop.W_o.weight.dtype)

# %% right from_torch: slices of rows go into a state_dict
def from_torch(module):
    d = module.embed_dim
    state = {"W_o.weight": module.out_proj.weight}
    for i, name in enumerate("qkv"):
        state[f"W_{name}.weight"] = module.in_proj_weight[i * d : (i + 1) * d, :]
    has_bias = module.in_proj_bias is not None
    if has_bias:
        state["W_o.bias"] = module.out_proj.bias
        for i, name in enumerate("qkv"):
            state[f"W_{name}.bias"] = module.in_proj_bias[i * d : (i + 1) * d]
    mine = MultiHeadAttention(d, module.num_heads, bias=has_bias).type(module.in_proj_weight.dtype)
    mine.load_state_dict(state)  # this copies the numbers
    return mine

# %% right from_torch: unflatten to (3, d, d), and new parameters that are clones
def from_torch(module):
    d, h = module.embed_dim, module.num_heads
    biased = module.in_proj_bias is not None
    layer = MultiHeadAttention(d, h, bias=biased)
    targets = [layer.W_q, layer.W_k, layer.W_v, layer.W_o]
    weights = [*module.in_proj_weight.detach().unflatten(0, (3, d)), module.out_proj.weight.detach()]
    for linear, weight in zip(targets, weights, strict=True):
        linear.weight = nn.Parameter(weight.clone())
    if biased:
        biases = [*module.in_proj_bias.detach().unflatten(0, (3, d)), module.out_proj.bias.detach()]
        for linear, bias in zip(targets, biases, strict=True):
            linear.bias = nn.Parameter(bias.clone())
    return layer

# %% right from_torch: each head is cut out for itself, gathered in a stand-in for a list of heads, and fused
def from_torch(module):
    from types import SimpleNamespace

    def cut(which, head):
        d_head = module.embed_dim // module.num_heads
        first = which * module.embed_dim + head * d_head
        rows = slice(first, first + d_head)
        bias = None if module.in_proj_bias is None else module.in_proj_bias[rows].detach()
        return SimpleNamespace(weight=module.in_proj_weight[rows].detach(), bias=bias)

    heads = [
        SimpleNamespace(W_q=cut(0, head), W_k=cut(1, head), W_v=cut(2, head)) for head in range(module.num_heads)
    ]
    loop = SimpleNamespace(
        heads=heads, W_o=module.out_proj, d_model=module.embed_dim, num_heads=module.num_heads
    )
    return fuse(loop)

# %% wrong from_torch: takes the rows in the order keys, queries, values
def from_torch(module):
    bias = module.in_proj_bias is not None
    layer = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias)
    layer = layer.to(module.in_proj_weight.dtype)
    with torch.no_grad():
        k, q, v = module.in_proj_weight.chunk(3, dim=0)
        layer.W_q.weight.copy_(q)
        layer.W_k.weight.copy_(k)
        layer.W_v.weight.copy_(v)
        layer.W_o.weight.copy_(module.out_proj.weight)
        if bias:
            bk, bq, bv = module.in_proj_bias.chunk(3)
            layer.W_q.bias.copy_(bq)
            layer.W_k.bias.copy_(bk)
            layer.W_v.bias.copy_(bv)
            layer.W_o.bias.copy_(module.out_proj.bias)
    return layer

# %% wrong from_torch: rows of queries, keys and values are thought to alternate
# As: takes the rows in the order keys, queries, values
# @@
# -         k, q, v = module.in_proj_weight.chunk(3, dim=0)
# +         q, k, v = module.in_proj_weight.view(module.embed_dim, 3, -1).unbind(1)
# @@
# -             bk, bq, bv = module.in_proj_bias.chunk(3)
# +             bq, bk, bv = module.in_proj_bias.view(module.embed_dim, 3).unbind(1)

# %% wrong from_torch: the three projections are transposed
def from_torch(module):
    bias = module.in_proj_bias is not None
    layer = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias)
    layer = layer.to(module.in_proj_weight.dtype)
    with torch.no_grad():
        q, k, v = module.in_proj_weight.chunk(3, dim=0)
        layer.W_q.weight.copy_(q.T)
        layer.W_k.weight.copy_(k.T)
        layer.W_v.weight.copy_(v.T)
        layer.W_o.weight.copy_(module.out_proj.weight)
        if bias:
            bq, bk, bv = module.in_proj_bias.chunk(3)
            layer.W_q.bias.copy_(bq)
            layer.W_k.bias.copy_(bk)
            layer.W_v.bias.copy_(bv)
            layer.W_o.bias.copy_(module.out_proj.bias)
    return layer

# %% wrong from_torch: biases are taken for granted, which fails with bias=False
def from_torch(module):
    d = module.embed_dim
    layer = MultiHeadAttention(d, module.num_heads)
    layer.to(module.in_proj_weight.dtype)
    with torch.no_grad():
        for i, linear in enumerate((layer.W_q, layer.W_k, layer.W_v)):
            linear.weight.copy_(module.in_proj_weight[i * d : (i + 1) * d])
            linear.bias.copy_(module.in_proj_bias[i * d : (i + 1) * d])
        layer.W_o.weight.copy_(module.out_proj.weight)
        layer.W_o.bias.copy_(module.out_proj.bias)
    return layer

# %% wrong from_torch: a float64 layer becomes a float32 one
def from_torch(module):
    bias = module.in_proj_bias is not None
    layer = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias)
    with torch.no_grad():
        q, k, v = module.in_proj_weight.chunk(3, dim=0)
        layer.W_q.weight.copy_(q)
        layer.W_k.weight.copy_(k)
        layer.W_v.weight.copy_(v)
        layer.W_o.weight.copy_(module.out_proj.weight)
        if bias:
            bq, bk, bv = module.in_proj_bias.chunk(3)
            layer.W_q.bias.copy_(bq)
            layer.W_k.bias.copy_(bk)
            layer.W_v.bias.copy_(bv)
            layer.W_o.bias.copy_(module.out_proj.bias)
    return layer

# %% wrong from_torch: the new parameters are views of in_proj_weight and share its memory
def from_torch(module):
    bias = module.in_proj_bias is not None
    layer = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias)
    names = ["W_q", "W_k", "W_v"]
    for name, rows in zip(names, module.in_proj_weight.data.chunk(3)):
        getattr(layer, name).weight = nn.Parameter(rows)
    if bias:
        for name, rows in zip(names, module.in_proj_bias.data.chunk(3)):
            getattr(layer, name).bias = nn.Parameter(rows)
    layer.W_o.weight = nn.Parameter(module.out_proj.weight.data)
    if bias:
        layer.W_o.bias = nn.Parameter(module.out_proj.bias.data)
    return layer

# %% wrong from_torch: with batch_first=False the new layer takes and returns (n, b, d_model)
def from_torch(module):
    bias = module.in_proj_bias is not None
    layer = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias)
    layer = layer.to(module.in_proj_weight.dtype)
    with torch.no_grad():
        q, k, v = module.in_proj_weight.chunk(3, dim=0)
        layer.W_q.weight.copy_(q)
        layer.W_k.weight.copy_(k)
        layer.W_v.weight.copy_(v)
        layer.W_o.weight.copy_(module.out_proj.weight)
        if bias:
            bq, bk, bv = module.in_proj_bias.chunk(3)
            layer.W_q.bias.copy_(bq)
            layer.W_k.bias.copy_(bk)
            layer.W_v.bias.copy_(bv)
            layer.W_o.bias.copy_(module.out_proj.bias)
    if not module.batch_first:
        forward = layer.forward

        def tokens_first(query, key=None, value=None, mask=None):
            turned = [None if x is None else x.transpose(0, 1) for x in (query, key, value)]
            out, weights = forward(*turned, mask)
            return out.transpose(0, 1), weights

        layer.forward = tokens_first
    return layer

# %% wrong from_torch: batch_first of the module that is handed in is set to True, and it is left in evaluation mode
# As: a float64 layer becomes a float32 one
# @@
#   def from_torch(module):
# +     module.batch_first = True
# +     module.eval()
# @@
#       layer = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias)
# +     layer = layer.to(module.in_proj_weight.dtype)

# %% wrong from_torch: loads the state_dict with strict=False, and no name fits, so nothing is moved
def from_torch(module):
    layer = MultiHeadAttention(module.embed_dim, module.num_heads, bias=module.in_proj_bias is not None)
    layer.to(module.in_proj_weight.dtype)
    layer.load_state_dict(module.state_dict(), strict=False)
    return layer

# %% wrong from_torch: the width of a head is handed on as the number of heads
# As: a float64 layer becomes a float32 one
# @@
# -     layer = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias)
# +     layer = MultiHeadAttention(module.embed_dim, module.head_dim, bias=bias)
# +     layer = layer.to(module.in_proj_weight.dtype)

# %% wrong split_heads: heads in front of the batch, reshaped back without a transpose
def split_heads(X, num_heads):
    b, n, d = X.shape
    if d % num_heads:
        raise ValueError("width")
    X = X.reshape(b, n, num_heads, d // num_heads).permute(2, 0, 1, 3).reshape(-1, n, d // num_heads)
    return X.reshape(b, num_heads, n, d // num_heads)

# %% wrong merge_heads: the batch and the heads are taken for each other
def merge_heads(X):
    b, h, n, d_head = X.shape
    X = X.reshape(h, b, n, d_head).permute(0, 2, 1, 3)
    return X.contiguous().view(b, -1, h * d_head)

# %% wrong MultiHeadAttention: the mask is tiled head by head, and the batch is in front of the heads
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("width")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        q = split_heads(self.W_q(query), self.num_heads)
        k = split_heads(self.W_k(key), self.num_heads)
        v = split_heads(self.W_v(value), self.num_heads)
        d_head = q.shape[-1]
        b, h, n_q, d = q.shape
        n_k = k.shape[2]
        if mask is not None:
            mask = mask.expand(b, n_q, n_k) if mask.dim() < 4 else mask.expand(b, h, n_q, n_k)[:, 0]
            mask = mask.repeat(h, 1, 1)
        q, k, v = (x.reshape(b * h, -1, d) for x in (q, k, v))
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(d), mask)
        out = (A @ v).reshape(b, h, n_q, d)
        return self.W_o(merge_heads(out)), A.reshape(b, h, n_q, n_k)

# %% wrong MultiHeadAttention: a mask with three axes gets no axis for the heads
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("width")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        q = split_heads(self.W_q(query), self.num_heads)
        k = split_heads(self.W_k(key), self.num_heads)
        v = split_heads(self.W_v(value), self.num_heads)
        d_head = q.shape[-1]
        S = q @ k.transpose(-2, -1) / math.sqrt(d_head)
        A = masked_softmax(S, mask)
        return self.W_o(merge_heads(A @ v)), A

# %% wrong split_heads: a head gets every h-th column
def split_heads(X, num_heads):
    b, n, d = X.shape
    if d % num_heads:
        raise ValueError(f"{d} columns for {num_heads} heads")
    return X.reshape(b, n, d // num_heads, num_heads).permute(0, 3, 1, 2)

# %% wrong split_heads: drops the columns that are left over and raises nothing
def split_heads(X, num_heads):
    width = X.shape[-1] // num_heads
    heads = [X[..., i * width : (i + 1) * width] for i in range(num_heads)]
    return torch.stack(heads, dim=1)

# %% right split_heads: windows of columns with unfold
def split_heads(X, num_heads):
    width, rest = divmod(X.shape[2], num_heads)
    if rest:
        raise IndexError(f"{rest} columns are left over")
    return X.unfold(2, width, width).movedim(2, 1)

# %% right merge_heads: concatenates the heads one by one
def merge_heads(X):
    return torch.cat(X.unbind(dim=1), dim=-1)

# %% wrong MultiHeadAttentionLoop: takes entry i of a mask with four axes, even if it has only one
class Head(nn.Module):
    def __init__(self, d_model, d_head, bias):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_head, bias=bias)
        self.W_k = nn.Linear(d_model, d_head, bias=bias)
        self.W_v = nn.Linear(d_model, d_head, bias=bias)

    def forward(self, query, key, value, mask):
        q, k = self.W_q(query), self.W_k(key)
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), mask)
        return A @ self.W_v(value), A


class MultiHeadAttentionLoop(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.heads = nn.ModuleList(Head(d_model, d_model // num_heads, bias) for _ in range(num_heads))
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        results, weights = [], []
        for i, head in enumerate(self.heads):
            own = mask[:, i] if mask is not None and mask.dim() == 4 else mask
            z, A = head(query, key, value, own)
            results.append(z)
            weights.append(A)
        return self.W_o(torch.cat(results, dim=-1)), torch.stack(weights, dim=1)

# %% wrong MultiHeadAttentionLoop: without values it takes the queries, not the keys
class MultiHeadAttentionLoop(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            names = ("W_q", "W_k", "W_v")
            self.heads.append(
                nn.ModuleDict({name: nn.Linear(d_model, d_model // num_heads, bias=bias) for name in names})
            )
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = query if key.shape == query.shape else key
        results, weights = [], []
        for i, head in enumerate(self.heads):
            own = mask
            if mask is not None and mask.dim() == 4:
                own = mask[:, i if mask.shape[1] > 1 else 0]
            q, k, v = head["W_q"](query), head["W_k"](key), head["W_v"](value)
            A = masked_softmax(q @ k.mT / math.sqrt(k.shape[-1]), own)
            results.append(A @ v)
            weights.append(A)
        return self.W_o(torch.cat(results, dim=-1)), torch.stack(weights, dim=1)

# %% right MultiHeadAttentionLoop: heads are dictionaries, and the mask gets four axes before the loop
class MultiHeadAttentionLoop(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not a multiple of {num_heads}")
        self.d_model = d_model
        self.num_heads = num_heads

        def projections():
            width = d_model // num_heads
            return nn.ModuleDict({f"W_{x}": nn.Linear(d_model, width, bias=bias) for x in "qkv"})

        self.heads = nn.ModuleList([projections() for _ in range(num_heads)])
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        if mask is None:
            masks = [None] * self.num_heads
        else:
            if mask.dim() == 3:
                mask = mask.unsqueeze(1)
            while mask.dim() < 4:
                mask = mask.unsqueeze(0)
            masks = mask.expand(-1, self.num_heads, -1, -1).unbind(1)
        pairs = [self.attend(head, query, key, value, own) for head, own in zip(self.heads, masks)]
        results, weights = zip(*pairs)
        return self.W_o(torch.cat(results, -1)), torch.stack(weights, 1)

    def attend(self, head, query, key, value, mask):
        q = head["W_q"](query) * (self.d_model / self.num_heads) ** -0.5
        A = masked_softmax(torch.einsum("bid,bjd->bij", q, head["W_k"](key)), mask)
        return torch.bmm(A, head["W_v"](value)), A

# %% wrong MultiHeadAttention: a mask with three axes goes on unchanged, so its sequences meet the heads
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value

        def heads(x):
            return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

        q, k, v = heads(self.W_q(query)), heads(self.W_k(key)), heads(self.W_v(value))
        A = masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), mask)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A

# %% wrong MultiHeadAttention: returns detached weights
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        b, n_q, _ = query.shape
        n_k = key.shape[1]
        d_head = self.d_model // self.num_heads
        q = self.W_q(query).reshape(b, n_q, self.num_heads, d_head).transpose(1, 2)
        k = self.W_k(key).reshape(b, n_k, self.num_heads, d_head).transpose(1, 2)
        v = self.W_v(value).reshape(b, n_k, self.num_heads, d_head).transpose(1, 2)
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(d_head), mask)
        Z = (A @ v).transpose(1, 2).reshape(b, n_q, self.d_model)
        return self.W_o(Z), A.detach()  # only to look at

# %% right MultiHeadAttention: einsum with the head as the third axis, never transposed
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("the heads do not share the columns evenly")
        self.d_model = d_model
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        shape = (self.num_heads, self.d_model // self.num_heads)
        q = self.W_q(query).unflatten(2, shape)
        k = self.W_k(key).unflatten(2, shape)
        v = self.W_v(value).unflatten(2, shape)
        S = torch.einsum("bihd,bjhd->bhij", q / math.sqrt(shape[1]), k)
        if mask is not None and mask.ndim == 3:
            mask = mask[:, None, :, :]
        A = masked_softmax(S, mask)
        Z = torch.einsum("bhij,bjhd->bihd", A, v)
        return self.W_o(Z.flatten(2)), A

# %% wrong fuse: W_o is the very module of the list of heads
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        q = self.W_q(query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(key).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(value).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), mask)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A


def fuse(loop):
    bias = loop.W_o.bias is not None
    new = MultiHeadAttention(loop.d_model, loop.num_heads, bias)
    new = new.to(loop.W_o.weight.dtype)
    with torch.no_grad():
        for name in ("W_q", "W_k", "W_v"):
            layers = [getattr(head, name) for head in loop.heads]
            getattr(new, name).weight.copy_(torch.cat([layer.weight for layer in layers]))
            if bias:
                getattr(new, name).bias.copy_(torch.cat([layer.bias for layer in layers]))
    new.W_o = loop.W_o
    return new

# %% wrong fuse: the new layer stays float32
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        q = self.W_q(query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(key).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(value).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), mask)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A


def fuse(loop):
    bias = loop.W_o.bias is not None
    new = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias)
    kinds = ["weight", "bias"] if bias else ["weight"]
    with torch.no_grad():
        for kind in kinds:
            getattr(new.W_o, kind).copy_(getattr(loop.W_o, kind))
            for name in ("W_q", "W_k", "W_v"):
                parts = [getattr(getattr(head, name), kind) for head in loop.heads]
                getattr(getattr(new, name), kind).copy_(torch.cat(parts, dim=0))
    return new

# %% right fuse: collects a state_dict and loads it
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        q = self.W_q(query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(key).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(value).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), mask)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A


def fuse(loop):
    state = {f"W_o.{kind}": value.detach().clone() for kind, value in loop.W_o.named_parameters()}
    for name in ("W_q", "W_k", "W_v"):
        own = [dict(getattr(head, name).named_parameters()) for head in loop.heads]
        for kind in own[0]:
            state[f"{name}.{kind}"] = torch.cat([parameters[kind].detach() for parameters in own])
    new = MultiHeadAttention(loop.d_model, loop.num_heads, bias="W_o.bias" in state)
    new.to(dtype=state["W_o.weight"].dtype).load_state_dict(state)
    return new

# %% wrong from_torch: reads the rows as query, key and value of one head after the other
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        q = self.W_q(query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(key).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(value).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), mask)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A


def from_torch(module):
    bias = module.in_proj_bias is not None
    d, h = module.embed_dim, module.num_heads
    new = MultiHeadAttention(d, h, bias=bias).to(module.in_proj_weight.dtype)
    with torch.no_grad():
        rows = module.in_proj_weight.reshape(h, 3, d // h, d)
        for i, layer in enumerate((new.W_q, new.W_k, new.W_v)):
            layer.weight.copy_(rows[:, i].reshape(d, d))
            if bias:
                layer.bias.copy_(module.in_proj_bias.reshape(h, 3, d // h)[:, i].reshape(d))
        new.W_o.weight.copy_(module.out_proj.weight)
        if bias:
            new.W_o.bias.copy_(module.out_proj.bias)
    return new

# %% wrong from_torch: the parameters are views of those of PyTorch's layer
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        q = self.W_q(query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(key).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(value).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), mask)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A


def from_torch(module):
    bias = module.in_proj_bias is not None
    new = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias)
    weights = module.in_proj_weight.detach().chunk(3)
    for i, layer in enumerate((new.W_q, new.W_k, new.W_v)):
        layer.weight = nn.Parameter(weights[i])
        if bias:
            layer.bias = nn.Parameter(module.in_proj_bias.detach().chunk(3)[i])
    new.W_o.weight = nn.Parameter(module.out_proj.weight.detach())
    if bias:
        new.W_o.bias = nn.Parameter(module.out_proj.bias.detach())
    return new

# %% right from_torch: copies of the named parameters, loaded by name
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        q = self.W_q(query).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(key).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        v = self.W_v(value).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), mask)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A


def from_torch(module):
    theirs = {name: value.detach().clone() for name, value in module.named_parameters()}
    d = module.embed_dim
    state = {}
    for name, value in theirs.items():
        kind = name.rsplit("_" if name.startswith("in") else ".", 1)[1]
        if name.startswith("out_proj"):
            state[f"W_o.{kind}"] = value
        else:
            for i, letter in enumerate("qkv"):
                state[f"W_{letter}.{kind}"] = value[i * d : (i + 1) * d]
    new = MultiHeadAttention(d, module.num_heads, bias="W_o.bias" in state)
    new = new.to(module.out_proj.weight.dtype)
    new.load_state_dict(state, strict=True)
    return new

"""Right answers that look different from ours; the tests run the checks on them. Students do not get them.

Some allow any broadcasting, and fail only advice: these also earn all points.
"""

import copy
import math

import torch
from torch import nn

from checking import right
from misconceptions import (
    PROJECTIONS,
    Head,
    MultiHeadAttention,
    MultiHeadAttentionLoop,
    divides,
    merge,
    share,
)

# by_hand


@right("by_hand")
def by_hand_as_a_tensor():
    first, second = torch.tensor([3.0, 1.0]), torch.tensor([6.0, 2.0])
    return torch.cat([first + 2 * second, first])


# split_heads


@right("split_heads")
def split_heads_chunks(X, num_heads):
    divides(X.shape[-1], num_heads)
    return torch.stack(X.chunk(num_heads, dim=-1), dim=1)


@right("split_heads")
def split_heads_einsum(X, num_heads):
    return torch.einsum("bnhd->bhnd", X.unflatten(2, (num_heads, divides(X.shape[-1], num_heads))))


@right("split_heads")
def split_heads_filled(X, num_heads):
    b, n, d = X.shape
    d_head = divides(d, num_heads)
    Z = X.new_zeros(b, num_heads, n, d_head)
    for i in range(num_heads):
        Z[:, i] = X[:, :, i * d_head : (i + 1) * d_head]
    return Z


# merge_heads


@right("merge_heads")
def merge_heads_cat(X):
    return torch.cat(X.unbind(1), dim=-1)


@right("merge_heads")
def merge_heads_einsum(X):
    return torch.einsum("bhnd->bnhd", X).flatten(-2)


@right("merge_heads")
def merge_heads_filled(X):
    b, h, n, d_head = X.shape
    Z = X.new_empty(b, n, h * d_head)
    for i in range(h):
        Z[..., i * d_head : (i + 1) * d_head] = X[:, i]
    return Z


# MultiHeadAttentionLoop


class OneHead(Head):
    def forward(self, query, key, value, mask):
        q, k, v = self.W_q(query), self.W_k(key), self.W_v(value)
        S = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            S = S.masked_fill(~mask, -torch.inf)
        A = S.softmax(-1).nan_to_num(0.0)
        return A @ v, A


@right("MultiHeadAttentionLoop")
class MultiHeadAttentionLoop_head_by_head(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            self.heads.append(OneHead(d_model, d_model // num_heads, bias))
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
                head_mask = mask[:, i if mask.shape[1] > 1 else 0]
            z, A = head(query, key, value, head_mask)
            outs.append(z)
            weights.append(A)
        return self.W_o(torch.cat(outs, -1)), torch.stack(weights, 1)


@right("MultiHeadAttentionLoop")
class MultiHeadAttentionLoop_summed(MultiHeadAttentionLoop):
    """W_o split into the heads' columns, so that each head adds its part to the stream."""

    def together(self, Z):
        return Z

    def last(self, Z):
        columns = self.W_o.weight.split(self.d_head, dim=1)
        out = sum(Z[:, i] @ W.T for i, W in enumerate(columns))
        return out if self.W_o.bias is None else out + self.W_o.bias


@right("MultiHeadAttentionLoop")
class MultiHeadAttentionLoop_sequence_by_sequence(MultiHeadAttentionLoop):
    def forward(self, query, key=None, value=None, mask=None):
        query, key, value = self.sources(query, key, value)
        b, n_q, n_k = len(query), query.shape[1], key.shape[1]
        if mask is not None:
            mask = self.four(mask)
            if mask.shape[-1] != n_k:
                raise ValueError("another number of keys")
            mask = mask.expand(b, self.num_heads, n_q, n_k)
        outs, weights = [], []
        for s in range(b):
            heads = []
            for i, head in enumerate(self.heads):
                S = head.W_q(query[s]) @ head.W_k(key[s]).T * self.d_head**-0.5
                A = share(S, None if mask is None else mask[s, i])
                heads.append((A @ head.W_v(value[s]), A))
            outs.append(self.W_o(torch.hstack([z for z, _ in heads])))
            weights.append(torch.stack([A for _, A in heads]))
        return torch.stack(outs), torch.stack(weights)


# MultiHeadAttention


@right("MultiHeadAttention")
class MultiHeadAttention_view(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        self.register_buffer("root", torch.tensor(float(self.depth)).sqrt())

    def split(self, x, batch_size):
        return x.view(batch_size, -1, self.num_heads, self.depth).transpose(1, 2)

    def forward(self, query, key=None, value=None, mask=None):
        if key is None:
            key = query
        if value is None:
            value = key
        batch_size = query.size(0)
        q = self.split(self.W_q(query), batch_size)
        k = self.split(self.W_k(key), batch_size)
        v = self.split(self.W_v(value), batch_size)
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.root
        if mask is not None:
            if mask.dim() == 3:
                mask = mask.unsqueeze(1)
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
        context = (
            torch.matmul(weights, v).transpose(1, 2).contiguous().view(batch_size, -1, self.d_model)
        )
        return self.W_o(context), weights


@right("MultiHeadAttention")
class MultiHeadAttention_einsum(MultiHeadAttention):
    def forward(self, query, key=None, value=None, mask=None):
        query, key, value = self.sources(query, key, value)
        h = self.num_heads
        q, k, v = (
            linear(X).unflatten(-1, (h, -1))
            for linear, X in ((self.W_q, query), (self.W_k, key), (self.W_v, value))
        )
        S = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
        A = share(S, None if mask is None else self.four(mask))
        return self.W_o(torch.einsum("bhij,bjhd->bihd", A, v).flatten(2)), A


@right("MultiHeadAttention")
class MultiHeadAttention_sdpa(MultiHeadAttention):
    """The library's attention twice: for the values, and for the identity, which gives the weights."""

    def forward(self, query, key=None, value=None, mask=None):
        query, key, value = self.sources(query, key, value)
        q, k, v = self.apart(query, key, value)
        if mask is not None:
            mask = self.four(mask).expand(len(q), self.num_heads, q.shape[-2], k.shape[-2])
            seen = mask.any(-1, keepdim=True)
            mask = mask | ~seen
        one_each = torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:2], -1, -1)
        Z, A = (
            nn.functional.scaled_dot_product_attention(q, k, X, attn_mask=mask)
            for X in (v, one_each)
        )
        if mask is not None:
            Z, A = Z * seen, A * seen
        return self.W_o(merge(Z)), A


@right("MultiHeadAttention")
class MultiHeadAttention_head_by_head(MultiHeadAttention):
    def forward(self, query, key=None, value=None, mask=None):
        query, key, value = self.sources(query, key, value)
        q, k, v = (
            linear(X).chunk(self.num_heads, dim=-1)
            for linear, X in zip((self.W_q, self.W_k, self.W_v), (query, key, value), strict=True)
        )
        if mask is not None:
            mask = self.four(mask).expand(-1, self.num_heads, -1, -1)
        heads, weights = [], []
        for i in range(self.num_heads):
            A = share(q[i] @ k[i].mT / q[i].shape[-1] ** 0.5, None if mask is None else mask[:, i])
            heads.append(A @ v[i])
            weights.append(A)
        return self.W_o(torch.cat(heads, dim=-1)), torch.stack(weights, dim=1)


@right("MultiHeadAttention")
class MultiHeadAttention_folded(MultiHeadAttention):
    """Heads folded into the batch, as in older code, and `torch.bmm`."""

    def forward(self, query, key=None, value=None, mask=None):
        query, key, value = self.sources(query, key, value)
        q, k, v = (X.flatten(0, 1) for X in self.apart(query, key, value))
        S = torch.bmm(q / self.d_head**0.5, k.transpose(1, 2)).unflatten(0, (-1, self.num_heads))
        A = share(S, None if mask is None else self.four(mask))
        Z = torch.bmm(A.flatten(0, 1), v).unflatten(0, (-1, self.num_heads))
        return self.W_o(merge(Z)), A


@right("MultiHeadAttention")
class MultiHeadAttention_float32_softmax(MultiHeadAttention):
    """Softmax of a shorter dtype in float32, converted back."""

    def weigh(self, S, mask):
        wide = S.float() if S.dtype in (torch.float16, torch.bfloat16) else S
        return share(wide, mask).to(S.dtype)


# fuse


@right("fuse")
def fuse_state_dict(loop):
    state = {}
    for name in PROJECTIONS:
        for kind in ("weight", "bias"):
            parts = [getattr(getattr(head, name), kind) for head in loop.heads]
            if parts[0] is not None:
                state[f"{name}.{kind}"] = torch.cat(parts)
    state |= {f"W_o.{kind}": value for kind, value in loop.W_o.state_dict().items()}
    layer = MultiHeadAttention(loop.d_model, loop.num_heads, "W_o.bias" in state).to(
        loop.W_o.weight.dtype
    )
    layer.load_state_dict(state)
    return layer


@right("fuse")
def fuse_new_parameters(loop):
    fused = MultiHeadAttention(loop.d_model, loop.num_heads, loop.W_o.bias is not None)
    for name in PROJECTIONS:
        layer = getattr(fused, name)
        layer.weight = nn.Parameter(
            torch.vstack([getattr(head, name).weight for head in loop.heads])
        )
        if layer.bias is not None:
            layer.bias = nn.Parameter(
                torch.hstack([getattr(head, name).bias for head in loop.heads])
            )
    fused.W_o = copy.deepcopy(loop.W_o)
    return fused


@right("fuse")
def fuse_data(loop):
    layer = MultiHeadAttention(loop.d_model, loop.num_heads, loop.W_o.bias is not None)
    for name in PROJECTIONS:
        getattr(layer, name).weight.data = torch.cat(
            [getattr(head, name).weight.data for head in loop.heads], dim=0
        )
        if loop.W_o.bias is not None:
            getattr(layer, name).bias.data = torch.cat(
                [getattr(head, name).bias.data for head in loop.heads], dim=0
            )
    layer.W_o.weight.data = loop.W_o.weight.data.clone()
    if loop.W_o.bias is not None:
        layer.W_o.bias.data = loop.W_o.bias.data.clone()
    return layer


# from_torch


@right("from_torch")
def from_torch_state_dict(module):
    theirs, state = module.state_dict(), {}
    for kind in ("weight", "bias"):
        if f"in_proj_{kind}" in theirs:
            parts = theirs[f"in_proj_{kind}"].chunk(3)
            state |= {f"{name}.{kind}": part for name, part in zip(PROJECTIONS, parts, strict=True)}
            state[f"W_o.{kind}"] = theirs[f"out_proj.{kind}"]
    layer = MultiHeadAttention(module.embed_dim, module.num_heads, "W_o.bias" in state).to(
        module.in_proj_weight.dtype
    )
    layer.load_state_dict(state)
    return layer


@right("from_torch")
def from_torch_cloned(module):
    bias = module.out_proj.bias is not None
    layer = MultiHeadAttention(module.embed_dim, module.num_heads, bias)
    weights = module.in_proj_weight.detach().clone().tensor_split(3)
    layer.W_q.weight, layer.W_k.weight, layer.W_v.weight = (
        nn.Parameter(part.clone()) for part in weights
    )
    if bias:
        parts = module.in_proj_bias.detach().split(module.embed_dim)
        layer.W_q.bias, layer.W_k.bias, layer.W_v.bias = (
            nn.Parameter(part.clone()) for part in parts
        )
    layer.W_o = copy.deepcopy(module.out_proj)
    return layer


@right("from_torch")
def from_torch_reshaped(module):
    d = module.embed_dim
    layer = MultiHeadAttention(d, module.num_heads, module.in_proj_bias is not None).type(
        module.in_proj_weight.dtype
    )
    stacked = dict(zip(PROJECTIONS, module.in_proj_weight.detach().reshape(3, d, d), strict=True))
    state = {f"{name}.weight": part for name, part in stacked.items()}
    if module.in_proj_bias is not None:
        both = zip(PROJECTIONS, module.in_proj_bias.detach().reshape(3, d), strict=True)
        state |= {f"{name}.bias": part for name, part in both}
    state |= {f"W_o.{name}": part.detach() for name, part in module.out_proj.named_parameters()}
    layer.load_state_dict(state)
    return layer

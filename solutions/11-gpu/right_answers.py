"""Right answers that look different from ours; the tests run the checks on them. Students do not get them.

Some allow any broadcasting, and fail only advice: these also earn all points.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from checking import right
from misconceptions import Back, attend_by


@right("by_hand")
def by_hand_tensor():
    return torch.tensor([1.5, 0.5, 2.75, 3.4545])


# flash_attention_forward


@right("flash_attention_forward")
def flash_attention_forward_strides(q, k, v, causal=False):
    return attend_by(q, k, v, causal)


@right("flash_attention_forward")
def flash_attention_forward_long_tiles(q, k, v, causal=False):
    return attend_by(q, k, v, causal, 16, 64, "in place")


@right("flash_attention_forward")
def flash_attention_forward_powers_of_two(q, k, v, causal=False):
    return attend_by(q, k, v, causal, 32, 32, "base 2")


@right("flash_attention_forward")
def flash_attention_forward_float32(q, k, v, causal=False):
    return attend_by(q, k, v, causal, 32, 16, "float32")


# tiled_backward


@right("tiled_backward")
def tiled_backward_pairs(q, k, v, d_out, lse, D, causal=False):
    """One loop over pairs of blocks for all three."""
    dq, dk, dv = (torch.zeros_like(own) for own in (q, k, v))
    for i in torch.arange(len(q)).split(32):
        for j in torch.arange(len(k)).split(32):
            scores = torch.einsum("id,jd->ij", q[i], k[j]) / len(q[0]) ** 0.5
            if causal:
                scores = scores.masked_fill(j > i[:, None], -torch.inf)
            P = (scores - lse[i].unsqueeze(1)).exp()
            dS = P * (d_out[i] @ v[j].mT - D[i].unsqueeze(1)) / len(q[0]) ** 0.5
            dq[i] += dS @ k[j]
            dk[j] += dS.mT @ q[i]
            dv[j] += P.mT @ d_out[i]
    return dq, dk, dv


@right("tiled_backward")
def tiled_backward_blocks(q, k, v, d_out, lse, D, causal=False):
    """A block of queries with all keys, and no block shorter than another."""
    dk, dv, found = 0, 0, []
    for i in range(0, len(q), 16):
        own, upstream = q[i : i + 16] / math.sqrt(q.shape[1]), d_out[i : i + 16]
        P = torch.exp(own @ k.T - lse[i : i + 16, None])
        P = (
            torch.where(torch.arange(len(k)) > torch.arange(i, i + len(own))[:, None], 0, P)
            if causal
            else P
        )
        dS = P * (upstream @ v.T) - P * D[i : i + 16, None]
        found.append(dS @ k / math.sqrt(q.shape[1]))
        dk, dv = dk + dS.T @ own, dv + P.T @ upstream
    return torch.cat(found), dk, dv


# flash_attention


@right("flash_attention")
def flash_attention_in_parts(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 32, 32, "parts")


@right("flash_attention")
def flash_attention_one_kernel(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 64, 16, "")


@right("flash_attention")
def flash_attention_float32(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 32, 32, "float32")


# MultiHeadLayer


@right("MultiHeadLayer")
class MultiHeadLayer_fused(nn.Module):
    """One projection for queries, keys and values; heads of keys repeated for torch's own attention."""

    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
        super().__init__()
        self.h, self.h_kv = num_heads, num_kv_heads or num_heads
        if d_model % num_heads or num_heads % self.h_kv:
            raise ValueError("heads do not divide")
        self.d_head = d_model // num_heads
        self.widths = [d_model, self.h_kv * self.d_head, self.h_kv * self.d_head]
        self.make(d_model, bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def make(self, d_model, bias):
        self.W_qkv = nn.Linear(d_model, sum(self.widths), bias=bias)

    def projected(self, x):
        return self.W_qkv(x).split(self.widths, -1)

    def project(self, x):
        return [own.unflatten(-1, (-1, self.d_head)).transpose(1, 2) for own in self.projected(x)]

    def forward(self, x, mask=None, is_causal=False, cache=None):
        q, k, v = self.project(x)
        if cache is not None:
            k, v = cache.append(k, v)
        n, n_k = x.shape[1], k.shape[2]
        k, v = (own.repeat_interleave(self.h // self.h_kv, 1) for own in (k, v))
        if mask is None:
            if is_causal and 1 < n < n_k:  # torch counts from the first key
                q = functional.pad(q, (0, 0, n_k - n, 0))
            z = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal and n > 1)[
                :, :, -n:
            ]
        else:
            if mask.shape[-1] != n_k or mask.shape[-2] not in ((n,) if mask.dim() == 2 else (n, 1)):
                raise ValueError("a mask that does not fit")
            mask = mask[:, None] if mask.dim() == 3 else mask
            if is_causal:
                mask = mask & torch.ones(n, n_k, dtype=torch.bool, device=x.device).tril(n_k - n)
            z = functional.scaled_dot_product_attention(q, k, v, mask)
        return self.W_o(z.transpose(1, 2).flatten(2))


@right("MultiHeadLayer")
class MultiHeadLayer_separate(MultiHeadLayer_fused):
    def make(self, d_model, bias):
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, own, bias=bias) for own in self.widths)

    def projected(self, x):
        return self.W_q(x), self.W_k(x), self.W_v(x)


@right("MultiHeadLayer")
class MultiHeadLayer_stretched(MultiHeadLayer_separate):
    """Sizes that do not fit are left to PyTorch, which stretches them or raises any error."""

    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
        assert d_model % num_heads == 0 and num_heads % (num_kv_heads or num_heads) == 0
        super().__init__(d_model, num_heads, num_kv_heads, bias)

    def forward(self, x, mask=None, is_causal=False, cache=None):
        q, k, v = self.project(x)
        if cache is not None:
            k, v = cache.append(k, v)
        n, n_k = q.shape[2], k.shape[2]
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]
        if is_causal and (mask is not None or 1 < n < n_k):
            causal = torch.ones(n, n_k, dtype=torch.bool, device=x.device).tril(n_k - n)
            mask = causal if mask is None else causal & mask
        k, v = (own.repeat_interleave(self.h // self.h_kv, dim=1) for own in (k, v))
        is_causal = is_causal and mask is None and n > 1
        z = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)
        return self.W_o(z.transpose(1, 2).flatten(2))


@right("MultiHeadLayer")
class MultiHeadLayer_chunks(MultiHeadLayer_separate):
    """A chunk of queries at a time: never n x n."""

    size = 16

    def forward(self, x, mask=None, is_causal=False, cache=None):
        q, k, v = self.project(x)
        if cache is not None:
            k, v = cache.append(k, v)
        n, n_k, found = x.shape[1], k.shape[2], []
        if mask is not None:
            mask = mask if mask.dim() == 4 else mask[(None,) * (3 - mask.dim())][:, None]
            if (
                mask.shape[-1] != n_k
                or mask.shape[-2] not in (n, 1)
                or (mask.shape[-2] == 1 and len(mask) == 1 < n)
            ):
                raise ValueError("a mask that does not fit")
            mask = mask.expand(-1, -1, n, -1)
        for i in range(0, n, self.size):
            own = q[:, :, i : i + self.size]
            at = torch.arange(n_k - n + i, n_k - n + i + own.shape[2], device=x.device)
            found.append(
                self.attend(
                    own,
                    k,
                    v,
                    None if mask is None else mask[:, :, i : i + self.size],
                    at,
                    is_causal,
                )
            )
        return self.W_o(torch.cat(found, dim=2).transpose(1, 2).flatten(2))

    def attend(self, q, k, v, mask, at, is_causal):
        k, v = (own.repeat_interleave(self.h // self.h_kv, dim=1) for own in (k, v))
        seen = torch.ones(len(at), k.shape[2], dtype=torch.bool, device=q.device)
        if is_causal:
            seen = torch.arange(k.shape[2], device=q.device) <= at[:, None]
        if mask is not None:
            seen = seen & mask
        scores = (q @ k.mT / math.sqrt(self.d_head)).masked_fill(~seen, torch.finfo(q.dtype).min)
        return scores.softmax(-1).masked_fill(~seen, 0.0) @ v


@right("MultiHeadLayer")
class MultiHeadLayer_small_chunks(MultiHeadLayer_chunks):
    """Small chunks, with groups of heads as a dimension, and einsum."""

    size = 7

    def attend(self, q, k, v, mask, at, is_causal):
        q = q.unflatten(1, (self.h_kv, -1))
        scores = torch.einsum("bghid,bgjd->bghij", q * self.d_head**-0.5, k)
        if is_causal:
            later = torch.arange(k.shape[2], device=q.device) > at[:, None]
            scores = torch.where(later, -torch.inf, scores)
        if mask is not None:
            own = mask.expand(-1, self.h, -1, -1).unflatten(1, (self.h_kv, -1))
            scores = torch.where(own, scores, -torch.inf)
        A = torch.nan_to_num(
            torch.softmax(torch.where(scores.isneginf().all(-1, True), 0.0, scores), -1)
        )
        A = torch.where(scores.isneginf(), 0.0, A)
        return torch.einsum("bghij,bgjd->bghid", A, v).flatten(1, 2)


@right("MultiHeadLayer")
class MultiHeadLayer_grouped(MultiHeadLayer_fused):
    """Groups and masks by torch's own means."""

    def forward(self, x, mask=None, is_causal=False, cache=None):
        q, k, v = self.project(x)
        if cache is not None:
            k, v = cache.append(k, v)
        n, n_k = q.shape[2], k.shape[2]
        named = {"enable_gqa": self.h != self.h_kv}
        if mask is None and is_causal and 1 < n < n_k:  # one part of the new tokens at a time
            z = [
                functional.scaled_dot_product_attention(
                    q[:, :, i : i + 1],
                    k[:, :, : n_k - n + i + 1],
                    v[:, :, : n_k - n + i + 1],
                    **named,
                )
                for i in range(n)
            ]
            return self.W_o(torch.cat(z, 2).transpose(1, 2).reshape(x.shape))
        if mask is not None:
            if (mask.dim() == 2 and mask.shape != (n, n_k)) or mask.shape[-1] != n_k:
                raise ValueError("a mask that does not fit")
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask
            if is_causal:
                mask = mask & torch.ones(n, n_k, dtype=torch.bool, device=x.device).tril(n_k - n)
            is_causal = False
        z = functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=is_causal and n > 1, **named
        )
        return self.W_o(z.transpose(1, 2).reshape(x.shape))

"""Wrong answers that people really give, each with the hint it deserves; and right ones that look different.

None of them is a kernel: what a kernel with this mistake computes is written with torch, tile by tile.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from checking import misconception, right

BLOCK = 32


@misconception(
    "by_hand", label="total not shrunk", hint="The first total counts from the old top: it shrinks by half."
)
def by_hand_not_shrunk():
    return [1.5, 0.5, 3.5, 9.5 / 3.5]


@misconception("by_hand", label="no maximum subtracted", hint="Each weight is exp(score - top): subtract top.")
def by_hand_without_top():
    return [3, 1, 11, 38 / 11]


@misconception("by_hand", label="output not divided", hint="At the end the weighted sum is divided by the total.")
def by_hand_not_divided():
    return [1.5, 0.5, 2.75, 9.5]


@misconception("by_hand", label="factor upside down", hint="The factor is exp(old top - new top), which is below 1.")
def by_hand_factor():
    return [1.5, 2, 2.75, 38 / 11]


@right("by_hand")
def by_hand_tuple():
    return 3 / 2, 1 / 2, 11 / 4, 3.4545


@right("by_hand")
def by_hand_tensor():
    return torch.tensor([1.5, 0.5, 2.75, 3.4545])


# flash_attention_forward: what kernels compute, with one mistake or none


def seen_by(rows, keys, causal, fault):
    if not causal or fault == "ignored":
        return torch.ones(len(rows), len(keys), dtype=torch.bool)
    i, j = rows[:, None], keys[None, :]
    if fault == "one_more":
        return j <= i + 1
    if fault == "one_more_in_tile":
        return (j <= i + 1) & (j // BLOCK <= i // BLOCK)
    if fault == "blocks":
        return j // BLOCK <= i // BLOCK
    if fault == "one_tile_less":
        return (j <= i) & ((j // BLOCK < i // BLOCK) | (i < BLOCK))
    return j >= i if fault == "other_side" else j <= i


def tiles(q, k, v, causal, fault="", block=BLOCK):
    b, h, n, d = q.shape
    scale = {"no_scale": 1, "scale_d": 1 / d}.get(fault, 1 / math.sqrt(d))
    out, lse = torch.empty_like(q), q.new_empty(b, h, n)
    for first in range(0, n, block):
        rows = torch.arange(first, min(first + block, n))
        own = q[:, :, rows]
        top, total, acc = own.new_full((b, h, len(rows)), -math.inf), own.new_zeros(b, h, len(rows)), own * 0
        stop = n // block * block if fault == "rest_left_out" and n >= block else n
        for start in range(0, stop, block):
            keys = torch.arange(start, min(start + block, n))
            scores = own @ k[:, :, keys].mT * scale
            scores = scores.masked_fill(~seen_by(rows, keys, causal, fault), -math.inf)
            values = v[:, :, keys]
            if fault == "unmasked" and len(keys) < block:
                scores = functional.pad(scores, (0, block - len(keys)))
                values = functional.pad(values, (0, 0, 0, block - len(keys)))
            highest = scores.amax(-1)
            highest = torch.maximum(top, highest)
            base = highest.masked_fill(highest == -math.inf, 0)
            shrink = torch.exp((top - base).clamp(max=80))
            weights = torch.exp(scores - base[..., None])
            total = total * (1 if fault == "total_kept" else shrink) + weights.sum(-1)
            acc = acc * (1 if fault == "acc_kept" else shrink[..., None]) + weights @ values
            top = highest
            if fault == "no_old_sum":
                total = weights.sum(-1)
        out[:, :, rows] = acc if fault == "not_divided" else acc / total[..., None]
        natural = top + total.log()
        ways = {
            "base_2": natural / math.log(2),
            "without_top": total.log(),
            "top_twice": top - total.log(),
            "only_top": top,
            "not_log": total,
        }
        lse[:, :, rows] = ways.get(fault, natural)
    return out, lse


FORWARD = {
    "base_2": ("log-sum-exp in base 2", "This is the logarithm to base 2: multiply it by ln 2."),
    "without_top": (
        "maximum left out of the log-sum-exp",
        "ln(total) alone: the subtracted top is missing.",
    ),
    "top_twice": ("log of the total subtracted", "The sign: top + ln(total), not minus."),
    "only_top": ("maximum instead of log-sum-exp", "This is the top alone. Add ln(total)."),
    "not_log": ("sum instead of its logarithm", "This is total itself: return top + ln(total)."),
    "unmasked": ("keys beyond the end counted", "Beyond n, keys are loaded as 0 and get the score 0, exp(0) > 0."),
    "rest_left_out": ("last tile left out", "The keys behind the last whole tile are not looked at: go up to n."),
    "one_more": ("causal mask off by one", "Query i sees key i + 1 here: it is j <= i."),
    "one_more_in_tile": ("mask off by one, tiles right", "Within its tile, query i sees key i + 1: it is j <= i."),
    "blocks": ("causal by whole tiles", "The tile on the diagonal needs a mask of its own: j <= i within it too."),
    "one_tile_less": ("diagonal tile left out", "The loop ends a tile early: the diagonal's is missing."),
    "other_side": ("causal mask on the other side", "Queries see the later keys here: it is j <= i."),
    "ignored": ("causal left out", "`causal` changes nothing here: pass it on to the kernel, and mask j > i."),
    "acc_kept": ("sum of values not rescaled", "`acc` counts from the old top: it shrinks as `total` does."),
    "total_kept": ("total not rescaled", "`total` counts from the old top: multiply it by exp(old top - new top)."),
    "no_old_sum": ("total of the last tile alone", "The total of earlier tiles is lost: add to it."),
    "not_divided": ("result not divided by the total", "At the end, out = acc / total."),
    "no_scale": ("scores not scaled", "The scores are divided by the square root of d."),
    "scale_d": ("scores divided by d", "Divide by the square root of d, not by d."),
}


def declare(subject, name, label, hint, function):
    function.__name__ = function.__qualname__ = f"{subject}_{name}"
    globals()[function.__name__] = misconception(subject, label=label, hint=hint)(function)


def forward_of(fault):
    def flash_attention_forward(q, k, v, causal=False):
        return tiles(q, k, v, causal, fault)

    return flash_attention_forward


for _name, (_label, _hint) in FORWARD.items():
    declare("flash_attention_forward", _name, _label, _hint, forward_of(_name))


def whole(q, k, v, causal):
    """Return output, log-sum-exp and weights, n x n in memory."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1), scores.softmax(-1)


@misconception(
    "flash_attention_forward",
    label="n x n held in memory",
    hint="The numbers are right, and all scores stand in memory at once: that is what the kernel is there to avoid.",
)
def flash_attention_forward_whole(q, k, v, causal=False):
    return whole(q, k, v, causal)[:2]


@misconception(
    "flash_attention_forward",
    label="output without log-sum-exp",
    hint="The way back needs the log-sum-exp: return both, `out` first.",
)
def flash_attention_forward_alone(q, k, v, causal=False):
    return tiles(q, k, v, causal)[0]


@right("flash_attention_forward")
def flash_attention_forward_tiles(q, k, v, causal=False):
    return tiles(q, k, v, causal)


@right("flash_attention_forward")
def flash_attention_forward_small(q, k, v, causal=False):
    return tiles(q, k, v, causal, block=24)


@right("flash_attention_forward")
def flash_attention_forward_large(q, k, v, causal=False):
    return tiles(q, k, v, causal, block=64)


@right("flash_attention_forward")
def flash_attention_forward_float64(q, k, v, causal=False):
    return tuple(own.float() for own in tiles(q.double(), k.double(), v.double(), causal))


@right("flash_attention_forward")
def flash_attention_forward_rows(q, k, v, causal=False):
    n, parts = q.shape[2], []
    for first in range(0, n, 20):
        rows = torch.arange(first, min(first + 20, n))
        scores = q[:, :, rows] @ k.mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~seen_by(rows, torch.arange(n), causal, ""), -math.inf)
        parts.append((scores.softmax(-1) @ v, scores.logsumexp(-1)))
    return tuple(torch.cat(own, dim=2) for own in zip(*parts, strict=True))


# flash_attention


def gradients(q, k, v, out, P, d_out, fault):
    scale = 1 / math.sqrt(q.shape[-1])
    D = (out * d_out).sum(-1, keepdim=True)
    if fault == "upstream":
        d_out = torch.ones_like(d_out)
    dP = d_out @ v.mT
    dS = P * (dP - D)
    if fault == "no_D":
        dS = P * dP
    elif fault == "plus_D":
        dS = P * (dP + D)
    elif fault == "outside":
        dS = P * dP - D
    elif fault == "D_of_dO":
        dS = P * (dP - d_out.sum(-1, keepdim=True))
    dq, dk, dv = dS @ k * scale, dS.mT @ q * scale, P.mT @ d_out
    if fault == "dk_not_transposed":
        dk = dS @ q * scale
    elif fault == "dv_not_transposed":
        dv = P @ d_out
    elif fault == "swapped":
        dk, dv = dv, dk
    elif fault == "dq_scale":
        dq = dq / scale
    elif fault == "dk_scale":
        dk = dk / scale
    elif fault == "dq_twice":
        dq = dq * scale
    elif fault == "dv_of_v":
        dv = P.mT @ v
    return dq, dk, dv


def flash_of(fault):
    class Attend(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, causal):
            out, _, P = whole(q, k, v, causal)
            if fault == "unmasked" and causal:
                P = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]) - whole(q, k, v, True)[1][..., None])
            ctx.save_for_backward(q, k, v, out, P)
            return out

        @staticmethod
        def backward(ctx, d_out):
            q, k, v, out, P = ctx.saved_tensors
            return *gradients(q, k, v, out, P, d_out, fault), None

    def flash_attention(q, k, v, causal=False):
        return Attend.apply(q, k, v, causal and fault != "not_passed")

    return flash_attention


BACKWARD = {
    "not_passed": ("causal not passed on", "`causal` does not reach `Attend.apply`."),
    "no_D": ("row sums D left out", "dS = P * (dO V^T - D): without D the rows of dS do not sum to 0."),
    "plus_D": ("row sums D added instead of subtracted", "dS = P * (dO V^T - D): the sign of D."),
    "outside": ("row sums D outside the brackets", "D is subtracted before P is multiplied: P * (dP - D)."),
    "D_of_dO": ("row sums D without the output", "D is rowsum(O * dO), and here O is missing."),
    "dk_not_transposed": ("scores' gradient not transposed for dK", "dK = dS^T Q: the sum goes over queries."),
    "dv_not_transposed": ("weights not transposed for dV", "dV = P^T dO: the sum goes over queries."),
    "swapped": ("gradients of K and V exchanged", "What is stored at dk belongs to dv, and the other way round."),
    "dq_scale": ("scale left out of dQ", "The scores were scaled, so dQ is too: multiply by `scale`."),
    "dk_scale": ("scale left out of dK", "The scores were scaled, so dK is too: multiply by `scale`."),
    "dq_twice": ("dQ scaled twice", "`scale` belongs into dQ once."),
    "dv_of_v": ("V instead of dO in dV", "dV = P^T dO, with the gradient that came, not with V."),
    "upstream": ("gradient from above ignored", "This takes ones for dO: use the gradient that came."),
    "unmasked": ("no causal mask on the way back", "P = exp(S - L) again needs the mask: 0 where j > i."),
}
for _name, (_label, _hint) in BACKWARD.items():
    declare("flash_attention", _name, _label, _hint, flash_of(_name))


@right("flash_attention")
def flash_attention_formulas(q, k, v, causal=False):
    return flash_of("")(q, k, v, causal)


@right("flash_attention")
def flash_attention_autograd(q, k, v, causal=False):
    return whole(q, k, v, causal)[0]


@right("flash_attention")
def flash_attention_torch(q, k, v, causal=False):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


@right("flash_attention")
def flash_attention_float64(q, k, v, causal=False):
    return whole(q.double(), k.double(), v.double(), causal)[0].float()


@right("flash_attention")
def flash_attention_rows(q, k, v, causal=False):
    return flash_attention_forward_rows(q, k, v, causal)[0]


# MultiHeadLayer


def layer_of(fault="", fused=True, by_hand=False):
    class MultiHeadLayer(nn.Module):
        def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
            super().__init__()
            self.h, self.h_kv = num_heads, num_kv_heads or num_heads
            if fault == "all_heads":
                self.h_kv = num_heads
            self.d_head = d_model // num_heads
            bias = bias or fault == "bias"
            widths = [self.h * self.d_head, self.h_kv * self.d_head, self.h_kv * self.d_head]
            if fused:
                self.W_qkv = nn.Linear(d_model, sum(widths), bias=bias)
            else:
                self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, own, bias=bias) for own in widths)
            self.widths = widths
            self.W_o = nn.Linear(d_model, d_model, bias=bias)

        def project(self, x):
            parts = self.W_qkv(x).split(self.widths, -1) if fused else (self.W_q(x), self.W_k(x), self.W_v(x))
            if fault == "order":
                parts = parts[0], parts[2], parts[1]
            if fault == "reshape":
                return [own.reshape(len(x), -1, x.shape[1], self.d_head) for own in parts]
            if fault == "interleaved":
                return [own.unflatten(-1, (self.d_head, -1)).permute(0, 3, 1, 2) for own in parts]
            return [own.unflatten(-1, (-1, self.d_head)).transpose(1, 2) for own in parts]

        def forward(self, x, mask=None, is_causal=False, cache=None):
            kind = x.dtype
            q, k, v = self.project(x)
            n = x.shape[1]
            if fault == "cache_repeated":
                k, v = (own.repeat_interleave(self.h // self.h_kv, dim=1) for own in (k, v))
            if cache is not None and fault != "no_cache":
                k, v = cache.append(k, v) if fault != "twice" else (cache.append(k, v), cache.append(k, v))[1]
            group = self.h // k.shape[1]
            if fault == "tiled":
                k, v = k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1)
            else:
                k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            n_k = k.shape[2]
            both = mask is not None and is_causal
            seen = torch.ones(n, n_k, dtype=torch.bool)
            if is_causal and fault != "not_causal" and not (both and fault == "causal_dropped"):
                shift = 0 if fault == "from_the_start" else n_k - n
                seen = seen.tril(shift + (fault == "one_more"))
            if mask is not None and fault != "no_mask" and not (both and fault == "mask_dropped"):
                own = mask[:, :1] if fault == "first_head" and mask.dim() == 4 else mask
                own = ~own | torch.eye(n, dtype=torch.bool) if fault == "inverted" else own
                seen = (seen | own) if both and fault == "either" else (seen & own)
            scale = {"d_model": 1 / math.sqrt(x.shape[-1]), "no_scale": 1.0}.get(fault, 1 / math.sqrt(self.d_head))
            if by_hand:
                z = (q @ k.mT * scale).masked_fill(~seen, -math.inf).softmax(-1) @ v
            else:
                z = functional.scaled_dot_product_attention(q, k, v, seen, scale=scale)
            z = z.transpose(1, 2).flatten(2)
            if fault == "detached":
                z = z.detach() + 0 * x
            out = z if fault == "no_W_o" else self.W_o(z)
            return out.float() if fault == "float32" and kind != torch.float64 else out

    return MultiHeadLayer


LAYER = {
    "all_heads": (
        "number of key heads ignored",
        "`num_kv_heads` changes nothing: W_k and W_v have h_kv heads.",
    ),
    "bias": ("bias=False ignored", "With `bias=False`, no projection has a bias, `W_o` neither."),
    "order": ("keys and values exchanged", "The rows of `W_qkv` are q, k, v, in this order."),
    "reshape": ("heads cut without a transpose", "First (b, n, h, d_head), then exchange n and h."),
    "interleaved": ("columns dealt out in turn", "Head i has d_head columns next to each other."),
    "d_model": ("scores divided by the whole width", "Divide by the square root of d_head, not of d_model."),
    "no_scale": ("scores of the layer not scaled", "The scores are divided by the square root of d_head."),
    "no_W_o": ("output projection left out", "`W_o` mixes what the heads found: it comes last."),
    "tiled": ("key heads tiled instead of repeated", "Use `repeat_interleave`: head i uses i // (h / h_kv)."),
    "not_causal": ("is_causal left out", "`is_causal` changes nothing here."),
    "one_more": ("token sees the next one", "Token i sees token i + 1 here."),
    "no_mask": ("mask left out", "`mask` changes nothing here."),
    "inverted": ("mask taken the other way", "True means: may attend."),
    "first_head": ("mask of the first head for all", "A mask of four axes may have a part for each head."),
    "causal_dropped": ("is_causal ignored with a mask", "With a mask, `is_causal` still counts: both hold."),
    "mask_dropped": ("mask ignored with is_causal", "With `is_causal`, the mask still counts: both hold."),
    "either": ("mask or causal, not both", "Both hold: combine them by `&`."),
    "from_the_start": ("causal mask aligned at the start", "With a cache, token i stands at n_k - n + i."),
    "no_cache": ("cache not used", "`cache.append(k, v)` returns all keys and values so far: attend to those."),
    "twice": ("cache appended to twice", "One call of `append` takes keys and values together."),
    "cache_repeated": ("repeated heads put into the cache", "Cache h_kv heads, and repeat them afterwards."),
    "detached": ("gradient cut off", "No `detach`, no `.data`, no NumPy on the way."),
    "float32": ("result always in float32", "The result has the dtype of the input: nothing is converted."),
}
for _name, (_label, _hint) in LAYER.items():
    declare("MultiHeadLayer", _name, _label, _hint, layer_of(_name))


def _right(name, made):
    made.__name__ = made.__qualname__ = f"MultiHeadLayer_{name}"
    globals()[made.__name__] = right("MultiHeadLayer")(made)


_right("fused", layer_of())
_right("separate", layer_of(fused=False))
_right("fused_written_out", layer_of(by_hand=True))
_right("separate_written_out", layer_of(fused=False, by_hand=True))


class MultiHeadLayer_chunks(layer_of(fused=False)):
    """A query at a time: never n x n."""

    def forward(self, x, mask=None, is_causal=False, cache=None):
        q, k, v = self.project(x)
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = (own.repeat_interleave(self.h // self.h_kv, dim=1) for own in (k, v))
        n, n_k, found = x.shape[1], k.shape[2], []
        for i in range(n):
            end = n_k - n + i + 1 if is_causal else n_k
            scores = q[:, :, i : i + 1] @ k[:, :, :end].mT / math.sqrt(self.d_head)
            if mask is not None:
                scores = scores.masked_fill(~mask[..., i : i + 1, :end], -math.inf)
            found.append(scores.softmax(-1) @ v[:, :, :end])
        return self.W_o(torch.cat(found, dim=2).transpose(1, 2).flatten(2))


MultiHeadLayer_chunks = right("MultiHeadLayer")(MultiHeadLayer_chunks)

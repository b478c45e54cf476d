"""Wrong answers that people really give, each with a hint. Students get this file only inside the archive.

What a kernel with a mistake computes is written with torch, tile by tile, so a comparison takes milliseconds.
Mistakes that only a kernel can have are kernels.
"""

import math
import os
import types

import torch
from torch import nn
from torch.nn import functional

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = types.SimpleNamespace(jit=lambda function: function, constexpr=None)

from checking import misconception

BLOCK = 32


@misconception(
    "by_hand",
    label="total not shrunk",
    hint="The first total is relative to the old top: it shrinks by half.",
)
def by_hand_not_shrunk():
    return [1.5, 0.5, 3.5, 9.5 / 3.5]


@misconception(
    "by_hand", label="no maximum subtracted", hint="Each weight is exp(score - top): subtract top."
)
def by_hand_without_top():
    return [3, 1, 11, 38 / 11]


@misconception(
    "by_hand", label="output not divided", hint="At the end, divide the weighted sum by the total."
)
def by_hand_not_divided():
    return [1.5, 0.5, 2.75, 9.5]


@misconception(
    "by_hand",
    label="factor upside down",
    hint="The factor is exp(old top - new top), which is below 1.",
)
def by_hand_factor():
    return [1.5, 2, 2.75, 38 / 11]


# flash_attention_forward: what kernels compute, with one mistake


def seen_by(rows, keys, causal, fault):
    if not causal or fault == "ignored":
        return torch.ones(len(rows), len(keys), dtype=torch.bool, device=rows.device)
    i, j = rows[:, None], keys[None, :]
    if fault == "one_more":
        return j <= i + 1
    if fault == "one_more_in_tile":
        return (j <= i + 1) & (j // BLOCK <= i // BLOCK)
    if fault == "one_less":
        return j < i
    if fault == "blocks":
        return j // BLOCK <= i // BLOCK
    if fault == "one_tile_less":
        return (j <= i) & ((j // BLOCK < i // BLOCK) | (i < BLOCK))
    return j >= i if fault == "other_side" else j <= i


def tiles(q, k, v, causal, fault, block=BLOCK):
    b, h, n, d = q.shape
    kind = q.dtype
    if fault == "order":  # as if all lay in memory in the order of their axes
        q, k, v = (
            tensor.as_strided(tensor.shape, (h * n * d, n * d, d, 1)) for tensor in (q, k, v)
        )
    if fault == "one_head":
        k, v = (tensor[:1, :1].expand_as(tensor) for tensor in (k, v))
    if fault == "32_columns":
        v = torch.cat([v[..., :32], 0 * v[..., 32:]], -1)
    if fault != "half":
        q, k, v = (tensor.to(torch.promote_types(kind, torch.float32)) for tensor in (q, k, v))
    scale = {"no_scale": 1, "scale_d": 1 / d}.get(fault, 1 / math.sqrt(d))
    out, lse = torch.empty_like(q), q.new_empty(b, h, n)
    for first in range(0, n, block):
        rows = torch.arange(first, min(first + block, n), device=q.device)
        queries = q[:, :, rows]
        top, total, acc = (
            queries.new_full((b, h, len(rows)), -math.inf),
            queries.new_zeros(b, h, len(rows)),
            queries * 0,
        )
        if fault == "top_from_0":
            top = torch.zeros_like(top)
        stop = n // block * block if fault == "rest_left_out" and n >= block else n
        for start in range(0, stop, block):
            keys = torch.arange(start, min(start + block, n), device=q.device)
            scores = queries @ k[:, :, keys].mT * scale
            scores = scores.masked_fill(~seen_by(rows, keys, causal, fault), -math.inf)
            values = v[:, :, keys]
            if fault == "unmasked" and len(keys) < block:
                scores = functional.pad(scores, (0, block - len(keys)))
                values = functional.pad(values, (0, 0, 0, block - len(keys)))
            highest = scores.amax(-1)
            if fault == "one_top":
                highest = highest.amax(-1, keepdim=True).expand_as(highest)
            if fault != "top_of_the_tile":
                highest = torch.maximum(top, highest)
            if fault == "no_top":
                highest = torch.zeros_like(highest)
            base = highest.masked_fill(highest == -math.inf, 0)
            shrink = torch.exp((base - top) if fault == "upside_down" else (top - base))
            weights = torch.exp(scores - base[..., None])
            total = total * (1 if fault == "total_kept" else shrink) + weights.sum(-1)
            acc = acc * (1 if fault == "acc_kept" else shrink[..., None]) + weights @ values
            top = top if fault == "top_forgotten" else highest
            if fault == "no_old_sum":
                total = weights.sum(-1)
        out[:, :, rows] = acc if fault == "not_divided" else acc / total[..., None]
        natural = top + total.log()
        ways = {
            "base_2": natural / math.log(2),
            "log_2": top + total.log2(),
            "without_top": total.log(),
            "top_twice": top - total.log(),
            "only_top": top,
            "not_log": total,
        }
        lse[:, :, rows] = ways.get(fault, natural)
    return out if fault == "always_float32" else out.to(kind), lse.to(kind) if fault in (
        "half_lse",
        "half",
    ) else lse


FORWARD = {
    "base_2": ("log-sum-exp in base 2", "This is the logarithm to base 2: multiply it by ln 2."),
    "without_top": (
        "maximum left out of the log-sum-exp",
        "This is ln(total) alone: the subtracted top is missing.",
    ),
    "top_twice": ("log of the total subtracted", "The sign is wrong: top + ln(total), not minus."),
    "only_top": ("maximum instead of log-sum-exp", "This is only the top. Add ln(total)."),
    "not_log": ("sum instead of its logarithm", "This is total itself: return top + ln(total)."),
    "unmasked": (
        "keys beyond the end counted",
        "Beyond n, keys are loaded as 0 and get the score 0, and exp(0) is above 0.",
    ),
    "rest_left_out": (
        "last tile left out",
        "The keys after the last whole tile are not used: go up to n.",
    ),
    "one_more": (
        "causal mask off by one",
        "Here query i sees key i + 1, but only j <= i is allowed.",
    ),
    "one_less": ("own key hidden by causal mask", "Query i also sees its own key: j <= i."),
    "one_more_in_tile": (
        "mask off by one, tiles right",
        "Within its tile, query i sees key i + 1, but only j <= i is allowed.",
    ),
    "blocks": ("causal by whole tiles", "The tile on the diagonal needs its own mask: j <= i."),
    "one_tile_less": (
        "diagonal tile left out",
        "The loop ends one tile early: the diagonal tile is missing.",
    ),
    "other_side": (
        "causal mask inverted",
        "Here queries see the later keys, but only j <= i is allowed.",
    ),
    "ignored": (
        "causal argument ignored",
        "`causal` changes nothing here: pass it on to the kernel, and mask j > i.",
    ),
    "acc_kept": (
        "weighted sum not rescaled",
        "`acc` is relative to the old top: rescale it as `total` is.",
    ),
    "total_kept": (
        "total not rescaled",
        "`total` is relative to the old top: multiply it by exp(old top - new top).",
    ),
    "no_old_sum": ("total of the last tile only", "The total of earlier tiles is lost: add to it."),
    "top_forgotten": (
        "top never updated",
        "The new top is the next tile's old top: `top = highest`.",
    ),
    "top_of_the_tile": (
        "top of the tile only",
        "The new top is the larger of the old one and the tile's. Otherwise exp(old top - new top) overflows.",
    ),
    "one_top": (
        "one top for a whole tile",
        "Each row needs its own top, `tl.max(scores, 1)`: far below another row's top, all its weights become 0.",
    ),
    "top_from_0": (
        "top that starts at 0",
        "`top` has to start at -inf. If it starts at 0, all weights become 0 when all scores of a row are far below "
        "0.",
    ),
    "upside_down": (
        "shrink factor upside down",
        "The factor is exp(old top - new top), at most 1.",
    ),
    "log_2": ("log2 of the total", "Add the natural logarithm of the total, `tl.log`, to the top."),
    "one_head": (
        "first head's keys for all heads",
        "The keys of a head come after those of the earlier heads: head * n * WIDTH.",
    ),
    "not_divided": ("result not divided by the total", "At the end, out = acc / total."),
    "no_scale": ("scores not scaled", "The scores are divided by the square root of d."),
    "scale_d": (
        "scores divided by d",
        "Divide the scores by the square root of d. Divided by d, they make the weights too even.",
    ),
    "no_top": (
        "no maximum subtracted from scores",
        "exp of a large score overflows: subtract the row's top first.",
    ),
    "order": (
        "strides ignored",
        "Offsets of d numbers per row are right only for `.contiguous()` tensors; otherwise use `stride`.",
    ),
    "32_columns": ("only 32 columns", "The width of a head is d: make the tile as wide as that."),
    "half": (
        "sums kept in 16 bits",
        "Keep `total`, `acc` and `top` in float32 for inputs of any dtype.",
    ),
    "half_lse": ("log-sum-exp in 16 bits", "`lse` is float32 for inputs of any dtype."),
    "always_float32": (
        "output always in float32",
        "`out` has the dtype of q: `torch.empty_like(q)`.",
    ),
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
        scores = scores.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1), -math.inf
        )
    return scores.softmax(-1) @ v, scores.logsumexp(-1), scores.softmax(-1)


@misconception(
    "flash_attention_forward",
    label="n x n scores in memory",
    hint="All scores are in memory at once, which the kernel has to avoid.",
)
def flash_attention_forward_whole(q, k, v, causal=False):
    out, lse, _ = whole(q.float(), k.float(), v.float(), causal)
    return out.to(q.dtype), lse


@misconception(
    "flash_attention_forward",
    label="output without log-sum-exp",
    hint="The backward pass needs the log-sum-exp: return both, `out` first.",
)
def flash_attention_forward_alone(q, k, v, causal=False):
    return tiles(q, k, v, causal, "alone")[0]


@misconception(
    "flash_attention_forward",
    label="torch instead of a kernel",
    hint="Tiles in torch are the plan of a kernel. Move them into the kernel, and launch it.",
)
def flash_attention_forward_in_torch(q, k, v, causal=False):
    return tiles(q, k, v, causal, "in_torch")


@triton.jit
def attending(
    q, k, v, out, lse, strides_q, strides_k, strides_v, h, n, loaded, stored, scale,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WAY: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Attend, in one of several ways: strides in place of copies, other tiles, base 2, keys loaded transposed."""
    first, head = tl.program_id(1) * ROWS, tl.program_id(0)
    rows, columns = first + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    q += (head // h) * strides_q[0] + (head % h) * strides_q[1]
    k += (head // h) * strides_k[0] + (head % h) * strides_k[1]
    v += (head // h) * strides_v[0] + (head % h) * strides_v[1]
    queries = tl.load(
        q + rows[:, None] * strides_q[2] + columns[None, :] * strides_q[3],
        mask=rows[:, None] < n,
        other=0.0,
    )
    top = tl.full((ROWS,), -1e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, n, COLUMNS):
        if (not CAUSAL) or start < first + ROWS:
            offsets = start + tl.arange(0, COLUMNS)
            keys = tl.load(
                k + offsets[None, :] * strides_k[2] + columns[:, None] * strides_k[3],
                mask=offsets[None, :] < loaded,
                other=0.0,
            )
            values = tl.load(
                v + offsets[:, None] * strides_v[2] + columns[None, :] * strides_v[3],
                mask=offsets[:, None] < n,
                other=0.0,
            )
            if WAY == "float32":
                scores = (
                    tl.dot(queries.to(tl.float32), keys.to(tl.float32), input_precision=PRECISION)
                    * scale
                )
            else:
                scores = tl.dot(queries, keys, input_precision=PRECISION) * scale
            seen = offsets[None, :] < n
            if CAUSAL:
                seen = seen & (offsets[None, :] <= rows[:, None])
            scores = tl.where(seen, scores, float("-inf"))
            highest = tl.maximum(top, tl.max(scores, 1))
            if WAY == "base 2":
                weights = tl.exp2((scores - highest[:, None]) * 1.4426950408889634)
                shrink = tl.exp2((top - highest) * 1.4426950408889634)
            else:
                weights = tl.exp(scores - highest[:, None])
                shrink = tl.exp(top - highest)
            total = total * shrink + tl.sum(weights, 1)
            if WAY == "float32":
                acc = acc * shrink[:, None] + tl.dot(
                    weights, values.to(tl.float32), input_precision=PRECISION
                )
            elif WAY == "in place":
                acc *= shrink[:, None]
                acc = tl.dot(weights.to(values.dtype), values, acc, input_precision=PRECISION)
            else:
                acc = acc * shrink[:, None] + tl.dot(
                    weights.to(values.dtype), values, input_precision=PRECISION
                )
            top = highest
    places = (head * n + rows[:, None]) * WIDTH + columns[None, :]
    tl.store(out + places, (acc / total[:, None]).to(queries.dtype), mask=rows[:, None] < stored)
    if WAY == "base 2":
        top += tl.log2(total) * 0.6931471805599453
    else:
        top += tl.log(total)
    if WAY == "as if lse were out":
        head *= WIDTH
    tl.store(lse + head * n + rows, top, mask=rows < n)


def longer(tensor, more=0):
    """Return a copy with zeros behind it in memory: whoever reads or writes past its end does no harm there."""
    more = torch.zeros(
        tensor.numel() + (more or 32 * tensor.shape[-1]), dtype=tensor.dtype, device=tensor.device
    )
    more[: tensor.numel()] = tensor.reshape(-1)
    return more[: tensor.numel()].view(tensor.shape)


def attend_by(q, k, v, causal, rows=32, columns=32, way="", precision="ieee"):
    b, h, n, d = q.shape
    out = torch.empty((b, h, n, d), dtype=q.dtype, device=q.device)
    lse = torch.empty((b, h, n), dtype=torch.float32, device=q.device)
    loaded = stored = n
    if way == "reads past the end":
        k, loaded = longer(k), n + columns
    if way == "writes past the end":
        out, stored = longer(out), n + rows
    if way == "as if lse were out":
        lse = longer(lse, out.numel())
    strides = [tensor.stride() for tensor in (q, k, v)]
    named = {
        "CAUSAL": bool(causal),
        "WIDTH": d,
        "ROWS": rows,
        "COLUMNS": columns,
        "WAY": way,
        "PRECISION": precision,
    }
    grid = b * h, -(-n // rows)
    attending[grid](q, k, v, out, lse, *strides, h, n, loaded, stored, 1 / math.sqrt(d), **named)
    return out, lse


@misconception(
    "flash_attention_forward",
    label="reads beyond the end",
    hint="The last tile of keys extends past the end: `tl.load` needs a mask, even if the numbers are masked "
    "afterwards.",
    on="triton",
)
def flash_attention_forward_reads_past_the_end(q, k, v, causal=False):
    return attend_by(q, k, v, causal, way="reads past the end")


@misconception(
    "flash_attention_forward",
    label="writes beyond the end",
    hint="The last tile of queries extends past the end: `tl.store` needs a mask.",
    on="triton",
)
def flash_attention_forward_writes_past_the_end(q, k, v, causal=False):
    return attend_by(q, k, v, causal, way="writes past the end")


@misconception(
    "flash_attention_forward",
    label="log-sum-exp at the offsets of the output",
    hint="`lse` has n numbers for each head, without columns: a head begins at head * n.",
    on="triton",
)
def flash_attention_forward_offset_of_lse(q, k, v, causal=False):
    return attend_by(q, k, v, causal, way="as if lse were out")


@misconception(
    "flash_attention_forward",
    label="q scaled in place",
    hint="`q *= scale` changes the caller's tensor when `.contiguous()` has nothing to copy: scale the scores "
    "instead.",
    on="triton",
)
def flash_attention_forward_scaled_in_place(q, k, v, causal=False):
    out, lse = attend_by(q, k, v, causal)
    q *= 1 / math.sqrt(q.shape[-1])
    return out, lse


RESULTS = {}


@misconception(
    "flash_attention_forward",
    label="results reused by the next call",
    hint="`out` and `lse` were made once, and each call overwrites them: make new ones, `torch.empty_like(q)`.",
    on="triton",
)
def flash_attention_forward_same_results(q, k, v, causal=False):
    results = attend_by(q, k, v, causal)
    buffers = RESULTS.setdefault((q.shape, q.dtype), results)
    for buffer, new in zip(buffers, results, strict=True):
        buffer.copy_(new)
    return buffers


@misconception(
    "flash_attention_forward",
    label="causal argument renamed",
    hint="Callers use `causal=True`: keep the given names of the arguments.",
    on="triton",
)
def flash_attention_forward_renamed(q, k, v, is_causal=False):
    return attend_by(q, k, v, is_causal)


@misconception(
    "flash_attention_forward",
    label="float32 rounded to TF32",
    hint='`tl.dot` rounds float32 to the 10 bits of TF32, unless you pass `input_precision="ieee"`.',
    on="gpu",
)
def flash_attention_forward_tf32(q, k, v, causal=False):
    return attend_by(q, k, v, causal, precision="tf32")


# The backward pass, in PyTorch's tiles and in kernels


def score_gradients(P, dP, D, d_out, fault):
    """Return dS, (b, h, n, n), of the weights and their gradients, with one mistake."""
    if fault == "no_D":
        return P * dP
    if fault == "plus_D":
        return P * (dP + D)
    if fault == "outside":
        return P * dP - D
    if fault == "D_along_keys":
        return P * (dP - D.mT)
    if fault == "D_of_dO":
        return P * (dP - d_out.sum(-1, keepdim=True))
    return P * (dP - D)


def gradients(q, k, v, D, lse, P, d_out, fault):
    """Return dq, dk and dv, each as its array, with one mistake."""
    scale = 1 / math.sqrt(q.shape[-1])
    if fault == "upstream":
        d_out = torch.ones_like(d_out)
    dS = score_gradients(P, d_out @ v.mT, D, d_out, fault)
    if fault == "order":  # as if dO lay in memory in the order of its axes
        d_out = d_out.as_strided(d_out.shape, torch.empty(d_out.shape).stride())
    dq, dk, dv = dS @ k * scale, dS.mT @ q * scale, P.mT @ d_out
    if fault == "padded_keys" and q.shape[2] % BLOCK:  # P = exp(0 - L) of keys that are 0
        dq = dq + 0 * torch.exp(-lse)[..., None]
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


AGAIN = {
    "skipped",
    "unmasked",
    "keys_unmasked",
    "rest_left_out",
    "lse_along_keys",
    "no_lse",
    "unscaled",
}


def weights_again(q, k, v, causal, fault):
    """Return the weights as a way back makes them from the log-sum-exp, with one mistake."""
    lse, scores = whole(q, k, v, causal)[1][..., None], q @ k.mT / math.sqrt(q.shape[-1])
    if causal and "unmasked" not in fault:
        scores = scores.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1), -math.inf
        )
    if not causal and fault == "skipped":
        i = torch.arange(q.shape[2], device=q.device) // BLOCK
        scores = scores.masked_fill(i[None, :] > i[:, None], -math.inf)
    if fault == "rest_left_out":
        scores[:, :, q.shape[2] // BLOCK * BLOCK :] = -math.inf
    if fault == "unscaled":
        scores = scores * math.sqrt(q.shape[-1])
    if fault == "no_lse":
        lse = 0
    return torch.exp(scores - (lse.mT if fault == "lse_along_keys" else lse))


def flash_of(fault):
    class Attend(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, causal):
            out, lse, P = whole(q, k, v, causal)
            ctx.save_for_backward(q, k, v, out, lse, P)
            ctx.causal = causal
            return out

        @staticmethod
        def backward(ctx, d_out):
            q, k, v, out, lse, P = ctx.saved_tensors
            D = (out * d_out).sum(-1, keepdim=True)
            results = gradients(q, k, v, D, lse, P, d_out, fault)
            if fault in AGAIN:
                again = gradients(
                    q, k, v, D, lse, weights_again(q, k, v, ctx.causal, fault), d_out, fault
                )
                results = (
                    (results[0], *again[1:])
                    if fault in ("keys_unmasked", "rest_left_out")
                    else again
                )
            return *results, None

    def flash_attention(q, k, v, causal=False):
        return Attend.apply(q, k, v, fault == "always" or (causal and fault != "not_passed"))

    return flash_attention


BACKWARD = {
    "always": (
        "causal mask when not requested",
        "Without `causal`, each query sees all keys: pass `causal` on.",
    ),
    "not_passed": ("causal not passed on", "`causal` does not reach `Attend.apply`."),
    "no_D": (
        "row sums D left out",
        "dS = P * (dO V^T - D): without D, the rows of dS do not sum to 0.",
    ),
    "plus_D": (
        "row sums D added instead of subtracted",
        "dS = P * (dO V^T - D): check the sign of D.",
    ),
    "outside": (
        "row sums D outside the brackets",
        "Subtract D before you multiply by P: P * (dP - D).",
    ),
    "D_of_dO": ("row sums D without the output", "D is rowsum(O * dO), but here O is missing."),
    "dk_not_transposed": (
        "scores' gradient not transposed for dK",
        "dK = dS^T Q: the sum is over queries.",
    ),
    "dv_not_transposed": ("weights not transposed for dV", "dV = P^T dO: the sum is over queries."),
    "swapped": (
        "gradients of K and V swapped",
        "The tensor stored at dk belongs to dv, and vice versa.",
    ),
    "dq_scale": (
        "scale left out of dQ",
        "The scores were scaled, so dQ is also scaled: multiply by `scale`.",
    ),
    "dk_scale": (
        "scale left out of dK",
        "The scores were scaled, so dK is also scaled: multiply by `scale`.",
    ),
    "dq_twice": ("dQ scaled twice", "Multiply by `scale` either in dS or at the end."),
    "dv_of_v": (
        "V instead of dO in dV",
        "dV = P^T dO: the upstream gradient is summed with the weights, like the values in the forward pass.",
    ),
    "upstream": ("upstream gradient ignored", "This uses ones for dO: use the upstream gradient."),
    "order": (
        "strides of the gradient ignored",
        "dO may have another memory layout: call `.contiguous()` before the kernel.",
    ),
    "unmasked": (
        "no causal mask in the backward pass",
        "P = exp(S - L) needs the mask again: 0 where j > i.",
    ),
    "skipped": (
        "tiles skipped without causal",
        "There is nothing beyond the diagonal tile only with `causal`.",
    ),
    "keys_unmasked": (
        "no causal mask in one kernel",
        "Both kernels compute P again, and both need the mask.",
    ),
    "rest_left_out": (
        "last tile of queries left out",
        "`backward_keys` goes through all queries up to n, including a tile that is not full.",
    ),
    "D_along_keys": (
        "row sums D along the keys",
        "D has one number for each query, a row of the tile: `[:, None]`.",
    ),
    "lse_along_keys": (
        "log-sum-exp along the keys",
        "L has one number for each query, a row of the tile: `[:, None]`.",
    ),
    "no_lse": (
        "log-sum-exp not subtracted",
        "P = exp(S - L): without L, its rows do not sum to 1.",
    ),
    "unscaled": (
        "scores not scaled in the backward pass",
        "S = q k^T * scale, as in the forward pass: otherwise P changes.",
    ),
    "padded_keys": (
        "padded keys not masked going back",
        "Beyond n, keys are loaded as 0: their P, exp(0 - L), overflows when L is far below 0. Mask it.",
    ),
}
for _name, (_label, _hint) in BACKWARD.items():
    declare("flash_attention", _name, _label, _hint, flash_of(_name))


# Wrong formulas are also wrong in PyTorch's tiles.
IN_TILES = (
    "no_D",
    "plus_D",
    "outside",
    "D_along_keys",
    "dk_not_transposed",
    "dv_not_transposed",
    "swapped",
)
IN_TILES += (
    "dq_scale",
    "dk_scale",
    "dq_twice",
    "dv_of_v",
    "upstream",
    "unscaled",
    "lse_along_keys",
    "unmasked",
)
IN_TILES += ("skipped", "no_lse")


def tiled_of(fault):
    def tiled_backward(q, k, v, d_out, lse, D, causal=False):
        q, k, v, d_out, lse, D = (tensor[None, None] for tensor in (q, k, v, d_out, lse, D))
        P = weights_again(q, k, v, causal, fault)
        return tuple(
            gradient[0, 0] for gradient in gradients(q, k, v, D[..., None], lse, P, d_out, fault)
        )

    return tiled_backward


for _name in IN_TILES:
    declare("tiled_backward", _name, *BACKWARD[_name], tiled_of(_name))
declare(
    "tiled_backward",
    "whole",
    "all weights at once",
    "Here P is n x n: take one tile of it at a time.",
    tiled_of(""),
)


class Remembered(torch.autograd.Function):
    held = ()

    @staticmethod
    def forward(ctx, q, k, v, causal):
        Remembered.held = q, k, v, causal, *attend_by(q, k, v, causal)
        return Remembered.held[4]

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, causal, out, lse = Remembered.held
        P = weights_again(q, k, v, causal, "")
        return *gradients(q, k, v, (out * d_out).sum(-1, keepdim=True), lse, P, d_out, ""), None


@misconception(
    "flash_attention",
    label="tensors of the latest call used",
    hint="The tensors are in a global name or in the class, where each call puts its own: keep them in `ctx`.",
    on="triton",
)
def flash_attention_of_the_newest_call(q, k, v, causal=False):
    return Remembered.apply(q, k, v, causal)


@misconception(
    "flash_attention",
    label="upstream gradient scaled in place",
    hint="`d_out *= scale` changes a gradient that others also use: scale what you compute from it.",
    on="triton",
)
def flash_attention_upstream_in_place(q, k, v, causal=False):
    class Attend(Back):
        @staticmethod
        def backward(ctx, d_out):
            results = Back.backward(ctx, d_out)
            d_out *= 1 / math.sqrt(d_out.shape[-1])
            return results

    return Attend.apply(q, k, v, causal, 32, 32, "")


@misconception(
    "flash_attention",
    label="torch instead of kernels",
    hint="This is torch, not a kernel: `Attend.apply` launches yours, forward and backward.",
)
def flash_attention_in_torch(q, k, v, causal=False):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


@misconception(
    "flash_attention",
    label="kernel forward, torch backward",
    hint="torch computes the backward pass, with n x n weights: launch your two kernels there.",
)
def flash_attention_half_way(q, k, v, causal=False):
    class Attend(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            ctx.save_for_backward(q, k, v)
            return attend_by(q, k, v, causal)[0]

        @staticmethod
        def backward(ctx, d_out):
            leaves = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            with torch.enable_grad():
                out = whole(*leaves, causal)[0]
            return torch.autograd.grad(out, leaves, d_out)

    return Attend.apply(q, k, v)


@triton.jit
def going_back(
    q, k, v, d_out, lse, D, dq, dk, dv, n, loaded, stored, scale,
    CAUSAL: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, WAY: tl.constexpr,
):  # fmt: skip
    """Own a block of keys and walk over queries: dK and dV are summed here, what falls to dQ is added in memory."""
    first, head = tl.program_id(0) * KEYS, tl.program_id(1)
    offsets, columns = first + tl.arange(0, KEYS), tl.arange(0, WIDTH)
    places = (head * n + offsets[:, None]) * WIDTH + columns[None, :]
    keys = tl.load(k + places, mask=offsets[:, None] < n, other=0.0)
    values = tl.load(v + places, mask=offsets[:, None] < n, other=0.0)
    if WAY == "float32":
        keys, values = keys.to(tl.float32), values.to(tl.float32)
    dk_acc = tl.zeros((KEYS, WIDTH), tl.float32)
    dv_acc = tl.zeros((KEYS, WIDTH), tl.float32)
    for start in range(0, n, ROWS):
        rows = start + tl.arange(0, ROWS)
        theirs = (head * n + rows[:, None]) * WIDTH + columns[None, :]
        queries = tl.load(q + theirs, mask=rows[:, None] < loaded, other=0.0)
        upstream = tl.load(d_out + theirs, mask=rows[:, None] < n, other=0.0)
        if WAY == "float32":
            queries, upstream = queries.to(tl.float32), upstream.to(tl.float32)
        own_lse = tl.load(lse + head * n + rows, mask=rows < n, other=float("inf"))
        own_D = tl.load(D + head * n + rows, mask=rows < n, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        seen = offsets[None, :] < n
        if CAUSAL:
            seen = seen & (offsets[None, :] <= rows[:, None])
        P = tl.exp(tl.where(seen, scores - own_lse[:, None], float("-inf")))
        dS = (
            P
            * (tl.dot(upstream, tl.trans(values), input_precision="ieee") - own_D[:, None])
            * scale
        )
        if WAY != "not rounded":
            P, dS = P.to(upstream.dtype), dS.to(queries.dtype)
        dv_acc += tl.dot(tl.trans(P), upstream, input_precision="ieee")
        dk_acc += tl.dot(tl.trans(dS), queries, input_precision="ieee")
        part = tl.dot(dS.to(keys.dtype), keys, input_precision="ieee")
        if WAY == "parts":  # a place of its own for each block of keys, summed afterwards
            tl.store(
                dq + tl.program_id(0) * tl.num_programs(1) * n * WIDTH + theirs,
                part,
                mask=rows[:, None] < n,
            )
        else:
            tl.atomic_add(dq + theirs, part, mask=rows[:, None] < n)
    if WAY == "head counted twice":
        dk += head * n * WIDTH
    tl.store(dk + places, dk_acc.to(k.dtype.element_ty), mask=offsets[:, None] < stored)
    tl.store(dv + places, dv_acc.to(v.dtype.element_ty), mask=offsets[:, None] < n)


class Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal, rows, keys, way):
        out, lse = attend_by(q, k, v, causal)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.how = bool(causal), rows, keys, way
        return out

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, out, lse = (tensor.contiguous() for tensor in ctx.saved_tensors)
        causal, rows, size, way = ctx.how
        b, h, n, d = q.shape
        D = torch.einsum("bhid,bhid->bhi", out.float(), d_out.float()).contiguous()
        blocks = -(-n // size)
        dq = torch.zeros(
            (blocks if way == "parts" else 1, b, h, n, d), dtype=torch.float32, device=q.device
        )
        dk, dv = torch.empty_like(k), torch.empty_like(v)
        how = {"CAUSAL": causal, "WIDTH": d, "ROWS": rows, "KEYS": size, "WAY": way}
        loaded = stored = n
        if way == "reads past the end":
            q, loaded = longer(q), n + rows
        if way == "writes past the end":
            dk, stored = longer(dk), n + size
        if way == "head counted twice":
            dk = longer(dk, 2 * dk.numel())
        d_out, scale = d_out.contiguous(), 1 / math.sqrt(d)
        going_back[(blocks, b * h)](
            q, k, v, d_out, lse, D, dq, dk, dv, n, loaded, stored, scale, **how
        )
        return dq.sum(0).to(q.dtype), dk, dv, None, None, None, None


@misconception(
    "flash_attention",
    label="reads beyond the end going back",
    hint="The last tile of queries extends past the end: `tl.load` needs a mask in any case.",
    on="triton",
)
def flash_attention_reads_past_the_end(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 32, 32, "reads past the end")


@misconception(
    "flash_attention",
    label="writes beyond the end going back",
    hint="The last tile of keys extends past the end: `tl.store` needs a mask.",
    on="triton",
)
def flash_attention_writes_past_the_end(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 32, 32, "writes past the end")


@misconception(
    "flash_attention",
    label="head offset added twice",
    hint="The gradient of a head begins `head * n * WIDTH` numbers after the pointer: add that once.",
    on="triton",
)
def flash_attention_head_twice(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 32, 32, "head counted twice")


@misconception(
    "flash_attention",
    label="tiles of two dtypes multiplied",
    hint="P and dS are float32, but the tiles that they are multiplied with are not: `.to(queries.dtype)` before "
    "`tl.dot`.",
    on="triton",
)
def flash_attention_two_dtypes(q, k, v, causal=False):
    return Back.apply(q, k, v, causal, 32, 32, "not rounded")


# MultiHeadLayer


# These make the mask even where none is given.
WITH_A_MASK = {
    "whole",
    "whole_mask",
    "on_the_cpu",
    "not_causal",
    "from_the_start",
    "one_more",
    "later",
}
BY_HAND = {"hundred", "added", "nothing_early", "nan", "even", "whole", "inverted"}
TABLE = 128


class MistakenLayer(nn.Module):
    """The layer, with one of the mistakes of `LAYER`; `fused` tells whether one product gives q, k and v."""

    fault = ""
    fused = True

    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
        super().__init__()
        self.h, self.h_kv = num_heads, num_kv_heads or num_heads
        if self.fault == "all_heads":
            self.h_kv = num_heads
        if self.fault != "any_size" and (d_model % num_heads or num_heads % self.h_kv):
            raise ValueError("heads do not divide")
        self.d_head = d_model // num_heads
        bias = bias or self.fault == "bias"
        self.widths = [self.h * self.d_head, self.h_kv * self.d_head, self.h_kv * self.d_head]
        if self.fused:
            self.W_qkv = nn.Linear(d_model, sum(self.widths), bias=bias)
        else:
            self.W_q, self.W_k, self.W_v = (
                nn.Linear(d_model, width, bias=bias) for width in self.widths
            )
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, mask=None, is_causal=False, cache=None):
        q, k, v = self.project(x)
        k, v = self.repeated(*self.with_cache(k, v, cache))
        mask = self.checked(mask, x.shape[1], k.shape[2])
        if self.fault == "item" and x.sum().item() == math.inf:
            return x
        if self.fault == "print":
            print(end="")
        if mask is None and self.fault not in WITH_A_MASK:
            z = self.attend_without_mask(q, k, v, is_causal)
        else:
            z = self.attend_where(q, k, v, self.seen(x, k.shape[2], mask, is_causal), mask)
        z = z.reshape(*x.shape[:2], -1) if self.fault == "merged" else z.transpose(1, 2).flatten(2)
        if self.fault == "detached":
            z = z.detach() + 0 * x
        out = z if self.fault == "no_W_o" else self.W_o(z)
        return out.float() if self.fault == "float32" and x.dtype != torch.float64 else out

    def project(self, x):
        """Return q, (b, h, n, d_head), and k and v, (b, h_kv, n, d_head)."""
        if self.fault == "reshape_fused" and self.fused:
            heads = self.W_qkv(x).reshape(len(x), -1, x.shape[1], self.d_head)
            return heads.split([self.h, self.h_kv, self.h_kv], 1)
        parts = (
            self.W_qkv(x).split(self.widths, -1)
            if self.fused
            else (self.W_q(x), self.W_k(x), self.W_v(x))
        )
        if self.fault == "order":
            parts = parts[0], parts[2], parts[1]
        if self.fault in ("reshape", "reshape_fused"):
            return [part.reshape(len(x), -1, x.shape[1], self.d_head) for part in parts]
        if self.fault == "interleaved":
            return [part.unflatten(-1, (self.d_head, -1)).permute(0, 3, 1, 2) for part in parts]
        return [part.unflatten(-1, (-1, self.d_head)).transpose(1, 2) for part in parts]

    def with_cache(self, k, v, cache):
        """Return all keys and values so far."""
        if self.fault == "cache_repeated":
            k, v = (part.repeat_interleave(self.h // self.h_kv, dim=1) for part in (k, v))
        if self.fault == "cache_kept":
            self.cache = cache = getattr(self, "cache", None) if cache is None else cache
        if cache is None or self.fault == "no_cache":
            return k, v
        if self.fault == "twice":
            cache.append(k, v)
        return cache.append(k, v)

    def repeated(self, k, v):
        """Return keys and values with one head for each of the queries."""
        group = self.h // k.shape[1]
        if self.fault == "tiled":
            return k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1)
        return k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)

    def checked(self, mask, n, n_k):
        """Return a mask of n_k columns that fits, with a dimension for heads where it has one for sequences."""
        if mask is None:
            return None
        if mask.dim() == 3 and self.fault != "three_axes":
            mask = mask[:, None]
        fits = mask.shape[-1] == n_k and mask.shape[-2] in ((n,) if mask.dim() == 2 else (n, 1))
        if not fits and self.fault != "any_mask":
            raise ValueError("a mask that does not fit")
        return mask

    def scale(self):
        """Return what scores are multiplied with."""
        if self.fault == "no_scale":
            return 1.0
        return 1 / math.sqrt(self.h * self.d_head if self.fault == "d_model" else self.d_head)

    def attend_without_mask(self, q, k, v, is_causal):
        n, n_k = q.shape[2], k.shape[2]
        if is_causal and 1 < n < n_k and self.fault != "pieces_from_the_start":
            q = functional.pad(q, (0, 0, n_k - n, 0))
        is_causal = is_causal and (n > 1 or self.fault == "one_from_the_start")
        p = 0.1 if self.fault == "dropout" and self.training else 0.0
        z = functional.scaled_dot_product_attention(q, k, v, None, p, is_causal, scale=self.scale())
        return z[:, :, -n:]

    def seen(self, x, n_k, mask, is_causal):
        """Return True where a token attends: of shape (n, n_k), or of that of the mask."""
        n, masked_and_causal = x.shape[1], mask is not None and is_causal
        device = "cpu" if self.fault == "on_the_cpu" else x.device
        seen = torch.ones(n, n_k, dtype=torch.bool, device=device)
        causal = is_causal and self.fault != "not_causal"
        if masked_and_causal and self.fault == "causal_dropped":
            causal = False
        if causal:
            at_start = masked_and_causal and self.fault == "both_from_the_start"
            begin = 0 if at_start or self.fault == "from_the_start" else n_k - n
            seen = seen.tril(begin + 1 if self.fault == "one_more" else begin)
        if causal and self.fault == "later":
            seen = ~seen
        if (
            mask is None
            or self.fault == "no_mask"
            or (masked_and_causal and self.fault == "mask_dropped")
        ):
            return seen
        mask = self.of_heads(mask, len(x))
        return self.combined(seen, mask) if masked_and_causal else seen & mask

    def of_heads(self, mask, b):
        """Return the part of a mask that each head uses."""
        if self.fault == "first_head" and mask.dim() == 4:
            mask = mask[:, :1]
        if self.fault == "inverted":
            mask = ~mask
        group = self.h // self.h_kv
        if self.fault == "mask_heads_mixed" and mask.dim() == 4 and mask.shape[1] == self.h:
            mask = mask.unflatten(1, (group, -1)).transpose(1, 2).flatten(1, 2)
        if (
            self.fault == "mask_sequences_mixed"
            and group > 1
            and mask.dim() == 4
            and mask.shape[1] == 1
        ):
            mask = mask.expand(b, -1, -1, -1).repeat(self.h_kv, 1, 1, 1)
            mask = mask.unflatten(0, (b, self.h_kv)).squeeze(2).repeat_interleave(group, 1)
        return mask

    def combined(self, seen, mask):
        """Return what causality and a mask allow together."""
        n, n_k = seen.shape
        if self.fault == "tril":
            return mask.tril(n_k - n)
        if self.fault == "mask_in_place" and mask.shape[-2] == n:
            mask &= seen
        if self.fault == "table" and n_k > TABLE:
            raise RuntimeError(
                f"The size of tensor a ({n}) must match the size of tensor b ({TABLE})"
            )
        return seen | mask if self.fault == "either" else seen & mask

    def attend_where(self, q, k, v, seen, mask):
        scale = self.scale()
        if self.fault == "dropout":
            return functional.scaled_dot_product_attention(
                q, k, v, seen, 0.1 * self.training, scale=scale
            )
        if self.fault not in BY_HAND:
            return functional.scaled_dot_product_attention(q, k, v, seen, scale=scale)
        scores = q @ k.mT * scale
        if self.fault == "added":
            return (scores + (1.0 - seen.to(q.dtype)) * -1e9).softmax(-1) @ v
        lowest = {"hundred": -100.0, "even": torch.finfo(q.dtype).min}.get(self.fault, -math.inf)
        A = scores.masked_fill(~seen, lowest).softmax(-1)
        if self.fault == "hundred":
            A = A.masked_fill(~seen.any(-1, keepdim=True), 0.0)
        elif self.fault == "nothing_early" and mask is not None:
            A = A.masked_fill(~mask.any(-1, keepdim=True), 0.0)
        elif self.fault == "whole":
            A = A.masked_fill(~seen, 0.0)
        return A @ v


class RenamedLayer(MistakenLayer):
    """The layer, its mask under another name."""

    def forward(self, x, attn_mask=None, is_causal=False, cache=None):
        return super().forward(x, attn_mask, is_causal, cache)


def layer_of(fault, fused=True):
    """Return a layer with one of the mistakes of `LAYER`."""
    if fault not in LAYER:
        raise ValueError(f"no mistake is called {fault!r}")
    base = RenamedLayer if fault == "renamed" else MistakenLayer
    return type("MultiHeadLayer", (base,), {"fault": fault, "fused": fused})


LAYER = {
    "all_heads": (
        "number of key heads ignored",
        "`num_kv_heads` changes nothing, but W_k and W_v should have h_kv heads.",
    ),
    "bias": ("bias=False ignored", "With `bias=False`, no projection has a bias, not even `W_o`."),
    "order": ("keys and values swapped", "The rows of `W_qkv` are q, k, v, in this order."),
    "reshape": (
        "heads split without a transpose",
        "First split into (b, n, h, d_head), then swap n and h.",
    ),
    "reshape_fused": (
        "fused projection split without a transpose",
        "First split into (b, n, heads, d_head), then swap the dimensions.",
    ),
    "merged": (
        "heads merged without a transpose",
        "First swap h and n, then merge h and d_head into one dimension.",
    ),
    "interleaved": ("columns dealt to heads in turn", "Head i has d_head adjacent columns."),
    "d_model": (
        "scores divided by the whole width",
        "Divide by the square root of d_head, not of d_model.",
    ),
    "no_scale": (
        "scores of the layer not scaled",
        "Divide the scores by the square root of d_head.",
    ),
    "no_W_o": (
        "output projection left out",
        "`W_o` mixes the results of the heads, and comes last.",
    ),
    "tiled": (
        "key heads tiled instead of repeated",
        "Use `repeat_interleave`: head i uses i // (h / h_kv).",
    ),
    "not_causal": ("is_causal ignored", "`is_causal` changes nothing here."),
    "one_more": ("token sees the next one", "Here token i sees token i + 1."),
    "later": (
        "causal mask inverted",
        "Tokens see only later tokens. True means: may attend, also in a mask for PyTorch's attention.",
    ),
    "no_mask": ("mask ignored", "`mask` changes nothing here."),
    "inverted": ("mask inverted", "True means: may attend."),
    "first_head": (
        "first head's mask for all heads",
        "A mask with four dimensions may have a part for each head.",
    ),
    "mask_heads_mixed": (
        "head masks given to other heads",
        "Query head i uses key head i // (h / h_kv), and its own part of the mask: split the head dimensions of "
        "both in the same way, (h_kv, h / h_kv).",
    ),
    "mask_sequences_mixed": (
        "masks given to other sequences",
        "When b and h_kv become one dimension, the sequence comes first: repeat its mask with `repeat_interleave` "
        "or `expand`, not with `repeat`.",
    ),
    "causal_dropped": (
        "is_causal ignored with a mask",
        "Apply both: a token sees only tokens that the mask allows and that do not come later.",
    ),
    "mask_dropped": (
        "mask ignored with is_causal",
        "Apply both: a token sees only tokens that do not come later and that the mask allows.",
    ),
    "either": ("mask or causal, not both", "Apply both: combine them with `&`."),
    "tril": (
        "padding mask cut by tril",
        "`mask.tril()` of a mask with one row, (b, 1, n), keeps only its first keys: use `mask & causal`.",
    ),
    "table": (
        "causal mask from a table of 128",
        "The table for the causal mask ends after 128 tokens: make it for the n of each call.",
    ),
    "hundred": (
        "hidden scores set to -100",
        "Visible scores can be lower than that, and then the hidden keys win: set hidden scores to -inf.",
    ),
    "dropout": (
        "dropout in training mode",
        "In training mode, some weights are dropped at random. The layer should have no dropout: the same inputs "
        "give the same result.",
    ),
    "mask_in_place": (
        "causality written into the mask",
        "`mask &= causal` changes the caller's mask: `mask = mask & causal` makes a new one.",
    ),
    "renamed": (
        "mask argument renamed",
        "Callers use `mask=...`: keep the given names of the arguments.",
    ),
    "cache_kept": (
        "cache of an earlier call used",
        "Without a cache, only the tokens of this call attend to each other: keep no cache in `self`.",
    ),
    "from_the_start": (
        "causal mask aligned at the start",
        "With a cache, token i is at position n_k - n + i.",
    ),
    "pieces_from_the_start": (
        "new tokens causal from the start",
        "PyTorch's `is_causal` counts from the first key. With a cache, token i is at position n_k - n + i.",
    ),
    "one_from_the_start": (
        "one token sees only the first key",
        "PyTorch's `is_causal` counts from the first key. One new token sees all keys, so leave `is_causal` out.",
    ),
    "both_from_the_start": (
        "causal from the start with a mask",
        "With a cache, token i is at position n_k - n + i, also with a mask.",
    ),
    "no_cache": (
        "cache not used",
        "`cache.append(k, v)` returns all keys and values so far: attend to those.",
    ),
    "twice": ("append called twice", "Call `append` once, with keys and values together."),
    "cache_repeated": (
        "repeated heads put into the cache",
        "The cache would be h / h_kv times as large: append first, then repeat.",
    ),
    "detached": (
        "gradient cut off",
        "Use no `detach`, no `.data` and no NumPy between input and result.",
    ),
    "float32": (
        "result always in float32",
        "The result has the dtype of the input: do not convert it.",
    ),
    "any_size": (
        "divisibility of heads not checked",
        "Raise when d_model / num_heads or num_heads / num_kv_heads leaves a remainder.",
    ),
    "any_mask": (
        "mask shape not checked",
        "A mask with 1 row or column is silently stretched: compare its shape with n and n_k.",
    ),
    "three_axes": (
        "three-dimensional mask not expanded",
        "(b, n, n_k) has one mask for each sequence: `mask[:, None]`.",
    ),
    "nan": (
        "NaN for fully masked rows",
        "The softmax of a row of -inf is NaN: such a query gets 0.",
    ),
    "nothing_early": (
        "fully masked rows found too early",
        "With padding at the start and `is_causal`, the first tokens see nothing: combine both, then look for such "
        "rows.",
    ),
    "even": (
        "fully masked row sees all keys",
        "In a fully masked row, a finite lowest score gives equal weights, but the query should get 0.",
    ),
    "added": (
        "fully masked row ignores the mask",
        "-1e9 added to all scores of a row changes no weight: such a query gets 0.",
    ),
    "whole": (
        "all scores in memory",
        "`q @ k.mT` is n x n: `scaled_dot_product_attention` never makes it.",
    ),
    "whole_mask": (
        "causal mask in memory",
        "The mask is n x n. When no other mask is given, use `is_causal=True` instead.",
    ),
    "on_the_cpu": (
        "mask always on the CPU",
        "Make the mask on the device of x: `device=x.device`.",
    ),
    "item": (
        "number copied to the CPU",
        "`.item()` waits for the GPU, and breaks the graph: keep using tensors.",
    ),
    "print": ("print in forward", "`torch.compile` cannot include it in a graph: leave it out."),
}
for _name, (_label, _hint) in LAYER.items():
    declare("MultiHeadLayer", _name, _label, _hint, layer_of(_name))

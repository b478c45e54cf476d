"""Exact attention that never stores n x n numbers: one Triton kernel forward, two backward, in
fp16, bf16 and fp32.

    out = flash_attention(q, k, v, causal=True)  # differentiable
    out, lse = flash_attention_forward(q, k, v)  # lse: log-sum-exp of each row of scores, (b, h, n)

A program owns a block of rows and walks over the tiles of the other axis. A tile of scores stays on
the chip, between two matrix products, and is never written to memory. Rows are queries forward and
for dQ, keys for dK and dV.

Without a GPU the same kernels run in Triton's interpreter: set TRITON_INTERPRET=1 before triton is
imported. The algorithm is FlashAttention-2's (Dao, 2023); the online softmax is Milakov and
Gimelshein's (2018).
"""

import functools
import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
# exp(x) = exp2(x LOG2_E), and exp2 is an instruction of the chip.
LOG2_E = tl.constexpr(math.log2(math.e))
LOG_2 = tl.constexpr(math.log(2))
# One compiled kernel for all lengths and counts of heads: 1 and multiples of 16 are nothing
# special.
NO_SPECIAL = ["n_q", "n_k", "together"]


class Blocks(NamedTuple):
    """How a kernel cuts the work: the sides of a tile of scores, warps of a program, stages of
    its pipeline.
    """

    queries: int
    keys: int
    warps: int
    stages: int


# By kernel, by bytes of a number, by the width of a head (rounded up to a power of two). For 2
# bytes and widths of 64 and 128 these are the fastest that `python benchmarks/gpu.py tuning` found
# on an H100; narrower heads have those of 64. For 4 bytes nothing was timed yet: such products need
# many registers, and these tiles, compiled for an H100, fit in them or spill the least of those
# tried.
TUNED = {
    ("forward", 2): dict.fromkeys((16, 32, 64), Blocks(64, 128, 4, 3))
    | {128: Blocks(128, 128, 8, 3)},
    ("queries", 2): dict.fromkeys((16, 32, 64), Blocks(64, 64, 4, 3))
    | {128: Blocks(128, 64, 8, 4)},
    ("keys", 2): dict.fromkeys((16, 32, 64), Blocks(128, 64, 4, 2)) | {128: Blocks(32, 64, 4, 3)},
    ("forward", 4): dict.fromkeys((16, 32, 64), Blocks(64, 32, 8, 1)) | {128: Blocks(32, 64, 8, 1)},
    ("queries", 4): dict.fromkeys((16, 32, 64), Blocks(32, 32, 8, 1)) | {128: Blocks(32, 16, 8, 1)},
    ("keys", 4): dict.fromkeys((16, 32, 64), Blocks(32, 32, 8, 1)) | {128: Blocks(32, 16, 8, 1)},
}
SHARED = 224 * 1024  # bytes of a chip's shared memory that those ask for at most
# For chips with less, and for the interpreter, in which small inputs then have several tiles.
SMALL = Blocks(32, 16, 4, 1)
# Bytes of the cache that the interpreter pretends to have: small inputs do not fit as a whole.
SMALL_CACHE = 2**14


def flash_attention(q, k, v, causal=False):
    """Attend: softmax(q k^T / sqrt(d)) v, without the scores ever in memory, forward or backward.

    Parameters
    ----------
    q : tensor, shape (b, h, n_q, d)
        Of float16, bfloat16 or float32, d at most 128. float32 means float32: no TF32.
    k, v : tensor, shape (b, h, n_k, d)
        Of the dtype and on the device of `q`.
    causal : bool
        Whether query i sees key j only for j <= i + n_k - n_q. A query that sees nothing gets 0.

    Returns
    -------
    tensor, shape (b, h, n_q, d)

    Raises
    ------
    ValueError
        If shapes, dtypes or devices do not fit.
    """
    return _FlashAttention.apply(q, k, v, causal)


def flash_attention_forward(q, k, v, causal=False):
    """Attend, and return what the backward pass needs: see `flash_attention` for the arguments.

    Returns
    -------
    out : tensor, shape (b, h, n_q, d)
    lse : tensor of float32, shape (b, h, n_q)
        The natural logarithm of the sum of exp(scores) in each row; -inf where a query sees
        nothing.
    """
    b, h, n_q, _d = _check(q, k, v)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out, lse = torch.empty_like(q), q.new_empty((b, h, n_q), dtype=torch.float32)
    blocks = _blocks("forward", q)
    grid = (b * h * triton.cdiv(n_q, blocks.queries),)
    with torch.cuda.device_of(q):
        _forward[grid](q, k, v, out, lse, **_options(q, k, causal, blocks))
    return out, lse


def flash_attention_backward(q, k, v, out, lse, d_out, causal=False):
    """Return the gradients (dq, dk, dv) of sum(out * d_out), from what `flash_attention_forward`
    returned.
    """
    _check(q, k, v)
    q, k, v, out, d_out = (x.contiguous() for x in (q, k, v, out, d_out))
    dq, delta = _run_backward_queries(q, k, v, out, lse, d_out, causal)
    dk, dv = _run_backward_keys(q, k, v, lse, delta, d_out, causal)
    return dq, dk, dv


class _FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        out, lse = flash_attention_forward(q, k, v, causal)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out):
        return *flash_attention_backward(*ctx.saved_tensors, d_out, ctx.causal), None


# What all kernels share. A matrix of one head is (n, D), row after row; BLOCK_D is D rounded up to
# a power of two.


@triton.jit
def _dot(a, b, acc=None):
    """Return a @ b (+ acc), summed in float32. "ieee": operands of float32 are not rounded to
    TF32 first.
    """
    if INTERPRETED:  # it can't multiply bfloat16; as float32 these are the same numbers
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, acc, input_precision="ieee")


@triton.jit
def _load(
    matrix,
    first,
    n,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    INSIDE: tl.constexpr,
):
    """Load the tile of ROWS rows from `first`, with 0 where the matrix has nothing.

    INSIDE: no row is beyond n.
    """
    rows, columns = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    pointers = matrix + first * D + (rows[:, None] * D + columns[None, :])
    if INSIDE and D == BLOCK_D:
        return tl.load(pointers)
    there = columns[None, :] < D
    if not INSIDE:
        there = there & (rows[:, None] < n - first)
    return tl.load(pointers, mask=there, other=0.0)


@triton.jit
def _store(matrix, first, n, tile, D: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    """Store a tile, except what lies beyond the matrix."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, BLOCK_D)
    there = (rows[:, None] < n - first) & (columns[None, :] < D)
    pointers = matrix + first * D + (rows[:, None] * D + columns[None, :])
    tl.store(pointers, tile.to(matrix.dtype.element_ty), mask=there)


@triton.jit
def _visible(queries, keys, n_q, n_k, CAUSAL: tl.constexpr):
    """Return where a query sees a key.

    One of the two is a column, (rows, 1), the other a row, (1, columns).
    """
    visible = (keys < n_k) & (queries < n_q)
    if CAUSAL:
        visible = visible & (keys <= queries + (n_k - n_q))
    return visible


@triton.jit
def _keys_for(first, n_q, n_k, CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr):
    """Return how far the block of queries from `first` walks: where whole tiles are seen, and where
    any are.

    Up to `whole`, no tile needs a mask. From there on, tiles are cut by the diagonal or by the end
    of the keys. Behind `end` the block sees nothing: causal attention leaves out about half of the
    tiles.
    """
    whole, end = n_k // BLOCK_K * BLOCK_K, n_k
    if CAUSAL:
        seen = tl.maximum(first + 1 + n_k - n_q, 0)  # keys that the first query sees
        whole = tl.minimum(whole, seen // BLOCK_K * BLOCK_K)
        end = tl.minimum(n_k, tl.maximum(first + BLOCK_Q + n_k - n_q, 0))
    return whole, end


@triton.jit
def _place(n, together, BLOCK: tl.constexpr, LONGEST_LAST: tl.constexpr):
    """Return which head (a long integer), and which first row, this program works at.

    Programs begin with the longest block of each of `together` heads, so that only short ones are
    left at the end, when there is no other work for a multiprocessor. Then come the next `together`
    heads.
    """
    blocks = tl.cdiv(n, BLOCK)
    group = tl.program_id(0) // (together * blocks)
    number = tl.program_id(0) % (together * blocks)
    block = number // together
    if LONGEST_LAST:
        block = blocks - 1 - block
    return (group * together + number % together).to(tl.int64), block * BLOCK


# Forward: the online softmax.


@triton.jit
def _forward_tile(
    acc, total, top, q, k, v, first, start, n_q, n_k, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Take one tile of keys in: find the new maximum of each row, scale the sums so far to it,
    and add the tile.
    """
    tile = _load(k, start, n_k, D, BLOCK_K, BLOCK_D, not MASKED)
    scores = _dot(q, tl.trans(tile))  # (BLOCK_Q, BLOCK_K), on the chip
    if MASKED:
        queries = first + tl.arange(0, BLOCK_Q)[:, None]
        keys = start + tl.arange(0, BLOCK_K)[None, :]
        scores = tl.where(_visible(queries, keys, n_q, n_k, CAUSAL), scores, float("-inf"))
    highest = tl.maximum(top, tl.max(scores, 1) * scale)
    subtracted = highest
    if MASKED:  # a row that has seen nothing yet: -inf less -inf would be NaN
        subtracted = tl.where(highest == float("-inf"), 0.0, highest)
    weights = tl.exp2(scores * scale - subtracted[:, None])
    shrink = tl.exp2(top - subtracted)
    total = total * shrink + tl.sum(weights, 1)
    tile = _load(v, start, n_k, D, BLOCK_K, BLOCK_D, not MASKED)
    acc = _dot(weights.to(tile.dtype), tile, acc * shrink[:, None])
    return acc, total, highest


@triton.jit(do_not_specialize=NO_SPECIAL)
def _forward(
    q, k, v, out, lse, n_q, n_k, scale, together,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head: rows of `out`, and their log-sum-exp.

    `scale` has LOG2_E in it.
    """
    head, first = _place(n_q, together, BLOCK_Q, CAUSAL)
    q, k, v = q + head * n_q * D, k + head * n_k * D, v + head * n_k * D
    rows = _load(q, first, n_q, D, BLOCK_Q, BLOCK_D, False)
    acc = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    top = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    whole, end = _keys_for(first, n_q, n_k, CAUSAL, BLOCK_Q, BLOCK_K)
    for start in range(0, whole, BLOCK_K):
        acc, total, top = _forward_tile(
            acc,
            total,
            top,
            rows,
            k,
            v,
            first,
            start,
            n_q,
            n_k,
            scale,
            CAUSAL,
            D,
            BLOCK_D,
            BLOCK_Q,
            BLOCK_K,
            False,
        )
    for start in range(whole, end, BLOCK_K):
        acc, total, top = _forward_tile(
            acc,
            total,
            top,
            rows,
            k,
            v,
            first,
            start,
            n_q,
            n_k,
            scale,
            CAUSAL,
            D,
            BLOCK_D,
            BLOCK_Q,
            BLOCK_K,
            True,
        )
    acc = acc / tl.where(total == 0, 1.0, total)[:, None]  # a query that sees nothing gets 0
    _store(out + head * n_q * D, first, n_q, acc, D, BLOCK_Q, BLOCK_D)
    index = first + tl.arange(0, BLOCK_Q)
    tl.store(lse + head * n_q + index, (top + tl.log2(total)) * LOG_2, mask=index < n_q)


# Backward. With weights P = exp(S - lse), dP = dO V^T and delta = rowsum(O * dO):
# dV = P^T dO,  dS = P * (dP - delta),  dQ = dS K,  dK = dS^T Q.  P is computed again, tile by tile.


@triton.jit
def _queries_tile(
    acc, q, d_out, lse, delta, k, v, first, start, n_q, n_k, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Add what one tile of keys brings to dQ."""
    keys_tile = _load(k, start, n_k, D, BLOCK_K, BLOCK_D, not MASKED)
    values_tile = _load(v, start, n_k, D, BLOCK_K, BLOCK_D, not MASKED)
    scores = _dot(q, tl.trans(keys_tile))
    weights = tl.exp2(scores * scale - lse[:, None])
    if MASKED:
        queries = first + tl.arange(0, BLOCK_Q)[:, None]
        keys = start + tl.arange(0, BLOCK_K)[None, :]
        weights = tl.where(_visible(queries, keys, n_q, n_k, CAUSAL), weights, 0.0)
    d_weights = _dot(d_out, tl.trans(values_tile))
    d_scores = weights * (d_weights - delta[:, None])
    return _dot(d_scores.to(keys_tile.dtype), keys_tile, acc)


@triton.jit(do_not_specialize=NO_SPECIAL)
def _backward_queries(
    q, k, v, out, d_out, lse, delta, dq, n_q, n_k, scale, together,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One block of queries of one head: rows of `dq`, and of `delta`, for which it has O and dO
    at hand.
    """
    head, first = _place(n_q, together, BLOCK_Q, CAUSAL)
    k, v = k + head * n_k * D, v + head * n_k * D
    rows = _load(q + head * n_q * D, first, n_q, D, BLOCK_Q, BLOCK_D, False)
    d_rows = _load(d_out + head * n_q * D, first, n_q, D, BLOCK_Q, BLOCK_D, False)
    out_rows = _load(out + head * n_q * D, first, n_q, D, BLOCK_Q, BLOCK_D, False)
    index = first + tl.arange(0, BLOCK_Q)
    row_delta = tl.sum(out_rows.to(tl.float32) * d_rows.to(tl.float32), 1)
    tl.store(delta + head * n_q + index, row_delta, mask=index < n_q)
    row_lse = tl.load(lse + head * n_q + index, mask=index < n_q, other=0.0) * LOG2_E
    acc = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    whole, end = _keys_for(first, n_q, n_k, CAUSAL, BLOCK_Q, BLOCK_K)
    for start in range(0, whole, BLOCK_K):
        acc = _queries_tile(
            acc, rows, d_rows, row_lse, row_delta, k, v, first, start, n_q, n_k, scale,
            CAUSAL, D, BLOCK_D, BLOCK_Q, BLOCK_K, False,
        )  # fmt: skip
    for start in range(whole, end, BLOCK_K):
        acc = _queries_tile(
            acc, rows, d_rows, row_lse, row_delta, k, v, first, start, n_q, n_k, scale,
            CAUSAL, D, BLOCK_D, BLOCK_Q, BLOCK_K, True,
        )  # fmt: skip
    _store(dq + head * n_q * D, first, n_q, acc * (scale / LOG2_E), D, BLOCK_Q, BLOCK_D)


@triton.jit
def _keys_tile(
    dk, dv, k, v, q, d_out, lse, delta, first, start, n_q, n_k, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Add what one tile of queries brings to dK and dV.

    Tiles are transposed here: keys are rows, queries columns.

    Queries beyond n_q need no mask: their q, dO, lse and delta are loaded as 0, so that they bring
    0.
    """
    queries_tile = _load(q, start, n_q, D, BLOCK_Q, BLOCK_D, False)
    d_out_tile = _load(d_out, start, n_q, D, BLOCK_Q, BLOCK_D, False)
    index = start + tl.arange(0, BLOCK_Q)
    row_lse = tl.load(lse + index, mask=index < n_q, other=0.0) * LOG2_E
    row_delta = tl.load(delta + index, mask=index < n_q, other=0.0)
    scores = _dot(k, tl.trans(queries_tile))  # (BLOCK_K, BLOCK_Q)
    weights = tl.exp2(scores * scale - row_lse[None, :])
    if MASKED:
        keys = first + tl.arange(0, BLOCK_K)[:, None]
        weights = tl.where(_visible(index[None, :], keys, n_q, n_k, CAUSAL), weights, 0.0)
    dv = _dot(weights.to(d_out_tile.dtype), d_out_tile, dv)
    d_weights = _dot(v, tl.trans(d_out_tile))
    d_scores = weights * (d_weights - row_delta[None, :])
    dk = _dot(d_scores.to(queries_tile.dtype), queries_tile, dk)
    return dk, dv


@triton.jit(do_not_specialize=NO_SPECIAL)
def _backward_keys(
    q, k, v, d_out, lse, delta, dk, dv, n_q, n_k, scale, together,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One block of keys of one head: rows of `dk` and `dv`, from all queries that see some of
    it.
    """
    head, first = _place(n_k, together, BLOCK_K, False)  # the first keys are seen by most queries
    q, d_out, lse, delta = (
        q + head * n_q * D,
        d_out + head * n_q * D,
        lse + head * n_q,
        delta + head * n_q,
    )
    key_rows = _load(k + head * n_k * D, first, n_k, D, BLOCK_K, BLOCK_D, False)
    value_rows = _load(v + head * n_k * D, first, n_k, D, BLOCK_K, BLOCK_D, False)
    dk_rows = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    dv_rows = tl.zeros((BLOCK_K, BLOCK_D), tl.float32)
    begin, whole = 0, 0
    # queries before `begin` see nothing of the block, those from `whole` on see all of it
    if CAUSAL:
        begin = tl.maximum(first - (n_k - n_q), 0) // BLOCK_Q * BLOCK_Q
        whole = tl.cdiv(tl.maximum(first + BLOCK_K - 1 - (n_k - n_q), 0), BLOCK_Q) * BLOCK_Q
        for start in range(begin, tl.minimum(whole, n_q), BLOCK_Q):
            dk_rows, dv_rows = _keys_tile(
                dk_rows, dv_rows, key_rows, value_rows, q, d_out, lse, delta, first, start, n_q,
                n_k, scale,
                CAUSAL, D, BLOCK_D, BLOCK_Q, BLOCK_K, True,
            )  # fmt: skip
    for start in range(whole, n_q, BLOCK_Q):
        dk_rows, dv_rows = _keys_tile(
            dk_rows, dv_rows, key_rows, value_rows, q, d_out, lse, delta, first, start, n_q, n_k,
            scale,
            CAUSAL, D, BLOCK_D, BLOCK_Q, BLOCK_K, False,
        )  # fmt: skip
    _store(dk + head * n_k * D, first, n_k, dk_rows * (scale / LOG2_E), D, BLOCK_K, BLOCK_D)
    _store(dv + head * n_k * D, first, n_k, dv_rows, D, BLOCK_K, BLOCK_D)


# Launching.


def _check(q, k, v):
    if not (q.dim() == k.dim() == v.dim() == 4) or k.shape != v.shape:
        raise ValueError(f"q, k and v are (b, h, n, d): not {_shapes(q, k, v)}")
    if q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise ValueError(f"b, h and d of q, k and v differ: {_shapes(q, k, v)}")
    if not 1 <= q.shape[3] <= 128:
        raise ValueError(f"d is 1 to 128, not {q.shape[3]}")
    if len({q.dtype, k.dtype, v.dtype}) > 1 or q.dtype not in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
    ):
        raise ValueError(
            f"one of float16, bfloat16 and float32 for all: not {q.dtype}, {k.dtype}, {v.dtype}"
        )
    if len({q.device, k.device, v.device}) > 1:
        raise ValueError(f"q, k and v are on different devices: {q.device}, {k.device}, {v.device}")
    if not (q.is_cuda or INTERPRETED.value):
        raise ValueError(
            f"no kernel runs on {q.device}: set TRITON_INTERPRET=1 before triton is imported"
        )
    return q.shape


def _shapes(*tensors):
    return ", ".join(str(tuple(tensor.shape)) for tensor in tensors)


def _width(d):
    """Return the width of a tile for heads of d numbers: a power of two, as Triton asks, and 16
    at least.
    """
    return max(16, triton.next_power_of_2(d))


@functools.cache
def _chip(device):
    """Return what a device has. (To ask for it takes as long as a launch.)"""
    return torch.cuda.get_device_properties(device)


def _blocks(kernel, q):
    if not q.is_cuda or _chip(q.device).shared_memory_per_block_optin < SHARED:
        return SMALL
    return TUNED[kernel, q.element_size()][_width(q.shape[3])]


def _together(q, k):
    """Return how many heads begin together: all, if the cache holds what they walk over (two
    matrices each), or 1.
    """
    b, h, n_q, d = q.shape
    cache = _chip(q.device).L2_cache_size if q.is_cuda else SMALL_CACHE
    return b * h if 2 * b * h * max(n_q, k.shape[2]) * d * q.element_size() <= cache else 1


def _run_backward_queries(q, k, v, out, lse, d_out, causal):
    (b, h, n_q, _), blocks = q.shape, _blocks("queries", q)
    dq, delta = torch.empty_like(q), torch.empty_like(lse)
    grid = (b * h * triton.cdiv(n_q, blocks.queries),)
    with torch.cuda.device_of(q):
        _backward_queries[grid](
            q, k, v, out, d_out, lse, delta, dq, **_options(q, k, causal, blocks)
        )
    return dq, delta


def _run_backward_keys(q, k, v, lse, delta, d_out, causal):
    (b, h, n_k, _), blocks = k.shape, _blocks("keys", q)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    grid = (b * h * triton.cdiv(n_k, blocks.keys),)
    with torch.cuda.device_of(q):
        _backward_keys[grid](q, k, v, d_out, lse, delta, dk, dv, **_options(q, k, causal, blocks))
    return dk, dv


def _options(q, k, causal, blocks):
    """Return what all three kernels are told besides their matrices, and how to launch them."""
    d = q.shape[3]
    return {
        "n_q": q.shape[2],
        "n_k": k.shape[2],
        "scale": math.log2(math.e) / math.sqrt(d),
        "together": _together(q, k) if causal else 1,
        "CAUSAL": bool(causal),
        "D": d,
        "BLOCK_D": _width(d),
        "BLOCK_Q": blocks.queries,
        "BLOCK_K": blocks.keys,
        "num_warps": blocks.warps,
        "num_stages": blocks.stages,
    }

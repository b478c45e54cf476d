"""Steps towards faster kernels than those of `flash_attention.py`, for 16-bit numbers and heads of
64 or 128 columns.

    python benchmarks/gpu.py variants --record book/data/gpu-h200.json  # check and time on a GPU

Each step changes one thing:

descriptors
    The chip's copy engine (TMA) loads tiles, through descriptors: one thread asks for a tile by its
    first row, and no thread computes addresses or masks. This frees registers (forward, d = 64: 168
    instead of 206).
longest first
    Programs begin with the causal blocks that have the most tiles, of all heads instead of each
    head in turn. At the end only short ones are left, so fewer multiprocessors wait. All keys and
    values are then in use at the same time: this pays off while they fit into the L2 cache.
persistent
    Only as many programs as fit the chip share the blocks, which are dealt out from the longest to
    the shortest, to and fro.
one pass
    Backward: one kernel instead of two, with five products instead of seven. Its programs own keys,
    and add their part of dQ in memory, in an order that no two calls share: results differ in the
    last bits from call to call.

Two more steps gain nothing on a Hopper, as compiling them shows without a GPU. Warp specialization,
by `tl.range(..., warp_specialize=True)`: Triton 3.6 and 3.7 don't compile it with four warps, and
ignore it with eight. And multiplying scores one tile ahead, while exponentials are computed: Triton
3.6 waits for the product at once.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from flash_attention import (
    INTERPRETED,
    LOG2_E,
    LOG_2,
    NO_SPECIAL,
    _dot,
    _keys_for,
    _load,
    _store,
    _visible,
)

MULTIPROCESSORS = 132  # of an H100 and an H200
# Bytes of keys and values up to which the longest of all heads come first: about an L2 cache.
CACHE = 2**26


class Blocks(NamedTuple):
    """Those of `flash_attention.Blocks`, and the most registers of a thread: with fewer, more
    programs fit.
    """

    queries: int
    keys: int
    warps: int
    stages: int
    registers: int | None = None


# The fastest blocks of "longest first" in the record of an H200, by kernel and by the width of a
# head.
FASTEST = {
    ("forward", 64): Blocks(64, 128, 4, 2),
    ("forward", 128): Blocks(64, 64, 4, 3),
    ("queries", 64): Blocks(64, 64, 4, 3),
    ("queries", 128): Blocks(128, 64, 8, 3),
    ("keys", 64): Blocks(64, 64, 4, 2, 168),
    ("keys", 128): Blocks(64, 64, 4, 2),
}
SMALL = Blocks(32, 16, 4, 1)  # for the interpreter: small inputs have several tiles


@triton.jit
def _next(pid, n, BLOCK: tl.constexpr, LONGEST_LAST: tl.constexpr, ACROSS: tl.constexpr, heads):
    """Return the head (a long integer) and the first row of the block with the number `pid`.

    The block with the most tiles comes first: of each head in turn or, ACROSS, of all heads.
    """
    blocks = tl.cdiv(n, BLOCK)
    if ACROSS:
        block, head = pid // heads, pid % heads
    else:
        block, head = pid % blocks, pid // blocks
    if LONGEST_LAST:
        block = blocks - 1 - block
    return head.to(tl.int64), block * BLOCK


@triton.jit
def _softmax_step(
    acc, total, top, scores, values, first, start, n_q, n_k, scale,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Take one tile of scores and its values in: `flash_attention._forward_tile` without its
    loads.
    """
    if MASKED:
        queries = first + tl.arange(0, BLOCK_Q)[:, None]
        keys = start + tl.arange(0, BLOCK_K)[None, :]
        scores = tl.where(_visible(queries, keys, n_q, n_k, CAUSAL), scores, float("-inf"))
    highest = tl.maximum(top, tl.max(scores, 1) * scale)
    subtracted = highest
    if MASKED:
        subtracted = tl.where(highest == float("-inf"), 0.0, highest)
    weights = tl.exp2(scores * scale - subtracted[:, None])
    shrink = tl.exp2(top - subtracted)
    total = total * shrink + tl.sum(weights, 1)
    acc = _dot(weights.to(values.dtype), values, acc * shrink[:, None])
    return acc, total, highest


@triton.jit
def _one_block(
    pid, q, k, v, out, lse, n_q, n_k, scale, heads,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    ACROSS: tl.constexpr,
):  # fmt: skip
    """Attend with one block of queries; the copy engine loads tiles of K and V, through
    descriptors.
    """
    head, first = _next(pid, n_q, BLOCK_Q, CAUSAL, ACROSS, heads)
    k_tiles = tl.make_tensor_descriptor(k + head * n_k * D, [n_k, D], [D, 1], [BLOCK_K, D])
    v_tiles = tl.make_tensor_descriptor(v + head * n_k * D, [n_k, D], [D, 1], [BLOCK_K, D])
    rows = _load(q + head * n_q * D, first, n_q, D, BLOCK_Q, D, False)
    acc = tl.zeros((BLOCK_Q, D), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    top = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    whole, end = _keys_for(first, n_q, n_k, CAUSAL, BLOCK_Q, BLOCK_K)
    for start in range(0, whole, BLOCK_K):
        scores = _dot(rows, tl.trans(k_tiles.load([start, 0])))
        acc, total, top = _softmax_step(
            acc, total, top, scores, v_tiles.load([start, 0]), first, start, n_q, n_k, scale,
            CAUSAL, BLOCK_Q, BLOCK_K, False,
        )  # fmt: skip
    for start in range(whole, end, BLOCK_K):
        scores = _dot(rows, tl.trans(k_tiles.load([start, 0])))
        acc, total, top = _softmax_step(
            acc, total, top, scores, v_tiles.load([start, 0]), first, start, n_q, n_k, scale,
            CAUSAL, BLOCK_Q, BLOCK_K, True,
        )  # fmt: skip
    acc = acc / tl.where(total == 0, 1.0, total)[:, None]
    _store(out + head * n_q * D, first, n_q, acc, D, BLOCK_Q, D)
    index = first + tl.arange(0, BLOCK_Q)
    tl.store(lse + head * n_q + index, (top + tl.log2(total)) * LOG_2, mask=index < n_q)


@triton.jit(do_not_specialize=NO_SPECIAL)
def _forward_described(
    q, k, v, out, lse, n_q, n_k, scale, heads,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    ACROSS: tl.constexpr, PERSISTENT: tl.constexpr,
):  # fmt: skip
    """Attend: one block of queries for each program or, PERSISTENT, several for each of as many as
    fit the chip.

    Blocks are dealt out from the longest to the shortest, to and fro, so that all programs get
    about the same work.
    """
    if PERSISTENT:
        programs, own = tl.num_programs(0), tl.program_id(0)
        blocks = heads * tl.cdiv(n_q, BLOCK_Q)
        for turn in range(0, tl.cdiv(blocks, programs)):
            pid = turn * programs + own
            if turn % 2 == 1:
                pid = turn * programs + programs - 1 - own
            if pid < blocks:
                _one_block(
                    pid,
                    q,
                    k,
                    v,
                    out,
                    lse,
                    n_q,
                    n_k,
                    scale,
                    heads,
                    CAUSAL,
                    D,
                    BLOCK_Q,
                    BLOCK_K,
                    ACROSS,
                )
    else:
        _one_block(
            tl.program_id(0),
            q,
            k,
            v,
            out,
            lse,
            n_q,
            n_k,
            scale,
            heads,
            CAUSAL,
            D,
            BLOCK_Q,
            BLOCK_K,
            ACROSS,
        )


@triton.jit(do_not_specialize=NO_SPECIAL)
def _queries_described(
    q, k, v, out, d_out, lse, delta, dq, n_q, n_k, scale, heads,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    ACROSS: tl.constexpr,
):  # fmt: skip
    """The rows of dQ and delta of one block of queries: `flash_attention._backward_queries` with
    descriptors.
    """
    head, first = _next(tl.program_id(0), n_q, BLOCK_Q, CAUSAL, ACROSS, heads)
    k_tiles = tl.make_tensor_descriptor(k + head * n_k * D, [n_k, D], [D, 1], [BLOCK_K, D])
    v_tiles = tl.make_tensor_descriptor(v + head * n_k * D, [n_k, D], [D, 1], [BLOCK_K, D])
    rows = _load(q + head * n_q * D, first, n_q, D, BLOCK_Q, D, False)
    d_rows = _load(d_out + head * n_q * D, first, n_q, D, BLOCK_Q, D, False)
    out_rows = _load(out + head * n_q * D, first, n_q, D, BLOCK_Q, D, False)
    index = first + tl.arange(0, BLOCK_Q)
    row_delta = tl.sum(out_rows.to(tl.float32) * d_rows.to(tl.float32), 1)
    tl.store(delta + head * n_q + index, row_delta, mask=index < n_q)
    row_lse = tl.load(lse + head * n_q + index, mask=index < n_q, other=0.0) * LOG2_E
    acc = tl.zeros((BLOCK_Q, D), tl.float32)
    whole, end = _keys_for(first, n_q, n_k, CAUSAL, BLOCK_Q, BLOCK_K)
    for start in range(0, whole, BLOCK_K):
        keys_tile, values_tile = k_tiles.load([start, 0]), v_tiles.load([start, 0])
        weights = tl.exp2(_dot(rows, tl.trans(keys_tile)) * scale - row_lse[:, None])
        d_scores = weights * (_dot(d_rows, tl.trans(values_tile)) - row_delta[:, None])
        acc = _dot(d_scores.to(keys_tile.dtype), keys_tile, acc)
    for start in range(whole, end, BLOCK_K):
        keys_tile, values_tile = k_tiles.load([start, 0]), v_tiles.load([start, 0])
        weights = tl.exp2(_dot(rows, tl.trans(keys_tile)) * scale - row_lse[:, None])
        keys = start + tl.arange(0, BLOCK_K)[None, :]
        weights = tl.where(_visible(index[:, None], keys, n_q, n_k, CAUSAL), weights, 0.0)
        d_scores = weights * (_dot(d_rows, tl.trans(values_tile)) - row_delta[:, None])
        acc = _dot(d_scores.to(keys_tile.dtype), keys_tile, acc)
    _store(dq + head * n_q * D, first, n_q, acc * (scale / LOG2_E), D, BLOCK_Q, D)


@triton.jit
def _delta(out, d_out, delta, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    """delta = rowsum(O * dO), for BLOCK of all `rows`."""
    index, columns = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    places, there = index[:, None] * D + columns[None, :], index[:, None] < rows
    product = tl.load(out + places, mask=there, other=0.0).to(tl.float32) * tl.load(
        d_out + places, mask=there, other=0.0
    )
    tl.store(delta + index, tl.sum(product, 1), mask=index < rows)


@triton.jit
def _keys_step(
    dk, dv, k, v, q_tiles, d_out_tiles, dq_tiles, dq, lse, delta, first, start, n_q, n_k, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    MASKED: tl.constexpr,
    ONE_PASS: tl.constexpr,
):  # fmt: skip
    """Add the part of one tile of queries to dK and dV and, in ONE_PASS, the part of the keys to
    that tile's dQ.
    """
    # 0 beyond n_q
    queries_tile, d_out_tile = q_tiles.load([start, 0]), d_out_tiles.load([start, 0])
    index = start + tl.arange(0, BLOCK_Q)
    row_lse = tl.load(lse + index, mask=index < n_q, other=0.0) * LOG2_E
    row_delta = tl.load(delta + index, mask=index < n_q, other=0.0)
    weights = tl.exp2(_dot(k, tl.trans(queries_tile)) * scale - row_lse[None, :])
    if MASKED:
        keys = first + tl.arange(0, BLOCK_K)[:, None]
        weights = tl.where(_visible(index[None, :], keys, n_q, n_k, CAUSAL), weights, 0.0)
    dv = _dot(weights.to(d_out_tile.dtype), d_out_tile, dv)
    d_scores = weights * (_dot(v, tl.trans(d_out_tile)) - row_delta[None, :])
    d_scores = d_scores.to(queries_tile.dtype)
    dk = _dot(d_scores, queries_tile, dk)
    if ONE_PASS:
        own = _dot(tl.trans(d_scores), k) * (scale / LOG2_E)
        if INTERPRETED:
            columns = tl.arange(0, D)
            tl.atomic_add(
                dq + index[:, None] * D + columns[None, :], own, mask=index[:, None] < n_q
            )
        else:
            dq_tiles.atomic_add([start, 0], own)
    return dk, dv


@triton.jit(do_not_specialize=NO_SPECIAL)
def _keys_described(
    q, k, v, d_out, lse, delta, dk, dv, dq, n_q, n_k, scale, heads,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    ACROSS: tl.constexpr,
    ONE_PASS: tl.constexpr,
):  # fmt: skip
    """The rows of dK and dV of one block of keys.

    ONE_PASS: also adds to `dq`, of float32, which is 0 at first.
    """
    head, first = _next(tl.program_id(0), n_k, BLOCK_K, False, ACROSS, heads)
    q_tiles = tl.make_tensor_descriptor(q + head * n_q * D, [n_q, D], [D, 1], [BLOCK_Q, D])
    d_out_tiles = tl.make_tensor_descriptor(d_out + head * n_q * D, [n_q, D], [D, 1], [BLOCK_Q, D])
    dq_tiles, dq = q_tiles, dq + head * n_q * D
    if ONE_PASS:
        dq_tiles = tl.make_tensor_descriptor(dq, [n_q, D], [D, 1], [BLOCK_Q, D])
    lse, delta = lse + head * n_q, delta + head * n_q
    key_rows = tl.make_tensor_descriptor(k + head * n_k * D, [n_k, D], [D, 1], [BLOCK_K, D]).load(
        [first, 0]
    )
    value_rows = tl.make_tensor_descriptor(v + head * n_k * D, [n_k, D], [D, 1], [BLOCK_K, D]).load(
        [first, 0]
    )
    dk_rows = tl.zeros((BLOCK_K, D), tl.float32)
    dv_rows = tl.zeros((BLOCK_K, D), tl.float32)
    whole = 0
    if CAUSAL:
        begin = tl.maximum(first - (n_k - n_q), 0) // BLOCK_Q * BLOCK_Q
        whole = tl.cdiv(tl.maximum(first + BLOCK_K - 1 - (n_k - n_q), 0), BLOCK_Q) * BLOCK_Q
        for start in range(begin, tl.minimum(whole, n_q), BLOCK_Q):
            dk_rows, dv_rows = _keys_step(
                dk_rows, dv_rows, key_rows, value_rows, q_tiles, d_out_tiles, dq_tiles, dq, lse,
                delta,
                first, start, n_q, n_k, scale, CAUSAL, D, BLOCK_Q, BLOCK_K, True, ONE_PASS,
            )  # fmt: skip
    for start in range(whole, n_q, BLOCK_Q):
        dk_rows, dv_rows = _keys_step(
            dk_rows, dv_rows, key_rows, value_rows, q_tiles, d_out_tiles, dq_tiles, dq, lse, delta,
            first, start, n_q, n_k, scale, CAUSAL, D, BLOCK_Q, BLOCK_K, False, ONE_PASS,
        )  # fmt: skip
    _store(dk + head * n_k * D, first, n_k, dk_rows * (scale / LOG2_E), D, BLOCK_K, D)
    _store(dv + head * n_k * D, first, n_k, dv_rows, D, BLOCK_K, D)


# Launching. Each returns what a kernel of `flash_attention.py` returns, for the same arguments.


def _allocate(size, _alignment, _stream):
    """Return the memory in which a kernel on a GPU keeps its descriptors."""
    return torch.empty(size, device="cuda", dtype=torch.int8)


def _launch(kernel, q, k, n, rows, causal, blocks, *matrices, programs=None, **flags):
    b, h, _, d = q.shape
    triton.set_allocator(_allocate)
    grid = (b * h * triton.cdiv(n, rows),)
    if programs:
        grid = (min(grid[0], programs),)
    launch = {"num_warps": blocks.warps, "num_stages": blocks.stages, "maxnreg": blocks.registers}
    shape = {"CAUSAL": bool(causal), "D": d, "BLOCK_Q": blocks.queries, "BLOCK_K": blocks.keys}
    scale = math.log2(math.e) / math.sqrt(d)
    with torch.cuda.device_of(q):
        return kernel[grid](
            *matrices, q.shape[2], k.shape[2], scale, b * h, **shape, **flags, **launch
        )


def run_forward(q, k, v, causal, blocks, across=True, per_multiprocessor=0):
    """Return out and the log-sum-exp.

    With `per_multiprocessor`, so many programs for each do all blocks.
    """
    b, h, n_q, _ = q.shape
    out, lse = torch.empty_like(q), q.new_empty((b, h, n_q), dtype=torch.float32)
    programs, flags = (
        per_multiprocessor * MULTIPROCESSORS,
        {"ACROSS": across, "PERSISTENT": per_multiprocessor > 0},
    )
    matrices = (q, k, v, out, lse)
    _launch(
        _forward_described,
        q,
        k,
        n_q,
        blocks.queries,
        causal,
        blocks,
        *matrices,
        programs=programs,
        **flags,
    )
    return out, lse


def run_queries(q, k, v, out, lse, d_out, causal, blocks, across=True):
    """Return dq and delta."""
    dq, delta = torch.empty_like(q), torch.empty_like(lse)
    matrices = (q, k, v, out, d_out, lse, delta, dq)
    _launch(
        _queries_described,
        q,
        k,
        q.shape[2],
        blocks.queries,
        causal,
        blocks,
        *matrices,
        ACROSS=across,
    )
    return dq, delta


def run_keys(q, k, v, lse, delta, d_out, causal, blocks, across=True):
    """Return dk and dv."""
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    matrices = (q, k, v, d_out, lse, delta, dk, dv, dk)
    flags = {"ACROSS": across, "ONE_PASS": False}
    _launch(_keys_described, q, k, k.shape[2], blocks.keys, causal, blocks, *matrices, **flags)
    return dk, dv


def run_once(q, k, v, out, lse, d_out, causal, blocks, across=True):
    """Return dq, dk and dv.

    The sums of dq are added up in memory, in an order that no two calls share.
    """
    (b, h, n_q, d), delta = q.shape, torch.empty_like(lse)
    _delta[(triton.cdiv(b * h * n_q, 64),)](out, d_out, delta, b * h * n_q, D=d, BLOCK=64)
    dq, dk, dv = torch.zeros_like(q, dtype=torch.float32), torch.empty_like(k), torch.empty_like(v)
    matrices = (q, k, v, d_out, lse, delta, dk, dv, dq)
    flags = {"ACROSS": across, "ONE_PASS": True}
    _launch(_keys_described, q, k, k.shape[2], blocks.keys, causal, blocks, *matrices, **flags)
    return dq.to(q.dtype), dk, dv


# The steps that were the fastest, together.


def attention(q, k, v, causal=False):
    """Attend, as `flash_attention.flash_attention` does, with the fastest steps.

    Parameters
    ----------
    q : tensor of float16 or bfloat16, shape (b, h, n_q, d)
        d is 64 or 128.
    k, v : tensor, shape (b, h, n_k, d)
    causal : bool

    Returns
    -------
    tensor, shape (b, h, n_q, d)

    Raises
    ------
    NotImplementedError
        For another dtype or width: there is no such kernel here.
    """
    if q.dtype not in (torch.float16, torch.bfloat16) or q.shape[3] not in (64, 128):
        raise NotImplementedError(f"no kernel for {q.dtype} and heads of {q.shape[3]}")
    return _Attention.apply(q, k, v, causal)


def _chosen(kernel, q, k):
    """Return the blocks of a kernel, and whether the longest of all heads come first."""
    blocks = FASTEST[kernel, q.shape[3]] if q.is_cuda else SMALL
    return blocks, 2 * k.numel() * k.element_size() <= CACHE


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        out, lse = run_forward(q, k, v, causal, *_chosen("forward", q, k))
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_out):
        q, k, v, out, lse = ctx.saved_tensors
        d_out = d_out.contiguous()
        dq, delta = run_queries(q, k, v, out, lse, d_out, ctx.causal, *_chosen("queries", q, k))
        dk, dv = run_keys(q, k, v, lse, delta, d_out, ctx.causal, *_chosen("keys", q, k))
        return dq, dk, dv, None

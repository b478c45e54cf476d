"""Attention for Hopper chips alone, in Gluon, the lower level of Triton: for 16-bit numbers, heads
of 64 or 128.

Triton decides by itself when a product is waited for, and that is at once. Here the kernel decides.
The products of one tile run while the exponentials of another are computed, as in FlashAttention-3
(Shah et al., 2024):

forward
    One warp fetches tiles, and two or three groups of four warps attend, each with 64 queries of
    its own. A group asks for the scores of the next tile before it adds the values of this one.
keys
    Backward, for dK and dV: two of the four products of a tile run while weights are computed from
    scores, and two while the gradients of the scores are.

Layouts say which thread has which number of a tile. Shared memory, its barriers and each wait are
written down.
"""

import math

import torch
import triton
from flash_attention import NO_SPECIAL, _together
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # its name in Triton 3.6
LOG2_E = gl.constexpr(1.4426950408889634)
LOG_2 = gl.constexpr(0.6931471805599453)
ROWS = gl.constexpr(64)  # of a product: those that four warps have


@gluon.jit
def _place(n, together, BLOCK: gl.constexpr, LONGEST_LAST: gl.constexpr):
    """Return which head (a long integer) and which first row this program works at: as in
    `flash_attention.py`.
    """
    blocks = gl.cdiv(n, BLOCK)
    group = gl.program_id(0) // (together * blocks)
    number = gl.program_id(0) % (together * blocks)
    block = number // together
    if LONGEST_LAST:
        block = blocks - 1 - block
    return (group * together + number % together).to(gl.int64), block * BLOCK


@gluon.jit
def _rows(matrix, n, D: gl.constexpr, BLOCK: gl.constexpr):
    """Describe the matrix of a head, (n, D), for the copy engine: it copies BLOCK rows, 0 beyond
    the last.
    """
    kind: gl.constexpr = matrix.dtype.element_ty
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK, D], kind)
    return tma.make_tensor_descriptor(matrix, [n, D], [D, 1], [BLOCK, D], layout)


@gluon.jit
def _room(rows, COUNT: gl.constexpr):
    """Return shared memory for COUNT of the blocks that a descriptor copies."""
    return gl.allocate_shared_memory(rows.dtype, [COUNT] + rows.block_type.shape, rows.layout)  # noqa: RUF005 (Gluon has no star)


@gluon.jit
def _barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr):
    """Return COUNT barriers, each of which opens after so many arrivals, and closes again."""
    made = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for number in gl.static_range(COUNT):
        mbarrier.init(made.index(number), count=ARRIVALS)
    return made


@gluon.jit
def _copy(rows, first, ready, room):
    """Have a block of rows copied into shared memory; `ready` opens when it is there."""
    mbarrier.expect(ready, rows.block_type.nbytes)
    tma.async_copy_global_to_shared(rows, [first, 0], ready, room)


@gluon.jit
def _store(matrix, first, n, tile, D: gl.constexpr, BLOCK: gl.constexpr):
    """Store a block of rows, except what is beyond the last one."""
    warps: gl.constexpr = gl.num_warps()
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // D, D // 8], [warps, 1], [1, 0])
    rows = first + gl.arange(0, BLOCK, gl.SliceLayout(1, layout))
    columns = gl.arange(0, D, gl.SliceLayout(0, layout))
    tile = gl.convert_layout(tile.to(matrix.dtype.element_ty), layout)
    gl.store(matrix + rows[:, None] * D + columns[None, :], tile, mask=rows[:, None] < n)


# Forward.


@gluon.jit
def _fetch(
    k_rows, v_rows, k_tiles, v_tiles, k_ready, k_free, v_ready, v_free, tiles, BLOCK_K: gl.constexpr
):
    """The warp that fetches: tiles of K and V from the last one to the first."""
    STAGES: gl.constexpr = k_tiles.shape[0]
    for turn in range(tiles):
        stage, again = turn % STAGES, turn // STAGES & 1
        first = (tiles - 1 - turn) * BLOCK_K
        mbarrier.wait(k_free.index(stage), again ^ 1)  # at first it is free
        _copy(k_rows, first, k_ready.index(stage), k_tiles.index(stage))
        mbarrier.wait(v_free.index(stage), again ^ 1)
        _copy(v_rows, first, v_ready.index(stage), v_tiles.index(stage))


@gluon.jit
def _softmax(
    scores,
    top,
    total,
    queries,
    start,
    n_k,
    offset,
    scale,
    CAUSAL: gl.constexpr,
    MASKED: gl.constexpr,
):
    """Return the weights of a tile relative to the new maximum, the maximum, the total and the
    shrinking of sums.
    """
    if MASKED:
        keys = start + gl.arange(0, scores.shape[1], gl.SliceLayout(0, scores.type.layout))
        seen = (keys < n_k)[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= queries[:, None] + offset)
        scores = gl.where(seen, scores, float("-inf"))
    highest = gl.maximum(top, gl.max(scores, 1) * scale)
    subtracted = highest
    if MASKED:
        subtracted = gl.where(highest == float("-inf"), 0.0, highest)
    weights = gl.exp2(scores * scale - subtracted[:, None])
    shrink = gl.exp2(top - subtracted)
    return weights, highest, total * shrink + gl.sum(weights, 1), shrink


@gluon.jit
def _turn(
    turn, acc, weights, top, total, q, k_tiles, v_tiles, k_ready, k_free, v_ready, v_free,
    queries, tiles, n_k, offset, scale, CAUSAL: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    """Ask for the scores of this tile, then add the values of the one before, whose weights are
    known.
    """
    STAGES: gl.constexpr = k_tiles.shape[0]
    BLOCK_K: gl.constexpr = k_tiles.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])
    stage, before = turn % STAGES, (turn - 1) % STAGES
    mbarrier.wait(k_ready.index(stage), turn // STAGES & 1)
    nothing = gl.zeros([ROWS, BLOCK_K], gl.float32, layout)
    scores = warpgroup_mma(
        q, k_tiles.index(stage).permute((1, 0)), nothing, use_acc=False, is_async=True
    )
    mbarrier.wait(v_ready.index(before), (turn - 1) // STAGES & 1)
    acc = warpgroup_mma(weights, v_tiles.index(before), acc, is_async=True)
    scores = warpgroup_mma_wait(1, deps=[scores])  # the values may still be added
    barrier()
    mbarrier.arrive(k_free.index(stage))
    start = (tiles - 1 - turn) * BLOCK_K
    new, top, total, shrink = _softmax(
        scores, top, total, queries, start, n_k, offset, scale, CAUSAL, MASKED
    )
    acc, weights = warpgroup_mma_wait(0, deps=[acc, weights])
    barrier()
    mbarrier.arrive(v_free.index(before))
    acc = acc * gl.convert_layout(shrink, gl.SliceLayout(1, acc.type.layout))[:, None]
    weights = gl.convert_layout(new.to(k_tiles.dtype), weights.type.layout)
    return acc, weights, top, total


@gluon.jit
def _attend(
    q, k_tiles, v_tiles, q_ready, k_ready, k_free, v_ready, v_free, out, lse, first, n_q, n_k,
    tiles, whole, scale,
    CAUSAL: gl.constexpr, D: gl.constexpr,
):  # fmt: skip
    """A group of warps that attends: with 64 queries, to all tiles that any query of the program
    sees.
    """
    STAGES: gl.constexpr = k_tiles.shape[0]
    BLOCK_K: gl.constexpr = k_tiles.shape[1]
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])
    out_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    weights_layout: gl.constexpr = gl.DotOperandLayout(0, out_layout, 2)
    queries = first + gl.arange(0, ROWS, gl.SliceLayout(1, scores_layout))
    offset = n_k - n_q
    mbarrier.wait(q_ready, 0)
    mbarrier.wait(k_ready.index(0), 0)
    nothing = gl.zeros([ROWS, BLOCK_K], gl.float32, scores_layout)
    scores = warpgroup_mma(q, k_tiles.index(0).permute((1, 0)), nothing, use_acc=False)
    barrier()
    mbarrier.arrive(k_free.index(0))
    top = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, scores_layout))
    total = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, scores_layout))
    start = (tiles - 1) * BLOCK_K
    weights, top, total, _ = _softmax(
        scores, top, total, queries, start, n_k, offset, scale, CAUSAL, True
    )
    weights = gl.convert_layout(weights.to(k_tiles.dtype), weights_layout)
    acc = gl.zeros([ROWS, D], gl.float32, out_layout)
    masked = gl.maximum(tiles - whole, 1)
    for turn in range(1, masked):
        acc, weights, top, total = _turn(
            turn, acc, weights, top, total, q, k_tiles, v_tiles, k_ready, k_free, v_ready, v_free,
            queries, tiles, n_k, offset, scale, CAUSAL, True,
        )  # fmt: skip
    for turn in range(masked, tiles):
        acc, weights, top, total = _turn(
            turn, acc, weights, top, total, q, k_tiles, v_tiles, k_ready, k_free, v_ready, v_free,
            queries, tiles, n_k, offset, scale, CAUSAL, False,
        )  # fmt: skip
    last = tiles - 1
    mbarrier.wait(v_ready.index(last % STAGES), last // STAGES & 1)
    acc = warpgroup_mma(weights, v_tiles.index(last % STAGES), acc)
    share = 1 / gl.where(total == 0, 1.0, total)  # a query that sees nothing gets 0
    acc = acc * gl.convert_layout(share, gl.SliceLayout(1, out_layout))[:, None]
    _store(out, first, n_q, acc, D, ROWS)
    gl.store(lse + queries, (top + gl.log2(total)) * LOG_2, mask=queries < n_q)


@gluon.jit(do_not_specialize=NO_SPECIAL)
def _forward(
    q, k, v, out, lse, n_q, n_k, scale, together,
    CAUSAL: gl.constexpr, D: gl.constexpr, GROUPS: gl.constexpr, BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """One block of queries of one head, 64 for each group of warps: rows of `out`, and their
    log-sum-exp.
    """
    BLOCK_Q: gl.constexpr = ROWS * GROUPS
    head, first = _place(n_q, together, BLOCK_Q, CAUSAL)
    q_rows = _rows(q + head * n_q * D, n_q, D, ROWS)
    k_rows, v_rows = (
        _rows(k + head * n_k * D, n_k, D, BLOCK_K),
        _rows(v + head * n_k * D, n_k, D, BLOCK_K),
    )
    out, lse = out + head * n_q * D, lse + head * n_q
    q_tiles, k_tiles, v_tiles = _room(q_rows, GROUPS), _room(k_rows, STAGES), _room(v_rows, STAGES)
    q_ready, k_ready, v_ready = _barriers(GROUPS, 1), _barriers(STAGES, 1), _barriers(STAGES, 1)
    k_free, v_free = _barriers(STAGES, GROUPS), _barriers(STAGES, GROUPS)
    fence_async_shared()
    for group in gl.static_range(GROUPS):
        _copy(q_rows, first + group * ROWS, q_ready.index(group), q_tiles.index(group))
    whole, end = n_k // BLOCK_K, n_k
    if CAUSAL:
        seen = gl.maximum(first + 1 + n_k - n_q, 0)  # keys that the first query sees
        whole = gl.minimum(whole, seen // BLOCK_K)
        end = gl.minimum(n_k, gl.maximum(first + BLOCK_Q + n_k - n_q, 0))
    tiles = gl.maximum(gl.cdiv(end, BLOCK_K), 1)
    fetch = (k_rows, v_rows, k_tiles, v_tiles, k_ready, k_free, v_ready, v_free, tiles, BLOCK_K)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_attend, (q_tiles.index(0), k_tiles, v_tiles, q_ready.index(0), k_ready, k_free, v_ready, v_free,  # noqa: E501
                           out, lse, first, n_q, n_k, tiles, whole, scale, CAUSAL, D)),
                (_attend, (q_tiles.index(1), k_tiles, v_tiles, q_ready.index(1), k_ready, k_free, v_ready, v_free,  # noqa: E501
                           out, lse, first + ROWS, n_q, n_k, tiles, whole, scale, CAUSAL, D)),
                (_fetch, fetch),
            ],
            [4, 1],
            [240, 24],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_attend, (q_tiles.index(0), k_tiles, v_tiles, q_ready.index(0), k_ready, k_free, v_ready, v_free,  # noqa: E501
                           out, lse, first, n_q, n_k, tiles, whole, scale, CAUSAL, D)),
                (_attend, (q_tiles.index(1), k_tiles, v_tiles, q_ready.index(1), k_ready, k_free, v_ready, v_free,  # noqa: E501
                           out, lse, first + ROWS, n_q, n_k, tiles, whole, scale, CAUSAL, D)),
                (_attend, (q_tiles.index(2), k_tiles, v_tiles, q_ready.index(2), k_ready, k_free, v_ready, v_free,  # noqa: E501
                           out, lse, first + 2 * ROWS, n_q, n_k, tiles, whole, scale, CAUSAL, D)),
                (_fetch, fetch),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )  # fmt: skip


# Backward, for dK and dV.


@gluon.jit
def _fetch_queries(q_rows, d_out_rows, q_tiles, d_out_tiles, ready, start, turn):
    """Have a tile of Q and dO copied, one barrier for both."""
    STAGES: gl.constexpr = q_tiles.shape[0]
    stage = turn % STAGES
    mbarrier.expect(ready.index(stage), q_rows.block_type.nbytes + d_out_rows.block_type.nbytes)
    tma.async_copy_global_to_shared(q_rows, [start, 0], ready.index(stage), q_tiles.index(stage))
    tma.async_copy_global_to_shared(
        d_out_rows, [start, 0], ready.index(stage), d_out_tiles.index(stage)
    )


@gluon.jit
def _keys_turn(
    turn, turns, begin, scores, dk, dv, k_tile, v_tile, q_rows, d_out_rows, q_tiles, d_out_tiles,
    ready,
    lse, delta, keys, n_q, offset, scale, D: gl.constexpr, CAUSAL: gl.constexpr,
    MASKED: gl.constexpr,
):  # fmt: skip
    """Add what a tile of queries brings to dK and dV.

    Its scores were asked for before; here, those of the next one.

    Tiles are transposed here: keys are rows, queries columns. `before` is what the product under
    way for dK reads.
    """
    STAGES: gl.constexpr = q_tiles.shape[0]
    BLOCK_Q: gl.constexpr = q_tiles.shape[1]
    BLOCK_K: gl.constexpr = k_tile.shape[0]
    warps: gl.constexpr = gl.num_warps()
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [warps, 1], [16, BLOCK_Q, 16])
    sums_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [warps, 1], [16, D, 16])
    factor_layout: gl.constexpr = gl.DotOperandLayout(0, sums_layout, 2)
    stage, later = turn % STAGES, gl.minimum(turn + 1, turns - 1)
    q_tile, d_out_tile = q_tiles.index(stage), d_out_tiles.index(stage)
    queries = begin + turn * BLOCK_Q + gl.arange(0, BLOCK_Q, gl.SliceLayout(0, layout))
    row_lse = gl.load(lse + queries, mask=queries < n_q, other=0.0) * LOG2_E
    nothing = gl.zeros([BLOCK_K, BLOCK_Q], gl.float32, layout)
    d_weights = warpgroup_mma(
        v_tile, d_out_tile.permute((1, 0)), nothing, use_acc=False, is_async=True
    )
    weights = gl.exp2(scores * scale - row_lse[None, :])
    if MASKED:
        weights = gl.where(keys[:, None] <= queries[None, :] + offset, weights, 0.0)
    factor = gl.convert_layout(weights.to(q_tiles.dtype), factor_layout)
    row_delta = gl.load(delta + queries, mask=queries < n_q, other=0.0)
    dv = warpgroup_mma(factor, d_out_tile, dv, is_async=True)
    mbarrier.wait(ready.index(later % STAGES), later // STAGES & 1)
    later_tile = q_tiles.index(later % STAGES).permute((1, 0))
    scores = warpgroup_mma(k_tile, later_tile, nothing, use_acc=False, is_async=True)
    d_weights = warpgroup_mma_wait(2, deps=[d_weights])
    barrier()  # now nothing reads the tile before any more
    if (turn > 0) & (turn + STAGES - 1 < turns):
        _fetch_queries(
            q_rows,
            d_out_rows,
            q_tiles,
            d_out_tiles,
            ready,
            begin + (turn + STAGES - 1) * BLOCK_Q,
            turn + STAGES - 1,
        )
    d_scores = weights * (d_weights - row_delta[None, :])
    d_scores = gl.convert_layout(d_scores.to(q_tiles.dtype), factor_layout)
    dk = warpgroup_mma(d_scores, q_tile, dk, is_async=True)
    scores, dv, factor, dk, d_scores = warpgroup_mma_wait(
        0, deps=[scores, dv, factor, dk, d_scores]
    )
    return scores, dk, dv


@gluon.jit(do_not_specialize=NO_SPECIAL)
def _backward_keys(
    q, k, v, d_out, lse, delta, dk, dv, n_q, n_k, scale, together,
    CAUSAL: gl.constexpr, D: gl.constexpr, BLOCK_Q: gl.constexpr, BLOCK_K: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """One block of keys of one head: rows of `dk` and `dv`, from all queries that see some of it.

    STAGES > 2.
    """
    warps: gl.constexpr = gl.num_warps()
    scores_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [warps, 1], [16, BLOCK_Q, 16])
    sums_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [warps, 1], [16, D, 16])
    head, first = _place(n_k, together, BLOCK_K, False)  # the first keys are seen by most queries
    q_rows, d_out_rows = (
        _rows(q + head * n_q * D, n_q, D, BLOCK_Q),
        _rows(d_out + head * n_q * D, n_q, D, BLOCK_Q),
    )
    k_rows, v_rows = (
        _rows(k + head * n_k * D, n_k, D, BLOCK_K),
        _rows(v + head * n_k * D, n_k, D, BLOCK_K),
    )
    lse, delta = lse + head * n_q, delta + head * n_q
    k_tile, v_tile = _room(k_rows, 1).index(0), _room(v_rows, 1).index(0)
    q_tiles, d_out_tiles = _room(q_rows, STAGES), _room(d_out_rows, STAGES)
    ready, own_ready = _barriers(STAGES, 1), _barriers(1, 1)
    fence_async_shared()
    begin, whole, offset = n_q * 0, n_q * 0, n_k - n_q
    # queries before `begin` see nothing of the block, those from `whole` on see all of it
    if CAUSAL:
        begin = gl.maximum(first - offset, 0) // BLOCK_Q * BLOCK_Q
        whole = gl.maximum(first + BLOCK_K - 1 - offset, 0)
    # at least one: of queries that are not there, it brings 0
    turns = gl.maximum(gl.cdiv(n_q - begin, BLOCK_Q), 1)
    masked = gl.minimum(gl.cdiv(gl.maximum(whole - begin, 0), BLOCK_Q), turns)
    mbarrier.expect(own_ready.index(0), k_rows.block_type.nbytes + v_rows.block_type.nbytes)
    tma.async_copy_global_to_shared(k_rows, [first, 0], own_ready.index(0), k_tile)
    tma.async_copy_global_to_shared(v_rows, [first, 0], own_ready.index(0), v_tile)
    for turn in range(gl.minimum(STAGES, turns)):
        _fetch_queries(
            q_rows, d_out_rows, q_tiles, d_out_tiles, ready, begin + turn * BLOCK_Q, turn
        )
    keys = first + gl.arange(0, BLOCK_K, gl.SliceLayout(1, scores_layout))
    dk_rows = gl.zeros([BLOCK_K, D], gl.float32, sums_layout)
    dv_rows = gl.zeros([BLOCK_K, D], gl.float32, sums_layout)
    mbarrier.wait(own_ready.index(0), 0)
    mbarrier.wait(ready.index(0), 0)
    nothing = gl.zeros([BLOCK_K, BLOCK_Q], gl.float32, scores_layout)
    scores = warpgroup_mma(k_tile, q_tiles.index(0).permute((1, 0)), nothing, use_acc=False)
    for turn in range(0, masked):
        scores, dk_rows, dv_rows = _keys_turn(
            turn, turns, begin, scores, dk_rows, dv_rows, k_tile, v_tile, q_rows, d_out_rows,
            q_tiles, d_out_tiles, ready, lse, delta, keys, n_q, offset, scale, D, CAUSAL, True,
        )  # fmt: skip
    for turn in range(masked, turns):
        scores, dk_rows, dv_rows = _keys_turn(
            turn, turns, begin, scores, dk_rows, dv_rows, k_tile, v_tile, q_rows, d_out_rows,
            q_tiles, d_out_tiles, ready, lse, delta, keys, n_q, offset, scale, D, CAUSAL, False,
        )  # fmt: skip
    _store(dk + head * n_k * D, first, n_k, dk_rows * (scale / LOG2_E), D, BLOCK_K)
    _store(dv + head * n_k * D, first, n_k, dv_rows, D, BLOCK_K)


# Launching. Each returns what a kernel of `flash_attention.py` returns, for the same arguments.


def _allocate(size, _alignment, _stream):
    """Return the memory in which a kernel keeps its descriptors."""
    return torch.empty(size, device="cuda", dtype=torch.int8)


def _options(q, k, causal):
    triton.set_allocator(_allocate)
    about = {
        "n_q": q.shape[2],
        "n_k": k.shape[2],
        "scale": math.log2(math.e) / math.sqrt(q.shape[3]),
    }
    return {
        **about,
        "together": _together(q, k) if causal else 1,
        "CAUSAL": bool(causal),
        "D": q.shape[3],
    }


def run_forward(q, k, v, causal, blocks):
    """Return out and the log-sum-exp. `blocks.queries` is 128 or 192."""
    b, h, n_q, _ = q.shape
    out, lse = torch.empty_like(q), q.new_empty((b, h, n_q), dtype=torch.float32)
    grid = (b * h * triton.cdiv(n_q, blocks.queries),)
    shape = {"GROUPS": blocks.queries // 64, "BLOCK_K": blocks.keys, "STAGES": blocks.stages}
    with torch.cuda.device_of(q):
        _forward[grid](q, k, v, out, lse, **_options(q, k, causal), **shape, num_warps=4)
    return out, lse


def run_keys(q, k, v, lse, delta, d_out, causal, blocks):
    """Return dk and dv. `blocks.keys` is 16 for each of `blocks.warps`."""
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    grid = (k.shape[0] * k.shape[1] * triton.cdiv(k.shape[2], blocks.keys),)
    shape = {
        "BLOCK_Q": blocks.queries,
        "BLOCK_K": blocks.keys,
        "STAGES": blocks.stages,
        "num_warps": blocks.warps,
    }
    with torch.cuda.device_of(q):
        _backward_keys[grid](q, k, v, d_out, lse, delta, dk, dv, **_options(q, k, causal), **shape)
    return dk, dv

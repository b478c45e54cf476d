"""One new token's attention over a cache that is kept in pages: a Triton kernel that reads keys and
values through a page table, in fp16, bf16 and fp32.

    out = paged_attention(q, K_pages, V_pages, table, lengths)  # forward only, as a server needs it

Decoding has one query per head, so there are few programs, and each has a long way to go. The
kernel therefore also splits the sequence: a program owns one key head of one sequence and one part
of its tokens, and attends with all query heads that share this key head, so the head is read once.
A second kernel merges the parts by their log-sum-exps. The tokens of a tile may be on different
pages. The program looks up the page of each, and computes the addresses itself: no key is copied.

Without a GPU both kernels run in Triton's interpreter, as those of `flash_attention.py` do. Paged
attention is Kwon et al.'s (2023); splitting the keys of a decoding step is Dao et al.'s (2023).
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from flash_attention import INTERPRETED, _chip, _dot, _shapes, _width

NO_SPECIAL = ["max_pages", "parts"]  # one compiled kernel for all of these
PROGRAMS = 4  # for each multiprocessor, as long as there are enough tokens
LEAST = 256  # tokens of a part: with fewer, merging takes longer than splitting saves
MOST = 128  # parts
WIDEST = 256  # numbers of a head


class Blocks(NamedTuple):
    """How a program walks: tokens of a tile, warps, stages of its pipeline."""

    keys: int
    warps: int
    stages: int


# Not yet timed on a GPU: the part `paged` of benchmarks/gpu.py tries these, the first is used.
BLOCKS = (Blocks(64, 4, 3), Blocks(128, 4, 2), Blocks(32, 4, 4), Blocks(64, 8, 3))
SMALL = Blocks(16, 4, 1)  # for the interpreter: small inputs have several tiles


def paged_attention(q, K_pages, V_pages, table, lengths, parts=None, blocks=None):
    """Attend with one query per head to the keys and values of each sequence, which are on pages.

    Token t of sequence s is on page `table[s, t // page_size]`, at place `t % page_size`. Numbers
    of a page beyond its sequence's length are not read, nor are entries of the table beyond the
    pages that the length needs.

    Parameters
    ----------
    q : tensor, shape (b, h, d_k)
        Of float16, bfloat16 or float32. float32 means float32: no TF32.
    K_pages : tensor, shape (num_pages, page_size, h_kv, d_k)
        Contiguous. Query head i uses key head i // (h / h_kv).
    V_pages : tensor, shape (num_pages, page_size, h_kv, d_v)
    table : tensor of integers, shape (b, max_pages)
    lengths : tensor of integers, shape (b,)
        At most max_pages * page_size. No number in `table` or `lengths` is checked: the CPU would
        have to wait for the GPU.
    parts : int, optional
        Into how many parts each sequence is split. By default enough to fill the GPU.
    blocks : Blocks, optional

    Returns
    -------
    tensor, shape (b, h, d_v)
        Zeros for a sequence of length 0.

    Raises
    ------
    ValueError
        If shapes, dtypes or devices don't fit, pages are not contiguous, or heads are too wide.
    """
    _check(q, K_pages, V_pages, table, lengths)
    (b, h, d_k), (_, page_size, h_kv, d_v) = q.shape, V_pages.shape
    blocks = blocks or (BLOCKS[0] if q.is_cuda else SMALL)
    parts = parts or _parts(q, h_kv, table.shape[1] * page_size)
    if b == 0:
        return q.new_zeros(b, h, d_v)
    q, table, lengths = q.contiguous(), table.contiguous(), lengths.contiguous()
    out = q.new_empty(b, h, d_v)
    # a single part is the result
    partial = out if parts == 1 else q.new_empty((parts, b, h, d_v), dtype=torch.float32)
    lse = q.new_empty((parts, b, h), dtype=torch.float32)
    shape = {"GROUP": h // h_kv, "BLOCK_G": _width(h // h_kv), "D_K": d_k, "D_V": d_v}
    shape |= {"BLOCK_D_K": _width(d_k), "BLOCK_D_V": _width(d_v)}
    scale = math.log2(math.e) / math.sqrt(d_k)
    with torch.cuda.device_of(q):
        _decode[(b * h_kv, parts)](
            q, K_pages, V_pages, table, lengths, partial, lse, table.shape[1], scale,
            **shape, HEADS_KV=h_kv, PAGE=page_size, BLOCK_K=blocks.keys,
            num_warps=blocks.warps, num_stages=blocks.stages,
        )  # fmt: skip
        if parts > 1:
            columns = {"D_V": d_v, "BLOCK_D_V": _width(d_v)}
            _merge[(b * h,)](
                partial, lse, out, parts, **columns, PARTS=triton.next_power_of_2(parts)
            )
    return out


@triton.jit(do_not_specialize=NO_SPECIAL)
def _decode(
    q, k, v, table, lengths, out, lse, max_pages, scale,
    GROUP: tl.constexpr, BLOCK_G: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    BLOCK_D_K: tl.constexpr, BLOCK_D_V: tl.constexpr, HEADS_KV: tl.constexpr, PAGE: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One part of one sequence, for the GROUP query heads that share a key head.

    Writes rows of `out` (parts, b, h, D_V) and of `lse` (parts, b, h), which is to the base 2, as
    `scale` has LOG2_E in it.
    """
    sequence, head = tl.program_id(0) // HEADS_KV, tl.program_id(0) % HEADS_KV
    part, sequences = tl.program_id(1), tl.num_programs(0) // HEADS_KV
    length = tl.load(lengths + sequence).to(tl.int32)
    part_size = tl.cdiv(tl.cdiv(length, BLOCK_K), tl.num_programs(1)) * BLOCK_K  # tokens of a part
    first = part * part_size
    end = tl.minimum(length, first + part_size)
    table += sequence.to(tl.int64) * max_pages
    k += head * D_K
    v += head * D_V
    group = tl.arange(0, BLOCK_G)
    rows = (sequence * HEADS_KV + head).to(tl.int64) * GROUP + group
    columns_k, columns_v = tl.arange(0, BLOCK_D_K)[None, :], tl.arange(0, BLOCK_D_V)[None, :]
    there = (group[:, None] < GROUP) & (columns_k < D_K)
    queries = tl.load(q + rows[:, None] * D_K + columns_k, mask=there, other=0.0)
    acc = tl.zeros((BLOCK_G, BLOCK_D_V), tl.float32)
    total = tl.zeros((BLOCK_G,), tl.float32)
    top = tl.full((BLOCK_G,), float("-inf"), tl.float32)
    for start in range(first, end, BLOCK_K):
        tokens = start + tl.arange(0, BLOCK_K)
        inside = tokens < end
        if PAGE % BLOCK_K == 0:  # a tile is on one page
            page = tl.load(table + start // PAGE).to(tl.int64)
            places = page * PAGE + tokens % PAGE
        else:
            pages = tl.load(table + tokens // PAGE, mask=inside, other=0).to(tl.int64)
            places = pages * PAGE + tokens % PAGE
        known = inside[:, None] & (columns_k < D_K)
        keys = tl.load(k + places[:, None] * (HEADS_KV * D_K) + columns_k, mask=known, other=0.0)
        scores = tl.where(inside[None, :], _dot(queries, tl.trans(keys)), float("-inf"))
        # each tile has a token, so `highest` is finite
        highest = tl.maximum(top, tl.max(scores, 1) * scale)
        weights = tl.exp2(scores * scale - highest[:, None])
        shrink = tl.exp2(top - highest)
        total = total * shrink + tl.sum(weights, 1)
        known = inside[:, None] & (columns_v < D_V)
        values = tl.load(v + places[:, None] * (HEADS_KV * D_V) + columns_v, mask=known, other=0.0)
        acc = _dot(weights.to(values.dtype), values, acc * shrink[:, None])
        top = highest
    acc = acc / tl.where(total == 0, 1.0, total)[:, None]  # a part without tokens: zeros
    rows += part.to(tl.int64) * sequences * HEADS_KV * GROUP
    there = (group[:, None] < GROUP) & (columns_v < D_V)
    tl.store(out + rows[:, None] * D_V + columns_v, acc.to(out.dtype.element_ty), mask=there)
    tl.store(lse + rows, top + tl.log2(total), mask=group < GROUP)


@triton.jit(do_not_specialize=NO_SPECIAL)
def _merge(
    partial, lse, out, parts, D_V: tl.constexpr, BLOCK_D_V: tl.constexpr, PARTS: tl.constexpr
):
    """Merge the parts of one query: each counts by the sum of its exponentials."""
    row, rows = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    part, columns = tl.arange(0, PARTS), tl.arange(0, BLOCK_D_V)
    sums = tl.load(lse + part * rows + row, mask=part < parts, other=float("-inf"))
    top = tl.max(sums, 0)
    weights = tl.exp2(sums - tl.where(top == float("-inf"), 0.0, top))  # no token: 0 each
    there = (part[:, None] < parts) & (columns[None, :] < D_V)
    places = (part[:, None] * rows + row) * D_V + columns[None, :]
    mixed = tl.sum(tl.load(partial + places, mask=there, other=0.0) * weights[:, None], 0)
    total = tl.sum(weights, 0)
    mixed = mixed / tl.where(total == 0, 1.0, total)
    tl.store(out + row * D_V + columns, mixed.to(out.dtype.element_ty), mask=columns < D_V)


def _parts(q, h_kv, tokens):
    """Return into how many parts to split sequences of at most so many tokens."""
    processors = _chip(q.device).multi_processor_count if q.is_cuda else 1
    wanted = triton.cdiv(PROGRAMS * processors, max(1, q.shape[0] * h_kv))
    return max(1, min(wanted, tokens // (LEAST if q.is_cuda else SMALL.keys), MOST))


def _check(q, K_pages, V_pages, table, lengths):
    if not (q.dim() == 3 and K_pages.dim() == V_pages.dim() == 4):
        raise ValueError(
            "Expected q (b, h, d_k) and pages (num_pages, page_size, h_kv, d), got "
            f"{_shapes(q, K_pages, V_pages)}."
        )
    if K_pages.shape[:3] != V_pages.shape[:3] or q.shape[2] != K_pages.shape[3]:
        raise ValueError(
            f"The shapes of q, K_pages and V_pages don't fit: {_shapes(q, K_pages, V_pages)}."
        )
    if K_pages.shape[2] < 1 or q.shape[1] % K_pages.shape[2]:
        raise ValueError(f"h_kv has to divide h: {q.shape[1]} heads, {K_pages.shape[2]} key heads.")
    if table.dim() != 2 or lengths.dim() != 1 or not len(q) == len(table) == len(lengths):
        raise ValueError(
            "Expected a table (b, max_pages) and lengths (b,), got "
            f"{_shapes(table, lengths)} for q {tuple(q.shape)}."
        )
    if any(one.is_floating_point() or one.dtype == torch.bool for one in (table, lengths)):
        raise ValueError(f"Expected integers, got {table.dtype} and {lengths.dtype}.")
    if not 1 <= max(K_pages.shape[3], V_pages.shape[3]) <= WIDEST:
        raise ValueError(f"A head has 1 to {WIDEST} numbers: {_shapes(K_pages, V_pages)}.")
    dtypes = {one.dtype for one in (q, K_pages, V_pages)}
    if len(dtypes) > 1 or not dtypes <= {torch.float16, torch.bfloat16, torch.float32}:
        raise ValueError(f"Expected one of float16, bfloat16 and float32 for all, got {dtypes}.")
    devices = {one.device for one in (q, K_pages, V_pages, table, lengths)}
    if len(devices) > 1:
        raise ValueError(f"Tensors are on different devices: {devices}.")
    if not (K_pages.is_contiguous() and V_pages.is_contiguous()):
        raise ValueError("The pages have to be contiguous: a copy of a whole cache is too slow.")
    if not (q.is_cuda or INTERPRETED.value):
        raise ValueError(
            f"No kernel runs on {q.device}: set TRITON_INTERPRET=1 before triton is imported."
        )

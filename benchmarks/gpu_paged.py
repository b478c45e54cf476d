"""The part `paged` of the benchmark: one step of decoding over a cache in pages.

The kernel of `paged.py` is compared with what a user would write without one: gather the pages into
one row per sequence, then call `scaled_dot_product_attention`. Both are compared with a cache that
is one row per sequence from the start. All read the same keys and values, and have to return the
same numbers before they are timed.
"""

import functools
import itertools
import math

import torch
from gpu_tools import (
    DEVICE,
    DTYPES,
    LIMITS,
    QUICK,
    captured,
    distance,
    measured_in_turns,
    refused,
    synchronize,
)
from paged import BLOCKS, SMALL, paged_attention
from torch.nn import functional

HEADS, KV_HEADS, WIDTH = (4, 2, 16) if QUICK else (32, 8, 128)
PAGES = (16,) if QUICK else (16, 256)  # tokens of a page
# Sequences, and the tokens of the longest: the most telling ones come first.
SIZES = ((2, 40),) if QUICK else ((64, 4096), (1, 131072), (8, 32768), (64, 512))
EQUAL, MIXED = "equal", "mixed"  # lengths: all the longest, or from an eighth of it on
ROW_SDPA, GATHER_SDPA, ROW = "one row, SDPA", "gather, SDPA", "one row, kernel"
REPEAT, ROUNDS = 25, 3  # milliseconds of a turn; turns
# Heads, key heads, d_k, d_v; page sizes. Odd ones are what a kernel gets wrong first.
ODD = ((6, 2, 24, 24), (3, 3, 16, 40), (8, 1, 128, 128), (20, 1, 80, 64))
ODD_PAGES = (1, 16, 48, 64)


def exact(q, K_pages, V_pages, table, lengths):
    """Attend in float64, one sequence and one head at a time: what the kernel is compared with."""
    page_size, group = K_pages.shape[1], q.shape[1] // K_pages.shape[2]
    out = q.new_zeros(*q.shape[:2], V_pages.shape[3], dtype=torch.float64)
    for sequence, length in enumerate(lengths.tolist()):
        tokens = torch.arange(length, device=q.device)
        places = (table[sequence, tokens // page_size].long(), tokens % page_size)
        K, V = K_pages[places].double(), V_pages[places].double()  # (length, h_kv, d)
        for head in range(q.shape[1] if length else 0):
            scores = K[:, head // group] @ q[sequence, head].double() / math.sqrt(q.shape[2])
            out[sequence, head] = scores.softmax(0) @ V[:, head // group]
    return out


def drawn(lengths, page_size, heads, kv_heads, d_k, d_v, dtype):
    """Draw the arguments of `paged_attention`.

    Pages are in random order, with a few that no sequence has. Numbers that must not be read are
    NaN in a page, and -1 in the table.
    """
    needed = [-(-length // page_size) for length in lengths]  # rounded up
    num_pages, b = sum(needed) + 2, len(lengths)
    order = torch.randperm(num_pages)
    table = torch.full((b, max(needed) + 1), -1, dtype=torch.int32)
    inside = torch.zeros(num_pages, page_size, dtype=torch.bool)
    ends = list(itertools.accumulate(needed))
    for sequence, (count, end) in enumerate(zip(needed, ends, strict=True)):
        pages = order[end - count : end]
        table[sequence, :count] = pages
        there = torch.arange(count * page_size).view(count, page_size) < lengths[sequence]
        inside[pages] = there
    beyond = ~inside.to(DEVICE)
    cache = []
    for width in (d_k, d_v):
        numbers = torch.randn(num_pages, page_size, kv_heads, width, device=DEVICE, dtype=dtype)
        numbers[beyond] = math.nan
        cache.append(numbers)
    q = torch.randn(b, heads, d_k, device=DEVICE, dtype=dtype)
    return q, *cache, table.to(DEVICE), torch.tensor(lengths, dtype=torch.int32, device=DEVICE)


def odd_cases():
    """Return what to compare at: (sizes, page size, dtype). Each is compiled, so not all together;
    a CPU has fewer.
    """
    chosen = [*zip(ODD, ODD_PAGES, strict=True), *((ODD[0], size) for size in ODD_PAGES[1:])]
    cases = [(sizes, page_size, dtype) for sizes, page_size in chosen for dtype in DTYPES]
    if QUICK:
        return [one for one in cases if one[2] == "float32" or one[:2] == chosen[0]]
    return cases


def right():
    """Compare the kernel with float64: each page size and dtype, each number of parts, empty
    sequences, full pages and NaN where nothing may be read.
    """
    largest = {}
    for sizes, page_size, dtype in odd_cases():
        lengths = [0, page_size, 2 * page_size, 1, 37, 3 * page_size + 1]
        inputs = drawn(lengths, page_size, *sizes, DTYPES[dtype])
        expected = exact(*inputs)
        for parts in (1, 3, None):
            out = paged_attention(*inputs, parts=parts)
            error = distance(out, expected)
            # the first sequence is empty: its result is zero, not NaN
            if not (error <= LIMITS[dtype] and out.dtype == inputs[0].dtype and not out[0].any()):
                raise RuntimeError(
                    f"{sizes}, pages of {page_size}, {dtype}, {parts} parts: wrong by {error:.1e}"
                )
            largest[dtype] = max(error, largest.get(dtype, 0.0))
    return {"largest_error": {dtype: float(f"{error:.3e}") for dtype, error in largest.items()}}


def row_sdpa(q, K, V, mask):
    """Attend to a cache (b, h_kv, n, d) that is one row per sequence."""
    return functional.scaled_dot_product_attention(
        q[:, :, None], K, V, attn_mask=mask, enable_gqa=True
    )[:, :, 0]


def gather_sdpa(q, K_pages, V_pages, table, mask):
    """Copy the pages of each sequence into one row, and attend to it."""
    K, V = (pages[table].flatten(1, 2).transpose(1, 2) for pages in (K_pages, V_pages))
    return row_sdpa(q, K, V, mask)


def lengths_of(b, n, which):
    """Return the lengths of a batch."""
    if which == EQUAL:
        return [n] * b
    return [n // 8 + (n - n // 8) * sequence // max(1, b - 1) for sequence in range(b)]


def ways(b, n, which):
    """Draw a cache; return {(implementation, page size, blocks): a call} and its number of tokens.

    All have the same keys and values. SDPA of one row comes first.
    """
    lengths = torch.tensor(lengths_of(b, n, which), dtype=torch.int32, device=DEVICE)
    K, V = torch.randn(2, b, KV_HEADS, n, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    q = torch.randn(b, HEADS, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    mask = None  # without one, PyTorch has faster kernels
    if which == MIXED:
        mask = (torch.arange(n, device=DEVICE) < lengths[:, None])[:, None, None]
    calls = {(ROW_SDPA, None, None): functools.partial(row_sdpa, q, K, V, mask)}
    tries = (SMALL,) if QUICK else BLOCKS
    cache = [row.transpose(1, 2).contiguous() for row in (K, V)]
    table = torch.arange(b, dtype=torch.int32, device=DEVICE)[:, None]
    for blocks in tries:
        call = functools.partial(paged_attention, q, *cache, table, lengths, blocks=blocks)
        calls[ROW, None, blocks] = call
    for page_size in PAGES:
        paged, table = in_pages(cache, page_size)
        padded = mask
        if table.shape[1] * page_size > n:  # the last page is not full
            tokens = torch.arange(table.shape[1] * page_size, device=DEVICE)
            padded = (tokens < lengths[:, None])[:, None, None]
        calls[GATHER_SDPA, page_size, None] = functools.partial(
            gather_sdpa, q, *paged, table, padded
        )
        for blocks in tries:
            call = functools.partial(paged_attention, q, *paged, table, lengths, blocks=blocks)
            calls[f"pages of {page_size}, kernel", page_size, blocks] = call
    return calls, int(lengths.sum())


def in_pages(cache, page_size):
    """Return a cache (b, n, h_kv, d) in pages, in random order, and their table."""
    b, n = cache[0].shape[:2]
    each = -(-n // page_size)
    order = torch.randperm(b * each, device=DEVICE)
    pools = []
    for row in cache:
        padded = functional.pad(row, (0, 0, 0, 0, 0, each * page_size - n))
        pages = torch.empty_like(padded).view(b * each, page_size, *row.shape[2:])
        pages[order] = padded.view_as(pages)
        pools.append(pages)
    return pools, order.view(b, each).int()


def case(b, n, which):
    """Return a row for each implementation and its blocks, in turns; each is a CUDA graph."""
    todo, tokens = ways(b, n, which)
    rows, runs, expected = [], [], None
    for (name, page_size, blocks), call in todo.items():
        try:
            out = call()
            synchronize()
            run = captured(call)
        except RuntimeError as error:
            refused(name, error)
            continue
        expected = out if expected is None else expected
        if not distance(out, expected) <= LIMITS["bfloat16"]:
            raise RuntimeError(f"{name}, {blocks}: not what SDPA returns for one row")
        about = {"implementation": name, "page_size": page_size, "batch": b, "n": n}
        about |= {"lengths": which, "heads": HEADS, "kv_heads": KV_HEADS, "d_head": WIDTH}
        # a graph keeps its own memory: these are bytes of a call without one
        about |= {"dtype": "bfloat16", **(blocks._asdict() if blocks else {})}
        peak = measured_in_turns([call], 1, REPEAT, tries=0)[0]["peak_bytes"]
        rows.append(about | {"peak_bytes": peak})
        runs.append(run)
    read = 2 * tokens * KV_HEADS * WIDTH * 2  # keys and values, 2 bytes each
    for row, measured in zip(rows, measured_in_turns(runs, ROUNDS, REPEAT), strict=True):
        row |= {key: value for key, value in measured.items() if key != "peak_bytes"}
        ms = row["milliseconds"]
        row["gb_s"] = ms and round(read / ms / 1e6, 1)
        print(*row.values())
    return {"rows": rows}


def cases():
    """Return the cases of the part."""
    cases = {"right": right}
    for (b, n), which in itertools.product(SIZES, (EQUAL, MIXED)):
        if which == EQUAL or b > 1:
            name = f"b = {b}, n = {n}, {which}"
            cases[name] = functools.partial(case, b, n, which)
    return cases

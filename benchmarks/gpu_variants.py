"""The part `variants` of the benchmark: the steps of `variants.py`, compared with the kernels as they are.

Attention is causal, in bfloat16. Each step is tried with several block sizes, and compared with float64 before it is
timed.
"""

import functools
import itertools
import os
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context

import flash_attention as kernels
import torch
import triton
import variants
from gpu_check import LIMITS, exact
from gpu_tools import HEADS, QUICK, distance, measured, qkv, synchronize

LENGTHS = (40,) if QUICK else (4096, 16384)
PATIENCE = 60  # seconds for all block sizes of a kernel to be compiled
BLOCKS = {  # by kernel, by the width of a head: those that came within 15 % of the fastest on an H200
    ("forward", 64): "64x64 4 3, 64x128 4 2, 128x64 8 3",
    ("forward", 128): "64x64 4 3, 128x64 8 3",
    ("queries", 64): "64x64 4 2, 64x64 4 3",
    ("queries", 128): "64x64 4 2, 128x64 8 3",
    ("keys", 64): "64x64 4 2 168, 64x64 4 3, 32x64 4 2",
    ("keys", 128): "64x64 4 2, 64x128 8 2, 32x64 4 3",
}


def blocks_of(kernel, width):
    """Return the block sizes to try: queries x keys, warps, stages and, for some, the most registers."""
    listed = BLOCKS["keys" if kernel == "backward" else kernel, width].split(", ")
    return [variants.Blocks(*map(int, one.replace("x", " ").split())) for one in listed]


def with_tuned(kernel, call):
    """Return a call of a kernel of `flash_attention.py` with the given blocks."""

    def run(inputs, blocks):
        sizes = kernels.TUNED[kernel, 2]
        width = inputs[0].shape[3]
        before, sizes[width] = sizes[width], blocks
        try:
            return call(*inputs)
        finally:
            sizes[width] = before

    return run


BACKWARD = {  # by kernel: of `variants.py`, and today's; of inputs q, k, v, out, lse, delta, d_out
    "queries": (
        lambda own, blocks, across: variants.run_queries(*own[:5], own[6], True, blocks, across),
        lambda *own: kernels._run_backward_queries(*own[:5], own[6], True),
    ),
    "keys": (
        lambda own, blocks, across: variants.run_keys(*own[:3], *own[4:], True, blocks, across),
        lambda *own: kernels._run_backward_keys(*own[:3], *own[4:], True),
    ),
}


def _steps(kernel):
    """Return {step: a function (inputs, blocks) -> results}; inputs are q, k, v, out, lse, delta, d_out."""
    if kernel == "forward":
        found = {"today": with_tuned(kernel, lambda q, k, v, *_: kernels.flash_attention_forward(q, k, v, True))}
        found["descriptors"] = lambda own, blocks: variants.run_forward(*own[:3], True, blocks, across=False)
        found["longest first"] = lambda own, blocks: variants.run_forward(*own[:3], True, blocks)
        return found | {f"persistent, {count}": functools.partial(_persistent, count) for count in (2, 3)}
    if kernel == "backward":
        return {"one pass": lambda own, blocks: variants.run_once(*own[:5], own[6], True, blocks)}
    step, today = BACKWARD[kernel]
    return {
        "today": with_tuned(kernel, today),
        "descriptors": functools.partial(step, across=False),
        "longest first": functools.partial(step, across=True),
    }


def _persistent(count, own, blocks):
    return variants.run_forward(*own[:3], True, blocks, per_multiprocessor=count)


def candidates(kernel, width):
    """Return what to try: (step, blocks) each."""
    blocks = blocks_of(kernel, width)
    steps = list(_steps(kernel))
    found = [("today", kernels.TUNED[kernel, 2][width])] if "today" in steps else []
    chosen = blocks[:1] if QUICK else blocks
    return found + [(step, own) for step in steps if step != "today" for own in chosen]


def drawn(n, width, batch=1, heads=HEADS):
    """Draw inputs of a kernel that fit each other: q, k, v, out, lse, delta, d_out."""
    q, k, v = (x.detach() for x in qkv(batch, heads, n, width, torch.bfloat16))
    out, lse = kernels.flash_attention_forward(q, k, v, True)
    d_out = torch.randn_like(q)
    return q, k, v, out, lse, (out.float() * d_out.float()).sum(-1), d_out


def error(kernel, step, width, blocks):
    """Return the largest distance of a step's results from float64, at an odd length; this compiles it."""
    torch.manual_seed(0)
    variants.MULTIPROCESSORS = 3  # so that a persistent program has several blocks
    inputs = q, k, v, _, _, delta, d_out = drawn(40 if QUICK else 333, width, 2, 2)
    wide = [x.requires_grad_() for x in (q, k, v)]
    right_out, right_lse, right = exact(wide, d_out, True)
    for x in wide:
        x.requires_grad_(False)
    expected = {"forward": (right_out, right_lse), "queries": (right[0], delta), "keys": right[1:], "backward": right}
    found = _steps(kernel)[step](inputs, blocks)
    synchronize()
    return max(distance(own, other) for own, other in zip(found, expected[kernel], strict=True))


@functools.cache
def pool():
    """Return processes that compile, which are kept."""
    return ProcessPoolExecutor(min(12, os.cpu_count()), get_context("spawn"))


def compiled(kernel, width, todo):
    """Compile and check all of `todo`; return those that are right, and compiled within `PATIENCE` seconds."""
    asked = {one: pool().submit(error, kernel, one[0], width, one[1]) for one in todo}
    wait(asked.values(), PATIENCE)
    ready = []
    for (step, blocks), future in asked.items():
        if not future.done():
            future.cancel()
            print(f"{kernel}, {step}, {tuple(blocks)}: not compiled in {PATIENCE} s")
        elif reason := future.exception():
            print(f"{kernel}, {step}, {tuple(blocks)}: {type(reason).__name__}: {str(reason)[:200]}")
        elif not future.result() <= LIMITS["bfloat16"]:
            print(f"{kernel}, {step}, {tuple(blocks)} is wrong by {future.result():.1e}")
        else:
            ready.append((step, blocks))
    return ready


def case(kernel, width):
    """Return the fastest blocks of each step at each length."""
    todo = candidates(kernel, width)
    if not QUICK:
        todo = compiled(kernel, width, todo)
    elif max(error(kernel, step, width, blocks) for step, blocks in todo) > LIMITS["bfloat16"]:
        raise RuntimeError(f"{kernel}, d = {width}: a step is wrong")
    best = {}
    for n in LENGTHS:
        inputs = drawn(n, width)
        for step, blocks in todo:
            run = functools.partial(_steps(kernel)[step], inputs, blocks)
            try:
                if QUICK:
                    milliseconds = measured(run)["milliseconds"]
                else:
                    run()
                    synchronize()
                    milliseconds = triton.testing.do_bench(run, warmup=8, rep=30, return_mode="median")
            except triton.runtime.errors.OutOfResources:
                continue
            print(kernel, step, width, n, tuple(blocks), round(milliseconds, 4))
            key = (step, n)
            if key not in best or milliseconds < best[key]["milliseconds"]:
                about = {"kernel": kernel, "step": step, "d_head": width, "n": n, "heads": HEADS, **blocks._asdict()}
                best[key] = {**about, "milliseconds": round(milliseconds, 4)}
    return list(best.values())


def cases():
    """Return the cases of the part."""
    widths = (64,) if QUICK else (64, 128)
    named = itertools.product(widths, ("forward", "queries", "keys", "backward"))
    return {f"{kernel}, d = {width}": functools.partial(case, kernel, width) for width, kernel in named}

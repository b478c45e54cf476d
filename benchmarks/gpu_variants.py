"""The part `variants` of the benchmark: the steps of `variants.py` and `hopper.py`, compared with
the kernels.

All are in bfloat16. Each step is tried with several block sizes, and compared with float64 before
it is timed. Those of a case take turns, so that a device that grows warm slows all of them down.
"""

import contextlib
import functools
import itertools
import os
from concurrent.futures import wait
from multiprocessing import get_context

import flash_attention as kernels
import hopper
import pebble
import torch
import variants
from gpu_check import exact
from gpu_tools import HEADS, LIMITS, QUICK, distance, measured_in_turns, qkv, synchronize

PATIENCE = 45  # seconds for one candidate to be compiled and compared
PROCESSES = 12  # at most, that compile side by side: each takes memory of the device
TODAY, DESCRIPTORS, GLUON, ONE_PASS = "today", "descriptors", "gluon", "one pass"
# by kernel, step and width of a head: queries x keys, warps, stages and, for some, the most
# registers
BLOCKS = {
    ("forward", DESCRIPTORS, 64): "64x128 4 2, 64x64 4 3",
    ("forward", DESCRIPTORS, 128): "64x64 4 3, 128x64 8 3",
    ("forward", GLUON, 64): "128x128 4 2, 128x128 4 3, 192x128 4 2, 128x64 4 4",
    ("forward", GLUON, 128): "128x128 4 2, 128x64 4 3, 128x64 4 4",
    ("queries", DESCRIPTORS, 64): "64x64 4 3",
    ("queries", DESCRIPTORS, 128): "128x64 8 3",
    ("keys", TODAY, 64): "64x64 4 2, 64x128 8 2",
    ("keys", TODAY, 128): "64x64 4 2, 64x128 8 2",
    ("keys", DESCRIPTORS, 64): "64x64 4 2 168, 64x64 4 3, 64x128 8 3",
    ("keys", DESCRIPTORS, 128): "64x64 4 2, 64x128 8 2",
    ("keys", GLUON, 64): "64x64 4 3, 64x128 8 3, 64x128 8 4",
    ("keys", GLUON, 128): "64x128 8 3, 64x64 4 3, 32x64 4 4",
    ("backward", ONE_PASS, 64): "64x64 4 3",
    ("backward", ONE_PASS, 128): "64x128 8 2",
}
# (kernel, causal), the most telling ones first; a dry run takes each kernel once.
CASES = (
    *(("forward", True), ("keys", False), ("forward", False), ("keys", True)),
    *(("queries", False), ("queries", True), ("backward", False), ("backward", True)),
)
QUICK_CASES = (("forward", True), ("keys", True), ("queries", False), ("backward", False))


@contextlib.contextmanager
def use_blocks(kernel, size, width, blocks):
    """Let a kernel of `flash_attention.py` take these blocks, for numbers of `size` bytes."""
    sizes = kernels.TUNED[kernel, size]
    before, sizes[width] = sizes[width], blocks
    try:
        yield
    finally:
        sizes[width] = before


def with_tuned(kernel, call):
    """Return a call of a kernel of `flash_attention.py` with the given blocks."""

    def run(inputs, blocks):
        with use_blocks(kernel, 2, inputs[0].shape[3], blocks):
            return call(*inputs)

    return run


def _steps(kernel, causal):
    """Return {step: a function (inputs, blocks) -> results}; inputs are q, k, v, out, lse,
    delta, d_out.
    """
    if kernel == "forward":
        return {
            TODAY: with_tuned(
                kernel, lambda q, k, v, *_: kernels.flash_attention_forward(q, k, v, causal)
            ),
            DESCRIPTORS: lambda own, blocks: variants.run_forward(*own[:3], causal, blocks, False),
            GLUON: lambda own, blocks: hopper.run_forward(*own[:3], causal, blocks),
        }
    if kernel == "queries":
        return {
            TODAY: with_tuned(
                kernel, lambda *own: kernels._run_backward_queries(*own[:5], own[6], causal)
            ),
            DESCRIPTORS: lambda own, blocks: variants.run_queries(
                *own[:5], own[6], causal, blocks, False
            ),
        }
    if kernel == "keys":
        return {
            TODAY: with_tuned(
                kernel, lambda *own: kernels._run_backward_keys(*own[:3], *own[4:], causal)
            ),
            DESCRIPTORS: lambda own, blocks: variants.run_keys(
                *own[:3], *own[4:], causal, blocks, False
            ),
            GLUON: lambda own, blocks: hopper.run_keys(*own[:3], *own[4:], causal, blocks),
        }
    return {ONE_PASS: lambda own, blocks: variants.run_once(*own[:5], own[6], causal, blocks)}


def of_text(listed):
    """Return the block sizes of an entry of `BLOCKS`."""
    entries = listed.split(", ") if listed else []
    return [variants.Blocks(*map(int, entry.replace("x", " ").split())) for entry in entries]


def candidates(kernel, causal, width):
    """Return what to try: (step, blocks) each. A dry run takes one of each step."""
    found = [] if kernel == "backward" else [(TODAY, kernels.TUNED[kernel, 2][width])]
    for step in _steps(kernel, causal):
        if QUICK and step == GLUON:  # which has no interpreter
            continue
        blocks = of_text(BLOCKS.get((kernel, step, width), ""))
        found += [(step, one) for one in (blocks[:1] if QUICK else blocks)]
    return found


def drawn(n, width, causal, batch=1, heads=HEADS):
    """Draw inputs of a kernel that fit each other: q, k, v, out, lse, delta, d_out."""
    q, k, v = (x.detach() for x in qkv(batch, heads, n, width, torch.bfloat16))
    out, lse = kernels.flash_attention_forward(q, k, v, causal)
    d_out = torch.randn_like(q)
    return q, k, v, out, lse, (out.float() * d_out.float()).sum(-1), d_out


def error(kernel, causal, width, step, blocks):
    """Return the largest distance of a step's results from float64, at an odd length; this
    compiles it.
    """
    torch.manual_seed(0)
    inputs = q, k, v, _, _, delta, d_out = drawn(40 if QUICK else 2049, width, causal, 1, 3)
    wide = [x.requires_grad_() for x in (q, k, v)]
    right_out, right_lse, right = exact(wide, d_out, causal)
    for x in wide:
        x.requires_grad_(False)
    expected = {
        "forward": (right_out, right_lse),
        "queries": (right[0], delta),
        "keys": right[1:],
        "backward": right,
    }
    try:
        found = _steps(kernel, causal)[step](inputs, blocks)
        synchronize()
    except RuntimeError as fault:
        if "CUDA error" in str(fault):
            os._exit(1)  # nothing more can be computed in this process
        raise
    return max(distance(own, other) for own, other in zip(found, expected[kernel], strict=True))


@functools.cache
def asked():
    """Have all candidates of all cases compiled and checked, each in a process that may hang;
    return the futures by the arguments of `error`.
    """
    pool = pebble.ProcessPool(min(PROCESSES, os.cpu_count()), context=get_context("spawn"))
    futures = {}
    for (kernel, causal), width in kinds():
        for step, blocks in candidates(kernel, causal, width):
            one = (kernel, causal, width, step, blocks)
            futures[one] = pool.schedule(error, args=one, timeout=PATIENCE)
    return futures


def checked(kernel, causal, width):
    """Return those candidates of a case that are right, and compiled within `PATIENCE` seconds."""
    todo = candidates(kernel, causal, width)
    if QUICK:
        if max(error(kernel, causal, width, *one) for one in todo) > LIMITS["bfloat16"]:
            raise RuntimeError(f"{kernel}, d = {width}: a step is wrong")
        return todo
    wait(asked().values())  # nothing is timed while they compute
    ready = []
    for step, blocks in todo:
        future = asked()[kernel, causal, width, step, blocks]
        about = f"{kernel}, d = {width}, {'causal, ' * causal}{step}, {tuple(blocks)}"
        if reason := future.exception():
            print(f"{about}: {type(reason).__name__}: {str(reason)[:300]}")
        elif not future.result() <= LIMITS["bfloat16"]:
            print(f"{about} is wrong by {future.result():.1e}")
        else:
            ready.append((step, blocks))
    return ready


def case(kernel, causal, width):
    """Return a row for each step, block size and length."""
    rows, todo = [], checked(kernel, causal, width)
    lengths = (16384, 4096) if causal else (16384,)
    for n in (40,) if QUICK else lengths:
        inputs = drawn(n, width, causal)
        runs = [
            functools.partial(_steps(kernel, causal)[step], inputs, blocks) for step, blocks in todo
        ]
        times = measured_in_turns(runs, 3, 10 if n <= 4096 else 25, tries=1)
        for (step, blocks), found in zip(todo, times, strict=True):
            about = {"kernel": kernel, "step": step, "causal": causal, "d_head": width}
            about |= {"n": n, "heads": HEADS}
            rows.append({**about, **blocks._asdict(), **found})
            print(*rows[-1].values())
    return rows


def kinds():
    """Return the cases: (kernel, causal), and the width of a head."""
    if QUICK:
        return list(itertools.product(QUICK_CASES, (64,)))
    return list(itertools.product(CASES, (64, 128)))


def cases():
    """Return the cases of the part."""
    return {
        f"{kernel}{', causal' * causal}, d = {width}": functools.partial(
            case, kernel, causal, width
        )
        for (kernel, causal), width in kinds()
    }

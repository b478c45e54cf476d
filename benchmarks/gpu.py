"""Check and measure attention on a GPU: `python benchmarks/gpu.py`. It writes book/data/gpu.json, part by part.

    python benchmarks/gpu.py                    # all parts, some eight minutes on an H100
    python benchmarks/gpu.py ceilings layer     # these parts; what was measured of the others stays
    python benchmarks/gpu.py tuning             # block sizes of the kernels: for TUNED in flash_attention.py
    python benchmarks/gpu.py --table            # what was measured last, as Markdown
    python benchmarks/gpu.py --quick            # prove all of it on a CPU, in Triton's interpreter; no record

`benchmarks/README.md` says what is measured, and how.
"""

import argparse
import contextlib
import functools
import itertools
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, wait
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

QUICK = "--quick" in sys.argv[1:]
if QUICK:  # before triton is imported
    os.environ["TRITON_INTERPRET"] = "1"

import flash_attention as kernels  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
from flash_attention import flash_attention, flash_attention_forward  # noqa: E402
from multi_head_layer import MultiHeadLayer  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "book" / "data" / "gpu.json"
DEVICE = "cpu" if QUICK else "cuda"
REPEAT = 100  # milliseconds that one thing is repeated for, and a fourth of it to warm up
DTYPES = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16")}
FORWARD, BACKWARD, BOTH = "forward", "backward", "forward+backward"
WORK = {FORWARD: 1, BACKWARD: 2.5, BOTH: 3.5}  # matrix products of attention: 2 forward, 5 backward
LENGTHS = (16, 40) if QUICK else (512, 1024, 2048, 4096, 8192, 16384, 32768)
SOME_LENGTHS = (40,) if QUICK else (4096, 16384)  # where causality, dtypes or compilers are compared
HEADS, WIDTHS = (2, (16, 32)) if QUICK else (16, (64, 128))
SIDE = 64 if QUICK else 8192  # of the matrices whose product gives a ceiling
COPIED = 2**20 if QUICK else 2**32  # bytes
LEADERBOARD = {"batch": 1, "heads": HEADS, "n": 40 if QUICK else 16384, "d_head": WIDTHS[0], "dtype": "bfloat16"}
CITED = {"naive": 80.0, "best": 5.4, "where": "CS336 (Stanford), assignment 2, leaderboard of 2025: one H100"}


# Measuring.


def synchronize():
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def measured(run):
    """Return what a call takes: median milliseconds and deciles, and bytes at its peak beyond what was there before.

    None where the device's memory is too small. Inputs are in the cache no more: it is cleared before each call.
    """
    try:
        if DEVICE == "cpu":  # one call, as a proof
            began = time.perf_counter()
            run()
            return {"milliseconds": 1e3 * (time.perf_counter() - began), "deciles": None, "peak_bytes": None}
        run()  # compiles, and warms up
        synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        times = triton.testing.do_bench(run, warmup=REPEAT // 4, rep=REPEAT, return_mode="all")
        low, middle, high = np.quantile(times, [0.1, 0.5, 0.9])
        deciles = [round(float(low), 4), round(float(high), 4)]
        return {"milliseconds": round(float(middle), 4), "deciles": deciles, "peak_bytes": peak}
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return {"milliseconds": None, "deciles": None, "peak_bytes": None, "why": "out of memory"}


def rate(flops, found):
    """Return TFLOP/s."""
    return found["milliseconds"] and round(flops / found["milliseconds"] / 1e9, 2)


def steps(call, inputs):
    """Return what to time: by direction, a function of nothing. `call` is one as well, of a tensor or several.

    The backward pass comes last, because its graph stays in memory from then on.
    """

    def forward():
        with torch.no_grad():
            return call()

    def both():
        return torch.autograd.grad(call(), inputs, upstream)

    graph = functools.cache(call)

    def backward():
        return torch.autograd.grad(graph(), inputs, upstream, retain_graph=True)

    try:
        out = forward()
        upstream = [torch.randn_like(one) for one in (out if isinstance(out, tuple) else [out])]
        del out
    except torch.OutOfMemoryError:
        upstream = None  # each step runs out of memory by itself, and says so
        torch.cuda.empty_cache()
    return {FORWARD: forward, BOTH: both, BACKWARD: backward}


# Implementations of attention: (q, k, v, causal) -> out.


def naive(q, k, v, causal=False):
    """Attend as the formula says, with n x n in memory; causal aligned at the end. In float64 it is the reference."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~visible(q, k), -torch.inf)
    return scores.softmax(-1) @ v


def visible(q, k):
    """Return which key each query sees in causal attention."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    return torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).tril(n_k - n_q)


def backend(name):
    """Return scaled_dot_product_attention held to one backend."""

    def attend(q, k, v, causal=False):
        with sdpa_kernel(name):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return attend


def fused(q, k, v, causal=False):
    """Let scaled_dot_product_attention choose."""
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


@functools.cache
def _flex(n, causal, window):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    block_mask = None
    if causal or window:

        def rule(b, h, i, j):
            seen = j <= i
            return seen & (i - j < window) if window else seen

        block_mask = create_block_mask(rule, None, None, n, n, device=DEVICE)
    return functools.partial(torch.compile(flex_attention, dynamic=False), block_mask=block_mask)


def flex(q, k, v, causal=False, window=None):
    """Attend with flex attention, compiled; it skips the tiles in which its rule leaves nothing."""
    return _flex(q.shape[-2], causal, window)(q, k, v)


IMPLEMENTATIONS = {
    "kernel": flash_attention,
    "cudnn": backend(SDPBackend.CUDNN_ATTENTION),
    "flash": backend(SDPBackend.FLASH_ATTENTION),
    "efficient": backend(SDPBackend.EFFICIENT_ATTENTION),
    "math": backend(SDPBackend.MATH),
    "naive": naive,
    "flex": flex,
}


def qkv(batch, heads, n, d, dtype, grad=True, n_k=None):
    """Draw queries, keys and values."""
    shapes = [(batch, heads, n, d)] + [(batch, heads, n_k or n, d)] * 2
    return [torch.randn(shape, device=DEVICE, dtype=dtype, requires_grad=grad) for shape in shapes]


def pairs(n, causal):
    """Return how many scores there are."""
    return n * (n + 1) // 2 if causal else n * n


def attention_row(name, n, d, causal, dtype, direction, found):
    """Return one row of the record."""
    flops = 4 * HEADS * d * pairs(n, causal) * WORK[direction]
    about = {"implementation": name, "direction": direction, "causal": causal, "dtype": dtype, "n": n}
    return {**about, "heads": HEADS, "d_head": d, "batch": 1, **found, "tflop_s": rate(flops, found)}


# Parts: each is measured by a function, which returns what the record gets under its name.


def ceilings():
    """Measure what the device can do at best: copying, and products of large matrices of random numbers."""
    source = torch.randn(COPIED // 4, device=DEVICE)
    found = measured(functools.partial(torch.empty_like(source).copy_, source))
    copy = 2 * COPIED / found["milliseconds"] / 1e6
    del source
    products = {}
    for name in ("float32", "tf32", "float16", "bfloat16"):
        a, b = torch.randn(2, SIDE, SIDE, device=DEVICE).to(DTYPES.get(name, torch.float32))
        with precision("high" if name == "tf32" else "highest"):
            found = measured(functools.partial(torch.matmul, a, b))
        products[name] = rate(2 * SIDE**3, found)
    return {"copy_gb_s": round(copy, 1), "matmul_tflop_s": products, "side": SIDE, "copied_bytes": COPIED}


@contextlib.contextmanager
def precision(name):
    """Let products of float32 matrices round their operands to TF32 ("high"), or not ("highest")."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def attention():
    """Time the kernel beside PyTorch's, over the length; causal or not, and other dtypes, at some lengths."""
    cases = [(n, d, True, "bfloat16") for d in WIDTHS for n in LENGTHS]
    cases += [(n, d, False, "bfloat16") for d in WIDTHS for n in SOME_LENGTHS]
    cases += [(SOME_LENGTHS[0], d, True, dtype) for d in WIDTHS for dtype in ("float16", "float32")]
    rows = []
    for n, d, causal, dtype in cases:
        inputs = qkv(1, HEADS, n, d, DTYPES[dtype])
        for name, attend in IMPLEMENTATIONS.items():
            if name == "flex" and (QUICK or n not in SOME_LENGTHS or dtype != "bfloat16"):
                continue  # it is compiled for each case
            try:
                todo = steps(functools.partial(attend, *inputs, causal), inputs)
                for direction, run in todo.items():
                    rows.append(attention_row(name, n, d, causal, dtype, direction, measured(run)))
            except RuntimeError as error:  # a backend that has no kernel for this
                say(f"{name} has none for n = {n}, d = {d}, {dtype}: {str(error).splitlines()[0]}")
            todo = None
        say(f"attention: n = {n}, d = {d}, causal = {causal}, {dtype}")
    return rows


class OwnKernelLayer(MultiHeadLayer):
    """The layer with the kernel of this course in it."""

    def attend(self, q, k, v, is_causal):
        """Attend with the kernel."""
        return flash_attention(q, k, v, is_causal)


class NaiveLayer(MultiHeadLayer):
    """The layer with n x n in memory."""

    def attend(self, q, k, v, is_causal):
        """Attend as the formula says."""
        return naive(q, k, v, is_causal)


class Projections(MultiHeadLayer):
    """What is left of the layer without attention: its products with weights."""

    def forward(self, x, is_causal=True):
        """Take both products, of the same numbers."""
        return self.W_qkv(x), self.W_o(x)


def torch_layer(need_weights):
    """Return a maker of an nn.MultiheadAttention, called as ours is."""

    class Layer(nn.MultiheadAttention):
        def forward(self, x, is_causal):
            n = x.shape[1]
            if not hasattr(self, "unseen") or len(self.unseen) != n:
                self.unseen = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            known = {"attn_mask": self.unseen, "is_causal": is_causal, "need_weights": need_weights}
            return super().forward(x, x, x, **known)[0]

    return functools.partial(Layer, batch_first=True)


LAYERS = {
    "layer": MultiHeadLayer,
    "layer, own kernel": OwnKernelLayer,
    "layer, naive": NaiveLayer,
    "nn.MultiheadAttention": torch_layer(False),
    "nn.MultiheadAttention with weights": torch_layer(True),
    "projections": Projections,
}


def layer_row(name, n, d_model, heads, direction, found):
    """Return one row of the record."""
    work = 8 * n * d_model**2 * {FORWARD: 1, BACKWARD: 2, BOTH: 3}[direction]
    if name != "projections":
        work += 4 * d_model * pairs(n, True) * WORK[direction]
    about = {"implementation": name, "direction": direction, "causal": True, "dtype": "bfloat16", "n": n}
    return {**about, "heads": heads, "d_model": d_model, "batch": 1, **found, "tflop_s": rate(work, found)}


def layer():
    """Time the layer beside PyTorch's and beside its parts; of inputs and weights, all have gradients."""
    d_model = HEADS * WIDTHS[-1]
    rows = []
    for name, make in LAYERS.items():
        made = make(d_model, HEADS).to(DEVICE, torch.bfloat16)
        for n in LENGTHS:
            x = torch.randn(1, n, d_model, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
            todo = steps(functools.partial(made, x, is_causal=True), [x, *made.parameters()])
            rows += [layer_row(name, n, d_model, HEADS, each, measured(todo[each])) for each in (FORWARD, BOTH)]
            if name == "layer" and DEVICE == "cuda" and n <= 4096:
                rows.append(layer_row("layer, CUDA graph", n, d_model, HEADS, FORWARD, graphed(made, x)))
            say(f"{name}, n = {n}: {rows[-1]['milliseconds']} ms")
            todo = None
    return rows


def graphed(made, x):
    """Measure a layer's forward pass as one CUDA graph: the kernels, without what launching each costs."""
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # warm up outside of the graph
            made(x, is_causal=True)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made(x, is_causal=True)
        return {**measured(graph.replay), "peak_bytes": None}


def recurrent():
    """Time a recurrent layer, which takes the tokens one after the other, beside attention; d_model = 512."""
    d_model = 32 if QUICK else 512
    rows = []
    for name, make in {
        "nn.GRU": functools.partial(nn.GRU, d_model, d_model, batch_first=True),
        "layer": functools.partial(MultiHeadLayer, d_model, d_model // 16 if QUICK else 8),
    }.items():
        made = make().to(DEVICE, torch.bfloat16)
        for n in LENGTHS[:5]:
            x = torch.randn(1, n, d_model, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)

            def call(x=x, made=made):
                return made(x)[0] if isinstance(made, nn.GRU) else made(x, is_causal=True)

            todo = steps(call, [x, *made.parameters()])
            for direction in (FORWARD, BOTH):
                about = {"implementation": name, "direction": direction, "dtype": "bfloat16", "n": n}
                rows.append({**about, "d_model": d_model, "batch": 1, **measured(todo[direction])})
            todo = None
    return rows


def leaderboard():
    """Time one step, forward and backward, in the leaderboard's configuration."""
    n, d = LEADERBOARD["n"], LEADERBOARD["d_head"]
    inputs, rows = qkv(1, HEADS, n, d, torch.bfloat16), []
    for name, attend in IMPLEMENTATIONS.items():
        if name == "flex" and QUICK:
            continue
        with contextlib.suppress(RuntimeError):
            run = steps(functools.partial(attend, *inputs, True), inputs)[BOTH]
            rows.append(attention_row(name, n, d, True, "bfloat16", BOTH, measured(run)))
            say(f"{name}: {rows[-1]['milliseconds']} ms")
    return {**LEADERBOARD, "causal": True, "direction": BOTH, "cited_milliseconds": CITED, "rows": rows}


def window():
    """Time flex attention within a window beside all of causal attention."""
    if QUICK:
        return []
    n, d, rows = SOME_LENGTHS[-1], WIDTHS[0], []
    inputs = qkv(1, HEADS, n, d, torch.bfloat16)
    for size in (None, 1024):
        todo = steps(functools.partial(flex, *inputs, True, size), inputs)
        for direction in (FORWARD, BOTH):
            about = {"implementation": "flex", "window": size, "direction": direction, "causal": True}
            rows.append({**about, "dtype": "bfloat16", "n": n, "heads": HEADS, "d_head": d, "batch": 1})
            rows[-1].update(measured(todo[direction]))
    return rows


def timing():
    """Time one product of matrices rightly, and as it is done wrongly: the first call, and without waiting."""
    side = SIDE // 2
    a, b = torch.randn(2, side, side, device=DEVICE, dtype=torch.bfloat16)
    found = {"what": f"a product of two {side} x {side} matrices, bfloat16, in milliseconds"}

    def clock(call, wait):
        synchronize()
        began = time.perf_counter()
        call()
        if wait:
            synchronize()
        return round(1e3 * (time.perf_counter() - began), 4)

    other = torch.randn(side, side, device=DEVICE, dtype=torch.float16)  # a dtype that nothing here has used yet
    found["first_call"] = clock(lambda: other @ other, True)
    a @ b
    found["without_waiting"] = statistics.median(clock(lambda: a @ b, False) for _ in range(11))
    found["with_waiting"] = statistics.median(clock(lambda: a @ b, True) for _ in range(11))
    found["events"] = measured(lambda: a @ b)["milliseconds"]
    zeros = torch.zeros_like(a)
    found["events_zeros"] = measured(lambda: zeros @ zeros)["milliseconds"]
    found["flops"] = 2 * side**3
    return found


def accuracy():
    """Compare results and gradients with float64, from the same rounded inputs: ||found - right|| / ||right||."""
    shape, rows = ((1, 2, 50, 16) if QUICK else (2, 4, 2000, 64)), []
    for dtype, causal in itertools.product(("float32", "tf32", "float16", "bfloat16"), (False, True)):
        torch.manual_seed(0)
        inputs = qkv(*shape, DTYPES.get(dtype, torch.float32))
        upstream = torch.randn_like(inputs[0])
        wide = [x.detach().double().requires_grad_() for x in inputs]
        right = naive(*wide, causal)
        right = [right, *torch.autograd.grad(right, wide, upstream.double())]
        for name, attend in IMPLEMENTATIONS.items():
            if name == "flex" or (dtype == "tf32" and name == "kernel"):
                continue
            try:
                with precision("high" if dtype == "tf32" else "highest"):
                    out = attend(*inputs, causal)
                    found = [out, *torch.autograd.grad(out, inputs, upstream)]
            except RuntimeError:
                continue
            for what, own, other in zip(("out", "dq", "dk", "dv"), found, right, strict=True):
                about = {"implementation": name, "dtype": dtype, "causal": causal, "quantity": what}
                rows.append({**about, "shape": list(shape), "error": float(f"{distance(own, other):.3e}")})
    return rows


def distance(found, right):
    """Return ||found - right|| / ||right||, in float64."""
    found, right = found.detach().double(), right.detach().double()
    return (torch.linalg.vector_norm(found - right) / torch.linalg.vector_norm(right)).item()


def memory_exponent(record):
    """Fit how memory beyond the inputs grows with the length, from the rows: 1 is linear, 2 is n x n."""
    found = {}
    chosen = [("attention", {"d_head": WIDTHS[0], "causal": True, "dtype": "bfloat16"}), ("layer", {})]
    for part, same in chosen:
        groups = {}
        for row in record.get(part, ()):
            if row["peak_bytes"] and all(row[key] == value for key, value in same.items()):
                key = (row["implementation"], row["direction"])
                groups.setdefault(key, []).append((row["n"], row["peak_bytes"]))
        for (name, direction), points in groups.items():
            if direction != BACKWARD and len(points) > 2:
                slope = float(np.polyfit(*np.log(np.array(points, float)).T, 1)[0])
                lengths = [min(points)[0], max(points)[0]]
                entry = {"exponent": round(slope, 3), "from_n": lengths[0], "to_n": lengths[1]}
                found.setdefault(part, {}).setdefault(name, {})[direction] = entry
    return found


# Checking, before anything is timed.

LIMITS = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}  # of ||found - right|| / ||right||
LSE_LIMIT = 1e-5  # products of half floats are exact in float32, which the log-sum-exp is summed in
SMALL_CASES = [(40, 40, 16), (37, 37, 48), (17, 50, 64), (50, 17, 24), (1, 33, 128), (66, 65, 80)]
LARGE_CASES = [(n, n, d) for n, d in zip((1000, 1024, 777, 512, 129), (16, 32, 48, 64, 128), strict=True)]
LARGE_CASES += [(257, 1000, 96), (1000, 257, 128), (1000, 257, 64), (1, 4097, 80), (4097, 4097, 128)]


def cases():
    """Return what to compare the kernel at: (n_q, n_k, d), causal, dtype."""
    found = list(itertools.product(SMALL_CASES + LARGE_CASES, (False, True), DTYPES))
    if DEVICE == "cpu":  # seconds count: half floats at one size
        return [case for case in found if case[0] in SMALL_CASES[: 6 if case[2] == "float32" else 1]]
    return found


def checked(case):
    """Compare the kernel with float64 in one case: return each (what, error, limit), right if error <= limit."""
    (n_q, n_k, d), causal, dtype = case
    what = f"n_q = {n_q}, n_k = {n_k}, d = {d}, causal = {causal}, {dtype}"
    q, k, v = inputs = qkv(2, 1 if DEVICE == "cpu" else 3, n_q, d, DTYPES[dtype], n_k=n_k)
    upstream = torch.randn(*q.shape[:2], d, n_q, device=DEVICE).to(q.dtype).transpose(2, 3)  # not contiguous
    right, right_lse, right_grads = exact(inputs, upstream, causal)
    poison = [torch.full_like(x, torch.nan) for x in (q, k, v)]
    del poison  # so that what is allocated next may well be NaN
    out, lse = flash_attention_forward(*inputs, causal)
    found = [(f"out: {what}", distance(out, right), LIMITS[dtype])]
    seen = right_lse.isfinite()
    same = torch.equal(lse[~seen].double(), right_lse[~seen]) and lse.dtype == torch.float32 and out.dtype == q.dtype
    found.append((f"lse: {what}", distance(lse[seen], right_lse[seen]) if same else math.inf, LSE_LIMIT))
    grads = torch.autograd.grad(flash_attention(*inputs, causal), inputs, upstream)
    for name, own, other in zip(("dq", "dk", "dv"), grads, right_grads, strict=True):
        found.append((f"{name}: {what}", distance(own, other), LIMITS[dtype]))
    if DEVICE == "cuda":  # no race: bit by bit the same
        again = torch.autograd.grad(flash_attention(*inputs, causal), inputs, upstream)
        same = all(torch.equal(own, other) for own, other in zip(grads, again, strict=True))
        found.append((f"again: {what}", 0.0 if same else math.inf, 0.0))
    return found


def exact(inputs, upstream, causal):
    """Return out, log-sum-exp and gradients in float64; where a query sees nothing, 0, -inf and 0."""
    q, k, v = wide = [x.detach().double().requires_grad_() for x in inputs]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~visible(q, k), -torch.inf)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == -torch.inf, 0)[..., None])
    out = weights @ v
    return out, lse, torch.autograd.grad(out, wide, upstream.double())


class Cache:
    """Keys and values so far."""

    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        """Return those so far and these."""
        self.k = k if self.k is None else torch.cat([self.k, k], dim=-2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=-2)
        return self.k, self.v


def checked_layer():
    """Compare the layer on this device, in each dtype, with float64 on the CPU: all at once, and through a cache."""
    for dtype, kv_heads, is_causal in itertools.product(DTYPES, (4, 2, 1), (False, True)):
        made = MultiHeadLayer(64, 4, kv_heads).to(DEVICE, DTYPES[dtype])
        wide = MultiHeadLayer(64, 4, kv_heads).double()
        wide.load_state_dict({name: value.cpu().double() for name, value in made.state_dict().items()})
        x = torch.randn(2, 300, 64, device=DEVICE, dtype=DTYPES[dtype])
        what = f"layer: h_kv = {kv_heads}, causal = {is_causal}, {dtype}"
        right = wide(x.cpu().double(), is_causal=is_causal)
        yield what, distance(made(x, is_causal=is_causal).cpu(), right), LIMITS[dtype]
        mask = torch.rand(2, 1, 300) < 0.5
        mask[0] = False
        right = wide(x.cpu().double(), mask, is_causal)
        yield f"{what}, masked", distance(made(x, mask.to(DEVICE), is_causal).cpu(), right), LIMITS[dtype]
        if is_causal:
            cache, parts = Cache(), x.split([7, 1, 280, 12], dim=1)
            found = torch.cat([made(part, is_causal=True, cache=cache) for part in parts], dim=1)
            yield f"{what}, cache", distance(found.cpu(), wide(x.cpu().double(), is_causal=True)), LIMITS[dtype]


def check():
    """Check all; end with an error if anything is wrong. Return the largest error of each kind."""
    if DEVICE == "cuda":  # each case compiles three kernels, which takes most of the time: on all cores
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            found = list(pool.map(checked, cases()))
    else:
        found = map(checked, cases())
    largest, wrong = {}, []
    for what, error, limit in itertools.chain(*found, checked_layer()):
        kind = f"{what.partition(':')[0]}, {what.rpartition(', ')[2]}" if what[:5] != "layer" else "layer"
        largest[kind] = max(largest.get(kind, 0.0), error)
        if not error <= limit:
            wrong.append(f"{what}: {error:.1e}, more than {limit:.0e}")
    for kind, error in largest.items():
        say(f"{kind:20} at most {error:.1e}")
    if wrong:
        raise SystemExit("Wrong:\n  " + "\n  ".join(wrong[:40]) + f"\n{len(wrong)} in all")
    return {kind: float(f"{error:.3e}") for kind, error in largest.items()}


# Block sizes.

TUNING = "tuning"
PRODUCTS = {"forward": 2, "queries": 3, "keys": 4}  # of matrices, in each kernel; two of the seven are done twice


def tune(options):
    """Time each kernel with many block sizes, causal; return the six fastest of each for each width of heads."""
    todo = []
    for kernel, size, width in itertools.product(PRODUCTS, options.bytes, options.widths):
        rows = (64, 128) if size == 2 else (16, 32, 64)
        columns = (32, 64, 128) if size == 2 else (16, 32, 64)
        for a, b, warps, stages in itertools.product(rows, columns, (4, 8), (2, 3, 4) if size == 2 else (1, 2)):
            blocks = (b, a) if kernel == "keys" else (a, b)
            todo.append((kernel, size, width, kernels.Blocks(*blocks, warps, stages)))
    say(f"{len(todo)} to compile")
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        futures = [pool.submit(_try, *one, 256) for one in todo]
        wait(futures, options.patience)
        ready = [one for one, future in zip(todo, futures, strict=True) if future.done()]
        for process in pool._processes.values():  # those that still compile
            process.terminate()
    say(f"{len(ready)} compiled")
    rows = []
    for kernel, size, width, blocks in ready:
        n = 8192 if size == 2 else 4096
        milliseconds = _try(kernel, size, width, blocks, n)
        if milliseconds:
            rows.append(tuning_row(kernel, size, width, n, blocks, milliseconds))
    found = []
    for _, group in itertools.groupby(rows, lambda row: (row["kernel"], row["dtype"], row["d_head"])):
        found += sorted(group, key=lambda row: row["milliseconds"])[:6]
    for row in found:
        say(json.dumps(row))
    return found


def tuning_row(kernel, size, width, n, blocks, milliseconds):
    """Return one row of the record."""
    about = {"kernel": kernel, "causal": True, "dtype": "bfloat16" if size == 2 else "float32", "n": n, "heads": 16}
    flops = 2 * PRODUCTS[kernel] * 16 * width * pairs(n, True)
    speed = {"milliseconds": round(milliseconds, 4), "tflop_s": round(flops / milliseconds / 1e9, 1)}
    return {**about, "d_head": width, "batch": 1, **blocks._asdict(), **speed}


def _try(kernel, size, width, blocks, n):
    """Return the milliseconds that a kernel takes with these blocks; None if it asks for more than the chip has."""
    kernels.TUNED[kernel, size][width] = blocks
    dtype = torch.bfloat16 if size == 2 else torch.float32
    q, k, v, out, d_out = torch.randn(5, 1, 16, n, width, device=DEVICE, dtype=dtype)
    lse, delta = torch.full((2, 1, 16, n), 5.0, device=DEVICE)
    run = {
        "forward": lambda: flash_attention_forward(q, k, v, True),
        "queries": lambda: kernels._run_backward_queries(q, k, v, out, lse, d_out, True),
        "keys": lambda: kernels._run_backward_keys(q, k, v, lse, delta, d_out, True),
    }[kernel]
    try:
        run()
        torch.cuda.synchronize()
        return triton.testing.do_bench(run, warmup=10, rep=30, return_mode="median") if n > 256 else 0.0
    except triton.runtime.errors.OutOfResources:
        return None


# The record.


def machine():
    """Return what this was measured on, and when."""
    about = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "python": platform.python_version()}
    about.update(torch=torch.__version__, triton=triton.__version__, numpy=np.__version__)
    if DEVICE == "cpu":
        return {"device": platform.machine(), **about, "cuda": None, "interpreter": True}
    properties = torch.cuda.get_device_properties(0)
    about.update(
        cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), memory_gb=properties.total_memory / 1e9
    )
    about["memory_gb"] = round(about["memory_gb"], 1)
    about["multiprocessors"] = properties.multi_processor_count
    for key in ("driver_version", "power.limit", "clocks.max.sm"):
        command = ["nvidia-smi", f"--query-gpu={key}", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            value = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
            about["driver" if key == "driver_version" else key.replace(".", "_")] = value
    return {"device": torch.cuda.get_device_name(0), **about}


PARTS = {
    "check": check,
    "ceilings": ceilings,
    "timing": timing,
    "leaderboard": leaderboard,
    "layer": layer,
    "attention": attention,
    "accuracy": accuracy,
    "rnn": recurrent,
    "window": window,
}


def begun(path):
    """Return the record to go on with: what was measured on this machine with these versions, else an empty one."""
    about = machine()
    empty = {"machine": about, "measured": {}, "attention": [], "layer": [], "accuracy": [], "memory_exponent": {}}
    if QUICK or not path.exists():
        return empty
    record = json.loads(path.read_text(encoding="utf-8"))
    changed = [key for key in about if key != "date" and about[key] != record["machine"].get(key)]
    if changed:
        say(f"{', '.join(changed)}: not that of {path}, which begins anew")
        return empty
    return {**record, "machine": about}


def write(record, path):
    """Write the record: each row of a list is one line."""
    lines = []
    for key, value in record.items():
        if isinstance(value, list) and value:
            inner = ",\n".join("  " + json.dumps(row) for row in value)
            lines.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def say(text):
    """Print at once."""
    print(text, flush=True)


def main():
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all), or {TUNING}")
    parser.add_argument("--record", type=Path, default=RECORD, help="the file of results")
    parser.add_argument("--table", action="store_true", help="print what was measured last, as Markdown")
    parser.add_argument("--quick", action="store_true", help="tiny sizes on a CPU, in the interpreter; no record")
    parser.add_argument("--bytes", type=int, nargs="*", default=[2, 4], help="tuning: bytes of a number")
    parser.add_argument("--widths", type=int, nargs="*", default=[16, 32, 64, 128], help="tuning: widths of a head")
    parser.add_argument("--patience", type=int, default=200, help="tuning: seconds to wait for what compiles")
    options = parser.parse_args()
    unknown = set(options.parts) - {*PARTS, TUNING}
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    if options.table:
        import gpu_tables

        print(gpu_tables.everything(json.loads(options.record.read_text(encoding="utf-8"))))
        return
    if not (QUICK or torch.cuda.is_available()):
        raise SystemExit(
            "There is no CUDA device here: --quick proves the benchmark on a CPU, --table prints the record."
        )
    record = begun(options.record)
    for name in options.parts or PARTS:
        began = time.perf_counter()
        record[name] = tune(options) if name == TUNING else PARTS[name]()
        record["measured"][name] = record["machine"]["date"]
        record["memory_exponent"] = memory_exponent(record)
        say(f"{name}: {time.perf_counter() - began:.1f} s")
        if not QUICK:
            write(record, options.record)
    if QUICK:
        import gpu_tables

        print(gpu_tables.everything(json.loads(json.dumps(record))))


if __name__ == "__main__":
    main()

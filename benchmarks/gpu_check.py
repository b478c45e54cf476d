"""The part `check`: kernel and layer are compared with float64 before anything is timed."""

import itertools
import math
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from flash_attention import flash_attention, flash_attention_forward
from gpu_tools import DEVICE, DTYPES, LIMITS, distance, qkv, visible
from multi_head_layer import MultiHeadLayer

LSE_LIMIT = 1e-5  # products of half floats are exact in float32, which the log-sum-exp is summed in
# (n_q, n_k, d): below, above and at multiples of a tile, and widths that are no power of two.
SMALL_CASES = [(40, 40, 16), (37, 37, 48), (17, 50, 64), (50, 17, 24), (1, 33, 128), (66, 65, 80)]
LARGE_CASES = [
    *((1000, 1000, 16), (1024, 1024, 32), (777, 777, 48), (512, 512, 64), (129, 129, 128)),
    *((257, 1000, 96), (1000, 257, 128), (1000, 257, 64), (1, 4097, 80), (4097, 4097, 128)),
]
PROCESSES = 14  # at most, that compile side by side: each takes memory of the device


def cases():
    """Return what to compare the kernel at: (n_q, n_k, d), causal, dtype."""
    if DEVICE == "cpu":  # the interpreter is slow: half floats at one size only
        half = [name for name in DTYPES if name != "float32"]
        return [
            *itertools.product(SMALL_CASES, (False, True), ["float32"]),
            *itertools.product(SMALL_CASES[:1], (False, True), half),
        ]
    return list(itertools.product(SMALL_CASES + LARGE_CASES, (False, True), DTYPES))


def checked(case):
    """Compare the kernel with float64 in one case; return (what, error, limit) of each result."""
    (n_q, n_k, d), causal, dtype = case
    what = f"n_q = {n_q}, n_k = {n_k}, d = {d}, causal = {causal}, {dtype}"
    q, k, v = inputs = qkv(2, 1 if DEVICE == "cpu" else 3, n_q, d, DTYPES[dtype], n_k=n_k)
    # Not contiguous, as gradients often are.
    upstream = torch.randn(*q.shape[:2], d, n_q, device=DEVICE).to(q.dtype).transpose(2, 3)
    right, right_lse, right_grads = exact(inputs, upstream, causal)
    # What a kernel leaves unwritten is then likely to be NaN: it gets this memory.
    poison = [torch.full_like(x, torch.nan) for x in (q, k, v)]
    del poison
    out, lse = flash_attention_forward(*inputs, causal)
    found = [(f"out: {what}", distance(out, right), LIMITS[dtype])]
    seen = right_lse.isfinite()
    same = (
        torch.equal(lse[~seen].double(), right_lse[~seen])
        and lse.dtype == torch.float32
        and out.dtype == q.dtype
    )
    found.append(
        (f"lse: {what}", distance(lse[seen], right_lse[seen]) if same else math.inf, LSE_LIMIT)
    )
    grads = torch.autograd.grad(flash_attention(*inputs, causal), inputs, upstream)
    for name, own, other in zip(("dq", "dk", "dv"), grads, right_grads, strict=True):
        found.append((f"{name}: {what}", distance(own, other), LIMITS[dtype]))
    if DEVICE == "cuda":  # without a race, a second call gives the same bits
        again = torch.autograd.grad(flash_attention(*inputs, causal), inputs, upstream)
        same = all(torch.equal(own, other) for own, other in zip(grads, again, strict=True))
        found.append((f"again: {what}", 0.0 if same else math.inf, 0.0))
    return found


def exact(inputs, upstream, causal):
    """Return out, log-sum-exp and gradients in float64; where a query sees nothing, 0, -inf and
    0.
    """
    q, k, v = wide = [x.detach().double().requires_grad_() for x in inputs]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~visible(q, k), -torch.inf)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == -torch.inf, 0)[..., None])
    out = weights @ v
    return out, lse, torch.autograd.grad(out, wide, upstream.double())


class Cache:
    """The simplest cache that the layer takes: keys and values so far."""

    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        """Add keys and values; return all so far."""
        self.k = k if self.k is None else torch.cat([self.k, k], dim=-2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=-2)
        return self.k, self.v


def checked_layer():
    """Compare the layer on this device, in each dtype, with float64 on the CPU: all at once, and
    through a cache.
    """
    for dtype, kv_heads, is_causal in itertools.product(DTYPES, (4, 2, 1), (False, True)):
        made = MultiHeadLayer(64, 4, kv_heads).to(DEVICE, DTYPES[dtype])
        wide = MultiHeadLayer(64, 4, kv_heads).double()
        wide.load_state_dict(
            {name: value.cpu().double() for name, value in made.state_dict().items()}
        )
        x = torch.randn(2, 300, 64, device=DEVICE, dtype=DTYPES[dtype])
        what = f"layer: h_kv = {kv_heads}, causal = {is_causal}, {dtype}"
        right = wide(x.cpu().double(), is_causal=is_causal)
        yield what, distance(made(x, is_causal=is_causal).cpu(), right), LIMITS[dtype]
        mask = torch.rand(2, 1, 300) < 0.5
        mask[0] = False  # a sequence that may attend to nothing
        right = wide(x.cpu().double(), mask, is_causal)
        yield (
            f"{what}, masked",
            distance(made(x, mask.to(DEVICE), is_causal).cpu(), right),
            LIMITS[dtype],
        )
        if is_causal:
            cache, parts = Cache(), x.split([7, 1, 280, 12], dim=1)
            found = torch.cat([made(part, is_causal=True, cache=cache) for part in parts], dim=1)
            yield (
                f"{what}, cache",
                distance(found.cpu(), wide(x.cpu().double(), is_causal=True)),
                LIMITS[dtype],
            )


def kernel():
    """Check the kernel.

    On a device each case compiles three, which takes most of the time: on all cores.
    """
    if DEVICE == "cpu":
        return judged(itertools.chain(*map(checked, cases())))
    with ProcessPoolExecutor(min(PROCESSES, os.cpu_count()), get_context("spawn")) as pool:
        return judged(itertools.chain(*pool.map(checked, cases())))


def judged(found):
    """Return the largest error of each kind, and under "wrong" what is more than its limit."""
    largest, wrong = {}, []
    for what, error, limit in found:
        kind = "layer"
        if not what.startswith("layer"):  # such as "out, float32"
            kind = f"{what.partition(':')[0]}, {what.rpartition(', ')[2]}"
        largest[kind] = max(largest.get(kind, 0.0), error)
        if not error <= limit:  # also if it is NaN
            wrong.append(f"{what}: {error:.1e}, more than {limit:.0e}")
    shown = {}
    for kind, error in largest.items():
        shown[kind] = float(f"{error:.3e}") if math.isfinite(error) else None
    return {**shown, **({"wrong": wrong} if wrong else {})}


def check():
    """Return the cases."""
    return {"kernel": kernel, "layer": lambda: judged(checked_layer())}

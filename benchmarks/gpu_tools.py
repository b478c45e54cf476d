"""How a call on a device is timed and compared: what the parts of the benchmark share, and their
sizes.

In Triton's interpreter (TRITON_INTERPRET=1) all of it runs on the CPU, with sizes so tiny that it
takes seconds.
"""

import contextlib
import functools
import itertools
import math
import time

import numpy as np
import torch
import triton

QUICK = triton.knobs.runtime.interpret
DEVICE = "cpu" if QUICK else "cuda"
REPEAT = 80  # milliseconds that one thing is repeated for, and a fourth of it to warm up
DTYPES = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16")}
FORWARD, BACKWARD, BOTH = "forward", "backward", "forward+backward"
WORK = {FORWARD: 1, BACKWARD: 2.5, BOTH: 3.5}  # matrix products of attention: 2 forward, 5 backward
# below so many tokens, so many calls in a row are timed together
SHORT, CALLS = (20, 1) if QUICK else (4096, 20)
TRIES = 6  # at most, to time a short call steadily
# those that tell the most come first
LENGTHS = (16, 40) if QUICK else (4096, 16384, 512, 1024, 2048, 8192, 32768)
SOME_LENGTHS = LENGTHS[:1] if QUICK else LENGTHS[:2]  # where causality and dtypes are compared
HEADS, WIDTHS = (2, (16, 32)) if QUICK else (16, (64, 128))


def synchronize():
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def measured(run):
    """Return what a call takes: median milliseconds and deciles, and bytes at its peak beyond what
    was there before.

    Times are those of events on the device. None where its memory is too small. Inputs are in the
    cache no more: it is cleared before each call.
    """
    return measured_in_turns([run], 1, REPEAT)[0]


def measured_in_turns(runs, rounds, repeat, tries=2):
    """Return what each of several calls takes, as `measured` does.

    They take turns, each of `repeat` milliseconds, so that a device that grows warm, and a machine
    that is busy for a while, meet all of them. Those whose deciles are not `steady` are timed
    again, and the steadiest try counts.
    """
    found = [_once(run) for run in runs]
    for _ in range(tries if DEVICE == "cuda" else 0):
        todo = [number for number, own in enumerate(found) if "why" not in own and not steady(own)]
        times = {number: [] for number in todo}
        for _, number in itertools.product(range(rounds), todo):
            warmup = repeat // 4
            times[number] += triton.testing.do_bench(
                runs[number], warmup=warmup, rep=repeat, return_mode="all"
            )
        for number in todo:
            low, middle, high = (
                round(float(one), 4) for one in np.quantile(times[number], [0.1, 0.5, 0.9])
            )
            before = found[number]["deciles"]
            if before is None or high / low < before[1] / before[0]:
                found[number] |= {"milliseconds": middle, "deciles": [low, high]}
    return found


def measured_short(run):
    """Return what a short call takes: the mean of `CALLS` in a row, so that no gap before the first
    one counts.

    Its inputs stay in the cache. Where the deciles do not come together, there are no milliseconds,
    and "why".
    """

    def in_a_row():
        for _ in range(CALLS):
            run()

    return per_call(measured_in_turns([in_a_row], 1, REPEAT, TRIES)[0])


def per_call(found):
    """Return what one of `CALLS` calls in a row takes."""
    found = found | {"peak_bytes": None}
    if DEVICE == "cpu" or "why" in found:
        return found
    for key in ("milliseconds", "deciles"):
        found[key] = (np.array(found[key]) / CALLS).round(5).tolist()
    return found if steady(found) else found | {"milliseconds": None, "why": "not steady"}


def steady(found):
    """Tell whether the deciles are within 10 %."""
    return found["deciles"] is not None and found["deciles"][1] <= 1.1 * found["deciles"][0]


def _once(run):
    """Call it, and once more for the bytes at its peak: the first one compiles, and warms up.

    On a CPU, time it.
    """
    found = {"milliseconds": None, "deciles": None, "peak_bytes": None}
    try:
        began = time.perf_counter()
        run()
        if DEVICE == "cpu":  # one call, as a proof
            return found | {"milliseconds": 1e3 * (time.perf_counter() - began)}
        synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        synchronize()
        return found | {"peak_bytes": torch.cuda.max_memory_allocated() - before}
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return found | {"why": "out of memory"}


def rate(flops, found):
    """Return TFLOP/s."""
    return found["milliseconds"] and round(flops / found["milliseconds"] / 1e9, 2)


def steps(call, inputs):
    """Return what to time: by direction, a function of nothing.

    `call` is one as well, of a tensor or several.

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


@contextlib.contextmanager
def precision(name):
    """Let products of float32 matrices round their operands to TF32 ("high"), or not
    ("highest").
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def qkv(batch, heads, n, d, dtype, n_k=None):
    """Draw queries, keys and values."""
    shapes = [(batch, heads, n, d)] + [(batch, heads, n_k or n, d)] * 2
    return [torch.randn(shape, device=DEVICE, dtype=dtype, requires_grad=True) for shape in shapes]


def visible(q, k):
    """Return which key each query sees in causal attention, which is aligned at the end."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    return torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).tril(n_k - n_q)


def naive(q, k, v, causal=False):
    """Attend as the formula says, with n x n in memory. In float64 it is the reference."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~visible(q, k), -torch.inf)
    return scores.softmax(-1) @ v


def pairs(n, causal):
    """Return how many scores there are."""
    return n * (n + 1) // 2 if causal else n * n


def distance(found, right):
    """Return ||found - right|| / ||right||, in float64."""
    found, right = found.detach().double(), right.detach().double()
    return (torch.linalg.vector_norm(found - right) / torch.linalg.vector_norm(right)).item()


def refused(name, error):
    """Let a backend have no kernel for something; raise what is no refusal, but a fault of the
    device, again.
    """
    # what is no part of a graph is no fault
    fault = "CUDA error" in str(error) and "captur" not in str(error)
    if isinstance(error, torch.OutOfMemoryError) or fault:
        raise error
    if DEVICE == "cuda":  # on a CPU most are refused
        print(f"{name} has no kernel for this: {str(error).splitlines()[0]}")

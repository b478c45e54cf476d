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
from gpu_tables import BACKWARD, BOTH, FORWARD

QUICK = triton.knobs.runtime.interpret
DEVICE = "cpu" if QUICK else "cuda"
REPEAT = 80  # milliseconds for which a call is repeated, after a fourth of that to warm up
LIMITS = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}  # of ||found - right|| / ||right||
DTYPES = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16")}
WORK = {FORWARD: 1, BACKWARD: 2.5, BOTH: 3.5}  # matrix products of attention: 2 forward, 5 backward
# Below so many tokens, so many calls in a row are timed together: a single one is too short.
SHORT, CALLS = (20, 1) if QUICK else (4096, 20)
TRIES = 6  # at most, to time a short call steadily
# The most telling ones come first: the time on a device may be over at any moment.
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

    Times are those of events on the device, None if its memory is too small. The cache is cleared
    before each call, so inputs are read from memory.
    """
    return measured_in_turns([run], 1, REPEAT)[0]


def measured_in_turns(runs, rounds, repeat, tries=2):
    """Return what each of several calls takes, as `measured` does.

    They take turns, each of `repeat` milliseconds, so that a device that grows warm, or a machine
    that is busy for a moment, slows all of them down. Those whose deciles are not `steady` are
    timed again, and the steadiest try counts.
    """
    found = [_once(run) for run in runs]
    for _ in range(tries if DEVICE == "cuda" else 0):
        todo = [number for number, own in enumerate(found) if "why" not in own and not steady(own)]
        times = {number: [] for number in todo}
        for _, number in itertools.product(range(rounds), todo):
            times[number] += triton.testing.do_bench(
                runs[number], warmup=repeat // 4, rep=repeat, return_mode="all"
            )
        for number in todo:
            quantiles = np.quantile(times[number], [0.1, 0.5, 0.9]).tolist()
            low, middle, high = (round(milliseconds, 4) for milliseconds in quantiles)
            before = found[number]["deciles"]
            if before is None or high / low < before[1] / before[0]:
                found[number] |= {"milliseconds": middle, "deciles": [low, high]}
    return found


def measured_short(run):
    """Return what a short call takes: the mean of `CALLS` in a row, so that the gap before the
    first one hardly counts.

    Its inputs stay in the cache. If no try is steady, there are no milliseconds, but a "why".
    """

    def in_a_row():
        for _ in range(CALLS):
            run()

    return per_call(measured_in_turns([in_a_row], 1, REPEAT, TRIES)[0])


def measured_graph(run):
    """Return what a call takes, as one of `CALLS` in a row that are one CUDA graph."""
    return per_call(measured_in_turns([captured(run, CALLS)], 1, REPEAT, TRIES)[0])


def captured(run, calls=1):
    """Return a function that replays calls as one CUDA graph: their kernels, without launching
    each from Python.

    The call returns a tensor or several; the graph includes what autograd does in it. On a CPU, the
    function is the call itself.

    Raises
    ------
    RuntimeError
        If the graph computes something else than the call.
    """
    if DEVICE == "cpu":
        return run
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    # outside of the graph: libraries plan and allocate when they are first called
    with torch.cuda.stream(stream):
        for _ in range(3):
            expected = run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            found = run()
    graph.replay()
    synchronize()
    if isinstance(found, torch.Tensor):
        found, expected = [found], [expected]
    errors = [distance(own, other) for own, other in zip(found, expected, strict=True)]
    if not all(error < LIMITS["bfloat16"] for error in errors):
        raise RuntimeError("the CUDA graph computes something else than the call")
    return graph.replay


def per_call(found):
    """Return what one of `CALLS` calls in a row takes."""
    # a graph keeps its own memory: no peak is that of one call
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
    """Call it once, which compiles it and warms up, and once more for the bytes at its peak.

    On a CPU, return the time of the first call.
    """
    found = {"milliseconds": None, "deciles": None, "peak_bytes": None}
    try:
        began = time.perf_counter()
        run()
        if DEVICE == "cpu":  # a dry run only has to get through
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
    """Return what to time: a function without arguments, for each direction.

    `call` also takes none; it returns a tensor or several. The backward pass comes last, because
    its graph stays in memory from then on.
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
    except torch.OutOfMemoryError:
        upstream = None  # each step runs out of memory by itself, and says so
        torch.cuda.empty_cache()
    return {FORWARD: forward, BOTH: both, BACKWARD: backward}


@contextlib.contextmanager
def precision(name):
    """Round the operands of float32 products to TF32 ("high"), or don't ("highest")."""
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
    """Report that a backend has no kernel for a case; raise the error again if it is a fault of
    the device.
    """
    # CUDA also reports as an error that a call cannot be captured, which is a refusal.
    fault = "CUDA error" in str(error) and "captur" not in str(error)
    if isinstance(error, torch.OutOfMemoryError) or fault:
        raise error
    if DEVICE == "cuda":  # on a CPU most are refused
        print(f"{name} has no kernel for this: {str(error).splitlines()[0]}")

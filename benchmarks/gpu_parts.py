"""The parts of the benchmark: each is a function that returns its cases, by name.

A case is a function without arguments. It returns what the record gets under the part's name;
`gpu_record.merged` joins the results of several cases. The most telling cases come first.
"""

import contextlib
import functools
import importlib
import itertools
import os
import platform
import statistics
import subprocess
import time
from concurrent.futures import wait
from datetime import UTC, datetime
from multiprocessing import get_context

import flash_attention as kernels
import gpu_compile
import gpu_course
import gpu_paged
import gpu_tables
import gpu_variants
import numpy as np
import pebble
import torch
import triton
import triton.language as tl
import variants
from flash_attention import flash_attention, flash_attention_forward
from gpu_check import PROCESSES, check
from gpu_needs import Absent, needs
from gpu_tables import GRAPH
from gpu_tools import (
    BACKWARD,
    BOTH,
    DEVICE,
    DTYPES,
    FORWARD,
    HEADS,
    LENGTHS,
    QUICK,
    REPEAT,
    SHORT,
    SOME_LENGTHS,
    WIDTHS,
    WORK,
    captured,
    distance,
    measured,
    measured_graph,
    measured_in_turns,
    measured_short,
    naive,
    pairs,
    precision,
    qkv,
    rate,
    refused,
    steps,
    synchronize,
)
from multi_head_layer import MultiHeadLayer
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

SIDE = 64 if QUICK else 8192  # of the matrices whose product gives a ceiling
COPIED = 2**20 if QUICK else 2**32  # bytes
LEADERBOARD = {"batch": 1, "heads": HEADS, "n": 40 if QUICK else 16384}
LEADERBOARD |= {"d_head": WIDTHS[0], "dtype": "bfloat16"}
CITED = {
    "naive": 80.0,
    "best": gpu_tables.CITED_BEST,
    "where": "CS336 (Stanford), assignment 2, leaderboard of 2025: one H100",
}


def machine():
    """Return what is measured on, with its versions and the date."""
    about = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "python": platform.python_version()}
    about.update(torch=torch.__version__, triton=triton.__version__, numpy=np.__version__)
    if DEVICE == "cpu":
        return {"device": platform.machine(), **about, "cuda": None, "interpreter": True}
    if not torch.cuda.is_available():
        raise Absent(
            "There is no CUDA device here: --quick proves all of it on a CPU, --table "
            "prints the record."
        )
    properties = torch.cuda.get_device_properties(0)
    about.update(cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())
    about.update(
        memory_gb=round(properties.total_memory / 1e9, 1),
        multiprocessors=properties.multi_processor_count,
    )
    for key in ("driver_version", "power.limit", "clocks.max.sm"):
        command = ["nvidia-smi", f"--query-gpu={key}", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            value = result.stdout.splitlines()[0].strip()
            about["driver" if key == "driver_version" else key.replace(".", "_")] = value
    return {"device": torch.cuda.get_device_name(0), **about}


def tidy():
    """Return unused memory to the device, for the next case or another process."""
    if DEVICE == "cuda" and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def each(function, *values):
    """Return cases by name, one for each combination of values."""
    found = itertools.product(*values)
    return {", ".join(map(str, one)): functools.partial(function, *one) for one in found}


# Ceilings.


def ceilings():
    """Measure what the device can do at best: copying, and products of large matrices of random
    numbers.
    """
    about = {"side": SIDE, "copied_bytes": COPIED}

    def copy():
        source = torch.randn(COPIED // 4, device=DEVICE)
        found = measured(functools.partial(torch.empty_like(source).copy_, source))
        return {"copy_gb_s": round(2 * COPIED / found["milliseconds"] / 1e6, 1), **about}

    def product(name):
        a, b = torch.randn(2, SIDE, SIDE, device=DEVICE).to(DTYPES.get(name, torch.float32))
        with precision("high" if name == "tf32" else "highest"):
            found = measured(functools.partial(torch.matmul, a, b))
        return {"matmul_tflop_s": {name: rate(2 * SIDE**3, found)}}

    return {"copy": copy, **each(product, ["float32", "tf32", "float16", "bfloat16"])}


@triton.jit
def _read_again(x, out, blocks, times, BLOCK: tl.constexpr):
    """Each program adds up blocks of x, many times over, in an order that no other one has."""
    here, total = tl.program_id(0), tl.zeros((BLOCK,), tl.float32)
    for k in range(0, times):
        places = (here * 577 + k * (2 * here + 1)) % blocks * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + places, cache_modifier=".cg")  # kept in L2 only, not in the SM's L1
    tl.store(out + here, tl.sum(total, 0))


def cache():
    """Measure reading from the L2 cache: all programs read the same megabytes, many times over."""
    block, programs = (64, 4) if QUICK else (4096, 132 * 8)  # 8 for each SM of an H100 or H200
    size = 4 * block * (8 if QUICK else 1024)  # bytes: 16 MB, of a cache of 50
    times = 16 if QUICK else 2048

    def reading():
        x, out = torch.randn(size // 4, device=DEVICE), torch.empty(programs, device=DEVICE)
        found = measured(
            lambda: _read_again[programs,](x, out, size // 4 // block, times, BLOCK=block)
        )
        return {
            "l2_gb_s": round(4 * block * times * programs / found["milliseconds"] / 1e6, 1),
            "bytes": size,
        }

    return {"reading": reading}


def timing():
    """Time one product of matrices rightly, and as it is done wrongly: the first call, and
    without waiting.
    """
    return {"product": ways_to_time}


def ways_to_time():
    """Return milliseconds by the way of timing.

    It needs a process in which nothing was computed yet.
    """
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

    found["first_call"] = clock(lambda: a @ b, True)
    a @ b
    found["without_waiting"] = statistics.median(clock(lambda: a @ b, False) for _ in range(11))
    found["with_waiting"] = statistics.median(clock(lambda: a @ b, True) for _ in range(11))
    found["events"] = measured(lambda: a @ b)["milliseconds"]
    zeros = torch.zeros_like(a)
    found["events_zeros"] = measured(lambda: zeros @ zeros)["milliseconds"]
    found["flops"] = 2 * side**3
    return found


# Attention. An implementation is called (q, k, v, causal) -> out.


def backend(name):
    """Return scaled_dot_product_attention held to one backend."""

    def attend(q, k, v, causal=False):
        with sdpa_kernel(name):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return attend


@functools.cache
def _flex(n, window):
    import torch._functorch.config
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    # the backward pass is timed alone, from a graph that stays
    torch._functorch.config.donated_buffer = False
    # each rule is compiled anew; after eight the compiler would go on without compiling
    torch.compiler.reset()

    def rule(b, h, i, j):
        seen = j <= i
        return seen & (i - j < window) if window else seen

    block_mask = create_block_mask(rule, None, None, n, n, device=DEVICE)
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    return functools.partial(compiled, block_mask=block_mask)


def flex(q, k, v, causal=True, window=None):
    """Attend causally with flex attention, compiled; it skips the tiles in which its rule leaves
    nothing.
    """
    return _flex(q.shape[-2], window)(q, k, v)


BACKENDS = {
    "cudnn": backend(SDPBackend.CUDNN_ATTENTION),
    "flash": backend(SDPBackend.FLASH_ATTENTION),
    "efficient": backend(SDPBackend.EFFICIENT_ATTENTION),
}
LONGEST_MATH = 16384  # tokens: with more, one call of PyTorch's `math` backend takes seconds
IMPLEMENTATIONS = {
    "kernel": flash_attention,
    "steps": variants.attention,
    **BACKENDS,
    "math": backend(SDPBackend.MATH),
    "naive": naive,
}


def attention_row(name, n, d, causal, dtype, direction, found):
    """Return one row of the record."""
    flops = 4 * HEADS * d * pairs(n, causal) * WORK[direction]
    about = {"implementation": name, "direction": direction, "causal": causal, "dtype": dtype}
    about |= {"n": n, "heads": HEADS, "d_head": d, "batch": 1}
    return {**about, **found, "tflop_s": rate(flops, found)}


def attention():
    """Return the cases that time the kernel beside PyTorch's, over the length; causal or not, and
    other dtypes, at some lengths.

    Of short texts each call is a CUDA graph.
    """

    def case(n, d, causal, dtype):
        rows, inputs = [], qkv(1, HEADS, n, d, DTYPES[dtype])
        measure = measured if n >= SHORT else measured_graph
        for name, attend in IMPLEMENTATIONS.items():
            if name == "math" and n > LONGEST_MATH:
                continue
            try:
                todo = steps(functools.partial(attend, *inputs, causal), inputs)
                if n < SHORT:
                    # it starts from a forward pass that is in no graph, so it can't be captured
                    del todo[BACKWARD]
                for direction, run in todo.items():
                    found = measure(run)
                    rows.append(attention_row(name, n, d, causal, dtype, direction, found))
            except RuntimeError as error:  # a backend that has no kernel for this
                refused(name, error)
            todo = None  # frees its graph before the next one is measured
        return rows

    cases = [(n, d, True, "bfloat16") for n in LENGTHS for d in WIDTHS]
    cases += [(n, d, False, "bfloat16") for n in SOME_LENGTHS for d in WIDTHS]
    cases += [(SOME_LENGTHS[0], d, True, dtype) for d in WIDTHS for dtype in ("float16", "float32")]
    named = {
        f"n = {n}, d = {d}{', causal' * causal}, {dtype}": (n, d, causal, dtype)
        for n, d, causal, dtype in cases
    }
    return {name: functools.partial(case, *one) for name, one in named.items()}


def leaderboard():
    """Time one step, forward and backward, in the leaderboard's configuration."""
    n, d = LEADERBOARD["n"], LEADERBOARD["d_head"]
    about = {**LEADERBOARD, "causal": True, "direction": BOTH, "cited_milliseconds": CITED}

    def case(name):
        inputs, rows = qkv(1, HEADS, n, d, torch.bfloat16), []
        attend = flex if name == "flex" else IMPLEMENTATIONS[name]
        try:
            run = steps(functools.partial(attend, *inputs, True), inputs)[BOTH]
            rows.append(attention_row(name, n, d, True, "bfloat16", BOTH, measured(run)))
        except RuntimeError as error:
            refused(name, error)
        return {**about, "rows": rows}

    return each(case, [*IMPLEMENTATIONS, *([] if QUICK else ["flex"])])


def newest():
    """Time FlashAttention-4, and flex attention with its kernels, beside the kernel and cuDNN's."""
    n = LEADERBOARD["n"]

    def case(name, d):
        needs("flash_attn", "cutlass")
        inputs, rows = qkv(1, HEADS, n, d, torch.bfloat16), []
        todo = steps(functools.partial(NEWEST[name], *inputs, True), inputs)
        for direction, run in todo.items():
            rows.append(attention_row(name, n, d, True, "bfloat16", direction, measured(run)))
        return rows

    return each(case, NEWEST, WIDTHS)


def flash_four(q, k, v, causal):
    """Attend with FlashAttention-4, which has the heads behind the tokens."""
    flash_attn_func = importlib.import_module("flash_attn.cute").flash_attn_func

    found = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
    return (found[0] if isinstance(found, tuple) else found).transpose(1, 2)


def flex_flash(q, k, v, causal=True):
    """Attend causally with flex attention, and with FlashAttention-4's kernels in it."""
    return _flex(q.shape[-2], None)(q, k, v, kernel_options={"BACKEND": "FLASH"})


NEWEST = {
    "flash-attn-4": flash_four,
    "kernel": flash_attention,
    "cudnn": BACKENDS["cudnn"],
    "flex, BACKEND=FLASH": flex_flash,
}


def window():
    """Time flex attention within a window beside all of causal attention."""
    n, d = LEADERBOARD["n"], WIDTHS[0]

    def case(size):
        if QUICK:
            raise Absent("flex attention is not compiled for a CPU here")
        rows, inputs = [], qkv(1, HEADS, n, d, torch.bfloat16)
        todo = steps(functools.partial(flex, *inputs, True, size), inputs)
        for direction in (FORWARD, BOTH):
            about = {"implementation": "flex", "window": size, "direction": direction}
            about |= {"causal": True, "dtype": "bfloat16", "n": n, "heads": HEADS, "d_head": d}
            rows.append({**about, "batch": 1, **measured(todo[direction])})
        return rows

    return each(case, [None, 1024])


def accuracy():
    """Compare results and gradients with float64, from the same rounded inputs: ||found -
    right|| / ||right||.
    """
    shape = (1, 2, 50, 16) if QUICK else (2, 4, 2000, 64)

    def case(dtype, causal):
        torch.manual_seed(0)
        inputs, rows = qkv(*shape, DTYPES.get(dtype, torch.float32)), []
        upstream = torch.randn_like(inputs[0])
        wide = [x.detach().double().requires_grad_() for x in inputs]
        right = naive(*wide, causal)
        right = [right, *torch.autograd.grad(right, wide, upstream.double())]
        for name, attend in IMPLEMENTATIONS.items():
            if dtype == "tf32" and name == "kernel":  # it never rounds to TF32
                continue
            try:
                with precision("high" if dtype == "tf32" else "highest"):
                    out = attend(*inputs, causal)
                    found = [out, *torch.autograd.grad(out, inputs, upstream)]
            except RuntimeError as error:
                refused(name, error)
                continue
            for what, own, other in zip(("out", "dq", "dk", "dv"), found, right, strict=True):
                about = {"implementation": name, "dtype": dtype, "causal": causal, "quantity": what}
                error = float(f"{distance(own, other):.3e}")
                rows.append({**about, "shape": list(shape), "error": error})
        return rows

    return each(case, ["bfloat16", "float16", "float32", "tf32"], [False, True])


# The layer.


def attending(attend):
    """Return the layer with another attention in it."""

    class Layer(MultiHeadLayer):
        def attend(self, q, k, v, is_causal):
            return attend(q, k, v, is_causal)

    return Layer


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
            # kept, so that making the mask is not part of what is timed
            if not hasattr(self, "unseen") or len(self.unseen) != n:
                self.unseen = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            known = {"attn_mask": self.unseen, "is_causal": is_causal, "need_weights": need_weights}
            return super().forward(x, x, x, **known)[0]

    return functools.partial(Layer, batch_first=True)


LAYERS = {
    "layer": MultiHeadLayer,
    "layer, own kernel": attending(flash_attention),
    **{f"layer, {name}": attending(attend) for name, attend in BACKENDS.items()},
    "nn.MultiheadAttention": torch_layer(False),
    "nn.MultiheadAttention with weights": torch_layer(True),
    "projections": Projections,
    "layer, naive": attending(naive),
}
COMPARED = ("layer", *gpu_tables.FASTEST)  # measured in turns
EAGER = ("layer", "nn.MultiheadAttention", "nn.MultiheadAttention with weights")
ROUNDS = 4  # of the turns that `COMPARED` take
COMPILED = ", compiled"  # at the end of a name, as `GRAPH` is
D_MODEL = HEADS * WIDTHS[-1]


def made_layer(name, n):
    """Return a call of one of `LAYERS`, and what has gradients: inputs and weights, all of them."""
    plain = name.removesuffix(COMPILED)
    with torch.device(DEVICE):
        made = LAYERS[plain](D_MODEL, HEADS).to(torch.bfloat16)
        x = torch.randn(1, n, D_MODEL, dtype=torch.bfloat16, requires_grad=True)
    if name != plain:
        torch.compiler.reset()  # of another length, nothing is known
        made.compile(
            fullgraph=True, dynamic=False, backend="aot_eager" if DEVICE == "cpu" else "inductor"
        )
    return functools.partial(made, x, is_causal=True), [x, *made.parameters()]


def layer_row(name, n, direction, found):
    """Return one row of the record."""
    # Four products with weights, of 2 n d_model^2 each; backward, each becomes two.
    work = 8 * n * D_MODEL**2 * {FORWARD: 1, BACKWARD: 2, BOTH: 3}[direction]
    if name != "projections":
        work += 4 * D_MODEL * pairs(n, True) * WORK[direction]
    about = {"implementation": name, "direction": direction, "causal": True, "dtype": "bfloat16"}
    about |= {"n": n, "heads": HEADS, "d_model": D_MODEL, "batch": 1}
    return {**about, **found, "tflop_s": rate(work, found)}


def layer():
    """Return the cases that time the layer beside PyTorch's, with each backend, and beside its
    parts.

    Of short texts each is a CUDA graph. With the fewest tokens, some are launched from Python as
    well.
    """

    def case(n):
        rows = measured_layers(COMPARED, n, ROUNDS if n <= 16384 else 1)
        for name in LAYERS:
            if name not in COMPARED:
                rows += measured_layers([name], n, 2)
        return rows

    def short(name, n, graph):
        rows = []
        try:
            todo = steps(*made_layer(name, n))
            for direction in (FORWARD, BOTH):
                found = (measured_graph if graph else measured_short)(todo[direction])
                rows.append(layer_row(name + GRAPH * graph, n, direction, found))
        except RuntimeError as error:
            if name.endswith(COMPILED):  # a fault of compiling is no missing kernel
                raise
            refused(name, error)
        return rows

    cases = {f"n = {n}": functools.partial(case, n) for n in LENGTHS if n >= SHORT}
    few = [n for n in LENGTHS if n < SHORT]
    for n, name in itertools.product(few[:1], EAGER):
        cases[f"{name}, n = {n}"] = functools.partial(short, name, n, False)
    for n, name in itertools.product(few, LAYERS):
        cases[f"{name}{GRAPH}, n = {n}"] = functools.partial(short, name, n, True)
    name, n = "layer" + COMPILED, min(LENGTHS)  # compiling takes many times as long as measuring
    return cases | {f"{name}, n = {n}": functools.partial(short, name, n, False)}


def measured_layers(names, n, rounds):
    """Return the rows of some of `LAYERS`, forward and in training; without those that have no
    kernel for this.
    """
    todo = {}
    for name in names:
        try:
            todo[name] = steps(*made_layer(name, n))
        except RuntimeError as error:
            refused(name, error)
    rows = []
    for direction in (FORWARD, BOTH):
        found = measured_in_turns([own[direction] for own in todo.values()], rounds, REPEAT // 2)
        rows += [layer_row(name, n, direction, own) for name, own in zip(todo, found, strict=True)]
    return rows


STEP = "a step of the layer"


def trace():
    """Profile steps of the layer, forward and backward: which kernels run, when, and for how long.

    Of short texts also what the CPU does meanwhile: its rows have "host" instead of "kernel".
    """
    long, short = LENGTHS[0], min(LENGTHS)

    def case(name, n):
        step = steps(*made_layer(name.removesuffix(GRAPH), n))[BOTH]
        about = {"implementation": name, "direction": BOTH, "n": n, "d_model": D_MODEL}
        about |= {"heads": HEADS}
        kernels, host = profiled(captured(step) if name.endswith(GRAPH) else step)
        rows = [{**about, "kernel": what, **when} for what, when in kernels]
        return rows + [{**about, "host": what, **when} for what, when in host if n == short]

    found = [("layer", short), ("layer" + GRAPH, short)]
    found += [(name, long) for name in ("layer", "layer, own kernel", "layer, naive")]
    return {f"{name}, n = {n}": functools.partial(case, name, n) for name, n in found}


def profiled(step):
    """Return what the device and what the CPU does in a step: two lists of (name, when), with
    microseconds from the start of the step.

    Of the CPU these are the outermost operations, and its calls that launch something. Without a
    device, the operations are also returned as its kernels.
    """
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if DEVICE == "cuda" else [])]
    with profile(activities=activities) as profiler:
        for _ in range(4):  # the first ones start the profiler as well; the last one counts
            synchronize()
            with record_function(STEP):
                step()
            synchronize()
    events = profiler.events()
    # a device has a copy of STEP
    on_cpu = [event for event in events if event.device_type == DeviceType.CPU]
    begin = max(event.time_range.start for event in on_cpu if event.name == STEP)
    device, host = [], []
    for event in sorted(events, key=lambda event: event.time_range.start):
        at, on_device = event.time_range, event.device_type == DeviceType.CUDA
        if event.name == STEP or at.start < begin:
            continue
        if event.name.startswith("cu") and not on_device:  # a function of CUDA's own
            counts = any(word in event.name for word in ("Launch", "Memset", "Memcpy"))
        else:  # a kernel, or an operation that no other one called
            counts = event.cpu_parent is None or event.cpu_parent.name == STEP
        if not counts:
            continue
        when = {"start_us": round(at.start - begin, 1), "us": round(at.elapsed_us(), 1)}
        if on_device or DEVICE == "cpu":
            device.append((event.name[:100], when))
        if not on_device:
            host.append((event.name[:60], when))
    if not device:
        raise Absent("the profiler saw no kernels")
    return device, host


def recurrent():
    """Time a recurrent layer, which takes the tokens one after the other, beside attention;
    d_model = 512.
    """
    d_model = 32 if QUICK else 512
    makers = {
        "nn.GRU": functools.partial(nn.GRU, d_model, d_model, batch_first=True),
        "layer": functools.partial(MultiHeadLayer, d_model, d_model // 16 if QUICK else 8),
    }

    def case(n):
        rows = []
        for name, make in makers.items():
            made = make().to(DEVICE, torch.bfloat16)
            x = torch.randn(1, n, d_model, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)

            def call(x=x, made=made):
                return made(x)[0] if isinstance(made, nn.GRU) else made(x, is_causal=True)

            todo = steps(call, [x, *made.parameters()])
            for direction in (FORWARD, BOTH):
                about = {"implementation": name, "direction": direction, "dtype": "bfloat16"}
                about |= {"n": n, "d_model": d_model, "batch": 1}
                rows.append({**about, **measured(todo[direction])})
        return rows

    return {f"n = {n}": functools.partial(case, n) for n in sorted(LENGTHS)[:5]}


# Block sizes.

# Products of matrices in each kernel. The backward pass has five: its two kernels do two of them
# twice.
PRODUCTS = {"forward": 2, "queries": 3, "keys": 4}


def tuning():
    """Time each kernel, causal, with the block sizes that are worth trying; keep the six fastest
    for each width.
    """

    def case(kernel, size, width):
        n = 40 if QUICK else {2: 8192, 4: 4096}[size]
        rows = gpu_compile.worth_trying(gpu_compile.read(), kernel, size, width)
        todo = [kernels.Blocks(*(row[key] for key in kernels.Blocks._fields)) for row in rows]
        todo = todo[:1] if QUICK else compiled(kernel, size, width, todo)
        found = []
        for blocks in todo:
            milliseconds = with_blocks(kernel, size, width, blocks, n)
            if milliseconds is not None:
                found.append(tuning_row(kernel, size, width, n, blocks, milliseconds))
        return sorted(found, key=lambda row: row["milliseconds"])[:6]

    cases, sizes = {}, (2,) if QUICK else (2, 4)
    for size, width, kernel in itertools.product(sizes, gpu_compile.WIDTHS, gpu_compile.KERNELS):
        name = f"{kernel}, {size} bytes, d = {width}"
        cases[name] = functools.partial(case, kernel, size, width)
    return cases


@functools.cache
def processes():
    """Return processes that compile, which are kept."""
    return pebble.ProcessPool(min(PROCESSES, os.cpu_count()), context=get_context("spawn"))


def compiled(kernel, size, width, todo, patience=40):
    """Compile a kernel with these block sizes on all cores; return those that took at most so
    many seconds.
    """
    arguments = [(kernel, size, width, blocks, 256) for blocks in todo]
    futures = [processes().schedule(with_blocks, args=one, timeout=patience) for one in arguments]
    wait(futures)
    return [blocks for blocks, future in zip(todo, futures, strict=True) if not future.exception()]


def tuning_row(kernel, size, width, n, blocks, milliseconds):
    """Return one row of the record."""
    about = {"kernel": kernel, "causal": True, "dtype": {2: "bfloat16", 4: "float32"}[size]}
    about |= {"n": n, "heads": HEADS, "d_head": width, "batch": 1, **blocks._asdict()}
    flops = 2 * PRODUCTS[kernel] * HEADS * width * pairs(n, True)
    speed = round(flops / milliseconds / 1e9, 1)
    return {**about, "milliseconds": round(milliseconds, 4), "tflop_s": speed}


def with_blocks(kernel, size, width, blocks, n):
    """Return the milliseconds that a kernel takes with these blocks; None if it asks for more
    than the chip has.
    """
    dtype = torch.bfloat16 if size == 2 else torch.float32
    q, k, v, out, d_out = torch.randn(5, 1, HEADS, n, width, device=DEVICE, dtype=dtype)
    lse, delta = torch.full((2, 1, HEADS, n), 5.0, device=DEVICE)
    run = {
        "forward": lambda: flash_attention_forward(q, k, v, True),
        "queries": lambda: kernels._run_backward_queries(q, k, v, out, lse, d_out, True),
        "keys": lambda: kernels._run_backward_keys(q, k, v, lse, delta, d_out, True),
    }[kernel]
    with gpu_variants.use_blocks(kernel, size, width, blocks):
        if QUICK:
            return measured(run)["milliseconds"]
        try:
            run()
            synchronize()
            return triton.testing.do_bench(run, warmup=10, rep=30, return_mode="median")
        except triton.runtime.errors.OutOfResources:
            return None


PARTS = {
    "check": check,
    "ceilings": ceilings,
    "cache": cache,
    "tests": gpu_course.tests,
    "exercise": gpu_course.exercise,
    "pending": gpu_course.pending,
    "variants": gpu_variants.cases,
    "paged": gpu_paged.cases,
    "attention": attention,
    "layer": layer,
    "leaderboard": leaderboard,
    "newest": newest,
    "trace": trace,
    "accuracy": accuracy,
    "timing": timing,
    "window": window,
    "rnn": recurrent,
    "tuning": tuning,
}

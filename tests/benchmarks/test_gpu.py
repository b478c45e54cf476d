"""The reference kernel and layer are right, without a GPU and with one; the benchmark's record
holds.

Kernels run in processes of their own: whether Triton interprets or compiles is settled when it is
imported.
"""

import json

import pytest
import torch
from benchmark_tools import python
from torch import nn

from autograder.course.config import ROOT

pytestmark = pytest.mark.long

BENCHMARK = ROOT / "benchmarks" / "gpu.py"
RECORD = ROOT / "book" / "data" / "gpu.json"
SEED = 7


@pytest.fixture(scope="module")
def layer(benchmarks):
    """The class MultiHeadLayer."""
    return benchmarks("multi_head_layer").MultiHeadLayer


# The kernel.


@pytest.mark.slow
def test_the_kernel_is_right_on_a_gpu(triton, tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: the kernel is not verified natively here")
    assert "2 of 2 cases" in python(BENCHMARK, "check", "--record", tmp_path / "gpu.json")


COMPILE = """
import itertools
import sys

import flash_attention as kernels
import gpu_compile

for (name, size), d in itertools.product(kernels.TUNED, map(int, sys.argv[1:])):
    made = gpu_compile.compiled(name, size, d, *kernels.TUNED[name, size][kernels._width(d)])
    print(name, size, d, made.metadata.shared <= kernels.SHARED, *(s in made.asm["ptx"] for s in ("wgmma", "tf32")),
          *gpu_compile.resources(made))
"""


@pytest.mark.slow
def test_the_kernels_compile_for_a_gpu_where_there_is_none(triton, tmp_path):
    """For an H100: within its shared memory; half floats on its tensor cores, float32 without
    TF32.
    """
    shown = python("-c", COMPILE, 48, TRITON_CACHE_DIR=str(tmp_path)).splitlines()
    assert len(shown) == 6
    for line in shown:
        _name, size, _, fits, tensor_cores, tf32, registers, local = line.split()
        assert (fits, tensor_cores, tf32) == ("True", str(size == "2"), "False"), line
        assert 32 <= int(registers) <= 255 and (size == "4" or int(local) <= 256), line


STEPS = """
import itertools

import torch
import variants
from gpu_check import LIMITS, exact
from gpu_tools import distance

variants.MULTIPROCESSORS, blocks = 3, variants.SMALL
for (n_q, n_k), causal in itertools.product(((40, 40), (37, 70), (50, 17)), (False, True)):
    drawn = [torch.randn(1, 2, n, 64).half().requires_grad_() for n in (n_q, n_k, n_k)]
    d_out = torch.randn(1, 2, n_q, 64).half()
    right_out, right_lse, right = exact(drawn, d_out, causal)
    q, k, v = (x.detach() for x in drawn)
    for across, programs in ((False, 0), (True, 0), (True, 1)):
        out, lse = variants.run_forward(q, k, v, causal, blocks, across, programs)
        assert distance(out, right_out) < LIMITS["float16"], (n_q, n_k, causal, across, programs)
        torch.testing.assert_close(lse.double(), right_lse, atol=1e-4, rtol=1e-4)
    found = torch.autograd.grad(variants.attention(*drawn, causal), drawn, d_out)
    found = [*found, *variants.run_once(q, k, v, out, lse, d_out, causal, blocks)]
    for own, other in zip(found, [*right, *right], strict=True):
        assert distance(own, other) < LIMITS["float16"], (n_q, n_k, causal)
"""


@pytest.mark.slow
def test_each_step_is_right(triton):
    """Blocks in any order, by several programs, in one pass or two, compared with float64 in the
    interpreter.
    """
    python("-c", STEPS, TRITON_INTERPRET="1")


COMPILED_STEPS = """
import gpu_compile
import variants

for kernel, width in variants.FASTEST:
    made = gpu_compile.step(kernel, width)
    print("wgmma" in made.asm["ptx"], "cp.async.bulk.tensor" in made.asm["ptx"], *gpu_compile.resources(made))
"""


@pytest.mark.slow
def test_the_steps_compile_for_a_gpu_where_there_is_none(triton, tmp_path):
    """For an H100: on its tensor cores, tiles by its copy engine, hardly anything spilled."""
    shown = python("-c", COMPILED_STEPS, TRITON_CACHE_DIR=str(tmp_path)).splitlines()
    assert len(shown) == 6
    for line in shown:
        *units, registers, local = line.split()
        assert units == ["True", "True"] and int(registers) <= 255 and int(local) <= 64, line


COMPILED_GLUON = """
import re

import gpu_compile
import gpu_variants

for (kernel, step, width), listed in gpu_variants.BLOCKS.items():
    if step == gpu_variants.GLUON:
        blocks = gpu_variants.of_text(listed)[0]
        made = gpu_compile.gluon(kernel, width, blocks)
        print(kernel, *("wgmma.mma_async" in made.asm["ptx"], "cp.async.bulk.tensor" in made.asm["ptx"]),
              max(map(int, re.findall(r"wgmma.wait_group.sync.aligned\\s+(\\d)", made.asm["ptx"]))),
              *gpu_compile.resources(made))
"""


@pytest.mark.slow
def test_the_kernels_in_gluon_compile_for_a_gpu_where_there_is_none(triton, tmp_path):
    """For an H100: products run while others are not yet waited for: one forward, two backward."""
    shown = python("-c", COMPILED_GLUON, TRITON_CACHE_DIR=str(tmp_path)).splitlines()
    assert len(shown) == 4
    for line in shown:
        kernel, tensor_cores, copies, pending, registers, _local = line.split()
        assert (tensor_cores, copies) == ("True", "True") and int(registers) <= 255, line
        assert pending == {"forward": "1", "keys": "2"}[kernel], line


TOGETHER = """
import itertools

import flash_attention as kernels
import torch
from gpu_check import LIMITS, exact
from gpu_tools import distance

for cache, (n_q, n_k) in itertools.product((1, 2**20), ((40, 40), (37, 70), (50, 17))):
    kernels.SMALL_CACHE = cache
    drawn = [torch.randn(1, 3, n, 16).requires_grad_() for n in (n_q, n_k, n_k)]
    d_out = torch.randn(1, 3, n_q, 16)
    right_out, right_lse, right = exact(drawn, d_out, True)
    out = kernels.flash_attention(*drawn, True)
    for own, other in zip([out, *torch.autograd.grad(out, drawn, d_out)], [right_out, *right], strict=True):
        assert distance(own, other) < LIMITS["float32"], (cache, n_q, n_k)
    print(kernels._together(*drawn[:2]))
"""


@pytest.mark.slow
def test_heads_in_turn_and_all_together_are_right(triton):
    """What the cache holds decides the order of the blocks, and each block is still done once."""
    assert python("-c", TOGETHER, TRITON_INTERPRET="1").split() == ["1"] * 3 + ["3"] * 3


REFUSED = """
import torch
from flash_attention import flash_attention
x = torch.ones(1, 2, 5, 16)
for wrong in ([x, x[..., :8], x[..., :8]], [x, x, x[:, :, :4]], [x, x.half(), x], [x[0]] * 3, [x.double()] * 3,
              [x, x[:, :1], x[:, :1]], [torch.ones(1, 1, 2, 129)] * 3, [x] * 3):
    try:
        flash_attention(*wrong)
    except ValueError as error:
        print(error)
"""


@pytest.mark.slow
def test_what_does_not_fit_is_refused(triton):
    shown = python("-c", REFUSED).splitlines()
    assert len(shown) == 8 and "TRITON_INTERPRET" in shown[-1] and "(1, 2, 5, 16)" in shown[0]


# The layer.


def reference(module, x, mask):
    """What a layer without grouped heads computes, as the formula says, in its own dtype; mask
    (b, h, n, n_k).
    """
    q, k, v = (
        part.unflatten(-1, (module.num_heads, -1)).transpose(1, 2)
        for part in module.W_qkv(x).chunk(3, -1)
    )
    scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
    z = scores.softmax(-1).nan_to_num(0) @ v
    return module.W_o(z.transpose(1, 2).flatten(-2))


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_layer_is_that_of_torch(layer, dtype, is_causal):
    torch.manual_seed(SEED)
    theirs = nn.MultiheadAttention(24, 3, batch_first=True).to(dtype)
    nn.init.normal_(theirs.in_proj_bias), nn.init.normal_(theirs.out_proj.bias)
    ours = layer(24, 3).to(dtype)
    names = {"W_qkv.weight": "in_proj_weight", "W_qkv.bias": "in_proj_bias"}
    names |= {"W_o.weight": "out_proj.weight", "W_o.bias": "out_proj.bias"}
    ours.load_state_dict(
        {ours_name: theirs.state_dict()[name] for ours_name, name in names.items()}
    )
    x = torch.randn(2, 7, 24, dtype=dtype)
    unseen = ~causal(7) if is_causal else None
    expected = theirs(x, x, x, attn_mask=unseen, need_weights=True)[0]
    tolerance = {
        torch.float64: 1e-12,
        torch.float32: 1e-5,
        torch.float16: 1e-2,
        torch.bfloat16: 1e-1,
    }[dtype]
    output = ours(x, is_causal=is_causal)
    assert output.dtype == dtype
    torch.testing.assert_close(output, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "shape", [(5, 5), (2, 1, 5), (2, 5, 5), (1, 3, 5, 5), (2, 1, 1, 5), (2, 3, 5, 5)], ids=str
)
def test_masks_of_each_shape_and_their_gradients(layer, shape, is_causal):
    """Rows that see nothing give 0, and their gradients are 0 and never NaN."""
    torch.manual_seed(SEED)
    module = layer(12, 3).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(shape) < 0.5
    mask[..., 0, :] = False
    full = (mask[:, None] if mask.dim() == 3 else mask).expand(2, 3, 5, 5)
    expected = reference(module, x, full & causal(5) if is_causal else full)
    output = module(x, mask, is_causal)
    torch.testing.assert_close(output, expected)
    inputs = [x, *module.parameters()]
    upstream = torch.randn_like(output)
    grads = torch.autograd.grad(output, inputs, upstream)
    assert all(gradient.isfinite().all() for gradient in grads)
    seen = full.any(-1).all()  # where some row sees nothing, the formula's gradient is NaN
    for gradient, other in (
        zip(grads, torch.autograd.grad(expected, inputs, upstream), strict=True) if seen else ()
    ):
        torch.testing.assert_close(gradient, other)


def test_gradients_are_those_of_the_formula(layer):
    torch.manual_seed(SEED)
    module = layer(12, 3).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    upstream, inputs = torch.randn(2, 5, 12, dtype=torch.float64), [x, *module.parameters()]
    gradients = torch.autograd.grad(module(x, is_causal=True), inputs, upstream)
    expected = torch.autograd.grad(reference(module, x, causal(5)), inputs, upstream)
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other)


@pytest.mark.parametrize("heads", [1, 2])
def test_grouped_heads_are_repeated_ones(layer, heads):
    torch.manual_seed(SEED)
    grouped, whole = layer(24, 6, heads).double(), layer(24, 6).double()
    q, k, v = grouped.W_qkv.weight.split([24, 4 * heads, 4 * heads])
    bias = grouped.W_qkv.bias.split([24, 4 * heads, 4 * heads])

    def repeated(repeat_heads_of):
        return (
            repeat_heads_of.unflatten(0, (heads, 4)).repeat_interleave(6 // heads, 0).flatten(0, 1)
        )

    state = whole.state_dict() | grouped.W_o.state_dict(prefix="W_o.")
    state["W_qkv.weight"] = torch.cat([q, repeated(k), repeated(v)])
    state["W_qkv.bias"] = torch.cat([bias[0], repeated(bias[1]), repeated(bias[2])])
    whole.load_state_dict(state)
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    torch.testing.assert_close(grouped(x, is_causal=True), whole(x, is_causal=True))


class Cache:
    """Keys and values so far."""

    def __init__(self):
        self.pair = None

    def append(self, k, v):
        new = (k, v)
        self.pair = (
            new
            if self.pair is None
            else tuple(map(lambda a, b: torch.cat([a, b], -2), self.pair, new))
        )
        return self.pair


@pytest.mark.parametrize("heads", [4, 2])
def test_through_a_cache_the_layer_says_the_same(layer, heads):
    torch.manual_seed(SEED)
    module, x = layer(16, 4, heads).double(), torch.randn(2, 14, 16, dtype=torch.float64)
    cache = Cache()
    parts = [module(part, is_causal=True, cache=cache) for part in x.split([1, 4, 1, 8], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), module(x, is_causal=True))
    assert cache.pair[0].shape == (2, heads, 14, 4)


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "is_causal"), [(4, False), (2, True)])
def test_compiled_without_a_break(layer, is_causal, heads):
    """As a whole, with a mask, and for several tokens that meet a cache."""
    torch._dynamo.reset()
    torch.manual_seed(SEED)
    module = layer(16, 4, heads)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    x, mask = torch.randn(2, 6, 16, requires_grad=True), torch.rand(2, 1, 6) < 0.5
    for mask_shape in (None, mask, mask[:, None]):
        torch.testing.assert_close(
            compiled(x, mask_shape, is_causal), module(x, mask_shape, is_causal)
        )
    compiled(x, None, is_causal).sum().backward()
    assert x.grad.isfinite().all()
    torch._dynamo.reset()  # it compiles anew for each state of a cache, up to eight times
    caches = Cache(), Cache()
    with torch.no_grad():
        for part in x.split([2, 1, 3], dim=1):
            output = compiled(part, is_causal=is_causal, cache=caches[0])
            torch.testing.assert_close(output, module(part, is_causal=is_causal, cache=caches[1]))


def test_sizes_that_do_not_fit_raise(layer):
    for sizes in ((10, 3), (12, 4, 3), (12, 0), (12, 4, 0)):
        with pytest.raises(ValueError):
            layer(*sizes)
    module, x = layer(12, 3), torch.randn(2, 5, 12)
    for mask in (
        torch.ones(5, 4),
        torch.ones(5, 1),
        torch.ones(3, 5, 5),
        torch.ones(2, 2, 5, 5),
        torch.ones(1, 1, 1, 5, 5),
    ):
        with pytest.raises(ValueError):
            module(x, mask.bool())
    for wrong in (torch.randn(2, 5, 11), torch.randn(5, 12)):
        with pytest.raises(ValueError):
            module(wrong)


SDPA_ON_CPU = "_scaled_dot_product_flash_attention_for_cpu"


def operations(run):
    """Run a function; return what ran, by name, and the bytes of the largest tensor that came
    out.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        names, largest = [], 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            Watch.names.append(str(func))
            for leaf in torch.utils._pytree.tree_leaves(out):
                if isinstance(leaf, torch.Tensor):
                    Watch.largest = max(Watch.largest, leaf.untyped_storage().nbytes())
            return out

    with Watch():
        run()
    return Watch.names, Watch.largest


def test_the_layer_never_allocates_n_by_n(layer):
    """What each operation returns is smaller than n x n, forward and backward."""
    n, module = 2048, layer(16, 2, 1)
    x = torch.randn(1, n, 16, requires_grad=True)
    largest = operations(lambda: module(x, is_causal=True).sum().backward())[1]
    assert 4 * n * 16 <= largest < n * n / 4  # bytes: not even a quarter of a boolean mask


def test_nothing_is_copied_between_projections_and_attention(layer):
    """Gradients of q, k and v are put together once; heads that share a head of keys read it
    where it is.
    """
    module, x = layer(16, 4), torch.randn(2, 64, 16, requires_grad=True)
    names = operations(lambda: module(x, is_causal=True).sum().backward())[0]
    copies = [
        name
        for name in names
        if any(word in name for word in ("clone", "copy", "contiguous", "cat"))
    ]
    assert copies == ["aten.cat.default"]
    module, x = layer(16, 4, 1), torch.randn(1, 64, 16)
    with torch.no_grad():
        names = operations(lambda: module(x, is_causal=True))[0]
    views = {"view", "t", "split_with_sizes", "transpose", "permute", "expand"}
    kinds = [name.split(".")[1] for name in names]
    assert [kind for kind in kinds if kind not in views] == ["addmm", SDPA_ON_CPU, "addmm"]


def test_tokens_after_a_cache_attend_in_one_call(layer):
    module, x, cache = layer(16, 4, 2), torch.randn(1, 600, 16), Cache()
    with torch.no_grad():
        module(x[:, :10], is_causal=True, cache=cache)
        names, largest = operations(lambda: module(x[:, 10:], is_causal=True, cache=cache))
    # one mask for all heads
    assert sum(SDPA_ON_CPU in name for name in names) == 1 and largest <= 4 * 590 * 600


# The benchmark and its record.


def test_the_record_says_on_what_and_when():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    machine = record["machine"]
    assert all(machine[name] for name in ("device", "date", "torch", "triton", "cuda", "driver"))
    assert record["ceilings"]["copy_gb_s"] > 0
    assert set(record["ceilings"]["matmul_tflop_s"]) == {"float32", "tf32", "float16", "bfloat16"}
    assert record["measured"] and all(record[part] for part in record["measured"])


def test_the_tables_of_the_record(benchmarks):
    """What was measured is shown; of the rest, only that it was not."""
    tables, record = benchmarks("gpu_tables"), json.loads(RECORD.read_text(encoding="utf-8"))
    shown = tables.everything(record)
    assert record["machine"]["device"] in shown and record["machine"]["date"] in shown
    assert f"{record['ceilings']['copy_gb_s']:.0f} GB/s" in shown
    empty = tables.everything({"machine": record["machine"]})
    assert empty.count("*Not yet measured.*") == len(tables.TABLES)
    assert all(goal.met is None for goal in tables.goals({"machine": record["machine"]}))

"""Checks of exercise 11. You may read them: each is one sentence about a function or a class, with inputs on which a
wrong function or class fails.

Results are compared with `specifications`, which computes attention in float64 with n x n arrays. It is in
checking.zip together with the runtime, `checking`, so that no one sees an answer by accident. The tolerance is `RTOL`
in `checking/expect.py`, which explains how it was chosen, unless a check gives another one. Kernels run on the GPU if
torch finds one, otherwise in Triton's interpreter on the CPU. Checks with `on=` depend on the machine ("gpu" and
"bf16" check what the interpreter cannot show). If the machine lacks what they need, or if a kernel of the course's
own fails there as well, their points wait.
"""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).with_name("checking.zip")))
importlib.invalidate_caches()
for other in ("specifications", "misconceptions"):  # of an exercise opened earlier
    sys.modules.pop(other, None)
if not importlib.util.find_spec("checking"):
    raise ImportError(
        "checking.zip is missing next to checks.py. Unpack the exercise again, or run: make release"
    )

import math
import types

import numpy as np
import torch

from checking import (
    Failed,
    Message,
    Suite,
    as_sum,
    backward,
    counts_in,
    expect_by_hand,
    expect_close,
    expect_gradients,
    expect_held,
    expect_parameters,
    expect_raises,
    expect_tensor,
    expect_tuple,
    expect_unchanged,
    kernels,
    told_by,
)
from specifications import attended, attention_of, earlier, forward_of, of_torch, out_of

torch.set_num_threads(1)  # everything here is small


def plain_forward(q, k, v, causal):
    """Return the right results of `flash_attention_forward`, in float64."""
    return attended(
        *(tensor.double() for tensor in (q, k, v)), earlier(q.shape[2]) if causal else None
    )


def plain(q, k, v, causal=False):
    """Return the right result of `flash_attention`, in float64."""
    return plain_forward(q, k, v, causal)[0]


suite = Suite(
    __name__,
    plain={"flash_attention_forward": plain_forward, "flash_attention": plain},
    answers={"flash_attention_forward": forward_of, "flash_attention": attention_of},
    read={
        "by_hand": "chapter 11, By hand",
        "flash_attention_forward": "chapter 11, The kernel",
        "tiled_backward": "chapter 11, Backward",
        "flash_attention": "chapter 11, Backward",
        "MultiHeadLayer": "chapter 11, The layer",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset

KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
REFUSED = (ValueError, RuntimeError, IndexError)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The side of a tile in the notebook. Most kernel checks take numbers of tokens that fill their tiles, so a mask that
# is missing for other lengths costs only the points of the `ragged` checks.
BLOCK = 32
# For results whose largest number is about 1, in units of it. Sums are kept in float32. In float32 without TF32, they
# are within 1e-5 of float64 for these lengths; with TF32, which has 10 bits, they are further away. In 16 bits the
# weights and the result are rounded once each: half a unit in the last place is 2**-11 in float16, 2**-8 in bfloat16,
# and a backward pass rounds P, dS and the result. Eight of them allow that, but no sum kept in 16 bits.
TOLERANCES = {torch.float32: 1e-4, torch.float16: 8 * 2.0**-11, torch.bfloat16: 8 * 2.0**-8}
MOST_TERMS = 4  # in a sum that is reported


@check()
def by_hand_online(by_hand, draw):
    """Returns the first total, the factor, the last total, and the output."""
    scores, values = np.log([1.0, 2, 4, 4]), np.array([4.0, 1, 2, 6])
    totals = [np.exp(part - part.max()).sum() for part in (scores[:2], scores)]
    factor = np.exp(scores[:2].max() - scores.max())
    expect_by_hand(
        by_hand(), [totals[0], factor, totals[1], np.exp(scores) @ values / np.exp(scores).sum()]
    )


# Inputs, and the handling of results.


def heads(draw, n, b=2, h=1, d=16, kind=torch.float32):
    return [draw.tensor(b, h, n, d, dtype=kind).to(DEVICE) for _ in range(3)]


def exact(value):
    """Return a tensor in float64, on the CPU; return other values unchanged."""
    return value.detach().double().cpu() if isinstance(value, torch.Tensor) else value


def units(expected):
    """Return the largest expected number, to which differences are compared."""
    return np.array(max(np.abs(expected.numpy()).max(), 0.1))


def expect_forward(function, inputs, causal, parts=(0, 1), rtol=None):
    """Fail unless the output, the log-sum-exp, or both are right."""
    seen = earlier(inputs[0].shape[2]) if causal else None
    expected = attended(*map(exact, inputs), seen)
    result = function(*inputs, causal)
    expect_tuple(result, ("out", "lse"))
    for i in parts:
        more = {} if rtol is None else {"rtol": rtol, "unit": units(expected[i])}
        expect_close(exact(result[i]), expected[i], what=("out", "lse")[i], **more)


def expect_inside(function, draw, way_back, what, sizes):
    """Fail if, for one of these numbers of tokens, something is read or written outside of the tensors."""
    for n in sizes:
        counts = function.run_remote(kernels.outside, way_back, *heads(draw, n, b=1, h=2), True)
        if counts is None:
            raise Failed("Nothing is returned.", explained=True)
        count = counts[what == "written"]
        if count:
            mend = Message("mask each `tl.load`" if what == "read" else "mask each `tl.store`")
            if n % BLOCK == 0:
                mend = Message(
                    "{n} tokens fill their tiles, so check where each head begins, in each tensor",
                    n=n,
                )
            message = "For {n} tokens in 2 heads, {count} numbers were {what} outside of the tensors: {mend}."
            verb = Message("read" if what == "read" else "written")
            raise Failed(
                Message(message, n=n, count=int(count), what=verb, mend=mend), explained=True
            )


def ragged(draw):
    """Return two numbers of tokens that do not fill their tiles: of one tile, and of two."""
    return int(draw.rng.integers(BLOCK + 1, 2 * BLOCK - 1)), 7


@check(weight=0.25, on="triton", measured=True)
def forward_writes(flash_attention_forward, draw):
    """For lengths that fill their tiles, writes nothing outside of the tensors."""
    expect_inside(flash_attention_forward, draw, False, "written", [2 * BLOCK])


@check(weight=0.25, needs=[forward_writes], on="triton", measured=True)
def forward_ragged_writes(flash_attention_forward, draw):
    """For all lengths, writes nothing outside of the tensors."""
    expect_inside(flash_attention_forward, draw, False, "written", ragged(draw))


@check(weight=0.5, needs=[forward_writes], on="triton", measured=True)
def forward_reads(flash_attention_forward, draw):
    """For all lengths, reads nothing outside of the tensors, not even numbers that are masked later."""
    expect_inside(flash_attention_forward, draw, False, "read", [2 * BLOCK, ragged(draw)[0]])


@check(weight=0.5, needs=[forward_writes], on="triton")
def forward_shapes(flash_attention_forward, draw):
    """Returns a tuple, `out` of shape (b, h, n, d) and `lse` of shape (b, h, n), in float32 for float32."""
    result = flash_attention_forward(*heads(draw, BLOCK, h=3), False)
    expect_tuple(result, ("out", "lse"))
    expect_tensor(result[0], (2, 3, BLOCK, 16), torch.float32, what="out")
    expect_tensor(result[1], (2, 3, BLOCK), torch.float32, what="lse")


@check(weight=2, needs=[forward_shapes], on="triton")
def forward_one_tile(flash_attention_forward, draw):
    """When one tile has all 32 keys, `out` is the attention output, for heads of width 16 and 32."""
    for d in (16, 32):
        expect_forward(flash_attention_forward, heads(draw, BLOCK, h=2, d=d), False, parts=[0])


@check(weight=1.5, needs=[forward_one_tile], on="triton")
def forward_tiles(flash_attention_forward, draw):
    """When keys fill several tiles, `out` is the attention output, no matter which tile has the largest score."""
    for shares in [(1, 4), (4, 1)]:
        q, k, v = heads(draw, 2 * BLOCK, b=1)
        k = k.abs() * torch.tensor(shares, device=DEVICE).repeat_interleave(BLOCK)[:, None]
        expect_forward(flash_attention_forward, [q.abs(), k, v], False, parts=[0])


@check(weight=1, needs=[forward_tiles, forward_ragged_writes], on="triton")
def forward_ragged(flash_attention_forward, draw):
    """Works for lengths that are not a multiple of the tile's side, such as n = 1."""
    for n in (ragged(draw)[0], 1):
        expect_forward(flash_attention_forward, heads(draw, n), False, parts=[0])


@check(weight=1.5, needs=[forward_tiles], on="triton")
def forward_causal(flash_attention_forward, draw):
    """With `causal`, query i sees exactly the keys up to its own position, within a tile and beyond it."""
    for n in (2 * BLOCK, BLOCK, 3 * BLOCK):
        expect_forward(flash_attention_forward, heads(draw, n, b=1), True, parts=[0])


@check(weight=1, needs=[forward_one_tile], on="triton")
def forward_lse(flash_attention_forward, draw):
    """`lse` is the natural logarithm of the sum of exp(scores), including the subtracted maximum, for each head."""
    q, k, v = heads(draw, 2 * BLOCK, b=1, h=2)
    expect_forward(flash_attention_forward, [2 * q, k, v], False, parts=[1])


@check(weight=0.5, needs=[forward_ragged_writes, forward_causal, forward_lse], on="triton")
def forward_ragged_causal(flash_attention_forward, draw):
    """With `causal`, both results are also right when the last tile is not full."""
    expect_forward(flash_attention_forward, heads(draw, ragged(draw)[0], h=2), True)


@check(weight=0.5, needs=[forward_lse, forward_tiles], on="triton")
def forward_large_scores(flash_attention_forward, draw):
    """Scores above 100 or below -100 do not overflow, even if one row or one tile has both."""
    q, k, v = heads(draw, 2 * BLOCK, b=1)
    signs = torch.tensor((1, -1), device=DEVICE)
    later, others = signs.repeat_interleave(BLOCK)[:, None], signs.repeat(BLOCK)[:, None]
    for sign in (1, -1, later, -later):
        expect_forward(flash_attention_forward, [7 * q.abs(), sign * 7 * k.abs(), v], False)
    expect_forward(flash_attention_forward, [others * 7 * q.abs(), 7 * k.abs(), v], False)


@check(weight=0.5, needs=[forward_one_tile], on="triton")
def forward_wide(flash_attention_forward, draw):
    """Works for heads of width 64 and 128."""
    for d in (64, 128):
        expect_forward(flash_attention_forward, heads(draw, BLOCK, b=1, d=d), False, parts=[0])


@check(weight=0.5, needs=[forward_one_tile], on="triton")
def forward_layout(flash_attention_forward, draw):
    """Accepts inputs with any memory layout, also transposed views, and a different layout for each."""
    q, k, v = heads(draw, BLOCK, h=3)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    v = v.mT.contiguous().mT
    expect_forward(flash_attention_forward, [q, k, v], False, parts=[0])


def twice(function, first, second):
    """Call a function twice, then causally and by keyword; return the results, and the inputs afterwards."""
    results = [function(*first), function(*second, causal=True)]
    return [*results[0], *results[1]], first


def expect_inputs(names, after, before):
    """Fail unless inputs are what they were before a call."""
    for name, tensor, was in zip(names, after, before, strict=True):
        if not torch.equal(exact(tensor), exact(was)):
            message = (
                "{name} was changed in place. The caller still needs it: compute a new tensor."
            )
            raise Failed(Message(message, name=f"`{name}`"), explained=True)


@check(weight=0.5, needs=[forward_causal, forward_lse], on="triton")
def forward_again(flash_attention_forward, draw):
    """Keeps its inputs and earlier results unchanged, also when called again with `causal=True` by name."""
    first, second = heads(draw, BLOCK, h=2), heads(draw, BLOCK, h=2)
    results, after = flash_attention_forward.run_remote(twice, first, second)
    expect_inputs("qkv", after, first)
    expected = [
        *attended(*map(exact, first)),
        *attended(*map(exact, second), earlier(BLOCK)),
    ]
    names = [
        Message("{name} of the first call (after the second)", name="out"),
        Message("{name} of the first call (after the second)", name="lse"),
        Message("{name} of the second call", name="out"),
        Message("{name} of the second call", name="lse"),
    ]
    for what, got, right in zip(
        names, expect_tuple(results, ["out", "lse"] * 2), expected, strict=True
    ):
        expect_close(got, right, what=what)


@check(weight=1, needs=[forward_tiles], on="triton")
def forward_half(flash_attention_forward, draw):
    """In float16, `out` is float16 and `lse` is float32, and sums are kept in float32."""
    n = 3 * BLOCK
    q, k, v = heads(draw, n, b=1, kind=torch.float16)
    result = flash_attention_forward(q, k, v + 4, False)
    expect_tensor(result[0], (1, 1, n, 16), torch.float16, what="out")
    expect_tensor(result[1], (1, 1, n), what="lse")
    kind = str(result[1].dtype).removeprefix("torch.")
    if kind != "float32":
        message = "`lse` should be float32 for inputs of any dtype, and is {kind}. Here the inputs are float16."
        raise Failed(
            Message(message, kind=kind),
            [Message("the shape {shape} is right", shape=str((1, 1, n)))],
            explained=True,
        )
    for i, right in enumerate(attended(*map(exact, (q, k, v + 4)))):
        # A weight is rounded once, the result once; the log-sum-exp is never in 16 bits.
        rtol = (2 * 2.0**-11, 1e-5)[i]
        expect_close(exact(result[i]), right, what=("out", "lse")[i], rtol=rtol, unit=units(right))


def most_bytes(function, *arguments):
    """Return the bytes of the largest tensor that torch makes in a call; a tile within a kernel does not count."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    most = 0

    class Looking(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls):
            return False  # as in checking/memory.py: nothing is compiled here

        def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
            nonlocal most
            result = operation(*arguments, **(keywords or {}))
            for part in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(part, torch.Tensor):
                    most = max(most, part.untyped_storage().nbytes())
            return result

    with Looking():
        function(*arguments)
    return most


@check(weight=1, needs=[forward_tiles], on="triton", measured=True)
def forward_held(flash_attention_forward, draw):
    """Holds no n x n tensor in memory."""
    most = flash_attention_forward.run_remote(most_bytes, *heads(draw, 128, b=1), False)
    if most > 0.9 * 128 * 128:  # n x n booleans have more
        raise Failed(
            Message(
                "For 128 tokens, torch made a tensor of {most} bytes, but no 128 x 128 tensor is needed.",
                most=str(most),
            ),
            explained=True,
        )


def expect_kernel(function):
    """Fail unless the text of a function's code has a kernel of Triton's, as far as that text is known."""
    if not kernels.written_in(suite.code_of(function.name)):
        message = "The code of `{function}` and of what it uses has no Triton kernel, a function with `@triton.jit`."
        raise Failed(Message(message, function=function.name), explained=True)


@check(weight=2.5, needs=[forward_tiles], on="triton", measured=True)
def forward_is_a_kernel(flash_attention_forward, draw):
    """Launches a Triton kernel, which does the work."""
    expect_kernel(flash_attention_forward)
    if not flash_attention_forward.run_remote(kernels.launches, False, *heads(draw, BLOCK), False)[
        0
    ]:
        raise Failed(
            "No Triton kernel was launched. Launch one with `kernel[grid](...)`.", explained=True
        )


def expect_forward_on_a_gpu(function, draw, n):
    for kind, rtol in TOLERANCES.items():
        for d, causal in [(64, False), (128, True)]:
            inputs = heads(draw, n, h=2, d=d, kind=kind)
            result = function(*inputs, causal)
            expect_tensor(result[0], (2, 2, n, d), kind, what="out")
            expect_forward(function, inputs, causal, rtol=rtol)


@check(weight=1, needs=[forward_is_a_kernel, forward_causal, forward_lse], on="bf16")
def forward_on_a_gpu(flash_attention_forward, draw):
    """On a GPU, both results are right for 320 tokens in float32 (without TF32), float16 and bfloat16."""
    expect_forward_on_a_gpu(flash_attention_forward, draw, 10 * BLOCK)


@check(weight=0.5, needs=[forward_on_a_gpu, forward_ragged], on="bf16")
def forward_ragged_on_a_gpu(flash_attention_forward, draw):
    """On a GPU, both results are right for 300 tokens, which do not fill their last tile."""
    expect_forward_on_a_gpu(flash_attention_forward, draw, 300)


# tiled_backward


def expect_tiled(tiled_backward, draw, n, causal):
    q, k, v, d_out = (draw.tensor(n, 16) for _ in range(4))
    leaves = [tensor[None, None].clone().requires_grad_() for tensor in (q, k, v)]
    out, lse = attended(*leaves, earlier(n) if causal else None)
    (out * d_out).sum().backward()
    result = tiled_backward(
        q, k, v, d_out, lse[0, 0].detach(), (out[0, 0] * d_out).sum(-1).detach(), causal
    )
    expect_tuple(result, ("dq", "dk", "dv"))
    for name, got, leaf in zip(("dq", "dk", "dv"), result, leaves, strict=True):
        expect_close(got, leaf.grad[0, 0], what=name)


@check()
def tiled_gradients(tiled_backward, draw):
    """All three gradients are right, whether or not the tokens fill their tiles."""
    for n in (BLOCK, 2 * BLOCK, ragged(draw)[0]):
        expect_tiled(tiled_backward, draw, n, False)


@check(needs=[tiled_gradients])
def tiled_causal(tiled_backward, draw):
    """With `causal`, all three gradients are right."""
    for n in (BLOCK, 2 * BLOCK, ragged(draw)[0]):
        expect_tiled(tiled_backward, draw, n, True)


@check(needs=[tiled_gradients], measured=True)
def tiled_held(tiled_backward, draw):
    """Holds no n x n tensor in memory."""
    n = 256
    inputs = [draw.tensor(*shape, dtype=torch.float32) for shape in [(n, 16)] * 4 + [(n,)] * 2]
    most = tiled_backward.run_remote(most_bytes, *inputs)
    if most > 0.9 * n * n:  # n x n booleans have more
        raise Failed(
            Message(
                "For {n} tokens, torch made a tensor of {most} bytes, but no {n} x {n} tensor is needed.",
                n=n,
                most=str(most),
            ),
            explained=True,
        )


# flash_attention


def expect_backward(
    function, draw, n, causal, names, h=2, d=16, kind=torch.float32, rtol=None, layout=False
):
    inputs = heads(draw, n, b=1, h=h, d=d, kind=kind)
    upstream = draw.tensor(*inputs[0].shape, dtype=kind).to(DEVICE)
    if layout:
        inputs = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in inputs]
        upstream = upstream.mT.contiguous().mT
    expect_gradients_of(function, inputs, upstream, causal, names, rtol)


def expect_gradients_of(function, inputs, upstream, causal=False, names="QKV", rtol=None):
    """Fail unless the named gradients, of Q, K or V, are right."""
    upstream = upstream.to(inputs[0])
    _, gradients, _ = backward(function, *inputs, causal, upstream=upstream)
    leaves = [exact(tensor).requires_grad_() for tensor in inputs]
    out = attended(*leaves, earlier(inputs[0].shape[2]) if causal else None)[0]
    (out * exact(upstream)).sum().backward()
    for name, got, leaf in zip("QKV", gradients, leaves, strict=False):
        if name in names:
            if got is None:
                raise Failed(Message("No gradient reached {name}.", name=name), explained=True)
            more = {} if rtol is None else {"rtol": rtol, "unit": units(leaf.grad)}
            with told_by(made_of, exact(got), name, *map(exact, (*inputs, upstream)), causal):
                expect_close(
                    exact(got), leaf.grad, what=Message("the gradient of {name}", name=name), **more
                )


def made_of(got, name, q, k, v, upstream, causal):
    """Return a sentence on the products that a gradient is the sum of; "" if it is not a sum of a few of these.

    They are products of a matrix in the backward pass, or of its transpose, with one of the tensors.
    """
    seen = earlier(q.shape[2]) if causal else torch.ones(q.shape[2], q.shape[2], dtype=torch.bool)
    out, lse = attended(q, k, v, seen)
    S = q @ k.mT / q.shape[-1] ** 0.5
    P, dP, D = (
        (S - lse[..., None]).exp() * seen,
        upstream @ v.mT,
        (upstream * out).sum(-1, keepdim=True),
    )
    square = {
        "(P*dP)": P * dP,
        "(P*D)": P * D,
        "(P*D^T)": P * D.mT,
        "P": P,
        "exp(S)": S.exp() * seen,
    }
    square |= {f"{term}^T": matrix.mT for term, matrix in square.items()}
    terms = {
        f"{product} {factor}": matrix @ other
        for factor, other in (("K", k), ("Q", q), ("dO", upstream), ("V", v))
        for product, matrix in square.items()
    }
    scale = q.shape[-1] ** -0.5
    formula = {
        "Q": ("K", {"(P*dP)": scale, "(P*D)": -scale}),
        "K": ("Q", {"(P*dP)^T": scale, "(P*D)^T": -scale}),
        "V": ("dO", {"P^T": 1}),
    }
    counts = {term: count for term, count in (counts_in(got, terms, 1e-3) or {}).items() if count}
    if not 0 < len(counts) <= MOST_TERMS:
        return ""
    factor, wanted = formula[name]
    return Message(
        "The gradient of {name} is {came}, and should be {wanted}, where dP = dO V^T, D is the row sums of dO * O, "
        "and 1 / sqrt(d) is {scale}.",
        name=name, scale=f"{scale:.3g}", came=as_sum(counts),
        wanted=as_sum({f"{product} {factor}": count for product, count in wanted.items()}),
    )  # fmt: skip


@check(weight=0.25, on="triton", measured=True)
def flash_writes(flash_attention, draw):
    """For lengths that fill their tiles, writes nothing outside of the tensors, also in the backward pass."""
    expect_inside(flash_attention, draw, True, "written", [2 * BLOCK])


@check(weight=0.25, needs=[flash_writes], on="triton", measured=True)
def flash_ragged_writes(flash_attention, draw):
    """For all lengths, writes nothing outside of the tensors, also in the backward pass."""
    expect_inside(flash_attention, draw, True, "written", ragged(draw))


@check(weight=0.5, needs=[flash_writes], on="triton", measured=True)
def flash_reads(flash_attention, draw):
    """For all lengths, reads nothing outside of the tensors, also in the backward pass."""
    expect_inside(flash_attention, draw, True, "read", [2 * BLOCK, ragged(draw)[0]])


@check(weight=1, needs=[flash_writes], on="triton")
def flash_values(flash_attention, draw):
    """Returns the attention output in the dtype of the inputs."""
    inputs = heads(draw, BLOCK)
    result = flash_attention(*inputs)
    expect_tensor(result, (2, 1, BLOCK, 16), torch.float32)
    expect_close(exact(result), attended(*map(exact, inputs))[0])


@check(weight=0.5, needs=[flash_values], on="triton")
def flash_causal_values(flash_attention, draw):
    """With `causal`, query i sees exactly the keys up to its own position."""
    inputs = heads(draw, BLOCK)
    expect_close(
        exact(flash_attention(*inputs, True)), attended(*map(exact, inputs), earlier(BLOCK))[0]
    )


@check(weight=2, needs=[flash_values], on="triton")
def flash_dv(flash_attention, draw):
    """The gradient of V is P^T dO."""
    expect_backward(flash_attention, draw, BLOCK, False, "V")


@check(weight=2, needs=[flash_values], on="triton")
def flash_dq(flash_attention, draw):
    """The gradient of Q is dS K / sqrt(d)."""
    expect_backward(flash_attention, draw, BLOCK, False, "Q")


@check(weight=2, needs=[flash_values], on="triton")
def flash_dk(flash_attention, draw):
    """The gradient of K is dS^T Q / sqrt(d)."""
    expect_backward(flash_attention, draw, BLOCK, False, "K")


@check(weight=1, needs=[flash_dv, flash_dq, flash_dk], on="triton")
def flash_tiles(flash_attention, draw):
    """When queries and keys fill several tiles, all three gradients are right."""
    expect_backward(flash_attention, draw, 2 * BLOCK, False, "QKV")


@check(weight=1, needs=[flash_causal_values, flash_dv, flash_dq, flash_dk], on="triton")
def flash_causal_gradients(flash_attention, draw):
    """With `causal` and heads of width 32, all three gradients are right."""
    expect_backward(flash_attention, draw, 2 * BLOCK, True, "QKV", h=1, d=32)


@check(weight=1, needs=[flash_tiles, flash_ragged_writes], on="triton")
def flash_ragged(flash_attention, draw):
    """All three gradients are right for lengths that are not a multiple of the tile's side, such as n = 1."""
    for n in (ragged(draw)[0], 1):
        expect_backward(flash_attention, draw, n, False, "QKV")


@check(weight=0.5, needs=[flash_ragged_writes, flash_causal_gradients], on="triton")
def flash_ragged_causal(flash_attention, draw):
    """With `causal`, all three gradients are also right when the last tile is not full."""
    expect_backward(flash_attention, draw, ragged(draw)[0], True, "QKV", h=1, d=32)


@check(weight=0.5, needs=[flash_dv, flash_dq, flash_dk], on="triton")
def flash_layout(flash_attention, draw):
    """Gradients are right for any memory layout of the inputs and of the upstream gradient."""
    expect_backward(flash_attention, draw, BLOCK, False, "QKV", layout=True)


def back_twice(function, first, second, upstream):
    """Call a function twice, then backward through both; return results, gradients, and the inputs afterwards."""
    import torch

    with torch.enable_grad():
        first, second = (
            [tensor.clone().requires_grad_() for tensor in inputs] for inputs in (first, second)
        )
        results = [function(*first), function(*second, causal=True)]
        for result in results:
            result.backward(upstream)
    parts = [
        [result.detach(), *(leaf.grad for leaf in leaves)]
        for result, leaves in zip(results, (first, second), strict=True)
    ]
    return parts, [*(tensor.detach() for tensor in first), upstream]


@check(weight=0.5, needs=[flash_dv, flash_dq, flash_dk, flash_causal_gradients], on="triton")
def flash_again(flash_attention, draw):
    """Keeps its inputs unchanged; after two calls, one with `causal=True` by name, each has the right gradients."""
    first, second = heads(draw, BLOCK), heads(draw, BLOCK)
    upstream = draw.tensor(*first[0].shape).to(first[0])
    results, after = flash_attention.run_remote(back_twice, first, second, upstream)
    expect_inputs(["q", "k", "v", Message("the upstream gradient")], after, [*first, upstream])
    calls = Message("the first of two calls"), Message("the second of two calls")
    for call, inputs, parts, seen in zip(
        calls, (first, second), results, (None, earlier(BLOCK)), strict=True
    ):
        leaves = [exact(tensor).requires_grad_() for tensor in inputs]
        out = attended(*leaves, seen)[0]
        (out * exact(upstream)).sum().backward()
        names = [
            Message("the result"),
            *(Message("the gradient of {name}", name=name) for name in "QKV"),
        ]
        for name, got, right in zip(
            names, parts, [out.detach(), *(leaf.grad for leaf in leaves)], strict=True
        ):
            expect_close(exact(got), right, what=Message("{what} of {call}", what=name, call=call))


@check(weight=0.5, needs=[flash_ragged], on="triton")
def flash_large_scores(flash_attention, draw):
    """Scores above 100 or below -100 leave all three gradients right, even if the last tile is not full."""
    for sign in (-1, 1):
        (q, k, v), upstream = heads(draw, 20, b=1), draw.tensor(1, 1, 20, 16)
        # Scores that are close together: with weights of nearly 0 and 1, gradients are nothing but rounding errors.
        q, k = 5.4 * (1 + q / 20), sign * 5.4 * (1 + k / 20)
        expect_gradients_of(flash_attention, [q, k, v], upstream, rtol=1e-3)


@check(weight=0.5, needs=[flash_tiles, flash_causal_gradients], on="triton")
def flash_half(flash_attention, draw):
    """In float16, all three gradients are right: sums are kept in float32, and rounded once."""
    rtol = TOLERANCES[torch.float16]
    expect_backward(
        flash_attention, draw, 2 * BLOCK, True, "QKV", h=1, kind=torch.float16, rtol=rtol
    )


@check(weight=2, needs=[flash_dv, flash_dq, flash_dk], on="triton", measured=True)
def flash_is_a_kernel(flash_attention, draw):
    """Triton kernels do the work, also in the backward pass."""
    expect_kernel(flash_attention)
    ways = flash_attention.run_remote(kernels.launches, True, *heads(draw, BLOCK), False)
    for back, ran in zip((False, True), ways, strict=True):
        if not ran and back:
            raise Failed("No Triton kernel was launched in the backward pass.", explained=True)
        if not ran and "flash_attention_forward" not in suite.instead:
            raise Failed("No Triton kernel was launched.", explained=True)


def expect_backward_on_a_gpu(function, draw, n):
    for kind, rtol in TOLERANCES.items():
        for d, causal in [(64, False), (128, True)]:
            expect_backward(function, draw, n, causal, "QKV", d=d, kind=kind, rtol=rtol)


@check(weight=1, needs=[flash_tiles, flash_causal_gradients, flash_is_a_kernel], on="bf16")
def flash_on_a_gpu(flash_attention, draw):
    """On a GPU, gradients for 320 tokens are right in float32 (without TF32), float16 and bfloat16, causal or not."""
    expect_backward_on_a_gpu(flash_attention, draw, 10 * BLOCK)


@check(weight=0.5, needs=[flash_on_a_gpu, flash_ragged], on="bf16")
def flash_ragged_on_a_gpu(flash_attention, draw):
    """On a GPU, gradients are right for 300 tokens, which do not fill their last tile."""
    expect_backward_on_a_gpu(flash_attention, draw, 300)


# MultiHeadLayer


def parameters(draw, d_model, h, h_kv, bias=True):
    """Return drawn parameters of four projections, by name."""
    kv = h_kv * d_model // h
    values = {}
    for name, rows in [("W_q", d_model), ("W_k", kv), ("W_v", kv), ("W_o", d_model)]:
        values[f"{name}.weight"] = draw.tensor(rows, d_model) / math.sqrt(d_model)
        if bias:
            values[f"{name}.bias"] = draw.tensor(rows)
    return values


def fused(values):
    """Return the parameters under the names of a layer with one projection for queries, keys and values."""
    renamed = {}
    for kind in ("weight", "bias"):
        if f"W_o.{kind}" in values:
            renamed[f"W_qkv.{kind}"] = torch.cat(
                [values[f"{name}.{kind}"] for name in ("W_q", "W_k", "W_v")]
            )
            renamed[f"W_o.{kind}"] = values[f"W_o.{kind}"]
    return renamed


def as_named(layer, values):
    """Return the parameters under the names that a layer has: with one fused projection, or three."""
    return fused(values) if "W_qkv.weight" in layer.shapes() else values


def load(layer, separate, fused):
    import torch

    layer.to(torch.float64).eval().load_state_dict(
        fused if hasattr(layer, "W_qkv") else separate, strict=False
    )


def loaded(subject, values, d_model, h, h_kv, bias=True):
    """Return a layer with these parameters, under either set of names: a mistake is the same with both."""
    layer = subject.module(d_model, h, h_kv, bias)
    layer.run_remote(load, values, fused(values))
    return layer


def expect_layer(layer, values, x, h, h_kv, mask=None, is_causal=False):
    n = x.shape[1]
    seen = mask
    if is_causal:
        seen = earlier(n) if mask is None else mask & earlier(n)
    expect_close(layer(x, mask, is_causal), out_of(values, x, h, h_kv, seen))


def in_sight(lengths, is_causal):
    """Return the mask of tokens read in pieces: each sees all up to its piece's end, or, causally, up to itself."""
    n = sum(lengths)
    seen, begin = earlier(n), 0
    for length in lengths:
        seen[begin : begin + length, : begin + length] |= not is_causal
        begin += length
    return seen


def random_mask(draw, *shape):
    """Return a mask in which each query sees itself, and half of the others."""
    return torch.from_numpy(draw.rng.random(shape) < 0.5) | torch.eye(shape[-1], dtype=torch.bool)


def padding(n, length):
    """Return the mask (2, 1, n) of two sequences, the second of which is padded after `length` tokens."""
    return torch.arange(n) < torch.tensor([n, length])[:, None, None]


@check(weight=1)
def layer_parameters(MultiHeadLayer, draw):
    """Parameters have the names and shapes in the docstring, and biases only where requested."""
    for h_kv, more in [(4, (4, True)), (2, (2, False)), (4, ())]:
        layer = MultiHeadLayer.module(24, 4, *more)
        values = as_named(layer, parameters(draw, 24, 4, h_kv, False not in more))
        expect_parameters(layer, {name: tuple(value.shape) for name, value in values.items()})


@check(weight=1.5, needs=[layer_parameters])
def layer_values(MultiHeadLayer, draw):
    """With the parameters of an `nn.MultiheadAttention` and no mask, returns the same results."""
    for bias, n in [(True, 7), (False, 1)]:
        values, x = parameters(draw, 24, 4, 4, bias), draw.tensor(2, n, 24)
        with torch.no_grad():
            expected = of_torch(values, bias)(x, x, x, need_weights=False)[0]
        expect_close(loaded(MultiHeadLayer, values, 24, 4, 4, bias)(x), expected)


@check(weight=0, needs=[layer_parameters])
def layer_refuses_heads(MultiHeadLayer, draw):
    """Raises when num_heads does not divide d_model, or num_kv_heads does not divide num_heads."""
    for d_model, h, h_kv in [(24, 5, 5), (24, 4, 3), (20, 8, 4)]:
        because = Message(
            "{d_model} columns, {h} heads, {h_kv} of keys", d_model=d_model, h=h, h_kv=h_kv
        )
        expect_raises(REFUSED, MultiHeadLayer, d_model, h, h_kv, because=because)


@check(weight=0, needs=[layer_parameters])
def layer_refuses_masks(MultiHeadLayer, draw):
    """Raises when a mask has the wrong shape, instead of stretching it."""
    layer = loaded(MultiHeadLayer, parameters(draw, 24, 4, 4), 24, 4, 4)
    for shape in [(7, 6), (7, 1), (1, 7), (2, 1, 6)]:
        mask = torch.ones(shape, dtype=torch.bool)
        if layer.error(draw.tensor(2, 7, 24), mask) is None:
            message = "A mask of shape {shape} does not fit 7 tokens, but was accepted."
            if len(shape) == 2:
                message = (
                    "A mask of shape {shape} does not fit 7 tokens, but was accepted. A mask with two dimensions "
                    "must be (n, n_k), and is not repeated."
                )
            raise Failed(Message(message, shape=str(shape)), explained=True)


@check(weight=1, needs=[layer_values])
def layer_grouped(MultiHeadLayer, draw):
    """Query head i uses head i // (h / h_kv) of keys and values."""
    for h_kv in (2, 1):
        values = parameters(draw, 24, 4, h_kv)
        expect_layer(
            loaded(MultiHeadLayer, values, 24, 4, h_kv), values, draw.tensor(2, 5, 24), 4, h_kv
        )


@check(weight=1, needs=[layer_values])
def layer_causal(MultiHeadLayer, draw):
    """With `is_causal`, token i sees exactly the tokens up to its own position."""
    values = parameters(draw, 24, 4, 4)
    for n in (7, 2):
        expect_layer(
            loaded(MultiHeadLayer, values, 24, 4, 4),
            values,
            draw.tensor(2, n, 24),
            4,
            4,
            None,
            True,
        )


@check(weight=1, needs=[layer_values])
def layer_masks(MultiHeadLayer, draw):
    """Applies masks of two, three or four dimensions: one for all, for each sequence, or for each head."""
    values = parameters(draw, 24, 4, 4)
    layer = loaded(MultiHeadLayer, values, 24, 4, 4)
    for shape in [(7, 7), (2, 7, 7), (2, 4, 7, 7), (2, 1, 7, 7)]:
        expect_layer(layer, values, draw.tensor(2, 7, 24), 4, 4, random_mask(draw, *shape))
    expect_layer(layer, values, draw.tensor(2, 7, 24), 4, 4, padding(7, 4))


@check(weight=0.5, needs=[layer_masks, layer_grouped])
def layer_grouped_masks(MultiHeadLayer, draw):
    """With fewer key heads, a mask still applies to its own sequence and head."""
    values, x = parameters(draw, 24, 4, 2), draw.tensor(3, 5, 24)
    layer = loaded(MultiHeadLayer, values, 24, 4, 2)
    for shape in [(5, 5), (3, 5, 5), (3, 1, 5, 5), (1, 4, 5, 5), (3, 4, 5, 5)]:
        expect_layer(layer, values, x, 4, 2, random_mask(draw, *shape))
    for shape in [(3, 1, 5), (3, 4, 1, 5)]:
        mask = torch.from_numpy(draw.rng.random(shape) < 0.5)
        mask[..., 0] = True
        for is_causal in (False, True):
            expect_layer(layer, values, x, 4, 2, mask, is_causal)
    values, mask = parameters(draw, 24, 2, 1), torch.from_numpy(draw.rng.random((3, 2, 1, 1)) < 0.5)
    expect_layer(loaded(MultiHeadLayer, values, 24, 2, 1), values, x[:, :1], 2, 1, mask)


@check(weight=0.5, needs=[layer_masks])
def layer_nothing_to_see(MultiHeadLayer, draw):
    """A fully masked token gets 0 before W_o, and neither the result nor a gradient becomes NaN."""
    values = parameters(draw, 24, 4, 4)
    layer, x, mask = (
        loaded(MultiHeadLayer, values, 24, 4, 4),
        draw.tensor(2, 5, 24),
        random_mask(draw, 5, 5),
    )
    mask[int(draw.rng.integers(5))] = False
    expect_close(layer(x, mask), out_of(values, x, 4, 4, mask))
    gradient = backward(layer, x, mask)[1][0]
    if (
        gradient is not None and not np.isfinite(exact(gradient).numpy()).all()
    ):  # if there is none, `layer_gradients` fails
        raise Failed(
            "The gradient of x is not finite when a token is fully masked.", explained=True
        )


@check(weight=1, needs=[layer_causal, layer_masks])
def layer_mask_and_causal(MultiHeadLayer, draw):
    """With a mask and `is_causal`, applies both."""
    values = parameters(draw, 24, 4, 4)
    layer = loaded(MultiHeadLayer, values, 24, 4, 4)
    for shape in [(7, 7), (2, 7, 7)]:
        expect_layer(layer, values, draw.tensor(2, 7, 24), 4, 4, random_mask(draw, *shape), True)


@check(weight=0.5, needs=[layer_mask_and_causal])
def layer_padding_and_causal(MultiHeadLayer, draw):
    """Applies both when the mask has one row for each sequence, (b, 1, n), with padding at either end."""
    values = parameters(draw, 24, 4, 4)
    layer, x = loaded(MultiHeadLayer, values, 24, 4, 4), draw.tensor(2, 7, 24)
    for mask in (padding(7, 4), padding(7, 4).flip(-1)):  # in front, the first tokens see nothing
        expect_layer(layer, values, x, 4, 4, mask, True)


@check(weight=0.25, needs=[layer_padding_and_causal])
def layer_long(MultiHeadLayer, draw):
    """Beyond 128 tokens, also applies a mask, with or without `is_causal`."""
    values, n = parameters(draw, 24, 4, 4), int(draw.rng.integers(140, 180))
    layer, x = loaded(MultiHeadLayer, values, 24, 4, 4), draw.tensor(2, n, 24)
    for mask in (random_mask(draw, n, n), padding(n, n - 50)):
        for is_causal in (False, True):
            expect_layer(layer, values, x, 4, 4, mask, is_causal)


@check(weight=0.5, needs=[layer_masks])
def layer_large_scores(MultiHeadLayer, draw):
    """Masked tokens have the weight 0, even if the other scores are as low as -1000 or -1e10."""
    values, x = parameters(draw, 24, 4, 4), draw.tensor(2, 7, 24)
    mask = torch.eye(7, dtype=torch.bool)[
        draw.rng.permutation(7)
    ]  # a single key for each token: its weight is 1
    for score in (1e3, 1e10):
        low = values | {
            "W_q.bias": torch.full((24,), math.sqrt(score)).double(),
            "W_k.bias": torch.full((24,), -math.sqrt(score)).double(),
        }
        expect_layer(loaded(MultiHeadLayer, low, 24, 4, 4), low, x, 4, 4, mask)


@check(weight=0.5, needs=[layer_masks])
def layer_in_training(MultiHeadLayer, draw):
    """In training mode, the mode of a new layer, the results are the same: there is no dropout."""
    values, x = parameters(draw, 24, 4, 4), draw.tensor(2, 7, 24)
    layer = loaded(MultiHeadLayer, values, 24, 4, 4).train()
    try:
        for mask in (None, random_mask(draw, 7, 7)):
            expect_layer(layer, values, x, 4, 4, mask)
    except Failed as failure:
        message = "All is right after `eval()`, but not in training mode: look for dropout or the like. {rest}"
        raise Failed(Message(message, rest=failure.message), explained=True) from None


@check(weight=0.25, needs=[layer_mask_and_causal])
def layer_kept(MultiHeadLayer, draw):
    """Does not change `x` and `mask`."""
    layer = loaded(MultiHeadLayer, parameters(draw, 24, 4, 4), 24, 4, 4)
    for mask in (random_mask(draw, 7, 7), random_mask(draw, 2, 7, 7)):
        expect_unchanged(layer, ["x", "mask", "is_causal"], draw.tensor(2, 7, 24), mask, True)


def by_name(layer, x, mask):
    """Call the layer with arguments by name."""
    import torch

    with torch.no_grad():
        return layer(x, is_causal=True, mask=mask), layer(x=x, cache=None, mask=mask)


@check(weight=0.25, needs=[layer_mask_and_causal])
def layer_by_name(MultiHeadLayer, draw):
    """Accepts `mask`, `is_causal` and `cache` by name, in any order."""
    values, x, mask = parameters(draw, 24, 4, 4), draw.tensor(2, 7, 24), random_mask(draw, 7, 7)
    results = loaded(MultiHeadLayer, values, 24, 4, 4).run_remote(by_name, x, mask)
    for got, seen in zip(results, (mask & earlier(7), mask), strict=True):
        expect_close(got, out_of(values, x, 4, 4, seen))


def in_pieces(layer, x, lengths, is_causal, mask=None):
    """Let the layer read the tokens in pieces, with a cache; return the outputs, and how often it appended."""
    import torch

    class Cache:
        def __init__(self):
            self.k = self.v = None
            self.times = 0

        def append(self, k, v):
            self.times += 1
            self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
            self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
            return self.k, self.v

    cache, outs = Cache(), []
    with torch.no_grad():
        for piece in x.split(lengths, dim=1):
            i = sum(out.shape[1] for out in outs)
            j = i + piece.shape[1]
            seen = mask if mask is None or mask.shape[-2] == 1 else mask[i:j]
            outs.append(layer(piece, None if seen is None else seen[..., :j], is_causal, cache))
    return torch.cat(outs, dim=1), cache.times, 0 if cache.k is None else cache.k.shape[1]


@check(weight=1.5, needs=[layer_grouped, layer_causal])
def layer_cache(MultiHeadLayer, draw):
    """Causal reading in pieces with a cache, with one `append` per piece, gives the same results as all at once."""
    values = parameters(draw, 24, 4, 2)
    layer, x = loaded(MultiHeadLayer, values, 24, 4, 2), draw.tensor(2, 7, 24)
    out, times, h_kv = layer.run_remote(in_pieces, x, [3, 1, 2, 1], True)
    expect_close(out, out_of(values, x, 4, 2, earlier(7)))
    if (times, h_kv) != (4, 2):
        raise Failed(
            Message(
                "Expected 4 pieces and 2 key heads in the cache; `append` was called {times} times, with {h_kv} "
                "heads.",
                times=times,
                h_kv=h_kv,
            ),
            explained=True,
        )


@check(weight=0.5, needs=[layer_cache, layer_mask_and_causal])
def layer_cache_and_mask(MultiHeadLayer, draw):
    """With a cache, a mask has a column for each key so far, and `is_causal` also applies."""
    values = parameters(draw, 24, 4, 2)
    layer, x = loaded(MultiHeadLayer, values, 24, 4, 2), draw.tensor(2, 7, 24)
    for mask in (random_mask(draw, 7, 7), padding(7, 4)):
        for is_causal in (False, True):
            out = layer.run_remote(in_pieces, x, [3, 1, 3], is_causal, mask)[0]
            expect_close(out, out_of(values, x, 4, 2, mask & in_sight([3, 1, 3], is_causal)))


def in_turn(layer, x, y):
    """Let the layer read two texts in turn, a cache for each, and then one of them at once; return the outputs."""
    import torch

    class Cache:
        def __init__(self):
            self.k = self.v = None

        def append(self, k, v):
            self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
            self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
            return self.k, self.v

    caches, outs = (Cache(), Cache()), ([], [])
    with torch.no_grad():
        for parts in zip(x.split(3, 1), y.split(3, 1), strict=True):
            for part, cache, pieces in zip(parts, caches, outs, strict=True):
                pieces.append(layer(part, None, True, cache))
        return torch.cat(outs[0], 1), torch.cat(outs[1], 1), layer(x), layer(x, None, True)


@check(weight=0.5, needs=[layer_cache])
def layer_keeps_nothing(MultiHeadLayer, draw):
    """Keeps nothing between calls: two texts are read in turn, each with its own cache, and one without."""
    values, x, y = parameters(draw, 24, 4, 2), draw.tensor(2, 7, 24), draw.tensor(2, 8, 24)
    results = loaded(MultiHeadLayer, values, 24, 4, 2).run_remote(in_turn, x, y)
    for what, got, text, seen in zip(
        (
            Message("the result for the first text (read in turn with a second)"),
            Message("the result for the second text (read in turn with the first)"),
            Message("the result without a cache (after calls with one)"),
            Message("the result without a cache, causally (after calls with one)"),
        ),
        expect_tuple(results, ["out"] * 4), (x, y, x, x), (earlier(7), earlier(8), None, earlier(7)), strict=True,
    ):  # fmt: skip
        expect_close(got, out_of(values, text, 4, 2, seen), what=what)


@check(weight=1, needs=[layer_mask_and_causal, layer_grouped])
def layer_gradients(MultiHeadLayer, draw):
    """Gradients flow to the input and to each parameter, also with a mask."""
    values = parameters(draw, 24, 4, 2)
    layer, x, upstream = (
        loaded(MultiHeadLayer, values, 24, 4, 2),
        draw.tensor(2, 5, 24),
        draw.tensor(2, 5, 24),
    )
    for mask in (None, random_mask(draw, 5, 5)):
        leaf = x.clone().requires_grad_()
        parts = {name: value.clone().requires_grad_() for name, value in values.items()}
        (out_of(parts, leaf, 4, 2, mask) * upstream).sum().backward()
        expected = as_named(layer, {name: part.grad for name, part in parts.items()})
        _, input_gradients, of_parameters = backward(layer, x, mask, upstream=upstream)
        for name, got in expect_gradients(layer, of_parameters, expected).items():
            # The gradient of a key bias is 0, since it shifts all scores of a query equally: the rest is rounding.
            unit = np.array(max(np.abs(expected[name].numpy()).max(), 1.0))
            expect_close(
                got, expected[name], what=Message("the gradient of {name}", name=name), unit=unit
            )
        expect_close(input_gradients[0], leaf.grad, what=Message("the gradient of x"))


@check(weight=1, needs=[layer_values])
def layer_dtypes(MultiHeadLayer, draw):
    """The result has the dtype of input and parameters (float32, float64, float16 or bfloat16), also with a mask."""
    layer = MultiHeadLayer.module(24, 4, 2, True)
    for kind in KINDS:
        layer.to(kind)
        for mask, is_causal in [
            (None, False),
            (None, True),
            (random_mask(draw, 5, 5), False),
            (random_mask(draw, 5, 5), True),
        ]:
            expect_tensor(
                layer(draw.tensor(2, 5, 24, dtype=kind), mask, is_causal), (2, 5, 24), kind
            )


def on_meta(layer, x, mask):
    """Run a copy of the layer on a device that has only shapes; return the device of the results, or the error."""
    import copy

    moved, x, mask = copy.deepcopy(layer).to("meta"), x.to("meta"), mask.to("meta")
    devices = []
    for arguments in [(x,), (x, None, True), (x, mask), (x, mask, True)]:
        try:
            devices.append(str(moved(*arguments).device))
        except Exception as error:
            devices.append(f"{type(error).__name__}: {error}".split("\n")[0][:200])
    return devices


@check(weight=0.5, needs=[layer_mask_and_causal])
def layer_device(MultiHeadLayer, draw):
    """Makes all tensors on the device of its input, whichever it is: the one here is named "meta"."""
    layer = MultiHeadLayer.module(24, 4, 2, True)
    devices = layer.run_remote(
        on_meta, draw.tensor(2, 5, 24, dtype=torch.float32), random_mask(draw, 5, 5)
    )
    ways = (Message("neither mask nor is_causal"), "is_causal", Message("a mask"), Message("both"))
    for way, device in zip(ways, devices, strict=False):
        if device != "meta":
            message = (
                'Input and layer were moved to the device "meta". With {way}, the result was: {own}'
            )
            raise Failed(Message(message, way=way, own=device), explained=True)


def largest(layer, x, lengths):
    """Return the size of the largest tensor when the layer reads tokens in pieces, causally and with a cache."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Cache:
        k = v = None

        def append(self, k, v):
            self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
            self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
            return self.k, self.v

    most = 0

    class Looking(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls):
            return False  # as in checking/memory.py: nothing is compiled here

        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            nonlocal most
            result = function(*arguments, **(keywords or {}))
            for part in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(part, torch.Tensor):
                    most = max(most, part.untyped_storage().nbytes() // part.element_size())
            return result

    cache = Cache()
    with torch.no_grad(), Looking():
        for piece in x.split(lengths, dim=1):
            layer(piece, None, True, cache)
    return most


def frozen(layer):
    layer.requires_grad_(False)


@check(weight=1.5, needs=[layer_cache], measured=True)
def layer_held(MultiHeadLayer, draw):
    """Without a mask, holds nothing n x n: causal, with grouped heads, or with a cache and one more token."""
    n = 1000
    layer = MultiHeadLayer.module(16, 2, 1, True)
    x = draw.tensor(1, n, 16, dtype=torch.float32)
    layer.run_remote(frozen)  # what is kept for the backward pass is not counted here
    tested = types.SimpleNamespace(
        function=layer.module, call=layer.subject.call, result=layer.subject.result, name=layer.name
    )
    for is_causal in (False, True):
        expect_held(tested, int(0.9 * n * n), x, None, is_causal)
    most = layer.run_remote(largest, x[:, :601], [600, 1])
    if most > 0.5 * 600 * 600:
        raise Failed(
            Message(
                "When it read 600 tokens and then 1, with a cache, the layer made a tensor of {most} numbers.",
                most=str(most),
            ),
            explained=True,
        )


def compiled(layer, x, mask, upstream):
    """Compile the layer, forward and backward, as one graph; return the result and the gradient, or the error."""
    import torch

    torch._dynamo.reset()
    x = x.clone().requires_grad_()
    try:
        out = torch.compile(layer, fullgraph=True, backend="aot_eager")(x, mask, True)
        out.backward(upstream)
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n")[0][:200]
    finally:
        torch._dynamo.reset()
    return out.detach(), x.grad


@check(weight=1.5, needs=[layer_gradients, layer_cache, layer_dtypes, layer_device], on="compile")
def layer_compiles(MultiHeadLayer, draw):
    """`torch.compile` makes one graph of the layer, without a break, forward and backward."""
    values = parameters(draw, 24, 4, 2)
    layer = loaded(MultiHeadLayer, values, 24, 4, 2)
    for mask in (None, random_mask(draw, 5, 5)):
        x, upstream = draw.tensor(2, 5, 24), draw.tensor(2, 5, 24)
        results = layer.run_remote(compiled, x, mask, upstream)
        if isinstance(results, str):
            raise Failed(
                Message(
                    "`torch.compile(layer, fullgraph=True)` failed with {came}", came=str(results)
                ),
                explained=True,
            )
        leaf = x.clone().requires_grad_()
        expected = out_of(values, leaf, 4, 2, earlier(5) if mask is None else mask & earlier(5))
        expected.backward(upstream)
        expect_close(
            results[0], expected.detach(), what=Message("the result of the compiled layer")
        )
        expect_close(results[1], leaf.grad, what=Message("the gradient of x in the compiled layer"))


def on_cuda(layer, x, mask, upstream, kind):
    """Run a copy of the layer on a GPU; return result, gradient, their device and dtype."""
    import copy

    moved = copy.deepcopy(layer).to("cuda", kind)
    x = x.to("cuda", kind).requires_grad_()
    out = moved(x, None if mask is None else mask.to("cuda"), True)
    out.backward(upstream.to("cuda", kind))
    return out.detach().double().cpu(), x.grad.double().cpu(), out.device.type, str(out.dtype)


@check(weight=1.5, needs=[layer_gradients, layer_device], on="gpu")
def layer_on_a_gpu(MultiHeadLayer, draw):
    """On a GPU, the result and the gradient are on the GPU, and are right in float32, float16 and bfloat16."""
    values = parameters(draw, 64, 4, 2)
    layer = loaded(MultiHeadLayer, values, 64, 4, 2)
    x, upstream = draw.tensor(2, 40, 64), draw.tensor(2, 40, 64)
    for kind, rtol in TOLERANCES.items():
        for mask in (None, random_mask(draw, 40, 40)):
            *results, device, name = layer.run_remote(on_cuda, x, mask, upstream, kind)
            if (device, name) != ("cuda", str(kind)):
                raise Failed(
                    Message(
                        "For input of {kind} on cuda, the result was {name} on {device}.",
                        kind=str(kind),
                        name=name,
                        device=str(device),
                    ),
                    explained=True,
                )
            leaf = x.clone().requires_grad_()
            expected = out_of(
                values, leaf, 4, 2, earlier(40) if mask is None else mask & earlier(40)
            )
            expected.backward(upstream)
            # Input and parameters are also rounded, before each of four products: four times a kernel's tolerance.
            for what, got, right in zip(
                ("out", Message("the gradient of x")),
                results,
                (expected.detach(), leaf.grad),
                strict=True,
            ):
                expect_close(got, right, what=what, rtol=4 * rtol, unit=units(right))

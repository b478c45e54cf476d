"""Checks of exercise 11. Yours to read: each is one sentence about a function or a class, and inputs that would show
it false.

Results are compared with attention written out in float64, n x n and all. `RTOL` in `checking/expect.py` is the
tolerance. What only a GPU could show, such as speed, TF32 or 16 bits in the kernel, is not asked here.
"""

import math

import numpy as np
import torch

from checking import (
    Failed,
    Suite,
    backward,
    expect_by_hand,
    expect_close,
    expect_parameters,
    expect_tensor,
    expect_tuple,
)
from checking.memory import expect_held

torch.set_num_threads(1)  # everything here is small

suite = Suite(__name__, read={})
check, run = suite.check, suite.run

KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@check()
def by_hand_online(by_hand, draw):
    """The four numbers are the first total, the factor, the last total, and the output."""
    scores, values = np.log([1.0, 2, 4, 4]), np.array([4.0, 1, 2, 6])
    totals = [np.exp(part - part.max()).sum() for part in (scores[:2], scores)]
    factor = np.exp(scores[:2].max() - scores.max())
    expect_by_hand(by_hand(), [totals[0], factor, totals[1], np.exp(scores) @ values / np.exp(scores).sum()])


# What is asked, in full.


def attended(q, k, v, seen=None):
    """Return the output and the log-sum-exp; `seen` is True where a query sees a key."""
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.shape[-1])
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v), scores.logsumexp(-1)


def earlier(n, n_k=None):
    n_k = n if n_k is None else n_k
    return torch.ones(n, n_k, dtype=torch.bool).tril(n_k - n)


def tensor(draw, *shape, kind=torch.float64):
    return torch.from_numpy(draw.array(*shape)).to(kind)


def heads(draw, n, b=2, h=1, d=16):
    return [tensor(draw, b, h, n, d, kind=torch.float32) for _ in range(3)]


def expect_forward(function, inputs, causal, parts=(0, 1)):
    """Fail unless the output, the log-sum-exp, or both are right."""
    seen = earlier(inputs[0].shape[2]) if causal else None
    expected = attended(*(own.double() for own in inputs), seen)
    result = function(*inputs, causal)
    for place in parts:
        what = ("out", "lse")[place]
        got = result[place].double() if hasattr(result[place], "double") else result[place]
        expect_close(got, expected[place], what=what)


@check(weight=1)
def forward_shapes(flash_attention_forward, draw):
    """The results are a tuple, `out` of shape (b, h, n, d) and `lse` of shape (b, h, n), in float32."""
    n = int(draw.rng.integers(3, 12))
    result = flash_attention_forward(*heads(draw, n, h=3), False)
    expect_tuple(result, ("out", "lse"))
    expect_tensor(result[0], (2, 3, n, 16), torch.float32, what="out")
    expect_tensor(result[1], (2, 3, n), torch.float32, what="lse")


@check(weight=2, needs=[forward_shapes])
def forward_one_tile(flash_attention_forward, draw):
    """Where one tile has all keys, 32 of them, `out` is what attention gives, for heads of 16 and of 32 numbers."""
    for d in (16, 32):
        expect_forward(flash_attention_forward, heads(draw, 32, h=2, d=d), False, parts=[0])


@check(weight=2, needs=[forward_one_tile])
def forward_tiles(flash_attention_forward, draw):
    """Where the keys come in several whole tiles, `out` is what attention gives, whichever has the largest score."""
    for shares in [(1, 4), (4, 1)]:
        q, k, v = heads(draw, 64)
        q, k = q.abs(), k.abs() * torch.tensor(shares).repeat_interleave(32)[:, None]
        expect_forward(flash_attention_forward, [q, k, v], False, parts=[0])


@check(weight=1, needs=[forward_tiles])
def forward_ragged(flash_attention_forward, draw):
    """A length that is no multiple of a tile's side leaves nothing out and adds nothing."""
    for n in (1, int(draw.rng.integers(33, 63))):
        expect_forward(flash_attention_forward, heads(draw, n), False, parts=[0])


@check(weight=2, needs=[forward_tiles])
def forward_causal(flash_attention_forward, draw):
    """With `causal`, query i sees the keys up to its own, and no others, within a tile and beyond it."""
    for n in (96, 32, int(draw.rng.integers(65, 95))):
        expect_forward(flash_attention_forward, heads(draw, n), True, parts=[0])


@check(weight=1, needs=[forward_one_tile])
def forward_lse(flash_attention_forward, draw):
    """`lse` is the natural logarithm of the sum of exp(scores), the maximum counted in."""
    q, k, v = heads(draw, 64)
    expect_forward(flash_attention_forward, [2 * q, k, v], False, parts=[1])


@check(weight=1, needs=[forward_tiles])
def forward_held(flash_attention_forward, draw):
    """Nothing n x n is held in memory, for n = 256 neither."""
    n = 256
    inputs = heads(draw, n, b=1)
    result = expect_held(flash_attention_forward, 3.8 * n * n, *inputs, False)
    expected = attended(*(own.double() for own in inputs))[0]
    expect_close(result[0].double(), expected, what="out")


# flash_attention


def expect_backward(function, draw, n, causal, names, d=16):
    inputs = heads(draw, n, b=1, h=2, d=d)
    upstream = tensor(draw, *inputs[0].shape, kind=torch.float32)
    _, came, _ = backward(function, *inputs, causal, upstream=upstream)
    leaves = [own.double().requires_grad_() for own in inputs]
    attended(*leaves, earlier(n) if causal else None)[0].backward(upstream.double())
    for name, got, leaf in zip("QKV", came, leaves, strict=False):
        if name in names:
            if got is None:
                raise Failed(f"No gradient came to {name}.")
            expect_close(got.double(), leaf.grad, what=f"the gradient of {name}")


@check(weight=1)
def flash_values(flash_attention, draw):
    """The result is that of attention, with `causal` and without."""
    for causal in (False, True):
        inputs = heads(draw, 20)
        expected = attended(*(own.double() for own in inputs), earlier(20) if causal else None)[0]
        result = flash_attention(*inputs, causal)
        expect_tensor(result, (2, 1, 20, 16), torch.float32)
        expect_close(result.double(), expected)


@check(weight=2, needs=[flash_values])
def flash_dv(flash_attention, draw):
    """The gradient of V is P^T dO."""
    expect_backward(flash_attention, draw, 20, False, "V")


@check(weight=2, needs=[flash_values])
def flash_dq(flash_attention, draw):
    """The gradient of Q is dS K / sqrt(d)."""
    expect_backward(flash_attention, draw, 20, False, "Q")


@check(weight=2, needs=[flash_values])
def flash_dk(flash_attention, draw):
    """The gradient of K is dS^T Q / sqrt(d)."""
    expect_backward(flash_attention, draw, 20, False, "K")


@check(weight=1, needs=[flash_dv, flash_dq, flash_dk])
def flash_causal_gradients(flash_attention, draw):
    """With `causal`, and heads of 32 numbers, all three gradients are right, in whole tiles and others."""
    for n in (64, int(draw.rng.integers(33, 60))):
        expect_backward(flash_attention, draw, n, True, "QKV", d=32)


# MultiHeadLayer


def parameters(draw, d_model, h, h_kv, bias=True):
    """Return drawn parameters of four projections, by name."""
    kv = h_kv * d_model // h
    values = {}
    for name, rows in [("W_q", d_model), ("W_k", kv), ("W_v", kv), ("W_o", d_model)]:
        values[f"{name}.weight"] = tensor(draw, rows, d_model) / math.sqrt(d_model)
        if bias:
            values[f"{name}.bias"] = tensor(draw, rows)
    return values


def as_named(layer, values):
    """Return the parameters under the names that a layer has: with one fused projection, or three."""
    if "W_qkv.weight" not in layer.shapes():
        return values
    fused = {}
    for kind in ("weight", "bias"):
        if f"W_o.{kind}" in values:
            fused[f"W_qkv.{kind}"] = torch.cat([values[f"{name}.{kind}"] for name in ("W_q", "W_k", "W_v")])
            fused[f"W_o.{kind}"] = values[f"W_o.{kind}"]
    return fused


def out_of(values, x, h, h_kv, seen=None):
    """Return what the layer should: head by head."""
    d_head = x.shape[2] // h

    def project(name, x=x):
        return x @ values[f"{name}.weight"].T + values.get(f"{name}.bias", 0)

    q, k, v = (project(name) for name in ("W_q", "W_k", "W_v"))
    found = []
    for i in range(h):
        j = i * h_kv // h
        q_i, (k_j, v_j) = q[..., i * d_head :][..., :d_head], (own[..., j * d_head :][..., :d_head] for own in (k, v))
        own = seen if seen is None or seen.dim() == 2 else seen[:, i if seen.shape[1] > 1 else 0][:, None]
        found.append(attended(q_i[:, None], k_j[:, None], v_j[:, None], own)[0][:, 0])
    return project("W_o", torch.cat(found, -1))


def loaded(made, values, d_model, h, h_kv, bias=True):
    layer = made.module(d_model, h, h_kv, bias)
    return layer.load(as_named(layer, values), torch.float64, False)


def expect_layer(layer, values, x, h, h_kv, mask=None, is_causal=False):
    n = x.shape[1]
    seen = mask
    if is_causal:
        seen = earlier(n) if mask is None else mask & earlier(n)
    expect_close(layer(x, mask, is_causal), out_of(values, x, h, h_kv, seen))


def some(draw, *shape):
    """Return a mask in which each query sees itself, and half of the others."""
    return torch.from_numpy(draw.rng.random(shape) < 0.5) | torch.eye(shape[-1], dtype=torch.bool)


@check(weight=1)
def layer_parameters(MultiHeadLayer, draw):
    """The parameters have the names and shapes that stand in the docstring, and biases only where asked for."""
    for h_kv, bias in [(4, True), (2, False)]:
        layer = MultiHeadLayer.module(24, 4, h_kv, bias)
        values = as_named(layer, parameters(draw, 24, 4, h_kv, bias))
        expect_parameters(layer, {name: tuple(own.shape) for name, own in values.items()})


@check(weight=2, needs=[layer_parameters])
def layer_values(MultiHeadLayer, draw):
    """Without a mask, and with as many heads of keys as of queries, the layer is that of exercise 6."""
    values = parameters(draw, 24, 4, 4)
    layer = loaded(MultiHeadLayer, values, 24, 4, 4)
    expect_layer(layer, values, tensor(draw, 2, 7, 24), 4, 4)


@check(weight=1, needs=[layer_values])
def layer_grouped(MultiHeadLayer, draw):
    """Query head i uses head i // (h / h_kv) of keys and values."""
    for h_kv in (2, 1):
        values = parameters(draw, 24, 4, h_kv)
        expect_layer(loaded(MultiHeadLayer, values, 24, 4, h_kv), values, tensor(draw, 2, 5, 24), 4, h_kv)


@check(weight=1, needs=[layer_values])
def layer_causal(MultiHeadLayer, draw):
    """With `is_causal`, token i sees the tokens up to its own."""
    values = parameters(draw, 24, 4, 4)
    expect_layer(loaded(MultiHeadLayer, values, 24, 4, 4), values, tensor(draw, 2, 7, 24), 4, 4, None, True)


@check(weight=1, needs=[layer_values])
def layer_masks(MultiHeadLayer, draw):
    """A mask is heeded, of two axes or four, one for each sequence or for each head."""
    values = parameters(draw, 24, 4, 4)
    layer = loaded(MultiHeadLayer, values, 24, 4, 4)
    for shape in [(7, 7), (2, 1, 7, 7), (2, 4, 7, 7)]:
        expect_layer(layer, values, tensor(draw, 2, 7, 24), 4, 4, some(draw, *shape))


@check(weight=1, needs=[layer_causal, layer_masks])
def layer_mask_and_causal(MultiHeadLayer, draw):
    """With a mask and `is_causal`, both hold."""
    values = parameters(draw, 24, 4, 4)
    layer = loaded(MultiHeadLayer, values, 24, 4, 4)
    expect_layer(layer, values, tensor(draw, 2, 7, 24), 4, 4, some(draw, 7, 7), True)


def in_pieces(layer, x, lengths, is_causal):
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

    cache = Cache()
    with torch.no_grad():
        outs = [layer(own, None, is_causal, cache) for own in x.split(lengths, dim=1)]
    return torch.cat(outs, dim=1), cache.times, 0 if cache.k is None else cache.k.shape[1]


@check(weight=2, needs=[layer_grouped, layer_causal])
def layer_cache(MultiHeadLayer, draw):
    """Read in pieces with a cache, causally, the tokens get what they get at once: one `append` for each piece."""
    values = parameters(draw, 24, 4, 2)
    layer, x = loaded(MultiHeadLayer, values, 24, 4, 2), tensor(draw, 2, 7, 24)
    out, times, h_kv = layer.there(in_pieces, x, [3, 1, 2, 1], True)
    expect_close(out, out_of(values, x, 4, 2, earlier(7)))
    if (times, h_kv) != (4, 2):
        raise Failed(
            f"4 pieces and 2 heads of keys were to be cached; `append` was called {times} times, with {h_kv}."
        )


@check(weight=1, needs=[layer_masks])
def layer_gradients(MultiHeadLayer, draw):
    """Gradients flow to the input, through a mask too."""
    values = parameters(draw, 24, 4, 4)
    layer, x, mask = loaded(MultiHeadLayer, values, 24, 4, 4), tensor(draw, 2, 5, 24), some(draw, 5, 5)
    upstream = tensor(draw, 2, 5, 24)
    leaf = x.clone().requires_grad_()
    out_of(values, leaf, 4, 4, mask).backward(upstream)
    _, came, _ = backward(layer, x, mask, upstream=upstream)
    expect_close(came[0], leaf.grad, what="the gradient of x")


@check(weight=1, needs=[layer_values])
def layer_dtypes(MultiHeadLayer, draw):
    """The result has the dtype of input and parameters: float32, float64, float16, bfloat16."""
    layer = MultiHeadLayer.module(24, 4, 2, True)
    for kind in KINDS:
        layer.to(kind)
        for is_causal in (False, True):
            expect_tensor(layer(tensor(draw, 2, 5, 24, kind=kind), None, is_causal), (2, 5, 24), kind)

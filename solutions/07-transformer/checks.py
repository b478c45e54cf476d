"""Checks of exercise 7. You may read them: each is one sentence about a function or a class, with inputs on which a
wrong function or class fails.

`EncoderLayer` and `DecoderLayer` are compared with PyTorch's own layers or, where these have no answer, with
`specifications`, which computes attention with einsum and the norms by hand. It is in checking.zip together with the
runtime, `checking`, so that no one sees an answer by accident. Parameters are drawn at random and loaded by name, in
float64 unless a check says otherwise. You choose the parameters of `TinyGPT`, which are also drawn at random; its
checks test what depends on what, and whether it learns. `generate` gets a model whose next token depends on all
tokens that it sees. The tolerance is `RTOL` in `checking/expect.py`, which explains how it was chosen. The course's
tests measure how far right answers stay below it and known mistakes above it.
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

import functools
import math

import numpy as np
import torch
from torch import nn

from checking import (
    Failed,
    Message,
    Module,
    Suite,
    backward,
    expect,
    expect_by_hand,
    expect_close,
    expect_gradients,
    expect_parameters,
    expect_raises,
    expect_tensor,
    expect_tensor_dtypes,
    expect_unchanged,
    left_as_it_was,
    noncontiguous,
)
from specifications import continued, fed, of_torch, specified

torch.set_num_threads(1)  # everything here is small

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 7, By hand",
        "FeedForward": "chapter 7, The feed-forward network",
        "EncoderLayer": "chapter 7, The encoder layer",
        "DecoderLayer": "chapter 7, The decoder layer",
        "TinyGPT": "chapter 7, A tiny GPT",
        "generate": "chapter 7, Generation",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset

REFUSED = (ValueError, RuntimeError, IndexError)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
PROJECTIONS = ("W_q", "W_k", "W_v")
PARTS = {"EncoderLayer": ("self_attn",), "DecoderLayer": ("self_attn", "multihead_attn")}


# by_hand


@check()
def by_hand_one_token(by_hand, draw):
    """Returns the output of the layer for the token: two parts each add their result to the stream."""
    x = np.array([1.0, 1, 5, 5])
    W_o = np.array([[0.0, 0, 1, 0], [0, 1, 1, 0], [2, 1, 0, 2], [0, 0, 0, 2]])
    W_1 = np.array([[0.0, 3], [0, 9], [0, 0], [6, 0]])
    W_2 = np.array([[0.5, 1, 0, -0.2], [1, 0, 2, 1]])

    def norm(x):
        return (x - x.mean()) / x.std()

    x = x + norm(x) @ W_o  # one token attends to itself, with weight 1
    hidden = norm(x) @ W_1
    expect_by_hand(by_hand(), x + hidden * [0.5 + 0.5 * math.erf(t / 2**0.5) for t in hidden] @ W_2)


# Inputs


def sizes(draw):
    """Return five small sizes, all different, for example b, n, m, h and d_head. Their products are never `wide`."""
    return [int(size) for size in draw.rng.permutation([2, 3, 4, 5, 7])]


def sizes_of_layer(draw):
    """Return b, n, m, h and d_head, all different: the memory is shorter than x."""
    b, *lengths, h, d_head = sizes(draw)
    return b, max(lengths), min(lengths), h, d_head


def wide(draw):
    """Return a number of hidden units."""
    return int(draw.rng.choice([11, 13, 17]))


def late(n_q, n_k):
    """Return a mask that allows only the last three keys: in a long sequence, the effect of a few others is tiny."""
    return (torch.arange(n_k) >= n_k - 3).expand(n_q, n_k).clone()


def linear(draw, name, d_in, d_out):
    """Return weight and bias of an `nn.Linear` by name; for inputs of about 1 its outputs are about 1."""
    return {
        f"{name}.weight": draw.tensor(d_out, d_in) / d_in**0.5,
        f"{name}.bias": draw.tensor(d_out),
    }


def of_feed_forward(draw, d_model, d_ff, before=""):
    return linear(draw, f"{before}linear1", d_model, d_ff) | linear(
        draw, f"{before}linear2", d_ff, d_model
    )


def parameters(draw, kind, d_model, d_ff):
    """Return parameters of an `EncoderLayer` or a `DecoderLayer`, by name."""
    values = {}
    for part in PARTS[kind]:
        for name in (*PROJECTIONS, "W_o"):
            values |= linear(draw, f"{part}.{name}", d_model, d_model)
    values |= of_feed_forward(draw, d_model, d_ff, "feed_forward.")
    for i in range(len(PARTS[kind]) + 1):
        values[f"norm{i + 1}.weight"], values[f"norm{i + 1}.bias"] = (
            draw.tensor(d_model),
            draw.tensor(d_model),
        )
    return values


def shapes(values):
    return {name: tuple(value.shape) for name, value in values.items()}


def inputs(draw, kind, b, n, m, d_model):
    """Return a layer's arguments without masks: x, and the memory for a decoder layer.

    Numbers in x differ by more than 1, so the constant that a norm adds to the variance matters only in one check.
    """
    x = 4 * draw.tensor(b, n, d_model)
    return (x,) if kind == "EncoderLayer" else (x, draw.tensor(b, m, d_model))


# FeedForward


def loaded_network(FeedForward, values, ahead=()):
    """Return a network with these parameters; `ahead` has the arguments of the next calls."""
    d_ff, d_model = values["linear1.weight"].shape
    return FeedForward.loaded((d_model, d_ff), values, torch.float64, training=False, ahead=ahead)


def expect_fed(FeedForward, values, *inputs):
    network = loaded_network(FeedForward, values, [(x,) for x in inputs])
    for x in inputs:
        expect_close(network(x), fed(values, x))


@check(weight=1)
def FeedForward_parameters(FeedForward, draw):
    """Has two layers with biases and nothing else: `linear1` from d_model to d_ff, and `linear2` back."""
    d_model, *_ = sizes(draw)
    d_ff = wide(draw)
    expect_parameters(
        FeedForward.module(d_model, d_ff), shapes(of_feed_forward(draw, d_model, d_ff))
    )


@check(weight=1, needs=[FeedForward_parameters])
def FeedForward_shape(FeedForward, draw):
    """Returns a tensor of shape (b, n, d_model)."""
    b, n, d_model, *_ = sizes(draw)
    values, x = of_feed_forward(draw, d_model, wide(draw)), draw.tensor(b, n, d_model)
    expect_tensor(loaded_network(FeedForward, values, [(x,)])(x), (b, n, d_model))


@check(weight=1, needs=[FeedForward_shape])
def FeedForward_curve(FeedForward, draw):
    """Applies GELU between the two layers, also near t = -3: t times the share of a normal distribution below t."""
    b, n, d_model, *_ = sizes(draw)
    d_ff = wide(draw)
    values = of_feed_forward(draw, d_model, d_ff)
    values["linear1.weight"] *= 0
    values["linear2.bias"] *= 0
    x = draw.tensor(b, n, d_model)
    for low, high in [(-3.1, -2.6), (0.3, 3.0)]:
        values["linear1.bias"] = torch.tensor(draw.rng.uniform(low, high, d_ff))
        values["linear2.weight"] = values["linear2.weight"].abs()
        expect_fed(FeedForward, values, x)


@check(weight=2, needs=[FeedForward_curve])
def FeedForward_values(FeedForward, draw):
    """Applies `linear1`, GELU and `linear2` to each token, and nothing else."""
    b, n, d_model, *_ = sizes(draw)
    values = of_feed_forward(draw, d_model, wide(draw))
    expect_fed(
        FeedForward, values, draw.tensor(b, n, d_model), noncontiguous(draw.tensor(b, n, d_model))
    )


@check(weight=1, needs=[FeedForward_values])
def FeedForward_sizes(FeedForward, draw):
    """Works when all dimensions are equal, for long dimensions, and for dimensions of size 1."""
    size, other, *_ = sizes(draw)
    long = draw.long()
    cases = [
        (size, size, size, size),
        (1, other, size, 2),
        (size, 1, other, 3),
        (2, size, 1, other),
        (2, size, other, 1),
    ]
    for b, n, d_model, d_ff in [*cases, (1, long, 2, 3), (1, 2, long, 3), (1, 2, 3, long)]:
        values = of_feed_forward(draw, d_model, d_ff)
        x = draw.tensor(b, n, d_model)
        expect_fed(FeedForward, values, x)


@check(weight=0, needs=[FeedForward_shape])
def FeedForward_refuses(FeedForward, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` when the last size is not d_model, even if it is 1."""
    b, n, d_model, *_ = sizes(draw)
    values = of_feed_forward(draw, d_model, wide(draw))
    cases = [(draw.tensor(b, n, d),) for d in (d_model + 1, d_model - 1, 1)]
    network = loaded_network(FeedForward, values, cases)
    for case in cases:
        expect_raises(
            REFUSED, network, *case, because=Message("d_model is {d_model}", d_model=d_model)
        )


@check(weight=1, needs=[FeedForward_values])
def FeedForward_gradients(FeedForward, draw):
    """Gradients flow to all parameters and to x."""
    b, n, d_model, *_ = sizes(draw)
    values = of_feed_forward(draw, d_model, wide(draw))
    network = loaded_network(FeedForward, values)
    x, upstream = draw.tensor(b, n, d_model), draw.tensor(b, n, d_model)
    expect_backward(network, lambda values, x: fed(values, x), values, (x,), (), upstream)


def expect_backward(layer, specification, values, floating, masks, upstream):
    """Fail unless the gradients of parameters and inputs match those of a specification of (values, *inputs)."""
    leaves = [part.clone().requires_grad_() for part in floating]
    parts = {name: part.clone().requires_grad_() for name, part in values.items()}
    (specification(parts, *leaves, *masks) * upstream).sum().backward()
    _, input_gradients, of_parameters = backward(layer, *floating, *masks, upstream=upstream)
    for name, part in expect_gradients(layer, of_parameters, parts).items():
        # The gradient of the key bias is 0, since it shifts all scores of a query equally; the rest is rounding.
        unit = max(np.abs(parts[name].grad.numpy()).max(), 1.0)
        expect_close(
            part,
            parts[name].grad,
            what=Message("the gradient of {name}", name=name),
            unit=np.array(unit),
        )
    for name, part, leaf in zip(("x", "memory"), input_gradients, leaves, strict=False):
        expect_close(part, leaf.grad, what=Message("the gradient of {name}", name=name))


def expect_same_in_training(layer, expected, *arguments):
    """Fail unless a layer returns the expected result after `eval()` and in training mode, a new layer's mode."""
    for _ in range(2):  # so that state left by a call is not blamed on the mode
        expect_close(layer(*arguments), expected)
    layer.train()
    try:
        expect_close(layer(*arguments), expected)
    except Failed as failure:
        message = "The results are right after `eval()` but wrong in training mode, probably because of dropout. {rest}"
        raise Failed(Message(message, rest=failure.message), explained=True) from None


@check(weight=0.5, needs=[FeedForward_values])
def FeedForward_in_training(FeedForward, draw):
    """Returns the same results in training mode, the mode of a new module: there is no dropout."""
    b, n, d_model, *_ = sizes(draw)
    values = of_feed_forward(draw, d_model, wide(draw))
    x = draw.tensor(b, n, d_model)
    expect_same_in_training(loaded_network(FeedForward, values), fed(values, x), x)


@check(weight=0.5, needs=[FeedForward_shape])
def FeedForward_kept(FeedForward, draw):
    """Keeps the dtype of x and the parameters (float32, float64, float16 or bfloat16), and does not change x."""
    b, n, d_model, *_ = sizes(draw)
    values = of_feed_forward(draw, d_model, wide(draw))
    exact = {name: part.bfloat16().double() for name, part in values.items()}
    network = loaded_network(FeedForward, exact)
    x, results = draw.tensor(b, n, d_model).bfloat16(), {}
    expect_unchanged(network, ["x"], x.double())
    for dtype in DTYPES:
        network.to(dtype)
        results[dtype] = network(x.to(dtype))
    expect_tensor_dtypes(results, (b, n, d_model))


# EncoderLayer and DecoderLayer, which share most checks

of_both = functools.partial(suite.check_each, *PARTS)


def loaded(subject, values, h, ahead=()):
    """Return a layer of the class under test with these parameters, in evaluation mode.

    `ahead` has the arguments of the next calls: they are sent in the same message if the layer is in another process.
    """
    d_ff, d_model = values["feed_forward.linear1.weight"].shape
    return subject.loaded((d_model, h, d_ff), values, torch.float64, training=False, ahead=ahead)


def expect_layer(subject, values, h, *cases, specification=specified):
    """Fail unless a layer with these parameters returns what the specification does, for each list of arguments."""
    layer = loaded(subject, values, h, cases)
    for arguments in cases:
        expect_close(layer(*arguments), specification(subject.name, values, h, *arguments))


def expect_refused(subject, values, h, refused):
    """Fail unless a layer raises for each of these arguments, which come with the reason."""
    layer = loaded(subject, values, h, [arguments for arguments, _ in refused])
    for arguments, because in refused:
        expect_raises(REFUSED, layer, *arguments, because=because)


@of_both(weight=2)
def parameters_named(subject, draw):
    """Has exactly the parameters that the text names, with these shapes."""
    h, d_head, *_ = sizes(draw)
    d_model, d_ff = h * d_head, wide(draw)
    expect_parameters(
        subject.module(d_model, h, d_ff), shapes(parameters(draw, subject.name, d_model, d_ff))
    )


@of_both(weight=0)
def refuses_heads(subject, draw):
    """The constructor raises `ValueError` or similar when d_model is not a multiple of num_heads."""
    cases = [(7, 3), (6, 4), (8, 3), (3, 6)]
    subject.ahead([(d_model, h, 5) for d_model, h in cases])
    for d_model, h in cases:
        because = Message("d_model is {d_model}, and there are {h} heads", d_model=d_model, h=h)
        expect_raises(REFUSED, subject, d_model, h, 5, because=because)


@of_both(weight=1, needs=[parameters_named])
def shape_of_result(subject, draw):
    """Returns a tensor of shape (b, n, d_model), not a tuple."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values, arguments = (
        parameters(draw, subject.name, d_model, wide(draw)),
        inputs(draw, subject.name, b, n, m, d_model),
    )
    expect_tensor(loaded(subject, values, h, [arguments])(*arguments), (b, n, d_model))


@of_both(weight=3, needs=[shape_of_result])
def values(subject, draw):
    """With the same weights, matches PyTorch's layer with `norm_first=True, activation="gelu"`."""
    b, *lengths = (int(size) for size in draw.rng.permutation([4, 5, 7, 8]))
    shorter, n, longer = sorted(lengths)
    h, d_head = (
        int(size) for size in draw.rng.permutation([2, 3])
    )  # few columns, so that n - 1 instead of n shows
    d_model = h * d_head
    values = parameters(draw, subject.name, d_model, wide(draw))
    first, second = (inputs(draw, subject.name, b, n, m, d_model) for m in (shorter, longer))
    expect_layer(
        subject, values, h, first, tuple(map(noncontiguous, second)), specification=of_torch
    )


def silenced(values, *parts):
    """Return the same parameters, except that these linear layers are all 0 and so add nothing."""
    return {
        name: 0 * value if name.rpartition(".")[0] in parts else value
        for name, value in values.items()
    }


@of_both(weight=1, needs=[shape_of_result])
def attention_alone(subject, draw):
    """If `linear2` is all 0, the feed-forward network adds nothing: the result is x plus the output of attention."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = silenced(parameters(draw, subject.name, d_model, wide(draw)), "feed_forward.linear2")
    expect_layer(subject, values, h, inputs(draw, subject.name, b, n, m, d_model))


@of_both(weight=1, needs=[shape_of_result])
def feed_forward_alone(subject, draw):
    """If `W_o` is all 0, attention adds nothing: the result is x plus the output of the feed-forward network."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = parameters(draw, subject.name, d_model, wide(draw))
    values = silenced(values, *[f"{part}.W_o" for part in PARTS[subject.name]])
    expect_layer(subject, values, h, inputs(draw, subject.name, b, n, m, d_model))


@of_both(weight=1, needs=[values])
def small_differences(subject, draw):
    """Layer norm adds 10⁻⁵ to the variance, which matters when a token's numbers are nearly equal."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = parameters(draw, subject.name, d_model, wide(draw))
    cases = []
    for factor in (1e-3, 1e-2, 0):
        x, *memory = inputs(draw, subject.name, b, n, m, d_model)
        cases.append((1 + factor * x, *memory))
    expect_layer(subject, values, h, *cases)


@of_both(weight=1.5, needs=[attention_alone])
def masked(subject, draw):
    """With a `mask` (n, n), tokens attend only where it is True; without one, or in a later call, everywhere."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = silenced(parameters(draw, subject.name, d_model, wide(draw)), "feed_forward.linear2")
    arguments = inputs(draw, subject.name, b, n, m, d_model)
    masks = draw.mask(n, n), torch.ones(n, n, dtype=torch.bool).tril()
    expect_layer(
        subject,
        values,
        h,
        *[(*arguments, mask) for mask in masks],
        arguments,
        specification=of_torch,
    )


@of_both(weight=0.5, needs=[masked])
def by_name(subject, draw):
    """Accepts the mask and all other arguments by name: `layer(x, mask=mask)`."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = silenced(parameters(draw, subject.name, d_model, wide(draw)), "feed_forward.linear2")
    arguments, mask = inputs(draw, subject.name, b, n, m, d_model), draw.mask(n, n)
    layer = loaded(subject, values, h)
    expected = specified(subject.name, values, h, *arguments, mask)
    expect_close(layer.by_name(*arguments, mask=mask), expected)
    expect_close(
        layer.by_name(mask=mask, **dict(zip(("x", "memory"), arguments, strict=False))), expected
    )


@of_both(weight=1, needs=[masked])
def masked_otherwise(subject, draw):
    """Accepts one `mask` per sequence, (b, n, n) or (b, 1, n), or a mask with four axes, as in exercise 6."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = silenced(parameters(draw, subject.name, d_model, wide(draw)), "feed_forward.linear2")
    arguments = inputs(draw, subject.name, b, n, m, d_model)
    shapes = [(b, n), (b, 1), (b, h, n), (1, h, 1), (b, 1, 1)]
    expect_layer(subject, values, h, *[(*arguments, draw.mask(*shape, n)) for shape in shapes])


@of_both(weight=1, needs=[masked])
def nothing_to_attend_to(subject, draw):
    """For a fully masked token, attention adds only the bias of `W_o`, and no NaN."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = silenced(parameters(draw, subject.name, d_model, wide(draw)), "feed_forward.linear2")
    mask = draw.mask(b, n, n)
    mask[:, 0] = mask[0] = False
    expect_layer(subject, values, h, (*inputs(draw, subject.name, b, n, m, d_model), mask))


@of_both(weight=1, needs=[values])
def sizes_alike(subject, draw):
    """Works when all dimensions are equal, and for long ones."""
    size = int(draw.rng.integers(3, 5))
    long = draw.long()
    for b, n, m, h, d_model, d_ff in [
        (size, size, size, size, size, size),
        (size, size, size, 1, size, size),
        (1, long, 2, 1, 2, 5),
        (1, 3, 2, 2, 6, long),
    ]:
        values = parameters(draw, subject.name, d_model, d_ff)
        arguments = inputs(draw, subject.name, b, n, m, d_model)
        masks = [late(n, n)] if n > 512 else [None, draw.mask(n, n)]
        expect_layer(subject, values, h, *[(*arguments, mask) for mask in masks])


@of_both(weight=1, needs=[values])
def sizes_of_one(subject, draw):
    """Keeps dimensions of size 1: one sequence, one token, one head, one column for each head, one hidden unit."""
    *three, h, d_head = sizes_of_layer(draw)
    ones = [[1 if i == axis else size for i, size in enumerate(three)] for axis in range(3)]
    width = int(
        draw.rng.choice([5, 6, 7])
    )  # of two numbers that are close, what is added to the variance would show
    layers = [
        (h, d_head, 11, ones),
        (1, width, 11, [three]),
        (width, 1, 11, [three]),
        (h, d_head, 1, [three]),
    ]
    for heads, columns, d_ff, cases in layers:
        d_model = heads * columns
        values = parameters(draw, subject.name, d_model, d_ff)
        arguments = [
            (*inputs(draw, subject.name, b, n, m, d_model), draw.mask(b, n, n)) for b, n, m in cases
        ]
        expect_layer(subject, values, heads, *arguments)


@of_both(weight=2, needs=[values])
def gradients(subject, draw):
    """Gradients flow to all parameters and inputs, without a mask and with a fully masked token."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    state = parameters(draw, subject.name, d_model, wide(draw))
    layer = loaded(subject, state, h)
    mask = draw.mask(b, n, n)
    mask[:, 0] = False
    for masks in [(), (mask,)]:
        arguments, upstream = (
            inputs(draw, subject.name, b, n, m, d_model),
            draw.tensor(b, n, d_model),
        )

        def specification(values, *arguments):
            return specified(subject.name, values, h, *arguments)

        expect_backward(layer, specification, state, arguments, masks, upstream)


@of_both(weight=1, needs=[values])
def in_training(subject, draw):
    """Returns the same results in training mode, the mode of a new layer: there is no dropout."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = parameters(draw, subject.name, d_model, wide(draw))
    arguments = inputs(draw, subject.name, b, n, m, d_model)
    expect_same_in_training(
        loaded(subject, values, h), specified(subject.name, values, h, *arguments), *arguments
    )


@of_both(weight=1, needs=[shape_of_result])
def dtype(subject, draw):
    """Keeps the inputs' dtype, float32, float64, float16 or bfloat16, also with a mask."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = parameters(draw, subject.name, d_model, wide(draw))
    layer = loaded(subject, {name: part.bfloat16().double() for name, part in values.items()}, h)
    arguments, mask = inputs(draw, subject.name, b, n, m, d_model), draw.mask(n, n)
    arguments, results = [part.bfloat16() for part in arguments], {}
    for kind in DTYPES:
        layer.to(kind)
        results[kind] = layer(*[part.to(kind) for part in arguments], mask)
    expect_tensor_dtypes(results, (b, n, d_model))


@of_both(weight=1, needs=[shape_of_result])
def refuses_masks(subject, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` when the mask is for another number of tokens."""
    # Worth points: code that crops such a mask applies a different one. PyTorch and the given layer raise anyway.
    b, n, m, h, d_head = sizes_of_layer(draw)
    values = parameters(draw, subject.name, h * d_head, wide(draw))
    arguments = inputs(draw, subject.name, b, n, m, h * d_head)
    more = (
        max(b, n, m, h) + 1
    )  # and not the size of another axis, which such a mask would fit by chance
    shapes = [(n, more), (more, n), (b, more, n)]
    masks = [
        (draw.mask(*shape), Message("the mask is {shape}", shape=str(shape))) for shape in shapes
    ]
    expect_refused(subject, values, h, [((*arguments, mask), because) for mask, because in masks])


@of_both(weight=0, needs=[shape_of_result])
def refuses_sizes(subject, draw):
    """Raises when a width is not d_model, even if it is 1, or when a mask has too many heads or a single key."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = parameters(draw, subject.name, d_model, wide(draw))
    x, *memory = inputs(draw, subject.name, b, n, m, d_model)
    refused = []  # arguments, and the reason
    for d in (d_model + h, d_model - h, 1):
        because = Message("d_model is {d_model}", d_model=d_model)
        refused.append(((draw.tensor(b, n, d), *memory), because))
        refused += [((x, draw.tensor(b, other.shape[1], d)), because) for other in memory]
    for shape in [(n, 1), (1, h + 1, n, n)]:
        refused.append(
            ((x, *memory, draw.mask(*shape)), Message("the mask is {shape}", shape=str(shape)))
        )
    if memory:
        because = Message(
            "the memory_mask is {shape} and the memory has length {m}", shape=str((n, 1)), m=m
        )
        refused.append(((x, *memory, None, draw.mask(n, 1)), because))
    expect_refused(subject, values, h, refused)


@of_both(weight=0.5, needs=[shape_of_result])
def kept(subject, draw):
    """Does not change inputs, masks or parameters."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = parameters(draw, subject.name, d_model, wide(draw))
    layer = loaded(subject, values, h)
    arguments = inputs(draw, subject.name, b, n, m, d_model)
    names = [*["x", "memory"][: len(arguments)], "mask", "memory_mask"]
    masks = [draw.mask(n, n), draw.mask(n, m)][: len(arguments)]
    expect_unchanged(layer, names[: -1 if len(masks) == 1 else None], *arguments, *masks)
    after = layer.state()
    for name, part in values.items():
        expect_close(
            after[name], part, what=Message("the parameter {name} after the call", name=name)
        )


# DecoderLayer alone


@check(weight=2, needs=["DecoderLayer_attention_alone"])
def DecoderLayer_memory_masked(DecoderLayer, draw):
    """Applies `memory_mask` (n, m) to the memory and `mask` to x, alone, together or by name, also if m = n."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = silenced(
        parameters(draw, DecoderLayer.name, d_model, wide(draw)), "feed_forward.linear2"
    )
    cases = []
    for length in (m, n):
        arguments = inputs(draw, DecoderLayer.name, b, n, length, d_model)
        cases.append((*arguments, None, draw.mask(n, length)))
        cases.append((*arguments, draw.mask(n, n), draw.mask(n, length)))
        cases.append(arguments)
    expect_layer(DecoderLayer, values, h, *cases, specification=of_torch)
    *arguments, _, mask = cases[0]
    named = loaded(DecoderLayer, values, h).by_name(*arguments, memory_mask=mask)
    expect_close(named, of_torch(DecoderLayer.name, values, h, *arguments, None, mask))


@check(weight=1, needs=[DecoderLayer_memory_masked])
def DecoderLayer_memory_masked_otherwise(DecoderLayer, draw):
    """A `memory_mask` may be (b, 1, m) or have four axes; a fully masked token gets only the bias of `W_o`."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = silenced(
        parameters(draw, DecoderLayer.name, d_model, wide(draw)), "feed_forward.linear2"
    )
    arguments = inputs(draw, DecoderLayer.name, b, n, m, d_model)
    cases = []
    for shape in [(b, n), (b, 1), (b, h, n), (1, h, 1)]:
        mask = draw.mask(*shape, m)
        mask[0] = mask[0] & (shape[0] == 1)  # one sequence sees nothing of its memory
        cases.append((*arguments, None, mask))
    expect_layer(DecoderLayer, values, h, *cases)


@check(weight=1, needs=[DecoderLayer_memory_masked])
def DecoderLayer_long_memory(DecoderLayer, draw):
    """Accepts a memory of any length, above 512 or only 1, also when part of it is masked."""
    b, n, _, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = silenced(
        parameters(draw, DecoderLayer.name, d_model, wide(draw)), "feed_forward.linear2"
    )
    lengths, kind = (draw.long(), 1), DecoderLayer.name
    cases = [
        (*inputs(draw, kind, b, n, length, d_model), None, late(n, length)) for length in lengths
    ]
    expect_layer(DecoderLayer, values, h, *cases)


@check(weight=0.5, needs=[DecoderLayer_memory_masked])
def DecoderLayer_refuses_memory_masks(DecoderLayer, draw):
    """Raises when the `memory_mask` is for another number of tokens or another memory length."""
    b, n, m, h, d_head = sizes_of_layer(draw)
    d_model = h * d_head
    values = parameters(draw, DecoderLayer.name, d_model, wide(draw))
    arguments = inputs(draw, DecoderLayer.name, b, n, m, d_model)
    refused = []
    more = max(b, n, m, h) + 1
    for shape in [(n, more), (more, m), (m, n), (b, more, m)]:
        because = Message(
            "the memory_mask is {shape} and the memory has length {m}", shape=str(shape), m=m
        )
        refused.append(((*arguments, None, draw.mask(*shape)), because))
    expect_refused(DecoderLayer, values, h, refused)


# TinyGPT

CHANGES = 1e-5  # of the largest logit: another order of computation differs by less, a real change by more
SEEN = 1e-10  # one token among hundreds changes little, a hidden one nothing at all


def words(draw, vocab_size, *shape):
    return torch.tensor(draw.rng.integers(vocab_size, size=shape))


def sizes_of_model(draw, num_layers=2, max_len=7):
    """Return the arguments of a small `TinyGPT`. The head width is even, as rotary positions require."""
    h = int(draw.rng.choice([2, 3]))
    return int(draw.rng.choice([11, 13])), 4 * h, h, num_layers, max_len


def drawn(subject, draw, *arguments):
    """Return a model with parameters drawn here: those of a new model might be 0, or all equal."""
    model = subject.module(*arguments)
    values = {
        name: draw.tensor(*shape) / max([1, *shape[-1:]]) ** 0.5
        for name, shape in model.shapes().items()
    }
    return model.load(values, torch.float64, training=False)


def logits_of(model, tokens, vocab_size):
    return expect_tensor(model(tokens), (*tokens.shape, vocab_size))


def distances(logits, others):
    """Return how much the logits at each token differ, relative to the largest."""
    return np.abs(others - logits).max(-1) / (np.abs(logits).max() or 1.0)


@check(weight=0.5)
def TinyGPT_max_len(TinyGPT, draw):
    """Has an attribute `max_len`, and is a module with parameters."""
    vocab_size, d_model, h, num_layers, max_len = sizes_of_model(draw)
    model = TinyGPT.module(vocab_size, d_model, h, num_layers, max_len)
    attribute = model.read("max_len")
    message = "`max_len` should be {size}, got {found}."
    expect(attribute == max_len, Message(message, size=max_len, found=str(attribute)[:50]))
    expect(
        model.shapes(),
        "`state_dict` has no parameters, so nothing in this model can be trained or saved.",
    )


@check(weight=2)
def TinyGPT_shape(TinyGPT, draw):
    """Returns logits of shape (b, n, vocab_size) for every n from 1 to `max_len`, also for n = 1 and b = 1."""
    vocab_size, d_model, h, num_layers, max_len = sizes_of_model(draw)
    model = TinyGPT.module(vocab_size, d_model, h, num_layers, max_len).train(False)
    cases = [words(draw, vocab_size, 2, n) for n in range(max_len, 0, -1)] + [
        words(draw, vocab_size, 1, 1)
    ]
    model.ahead([(tokens,) for tokens in cases])
    for tokens in cases:
        logits_of(model, tokens, vocab_size)
    model = TinyGPT.module(vocab_size, d_model, 1, 1, 1)
    logits_of(model, words(draw, vocab_size, 3, 1), vocab_size)
    long = draw.long()
    logits_of(TinyGPT.module(3, 2, 1, 1, long), words(draw, 3, 1, long), 3)


@check(weight=0, needs=[TinyGPT_shape])
def TinyGPT_refuses(TinyGPT, draw):
    """Raises for more than `max_len` tokens, and in the constructor if d_model is not a multiple of num_heads."""
    vocab_size, d_model, h, num_layers, max_len = sizes_of_model(draw)
    model = TinyGPT.module(vocab_size, d_model, h, num_layers, max_len)
    cases = [(words(draw, vocab_size, 2, n),) for n in (max_len + 1, 2 * max_len)]
    model.ahead(cases)
    for case in cases:
        expect_raises(
            REFUSED, model, *case, because=Message("max_len is {max_len}", max_len=max_len)
        )
    because = Message("d_model is 7, and num_heads is 3")
    expect_raises(REFUSED, TinyGPT, vocab_size, 7, 3, num_layers, max_len, because=because)


def count(model):
    """Return the number of trainable parameters in a module, each counted once."""
    return sum(part.numel() for part in model.parameters() if part.requires_grad)


def without_gradient(model, tokens):
    """Return the names of the trainable parameters that get no gradient from the logits."""
    import torch

    with torch.enable_grad():
        logits = model(tokens)
        torch.nn.functional.cross_entropy(logits.flatten(0, -2), tokens.flatten()).backward()
    return [
        name for name, part in model.named_parameters() if part.requires_grad and part.grad is None
    ]


@check(weight=1.5, needs=[TinyGPT_shape])
def TinyGPT_layers(TinyGPT, draw):
    """Has `num_layers` layers: each adds the same number of parameters of its own, and each is used."""
    vocab_size, d_model, h, _, max_len = sizes_of_model(draw)
    models = [
        TinyGPT.module(vocab_size, d_model, h, num_layers, max_len) for num_layers in (1, 2, 3, 4)
    ]
    counts = [model.run_remote(count) for model in models]
    more = np.diff(counts)
    message = (
        "With 1, 2, 3 and 4 layers, {counts} parameters can be trained, but each layer should add the same number. "
        "Is each layer a new one, and are they in an `nn.ModuleList`?"
    )
    named = Message(message, counts=", ".join(map(str, counts)))
    expect(more.min() > 0 and more.min() == more.max(), named)
    lacks = models[2].run_remote(without_gradient, words(draw, vocab_size, 2, max_len))
    message = (
        "No gradient reaches {count} of the parameters, such as `{name}`: the result does not depend on them, or "
        "`detach` cuts them off."
    )
    expect(not lacks, Message(message, count=len(lacks), name=str(lacks[:1])[2:-2][:60]))


@check(weight=1, needs=[TinyGPT_layers])
def TinyGPT_sequences(TinyGPT, draw):
    """Sequences do not affect each other: each gets the same logits in a batch as alone."""
    vocab_size, *rest, max_len = sizes_of_model(draw)
    model = drawn(TinyGPT, draw, vocab_size, *rest, max_len)
    tokens = words(draw, vocab_size, 3, 5)
    each = tokens.split(1)
    model.ahead([(tokens,), *[(sequence,) for sequence in each]])
    together = logits_of(model, tokens, vocab_size)
    for i, sequence in enumerate(each):
        alone = logits_of(model, sequence, vocab_size)
        message = (
            "The logits of sequence {i} change when it is in a batch with other sequences. Two axes may be mixed "
            "up, or a mean may be taken over the batch."
        )
        expect(distances(alone[0], together[i]).max() < CHANGES, Message(message, i=i))


def changed_once(draw, vocab_size, n):
    """Return a batch: a sequence of n tokens, then n copies of it, each with one token changed, 0 to n - 1."""
    tokens = words(draw, vocab_size, 1, n).repeat(n + 1, 1)
    for j in range(n):
        tokens[j + 1, j] = (tokens[j + 1, j] + int(draw.rng.integers(1, vocab_size))) % vocab_size
    return tokens


def expect_unchanged_before(logits, changed, message, **values):
    """Fail if logits before a changed token differ from row 0's; `changed` gives that token's position by row."""
    for row, j in changed.items():
        leaks = np.flatnonzero(distances(logits[0, :j], logits[row, :j]) > CHANGES)
        if len(leaks):
            raise Failed(Message(message, j=j, i=int(leaks[-1]), **values), explained=True)


@check(weight=3, needs=[TinyGPT_sequences])
def TinyGPT_causal(TinyGPT, draw):
    """Later tokens have no effect: changing them does not change the logits of a token."""
    vocab_size, *rest, max_len = sizes_of_model(draw)
    model = drawn(TinyGPT, draw, vocab_size, *rest, max_len)
    logits = logits_of(model, changed_once(draw, vocab_size, max_len), vocab_size)
    message = (
        "Token {j} was changed, and the logits at token {i}, before it, also changed. Does every layer get a causal "
        "mask that is True for the token itself and to its left?"
    )
    expect_unchanged_before(logits, {j + 1: j for j in range(1, max_len)}, message)
    # Hundreds of tokens: a mask of a fixed size ends before them.
    long = draw.long()
    model = drawn(TinyGPT, draw, 3, 4, 1, 1, long)
    j = long - 1 - int(draw.rng.integers(3))
    tokens = words(draw, 3, 1, long).repeat(2, 1)
    tokens[1, j] = (tokens[1, j] + 1) % 3
    message = (
        "In a sequence of {n} tokens, token {j} was changed, and the logits at token {i}, before it, also changed. "
        "A mask has to be as long as the sequence."
    )
    expect_unchanged_before(logits_of(model, tokens, 3), {1: j}, message, n=long)


@check(weight=1, needs=[TinyGPT_causal])
def TinyGPT_prefix(TinyGPT, draw):
    """The number of later tokens has no effect: the first k tokens get the same logits as alone."""
    vocab_size, *rest, max_len = sizes_of_model(draw)
    model = drawn(TinyGPT, draw, vocab_size, *rest, max_len)
    tokens = words(draw, vocab_size, 2, max_len)
    beginnings = {k: tokens[:, :k] for k in (1, max_len // 2, max_len - 1)}
    model.ahead([(tokens,), *[(beginning,) for beginning in beginnings.values()]])
    whole = logits_of(model, tokens, vocab_size)
    for k, beginning in beginnings.items():
        alone = logits_of(model, beginning, vocab_size)
        message = (
            "The logits of the first {k} tokens change when more tokens follow. Positions must count from the first "
            "token, and no mean may be taken over tokens."
        )
        expect(distances(alone, whole[:, :k]).max() < CHANGES, Message(message, k=k))


@check(weight=2, needs=[TinyGPT_causal])
def TinyGPT_sees(TinyGPT, draw):
    """A token affects the logits at its own position and at every later one, even with one layer."""
    for num_layers in (1, 2):
        vocab_size, *rest, max_len = sizes_of_model(draw, num_layers)
        model = drawn(TinyGPT, draw, vocab_size, *rest, max_len)
        logits = logits_of(model, changed_once(draw, vocab_size, max_len), vocab_size)
        for j in range(max_len):
            blind = np.flatnonzero(distances(logits[0, j:], logits[j + 1, j:]) < CHANGES)
            if len(blind):
                message = (
                    "Token {j} was changed, but the logits at token {i} did not change. Each token sees itself and "
                    "all earlier tokens. Does each layer have attention, and does its mask hide too much?"
                )
                raise Failed(Message(message, j=j, i=j + int(blind[0])), explained=True)
    # Also in a long sequence, where a mask of a fixed size would end: the last tokens depend on the first ones,
    # and on those shortly before them.
    n = draw.long()
    changed = [int(draw.rng.integers(3)), n - 5 - int(draw.rng.integers(3))]
    model = drawn(TinyGPT, draw, 3, 4, 1, 1, n)
    tokens = words(draw, 3, 1, n).repeat(3, 1)
    for row, j in enumerate(changed, 1):
        tokens[row, j] = (tokens[row, j] + 1) % 3
    logits = logits_of(model, tokens, 3)
    message = (
        "In a sequence of {n} tokens, token {j} was changed, but most of the last {count} logits did not change. "
        "Does a mask hide too much?"
    )
    for row, j in enumerate(changed, 1):
        count = min(n - j, n - 512)
        seen = distances(logits[0, -count:], logits[row, -count:]) > SEEN
        expect(seen.mean() > 0.5, Message(message, n=n, j=j, count=count))


def attention_weights(model, tokens):
    """Return all attention weights (b, h, n, n) that parts of a model return next to their result."""
    import torch

    n, all_weights = tokens.shape[1], []

    def remember(part, inputs, result):
        weights = result[1] if isinstance(result, tuple) and len(result) == 2 else None
        if isinstance(weights, torch.Tensor) and weights.shape[-2:] == (n, n):
            all_weights.append(weights.detach())

    handles = [part.register_forward_hook(remember) for part in model.modules()]
    model(tokens)
    for handle in handles:
        handle.remove()
    return all_weights


@check(weight=1, needs=[TinyGPT_causal])
def TinyGPT_attends(TinyGPT, draw):
    """In each layer, a token also attends to itself, and the number 0 is a token like any other."""
    # The stream contains the token anyway, so this does not show in the logits. Only weights can be looked at that a
    # part of the model returns, as the given `MultiHeadAttention` does.
    vocab_size, *rest, max_len = sizes_of_model(draw)
    model = drawn(TinyGPT, draw, vocab_size, *rest, max_len)
    tokens = torch.tensor(1 + draw.rng.permutation(vocab_size - 1)[:max_len]).repeat(2, 1)
    zero = int(draw.rng.integers(max_len))
    tokens[1, zero] = 0
    for weights in model.run_remote(attention_weights, tokens):
        itself = np.diagonal(
            np.asarray(weights).reshape(2, -1, max_len, max_len).min(1), axis1=1, axis2=2
        )  # (2, n)
        hidden = np.flatnonzero(itself[0] == 0)
        message = (
            "Token {i} has the attention weight 0 for itself. A token attends to itself and to all earlier tokens. "
            "Does the mask hide the diagonal?"
        )
        expect(not len(hidden), Message(message, i=int(hidden[0]) if len(hidden) else 0))
        expect(
            itself[1, zero] > 0,
            "A token with the number 0 has the attention weight 0 for itself. It is a token like any other: do not "
            "hide it as padding.",
        )


@check(weight=2, needs=[TinyGPT_sees])
def TinyGPT_positions(TinyGPT, draw):
    """Token order matters: swapping two tokens changes the later logits, even with one layer."""
    vocab_size, *rest, max_len = sizes_of_model(draw, num_layers=1)
    model = drawn(TinyGPT, draw, vocab_size, *rest, max_len)
    first = torch.tensor(draw.rng.permutation(vocab_size)[:max_len]).repeat(max_len - 1, 1)
    for i in range(max_len - 2):
        first[i + 1, [i, i + 1]] = first[i + 1, [i + 1, i]]
    logits = logits_of(model, first, vocab_size)
    for i in range(max_len - 2):
        change = distances(logits[0, i + 2 :], logits[i + 1, i + 2 :]).min()
        message = (
            "Tokens {i} and {j} were swapped, but the logits after them did not change. Does the model get the "
            "position of each token?"
        )
        expect(change > CHANGES, Message(message, i=i, j=i + 1))


@check(weight=1, needs=[TinyGPT_layers])
def TinyGPT_in_training(TinyGPT, draw):
    """Returns the same logits in training mode, the mode of a new model: there is no dropout."""
    vocab_size, *rest, max_len = sizes_of_model(draw)
    model = drawn(TinyGPT, draw, vocab_size, *rest, max_len)
    tokens = words(draw, vocab_size, 3, max_len)
    logits_of(model, tokens, vocab_size)
    in_use = logits_of(model, tokens, vocab_size)
    expect(
        distances(in_use, logits_of(model.train(), tokens, vocab_size)).max() < CHANGES,
        "The logits in training mode differ from those after `eval()`, probably because of dropout.",
    )


@check(weight=1, needs=[TinyGPT_layers])
def TinyGPT_kept(TinyGPT, draw):
    """Returns logits in the parameters' dtype, float32, float64, float16 or bfloat16; does not change the tokens."""
    vocab_size, *rest, max_len = sizes_of_model(draw)
    model = drawn(TinyGPT, draw, vocab_size, *rest, max_len)
    tokens, results = words(draw, vocab_size, 3, max_len), {}
    expect_unchanged(model, ["tokens"], tokens)
    model.to(torch.bfloat16)  # the same parameters in each dtype
    for dtype in DTYPES:
        model.to(dtype)
        results[dtype] = model(tokens)
    expect_tensor_dtypes(results, (3, max_len, vocab_size), what="logits")


def loss_of(logits, targets):
    """Return the mean of minus the log probability of each target, in nats."""
    largest = logits.max(-1, keepdims=True)
    logs = logits - largest - np.log(np.exp(logits - largest).sum(-1, keepdims=True))
    return -float(np.take_along_axis(logs, targets[..., None], -1).mean())


@check(weight=1, needs=[TinyGPT_shape])
def TinyGPT_begins(TinyGPT, draw):
    """A new model guesses: on random tokens its loss is about ln(vocab_size), and at most 1 above it."""
    vocab_size, max_len = 50, 12
    model = TinyGPT.module(vocab_size, 32, 4, 2, max_len)
    tokens = words(draw, vocab_size, 8, max_len + 1)
    loss = loss_of(
        logits_of(model, tokens[:, :-1], vocab_size).astype(float), tokens[:, 1:].numpy()
    )
    message = (
        "The loss of a new model is {loss}, but a guess has ln({vocab_size}) = {guess}. The logits are too large: "
        "initialize the embeddings or the last layer with smaller numbers, or put a norm before the last layer."
    )
    guess = math.log(vocab_size)
    expect(
        loss < guess + 1,
        Message(message, loss=f"{loss:.2f}", vocab_size=vocab_size, guess=f"{guess:.2f}"),
    )


def learn(model, inputs, targets, rate):
    """Train a model, a step of Adam for each batch; return its loss before each step."""
    import torch

    parts = [part for part in model.parameters() if part.requires_grad]
    values = torch.nn.utils.parameters_to_vector(parts).detach().clone()
    torch.nn.utils.vector_to_parameters(
        values, parts
    )  # from here on, the parameters are views of it
    mean, square = torch.zeros_like(values), torch.zeros_like(values)
    losses = []
    for step, (batch, wanted) in enumerate(zip(inputs, targets, strict=True), 1):
        with torch.enable_grad():
            loss = torch.nn.functional.cross_entropy(model(batch).flatten(0, -2), wanted.flatten())
            gradients = torch.autograd.grad(loss, parts, allow_unused=True)
        losses.append(loss.item())
        with torch.no_grad():
            pairs = zip(parts, gradients, strict=True)
            gradient = torch.cat(
                [
                    torch.zeros_like(parameter).flatten() if g is None else g.flatten()
                    for parameter, g in pairs
                ]
            )
            mean.lerp_(gradient, 0.1)
            square.lerp_(gradient.square(), 0.01)
            size = (square / (1 - 0.99**step)).sqrt_().add_(1e-8)
            values.addcdiv_(mean, size, value=-rate / (1 - 0.9**step))
    return losses


STEPS, SEQUENCES, PERIOD, NO_TARGET = 25, 16, 2, -100
MOST_LOSS = 0.5  # after training; right models reach 0.02 or less, and a model that guesses has 1.8


def repeating(draw, vocab_size, n, *lead):
    """Return tokens from 1 on that repeat every `PERIOD` tokens, and each next token, if it can be known."""
    first = draw.rng.integers(1, vocab_size, size=(*lead, PERIOD))
    whole = np.concatenate([first] * (n // PERIOD + 1), axis=-1)[..., : n + 1]
    targets = whole[..., 1:].copy()
    targets[..., : PERIOD - 1] = NO_TARGET
    return torch.tensor(whole[..., :-1]), torch.tensor(targets)


@check(weight=3, needs=[TinyGPT_causal, TinyGPT_in_training])
def TinyGPT_learns(TinyGPT, draw):
    """Can be trained: after 25 steps, it continues sequences of two alternating tokens."""
    vocab_size, n = 7, 8
    model = TinyGPT.module(vocab_size, 24, 2, 1, n)
    fresh, wanted = repeating(draw, vocab_size, n, 64)
    known = wanted.numpy() != NO_TARGET
    logits_of(model, fresh, vocab_size)
    losses = model.run_remote(learn, *repeating(draw, vocab_size, n, STEPS, SEQUENCES), 2e-2)
    after = loss_of(
        logits_of(model.train(False), fresh, vocab_size).astype(float)[known], wanted.numpy()[known]
    )
    message = "The loss of a new model is {first}. After {steps} steps of Adam it should be below {most}, got {after}."
    most = max(
        MOST_LOSS, losses[0] / 10
    )  # `TinyGPT_begins` is about a first loss that is far too large
    values = {"first": f"{losses[0]:.2f}", "after": f"{after:.2f}", "most": f"{most:.2g}"}
    expect(after < most, Message(message, steps=STEPS, **values))


# generate


class Sums(nn.Module):
    """A model whose logits at a token depend on all tokens up to there, and on their order."""

    def __init__(self, draw, vocab_size, max_len):
        super().__init__()
        self.vocab_size, self.max_len = vocab_size, max_len
        self.weights = draw.rng.integers(1, 101, size=max_len)
        self.rows = draw.rng.normal(size=(101, vocab_size))
        self.scale = nn.Parameter(torch.ones(1))  # so that code can read a device or a dtype

    def forward(self, tokens):
        tokens = np.asarray(tokens.detach())
        if tokens.ndim != 2 or tokens.dtype.kind not in "iu":
            raise ValueError(
                f"a model takes whole numbers (b, n), not {tokens.dtype} {tokens.shape}"
            )
        if not 1 <= tokens.shape[1] <= self.max_len:
            raise ValueError(f"{tokens.shape[1]} tokens, and max_len is {self.max_len}")
        if tokens.min() < 0 or tokens.max() >= self.vocab_size:
            raise IndexError(f"a token that is not from 0 to {self.vocab_size - 1}")
        sums = np.cumsum((tokens + 1) * self.weights[: tokens.shape[1]], axis=1)  # (b, n)
        return torch.tensor(self.rows[sums % len(self.rows)])  # (b, n, vocab_size)


def expect_continued(generate, draw, b, n, num_new_tokens, max_len, vocab_size=11):
    """Fail unless the result is the greedy continuation of a random prompt."""
    model = Sums(draw, vocab_size, max_len)
    prompt = words(draw, vocab_size, b, n)
    tokens = generate(generate.given(model, "model"), prompt, num_new_tokens)
    expected = continued(model, prompt, num_new_tokens)
    expect_tensor(tokens, expected.shape, torch.int64)
    expect_close(tokens, expected)


@check(weight=1)
def generate_shape(generate, draw):
    """Returns a tensor (b, n + m) of whole numbers that begins with the prompt; m = 0 adds nothing."""
    b, n, m, *_ = sizes(draw)
    model = Sums(draw, 11, n + m)
    for more in (m, 1, 0):
        prompt = words(draw, 11, b, n)
        tokens = generate(generate.given(model, "model"), prompt, more)
        expect_tensor(tokens, (b, n + more), torch.int64)
        expect_close(tokens[:, :n], prompt, what=Message("the prompt in the result"))


@check(weight=3, needs=[generate_shape])
def generate_greedy(generate, draw):
    """Adds the most likely token each time, in each sequence, while the model can see all tokens."""
    b, n, m, *_ = sizes(draw)
    expect_continued(generate, draw, b, n, m + 3, n + m + 3)
    expect_continued(generate, draw, b, n, m + 3, n + m + 2)


@check(weight=2, needs=[generate_greedy])
def generate_window(generate, draw):
    """With more than `max_len` tokens, passes the last `max_len` to the model, also for a long prompt."""
    b, n, m, *_ = sizes(draw)
    expect_continued(generate, draw, b, n, m + 5, n + 1)
    expect_continued(generate, draw, b, n + 4, m + 2, n + 1)
    expect_continued(generate, draw, b, n, m, n)


@check(weight=1, needs=[generate_greedy])
def generate_sizes(generate, draw):
    """Works for one sequence, a prompt of one token, one new token, a `max_len` of 1, and many tokens."""
    b, n, m, *_ = sizes(draw)
    for case in [
        (1, n, m, n + m),
        (b, 1, m, m + 1),
        (b, n, 1, n + 1),
        (b, n, m, 1),
        (1, 1, 1, 1),
        (n, n, n, n),
    ]:
        expect_continued(generate, draw, *case)
    expect_continued(generate, draw, 1, 2, 24, 20)
    expect_continued(generate, draw, 1, draw.long(), 2, 600)


def some_model(function, vocab_size, max_len, training):
    """Return a small model that is in training mode or not, as a whole and in its parts."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.max_len = max_len
            self.token = torch.nn.Embedding(vocab_size, 4)
            self.head = torch.nn.Linear(4, vocab_size)

        def forward(self, tokens):
            return self.head(self.token(tokens).cumsum(1))

    return Model().train(training)


@check(weight=1, needs=[generate_shape])
def generate_mode(generate, draw):
    """Does not change the model: its mode and all else stay the same, even if no token is added."""
    b, n, m, *_ = sizes(draw)
    for training in (True, False):
        for more in (m, 0):
            model = Module(generate, generate.run_remote(some_model, 11, n + m, training), "model")
            prompt = words(draw, 11, b, n)
            with left_as_it_was(model, prompt):
                generate(model, prompt, more)


@check(weight=1, needs=[generate_shape])
def generate_kept(generate, draw):
    """Does not change the prompt."""
    b, n, m, *_ = sizes(draw)
    for max_len in (n + m, n):
        prompt = words(draw, 11, b, n)
        generate(generate.given(Sums(draw, 11, max_len), "model"), prompt, m)
        after = generate.calls[-1].arguments[1]
        if after.shape != prompt.shape or not torch.equal(after, prompt):
            failure = Failed(
                "The prompt was changed in place, but the caller still needs it: create a new tensor.",
                explained=True,
            )
            failure.changed = "prompt"
            raise failure

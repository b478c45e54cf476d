"""Checks of exercise 6. You may read them: each is one sentence about a function or a class, with inputs on which a
wrong function or class fails.

Results are compared with `specifications`, which takes each head's rows of the weights and multiplies with einsum,
without splitting or merging. It is in checking.zip together with the runtime, `checking`, so that no one sees an
answer by accident. Parameters are drawn at random and loaded by name, in float64 unless a check says otherwise. The
tolerance is `RTOL` in `checking/expect.py`, which explains how it was chosen. The course's tests measure how far
right answers stay below it and known mistakes above it. The inputs are small: each known mistake is off by more than
a hundred tolerances.
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

import numpy as np
import torch
from torch import nn

from checking import (
    CUTS,
    Failed,
    Message,
    Suite,
    backward,
    expect,
    expect_agrees,
    expect_by_hand,
    expect_close,
    expect_gradients,
    expect_parameters,
    expect_raises,
    expect_tensor,
    expect_tensor_dtypes,
    expect_tuple,
    expect_unchanged,
    left_as_it_was,
    noncontiguous,
)
from specifications import attended, columns, side_by_side

torch.set_num_threads(1)  # everything here is small

ALIKE = (
    0.9  # from this correlation on, numbers may be a multiple of others, or these plus a constant
)

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 6, By hand",
        "split_heads": "chapter 6, Splitting and merging",
        "merge_heads": "chapter 6, Splitting and merging",
        "MultiHeadAttentionLoop": "chapter 6, One batched tensor or a list of heads",
        "MultiHeadAttention": "chapter 6, The code",
        "fuse": "chapter 6, One batched tensor or a list of heads",
        "from_torch": "chapter 6, What PyTorch's layer does",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset

REFUSED = (ValueError, RuntimeError, IndexError)
RESULTS = ("out", "weights")
PROJECTIONS = ("W_q", "W_k", "W_v")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


# by_hand


@check()
def by_hand_two_heads(by_hand, draw):
    """Returns the outputs of both heads, concatenated and multiplied by W_o."""
    scores = np.log([[3.0, 1.0], [1.0, 3.0]])  # (h, n_k)
    V = np.array([[4.0, 0, 0, 8], [0, 4, 8, 0]])  # (n_k, d_model)
    W_o = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [2, 0, 0, 0], [0, 2, 0, 0]])
    brought = [
        np.exp(s) / np.exp(s).sum() @ V_head
        for s, V_head in zip(scores, np.split(V, 2, axis=1), strict=True)
    ]
    expect_by_hand(by_hand(), np.concatenate(brought) @ W_o)


# Inputs


def sizes(draw):
    """Return five small sizes, all different: for example b, n_q, n_k, h and d_head."""
    return [int(size) for size in draw.rng.permutation([2, 3, 4, 5, 7])]


def few(draw):
    """Return b, n_q, n_k, h and d_head, all different, the last two small, since each head is a part of the layer."""
    h = int(draw.rng.choice([2, 3]))
    d_head = int(draw.rng.choice([5 - h, 4]))
    others = [size for size in (2, 3, 4, 5, 7) if size not in (h, d_head)]
    return [*map(int, draw.rng.permutation(others)), h, d_head]


def parameters(draw, d_model, bias=True):
    """Return parameters of a `MultiHeadAttention`, by name; the scores are about 1."""
    values = {}
    for name in (*PROJECTIONS, "W_o"):
        values[f"{name}.weight"] = draw.tensor(d_model, d_model) / d_model**0.5
        if bias:
            values[f"{name}.bias"] = draw.tensor(d_model)
    return values


def of_heads(values, h):
    """Return the same parameters as named in a `MultiHeadAttentionLoop`: head i has rows of the first three."""
    renamed = {}
    for name, value in values.items():
        if name.startswith("W_o"):
            renamed[name] = value
        else:
            renamed |= {
                f"heads.{i}.{name}": rows.clone() for i, rows in enumerate(value.tensor_split(h))
            }
    return renamed


def splits(draw):
    """Return numbers of heads and head widths, equal or not, with some of them 1, and whether there are biases."""
    *_, h, d_head = few(draw)
    return [(h, d_head, True), (d_head, d_head, True), (1, d_head, False), (h, 1, True)]


def shapes(values):
    return {name: tuple(value.shape) for name, value in values.items()}


def tokens(draw, b, n_q, n_k, d_model):
    """Return query, key and value, all different."""
    return (
        draw.tensor(b, n_q, d_model),
        draw.tensor(b, n_k, d_model),
        draw.tensor(b, n_k, d_model),
    )


# split_heads


@check(weight=1)
def split_heads_shape(split_heads, draw):
    """Returns a tensor of shape (b, h, n, d / h)."""
    b, n, h, d_head, _ = sizes(draw)
    d = h * d_head
    expect_tensor(split_heads(draw.tensor(b, n, d), h), (b, h, n, d_head))


@check(weight=3, needs=[split_heads_shape])
def split_heads_values(split_heads, draw):
    """Head i gets columns i d/h to (i + 1) d/h - 1 of every token, in their order."""
    b, n, h, d_head, _ = sizes(draw)
    d = h * d_head
    X = draw.tensor(b, n, d)
    expect_close(split_heads(X, h), columns(X.numpy(), h))
    X = draw.tensor(b, n, d)
    expect_close(split_heads(noncontiguous(X), h), columns(X.numpy(), h))


@check(weight=1, needs=[split_heads_shape])
def split_heads_alike(split_heads, draw):
    """Works when all dimensions are equal, and when one of them is large."""
    b = n = h = d_head = sizes(draw)[0]
    d = h * d_head
    X = draw.tensor(b, n, d)
    expect_close(split_heads(X, h), columns(X.numpy(), h))
    X = draw.tensor(h, h, h)  # one column for each head
    expect_close(split_heads(X, h), columns(X.numpy(), h))
    # Also widths that are multiples of 64, the head width in many models: only `num_heads` gives the number of heads.
    # 768 is also a multiple of 32, 96 and 128.
    heads, more = (int(size) for size in draw.rng.choice([2, 4, 16, 32], size=2, replace=False))
    wide = [(2, heads, 768 // heads), (2, more, 64 // more)]
    cases = []
    for n, h, d_head in [(draw.long(), 2, 3), (3, draw.long(), 2), (3, 2, draw.long()), *wide]:
        cases.append((draw.tensor(2, n, h * d_head), h))
    split_heads.ahead(cases)
    for X, h in cases:
        expect_close(split_heads(X, h), columns(X.numpy(), h))


@check(weight=1, needs=[split_heads_shape])
def split_heads_ones(split_heads, draw):
    """Keeps dimensions of size 1: one sequence, one token, one head, one column for each head."""
    for axis in range(4):
        b, n, h, d_head = (1 if i == axis else size for i, size in enumerate(sizes(draw)[:4]))
        d = h * d_head
        X = draw.tensor(b, n, d)
        expect_close(split_heads(X, h), columns(X.numpy(), h))


@check(weight=1)
def split_heads_refuses(split_heads, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` when d is not a multiple of `num_heads`."""
    # Worth points: cutting heads out of such a width silently loses columns. A reshape raises by itself.
    b, n, *_ = sizes(draw)
    for d, h in [(7, 3), (6, 4), (5, 2), (3, 6), (1, 2)]:
        because = Message("d is {d}, and there are {h} heads", d=d, h=h)
        expect_raises(REFUSED, split_heads, draw.tensor(b, n, d), h, because=because)


@check(weight=1, needs=[split_heads_values])
def split_heads_gradient(split_heads, draw):
    """Gradients flow back: each entry of X gets the gradient of its position in the result."""
    b, n, h, d_head, _ = sizes(draw)
    d = h * d_head
    X, upstream = draw.tensor(b, n, d), draw.tensor(b, h, n, d_head)
    _, gradients, _ = backward(split_heads, X, h, upstream=upstream)
    expect_close(gradients[0], side_by_side(upstream.numpy()), what=Message("the gradient of X"))


@check(weight=1, needs=[split_heads_shape])
def split_heads_kept(split_heads, draw):
    """Keeps the dtype of `X`, and does not change `X`."""
    b, n, h, d_head, _ = sizes(draw)
    X = draw.tensor(b, n, h * d_head)
    results = {dtype: split_heads(X.bfloat16().to(dtype), h) for dtype in DTYPES}
    expect_tensor_dtypes(results, (b, h, n, d_head))
    expect_unchanged(split_heads, ["X", "num_heads"], X, h)


# merge_heads


@check(weight=1)
def merge_heads_shape(merge_heads, draw):
    """Returns a tensor of shape (b, n, h d_head)."""
    b, h, n, d_head, _ = sizes(draw)
    expect_tensor(merge_heads(draw.tensor(b, h, n, d_head)), (b, n, h * d_head))


@check(weight=3, needs=[merge_heads_shape])
def merge_heads_values(merge_heads, draw):
    """Puts the columns of head 0 first, then those of head 1, and so on; this reverses `split_heads`."""
    b, h, n, d_head, _ = sizes(draw)

    def split(heads):  # as `split_heads` may return them
        return heads.transpose(1, 2).contiguous().transpose(1, 2)

    for stored in (torch.clone, noncontiguous, split):
        X = draw.tensor(b, n, h * d_head)
        expect_close(merge_heads(stored(torch.tensor(columns(X.numpy(), h)))), X)


@check(weight=1, needs=[merge_heads_shape])
def merge_heads_alike(merge_heads, draw):
    """Works when all dimensions are equal, and when one of them is large."""
    size, long = sizes(draw)[0], draw.long()
    for b, h, n, d_head in [(size,) * 4, (2, 2, long, 3), (2, long, 3, 2), (2, 3, 2, long)]:
        X = draw.tensor(b, n, h * d_head)
        expect_close(merge_heads(torch.tensor(columns(X.numpy(), h))), X)


@check(weight=1, needs=[merge_heads_shape])
def merge_heads_ones(merge_heads, draw):
    """Keeps dimensions of size 1: one sequence, one head, one token, one column for each head."""
    for axis in range(4):
        b, h, n, d_head = (1 if i == axis else size for i, size in enumerate(sizes(draw)[:4]))
        X = draw.tensor(b, n, h * d_head)
        expect_close(merge_heads(torch.tensor(columns(X.numpy(), h))), X)


@check(weight=1, needs=[merge_heads_values])
def merge_heads_gradient(merge_heads, draw):
    """Gradients flow back: each entry of X gets the gradient of its position in the result."""
    b, h, n, d_head, _ = sizes(draw)
    X, upstream = draw.tensor(b, h, n, d_head), draw.tensor(b, n, h * d_head)
    _, gradients, _ = backward(merge_heads, X, upstream=upstream)
    expect_close(gradients[0], columns(upstream.numpy(), h), what=Message("the gradient of X"))


@check(weight=1, needs=[merge_heads_shape])
def merge_heads_kept(merge_heads, draw):
    """Keeps the dtype of `X`, and does not change `X`."""
    b, h, n, d_head, _ = sizes(draw)
    X = draw.tensor(b, h, n, d_head)
    results = {dtype: merge_heads(X.bfloat16().to(dtype)) for dtype in DTYPES}
    expect_tensor_dtypes(results, (b, n, h * d_head))
    expect_unchanged(merge_heads, ["X"], X)


# MultiHeadAttentionLoop and MultiHeadAttention, which have the same checks

of_both = functools.partial(suite.check_each, "MultiHeadAttentionLoop", "MultiHeadAttention")


def named(subject, values, h):
    """Return parameters under the names that they have in the class under test."""
    return of_heads(values, h) if subject.name == "MultiHeadAttentionLoop" else values


def loaded(subject, values, h, bias=True, ahead=()):
    """Return a layer of the class under test with these parameters, in evaluation mode.

    `ahead` has the arguments of the next calls: they are sent in the same message if the layer is in another process.
    """
    arguments = (len(values["W_o.weight"]), h) if bias else (len(values["W_o.weight"]), h, bias)
    return subject.loaded(
        arguments, named(subject, values, h), torch.float64, training=False, ahead=ahead
    )


def expect_attends(layer, values, h, *arguments):
    """Fail unless a layer returns what the specification does; if both results are wrong, name the weights."""
    expect_results(layer(*arguments), attended(values, h, *arguments))


def expect_results(result, expected):
    out, weights = expect_tuple(result, RESULTS)
    expect_close(weights, expected[1], what="weights")
    expect_close(out, expected[0], what="out")


def expect_all(subject, values, h, cases, bias=True):
    """Do the same as `expect_attends` for one layer and several lists of arguments."""
    layer = loaded(subject, values, h, bias, ahead=cases)
    for case in cases:
        expect_attends(layer, values, h, *case)


def expect_refused(subject, values, h, refused):
    """Fail unless a layer raises for each of these arguments, which come with the reason."""
    layer = loaded(subject, values, h, ahead=[arguments for arguments, _ in refused])
    for arguments, because in refused:
        expect_raises(REFUSED, layer, *arguments, because=because)


@of_both(weight=2)
def parameters_named(subject, draw):
    """Has exactly the parameters that the text names, with these shapes."""
    # The course's own loop of heads, in the place of one that fails, would earn the points of both classes.
    alone = subject.name != "MultiHeadAttention" or "MultiHeadAttentionLoop" not in suite.instead
    expect(
        alone,
        "`MultiHeadAttention` is built on `MultiHeadAttentionLoop`, which fails. Write it on its own.",
    )
    *_, h, d_head = few(draw)
    d_model = h * d_head
    expect_parameters(
        subject.module(d_model, h), shapes(named(subject, parameters(draw, d_model), h))
    )


@of_both(weight=0.5)
def attributes(subject, draw):
    """Has attributes `d_model` and `num_heads`."""
    *_, h, d_head = few(draw)
    d_model = h * d_head
    layer = subject.module(d_model, h)
    for name, size in [("d_model", d_model), ("num_heads", h)]:
        message = "`{name}` should be {size}, got {found}."
        attribute = layer.read(name)
        expect(attribute == size, Message(message, name=name, size=size, found=str(attribute)[:50]))


@of_both(weight=1, needs=[parameters_named])
def parameters_without_bias(subject, draw):
    """Has no biases with `bias=False`."""
    *_, h, d_head = few(draw)
    d_model = h * d_head
    expect_parameters(
        subject.module(d_model, h, False),
        shapes(named(subject, parameters(draw, d_model, bias=False), h)),
    )


@of_both(weight=0)
def refuses_heads(subject, draw):
    """The constructor raises `ValueError` or similar when d_model is not a multiple of num_heads."""
    cases = [(7, 3), (6, 4), (8, 3), (3, 6)]
    subject.ahead(cases)
    for d_model, h in cases:
        because = Message("d_model is {d_model}, and there are {h} heads", d_model=d_model, h=h)
        expect_raises(REFUSED, subject, d_model, h, because=because)


@of_both(weight=1, needs=[parameters_named])
def shapes_of_results(subject, draw):
    """Returns a tuple of two tensors: out (b, n_q, d_model) and weights (b, h, n_q, n_k)."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values, arguments = parameters(draw, d_model), tokens(draw, b, n_q, n_k, d_model)
    result = loaded(subject, values, h, ahead=[arguments])(*arguments)
    expect_tuple(result, RESULTS)
    expect_tensor(result[0], (b, n_q, d_model), what="out")
    expect_tensor(result[1], (b, h, n_q, n_k), what="weights")


@of_both(weight=3, needs=[shapes_of_results])
def values(subject, draw):
    """Each head computes weights from its own columns, and `W_o` mixes the results; with and without biases."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    for bias in (True, False):
        values = parameters(draw, d_model, bias)
        arguments, others = (tokens(draw, b, n_q, n_k, d_model) for _ in range(2))
        cases = [arguments, tuple(map(noncontiguous, others))]
        expect_all(subject, values, h, cases if not bias else cases[:1], bias)


@of_both(weight=1, needs=[shapes_of_results])
def defaults(subject, draw):
    """With only a query, computes self-attention; with query and key, uses the keys as values."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    query, key, _ = tokens(draw, b, n_q, n_k, d_model)
    as_many = draw.tensor(b, n_q, d_model)  # its shape does not tell it from the query
    expect_all(subject, values, h, [(query,), (query, key), (query, as_many)])


@of_both(weight=1, needs=[defaults])
def by_name(subject, draw):
    """Accepts arguments by name, in any combination: `layer(x, mask=mask)`, `layer(x, value=v)`."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    query, key, value = tokens(draw, b, n_q, n_k, d_model)
    layer = loaded(subject, values, h)
    mask, square = draw.mask(n_q, n_k), draw.mask(n_q, n_q)
    cases = [
        ({"query": query, "mask": square}, 1),
        ({"query": query, "key": key, "mask": mask}, 2),
        ({"query": query, "value": draw.tensor(b, n_q, d_model)}, 1),
        ({"mask": mask, "value": value, "key": key, "query": query}, 0),
    ]
    for named, first in cases:
        pairs = list(named.items())
        result = layer.by_name(*[argument for _, argument in pairs[:first]], **dict(pairs[first:]))
        order = [named.get(name) for name in ("query", "key", "value", "mask")]
        expect_results(result, attended(values, h, *order))


@of_both(weight=2, needs=[values])
def masked(subject, draw):
    """With a mask (n_q, n_k), weights are 0 where it is False; a later call without a mask hides nothing."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    arguments = tokens(draw, b, n_q, n_k, d_model)
    masks = draw.mask(n_q, n_k), torch.ones(n_q, n_k, dtype=torch.bool)
    expect_all(
        subject,
        values,
        h,
        [*[(*arguments, mask) for mask in masks[::-1]], arguments, arguments[:1]],
    )


@of_both(weight=2, needs=[masked])
def masked_sequences(subject, draw):
    """Applies a mask (b, n_q, n_k) or (b, 1, n_k) per sequence, even if there are as many heads as sequences."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    cases = []
    # With h sequences, a mask of shape (b, n_q, n_k) that gets no axis for the heads still broadcasts, to other entries:
    # those of its first axis go to the heads. With n_q sequences, so does (b, 1, n_k) as (b, n_k).
    for sequences in (h, b, n_q):
        arguments = tokens(draw, sequences, n_q, n_k, d_model)
        cases += [(*arguments, draw.mask(sequences, n, n_k)) for n in (n_q, 1)]
    expect_all(subject, values, h, cases)


@of_both(weight=1, needs=[masked])
def masked_heads(subject, draw):
    """Accepts a mask with four axes, (b, h, n_q, n_k), in which any of the first three sizes may be 1."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    arguments = tokens(draw, b, n_q, n_k, d_model)
    shapes = [
        (b, h, n_q),
        (1, h, n_q),
        (b, 1, n_q),
        (b, h, 1),
        (1, 1, n_q),
        (1, h, 1),
        (b, 1, 1),
        (1, 1, 1),
    ]
    cases = [(*arguments, draw.mask(*shape, n_k)) for shape in shapes]
    arguments = tokens(
        draw, h, h, n_k, d_model
    )  # equal sizes: only the axes of size 1 distinguish the masks
    cases += [(*arguments, draw.mask(*shape, n_k)) for shape in [(h, 1, 1), (1, h, 1), (1, 1, h)]]
    expect_all(subject, values, h, cases)


@of_both(weight=2, needs=[masked])
def nothing_to_attend_to(subject, draw):
    """A fully masked query gets zero weights, so its output is the bias of `W_o`."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    for bias in (True, False):
        values = parameters(draw, d_model, bias)
        arguments, mask = tokens(draw, b, n_q, n_k, d_model), draw.mask(b, n_q, n_k)
        mask[:, 0] = mask[0] = False
        expect_all(subject, values, h, [(*arguments, mask)], bias)


@of_both(weight=1, needs=[values])
def sizes_alike(subject, draw):
    """Works when all dimensions are equal, and for long sequences."""
    size = int(draw.rng.integers(3, 5))
    for h, d_head in [(size, 1), (size, size)]:
        d_model = h * d_head
        b = n_q = n_k = size
        values = parameters(draw, d_model)
        arguments = tokens(draw, b, n_q, n_k, d_model)
        expect_all(subject, values, h, [(*arguments, draw.mask(b, n_q, n_k)), arguments[:1]])
    h, d_model = 2, 6
    values = parameters(draw, d_model)
    longs = [(draw.long(), 3), (2, draw.long())]
    expect_all(subject, values, h, [(*tokens(draw, 1, *n, d_model), draw.mask(*n)) for n in longs])


@of_both(weight=1, needs=[values])
def sizes_of_one(subject, draw):
    """Keeps dimensions of size 1: one sequence, one query, one key, one head, one column for each head."""
    *three, h, d_head = few(draw)
    ones = [[1 if i == axis else size for i, size in enumerate(three)] for axis in range(3)]
    for heads, width, cases in [(h, d_head, ones), (1, d_head, [three]), (h, 1, [three])]:
        d_model = heads * width
        arguments = [(*tokens(draw, *lengths, d_model), draw.mask(*lengths)) for lengths in cases]
        expect_all(subject, parameters(draw, d_model), heads, arguments)


@of_both(weight=1, needs=[values])
def large_scores(subject, draw):
    """Handles large positive and negative scores, and still gives masked keys no weight."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    query, key, value = tokens(draw, b, n_q, n_k, d_model)
    cases = []
    for factor in (1000, 1e10, -1e10):
        cases.append((factor * query, key, value, draw.mask(n_q, n_k)))
    expect_all(subject, values, h, cases)


@of_both(weight=1.5, needs=[values])
def gradients(subject, draw):
    """Gradients flow to all parameters and inputs: without a mask, with one, and with a fully masked query."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    layer = loaded(subject, values, h)
    mask = draw.mask(b, n_q, n_k)
    mask[:, 0] = False
    for last in [(), (mask,)]:
        inputs, upstream = tokens(draw, b, n_q, n_k, d_model), draw.tensor(b, n_q, d_model)
        leaves = [part.clone().requires_grad_() for part in inputs]
        parts = {name: part.clone().requires_grad_() for name, part in values.items()}
        (attended(parts, h, *leaves, *last)[0] * upstream).sum().backward()
        expected = named(subject, {name: part.grad for name, part in parts.items()}, h)
        _, input_gradients, of_parameters = backward(layer, *inputs, *last, upstream=upstream)
        for name, part in expect_gradients(layer, of_parameters, expected).items():
            # The gradient of the key bias is 0, since it shifts all scores of a query equally; the rest is rounding.
            unit = max(np.abs(expected[name].numpy()).max(), 1.0)
            expect_close(
                part,
                expected[name],
                what=Message("the gradient of {name}", name=name),
                unit=np.array(unit),
            )
        for name, part, leaf in zip(
            ("query", "key", "value"), input_gradients, leaves, strict=False
        ):
            expect_close(part, leaf.grad, what=Message("the gradient of {name}", name=name))


def through_weights(module, inputs, upstream):
    """Return the gradients of inputs and parameters for a loss of the weights alone; None if there are none."""
    import torch

    leaves = [part.detach().clone().requires_grad_() for part in inputs]
    module.zero_grad()
    with torch.enable_grad():
        weights = module(*leaves)[1]
        if not weights.requires_grad:
            return None
        (weights * upstream).sum().backward()
    named = dict(module.named_parameters())
    return [leaf.grad for leaf in leaves], {name: part.grad for name, part in named.items()}


@of_both(weight=0.5, needs=[gradients])
def gradients_of_weights(subject, draw):
    """Gradients also flow from the returned weights to queries, keys and their projections."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    inputs, upstream = tokens(draw, b, n_q, n_k, d_model)[:2], draw.tensor(b, h, n_q, n_k)
    leaves = [part.clone().requires_grad_() for part in inputs]
    parts = {name: part.clone().requires_grad_() for name, part in values.items()}
    (attended(parts, h, *leaves)[1] * upstream).sum().backward()
    results = loaded(subject, values, h).run_remote(through_weights, inputs, upstream)
    message = Message(
        "The returned weights have no gradient: look for {cuts} on the way to them.", cuts=CUTS
    )
    expect(results is not None, message)
    for name, part, leaf in zip(("query", "key"), results[0], leaves, strict=True):
        expect_close(part, leaf.grad, what=Message("the gradient of {name}", name=name))
    asked = {f"{name}.weight": parts[f"{name}.weight"].grad for name in ("W_q", "W_k")}
    for name, expected in named(subject, asked, h).items():
        expect_close(
            results[1].get(name), expected, what=Message("the gradient of {name}", name=name)
        )


@of_both(weight=1, needs=[values])
def in_training(subject, draw):
    """Returns the same results in training mode, the mode of a new layer: there is no dropout."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    arguments = tokens(draw, b, n_q, n_k, d_model)
    cases = [arguments, (*arguments, draw.mask(n_q, n_k))]
    layer = loaded(subject, values, h, ahead=cases * 2)
    for case in cases * 2:  # twice, so that state left by a call is not blamed on the mode
        expect_attends(layer, values, h, *case)
    layer.train()
    try:
        for case in cases:
            expect_attends(layer, values, h, *case)
    except Failed as failure:
        message = "The results are right after `eval()` but wrong in training mode, probably because of dropout. {rest}"
        raise Failed(Message(message, rest=failure.message), explained=True) from None


@of_both(weight=1, needs=[shapes_of_results])
def dtype(subject, draw):
    """Keeps the inputs' dtype, float32, float64, float16 or bfloat16, with and without a mask."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    exact = {name: part.bfloat16().double() for name, part in parameters(draw, d_model).items()}
    layer = loaded(subject, exact, h)
    arguments, mask = tokens(draw, b, n_q, n_k, d_model), draw.mask(n_q, n_k)
    # Scores are small: whether an exponential overflows in float16 is not asked here.
    arguments = [part.bfloat16() / 4 for part in arguments]
    outs, seen = [{}, {}], [{}, {}]
    for kind in DTYPES:
        layer.to(kind)
        inputs = [part.to(kind) for part in arguments]
        cases = [inputs, [*inputs, mask]]
        layer.ahead(cases)
        for case, out, weights in zip(cases, outs, seen, strict=True):
            out[kind], weights[kind] = layer(*case)
    for out, weights in zip(outs, seen, strict=True):
        expect_tensor_dtypes(out, (b, n_q, d_model), what="out")
        expect_tensor_dtypes(weights, (b, h, n_q, n_k), what="weights")


@of_both(weight=1, needs=[values])
def refuses_masks(subject, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` when the mask is for another number of queries or keys."""
    # Worth points: code that crops such a mask applies a different one. PyTorch raises by itself.
    b, n_q, n_k, h, d_head = few(draw)
    values, inputs = parameters(draw, h * d_head), tokens(draw, b, n_q, n_k, h * d_head)
    more = (
        max(b, n_q, n_k, h) + 1
    )  # and not the size of another axis, which such a mask would fit by chance
    shapes = [(n_q, more), (more, n_k), (b, more, n_k)]
    refused = [
        ((*inputs, draw.mask(*shape)), Message("the mask is {shape}", shape=str(shape)))
        for shape in shapes
    ]
    expect_refused(subject, values, h, refused)


@of_both(weight=0, needs=[values])
def refuses_sizes(subject, draw):
    """Raises when widths, numbers of keys and values, or a mask's number of heads do not match, even if one is 1."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    state = parameters(draw, d_model)
    refused = []  # arguments, and the reason
    query, key, value = tokens(draw, b, n_q, n_k, d_model)
    for widths in [
        (d_model + h, d_model, d_model),
        (d_model, 1, d_model),
        (d_model, d_model, d_model - h),
    ]:
        n = n_q, n_k, n_k
        inputs = [draw.tensor(b, *shape) for shape in zip(n, widths, strict=True)]
        refused.append((inputs, Message("d_model is {d_model}", d_model=d_model)))
    for keys, values in [(n_k, n_k + 1), (n_k, 1), (1, n_k)]:
        inputs = query, draw.tensor(b, keys, d_model), draw.tensor(b, values, d_model)
        refused.append(
            (
                inputs,
                Message(
                    "n_k is {keys} in the key and {values} in the value", keys=keys, values=values
                ),
            )
        )
    for shape in [(n_q, 1), (b, h, n_q, 1), (1, h + 1, n_q, n_k)]:
        because = Message("the mask is {shape}", shape=str(shape))
        refused.append(((query, key, value, draw.mask(*shape)), because))
    for queries, keys in [(1, n_k), (n_q, 1)]:  # must not be stretched to the mask
        inputs = tokens(draw, b, queries, keys, d_model)
        because = Message("the mask is {shape}", shape=str((n_q, n_k)))
        refused.append(((*inputs, draw.mask(n_q, n_k)), because))
    expect_refused(subject, state, h, refused)


@of_both(weight=0.5, needs=[shapes_of_results])
def kept(subject, draw):
    """Does not change query, key, value, mask or parameters."""
    b, n, _, h, d_head = few(
        draw
    )  # queries and results have one shape, so code could overwrite its input
    d_model = h * d_head
    values = parameters(draw, d_model)
    layer = loaded(subject, values, h)
    before = layer.state()
    arguments = tokens(draw, b, n, n, d_model)
    expect_unchanged(layer, ["query", "key", "value", "mask"], *arguments, draw.mask(b, n, n))
    expect_unchanged(layer, ["query"], arguments[0])
    after = layer.state()
    for name in named(subject, values, h):
        expect_close(
            after[name],
            before[name],
            what=Message("the parameter {name} after the call", name=name),
        )


# fuse


def list_of_heads(values, h):
    """Return the argument of `fuse`: a module of torch's parts with `heads`, `W_o`, `d_model` and `num_heads`."""
    bias = "W_o.bias" in values
    d_model = len(values["W_o.weight"])

    def linear(name, values):
        weight = values[f"{name}.weight"]
        part = nn.Linear(*weight.shape[::-1], bias=bias, dtype=weight.dtype)
        part.load_state_dict(
            {
                part_name: values[f"{name}.{part_name}"]
                for part_name in dict(part.named_parameters())
            }
        )
        return part

    of_loop = of_heads(values, h)
    heads = [
        nn.ModuleDict({name: linear(f"heads.{i}.{name}", of_loop) for name in PROJECTIONS})
        for i in range(h)
    ]
    loop = nn.ModuleDict({"heads": nn.ModuleList(heads), "W_o": linear("W_o", of_loop)})
    loop.d_model, loop.num_heads = d_model, h
    return loop


def expect_moved(layer, values):
    """Fail unless a layer has these parameters."""
    expect_parameters(layer, shapes(values))
    after = layer.state()
    for name, part in values.items():
        try:
            expect_close(after[name], part, what=name)
        except Failed as failure:
            failure.parts = [(name, part.numpy()) for name, part in values.items()]
            if is_new(after[name], part, values):
                text = "None of the given numbers is in `{name}`. Was it copied?"
                failure.relation = Message(text, name=name)
            raise


def is_new(got, wanted, values):
    """Return whether a parameter contains none of the given numbers and is not a multiple of what it should be."""
    got, numbers = (
        got.detach().float(),
        torch.cat([part.flatten() for part in values.values()]).float(),
    )
    if got.shape != wanted.shape or torch.isin(got, numbers).any():
        return False
    return got.numel() > 1 and abs(np.corrcoef(got.flatten(), wanted.flatten())[0, 1]) < ALIKE


def expect_its_own(subject, module, values, name, *inputs):
    """Fail unless a module is unchanged, and stays so when the result is changed."""
    before = {name: part.clone() for name, part in module.state_dict().items()}
    argument = subject.given(module, name)
    with left_as_it_was(argument, *inputs):
        layer = subject.module(argument)
    layer.load({part: torch.zeros_like(value) for part, value in values.items()})
    after = argument.state()
    what = "the parameter {part} of `{name}` after the new layer was trained"
    for part, value in before.items():
        expect_close(after[part], value, what=Message(what, part=part, name=name))


@check(weight=1)
def fuse_parameters(fuse, draw):
    """Returns a `MultiHeadAttention` with the right parameter names and shapes, with biases if `loop` has them."""
    *_, h, d_head = few(draw)
    d_model = h * d_head
    for bias in (True, False):
        values = parameters(draw, d_model, bias)
        expect_parameters(fuse.module(list_of_heads(values, h)), shapes(values))


@check(weight=3, needs=[fuse_parameters])
def fuse_values(fuse, draw):
    """Rows i d_head to (i + 1) d_head - 1 of `W_q`, `W_k`, `W_v` and the biases come from head i; `W_o` is copied."""
    for h, d_head, bias in splits(draw):
        values = parameters(draw, h * d_head, bias)
        expect_moved(fuse.module(list_of_heads(values, h)), values)


@check(weight=1, needs=[fuse_values])
def fuse_outputs(fuse, draw):
    """If your `MultiHeadAttention` is right, the new layer has the same outputs, attention weights and gradients."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    expect_works(fuse.module(list_of_heads(values, h)), values, h, draw, b, n_q, n_k)


def expect_works(layer, values, h, draw, b, n_q, n_k):
    """Fail unless a layer attends with these parameters, and can be trained."""
    d_model = len(values["W_o.weight"])
    layer.train(False)
    inputs, upstream = tokens(draw, b, n_q, n_k, d_model), draw.tensor(b, n_q, d_model)
    expect_attends(layer, values, h, *inputs)
    _, _, parameter_gradients = backward(layer, *inputs, upstream=upstream)
    parts = {name: part.clone().requires_grad_() for name, part in values.items()}
    (attended(parts, h, *inputs)[0] * upstream).sum().backward()
    expected = {
        name: part.grad for name, part in parts.items() if name != "W_k.bias"
    }  # whose gradient is 0
    for name, part in expect_gradients(layer, parameter_gradients, expected).items():
        expect_close(part, expected[name], what=Message("the gradient of {name}", name=name))


@check(weight=1, needs=[fuse_values])
def fuse_own(fuse, draw):
    """Does not change `loop` in any way, and training the new layer does not change `loop` either."""
    *_, h, d_head = few(draw)
    for heads in (h, 1):
        values = parameters(draw, heads * d_head)
        expect_its_own(fuse, list_of_heads(values, heads), values, "loop")


@check(weight=1, needs=[fuse_parameters])
def fuse_dtype(fuse, draw):
    """The new layer has the dtype of the old one: float32, float64 or bfloat16."""
    *_, h, d_head = few(draw)
    values = parameters(draw, h * d_head)
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        state = fuse.module(
            list_of_heads({name: part.to(kind) for name, part in values.items()}, h)
        ).state()
        for name, part in values.items():
            expect_tensor(state[name], tuple(part.shape), kind, what=name)
            expect_close(state[name], part.to(kind), what=name)


# from_torch


def of_torch(values, h, batch_first=True, dropout=0.0):
    """Return PyTorch's layer with these parameters."""
    bias, d_model = "W_o.bias" in values, len(values["W_o.weight"])
    kind = values["W_o.weight"].dtype
    module = nn.MultiheadAttention(d_model, h, dropout, bias, batch_first=batch_first, dtype=kind)
    state = {"in_proj_weight": torch.cat([values[f"{name}.weight"] for name in PROJECTIONS])}
    state["out_proj.weight"] = values["W_o.weight"]
    if bias:
        state["in_proj_bias"] = torch.cat([values[f"{name}.bias"] for name in PROJECTIONS])
        state["out_proj.bias"] = values["W_o.bias"]
    module.load_state_dict(state)
    return module.eval()


@check(weight=1)
def from_torch_parameters(from_torch, draw):
    """Returns a `MultiHeadAttention` with the right parameter names and shapes, with biases if `module` has them."""
    *_, h, d_head = few(draw)
    d_model = h * d_head
    for bias in (True, False):
        values = parameters(draw, d_model, bias)
        expect_parameters(from_torch.module(of_torch(values, h)), shapes(values))


@check(weight=3, needs=[from_torch_parameters])
def from_torch_values(from_torch, draw):
    """Splits `in_proj_weight` and `in_proj_bias` into W_q, W_k and W_v, in this order; `out_proj` becomes `W_o`."""
    for h, d_head, bias in splits(draw):
        values = parameters(draw, h * d_head, bias)
        expect_moved(from_torch.module(of_torch(values, h)), values)


@check(weight=1, needs=[from_torch_values])
def from_torch_outputs(from_torch, draw):
    """If your `MultiHeadAttention` is right, the new layer returns PyTorch's results, always with the batch first."""
    b, n_q, n_k, h, d_head = few(draw)
    d_model = h * d_head
    values = parameters(draw, d_model)
    for batch_first in (True, False):
        module = of_torch(values, h, batch_first, dropout=0.5)
        expect_works(from_torch.module(module), values, h, draw, b, n_q, n_k)
        query, key, value = tokens(draw, b, n_q, n_k, d_model)
        mask = draw.mask(n_q, n_k)

        def theirs(*inputs, module=module, mask=mask):
            turned = [X if module.batch_first else X.transpose(0, 1) for X in inputs[:3]]
            out, weights = module(*turned, attn_mask=~mask, average_attn_weights=False)
            return (out if module.batch_first else out.transpose(0, 1)).detach(), weights.detach()

        layer = from_torch.module(module).train(False)
        expect_agrees(layer, theirs, query, key, value, mask, names=RESULTS)


@check(weight=1, needs=[from_torch_values])
def from_torch_own(from_torch, draw):
    """Does not change `module` in any way, and training the new layer does not change `module` either."""
    b, n_q, n_k, h, d_head = few(draw)
    values = parameters(draw, h * d_head)
    inputs = tokens(draw, b, n_q, n_k, h * d_head)
    for batch_first in (True, False):
        arguments = inputs if batch_first else [X.transpose(0, 1) for X in inputs]
        for training in (True, False):
            module = of_torch(values, h, batch_first, dropout=0.5).train(training)
            expect_its_own(from_torch, module, values, "module", *arguments)


@check(weight=1, needs=[from_torch_parameters])
def from_torch_dtype(from_torch, draw):
    """The new layer has the dtype of the old one: float32, float64 or bfloat16."""
    *_, h, d_head = few(draw)
    values = parameters(draw, h * d_head)
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        state = from_torch.module(
            of_torch({name: part.to(kind) for name, part in values.items()}, h)
        ).state()
        for name, part in values.items():
            expect_tensor(state[name], tuple(part.shape), kind, what=name)
            expect_close(state[name], part.to(kind), what=name)

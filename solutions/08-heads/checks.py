"""Checks of exercise 8. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Scores are compared with `specifications`, which computes them as sums over elements. It is in checking.zip together
with the runtime, `checking`, so that no one sees an answer by accident. Ranks are compared with those of matrices
that are built from singular values. The results of a layer without a head are compared with the sum over the other
heads; any way to silence the head is accepted. The given layer is compared before and after with `left_as_it_was`
from `checking/module_state.py`. The tolerance is `RTOL` in `checking/expect.py`, which explains how it was chosen.
The course's tests measure how far right answers stay below it and known mistakes above it.
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

import contextlib

import numpy as np
import torch

from checking import (
    CUTS,
    Message,
    Module,
    Suite,
    backward,
    counts_in,
    expect,
    expect_by_hand,
    expect_close,
    expect_module,
    expect_raises,
    expect_tensor,
    expect_tensor_dtypes,
    expect_tuple,
    expect_unchanged,
    left_as_it_was,
    noncontiguous,
    told_by,
)
from specifications import attended, parts, rank_of, scores, without

torch.set_num_threads(1)  # everything here is small

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 8, By hand",
        "previous_token_score": "chapter 8, Three kinds of heads",
        "effective_rank": "chapter 8, How much rank",
        "ablate_head": "chapter 8, Heads add up",
        "head_importance": "chapter 8, Importance",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset

REFUSED = (ValueError, RuntimeError, IndexError)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
RESULTS = ("out", "weights")
PROJECTIONS = ("W_q", "W_k", "W_v")


# by_hand


@check()
def by_hand_four_numbers(by_hand, draw):
    """Returns two probabilities, a previous-token score and an effective rank."""
    z, W_o = np.array([3.0, 2]), np.array([[np.log(4) / 3, 0], [np.log(2) / 2, 0]])
    right = [np.exp(y[0]) / np.exp(y).sum() for y in (z @ W_o, z[1:] @ W_o[1:])]
    squares = np.array([1.4, 0.8, 0.4, 0.1]) ** 2
    rank = 1 + (squares.cumsum() < 0.9 * squares.sum()).sum()
    expect_by_hand(by_hand(), [*right, np.mean([0.6, 0.9, 0.0]), rank])


# Inputs


def sizes(draw):
    """Return five small sizes, all different, for example b, n_q, n_k, h and d_head."""
    return [int(size) for size in draw.rng.permutation([2, 3, 4, 5, 7])]


def widths(draw):
    """Return a number of heads and the width of each: different, and with a head between the first and the last."""
    return [int(size) for size in draw.rng.permutation([3, 4, 5])[:2]]


def parameters(draw, d_model, bias=True):
    """Return parameters of a `MultiHeadAttention`, by name; the scores are about 1."""
    values = {}
    for name in (*PROJECTIONS, "W_o"):
        values[f"{name}.weight"] = draw.tensor(d_model, d_model) / d_model**0.5
        if bias:
            values[f"{name}.bias"] = draw.tensor(d_model)
    return values


# Singular values for which other definitions give another count: by their sum, by fourth powers, above a share of the
# largest, by entropy, without the largest, and more. Small changes of the values do not change these counts.
SPECTRA = [
    [5.0, 2.5, 1.0],
    [2.3, 0.8, 0.6, 0.5, 0.4],
    [4.5, 1.5, 1.3, 0.9, 0.8, 0.3],
    [5.9, 2.8, 2.1, 1.6, 1.4, 1.3, 0.8],
    [7.4, 2.5, 1.7, 1.6, 1.4, 1.3, 0.5, 0.3],
    [6.3, 2.5, 2.2, 1.9, 1.6, 1.1, 1.0, 0.7, 0.2],
]
OTHER_ENERGIES = {
    0.5: [4.5, 2.9, 2.7, 2.6, 2.1, 1.9, 1.6, 1.3, 0.3],
    0.75: [4.6, 4.2, 4.1, 3.1, 2.7, 2.5, 2.4, 1.9, 0.5],
    0.99: [2.6, 2.4, 1.8, 0.9, 0.8, 0.7, 0.6, 0.4, 0.3],
}


def spectrum(draw, n, m, singular):
    """Return a matrix (n, m) with singular values close to these, of any size, and those values.

    The first pair of singular vectors is constant: a matrix without its mean lacks the largest singular value.
    """
    singular = (
        np.array(singular) * draw.rng.uniform(0.3, 3) * draw.rng.uniform(0.99, 1.01, len(singular))
    )
    singular = np.sort(singular)[::-1]
    parts = [draw.array(size, len(singular)) for size in (n, m)]
    for part in parts:
        part[:, 0] = 1
    left, right = (np.linalg.qr(part)[0] for part in parts)
    return torch.tensor((left * singular) @ right.T), singular


def expect_ranks(effective_rank, cases):
    """Fail unless the function returns the ranks of these matrices, given with singular values and energy."""
    results = [effective_rank(A, *energy) for A, _, *energy in cases]
    for rank, (_, singular, *energy) in zip(results, cases, strict=True):
        share = energy[0] if energy else 0.9
        expect_rank(rank, rank_of(singular, share), singular, share)


# These run in the process of the function under test. Each imports what it needs.


def made_layer(function, values, h, training):
    """Return a layer with these parameters, in training mode or not: the `MultiHeadAttention` of the notebook."""
    import torch
    from torch import nn

    class MultiHeadAttention(nn.Module):
        def __init__(self, d_model, num_heads, bias=True):
            super().__init__()
            self.d_model, self.num_heads = d_model, num_heads
            for name in ("W_q", "W_k", "W_v", "W_o"):
                setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

        def forward(self, query, key=None, value=None, mask=None):
            key = query if key is None else key
            value = key if value is None else value
            projected = ((self.W_q, query), (self.W_k, key), (self.W_v, value))
            q, k, v = (
                projection(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
                for projection, x in projected
            )
            S = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
            A = (S if mask is None else S.masked_fill(~mask, -torch.inf)).softmax(-1)
            return self.W_o((A @ v).transpose(1, 2).flatten(2)), A

    layer = MultiHeadAttention(len(values["W_o.weight"]), h, "W_o.bias" in values)
    layer.to(values["W_o.weight"].dtype).load_state_dict(values)
    return layer.train(training)


def cut(function, layer, head):
    """Return the result of cutting a head."""
    return function(layer, head)


def trained(module):
    """Change each of a module's parameters, as training would."""
    import torch

    with torch.no_grad():
        for part in module.parameters():
            part.add_(1)


def can_learn(module):
    """Return whether some parameter of a module requires a gradient."""
    return any(part.requires_grad for part in module.parameters())


def through_weights(module, query, key, upstream):
    """Return the gradients of query and key for a loss of the weights alone; None if there are none."""
    import torch

    leaves = [part.detach().clone().requires_grad_() for part in (query, key)]
    with torch.enable_grad():
        weights = module(*leaves)[1]
        if not weights.requires_grad:
            return None
        (weights * upstream).sum().backward()
    return [leaf.grad for leaf in leaves]


def measured(function, layer, query, key, target, kind):
    """Return the importances for a mean squared distance to a target; the loss returns a float or a tensor."""

    def loss(layer):
        distance = (layer(query, key)[0] - target).square().mean()
        return distance.item() if kind == "float" else distance

    return function(layer, loss)


A_LAYER = "a layer with d_model = {d_model} and {h} heads"
AN_ABLATED = "head {head} of a layer with d_model = {d_model} and {h} heads"


def layer_of(function, values, h, training=False):
    """Return a layer with these parameters, to pass to the function under test and to inspect."""
    return Module(function, function.run_remote(made_layer, values, h, training), "layer")


def ablated(ablate_head, layer, values, h, head):
    """Return the copy without a head."""
    context = Message(AN_ABLATED, d_model=len(values["W_o.weight"]), h=h, head=head)
    copy = ablate_head.run_remote(cut, layer, head, given=context)
    expect_module(copy, ablate_head.name)
    return Module(
        ablate_head,
        copy,
        Message("the layer that `{function}` returned", function=ablate_head.name),
    )


def some_ablated(
    ablate_head, draw, h, d_head, bias=True, dtype=torch.float64, training=False, head=None
):
    """Return a copy without a head, the original layer, its parameters, and the head."""
    values = {name: part.to(dtype) for name, part in parameters(draw, h * d_head, bias).items()}
    head = int(draw.rng.integers(h)) if head is None else head
    layer = layer_of(ablate_head, values, h, training)
    return ablated(ablate_head, layer, values, h, head), layer, values, head


# previous_token_score


@check(weight=1)
def previous_token_score_shape(previous_token_score, draw):
    """Returns a tensor of shape (h,) for weights of shape (b, h, n, n)."""
    b, h, n = draw.sizes(3)
    expect_tensor(previous_token_score(draw.tensor(b, h, n, n)), (h,))


@check(weight=3, needs=[previous_token_score_shape])
def previous_token_score_values(previous_token_score, draw):
    """Entry t is the mean of A[i, i - 1] for head t, over i from 1 on and over the batch."""
    b, h, n = draw.sizes(3)
    for A in (draw.tensor(b, h, n, n), noncontiguous(draw.tensor(b, h, n, n))):
        expect_close(previous_token_score(A), scores(A.numpy()))


@check(weight=1)
def previous_token_score_unbatched(previous_token_score, draw):
    """Also works for weights of shape (h, n, n), without a batch dimension."""
    h, n = draw.sizes(2)
    for heads in (h, n, 1):
        A = draw.tensor(heads, n, n)
        expect_close(previous_token_score(A), scores(A.numpy()))


@check(weight=1, needs=[previous_token_score_shape])
def previous_token_score_alike(previous_token_score, draw):
    """Works when all dimensions are equal, for long sequences, and for dimensions of size 1."""
    size, other = draw.sizes(2)
    long = draw.long()
    for shape in [(size,) * 4, (2, 1, long, long), (1, other, 2, 2), (1, 1, size, size)]:
        A = draw.tensor(*shape)
        expect_close(previous_token_score(A), scores(A.numpy()))


@check(weight=0)
def previous_token_score_refuses(previous_token_score, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` for non-square weights and for a single token."""
    b, h, n, m, _ = sizes(draw)
    for rows, columns in ((n, m), (n, n + 1), (n + 1, n), (1, n), (n, 1)):
        for lead in ((b, h), (h,)):
            expect_raises(
                REFUSED,
                previous_token_score,
                draw.tensor(*lead, rows, columns),
                because=Message("the weights are not square"),
            )
    expect_raises(
        REFUSED,
        previous_token_score,
        draw.tensor(b, h, 1, 1),
        because=Message("a single token has no token before it"),
    )


@check(weight=1, needs=[previous_token_score_values])
def previous_token_score_gradient(previous_token_score, draw):
    """Gradients flow to the entries just below the diagonal, equally, and to no others."""
    b, h, n = draw.sizes(3)
    A, upstream = draw.tensor(b, h, n, n), draw.tensor(h)
    _, gradients, _ = backward(previous_token_score, A, upstream=upstream)
    expected = np.eye(n, k=-1) * upstream.numpy()[:, None, None] / (b * (n - 1))
    expect_close(
        gradients[0], np.broadcast_to(expected, A.shape), what=Message("the gradient of A")
    )


@check(weight=1, needs=[previous_token_score_shape])
def previous_token_score_kept(previous_token_score, draw):
    """Keeps the dtype of `A`, and does not change `A`."""
    b, h, n = draw.sizes(3)
    A = draw.tensor(b, h, n, n)
    results = {dtype: previous_token_score(A.bfloat16().to(dtype)) for dtype in DTYPES}
    expect_tensor_dtypes(results, (h,))
    expect_unchanged(previous_token_score, ["A"], A)


# effective_rank


@check(weight=1)
def effective_rank_kind(effective_rank, draw):
    """Returns a Python `int`."""
    n, m, *_ = sizes(draw)
    result = effective_rank(draw.tensor(n, m))
    message = "The result should be an int, got type {type}. `int(...)` or `.item()` converts it."
    expect(type(result) is int, Message(message, type=type(result).__name__))


def expect_rank(got, rank, singular, energy):
    """Fail unless this number of singular values was counted."""
    shown = ", ".join(f"{value:.2f}" for value in singular[:8]) + (
        ", …" if len(singular) > 8 else ""
    )
    message = "With singular values {singular} and energy {energy}, the effective rank should be {rank}, got {found}."
    values = {"singular": shown, "energy": str(energy), "rank": rank, "found": str(got)[:20]}
    expect(got == rank, Message(message, **values))


@check(weight=4, needs=[effective_rank_kind])
def effective_rank_values(effective_rank, draw):
    """Returns the smallest number of singular values whose squares reach 0.9 of the sum of all squares."""
    shapes = [(5, 7), (9, 6), (7, 10), (11, 8), (9, 12)]
    expect_ranks(
        effective_rank, [spectrum(draw, *shape, SPECTRA[min(shape) - 4]) for shape in shapes]
    )


@check(weight=1, needs=[effective_rank_kind])
def effective_rank_energy(effective_rank, draw):
    """Uses `energy`, which is 0.9 by default; a share that is met exactly counts as reached."""
    cases = [
        (*spectrum(draw, 9, 11, singular), energy) for energy, singular in OTHER_ENERGIES.items()
    ]
    for n, energy in ((2, 0.5), (4, 0.25), (4, 0.5), (8, 0.75)):  # exact in binary
        cases.append((torch.eye(n, dtype=torch.float64), np.ones(n), energy))
    cases.append(spectrum(draw, 9, 11, SPECTRA[-1]))
    expect_ranks(effective_rank, cases)


@check(weight=1, needs=[effective_rank_kind])
def effective_rank_alike(effective_rank, draw):
    """Accepts square matrices, long ones, and dimensions of size 1, and does not center or shift the entries."""
    (size,) = draw.sizes(1)
    cases = [
        spectrum(draw, n, m, SPECTRA[i])
        for n, m, i in ((7, 7, 3), (draw.long(), 3, 0), (5, draw.long(), 1))
    ]
    cases += [spectrum(draw, n, m, [1.0]) for n, m in ((1, size), (size, 1), (1, 1))]
    cases.append((draw.tensor(size, 7) / 20 + 3, np.array([3 * (7 * size) ** 0.5, 0.1])))
    expect_ranks(effective_rank, cases)


@check(weight=0, needs=[effective_rank_kind])
def effective_rank_zero(effective_rank, draw):
    """Returns 1 for a matrix of zeros."""
    n, m, *_ = sizes(draw)
    for shape in ((n, m), (n, n), (1, m)):
        expect_rank(
            effective_rank(torch.zeros(shape, dtype=torch.float64)), 1, [0.0] * min(shape), 0.9
        )


@check(weight=1)
def effective_rank_refuses(effective_rank, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` unless A has two axes."""
    # Worth points: several heads at once would be counted together and give one number.
    b, n, m, *_ = sizes(draw)
    for shape in ((n,), (b, n, m), (1, n, m)):
        because = Message("A has {count} axes", count=len(shape))
        expect_raises(REFUSED, effective_rank, draw.tensor(*shape), because=because)


@check(weight=1, needs=[effective_rank_kind])
def effective_rank_kept(effective_rank, draw):
    """Accepts float32 and tensors that require a gradient, and does not change `A`."""
    A, singular = spectrum(draw, 6, 8, SPECTRA[2])
    expect_ranks(effective_rank, [(A.float(), singular), (A.clone().requires_grad_(), singular)])
    expect_unchanged(effective_rank, ["A"], A)


# ablate_head


def expect_without(copy, values, h, head, query, key=None, value=None, mask=None, names=()):
    """Fail unless a copy returns the sum of the other heads, and their weights; say how often each head counts in it.

    `names` lists the arguments that are passed by name.
    """
    arguments = {"query": query, "key": key, "value": value, "mask": mask}
    named = {name: arguments.pop(name) for name in names}
    by_position = [argument for argument in arguments.values() if argument is not None]
    result = copy.by_name(*by_position, **named) if named else copy(*by_position)
    out, weights = expect_tuple(result, RESULTS)
    with told_by(counts_of, out, values, h, head, query, key, value, mask):
        expect_close(out, without(values, h, head, query, key, value, mask), what="out")
    others = [t for t in range(h) if t != head]
    expected = attended(values, h, query, key, value, mask)[:, others]
    expect_close(weights[:, others], expected, what=Message("the weights of the other heads"))


def expect_ablated(ablate_head, draw, h, d_head, lengths=(2, 3, 4), **more):
    """Fail unless the result is the sum of the other heads."""
    copy, _, values, head = some_ablated(ablate_head, draw, h, d_head, **more)
    b, n_q, n_k = lengths
    query, key = draw.tensor(b, n_q, h * d_head), draw.tensor(b, n_k, h * d_head)
    expect_without(copy, values, h, head, query, key)


def counts_of(out, values, h, head, *arguments):
    """Return a sentence on how often each head, and the bias of W_o, counts in a result; "" if that is unknown."""
    added = parts(values, h, *arguments)
    out = torch.tensor(out)
    terms = {str(t): part for t, part in enumerate(added)}
    if "W_o.bias" in values:
        terms["bias"] = values["W_o.bias"].expand(added[0].shape)
    if added[0].numel() <= len(terms):
        return ""  # any result is a sum of so many terms
    counted = counts_in(out, terms)
    if counted is None:
        return Message(
            "The result is not a sum of whole heads: parts of heads are missing or left over, or other "
            "numbers are added."
        )
    counts = {term: f"{round(count, 3) + 0.0:g}" for term, count in counted.items()}
    bias = counts.pop("bias", "1")
    if bias != "1":
        return Message(
            "The bias of W_o should count once in the result, but counts {count} times.", count=bias
        )
    return Message(
        "Heads 0 to {last} count {counts} times in the result. The counts should be {wanted}.",
        last=h - 1,
        counts=", ".join(counts.values()), wanted=", ".join("0" if t == head else "1" for t in range(h)),
    )  # fmt: skip


@check(weight=1)
def ablate_head_layer(ablate_head, draw):
    """Returns a layer that is called like the given one and returns tensors of the same shapes."""
    h, d_head = widths(draw)
    copy, *_ = some_ablated(ablate_head, draw, h, d_head)
    result = copy(draw.tensor(2, 3, h * d_head), draw.tensor(2, 4, h * d_head))
    expect_tuple(result, RESULTS)
    expect_tensor(result[0], (2, 3, h * d_head), what="out")
    expect_tensor(result[1], (2, h, 3, 4), what="weights")


@check(weight=3, needs=[ablate_head_layer])
def ablate_head_silent(ablate_head, draw):
    """The result is the sum of the other heads' parts and the bias of W_o."""
    h, d_head = widths(draw)
    # A middle one first: there, code that is off by one cuts another head, not none. Again of another layer.
    for head in (h // 2, 0, h - 1, h // 2):
        expect_ablated(ablate_head, draw, h, d_head, head=head)


@check(weight=1, needs=[ablate_head_layer])
def ablate_head_no_bias(ablate_head, draw):
    """Also works for a layer without biases."""
    h, d_head = widths(draw)
    expect_ablated(ablate_head, draw, h, d_head, bias=False)


@check(weight=1, needs=[ablate_head_layer])
def ablate_head_alike(ablate_head, draw):
    """Works for as many heads as columns per head, for a single head, and for one column per head."""
    size, other, *_ = sizes(draw)
    for h, d_head, lengths in (
        (size, size, (size,) * 3),
        (1, other, (2, 3, 3)),
        (other, 1, (1, 2, 1)),
    ):
        expect_ablated(ablate_head, draw, h, d_head, lengths=lengths)


@check(weight=1, needs=[ablate_head_silent])
def ablate_head_called(ablate_head, draw):
    """The copy accepts the layer's arguments: only a query, separate values, a mask, and any of them by name."""
    b, n_q, n_k, *_ = sizes(draw)
    h, d_head = widths(draw)
    copy, _, values, head = some_ablated(ablate_head, draw, h, d_head)
    query = draw.tensor(b, n_q, h * d_head)
    key, value = (draw.tensor(b, n_k, h * d_head) for _ in range(2))
    mask = draw.mask(n_q, n_k)
    expect_without(copy, values, h, head, query, key, value, mask)
    expect_without(copy, values, h, head, query, key, value)
    expect_without(copy, values, h, head, query)
    expect_without(
        copy, values, h, head, query, key, value, mask, names=["mask", "value", "key", "query"]
    )
    expect_without(copy, values, h, head, query, mask=draw.mask(n_q, n_q), names=["mask"])


@check(weight=1, needs=[ablate_head_layer])
def ablate_head_kept(ablate_head, draw):
    """Does not change the layer, its hooks or its attributes; training layer or copy does not affect the other."""
    b, n_q, n_k, *_ = sizes(draw)
    h, d_head = widths(draw)
    query, key = draw.tensor(b, n_q, h * d_head), draw.tensor(b, n_k, h * d_head)
    for training in (True, False):
        values = parameters(draw, h * d_head)
        layer = layer_of(ablate_head, values, h, training)
        with left_as_it_was(layer, query, key):
            copy = ablated(ablate_head, layer, values, h, int(draw.rng.integers(h)))
    copy.run_remote(trained)
    after = layer.state()
    for name, part in values.items():
        what = Message("the parameter {name} of the layer after the copy was changed", name=name)
        expect_close(after[name], part, what=what)
    before, _ = expect_tuple(copy(query, key), RESULTS)
    layer.run_remote(trained)
    again, _ = expect_tuple(copy(query, key), RESULTS)
    expect_close(again, before, what=Message("the result of the copy after the layer was changed"))


@check(weight=0.5, needs=[ablate_head_silent])
def ablate_head_gradient(ablate_head, draw):
    """The copy can be trained like the layer: gradients flow from its results and from its weights."""
    b, n_q, n_k, *_ = sizes(draw)
    h, d_head = widths(draw)
    copy, _, values, head = some_ablated(ablate_head, draw, h, d_head)
    expect(
        copy.run_remote(can_learn) is True,
        "No parameter of the copy requires a gradient, so the copy cannot be trained.",
    )
    inputs = draw.tensor(b, n_q, h * d_head), draw.tensor(b, n_k, h * d_head)
    upstream = draw.tensor(b, n_q, h * d_head)
    leaves = [part.clone().requires_grad_() for part in inputs]
    (without(values, h, head, *leaves) * upstream).sum().backward()
    _, gradients, _ = backward(copy, *inputs, upstream=upstream)
    for name, part, leaf in zip(("query", "key"), gradients, leaves, strict=True):
        expect_close(part, leaf.grad, what=Message("the gradient of {name}", name=name))
    upstream = draw.tensor(b, h, n_q, n_k)
    upstream[:, head] = 0  # the weights of this head may be anything
    leaves = [part.clone().requires_grad_() for part in inputs]
    (attended(values, h, *leaves) * upstream).sum().backward()
    gradients = copy.run_remote(through_weights, *inputs, upstream)
    message = Message(
        "The returned weights have no gradient: look for {cuts} on the way to them.", cuts=CUTS
    )
    expect(gradients is not None, message)
    for name, part, leaf in zip(("query", "key"), gradients, leaves, strict=True):
        expect_close(part, leaf.grad, what=Message("the gradient of {name}", name=name))


@check(weight=1, needs=[ablate_head_layer])
def ablate_head_like(ablate_head, draw):
    """The copy has the layer's dtype and mode."""
    h, d_head = widths(draw)
    for dtype, training in ((torch.float32, True), (torch.float64, False)):
        copy, _, values, head = some_ablated(
            ablate_head, draw, h, d_head, dtype=dtype, training=training
        )
        query, key = (draw.tensor(2, n, h * d_head, dtype=dtype) for n in (3, 4))
        out = expect_tensor(copy(query, key)[0], (2, 3, h * d_head), dtype, what="out")
        expect_close(out, without(values, h, head, query, key), what="out")
        mode = copy.read("training")
        message = "`copy.training` should be {expected}, as in the layer, got {found}."
        expect(mode is training, Message(message, expected=str(training), found=str(mode)[:10]))


@check(weight=1)
def ablate_head_refuses(ablate_head, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` for a head that is h, above h or negative."""
    # Worth points: Python counts -1 from the end, and a slice beyond the end is empty: another head is cut, or none.
    h, d_head = widths(draw)
    layer = layer_of(ablate_head, parameters(draw, h * d_head), h)
    for head in (h, h + 1, -1):
        because = Message("there is no head {head} in a layer with {h} heads", head=head, h=h)
        expect_raises(REFUSED, ablate_head, layer, head, because=because)


# head_importance


def importance(
    head_importance, draw, h, d_head, kind="float", best=None, training=False, whole=False
):
    """Return the result and the expected importances; the target lacks head `best`, if given.

    Without `best`, all importances are positive. Those of three heads or more are not sorted.
    With `whole`, fail unless the layer is left as it was.
    """
    b, n_q, n_k, *_ = sizes(draw)
    d_model = h * d_head
    while True:
        values = parameters(draw, d_model)
        query, key = draw.tensor(b, n_q, d_model), draw.tensor(b, n_k, d_model)
        outs = [without(values, h, head, query, key) for head in (*range(h), None)]
        target = draw.tensor(b, n_q, d_model) / 2 + outs[-1] if best is None else outs[best]
        losses = np.array([(out - target).square().mean().item() for out in outs])
        expected = losses[:-1] - losses[-1]
        steps = np.diff(expected) / np.abs(expected).max()
        mixed = h < 3 or steps.min() < -0.02 < 0.02 < steps.max()
        if mixed and (best is not None or expected.min() > 0.05 * expected.max()):
            break
    layer = layer_of(head_importance, values, h, training)
    context = Message(A_LAYER, d_model=d_model, h=h)
    with left_as_it_was(layer, query, key) if whole else contextlib.nullcontext():
        result = head_importance.run_remote(
            measured, layer, query, key, target, kind, given=context
        )
    return result, expected


@check(weight=1)
def head_importance_shape(head_importance, draw):
    """Returns a tensor of shape (h,)."""
    h, d_head = widths(draw)
    expect_tensor(importance(head_importance, draw, h, d_head)[0], (h,))


@check(weight=4, needs=[head_importance_shape])
def head_importance_values(head_importance, draw):
    """Entry t is the loss without head t, and only head t, minus the loss of the whole layer."""
    h, d_head = widths(draw)
    for _ in range(2):
        result, expected = importance(head_importance, draw, h, d_head)
        expect_close(result, expected)


@check(weight=1, needs=[head_importance_shape])
def head_importance_negative(head_importance, draw):
    """A head without which the loss is lower has a negative importance."""
    h, d_head = widths(draw)
    result, expected = importance(head_importance, draw, h, d_head, best=int(draw.rng.integers(h)))
    expect_close(result, expected)


@check(weight=1, needs=[head_importance_shape])
def head_importance_number(head_importance, draw):
    """Accepts a loss that returns a tensor with one number instead of a float."""
    h, d_head = widths(draw)
    result, expected = importance(head_importance, draw, h, d_head, kind="tensor")
    expect_close(result, expected)


@check(weight=1, needs=[head_importance_shape])
def head_importance_ones(head_importance, draw):
    """Works for a single head, and for one column per head."""
    size, _ = widths(draw)
    for h, d_head in ((1, size), (size, 1), (size, size)):
        result, expected = importance(head_importance, draw, h, d_head)
        expect_close(result, expected)


@check(weight=1, needs=[head_importance_shape])
def head_importance_kept(head_importance, draw):
    """Does not change the layer: its parameters, mode, hooks and attributes."""
    h, d_head = widths(draw)
    for training in (True, False):
        importance(head_importance, draw, h, d_head, training=training, whole=True)

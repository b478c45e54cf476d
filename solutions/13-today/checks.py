"""Checks of exercise 13. You may read them: each is one sentence about a function or a class, with inputs on which a
wrong one fails.

Results are compared with `specifications`, which computes in float64, head by head and pair by pair. It is in
checking.zip together with the runtime, `checking`, so that no one sees an answer by accident. Inputs are in float64
unless a check says otherwise, and the parameters of a `Block` are drawn at random and loaded by name. The tolerance is
`RTOL` in `checking/expect.py`, which explains how it was chosen. The course's tests measure how far right answers stay
below it and known mistakes above it.
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

import numpy as np
import torch

from checking import (
    Failed,
    Message,
    Suite,
    backward,
    expect,
    expect_all_raise,
    expect_array,
    expect_as_in_float64,
    expect_by_hand,
    expect_close,
    expect_gradients,
    expect_parameters,
    expect_raises,
    expect_tensor,
    expect_tensor_dtypes,
    expect_unchanged,
    noncontiguous,
    told_by,
)
from specifications import SPECIFICATIONS, block, frequencies

torch.set_num_threads(1)  # everything here is small

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 13, By hand",
        "rms_norm": "chapter 13, RMSNorm: only the size",
        "gated_feed_forward": "chapter 13, A gated network",
        "stretched_frequencies": "chapter 13, Rotary positions for longer texts",
        "sink_softmax": "chapter 13, A sink",
        "Block": "chapter 13, The code",
    },
)
check, check_each = suite.check, suite.check_each
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset

REFUSED = (ValueError, RuntimeError, IndexError)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
OF_TENSORS = ("rms_norm", "gated_feed_forward", "sink_softmax")
NUM_AXES = {"rms_norm": 1, "gated_feed_forward": 2, "sink_softmax": 3}
"""How many sizes an input has, apart from leading dimensions."""
NAMES = {
    "rms_norm": ("x", "weight"),
    "gated_feed_forward": ("x", "W_gate", "W_up", "W_down"),
    "sink_softmax": ("S", "sink"),
}


# by_hand


@check()
def by_hand_numbers(by_hand, draw):
    """Returns the normed token, then the four weights under the window and the sink."""
    x, weight = np.array([3.0, 3, 9, 1]), np.array([5.0, 10, 0, -5])
    seen = np.array([0.0, 6, 3, 9])  # the exponentials of the scores in the window
    weights = seen / (2 + seen.sum())
    expect_by_hand(by_hand(), [*(x / np.sqrt(np.mean(x**2)) * weight), *weights])


# Inputs


def sizes(draw, count):
    """Return `count` small sizes, all different."""
    return [int(size) for size in draw.rng.permutation([2, 3, 4, 5, 7])[:count]]


def spread(draw, *shape):
    """Return rows that differ in scale: by up to six times, and none of them of length sqrt(d)."""
    scales = draw.rng.choice([0.4, 0.6, 1.7, 2.4], size=shape[:-1])
    return draw.tensor(*shape) * torch.tensor(scales)[..., None]


def rows(draw, *lead, d=None):
    """Return the arguments of `rms_norm`, with these leading dimensions."""
    d = d or int(draw.rng.choice([6, 8]))
    return spread(draw, *lead, d), draw.tensor(d)


def network(draw, *lead, d, d_ff):
    """Return the arguments of `gated_feed_forward`; its hidden numbers are about 1."""
    shapes = [(d, d_ff), (d, d_ff), (d_ff, d)]
    return draw.tensor(*lead, d), *(draw.tensor(*shape) / shape[0] ** 0.5 for shape in shapes)


def scored(draw, *lead, h, n_q, n_k):
    """Return the arguments of `sink_softmax`: the sinks differ, and take a quarter of the weight or more."""
    sink = math.log(n_k) + torch.tensor(draw.rng.permutation(np.linspace(-0.7, 1.3, h)))
    return 1.5 * draw.tensor(*lead, h, n_q, n_k), sink


def drawn(function, draw, *lead, given=()):
    """Return arguments of a function, with leading dimensions; its own sizes are `given`, or all different."""
    if function.name == "rms_norm":
        return rows(draw, *lead, d=(given or (None,))[0])
    if function.name == "gated_feed_forward":
        d, d_ff = given or sizes(draw, 2)
        return network(draw, *lead, d=d, d_ff=d_ff)
    h, n_q, n_k = given or sizes(draw, 3)
    return scored(draw, *lead, h=h, n_q=n_q, n_k=n_k)


def expect_all(function, cases, **more):
    """Fail unless the results are right for each list of arguments; all of them are sent ahead in one message."""
    function.ahead(cases)
    for case in cases:
        expect_close(function(*case), SPECIFICATIONS[function.name](*case), **more)


# rms_norm


@check(weight=1)
def rms_norm_shape(rms_norm, draw):
    """Returns a tensor of the shape of x."""
    n, d = sizes(draw, 2)
    expect_tensor(rms_norm(draw.tensor(n, d), draw.tensor(d)), (n, d))


@check(weight=3, needs=[rms_norm_shape])
def rms_norm_values(rms_norm, draw):
    """Divides each row by its own root mean square, and multiplies the columns by the weight."""
    n, *_ = sizes(draw, 1)
    x, weight = rows(draw, n)
    other, d = draw.tensor(len(weight)), n
    cases = [(x, weight), (x.flip(0), other), (noncontiguous(spread(draw, n, d)), draw.tensor(d))]
    expect_all(rms_norm, cases)


@check(weight=1, needs=[rms_norm_values])
def rms_norm_eps(rms_norm, draw):
    """Adds eps to the mean square: the default is 1e-6, and a row of zeros gives zeros."""
    n, *_ = sizes(draw, 1)
    x, weight = rows(draw, n)
    zeros = torch.cat([1e-3 * x, 0 * x[:1]])
    # Zeros come first: they tell eps that is missing from one of another size.
    expect_all(rms_norm, [(zeros, weight), (1e-3 * x, weight), (x, weight, 0.5)])


@check(weight=1, needs=[rms_norm_values])
def rms_norm_half(rms_norm, draw):
    """Computes the mean square of float16 numbers in float32, as their squares are beyond 65,504."""
    n, *_ = sizes(draw, 1)
    x, weight = rows(draw, n)
    cases = [(factor * x).half() for factor in (1000, 1e-3)]
    with told_by(all_zero, rms_norm):
        # The result is rounded to 11 bits, and perhaps some factors before it.
        expect_all(rms_norm, [(case, weight.half()) for case in cases], rtol=5e-3)


def all_zero(rms_norm):
    """Return what it says about the squares that the last result is 0 everywhere, or an empty string."""
    if torch.as_tensor(rms_norm.calls[-1].result).abs().max() > 0:
        return ""
    return Message(
        "All numbers are 0, as if they were divided by infinity: in which dtype are the squares taken?"
    )


@check(weight=0.5, needs=[rms_norm_values])
def rms_norm_double(rms_norm, draw):
    """Computes in float64 for float64 numbers: their squares may be beyond the numbers of float32."""
    n, *_ = sizes(draw, 1)
    x, weight = rows(draw, n)
    expect_all(rms_norm, [(1e30 * x, weight)])


# gated_feed_forward


@check(weight=1)
def gated_feed_forward_shape(gated_feed_forward, draw):
    """Returns a tensor of the shape of x."""
    n, d, d_ff = sizes(draw, 3)
    expect_tensor(gated_feed_forward(*network(draw, n, d=d, d_ff=d_ff)), (n, d))


@check(weight=1, needs=[gated_feed_forward_shape])
def gated_feed_forward_curve(gated_feed_forward, draw):
    """With d = d_ff = 1, the result is SiLU of the gate, times the up projection, times W_down."""
    cases = []
    # First above 0: below, the curves of some wrong answers cross that of the right one.
    for low, high in [(1.2, 2.5), (-2.2, -1.4)]:
        gate, up = draw.rng.uniform(low, high), draw.rng.uniform(0.4, 0.6)  # 1 would hide a square
        x = torch.tensor([draw.rng.uniform(0.6, 0.8)], dtype=torch.float64)
        cases.append((x, (gate / x)[None], (up / x)[None], draw.tensor(1, 1)))
    expect_all(gated_feed_forward, cases)


@check(weight=3, needs=[gated_feed_forward_curve])
def gated_feed_forward_values(gated_feed_forward, draw):
    """Multiplies SiLU of the gate with the up projection, and maps the product back."""
    n, d, d_ff = sizes(draw, 3)
    x, *matrices = network(draw, n, d=d, d_ff=d_ff)
    others = network(draw, n, d=d, d_ff=d_ff)
    turned = [noncontiguous(part) for part in (draw.tensor(n, d), *matrices)]
    expect_all(gated_feed_forward, [(x, *matrices), others, turned])


@check(weight=1, needs=[gated_feed_forward_values])
def gated_feed_forward_large(gated_feed_forward, draw):
    """Works for gates in the tens and in the thousands, of either sign."""
    n, d, d_ff = sizes(draw, 3)
    x, *matrices = network(draw, n, d=d, d_ff=d_ff)
    expect_all(gated_feed_forward, [(scale * x, *matrices) for scale in (30, 2000)])


# stretched_frequencies

USUAL = (16, 4.0, 2048)
"""Of its eight pairs, three keep their frequency, two or three lose the whole factor, and the others are in between."""


def expect_frequencies(stretched_frequencies, *cases):
    """Fail unless each frequency is right, on its own scale."""
    stretched_frequencies.ahead(cases)
    for case in cases:
        expected = frequencies(*case)
        what = Message("the frequencies for {arguments}", arguments=", ".join(map(str, case)))
        expect_close(stretched_frequencies(*case), expected, what=what, unit=expected.numpy())


def some(draw, d_k=None):
    """Return d_k, factor and trained: several pairs keep their frequency, several do not."""
    factor, trained = round(float(draw.rng.uniform(2, 9)), 1), int(draw.rng.integers(1500, 6000))
    return d_k or 2 * int(draw.rng.integers(8, 20)), factor, trained


@check(weight=1)
def stretched_frequencies_shape(stretched_frequencies, draw):
    """Returns a tensor of float32 of shape (d_k / 2,)."""
    for d_k in (12, 2 * int(draw.rng.integers(7, 20))):
        expect_tensor(stretched_frequencies(d_k, 4.0, 2048), (d_k // 2,), torch.float32)


@check(weight=1, needs=[stretched_frequencies_shape])
def stretched_frequencies_unchanged(stretched_frequencies, draw):
    """With a factor of 1, all frequencies are those of the rotary encoding, base^(-2i / d_k)."""
    d_k, _, trained = some(draw)
    expect_frequencies(stretched_frequencies, (d_k, 1.0, trained), (d_k, 1, trained, 500.0))


@check(weight=1, needs=[stretched_frequencies_unchanged])
def stretched_frequencies_fast(stretched_frequencies, draw):
    """Pairs with `high` turns or more within the trained length keep their frequency."""
    _, factor, trained = some(draw)
    expect_frequencies(stretched_frequencies, (6, factor, 40 * trained, 10.0))


@check(weight=1, needs=[stretched_frequencies_unchanged])
def stretched_frequencies_slow(stretched_frequencies, draw):
    """Pairs with `low` turns or fewer have their frequency divided by the factor, and by no more."""
    _, factor, _ = some(draw)
    expect_frequencies(stretched_frequencies, (8, factor, 6))  # not one full turn in 6 tokens


@check(weight=3, needs=[stretched_frequencies_fast, stretched_frequencies_slow])
def stretched_frequencies_values(stretched_frequencies, draw):
    """Between `low` and `high` turns, the share that is kept grows in a straight line with the turns."""
    expect_frequencies(stretched_frequencies, some(draw), USUAL, some(draw, 32))


@check(weight=1, needs=[stretched_frequencies_values])
def stretched_frequencies_arguments(stretched_frequencies, draw):
    """Uses each of its arguments: the trained length, the base, and `low` and `high`."""
    d_k, factor, trained = some(draw, 24)
    cases = [
        (d_k, factor, trained, 500_000.0),
        (d_k, factor, trained, 10_000.0, 4.0, 20.0),
        (d_k, factor, trained // 50, 300.0, 0.5, 3.0),
        (d_k, 2 * factor, 16 * trained, 1e6, 2.0, 200.0),
    ]
    expect_frequencies(stretched_frequencies, *cases)


@check(weight=1, needs=[stretched_frequencies_values])
def stretched_frequencies_sizes(stretched_frequencies, draw):
    """Works for a single pair, and for hundreds of them."""
    _, factor, trained = some(draw)
    long = 2 * draw.long()
    cases = [(2, factor, trained), (2, factor, 60), (2, factor, 3), (long, factor, trained)]
    expect_frequencies(stretched_frequencies, *cases)


# sink_softmax


@check(weight=1)
def sink_softmax_shape(sink_softmax, draw):
    """Returns a tensor of the shape of S: the sink has no column of its own."""
    h, n_q, n_k = sizes(draw, 3)
    expect_tensor(sink_softmax(*scored(draw, h=h, n_q=n_q, n_k=n_k)), (h, n_q, n_k))


@check(weight=3, needs=[sink_softmax_shape])
def sink_softmax_values(sink_softmax, draw):
    """The sink of each head is in the denominator of all its rows, like the score of one more key."""
    h, n_q, n_k = sizes(draw, 3)
    S, sink = scored(draw, h=h, n_q=n_q, n_k=n_k)
    other, low = scored(draw, h=n_q, n_q=n_k, n_k=h)
    expect_all(sink_softmax, [(S, sink), (S.flip(0), sink + 1), (noncontiguous(other), low - 3)])


@check(weight=1, needs=[sink_softmax_values])
def sink_softmax_square(sink_softmax, draw):
    """Sinks belong to heads, also where there are as many heads as sequences, queries or keys."""
    n, m, *_ = sizes(draw, 2)
    cases = [((), (n, n, m)), ((), (n, m, n)), ((n,), (n, m, m)), ((n, n), (n, n, n))]
    expect_all(
        sink_softmax, [drawn(sink_softmax, draw, *lead, given=shape) for lead, shape in cases]
    )


@check(weight=1, needs=[sink_softmax_values])
def sink_softmax_large(sink_softmax, draw):
    """Finite for scores and sinks of any size: thousands above 0 or below, or far apart."""
    h, n_q, n_k = sizes(draw, 3)
    S, sink = scored(draw, h=h, n_q=n_q, n_k=n_k)
    far = torch.tensor(draw.rng.permutation(np.linspace(-9000, 9000, h)))
    cases = [(S + 5000, sink + 5000), (S - 5000, sink - 5000), (S + far[:, None, None], sink)]
    cases += [(S, sink + 5000), (S, sink - 5000), (1e6 * S, 1e6 * sink)]
    # In one sequence all is large, in the next one small.
    both = S + torch.tensor([3000.0, -3000.0], dtype=S.dtype)[:, None, None, None]
    expect_all(sink_softmax, [*cases, (both, sink), (both, sink - 4000)])


@check(weight=1, needs=[sink_softmax_values])
def sink_softmax_masked(sink_softmax, draw):
    """A score of −inf gets weight 0, and a row of them weights of 0, without NaN."""
    h, n_q, n_k = sizes(draw, 3)
    S, sink = scored(draw, 2, h=h, n_q=n_q, n_k=n_k)
    some_masked = S.masked_fill(~draw.mask(n_q, n_k), -torch.inf)
    row_masked = some_masked.clone()
    row_masked[0, :, 1] = row_masked[1, 0] = -torch.inf
    expect_all(sink_softmax, [(some_masked, sink), (row_masked, sink), (row_masked, sink - 1e12)])
    try:
        found = gradients_of(sink_softmax, draw, (row_masked, sink))
    except Failed:  # which gradients flow is another check's business
        return
    for what, got, expected in found:
        if got is not None and torch.as_tensor(got).isnan().any():
            expect_close(got, expected, what=what)


def gradients_of(function, draw, arguments):
    """Return for each argument what its gradient is called, the gradient, and the expected one."""
    upstream = draw.tensor(*arguments[0].shape)
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    (SPECIFICATIONS[function.name](*leaves) * upstream).sum().backward()
    _, gradients, _ = backward(function, *arguments, upstream=upstream)
    names = [Message("the gradient of {name}", name=name) for name in NAMES[function.name]]
    return list(zip(names, gradients, [leaf.grad for leaf in leaves], strict=True))


# What is checked for the three functions of tensors


def of_tensors(weight, needs="values"):
    """Declare a check of the three functions."""
    return check_each(*OF_TENSORS, weight=weight, needs=[needs])


@of_tensors(weight=1)
def leading_axes(function, draw):
    """Keeps any number of leading dimensions: none, one, two, three."""
    (n,) = sizes(draw, 1)
    leads = [(), (n,), (3, 2), (2, 1, 3)]
    expect_all(function, [drawn(function, draw, *lead) for lead in leads])


@of_tensors(weight=1)
def sizes_alike(function, draw):
    """Works when all dimensions are equal, and for long ones."""
    size, long = int(draw.rng.integers(3, 6)), draw.long()
    num_axes = NUM_AXES[function.name]
    cases = [drawn(function, draw, size, size, given=(size,) * num_axes)]
    lead = () if function.name == "sink_softmax" else (2,)  # scores have an axis of rows anyway
    cases += [drawn(function, draw, *lead, given=(size,) * num_axes)]
    for axis in range(num_axes):
        lengths = [long if i == axis else 2 for i in range(num_axes)]
        cases.append(drawn(function, draw, 2, given=tuple(lengths)))
    expect_all(function, [*cases, drawn(function, draw, long, given=(2,) * num_axes)])


@of_tensors(weight=1)
def sizes_of_one(function, draw):
    """Dimensions of size 1 are kept."""
    num_axes = NUM_AXES[function.name]
    first, second, *rest = sizes(draw, 2 + num_axes)
    cases = [
        ((1, second), rest),
        ((first, 1), rest),
        ((1,), rest),
        ((1, 1), [1] * num_axes),
    ]
    for axis in range(num_axes):
        cases.append(((first,), [1 if i == axis else size for i, size in enumerate(rest)]))
    expect_all(function, [drawn(function, draw, *lead, given=tuple(size)) for lead, size in cases])


@of_tensors(weight=1)
def gradients(function, draw):
    """Gradients flow from the result to every input."""
    arguments = list(drawn(function, draw, 3))
    if function.name == "sink_softmax":
        arguments[0] = arguments[0].masked_fill(
            ~draw.mask(*arguments[0].shape), -torch.inf
        )  # some keys
    for what, got, expected in gradients_of(function, draw, arguments):
        name = what.values["name"]
        message = Message("No gradient reaches {name}: it is cut off from autograd.", name=name)
        expect(got is not None, message)
        expect_close(got, expected, what=what)


@of_tensors(weight=0.5, needs="shape")
def kept(function, draw):
    """Does not change its inputs."""
    arguments = drawn(function, draw, 2)
    expect_unchanged(function, NAMES[function.name], *arguments)


@of_tensors(weight=0.5, needs="shape")
def dtype(function, draw):
    """The result has the dtype of the inputs: float32, float64, float16 or bfloat16."""
    # Several rows: of very few numbers, all may be small because their terms cancel.
    exact = [argument.bfloat16() for argument in drawn(function, draw, 8)]
    cases = [[argument.to(kind) for argument in exact] for kind in DTYPES]
    function.ahead(cases)
    results = {kind: function(*case) for kind, case in zip(DTYPES, cases, strict=True)}
    expect_tensor_dtypes(results, exact[0].shape)


# Sizes that do not match


@check(weight=0, needs=[rms_norm_values])
def rms_norm_refuses(rms_norm, draw):
    """Raises when the weight has another size than the rows, even if it is 1."""
    n, d = sizes(draw, 2)
    refused = []
    for size in (1, d + 1):
        because = Message("d is {d}, the weight has {size} numbers", d=d, size=size)
        refused.append(((draw.tensor(n, d), draw.tensor(size)), because))
    expect_all_raise(REFUSED, rms_norm, refused)


@check(weight=0, needs=[gated_feed_forward_values])
def gated_feed_forward_refuses(gated_feed_forward, draw):
    """Raises when sizes do not match, even if one of them is 1."""
    n, d, d_ff = sizes(draw, 3)
    x, *matrices = network(draw, n, d=d, d_ff=d_ff)
    refused = [((x[:, :1], *matrices), Message("d is {d} and 1", d=d))]
    for i in range(2):
        narrow = [W[:, :1] if number == i else W for number, W in enumerate(matrices)]
        refused.append(((x, *narrow), Message("d_ff is {d_ff} and 1", d_ff=d_ff)))
    expect_all_raise(REFUSED, gated_feed_forward, refused)


@check(weight=0, needs=[stretched_frequencies_values])
def stretched_frequencies_refuses(stretched_frequencies, draw):
    """Raises when d_k is odd."""
    odd = [2 * int(draw.rng.integers(4, 20)) + 1, 1]
    cases = [((d_k, 4.0, 2048), Message("d_k is {d_k}", d_k=d_k)) for d_k in odd]
    expect_all_raise(REFUSED, stretched_frequencies, cases)


@check(weight=0, needs=[sink_softmax_values])
def sink_softmax_refuses(sink_softmax, draw):
    """Raises when the number of sinks is not the number of heads, even if it is 1."""
    h, n_q, n_k = sizes(draw, 3)
    S, _ = scored(draw, h=h, n_q=n_q, n_k=n_k)
    refused = []
    for size in (1, h + 1):
        because = Message("there are {h} heads and {size} sinks", h=h, size=size)
        refused.append(((S, draw.tensor(size)), because))
    expect_all_raise(REFUSED, sink_softmax, refused)


# Block

PARAMETERS = ("W_q", "W_k", "W_v", "W_o", "W_gate", "W_up", "W_down")
THETA = 10000.0


def parameters(draw, d_model, h, h_kv, d_ff):
    """Return parameters of a `Block`, by name; for inputs of about 1 all results of its layers are about 1."""
    d_k = d_model // h
    kv = h_kv * d_k
    widths = {"W_k": (d_model, kv), "W_v": (d_model, kv), "W_down": (d_ff, d_model)}
    widths |= {"W_gate": (d_model, d_ff), "W_up": (d_model, d_ff)}
    values = {}
    for name in PARAMETERS:
        d_in, d_out = widths.get(name, (d_model, d_model))
        values[f"{name}.weight"] = 1.4 * draw.tensor(d_out, d_in) / d_in**0.5
    for name, size in [("norm1", d_model), ("norm2", d_model), ("q_norm", d_k), ("k_norm", d_k)]:
        values[name] = draw.tensor(size)
    return values


class ReferenceBlock:
    """A block's sizes and parameters, and what it should return: by default 2 key heads, 4 or 6 query heads, and a
    width of 4 or 6.
    """

    def __init__(self, draw, d_k=None, h=None, h_kv=None, d_ff=None):
        self.d_k = d_k or int(draw.rng.choice([4, 6]))
        self.h_kv = h_kv or 2
        self.h = h or self.h_kv * int(draw.rng.choice([2, 3]))
        self.d_model = self.h * self.d_k
        self.d_ff = d_ff or int(draw.rng.choice([11, 13, 17]))
        self.values = parameters(draw, self.d_model, self.h, self.h_kv, self.d_ff)

    def silenced(self, *names):
        """Set linear layers to 0, so that a part adds nothing; return the block itself."""
        for name in names:
            self.values[f"{name}.weight"] = 0 * self.values[f"{name}.weight"]
        return self

    def x(self, draw, b, n):
        return spread(draw, b, n, self.d_model)

    def loaded(self, Block, window=None, theta=None, ahead=()):
        """Return a block with these parameters; `ahead` has the arguments of its next calls."""
        arguments = (self.d_model, self.h, self.h_kv, self.d_ff)
        if window is not None or theta is not None:
            arguments = (*arguments, window)
        if theta is not None:
            arguments = (*arguments, theta)
        return Block.loaded(arguments, self.values, torch.float64, training=False, ahead=ahead)

    def expected(self, window, theta, *arguments):
        theta = THETA if theta is None else theta
        return block(self.values, self.h, self.h_kv, window, theta, *arguments)

    def expect(self, Block, *cases, window=None, theta=None):
        """Fail unless a block with these parameters returns what it should, for each list of arguments."""
        layer = self.loaded(Block, window, theta, cases)
        for case in cases:
            expect_close(layer(*case), self.expected(window, theta, *case))


def without_groups(draw):
    """Return a block with a key head for each query head: most checks are not about who shares one."""
    h = int(draw.rng.choice([2, 3]))
    return ReferenceBlock(draw, h=h, h_kv=h)


def lengths(draw):
    """Return b and n, the number of sequences and tokens: different, and n is 8 or more."""
    return int(draw.rng.choice([2, 3])), int(draw.rng.choice([8, 9, 11]))


@check(weight=2)
def Block_parameters(Block, draw):
    """Has exactly the parameters that the text names, with these shapes."""
    reference = ReferenceBlock(draw)
    shapes = {name: tuple(value.shape) for name, value in reference.values.items()}
    expect_parameters(
        Block.module(reference.d_model, reference.h, reference.h_kv, reference.d_ff), shapes
    )


@check(weight=1, needs=[Block_parameters])
def Block_begins(Block, draw):
    """In a new block, the weights of the norms are ones, and d_model, the numbers of heads and the window are kept."""
    reference, window = ReferenceBlock(draw), int(draw.rng.integers(2, 9))
    layer = Block.module(reference.d_model, reference.h, reference.h_kv, reference.d_ff, window)
    state = layer.state()
    for name in ("norm1", "norm2", "q_norm", "k_norm"):
        expected = torch.ones(reference.values[name].shape)
        expect_close(state[name], expected, what=Message("{name} in a new block", name=name))
    attributes = {
        "d_model": reference.d_model,
        "num_heads": reference.h,
        "num_kv_heads": reference.h_kv,
    }
    for name, expected in (attributes | {"window": window}).items():
        got = layer.read(name)
        message = "Expected the attribute {name} to be {expected}, got {got}."
        expect(got == expected, Message(message, name=name, expected=expected, got=str(got)))


@check(weight=1, needs=[Block_parameters])
def Block_shape(Block, draw):
    """Returns a tensor of shape (b, n, d_model)."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw)
    case = (reference.x(draw, b, n),)
    expect_tensor(reference.loaded(Block, ahead=[case])(*case), (b, n, reference.d_model))


@check(weight=2, needs=[Block_shape])
def Block_feed_forward(Block, draw):
    """If `W_o` is all 0, attention adds nothing: the result is x plus the network of the normed x."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw).silenced("W_o")
    reference.expect(Block, (reference.x(draw, b, n),))


@check(weight=2, needs=[Block_shape])
def Block_one_token(Block, draw):
    """For a single token, attention adds the token's own values, mixed by `W_o`, if `W_down` is all 0."""
    (b, _), reference = lengths(draw), without_groups(draw).silenced("W_down")
    reference.expect(Block, (reference.x(draw, b, 1),))


@check(weight=2, needs=[Block_shape])
def Block_causal(Block, draw):
    """No token sees a later one: other tokens at the end change nothing before them."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw)
    first, second = reference.x(draw, b, n), reference.x(draw, b, n)
    cut = n // 2
    second[:, :cut] = first[:, :cut]
    layer = reference.loaded(Block, ahead=[(first,), (second,)])
    here, there = (expect_array(layer(x), (b, n, reference.d_model)) for x in (first, second))
    what = Message("the first {cut} tokens, when later ones are other tokens", cut=cut)
    expect_close(there[:, :cut], here[:, :cut], what=what)


@check(weight=3, needs=[Block_causal])
def Block_attention(Block, draw):
    """With one head for queries and one for keys, attention has the norms, the rotation and the scale of the text."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw, h=1, h_kv=1).silenced("W_down")
    reference.expect(Block, (reference.x(draw, b, n),))


@check(weight=2, needs=[Block_attention])
def Block_heads(Block, draw):
    """Query head i uses key head i // (num_heads / num_kv_heads): with fewer key heads, as many, or one."""
    b, n = lengths(draw)
    for h, h_kv in [(4, 2), (6, 3), (3, 3), (4, 1)]:
        reference = ReferenceBlock(draw, h=h, h_kv=h_kv).silenced("W_down")
        reference.expect(Block, (reference.x(draw, b, n),))


@check(weight=2, needs=[Block_heads, Block_feed_forward, Block_one_token])
def Block_values(Block, draw):
    """Attention comes first, and the network gets the sum of x and its result; each adds to the stream."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw)
    reference.expect(Block, (reference.x(draw, b, n),), (noncontiguous(reference.x(draw, b, n)),))


@check(weight=3, needs=[Block_attention])
def Block_window(Block, draw):
    """With a window w, token i sees tokens i − w + 1 to i: only itself with w = 1, all before it with w = n."""
    (b, n), reference = lengths(draw), without_groups(draw).silenced("W_down")
    x = reference.x(draw, b, n)
    for window in (3, 1, 2, n - 1, n, n + 2):
        reference.expect(
            Block, (x,), (reference.x(draw, b, 3),), (reference.x(draw, b, n + 2),), window=window
        )


def placed(draw, n):
    """Return n positions that grow by 1, 2 or 4 from one to the next, and begin above 0."""
    return torch.tensor(draw.rng.choice([1, 2, 4], size=n).cumsum() + 2)


@check(weight=2, needs=[Block_attention])
def Block_positions(Block, draw):
    """Rotates by the `positions` that are given, in this call alone."""
    (b, n), reference = lengths(draw), without_groups(draw).silenced("W_down")
    x = reference.x(draw, b, n)
    elsewhere = 3 * torch.arange(n) + 5
    reference.expect(Block, (x, placed(draw, n)), (x,), (x, elsewhere), (x, elsewhere.flip(0)))


@check(weight=1, needs=[Block_positions, Block_window])
def Block_window_of_tokens(Block, draw):
    """A window counts tokens, whatever their positions are: there may be gaps, and positions that go down."""
    (b, n), reference = lengths(draw), without_groups(draw).silenced("W_down")
    x, spaced = reference.x(draw, b, n), 3 * torch.arange(n) + 5
    reference.expect(Block, (x, spaced), (x, placed(draw, n)), (x, spaced.flip(0)), window=3)


@check(weight=1, needs=[Block_attention])
def Block_theta(Block, draw):
    """Uses `theta` as the base of the rotation."""
    (b, n), reference = lengths(draw), without_groups(draw).silenced("W_down")
    for theta in (20.0, 1e6):
        reference.expect(Block, (reference.x(draw, b, n), placed(draw, n)), theta=theta)


@check(weight=1, needs=[Block_window_of_tokens, Block_theta])
def Block_by_name(Block, draw):
    """Accepts positions, window and theta by name."""
    (b, n), reference = lengths(draw), without_groups(draw)
    x, positions = reference.x(draw, b, n), placed(draw, n)
    layer = reference.loaded(Block)
    expected = reference.expected(None, None, x, positions)
    expect_close(layer.by_name(x, positions=positions), expected)
    expect_close(layer.by_name(positions=positions, x=x), expected)
    arguments = reference.d_model, reference.h, reference.h_kv, reference.d_ff
    got = Block.run_remote(named, *arguments, reference.values, x)
    expect_close(got, reference.expected(3, 50.0, x))


def named(function, d_model, h, h_kv, d_ff, values, x):
    """Return the result of a block that gets all its arguments by name."""
    layer = function(
        theta=50.0, window=3, d_ff=d_ff, num_kv_heads=h_kv, num_heads=h, d_model=d_model
    ).double()
    layer.load_state_dict(values, strict=False)
    return layer(x)


@check(weight=1, needs=[Block_values])
def Block_small_numbers(Block, draw):
    """The norms add 1e-6 to the mean square, which matters for small numbers: of the stream, of queries, of keys."""
    b, n = lengths(draw)
    for part in ("", "W_q", "W_k"):
        reference = ReferenceBlock(draw)
        if part:
            reference.values[f"{part}.weight"] *= 1e-3
        x = reference.x(draw, b, n)
        reference.expect(Block, (x if part else 1e-3 * x,), (0 * x,))
    # Attention adds about 1, after which no number is small for the second norm.
    reference = ReferenceBlock(draw).silenced("W_o")
    reference.expect(Block, (1e-3 * reference.x(draw, b, n),))


@check(weight=1, needs=[Block_window, Block_small_numbers])
def Block_large_scores(Block, draw):
    """Handles scores in the thousands, of either sign, with and without a window: what is masked gets no weight."""
    (b, n), reference = lengths(draw), without_groups(draw).silenced("W_down")
    reference.values["q_norm"] *= 40
    reference.values["k_norm"] *= 40
    for window in (None, 3):
        reference.expect(Block, (reference.x(draw, b, n),), window=window)


@check(weight=1, needs=[Block_values])
def Block_sizes(Block, draw):
    """Works when all dimensions are equal, for long ones, and for dimensions of size 1, with and without a window."""
    size, long = int(draw.rng.choice([2, 4])), draw.long()
    shapes = [(size, size, 2, size, size, size), (1, 5, 2, 4, 2, 1), (3, 1, 4, 3, 1, 5)]
    shapes += [(1, long, 2, 1, 1, 2), (1, 2, 4, 1, 1, long), (1, 1, 2, 1, 1, 1)]
    for b, n, d_k, h, h_kv, d_ff in shapes:
        reference = ReferenceBlock(draw, d_k, h, h_kv, d_ff)
        for window in (None, 2):
            reference.expect(Block, (reference.x(draw, b, n),), window=window)
    reference = ReferenceBlock(draw, 2, 1, 1, 2)
    reference.expect(Block, (reference.x(draw, 1, 2 * long),))


@check(weight=2, needs=[Block_values])
def Block_gradients(Block, draw):
    """Gradients flow to x and to all parameters, with and without a window."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw)
    for window in (None, 3):
        layer = reference.loaded(Block, window)
        x, upstream = reference.x(draw, b, n), draw.tensor(b, n, reference.d_model)
        leaf = x.clone().requires_grad_()
        parts = {name: part.clone().requires_grad_() for name, part in reference.values.items()}
        (block(parts, reference.h, reference.h_kv, window, THETA, leaf) * upstream).sum().backward()
        _, (of_x,), of_parameters = backward(layer, x, upstream=upstream)
        for name, part in expect_gradients(layer, of_parameters, parts).items():
            what = Message("the gradient of {name}", name=name)
            expect_close(part, parts[name].grad, what=what)
        expect_close(of_x, leaf.grad, what=Message("the gradient of {name}", name="x"))


@check(weight=1, needs=[Block_values])
def Block_in_training(Block, draw):
    """Returns the same results in training mode, the mode of a new module: there is no dropout."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw)
    x, layer = reference.x(draw, b, n), reference.loaded(Block)
    expected = reference.expected(None, None, x)
    for _ in range(2):  # so that state left by a call is not blamed on the mode
        expect_close(layer(x), expected)
    layer.train()
    try:
        expect_close(layer(x), expected)
    except Failed as failure:
        message = "The results are right after `eval()` but wrong in training mode, probably because of dropout. {rest}"
        raise Failed(Message(message, rest=failure.message), explained=True) from None


@check(weight=1, needs=[Block_shape])
def Block_dtype(Block, draw):
    """Keeps the dtype of x and the parameters: float32, float64, float16 or bfloat16."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw)
    reference.values = {name: part.bfloat16().double() for name, part in reference.values.items()}
    x, layer = reference.x(draw, b, n).bfloat16(), reference.loaded(Block)
    results = {}
    for kind in DTYPES:
        layer.to(kind)
        results[kind] = layer(x.to(kind))
    expect_tensor_dtypes(results, (b, n, reference.d_model))


@check(weight=0.5, needs=[Block_feed_forward])
def Block_half(Block, draw):
    """Norms float16 numbers in the hundreds, whose squares are beyond 65,504: of the stream, of queries, of keys."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw).silenced("W_o")
    reference.values["W_down.weight"] *= (
        200  # so that the network's result is as large as the stream
    )
    x = 500 * draw.tensor(b, n, reference.d_model)
    layer = reference.loaded(Block).to(torch.float16)
    # Products of matrices are rounded to 11 bits several times.
    expect_close(layer(x.half()), reference.expected(None, None, x), rtol=0.02)
    for part in ("W_q", "W_k"):
        reference = without_groups(draw).silenced("W_down")
        reference.values[f"{part}.weight"] *= 1000
        reference.values["W_o.weight"] *= 10
        reference.values = {name: value.half().double() for name, value in reference.values.items()}
        x, layer = reference.x(draw, b, n).half(), reference.loaded(Block)
        exact = expect_tensor(layer(x.double()), x.shape)
        layer.to(torch.float16)
        expect_as_in_float64({"float64": exact, "float16": expect_tensor(layer(x), x.shape)})


@check(weight=0.5, needs=[Block_shape])
def Block_kept(Block, draw):
    """Does not change x, the positions or the parameters."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw)
    layer = reference.loaded(Block, window=3)
    expect_unchanged(layer, ["x", "positions"], reference.x(draw, b, n), placed(draw, n))
    after = layer.state()
    for name, part in reference.values.items():
        what = Message("the parameter {name} after the call", name=name)
        expect_close(after[name], part, what=what)


@check(weight=0, needs=[Block_parameters])
def Block_refuses_heads(Block, draw):
    """The constructor raises `ValueError` or similar when numbers of heads do not match, or a head's width is odd."""
    cases = [(14, 4, 2), (24, 6, 4), (24, 4, 3), (12, 4, 2), (8, 2, 4)]
    Block.ahead([(*case, 5) for case in cases])
    for d_model, h, h_kv in cases:
        because = Message(
            "d_model is {d_model}, and there are {h} heads and {h_kv} key heads",
            d_model=d_model,
            h=h,
            h_kv=h_kv,
        )
        expect_raises(REFUSED, Block, d_model, h, h_kv, 5, because=because)


@check(weight=0, needs=[Block_shape])
def Block_refuses_sizes(Block, draw):
    """Raises when a token has another width than d_model, or there are not n positions, even if it is 1."""
    (b, n), reference = lengths(draw), ReferenceBlock(draw)
    refused = []
    for width in (1, reference.d_model + 2):
        because = Message("d_model is {d_model}", d_model=reference.d_model)
        refused.append(((draw.tensor(b, n, width),), because))
    for count in (1, n + 1):
        because = Message("there are {n} tokens and {count} positions", n=n, count=count)
        refused.append(((reference.x(draw, b, n), torch.arange(count)), because))
    layer = reference.loaded(Block, ahead=[arguments for arguments, _ in refused])
    for arguments, because in refused:
        expect_raises(REFUSED, layer, *arguments, because=because)

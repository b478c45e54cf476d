"""Wrong answers that people really give, each with a hint, and right ones that other mistakes are made from. Students
get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import math

import torch
from torch import nn

from checking import families, misconception, right

silu = nn.functional.silu

TENSORS = {
    "a list instead of an array": "The result is a list. Drop `.tolist()` and return a tensor.",
    "result in float64": "Some step produces float64, such as a tensor made from NumPy or `.double()`. Return the "
    "dtype of the inputs.",
    "result always in float32": "The result is float32 for any input. Convert it to the dtype of the inputs.",
    "works for two axes only": "The number of axes is fixed: `n, d = x.shape` works only for two. Take sizes from the "
    "end, as in `x.shape[-1]`.",
    "axis squeezed away": "An axis of size 1 is missing: `squeeze` or an index removes it. One row is still a row.",
    "only the first sequence": "`[0]` takes the first sequence and drops the rest of the batch. Use `...` or negative "
    "axes, which keep all of it.",
    "leading axes left flattened": "The leading dimensions stay flattened. Restore them with `reshape` or `unflatten`.",
}
FAMILIES = [*TENSORS, "returns nothing", "an array instead of a tensor", "cut off from autograd"]
TWO = "works for two axes only"
FLAT = (TWO, "leading axes left flattened")
OF_SCORES = {label: hint for label, hint in TENSORS.items() if label != TWO}
OF_BLOCK = {label: hint for label, hint in TENSORS.items() if label not in FLAT}


# by_hand: wrong

WEIGHTS = [0, 0.3, 0.15, 0.45]
TOKEN = [3, 6, 0, -1]


def of_token(name, label, hint, *numbers):
    """List a wrong answer whose first four numbers are wrong."""

    def answer():
        return [*numbers, *WEIGHTS]

    answer.__name__ = f"by_hand_{name}"
    return misconception("by_hand", label, hint)(answer)


def of_weights(name, label, hint, *numbers):
    """List a wrong answer whose last four numbers are wrong."""

    def answer():
        return [*TOKEN, *numbers]

    answer.__name__ = f"by_hand_{name}"
    return misconception("by_hand", label, hint)(answer)


by_hand_layer_norm = of_token(
    "layer_norm",
    "mean subtracted, as in layer norm",
    "You subtracted the mean, 4, first. That is a layer norm: RMSNorm subtracts nothing.",
    -5 / 3, -10 / 3, 0, 5,
)  # fmt: skip
by_hand_sum = of_token(
    "sum",
    "sum of squares instead of their mean",
    "You divided by the root of the sum of the four squares. Divide by the root of their mean.",
    1.5, 3, 0, -0.5,
)  # fmt: skip
by_hand_no_root = of_token(
    "no_root",
    "root of the mean square missing",
    "You divided by the mean square itself. Take its root first.",
    0.6, 1.2, 0, -0.2,
)  # fmt: skip
by_hand_mean = of_token(
    "mean",
    "divided by the mean",
    "You divided by the mean of the numbers. RMSNorm divides by the root of the mean of their squares.",
    3.75, 7.5, 0, -1.25,
)  # fmt: skip
by_hand_no_weight = of_token(
    "no_weight",
    "weight of the norm forgotten",
    "The token is normed, but its columns are not multiplied by the weight.",
    0.6, 0.6, 1.8, 0.2,
)  # fmt: skip
by_hand_weight_plus_1 = of_token(
    "weight_plus_1",
    "one added to the weight",
    "You multiplied by 1 plus the weight, as in models that store the weight minus 1. Here the weight is the factor.",
    3.6, 6.6, 1.8, -0.8,
)  # fmt: skip
by_hand_weight_first = of_token(
    "weight_first",
    "weight applied before the norm",
    "You multiplied by the weight first, and then divided by the root mean square of that. Norm the token first.",
    0.885, 1.769, 0, -0.295,
)  # fmt: skip
by_hand_no_sink = of_weights(
    "no_sink",
    "sink left out of the denominator",
    "Your weights sum to 1. The sink belongs to the denominator, so they sum to less.",
    0, 1 / 3, 1 / 6, 0.5,
)  # fmt: skip
by_hand_no_window = of_weights(
    "no_window",
    "window ignored",
    "Token 3 gives weight to token 0. A window of 3 is three tokens, with token 3 itself among them.",
    2 / 3, 0.1, 0.05, 0.15,
)  # fmt: skip
by_hand_window_too_small = of_weights(
    "window_too_small",
    "window of two tokens",
    "Your window has two tokens. A window of 3 is three tokens: token 3 and the two before it.",
    0, 0, 3 / 14, 9 / 14,
)  # fmt: skip
by_hand_sink_not_exp = of_weights(
    "sink_not_exp",
    "sink without the exponential",
    "You added the sink itself, ln 2, to the denominator. It counts like a score: add e to the sink.",
    0, 0.321, 0.1605, 0.4815,
)  # fmt: skip
by_hand_sink_subtracted = of_weights(
    "sink_subtracted",
    "sink subtracted from the denominator",
    "You subtracted the sink from the denominator. It is one more term of the sum.",
    0, 0.375, 0.1875, 0.5625,
)  # fmt: skip
by_hand_scores = of_weights(
    "scores",
    "scores used without the exponential",
    "You divided the scores themselves by a sum. The softmax takes the exponential of each score first.",
    0, 0.31, 0.19, 0.38,
)  # fmt: skip


# rms_norm: right, in steps that a mistake can take the place of


def wide(x):
    return x if x.dtype == torch.float64 else x.float()


def fits(x, weight):
    if weight.shape != x.shape[-1:]:
        raise ValueError("the weight has another size")


@families(*FAMILIES, hints=TENSORS)
@right("rms_norm")
def rms_norm_in_a_row(x, weight, eps=1e-6):
    fits(x, weight)
    numbers = wide(x)
    return (numbers * (numbers.square().mean(-1, keepdim=True) + eps) ** -0.5 * weight).to(x.dtype)


def rms_norm_in_steps(x, weight, eps=1e-6, wide=wide, root=None, dims=-1):
    fits(x, weight)
    numbers = wide(x)
    square = numbers.square().mean(dims, keepdim=True)
    scale = (square + eps) ** -0.5 if root is None else root(square, eps)
    return (numbers * scale * weight).to(x.dtype)


@misconception(
    "rms_norm",
    label="mean subtracted, as in layer norm",
    hint="The mean of each row is subtracted first, which makes it a layer norm. RMSNorm only divides.",
)
def rms_norm_layer_norm(x, weight, eps=1e-6):
    numbers = wide(x)
    return rms_norm_in_steps(numbers - numbers.mean(-1, keepdim=True), weight, eps).to(x.dtype)


@misconception(
    "rms_norm",
    label="standard deviation instead of root mean square",
    hint="The row is divided by its standard deviation, which measures the distance from the mean. Use the mean of the "
    "squares themselves.",
)
def rms_norm_variance(x, weight, eps=1e-6):
    fits(x, weight)
    numbers = wide(x)
    variance = numbers.var(-1, keepdim=True, correction=0)
    return (numbers * (variance + eps).rsqrt() * weight).to(x.dtype)


@misconception(
    "rms_norm",
    label="sum of squares instead of their mean",
    hint="The row is divided by its length, the root of the sum of squares. The mean also divides that sum by d.",
)
def rms_norm_sum(x, weight, eps=1e-6):
    return rms_norm_in_steps(
        x, weight, eps, root=lambda square, eps: (square * x.shape[-1] + eps) ** -0.5
    )


@misconception(
    "rms_norm",
    label="root of the mean square missing",
    hint="The row is divided by the mean square itself. Take its root.",
)
def rms_norm_no_root(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, eps, root=lambda square, eps: 1 / (square + eps))


@misconception(
    "rms_norm",
    label="multiplied by the root mean square",
    hint="The row is multiplied by the root mean square. Divide by it: `sqrt` and `rsqrt` are inverse to each other.",
)
def rms_norm_multiplied(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, eps, root=lambda square, eps: (square + eps).sqrt())


@misconception(
    "rms_norm",
    label="mean of magnitudes instead of squares",
    hint="The row is divided by the mean of its absolute values. Square them, take the mean, then the root.",
)
def rms_norm_magnitudes(x, weight, eps=1e-6):
    fits(x, weight)
    numbers = wide(x)
    return (numbers / (numbers.abs().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


@misconception(
    "rms_norm",
    label="norm over the tokens",
    hint="The mean runs over the rows, the second-to-last axis. It belongs to each row: it runs over the last axis.",
)
def rms_norm_over_tokens(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, eps, dims=-2 if x.ndim > 1 else -1)


@misconception(
    "rms_norm",
    label="one mean for all rows",
    hint="All rows share one mean square: `mean()` without an axis. Each row has its own.",
)
def rms_norm_over_all(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, eps, dims=tuple(range(x.ndim)))


@misconception(
    "rms_norm",
    label="one mean for each sequence",
    hint="All rows of a sequence share one mean square, which runs over the last two axes. Each row has its own.",
)
def rms_norm_over_sequences(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, eps, dims=(-2, -1) if x.ndim > 2 else -1)


@misconception(
    "rms_norm",
    label="weight forgotten",
    hint="The rows are normed, but their columns are not multiplied by the weight.",
)
def rms_norm_no_weight(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, torch.ones_like(weight), eps) + 0 * weight


@misconception(
    "rms_norm",
    label="one added to the weight",
    hint="The columns are multiplied by 1 + weight, as in models that store the weight minus 1. Here the weight itself "
    "is the factor.",
)
def rms_norm_weight_plus_1(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, 1 + weight, eps)


@misconception(
    "rms_norm",
    label="weight applied before the norm",
    hint="The weight is multiplied in before the mean square is taken, so it changes the length of the rows. Norm first.",
)
def rms_norm_weight_first(x, weight, eps=1e-6):
    fits(x, weight)
    return rms_norm_in_steps(x * weight, torch.ones_like(weight), eps)


@misconception(
    "rms_norm",
    label="weight added instead of multiplied",
    hint="The weight is added to the normed row, like the bias of a layer norm. It is a factor for each column.",
)
def rms_norm_weight_added(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, torch.ones_like(weight), eps) + weight


@misconception(
    "rms_norm",
    label="eps outside the root",
    hint="eps is added to the root mean square. Add it to the mean square, before taking the root.",
)
def rms_norm_eps_outside(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, eps, root=lambda square, eps: 1 / (square.sqrt() + eps))


@misconception(
    "rms_norm",
    label="eps missing",
    hint="eps is never added, so a row of zeros is divided by 0. It belongs below the root.",
)
def rms_norm_no_eps(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, 0.0)


@misconception(
    "rms_norm",
    label="different default for eps",
    hint="Without an argument, eps is 1e-5. The default here is 1e-6; many models use either.",
)
def rms_norm_other_eps(x, weight, eps=1e-5):
    return rms_norm_in_steps(x, weight, eps)


@misconception(
    "rms_norm",
    label="eps not passed on to PyTorch",
    hint="PyTorch's `rms_norm` adds a much smaller number if it is not given any. Pass eps on.",
)
def rms_norm_torch_eps(x, weight, eps=1e-6):
    return nn.functional.rms_norm(x, weight.shape, weight)


@misconception(
    "rms_norm",
    label="argument eps ignored",
    hint="1e-6 is written into the code, so the argument eps has no effect.",
)
def rms_norm_fixed_eps(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight)


@misconception(
    "rms_norm",
    label="smallest divisor instead of a sum",
    hint="The mean square is kept at eps or above with `clamp`. Add eps to it, for all rows.",
)
def rms_norm_clamped(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, eps, root=lambda square, eps: square.clamp(min=eps) ** -0.5)


@misconception(
    "rms_norm",
    label="squares in the dtype of x",
    hint="The mean square is computed in the dtype of x. In float16 the squares of large numbers are infinite, and those of "
    "small ones are nearly 0: convert x to float32 before squaring, not after it.",
)
def rms_norm_half_precision(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, eps, wide=lambda x: x)


@misconception(
    "rms_norm",
    label="float32 for float64 as well",
    hint="Everything is computed in float32, also for inputs in float64, whose squares may be infinite in float32. Leave "
    "float64 as it is.",
)
def rms_norm_always_float32(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight, eps, wide=lambda x: x.float())


@misconception(
    "rms_norm",
    label="result left in float32",
    hint="The result of float16 numbers is float32, because the conversion back is missing. Return the dtype of x.",
)
def rms_norm_left_wide(x, weight, eps=1e-6):
    return rms_norm_in_steps(wide(x), weight, eps)


@misconception(
    "rms_norm",
    label="mean square detached",
    hint="The mean square is cut off from autograd, so gradients treat it as a constant. It depends on x: leave out "
    "`detach` and `no_grad`.",
)
def rms_norm_detached(x, weight, eps=1e-6):
    return rms_norm_in_steps(
        x, weight, eps, root=lambda square, eps: (square.detach() + eps) ** -0.5
    )


@misconception(
    "rms_norm",
    label="x changed in place",
    hint="x is divided in place, but the caller still needs it: the stream is added to later. Make a new tensor.",
)
def rms_norm_in_place(x, weight, eps=1e-6):
    result = rms_norm_in_steps(x, weight, eps)
    x.data /= (wide(x).square().mean(-1, keepdim=True) + eps).sqrt()
    return result


@misconception(
    "rms_norm",
    label="weight of size 1 stretched",
    hint="A weight of one number is stretched to all columns, and nothing reports the mistake. Compare the sizes.",
)
def rms_norm_stretched(x, weight, eps=1e-6):
    return rms_norm_in_steps(x, weight.expand(x.shape[-1:]), eps)


# gated_feed_forward: right, in steps


@families(*FAMILIES, hints=TENSORS)
@right("gated_feed_forward")
def gated_feed_forward_in_steps(x, W_gate, W_up, W_down, curve=silu):
    if W_gate.shape != W_up.shape:
        raise ValueError("gate and up differ")
    gate, up = curve(x @ W_gate), x @ W_up
    return (gate * up) @ W_down


def with_curve(name, label, hint, curve):
    """List a wrong answer that has another curve than SiLU."""

    def answer(x, W_gate, W_up, W_down):
        return gated_feed_forward_in_steps(x, W_gate, W_up, W_down, curve)

    answer.__name__ = f"gated_feed_forward_{name}"
    return misconception("gated_feed_forward", label, hint)(answer)


gated_feed_forward_sigmoid = with_curve(
    "sigmoid",
    "sigmoid instead of SiLU",
    "The gate goes through a sigmoid, as in the first gated units (GLU). SiLU multiplies that by the gate itself.",
    torch.sigmoid,
)
gated_feed_forward_gelu = with_curve(
    "gelu",
    "GELU instead of SiLU",
    "The gate goes through GELU, which makes it a GEGLU. The text asks for SiLU, a similar but different curve.",
    nn.functional.gelu,
)
gated_feed_forward_tanh_gelu = with_curve(
    "tanh_gelu",
    "approximate GELU instead of SiLU",
    "The gate goes through the approximate GELU. The text asks for SiLU, a similar but different curve.",
    lambda t: nn.functional.gelu(t, approximate="tanh"),
)
gated_feed_forward_quick_gelu = with_curve(
    "quick_gelu",
    "factor 1.702 in the sigmoid",
    "t · sigmoid(1.702 t) is the quick form of GELU. SiLU has no factor in the sigmoid.",
    lambda t: t * torch.sigmoid(1.702 * t),
)
gated_feed_forward_relu = with_curve(
    "relu",
    "ReLU instead of SiLU",
    "The gate goes through ReLU, which is 0 for all negative numbers. SiLU is smooth, and slightly negative there.",
    torch.relu,
)
gated_feed_forward_tanh = with_curve(
    "tanh",
    "hyperbolic tangent instead of SiLU",
    "The gate goes through tanh. The text asks for SiLU.",
    torch.tanh,
)
gated_feed_forward_softplus = with_curve(
    "softplus",
    "softplus instead of SiLU",
    "The gate goes through softplus, which is never negative. SiLU is t times a sigmoid.",
    nn.functional.softplus,
)
gated_feed_forward_bilinear = with_curve(
    "bilinear",
    "no curve on the gate",
    "Gate and up are multiplied as they are. The gate goes through SiLU first.",
    lambda t: t,
)
gated_feed_forward_sign = with_curve(
    "sign",
    "sign in the exponential missing",
    "t / (1 + exp(t)) is SiLU with the wrong sign in the exponential.",
    lambda t: t * torch.sigmoid(-t),
)
gated_feed_forward_softmax = with_curve(
    "softmax",
    "softmax over the hidden numbers",
    "The gate goes through a softmax, so its numbers depend on one another. SiLU works on each number by itself.",
    lambda t: t.softmax(-1),
)


def network(name, label, hint):
    """Declare a wrong answer as `misconception` does, where the sizes fit."""

    def declare(function):
        def answer(x, W_gate, W_up, W_down):
            if W_gate.shape != W_up.shape:
                raise ValueError("gate and up differ")
            return function(x, W_gate, W_up, W_down)

        answer.__name__ = f"gated_feed_forward_{name}"
        return misconception("gated_feed_forward", label, hint)(answer)

    return declare


gated_feed_forward_exchanged = network(
    "exchanged",
    "SiLU on the up projection",
    "SiLU is applied to the up projection, or gate and up are exchanged. The gate goes through SiLU.",
)(lambda x, W_gate, W_up, W_down: (x @ W_gate * silu(x @ W_up)) @ W_down)
gated_feed_forward_both = network(
    "both",
    "SiLU on both projections",
    "Both projections go through SiLU. The up projection stays as it is.",
)(lambda x, W_gate, W_up, W_down: (silu(x @ W_gate) * silu(x @ W_up)) @ W_down)
gated_feed_forward_product = network(
    "product",
    "SiLU on the product",
    "Gate and up are multiplied first, and SiLU comes after that. SiLU belongs to the gate alone.",
)(lambda x, W_gate, W_up, W_down: silu((x @ W_gate) * (x @ W_up)) @ W_down)
gated_feed_forward_at_the_end = network(
    "at_the_end",
    "SiLU after the down projection",
    "SiLU is applied to the result of the down projection. It belongs to the gate.",
)(lambda x, W_gate, W_up, W_down: silu(((x @ W_gate) * (x @ W_up)) @ W_down))
gated_feed_forward_before = network(
    "before",
    "SiLU before the gate projection",
    "SiLU is applied to x, before the gate projection. Project first.",
)(lambda x, W_gate, W_up, W_down: ((silu(x) @ W_gate) * (x @ W_up)) @ W_down)
gated_feed_forward_added = network(
    "added",
    "gate added to up",
    "The gate is added to the up projection. A gate multiplies.",
)(lambda x, W_gate, W_up, W_down: (silu(x @ W_gate) + x @ W_up) @ W_down)
gated_feed_forward_no_up = network(
    "no_up",
    "up projection not used",
    "The up projection is missing: this is a plain network of two layers.",
)(lambda x, W_gate, W_up, W_down: silu(x @ W_gate) @ W_down + 0 * W_up.sum())
gated_feed_forward_gate_twice = network(
    "gate_twice",
    "gate used in place of up",
    "The gate is multiplied by itself: the second factor is made with `W_gate`. It is the up projection.",
)(lambda x, W_gate, W_up, W_down: (silu(x @ W_gate) * (x @ W_gate)) @ W_down + 0 * W_up.sum())
gated_feed_forward_up_twice = network(
    "up_twice",
    "up used in place of the gate",
    "The up projection is multiplied by itself: the gate is made with `W_up`. It has a matrix of its own.",
)(lambda x, W_gate, W_up, W_down: (silu(x @ W_up) * (x @ W_up)) @ W_down + 0 * W_gate.sum())
gated_feed_forward_no_gate = network(
    "no_gate",
    "gate not used",
    "The gate is missing: the network is up and down with nothing in between.",
)(lambda x, W_gate, W_up, W_down: (x @ W_up) @ W_down + 0 * W_gate.sum())
gated_feed_forward_no_down = network(
    "no_down",
    "down projection missing",
    "The result has d_ff numbers for each token: it was not mapped back. Apply `W_down`.",
)(lambda x, W_gate, W_up, W_down: silu(x @ W_gate) * (x @ W_up))
gated_feed_forward_matrix_product = network(
    "matrix_product",
    "product over the tokens",
    "Gate and up are multiplied as matrices, which mixes the tokens. They are multiplied number by number.",
)(lambda x, W_gate, W_up, W_down: (silu(x @ W_gate).mT @ (x @ W_up)) @ W_down)
gated_feed_forward_one_gate = network(
    "one_gate",
    "one gate for each token",
    "A token has one gate, the mean over its hidden numbers. Each hidden number has a gate of its own.",
)(lambda x, W_gate, W_up, W_down: (silu((x @ W_gate).mean(-1, keepdim=True)) * (x @ W_up)) @ W_down)
gated_feed_forward_overflow = network(
    "overflow",
    "SiLU of large gates overflows",
    "For a large gate, e^gate is inf, and inf / inf is NaN. Write SiLU as `nn.functional.silu(gate)`, or as "
    "gate / (1 + e^-gate).",
)(
    lambda x, W_gate, W_up, W_down: (
        (((x @ W_gate) * (x @ W_gate).exp() / (1 + (x @ W_gate).exp())) * (x @ W_up)) @ W_down
    )
)
gated_feed_forward_clamped = network(
    "clamped",
    "hidden numbers clamped",
    "Large gates are cut to a limit, as some models do. The text has no limit.",
)(
    lambda x, W_gate, W_up, W_down: (
        (silu((x @ W_gate).clamp(max=7)) * (x @ W_up).clamp(-7, 7)) @ W_down
    )
)
gated_feed_forward_residual = network(
    "residual",
    "x added in the network",
    "x is added to the result. The residual connection belongs to the block, not to the network.",
)(lambda x, W_gate, W_up, W_down: x + (silu(x @ W_gate) * (x @ W_up)) @ W_down)
gated_feed_forward_normed = network(
    "normed",
    "norm inside the network",
    "x is normed first. The norm belongs to the block, not to the network.",
)(lambda x, W_gate, W_up, W_down: gated_feed_forward_in_steps(
    x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt(), W_gate, W_up, W_down
))  # fmt: skip
gated_feed_forward_transposed = network(
    "transposed",
    "matrices used as (out, in)",
    "The matrices are transposed, as in `nn.Linear`, which keeps (out, in). Here they are (in, out), on the right of x.",
)(lambda x, W_gate, W_up, W_down: (silu(x @ W_gate.mT) * (x @ W_up.mT)) @ W_down.mT)


@misconception(
    "gated_feed_forward",
    label="x changed in place",
    hint="The product is written into x, which the caller still needs. Make a new tensor.",
)
def gated_feed_forward_in_place(x, W_gate, W_up, W_down):
    result = gated_feed_forward_in_steps(x, W_gate, W_up, W_down)
    x.data.copy_(result)
    return result


@misconception(
    "gated_feed_forward",
    label="gate detached",
    hint="The gate is cut off from autograd, so nothing trains it. Leave out `detach` and `no_grad`.",
)
def gated_feed_forward_detached(x, W_gate, W_up, W_down):
    return gated_feed_forward_in_steps(
        x, W_gate, W_up, W_down, curve=lambda t: silu(t.detach()) + 0 * t
    )


@misconception(
    "gated_feed_forward",
    label="size of 1 stretched",
    hint="A gate or an up projection of one number is stretched to all d_ff. Compare the shapes of the two matrices.",
)
def gated_feed_forward_stretched(x, W_gate, W_up, W_down):
    return (silu(x @ W_gate) * (x @ W_up)) @ W_down


# stretched_frequencies: right, in steps


def thetas(d_k, base):
    if d_k % 2:
        raise ValueError("d_k is odd")
    return base ** (-torch.arange(0, d_k, 2).double() / d_k)


def turns_of(theta, trained):
    return trained * theta / (2 * math.pi)


def ramp(turns, low, high):
    return ((turns - low) / (high - low)).clamp(0, 1)


def mixed(theta, kept, factor):
    return kept * theta + (1 - kept) * theta / factor


def stretched_frequencies_in_steps(
    d_k, factor, trained, base=10000.0, low=1.0, high=32.0,
    thetas=thetas, turns_of=turns_of, ramp=ramp, mixed=mixed,
):  # fmt: skip
    theta = thetas(d_k, base)
    return mixed(theta, ramp(turns_of(theta, trained), low, high), factor).float()


@families(
    "returns nothing",
    "a list instead of an array",
    "an array instead of a tensor",
    "axis squeezed away",
    hints={
        "a list instead of an array": "The result is a list. Return a tensor: `torch.tensor(...)` makes one of it.",
        "axis squeezed away": "A single pair has a frequency of shape (), because of `squeeze`. It should be (1,).",
        "an array instead of a tensor": "The function returns a NumPy array. Return a tensor.",
    },
)
@right("stretched_frequencies")
def stretched_frequencies_in_a_row(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    omega = thetas(d_k, base)
    kept = ((trained * omega / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
    return (kept * omega + (1 - kept) * omega / factor).float()


def stretched(name, label, hint, **steps):
    """List a wrong answer in which a step is another one."""

    def answer(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
        return stretched_frequencies_in_steps(d_k, factor, trained, base, low, high, **steps)

    answer.__name__ = f"stretched_frequencies_{name}"
    return misconception("stretched_frequencies", label, hint)(answer)


stretched_frequencies_multiplied = stretched(
    "multiplied",
    "frequencies multiplied by the factor",
    "The slow pairs are made faster. In longer texts they have to turn more slowly: divide by the factor.",
    mixed=lambda theta, kept, factor: kept * theta + (1 - kept) * theta * factor,
)
stretched_frequencies_reversed = stretched(
    "reversed",
    "ramp turned round",
    "The fast pairs are slowed down, and the slow ones keep their frequency. It should be the other way round.",
    ramp=lambda turns, low, high: 1 - ramp(turns, low, high),
)
stretched_frequencies_all = stretched(
    "all",
    "all pairs stretched alike",
    "Each frequency is divided by the factor, which is position interpolation. Pairs with many turns within the whole "
    "trained length keep theirs.",
    ramp=lambda turns, low, high: 0 * turns,
)
stretched_frequencies_none = stretched(
    "none",
    "factor ignored",
    "No pair is slowed down: these are the frequencies of a model that is not stretched.",
    ramp=lambda turns, low, high: 1 + 0 * turns,
)
stretched_frequencies_not_clipped = stretched(
    "not_clipped",
    "share not kept within 0 and 1",
    "The share goes below 0 and above 1, so slow pairs lose more than the factor and fast ones change. Limit it.",
    ramp=lambda turns, low, high: (turns - low) / (high - low),
)
stretched_frequencies_below_alone = stretched(
    "below_alone",
    "share limited only from below",
    "The share is at least 0, but exceeds 1 for fast pairs, which get faster. Limit it from above as well.",
    ramp=lambda turns, low, high: ((turns - low) / (high - low)).clamp(min=0),
)
stretched_frequencies_above_alone = stretched(
    "above_alone",
    "share limited only from above",
    "The share is at most 1, but falls below 0 for slow pairs, which lose more than the factor. Limit it from below as "
    "well.",
    ramp=lambda turns, low, high: ((turns - low) / (high - low)).clamp(max=1),
)
stretched_frequencies_step = stretched(
    "step",
    "step at high, not a ramp",
    "Each pair either keeps its frequency or loses the whole factor, and the border is `high`. Between `low` and `high` "
    "the share grows in a straight line.",
    ramp=lambda turns, low, high: (turns >= high).double(),
)
stretched_frequencies_step_low = stretched(
    "step_low",
    "step at low, not a ramp",
    "Each pair either keeps its frequency or loses the whole factor, and the border is `low`. Between `low` and `high` "
    "the share grows in a straight line.",
    ramp=lambda turns, low, high: (turns > low).double(),
)
stretched_frequencies_smooth = stretched(
    "smooth",
    "smooth curve in place of a ramp",
    "The share follows a smooth step (3 κ² − 2 κ³). The text asks for a straight line.",
    ramp=lambda turns, low, high: ramp(turns, low, high) ** 2 * (3 - 2 * ramp(turns, low, high)),
)
stretched_frequencies_low_not_subtracted = stretched(
    "low_not_subtracted",
    "low not subtracted from the turns",
    "The share is turns / (high − low). It is 0 at `low`, so `low` is subtracted from the turns as well.",
    ramp=lambda turns, low, high: (turns / (high - low)).clamp(0, 1),
)
stretched_frequencies_over_high = stretched(
    "over_high",
    "divided by high alone",
    "The share is (turns − low) / high, which is not yet 1 at `high`. Divide by the whole distance from `low` to `high`.",
    ramp=lambda turns, low, high: ((turns - low) / high).clamp(0, 1),
)
stretched_frequencies_in_logarithms = stretched(
    "in_logarithms",
    "ramp in logarithms of the turns",
    "The share grows in a straight line with the logarithm of the turns. It grows with the turns themselves.",
    ramp=lambda turns, low, high: (
        (turns.log() - math.log(low)) / (math.log(high) - math.log(low))
    ).clamp(0, 1),
)


def by_number(turns, low, high):
    """The ramp over the pairs' numbers, between the first that is not above high and the last that is not below low."""
    first, last = (turns > high).sum(), (turns > low).sum()
    return 1 - ((torch.arange(len(turns)) - first) / (last - first).clamp(min=1)).clamp(0, 1)


stretched_frequencies_by_number = stretched(
    "by_number",
    "ramp over the numbers of the pairs",
    "The share falls in equal steps from pair to pair, as some libraries do it. Here it follows the turns, in a straight "
    "line.",
    ramp=by_number,
)
stretched_frequencies_along_wavelengths = stretched(
    "along_wavelengths",
    "ramp along the wavelengths",
    "The share falls in a straight line with the wavelength, 2π / ω. It grows in a straight line with the turns.",
    ramp=lambda turns, low, high: ((1 / low - 1 / turns) / (1 / low - 1 / high)).clamp(0, 1),
)
stretched_frequencies_whole_turns = stretched(
    "whole_turns",
    "turns rounded down",
    "Only whole turns are counted. A pair makes any number of turns, such as 2.5.",
    turns_of=lambda omega, trained: turns_of(omega, trained).floor(),
)
stretched_frequencies_fixed_ends = stretched(
    "fixed_ends",
    "arguments low and high ignored",
    "1 and 32 are written into the code, so the arguments `low` and `high` have no effect.",
    ramp=lambda turns, low, high: ramp(turns, 1.0, 32.0),
)
stretched_frequencies_radians = stretched(
    "radians",
    "radians instead of turns",
    "trained · ω is an angle in radians. A full turn is 2π of them.",
    turns_of=lambda theta, trained: trained * theta,
)
stretched_frequencies_half_turns = stretched(
    "half_turns",
    "half turns instead of turns",
    "The angle is divided by π, which counts half turns. A full turn is 2π.",
    turns_of=lambda theta, trained: trained * theta / math.pi,
)
stretched_frequencies_degrees = stretched(
    "degrees",
    "radians divided by 360",
    "The angle is divided by 360, but it is in radians, not in degrees.",
    turns_of=lambda theta, trained: trained * theta / 360,
)
stretched_frequencies_wavelength = stretched(
    "wavelength",
    "wavelengths in place of turns",
    "The share depends on 2π / ω, the tokens for one turn, without the trained length. Count the turns within it.",
    turns_of=lambda theta, trained: 2 * math.pi / theta,
)
stretched_frequencies_usual_length = stretched(
    "usual_length",
    "trained length written into the code",
    "The number of turns is always that of 4,096 tokens. Use the argument `trained`.",
    turns_of=lambda theta, trained: 4096 * theta / (2 * math.pi),
)
stretched_frequencies_turns_of_pairs = stretched(
    "turns_of_pairs",
    "turns of the first pair for all",
    "All pairs get the share of the first one. Each has its own frequency, so its own turns.",
    turns_of=lambda theta, trained: trained * theta[:1].expand(len(theta)) / (2 * math.pi),
)
stretched_frequencies_half_exponents = stretched(
    "half_exponents",
    "exponents half as large",
    "The frequencies are base^(−i / d_k). The exponent of pair i is −2i / d_k.",
    thetas=lambda d_k, base: thetas(d_k, base) ** 0.5,
)
stretched_frequencies_double_exponents = stretched(
    "double_exponents",
    "exponents twice as large",
    "The exponents are twice as large: i = 0, 2, 4, ... is doubled once more, or divided by d_k / 2.",
    thetas=lambda d_k, base: thetas(d_k, base) ** 2,
)
stretched_frequencies_to_the_end = stretched(
    "to_the_end",
    "exponents up to −1",
    "The exponents run from 0 to −1, as `linspace` makes them. The last pair has −(d_k − 2) / d_k.",
    thetas=lambda d_k, base: base ** -torch.linspace(0, 1, d_k // 2 + d_k % 2).double(),
)
stretched_frequencies_from_1 = stretched(
    "from_1",
    "pairs counted from 1",
    "The first exponent is −2 / d_k. Pairs are counted from 0, so the first frequency is 1.",
    thetas=lambda d_k, base: thetas(d_k, base) * base ** (-2 / d_k),
)
stretched_frequencies_fixed_base = stretched(
    "fixed_base",
    "argument base ignored",
    "10,000 is written into the code, so the argument `base` has no effect.",
    thetas=lambda d_k, base: thetas(d_k, 10000.0),
)
stretched_frequencies_positive = stretched(
    "positive",
    "sign of the exponents missing",
    "The frequencies grow from pair to pair: the exponent has no minus sign.",
    thetas=lambda d_k, base: 1 / thetas(d_k, base),
)
stretched_frequencies_each_column = stretched(
    "each_column",
    "one frequency for each column",
    "The result has d_k numbers, one for each column. A pair of columns has one frequency.",
    thetas=lambda d_k, base: thetas(d_k, base).repeat_interleave(2),
)
stretched_frequencies_periods = stretched(
    "periods",
    "periods mixed instead of frequencies",
    "The periods 1 / ω are mixed, and the frequency is the inverse of that. Mix the frequencies themselves.",
    mixed=lambda theta, kept, factor: theta / (kept + (1 - kept) * factor),
)
stretched_frequencies_powers = stretched(
    "powers",
    "factor in the exponent",
    "The frequencies are divided by a power of the factor. The two frequencies ω and ω / factor are mixed in a straight "
    "line.",
    mixed=lambda theta, kept, factor: theta * factor ** (kept - 1),
)
stretched_frequencies_added = stretched(
    "added",
    "stretched part added to the whole",
    "The stretched part is added to the whole frequency, ω + (1 − κ) ω / factor, so a factor of 1 changes it. The first "
    "part is multiplied by the share κ.",
    mixed=lambda theta, kept, factor: theta + (1 - kept) * theta / factor,
)
stretched_frequencies_share_alone = stretched(
    "share_alone",
    "only the share that is kept",
    "The result is ω κ, which is 0 for slow pairs. They keep 1 / factor of their frequency.",
    mixed=lambda theta, kept, factor: theta * kept,
)
stretched_frequencies_shares = stretched(
    "shares",
    "factors returned without the frequencies",
    "The result is κ + (1 − κ) / factor, by which the frequencies change. Multiply it by them.",
    mixed=lambda theta, kept, factor: kept + (1 - kept) / factor,
)


@misconception(
    "stretched_frequencies",
    label="base changed, as in plain NTK",
    hint="The base is raised so that the slowest pair loses the factor, which changes all pairs a little (NTK-aware "
    "scaling). By parts means: some pairs stay exactly as they are.",
)
def stretched_frequencies_ntk(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    return thetas(d_k, base * factor ** (d_k / max(d_k - 2, 1))).float()


@misconception(
    "stretched_frequencies",
    label="turns within the longer texts",
    hint="The turns are counted within trained · factor tokens. Count them within the trained length: those are the angles "
    "that the model has seen.",
)
def stretched_frequencies_longer(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    return stretched_frequencies_in_steps(d_k, factor, trained * factor, base, low, high)


@misconception(
    "stretched_frequencies",
    label="result in double precision",
    hint="The frequencies are float64. The text asks for float32: convert them at the end.",
)
def stretched_frequencies_double(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    return stretched_frequencies_in_steps(d_k, factor, trained, base, low, high).double()


@misconception(
    "stretched_frequencies",
    label="last pair missing",
    hint="There are d_k / 2 − 1 frequencies: the range ends one pair too early.",
)
def stretched_frequencies_too_few(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    return stretched_frequencies_in_steps(d_k, factor, trained, base, low, high)[:-1]


@misconception(
    "stretched_frequencies",
    label="table of 256 pairs at most",
    hint="Frequencies are cut off after a fixed number of pairs. There are d_k / 2 of them, whatever d_k is.",
)
def stretched_frequencies_table(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    return stretched_frequencies_in_steps(d_k, factor, trained, base, low, high)[:256]


@misconception(
    "stretched_frequencies",
    label="odd width rounded",
    hint="An odd d_k gives frequencies, though its last column has no partner. Advice: raise `ValueError`.",
)
def stretched_frequencies_odd(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    return stretched_frequencies_in_steps(d_k + d_k % 2, factor, trained, base, low, high)


# sink_softmax: right, in steps


def for_heads(S, sink):
    """Return the sinks of S, (h, 1, 1)."""
    if sink.shape != S.shape[-3:-2]:
        raise ValueError("as many sinks as heads")
    return sink[:, None, None]


@families(*[label for label in FAMILIES if label != TWO], hints=OF_SCORES)
@right("sink_softmax")
def sink_softmax_appended(S, sink):
    column = for_heads(S, sink).expand(*S.shape[:-1], 1)
    return torch.cat([S, column], -1).softmax(-1)[..., :-1]


def placed(name, label, hint, place):
    """List a wrong answer that appends another column: `place` returns it from S and the sinks."""

    def answer(S, sink):
        for_heads(S, sink)
        column = place(S, sink).expand(*S.shape[:-1], 1)
        return torch.cat([S, column], -1).softmax(-1)[..., :-1]

    answer.__name__ = f"sink_softmax_{name}"
    return misconception("sink_softmax", label, hint)(answer)


sink_softmax_of_ones = placed(
    "of_ones",
    "one in place of the sink",
    "The denominator is 1 plus the sum, as if each sink were 0. Use the exponential of the sink.",
    lambda S, sink: 0 * sink[:, None, None],
)
sink_softmax_negative = placed(
    "negative",
    "sign of the sink changed",
    "The exponential of minus the sink is in the denominator. A large sink takes much of the weight.",
    lambda S, sink: -sink[:, None, None],
)
sink_softmax_not_exp = placed(
    "not_exp",
    "sink without the exponential",
    "The sink itself is added to the denominator. It counts like a score: add its exponential.",
    lambda S, sink: sink[:, None, None].clamp(min=1e-300).log(),
)
sink_softmax_mean_sink = placed(
    "mean_sink",
    "mean of the sinks for all heads",
    "All heads use the mean of the sinks. Each head has its own.",
    lambda S, sink: sink.mean().expand(len(sink))[:, None, None],
)
sink_softmax_first_sink = placed(
    "first_sink",
    "sink of the first head for all",
    "All heads use the sink of the first one. Each head has its own.",
    lambda S, sink: sink[:1].expand(len(sink))[:, None, None] + 0 * sink[:, None, None],
)
sink_softmax_backwards = placed(
    "backwards",
    "sinks in reverse order",
    "The first head uses the sink of the last one. Keep their order.",
    lambda S, sink: sink.flip(0)[:, None, None],
)
sink_softmax_all_sinks = placed(
    "all_sinks",
    "all sinks in each denominator",
    "Each denominator contains the sinks of all heads. A head has only its own.",
    lambda S, sink: sink.logsumexp(0).expand(len(sink))[:, None, None],
)
sink_softmax_times_keys = placed(
    "times_keys",
    "sink counted once for each key",
    "The exponential of the sink is added as often as there are keys, inside the sum. It is one more term.",
    lambda S, sink: sink[:, None, None] + math.log(S.shape[-1]),
)
sink_softmax_scaled = placed(
    "scaled",
    "sink scaled like a score",
    "The sink is divided by the root of a width. It is added as it is: scores are scaled, sinks are not.",
    lambda S, sink: sink[:, None, None] / math.sqrt(max(S.shape[-1], 2)),
)


def of_matching(axis):
    """Return `place` for sinks along another axis than the heads, where the sizes allow it."""

    def place(S, sink):
        if S.ndim >= -axis and S.shape[axis] == len(sink):
            return sink[(..., *[None] * (-axis - 1))]
        return sink[:, None, None]

    return place


sink_softmax_for_queries = placed(
    "for_queries",
    "sinks broadcast over the queries",
    "With as many queries as heads, each query gets a sink, instead of each head. Give the sinks two new dimensions on "
    "the right.",
    of_matching(-2),
)
sink_softmax_for_sequences = placed(
    "for_sequences",
    "sinks broadcast over the sequences",
    "With as many sequences as heads, each sequence gets a sink, instead of each head. Give the sinks two new dimensions "
    "on the right, and not more.",
    of_matching(-4),
)


@misconception(
    "sink_softmax",
    label="sinks broadcast over the keys",
    hint="With as many keys as heads, each key gets a sink in its denominator, instead of each head. Give the sinks two "
    "new dimensions on the right.",
)
def sink_softmax_for_keys(S, sink):
    heads = for_heads(S, sink)
    if S.shape[-1] != len(sink):
        return sink_softmax_appended(S, sink)
    m = torch.maximum(S.amax(-1, keepdim=True), heads.amax())
    E = torch.exp(S - m)
    return E / (torch.exp(sink - m) + E.sum(-1, keepdim=True))


@misconception(
    "sink_softmax",
    label="no sink",
    hint="The rows sum to 1: the sink is not in the denominator, or it was added to all scores of a row, which changes "
    "nothing, or its share was given back to the keys.",
)
def sink_softmax_plain(S, sink):
    return S.softmax(-1) + 0 * for_heads(S, sink)


@misconception(
    "sink_softmax",
    label="sink added after the softmax",
    hint="The sink is added to the weights. It belongs to the denominator, before they are divided.",
)
def sink_softmax_added_after(S, sink):
    return S.softmax(-1) + for_heads(S, sink)


@misconception(
    "sink_softmax",
    label="sink subtracted from the weights",
    hint="The sink is subtracted from the weights. It belongs to the denominator, before they are divided.",
)
def sink_softmax_subtracted_after(S, sink):
    return S.softmax(-1) - for_heads(S, sink)


@misconception(
    "sink_softmax",
    label="sink subtracted from the denominator",
    hint="The exponential of the sink is subtracted from the sum, so rows sum to more than 1. It is one more term.",
)
def sink_softmax_subtracted(S, sink):
    m = torch.maximum(S.amax(-1, keepdim=True), for_heads(S, sink))
    E = torch.exp(S - m)
    return E / (E.sum(-1, keepdim=True) - torch.exp(for_heads(S, sink) - m))


@misconception(
    "sink_softmax",
    label="weights multiplied by a sigmoid",
    hint="The weights are multiplied by 1 − sigmoid(sink), which does not depend on the scores. Large scores leave less to "
    "the sink.",
)
def sink_softmax_gated(S, sink):
    return S.softmax(-1) * torch.sigmoid(-for_heads(S, sink))


@misconception(
    "sink_softmax",
    label="column of the sink returned",
    hint="The result has one column more than S: that of the sink. It has no value, so cut it off.",
)
def sink_softmax_not_cut(S, sink):
    column = for_heads(S, sink).expand(*S.shape[:-1], 1)
    return torch.cat([S, column], -1).softmax(-1)


@misconception(
    "sink_softmax",
    label="wrong column cut off",
    hint="The sink is at one end of each row, and the column at the other end was cut off. The result begins with the "
    "sink's weight, or ends with it.",
)
def sink_softmax_wrong_cut(S, sink):
    column = for_heads(S, sink).expand(*S.shape[:-1], 1)
    return torch.cat([column, S], -1).softmax(-1)[..., :-1]


@misconception(
    "sink_softmax",
    label="other end of the row cut off",
    hint="The sink is appended at the end of each row, and the first column was cut off. The last column of the result is "
    "the sink's weight.",
)
def sink_softmax_first_cut(S, sink):
    column = for_heads(S, sink).expand(*S.shape[:-1], 1)
    return torch.cat([S, column], -1).softmax(-1)[..., 1:]


@misconception(
    "sink_softmax",
    label="one score replaced by the sink",
    hint="The sink takes the place of the last key's score. It is one more column, which is cut off afterwards.",
)
def sink_softmax_replaced(S, sink):
    column = for_heads(S, sink).expand(*S.shape[:-1], 1)
    return torch.cat([S[..., :-1], column], -1).softmax(-1)


@misconception(
    "sink_softmax",
    label="softmax over the queries",
    hint="The columns are normalized: the softmax runs over the queries. It runs over the keys, the last axis.",
)
def sink_softmax_over_queries(S, sink):
    return sink_softmax_appended(S.mT, sink).mT


@misconception(
    "sink_softmax",
    label="softmax over the heads",
    hint="The sum in the denominator runs over the heads. It runs over the keys, the last axis.",
)
def sink_softmax_over_heads(S, sink):
    sink = for_heads(S, sink)
    m = torch.maximum(S.amax(-3, keepdim=True), sink)
    E = torch.exp(S - m)
    return E / (torch.exp(sink - m) + E.sum(-3, keepdim=True))


@misconception(
    "sink_softmax",
    label="maximum not subtracted",
    hint="The exponentials of large scores are infinite, and those of low ones all 0. Subtract the same number from all "
    "terms of a row first.",
)
def sink_softmax_overflow(S, sink):
    E = torch.exp(S)
    return E / (torch.exp(for_heads(S, sink)) + E.sum(-1, keepdim=True))


@misconception(
    "sink_softmax",
    label="sink not in the maximum",
    hint="The maximum is that of the scores alone, and it is −inf in a masked row: −inf − (−inf) is NaN. The sink is one "
    "of the numbers whose maximum is subtracted.",
)
def sink_softmax_own_maximum(S, sink):
    m = S.amax(-1, keepdim=True)
    E = torch.exp(S - m)
    return E / (torch.exp(for_heads(S, sink) - m) + E.sum(-1, keepdim=True))


@misconception(
    "sink_softmax",
    label="maximum not subtracted from the sink",
    hint="The maximum is subtracted from the scores, but not from the sink. All terms of the denominator are shifted "
    "alike.",
)
def sink_softmax_sink_not_shifted(S, sink):
    E = torch.exp(S - S.amax(-1, keepdim=True))
    return E / (torch.exp(for_heads(S, sink)) + E.sum(-1, keepdim=True))


@misconception(
    "sink_softmax",
    label="one maximum for everything",
    hint="The largest score of the whole tensor is subtracted from all rows. In a row far below it all terms are 0, and "
    "0 / 0 is NaN: each row has its own maximum.",
)
def sink_softmax_one_maximum(S, sink):
    heads = for_heads(S, sink)
    m = torch.maximum(S.amax(), sink.amax())
    E = torch.exp(S - m)
    return E / (torch.exp(heads - m) + E.sum(-1, keepdim=True))


@misconception(
    "sink_softmax",
    label="scores limited to 500",
    hint="Scores are cut to the range from −500 to 500, so that their exponentials are finite. Larger ones become equal "
    "then: subtract the maximum instead.",
)
def sink_softmax_limited(S, sink):
    E = torch.exp(S.clamp(-500, 500)).masked_fill(S.isneginf(), 0)
    return E / (torch.exp(for_heads(S, sink).clamp(-500, 500)) + E.sum(-1, keepdim=True))


@misconception(
    "sink_softmax",
    label="lower limit for the maximum",
    hint="The maximum of the scores has a lower limit, so that it is not −inf in a masked row. Where the sink is below that "
    "limit, all terms are 0, and 0 / 0 is NaN. The sink is one of the numbers whose maximum is subtracted.",
)
def sink_softmax_limited_maximum(S, sink):
    m = S.amax(-1, keepdim=True).clamp(min=-1e6)
    E = torch.exp(S - m)
    return E / (torch.exp(for_heads(S, sink) - m) + E.sum(-1, keepdim=True))


@misconception(
    "sink_softmax",
    label="masked row not handled",
    hint="A row of −inf gives NaN: its softmax without the sink is 0 / 0. Put the sink into the softmax itself.",
)
def sink_softmax_of_sums(S, sink):
    total = S.logsumexp(-1, keepdim=True)
    return S.softmax(-1) * torch.sigmoid(total - for_heads(S, sink))


@misconception(
    "sink_softmax",
    label="NaN gradient in a masked row",
    hint="NaN in a row of −inf becomes 0 afterwards: in the result, but not in the gradient, which is NaN for the whole row. Put "
    "the sink into the softmax itself, or give such a row finite scores first.",
)
def sink_softmax_nan_gradient(S, sink):
    total = S.logsumexp(-1, keepdim=True)
    return S.softmax(-1).nan_to_num() * torch.sigmoid(total - for_heads(S, sink))


@misconception(
    "sink_softmax",
    label="equal weights in a masked row",
    hint="A row of −inf gets equal weights, because its scores were replaced by 0. All its weights are 0.",
)
def sink_softmax_masked_by_zeros(S, sink):
    nothing = S.isneginf().all(-1, keepdim=True)
    return sink_softmax_appended(S.masked_fill(nothing, 0), sink)


@misconception(
    "sink_softmax",
    label="masked scores replaced by a number",
    hint="−inf is replaced by a large negative number, such as −1e9. Where the sink is lower still, a masked key gets weight: "
    "keep −inf.",
)
def sink_softmax_nearly_masked(S, sink):
    return sink_softmax_appended(S.clamp(min=-1e9), sink)


@misconception(
    "sink_softmax",
    label="sink detached",
    hint="No gradient reaches the sinks, so they are never learned: `.data`, `detach` or `torch.tensor(...)` cuts them off.",
)
def sink_softmax_not_learned(S, sink):
    return sink_softmax_appended(S, sink.detach())


@misconception(
    "sink_softmax",
    label="scores changed in place",
    hint="The maximum is subtracted from S in place, but the caller still needs the scores. Make a new tensor.",
)
def sink_softmax_in_place(S, sink):
    result = sink_softmax_appended(S, sink)
    S.data -= S.data.amax(-1, keepdim=True)
    return result


@misconception(
    "sink_softmax",
    label="fixed number of axes",
    hint="The number of axes is fixed: `h, n_q, n_k = S.shape` works only for three. Take sizes from the end.",
)
def sink_softmax_three_axes(S, sink):
    _h, _n_q, _n_k = S.shape
    return sink_softmax_appended(S, sink)


@misconception(
    "sink_softmax",
    label="one sink stretched to all heads",
    hint="A single sink is stretched to all heads, and nothing reports the mistake. Compare the number of sinks with the "
    "number of heads.",
)
def sink_softmax_stretched(S, sink):
    return sink_softmax_appended(S, sink.expand(S.shape[-3:-2]))


# Block: right, in steps that a mistake can take the place of


class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % (2 * num_heads) or num_heads % num_kv_heads:
            raise ValueError("the numbers of heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.d_ff, self.window, self.theta = d_ff, window, theta
        self.d_k = d_model // num_heads
        self.make()

    def linear(self, d_in, d_out):
        return nn.Linear(d_in, d_out, bias=False)

    def weights(self, size):
        return nn.Parameter(torch.ones(size))

    def make(self):
        kv = self.num_kv_heads * self.d_k
        self.W_q, self.W_o = (self.linear(self.d_model, self.d_model) for _ in range(2))
        self.W_k, self.W_v = (self.linear(self.d_model, kv) for _ in range(2))
        self.W_gate, self.W_up = (self.linear(self.d_model, self.d_ff) for _ in range(2))
        self.W_down = self.linear(self.d_ff, self.d_model)
        self.norm1, self.norm2 = self.weights(self.d_model), self.weights(self.d_model)
        self.q_norm, self.k_norm = self.weights(self.d_k), self.weights(self.d_k)

    eps = 1e-6

    def norm(self, x, weight):
        fits(x, weight)
        return self.divided(x, weight)

    def divided(self, x, weight):
        numbers = wide(x)
        scale = (numbers.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return (numbers * scale * weight).to(x.dtype)

    def split(self, x, heads):
        """(b, n, heads * d_k) -> (b, heads, n, d_k)"""
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    def merge(self, z):
        return z.transpose(1, 2).flatten(2)

    def exponents(self, half):
        return -torch.arange(half).double() / half

    def angles(self, positions, half):
        return positions.double()[:, None] * self.theta ** self.exponents(half)

    def pairs(self, z):
        return z[..., 0::2], z[..., 1::2]

    def joined(self, x, y):
        return torch.stack([x, y], -1).flatten(-2)

    def turn(self, z, positions):
        if len(positions) != z.shape[-2]:
            raise ValueError("another number of positions")
        t = self.angles(positions, z.shape[-1] // 2)
        x, y = self.pairs(z)
        return self.joined(x * t.cos() - y * t.sin(), x * t.sin() + y * t.cos()).to(z.dtype)

    def queries(self, q, positions):
        return self.turn(self.norm(q, self.q_norm), positions)

    def keys(self, k, positions):
        return self.turn(self.norm(k, self.k_norm), positions)

    def values(self, v, positions):
        return v

    def repeat(self, z):
        return z.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)

    def distances(self, n, positions):
        i = torch.arange(n)
        return i[:, None] - i

    def mask(self, n, positions):
        back = self.distances(n, positions)
        return (back >= 0) if self.window is None else (back >= 0) & (back < self.window)

    def scale(self):
        return 1 / math.sqrt(self.d_k)

    def weigh(self, S, mask):
        return S.masked_fill(~mask, -torch.inf).softmax(-1)

    def attend(self, x, positions):
        """Return what attention makes of an input that is already normed."""
        n = x.shape[1]
        positions = torch.arange(n) if positions is None else positions
        q, k, v = self.split_all(x)
        q, k, v = self.queries(q, positions), self.keys(k, positions), self.values(v, positions)
        k, v = self.repeat(k), self.repeat(v)
        S = q @ k.mT * self.scale()
        return self.W_o(self.merge(self.weigh(S, self.mask(n, positions)) @ v))

    def split_all(self, x):
        kv = self.num_kv_heads
        return (
            self.split(self.W_q(x), self.num_heads),
            self.split(self.W_k(x), kv),
            self.split(self.W_v(x), kv),
        )

    def curve(self, t):
        return silu(t)

    def feed(self, x):
        return self.W_down(self.curve(self.W_gate(x)) * self.W_up(x))

    def through(self, x, positions):
        x = x + self.attend(self.norm(x, self.norm1), positions)
        return x + self.feed(self.norm(x, self.norm2))

    def forward(self, x, positions=None):
        return self.through(x, positions)


def of_block(label, hint):
    return misconception("Block", label, hint)


@families(*[label for label in FAMILIES if label not in FLAT], hints=OF_BLOCK)
@right("Block")
class Block_in_steps(Block):
    pass


# Block, wrong: the stream


@of_block(
    "post-norm instead of pre-norm",
    "The norm comes after the sum, norm(x + part(x)). It belongs before each part: x + part(norm(x)).",
)
class Block_post_norm(Block):
    def through(self, x, positions):
        x = self.norm(x + self.attend(x, positions), self.norm1)
        return self.norm(x + self.feed(x), self.norm2)


@of_block(
    "results of the parts normed",
    "x + norm(part(x)) norms the result of a part. Norm what goes into it: x + part(norm(x)).",
)
class Block_norm_of_parts(Block):
    def through(self, x, positions):
        x = x + self.norm(self.attend(x, positions), self.norm1)
        return x + self.norm(self.feed(x), self.norm2)


@of_block(
    "residual connections missing",
    "Each part replaces the stream. Its result is added to the stream.",
)
class Block_no_residual(Block):
    def through(self, x, positions):
        x = self.attend(self.norm(x, self.norm1), positions)
        return self.feed(self.norm(x, self.norm2))


@of_block(
    "first residual connection missing",
    "The result of attention replaces the stream. Add it to x.",
)
class Block_no_first_residual(Block):
    def through(self, x, positions):
        x = self.attend(self.norm(x, self.norm1), positions)
        return x + self.feed(self.norm(x, self.norm2))


@of_block(
    "second residual connection missing",
    "The block returns the feed-forward network's result alone. Add it to the stream.",
)
class Block_no_second_residual(Block):
    def through(self, x, positions):
        x = x + self.attend(self.norm(x, self.norm1), positions)
        return self.feed(self.norm(x, self.norm2))


@of_block(
    "residual from the normed stream",
    "The results of the parts are added to the normed stream. Give the normed stream a name of its own, and add to x.",
)
class Block_residual_after_norm(Block):
    def through(self, x, positions):
        x = self.norm(x, self.norm1)
        x = x + self.attend(x, positions)
        x = self.norm(x, self.norm2)
        return x + self.feed(x)


@of_block(
    "parts applied in parallel",
    "Both parts get the block's input, as some models do it. Here the network gets the sum of x and attention's result.",
)
class Block_parallel(Block):
    def through(self, x, positions):
        attended = self.attend(self.norm(x, self.norm1), positions)
        return x + attended + self.feed(self.norm(x, self.norm2))


@of_block(
    "second sum with the block's input",
    "The network's result is added to the block's input, so the result of attention is lost there. Add it to the sum.",
)
class Block_added_to_x(Block):
    def through(self, x, positions):
        between = x + self.attend(self.norm(x, self.norm1), positions)
        return x + self.feed(self.norm(between, self.norm2))


@of_block(
    "feed-forward before attention",
    "The feed-forward network comes first. Attention comes first, and the network gets the sum after it.",
)
class Block_feed_first(Block):
    def through(self, x, positions):
        x = x + self.feed(self.norm(x, self.norm2))
        return x + self.attend(self.norm(x, self.norm1), positions)


@of_block(
    "first norm missing",
    "Attention gets the stream as it is, and `norm1` is not used. Norm it first.",
)
class Block_no_first_norm(Block):
    def through(self, x, positions):
        x = x + self.attend(x, positions) + 0 * self.norm1
        return x + self.feed(self.norm(x, self.norm2))


@of_block(
    "second norm missing",
    "The feed-forward network gets the stream as it is, and `norm2` is not used. Norm it first.",
)
class Block_no_second_norm(Block):
    def through(self, x, positions):
        x = x + self.attend(self.norm(x, self.norm1), positions)
        return x + self.feed(x) + 0 * self.norm2


@of_block(
    "both norms missing",
    "Neither part gets a normed stream: `norm1` and `norm2` are not used.",
)
class Block_no_norms(Block):
    def through(self, x, positions):
        x = x + self.attend(x, positions)
        return x + self.feed(x) + 0 * (self.norm1 + self.norm2)


@of_block(
    "norm1 used for both parts",
    "The stream is normed with the weight `norm1` before both parts. The second has a weight of its own.",
)
class Block_norm1_twice(Block):
    def through(self, x, positions):
        x = x + self.attend(self.norm(x, self.norm1), positions)
        return x + self.feed(self.norm(x, self.norm1)) + 0 * self.norm2


@of_block(
    "the two norms exchanged",
    "`norm2` comes before attention, and `norm1` before the network. It should be the other way round.",
)
class Block_norms_exchanged(Block):
    def through(self, x, positions):
        x = x + self.attend(self.norm(x, self.norm2), positions)
        return x + self.feed(self.norm(x, self.norm1))


@of_block(
    "norm only for queries and keys",
    "Queries and keys are made from the normed stream, but values from the stream itself. All three get the normed one.",
)
class Block_values_of_stream(Block):
    def through(self, x, positions):
        self.stream = x
        result = super().through(x, positions)
        del self.stream
        return result

    def split_all(self, x):
        q, k, _ = super().split_all(x)
        return q, k, self.split(self.W_v(self.stream), self.num_kv_heads)


@of_block(
    "mean subtracted in the norms",
    "The norms subtract the mean, as a layer norm does. RMSNorm only divides.",
)
class Block_layer_norm(Block):
    def norm(self, x, weight):
        return super().norm(x - x.mean(-1, keepdim=True), weight)


@of_block(
    "one added to the norms' weights",
    "The norms multiply by 1 + weight. Here the weights are ones in a new block, and are the factors themselves.",
)
class Block_weight_plus_1(Block):
    def norm(self, x, weight):
        return super().norm(x, 1 + weight)


@of_block(
    "weights of the norms not used",
    "The norms divide, but do not multiply by their weights.",
)
class Block_norms_bare(Block):
    def norm(self, x, weight):
        return super().norm(x, 1 + 0 * weight)


@of_block(
    "different epsilon in the norms",
    "The norms add 1e-5 to the mean square, or another number. The default of `rms_norm` is 1e-6.",
)
class Block_other_eps(Block):
    eps = 1e-5


@of_block(
    "no epsilon in the norms",
    "The norms add nothing to the mean square, so a token of zeros becomes NaN.",
)
class Block_no_eps(Block):
    eps = 0.0


@of_block(
    "different epsilon in the second norm",
    "The second norm adds 1e-5 to the mean square, or another number. Like all norms here, it adds 1e-6.",
)
class Block_second_eps(Block):
    def through(self, x, positions):
        x = x + self.attend(self.norm(x, self.norm1), positions)
        self.eps = 1e-5
        try:
            return x + self.feed(self.norm(x, self.norm2))
        finally:
            del self.eps


# Block, wrong: the feed-forward network


@of_block(
    "GELU instead of SiLU",
    "The gate goes through GELU. The network is that of 13.2, with SiLU.",
)
class Block_gelu(Block):
    def curve(self, t):
        return nn.functional.gelu(t)


@of_block(
    "sigmoid instead of SiLU",
    "The gate goes through a sigmoid. The network is that of 13.2, with SiLU.",
)
class Block_sigmoid(Block):
    def curve(self, t):
        return t.sigmoid()


@of_block(
    "SiLU on the up projection",
    "SiLU is applied to the up projection, or gate and up are exchanged. The gate goes through SiLU.",
)
class Block_gate_exchanged(Block):
    def feed(self, x):
        return self.W_down(self.W_gate(x) * silu(self.W_up(x)))


@of_block(
    "up projection not used",
    "The up projection is missing from the network: its result is multiplied with the gate.",
)
class Block_no_up(Block):
    def feed(self, x):
        return self.W_down(silu(self.W_gate(x))) + 0 * self.W_up(x).sum()


@of_block(
    "feed-forward network not used",
    "The feed-forward network is missing: after attention, its result for the normed stream is added.",
)
class Block_no_feed(Block):
    def feed(self, x):
        return 0 * super().feed(x)


# Block, wrong: queries, keys and values


@of_block(
    "queries and keys not normed",
    "`q_norm` and `k_norm` are not used. Each query and each key is normed before it is turned.",
)
class Block_no_qk_norm(Block):
    def queries(self, q, positions):
        return self.turn(q, positions) + 0 * self.q_norm

    def keys(self, k, positions):
        return self.turn(k, positions) + 0 * self.k_norm


@of_block(
    "keys not normed",
    "Queries are normed, but keys are not: `k_norm` is not used.",
)
class Block_no_k_norm(Block):
    def keys(self, k, positions):
        return self.turn(k, positions) + 0 * self.k_norm


@of_block(
    "queries not normed",
    "Keys are normed, but queries are not: `q_norm` is not used.",
)
class Block_no_q_norm(Block):
    def queries(self, q, positions):
        return self.turn(q, positions) + 0 * self.q_norm


@of_block(
    "one weight for queries and keys",
    "Queries and keys are both normed with `q_norm`. Keys have a weight of their own.",
)
class Block_q_norm_twice(Block):
    def keys(self, k, positions):
        return self.turn(self.norm(k, self.q_norm), positions) + 0 * self.k_norm


@of_block(
    "weights of queries and keys exchanged",
    "Queries are normed with `k_norm`, and keys with `q_norm`. As long as all weights are ones, no one notices.",
)
class Block_qk_exchanged(Block):
    def queries(self, q, positions):
        return self.turn(self.norm(q, self.k_norm), positions)

    def keys(self, k, positions):
        return self.turn(self.norm(k, self.q_norm), positions)


@of_block(
    "norm after the rotation",
    "Queries and keys are turned first and normed after that, so the weight meets columns that are already mixed. Norm "
    "first.",
)
class Block_norm_after_rotation(Block):
    def queries(self, q, positions):
        return self.norm(self.turn(q, positions), self.q_norm)

    def keys(self, k, positions):
        return self.norm(self.turn(k, positions), self.k_norm)


@of_block(
    "values normed as well",
    "Values are normed as well. Only queries and keys are: they make the scores.",
)
class Block_values_normed(Block):
    def values(self, v, positions):
        return self.norm(v, torch.ones(self.d_k, dtype=v.dtype))


@of_block(
    "values normed with the keys' weight",
    "Values are normed with `k_norm`. Only queries and keys are normed: they make the scores.",
)
class Block_values_k_normed(Block):
    def values(self, v, positions):
        return self.norm(v, self.k_norm)


@of_block(
    "mean over all heads",
    "Queries and keys are normed before they are split, so all heads of a token share one mean square. Each head has its "
    "own, over its d_k numbers.",
)
class Block_norm_of_all_heads(Block):
    def together(self, z, weight):
        numbers = wide(z)
        square = numbers.square().mean((1, 3), keepdim=True)
        return (numbers * (square + self.eps).rsqrt() * weight).to(z.dtype)

    def queries(self, q, positions):
        return self.turn(self.together(q, self.q_norm), positions)

    def keys(self, k, positions):
        return self.turn(self.together(k, self.k_norm), positions)


@of_block(
    "q_norm and k_norm of all heads' width",
    "`q_norm` and `k_norm` have a number for each column of all heads. The weight has d_k numbers, the same for all heads.",
)
class Block_wide_norms(Block):
    def make(self):
        super().make()
        self.q_norm = self.weights(self.d_model)
        self.k_norm = self.weights(self.num_kv_heads * self.d_k)

    def split_all(self, x):
        kv = self.num_kv_heads
        q, k = self.norm(self.W_q(x), self.q_norm), self.norm(self.W_k(x), self.k_norm)
        return self.split(q, self.num_heads), self.split(k, kv), self.split(self.W_v(x), kv)

    def queries(self, q, positions):
        return self.turn(q, positions)

    def keys(self, k, positions):
        return self.turn(k, positions)


@of_block(
    "weight of queries not used",
    "Queries are divided by their root mean square, but `q_norm` is not multiplied in.",
)
class Block_q_weight_unused(Block):
    def queries(self, q, positions):
        return self.turn(self.norm(q, 1 + 0 * self.q_norm), positions)


@of_block(
    "queries and keys not turned",
    "Neither queries nor keys are turned, so the order of the tokens counts only through the mask.",
)
class Block_no_rotation(Block):
    def turn(self, z, positions):
        if len(positions) != z.shape[-2]:
            raise ValueError("another number of positions")
        return z


@of_block(
    "only queries turned",
    "Queries are turned, but keys are not. Only when both are, the score depends on their distance.",
)
class Block_keys_not_turned(Block):
    def keys(self, k, positions):
        return self.norm(k, self.k_norm)


@of_block(
    "only keys turned",
    "Keys are turned, but queries are not. Only when both are, the score depends on their distance.",
)
class Block_queries_not_turned(Block):
    def queries(self, q, positions):
        return self.norm(q, self.q_norm)


@of_block(
    "values turned as well",
    "Values are turned as well. Only queries and keys are: a value is the content, wherever it is.",
)
class Block_values_turned(Block):
    def values(self, v, positions):
        return self.turn(v, positions)


@of_block(
    "rotation before the split into heads",
    "Queries and keys are turned over the whole width, before they are split into heads, so most heads get slow pairs "
    "alone. Split first: each head has all frequencies.",
)
class Block_turned_before_the_split(Block):
    def whole(self, z, weight, positions):
        """Turn all columns of all heads with the frequencies of the whole width, then norm."""
        z = self.norm(z, weight)
        flat = self.turn(z.transpose(1, 2).flatten(2), positions)
        return self.split(flat, z.shape[1])

    def queries(self, q, positions):
        return self.whole(q, self.q_norm, positions)

    def keys(self, k, positions):
        return self.whole(k, self.k_norm, positions)


@of_block(
    "pairs in the convention of halves",
    "Column i is paired with column i + d_k / 2, as in most published models. Here pairs are columns 2i and 2i + 1, as in "
    "the given `rotary`.",
)
class Block_halves(Block):
    def pairs(self, z):
        return z.chunk(2, -1)

    def joined(self, x, y):
        return torch.cat([x, y], -1)


@of_block(
    "turned pairs put together as halves",
    "The columns of the turned pairs are put together as two halves. Put them back as pairs, one next to the other.",
)
class Block_joined_as_halves(Block):
    def joined(self, x, y):
        return torch.cat([x, y], -1)

    def keys(self, k, positions):
        turned = super().keys(k, positions)
        return torch.stack(turned.chunk(2, -1), -1).flatten(-2)


@of_block(
    "turned the other way for keys",
    "Keys are turned by minus the angle of queries. Then scores depend on the sum of two positions, not on their "
    "difference.",
)
class Block_keys_backwards(Block):
    def keys(self, k, positions):
        return self.turn(self.norm(k, self.k_norm), -positions)


@of_block(
    "exponents of the frequencies doubled",
    "The frequencies are theta^(−4i / d_k): the exponent of pair i is −2i / d_k.",
)
class Block_double_exponents(Block):
    def exponents(self, half):
        return 2 * super().exponents(half)


@of_block(
    "exponents of the frequencies halved",
    "The frequencies are theta^(−i / d_k): the exponent of pair i is −2i / d_k.",
)
class Block_half_exponents(Block):
    def exponents(self, half):
        return super().exponents(half) / 2


@of_block(
    "argument theta ignored",
    "The base of the rotation is always 10,000. Pass `theta` on to `rotary`.",
)
class Block_fixed_theta(Block):
    def angles(self, positions, half):
        return positions.double()[:, None] * 10000.0 ** self.exponents(half)


@of_block(
    "argument positions ignored",
    "Tokens are always turned by 0 to n − 1. Use `positions` where it is given.",
)
class Block_positions_ignored(Block):
    def turn(self, z, positions):
        if len(positions) != z.shape[-2]:
            raise ValueError("another number of positions")
        return super().turn(z, torch.arange(len(positions)))


@of_block(
    "positions kept from an earlier call",
    "Positions, or angles made from them, are kept in the module, and a later call uses them again. Compute them in each "
    "call.",
)
class Block_positions_kept(Block):
    def attend(self, x, positions):
        if positions is not None:
            self.kept = positions
        elif len(getattr(self, "kept", ())) == x.shape[1]:
            positions = self.kept
        return super().attend(x, positions)


# Block, wrong: heads


@of_block(
    "key heads in turn",
    "Query head i uses key head i % num_kv_heads: the key heads are repeated as a whole, as `repeat` and `expand` do it. "
    "Neighboring query heads share a key head.",
)
class Block_tiled(Block):
    def repeat(self, z):
        return z.repeat(1, self.num_heads // self.num_kv_heads, 1, 1)


@of_block(
    "values in turn, keys repeated",
    "Keys are repeated one by one, but values as a whole, so a query head takes the values of another key head.",
)
class Block_values_tiled(Block):
    def values(self, v, positions):
        groups = self.num_heads // self.num_kv_heads
        return v.repeat(1, groups, 1, 1)

    def repeat(self, z):
        return z if z.shape[1] == self.num_heads else super().repeat(z)


@of_block(
    "first key head for all",
    "All query heads use the first key head. Head i uses key head i // (num_heads / num_kv_heads).",
)
class Block_one_key_head(Block):
    def repeat(self, z):
        return z[:, :1].expand(-1, self.num_heads, -1, -1)


@of_block(
    "as many key heads as query heads",
    "`W_k` and `W_v` make num_heads heads. There are num_kv_heads of keys and values, and each serves several query heads.",
)
class Block_all_kv_heads(Block):
    def make(self):
        self.num_kv_heads = self.num_heads
        super().make()


@of_block(
    "columns of heads mixed in the split",
    "The columns are split as (d_k, heads), so head i gets every h-th column. Head i is a block of neighboring columns.",
)
class Block_split_other_way(Block):
    def split(self, x, heads):
        return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


@of_block(
    "tokens and heads mixed by reshape",
    "The projection is reshaped to (b, h, n, d_k) directly, which mixes tokens and heads. Split the last axis first, then "
    "exchange two axes.",
)
class Block_split_by_reshape(Block):
    def split(self, x, heads):
        return x.reshape(x.shape[0], heads, x.shape[1], -1)


@of_block(
    "heads merged without exchanging axes",
    "The heads' results (b, h, n, d_k) are reshaped to (b, n, d_model) directly. Bring the axes of heads and d_k next to "
    "each other first.",
)
class Block_merged_by_reshape(Block):
    def merge(self, z):
        return z.reshape(z.shape[0], z.shape[2], -1)


@of_block(
    "columns of heads interleaved in the merge",
    "The heads' columns are put together in turn: head by head for each number. Each head's d_k columns stay together.",
)
class Block_merged_other_way(Block):
    def merge(self, z):
        return z.permute(0, 2, 3, 1).flatten(2)


@of_block(
    "output projection missing",
    "The heads' results are added to the stream as they are: `W_o` is not used.",
)
class Block_no_output(Block):
    def attend(self, x, positions):
        W_o, self.W_o = self.W_o, nn.Identity()
        try:
            return super().attend(x, positions) + 0 * W_o.weight.sum()
        finally:
            self.W_o = W_o


# Block, wrong: scores and masks


@of_block(
    "scale missing",
    "The scores are not divided by √d_k. They are, also where queries and keys are normed.",
)
class Block_no_scale(Block):
    def scale(self):
        return 1.0


@of_block(
    "divided by d_k instead of its root",
    "The scores are divided by d_k. Divide by its square root.",
)
class Block_scaled_by_d_k(Block):
    def scale(self):
        return 1 / self.d_k


@of_block(
    "scaled by the width of the model",
    "The scores are divided by √d_model. The width that counts is that of a head, d_k.",
)
class Block_scaled_by_d_model(Block):
    def scale(self):
        return 1 / math.sqrt(self.d_model)


@of_block(
    "causal mask missing",
    "Without a window, tokens see later ones: there is no causal mask.",
)
class Block_not_causal(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        return back < (n if self.window is None else self.window)


@of_block(
    "mask the wrong way round",
    "Tokens see themselves and the later ones. True means that a token may attend, and it may attend to earlier ones.",
)
class Block_mask_reversed(Block):
    def distances(self, n, positions):
        return -super().distances(n, positions)


@of_block(
    "token does not see itself",
    "A token sees only the tokens before it, and the first one sees nothing. It also sees itself.",
)
class Block_not_itself(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        return (back > 0) if self.window is None else (back > 0) & (back <= self.window)


@of_block(
    "weights set to 0 after the softmax",
    "Later tokens are removed after the softmax, but they were in its denominator: rows sum to less than 1. Mask the "
    "scores.",
)
class Block_masked_after(Block):
    def weigh(self, S, mask):
        return S.softmax(-1) * mask


@of_block(
    "masked scores set to 0",
    "Scores are multiplied by the mask, so a later token has the score 0 and not weight 0. It needs −inf.",
)
class Block_masked_with_0(Block):
    def weigh(self, S, mask):
        return (S * mask).softmax(-1)


@of_block(
    "masked scores not low enough",
    "Masked scores get a number such as −100. Where the scores of the tokens before are as low, a later token gets "
    "weight. It needs −inf.",
)
class Block_masked_with_100(Block):
    def weigh(self, S, mask):
        return S.masked_fill(~mask, -100.0).softmax(-1)


@of_block(
    "largest score not subtracted",
    "The exponential of a large score is inf, and inf / inf is NaN. Use `softmax`, which subtracts the largest score of "
    "each row first.",
)
class Block_largest_kept(Block):
    def weigh(self, S, mask):
        E = S.exp() * mask
        return E / E.sum(-1, keepdim=True)


@of_block(
    "largest score of a masked token subtracted",
    "The largest score of a row is taken over masked tokens as well. Where one of these is much larger, all weights become "
    "0, and 0 / 0 is NaN. Mask the scores first.",
)
class Block_largest_of_masked(Block):
    def weigh(self, S, mask):
        E = (S - S.amax(-1, keepdim=True)).exp() * mask
        return E / E.sum(-1, keepdim=True)


@of_block(
    "softmax over the queries",
    "The softmax runs over the queries. It runs over the keys, the last axis.",
)
class Block_over_queries(Block):
    def weigh(self, S, mask):
        return S.masked_fill(~mask, -torch.inf).softmax(-2)


@of_block(
    "window ignored",
    "The window has no effect: tokens see all tokens before them.",
)
class Block_no_window(Block):
    def mask(self, n, positions):
        return self.distances(n, positions) >= 0


@of_block(
    "window one token too large",
    "Tokens see i − w to i, which are w + 1 tokens. The token itself is one of the w.",
)
class Block_window_too_large(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        return (back >= 0) if self.window is None else (back >= 0) & (back <= self.window)


@of_block(
    "window one token too small",
    "Tokens see i − w + 2 to i, which are w − 1 tokens. With a window of 1 a token sees itself.",
)
class Block_window_too_small(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        if self.window is None:
            return back >= 0
        return (back >= 0) & (back < max(self.window - 1, 1))


@of_block(
    "window on both sides",
    "With a window, tokens also see later ones, up to w − 1 ahead. The window reaches back alone.",
)
class Block_window_both_sides(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        return (back >= 0) if self.window is None else back.abs() < self.window


@of_block(
    "causal mask only without a window",
    "With a window, tokens see all later tokens: only the far past is hidden. Both conditions apply together.",
)
class Block_window_not_causal(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        return (back >= 0) if self.window is None else back < self.window


@of_block(
    "window as blocks of tokens",
    "The sequence is cut into blocks of w tokens, and a token sees only its block. The window moves along with the token.",
)
class Block_window_of_blocks(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        if self.window is None:
            return back >= 0
        part = torch.arange(n) // self.window
        return (back >= 0) & (part[:, None] == part)


@of_block(
    "far past seen instead of the window",
    "With a window, tokens see all but the last w tokens: the comparison is the wrong way round.",
)
class Block_window_inverted(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        far = (back >= 0) if self.window is None else (back >= self.window) | (back == 0)
        return far & (back >= 0)


@of_block(
    "window measured in positions",
    "Positions decide about the window, and they may have gaps. A window counts tokens in the sequence.",
)
class Block_window_of_positions(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        if self.window is None:
            return back >= 0
        return (back >= 0) & ((positions[:, None] - positions).abs() < self.window)


@of_block(
    "mask of at most 1,024 tokens",
    "The mask is made once, for a fixed number of tokens, and a longer text has no part in it. Make it for the tokens of each call.",
)
class Block_fixed_mask(Block):
    def mask(self, n, positions):
        seen = torch.ones(1024, 1024, dtype=torch.bool).tril()[:n, :n]
        return seen & super().mask(n, positions)


@of_block(
    "mask made from positions",
    "Tokens see those at the same or a lower position. The order in the sequence decides, whatever the positions are.",
)
class Block_causal_by_positions(Block):
    def mask(self, n, positions):
        seen = positions[:, None] >= positions
        if self.window is not None:
            seen = seen & (self.distances(n, positions) < self.window) & super().mask(n, positions)
        return seen


@of_block(
    "window of at most the sequence",
    "A window larger than the sequence, or as large, gives something else. Then it hides nothing.",
)
class Block_window_needs_longer(Block):
    def mask(self, n, positions):
        back = self.distances(n, positions)
        if self.window is None or self.window < n:
            return super().mask(n, positions)
        return back == 0


# Block, wrong: parameters and modules


@of_block(
    "biases in the linear layers",
    "The linear layers have biases, which is the default of `nn.Linear`. Turn them off.",
)
class Block_biases(Block):
    def linear(self, d_in, d_out):
        return nn.Linear(d_in, d_out)


@of_block(
    "norms as modules",
    "`norm1` and the other norms are modules, so their weights have longer names, such as `norm1.weight`. They are "
    "parameters here.",
)
class Block_norm_modules(Block):
    def weights(self, size):
        return nn.RMSNorm(size, eps=1e-6)

    def norm(self, x, weight):
        return weight(x)


@of_block(
    "weights of the norms not parameters",
    "The norms' weights are plain tensors, so they are neither trained nor loaded. Wrap them in `nn.Parameter`.",
)
class Block_plain_weights(Block):
    def weights(self, size):
        return torch.ones(size)


@of_block(
    "weights of the norms begin at 0",
    "The norms' weights are zeros in a new block, so both parts add nothing. They begin as ones.",
)
class Block_zeros(Block):
    def weights(self, size):
        return nn.Parameter(torch.zeros(size))


@of_block(
    "weights of the norms drawn at random",
    "The norms' weights are random in a new block. They begin as ones.",
)
class Block_random_weights(Block):
    def weights(self, size):
        return nn.Parameter(torch.randn(size))


@of_block(
    "super().__init__ missing or late",
    "`super().__init__()` is missing or comes too late. It must come first in `__init__`, before any layer.",
)
class Block_not_begun(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        super().__init__()


@of_block(
    "dropout in the block",
    "Some results are set to 0 at random in training mode. The text asks for no dropout.",
)
class Block_dropout(Block):
    def feed(self, x):
        return nn.functional.dropout(super().feed(x), 0.3, self.training)


@of_block(
    "tuple instead of a tensor",
    "The block returns a tuple, with weights or keys next to the result. Return the stream alone.",
)
class Block_tuple(Block):
    def forward(self, x, positions=None):
        return super().forward(x, positions), None


@of_block(
    "x changed in place",
    "`x += ...` changes the caller's tensor. Write `x = x + ...`, which makes a new one.",
)
class Block_in_place(Block):
    def forward(self, x, positions=None):
        result = super().forward(x, positions)
        x.data.copy_(result)
        return result


@of_block(
    "part of the weights detached",
    "The attention weights are cut off from autograd, so queries and keys are never trained.",
)
class Block_weights_detached(Block):
    def weigh(self, S, mask):
        return super().weigh(S, mask).detach() + 0 * S.masked_fill(~mask, 0)


@of_block(
    "other names for the arguments",
    "An argument has another name than in the text, so it cannot be given by name.",
)
class Block_other_names(Block):
    def forward(self, x, position_ids=None):
        return super().forward(x, position_ids)


@of_block(
    "arguments in another order",
    "`theta` comes before `window`. The order is d_model, num_heads, num_kv_heads, d_ff, window, theta.",
)
class Block_other_order(Block):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, theta=10000.0, window=None):
        super().__init__(d_model, num_heads, num_kv_heads, d_ff, window, theta)


@of_block(
    "tables for 512 positions",
    "Angles or masks are in a table of 512 tokens, so longer sequences fail. Compute them for the n of each call.",
)
class Block_table(Block):
    def turn(self, z, positions):
        if z.shape[-2] > 512:
            raise IndexError("the table has 512 rows")
        return super().turn(z, positions)


# Block, wrong sizes


@of_block(
    "columns left over by the heads",
    "d_model is not a multiple of num_heads, and the columns that are left over are not used. Advice: raise `ValueError`.",
)
class Block_columns_left(Block):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        whole = max(d_model // (2 * num_heads), 1) * 2 * num_heads
        super().__init__(whole, num_heads, max(num_kv_heads, 1), d_ff, window, theta)


@of_block(
    "query heads without key heads",
    "num_heads is not a multiple of num_kv_heads, and the constructor does not notice. Advice: raise `ValueError`.",
)
class Block_heads_left(Block):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        if d_model % (2 * num_heads):
            raise ValueError("the heads do not fit")
        super().__init__(d_model, num_heads, num_heads, d_ff, window, theta)
        self.num_kv_heads = num_kv_heads
        self.make()


@of_block(
    "one position stretched to all tokens",
    "A single position is stretched to all tokens, and nothing reports the mistake. There are n of them.",
)
class Block_position_stretched(Block):
    def turn(self, z, positions):
        return super().turn(z, positions.expand(z.shape[-2]))


@of_block(
    "token of one number stretched",
    "A token of one number is stretched to d_model columns by the weight of the norm, and nothing reports the mistake.",
)
class Block_width_stretched(Block):
    def norm(self, x, weight):
        return self.divided(x, weight)


@of_block(
    "norms in the dtype of x",
    "The norms compute the mean square in the dtype of x. In float16, the squares of large numbers are infinite, and the "
    "normed stream is 0: convert to float32 first.",
)
class Block_half_precision(Block):
    def divided(self, x, weight):
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * weight


@of_block(
    "norm of queries in their dtype",
    "The stream is normed in float32, but the mean square of queries and keys is computed in their own dtype. In float16, the squares "
    "of large numbers are infinite, and queries and keys become 0: use `rms_norm` for them as well.",
)
class Block_qk_half_precision(Block):
    def divided(self, x, weight):
        if weight.numel() == self.d_model:
            return super().divided(x, weight)
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * weight

"""Wrong answers that people really give, each with the hint it deserves; and right ones that other mistakes are made
from.

A check that fails is explained by the listed answer that behaves as the student's function does. The tests
of the course prove that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import copy

import numpy as np
import torch
from torch import nn

from checking import families, misconception, right


def square(A, least=2):
    """Raise where weights are not square, or of too few tokens."""
    if A.shape[-2] != A.shape[-1] or A.shape[-1] < least:
        raise ValueError("sizes that do not fit")


def over_batch(scores, axes):
    """Return the mean over the batch, where there is one: A had 4 axes."""
    return scores.mean(0) if axes == 4 else scores


def there(layer, head):
    """Return the numbers of a head's columns; raise where there is no such head."""
    if not 0 <= head < layer.num_heads:
        raise ValueError("no such head")
    d_head = layer.d_model // layer.num_heads
    return slice(head * d_head, (head + 1) * d_head)


def silenced(layer, head):
    """Return a copy without a head."""
    made, own = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        made.W_o.weight[:, own] = 0
    return made


def squares_of(A):
    if A.dim() != 2:
        raise ValueError("two axes, please")
    return torch.linalg.svdvals(A).detach() ** 2


def reached(squares, energy):
    """Return how many of these squares make the share."""
    return int((squares.cumsum(0) < energy * squares.sum()).sum()) + 1


# by_hand: wrong


@misconception(
    "by_hand",
    label="scores taken for probabilities",
    hint="These are the scores of the first word, ln 4 + ln 2 and ln 2. Softmax makes probabilities of both scores.",
)
def by_hand_scores():
    return [np.log(8), np.log(2), 0.5, 2]


@misconception(
    "by_hand",
    label="the other head cut",
    hint="Without the first head the second one is left, which adds ln 2. You left out the second.",
)
def by_hand_other_head():
    return [8 / 9, 4 / 5, 0.5, 2]


@misconception(
    "by_hand",
    label="the first token counted",
    hint="The sum of the three entries below the diagonal was divided by 4. The first token has no word before it.",
)
def by_hand_of_four():
    return [8 / 9, 2 / 3, 0.375, 2]


@misconception(
    "by_hand",
    label="singular values not squared",
    hint="The singular values themselves were added up. It is their squares that count: 1.96, 0.64, 0.16 and 0.01.",
)
def by_hand_not_squared():
    return [8 / 9, 2 / 3, 0.5, 3]


# previous_token_score: wrong


@misconception(
    "previous_token_score",
    label="next token instead of the previous",
    hint="The diagonal above the main one holds A[i, i + 1]: the weight on the word after. Below it, the offset is "
    "-1.",
)
def previous_token_score_next(A):
    square(A)
    return over_batch(A.diagonal(1, -2, -1).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="the token itself",
    hint="The main diagonal holds A[i, i]: how much a word looks at itself.",
)
def previous_token_score_itself(A):
    square(A)
    return over_batch(A.diagonal(0, -2, -1).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="divided by n",
    hint="There are n - 1 tokens with one before them: the mean is over these.",
)
def previous_token_score_of_n(A):
    square(A)
    return over_batch(A.diagonal(-1, -2, -1).sum(-1) / A.shape[-1], A.dim())


@misconception(
    "previous_token_score",
    label="sum instead of mean",
    hint="The weights were added up over the tokens and not divided by how many there are: n - 1.",
)
def previous_token_score_summed(A):
    square(A)
    return over_batch(A.diagonal(-1, -2, -1).sum(-1), A.dim())


@misconception(
    "previous_token_score",
    label="last token before the first",
    hint="`roll` and an index of -1 wrap around: A[0, -1] was counted, though nothing stands before the first token.",
)
def previous_token_score_wrapped(A):
    square(A)
    n = A.shape[-1]
    return over_batch(A[..., torch.arange(n), torch.arange(n) - 1].mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="all earlier tokens",
    hint="`tril(-1)` keeps everything below the diagonal. Only the entries right below it belong to the token "
    "before.",
)
def previous_token_score_all_earlier(A):
    square(A)
    return over_batch(A.tril(-1).sum((-2, -1)) / (A.shape[-1] - 1), A.dim())


@misconception(
    "previous_token_score",
    label="batch left in the result",
    hint="With a batch the result is (b, h). Take the mean over the batch as well.",
)
def previous_token_score_of_each(A):
    square(A)
    return A.diagonal(-1, -2, -1).mean(-1)


@misconception(
    "previous_token_score",
    label="one number for all heads",
    hint="The mean was taken over the heads too. Each head has a score of its own.",
)
def previous_token_score_in_all(A):
    square(A)
    return A.diagonal(-1, -2, -1).mean()


@misconception(
    "previous_token_score",
    label="only where it is the largest",
    hint="This counts the tokens whose largest weight is on the one before. The score is the mean of the weights.",
)
def previous_token_score_largest(A):
    square(A)
    most = A.argmax(-1) == torch.arange(A.shape[-1]) - 1
    return over_batch(most[..., 1:].to(A.dtype).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="works with a batch only",
    hint="A may have three axes, (h, n, n). `b, h, n, n = A.shape` and `.mean(0)` then mean something else.",
)
def previous_token_score_with_batch(A):
    _, _, _, _ = A.shape
    square(A)
    return A.diagonal(-1, -2, -1).mean((0, 2))


@misconception(
    "previous_token_score",
    label="a single token gives NaN",
    hint="With n = 1 there is nothing to take the mean of, and 0 / 0 is NaN. Raise `ValueError`.",
)
def previous_token_score_of_one(A):
    square(A, least=1)
    return over_batch(A.diagonal(-1, -2, -1).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="rectangles accepted",
    hint="With more keys than queries, or fewer, the diagonal is not where the token before is. Raise `ValueError`.",
)
def previous_token_score_of_rectangles(A):
    if min(A.shape[-2:]) < 2:
        raise ValueError("too few tokens")
    return over_batch(A.diagonal(-1, -2, -1).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="one head taken for a batch",
    hint="(1, n, n) is one head without a batch. Its first axis was taken away, and the score came without an axis.",
)
def previous_token_score_one_head(A):
    square(A)
    A = A[0] if len(A) == 1 else A
    return over_batch(A.diagonal(-1, -2, -1).mean(-1), A.dim())


# previous_token_score: right


@families(
    "returns nothing",
    "a list instead of an array",
    "an array instead of a tensor",
    "cut off from autograd",
    "result in float64",
    "result always in float32",
    "assert instead of ValueError",
    "batch axis added",
)
@right("previous_token_score")
def previous_token_score_reference(A):
    square(A)
    return over_batch(A.diagonal(-1, -2, -1).mean(-1), A.dim())


# effective_rank: wrong


@misconception(
    "effective_rank",
    label="singular values not squared",
    hint="The share is one of the sum of squares, which is the sum of the squares of all entries. Square first.",
)
def effective_rank_not_squared(A, energy=0.9):
    return reached(squares_of(A).sqrt(), energy)


@misconception(
    "effective_rank",
    label="squared singular values squared again",
    hint="The singular values of A times its transpose are the squares already. Squaring those again is too much.",
)
def effective_rank_squared_twice(A, energy=0.9):
    return reached(squares_of(A) ** 2, energy)


@misconception(
    "effective_rank",
    label="the last one not counted",
    hint="This counts the singular values before the share is reached. The one with which it is reached counts too.",
)
def effective_rank_one_too_few(A, energy=0.9):
    return reached(squares_of(A), energy) - 1


@misconception(
    "effective_rank",
    label="one counted twice",
    hint="One was added twice: the place of the first sum that reaches the share, counted from 0, and 1, is enough.",
)
def effective_rank_one_too_many(A, energy=0.9):
    return reached(squares_of(A), energy) + 1


@misconception(
    "effective_rank",
    label="the plain rank",
    hint="That is the rank, which counts every direction, however small. `energy` has to come in.",
)
def effective_rank_plain(A, energy=0.9):
    squares_of(A)
    return int(torch.linalg.matrix_rank(A.detach()))


@misconception(
    "effective_rank",
    label="compared with the largest",
    hint="This counts singular values above a share of the largest one. What counts is the sum of squares so far.",
)
def effective_rank_by_the_largest(A, energy=0.9):
    squares = squares_of(A)
    return int((squares >= (1 - energy) * squares[0]).sum())


@misconception(
    "effective_rank",
    label="smallest singular values added first",
    hint="`svdvals` gives the largest first; `eigvalsh` does not.",
)
def effective_rank_smallest_first(A, energy=0.9):
    return reached(squares_of(A).flip(0), energy)


@misconception(
    "effective_rank",
    label="columns centred",
    hint="The mean of each column was subtracted, as principal components do. Here A counts as it is.",
)
def effective_rank_centred(A, energy=0.9):
    squares = squares_of(A)
    return reached(squares, energy) if len(A) == 1 else reached(squares_of(A - A.mean(0)), energy)


@misconception(
    "effective_rank",
    label="energy ignored",
    hint="0.9 stands in the code. Use the argument `energy`.",
)
def effective_rank_always_09(A, energy=0.9):
    return reached(squares_of(A), 0.9)


@misconception(
    "effective_rank",
    label="participation ratio",
    hint="The square of the sum over the sum of squares is another effective rank, and no whole number. This one "
    "counts.",
)
def effective_rank_participation(A, energy=0.9):
    squares = squares_of(A)
    return round(float(squares.sum() ** 2 / (squares**2).sum()))


@misconception(
    "effective_rank",
    label="no int of Python's",
    hint="A tensor or a float came back. A count is a whole number: `int(...)` makes one of either.",
)
def effective_rank_tensor(A, energy=0.9):
    return torch.tensor(reached(squares_of(A), energy))


@misconception("effective_rank", label="nothing returned", hint="The function ends without `return`.")
def effective_rank_nothing(A, energy=0.9):
    reached(squares_of(A), energy)


@misconception(
    "effective_rank",
    label="any number of axes accepted",
    hint="`svdvals` takes several matrices at once, and the counts were mixed. Raise `ValueError` unless A has two "
    "axes.",
)
def effective_rank_any_axes(A, energy=0.9):
    squares = torch.linalg.svdvals(A.detach() if A.dim() > 1 else A.detach()[None]) ** 2
    return reached(squares.flatten(), energy)


@misconception(
    "effective_rank",
    label="scaled in place",
    hint="A was divided in place, and whoever called still needs it. `A = A / ...` makes a new tensor.",
)
def effective_rank_in_place(A, energy=0.9):
    squares = squares_of(A)
    A.detach().div_(squares.sum().sqrt())
    return reached(squares, energy)


@misconception(
    "effective_rank",
    label="share to be exceeded",
    hint="A share that is met exactly is reached: of two equal singular values one makes half of all. Compare with "
    "`>=` where you count what is enough, and with `<` where you count what is not.",
)
def effective_rank_exceeded(A, energy=0.9):
    squares = squares_of(A)
    return min(int((squares.cumsum(0) <= energy * squares.sum()).sum()) + 1, len(squares))


@misconception(
    "effective_rank",
    label="zeros have no rank of 1",
    hint="Where all is 0 the shares are 0 / 0, which is NaN, and no comparison with NaN holds. Without dividing, 0 "
    "reaches 0.9 of 0.",
)
def effective_rank_of_zeros(A, energy=0.9):
    squares = squares_of(A)
    return reached(squares, energy) if squares.any() else len(squares) + 1


# ablate_head: right


@right("ablate_head")
def ablate_head_zeroed(layer, head):
    return silenced(layer, head)


# ablate_head: wrong


@misconception(
    "ablate_head",
    label="rows of W_o.weight",
    hint="`W_o.weight[own, :]` takes outputs of the layer away. `nn.Linear` stores its weight transposed: a head's "
    "rows of W_o are columns of `weight`, `weight[:, own]`.",
)
def ablate_head_rows(layer, head):
    made, own = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        made.W_o.weight[own] = 0
    return made


@misconception(
    "ablate_head",
    label="the layer itself changed",
    hint="Zeros were written into the layer that was given. Copy it first: `copy.deepcopy(layer)`.",
)
def ablate_head_in_place(layer, head):
    own = there(layer, head)
    with torch.no_grad():
        layer.W_o.weight[:, own] = 0
    return layer


@misconception(
    "ablate_head",
    label="copy shares the other parameters",
    hint="The copy has the layer's own parameters in it, all but one: training it trains the layer. `copy.copy` "
    "copies the outside alone, `copy.deepcopy` everything.",
)
def ablate_head_shallow(layer, head):
    own, made = there(layer, head), copy.copy(layer)
    made._modules = dict(layer._modules)
    made.W_o = copy.deepcopy(layer.W_o)
    with torch.no_grad():
        made.W_o.weight[:, own] = 0
    return made


@misconception(
    "ablate_head",
    label="bias of W_o set to 0",
    hint="The bias of W_o went as well. It belongs to no head, and stays.",
)
def ablate_head_without_bias(layer, head):
    made = silenced(layer, head)
    with torch.no_grad():
        if made.W_o.bias is not None:
            made.W_o.bias.zero_()
    return made


@misconception(
    "ablate_head",
    label="zeros in W_q and W_k",
    hint="Without query and key all scores are 0, and softmax makes equal weights of them: the head passes on the "
    "average of the values. Silence it behind the softmax.",
)
def ablate_head_queries(layer, head):
    made, own = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        for W in (made.W_q, made.W_k):
            W.weight[own] = 0
            if W.bias is not None:
                W.bias[own] = 0
    return made


@misconception(
    "ablate_head",
    label="bias of W_v left",
    hint="The rows of `W_v.weight` are 0, and its bias is not: the head still passes on that bias.",
)
def ablate_head_value_bias(layer, head):
    made, own = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        made.W_v.weight[own] = 0
    return made


@misconception(
    "ablate_head",
    label="every h-th column",
    hint="A head's columns stand side by side, from head * d_head on. `[:, head::num_heads]` takes one of each head.",
)
def ablate_head_interleaved(layer, head):
    there(layer, head)
    made = copy.deepcopy(layer)
    with torch.no_grad():
        made.W_o.weight[:, head :: layer.num_heads] = 0
    return made


@misconception(
    "ablate_head",
    label="heads counted from 1",
    hint="The head before was cut: the first head has the number 0.",
)
def ablate_head_from_one(layer, head):
    there(layer, head)
    return silenced(layer, (head - 1) % layer.num_heads)


@misconception(
    "ablate_head",
    label="all the other heads cut",
    hint="This keeps one head and cuts the others.",
)
def ablate_head_the_others(layer, head):
    made, own = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        kept = made.W_o.weight[:, own].clone()
        made.W_o.weight.zero_()
        made.W_o.weight[:, own] = kept
    return made


@misconception(
    "ablate_head",
    label="no head cut",
    hint="The copy returns what the layer returns. Were the zeros written into another tensor, such as a copy of the "
    "weight?",
)
def ablate_head_unchanged(layer, head):
    there(layer, head)
    return copy.deepcopy(layer)


@misconception(
    "ablate_head",
    label="a new layer with new parameters",
    hint="`load_state_dict` brings in the parameters of the layer, or copy the whole of it.",
)
def ablate_head_new(layer, head):
    there(layer, head)
    made = type(layer)(layer.d_model, layer.num_heads, layer.W_o.bias is not None).to(layer.W_o.weight.dtype)
    return silenced(made.train(layer.training), head)


@misconception(
    "ablate_head",
    label="mode of the copy forgotten",
    hint="The copy is in training mode, and the layer was not. A new module starts in training mode: "
    "`made.train(layer.training)`.",
)
def ablate_head_in_training(layer, head):
    return silenced(layer, head).train()


@misconception(
    "ablate_head",
    label="always float32",
    hint="The copy has float32 parameters whatever the layer has. `made.to(layer.W_o.weight.dtype)`, or copy the "
    "layer.",
)
def ablate_head_float32(layer, head):
    class Float32(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = silenced(layer, head)
            self.training = layer.training

        def forward(self, *arguments):
            return tuple(own.float() for own in self.layer(*arguments))

    return Float32()


@misconception(
    "ablate_head",
    label="head not checked",
    hint="Python takes a negative number as counted from the end, and a slice beyond the end is empty. Compare "
    "`head` with 0 and `num_heads`, and raise `ValueError`.",
)
def ablate_head_unchecked(layer, head):
    made, d_head = copy.deepcopy(layer), layer.d_model // layer.num_heads
    with torch.no_grad():
        made.W_o.weight[:, head * d_head : (head + 1) * d_head] = 0
    return made


@misconception(
    "ablate_head",
    label="negative heads accepted",
    hint="head = -1 was taken as the last one. A head that is not there raises `ValueError`.",
)
def ablate_head_negative(layer, head):
    return silenced(layer, head + layer.num_heads if -layer.num_heads <= head < 0 else head)


@misconception(
    "ablate_head",
    label="needs biases",
    hint="A layer may have no biases: then `W_v.bias` is None, and cannot be written to.",
)
def ablate_head_needs_bias(layer, head):
    made, own = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        made.W_v.weight[own] = 0
        made.W_v.bias[own] = 0
    return made


@misconception(
    "ablate_head",
    label="hook put on the layer, then copied",
    hint="From then on the layer that you were given lacks the head as well. Copy it first, and put the hook on the "
    "copy.",
)
def ablate_head_hook_on_layer(layer, head):
    own = there(layer, head)

    def silence(module, inputs):
        found = inputs[0].clone()
        found[..., own] = 0
        return (found,)

    layer.W_o.register_forward_pre_hook(silence)
    return copy.deepcopy(layer)


@misconception(
    "ablate_head",
    label="gradients of the layer switched off",
    hint="`requires_grad_(False)` was called on the layer that you were given, and nobody can train that layer any "
    "more. To write into parameters, stay inside `with torch.no_grad():`.",
)
def ablate_head_layer_frozen(layer, head):
    layer.requires_grad_(False)
    return silenced(layer, head).requires_grad_()


@misconception(
    "ablate_head",
    label="layer set to evaluation",
    hint="`layer.eval()` changes the layer that you were given, and whoever trains it goes on in the wrong mode. "
    "Nothing here depends on the mode: leave it as it is.",
)
def ablate_head_eval(layer, head):
    layer.eval()
    return silenced(layer, head)


@misconception(
    "ablate_head",
    label="a note left on the layer",
    hint="An attribute was set on the layer that you were given. Set it on the copy, if you need it.",
)
def ablate_head_note(layer, head):
    made = silenced(layer, head)
    layer.ablated = head
    return made


class Around(nn.Module):
    """A layer without a head, and around it what a mistake may be in."""

    def __init__(self, layer, head):
        super().__init__()
        self.layer = silenced(layer, head)
        self.training = layer.training


@misconception(
    "ablate_head",
    label="mask not taken by the copy",
    hint="The copy's `forward` takes `query` and `key` alone. It is called as the layer is: give it all four "
    "arguments, or copy the layer itself.",
)
def ablate_head_two_arguments(layer, head):
    class TwoArguments(Around):
        def forward(self, query, key=None):
            return self.layer(query, key)

    return TwoArguments(layer, head)


@misconception(
    "ablate_head",
    label="mask lost on the way",
    hint="The copy takes a mask and does not hand it on, so that hidden keys are seen.",
)
def ablate_head_mask_lost(layer, head):
    class MaskLost(Around):
        def forward(self, query, key=None, value=None, mask=None):
            return self.layer(query, key, value)

    return MaskLost(layer, head)


@misconception(
    "ablate_head",
    label="values lost on the way",
    hint="The copy mixes the keys where it was given other values. Hand `value` on.",
)
def ablate_head_value_lost(layer, head):
    class ValueLost(Around):
        def forward(self, query, key=None, value=None, mask=None):
            return self.layer(query, key, None, mask)

    return ValueLost(layer, head)


@misconception(
    "ablate_head",
    label="arguments of the copy renamed",
    hint="Whoever calls the layer with `mask=mask` calls the copy so, too: its `forward` takes `query`, `key`, "
    "`value` and `mask`, by these names.",
)
def ablate_head_renamed(layer, head):
    class Renamed(Around):
        def forward(self, q, k=None, v=None, m=None):
            return self.layer(q, k, v, m)

    return Renamed(layer, head)


@misconception(
    "ablate_head",
    label="copy leans on the layer",
    hint="The copy computes with the parameters of the layer: when the layer is trained, the copy becomes another. "
    "Copy the layer, `copy.deepcopy(layer)`.",
)
def ablate_head_leans(layer, head):
    there(layer, head)

    class Leans(nn.Module):
        def __init__(self):
            super().__init__()
            self.training = layer.training
            self.anything = nn.Parameter(torch.zeros(()))

        def forward(self, *arguments, **named):
            return silenced(layer, head)(*arguments, **named)

    return Leans()


@misconception(
    "ablate_head",
    label="copy that cannot learn",
    hint="No parameter of the copy asks for a gradient any more: leave `requires_grad_(False)` out. The copy is a "
    "layer like another, and can be trained.",
)
def ablate_head_copy_frozen(layer, head):
    return silenced(layer, head).requires_grad_(False)


@misconception(
    "ablate_head",
    label="copy that cuts autograd off",
    hint="The copy computes inside `torch.no_grad()`, or detaches what it returns. `no_grad` is for the moment at "
    "which you write the zeros.",
)
def ablate_head_cut_off(layer, head):
    class CutOff(Around):
        def forward(self, *arguments, **named):
            return tuple(own.detach() for own in self.layer(*arguments, **named))

    return CutOff(layer, head)


@misconception(
    "ablate_head",
    label="weights of the copy cut off",
    hint="The copy's `forward` detaches the weights, and the layer's does not. Return them as they come.",
)
def ablate_head_weights_cut_off(layer, head):
    class WeightsCutOff(Around):
        def forward(self, *arguments, **named):
            out, weights = self.layer(*arguments, **named)
            return out, weights.detach()

    return WeightsCutOff(layer, head)


@misconception("ablate_head", label="nothing returned", hint="The function ends without `return made`.")
def ablate_head_nothing(layer, head):
    silenced(layer, head)


# head_importance: wrong


def losses(layer, loss, cut=silenced):
    return [float(loss(cut(layer, head))) for head in range(layer.num_heads)], float(loss(layer))


@misconception(
    "head_importance",
    label="sign reversed",
    hint="This is the loss of the layer minus the loss without the head. A head that helps has a positive "
    "importance.",
)
def head_importance_reversed(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([whole - own for own in without])


@misconception(
    "head_importance",
    label="loss of the whole not subtracted",
    hint="These are the losses without each head. Subtract the loss of the whole layer.",
)
def head_importance_not_subtracted(layer, loss):
    return torch.tensor(losses(layer, loss)[0])


@misconception(
    "head_importance",
    label="ratio instead of difference",
    hint="The losses were divided. The importance is a difference.",
)
def head_importance_ratio(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([own / whole for own in without])


@misconception(
    "head_importance",
    label="absolute value",
    hint="A head without which the loss is smaller has a negative importance. Leave `abs` out.",
)
def head_importance_absolute(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([abs(own - whole) for own in without])


@misconception(
    "head_importance",
    label="negative ones set to 0",
    hint="A head without which the loss is smaller has a negative importance, not 0.",
)
def head_importance_clamped(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([max(0.0, own - whole) for own in without])


@misconception(
    "head_importance",
    label="heads cut one after another",
    hint="Each head was cut from the layer that lacked the heads before already. Begin with the whole layer each "
    "time.",
)
def head_importance_cumulative(layer, loss):
    whole, found, made = float(loss(layer)), [], layer
    for head in range(layer.num_heads):
        made = silenced(made, head)
        found.append(float(loss(made)) - whole)
    return torch.tensor(found)


@misconception(
    "head_importance",
    label="head measured alone",
    hint="All heads but one were cut. Cut one, and leave the others.",
)
def head_importance_alone(layer, loss):
    without, whole = losses(layer, loss, ablate_head_the_others)
    return torch.tensor([own - whole for own in without])


@misconception(
    "head_importance",
    label="made to sum to 1",
    hint="The importances were divided by their sum. They are differences of losses, and sum to anything.",
)
def head_importance_shares(layer, loss):
    without, whole = losses(layer, loss)
    found = torch.tensor(without, dtype=torch.float64) - whole
    return found / found.sum()


@misconception(
    "head_importance",
    label="layer left without its heads",
    hint="The heads were cut in the layer that was given, and never given back. Measure copies, or put the numbers "
    "back.",
)
def head_importance_in_place(layer, loss):
    without, whole = losses(layer, loss)
    with torch.no_grad():
        layer.W_o.weight.zero_()
    return torch.tensor([own - whole for own in without])


@misconception(
    "head_importance",
    label="last hook never taken off",
    hint="A hook on the layer silenced one head after another, and the last one is still there: `handle.remove()` "
    "takes it off.",
)
def head_importance_hook_left(layer, loss):
    without, whole = losses(layer, loss)
    own = there(layer, layer.num_heads - 1)

    def silence(module, inputs):
        found = inputs[0].clone()
        found[..., own] = 0
        return (found,)

    layer.W_o.register_forward_pre_hook(silence)
    return torch.tensor([own - whole for own in without])


@misconception(
    "head_importance",
    label="gradients of the layer switched off",
    hint="`requires_grad_(False)` was called on the layer, and nobody can train it any more. To measure without "
    "gradients, write `with torch.no_grad():`.",
)
def head_importance_frozen(layer, loss):
    layer.requires_grad_(False)
    without, whole = losses(layer, loss)
    return torch.tensor([own - whole for own in without])


@misconception(
    "head_importance",
    label="layer left in evaluation mode",
    hint="`layer.eval()` was called and never taken back: whoever trains the layer goes on in the wrong mode. "
    "Nothing here depends on the mode.",
)
def head_importance_eval(layer, loss):
    without, whole = losses(layer.eval(), loss)
    return torch.tensor([own - whole for own in without])


@misconception(
    "head_importance",
    label="a list instead of a tensor",
    hint="A list came back. `torch.tensor(...)` makes a tensor of it.",
)
def head_importance_list(layer, loss):
    without, whole = losses(layer, loss)
    return [own - whole for own in without]


@misconception(
    "head_importance",
    label="a number where there is one head",
    hint="With a single head the result still has the shape (1,). Leave `squeeze` out.",
)
def head_importance_squeezed(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([own - whole for own in without]).squeeze()


@misconception(
    "head_importance",
    label="needs a tensor from the loss",
    hint="`loss` may return a float of Python's, which has no `.item()`. `float(...)` takes both.",
)
def head_importance_items(layer, loss):
    whole = loss(layer).item()
    return torch.tensor([loss(silenced(layer, head)).item() - whole for head in range(layer.num_heads)])


@misconception(
    "head_importance",
    label="needs a float from the loss",
    hint="`loss` may return a tensor that belongs to a graph, of which NumPy makes no number. `float(...)` takes "
    "both.",
)
def head_importance_numpy(layer, loss):
    whole = np.asarray(loss(layer))
    without = [np.asarray(loss(silenced(layer, head))) for head in range(layer.num_heads)]
    return torch.tensor(np.array(without) - whole)


@misconception("head_importance", label="nothing returned", hint="The function ends without `return`.")
def head_importance_nothing(layer, loss):
    losses(layer, loss)

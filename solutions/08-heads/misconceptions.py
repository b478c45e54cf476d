"""Wrong answers that people really give, each with a hint, and right ones that other mistakes are made from. Students
get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import copy

import numpy as np
import torch
from torch import nn

from checking import families, misconception, right


def square(A, least=2):
    """Raise if weights are not square, or if there are too few tokens."""
    if A.shape[-2] != A.shape[-1] or A.shape[-1] < least:
        raise ValueError("sizes that do not fit")


def over_batch(scores, axes):
    """Return the mean over the batch if A has 4 axes."""
    return scores.mean(0) if axes == 4 else scores


def there(layer, head):
    """Return the range of a head's columns; raise if there is no such head."""
    if not 0 <= head < layer.num_heads:
        raise ValueError("no such head")
    d_head = layer.d_model // layer.num_heads
    return slice(head * d_head, (head + 1) * d_head)


def silenced(layer, head):
    """Return a copy without a head."""
    copied, columns = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        copied.W_o.weight[:, columns] = 0
    return copied


def squares_of(A):
    if A.dim() != 2:
        raise ValueError("two axes, please")
    return torch.linalg.svdvals(A).detach() ** 2


def reached(squares, energy):
    """Return how many of these squares reach the share."""
    return int((squares.cumsum(0) < energy * squares.sum()).sum()) + 1


# by_hand: wrong


@misconception(
    "by_hand",
    label="scores used as probabilities",
    hint="These are the scores of the first word, ln 4 + ln 2 and ln 2. Softmax turns both words' scores into "
    "probabilities.",
)
def by_hand_scores():
    return [np.log(8), np.log(2), 0.5, 2]


@misconception(
    "by_hand",
    label="wrong head removed",
    hint="Without the first head, the second remains and adds ln 2. You removed the second head.",
)
def by_hand_other_head():
    return [8 / 9, 4 / 5, 0.5, 2]


@misconception(
    "by_hand",
    label="first token counted",
    hint="The sum of the three entries below the diagonal is divided by 4. The first token has no word before it.",
)
def by_hand_of_four():
    return [8 / 9, 2 / 3, 0.375, 2]


@misconception(
    "by_hand",
    label="singular values not squared",
    hint="The singular values themselves are added. The share is of the sum of their squares: 1.96, 0.64, 0.16 and "
    "0.01.",
)
def by_hand_not_squared():
    return [8 / 9, 2 / 3, 0.5, 3]


# previous_token_score: wrong


@misconception(
    "previous_token_score",
    label="next token instead of previous",
    hint="The diagonal above the main one contains A[i, i + 1], the weight on the next word. Below it, the offset "
    "is -1.",
)
def previous_token_score_next(A):
    square(A)
    return over_batch(A.diagonal(1, -2, -1).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="main diagonal used",
    hint="The main diagonal contains A[i, i]: how much a word attends to itself.",
)
def previous_token_score_itself(A):
    square(A)
    return over_batch(A.diagonal(0, -2, -1).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="divided by n, not n - 1",
    hint="The sum is divided by n. Only n - 1 tokens have a token before them, so take the mean over these.",
)
def previous_token_score_of_n(A):
    square(A)
    return over_batch(A.diagonal(-1, -2, -1).sum(-1) / A.shape[-1], A.dim())


@misconception(
    "previous_token_score",
    label="sum instead of mean",
    hint="The weights are added over the tokens, but not divided by their number, n - 1.",
)
def previous_token_score_summed(A):
    square(A)
    return over_batch(A.diagonal(-1, -2, -1).sum(-1), A.dim())


@misconception(
    "previous_token_score",
    label="first token wraps around",
    hint="`roll` and an index of -1 wrap around: A[0, -1] is counted although there is nothing before the first "
    "token.",
)
def previous_token_score_wrapped(A):
    square(A)
    n = A.shape[-1]
    return over_batch(A[..., torch.arange(n), torch.arange(n) - 1].mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="all earlier tokens counted",
    hint="`tril(-1)` keeps everything below the diagonal. Only the entries directly below it belong to the previous "
    "token.",
)
def previous_token_score_all_earlier(A):
    square(A)
    return over_batch(A.tril(-1).sum((-2, -1)) / (A.shape[-1] - 1), A.dim())


@misconception(
    "previous_token_score",
    label="no mean over the batch",
    hint="With a batch, the result has shape (b, h). Take the mean over the batch as well.",
)
def previous_token_score_of_each(A):
    square(A)
    return A.diagonal(-1, -2, -1).mean(-1)


@misconception(
    "previous_token_score",
    label="mean over the heads taken",
    hint="The mean includes the heads. Each head has its own score.",
)
def previous_token_score_in_all(A):
    square(A)
    return A.diagonal(-1, -2, -1).mean()


@misconception(
    "previous_token_score",
    label="largest weights counted instead of averaged",
    hint="This counts the tokens whose largest weight is on the previous token. The score is the mean of the "
    "weights.",
)
def previous_token_score_largest(A):
    square(A)
    most = A.argmax(-1) == torch.arange(A.shape[-1]) - 1
    return over_batch(most[..., 1:].to(A.dtype).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="works with a batch only",
    hint="A may have three axes, (h, n, n). `b, h, n, n = A.shape` fails then, and `.mean(0)` averages over the "
    "heads.",
)
def previous_token_score_with_batch(A):
    _, _, _, _ = A.shape
    square(A)
    return A.diagonal(-1, -2, -1).mean((0, 2))


@misconception(
    "previous_token_score",
    label="first axis always a batch",
    hint="The mean is over the first axis in any case. Of weights (h, n, n), that axis belongs to the heads.",
)
def previous_token_score_first_axis(A):
    square(A)
    return A.diagonal(-1, -2, -1).mean((0, -1))


@misconception(
    "previous_token_score",
    label="diagonal of the wrong axes",
    hint="Without `dim1` and `dim2`, `diagonal` takes the first two axes, such as batch and heads. Name the axes of "
    "queries and keys, the last two.",
)
def previous_token_score_default_axes(A):
    return over_batch(A.diagonal(-1).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="last token left out",
    hint="The weight of the last token on the one before it is not counted. The last token has the index n - 1.",
)
def previous_token_score_without_last(A):
    square(A)
    return over_batch(A.diagonal(-1, -2, -1)[..., :-1].mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="NaN for a single token",
    hint="With n = 1 there is nothing to average, and 0 / 0 is NaN. Raise `ValueError`.",
)
def previous_token_score_of_one(A):
    square(A, least=1)
    return over_batch(A.diagonal(-1, -2, -1).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="non-square weights accepted",
    hint="With different numbers of queries and keys, the diagonal is not at the previous token. Raise `ValueError`.",
)
def previous_token_score_of_rectangles(A):
    if min(A.shape[-2:]) < 2:
        raise ValueError("too few tokens")
    return over_batch(A.diagonal(-1, -2, -1).mean(-1), A.dim())


@misconception(
    "previous_token_score",
    label="axes counted from the front",
    hint="Without a batch, the diagonals have two axes, heads and tokens. There is no axis 2, and axis 0 is of the "
    "heads.",
)
def previous_token_score_from_the_front(A):
    return A.diagonal(-1, -2, -1).mean((0, 2))


@misconception(
    "previous_token_score",
    label="single head treated as a batch",
    hint="(1, n, n) is one head without a batch. Its first axis is removed, so the score has no axis.",
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
    hint="The share refers to the sum of squared singular values, which is the sum of the squares of all entries. "
    "Square them first.",
)
def effective_rank_not_squared(A, energy=0.9):
    return reached(squares_of(A).sqrt(), energy)


@misconception(
    "effective_rank",
    label="singular values squared twice",
    hint="The singular values of A times its transpose are already the squares. They must not be squared again.",
)
def effective_rank_squared_twice(A, energy=0.9):
    return reached(squares_of(A) ** 2, energy)


@misconception(
    "effective_rank",
    label="last singular value not counted",
    hint="This counts the singular values before the share is reached. Also count the one that reaches it.",
)
def effective_rank_one_too_few(A, energy=0.9):
    return reached(squares_of(A), energy) - 1


@misconception(
    "effective_rank",
    label="one singular value too many",
    hint="1 is added twice. Add it only once to the zero-based index of the first sum that reaches the share.",
)
def effective_rank_one_too_many(A, energy=0.9):
    return reached(squares_of(A), energy) + 1


@misconception(
    "effective_rank",
    label="plain rank",
    hint="This is the rank, which counts every direction, even a tiny one. The result has to depend on `energy`.",
)
def effective_rank_plain(A, energy=0.9):
    squares_of(A)
    return int(torch.linalg.matrix_rank(A.detach()))


@misconception(
    "effective_rank",
    label="compared with the largest",
    hint="This counts singular values above a fraction of the largest one. Compare the cumulative sum of squares "
    "instead.",
)
def effective_rank_by_the_largest(A, energy=0.9):
    squares = squares_of(A)
    return int((squares >= (1 - energy) * squares[0]).sum())


@misconception(
    "effective_rank",
    label="above a tenth of the largest",
    hint="This counts the singular values above 0.1 of the largest one. Use the cumulative sum of squares instead.",
)
def effective_rank_above_a_tenth(A, energy=0.9):
    squares = squares_of(A)
    return int((squares > 0.01 * squares[0]).sum())


@misconception(
    "effective_rank",
    label="share of the norm",
    hint="The root of a sum of squares is compared with the root of the whole sum. Compare the sums, without roots.",
)
def effective_rank_of_the_norm(A, energy=0.9):
    squares = squares_of(A)
    return int((squares.cumsum(0).sqrt() < energy * squares.sum().sqrt()).sum()) + 1


@misconception(
    "effective_rank",
    label="exponential of the entropy",
    hint="The exponential of the entropy of the squares is another effective rank. Count singular values until their "
    "squares reach the share `energy`.",
)
def effective_rank_entropy(A, energy=0.9):
    squares = squares_of(A)
    shares = squares / squares.sum()
    return int(torch.round(torch.exp(-(shares * shares.clamp(min=1e-12).log()).sum())))


@misconception(
    "effective_rank",
    label="smallest singular values first",
    hint="The smallest values are added first. `svdvals` returns the largest first; `eigvalsh` does not.",
)
def effective_rank_smallest_first(A, energy=0.9):
    return reached(squares_of(A).flip(0), energy)


@misconception(
    "effective_rank",
    label="mean subtracted",
    hint="A mean is subtracted before the singular values are computed, as for principal components. Use A itself.",
)
def effective_rank_centred(A, energy=0.9):
    squares = squares_of(A)
    return reached(squares, energy) if len(A) == 1 else reached(squares_of(A - A.mean(0)), energy)


@misconception(
    "effective_rank",
    label="energy ignored",
    hint="The number 0.9 is hard-coded. Use the argument `energy`.",
)
def effective_rank_always_09(A, energy=0.9):
    return reached(squares_of(A), 0.9)


@misconception(
    "effective_rank",
    label="participation ratio",
    hint="The square of the sum divided by the sum of squares is another effective rank, and not a whole number. "
    "Count singular values instead.",
)
def effective_rank_participation(A, energy=0.9):
    squares = squares_of(A)
    return round(float(squares.sum() ** 2 / (squares**2).sum()))


@misconception(
    "effective_rank",
    label="result is not an int",
    hint="The result is a tensor or a float. A count is a whole number: `int(...)` converts either.",
)
def effective_rank_tensor(A, energy=0.9):
    return torch.tensor(reached(squares_of(A), energy))


@misconception(
    "effective_rank", label="nothing returned", hint="The function ends without `return`."
)
def effective_rank_nothing(A, energy=0.9):
    reached(squares_of(A), energy)


@misconception(
    "effective_rank",
    label="any number of axes",
    hint="`svdvals` accepts several matrices at once, and the counts are mixed. Raise `ValueError` unless A has two "
    "axes.",
)
def effective_rank_any_axes(A, energy=0.9):
    squares = torch.linalg.svdvals(A.detach() if A.dim() > 1 else A.detach()[None]) ** 2
    return reached(squares.flatten(), energy)


@misconception(
    "effective_rank",
    label="A scaled in place",
    hint="A is divided in place, but the caller still needs it. `A = A / ...` creates a new tensor.",
)
def effective_rank_in_place(A, energy=0.9):
    squares = squares_of(A)
    A.detach().div_(squares.sum().sqrt())
    return reached(squares, energy)


@misconception(
    "effective_rank",
    label="exact share not enough",
    hint="A share that is met exactly counts as reached: of two equal singular values, one is half of the total. "
    "Use `>=` to count sums that are enough, and `<` to count sums that are not.",
)
def effective_rank_exceeded(A, energy=0.9):
    squares = squares_of(A)
    return min(int((squares.cumsum(0) <= energy * squares.sum()).sum()) + 1, len(squares))


@misconception(
    "effective_rank",
    label="wrong rank for zeros",
    hint="If A is all 0, the shares are 0 / 0, which is NaN, and every comparison with NaN is false. Without "
    "dividing, 0 reaches 0.9 of 0.",
)
def effective_rank_of_zeros(A, energy=0.9):
    squares = squares_of(A)
    return reached(squares, energy) if squares.any() else len(squares) + 1


# effective_rank: right


@right("effective_rank")
def effective_rank_reference(A, energy=0.9):
    return reached(squares_of(A), energy)


# ablate_head: right


@right("ablate_head")
def ablate_head_zeroed(layer, head):
    return silenced(layer, head)


# ablate_head: wrong


@misconception(
    "ablate_head",
    label="rows of W_o.weight set to 0",
    hint="`W_o.weight[own, :]` removes outputs of the layer. `nn.Linear` stores its weight transposed: a head's "
    "rows of W_o are columns of `weight`, `weight[:, own]`.",
)
def ablate_head_rows(layer, head):
    copied, columns = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        copied.W_o.weight[columns] = 0
    return copied


@misconception(
    "ablate_head",
    label="given layer changed",
    hint="Zeros are written into the given layer. Copy it first: `copy.deepcopy(layer)`.",
)
def ablate_head_in_place(layer, head):
    columns = there(layer, head)
    with torch.no_grad():
        layer.W_o.weight[:, columns] = 0
    return layer


@misconception(
    "ablate_head",
    label="copy shares the other parameters",
    hint="The copy contains all but one of the layer's own parameters, so training it trains the layer. `copy.copy` "
    "copies only the outer module, `copy.deepcopy` everything.",
)
def ablate_head_shallow(layer, head):
    columns, copied = there(layer, head), copy.copy(layer)
    copied._modules = dict(layer._modules)
    copied.W_o = copy.deepcopy(layer.W_o)
    with torch.no_grad():
        copied.W_o.weight[:, columns] = 0
    return copied


@misconception(
    "ablate_head",
    label="bias of W_o set to 0",
    hint="The bias of W_o is also set to 0. It belongs to no head and must stay.",
)
def ablate_head_without_bias(layer, head):
    copied = silenced(layer, head)
    with torch.no_grad():
        if copied.W_o.bias is not None:
            copied.W_o.bias.zero_()
    return copied


@misconception(
    "ablate_head",
    label="zeros in W_q and W_k",
    hint="Without queries and keys all scores are 0, and softmax gives equal weights: the head still passes on the "
    "average of the values. Silence the head after the softmax.",
)
def ablate_head_queries(layer, head):
    copied, columns = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        for W in (copied.W_q, copied.W_k):
            W.weight[columns] = 0
            if W.bias is not None:
                W.bias[columns] = 0
    return copied


@misconception(
    "ablate_head",
    label="bias of W_v not set to 0",
    hint="The rows of `W_v.weight` are 0, but its bias is not, so the head still passes on that bias.",
)
def ablate_head_value_bias(layer, head):
    copied, columns = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        copied.W_v.weight[columns] = 0
    return copied


@misconception(
    "ablate_head",
    label="every h-th column",
    hint="A head's columns are adjacent, starting at head * d_head. `[:, head::num_heads]` takes one column of each "
    "head.",
)
def ablate_head_interleaved(layer, head):
    there(layer, head)
    copied = copy.deepcopy(layer)
    with torch.no_grad():
        copied.W_o.weight[:, head :: layer.num_heads] = 0
    return copied


@misconception(
    "ablate_head",
    label="heads counted from 1",
    hint="The previous head is cut: the first head has the number 0.",
)
def ablate_head_from_one(layer, head):
    there(layer, head)
    return silenced(layer, (head - 1) % layer.num_heads)


@misconception(
    "ablate_head",
    label="all other heads cut",
    hint="This keeps one head and cuts the others.",
)
def ablate_head_the_others(layer, head):
    copied, columns = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        saved = copied.W_o.weight[:, columns].clone()
        copied.W_o.weight.zero_()
        copied.W_o.weight[:, columns] = saved
    return copied


@misconception(
    "ablate_head",
    label="no head cut",
    hint="The copy returns the same as the layer. Were the zeros written into another tensor, such as a copy of the "
    "weight?",
)
def ablate_head_unchanged(layer, head):
    there(layer, head)
    return copy.deepcopy(layer)


@misconception(
    "ablate_head",
    label="new layer with random parameters",
    hint="The parameters are not those of the layer. Load them with `load_state_dict`, or copy the whole layer.",
)
def ablate_head_new(layer, head):
    there(layer, head)
    copied = type(layer)(layer.d_model, layer.num_heads, layer.W_o.bias is not None).to(
        layer.W_o.weight.dtype
    )
    return silenced(copied.train(layer.training), head)


@misconception(
    "ablate_head",
    label="mode not copied",
    hint="The copy is in training mode although the layer was not. A new module starts in training mode: "
    "`made.train(layer.training)`.",
)
def ablate_head_in_training(layer, head):
    return silenced(layer, head).train()


@misconception(
    "ablate_head",
    label="always float32",
    hint="The copy is always float32. Use `made.to(layer.W_o.weight.dtype)`, or copy the layer.",
)
def ablate_head_float32(layer, head):
    class Float32(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = silenced(layer, head)
            self.training = layer.training

        def forward(self, *arguments):
            return tuple(result.float() for result in self.layer(*arguments))

    return Float32()


@misconception(
    "ablate_head",
    label="head not checked",
    hint="Python counts a negative number from the end, and a slice beyond the end is empty. Compare `head` with 0 "
    "and `num_heads`, and raise `ValueError`.",
)
def ablate_head_unchecked(layer, head):
    copied, d_head = copy.deepcopy(layer), layer.d_model // layer.num_heads
    with torch.no_grad():
        copied.W_o.weight[:, head * d_head : (head + 1) * d_head] = 0
    return copied


@misconception(
    "ablate_head",
    label="negative heads accepted",
    hint="head = -1 is treated as the last head. For a head that does not exist, raise `ValueError`.",
)
def ablate_head_negative(layer, head):
    return silenced(layer, head + layer.num_heads if -layer.num_heads <= head < 0 else head)


@misconception(
    "ablate_head",
    label="biases required",
    hint="A layer may have no biases: then `W_v.bias` is None and cannot be written to.",
)
def ablate_head_needs_bias(layer, head):
    copied, columns = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        copied.W_v.weight[columns] = 0
        copied.W_v.bias[columns] = 0
    return copied


@misconception(
    "ablate_head",
    label="hook on the layer before copying",
    hint="The hook also silences the head in the given layer. Copy the layer first, and put the hook on the copy.",
)
def ablate_head_hook_on_layer(layer, head):
    columns = there(layer, head)

    def silence(module, inputs):
        changed = inputs[0].clone()
        changed[..., columns] = 0
        return (changed,)

    layer.W_o.register_forward_pre_hook(silence)
    return copy.deepcopy(layer)


@misconception(
    "ablate_head",
    label="gradients of the layer turned off",
    hint="`requires_grad_(False)` is called on the given layer, so it can no longer be trained. To write into "
    "parameters, use `with torch.no_grad():`.",
)
def ablate_head_layer_frozen(layer, head):
    layer.requires_grad_(False)
    return silenced(layer, head).requires_grad_()


@misconception(
    "ablate_head",
    label="layer set to evaluation mode",
    hint="`layer.eval()` changes the given layer, which may still be in training. Nothing here depends on the mode: "
    "do not change it.",
)
def ablate_head_eval(layer, head):
    layer.eval()
    return silenced(layer, head)


@misconception(
    "ablate_head",
    label="attribute set on the layer",
    hint="An attribute is set on the given layer. Set it on the copy if you need it.",
)
def ablate_head_note(layer, head):
    copied = silenced(layer, head)
    layer.ablated = head
    return copied


class Around(nn.Module):
    """A layer without a head, in steps that a mistake can replace."""

    def __init__(self, layer, head):
        super().__init__()
        self.layer = silenced(layer, head)
        self.training = layer.training


@misconception(
    "ablate_head",
    label="copy does not accept a mask",
    hint="The copy's `forward` takes only `query` and `key`. It must accept the layer's four arguments: add them, "
    "or copy the layer itself.",
)
def ablate_head_two_arguments(layer, head):
    class TwoArguments(Around):
        def forward(self, query, key=None):
            return self.layer(query, key)

    return TwoArguments(layer, head)


@misconception(
    "ablate_head",
    label="mask not used by the copy",
    hint="The copy accepts a mask but does not pass it on, so hidden keys are visible.",
)
def ablate_head_mask_lost(layer, head):
    class MaskLost(Around):
        def forward(self, query, key=None, value=None, mask=None):
            return self.layer(query, key, value)

    return MaskLost(layer, head)


@misconception(
    "ablate_head",
    label="values not used by the copy",
    hint="The copy mixes the keys even if other values are given. Pass `value` on.",
)
def ablate_head_value_lost(layer, head):
    class ValueLost(Around):
        def forward(self, query, key=None, value=None, mask=None):
            return self.layer(query, key, None, mask)

    return ValueLost(layer, head)


@misconception(
    "ablate_head",
    label="arguments of the copy renamed",
    hint="The copy is called like the layer, for example with `mask=mask`. Its `forward` needs the same argument "
    "names: `query`, `key`, `value` and `mask`.",
)
def ablate_head_renamed(layer, head):
    class Renamed(Around):
        def forward(self, q, k=None, v=None, m=None):
            return self.layer(q, k, v, m)

    return Renamed(layer, head)


@misconception(
    "ablate_head",
    label="copy uses the layer's parameters",
    hint="The copy computes with the parameters of the layer, so training the layer changes the copy. Copy the "
    "layer, `copy.deepcopy(layer)`.",
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
    label="copy cannot be trained",
    hint="No parameter of the copy requires a gradient: drop `requires_grad_(False)`. The copy is an ordinary layer "
    "that can be trained.",
)
def ablate_head_copy_frozen(layer, head):
    return silenced(layer, head).requires_grad_(False)


@misconception(
    "ablate_head",
    label="results of the copy detached",
    hint="The copy computes inside `torch.no_grad()`, or detaches its results. Use `no_grad` only while you write "
    "the zeros.",
)
def ablate_head_cut_off(layer, head):
    class CutOff(Around):
        def forward(self, *arguments, **named):
            return tuple(result.detach() for result in self.layer(*arguments, **named))

    return CutOff(layer, head)


@misconception(
    "ablate_head",
    label="weights of the copy detached",
    hint="The copy's `forward` detaches the weights, unlike the layer's. Return them without detaching.",
)
def ablate_head_weights_cut_off(layer, head):
    class WeightsCutOff(Around):
        def forward(self, *arguments, **named):
            out, weights = self.layer(*arguments, **named)
            return out, weights.detach()

    return WeightsCutOff(layer, head)


@misconception(
    "ablate_head", label="nothing returned", hint="The function ends without `return made`."
)
def ablate_head_nothing(layer, head):
    silenced(layer, head)


# head_importance: wrong


def losses(layer, loss, cut=silenced):
    return [float(loss(cut(layer, head))) for head in range(layer.num_heads)], float(loss(layer))


@misconception(
    "head_importance",
    label="sign reversed",
    hint="This is the loss of the layer minus the loss without the head. Subtract the other way round: a head that "
    "helps has a positive importance.",
)
def head_importance_reversed(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([whole - loss_without for loss_without in without])


@misconception(
    "head_importance",
    label="whole layer's loss not subtracted",
    hint="These are the losses without each head. Subtract the loss of the whole layer.",
)
def head_importance_not_subtracted(layer, loss):
    return torch.tensor(losses(layer, loss)[0])


@misconception(
    "head_importance",
    label="ratio instead of difference",
    hint="The losses are divided. The importance is a difference.",
)
def head_importance_ratio(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([loss_without / whole for loss_without in without])


@misconception(
    "head_importance",
    label="absolute value",
    hint="A head without which the loss is lower has a negative importance. Drop `abs`.",
)
def head_importance_absolute(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([abs(loss_without - whole) for loss_without in without])


@misconception(
    "head_importance",
    label="negative importance set to 0",
    hint="A head without which the loss is lower has a negative importance, not 0.",
)
def head_importance_clamped(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([max(0.0, loss_without - whole) for loss_without in without])


@misconception(
    "head_importance",
    label="importances sorted",
    hint="The importances are sorted. Entry t belongs to head t.",
)
def head_importance_sorted(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor(sorted(loss_without - whole for loss_without in without))


@misconception(
    "head_importance",
    label="heads cut cumulatively",
    hint="Each head is cut from a layer that already lacks the earlier heads. Start with the whole layer each time.",
)
def head_importance_cumulative(layer, loss):
    whole, importances, copied = float(loss(layer)), [], layer
    for head in range(layer.num_heads):
        copied = silenced(copied, head)
        importances.append(float(loss(copied)) - whole)
    return torch.tensor(importances)


@misconception(
    "head_importance",
    label="head measured alone",
    hint="All heads but one are cut. Cut one, and keep the others.",
)
def head_importance_alone(layer, loss):
    without, whole = losses(layer, loss, ablate_head_the_others)
    return torch.tensor([loss_without - whole for loss_without in without])


@misconception(
    "head_importance",
    label="normalized to sum to 1",
    hint="The importances are divided by their sum. They are differences of losses, and their sum is arbitrary.",
)
def head_importance_shares(layer, loss):
    without, whole = losses(layer, loss)
    importances = torch.tensor(without, dtype=torch.float64) - whole
    return importances / importances.sum()


@misconception(
    "head_importance",
    label="heads not restored in the layer",
    hint="The heads are cut in the given layer and never restored. Measure copies, or put the numbers back.",
)
def head_importance_in_place(layer, loss):
    without, whole = losses(layer, loss)
    with torch.no_grad():
        layer.W_o.weight.zero_()
    return torch.tensor([loss_without - whole for loss_without in without])


@misconception(
    "head_importance",
    label="last hook not removed",
    hint="A hook on the layer silences one head after another, and the last one is still there: `handle.remove()` "
    "removes it.",
)
def head_importance_hook_left(layer, loss):
    without, whole = losses(layer, loss)
    columns = there(layer, layer.num_heads - 1)

    def silence(module, inputs):
        changed = inputs[0].clone()
        changed[..., columns] = 0
        return (changed,)

    layer.W_o.register_forward_pre_hook(silence)
    return torch.tensor([loss_without - whole for loss_without in without])


@misconception(
    "head_importance",
    label="gradients of the layer turned off",
    hint="`requires_grad_(False)` is called on the layer, so it can no longer be trained. To measure without "
    "gradients, use `with torch.no_grad():`.",
)
def head_importance_frozen(layer, loss):
    layer.requires_grad_(False)
    without, whole = losses(layer, loss)
    return torch.tensor([loss_without - whole for loss_without in without])


@misconception(
    "head_importance",
    label="layer left in evaluation mode",
    hint="`layer.eval()` is called but never reverted, so later training uses the wrong mode. Nothing here depends "
    "on the mode.",
)
def head_importance_eval(layer, loss):
    without, whole = losses(layer.eval(), loss)
    return torch.tensor([loss_without - whole for loss_without in without])


@misconception(
    "head_importance",
    label="a list instead of a tensor",
    hint="The result is a list. `torch.tensor(...)` converts it.",
)
def head_importance_list(layer, loss):
    without, whole = losses(layer, loss)
    return [loss_without - whole for loss_without in without]


@misconception(
    "head_importance",
    label="single head gives a number",
    hint="With a single head, the result still has shape (1,). Drop `squeeze`.",
)
def head_importance_squeezed(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([loss_without - whole for loss_without in without]).squeeze()


@misconception(
    "head_importance",
    label="tensor required from the loss",
    hint="`loss` may return a Python float, which has no `.item()`. `float(...)` accepts both.",
)
def head_importance_items(layer, loss):
    whole = loss(layer).item()
    return torch.tensor(
        [loss(silenced(layer, head)).item() - whole for head in range(layer.num_heads)]
    )


@misconception(
    "head_importance",
    label="float required from the loss",
    hint="`loss` may return a tensor with a gradient, which NumPy cannot convert. `float(...)` accepts both.",
)
def head_importance_numpy(layer, loss):
    whole = np.asarray(loss(layer))
    without = [np.asarray(loss(silenced(layer, head))) for head in range(layer.num_heads)]
    return torch.tensor(np.array(without) - whole)


@misconception(
    "head_importance", label="nothing returned", hint="The function ends without `return`."
)
def head_importance_nothing(layer, loss):
    losses(layer, loss)


# head_importance: right


@right("head_importance")
def head_importance_reference(layer, loss):
    without, whole = losses(layer, loss)
    return torch.tensor([loss_without - whole for loss_without in without])

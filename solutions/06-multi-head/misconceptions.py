"""Wrong answers that people really give, each with the hint it deserves; and right ones that other mistakes are made
from.

A check that fails is explained by the listed answer that behaves as the student's function does. The tests
of the course prove that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import torch
from torch import nn

from checking import families, misconception, right

REFUSED = (ValueError, RuntimeError, IndexError)
PROJECTIONS = ("W_q", "W_k", "W_v")


def divides(d, h):
    if d % h:
        raise ValueError(f"{d} is no multiple of {h}")
    return d // h


def split(X, h):
    return X.unflatten(-1, (h, divides(X.shape[-1], h))).transpose(1, 2)


def merge(X):
    return X.transpose(1, 2).flatten(2)


def fitting(mask, S):
    """Return a mask, which has four axes, in the shape of the scores S; raise where it does not fit."""
    if mask.shape[-1] != S.shape[-1]:
        raise ValueError("another number of keys")
    return mask.expand(S.shape)


def share(S, mask=None):
    if mask is None:
        return S.softmax(-1)
    mask = fitting(mask, S)
    return S.masked_fill(~mask, torch.finfo(S.dtype).min).softmax(-1) * mask


# by_hand: wrong


@misconception(
    "by_hand",
    label="weights averaged over the heads",
    hint="Both heads got the same weights. Each head has a softmax of its own: (3/4, 1/4) and (1/4, 3/4).",
)
def by_hand_averaged():
    return [10, 10, 2, 2]


@misconception(
    "by_hand",
    label="columns of the other head",
    hint="Head 1 took the last two columns of the values, and head 2 the first two. It is the other way round.",
)
def by_hand_exchanged():
    return [4, 12, 2, 6]


@misconception(
    "by_hand",
    label="W_o left out",
    hint="This is what the heads bring back, side by side. It still has to be multiplied by W_o.",
)
def by_hand_without_output():
    return [3, 1, 6, 2]


@misconception(
    "by_hand",
    label="W_o transposed",
    hint="Rows stand on the left: column j of W_o gives number j of the output.",
)
def by_hand_transposed():
    return [9, 3, 6, 2]


@misconception(
    "by_hand",
    label="shares made without exponentials",
    hint="The scores themselves were shared out, so that a score of 0 got nothing. Take exponentials first: 3 and 1.",
)
def by_hand_no_exponentials():
    return [20, 0, 4, 0]


# split_heads: wrong


@misconception(
    "split_heads",
    label="reshaped without transpose",
    hint="One reshape to (b, h, n, d/h) cuts the row of numbers where it happens to be long enough: head 0 gets the "
    "first tokens whole. Cut the columns, (b, n, h, d/h), then exchange axes 1 and 2.",
)
def split_heads_without_transpose(X, num_heads):
    b, n, d = X.shape
    return X.reshape(b, num_heads, n, divides(d, num_heads))


@misconception(
    "split_heads",
    label="columns dealt out in turn",
    hint="Each head gets every h-th column: `(d/h, h)` in place of `(h, d/h)`. Head i gets d/h columns that stand "
    "side by side: `X.view(b, n, num_heads, d // num_heads)`.",
)
def split_heads_interleaved(X, num_heads):
    return X.unflatten(-1, (divides(X.shape[-1], num_heads), num_heads)).permute(0, 3, 1, 2)


@misconception(
    "split_heads",
    label="heads left behind the tokens",
    hint="The result is (b, n, h, d/h): the transpose is missing. Heads stand in front of tokens, `.transpose(1, "
    "2)`.",
)
def split_heads_not_transposed(X, num_heads):
    return split(X, num_heads).transpose(1, 2)


@misconception(
    "split_heads",
    label="heads in front of the batch",
    hint="The result is (h, b, n, d/h). The batch stays first: (b, h, n, d/h).",
)
def split_heads_first_axis(X, num_heads):
    return split(X, num_heads).transpose(0, 1)


@misconception(
    "split_heads",
    label="heads folded into the batch",
    hint="Heads and batch share one axis: (b h, n, d/h). Give the heads an axis of their own.",
)
def split_heads_folded(X, num_heads):
    return split(X, num_heads).flatten(0, 1)


@misconception(
    "split_heads",
    label="num_heads taken for d/h",
    hint="`num_heads` columns went to each head, and there are d / num_heads heads. It is the other way round.",
)
def split_heads_width_for_number(X, num_heads):
    return split(X, divides(X.shape[-1], num_heads))


@misconception(
    "split_heads",
    label="columns left over dropped",
    hint="Where d is no multiple of `num_heads`, `d // num_heads` drops columns without a word. Raise `ValueError`.",
)
def split_heads_drops_rest(X, num_heads):
    d_head = X.shape[-1] // num_heads
    return split(X[..., : d_head * num_heads], num_heads)


@misconception(
    "split_heads",
    label="a list of heads",
    hint="A list of tensors came back, or a tuple: `chunk` and `split` make them. `torch.stack(..., dim=1)` makes "
    "one tensor of them.",
)
def split_heads_list(X, num_heads):
    divides(X.shape[-1], num_heads)
    return list(X.chunk(num_heads, dim=-1))


@misconception(
    "split_heads",
    label="X changed in place",
    hint="`transpose_`, `resize_` and whatever ends in `_` work in place, and whoever called still needs `X`. Leave "
    "out the `_`.",
)
def split_heads_in_place(X, num_heads):
    Z = split(X, num_heads).clone()
    X.zero_()
    return Z


@misconception(
    "split_heads",
    label="reshaped where sizes agree",
    hint="Where there are as many tokens as heads the axes are mixed up. Which axis is which does not depend on "
    "sizes.",
)
def split_heads_by_size(X, num_heads):
    if X.shape[1] == num_heads:
        return split_heads_without_transpose(X, num_heads)
    return split(X, num_heads)


@misconception(
    "split_heads",
    label="heads of 64 columns",
    hint="Where 64 divides d, each head gets 64 columns, as in many models. Here `num_heads` says how many heads "
    "there are, and d / num_heads is their width, whatever it is.",
)
def split_heads_of_64(X, num_heads):
    return split(X, num_heads if X.shape[-1] % 64 else X.shape[-1] // 64)


TENSORS = {
    "a list instead of an array": "A list came back. Leave `.tolist()` out: the result is a tensor.",
    "result in float64": "Leave `.double()` and `.to(torch.float64)` out: the result has the dtype of `X`.",
    "axis squeezed away": "An axis of size 1 is gone: `squeeze` removes it. One sequence is still a batch, one token "
    "a row.",
    "only the first sequence": "`[0]` takes the first sequence and forgets the rest of the batch. Keep the axis b.",
}
FAMILIES = [
    *TENSORS, "returns nothing", "result always in float32", "an array instead of a tensor", "cut off from autograd"
]  # fmt: skip


# split_heads: right


@families(*FAMILIES, "assert instead of ValueError", but=["only the first sequence"], hints={
    name: hint for name, hint in TENSORS.items() if name != "only the first sequence"
})  # fmt: skip
@right("split_heads")
def split_heads_unflatten(X, num_heads):
    return split(X, num_heads)


# merge_heads: wrong


@misconception(
    "merge_heads",
    label="reshaped without transpose",
    hint="A reshape of (b, h, n, d_head) puts the tokens of one head side by side. Exchange axes 1 and 2 first: the "
    "heads of one token have to be neighbours.",
)
def merge_heads_without_transpose(X):
    b, h, n, d_head = X.shape
    return X.reshape(b, n, h * d_head)


@misconception(
    "merge_heads",
    label="view of what is not contiguous",
    hint="After `transpose` the numbers lie in memory as before, and `view` cannot cut them that way. "
    "`.contiguous()` before it, or `reshape`, which copies where it must.",
)
def merge_heads_view(X):
    b, h, n, d_head = X.shape
    return X.transpose(1, 2).view(b, n, h * d_head)


@misconception(
    "merge_heads",
    label="heads' columns in turn",
    hint="The heads' columns are interleaved: first column of each head, then the second. Head 0's columns all come "
    "first: (b, n, h, d_head), in this order, is made flat.",
)
def merge_heads_interleaved(X):
    return X.permute(0, 2, 3, 1).flatten(2)


@misconception(
    "merge_heads",
    label="heads summed",
    hint="Their results come side by side: nothing is lost, and `W_o` decides what to mix.",
)
def merge_heads_sum(X):
    return X.sum(1)


@misconception(
    "merge_heads",
    label="heads left unmerged",
    hint="The axes are exchanged, and heads and columns are still two axes. Make them one: (b, n, h d_head).",
)
def merge_heads_unmerged(X):
    return X.transpose(1, 2)


@misconception(
    "merge_heads",
    label="X changed in place",
    hint="Whatever ends in `_` works in place, and whoever called still needs `X`. Leave out the `_`.",
)
def merge_heads_in_place(X):
    Z = merge(X).clone()
    X.zero_()
    return Z


@misconception(
    "merge_heads",
    label="reshaped where sizes agree",
    hint="Where there are as many tokens as heads the transpose is left out. Which axis is which does not depend on "
    "sizes.",
)
def merge_heads_by_size(X):
    return X.reshape(len(X), X.shape[2], -1) if X.shape[1] == X.shape[2] else merge(X)


# merge_heads: right


@families(*FAMILIES, but=["only the first sequence"], hints={
    name: hint for name, hint in TENSORS.items() if name != "only the first sequence"
})  # fmt: skip
@right("merge_heads")
def merge_heads_flatten(X):
    return merge(X)


# The two classes: what both of them do, in steps that a mistake can take the place of


class Layer(nn.Module):
    """Multi-head attention, but for its projections."""

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.d_model, self.num_heads, self.d_head = d_model, num_heads, self.width(d_model, num_heads)
        self.make(d_model, num_heads, bias)
        self.W_o = nn.Linear(d_model, d_model, bias)

    def width(self, d_model, num_heads):
        return divides(d_model, num_heads)

    def sources(self, query, key, value):
        key = query if key is None else key
        return query, key, key if value is None else value

    def scale(self, S):
        return S / self.d_head**0.5

    def scores(self, q, k):
        return self.scale(q @ k.transpose(-1, -2))

    def four(self, mask):
        return mask[:, None] if mask.dim() == 3 else mask.expand(1, 1, *mask.shape) if mask.dim() == 2 else mask

    def weigh(self, S, mask):
        return share(S, mask)

    def mixed(self, A, v):
        return A @ v

    def together(self, Z):
        return merge(Z)

    def last(self, Z):
        return self.W_o(Z)

    def forward(self, query, key=None, value=None, mask=None):
        query, key, value = self.sources(query, key, value)
        q, k, v = self.apart(query, key, value)
        A = self.weigh(self.scores(q, k), None if mask is None else self.four(mask))
        return self.last(self.together(self.mixed(A, v))), A


class Head(nn.Module):
    def __init__(self, d_model, d_head, bias):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_head, bias)
        self.W_k = nn.Linear(d_model, d_head, bias)
        self.W_v = nn.Linear(d_model, d_head, bias)


class MultiHeadAttentionLoop(Layer):
    def make(self, d_model, num_heads, bias):
        self.heads = nn.ModuleList([Head(d_model, self.d_head, bias) for _ in range(num_heads)])

    def apart(self, *inputs):
        found = zip(PROJECTIONS, inputs, strict=True)
        return [torch.stack([getattr(head, name)(X) for head in self.heads], 1) for name, X in found]


class MultiHeadAttention(Layer):
    def make(self, d_model, num_heads, bias):
        self.W_q = nn.Linear(d_model, d_model, bias)
        self.W_k = nn.Linear(d_model, d_model, bias)
        self.W_v = nn.Linear(d_model, d_model, bias)

    def apart(self, query, key, value):
        found = self.W_q(query), self.W_k(key), self.W_v(value)
        return [self.cut(X) for X in found]

    def cut(self, X):
        return X.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)


BOTH = (MultiHeadAttentionLoop, MultiHeadAttention)


def of_both(label, hint):
    """Declare a mistake that a layer of either class can have."""

    def declare(mistake):
        mistake.families = [
            misconception(kind.__name__, label, hint)(
                type(f"{kind.__name__}_{mistake.__name__}", (mistake, kind), {})
            )
            for kind in BOTH
        ]
        return mistake

    return declare


# Both classes, wrong: parameters


@of_both(
    label="names in lower case",
    hint="Weights are moved by name: `W_q`, `W_k`, `W_v` and `W_o`, with a capital W, and `heads` where there is a "
    "list.",
)
class other_names:
    def state_dict(self, *arguments, **more):
        return {name.replace("W_", "w_"): own for name, own in super().state_dict(*arguments, **more).items()}


@of_both(
    label="module not begun",
    hint="`super().__init__()` is missing, or comes too late: it stands first in `__init__`, before any layer.",
)
class not_begun:
    def __init__(self, d_model, num_heads, bias=True):
        divides(d_model, num_heads)
        self.W_o = nn.Linear(d_model, d_model, bias)


@of_both(
    label="W_o missing",
    hint="There is no `W_o`: the heads' results stand side by side, and nothing mixes them. Add `self.W_o`, a "
    "`nn.Linear` from d_model to d_model, and apply it to what the heads found.",
)
class without_W_o:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        del self.W_o

    def last(self, Z):
        return Z


@of_both(
    label="bias of W_o left on",
    hint="With `bias=False` the bias of `W_o` is still there: hand `bias` on to all four layers.",
)
class bias_of_W_o_stays:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.W_o = nn.Linear(d_model, d_model)


@of_both(
    label="bias always there",
    hint="`bias` is ignored: `nn.Linear` has one unless it is told `bias=False`. Hand it on to each of them.",
)
class bias_ignored:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, True)


@of_both(
    label="a layer too many",
    hint="There are more parameters than asked for, those of a `LayerNorm` or another layer. Multi-head attention "
    "has its projections and `W_o` alone; what stands around it is chapter 7.",
)
class layer_too_many:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.norm = nn.LayerNorm(d_model)

    def last(self, Z):
        return self.norm(super().last(Z))


@of_both(
    label="sizes not kept",
    hint="`self.d_model, self.num_heads = d_model, num_heads`: whoever moves weights wants to read them.",
)
class forgets_sizes:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.h = num_heads
        del self.d_model, self.num_heads

    def cut(self, X):
        return X.unflatten(-1, (self.h, self.d_head)).transpose(1, 2)


@of_both(
    label="d_model not divisible accepted",
    hint="A d_model that is no multiple of num_heads is accepted, and columns get lost in `d_model // num_heads`. "
    "Raise `ValueError` when the layer is made.",
)
class not_divisible:
    def width(self, d_model, num_heads):
        return d_model // num_heads


@of_both(
    label="assert instead of ValueError",
    hint="`assert` raises `AssertionError`, and is left out when Python runs with `-O`. Write `if` and `raise "
    "ValueError(...)`.",
)
class asserts:
    def width(self, d_model, num_heads):
        assert d_model % num_heads == 0
        return d_model // num_heads


# Both classes, wrong: which input goes where


@of_both(
    label="self-attention whatever is given",
    hint="Keys and values come from `query` even where `key` is given. `query` takes their place only where they are "
    "None.",
)
class always_self:
    def sources(self, query, key, value):
        return query, query, query


@of_both(
    label="value ignored",
    hint="The keys are taken for values even where `value` is given. Only where it is None is it the key.",
)
class ignores_value:
    def sources(self, query, key, value):
        key = query if key is None else key
        return query, key, key


@of_both(
    label="value defaults to query",
    hint="Without a `value`, the query took its place. It defaults to the key: what is attended to is what is passed "
    "on.",
)
class value_from_query:
    def sources(self, query, key, value):
        return query, query if key is None else key, query if value is None else value


@of_both(
    label="keys and values exchanged",
    hint="`W_k` gets the values and `W_v` the keys. Mind the order: query, key, value.",
)
class keys_for_values:
    def sources(self, query, key, value):
        query, key, value = super().sources(query, key, value)
        return query, value, key


@of_both(
    label="keys projected with W_q",
    hint="The keys have a projection of their own, `W_k`.",
)
class keys_by_W_q:
    def apart(self, query, key, value):
        return (
            super().apart(query, key, value)[0],
            super().apart(key, key, value)[0],
            super().apart(query, key, value)[2],
        )


@of_both(
    label="keys and values not projected",
    hint="`W_v` is left out: the values are mixed as they came in. Each of the three inputs has a projection.",
)
class values_as_they_are:
    def apart(self, query, key, value):
        q, k, _ = super().apart(query, key, value)
        return q, k, split(value, self.num_heads)


@of_both(
    label="default missing for key",
    hint="Without a `key` there is an error: `None` is projected. Put `query` in its place where it is None, and "
    "`key` in that of `value`.",
)
class no_defaults:
    def sources(self, query, key, value):
        return query, key, value

    def forward(self, query, key=None, value=None, mask=None):
        return super().forward(query, key, value, mask)


@of_both(
    label="batch and tokens exchanged",
    hint="The first axis is taken for the tokens, as `nn.MultiheadAttention` does without `batch_first=True`: each "
    "token attends to other sequences. Here the batch comes first.",
)
class tokens_first:
    def apart(self, query, key, value):
        return super().apart(*(X.transpose(0, 1) for X in (query, key, value)))

    def together(self, Z):
        return super().together(Z).transpose(0, 1)


@of_both(
    label="value dropped where key is missing",
    hint="`layer(query, value=v)` attends to the query's own tokens and mixes v. Each of the two has a default of "
    "its own: first `key = query` where there is none, then `value = key`.",
)
class value_dropped:
    def sources(self, query, key, value):
        return super().sources(query, key, None if key is None else value)


@of_both(
    label="arguments renamed",
    hint="Whoever calls the layer names what it gives, `layer(x, mask=mask)`: `forward` takes `query`, `key`, "
    "`value` and `mask`.",
)
class renamed:
    def forward(self, q, k=None, v=None, attn_mask=None):
        return super().forward(q, k, v, attn_mask)


# Both classes, wrong: scores and weights


@of_both(
    label="scaled with d_model, not d_head",
    hint="The scores are divided by sqrt(d_model). Each is a sum of d_head products: divide by sqrt(d_head), "
    "`q.shape[-1] ** 0.5`.",
)
class scaled_by_d_model:
    def scale(self, S):
        return S / self.d_model**0.5


@of_both(label="scores not scaled", hint="Divide them by sqrt(d_head): each is a sum of d_head products.")
class not_scaled:
    def scale(self, S):
        return S


@of_both(
    label="divided by d_head, not its root",
    hint="The root is `q.shape[-1] ** 0.5`, or `math.sqrt(d_head)`.",
)
class without_root:
    def scale(self, S):
        return S / self.d_head


@of_both(
    label="softmax over the queries",
    hint="It runs along `dim=-2`. Each query shares out its weight over the keys: the last axis.",
)
class over_queries:
    def weigh(self, S, mask):
        S = S if mask is None else S.masked_fill(~fitting(mask, S), -1e9)
        return S.softmax(-2)


@of_both(
    label="softmax over the heads",
    hint="It runs along `dim=1`. Each head shares out its own weight over the keys: the last axis, `dim=-1`.",
)
class over_heads:
    def weigh(self, S, mask):
        S = S if mask is None else S.masked_fill(~fitting(mask, S), -1e9)
        return S.softmax(1)


@of_both(
    label="softmax missing",
    hint="The scores themselves were used as weights. `masked_softmax` makes weights of them.",
)
class no_softmax:
    def weigh(self, S, mask):
        return S if mask is None else S * fitting(mask, S)


@of_both(
    label="row maximum not subtracted",
    hint="`exp` of a large score is infinite, and inf / inf is NaN. `softmax` subtracts the row's maximum; by hand, "
    "do it first.",
)
class overflows:
    def weigh(self, S, mask):
        E = S.exp() if mask is None else S.exp() * fitting(mask, S)
        total = E.sum(-1, keepdim=True)
        return E / torch.where(total == 0, 1.0, total)


@of_both(
    label="always causal",
    hint="Later keys are hidden though no mask says so. Only the mask that is given decides.",
)
class hides_later:
    def weigh(self, S, mask):
        past = torch.ones(S.shape[-2:], dtype=torch.bool).tril()
        return share(S, past.expand(S.shape) if mask is None else past & fitting(mask, S))


# Both classes, wrong: masks


@of_both(
    label="mask inverted",
    hint="True means: may attend, here as in `scaled_dot_product_attention`. In `nn.MultiheadAttention` it means "
    "the opposite. `masked_softmax` takes the mask as it is.",
)
class inverted:
    def weigh(self, S, mask):
        return share(S, None if mask is None else ~mask)


@of_both(label="mask ignored", hint="`masked_softmax` takes the mask beside the scores: hand it on.")
class unmasked:
    def weigh(self, S, mask):
        return share(S)


@of_both(
    label="mask kept from the call before",
    hint="The mask was noted on the layer, and hides something in a later call that has none. A call knows nothing "
    "of others: leave `self` out.",
)
class mask_kept:
    noted = None

    def forward(self, query, key=None, value=None, mask=None):
        n = query.shape[1], (query if key is None else key).shape[1]
        if mask is None and self.noted is not None and self.noted.shape[-2:] == n:
            mask = self.noted
        self.noted = mask
        return super().forward(query, key, value, mask)


@of_both(
    label="minus infinity replaced by -100",
    hint="Where the other scores are about as low, a key at -100 gets its share. `-torch.inf` stays below all of "
    "them; the given `masked_softmax` does that.",
)
class low_number:
    low = -100.0

    def weigh(self, S, mask):
        if mask is None:
            return share(S)
        mask = fitting(mask, S)
        return S.masked_fill(~mask, self.low).softmax(-1) * mask.any(-1, keepdim=True)


@of_both(
    label="minus infinity replaced by -1e9",
    hint="-1e9 is a score like another: where all others are lower, the hidden key gets all of the weight. "
    "`-torch.inf` stays below all of them; the given `masked_softmax` does that.",
)
class lower_number(low_number):
    low = -1e9


@of_both(
    label="mask added to the scores",
    hint="True counts as 1, so that allowed keys get a little more. Hide the others.",
)
class mask_added:
    def weigh(self, S, mask):
        return share(S if mask is None else S + fitting(mask, S))


@of_both(
    label="masked after softmax",
    hint="The weights left over no longer sum to 1. Hide the scores before it.",
)
class masked_late:
    def weigh(self, S, mask):
        return share(S) if mask is None else share(S) * fitting(mask, S)


@of_both(
    label="masked scores set to 0",
    hint="e^0 = 1 is a weight like another. Minus infinity makes a weight of 0.",
)
class masked_to_zero:
    def weigh(self, S, mask):
        return share(S if mask is None else S.masked_fill(~fitting(mask, S), 0.0))


@of_both(
    label="mask without an axis for heads",
    hint="A mask (b, n_q, n_k) meets scores (b, h, n_q, n_k) from the last axis, so that its b meets h: it raises, "
    "or where b = h it gives each head the mask of a sequence. Put an axis for the heads in between: `mask[:, "
    "None]`.",
)
class mask_for_heads:
    def four(self, mask):
        return mask if mask.dim() == 4 else mask.expand(*[1] * (4 - mask.dim()), *mask.shape)


@of_both(
    label="mask's axes of size 1 squeezed away",
    hint="A mask loses its axes of size 1, and where sizes are alike it then fits as another: (b, 1, n_k) as one of "
    "queries and keys. Leave these axes: each stands for all of something.",
)
class squeezes_mask:
    def weigh(self, S, mask):
        fits = mask is not None and mask.squeeze().shape == S.shape[-2:]
        return super().weigh(S, mask.squeeze() if fits else mask)


@of_both(
    label="four axes not expected",
    hint="A mask of four axes gets one more, or is taken for another. It fits the scores as it is: leave it alone.",
)
class no_four_axes:
    def four(self, mask):
        return mask[None, None] if mask.dim() == 2 else mask[:, None]


@of_both(
    label="mask transposed",
    hint="The mask is turned over: its rows belong to queries, its columns to keys.",
)
class mask_turned:
    def four(self, mask):
        return super().four(mask).transpose(-1, -2)


@of_both(
    label="NaN in fully masked rows",
    hint="A query that may attend to nothing has scores of -inf alone, and softmax makes NaN of them. The given "
    "`masked_softmax` makes weights 0 of them.",
)
class empty_rows_nan:
    def weigh(self, S, mask):
        return share(S) if mask is None else S.masked_fill(~fitting(mask, S), -torch.inf).softmax(-1)


@of_both(
    label="equal weights in fully masked rows",
    hint="A query that may attend to nothing attends to everything alike: all its scores are the same low number, "
    "such as -1e9. Its weights are 0.",
)
class empty_rows_equal:
    def weigh(self, S, mask):
        return share(S) if mask is None else S.masked_fill(~fitting(mask, S), torch.finfo(S.dtype).min).softmax(-1)


@of_both(
    label="W_o's bias dropped for empty rows",
    hint="Where a query may attend to nothing the whole output is set to 0. The weighted sum is 0, and `W_o` with "
    "its bias comes after that.",
)
class empty_rows_zero:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out * (A.sum((1, 3)) > 0)[..., None], A


@of_both(
    label="NaN in the gradient",
    hint="The results are right, and the gradient is NaN where a query may attend to nothing: -inf was added, and "
    "0 times NaN is NaN on the way back. `masked_fill` stops it, and so does the given `masked_softmax`.",
)
class nan_on_the_way_back:
    def weigh(self, S, mask):
        if mask is None:
            return share(S)
        return (
            (S + torch.zeros(S.shape, dtype=S.dtype).masked_fill(~fitting(mask, S), -torch.inf))
            .softmax(-1)
            .nan_to_num(0.0)
        )


@of_both(
    label="mask of one key stretched",
    hint="A mask with one column was stretched to all keys. Its last size is n_k: raise where it is not, as "
    "`masked_softmax` does.",
)
class mask_stretched:
    def weigh(self, S, mask):
        return share(S, None if mask is None else mask.expand(*mask.shape[:-1], S.shape[-1]))


@of_both(
    label="mask cut to fit",
    hint="A mask for more tokens was cut to the first n_q rows and n_k columns, where it may be another one: a "
    "causal mask is aligned at the end. Leave it as it is; PyTorch raises where it does not fit.",
)
class mask_cut:
    def weigh(self, S, mask):
        return share(S, None if mask is None else mask[..., : S.shape[-2], : S.shape[-1]])


# Both classes, wrong: what the heads found


@of_both(
    label="reshaped without transpose",
    hint="The heads' results (b, h, n, d_head) are reshaped to (b, n, d_model) as they are, which puts tokens of one "
    "head side by side. Exchange axes 1 and 2 first, as `merge_heads` does.",
)
class merged_without_transpose:
    def together(self, Z):
        return Z.reshape(len(Z), Z.shape[2], -1)


@of_both(
    label="heads' columns in turn",
    hint="The heads' results are interleaved: first column of each head, then the second. Head 0's columns all come "
    "first.",
)
class merged_interleaved:
    def together(self, Z):
        return Z.permute(0, 2, 3, 1).flatten(2)


@of_both(
    label="sum of the heads",
    hint="The heads' results are added up, or averaged, so that d_head columns are left and `W_o` refuses them. They "
    "come side by side.",
)
class sum_of_heads:
    def together(self, Z):
        return Z.sum(1)


@of_both(
    label="W_o turned over",
    hint="`W_o.weight` was multiplied from the wrong side. `self.W_o(Z)` does what is asked: Z W^T plus the bias.",
)
class W_o_turned:
    def last(self, Z):
        return nn.functional.linear(Z, self.W_o.weight.T, self.W_o.bias)


@of_both(
    label="W_o not applied",
    hint="`W_o` is there and never used. Apply it to what the heads found, side by side.",
)
class W_o_unused:
    def last(self, Z):
        return Z


@of_both(
    label="bias of W_o ignored",
    hint="`self.W_o(Z)` adds it; a product with `W_o.weight` does not.",
)
class W_o_without_bias:
    def last(self, Z):
        return Z @ self.W_o.weight.T


@of_both(
    label="query added to the output",
    hint="That is the residual connection of chapter 7, and not part of this layer.",
)
class residual:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out + query, A


@of_both(
    label="weights averaged over the heads",
    hint="`nn.MultiheadAttention` does so by default. Each head's are asked: (b, h, n_q, n_k).",
)
class weights_averaged:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A.mean(1)


@of_both(
    label="heads in front of the batch",
    hint="The weights came as (h, b, n_q, n_k). The batch stays first: (b, h, n_q, n_k); `torch.stack(..., dim=1)` "
    "does that.",
)
class heads_first:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A.transpose(0, 1)


@of_both(
    label="scores returned instead of weights",
    hint="What softmax made of the scores is asked for, beside the output.",
)
class scores_returned:
    def forward(self, query, key=None, value=None, mask=None):
        q, k, _ = self.apart(*self.sources(query, key, value))
        return super().forward(query, key, value, mask)[0], self.scores(q, k)


@of_both(
    label="weights before the output",
    hint="The order is exchanged: the output first, then the weights.",
)
class weights_first:
    def forward(self, query, key=None, value=None, mask=None):
        return super().forward(query, key, value, mask)[::-1]


@of_both(
    label="weights kept on the layer alone",
    hint="Only the output came back. Return both, the output and the weights.",
)
class output_alone:
    def forward(self, query, key=None, value=None, mask=None):
        return super().forward(query, key, value, mask)[0]


# Both classes, wrong: gradients, modes, dtypes, inputs


@of_both(
    label="weights detached",
    hint="The weights are cut off from autograd before they mix the values: `W_q` and `W_k` learn nothing. Leave "
    "`detach`, `.data` and `no_grad` out.",
)
class cuts_weights:
    def mixed(self, A, v):
        return A.detach() @ v


@of_both(
    label="weights returned without a way back",
    hint="The weights were detached before they were returned. Whoever puts them into a loss, to make heads differ, "
    "say, needs their gradient: return them as they are.",
)
class weights_cut_off:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A.detach()


@of_both(
    label="values through NumPy",
    hint="The values, or what the heads found, went through NumPy or `detach`: `W_v` learns nothing, and neither "
    "does what came before. Stay with tensors.",
)
class through_numpy:
    def mixed(self, A, v):
        return torch.from_numpy((A @ v).detach().numpy()) if v.dtype != torch.bfloat16 else (A @ v).detach()


@of_both(
    label="input cut off",
    hint="The parameters get gradients and the inputs none: `query.detach()`, `.data` or `torch.tensor(query)` at "
    "the start. What stands before this layer has to learn as well.",
)
class inputs_detached:
    def sources(self, query, key, value):
        return [X.detach() for X in super().sources(query, key, value)]


@of_both(
    label="dropout in training mode",
    hint="There is no dropout in this layer: nobody asked for it, and same inputs give the same result.",
)
class dropout:
    def weigh(self, S, mask):
        return nn.functional.dropout(super().weigh(S, mask), 0.1, self.training)


@of_both(
    label="results always float32",
    hint="Leave `.float()` out, also before softmax, or convert back: results have the dtype of inputs and "
    "parameters.",
)
class always_float32:
    def forward(self, query, key=None, value=None, mask=None):
        return tuple(own.float() for own in super().forward(query, key, value, mask))


@of_both(
    label="query scaled in place",
    hint="`*=`, `+=` and whatever ends in `_` change the tensor that the caller still needs.",
)
class query_in_place:
    def forward(self, query, key=None, value=None, mask=None):
        found = super().forward(query, key, value, mask)
        query.data /= self.d_head**0.5
        return found


@of_both(
    label="mask inverted in place",
    hint="The caller still needs the mask: write `~mask`, a new tensor.",
)
class mask_in_place:
    def forward(self, query, key=None, value=None, mask=None):
        found = super().forward(query, key, value, mask)
        if mask is not None:
            mask.logical_not_()
        return found


@of_both(
    label="extra keys or values dropped",
    hint="A key without a value is a mistake of the caller: raise `ValueError`, or let `@` raise.",
)
class rest_dropped:
    def sources(self, query, key, value):
        query, key, value = super().sources(query, key, value)
        n = min(key.shape[1], value.shape[1])
        return query, key[:, :n], value[:, :n]


@of_both(
    label="one key or value stretched",
    hint="`*`, `expand` and `einsum` make many of one without a word. `@` raises by itself.",
)
class value_stretched:
    def sources(self, query, key, value):
        query, key, value = super().sources(query, key, value)
        n = max(key.shape[1], value.shape[1])
        return query, *(X.expand(-1, n, -1) if X.shape[1] == 1 else X for X in (key, value))


# MultiHeadAttentionLoop: wrong


@misconception(
    "MultiHeadAttentionLoop",
    label="heads not registered",
    hint="`heads` is a Python list, and a module does not look into lists: its parameters are not among "
    "`parameters()`, no optimiser sees them, and `state_dict` leaves them out. Use `nn.ModuleList([...])`.",
)
class MultiHeadAttentionLoop_list(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = [Head(d_model, self.d_head, bias) for _ in range(num_heads)]


@misconception(
    "MultiHeadAttentionLoop",
    label="one head taken h times",
    hint="`[head] * num_heads` is h times the same head: they share their weights, and find the same. Make a new one "
    "for each, `[Head(...) for _ in range(num_heads)]`.",
)
class MultiHeadAttentionLoop_shared(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = nn.ModuleList([Head(d_model, self.d_head, bias)] * num_heads)


@misconception(
    "MultiHeadAttentionLoop",
    label="heads of full width",
    hint="Each head projects to d_model columns. It gets its share, d_model / num_heads, so that all together are "
    "d_model.",
)
class MultiHeadAttentionLoop_full_width(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = nn.ModuleList([Head(d_model, d_model, bias) for _ in range(num_heads)])


@misconception(
    "MultiHeadAttentionLoop",
    label="one head too few",
    hint="There are other than num_heads heads in `heads`: `range(num_heads)` counts them.",
)
class MultiHeadAttentionLoop_fewer(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = nn.ModuleList([Head(d_model, self.d_head, bias) for _ in range(1, num_heads)])


@misconception(
    "MultiHeadAttentionLoop",
    label="columns of the input split",
    hint="The input's columns are dealt out to the heads, and each projects its own share. Every head sees all "
    "d_model columns: its projections are (d_model, d_head).",
)
class MultiHeadAttentionLoop_splits_input(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = nn.ModuleList([Head(self.d_head, self.d_head, bias) for _ in range(num_heads)])


@misconception(
    "MultiHeadAttentionLoop",
    label="W_o in every head",
    hint="Each head has a `W_o` of its own. There is one for all of them, beside `heads`.",
)
class MultiHeadAttentionLoop_W_o_each(MultiHeadAttentionLoop):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        del self.W_o
        for head in self.heads:
            head.W_o = nn.Linear(self.d_head, self.d_head, bias)


@misconception(
    "MultiHeadAttentionLoop",
    label="the batched layer instead",
    hint="This is the batched layer, with one `W_q` for all heads. Here `heads` is a list, and each head has "
    "projections of its own.",
)
class MultiHeadAttentionLoop_batched(MultiHeadAttention):
    pass


@misconception(
    "MultiHeadAttentionLoop",
    label="only the last head's weights",
    hint="The weights of one head came back for all: the loop overwrites them. Collect each head's in a list, and "
    "stack them.",
)
class MultiHeadAttentionLoop_last_weights(MultiHeadAttentionLoop):
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A[:, -1:].expand(A.shape)


@misconception(
    "MultiHeadAttentionLoop",
    label="weights side by side, not stacked",
    hint="The heads' weights are put together along an axis that there is, (b, n_q, h n_k) or so. `torch.stack(..., "
    "dim=1)` gives them one of their own.",
)
class MultiHeadAttentionLoop_weights_cat(MultiHeadAttentionLoop):
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A.transpose(1, 2).flatten(2)


# MultiHeadAttentionLoop: right


@families("a list instead of an array", "an array instead of a tensor", "cut off from autograd", "axis squeezed away",
    "result in float64", "a dictionary instead of a tuple", "returns nothing",
    but=["result in float64"], hints={
        "a list instead of an array": "Lists came back. Leave `.tolist()` out: the results are tensors.",
        "axis squeezed away": "An axis of size 1 is gone: `squeeze` removes it. One head is still an axis of "
        "weights.",
    })  # fmt: skip
@right("MultiHeadAttentionLoop")
class MultiHeadAttentionLoop_stacked(MultiHeadAttentionLoop):
    pass


# MultiHeadAttention: wrong


@misconception(
    "MultiHeadAttention",
    label="split without transpose",
    hint="The projections are reshaped to (b, h, n, d_head) in one step, which gives head 0 the first tokens whole. "
    "`split_heads` cuts the columns, then exchanges axes 1 and 2.",
)
class MultiHeadAttention_reshaped(MultiHeadAttention):
    def cut(self, X):
        return X.reshape(len(X), self.num_heads, X.shape[1], self.d_head)


@misconception(
    "MultiHeadAttention",
    label="columns dealt out in turn",
    hint="Each head gets every h-th column. It gets d_head columns that stand side by side, as `split_heads` has it.",
)
class MultiHeadAttention_interleaved(MultiHeadAttention):
    def cut(self, X):
        return X.unflatten(-1, (self.d_head, self.num_heads)).permute(0, 3, 1, 2)


@misconception(
    "MultiHeadAttention",
    label="attention between heads",
    hint="The heads attend to each other at every token: the transpose to (b, h, n, d_head) is missing, so that "
    "scores are (b, n, h, h). The last two axes have to be tokens and columns.",
)
class MultiHeadAttention_between_heads(MultiHeadAttention):
    def cut(self, X):
        return X.unflatten(-1, (self.num_heads, self.d_head))

    def together(self, Z):
        return Z.flatten(2)


@misconception(
    "MultiHeadAttention",
    label="one head of full width",
    hint="There is one head: softmax sees all d_model columns at once. Split after projecting, and attend in each "
    "head.",
)
class MultiHeadAttention_one_head(MultiHeadAttention):
    def forward(self, query, key=None, value=None, mask=None):
        query, key, value = self.sources(query, key, value)
        q, k, v = self.W_q(query)[:, None], self.W_k(key)[:, None], self.W_v(value)[:, None]
        A = self.weigh(self.scores(q, k), None if mask is None else self.four(mask)[:, :1])
        return self.W_o((A @ v)[:, 0]), A.expand(-1, self.num_heads, -1, -1)


@misconception(
    "MultiHeadAttention",
    label="weights as plain tensors",
    hint="The weights are tensors, and no parameters: no optimiser sees them, and `state_dict` leaves them out. "
    "`nn.Linear` registers its own.",
)
class MultiHeadAttention_plain_tensors(MultiHeadAttention):
    def make(self, d_model, num_heads, bias):
        self.plain = [torch.randn(d_model, d_model) for _ in PROJECTIONS]

    def apart(self, *inputs):
        return [self.cut(X @ W.to(X.dtype)) for X, W in zip(inputs, self.plain, strict=True)]


@misconception(
    "MultiHeadAttention",
    label="parameters instead of nn.Linear",
    hint="`W_q` and the others are `nn.Parameter`, so that they are called `W_q` and not `W_q.weight`. Take "
    "`nn.Linear`: its names are what others load.",
)
class MultiHeadAttention_parameters(MultiHeadAttention):
    def make(self, d_model, num_heads, bias):
        self.W_q, self.W_k, self.W_v = (nn.Parameter(torch.randn(d_model, d_model)) for _ in PROJECTIONS)

    def apart(self, *inputs):
        return [self.cut(X @ W) for X, W in zip(inputs, (self.W_q, self.W_k, self.W_v), strict=True)]


@misconception(
    "MultiHeadAttention",
    label="one projection for all three",
    hint="One matrix makes queries, keys and values together, as `in_proj_weight` does. Here they are three, `W_q`, "
    "`W_k` and `W_v`.",
)
class MultiHeadAttention_packed(MultiHeadAttention):
    def make(self, d_model, num_heads, bias):
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias)

    def apart(self, *inputs):
        return [self.cut(self.W_qkv(X).chunk(3, -1)[i]) for i, X in enumerate(inputs)]


@misconception(
    "MultiHeadAttention",
    label="PyTorch's layer inside",
    hint="`nn.MultiheadAttention` does the work, under names of its own. Write the layer with four `nn.Linear`.",
)
class MultiHeadAttention_torch_inside(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        divides(d_model, num_heads)
        self.d_model, self.num_heads = d_model, num_heads
        self.attention = nn.MultiheadAttention(d_model, num_heads, bias=bias, batch_first=True)

    def forward(self, query, key=None, value=None, mask=None):
        return self.attention(query, key, value, average_attn_weights=False)


@misconception(
    "MultiHeadAttention",
    label="projections of one head's width",
    hint="`W_q`, `W_k` and `W_v` project to d_head columns, one head's. They hold the rows of all heads: d_model to "
    "d_model.",
)
class MultiHeadAttention_narrow(MultiHeadAttention):
    def make(self, d_model, num_heads, bias):
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, self.d_head, bias) for _ in PROJECTIONS)


@misconception(
    "MultiHeadAttention",
    label="list of heads instead",
    hint="This is the list of heads of 6.3. Here `W_q`, `W_k` and `W_v` hold all heads' rows, and there is no loop.",
)
class MultiHeadAttention_list(MultiHeadAttentionLoop):
    pass


@misconception(
    "MultiHeadAttention",
    label="no module of PyTorch",
    hint="The class is not derived from `nn.Module`, or `super().__init__()` is not called: it has no parameters, no "
    "`state_dict`, and cannot be trained. `class MultiHeadAttention(nn.Module)`.",
)
class MultiHeadAttention_no_module:
    def __init__(self, d_model, num_heads, bias=True):
        self.d_model, self.num_heads = d_model, num_heads
        divides(d_model, num_heads)


# MultiHeadAttention: right


@families("a list instead of an array", "an array instead of a tensor", "cut off from autograd", "axis squeezed away",
    "a dictionary instead of a tuple", "returns nothing",
    hints={
        "a list instead of an array": "Lists came back. Leave `.tolist()` out: the results are tensors.",
        "axis squeezed away": "An axis of size 1 is gone: `squeeze` removes it. One head is still an axis of "
        "weights.",
    })  # fmt: skip
@right("MultiHeadAttention")
class MultiHeadAttention_in_steps(MultiHeadAttention):
    pass


# fuse: wrong


def parts_of(loop, name, kind):
    return [getattr(getattr(head, name), kind) for head in loop.heads]


def rows(parts):
    return torch.cat(parts)


def new_layer(d_model, num_heads, bias, like):
    return MultiHeadAttention(d_model, num_heads, bias).to(like.dtype)


def moved(loop, put=rows, names=PROJECTIONS, biases=True, last=True, heads=None):
    """Return the fused layer, where one step or another may be done otherwise."""
    bias = loop.W_o.bias is not None
    own = new_layer(loop.d_model, heads or loop.num_heads, bias, loop.W_o.weight)
    with torch.no_grad():
        for name, source in zip(PROJECTIONS, names, strict=True):
            getattr(own, name).weight.copy_(put(parts_of(loop, source, "weight")))
            if bias and biases:
                getattr(own, name).bias.copy_(put(parts_of(loop, source, "bias")))
    if last:
        own.W_o.load_state_dict(loop.W_o.state_dict())
    return own


@misconception(
    "fuse",
    label="rows dealt out in turn",
    hint="The rows are interleaved: first row of each head, then the second. Head 0's rows all come first: "
    "`torch.cat`.",
)
def fuse_interleaved(loop):
    return moved(loop, lambda parts: torch.stack(parts, 1).flatten(0, 1))


@misconception(
    "fuse",
    label="W_o not moved",
    hint="`W_o` is as a new layer draws it. It goes over as it is, with its bias.",
)
def fuse_without_W_o(loop):
    return moved(loop, last=False)


@misconception(
    "fuse",
    label="biases of the heads not moved",
    hint="The biases of `W_q`, `W_k` and `W_v` are as a new layer draws them. They are put together like the "
    "weights: `torch.cat`.",
)
def fuse_without_biases(loop):
    return moved(loop, biases=False)


@misconception(
    "fuse",
    label="nothing moved",
    hint="This is a new layer with weights of its own drawing. Put the heads' rows into it.",
)
def fuse_nothing(loop):
    return new_layer(loop.d_model, loop.num_heads, loop.W_o.bias is not None, loop.W_o.weight)


@misconception(
    "fuse",
    label="biases always there",
    hint="The new layer has biases where the old one has none, drawn at random. Ask the old one: `loop.W_o.bias is "
    "not None`.",
)
def fuse_always_bias(loop):
    if loop.W_o.bias is not None:
        return moved(loop)
    own = new_layer(loop.d_model, loop.num_heads, True, loop.W_o.weight)
    own.load_state_dict(moved(loop).state_dict(), strict=False)
    return own


@misconception(
    "fuse",
    label="biases never there",
    hint="The biases are left out. `MultiHeadAttention(..., bias=...)` has them where `loop.W_o.bias` is not None.",
)
def fuse_never_bias(loop):
    own = new_layer(loop.d_model, loop.num_heads, False, loop.W_o.weight)
    own.load_state_dict(moved(loop).state_dict(), strict=False)
    return own


@misconception(
    "fuse",
    label="error where there are no biases",
    hint="Without biases `loop.W_o.bias` and the heads' are None, and None cannot be copied or put together. Ask "
    "first.",
)
def fuse_needs_bias(loop):
    own = moved(loop)
    torch.cat(parts_of(loop, "W_q", "bias"))
    return own


@misconception(
    "fuse",
    label="width not from what is given",
    hint="`loop.d_head` is an attribute of your own class, and `loop` need not be one of yours: use its `heads`, "
    "`W_o`, `d_model` and `num_heads` alone. The width is d_model / num_heads.",
)
def fuse_uses_d_head(loop):
    loop.d_head  # noqa: B018
    return moved(loop)


@misconception(
    "fuse",
    label="weights turned over",
    hint="`nn.Linear` keeps (d_out, d_in) already: put the heads' rows below each other as they are.",
)
def fuse_turned(loop):
    return moved(loop, lambda parts: torch.cat(parts).T if parts[0].dim() > 1 else torch.cat(parts))


@misconception(
    "fuse",
    label="heads put side by side",
    hint="Along `dim=1` or -1 their weights make (d_head, h d_model). Rows make columns of the result: put them "
    "below each other, `dim=0`.",
)
def fuse_side_by_side(loop):
    own = moved(loop)
    for name in PROJECTIONS:
        getattr(own, name).weight = nn.Parameter(torch.cat(parts_of(loop, name, "weight"), dim=1))
    return own


@misconception("fuse", label="keys taken for values", hint="`W_v` holds the rows of `W_k`. Each has its own.")
def fuse_keys_for_values(loop):
    return moved(loop, names=("W_q", "W_k", "W_k"))


@misconception(
    "fuse",
    label="one head in the new layer",
    hint="The weights are right, and the new layer has another number of heads. Hand `loop.num_heads` on.",
)
def fuse_one_head(loop):
    return moved(loop, heads=1)


@misconception(
    "fuse",
    label="W_o shared with the loop",
    hint="`fused.W_o = loop.W_o` makes both layers use one `W_o`: training the one changes the other. Copy what is "
    "in it, with `load_state_dict` or `copy_`.",
)
def fuse_shares_W_o(loop):
    own = moved(loop)
    own.W_o = loop.W_o
    return own


@misconception(
    "fuse",
    label="parameters of W_o shared",
    hint="`fused.W_o.weight = loop.W_o.weight`, or `.data` of it, is the same tensor under two names: to train the "
    "one changes the other. Copy the numbers: `.clone()` or `copy_`.",
)
def fuse_shares_data(loop):
    own = moved(loop)
    own.W_o.weight.data = loop.W_o.weight.data
    return own


@misconception(
    "fuse",
    label="the loop itself returned",
    hint="The list of heads came back. Make a `MultiHeadAttention`, and put the weights into it.",
)
def fuse_itself(loop):
    return loop


@misconception(
    "fuse",
    label="a dictionary of weights returned",
    hint="The weights came back, and no layer. Load them into a `MultiHeadAttention` and return that.",
)
def fuse_state(loop):
    return moved(loop).state_dict()


@misconception(
    "fuse",
    label="layer not returned",
    hint="The function ends without `return`: the new layer is made, and gone.",
)
def fuse_returns_nothing(loop):
    moved(loop)


@misconception(
    "fuse",
    label="gradients of the loop switched off",
    hint="`requires_grad_(False)` was called on the list of heads, and nobody can train that any more. To copy "
    "numbers, stay inside `with torch.no_grad():`.",
)
def fuse_freezes(loop):
    own = moved(loop)
    loop.requires_grad_(False)
    return own


@misconception(
    "fuse",
    label="loop set to evaluation",
    hint="`loop.eval()` changes what you were given: whoever trains it goes on in the wrong mode. Weights are moved "
    "in either mode.",
)
def fuse_evaluates(loop):
    return moved(loop.eval())


@misconception(
    "fuse",
    label="a note left on the loop",
    hint="An attribute was set on what you were given. Keep it in a variable of your own.",
)
def fuse_notes(loop):
    loop.d_head = loop.d_model // loop.num_heads
    return moved(loop)


@misconception(
    "fuse",
    label="always float32",
    hint="A new layer is float32, and `copy_` converts what is put into it. Convert the layer first: "
    "`.to(loop.W_o.weight.dtype)`.",
)
def fuse_float32(loop):
    return moved(loop).float()


# from_torch: wrong


def unpacked(module, order=(0, 1, 2), cut=None, its_biases=None, last=True, heads=None):
    """Return the layer that was moved, where one step or another may be done otherwise."""
    bias = module.in_proj_bias is not None
    weight = module.in_proj_weight
    own = new_layer(module.embed_dim, heads or module.num_heads, bias, weight)
    weights = cut(weight) if cut else weight.chunk(3)
    with torch.no_grad():
        for name, i in zip(PROJECTIONS, order, strict=True):
            getattr(own, name).weight.copy_(weights[i])
        if bias and its_biases is not False:
            parts = (its_biases or (lambda own: own.chunk(3)))(module.in_proj_bias)
            for name, i in zip(PROJECTIONS, order, strict=True):
                getattr(own, name).bias.copy_(parts[i])
    if last:
        own.W_o.load_state_dict(module.out_proj.state_dict())
    return own


@misconception(
    "from_torch",
    label="keys first",
    hint="The rows are taken as keys, queries, values. In `in_proj_weight` the queries' come first, then the keys', "
    "then the values'.",
)
def from_torch_k_q_v(module):
    return unpacked(module, (1, 0, 2))


@misconception(
    "from_torch",
    label="rows taken head by head",
    hint="The rows are taken as if each head had its queries', keys' and values' side by side. They lie in three "
    "blocks of d_model rows, each with all heads.",
)
def from_torch_head_by_head(module):
    def by_heads(own):
        return own.unflatten(0, (module.num_heads, 3, -1)).transpose(0, 1).flatten(1, 2)

    return unpacked(module, cut=by_heads, its_biases=by_heads)


@misconception(
    "from_torch",
    label="weights turned over",
    hint="`in_proj_weight` has rows as `nn.Linear` has them, (d_out, d_in): no `.T`.",
)
def from_torch_turned(module):
    return unpacked(module, cut=lambda own: [part.T for part in own.chunk(3)])


@misconception(
    "from_torch",
    label="W_o not moved",
    hint="`W_o` is as a new layer draws it. `out_proj` holds it.",
)
def from_torch_without_W_o(module):
    return unpacked(module, last=False)


@misconception(
    "from_torch",
    label="in_proj_bias not moved",
    hint="The biases of `W_q`, `W_k` and `W_v` are as a new layer draws them. They are the three blocks of "
    "`in_proj_bias`.",
)
def from_torch_without_biases(module):
    return unpacked(module, its_biases=False)


@misconception(
    "from_torch",
    label="biases always there",
    hint="The new layer has biases where PyTorch's has none, drawn at random. Ask it: `module.in_proj_bias is not "
    "None`.",
)
def from_torch_always_bias(module):
    if module.in_proj_bias is not None:
        return unpacked(module)
    own = new_layer(module.embed_dim, module.num_heads, True, module.in_proj_weight)
    own.load_state_dict(unpacked(module).state_dict(), strict=False)
    return own


@misconception(
    "from_torch",
    label="biases never there",
    hint="The biases are left out. The new layer has them where `module.in_proj_bias` is not None.",
)
def from_torch_never_bias(module):
    own = new_layer(module.embed_dim, module.num_heads, False, module.in_proj_weight)
    own.load_state_dict(unpacked(module).state_dict(), strict=False)
    return own


@misconception(
    "from_torch",
    label="error where there are no biases",
    hint="With `bias=False`, `module.in_proj_bias` is None, and has no `chunk`. Ask first.",
)
def from_torch_needs_bias(module):
    module.in_proj_bias.chunk(3)
    return unpacked(module)


@misconception(
    "from_torch",
    label="batch_first carried over",
    hint="Where PyTorch's layer has `batch_first=False`, the new one takes tokens first too. Yours takes (b, n, "
    "d_model), wherever its weights came from: of `batch_first` nothing has to be moved.",
)
def from_torch_batch_first(module):
    own = unpacked(module)
    if not module.batch_first:
        own.apart = lambda *inputs: MultiHeadAttention.apart(own, *(X.transpose(0, 1) for X in inputs))
        own.together = lambda Z: merge(Z).transpose(0, 1)
    return own


@misconception(
    "from_torch",
    label="batch_first of the module set",
    hint="`module.batch_first = True` was written on the layer that you were given, and from then on it takes the "
    "first axis for the batch. Your own layer does so anyway: leave that one as it is.",
)
def from_torch_sets_batch_first(module):
    module.batch_first = True
    return unpacked(module)


@misconception(
    "from_torch",
    label="module set to evaluation",
    hint="`module.eval()` changes what you were given: whoever trains it goes on without its dropout. Weights are "
    "moved in either mode.",
)
def from_torch_evaluates(module):
    return unpacked(module.eval())


@misconception(
    "from_torch",
    label="dropout of the module set to 0",
    hint="`module.dropout = 0` was written on the layer that you were given. Its dropout is left behind by itself: "
    "yours has none.",
)
def from_torch_sets_dropout(module):
    module.dropout = 0.0
    return unpacked(module)


@misconception(
    "from_torch",
    label="gradients of the module switched off",
    hint="`requires_grad_(False)` was called on the layer that you were given, and nobody can train that any more. "
    "To copy numbers, stay inside `with torch.no_grad():`.",
)
def from_torch_freezes(module):
    own = unpacked(module)
    module.requires_grad_(False)
    return own


@misconception(
    "from_torch",
    label="one head in the new layer",
    hint="The weights are right, and the new layer has another number of heads. Hand `module.num_heads` on.",
)
def from_torch_one_head(module):
    return unpacked(module, heads=1)


@misconception(
    "from_torch",
    label="out_proj shared",
    hint="`W_o = module.out_proj` makes both layers use one `W_o`: training the one changes the other. Copy what is "
    "in it, with `load_state_dict` or `copy_`.",
)
def from_torch_shares_out_proj(module):
    own = unpacked(module)
    own.W_o = module.out_proj
    return own


@misconception(
    "from_torch",
    label="rows shared with in_proj_weight",
    hint="A slice of `in_proj_weight` is a view: as a parameter of the new layer, or as its `.data`, it is still the "
    "same memory, and to train the one changes the other. `.clone()` it, or `copy_` it into the new layer.",
)
def from_torch_shares_rows(module):
    own = unpacked(module)
    for name, part in zip(PROJECTIONS, module.in_proj_weight.chunk(3), strict=True):
        getattr(own, name).weight = nn.Parameter(part)
    return own


@misconception(
    "from_torch",
    label="always float32",
    hint="A new layer is float32, and `copy_` converts what is put into it. Convert the layer first: "
    "`.to(module.in_proj_weight.dtype)`.",
)
def from_torch_float32(module):
    return unpacked(module).float()


@misconception(
    "from_torch",
    label="PyTorch's layer returned",
    hint="Make a `MultiHeadAttention`, and put the weights of PyTorch's into it.",
)
def from_torch_itself(module):
    return module


@misconception(
    "from_torch",
    label="layer not returned",
    hint="The function ends without `return`: the new layer is made, and gone.",
)
def from_torch_returns_nothing(module):
    unpacked(module)

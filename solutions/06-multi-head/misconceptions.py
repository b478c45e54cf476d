"""Wrong answers that people really give, each with a hint, and right ones that other mistakes are made from. Students
get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import torch
from torch import nn

from checking import families, misconception, misconception_of_each, right

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
    """Return a mask with four axes in the shape of the scores S; raise if it does not match."""
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
    hint="Both heads have the same weights. Each head has its own softmax: (3/4, 1/4) and (1/4, 3/4).",
)
def by_hand_averaged():
    return [10, 10, 2, 2]


@misconception(
    "by_hand",
    label="value columns of the heads swapped",
    hint="Head 1 uses the last two columns of the values, and head 2 the first two. It should be the other way "
    "round.",
)
def by_hand_exchanged():
    return [4, 12, 2, 6]


@misconception(
    "by_hand",
    label="W_o left out",
    hint="These are the outputs of the heads, concatenated. They still have to be multiplied by W_o.",
)
def by_hand_without_output():
    return [3, 1, 6, 2]


@misconception(
    "by_hand",
    label="W_o transposed",
    hint="W_o is multiplied from the wrong side. The row vector is on the left: column j of W_o gives number j of "
    "the output.",
)
def by_hand_transposed():
    return [9, 3, 6, 2]


@misconception(
    "by_hand",
    label="weights computed without exponentials",
    hint="The weights are proportional to the scores themselves, so a score of 0 gets nothing. Take exponentials "
    "first: 3 and 1.",
)
def by_hand_no_exponentials():
    return [20, 0, 4, 0]


# split_heads: wrong


@misconception(
    "split_heads",
    label="reshaped without transpose",
    hint="A single reshape to (b, h, n, d/h) cuts the numbers in memory order, so head 0 gets the first numbers, "
    "not its columns of every token. Split the columns, (b, n, h, d/h), then swap axes 1 and 2.",
)
def split_heads_without_transpose(X, num_heads):
    b, n, d = X.shape
    return X.reshape(b, num_heads, n, divides(d, num_heads))


@misconception(
    "split_heads",
    label="heads given interleaved columns",
    hint="Each head gets every h-th column: `(d/h, h)` instead of `(h, d/h)`. Head i gets d/h adjacent columns.",
)
def split_heads_interleaved(X, num_heads):
    return X.unflatten(-1, (divides(X.shape[-1], num_heads), num_heads)).permute(0, 3, 1, 2)


@misconception(
    "split_heads",
    label="transpose missing",
    hint="The result is (b, n, h, d/h): the transpose is missing. The head axis comes before the token axis, "
    "`.transpose(1, 2)`.",
)
def split_heads_not_transposed(X, num_heads):
    return split(X, num_heads).transpose(1, 2)


@misconception(
    "split_heads",
    label="heads before the batch",
    hint="The result is (h, b, n, d/h). The batch comes first: (b, h, n, d/h).",
)
def split_heads_first_axis(X, num_heads):
    return split(X, num_heads).transpose(0, 1)


@misconception(
    "split_heads",
    label="heads in front of the batch",
    hint="The heads are put in front of the batch, (h, b, n, d/h), and that is reshaped to (b, h, n, d/h). A reshape "
    "does not swap axes.",
)
def split_heads_in_front(X, num_heads):
    return split(X, num_heads).transpose(0, 1).reshape(len(X), num_heads, X.shape[1], -1)


@misconception(
    "split_heads",
    label="heads folded into the batch",
    hint="Heads and batch share one axis: (b h, n, d/h). Give the heads their own axis.",
)
def split_heads_folded(X, num_heads):
    return split(X, num_heads).flatten(0, 1)


@misconception(
    "split_heads",
    label="num_heads used as d/h",
    hint="Each head gets `num_heads` columns, so there are d / num_heads heads. It should be the other way round.",
)
def split_heads_width_for_number(X, num_heads):
    return split(X, divides(X.shape[-1], num_heads))


@misconception(
    "split_heads",
    label="extra columns dropped",
    hint="If d is not a multiple of `num_heads`, `d // num_heads` silently drops columns. Raise `ValueError`.",
)
def split_heads_drops_rest(X, num_heads):
    d_head = X.shape[-1] // num_heads
    return split(X[..., : d_head * num_heads], num_heads)


@misconception(
    "split_heads",
    label="a list of heads",
    hint="The result is a list or tuple of tensors, as returned by `chunk` and `split`. `torch.stack(..., dim=1)` "
    "turns it into one tensor.",
)
def split_heads_list(X, num_heads):
    divides(X.shape[-1], num_heads)
    return list(X.chunk(num_heads, dim=-1))


@misconception(
    "split_heads",
    label="X changed in place",
    hint="Methods that end in `_`, such as `transpose_` and `resize_`, work in place, but the caller still needs "
    "`X`. Drop the `_`.",
)
def split_heads_in_place(X, num_heads):
    Z = split(X, num_heads).clone()
    X.zero_()
    return Z


@misconception(
    "split_heads",
    label="axes mixed when sizes are equal",
    hint="With as many tokens as heads, the axes are mixed up. The meaning of an axis does not depend on its size.",
)
def split_heads_by_size(X, num_heads):
    if X.shape[1] == num_heads:
        return split_heads_without_transpose(X, num_heads)
    return split(X, num_heads)


@misconception(
    "split_heads",
    label="heads of 64 columns",
    hint="If d is a multiple of 64, each head gets 64 columns, as in many models. Here `num_heads` gives the number "
    "of heads, and each head has d / num_heads columns.",
)
def split_heads_of_64(X, num_heads):
    return split(X, num_heads if X.shape[-1] % 64 else X.shape[-1] // 64)


TENSORS = {
    "a list instead of an array": "The result is a list. Drop `.tolist()` and return a tensor.",
    "result in float64": "Drop `.double()` and `.to(torch.float64)`: the result has the dtype of `X`.",
    "axis squeezed away": "An axis of size 1 is missing: `squeeze` removes it. One sequence is still a batch, and "
    "one token is still a row.",
    "only the first sequence": "`[0]` takes the first sequence and drops the rest of the batch. Keep the axis b.",
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
    hint="Reshaping (b, h, n, d_head) puts the tokens of one head next to each other. Swap axes 1 and 2 first, so "
    "that the heads of one token are neighbors.",
)
def merge_heads_without_transpose(X):
    b, h, n, d_head = X.shape
    return X.reshape(b, n, h * d_head)


@misconception(
    "merge_heads",
    label="batch and heads confused",
    hint="(b, h, n, d_head) is reshaped to (h, b, n, d_head), which mixes sequences and heads. A reshape does not "
    "swap axes.",
)
def merge_heads_in_front(X):
    b, h, n, d_head = X.shape
    return X.reshape(h, b, n, d_head).permute(1, 2, 0, 3).reshape(b, n, h * d_head)


@misconception(
    "merge_heads",
    label="batch and heads confused, heads not adjacent",
    hint="(b, h, n, d_head) is reshaped to (h, b, n, d_head), which mixes sequences and heads, and the heads are not "
    "next to the columns when the last two axes are merged.",
)
def merge_heads_in_front_of_tokens(X):
    b, h, n, d_head = X.shape
    return X.reshape(h, b, n, d_head).transpose(1, 2).reshape(b, n, h * d_head)


@misconception(
    "merge_heads",
    label="view of a non-contiguous tensor",
    hint="After `transpose` the numbers are in memory as before, and `view` cannot reshape them. Use "
    "`.contiguous()` first, or `reshape`, which copies if needed.",
)
def merge_heads_view(X):
    b, h, n, d_head = X.shape
    return X.transpose(1, 2).view(b, n, h * d_head)


@misconception(
    "merge_heads",
    label="columns of the heads interleaved",
    hint="The columns are interleaved: the first column of each head, then the second. All columns of head 0 come "
    "first: flatten (b, n, h, d_head), in this order.",
)
def merge_heads_interleaved(X):
    return X.permute(0, 2, 3, 1).flatten(2)


@misconception(
    "merge_heads",
    label="heads summed",
    hint="The results of the heads are added. Concatenate them: nothing is lost, and `W_o` learns how to mix them.",
)
def merge_heads_sum(X):
    return X.sum(1)


@misconception(
    "merge_heads",
    label="heads left unmerged",
    hint="The axes are swapped, but heads and columns are still two axes. Flatten them into one: (b, n, h d_head).",
)
def merge_heads_unmerged(X):
    return X.transpose(1, 2)


@misconception(
    "merge_heads",
    label="X changed in place",
    hint="Methods that end in `_` work in place, but the caller still needs `X`. Drop the `_`.",
)
def merge_heads_in_place(X):
    Z = merge(X).clone()
    X.zero_()
    return Z


@misconception(
    "merge_heads",
    label="transpose skipped when sizes are equal",
    hint="With as many tokens as heads, the transpose is skipped. The meaning of an axis does not depend on its "
    "size.",
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


# The two classes: what they share, in steps that a mistake can replace


class Layer(nn.Module):
    """Multi-head attention, but for its projections."""

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.d_model, self.num_heads, self.d_head = (
            d_model,
            num_heads,
            self.width(d_model, num_heads),
        )
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
        return (
            mask[:, None]
            if mask.dim() == 3
            else mask.expand(1, 1, *mask.shape)
            if mask.dim() == 2
            else mask
        )

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
        named = zip(PROJECTIONS, inputs, strict=True)
        return [
            torch.stack([getattr(head, name)(X) for head in self.heads], 1) for name, X in named
        ]


class MultiHeadAttention(Layer):
    def make(self, d_model, num_heads, bias):
        self.W_q = nn.Linear(d_model, d_model, bias)
        self.W_k = nn.Linear(d_model, d_model, bias)
        self.W_v = nn.Linear(d_model, d_model, bias)

    def apart(self, query, key, value):
        projected = self.W_q(query), self.W_k(key), self.W_v(value)
        return [self.cut(X) for X in projected]

    def cut(self, X):
        return X.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)


of_both = misconception_of_each(MultiHeadAttentionLoop, MultiHeadAttention)


# Both classes, wrong: parameters


@of_both(
    label="names in lower case",
    hint="Weights are loaded by name: `W_q`, `W_k`, `W_v` and `W_o`, with a capital W, and `heads` for the list.",
)
class other_names:
    def state_dict(self, *arguments, **more):
        return {
            name.replace("W_", "w_"): value
            for name, value in super().state_dict(*arguments, **more).items()
        }


@of_both(
    label="super().__init__ missing or late",
    hint="`super().__init__()` is missing or comes too late. It must come first in `__init__`, before any layer.",
)
class not_begun:
    def __init__(self, d_model, num_heads, bias=True):
        divides(d_model, num_heads)
        self.W_o = nn.Linear(d_model, d_model, bias)


@of_both(
    label="W_o missing",
    hint="There is no `W_o`: the heads' results are concatenated, but nothing mixes them. Add `self.W_o`, an "
    "`nn.Linear` from d_model to d_model, and apply it to the concatenated results.",
)
class without_W_o:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        del self.W_o

    def last(self, Z):
        return Z


@of_both(
    label="bias of W_o left on",
    hint="With `bias=False`, `W_o` still has a bias. Pass `bias` to all four layers.",
)
class bias_of_W_o_stays:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.W_o = nn.Linear(d_model, d_model)


@of_both(
    label="bias always there",
    hint="`bias` is ignored: `nn.Linear` has a bias unless it gets `bias=False`. Pass `bias` to each layer.",
)
class bias_ignored:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, True)


@of_both(
    label="one layer too many",
    hint="There are more parameters than requested, from a `LayerNorm` or another layer. Multi-head attention only "
    "has its projections and `W_o`; chapter 7 adds the layers around it.",
)
class layer_too_many:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.norm = nn.LayerNorm(d_model)

    def last(self, Z):
        return self.norm(super().last(Z))


@of_both(
    label="sizes not stored",
    hint="Code that copies weights reads the sizes: `self.d_model, self.num_heads = d_model, num_heads`.",
)
class forgets_sizes:
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.h = num_heads
        del self.d_model, self.num_heads

    def cut(self, X):
        return X.unflatten(-1, (self.h, self.d_head)).transpose(1, 2)


@of_both(
    label="indivisible d_model accepted",
    hint="A d_model that is not a multiple of num_heads is accepted, and `d_model // num_heads` drops columns. "
    "Raise `ValueError` in `__init__`.",
)
class not_divisible:
    def width(self, d_model, num_heads):
        return d_model // num_heads


@of_both(
    label="assert instead of ValueError",
    hint="`assert` raises `AssertionError`, and Python skips it when run with `-O`. Use `if` and `raise "
    "ValueError(...)`.",
)
class asserts:
    def width(self, d_model, num_heads):
        assert d_model % num_heads == 0
        return d_model // num_heads


# Both classes, wrong: inputs in the wrong place


@of_both(
    label="always self-attention",
    hint="Keys and values are computed from `query` even if `key` is given. Use `query` only where `key` is None.",
)
class always_self:
    def sources(self, query, key, value):
        return query, query, query


@of_both(
    label="value ignored",
    hint="The keys are used as values even if `value` is given. Use the key only where `value` is None.",
)
class ignores_value:
    def sources(self, query, key, value):
        key = query if key is None else key
        return query, key, key


@of_both(
    label="value defaults to query",
    hint="Without `value`, the query is used. The default is the key, because keys and values describe the same "
    "tokens.",
)
class value_from_query:
    def sources(self, query, key, value):
        return query, query if key is None else key, query if value is None else value


@of_both(
    label="keys and values swapped",
    hint="`W_k` gets the values and `W_v` the keys. Check the order: query, key, value.",
)
class keys_for_values:
    def sources(self, query, key, value):
        query, key, value = super().sources(query, key, value)
        return query, value, key


@of_both(
    label="keys projected with W_q",
    hint="The keys are projected with `W_q`. They have their own projection, `W_k`.",
)
class keys_by_W_q:
    def apart(self, query, key, value):
        return (
            super().apart(query, key, value)[0],
            super().apart(key, key, value)[0],
            super().apart(query, key, value)[2],
        )


@of_both(
    label="values not projected",
    hint="`W_v` is not used: the values are mixed without a projection. Each of the three inputs has its own "
    "projection.",
)
class values_as_they_are:
    def apart(self, query, key, value):
        q, k, _ = super().apart(query, key, value)
        return q, k, split(value, self.num_heads)


@of_both(
    label="default for key missing",
    hint="Without `key` there is an error, because `None` is projected. Replace a missing key by `query`, and a "
    "missing value by `key`.",
)
class no_defaults:
    def sources(self, query, key, value):
        return query, key, value

    def forward(self, query, key=None, value=None, mask=None):
        return super().forward(query, key, value, mask)


@of_both(
    label="batch and tokens swapped",
    hint="The first axis is read as the tokens, as in `nn.MultiheadAttention` without `batch_first=True`, so each "
    "token attends to other sequences. Here the batch comes first.",
)
class tokens_first:
    def apart(self, query, key, value):
        return super().apart(*(X.transpose(0, 1) for X in (query, key, value)))

    def together(self, Z):
        return super().together(Z).transpose(0, 1)


@of_both(
    label="value dropped if key is missing",
    hint="`layer(query, value=v)` should attend to the query's own tokens and mix v. Each argument has its own "
    "default: first `key = query` if it is missing, then `value = key`.",
)
class value_dropped:
    def sources(self, query, key, value):
        return super().sources(query, key, None if key is None else value)


@of_both(
    label="arguments renamed",
    hint="The layer is called with names, `layer(x, mask=mask)`: `forward` takes `query`, `key`, `value` and `mask`.",
)
class renamed:
    def forward(self, q, k=None, v=None, attn_mask=None):
        return super().forward(q, k, v, attn_mask)


# Both classes, wrong: scores and weights


@of_both(
    label="scaled with d_model, not d_head",
    hint="The scores are divided by sqrt(d_model). Each score is a sum of d_head products: divide by sqrt(d_head), "
    "`q.shape[-1] ** 0.5`.",
)
class scaled_by_d_model:
    def scale(self, S):
        return S / self.d_model**0.5


@of_both(
    label="scores not scaled",
    hint="The scores are not scaled. Each is a sum of d_head products: divide by sqrt(d_head).",
)
class not_scaled:
    def scale(self, S):
        return S


@of_both(
    label="divided by d_head, not sqrt(d_head)",
    hint="The scores are divided by d_head. Take the square root, `q.shape[-1] ** 0.5` or `math.sqrt(d_head)`.",
)
class without_root:
    def scale(self, S):
        return S / self.d_head


@of_both(
    label="softmax over the queries",
    hint="Softmax runs along `dim=-2`. Each query distributes its weight over the keys, which are on the last axis.",
)
class over_queries:
    def weigh(self, S, mask):
        S = S if mask is None else S.masked_fill(~fitting(mask, S), -1e9)
        return S.softmax(-2)


@of_both(
    label="softmax over the heads",
    hint="Softmax runs along `dim=1`. Each head distributes its own weight over the keys, which are on the last "
    "axis, `dim=-1`.",
)
class over_heads:
    def weigh(self, S, mask):
        S = S if mask is None else S.masked_fill(~fitting(mask, S), -1e9)
        return S.softmax(1)


@of_both(
    label="softmax missing",
    hint="The scores themselves are used as weights. `masked_softmax` turns them into weights.",
)
class no_softmax:
    def weigh(self, S, mask):
        return S if mask is None else S * fitting(mask, S)


@of_both(
    label="row maximum not subtracted",
    hint="`exp` of a large score is infinite, and inf / inf is NaN. `softmax` subtracts the row's maximum; if you "
    "compute it by hand, do this first.",
)
class overflows:
    def weigh(self, S, mask):
        E = S.exp() if mask is None else S.exp() * fitting(mask, S)
        total = E.sum(-1, keepdim=True)
        return E / torch.where(total == 0, 1.0, total)


@of_both(
    label="always causal",
    hint="Later keys are hidden although no mask says so. Hide only what the given mask hides.",
)
class hides_later:
    def weigh(self, S, mask):
        past = torch.ones(S.shape[-2:], dtype=torch.bool).tril()
        return share(S, past.expand(S.shape) if mask is None else past & fitting(mask, S))


# Both classes, wrong: masks


@of_both(
    label="mask inverted",
    hint='True means "may attend" here and in `scaled_dot_product_attention`. In `nn.MultiheadAttention` it means '
    "the opposite. Pass the mask to `masked_softmax` unchanged.",
)
class inverted:
    def weigh(self, S, mask):
        return share(S, None if mask is None else ~mask)


@of_both(
    label="mask ignored",
    hint="The mask is not used. `masked_softmax` takes it as its second argument: pass it on.",
)
class unmasked:
    def weigh(self, S, mask):
        return share(S)


@of_both(
    label="mask kept from an earlier call",
    hint="The mask is stored on the layer and affects a later call without a mask. Calls are independent: do not "
    "store it on `self`.",
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
    hint="If the other scores are about as low, a key with the score -100 still gets weight. `-torch.inf` is lower "
    "than any score; the given `masked_softmax` uses it.",
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
    hint="-1e9 is a possible score: if all other scores are lower, the hidden key gets all the weight. `-torch.inf` "
    "is lower than any score; the given `masked_softmax` uses it.",
)
class lower_number(low_number):
    low = -1e9


@of_both(
    label="mask added to the scores",
    hint="True counts as 1, so allowed keys only get a little more weight. Hide the other keys.",
)
class mask_added:
    def weigh(self, S, mask):
        return share(S if mask is None else S + fitting(mask, S))


@of_both(
    label="masked after softmax",
    hint="The remaining weights no longer sum to 1. Mask the scores before the softmax.",
)
class masked_late:
    def weigh(self, S, mask):
        return share(S) if mask is None else share(S) * fitting(mask, S)


@of_both(
    label="masked scores set to 0",
    hint="A score of 0 still gets weight, since e^0 = 1. A score of minus infinity gives a weight of 0.",
)
class masked_to_zero:
    def weigh(self, S, mask):
        return share(S if mask is None else S.masked_fill(~fitting(mask, S), 0.0))


@of_both(
    label="head axis missing in the mask",
    hint="A mask (b, n_q, n_k) broadcasts to scores (b, h, n_q, n_k) from the last axis, so its b is matched with "
    "h. This raises, or if b = h, gives each head the mask of one sequence. Insert a head axis: `mask[:, None]`.",
)
class mask_for_heads:
    def four(self, mask):
        return mask if mask.dim() == 4 else mask.expand(*[1] * (4 - mask.dim()), *mask.shape)


@of_both(
    label="masks repeated in the wrong order",
    hint="Sequences and heads share an axis in which the heads of a sequence are neighbors. The masks are in another "
    "order: neighbors belong to different sequences. Repeat each mask h times in a row, or keep two axes.",
)
class mask_repeated:
    def four(self, mask):
        return mask

    def weigh(self, S, mask):
        if mask is not None:
            b, h, n_q, n_k = S.shape
            mask = mask.expand(b, n_q, n_k) if mask.dim() < 4 else mask.expand(b, h, n_q, n_k)[:, 0]
            mask = mask.repeat(h, 1, 1).reshape(S.shape)
        return share(S, mask)


@of_both(
    label="mask's size-1 axes squeezed away",
    hint="The mask loses its axes of size 1. When sizes are equal it then broadcasts wrongly: (b, 1, n_k) is read "
    "as (n_q, n_k). Keep these axes: each stands for a whole dimension.",
)
class squeezes_mask:
    def weigh(self, S, mask):
        fits = mask is not None and mask.squeeze().shape == S.shape[-2:]
        return super().weigh(S, mask.squeeze() if fits else mask)


@of_both(
    label="four-axis mask not supported",
    hint="A mask with four axes gets another axis, or is misread. It broadcasts to the scores as it is: leave it "
    "alone.",
)
class no_four_axes:
    def four(self, mask):
        return mask[None, None] if mask.dim() == 2 else mask[:, None]


@of_both(
    label="mask transposed",
    hint="The mask is transposed. Its rows belong to queries, its columns to keys.",
)
class mask_turned:
    def four(self, mask):
        return super().four(mask).transpose(-1, -2)


@of_both(
    label="NaN in fully masked rows",
    hint="A fully masked query has only scores of -inf, and softmax returns NaN for them. The given "
    "`masked_softmax` returns zero weights.",
)
class empty_rows_nan:
    def weigh(self, S, mask):
        return (
            share(S) if mask is None else S.masked_fill(~fitting(mask, S), -torch.inf).softmax(-1)
        )


@of_both(
    label="equal weights in fully masked rows",
    hint="A fully masked query attends to every key equally, because all its scores are the same low number, such "
    "as -1e9. Its weights should be 0.",
)
class empty_rows_equal:
    def weigh(self, S, mask):
        return (
            share(S)
            if mask is None
            else S.masked_fill(~fitting(mask, S), torch.finfo(S.dtype).min).softmax(-1)
        )


@of_both(
    label="bias dropped in fully masked rows",
    hint="The whole output of a fully masked query is set to 0. Only the weighted sum is 0: `W_o` and its bias are "
    "applied after it.",
)
class empty_rows_zero:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out * (A.sum((1, 3)) > 0)[..., None], A


@of_both(
    label="NaN in the gradient",
    hint="The results are right, but the gradient is NaN for a fully masked query: -inf was added, and 0 times NaN "
    "is NaN in the backward pass. `masked_fill` prevents this, and the given `masked_softmax` uses it.",
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
    label="mask with one column stretched",
    hint="A mask with one column is stretched to all keys. Its last size must be n_k: raise otherwise, as "
    "`masked_softmax` does.",
)
class mask_stretched:
    def weigh(self, S, mask):
        return share(S, None if mask is None else mask.expand(*mask.shape[:-1], S.shape[-1]))


@of_both(
    label="mask cropped to fit",
    hint="A larger mask is cropped to the first n_q rows and n_k columns, which may mean something else: a causal "
    "mask is aligned at the end. Leave it alone; PyTorch raises on a shape mismatch.",
)
class mask_cut:
    def weigh(self, S, mask):
        return share(S, None if mask is None else mask[..., : S.shape[-2], : S.shape[-1]])


# Both classes, wrong: results of the heads


@of_both(
    label="reshaped without transpose",
    hint="The heads' results (b, h, n, d_head) are reshaped directly to (b, n, d_model), which puts tokens of one "
    "head next to each other. Swap axes 1 and 2 first, as `merge_heads` does.",
)
class merged_without_transpose:
    def together(self, Z):
        return Z.reshape(len(Z), Z.shape[2], -1)


@of_both(
    label="columns of the heads interleaved",
    hint="The heads' results are interleaved: the first column of each head, then the second. All columns of head 0 "
    "come first.",
)
class merged_interleaved:
    def together(self, Z):
        return Z.permute(0, 2, 3, 1).flatten(2)


@of_both(
    label="heads summed or averaged",
    hint="The heads' results are added or averaged, so only d_head columns are left and `W_o` rejects them. "
    "Concatenate the results.",
)
class sum_of_heads:
    def together(self, Z):
        return Z.sum(1)


@of_both(
    label="W_o transposed",
    hint="`W_o.weight` is multiplied from the wrong side. `self.W_o(Z)` computes the right product, Z W^T plus the "
    "bias.",
)
class W_o_turned:
    def last(self, Z):
        return nn.functional.linear(Z, self.W_o.weight.T, self.W_o.bias)


@of_both(
    label="W_o not applied",
    hint="`W_o` exists but is never used. Apply it to the concatenated results of the heads.",
)
class W_o_unused:
    def last(self, Z):
        return Z


@of_both(
    label="bias of W_o ignored",
    hint="`self.W_o(Z)` adds the bias; a product with `W_o.weight` does not.",
)
class W_o_without_bias:
    def last(self, Z):
        return Z @ self.W_o.weight.T


@of_both(
    label="query added to the output",
    hint="The query is added to the output. That is the residual connection of chapter 7, not part of this layer.",
)
class residual:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out + query, A


@of_both(
    label="weights averaged over the heads",
    hint="The weights are averaged over the heads, as in `nn.MultiheadAttention` by default. Return the weights of "
    "each head: (b, h, n_q, n_k).",
)
class weights_averaged:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A.mean(1)


@of_both(
    label="heads before the batch",
    hint="The weights have shape (h, b, n_q, n_k). The batch comes first: (b, h, n_q, n_k); `torch.stack(..., "
    "dim=1)` does this.",
)
class heads_first:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A.transpose(0, 1)


@of_both(
    label="scores returned instead of weights",
    hint="The second result contains the scores. Return the weights, which softmax computes from them.",
)
class scores_returned:
    def forward(self, query, key=None, value=None, mask=None):
        q, k, _ = self.apart(*self.sources(query, key, value))
        return super().forward(query, key, value, mask)[0], self.scores(q, k)


@of_both(
    label="output and weights swapped",
    hint="The order is swapped. Return the output first, then the weights.",
)
class weights_first:
    def forward(self, query, key=None, value=None, mask=None):
        return super().forward(query, key, value, mask)[::-1]


@of_both(
    label="weights not returned",
    hint="Only the output is returned. Return both the output and the weights.",
)
class output_alone:
    def forward(self, query, key=None, value=None, mask=None):
        return super().forward(query, key, value, mask)[0]


# Both classes, wrong: gradients, modes, dtypes, inputs


@of_both(
    label="weights detached",
    hint="The weights are detached before they mix the values, so `W_q` and `W_k` learn nothing. Avoid `detach`, "
    "`.data` and `no_grad`.",
)
class cuts_weights:
    def mixed(self, A, v):
        return A.detach() @ v


@of_both(
    label="returned weights detached",
    hint="The weights are detached before they are returned. A loss may use them, for example to make heads differ, "
    "and needs their gradient: return them as they are.",
)
class weights_cut_off:
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A.detach()


@of_both(
    label="values passed through NumPy",
    hint="The values, or the results of the heads, pass through NumPy or `detach`. `W_v` and all earlier layers "
    "learn nothing. Keep using tensors.",
)
class through_numpy:
    def mixed(self, A, v):
        return (
            torch.from_numpy((A @ v).detach().numpy())
            if v.dtype != torch.bfloat16
            else (A @ v).detach()
        )


@of_both(
    label="input detached",
    hint="The parameters get gradients, but the inputs do not: `query.detach()`, `.data` or `torch.tensor(query)` "
    "cuts them off. The layers before this one also have to learn.",
)
class inputs_detached:
    def sources(self, query, key, value):
        return [X.detach() for X in super().sources(query, key, value)]


@of_both(
    label="dropout in training mode",
    hint="This layer has no dropout: the same inputs always give the same result.",
)
class dropout:
    def weigh(self, S, mask):
        return nn.functional.dropout(super().weigh(S, mask), 0.1, self.training)


@of_both(
    label="results always float32",
    hint="Drop `.float()`, also before softmax, or convert back: the results have the dtype of inputs and "
    "parameters.",
)
class always_float32:
    def forward(self, query, key=None, value=None, mask=None):
        return tuple(result.float() for result in super().forward(query, key, value, mask))


@of_both(
    label="query scaled in place",
    hint="`*=`, `+=` and methods that end in `_` change a tensor that the caller still needs.",
)
class query_in_place:
    def forward(self, query, key=None, value=None, mask=None):
        results = super().forward(query, key, value, mask)
        query.data /= self.d_head**0.5
        return results


@of_both(
    label="mask inverted in place",
    hint="The caller still needs the mask. Use `~mask`, which creates a new tensor.",
)
class mask_in_place:
    def forward(self, query, key=None, value=None, mask=None):
        results = super().forward(query, key, value, mask)
        if mask is not None:
            mask.logical_not_()
        return results


@of_both(
    label="extra keys or values dropped",
    hint="A key without a value is an error of the caller: raise `ValueError`, or let `@` raise.",
)
class rest_dropped:
    def sources(self, query, key, value):
        query, key, value = super().sources(query, key, value)
        n = min(key.shape[1], value.shape[1])
        return query, key[:, :n], value[:, :n]


@of_both(
    label="single key or value stretched",
    hint="`*`, `expand` and `einsum` silently repeat a single key or value. `@` raises by itself.",
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
    hint="`heads` is a Python list, and a module does not search lists. Its parameters are missing in "
    "`parameters()` and `state_dict`, and no optimizer updates them. Use `nn.ModuleList([...])`.",
)
class MultiHeadAttentionLoop_list(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = [Head(d_model, self.d_head, bias) for _ in range(num_heads)]


@misconception(
    "MultiHeadAttentionLoop",
    label="one head used h times",
    hint="`[head] * num_heads` repeats the same head h times: the heads share weights and compute the same. Create "
    "a new one each time, `[Head(...) for _ in range(num_heads)]`.",
)
class MultiHeadAttentionLoop_shared(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = nn.ModuleList([Head(d_model, self.d_head, bias)] * num_heads)


@misconception(
    "MultiHeadAttentionLoop",
    label="heads of full width",
    hint="Each head projects to d_model columns. It should have d_model / num_heads columns, so that all heads "
    "together have d_model.",
)
class MultiHeadAttentionLoop_full_width(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = nn.ModuleList([Head(d_model, d_model, bias) for _ in range(num_heads)])


@misconception(
    "MultiHeadAttentionLoop",
    label="wrong number of heads",
    hint="`heads` does not have num_heads entries. Use `range(num_heads)`.",
)
class MultiHeadAttentionLoop_fewer(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = nn.ModuleList([Head(d_model, self.d_head, bias) for _ in range(1, num_heads)])


@misconception(
    "MultiHeadAttentionLoop",
    label="columns of the input split",
    hint="The input's columns are split among the heads, and each head projects only its share. Every head sees all "
    "d_model columns: its projections are (d_model, d_head).",
)
class MultiHeadAttentionLoop_splits_input(MultiHeadAttentionLoop):
    def make(self, d_model, num_heads, bias):
        self.heads = nn.ModuleList([Head(self.d_head, self.d_head, bias) for _ in range(num_heads)])


@misconception(
    "MultiHeadAttentionLoop",
    label="W_o in every head",
    hint="Each head has its own `W_o`. There should be one `W_o` for all heads, next to `heads`.",
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
    hint="This is the batched layer, with one `W_q` for all heads. Here `heads` is a list, and each head has its "
    "own projections.",
)
class MultiHeadAttentionLoop_batched(MultiHeadAttention):
    pass


@misconception(
    "MultiHeadAttentionLoop",
    label="only the last head's weights",
    hint="The weights of one head are returned for all, because the loop overwrites them. Collect the weights of "
    "all heads in a list and stack them.",
)
class MultiHeadAttentionLoop_last_weights(MultiHeadAttentionLoop):
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A[:, -1:].expand(A.shape)


@misconception(
    "MultiHeadAttentionLoop",
    label="weights concatenated, not stacked",
    hint="The heads' weights are concatenated along an existing axis, as in (b, n_q, h n_k). `torch.stack(..., "
    "dim=1)` adds a new axis for them.",
)
class MultiHeadAttentionLoop_weights_cat(MultiHeadAttentionLoop):
    def forward(self, query, key=None, value=None, mask=None):
        out, A = super().forward(query, key, value, mask)
        return out, A.transpose(1, 2).flatten(2)


# MultiHeadAttentionLoop: right


@families("a list instead of an array", "an array instead of a tensor", "cut off from autograd", "axis squeezed away",
    "result in float64", "a dictionary instead of a tuple", "returns nothing",
    but=["result in float64"], hints={
        "a list instead of an array": "The results are lists. Drop `.tolist()` and return tensors.",
        "axis squeezed away": "An axis of size 1 is missing: `squeeze` removes it. The weights of a single head "
        "keep the head axis.",
    })  # fmt: skip
@right("MultiHeadAttentionLoop")
class MultiHeadAttentionLoop_stacked(MultiHeadAttentionLoop):
    pass


# MultiHeadAttention: wrong


@misconception(
    "MultiHeadAttention",
    label="split without transpose",
    hint="The projections are reshaped to (b, h, n, d_head) in one step, so head 0 gets the first numbers in "
    "memory. `split_heads` splits the columns, then swaps axes 1 and 2.",
)
class MultiHeadAttention_reshaped(MultiHeadAttention):
    def cut(self, X):
        return X.reshape(len(X), self.num_heads, X.shape[1], self.d_head)


@misconception(
    "MultiHeadAttention",
    label="heads given interleaved columns",
    hint="Each head gets every h-th column. It should get d_head adjacent columns, as in `split_heads`.",
)
class MultiHeadAttention_interleaved(MultiHeadAttention):
    def cut(self, X):
        return X.unflatten(-1, (self.d_head, self.num_heads)).permute(0, 3, 1, 2)


@misconception(
    "MultiHeadAttention",
    label="attention between heads",
    hint="The heads attend to each other within each token: the transpose to (b, h, n, d_head) is missing, so the "
    "scores are (b, n, h, h). The last two axes must be tokens and columns.",
)
class MultiHeadAttention_between_heads(MultiHeadAttention):
    def cut(self, X):
        return X.unflatten(-1, (self.num_heads, self.d_head))

    def together(self, Z):
        return Z.flatten(2)


@misconception(
    "MultiHeadAttention",
    label="one head of full width",
    hint="There is only one head: softmax sees all d_model columns at once. Split after projecting, and attend in "
    "each head.",
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
    hint="The weights are plain tensors, not parameters, so they are missing in `state_dict` and no optimizer "
    "updates them. `nn.Linear` registers its own.",
)
class MultiHeadAttention_plain_tensors(MultiHeadAttention):
    def make(self, d_model, num_heads, bias):
        self.plain = [torch.randn(d_model, d_model) for _ in PROJECTIONS]

    def apart(self, *inputs):
        return [self.cut(X @ W.to(X.dtype)) for X, W in zip(inputs, self.plain, strict=True)]


@misconception(
    "MultiHeadAttention",
    label="parameters instead of nn.Linear",
    hint="`W_q` and the others are `nn.Parameter`, so they are named `W_q` instead of `W_q.weight`. Use "
    "`nn.Linear`, whose names are expected when weights are loaded.",
)
class MultiHeadAttention_parameters(MultiHeadAttention):
    def make(self, d_model, num_heads, bias):
        self.W_q, self.W_k, self.W_v = (
            nn.Parameter(torch.randn(d_model, d_model)) for _ in PROJECTIONS
        )

    def apart(self, *inputs):
        return [
            self.cut(X @ W) for X, W in zip(inputs, (self.W_q, self.W_k, self.W_v), strict=True)
        ]


@misconception(
    "MultiHeadAttention",
    label="one projection instead of three",
    hint="One matrix computes queries, keys and values, like `in_proj_weight`. Use three: `W_q`, `W_k` and `W_v`.",
)
class MultiHeadAttention_packed(MultiHeadAttention):
    def make(self, d_model, num_heads, bias):
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias)

    def apart(self, *inputs):
        return [self.cut(self.W_qkv(X).chunk(3, -1)[i]) for i, X in enumerate(inputs)]


@misconception(
    "MultiHeadAttention",
    label="PyTorch's layer inside",
    hint="`nn.MultiheadAttention` does the work, with its own parameter names. Write the layer with four "
    "`nn.Linear`.",
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
    hint="`W_q`, `W_k` and `W_v` project to d_head columns, enough for one head. They contain the rows of all "
    "heads: d_model to d_model.",
)
class MultiHeadAttention_narrow(MultiHeadAttention):
    def make(self, d_model, num_heads, bias):
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, self.d_head, bias) for _ in PROJECTIONS)


@misconception(
    "MultiHeadAttention",
    label="list of heads instead",
    hint="This is the list of heads of 6.3. Here `W_q`, `W_k` and `W_v` contain all heads' rows, and there is no "
    "loop.",
)
class MultiHeadAttention_list(MultiHeadAttentionLoop):
    pass


@misconception(
    "MultiHeadAttention",
    label="not an nn.Module",
    hint="The class does not inherit from `nn.Module`, or `super().__init__()` is not called: it has no parameters "
    "and no `state_dict`, and cannot be trained. Use `class MultiHeadAttention(nn.Module)`.",
)
class MultiHeadAttention_no_module:
    def __init__(self, d_model, num_heads, bias=True):
        self.d_model, self.num_heads = d_model, num_heads
        divides(d_model, num_heads)


# MultiHeadAttention: right


@families("a list instead of an array", "an array instead of a tensor", "cut off from autograd", "axis squeezed away",
    "a dictionary instead of a tuple", "returns nothing",
    hints={
        "a list instead of an array": "The results are lists. Drop `.tolist()` and return tensors.",
        "axis squeezed away": "An axis of size 1 is missing: `squeeze` removes it. The weights of a single head "
        "keep the head axis.",
    })  # fmt: skip
@right("MultiHeadAttention")
class MultiHeadAttention_in_steps(MultiHeadAttention):
    pass


# fuse: right and wrong


def parts_of(loop, name, kind):
    return [getattr(getattr(head, name), kind) for head in loop.heads]


def rows(parts):
    return torch.cat(parts)


def new_layer(d_model, num_heads, bias, like):
    return MultiHeadAttention(d_model, num_heads, bias).to(like.dtype)


def moved(loop, put=rows, names=PROJECTIONS, biases=True, last=True, heads=None):
    """Return the fused layer; subclasses replace single steps."""
    bias = loop.W_o.bias is not None
    layer = new_layer(loop.d_model, heads or loop.num_heads, bias, loop.W_o.weight)
    with torch.no_grad():
        for name, source in zip(PROJECTIONS, names, strict=True):
            getattr(layer, name).weight.copy_(put(parts_of(loop, source, "weight")))
            if bias and biases:
                getattr(layer, name).bias.copy_(put(parts_of(loop, source, "bias")))
    if last:
        layer.W_o.load_state_dict(loop.W_o.state_dict())
    return layer


@right("fuse")
def fuse_in_steps(loop):
    return moved(loop)


@misconception(
    "fuse",
    label="rows of the heads interleaved",
    hint="The rows are interleaved: the first row of each head, then the second. All rows of head 0 come first: "
    "`torch.cat`.",
)
def fuse_interleaved(loop):
    return moved(loop, lambda parts: torch.stack(parts, 1).flatten(0, 1))


@misconception(
    "fuse",
    label="W_o not copied",
    hint="`W_o` still has its random initial values. Copy it unchanged, with its bias.",
)
def fuse_without_W_o(loop):
    return moved(loop, last=False)


@misconception(
    "fuse",
    label="biases of the heads not copied",
    hint="The biases of `W_q`, `W_k` and `W_v` still have their random initial values. Concatenate them like the "
    "weights: `torch.cat`.",
)
def fuse_without_biases(loop):
    return moved(loop, biases=False)


@misconception(
    "fuse",
    label="no weights copied",
    hint="This is a new layer with random weights. Copy the heads' rows into it.",
)
def fuse_nothing(loop):
    return new_layer(loop.d_model, loop.num_heads, loop.W_o.bias is not None, loop.W_o.weight)


@misconception(
    "fuse",
    label="biases always there",
    hint="The new layer has random biases although the list of heads has none. Check: `loop.W_o.bias is not None`.",
)
def fuse_always_bias(loop):
    if loop.W_o.bias is not None:
        return moved(loop)
    layer = new_layer(loop.d_model, loop.num_heads, True, loop.W_o.weight)
    layer.load_state_dict(moved(loop).state_dict(), strict=False)
    return layer


@misconception(
    "fuse",
    label="biases never there",
    hint="The biases are missing. `MultiHeadAttention(..., bias=...)` has them if `loop.W_o.bias` is not None.",
)
def fuse_never_bias(loop):
    layer = new_layer(loop.d_model, loop.num_heads, False, loop.W_o.weight)
    layer.load_state_dict(moved(loop).state_dict(), strict=False)
    return layer


@misconception(
    "fuse",
    label="error without biases",
    hint="Without biases, `loop.W_o.bias` and the heads' biases are None, and None cannot be copied or "
    "concatenated. Check first.",
)
def fuse_needs_bias(loop):
    layer = moved(loop)
    torch.cat(parts_of(loop, "W_q", "bias"))
    return layer


@misconception(
    "fuse",
    label="width from another attribute",
    hint="`loop.d_head` is an attribute of your own class, but `loop` may be another module: use only its `heads`, "
    "`W_o`, `d_model` and `num_heads`. The width is d_model / num_heads.",
)
def fuse_uses_d_head(loop):
    loop.d_head  # noqa: B018
    return moved(loop)


@misconception(
    "fuse",
    label="weights transposed",
    hint="`nn.Linear` already stores (d_out, d_in): stack the heads' rows below each other without transposing.",
)
def fuse_turned(loop):
    return moved(loop, lambda parts: torch.cat(parts).T if parts[0].dim() > 1 else torch.cat(parts))


@misconception(
    "fuse",
    label="heads concatenated along columns",
    hint="Concatenated along `dim=1` or -1, the weights have shape (d_head, h d_model). Rows of the weight are "
    "columns of the result, so stack them along `dim=0`.",
)
def fuse_side_by_side(loop):
    layer = moved(loop)
    for name in PROJECTIONS:
        getattr(layer, name).weight = nn.Parameter(torch.cat(parts_of(loop, name, "weight"), dim=1))
    return layer


@misconception(
    "fuse",
    label="key weights used for the values",
    hint="`W_v` contains the rows of `W_k`. Each projection has its own rows.",
)
def fuse_keys_for_values(loop):
    return moved(loop, names=("W_q", "W_k", "W_k"))


@misconception(
    "fuse",
    label="one head in the new layer",
    hint="The weights are right, but the new layer has the wrong number of heads. Pass `loop.num_heads`.",
)
def fuse_one_head(loop):
    return moved(loop, heads=1)


@misconception(
    "fuse",
    label="W_o shared with the loop",
    hint="`fused.W_o = loop.W_o` makes both layers share one `W_o`: training one changes the other. Copy the "
    "values, with `load_state_dict` or `copy_`.",
)
def fuse_shares_W_o(loop):
    layer = moved(loop)
    layer.W_o = loop.W_o
    return layer


@misconception(
    "fuse",
    label="parameters of W_o shared",
    hint="`fused.W_o.weight = loop.W_o.weight`, or its `.data`, is the same tensor under two names: training one "
    "changes the other. Copy the numbers with `.clone()` or `copy_`.",
)
def fuse_shares_data(loop):
    layer = moved(loop)
    layer.W_o.weight.data = loop.W_o.weight.data
    return layer


@misconception(
    "fuse",
    label="the loop itself returned",
    hint="The list of heads itself is returned. Create a `MultiHeadAttention` and copy the weights into it.",
)
def fuse_itself(loop):
    return loop


@misconception(
    "fuse",
    label="a dictionary of weights returned",
    hint="The weights are returned, but no layer. Load them into a `MultiHeadAttention` and return that.",
)
def fuse_state(loop):
    return moved(loop).state_dict()


@misconception(
    "fuse",
    label="layer not returned",
    hint="The function ends without `return`, so the new layer is lost.",
)
def fuse_returns_nothing(loop):
    moved(loop)


@misconception(
    "fuse",
    label="gradients of the loop turned off",
    hint="`requires_grad_(False)` is called on the list of heads, so it can no longer be trained. To copy numbers, "
    "use `with torch.no_grad():`.",
)
def fuse_freezes(loop):
    layer = moved(loop)
    loop.requires_grad_(False)
    return layer


@misconception(
    "fuse",
    label="loop set to evaluation mode",
    hint="`loop.eval()` changes the caller's module, which may still be in training. Weights can be copied in "
    "either mode.",
)
def fuse_evaluates(loop):
    return moved(loop.eval())


@misconception(
    "fuse",
    label="attribute set on the loop",
    hint="An attribute is set on the given module. Keep the value in a local variable.",
)
def fuse_notes(loop):
    loop.d_head = loop.d_model // loop.num_heads
    return moved(loop)


@misconception(
    "fuse",
    label="always float32",
    hint="A new layer is float32, and `copy_` converts the values to that. Convert the layer first: "
    "`.to(loop.W_o.weight.dtype)`.",
)
def fuse_float32(loop):
    return moved(loop).float()


# from_torch: right and wrong


def unpacked(module, order=(0, 1, 2), cut=None, its_biases=None, last=True, heads=None):
    """Return the new layer; subclasses replace single steps."""
    bias = module.in_proj_bias is not None
    weight = module.in_proj_weight
    layer = new_layer(module.embed_dim, heads or module.num_heads, bias, weight)
    weights = cut(weight) if cut else weight.chunk(3)
    with torch.no_grad():
        for name, i in zip(PROJECTIONS, order, strict=True):
            getattr(layer, name).weight.copy_(weights[i])
        if bias and its_biases is not False:
            parts = (its_biases or (lambda packed: packed.chunk(3)))(module.in_proj_bias)
            for name, i in zip(PROJECTIONS, order, strict=True):
                getattr(layer, name).bias.copy_(parts[i])
    if last:
        layer.W_o.load_state_dict(module.out_proj.state_dict())
    return layer


@right("from_torch")
def from_torch_in_steps(module):
    return unpacked(module)


@misconception(
    "from_torch",
    label="blocks read as keys first",
    hint="The rows are read as keys, queries, values. In `in_proj_weight`, the queries come first, then the keys, "
    "then the values.",
)
def from_torch_k_q_v(module):
    return unpacked(module, (1, 0, 2))


@misconception(
    "from_torch",
    label="rows read head by head",
    hint="The rows are read as if each head's queries, keys and values were adjacent. They are in three blocks of "
    "d_model rows, each with all heads.",
)
def from_torch_head_by_head(module):
    def by_heads(packed):
        return packed.unflatten(0, (module.num_heads, 3, -1)).transpose(0, 1).flatten(1, 2)

    return unpacked(module, cut=by_heads, its_biases=by_heads)


@misconception(
    "from_torch",
    label="weights transposed",
    hint="`in_proj_weight` has the same layout as `nn.Linear`, (d_out, d_in): do not transpose it.",
)
def from_torch_turned(module):
    return unpacked(module, cut=lambda packed: [part.T for part in packed.chunk(3)])


@misconception(
    "from_torch",
    label="W_o not copied",
    hint="`W_o` still has its random initial values. Copy them from `out_proj`.",
)
def from_torch_without_W_o(module):
    return unpacked(module, last=False)


@misconception(
    "from_torch",
    label="in_proj_bias not copied",
    hint="The biases of `W_q`, `W_k` and `W_v` still have their random initial values. They are the three blocks of "
    "`in_proj_bias`.",
)
def from_torch_without_biases(module):
    return unpacked(module, its_biases=False)


@misconception(
    "from_torch",
    label="biases always there",
    hint="The new layer has random biases although PyTorch's layer has none. Check `module.in_proj_bias is not "
    "None`.",
)
def from_torch_always_bias(module):
    if module.in_proj_bias is not None:
        return unpacked(module)
    layer = new_layer(module.embed_dim, module.num_heads, True, module.in_proj_weight)
    layer.load_state_dict(unpacked(module).state_dict(), strict=False)
    return layer


@misconception(
    "from_torch",
    label="biases never there",
    hint="The biases are missing. The new layer has them if `module.in_proj_bias` is not None.",
)
def from_torch_never_bias(module):
    layer = new_layer(module.embed_dim, module.num_heads, False, module.in_proj_weight)
    layer.load_state_dict(unpacked(module).state_dict(), strict=False)
    return layer


@misconception(
    "from_torch",
    label="error without biases",
    hint="With `bias=False`, `module.in_proj_bias` is None and has no `chunk`. Check first.",
)
def from_torch_needs_bias(module):
    module.in_proj_bias.chunk(3)
    return unpacked(module)


@misconception(
    "from_torch",
    label="batch_first carried over",
    hint="If PyTorch's layer has `batch_first=False`, the new layer also takes tokens first. Your layer takes (b, "
    "n, d_model) wherever its weights come from, so do not copy `batch_first`.",
)
def from_torch_batch_first(module):
    layer = unpacked(module)
    if not module.batch_first:
        layer.apart = lambda *inputs: MultiHeadAttention.apart(
            layer, *(X.transpose(0, 1) for X in inputs)
        )
        layer.together = lambda Z: merge(Z).transpose(0, 1)
    return layer


@misconception(
    "from_torch",
    label="batch_first of the module changed",
    hint="`module.batch_first = True` changes the given layer, which then reads its first axis as the batch. Your "
    "own layer always does that: leave the given layer unchanged.",
)
def from_torch_sets_batch_first(module):
    module.batch_first = True
    return unpacked(module)


@misconception(
    "from_torch",
    label="module set to evaluation mode",
    hint="`module.eval()` changes the caller's layer, which would then train without dropout. Weights can be copied "
    "in either mode.",
)
def from_torch_evaluates(module):
    return unpacked(module.eval())


@misconception(
    "from_torch",
    label="dropout of the module set to 0",
    hint="`module.dropout = 0` changes the given layer. Leave it unchanged: your own layer has no dropout.",
)
def from_torch_sets_dropout(module):
    module.dropout = 0.0
    return unpacked(module)


@misconception(
    "from_torch",
    label="gradients of the module turned off",
    hint="`requires_grad_(False)` is called on the given layer, so it can no longer be trained. To copy numbers, "
    "use `with torch.no_grad():`.",
)
def from_torch_freezes(module):
    layer = unpacked(module)
    module.requires_grad_(False)
    return layer


@misconception(
    "from_torch",
    label="one head in the new layer",
    hint="The weights are right, but the new layer has the wrong number of heads. Pass `module.num_heads`.",
)
def from_torch_one_head(module):
    return unpacked(module, heads=1)


@misconception(
    "from_torch",
    label="out_proj shared",
    hint="`W_o = module.out_proj` makes both layers share one `W_o`: training one changes the other. Copy the "
    "values, with `load_state_dict` or `copy_`.",
)
def from_torch_shares_out_proj(module):
    layer = unpacked(module)
    layer.W_o = module.out_proj
    return layer


@misconception(
    "from_torch",
    label="memory shared with in_proj_weight",
    hint="A slice of `in_proj_weight` is a view: used as a parameter of the new layer, or as its `.data`, it shares "
    "memory, and training one changes the other. `.clone()` it, or `copy_` it into the new layer.",
)
def from_torch_shares_rows(module):
    layer = unpacked(module)
    for name, part in zip(PROJECTIONS, module.in_proj_weight.chunk(3), strict=True):
        getattr(layer, name).weight = nn.Parameter(part)
    return layer


@misconception(
    "from_torch",
    label="always float32",
    hint="A new layer is float32, and `copy_` converts the values to that. Convert the layer first: "
    "`.to(module.in_proj_weight.dtype)`.",
)
def from_torch_float32(module):
    return unpacked(module).float()


@misconception(
    "from_torch",
    label="PyTorch's layer returned",
    hint="Create a `MultiHeadAttention`, and copy the weights of PyTorch's layer into it.",
)
def from_torch_itself(module):
    return module


@misconception(
    "from_torch",
    label="layer not returned",
    hint="The function ends without `return`, so the new layer is lost.",
)
def from_torch_returns_nothing(module):
    unpacked(module)

"""Wrong answers that people really give, each with the hint it deserves; and right ones that other mistakes are made
from.

A check that fails is explained by the listed answer that behaves as the student's function does. The tests
of the course prove that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from checking import families, misconception, right

# by_hand: wrong


@misconception(
    "by_hand",
    label="post-norm instead of pre-norm",
    hint="The norms were taken after the sums. Here each part gets the normed stream, and what it finds is added to "
    "the stream as it was.",
)
def by_hand_post_norm():
    return [0.19, 0.67, -1.71, 0.84]


@misconception(
    "by_hand",
    label="the second residual left out",
    hint="This is what the feed-forward network adds. It still has to be added to x'.",
)
def by_hand_without_residual():
    return [5, 10, 0, -2]


@misconception(
    "by_hand",
    label="added to x instead of x'",
    hint="What the feed-forward network finds was added to x. It is added to x', which has what attention found in "
    "it.",
)
def by_hand_added_to_x():
    return [6, 11, 5, 3]


@misconception(
    "by_hand",
    label="GELU left out",
    hint="The hidden number -10 went on to the second matrix. GELU makes 0 of it, to two decimals.",
)
def by_hand_without_gelu():
    return [-2, 11, -17, -3]


@misconception(
    "by_hand",
    label="feed-forward left out",
    hint="This is x', what the stream is after attention. It goes on through the feed-forward network.",
)
def by_hand_attention_alone():
    return [3, 1, 3, 9]


@misconception(
    "by_hand",
    label="residual from the normed stream",
    hint="What each part finds was added to the normed stream. It is added to the stream as it was before the norm.",
)
def by_hand_residual_after_norm():
    return [4.67, 9, -0.33, -0.33]


# FeedForward, in steps that a mistake can take the place of


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def curve(self, hidden):
        return functional.gelu(hidden)

    def forward(self, x):
        return self.linear2(self.curve(self.linear1(x)))


# FeedForward: wrong


@misconception(
    "FeedForward",
    label="ReLU instead of GELU",
    hint="The curve is ReLU, which is 0 below 0. GELU is a little below: `nn.functional.gelu`.",
)
class FeedForward_relu(FeedForward):
    def curve(self, hidden):
        return hidden.relu()


@misconception(
    "FeedForward",
    label="the approximate GELU",
    hint='`approximate="tanh"` is close to GELU and is another curve, which shows where t is about -3. Leave it out.',
)
class FeedForward_tanh_gelu(FeedForward):
    def curve(self, hidden):
        return functional.gelu(hidden, approximate="tanh")


@misconception(
    "FeedForward",
    label="erf without the root of 2",
    hint="`erf(t)` stands where `erf(t / sqrt(2))` should: the normal distribution is (1 + erf(t / sqrt(2))) / 2.",
)
class FeedForward_erf(FeedForward):
    def curve(self, hidden):
        return hidden * 0.5 * (1 + torch.erf(hidden))


@misconception(
    "FeedForward",
    label="nothing between the layers",
    hint="There is no GELU between the two layers, and two linear layers in a row are one.",
)
class FeedForward_linear(FeedForward):
    def curve(self, hidden):
        return hidden


@misconception(
    "FeedForward",
    label="GELU at the end only",
    hint="GELU stands after the second layer. It stands between the two.",
)
class FeedForward_at_the_end(FeedForward):
    def forward(self, x):
        return functional.gelu(self.linear2(self.linear1(x)))


@misconception(
    "FeedForward",
    label="x added to the result",
    hint="The residual connection is the layer's work, in 7.2, and not this network's.",
)
class FeedForward_residual(FeedForward):
    def forward(self, x):
        return x + super().forward(x)


@misconception(
    "FeedForward",
    label="x normed first",
    hint="The norm is the layer's work, in 7.2, and not this network's.",
)
class FeedForward_normed(FeedForward):
    def forward(self, x):
        return super().forward(functional.layer_norm(x, x.shape[-1:]))


@misconception(
    "FeedForward",
    label="d_ff and d_model exchanged",
    hint="The first layer goes from d_ff to d_model. It goes from d_model to d_ff, and the second one back.",
)
class FeedForward_exchanged(FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_ff, d_model)


@misconception(
    "FeedForward",
    label="four times d_model whatever d_ff",
    hint="There are 4 d_model hidden units whatever d_ff is. That is a usual size, and d_ff says which it is here.",
)
class FeedForward_four_times(FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, 4 * d_model)


@misconception(
    "FeedForward",
    label="layers with other names",
    hint="Weights are moved by name: the two layers are called `linear1` and `linear2`, as PyTorch calls them.",
)
class FeedForward_names(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


@misconception(
    "FeedForward",
    label="biases left out",
    hint="The layers have no biases. `nn.Linear` has them unless told otherwise: leave `bias=False` out.",
)
class FeedForward_no_bias(FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)


@misconception(
    "FeedForward",
    label="module not begun",
    hint="`super().__init__()` is missing, or comes too late: it stands first in `__init__`, before any layer.",
)
class FeedForward_not_begun(FeedForward):
    def __init__(self, d_model, d_ff):
        self.linear1 = nn.Linear(d_model, d_ff)


@misconception(
    "FeedForward",
    label="dropout in training mode",
    hint="Nobody asked for dropout here: same inputs give the same result.",
)
class FeedForward_dropout(FeedForward):
    def curve(self, hidden):
        return functional.dropout(super().curve(hidden), 0.1, self.training)


@misconception(
    "FeedForward",
    label="sizes of 1 stretched",
    hint="A row with a single number was stretched to d_model. `nn.Linear` raises by itself: leave it to that.",
)
class FeedForward_stretched(FeedForward):
    def forward(self, x):
        return super().forward(x.expand(*x.shape[:-1], self.linear1.in_features) if x.shape[-1] == 1 else x)


@misconception(
    "FeedForward",
    label="x changed in place",
    hint="`+=`, `*=` and whatever ends in `_` do that. Whoever called still needs `x`.",
)
class FeedForward_in_place(FeedForward):
    def forward(self, x):
        result = super().forward(x)
        x.data += 1
        return result


@misconception(
    "FeedForward",
    label="result always float32",
    hint="Leave `.float()` out: the result has the dtype of the parameters.",
)
class FeedForward_float32(FeedForward):
    def forward(self, x):
        return super().forward(x).float()


@misconception(
    "FeedForward",
    label="hidden units cut off",
    hint="`linear1` learns nothing: behind it `detach` or `.data` cuts autograd off. `linear2` still gets its "
    "gradient.",
)
class FeedForward_detached(FeedForward):
    def curve(self, hidden):
        return super().curve(hidden.detach())


LAYERS = {
    "a list instead of an array": "Lists came back. Leave `.tolist()` out: the result is a tensor.",
    "axis squeezed away": "An axis of size 1 is gone: `squeeze` removes it. One sequence is a batch, a token a row.",
    "only the first sequence": "`[0]` takes the first sequence and forgets the rest of the batch. Keep the axis b.",
}
FAMILIES = [*LAYERS, "returns nothing", "an array instead of a tensor", "cut off from autograd"]


# FeedForward: right


@families(*FAMILIES, hints=LAYERS)
@right("FeedForward")
class FeedForward_in_steps(FeedForward):
    pass


# What both layers are made of


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is no multiple of num_heads")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def turn(self, x):
        """Turn the heads of queries or keys, where positions are told so."""
        return x

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = (
            own(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for own, x in ((self.W_q, query), (self.W_k, key), (self.W_v, value))
        )
        S = self.turn(q) @ self.turn(k).mT / math.sqrt(q.shape[-1])
        if mask is None:
            A = S.softmax(-1)
        else:
            if mask.shape[-1] != S.shape[-1]:
                raise ValueError("another number of keys")
            mask = (mask[:, None] if mask.dim() == 3 else mask).expand(S.shape)
            A = S.masked_fill(~mask, torch.finfo(S.dtype).min).softmax(-1) * mask
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A


def past(x):
    """Return the causal mask for x (b, n, ...): (n, n)."""
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()


class EncoderLayer(nn.Module):
    norms = 2

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.d_model, self.num_heads, self.d_ff = d_model, num_heads, d_ff
        self.make(d_model, num_heads, d_ff)
        for i in range(self.norms):
            setattr(self, f"norm{i + 1}", self.norm_of(d_model))

    def make(self, d_model, num_heads, d_ff):
        self.self_attn = self.attention(d_model, num_heads)
        self.feed_forward = self.network(d_model, d_ff)

    def attention(self, d_model, num_heads):
        return MultiHeadAttention(d_model, num_heads)

    def network(self, d_model, d_ff):
        return FeedForward(d_model, d_ff)

    def norm_of(self, d_model):
        return nn.LayerNorm(d_model)

    def own(self, x, mask):
        """Self-attention of what is normed already."""
        return self.self_attn(x, mask=mask)[0]

    def fed(self, x):
        return self.feed_forward(x)

    def add(self, x, norm, part):
        """One part with its residual connection."""
        return x + part(norm(x))

    def parts(self, memory, mask, memory_mask):
        """The parts in their order, each with its norm."""
        return [(self.norm1, lambda x: self.own(x, mask)), (self.norm2, self.fed)]

    def through(self, x, memory=None, mask=None, memory_mask=None):
        for norm, part in self.parts(memory, mask, memory_mask):
            x = self.add(x, norm, part)
        return x

    def forward(self, x, mask=None):
        return self.through(x, mask=mask)


class DecoderLayer(EncoderLayer):
    norms = 3

    def make(self, d_model, num_heads, d_ff):
        super().make(d_model, num_heads, d_ff)
        self.multihead_attn = self.attention(d_model, num_heads)

    def cross(self, x, memory, mask):
        """Cross-attention of what is normed already."""
        return self.multihead_attn(x, memory, mask=mask)[0]

    def parts(self, memory, mask, memory_mask):
        attend = (self.norm2, lambda x: self.cross(x, memory, memory_mask))
        return [(self.norm1, lambda x: self.own(x, mask)), attend, (self.norm3, self.fed)]

    def forward(self, x, memory, mask=None, memory_mask=None):
        return self.through(x, memory, mask, memory_mask)


BOTH = (EncoderLayer, DecoderLayer)


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


# Both layers, wrong: norms and residual connections


@of_both(
    label="post-norm instead of pre-norm",
    hint="The norm comes after the sum, norm(x + part(x)), as in the first transformer. Pre-norm: x + part(norm(x)).",
)
class post_norm:
    def add(self, x, norm, part):
        return norm(x + part(x))


@of_both(
    label="parts without a norm",
    hint="The norms are there and never used: each part is given the stream as it is. `part(norm(x))`.",
)
class without_norm:
    def add(self, x, norm, part):
        return x + part(x)


@of_both(
    label="what a part finds is normed",
    hint="x + norm(part(x)) has the norm behind the part. It belongs before: x + part(norm(x)).",
)
class norm_of_the_part:
    def add(self, x, norm, part):
        return x + norm(part(x))


@of_both(
    label="residual connections missing",
    hint="Each part takes the place of the stream. What it finds is added to it: `x = x + part(norm(x))`.",
)
class without_residual:
    def add(self, x, norm, part):
        return part(norm(x))


@of_both(
    label="residual from the normed stream",
    hint="What a part finds is added to the *normed* stream: `x = norm(x); x = x + part(x)`. Give the normed stream "
    "another name, and add to x as it was.",
)
class residual_after_norm:
    def add(self, x, norm, part):
        h = norm(x)
        return h + part(h)


@of_both(
    label="parts beside each other",
    hint="All parts are given x as it came in, and what they find is added at the end. Each gets the stream as the "
    "one before left it.",
)
class parallel:
    def through(self, x, memory=None, mask=None, memory_mask=None):
        return x + sum(part(norm(x)) for norm, part in self.parts(memory, mask, memory_mask))


@of_both(
    label="feed-forward before attention",
    hint="The feed-forward network comes first. Attention does, so that there is something to think over.",
)
class feed_forward_first:
    def parts(self, *given):
        *others, last = super().parts(*given)
        return [last, *others]


@of_both(
    label="feed-forward forgotten",
    hint="The feed-forward network is there and never used. It is the last part: x + feed_forward(norm(x)).",
)
class without_feed_forward:
    def parts(self, *given):
        return super().parts(*given)[:-1]


@of_both(
    label="self-attention forgotten",
    hint="`self_attn` is there and never used. It is the first part: x + self_attn(norm1(x)).",
)
class without_attention:
    def parts(self, *given):
        return super().parts(*given)[1:]


@of_both(
    label="norm1 before every part",
    hint="The other norms are never used. Each part has its own.",
)
class norm1_for_all:
    def parts(self, *given):
        return [(self.norm1, part) for _, part in super().parts(*given)]


@of_both(
    label="one norm for all parts",
    hint="There is a single norm. Each part has its own, `norm1` for the first and so on.",
)
class single_norm:
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__(d_model, num_heads, d_ff)
        del self.norm2

    def parts(self, *given):
        self.norm2 = self.norm1
        return super().parts(*given)


@of_both(
    label="a norm too many",
    hint="There is one norm more than asked for, at the end. In a pre-norm model it stands once, after the last "
    "layer, and belongs to the model.",
)
class norm_at_the_end:
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__(d_model, num_heads, d_ff)
        self.norm = nn.LayerNorm(d_model)

    def through(self, *arguments, **masks):
        return self.norm(super().through(*arguments, **masks))


class OwnNorm(nn.LayerNorm):
    def center(self, x):
        return x - x.mean(-1, keepdim=True)

    def divide(self, x):
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt()

    def forward(self, x):
        if x.shape[-1:] != self.weight.shape:
            raise ValueError("another width")
        return self.divide(self.center(x)) * self.weight + self.bias


@of_both(
    label="mean not subtracted in the norm",
    hint="To divide alone is RMSNorm; `nn.LayerNorm` does both.",
)
class rms_norm:
    def norm_of(self, d_model):
        norm = OwnNorm(d_model)
        norm.center = lambda x: x
        return norm


@of_both(
    label="standard deviation with n - 1",
    hint="`x.std()` divides by n - 1 unless told otherwise. A layer norm divides by n: use `nn.LayerNorm`, or "
    "`unbiased=False`.",
)
class unbiased:
    def norm_of(self, d_model):
        norm = OwnNorm(d_model)
        norm.divide = lambda x: x / (x.square().sum(-1, keepdim=True) / max(d_model - 1, 1) + norm.eps).sqrt()
        return norm


@of_both(
    label="another number below the root",
    hint="The norm adds another number than 1e-5 to the variance, such as `eps=1e-6`. Leave it as `nn.LayerNorm` has "
    "it.",
)
class other_eps:
    def norm_of(self, d_model):
        return nn.LayerNorm(d_model, eps=1e-6)


@of_both(
    label="1e-5 added outside the root",
    hint="The 1e-5 is added to the standard deviation. It is added to the variance, before the root is taken.",
)
class eps_outside:
    def norm_of(self, d_model):
        norm = OwnNorm(d_model)
        norm.divide = lambda x: x / (x.square().mean(-1, keepdim=True).sqrt() + norm.eps)
        return norm


@of_both(
    label="normed over the whole sequence",
    hint="Mean and variance are taken over all tokens of a sequence together. A layer norm takes them of each token "
    "by itself: over the last axis.",
)
class normed_over_tokens:
    def norm_of(self, d_model):
        norm = OwnNorm(d_model)
        norm.center = lambda x: x - x.mean((-2, -1), keepdim=True)
        norm.divide = lambda x: x / (x.square().mean((-2, -1), keepdim=True) + norm.eps).sqrt()
        return norm


@of_both(
    label="norms without weight and bias",
    hint="`elementwise_affine=False` takes both away. Leave `nn.LayerNorm(d_model)` as it comes.",
)
class norms_bare:
    def norm_of(self, d_model):
        return nn.LayerNorm(d_model, elementwise_affine=False)


# Both layers, wrong: parts


@of_both(
    label="module not begun",
    hint="`super().__init__()` is missing, or comes too late: it stands first in `__init__`, before any layer.",
)
class not_begun:
    def __init__(self, d_model, num_heads, d_ff):
        MultiHeadAttention(d_model, num_heads)
        self.norm1 = nn.LayerNorm(d_model)


@of_both(
    label="feed-forward layers without their network",
    hint="The two linear layers stand in the layer itself, as in PyTorch's. Here they belong to a `FeedForward`, "
    "`self.feed_forward = FeedForward(d_model, d_ff)`.",
)
class layers_inside:
    def network(self, d_model, d_ff):
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        return None


@of_both(
    label="attention with another name",
    hint="Weights are moved by name: the attention is called `self_attn`, as in PyTorch's layer.",
)
class other_name:
    def state_dict(self, *arguments, **more):
        return {
            name.replace("self_attn", "attn"): own for name, own in super().state_dict(*arguments, **more).items()
        }


@of_both(
    label="PyTorch's attention inside",
    hint="`nn.MultiheadAttention` keeps its weights under other names. Use the `MultiHeadAttention` that is given.",
)
class torch_inside:
    def attention(self, d_model, num_heads):
        if d_model % num_heads:
            raise ValueError("not divisible")
        return nn.MultiheadAttention(d_model, num_heads, batch_first=True)


@of_both(
    label="d_ff not handed on",
    hint="The feed-forward network has 4 d_model hidden units, or as many as d_model. Hand d_ff on to it.",
)
class ignores_d_ff:
    def network(self, d_model, d_ff):
        return FeedForward(d_model, 4 * d_model)


@of_both(
    label="one head whatever num_heads is",
    hint="Hand it on: `MultiHeadAttention(d_model, num_heads)`.",
)
class one_head:
    def attention(self, d_model, num_heads):
        return MultiHeadAttention(d_model, 1)


@of_both(
    label="ReLU instead of GELU",
    hint="The feed-forward network bends with ReLU, which is what PyTorch's layer has by default. Here it is GELU.",
)
class relu:
    def fed(self, x):
        return self.feed_forward.linear2(self.feed_forward.linear1(x).relu())


@of_both(
    label="keys and values not normed",
    hint="Queries come from the normed stream, keys and values from the stream as it is. In self-attention all three "
    "are the same: `self_attn(norm1(x))`.",
)
class queries_normed_alone:
    def through(self, x, memory=None, mask=None, memory_mask=None):
        h = self.norm1(x)
        x = x + self.self_attn(h, x, x, mask)[0]
        for norm, part in self.parts(memory, mask, memory_mask)[1:]:
            x = self.add(x, norm, part)
        return x


@of_both(
    label="tuple handed on or returned",
    hint="`MultiHeadAttention` returns a tuple, output and weights. A layer goes on with the output, `[0]`, and "
    "returns a tensor.",
)
class tuple_returned:
    def through(self, *arguments, **masks):
        return super().through(*arguments, **masks), None


@of_both(
    label="batch and tokens exchanged",
    hint="The first axis is taken for the tokens, as PyTorch's layers do without `batch_first=True`. Here the batch "
    "comes first.",
)
class tokens_first:
    def own(self, x, mask):
        return super().own(x.transpose(0, 1), None).transpose(0, 1)


# Both layers, wrong: masks


@of_both(
    label="mask ignored",
    hint="`mask` is not handed on to self-attention: `self.self_attn(h, mask=mask)`.",
)
class unmasked:
    def own(self, x, mask):
        return super().own(x, None)


@of_both(
    label="mask kept from the call before",
    hint="The mask was noted on the layer, and hides something in a later call that has none. A call knows nothing "
    "of others: leave `self` out.",
)
class mask_kept:
    noted = None

    def own(self, x, mask):
        if mask is None and self.noted is not None and self.noted.shape[-2:] == (x.shape[1], x.shape[1]):
            mask = self.noted
        self.noted = mask
        return super().own(x, mask)


@of_both(
    label="mask turned round",
    hint="True means: may attend here. PyTorch's layers mean the opposite; yours hands the mask on as it is.",
)
class inverted:
    def own(self, x, mask):
        return super().own(x, None if mask is None else ~mask)


@of_both(
    label="causal where no mask is given",
    hint="Without a mask, the layer makes a causal one. None means that everything may be seen.",
)
class causal_by_default:
    def own(self, x, mask):
        return super().own(x, past(x) if mask is None else mask)


@of_both(
    label="NaN where nothing may be seen",
    hint="A token that may attend to nothing comes out as NaN. The given `MultiHeadAttention` makes the weighted sum "
    "0 there; `scaled_dot_product_attention` and other softmaxes may not.",
)
class nan_rows:
    def own(self, x, mask):
        out = super().own(x, mask)
        if mask is None or mask.dim() == 4 or mask.shape[-2] == 1:
            return out
        return out.masked_fill(~mask.any(-1, keepdim=True), torch.nan)


@of_both(
    label="mask of one key stretched",
    hint="A mask with a single column was stretched to all keys. Its last size is the number of keys.",
)
class mask_stretched:
    def own(self, x, mask):
        if mask is not None and mask.shape[-1] == 1:
            mask = mask.expand(*mask.shape[:-1], x.shape[1])
        return super().own(x, mask)


@of_both(
    label="mask cut to fit",
    hint="A mask for more tokens was cut to the first n rows and columns, where it may be another one: a causal mask "
    "is aligned at the end. Hand it on as it is; attention raises where it does not fit.",
)
class mask_cut:
    def own(self, x, mask):
        return super().own(x, None if mask is None else mask[..., : x.shape[1], : x.shape[1]])


@of_both(
    label="mask given as the key",
    hint="The mask stands where the key belongs: `self_attn(h, mask)`. Name it: `self_attn(h, mask=mask)`.",
)
class mask_as_key:
    def own(self, x, mask):
        return self.self_attn(x, mask)[0]


@of_both(
    label="an axis more for the mask",
    hint="The mask got an axis in front, so that a mask for each sequence is taken for one of each head. Hand it on "
    "as it is: attention knows all its shapes.",
)
class mask_with_an_axis:
    def own(self, x, mask):
        return super().own(x, mask if mask is None else mask[None])


# Both layers, wrong: gradients, modes, dtypes, inputs


@of_both(
    label="stream cut off",
    hint="The stream is detached before a part is added: what stands before this layer learns through the parts "
    "alone. Leave `detach` and `.data` out.",
)
class stream_detached:
    def add(self, x, norm, part):
        return x.detach() + part(norm(x))


@of_both(
    label="attention cut off",
    hint="What attention found is detached, so that its parameters learn nothing. Leave `detach` and `no_grad` out.",
)
class attention_detached:
    def own(self, x, mask):
        return super().own(x, mask).detach()


@of_both(
    label="dropout in training mode",
    hint="PyTorch's layers drop some of what a part finds by default. Nobody asked for it here.",
)
class dropout:
    def add(self, x, norm, part):
        return x + functional.dropout(part(norm(x)), 0.1, self.training)


@of_both(
    label="result always float32",
    hint="Leave `.float()` out, also around the norms: the result has the dtype of the parameters.",
)
class always_float32:
    def through(self, *arguments, **masks):
        return super().through(*arguments, **masks).float()


@of_both(
    label="x changed in place",
    hint="`x += ...` changes the tensor that the caller still has. Write `x = x + ...`, which makes a new one.",
)
class in_place:
    def through(self, x, memory=None, mask=None, memory_mask=None):
        result = super().through(x, memory, mask, memory_mask)
        x.data.copy_(result)
        return result


@of_both(
    label="sizes of 1 stretched",
    hint="A token with a single number was stretched to d_model: `+` and `*` do that. Its last size is d_model.",
)
class stretched:
    def through(self, x, memory=None, mask=None, memory_mask=None):
        if x.shape[-1] == 1:
            x = x.expand(*x.shape[:-1], self.d_model)
        return super().through(x, memory, mask, memory_mask)


@of_both(
    label="only the first 512 tokens",
    hint="Tokens after the 512th cannot be seen: a length is written into the code.",
)
class first_512:
    def own(self, x, mask):
        near = (torch.arange(x.shape[1]) < 512).expand(x.shape[1], -1)
        return super().own(x, near if mask is None else near & mask)


# EncoderLayer: wrong


@misconception(
    "EncoderLayer",
    label="mask under another name",
    hint="`src_mask` is what PyTorch's layer calls it. Whoever writes `layer(x, mask=mask)` wants it to be called "
    "`mask`.",
)
class EncoderLayer_renamed(EncoderLayer):
    def forward(self, x, src_mask=None):
        return super().forward(x, src_mask)


@misconception(
    "EncoderLayer",
    label="parameters of a decoder layer",
    hint="`multihead_attn` and `norm3` are among them, a cross-attention and its norm. An encoder layer has neither.",
)
class EncoderLayer_decoder(DecoderLayer):
    def forward(self, x, mask=None):
        return super().forward(x, x, mask)


@misconception(
    "EncoderLayer",
    label="no module of PyTorch",
    hint="The class is not derived from `nn.Module`: it has no parameters and no `state_dict`. `class "
    "EncoderLayer(nn.Module)`.",
)
class EncoderLayer_no_module:
    def __init__(self, d_model, num_heads, d_ff):
        MultiHeadAttention(d_model, num_heads)


@misconception(
    "EncoderLayer",
    label="fewer heads than asked for",
    hint="A d_model that is no multiple of num_heads was accepted: the heads were made fewer. Let "
    "`MultiHeadAttention` raise.",
)
class EncoderLayer_rounds(EncoderLayer):
    def attention(self, d_model, num_heads):
        return MultiHeadAttention(d_model, math.gcd(d_model, num_heads))


# EncoderLayer: right


@families(*FAMILIES, hints=LAYERS)
@right("EncoderLayer")
class EncoderLayer_in_steps(EncoderLayer):
    pass


# DecoderLayer: wrong


@misconception(
    "DecoderLayer",
    label="masks under other names",
    hint="`tgt_mask` is what PyTorch's layer calls it. Whoever writes `layer(x, memory, mask=mask)` wants it to be "
    "called `mask`, and the other `memory_mask`.",
)
class DecoderLayer_renamed(DecoderLayer):
    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None):
        return super().forward(tgt, memory, tgt_mask, memory_mask)


@misconception(
    "DecoderLayer",
    label="memory_mask kept from the call before",
    hint="`memory_mask` was noted on the layer, and hides something in a later call that has none. A call knows "
    "nothing of others: leave `self` out.",
)
class DecoderLayer_memory_mask_kept(DecoderLayer):
    noted = None

    def cross(self, x, memory, mask):
        if mask is None and self.noted is not None and self.noted.shape == (x.shape[1], memory.shape[1]):
            mask = self.noted
        self.noted = mask
        return super().cross(x, memory, mask)


@misconception(
    "DecoderLayer",
    label="self-attention twice",
    hint="Cross-attention takes keys and values from the stream: the memory is never looked at. Hand it on as the "
    "key: `multihead_attn(norm2(x), memory)`.",
)
class DecoderLayer_self_twice(DecoderLayer):
    def cross(self, x, memory, mask):
        return self.multihead_attn(x)[0]


@misconception(
    "DecoderLayer",
    label="values from the stream",
    hint="Cross-attention takes both from the memory, keys and values.",
)
class DecoderLayer_values_of_x(DecoderLayer):
    def cross(self, x, memory, mask):
        return self.multihead_attn(x, memory, x, mask)[0]


@misconception(
    "DecoderLayer",
    label="queries from the memory",
    hint="There are as many results then as the memory has tokens. The queries come from the stream: they ask, the "
    "memory answers.",
)
class DecoderLayer_queries_of_memory(DecoderLayer):
    def cross(self, x, memory, mask):
        return self.multihead_attn(memory, x)[0]


@misconception(
    "DecoderLayer",
    label="memory normed with norm2",
    hint="The memory is taken as it comes; only the stream is normed.",
)
class DecoderLayer_norms_memory(DecoderLayer):
    def cross(self, x, memory, mask):
        return self.multihead_attn(x, self.norm2(memory), mask=mask)[0]


@misconception(
    "DecoderLayer",
    label="cross-attention before self-attention",
    hint="Cross-attention comes first. Self-attention does, with `norm1`; then cross-attention, with `norm2`.",
)
class DecoderLayer_cross_first(DecoderLayer):
    def parts(self, *given):
        first, second, last = super().parts(*given)
        return [second, first, last]


@misconception(
    "DecoderLayer",
    label="the two attentions exchanged",
    hint="`self_attn` looks at the memory, and `multihead_attn` at the stream. It is the other way round.",
)
class DecoderLayer_attentions_exchanged(DecoderLayer):
    def own(self, x, mask):
        return self.multihead_attn(x, mask=mask)[0]

    def cross(self, x, memory, mask):
        return self.self_attn(x, memory, mask=mask)[0]


@misconception(
    "DecoderLayer",
    label="cross-attention forgotten",
    hint="The memory is never looked at: `multihead_attn` is there and not used.",
)
class DecoderLayer_without_cross(DecoderLayer):
    def parts(self, *given):
        first, _, last = super().parts(*given)
        return [first, last]


@misconception(
    "DecoderLayer",
    label="the two masks exchanged",
    hint="`mask` went to cross-attention, and `memory_mask` to self-attention. It is the other way round; where m = "
    "n, nobody complains.",
)
class DecoderLayer_masks_exchanged(DecoderLayer):
    def through(self, x, memory=None, mask=None, memory_mask=None):
        return super().through(x, memory, memory_mask, mask)


@misconception(
    "DecoderLayer",
    label="memory_mask ignored",
    hint="Hand it on to cross-attention: `multihead_attn(h, memory, mask=memory_mask)`.",
)
class DecoderLayer_memory_unmasked(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(x, memory, None)


@misconception(
    "DecoderLayer",
    label="mask used for both attentions",
    hint="`mask` serves cross-attention as well, where it is (n, n) and should be (n, m). That has `memory_mask`.",
)
class DecoderLayer_mask_for_both(DecoderLayer):
    def through(self, x, memory=None, mask=None, memory_mask=None):
        return super().through(x, memory, mask, mask)


@misconception(
    "DecoderLayer",
    label="cross-attention causal",
    hint="Cross-attention hides later parts of the memory. All of the other sequence is there already: only "
    "`memory_mask` hides something.",
)
class DecoderLayer_causal_cross(DecoderLayer):
    def cross(self, x, memory, mask):
        early = torch.ones(x.shape[1], memory.shape[1], dtype=torch.bool).tril()
        return super().cross(x, memory, early if mask is None else early & mask)


@misconception(
    "DecoderLayer",
    label="memory cut off",
    hint="The memory is detached: the encoder that made it learns nothing from the decoder.",
)
class DecoderLayer_memory_detached(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(x, memory.detach(), mask)


@misconception(
    "DecoderLayer",
    label="memory returned as well",
    hint="The stream and the memory came back. The memory stays as it is: return the stream.",
)
class DecoderLayer_returns_memory(DecoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, memory_mask), memory


@misconception(
    "DecoderLayer",
    label="parameters of an encoder layer alone",
    hint="`multihead_attn` and `norm3` are missing among the parameters. Cross-attention has weights and a norm of "
    "its own: make both in `__init__`, as attributes of these names.",
)
class DecoderLayer_encoder(EncoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, mask)


@misconception(
    "DecoderLayer",
    label="memory cut to the stream's length",
    hint="Of a longer memory only the first n tokens are looked at. It may have any length.",
)
class DecoderLayer_memory_cut(DecoderLayer):
    def cross(self, x, memory, mask):
        n = x.shape[1]
        return super().cross(x, memory[:, :n], None if mask is None else mask[..., :n])


@misconception(
    "DecoderLayer",
    label="only the first 512 of the memory",
    hint="What stands after the 512th token of the memory is not looked at: a length is written into the code.",
)
class DecoderLayer_memory_512(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(x, memory[:, :512], None if mask is None else mask[..., :512])


@misconception(
    "DecoderLayer",
    label="first sequence's memory_mask for all",
    hint="Each sequence of the batch may have its own.",
)
class DecoderLayer_first_memory_mask(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(x, memory, mask if mask is None or mask.dim() == 2 else mask[:1])


@misconception(
    "DecoderLayer",
    label="memory_mask of one key stretched",
    hint="A `memory_mask` with a single column was stretched to the whole memory. Its last size is m.",
)
class DecoderLayer_memory_mask_stretched(DecoderLayer):
    def cross(self, x, memory, mask):
        if mask is not None and mask.shape[-1] == 1:
            mask = mask.expand(*mask.shape[:-1], memory.shape[1])
        return super().cross(x, memory, mask)


@misconception(
    "DecoderLayer",
    label="memory_mask cut to fit",
    hint="A `memory_mask` for a longer memory was cut to its first m columns. Hand it on as it is; attention raises "
    "where it does not fit.",
)
class DecoderLayer_memory_mask_cut(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(x, memory, None if mask is None else mask[..., : x.shape[1], : memory.shape[1]])


# DecoderLayer: right


@families(*FAMILIES, hints=LAYERS)
@right("DecoderLayer")
class DecoderLayer_in_steps(DecoderLayer):
    pass


# TinyGPT, in steps that a mistake can take the place of


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.vocab_size, self.d_model, self.max_len = vocab_size, d_model, max_len
        self.embed(vocab_size, d_model)
        self.place(max_len, d_model)
        self.stack(d_model, num_heads, num_layers)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def embed(self, vocab_size, d_model):
        self.token = nn.Embedding(vocab_size, d_model)

    def place(self, max_len, d_model):
        self.position = nn.Embedding(max_len, d_model)

    def stack(self, d_model, num_heads, num_layers):
        self.layers = nn.ModuleList(self.layer(d_model, num_heads) for _ in range(num_layers))

    def layer(self, d_model, num_heads):
        return EncoderLayer(d_model, num_heads, 4 * d_model)

    def fits(self, n):
        if n > self.max_len:
            raise ValueError("too many tokens")

    def placed(self, x):
        return x + self.position(torch.arange(x.shape[1]))

    def mask(self, x):
        return past(x)

    def through(self, x):
        for layer in self.layers:
            x = layer(x, self.mask(x))
        return x

    def said(self, x):
        return self.head(self.norm(x))

    def forward(self, tokens):
        self.fits(tokens.shape[1])
        return self.said(self.through(self.placed(self.token(tokens))))


def waves(max_len, d_model):
    """Return the sinusoidal encoding (max_len, d_model); d_model is even."""
    rates = 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(max_len)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


# TinyGPT: wrong


@misconception(
    "TinyGPT",
    label="no causal mask",
    hint="Tokens see later ones: no mask is handed to the layers. While it is trained, the model reads off what it "
    "should predict. `torch.ones(n, n, dtype=torch.bool).tril()`.",
)
class TinyGPT_unmasked(TinyGPT):
    def mask(self, x):
        return None


@misconception(
    "TinyGPT",
    label="mask transposed",
    hint="The mask is turned over: each token sees itself and later ones. Row i belongs to token i, which sees "
    "columns 0 to i: `tril`, not `triu`.",
)
class TinyGPT_turned(TinyGPT):
    def mask(self, x):
        return past(x).T


@misconception(
    "TinyGPT",
    label="one token too many seen",
    hint="Each token sees the next one, which it is to predict: the mask is one diagonal too wide. `tril()` without "
    "a `diagonal`.",
)
class TinyGPT_next_seen(TinyGPT):
    def mask(self, x):
        return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(1)


@misconception(
    "TinyGPT",
    label="only the first layer masked",
    hint="Later tokens come in through the others. Every layer needs the mask.",
)
class TinyGPT_first_masked(TinyGPT):
    def through(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x, self.mask(x) if i == 0 else None)
        return x


@misconception(
    "TinyGPT",
    label="mask of a fixed size",
    hint="The mask is made for a few tokens, and those behind them see everything. Make it as long as the sequence: "
    "`torch.ones(n, n, dtype=torch.bool).tril()` with n of the tokens at hand.",
)
class TinyGPT_masked_at_first(TinyGPT):
    def mask(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
        mask[:16, :16] = past(x)[:16, :16]
        mask[:16, 16:] = False
        return mask


@misconception(
    "TinyGPT",
    label="mask only while training",
    hint="The mask is left out after `eval()`. A token must not see later ones then either: that is how it was "
    "trained.",
)
class TinyGPT_masked_in_training(TinyGPT):
    def mask(self, x):
        return past(x) if self.training else None


@misconception(
    "TinyGPT",
    label="no positions",
    hint="Nothing tells the model where a token stands: exchanged tokens give the same logits after them. Add "
    "positions to the embedding.",
)
class TinyGPT_unplaced(TinyGPT):
    def placed(self, x):
        return x


@misconception(
    "TinyGPT",
    label="positions looked up by token",
    hint="A token says what stands there and not where. Look them up by `torch.arange(n)`.",
)
class TinyGPT_position_of_token(TinyGPT):
    def place(self, max_len, d_model):
        self.position = nn.Embedding(self.vocab_size, d_model)

    def forward(self, tokens):
        self.fits(tokens.shape[1])
        return self.said(self.through(self.token(tokens) + self.position(tokens)))


@misconception(
    "TinyGPT",
    label="whole table of positions added",
    hint="All `max_len` positions are added whatever n is, which raises, or stretches a single token. Take the first "
    "n: `torch.arange(n)`, or `[:n]`.",
)
class TinyGPT_whole_table(TinyGPT):
    def placed(self, x):
        return x + self.position(torch.arange(self.max_len))


@misconception(
    "TinyGPT",
    label="positions counted from the end",
    hint="The last token gets position 0, or the last position: where a token stands then depends on how many "
    "follow. Count from the first.",
)
class TinyGPT_from_the_end(TinyGPT):
    def placed(self, x):
        return x + self.position(torch.arange(x.shape[1]).flip(0))


@misconception(
    "TinyGPT",
    label="too many tokens cut without a word",
    hint="More than max_len tokens are cut to max_len, and the caller never learns of it. Raise `ValueError`; to cut "
    "is the work of `generate`.",
)
class TinyGPT_cuts(TinyGPT):
    def forward(self, tokens):
        return super().forward(tokens[:, -self.max_len :])


@misconception(
    "TinyGPT",
    label="more tokens than max_len accepted",
    hint="Sinusoidal and rotary positions have no end. Compare n with `max_len`, and raise `ValueError`.",
)
class TinyGPT_no_end(TinyGPT):
    def fits(self, n):
        pass

    def place(self, max_len, d_model):
        pass

    def placed(self, x):
        return x + waves(x.shape[1], self.d_model).to(x.dtype)


@misconception(
    "TinyGPT",
    label="one token more than max_len accepted",
    hint="max_len + 1 tokens go through: the table has a position too many, or `>` compares with the wrong number.",
)
class TinyGPT_one_more(TinyGPT):
    def fits(self, n):
        super().fits(n - 1)

    def place(self, max_len, d_model):
        super().place(max_len + 1, d_model)


@misconception(
    "TinyGPT",
    label="max_len tokens refused",
    hint="max_len tokens raise, and they are allowed: compare with `>`, not `>=`.",
)
class TinyGPT_one_less(TinyGPT):
    def fits(self, n):
        super().fits(n + 1)


@misconception(
    "TinyGPT",
    label="max_len not kept",
    hint="`self.max_len = max_len`: `generate` wants to read it.",
)
class TinyGPT_forgets(TinyGPT):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.max_len

    def fits(self, n):
        if n > self.position.num_embeddings:
            raise ValueError("too many tokens")


@misconception(
    "TinyGPT",
    label="probabilities instead of logits",
    hint="Softmax is taken at the end. The loss takes softmax itself, and of shares between 0 and 1 it can make "
    "little: return the logits.",
)
class TinyGPT_probabilities(TinyGPT):
    def said(self, x):
        return super().said(x).softmax(-1)


@misconception(
    "TinyGPT",
    label="logits at the last token alone",
    hint="Those at every token are asked for: each is a prediction to learn from.",
)
class TinyGPT_last(TinyGPT):
    def forward(self, tokens):
        return super().forward(tokens)[:, -1]


@misconception(
    "TinyGPT",
    label="vocabulary before the tokens",
    hint="The logits came as (b, vocab_size, n), as `cross_entropy` wants them. Here tokens come before the "
    "vocabulary.",
)
class TinyGPT_transposed(TinyGPT):
    def forward(self, tokens):
        return super().forward(tokens).transpose(1, 2)


@misconception(
    "TinyGPT",
    label="the stream instead of logits",
    hint="The stream came back, d_model numbers of each token. A linear layer makes vocab_size logits of it.",
)
class TinyGPT_stream(TinyGPT):
    def said(self, x):
        return self.norm(x)


@misconception(
    "TinyGPT",
    label="vocab_size and d_model exchanged",
    hint="The embedding was made as `nn.Embedding(d_model, vocab_size)`. The number of tokens comes first, then the "
    "width.",
)
class TinyGPT_exchanged(TinyGPT):
    def embed(self, vocab_size, d_model):
        self.token = nn.Embedding(d_model, vocab_size)


@misconception(
    "TinyGPT",
    label="one layer taken num_layers times",
    hint="`[layer] * num_layers` is the same layer over and over: they share their weights. Make a new one each "
    "time, `[EncoderLayer(...) for _ in range(num_layers)]`.",
)
class TinyGPT_shared_layers(TinyGPT):
    def stack(self, d_model, num_heads, num_layers):
        self.layers = nn.ModuleList([self.layer(d_model, num_heads)] * num_layers)


@misconception(
    "TinyGPT",
    label="layers not registered",
    hint="The layers are in a Python list, and a module does not look into lists: `parameters()` does not have them, "
    "and no optimiser trains them. `nn.ModuleList([...])`.",
)
class TinyGPT_list(TinyGPT):
    def stack(self, d_model, num_heads, num_layers):
        self.layers = [self.layer(d_model, num_heads) for _ in range(num_layers)]

    def through(self, x):
        for layer in self.layers:
            x = layer.to(x.dtype)(x, self.mask(x))
        return x


@misconception(
    "TinyGPT",
    label="last layer never used",
    hint="It is made, and the stream never comes to it. The stream goes through all layers.",
)
class TinyGPT_skips_last(TinyGPT):
    def through(self, x):
        for layer in self.layers[:-1] if len(self.layers) > 1 else self.layers:
            x = layer(x, self.mask(x))
        return x


@misconception(
    "TinyGPT",
    label="every layer from the embedding",
    hint="Each layer is given the embedding, and only what the last one makes goes on. The stream goes through them "
    "one after another: `x = layer(x, mask)`.",
)
class TinyGPT_from_the_embedding(TinyGPT):
    def through(self, x):
        for layer in self.layers:
            y = layer(x, self.mask(x))
        return y


@misconception(
    "TinyGPT",
    label="only three tokens back",
    hint="A token sees only the last few before it. It sees all from the first on; a window is for chapter 10.",
)
class TinyGPT_window(TinyGPT):
    def mask(self, x):
        return past(x) & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(-3)


@misconception(
    "TinyGPT",
    label="only the last 512 tokens",
    hint="Tokens that are more than 512 places back are hidden: a length is written into the code. Each token sees "
    "all before it.",
)
class TinyGPT_window_of_512(TinyGPT):
    def mask(self, x):
        return past(x) & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(-511)


@misconception(
    "TinyGPT",
    label="nothing behind the first 512 tokens seen",
    hint="Tokens behind the 512th are hidden from all: a length is written into the code. Each token sees itself and "
    "all before it.",
)
class TinyGPT_first_512(TinyGPT):
    def mask(self, x):
        return past(x) & (torch.arange(x.shape[1]) < 512)


@misconception(
    "TinyGPT",
    label="tokens shifted to the right",
    hint="The tokens are shifted by one, so that the logits at a token do not depend on it. That shift belongs to a "
    "decoder's training; here the logits at token i say what follows token i.",
)
class TinyGPT_shifted(TinyGPT):
    def forward(self, tokens):
        return super().forward(functional.pad(tokens, (1, -1)))


@misconception(
    "TinyGPT",
    label="sequences seen by each other",
    hint="The first axis is taken for the tokens, so that sequences attend to each other. The batch comes first.",
)
class TinyGPT_across(TinyGPT):
    def through(self, x):
        for layer in self.layers:
            x = layer(x.transpose(0, 1)).transpose(0, 1)
        return x


@misconception(
    "TinyGPT",
    label="mean over the batch subtracted",
    hint="What a sequence gets depends on the others then. `nn.LayerNorm` takes the mean of each token by itself.",
)
class TinyGPT_batch_norm(TinyGPT):
    def said(self, x):
        return super().said(x - x.mean(0, keepdim=True) / 2)


@misconception(
    "TinyGPT",
    label="normed over the tokens",
    hint="The mean is one of later tokens, too. `nn.LayerNorm` takes that of each token by itself.",
)
class TinyGPT_normed_over_tokens(TinyGPT):
    def said(self, x):
        return super().said(x - x.mean(1, keepdim=True) / 2)


@misconception(
    "TinyGPT",
    label="embedding too large for the last layer",
    hint="The logits of a new model are large: it is sure of something, and has learnt nothing. Embeddings drawn "
    "with variance 1 and used as the last layer's weights do that, or embeddings times sqrt(d_model): draw them "
    "smaller.",
)
class TinyGPT_tied_too_large(TinyGPT):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.head.weight = self.token.weight


@misconception(
    "TinyGPT",
    label="tokens taken for numbers",
    hint="The token's number is multiplied with a vector: token 8 is then twice token 4, and large numbers make "
    "large logits. A token is a name: `nn.Embedding`.",
)
class TinyGPT_numbers(TinyGPT):
    def embed(self, vocab_size, d_model):
        self.vector = nn.Linear(1, d_model)

    def forward(self, tokens):
        self.fits(tokens.shape[1])
        x = self.vector(tokens[..., None].to(self.vector.weight.dtype))
        return self.head(self.through(self.placed(x)))


@misconception(
    "TinyGPT",
    label="dropout in training mode",
    hint="Nobody asked for dropout here: same tokens give the same logits.",
)
class TinyGPT_dropout(TinyGPT):
    def placed(self, x):
        return functional.dropout(super().placed(x), 0.1, self.training)


@misconception(
    "TinyGPT",
    label="positions no part of the module",
    hint="The table of positions is a plain tensor: it keeps its dtype and its device when the model changes its "
    'own. `self.register_buffer("positions", ...)`.',
)
class TinyGPT_plain_table(TinyGPT):
    def place(self, max_len, d_model):
        self.position = waves(max_len, d_model)

    def placed(self, x):
        return x + self.position[: x.shape[1]]


@misconception(
    "TinyGPT",
    label="module not begun",
    hint="`super().__init__()` is missing, or comes too late: it stands first in `__init__`, before any layer.",
)
class TinyGPT_not_begun(TinyGPT):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        self.token = nn.Embedding(vocab_size, d_model)


@misconception(
    "TinyGPT",
    label="heads made to fit",
    hint="A d_model that is no multiple of num_heads is accepted. Hand both on, and let `MultiHeadAttention` raise.",
)
class TinyGPT_rounds(TinyGPT):
    def layer(self, d_model, num_heads):
        return super().layer(d_model, math.gcd(d_model, num_heads))


# TinyGPT: right


GPT = {
    "a list instead of an array": "Lists came back. Leave `.tolist()` out: logits are a tensor.",
    "axis squeezed away": "An axis of size 1 is gone: `squeeze` removes it. One sequence is still a batch.",
    "only the first sequence": "`[0]` takes the first sequence and forgets the rest of the batch. Keep the axis b.",
}


@families(*FAMILIES, but=["only the first sequence"], hints={
    name: hint for name, hint in GPT.items() if name != "only the first sequence"
})  # fmt: skip
@right("TinyGPT")
class TinyGPT_in_steps(TinyGPT):
    pass


# generate: wrong


def chosen(logits):
    return logits[:, -1].argmax(-1, keepdim=True)


def seen(model, tokens):
    return tokens[:, -model.max_len :]


def written(model, prompt, num_new_tokens, see=seen, choose=chosen):
    """Generate, where the one step or the other may be done otherwise."""
    tokens = prompt
    for _ in range(num_new_tokens):
        tokens = torch.cat([tokens, choose(model(see(model, tokens)))], dim=1)
    return tokens


@misconception(
    "generate",
    label="sampled instead of greedy",
    hint="The next token is drawn at random. Greedy takes the most likely one: `argmax`.",
)
def generate_samples(model, prompt, num_new_tokens):
    def choose(logits):
        return torch.multinomial(logits[:, -1].softmax(-1), 1)

    return written(model, prompt, num_new_tokens, choose=choose)


@misconception(
    "generate",
    label="logits at the first token",
    hint="`[:, 0]` says what follows the first. What follows all of them stands at the last: `[:, -1]`.",
)
def generate_first_place(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens, choose=lambda logits: logits[:, 0].argmax(-1, keepdim=True))


@misconception(
    "generate",
    label="logits at the last token but one",
    hint="They say what the last one might be. What follows it stands at the last, `[:, -1]`.",
)
def generate_last_but_one(model, prompt, num_new_tokens):
    def choose(logits):
        return logits[:, -2 if logits.shape[1] > 1 else -1].argmax(-1, keepdim=True)

    return written(model, prompt, num_new_tokens, choose=choose)


@misconception(
    "generate",
    label="largest logit of all places",
    hint="The largest logit is looked for at all tokens together. Only those at the last one say what follows.",
)
def generate_of_all_places(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens, choose=lambda logits: logits.amax(1).argmax(-1, keepdim=True))


@misconception(
    "generate",
    label="argmax over the batch",
    hint="It runs over the vocabulary, the last axis, for each sequence by itself.",
)
def generate_over_the_batch(model, prompt, num_new_tokens):
    def choose(logits):
        return (logits[:, -1].argmax() % logits.shape[-1]).expand(len(logits), 1)

    return written(model, prompt, num_new_tokens, choose=choose)


@misconception(
    "generate",
    label="only the last token shown",
    hint="The model is shown all that there is, up to max_len tokens.",
)
def generate_last_token(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens, see=lambda model, tokens: tokens[:, -1:])


@misconception(
    "generate",
    label="the prompt shown each time",
    hint="What was written since is never shown: the same token comes again and again.",
)
def generate_prompt_alone(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens, see=lambda model, tokens: seen(model, prompt))


@misconception(
    "generate",
    label="more than max_len tokens shown",
    hint="The model raises then. Show it the last max_len: `tokens[:, -model.max_len:]`.",
)
def generate_no_window(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens, see=lambda model, tokens: tokens)


@misconception(
    "generate",
    label="the first max_len tokens shown",
    hint="What is new is cut off. Show the model the last ones: `tokens[:, -model.max_len:]`.",
)
def generate_first_window(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens, see=lambda model, tokens: tokens[:, : model.max_len])


@misconception(
    "generate",
    label="stopped when the window is full",
    hint="Nothing is written beyond max_len tokens. The model goes on, and is shown the last max_len.",
)
def generate_stops(model, prompt, num_new_tokens):
    return written(model, prompt, min(num_new_tokens, max(model.max_len - prompt.shape[1], 0)))


@misconception(
    "generate",
    label="long prompts cut for good",
    hint="What the model was not shown is missing from the result: the window is for the model, `tokens` keeps all.",
)
def generate_cut(model, prompt, num_new_tokens):
    tokens = seen(model, prompt)
    for _ in range(num_new_tokens):
        tokens = torch.cat([seen(model, tokens), chosen(model(seen(model, tokens)))], dim=1)
    return tokens


@misconception(
    "generate",
    label="only the new tokens returned",
    hint="The prompt comes first: (b, n + m).",
)
def generate_new_alone(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens)[:, prompt.shape[1] :]


@misconception(
    "generate",
    label="one token too many",
    hint="There is one token more than asked for: `range(num_new_tokens)` counts them.",
)
def generate_one_more(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens + 1)


@misconception(
    "generate",
    label="prompt counted among the new tokens",
    hint="The result has num_new_tokens tokens in all. So many are added to the prompt.",
)
def generate_in_all(model, prompt, num_new_tokens):
    return written(model, prompt, max(num_new_tokens - prompt.shape[1], 0))


@misconception(
    "generate",
    label="at least one token added",
    hint="With num_new_tokens = 0 a token was added all the same. Then the prompt comes back as it is.",
)
def generate_never_none(model, prompt, num_new_tokens):
    return written(model, prompt, max(num_new_tokens, 1))


@misconception(
    "generate",
    label="all new tokens from one look",
    hint="The model is asked once, and its predictions at all tokens are put behind the prompt. Each new token has "
    "to be shown to the model before the next.",
)
def generate_at_once(model, prompt, num_new_tokens):
    places = model(seen(model, prompt)).argmax(-1)
    new = places[:, -1:].repeat(1, num_new_tokens)
    kept = min(num_new_tokens, places.shape[1])
    new[:, num_new_tokens - kept :] = places[:, places.shape[1] - kept :]
    return torch.cat([prompt, new], dim=1)


@misconception(
    "generate",
    label="tokens as floating numbers",
    hint="Tokens are names: keep them int64.",
)
def generate_floats(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens).float()


@misconception(
    "generate",
    label="left in evaluation mode",
    hint="`model.eval()` is called and never taken back: whoever goes on training does so in the wrong mode. "
    "Remember `model.training`, and end with `model.train(...)`.",
)
def generate_leaves_eval(model, prompt, num_new_tokens):
    model.eval()
    return written(model, prompt, num_new_tokens)


@misconception(
    "generate",
    label="left in training mode",
    hint="`model.train()` is called at the end whatever the mode was before. Remember `model.training`, and put that "
    "back.",
)
def generate_leaves_training(model, prompt, num_new_tokens):
    model.eval()
    tokens = written(model, prompt, num_new_tokens)
    model.train()
    return tokens


@misconception(
    "generate",
    label="mode lost where nothing is written",
    hint="With no token to add the function returns early, after `model.eval()` and before the mode is put back. "
    "Return before the one, or after the other.",
)
def generate_returns_early(model, prompt, num_new_tokens):
    before = model.training
    model.eval()
    if num_new_tokens == 0:
        return prompt
    tokens = written(model, prompt, num_new_tokens)
    model.train(before)
    return tokens


@misconception(
    "generate",
    label="mode put back on the outside alone",
    hint="`model.training = True` sets the mode of the outermost module, and its parts stay as `eval()` left them. "
    "`model.train(...)` reaches all of them.",
)
def generate_mode_outside(model, prompt, num_new_tokens):
    before = model.training
    model.eval()
    tokens = written(model, prompt, num_new_tokens)
    model.training = before
    return tokens


@misconception(
    "generate",
    label="gradients of the model switched off",
    hint="`requires_grad_(False)` was called on the model, and nobody can train it any more. To write without "
    "gradients, stay inside `with torch.no_grad():`.",
)
def generate_freezes(model, prompt, num_new_tokens):
    return written(model.requires_grad_(False), prompt, num_new_tokens)


@misconception(
    "generate",
    label="a note left on the model",
    hint="An attribute was set on the model. Keep what you need in a variable of your own.",
)
def generate_notes(model, prompt, num_new_tokens):
    model.written = written(model, prompt, num_new_tokens)
    return model.written


@misconception(
    "generate",
    label="prompt moved in place",
    hint="The prompt itself was changed: its tokens were moved to make room. Put together a new tensor.",
)
def generate_in_place(model, prompt, num_new_tokens):
    tokens = written(model, prompt, num_new_tokens)
    prompt[:] = tokens[:, -prompt.shape[1] :]
    return tokens


# generate: right


TOKENS = {
    "a list instead of an array": "A list came back. Leave `.tolist()` out: the result is a tensor.",
    "an array instead of a tensor": "An array of NumPy's came back. Tokens are a tensor.",
    "axis squeezed away": "An axis of size 1 is gone: `squeeze` removes it. One sequence is still a batch.",
}


@families("returns nothing", *TOKENS, hints=TOKENS)
@right("generate")
def generate_in_steps(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens)

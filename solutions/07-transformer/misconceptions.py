"""Wrong answers that people really give, each with a hint, and right ones that other mistakes are made from. Students
get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from checking import families, misconception, misconception_of_each, right

# by_hand: wrong


@misconception(
    "by_hand",
    label="post-norm instead of pre-norm",
    hint="The norms come after the sums. In this layer, each part gets the normed stream, and its result is added "
    "to the stream before the norm.",
)
def by_hand_post_norm():
    return [0.19, 0.67, -1.71, 0.84]


@misconception(
    "by_hand",
    label="second residual missing",
    hint="This is the result of the feed-forward network. It still has to be added to x'.",
)
def by_hand_without_residual():
    return [5, 10, 0, -2]


@misconception(
    "by_hand",
    label="added to x instead of x'",
    hint="The result of the feed-forward network is added to x. Add it to x', which contains the result of "
    "attention.",
)
def by_hand_added_to_x():
    return [6, 11, 5, 3]


@misconception(
    "by_hand",
    label="GELU missing",
    hint="The hidden number -10 goes to the second matrix unchanged. GELU turns it into 0, to two decimals.",
)
def by_hand_without_gelu():
    return [-2, 11, -17, -3]


@misconception(
    "by_hand",
    label="feed-forward network missing",
    hint="This is x', the stream after attention. It still goes through the feed-forward network.",
)
def by_hand_attention_alone():
    return [3, 1, 3, 9]


@misconception(
    "by_hand",
    label="residual from the normed stream",
    hint="The result of each part is added to the normed stream. Add it to the stream before the norm.",
)
def by_hand_residual_after_norm():
    return [4.67, 9, -0.33, -0.33]


# FeedForward, in steps that a mistake can replace


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
    hint="The curve is ReLU, which is 0 below 0. GELU is slightly negative there: `nn.functional.gelu`.",
)
class FeedForward_relu(FeedForward):
    def curve(self, hidden):
        return hidden.relu()


@misconception(
    "FeedForward",
    label="approximate GELU",
    hint='`approximate="tanh"` is close to GELU, but it is another curve, and near t = -3 the difference is '
    "visible. Leave it out.",
)
class FeedForward_tanh_gelu(FeedForward):
    def curve(self, hidden):
        return functional.gelu(hidden, approximate="tanh")


@misconception(
    "FeedForward",
    label="square root of 2 missing",
    hint="The code uses `erf(t)` instead of `erf(t / sqrt(2))`. The normal distribution function is (1 + erf(t / "
    "sqrt(2))) / 2.",
)
class FeedForward_erf(FeedForward):
    def curve(self, hidden):
        return hidden * 0.5 * (1 + torch.erf(hidden))


@misconception(
    "FeedForward",
    label="no GELU between the layers",
    hint="There is no GELU between the two layers, and two linear layers in a row are equivalent to one.",
)
class FeedForward_linear(FeedForward):
    def curve(self, hidden):
        return hidden


@misconception(
    "FeedForward",
    label="GELU after the second layer",
    hint="GELU is applied after the second layer. It belongs between the two layers.",
)
class FeedForward_at_the_end(FeedForward):
    def forward(self, x):
        return functional.gelu(self.linear2(self.linear1(x)))


@misconception(
    "FeedForward",
    label="residual added in the network",
    hint="The network adds x to its result. The residual connection belongs to the layer, in 7.2, not to this "
    "network.",
)
class FeedForward_residual(FeedForward):
    def forward(self, x):
        return x + super().forward(x)


@misconception(
    "FeedForward",
    label="norm inside the network",
    hint="The network norms x first. The norm belongs to the layer, in 7.2, not to this network.",
)
class FeedForward_normed(FeedForward):
    def forward(self, x):
        return super().forward(functional.layer_norm(x, x.shape[-1:]))


@misconception(
    "FeedForward",
    label="d_ff and d_model swapped",
    hint="The first layer goes from d_ff to d_model. It should go from d_model to d_ff, and the second one back.",
)
class FeedForward_exchanged(FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_ff, d_model)


@misconception(
    "FeedForward",
    label="d_ff ignored",
    hint="There are always 4 d_model hidden units. That is a common size, but here d_ff gives the number.",
)
class FeedForward_four_times(FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, 4 * d_model)


@misconception(
    "FeedForward",
    label="layers with other names",
    hint="Weights are loaded by name: the two layers are called `linear1` and `linear2`, as in PyTorch.",
)
class FeedForward_names(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


@misconception(
    "FeedForward",
    label="biases missing",
    hint="The layers have no biases. `nn.Linear` has them by default: drop `bias=False`.",
)
class FeedForward_no_bias(FeedForward):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.linear1, self.linear2 = (
            nn.Linear(d_model, d_ff, bias=False),
            nn.Linear(d_ff, d_model, bias=False),
        )


@misconception(
    "FeedForward",
    label="super().__init__ missing or late",
    hint="`super().__init__()` is missing or comes too late. It must come first in `__init__`, before any layer.",
)
class FeedForward_not_begun(FeedForward):
    def __init__(self, d_model, d_ff):
        self.linear1 = nn.Linear(d_model, d_ff)


@misconception(
    "FeedForward",
    label="dropout in training mode",
    hint="This network has no dropout: the same inputs always give the same result.",
)
class FeedForward_dropout(FeedForward):
    def curve(self, hidden):
        return functional.dropout(super().curve(hidden), 0.1, self.training)


@misconception(
    "FeedForward",
    label="sizes of 1 stretched",
    hint="A row with a single number is stretched to d_model. `nn.Linear` raises by itself: do not stretch the row.",
)
class FeedForward_stretched(FeedForward):
    def forward(self, x):
        return super().forward(
            x.expand(*x.shape[:-1], self.linear1.in_features) if x.shape[-1] == 1 else x
        )


@misconception(
    "FeedForward",
    label="x changed in place",
    hint="`+=`, `*=` and methods that end in `_` change `x` in place, but the caller still needs it.",
)
class FeedForward_in_place(FeedForward):
    def forward(self, x):
        result = super().forward(x)
        x.data += 1
        return result


@misconception(
    "FeedForward",
    label="result always float32",
    hint="Drop `.float()`: the result has the dtype of the parameters.",
)
class FeedForward_float32(FeedForward):
    def forward(self, x):
        return super().forward(x).float()


@misconception(
    "FeedForward",
    label="hidden units detached",
    hint="`linear1` learns nothing, because `detach` or `.data` after it cuts the gradient off. `linear2` still "
    "gets its gradient.",
)
class FeedForward_detached(FeedForward):
    def curve(self, hidden):
        return super().curve(hidden.detach())


LAYERS = {
    "a list instead of an array": "The result is a list. Drop `.tolist()` and return a tensor.",
    "axis squeezed away": "An axis of size 1 is missing: `squeeze` removes it. One sequence is still a batch, and "
    "one token is still a row.",
    "only the first sequence": "`[0]` takes the first sequence and drops the rest of the batch. Keep the axis b.",
}
FAMILIES = [*LAYERS, "returns nothing", "an array instead of a tensor", "cut off from autograd"]


# FeedForward: right


@families(*FAMILIES, hints=LAYERS)
@right("FeedForward")
class FeedForward_in_steps(FeedForward):
    pass


# The parts of both layers


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("d_model is not a multiple of num_heads")
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def turn(self, x):
        """Rotate the heads of queries or keys, for rotary positions."""
        return x

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = (
            projection(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for projection, x in ((self.W_q, query), (self.W_k, key), (self.W_v, value))
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
        """Return self-attention of an input that is already normed."""
        return self.self_attn(x, mask=mask)[0]

    def fed(self, x):
        return self.feed_forward(x)

    def add(self, x, norm, part):
        """One part with its residual connection."""
        return x + part(norm(x))

    def parts(self, memory, mask, memory_mask):
        """Apply the parts in order, each with its norm."""
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
        """Return cross-attention of an input that is already normed."""
        return self.multihead_attn(x, memory, mask=mask)[0]

    def parts(self, memory, mask, memory_mask):
        attend = (self.norm2, lambda x: self.cross(x, memory, memory_mask))
        return [(self.norm1, lambda x: self.own(x, mask)), attend, (self.norm3, self.fed)]

    def forward(self, x, memory, mask=None, memory_mask=None):
        return self.through(x, memory, mask, memory_mask)


of_both = misconception_of_each(EncoderLayer, DecoderLayer)


# Both layers, wrong: norms and residual connections


@of_both(
    label="post-norm instead of pre-norm",
    hint="The norm comes after the sum, norm(x + part(x)), as in the first transformer. Pre-norm is x + "
    "part(norm(x)).",
)
class post_norm:
    def add(self, x, norm, part):
        return norm(x + part(x))


@of_both(
    label="parts without a norm",
    hint="The norms exist but are never used: each part gets the stream without a norm. Use `part(norm(x))`.",
)
class without_norm:
    def add(self, x, norm, part):
        return x + part(x)


@of_both(
    label="result of a part normed",
    hint="x + norm(part(x)) applies the norm after the part. It belongs before the part: x + part(norm(x)).",
)
class norm_of_the_part:
    def add(self, x, norm, part):
        return x + norm(part(x))


@of_both(
    label="residual connections missing",
    hint="Each part replaces the stream. Add its result to the stream: `x = x + part(norm(x))`.",
)
class without_residual:
    def add(self, x, norm, part):
        return part(norm(x))


@of_both(
    label="residual from the normed stream",
    hint="The result of a part is added to the *normed* stream: `x = norm(x); x = x + part(x)`. Give the normed "
    "stream another name, and add to the original x.",
)
class residual_after_norm:
    def add(self, x, norm, part):
        h = norm(x)
        return h + part(h)


@of_both(
    label="parts applied in parallel",
    hint="All parts get the original x, and their results are added at the end. Each part should get the stream "
    "after the previous part.",
)
class parallel:
    def through(self, x, memory=None, mask=None, memory_mask=None):
        return x + sum(part(norm(x)) for norm, part in self.parts(memory, mask, memory_mask))


@of_both(
    label="feed-forward before attention",
    hint="The feed-forward network comes first. Attention comes first, and the network processes its result.",
)
class feed_forward_first:
    def parts(self, *inputs):
        *others, last = super().parts(*inputs)
        return [last, *others]


@of_both(
    label="feed-forward network not used",
    hint="The feed-forward network exists but is never used. It is the last part: x + feed_forward(norm(x)).",
)
class without_feed_forward:
    def parts(self, *inputs):
        return super().parts(*inputs)[:-1]


@of_both(
    label="self-attention not used",
    hint="`self_attn` exists but is never used. It is the first part: x + self_attn(norm1(x)).",
)
class without_attention:
    def parts(self, *inputs):
        return super().parts(*inputs)[1:]


@of_both(
    label="norm1 used for every part",
    hint="The other norms are never used. Each part has its own norm.",
)
class norm1_for_all:
    def parts(self, *inputs):
        return [(self.norm1, part) for _, part in super().parts(*inputs)]


@of_both(
    label="one norm for all parts",
    hint="There is only one norm. Each part has its own, `norm1` for the first and so on.",
)
class single_norm:
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__(d_model, num_heads, d_ff)
        del self.norm2

    def parts(self, *inputs):
        self.norm2 = self.norm1
        return super().parts(*inputs)


@of_both(
    label="one norm too many",
    hint="There is an extra norm at the end. A pre-norm model has it once, after the last layer; it belongs to the "
    "model, not the layer.",
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
    hint="The norm only divides, as in RMSNorm; `nn.LayerNorm` also subtracts the mean.",
)
class rms_norm:
    def norm_of(self, d_model):
        norm = OwnNorm(d_model)
        norm.center = lambda x: x
        return norm


@of_both(
    label="standard deviation with n - 1",
    hint="`x.std()` divides by n - 1 by default. A layer norm divides by n: use `nn.LayerNorm`, or `unbiased=False`.",
)
class unbiased:
    def norm_of(self, d_model):
        norm = OwnNorm(d_model)
        norm.divide = lambda x: (
            x / (x.square().sum(-1, keepdim=True) / max(d_model - 1, 1) + norm.eps).sqrt()
        )
        return norm


@of_both(
    label="different epsilon in the norm",
    hint="The norm does not add 1e-5 to the variance, but another number, such as `eps=1e-6`. Keep the default of "
    "`nn.LayerNorm`.",
)
class other_eps:
    def norm_of(self, d_model):
        return nn.LayerNorm(d_model, eps=1e-6)


@of_both(
    label="epsilon outside the square root",
    hint="1e-5 is added to the standard deviation. Add it to the variance, before taking the square root.",
)
class eps_outside:
    def norm_of(self, d_model):
        norm = OwnNorm(d_model)
        norm.divide = lambda x: x / (x.square().mean(-1, keepdim=True).sqrt() + norm.eps)
        return norm


@of_both(
    label="norm over the whole sequence",
    hint="Mean and variance are computed over all tokens of a sequence. A layer norm computes them for each token "
    "separately, over the last axis.",
)
class normed_over_tokens:
    def norm_of(self, d_model):
        norm = OwnNorm(d_model)
        norm.center = lambda x: x - x.mean((-2, -1), keepdim=True)
        norm.divide = lambda x: x / (x.square().mean((-2, -1), keepdim=True) + norm.eps).sqrt()
        return norm


@of_both(
    label="norms without weight and bias",
    hint="`elementwise_affine=False` removes weight and bias. Use the default `nn.LayerNorm(d_model)`.",
)
class norms_bare:
    def norm_of(self, d_model):
        return nn.LayerNorm(d_model, elementwise_affine=False)


# Both layers, wrong: parts


@of_both(
    label="super().__init__ missing or late",
    hint="`super().__init__()` is missing or comes too late. It must come first in `__init__`, before any layer.",
)
class not_begun:
    def __init__(self, d_model, num_heads, d_ff):
        MultiHeadAttention(d_model, num_heads)
        self.norm1 = nn.LayerNorm(d_model)


@of_both(
    label="linear layers outside FeedForward",
    hint="The two linear layers are attributes of the layer itself, as in PyTorch. Here they belong to a "
    "`FeedForward`, `self.feed_forward = FeedForward(d_model, d_ff)`.",
)
class layers_inside:
    def network(self, d_model, d_ff):
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        return None


@of_both(
    label="attention with another name",
    hint="Weights are loaded by name: the attention is called `self_attn`, as in PyTorch's layer.",
)
class other_name:
    def state_dict(self, *arguments, **more):
        return {
            name.replace("self_attn", "attn"): value
            for name, value in super().state_dict(*arguments, **more).items()
        }


@of_both(
    label="PyTorch's attention inside",
    hint="`nn.MultiheadAttention` stores its weights under other names. Use the given `MultiHeadAttention`.",
)
class torch_inside:
    def attention(self, d_model, num_heads):
        if d_model % num_heads:
            raise ValueError("not divisible")
        return nn.MultiheadAttention(d_model, num_heads, batch_first=True)


@of_both(
    label="d_ff not passed on",
    hint="The feed-forward network has 4 d_model or d_model hidden units. Pass d_ff to it.",
)
class ignores_d_ff:
    def network(self, d_model, d_ff):
        return FeedForward(d_model, 4 * d_model)


@of_both(
    label="num_heads not passed on",
    hint="There is always one head. Pass the number on: `MultiHeadAttention(d_model, num_heads)`.",
)
class one_head:
    def attention(self, d_model, num_heads):
        return MultiHeadAttention(d_model, 1)


@of_both(
    label="ReLU instead of GELU",
    hint="The feed-forward network uses ReLU, the default of PyTorch's layer. Here it should use GELU.",
)
class relu:
    def fed(self, x):
        return self.feed_forward.linear2(self.feed_forward.linear1(x).relu())


@of_both(
    label="keys and values not normed",
    hint="Queries come from the normed stream, but keys and values come from the stream before the norm. In "
    "self-attention all three are the same: `self_attn(norm1(x))`.",
)
class queries_normed_alone:
    def through(self, x, memory=None, mask=None, memory_mask=None):
        h = self.norm1(x)
        x = x + self.self_attn(h, x, x, mask)[0]
        for norm, part in self.parts(memory, mask, memory_mask)[1:]:
            x = self.add(x, norm, part)
        return x


@of_both(
    label="tuple passed on or returned",
    hint="`MultiHeadAttention` returns a tuple, output and weights. A layer continues with the output, `[0]`, and "
    "returns a tensor.",
)
class tuple_returned:
    def through(self, *arguments, **masks):
        return super().through(*arguments, **masks), None


@of_both(
    label="batch and tokens swapped",
    hint="The first axis is read as the tokens, as in PyTorch's layers without `batch_first=True`. Here the batch "
    "comes first.",
)
class tokens_first:
    def own(self, x, mask):
        return super().own(x.transpose(0, 1), None).transpose(0, 1)


# Both layers, wrong: masks


@of_both(
    label="mask ignored",
    hint="`mask` is not passed to self-attention: `self.self_attn(h, mask=mask)`.",
)
class unmasked:
    def own(self, x, mask):
        return super().own(x, None)


@of_both(
    label="mask kept from an earlier call",
    hint="The mask is stored on the layer and affects a later call without a mask. Calls are independent: do not "
    "store it on `self`.",
)
class mask_kept:
    noted = None

    def own(self, x, mask):
        if (
            mask is None
            and self.noted is not None
            and self.noted.shape[-2:] == (x.shape[1], x.shape[1])
        ):
            mask = self.noted
        self.noted = mask
        return super().own(x, mask)


@of_both(
    label="mask inverted",
    hint='In this notebook True means "may attend". PyTorch\'s layers use the opposite; yours passes the mask on '
    "unchanged.",
)
class inverted:
    def own(self, x, mask):
        return super().own(x, None if mask is None else ~mask)


@of_both(
    label="causal when no mask is given",
    hint="Without a mask, the layer creates a causal one. None means that every token may be attended to.",
)
class causal_by_default:
    def own(self, x, mask):
        return super().own(x, past(x) if mask is None else mask)


@of_both(
    label="NaN for fully masked tokens",
    hint="A fully masked token becomes NaN. The given `MultiHeadAttention` returns a weighted sum of 0 there; "
    "`scaled_dot_product_attention` and other softmaxes may not.",
)
class nan_rows:
    def own(self, x, mask):
        out = super().own(x, mask)
        if mask is None or mask.dim() == 4 or mask.shape[-2] == 1:
            return out
        return out.masked_fill(~mask.any(-1, keepdim=True), torch.nan)


@of_both(
    label="mask with one column stretched",
    hint="A mask with a single column is stretched to all keys. Its last size must be the number of keys.",
)
class mask_stretched:
    def own(self, x, mask):
        if mask is not None and mask.shape[-1] == 1:
            mask = mask.expand(*mask.shape[:-1], x.shape[1])
        return super().own(x, mask)


@of_both(
    label="mask cropped to fit",
    hint="A larger mask is cropped to the first n rows and columns, which may mean something else: a causal mask is "
    "aligned at the end. Pass it on unchanged; attention raises on a shape mismatch.",
)
class mask_cut:
    def own(self, x, mask):
        return super().own(x, None if mask is None else mask[..., : x.shape[1], : x.shape[1]])


@of_both(
    label="mask passed as the key",
    hint="The mask is passed in the place of the key: `self_attn(h, mask)`. Pass it by name: `self_attn(h, "
    "mask=mask)`.",
)
class mask_as_key:
    def own(self, x, mask):
        return self.self_attn(x, mask)[0]


@of_both(
    label="extra axis added to the mask",
    hint="The mask gets an axis in front, so a mask per sequence is read as a mask per head. Pass it on unchanged: "
    "attention accepts all its shapes.",
)
class mask_with_an_axis:
    def own(self, x, mask):
        return super().own(x, mask if mask is None else mask[None])


# Both layers, wrong: gradients, modes, dtypes, inputs


@of_both(
    label="stream detached before the sum",
    hint="The stream is detached before a part is added, so the layers before this one learn only through the "
    "parts. Avoid `detach` and `.data`.",
)
class stream_detached:
    def add(self, x, norm, part):
        return x.detach() + part(norm(x))


@of_both(
    label="output of attention detached",
    hint="The result of attention is detached, so its parameters learn nothing. Avoid `detach` and `no_grad`.",
)
class attention_detached:
    def own(self, x, mask):
        return super().own(x, mask).detach()


@of_both(
    label="dropout in training mode",
    hint="PyTorch's layers apply dropout to the result of each part by default. This layer has none.",
)
class dropout:
    def add(self, x, norm, part):
        return x + functional.dropout(part(norm(x)), 0.1, self.training)


@of_both(
    label="result always float32",
    hint="Drop `.float()`, also around the norms: the result has the dtype of the parameters.",
)
class always_float32:
    def through(self, *arguments, **masks):
        return super().through(*arguments, **masks).float()


@of_both(
    label="x changed in place",
    hint="`x += ...` changes the caller's tensor. Use `x = x + ...`, which creates a new one.",
)
class in_place:
    def through(self, x, memory=None, mask=None, memory_mask=None):
        result = super().through(x, memory, mask, memory_mask)
        x.data.copy_(result)
        return result


@of_both(
    label="sizes of 1 stretched",
    hint="A token with a single number is stretched to d_model by `+` and `*`. Its last size must be d_model.",
)
class stretched:
    def through(self, x, memory=None, mask=None, memory_mask=None):
        if x.shape[-1] == 1:
            x = x.expand(*x.shape[:-1], self.d_model)
        return super().through(x, memory, mask, memory_mask)


@of_both(
    label="only the first 512 tokens",
    hint="Tokens after the 512th cannot be seen, because a length is hard-coded.",
)
class first_512:
    def own(self, x, mask):
        near = (torch.arange(x.shape[1]) < 512).expand(x.shape[1], -1)
        return super().own(x, near if mask is None else near & mask)


# EncoderLayer: wrong


@misconception(
    "EncoderLayer",
    label="mask under another name",
    hint="The mask is called `src_mask`, as in PyTorch's layer. Here the argument is called `mask`, as in `layer(x, "
    "mask=mask)`.",
)
class EncoderLayer_renamed(EncoderLayer):
    def forward(self, x, src_mask=None):
        return super().forward(x, src_mask)


@misconception(
    "EncoderLayer",
    label="parameters of a decoder layer included",
    hint="`multihead_attn` and `norm3`, a cross-attention and its norm, are among the parameters. An encoder layer "
    "has neither.",
)
class EncoderLayer_decoder(DecoderLayer):
    def forward(self, x, mask=None):
        return super().forward(x, x, mask)


@misconception(
    "EncoderLayer",
    label="not an nn.Module",
    hint="The class does not inherit from `nn.Module`, so it has no parameters and no `state_dict`. Use `class "
    "EncoderLayer(nn.Module)`.",
)
class EncoderLayer_no_module:
    def __init__(self, d_model, num_heads, d_ff):
        MultiHeadAttention(d_model, num_heads)


@misconception(
    "EncoderLayer",
    label="fewer heads than asked for",
    hint="A d_model that is not a multiple of num_heads is accepted with fewer heads. Let `MultiHeadAttention` "
    "raise.",
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
    hint="The mask is called `tgt_mask`, as in PyTorch's layer. Here the arguments are called `mask` and "
    "`memory_mask`, as in `layer(x, memory, mask=mask)`.",
)
class DecoderLayer_renamed(DecoderLayer):
    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None):
        return super().forward(tgt, memory, tgt_mask, memory_mask)


@misconception(
    "DecoderLayer",
    label="memory_mask kept from an earlier call",
    hint="`memory_mask` is stored on the layer and affects a later call without one. Calls are independent: do not "
    "store it on `self`.",
)
class DecoderLayer_memory_mask_kept(DecoderLayer):
    noted = None

    def cross(self, x, memory, mask):
        if (
            mask is None
            and self.noted is not None
            and self.noted.shape == (x.shape[1], memory.shape[1])
        ):
            mask = self.noted
        self.noted = mask
        return super().cross(x, memory, mask)


@misconception(
    "DecoderLayer",
    label="self-attention twice",
    hint="Cross-attention takes keys and values from the stream, so the memory is never used. Pass the memory as "
    "the key: `multihead_attn(norm2(x), memory)`.",
)
class DecoderLayer_self_twice(DecoderLayer):
    def cross(self, x, memory, mask):
        return self.multihead_attn(x)[0]


@misconception(
    "DecoderLayer",
    label="values from the stream",
    hint="Cross-attention takes the values from the stream. It should take both keys and values from the memory.",
)
class DecoderLayer_values_of_x(DecoderLayer):
    def cross(self, x, memory, mask):
        return self.multihead_attn(x, memory, x, mask)[0]


@misconception(
    "DecoderLayer",
    label="queries from the memory",
    hint="The queries come from the memory, so there is a result for each memory token. Queries come from the "
    "stream, keys and values from the memory.",
)
class DecoderLayer_queries_of_memory(DecoderLayer):
    def cross(self, x, memory, mask):
        return self.multihead_attn(memory, x)[0]


@misconception(
    "DecoderLayer",
    label="memory normed with norm2",
    hint="The memory is normed. Use it as it is; only the stream is normed.",
)
class DecoderLayer_norms_memory(DecoderLayer):
    def cross(self, x, memory, mask):
        return self.multihead_attn(x, self.norm2(memory), mask=mask)[0]


@misconception(
    "DecoderLayer",
    label="cross-attention before self-attention",
    hint="Cross-attention comes first. The order is self-attention with `norm1`, then cross-attention with `norm2`.",
)
class DecoderLayer_cross_first(DecoderLayer):
    def parts(self, *inputs):
        first, second, last = super().parts(*inputs)
        return [second, first, last]


@misconception(
    "DecoderLayer",
    label="the two attentions swapped",
    hint="`self_attn` attends to the memory, and `multihead_attn` to the stream. It should be the other way round.",
)
class DecoderLayer_attentions_exchanged(DecoderLayer):
    def own(self, x, mask):
        return self.multihead_attn(x, mask=mask)[0]

    def cross(self, x, memory, mask):
        return self.self_attn(x, memory, mask=mask)[0]


@misconception(
    "DecoderLayer",
    label="cross-attention not used",
    hint="The memory is never used: `multihead_attn` exists but is not called.",
)
class DecoderLayer_without_cross(DecoderLayer):
    def parts(self, *inputs):
        first, _, last = super().parts(*inputs)
        return [first, last]


@misconception(
    "DecoderLayer",
    label="the two masks swapped",
    hint="`mask` is passed to cross-attention and `memory_mask` to self-attention. It should be the other way "
    "round; if m = n, there is no error.",
)
class DecoderLayer_masks_exchanged(DecoderLayer):
    def through(self, x, memory=None, mask=None, memory_mask=None):
        return super().through(x, memory, memory_mask, mask)


@misconception(
    "DecoderLayer",
    label="memory_mask ignored",
    hint="`memory_mask` is not used. Pass it to cross-attention: `multihead_attn(h, memory, mask=memory_mask)`.",
)
class DecoderLayer_memory_unmasked(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(x, memory, None)


@misconception(
    "DecoderLayer",
    label="mask used for both attentions",
    hint="`mask`, of shape (n, n), is also used for cross-attention. That needs `memory_mask`, of shape (n, m).",
)
class DecoderLayer_mask_for_both(DecoderLayer):
    def through(self, x, memory=None, mask=None, memory_mask=None):
        return super().through(x, memory, mask, mask)


@misconception(
    "DecoderLayer",
    label="cross-attention causal",
    hint="Cross-attention hides later parts of the memory. The whole other sequence is available: only "
    "`memory_mask` hides parts of it.",
)
class DecoderLayer_causal_cross(DecoderLayer):
    def cross(self, x, memory, mask):
        early = torch.ones(x.shape[1], memory.shape[1], dtype=torch.bool).tril()
        return super().cross(x, memory, early if mask is None else early & mask)


@misconception(
    "DecoderLayer",
    label="memory detached from the encoder",
    hint="The memory is detached, so the encoder that computed it learns nothing from the decoder.",
)
class DecoderLayer_memory_detached(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(x, memory.detach(), mask)


@misconception(
    "DecoderLayer",
    label="memory returned as well",
    hint="The stream and the memory are returned. Return only the stream.",
)
class DecoderLayer_returns_memory(DecoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, memory_mask), memory


@misconception(
    "DecoderLayer",
    label="parameters of an encoder layer only",
    hint="`multihead_attn` and `norm3` are missing in the parameters. Cross-attention has its own weights and norm: "
    "create both in `__init__`, as attributes with these names.",
)
class DecoderLayer_encoder(EncoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, mask)


@misconception(
    "DecoderLayer",
    label="memory cropped to the stream's length",
    hint="Only the first n tokens of a longer memory are used. The memory may have any length.",
)
class DecoderLayer_memory_cut(DecoderLayer):
    def cross(self, x, memory, mask):
        n = x.shape[1]
        return super().cross(x, memory[:, :n], None if mask is None else mask[..., :n])


@misconception(
    "DecoderLayer",
    label="only the first 512 memory tokens",
    hint="Memory tokens after the 512th are not used, because a length is hard-coded.",
)
class DecoderLayer_memory_512(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(x, memory[:, :512], None if mask is None else mask[..., :512])


@misconception(
    "DecoderLayer",
    label="first sequence's memory_mask for all",
    hint="The memory_mask of the first sequence is used for the whole batch. Each sequence may have its own.",
)
class DecoderLayer_first_memory_mask(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(x, memory, mask if mask is None or mask.dim() == 2 else mask[:1])


@misconception(
    "DecoderLayer",
    label="memory_mask with one column stretched",
    hint="A `memory_mask` with a single column is stretched to the whole memory. Its last size must be m.",
)
class DecoderLayer_memory_mask_stretched(DecoderLayer):
    def cross(self, x, memory, mask):
        if mask is not None and mask.shape[-1] == 1:
            mask = mask.expand(*mask.shape[:-1], memory.shape[1])
        return super().cross(x, memory, mask)


@misconception(
    "DecoderLayer",
    label="memory_mask cropped to fit",
    hint="A `memory_mask` for a longer memory is cropped to its first m columns. Pass it on unchanged; attention "
    "raises on a shape mismatch.",
)
class DecoderLayer_memory_mask_cut(DecoderLayer):
    def cross(self, x, memory, mask):
        return super().cross(
            x, memory, None if mask is None else mask[..., : x.shape[1], : memory.shape[1]]
        )


# DecoderLayer: right


@families(*FAMILIES, hints=LAYERS)
@right("DecoderLayer")
class DecoderLayer_in_steps(DecoderLayer):
    pass


# TinyGPT, in steps that a mistake can replace


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
    hint="Tokens see later ones, because no mask is passed to the layers. In training, the model can read the "
    "tokens that it should predict. `torch.ones(n, n, dtype=torch.bool).tril()`.",
)
class TinyGPT_unmasked(TinyGPT):
    def mask(self, x):
        return None


@misconception(
    "TinyGPT",
    label="mask transposed",
    hint="The mask is transposed, so each token sees itself and later ones. Row i belongs to token i, which sees "
    "columns 0 to i: `tril`, not `triu`.",
)
class TinyGPT_turned(TinyGPT):
    def mask(self, x):
        return past(x).T


@misconception(
    "TinyGPT",
    label="next token visible",
    hint="Each token sees the next one, which it has to predict: the mask is one diagonal too wide. Use `tril()` "
    "without a `diagonal`.",
)
class TinyGPT_next_seen(TinyGPT):
    def mask(self, x):
        return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(1)


@misconception(
    "TinyGPT",
    label="only the first layer masked",
    hint="Later tokens are visible through the other layers. Every layer needs the mask.",
)
class TinyGPT_first_masked(TinyGPT):
    def through(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x, self.mask(x) if i == 0 else None)
        return x


@misconception(
    "TinyGPT",
    label="mask with a fixed size",
    hint="The mask is created for a few tokens, and later tokens see everything. Make it as long as the sequence: "
    "`torch.ones(n, n, dtype=torch.bool).tril()`, where n is the current number of tokens.",
)
class TinyGPT_masked_at_first(TinyGPT):
    def mask(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
        mask[:16, :16] = past(x)[:16, :16]
        mask[:16, 16:] = False
        return mask


@misconception(
    "TinyGPT",
    label="mask only in training",
    hint="The mask is not used after `eval()`. A token must not see later ones then either, since it was trained "
    "without them.",
)
class TinyGPT_masked_in_training(TinyGPT):
    def mask(self, x):
        return past(x) if self.training else None


@misconception(
    "TinyGPT",
    label="no positions",
    hint="The model gets no positions: after swapped tokens, the logits are the same. Add positions to the "
    "embedding.",
)
class TinyGPT_unplaced(TinyGPT):
    def placed(self, x):
        return x


@misconception(
    "TinyGPT",
    label="positions looked up by token",
    hint="The positions are looked up by token. A token encodes which word it is, not where: use `torch.arange(n)` "
    "to look up positions.",
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
    hint="All `max_len` positions are added for any n, which raises, or stretches a single token. Use the first n: "
    "`torch.arange(n)`, or `[:n]`.",
)
class TinyGPT_whole_table(TinyGPT):
    def placed(self, x):
        return x + self.position(torch.arange(self.max_len))


@misconception(
    "TinyGPT",
    label="positions counted from the end",
    hint="The last token gets position 0 or the last position, so a token's position depends on how many follow. "
    "Count from the first token.",
)
class TinyGPT_from_the_end(TinyGPT):
    def placed(self, x):
        return x + self.position(torch.arange(x.shape[1]).flip(0))


@misconception(
    "TinyGPT",
    label="too many tokens silently cut",
    hint="More than max_len tokens are cut to max_len, and the caller is not informed. Raise `ValueError`; cutting "
    "is the task of `generate`.",
)
class TinyGPT_cuts(TinyGPT):
    def forward(self, tokens):
        return super().forward(tokens[:, -self.max_len :])


@misconception(
    "TinyGPT",
    label="more tokens than max_len accepted",
    hint="Sinusoidal and rotary positions have no limit. Compare n with `max_len`, and raise `ValueError`.",
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
    hint="max_len + 1 tokens are accepted: the table has one position too many, or `>` compares with the wrong "
    "number.",
)
class TinyGPT_one_more(TinyGPT):
    def fits(self, n):
        super().fits(n - 1)

    def place(self, max_len, d_model):
        super().place(max_len + 1, d_model)


@misconception(
    "TinyGPT",
    label="max_len tokens refused",
    hint="max_len tokens raise an error although they are allowed: compare with `>`, not `>=`.",
)
class TinyGPT_one_less(TinyGPT):
    def fits(self, n):
        super().fits(n + 1)


@misconception(
    "TinyGPT",
    label="max_len not stored",
    hint="`generate` reads max_len from the model: `self.max_len = max_len`.",
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
    hint="Softmax is applied at the end. The loss applies softmax itself, and learns badly from numbers between 0 "
    "and 1: return the logits.",
)
class TinyGPT_probabilities(TinyGPT):
    def said(self, x):
        return super().said(x).softmax(-1)


@misconception(
    "TinyGPT",
    label="logits at the last token only",
    hint="Only the logits at the last token are returned. Return those at every token: each is a prediction to "
    "learn from.",
)
class TinyGPT_last(TinyGPT):
    def forward(self, tokens):
        return super().forward(tokens)[:, -1]


@misconception(
    "TinyGPT",
    label="vocabulary before the tokens",
    hint="The logits have shape (b, vocab_size, n), as `cross_entropy` expects. Here tokens come before the "
    "vocabulary.",
)
class TinyGPT_transposed(TinyGPT):
    def forward(self, tokens):
        return super().forward(tokens).transpose(1, 2)


@misconception(
    "TinyGPT",
    label="stream instead of logits",
    hint="The stream is returned, d_model numbers for each token. A linear layer turns it into vocab_size logits.",
)
class TinyGPT_stream(TinyGPT):
    def said(self, x):
        return self.norm(x)


@misconception(
    "TinyGPT",
    label="vocab_size and d_model swapped",
    hint="The embedding is `nn.Embedding(d_model, vocab_size)`. The number of tokens comes first, then the width.",
)
class TinyGPT_exchanged(TinyGPT):
    def embed(self, vocab_size, d_model):
        self.token = nn.Embedding(d_model, vocab_size)


@misconception(
    "TinyGPT",
    label="one layer used num_layers times",
    hint="`[layer] * num_layers` repeats the same layer, so all share their weights. Create a new one each time, "
    "`[EncoderLayer(...) for _ in range(num_layers)]`.",
)
class TinyGPT_shared_layers(TinyGPT):
    def stack(self, d_model, num_heads, num_layers):
        self.layers = nn.ModuleList([self.layer(d_model, num_heads)] * num_layers)


@misconception(
    "TinyGPT",
    label="layers not registered",
    hint="The layers are in a Python list, and a module does not search lists: they are missing in `parameters()`, "
    "and no optimizer trains them. Use `nn.ModuleList([...])`.",
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
    label="last layer not used",
    hint="The last layer exists, but the stream never passes through it. The stream goes through all layers.",
)
class TinyGPT_skips_last(TinyGPT):
    def through(self, x):
        for layer in self.layers[:-1] if len(self.layers) > 1 else self.layers:
            x = layer(x, self.mask(x))
        return x


@misconception(
    "TinyGPT",
    label="embedding passed to every layer",
    hint="Each layer gets the embedding, and only the last layer's result is used. The stream goes through them one "
    "after another: `x = layer(x, mask)`.",
)
class TinyGPT_from_the_embedding(TinyGPT):
    def through(self, x):
        for layer in self.layers:
            y = layer(x, self.mask(x))
        return y


@misconception(
    "TinyGPT",
    label="only three tokens back",
    hint="A token sees only the last few tokens before it. It should see all earlier tokens; chapter 10 is about "
    "windows.",
)
class TinyGPT_window(TinyGPT):
    def mask(self, x):
        return past(x) & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(-3)


@misconception(
    "TinyGPT",
    label="tokens hidden from themselves",
    hint="The mask is one diagonal too narrow: each token is hidden from itself, and the first one sees nothing. A "
    "token attends to itself and to all earlier tokens.",
)
class TinyGPT_not_itself(TinyGPT):
    def mask(self, x):
        return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril(-1)


@misconception(
    "TinyGPT",
    label="token 0 hidden as padding",
    hint="Tokens with the number 0 are hidden as if they were padding. All numbers below `vocab_size` are words.",
)
class TinyGPT_padding(TinyGPT):
    def forward(self, tokens):
        self.words = tokens != 0
        return super().forward(tokens)

    def mask(self, x):
        return past(x) & self.words[:, None]


@misconception(
    "TinyGPT",
    label="only the last 512 tokens",
    hint="Tokens more than 512 places back are hidden, because a length is hard-coded. Each token sees all earlier "
    "tokens.",
)
class TinyGPT_window_of_512(TinyGPT):
    def mask(self, x):
        return past(x) & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(-511)


@misconception(
    "TinyGPT",
    label="tokens after the 512th hidden",
    hint="Tokens after the 512th are hidden from all tokens, because a length is hard-coded. Each token sees itself "
    "and all earlier tokens.",
)
class TinyGPT_first_512(TinyGPT):
    def mask(self, x):
        return past(x) & (torch.arange(x.shape[1]) < 512)


@misconception(
    "TinyGPT",
    label="tokens shifted to the right",
    hint="The tokens are shifted by one, so the logits at a token do not depend on it. That shift belongs to the "
    "training of a decoder; here the logits at token i predict what follows token i.",
)
class TinyGPT_shifted(TinyGPT):
    def forward(self, tokens):
        return super().forward(functional.pad(tokens, (1, -1)))


@misconception(
    "TinyGPT",
    label="sequences attend to each other",
    hint="The first axis is read as the tokens, so sequences attend to each other. The batch comes first.",
)
class TinyGPT_across(TinyGPT):
    def through(self, x):
        for layer in self.layers:
            x = layer(x.transpose(0, 1)).transpose(0, 1)
        return x


@misconception(
    "TinyGPT",
    label="mean over the batch subtracted",
    hint="The result for a sequence then depends on the other sequences. `nn.LayerNorm` computes the mean of each "
    "token separately.",
)
class TinyGPT_batch_norm(TinyGPT):
    def said(self, x):
        return super().said(x - x.mean(0, keepdim=True) / 2)


@misconception(
    "TinyGPT",
    label="norm over the tokens",
    hint="The mean includes later tokens. `nn.LayerNorm` computes the mean of each token separately.",
)
class TinyGPT_normed_over_tokens(TinyGPT):
    def said(self, x):
        return super().said(x - x.mean(1, keepdim=True) / 2)


@misconception(
    "TinyGPT",
    label="embedding too large for the last layer",
    hint="The logits of a new model are large: it is confident, but has learned nothing. This happens when "
    "embeddings with variance 1 are also the last layer's weights, or are multiplied by sqrt(d_model): use smaller "
    "initial values.",
)
class TinyGPT_tied_too_large(TinyGPT):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.head.weight = self.token.weight


@misconception(
    "TinyGPT",
    label="tokens used as numbers",
    hint="The token's number is multiplied by a vector, so token 8 is twice token 4, and large numbers give large "
    "logits. Tokens are names, not quantities: use `nn.Embedding`.",
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
    hint="This model has no dropout: the same tokens always give the same logits.",
)
class TinyGPT_dropout(TinyGPT):
    def placed(self, x):
        return functional.dropout(super().placed(x), 0.1, self.training)


@misconception(
    "TinyGPT",
    label="positions not registered",
    hint="The table of positions is a plain tensor, so its dtype and device do not change with the model. Use "
    '`self.register_buffer("positions", ...)`.',
)
class TinyGPT_plain_table(TinyGPT):
    def place(self, max_len, d_model):
        self.position = waves(max_len, d_model)

    def placed(self, x):
        return x + self.position[: x.shape[1]]


@misconception(
    "TinyGPT",
    label="super().__init__ missing or late",
    hint="`super().__init__()` is missing or comes too late. It must come first in `__init__`, before any layer.",
)
class TinyGPT_not_begun(TinyGPT):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        self.token = nn.Embedding(vocab_size, d_model)


@misconception(
    "TinyGPT",
    label="indivisible d_model accepted",
    hint="A d_model that is not a multiple of num_heads is accepted. Pass both on, and let `MultiHeadAttention` "
    "raise.",
)
class TinyGPT_rounds(TinyGPT):
    def layer(self, d_model, num_heads):
        return super().layer(d_model, math.gcd(d_model, num_heads))


# TinyGPT: right


GPT = {
    "a list instead of an array": "The result is a list. Drop `.tolist()`: logits are a tensor.",
    "axis squeezed away": "An axis of size 1 is missing: `squeeze` removes it. One sequence is still a batch.",
    "only the first sequence": "`[0]` takes the first sequence and drops the rest of the batch. Keep the axis b.",
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
    """Generate tokens; subclasses replace single steps."""
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
    label="logits at the first token used",
    hint="`[:, 0]` predicts what follows the first token. The prediction after all tokens is at the last one: `[:, "
    "-1]`.",
)
def generate_first_place(model, prompt, num_new_tokens):
    return written(
        model, prompt, num_new_tokens, choose=lambda logits: logits[:, 0].argmax(-1, keepdim=True)
    )


@misconception(
    "generate",
    label="logits at the second-to-last token",
    hint="The code predicts the last token again. The prediction of the next token is at the last one, `[:, -1]`.",
)
def generate_last_but_one(model, prompt, num_new_tokens):
    def choose(logits):
        return logits[:, -2 if logits.shape[1] > 1 else -1].argmax(-1, keepdim=True)

    return written(model, prompt, num_new_tokens, choose=choose)


@misconception(
    "generate",
    label="argmax over all positions",
    hint="The largest logit is taken over all tokens. Only the logits at the last token predict the next one.",
)
def generate_of_all_places(model, prompt, num_new_tokens):
    return written(
        model, prompt, num_new_tokens, choose=lambda logits: logits.amax(1).argmax(-1, keepdim=True)
    )


@misconception(
    "generate",
    label="argmax over the batch",
    hint="argmax runs over the batch. Use the vocabulary, the last axis, for each sequence separately.",
)
def generate_over_the_batch(model, prompt, num_new_tokens):
    def choose(logits):
        return (logits[:, -1].argmax() % logits.shape[-1]).expand(len(logits), 1)

    return written(model, prompt, num_new_tokens, choose=choose)


@misconception(
    "generate",
    label="only the last token shown",
    hint="The model sees only the last token. Pass it all tokens, up to max_len.",
)
def generate_last_token(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens, see=lambda model, tokens: tokens[:, -1:])


@misconception(
    "generate",
    label="only the prompt shown each time",
    hint="The model never sees the new tokens, so it generates the same token again and again.",
)
def generate_prompt_alone(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens, see=lambda model, tokens: seen(model, prompt))


@misconception(
    "generate",
    label="more than max_len tokens shown",
    hint="The model raises an error for more than max_len tokens. Pass the last max_len: `tokens[:, "
    "-model.max_len:]`.",
)
def generate_no_window(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens, see=lambda model, tokens: tokens)


@misconception(
    "generate",
    label="first max_len tokens shown",
    hint="The newest tokens are cut off. Pass the last ones to the model: `tokens[:, -model.max_len:]`.",
)
def generate_first_window(model, prompt, num_new_tokens):
    return written(
        model, prompt, num_new_tokens, see=lambda model, tokens: tokens[:, : model.max_len]
    )


@misconception(
    "generate",
    label="stopped when the window is full",
    hint="Nothing is generated after max_len tokens. Continue, and pass the last max_len to the model.",
)
def generate_stops(model, prompt, num_new_tokens):
    return written(model, prompt, min(num_new_tokens, max(model.max_len - prompt.shape[1], 0)))


@misconception(
    "generate",
    label="long prompts cut for good",
    hint="Tokens outside the window are missing in the result. The window is only for the model; `tokens` keeps all.",
)
def generate_cut(model, prompt, num_new_tokens):
    tokens = seen(model, prompt)
    for _ in range(num_new_tokens):
        tokens = torch.cat([seen(model, tokens), chosen(model(seen(model, tokens)))], dim=1)
    return tokens


@misconception(
    "generate",
    label="only the new tokens returned",
    hint="Only the new tokens are returned. The prompt comes first: (b, n + m).",
)
def generate_new_alone(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens)[:, prompt.shape[1] :]


@misconception(
    "generate",
    label="one token too many",
    hint="There is one token more than requested: use `range(num_new_tokens)`.",
)
def generate_one_more(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens + 1)


@misconception(
    "generate",
    label="prompt counted among the new tokens",
    hint="The result has num_new_tokens tokens in total. That number is added to the prompt.",
)
def generate_in_all(model, prompt, num_new_tokens):
    return written(model, prompt, max(num_new_tokens - prompt.shape[1], 0))


@misconception(
    "generate",
    label="at least one token added",
    hint="With num_new_tokens = 0, a token is still added. Return the prompt unchanged then.",
)
def generate_never_none(model, prompt, num_new_tokens):
    return written(model, prompt, max(num_new_tokens, 1))


@misconception(
    "generate",
    label="all new tokens from one call",
    hint="The model is called once, and its predictions at all tokens are appended to the prompt. The model has to "
    "see each new token before it predicts the next.",
)
def generate_at_once(model, prompt, num_new_tokens):
    places = model(seen(model, prompt)).argmax(-1)
    new = places[:, -1:].repeat(1, num_new_tokens)
    count = min(num_new_tokens, places.shape[1])
    new[:, num_new_tokens - count :] = places[:, places.shape[1] - count :]
    return torch.cat([prompt, new], dim=1)


@misconception(
    "generate",
    label="tokens as floats",
    hint="Tokens are names, not quantities: keep them int64.",
)
def generate_floats(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens).float()


@misconception(
    "generate",
    label="left in evaluation mode",
    hint="`model.eval()` is called but never reverted, so later training uses the wrong mode. Store "
    "`model.training`, and end with `model.train(...)`.",
)
def generate_leaves_eval(model, prompt, num_new_tokens):
    model.eval()
    return written(model, prompt, num_new_tokens)


@misconception(
    "generate",
    label="left in training mode",
    hint="`model.train()` is called at the end, regardless of the earlier mode. Store `model.training`, and restore "
    "it.",
)
def generate_leaves_training(model, prompt, num_new_tokens):
    model.eval()
    tokens = written(model, prompt, num_new_tokens)
    model.train()
    return tokens


@misconception(
    "generate",
    label="mode not restored without new tokens",
    hint="With no token to add, the function returns early, after `model.eval()` and before the mode is restored. "
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
    label="mode restored only at the top",
    hint="`model.training = True` sets the mode of the outermost module, but its submodules stay in evaluation "
    "mode. `model.train(...)` sets all of them.",
)
def generate_mode_outside(model, prompt, num_new_tokens):
    before = model.training
    model.eval()
    tokens = written(model, prompt, num_new_tokens)
    model.training = before
    return tokens


@misconception(
    "generate",
    label="gradients of the model turned off",
    hint="`requires_grad_(False)` is called on the model, so it can no longer be trained. To generate without "
    "gradients, use `with torch.no_grad():`.",
)
def generate_freezes(model, prompt, num_new_tokens):
    return written(model.requires_grad_(False), prompt, num_new_tokens)


@misconception(
    "generate",
    label="attribute set on the model",
    hint="An attribute is set on the model. Keep the value in a local variable.",
)
def generate_notes(model, prompt, num_new_tokens):
    model.written = written(model, prompt, num_new_tokens)
    return model.written


@misconception(
    "generate",
    label="prompt changed in place",
    hint="The tokens of the prompt are moved in place to make room. Create a new tensor.",
)
def generate_in_place(model, prompt, num_new_tokens):
    tokens = written(model, prompt, num_new_tokens)
    prompt[:] = tokens[:, -prompt.shape[1] :]
    return tokens


# generate: right


TOKENS = {
    "a list instead of an array": "The result is a list. Drop `.tolist()` and return a tensor.",
    "an array instead of a tensor": "The result is a NumPy array. Return a tensor of tokens.",
    "axis squeezed away": "An axis of size 1 is missing: `squeeze` removes it. One sequence is still a batch.",
}


@families("returns nothing", *TOKENS, hints=TOKENS)
@right("generate")
def generate_in_steps(model, prompt, num_new_tokens):
    return written(model, prompt, num_new_tokens)

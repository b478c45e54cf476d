"""Right answers that look different from ours; the tests run the checks on them. Students do not get them.

Some allow any broadcasting, and fail only advice: these also earn all points.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from checking import right
from misconceptions import Block

# by_hand


@right("by_hand")
def by_hand_as_a_tensor():
    seen = torch.tensor([0.0, 6, 3, 9])
    return torch.cat([torch.tensor([3.0, 6, 0, -1]), seen / 20])


@right("by_hand")
def by_hand_in_two_parts():
    return [[3, 6, 0, -1], [0, 3 / 10, 3 / 20, 9 / 20]]


# rms_norm


@right("rms_norm")
def rms_norm_library(x, weight, eps=1e-6):
    return functional.rms_norm(x, weight.shape, weight, eps)


@right("rms_norm")
def rms_norm_module(x, weight, eps=1e-6):
    norm = nn.RMSNorm(x.shape[-1], eps, elementwise_affine=False)
    return norm(x) * weight


@right("rms_norm")
def rms_norm_weight_at_the_end(x, weight, eps=1e-6):
    dtype = x.dtype
    x = x.to(torch.promote_types(dtype, torch.float32))
    x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return weight * x.to(dtype)


@right("rms_norm")
def rms_norm_always_float64(x, weight, eps=1e-6):
    numbers = x.double()
    return (numbers / torch.sqrt((numbers**2).mean(dim=-1, keepdim=True) + eps) * weight).type_as(x)


@right("rms_norm")
def rms_norm_of_lengths(x, weight, eps=1e-6):
    numbers = x if x.dtype == torch.float64 else x.float()
    length = torch.linalg.vector_norm(numbers, dim=-1, keepdim=True)
    return (numbers * weight / (length**2 / x.shape[-1] + eps) ** 0.5).to(x.dtype)


@right("rms_norm")
def rms_norm_einsum(x, weight, eps=1e-6):
    numbers = x if x.dtype == torch.float64 else x.float()
    square = torch.einsum("...d,...d->...", numbers, numbers) / numbers.shape[-1]
    return torch.einsum("...d,...,d->...d", numbers, (square + eps).rsqrt(), weight.to(square)).to(
        x.dtype
    )


@right("rms_norm")
def rms_norm_row_by_row(x, weight, eps=1e-6):
    numbers = (x if x.dtype == torch.float64 else x.float()).reshape(-1, x.shape[-1])
    rows = [row / ((row @ row) / len(row) + eps).sqrt() for row in numbers]
    return (torch.stack(rows) * weight).to(x.dtype).reshape(x.shape)


@right("rms_norm")
def rms_norm_scaled_first(x, weight, eps=1e-6):
    """Divide by the largest number first, so that no square is too large in any dtype."""
    numbers = x if x.dtype == torch.float64 else x.float()
    largest = numbers.detach().abs().amax(-1, keepdim=True).clamp(min=1e-30)
    part = numbers / largest
    return (
        part * (part.square().mean(-1, keepdim=True) + eps / largest / largest).rsqrt() * weight
    ).to(x.dtype)


@right("rms_norm")
def rms_norm_mean_of_the_wide(x, weight, eps=1e-6):
    """Only the statistics are computed in float32, and the factor goes back to the dtype of x."""
    square = x.to(torch.float64).pow(2).mean(-1, keepdim=True)
    return x.mul((square + eps).rsqrt()).mul(weight).to(x.dtype)


# gated_feed_forward


@right("gated_feed_forward")
def gated_feed_forward_short(x, W_gate, W_up, W_down):
    return functional.silu(x @ W_gate).mul(x @ W_up).matmul(W_down)


@right("gated_feed_forward")
def gated_feed_forward_by_sigmoid(x, W_gate, W_up, W_down):
    gate = x.matmul(W_gate)
    return (x.matmul(W_up) * gate * torch.sigmoid(gate)).matmul(W_down)


@right("gated_feed_forward")
def gated_feed_forward_by_exp(x, W_gate, W_up, W_down):
    gate = x @ W_gate
    return ((x @ W_up) * (gate / (1 + torch.exp(-gate)))) @ W_down


@right("gated_feed_forward")
def gated_feed_forward_by_tanh(x, W_gate, W_up, W_down):
    half = x @ W_gate / 2
    return (half * (1 + half.tanh()) * (x @ W_up)) @ W_down


@right("gated_feed_forward")
def gated_feed_forward_glu(x, W_gate, W_up, W_down):
    gate, up = x @ W_gate, x @ W_up
    return functional.glu(torch.cat([gate * up, gate], -1), -1) @ W_down


@right("gated_feed_forward")
def gated_feed_forward_fused(x, W_gate, W_up, W_down):
    gate, up = (x @ torch.cat([W_gate, W_up], 1)).split(W_gate.shape[1], -1)
    return (functional.silu(gate) * up) @ W_down


@right("gated_feed_forward")
def gated_feed_forward_linear(x, W_gate, W_up, W_down):
    gate = nn.SiLU()(functional.linear(x, W_gate.T))
    return functional.linear(gate * functional.linear(x, W_up.T), W_down.T)


@right("gated_feed_forward")
def gated_feed_forward_einsum(x, W_gate, W_up, W_down):
    gate = torch.einsum("...d,df->...f", x, W_gate)
    up = torch.einsum("...d,df->...f", x, W_up)
    return torch.einsum("...f,...f,fd->...d", functional.silu(gate), up, W_down)


@right("gated_feed_forward")
def gated_feed_forward_unit_by_unit(x, W_gate, W_up, W_down):
    result = torch.zeros_like(x)
    for gate, up, down in zip(W_gate.unbind(1), W_up.unbind(1), W_down.unbind(0), strict=True):
        unit = functional.silu(x @ gate) * (x @ up)
        result = result + unit[..., None] * down
    return result


# stretched_frequencies


@right("stretched_frequencies")
def stretched_frequencies_where(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    """By wavelengths, with three cases, as the configuration of a published model writes it."""
    theta = 1.0 / (base ** (torch.arange(0, d_k, 2).float() / d_k))
    wavelength = 2 * math.pi / theta
    smooth = (trained / wavelength - low) / (high - low)
    between = (1 - smooth) * theta / factor + smooth * theta
    result = torch.where(wavelength > trained / low, theta / factor, between)
    return torch.where(wavelength < trained / high, theta, result)


@right("stretched_frequencies")
def stretched_frequencies_numpy(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    theta = np.power(float(base), -np.arange(0, d_k, 2) / d_k)
    kept = np.interp(trained * theta / (2 * np.pi), [low, high], [0, 1])
    return torch.tensor(theta * kept + theta / factor * (1 - kept), dtype=torch.float32)


@right("stretched_frequencies")
def stretched_frequencies_one_by_one(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    result = torch.empty(d_k // 2)
    for i in range(d_k // 2):
        theta = base ** (-2 * i / d_k)
        turns = trained * theta / math.tau
        if turns >= high:
            result[i] = theta
        elif turns <= low:
            result[i] = theta / factor
        else:
            share = (turns - low) / (high - low)
            result[i] = share * theta + (1 - share) * theta / factor
    return result


@right("stretched_frequencies")
def stretched_frequencies_lerp(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    theta = torch.exp(torch.arange(d_k // 2) * (-2 * math.log(base) / d_k))
    share = torch.clamp((trained / (2 * torch.pi) * theta - low) / (high - low), 0.0, 1.0)
    return torch.lerp(theta / factor, theta, share)


@right("stretched_frequencies")
def stretched_frequencies_lost(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    """What is not kept, as code of today calls it: the ramp the other way round."""
    theta = base ** -(torch.arange(d_k // 2) / (d_k / 2))
    lost = ((high - trained * theta / 2 / math.pi) / (high - low)).clip(min=0).clip(max=1)
    return theta * (1 - lost * (1 - 1 / factor))


@right("stretched_frequencies")
def stretched_frequencies_logspace(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    theta = torch.logspace(0, -(d_k - 2) / d_k, d_k // 2, base=float(base), dtype=torch.float64)
    share = torch.minimum(
        torch.ones(1), ((trained * theta / (2 * torch.pi)) - low).relu() / (high - low)
    )
    return (theta * (1 + share * (factor - 1)) / factor).to(torch.float32)


@right("stretched_frequencies")
def stretched_frequencies_list(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    thetas = [math.pow(base, -i / d_k) for i in range(0, d_k, 2)]
    shares = [
        max(0.0, min(1.0, (trained * t / (2 * math.pi) - low) / (high - low))) for t in thetas
    ]
    return torch.tensor(
        [t * g + t * (1 - g) / factor for t, g in zip(thetas, shares, strict=True)]
    ).float()


@right("stretched_frequencies")
def stretched_frequencies_masked(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    theta = torch.pow(base, -torch.arange(0, d_k, 2, dtype=torch.float32) / d_k)
    turns = trained * theta / (2 * math.pi)
    share = (turns - low) / (high - low)
    share[turns > high] = 1
    share[turns < low] = 0
    return theta * (share + (1 - share) / factor)


# sink_softmax


@right("sink_softmax")
def sink_softmax_in_front(S, sink):
    column = sink.reshape(-1, 1, 1).expand(*S.shape[:-1], 1)
    return functional.softmax(torch.cat([column, S], dim=-1), dim=-1)[..., 1:]


@right("sink_softmax")
def sink_softmax_padded(S, sink):
    longer = functional.pad(S, (0, 1)) + functional.pad(
        torch.zeros_like(S[..., :1]) + sink[:, None, None], (S.shape[-1], 0)
    )
    return longer.softmax(-1)[..., : S.shape[-1]]


@right("sink_softmax")
def sink_softmax_logsumexp(S, sink):
    column = sink[:, None, None].expand(*S.shape[:-1], 1)
    return torch.exp(S - torch.cat([S, column], -1).logsumexp(-1, keepdim=True))


@right("sink_softmax")
def sink_softmax_log_softmax(S, sink):
    column = sink.view(-1, 1, 1) + torch.zeros_like(S[..., :1])
    return torch.cat([S, column], -1).log_softmax(-1)[..., :-1].exp()


@right("sink_softmax")
def sink_softmax_own_shift(S, sink):
    sink = sink[..., None, None]
    m = torch.maximum(S.max(-1, keepdim=True).values, sink).detach()
    E = (S - m).exp()
    return E / ((sink - m).exp() + E.sum(-1, keepdim=True))


@right("sink_softmax")
def sink_softmax_head_by_head(S, sink):
    heads = []
    for scores, head_sink in zip(S.unbind(-3), sink, strict=True):
        column = head_sink.expand(*scores.shape[:-1], 1)
        heads.append(torch.cat([scores, column], -1).softmax(-1)[..., :-1])
    return torch.stack(heads, -3)


@right("sink_softmax")
def sink_softmax_share_of_the_keys(S, sink):
    """The usual softmax, times the share that is not the sink's."""
    nothing = torch.isneginf(S).all(-1, keepdim=True)
    scores = S.masked_fill(nothing, 0)
    share = torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sink[:, None, None])
    return (scores.softmax(-1) * share).masked_fill(nothing, 0)


@right("sink_softmax")
def sink_softmax_in_float64(S, sink):
    column = sink.double()[:, None, None].expand(*S.shape[:-1], 1)
    return torch.cat([S.double(), column], -1).softmax(-1)[..., :-1].to(S.dtype)


@right("sink_softmax")
def sink_softmax_relative(S, sink):
    """Scores relative to the sink, whose own score is then 0."""
    zeros = torch.zeros_like(S[..., :1])
    return torch.cat([zeros, S - sink[:, None, None]], -1).softmax(-1)[..., 1:]


@right("sink_softmax")
def sink_softmax_key_by_key(S, sink):
    """An online softmax that begins with the sink."""
    m = sink[:, None] + torch.zeros_like(S[..., 0])
    total = torch.ones_like(m)
    for score in S.unbind(-1):
        largest = torch.maximum(m, score)
        total = total * torch.exp(m - largest) + torch.exp(score - largest)
        m = largest
    return torch.exp(S - m[..., None]) / total[..., None]


# Block


@right("Block")
class Block_library(nn.Module):
    """With PyTorch's norm and its grouped attention."""

    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window = window
        d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, d_model, False)
        self.W_k = nn.Linear(d_model, d_k * num_kv_heads, False)
        self.W_v = nn.Linear(d_model, d_k * num_kv_heads, False)
        self.W_o = nn.Linear(d_model, d_model, False)
        self.W_gate = nn.Linear(d_model, d_ff, False)
        self.W_up = nn.Linear(d_model, d_ff, False)
        self.W_down = nn.Linear(d_ff, d_model, False)
        for name, size in (
            ("norm1", d_model),
            ("norm2", d_model),
            ("q_norm", d_k),
            ("k_norm", d_k),
        ):
            self.register_parameter(name, nn.Parameter(torch.ones(size)))
        frequencies = theta ** (-torch.arange(0, d_k, 2).double() / d_k)
        self.register_buffer("frequencies", frequencies.float(), persistent=False)

    def turned(self, z, weight, positions):
        z = functional.rms_norm(z, weight.shape, weight, 1e-6)
        angles = torch.outer(positions.to(self.frequencies.dtype), self.frequencies)
        cos, sin = angles.cos().repeat_interleave(2, -1), angles.sin().repeat_interleave(2, -1)
        rotated = torch.stack([-z[..., 1::2], z[..., 0::2]], -1).flatten(-2)
        return (z * cos + rotated * sin).to(z.dtype)

    def forward(self, x, positions=None):
        b, n, d_model = x.shape
        if positions is None:
            positions = torch.arange(n, device=x.device)
        h = functional.rms_norm(x, (d_model,), self.norm1, 1e-6)
        q = self.W_q(h).view(b, n, self.num_heads, -1).transpose(1, 2)
        k = self.W_k(h).view(b, n, self.num_kv_heads, -1).transpose(1, 2)
        v = self.W_v(h).view(b, n, self.num_kv_heads, -1).transpose(1, 2)
        q, k = self.turned(q, self.q_norm, positions), self.turned(k, self.k_norm, positions)
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        if self.window is not None:
            mask = mask.triu(1 - self.window)
        z = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + self.W_o(z.transpose(1, 2).reshape(b, n, d_model))
        h = functional.rms_norm(x, (d_model,), self.norm2, 1e-6)
        return x + self.W_down(functional.silu(self.W_gate(h)) * self.W_up(h))


@right("Block")
class Block_complex(Block):
    def turn(self, z, positions):
        half = z.shape[-1] // 2
        turns = torch.polar(
            *torch.broadcast_tensors(torch.ones(1).double(), self.angles(positions, half))
        )
        wide = z.double().unflatten(-1, (half, 2)).contiguous()
        return torch.view_as_real(torch.view_as_complex(wide) * turns).flatten(-2).to(z.dtype)


@right("Block")
class Block_matrices(Block):
    """Each pair is multiplied by a rotation matrix."""

    def turn(self, z, positions):
        half = z.shape[-1] // 2
        t = self.angles(positions, half)
        rotation = torch.stack([t.cos(), -t.sin(), t.sin(), t.cos()], -1).unflatten(-1, (2, 2))
        pairs = z.double().unflatten(-1, (half, 2))
        return torch.einsum("npij,bhnpj->bhnpi", rotation, pairs).flatten(-2).to(z.dtype)


@right("Block")
class Block_columns_reordered(Block):
    """Halves in place of pairs, for queries and keys alike: no score notices the order of their columns."""

    def pairs(self, z):
        return z[..., 0::2], z[..., 1::2]

    def joined(self, x, y):
        return torch.cat([x, y], -1)


@right("Block")
class Block_grouped(Block):
    """Query heads get an axis for groups, so no key is repeated."""

    def attend(self, x, positions):
        n = x.shape[1]
        positions = torch.arange(n) if positions is None else positions
        q, k, v = self.split_all(x)
        q, k = self.queries(q, positions), self.keys(k, positions)
        q = q.unflatten(1, (self.num_kv_heads, -1))
        S = torch.einsum("bgrie,bgje->bgrij", q, k) * self.d_k**-0.5
        A = torch.softmax(S.masked_fill(~self.mask(n, positions), float("-inf")), -1)
        return self.W_o(torch.einsum("bgrij,bgje->bigre", A, v).flatten(2))


@right("Block")
class Block_head_by_head(Block):
    def attend(self, x, positions):
        n = x.shape[1]
        positions = torch.arange(n) if positions is None else positions
        q, k, v = self.split_all(x)
        q, k = self.queries(q, positions), self.keys(k, positions)
        heads = []
        for head in range(self.num_heads):
            kv_head = head * self.num_kv_heads // self.num_heads
            S = q[:, head] @ k[:, kv_head].transpose(1, 2) / self.d_k**0.5
            heads.append(self.weigh(S, self.mask(n, positions)) @ v[:, kv_head])
        return self.W_o(torch.cat(heads, -1))


@right("Block")
class Block_added_mask(Block):
    """The mask is a matrix of 0 and the lowest number, which is added; the softmax is in float32 or float64."""

    def weigh(self, S, mask):
        low = torch.zeros(mask.shape, dtype=S.dtype).masked_fill(~mask, torch.finfo(S.dtype).min)
        dtype = torch.float64 if S.dtype == torch.float64 else torch.float32
        return functional.softmax(S + low, dim=-1, dtype=dtype).to(S.dtype)


@right("Block")
class Block_token_by_token(Block):
    """Each token slices its window out of keys and values."""

    def attend(self, x, positions):
        n = x.shape[1]
        positions = torch.arange(n) if positions is None else positions
        q, k, v = self.split_all(x)
        q, k = self.queries(q, positions), self.repeat(self.keys(k, positions))
        v, rows = self.repeat(v), []
        for i in range(n):
            first = 0 if self.window is None else max(0, i + 1 - self.window)
            S = q[:, :, i : i + 1] @ k[:, :, first : i + 1].mT * self.scale()
            rows.append(S.softmax(-1) @ v[:, :, first : i + 1])
        return self.W_o(torch.cat(rows, 2).transpose(1, 2).flatten(2))


@right("Block")
class Block_scaled_queries(Block):
    """The scale is applied to the queries, and the softmax is written out."""

    def queries(self, q, positions):
        return super().queries(q, positions) / math.sqrt(self.d_k)

    def scale(self):
        return 1.0

    def weigh(self, S, mask):
        seen = S.masked_fill(~mask, -torch.inf)
        E = torch.exp(seen - seen.amax(-1, keepdim=True))
        return E / E.sum(-1, keepdim=True)


@right("Block")
class Block_expanded(Block):
    def repeat(self, z):
        groups = self.num_heads // self.num_kv_heads
        return z[:, :, None].expand(-1, -1, groups, -1, -1).flatten(1, 2)

    def norm(self, x, weight):
        """The weight is multiplied in after the conversion back."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return weight * (wide / (wide.pow(2).mean(-1, keepdim=True) + self.eps).sqrt()).to(x.dtype)


@right("Block")
class Block_no_dropout(Block):
    """One linear layer at a time, with a dropout of 0."""

    def make(self):
        super().make()
        self.drop = nn.Dropout(0.0)

    def feed(self, x):
        return self.drop(
            functional.linear(
                functional.silu(x @ self.W_gate.weight.T) * self.W_up(x), self.W_down.weight
            )
        )


@right("Block")
class Block_by_indices(Block):
    """Key heads are chosen by a list of numbers."""

    def repeat(self, z):
        return z[:, [i // (self.num_heads // self.num_kv_heads) for i in range(self.num_heads)]]

    def distances(self, n, positions):
        rows, columns = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
        return rows - columns

"""Right answers that look different from ours; the tests run the checks on them. Students do not get them.

Some allow any broadcasting, and fail only advice: these also earn all points.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from checking import right
from misconceptions import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    OwnNorm,
    TinyGPT,
    waves,
)

# by_hand


@right("by_hand")
def by_hand_as_a_tensor():
    return torch.tensor([3.0, 1, 3, 9]) + 10 * torch.tensor([0.5, 1, 0, -0.2])


# FeedForward


@right("FeedForward")
class FeedForward_by_erf(FeedForward):
    def curve(self, hidden):
        return 0.5 * hidden * (1 + torch.erf(hidden / math.sqrt(2)))


@right("FeedForward")
class FeedForward_by_ndtr(FeedForward):
    def forward(self, x):
        hidden = self.linear1(x)
        wide = hidden.float() if hidden.dtype in (torch.float16, torch.bfloat16) else hidden
        return self.linear2(hidden * torch.special.ndtr(wide).to(hidden.dtype))


@right("FeedForward")
class FeedForward_sequential_beside(nn.Module):
    """Each of its parameters has two names."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.linear1, self.linear2 = self.net[0], self.net[2]

    def forward(self, x):
        return self.net(x)


@right("FeedForward")
class FeedForward_token_by_token(FeedForward):
    def forward(self, x):
        return torch.stack(
            [super(FeedForward_token_by_token, self).forward(x[:, i]) for i in range(x.shape[1])], 1
        )


@right("FeedForward")
class FeedForward_flat(FeedForward):
    def forward(self, x):
        b, n, d_model = x.shape
        return super().forward(x.reshape(b * n, d_model)).view(b, n, d_model)


# EncoderLayer


@right("EncoderLayer")
class EncoderLayer_written_out(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_attn = MultiHeadAttention(d_model, num_heads)

    def forward(self, x, mask=None):
        h = self.norm1(x)
        attended, _ = self.self_attn(h, h, h, mask)
        x = torch.add(x, attended)
        return self.feed_forward(self.norm2(x)) + x


@right("EncoderLayer")
class EncoderLayer_functional(EncoderLayer):
    def forward(self, x, mask=None):
        h = functional.layer_norm(x, (self.d_model,), self.norm1.weight, self.norm1.bias)
        y = x + self.self_attn(query=h, key=h, value=h, mask=mask)[0]
        h = functional.layer_norm(y, (self.d_model,), self.norm2.weight, self.norm2.bias)
        return y + self.feed_forward.linear2(functional.gelu(self.feed_forward.linear1(h)))


@right("EncoderLayer")
class EncoderLayer_own_norm(EncoderLayer):
    def norm_of(self, d_model):
        return OwnNorm(d_model)


@right("EncoderLayer")
class EncoderLayer_no_dropout(EncoderLayer):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__(d_model, num_heads, d_ff)
        self.drop = nn.Dropout(0.0)

    def add(self, x, norm, part):
        return x + self.drop(part(norm(x)))


@right("EncoderLayer")
class EncoderLayer_deltas(EncoderLayer):
    """The stream as x plus the sum of all additions."""

    def forward(self, x, mask=None):
        first = self.self_attn(self.norm1(x), mask=mask)[0]
        second = self.feed_forward(self.norm2(x + first))
        return x + (first + second)


@right("EncoderLayer")
class EncoderLayer_sdpa(EncoderLayer):
    """The library's attention with the same parameters."""

    def own(self, x, mask):
        attention = self.self_attn
        q, k, v = (
            part(x).unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
            for part in (attention.W_q, attention.W_k, attention.W_v)
        )
        if mask is None:
            attended = functional.scaled_dot_product_attention(q, k, v)
        else:
            mask = (mask[:, None] if mask.dim() == 3 else mask).expand(
                len(x), attention.num_heads, x.shape[1], x.shape[1]
            )
            seen = mask.any(-1, keepdim=True)
            attended = functional.scaled_dot_product_attention(q, k, v, mask | ~seen) * seen
        return attention.W_o(attended.transpose(1, 2).flatten(2))


# DecoderLayer


@right("DecoderLayer")
class DecoderLayer_written_out(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.multihead_attn = MultiHeadAttention(d_model, num_heads)
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm3, self.norm2, self.norm1 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, mask=None, memory_mask=None):
        h = self.norm1(x)
        x = x + self.self_attn(h, h, h, mask)[0]
        found, _ = self.multihead_attn(
            query=self.norm2(x), key=memory, value=memory, mask=memory_mask
        )
        x = found + x
        return x + self.feed_forward(self.norm3(x))


@right("DecoderLayer")
class DecoderLayer_on_top_of_an_encoder_layer(EncoderLayer):
    """An encoder layer with added parts."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__(d_model, num_heads, d_ff)
        self.multihead_attn = MultiHeadAttention(d_model, num_heads)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        y = x + self.own(self.norm1(x), mask)
        z = y + self.multihead_attn(self.norm2(y), memory, memory, memory_mask)[0]
        return z + self.fed(self.norm3(z))


@right("DecoderLayer")
class DecoderLayer_sequence_by_sequence(DecoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        def own(mask, s):
            return mask if mask is None or mask.dim() == 2 or len(mask) == 1 else mask[s : s + 1]

        several = range(len(x))
        for given in (mask, memory_mask):
            if given is not None and given.dim() > 2 and len(given) not in (1, len(x)):
                raise ValueError("another number of sequences")
        found = [
            self.through(x[s : s + 1], memory[s : s + 1], own(mask, s), own(memory_mask, s))
            for s in several
        ]
        return torch.cat(found)


# TinyGPT


@right("TinyGPT")
class TinyGPT_sinusoidal(TinyGPT):
    def place(self, max_len, d_model):
        self.register_buffer("position", waves(max_len, d_model))

    def placed(self, x):
        return x + self.position[: x.shape[1]]


class RotaryAttention(MultiHeadAttention):
    def turn(self, x):
        n, d = x.shape[-2:]
        angles = torch.arange(n)[:, None] * 100 ** (-torch.arange(0, d, 2) / d)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class RotaryLayer(EncoderLayer):
    def attention(self, d_model, num_heads):
        return RotaryAttention(d_model, num_heads)


@right("TinyGPT")
class TinyGPT_rotary(TinyGPT):
    def place(self, max_len, d_model):
        pass

    def placed(self, x):
        return x

    def layer(self, d_model, num_heads):
        return RotaryLayer(d_model, num_heads, 4 * d_model)


@right("TinyGPT")
class TinyGPT_tied(TinyGPT):
    """One matrix for the first and the last layer, with small initial values, and positions that start at 0."""

    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__(vocab_size, d_model, num_heads, num_layers, max_len)
        nn.init.normal_(self.token.weight, std=0.02)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.token.weight

    def place(self, max_len, d_model):
        self.position = nn.Parameter(torch.zeros(max_len, d_model))

    def placed(self, x):
        return x + self.position[None, : x.shape[1]]


@right("TinyGPT")
class TinyGPT_log_probabilities(TinyGPT):
    """Log probabilities are also logits: their softmax is the same."""

    def said(self, x):
        return super().said(x).log_softmax(-1)


@right("TinyGPT")
class TinyGPT_torchs_layers(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.wte = nn.Embedding(vocab_size, d_model)
        self.wpe = nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(
            d_model,
            num_heads,
            4 * d_model,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.blocks = nn.TransformerEncoder(
            layer, num_layers, nn.LayerNorm(d_model), enable_nested_tensor=False
        )
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, idx):
        n = idx.size(1)
        x = self.wte(idx) + self.wpe.weight[:n]
        return self.lm_head(self.blocks(x, mask=torch.ones(n, n, dtype=torch.bool).triu(1)))


# generate


@right("generate")
@torch.no_grad()
def generate_decorated(model, prompt, num_new_tokens):
    mode = model.training
    model.train(False)
    ids = prompt.clone()
    while ids.size(1) < prompt.size(1) + num_new_tokens:
        context = ids if ids.size(1) <= model.max_len else ids[:, ids.size(1) - model.max_len :]
        probabilities = functional.softmax(model(context)[:, -1, :], dim=-1)
        _, best = torch.topk(probabilities, k=1, dim=-1)
        ids = torch.cat((ids, best), dim=1)
    model.train(mode)
    return ids


@right("generate")
def generate_into_a_table(model, prompt, num_new_tokens):
    b, n = prompt.shape
    device = next(model.parameters()).device
    tokens = torch.zeros(b, n + num_new_tokens, dtype=prompt.dtype, device=device)
    tokens[:, :n] = prompt
    for i in range(n, n + num_new_tokens):
        logits = model(tokens[:, max(0, i - model.max_len) : i])
        tokens[:, i] = logits[:, -1].max(dim=-1).indices
    return tokens


@right("generate")
def generate_sequence_by_sequence(model, prompt, num_new_tokens):
    rows = []
    for row in prompt.tolist():
        for _ in range(num_new_tokens):
            row.append(model(torch.tensor([row[-model.max_len :]]))[0, -1].argmax().item())
        rows.append(row)
    return torch.tensor(rows)


@right("generate")
def generate_padded(model, prompt, num_new_tokens):
    """The model always gets max_len tokens, padded at the end: a causal model does not see the padding."""
    tokens = prompt
    for _ in range(num_new_tokens):
        window = tokens[:, -model.max_len :]
        n = window.shape[1]
        logits = model(functional.pad(window, (0, model.max_len - n)))
        tokens = torch.cat([tokens, logits[:, n - 1].argmax(1)[:, None]], 1)
    return tokens


@right("generate")
def generate_list_of_columns(model, prompt, num_new_tokens):
    columns = list(prompt.unbind(1))
    with torch.inference_mode():
        for _ in range(num_new_tokens):
            columns.append(model(torch.stack(columns[-model.max_len :], 1))[:, -1].argmax(-1))
    return torch.stack(columns, 1)

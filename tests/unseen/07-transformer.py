"""Answers to notebook 07."""

# %% right FeedForward: nn.GELU as a module, kept beside the linear layers
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(in_features=d_model, out_features=d_ff, bias=True)
        self.activation = nn.GELU()
        self.linear2 = nn.Linear(in_features=d_ff, out_features=d_model, bias=True)

    def forward(self, x):
        x = self.linear1(x)
        x = self.activation(x)
        return self.linear2(x)

# %% right FeedForward: t times the normal distribution function of torch.special
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    @staticmethod
    def _bend(t):
        return t * torch.special.ndtr(t)

    def forward(self, x):
        return self.linear2(self._bend(self.linear1(x)))

# %% right FeedForward: matrix products written out, GELU with erf
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        hidden = torch.matmul(x, self.linear1.weight.transpose(0, 1)) + self.linear1.bias
        hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
        return hidden @ self.linear2.weight.T + self.linear2.bias

# %% wrong FeedForward: the tanh approximation of GELU
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x), approximate="tanh"))

# %% wrong FeedForward: ReLU, as in the first transformer
# As: the tanh approximation of GELU
# @@
# -         return self.linear2(nn.functional.gelu(self.linear1(x), approximate="tanh"))
# +         return self.linear2(torch.relu(self.linear1(x)))

# %% wrong FeedForward: the residual connection is added in here already
# As: the tanh approximation of GELU
# @@
# -         return self.linear2(nn.functional.gelu(self.linear1(x), approximate="tanh"))
# +         return x + self.linear2(nn.functional.gelu(self.linear1(x)))

# %% wrong FeedForward: GELU comes after the second linear layer, and nothing bends between the two
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        hidden = self.linear1(x)
        return nn.functional.gelu(self.linear2(hidden))

# %% wrong FeedForward: dropout on the hidden units in training mode
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.linear2(self.dropout(nn.functional.gelu(self.linear1(x))))

# %% wrong FeedForward: an nn.Sequential, so the parameters are called net.0.weight and so on
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)

# %% wrong FeedForward: the linear layers have no biases
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff, bias=False)
        self.linear2 = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x)))

# %% wrong FeedForward: GELU by hand with erf(t), the root of 2 is forgotten
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        t = self.linear1(x)
        gelu = 0.5 * t * (1 + torch.erf(t))
        return self.linear2(gelu)

# %% wrong FeedForward: the quick GELU, t times the sigmoid of 1.702 t
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        t = self.linear1(x)
        return self.linear2(t * torch.sigmoid(1.702 * t))

# %% wrong FeedForward: d_ff is passed over, and 4 d_model hidden units are made
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, 4 * d_model)
        self.linear2 = nn.Linear(4 * d_model, d_model)

    def forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x)))

# %% right EncoderLayer: a loop over pairs of a norm and a part
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, mask=None):
        def attend(y):
            result, _ = self.self_attn(y, mask=mask)
            return result

        for norm, part in ((self.norm1, attend), (self.norm2, self.feed_forward)):
            x = torch.add(part(norm(x)), x)
        return x

# %% right EncoderLayer: two private methods, one for each part, in the manner of PyTorch's layer
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm2 = nn.LayerNorm(d_model)

    def _sa_block(self, x, mask):
        return self.self_attn(x, x, x, mask=mask)[0]

    def _ff_block(self, x):
        return self.feed_forward(x)

    def forward(self, x, mask=None):
        stream = x
        stream = stream + self._sa_block(self.norm1(stream), mask)
        stream = stream + self._ff_block(self.norm2(stream))
        return stream

# %% right EncoderLayer: the norms are written out with mean and variance from the modules' parameters
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm1 = nn.LayerNorm(d_model)

    @staticmethod
    def _normed(norm, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + norm.eps) * norm.weight + norm.bias

    def forward(self, x, mask=None):
        found, _weights = self.self_attn(self._normed(self.norm1, x), mask=mask)
        after = found + x
        return self.feed_forward(self._normed(self.norm2, after)) + after

# %% wrong EncoderLayer: post-norm: the norms come after the sums
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.self_attn(x, mask=mask)[0])
        x = self.norm2(x + self.feed_forward(x))
        return x

# %% wrong EncoderLayer: the parts are added to the normed stream, not to the stream as it was
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = self.norm1(x)
        x = x + self.self_attn(x, x, x, mask)[0]
        x = self.norm2(x)
        x = x + self.feed_forward(x)
        return x

# %% wrong EncoderLayer: only the queries are normed, keys and values are the raw stream
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = x + self.self_attn(self.norm1(x), x, x, mask)[0]
        x = x + self.feed_forward(self.norm2(x))
        return x

# %% wrong EncoderLayer: both norms are one module, with one gain and one bias
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = self.norm1

    def forward(self, x, mask=None):
        x = x + self.self_attn(self.norm1(x), mask=mask)[0]
        x = x + self.feed_forward(self.norm2(x))
        return x

# %% wrong EncoderLayer: the mask is accepted and not handed on
# As: only the queries are normed, keys and values are the raw stream
# @@
# -         x = x + self.self_attn(self.norm1(x), x, x, mask)[0]
# +         attended, _ = self.self_attn(self.norm1(x))
# +         x = x + attended

# %% wrong EncoderLayer: the second sum goes back to the x that came in, without what attention found
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        attended = x + self.self_attn(self.norm1(x), mask=mask)[0]
        return x + self.feed_forward(self.norm2(attended))

# %% wrong EncoderLayer: attention and feed-forward work side by side on the same x
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        attended = self.self_attn(self.norm1(x), mask=mask)[0]
        return x + attended + self.feed_forward(self.norm2(x))

# %% wrong EncoderLayer: dropout of 0.1 on both parts in training mode
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask=None):
        x = x + self.dropout(self.self_attn(self.norm1(x), mask=mask)[0])
        x = x + self.dropout(self.feed_forward(self.norm2(x)))
        return x

# %% wrong EncoderLayer: += writes into the tensor that was handed in
class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x += self.self_attn(self.norm1(x), mask=mask)[0]
        x += self.feed_forward(self.norm2(x))
        return x

# %% wrong EncoderLayer: every mask gets one more axis for the heads here, also one of two axes
# As: only the queries are normed, keys and values are the raw stream
# @@
# -         x = x + self.self_attn(self.norm1(x), x, x, mask)[0]
# +         if mask is not None:
# +             mask = mask.unsqueeze(1)
# +         x = x + self.self_attn(self.norm1(x), mask=mask)[0]

# %% right DecoderLayer: names of the steps in the text: three streams one after the other
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        for name in ("self_attn", "multihead_attn"):
            self.add_module(name, MultiHeadAttention(d_model, num_heads))
        self.add_module("feed_forward", FeedForward(d_model, d_ff))
        for name in ("norm1", "norm2", "norm3"):
            self.add_module(name, nn.LayerNorm(d_model))

    def forward(self, x, memory, mask=None, memory_mask=None):
        normed = self.norm1(x)
        found_here, _ = self.self_attn(normed, normed, normed, mask)
        second = x + found_here
        found_there, _ = self.multihead_attn(self.norm2(second), memory, memory, memory_mask)
        third = second + found_there
        return third + self.feed_forward(self.norm3(third))

# %% right DecoderLayer: a helper for attention with its norm and its residual connection
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.self_attn = MultiHeadAttention(d_model, num_heads, bias=True)
        self.norm2 = nn.LayerNorm(d_model)
        self.multihead_attn = MultiHeadAttention(d_model, num_heads, bias=True)
        self.norm3 = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)

    def _attend(self, attention, norm, x, mask, source=None):
        query = norm(x)
        source = query if source is None else source
        return attention(query=query, key=source, value=source, mask=mask)[0].add(x)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self._attend(self.self_attn, self.norm1, x, mask)
        x = self._attend(self.multihead_attn, self.norm2, x, memory_mask, source=memory)
        return self.feed_forward(self.norm3(x)).add(x)

# %% right DecoderLayer: the parts are a list of functions, and the stream is a sum of what they add
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn, self.multihead_attn = (MultiHeadAttention(d_model, num_heads) for _ in range(2))
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, mask=None, memory_mask=None):
        parts = [
            lambda s: self.self_attn(self.norm1(s), mask=mask)[0],
            lambda s: self.multihead_attn(self.norm2(s), key=memory, mask=memory_mask)[0],
            lambda s: self.feed_forward(self.norm3(s)),
        ]
        added = [x]
        for part in parts:
            added.append(part(sum(added)))
        return sum(added)

# %% wrong DecoderLayer: the two masks are exchanged
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.multihead_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attn(self.norm1(x), mask=memory_mask)[0]
        x = x + self.multihead_attn(self.norm2(x), memory, mask=mask)[0]
        x = x + self.feed_forward(self.norm3(x))
        return x

# %% wrong DecoderLayer: the memory is normed as well, with norm2
# As: the two masks are exchanged
# @@
# -         x = x + self.self_attn(self.norm1(x), mask=memory_mask)[0]
# -         x = x + self.multihead_attn(self.norm2(x), memory, mask=mask)[0]
# +         x = x + self.self_attn(self.norm1(x), mask=mask)[0]
# +         x = x + self.multihead_attn(self.norm2(x), self.norm2(memory), mask=memory_mask)[0]

# %% wrong DecoderLayer: the layer makes a causal mask of its own where it is given none
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.multihead_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        if mask is None:
            n = x.shape[1]
            mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        x = x + self.self_attn(self.norm1(x), mask=mask)[0]
        x = x + self.multihead_attn(self.norm2(x), memory, mask=memory_mask)[0]
        x = x + self.feed_forward(self.norm3(x))
        return x

# %% wrong DecoderLayer: the memory asks and the stream answers, queries and keys are exchanged
# As: the two masks are exchanged
# @@
# -         x = x + self.self_attn(self.norm1(x), mask=memory_mask)[0]
# -         x = x + self.multihead_attn(self.norm2(x), memory, mask=mask)[0]
# +         x = x + self.self_attn(self.norm1(x), mask=mask)[0]
# +         x = x + self.multihead_attn(memory, self.norm2(x), mask=memory_mask)[0]

# %% wrong DecoderLayer: cross-attention comes before self-attention
# As: the two masks are exchanged
# @@
# -         x = x + self.self_attn(self.norm1(x), mask=memory_mask)[0]
# -         x = x + self.multihead_attn(self.norm2(x), memory, mask=mask)[0]
# +         x = x + self.multihead_attn(self.norm2(x), memory, mask=memory_mask)[0]
# +         x = x + self.self_attn(self.norm1(x), mask=mask)[0]

# %% wrong DecoderLayer: norm2 and norm3 are exchanged
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.multihead_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attn(self.norm1(x), mask=mask)[0]
        x = x + self.multihead_attn(self.norm3(x), memory, mask=memory_mask)[0]
        x = x + self.feed_forward(self.norm2(x))
        return x

# %% wrong DecoderLayer: no residual connection around cross-attention
# As: the two masks are exchanged
# @@
# -         x = x + self.self_attn(self.norm1(x), mask=memory_mask)[0]
# -         x = x + self.multihead_attn(self.norm2(x), memory, mask=mask)[0]
# +         x = x + self.self_attn(self.norm1(x), mask=mask)[0]
# +         x = self.multihead_attn(self.norm2(x), memory, mask=memory_mask)[0]

# %% wrong DecoderLayer: the queries are un-normed in cross-attention
# As: the two masks are exchanged
# @@
# -         x = x + self.self_attn(self.norm1(x), mask=memory_mask)[0]
# -         x = x + self.multihead_attn(self.norm2(x), memory, mask=mask)[0]
# +         x = x + self.self_attn(self.norm1(x), mask=mask)[0]
# +         x = x + self.multihead_attn(x, memory, mask=memory_mask)[0]

# %% wrong DecoderLayer: one attention module serves for both, under two names
class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.multihead_attn = self.self_attn
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attn(self.norm1(x), mask=mask)[0]
        x = x + self.multihead_attn(self.norm2(x), memory, mask=memory_mask)[0]
        x = x + self.feed_forward(self.norm3(x))
        return x

# %% wrong DecoderLayer: the values are the stream, only the keys come from the memory
# As: the two masks are exchanged
# @@
# -         x = x + self.self_attn(self.norm1(x), mask=memory_mask)[0]
# -         x = x + self.multihead_attn(self.norm2(x), memory, mask=mask)[0]
# +         x = x + self.self_attn(self.norm1(x), mask=mask)[0]
# +         y = self.norm2(x)
# +         x = x + self.multihead_attn(y, memory, y, mask=memory_mask)[0]

# %% right TinyGPT: learned positions as a parameter, small weights, mask by comparing places
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.wte = nn.Embedding(vocab_size, d_model)
        self.wpe = nn.Parameter(torch.randn(max_len, d_model) * 0.5)
        self.blocks = nn.ModuleList()
        for _ in range(num_layers):
            self.blocks.append(EncoderLayer(d_model, num_heads, 4 * d_model))
        self.ln_f = nn.LayerNorm(d_model)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)
        nn.init.normal_(self.lm_head.weight, std=0.02)

    def forward(self, tokens):
        n = tokens.shape[1]
        if n > self.max_len:
            raise ValueError(f"{n} tokens, and at most {self.max_len} can be looked at")
        place = torch.arange(n, device=tokens.device)
        causal = place[:, None] >= place[None, :]
        stream = self.wte(tokens) + self.wpe[:n]
        for block in self.blocks:
            stream = block(stream, causal)
        return self.lm_head(self.ln_f(stream))

# %% right TinyGPT: sinusoidal positions in a buffer, no last norm, narrower feed-forward, mask from triu
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.embed = nn.Embedding(vocab_size, d_model)
        self.register_buffer("table", self._sinusoids(max_len, d_model))
        self.register_buffer("later", torch.ones(max_len, max_len, dtype=torch.bool).triu(1))
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads, 2 * d_model) for _ in range(num_layers))
        self.to_logits = nn.Linear(d_model, vocab_size)

    @staticmethod
    def _sinusoids(max_len, d_model):
        i = torch.arange(d_model)
        rates = 10000.0 ** (-(i - i % 2) / d_model)
        angles = torch.arange(max_len)[:, None] * rates
        return torch.where(i % 2 == 0, angles.sin(), angles.cos())

    def forward(self, tokens):
        n = tokens.shape[-1]
        if n > self.max_len:
            raise IndexError("more tokens than positions")
        x = self.embed(tokens)
        x = x + self.table[:n].to(x.dtype)
        may = ~self.later[:n, :n]
        for layer in self.layers:
            x = layer(x, mask=may)
        return self.to_logits(x)

# %% right TinyGPT: rotary positions: the layers' attention is replaced by one that turns queries and keys
class RotaryAttention(MultiHeadAttention):
    def _turned(self, x):
        half = x.shape[-1] // 2
        rates = 100.0 ** (-torch.arange(half, device=x.device, dtype=x.dtype) / half)
        angles = torch.arange(x.shape[-2], device=x.device, dtype=x.dtype)[:, None] * rates  # (n, d_head / 2)
        first, second = x[..., :half], x[..., half:]
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer, x in ((self.W_q, query), (self.W_k, key), (self.W_v, value))
        )
        A = masked_softmax(self._turned(q) @ self._turned(k).mT / math.sqrt(q.shape[-1]), mask)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            layer = EncoderLayer(d_model, num_heads, 3 * d_model)
            layer.self_attn = RotaryAttention(d_model, num_heads)
            self.layers.append(layer)
        self.last = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size))

    def forward(self, tokens):
        n = tokens.shape[1]
        if n > self.max_len:
            raise ValueError(f"at most {self.max_len} tokens")
        causal = torch.ones((n, n), device=tokens.device).tril().bool()
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, causal)
        return self.last(x)

# %% wrong TinyGPT: no causal mask
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        b, n = tokens.shape
        if n > self.max_len:
            raise ValueError("too many tokens")
        positions = torch.arange(n, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

# %% wrong TinyGPT: no positions, so that with one layer the order of the earlier tokens does not matter
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        b, n = tokens.shape
        if n > self.max_len:
            raise ValueError("too many tokens")
        x = self.token_embedding(tokens)
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=tokens.device))
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))

# %% wrong TinyGPT: one layer is put into the list num_layers times
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model)] * num_layers)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        b, n = tokens.shape
        if n > self.max_len:
            raise ValueError("too many tokens")
        positions = torch.arange(n, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=tokens.device))
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))

# %% wrong TinyGPT: the layers are in a plain list, and parameters() misses them
# As: one layer is put into the list num_layers times
# @@
# -         self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model)] * num_layers)
# +         self.layers = [EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)]

# %% wrong TinyGPT: returns probabilities, softmax of the logits
# As: one layer is put into the list num_layers times
# @@
# -         self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model)] * num_layers)
# +         self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
# @@
# -         return self.head(self.norm(x))
# +         return torch.softmax(self.head(self.norm(x)), dim=-1)

# %% wrong TinyGPT: the mask is of size max_len and not cut to the tokens that there are
# As: no causal mask
# @@
#           self.max_len = max_len
# +         self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len, dtype=torch.bool)))
# @@
# -             x = layer(x)
# +             x = layer(x, self.mask)

# %% wrong TinyGPT: the last layer has the embedding's weights, so large that a new model does not guess
# As: one layer is put into the list num_layers times
# @@
# -         self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model)] * num_layers)
# +         self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
# @@
# -         self.head = nn.Linear(d_model, vocab_size)
# +         self.head = nn.Linear(d_model, vocab_size, bias=False)
# +         self.head.weight = self.token_embedding.weight

# %% wrong TinyGPT: positions are counted from the last token, so they depend on how many tokens there are
# As: one layer is put into the list num_layers times
# @@
# -         self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model)] * num_layers)
# +         self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
# @@
# -         positions = torch.arange(n, device=tokens.device)
# +         positions = torch.arange(n - 1, -1, -1, device=tokens.device)

# %% wrong TinyGPT: the last norm goes over tokens and columns together, and tells earlier tokens of later ones
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.position_embedding = nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        b, n = tokens.shape
        if n > self.max_len:
            raise ValueError("too many tokens")
        positions = torch.arange(n, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=tokens.device))
        for layer in self.layers:
            x = layer(x, mask)
        x = nn.functional.layer_norm(x, x.shape[1:])
        return self.head(x)

# %% wrong TinyGPT: a sinusoidal table for (n, b, d) is added along the batch, as in a tutorial with tokens first
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = PositionalEncoding(d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        n = tokens.size(1)
        if n > self.max_len:
            raise ValueError("sequence too long")
        x = self.positions(self.embedding(tokens))
        mask = torch.ones(n, n, dtype=torch.bool, device=tokens.device).tril()
        for layer in self.layers:
            x = layer(x, mask=mask)
        return self.head(x)

# %% right generate: a table of the final size is filled column by column
def generate(model, prompt, num_new_tokens):
    b, n = prompt.shape
    tokens = prompt.new_zeros(b, n + num_new_tokens)
    tokens[:, :n] = prompt
    with torch.inference_mode():
        for end in range(n, n + num_new_tokens):
            start = max(0, end - model.max_len)
            logits = model(tokens[:, start:end])
            tokens[:, end] = logits[:, -1, :].max(dim=-1).indices
    return tokens

# %% right generate: recursion, one token each call
def generate(model, prompt, num_new_tokens):
    if num_new_tokens <= 0:
        return prompt.clone()
    with torch.no_grad():
        logits = model(prompt[:, -model.max_len :]).select(1, -1)
    best = torch.topk(logits, k=1, dim=-1).indices
    return generate(model, torch.hstack((prompt, best)), num_new_tokens - 1)

# %% right generate: sequence by sequence in lists, in evaluation mode, with the old mode restored
def generate(model, prompt, num_new_tokens):
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        rows = prompt.tolist()
        with torch.no_grad():
            for _ in range(num_new_tokens):
                window = torch.tensor([row[-model.max_len :] for row in rows], device=prompt.device)
                for row, scores in zip(rows, model(window)):
                    row.append(int(torch.argmax(scores[-1])))
        return torch.tensor(rows, dtype=prompt.dtype, device=prompt.device)
    finally:
        for part, mode in modes:
            part.training = mode

# %% wrong generate: all tokens are shown, also when there are more than max_len
@torch.no_grad()
def generate(model, prompt, num_new_tokens):
    tokens = prompt
    for _ in range(num_new_tokens):
        logits = model(tokens)
        new = logits[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens

# %% wrong generate: the first max_len tokens are shown, not the last
# As: all tokens are shown, also when there are more than max_len
# @@
# -         logits = model(tokens)
# +         logits = model(tokens[:, : model.max_len])

# %% wrong generate: the tokens that no longer fit are missing from what is returned
# As: all tokens are shown, also when there are more than max_len
# @@
#       for _ in range(num_new_tokens):
# +         tokens = tokens[:, -model.max_len :]

# %% wrong generate: the next token is drawn from softmax
@torch.no_grad()
def generate(model, prompt, num_new_tokens):
    tokens = prompt
    for _ in range(num_new_tokens):
        logits = model(tokens[:, -model.max_len :])
        probabilities = torch.softmax(logits[:, -1, :], dim=-1)
        new = torch.multinomial(probabilities, num_samples=1)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens

# %% wrong generate: the model is left in evaluation mode
@torch.no_grad()
def generate(model, prompt, num_new_tokens):
    model.eval()
    tokens = prompt
    for _ in range(num_new_tokens):
        logits = model(tokens[:, -model.max_len :])
        new = logits[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens

# %% wrong generate: the prompt itself grows, its data is replaced
@torch.no_grad()
def generate(model, prompt, num_new_tokens):
    for _ in range(num_new_tokens):
        logits = model(prompt[:, -model.max_len :])
        new = logits[:, -1].argmax(dim=-1, keepdim=True)
        prompt.data = torch.cat([prompt, new], dim=1)
    return prompt

# %% wrong generate: num_new_tokens is taken for the whole length
@torch.no_grad()
def generate(model, prompt, num_new_tokens):
    tokens = prompt
    for _ in range(num_new_tokens - prompt.shape[1]):
        logits = model(tokens[:, -model.max_len :])
        new = logits[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens

# %% wrong generate: every sequence of the batch gets the token of the first one
@torch.no_grad()
def generate(model, prompt, num_new_tokens):
    tokens = prompt
    for _ in range(num_new_tokens):
        logits = model(tokens[:, -model.max_len :])
        best = logits[0, -1].argmax().item()
        new = torch.full((prompt.shape[0], 1), best)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens

# %% wrong generate: after the first step only the newest token is shown, as if the model remembered the others
@torch.no_grad()
def generate(model, prompt, num_new_tokens):
    tokens, shown = prompt, prompt[:, -model.max_len :]
    for _ in range(num_new_tokens):
        shown = model(shown)[:, -1].argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, shown], dim=1)
    return tokens

# %% wrong generate: the new tokens are collected in a list, and cat of an empty list fails for none
def generate(model, prompt, num_new_tokens):
    seen, new = prompt, []
    with torch.no_grad():
        for _ in range(num_new_tokens):
            logits = model(seen[:, -model.max_len :])[:, -1]
            new.append(logits.argmax(-1, keepdim=True))
            seen = torch.cat([seen, new[-1]], dim=1)
    return torch.cat([prompt, torch.cat(new, dim=1)], dim=1)

# %% wrong TinyGPT: the mask has no diagonal, so a token does not attend to itself
class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.token = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList([EncoderLayer(d_model, num_heads, 4 * d_model) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        n = tokens.shape[1]
        if n > self.max_len:
            raise ValueError("too long")
        x = self.token(tokens) + self.position(torch.arange(n, device=tokens.device))
        mask = torch.ones(n, n, dtype=torch.bool, device=tokens.device).tril(-1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))

# %% wrong TinyGPT: token 0 is hidden as padding
# As: the mask has no diagonal, so a token does not attend to itself
# @@
# -         mask = torch.ones(n, n, dtype=torch.bool, device=tokens.device).tril(-1)
# +         mask = torch.ones(n, n, dtype=torch.bool, device=tokens.device).tril() & (tokens != 0)[:, None]

# %% wrong FeedForward: the other GELU, with tanh
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.gelu = nn.GELU(approximate="tanh")

    def forward(self, x):
        return self.linear2(self.gelu(self.linear1(x)))

# %% wrong FeedForward: the second linear layer has no bias
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        hidden = nn.functional.gelu(self.linear1(x))
        return self.linear2(hidden)

# %% right FeedForward: the normal distribution written with the error function
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.add_module("linear1", nn.Linear(d_model, d_ff))
        self.add_module("linear2", nn.Linear(d_ff, d_model))

    def forward(self, x):
        t = self.linear1(x)
        share = (1 + torch.erf(t / math.sqrt(2))) / 2
        return self.linear2(t * share)

# %% wrong EncoderLayer: one norm under two names
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = x + self.self_attn(self.norm1(x), mask=mask)[0]
        return x + self.feed_forward(self.norm2(x))

# %% wrong EncoderLayer: adds both parts to the caller's x in place
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        attended, weights = self.self_attn(self.norm1(x), mask=mask)
        x += attended
        x += self.feed_forward(self.norm2(x))
        return x

# %% right EncoderLayer: a loop over two pairs of norm and part
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(d_model) for _ in range(2))
        self.feed_forward = FeedForward(d_model, d_ff)
        self.self_attn = MultiHeadAttention(d_model, num_heads)

    def attend(self, y, mask):
        return self.self_attn(query=y, key=y, value=y, mask=mask)[0]

    def forward(self, x, mask=None):
        stream = x
        for norm, part in ((self.norm1, lambda y: self.attend(y, mask)), (self.norm2, self.feed_forward)):
            stream = torch.add(stream, part(norm(stream)))
        return stream

# %% wrong DecoderLayer: the memory goes through norm2 as well
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.multihead_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attn(self.norm1(x), mask=mask)[0]
        x = x + self.multihead_attn(self.norm2(x), self.norm2(memory), mask=memory_mask)[0]
        return x + self.feed_forward(self.norm3(x))

# %% wrong DecoderLayer: without a memory mask the mask of self-attention is taken
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.multihead_attn = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        if memory_mask is None and memory.shape[1] == x.shape[1]:
            memory_mask = mask
        x = x + self.self_attn(self.norm1(x), mask=mask)[0]
        x = x + self.multihead_attn(self.norm2(x), memory, memory, memory_mask)[0]
        return x + self.feed_forward(self.norm3(x))

# %% right DecoderLayer: each part returns only what it adds
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.linear2(nn.functional.gelu(self.linear1(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        for name in ("self_attn", "multihead_attn"):
            setattr(self, name, MultiHeadAttention(d_model, num_heads))
        for number in (1, 2, 3):
            setattr(self, f"norm{number}", nn.LayerNorm(d_model))
        self.feed_forward = FeedForward(d_model, d_ff)

    def among_themselves(self, x, mask):
        out, _ = self.self_attn(self.norm1(x), mask=mask)
        return out

    def from_memory(self, x, memory, memory_mask):
        out, _ = self.multihead_attn(self.norm2(x), memory, mask=memory_mask)
        return out

    def forward(self, x, memory, mask=None, memory_mask=None):
        first = x + self.among_themselves(x, mask)
        second = first + self.from_memory(first, memory, memory_mask)
        return second + self.feed_forward(self.norm3(second))

# %% wrong TinyGPT: counts positions from the end, so they change with the number of tokens
class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = MultiHeadAttention(d_model, num_heads)
        self.net = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, mask):
        x = x + self.attn(self.norm1(x), mask=mask)[0]
        return x + self.net(self.norm2(x))


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList(Block(d_model, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        n = tokens.shape[1]
        if n > self.max_len:
            raise ValueError(f"{n} tokens, and at most {self.max_len}")
        x = self.embedding(tokens) + self.places(torch.arange(n - 1, -1, -1, device=tokens.device))
        mask = torch.ones(n, n, dtype=torch.bool, device=tokens.device).tril()
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))

# %% wrong TinyGPT: num_layers times the same layer in the list
class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = MultiHeadAttention(d_model, num_heads)
        self.net = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, mask):
        x = x + self.attn(self.norm1(x), mask=mask)[0]
        return x + self.net(self.norm2(x))


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.places = nn.Parameter(torch.randn(max_len, d_model) * 0.1)
        self.layers = nn.ModuleList([Block(d_model, num_heads)] * num_layers)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens):
        n = tokens.shape[1]
        if n > self.max_len:
            raise ValueError("too many tokens")
        x = self.embedding(tokens) + self.places[:n]
        mask = torch.tril(torch.ones(n, n)).bool()
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))

# %% right TinyGPT: sinusoidal positions in a buffer, and a mask kept for max_len
class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(d_model), nn.LayerNorm(d_model)])
        self.attn = MultiHeadAttention(d_model, num_heads)
        self.up = nn.Linear(d_model, 4 * d_model)
        self.down = nn.Linear(4 * d_model, d_model)

    def forward(self, x, mask):
        y = self.norms[0](x)
        x = x + self.attn(y, y, y, mask)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class TinyGPT(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, num_layers, max_len):
        super().__init__()
        self.max_len = max_len
        self.words = nn.Embedding(vocab_size, d_model)
        angles = torch.arange(max_len)[:, None] / 1000 ** (torch.arange(0, d_model, 2) / d_model)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]
        self.register_buffer("waves", waves)
        self.register_buffer("allowed", torch.ones(max_len, max_len, dtype=torch.bool).tril())
        self.blocks = nn.ModuleList(Block(d_model, num_heads) for _ in range(num_layers))
        self.last = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, vocab_size))
        nn.init.normal_(self.last[1].weight, std=0.02)

    def forward(self, tokens):
        n = tokens.shape[1]
        if n > self.max_len:
            raise IndexError(f"{n} tokens do not fit into {self.max_len}")
        x = self.words(tokens) + self.waves[:n]
        for block in self.blocks:
            x = block(x, self.allowed[:n, :n])
        return self.last(x)

# %% wrong generate: gives all parts the mode of the whole model afterwards
def generate(model, prompt, num_new_tokens):
    was_training = model.training
    model.eval()
    tokens = prompt
    with torch.no_grad():
        for _ in range(num_new_tokens):
            logits = model(tokens[:, -model.max_len :])[:, -1]
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
    model.train(was_training)
    return tokens

# %% wrong generate: also forgets the beginning that the model no longer sees
@torch.no_grad()
def generate(model, prompt, num_new_tokens):
    tokens = prompt
    for _ in range(num_new_tokens):
        tokens = tokens[:, -model.max_len :]
        following = model(tokens)[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, following[:, None]], dim=1)
    return tokens

# %% right generate: writes into a tensor of the final length
def generate(model, prompt, num_new_tokens):
    b, n = prompt.shape
    text = torch.empty(b, n + num_new_tokens, dtype=prompt.dtype, device=prompt.device)
    text[:, :n] = prompt
    for end in range(n, n + num_new_tokens):
        begin = max(0, end - model.max_len)
        with torch.inference_mode():
            best = model(text[:, begin:end].clone())[:, -1, :].max(dim=-1).indices
        text[:, end] = best.clone()
    return text

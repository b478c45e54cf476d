"""Answers to 13-today."""

# %% wrong rms_norm: eps is added to the root, not below it
def rms_norm(x, weight, eps=1e-6):
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight has the wrong size")
    y = x if x.dtype == torch.float64 else x.float()
    rms = y.pow(2).mean(-1, keepdim=True).sqrt()
    return (y / (rms + eps) * weight).to(x.dtype)

# %% wrong rms_norm: the mean square is taken in the dtype of x, only the division in float32
def rms_norm(x, weight, eps=1e-6):
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight has the wrong size")
    ms = (x * x).mean(dim=-1, keepdim=True)
    high = torch.promote_types(x.dtype, torch.float32)
    return (x.to(high) * torch.rsqrt(ms.to(high) + eps) * weight.to(high)).to(x.dtype)

# %% wrong rms_norm: float32 for every input, float64 too
def rms_norm(x, weight, eps=1e-6):
    if len(weight) != x.shape[-1]:
        raise ValueError("sizes differ")
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    return (y * weight.float()).to(x.dtype)

# %% wrong rms_norm: divides by the standard deviation, so only rows of mean 0 are right
def rms_norm(x, weight, eps=1e-6):
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight has the wrong size")
    y = x.to(torch.promote_types(x.dtype, torch.float32))
    var = y.var(dim=-1, keepdim=True, correction=0)
    return (y / torch.sqrt(var + eps) * weight).to(x.dtype)

# %% wrong rms_norm: the row is first divided by its largest number, and eps is added to what is left
def rms_norm(x, weight, eps=1e-6):
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight has the wrong size")
    y = x if x.dtype == torch.float64 else x.float()
    largest = y.abs().amax(-1, keepdim=True)
    y = y / torch.where(largest > 0, largest, torch.ones_like(largest))
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + eps)
    return (y * weight).to(x.dtype)

# %% wrong rms_norm: in place after .float(), which is no copy if x is float32
def rms_norm(x, weight, eps=1e-6):
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight has the wrong size")
    y = x.float() if x.dtype != torch.float64 else x
    scale = torch.rsqrt((y**2).mean(-1, keepdim=True) + eps)
    if y.requires_grad:
        y = y * scale
    else:
        y *= scale
    return (y * weight).to(x.dtype)

# %% wrong rms_norm: the result for float16 and bfloat16 stays float32
def rms_norm(x, weight, eps=1e-6):
    if weight.shape[0] != x.shape[-1]:
        raise ValueError("weight has the wrong size")
    if x.dtype in (torch.float16, torch.bfloat16):
        x, weight = x.float(), weight.float()
    return weight * x / torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + eps)

# %% wrong rms_norm: the mean is over all axes but the first
def rms_norm(x, weight, eps=1e-6):
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight has the wrong size")
    y = x.double() if x.dtype == torch.float64 else x.float()
    axes = tuple(range(1, x.dim())) or (0,)
    return (y * torch.rsqrt(y.square().mean(axes, keepdim=True) + eps) * weight).to(x.dtype)

# %% wrong rms_norm: the root mean square is a constant for the gradient
def rms_norm(x, weight, eps=1e-6):
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight has the wrong size")
    y = x.to(torch.promote_types(x.dtype, torch.float32))
    with torch.no_grad():
        inverse = y.square().mean(-1, keepdim=True).add(eps).rsqrt()
    return (y * inverse * weight).to(x.dtype)

# %% right rms_norm: F.rms_norm in the higher dtype
def rms_norm(x, weight, eps=1e-6):
    import torch.nn.functional as F

    high = torch.promote_types(x.dtype, torch.float32)
    return F.rms_norm(x.to(high), tuple(x.shape[-1:]), weight.to(high), eps).to(x.dtype)

# %% right rms_norm: einsum for the squares, and a diagonal matrix for the weight
def rms_norm(x, weight, eps=1e-6):
    d = x.size(-1)
    if weight.numel() != d:
        raise ValueError(f"{weight.numel()} weights for {d} columns")
    double = x.dtype is torch.float64
    y, w = (x, weight) if double else (x.float(), weight.float())
    total = torch.einsum("...c,...c->...", y, y)
    y = torch.einsum("...c,...->...c", y, (total / d + eps) ** -0.5)
    return torch.einsum("...c,cd->...d", y, torch.diag(w)).to(x.dtype)

# %% right rms_norm: the length of the row with sqrt(d * eps) as one more number
def rms_norm(x, weight, eps=1e-6):
    if tuple(weight.shape) != (x.shape[-1],):
        raise ValueError("weight does not fit the rows")
    y = x.to(torch.float64)
    extra = y.new_full((*x.shape[:-1], 1), math.sqrt(x.shape[-1] * eps))
    length = torch.linalg.vector_norm(torch.cat([y, extra], -1), dim=-1, keepdim=True)
    return (math.sqrt(x.shape[-1]) * weight.double() * y / length).type_as(x)

# %% wrong gated_feed_forward: SiLU is applied to the up projection
def gated_feed_forward(x, W_gate, W_up, W_down):
    return ((x @ W_gate) * nn.functional.silu(x @ W_up)) @ W_down

# %% wrong gated_feed_forward: SiLU comes after the product
def gated_feed_forward(x, W_gate, W_up, W_down):
    hidden = torch.matmul(x, W_gate) * torch.matmul(x, W_up)
    return torch.matmul(torch.nn.functional.silu(hidden), W_down)

# %% wrong gated_feed_forward: the gate is a plain sigmoid
def gated_feed_forward(x, W_gate, W_up, W_down):
    gate = torch.sigmoid(x @ W_gate)
    return (gate * (x @ W_up)) @ W_down

# %% wrong gated_feed_forward: GELU's approximation by sigmoid(1.702 t)
def gated_feed_forward(x, W_gate, W_up, W_down):
    g = x @ W_gate
    return (g * torch.sigmoid(1.702 * g) * (x @ W_up)) @ W_down

# %% wrong gated_feed_forward: SiLU as t e^t / (1 + e^t), which is NaN for large t
def gated_feed_forward(x, W_gate, W_up, W_down):
    gate = x @ W_gate
    e = torch.exp(gate)
    return (gate * e / (1 + e) * (x @ W_up)) @ W_down

# %% wrong gated_feed_forward: guesses from the sizes whether a matrix is (in, out), so not if d = d_ff
def gated_feed_forward(x, W_gate, W_up, W_down):
    import torch.nn.functional as F

    def linear(x, W):
        if W.shape[1] == x.shape[-1]:
            return F.linear(x, W)
        return F.linear(x, W.T)

    return linear(F.silu(linear(x, W_gate)) * linear(x, W_up), W_down)

# %% wrong gated_feed_forward: an axis for a single token is taken away again, even if it was the caller's
def gated_feed_forward(x, W_gate, W_up, W_down):
    if x.dim() == 1:
        x = x.unsqueeze(0)
    gate = nn.functional.silu(x @ W_gate)
    return (gate * (x @ W_up) @ W_down).squeeze(0)

# %% wrong gated_feed_forward: the sigmoid is multiplied in place, and backward needs it as it was
def gated_feed_forward(x, W_gate, W_up, W_down):
    gate = x @ W_gate
    hidden = torch.sigmoid(gate)
    hidden *= gate
    hidden *= x @ W_up
    return hidden @ W_down

# %% right gated_feed_forward: the gate is multiplied in place, where autograd keeps what it needs
def gated_feed_forward(x, W_gate, W_up, W_down):
    if W_gate.shape != W_up.shape or W_down.shape != (W_up.shape[1], x.shape[-1]):
        raise ValueError("sizes do not match")
    gate = x @ W_gate
    gate *= torch.sigmoid(gate)
    gate *= x @ W_up
    return gate @ W_down

# %% right gated_feed_forward: one product for gate and up, cut by chunk
def gated_feed_forward(x, W_gate, W_up, W_down):
    if W_gate.shape != W_up.shape or W_down.shape != W_gate.shape[::-1]:
        raise ValueError("sizes do not match")
    gate, up = torch.matmul(x, torch.hstack([W_gate, W_up])).chunk(2, dim=-1)
    return torch.matmul(torch.sigmoid(gate) * gate * up, W_down)

# %% right gated_feed_forward: a loop over the hidden units
def gated_feed_forward(x, W_gate, W_up, W_down):
    d, d_ff = W_gate.shape
    if x.shape[-1] != d or tuple(W_up.shape) != (d, d_ff) or tuple(W_down.shape) != (d_ff, d):
        raise ValueError("sizes do not match")
    out = torch.zeros_like(x)
    for c in range(d_ff):
        g = (x * W_gate[:, c]).sum(-1, keepdim=True)
        u = (x * W_up[:, c]).sum(-1, keepdim=True)
        out = out + g * (0.5 + 0.5 * torch.tanh(g / 2)) * u * W_down[c]
    return out

# %% right gated_feed_forward: F.linear with transposed matrices, and one einsum for product and down
def gated_feed_forward(x, W_gate, W_up, W_down):
    import torch.nn.functional as F

    if W_gate.shape[1] != W_up.shape[1] or W_up.shape[1] != W_down.shape[0] or W_down.shape[1] != x.shape[-1]:
        raise ValueError("sizes do not match")
    a = F.linear(x, W_gate.mT)
    b = F.linear(x, W_up.mT)
    return torch.einsum("...f,...f,fd->...d", F.silu(a), b, W_down)

# %% wrong stretched_frequencies: turns without 2 pi, so these are radians
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k is odd")
    omega = base ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    kept = ((trained * omega - low) / (high - low)).clamp(0, 1)
    return (omega * (kept + (1 - kept) / factor)).float()

# %% wrong stretched_frequencies: only full turns count, so they are rounded down
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k is odd")
    omega = base ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    turns = (trained * omega) // (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return (omega * (kept + (1 - kept) / factor)).float()

# %% wrong stretched_frequencies: the ramp is straight in the number of the pair, as in YaRN's code
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k is odd")

    def pair_of(turns):
        return d_k * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    first = max(math.floor(pair_of(high)), 0)
    last = min(math.ceil(pair_of(low)), d_k - 1)
    ramp = (torch.arange(d_k // 2, dtype=torch.float32) - first) / max(last - first, 0.001)
    kept = 1 - ramp.clamp(0, 1)
    omega = 1.0 / base ** (torch.arange(0, d_k, 2).float() / d_k)
    return omega / factor * (1 - kept) + omega * kept

# %% wrong stretched_frequencies: mixes the wavelengths in place of the frequencies
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k is odd")
    wavelength = 2 * math.pi * base ** (torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    kept = torch.clamp((trained / wavelength - low) / (high - low), 0, 1)
    longer = kept * wavelength + (1 - kept) * wavelength * factor
    return (2 * math.pi / longer).float()

# %% wrong stretched_frequencies: the turns are counted within the longer text
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k is odd")
    omega = torch.tensor([base ** (-2 * i / d_k) for i in range(d_k // 2)], dtype=torch.float64)
    r = factor * trained * omega / (2 * math.pi)
    kept = ((r - low) / (high - low)).clamp(0, 1)
    return (omega * kept + omega * (1 - kept) / factor).to(torch.float32)

# %% wrong stretched_frequencies: the share is not cut off at 1
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k is odd")
    omega = base ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    kept = torch.relu((trained * omega / (2 * math.pi) - low) / (high - low))
    return (omega * (kept + (1 - kept) / factor)).float()

# %% wrong stretched_frequencies: between low and high, half of each
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k is odd")
    omega = base ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    r = trained * omega / (2 * math.pi)
    kept = torch.where(r >= high, 1.0, torch.where(r <= low, 0.0, 0.5))
    return (omega * (kept + (1 - kept) / factor)).float()

# %% wrong stretched_frequencies: the numbers are right, but float64
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k is odd")
    omega = base ** (-torch.arange(0, d_k, 2).double() / d_k)
    kept = ((trained * omega / (2 * math.pi) - low) / (high - low)).clamp(min=0, max=1)
    return omega * (kept + (1 - kept) / factor)

# %% wrong stretched_frequencies: 1 and 32 turns, whatever low and high are
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k is odd")
    omega = base ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    kept = ((trained * omega / (2 * math.pi) - 1) / 31).clamp(0, 1)
    return (omega * (kept + (1 - kept) / factor)).float()

# %% right stretched_frequencies: plain Python numbers, pair by pair
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    if d_k % 2:
        raise ValueError("d_k must be even")
    result, wavelength = [], 2 * math.pi
    for _ in range(d_k // 2):
        turns = trained / wavelength
        speed = 2 * math.pi / wavelength
        if turns >= high:
            result.append(speed)
        elif turns <= low:
            result.append(speed / factor)
        else:
            part = (high - turns) / (high - low)
            result.append(speed - part * (speed - speed / factor))
        wavelength *= base ** (2 / d_k)
    return torch.tensor(result, dtype=torch.float32)

# %% right stretched_frequencies: torch.lerp between slow and fast, with logarithms for the frequencies
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    pairs, odd = divmod(d_k, 2)
    if odd:
        raise ValueError(f"d_k = {d_k} is odd")
    i = torch.arange(pairs, dtype=torch.float64)
    fast = torch.exp(i * (-math.log(base) / pairs))
    kept = torch.nn.functional.hardtanh((fast * trained - math.tau * low) / (math.tau * (high - low)), 0.0, 1.0)
    return torch.lerp(fast / factor, fast, kept).to(torch.float32)

# %% right stretched_frequencies: NumPy's interp
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    import numpy as np

    if d_k % 2 == 1:
        raise ValueError("odd width")
    omega = np.power(float(base), -np.arange(0, d_k, 2) / d_k)
    share = np.interp(trained * omega / (2 * np.pi), [low, high], [1 / factor, 1.0])
    return torch.from_numpy((omega * share).astype(np.float32))

# %% wrong sink_softmax: the maximum is taken over the keys, and the sink is not shifted by it
def sink_softmax(S, sink):
    if len(sink) != S.shape[-3]:
        raise ValueError("one sink for each head")
    sink = sink[:, None, None]
    top = S.amax(-1, keepdim=True)
    top = top.masked_fill(top == -torch.inf, 0)
    e = (S - top).exp()
    return e / (sink.exp() + e.sum(-1, keepdim=True))

# %% wrong sink_softmax: everything relative to the sink, so much larger scores overflow
def sink_softmax(S, sink):
    if len(sink) != S.shape[-3]:
        raise ValueError("one sink for each head")
    e = torch.exp(S - sink.view(-1, 1, 1))
    return e / (1 + e.sum(dim=-1, keepdim=True))

# %% wrong sink_softmax: softmax times a gate, and NaN becomes 0 afterwards, in the result but not in the gradient
def sink_softmax(S, sink):
    if len(sink) != S.shape[-3]:
        raise ValueError("one sink for each head")
    gate = torch.sigmoid(S.logsumexp(-1, keepdim=True) - sink[:, None, None])
    return torch.nan_to_num(S.softmax(-1) * gate)

# %% wrong sink_softmax: the maximum leaves out the sink, so a row without keys is NaN
def sink_softmax(S, sink):
    if len(sink) != S.shape[-3]:
        raise ValueError("one sink for each head")
    m = S.max(dim=-1, keepdim=True).values
    e = torch.exp(S - m)
    return e / (torch.exp(sink[:, None, None] - m) + e.sum(-1, keepdim=True))

# %% wrong sink_softmax: the sink is appended in front, and the last column is cut off
def sink_softmax(S, sink):
    if len(sink) != S.shape[-3]:
        raise ValueError("one sink for each head")
    column = sink[:, None, None].expand(*S.shape[:-1], 1)
    return torch.cat([column, S], dim=-1).softmax(-1)[..., :-1]

# %% wrong sink_softmax: -inf becomes -10000, which counts where the sink is lower
def sink_softmax(S, sink):
    if len(sink) != S.shape[-3]:
        raise ValueError("one sink for each head")
    S = S.masked_fill(S == -torch.inf, -1e4)
    column = sink[:, None, None].expand(S.shape[:-1] + (1,))
    return torch.softmax(torch.cat([S, column], -1), -1)[..., :-1]

# %% wrong sink_softmax: the maximum is subtracted from the caller's scores
def sink_softmax(S, sink):
    if len(sink) != S.shape[-3]:
        raise ValueError("one sink for each head")
    sink = sink[:, None, None]
    m = torch.maximum(S.amax(-1, keepdim=True), sink).detach()
    with torch.no_grad():
        S -= m
    e = S.exp()
    return e / ((sink - m).exp() + e.sum(-1, keepdim=True))

# %% wrong sink_softmax: softmax in float32, without the way back
def sink_softmax(S, sink):
    if len(sink) != S.shape[-3]:
        raise ValueError("one sink for each head")
    kind = torch.float64 if S.dtype == torch.float64 else torch.float32
    column = sink[:, None, None].expand(*S.shape[:-1], 1)
    return torch.cat([S, column], -1).softmax(-1, dtype=kind)[..., :-1]

# %% wrong sink_softmax: exactly one leading dimension
def sink_softmax(S, sink):
    b, h, n_q, n_k = S.shape
    if len(sink) != h:
        raise ValueError("one sink for each head")
    column = sink.reshape(1, h, 1, 1).expand(b, h, n_q, 1)
    return torch.cat([S, column], dim=-1).softmax(dim=-1)[..., :n_k]

# %% right sink_softmax: softmax with an appended column
def sink_softmax(S, sink):
    *_, h, n_q, n_k = S.shape
    if tuple(sink.shape) != (h,):
        raise ValueError(f"{tuple(sink.shape)} sinks for {h} heads")
    padded = torch.nn.functional.pad(S, (0, 1))
    last = torch.arange(n_k + 1, device=S.device) == n_k
    return torch.where(last, sink.unsqueeze(-1).unsqueeze(-1), padded).softmax(-1).narrow(-1, 0, n_k)

# %% right sink_softmax: the logarithm of the denominator, then one exp
def sink_softmax(S, sink):
    if sink.shape[0] != S.shape[-3]:
        raise ValueError("not one sink for each head")
    both = torch.cat([sink.reshape(-1, 1, 1).expand_as(S[..., :1]), S], dim=-1)
    top = both.detach().amax(-1, keepdim=True)
    return (S - top - torch.logsumexp(both - top, dim=-1, keepdim=True)).exp()

# %% right sink_softmax: a loop over the heads, with a maximum that includes the sink
def sink_softmax(S, sink):
    heads = S.unbind(-3)
    if len(heads) != sink.numel():
        raise ValueError("not one sink for each head")
    result = []
    for s, beta in zip(heads, sink):
        top = s.amax(dim=-1, keepdim=True).clamp(min=beta).detach()
        e = torch.exp(s - top)
        result.append(e / (torch.exp(beta - top) + e.sum(-1, keepdim=True)))
    return torch.stack(result, dim=-3)

# %% right sink_softmax: softmax times a sigmoid, with safe rows where all keys are masked
def sink_softmax(S, sink):
    if S.shape[-3] != len(sink):
        raise ValueError("not one sink for each head")
    blind = (S == -torch.inf).all(dim=-1, keepdim=True)
    safe = S.masked_fill(blind, 0.0)
    top = safe.amax(-1, True)
    share = torch.sigmoid((safe - top).logsumexp(-1, True) - (sink.view(-1, 1, 1) - top))
    return safe.softmax(-1).mul(share).masked_fill(blind, 0.0)

# %% wrong Block: queries and keys are normed after the turn, which shows only if the weights are not all one
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.W_q(y).view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_k(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = self.normed(rotary(Q, positions, self.theta), self.q_norm)
        K = self.normed(rotary(K, positions, self.theta), self.k_norm)
        groups = self.num_heads // self.num_kv_heads
        K, V = K.repeat_interleave(groups, dim=1), V.repeat_interleave(groups, dim=1)
        S = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(n, device=y.device)
        mask = i[None, :] <= i[:, None]
        if self.window is not None:
            mask = mask & (i[None, :] > i[:, None] - self.window)
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.W_o((A @ V).transpose(1, 2).reshape(b, n, self.d_model))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        x = x + self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong Block: query head i attends to key head i % num_kv_heads
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.W_q(y).view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_k(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = rotary(self.normed(Q, self.q_norm), positions, self.theta)
        K = rotary(self.normed(K, self.k_norm), positions, self.theta)
        groups = self.num_heads // self.num_kv_heads
        K, V = K.repeat(1, groups, 1, 1), V.repeat(1, groups, 1, 1)
        S = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(n, device=y.device)
        mask = i[None, :] <= i[:, None]
        if self.window is not None:
            mask = mask & (i[None, :] > i[:, None] - self.window)
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.W_o((A @ V).transpose(1, 2).reshape(b, n, self.d_model))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        x = x + self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong Block: the window leaves out the token itself, so it is one token longer
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        d_k, rest = divmod(d_model, num_heads)
        if rest or num_heads % num_kv_heads or d_k % 2:
            raise ValueError("wrong sizes")
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window = window
        self.theta = theta
        for name, n_in, n_out in [
            ("W_q", d_model, d_model),
            ("W_k", d_model, num_kv_heads * d_k),
            ("W_v", d_model, num_kv_heads * d_k),
            ("W_o", d_model, d_model),
            ("W_gate", d_model, d_ff),
            ("W_up", d_model, d_ff),
            ("W_down", d_ff, d_model),
        ]:
            setattr(self, name, nn.Linear(n_in, n_out, bias=False))
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(d_k)), nn.Parameter(torch.ones(d_k))

    @staticmethod
    def norm(x, weight):
        high = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(x.to(high), weight.shape, weight.to(high), 1e-6).to(x.dtype)

    def mask(self, n, device):
        mask = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        if self.window is not None:
            mask = mask.triu(-self.window)
        return mask

    def forward(self, x, positions=None):
        b, n, _ = x.shape
        if positions is None:
            positions = torch.arange(n, device=x.device)
        y = self.norm(x, self.norm1)
        q = self.W_q(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        v = self.W_v(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        q = rotary(self.norm(q, self.q_norm), positions, self.theta)
        k = rotary(self.norm(k, self.k_norm), positions, self.theta)
        z = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask(n, x.device), enable_gqa=True
        )
        x = x + self.W_o(z.transpose(1, 2).flatten(2))
        y = self.norm(x, self.norm2)
        hidden = nn.functional.silu(self.W_gate(y)) * self.W_up(y)
        return x + self.W_down(hidden)

# %% wrong Block: a window of 1 counts as no window
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        d_k, rest = divmod(d_model, num_heads)
        if rest or num_heads % num_kv_heads or d_k % 2:
            raise ValueError("wrong sizes")
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window = window
        self.theta = theta
        for name, n_in, n_out in [
            ("W_q", d_model, d_model),
            ("W_k", d_model, num_kv_heads * d_k),
            ("W_v", d_model, num_kv_heads * d_k),
            ("W_o", d_model, d_model),
            ("W_gate", d_model, d_ff),
            ("W_up", d_model, d_ff),
            ("W_down", d_ff, d_model),
        ]:
            setattr(self, name, nn.Linear(n_in, n_out, bias=False))
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(d_k)), nn.Parameter(torch.ones(d_k))

    @staticmethod
    def norm(x, weight):
        high = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(x.to(high), weight.shape, weight.to(high), 1e-6).to(x.dtype)

    def mask(self, n, device):
        mask = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        back = self.window - 1 if self.window else 0
        if back:
            mask = mask.triu(-back)
        return mask

    def forward(self, x, positions=None):
        b, n, _ = x.shape
        if positions is None:
            positions = torch.arange(n, device=x.device)
        y = self.norm(x, self.norm1)
        q = self.W_q(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        v = self.W_v(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        q = rotary(self.norm(q, self.q_norm), positions, self.theta)
        k = rotary(self.norm(k, self.k_norm), positions, self.theta)
        z = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask(n, x.device), enable_gqa=True
        )
        x = x + self.W_o(z.transpose(1, 2).flatten(2))
        y = self.norm(x, self.norm2)
        hidden = nn.functional.silu(self.W_gate(y)) * self.W_up(y)
        return x + self.W_down(hidden)

# %% wrong Block: the window counts positions, not tokens
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.W_q(y).view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_k(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = rotary(self.normed(Q, self.q_norm), positions, self.theta)
        K = rotary(self.normed(K, self.k_norm), positions, self.theta)
        groups = self.num_heads // self.num_kv_heads
        K, V = K.repeat_interleave(groups, dim=1), V.repeat_interleave(groups, dim=1)
        S = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(n, device=y.device)
        mask = i[None, :] <= i[:, None]
        if self.window is not None:
            mask = mask & (positions[None, :] > positions[:, None] - self.window)
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.W_o((A @ V).transpose(1, 2).reshape(b, n, self.d_model))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        x = x + self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong Block: a token sees the tokens whose positions are not larger, instead of those before it
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.W_q(y).view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_k(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = rotary(self.normed(Q, self.q_norm), positions, self.theta)
        K = rotary(self.normed(K, self.k_norm), positions, self.theta)
        groups = self.num_heads // self.num_kv_heads
        K, V = K.repeat_interleave(groups, dim=1), V.repeat_interleave(groups, dim=1)
        S = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(n, device=y.device)
        mask = positions[None, :] <= positions[:, None]
        if self.window is not None:
            mask = mask & (i[None, :] > i[:, None] - self.window)
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.W_o((A @ V).transpose(1, 2).reshape(b, n, self.d_model))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        x = x + self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong Block: both parts read the stream that came in, side by side
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.W_q(y).view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_k(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = rotary(self.normed(Q, self.q_norm), positions, self.theta)
        K = rotary(self.normed(K, self.k_norm), positions, self.theta)
        groups = self.num_heads // self.num_kv_heads
        K, V = K.repeat_interleave(groups, dim=1), V.repeat_interleave(groups, dim=1)
        S = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(n, device=y.device)
        mask = i[None, :] <= i[:, None]
        if self.window is not None:
            mask = mask & (i[None, :] > i[:, None] - self.window)
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.W_o((A @ V).transpose(1, 2).reshape(b, n, self.d_model))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        first = self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + first + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong Block: theta does not get to the keys' and queries' rotation
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.W_q(y).view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_k(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = rotary(self.normed(Q, self.q_norm), positions)
        K = rotary(self.normed(K, self.k_norm), positions)
        groups = self.num_heads // self.num_kv_heads
        K, V = K.repeat_interleave(groups, dim=1), V.repeat_interleave(groups, dim=1)
        S = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(n, device=y.device)
        mask = i[None, :] <= i[:, None]
        if self.window is not None:
            mask = mask & (i[None, :] > i[:, None] - self.window)
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.W_o((A @ V).transpose(1, 2).reshape(b, n, self.d_model))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        x = x + self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong Block: queries and keys are normed over all heads together
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.normed(self.W_q(y), self.q_norm.repeat(self.num_heads))
        Q = Q.view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.normed(self.W_k(y), self.k_norm.repeat(self.num_kv_heads))
        K = K.view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = rotary(Q, positions, self.theta)
        K = rotary(K, positions, self.theta)
        groups = self.num_heads // self.num_kv_heads
        K, V = K.repeat_interleave(groups, dim=1), V.repeat_interleave(groups, dim=1)
        S = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(n, device=y.device)
        mask = i[None, :] <= i[:, None]
        if self.window is not None:
            mask = mask & (i[None, :] > i[:, None] - self.window)
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.W_o((A @ V).transpose(1, 2).reshape(b, n, self.d_model))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        x = x + self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong Block: the weight of the queries' norm is used for the keys too
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        d_k, rest = divmod(d_model, num_heads)
        if rest or num_heads % num_kv_heads or d_k % 2:
            raise ValueError("wrong sizes")
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window = window
        self.theta = theta
        for name, n_in, n_out in [
            ("W_q", d_model, d_model),
            ("W_k", d_model, num_kv_heads * d_k),
            ("W_v", d_model, num_kv_heads * d_k),
            ("W_o", d_model, d_model),
            ("W_gate", d_model, d_ff),
            ("W_up", d_model, d_ff),
            ("W_down", d_ff, d_model),
        ]:
            setattr(self, name, nn.Linear(n_in, n_out, bias=False))
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(d_k)), nn.Parameter(torch.ones(d_k))

    @staticmethod
    def norm(x, weight):
        high = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(x.to(high), weight.shape, weight.to(high), 1e-6).to(x.dtype)

    def mask(self, n, device):
        mask = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        if self.window is not None:
            mask = mask.triu(1 - self.window)
        return mask

    def forward(self, x, positions=None):
        b, n, _ = x.shape
        if positions is None:
            positions = torch.arange(n, device=x.device)
        y = self.norm(x, self.norm1)
        q = self.W_q(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        v = self.W_v(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        q = rotary(self.norm(q, self.q_norm), positions, self.theta)
        k = rotary(self.norm(k, self.q_norm), positions, self.theta)
        z = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask(n, x.device), enable_gqa=True
        )
        x = x + self.W_o(z.transpose(1, 2).flatten(2))
        y = self.norm(x, self.norm2)
        hidden = nn.functional.silu(self.W_gate(y)) * self.W_up(y)
        return x + self.W_down(hidden)

# %% wrong Block: eps is that of nn.functional.rms_norm, which depends on the dtype
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        d_k, rest = divmod(d_model, num_heads)
        if rest or num_heads % num_kv_heads or d_k % 2:
            raise ValueError("wrong sizes")
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window = window
        self.theta = theta
        for name, n_in, n_out in [
            ("W_q", d_model, d_model),
            ("W_k", d_model, num_kv_heads * d_k),
            ("W_v", d_model, num_kv_heads * d_k),
            ("W_o", d_model, d_model),
            ("W_gate", d_model, d_ff),
            ("W_up", d_model, d_ff),
            ("W_down", d_ff, d_model),
        ]:
            setattr(self, name, nn.Linear(n_in, n_out, bias=False))
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(d_k)), nn.Parameter(torch.ones(d_k))

    @staticmethod
    def norm(x, weight):
        high = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(x.to(high), weight.shape, weight.to(high)).to(x.dtype)

    def mask(self, n, device):
        mask = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        if self.window is not None:
            mask = mask.triu(1 - self.window)
        return mask

    def forward(self, x, positions=None):
        b, n, _ = x.shape
        if positions is None:
            positions = torch.arange(n, device=x.device)
        y = self.norm(x, self.norm1)
        q = self.W_q(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        v = self.W_v(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        q = rotary(self.norm(q, self.q_norm), positions, self.theta)
        k = rotary(self.norm(k, self.k_norm), positions, self.theta)
        z = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask(n, x.device), enable_gqa=True
        )
        x = x + self.W_o(z.transpose(1, 2).flatten(2))
        y = self.norm(x, self.norm2)
        hidden = nn.functional.silu(self.W_gate(y)) * self.W_up(y)
        return x + self.W_down(hidden)

# %% wrong Block: attention is added to x in place, so to the caller's stream
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        d_k, rest = divmod(d_model, num_heads)
        if rest or num_heads % num_kv_heads or d_k % 2:
            raise ValueError("wrong sizes")
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window = window
        self.theta = theta
        for name, n_in, n_out in [
            ("W_q", d_model, d_model),
            ("W_k", d_model, num_kv_heads * d_k),
            ("W_v", d_model, num_kv_heads * d_k),
            ("W_o", d_model, d_model),
            ("W_gate", d_model, d_ff),
            ("W_up", d_model, d_ff),
            ("W_down", d_ff, d_model),
        ]:
            setattr(self, name, nn.Linear(n_in, n_out, bias=False))
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(d_k)), nn.Parameter(torch.ones(d_k))

    @staticmethod
    def norm(x, weight):
        high = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(x.to(high), weight.shape, weight.to(high), 1e-6).to(x.dtype)

    def mask(self, n, device):
        mask = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        if self.window is not None:
            mask = mask.triu(1 - self.window)
        return mask

    def forward(self, x, positions=None):
        b, n, _ = x.shape
        if positions is None:
            positions = torch.arange(n, device=x.device)
        y = self.norm(x, self.norm1)
        q = self.W_q(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        v = self.W_v(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        q = rotary(self.norm(q, self.q_norm), positions, self.theta)
        k = rotary(self.norm(k, self.k_norm), positions, self.theta)
        z = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask(n, x.device), enable_gqa=True
        )
        x += self.W_o(z.transpose(1, 2).flatten(2))
        y = self.norm(x, self.norm2)
        hidden = nn.functional.silu(self.W_gate(y)) * self.W_up(y)
        return x + self.W_down(hidden)

# %% wrong Block: the heads are not put next to each other before W_o
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.W_q(y).view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_k(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = rotary(self.normed(Q, self.q_norm), positions, self.theta)
        K = rotary(self.normed(K, self.k_norm), positions, self.theta)
        groups = self.num_heads // self.num_kv_heads
        K, V = K.repeat_interleave(groups, dim=1), V.repeat_interleave(groups, dim=1)
        S = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(n, device=y.device)
        mask = i[None, :] <= i[:, None]
        if self.window is not None:
            mask = mask & (i[None, :] > i[:, None] - self.window)
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.W_o((A @ V).reshape(b, n, self.d_model))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        x = x + self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong Block: a tenth of the attention's result is dropped in training mode
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        d_k, rest = divmod(d_model, num_heads)
        if rest or num_heads % num_kv_heads or d_k % 2:
            raise ValueError("wrong sizes")
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window = window
        self.theta = theta
        for name, n_in, n_out in [
            ("W_q", d_model, d_model),
            ("W_k", d_model, num_kv_heads * d_k),
            ("W_v", d_model, num_kv_heads * d_k),
            ("W_o", d_model, d_model),
            ("W_gate", d_model, d_ff),
            ("W_up", d_model, d_ff),
            ("W_down", d_ff, d_model),
        ]:
            setattr(self, name, nn.Linear(n_in, n_out, bias=False))
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(d_k)), nn.Parameter(torch.ones(d_k))

    @staticmethod
    def norm(x, weight):
        high = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(x.to(high), weight.shape, weight.to(high), 1e-6).to(x.dtype)

    def mask(self, n, device):
        mask = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        if self.window is not None:
            mask = mask.triu(1 - self.window)
        return mask

    def forward(self, x, positions=None):
        b, n, _ = x.shape
        if positions is None:
            positions = torch.arange(n, device=x.device)
        y = self.norm(x, self.norm1)
        q = self.W_q(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        v = self.W_v(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        q = rotary(self.norm(q, self.q_norm), positions, self.theta)
        k = rotary(self.norm(k, self.k_norm), positions, self.theta)
        z = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask(n, x.device), enable_gqa=True
        )
        x = x + nn.functional.dropout(self.W_o(z.transpose(1, 2).flatten(2)), 0.1, self.training)
        y = self.norm(x, self.norm2)
        hidden = nn.functional.silu(self.W_gate(y)) * self.W_up(y)
        return x + self.W_down(hidden)

# %% wrong Block: positions once given are kept, and used by later calls without any
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.positions = None
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.W_q(y).view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_k(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = rotary(self.normed(Q, self.q_norm), positions, self.theta)
        K = rotary(self.normed(K, self.k_norm), positions, self.theta)
        groups = self.num_heads // self.num_kv_heads
        K, V = K.repeat_interleave(groups, dim=1), V.repeat_interleave(groups, dim=1)
        S = Q @ K.transpose(-2, -1) / math.sqrt(self.d_k)
        i = torch.arange(n, device=y.device)
        mask = i[None, :] <= i[:, None]
        if self.window is not None:
            mask = mask & (i[None, :] > i[:, None] - self.window)
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)
        return self.W_o((A @ V).transpose(1, 2).reshape(b, n, self.d_model))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if self.positions is None or positions is not None or len(self.positions) != x.shape[1]:
            self.positions = torch.arange(x.shape[1], device=x.device) if positions is None else positions
        positions = self.positions
        x = x + self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong Block: positions take on the dtype of x, so float16 and bfloat16 round large ones
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        d_k, rest = divmod(d_model, num_heads)
        if rest or num_heads % num_kv_heads or d_k % 2:
            raise ValueError("wrong sizes")
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window = window
        self.theta = theta
        for name, n_in, n_out in [
            ("W_q", d_model, d_model),
            ("W_k", d_model, num_kv_heads * d_k),
            ("W_v", d_model, num_kv_heads * d_k),
            ("W_o", d_model, d_model),
            ("W_gate", d_model, d_ff),
            ("W_up", d_model, d_ff),
            ("W_down", d_ff, d_model),
        ]:
            setattr(self, name, nn.Linear(n_in, n_out, bias=False))
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(d_k)), nn.Parameter(torch.ones(d_k))

    @staticmethod
    def norm(x, weight):
        high = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(x.to(high), weight.shape, weight.to(high), 1e-6).to(x.dtype)

    def mask(self, n, device):
        mask = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        if self.window is not None:
            mask = mask.triu(1 - self.window)
        return mask

    def forward(self, x, positions=None):
        b, n, _ = x.shape
        if positions is None:
            positions = torch.arange(n, device=x.device)
        positions = positions.to(x.dtype)
        y = self.norm(x, self.norm1)
        q = self.W_q(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        v = self.W_v(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        q = rotary(self.norm(q, self.q_norm), positions, self.theta)
        k = rotary(self.norm(k, self.k_norm), positions, self.theta)
        z = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask(n, x.device), enable_gqa=True
        )
        x = x + self.W_o(z.transpose(1, 2).flatten(2))
        y = self.norm(x, self.norm2)
        hidden = nn.functional.silu(self.W_gate(y)) * self.W_up(y)
        return x + self.W_down(hidden)

# %% right Block: nn.functional.scaled_dot_product_attention with enable_gqa and a mask of floats
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        d_k, rest = divmod(d_model, num_heads)
        if rest or num_heads % num_kv_heads or d_k % 2:
            raise ValueError("wrong sizes")
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.window = window
        self.theta = theta
        for name, n_in, n_out in [
            ("W_q", d_model, d_model),
            ("W_k", d_model, num_kv_heads * d_k),
            ("W_v", d_model, num_kv_heads * d_k),
            ("W_o", d_model, d_model),
            ("W_gate", d_model, d_ff),
            ("W_up", d_model, d_ff),
            ("W_down", d_ff, d_model),
        ]:
            setattr(self, name, nn.Linear(n_in, n_out, bias=False))
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(d_k)), nn.Parameter(torch.ones(d_k))

    @staticmethod
    def norm(x, weight):
        high = torch.promote_types(x.dtype, torch.float32)
        return nn.functional.rms_norm(x.to(high), weight.shape, weight.to(high), 1e-6).to(x.dtype)

    def mask(self, n, device):
        above = torch.full((n, n), -torch.inf, device=device).triu(1)
        if self.window is None:
            return above
        return above + torch.full((n, n), -torch.inf, device=device).tril(-self.window)

    def forward(self, x, positions=None):
        b, n, d = x.shape
        if d != self.d_model or (positions is not None and len(positions) != n):
            raise ValueError("x or positions have the wrong size")
        if positions is None:
            positions = torch.arange(n, device=x.device)
        y = self.norm(x, self.norm1)
        q = self.W_q(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k = self.W_k(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        v = self.W_v(y).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        q = rotary(self.norm(q, self.q_norm), positions, self.theta)
        k = rotary(self.norm(k, self.k_norm), positions, self.theta)
        z = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask(n, x.device).to(x.dtype), enable_gqa=True
        )
        x = x + self.W_o(z.transpose(1, 2).flatten(2))
        y = self.norm(x, self.norm2)
        hidden = nn.functional.silu(self.W_gate(y)) * self.W_up(y)
        return x + self.W_down(hidden)

# %% right Block: a loop over heads and tokens, each with a slice of what it sees
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def norm(self, x, weight):
        high = x.dtype if x.dtype == torch.float64 else torch.float32
        y = x.type(high)
        size = (torch.linalg.vecdot(y, y) / y.shape[-1] + 1e-6).sqrt().unsqueeze(-1)
        return (y / size * weight.type(high)).type(x.dtype)

    def forward(self, x, positions=None):
        b, n, d = x.shape
        if d != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.tensor(range(n), device=x.device)
        reach = n if self.window is None else self.window
        y = self.norm(x, self.norm1)
        queries = self.W_q(y).split(self.d_k, dim=-1)
        keys = [rotary(self.norm(k, self.k_norm), positions, self.theta) for k in self.W_k(y).split(self.d_k, dim=-1)]
        values = self.W_v(y).split(self.d_k, dim=-1)
        heads = []
        for head, q in enumerate(queries):
            q = rotary(self.norm(q, self.q_norm), positions, self.theta) * self.d_k**-0.5
            other = head * self.num_kv_heads // self.num_heads
            rows = []
            for i in range(n):
                seen = slice(max(0, i - reach + 1), i + 1)
                a = torch.softmax(torch.einsum("bd,bjd->bj", q[:, i], keys[other][:, seen]), dim=-1)
                rows.append(torch.einsum("bj,bjd->bd", a, values[other][:, seen]))
            heads.append(torch.stack(rows, dim=1))
        x = x + self.W_o(torch.cat(heads, dim=-1))
        y = self.norm(x, self.norm2)
        gate = self.W_gate(y)
        return x + self.W_down(gate * torch.sigmoid(gate) * self.W_up(y))

# %% right Block: complex numbers for the turn, groups as an axis of an einsum, and W_o in parts
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def size_one(self, x, weight):
        double = x.double()
        return (double / (double.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()).to(x.dtype)

    def turn(self, x, positions):
        """x: (b, n, heads, d_k)."""
        speed = self.theta ** (-torch.arange(0, self.d_k, 2, device=x.device).double() / self.d_k)
        angles = torch.outer(positions.double(), speed)[:, None]
        pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)

    def forward(self, x, positions=None):
        b, n, d = x.shape
        positions = torch.arange(n, device=x.device) if positions is None else positions
        if d != self.d_model or positions.shape != (n,):
            raise ValueError("wrong sizes")
        kv, group = self.num_kv_heads, self.num_heads // self.num_kv_heads
        y = self.size_one(x, self.norm1)
        q = self.turn(self.size_one(self.W_q(y).reshape(b, n, -1, self.d_k), self.q_norm), positions)
        k = self.turn(self.size_one(self.W_k(y).reshape(b, n, -1, self.d_k), self.k_norm), positions)
        v = self.W_v(y).reshape(b, n, kv, self.d_k)
        s = torch.einsum("bigrc,bjgc->bgrij", q.reshape(b, n, kv, group, self.d_k), k) / self.d_k**0.5
        i = torch.arange(n, device=x.device)
        back = i.unsqueeze(1) - i
        hidden = (back < 0) | (back >= (self.window or n))
        a = torch.where(hidden, -torch.inf, s).log_softmax(-1).exp()
        z = torch.einsum("bgrij,bjgc->bgric", a, v)
        mixing = self.W_o.weight.reshape(d, kv, group, self.d_k)
        x = x + torch.einsum("bgric,ogrc->bio", z, mixing)
        y = self.size_one(x, self.norm2)
        gate, up = torch.cat([y @ self.W_gate.weight.T, y @ self.W_up.weight.T], -1).tensor_split(2, -1)
        return x + torch.addcmul(torch.zeros_like(gate), torch.nn.functional.silu(gate), up) @ self.W_down.weight.T

# %% right Block: a buffer of heads that is in no state_dict, and only the diagonals in the window
class Block(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads or d_model // num_heads % 2:
            raise ValueError("the heads do not fit")
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.d_k = d_model // num_heads
        heads = torch.arange(num_heads) // (num_heads // num_kv_heads)
        self.register_buffer("key_head", heads, persistent=False)
        self.W_q = nn.Linear(d_model, num_heads * self.d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.W_o = nn.Linear(num_heads * self.d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1 = nn.Parameter(torch.ones(d_model))
        self.norm2 = nn.Parameter(torch.ones(d_model))
        self.q_norm = nn.Parameter(torch.ones(self.d_k))
        self.k_norm = nn.Parameter(torch.ones(self.d_k))

    def normed(self, x, weight):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)

    def attention(self, y, positions):
        b, n, _ = y.shape
        Q = self.W_q(y).view(b, n, self.num_heads, self.d_k).transpose(1, 2)
        K = self.W_k(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        V = self.W_v(y).view(b, n, self.num_kv_heads, self.d_k).transpose(1, 2)
        Q = rotary(self.normed(Q, self.q_norm), positions, self.theta)
        K = rotary(self.normed(K, self.k_norm), positions, self.theta)
        w = min(n, self.window or n)
        pad = (0, 0, w - 1, 0)  # w - 1 empty tokens in front, so that each token has w columns
        K = nn.functional.pad(K, pad)[:, self.key_head].unfold(2, w, 1)  # (b, h, n, d_k, w)
        V = nn.functional.pad(V, pad)[:, self.key_head].unfold(2, w, 1)
        S = (Q[..., None, :] @ K).squeeze(-2) / math.sqrt(self.d_k)  # (b, h, n, w)
        empty = torch.arange(w, device=y.device) + torch.arange(n, device=y.device)[:, None] < w - 1
        A = S.masked_fill(empty, -torch.inf).softmax(-1)
        Z = (V @ A[..., None]).squeeze(-1)  # (b, h, n, d_k)
        return self.W_o(Z.permute(0, 2, 1, 3).flatten(2))

    def forward(self, x, positions=None):
        if x.shape[-1] != self.d_model:
            raise ValueError("x has the wrong width")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        x = x + self.attention(self.normed(x, self.norm1), positions)
        y = self.normed(x, self.norm2)
        return x + self.W_down(nn.functional.silu(self.W_gate(y)) * self.W_up(y))

# %% wrong rms_norm: rows are divided by the mean of their absolute values
def rms_norm(x, weight, eps=1e-6):
    y = x.double() if x.dtype == torch.float64 else x.float()
    return (y / (y.abs().mean(-1, keepdim=True) + eps) * weight.to(y.dtype)).to(x.dtype)

# %% wrong gated_feed_forward: the input is added to the result, as the block will do
def gated_feed_forward(x, W_gate, W_up, W_down):
    gate = x @ W_gate
    return x + (gate * torch.sigmoid(gate) * (x @ W_up)) @ W_down

# %% wrong gated_feed_forward: the gate goes through a squared ReLU
def gated_feed_forward(x, W_gate, W_up, W_down):
    return (torch.relu(x @ W_gate) ** 2 * (x @ W_up)) @ W_down

# %% wrong stretched_frequencies: slow pairs lose only the root of the factor
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    theta = base ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    turns = trained * theta / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return (theta * (kept + (1 - kept) / factor**0.5)).float()

# %% wrong sink_softmax: the sink is added to all scores of its head, which changes nothing
def sink_softmax(S, sink):
    shifted = S + sink[:, None, None]
    largest = shifted.amax(-1, keepdim=True)
    largest = torch.where(torch.isinf(largest), torch.zeros_like(largest), largest)
    weights = (shifted - largest).exp()
    total = weights.sum(-1, keepdim=True)
    return torch.where(total > 0, weights / total, torch.zeros_like(weights))

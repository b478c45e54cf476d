"""Exercise 13 computed in float64, head by head and pair by pair: its checks compare with this. Students get it only
inside the archive."""

import math

import torch

EPS = 1e-6


def normed(x, weight, eps=EPS):
    """Return x (..., d) over the root of its mean square, times weight (d,)."""
    x = x.double()
    square = (x * x).sum(-1, keepdim=True) / x.shape[-1]
    return x * (square + eps) ** -0.5 * weight.double()


def gated(x, W_gate, W_up, W_down):
    """Return the gated feed-forward network of x (..., d), with matrices on the right."""
    x, W_gate, W_up, W_down = (part.double() for part in (x, W_gate, W_up, W_down))
    gate, up = (torch.einsum("...d,de->...e", x, W) for W in (W_gate, W_up))
    return torch.einsum("...e,...e,...e,ed->...d", gate, torch.sigmoid(gate), up, W_down)


def frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    """Return the stretched frequencies (d_k / 2,), pair by pair."""
    stretched = []
    for i in range(d_k // 2):
        theta = math.exp(-2 * i / d_k * math.log(base))
        turns = trained * theta / math.tau
        kept = min(max((turns - low) / (high - low), 0.0), 1.0)
        stretched.append(kept * theta + (1 - kept) * theta / factor)
    return torch.tensor(stretched, dtype=torch.float64)


def with_sink(S, sink):
    """Return the softmax of S (..., h, n_q, n_k) with one more key, whose score is sink (h,), without its weight."""
    S, sink = S.double(), sink.double()
    column = sink[:, None, None].expand(*S.shape[:-1], 1)
    return torch.cat([column, S], -1).softmax(-1)[..., 1:]


def turned(X, positions, theta):
    """Return X (..., n, d), pairs 2i and 2i + 1 turned as (x + iy) e^(it)."""
    half = X.shape[-1] // 2
    slower = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.double()[:, None] * slower
    pairs = torch.view_as_complex(X.unflatten(-1, (half, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def attended(values, h, h_kv, window, theta, x, positions):
    """Return what attention adds to the stream, for a normed x (b, n, d_model), head by head."""
    n, d_k = x.shape[1], values["q_norm"].shape[0]
    i = torch.arange(n)
    seen = (i[:, None] - i >= 0) & (i[:, None] - i < (n if window is None else window))
    added = 0.0
    for head in range(h):
        query = slice(head * d_k, (head + 1) * d_k)
        key = slice(head * h_kv // h * d_k, (head * h_kv // h + 1) * d_k)
        q = turned(normed(x @ values["W_q.weight"][query].T, values["q_norm"]), positions, theta)
        k = turned(normed(x @ values["W_k.weight"][key].T, values["k_norm"]), positions, theta)
        S = torch.einsum("bid,bjd->bij", q, k) * d_k**-0.5
        A = torch.where(seen, S, -torch.inf).softmax(-1)
        added = added + A @ (x @ values["W_v.weight"][key].T) @ values["W_o.weight"][:, query].T
    return added


def block(values, h, h_kv, window, theta, x, positions=None):
    """Return the result of a block with these parameters by name, for x (b, n, d_model)."""
    positions = torch.arange(x.shape[1]) if positions is None else positions
    x = x + attended(values, h, h_kv, window, theta, normed(x, values["norm1"]), positions)
    matrices = (values[f"{name}.weight"].T for name in ("W_gate", "W_up", "W_down"))
    return x + gated(normed(x, values["norm2"]), *matrices)


SPECIFICATIONS = {"rms_norm": normed, "gated_feed_forward": gated, "sink_softmax": with_sink}

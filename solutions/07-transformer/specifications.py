"""Exercise 7 computed by PyTorch's layers or by hand: its checks compare with this. Students get it only inside the
archive."""

import numpy as np
import torch
from torch import nn

PROJECTIONS = ("W_q", "W_k", "W_v")
PARTS = {"EncoderLayer": ("self_attn",), "DecoderLayer": ("self_attn", "multihead_attn")}


def fed(values, x, before=""):
    """Return the output of a feed-forward network with these parameters for x."""
    hidden = x @ values[f"{before}linear1.weight"].T + values[f"{before}linear1.bias"]
    hidden = hidden * torch.special.ndtr(hidden)
    return hidden @ values[f"{before}linear2.weight"].T + values[f"{before}linear2.bias"]


def normed(values, name, x):
    x = x - x.mean(-1, keepdim=True)
    return (
        x * (x.square().mean(-1, keepdim=True) + 1e-5) ** -0.5 * values[f"{name}.weight"]
        + values[f"{name}.bias"]
    )


def attended(values, part, h, query, source, mask):
    """Return the output of multi-head attention with these parameters to `source`."""
    all_projected = []
    for name, X in zip(PROJECTIONS, (query, source, source), strict=True):
        rows, bias = values[f"{part}.{name}.weight"], values[f"{part}.{name}.bias"]
        all_projected.append(
            torch.einsum("bnd,hed->bhne", X, rows.unflatten(0, (h, -1)))
            + bias.unflatten(0, (h, 1, -1))
        )
    q, k, v = all_projected
    if mask is not None:
        mask = mask[:, None] if mask.ndim == 3 else mask
        seen = mask.flatten(0, -2).any(
            0
        )  # the keys that any query sees; in a long sequence, only few
        k, v, mask = k[..., seen, :], v[..., seen, :], mask[..., seen]
    S = torch.einsum("bhie,bhje->bhij", q, k) * q.shape[-1] ** -0.5
    allowed = torch.ones(S.shape, dtype=torch.bool)
    if mask is not None:
        allowed = allowed & mask
    S = torch.where(allowed, S, -torch.inf)
    largest = S.detach().amax(-1, keepdim=True)
    E = torch.where(allowed, torch.exp(S - torch.where(largest > -torch.inf, largest, 0.0)), 0.0)
    total = E.sum(-1, keepdim=True)
    A = E / torch.where(total > 0, total, 1.0)
    mixed = values[f"{part}.W_o.weight"].unflatten(1, (h, -1))  # (d_model, h, d_head)
    return torch.einsum("bhij,bhje,dhe->bid", A, v, mixed) + values[f"{part}.W_o.bias"]


def specified(kind, values, h, *arguments):
    """Return the output of a layer with these parameters; the arguments are those of `forward`."""
    x, memory, *masks = (
        arguments if kind == "DecoderLayer" else (arguments[0], None, *arguments[1:])
    )
    mask, memory_mask = [*masks, None, None][:2]
    normed_x = normed(values, "norm1", x)
    x = x + attended(values, "self_attn", h, normed_x, normed_x, mask)
    last = "norm2"
    if kind == "DecoderLayer":
        x = x + attended(
            values, "multihead_attn", h, normed(values, "norm2", x), memory, memory_mask
        )
        last = "norm3"
    return x + fed(values, normed(values, last, x), "feed_forward.")


def of_torch(kind, values, h, *arguments):
    """Return the output of PyTorch's own layer with these parameters for the same arguments."""
    d_ff, d_model = values["feed_forward.linear1.weight"].shape
    theirs = nn.TransformerEncoderLayer if kind == "EncoderLayer" else nn.TransformerDecoderLayer
    layer = theirs(
        d_model, h, d_ff, 0.0, "gelu", batch_first=True, norm_first=True, dtype=torch.float64
    )
    state = {name.removeprefix("feed_forward."): value for name, value in values.items()}
    for part in PARTS[kind]:
        for suffix in ("weight", "bias"):
            rows = [state.pop(f"{part}.{name}.{suffix}") for name in PROJECTIONS]
            state[f"{part}.in_proj_{suffix}"] = torch.cat(rows)
            state[f"{part}.out_proj.{suffix}"] = state.pop(f"{part}.W_o.{suffix}")
    layer.load_state_dict(state)
    turned = [
        None if argument is None else ~argument if argument.dtype == torch.bool else argument
        for argument in arguments
    ]
    return layer(*turned).detach()  # their masks are True where attention is forbidden


def continued(model, prompt, num_new_tokens):
    """Return the greedy continuation of a prompt, computed sequence by sequence."""
    rows = []
    for row in prompt.tolist():
        for _ in range(num_new_tokens):
            with torch.no_grad():
                row = [
                    *row,
                    int(np.argmax(model(torch.tensor([row[-model.max_len :]]))[0, -1].numpy())),
                ]
        rows.append(row)
    return np.array(rows)

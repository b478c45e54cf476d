"""A multi-head layer for any device and float dtype.

It stores n x n numbers only for a mask: that of the caller or, when several causal tokens follow a
cache, one of its own, (n, n_k).
"""

import torch
from torch import nn
from torch.nn import functional


class MultiHeadLayer(nn.Module):
    """Multi-head self-attention with fused projections, grouped-query heads, masks and a cache.

    Parameters
    ----------
    d_model : int
        The width of tokens and results.
    num_heads : int
        The number of query heads h; d_head is d_model / h.
    num_kv_heads : int, optional
        The number of heads h_kv of keys and values, which divides h: query head i uses head i // (h
        / h_kv). Default: h.
    bias : bool
        Whether the projections have a bias.

    Attributes
    ----------
    W_qkv : nn.Linear
        Its rows are those of W_q, W_k and W_v, in this order, as in the `in_proj_weight` of
        `nn.MultiheadAttention`.
    W_o : nn.Linear
        From d_model to d_model.

    Raises
    ------
    ValueError
        If d_model is no multiple of num_heads, or num_heads none of num_kv_heads.
    """

    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if min(d_model, num_heads, num_kv_heads) < 1 or d_model % num_heads:
            raise ValueError(f"d_model = {d_model} is no multiple of num_heads = {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(
                f"num_heads = {num_heads} is no multiple of num_kv_heads = {num_kv_heads}"
            )
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.d_head = d_model // num_heads
        self.W_qkv = nn.Linear(d_model, (num_heads + 2 * num_kv_heads) * self.d_head, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, mask=None, is_causal=False, cache=None):
        """Let the tokens attend to each other, and to those in the cache.

        Parameters
        ----------
        x : tensor, shape (b, n, d_model)
        mask : tensor of bool, optional
            True where the query may attend to the key: (n, n_k), (b, n or 1, n_k), or four axes
            that fit (b, h, n, n_k), each of the first three in full or 1. A query that may attend
            to nothing gets 0 (before W_o).
        is_causal : bool
            Whether token i sees key j only for j <= i + n_k - n. With a mask, both apply.
        cache : object, optional
            `cache.append(k, v)` takes this call's keys and values, (b, h_kv, n, d_head), and
            returns all so far, n_k of them. Without it, n_k is n.

        Returns
        -------
        tensor, shape (b, n, d_model)

        Raises
        ------
        ValueError or RuntimeError
            If x has another width, or the mask does not fit.
        """
        if x.dim() != 3 or x.shape[2] != self.d_model:
            raise ValueError(f"x is (b, n, {self.d_model}), not {tuple(x.shape)}")
        b, n, _ = x.shape
        # Split before the heads move forward: the gradient is put together in the order that
        # W_qkv's product reads.
        heads = self.W_qkv(x).view(b, n, -1, self.d_head)
        parts = heads.split([self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=2)
        q, k, v = (own.transpose(1, 2) for own in parts)  # (b, heads, n, d_head), not copied
        if cache is not None:
            k, v = cache.append(k, v)
        n_k = k.shape[2]
        is_causal = is_causal and n > 1  # the last token sees everything
        nothing = None
        if mask is not None:
            mask, nothing = _fitting(mask, (b, self.num_heads, n, n_k), is_causal, x.device)
        elif is_causal and n < n_k:  # PyTorch's is_causal counts from the first key
            mask = _causal(n, n_k, x.device)
        group = self.num_heads // self.num_kv_heads
        # each head of keys is a sequence of its own: its queries read it by a stride of 0, uncopied
        if group > 1:
            q = q.reshape(-1, group, n, self.d_head)
            k, v = (
                own.reshape(-1, 1, n_k, self.d_head).expand(-1, group, -1, -1) for own in (k, v)
            )
            if mask is not None and mask.dim() == 4:
                own = self.num_kv_heads if mask.shape[1] == 1 else self.num_heads
                mask = mask.expand(b, own, -1, -1).reshape(len(q), -1, *mask.shape[2:])
        if mask is None:
            z = self.attend(q, k, v, is_causal)
        else:
            z = functional.scaled_dot_product_attention(q, k, v, mask)
        if group > 1:
            z = (
                z.unflatten(0, (b, -1))
                .permute(0, 3, 1, 2, 4)
                .reshape(b, n, self.num_heads, self.d_head)
            )
        else:
            z = z.transpose(1, 2)
        if nothing is not None:
            z = z.masked_fill(nothing.transpose(1, 2), 0)
        return self.W_o(z.reshape(b, n, self.d_model))

    def attend(self, q, k, v, is_causal):
        """Attend without a mask; a subclass may have another kernel do it.

        q, k and v are (b, h, n, d_head), or with grouped heads (b h_kv, h / h_kv, n, d_head).
        Without causality, or for one query, k and v may be longer: n_k.
        """
        return functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def _causal(n, n_k, device):
    """Return which of n_k keys each of the last n tokens sees, (n, n_k)."""
    places = torch.arange(n_k - n, n_k, device=device)
    return torch.arange(n_k, device=device) <= places[:, None]


def _fitting(mask, full, is_causal, device):
    """Return a mask of four axes that fits `full`, (b, h, n, n_k), and which queries may attend to
    nothing.

    In the returned mask, such a query sees everything, and the caller discards its result: no
    backend gets a softmax of nothing.
    """
    if mask.dim() == 3:
        mask = mask[:, None]  # one for each sequence: the axis of the heads comes second
    mask = mask.view((1,) * (4 - mask.dim()) + tuple(mask.shape))
    fits = mask.dim() == 4 and all(
        own in (1, size) for own, size in zip(mask.shape, full, strict=True)
    )
    if mask.dtype != torch.bool or not fits or mask.shape[3] != full[3]:
        raise ValueError(
            f"a boolean mask that fits {full}, not one of {mask.dtype}, {tuple(mask.shape)}"
        )
    if is_causal:
        mask = mask & _causal(*full[2:], device)
    nothing = ~mask.any(-1, keepdim=True)
    return mask | nothing, nothing

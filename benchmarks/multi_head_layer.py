"""A multi-head layer for any device and float dtype, which never holds n x n unless it is given a mask."""

import torch
from torch import nn
from torch.nn import functional

CHUNK = 256  # queries at a time, where causal attention meets a cache


class MultiHeadLayer(nn.Module):
    """Multi-head self-attention with fused projections, grouped-query heads, masks and a cache.

    Parameters
    ----------
    d_model : int
        The width of tokens and results.
    num_heads : int
        The number of query heads h; d_head is d_model / h.
    num_kv_heads : int, optional
        The number of heads h_kv of keys and values, which divides h: query head i uses head i // (h / h_kv). Default:
        h.
    bias : bool
        Whether the projections have a bias.

    Attributes
    ----------
    W_qkv : nn.Linear
        Its rows are those of W_q, W_k and W_v, in this order, as in the `in_proj_weight` of `nn.MultiheadAttention`.
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
            raise ValueError(f"num_heads = {num_heads} is no multiple of num_kv_heads = {num_kv_heads}")
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
            True where the query may attend to the key: (n, n_k), (b, n or 1, n_k), or four axes that fit
            (b, h, n, n_k), each of the first three in full or 1. A query that may attend to nothing gets 0 (before
            W_o).
        is_causal : bool
            Whether token i sees key j only for j <= i + n_k - n. With a mask, both hold.
        cache : object, optional
            `cache.append(k, v)` takes this call's keys and values, (b, h_kv, n, d_head), and returns all so far, n_k
            of them. Without it, n_k is n.

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
        heads = self.W_qkv(x).view(b, n, -1, self.d_head).transpose(1, 2)  # (b, h + 2 h_kv, n, d_head), not copied
        q, k, v = heads.split([self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
        if cache is not None:
            k, v = cache.append(k, v)
        if self.num_kv_heads < self.num_heads:
            group = self.num_heads // self.num_kv_heads
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        z = self.attend(q, k, v, is_causal) if mask is None else _masked(q, k, v, mask, is_causal)
        return self.W_o(z.transpose(1, 2).reshape(b, n, self.d_model))

    def attend(self, q, k, v, is_causal):
        """Attend without a mask; a subclass may have another kernel do it.

        q is (b, h, n, d_head), k and v are (b, h, n_k, d_head); the result is (b, h, n, d_head).
        """
        n, n_k = q.shape[2], k.shape[2]
        if not is_causal or n == 1:  # the last token sees everything
            return functional.scaled_dot_product_attention(q, k, v)
        if n == n_k:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        # PyTorch's is_causal means j <= i: with a cache, each chunk of queries gets a mask of its own instead.
        chunks = q.split(CHUNK, dim=2)
        starts = range(n_k - n, n_k, CHUNK)
        places = zip(chunks, starts, strict=True)
        return torch.cat([_masked(own, k, v, _causal(own, start, n_k), False) for own, start in places], dim=2)


def _causal(q, start, n_k):
    """Return the mask (n, n_k) of queries whose first one stands at the place `start` among the keys."""
    places = torch.arange(start, start + q.shape[2], device=q.device)
    return torch.arange(n_k, device=q.device) <= places[:, None]


def _masked(q, k, v, mask, is_causal):
    """Attend where the mask and, if so, causality allow; a query that may attend to nothing gets 0."""
    (b, h, n, _), n_k = q.shape, k.shape[2]
    if mask.dim() == 3:
        mask = mask[:, None]  # one for each sequence: the axis of the heads comes second
    mask = mask.view((1,) * (4 - mask.dim()) + tuple(mask.shape))
    full = (b, h, n, n_k)
    fits = mask.dim() == 4 and all(own in (1, size) for own, size in zip(mask.shape, full, strict=True))
    if mask.dtype != torch.bool or not fits or mask.shape[3] != n_k:
        raise ValueError(f"a boolean mask that fits {full}, not one of {mask.dtype}, {tuple(mask.shape)}")
    if is_causal:
        mask = mask & _causal(q, n_k - n, n_k)
    nothing = ~mask.any(-1, keepdim=True)
    # Such a query sees everything, and its result is thrown away: no backend meets a softmax of nothing.
    z = functional.scaled_dot_product_attention(q, k, v, (mask | nothing).expand(b, h, n, n_k))
    return z.masked_fill(nothing, 0)

# %% title [markdown]
# # 6. Many heads
#
# You write multi-head attention twice: as a list of heads, `MultiHeadAttentionLoop`, and as one batched tensor,
# `MultiHeadAttention`, with `split_heads` and `merge_heads`. Then you copy parameters: `fuse` turns the first class
# into the second, and `from_torch` turns PyTorch's own layer into yours. From here on you use PyTorch: tensors,
# modules, gradients. Read chapter 6 of the book first; it shows splitting and merging as boxes, and a reshape that
# looks right but is wrong.
#
# *About 135 minutes · hard ●●●*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your
# code, run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every
# time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("split_heads", points=2, seed=...)` in a cell of your own. You can earn partial points, and the checks
# are readable: open `checks.py` next to this notebook. Later classes may use earlier functions, so fix errors from
# the top. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `06-multi-head.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import math

import torch
from torch import nn


def masked_softmax(S, mask=None):
    """Return the softmax over the keys that may be attended to, and weight 0 for the others (given; see exercise 5).

    Parameters
    ----------
    S : tensor, shape (..., n_q, n_k)
        Scores.
    mask : tensor of bool, optional
        True where the query may attend to the key. It broadcasts to `S`, starting at the last axis, n_k. None means no mask.

    Returns
    -------
    tensor, shape (..., n_q, n_k)
        Weights in the dtype of `S`. Each row sums to 1, or is all 0 if it is fully masked.

    Raises
    ------
    ValueError, RuntimeError
        If the mask does not match the scores, which are never stretched to it.
    """
    if mask is None:
        return S.softmax(-1)
    if mask.shape[-1] != S.shape[-1]:
        raise ValueError(f"the mask is for {mask.shape[-1]} keys, and there are {S.shape[-1]}")
    mask = mask.broadcast_to(S.shape)
    nothing = ~mask.any(-1, keepdim=True)
    return S.masked_fill(~mask, -torch.inf).masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)

# %% ask_by_hand [markdown]
# ## With a pencil: the output of two heads
#
# *About 10 minutes · medium ●●○*
#
# One query attends to two keys, with $d_\text{model} = 4$ and two heads. Its scores, already divided by
# $\sqrt{d_\text{head}}$, are $(\ln 3, 0)$ in head 1 and $(0, \ln 3)$ in head 2. Head 1 has the first two columns of
# the values, and head 2 has the last two:
#
# $$
# V = \left(\begin{array}{rr|rr} 4 & 0 & 0 & 8 \\ 0 & 4 & 8 & 0 \end{array}\right) \qquad
# W_o = \begin{pmatrix} 1 & 0 & 1 & 0 \\ 0 & 1 & 0 & 1 \\ 2 & 0 & 0 & 0 \\ 0 & 2 & 0 & 0 \end{pmatrix}
# $$
#
# **Find the output**, four numbers. Compute the weights of each head ($e^{\ln 3} = 3$), the result of each head, their
# concatenation, and this row times $W_o$.

# %% by_hand
def by_hand():
    """Return the output of multi-head attention for this query, computed by hand.

    Returns
    -------
    list of 4 numbers
        A tuple, an array or a tensor also works.
    """
    ### BEGIN SOLUTION
    return [15, 5, 3, 1]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Eight rules for this notebook
#
# - b is the number of sequences, n (n_q, n_k) the number of tokens, h = `num_heads` the number of heads, and
#   d_head = d_model / h the width of a head. Everything is batched, always with three axes (b, n, d_model). The chapter's
#   code is for one sentence, without b. Heads are counted from 0, as in Python; the chapter's text counts from 1.
# - A mask is a boolean tensor, and True means "may attend". It has the shape (n_q, n_k); or (b, n_q, n_k) or (b, 1,
#   n_k), one mask per sequence; or (b, h, n_q, n_k), where any of the first three sizes may be 1 instead. Two cases
#   are not tested: a mask (1, n_k), and a mask with three axes whose first size is 1 although b is larger.
# - A *fully masked* query, which may attend to no key, gets zero weights, so its weighted sum is 0; `W_o` and its
#   bias are applied after that.
# - A mask for other numbers of queries or keys, and a width that `split_heads` cannot divide, raise `ValueError`,
#   `RuntimeError` or `IndexError`, as PyTorch itself does. Advice, worth no points: also raise one of these for other
#   size mismatches, which each class lists under *Raises*, and do not stretch a size of 1 to match another. Batches
#   of different sizes are not tested.
# - All inputs and parameters have the same floating-point dtype, and the results also have it. Integers are not
#   tested.
# - Gradients flow from both results, weights and output, to every input and every parameter: use no `detach`, no `.data`
#   and no NumPy.
# - A layer takes its arguments by position or by name, `layer(x, mask=mask)`, in any combination. It keeps nothing from
#   one call to the next.
# - Do not change the inputs. Do not change a module that is passed to a function: its parameters, their
#   `requires_grad`, its mode, its hooks and its attributes stay the same. There is no dropout, even in training mode.

# %% ask_split_heads [markdown]
# ## 6.1 `split_heads`: one tensor, many heads
#
# *About 10 minutes · medium ●●○*
#
# The d columns are split into blocks: head i gets columns i d/h to (i+1) d/h - 1 of every token. Then the head axis
# moves in front of the token axis, so that each head has a whole sequence, (n, d/h). Everything that attention does on
# the last two axes is then done for each head.
#
# By hand, with b = 1, n = 2, d = 4, h = 2:
#
# $$
# \begin{pmatrix} 1 & 2 & 3 & 4 \\ 5 & 6 & 7 & 8 \end{pmatrix} \to
# \text{head 0: } \begin{pmatrix} 1 & 2 \\ 5 & 6 \end{pmatrix}, \quad
# \text{head 1: } \begin{pmatrix} 3 & 4 \\ 7 & 8 \end{pmatrix}
# $$
#
# A single reshape to (b, h, n, d/h) has the right shape but the wrong numbers: here, its head 0 would contain all of
# token 0.
#
# The result may be a view of `X` or a copy of it.

# %% split_heads
def split_heads(X, num_heads):
    """Split the columns of each token among the heads.

    Parameters
    ----------
    X : tensor, shape (b, n, d)
    num_heads : int
        The number of heads h, at least 1.

    Returns
    -------
    tensor, shape (b, h, n, d / h)
        Head i is columns i * d / h to (i + 1) * d / h - 1 of `X`.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        If d is not a multiple of `num_heads`.
    """
    ### BEGIN SOLUTION
    b, n, d = X.shape
    return X.view(b, n, num_heads, d // num_heads).transpose(1, 2)  # (b, n, h, d/h) -> (b, h, n, d/h)
    ### END SOLUTION

# %%
# For your own experiments. Write the function, then take the # away.
# split_heads(torch.arange(1.0, 9).reshape(1, 2, 4), 2)

# %% check_split_heads
import checks

checks.run("split_heads", points=2)

# %% ask_merge_heads [markdown]
# ## 6.2 `merge_heads`: the way back
#
# *About 5 minutes · easy ●○○*
#
# This is the inverse: the heads' results for a token are concatenated again, head 0 first. `merge_heads(split_heads(X, h))`
# is `X`. The result may be a view of `X` or a copy of it.
#
# By hand, the two heads of 6.1 give the matrix of 6.1: token 0 is $(1, 2)$ from head 0 and $(3, 4)$ from head 1, so
# $(1, 2, 3, 4)$.

# %% merge_heads
def merge_heads(X):
    """Concatenate the results of all heads for each token.

    Parameters
    ----------
    X : tensor, shape (b, h, n, d_head)

    Returns
    -------
    tensor, shape (b, n, h * d_head)
        Columns i * d_head to (i + 1) * d_head - 1 come from head i.
    """
    ### BEGIN SOLUTION
    b, h, n, d_head = X.shape
    return X.transpose(1, 2).reshape(b, n, h * d_head)  # (b, n, h, d_head) -> (b, n, h * d_head)
    ### END SOLUTION

# %%
# For your own experiments.
# merge_heads(torch.tensor([[[[1.0, 2], [5, 6]], [[3, 4], [7, 8]]]]))

# %% check_merge_heads
import checks

checks.run("merge_heads", points=2)

# %% ask_MultiHeadAttentionLoop [markdown]
# ## 6.3 `MultiHeadAttentionLoop`: a list of heads
#
# *About 35 minutes · hard ●●●*
#
# This is the first way to build many heads: h single heads, each with its own projections from d_model to d_head =
# d_model / h. Every head does all of attention by itself, $A_i = \text{softmax}(q_i k_i^\top / \sqrt{d_\text{head}})$
# and $z_i = A_i v_i$. The results are concatenated, head 0 first, and `W_o` mixes them:
# $(z_0 \mid \dots \mid z_{h-1})$ times the transpose of `W_o.weight`, plus its bias.
#
# Names matter, because weights are saved and loaded by name: `heads` is an `nn.ModuleList`, and each entry has `W_q`,
# `W_k` and `W_v`, three `nn.Linear`; `W_o` is one `nn.Linear` from d_model to d_model. With `bias=False` none of them has a
# bias. So the `state_dict` has `heads.0.W_q.weight` of shape (d_head, d_model), and so on. For one head, write a small class
# in the same cell, or use an `nn.ModuleDict`. Keep the default initialization of `nn.Linear`.
#
# A single head has scores (b, n_q, n_k). It gets its own part of a mask with four axes: entry i of the second axis, or the
# only entry if that axis is 1. (A mask with more entries than heads does not match. Advice, worth no points: raise an
# error.)
#
# By hand, with d_model = 2 and h = 2, so d_head = 1, without biases: head i reads only column i of queries, keys and
# values. The query $(\ln 3, \ln 3)$ is compared with the keys $(1, 0)$ and $(0, 1)$; the values are $(4, 0)$ and
# $(8, 12)$. Head 0 has the scores $(\ln 3, 0)$, the weights $(3/4, 1/4)$ and the result
# $3/4 \cdot 4 + 1/4 \cdot 8 = 5$. Head 1 has the scores $(0, \ln 3)$, the weights $(1/4, 3/4)$ and the result
# $1/4 \cdot 0 + 3/4 \cdot 12 = 9$. One query reads two places and gets two messages: $(5, 9)$. If the rows of
# `W_o.weight` are $(1, 1)$ and $(1, -1)$, the output is $(14, -4)$.

# %% MultiHeadAttentionLoop
class MultiHeadAttentionLoop(nn.Module):
    """Multi-head attention as a list of single heads.

    Parameters
    ----------
    d_model : int
        The width of queries, keys, values and results.
    num_heads : int
        The number of heads h, at least 1.
    bias : bool
        Whether the projections and `W_o` have a bias.

    Attributes
    ----------
    d_model, num_heads : int
    heads : nn.ModuleList
        The h heads. Each has `W_q`, `W_k`, `W_v`: nn.Linear from d_model to d_model / h.
    W_o : nn.Linear
        From d_model to d_model.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if d_model is not a multiple of num_heads.
    """

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"d_model = {d_model} is no multiple of num_heads = {num_heads}")
        self.d_model, self.num_heads = d_model, num_heads
        names, d_head = ("W_q", "W_k", "W_v"), d_model // num_heads
        self.heads = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(d_model, d_head, bias=bias) for name in names}) for _ in range(num_heads)
        )
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, query, key=None, value=None, mask=None):
        """Attend with every head, and mix the results.

        Parameters
        ----------
        query : tensor, shape (b, n_q, d_model)
        key : tensor, shape (b, n_k, d_model), optional
            Default: `query`, which makes it self-attention.
        value : tensor, shape (b, n_k, d_model), optional
            Default: `key`.
        mask : tensor of bool, optional
            True where the query may attend to the key; the rules above list its shapes. None means no mask.

        Returns
        -------
        out : tensor, shape (b, n_q, d_model)
        weights : tensor, shape (b, h, n_q, n_k)
            The weights of each head. Return both in a tuple, in this order.

        Raises
        ------
        ValueError, RuntimeError or IndexError
            If the mask is for other numbers of queries or keys. Advice, worth no points: if the last size of query, key or
            value is not d_model, if the numbers of keys and values differ, or if a size of 1 would have to be stretched.
        """
        ### BEGIN SOLUTION
        key = query if key is None else key
        value = key if value is None else value
        masks = [None] * self.num_heads
        if mask is not None:  # one for each head, each of which has scores (b, n_q, n_k)
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask.expand(*[1] * (4 - mask.dim()), *mask.shape)
            masks = mask.expand(-1, self.num_heads, -1, -1).unbind(1)
        results, weights = [], []
        for head, head_mask in zip(self.heads, masks, strict=True):
            q, k, v = head["W_q"](query), head["W_k"](key), head["W_v"](value)  # (b, n_q or n_k, d_head)
            A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), head_mask)  # (b, n_q, n_k)
            results.append(A @ v)
            weights.append(A)
        out = self.W_o(torch.cat(results, dim=-1))  # h times (b, n_q, d_head) -> (b, n_q, d_model)
        return out, torch.stack(weights, dim=1)
        ### END SOLUTION

# %%
# For your own experiments.
# MultiHeadAttentionLoop(6, 2)
# MultiHeadAttentionLoop(6, 2)(torch.randn(1, 4, 6))

# %% check_MultiHeadAttentionLoop
import checks

checks.run("MultiHeadAttentionLoop", points=5)

# %% ask_MultiHeadAttention [markdown]
# ## 6.4 `MultiHeadAttention`: one batched tensor
#
# *About 30 minutes · hard ●●●*
#
# This is the second way, which libraries use: the projections of all heads are stacked in one matrix, so that `W_q`, `W_k`
# and `W_v` are each one `nn.Linear` from d_model to d_model. Project once, `split_heads`, attend on the last two axes of
# (b, h, n, d_head) for all heads at once, `merge_heads`, `W_o`. There is no loop over heads.
#
# A mask with three axes has one matrix per sequence, but the scores have four axes: (b, h, n_q, n_k). Broadcasting starts
# at the last axis, so the mask's b would be matched with h. If b = h, there is not even an error.
#
# By hand, the example of 6.3 also gives $(14, -4)$ here, if `W_q`, `W_k` and `W_v` are the identity. The scores are divided
# by $\sqrt{d_\text{head}}$, since each is a sum of $d_\text{head}$ products: for d_model = 8 and h = 2 that is 2, not
# $\sqrt 8$.
#
# With biases, both classes have 4 d_model (d_model + 1) parameters for any number of heads.

# %% MultiHeadAttention
class MultiHeadAttention(nn.Module):
    """Multi-head attention, all heads in one tensor.

    Parameters
    ----------
    d_model : int
        The width of queries, keys, values and results.
    num_heads : int
        The number of heads h, at least 1.
    bias : bool
        Whether the four projections have a bias.

    Attributes
    ----------
    d_model, num_heads : int
    W_q, W_k, W_v, W_o : nn.Linear
        From d_model to d_model. Head i is rows i * d_head to (i + 1) * d_head - 1 of the first three weights.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if d_model is not a multiple of num_heads.
    """

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % num_heads:
            raise ValueError(f"d_model = {d_model} is no multiple of num_heads = {num_heads}")
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, query, key=None, value=None, mask=None):
        """Attend with all heads at once, and mix the results.

        Parameters
        ----------
        query : tensor, shape (b, n_q, d_model)
        key : tensor, shape (b, n_k, d_model), optional
            Default: `query`, which makes it self-attention.
        value : tensor, shape (b, n_k, d_model), optional
            Default: `key`.
        mask : tensor of bool, optional
            True where the query may attend to the key; the rules above list its shapes. None means no mask.

        Returns
        -------
        out : tensor, shape (b, n_q, d_model)
        weights : tensor, shape (b, h, n_q, n_k)
            The weights of each head. Return both in a tuple, in this order.

        Raises
        ------
        ValueError, RuntimeError or IndexError
            If the mask is for other numbers of queries or keys. Advice, worth no points: if the last size of query, key or
            value is not d_model, if the numbers of keys and values differ, or if a size of 1 would have to be stretched.
        """
        ### BEGIN SOLUTION
        key = query if key is None else key
        value = key if value is None else value
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)  # one for each sequence, the same for all heads: (b, 1, n_q or 1, n_k)
        q = split_heads(self.W_q(query), self.num_heads)  # (b, h, n_q, d_head)
        k = split_heads(self.W_k(key), self.num_heads)  # (b, h, n_k, d_head)
        v = split_heads(self.W_v(value), self.num_heads)  # (b, h, n_k, d_head)
        S = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (b, h, n_q, n_k)
        A = masked_softmax(S, mask)
        return self.W_o(merge_heads(A @ v)), A
        ### END SOLUTION

# %%
# For your own experiments.
# layer = MultiHeadAttention(2, 2, bias=False)
# print(layer.state_dict().keys())

# %% check_MultiHeadAttention
import checks

checks.run("MultiHeadAttention", points=6)

# %% ask_fuse [markdown]
# ## 6.5 `fuse`: the same layer, written the other way
#
# *About 25 minutes · medium ●●○*
#
# The two classes compute the same function, and `fuse` proves it: it copies the parameters of a list of heads into
# one `MultiHeadAttention` with the same outputs, the same attention weights, and corresponding gradients.
#
# `nn.Linear` computes $x W^\top + b$: each *row* of its weight gives one column of the result. Head i's columns come from
# head i's rows.
#
# By hand, with d_model = 2 and h = 2: the weights `W_q` of the two heads are $(1, 2)$ and $(3, 4)$, each of shape (1, 2).
# The fused weight is $\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}$. Biases $(5)$ and $(6)$ become $(5, 6)$. `W_o` is
# copied unchanged.
#
# The new layer has **its own** parameters, of the same dtype: training one of the two layers later does not change
# the other. It may be in training or evaluation mode. Use only `heads`, `W_o`, `d_model` and `num_heads` of `loop`:
# the checks call `fuse` with a module that has these but may not be an object of your class.

# %% fuse
def fuse(loop):
    """Return the `MultiHeadAttention` that gives the same outputs as a list of heads.

    Parameters
    ----------
    loop : MultiHeadAttentionLoop
        With or without biases. Do not change it, its mode or its attributes.

    Returns
    -------
    MultiHeadAttention
        With its own parameters, in the dtype of the parameters of `loop`.
    """
    ### BEGIN SOLUTION
    bias = loop.W_o.bias is not None
    fused = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias).to(loop.W_o.weight.dtype)
    with torch.no_grad():
        for name in ("W_q", "W_k", "W_v"):
            parts = [getattr(head, name) for head in loop.heads]
            fused_linear = getattr(fused, name)
            fused_linear.weight.copy_(torch.cat([part.weight for part in parts]))  # h times (d_head, d_model)
            if bias:
                fused_linear.bias.copy_(torch.cat([part.bias for part in parts]))
        fused.W_o.load_state_dict(loop.W_o.state_dict())
    return fused
    ### END SOLUTION

# %%
# For your own experiments.
# loop, x = MultiHeadAttentionLoop(6, 3), torch.randn(2, 4, 6)
# (fuse(loop)(x)[0] - loop(x)[0]).abs().max()

# %% check_fuse
import checks

checks.run("fuse", points=3)

# %% ask_from_torch [markdown]
# ## 6.6 `from_torch`: PyTorch's layer, moved into yours
#
# *About 15 minutes · medium ●●○*
#
# `nn.MultiheadAttention` keeps the three projections in one parameter, `in_proj_weight` of shape (3 d_model,
# d_model): first the rows that project the queries, then those for the keys, then those for the values.
# `in_proj_bias` of shape (3 d_model,) has the same order. `out_proj` is `W_o`. With `bias=False` there are no biases:
# `in_proj_bias` and `out_proj.bias` are None.
#
# By hand, with d_model = 2 and one head:
#
# $$
# \begin{pmatrix} 1 & 2 \\ 3 & 4 \\ 5 & 6 \\ 7 & 8 \\ 9 & 10 \\ 11 & 12 \end{pmatrix} \to
# W_q = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}, \quad
# W_k = \begin{pmatrix} 5 & 6 \\ 7 & 8 \end{pmatrix}, \quad
# W_v = \begin{pmatrix} 9 & 10 \\ 11 & 12 \end{pmatrix}
# $$
#
# Four things are not copied. With `batch_first=False`, the default, PyTorch's layer takes (n, b, d_model); yours
# always takes (b, n, d_model). By default PyTorch's layer averages the weights over the heads; yours returns the
# weights of each head. PyTorch's boolean masks mean the opposite of yours, which stay as in 6.4. And your layer has
# no dropout.
#
# As in 6.5, the new layer has **its own** parameters, of the same dtype, and may be in training or evaluation mode.

# %% from_torch
def from_torch(module):
    """Return a `MultiHeadAttention` that computes the same as PyTorch's layer.

    Parameters
    ----------
    module : nn.MultiheadAttention
        With `embed_dim` and `num_heads`, with or without biases, with either `batch_first`; `kdim` and `vdim` equal
        `embed_dim`, and neither `add_bias_kv` nor `add_zero_attn` is set. Do not change it, its `batch_first`,
        `dropout` or mode.

    Returns
    -------
    MultiHeadAttention
        With its own parameters, in the dtype of the parameters of `module`. It takes and returns tensors with the batch
        first: (b, n, d_model).
    """
    ### BEGIN SOLUTION
    bias = module.in_proj_bias is not None
    copy = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias).to(module.in_proj_weight.dtype)
    parts = [copy.W_q, copy.W_k, copy.W_v]
    with torch.no_grad():
        for part, weight in zip(parts, module.in_proj_weight.chunk(3), strict=True):
            part.weight.copy_(weight)
        if bias:
            for part, its_bias in zip(parts, module.in_proj_bias.chunk(3), strict=True):
                part.bias.copy_(its_bias)
        copy.W_o.load_state_dict(module.out_proj.state_dict())
    return copy
    ### END SOLUTION

# %%
# For your own experiments.
# theirs, x = nn.MultiheadAttention(6, 3, batch_first=True), torch.randn(2, 4, 6)
# (from_torch(theirs)(x)[0] - theirs(x, x, x)[0]).abs().max()

# %% check_from_torch
import checks

checks.run("from_torch", points=2)

# %% two_messages [markdown]
# ## One sentence, two messages
#
# There is no training here: the weights are set by hand, so that you know the purpose of each head. A token encodes
# its position (one of six) and its word (one of five). Head 0 compares positions and looks one to the left; head 1
# compares words and looks at all places with the same word. Head 0 passes on the word that it finds, and head 1
# passes on the position. A single softmax row would have to divide its weight between the two and would pass on a
# mixture. (The first token has no left neighbor: its query in head 0 is 0, and its weights are equal.)
#
# The layer is built as a list of heads, then fused by your function.

# %% demo_two_messages
import matplotlib.pyplot as plt

sentence = "the cat saw the big dog".split()
vocabulary = sorted(set(sentence))
n, d_head = len(sentence), 6
places, words_of = torch.eye(n), torch.zeros(n, d_head)
words_of[range(n), [vocabulary.index(word) for word in sentence]] = 1
tokens = torch.cat([places, words_of], dim=-1)[None]  # (1, n, 12): where, and what

sharp = 8 * math.sqrt(d_head)  # makes softmax choose
only_places, only_words = torch.eye(2 * d_head)[:d_head], torch.eye(2 * d_head)[d_head:]  # each (6, 12)
one_to_the_left = torch.diag(torch.ones(d_head - 1), 1)  # turns place i into place i - 1
loop = MultiHeadAttentionLoop(2 * d_head, 2, bias=False)
loop.load_state_dict(
    {
        "heads.0.W_q.weight": sharp * one_to_the_left @ only_places,
        "heads.0.W_k.weight": only_places,
        "heads.0.W_v.weight": only_words,
        "heads.1.W_q.weight": sharp * only_words,
        "heads.1.W_k.weight": only_words,
        "heads.1.W_v.weight": only_places,
        "W_o.weight": torch.eye(2 * d_head),
    }
)
out, weights = fuse(loop)(tokens)
print(f"largest difference between the two ways: {(out - loop(tokens)[0]).abs().max():.1g}")

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for head, title in enumerate(["head 0: one to the left", "head 1: the same word"]):
    picture = axes[head].imshow(weights[0, head].detach(), cmap="cividis", vmin=0, vmax=1)
    axes[head].set_xticks(range(n), sentence, rotation=60)
    axes[head].set_yticks(range(n), sentence)
    axes[head].set_title(title)
figure.supxlabel("looks at")
figure.supylabel("word that asks")
colours = figure.colorbar(picture, ax=axes, label="weight", shrink=0.8)

# %% theirs [markdown]
# ## Your layer and PyTorch's
#
# Both layers have the same weights and compute the same numbers; only the conventions differ. Note what PyTorch's layer
# needs: an inverted mask, and no average over the heads.

# %% demo_theirs
theirs = nn.MultiheadAttention(12, 3, batch_first=True)
x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(6))
causal = torch.ones(5, 5, dtype=torch.bool).tril()  # True: may attend
out, weights = from_torch(theirs)(x, mask=causal)
their_out, their_weights = theirs(x, x, x, attn_mask=~causal, average_attn_weights=False)
print(f"outputs differ by {(out - their_out).abs().max():.1g}, weights by {(weights - their_weights).abs().max():.1g}")
_, averaged = theirs(x, x, x, attn_mask=~causal)
print(f"shapes of the weights: yours {tuple(weights.shape)}, theirs by default {tuple(averaged.shape)}")

# %% think [markdown]
# ## To think about: does the order of the heads matter?
#
# *About 5 minutes · medium ●●○*
#
# Someone swaps heads 0 and 1 of a trained layer: their rows of `W_q`, `W_k` and `W_v`, and their biases. The outputs
# change. What else has to be swapped to restore the old outputs? If your layer has h heads, how many layers that look
# different compute the same function? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# The columns of `W_o.weight` that read these heads, d_head each, must be swapped: column block 0 mixes the result of head 0
# and has to move with it. Then only the order of a sum has changed, $\sum_i z_i W_i^\top$, where $W_i$ is column block i of
# `W_o.weight`. The bias of `W_o` stays. There are h! orders of the heads, so at least h! layers compute the same function.
# (In fact there are infinitely many: rotate the queries and keys of a head by the same rotation, and no score changes.)
# "Head 3" means nothing by itself: training the same model twice may give the same heads in a different order.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: the way back, `unfuse`
#
# *About 30 minutes · hard ●●●*
#
# Write `unfuse(layer)`, which returns the `MultiHeadAttentionLoop` that is equivalent to a `MultiHeadAttention`, and test
# that `fuse(unfuse(layer))` has the parameters of `layer`. Then do one training step with each, from the same weights, the
# same input and the same loss, with `torch.optim.SGD`: are their outputs still equal? And with `torch.optim.Adam`? Explain
# what you see: what does each optimizer know about a parameter, and does it matter which tensor a number is in? This task
# has no points and no check.

# %%
# Yours: the stretch task, or anything else.

# %% title [markdown]
# # 6. Many heads
#
# You write multi-head attention twice: as a list of heads, `MultiHeadAttentionLoop`, and as one batched tensor,
# `MultiHeadAttention`, with `split_heads` and `merge_heads`. Then you move weights: `fuse` turns the first into the
# second, and `from_torch` turns PyTorch's own layer into yours. From here on it is PyTorch: tensors, modules,
# gradients. Read chapter 6 of the book first; it shows the split and the merge as boxes, and the reshape that looks
# right and is wrong.
#
# *About 135 minutes · hard ●●●*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your
# code, run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every
# time.
#
# **How to read the feedback.** Each check is one sentence about your function: *passed*, *failed*, or *waits* (a check
# that it builds on has not passed yet). A failed check says what passed, what failed, and where. When it recognizes the
# mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("split_heads", points=2, seed=...)` in a cell of your own. You can earn partial points, and the checks are
# readable: open `checks.py` next to this notebook. Later classes may use earlier functions, so fix errors from the top.
# *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ takes a line or two, medium ●●○ a thought, and hard ●●● a
# sheet of paper. Three kinds of questions are not graded: a question for a pencil, whose numbers are checked, a
# question to think about, and a stretch task, which is not counted in the time above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `06-multi-head.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import math

import torch
from torch import nn


def masked_softmax(S, mask=None):
    """Softmax over the keys that may be attended to, weight 0 for the others (given; exercise 5 is about it).

    Parameters
    ----------
    S : tensor, shape (..., n_q, n_k)
        Scores.
    mask : tensor of bool, optional
        True where the query may attend to the key. It broadcasts to `S`, as shapes do: from the last axis on, which is n_k. None: everywhere.

    Returns
    -------
    tensor, shape (..., n_q, n_k)
        Weights of the dtype of `S`. Each row sums to 1, or is all 0 where the mask leaves nothing.

    Raises
    ------
    ValueError, RuntimeError
        If the mask does not fit the scores, which are never stretched to it.
    """
    if mask is None:
        return S.softmax(-1)
    if mask.shape[-1] != S.shape[-1]:
        raise ValueError(f"the mask is for {mask.shape[-1]} keys, and there are {S.shape[-1]}")
    mask = mask.broadcast_to(S.shape)
    nothing = ~mask.any(-1, keepdim=True)
    return S.masked_fill(~mask, -torch.inf).masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)

# %% ask_by_hand [markdown]
# ## With a pencil: two heads and what they bring back
#
# *About 10 minutes · medium ●●○*
#
# One query meets two keys, with $d_\text{model} = 4$ and two heads. Its scores, divided by $\sqrt{d_\text{head}}$ already, are
# $(\ln 3, 0)$ in head 1 and $(0, \ln 3)$ in head 2. Head 1 has the first two columns of the values, head 2 the last two:
#
# $$
# V = \left(\begin{array}{rr|rr} 4 & 0 & 0 & 8 \\ 0 & 4 & 8 & 0 \end{array}\right) \qquad
# W_o = \begin{pmatrix} 1 & 0 & 1 & 0 \\ 0 & 1 & 0 & 1 \\ 2 & 0 & 0 & 0 \\ 0 & 2 & 0 & 0 \end{pmatrix}
# $$
#
# **Find the output**, four numbers: the weights of each head ($e^{\ln 3} = 3$), what each head brings back, both side by side,
# and this row times $W_o$.

# %% by_hand
def by_hand():
    """Return the output of multi-head attention for this query, worked out with a pencil.

    Returns
    -------
    list of 4 numbers
        A tuple, an array or a tensor will do as well.
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
#   d_head = d_model / h the width of one. Everything comes in batches: three axes (b, n, d_model), always. The chapter's
#   code is for one sentence, without b. Heads are counted from 0, as Python does; the chapter's text counts from 1.
# - A mask is a boolean tensor, and True means "may attend". It has the shape (n_q, n_k); or (b, n_q, n_k) or
#   (b, 1, n_k), one for each sequence; or four axes that fit (b, h, n_q, n_k), each of the first three in full or 1.
#   Not asked about: two axes (1, n_k), and three of which the first is 1 while b is not.
# - A query that may attend to nothing gets weights 0, and so the weighted sum 0; `W_o` and its bias come after that.
# - A mask for other numbers of queries or keys, and a width that `split_heads` cannot deal out, raise `ValueError`,
#   `RuntimeError` or `IndexError`, as PyTorch itself does. Advice, worth no points: so do other sizes that do not fit (each
#   class names its own under *Raises*), and a size of 1 is not stretched to fit another. What becomes of batches of
#   different size is not asked about.
# - The result has the floating dtype of inputs and parameters, which is one for all. Integers are not asked about.
# - Gradients flow from the result, weights as well as outputs, to every input and every parameter: no `detach`, no `.data`, no NumPy
#   on the way.
# - A layer takes its arguments by place or by name, `layer(x, mask=mask)`, any of them without the others. It keeps nothing from one
#   call to the next.
# - The inputs are left as they were, and a module that a function is given is left so as a whole: its parameters and whether they ask
#   for gradients, its mode, its hooks, its attributes. Nothing is dropped at random, in training mode either.

# %% ask_split_heads [markdown]
# ## 6.1 `split_heads`: one tensor, many heads
#
# *About 10 minutes · medium ●●○*
#
# The d columns are dealt out in blocks: head i gets columns i d/h to (i+1) d/h of every token. Then the axis of the heads
# goes in front of the tokens', so that each head holds a whole sequence, (n, d/h), and everything that attention does on
# the last two axes, it does for each head.
#
# By hand, with b = 1, n = 2, d = 4, h = 2:
#
# $$
# \begin{pmatrix} 1 & 2 & 3 & 4 \\ 5 & 6 & 7 & 8 \end{pmatrix} \to
# \text{head 0: } \begin{pmatrix} 1 & 2 \\ 5 & 6 \end{pmatrix}, \quad
# \text{head 1: } \begin{pmatrix} 3 & 4 \\ 7 & 8 \end{pmatrix}
# $$
#
# A single reshape to (b, h, n, d/h) has the right shape and the wrong numbers: its head 0 would hold the whole of token 0.
#
# The result may be a view of `X` or a copy of it.

# %% split_heads
def split_heads(X, num_heads):
    """Deal out the columns of each token to the heads.

    Parameters
    ----------
    X : tensor, shape (b, n, d)
    num_heads : int
        The number of heads h, at least 1.

    Returns
    -------
    tensor, shape (b, h, n, d / h)
        Head i is columns i * d / h to (i + 1) * d / h of `X`.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        If d is no multiple of `num_heads`.
    """
    ### BEGIN SOLUTION
    b, n, d = X.shape
    return X.view(b, n, num_heads, d // num_heads).transpose(1, 2)  # (b, n, h, d/h) -> (b, h, n, d/h)
    ### END SOLUTION

# %%
# Yours to play with. Write the function, then take the # away.
# split_heads(torch.arange(1.0, 9).reshape(1, 2, 4), 2)

# %% check_split_heads
import checks

checks.run("split_heads", points=2)

# %% ask_merge_heads [markdown]
# ## 6.2 `merge_heads`: and back
#
# *About 5 minutes · easy ●○○*
#
# The inverse: what the heads found for a token comes side by side again, head 0 first. `merge_heads(split_heads(X, h))`
# is `X`. The result may be a view of `X` or a copy of it.
#
# By hand, the two heads of 6.1 give the matrix of 6.1: token 0 is $(1, 2)$ from head 0 and $(3, 4)$ from head 1, so
# $(1, 2, 3, 4)$.

# %% merge_heads
def merge_heads(X):
    """Put what the heads have for each token side by side.

    Parameters
    ----------
    X : tensor, shape (b, h, n, d_head)

    Returns
    -------
    tensor, shape (b, n, h * d_head)
        Columns i * d_head to (i + 1) * d_head come from head i.
    """
    ### BEGIN SOLUTION
    b, h, n, d_head = X.shape
    return X.transpose(1, 2).reshape(b, n, h * d_head)  # (b, n, h, d_head) -> (b, n, h * d_head)
    ### END SOLUTION

# %%
# Yours to play with.
# merge_heads(torch.tensor([[[[1.0, 2], [5, 6]], [[3, 4], [7, 8]]]]))

# %% check_merge_heads
import checks

checks.run("merge_heads", points=2)

# %% ask_MultiHeadAttentionLoop [markdown]
# ## 6.3 `MultiHeadAttentionLoop`: a list of heads
#
# *About 35 minutes · hard ●●●*
#
# The first way to many heads: h single heads, each with projections of its own from d_model to d_head = d_model / h.
# Every head does all of attention by itself, $A_i = \text{softmax}(q_i k_i^\top / \sqrt{d_\text{head}})$ and $z_i = A_i v_i$;
# their results come side by side, head 0 first, and `W_o` mixes them: $(z_0 \mid \dots \mid z_{h-1})$ times the transpose of `W_o.weight`, plus its bias.
#
# Names matter, because weights are stored and moved under them: `heads` is an `nn.ModuleList`, and each entry has `W_q`,
# `W_k` and `W_v`, three `nn.Linear`; `W_o` is one `nn.Linear` from d_model to d_model. With `bias=False` none of them has a
# bias. So the `state_dict` has `heads.0.W_q.weight` of shape (d_head, d_model), and so on. For one head, write a small class
# in the same cell, or take an `nn.ModuleDict`. What a new `nn.Linear` draws is good enough to begin with.
#
# A single head has scores (b, n_q, n_k). Of a mask with four axes it gets its own part: entry i of the second axis, or the
# only one where that axis is 1. (With more entries than heads the mask does not fit; to raise there is advice.)
#
# By hand, with d_model = 2 and h = 2, so d_head = 1, without biases: head i reads column i alone, from queries, keys and values.
# The query $(\ln 3, \ln 3)$ meets the keys $(1, 0)$ and $(0, 1)$ with the values $(4, 0)$ and $(8, 12)$.
# Head 0 has the scores $(\ln 3, 0)$, the weights $(3/4, 1/4)$ and $3/4 \cdot 4 + 1/4 \cdot 8 = 5$. Head 1 has the scores
# $(0, \ln 3)$, the weights $(1/4, 3/4)$ and $1/4 \cdot 0 + 3/4 \cdot 12 = 9$. One query, two places, two messages: $(5, 9)$. Where the rows of
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
        Advice, worth no points: if d_model is no multiple of num_heads.
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
        """Attend with every head, and mix what they found.

        Parameters
        ----------
        query : tensor, shape (b, n_q, d_model)
        key : tensor, shape (b, n_k, d_model), optional
            Default: `query`, which makes it self-attention.
        value : tensor, shape (b, n_k, d_model), optional
            Default: `key`.
        mask : tensor of bool, optional
            True where the query may attend to the key; for its shapes see the rules above. None: everywhere.

        Returns
        -------
        out : tensor, shape (b, n_q, d_model)
        weights : tensor, shape (b, h, n_q, n_k)
            Those of each head. Both come in a tuple, in this order.

        Raises
        ------
        ValueError, RuntimeError or IndexError
            If the mask is for other numbers of queries or keys. Advice, worth no points: if the last size of query, key or
            value is not d_model, if the numbers of keys and values differ, or if a 1 would have to be stretched.
        """
        ### BEGIN SOLUTION
        key = query if key is None else key
        value = key if value is None else value
        masks = [None] * self.num_heads
        if mask is not None:  # one for each head, each of which has scores (b, n_q, n_k)
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask.expand(*[1] * (4 - mask.dim()), *mask.shape)
            masks = mask.expand(-1, self.num_heads, -1, -1).unbind(1)
        found, weights = [], []
        for head, own in zip(self.heads, masks, strict=True):
            q, k, v = head["W_q"](query), head["W_k"](key), head["W_v"](value)  # (b, n_q or n_k, d_head)
            A = masked_softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), own)  # (b, n_q, n_k)
            found.append(A @ v)
            weights.append(A)
        out = self.W_o(torch.cat(found, dim=-1))  # h times (b, n_q, d_head) -> (b, n_q, d_model)
        return out, torch.stack(weights, dim=1)
        ### END SOLUTION

# %%
# Yours to play with.
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
# The second way, which libraries take: the projections of all heads stand below each other in one matrix, so that `W_q`,
# `W_k` and `W_v` each are one `nn.Linear` from d_model to d_model. Project once, `split_heads`, attend on the last two axes
# of (b, h, n, d_head) for all heads at once, `merge_heads`, `W_o`. There is no loop over heads.
#
# A mask of three axes is one for each sequence, and the scores have four: (b, h, n_q, n_k). Broadcasting goes
# from the last axis, so that the mask's b would meet h. Where b = h, nobody complains.
#
# By hand, the example of 6.3 gives $(14, -4)$ here as well, with `W_q`, `W_k` and `W_v` the identity. The scores
# are divided by $\sqrt{d_\text{head}}$, since $d_\text{head}$ products are added up in each: for d_model = 8 and h = 2 that is 2, and not $\sqrt 8$.
#
# Both classes have 4 d_model (d_model + 1) parameters with biases, however many heads there are.

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
        From d_model to d_model. Head i is rows i * d_head to (i + 1) * d_head of the first three weights.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if d_model is no multiple of num_heads.
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
        """Attend with all heads at once, and mix what they found.

        Parameters
        ----------
        query : tensor, shape (b, n_q, d_model)
        key : tensor, shape (b, n_k, d_model), optional
            Default: `query`, which makes it self-attention.
        value : tensor, shape (b, n_k, d_model), optional
            Default: `key`.
        mask : tensor of bool, optional
            True where the query may attend to the key; for its shapes see the rules above. None: everywhere.

        Returns
        -------
        out : tensor, shape (b, n_q, d_model)
        weights : tensor, shape (b, h, n_q, n_k)
            Those of each head. Both come in a tuple, in this order.

        Raises
        ------
        ValueError, RuntimeError or IndexError
            If the mask is for other numbers of queries or keys. Advice, worth no points: if the last size of query, key or
            value is not d_model, if the numbers of keys and values differ, or if a 1 would have to be stretched.
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
# Yours to play with.
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
# The two classes compute the same function, and `fuse` is the proof: it moves the weights of a list of heads into one
# `MultiHeadAttention` that gives the same outputs, the same weights, and gradients that say the same.
#
# `nn.Linear` computes $x W^\top + b$: a *row* of its weight makes one column of the result. Head i's columns come from head i's
# rows.
#
# By hand, with d_model = 2 and h = 2: the weights `W_q` of the two heads are $(1, 2)$ and $(3, 4)$, each of shape (1, 2).
# The fused one is $\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}$. Biases $(5)$ and $(6)$ make $(5, 6)$. `W_o` goes over as it is.
#
# The new layer has parameters **of its own**, of the same dtype: training one of the two later leaves the other as it was. Its mode is
# yours to choose: nothing depends on it. Of `loop`, use its `heads`, `W_o`, `d_model` and `num_heads` alone: the checks hand in a
# module that has these, and need not be one of yours.

# %% fuse
def fuse(loop):
    """Return the `MultiHeadAttention` that gives the same outputs as a list of heads.

    Parameters
    ----------
    loop : MultiHeadAttentionLoop
        With or without biases; it is left as it was, in its mode and its attributes too.

    Returns
    -------
    MultiHeadAttention
        With parameters of its own, of the dtype that those of `loop` have.
    """
    ### BEGIN SOLUTION
    bias = loop.W_o.bias is not None
    fused = MultiHeadAttention(loop.d_model, loop.num_heads, bias=bias).to(loop.W_o.weight.dtype)
    with torch.no_grad():
        for name in ("W_q", "W_k", "W_v"):
            parts = [getattr(head, name) for head in loop.heads]
            own = getattr(fused, name)
            own.weight.copy_(torch.cat([part.weight for part in parts]))  # h times (d_head, d_model)
            if bias:
                own.bias.copy_(torch.cat([part.bias for part in parts]))
        fused.W_o.load_state_dict(loop.W_o.state_dict())
    return fused
    ### END SOLUTION

# %%
# Yours to play with.
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
# `nn.MultiheadAttention` keeps the three projections in one parameter, `in_proj_weight` of shape (3 d_model, d_model): first the
# rows of the queries' projection, then the keys', then the values'. `in_proj_bias` of shape (3 d_model,) likewise.
# `out_proj` is `W_o`. With `bias=False` there are no biases: `in_proj_bias` and `out_proj.bias` are None.
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
# Three things do not move with the weights. With `batch_first=False`, its default, PyTorch's layer takes (n, b, d_model); yours
# takes (b, n, d_model), wherever its weights came from. PyTorch's layer averages the weights over the heads unless told
# otherwise, and its boolean masks mean the opposite; yours stays as 6.4 has it. And its dropout is left behind.
#
# As in 6.5, the new layer has parameters **of its own**, of the same dtype, and may be in either mode.

# %% from_torch
def from_torch(module):
    """Return the `MultiHeadAttention` that computes what a layer of PyTorch's does.

    Parameters
    ----------
    module : nn.MultiheadAttention
        With `embed_dim` and `num_heads`, with or without biases, with either `batch_first`; `kdim` and `vdim` equal
        `embed_dim`, and neither `add_bias_kv` nor `add_zero_attn` is set. It is left as it was: `batch_first`, `dropout` and
        mode too.

    Returns
    -------
    MultiHeadAttention
        With parameters of its own, of the dtype that those of `module` have. Sequences stand first in what it takes and
        returns: (b, n, d_model).
    """
    ### BEGIN SOLUTION
    bias = module.in_proj_bias is not None
    own = MultiHeadAttention(module.embed_dim, module.num_heads, bias=bias).to(module.in_proj_weight.dtype)
    parts = [own.W_q, own.W_k, own.W_v]
    with torch.no_grad():
        for part, weight in zip(parts, module.in_proj_weight.chunk(3), strict=True):
            part.weight.copy_(weight)
        if bias:
            for part, its_bias in zip(parts, module.in_proj_bias.chunk(3), strict=True):
                part.bias.copy_(its_bias)
        own.W_o.load_state_dict(module.out_proj.state_dict())
    return own
    ### END SOLUTION

# %%
# Yours to play with.
# theirs, x = nn.MultiheadAttention(6, 3, batch_first=True), torch.randn(2, 4, 6)
# (from_torch(theirs)(x)[0] - theirs(x, x, x)[0]).abs().max()

# %% check_from_torch
import checks

checks.run("from_torch", points=2)

# %% two_messages [markdown]
# ## One sentence, two messages
#
# No training here: the weights are set by hand, so that you know what each head is for. A token is its place (one of
# six) and its word (one of five). Head 0 compares places, and looks one to the left; head 1 compares words, and looks wherever
# the same word stands. Each passes on what it is built to: head 0 the word that it finds, head 1 the place. A single softmax row would
# have to share its weight between the two, and would pass on a mixture. (The first token has nobody on its left: its query
# in head 0 is 0, and its weights are even.)
#
# The layer is built as a list of heads, and fused by your function.

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
# The same weights, the same numbers; only the conventions differ. Look at what has to be turned round for PyTorch's layer: the
# mask, and the average over the heads.

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
# Somebody exchanges heads 0 and 1 of a trained layer: their rows of `W_q`, `W_k` and `W_v`, and their biases. The outputs
# change. What else has to be exchanged, so that the outputs are the old ones again? How many layers that look different
# compute the same function as yours does, if it has h heads? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# The columns of `W_o.weight` that read these heads, d_head each: column block 0 mixes what head 0 found, and has to follow
# it. Then only the order of a sum has changed, $\sum_i z_i W_i^\top$, where $W_i$ is column block i of `W_o.weight`. The
# bias of `W_o` stays. There are h! orders of the heads, so at least h! layers compute the same function. (In truth there are
# infinitely many: turn the queries and keys of a head by the same rotation, and no score changes.) "Head 3" means
# nothing by itself: two trainings of one model may find the same heads in another order.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: the way back, `unfuse`
#
# *About 30 minutes · hard ●●●*
#
# Write `unfuse(layer)`, which returns the `MultiHeadAttentionLoop` that equals a `MultiHeadAttention`, and test that
# `fuse(unfuse(layer))` has the parameters of `layer`. Then take a step of training with each, from the same weights, the same
# input and the same loss, with `torch.optim.SGD`: are their outputs still equal? And with `torch.optim.Adam`? Explain what
# you see: what does each optimiser know of a parameter, and does it matter which tensor a number stands in? There are no
# points for it, and no check.

# %%
# Yours: the stretch task, or anything else.

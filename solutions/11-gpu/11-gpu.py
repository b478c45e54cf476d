# %% title [markdown]
# # 11. A layer on a GPU
#
# You write attention that never holds n x n numbers: as a Triton kernel, forward (`flash_attention_forward`) and
# backward (`flash_attention`), and then `MultiHeadLayer`, the layer that concludes this course. Without a GPU, the same
# kernels run in Triton's interpreter: slowly, but with the same numbers. Triton itself needs Linux.
#
# *About 175 minutes · hard ●●●*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. It draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. You can earn partial points, and the checks are readable:
# open `checks.py` next to this notebook. *Advice* costs no points.
#
# **Rules for all of them.** Do not write into the input tensors. Nothing is kept from one call to the next, except by a
# cache, and a returned tensor belongs to the caller: no later call changes it. The same inputs give the same result,
# also in training mode: there is no dropout. Arguments may be given by name.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name, `11-gpu.ipynb`.
# Leave the locked cells as they are; add your own cells where you like.

# %% given
import os

import torch
from torch import nn
from torch.nn import functional

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import math
import types

try:
    import triton
    import triton.language as tl
except ImportError:  # no Linux: you can read and write kernels here, but not run them
    triton = tl = types.SimpleNamespace(jit=lambda function: function, constexpr=None)

BLOCK = 32  # the sides of a tile of scores

# %% ask_by_hand [markdown]
# ## With a pencil: two tiles of one row
#
# *About 10 minutes · medium ●●○*
#
# A query has the scores $(0, \ln 2)$ in a first tile and $(\ln 4, \ln 4)$ in a second. The values are the numbers
# $(4, 1)$ and $(2, 6)$. **Find four numbers** of the online softmax: the sum `total` after the first tile; the factor
# by which the second tile shrinks it; `total` at the end; and the output.

# %% by_hand
def by_hand():
    """Return total after the first tile, the factor, total at the end, and the output.

    Returns
    -------
    list of 4 numbers
    """
    ### BEGIN SOLUTION
    return [1.5, 0.5, 2.75, 38 / 11]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% worked [markdown]
# ## A kernel, from end to end
#
# Many *programs* run a kernel at once; `tl.program_id(0)` is the number of this one. A program does not loop over
# single numbers: it loads a whole tile from *pointers*, the start address of a tensor plus offsets, and a *mask* says
# which of them are inside the tensor. Masked entries are not read, but replaced by `other`. The sides of a tile are
# powers of two, fixed before the kernel is compiled: `tl.constexpr`. The brackets before the call contain the *grid*,
# the number of programs. Here, each program sums one row of a matrix, one tile at a time.
#
# Nothing but the mask protects against a wrong pointer. A store without a mask overwrites the memory after the tensor,
# and the notebook's process may end without a message: *the kernel died*. If it does, run the check: it finds such a
# store without executing it.
#
# **To look into a kernel.** In the interpreter, `print(tile)` within a kernel shows a tile's numbers (of a large tile,
# its corners), and `print(columns < n)` shows what a mask selects: once for each program and each iteration of its
# loop. Under `if row == 0:` only one program prints. A single number such as `n` is printed in brackets, a pointer as
# an address. `breakpoint()` stops there, and the debugger takes the same expressions. On a GPU,
# `tl.device_print("tile", tile)` prints one line for each number. Remove all of these before you hand in.
#
# In a kernel, `if` on a `tl.constexpr` is decided when the kernel is compiled; for numbers known only when it runs, use
# `tl.minimum` and `tl.maximum`. Outside, `triton.cdiv(n, TILE)` rounds n / TILE up. `x.dtype.element_ty` is the dtype
# of the data at the pointer `x`, and `.to(...)` converts a tile.

# %% demo_row_sums
@triton.jit
def row_sums_kernel(x, sums, n, TILE: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((TILE,), tl.float32)
    for start in range(0, n, TILE):
        columns = start + tl.arange(0, TILE)
        acc += tl.load(x + row * n + columns, mask=columns < n, other=0.0)
    tl.store(sums + row, tl.sum(acc, 0))


if hasattr(triton, "cdiv"):
    x = torch.arange(15.0, device="cuda" if torch.cuda.is_available() else "cpu").reshape(3, 5)
    sums = x.new_empty(3)
    row_sums_kernel[(3,)](x, sums, 5, TILE=4)
    print(sums.tolist(), x.sum(1).tolist())

# %% ask_flash_attention_forward [markdown]
# ## 11.1 `flash_attention_forward`: the online softmax
#
# *About 50 minutes · hard ●●●*
#
# A program has `BLOCK` queries of one head, and goes through the keys in tiles of `BLOCK`. For each row it keeps three
# things: `top`, the largest score so far; `total`, the sum of exp(score - top); and `acc`, the sum of exp(score - top)
# times the values. Each tile takes five steps: compute the scores; find the new top; shrink both old sums by exp(old
# top - new top); add the tile's weights to `total`; add weights times values to `acc`. At the end, out = acc / total,
# and the log-sum-exp is top + ln(total).
#
# A tile of (n, d) from row `first` on has the pointers `x + rows[:, None] * WIDTH + columns[None, :]` with
# `rows = first + tl.arange(0, BLOCK)` and `columns = tl.arange(0, WIDTH)`, where `WIDTH` is d, the width of a head.
# Head j starts `j * n * WIDTH` numbers later; in `lse`, which has one number for each row, `j * n`. Keys beyond n get
# the score -inf, and so do keys after the query if `CAUSAL` is set; tiles that are entirely above the diagonal can be
# skipped. `tl.dot(a, b, input_precision="ieee")` multiplies without rounding float32 to TF32, and `tl.trans`
# transposes.
#
# The tensors are float32, float16 or bfloat16, and may have any memory layout: `.contiguous()`. Keep sums in float32
# for inputs of any dtype: `tl.dot` returns float32, and takes two tiles of the same dtype (`weights.to(values.dtype)`).
# **Start with lengths that fill their tiles**, multiples of `BLOCK`: most checks use those, and the checks of other
# lengths are worth only a point or two. Right numbers from PyTorch alone earn part of the points, here and in 11.2: the
# checks that ask for a kernel, and those on a GPU, then fail.
#
# The interpreter cannot multiply bfloat16; a GPU can. Without a GPU, checks that need one say *pending*, and
# their points wait. Where Triton is not installed, the points of all kernel checks wait.

# %% flash_attention_forward
@triton.jit
def forward_kernel(q, k, v, out, lse, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Attend: program (i, j) has the queries i * BLOCK to (i + 1) * BLOCK of head j, one of (b * h)."""
    ### BEGIN SOLUTION
    first, head = tl.program_id(0) * BLOCK, tl.program_id(1)
    rows, columns = first + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = rows[:, None] < n
    places = head * n * WIDTH + rows[:, None] * WIDTH + columns[None, :]
    queries = tl.load(q + places, mask=inside, other=0.0)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    end = n
    if CAUSAL:
        end = tl.minimum(n, first + BLOCK)
    for start in range(0, end, BLOCK):
        own = start + tl.arange(0, BLOCK)
        theirs = head * n * WIDTH + own[:, None] * WIDTH + columns[None, :]
        keys = tl.load(k + theirs, mask=own[:, None] < n, other=0.0)
        values = tl.load(v + theirs, mask=own[:, None] < n, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        seen = own[None, :] < n
        if CAUSAL:
            seen = seen & (own[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        highest = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp(top - highest)
        weights = tl.exp(scores - highest[:, None])
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        top = highest
    tl.store(out + places, (acc / total[:, None]).to(queries.dtype), mask=inside)
    tl.store(lse + head * n + rows, top + tl.log(total), mask=rows < n)
    ### END SOLUTION


def flash_attention_forward(q, k, v, causal=False):
    """Attend, and return what the backward pass needs: create the results, and launch the kernel.

    Parameters
    ----------
    q, k, v : tensor of float32, float16 or bfloat16, shape (b, h, n, d)
        d is 16, 32, 64 or 128, and n is any number from 1 on.
    causal : bool
        Whether query i sees key j only for j <= i.

    Returns
    -------
    out : tensor, shape (b, h, n, d)
        In the dtype of q.
    lse : tensor of float32, shape (b, h, n)
        The natural logarithm of the sum of exp(scores), q k^T / sqrt(d), of each row.
    """
    ### BEGIN SOLUTION
    b, h, n, d = q.shape
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out, lse = torch.empty_like(q), q.new_empty(b, h, n, dtype=torch.float32)
    grid = (triton.cdiv(n, BLOCK), b * h)
    forward_kernel[grid](q, k, v, out, lse, n, 1 / math.sqrt(d), CAUSAL=bool(causal), WIDTH=d, BLOCK=BLOCK)
    return out, lse
    ### END SOLUTION

# %%
# For your own experiments.
# flash_attention_forward(*torch.randn(3, 1, 1, 5, 16))

# %% check_flash_attention_forward
import checks

checks.run("flash_attention_forward", points=9)

# %% ask_tiled_backward [markdown]
# ## Before the next kernels: `tiled_backward`, in PyTorch
#
# *About 20 minutes · medium ●●○*
#
# Nothing n x n was kept, or has to be: with the log-sum-exp L, each tile of weights is computed again as P = exp(S -
# L). Let dO be the gradient of the output, and D = rowsum(O * dO), one number per query. Then
#
# $$
# dV = P^\top dO \qquad dS = P \circ (dO\,V^\top - D) \qquad dQ = dS\,K / \sqrt d \qquad dK = dS^\top Q / \sqrt d
# $$
#
# In the chapter, P is called A, and O is called Z; dS is the gradient of the scaled scores S in both.
#
# Two kernels have to compute that, and it is hard to see what a kernel does. So write it in PyTorch first, for one
# head. It is not graded. A mistake in the formulas shows up here, so that any mistake in a kernel later is in its
# pointers and masks. Two nested loops over tiles give dQ: the outer one over blocks of queries, which will be the
# programs, the inner one over blocks of keys, which each program goes through. Two more give dK and dV, with blocks of
# keys in the outer loop. A slice `q[first : first + BLOCK]` ends where the tensor ends; in a kernel, you need masks for
# that. With `causal`, `P.tril(first - start)` keeps the keys from `start` on that queries from `first` on may see.

# %% tiled_backward
def tiled_backward(q, k, v, d_out, lse, D, causal=False):
    """Compute the gradients of one head's attention, with one tile of BLOCK x BLOCK weights at a time.

    Parameters
    ----------
    q, k, v, d_out : tensor, shape (n, d)
        `d_out` is the gradient of the output, dO.
    lse, D : tensor, shape (n,)
        L and D, one number for each query.
    causal : bool

    Returns
    -------
    dq, dk, dv : tensor, shape (n, d)
    """
    ### BEGIN SOLUTION
    n, scale = len(q), 1 / math.sqrt(q.shape[1])
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for first in range(0, n, BLOCK):  # what a program of `backward_queries` will do
        rows = slice(first, first + BLOCK)
        for start in range(0, first + 1 if causal else n, BLOCK):
            own = slice(start, start + BLOCK)
            P = torch.exp(q[rows] @ k[own].T * scale - lse[rows, None])
            if causal:
                P = P.tril(first - start)
            dS = P * (d_out[rows] @ v[own].T - D[rows, None])
            dq[rows] += dS @ k[own] * scale
    for start in range(0, n, BLOCK):  # and one of `backward_keys`
        own = slice(start, start + BLOCK)
        for first in range(start if causal else 0, n, BLOCK):
            rows = slice(first, first + BLOCK)
            P = torch.exp(q[rows] @ k[own].T * scale - lse[rows, None])
            if causal:
                P = P.tril(first - start)
            dS = P * (d_out[rows] @ v[own].T - D[rows, None])
            dv[own] += P.T @ d_out[rows]
            dk[own] += dS.T @ q[rows] * scale
    return dq, dk, dv
    ### END SOLUTION

# %% check_tiled_backward
import checks

checks.run("tiled_backward", points=0)

# %% ask_flash_attention [markdown]
# ## 11.2 `flash_attention`: the way back
#
# *About 40 minutes · hard ●●●*
#
# Now write the same as kernels. `D` is a pointer to the row sums of the step before.
#
# A program of `backward_queries` has a block of queries and goes through the keys, for dQ; one of `backward_keys` has a
# block of keys and goes through the queries, for dK and dV. With `CAUSAL`, the first ends at its own block, and the
# second starts there. Set P to 0 wherever the score was -inf: for keys after the query, but also beyond n, since
# exp(0 - L) overflows when L is far below 0. In the interpreter, compare `print(P)` in a kernel with `print(P)` in the
# loops above: the mistake is in the first tile that differs. The cell below is the frame: it computes D and launches
# both, with the grid of 11.1.

# %% given_backward
class Attend(torch.autograd.Function):
    """Your kernels, as a function that autograd can differentiate (given)."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        out, lse = flash_attention_forward(q, k, v, causal)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        return out

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, out, lse = ctx.saved_tensors
        d_out = d_out.contiguous()
        D = (out.float() * d_out.float()).sum(-1)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        b, h, n, d = q.shape
        grid = (triton.cdiv(n, BLOCK), b * h)
        how = {"CAUSAL": bool(ctx.causal), "WIDTH": d, "BLOCK": BLOCK}
        backward_queries[grid](q, k, v, d_out, lse, D, dq, n, 1 / math.sqrt(d), **how)
        backward_keys[grid](q, k, v, d_out, lse, D, dk, dv, n, 1 / math.sqrt(d), **how)
        return dq, dk, dv, None

# %% flash_attention
@triton.jit
def backward_queries(
    q, k, v, d_out, lse, D, dq, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Write the rows of dQ of one block of queries of one head."""
    ### BEGIN SOLUTION
    first, head = tl.program_id(0) * BLOCK, tl.program_id(1)
    rows, columns = first + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = rows[:, None] < n
    places = head * n * WIDTH + rows[:, None] * WIDTH + columns[None, :]
    queries = tl.load(q + places, mask=inside, other=0.0)
    upstream = tl.load(d_out + places, mask=inside, other=0.0)
    own_lse = tl.load(lse + head * n + rows, mask=rows < n, other=0.0)
    own_D = tl.load(D + head * n + rows, mask=rows < n, other=0.0)
    acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    end = n
    if CAUSAL:
        end = tl.minimum(n, first + BLOCK)
    for start in range(0, end, BLOCK):
        own = start + tl.arange(0, BLOCK)
        theirs = head * n * WIDTH + own[:, None] * WIDTH + columns[None, :]
        keys = tl.load(k + theirs, mask=own[:, None] < n, other=0.0)
        values = tl.load(v + theirs, mask=own[:, None] < n, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        seen = (own[None, :] < n) & inside
        if CAUSAL:
            seen = seen & (own[None, :] <= rows[:, None])
        P = tl.where(seen, tl.exp(scores - own_lse[:, None]), 0.0)
        dP = tl.dot(upstream, tl.trans(values), input_precision="ieee")
        dS = P * (dP - own_D[:, None])
        acc += tl.dot(dS.to(keys.dtype), keys, input_precision="ieee")
    tl.store(dq + places, (acc * scale).to(queries.dtype), mask=inside)
    ### END SOLUTION


@triton.jit
def backward_keys(
    q, k, v, d_out, lse, D, dk, dv, n, scale, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Write the rows of dK and dV of one block of keys of one head."""
    ### BEGIN SOLUTION
    first, head = tl.program_id(0) * BLOCK, tl.program_id(1)
    own, columns = first + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = own[:, None] < n
    places = head * n * WIDTH + own[:, None] * WIDTH + columns[None, :]
    keys = tl.load(k + places, mask=inside, other=0.0)
    values = tl.load(v + places, mask=inside, other=0.0)
    dk_acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    dv_acc = tl.zeros((BLOCK, WIDTH), tl.float32)
    begin = 0
    if CAUSAL:
        begin = first
    for start in range(begin, n, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        theirs = head * n * WIDTH + rows[:, None] * WIDTH + columns[None, :]
        queries = tl.load(q + theirs, mask=rows[:, None] < n, other=0.0)
        upstream = tl.load(d_out + theirs, mask=rows[:, None] < n, other=0.0)
        own_lse = tl.load(lse + head * n + rows, mask=rows < n, other=0.0)
        own_D = tl.load(D + head * n + rows, mask=rows < n, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        seen = (own[None, :] < n) & (rows[:, None] < n)
        if CAUSAL:
            seen = seen & (own[None, :] <= rows[:, None])
        P = tl.where(seen, tl.exp(scores - own_lse[:, None]), 0.0)
        dP = tl.dot(upstream, tl.trans(values), input_precision="ieee")
        dS = P * (dP - own_D[:, None])
        dv_acc += tl.dot(tl.trans(P.to(upstream.dtype)), upstream, input_precision="ieee")
        dk_acc += tl.dot(tl.trans(dS.to(queries.dtype)), queries, input_precision="ieee")
    tl.store(dk + places, (dk_acc * scale).to(keys.dtype), mask=inside)
    tl.store(dv + places, dv_acc.to(keys.dtype), mask=inside)
    ### END SOLUTION


def flash_attention(q, k, v, causal=False):
    """Attend, with gradients by autograd: one line with `Attend.apply`.

    Parameters
    ----------
    q, k, v : tensor of float32, float16 or bfloat16, shape (b, h, n, d)
    causal : bool

    Returns
    -------
    tensor, shape (b, h, n, d)
        In the dtype of q.
    """
    ### BEGIN SOLUTION
    return Attend.apply(q, k, v, causal)
    ### END SOLUTION

# %% check_flash_attention
import checks

checks.run("flash_attention", points=7)

# %% ask_MultiHeadLayer [markdown]
# ## 11.3 `MultiHeadLayer`: the layer
#
# *About 50 minutes · hard ●●●*
#
# This is the layer of exercise 6, for self-attention, made ready for practical use: grouped-query heads, causality,
# masks, a cache, any device and float dtype. Query head i uses head i // (h / h_kv) of keys and values. Without a mask
# it never holds n x n numbers: `functional.scaled_dot_product_attention` does not, nor does your kernel, for its dtypes
# and equal numbers of queries and keys. With a cache and several new tokens, you may make a mask, (n, n_k), as a plain
# tensor: `torch.compile` cannot make a single graph with those in `torch.nn.attention.bias`.
#
# Query heads share a key head to save memory, and a copy for each of them would lose that, but no check tests it.
# `enable_gqa=True` copies nothing if PyTorch has a kernel for it. Otherwise it copies, and holds n x n numbers: in
# float32 on a GPU, and with torch 2.8 on a CPU. A view made by `expand` copies nothing.
#
# With a cache, call `k, v = cache.append(k, v)` once: it takes this call's keys and values, (b, h_kv, n, d_head), and
# returns all n_k so far. The last n of those are this call's own: token i is at position n_k - n + i, and causality
# counts from there. The returned tensors belong to the cache: read them, but do not change them. Each call may use a
# different cache, or none.
#
# Masked keys have the weight 0 for any scores: the other scores may be large, or as low as -1e10.
#
# Advice, worth no points: raise an error if the heads do not divide, or if a mask has the wrong shape. PyTorch's own
# attention stretches such a mask, and yours may do the same.

# %% MultiHeadLayer
class MultiHeadLayer(nn.Module):
    """Multi-head self-attention with grouped-query heads, masks and a cache.

    Parameters
    ----------
    d_model, num_heads : int
    num_kv_heads : int, optional
        Default: num_heads.
    bias : bool
        Whether the projections have a bias.

    Raises
    ------
    ValueError
        Advice, worth no points: if d_model is not divisible by num_heads, or num_heads not by num_kv_heads.

    Attributes
    ----------
    W_q, W_k, W_v, W_o : nn.Linear
        Or one `W_qkv`, whose rows are those of W_q, W_k and W_v in this order, and `W_o`.
    """

    def __init__(self, d_model, num_heads, num_kv_heads=None, bias=True):
        super().__init__()
        ### BEGIN SOLUTION
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError(f"{d_model} columns, {num_heads} heads, {num_kv_heads} of keys: one does not divide")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.d_head = d_model // num_heads
        self.W_qkv = nn.Linear(d_model, (num_heads + 2 * self.num_kv_heads) * self.d_head, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x, mask=None, is_causal=False, cache=None):
        """Let the tokens attend to each other, and to those in the cache.

        Parameters
        ----------
        x : tensor, shape (b, n, d_model)
        mask : tensor of bool, optional
            True where the query may attend to the key: (n, n_k), (b, 1 or n, n_k) for each sequence, or four
            dimensions, (b or 1, h or 1, n or 1, n_k). A fully masked query gets 0 before W_o.
        is_causal : bool
            With a mask, both apply.
        cache : object, optional

        Returns
        -------
        tensor, shape (b, n, d_model)

        Raises
        ------
        ValueError, RuntimeError or IndexError
            Advice, worth no points: if a mask has the wrong shape.
        """
        ### BEGIN SOLUTION
        b, n, _ = x.shape
        heads = self.W_qkv(x).view(b, n, -1, self.d_head)
        parts = heads.split([self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=2)
        q, k, v = (own.transpose(1, 2) for own in parts)  # split first: backward, gradients are put together once
        if cache is not None:
            k, v = cache.append(k, v)
        n_k, group = k.shape[2], self.num_heads // self.num_kv_heads
        if mask is not None:
            mask = mask[:, None] if mask.dim() == 3 else mask
            if mask.shape[-1] != n_k or (mask.dim() == 2 and len(mask) != n):
                raise ValueError(f"a mask of shape {tuple(mask.shape)} for {n} queries and {n_k} keys")
        if is_causal and n > 1 and (mask is not None or n < n_k):  # PyTorch's is_causal counts from the first key
            places = torch.arange(n_k - n, n_k, device=x.device)
            seen = torch.arange(n_k, device=x.device) <= places[:, None]
            mask = seen if mask is None else mask & seen
        if group > 1:  # each head of keys is a sequence of its own: its queries read it by a stride of 0, uncopied
            q = q.reshape(-1, group, n, self.d_head)
            k, v = (own.reshape(-1, 1, n_k, self.d_head).expand(-1, group, -1, -1) for own in (k, v))
            if mask is not None and mask.dim() == 4:
                own = self.num_kv_heads if mask.shape[1] == 1 else self.num_heads
                mask = mask.expand(b, own, -1, -1).reshape(len(q), -1, *mask.shape[2:])
        is_causal = is_causal and n > 1 and mask is None
        z = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)
        z = z.reshape(b, self.num_heads, n, self.d_head)
        return self.W_o(z.transpose(1, 2).reshape(b, n, -1))
        ### END SOLUTION

# %% check_MultiHeadLayer
import checks

checks.run("MultiHeadLayer", points=8)

# %% beside [markdown]
# ## Your kernel beside PyTorch's
#
# The figure shows the time of causal attention, forward alone, and forward and backward, over the length n. A line with
# the slope 2 means that time grows with n x n, as the work does. On a GPU, your kernel runs with `BLOCK = 32` and, on a
# newer one, also with 64. In 16 bits, a tile of B rows does about B operations for each byte that it fetches (chapter
# 11). So the distance between your own lines shows the gain from higher tiles. The rest, up to PyTorch's line, has
# other reasons: the stretch task starts there. Without a GPU, your kernel runs in the interpreter, which shows that it
# is right, not how fast it would be.

# %% demo_beside
import matplotlib.pyplot as plt
from torch.utils.benchmark import Timer

gpu = torch.cuda.is_available()
lengths = [512, 1024, 2048, 4096, 8192] if gpu else [32, 64, 128]
like = {"device": "cuda", "dtype": torch.float16} if gpu else {}


def of_pytorch(q, k, v, causal):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def milliseconds(attend, n, back):
    """Return the median time of one call on 16 heads (without a GPU: one) of width 64."""
    q, k, v = torch.randn(3, 1, 16 if gpu else 1, n, 64, **like).requires_grad_(back)
    work = "torch.autograd.grad(attend(q, k, v, True), [q, k, v], v)" if back else "attend(q, k, v, True)"
    timer = Timer(work, globals={"torch": torch, "attend": attend, "q": q, "k": k, "v": v})
    return 1e3 * timer.blocked_autorange(min_run_time=0.1).median


if hasattr(triton, "cdiv"):
    figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
    runs = [("yours, tiles of 32", flash_attention, 32, "#0072b2")]
    if gpu and torch.cuda.get_device_capability() >= (8, 0):  # earlier chips have no room for it
        runs += [("yours, tiles of 64", flash_attention, 64, "#d55e00")]
    for name, attend, side, color in [*runs, ("PyTorch's", of_pytorch, 32, "0.5")]:
        BLOCK = side  # which your launches take
        for part, line in [("forward", "o--"), ("and backward", "o-")]:
            taken = [milliseconds(attend, n, part != "forward") for n in lengths]
            print(f"{name}, {part}:", ", ".join(f"{own:.3g} ms" for own in taken))
            axes.loglog(lengths, taken, line, color=color, label=f"{name}, {part}")
    where = torch.cuda.get_device_name() if gpu else "Triton's interpreter, on a CPU"
    axes.set(xlabel="n (tokens)", ylabel="milliseconds", title=where, xticks=lengths, xticklabels=lengths)
    axes.minorticks_off()
    legend = axes.legend()

# %% think [markdown]
# ## To think about: why compute it twice?
#
# *About 5 minutes · medium ●●○*
#
# The backward pass computes every score again, in fact twice. Fast kernels do that instead of keeping the weights. Why?
#
# <details><summary>An answer</summary>
#
# A GPU multiplies far more numbers per second than it reads. Weights that are kept have to be written and read again, n
# x n of them for each head; a recomputed score costs 2 d operations on numbers already on the chip.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: higher tiles, base 2, a window
#
# *About 60 minutes · hard ●●●*
#
# **Higher tiles.** Your kernels take `BLOCK` as an argument, so they run with other tiles once you write `BLOCK = 64`
# in a cell of your own; set it back before you hand in. Are the results still right with 64 and 128? On a GPU, measure
# both. A tile of 128 x 128 scores needs more registers than four warps have: add `num_warps=8` next to `BLOCK` in the
# launch.
#
# **Base 2.** A GPU has an instruction for 2^x, and uses it to compute e^x. Include log2(e) in `scale` once, and use
# `tl.exp2` instead of `tl.exp`. At the end, `lse` has to be a natural logarithm again: multiply `top + tl.log2(total)`
# by ln 2.
#
# **A window.** Query i sees only the last w keys up to its own. Which tiles can be skipped now, and how does time grow
# with n?
#
# There are no points for any of them. The checks run with `BLOCK = 32`, and also accept base 2.

# %%
# Yours: the stretch task, or anything else.

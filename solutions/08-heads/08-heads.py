# %% title [markdown]
# # 8. What heads learn
#
# You write the four tools with which heads are looked into: a score for heads that look at the word before
# (`previous_token_score`), how many directions a table of weights really has (`effective_rank`), a layer without one of its
# heads (`ablate_head`), and what that costs (`head_importance`). Read chapter 8 of the book first.
#
# *About 70 minutes · medium ●●○*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your
# code, run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every
# time.
#
# **How to read the feedback.** Each check is one sentence about your function: *passed*, *failed*, or *waits* (a check
# that it builds on has not passed yet). A failed check says what passed, what failed, and where. When it recognizes the
# mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("ablate_head", points=6, seed=...)` in a cell of your own. You can earn partial points, and the checks are
# readable: open `checks.py` next to this notebook. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ takes a line or two, medium ●●○ a thought, and hard ●●● a
# sheet of paper. Three kinds of questions are not graded: a question for a pencil, whose numbers are checked, a
# question to think about, and a stretch task, which is not counted in the time above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `08-heads.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import copy
import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Multi-head attention, all heads in one tensor (given; exercise 6 is about it).

    Parameters
    ----------
    d_model : int
        The width of queries, keys, values and results.
    num_heads : int
        The number of heads h; it divides d_model. Head t has rows t d_head to (t + 1) d_head of `W_q.weight`,
        `W_k.weight` and `W_v.weight`, and these columns of `W_o.weight`, with d_head = d_model / h.
    bias : bool
        Whether the four projections have a bias.
    """

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, query, key=None, value=None, mask=None):
        """Attend with all heads at once, and mix what they found.

        Parameters
        ----------
        query : tensor, shape (b, n_q, d_model)
        key : tensor, shape (b, n_k, d_model), optional
            Default: `query`, which makes it self-attention.
        value : tensor, shape (b, n_k, d_model), optional
            Default: `key`.
        mask : tensor of bool, shape (n_q, n_k), optional
            True where the query may attend to the key. None: everywhere.

        Returns
        -------
        out : tensor, shape (b, n_q, d_model)
        weights : tensor, shape (b, h, n_q, n_k)
            Both come in a tuple, in this order.
        """
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (b, h, n_q or n_k, d_head)
            for layer, x in ((self.W_q, query), (self.W_k, key), (self.W_v, value))
        )
        S = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        A = (S if mask is None else S.masked_fill(~mask, -torch.inf)).softmax(-1)  # (b, h, n_q, n_k)
        return self.W_o((A @ v).transpose(1, 2).flatten(2)), A


# %% ask_by_hand [markdown]
# ## With a pencil: two heads, a score and a rank
#
# *About 10 minutes · easy ●○○*
#
# Two heads of one number each pass on $z = (3 \mid 2)$. Two words are scored by $y = z\, W_o$ with
#
# $$
# W_o = \begin{pmatrix} \frac13 \ln 4 & 0 \\ \frac12 \ln 2 & 0 \end{pmatrix}
# $$
#
# and softmax makes probabilities of the two scores; the first word is right. A third head's table of weights, and its singular
# values, are
#
# $$
# A = \begin{pmatrix} 1 & 0 & 0 & 0 \\ 0.6 & 0.4 & 0 & 0 \\ 0 & 0.9 & 0.1 & 0 \\ 0.3 & 0.3 & 0 & 0.4 \end{pmatrix}
# \qquad \sigma = (1.4,\ 0.8,\ 0.4,\ 0.1)
# $$
#
# (rounded). **Find four numbers**: the probability of the right word with both heads, and with the first one cut; the previous-token
# score of $A$; and how many singular values it takes for 0.9 of the sum of their squares.


# %% by_hand
def by_hand():
    """Return the four numbers, worked out with a pencil.

    Returns
    -------
    list of 4 numbers
        The probability with both heads, the probability without the first, the score, and the effective rank.
    """
    ### BEGIN SOLUTION
    return [8 / 9, 2 / 3, 0.5, 2]
    ### END SOLUTION


# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Four rules for this notebook
#
# - Heads are counted from 0, and so are tokens. A head that is not there, such as −1 or h, raises `ValueError`, `RuntimeError` or
#   `IndexError`. What else has to, and what is advice, stands under *Raises*.
# - The layer that you are given is left as it was, all of it: its parameters and whether they ask for gradients, its mode, its
#   hooks, its attributes.
# - A score has the floating dtype of its weights, and gradients flow through it.
# - Same inputs, same result: nothing is drawn.

# %% ask_previous_token_score [markdown]
# ## 8.1 `previous_token_score`: does a head look at the word before?
#
# *About 10 minutes · easy ●○○*
#
# For each head, the mean of the weights $A_{i, i-1}$, over all $i \ge 1$ and over the batch. A head that always looks at the word
# before has 1. The first token has no word before it, and does not count.
#
# `A.diagonal(offset, dim1, dim2)` takes a diagonal out of two axes; $A_{i, i-1}$ stands below the main one.


# %% previous_token_score
def previous_token_score(A):
    """Return each head's mean weight on the token before.

    Parameters
    ----------
    A : tensor, shape (b, h, n, n) or (h, n, n)
        Weights; row i belongs to the query of token i.

    Returns
    -------
    tensor, shape (h,)

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if A is not square in its last two axes, or if n is 1: then there is no token before
        another.
    """
    ### BEGIN SOLUTION
    if A.shape[-2] != A.shape[-1] or A.shape[-1] < 2:
        raise ValueError(f"A has shape {tuple(A.shape)}, and should be (b, h, n, n) or (h, n, n) with n of 2 or more")
    scores = A.diagonal(-1, -2, -1).mean(-1)  # (b, h) or (h,)
    return scores.mean(0) if A.dim() == 4 else scores
    ### END SOLUTION


# %%
# Yours to play with. Write the function, then take the # away.
# previous_token_score(torch.tensor([[[1.0, 0, 0], [0.9, 0.1, 0], [0.2, 0.7, 0.1]]]))

# %% check_previous_token_score
import checks

checks.run("previous_token_score", points=3)

# %% ask_effective_rank [markdown]
# ## 8.2 `effective_rank`: how many directions count
#
# *About 10 minutes · easy ●○○*
#
# The fewest singular values, the largest first, whose squares sum to at least the share `energy` of the sum of all squares. With
# singular values 3, 2 and 1 the squares are 9, 4 and 1: two of them make 13 of 14, which is 93%. A share that is met exactly is
# reached: of two equal singular values, one makes 0.5. Advice, worth no points: a matrix of zeros has the effective rank 1.
#
# `torch.linalg.svdvals(A)` gives the singular values, largest first.


# %% effective_rank
def effective_rank(A, energy=0.9):
    """Return how many singular values make most of a matrix.

    Parameters
    ----------
    A : tensor, shape (n, m)
    energy : float
        The share of the sum of squares that is asked for, above 0 and below 1.

    Returns
    -------
    int
        At least 1, be A all 0, and at most min(n, m).

    Raises
    ------
    ValueError, RuntimeError or IndexError
        If A has not two axes: the ranks of several heads are no single number.
    """
    ### BEGIN SOLUTION
    if A.dim() != 2:
        raise ValueError(f"A has shape {tuple(A.shape)}, and should be (n, m)")
    squares = torch.linalg.svdvals(A) ** 2
    return int((squares.cumsum(0) < energy * squares.sum()).sum()) + 1
    ### END SOLUTION


# %%
# Yours to play with.
# effective_rank(torch.diag(torch.tensor([3.0, 2, 1]))), effective_rank(torch.eye(10))

# %% check_effective_rank
import checks

checks.run("effective_rank", points=4)

# %% ask_ablate_head [markdown]
# ## 8.3 `ablate_head`: a layer without one of its heads
#
# *About 20 minutes · medium ●●○*
#
# What the heads found stands side by side before it is mixed, $Y = (Z^{(0)} \mid \cdots \mid Z^{(h-1)})\, W_o + b_o$. Return a
# copy of the layer in which the part of one head adds nothing. The other heads, their weights and $b_o$ stay as they are, and so does
# the layer that you are given, even when the copy is trained later. The copy does not lean on the layer either: when that is
# trained, the copy stays as it is.
#
# The copy is a layer like the one that you are given. It is called in the same ways: with a query alone, with values that are not the
# keys, with a mask, and with any of these by name, such as `mask=mask`. It has the layer's dtype and mode, and gradients flow back from
# both of its results.
# Its weights of the head that was cut may be anything.
#
# `copy.deepcopy(layer)` copies a module with its parameters and its mode. `nn.Linear` stores its weight transposed: rows of $W_o$ are
# columns of `W_o.weight`. To write into a parameter, stay inside `with torch.no_grad():`. There is more than one place where a head
# can be silenced; zeros in $W_q$ or $W_k$ are none.


# %% ablate_head
def ablate_head(layer, head):
    """Return a copy of a layer in which one head adds nothing to the result.

    Parameters
    ----------
    layer : MultiHeadAttention
        Of any size, with or without biases, of any floating dtype.
    head : int
        From 0 to h - 1.

    Returns
    -------
    module
        Called as the layer is, with the same names of arguments: it returns the result, and then the weights. In the layer's
        mode. None of its parameters is the layer's.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        If there is no such head, a negative number included.
    """
    ### BEGIN SOLUTION
    if not 0 <= head < layer.num_heads:
        raise ValueError(f"there is no head {head}: the layer has {layer.num_heads}")
    without = copy.deepcopy(layer)
    d_head = layer.d_model // layer.num_heads
    with torch.no_grad():
        without.W_o.weight[:, head * d_head : (head + 1) * d_head] = 0
    return without
    ### END SOLUTION


# %%
# Yours to play with.
# layer, x = MultiHeadAttention(4, 2), torch.randn(1, 3, 4)
# layer(x)[0] - ablate_head(layer, 0)(x)[0]

# %% check_ablate_head
import checks

checks.run("ablate_head", points=6)

# %% ask_head_importance [markdown]
# ## 8.4 `head_importance`: what a head is worth
#
# *About 15 minutes · medium ●●○*
#
# `loss` is a function that takes a layer and returns a number. The importance of a head is the loss of the layer without it, minus the
# loss of the whole layer. Each head is cut from the whole layer. It may well be negative: then the layer does better without the head.
# You may cut heads in the layer itself, if it is afterwards as it was: put every number back, and take every hook off.
#
# You may use your `ablate_head`. The number may be a float of Python's or a tensor with one number in it.


# %% head_importance
def head_importance(layer, loss):
    """Return the importance of each head of a layer.

    Parameters
    ----------
    layer : MultiHeadAttention
    loss : function
        Takes a layer that is called as `MultiHeadAttention` is, and returns a number: a float, or a tensor of shape ().

    Returns
    -------
    tensor, shape (h,)
        The loss without head t, minus the loss of the layer.
    """
    ### BEGIN SOLUTION
    whole = float(loss(layer))
    return torch.tensor([float(loss(ablate_head(layer, head))) - whole for head in range(layer.num_heads)])
    ### END SOLUTION


# %%
# Yours to play with.
# layer, x = MultiHeadAttention(4, 2), torch.randn(1, 3, 4)
# head_importance(layer, lambda layer: layer(x)[0].square().mean())

# %% check_head_importance
import checks

checks.run("head_importance", points=5)

# %% copying [markdown]
# ## What four heads learn
#
# One layer of four heads reads rows of 12 random letters, and has to say at each place which letter stood before. It trains in seconds. Then
# your functions look into it: which head does the work? Is it the one with the highest score?


# %% demo_training
def trained(seed=0, letters=6, n=12, d_model=16, steps=250):
    """Train embeddings, one layer and a readout; return the layer, what it reads (b, n, d_model), and the loss."""
    torch.manual_seed(seed)
    words, places = nn.Embedding(letters, d_model), nn.Embedding(n, d_model)
    layer, readout = MultiHeadAttention(d_model, 4), nn.Linear(d_model, letters)
    parameters = [*words.parameters(), *places.parameters(), *layer.parameters(), *readout.parameters()]
    optimizer = torch.optim.Adam(parameters, 0.01)

    def loss_on(tokens, layer):
        scores = readout(layer(words(tokens) + places.weight)[0])  # (b, n, letters)
        return nn.functional.cross_entropy(scores[:, 1:].flatten(0, 1), tokens[:, :-1].flatten())

    for _ in range(steps):
        optimizer.zero_grad()
        loss_on(torch.randint(letters, (32, n)), layer).backward()
        optimizer.step()
    unseen = torch.randint(letters, (200, n))
    with torch.no_grad():
        return layer, words(unseen) + places.weight, lambda layer: loss_on(unseen, layer).item()


layer, x, loss = trained()
with torch.no_grad():
    weights = layer(x)[1]  # (b, h, n, n)
print("loss:                ", round(loss(layer), 3))
print("score, word before:  ", [round(s, 2) for s in previous_token_score(weights).tolist()])
print("importance:          ", [round(i, 2) for i in head_importance(layer, loss).tolist()])
print("effective rank of 12:", [effective_rank(A) for A in weights[0]])

# %% demo_weights
import matplotlib.pyplot as plt

figure, panels = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
for head, axes in enumerate(panels):
    axes.imshow(weights[:, head].mean(0), vmin=0, vmax=1, cmap="Purples")
    axes.set_title(f"head {head}")
    axes.set_xlabel("key")
panels[0].set_ylabel("query")
plt.show()

# %% think [markdown]
# ## To think about: two that do the same
#
# *About 5 minutes · medium ●●○*
#
# A layer has three heads. The importances of all are 0, and yet the loss is enormous when all three are cut. How can that be? And what
# would you measure to find out which heads can be taken away together? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# Each head is measured while the others speak. If two of the three are enough for the job, whichever two, no single cut does any
# harm, and no head has any importance. To find a set that can go, cut sets: take the least important head away for good,
# measure the importances of those that are left *anew*, and go on. That is not certain to find the best set, but it does not fall for copies.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: importance from one gradient
#
# *About 30 minutes · hard ●●●*
#
# Put a gate $g_t = 1$ before each head's part of $W_o$, and let autograd find $\partial L / \partial g_t$, for all heads in one
# backward pass. To first order, cutting head t, which takes $g_t$ to 0, changes the loss by $-\partial L / \partial g_t$. Compare
# with `head_importance` for the trained layer. Where do the two agree, and where not, and why? There are no points for it, and no check.

# %%
# Yours: the stretch task, or anything else.

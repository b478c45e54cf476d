# %% title [markdown]
# # 8. What heads learn
#
# You write four tools for inspecting heads: a score for heads that look at the previous word (`previous_token_score`), the
# number of directions that a table of weights really has (`effective_rank`), a layer without one of its heads
# (`ablate_head`), and the cost of removing it (`head_importance`). Read chapter 8 of the book first.
#
# *About 70 minutes · medium ●●○*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your
# code, run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every
# time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("ablate_head", points=6, seed=...)` in a cell of your own. You can earn partial points, and the checks
# are readable: open `checks.py` next to this notebook. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `08-heads.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import copy
import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """Multi-head attention, with all heads in one tensor (given; see exercise 6).

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
        """Attend with all heads at once, and mix the results.

        Parameters
        ----------
        query : tensor, shape (b, n_q, d_model)
        key : tensor, shape (b, n_k, d_model), optional
            Default: `query`, which makes it self-attention.
        value : tensor, shape (b, n_k, d_model), optional
            Default: `key`.
        mask : tensor of bool, shape (n_q, n_k), optional
            True where the query may attend to the key. None means everywhere.

        Returns
        -------
        out : tensor, shape (b, n_q, d_model)
        weights : tensor, shape (b, h, n_q, n_k)
            Both are returned in a tuple, in this order.
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
# Two heads pass on one number each, $z = (3 \mid 2)$. Two words get the scores $y = z\, W_o$ with
#
# $$
# W_o = \begin{pmatrix} \frac13 \ln 4 & 0 \\ \frac12 \ln 2 & 0 \end{pmatrix}
# $$
#
# and softmax turns the two scores into probabilities; the first word is right. A third head has this table of weights and
# these singular values:
#
# $$
# A = \begin{pmatrix} 1 & 0 & 0 & 0 \\ 0.6 & 0.4 & 0 & 0 \\ 0 & 0.9 & 0.1 & 0 \\ 0.3 & 0.3 & 0 & 0.4 \end{pmatrix}
# \qquad \sigma = (1.4,\ 0.8,\ 0.4,\ 0.1)
# $$
#
# (rounded). **Find four numbers**: the probability of the right word with both heads, and without the first one; the
# previous-token score of $A$; and the number of singular values needed for 0.9 of the sum of their squares.

# %% by_hand
def by_hand():
    """Return the four numbers, computed by hand.

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
# - Heads and tokens are counted from 0. A head that does not exist, such as −1 or h, raises `ValueError`, `RuntimeError` or
#   `IndexError`. Each function lists other errors, and those that are advice, under *Raises*.
# - The given layer is not changed in any way: its parameters, their `requires_grad`, its mode, its hooks and its attributes
#   stay the same.
# - A score has the floating dtype of its weights, and gradients flow through it.
# - The same inputs give the same result: nothing is random.

# %% ask_previous_token_score [markdown]
# ## 8.1 `previous_token_score`: does a head look at the previous word?
#
# *About 10 minutes · easy ●○○*
#
# For each head, compute the mean of the weights $A_{i, i-1}$, over all $i \ge 1$ and over the batch. A head that always looks
# at the previous word has the score 1. The first token has no word before it and does not count.
#
# `A.diagonal(offset, dim1, dim2)` takes a diagonal of two axes; $A_{i, i-1}$ is below the main one.

# %% previous_token_score
def previous_token_score(A):
    """Return each head's mean weight on the previous token.

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
        Advice, worth no points: if A is not square in its last two axes, or if n is 1, so that no token has another
        before it.
    """
    ### BEGIN SOLUTION
    if A.shape[-2] != A.shape[-1] or A.shape[-1] < 2:
        raise ValueError(f"A has shape {tuple(A.shape)}, and should be (b, h, n, n) or (h, n, n) with n of 2 or more")
    scores = A.diagonal(-1, -2, -1).mean(-1)  # (b, h) or (h,)
    return scores.mean(0) if A.dim() == 4 else scores
    ### END SOLUTION

# %%
# For your own experiments. Write the function, then take the # away.
# previous_token_score(torch.tensor([[[1.0, 0, 0], [0.9, 0.1, 0], [0.2, 0.7, 0.1]]]))

# %% check_previous_token_score
import checks

checks.run("previous_token_score", points=3)

# %% ask_effective_rank [markdown]
# ## 8.2 `effective_rank`: how many directions matter
#
# *About 10 minutes · easy ●○○*
#
# The effective rank is the smallest number of singular values, largest first, whose squares sum to at least the share
# `energy` of the sum of all squares. With singular values 3, 2 and 1 the squares are 9, 4 and 1: the first two add up to 13
# of 14, or 93%. A share that is met exactly counts as reached: one of two equal singular values is 0.5. Advice, worth no
# points: a matrix of zeros has the effective rank 1.
#
# `torch.linalg.svdvals(A)` gives the singular values, largest first.

# %% effective_rank
def effective_rank(A, energy=0.9):
    """Return how many singular values account for most of a matrix.

    Parameters
    ----------
    A : tensor, shape (n, m)
    energy : float
        The share of the sum of squares to reach, above 0 and below 1.

    Returns
    -------
    int
        At least 1, even if A is all 0, and at most min(n, m).

    Raises
    ------
    ValueError, RuntimeError or IndexError
        If A does not have two axes: the ranks of several heads are not a single number.
    """
    ### BEGIN SOLUTION
    if A.dim() != 2:
        raise ValueError(f"A has shape {tuple(A.shape)}, and should be (n, m)")
    squares = torch.linalg.svdvals(A) ** 2
    return int((squares.cumsum(0) < energy * squares.sum()).sum()) + 1
    ### END SOLUTION

# %%
# For your own experiments.
# effective_rank(torch.diag(torch.tensor([3.0, 2, 1]))), effective_rank(torch.eye(10))

# %% check_effective_rank
import checks

checks.run("effective_rank", points=4)

# %% ask_ablate_head [markdown]
# ## 8.3 `ablate_head`: a layer without one of its heads
#
# *About 20 minutes · medium ●●○*
#
# The heads' results are concatenated before they are mixed, $Y = (Z^{(0)} \mid \cdots \mid Z^{(h-1)})\, W_o + b_o$. Return a
# copy of the layer in which one head adds nothing. The other heads, their weights and $b_o$ stay the same. The given layer
# also stays the same, even if the copy is trained later; and training the layer later does not change the copy.
#
# The copy is a layer like the given one. It is called in the same ways: with only a query, with values that are not the keys,
# with a mask, and with any of these by name, such as `mask=mask`. It has the layer's dtype and mode, and gradients flow back
# from both of its results.
# Its weights for the removed head may be anything.
#
# `copy.deepcopy(layer)` copies a module with its parameters and its mode. `nn.Linear` stores its weight transposed: rows of
# $W_o$ are columns of `W_o.weight`. To write into a parameter, use `with torch.no_grad():`. There are several places where a
# head can be silenced, but zeros in $W_q$ or $W_k$ do not silence it.

# %% ablate_head
def ablate_head(layer, head):
    """Return a copy of a layer in which one head adds nothing to the result.

    Parameters
    ----------
    layer : MultiHeadAttention
        Any size, with or without biases, any floating dtype.
    head : int
        From 0 to h - 1.

    Returns
    -------
    module
        Called like the layer, with the same argument names; it returns the result and then the weights. It has the layer's
        mode and shares no parameters with it.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        If there is no such head; this includes negative numbers.
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
# For your own experiments.
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
# `loss` is a function that takes a layer and returns a number. The importance of a head is the loss of the layer without it,
# minus the loss of the whole layer. Each head is removed from the whole layer. The importance may be negative: then the
# layer does better without the head. You may remove heads in the layer itself if you restore it afterwards: put every number
# back, and remove every hook.
#
# You may use your `ablate_head`. The loss may be a Python float or a tensor with one number.

# %% head_importance
def head_importance(layer, loss):
    """Return the importance of each head of a layer.

    Parameters
    ----------
    layer : MultiHeadAttention
    loss : function
        Takes a layer that is called like `MultiHeadAttention`, and returns a number: a float, or a tensor of shape ().

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
# For your own experiments.
# layer, x = MultiHeadAttention(4, 2), torch.randn(1, 3, 4)
# head_importance(layer, lambda layer: layer(x)[0].square().mean())

# %% check_head_importance
import checks

checks.run("head_importance", points=5)

# %% copying [markdown]
# ## What four heads learn
#
# One layer with four heads reads rows of 12 random letters and predicts at each position which letter came before. It trains
# in seconds. Then your functions inspect it: which head does the work? Is it the one with the highest score?

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
# ## To think about: heads that do the same
#
# *About 5 minutes · medium ●●○*
#
# A layer has three heads. All have importance 0, and yet the loss is enormous when all three are removed. How can that be?
# And what would you measure to find out which heads can be removed together? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# Each head is measured while the others are active. If any two of the three are enough for the job, removing one does no
# harm, and no head has any importance. To find heads that can be removed together, remove sets: remove the least important
# head for good, measure the importances of the remaining heads *again*, and repeat. This may not find the best set, but
# copies do not mislead it.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: importance from one gradient
#
# *About 30 minutes · hard ●●●*
#
# Put a gate $g_t = 1$ before each head's part of $W_o$, and let autograd compute $\partial L / \partial g_t$ for all heads in
# one backward pass. To first order, removing head t, which sets $g_t$ to 0, changes the loss by $-\partial L / \partial g_t$.
# Compare with `head_importance` for the trained layer. Where do the two agree, where do they not, and why? This task has no
# points and no check.

# %%
# Yours: the stretch task, or anything else.

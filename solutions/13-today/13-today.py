# %% title [markdown]
# # 13. A model of today
#
# You write the parts of a language model of today: the norm (`rms_norm`), the feed-forward network
# (`gated_feed_forward`), rotary frequencies for texts longer than those of the training (`stretched_frequencies`), and
# a softmax that may leave some of its weight unused (`sink_softmax`). Then you build one layer of such a model, `Block`.
# Read chapter 13 of the book first.
#
# *About 110 minutes · hard ●●●*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("rms_norm", points=4, seed=...)` in a cell of your own. You can earn partial points, and the checks are
# readable: open `checks.py` next to this notebook. `Block` may use your earlier functions, so fix errors from the
# top. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `13-today.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import math

import torch
from torch import nn


def rotary(X, positions, base=10000.0):
    """Rotate each pair of columns by an angle that grows with the position (given; exercise 4 is about it).

    Parameters
    ----------
    X : tensor, shape (..., n, d)
        Queries or keys; d is even.
    positions : tensor, shape (n,)
        The position of each row.
    base : float
        Columns 2i and 2i + 1 rotate by position * base^(-2i / d) radians.

    Returns
    -------
    tensor, shape (..., n, d)
        In the dtype of `X`.

    Raises
    ------
    ValueError
        If d is odd, or the number of positions differs from n.
    """
    n, d = X.shape[-2:]
    if d % 2 or len(positions) != n:
        raise ValueError(f"X has shape {tuple(X.shape)}, and there are {len(positions)} positions")
    exponents = -torch.arange(0, d, 2, device=X.device).double() / d
    angles = positions.double()[:, None] * base**exponents  # (n, d / 2)
    cos, sin = angles.cos(), angles.sin()
    x, y = X[..., 0::2], X[..., 1::2]  # (..., n, d / 2) each
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2).to(X.dtype)


# %% ask_by_hand [markdown]
# ## With a pencil: a norm, a window and a sink
#
# *About 10 minutes · medium ●●○*
#
# **First**, a token $x = (3, 3, 9, 1)$ goes through an RMSNorm whose weight (the chapter's gain $\gamma$) is
# $(5, 10, 0, -5)$. Its $\varepsilon$ is so small that it has no visible effect.
#
# **Then**, token 3 of another sequence attends to tokens 0 to 3 in a causal layer with a window of 3. Its scores, already
# divided by $\sqrt{d_k}$, are $(\ln 40, \ln 6, \ln 3, \ln 9)$, and the sink of this head is $\ln 2$.
#
# **Find eight numbers**: the four of the normed token, then the four weights of tokens 0 to 3.


# %% by_hand
def by_hand():
    """Return the normed token and the four weights, worked out with a pencil.

    Returns
    -------
    list of 8 numbers
        The four numbers of the normed token, then the weights of tokens 0 to 3.
    """
    ### BEGIN SOLUTION
    return [3, 6, 0, -1, 0, 0.3, 0.15, 0.45]
    ### END SOLUTION


# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Rules for this notebook
#
# - `...` is any number of leading dimensions, possibly none. b is the number of sequences, n the number of tokens, h the
#   number of heads, and $d_k$ the width of a head, which is even. There are no biases anywhere.
# - All tensors of a call have the same floating dtype, and the result has it as well. `stretched_frequencies` gets only
#   numbers, and returns float32.
# - Gradients flow from the result to every input tensor and every parameter: no `detach`, no `.data`, no NumPy on the
#   way.
# - The inputs do not change, and nothing is kept from one call to the next. Inputs may have any memory layout.
# - Arguments may be given by name. There is no dropout: results in training mode are the same.
# - Advice, worth no points: sizes that do not match (each docstring lists its own under *Raises*) raise `ValueError`,
#   `RuntimeError` or `IndexError`, and a size of 1 is not stretched to match another.

# %% ask_rms_norm [markdown]
# ## 13.1 `rms_norm`: a norm without a mean
#
# *About 10 minutes · easy ●○○*
#
# A layer norm subtracts the mean and divides by the standard deviation. RMSNorm only divides, by the root of the mean
# square, and multiplies each column by a learned weight, $w$ here and $\gamma$ in the chapter:
#
# $$
# \operatorname{RMSNorm}(x)_c = \frac{x_c}{\sqrt{\frac{1}{d} \sum_{j} x_j^2 + \varepsilon}} \, w_c
# $$
#
# The mean square is a matter of precision. In float16, the largest number is 65,504, and the square of 300 is beyond it.
# So compute in float32, and return the result in the dtype of x. Inputs in float64 are computed in float64.
#
# By hand, with weight 1: the mean square of $(6, 8)$ is 50, and the result is $(0.849, 1.131)$.


# %% rms_norm
def rms_norm(x, weight, eps=1e-6):
    """Divide each row by its root mean square, and multiply the columns by a weight.

    Parameters
    ----------
    x : tensor, shape (..., d)
        In float16 and bfloat16, its squares may be too large for its own dtype.
    weight : tensor, shape (d,)
    eps : float
        Is added to the mean square, below the root.

    Returns
    -------
    tensor, shape (..., d)
        In the dtype of `x`.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if the weight has another size than the rows, even if that is 1.
    """
    ### BEGIN SOLUTION
    if weight.shape != x.shape[-1:]:
        raise ValueError(f"rows of {x.shape[-1]} numbers, and a weight of shape {tuple(weight.shape)}")
    wide = x if x.dtype == torch.float64 else x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (normed * weight).to(x.dtype)
    ### END SOLUTION


# %%
# For your own experiments. Write the function, then take the # away.
# rms_norm(torch.tensor([[6.0, 8.0], [0.0, 0.0]]), torch.ones(2))

# %% check_rms_norm
import checks

checks.run("rms_norm", points=4)

# %% ask_gated_feed_forward [markdown]
# ## 13.2 `gated_feed_forward`: one half decides about the other
#
# *About 10 minutes · easy ●○○*
#
# The feed-forward network of today's models has three matrices. Two of them map a token to $d_\text{ff}$ numbers each:
# the *gate* and the *up* projection. The gate goes through SiLU, and multiplies the other, number by number. The third
# matrix, *down*, maps the product back:
#
# $$
# \left(\text{SiLU}(x W_\text{gate}) \odot x W_\text{up}\right) W_\text{down}, \qquad \text{SiLU}(t) = \frac{t}{1 + e^{-t}}
# $$
#
# Here the matrices are on the right of row vectors, as in chapters 1 to 5.
#
# By hand, with d = d_ff = 1, x = 2, and the weights 0.5 for the gate, 3 for up and 10 for down: the gate is 1, and
# $\text{SiLU}(1) = 0.731$. Up is 6, and the result $0.731 \cdot 6 \cdot 10 = 43.9$.


# %% gated_feed_forward
def gated_feed_forward(x, W_gate, W_up, W_down):
    """Apply a feed-forward network with a gate (SwiGLU) to each token.

    Parameters
    ----------
    x : tensor, shape (..., d)
    W_gate, W_up : tensor, shape (d, d_ff)
    W_down : tensor, shape (d_ff, d)

    Returns
    -------
    tensor, shape (..., d)

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if sizes do not match, even if one of them is 1.
    """
    ### BEGIN SOLUTION
    if W_gate.shape != W_up.shape:
        raise ValueError(f"W_gate has shape {tuple(W_gate.shape)}, and W_up {tuple(W_up.shape)}")
    return (nn.functional.silu(x @ W_gate) * (x @ W_up)) @ W_down
    ### END SOLUTION


# %%
# For your own experiments.
# gated_feed_forward(torch.tensor([2.0]), *[torch.tensor([[w]]) for w in (0.5, 3.0, 10.0)])

# %% check_gated_feed_forward
import checks

checks.run("gated_feed_forward", points=3)

# %% ask_stretched_frequencies [markdown]
# ## 13.3 `stretched_frequencies`: positions beyond the trained length
#
# *About 20 minutes · medium ●●○*
#
# Pair i of a rotary encoding turns by $\omega_i = \text{base}^{-2i/d_k}$ radians from one token to the next. In a model
# that was trained on texts of `trained` tokens, and now reads texts that are `factor` times as long, the slow pairs get to
# angles that they never had in training. The fast ones have seen each angle many times.
#
# NTK-by-parts, a part of YaRN, therefore slows down only the slow pairs. Count the full turns of each pair within the
# trained length:
#
# $$
# r_i = \frac{\text{trained} \cdot \omega_i}{2 \pi}
# $$
#
# A pair with `high` turns or more keeps its frequency. A pair with `low` turns or fewer gets its frequency divided by the
# factor. In between, the share that is kept grows in a straight line with the turns:
#
# $$
# \kappa_i = \frac{r_i - \text{low}}{\text{high} - \text{low}} \text{, but at least 0 and at most 1} \qquad
# \text{result}_i = \omega_i \left( \kappa_i + \frac{1 - \kappa_i}{\text{factor}} \right)
# $$
#
# With a factor of 1, nothing changes.
#
# By hand, with low = 1, high = 4 and factor = 4: three pairs that make 10, 2.5 and 0.5 turns have the shares 1, 0.5 and 0,
# and their frequencies are multiplied by 1, 0.625 and 0.25.


# %% stretched_frequencies
def stretched_frequencies(d_k, factor, trained, base=10000.0, low=1.0, high=32.0):
    """Return the rotary frequencies for texts that are longer than those of the training (NTK-by-parts).

    Parameters
    ----------
    d_k : int
        The width of a head; even.
    factor : float
        How many times as long the texts become; at least 1.
    trained : int
        The length of the texts in training.
    base : float
        Pair i turns by base^(-2i / d_k) in a model that is not stretched.
    low, high : float
        Pairs with at most `low` turns within the trained length are slowed down by `factor`, those with at least `high`
        turns keep their frequency; low < high.

    Returns
    -------
    tensor of float32, shape (d_k / 2,)
        The frequency of each pair, in radians per token.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if d_k is odd.
    """
    ### BEGIN SOLUTION
    if d_k % 2:
        raise ValueError(f"d_k is {d_k}, which is odd")
    omega = base ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    turns = trained * omega / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return (omega * (kept + (1 - kept) / factor)).float()
    ### END SOLUTION


# %%
# For your own experiments.
# stretched_frequencies(8, 4.0, 1000) / stretched_frequencies(8, 1.0, 1000)

# %% check_stretched_frequencies
import checks

checks.run("stretched_frequencies", points=4)

# %% ask_sink_softmax [markdown]
# ## 13.4 `sink_softmax`: weight that goes nowhere
#
# *About 15 minutes · medium ●●○*
#
# The weights of a softmax sum to 1, even where a head finds nothing to attend to. A *sink* takes what is left: it is one
# learned number for each head ($\beta$ in the chapter), which counts in the denominator like the score of one more key.
# That key has no value, so it has no column in the result:
#
# $$
# A_{ij} = \frac{e^{S_{ij}}}{e^{\text{sink}} + \sum_{l} e^{S_{il}}}
# $$
#
# Each row sums to less than 1. Scores and sinks may be of any size and either sign, thousands apart, and the result has
# to be finite all the same (exercise 3 is about that). A score of −inf, which is a masked key, gets weight 0. If a row
# contains nothing else, all its weights are 0.
#
# By hand: the scores $(\ln 1, \ln 2)$ with a sink of $\ln 5$ have the weights $(1/8, 2/8)$.


# %% sink_softmax
def sink_softmax(S, sink):
    """Return the softmax over the keys and the sink of each head, without the sink's own weight.

    Parameters
    ----------
    S : tensor, shape (..., h, n_q, n_k)
        Scores; −inf where a query may not attend to a key.
    sink : tensor, shape (h,)
        A finite number for each head.

    Returns
    -------
    tensor, shape (..., h, n_q, n_k)

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if the number of sinks is not h, even if it is 1.
    """
    ### BEGIN SOLUTION
    if sink.shape != S.shape[-3:-2]:
        raise ValueError(f"scores of shape {tuple(S.shape)}, and sinks of shape {tuple(sink.shape)}")
    sink = sink[:, None, None]
    m = torch.maximum(S.amax(-1, keepdim=True), sink)  # (..., h, n_q, 1), finite in each row
    E = torch.exp(S - m)
    return E / (torch.exp(sink - m) + E.sum(-1, keepdim=True))
    ### END SOLUTION


# %%
# For your own experiments.
# sink_softmax(torch.tensor([[[1.0, 2.0]]]).log(), torch.tensor([5.0]).log())

# %% check_sink_softmax
import checks

checks.run("sink_softmax", points=4)

# %% ask_Block [markdown]
# ## 13.5 `Block`: one layer of today
#
# *About 40 minutes · hard ●●●*
#
# A block has two parts, each with its norm in front, and each adds its result to the stream:
#
# $$
# x' = x + \text{attention}(\text{norm}_1(x)) \qquad \text{result} = x' + \text{feed-forward}(\text{norm}_2(x'))
# $$
#
# The norms are `rms_norm` with the default ε, the feed-forward network is that of 13.2. Attention does the following:
#
# 1. `W_q`, `W_k` and `W_v` project the normed stream. Queries are split into `num_heads` heads of width $d_k$ =
#    d_model / num_heads, keys and values into `num_kv_heads` heads of the same width. Head i is made of columns
#    $i \cdot d_k$ to $(i + 1) \cdot d_k - 1$.
# 2. Each query and each key is normed over its $d_k$ numbers: `rms_norm` with the weight `q_norm` or `k_norm`, the same
#    weight for all heads. Then both are turned by `rotary`, which is given at the top, with the positions of the tokens
#    and `theta` as its base.
# 3. Query head i attends to key head i // (num_heads / num_kv_heads). Scores are divided by $\sqrt{d_k}$. There is no sink.
# 4. Token i sees the tokens up to itself. With a `window` w it sees only the last w of these: tokens i − w + 1 to i. The
#    window counts tokens in the sequence, whatever their `positions` are.
# 5. The heads are put next to each other in their order, and `W_o` mixes them.
#
# Weights are loaded by name, so the names and shapes count: seven `nn.Linear` without bias, and four
# `nn.Parameter`, which are all ones in a new block. A linear layer keeps its weight as (out, in).
#
# By hand: if the weights of `W_o` and `W_down` are 0, both parts add nothing, and the block returns x.


# %% Block
class Block(nn.Module):
    """One layer of a language model: grouped attention with rotary positions, and a gated feed-forward network.

    Parameters
    ----------
    d_model : int
        The width of the stream.
    num_heads, num_kv_heads : int
        The number of query heads, and that of key and value heads.
    d_ff : int
        The number of hidden units of the feed-forward network.
    window : int, optional
        How many tokens a token sees, itself included; at least 1. None: all tokens up to itself.
    theta : float
        The base of the rotary encoding.

    Attributes
    ----------
    d_model, num_heads, num_kv_heads, window
        The arguments.
    W_q, W_k, W_v, W_o : nn.Linear
        From d_model to num_heads * d_k, to num_kv_heads * d_k (both `W_k` and `W_v`), and from num_heads * d_k to
        d_model, where d_k = d_model / num_heads. No biases.
    W_gate, W_up, W_down : nn.Linear
        From d_model to d_ff (both `W_gate` and `W_up`), and back. No biases.
    norm1, norm2 : nn.Parameter, shape (d_model,)
        The weights of the norms before attention and before the feed-forward network.
    q_norm, k_norm : nn.Parameter, shape (d_k,)
        The weights of the norms of queries and keys.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if d_model is not a multiple of num_heads, num_heads is not a multiple of num_kv_heads,
        or d_k is odd.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, window=None, theta=10000.0):
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % (2 * num_heads) or num_heads % num_kv_heads:
            raise ValueError(f"d_model = {d_model}, num_heads = {num_heads}, num_kv_heads = {num_kv_heads}")
        d_k = d_model // num_heads
        self.d_model, self.num_heads, self.num_kv_heads = d_model, num_heads, num_kv_heads
        self.window, self.theta = window, theta
        self.W_q = nn.Linear(d_model, num_heads * d_k, bias=False)
        self.W_k = nn.Linear(d_model, num_kv_heads * d_k, bias=False)
        self.W_v = nn.Linear(d_model, num_kv_heads * d_k, bias=False)
        self.W_o = nn.Linear(num_heads * d_k, d_model, bias=False)
        self.W_gate = nn.Linear(d_model, d_ff, bias=False)
        self.W_up = nn.Linear(d_model, d_ff, bias=False)
        self.W_down = nn.Linear(d_ff, d_model, bias=False)
        self.norm1, self.norm2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(d_k)), nn.Parameter(torch.ones(d_k))
        ### END SOLUTION

    def forward(self, x, positions=None):
        """Apply attention, then the feed-forward network.

        Parameters
        ----------
        x : tensor, shape (b, n, d_model)
        positions : tensor of whole numbers, shape (n,), optional
            The position of each token, the same for all sequences. Default: 0 to n - 1.

        Returns
        -------
        tensor, shape (b, n, d_model)

        Raises
        ------
        ValueError, RuntimeError or IndexError
            Advice, worth no points: if the last size is not d_model, or there are not n positions.
        """
        ### BEGIN SOLUTION
        i = torch.arange(x.shape[1], device=x.device)
        positions = i if positions is None else positions
        normed = rms_norm(x, self.norm1)
        group_size = self.num_heads // self.num_kv_heads
        q = self.W_q(normed).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (b, h, n, d_k)
        k = self.W_k(normed).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)  # (b, h_kv, n, d_k)
        v = self.W_v(normed).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)
        q = rotary(rms_norm(q, self.q_norm), positions, self.theta)
        k = rotary(rms_norm(k, self.k_norm), positions, self.theta)
        k, v = k.repeat_interleave(group_size, dim=1), v.repeat_interleave(group_size, dim=1)
        mask = i <= i[:, None]
        if self.window is not None:
            mask = mask & (i > i[:, None] - self.window)
        S = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        A = S.masked_fill(~mask, -torch.inf).softmax(-1)  # (b, h, n, n)
        x = x + self.W_o((A @ v).transpose(1, 2).flatten(2))
        matrices = self.W_gate.weight.T, self.W_up.weight.T, self.W_down.weight.T
        return x + gated_feed_forward(rms_norm(x, self.norm2), *matrices)
        ### END SOLUTION


# %%
# For your own experiments.
# Block(8, 2, 1, 16, window=3)(torch.randn(1, 5, 8)).shape

# %% check_Block
import checks

checks.run("Block", points=8)

# %% reach [markdown]
# ## What a stack of blocks sees
#
# On the left is what `stretched_frequencies` does to the 64 pairs of a head of width 128, for a model that was trained
# on 4,096 tokens: fast pairs keep their frequency, slow ones lose the whole factor.
#
# On the right are six blocks, one on top of another, with random weights. The window is 4, and in the second line the
# fourth block has none. Each line shows how strongly the last of 40 tokens depends on each token: the length of the
# gradient, as a share of the largest. How far does a stack of windows reach, and what does one block without a window
# change?

# %% demo_reach
import matplotlib.pyplot as plt


def influence(windows, n=40):
    """Return how strongly the last token of a random stack of blocks depends on each token: (n,)."""
    with torch.random.fork_rng():
        torch.manual_seed(13)
        blocks = nn.Sequential(*[Block(16, 4, 2, 32, window) for window in windows])
        x = torch.randn(1, n, 16, requires_grad=True)
    (gradient,) = torch.autograd.grad(blocks(x)[0, -1].square().sum(), x)
    lengths = gradient[0].norm(dim=-1)
    return lengths / lengths.max()


figure, panels = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for factor in (2.0, 4.0, 16.0):
    share = stretched_frequencies(128, factor, 4096) / stretched_frequencies(128, 1.0, 4096)
    panels[0].plot(share, label=f"factor {factor:.0f}")
panels[0].set(title="stretched_frequencies", xlabel="pair", ylabel="share of the frequency", ylim=(0, 1.05))
panels[0].legend()
for windows, name in [([4] * 6, "six windows"), ([4, 4, 4, None, 4, 4], "five windows, one without")]:
    seen = influence(windows)
    panels[1].semilogy(seen.where(seen > 0, torch.nan), marker=".", label=f"{name}: {int((seen > 0).sum())} tokens")
panels[1].set(title="the last token depends on", xlabel="token", ylabel="gradient, share of the largest")
legend = panels[1].legend(loc="lower left")

# %% think [markdown]
# ## To think about: windows and a cache
#
# *About 5 minutes · medium ●●○*
#
# A model has 48 blocks. Five of every six have a window of 1,024 tokens, the sixth sees all tokens. How many tokens back
# can a block at the end look through windows alone, if the blocks without a window are left out? And which share of the
# cache for keys and values of a model without any window does this one need, for a text of 131,072 tokens?
#
# <details><summary>An answer</summary>
#
# A block with a window w moves information by at most w − 1 tokens. There are 40 of them, so the reach is
# 40 · 1,023 = 40,920 tokens. It gets there only in many steps, each of which mixes: the eight other blocks find a token
# at any distance in one step.
#
# A block with a window keeps only the last 1,024 tokens, the others keep all 131,072. That is
# 40 · 1,024 + 8 · 131,072 = 1,089,536 tokens instead of 48 · 131,072 = 6,291,456: 17 percent. Nearly all of it is the
# cache of the eight blocks without a window.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: weights from another convention
#
# *About 30 minutes · hard ●●●*
#
# Most published models pair column i of a head with column $i + d_k/2$ in their rotary encoding, and not columns 2i and
# 2i + 1. Write a block that does so, as a subclass of yours. Then find a permutation of the rows of `W_q` and `W_k`, and of
# the numbers in `q_norm` and `k_norm`, with which your own block gives the same results as that one. Why do `W_v` and
# `W_o` stay as they are? There are no points and no check for this task.

# %%
# Yours: the stretch task, or anything else.

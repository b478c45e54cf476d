# %% title [markdown]
# # 5. Masking
#
# A mask says which query may attend to which key. You write `causal_mask` and `padding_mask`, the two masks that
# nearly every model uses; `masked_softmax`, a softmax that is right for any masked score; and `masked_attention`,
# which uses it. Each takes a few lines of NumPy. Read chapter 5 of the book first; it shows what happens to fully
# masked rows. Its second page, *Going deeper*, explains what goes wrong with -1e9 and with float16.
#
# *About 75 minutes · medium ●●○*
#
# **How to work.** Run the cells from the top, in order. Replace the line `raise NotImplementedError()` with your
# code, run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every
# time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("causal_mask", points=4, seed=...)` in a cell of your own. You can earn partial points, and the checks
# are readable: open `checks.py` next to this notebook. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `05-masking.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import math

import numpy as np


def scaled_scores(Q, K):
    """Return the scores of every query with every key, divided by the square root of d_k (given; see chapter 2).

    Like `@`, it compares only the sizes d_k, and stretches leading dimensions of size 1.

    Parameters
    ----------
    Q : array, shape (..., n_q, d_k)
    K : array, shape (..., n_k, d_k)

    Returns
    -------
    array, shape (..., n_q, n_k)
        In the dtype of `Q` and `K`.

    Raises
    ------
    ValueError
        If the two sizes d_k differ.
    """
    return Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1])

# %% ask_by_hand [markdown]
# ## With a pencil: three words, none of which looks ahead
#
# *About 10 minutes · easy ●○○*
#
# Three words have the scores
#
# $$
# S = \begin{pmatrix} 0 & \ln 2 & \ln 3 \\ \ln 2 & 0 & \ln 3 \\ \ln 3 & \ln 2 & 0 \end{pmatrix} ,
# $$
#
# with a row for each query and a column for each key. The mask is causal: each word may attend to itself and to the words
# before it. **Find the weights** $A$, all nine of them. Write them as fractions, such as `1 / 7`, or to two decimals.

# %% by_hand
def by_hand():
    """Return the weights of the three words under a causal mask, computed by hand.

    Returns
    -------
    list of 3 lists of 3 numbers
        The rows of A. Tuples or an array also work.
    """
    ### BEGIN SOLUTION
    return [[1, 0, 0], [2 / 3, 1 / 3, 0], [1 / 2, 1 / 3, 1 / 6]]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Five rules for this notebook
#
# - Masks are boolean arrays, and True means "may attend". (PyTorch's `scaled_dot_product_attention` uses the same
#   convention; `nn.MultiheadAttention` uses the opposite.)
# - `...` in a shape stands for any number of leading batch dimensions (none, one, several), the same for all
#   arguments that have it. A mask *broadcasts* to the scores: it may have fewer leading dimensions, and size 1 in a
#   dimension in which the scores are larger. Two cases are not tested: a mask with more dimensions than the scores,
#   and a plain `True` in place of an array. You may assume that `Q`, `K` and `V` have the same leading dimensions.
# - A mask that does not broadcast to the scores raises `ValueError`; NumPy does that by itself. Advice, worth no
#   points: also raise `ValueError` for other size mismatches, which each function lists under *Raises*, even if one
#   of the two sizes is 1. Only the mask may be stretched to the scores, never the scores to the mask.
# - The result has the inputs' floating-point dtype: float32 gives float32, and float16 gives float16. Integers and
#   arguments of different dtypes are not tested.
# - Functions do not change their inputs.

# %% ask_causal_mask [markdown]
# ## 5.1 `causal_mask`: no looking ahead
#
# *About 10 minutes · medium ●●○*
#
# A model that predicts the next token must not see it. With as many queries as keys, query i may attend to
# keys 0 to i: its own token and all earlier ones.
#
# When the model generates token by token, there are fewer queries than keys: the queries belong to the newest tokens,
# and the keys of all earlier tokens are kept. Therefore queries and keys are counted **from the end**: the last query
# is the last token and sees every key. Query i sees key j when $j \le i + n_k - n_q$. With more queries than keys,
# the first queries see nothing.
#
# By hand, with n_q = 2 and n_k = 4 (1 is True): query 0 is at position 2 and sees keys 0 to 2; query 1 is at position
# 3 and sees all keys.
#
# $$
# \begin{pmatrix} 1 & 1 & 1 & 0 \\ 1 & 1 & 1 & 1 \end{pmatrix}
# $$

# %% causal_mask
def causal_mask(n_q, n_k):
    """Return the mask that hides every key after the query; queries and keys are counted from the end.

    Parameters
    ----------
    n_q, n_k : int
        The numbers of queries and of keys.

    Returns
    -------
    array of bool, shape (n_q, n_k)
        Entry (i, j) is True where query i may attend to key j: where j <= i + n_k - n_q.
    """
    ### BEGIN SOLUTION
    position = np.arange(n_q) + n_k - n_q  # of each query among the keys
    return np.arange(n_k) <= position[:, None]  # (n_k,) <= (n_q, 1) -> (n_q, n_k)
    ### END SOLUTION

# %%
# For your own experiments. Write the function, then take the # away.
# causal_mask(2, 4)

# %% check_causal_mask
import checks

checks.run("causal_mask", points=4)

# %% ask_padding_mask [markdown]
# ## 5.2 `padding_mask`: padding is not text
#
# *About 10 minutes · easy ●○○*
#
# Sequences of different lengths share one array with n tokens each; the shorter ones are padded at the end. No query
# may attend to the padding, so this mask does not depend on the query. The axis of size 1 in its shape, (batch, 1, n),
# takes the place of the queries, so that the mask broadcasts to scores (batch, n_q, n).
#
# By hand, for two sequences of lengths 3 and 1, with n = 4 (1 is True):
#
# $$
# \begin{pmatrix} 1 & 1 & 1 & 0 \end{pmatrix} \quad \text{and} \quad \begin{pmatrix} 1 & 0 & 0 & 0 \end{pmatrix},
# \quad \text{of shape (2, 1, 4) together.}
# $$

# %% padding_mask
def padding_mask(lengths, n):
    """Return the mask that hides the padding at the end of each sequence.

    Parameters
    ----------
    lengths : array of int, shape (batch,)
        The number of real tokens in each sequence, from 0 to n (never negative); there is at least one sequence.
    n : int
        The number of tokens in each sequence, including padding, at least 1. It may be above the longest length.

    Returns
    -------
    array of bool, shape (batch, 1, n)
        Entry (s, 0, j) is True where token j of sequence s is real: where j < lengths[s].

    Raises
    ------
    ValueError
        Advice, worth no points: if a length is above n.
    """
    ### BEGIN SOLUTION
    lengths = np.asarray(lengths)
    if (lengths > n).any():
        raise ValueError(f"a sequence of {lengths.max()} tokens does not fit into {n}")
    return np.arange(n) < lengths[:, None, None]  # (n,) < (batch, 1, 1) -> (batch, 1, n)
    ### END SOLUTION

# %%
# For your own experiments.
# padding_mask(np.array([3, 1]), 4)

# %% check_padding_mask
import checks

checks.run("padding_mask", points=3)

# %% ask_masked_softmax [markdown]
# ## 5.3 `masked_softmax`: weight only for visible keys
#
# *About 25 minutes · hard ●●●*
#
# Apply softmax along the last axis, over the *visible* keys, to which the query may attend. A *masked* key
# gets weight 0. For row i of the scores, with a mask $M_{ij}$ that is true if query i may attend to key j:
#
# $$
# A_{ij} = \frac{e^{S_{ij}}}{\sum_{l:\, M_{il}} e^{S_{il}}} \ \text{ where } M_{ij}, \qquad A_{ij} = 0 \ \text{ elsewhere.}
# $$
#
# Three guarantees make it useful:
#
# - The weight of a masked key is exactly 0 **for any score**: 1e30, infinite, NaN. Masked scores do not affect the
#   result.
# - The weights are right for visible scores of any finite size: 10000, or all of them around -1e10. (Near the largest
#   numbers of float16, the difference of two scores overflows to infinity and NumPy prints a warning. This costs no
#   points.)
# - A *fully masked* row, without any visible key, gets only zero weights, never NaN and never equal weights.
#
# By hand, with n_q = 2, n_k = 3: the scores $(0, \ln 3, 1000)$ with the mask $(1, 1, 0)$ give the weights
# $(1/4, 3/4, 0)$; with the mask $(0, 0, 0)$ they give $(0, 0, 0)$.

# %% masked_softmax
def masked_softmax(S, mask):
    """Return the softmax over the keys that may be attended to, and weight 0 for the others.

    Parameters
    ----------
    S : array, shape (..., n_q, n_k)
        Scores. Those of visible keys are finite; masked scores can have any value.
    mask : array of bool, broadcasts to the shape of `S`
        True where the query may attend to the key. For example (n_q, n_k), (1, n_k), (n_q, 1), (batch, 1, n_k).

    Returns
    -------
    array, shape (..., n_q, n_k)
        Weights in the dtype of `S`. Each row sums to 1, or is all 0 if it is fully masked.

    Raises
    ------
    ValueError
        If the mask does not broadcast to the scores. Advice, worth no points: also if `S` would be stretched to the mask.
    """
    ### BEGIN SOLUTION
    mask = np.broadcast_to(mask, S.shape)  # raises where it does not fit, and never stretches S
    S = np.where(mask, S, -np.inf)
    largest = S.max(axis=-1, keepdims=True)  # of what may be attended to; -inf where that is nothing
    E = np.exp(S - np.where(largest > -np.inf, largest, 0))
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total > 0, total, 1)
    ### END SOLUTION

# %%
# For your own experiments.
# masked_softmax(np.array([[0.0, np.log(3.0), 1000.0]]), np.array([[True, True, False]]))

# %% check_masked_softmax
import checks

checks.run("masked_softmax", points=8)

# %% ask_masked_attention [markdown]
# ## 5.4 `masked_attention`: attention with a mask
#
# *About 15 minutes · medium ●●○*
#
# Compute scaled scores (with the function given above), a masked softmax over the keys, and a weighted sum of the values:
# $A = \text{masked softmax}(Q K^\top / \sqrt{d_k})$ of shape (..., n_q, n_k), and $Z = A V$ of shape (..., n_q, d_v). A
# fully masked query gets zero weights and the result 0. Without a mask, every query may attend to every key. All entries
# of `Q`, `K` and `V` are finite, even those that are masked: 0 times NaN is NaN, and that is not tested.
#
# By hand, with n_q = 1, n_k = 3, d_k = 4, d_v = 1: $q = (1, 1, 1, 1)$ meets $k_1 = (0, 0, 0, 0)$,
# $k_2 = (2 \ln 3, 0, 0, 0)$ and $k_3 = (9, 9, 9, 9)$. The scaled scores are $(0, \ln 3, 18)$. With the mask
# $(1, 1, 0)$ the weights are $(1/4, 3/4, 0)$, and $v_1 = (4)$, $v_2 = (8)$, $v_3 = (1000)$ give $z = (7)$.

# %% masked_attention
def masked_attention(Q, K, V, mask=None):
    """Return scaled dot-product attention in which each query attends only to the keys that the mask allows.

    Parameters
    ----------
    Q : array, shape (..., n_q, d_k)
    K : array, shape (..., n_k, d_k)
    V : array, shape (..., n_k, d_v)
    mask : array of bool, broadcasts to (..., n_q, n_k), optional
        True where the query may attend to the key. None means no mask.

    Returns
    -------
    Z : array, shape (..., n_q, d_v)
        Row i is the sum of the values, weighted by row i of `A`.
    A : array, shape (..., n_q, n_k)
        The weights. Return both in a tuple, in this order. (A list also works.)

    Raises
    ------
    ValueError
        If the mask does not broadcast to the scores. Advice, worth no points: also if the two sizes d_k differ, if
        the numbers of keys and values differ, or if the scores would be stretched to the mask.
    """
    ### BEGIN SOLUTION
    S = scaled_scores(Q, K)
    A = masked_softmax(S, np.ones(S.shape, dtype=bool) if mask is None else mask)
    return A @ V, A
    ### END SOLUTION

# %%
# For your own experiments.
# Q, K = np.array([[1.0, 1, 1, 1]]), np.array([[0.0, 0, 0, 0], [2 * np.log(3.0), 0, 0, 0], [9.0, 9, 9, 9]])
# masked_attention(Q, K, np.array([[4.0], [8.0], [1000.0]]), np.array([[True, True, False]]))

# %% check_masked_attention
import checks

checks.run("masked_attention", points=6)

# %% sentences [markdown]
# ## Two sentences in one batch
#
# The second sentence is shorter and padded with a mark that is not a word. Each word has its own random vector, so the
# weights mean nothing: look at where they are zero (drawn in white). Masks are combined with `&`: a query may attend to
# a key when both masks allow it. Your functions compute all four columns.

# %% demo_sentences
import matplotlib.pyplot as plt

words = [["Ada", "bakes", "Boris", "fresh", "bread"], ["Boris", "sleeps", "well", "·", "·"]]
lengths, n, d = np.array([5, 3]), 5, 8
X = np.random.default_rng(1).standard_normal((2, n, d))
masks = {
    "no mask": np.ones((1, n), dtype=bool),  # (1, n)
    "padding": padding_mask(lengths, n),  # (2, 1, n)
    "causal": causal_mask(n, n),  # (n, n)
    "both": causal_mask(n, n) & padding_mask(lengths, n),  # (n, n) & (2, 1, n) -> (2, n, n)
}


def show_weights(axes, A, words, title):
    """Draw weights (n, n), with a row for each query word; a weight of exactly 0 is white."""
    picture = axes.imshow(np.ma.masked_equal(A, 0), cmap="cividis", vmin=0, vmax=1)
    axes.set_xticks(range(n), words, rotation=60)
    axes.set_yticks(range(n), words)
    axes.set_title(title)
    return picture


figure, grid = plt.subplots(2, 4, figsize=(11, 6), layout="constrained")
for column, (name, mask) in enumerate(masks.items()):
    Z, A = masked_attention(X, X, X, mask)
    for sentence in (0, 1):
        picture = show_weights(grid[sentence, column], A[sentence], words[sentence], name if sentence == 0 else "")
figure.supxlabel("looks at")
figure.supylabel("word that asks")
colours = figure.colorbar(picture, ax=grid, label="weight", shrink=0.7)

# %% leak [markdown]
# ## Does the future leak?
#
# The best test of a causal mask does not look at the weights: change one word, and see which results change. With the
# mask, the results of all earlier words must stay the same, to the last bit. Move the slider to change another word; the
# words before it keep a bar of exactly 0.

# %% demo_leak
def show_leak(changed=2):
    """Draw how much each word's result changes when word number `changed` is replaced, with and without the mask."""
    before, after = X[0], X[0].copy()
    after[changed] = np.random.default_rng(2).standard_normal(d)
    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    for shift, (name, hatch) in enumerate([("no mask", "//"), ("causal", "")]):
        Z_before, _ = masked_attention(before, before, before, masks[name])
        Z_after, _ = masked_attention(after, after, after, masks[name])
        change = np.abs(Z_after - Z_before).max(axis=-1)
        colour = ["#E69F00", "#0072B2"][shift]
        axes.bar(np.arange(n) + 0.4 * shift - 0.2, change, width=0.4, label=name, color=colour, hatch=hatch)
        print(f"{name:>8}:", "  ".join(f"{word} {by:.3g}" for word, by in zip(words[0], change, strict=True)))
    axes.set_xticks(range(n), words[0])
    axes.set(ylabel="largest change of the result", title=f'"{words[0][changed]}" becomes another word')
    axes.legend()
    plt.show()


try:
    from ipywidgets import interact

    interact(show_leak, changed=(0, n - 1)) if "get_ipython" in globals() else show_leak()
except ImportError:
    show_leak()

# %% think [markdown]
# ## To think about: nothing to look at
#
# *About 5 minutes · medium ●●○*
#
# Here, a fully masked row gets zero weights. Someone proposes equal weights, $1 / n_k$ for each key, "because a row of
# weights sums to 1". Name a case where that does harm. Think about what the result of such a row consists of, and about
# your leak test. Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# Equal weights mix all the values that the mask should hide: padding, or later words. With more queries than keys, the
# first queries of a causal mask would see the future. The leak test would find it, since changing a hidden word changes
# their results. In the backward pass the hidden values would also get gradients. With zero weights the result is 0 for
# any masked value, and no gradient flows. Softmax guarantees a sum of 1 for a query that may attend to some key. For
# a fully masked query, the mask's guarantee is more important: no weight for a masked key.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: a sliding window
#
# *About 30 minutes · hard ●●●*
#
# Let each word see itself and the $w - 1$ words before it. Write `window_mask(n_q, n_k, w)`, aligned at the end like
# `causal_mask`. Then stack layers: the result of `masked_attention(X, X, X, mask)` is the next layer's `X`. After how many
# layers can information from the first of n words reach the last? Guess a formula in n and w, and test it as the last
# figure does: change the first word, and see whether the last result changes at all. This task has no points and no check.

# %%
# Yours: the stretch task, or anything else.

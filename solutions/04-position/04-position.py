# %% title [markdown]
# # 4. Position
#
# Without a mask, self-attention does not see the order of its words. With three functions you measure this and fix it:
# `permutation_gap`, `sinusoidal_encoding` and `rotary`. Each takes a few lines of NumPy. Read chapter 4 of the book
# first. It shows every step for one small example; here you write the general form.
#
# *About 60 minutes · medium ●●○*
#
# **How to work.** Run the cells from the top, in order. Replace the line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("rotary", points=9, seed=...)` in a cell of your own. You can earn partial points, and the checks are
# readable: open `checks.py` next to this notebook. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `04-position.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import numpy as np


def softmax(S):
    """Softmax over the last axis (given; exercise 3 is about it).

    Parameters
    ----------
    S : array, shape (..., n)
        Scores.

    Returns
    -------
    array, shape (..., n)
        Positive weights that sum to 1 along the last axis, of the dtype of `S`.
    """
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)


def self_attention(X):
    """Self-attention in which every word is its own query, key and value (given).

    Parameters
    ----------
    X : array, shape (n, d)
        n words of d numbers each.

    Returns
    -------
    array, shape (n, d)
        Row i is a mixture of all words, with the weights that word i gives them.
    """
    return softmax(X @ X.T / np.sqrt(X.shape[-1])) @ X

# %% ask_by_hand [markdown]
# ## With a pencil: two hands of a clock
#
# *About 10 minutes · medium ●●○*
#
# A rotary encoding rotates each pair of neighboring columns of a vector. At position $p$, pair $i = 0, 1, \ldots$ rotates
# by the angle $p \cdot \text{base}^{-2i/d}$; a positive angle turns $(1, 0)$ toward $(0, 1)$.
#
# **Rotate** $x = (1,\ 2,\ 3,\ 1)$, so $d = 4$, at position $p = \pi$ with base 4. You need two angles, two rotations and no
# calculator: all four numbers are integers. A position need not be an integer; this one makes the angles easy.

# %% by_hand
def by_hand():
    """Return x, rotated at position pi with base 4, worked out with a pencil.

    Returns
    -------
    list of 4 numbers
        A tuple or an array also works.
    """
    ### BEGIN SOLUTION
    return [-1, -2, -1, 3]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Four rules for all three functions
#
# - Places and positions are counted from 0. The words of a sequence are the rows of its array: (n, d) is n words of
#   d numbers each. `...` in front stands for any number of leading batch dimensions (none, one or several).
# - Advice, worth no points: if the sizes that a function names under *Raises* do not fit, raise `ValueError`, even if one
#   of them is 1. (NumPy silently stretches a dimension of size 1, and indexing doesn't check lengths.)
# - A result computed from an array `X` has the floating dtype of `X`: float32 input gives a float32 result; the same
#   holds for float16 and float64. Integers in `X` are not tested.
# - The functions do not change their inputs.

# %% ask_permutation_gap [markdown]
# ## 4.1 `permutation_gap`: does the order matter?
#
# *About 10 minutes · easy ●○○*
#
# A permutation $p$ of n places reorders the rows of `X` (n, d): `X[p]`, whose row i is row $p_i$ of `X`. A function is
# *permutation equivariant* if reordering its input reorders its output in the same way and does nothing else:
# `attend(X[p])` equals `attend(X)[p]`, both (n, d_v). The *gap* is the largest absolute difference between
# the two:
#
# $$
# \max_{i, j} \left| \texttt{attend}(X[p])_{ij} - \texttt{attend}(X)[p]_{ij} \right| .
# $$
#
# It is 0, up to rounding, for a function that does not see the order.
#
# By hand, with n = 3 and d = 1: `attend` is the running sum over the rows, $X = (1, 2, 4)^\top$ and $p = (2, 0, 1)$.
# Then $X[p] = (4, 1, 2)^\top$, and its running sum is $(4, 5, 7)^\top$. The running sum of $X$ is $(1, 3, 7)^\top$;
# reordered, it is $(7, 1, 3)^\top$. The differences are $(-3, 4, 4)^\top$ and the gap is 4: a running sum sees the
# order.

# %% permutation_gap
def permutation_gap(attend, X, permutation):
    """Measure how far a function of a sequence is from permutation equivariance.

    Parameters
    ----------
    attend : function
        Takes an array (n, d), which it does not change, and returns an array (n, d_v).
    X : array, shape (n, d)
    permutation : array of integers, shape (n,)
        Each of 0 to n - 1, once. The caller guarantees this; you only have to check the length.

    Returns
    -------
    float
        One Python or NumPy number: the largest |attend(X[p]) - attend(X)[p]| of all entries.

    Raises
    ------
    ValueError
        Advice, worth no points: if the length of the permutation is not n.
    """
    ### BEGIN SOLUTION
    if len(permutation) != len(X):
        raise ValueError(f"X has {len(X)} rows, and the permutation has length {len(permutation)}")
    return float(np.abs(attend(X[permutation]) - attend(X)[permutation]).max())
    ### END SOLUTION

# %%
# For your own experiments. Write the function, then remove the #.
# permutation_gap(lambda X: np.cumsum(X, axis=0), np.array([[1.0], [2.0], [4.0]]), np.array([2, 0, 1]))

# %% check_permutation_gap
import checks

checks.run("permutation_gap", points=5)

# %% ask_sinusoidal_encoding [markdown]
# ## 4.2 `sinusoidal_encoding`: a row of waves for each position
#
# *About 15 minutes · medium ●●○*
#
# Attention cannot see positions, but you can write them into the words: add a row of d_model numbers that depends only
# on the position. The columns form pairs, $i = 0, \dots, d_\text{model}/2 - 1$. Pair i is a clock hand that turns by
# $10000^{-2i/d_\text{model}}$ radians from one position to the next: the first hand turns fast, the last one hardly
# moves. The result $E$ has shape (n, d_model), and for position p (row p)
#
# $$
# E_{p,\,2i} = \sin\frac{p}{10000^{2i/d_\text{model}}}, \qquad
# E_{p,\,2i+1} = \cos\frac{p}{10000^{2i/d_\text{model}}} .
# $$
#
# By hand, with n = 3 and d_model = 4: the two powers are $10000^0 = 1$ and $10000^{2/4} = 100$, so
#
# $$
# E =
# \begin{pmatrix} \sin 0 & \cos 0 & \sin 0 & \cos 0 \\ \sin 1 & \cos 1 & \sin 0.01 & \cos 0.01 \\
# \sin 2 & \cos 2 & \sin 0.02 & \cos 0.02 \end{pmatrix} \approx
# \begin{pmatrix} 0 & 1 & 0 & 1 \\ 0.841 & 0.540 & 0.010 & 1.000 \\ 0.909 & -0.416 & 0.020 & 1.000 \end{pmatrix}
# $$

# %% sinusoidal_encoding
def sinusoidal_encoding(n, d_model):
    """Return the sinusoidal encoding of the positions 0 to n - 1 (Vaswani et al., 2017).

    Parameters
    ----------
    n : int
        The number of positions, at least 1.
    d_model : int
        The width of a row: even, and at least 2.

    Returns
    -------
    array, shape (n, d_model)
        In float64 or float32, and computed in either: the checks allow for float32 angles, which are off by about
        1e-4 at positions near 1000. Columns 2i and 2i + 1 of row p are the sine and the cosine of
        p / 10000^(2i / d_model).

    Raises
    ------
    ValueError
        Advice, worth no points: if d_model is odd.
    """
    ### BEGIN SOLUTION
    if d_model % 2:
        raise ValueError(f"d_model should be even, and is {d_model}")
    positions = np.arange(n)[:, None]  # (n, 1)
    angles = positions / 10000.0 ** (np.arange(0, d_model, 2) / d_model)  # (n, d_model / 2)
    E = np.empty((n, d_model))
    E[:, 0::2] = np.sin(angles)
    E[:, 1::2] = np.cos(angles)
    return E
    ### END SOLUTION

# %%
# For your own experiments.
# np.round(sinusoidal_encoding(3, 4), 3)

# %% check_sinusoidal_encoding
import checks

checks.run("sinusoidal_encoding", points=6)

# %% ask_rotary [markdown]
# ## 4.3 `rotary`: turn the vectors instead
#
# *About 20 minutes · hard ●●●*
#
# A rotary encoding adds nothing. It rotates queries and keys: each pair of columns 2i and 2i + 1 turns like a hand of
# the same clock. The pair $(x, y)$ of a vector at position p rotates by the angle $t = p \cdot \text{base}^{-2i/d}$,
#
# $$
# (x, y) \;\to\; (x \cos t - y \sin t,\;\; x \sin t + y \cos t) .
# $$
#
# When a query at position $p_q$ and a key at position $p_k$ have been rotated, their dot product depends on the positions
# only through the distance $p_q - p_k$: rotating both by the same angle changes nothing. `X` has shape (..., n, d) with an
# even d, and `positions` (n,) contains the position of each row, the same for all leading dimensions. Positions can be
# any numbers: they need not start at 0 (a model that generates text adds one word at a time, at its own position), and
# they need not be ordered, integer or positive.
#
# By hand, with n = 1, d = 4 and base = 10000, at position $\pi/2$: the first pair rotates by
# $\frac{\pi}{2} \cdot 10000^0$, a quarter turn, and the second by
# $\frac{\pi}{2} \cdot 10000^{-2/4} = \frac{\pi}{200} \approx 0.0157$, whose sine is about 0.0157 and whose cosine is
# 0.9999. So $(3, 1, 2, 0)$ becomes about $(-1, 3, 2.000, 0.031)$.

# %% rotary
def rotary(X, positions, base=10000.0):
    """Rotate each pair of columns by an angle that grows with the position (RoPE; Su et al., 2024).

    Parameters
    ----------
    X : array, shape (..., n, d)
        Queries or keys; d is even.
    positions : array, shape (n,)
        The position of each row, an integer or not, the same for all leading dimensions. The shape (n, 1) is not
        tested.
    base : float
        Pair i rotates by position * base^(-2i / d) radians.

    Returns
    -------
    array, shape (..., n, d)
        In the dtype of `X`. Compute the angles in float32 or float64, even if `X` is float16, which is too coarse.
        Either works at positions up to 1000.

    Raises
    ------
    ValueError
        Advice, worth no points: if d is odd, or the number of positions differs from n.
    """
    ### BEGIN SOLUTION
    n, d = X.shape[-2:]
    if d % 2:
        raise ValueError(f"d should be even, and is {d}")
    if len(positions) != n:
        raise ValueError(f"X has {n} rows, and there are {len(positions)} positions")
    angles = positions[:, None] * base ** (-np.arange(0, d, 2) / d)  # (n, d / 2)
    cos, sin = np.cos(angles), np.sin(angles)
    x, y = X[..., 0::2], X[..., 1::2]  # (..., n, d / 2) each
    turned = np.empty_like(X)
    turned[..., 0::2] = x * cos - y * sin
    turned[..., 1::2] = x * sin + y * cos
    return turned
    ### END SOLUTION

# %%
# For your own experiments.
# np.round(rotary(np.array([[3.0, 1.0, 2.0, 0.0]]), np.array([np.pi / 2])), 3)

# %% check_rotary
import checks

checks.run("rotary", points=9)

# %% cat_and_mouse [markdown]
# ## Who chases whom
#
# *cat chases mouse* and *mouse chases cat* are the same three words in different orders. Each word has a random vector.
# The bars show the result for *cat* in both sentences. Without positions it is the same vector, although one cat hunts and
# the other flees. With your encoding added to the words, attention can distinguish the two sentences.

# %% demo_cat_and_mouse
import matplotlib.pyplot as plt

words = ["cat", "chases", "mouse"]
X = np.random.default_rng(4).standard_normal((3, 8))  # (3, 8): a vector for each word
turned_round = np.array([2, 1, 0])  # mouse chases cat


def with_positions(X):
    """Self-attention (n, d) -> (n, d) over words that carry their positions."""
    return self_attention(X + sinusoidal_encoding(*X.shape))


figure, panels = plt.subplots(1, 2, figsize=(8.5, 3), sharey=True)
names = ["without positions", "with positions"]
for axes, attend, name in zip(panels, [self_attention, with_positions], names, strict=True):
    gap = permutation_gap(attend, X, turned_round)
    there, back = attend(X)[0], attend(X[turned_round])[2]  # (8,) each: the cat of either sentence
    axes.bar(np.arange(8) - 0.2, there, 0.4, color="#0072B2", label="cat chases mouse")
    axes.bar(np.arange(8) + 0.2, back, 0.4, color="#E69F00", hatch="//", label="mouse chases cat")
    axes.set(title=f"{name}: gap {gap:.2g}", xlabel="entry of the result for cat")
    axes.axhline(0, color="black", linewidth=0.8)
panels[0].set_ylabel("value")
panels[0].legend()
figure.tight_layout()

# %% clocks [markdown]
# ## The waves, and what turning does
#
# Left: your encoding, one row for each position. The columns on the left turn fast; those on the right hardly move.
# Right: the dot product of one query and one key as their distance changes, at three places in a long text. The three
# curves coincide, because only the distance matters.

# %% demo_clocks
figure, (waves, dots) = plt.subplots(1, 2, figsize=(10, 3.8))
picture = waves.imshow(sinusoidal_encoding(60, 32), cmap="cividis", aspect="auto", interpolation="nearest")
waves.set(xlabel="column", ylabel="position", title="sinusoidal_encoding(60, 32)")
figure.colorbar(picture, label="value")

query, key = np.ones((2, 1, 32))  # (1, 32) each
distances = np.arange(-40, 41)
for start, width, colour in [(50, 8, "#56B4E9"), (500, 4, "#0072B2"), (900, 1.2, "#000000")]:
    turned_key = rotary(key, np.array([start]))
    products = [float((rotary(query, np.array([start + m])) @ turned_key.T)[0, 0]) for m in distances]
    dots.plot(distances, products, color=colour, linewidth=width, label=f"key at {start}")
dots.set(xlabel="position of the query minus position of the key", ylabel="dot product", title="rotary")
dots.legend()
figure.tight_layout()

# %% think [markdown]
# ## To think about: why are values not turned?
#
# *About 5 minutes · medium ●●○*
#
# Rotary encodings rotate queries and keys, but not values. Suppose that the values were also rotated, each at its own
# position. What would the result for a query then depend on that it does not depend on now? Compare a sentence with the
# same sentence shifted by 100 positions. Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# The weights would be the same for both sentences, because they depend only on differences of positions. But the result is
# a mixture of values, and each value would be rotated by its own position. Shifted by 100 positions, every value is rotated
# further, and so is the whole result. It would depend on where the sentence is in the text, not only on how its words are
# arranged. (Rotating the result back by the query's position would fix this: then the values would also depend only on
# distances.)
#
# </details>

# %% stretch [markdown]
# ## A stretch task: the other way to pair
#
# *About 25 minutes · hard ●●●*
#
# Many libraries pair column i with column i + d/2 instead of pairing neighbors. Write `rotary_halves(X, positions, base)`
# that does so. A model with weights for one pairing can be converted to the other by reordering the columns of $W_q$ and
# $W_k$ once. Find the permutation of columns, and show with `np.abs(...).max()` that the scores of rotated queries and keys
# are the same. What happens to the scores when only $W_q$ is reordered? This task has no points and no check.

# %%
# Yours: the stretch task, or anything else.

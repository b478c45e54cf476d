# %% title [markdown]
# # 1. Queries, keys and values
#
# Five short functions take you from a sequence of vectors to attention: `project`, `qkv`, `scores`, `weighted_sum` and
# `soft_lookup`. Each takes one to three lines of NumPy. Read chapter 1 of the book first. It shows every step for one
# query; here you write the general form.
#
# *About 50 minutes · easy ●○○*
#
# **How to work.** Run the cells from the top, in order. Replace the line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("project", points=4, seed=...)` in a cell of your own. You can earn partial points, and the checks are
# readable: open `checks.py` next to this notebook.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `01-qkv.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import numpy as np


def softmax(S):
    """Softmax over the last axis (given; chapter 3 is about it).

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

# %% ask_by_hand [markdown]
# ## With a pencil: attention from end to end
#
# *About 10 minutes · medium ●●○*
#
# Before you program anything, compute all of it once by hand, for one word of three. The words are the rows of $X$:
#
# $$
# X = \begin{pmatrix} 1 & 0 \\ 1 & 1 \\ 0 & 2 \end{pmatrix}, \quad
# W_q = \begin{pmatrix} 3 & 1 \\ -1 & 1 \end{pmatrix}, \quad
# W_k = \begin{pmatrix} \ln 2 & 0 \\ 1 & -1 \end{pmatrix}, \quad
# W_v = \begin{pmatrix} 9 & 9 \\ 0 & 18 \end{pmatrix} .
# $$
#
# **What does the second word become?** Find its query $q_2$ and all three keys, the three scores $q_2 \cdot k_j$, the
# weights $e^{s_j} / \sum_m e^{s_m}$, and the mixture $z_2$ of the values with these weights. Both numbers are integers.
# Keep $\ln 2$ as a symbol until you take $e$ to its power: $e^{\ln 2} = 2$, so $e^{3 \ln 2} = 2^3 = 8$.

# %% by_hand
def by_hand():
    """Return the result for the second word, worked out with a pencil.

    Returns
    -------
    list of 2 numbers
        The row z_2. A tuple or an array also works.
    """
    ### BEGIN SOLUTION
    return [8, 20]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% ask_project [markdown]
# ## 1.1 `project`: one matrix, applied to every vector
#
# *About 5 minutes · easy ●○○*
#
# Each row of `X` is one token's vector. The same matrix `W` turns each of them into a new vector: row i of the
# result is $x_i W$.
#
# By hand, with n = 2, d_in = 2, d_out = 3:
#
# $$
# \begin{pmatrix} 1 & 2 \\ 0 & 3 \end{pmatrix}
# \begin{pmatrix} 1 & 0 & 2 \\ 0 & 1 & 1 \end{pmatrix} =
# \begin{pmatrix} 1 & 2 & 4 \\ 0 & 3 & 3 \end{pmatrix}
# $$
#
# **The checks also test the following**, here and in the functions below. `@` takes care of all of it; with `*`, loops
# or `np.einsum` you have to do it yourself.
#
# - `...` in a shape stands for leading batch dimensions (none, one or several): `X` of shape (..., n, d) holds one
#   sequence for each index of them. You may assume that all arguments have the same leading dimensions.
# - If the inner dimensions named under *Raises* differ, raise `ValueError`, even if one of them is 1.
# - float32 inputs give a float32 result; the same holds for float16 and float64. Your functions need not handle
#   integers, or arguments of different dtypes.
# - The functions do not change their inputs.

# %% project
def project(X, W):
    """Project every vector of a sequence with one matrix.

    Parameters
    ----------
    X : array, shape (..., n, d_in)
        n vectors of d_in numbers, for each index of the leading dimensions.
    W : array, shape (d_in, d_out)
        One matrix for all vectors.

    Returns
    -------
    array, shape (..., n, d_out)

    Raises
    ------
    ValueError
        If the two values of d_in differ.
    """
    ### BEGIN SOLUTION
    return X @ W
    ### END SOLUTION

# %%
# For your own experiments. Write the function, then remove the #.
# project(np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]))

# %% check_project
import checks

checks.run("project", points=4)

# %% ask_qkv [markdown]
# ## 1.2 `qkv`: three views of the same sequence
#
# *About 5 minutes · easy ●○○*
#
# A token's query is what it asks, its key is what it answers to, and its value is what it passes on. All three are
# projections of the same vector. Queries and keys must have the same width, d_k; values may have another width, d_v.
#
# By hand: $x = (1, 2)$ with
# $W_q = \begin{pmatrix} 1 \\ 0 \end{pmatrix}$, $W_k = \begin{pmatrix} 0 \\ 1 \end{pmatrix}$
# and $W_v = \begin{pmatrix} 1 & 1 \\ 0 & 1 \end{pmatrix}$ gives $q = (1)$, $k = (2)$, $v = (1, 3)$.

# %% qkv
def qkv(X, W_q, W_k, W_v):
    """Make the queries, keys and values of a sequence.

    Parameters
    ----------
    X : array, shape (..., n, d_in)
    W_q, W_k : array, shape (d_in, d_k)
    W_v : array, shape (d_in, d_v)

    Returns
    -------
    Q, K : array, shape (..., n, d_k)
    V : array, shape (..., n, d_v)
        A tuple of three, in this order. (A list of three also works.)

    Raises
    ------
    ValueError
        If d_in of a matrix differs from d_in of `X`. You may assume that `W_q` and `W_k` have the same d_k.
    """
    ### BEGIN SOLUTION
    return project(X, W_q), project(X, W_k), project(X, W_v)
    ### END SOLUTION

# %%
# For your own experiments.
# W_q, W_k, W_v = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]), np.array([[1.0, 1.0], [0.0, 1.0]])
# qkv(np.array([[1.0, 2.0]]), W_q, W_k, W_v)

# %% check_qkv
import checks

checks.run("qkv", points=3)

# %% ask_scores [markdown]
# ## 1.3 `scores`: every query meets every key
#
# *About 10 minutes · easy ●○○*
#
# The score of query i and key j is their dot product, $S_{ij} = q_i \cdot k_j$. It is not scaled yet; scaling comes in
# chapter 2. Rows belong to queries, columns to keys. There may be more keys than queries, or fewer.
#
# By hand, with n_q = 1, n_k = 3, d_k = 2: $q = (1, 2)$ and the keys $k_1 = (3, 0)$, $k_2 = (0, 1)$, $k_3 = (1, 1)$
# give the scores $(3, 2, 3)$.

# %% scores
def scores(Q, K):
    """Return the dot product of every query with every key.

    Parameters
    ----------
    Q : array, shape (..., n_q, d_k)
    K : array, shape (..., n_k, d_k)

    Returns
    -------
    array, shape (..., n_q, n_k)
        Entry (i, j) is q_i . k_j.

    Raises
    ------
    ValueError
        If the two values of d_k differ.
    """
    ### BEGIN SOLUTION
    return Q @ np.swapaxes(K, -1, -2)
    ### END SOLUTION

# %%
# For your own experiments.
# scores(np.array([[1.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))

# %% check_scores
import checks

checks.run("scores", points=4)

# %% ask_weighted_sum [markdown]
# ## 1.4 `weighted_sum`: mix the values
#
# *About 5 minutes · easy ●○○*
#
# Row i of `A` holds query i's weights, one for each key. The result for query i is the weighted sum of the values,
# $z_i = \sum_j A_{ij} v_j$.
#
# By hand, with n_q = 1, n_k = 2, d_v = 3: the weights $(0.25, 0.75)$ for $v_1 = (4, 0, 8)$ and $v_2 = (0, 4, 8)$
# give $(1, 3, 8)$.

# %% weighted_sum
def weighted_sum(A, V):
    """Mix the values with each query's weights.

    Parameters
    ----------
    A : array, shape (..., n_q, n_k)
        Row i holds the weights of query i. Use them unchanged: some may be negative, and a row need not sum
        to 1.
    V : array, shape (..., n_k, d_v)

    Returns
    -------
    array, shape (..., n_q, d_v)

    Raises
    ------
    ValueError
        If the two values of n_k differ.
    """
    ### BEGIN SOLUTION
    return A @ V
    ### END SOLUTION

# %%
# For your own experiments.
# weighted_sum(np.array([[0.25, 0.75]]), np.array([[4.0, 0.0, 8.0], [0.0, 4.0, 8.0]]))

# %% check_weighted_sum
import checks

checks.run("weighted_sum", points=4)

# %% ask_soft_lookup [markdown]
# ## 1.5 `soft_lookup`: a dictionary that answers with a mixture
#
# *About 10 minutes · medium ●●○*
#
# A dictionary finds the one key that equals the query. Attention compares the query with all keys, turns the
# scores into weights with `softmax` (given above) and mixes all values. Combine your functions.
#
# By hand: $q = (1)$, $k_1 = (0)$ and $k_2 = (\ln 3)$ give the scores $(0, \ln 3)$, the weights $(1/4, 3/4)$,
# and with $v_1 = (4)$ and $v_2 = (8)$ the result $(7)$.

# %% soft_lookup
def soft_lookup(Q, K, V):
    """Look up every query among the keys; return the mixture of the values.

    Parameters
    ----------
    Q : array, shape (..., n_q, d_k)
    K : array, shape (..., n_k, d_k)
    V : array, shape (..., n_k, d_v)

    Returns
    -------
    array, shape (..., n_q, d_v)
        Row i is the sum of the values, weighted by the softmax of query i's raw scores.

    Raises
    ------
    ValueError
        If the two values of d_k differ, or the numbers of keys and values.
    """
    ### BEGIN SOLUTION
    return weighted_sum(softmax(scores(Q, K)), V)
    ### END SOLUTION

# %%
# For your own experiments.
# soft_lookup(np.array([[1.0]]), np.array([[0.0], [np.log(3.0)]]), np.array([[4.0], [8.0]]))

# %% check_soft_lookup
import checks

checks.run("soft_lookup", points=5)

# %% sentence [markdown]
# ## A sentence, seen by its own words
#
# Five words, each with a handmade vector: (is it a person, is it food, is it an action). The matrices are also
# handmade: an action asks for persons and food, and a noun asks for actions. Each row below shows one word's weights
# over all five words, computed by your functions.

# %% demo_sentence
import matplotlib.pyplot as plt

words = ["Ada", "bakes", "Boris", "fresh", "bread"]
X = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0.4, 0], [0, 1, 0]], dtype=float)
W_q = np.array([[0, 2], [0, 2], [3, 0]], dtype=float)  # (3, 2): nouns ask for actions, actions for nouns
W_k = np.array([[1, 0], [1, 0], [0, 1]], dtype=float)  # (3, 2): am I a noun, am I an action
W_v = np.eye(3)  # (3, 3): pass on what you are


def show_weights(A, title):
    """Draw weights (n, n): a row for each word that asks, a column for each word that it looks at."""
    figure, axes = plt.subplots(figsize=(4.6, 4))
    picture = axes.imshow(A, cmap="cividis", vmin=0, vmax=1)
    axes.set_xticks(range(len(words)), words, rotation=45)
    axes.set_yticks(range(len(words)), words)
    axes.set(xlabel="looks at", ylabel="word that asks", title=title)
    figure.colorbar(picture, label="weight")
    figure.tight_layout()


Q, K, V = qkv(X, W_q, W_k, W_v)
show_weights(softmax(scores(Q, K)), "Who looks at whom")
print("bakes, after looking round:", np.round(soft_lookup(Q, K, V)[1], 2), "(person, food, action)")

# %% think [markdown]
# ## To think about: could one matrix less do?
#
# *About 5 minutes · medium ●●○*
#
# `qkv` makes three vectors from each word. Suppose that a model drops $W_v$ and passes on the keys instead: it returns
# `soft_lookup(Q, K, K)`. What can a word then no longer do? Think of the second word in the question for a pencil,
# and of what its key would have to be. Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# A word would pass on exactly the vector that it is found by. Its key then has two jobs: to point in the direction of
# the queries that should find it, and to carry the content that they need. Changing the key for one job also changes it
# for the other. With a separate value, a word can be found as a noun and pass on which noun it is. The widths are also
# tied: $d_v = d_k$. Chapter 1 begins with these two parts: the label that an entry is found by, and its content.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: one key at a time
#
# *About 30 minutes · hard ●●●*
#
# `soft_lookup` stores all scores (n_q, n_k) at once. Write `soft_lookup_streamed(Q, K, V)`, which goes through the keys
# one by one, reads each only once, and keeps three things for each query: the largest score so far, the sum of the
# exponentials, and the sum of the values times their exponentials. When a larger score appears, both sums have to be
# scaled down by a factor: which one? Compare with `soft_lookup`, also for scores around 1000. This task has no points
# and no check. GPUs compute attention over long texts in this way.

# %%
# Yours: the stretch task, or anything else.

# %% wider [markdown]
# ## A question for the next chapter
#
# The same five words, with random queries and keys of d numbers each. Move the slider to a larger d: the scores
# grow, and each word ends up looking at only one other word. Chapter 2 explains why, and what to do about it.

# %% demo_width
def show_width(d=64):
    """Draw the weights of random queries and keys that have d numbers each."""
    rng = np.random.default_rng(1)
    Q, K = rng.standard_normal((2, len(words), d))
    show_weights(softmax(scores(Q, K)), f"d = {d}")


try:
    from ipywidgets import interact

    interact(show_width, d=(1, 257, 8)) if "get_ipython" in globals() else show_width()
except ImportError:
    show_width()

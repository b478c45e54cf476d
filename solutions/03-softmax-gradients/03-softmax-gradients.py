# %% title [markdown]
# # 3. Softmax and its gradients
#
# Five functions take you through attention and back: `softmax`, `softmax_jacobian`, `softmax_backward`,
# `attention_forward` and `attention_backward`. At the end you have every gradient of attention by hand, without a library
# that differentiates for you. Read chapter 3 of the book first. It derives each step for one query; here you write the
# general form.
#
# *About 90 minutes · hard ●●●*
#
# **How to work.** Run the cells from the top, in order. Replace the line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("softmax", points=4, seed=...)` in a cell of your own. You can earn partial points, and the checks are
# readable: open `checks.py` next to this notebook. Later functions may call earlier ones, so fix problems from the
# top. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `03-softmax-gradients.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import numpy as np

# %% ask_by_hand [markdown]
# ## With a pencil: back through one softmax
#
# *About 10 minutes · medium ●●○*
#
# Softmax gave a query the weights $a = (0.2,\ 0.3,\ 0.5)$. The backward pass gives the gradient of the loss with respect to
# them, $da = (10,\ 0,\ 2)$.
#
# **Find $ds$**, the gradient with respect to the three scores, to two decimals. You can use the Jacobian of chapter 3,
# entry by entry, or the shorter form that the chapter derives from it. You do not need the scores themselves. One sum
# tells you whether you may be right: which one?

# %% by_hand
def by_hand():
    """Return the gradient ds with respect to the three scores, worked out with a pencil.

    Returns
    -------
    list of 3 numbers
        A tuple or an array also works.
    """
    ### BEGIN SOLUTION
    return [1.4, -0.9, -0.5]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Five rules for all five functions
#
# - `...` in a shape stands for any number of leading batch dimensions (none, one or several), the same for all
#   arguments that have it. Each index of the leading dimensions is a separate sequence: none sees another. You may
#   assume that all arguments have the same leading dimensions.
# - `dX` is the gradient of a loss with respect to `X`: each entry says how fast the loss grows when the same entry of
#   `X` grows. So `dX` always has the shape of `X`.
# - Advice, worth no points: if the inner dimensions that a function names under *Raises* differ, raise `ValueError`,
#   even if one of them is 1. (`@` raises by itself; `*` and `np.einsum` silently stretch a dimension of size 1.)
# - The result has the floating dtype of the inputs: float32 inputs give a float32 result; the same holds for float16 and
#   float64. Integers and arguments of different dtypes are not tested. (`np.sqrt(d_k)` is a NumPy float64 and turns a
#   float32 array into float64; `d_k**0.5` is a plain number and does not.)
# - The functions do not change their inputs.

# %% ask_softmax [markdown]
# ## 3.1 `softmax`: weights from scores of any size
#
# *About 10 minutes · easy ●○○*
#
# Each score becomes $e^{s_j}$, divided by the sum over its row. Computed directly, $e^{1000}$ is infinite, and inf / inf
# is NaN. But only differences within a row matter: subtracting the same number from all scores of a row leaves its
# weights unchanged, and this number may differ from row to row.
#
# By hand, with n = 2: the scores $(0, \ln 3)$ give $e^{s} = (1, 3)$ and the weights $(1/4, 3/4)$. The scores
# $(1000, 1000 + \ln 3)$ and $(-1000, -1000 + \ln 3)$ give the same weights.
#
# Near the largest numbers of a dtype, $s - \max s$ may overflow to $-\infty$, and NumPy warns about it. The resulting
# weight of 0 is right, and a warning costs no points.
#
# Advice, worth no points: give equal scores equal weights, however large the scores are. $e^{s - \text{logsumexp}(s)}$ is
# right for scores in the thousands, but gives $(10^{17}, 10^{17})$ the weights $(1, 1)$, because $10^{17} + \ln 2$ is rounded
# to $10^{17}$. If you subtract the maximum first, it is right for all scores.
#
# A score of $-\infty$ gets a weight of exactly 0. Every row has at least one finite score here. Rows without one are a
# topic of chapter 5 and are not checked.

# %% softmax
def softmax(S):
    """Turn each row of scores into weights that sum to 1.

    Parameters
    ----------
    S : array, shape (..., n)
        Scores: finite numbers of any size, or -inf. No row is entirely -inf.

    Returns
    -------
    array, shape (..., n)
        Weights along the last axis; 0 where the score is -inf.
    """
    ### BEGIN SOLUTION
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)
    ### END SOLUTION

# %%
# For your own experiments. Write the function, then remove the #.
# softmax(np.array([[0.0, np.log(3.0)], [1000.0, 1000.0 + np.log(3.0)]]))

# %% check_softmax
import checks

checks.run("softmax", points=4)

# %% ask_softmax_jacobian [markdown]
# ## 3.2 `softmax_jacobian`: every weight's slope in every score
#
# *About 10 minutes · medium ●●○*
#
# Raise one score a little: its own weight grows, and all other weights shrink, because they sum to 1. The Jacobian $J$
# of shape (n, n) contains all these slopes, $J_{ij} = \partial a_i / \partial s_j$. It depends only on the
# weights: $\partial a_i / \partial s_j = a_i ([i = j] - a_j)$, where $[i = j]$ is 1 if i = j, else 0.
#
# By hand, with n = 2: $a = (1/4, 3/4)$ gives
#
# $$
# J = \begin{pmatrix} \tfrac14 \cdot \tfrac34 & -\tfrac14 \cdot \tfrac34 \\
# -\tfrac34 \cdot \tfrac14 & \tfrac34 \cdot \tfrac14 \end{pmatrix} =
# \begin{pmatrix} 3/16 & -3/16 \\ -3/16 & 3/16 \end{pmatrix}
# $$

# %% softmax_jacobian
def softmax_jacobian(a):
    """Return the slope of every weight in every score, for one row of weights.

    Parameters
    ----------
    a : array, shape (n,)
        Weights, as `softmax` returns them for one row: they sum to 1. Some may be 0.

    Returns
    -------
    array, shape (n, n)
        Entry (i, j) is the derivative of weight i with respect to score j.
    """
    ### BEGIN SOLUTION
    return np.diag(a) - np.outer(a, a)
    ### END SOLUTION

# %%
# For your own experiments.
# softmax_jacobian(np.array([0.25, 0.75]))

# %% check_softmax_jacobian
import checks

checks.run("softmax_jacobian", points=4)

# %% ask_softmax_backward [markdown]
# ## 3.3 `softmax_backward`: from the weights' gradient to the scores'
#
# *About 15 minutes · medium ●●○*
#
# The loss depends on a score $s_j$ through all the weights $a_i$ of its row, so the chain rule sums over them:
# $ds_j = \sum_i da_i \, \partial a_i / \partial s_j$ (with $a$, $da$ and $ds$ of shape (n,)). Insert the formula for the
# Jacobian and multiply out: the result needs one sum for each row, and no matrix.
#
# By hand, with n = 2: $a = (1/4, 3/4)$ and $da = (8, 0)$ give
# $ds = (8 \cdot \tfrac{3}{16} - 0 \cdot \tfrac{3}{16},\; -8 \cdot \tfrac{3}{16} + 0 \cdot \tfrac{3}{16}) = (3/2, -3/2)$.
#
# Do not build the Jacobian itself: for 64 rows of 2,000 weights, all Jacobians together would take 2 GB in float64,
# while `A` takes 1 MB. This is advice. The checks are too small to notice, and a Jacobian for each row also earns the
# points.

# %% softmax_backward
def softmax_backward(A, dA):
    """Carry a gradient back through the softmax of each row.

    Parameters
    ----------
    A : array, shape (..., n)
        Weights, as `softmax` returned them.
    dA : array, shape (..., n)
        Gradient of the loss with respect to `A`.

    Returns
    -------
    array, shape (..., n)
        dS, the gradient of the loss with respect to the scores that gave `A`.

    Raises
    ------
    ValueError
        Advice, worth no points: if the two values of n differ.
    """
    ### BEGIN SOLUTION
    if A.shape != dA.shape:
        raise ValueError(f"A has shape {A.shape} and dA has shape {dA.shape}")
    return A * (dA - (A * dA).sum(axis=-1, keepdims=True))
    ### END SOLUTION

# %%
# For your own experiments. Both lines should give the same.
# softmax_backward(np.array([0.25, 0.75]), np.array([8.0, 0.0]))
# softmax_jacobian(np.array([0.25, 0.75])) @ np.array([8.0, 0.0])

# %% check_softmax_backward
import checks

checks.run("softmax_backward", points=4)

# %% ask_attention_forward [markdown]
# ## 3.4 `attention_forward`: the way there
#
# *About 10 minutes · easy ●○○*
#
# Compute the scores $S = Q K^\top / \sqrt{d_k}$ of shape (..., n_q, n_k), the weights $A$ as the softmax of each row of $S$,
# and the weighted sum $Z = A V$ of shape (..., n_q, d_v). Return both `Z` and `A`: the backward pass needs the weights.
#
# By hand, with n_q = 1, n_k = 2, d_k = 4, d_v = 1: let $q = (2, 0, 0, 0)$, $k_1 = (0, 0, 0, 0)$ and
# $k_2 = (\ln 3, 0, 0, 0)$. The dot products $(0, 2 \ln 3)$, divided by $\sqrt 4 = 2$, are the scores $(0, \ln 3)$, so the
# weights are $(1/4, 3/4)$. With $v_1 = (4)$ and $v_2 = (8)$ the result is $z = (7)$.

# %% attention_forward
def attention_forward(Q, K, V):
    """Compute attention: every query gets a mixture of the values, with its own weights.

    Parameters
    ----------
    Q : array, shape (..., n_q, d_k)
    K : array, shape (..., n_k, d_k)
    V : array, shape (..., n_k, d_v)

    Returns
    -------
    Z : array, shape (..., n_q, d_v)
    A : array, shape (..., n_q, n_k)
        The weights: softmax of Q K^T / sqrt(d_k). A tuple of two, in this order. (A list also works.)

    Raises
    ------
    ValueError
        Advice, worth no points: if the two values of d_k differ, or the numbers of keys and values.
    """
    ### BEGIN SOLUTION
    d_k = Q.shape[-1]
    A = softmax(Q @ np.swapaxes(K, -1, -2) / d_k**0.5)  # (..., n_q, n_k)
    return A @ V, A
    ### END SOLUTION

# %%
# For your own experiments.
# K = np.array([[0.0, 0.0, 0.0, 0.0], [np.log(3.0), 0.0, 0.0, 0.0]])
# attention_forward(np.array([[2.0, 0.0, 0.0, 0.0]]), K, np.array([[4.0], [8.0]]))

# %% check_attention_forward
import checks

checks.run("attention_forward", points=4)

# %% ask_attention_backward [markdown]
# ## 3.5 `attention_backward`: the way back
#
# *About 30 minutes · hard ●●●*
#
# Given `dZ`, the gradient of the loss with respect to `Z`, find the gradients with respect to `Q`, `K` and `V`. There
# are two paths. The values are reached directly, through $Z = A V$. The queries and keys are reached through the
# weights: from $Z$ to $A$, through the softmax to $S$, and from there to $Q$ and $K$.
#
# One rule works for every product. If $C = X Y$ with shapes (n, r) = (n, m) (m, r), the gradients are
# $dX = dC \, Y^\top$, of shape (n, m), and $dY = X^\top dC$, of shape (m, r). The shapes allow no other order.
#
# By hand, with the numbers of 3.4 and $dZ = (1)$: each value's gradient is its weight, $1/4$ and $3/4$. The weights'
# gradient is $dA = (4, 8)$ and the scores' is $dS = (-3/4, 3/4)$. So $dq = (\tfrac{3}{8} \ln 3, 0, 0, 0)$,
# $dk_1 = (-\tfrac34, 0, 0, 0)$ and $dk_2 = (\tfrac34, 0, 0, 0)$; the division by $\sqrt{d_k} = 2$ is also applied here.

# %% attention_backward
def attention_backward(Q, K, V, dZ):
    """Carry a gradient back through attention, to the queries, the keys and the values.

    Parameters
    ----------
    Q : array, shape (..., n_q, d_k)
    K : array, shape (..., n_k, d_k)
    V : array, shape (..., n_k, d_v)
    dZ : array, shape (..., n_q, d_v)
        Gradient of the loss with respect to the Z of `attention_forward(Q, K, V)`.

    Returns
    -------
    dQ : array, shape (..., n_q, d_k)
    dK : array, shape (..., n_k, d_k)
    dV : array, shape (..., n_k, d_v)
        A tuple of three, in this order. (A list also works.)

    Raises
    ------
    ValueError
        Advice, worth no points: if the two values of d_k differ, or the numbers of keys and values, or if `dZ` does
        not have the shape (n_q, d_v) of Z.
    """
    ### BEGIN SOLUTION
    d_k = Q.shape[-1]
    _, A = attention_forward(Q, K, V)  # (..., n_q, n_k)
    dV = np.swapaxes(A, -1, -2) @ dZ  # (..., n_k, n_q) (..., n_q, d_v) -> (..., n_k, d_v)
    dA = dZ @ np.swapaxes(V, -1, -2)  # (..., n_q, d_v) (..., d_v, n_k) -> (..., n_q, n_k)
    dS = softmax_backward(A, dA)  # (..., n_q, n_k), of the scores, which were divided by the root
    return dS @ K / d_k**0.5, np.swapaxes(dS, -1, -2) @ Q / d_k**0.5, dV
    ### END SOLUTION

# %%
# For your own experiments.
# Q, V = np.array([[2.0, 0.0, 0.0, 0.0]]), np.array([[4.0], [8.0]])
# K = np.array([[0.0, 0.0, 0.0, 0.0], [np.log(3.0), 0.0, 0.0, 0.0]])
# attention_backward(Q, K, V, np.array([[1.0]]))

# %% check_attention_backward
import checks

checks.run("attention_backward", points=8)

# %% saturation [markdown]
# ## Where the gradient goes
#
# The figure shows the Jacobian of the weights for the same five scores, times 1, 4 and 16. The larger the scores, the
# closer the largest weight is to 1, and the paler the Jacobian: where softmax is certain, it no longer learns.

# %% demo_saturation
import matplotlib.pyplot as plt

scores = np.array([0.2, 1.0, -0.5, 0.6, 0.0])
figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for panel, factor in zip(panels, (1, 4, 16), strict=True):
    weights = softmax(factor * scores)
    picture = panel.imshow(softmax_jacobian(weights), cmap="PuOr", vmin=-0.25, vmax=0.25)
    panel.set(title=f"times {factor}: largest {weights.max():.3f}", xlabel="score j", ylabel="weight i")
bar = figure.colorbar(picture, ax=panels, label="slope of weight i in score j")

# %% descent [markdown]
# ## Learning to look
#
# The example has one query, six keys, and six unit vectors as values, so that $z$ shows the weights themselves. Gradient
# descent moves the query until it looks only at key 2. It needs only your two functions. A query that starts small
# learns quickly. A query that starts long, and points at the wrong key, has weights of 0 and 1 and a gradient of almost
# 0, so it does not move.

# %% demo_descent
keys, values, target = np.random.default_rng(5).standard_normal((6, 4)), np.eye(6), np.eye(6)[[2]]


def descend(query, steps=300, rate=2.0):
    """Move a query (1, d_k) down the gradient of half the squared distance to the target; return the losses."""
    losses = []
    for _ in range(steps):
        Z, _ = attention_forward(query, keys, values)
        losses.append(0.5 * ((Z - target) ** 2).sum())
        dQ, _, _ = attention_backward(query, keys, values, Z - target)
        query = query - rate * dQ
    return losses


figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(descend(0.1 * keys[[4]]), label="starts small")
axes.plot(descend(40 * keys[[4]]), "--", label="starts long: saturated")
axes.set(xlabel="step of gradient descent", ylabel="loss", title="The same query, two lengths")
key = axes.legend()

# %% think [markdown]
# ## To think about: three numbers that sum to 0
#
# *About 5 minutes · medium ●●○*
#
# The entries of every $ds$ sum to 0, for any $a$ and $da$. Why must they? Think of what happens to the loss when all three
# scores grow by the same amount, and then look at the formula. What could you conclude if your program gave a $ds$ with
# another sum? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# Adding the same number to all scores of a row changes no weight, so the loss does not change either. Its slope in that
# direction is 0, and this slope is the sum of the $ds_j$. In the formula, $\sum_j a_j (da_j - \sum_l a_l\, da_l) = 0$,
# because the weights sum to 1. Another sum means a mistake, and often shows which one: without the subtraction, it is
# $\sum_l a_l\, da_l$. This test takes one line, and needs no right answer to compare with.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: the gradient of a temperature
#
# *About 30 minutes · hard ●●●*
#
# Let attention have a temperature $T$: $A$ is the softmax of each row of $S / T$, with $S = Q K^\top / \sqrt{d_k}$, and
# $Z = A V$ as before. $T$ is one number for all rows. Find $dT$, the derivative of the loss with respect to it, from $dZ$,
# and write `temperature_backward(Q, K, V, T, dZ)`. Test it with differences, $(L(T + h) - L(T - h)) / 2h$ with
# $L(T) = \sum_{ij} dZ_{ij} Z_{ij}$. Which $h$ gives the smallest error, and why are both smaller and larger values
# worse? This task has no points and no check.

# %%
# Yours: the stretch task, or anything else.

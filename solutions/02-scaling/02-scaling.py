# %% title [markdown]
# # 2. Scaling and temperature
#
# You measure how dot products grow with the number of their terms (`score_variance`), scale them so that they no longer
# grow (`scaled_scores`), prove a formula for what you measured, and compute how spread out a query's attention is
# (`weights_entropy`). The last figure combines the functions: it shows what happens to attention without scaling. Read
# chapter 2 of the book first.
#
# *About 75 minutes · medium ●●○*
#
# **How to work.** Run the cells from the top, in order. Replace the line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("scaled_scores", points=4, seed=...)` in a cell of your own. You can earn partial points, and the checks
# are readable: open `checks.py` next to this notebook. A person reads and grades the proof, 2.3. *Advice* costs no
# points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `02-scaling.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import math

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
        Weights that sum to 1 along the last axis, of the dtype of `S`.
    """
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)

# %% ask_by_hand [markdown]
# ## With a pencil: four tosses against four tosses
#
# *About 10 minutes · medium ●●○*
#
# Let $d_k = 4$, and let each of the eight entries of $q$ and $k$ be 0 or 1, by an independent toss of a fair coin. (The
# chapter's coins are $-1$ and $1$. These coins have a mean that is not 0.)
#
# **Find three numbers:** the mean of $q \cdot k$, its variance, and the variance of $q \cdot k / \sqrt{d_k}$. Begin with one
# product $q_c k_c$: which values can it have, and how likely is each? Write the numbers as fractions, such as `7 / 8`, or
# with two decimals.

# %% by_hand
def by_hand():
    """Return the mean and variance of q . k, and the variance of q . k / sqrt(d_k), worked out with a pencil.

    Returns
    -------
    list of 3 numbers
        In this order. A tuple or an array also works.
    """
    ### BEGIN SOLUTION
    return [1, 3 / 4, 3 / 16]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Four rules for the functions that take arrays
#
# - `...` in a shape stands for any number of leading batch dimensions (none, one or several), the same for all
#   arguments that have it. `Q` of shape (..., n_q, d_k) holds n_q queries for each index of the leading dimensions. You
#   may assume that all arguments have the same leading dimensions.
# - Advice, worth no points: if the inner dimensions that a function names under *Raises* differ, raise `ValueError`,
#   even if one of them is 1. (`@` raises by itself; `*` and `np.einsum` silently stretch a dimension of size 1.)
# - The result has the floating dtype of the inputs: float32 inputs give a float32 result; the same holds for float16 and
#   float64. Integers and arguments of different dtypes are not tested.
# - The functions do not change their inputs.

# %% ask_score_variance [markdown]
# ## 2.1 `score_variance`: measure how far dot products spread
#
# *About 15 minutes · medium ●●○*
#
# A query and a key are two random vectors of shape (d_k,), with entries from the normal distribution with mean 0 and
# variance 1. Their dot product is one number. Draw `num_pairs` such pairs, each with its own query *and* its own key.
# Return the sample variance of the `num_pairs` dot products: the mean squared distance from their mean. Divide by
# `num_pairs` or by `num_pairs` - 1, as you like.
#
# By hand, with d_k = 2 and num_pairs = 2: $q_1 = (1, 2)$ and $k_1 = (3, 0)$ have the dot product $3$; $q_2 = (0, 1)$
# and $k_2 = (5, -1)$ have $-1$. The mean is $1$, each dot product is $2$ away from it, and the variance is
# $(4 + 4) / 2 = 4$ (or $8$, if you divide by num_pairs - 1).
#
# All random numbers come from the given generator: `rng.standard_normal((3, 4))` is an array of shape (3, 4). A caller
# with the same generator then gets the same result, and can repeat your measurement. You may also use anything derived
# from `rng`: generators from `rng.spawn`, or normal numbers made from uniform ones.

# %% score_variance
def score_variance(d_k, num_pairs, rng):
    """Measure the variance of q . k for random queries and keys.

    Parameters
    ----------
    d_k : int
        Width of a query and of a key, at least 1.
    num_pairs : int
        How many pairs to draw, at least 2. Every pair has its own query and its own key.
    rng : numpy.random.Generator
        The source of all random numbers. Entries have mean 0 and variance 1 (normal distribution).

    Returns
    -------
    float
        The sample variance of the `num_pairs` dot products.
    """
    ### BEGIN SOLUTION
    Q = rng.standard_normal((num_pairs, d_k))
    K = rng.standard_normal((num_pairs, d_k))
    return float((Q * K).sum(axis=-1).var())
    ### END SOLUTION

# %%
# For your own experiments. Write the function, then remove the #. What do you get for other d_k?
# score_variance(4, 1000, np.random.default_rng(0))

# %% check_score_variance
import checks

checks.run("score_variance", points=4)

# %% ask_scaled_scores [markdown]
# ## 2.2 `scaled_scores`: the same spread for every width
#
# *About 5 minutes · easy ●○○*
#
# The score of query i and key j is their dot product divided by the square root of their width,
# $S_{ij} = q_i \cdot k_j / \sqrt{d_k}$. Rows belong to queries, columns to keys; there may be more keys than
# queries, or fewer.
#
# By hand, with n_q = 1, n_k = 2, d_k = 4: let $q = (1, 2, 0, 1)$, $k_1 = (3, 0, 1, 1)$ and $k_2 = (0, 1, 1, 0)$. The
# dot products are $(4, 2)$, and the scores are $(4, 2) / \sqrt{4} = (2, 1)$.
#
# A trap: `np.sqrt(d_k)` is a NumPy float64 number, and a float32 array divided by it becomes float64. A Python number,
# such as the result of `math.sqrt(d_k)`, does not change the array's dtype.

# %% scaled_scores
def scaled_scores(Q, K):
    """Return the scaled dot product of every query with every key.

    Parameters
    ----------
    Q : array, shape (..., n_q, d_k)
    K : array, shape (..., n_k, d_k)

    Returns
    -------
    array, shape (..., n_q, n_k)
        Entry (i, j) is q_i . k_j / sqrt(d_k).

    Raises
    ------
    ValueError
        Advice, worth no points: if the two values of d_k differ.
    """
    ### BEGIN SOLUTION
    return Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1])
    ### END SOLUTION

# %%
# For your own experiments.
# scaled_scores(np.array([[1.0, 2.0, 0.0, 1.0]]), np.array([[3.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0]]))

# %% check_scaled_scores
import checks

checks.run("scaled_scores", points=4)

# %% ask_proof [markdown]
# ## 2.3 A proof: what you measured, for entries with any mean
#
# *About 25 minutes · hard ●●●*
#
# The chapter proves $\operatorname{Var}(q \cdot k) = \sigma^4 d_k$ for entries with mean 0. Here the mean is arbitrary.
# Let $q$ and $k$ be random vectors of shape (d_k,). All $2 d_k$ entries, $q_1, \ldots, q_{d_k}$ and
# $k_1, \ldots, k_{d_k}$, are independent of each other; each has mean $\mu$ and variance $\sigma^2$. Nothing else is
# known: they need not be normal. **Prove that**
#
# $$
# \operatorname{E}[q \cdot k] = \mu^2 d_k \qquad \text{and} \qquad
# \operatorname{Var}(q \cdot k) = d_k \left( \sigma^4 + 2 \mu^2 \sigma^2 \right) .
# $$
#
# With $\mu = 0$ this is the chapter's theorem, so a proof of the general case also proves the chapter's. Test yours on
# the question for a pencil above: tosses of 0 and 1 have $\mu = \frac12$ and $\sigma^2 = \frac14$.
#
# **Then answer in two sentences.** What are the mean and the variance of $q \cdot k / \sqrt{d_k}$, and which of the two
# still grows with $d_k$?
#
# **What counts as a proof?** Every step follows from the one before, for a reason that you give. Where a step needs an
# assumption, name it there. Measured numbers, or the case $d_k = 2$ alone, do not prove it, and "variances add up"
# needs a reason why they do here. You may use without proof that the mean of a sum is the sum of the means, that
# $\operatorname{Var}(x) = \operatorname{E}[x^2] - \operatorname{E}[x]^2$, that
# $\operatorname{E}[xy] = \operatorname{E}[x] \operatorname{E}[y]$ for independent $x$ and $y$, and that functions of
# independent variables are independent. You may write sentences instead of formulas.
#
# | Points | For |
# |---|---|
# | 1 | the mean: of one product $q_c k_c$, with the assumption that gives it (0.5), and of the sum (0.5) |
# | 1.5 | the variance of one product (1), saying where independence, equal means and equal variances enter (0.5) |
# | 1.5 | from one product to the sum of $d_k$ (1), saying which assumption lets you add the variances (0.5) |
# | 1 | the question about $q \cdot k / \sqrt{d_k}$: its mean and its variance (0.5), and which of them grows (0.5) |
#
# Double-click the cell below to write in it, and put formulas between dollar signs. A person reads and grades it.

# %% proof_variance [markdown] points=5
# ### BEGIN SOLUTION
# The dot product is a sum of $d_k$ products, $q \cdot k = \sum_c p_c$ with $p_c = q_c k_c$. I find mean and variance
# of one product, then add up.
#
# **The mean.** $q_c$ and $k_c$ are independent, so the mean of their product is the product of their means:
# $\operatorname{E}[p_c] = \operatorname{E}[q_c] \operatorname{E}[k_c] = \mu^2$. The mean of a sum is the sum of the
# means, even for dependent terms, so $\operatorname{E}[q \cdot k] = \mu^2 d_k$.
#
# **The variance of one product.** An entry's mean square is its variance and its squared mean:
# $\operatorname{E}[q_c^2] = \sigma^2 + \mu^2$, and the same for $k_c$, because all entries have equal means and equal
# variances. $q_c^2$ and $k_c^2$ are independent, since $q_c$ and $k_c$ are, so
# $\operatorname{E}[p_c^2] = \operatorname{E}[q_c^2] \operatorname{E}[k_c^2] = (\sigma^2 + \mu^2)^2$. Therefore
# $\operatorname{Var}(p_c) = (\sigma^2 + \mu^2)^2 - (\mu^2)^2 = \sigma^4 + 2 \mu^2 \sigma^2$.
#
# **The sum.** The mean of $(\sum_c p_c)^2$, multiplied out, is
# $\sum_c \operatorname{E}[p_c^2] + \sum_{c \ne e} \operatorname{E}[p_c p_e]$, and from it the square of the mean is
# subtracted, $\sum_c \operatorname{E}[p_c]^2 + \sum_{c \ne e} \operatorname{E}[p_c] \operatorname{E}[p_e]$. For $c \ne e$
# the products $p_c = q_c k_c$ and $p_e = q_e k_e$ have no entry in common, and entries are independent within $q$, within
# $k$ and between the two; so $\operatorname{E}[p_c p_e] = \operatorname{E}[p_c] \operatorname{E}[p_e]$, and the mixed
# terms cancel. What is left is $\sum_c \operatorname{Var}(p_c)$, $d_k$ equal terms:
# $\operatorname{Var}(q \cdot k) = d_k (\sigma^4 + 2 \mu^2 \sigma^2)$.
#
# **Divided by the root.** The mean of $q \cdot k / \sqrt{d_k}$ is $\mu^2 d_k / \sqrt{d_k} = \mu^2 \sqrt{d_k}$, and its
# variance $d_k (\sigma^4 + 2 \mu^2 \sigma^2) / d_k = \sigma^4 + 2 \mu^2 \sigma^2$. The variance no longer depends on
# $d_k$; the mean grows like its root, unless $\mu = 0$.
# ### END SOLUTION

# %% ask_weights_entropy [markdown]
# ## 2.4 `weights_entropy`: how many keys does a query look at?
#
# *About 15 minutes · medium ●●○*
#
# A query's weights are one row of `A`, of shape (n_k,). None is negative, and they sum to 1. Their Shannon entropy
#
# $$
# H(a) = -\sum_{j=1}^{n_k} a_j \ln a_j , \qquad \text{with } 0 \ln 0 = 0,
# $$
#
# is one number, in nats (natural logarithm). It is $0$ when one key has all the weight, and $\ln n_k$, its largest
# value, when all keys have equal weight. Weights of exactly 0 are common: they come from masks (chapter 5) and from
# rounding. Results are compared to about four digits, so a very small number added inside the logarithm, such as 1e-12,
# does no harm in float32 and float64. In float16 it becomes 0, and $\ln 0$ makes NaN, so it does not help there.
#
# By hand, with n_k = 3: $(\frac12, \frac14, \frac14)$ gives
# $\frac12 \ln 2 + \frac14 \ln 4 + \frac14 \ln 4 = \frac32 \ln 2 \approx 1.04$; $(\frac12, \frac12, 0)$ gives
# $\ln 2 \approx 0.69$, and $(0, 1, 0)$ gives $0$.

# %% weights_entropy
def weights_entropy(A):
    """Return the Shannon entropy of each query's weights, in nats.

    Parameters
    ----------
    A : array, shape (..., n_q, n_k)
        Row i holds the weights of query i. None is negative, some may be exactly 0, and their sum is 1.

    Returns
    -------
    array, shape (..., n_q)
        Entry i is -sum_j A_ij ln A_ij, where 0 ln 0 counts as 0.
    """
    ### BEGIN SOLUTION
    logarithms = np.log(np.where(A > 0, A, 1))
    return -(A * logarithms).sum(axis=-1)
    ### END SOLUTION

# %%
# For your own experiments.
# weights_entropy(np.array([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]))

# %% check_weights_entropy
import checks

checks.run("weights_entropy", points=5)

# %% widths [markdown]
# ## What the square root is for
#
# Random queries and keys again, 64 of each, from narrow to wide, with your three functions. The left panel shows the
# variance that you measured, next to the line that you proved (with mean 0). The right panel shows the entropy of
# attention. Without scaling, every query ends up looking at only one key as d_k grows. With scaling, the width makes no
# difference.

# %% demo_widths
import matplotlib.pyplot as plt

widths = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
n = 64
rng = np.random.default_rng(2)
variances, raw, scaled = [], [], []
for d_k in widths:
    variances.append(score_variance(d_k, 1000, rng))
    Q, K = rng.standard_normal((2, 8, n, d_k))  # eight sequences of n queries and n keys
    S = scaled_scores(Q, K)
    raw.append(weights_entropy(softmax(S * math.sqrt(d_k))).mean())
    scaled.append(weights_entropy(softmax(S)).mean())

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
left.loglog(widths, widths, color="0.5", label="d_k, as proved")
left.loglog(widths, variances, "o", color="#0072b2", label="measured")
left.set(xlabel="d_k", ylabel="variance of q . k", title="Dot products spread")
left.legend()
right.axhline(math.log(n), color="0.5", linestyle=":", label=f"evenly over {n} keys: ln {n}")
right.semilogx(widths, scaled, "s-", color="#009e73", label="divided by sqrt(d_k)")
right.semilogx(widths, raw, "o--", color="#d55e00", label="not scaled")
right.set(xlabel="d_k", ylabel="mean entropy of a row (nats)", title="Attention narrows", ylim=(0, 1.1 * math.log(n)))
right.legend(loc="center right", bbox_to_anchor=(1, 0.62), fontsize="small")
figure.tight_layout()

# %% think [markdown]
# ## To think about: why the root?
#
# *About 5 minutes · medium ●●○*
#
# Someone divides the scores by $d_k$ instead of its root, "so that they are certainly small". What does the variance of
# a score become as $d_k$ grows, what do the weights then look like, and where does the entropy in the figure above go? How
# does such a start of training differ from one without scaling, and from one with the root? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# With $\sigma = 1$ and mean 0, the variance becomes $d_k / d_k^2 = 1 / d_k$. For wide vectors all scores are nearly equal,
# and so are the weights, and the entropy approaches its largest value, $\ln n_k$. Every query then gets the plain mean of
# all values, no matter what it asks. Without scaling, most queries attend to only one key; divided by $d_k$, they attend to
# all keys equally. With the root, the choice depends on the numbers in the vectors, not on $d_k$. All this is about random
# vectors, so about the start: training can make the scores as large as it needs. *Going deeper* of chapter 2 shows layers
# that were divided by $d_k$ and learned their task.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: entries that are not independent
#
# *About 30 minutes · hard ●●●*
#
# Let any two different entries of $q$ have correlation $r$, and also any two of $k$, with mean 0 and variance 1. $q$ and
# $k$ are still independent of each other. Which step of your proof fails? Find the variance of $q \cdot k$ in terms of
# $d_k$ and $r$, then measure it: $q_c = \sqrt{r}\, g + \sqrt{1 - r}\, e_c$ with independent normal numbers $g$ and
# $e_1, \ldots, e_{d_k}$ has such entries. What is the variance after the division by $\sqrt{d_k}$ for $r = 1$, where all
# entries are copies of one number? This task has no points and no check. *Going deeper* of chapter 2 has the formula, under *When an assumption
# fails*.

# %%
# Yours: the stretch task, or anything else.

# %% next [markdown]
# ## A question for the next chapter
#
# An entropy near 0 means that nearly all weight is on one key. When a score then changes a little, the weights hardly
# change, so the gradient that flows back through softmax is nearly 0. Chapter 3 computes that gradient.

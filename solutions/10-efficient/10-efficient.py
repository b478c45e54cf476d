# %% title [markdown]
# # 10. Efficient attention
#
# You write attention that never holds an n × n matrix: exactly, chunk by chunk (`chunked_attention`); for a smaller
# problem (`local_attention`); and with other weights (`linear_attention`, `causal_linear_attention`). Then you write
# what makes text generation fast: key heads that queries share (`grouped_query_attention`), a cache of keys and values
# (`KVCache`), and a function that combines separately processed parts of a long cache (`merge`). Read chapter 10 of the
# book first.
#
# *About 160 minutes · hard ●●●*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("chunked_attention", points=6, seed=...)` in a cell of your own. You can earn partial points, and the
# checks are readable: open `checks.py` next to this notebook. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `10-efficient.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import math

import torch
from torch import nn


def full_attention(Q, K, V, mask=None):
    """Attention as in the earlier chapters, with all scores at once (given, to compare with).

    Parameters
    ----------
    Q : tensor, shape (..., n_q, d_k)
    K : tensor, shape (..., n_k, d_k)
    V : tensor, shape (..., n_k, d_v)
    mask : tensor of bool, shape (n_q, n_k), optional
        True where the query may attend to the key. None: everywhere.

    Returns
    -------
    tensor, shape (..., n_q, d_v)
    """
    S = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if mask is None:
        return S.softmax(-1) @ V
    nothing = ~mask.any(-1, keepdim=True)
    return S.masked_fill(~mask, -torch.inf).masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0) @ V


def part(S, V):
    """Return what queries find among some of the keys (given, for 10.7).

    Parameters
    ----------
    S : tensor, shape (..., n, n_k)
        Scores, -inf where a query may not attend to the key; n_k is at least 1.
    V : tensor, shape (..., n_k, d_v)

    Returns
    -------
    m : tensor, shape (..., n)
        The largest score of each query.
    l : tensor, shape (..., n)
        The sum of exp(score - m).
    u : tensor, shape (..., n, d_v)
        The sum of exp(score - m) times the values.
    """
    m = S.amax(-1)
    E = torch.exp(S - m.masked_fill(m == -torch.inf, 0)[..., None])
    return m, E.sum(-1), E @ V

# %% ask_by_hand [markdown]
# ## With a pencil: an online softmax in two chunks
#
# *About 10 minutes · medium ●●○*
#
# One query attends to four keys, two at a time. Its scores, already divided by $\sqrt{d_k}$, are $(\ln 2, 0)$ in the
# first chunk and $(\ln 8, \ln 5)$ in the second. The values, one number for each key, are $10, 4$ and $2, 4$.
#
# Three numbers are kept: the largest score so far $\mu$, the sum $\ell$ of all $e^{s_j - \mu}$, and the sum $u$ of all
# $e^{s_j - \mu}$ times the values.
#
# **Find five numbers**: $\ell$ and $u$ after the first chunk, $\ell$ and $u$ after the second, and the result.

# %% by_hand
def by_hand():
    """Return the five numbers, worked out with a pencil.

    Returns
    -------
    list of 5 numbers
        The sum and the weighted sum after the first chunk, both after the second, and the result.
    """
    ### BEGIN SOLUTION
    return [1.5, 12, 2, 7.5, 3.75]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Eight rules for this notebook
#
# - `...` is any number of leading dimensions, possibly none, the same for all inputs. n (n_q, n_k) is the number of
#   tokens, d_k the width of queries and keys, d_v the width of values and results.
# - **Never n × n** refers to scores, weights, masks and indices, at any moment, also as a list of parts. The checks
#   count the bytes that your function holds at once in addition to its inputs, for n around 700 and small chunks or
#   windows, and allow 0.9 bytes for each pair of tokens. For four times as many tokens they allow at most six times
#   as many bytes as you needed. Views cost nothing. Only the forward pass counts, without gradients.
# - Causal means aligned at the end: query i sees key j where j ≤ i + n_k − n_q. A query that sees nothing gets 0, never
#   NaN.
# - Scores are divided by $\sqrt{d_k}$, except in linear attention.
# - Advice, worth no points: sizes that do not match (each function lists its own under *Raises*) raise `ValueError`,
#   `RuntimeError` or `IndexError`, and a size of 1 is not stretched to match another. In 10.5, numbers of heads that do
#   not match are worth points. Different leading dimensions are not tested.
# - The result has the floating dtype of the inputs. Integers are not tested.
# - Gradients flow from the result to every input: no `detach`, no `.data`, no NumPy on the way. The inputs do not
#   change, and nothing is kept from one call to the next, except in a `KVCache`. Arguments may be given by name.
# - Scores may be of any size and either sign: all in the thousands, or all a million below 0.

# %% ask_chunked_attention [markdown]
# ## 10.1 `chunked_attention`: exact, a few keys at a time
#
# *About 35 minutes · hard ●●●*
#
# Go through the keys in chunks, and keep for each query the largest score so far $\mu$ (at first $-\infty$), the sum
# $\ell$ and the weighted sum $u$ (at first 0). A chunk with scores $s$ updates them to
#
# $$
# \mu' = \max(\mu, \max_j s_j), \qquad
# \ell' = e^{\mu - \mu'} \ell + \sum_j e^{s_j - \mu'}, \qquad
# u' = e^{\mu - \mu'} u + \sum_j e^{s_j - \mu'} v_j
# $$
#
# At the end, return $u / \ell$. In the pencil example, $\mu = \ln 2$ after the first chunk. The second has
# $\mu' = \ln 8$, and the sums so far are multiplied by $e^{\ln 2 - \ln 8} = 1/4$.
#
# Three traps. The last chunk may be shorter. In causal attention, a query may have seen nothing yet:
# $-\infty - (-\infty)$ is NaN. And in float16 a product $q \cdot k$ may exceed 65,504, the largest number, even when
# the score does not: divide by $\sqrt{d_k}$ before the product.
#
# Two passes, or chunks of queries, also work, if memory stays small for any n.

# %% chunked_attention
def chunked_attention(Q, K, V, chunk_size, causal=False):
    """Attention, exactly, without ever holding scores, weights or a mask of n_q x n_k.

    Parameters
    ----------
    Q : tensor, shape (..., n_q, d_k)
    K : tensor, shape (..., n_k, d_k)
    V : tensor, shape (..., n_k, d_v)
    chunk_size : int
        The number of keys to take at a time, at least 1; it may be above n_k, and need not divide it.
    causal : bool
        Whether query i sees key j only where j <= i + n_k - n_q.

    Returns
    -------
    tensor, shape (..., n_q, d_v)
        The same for each `chunk_size`; 0 for a query that sees nothing.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if `chunk_size` is below 1, if queries and keys differ in width, or if keys and values
        differ in number.
    """
    ### BEGIN SOLUTION
    n_q, n_k = Q.shape[-2], K.shape[-2]
    if chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}")
    if n_k != V.shape[-2]:
        raise ValueError(f"{n_k} keys and {V.shape[-2]} values")
    Q = Q / math.sqrt(Q.shape[-1])
    largest = Q.new_full((*Q.shape[:-1], 1), -torch.inf)
    total, mixed = torch.zeros_like(largest), Q.new_zeros(*Q.shape[:-1], V.shape[-1])
    for start in range(0, n_k, chunk_size):
        keys, values = K[..., start : start + chunk_size, :], V[..., start : start + chunk_size, :]
        S = Q @ keys.transpose(-2, -1)  # (..., n_q, chunk_size)
        if causal:
            i = torch.arange(n_q)[:, None]
            j = torch.arange(start, start + keys.shape[-2])
            S = S.masked_fill(j > i + n_k - n_q, -torch.inf)
        now = torch.maximum(largest, S.amax(-1, keepdim=True))
        base = now.masked_fill(now == -torch.inf, 0)  # nothing seen yet: exp(-inf - 0) is 0, exp(-inf + inf) NaN
        E, shrink = torch.exp(S - base), torch.exp(largest - base)
        total = total * shrink + E.sum(-1, keepdim=True)
        mixed = mixed * shrink + E @ values
        largest = now
    return mixed / total.masked_fill(total == 0, 1)
    ### END SOLUTION

# %%
# For your own experiments. Write the function, then take the # away.
# Q, K, V = torch.randn(3, 5, 4)
# chunked_attention(Q, K, V, 2) - full_attention(Q, K, V)

# %% check_chunked_attention
import checks

checks.run("chunked_attention", points=6)

# %% ask_local_attention [markdown]
# ## 10.2 `local_attention`: a window
#
# *About 25 minutes · medium ●●○*
#
# Query i sees the keys at a distance of at most `window` on either side, $|i - j| \le$ `window`. These are 2 `window` +
# 1 keys, fewer near the ends, and the softmax is over these alone. It is a smaller problem than full attention, solved
# exactly; with a window of n − 1 or more it is the same.
#
# A mask over all scores gives the right numbers, but holds n × n of them. Take the queries in blocks, with the keys
# that they can reach; or gather each query's own keys, shape (..., n, 2 `window` + 1, d_k); or keep the diagonals of
# the band.
#
# By hand, the chapter's four keys with the values 4, 2, 8, 0: if the last query's scores for the last two keys are
# $\ln 4$ and 0, their weights are $\frac45, \frac15$, and `window` = 1 gives 6.4.

# %% local_attention
def local_attention(Q, K, V, window):
    """Attention of each token to those at a distance of at most `window`, without ever holding n x n of anything.

    Parameters
    ----------
    Q, K : tensor, shape (..., n, d_k)
    V : tensor, shape (..., n, d_v)
    window : int
        The largest distance, at least 0; it may be above n.

    Returns
    -------
    tensor, shape (..., n, d_v)
        Row i is the softmax over the keys j with |i - j| <= window, times their values.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if `window` is below 0, if the numbers of queries, keys and values differ, or if the
        widths of queries and keys differ.
    """
    ### BEGIN SOLUTION
    n = Q.shape[-2]
    if window < 0:
        raise ValueError(f"window is {window}")
    if not n == K.shape[-2] == V.shape[-2]:
        raise ValueError(f"{n} queries, {K.shape[-2]} keys, {V.shape[-2]} values")
    block, found = 2 * window + 1, []
    for start in range(0, n, block):
        stop = min(start + block, n)
        low, high = max(start - window, 0), min(stop + window, n)  # the keys that these queries can reach
        far = (torch.arange(start, stop)[:, None] - torch.arange(low, high)).abs() > window
        S = Q[..., start:stop, :] @ K[..., low:high, :].transpose(-2, -1) / math.sqrt(Q.shape[-1])
        found.append(S.masked_fill(far, -torch.inf).softmax(-1) @ V[..., low:high, :])
    return torch.cat(found, dim=-2)
    ### END SOLUTION

# %%
# For your own experiments.
# Q, K, V = torch.randn(3, 5, 4)
# local_attention(Q, K, V, 4) - full_attention(Q, K, V)

# %% check_local_attention
import checks

checks.run("local_attention", points=4)

# %% ask_linear_attention [markdown]
# ## 10.3 `linear_attention`: other weights, another order
#
# *About 15 minutes · medium ●●○*
#
# Replace $e^{q \cdot k}$ by $\phi(q) \cdot \phi(k)$, where $\phi(x) = \text{elu}(x) + 1$ elementwise: $x + 1$ for
# $x > 0$, and $e^x$ otherwise. All features are positive, and so are all weights. There is no exponential around the
# product, so you can move the brackets:
#
# $$
# z_i = \frac{\sum_j \big(\phi(q_i) \cdot \phi(k_j)\big)\, v_j}{\sum_j \phi(q_i) \cdot \phi(k_j)}
# = \frac{\phi(q_i) \big(\sum_j \phi(k_j)^\top v_j\big)}{\phi(q_i) \cdot \sum_j \phi(k_j)}
# $$
#
# The bracket is one matrix (d_k, d_v), the same for all queries. Nothing is divided by $\sqrt{d_k}$. These weights are
# not the softmax weights, so the results differ.
#
# Gradients are finite for every x, however large. `torch.where(X > 0, X + 1, torch.exp(X))` gives the right result, but
# its gradient is NaN where $e^x$ overflows, for x above 88 in float32: the branch that is not taken counts as 0 times
# infinity. `nn.functional.elu` does not have this problem.
#
# The checks also count how many numbers your function computes, here and in 10.4: for four times as many tokens, at
# most eight times as many. Loops over tokens are fine, loops over pairs are not. Views and copies cost nothing.
#
# By hand, with d_k = d_v = 1: the key $(0)$ has the feature 1, the key $(1)$ the feature 2, and the values 6 and 3 give
# $(1 \cdot 6 + 2 \cdot 3) / (1 + 2) = 4$ for any query.

# %% linear_attention
def linear_attention(Q, K, V):
    """Linear attention with the feature map elu + 1, in time and memory proportional to n.

    Parameters
    ----------
    Q : tensor, shape (..., n_q, d_k)
    K : tensor, shape (..., n_k, d_k)
    V : tensor, shape (..., n_k, d_v)

    Returns
    -------
    tensor, shape (..., n_q, d_v)

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if queries and keys differ in width, or if keys and values differ in number.
    """
    ### BEGIN SOLUTION
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    mixed = q @ (k.transpose(-2, -1) @ V)  # (..., n_q, d_k) (..., d_k, d_v)
    total = q @ k.sum(-2).unsqueeze(-1)  # (..., n_q, d_k) (..., d_k, 1)
    return mixed / total
    ### END SOLUTION

# %%
# For your own experiments.
# linear_attention(torch.tensor([[5.0]]), torch.tensor([[0.0], [1]]), torch.tensor([[6.0], [3]]))

# %% check_linear_attention
import checks

checks.run("linear_attention", points=2)

# %% ask_causal_linear_attention [markdown]
# ## 10.4 `causal_linear_attention`: a sum that runs along
#
# *About 20 minutes · medium ●●○*
#
# When token i sees tokens 0 to i, itself included, both sums accumulate: the matrix $\sum_{j \le i} \phi(k_j)^\top v_j$
# and the vector $\sum_{j \le i} \phi(k_j)$ grow by one term for each token. So a text is read one token at a time, with
# a state whose size does not depend on n: linear attention is a recurrent network. Here the numbers of queries, keys
# and values are equal.
#
# You may hold the matrix for each token, (..., n, d_k, d_v), here; a loop that keeps only the newest needs less memory.
# In practice the text is cut into chunks: a small causal weight matrix is computed within each chunk, and only the
# newest matrix and vector are passed on between chunks.
#
# By hand, with d_k = d_v = 1: the features 1, 2, 1 and the values 6, 3, 8 give $6/1 = 6$, $12/3 = 4$ and $20/4 = 5$.

# %% causal_linear_attention
def causal_linear_attention(Q, K, V):
    """Linear attention in which token i sees tokens 0 to i, in time and memory proportional to n.

    Parameters
    ----------
    Q, K : tensor, shape (..., n, d_k)
    V : tensor, shape (..., n, d_v)

    Returns
    -------
    tensor, shape (..., n, d_v)

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if numbers of queries, keys and values, or widths of queries and keys, differ.
    """
    ### BEGIN SOLUTION
    if not Q.shape[-2] == K.shape[-2] == V.shape[-2] or Q.shape[-1] != K.shape[-1]:
        raise ValueError(f"queries {tuple(Q.shape)}, keys {tuple(K.shape)}, values {tuple(V.shape)}")
    q, k = nn.functional.elu(Q) + 1, nn.functional.elu(K) + 1
    states = (k.unsqueeze(-1) * V.unsqueeze(-2)).cumsum(-3)  # (..., n, d_k, d_v)
    mixed = (q.unsqueeze(-2) @ states).squeeze(-2)
    total = (q * k.cumsum(-2)).sum(-1, keepdim=True)
    return mixed / total
    ### END SOLUTION

# %%
# For your own experiments.
# K, V = torch.tensor([[0.0], [1], [0]]), torch.tensor([[6.0], [3], [8]])
# causal_linear_attention(K, K, V)

# %% check_causal_linear_attention
import checks

checks.run("causal_linear_attention", points=3)

# %% ask_grouped_query_attention [markdown]
# ## 10.5 `grouped_query_attention`: fewer key heads
#
# *About 15 minutes · medium ●●○*
#
# There are h_q query heads, h_kv heads of keys and values, and h_q is a multiple of h_kv. Neighbors share: with 4 and
# 2, query heads 0 and 1 use key head 0, and query heads 2 and 3 use key head 1. Query head i uses key head i // (h_q /
# h_kv), as in Llama's weights. With h_kv = 1 it is multi-query attention, with h_kv = h_q multi-head attention.
#
# Scores may be n × n here.

# %% grouped_query_attention
def grouped_query_attention(Q, K, V):
    """Attention in which groups of query heads share one head of keys and values.

    Parameters
    ----------
    Q : tensor, shape (b, h_q, n_q, d_k)
    K : tensor, shape (b, h_kv, n_k, d_k)
    V : tensor, shape (b, h_kv, n_k, d_v)

    Returns
    -------
    tensor, shape (b, h_q, n_q, d_v)

    Raises
    ------
    ValueError, RuntimeError or IndexError
        If h_q is not a multiple of h_kv. Advice, worth no points: if h_kv is larger than h_q, if keys and values differ
        in heads or number, or if queries and keys differ in width.
    """
    ### BEGIN SOLUTION
    heads, shared = Q.shape[1], K.shape[1]
    if heads % shared or shared != V.shape[1]:
        raise ValueError(f"{heads} query heads, {shared} key heads, {V.shape[1]} value heads")
    group = heads // shared
    return full_attention(Q, K.repeat_interleave(group, dim=1), V.repeat_interleave(group, dim=1))
    ### END SOLUTION

# %%
# For your own experiments.
# grouped_query_attention(torch.randn(1, 4, 3, 2), torch.randn(1, 2, 5, 2), torch.randn(1, 2, 5, 6)).shape

# %% check_grouped_query_attention
import checks

checks.run("grouped_query_attention", points=2)

# %% ask_KVCache [markdown]
# ## 10.6 `KVCache`: what has been read
#
# *About 15 minutes · medium ●●○*
#
# A model that writes reads one more token in each step. The keys and values of the earlier tokens are the same as in
# the step before, so they are kept. `append` takes those of any number of new tokens, a whole prompt or a single token,
# and returns all so far, the oldest first.
#
# A returned tensor does not change when more is appended, and the cache does not change when the caller later modifies
# an appended tensor in place. Two caches share nothing. Gradients flow from the results to everything that was
# appended. The returned tensors belong to the cache: callers only read them, since writing into them may change the
# cache. Each part has at least one token.
#
# `torch.cat` works, but copies everything in each step, so n single tokens cost about n²/2 copied rows. Caches in
# practice allocate memory for the longest text once (they are *preallocated*), and each step writes only its new rows.

# %% KVCache
class KVCache:
    """Keys and values of all tokens so far."""

    def __init__(self):
        ### BEGIN SOLUTION
        self.k = self.v = None
        ### END SOLUTION

    def append(self, k, v):
        """Keep the keys and values of new tokens; return those of all tokens so far.

        Parameters
        ----------
        k : tensor, shape (..., n_new, d_k)
        v : tensor, shape (..., n_new, d_v)

        Returns
        -------
        k : tensor, shape (..., n, d_k)
        v : tensor, shape (..., n, d_v)
            Those of all tokens so far, in a tuple.

        Raises
        ------
        ValueError, RuntimeError or IndexError
            Advice, worth no points: if the numbers of keys and values differ, or if a size other than n_new differs
            from that of the cache. The cache then stays as it was before.
        """
        ### BEGIN SOLUTION
        if k.shape[-2] != v.shape[-2]:
            raise ValueError(f"{k.shape[-2]} keys and {v.shape[-2]} values")
        if self.k is None:
            new = k.clone(), v.clone()
        else:
            new = torch.cat([self.k, k], dim=-2), torch.cat([self.v, v], dim=-2)
        self.k, self.v = new
        return new
        ### END SOLUTION

# %%
# For your own experiments.
# cache = KVCache()
# cache.append(torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))
# cache.append(torch.randn(1, 2, 1, 4), torch.randn(1, 2, 1, 4))[0].shape

# %% check_KVCache
import checks

checks.run("KVCache", points=3)

# %% ask_merge [markdown]
# ## 10.7 `merge`: two parts that were read apart
#
# *About 20 minutes · medium ●●○*
#
# In 10.1, one chunk comes after another. A long cache can be read faster: it is cut into parts, and several processors
# take one part each, at the same time. Each of them runs `part`, given at the top. For each of its rows (queries), a
# part has
#
# $$
# m = \max_j s_j, \qquad \ell = \sum_j e^{s_j - m}, \qquad u = \sum_j e^{s_j - m}\, v_j ,
# $$
#
# where j goes through the keys of this part alone. Write `merge`, which combines two parts into one: $m$, $\ell$ and
# $u$ for the keys of both. It does not see scores or values. Its result may be merged again, with other parts, in any
# order and any grouping. At the very end, $u / \ell$ is attention.
#
# By hand, one row with one column: the first part has $m = 0$, $\ell = 1$, $u = 6$, and the second $m = \ln 3$,
# $\ell = 2$, $u = 3$. Together they are $m = \ln 3$, $\ell = \frac13 + 2 = \frac73$ and $u = 2 + 3 = 5$.
#
# Three traps. In some rows the first part has the larger score, in others the second. A part may have no key for a row,
# as under a causal mask: there $m = -\infty$, $\ell = 0$ and $u = 0$, and the other part does not change. Two such rows
# give another such row, never NaN: not in the result, and not in the gradients either (a NaN that `torch.where` hides
# in the result returns in the gradients). And $m$ and $\ell$ have no dimension for the columns of $u$.

# %% merge
def merge(first, second):
    """Return one part for the keys of two parts of the same rows.

    Parameters
    ----------
    first, second : tuple of three tensors, m (..., n), l (..., n) and u (..., n, d_v)
        For the keys of a part: the largest score, the sum of exp(score - m), and that sum weighted by the values. A row
        without keys has m = -inf, l = 0 and u = 0. Both parts have the same shapes.

    Returns
    -------
    m : tensor, shape (..., n)
    l : tensor, shape (..., n)
    u : tensor, shape (..., n, d_v)
        The same for all keys of both parts, in a tuple.
    """
    ### BEGIN SOLUTION
    (m_1, l_1, u_1), (m_2, l_2, u_2) = first, second
    m = torch.maximum(m_1, m_2)
    base = m.masked_fill(m == -torch.inf, 0)  # no keys at all: exp(-inf - 0) is 0, exp(-inf + inf) NaN
    a, b = torch.exp(m_1 - base), torch.exp(m_2 - base)
    return m, a * l_1 + b * l_2, a[..., None] * u_1 + b[..., None] * u_2
    ### END SOLUTION

# %%
# For your own experiments.
# S, V = torch.randn(3, 6), torch.randn(6, 2)
# m, l, u = merge(part(S[:, :4], V[:4]), part(S[:, 4:], V[4:]))
# u / l[:, None] - S.softmax(-1) @ V

# %% check_merge
import checks

checks.run("merge", points=4)

# %% writing [markdown]
# ## Written one token at a time
#
# Here your functions work together in the attention of one layer, with four query heads and two key heads. First come
# all tokens at once, with causal attention; then one after another, with a cache. In each step one new query attends to
# all keys so far, so causal attention needs no mask. The results are the same. The last step is repeated with its cache
# in three parts, each processed alone, and then merged.

# %% demo_writing
generator = torch.Generator().manual_seed(10)
n, d = 48, 8
Q = torch.randn(1, 4, n, d, generator=generator)
K, V = torch.randn(2, 1, 2, n, d, generator=generator)
at_once = chunked_attention(Q, K.repeat_interleave(2, 1), V.repeat_interleave(2, 1), 7, causal=True)
cache, steps = KVCache(), []
for i in range(n):
    keys, values = cache.append(K[:, :, i : i + 1], V[:, :, i : i + 1])
    steps.append(grouped_query_attention(Q[:, :, i : i + 1], keys, values))
print(f"one after another, largest difference: {(torch.cat(steps, 2) - at_once).abs().max():.1g}")

query = Q[:, :, -1:].unflatten(1, (2, 2))  # (1, 2, 2, 1, d): two groups of two heads
scores = query @ keys.unsqueeze(2).transpose(-2, -1) / math.sqrt(d)
parts = [part(scores[..., own], values.unsqueeze(2)[..., own, :]) for own in (slice(20), slice(20, 30), slice(30, n))]
m, l, u = merge(merge(parts[2], parts[0]), parts[1])
print(f"three parts merged, largest difference: {((u / l[..., None]).flatten(1, 2) - steps[-1]).abs().max():.1g}")

# %% kinds [markdown]
# ## Which of them are exact?
#
# The figure shows, for the same queries, keys and values, how far each result is from full attention, for windows of
# all sizes. Chunks are exact, a window is exact when it covers everything, and linear attention is another function.

# %% demo_kinds
import matplotlib.pyplot as plt

queries, keys, values = torch.randn(3, n, d, generator=generator)
exact = full_attention(queries, keys, values)


def away(result):
    return ((result - exact).norm() / exact.norm()).item()


figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(range(n), [away(local_attention(queries, keys, values, w)) for w in range(n)], label="local, by its window")
axes.axhline(away(linear_attention(queries, keys, values)), color="tab:orange", ls="--", label="linear")
axes.axhline(away(chunked_attention(queries, keys, values, 7)), color="tab:green", ls=":", label="chunked")
axes.set_xlabel("window")
axes.set_ylabel("relative distance from full attention")
legend = axes.legend()

# %% think [markdown]
# ## To think about: what a longer prompt costs
#
# *About 5 minutes · medium ●●○*
#
# A model has 32 layers and 32 query heads with d_head = 128, and keeps keys and values in 2 bytes for each number. How
# much memory does the cache of 8,192 tokens take with 32 key heads, and with 8? And how much does the state of causal
# linear attention take, with 32 heads? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# Keys and values: 2 · 32 layers · 32 heads · 128 · 8,192 tokens · 2 bytes are $2^{32}$ bytes, 4.3 GB. With 8 heads it
# is a quarter, 1.1 GB. The state of linear attention is a matrix of 128 × 128 and a vector of 128 for each head and
# layer, 32 · 32 · (128 · 128 + 128) · 2 bytes, about 34 MB for a text of any length. That makes it attractive, but it
# loses the ability to find a single token again out of 8,192.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: backwards without n × n
#
# *About 45 minutes · hard ●●●*
#
# For the backward pass, autograd keeps what each chunk computed, which is n × n again. Write a
# `torch.autograd.Function` whose forward keeps Q, K, V, the result and, for each query, $\mu + \ln \ell$, and whose
# backward goes through the chunks again and recomputes the weights. Compare its gradients with those of
# `full_attention`. There are no points and no check for this task.

# %%
# Yours: the stretch task, or anything else.

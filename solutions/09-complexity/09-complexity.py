# %% title [markdown]
# # 9. Complexity
#
# You count what one layer of attention costs before you trust any clock: its operations (`attention_flops`), the memory
# of its attention weights (`attention_bytes`), its parameters (`parameter_count`), and the length at which the part
# that grows with the square of n overtakes the rest (`crossover_length`). Then you write a function that turns measured
# times into an exponent (`fit_exponent`), and two figures compare your counts with the times on this machine. The last
# part is about a model that writes text: the bytes that it reads in each step (`decode_bytes`), the least time that a
# machine needs for a step (`least_seconds`), and how many texts it should write at a time (`critical_batch`,
# `largest_batch`). Read chapter 9 of the book first.
#
# *About 115 minutes · medium ●●○*
#
# **How to work.** Run the cells from the top, in order. Replace the line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("attention_flops", points=5, seed=...)` in a cell of your own. You can earn partial points, and the
# checks are readable: open `checks.py` next to this notebook. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `09-complexity.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import math
import time

import numpy as np


def self_attention(X, W_q, W_k, W_v, W_o, num_heads, table=None):
    """Multi-head self-attention of one sequence, without biases (given; chapter 6 is about it).

    Parameters
    ----------
    X : array, shape (n, d_model)
    W_q, W_k, W_v, W_o : arrays, shape (d_model, d_model)
    num_heads : int
        Divides d_model.
    table : array, shape (num_heads, n, n), optional
        Memory for the scores, which become the weights in place. Default: a new array.

    Returns
    -------
    array, shape (n, d_model)
    """
    n, d_model = X.shape
    # (n, d_model) -> (num_heads, n, d_head)
    Q, K, V = (np.swapaxes((X @ W).reshape(n, num_heads, -1), 0, 1) for W in (W_q, W_k, W_v))
    A = np.matmul(Q / math.sqrt(Q.shape[-1]), np.swapaxes(K, -1, -2), out=table)  # (num_heads, n, n)
    A -= A.max(axis=-1, keepdims=True)
    np.exp(A, out=A)
    A /= A.sum(axis=-1, keepdims=True)
    Z = np.swapaxes(A @ V, 0, 1).reshape(n, d_model)  # the heads side by side again
    return Z @ W_o

# %% ask_by_hand [markdown]
# ## With a pencil: three words in two heads
#
# *About 10 minutes · medium ●●○*
#
# Three words, $n = 3$, go through a layer with $d_\text{model} = 4$ and two heads, so each head is 2 wide.
# **Find four numbers:**
#
# 1. how many multiplications there are in the projection to the queries, $X W_q$;
# 2. how many there are in the scores $Q K^\top$ of both heads together;
# 3. how many FLOPs (floating-point operations) the layer takes: all four projections, scores and weighted sums of both
#    heads, and an addition for each multiplication;
# 4. how many bytes the attention weights of both heads take in float32, where a number has 4 bytes.
#
# An entry of a matrix product is a sum. Count the entries, and then the terms of each sum.

# %% by_hand
def by_hand():
    """Return what three words in two heads cost, worked out with a pencil.

    Returns
    -------
    list of 4 numbers
        Multiplications of a projection, multiplications of all scores, FLOPs of the layer, bytes of the weights. A
        tuple or an array also works.
    """
    ### BEGIN SOLUTION
    return [48, 36, 528, 72]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Six rules for this notebook
#
# - Count **one layer** of multi-head self-attention for **one sequence** of n tokens, in the forward pass. Queries,
#   keys, values and the output each have a projection, a matrix (d_model, d_model). Each head is d_head = d_model /
#   num_heads wide, and has its own attention weights (n, n). There is no mask.
# - A sum of k products counts as k multiplications and k additions, **2k FLOPs**. So the product of an array (a, k)
#   with an array (k, b) counts 2 a k b. Only matrix products are counted: no softmax, no scaling, no biases.
# - Sizes are integers of at least 1. In the functions that take both, num_heads divides d_model. Advice, worth no
#   points: if it does not, raise `ValueError`.
# - Results are whole numbers, not in thousands or millions. (`6.0` is as good as `6`.)
# - n may be a million. So count with a formula and Python's own integers: no array of that size fits into memory, and
#   the results overflow 32-bit integers.
# - Arguments stay as they are: no function changes an array, a list or a dictionary that it is given.

# %% ask_attention_flops [markdown]
# ## 9.1 `attention_flops`: how many operations?
#
# *About 15 minutes · medium ●●○*
#
# Count the FLOPs of the four projections, and of the two matrix products in each head: queries with keys, and weights
# with values.
#
# By hand, with n = 2, d_model = 4, num_heads = 2: a projection is (2, 4) times (4, 4), 8 entries of 4 products each, 64
# FLOPs. In each head, the scores are (2, 2) times (2, 2), 4 entries of 2 products each, 16 FLOPs. The weighted sums
# take as many. Together: $4 \cdot 64 + 2 \cdot (16 + 16) = 320$.

# %% attention_flops
def attention_flops(n, d_model, num_heads):
    """Return the FLOPs of one layer of self-attention for one sequence.

    Parameters
    ----------
    n : int
        The number of tokens.
    d_model : int
        The width of the layer.
    num_heads : int
        The number of heads, each d_model / num_heads wide.

    Returns
    -------
    int
        Four projections, and in each head two products; 2 for each multiplication and its addition.

    Raises
    ------
    ValueError
        Advice, worth no points: if num_heads does not divide d_model.
    """
    ### BEGIN SOLUTION
    if d_model % num_heads:
        raise ValueError(f"{num_heads} heads do not divide d_model = {d_model}")
    projections = 4 * 2 * n * d_model * d_model
    products = 2 * 2 * n * n * d_model  # num_heads products, each d_model / num_heads wide
    return projections + products
    ### END SOLUTION

# %%
# For your own experiments. Write the function, then take the # away.
# attention_flops(2, 4, 2)

# %% check_attention_flops
import checks

checks.run("attention_flops", points=5)

# %% ask_attention_bytes [markdown]
# ## 9.2 `attention_bytes`: how much memory do the attention weights take?
#
# *About 5 minutes · easy ●○○*
#
# Count the bytes of the layer's attention weights, an array (num_heads, n, n), when all of them are in memory at the
# same time.
#
# By hand, with n = 2, d_model = 4, num_heads = 2 and 2 bytes for each number (float16): each head has $2 \cdot 2$
# weights, both together have 8, which take 16 bytes.

# %% attention_bytes
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    """Return the bytes of the attention weights of one layer for one sequence.

    Parameters
    ----------
    n : int
        The number of tokens.
    d_model : int
        The width of the layer. These weights do not depend on it, but num_heads has to divide it.
    num_heads : int
        The number of heads.
    bytes_per_value : int
        The bytes of one number: 4 for float32, 2 for float16, 8 for float64.

    Returns
    -------
    int
        The size of an array (num_heads, n, n) in bytes.

    Raises
    ------
    ValueError
        Advice, worth no points: if num_heads does not divide d_model.
    """
    ### BEGIN SOLUTION
    if d_model % num_heads:
        raise ValueError(f"{num_heads} heads do not divide d_model = {d_model}")
    return num_heads * n * n * bytes_per_value
    ### END SOLUTION

# %%
# For your own experiments. How many gigabytes are needed for 100,000 tokens, 32 heads and float16?
# attention_bytes(2, 4, 2, 2)

# %% check_attention_bytes
import checks

checks.run("attention_bytes", points=3)

# %% ask_parameter_count [markdown]
# ## 9.3 `parameter_count`: how many numbers are learned?
#
# *About 5 minutes · easy ●○○*
#
# Count the parameters of the four projections. Each has a matrix (d_model, d_model), and with `bias=True` a bias
# (d_model,). Neither the length of the sequence nor the number of heads matters.
#
# By hand, with d_model = 2: each matrix has 4 numbers, and with its bias a projection has 6. All four have 16 without
# biases, and 24 with them.

# %% parameter_count
def parameter_count(d_model, bias=True):
    """Return the number of parameters of the four projections.

    Parameters
    ----------
    d_model : int
        The width of the layer.
    bias : bool, optional
        Whether the projections have biases. Default: True.

    Returns
    -------
    int
    """
    ### BEGIN SOLUTION
    weights = d_model * d_model
    biases = d_model if bias else 0
    return 4 * (weights + biases)
    ### END SOLUTION

# %%
# For your own experiments.
# parameter_count(2), parameter_count(2, bias=False)

# %% check_parameter_count
import checks

checks.run("parameter_count", points=3)

# %% ask_crossover_length [markdown]
# ## 9.4 `crossover_length`: when do the products overtake the projections?
#
# *About 10 minutes · medium ●●○*
#
# The cost of the projections grows in proportion to n, and the cost of the two products with its square. For short
# sequences the projections are the larger part, for long ones the products. Find the length n at which both cost the
# same, in FLOPs. It depends on d_model alone, not on the number of heads.
#
# To try your formula: at n = 2 and d_model = 4, by hand in 9.1, the projections cost 256 and the products 64. So the
# crossover for d_model = 4 is above 2, and `attention_flops` has all that you need to find it.

# %% crossover_length
def crossover_length(d_model):
    """Return the length at which the two products of attention cost what its four projections cost.

    Parameters
    ----------
    d_model : int
        The width of the layer.

    Returns
    -------
    int
        The number of tokens n for which both take the same number of FLOPs.
    """
    ### BEGIN SOLUTION
    return 2 * d_model  # 4 n^2 d_model = 8 n d_model^2
    ### END SOLUTION

# %%
# For your own experiments.
# crossover_length(4)

# %% check_crossover_length
import checks

checks.run("crossover_length", points=2)

# %% ask_fit_exponent [markdown]
# ## 9.5 `fit_exponent`: which power of n does the clock follow?
#
# *About 15 minutes · medium ●●○*
#
# Someone measured how many seconds a program takes for some lengths. If the time follows a power law, $t = c\, n^p$,
# then $\log t = \log c + p \log n$: the logarithms lie on a line, and its slope is the exponent p. Measured points
# scatter around that line. Return the slope of the **least-squares line** through the points $(\log n_i, \log t_i)$,
# the line with the least sum of squared distances in $\log t$:
#
# $$
# p = \frac{\sum_i (u_i - \bar u)\, w_i}{\sum_i (u_i - \bar u)^2} , \qquad u_i = \log n_i , \quad w_i = \log t_i ,
# $$
#
# with the mean $\bar u$. All points count equally: a length that was measured several times is several points. A
# library function may do it for you. One trap: `np.polyfit` raises `TypeError`, not `ValueError`, when the sizes
# differ.
#
# By hand: the lengths $(1, 2, 4)$ take $(3, 12, 48)$ seconds, four times as many each time the length doubles. The
# exponent is 2. If the last one took 96 seconds, it would be 2.5. With logarithms to base 2, which do not change the
# slope, u is $(0, 1, 2)$ with the mean 1, and w is $(0, 2, 5)$ plus $\log_2 3$, which cancels. So the slope is
# $(-1 \cdot 0 + 0 \cdot 2 + 1 \cdot 5) / (1 + 0 + 1)$.

# %% fit_exponent
def fit_exponent(lengths, seconds):
    """Return the exponent of the power law that measured times follow.

    Parameters
    ----------
    lengths : array or list of numbers, shape (m,)
        The length of each input: above 0, in any order, with at least two different ones among them.
    seconds : array or list of numbers, shape (m,)
        The time of each measurement: above 0, in any unit.

    Returns
    -------
    float
        The slope of the least-squares line through the logarithms.

    Raises
    ------
    ValueError
        Advice, worth no points: if there are not as many seconds as lengths, even if one of the two has length 1.
    """
    ### BEGIN SOLUTION
    x, y = np.log(lengths), np.log(seconds)
    if x.shape != y.shape:
        raise ValueError(f"there are {len(x)} lengths and {len(y)} seconds")
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())
    ### END SOLUTION

# %%
# For your own experiments.
# fit_exponent([1, 2, 4], [3, 12, 48]), fit_exponent([1, 2, 4], [3, 12, 96])

# %% check_fit_exponent
import checks

checks.run("fit_exponent", points=5)

# %% ask_decode_bytes [markdown]
# ## 9.6 `decode_bytes`: how much does a decoding step read?
#
# *About 10 minutes · medium ●●○*
#
# From here on, a whole model writes `batch` texts at the same time. One **decoding step** gives each text one more token.
# The step reads two things from memory:
#
# - all parameters of the model, **once for the whole batch**;
# - the **cache** of each text. It has a key and a value for each of the text's `context` positions, in each of
#   `num_kv_heads` heads of each of `num_layers` layers. A key and a value have `d_head` numbers each.
#
# Count the bytes of both together, and nothing else. Parameters and caches take `bytes_per_number` bytes for each
# number. Several query heads may share one key head, so num_kv_heads · d_head may be less than d_model.
#
# By hand: a model has 10 parameters, one layer, d_model = 8, two key heads with d_head = 2, and 2 bytes for each
# number. It writes 2 texts with 3 positions each. The parameters take 20 bytes. A text's cache has 3 keys and 3 values
# in each of 2 heads. These 12 vectors of 2 numbers take 48 bytes. Together: $20 + 2 \cdot 48 = 116$.

# %% decode_bytes
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    """Return the bytes that one decoding step reads: all parameters once, and the cache of each text.

    Parameters
    ----------
    batch : int
        The number of texts.
    context : int
        The number of positions in the cache of each text.
    num_layers : int
        The number of layers, each with its own cache.
    d_model : int
        The width of the model. The result does not depend on it.
    num_kv_heads : int
        The number of heads of keys and values in each layer.
    d_head : int
        The width of a head.
    num_parameters : int
        The number of parameters of the whole model.
    bytes_per_number : int
        The bytes of one number: 4 for float32, 2 for float16, 1 for 8 bits.

    Returns
    -------
    int
        A number of bytes.
    """
    ### BEGIN SOLUTION
    vectors = 2 * num_layers * num_kv_heads * context  # keys and values of one text
    return bytes_per_number * (num_parameters + batch * vectors * d_head)
    ### END SOLUTION

# %%
# For your own experiments.
# decode_bytes(2, 3, 1, 8, 2, 2, 10, 2)

# %% check_decode_bytes
import checks

checks.run("decode_bytes", points=3)

# %% ask_least_seconds [markdown]
# ## 9.7 `least_seconds`: how fast can a machine be at best?
#
# *About 5 minutes · easy ●○○*
#
# A machine carries out a limited number of operations per second, and moves a limited number of bytes per second
# between memory and processor. Each of the two limits gives a time. At best, the machine computes and moves at the same
# time, from the first moment to the last. Return the least time in which a step can then be done. This is the bound of
# the **roofline** model.
#
# By hand: a step has 600 operations and moves 200 bytes, on a machine with 100 operations and 50 bytes per second. The
# operations take 6 seconds and the bytes 4. After 4 seconds the operations are not done, and after 6 seconds both are.
# So the result is 6.

# %% least_seconds
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    """Return the least time that a machine needs for a step, by the roofline model.

    Parameters
    ----------
    operations : int or float
        How many operations the step has, 0 or more.
    moved_bytes : int or float
        How many bytes the step reads and writes, 0 or more.
    operations_per_second : int or float
        The machine's speed.
    bytes_per_second : int or float
        The machine's bandwidth.

    Returns
    -------
    float
        A number of seconds.
    """
    ### BEGIN SOLUTION
    return max(operations / operations_per_second, moved_bytes / bytes_per_second)
    ### END SOLUTION

# %%
# For your own experiments.
# least_seconds(600, 200, 100, 50)

# %% check_least_seconds
import checks

checks.run("least_seconds", points=2)

# %% ask_critical_batch [markdown]
# ## 9.8 `critical_batch`: when does arithmetic become the limit?
#
# *About 10 minutes · medium ●●○*
#
# In a decoding step, one weight matrix is multiplied with one row for each text. That takes 2 operations for each
# parameter of the matrix and each text. The matrix is read **once**, for any batch size; the rows are much smaller, and
# are not counted. In a small batch reading takes longer than arithmetic, in a large batch arithmetic does. Find the
# batch at which both take the same time. It does not depend on the size of the matrix.
#
# Return the exact result of the formula, without rounding.
#
# To try your formula: a machine has 100 operations and 50 bytes per second, and the matrix has 1000 parameters of 4 bytes each. With one
# text, the operations take 20 seconds and the bytes 80. So the critical batch is above 1.

# %% critical_batch
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    """Return the batch from which on a product with a weight matrix is limited by arithmetic.

    Parameters
    ----------
    operations_per_second : int or float
        The machine's speed.
    bytes_per_second : int or float
        The machine's bandwidth.
    bytes_per_number : int or float
        The bytes of one parameter; 0.5 if it has 4 bits.

    Returns
    -------
    float
        The number of texts at which arithmetic and reading take the same time, not rounded.
    """
    ### BEGIN SOLUTION
    return operations_per_second * bytes_per_number / (2 * bytes_per_second)
    ### END SOLUTION

# %%
# For your own experiments.
# critical_batch(100, 50, 4)

# %% check_critical_batch
import checks

checks.run("critical_batch", points=2)

# %% ask_largest_batch [markdown]
# ## 9.9 `largest_batch`: how many texts at a time?
#
# *About 25 minutes · hard ●●●*
#
# The more texts share the reading of the parameters, the more tokens a machine writes per second. So the batch should
# be large. Two rules limit it:
#
# - The parameters and the caches of all texts have to **fit into memory**. These are the bytes of `decode_bytes`.
# - No one wants to wait long for the next token. The least time of a step, as computed by `least_seconds`, must be
#   **at most `seconds`**.
#
# A step moves the bytes of `decode_bytes`. Its operations, for **each text**, are 2 for each parameter of the model,
# and in each layer $4 \cdot \text{context} \cdot d_\text{model}$ more for the scores and the weighted sums: all query
# heads together are d_model wide.
#
# Return the largest whole number of texts that follows both rules. A batch may reach a limit exactly. If not even one
# text is possible, return 0. All texts have the same `context`. A search works as well as a formula; the batch may be a
# few thousand.
#
# `model` and `machine` are dictionaries, with the names below. `decode_bytes(batch, context, **model)` passes all six
# numbers of a model.
#
# By hand: the model of 9.6, with 3 positions for each text, reads $20 + 48\, b$ bytes for $b$ texts. Each text has
# $2 \cdot 10 + 4 \cdot 3 \cdot 8 = 116$ operations. The machine of 9.7 has 200 bytes of memory, which are enough for
# $b = 3$. A step with $b = 3$ moves 164 bytes, in 3.28 seconds, and has 348 operations, in 3.48 seconds. So the result
# is 3 if `seconds` is 10. If it is 3, the result is 2.

# %% largest_batch
def largest_batch(context, model, machine, seconds):
    """Return the largest number of texts that fit into memory and get their next token in time.

    Parameters
    ----------
    context : int
        The number of positions in the cache of each text.
    model : dict
        Numbers named "num_layers", "d_model", "num_kv_heads", "d_head", "num_parameters" and "bytes_per_number", as in
        `decode_bytes`.
    machine : dict
        Numbers named "memory_bytes", "operations_per_second" and "bytes_per_second".
    seconds : int or float
        The longest time that a step may take.

    Returns
    -------
    int
        A number of texts, 0 if there is not enough memory or time for one.
    """
    ### BEGIN SOLUTION
    parameters = model["num_parameters"] * model["bytes_per_number"]
    cache = decode_bytes(1, context, **model) - parameters
    operations = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    most_bytes = min(machine["memory_bytes"], seconds * machine["bytes_per_second"])
    by_bytes = (most_bytes - parameters) // cache
    by_operations = seconds * machine["operations_per_second"] // operations
    return max(int(min(by_bytes, by_operations)), 0)
    ### END SOLUTION

# %%
# For your own experiments.
# model = dict(num_layers=1, d_model=8, num_kv_heads=2, d_head=2, num_parameters=10, bytes_per_number=2)
# machine = dict(memory_bytes=200, operations_per_second=100, bytes_per_second=50)
# largest_batch(3, model, machine, 10), largest_batch(3, model, machine, 3)

# %% check_largest_batch
import checks

checks.run("largest_batch", points=4)

# %% counted [markdown]
# ## What you counted
#
# The figure is about a layer with d_model = 1024 and 16 heads, and uses your first four functions. On the left are its
# FLOPs in two parts. A projection takes 2 FLOPs for each entry of its matrix and each token, so the four together take
# 2 n times `parameter_count`; the rest of `attention_flops` is the two products. They meet at `crossover_length`. On
# the right is its memory in float16: the attention weights of one sequence, and the parameters, which are the same for
# each length.

# %% demo_counted
import matplotlib.pyplot as plt

d_model, num_heads = 1024, 16
lengths = [2**i for i in range(5, 18)]
projections = [2 * n * parameter_count(d_model, False) for n in lengths]
products = [attention_flops(n, d_model, num_heads) - cost for n, cost in zip(lengths, projections, strict=True)]
weights = [attention_bytes(n, d_model, num_heads, 2) for n in lengths]
crossing = crossover_length(d_model)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
left.loglog(lengths, projections, "s-", color="#009e73", label="four projections")
left.loglog(lengths, products, "o--", color="#d55e00", label="two products")
left.axvline(crossing, color="0.5", linestyle=":", label=f"crossover: n = {crossing}")
left.set(xlabel="n (tokens)", ylabel="FLOPs", title="Operations")
left.legend()
right.loglog(lengths, weights, "o--", color="#cc79a7", label="attention weights")
right.axhline(2 * parameter_count(d_model), color="#009e73", label="parameters")
right.set(xlabel="n (tokens)", ylabel="bytes", title="Memory in float16")
right.legend()
figure.tight_layout()

# %% measured [markdown]
# ## What the clock says
#
# `self_attention`, given at the top, is timed on this machine for a narrower layer, d_model = 128 with 4 heads: the
# fastest of five runs or more for each length. The array for its weights is allocated once for each length, because a
# new one in each run would add the time for allocating memory. Your `fit_exponent` turns the times of the shortest and
# of the longest sequences into exponents, and does the same with the FLOPs that you counted. Do the two agree? Where
# they differ, something that is not counted takes time, such as softmax, memory, or a function call; or a run used only
# a part of the machine.

# %% demo_measured
d_model, num_heads = 128, 4
lengths = [16, 32, 64, 128, 256, 512, 1024, 2048]
rng = np.random.default_rng(9)
W = rng.standard_normal((4, d_model, d_model), dtype=np.float32) / math.sqrt(d_model)


def fastest(n, at_least=0.05):
    """Return the seconds of the fastest run: of five, or of as many as fit into so many seconds."""
    X = rng.standard_normal((n, d_model), dtype=np.float32)
    table = np.empty((num_heads, n, n), dtype=np.float32)
    taken = []
    while len(taken) < 5 or sum(taken) < at_least:
        begun = time.perf_counter()
        self_attention(X, *W, num_heads, table)
        taken.append(time.perf_counter() - begun)
    return min(taken)


seconds = [fastest(n) for n in lengths]
flops = [attention_flops(n, d_model, num_heads) for n in lengths]
for name, part in [("shortest four", slice(4)), ("longest four", slice(-4, None))]:
    by_clock, by_count = (fit_exponent(lengths[part], values[part]) for values in (seconds, flops))
    print(f"{name}, n = {lengths[part]}: exponent {by_clock:.2f} by the clock, {by_count:.2f} by the count")

figure, axes = plt.subplots(figsize=(6, 3.8))
axes.loglog(lengths, seconds, "o-", color="#0072b2", label="measured")
share = seconds[-1] / flops[-1]
axes.loglog(lengths, [share * count for count in flops], "--", color="0.5", label="FLOPs counted, to scale at the end")
axes.set(xlabel="n (tokens)", ylabel="seconds", title=f"self_attention, d_model = {d_model}, {num_heads} heads")
axes.legend()
figure.tight_layout()

# %% decoding [markdown]
# ## Tokens per second, at best
#
# The model has 8 billion parameters in float16, 32 layers, d_model = 4096 and 8 key heads. It runs on an imagined
# machine with round numbers: 80 GB of memory, $10^{15}$ operations and $3 \cdot 10^{12}$ bytes per second. Each line is
# for one length of the texts. It ends where the memory is full, and shows the batch divided by the least time of a
# step. The vertical line is your `critical_batch`.
#
# All texts share the parameters, so the first texts are almost free. The caches are not shared: each text reads its
# own, in a batch of any size. Look where each line ends. Long texts fill the memory before arithmetic can become the
# limit.

# %% demo_decoding
model = dict(
    num_layers=32, d_model=4096, num_kv_heads=8, d_head=128, num_parameters=8_000_000_000, bytes_per_number=2
)
speed, bandwidth = 1e15, 3e12
machine = dict(memory_bytes=80_000_000_000, operations_per_second=speed, bytes_per_second=bandwidth)

figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
for context, color in [(200, "#009e73"), (1000, "#0072b2"), (8000, "#d55e00"), (64000, "#cc79a7")]:
    most = largest_batch(context, model, machine, seconds=1.0)
    batches = np.unique(np.geomspace(1, most, 40).astype(int)).tolist()
    operations = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    times = [
        least_seconds(b * operations, decode_bytes(b, context, **model), speed, bandwidth) for b in batches
    ]
    rates = [b / taken for b, taken in zip(batches, times, strict=True)]
    axes.loglog(batches, rates, ".-", color=color)
    axes.annotate(f"{context:,}", (batches[-1], rates[-1]), (7, -4), textcoords="offset points", color=color)
    print(f"{context:6,} positions: at most {most:5,} texts, {rates[-1]:9,.0f} tokens per second")
axes.axvline(critical_batch(speed, bandwidth, 2), color="0.5", linestyle=":")
axes.set(xlabel="texts at a time", ylabel="tokens per second, at best", title="8 billion parameters, texts of so many positions")
axes.margins(x=0.12, y=0.1)

# %% think [markdown]
# ## To think about: nearly linear?
#
# *About 5 minutes · medium ●●○*
#
# Someone times a layer with d_model = 1024 for n = 64, 128, 256 and 512, fits an exponent of 1.1, and writes:
# "Attention is nearly linear in practice; that it is quadratic is theory." What is right about the measurement, and
# what is wrong with the sentence? What would you ask them to measure? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# The exponent may be right, for these lengths. The crossover of this layer is at n = 2048, so up to 512 the projections
# are at least four fifths of the operations, and those grow in proportion to n. In addition, each call takes some time
# for any n, and a large matrix product uses a machine better than a small one. Both make the exponent even smaller. An
# exponent belongs to a range of lengths. Beyond it, the quadratic part dominates: ask for times at n = 8192, 16384 and
# 32768, if the memory of the weights allows it.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: the exponent where you stand
#
# *About 30 minutes · hard ●●●*
#
# For a smooth cost f(n), the slope of the log-log curve at one length is $n f'(n) / f(n)$. Find it for the FLOPs of
# attention, as a formula in n and d_model. What is it at the crossover? From which length on is it above 1.9? Test your
# formula with `fit_exponent` on the counts at two lengths that are close together. Then count a block as in Llama 3:
# its keys and values are d_model / 4 wide, each shared by four query heads, and its MLP has three matrices, each as
# large as (d_model, 3.5 d_model). Where is its crossover, and what does that say about a model with d_model = 4096 that
# reads 2000 tokens? There are no points and no check for this task.
#
# <details><summary>An answer</summary>
#
# With $f(n) = 8\, n\, d^2 + 4\, n^2 d$, where $d$ is d_model, the slope is
#
# $$
# p = \frac{n\, f'(n)}{f(n)} = \frac{8\, n\, d^2 + 8\, n^2 d}{8\, n\, d^2 + 4\, n^2 d} = 1 + \frac{n}{n + 2\, d} .
# $$
#
# At the crossover, $n = 2\, d$, it is 1.5. It is above 1.9 where $n > 0.9\, (n + 2\, d)$, from $n = 18\, d$ on.
#
# The block: queries and output take $2 \cdot 2\, n\, d^2$, keys and values $2 \cdot 2\, n\, d^2 / 4$, and the MLP
# $3 \cdot 2 \cdot 3.5\, n\, d^2$, together $26\, n\, d^2$. Sharing keys saves nothing in the two products, $4\, n^2 d$.
# So the crossover is at $n = 6.5\, d$, which is 26,624 for $d = 4096$. For 2000 tokens, the products take
# $n / (n + 6.5\, d)$, 7% of the operations: here the quadratic part hardly counts.
#
# </details>

# %%
# Yours: the stretch task, or anything else.

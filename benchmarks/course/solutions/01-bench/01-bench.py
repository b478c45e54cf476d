# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # A notebook to measure with
#
# Six functions, from a projection to attention, in NumPy and once in torch. Replace each
# `raise NotImplementedError()` by your code, run the cell, then run the check below it.

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
import matplotlib.pyplot as plt
import numpy as np
import torch

# %% [markdown] nbgrader={"grade": false, "grade_id": "ask_project", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. `project`: one matrix, applied to every vector
#
# Row i of the result is $x_i W$.

# %% nbgrader={"grade": false, "grade_id": "project", "locked": false, "schema_version": 3, "solution": true, "task": false}
def project(X, W):
    """Return `X` (..., n, d_in) times `W` (d_in, d_out)."""
    ### BEGIN SOLUTION
    return X @ W
    ### END SOLUTION

# %%
# Yours to play with.
# project(np.array([[1.0, 2.0], [0.0, 3.0]]), np.eye(2))

# %% nbgrader={"grade": true, "grade_id": "check_project", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
import checks

checks.run("project", points=4)

# %% [markdown] nbgrader={"grade": false, "grade_id": "ask_scores", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. `scores`: every query meets every key
#
# $S_{ij} = q_i \cdot k_j / \sqrt{d_k}$.

# %% nbgrader={"grade": false, "grade_id": "scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scores(Q, K):
    """Return the scaled dot products of `Q` (..., n_q, d_k) and `K` (..., n_k, d_k)."""
    ### BEGIN SOLUTION
    return Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    ### END SOLUTION

# %%
# Yours to play with.
# scores(np.array([[1.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 1.0]]))

# %% nbgrader={"grade": true, "grade_id": "check_scores", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
import checks

checks.run("scores", points=4)

# %% [markdown] nbgrader={"grade": false, "grade_id": "ask_softmax", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. `softmax`: scores become weights
#
# Positive numbers that sum to 1 along the last axis.

# %% nbgrader={"grade": false, "grade_id": "softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
def softmax(S):
    """Return the softmax of `S` over its last axis, for scores of any size."""
    ### BEGIN SOLUTION
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)
    ### END SOLUTION

# %%
# Yours to play with.
# softmax(np.array([1.0, 2.0, 3.0]))

# %% nbgrader={"grade": true, "grade_id": "check_softmax", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
import checks

checks.run("softmax", points=4)

# %% [markdown] nbgrader={"grade": false, "grade_id": "ask_weighted_sum", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. `weighted_sum`: mix the values
#
# $z_i = \sum_j A_{ij} v_j$.

# %% nbgrader={"grade": false, "grade_id": "weighted_sum", "locked": false, "schema_version": 3, "solution": true, "task": false}
def weighted_sum(A, V):
    """Return the values `V` (..., n_k, d_v), mixed with the weights `A` (..., n_q, n_k)."""
    ### BEGIN SOLUTION
    return A @ V
    ### END SOLUTION

# %%
# Yours to play with.
# weighted_sum(np.array([[0.25, 0.75]]), np.array([[4.0], [8.0]]))

# %% nbgrader={"grade": true, "grade_id": "check_weighted_sum", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
import checks

checks.run("weighted_sum", points=4)

# %% [markdown] nbgrader={"grade": false, "grade_id": "ask_attention", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. `attention`: all of it
#
# The softmax of the scores, times the values.

# %% nbgrader={"grade": false, "grade_id": "attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attention(Q, K, V):
    """Return scaled dot-product attention."""
    ### BEGIN SOLUTION
    return weighted_sum(softmax(scores(Q, K)), V)
    ### END SOLUTION

# %%
# Yours to play with.
# attention(np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 5)))

# %% nbgrader={"grade": true, "grade_id": "check_attention", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
import checks

checks.run("attention", points=6)

# %% [markdown] nbgrader={"grade": false, "grade_id": "ask_torch_attention", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 6. `torch_attention`: the same in torch
#
# With an optional causal mask: query i sees the keys 0 to i alone.

# %% nbgrader={"grade": false, "grade_id": "torch_attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def torch_attention(Q, K, V, causal=False):
    """Return scaled dot-product attention of tensors, with a causal mask if asked for."""
    ### BEGIN SOLUTION
    S = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    if causal:
        hidden = torch.ones(S.shape[-2:], dtype=torch.bool).triu(1)
        S = S.masked_fill(hidden, float("-inf"))
    return torch.softmax(S, dim=-1) @ V
    ### END SOLUTION

# %%
# Yours to play with.
# torch_attention(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4, 5))

# %% nbgrader={"grade": true, "grade_id": "check_torch_attention", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
import checks

checks.run("torch_attention", points=6)

# %% [markdown] nbgrader={"grade": false, "grade_id": "picture", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## A picture
#
# Who looks at whom, drawn by your functions.

# %% nbgrader={"grade": false, "grade_id": "demo_picture", "locked": true, "schema_version": 3, "solution": false, "task": false}
rng = np.random.default_rng(1)
Q, K = rng.standard_normal((2, 12, 8))
figure, axes = plt.subplots(figsize=(4, 3))
axes.imshow(softmax(scores(Q, K)))
axes.set(xlabel="key", ylabel="query", title="Who looks at whom")

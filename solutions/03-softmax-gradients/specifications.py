"""The results that exercise 3 asks for, for its checks. Released only inside the archive.

Softmax is computed through its logarithm, s_j - log sum_l e^(s_l), and everything else is sums over elements.
"""

import numpy as np


def weights_of(S):
    """Return the softmax of scores S (..., n) over the last axis."""
    return np.exp(S - np.logaddexp.reduce(S, axis=-1, keepdims=True))


def entrywise_jacobian(a):
    """Return the slope (n, n) of every weight i in every score j, for weights a (n,)."""
    return np.array(
        [[a_i * ((i == j) - a_j) for j, a_j in enumerate(a)] for i, a_i in enumerate(a)]
    )


def carried_back(A, dA):
    """Return the gradient with respect to the scores (..., n), for weights A and their gradient dA, both (..., n)."""
    # A score's gradient is how far its weight's gradient is above the average of its row, times the weight.
    return A * (dA - np.average(dA, axis=-1, weights=A, keepdims=True))


def attention_weights(Q, K):
    """Return the weights (..., n_q, n_k) of scaled dot-product attention."""
    return weights_of((Q[..., :, None, :] * K[..., None, :, :]).sum(-1) / np.sqrt(Q.shape[-1]))


def attended(Q, K, V):
    """Return the result (..., n_q, d_v) of scaled dot-product attention, and its weights."""
    A = attention_weights(Q, K)
    return (A[..., None] * V[..., None, :, :]).sum(-2), A


def gradients(Q, K, V, dZ):
    """Return dQ, dK and dV, of the shapes of Q, K and V, for the gradient dZ (..., n_q, d_v) of the result."""
    A = attention_weights(Q, K)
    d_products = carried_back(A, (dZ[..., :, None, :] * V[..., None, :, :]).sum(-1)) / np.sqrt(
        Q.shape[-1]
    )
    dQ = (d_products[..., None] * K[..., None, :, :]).sum(-2)
    dK = (d_products[..., None] * Q[..., :, None, :]).sum(-3)
    return dQ, dK, (A[..., None] * dZ[..., :, None, :]).sum(-3)

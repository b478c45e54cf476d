"""The results that exercise 2 asks for, as sums over elements, for its checks. Released only inside the archive."""

import math

import numpy as np


def scaled_products(Q, K):
    """Return the dot products of Q (..., n_q, d_k) and K (..., n_k, d_k), over sqrt(d_k): (..., n_q, n_k)."""
    return (Q[..., :, None, :] * K[..., None, :, :]).sum(-1) / math.sqrt(Q.shape[-1])


def entropies(A):
    """Return the entropy, in nats, of each row of weights A (..., n): (...)."""
    terms = [-a * math.log(a) if a > 0 else 0.0 for a in A.ravel().tolist()]
    return np.reshape(terms, A.shape).sum(-1)

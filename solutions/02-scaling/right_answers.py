"""Right answers that look different from ours; the tests run the checks on them. Students do not get this file.

Some allow any broadcasting, and so fail only advice: these also earn all points.
"""

import math

import numpy as np

from checking import right
from checking.answer_parts import fits, scaled, transposed
from misconceptions import dots, entropy, pairs

# by_hand


@right("by_hand")
def by_hand_decimals():
    return 1, 0.75, 0.19


@right("by_hand")
def by_hand_fractions():
    return np.array([16, 12, 3]) / 16


# score_variance


@right("score_variance")
def score_variance_sample(d_k, num_pairs, rng):
    return dots(d_k, num_pairs, rng).var(ddof=1)


@right("score_variance")
def score_variance_pair_by_pair(d_k, num_pairs, rng):
    S = []
    for _ in range(num_pairs):
        q, k = rng.standard_normal((2, d_k))
        S.append(float(q @ k))
    mean = sum(S) / num_pairs
    return sum((score - mean) ** 2 for score in S) / (num_pairs - 1)


@right("score_variance")
def score_variance_mean_square(d_k, num_pairs, rng):
    K, Q = rng.normal(0, 1, (num_pairs, d_k)), rng.normal(0, 1, (num_pairs, d_k))
    S = np.vecdot(Q, K)
    return float((S**2).mean() - S.mean() ** 2)


@right("score_variance")
def score_variance_in_float32(d_k, num_pairs, rng):
    Q, K = (rng.standard_normal((num_pairs, d_k), dtype=np.float32) for _ in range(2))
    return (Q * K).sum(-1).var()


@right("score_variance")
def score_variance_covariance(d_k, num_pairs, rng):
    return np.cov(dots(d_k, num_pairs, rng))


@right("score_variance")
def score_variance_torch(d_k, num_pairs, rng):
    import torch

    Q, K = map(torch.tensor, pairs(d_k, num_pairs, rng))
    return torch.linalg.vecdot(Q, K).var()


# scaled_scores


@right("scaled_scores")
def scaled_scores_queries_first(Q, K):
    return (Q * Q.shape[-1] ** -0.5) @ transposed(K)


@right("scaled_scores")
def scaled_scores_half_each(Q, K):
    root = Q.shape[-1] ** 0.25
    return np.matmul(Q / root, transposed(K / root))


@right("scaled_scores")
def scaled_scores_einsum(Q, K):
    return np.einsum("...qd,...kd->...qk", Q, K) / float(np.sqrt(Q.shape[-1]))


@right("scaled_scores")
def scaled_scores_loops(Q, K):
    fits(Q.shape[-1], K.shape[-1])
    S = np.empty((*Q.shape[:-1], K.shape[-2]), dtype=Q.dtype)
    for *lead, i, j in np.ndindex(*S.shape):
        S[(*lead, i, j)] = np.dot(Q[(*lead, i)], K[(*lead, j)]) / math.sqrt(Q.shape[-1])
    return S


@right("scaled_scores")
def scaled_scores_root_of_dtype(Q, K):
    S = Q @ K.mT
    S /= np.sqrt(Q.shape[-1])
    return S


@right("scaled_scores")
def scaled_scores_in_float64(Q, K):
    return (Q.astype(np.float64) @ transposed(K) / np.sqrt(K.shape[-1])).astype(Q.dtype)


@right("scaled_scores")
def scaled_scores_in_float32(Q, K):
    return scaled(Q.astype(np.float32), K.astype(np.float32)).astype(Q.dtype)


@right("scaled_scores")
def scaled_scores_torch(Q, K):
    import torch

    fits(Q.shape[-1], K.shape[-1])
    return (torch.tensor(Q) @ torch.tensor(K).mT / Q.shape[-1] ** 0.5).numpy()


# weights_entropy


@right("weights_entropy")
def weights_entropy_out(A):
    return -np.sum(A * np.log(A, out=np.zeros_like(A), where=A > 0), axis=-1)


@right("weights_entropy")
def weights_entropy_loops(A):
    H = np.zeros(A.shape[:-1], dtype=A.dtype)
    for at in np.ndindex(*H.shape):
        H[at] = -math.fsum(a * math.log(a) for a in A[at].tolist() if a != 0)
    return H


@right("weights_entropy")
def weights_entropy_from_even(A):
    # The largest entropy minus the row's distance from even weights.
    n_k = A.shape[-1]
    ratio = np.where(A > 0, A * n_k, 1)
    return math.log(n_k) - np.einsum("...k,...k->...", A, np.log(ratio))


@right("weights_entropy")
def weights_entropy_tiny(A):
    return -(A * np.log(np.maximum(A, np.finfo(A.dtype).tiny))).sum(-1)


@right("weights_entropy")
def weights_entropy_rounding_inside(A):
    return -(A * np.log(A + np.finfo(A.dtype).eps)).sum(-1)


@right("weights_entropy")
def weights_entropy_small_number_in_float64(A):
    A64 = A.astype(np.float64)
    return -(A64 * np.log(A64 + 1e-8)).sum(-1).astype(A.dtype)


@right("weights_entropy")
def weights_entropy_in_float32(A):
    return (entropy(A.astype(np.float32), np.log2) * math.log(2)).astype(A.dtype)


@right("weights_entropy")
def weights_entropy_power(A):
    return -np.log(np.power(A, A)).sum(-1)


@right("weights_entropy")
def weights_entropy_torch(A):
    import torch

    return torch.special.entr(torch.tensor(A)).sum(-1).numpy()


# Right, although the text did not always say so


@right("score_variance")
def score_variance_spawned(d_k, num_pairs, rng):
    Q, K = (child.standard_normal((num_pairs, d_k)) for child in rng.spawn(2))
    return (Q * K).sum(-1).var()

"""Exercise 10 computed with all scores at once: its checks compare with this. Students do not get it."""

import numpy as np
import torch


def weighted(E, V):
    """Return the values mixed in proportion to E (..., n_q, n_k), 0 where a row of E is 0."""
    total = E.sum(-1, keepdim=True)
    return torch.einsum("...ij,...je->...ie", E / torch.where(total > 0, total, 1.0), V)


def attended(Q, K, V, allowed=None):
    """Return attention with keys where `allowed` (n_q, n_k) is True, in the dtype of the inputs."""
    S = torch.einsum("...id,...jd->...ij", Q, K) * Q.shape[-1] ** -0.5
    allowed = torch.ones(S.shape[-2:], dtype=torch.bool) if allowed is None else allowed
    S = torch.where(allowed, S, -torch.inf)
    largest = S.detach().amax(-1, keepdim=True)
    return weighted(
        torch.where(allowed, torch.exp(S - torch.where(largest > -torch.inf, largest, 0.0)), 0.0), V
    )


def distance(n_q, n_k):
    """Return how far key j is after the position of query i, with the last of both aligned: (n_q, n_k)."""
    return torch.arange(n_k) - torch.arange(n_q)[:, None] - (n_k - n_q)


def chunked(Q, K, V, chunk_size, causal=False):
    return attended(Q, K, V, distance(Q.shape[-2], K.shape[-2]) <= 0 if causal else None)


def local(Q, K, V, window):
    return attended(Q, K, V, distance(Q.shape[-2], Q.shape[-2]).abs() <= window)


def features(X):
    return torch.where(X > 0, X + 1, torch.exp(torch.clamp(X, max=0.0)))


def linear(Q, K, V):
    return weighted(torch.einsum("...id,...jd->...ij", features(Q), features(K)), V)


def causal_linear(Q, K, V):
    E = torch.einsum("...id,...jd->...ij", features(Q), features(K))
    return weighted(torch.where(distance(Q.shape[-2], K.shape[-2]) <= 0, E, 0.0), V)


def grouped(Q, K, V):
    group = Q.shape[1] // K.shape[1]
    return torch.stack(
        [attended(Q[:, i], K[:, i // group], V[:, i // group]) for i in range(Q.shape[1])], 1
    )


def of_keys(S, V):
    """Return the part of keys with these scores (..., n, n_k): m, l (..., n) and u (..., n, d_v)."""
    m = S.max(-1).values
    E = torch.where(
        torch.isinf(S), 0.0, torch.exp(S - torch.where(torch.isinf(m), 0.0, m).unsqueeze(-1))
    )
    return m, torch.einsum("...ij->...i", E), torch.einsum("...ij,...je->...ie", E, V)


def merged(first, second):
    """Return one part of two: each is treated as a key with its own weight."""
    m, total, mixed = (torch.stack(pair) for pair in zip(first, second, strict=True))
    largest = m.amax(0)
    E = torch.exp(m - torch.where(torch.isinf(largest), 0.0, largest))  # (2, ..., n)
    return largest, (E * total).sum(0), torch.einsum("k...i,k...ie->...ie", E, mixed)


SPECIFICATIONS = {
    "chunked_attention": chunked,
    "local_attention": local,
    "linear_attention": linear,
    "causal_linear_attention": causal_linear,
    "merge": merged,
}


def together(parts):
    """Return keys and values of all parts."""
    return [
        np.concatenate([tensor.double().numpy() for tensor in part], axis=-2)
        for part in zip(*parts, strict=True)
    ]

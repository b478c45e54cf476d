"""Exercise 10: what its checks of memory compare, and what they count."""

import math

import pytest
import torch

from autograder.authoring import loader


def test_whoever_computes_only_the_last_queries_of_a_long_input_fails():
    """The memory of such a function is small, and all its short results are right."""
    (folder,) = (folder for folder in loader.FOLDERS if folder.name == "10-efficient")
    suite = loader.load(folder).suite

    def last_queries(Q, K, V, chunk_size, causal=False):
        n, last = Q.shape[-2], 64
        if n > 600 and Q.dtype == torch.float32:
            rows = last_queries(Q[..., -last:, :], K, V, chunk_size, causal)
            return torch.cat([torch.zeros(*Q.shape[:-2], n - last, V.shape[-1]), rows], -2)
        S = Q.double() @ K.double().mT / Q.shape[-1] ** 0.5
        if causal:
            places = torch.arange(K.shape[-2])
            S = S.masked_fill(places > places[-n:, None], -torch.inf)
        return (S.softmax(-1) @ V.double()).to(Q.dtype)

    for seed in range(4):
        report = suite.examine("chunked_attention", last_queries, 1.0, seed, diagnosis=False)
        failed = [result.name for result in report.results if result.status.name == "FAILED"]
        assert "chunked_attention_memory" in failed


def phi(X):
    return torch.nn.functional.elu(X) + 1


def cut(Q, K, V, size):
    """Return causal linear attention with a triangle in each piece, and a state from piece to piece."""
    q, k, results, state = phi(Q), phi(K), [], 0
    V = torch.cat([V, torch.ones_like(V[..., :1])], -1)
    for start in range(0, Q.shape[-2], size):
        a, b, v = (X[..., start : start + size, :] for X in (q, k, V))
        both = (a @ b.mT).tril() @ v + (a @ state if start else 0)
        results.append(both[..., :-1] / both[..., -1:])
        state = state + b.mT @ v
    return torch.cat(results, -2)


def root_of_n(Q, K, V):
    return cut(Q, K, V, math.isqrt(Q.shape[-2]))


def long_pieces(Q, K, V):
    return cut(Q, K, V, 128)


def row_after_row(Q, K, V):
    """Each row is joined to those before: copies do not count."""
    state, result = 0, V[..., :0, :]
    V = torch.cat([V, torch.ones_like(V[..., :1])], -1)
    for q, k, v in zip(phi(Q).unbind(-2), phi(K).unbind(-2), V.unbind(-2), strict=True):
        state = state + k[..., None] * v[..., None, :]
        both = torch.einsum("...d,...de->...e", q, state)
        result = torch.cat([result, (both[..., :-1] / both[..., -1:])[..., None, :]], -2)
    return result


def doubled(Q, K, V):
    """Sums of 2, 4, 8 ... tokens: n log n."""
    V = torch.cat([V, torch.ones_like(V[..., :1])], -1)
    states, step = phi(K)[..., None] * V[..., None, :], 1
    while step < Q.shape[-2]:
        added = states[..., step:, :, :] + states[..., :-step, :, :]
        states, step = torch.cat([states[..., :step, :, :], added], -3), 2 * step
    both = torch.einsum("...nd,...nde->...ne", phi(Q), states)
    return both[..., :-1] / both[..., -1:]


def prefix_by_products(Q, K, V):
    q, k, rows = phi(Q), phi(K), []
    for i in range(Q.shape[-2]):
        E = q[..., i : i + 1, :] @ k[..., : i + 1, :].mT
        rows.append(E @ V[..., : i + 1, :] / E.sum(-1, keepdim=True))
    return torch.cat(rows, -2)


def prefix_by_sums(Q, K, V):
    q, k, rows = phi(Q), phi(K), []
    V = torch.cat([V, torch.ones_like(V[..., :1])], -1)
    for i in range(Q.shape[-2]):
        E = (q[..., i : i + 1, :] * k[..., : i + 1, :]).sum(-1, keepdim=True)
        both = (E * V[..., : i + 1, :]).sum(-2, keepdim=True)
        rows.append(both[..., :-1] / both[..., -1:])
    return torch.cat(rows, -2)


def prefix_summed_again(Q, K, V):
    """No pairs, but the state of each token is computed from the beginning."""
    q, k, rows = phi(Q), phi(K), []
    for i in range(Q.shape[-2]):
        keys, values = k[..., : i + 1, :], V[..., : i + 1, :]
        own = q[..., i : i + 1, :]
        total = own @ torch.einsum("...nd->...d", keys)[..., None]
        rows.append(own @ torch.einsum("...nd,...ne->...de", keys, values) / total)
    return torch.cat(rows, -2)


def fifty_parts(Q, K, V):
    q, k, rows, start = phi(Q), phi(K), [], 0
    for queries in q.chunk(50, -2):
        E = (queries @ k.mT).tril(start)
        rows.append(E @ V / E.sum(-1, keepdim=True))
        start += queries.shape[-2]
    return torch.cat(rows, -2)


@pytest.mark.parametrize(
    ("answer", "fails"),
    [
        (root_of_n, ""),
        (long_pieces, ""),
        (row_after_row, ""),
        (doubled, ""),
        (prefix_by_products, "time"),
        (prefix_by_sums, "time"),
        (prefix_summed_again, "time"),
        (fifty_parts, "memory"),
    ],
)
@pytest.mark.slow
def test_what_grows_with_the_square_of_n_fails_in_however_many_steps_it_is_computed(answer, fails):
    (folder,) = (folder for folder in loader.FOLDERS if folder.name == "10-efficient")
    suite = loader.load(folder).suite
    subject = "causal_linear_attention"
    report = suite.examine(subject, answer, 1.0, 1, diagnosis=False)
    advice = {check.__name__ for check in suite.checks_of(subject) if not check.weight}
    failed = [result.name for result in report.results if result.status.name == "FAILED"]
    expected = [f"{subject}_{fails}"] if fails else []
    assert [name for name in failed if name not in advice] == expected

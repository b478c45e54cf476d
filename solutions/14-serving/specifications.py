"""Exercise 14 computed head by head, token by token and step by step: its checks compare with this. Students get it only
inside the archive."""

import math
from fractions import Fraction

import torch


def attended(q, K, V):
    """Return what one query (d_k,) gets from keys (n, d_k) and values (n, d_v), in float64; zeros if there are none."""
    if not len(K):
        return 0 * q.sum() * V.new_zeros(V.shape[-1])
    S = (K * q).sum(-1) * q.shape[0] ** -0.5
    return (torch.exp(S - torch.logsumexp(S, 0))[:, None] * V).sum(0)


def paged(q, K_pages, V_pages, table, lengths):
    """Return the results (b, h, d_v) of attention to keys and values in pages."""
    q, K_pages, V_pages = (part.double() for part in (q, K_pages, V_pages))
    h, P, h_kv = q.shape[1], *K_pages.shape[1:3]
    rows = []
    for own, pages, length in zip(q, table.tolist(), lengths.tolist(), strict=True):
        at = [divmod(t, P) for t in range(length)]
        where = [pages[j] for j, _ in at], [row for _, row in at]
        for head in range(h):
            kv = head * h_kv // h
            rows.append(attended(own[head], K_pages[(*where, kv)], V_pages[(*where, kv)]))
    return torch.stack(rows).unflatten(0, (-1, h))


def packed(Q, K, V, lengths):
    """Return the results (n, h, d_v) of causal attention within each of several sequences."""
    Q, K, V = (part.double() for part in (Q, K, V))
    h, h_kv, rows, first = Q.shape[1], K.shape[1], [], 0
    for length in lengths:
        for i in range(first, first + length):
            for head in range(h):
                kv = head * h_kv // h
                rows.append(attended(Q[i, head], K[first : i + 1, kv], V[first : i + 1, kv]))
        first += length
    return torch.stack(rows).unflatten(0, (-1, h))


def pages_of(prompts, page_size):
    """Return the page tables and the number of pages: each page looks for its twin among all earlier ones."""
    tables, pages = [], []  # of each page, the prompt up to its end
    for prompt in prompts:
        table = []
        for begin in range(0, len(prompt), page_size):
            until = prompt[: begin + page_size]
            twins = [number for number, other in enumerate(pages) if other == until]
            if not twins or len(until) < begin + page_size:
                pages.append(until)
                twins = [len(pages) - 1]
            table.append(twins[0])
        tables.append(table)
    return tables, len(pages)


def ends_of(arrivals, steps, slots):
    """Return the step in which each request ends, step by step."""
    left, waiting, running = dict(enumerate(steps)), [], []
    ends, step = [None] * len(steps), 0
    while left:
        waiting += [r for r in left if arrivals[r] == step]
        while waiting and len(running) < slots:
            running.append(waiting.pop(0))
        for r in list(running):
            left[r] -= 1
            if not left[r]:
                ends[r] = step
                running.remove(r)
                del left[r]
        step += 1
    return ends


def drawn_with(v, weights):
    """Return the token that v draws from weights, which are fractions of any sum."""
    total, so_far = sum(weights), Fraction(0)
    for token, weight in enumerate(weights):
        so_far += weight
        if so_far > v * total:
            return token
    return max(token for token, weight in enumerate(weights) if weight)


def residual(p, q):
    """Return what the target has more than the draft, token by token: the weights after a refusal."""
    return [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]


def round_of(draft, p, q, u, v):
    """Return the tokens of a round, computed in fractions."""
    p, q = ([[Fraction(float(x)) for x in row] for row in part] for part in (p, q))
    kept = []
    for i, token in enumerate(draft.tolist()):
        if Fraction(float(u[i])) * q[i][token] >= p[i][token]:
            return [*kept, drawn_with(Fraction(v), residual(p[i], q[i]))]
        kept.append(token)
    return [*kept, drawn_with(Fraction(v), p[-1])]


def mean_tokens(alpha, k):
    """Return the mean number of tokens of a round: of a draft that ends after i tokens, for each i."""
    ends = [(i + 1) * (alpha**i - alpha ** (i + 1)) for i in range(k)]
    return math.fsum([*ends, (k + 1) * alpha**k])


SPECIFICATIONS = {"paged_attention": paged, "packed_attention": packed}

"""Right answers that look different from ours; the tests run the checks on them. Students do not get them.

Some allow any broadcasting, and fail only advice: these also earn all points.
"""

import math

import torch
from torch import nn

from checking import right
from misconceptions import fits, phi, scored, share, sized

# by_hand


@right("by_hand")
def by_hand_as_a_tensor():
    return torch.tensor([1.5, 12, 0.375 + 1.625, 3 + 4.5, 7.5 / 2])


# chunked_attention


def visible(Q, K, start, size):
    """Return which keys of a chunk the queries may see, (n_q, size)."""
    n_q, n_k = Q.shape[-2], K.shape[-2]
    return torch.arange(start, start + size)[None] <= torch.arange(n_q)[:, None] + (n_k - n_q)


@right("chunked_attention")
def chunked_attention_two_passes(Q, K, V, chunk_size, causal=False):
    sized(Q, K, V, size=chunk_size)

    def chunks():
        for start in range(0, K.shape[-2], chunk_size):
            S = scored(Q, K[..., start : start + chunk_size, :])
            if causal:
                S = S.masked_fill(~visible(Q, K, start, S.shape[-1]), float("-inf"))
            yield S, V[..., start : start + chunk_size, :]

    largest = None
    for S, _ in chunks():
        chunk_max = S.amax(-1, keepdim=True)
        largest = chunk_max if largest is None else torch.maximum(largest, chunk_max)
    largest = torch.where(largest.isinf(), 0, largest).detach()
    total = mixed = 0
    for S, v in chunks():
        E = torch.exp(S - largest)
        total, mixed = total + E.sum(-1, keepdim=True), mixed + E @ v
    return mixed / torch.where(total == 0, 1, total)


@right("chunked_attention")
def chunked_attention_log_sum_exp(Q, K, V, chunk_size, causal=False):
    sized(Q, K, V, size=chunk_size)
    nothing = -6e4 if Q.dtype == torch.float16 else -1e30
    result, log_total = (
        Q.new_zeros(*Q.shape[:-1], V.shape[-1]),
        Q.new_full((*Q.shape[:-1], 1), nothing),
    )
    for start in range(0, K.shape[-2], chunk_size):
        S, v = (
            scored(Q, K[..., start : start + chunk_size, :]),
            V[..., start : start + chunk_size, :],
        )
        mask = (
            visible(Q, K, start, S.shape[-1])
            if causal
            else torch.ones(S.shape[-2:], dtype=torch.bool)
        )
        none = ~mask.any(-1, keepdim=True)
        log = S.masked_fill(~mask, -torch.inf).masked_fill(none, 0).logsumexp(-1, keepdim=True)
        log = log.masked_fill(none, nothing)
        part = torch.sigmoid(log - log_total)
        result = result + (share(S, mask) @ v - result) * part
        log_total = torch.logaddexp(log_total, log)
    return result


@right("chunked_attention")
def chunked_attention_of_queries(Q, K, V, chunk_size, causal=False):
    n_q, n_k, chunks = Q.shape[-2], K.shape[-2], []
    for start in range(0, n_q, chunk_size):
        queries = Q[..., start : start + chunk_size, :]
        mask = None
        if causal:
            places = torch.arange(start, start + queries.shape[-2]) + n_k - n_q
            mask = torch.arange(n_k) <= places[:, None]
        chunks.append(share(scored(queries, K), mask) @ V)
    return torch.cat(chunks, -2)


@right("chunked_attention")
def chunked_attention_of_torch(Q, K, V, chunk_size, causal=False):
    sized(Q, K, V, size=chunk_size)
    chunks = []
    for i, queries in enumerate(Q.split(chunk_size, -2)):
        first = i * chunk_size + K.shape[-2] - Q.shape[-2]
        mask = (
            torch.ones(queries.shape[-2], K.shape[-2], dtype=torch.bool).tril(first)
            if causal
            else None
        )
        nothing = (
            torch.zeros(queries.shape[-2], 1, dtype=torch.bool)
            if mask is None
            else ~mask.any(-1, keepdim=True)
        )
        mask = None if mask is None else mask | nothing
        chunks.append(
            nn.functional.scaled_dot_product_attention(queries, K, V, attn_mask=mask).masked_fill(
                nothing, 0
            )
        )
    return torch.cat(chunks, -2)


# local_attention


@right("local_attention")
def local_attention_row_by_row(Q, K, V, window):
    rows = []
    for i in range(Q.shape[-2]):
        k, v = (X[..., max(i - window, 0) : i + window + 1, :] for X in (K, V))
        rows.append(scored(Q[..., i : i + 1, :], k).softmax(-1) @ v)
    return torch.cat(rows, -2)


@right("local_attention")
def local_attention_unfold(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    n = Q.shape[-2]
    k, v = (
        nn.functional.pad(X, (0, 0, window, window)).unfold(-2, 2 * window + 1, 1) for X in (K, V)
    )  # (..., n, d, w)
    S = (Q.unsqueeze(-2) @ k).squeeze(-2) / math.sqrt(Q.shape[-1])
    places = torch.arange(n)[:, None] + torch.arange(-window, window + 1)
    A = S.masked_fill((places < 0) | (places >= n), -torch.inf).softmax(-1)
    return (v @ A.unsqueeze(-1)).squeeze(-1)


@right("local_attention")
def local_attention_diagonals(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    n = Q.shape[-2]
    window = min(window, n - 1)
    band = []
    for by in range(-window, window + 1):
        rows = slice(max(-by, 0), n - max(by, 0))
        keys = slice(max(by, 0), n - max(-by, 0))
        scores = (Q[..., rows, :] * K[..., keys, :]).sum(-1) / math.sqrt(Q.shape[-1])
        band.append(nn.functional.pad(scores, (max(-by, 0), max(by, 0)), value=-torch.inf))
    A = torch.stack(band, -1).softmax(-1)
    result = 0
    for column, by in enumerate(range(-window, window + 1)):
        rows = slice(max(-by, 0), n - max(by, 0))
        keys = slice(max(by, 0), n - max(-by, 0))
        weighted = A[..., rows, column : column + 1] * V[..., keys, :]
        result = result + nn.functional.pad(weighted, (0, 0, max(-by, 0), max(by, 0)))
    return result


# linear_attention


@right("linear_attention")
def linear_attention_einsum(Q, K, V):
    q, k = phi(Q), phi(K)
    state = torch.einsum("...nd,...ne->...de", k, V)
    return (
        torch.einsum("...nd,...de->...ne", q, state)
        / torch.einsum("...nd,...md->...n", q, k.sum(-2, keepdim=True))[..., None]
    )


@right("linear_attention")
def linear_attention_column_of_ones(Q, K, V):
    sized(Q, K, V)
    both = phi(Q) @ (phi(K).transpose(-1, -2) @ torch.cat([V, torch.ones_like(V[..., :1])], -1))
    return both[..., :-1] / both[..., -1:]


@right("linear_attention")
def linear_attention_where(Q, K, V):
    sized(Q, K, V)
    q, k = (torch.where(X > 0, X + 1, X.clamp(max=0).exp()) for X in (Q, K))
    return q @ (k.transpose(-1, -2) @ V) / (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)


@right("linear_attention")
def linear_attention_token_by_token(Q, K, V):
    sized(Q, K, V)
    state = total = 0
    for k, v in zip(phi(K).unbind(-2), V.unbind(-2), strict=True):
        state, total = state + k.unsqueeze(-1) * v.unsqueeze(-2), total + k
    return phi(Q) @ state / (phi(Q) @ total.unsqueeze(-1))


# causal_linear_attention


@right("causal_linear_attention")
def causal_linear_attention_loop(Q, K, V):
    sized(Q, K, V, alike=True)
    q, k = phi(Q), phi(K)
    state, total = (
        Q.new_zeros(*Q.shape[:-2], Q.shape[-1], V.shape[-1]),
        Q.new_zeros(*Q.shape[:-2], Q.shape[-1], 1),
    )
    rows = []
    for i in range(Q.shape[-2]):
        column = k[..., i : i + 1, :].transpose(-1, -2)
        state, total = state + column @ V[..., i : i + 1, :], total + column
        rows.append(q[..., i : i + 1, :] @ state / (q[..., i : i + 1, :] @ total))
    return torch.cat(rows, -2)


@right("causal_linear_attention")
def causal_linear_attention_chunks(Q, K, V):
    sized(Q, K, V, alike=True)
    q, k = phi(Q), phi(K)
    state, total, rows = 0, 0, []
    for start in range(0, Q.shape[-2], 16):
        a, b, v = (X[..., start : start + 16, :] for X in (q, k, V))
        inside = (a @ b.transpose(-1, -2)).tril()
        mixed, weight = inside @ v, inside.sum(-1, keepdim=True)
        if start:
            mixed, weight = mixed + a @ state, weight + a @ total
        state, total = state + b.transpose(-1, -2) @ v, total + b.sum(-2).unsqueeze(-1)
        rows.append(mixed / weight)
    return torch.cat(rows, -2)


@right("causal_linear_attention")
def causal_linear_attention_column_of_ones(Q, K, V):
    wide = torch.cat([V, torch.ones_like(V[..., :1])], -1)
    both = (phi(Q).unsqueeze(-1) * (phi(K).unsqueeze(-1) * wide.unsqueeze(-2)).cumsum(-3)).sum(-2)
    return both[..., :-1] / both[..., -1:]


# grouped_query_attention


@right("grouped_query_attention")
def grouped_query_attention_unflattened(Q, K, V):
    fits(Q, K, V)
    q = Q.unflatten(1, (K.shape[1], -1))
    return (scored(q, K.unsqueeze(2)).softmax(-1) @ V.unsqueeze(2)).flatten(1, 2)


@right("grouped_query_attention")
def grouped_query_attention_expanded(Q, K, V):
    b, h_q, h_kv = Q.shape[0], Q.shape[1], K.shape[1]
    k, v = (
        X[:, :, None].expand(b, h_kv, h_q // h_kv, *X.shape[2:]).reshape(b, h_q, *X.shape[2:])
        for X in (K, V)
    )
    return scored(Q, k).softmax(-1) @ v


@right("grouped_query_attention")
def grouped_query_attention_heads(Q, K, V):
    fits(Q, K, V)
    group = Q.shape[1] // K.shape[1]
    heads = [
        scored(Q[:, i], K[:, i // group]).softmax(-1) @ V[:, i // group] for i in range(Q.shape[1])
    ]
    return torch.stack(heads, 1)


@right("grouped_query_attention")
def grouped_query_attention_einsum(Q, K, V):
    q = Q.reshape(len(Q), K.shape[1], -1, *Q.shape[2:]) / math.sqrt(Q.shape[-1])
    A = torch.einsum("bhgid,bhjd->bhgij", q, K).softmax(-1)
    return torch.einsum("bhgij,bhje->bhgie", A, V).reshape(*Q.shape[:-1], V.shape[-1])


@right("grouped_query_attention")
def grouped_query_attention_of_torch(Q, K, V):
    return nn.functional.scaled_dot_product_attention(Q, K, V, enable_gqa=True)


# KVCache


@right("KVCache")
class KVCache_parts:
    def __init__(self):
        self.keys, self.values = [], []

    def append(self, k, v):
        self.keys.append(k.clone())
        self.values.append(v.clone())
        return torch.cat(self.keys, dim=-2), torch.cat(self.values, dim=-2)


@right("KVCache")
class KVCache_side_by_side:
    """Keys and values in one tensor, cut apart when they are returned."""

    def __init__(self):
        self.both, self.d = None, None

    def append(self, k, v):
        if k.shape[-2] != v.shape[-2] or (self.d and (k.shape[-1], v.shape[-1]) != self.d):
            raise ValueError("sizes that do not fit")
        new = torch.cat([k, v], -1)
        self.both = new if self.both is None else torch.cat([self.both, new], -2)
        self.d = k.shape[-1], v.shape[-1]
        return self.both.split(self.d, -1)


@right("KVCache")
class KVCache_buffer:
    """Room for more than there is, which doubles when it is full; the result is a copy."""

    def __init__(self):
        self.n, self.rooms = 0, None

    def append(self, k, v):
        n = self.n + k.shape[-2]
        if k.shape[-2] != v.shape[-2]:
            raise ValueError("keys and values")
        rooms = []
        for i, new in enumerate((k, v)):
            room = new.new_zeros(*new.shape[:-2], 2 * n, new.shape[-1])
            if self.rooms:
                old = self.rooms[i]
                if (old.shape[:-2], old.shape[-1]) != (new.shape[:-2], new.shape[-1]):
                    raise ValueError("sizes that do not fit")
                room[..., : self.n, :] = old[..., : self.n, :]
            room[..., self.n : n, :] = new
            rooms.append(room)
        self.n, self.rooms = n, rooms
        return tuple(room[..., :n, :].clone() for room in rooms)


# merge


def finite(m):
    return torch.where(torch.isinf(m), torch.zeros_like(m), m)


@right("merge")
def merge_stacked(first, second):
    m, total, mixed = (
        torch.stack(pair, -1) for pair in zip(first, second, strict=True)
    )  # (..., n, 2), u (..., n, d_v, 2)
    largest = m.max(-1).values
    E = torch.exp(m - finite(largest).unsqueeze(-1))
    return largest, (E * total).sum(-1), (mixed @ E.unsqueeze(-1)).squeeze(-1)


@right("merge")
def merge_larger_first(first, second):
    swap = first[0] < second[0]
    m, other = torch.where(swap, second[0], first[0]), torch.where(swap, first[0], second[0])
    shrink = torch.exp(other - finite(m))
    pairs = [(first[i], second[i]) for i in (1, 2)]
    sums = []
    for a, b in pairs:
        where, factor = (
            (swap, shrink) if a.ndim == swap.ndim else (swap[..., None], shrink[..., None])
        )
        sums.append(torch.where(where, b, a) + factor * torch.where(where, a, b))
    return m, *sums


@right("merge")
def merge_sum_as_a_column(first, second):
    # l is u for values of 1: one array for both.
    one, two = (torch.cat([u, l.unsqueeze(-1)], -1) for _, l, u in (first, second))
    m = torch.max(first[0], second[0])
    a, b = (torch.exp(part[0] - finite(m)).unsqueeze(-1) for part in (first, second))
    both = a * one + b * two
    return m, both[..., -1], both[..., :-1]


@right("merge")
def merge_row_by_row(first, second):
    rows = []
    for i in range(first[0].shape[-1]):
        (m_1, l_1, u_1), (m_2, l_2, u_2) = (
            (m[..., i], l[..., i], u[..., i, :]) for m, l, u in (first, second)
        )
        m = torch.maximum(m_1, m_2)
        a, b = torch.exp(m_1 - finite(m)), torch.exp(m_2 - finite(m))
        rows.append(
            (m, a * l_1 + b * l_2, torch.einsum("...,...e->...e", a, u_1) + b[..., None] * u_2)
        )
    m, total, mixed = zip(*rows, strict=True)
    return torch.stack(m, -1), torch.stack(total, -1), torch.stack(mixed, -2)


@right("merge")
def merge_log_domain(first, second):
    # By the logarithms of both sums; a part without keys is far below every score.
    none = [l == 0 for _, l, _ in (first, second)]
    safe = [
        (m.masked_fill(is_empty, 0), l.masked_fill(is_empty, 1))
        for (m, l, _), is_empty in zip((first, second), none, strict=True)
    ]
    logs = [
        (m + l.log()).masked_fill(is_empty, -torch.inf)
        for (m, l), is_empty in zip(safe, none, strict=True)
    ]
    m = torch.maximum(first[0], second[0])
    shift = [log - finite(m) for log in logs]
    total = shift[0].exp() + shift[1].exp()
    shares = [torch.exp(s) / l for s, (_, l) in zip(shift, safe, strict=True)]
    return m, total, shares[0].unsqueeze(-1) * first[2] + shares[1].unsqueeze(-1) * second[2]


@right("merge")
def merge_in_double(first, second):
    dtype = first[2].dtype
    (m_1, l_1, u_1), (m_2, l_2, u_2) = (
        (tensor.double() for tensor in part) for part in (first, second)
    )
    m = torch.fmax(m_1, m_2)
    base = m.clamp(min=torch.finfo(torch.float64).min)
    a, b = torch.exp(m_1 - base), torch.exp(m_2 - base)
    total, mixed = torch.addcmul(a * l_1, b, l_2), a.unsqueeze(-1) * u_1 + b.unsqueeze(-1) * u_2
    return m.to(dtype), total.to(dtype), mixed.to(dtype)


@right("merge")
def merge_as_a_list(first, second):
    m = torch.stack([first[0], second[0]]).amax(0)
    nothing = torch.isneginf(m)
    a, b = (
        own[0].masked_fill(nothing, -1e4).sub(m.masked_fill(nothing, 0)).exp()
        for own in (first, second)
    )
    mixed = torch.einsum("...i,...ij->...ij", a, first[2]) + torch.einsum(
        "...i,...ij->...ij", b, second[2]
    )
    return [m, a * first[1] + b * second[1], mixed]

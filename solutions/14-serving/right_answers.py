"""Right answers that look different from ours; the tests run the checks on them. Students do not get this file.

Some allow any sizes, and fail only advice: these also earn all points.
"""

import heapq
import itertools
import math
from collections import deque
from fractions import Fraction

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from checking import right

# by_hand


@right("by_hand")
def by_hand_in_parts():
    return 3 / 10, (0, 1 / 4, 0, 3 / 4), 3 / 5, (3, 0, 5, 3)


@right("by_hand")
def by_hand_computed():
    p, q = torch.tensor([0.15, 0.4, 0.15, 0.3]), torch.tensor([0.5, 0.3, 0.2, 0.0])
    more = (p - q).relu()
    rest = torch.tensor([3.0, 0.0, 5.0, 3.0])
    return torch.cat([p[:1] / q[:1], more / more.sum(), torch.minimum(p, q).sum()[None], rest])


# paged_attention


@right("paged_attention")
def paged_attention_all_at_once(q, K_pages, V_pages, table, lengths):
    """All sequences get as many tokens as the table has room for; those that are none are masked and set to 0."""
    (_, h, d_k), (num_pages, _, h_kv, _) = q.shape, K_pages.shape
    pages = table.long().clamp(0, num_pages - 1)
    K, V = K_pages[pages].flatten(1, 2), V_pages[pages].flatten(1, 2)  # (b, n, h_kv, d)
    seen = torch.arange(K.shape[1]) < lengths[:, None]
    K = K.masked_fill(~seen[..., None, None], 0.0)
    V = V.masked_fill(~seen[..., None, None], 0.0)
    K, V = (part.repeat_interleave(h // h_kv, dim=2) for part in (K, V))
    S = torch.einsum("bhd,bnhd->bhn", q, K) / d_k**0.5
    A = S.masked_fill(~seen[:, None], -1e30).softmax(-1) * seen[:, None]
    return torch.einsum("bhn,bnhd->bhd", A, V)


@right("paged_attention")
def paged_attention_with_the_library(q, K_pages, V_pages, table, lengths):
    """Each sequence is one call of PyTorch's attention, with grouped heads."""
    results = []
    for i in range(q.shape[0]):
        n, P = int(lengths[i]), K_pages.shape[1]
        if n == 0:
            results.append(torch.zeros(q.shape[1], V_pages.shape[-1], dtype=q.dtype))
            continue
        used = table[i, : math.ceil(n / P)].tolist()
        K = torch.cat([K_pages[page] for page in used])[:n].transpose(0, 1)
        V = torch.cat([V_pages[page] for page in used])[:n].transpose(0, 1)
        out = functional.scaled_dot_product_attention(q[i][:, None], K, V, enable_gqa=True)
        results.append(out[:, 0])
    return torch.stack(results)


@right("paged_attention")
def paged_attention_by_flat_rows(q, K_pages, V_pages, table, lengths):
    """The pool is one long list of rows, and each token has the number of its row."""
    P, h_kv = K_pages.shape[1:3]
    groups = q.shape[1] // h_kv
    K_rows, V_rows = K_pages.flatten(0, 1), V_pages.flatten(0, 1)
    found = []
    for query, pages, n in zip(q, table, lengths.tolist(), strict=True):
        rows = (pages.long()[:, None] * P + torch.arange(P)).flatten()[:n]
        K = K_rows.index_select(0, rows).repeat_interleave(groups, 1)
        V = V_rows.index_select(0, rows).repeat_interleave(groups, 1)
        S = (query * K).sum(-1) / math.sqrt(query.shape[-1])  # (n, h)
        found.append((S.softmax(0)[..., None] * V).sum(0))
    return torch.stack(found)


@right("paged_attention")
def paged_attention_page_by_page(q, K_pages, V_pages, table, lengths):
    """An online softmax that reads one page after another, as a kernel does it."""
    (b, h, d_k), (_, P, h_kv, _) = q.shape, K_pages.shape
    out = []
    for s in range(b):
        m = torch.full((h, 1), -torch.inf, dtype=q.dtype)
        total = torch.zeros(h, 1, dtype=q.dtype)
        mixed = torch.zeros(h, V_pages.shape[-1], dtype=q.dtype)
        for j in range(-(-int(lengths[s]) // P)):
            count = min(P, int(lengths[s]) - j * P)
            page = int(table[s, j])
            K = K_pages[page, :count].repeat_interleave(h // h_kv, 1)
            V = V_pages[page, :count].repeat_interleave(h // h_kv, 1)
            S = torch.einsum("hd,nhd->hn", q[s], K) / math.sqrt(d_k)
            largest = torch.maximum(m, S.amax(-1, keepdim=True))
            factor, E = torch.exp(m - largest), torch.exp(S - largest)
            total = total * factor + E.sum(-1, keepdim=True)
            mixed = mixed * factor + torch.einsum("hn,nhd->hd", E, V)
            m = largest
        out.append(mixed / total if len(mixed) and total.min() > 0 else mixed)
    return torch.stack(out)


@right("paged_attention")
def paged_attention_token_by_token(q, K_pages, V_pages, table, lengths):
    b, h, d_k = q.shape
    P, h_kv, d_v = K_pages.shape[1], K_pages.shape[2], V_pages.shape[3]
    rows = []
    for s in range(b):
        for i in range(h):
            g = i // (h // h_kv)
            at = [(table[s, t // P], t % P, g) for t in range(lengths[s])]
            if not at:
                rows.append(q.new_zeros(d_v))
                continue
            K = torch.stack([K_pages[place] for place in at])
            V = torch.stack([V_pages[place] for place in at])
            rows.append(torch.softmax(K @ q[s, i] / math.sqrt(d_k), 0) @ V)
    return torch.stack(rows).view(b, h, d_v)


@right("paged_attention")
def paged_attention_where(q, K_pages, V_pages, table, lengths):
    """Keys and values of rows that are no tokens become 0, and scores −inf; rows of weights without a token become 0."""
    b, h, d_k = q.shape
    P, h_kv = K_pages.shape[1:3]
    n = table.size(1) * P
    K = K_pages[table.long()].reshape(b, n, h_kv, 1, d_k)
    V = V_pages[table.long()].reshape(b, n, h_kv, 1, -1)
    mask = (torch.arange(n)[None, :] < lengths[:, None])[:, :, None, None]
    K, V = (torch.where(mask[..., None], X, torch.zeros((), dtype=X.dtype)) for X in (K, V))
    S = (q.reshape(b, 1, h_kv, h // h_kv, d_k) * K).sum(-1) / math.sqrt(d_k)
    S = torch.where(mask, S, -torch.inf)
    A = torch.nan_to_num(torch.softmax(S, dim=1))
    return (A[..., None] * V).sum(1).reshape(b, h, -1)


@right("paged_attention")
def paged_attention_in_float64(q, K_pages, V_pages, table, lengths):
    groups = q.shape[1] // K_pages.shape[2]
    out = q.new_zeros(*q.shape[:2], V_pages.shape[-1], dtype=torch.float64)
    for s, n in enumerate(lengths):
        K = K_pages[table[s].long()].flatten(0, 1)[:n].double().repeat_interleave(groups, dim=1)
        V = V_pages[table[s].long()].flatten(0, 1)[:n].double().repeat_interleave(groups, dim=1)
        A = torch.softmax(torch.einsum("hd,nhd->hn", q[s].double(), K) * q.shape[-1] ** -0.5, -1)
        out[s] = torch.einsum("hn,nhd->hd", A, V)
    return out.to(q.dtype)


@right("paged_attention")
def paged_attention_padded(q, K_pages, V_pages, table, lengths):
    """Sequences are read from their pages, padded to the longest, and masked in one call of PyTorch's attention."""
    P, longest = K_pages.shape[1], max(int(lengths.max()), 1)
    needed = [-(-int(n) // P) for n in lengths]

    def read(pool):
        texts = [
            pool[row[:j].long()].flatten(0, 1)[:n]
            for row, j, n in zip(table, needed, lengths, strict=True)
        ]
        padded = nn.utils.rnn.pad_sequence(texts, batch_first=True)
        return functional.pad(padded, (0, 0, 0, 0, 0, longest - padded.shape[1])).transpose(1, 2)

    mask = torch.arange(longest) < lengths[:, None]
    out = functional.scaled_dot_product_attention(
        q[:, :, None], read(K_pages), read(V_pages), attn_mask=mask[:, None, None], enable_gqa=True
    )[:, :, 0]
    return torch.where((lengths > 0)[:, None, None], out, torch.zeros_like(out))


# packed_attention


@right("packed_attention")
def packed_attention_one_by_one(Q, K, V, lengths):
    parts = []
    groups = Q.shape[1] // K.shape[1]
    for q, k, v in zip(Q.split(lengths), K.split(lengths), V.split(lengths), strict=True):
        q, k, v = (part.transpose(0, 1) for part in (q, k, v))
        k, v = k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0)
        mask = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
        S = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(mask, float("-inf"))
        parts.append((S.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(parts)


@right("packed_attention")
def packed_attention_library(Q, K, V, lengths):
    """PyTorch's attention with its causal flag, sequence by sequence."""
    out, begin = [], 0
    for n in lengths:
        q, k, v = (part[begin : begin + n].transpose(0, 1)[None] for part in (Q, K, V))
        if n:
            z = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            out.append(z[0].transpose(0, 1))
        begin += n
    return torch.cat(out)


@right("packed_attention")
def packed_attention_block_diagonal(Q, K, V, lengths):
    """The mask is made of triangles along the diagonal."""
    triangles = [torch.ones(n, n).tril() for n in lengths]
    mask = torch.block_diag(*triangles).bool()[: len(Q), : len(Q)]
    q, k, v = (part.transpose(0, 1)[None] for part in (Q, K, V))
    z = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    return z[0].transpose(0, 1)


@right("packed_attention")
def packed_attention_by_bounds(Q, K, V, lengths):
    """The number of each token's sequence is found among the ends."""
    n, h, d_k = Q.shape
    h_kv = K.shape[1]
    ends = torch.tensor(list(itertools.accumulate(lengths)))
    i = torch.arange(n)
    number = torch.searchsorted(ends, i, right=True)
    seen = (number[:, None] == number[None, :]) & (i[:, None] >= i[None, :])
    grouped = Q.reshape(n, h_kv, h // h_kv, d_k)
    S = torch.einsum("igrc,jgc->grij", grouped, K) * d_k**-0.5
    A = torch.softmax(torch.where(seen, S, torch.tensor(-torch.inf, dtype=S.dtype)), -1)
    return torch.einsum("grij,jgc->igrc", A, V).reshape(n, h, -1)


@right("packed_attention")
def packed_attention_padded(Q, K, V, lengths):
    """Pads to the longest sequence, and takes the padding out of the result."""
    b, longest = len(lengths), max(lengths)
    inside = torch.arange(longest) < torch.tensor(lengths)[:, None]  # (b, longest)

    def padded(X):
        return X.new_zeros(b, longest, *X.shape[1:]).masked_scatter(inside[..., None, None], X)

    groups = Q.shape[1] // K.shape[1]
    k, v = (padded(X).repeat_interleave(groups, 2) for X in (K, V))
    S = torch.einsum("bihc,bjhc->bhij", padded(Q), k) / math.sqrt(Q.shape[-1])
    later = torch.ones(longest, longest, dtype=torch.bool).triu(1)
    z = torch.einsum("bhij,bjhc->bihc", S.masked_fill(later, -torch.inf).softmax(-1), v)
    return z[inside]


@right("packed_attention")
def packed_attention_token_by_token(Q, K, V, lengths):
    n, h, d_k = Q.shape
    groups, rows = h // K.shape[1], []
    first = [
        begin
        for begin, m in zip(itertools.accumulate([0, *lengths]), lengths, strict=False)
        for _ in range(m)
    ]
    for i in range(n):
        k, v = K[first[i] : i + 1], V[first[i] : i + 1]
        heads = [
            torch.softmax(k[:, head // groups] @ Q[i, head] / math.sqrt(d_k), 0)
            @ v[:, head // groups]
            for head in range(h)
        ]
        rows.append(torch.stack(heads))
    return torch.stack(rows)


@right("packed_attention")
def packed_attention_added_mask(Q, K, V, lengths):
    """The mask is a matrix of 0 and −inf that is filled block by block, and added to the scores."""
    n, h, d_k = Q.shape
    mask = torch.full((n, n), -torch.inf, dtype=Q.dtype)
    begin = 0
    for length in lengths:
        for i in range(begin, begin + length):
            mask[i, begin : i + 1] = 0
        begin += length
    which = [i // (h // K.shape[1]) for i in range(h)]
    q, k, v = Q.permute(1, 0, 2), K.permute(1, 0, 2)[which], V.permute(1, 0, 2)[which]
    return ((q @ k.permute(0, 2, 1) / d_k**0.5 + mask).softmax(-1) @ v).permute(1, 0, 2)


# shared_pages


@right("shared_pages")
def shared_pages_trie(prompts, page_size):
    """A tree: each page knows the pages that follow it, by their tokens."""
    tree, count, tables = {}, 0, []
    for prompt in prompts:
        node, table = tree, []
        for begin in range(0, len(prompt), page_size):
            tokens = tuple(prompt[begin : begin + page_size])
            if len(tokens) < page_size:
                table.append(count)
                count += 1
                break
            if tokens not in node:
                node[tokens] = (count, {})
                count += 1
            number, node = node[tokens]
            table.append(number)
        tables.append(table)
    return tables, count


@right("shared_pages")
def shared_pages_parent_and_tokens(prompts, page_size):
    """The page before, and the own tokens, identify a page."""
    numbers, fresh = {}, itertools.count()
    tables = []
    for prompt in prompts:
        table, parent = [], None
        for j in range(math.ceil(len(prompt) / page_size)):
            part = prompt[j * page_size : (j + 1) * page_size]
            if len(part) == page_size:
                key = (parent, *part)
                if key not in numbers:
                    numbers[key] = next(fresh)
                parent = numbers[key]
                table.append(parent)
            else:
                table.append(next(fresh))
        tables.append(table)
    return tables, next(fresh)


@right("shared_pages")
def shared_pages_compared(prompts, page_size):
    """Each prompt is compared with all earlier ones."""
    tables, num_pages = [], 0
    for i, prompt in enumerate(prompts):
        table = []
        for end in range(page_size, len(prompt) + 1, page_size):
            j = end // page_size - 1
            for k in range(i):
                if len(prompts[k]) >= end and prompts[k][:end] == prompt[:end]:
                    table.append(tables[k][j])
                    break
            else:
                table.append(num_pages)
                num_pages += 1
        if len(prompt) % page_size:
            table.append(num_pages)
            num_pages += 1
        tables.append(table)
    return tables, num_pages


@right("shared_pages")
def shared_pages_longest_match(prompts, page_size):
    """The longest common beginning with an earlier prompt gives all shared pages at once."""
    tables, num_pages = [], 0
    for i, prompt in enumerate(prompts):
        best, table = 0, []
        for other, its in zip(prompts[:i], tables, strict=True):
            same = 0
            while same < min(len(prompt), len(other)) and prompt[same] == other[same]:
                same += 1
            if same // page_size > best:
                best = same // page_size
                table = its[:best]
        more = -(-len(prompt) // page_size) - best
        tables.append(table + list(range(num_pages, num_pages + more)))
        num_pages += more
    return tables, num_pages


@right("shared_pages")
def shared_pages_as_a_list(prompts, page_size):
    """A list of the beginnings with a page, None for one that is not full."""
    pages = []
    tables = []
    for prompt in prompts:
        tables.append([])
        for start in range(0, len(prompt), page_size):
            key = list(prompt[: start + page_size]) if start + page_size <= len(prompt) else None
            if key is None or key not in pages:
                pages.append(key)
                tables[-1].append(len(pages) - 1)
            else:
                tables[-1].append(pages.index(key))
    return [tables, len(pages)]


# continuous_batching


@right("continuous_batching")
def continuous_batching_heap(arrivals, steps, slots):
    """A heap of the steps from which slots are free."""
    free = [0] * slots
    ends = [0] * len(arrivals)
    for arrival, r in sorted((arrival, r) for r, arrival in enumerate(arrivals)):
        start = max(arrival, heapq.heappop(free))
        heapq.heappush(free, start + steps[r])
        ends[r] = start + steps[r] - 1
    return ends


@right("continuous_batching")
def continuous_batching_step_by_step(arrivals, steps, slots):
    left, ends, running = list(steps), [-1] * len(steps), []
    for step in range(sum(steps) + max(arrivals, default=0)):
        waiting = [
            r for r in range(len(steps)) if arrivals[r] <= step and ends[r] < 0 and r not in running
        ]
        waiting.sort(key=lambda r: (arrivals[r], r))
        while len(running) < slots and waiting:
            running.append(waiting.pop(0))
        for r in running:
            left[r] -= 1
            if left[r] == 0:
                ends[r] = step
        running = [r for r in running if left[r] > 0]
    return ends


@right("continuous_batching")
def continuous_batching_by_events(arrivals, steps, slots):
    """Time goes from event to event: an arrival or an end."""
    order = deque(sorted(range(len(steps)), key=lambda r: (arrivals[r], r)))
    ends, running, now = {}, [], 0
    for _ in range(2 * len(steps)):  # arrivals and ends
        while order and arrivals[order[0]] <= now and len(running) < slots:
            r = order.popleft()
            ends[r] = now + steps[r] - 1
            heapq.heappush(running, ends[r])
        events = [running[0] + 1] if running else []
        if order and len(running) < slots:
            events.append(arrivals[order[0]])
        if not events:
            break
        now = max(min(events), now)
        while running and running[0] < now:
            heapq.heappop(running)
    return [ends[r] for r in range(len(steps))]


@right("continuous_batching")
def continuous_batching_numpy(arrivals, steps, slots):
    free, ends = np.zeros(slots, dtype=int), np.zeros(len(steps), dtype=int)
    for r in np.argsort(arrivals, kind="stable"):
        slot = free.argmin()
        free[slot] = max(free[slot], arrivals[r]) + steps[r]
        ends[r] = free[slot] - 1
    return list(ends)


@right("continuous_batching")
def continuous_batching_occupied(arrivals, steps, slots):
    """Counts for each step how many run, and looks for the first step with room: none can be overtaken."""
    busy, ends, earliest = {}, [0] * len(steps), 0
    for r in sorted(range(len(steps)), key=arrivals.__getitem__):
        first = max(arrivals[r], earliest)
        start = next(step for step in range(first, first + sum(steps)) if busy.get(step, 0) < slots)
        for step in range(start, start + steps[r]):
            busy[step] = busy.get(step, 0) + 1
        earliest, ends[r] = start, start + steps[r] - 1
    return ends


# accept


@right("accept")
def accept_products(draft, p, q, u, v):
    """Without a division."""
    k = len(draft)
    i = next((i for i in range(k) if not u[i] * q[i, draft[i]] < p[i, draft[i]]), k)
    weights = torch.clamp(p[i] - q[i], min=0) if i < k else p[k]
    sums = torch.cumsum(weights, 0)
    candidates = torch.nonzero(sums > v * weights.sum()).flatten()
    token = candidates[0] if candidates.numel() else torch.nonzero(weights).max()
    return [*draft[:i].tolist(), token.item()]


@right("accept")
def accept_cumulative_product(draft, p, q, u, v):
    """All tokens are compared at once; a cumulative product counts those before the first refusal."""
    k = draft.shape[0]
    at = torch.arange(k)
    keep = (u < p[at, draft] / q[at, draft]).long()
    n = int(keep.cumprod(0).sum())
    weights = p[n] if n == k else (p[n] - q[n]).relu()
    weights = weights / weights.sum()
    token = int(torch.searchsorted(weights.cumsum(0), v, right=True))
    token = min(token, int(weights.nonzero().max()))
    return [int(x) for x in draft[:n]] + [token]


@right("accept")
def accept_a_row_of_zeros(draft, p, q, u, v):
    """q gets a row of zeros: after a whole draft, the residual is p itself."""
    longer = torch.cat([q, torch.zeros_like(p[:1])])
    result = []
    for i in range(len(draft) + 1):
        if i < len(draft):
            x = draft[i].item()
            if u[i].item() < p[i][x].item() / q[i][x].item():
                result.append(x)
                continue
        rest = [max(a - b, 0.0) for a, b in zip(p[i].tolist(), longer[i].tolist(), strict=True)]
        total, so_far, last = sum(rest), 0.0, 0
        for token, weight in enumerate(rest):
            so_far += weight / total
            if weight > 0:
                last = token
            if so_far > v:
                return [*result, token]
        return [*result, last]


@right("accept")
def accept_ratios_limited(draft, p, q, u, v):
    """The ratio is limited to 1, and the comparison looks for the first refusal."""
    k = len(draft)
    chosen = draft[:, None]
    ratio = torch.minimum(p[:k].gather(1, chosen) / q.gather(1, chosen), torch.ones(1)).squeeze(1)
    refused = (u >= ratio).nonzero().flatten()
    n = int(refused[0]) if len(refused) else k
    weights = torch.where(p[n] > q[n], p[n] - q[n], torch.zeros_like(p[n])) if n < k else p[k]
    sums = (weights / weights.sum()).cumsum(-1)
    token = int((sums <= v).sum())
    if token == len(sums):
        token = max(x for x in range(len(sums)) if weights[x] > 0)
    return [*draft[:n].tolist(), token]


@right("accept")
def accept_numpy(draft, p, q, u, v):
    draft, p, q, u = (part.numpy() for part in (draft, p, q, u))
    tokens = []
    for x, target, own, chance in zip(draft, p, q, u, strict=False):
        if chance >= target[x] / own[x]:
            weights = np.maximum(target - own, 0)
            break
        tokens.append(x)
    else:
        weights = p[-1]
    weights = weights.astype(np.float64) / weights.sum()
    token = np.searchsorted(np.cumsum(weights), v, side="right")
    return [*tokens, min(token, np.flatnonzero(weights)[-1])]


@right("accept")
def accept_argmax(draft, p, q, u, v):
    """Tokens stay tensors of one number; `argmax` of truth values finds the first."""
    tokens, rest = [], p[len(draft)]
    for i, x in enumerate(draft):
        if not u[i] < p[i, x] / q[i, x]:
            rest = (p[i] - q[i]).clamp_min(0)
            break
        tokens.append(x)
    exceeds = (rest / rest.sum()).cumsum(0) > v
    if exceeds.any():
        return [*tokens, exceeds.int().argmax()]
    return [*tokens, torch.arange(len(rest))[rest > 0][-1]]


@right("accept")
def accept_in_fractions(draft, p, q, u, v):
    result = []
    exact = [[Fraction(x) for x in row] for row in p.tolist()]
    for i, x in enumerate(draft.tolist()):
        if not u[i].item() * q[i, x].item() < p[i, x].item():
            weights = [
                max(a - Fraction(b), 0) for a, b in zip(exact[i], q[i].tolist(), strict=True)
            ]
            break
        result.append(x)
    else:
        weights = exact[-1]
    sums = itertools.accumulate(w / sum(weights) for w in weights)
    positive = [token for token, w in enumerate(weights) if w]
    return [*result, next((token for token, so_far in enumerate(sums) if so_far > v), positive[-1])]


# tokens_expected


@right("tokens_expected")
def tokens_expected_closed(alpha, k):
    return k + 1.0 if alpha == 1 else (1 - alpha ** (k + 1)) / (1 - alpha)


@right("tokens_expected")
def tokens_expected_loop(alpha, k):
    total = power = 1.0
    for _ in range(k):
        power *= alpha
        total += power
    return total


@right("tokens_expected")
def tokens_expected_horner(alpha, k):
    mean = 1
    for _ in range(k):
        mean = 1 + alpha * mean
    return mean


@right("tokens_expected")
def tokens_expected_tensor(alpha, k):
    return (torch.tensor(float(alpha), dtype=torch.float64) ** torch.arange(k + 1)).sum()


@right("tokens_expected")
def tokens_expected_by_ends(alpha, k):
    """Each length of a round, times its probability."""
    mean = sum((i + 1) * alpha**i * (1 - alpha) for i in range(k))
    return mean + (k + 1) * alpha**k


@right("tokens_expected")
def tokens_expected_numpy(alpha, k):
    return float(np.polyval(np.ones(k + 1), alpha))

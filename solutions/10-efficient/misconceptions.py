"""Wrong answers that people really give, each with a hint, and right ones that other mistakes are made from. Students
get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import functools
import math

import torch
from torch import nn

from checking import families, misconception, right


def sized(Q, K, V, alike=False, size=1, least=1):
    """Raise where sizes do not fit."""
    if size < least:
        raise ValueError(f"{size} is below {least}")
    if (
        Q.shape[-1] != K.shape[-1]
        or K.shape[-2] != V.shape[-2]
        or (alike and Q.shape[-2] != K.shape[-2])
    ):
        raise ValueError("sizes that do not fit")


def scored(Q, K):
    return (Q / math.sqrt(Q.shape[-1])) @ K.transpose(-1, -2)


def seen(n_q, n_k):
    """Return where causal attention looks, (n_q, n_k)."""
    return torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)


def share(S, mask=None):
    if mask is None:
        return S.softmax(-1)
    nothing = ~mask.any(-1, keepdim=True)
    return (
        S.masked_fill(~mask, -torch.inf).masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0)
    )


def in_parts(Q, K, V, mask=None, parts=24):
    """Return attention of a fixed number of parts of the queries; `mask` is of the rows from one index to another."""
    results, start = [], 0
    for queries in Q.chunk(parts, -2):
        stop = start + queries.shape[-2]
        results.append(share(scored(queries, K), mask and mask(start, stop)) @ V)
        start = stop
    return torch.cat(results, -2)


ALL_PAIRS = "mask of all pairs"
PAIRS_IN_BLOCKS = (
    "An n x n mask, or the n x n distances that it is made of, is in memory at once. That is too much even if the "
    "scores are computed in blocks. Compute both for one block at a time."
)
GROWING = "parts that grow with n"
FIXED_NUMBER = (
    "The tokens are cut into a fixed number of parts, as `Q.chunk(24, -2)` does. The parts of a longer text are "
    "longer, so memory grows with n * n. Fix the size of a part, not the number of parts."
)

# by_hand: wrong


@misconception(
    "by_hand",
    label="nothing rescaled",
    hint="The second chunk has a larger score: the sums so far have to be multiplied by exp(ln 2 - ln 8) = 1/4.",
)
def by_hand_not_rescaled():
    return [1.5, 12, 3.125, 16.5, 5.28]


@misconception(
    "by_hand",
    label="only the sum rescaled",
    hint="Both the sum and the weighted sum were computed with the old largest score. Multiply both by 1/4.",
)
def by_hand_sum_alone():
    return [1.5, 12, 2, 16.5, 8.25]


@misconception(
    "by_hand",
    label="exponentials of the scores themselves",
    hint="The largest score was not subtracted. That does not change the result, but it changes the four numbers "
    "before it: they are relative to exp of the largest score so far.",
)
def by_hand_not_shifted():
    return [3, 24, 16, 60, 3.75]


@misconception(
    "by_hand",
    label="results of the chunks averaged",
    hint="Each chunk was normalized separately, and the two results were averaged. The second chunk's keys weigh 13 "
    "of 16.",
)
def by_hand_averaged():
    return [1.5, 12, 1.625, 4.5, 5.38]


# chunked_attention: in steps that a mistake can take the place of


class Online:
    """The online softmax over chunks of keys."""

    def __call__(self, Q, K, V, chunk_size, causal=False):
        self.refuse(Q, K, V, chunk_size)
        n_q, n_k = Q.shape[-2], K.shape[-2]
        m = Q.new_full((*Q.shape[:-1], 1), -torch.inf)
        total, mixed = torch.zeros_like(m), Q.new_zeros(*Q.shape[:-1], V.shape[-1])
        for start in self.starts(n_k, chunk_size):
            k, v = K[..., start : start + chunk_size, :], V[..., start : start + chunk_size, :]
            S = self.scores(Q, k)
            if causal:
                S = S.masked_fill(~self.sees(n_q, n_k, start, k.shape[-2]), -torch.inf)
            new = self.largest(m, S)
            E = (S - self.base(new)).exp()
            total, mixed = self.add(total, mixed, (m - self.base(new)).exp(), E, v)
            m = new
        return self.end(mixed, total)

    def refuse(self, Q, K, V, chunk_size):
        sized(Q, K, V, size=chunk_size)

    def starts(self, n_k, chunk_size):
        return range(0, n_k, chunk_size)

    def scores(self, Q, k):
        return scored(Q, k)

    def sees(self, n_q, n_k, start, size):
        return torch.arange(start, start + size) <= torch.arange(n_k - n_q, n_k)[:, None]

    def largest(self, m, S):
        return torch.maximum(m, S.amax(-1, keepdim=True))

    def base(self, m):
        return m.masked_fill(m == -torch.inf, 0)

    def add(self, total, mixed, shrink, E, v):
        return total * shrink + E.sum(-1, keepdim=True), mixed * shrink + E @ v

    def end(self, mixed, total):
        return mixed / total.masked_fill(total == 0, 1)


def online(label, hint):
    """Declare a mistake in a step of `Online`, as a function."""

    def declare(mistake):
        mistaken = type(mistake.__name__, (mistake, Online), {})()

        def answer(Q, K, V, chunk_size, causal=False):
            return mistaken(Q, K, V, chunk_size, causal)

        answer.__name__ = mistake.__name__
        return misconception("chunked_attention", label, hint)(answer)

    return declare


@online(
    "sum not rescaled",
    "When a chunk has a larger score, the sum of exponentials so far is too large. Multiply it by exp(old largest - "
    "new largest), like the weighted sum.",
)
class chunked_attention_sum_stays:
    def add(self, total, mixed, shrink, E, v):
        return total + E.sum(-1, keepdim=True), mixed * shrink + E @ v


@online(
    "weighted sum not rescaled",
    "For each chunk the sum is multiplied by exp(old largest - new largest), but the weighted sum of values is not. "
    "Both were computed with the old largest score.",
)
class chunked_attention_mixed_stays:
    def add(self, total, mixed, shrink, E, v):
        return total * shrink + E.sum(-1, keepdim=True), mixed + E @ v


@online(
    "old sums never rescaled",
    "Each chunk subtracts a different largest score, so their exponentials cannot be added. When a larger score "
    "appears, multiply the sum and weighted sum so far by exp(old largest - new largest).",
)
class chunked_attention_nothing_rescaled:
    def add(self, total, mixed, shrink, E, v):
        return total + E.sum(-1, keepdim=True), mixed + E @ v


@online(
    "largest score of the chunk alone",
    "The largest score is taken from the newest chunk alone, so it can fall. Take the larger of it and the largest "
    "so far: `torch.maximum`.",
)
class chunked_attention_not_carried:
    def largest(self, m, S):
        return S.amax(-1, keepdim=True)


@online(
    "rescaled by the inverse",
    "The factor is inverted: exp(new largest - old largest). The sums computed with the old largest score are too "
    "large, so the factor is exp(old - new), at most 1.",
)
class chunked_attention_inverse:
    def add(self, total, mixed, shrink, E, v):
        grow = torch.where(shrink > 0, 1 / shrink, 0)
        return total * grow + E.sum(-1, keepdim=True), mixed * grow + E @ v


@online(
    "rescaled by the inverse, from -inf on",
    "The factor is inverted: exp(new largest - old largest). Before the first chunk the old largest score is -inf, "
    "so the factor is inf, and 0 times inf is NaN. The factor is exp(old - new), at most 1, and 0 at first.",
)
class chunked_attention_inverse_nan:
    def add(self, total, mixed, shrink, E, v):
        return total / shrink + E.sum(-1, keepdim=True), mixed / shrink + E @ v


@online(
    "largest score never subtracted",
    "Unless the largest score is subtracted, exp overflows: inf / inf is NaN. Subtract the largest so far, and "
    "rescale.",
)
class chunked_attention_no_largest:
    def largest(self, m, S):
        return torch.zeros_like(m)

    def add(self, total, mixed, shrink, E, v):
        return total + E.sum(-1, keepdim=True), mixed + E @ v


@online(
    "largest score that starts at 0",
    "The largest score has to start at -inf. If it starts at 0, it is never below 0: in rows whose scores are all "
    "far below 0, every exponential becomes 0.",
)
class chunked_attention_from_0:
    def largest(self, m, S):
        return torch.maximum(m, S.amax(-1, keepdim=True)).clamp(min=0)


@online(
    "largest score starts at a finite number",
    "The largest score has to start at -inf. If it starts at a number such as -50000, it is never below that: in "
    "rows whose scores are all far below, every exponential becomes 0.",
)
class chunked_attention_from_a_number:
    def largest(self, m, S):
        return torch.maximum(m, S.amax(-1, keepdim=True)).clamp(min=-5e4)


@online(
    "0 kept as the largest score",
    "Where a query has seen no key yet, 0 is subtracted instead of -inf, but it is also kept as the largest score. "
    "If the keys of later chunks have scores far below 0, their exponentials all become 0. Keep -inf, and use 0 for "
    "the subtraction only.",
)
class chunked_attention_0_kept:
    def starts(self, n_k, chunk_size):
        return reversed(range(0, n_k, chunk_size))

    def largest(self, m, S):
        return self.base(torch.maximum(m, S.amax(-1, keepdim=True)))


@online(
    "one largest score for all queries",
    "The largest score was taken over all queries together. Rows whose scores are far below it underflow to 0 / 0. "
    "Each query has its own: `amax(-1, keepdim=True)`.",
)
class chunked_attention_shared_largest:
    def largest(self, m, S):
        return torch.maximum(m, S.amax((-1, -2), keepdim=True).expand(m.shape))


@online(
    "last short chunk dropped",
    "When `chunk_size` does not divide the number of keys, the last keys are left out. `range(0, n_k, chunk_size)` "
    "also has a start for them, and a slice may go beyond the end.",
)
class chunked_attention_rest_dropped:
    def starts(self, n_k, chunk_size):
        return (
            range(0, n_k - chunk_size + 1, chunk_size)
            if chunk_size <= n_k
            else range(0, n_k, chunk_size)
        )


@online(
    "first chunk only",
    "Only the first chunk of keys is used: a `return` is inside the loop, or the loop ends too early.",
)
class chunked_attention_first_alone:
    def starts(self, n_k, chunk_size):
        return [0]


@online(
    "never divided by the sum",
    "The weighted sum is not divided at the end. Divide it by the sum of the exponentials, once, after the last "
    "chunk.",
)
class chunked_attention_not_divided:
    def end(self, mixed, total):
        return mixed


@online(
    "scores not scaled",
    "The scores are not divided by sqrt(d_k).",
)
class chunked_attention_unscaled:
    def scores(self, Q, k):
        return Q @ k.transpose(-1, -2)


@online(
    "scaled after the product in float16",
    "In float16, the product of query and key overflows before it is divided: inf - inf is NaN. Divide Q by "
    "sqrt(d_k) first.",
)
class chunked_attention_overflow:
    def scores(self, Q, k):
        return Q @ k.transpose(-1, -2) / math.sqrt(Q.shape[-1])


@online(
    "causal mask restarts in each chunk",
    "The causal mask counts the keys of each chunk from 0. A key's position is `start` + its position in the chunk.",
)
class chunked_attention_causal_in_the_chunk:
    def sees(self, n_q, n_k, start, size):
        return torch.arange(size) <= torch.arange(n_k - n_q, n_k)[:, None]


@online(
    "causal aligned at the start",
    "Query i sees key j where j <= i. When n_q differs from n_k, the last query is aligned with the last key: j <= i "
    "+ n_k - n_q.",
)
class chunked_attention_aligned_at_the_start:
    def sees(self, n_q, n_k, start, size):
        return torch.arange(start, start + size) <= torch.arange(n_q)[:, None]


@online(
    "own key hidden",
    "The causal mask also hides each query's own key: j < i + n_k - n_q. The comparison is <=.",
)
class chunked_attention_strictly_causal:
    def sees(self, n_q, n_k, start, size):
        return torch.arange(start, start + size) < torch.arange(n_k - n_q, n_k)[:, None]


@online(
    "causal by whole chunks",
    "In the chunk that has the query's own position, only the keys up to it may be seen.",
)
class chunked_attention_whole_chunks:
    def sees(self, n_q, n_k, start, size):
        return (torch.arange(n_k - n_q, n_k)[:, None] >= start).expand(n_q, size)


@online(
    "causal mask inverted",
    "Each query sees only the keys after it. `masked_fill` fills where its mask is True, so the mask must be True "
    "for the keys to hide.",
)
class chunked_attention_later_keys:
    def sees(self, n_q, n_k, start, size):
        return torch.arange(start, start + size) > torch.arange(n_k - n_q, n_k)[:, None]


@online(
    "causal argument ignored",
    "`causal` changes nothing.",
)
class chunked_attention_causal_ignored:
    def sees(self, n_q, n_k, start, size):
        return torch.ones(n_q, size, dtype=torch.bool)


@online(
    "NaN where nothing is seen",
    "For a query that sees no keys, the largest score is -inf, and -inf - (-inf) is NaN: subtract 0 there. Its sum "
    "is 0: divide by 1 there.",
)
class chunked_attention_nan:
    def base(self, m):
        return m


@online(
    "NaN hidden in the result only",
    "For a query that sees no keys, 0 / 0 was computed and replaced afterwards (`torch.where`, `nan_to_num`). In the "
    "gradients, 0 times NaN is NaN. Replace the sum before you divide by it.",
)
class chunked_attention_nan_backward:
    def end(self, mixed, total):
        return (mixed / total).nan_to_num(0.0)


@online(
    "large negative number instead of -inf",
    "Hidden scores are a large negative number instead of -inf. A query that sees no keys then gives all keys equal "
    "weights, but its result should be 0.",
)
class chunked_attention_large_negative:
    def largest(self, m, S):
        S = S.nan_to_num_(neginf=-1e4)
        return torch.maximum(m, S.amax(-1, keepdim=True))


@online(
    "chunk size not checked",
    "A `chunk_size` below 0 gives a result, because a `range` that goes backwards is empty. Raise `ValueError` below "
    "1.",
)
class chunked_attention_any_chunk_size:
    def refuse(self, Q, K, V, chunk_size):
        sized(Q, K, V)


@online(
    "surplus values ignored",
    "When there are more values than keys, the surplus values are never used. Compare the numbers, and raise "
    "`ValueError`.",
)
class chunked_attention_values_left_over:
    def refuse(self, Q, K, V, chunk_size):
        if chunk_size < 1 or Q.shape[-1] != K.shape[-1] or V.shape[-2] < K.shape[-2]:
            raise ValueError("sizes that do not fit")


@misconception(
    "chunked_attention",
    label="chunks normalized separately, then averaged",
    hint="Each chunk has its own softmax, and the results are averaged. A chunk with large scores weighs more: keep "
    "sums of exponentials, and divide once at the end.",
)
def chunked_attention_averaged(Q, K, V, chunk_size, causal=False):
    sized(Q, K, V, size=chunk_size)
    S = scored(Q, K)
    S = S.masked_fill(~seen(*S.shape[-2:]), -torch.inf) if causal else S
    parts = zip(S.split(chunk_size, -1), V.split(chunk_size, -2), strict=True)
    return torch.stack([s.softmax(-1) @ v for s, v in parts]).mean(0)


@misconception(
    "chunked_attention",
    label="queries see only their own chunk",
    hint="Queries and keys are both cut, and each chunk of queries attends to one chunk of keys. Every query attends "
    "to every key.",
)
def chunked_attention_diagonal_blocks(Q, K, V, chunk_size, causal=False):
    sized(Q, K, V, size=chunk_size)
    mask = (
        torch.arange(Q.shape[-2])[:, None] // chunk_size == torch.arange(K.shape[-2]) // chunk_size
    )
    mask = mask & seen(Q.shape[-2], K.shape[-2]) if causal else mask
    return share(scored(Q, K), mask) @ V


@misconception(
    "chunked_attention",
    label="all scores at once",
    hint="All n_q x n_k scores are in memory at once. Take a few keys at a time, and keep for each query the largest "
    "score, the sum and the weighted sum.",
)
def chunked_attention_whole(Q, K, V, chunk_size, causal=False):
    sized(Q, K, V, size=chunk_size)
    return share(scored(Q, K), seen(Q.shape[-2], K.shape[-2]) if causal else None) @ V


@misconception("chunked_attention", GROWING, FIXED_NUMBER)
def chunked_attention_fixed_number(Q, K, V, chunk_size, causal=False):
    sized(Q, K, V, size=chunk_size)
    last = K.shape[-2] - Q.shape[-2]

    def mask(start, stop):
        return torch.arange(K.shape[-2]) <= torch.arange(start, stop)[:, None] + last

    return in_parts(Q, K, V, mask if causal else None)


class WithMasksFirst(Online):
    """The masks of all chunks are made before the first one is read."""

    def __call__(self, Q, K, V, chunk_size, causal=False):
        n_q, n_k = Q.shape[-2], K.shape[-2]
        self.masks = {}
        if causal:
            for start in range(0, n_k, max(chunk_size, 1)):
                stop = min(start + chunk_size, n_k)
                cut = min(max(stop - n_k + n_q, 0), n_q)  # only these rows are cut
                self.masks[start] = super().sees(n_q, n_k, start, stop - start)[:cut].clone()
        return super().__call__(Q, K, V, chunk_size, causal)

    def sees(self, n_q, n_k, start, size):
        mask = self.masks[start]
        return torch.cat([mask, mask.new_ones(n_q - len(mask), size)])


@misconception(
    "chunked_attention",
    label="masks of all chunks kept",
    hint="The masks of all chunks are in memory at once: together they have as many entries as there are pairs. Make the "
    "mask of a chunk when its turn comes.",
)
def chunked_attention_masks_first(Q, K, V, chunk_size, causal=False):
    return WithMasksFirst()(Q, K, V, chunk_size, causal)


@misconception(
    "chunked_attention",
    label="largest scores of all chunks kept",
    hint="A list keeps the largest scores of each chunk for each query. It grows with n_q times the number of chunks. Keep "
    "only the largest so far.",
)
def chunked_attention_all_largest(Q, K, V, chunk_size, causal=False):
    sized(Q, K, V, size=chunk_size)
    n_q, n_k = Q.shape[-2], K.shape[-2]
    starts = range(0, n_k, chunk_size)

    def scores(start):
        S = scored(Q, K[..., start : start + chunk_size, :])
        if causal:
            mask = Online().sees(n_q, n_k, start, S.shape[-1])
            S = S.masked_fill(~mask, -torch.inf)
        return S

    all_largest = [scores(start).amax(-1, keepdim=True) for start in starts]
    largest = functools.reduce(torch.maximum, all_largest)
    base = largest.masked_fill(largest == -torch.inf, 0)
    total = mixed = 0
    for start in starts:
        E = (scores(start) - base).exp()
        total = total + E.sum(-1, keepdim=True)
        mixed = mixed + E @ V[..., start : start + chunk_size, :]
    return mixed / total.masked_fill(total == 0, 1)


@misconception(
    "chunked_attention",
    label="scores of all chunks kept",
    hint="The scores are computed chunk by chunk, but all are kept in a list: together they are n_q x n_k. Use each "
    "chunk immediately, and do not keep it.",
)
def chunked_attention_list(Q, K, V, chunk_size, causal=False):
    sized(Q, K, V, size=chunk_size)
    parts = [scored(Q, k).exp() for k in K.split(chunk_size, -2)]
    chunks = [scored(Q, k) for k in K.split(chunk_size, -2)]
    largest = torch.stack([chunk.amax(-1) for chunk in chunks]).amax(0)[..., None]
    total = mixed = 0
    for start, S, v in zip(
        range(0, K.shape[-2], chunk_size), chunks, V.split(chunk_size, -2), strict=True
    ):
        if causal:
            sees = (
                torch.arange(start, start + S.shape[-1])
                <= torch.arange(Q.shape[-2])[:, None] + K.shape[-2] - Q.shape[-2]
            )
            S = S.masked_fill(~sees, -torch.inf)
        E = (S - largest).exp()
        total, mixed = total + E.sum(-1, keepdim=True), mixed + E @ v
    del parts
    return mixed / total.masked_fill(total == 0, 1)


@misconception(
    "chunked_attention",
    label="causal mask of all pairs",
    hint="The causal mask is made for all pairs at once, even if the scores are computed chunk by chunk. Compare the "
    "positions of the queries with those of the chunk's keys.",
)
def chunked_attention_whole_mask(Q, K, V, chunk_size, causal=False):
    mask = seen(Q.shape[-2], K.shape[-2]) if causal else None
    attention = Online()
    attention.sees = lambda n_q, n_k, start, size: mask[:, start : start + size]
    return attention(Q, K, V, chunk_size, causal)


@misconception("chunked_attention", ALL_PAIRS, PAIRS_IN_BLOCKS)
def chunked_attention_mask_in_any_case(Q, K, V, chunk_size, causal=False):
    n_q, n_k = Q.shape[-2], K.shape[-2]
    mask = seen(n_q, n_k) if causal else torch.ones(n_q, n_k, dtype=torch.bool)
    attention = Online()
    attention.sees = lambda n_q, n_k, start, size: mask[:, start : start + size]
    return attention(Q, K, V, chunk_size, causal)


IN_PLACE = "Q itself was divided: `/=`, and every method that ends in `_`, works in place. Write `Q = Q / ...`."


@misconception(
    "chunked_attention",
    label="arguments renamed",
    hint="Callers use `chunk_size=...` and `causal=True`: keep the given names.",
)
def chunked_attention_renamed(Q, K, V, size, is_causal=False):
    return Online()(Q, K, V, size, is_causal)


@misconception("chunked_attention", label="Q scaled in place", hint=IN_PLACE)
def chunked_attention_in_place(Q, K, V, chunk_size, causal=False):
    result = Online()(Q, K, V, chunk_size, causal)
    with torch.no_grad():
        Q /= math.sqrt(Q.shape[-1])
    return result


@misconception("local_attention", label="Q scaled in place", hint=IN_PLACE)
def local_attention_in_place(Q, K, V, window):
    result = local_attention_blocks(Q, K, V, window)
    with torch.no_grad():
        Q /= math.sqrt(Q.shape[-1])
    return result


# chunked_attention: right

HINTS = {
    "a list instead of an array": "The result is a list. Leave `.tolist()` out: the result should be a tensor.",
    "result in float64": "The result is float64 for every input dtype. Leave `.double()` out, and create new tensors "
    "in the dtype of Q, as `Q.new_zeros(...)` does.",
    "result always in float32": "The result is float32 for every input dtype, because `torch.zeros` creates float32 "
    "by default. `Q.new_zeros(...)` has the dtype of Q.",
    "axis squeezed away": "A dimension of size 1 is missing: `squeeze` removes it. One sequence is still a batch, "
    "one token is still a row.",
    "works for two axes only": "The number of dimensions is fixed: `n, d = Q.shape` works for two. Count sizes and "
    "dimensions from the end: `Q.shape[-2]`.",
    "leading axes left flattened": "Restore the leading dimensions: `.unflatten(0, Q.shape[:-2])`.",
}
MISTAKES = [
    "returns nothing",
    "a list instead of an array",
    "result in float64",
    "result always in float32",
    "axis squeezed away",
    "only the first sequence",
    "works for two axes only",
    "leading axes left flattened",
    "assert instead of ValueError",
    "an array instead of a tensor",
    "cut off from autograd",
]


@families(*MISTAKES, hints=HINTS)
@right("chunked_attention")
def chunked_attention_online(Q, K, V, chunk_size, causal=False):
    return Online()(Q, K, V, chunk_size, causal)


# local_attention


def near(n, window):
    return (torch.arange(n)[:, None] - torch.arange(n)).abs() <= window


def local(allowed, label, hint):
    """List the wrong answer whose window is another one: `allowed(i, j, window, n)` says what may be seen."""

    def answer(Q, K, V, window):
        sized(Q, K, V, alike=True, size=window, least=0)
        n, results = Q.shape[-2], []
        for start in range(0, n, 64):
            queries = Q[..., start : start + 64, :]
            i = torch.arange(start, start + queries.shape[-2])[:, None]
            results.append(share(scored(queries, K), allowed(i, torch.arange(n), window, n)) @ V)
        return torch.cat(results, -2)

    answer.__name__ = f"local_attention_{allowed.__name__}"
    return misconception("local_attention", label, hint)(answer)


def one_less(i, j, window, n):
    return ((i - j).abs() < window) | (i == j)


def backwards_alone(i, j, window, n):
    return (i - j >= 0) & (i - j <= window)


def circular(i, j, window, n):
    return ((i - j) % n <= window) | ((j - i) % n <= window)


def half_a_window(i, j, window, n):
    return (i - j).abs() <= window // 2


def without_itself(i, j, window, n):
    return ((i - j).abs() <= window) & (i != j) if window else i == j


def itself_and_far(i, j, window, n):
    return (i - j).abs() >= window


def far_alone(i, j, window, n):
    return (i - j).abs() > window


def at_most_16(i, j, window, n):
    return (i - j).abs() <= min(window, 16)


def in_blocks(i, j, window, n):
    return i // (window + 1) == j // (window + 1)


def one_end_open(i, j, window, n):
    return (j >= i - window) & (j < i + window) | (i == j)


local_attention_one_less = local(
    one_less,
    "window one too small",
    "Keys at a distance of exactly `window` are left out: use <=, not <.",
)
local_attention_one_end_open = local(
    one_end_open,
    "key at the far end missing",
    "The key at i + `window` is left out. A slice ends before its last number: `[i - window : i + window + 1]`.",
)
local_attention_backwards_alone = local(
    backwards_alone,
    "window only to the past",
    "Keys after the query are left out, as in causal attention. The window extends to both sides: |i - j| <= "
    "`window`.",
)
local_attention_circular = local(
    circular,
    "window wraps around the ends",
    "The first tokens see the last ones: `torch.roll`, or a negative index, wraps around. Near the ends, the window "
    "is smaller.",
)
local_attention_half_a_window = local(
    half_a_window,
    "window taken as the whole width",
    "`window` is the distance to either side, not the whole width: 2 `window` + 1 keys.",
)
local_attention_without_itself = local(
    without_itself, "own key left out", "Each token also sees itself: its distance is 0."
)
local_attention_itself_and_far = local(
    itself_and_far,
    "far keys instead of near ones",
    "The comparison is inverted. `masked_fill` fills where its mask is True, so the mask must be True for the far "
    "keys.",
)
local_attention_far_alone = local(
    far_alone,
    "window mask inverted",
    "Tokens see the keys outside the window. `masked_fill` hides where its mask is True, so that must be |i - j| > "
    "`window`.",
)
local_attention_at_most_16 = local(
    at_most_16,
    "window never above 16",
    "The code contains a fixed width. Use `window` to find which keys a block of queries can reach.",
)


@misconception(
    "local_attention",
    label="window renamed",
    hint="Callers use `window=...`: keep the given names.",
)
def local_attention_renamed(Q, K, V, distance):
    return local_attention_blocks(Q, K, V, distance)


local_attention_in_blocks = local(
    in_blocks,
    "blocks that see only themselves",
    "Tokens are cut into blocks, and each block sees only itself. Its first token also needs keys of the block "
    "before.",
)


@misconception(
    "local_attention",
    label="normalized over all keys",
    hint="The softmax is over all keys, and those outside the window are removed afterwards, so the weights no "
    "longer sum to 1. Set scores to -inf before the softmax.",
)
def local_attention_normalised_over_all(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    return (scored(Q, K).softmax(-1) * near(Q.shape[-2], window)) @ V


@misconception(
    "local_attention",
    label="scores outside set to 0",
    hint="Scores outside the window are 0, which is a score like any other: exp(0) is 1. Set them to -inf.",
)
def local_attention_zero_scores(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    return (scored(Q, K) * near(Q.shape[-2], window)).softmax(-1) @ V


@misconception(
    "local_attention",
    label="padding seen as keys",
    hint="Zero keys are padded before the first and after the last token, and take part in the softmax: their score "
    "0 gets a weight. Set their scores to -inf.",
)
def local_attention_padding_seen(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    k, v = (
        nn.functional.pad(X, (0, 0, window, window)).unfold(-2, 2 * window + 1, 1) for X in (K, V)
    )
    S = torch.einsum("...d,...dw->...w", Q, k) / math.sqrt(Q.shape[-1])
    return torch.einsum("...w,...dw->...d", S.softmax(-1), v)


@misconception(
    "local_attention",
    label="end keys repeated",
    hint="When the window reaches beyond an end, `clamp` of an index counts the key at the end several times. Hide "
    "everything beyond the ends.",
)
def local_attention_clamped(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    n = Q.shape[-2]
    places = (torch.arange(n)[:, None] + torch.arange(-window, window + 1)).clamp(0, n - 1)
    S = torch.einsum("...nd,...nwd->...nw", Q, K[..., places, :]) / math.sqrt(Q.shape[-1])
    return torch.einsum("...nw,...nwd->...nd", S.softmax(-1), V[..., places, :])


@misconception(
    "local_attention",
    label="scores not scaled",
    hint="The scores are not divided by sqrt(d_k).",
)
def local_attention_unscaled(Q, K, V, window):
    return local_attention_blocks(Q * math.sqrt(Q.shape[-1]), K, V, window)


@misconception(
    "local_attention",
    label="exponentials without the largest score",
    hint="exp of large scores is inf, and inf / inf is NaN. Use `softmax`, or subtract each row's largest score.",
)
def local_attention_overflow(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    n, results = Q.shape[-2], []
    for i in range(n):
        span = slice(max(i - window, 0), i + window + 1)
        E = scored(Q[..., i : i + 1, :], K[..., span, :]).exp()
        results.append(E @ V[..., span, :] / E.sum(-1, keepdim=True))
    return torch.cat(results, -2)


@misconception(
    "local_attention",
    label="all scores, then a mask",
    hint="All n x n scores were in memory, and most of them are masked. Take queries in blocks, with the keys that "
    "they can reach.",
)
def local_attention_masked(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    mask = torch.ones(Q.shape[-2], Q.shape[-2], dtype=torch.bool).tril(window).triu(-window)
    return share(scored(Q, K), mask) @ V


@misconception("local_attention", GROWING, FIXED_NUMBER)
def local_attention_fixed_number(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)

    def mask(start, stop):
        return (torch.arange(start, stop)[:, None] - torch.arange(K.shape[-2])).abs() <= window

    return in_parts(Q, K, V, mask)


@misconception("local_attention", ALL_PAIRS, PAIRS_IN_BLOCKS)
def local_attention_whole_mask(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    mask, results = near(Q.shape[-2], window), []
    for start in range(0, Q.shape[-2], 16):
        low, high = max(start - window, 0), start + 16 + window
        S = scored(Q[..., start : start + 16, :], K[..., low:high, :])
        results.append(share(S, mask[start : start + 16, low:high]) @ V[..., low:high, :])
    return torch.cat(results, -2)


@misconception(
    "local_attention",
    label="negative window accepted",
    hint="A `window` below 0 gives a result, or NaN. Raise `ValueError`.",
)
def local_attention_any_window(Q, K, V, window):
    return local_attention_blocks(Q, K, V, abs(window))


@misconception(
    "local_attention",
    label="numbers of tokens not compared",
    hint="The numbers of queries, keys and values have to be equal, but a slice of keys fits by chance. Compare the "
    "numbers, and raise `ValueError`.",
)
def local_attention_any_numbers(Q, K, V, window):
    sized(Q, K, K, size=window, least=0)
    n, results = Q.shape[-2], []
    for i in range(n):
        low, high = max(i - window, 0), i + window + 1
        span = slice(low, max(min(high, K.shape[-2], V.shape[-2]), 0))
        results.append(scored(Q[..., i : i + 1, :], K[..., span, :]).softmax(-1) @ V[..., span, :])
    return torch.cat(results, -2)


@families(*MISTAKES, hints=HINTS)
@right("local_attention")
def local_attention_blocks(Q, K, V, window):
    sized(Q, K, V, alike=True, size=window, least=0)
    n, size, found = Q.shape[-2], 32, []
    for start in range(0, n, size):
        low, high = max(start - window, 0), min(start + size + window, n)
        own = Q[..., start : start + size, :]
        i, j = torch.arange(start, start + own.shape[-2])[:, None], torch.arange(low, high)
        mask = (i - j <= window) & (j - i <= window)
        found.append(share(scored(own, K[..., low:high, :]), mask) @ V[..., low:high, :])
    return torch.cat(found, -2)


# linear_attention


def phi(X):
    return nn.functional.elu(X) + 1


def ratio(q, k, V, causal=False, ones=None):
    """Return linear attention of features: a sum over all keys, or over those up to the query."""
    states, sums = k.unsqueeze(-1) * V.unsqueeze(-2), k
    if causal:
        return (q.unsqueeze(-2) @ states.cumsum(-3)).squeeze(-2), (q * sums.cumsum(-2)).sum(
            -1, keepdim=True
        )
    return q @ (k.transpose(-1, -2) @ V), q @ sums.sum(-2, keepdim=True).transpose(-1, -2)


LINEAR = ("linear_attention", "causal_linear_attention")


def of_linear(label, hint):
    """Declare a mistake that both linear attentions can have: it takes Q, K, V and whether it is causal."""

    def declare(mistake):
        mistake.families = []
        for subject in LINEAR:
            causal = subject.startswith("causal")

            def answer(Q, K, V, causal=causal):
                sized(Q, K, V, alike=causal)
                return mistake(Q, K, V, causal)

            answer.__name__ = f"{subject}_{mistake.__name__}"
            mistake.families.append(misconception(subject, label, hint)(answer))
        return mistake

    return declare


@of_linear(
    "never divided by the sum",
    "The normalizer is missing: divide each row by the sum of its weights, phi(q) times the sum of all phi(k).",
)
def not_divided(Q, K, V, causal):
    return ratio(phi(Q), phi(K), V, causal)[0]


@of_linear("keys not mapped", "Queries go through elu + 1, but keys do not. Map both.")
def keys_as_they_are(Q, K, V, causal):
    mixed, total = ratio(phi(Q), K, V, causal)
    return mixed / total


@of_linear(
    "no feature map at all",
    "Without elu + 1, weights can be negative and their sum 0. Map queries and keys.",
)
def nothing_mapped(Q, K, V, causal):
    mixed, total = ratio(Q, K, V, causal)
    return mixed / total


@of_linear(
    "relu instead of elu + 1",
    "The feature map is relu, which is 0 for all negative inputs, so a row may have no weight at all. Use elu + 1.",
)
def relu(Q, K, V, causal):
    mixed, total = ratio(Q.relu(), K.relu(), V, causal)
    return mixed / total


@of_linear(
    "relu instead of elu",
    "The feature map is relu + 1, which is 1 for all negative inputs. elu goes down to -1: elu + 1 is exp(x) there.",
)
def relu_and_1(Q, K, V, causal):
    mixed, total = ratio(Q.relu() + 1, K.relu() + 1, V, causal)
    return mixed / total


@of_linear(
    "exp computed where it overflows",
    "`torch.where` takes x + 1 for large x, but exp(x) is computed there as well. It overflows, and in the gradients "
    "0 times inf is NaN. Use `nn.functional.elu`, or clamp x before exp.",
)
def both_branches(Q, K, V, causal):
    q, k = (torch.where(X > 0, X + 1, X.exp()) for X in (Q, K))
    mixed, total = ratio(q, k, V, causal)
    return mixed / total


@of_linear(
    "mean of the features, not their sum",
    "The normalizer has the mean of the keys' features, so results are too large by the number of keys. It is their "
    "sum.",
)
def mean_of_features(Q, K, V, causal):
    mixed, total = ratio(phi(Q), phi(K), V, causal)
    n = torch.arange(1, K.shape[-2] + 1, dtype=Q.dtype)[:, None] if causal else K.shape[-2]
    return mixed / (total / n)


@of_linear("elu without + 1", "elu alone goes down to -1, so weights can be negative. Add 1.")
def elu_alone(Q, K, V, causal):
    mixed, total = ratio(nn.functional.elu(Q), nn.functional.elu(K), V, causal)
    return mixed / total


@of_linear(
    "softmax as the feature map",
    "Queries and keys go through a softmax. Here the feature map is elu + 1, applied elementwise.",
)
def softmax_of_each(Q, K, V, causal):
    mixed, total = ratio(Q.softmax(-1), K.softmax(-1), V, causal)
    return mixed / total


@of_linear(
    "scaled before the feature map",
    "Queries are divided by sqrt(d_k). Linear attention is not scaled: inside elu, a factor changes the weights.",
)
def scaled_before(Q, K, V, causal):
    mixed, total = ratio(phi(Q / math.sqrt(Q.shape[-1])), phi(K), V, causal)
    return mixed / total


@of_linear(
    "softmax instead of features",
    "This is softmax attention. Here the weight of a pair is phi(q) times phi(k).",
)
def softmax_attention(Q, K, V, causal):
    return share(scored(Q, K), seen(Q.shape[-2], K.shape[-2]) if causal else None) @ V


@of_linear(
    "all weights at once",
    "All n x n weights were in memory, phi(Q) phi(K)^T. Move the brackets: phi(K)^T V first.",
)
def all_weights(Q, K, V, causal):
    E = phi(Q) @ phi(K).transpose(-1, -2)
    E = E * seen(Q.shape[-2], K.shape[-2]) if causal else E
    return E @ V / E.sum(-1, keepdim=True)


def row_by_row(q, k, V, causal, parts):
    """Return linear attention with the weights of one part of the queries after the other."""
    results, start = [], 0
    for queries in parts(q):
        stop = start + queries.shape[-2]
        seen_keys = slice(stop if causal else None)
        E = queries @ k[..., seen_keys, :].transpose(-1, -2)
        E = E.tril(start) if causal else E
        results.append(E @ V[..., seen_keys, :] / E.sum(-1, keepdim=True))
        start = stop
    return torch.cat(results, -2)


@of_linear(GROWING, FIXED_NUMBER)
def fixed_number(Q, K, V, causal):
    return row_by_row(phi(Q), phi(K), V, causal, lambda q: q.chunk(24, -2))


@of_linear(
    "every query meets every key",
    "Little is in memory at once, but for each query all the keys that it sees are read again, so time grows with "
    "n * n. Queries can share the sums of phi(k)^T v and of phi(k): compute them once or, in the causal case, add one "
    "token at a time.",
)
def all_pairs(Q, K, V, causal):
    return row_by_row(phi(Q), phi(K), V, causal, lambda q: q.split(16, -2))


@of_linear(
    "features written into the inputs",
    "Queries or keys were changed: `elu_`, `+=` and `inplace=True` work in place. Make new tensors for the features.",
)
def in_place(Q, K, V, causal):
    mixed, total = ratio(phi(Q), phi(K), V, causal)
    with torch.no_grad():
        Q.copy_(phi(Q))
    return mixed / total


def causal_wrong(label, hint):
    def declare(function):
        def answer(Q, K, V):
            sized(Q, K, V, alike=True)
            mixed, total = function(phi(Q), phi(K), V)
            return mixed / total

        answer.__name__ = function.__name__
        return misconception("causal_linear_attention", label, hint)(answer)

    return declare


@causal_wrong(
    "future included",
    "Each token sees all tokens, as in `linear_attention`. Both sums have to grow with i.",
)
def causal_linear_attention_all(q, k, V):
    return ratio(q, k, V)


@causal_wrong(
    "normalizer over all keys",
    "The sum of features in the denominator is over all keys. It also has to grow with i: `cumsum`.",
)
def causal_linear_attention_total_of_all(q, k, V):
    return ratio(q, k, V, True)[0], ratio(q, k, V)[1]


@causal_wrong(
    "later tokens instead of earlier ones",
    "Token i sees tokens i to n - 1: the sums run backwards, or the triangle is the upper one. Start at the first "
    "token.",
)
def causal_linear_attention_later(q, k, V):
    mixed, total = ratio(q.flip(-2), k.flip(-2), V.flip(-2), True)
    return mixed.flip(-2), total.flip(-2)


@causal_wrong(
    "running sums as a convolution",
    "The running sums are a convolution with n ones, or an average over n places: each sum reads all places before it, "
    "so time grows with n * n. `cumsum` adds one place at a time.",
)
def causal_linear_attention_convolved(q, k, V):
    n = q.shape[-2]

    def sums(X):
        rows = X.flatten(0, -3) if X.ndim > 2 else X[None]
        channels = nn.functional.pad(rows.mT.flatten(0, 1)[:, None], (n - 1, 0))
        summed = nn.functional.conv1d(channels, X.new_ones(1, 1, n))
        return summed.reshape(len(rows), X.shape[-1], n).mT.reshape(X.shape)

    states = sums((k.unsqueeze(-1) * V.unsqueeze(-2)).flatten(-2))
    states = states.unflatten(-1, (k.shape[-1], V.shape[-1]))
    return (q.unsqueeze(-2) @ states).squeeze(-2), (q * sums(k)).sum(-1, keepdim=True)


def before(q, k, V):
    """Return both sums over the tokens before each one: 0 for the first."""
    states = (k.unsqueeze(-1) * V.unsqueeze(-2))[..., :-1, :, :].cumsum(-3)
    states, sums = (
        nn.functional.pad(states, (0, 0, 0, 0, 1, 0)),
        nn.functional.pad(k[..., :-1, :].cumsum(-2), (0, 0, 1, 0)),
    )
    return (q.unsqueeze(-2) @ states).squeeze(-2), (q * sums).sum(-1, keepdim=True)


@causal_wrong(
    "own token excluded",
    "Token i does not see itself, so the first one sees nothing: 0 / 0 is NaN. Add its term to the sums before you "
    "use them.",
)
def causal_linear_attention_excludes_itself(q, k, V):
    return before(q, k, V)


@causal_wrong(
    "own token excluded, first result 0",
    "Token i does not see itself, and the first one gets 0. Add its term to the sums before you use them.",
)
def causal_linear_attention_excludes_itself_guarded(q, k, V):
    mixed, total = before(q, k, V)
    return mixed, total.masked_fill(total == 0, 1)


@misconception(
    "causal_linear_attention",
    label="different numbers of queries accepted",
    hint="Here the numbers of queries, keys and values have to be equal. Compare them, and raise `ValueError`.",
)
def causal_linear_attention_any_numbers(Q, K, V):
    sized(Q, K, V)
    n = min(Q.shape[-2], K.shape[-2])
    return causal_linear_attention_cumsum(Q[..., :n, :], K[..., :n, :], V[..., :n, :])


@misconception(
    "causal_linear_attention",
    label="size 1 stretched",
    hint="Broadcasting and einsum silently stretch a size of 1. Compare the sizes, and raise `ValueError`.",
)
def causal_linear_attention_stretched(Q, K, V):
    mixed, total = ratio(
        *torch.broadcast_tensors(phi(Q), phi(K)),
        V.expand(*V.shape[:-2], Q.shape[-2], V.shape[-1]),
        True,
    )
    return mixed / total


@misconception(
    "linear_attention",
    label="size 1 stretched",
    hint="Broadcasting and einsum silently stretch a size of 1. Compare sizes and raise `ValueError`, or use `@`.",
)
def linear_attention_stretched(Q, K, V):
    d, n = max(Q.shape[-1], K.shape[-1]), max(K.shape[-2], V.shape[-2])
    q, k = (phi(X).expand(*X.shape[:-1], d) for X in (Q, K))
    mixed, total = ratio(q, k.expand(*k.shape[:-2], n, d), V.expand(*V.shape[:-2], n, V.shape[-1]))
    return mixed / total


# linear_attention: right


@families(*MISTAKES, hints=HINTS)
@right("linear_attention")
def linear_attention_products(Q, K, V):
    sized(Q, K, V)
    mixed, total = ratio(phi(Q), phi(K), V)
    return mixed / total


# causal_linear_attention: right


@families(*MISTAKES, hints=HINTS)
@right("causal_linear_attention")
def causal_linear_attention_cumsum(Q, K, V):
    sized(Q, K, V, alike=True)
    mixed, total = ratio(phi(Q), phi(K), V, True)
    return mixed / total


# grouped_query_attention


def grouping(label, hint):
    """List a wrong answer that says which heads of K and V each query head uses: (K, V) of h_q heads."""

    def declare(function):
        def answer(Q, K, V):
            fits(Q, K, V)
            return scored(Q, function(Q, K)).softmax(-1) @ function(Q, V)

        answer.__name__ = f"grouped_query_attention_{function.__name__}"
        return misconception("grouped_query_attention", label, hint)(answer)

    return declare


def fits(Q, K, V):
    sized(Q, K, V)
    if Q.shape[1] % K.shape[1] or K.shape[1] != V.shape[1]:
        raise ValueError("numbers of heads")


@grouping(
    "key heads tiled, not repeated",
    "`repeat` puts copies of all key heads one after another, 0 1 0 1: query head i gets key head i % h_kv. "
    "Neighbors should share, 0 0 1 1: `repeat_interleave`.",
)
def tiled(Q, X):
    return X.repeat(1, Q.shape[1] // X.shape[1], 1, 1)


@grouping(
    "divided by h_kv instead of group size",
    "Query head i uses key head i // h_kv. It should be i // (h_q / h_kv): divide by the number of query heads that "
    "share one.",
)
def by_key_heads(Q, X):
    return X[:, (torch.arange(Q.shape[1]) // X.shape[1]).clamp(max=X.shape[1] - 1)]


@misconception(
    "grouped_query_attention",
    label="value heads tiled, not repeated",
    hint="Keys are repeated 0 0 1 1, as they should be, but values 0 1 0 1, so a query head weighs values of another "
    "head. Use `repeat_interleave` for both.",
)
def grouped_query_attention_values_tiled(Q, K, V):
    fits(Q, K, V)
    group = Q.shape[1] // K.shape[1]
    return scored(Q, K.repeat_interleave(group, 1)).softmax(-1) @ V.repeat(1, group, 1, 1)


@misconception(
    "grouped_query_attention",
    label="keys tiled, values repeated",
    hint="Values are repeated 0 0 1 1, as they should be, but keys 0 1 0 1, so a query head meets keys of another "
    "head. Use `repeat_interleave` for both.",
)
def grouped_query_attention_keys_tiled(Q, K, V):
    fits(Q, K, V)
    group = Q.shape[1] // K.shape[1]
    return scored(Q, K.repeat(1, group, 1, 1)).softmax(-1) @ V.repeat_interleave(group, 1)


@misconception(
    "grouped_query_attention",
    label="queries of a group averaged",
    hint="The query heads that share a key head were averaged, so they all return the same. Each of them attends by "
    "itself: only keys and values are shared.",
)
def grouped_query_attention_averaged(Q, K, V):
    fits(Q, K, V)
    group = Q.shape[1] // K.shape[1]
    means = Q.unflatten(1, (-1, group)).mean(2)
    return (scored(means, K).softmax(-1) @ V).repeat_interleave(group, 1)


@misconception(
    "grouped_query_attention",
    label="query heads left out",
    hint="Only as many query heads are used as there are key heads. All of them have to attend.",
)
def grouped_query_attention_cut(Q, K, V):
    fits(Q, K, V)
    return scored(Q[:, : K.shape[1]], K).softmax(-1) @ V


@misconception(
    "grouped_query_attention",
    label="group dimension left in the result",
    hint="The result has five dimensions: key heads and groups are still separate. `flatten(1, 2)` makes h_q heads "
    "of them.",
)
def grouped_query_attention_five_axes(Q, K, V):
    fits(Q, K, V)
    q = Q.unflatten(1, (K.shape[1], -1))
    return scored(q, K.unsqueeze(2)).softmax(-1) @ V.unsqueeze(2)


@misconception(
    "grouped_query_attention",
    label="query heads grouped in wrong order",
    hint="The query heads were cut into (group, h_kv), so every h_kv-th head shares. Cut them into (h_kv, group).",
)
def grouped_query_attention_other_cut(Q, K, V):
    fits(Q, K, V)
    q = Q.unflatten(1, (-1, K.shape[1]))
    result = scored(q, K.unsqueeze(1)).softmax(-1) @ V.unsqueeze(1)
    return result.transpose(1, 2).flatten(1, 2)


@misconception(
    "grouped_query_attention",
    label="scores not scaled",
    hint="The scores are not divided by sqrt(d_k).",
)
def grouped_query_attention_unscaled(Q, K, V):
    return grouped_query_attention_repeated(Q * math.sqrt(Q.shape[-1]), K, V)


@misconception(
    "grouped_query_attention",
    label="softmax along the wrong dimension",
    hint="The softmax runs over the queries. Each query's weights sum to 1 over the keys, the last dimension.",
)
def grouped_query_attention_other_axis(Q, K, V):
    fits(Q, K, V)
    group = Q.shape[1] // K.shape[1]
    return scored(Q, K.repeat_interleave(group, 1)).softmax(-2) @ V.repeat_interleave(group, 1)


@misconception(
    "grouped_query_attention",
    label="exponentials without the largest score",
    hint="exp of large scores is inf, and inf / inf is NaN. Use `softmax`, or subtract each row's largest score.",
)
def grouped_query_attention_overflow(Q, K, V):
    fits(Q, K, V)
    group = Q.shape[1] // K.shape[1]
    E = scored(Q, K.repeat_interleave(group, 1)).exp()
    return E @ V.repeat_interleave(group, 1) / E.sum(-1, keepdim=True)


@misconception(
    "grouped_query_attention",
    label="leftover heads accepted",
    hint="When h_q is not a multiple of h_kv, some key heads silently serve more query heads than others. Raise "
    "`ValueError`.",
)
def grouped_query_attention_left_over(Q, K, V):
    sized(Q, K, V)
    if K.shape[1] != V.shape[1]:
        raise ValueError("numbers of heads")
    places = torch.arange(Q.shape[1]) * K.shape[1] // Q.shape[1]
    return scored(Q, K[:, places]).softmax(-1) @ V[:, places]


@misconception(
    "grouped_query_attention",
    label="a single value head stretched",
    hint="One value head was stretched to the number of key heads, or one key head to the number of value heads. "
    "Both should have h_kv heads.",
)
def grouped_query_attention_stretched(Q, K, V):
    most = max(K.shape[1], V.shape[1])
    return grouped_query_attention_repeated(Q, *(X.expand(-1, most, -1, -1) for X in (K, V)))


GROUPED = [
    label
    for label in MISTAKES
    if label not in ("works for two axes only", "only the first sequence")
]


@families(*GROUPED, hints={label: hint for label, hint in HINTS.items() if label in GROUPED})
@right("grouped_query_attention")
def grouped_query_attention_repeated(Q, K, V):
    fits(Q, K, V)
    group = Q.shape[1] // K.shape[1]
    return scored(Q, K.repeat_interleave(group, 1)).softmax(-1) @ V.repeat_interleave(group, 1)


# KVCache


class Cache:
    """Keys and values of all tokens so far, in steps that a mistake can take the place of."""

    def __init__(self):
        self.kept = None

    def refuse(self, k, v):
        if k.shape[-2] != v.shape[-2]:
            raise ValueError("keys and values")

    def first(self, k, v):
        return k.clone(), v.clone()

    def more(self, k, v):
        return torch.cat([self.kept[0], k], -2), torch.cat([self.kept[1], v], -2)

    def append(self, k, v):
        self.refuse(k, v)
        self.kept = self.first(k, v) if self.kept is None else self.more(k, v)
        return self.result(k, v)

    def result(self, k, v):
        return self.kept


def cache(label, hint):
    def declare(mistake):
        return misconception("KVCache", label, hint)(type(mistake.__name__, (mistake, Cache), {}))

    return declare


@cache(
    "only new tokens returned",
    "Only the newest tokens are returned: the earlier ones were replaced, or each `append` starts an empty cache. "
    "Add new ones at the end: `torch.cat`.",
)
class KVCache_new_alone:
    def result(self, k, v):
        return k, v


@cache(
    "only the first tokens kept",
    "Tokens that are appended later are forgotten: `torch.cat` returns a new tensor, which has to be kept.",
)
class KVCache_first_alone:
    def more(self, k, v):
        return self.kept


@cache("new tokens in front", "New tokens come before the old ones. The oldest come first.")
class KVCache_in_front:
    def more(self, k, v):
        return torch.cat([k, self.kept[0]], -2), torch.cat([v, self.kept[1]], -2)


@cache(
    "concatenated along the last dimension",
    "Concatenate new tokens along dimension -2. The last dimension is the columns.",
)
class KVCache_last_axis:
    def more(self, k, v):
        return torch.cat([self.kept[0], k], -1), torch.cat([self.kept[1], v], -1)


@cache(
    "concatenated along dimension 1",
    "Dimension 1 is the heads, where there is a batch in front. Concatenate new tokens along dimension -2.",
)
class KVCache_axis_1:
    def more(self, k, v):
        return torch.cat([self.kept[0], k], 1), torch.cat([self.kept[1], v], 1)


@cache(
    "one new token at a time kept",
    "Of several new tokens, only the last is kept, except in the first call. An `append` may have any number of "
    "tokens: leave out the slice `-1:`.",
)
class KVCache_last_alone:
    def more(self, k, v):
        return super().more(k[..., -1:, :], v[..., -1:, :])


@cache(
    "last of the appended tokens kept",
    "Only the last token of each `append` is kept. It may have any number of tokens: leave out the slice `-1:`.",
)
class KVCache_last_always:
    def append(self, k, v):
        return super().append(k[..., -1:, :].clone(), v[..., -1:, :].clone())


@cache(
    "concatenated along dimension 2",
    "Dimension 2 is the tokens only if there are two leading dimensions. Count from the end: -2.",
)
class KVCache_axis_2:
    def first(self, k, v):
        return k.clone(), v.clone()

    def more(self, k, v):
        return torch.cat([self.kept[0], k], 2), torch.cat([self.kept[1], v], 2)


@cache(
    "stacked instead of concatenated",
    "`stack` makes a new dimension. `torch.cat(..., dim=-2)` extends the token dimension.",
)
class KVCache_stacked:
    def more(self, k, v):
        return torch.stack([self.kept[0], k], -2), torch.stack([self.kept[1], v], -2)


@cache("keys and values swapped", "Values are returned first. Return keys, then values.")
class KVCache_exchanged:
    def result(self, k, v):
        return self.kept[::-1]


@cache("nothing returned", "`append` ends without `return`. Return all keys and values so far.")
class KVCache_nothing:
    def result(self, k, v):
        return None


@cache(
    "list of the parts returned",
    "The parts are returned separately, in lists. Concatenate them: `torch.cat(..., dim=-2)`.",
)
class KVCache_lists:
    def first(self, k, v):
        return [k.clone()], [v.clone()]

    def more(self, k, v):
        return [*self.kept[0], k], [*self.kept[1], v]


@cache(
    "appended tensors kept without a copy",
    "The first keys and values are kept without a copy, so the caller may change them later. Use `clone()`.",
)
class KVCache_no_copy:
    def first(self, k, v):
        return k, v


@cache(
    "list of parts without copies",
    "The parts are kept in a list without a copy, so the caller may change them later. Keep a copy: `clone()`.",
)
class KVCache_list_of_the_parts_themselves:
    def first(self, k, v):
        self.parts = [(k, v)]
        return self.all()

    def more(self, k, v):
        self.parts.append((k, v))
        return self.all()

    def all(self):
        return tuple(torch.cat(tensors, -2) for tensors in zip(*self.parts, strict=True))


@cache(
    "returned tensors extended in place",
    "`resize_`, or `.data = ...`, changes the tensors that an earlier `append` returned. Assign a new one: `self.k = "
    "torch.cat(...)`.",
)
class KVCache_grown_in_place:
    def more(self, k, v):
        for old, new in zip(self.kept, super().more(k, v), strict=True):
            old.data = new
        return self.kept


@cache(
    "room for 1024 tokens",
    "The tensors for keys and values were allocated once, with a limit. Append new ones: `torch.cat`.",
)
class KVCache_room:
    def more(self, k, v):
        stored = super().more(k, v)
        if stored[0].shape[-2] > 1024:
            raise RuntimeError("the expanded size of the tensor must match the existing size")
        return stored


@cache(
    "cut off from autograd",
    "No gradient reaches the appended parts: leave out `detach`, `.data` and `torch.no_grad`.",
)
class KVCache_detached:
    def first(self, k, v):
        return k.detach().clone(), v.detach().clone()

    def more(self, k, v):
        return super().more(k.detach(), v.detach())


@cache(
    "old tokens cut off from autograd",
    "Gradients reach only the newest tokens: the kept ones are detached. Leave `detach` out.",
)
class KVCache_old_detached:
    def more(self, k, v):
        return tuple(
            torch.cat([old.detach(), new], -2) for old, new in zip(self.kept, (k, v), strict=True)
        )


@cache(
    "always in float32",
    "The cache is float32 for every input dtype: `torch.zeros` or `.float()`. Keep the dtype of k.",
)
class KVCache_float32:
    def result(self, k, v):
        return tuple(tensor.float() for tensor in self.kept)


@cache(
    "numbers of keys and values not compared",
    "More keys than values, or fewer, are silently accepted. Raise `ValueError`.",
)
class KVCache_not_compared:
    def refuse(self, k, v):
        pass


@cache(
    "half of a rejected part kept",
    "A part with wrong sizes was rejected, but half of it was kept: the keys were concatenated before the values "
    "raised. Make both first, then keep both.",
)
class KVCache_half_kept:
    def append(self, k, v):
        self.refuse(k, v)
        if self.kept is None:
            self.kept = list(self.first(k, v))
        else:
            for i, new in enumerate((k, v)):
                self.kept[i] = torch.cat([self.kept[i], new], -2)
        return tuple(self.kept)


@cache(
    "wrong sizes stretched",
    "A size of 1 was stretched to the size in the cache. Raise `ValueError`.",
)
class KVCache_stretched:
    def more(self, k, v):
        return super().more(
            *(
                new.expand(*old.shape[:-2], new.shape[-2], old.shape[-1])
                for old, new in zip(self.kept, (k, v), strict=True)
            )
        )


@misconception(
    "KVCache",
    label="lists shared by all caches",
    hint="Two caches share their contents: a list in the class, outside of `__init__`, or in a default argument is "
    "the same for all. Make it in `__init__`: `self.keys = []`.",
)
class KVCache_shared:
    keys, values = [], []

    def append(self, k, v):
        if k.shape[-2] != v.shape[-2]:
            raise ValueError("keys and values")
        self.keys.append(k.clone())
        self.values.append(v.clone())
        return torch.cat(self.keys, -2), torch.cat(self.values, -2)


@misconception(
    "KVCache",
    label="one place for all caches, emptied again",
    hint="Keys and values are kept outside of the object, in global names or in the class, and `__init__` "
    "empties that place. While two caches exist, they write to the same place. Keep them in `self`.",
)
class KVCache_emptied(Cache):
    def __init__(self):
        type(self).kept = None

    def append(self, k, v):
        self.refuse(k, v)
        type(self).kept = self.first(k, v) if self.kept is None else self.more(k, v)
        return self.kept


@right("KVCache")
class KVCache_steps(Cache):
    pass


@cache(
    "assert instead of ValueError",
    "`assert` raises `AssertionError`, and is skipped when Python runs with `-O`. Write `if` and `raise "
    "ValueError(...)`.",
)
class KVCache_asserts:
    def refuse(self, k, v):
        assert k.shape[-2] == v.shape[-2]


# merge: in steps that a mistake can take the place of


class Merge:
    """Two parts of the same rows, put together."""

    def __call__(self, first, second):
        m = self.largest(first[0], second[0])
        shrink = self.shrink(first[0], second[0], m)
        return self.end(m, *self.add(shrink, first, second))

    def largest(self, m_1, m_2):
        return torch.maximum(m_1, m_2)

    def shrink(self, m_1, m_2, m):
        base = m.masked_fill(m == -torch.inf, 0)
        return (m_1 - base).exp(), (m_2 - base).exp()

    def add(self, shrink, first, second):
        (a, b), (_, l_1, u_1), (_, l_2, u_2) = shrink, first, second
        return a * l_1 + b * l_2, a[..., None] * u_1 + b[..., None] * u_2

    def end(self, m, total, mixed):
        return m, total, mixed


def merging(label, hint):
    """Declare a mistake in a step of `Merge`, as a function."""

    def declare(mistake):
        mistaken = type(mistake.__name__, (mistake, Merge), {})()

        def answer(first, second):
            return mistaken(first, second)

        answer.__name__ = mistake.__name__
        return misconception("merge", label, hint)(answer)

    return declare


@merging(
    "nothing rescaled",
    "Sums and weighted sums are added as they are. Each part subtracted its own largest score: rescale both to the "
    "larger one first, by exp(own m - larger m).",
)
class merge_as_they_are:
    def shrink(self, m_1, m_2, m):
        return torch.ones_like(m), torch.ones_like(m)


@merging(
    "only the first part rescaled",
    "The first part is rescaled, but the second is not, as if it always had the larger score. Rescale each by "
    "exp(own m - larger m), which is 1 for the part with the larger score.",
)
class merge_first_rescaled:
    def shrink(self, m_1, m_2, m):
        return super().shrink(m_1, m_2, m)[0], torch.ones_like(m)


@merging(
    "only the second part rescaled",
    "The second part is rescaled, but the first is not, as if it always had the larger score. Rescale each by "
    "exp(own m - larger m), which is 1 for the part with the larger score.",
)
class merge_second_rescaled:
    def shrink(self, m_1, m_2, m):
        return torch.ones_like(m), super().shrink(m_1, m_2, m)[1]


@merging(
    "rescaled to the second part's largest score",
    "Both parts are rescaled to the largest score of the second part, even in rows where the first has the larger "
    "one. Take the larger of the two in each row: `torch.maximum`.",
)
class merge_to_the_second:
    def largest(self, m_1, m_2):
        return m_2

    def shrink(self, m_1, m_2, m):
        first = (m_1 - m_2.masked_fill(m_2 == -torch.inf, 0)).exp()
        return first, (m_2 > -torch.inf).to(first.dtype)


@merging(
    "rescaled to the first part's largest score",
    "Both parts are rescaled to the largest score of the first part, even in rows where the second has the larger "
    "one. Take the larger of the two in each row: `torch.maximum`.",
)
class merge_to_the_first:
    def largest(self, m_1, m_2):
        return m_1

    def shrink(self, m_1, m_2, m):
        second = (m_2 - m_1.masked_fill(m_1 == -torch.inf, 0)).exp()
        return (m_1 > -torch.inf).to(second.dtype), second


@merging(
    "larger part chosen for all rows",
    "One part is treated as the larger one in all rows: the decision is an `if`, or uses the maximum of all rows. "
    "The larger part can differ from row to row.",
)
class merge_one_decision:
    def largest(self, m_1, m_2):
        return m_1 if m_1.max() >= m_2.max() else m_2

    def shrink(self, m_1, m_2, m):
        base = m.masked_fill(m == -torch.inf, 0)
        return (m_1 - base).exp(), (m_2 - base).exp()


@merging(
    "rescaled by the inverse",
    "The factor is inverted: exp(larger m - own m) grows. The sums of the part with the smaller score count less: "
    "exp(own m - larger m), at most 1.",
)
class merge_inverse:
    def shrink(self, m_1, m_2, m):
        return tuple(
            torch.where(factor > 0, 1 / factor, 0) for factor in super().shrink(m_1, m_2, m)
        )


@merging(
    "factors swapped",
    "The first part is multiplied by the factor of the second, and the second by that of the first. Rescale each "
    "with its own m.",
)
class merge_swapped:
    def shrink(self, m_1, m_2, m):
        return super().shrink(m_1, m_2, m)[::-1]


@merging(
    "weighted sum not rescaled",
    "l is rescaled, but u is not. Both were computed with the part's own largest score.",
)
class merge_mixed_stays:
    def add(self, shrink, first, second):
        return super().add(shrink, first, second)[0], first[2] + second[2]


@merging(
    "sum not rescaled",
    "u is rescaled, but l is not. Both were computed with the part's own largest score.",
)
class merge_sum_stays:
    def add(self, shrink, first, second):
        return first[1] + second[1], super().add(shrink, first, second)[1]


@merging(
    "m of the first part returned",
    "l and u are relative to the larger score, but m is still that of the first part. Return the larger one.",
)
class merge_old_m_first:
    def __call__(self, first, second):
        return first[0], *super().__call__(first, second)[1:]


@merging(
    "m of the second part returned",
    "l and u are relative to the larger score, but m is still that of the second part. Return the larger one.",
)
class merge_old_m_second:
    def __call__(self, first, second):
        return second[0], *super().__call__(first, second)[1:]


@merging(
    "largest scores added",
    "m is the sum of both largest scores. The largest score of all keys is the larger of the two.",
)
class merge_m_added:
    def end(self, m, total, mixed):
        raise NotImplementedError

    def __call__(self, first, second):
        return first[0] + second[0], *Merge()(first, second)[1:]


@merging(
    "log-sum-exp instead of the largest score",
    "m is log(exp(m) + exp(m)) of the two, which is above both. It should be the largest score of all keys.",
)
class merge_log_sum_exp:
    def largest(self, m_1, m_2):
        return torch.logaddexp(m_1, m_2)


@merging(
    "smaller of the largest scores",
    "m is the smaller of the two, so one part grows by exp of the difference, without a limit. Take the larger.",
)
class merge_smaller:
    def largest(self, m_1, m_2):
        m = torch.minimum(m_1, m_2)
        return torch.where(m == -torch.inf, torch.maximum(m_1, m_2), m)


@merging(
    "NaN where neither has a key",
    "When neither part has a key, m is -inf, and -inf - (-inf) is NaN. Subtract a finite number there: "
    "`m.masked_fill(m == -torch.inf, 0)`.",
)
class merge_nan:
    def shrink(self, m_1, m_2, m):
        return (m_1 - m).exp(), (m_2 - m).exp()


@merging(
    "NaN hidden in the result only",
    "When neither part has a key, a NaN was computed and replaced afterwards (`torch.where`, `nan_to_num`, "
    "`masked_fill`). In the gradients, 0 times NaN is NaN. Replace m before it is subtracted.",
)
class merge_nan_backward:
    def shrink(self, m_1, m_2, m):
        nothing = m == -torch.inf
        return tuple(torch.where(nothing, 0.0, (maximum - m).exp()) for maximum in (m_1, m_2))


@merging(
    "empty parts detected only as a whole",
    "A part with no keys in any row is detected. But one part may have none in some rows, and the other part none in "
    "the same rows: that gives NaN.",
)
class merge_all_rows_empty:
    def __call__(self, first, second):
        for part, other in ((first, second), (second, first)):
            if bool((part[0] == -torch.inf).all()):
                return tuple(tensor.clone() for tensor in other)
        return super().__call__(first, second)

    def shrink(self, m_1, m_2, m):
        return (m_1 - m).exp(), (m_2 - m).exp()


@merging(
    "0 instead of -inf",
    "When neither part has a key, m is 0 in the result. It should be -inf: use 0 for the subtraction only.",
)
class merge_zero_m:
    def largest(self, m_1, m_2):
        m = torch.maximum(m_1, m_2)
        return m.masked_fill(m == -torch.inf, 0)


@merging(
    "largest score never below 0",
    "m is the largest of both scores and 0. In rows whose scores are all below 0, it should be below 0 as well: take "
    "the larger of the two, and 0 for the subtraction only where both are -inf.",
)
class merge_from_0:
    def largest(self, m_1, m_2):
        return torch.maximum(m_1, m_2).clamp(min=0)


@merging(
    "second part lost where both are alike",
    "In rows where both parts have the same largest score, only the first part counts. Both factors are 1 there, "
    "since exp(0) is 1: add both parts.",
)
class merge_ties_lose:
    def shrink(self, m_1, m_2, m):
        first, second = super().shrink(m_1, m_2, m)
        return first, second.masked_fill(m_1 == m_2, 0)


@merging(
    "large number instead of -inf",
    "When neither part has a key, m is a large negative number in the result. It should be -inf: use another number "
    "for the subtraction only.",
)
class merge_finite_m:
    def largest(self, m_1, m_2):
        return torch.maximum(m_1, m_2).clamp(min=-6e4)


@merging(
    "largest score never subtracted",
    "l and u were multiplied by exp(m) itself, which overflows. Multiply by exp(own m - larger m), which is at most "
    "1.",
)
class merge_not_shifted:
    def largest(self, m_1, m_2):
        return torch.maximum(m_1, m_2)

    def shrink(self, m_1, m_2, m):
        self.m = m
        return m_1.exp(), m_2.exp()

    def end(self, m, total, mixed):
        scale = m.exp()
        none = scale == 0
        scale = scale.masked_fill(none, 1)
        return m, total / scale, mixed / scale[..., None]


@merging(
    "results of the parts added",
    "u is divided by l in each part, and the quotients are added. Add the rescaled u: the division comes at the very "
    "end.",
)
class merge_results_added:
    def add(self, shrink, first, second):
        quotients = [u / l.masked_fill(l == 0, 1)[..., None] for _, l, u in (first, second)]
        return super().add(shrink, first, second)[0], sum(quotients)


@merging(
    "u divided by l already",
    "u was returned divided by l, so it cannot be merged again. The division comes at the very end.",
)
class merge_normalised:
    def end(self, m, total, mixed):
        return m, total, mixed / total.masked_fill(total == 0, 1)[..., None]


@merging(
    "parts averaged",
    "l and u are half of what they should be, as in a mean. They are sums over keys, so add them.",
)
class merge_averaged:
    def end(self, m, total, mixed):
        return m, total / 2, mixed / 2


@merging(
    "factors without a last dimension",
    "The factors have no dimension for the columns of u, or have it in front of the rows. So they multiply columns "
    "or other rows. Add it at the end: `a[..., None]`, or `a.unsqueeze(-1)`.",
)
class merge_axis_misplaced:
    def add(self, shrink, first, second):
        (a, b), (_, l_1, u_1), (_, l_2, u_2) = shrink, first, second
        return a * l_1 + b * l_2, a.unsqueeze(-2) * u_1 + b.unsqueeze(-2) * u_2


@merging(
    "new dimension counted from the front",
    "`[:, None]` adds the last dimension only if there is a single row dimension. With leading dimensions, use "
    "`[..., None]`.",
)
class merge_axis_from_front:
    def add(self, shrink, first, second):
        (a, b), (_, l_1, u_1), (_, l_2, u_2) = shrink, first, second
        at = 2 if a.ndim == 2 else 1  # as if there were a batch whenever there are two axes
        return a * l_1 + b * l_2, a.unsqueeze(at) * u_1 + b.unsqueeze(at) * u_2


@merging("l and u swapped", "The result is (m, u, l). Return (m, l, u).")
class merge_exchanged:
    def end(self, m, total, mixed):
        return m, mixed, total


@merging(
    "m not returned",
    "Only two tensors were returned. Also return m: without it the result cannot be merged again.",
)
class merge_two_alone:
    def end(self, m, total, mixed):
        return total, mixed


@merging(
    "attention instead of a part",
    "The result is u / l, which is only computed at the very end. Return m, l and u.",
)
class merge_attention:
    def end(self, m, total, mixed):
        return mixed / total.masked_fill(total == 0, 1)[..., None]


@merging("nothing returned", "The function ends without `return`. Return m, l and u, with commas.")
class merge_nothing:
    def end(self, m, total, mixed):
        return None


@merging(
    "first part changed in place",
    "`*=`, `+=`, or another in-place operation changes the first part. The caller still needs it: compute new "
    "tensors.",
)
class merge_in_place:
    def __call__(self, first, second):
        m, total, mixed = super().__call__(first, second)
        with torch.no_grad():
            for tensor, new in zip(first, (m, total, mixed), strict=True):
                tensor.data.copy_(new)
        return m, total, mixed


@merging(
    "rows without keys changed in place",
    "The -inf of rows without keys was replaced in the parts themselves: `masked_fill_`, or `m[m == -torch.inf] = "
    "...`. The caller still needs them: use `masked_fill`.",
)
class merge_empty_in_place:
    def __call__(self, first, second):
        result = super().__call__(first, second)
        with torch.no_grad():
            for m in (first[0], second[0]):
                m.masked_fill_(m == -torch.inf, torch.finfo(m.dtype).min)
        return result


@merging(
    "cut off from autograd",
    "No gradient reaches the parts: leave out `detach`, `.data`, `torch.no_grad` and NumPy.",
)
class merge_detached:
    def end(self, m, total, mixed):
        return m.detach(), total.detach(), mixed.detach()


@merging(
    "factors cut off from autograd",
    "No gradient reaches m: the factors are detached, or computed under `torch.no_grad`. A larger m of one part "
    "gives its keys a larger share.",
)
class merge_factors_detached:
    def shrink(self, m_1, m_2, m):
        return tuple(factor.detach() for factor in super().shrink(m_1, m_2, m))


@merging(
    "only the subtracted score detached",
    "The score that is subtracted is detached, but the returned m is not. Then l does not depend on m as it should, "
    "and the gradients of m + log l, or of a second merge, are wrong. Leave `detach` out.",
)
class merge_base_detached:
    def shrink(self, m_1, m_2, m):
        return super().shrink(m_1, m_2, m.detach())


@merging(
    "always in float32",
    "The result is float32 for every dtype of the parts. Keep the dtype of `u`.",
)
class merge_float32:
    def end(self, m, total, mixed):
        return m.float(), total.float(), mixed.float()


@merging(
    "always in float64",
    "The result is float64 for every dtype of the parts. Keep the dtype of `u`.",
)
class merge_float64:
    def end(self, m, total, mixed):
        return m.double(), total.double(), mixed.double()


# merge: right


@right("merge")
def merge_steps(first, second):
    return Merge()(first, second)

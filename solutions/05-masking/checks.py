"""Checks of exercise 5. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Results are compared with `specifications`, which computes them as sums over elements. It is in checking.zip together
with the runtime, `checking`, so that no one sees an answer by accident. Unless a check says otherwise, the tolerance
is `RTOL` in `checking/expect.py`, which explains how it was chosen. The course's tests measure how far right answers
stay below it and known mistakes above it. Two other tolerances are needed:

- `LARGE`, for scores in the thousands. Neighboring float32 numbers are up to 1e-3 apart there, so a right answer that
  computes in float32 internally may return weights that are 2e-3 off. Wrong answers are off by the whole weight.
- `HALF`, for float16, which keeps 11 bits: each step is off by up to 2**-11 = 5e-4 of its value. A subtraction,
  exponentials, a sum of at most 13 terms and a division add up to less than 1.5e-2 of the largest weight.
"""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).with_name("checking.zip")))
importlib.invalidate_caches()
for other in ("specifications", "misconceptions"):  # of an exercise opened earlier
    sys.modules.pop(other, None)
if not importlib.util.find_spec("checking"):
    raise ImportError(
        "checking.zip is missing next to checks.py. Unpack the exercise again, or run: make release"
    )

import numpy as np

from checking import (
    REPEATED,
    Message,
    Suite,
    expect,
    expect_array,
    expect_by_hand,
    expect_close,
    expect_dtypes,
    expect_inputs_kept,
    expect_raises,
    expect_tuple,
    noncontiguous,
    told_by,
)
from specifications import attended, real_tokens, sees_past, shared_out

LARGE = 5e-3
HALF = 3e-2

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 5, Three things to hide",
        "causal_mask": "chapter 5, Aligned at the end",
        "padding_mask": "chapter 5, Three things to hide",
        "masked_softmax": "chapter 5, A row with nothing to see",
        "masked_attention": "chapter 5, Nothing leaks from the future",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset


# Random inputs


def random_mask(draw, *shape):
    """Return a mask in which every row allows a key, hides a key, and differs from the next row."""
    mask = draw.rng.random(shape) < 0.5
    rows, n_k = mask.reshape(-1, shape[-1]), shape[-1]
    r = np.arange(len(rows))
    rows[r, r % n_k] = True
    rows[r, (r + 1) % n_k] = False
    return rows.reshape(shape)


def scores(draw, *shape):
    """Return scores that differ by up to 6 within a row, so that every weight is large enough to matter."""
    return draw.array(*shape) * 2


def qkv(draw, *lead, n_q, n_k, d_k, d_v):
    """Return Q, K, V whose weights are neither equal nor all on one key, so that a wrong scale is visible."""
    return draw.array(*lead, n_q, d_k) * 2, draw.array(*lead, n_k, d_k), draw.array(*lead, n_k, d_v)


def expect_boolean(got):
    """Fail unless `got` is an array of booleans."""
    dtype = expect_array(got, what=Message("the mask")).dtype
    expect(
        dtype == np.dtype(bool),
        Message("Expected a mask of booleans, got dtype {dtype}.", dtype=str(dtype)),
    )


def expect_mask(got, expected):
    """Fail unless `got` has the entries of a mask; another check looks at its dtype."""
    expect_close(got, expected.astype(float), what=Message("the mask"))


WEIGHT = Message("The weight")


def expect_zero(got, hidden, what=WEIGHT):
    """Fail unless `got` is exactly 0 wherever `hidden` is True; `what` begins the sentence."""
    wrong = np.argwhere(hidden & ~(got == 0))
    if len(wrong):
        first = tuple(int(i) for i in wrong[0])
        values = {"part": what, "index": str(first), "got": f"{got[first]:.4g}"}
        values |= {"size": int(hidden.sum()), "count": len(wrong)}
        message = "{part} at {index} should be exactly 0, got {got}. Of {size} that should be 0, {count} are not."
        expect(False, Message(message, **values))


# by_hand


@check()
def by_hand_weights(by_hand, draw):
    """Returns the nine weights of the three words; no word attends to a later one."""
    S = np.log([[1.0, 2, 3], [2, 1, 3], [3, 2, 1]])
    expect_by_hand(by_hand(), shared_out(S, sees_past(3, 3)))


# causal_mask


@check(weight=1)
def causal_mask_shape(causal_mask, draw):
    """Returns an array of shape (n_q, n_k)."""
    n_q, n_k = sorted(draw.sizes(2))  # more queries than keys are another check's
    expect_array(causal_mask(n_q, n_k), (n_q, n_k), what=Message("the mask"))


@check(weight=1, needs=[causal_mask_shape])
def causal_mask_boolean(causal_mask, draw):
    """Returns booleans: True where the query may attend to the key, False elsewhere."""
    (n,) = draw.sizes(1)
    expect_boolean(causal_mask(n, n))


@check(weight=2, needs=[causal_mask_shape])
def causal_mask_square(causal_mask, draw):
    """With as many queries as keys, each token may attend to itself and to earlier tokens, but not to later ones."""
    (n,) = draw.sizes(1)
    expect_mask(causal_mask(n, n), sees_past(n, n))


@check(weight=2, needs=[causal_mask_square])
def causal_mask_more_keys(causal_mask, draw):
    """With more keys than queries, aligns the mask at the end: the last query may attend to every key."""
    n_q, n_k = sorted(draw.sizes(2))
    for more in (n_k, n_q + 1, draw.long()):
        expect_mask(causal_mask(n_q, more), sees_past(n_q, more))


@check(weight=1, needs=[causal_mask_square])
def causal_mask_more_queries(causal_mask, draw):
    """With more queries than keys, the last query may attend to every key, and the first n_q - n_k attend to none."""
    n_k, n_q = sorted(draw.sizes(2))
    for more in (n_q, n_k + 1, draw.long()):
        expect_mask(causal_mask(more, n_k), sees_past(more, n_k))


@check(weight=1, needs=[causal_mask_square])
def causal_mask_ones(causal_mask, draw):
    """A single query may attend to every key; with a single key, only the last query may attend to it."""
    (n,) = draw.sizes(1)
    for n_q, n_k in [(1, n), (n, 1), (1, 1)]:
        expect_mask(causal_mask(n_q, n_k), sees_past(n_q, n_k))


# padding_mask


def lengths_below(draw, b, n):
    """Return b lengths from 1 to n - 2; the first two differ."""
    lengths = draw.rng.integers(1, n - 1, size=b)
    lengths[0] = lengths[1] % (n - 2) + 1
    return lengths


def batch(draw):
    """Return the number of sequences and the number of tokens, which differ; there are at least 5 tokens."""
    b, n = sorted(draw.sizes(2))
    return (b, n) if draw.rng.random() < 0.5 or b < 5 else (n, b)


@check(weight=1)
def padding_mask_shape(padding_mask, draw):
    """Returns an array of shape (batch, 1, n), even if every length is below n."""
    b, n = batch(draw)
    expect_array(padding_mask(lengths_below(draw, b, n), n), (b, 1, n), what=Message("the mask"))


@check(weight=1, needs=[padding_mask_shape])
def padding_mask_boolean(padding_mask, draw):
    """Returns booleans: True where the token is real, False where it is padding."""
    b, n = batch(draw)
    expect_boolean(padding_mask(lengths_below(draw, b, n), n))


@check(weight=3, needs=[padding_mask_shape])
def padding_mask_values(padding_mask, draw):
    """Allows the first `lengths[s]` tokens of sequence s and hides the rest."""
    b, n = batch(draw)
    lengths = lengths_below(draw, b, n)
    expect_mask(padding_mask(lengths, n), real_tokens(lengths, n))
    lengths = n - 1 - lengths
    with told_by(lambda: REPEATED):
        expect_mask(padding_mask(lengths, n), real_tokens(lengths, n))
    # As many sequences as tokens, many sequences, many tokens. The lengths are a strided view of 32-bit integers.
    for sequences, tokens in [(n, n), (draw.long(), 5), (3, draw.long())]:
        lengths = np.repeat(lengths_below(draw, sequences, tokens), 2)[::2].astype(np.int32)
        lengths[-1] = tokens - 2
        expect_mask(padding_mask(lengths, tokens), real_tokens(lengths, tokens))


@check(weight=1, needs=[padding_mask_values])
def padding_mask_ends(padding_mask, draw):
    """A length of 0 hides every token; a length of n hides no token."""
    b, n = batch(draw)
    for first, last in [(0, 1), (n, 1), (0, n)]:
        lengths = lengths_below(draw, b, n)
        lengths[0], lengths[-1] = first, last
        expect_mask(padding_mask(lengths, n), real_tokens(lengths, n))


@check(weight=1, needs=[padding_mask_values])
def padding_mask_ones(padding_mask, draw):
    """Keeps dimensions of size 1: one sequence in the batch, one token in each sequence."""
    b, n = batch(draw)
    length = lengths_below(draw, 2, n)[:1]
    expect_mask(padding_mask(length, n), real_tokens(length, n))
    single = np.arange(b) % 2
    expect_mask(padding_mask(single, 1), real_tokens(single, 1))


@check(weight=0, needs=[padding_mask_values])
def padding_mask_refuses(padding_mask, draw):
    """Raises `ValueError` when a length is above n, in any sequence."""
    b, n = batch(draw)
    for at, above in [(0, n + 1), (b // 2, 2 * n), (b - 1, n + 1)]:
        lengths = lengths_below(draw, b, n)
        lengths[at] = above
        because = Message(
            "n is {n}, but sequence {at} has {above} tokens", n=n, at=str(at), above=str(above)
        )
        expect_raises([ValueError], padding_mask, lengths, n, because=because)


@check(weight=0.5, needs=[padding_mask_shape])
def padding_mask_inputs(padding_mask, draw):
    """Does not change `lengths`, and accepts a read-only array."""
    b, n = batch(draw)
    expect_inputs_kept(padding_mask, ["lengths", "n"], lengths_below(draw, b, n), n)


# masked_softmax


@check(weight=1)
def masked_softmax_shape(masked_softmax, draw):
    """Returns an array of shape (n_q, n_k) for `S` and `mask` of that shape."""
    n_q, n_k = draw.sizes(2)
    expect_array(masked_softmax(scores(draw, n_q, n_k), random_mask(draw, n_q, n_k)), (n_q, n_k))


@check(weight=2, needs=[masked_softmax_shape])
def masked_softmax_zero(masked_softmax, draw):
    """Returns a weight of exactly 0 where the mask is False."""
    n_q, n_k = draw.sizes(2)
    S, mask = scores(draw, n_q, n_k), random_mask(draw, n_q, n_k)
    expect_zero(expect_array(masked_softmax(S, mask), (n_q, n_k)), ~mask)


@check(weight=3, needs=[masked_softmax_zero])
def masked_softmax_values(masked_softmax, draw):
    """Where the mask is True, returns the softmax over those keys, so that each row sums to 1."""
    n_q, n_k = draw.sizes(2)
    S, mask = scores(draw, n_q, n_k), random_mask(draw, n_q, n_k)
    expect_close(masked_softmax(S, mask), shared_out(S, mask))
    S, mask = scores(draw, n_q, n_k), random_mask(draw, n_q, n_k)
    with told_by(lambda: REPEATED):
        expect_close(masked_softmax(S, mask), shared_out(S, mask))
    # As many queries as keys, and weights from 1e-6 to 1: each is compared relative to its own size.
    S, mask = (
        scores(draw, n_k, n_k) + np.log(draw.magnitudes(n_k, orders=6)),
        random_mask(draw, n_k, n_k),
    )
    for shown in (mask, np.ones_like(mask)):
        expected = shared_out(S, shown)
        expect_close(masked_softmax(S, shown), expected, unit=np.where(shown, expected, 1))
    for n_q, n_k in [(draw.long(), 3), (2, draw.long())]:
        S, mask = noncontiguous(scores(draw, n_q, n_k)), noncontiguous(random_mask(draw, n_q, n_k))
        expect_close(masked_softmax(S, mask), shared_out(S, mask))


@check(weight=2, needs=[masked_softmax_zero])
def masked_softmax_nothing(masked_softmax, draw):
    """A fully masked row gets zero weights, not NaN and not equal weights; the other rows are not affected."""
    n_q, n_k = draw.sizes(2)
    # All rows fully masked, then some of them. Which mistake it is shows in both results together.
    mask = random_mask(draw, n_q, n_k)
    mask[draw.rng.permutation(n_q)[: n_q // 2]] = False
    cases = [(scores(draw, n_q, n_k), np.zeros_like(mask)), (scores(draw, n_q, n_k), mask)]
    masked_softmax.ahead(cases)
    results = [expect_array(masked_softmax(*case), (n_q, n_k)) for case in cases]
    for (S, mask), got in zip(cases, results, strict=True):
        expect_zero(got, ~mask)
        expect_close(got, shared_out(S, mask))
    # As many queries as keys, and a mask (n, 1): it hides all keys from some queries, not some keys from all queries.
    S, mask = scores(draw, n_k, n_k), random_mask(draw, 1, n_k).T
    expect_close(masked_softmax(S, mask), shared_out(S, np.repeat(mask, n_k, axis=1)))


@check(weight=2, needs=[masked_softmax_values])
def masked_softmax_batch(masked_softmax, draw):
    """Keeps leading batch dimensions, one or several: each matrix of scores has its own mask."""
    n_q, n_k, b = draw.sizes(3)
    for lead in [(b,), (2, b), (3, 2, 2)]:
        S, mask = scores(draw, *lead, n_q, n_k), random_mask(draw, *lead, n_q, n_k)
        expect_close(masked_softmax(S, mask), shared_out(S, mask))


@check(weight=2, needs=[masked_softmax_values])
def masked_softmax_broadcast(masked_softmax, draw):
    """Broadcasts the mask to the scores: (n_q, n_k), (1, n_k), (n_q, 1), (b, 1, n_k) and so on."""
    n_q, n_k, b = draw.sizes(3)
    for lead in [(), (b,), (2, b)]:
        S = scores(draw, *lead, n_q, n_k)
        for shape in [(1, n_k), (n_q, n_k), (b, 1, n_k), (b, n_q, n_k)][: 4 if lead else 2]:
            mask = random_mask(draw, *shape)
            expect_close(masked_softmax(S, mask), shared_out(S, mask))
        # A mask (n_q, 1) hides all keys from a query or no key. Here it hides no key: another check does the rest.
        mask = np.ones((n_q, 1), dtype=bool)
        expect_close(masked_softmax(S, mask), shared_out(S, mask))
    # As many sequences as queries and keys: here a mask could be applied to the wrong axis.
    S, mask = scores(draw, n_k, n_k, n_k), random_mask(draw, n_k, n_k)
    for broadcast in (mask, mask[:, None]):
        expect_close(masked_softmax(S, broadcast), shared_out(S, broadcast))


@check(weight=2, needs=[masked_softmax_values])
def masked_softmax_garbage(masked_softmax, draw):
    """Masked scores do not affect the result, even if they are 1e30, infinite or NaN."""
    n_q, n_k, b = draw.sizes(3)
    for garbage in (np.inf, np.nan, 1e30, -np.inf, -1e30):
        S, mask = scores(draw, b, n_q, n_k), random_mask(draw, b, n_q, n_k)
        expected = shared_out(S, mask)
        got = expect_array(masked_softmax(np.where(mask, S, garbage), mask), S.shape)
        expect_zero(got, ~mask)
        expect_close(got, expected)


@check(weight=2, needs=[masked_softmax_values])
def masked_softmax_large(masked_softmax, draw):
    """Returns the right weights for large scores: near 10000, near -10000, or all below -1e10."""
    n_q, n_k, b = draw.sizes(3)
    # Whole numbers, which float32 represents exactly.
    S = draw.rng.integers(0, 4, size=(b, n_q, n_k)).astype(float) - 800 * (
        draw.rng.random((b, n_q, n_k)) < 0.3
    )
    S += np.where((np.arange(b)[:, None] + np.arange(n_q)) % 2, 10000.0, -10000.0)[..., None]
    mask = random_mask(draw, b, n_q, n_k)
    expect_close(masked_softmax(S, mask), shared_out(S, mask), rtol=LARGE)
    # Finite, and far below any number that may replace a masked score. One key wins in each row.
    order = draw.rng.permuted(np.broadcast_to(np.arange(1.0, n_k + 1), (n_q, n_k)), axis=-1)
    for low in (-1e10, -1e35):
        mask = random_mask(draw, n_q, n_k)
        got = expect_array(masked_softmax(low * order, mask), (n_q, n_k))
        expect_close(got, shared_out(low * order, mask))


@check(weight=1, needs=[masked_softmax_values])
def masked_softmax_ones(masked_softmax, draw):
    """Keeps dimensions of size 1: one query, one key, one matrix in the batch."""
    n_q, n_k = draw.sizes(2)
    for S_shape, mask in [
        ((1, n_k), random_mask(draw, 1, n_k)),
        ((n_q, 1), np.ones((n_q, 1), dtype=bool)),
        ((1, n_q, n_k), random_mask(draw, 1, n_q, n_k)),
    ]:
        S = scores(draw, *S_shape)
        expect_close(masked_softmax(S, mask), shared_out(S, mask))


@check(weight=1, needs=[masked_softmax_values])
def masked_softmax_refuses(masked_softmax, draw):
    """Raises `ValueError` when the mask does not broadcast to the scores."""
    # Worth points: code that crops or transposes a mask applies a different one. NumPy raises by itself.
    # Leading dimensions that do not match are not tested.
    n_q, n_k, other = draw.sizes(3)
    for mask_shape in [
        (n_q, other),
        (other, n_k),
        (n_k, n_q),
        (n_q, n_k + other),
        (n_q + other, n_k),
    ]:
        expect_mask_refused(masked_softmax, draw, (n_q, n_k), mask_shape)
    # As many sequences as the mask has rows: it lacks the query axis.
    expect_mask_refused(masked_softmax, draw, (other, n_q, n_k), (other, n_k))


def unfit(S_shape, mask_shape):
    """Return the reason why scores and a mask of these shapes do not match."""
    return Message(
        "the scores are {scores} and the mask {mask}", scores=str(S_shape), mask=str(mask_shape)
    )


def expect_mask_refused(masked_softmax, draw, S_shape, mask_shape):
    """Fail unless scores and a mask of these shapes raise `ValueError`."""
    S, mask = scores(draw, *S_shape), random_mask(draw, *mask_shape)
    expect_raises([ValueError], masked_softmax, S, mask, because=unfit(S_shape, mask_shape))


@check(weight=0, needs=[masked_softmax_values])
def masked_softmax_not_stretched(masked_softmax, draw):
    """Raises `ValueError` instead of stretching scores of size 1 to the mask."""
    n_q, n_k = draw.sizes(2)
    for S_shape in [(n_q, 1), (1, n_k)]:
        expect_mask_refused(masked_softmax, draw, S_shape, (n_q, n_k))


@check(weight=1, needs=[masked_softmax_shape])
def masked_softmax_dtype(masked_softmax, draw):
    """Keeps the dtype of the scores: float32 gives float32, float16 gives float16."""
    n_q, n_k = draw.sizes(2)
    expect_dtypes(masked_softmax, scores(draw, n_q, n_k), random_mask(draw, n_q, n_k))


@check(weight=1, needs=[masked_softmax_values, masked_softmax_nothing])
def masked_softmax_half(masked_softmax, draw):
    """Works in float16: with fully masked rows, scores of -60000, and masked scores of 65504, infinity or NaN."""
    n_q, n_k = draw.sizes(2)
    for garbage in (65504, np.inf, np.nan):
        S, mask = scores(draw, n_q, n_k).astype(np.float16), random_mask(draw, n_q, n_k)
        # Near the end of float16's range: no number that stands for hidden is far below these.
        S[0], S[0, 0] = -64000, -60000
        mask[1] = False
        expected = shared_out(S, mask)
        S[~mask] = garbage
        got = expect_array(masked_softmax(S, mask), S.shape)
        expect_zero(got, ~mask)
        expect_close(got, expected, rtol=HALF)


@check(weight=0.5, needs=[masked_softmax_shape])
def masked_softmax_inputs(masked_softmax, draw):
    """Does not change `S` or `mask`, and accepts read-only arrays."""
    n_q, n_k, b = draw.sizes(3)
    S, mask = scores(draw, b, n_q, n_k), random_mask(draw, b, n_q, n_k)
    # What code may replace in place: rows with nothing visible, and masked scores that are infinite.
    mask[:, 0] = False
    S[~mask] = np.inf
    expect_inputs_kept(masked_softmax, ["S", "mask"], S, mask)


# masked_attention


def expect_attends(masked_attention, *arguments, **tolerance):
    """Fail unless both results match the specification."""
    Z_expected, A_expected = attended(*arguments)
    Z, A = expect_tuple(masked_attention(*arguments), "ZA")
    expect_close(A, A_expected, what="A", **tolerance)
    expect_close(Z, Z_expected, what="Z", **tolerance)


@check(weight=1)
def masked_attention_shape(masked_attention, draw):
    """Returns a tuple of two arrays: Z of shape (n_q, d_v) and A of shape (n_q, n_k)."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    Z, A = expect_tuple(masked_attention(*qkv(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)), "ZA")
    expect_array(Z, (n_q, d_v), what="Z")
    expect_array(A, (n_q, n_k), what="A")


@check(weight=2, needs=[masked_attention_shape])
def masked_attention_unmasked(masked_attention, draw):
    """Without a mask, every query attends to every key: A is the softmax of the scaled scores, and Z is A V."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    expect_attends(masked_attention, *qkv(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v))
    Q, K, V = map(noncontiguous, qkv(draw, n_q=n_k, n_k=n_q, d_k=d_v, d_v=d_k))
    Q[0] = 0  # scores of exactly 0 are ordinary scores
    expect_attends(masked_attention, Q, K, V)


@check(weight=3, needs=[masked_attention_unmasked])
def masked_attention_masked(masked_attention, draw):
    """With a mask (n_q, n_k), A is the softmax over the keys that each query may attend to, and Z is A V."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    Q, K, V = qkv(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
    expect_attends(masked_attention, Q, K, V, random_mask(draw, n_q, n_k))
    for masks in [(random_mask(draw, n_q, n_k),), ()]:
        with told_by(lambda: REPEATED):
            expect_attends(masked_attention, *qkv(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v), *masks)
    # All sizes equal, and weights from 1e-10 to 1. Keys with smaller weights have larger values, so each one matters.
    n = max(n_q, n_k)
    Q, K, V = qkv(draw, n_q=n, n_k=n, d_k=n, d_v=n)
    size = draw.magnitudes(n, orders=10)
    Q /= 2
    Q[:, 0], K[:, 0] = 1, np.log(size) * n**0.5
    mask = random_mask(draw, n, n)
    mask[:, size.argmax()] = True
    expect_attends(masked_attention, Q, K, V / size[:, None], mask)
    for n_q, n_k in [(draw.long(), 3), (2, draw.long())]:
        Q, K, V = qkv(draw, n_q=n_q, n_k=n_k, d_k=5, d_v=4)
        expect_attends(masked_attention, Q, K, V, random_mask(draw, n_q, n_k))


@check(weight=2, needs=[masked_attention_masked])
def masked_attention_leak(masked_attention, draw):
    """With a causal mask, changing token j and all later tokens does not change the results before j."""
    n, d = draw.sizes(2)
    X, mask = draw.array(n, d), sees_past(n, n)
    Z, A = expect_tuple(masked_attention(X, X, X, mask), "ZA")
    for j in (n - 1, n // 2, 1):
        changed = X.copy()
        # The new values are finite. A masked value that is infinite or NaN is not tested: 0 times infinity is NaN.
        changed[j:] = draw.array(n - j, d) * 1e4
        Z_changed, A_changed = expect_tuple(masked_attention(changed, changed, changed, mask), "ZA")
        # Both calls do the same arithmetic before j; the tolerance is for processors that do it in another order.
        expect_close(A_changed[:j], A[:j], rtol=1e-6, what=Message("A before token {j}", j=j))
        expect_close(Z_changed[:j], Z[:j], rtol=1e-6, what=Message("Z before token {j}", j=j))


@check(weight=2, needs=[masked_attention_masked])
def masked_attention_nothing(masked_attention, draw):
    """A fully masked query gets zero weights and the result 0, not NaN; the other queries are not affected."""
    n_k, n_q, d_k, d_v = draw.sizes(4)
    # Some queries are fully masked, then all of them.
    some_hidden = random_mask(draw, n_q, n_k)
    some_hidden[draw.rng.permutation(n_q)[: n_q // 2]] = False
    for mask in (some_hidden, np.zeros_like(some_hidden)):
        Q, K, V = qkv(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
        Z, A = expect_tuple(masked_attention(Q, K, V, mask), "ZA")
        fully_masked = np.repeat(~mask.any(-1, keepdims=True), d_v, axis=-1)
        expect_zero(expect_array(A, (n_q, n_k), what="A"), ~mask)
        expect_zero(expect_array(Z, (n_q, d_v), what="Z"), fully_masked, what=Message("The result"))
        Z_expected, A_expected = attended(Q, K, V, mask)
        expect_close(A, A_expected, what="A")
        expect_close(Z, Z_expected, what="Z")


@check(weight=2, needs=[masked_attention_masked])
def masked_attention_batch(masked_attention, draw):
    """Keeps leading dimensions, with no mask or a mask (n_q, n_k), (1, n_k), (b, 1, n_k) or (b, n_q, n_k)."""
    n_q, n_k, d_k, d_v, b = draw.sizes(5)
    Q, K, V = qkv(draw, 3, 2, 2, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
    expect_attends(masked_attention, Q, K, V, random_mask(draw, n_q, n_k))
    for lead in [(b,), (2, b)]:
        Q, K, V = qkv(draw, *lead, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
        expect_attends(masked_attention, Q, K, V)
        for shape in [(n_q, n_k), (1, n_k), (b, 1, n_k), (b, n_q, n_k)]:
            expect_attends(masked_attention, Q, K, V, random_mask(draw, *shape))
    # As many sequences as queries and keys: here a mask that loses its axis of size 1 still broadcasts, wrongly.
    Q, K, V = qkv(draw, n_k, n_q=n_k, n_k=n_k, d_k=d_k, d_v=d_v)
    for shape in [(n_k, n_k), (n_k, 1, n_k)]:
        expect_attends(masked_attention, Q, K, V, random_mask(draw, *shape))


@check(weight=1, needs=[masked_attention_masked])
def masked_attention_ones(masked_attention, draw):
    """Keeps dimensions of size 1: one query, one key, d_k = 1, d_v = 1, one sequence in the batch."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    for change in [{"n_q": 1}, {"d_k": 1}, {"d_v": 1}]:
        sizes = {"n_q": n_q, "n_k": n_k, "d_k": d_k, "d_v": d_v} | change
        expect_attends(masked_attention, *qkv(draw, **sizes), random_mask(draw, sizes["n_q"], n_k))
    Q, K, V = qkv(draw, n_q=n_q, n_k=1, d_k=d_k, d_v=d_v)
    expect_attends(masked_attention, Q, K, V, np.ones((n_q, 1), dtype=bool))
    Q, K, V = qkv(draw, 1, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
    expect_attends(masked_attention, Q, K, V, random_mask(draw, 1, 1, n_k))


@check(weight=1, needs=[masked_attention_masked])
def masked_attention_large(masked_attention, draw):
    """Returns the right weights for scaled scores in the thousands, positive or negative."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    Q, K = (draw.rng.integers(-1, 2, size=(n, d_k)).astype(float) for n in (n_q, n_k))
    # The first number of each query shifts all its scaled scores by 2000 or -2000; their differences stay the same.
    K[:, 0] = 1
    Q[:, 0] = np.where(np.arange(n_q) % 2, -2000, 2000) * d_k**0.5
    V, mask = draw.array(n_k, d_v), random_mask(draw, n_q, n_k)
    expect_attends(masked_attention, Q, K, V, mask, rtol=LARGE)
    # One key's scores are 2000 above or below the others.
    K[:, 0] = np.arange(n_k) == 1
    expect_attends(masked_attention, Q, K, V, mask, rtol=LARGE)


@check(weight=1, needs=[masked_attention_masked])
def masked_attention_refuses(masked_attention, draw):
    """Raises `ValueError` when the mask does not broadcast to (n_q, n_k)."""
    # Worth points: code that crops a mask applies a different one. NumPy raises by itself.
    n_q, n_k, d_k, d_v, other = draw.sizes(5)
    shapes = [(n_q, other), (other, n_k), (n_k, n_q), (n_q, n_k + other), (n_q + other, n_k)]
    # The last mask has as many rows as there are sequences: it lacks the query axis.
    for lead, mask_shape in [*[((), shape) for shape in shapes], ((other,), (other, n_k))]:
        Q, K, V = qkv(draw, *lead, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
        because = unfit((n_q, n_k), mask_shape)
        expect_raises(
            [ValueError], masked_attention, Q, K, V, random_mask(draw, *mask_shape), because=because
        )


@check(weight=0, needs=[masked_attention_masked])
def masked_attention_sizes(masked_attention, draw):
    """Raises `ValueError` when the sizes d_k or the numbers of keys and values are different, even if one is 1."""
    # Leading dimensions that do not match are not tested.
    n_q, n_k, d_k, d_v, other = draw.sizes(5)
    for left, right in [(d_k, other), (d_k, 1), (1, d_k)]:
        Q, K, V = draw.array(n_q, left), draw.array(n_k, right), draw.array(n_k, d_v)
        because = Message("d_k is {left} in Q and {right} in K", left=left, right=right)
        expect_raises([ValueError], masked_attention, Q, K, V, because=because)
    for keys, values in [(n_k, other), (n_k, 1), (1, n_k)]:
        Q, K, V = draw.array(n_q, d_k), draw.array(keys, d_k), draw.array(values, d_v)
        because = Message("n_k is {keys} in K and {values} in V", keys=keys, values=values)
        expect_raises([ValueError], masked_attention, Q, K, V, because=because)
    for queries, keys in [(n_q, 1), (1, n_k)]:
        Q, K, V = qkv(draw, n_q=queries, n_k=keys, d_k=d_k, d_v=d_v)
        because = unfit((queries, keys), (n_q, n_k))
        expect_raises(
            [ValueError], masked_attention, Q, K, V, random_mask(draw, n_q, n_k), because=because
        )


@check(weight=1, needs=[masked_attention_shape])
def masked_attention_dtype(masked_attention, draw):
    """Returns Z and A in the inputs' dtype: float32 gives float32, float16 gives float16."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    arguments = [*qkv(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v), random_mask(draw, n_q, n_k)]
    expect_dtypes(masked_attention, *arguments, names="ZA")


@check(weight=0.5, needs=[masked_attention_masked, masked_attention_nothing])
def masked_attention_half(masked_attention, draw):
    """In float16, a fully masked query also gets zero weights and the result 0."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    inputs, mask = qkv(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v), random_mask(draw, n_q, n_k)
    mask[0] = False
    Z, A = expect_tuple(
        masked_attention(*[array.astype(np.float16) for array in inputs], mask), "ZA"
    )
    expect_zero(expect_array(A, (n_q, n_k), what="A"), ~mask)
    expect_zero(
        expect_array(Z, (n_q, d_v), what="Z")[:1],
        np.ones((1, d_v), dtype=bool),
        what=Message("The result"),
    )


@check(weight=0.5, needs=[masked_attention_shape])
def masked_attention_inputs(masked_attention, draw):
    """Does not change `Q`, `K`, `V` or `mask`, and accepts read-only arrays."""
    # The results have the shape of the inputs, so code could write them into these.
    (n,) = draw.sizes(1)
    mask = random_mask(draw, n, n)
    mask[0] = False  # code may replace rows with nothing visible in place
    arguments = [*qkv(draw, n_q=n, n_k=n, d_k=n, d_v=n), mask]
    expect_inputs_kept(masked_attention, ["Q", "K", "V", "mask"], *arguments)

"""Wrong answers that people really give, each with the hint it deserves. Released inside the archive only.

A check that fails is explained by the listed answer that behaves as the student's function does. The tests
of the course prove that every wrong answer here fails, and that its own hint is shown. The right answers are those
from which `families` makes the mistakes that any function can have; all others are in `right_answers.py`.
"""

import numpy as np

from checking import COMMON, families, misconception, right
from checking.pieces import scaled, softmax, transposed


def past(n_q, n_k):
    return np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q


def shares(E):
    """Divide by the sum of each row, and leave rows of zeros as they are."""
    total = E.sum(axis=-1, keepdims=True)
    return E / np.where(total == 0, total.dtype.type(1), total)


def hidden(S, mask, fill=-np.inf):
    """Replace the masked scores by a number."""
    return np.where(np.broadcast_to(mask, S.shape), S, S.dtype.type(fill))


def share(S, mask):
    S = hidden(S, mask)
    return shares(np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min)))


def every(S):
    return np.ones(S.shape, dtype=bool)


def attend(Q, K, V, mask=None, weigh=share, score=scaled):
    S = score(Q, K)
    A = weigh(S, every(S) if mask is None else mask)
    return A @ V, A


# by_hand: wrong


@misconception(
    "by_hand",
    label="no mask",
    hint="All three words were shared among: the first two see words that come later. Leave these out before "
    "dividing.",
)
def by_hand_unmasked():
    return [[1 / 6, 1 / 3, 1 / 2], [1 / 3, 1 / 6, 1 / 2], [1 / 2, 1 / 3, 1 / 6]]


@misconception(
    "by_hand",
    label="weights masked after softmax",
    hint="The weights were made with all words, and then some were set to 0, so that rows no longer sum to 1. Mask "
    "the scores first.",
)
def by_hand_masked_late():
    return [[1 / 6, 0, 0], [1 / 3, 1 / 6, 0], [1 / 2, 1 / 3, 1 / 6]]


@misconception(
    "by_hand",
    label="0 for a hidden score",
    hint="Hidden scores were set to 0, and e to the power of 0 is 1: they got weight. A hidden score is minus "
    "infinity.",
)
def by_hand_zero_scores():
    return [[1 / 3, 1 / 3, 1 / 3], [1 / 2, 1 / 4, 1 / 4], [1 / 2, 1 / 3, 1 / 6]]


@misconception(
    "by_hand",
    label="a score of 0 given no weight",
    hint="Take exponentials before dividing: e to the power of 0 is 1.",
)
def by_hand_zero_for_zero():
    return [[1, 0, 0], [1, 0, 0], [3 / 5, 2 / 5, 0]]


@misconception(
    "by_hand",
    label="mask turned over",
    hint="Words see what comes after them, and not what came before. Row i may see the columns up to i.",
)
def by_hand_future():
    return [[1 / 6, 1 / 3, 1 / 2], [0, 1 / 4, 3 / 4], [0, 0, 1]]


@misconception(
    "by_hand",
    label="a word cannot see itself",
    hint="The diagonal is hidden too. A word may attend to itself.",
)
def by_hand_strict():
    return [[0, 0, 0], [1, 0, 0], [3 / 5, 2 / 5, 0]]


@misconception(
    "by_hand",
    label="rows and columns exchanged",
    hint="Queries and keys are exchanged: each row of weights belongs to a query, and sums to 1.",
)
def by_hand_transposed():
    return [[1, 2 / 3, 1 / 2], [0, 1 / 3, 1 / 3], [0, 0, 1 / 6]]


# causal_mask: wrong


@misconception(
    "causal_mask",
    label="aligned at the start",
    hint="The mask is aligned at the start, so the first query sees the first key alone. The queries are the "
    "newest tokens: align at the end, `j <= i + n_k - n_q`. (`np.tri(n_q, n_k, n_k - n_q)` shifts the "
    "diagonal.)",
)
def causal_mask_from_the_start(n_q, n_k):
    return np.tri(n_q, n_k, dtype=bool)


@misconception(
    "causal_mask",
    label="diagonal shifted the wrong way",
    hint="The shift has the wrong sign: `n_q - n_k`. A query i of the newest tokens stands at position i + n_k - "
    "n_q.",
)
def causal_mask_shifted_the_other_way(n_q, n_k):
    return np.tri(n_q, n_k, n_q - n_k, dtype=bool)


@misconception(
    "causal_mask",
    label="diagonal left out",
    hint="A token does not see itself, and the first sees nothing. `<=`, not `<`.",
)
def causal_mask_strict(n_q, n_k):
    return np.tri(n_q, n_k, n_k - n_q - 1, dtype=bool)


@misconception(
    "causal_mask",
    label="one future token visible",
    hint="The diagonal is the last that may be seen: `j <= i + n_k - n_q`, without + 1.",
)
def causal_mask_one_ahead(n_q, n_k):
    return np.tri(n_q, n_k, n_k - n_q + 1, dtype=bool)


@misconception(
    "causal_mask",
    label="mask inverted",
    hint="The mask is upside down: True stands where the key is hidden. Here True means: may attend.",
)
def causal_mask_inverted(n_q, n_k):
    return ~past(n_q, n_k)


@misconception(
    "causal_mask",
    label="upper triangle instead of lower",
    hint="A token sees itself and what comes after it. Take the lower one, `np.tri` or `np.tril`.",
)
def causal_mask_upper(n_q, n_k):
    return np.triu(np.ones((n_q, n_k), dtype=bool), n_k - n_q)


@misconception(
    "causal_mask",
    label="additive mask instead of boolean",
    hint="This mask is to be added to the scores: 0 and -inf. A boolean one is asked: True means may attend.",
)
def causal_mask_to_add(n_q, n_k):
    return np.where(past(n_q, n_k), 0.0, -np.inf)


@misconception(
    "causal_mask",
    label="a row for each key",
    hint="Rows belong to queries: its shape is (n_q, n_k).",
)
def causal_mask_keys_only(n_q, n_k):
    return past(n_k, n_k)


@misconception(
    "causal_mask",
    label="rows and columns swapped",
    hint="Rows belong to queries, columns to keys.",
)
def causal_mask_turned(n_q, n_k):
    return past(n_q, n_k).T


@misconception(
    "causal_mask",
    label="shift never below 0",
    hint="The shift n_k - n_q is cut off at 0. With more queries than keys it is negative, and the first queries "
    "stand before every key.",
)
def causal_mask_never_negative(n_q, n_k):
    return np.tri(n_q, n_k, max(n_k - n_q, 0), dtype=bool)


@misconception(
    "causal_mask",
    label="negative index in a slice",
    hint="A negative index counts from the end: with more queries than keys, `mask[i, i + n_k - n_q + 1 :] = "
    "False` spares the first keys. Compare instead of slicing: `j <= i + n_k - n_q`.",
)
def causal_mask_negative_slice(n_q, n_k):
    mask = np.ones((n_q, n_k), dtype=bool)
    for i in range(n_q):
        mask[i, i + n_k - n_q + 1 :] = False
    return mask


@misconception(
    "causal_mask",
    label="empty rows given a key",
    hint="Queries that would see nothing were given a key. Leave them without one: `masked_softmax` knows what to "
    "do.",
)
def causal_mask_never_empty(n_q, n_k):
    mask = past(n_q, n_k)
    mask[:, 0] = True
    return mask


# causal_mask: right


@families(
    "returns nothing",
    "a list instead of an array",
    "axis squeezed away",
    "batch axis added",
    "floats instead of booleans",
    "integers instead of booleans",
    hints={
        "floats instead of booleans": "The mask holds 1.0 and 0.0: `np.tri` and `np.ones` make floats unless told "
        "otherwise. Give them `dtype=bool`."
    },
)
@right("causal_mask")
def causal_mask_compared(n_q, n_k):
    return past(n_q, n_k)


# padding_mask: wrong


def real(lengths, n):
    if (lengths > n).any():
        raise ValueError(f"a length of {lengths.max()} is above {n}")
    return np.arange(n) < lengths[:, None, None]


@misconception(
    "padding_mask",
    label="axis for the queries missing",
    hint="(batch, n) would be read as (n_q, n_k). Put one of size 1 between, `lengths[:, None, None]` or "
    "`mask[:, None, :]`.",
)
def padding_mask_without_queries(lengths, n):
    return real(lengths, n)[:, 0]


@misconception(
    "padding_mask",
    label="queries hidden instead of keys",
    hint="The mask hides queries: (batch, n, 1) has the tokens in the rows. Keys are what may not be looked at; "
    "they are the last axis.",
)
def padding_mask_of_queries(lengths, n):
    return transposed(real(lengths, n))


@misconception(
    "padding_mask",
    label="axis for the heads added",
    hint="The mask has an axis for the heads as well. Here it has three: (batch, 1, n).",
)
def padding_mask_with_heads(lengths, n):
    return real(lengths, n)[:, None]


@misconception(
    "padding_mask",
    label="longest length instead of n",
    hint="The last axis is as long as the longest sequence. The argument `n` says how many tokens there are.",
)
def padding_mask_longest(lengths, n):
    return real(lengths, lengths.max())


@misconception(
    "padding_mask",
    label="lengths compared without new axes",
    hint="(n,) and (batch,) do not meet: `np.arange(n) < lengths` compares token j with sequence j. Give the "
    "lengths axes of their own, `lengths[:, None, None]`.",
)
def padding_mask_without_axes(lengths, n):
    return np.arange(n) < lengths


@misconception(
    "padding_mask",
    label="mask inverted",
    hint="The mask is upside down: True stands at the padding. Here True means: may attend.",
)
def padding_mask_inverted(lengths, n):
    return ~real(lengths, n)


@misconception(
    "padding_mask",
    label="one padding token visible",
    hint="One token of the padding may be attended to: with lengths[s] real tokens the last has index lengths[s] - "
    "1. `<`, not `<=`.",
)
def padding_mask_one_too_many(lengths, n):
    real(lengths, n)
    return np.arange(n) <= lengths[:, None, None]


@misconception(
    "padding_mask",
    label="padding expected in front",
    hint="It stands at the end here: the first lengths[s] tokens are real.",
)
def padding_mask_in_front(lengths, n):
    return real(lengths, n)[..., ::-1]


@misconception(
    "padding_mask",
    label="additive mask instead of boolean",
    hint="This mask is to be added to the scores: 0 and -inf. A boolean one is asked: True means may attend.",
)
def padding_mask_to_add(lengths, n):
    return np.where(real(lengths, n), 0.0, -np.inf)


@misconception(
    "padding_mask",
    label="empty sequences given a token",
    hint="A sequence of length 0 was given a token. It has none: every entry is False.",
)
def padding_mask_never_empty(lengths, n):
    return real(np.maximum(lengths, 1), n)


@misconception(
    "padding_mask",
    label="sequences without padding hidden",
    hint="`-0` is 0, so `mask[..., -0:] = False` hides everything. Count from the front, `mask[..., length:]`.",
)
def padding_mask_minus_nothing(lengths, n):
    mask = np.ones((len(lengths), 1, n), dtype=bool)
    real(lengths, n)
    for s, length in enumerate(lengths):
        mask[s, :, -(n - length) :] = False
    return mask


@misconception(
    "padding_mask",
    label="batch axis lost for one sequence",
    hint="The mask of one sequence has shape (1, 1, n).",
)
def padding_mask_squeezed(lengths, n):
    mask = real(lengths, n)
    return mask[0] if len(lengths) == 1 else mask


@misconception(
    "padding_mask",
    label="lengths above n accepted",
    hint="A length above n is taken as n, without a word. Those tokens are missing, and the caller must learn of "
    "it: `raise ValueError(...)`.",
)
def padding_mask_accepts_any_length(lengths, n):
    return np.arange(n) < lengths[:, None, None]


@misconception(
    "padding_mask",
    label="input changed in place",
    hint="Whoever called still needs it: write `lengths - 1`, which makes a new array, not `lengths -= 1`.",
)
def padding_mask_counts_down(lengths, n):
    mask = real(lengths, n)
    lengths -= 1
    return mask


# padding_mask: right


@families(
    "returns nothing",
    "a list instead of an array",
    "floats instead of booleans",
    "integers instead of booleans",
    "assert instead of ValueError",
)
@right("padding_mask")
def padding_mask_compared(lengths, n):
    return real(lengths, n)


# masked_softmax: wrong


@misconception(
    "masked_softmax",
    label="mask inverted",
    hint="The mask is upside down: True means: may attend, so hide where it is False.",
)
def masked_softmax_inverted(S, mask):
    return share(S, ~mask)


@misconception(
    "masked_softmax",
    label="mask for queries turned",
    hint="A mask (n, 1) hides everything from some queries. It was turned into (1, n), which hides some keys from "
    "all. Leave the mask's axes where they are: broadcasting finds the right ones.",
)
def masked_softmax_turns_column(S, mask):
    square = S.shape[-1] == S.shape[-2]
    return share(S, transposed(mask) if square and mask.shape[-1] == 1 else mask)


@misconception("masked_softmax", label="mask not used", hint="This is softmax over all keys.")
def masked_softmax_without_mask(S, mask):
    np.broadcast_to(mask, S.shape)
    return softmax(S)


@misconception(
    "masked_softmax",
    label="mask added to the scores",
    hint="True counts as 1, so allowed keys merely get 1 more. Replace the masked scores: `np.where(mask, S, "
    "-np.inf)`.",
)
def masked_softmax_adds_mask(S, mask):
    return softmax(S + np.broadcast_to(mask, S.shape))


@misconception(
    "masked_softmax",
    label="masked scores set to 0",
    hint="A score of 0 is a score as well: e^0 = 1. Masked ones need -inf, `np.where(mask, S, -np.inf)`, or "
    "their exponentials must become 0.",
)
def masked_softmax_scores_of_zero(S, mask):
    return softmax(S * np.broadcast_to(mask, S.shape))


@misconception(
    "masked_softmax",
    label="masked scores not low enough",
    hint="Masked scores are replaced by a number that is not low enough: e^-20 is small, and not 0. Take -inf.",
)
def masked_softmax_low_number(S, mask):
    return softmax(hidden(S, mask, fill=-20))


@misconception(
    "masked_softmax",
    label="mask multiplied by minus infinity",
    hint="-inf times False is NaN: infinity times 0 has no value. Choose instead of multiplying: `np.where(mask, "
    "S, -np.inf)`.",
)
def masked_softmax_times_infinity(S, mask):
    return softmax(S + ~np.broadcast_to(mask, S.shape) * S.dtype.type(-np.inf))


@misconception(
    "masked_softmax",
    label="mask applied after softmax",
    hint="The weights are masked after the softmax, and what is left no longer sums to 1. Mask the scores, before "
    "the softmax; or divide by the new sum.",
)
def masked_softmax_afterwards(S, mask):
    return softmax(S) * np.broadcast_to(mask, S.shape)


@misconception(
    "masked_softmax",
    label="exponentials not normalised",
    hint="The exponentials are not divided by their sum: weights must sum to 1 along each row.",
)
def masked_softmax_not_normalised(S, mask):
    S = hidden(S, mask)
    return np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min))


@misconception(
    "masked_softmax",
    label="softmax over the queries",
    hint="The columns sum to 1. Each query shares out its weight over the keys, the last axis.",
)
def masked_softmax_over_queries(S, mask):
    return transposed(share(transposed(S), transposed(np.broadcast_to(mask, S.shape))))


@misconception(
    "masked_softmax",
    label="axis 1 instead of the last",
    hint="The axis is 1, which is the last one only without a batch. Write `axis=-1`.",
)
def masked_softmax_axis_one(S, mask):
    return np.swapaxes(share(np.swapaxes(S, 1, -1), np.swapaxes(np.broadcast_to(mask, S.shape), 1, -1)), 1, -1)


@misconception(
    "masked_softmax",
    label="NaN in fully masked rows",
    hint="A row of -inf alone gives -inf - (-inf), which is NaN. Find the rows that may attend to nothing, and "
    "give them weights 0.",
)
def masked_softmax_empty_rows_nan(S, mask):
    return softmax(hidden(S, mask))


@misconception(
    "masked_softmax",
    label="fully masked rows divided by 0",
    hint="The exponentials of a row that may attend to nothing are all 0, and so is their sum: 0 / 0 is NaN. "
    "Divide by 1 there, `np.where(total > 0, total, 1)`. And NaN times 0 is NaN: replace the masked scores "
    "before anything else.",
)
def masked_softmax_zero_by_zero(S, mask):
    E = np.exp(S - S.max(axis=-1, keepdims=True)) * np.broadcast_to(mask, S.shape)
    return E / E.sum(axis=-1, keepdims=True)


@misconception(
    "masked_softmax",
    label="masked scores set to -1e9",
    hint="A row that may attend to nothing gets equal shares: all its scores are the same number, -1e9. Set its "
    "weights to 0; and take -inf, since -1e9 is a score that may occur, and in float16 it is -inf already.",
)
def masked_softmax_1e9(S, mask):
    return softmax(hidden(S, mask, fill=-1e9))


@misconception(
    "masked_softmax",
    label="masked scores set to the lowest number",
    hint="A row that may attend to nothing gets equal shares: all its scores are the lowest number of the dtype. "
    "Set its weights to 0.",
)
def masked_softmax_lowest_number(S, mask):
    return softmax(hidden(S, mask, fill=np.finfo(S.dtype).min))


@misconception(
    "masked_softmax",
    label="masked scores set to -10000",
    hint="Where all scores that may be seen lie below -10000, the masked ones win. Take -inf, and give rows that "
    "may attend to nothing weights 0.",
)
def masked_softmax_1e4(S, mask):
    A = softmax(hidden(S, mask, fill=-1e4))
    return np.where(np.broadcast_to(mask, S.shape).any(axis=-1, keepdims=True), A, S.dtype.type(0))


@misconception(
    "masked_softmax",
    label="masked scores lowered by 1e9",
    hint="-1e9 is added to the masked scores, all of a row's if it may attend to nothing, and softmax does not "
    "feel what is added to all. Set its weights to 0; and replace the scores instead of adding, since 1e30 - "
    "1e9 still wins.",
)
def masked_softmax_adds_1e9(S, mask):
    return softmax(S + np.where(np.broadcast_to(mask, S.shape), S.dtype.type(0), S.dtype.type(-1e9)))


@misconception(
    "masked_softmax",
    label="fully masked rows given equal weights",
    hint="Rows that may attend to nothing are given equal shares. They get weights 0.",
)
def masked_softmax_equal_shares(S, mask):
    return np.where(np.broadcast_to(mask, S.shape).any(axis=-1, keepdims=True), share(S, mask), S.dtype.type(1))


@misconception(
    "masked_softmax",
    label="minus infinity added to masked scores",
    hint="-inf is added to the scores instead of put in their place: NaN stays NaN, and inf - inf is NaN. "
    "`np.where(mask, S, -np.inf)` does not look at the score.",
)
def masked_softmax_adds_infinity(S, mask):
    S = S + np.where(np.broadcast_to(mask, S.shape), S.dtype.type(0), S.dtype.type(-np.inf))
    return shares(np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min)))


@misconception(
    "masked_softmax",
    label="maximum taken over masked scores too",
    hint="One of 1e30 makes the exponentials of all others 0, and 0 / 0 is NaN. Replace the masked scores first.",
)
def masked_softmax_maximum_of_masked(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    return shares(np.where(mask, np.exp(S - S.max(axis=-1, keepdims=True)), S.dtype.type(0)))


@misconception(
    "masked_softmax",
    label="exponentials multiplied by the mask",
    hint="The exponentials are multiplied by the mask, and the maximum is taken of masked scores too. NaN and inf "
    "times 0 are NaN: replace the masked scores before anything else, `np.where(mask, S, -np.inf)`.",
)
def masked_softmax_times_mask(S, mask):
    return shares(np.exp(S - S.max(axis=-1, keepdims=True)) * np.broadcast_to(mask, S.shape))


@misconception(
    "masked_softmax",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN. Subtract each row's maximum first.",
)
def masked_softmax_without_maximum(S, mask):
    return shares(np.exp(hidden(S, mask)))


@misconception(
    "masked_softmax",
    label="one maximum for all rows",
    hint="One maximum of all scores is subtracted; a row far below it becomes 0. Subtract each row's own, with "
    "`axis=-1, keepdims=True`.",
)
def masked_softmax_one_maximum(S, mask):
    S = hidden(S, mask)
    return shares(np.exp(S - max(S.max(), np.finfo(S.dtype).min)))


@misconception(
    "masked_softmax",
    label="scores clipped",
    hint="The scores are clipped, which changes weights: 10000 and 10003 become the same. Subtract the row's "
    "maximum instead.",
)
def masked_softmax_clipped(S, mask):
    return shares(np.exp(hidden(np.clip(S, -50, 50), mask)))


@misconception(
    "masked_softmax",
    label="scores set to -1e9, weights zeroed",
    hint="Masked scores are replaced by -1e9, and a row whose other scores are lower still loses to it. -inf is "
    "lower than any score.",
)
def masked_softmax_1e9_loses(S, mask):
    return softmax(hidden(S, mask, fill=-1e9)) * np.broadcast_to(mask, S.shape)


@misconception(
    "masked_softmax",
    label="first sequence's mask for all sequences",
    hint="`mask[0]` is used for the whole batch. Each sequence has its own: `np.broadcast_to(mask, S.shape)`.",
)
def masked_softmax_first_mask(S, mask):
    return share(S, mask[0] if mask.ndim > 2 else mask)


@misconception(
    "masked_softmax",
    label="mask not broadcast to the scores",
    hint="`S[~mask]` needs a mask of the very shape of `S`. `np.where(mask, S, -np.inf)` broadcasts; so does "
    "`np.broadcast_to(mask, S.shape)`, which also raises `ValueError` where the mask does not fit.",
)
def masked_softmax_boolean_index(S, mask):
    S = S.copy()
    S[~mask] = -np.inf
    return share(S, np.broadcast_to(mask, S.shape))


@misconception(
    "masked_softmax",
    label="scores stretched to the mask",
    hint="Scores of size 1 were stretched to the mask: `np.where` stretches both. `np.broadcast_to(mask, S.shape)` "
    "stretches the mask alone, and raises `ValueError` otherwise.",
)
def masked_softmax_stretches_scores(S, mask):
    S, mask = np.broadcast_arrays(S, mask)
    return share(S, mask)


@misconception(
    "masked_softmax",
    label="mask cut to the scores",
    hint="A mask that is larger than the scores was cut to its first rows and columns, where it may be another one. "
    "Leave it as it is: NumPy raises `ValueError` where it does not fit.",
)
def masked_softmax_cuts_mask(S, mask):
    return share(S, mask[..., : S.shape[-2], : S.shape[-1]])


@misconception(
    "masked_softmax",
    label="tiny number added to the sum",
    hint="A number such as 1e-9 keeps the sum from being 0. In float16 it is 0 itself, and 0 / 0 is NaN. Divide by "
    "1 where the sum is 0: `np.where(total > 0, total, 1)`.",
)
def masked_softmax_tiny_number(S, mask):
    S = hidden(S, mask)
    E = np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min))
    return E / (E.sum(axis=-1, keepdims=True) + S.dtype.type(1e-9))


@misconception(
    "masked_softmax",
    label="masked scores overwritten in place",
    hint="`S[...] = -np.inf` changes the caller's scores. Work on `np.where(mask, S, -np.inf)`, a new array.",
)
def masked_softmax_in_place(S, mask):
    S[~np.broadcast_to(mask, S.shape)] = -np.inf
    return share(S, mask)


@misconception(
    "masked_softmax",
    label="mask inverted in place",
    hint="The mask itself is turned round, in place. The caller still needs it: write `~mask`, a new array.",
)
def masked_softmax_turns_mask(S, mask):
    A = share(S, mask)
    np.logical_not(mask, out=mask)
    return A


# masked_softmax: right


@families(
    but=["assert instead of ValueError"],
    hints={
        "result in float64": "The result is float64 whatever the scores are: `np.zeros(shape)` makes float64, and "
        "so does `np.where` with a NumPy number. Take `np.zeros_like(S)`, and plain Python numbers.",
        "axis squeezed away": "An axis of size 1 is gone: `squeeze` removes it, and so does a maximum or a sum "
        "without `keepdims=True`.",
    },
)
@right("masked_softmax")
def masked_softmax_shares(S, mask):
    return share(S, mask)


# masked_attention: wrong


def weighed(function):
    """Return attention whose weights come from a wrong masked softmax."""

    def attention(Q, K, V, mask):
        return attend(Q, K, V, mask, weigh=function)

    return attention


@misconception(
    "masked_attention",
    label="mask's axis of size 1 squeezed away",
    hint="The mask (b, 1, n_k) lost its middle axis, and as (b, n_k) it is taken for one of queries and keys where "
    "there are as many sequences as queries. Leave the axis: it stands for all queries of a sequence.",
)
def masked_attention_squeezes_mask(Q, K, V, mask=None):
    if mask is not None and mask.ndim > 2 and mask.shape[0] == mask.shape[-1]:
        mask = np.squeeze(mask)
    return attend(Q, K, V, mask)


@misconception(
    "masked_attention",
    label="scores not scaled",
    hint="The scores are not divided by sqrt(d_k). `scaled_scores` does it.",
)
def masked_attention_unscaled(Q, K, V, mask=None):
    return attend(Q, K, V, mask, score=lambda Q, K: Q @ transposed(K))


@misconception(
    "masked_attention",
    label="divided by d_k, not sqrt(d_k)",
    hint="The scores are divided by d_k: the root is missing, or taken twice. `scaled_scores` divides by sqrt(d_k) "
    "already.",
)
def masked_attention_without_root(Q, K, V, mask=None):
    return attend(Q, K, V, mask, score=lambda Q, K: Q @ transposed(K) / Q.shape[-1])


@misconception(
    "masked_attention",
    label="scale from n_k instead of d_k",
    hint="The scale is the root of the number of keys. Scores are sums of d_k products: divide by sqrt(d_k).",
)
def masked_attention_scaled_by_keys(Q, K, V, mask=None):
    return attend(Q, K, V, mask, score=lambda Q, K: Q @ transposed(K) / K.shape[-2] ** 0.5)


@misconception(
    "masked_attention",
    label="softmax missing",
    hint="The scores are used as weights. `masked_softmax(scaled_scores(Q, K), mask)` first.",
)
def masked_attention_without_softmax(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=lambda S, mask: S * np.broadcast_to(mask, S.shape))


@misconception(
    "masked_attention",
    label="softmax over the queries",
    hint="The columns of A sum to 1. Each query shares out its weight over the keys.",
)
def masked_attention_over_queries(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_over_queries)


@misconception(
    "masked_attention",
    label="weights returned without the mask",
    hint="Z is right, but A holds the weights without the mask. Return those that Z was made with.",
)
def masked_attention_weights_unmasked(Q, K, V, mask=None):
    return attend(Q, K, V, mask)[0], attend(Q, K, V)[1]


@misconception(
    "masked_attention",
    label="result and weights swapped",
    hint="The order is exchanged: the result first, then the weights, `return Z, A`.",
)
def masked_attention_weights_first(Q, K, V, mask=None):
    return attend(Q, K, V, mask)[::-1]


@misconception(
    "masked_attention",
    label="keys mixed instead of values",
    hint="They serve to compare; what is mixed are the values, `A @ V`.",
)
def masked_attention_mixes_keys(Q, K, V, mask=None):
    return attend(Q, K, K, mask)


@misconception(
    "masked_attention",
    label="queries and keys swapped",
    hint="`Q` and `K` are exchanged: the scores have a row for each key. Rows belong to queries.",
)
def masked_attention_turned(Q, K, V, mask=None):
    return attend(K, Q, V, mask)


@misconception(
    "masked_attention",
    label="None as mask gives zero weights",
    hint="Without a mask everything is hidden, so that all weights are 0: `np.where` and `np.broadcast_to` take "
    "None for False. Ask first: `if mask is None`, and take a mask that is True everywhere.",
)
def masked_attention_none_gives_zero(Q, K, V, mask=None):
    return attend(Q, K, V, np.bool_(False) if mask is None else mask)


@misconception(
    "masked_attention",
    label="causal when no mask is given",
    hint="Without a mask, every query attends to every key. Here the mask is causal when none is given.",
)
def masked_attention_causal_without_mask(Q, K, V, mask=None):
    return attend(Q, K, V, past(Q.shape[-2], K.shape[-2]) if mask is None else mask)


@misconception(
    "masked_attention",
    label="mask array used as a condition",
    hint="`if mask:` asks an array whether it is true, which has no answer. Write `if mask is not None:`.",
)
def masked_attention_truth_of_mask(Q, K, V, mask=None):
    return attend(Q, K, V, mask if mask else None)


@misconception("masked_attention", label="mask not used", hint="Every query attends to every key.")
def masked_attention_without_mask(Q, K, V, mask=None):
    np.broadcast_to(True if mask is None else mask, scaled(Q, K).shape)
    return attend(Q, K, V)


@misconception(
    "masked_attention",
    label="mask inverted",
    hint="The mask is upside down: True means: may attend, so hide where it is False.",
)
def masked_attention_inverted(Q, K, V, mask=None):
    return attend(Q, K, V, None if mask is None else ~mask)


@misconception(
    "masked_attention",
    label="mask applied after softmax",
    hint="The weights are masked after the softmax, and what is left no longer sums to 1. Mask the scores: "
    "`masked_softmax`.",
)
def masked_attention_afterwards(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_afterwards)


@misconception(
    "masked_attention",
    label="NaN in fully masked rows",
    hint="A query that may attend to nothing has scores of -inf alone, and -inf - (-inf) is NaN. `masked_softmax` "
    "gives it weights 0.",
)
def masked_attention_empty_rows_nan(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_empty_rows_nan)


@misconception(
    "masked_attention",
    label="fully masked rows given equal weights",
    hint="A query that may attend to nothing attends to everything alike: all its scores are the same low number. "
    "Its weights and its result are 0.",
)
def masked_attention_equal_shares(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_lowest_number)


@misconception(
    "masked_attention",
    label="weights of fully masked rows kept",
    hint="Z is right, but the weights of a query that may attend to nothing are not: they are 0 as well. Do it in "
    "the softmax, and Z follows.",
)
def masked_attention_empty_result_only(Q, K, V, mask=None):
    A = attend(Q, K, V, mask, weigh=masked_softmax_lowest_number)[1]
    return attend(Q, K, V, mask)[0], A


@misconception(
    "masked_attention",
    label="maximum taken over masked scores too",
    hint="Masked keys have an influence: the maximum is taken of their scores too, and the exponentials of the "
    "others become 0. Replace masked scores first, then take the maximum.",
)
def masked_attention_maximum_of_masked(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_maximum_of_masked)


@misconception(
    "masked_attention",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN. Subtract each row's maximum first.",
)
def masked_attention_overflows(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_without_maximum)


@misconception(
    "masked_attention",
    label="first sequence's mask for all sequences",
    hint="The mask of the first sequence serves the whole batch. Each sequence has its own.",
)
def masked_attention_first_mask(Q, K, V, mask=None):
    return attend(Q, K, V, mask if mask is None or mask.ndim < 3 else mask[0])


@misconception(
    "masked_attention",
    label="all axes reversed by .T",
    hint="`K.T` reverses all axes, the batch among them. Exchange the last two alone: `np.swapaxes(K, -1, -2)`.",
)
def masked_attention_all_axes_reversed(Q, K, V, mask=None):
    return attend(Q, K, V, mask, score=lambda Q, K: Q @ K.T / Q.shape[-1] ** 0.5)


@misconception(
    "masked_attention",
    label="scores stretched to the mask",
    hint="A single query, or a single key, was stretched to the mask: `np.where` stretches both. "
    "`np.broadcast_to(mask, S.shape)` stretches the mask alone, and raises `ValueError` otherwise.",
)
def masked_attention_stretches_scores(Q, K, V, mask=None):
    S = scaled(Q, K)
    A = masked_softmax_stretches_scores(S, every(S) if mask is None else mask)
    return A @ V, A


@misconception(
    "masked_attention",
    label="mask cut to the scores",
    hint="A mask that is larger than (n_q, n_k) was cut to its first rows and columns, where it may be another one. "
    "Leave it as it is: `np.broadcast_to` raises `ValueError` where it does not fit.",
)
def masked_attention_cuts_mask(Q, K, V, mask=None):
    return attend(Q, K, V, None if mask is None else mask[..., : Q.shape[-2], : K.shape[-2]])


@misconception(
    "masked_attention",
    label="extra keys or values dropped",
    hint="Keys or values that are left over are dropped, as `zip` does. A key without a value is a mistake of the "
    "caller: raise `ValueError`.",
)
def masked_attention_drops_rest(Q, K, V, mask=None):
    n = min(K.shape[-2], V.shape[-2])
    return attend(Q, K[..., :n, :], V[..., :n, :], mask)


@misconception(
    "masked_attention",
    label="tiny number added to the sum",
    hint="In float16 a query that may attend to nothing gets NaN: a number such as 1e-9 keeps the sum from being "
    "0, and float16 has no number that small but 0. Divide by 1 where the sum is 0.",
)
def masked_attention_tiny_number(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_tiny_number)


@misconception(
    "masked_attention",
    label="Q scaled in place",
    hint="The caller's array changes. Write `Q / ...`, which makes a new one.",
)
def masked_attention_scales_in_place(Q, K, V, mask=None):
    results = attend(Q, K, V, mask)
    Q /= Q.shape[-1] ** 0.5
    return results


# masked_attention: right


@families(
    *COMMON,
    "only the first of the results returned",
    hints={
        "result in float64": "Z and A are float64 whatever the inputs are. Some step makes float64: "
        "`astype(float)`, `np.zeros` without a dtype, or dividing by `np.sqrt(d_k)`, which is a float64 number. "
        "Use `scaled_scores`, or divide by `math.sqrt(d_k)`."
    },
    shapes="n_q d_k, n_k d_k, n_k d_v",
)
@right("masked_attention")
def masked_attention_in_steps(Q, K, V, mask=None):
    return attend(Q, K, V, mask)


# Wrong only where sizes agree, beyond some length, or for small numbers


@misconception(
    "causal_mask",
    label="only the first 512 keys",
    hint="Keys after the 512th are hidden from all: a length is written into the code. Make the mask for n_k keys.",
)
def causal_mask_512_keys(n_q, n_k):
    mask = past(n_q, n_k)
    mask[:, 512:] = False
    return mask


@misconception(
    "causal_mask",
    label="only the first 512 queries",
    hint="Queries after the 512th see nothing: a length is written into the code. Make the mask for n_q queries.",
)
def causal_mask_512_queries(n_q, n_k):
    mask = past(n_q, n_k)
    mask[512:] = False
    return mask


@misconception(
    "padding_mask",
    label="transposed where square",
    hint="Where there are as many sequences as tokens the mask is turned over. The first axis is the batch, always.",
)
def padding_mask_turned_when_square(lengths, n):
    mask = real(lengths, n)
    return np.swapaxes(mask, 0, 2) if len(lengths) == n else mask


@misconception(
    "padding_mask",
    label="only the first 512 tokens",
    hint="Tokens after the 512th are hidden: a length is written into the code. Make the mask for n tokens.",
)
def padding_mask_512_tokens(lengths, n):
    mask = real(lengths, n)
    mask[..., 512:] = False
    return mask


@misconception(
    "masked_softmax",
    label="mask taken for the batch's",
    hint="Where there are as many sequences as queries, each row of the mask is given to a sequence. Its rows are "
    "the queries', in every sequence: broadcasting starts at the last axis.",
)
def masked_softmax_mask_of_the_batch(S, mask):
    if S.ndim == 3 and mask.ndim == 2 and mask.shape[0] == S.shape[0] == S.shape[1]:
        mask = mask[:, None]
    return share(S, mask)


@misconception(
    "masked_softmax",
    label="softmax over the queries where square",
    hint="Where there are as many queries as keys softmax runs over the queries. The keys are the last axis.",
)
def masked_softmax_axis_by_size(S, mask):
    if S.shape[-1] != S.shape[-2]:
        return share(S, mask)
    return transposed(share(transposed(S), transposed(np.broadcast_to(mask, S.shape))))


@misconception(
    "masked_softmax",
    label="only the first 512 keys",
    hint="Keys after the 512th get no weight: a length is written into the code. Take n_k from `S.shape[-1]`.",
)
def masked_softmax_512_keys(S, mask):
    return share(S, np.broadcast_to(mask, S.shape) & (np.arange(S.shape[-1]) < 512))


@misconception(
    "masked_softmax",
    label="small weights dropped",
    hint="Weights below some small number are set to 0, though the mask allows their keys. The mask alone makes 0.",
)
def masked_softmax_small_dropped(S, mask):
    A = share(S, mask)
    return np.where(A < 5e-4, A.dtype.type(0), A)


@misconception(
    "masked_attention",
    label="keys mixed where shapes agree",
    hint="Self-attention often has one shape for all: what is mixed are the values, `V`.",
)
def masked_attention_mixes_keys_when_shapes_agree(Q, K, V, mask=None):
    return attend(Q, K, K if K.shape == V.shape else V, mask)


@misconception(
    "masked_attention",
    label="Z written into V",
    hint="Where Z has the shape of `V` it is written into `V`, which is the caller's. Return new arrays.",
)
def masked_attention_into_its_input(Q, K, V, mask=None):
    Z, A = attend(Q, K, V, mask)
    if Z.shape == V.shape:
        V[...] = Z
    return Z, A


@misconception(
    "masked_attention",
    label="only the first 512 keys",
    hint="Keys after the 512th are hidden: a length is written into the code. Take n_k from `K.shape[-2]`.",
)
def masked_attention_512_keys(Q, K, V, mask=None):
    mask = np.broadcast_to(True if mask is None else mask, (*Q.shape[:-1], K.shape[-2]))
    return attend(Q, K, V, mask & (np.arange(K.shape[-2]) < 512))


@misconception(
    "masked_attention",
    label="small weights dropped",
    hint="Weights below some small number are set to 0. A small weight on a large value counts: use all of them.",
)
def masked_attention_small_dropped(Q, K, V, mask=None):
    A = attend(Q, K, V, mask)[1]
    A = np.where(A < 2e-6, A.dtype.type(0), A)
    return A @ V, A

"""Wrong answers that people really give, each with a hint. Students get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, and that its own hint is shown. The right answers here are those from which
`families` makes the mistakes that any function can have; all others are in `right_answers.py`.
"""

import numpy as np

from checking import COMMON, families, misconception, right
from checking.answer_parts import scaled, softmax, transposed


def past(n_q, n_k):
    return np.arange(n_k) <= np.arange(n_q)[:, None] + n_k - n_q


def shares(E):
    """Divide by the sum of each row, but leave rows of zeros unchanged."""
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
    hint="The weights include all three words, so the first two words see later ones. Leave out later words before "
    "dividing.",
)
def by_hand_unmasked():
    return [[1 / 6, 1 / 3, 1 / 2], [1 / 3, 1 / 6, 1 / 2], [1 / 2, 1 / 3, 1 / 6]]


@misconception(
    "by_hand",
    label="weights masked after softmax",
    hint="The weights are computed over all words and then partly set to 0, so the rows no longer sum to 1. Mask "
    "the scores first.",
)
def by_hand_masked_late():
    return [[1 / 6, 0, 0], [1 / 3, 1 / 6, 0], [1 / 2, 1 / 3, 1 / 6]]


@misconception(
    "by_hand",
    label="hidden score set to 0",
    hint="Hidden scores are set to 0, but e to the power of 0 is 1, so they still get weight. A hidden score is "
    "minus infinity.",
)
def by_hand_zero_scores():
    return [[1 / 3, 1 / 3, 1 / 3], [1 / 2, 1 / 4, 1 / 4], [1 / 2, 1 / 3, 1 / 6]]


@misconception(
    "by_hand",
    label="no weight for a score of 0",
    hint="Take exponentials before dividing: e to the power of 0 is 1.",
)
def by_hand_zero_for_zero():
    return [[1, 0, 0], [1, 0, 0], [3 / 5, 2 / 5, 0]]


@misconception(
    "by_hand",
    label="mask reversed",
    hint="Each word sees later words instead of earlier ones. Row i may use columns up to i.",
)
def by_hand_future():
    return [[1 / 6, 1 / 3, 1 / 2], [0, 1 / 4, 3 / 4], [0, 0, 1]]


@misconception(
    "by_hand",
    label="diagonal hidden",
    hint="The diagonal is hidden as well. A word may attend to itself.",
)
def by_hand_strict():
    return [[0, 0, 0], [1, 0, 0], [3 / 5, 2 / 5, 0]]


@misconception(
    "by_hand",
    label="rows and columns swapped",
    hint="Queries and keys are swapped. Each row of weights belongs to a query and sums to 1.",
)
def by_hand_transposed():
    return [[1, 2 / 3, 1 / 2], [0, 1 / 3, 1 / 3], [0, 0, 1 / 6]]


# causal_mask: wrong


@misconception(
    "causal_mask",
    label="aligned at the start",
    hint="The mask is aligned at the start, so the first query sees only the first key. The queries are the newest "
    "tokens: align at the end, `j <= i + n_k - n_q`. (`np.tri(n_q, n_k, n_k - n_q)` shifts the diagonal.)",
)
def causal_mask_from_the_start(n_q, n_k):
    return np.tri(n_q, n_k, dtype=bool)


@misconception(
    "causal_mask",
    label="diagonal shifted the wrong way",
    hint="The shift has the wrong sign: `n_q - n_k`. Query i belongs to position i + n_k - n_q among the keys.",
)
def causal_mask_shifted_the_other_way(n_q, n_k):
    return np.tri(n_q, n_k, n_q - n_k, dtype=bool)


@misconception(
    "causal_mask",
    label="diagonal left out",
    hint="A token does not see itself, and the first token sees nothing. Use `<=`, not `<`.",
)
def causal_mask_strict(n_q, n_k):
    return np.tri(n_q, n_k, n_k - n_q - 1, dtype=bool)


@misconception(
    "causal_mask",
    label="one future token visible",
    hint="Each query also sees the key after its own. The diagonal is the last visible entry: `j <= i + n_k - n_q`, "
    "without + 1.",
)
def causal_mask_one_ahead(n_q, n_k):
    return np.tri(n_q, n_k, n_k - n_q + 1, dtype=bool)


@misconception(
    "causal_mask",
    label="mask inverted",
    hint='The mask is True where the key is hidden. In this notebook True means "may attend".',
)
def causal_mask_inverted(n_q, n_k):
    return ~past(n_q, n_k)


@misconception(
    "causal_mask",
    label="upper triangle instead of lower",
    hint="Each token sees itself and later tokens. Use the lower triangle, `np.tri` or `np.tril`.",
)
def causal_mask_upper(n_q, n_k):
    return np.triu(np.ones((n_q, n_k), dtype=bool), n_k - n_q)


@misconception(
    "causal_mask",
    label="additive mask instead of boolean",
    hint="This mask, 0 and -inf, is meant to be added to the scores. Return a boolean mask, in which True means "
    '"may attend".',
)
def causal_mask_to_add(n_q, n_k):
    return np.where(past(n_q, n_k), 0.0, -np.inf)


@misconception(
    "causal_mask",
    label="a row for each key",
    hint="The mask has a row for each key. Rows belong to queries: the shape is (n_q, n_k).",
)
def causal_mask_keys_only(n_q, n_k):
    return past(n_k, n_k)


@misconception(
    "causal_mask",
    label="rows and columns swapped",
    hint="The mask is transposed. Rows belong to queries, columns to keys.",
)
def causal_mask_turned(n_q, n_k):
    return past(n_q, n_k).T


@misconception(
    "causal_mask",
    label="shift never below 0",
    hint="The shift n_k - n_q is limited to 0 or more. With more queries than keys this shift is negative, and the "
    "first queries come before every key.",
)
def causal_mask_never_negative(n_q, n_k):
    return np.tri(n_q, n_k, max(n_k - n_q, 0), dtype=bool)


@misconception(
    "causal_mask",
    label="negative index in a slice",
    hint="A negative index counts from the end: with more queries than keys, `mask[i, i + n_k - n_q + 1 :] = False` "
    "leaves the first keys visible. Compare instead of slicing: `j <= i + n_k - n_q`.",
)
def causal_mask_negative_slice(n_q, n_k):
    mask = np.ones((n_q, n_k), dtype=bool)
    for i in range(n_q):
        mask[i, i + n_k - n_q + 1 :] = False
    return mask


@misconception(
    "causal_mask",
    label="fully masked rows given a key",
    hint="Fully masked queries are given a key. Leave their rows False: `masked_softmax` handles them.",
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
        "floats instead of booleans": "The mask contains 1.0 and 0.0: `np.tri` and `np.ones` return floats by "
        "default. Pass `dtype=bool`."
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
    label="query axis missing",
    hint="A mask (batch, n) is read as (n_q, n_k). Insert an axis of size 1, `lengths[:, None, None]` or `mask[:, "
    "None, :]`.",
)
def padding_mask_without_queries(lengths, n):
    return real(lengths, n)[:, 0]


@misconception(
    "padding_mask",
    label="queries hidden instead of keys",
    hint="The mask hides queries: in (batch, n, 1), the rows are the tokens. A padding mask hides keys, which are "
    "on the last axis.",
)
def padding_mask_of_queries(lengths, n):
    return transposed(real(lengths, n))


@misconception(
    "padding_mask",
    label="head axis added",
    hint="The mask has an extra axis for the heads. It should have three: (batch, 1, n).",
)
def padding_mask_with_heads(lengths, n):
    return real(lengths, n)[:, None]


@misconception(
    "padding_mask",
    label="longest length instead of n",
    hint="The last axis is as long as the longest sequence. The argument `n` gives the number of tokens.",
)
def padding_mask_longest(lengths, n):
    return real(lengths, lengths.max())


@misconception(
    "padding_mask",
    label="lengths compared without new axes",
    hint="The shapes (n,) and (batch,) are aligned with each other, so `np.arange(n) < lengths` compares token j "
    "with sequence j. Give the lengths two more axes, `lengths[:, None, None]`.",
)
def padding_mask_without_axes(lengths, n):
    return np.arange(n) < lengths


@misconception(
    "padding_mask",
    label="mask inverted",
    hint='The mask is True at the padding. In this notebook True means "may attend".',
)
def padding_mask_inverted(lengths, n):
    return ~real(lengths, n)


@misconception(
    "padding_mask",
    label="one padding token visible",
    hint="One padding token is visible. The last of lengths[s] real tokens has index lengths[s] - 1, so use `<`, "
    "not `<=`.",
)
def padding_mask_one_too_many(lengths, n):
    real(lengths, n)
    return np.arange(n) <= lengths[:, None, None]


@misconception(
    "padding_mask",
    label="padding expected at the start",
    hint="The padding is at the end here: the first lengths[s] tokens are real.",
)
def padding_mask_in_front(lengths, n):
    return real(lengths, n)[..., ::-1]


@misconception(
    "padding_mask",
    label="additive mask instead of boolean",
    hint="This mask, 0 and -inf, is meant to be added to the scores. Return a boolean mask, in which True means "
    '"may attend".',
)
def padding_mask_to_add(lengths, n):
    return np.where(real(lengths, n), 0.0, -np.inf)


@misconception(
    "padding_mask",
    label="empty sequences given a token",
    hint="A sequence of length 0 is given a token. It has none, so every entry is False.",
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
    hint="The result for a single sequence has no batch axis. Its shape is (1, 1, n).",
)
def padding_mask_squeezed(lengths, n):
    mask = real(lengths, n)
    return mask[0] if len(lengths) == 1 else mask


@misconception(
    "padding_mask",
    label="lengths above n accepted",
    hint="A length above n is silently treated as n, so tokens are lost. Tell the caller: `raise ValueError(...)`.",
)
def padding_mask_accepts_any_length(lengths, n):
    return np.arange(n) < lengths[:, None, None]


@misconception(
    "padding_mask",
    label="input changed in place",
    hint="The caller still needs `lengths`. Use `lengths - 1`, which creates a new array, not `lengths -= 1`.",
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
    hint='The mask is inverted. True means "may attend", so hide the keys where it is False.',
)
def masked_softmax_inverted(S, mask):
    return share(S, ~mask)


@misconception(
    "masked_softmax",
    label="column mask transposed",
    hint="A mask (n, 1) hides every key from some queries. It was transposed to (1, n), which hides some keys from "
    "every query. Leave its axes alone: broadcasting matches them correctly.",
)
def masked_softmax_turns_column(S, mask):
    square = S.shape[-1] == S.shape[-2]
    return share(S, transposed(mask) if square and mask.shape[-1] == 1 else mask)


@misconception(
    "masked_softmax",
    label="mask not used",
    hint="The mask is not used: this is softmax over all keys.",
)
def masked_softmax_without_mask(S, mask):
    np.broadcast_to(mask, S.shape)
    return softmax(S)


@misconception(
    "masked_softmax",
    label="mask added to the scores",
    hint="True counts as 1, so allowed keys only get 1 more. Replace the masked scores instead: `np.where(mask, S, "
    "-np.inf)`.",
)
def masked_softmax_adds_mask(S, mask):
    return softmax(S + np.broadcast_to(mask, S.shape))


@misconception(
    "masked_softmax",
    label="masked scores set to 0",
    hint="A score of 0 still gets weight, since e^0 = 1. Masked scores need -inf, `np.where(mask, S, -np.inf)`, or "
    "their exponentials must become 0.",
)
def masked_softmax_scores_of_zero(S, mask):
    return softmax(S * np.broadcast_to(mask, S.shape))


@misconception(
    "masked_softmax",
    label="masked scores not low enough",
    hint="Masked scores are replaced by a number that is not low enough: e^-20 is small, but not 0. Use -inf.",
)
def masked_softmax_low_number(S, mask):
    return softmax(hidden(S, mask, fill=-20))


@misconception(
    "masked_softmax",
    label="mask multiplied by minus infinity",
    hint="-inf times False is NaN, because infinity times 0 is undefined. Select instead of multiplying: "
    "`np.where(mask, S, -np.inf)`.",
)
def masked_softmax_times_infinity(S, mask):
    return softmax(S + ~np.broadcast_to(mask, S.shape) * S.dtype.type(-np.inf))


@misconception(
    "masked_softmax",
    label="mask applied after softmax",
    hint="The weights are masked after the softmax, so they no longer sum to 1. Mask the scores before the softmax, "
    "or divide by the new sum.",
)
def masked_softmax_afterwards(S, mask):
    return softmax(S) * np.broadcast_to(mask, S.shape)


@misconception(
    "masked_softmax",
    label="exponentials not normalized",
    hint="The exponentials are not divided by their sum. The weights in each row must sum to 1.",
)
def masked_softmax_not_normalised(S, mask):
    S = hidden(S, mask)
    return np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min))


@misconception(
    "masked_softmax",
    label="softmax over the queries",
    hint="The columns sum to 1. Each query distributes its weight over the keys, which are on the last axis.",
)
def masked_softmax_over_queries(S, mask):
    return transposed(share(transposed(S), transposed(np.broadcast_to(mask, S.shape))))


@misconception(
    "masked_softmax",
    label="axis 1 instead of the last",
    hint="Axis 1 is the last axis only without a batch. Use `axis=-1`.",
)
def masked_softmax_axis_one(S, mask):
    return np.swapaxes(
        share(np.swapaxes(S, 1, -1), np.swapaxes(np.broadcast_to(mask, S.shape), 1, -1)), 1, -1
    )


@misconception(
    "masked_softmax",
    label="NaN in fully masked rows",
    hint="In a fully masked row every score is -inf. Subtracting its maximum, -inf, or dividing by its sum, 0, gives "
    "NaN. Find such rows and give them zero weights.",
)
def masked_softmax_empty_rows_nan(S, mask):
    return softmax(hidden(S, mask))


@misconception(
    "masked_softmax",
    label="fully masked rows divided by 0",
    hint="In a fully masked row the exponentials and their sum are 0, and 0 / 0 is NaN. Divide by 1 there, "
    "`np.where(total > 0, total, 1)`. NaN times 0 is also NaN, so replace the masked scores before anything else.",
)
def masked_softmax_zero_by_zero(S, mask):
    E = np.exp(S - S.max(axis=-1, keepdims=True)) * np.broadcast_to(mask, S.shape)
    return E / E.sum(axis=-1, keepdims=True)


@misconception(
    "masked_softmax",
    label="masked scores set to -1e9",
    hint="A fully masked row gets equal weights, because all its scores are -1e9. Set its weights to 0. Also "
    "replace -1e9 by -inf: a visible score can be lower than -1e9, and float16 cannot represent -1e9.",
)
def masked_softmax_1e9(S, mask):
    return softmax(hidden(S, mask, fill=-1e9))


@misconception(
    "masked_softmax",
    label="equal weights in fully masked rows",
    hint="All keys of a fully masked row get the same weight. Softmax of equal scores does so, whatever number they "
    "have been replaced by. Set the weights of such a row to 0.",
)
def masked_softmax_lowest_number(S, mask):
    return softmax(hidden(S, mask, fill=np.finfo(S.dtype).min))


@misconception(
    "masked_softmax",
    label="masked scores set to -10000",
    hint="When all visible scores are below -10000, the masked scores win. Use -inf, and give fully masked rows "
    "zero weights.",
)
def masked_softmax_1e4(S, mask):
    A = softmax(hidden(S, mask, fill=-1e4))
    return np.where(np.broadcast_to(mask, S.shape).any(axis=-1, keepdims=True), A, S.dtype.type(0))


@misconception(
    "masked_softmax",
    label="masked scores set to -10000, no zeros",
    hint="A fully masked row gets equal weights, because all its scores are -10000. In other rows the masked scores "
    "win if all visible ones are lower. Use -inf, and set the weights of fully masked rows to 0.",
)
def masked_softmax_1e4_only(S, mask):
    return softmax(hidden(S, mask, fill=-1e4))


@misconception(
    "masked_softmax",
    label="no mask if nothing is visible",
    hint="If the mask is False everywhere, it is ignored: the result is the softmax of all scores. Then every weight "
    "should be 0.",
)
def masked_softmax_nothing_is_no_mask(S, mask):
    return share(S, mask if mask.any() else np.ones_like(mask))


@misconception(
    "masked_softmax",
    label="fully masked rows not masked",
    hint="A fully masked row gets the softmax of all its scores, as if no key were masked. Its weights should be 0.",
)
def masked_softmax_empty_rows_see_all(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    return share(S, mask | ~mask.any(axis=-1, keepdims=True))


@misconception(
    "masked_softmax",
    label="maximum never below 0",
    hint="The maximum is at least 0. If all visible scores of a row are far below 0, their exponentials become 0. "
    "Subtract the largest visible score, whatever its sign. Only a maximum of -inf needs another number.",
)
def masked_softmax_maximum_from_zero(S, mask):
    S = hidden(S, mask)
    return shares(np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), S.dtype.type(0))))


@misconception(
    "masked_softmax",
    label="lower limit for the maximum",
    hint="The maximum never falls below a fixed number, such as -50000. If all visible scores of a row are lower, "
    "their exponentials become 0. Replace the maximum only where it is -inf.",
)
def masked_softmax_maximum_with_limit(S, mask):
    S = hidden(S, mask)
    return shares(np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), S.dtype.type(-5e4))))


@misconception(
    "masked_softmax",
    label="masked scores lowered by 1e9",
    hint="-1e9 is added to every score of a fully masked row, and softmax ignores a constant that is added to all. "
    "Set its weights to 0. Also replace the scores instead of adding: 1e30 - 1e9 still wins.",
)
def masked_softmax_adds_1e9(S, mask):
    return softmax(
        S + np.where(np.broadcast_to(mask, S.shape), S.dtype.type(0), S.dtype.type(-1e9))
    )


@misconception(
    "masked_softmax",
    label="weights of 1 in fully masked rows",
    hint="Every weight of a fully masked row is 1. It should be 0.",
)
def masked_softmax_equal_shares(S, mask):
    return np.where(
        np.broadcast_to(mask, S.shape).any(axis=-1, keepdims=True), share(S, mask), S.dtype.type(1)
    )


@misconception(
    "masked_softmax",
    label="minus infinity added to masked scores",
    hint="-inf is added to the scores instead of replacing them: NaN stays NaN, and inf - inf is NaN. "
    "`np.where(mask, S, -np.inf)` ignores the masked score.",
)
def masked_softmax_adds_infinity(S, mask):
    S = S + np.where(np.broadcast_to(mask, S.shape), S.dtype.type(0), S.dtype.type(-np.inf))
    return shares(np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min)))


@misconception(
    "masked_softmax",
    label="maximum includes masked scores",
    hint="If a masked score of 1e30 is the maximum, the exponentials of all visible scores become 0. Replace the "
    "masked scores first.",
)
def masked_softmax_maximum_of_masked(S, mask):
    mask = np.broadcast_to(mask, S.shape)
    return shares(np.where(mask, np.exp(S - S.max(axis=-1, keepdims=True)), S.dtype.type(0)))


@misconception(
    "masked_softmax",
    label="exponentials multiplied by the mask",
    hint="The exponentials are multiplied by the mask, and the maximum includes masked scores. NaN and inf times 0 "
    "are NaN: replace the masked scores before anything else, `np.where(mask, S, -np.inf)`.",
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
    hint="The maximum of all scores is subtracted, so a row far below it becomes 0. Subtract each row's own "
    "maximum, with `axis=-1, keepdims=True`.",
)
def masked_softmax_one_maximum(S, mask):
    S = hidden(S, mask)
    return shares(np.exp(S - max(S.max(), np.finfo(S.dtype).min)))


@misconception(
    "masked_softmax",
    label="scores clipped",
    hint="Clipping the scores changes the weights: 10000 and 10003 become equal. Subtract each row's maximum "
    "instead.",
)
def masked_softmax_clipped(S, mask):
    return shares(np.exp(hidden(np.clip(S, -50, 50), mask)))


@misconception(
    "masked_softmax",
    label="scores below -1e9 get no weight",
    hint="A row whose visible scores are all below -1e9 gets zero weights: its masked scores are replaced by -1e9, "
    "or its maximum is limited to that. -inf is lower than any score.",
)
def masked_softmax_1e9_loses(S, mask):
    return softmax(hidden(S, mask, fill=-1e9)) * np.broadcast_to(mask, S.shape)


@misconception(
    "masked_softmax",
    label="first sequence's mask used for all",
    hint="`mask[0]` is used for the whole batch. Each sequence has its own mask: `np.broadcast_to(mask, S.shape)`.",
)
def masked_softmax_first_mask(S, mask):
    return share(S, mask[0] if mask.ndim > 2 else mask)


@misconception(
    "masked_softmax",
    label="mask not broadcast to the scores",
    hint="`S[~mask]` needs a mask with exactly the shape of `S`. `np.where(mask, S, -np.inf)` broadcasts the mask. "
    "`np.broadcast_to(mask, S.shape)` also broadcasts it, and raises `ValueError` on a shape mismatch.",
)
def masked_softmax_boolean_index(S, mask):
    S = S.copy()
    S[~mask] = -np.inf
    return share(S, np.broadcast_to(mask, S.shape))


@misconception(
    "masked_softmax",
    label="scores stretched to the mask",
    hint="Scores of size 1 are stretched to the mask, since `np.where` broadcasts both. `np.broadcast_to(mask, "
    "S.shape)` stretches only the mask and raises `ValueError` otherwise.",
)
def masked_softmax_stretches_scores(S, mask):
    S, mask = np.broadcast_arrays(S, mask)
    return share(S, mask)


@misconception(
    "masked_softmax",
    label="mask cropped to the scores",
    hint="A mask larger than the scores is cropped to its first rows and columns, which may mean something else. "
    "Leave it alone: NumPy raises `ValueError` on a shape mismatch.",
)
def masked_softmax_cuts_mask(S, mask):
    return share(S, mask[..., : S.shape[-2], : S.shape[-1]])


@misconception(
    "masked_softmax",
    label="tiny number added to the sum",
    hint="A number such as 1e-9 is added to avoid a sum of 0. In float16 it rounds to 0, and 0 / 0 is NaN. Divide "
    "by 1 where the sum is 0: `np.where(total > 0, total, 1)`.",
)
def masked_softmax_tiny_number(S, mask):
    S = hidden(S, mask)
    E = np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), np.finfo(S.dtype).min))
    return E / (E.sum(axis=-1, keepdims=True) + S.dtype.type(1e-9))


@misconception(
    "masked_softmax",
    label="masked scores overwritten in place",
    hint="The caller's scores change where they are masked, as `S[...] = -np.inf` does. Use `np.where(mask, S, "
    "-np.inf)`, which creates a new array.",
)
def masked_softmax_in_place(S, mask):
    S[~np.broadcast_to(mask, S.shape)] = -np.inf
    return share(S, mask)


@misconception(
    "masked_softmax",
    label="mask inverted in place",
    hint="The mask is inverted in place, but the caller still needs it. Use `~mask`, which creates a new array.",
)
def masked_softmax_turns_mask(S, mask):
    A = share(S, mask)
    np.logical_not(mask, out=mask)
    return A


# masked_softmax: right


@families(
    but=["assert instead of ValueError"],
    hints={
        "result in float64": "The result is float64 for any dtype of the scores: `np.zeros(shape)` is float64, and "
        "`np.where` with a NumPy number returns float64. Use `np.zeros_like(S)` and plain Python numbers.",
        "axis squeezed away": "An axis of size 1 is missing: `squeeze` removes it, and a maximum or a sum without "
        "`keepdims=True` also does.",
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
    label="mask's size-1 axis squeezed away",
    hint="The mask (b, 1, n_k) loses its middle axis. When there are as many sequences as queries, (b, n_k) is then "
    "read as (n_q, n_k). Keep this axis: it stands for all queries of a sequence.",
)
def masked_attention_squeezes_mask(Q, K, V, mask=None):
    if mask is not None and mask.ndim > 2 and mask.shape[0] == mask.shape[-1]:
        mask = np.squeeze(mask)
    return attend(Q, K, V, mask)


@misconception(
    "masked_attention",
    label="scores not scaled",
    hint="The scores are not divided by sqrt(d_k). `scaled_scores` does this.",
)
def masked_attention_unscaled(Q, K, V, mask=None):
    return attend(Q, K, V, mask, score=lambda Q, K: Q @ transposed(K))


@misconception(
    "masked_attention",
    label="divided by d_k, not sqrt(d_k)",
    hint="The scores are divided by d_k: the root is missing, or the scores are divided twice. `scaled_scores` "
    "already divides by sqrt(d_k).",
)
def masked_attention_without_root(Q, K, V, mask=None):
    return attend(Q, K, V, mask, score=lambda Q, K: Q @ transposed(K) / Q.shape[-1])


@misconception(
    "masked_attention",
    label="scale from n_k instead of d_k",
    hint="The scale is the square root of the number of keys. Each score is a sum of d_k products, so divide by "
    "sqrt(d_k).",
)
def masked_attention_scaled_by_keys(Q, K, V, mask=None):
    return attend(Q, K, V, mask, score=lambda Q, K: Q @ transposed(K) / K.shape[-2] ** 0.5)


@misconception(
    "masked_attention",
    label="softmax missing",
    hint="The scores are used as weights. Compute `masked_softmax(scaled_scores(Q, K), mask)` first.",
)
def masked_attention_without_softmax(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=lambda S, mask: S * np.broadcast_to(mask, S.shape))


@misconception(
    "masked_attention",
    label="softmax over the queries",
    hint="The columns of A sum to 1. Each query distributes its weight over the keys.",
)
def masked_attention_over_queries(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_over_queries)


@misconception(
    "masked_attention",
    label="weights returned without the mask",
    hint="Z is right, but A contains the weights without the mask. Return the weights that Z was computed with.",
)
def masked_attention_weights_unmasked(Q, K, V, mask=None):
    return attend(Q, K, V, mask)[0], attend(Q, K, V)[1]


@misconception(
    "masked_attention",
    label="result and weights swapped",
    hint="The order is swapped. Return the result first, then the weights: `return Z, A`.",
)
def masked_attention_weights_first(Q, K, V, mask=None):
    return attend(Q, K, V, mask)[::-1]


@misconception(
    "masked_attention",
    label="keys mixed instead of values",
    hint="The weights are applied to the keys. Keys are only for comparing; the values are mixed, `A @ V`.",
)
def masked_attention_mixes_keys(Q, K, V, mask=None):
    return attend(Q, K, K, mask)


@misconception(
    "masked_attention",
    label="queries and keys swapped",
    hint="`Q` and `K` are swapped, so the scores have a row for each key. Rows belong to queries.",
)
def masked_attention_turned(Q, K, V, mask=None):
    return attend(K, Q, V, mask)


@misconception(
    "masked_attention",
    label="None as mask gives zero weights",
    hint="Without a mask everything is hidden and all weights are 0: `np.where` and `np.broadcast_to` treat None as "
    "False. Check `if mask is None`, and use a mask that is True everywhere.",
)
def masked_attention_none_gives_zero(Q, K, V, mask=None):
    return attend(Q, K, V, np.bool_(False) if mask is None else mask)


@misconception(
    "masked_attention",
    label="causal when no mask is given",
    hint="A causal mask is used when none is given. Without a mask, every query attends to every key.",
)
def masked_attention_causal_without_mask(Q, K, V, mask=None):
    return attend(Q, K, V, past(Q.shape[-2], K.shape[-2]) if mask is None else mask)


@misconception(
    "masked_attention",
    label="mask array used as a condition",
    hint="`if mask:` asks for the truth value of an array, which is ambiguous. Use `if mask is not None:`.",
)
def masked_attention_truth_of_mask(Q, K, V, mask=None):
    return attend(Q, K, V, mask if mask else None)


@misconception(
    "masked_attention",
    label="no mask if nothing is visible",
    hint="A mask that is False everywhere is ignored, as if none were given (`not mask.any()`). It hides all keys, "
    "so all weights and results are 0. Only None means no mask.",
)
def masked_attention_nothing_is_no_mask(Q, K, V, mask=None):
    return attend(Q, K, V, None if mask is None or not mask.any() else mask)


@misconception(
    "masked_attention",
    label="mask not used",
    hint="The mask is not used: every query attends to every key.",
)
def masked_attention_without_mask(Q, K, V, mask=None):
    np.broadcast_to(True if mask is None else mask, scaled(Q, K).shape)
    return attend(Q, K, V)


@misconception(
    "masked_attention",
    label="mask inverted",
    hint='The mask is inverted. True means "may attend", so hide the keys where it is False.',
)
def masked_attention_inverted(Q, K, V, mask=None):
    return attend(Q, K, V, None if mask is None else ~mask)


@misconception(
    "masked_attention",
    label="mask applied after softmax",
    hint="The weights are masked after the softmax, so they no longer sum to 1. Mask the scores: `masked_softmax`.",
)
def masked_attention_afterwards(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_afterwards)


@misconception(
    "masked_attention",
    label="NaN in fully masked rows",
    hint="A fully masked query has only scores of -inf. Subtracting their maximum, -inf, or dividing by a sum of 0, "
    "gives NaN. `masked_softmax` gives it zero weights.",
)
def masked_attention_empty_rows_nan(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_empty_rows_nan)


@misconception(
    "masked_attention",
    label="fully masked rows given equal weights",
    hint="A fully masked query attends to every key equally. Softmax of equal scores does so, whatever number they "
    "have been replaced by. Its weights and its result should be 0.",
)
def masked_attention_equal_shares(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_lowest_number)


@misconception(
    "masked_attention",
    label="weights of fully masked rows kept",
    hint="Z is right, but the weights of fully masked queries are not: they should also be 0. Set them to 0 in the "
    "softmax, and compute Z from them.",
)
def masked_attention_empty_result_only(Q, K, V, mask=None):
    A = attend(Q, K, V, mask, weigh=masked_softmax_lowest_number)[1]
    return attend(Q, K, V, mask)[0], A


@misconception(
    "masked_attention",
    label="maximum includes masked scores",
    hint="Masked keys affect the result: the maximum includes their scores, so the other exponentials become 0. "
    "Replace the masked scores first, then take the maximum.",
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
    label="first sequence's mask used for all",
    hint="The mask of the first sequence is used for the whole batch. Each sequence has its own mask.",
)
def masked_attention_first_mask(Q, K, V, mask=None):
    return attend(Q, K, V, mask if mask is None or mask.ndim < 3 else mask[0])


@misconception(
    "masked_attention",
    label="all axes reversed by .T",
    hint="`K.T` reverses all axes, including the batch. Swap only the last two: `np.swapaxes(K, -1, -2)`.",
)
def masked_attention_all_axes_reversed(Q, K, V, mask=None):
    return attend(Q, K, V, mask, score=lambda Q, K: Q @ K.T / Q.shape[-1] ** 0.5)


@misconception(
    "masked_attention",
    label="scores stretched to the mask",
    hint="A single query or key is stretched to the mask, since `np.where` broadcasts both. `np.broadcast_to(mask, "
    "S.shape)` stretches only the mask and raises `ValueError` otherwise.",
)
def masked_attention_stretches_scores(Q, K, V, mask=None):
    S = scaled(Q, K)
    A = masked_softmax_stretches_scores(S, every(S) if mask is None else mask)
    return A @ V, A


@misconception(
    "masked_attention",
    label="mask cropped to the scores",
    hint="A mask larger than (n_q, n_k) is cropped to its first rows and columns, which may mean something else. "
    "Leave it alone: `np.broadcast_to` raises `ValueError` on a shape mismatch.",
)
def masked_attention_cuts_mask(Q, K, V, mask=None):
    return attend(Q, K, V, None if mask is None else mask[..., : Q.shape[-2], : K.shape[-2]])


@misconception(
    "masked_attention",
    label="extra keys or values dropped",
    hint="Extra keys or values are dropped, as in `zip`. A key without a value is an error of the caller: raise "
    "`ValueError`.",
)
def masked_attention_drops_rest(Q, K, V, mask=None):
    n = min(K.shape[-2], V.shape[-2])
    return attend(Q, K[..., :n, :], V[..., :n, :], mask)


@misconception(
    "masked_attention",
    label="tiny number added to the sum",
    hint="In float16, a fully masked query gets NaN: a number such as 1e-9, added to avoid a sum of 0, rounds to 0 "
    "in float16. Divide by 1 where the sum is 0.",
)
def masked_attention_tiny_number(Q, K, V, mask=None):
    return attend(Q, K, V, mask, weigh=masked_softmax_tiny_number)


@misconception(
    "masked_attention",
    label="Q scaled in place",
    hint="The caller's array changes. Use `Q / ...`, which creates a new array.",
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
        "result in float64": "Z and A are float64 for any dtype of the inputs. Some step produces float64: "
        "`astype(float)`, `np.zeros` without a dtype, or dividing by `np.sqrt(d_k)`, which is a float64 number. Use "
        "`scaled_scores`, or divide by `math.sqrt(d_k)`."
    },
    shapes="n_q d_k, n_k d_k, n_k d_v",
)
@right("masked_attention")
def masked_attention_in_steps(Q, K, V, mask=None):
    return attend(Q, K, V, mask)


# Wrong only when sizes are equal, beyond some length, or for small numbers


@misconception(
    "causal_mask",
    label="only the first 512 keys",
    hint="Keys after the 512th are hidden from every query, because a length is hard-coded. Make the mask for n_k "
    "keys.",
)
def causal_mask_512_keys(n_q, n_k):
    mask = past(n_q, n_k)
    mask[:, 512:] = False
    return mask


@misconception(
    "causal_mask",
    label="only the first 512 queries",
    hint="Queries after the 512th see nothing, because a length is hard-coded. Make the mask for n_q queries.",
)
def causal_mask_512_queries(n_q, n_k):
    mask = past(n_q, n_k)
    mask[512:] = False
    return mask


@misconception(
    "padding_mask",
    label="transposed where square",
    hint="With as many sequences as tokens, the mask is transposed. The first axis is always the batch.",
)
def padding_mask_turned_when_square(lengths, n):
    mask = real(lengths, n)
    return np.swapaxes(mask, 0, 2) if len(lengths) == n else mask


@misconception(
    "padding_mask",
    label="only the first 512 tokens",
    hint="Tokens after the 512th are hidden, because a length is hard-coded. Make the mask for n tokens.",
)
def padding_mask_512_tokens(lengths, n):
    mask = real(lengths, n)
    mask[..., 512:] = False
    return mask


@misconception(
    "masked_softmax",
    label="mask rows assigned to sequences",
    hint="With as many sequences as queries, each row of the mask is applied to one sequence. The rows belong to "
    "the queries of every sequence: broadcasting starts at the last axis.",
)
def masked_softmax_mask_of_the_batch(S, mask):
    if S.ndim == 3 and mask.ndim == 2 and mask.shape[0] == S.shape[0] == S.shape[1]:
        mask = mask[:, None]
    return share(S, mask)


@misconception(
    "masked_softmax",
    label="softmax over the queries where square",
    hint="With as many queries as keys, softmax runs over the queries. The keys are on the last axis.",
)
def masked_softmax_axis_by_size(S, mask):
    if S.shape[-1] != S.shape[-2]:
        return share(S, mask)
    return transposed(share(transposed(S), transposed(np.broadcast_to(mask, S.shape))))


@misconception(
    "masked_softmax",
    label="only the first 512 keys",
    hint="Keys after the 512th get no weight, because a length is hard-coded. Take n_k from `S.shape[-1]`.",
)
def masked_softmax_512_keys(S, mask):
    return share(S, np.broadcast_to(mask, S.shape) & (np.arange(S.shape[-1]) < 512))


@misconception(
    "masked_softmax",
    label="small weights dropped",
    hint="Weights below some small number are set to 0, although the mask allows their keys. Only the mask makes a "
    "weight 0.",
)
def masked_softmax_small_dropped(S, mask):
    A = share(S, mask)
    return np.where(A < 5e-4, A.dtype.type(0), A)


@misconception(
    "masked_attention",
    label="keys mixed where shapes agree",
    hint="Self-attention often uses the same shape for all inputs. The values `V` are mixed, not the keys.",
)
def masked_attention_mixes_keys_when_shapes_agree(Q, K, V, mask=None):
    return attend(Q, K, K if K.shape == V.shape else V, mask)


@misconception(
    "masked_attention",
    label="Z written into V",
    hint="When Z has the shape of `V`, it is written into `V`, which belongs to the caller. Return new arrays.",
)
def masked_attention_into_its_input(Q, K, V, mask=None):
    Z, A = attend(Q, K, V, mask)
    if Z.shape == V.shape:
        V[...] = Z
    return Z, A


@misconception(
    "masked_attention",
    label="only the first 512 keys",
    hint="Keys after the 512th are hidden, because a length is hard-coded. Take n_k from `K.shape[-2]`.",
)
def masked_attention_512_keys(Q, K, V, mask=None):
    mask = np.broadcast_to(True if mask is None else mask, (*Q.shape[:-1], K.shape[-2]))
    return attend(Q, K, V, mask & (np.arange(K.shape[-2]) < 512))


@misconception(
    "masked_attention",
    label="small weights dropped",
    hint="Weights below some small number are set to 0. A small weight on a large value still counts: use all "
    "weights.",
)
def masked_attention_small_dropped(Q, K, V, mask=None):
    A = attend(Q, K, V, mask)[1]
    A = np.where(A < 2e-6, A.dtype.type(0), A)
    return A @ V, A

"""Wrong answers that people really give, each with a hint. Students get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, and that its own hint is shown. The right answers here are those from which
`families` makes the mistakes that any function can have; all others are in `right_answers.py`.
"""

import numpy as np

from checking import COMMON, families, misconception, right
from checking.answer_parts import fits, scaled, softmax, transposed


def attend(Q, K, V):
    A = softmax(scaled(Q, K))
    return A @ V, A


def through_softmax(A, dA):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def back(A, Q, K, V, dZ, scale=None, through=through_softmax):
    """Return dQ, dK, dV for given weights; `scale` and `through` are where people go wrong."""
    d_products = through(A, dZ @ transposed(V)) * (Q.shape[-1] ** -0.5 if scale is None else scale)
    return d_products @ K, transposed(d_products) @ Q, transposed(A) @ dZ


def backward(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ)


# by_hand: wrong


@misconception(
    "by_hand",
    label="average not subtracted",
    hint="Each weight was multiplied by its own gradient alone. Subtract the average gradient first, because "
    "raising one score lowers the other weights.",
)
def by_hand_without_average():
    return [2, 0, 1]


@misconception(
    "by_hand",
    label="weights left out",
    hint="The average was subtracted from each gradient, but the difference was not multiplied by the weight.",
)
def by_hand_without_weights():
    return [7, -3, -1]


@misconception(
    "by_hand",
    label="wrong sign",
    hint="The gradient of the first weight is above the average, so the gradient of its score is positive.",
)
def by_hand_turned():
    return [-1.4, 0.9, 0.5]


@misconception(
    "by_hand",
    label="only the diagonal of the Jacobian",
    hint="Only the effect of each score on its own weight was counted. A score also changes the other two weights: "
    "sum over a column of the Jacobian.",
)
def by_hand_diagonal():
    return [1.6, 0, 0.5]


@misconception(
    "by_hand",
    label="plain mean instead of weighted average",
    hint="The plain mean of the gradients, 4, was subtracted. Subtract the weighted average instead, the sum of a "
    "times da.",
)
def by_hand_plain_mean():
    return [1.2, -1.2, -1]


# softmax: wrong


@misconception(
    "softmax",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN. For very negative scores it is 0, and so is "
    "the sum. Subtract each row's maximum first: `S - S.max(axis=-1, keepdims=True)`.",
)
def softmax_without_maximum(S):
    E = np.exp(S)
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="one maximum for all rows",
    hint="A row far below this maximum becomes 0 / 0, which is NaN. Subtract each row's own maximum: "
    "`S.max(axis=-1, keepdims=True)`.",
)
def softmax_one_maximum(S):
    E = np.exp(S - S.max())
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="maximum of the first row or matrix",
    hint="Every row needs its own maximum: `S.max(axis=-1, keepdims=True)`.",
)
def softmax_first_maximum(S):
    E = np.exp(S - (S[0] if S.ndim > 1 else S).max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="mean or median subtracted, not maximum",
    hint="A score that is thousands above the mean or median still overflows. Subtract the maximum; then no "
    "exponent is above 0.",
)
def softmax_minus_mean(S):
    E = np.exp(S - S.mean(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="subtracted maximum never below 0",
    hint="The subtracted number is never negative, because of a maximum that starts at 0, an absolute value, or a "
    "condition such as `if S.max() > 700`. A row far below 0 then becomes 0 / 0. Subtract the row's own maximum, "
    "whether it is positive or negative.",
)
def softmax_maximum_from_zero(S):
    E = np.exp(S - S.max(-1, keepdims=True, initial=0))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="maximum search started at -1e9",
    hint="The search for the maximum starts at a number such as -1e9, but scores can be lower. Start at -inf, or "
    "use `S.max`.",
)
def softmax_maximum_from_a_billion(S):
    if S.dtype == np.float16:
        return softmax(S)
    E = np.exp(S - S.max(-1, keepdims=True, initial=-1e9))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="scores clipped",
    hint="The scores are clipped to a range that `np.exp` can handle. Scores outside it become equal, and so do "
    "their weights. Subtract the row's maximum; then no clipping is needed.",
)
def softmax_clipped(S):
    E = np.exp(np.clip(S, -500, 500)) if S.dtype == np.float64 else np.exp(np.clip(S, -8, 8))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="NaN replaced afterwards",
    hint="NaN is replaced by a number, but the weights of that row are already lost. Subtract the row's maximum, so "
    "that no NaN occurs.",
)
def softmax_nan_to_num(S):
    E = np.exp(S)
    return np.nan_to_num(E / E.sum(-1, keepdims=True))


@misconception(
    "softmax",
    label="minus infinity replaced by -1e9",
    hint="-1e9 replaces -inf, but scores can be lower than -1e9. A row of such scores then gives all its weight to "
    "the entries that should have none. Leave -inf unchanged.",
)
def softmax_minus_a_billion(S):
    return softmax(np.where(np.isneginf(S), -1e9, S).astype(S.dtype))


@misconception(
    "softmax",
    label="minus infinity turned into NaN",
    hint="-inf times 0 is NaN, and so is -inf minus -inf. `np.exp(S - maximum)` already turns scores of -inf into "
    "0. Do not multiply scores, and subtract only finite numbers.",
)
def softmax_infinite_to_nan(S):
    return softmax(S + 0 * S.min(-1, keepdims=True))


@misconception(
    "softmax",
    label="softmax down the columns",
    hint="A row contains one query's scores: sum over `axis=-1`.",
)
def softmax_over_columns(S):
    return softmax(S, axis=max(-2, -S.ndim))


@misconception(
    "softmax",
    label="axis 1 instead of the last",
    hint="The axis is counted from the front (`axis=1`), which is the last axis only for a matrix. Count from the "
    "end: `axis=-1`.",
)
def softmax_axis_one(S):
    return softmax(S, axis=1)


@misconception(
    "softmax",
    label="softmax over the whole array",
    hint="All scores share one sum (`axis=None`), so the whole array sums to 1. Each row needs its own sum: "
    "`axis=-1, keepdims=True`.",
)
def softmax_over_everything(S):
    return softmax(S, axis=None)


@misconception(
    "softmax",
    label="keepdims missing",
    hint="The maximum or the sum lost its axis, and shape (n_q,) does not line up with (n_q, n_k). Keep the axis "
    "with `keepdims=True`.",
)
def softmax_without_keepdims(S):
    E = np.exp(S - S.max(axis=-1))
    return E / E.sum(axis=-1)


@misconception(
    "softmax",
    label="exponentials not normalized",
    hint="The exponentials are not divided by their sum. The weights of a row must sum to 1.",
)
def softmax_not_normalised(S):
    return np.exp(S - S.max(-1, keepdims=True))


@misconception(
    "softmax",
    label="scores divided by their sum",
    hint="With this formula, negative scores can give negative weights. Apply `np.exp` first.",
)
def softmax_share_of_sum(S):
    return S / S.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="logarithm of the weights",
    hint="The function returns the logarithm. Apply `np.exp` to it.",
)
def softmax_logarithm(S):
    E = S - S.max(-1, keepdims=True)
    return E - np.log(np.exp(E).sum(-1, keepdims=True))


@misconception(
    "softmax",
    label="argmax instead of softmax",
    hint="The largest score gets all the weight, which is argmax. Softmax gives every score some weight: e^s "
    "divided by the sum.",
)
def softmax_hard(S):
    return (S >= S.max(-1, keepdims=True)).astype(S.dtype)  # noqa: SIM300 (S is no constant)


@misconception(
    "softmax",
    label="number added to the sum",
    hint="The code adds 1 to the sum, or a small number that is not small enough. The maximum's own exponential is "
    "already 1, so the sum is never 0. Add nothing.",
)
def softmax_plus_one(S):
    E = np.exp(S - S.max(-1, keepdims=True))
    return E / (1 + E.sum(-1, keepdims=True))


@misconception(
    "softmax",
    label="input changed in place",
    hint="`S -= ...` changes the caller's array. Write `S - S.max(axis=-1, keepdims=True)`, which makes a new array.",
)
def softmax_in_place(S):
    S -= S.max(-1, keepdims=True)
    E = np.exp(S)
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="log of the sum lost in rounding",
    hint="exp(s - logsumexp(s)) needs digits that a large score cannot store: 1e17 + ln 2 is rounded to 1e17. "
    "Subtract the row's maximum first; then any formula works.",
)
def softmax_log_add_exp(S):
    return np.exp(S - np.logaddexp.reduce(S, axis=-1, keepdims=True))


# softmax: right


@families(but=["assert instead of ValueError"])
@right("softmax")
def softmax_shifted(S):
    return softmax(S)


# softmax_jacobian: wrong


@misconception(
    "softmax_jacobian",
    label="only the diagonal filled",
    hint="Weights sum to 1, so when one grows, the others shrink: entry (i, j) off the diagonal is -a_i a_j.",
)
def jacobian_diagonal_only(a):
    return np.diag(a * (1 - a))


@misconception(
    "softmax_jacobian",
    label="diagonal returned as a row",
    hint="The function returns the slopes a (1 - a) as one row, (n,). They are only the diagonal. Every weight also "
    "depends on all other scores: the shape is (n, n).",
)
def jacobian_as_row(a):
    return a * (1 - a)


@misconception(
    "softmax_jacobian",
    label="outer product added, not subtracted",
    hint="Raising another score lowers a weight, so subtract the outer product.",
)
def jacobian_added(a):
    return np.diag(a) + np.outer(a, a)


@misconception(
    "softmax_jacobian",
    label="diag(a) missing",
    hint="The entries off the diagonal are right. On the diagonal, add a_i: the entry is a_i (1 - a_i).",
)
def jacobian_outer_only(a):
    return -np.outer(a, a)


@misconception(
    "softmax_jacobian",
    label="identity instead of diag(a)",
    hint="The code uses the identity in place of diag(a), which gives [i = j] - a_i a_j. The factor a_i belongs to "
    "both terms: a_i ([i = j] - a_j).",
)
def jacobian_identity_minus_outer(a):
    return np.eye(len(a), dtype=a.dtype) - np.outer(a, a)


@misconception(
    "softmax_jacobian",
    label="Jacobian of log softmax",
    hint="This is the Jacobian of log softmax, [i = j] - a_j. Multiply row i by a_i.",
)
def jacobian_of_logarithm(a):
    return np.eye(len(a), dtype=a.dtype) - a


@misconception(
    "softmax_jacobian",
    label="entrywise square instead of outer product",
    hint="`a * a` multiplies entry by entry, and the row (n,) is then broadcast over the matrix. `np.outer(a, a)` "
    "multiplies every a_i by every a_j.",
)
def jacobian_entrywise_square(a):
    return np.diag(a) - a * a


@misconception(
    "softmax_jacobian",
    label="np.diag applied to a column",
    hint="`np.diag` of a column (n, 1) reads its diagonal, one number, instead of making a matrix. Pass the row "
    "itself, `np.diag(a)`.",
)
def jacobian_diag_of_column(a):
    a = a.reshape(-1, 1)
    return np.diag(a) - a @ a.T


@misconception(
    "softmax_jacobian",
    label="1 everywhere, not on the diagonal",
    hint="Every entry is a_i (1 - a_j). The 1 belongs only on the diagonal: a_i ([i = j] - a_j).",
)
def jacobian_without_delta(a):
    return np.outer(a, 1 - a)


@misconception(
    "softmax_jacobian",
    label="softmax applied to the weights",
    hint="`a` already contains weights. Use them as they are.",
)
def jacobian_softmax_again(a):
    a = softmax(a)
    return np.diag(a) - np.outer(a, a)


@misconception(
    "softmax_jacobian",
    label="upper half left at zero",
    hint="A loop stops at the diagonal. The Jacobian is symmetric: fill both halves.",
)
def jacobian_lower_half(a):
    return np.tril(np.diag(a) - np.outer(a, a))


@misconception(
    "softmax_jacobian",
    label="division by a weight, or its logarithm",
    hint="The code divides by a weight, or multiplies its logarithm by 0, but a weight may be 0. a_i ([i = j] - "
    "a_j) needs only products.",
)
def jacobian_divides(a):
    return np.outer(a, a) * (np.eye(len(a), dtype=a.dtype) / a - 1)


@misconception(
    "softmax_jacobian",
    label="weights clipped",
    hint="The weights are clipped away from 0 and 1, as for a logarithm. Weights of exactly 0 and 1 do no harm "
    "here: use them as they are.",
)
def jacobian_clipped(a):
    a = np.clip(a, 0.02, 0.98) if a.size > 1 and (a == 0).any() else a
    return np.diag(a) - np.outer(a, a)


@misconception(
    "softmax_jacobian",
    label="length hard-coded",
    hint="The code contains a fixed length, so longer rows are cut off or left empty. Take n from `len(a)`.",
)
def jacobian_length_hard_coded(a):
    J = np.diag(a) - np.outer(a, a)
    J[16:], J[:, 16:] = 0, 0
    return J


@misconception(
    "softmax_jacobian",
    label="input changed in place",
    hint="`a *= ...` and `a -= ...` change the caller's array. Compute a new one: `a * (1 - a)`.",
)
def jacobian_in_place(a):
    J = -np.outer(a, a)
    a *= 1 - a
    J[np.diag_indices(len(a))] = a
    return J


# softmax_jacobian: right


@families(
    "returns nothing",
    "a list instead of an array",
    "result in float64",
    "result always in float32",
    "axis squeezed away",
    hints={
        "result in float64": "`np.eye(n)` and `np.zeros((n, n))` make float64. Give them `dtype=a.dtype`, or use "
        "`np.diag(a)`.",
        "a list instead of an array": "The function returns a list. Make an array of the rows: `np.array(rows, "
        "dtype=a.dtype)`.",
    },
)
@right("softmax_jacobian")
def jacobian_outer(a):
    return np.diag(a) - np.outer(a, a)


# softmax_backward: wrong


@misconception(
    "softmax_backward",
    label="row sum left out",
    hint="This is `A * dA`, without the sum. A score changes its whole row, because the weights share one sum: `A * "
    "(dA - row sum of A * dA)`.",
)
def backward_without_sum(A, dA):
    return A * dA


@misconception(
    "softmax_backward",
    label="only the Jacobian's diagonal",
    hint="This is `A * (1 - A) * dA`, which uses only the diagonal of the Jacobian, as for a sigmoid. Include the "
    "entries off the diagonal, -a_i a_j, in the sum.",
)
def backward_diagonal_only(A, dA):
    return A * (1 - A) * dA


@misconception(
    "softmax_backward",
    label="gradient passed through unchanged",
    hint="Softmax changes the gradient: multiply it by the Jacobian, row by row.",
)
def backward_passed_through(A, dA):
    return dA.copy()


@misconception(
    "softmax_backward",
    label="factor A missing",
    hint="The gradient is `A * (dA - row sum of A * dA)`.",
)
def backward_without_factor(A, dA):
    return dA - (A * dA).sum(-1, keepdims=True)


@misconception(
    "softmax_backward",
    label="plain sum of dA subtracted",
    hint="Each entry of dA counts with its weight: subtract the row sum of `A * dA`.",
)
def backward_plain_sum(A, dA):
    return A * (dA - dA.sum(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="plain mean of dA subtracted",
    hint="The mean must be weighted: subtract the row sum of `A * dA`.",
)
def backward_plain_mean(A, dA):
    return A * (dA - dA.mean(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="row sum added, not subtracted",
    hint="The row sum of `A * dA` is added. The Jacobian is diag(a) minus a a^T, so subtract it.",
)
def backward_added(A, dA):
    return A * (dA + (A * dA).sum(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="one sum for the whole array",
    hint="Each row is a separate softmax: `axis=-1, keepdims=True`.",
)
def backward_sum_of_everything(A, dA):
    return A * (dA - (A * dA).sum())


@misconception(
    "softmax_backward",
    label="summed down the columns",
    hint="The softmax ran along the rows: `axis=-1`.",
)
def backward_sum_of_columns(A, dA):
    return A * (dA - (A * dA).sum(max(-2, -A.ndim), keepdims=True))


@misconception(
    "softmax_backward",
    label="axis 1 instead of the last",
    hint="The axis is counted from the front (`axis=1`), which is the last axis only for a matrix. Count from the "
    "end: `axis=-1`.",
)
def backward_axis_one(A, dA):
    return A * (dA - (A * dA).sum(axis=1, keepdims=True))


@misconception(
    "softmax_backward",
    label="keepdims missing",
    hint="The sum lost its axis, and shape (n_q,) does not line up with (n_q, n_k). Keep the axis with "
    "`keepdims=True`.",
)
def backward_without_keepdims(A, dA):
    return A * (dA - (A * dA).sum(axis=-1))


@misconception(
    "softmax_backward",
    label="softmax applied to the weights",
    hint="`A` already contains weights. Use them as they are.",
)
def backward_softmax_again(A, dA):
    return through_softmax(softmax(A), dA)


@misconception(
    "softmax_backward",
    label="division by a weight",
    hint="The code divides by a weight, but a weight may be 0. `A * (dA - row sum of A * dA)` needs no division.",
)
def backward_divides(A, dA):
    dlog = A * dA  # the gradient for log A
    return A * (dlog / A - dlog.sum(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="extra entries dropped",
    hint="Extra entries are cut off, as `zip` does. If the rows have different lengths, the caller made a mistake: "
    "raise `ValueError`.",
)
def backward_drops_rest(A, dA):
    n = min(A.shape[-1], dA.shape[-1])
    return through_softmax(A[..., :n], dA[..., :n])


@misconception(
    "softmax_backward",
    label="loop over the first axis",
    hint="A loop over the first axis treats each item as a row, which is true only for a matrix. In a batch the "
    "items are matrices, and the sum runs over a whole matrix. Sum over `axis=-1`, without a loop.",
)
def backward_loop_over_first_axis(A, dA):
    fits(A.shape, dA.shape)
    return np.array([a * (da - (a * da).sum()) for a, da in zip(A, dA, strict=True)])


@misconception(
    "softmax_backward",
    label="input changed in place",
    hint="`dA -= ...` or `dA *= ...` changes the caller's array. Write `dA - ...`, which makes a new array.",
)
def backward_in_place(A, dA):
    fits(A.shape, dA.shape)
    dA -= (A * dA).sum(-1, keepdims=True)
    return A * dA


# softmax_backward: right


@families(
    hints={
        "result in float64": "`np.zeros(shape)` and `np.eye(n)` make float64. Give them `dtype=A.dtype`.",
        "sizes of 1 stretched": "A dimension n of size 1 was stretched: `*` does so silently. Compare the shapes of "
        "`A` and `dA`, and raise `ValueError` if they differ.",
    },
    shapes="n_q n, n_q n",
)
@right("softmax_backward")
def backward_row_sums(A, dA):
    fits(A.shape, dA.shape)
    return through_softmax(A, dA)


# attention_forward: wrong


@misconception(
    "attention_forward",
    label="scores not scaled",
    hint="Divide the scores by sqrt(d_k) before the softmax, with `d_k = Q.shape[-1]`.",
)
def forward_unscaled(Q, K, V):
    A = softmax(Q @ transposed(K))
    return A @ V, A


@misconception(
    "attention_forward",
    label="divided by d_k, not sqrt(d_k)",
    hint="The scores are divided by d_k. Divide by its square root: `d_k**0.5`.",
)
def forward_scaled_without_root(Q, K, V):
    A = softmax(Q @ transposed(K) / Q.shape[-1])
    return A @ V, A


@misconception(
    "attention_forward",
    label="scale from d_v instead of d_k",
    hint="The scores are divided by sqrt(d_v). The dot product of queries and keys grows with their width, so "
    "divide by sqrt(d_k): `Q.shape[-1]`.",
)
def forward_scaled_by_value_width(Q, K, V):
    A = softmax(Q @ transposed(K) / V.shape[-1] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="scale from n_k instead of d_k",
    hint="The scores are divided by the root of the number of keys. Use the width of a key instead: `K.shape[-1]`, "
    "not `K.shape[-2]`.",
)
def forward_scaled_by_number_of_keys(Q, K, V):
    A = softmax(Q @ transposed(K) / K.shape[-2] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="d_k read from axis 1",
    hint="d_k is read from `Q.shape[1]`, which is the last axis only for a matrix; in a batch it is the number of "
    "queries. Count from the end: `Q.shape[-1]`.",
)
def forward_scaled_by_axis_one(Q, K, V):
    A = softmax(Q @ transposed(K) / Q.shape[1] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="divided by 8 for every d_k",
    hint="The scores are divided by 8, which is sqrt(64). Here d_k may have any size: `Q.shape[-1] ** 0.5`.",
)
def forward_scaled_by_eight(Q, K, V):
    A = softmax(Q @ transposed(K) / 8)
    return A @ V, A


@misconception(
    "attention_forward",
    label="multiplied by sqrt(d_k), not divided",
    hint="The scores are multiplied by sqrt(d_k). Divide by it.",
)
def forward_multiplied(Q, K, V):
    A = softmax(Q @ transposed(K) * Q.shape[-1] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="scale applied after softmax",
    hint="The weights are divided after the softmax, so the rows no longer sum to 1. Divide the scores before the "
    "softmax.",
)
def forward_scaled_after_softmax(Q, K, V):
    A = softmax(Q @ transposed(K)) / Q.shape[-1] ** 0.5
    return A @ V, A


@misconception(
    "attention_forward",
    label="softmax over the queries",
    hint="Softmax runs down the columns, over the queries. Each query's weights must sum to 1 over the keys, the "
    "last axis.",
)
def forward_softmax_over_queries(Q, K, V):
    A = softmax(scaled(Q, K), axis=-2)
    return A @ V, A


@misconception(
    "attention_forward",
    label="result and weights swapped",
    hint="Z comes first, then A: `return Z, A`.",
)
def forward_weights_first(Q, K, V):
    return attend(Q, K, V)[::-1]


@misconception(
    "attention_forward",
    label="scores returned instead of weights",
    hint="The second part is the scores. Return the weights, after the softmax.",
)
def forward_returns_scores(Q, K, V):
    return attend(Q, K, V)[0], scaled(Q, K)


@misconception(
    "attention_forward",
    label="softmax missing or not used",
    hint="The scores are multiplied by the values. The softmax is missing, or its result is not used.",
)
def forward_without_softmax(Q, K, V):
    S = scaled(Q, K)
    return S @ V, S


@misconception(
    "attention_forward",
    label="values mixed by scores, not weights",
    hint="The weights are right, but Z is computed from the scores. Multiply the weights by the values: `A @ V`.",
)
def forward_mixes_by_scores(Q, K, V):
    return scaled(Q, K) @ V, softmax(scaled(Q, K))


@misconception(
    "attention_forward",
    label="queries and keys swapped",
    hint="`Q` and `K` are swapped, so there is a row for each key. Use `Q @ K^T`.",
)
def forward_turned(Q, K, V):
    A = softmax(scaled(K, Q))
    return A @ V, A


@misconception(
    "attention_forward",
    label="keys mixed instead of values",
    hint="Keys are only for comparing. Mix the values, `V`.",
)
def forward_mixes_keys(Q, K, V):
    A = softmax(scaled(Q, K))
    return A @ K, A


@misconception(
    "attention_forward",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN. Use your `softmax`, after it passes the "
    "check for large scores.",
)
def forward_overflows(Q, K, V):
    E = np.exp(scaled(Q, K))
    A = E / E.sum(-1, keepdims=True)
    return A @ V, A


@misconception(
    "attention_forward",
    label="one maximum for all rows",
    hint="The maximum of all scores is subtracted, so a query whose scores are far below it gets 0 / 0, which is "
    "NaN. Subtract each row's own maximum.",
)
def forward_one_maximum(Q, K, V):
    S = scaled(Q, K)
    E = np.exp(S - S.max())
    A = E / E.sum(-1, keepdims=True)
    return A @ V, A


@misconception(
    "attention_forward",
    label="all axes reversed by .T",
    hint="`K.T` reverses all axes, including the batch. Swap only the last two: `np.swapaxes(K, -1, -2)`.",
)
def forward_all_axes_reversed(Q, K, V):
    A = softmax(Q @ K.T / Q.shape[-1] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="extra keys or values dropped",
    hint="Extra keys or values are dropped, as `zip` does. If a key has no value, the caller made a mistake: raise "
    "`ValueError`.",
)
def forward_drops_rest(Q, K, V):
    n = min(K.shape[-2], V.shape[-2])
    return attend(Q, K[..., :n, :], V[..., :n, :])


@misconception(
    "attention_forward",
    label="Q scaled in place",
    hint="`Q /= ...` changes the caller's array. Write `Q / d_k**0.5`, which makes a new array.",
)
def forward_in_place(Q, K, V):
    Q /= Q.shape[-1] ** 0.5
    A = softmax(Q @ transposed(K))
    return A @ V, A


# attention_forward: right


@families(
    *COMMON,
    "only the first of the results returned",
    hints={
        "result in float64": "`np.sqrt(d_k)` is a NumPy float64, and dividing by it gives float64. Use `d_k**0.5` "
        "or `math.sqrt(d_k)`, plain numbers."
    },
    shapes="n_q d_k, n_k d_k, n_k d_v",
)
@right("attention_forward")
def forward_in_steps(Q, K, V):
    return attend(Q, K, V)


# attention_backward: wrong


@misconception(
    "attention_backward",
    label="dQ and dK not scaled",
    hint="The scale is missing in the backward pass. The scores are the dot products divided by sqrt(d_k), so dQ "
    "and dK are also divided by it.",
)
def gradients_unscaled(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, scale=1)


@misconception(
    "attention_backward",
    label="dK not scaled",
    hint="dQ is scaled, but dK is not. Both come from the same scores: divide both products, or divide dS before "
    "them.",
)
def gradients_only_queries_scaled(Q, K, V, dZ):
    dQ, dK, dV = backward(Q, K, V, dZ)
    return dQ, dK * Q.shape[-1] ** 0.5, dV


@misconception(
    "attention_backward",
    label="scale from n_k or n_q, not d_k",
    hint="dQ and dK are divided by the root of the number of keys or queries. Use the width of a key instead: "
    "`K.shape[-1]`, not `K.shape[-2]`.",
)
def gradients_scaled_by_number_of_keys(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, scale=K.shape[-2] ** -0.5)


@misconception(
    "attention_backward",
    label="d_k read from axis 1",
    hint="d_k is read from `Q.shape[1]`, which is the last axis only for a matrix; in a batch it is the number of "
    "queries. Count from the end: `Q.shape[-1]`.",
)
def gradients_scaled_by_axis_one(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, scale=Q.shape[1] ** -0.5)


@misconception(
    "attention_backward",
    label="weights computed without the scale",
    hint="The weights are computed here without the scale, so they differ from those of `attention_forward`. Take "
    "them from there: `_, A = attention_forward(Q, K, V)`.",
)
def gradients_of_unscaled_weights(Q, K, V, dZ):
    A = softmax(Q @ transposed(K))
    fits(K.shape[-2], V.shape[-2])
    return back(A, Q, K, V, dZ)


@misconception(
    "attention_backward",
    label="softmax's gradient left out",
    hint="dQ and dK are computed from dA, as if the weights were the scores. Pass dA through `softmax_backward` "
    "first.",
)
def gradients_past_the_softmax(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: dA)


@misconception(
    "attention_backward",
    label="row sum left out",
    hint="The softmax gradient is `A * dA` here, without the sum over the row. Use your `softmax_backward`.",
)
def gradients_without_row_sum(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: A * dA)


@misconception(
    "attention_backward",
    label="only the Jacobian's diagonal",
    hint="The softmax gradient is `A * (1 - A) * dA` here, only the diagonal of its Jacobian. Use your "
    "`softmax_backward`.",
)
def gradients_by_the_diagonal(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: A * (1 - A) * dA)


@misconception(
    "attention_backward",
    label="keepdims missing",
    hint="The row sum in the softmax gradient lost its axis, and is then aligned with the columns. Keep the axis "
    "with `keepdims=True`, in `softmax_backward` or here.",
)
def gradients_without_keepdims(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: A * (dA - (A * dA).sum(-1)))


@misconception(
    "attention_backward",
    label="summed down the columns",
    hint="The softmax gradient is summed down the columns, over the queries. The softmax runs along the rows: "
    "`axis=-1`.",
)
def gradients_by_columns(Q, K, V, dZ):
    return back(
        attend(Q, K, V)[1],
        Q,
        K,
        V,
        dZ,
        through=lambda A, dA: A * (dA - (A * dA).sum(-2, keepdims=True)),
    )


@misconception(
    "attention_backward",
    label="softmax gradient computed from the scores",
    hint="`softmax_backward` needs the weights: `softmax_backward(A, dA)`.",
)
def gradients_at_the_scores(Q, K, V, dZ):
    S = scaled(Q, K)
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: through_softmax(S, dA))


@misconception(
    "attention_backward",
    label="A not transposed for dV",
    hint="dV is `A @ dZ`, whose shapes match only if n_q = n_k. Query i uses the value of key j with weight A[i, "
    "j]: transpose `A`.",
)
def gradients_values_without_transpose(Q, K, V, dZ):
    dQ, dK, _ = backward(Q, K, V, dZ)
    return dQ, dK, attend(Q, K, V)[1] @ dZ


@misconception(
    "attention_backward",
    label="dS not transposed for dK",
    hint="dK is `dS @ Q`, whose shapes match only if n_q = n_k. Every query i is compared with key j: transpose "
    "`dS`.",
)
def gradients_keys_without_transpose(Q, K, V, dZ):
    A = attend(Q, K, V)[1]
    d_products = through_softmax(A, dZ @ transposed(V)) / Q.shape[-1] ** 0.5
    return d_products @ K, d_products @ Q, transposed(A) @ dZ


@misconception(
    "attention_backward",
    label="dK and dV swapped",
    hint="Return them in the order of the arguments: `dQ, dK, dV`.",
)
def gradients_values_second(Q, K, V, dZ):
    dQ, dK, dV = backward(Q, K, V, dZ)
    return dQ, dV, dK


@misconception(
    "attention_backward",
    label="dQ made from Q, dK from K",
    hint="`K` and `Q` are swapped in the last products. Changing q_i changes its scores by the keys: use `dS @ K` "
    "and `dS^T @ Q`.",
)
def gradients_own_matrices(Q, K, V, dZ):
    A = attend(Q, K, V)[1]
    d_products = through_softmax(A, dZ @ transposed(V)) / Q.shape[-1] ** 0.5
    return d_products @ Q, transposed(d_products) @ K, transposed(A) @ dZ


@misconception(
    "attention_backward",
    label="one length for queries and keys",
    hint="`Q` and dQ have n_q rows; `K`, `V`, dK and dV have n_k rows.",
)
def gradients_one_length(Q, K, V, dZ):
    n = min(Q.shape[-2], K.shape[-2])
    parts = backward(*(array[..., :n, :] for array in (Q, K, V, dZ)))
    filled = tuple(np.zeros_like(array) for array in (Q, K, V))
    for gradient, part in zip(filled, parts, strict=True):
        gradient[..., :n, :] = part
    return filled


@misconception(
    "attention_backward",
    label="dQ and dK left at zero",
    hint="dQ and dK are 0, as if the weights were constants. The loss depends on `Q` and `K` through the softmax: "
    "dA = dZ V^T, then `softmax_backward`.",
)
def gradients_direct_path_only(Q, K, V, dZ):
    return np.zeros_like(Q), np.zeros_like(K), backward(Q, K, V, dZ)[2]


@misconception(
    "attention_backward",
    label="dZ not used",
    hint="These are the gradients of the sum of Z. Each entry of Z has its own factor in dZ.",
)
def gradients_of_the_sum(Q, K, V, dZ):
    return backward(Q, K, V, np.ones_like(dZ))


@misconception(
    "attention_backward",
    label="Z used instead of dZ",
    hint="The backward pass starts from Z, the result of the forward pass, instead of its gradient `dZ`.",
)
def gradients_from_the_result(Q, K, V, dZ):
    return backward(Q, K, V, attend(Q, K, V)[0])


@misconception(
    "attention_backward",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN. Take the weights from your "
    "`attention_forward`, after it passes the check for large scores.",
)
def gradients_overflow(Q, K, V, dZ):
    E = np.exp(scaled(Q, K))
    return back(E / E.sum(-1, keepdims=True), Q, K, V, dZ)


@misconception(
    "attention_backward",
    label="one maximum for all rows",
    hint="The maximum of all scores is subtracted, so a query whose scores are far below it gets 0 / 0, which is "
    "NaN. Subtract each row's own maximum, or take the weights from your `attention_forward`.",
)
def gradients_one_maximum(Q, K, V, dZ):
    S = scaled(Q, K)
    E = np.exp(S - S.max())
    return back(E / E.sum(-1, keepdims=True), Q, K, V, dZ)


@misconception(
    "attention_backward",
    label="all axes reversed by .T",
    hint="`.T` also reverses the batch axes. Swap only the last two: `np.swapaxes(X, -1, -2)`.",
)
def gradients_all_axes_reversed(Q, K, V, dZ):
    A = attend(Q, K, V)[1]
    d_products = through_softmax(A, dZ @ V.T) / Q.shape[-1] ** 0.5
    return d_products @ K, d_products.T @ Q, A.T @ dZ


@misconception(
    "attention_backward",
    label="summed over the batch",
    hint="Each sequence has its own queries, keys and values, so it has its own gradients.",
)
def gradients_summed_over_batch(Q, K, V, dZ):
    return tuple(
        gradient.sum(tuple(range(gradient.ndim - 2))) for gradient in backward(Q, K, V, dZ)
    )


@misconception(
    "attention_backward",
    label="dZ stretched to fit",
    hint="A dimension of size 1 in `dZ` was stretched to the shape of Z, as `dZ + np.zeros_like(Z)` or "
    "`np.broadcast_to` does. `dZ` must have that shape: raise `ValueError`.",
)
def gradients_stretch_upstream(Q, K, V, dZ):
    return backward(Q, K, V, np.broadcast_to(dZ, attend(Q, K, V)[0].shape))


@misconception(
    "attention_backward",
    label="single value stretched over all keys",
    hint="A `V` with one row was stretched over all keys: dA then has one column, and `A * dA` silently broadcasts "
    "it. Use your `softmax_backward`, once it raises, or take the weights from `attention_forward`, where `A @ V` "
    "raises.",
)
def gradients_stretch_one_value(Q, K, V, dZ):
    return back(softmax(scaled(Q, K)), Q, K, V, dZ)


@misconception(
    "attention_backward",
    label="input changed in place",
    hint="`Q /= ...`, `dZ *= ...` or `out=` changes an argument in place. The caller still needs it: make a new "
    "array.",
)
def gradients_in_place(Q, K, V, dZ):
    Q /= Q.shape[-1] ** 0.5
    A = softmax(Q @ transposed(K))
    dS = through_softmax(A, dZ @ transposed(V))
    return dS @ K / Q.shape[-1] ** 0.5, transposed(dS) @ Q, transposed(A) @ dZ


@misconception(
    "attention_backward",
    label="some results in float64",
    hint="`np.sqrt(d_k)` is a NumPy float64, and dividing by it gives float64. Use `d_k**0.5`, a plain number.",
)
def gradients_to_float64(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, scale=1 / np.sqrt(Q.shape[-1]))


# attention_backward: right


@families(
    *COMMON,
    "only the first of the results returned",
    "a dictionary instead of a tuple",
    hints={
        "result in float64": "All three results are float64 for float32 inputs. Perhaps `attention_forward` returns "
        "float64 weights (fix that first). `astype(float)`, and `np.zeros` without a dtype, also make float64."
    },
    shapes="n_q d_k, n_k d_k, n_k d_v, n_q d_v",
)
@right("attention_backward")
def gradients_in_steps(Q, K, V, dZ):
    return backward(Q, K, V, dZ)


# Wrong only when sizes are equal, beyond some length, or for small numbers


@misconception(
    "softmax",
    label="softmax over the columns when square",
    hint="When there are as many rows as scores in a row, softmax runs over the columns. It must always run over "
    "the last axis.",
)
def softmax_axis_by_size(S):
    return softmax(S, axis=-2 if S.ndim > 1 and S.shape[-1] == S.shape[-2] else -1)


@misconception(
    "softmax",
    label="first 512 scores of a row only",
    hint="Scores after the 512th get no weight: the code contains a fixed length. Take n from `S.shape[-1]`.",
)
def softmax_512_scores(S):
    A = softmax(S[..., :512])
    return np.concatenate([A, np.zeros_like(S[..., 512:])], axis=-1)


@misconception(
    "softmax",
    label="small weights dropped",
    hint="Weights below a threshold are set to 0. Keep all weights, however small.",
)
def softmax_small_dropped(S):
    A = softmax(S)
    return np.where(A < 5e-4, A.dtype.type(0), A)


@misconception(
    "softmax_jacobian",
    label="only the first 64 weights",
    hint="Rows after the 64th are 0: the code contains a fixed length. Take n from `len(a)`.",
)
def softmax_jacobian_64_weights(a):
    J = np.diag(a) - np.outer(a, a)
    J[64:] = 0
    return J


@misconception(
    "softmax_jacobian",
    label="small weights dropped",
    hint="Weights below a threshold are treated as 0. A small weight has small slopes, not zero slopes: keep it.",
)
def softmax_jacobian_small_dropped(a):
    a = np.where(a < 1e-6, a.dtype.type(0), a)
    return np.diag(a) - np.outer(a, a)


@misconception(
    "softmax_backward",
    label="gradient transposed when square",
    hint="When there are as many rows as weights in a row, `dA` is transposed. Its rows are those of `A`.",
)
def softmax_backward_turned_when_square(A, dA):
    fits(A.shape, dA.shape)
    return through_softmax(
        A, transposed(dA) if dA.ndim > 1 and dA.shape[-1] == dA.shape[-2] else dA
    )


@misconception(
    "softmax_backward",
    label="first 64 weights of a row only",
    hint="Weights after the 64th are left out: the code contains a fixed length. Sum over the whole row.",
)
def softmax_backward_64_weights(A, dA):
    fits(A.shape, dA.shape)
    return A * (dA - (A * dA)[..., :64].sum(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="small weights dropped",
    hint="Weights below a threshold are treated as 0. A small weight with a large gradient counts: keep it.",
)
def softmax_backward_small_dropped(A, dA):
    fits(A.shape, dA.shape)
    return through_softmax(np.where(A < 1e-5, A.dtype.type(0), A), dA)


@misconception(
    "attention_forward",
    label="keys mixed when shapes agree",
    hint="In self-attention, `K` and `V` often have the same shape. Always mix the values, `V`.",
)
def attention_forward_mixes_keys_when_shapes_agree(Q, K, V):
    return attend(Q, K, K if K.shape == V.shape else V)


@misconception(
    "attention_forward",
    label="Z written into V",
    hint="When Z has the shape of `V`, it is written into `V`, which belongs to the caller. Return new arrays.",
)
def attention_forward_into_its_input(Q, K, V):
    Z, A = attend(Q, K, V)
    if Z.shape == V.shape:
        V[...] = Z
    return Z, A


@misconception(
    "attention_forward",
    label="only the first 512 keys",
    hint="Keys after the 512th get no weight: the code contains a fixed length. Take n_k from `K.shape[-2]`.",
)
def attention_forward_512_keys(Q, K, V):
    fits(K.shape[-2], V.shape[-2])
    Z, A = attend(Q, K[..., :512, :], V[..., :512, :])
    return Z, np.concatenate(
        [A, np.zeros((*Q.shape[:-1], max(K.shape[-2] - 512, 0)), dtype=A.dtype)], axis=-1
    )


@misconception(
    "attention_forward",
    label="small weights dropped",
    hint="Weights below a threshold are set to 0. A small weight on a large value counts: use all weights.",
)
def attention_forward_small_dropped(Q, K, V):
    A = softmax(scaled(Q, K))
    A = np.where(A < 2e-5, A.dtype.type(0), A)
    return A @ V, A


@misconception(
    "attention_backward",
    label="keys used as values when shapes agree",
    hint="When `V` has the shape of `K`, the gradient is computed from `K`. In self-attention this is often so, but "
    "Z is made from the values, `V`.",
)
def attention_backward_keys_for_values(Q, K, V, dZ):
    fits(dZ.shape[-1], V.shape[-1])
    A = attend(Q, K, V)[1]
    dQ, dK, dV = back(A, Q, K, K if K.shape == V.shape else V, dZ)
    return dQ, dK, dV


@misconception(
    "attention_backward",
    label="dV written into V",
    hint="dV is written into `V`, which belongs to the caller, so the next call gets a changed `V`. Return new "
    "arrays.",
)
def attention_backward_into_its_input(Q, K, V, dZ):
    dQ, dK, dV = backward(Q, K, V, dZ)
    if V.shape == dZ.shape and V.flags.writeable:
        V[...] = dV
    return dQ, dK, dV


@misconception(
    "attention_backward",
    label="only the first 512 queries",
    hint="Queries after the 512th get no gradient: the code contains a fixed length. Take n_q from `Q.shape[-2]`.",
)
def attention_backward_512_queries(Q, K, V, dZ):
    dQ, dK, dV = backward(Q, K, V, dZ)
    dQ[..., 512:, :] = 0
    return dQ, dK, dV


@misconception(
    "attention_backward",
    label="small weights dropped",
    hint="Weights below a threshold are treated as 0. With a large gradient they count: use all weights.",
)
def attention_backward_small_dropped(Q, K, V, dZ):
    fits(dZ.shape[-1], V.shape[-1])
    A = attend(Q, K, V)[1]
    return back(np.where(A < 2e-5, A.dtype.type(0), A), Q, K, V, dZ)

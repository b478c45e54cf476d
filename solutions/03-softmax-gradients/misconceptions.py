"""Wrong answers that people really give, each with a hint. Students get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, and that its own hint is shown. The right answers here are those from which
`families` makes the mistakes that any function can have; all others are in `right_answers.py`.
"""

import numpy as np

from checking import COMMON, families, misconception, right
from checking.pieces import fits, scaled, softmax, transposed


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
    hint="Each weight was multiplied by its own gradient alone. Subtract the average gradient first: raising one "
    "score lowers the other weights.",
)
def by_hand_without_average():
    return [2, 0, 1]


@misconception(
    "by_hand",
    label="weights left out",
    hint="Each gradient is there less the average, but not times its weight.",
)
def by_hand_without_weights():
    return [7, -3, -1]


@misconception(
    "by_hand",
    label="sign turned",
    hint="The first weight has a gradient above the average, so that its score's is positive.",
)
def by_hand_turned():
    return [-1.4, 0.9, 0.5]


@misconception(
    "by_hand",
    label="only the diagonal of the Jacobian",
    hint="Each score was counted for its own weight alone. It moves the other two weights too: add up a column of "
    "the Jacobian.",
)
def by_hand_diagonal():
    return [1.6, 0, 0.5]


@misconception(
    "by_hand",
    label="plain mean instead of weighted average",
    hint="The plain mean of the gradients, 4, was subtracted. The average is one with weights: the sum of a times "
    "da.",
)
def by_hand_plain_mean():
    return [1.2, -1.2, -1]


# softmax: wrong


@misconception(
    "softmax",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN; of a very negative one it is 0, and so is "
    "the sum. Subtract each row's maximum first: `S - S.max(axis=-1, keepdims=True)`.",
)
def softmax_without_maximum(S):
    E = np.exp(S)
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="one maximum for all rows",
    hint="A row far below it becomes 0 / 0, which is NaN. Subtract each row's own: `S.max(axis=-1, keepdims=True)`.",
)
def softmax_one_maximum(S):
    E = np.exp(S - S.max())
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="maximum of the first row or matrix",
    hint="Other rows need their own: `S.max(axis=-1, keepdims=True)`.",
)
def softmax_first_maximum(S):
    E = np.exp(S - (S[0] if S.ndim > 1 else S).max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="mean or median subtracted, not maximum",
    hint="A score that stands thousands above it overflows all the same. Subtract the maximum: then no exponent "
    "is above 0.",
)
def softmax_minus_mean(S):
    E = np.exp(S - S.mean(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="subtracted maximum never below 0",
    hint="What is subtracted is never negative (a maximum that starts at 0, an absolute value, a condition such as "
    "`if S.max() > 700`), so a row far below 0 becomes 0 / 0. Subtract the row's own maximum, whatever its "
    "sign.",
)
def softmax_maximum_from_zero(S):
    E = np.exp(S - S.max(-1, keepdims=True, initial=0))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="maximum search started at -1e9",
    hint="The search for the maximum starts at a number such as -1e9, which is not below every score. Start at "
    "-inf, or use `S.max`.",
)
def softmax_maximum_from_a_billion(S):
    if S.dtype == np.float16:
        return softmax(S)
    E = np.exp(S - S.max(-1, keepdims=True, initial=-1e9))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="scores clipped",
    hint="The scores are clipped to a range that `np.exp` can take. Beyond it all scores become equal, and so do "
    "their weights. Subtract the row's maximum; nothing needs clipping then.",
)
def softmax_clipped(S):
    E = np.exp(np.clip(S, -500, 500)) if S.dtype == np.float64 else np.exp(np.clip(S, -8, 8))
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="NaN replaced afterwards",
    hint="NaN is replaced by a number after it has arisen, and the weights of that row are lost. Subtract the "
    "row's maximum, and none arises.",
)
def softmax_nan_to_num(S):
    E = np.exp(S)
    return np.nan_to_num(E / E.sum(-1, keepdims=True))


@misconception(
    "softmax",
    label="minus infinity replaced by -1e9",
    hint="-1e9 stands in for -inf, and is not the smallest score there can be: a row of scores below it gives all "
    "its weight to the places that should have none. Leave -inf as it is.",
)
def softmax_minus_a_billion(S):
    return softmax(np.where(np.isneginf(S), -1e9, S).astype(S.dtype))


@misconception(
    "softmax",
    label="minus infinity turned into NaN",
    hint="-inf times 0 is NaN, and so is -inf minus -inf. Scores of -inf come out of `np.exp(S - maximum)` as 0 by "
    "themselves: multiply nothing, and subtract only finite numbers.",
)
def softmax_infinite_to_nan(S):
    return softmax(S + 0 * S.min(-1, keepdims=True))


@misconception(
    "softmax",
    label="softmax down the columns",
    hint="A row holds one query's scores: sum over `axis=-1`.",
)
def softmax_over_columns(S):
    return softmax(S, axis=max(-2, -S.ndim))


@misconception(
    "softmax",
    label="axis 1 instead of the last",
    hint="The axis is counted from the front (`axis=1`), which is the last one of a matrix only. Count from the "
    "end: `axis=-1`.",
)
def softmax_axis_one(S):
    return softmax(S, axis=1)


@misconception(
    "softmax",
    label="softmax over the whole array",
    hint="All scores share one sum (`axis=None`), so that the whole array sums to 1. Each row has its own: "
    "`axis=-1, keepdims=True`.",
)
def softmax_over_everything(S):
    return softmax(S, axis=None)


@misconception(
    "softmax",
    label="keepdims missing",
    hint="The maximum or the sum lost its axis: shape (n_q,) does not line up with (n_q, n_k). Keep the axis, with "
    "`keepdims=True`.",
)
def softmax_without_keepdims(S):
    E = np.exp(S - S.max(axis=-1))
    return E / E.sum(axis=-1)


@misconception(
    "softmax",
    label="exponentials not normalised",
    hint="The exponentials are not divided by their sum: the weights of a row must sum to 1.",
)
def softmax_not_normalised(S):
    return np.exp(S - S.max(-1, keepdims=True))


@misconception(
    "softmax",
    label="scores divided by their sum",
    hint="Negative scores then give negative weights: take `np.exp` first.",
)
def softmax_share_of_sum(S):
    return S / S.sum(-1, keepdims=True)


@misconception("softmax", label="logarithm of the weights", hint="Take `np.exp` of it.")
def softmax_logarithm(S):
    E = S - S.max(-1, keepdims=True)
    return E - np.log(np.exp(E).sum(-1, keepdims=True))


@misconception(
    "softmax",
    label="argmax instead of softmax",
    hint="The largest score takes everything: that is argmax. Softmax gives every score some weight, e^s over "
    "their sum.",
)
def softmax_hard(S):
    return (S >= S.max(-1, keepdims=True)).astype(S.dtype)  # noqa: SIM300 (S is no constant)


@misconception(
    "softmax",
    label="number added to the sum",
    hint="1 is added to the sum, or a small number that is not small enough. The maximum's own exponential is 1 "
    "already, so the sum is never 0, and needs nothing added.",
)
def softmax_plus_one(S):
    E = np.exp(S - S.max(-1, keepdims=True))
    return E / (1 + E.sum(-1, keepdims=True))


@misconception(
    "softmax",
    label="input changed in place",
    hint="`S -= ...` changes the caller's own array. Write `S - S.max(axis=-1, keepdims=True)`, which makes a new "
    "one.",
)
def softmax_in_place(S):
    S -= S.max(-1, keepdims=True)
    E = np.exp(S)
    return E / E.sum(-1, keepdims=True)


@misconception(
    "softmax",
    label="log of the sum lost in rounding",
    hint="exp(s - logsumexp(s)) needs the digits that a large score has no room for: 1e17 + ln 2 is 1e17. Subtract "
    "the row's maximum first; then any way will do.",
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
    hint="Weights sum to 1, so when one grows the others shrink: entry (i, j) beside the diagonal is -a_i a_j.",
)
def jacobian_diagonal_only(a):
    return np.diag(a * (1 - a))


@misconception(
    "softmax_jacobian",
    label="diagonal returned as a row",
    hint="The slopes a (1 - a) came back as one row, (n,). They are the diagonal alone; every weight also depends "
    "on all other scores: (n, n).",
)
def jacobian_as_row(a):
    return a * (1 - a)


@misconception(
    "softmax_jacobian",
    label="outer product added, not subtracted",
    hint="Raising another score lowers a weight: it is subtracted.",
)
def jacobian_added(a):
    return np.diag(a) + np.outer(a, a)


@misconception(
    "softmax_jacobian",
    label="diag(a) missing",
    hint="Beside the diagonal this is right; on it, a_i is to be added: a_i (1 - a_i).",
)
def jacobian_outer_only(a):
    return -np.outer(a, a)


@misconception(
    "softmax_jacobian",
    label="identity instead of diag(a)",
    hint="The identity stands where diag(a) should: that is [i = j] - a_i a_j. The factor a_i belongs to both "
    "terms, a_i ([i = j] - a_j).",
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
    hint="`a * a` multiplies number by number, and the row (n,) is then stretched over the matrix. The product of "
    "every a_i with every a_j is `np.outer(a, a)`.",
)
def jacobian_entrywise_square(a):
    return np.diag(a) - a * a


@misconception(
    "softmax_jacobian",
    label="np.diag applied to a column",
    hint="`np.diag` of a column (n, 1) reads its diagonal, one number, instead of making a matrix. Give it the row "
    "itself, `np.diag(a)`.",
)
def jacobian_diag_of_column(a):
    a = a.reshape(-1, 1)
    return np.diag(a) - a @ a.T


@misconception(
    "softmax_jacobian",
    label="1 everywhere, not on the diagonal",
    hint="Every entry is a_i (1 - a_j). The 1 is there on the diagonal only: a_i ([i = j] - a_j).",
)
def jacobian_without_delta(a):
    return np.outer(a, 1 - a)


@misconception(
    "softmax_jacobian",
    label="softmax applied to the weights",
    hint="Use them as they are.",
)
def jacobian_softmax_again(a):
    a = softmax(a)
    return np.diag(a) - np.outer(a, a)


@misconception(
    "softmax_jacobian",
    label="upper half left empty",
    hint="A loop stops at the diagonal. The Jacobian is symmetric, and both halves are asked.",
)
def jacobian_lower_half(a):
    return np.tril(np.diag(a) - np.outer(a, a))


@misconception(
    "softmax_jacobian",
    label="division by a weight, or its logarithm",
    hint="Somewhere a weight is divided by, or its logarithm is multiplied by 0, and a weight may be 0. a_i "
    "([i = j] - a_j) needs products only.",
)
def jacobian_divides(a):
    return np.outer(a, a) * (np.eye(len(a), dtype=a.dtype) / a - 1)


@misconception(
    "softmax_jacobian",
    label="weights clipped",
    hint="The weights are clipped away from 0 and 1, as for a logarithm. Here weights of 0 and 1 are exact, and do "
    "no harm: use them as they are.",
)
def jacobian_clipped(a):
    a = np.clip(a, 0.02, 0.98) if a.size > 1 and (a == 0).any() else a
    return np.diag(a) - np.outer(a, a)


@misconception(
    "softmax_jacobian",
    label="length hard-coded",
    hint="A length is written into the code, and longer rows are cut or left empty. Take n from `len(a)`.",
)
def jacobian_length_hard_coded(a):
    J = np.diag(a) - np.outer(a, a)
    J[16:], J[:, 16:] = 0, 0
    return J


@misconception(
    "softmax_jacobian",
    label="input changed in place",
    hint="`a *= ...` and `a -= ...` change the caller's own array. Compute a new one: `a * (1 - a)`.",
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
        "a list instead of an array": "A list came back. Make an array of the rows: `np.array(rows, dtype=a.dtype)`.",
    },
)
@right("softmax_jacobian")
def jacobian_outer(a):
    return np.diag(a) - np.outer(a, a)


# softmax_backward: wrong


@misconception(
    "softmax_backward",
    label="row sum left out",
    hint="This is `A * dA`: the sum is left out. A score changes its whole row, as the weights share one sum: `A * "
    "(dA - row sum of A * dA)`.",
)
def backward_without_sum(A, dA):
    return A * dA


@misconception(
    "softmax_backward",
    label="only the Jacobian's diagonal",
    hint="This is `A * (1 - A) * dA`, the diagonal of the Jacobian alone, as for a sigmoid. The entries beside the "
    "diagonal, -a_i a_j, belong to the sum too.",
)
def backward_diagonal_only(A, dA):
    return A * (1 - A) * dA


@misconception(
    "softmax_backward",
    label="gradient passed through unchanged",
    hint="Softmax changes it: multiply by its Jacobian, row by row.",
)
def backward_passed_through(A, dA):
    return dA.copy()


@misconception(
    "softmax_backward",
    label="factor A missing",
    hint="`A * (dA - row sum of A * dA)`.",
)
def backward_without_factor(A, dA):
    return dA - (A * dA).sum(-1, keepdims=True)


@misconception(
    "softmax_backward",
    label="plain sum of dA subtracted",
    hint="Each entry of it counts with its weight: the row sum of `A * dA`.",
)
def backward_plain_sum(A, dA):
    return A * (dA - dA.sum(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="plain mean of dA subtracted",
    hint="It is the mean by weights that is needed: the row sum of `A * dA`.",
)
def backward_plain_mean(A, dA):
    return A * (dA - dA.mean(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="row sum added, not subtracted",
    hint="The sum is added. The Jacobian is diag(a) minus a a^T: subtract it.",
)
def backward_added(A, dA):
    return A * (dA + (A * dA).sum(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="one sum for the whole array",
    hint="Each row is a softmax of its own: `axis=-1, keepdims=True`.",
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
    hint="The axis is counted from the front (`axis=1`), which is the last one of a matrix only. Count from the "
    "end: `axis=-1`.",
)
def backward_axis_one(A, dA):
    return A * (dA - (A * dA).sum(axis=1, keepdims=True))


@misconception(
    "softmax_backward",
    label="keepdims missing",
    hint="The sum lost its axis: shape (n_q,) does not line up with (n_q, n_k). Keep the axis, with `keepdims=True`.",
)
def backward_without_keepdims(A, dA):
    return A * (dA - (A * dA).sum(axis=-1))


@misconception(
    "softmax_backward",
    label="softmax applied to the weights",
    hint="Use them as they are.",
)
def backward_softmax_again(A, dA):
    return through_softmax(softmax(A), dA)


@misconception(
    "softmax_backward",
    label="division by a weight",
    hint="Something is divided by a weight, and a weight may be 0. `A * (dA - row sum of A * dA)` needs no division.",
)
def backward_divides(A, dA):
    dlog = A * dA  # the gradient for log A
    return A * (dlog / A - dlog.sum(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="extra entries dropped",
    hint="What is left over is cut off, as `zip` does. Rows of different lengths are a mistake of the caller: "
    "raise `ValueError`.",
)
def backward_drops_rest(A, dA):
    n = min(A.shape[-1], dA.shape[-1])
    return through_softmax(A[..., :n], dA[..., :n])


@misconception(
    "softmax_backward",
    label="loop over the first axis",
    hint="A loop over the first axis takes each of its items for a row, which holds for a matrix only; in a batch "
    "they are matrices, and the sum goes over all of one. Sum over `axis=-1`, without a loop.",
)
def backward_loop_over_first_axis(A, dA):
    fits(A.shape, dA.shape)
    return np.array([a * (da - (a * da).sum()) for a, da in zip(A, dA, strict=True)])


@misconception(
    "softmax_backward",
    label="input changed in place",
    hint="`dA -= ...` or `dA *= ...` changes the caller's own array. Write `dA - ...`, which makes a new one.",
)
def backward_in_place(A, dA):
    fits(A.shape, dA.shape)
    dA -= (A * dA).sum(-1, keepdims=True)
    return A * dA


# softmax_backward: right


@families(
    hints={
        "result in float64": "`np.zeros(shape)` and `np.eye(n)` make float64. Give them `dtype=A.dtype`.",
        "sizes of 1 stretched": "A size n of 1 was stretched to fit: `*` does that without a word. Compare the "
        "shapes of `A` and `dA`, and raise `ValueError` where they differ.",
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
    hint="Divide them by sqrt(d_k) before the softmax: `d_k = Q.shape[-1]`.",
)
def forward_unscaled(Q, K, V):
    A = softmax(Q @ transposed(K))
    return A @ V, A


@misconception(
    "attention_forward",
    label="divided by d_k, not sqrt(d_k)",
    hint="The scores are divided by d_k. The divisor is its root: `d_k**0.5`.",
)
def forward_scaled_without_root(Q, K, V):
    A = softmax(Q @ transposed(K) / Q.shape[-1])
    return A @ V, A


@misconception(
    "attention_forward",
    label="scale from d_v instead of d_k",
    hint="The scores are divided by sqrt(d_v). What grows is the dot product of queries and keys, so it is "
    "sqrt(d_k), `Q.shape[-1]`.",
)
def forward_scaled_by_value_width(Q, K, V):
    A = softmax(Q @ transposed(K) / V.shape[-1] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="scale from n_k instead of d_k",
    hint="The scores are divided by the root of the number of keys. It is the width of each key that counts: "
    "`K.shape[-1]`, not `K.shape[-2]`.",
)
def forward_scaled_by_number_of_keys(Q, K, V):
    A = softmax(Q @ transposed(K) / K.shape[-2] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="d_k read from axis 1",
    hint="d_k is read from `Q.shape[1]`, which is the last axis of a matrix only; in a batch it is the number of "
    "queries. Count from the end: `Q.shape[-1]`.",
)
def forward_scaled_by_axis_one(Q, K, V):
    A = softmax(Q @ transposed(K) / Q.shape[1] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="divided by 8 whatever d_k is",
    hint="The scores are divided by 8, which is sqrt(64). Here d_k may be any size: `Q.shape[-1] ** 0.5`.",
)
def forward_scaled_by_eight(Q, K, V):
    A = softmax(Q @ transposed(K) / 8)
    return A @ V, A


@misconception(
    "attention_forward",
    label="multiplied by sqrt(d_k), not divided",
    hint="Divide by it.",
)
def forward_multiplied(Q, K, V):
    A = softmax(Q @ transposed(K) * Q.shape[-1] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="scale applied after softmax",
    hint="The scale comes after the softmax, so that rows of weights do not sum to 1. Divide the scores, before it.",
)
def forward_scaled_after_softmax(Q, K, V):
    A = softmax(Q @ transposed(K)) / Q.shape[-1] ** 0.5
    return A @ V, A


@misconception(
    "attention_forward",
    label="softmax over the queries",
    hint="Softmax runs down the columns, over the queries. Each query's weights sum to 1 over the keys: the last "
    "axis.",
)
def forward_softmax_over_queries(Q, K, V):
    A = softmax(scaled(Q, K), axis=-2)
    return A @ V, A


@misconception(
    "attention_forward",
    label="result and weights swapped",
    hint="The two are exchanged: Z first, then A. `return Z, A`.",
)
def forward_weights_first(Q, K, V):
    return attend(Q, K, V)[::-1]


@misconception(
    "attention_forward",
    label="scores returned instead of weights",
    hint="The second part is the scores. The weights are asked, after the softmax.",
)
def forward_returns_scores(Q, K, V):
    return attend(Q, K, V)[0], scaled(Q, K)


@misconception(
    "attention_forward",
    label="softmax missing or not used",
    hint="The scores are multiplied with the values; the softmax is left out, or its result is not used.",
)
def forward_without_softmax(Q, K, V):
    S = scaled(Q, K)
    return S @ V, S


@misconception(
    "attention_forward",
    label="values mixed by scores, not weights",
    hint="The weights are right, but Z is made from the scores. Multiply the weights with the values: `A @ V`.",
)
def forward_mixes_by_scores(Q, K, V):
    return scaled(Q, K) @ V, softmax(scaled(Q, K))


@misconception(
    "attention_forward",
    label="queries and keys swapped",
    hint="`Q` and `K` are exchanged: there is a row for each key. `Q @ K^T`.",
)
def forward_turned(Q, K, V):
    A = softmax(scaled(K, Q))
    return A @ V, A


@misconception(
    "attention_forward",
    label="keys mixed instead of values",
    hint="They serve to compare; what is mixed are the values, `V`.",
)
def forward_mixes_keys(Q, K, V):
    A = softmax(scaled(Q, K))
    return A @ K, A


@misconception(
    "attention_forward",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN. Use your `softmax`, once it holds for large "
    "scores.",
)
def forward_overflows(Q, K, V):
    E = np.exp(scaled(Q, K))
    A = E / E.sum(-1, keepdims=True)
    return A @ V, A


@misconception(
    "attention_forward",
    label="one maximum for all rows",
    hint="One maximum of all scores is subtracted; a query whose scores are far below it gets 0 / 0, which is NaN. "
    "Subtract each row's own.",
)
def forward_one_maximum(Q, K, V):
    S = scaled(Q, K)
    E = np.exp(S - S.max())
    A = E / E.sum(-1, keepdims=True)
    return A @ V, A


@misconception(
    "attention_forward",
    label="all axes reversed by .T",
    hint="`K.T` reverses all axes, the batch among them. Exchange the last two alone: `np.swapaxes(K, -1, -2)`.",
)
def forward_all_axes_reversed(Q, K, V):
    A = softmax(Q @ K.T / Q.shape[-1] ** 0.5)
    return A @ V, A


@misconception(
    "attention_forward",
    label="extra keys or values dropped",
    hint="Keys or values that are left over are dropped, as `zip` does. A key without a value is a mistake of the "
    "caller: raise `ValueError`.",
)
def forward_drops_rest(Q, K, V):
    n = min(K.shape[-2], V.shape[-2])
    return attend(Q, K[..., :n, :], V[..., :n, :])


@misconception(
    "attention_forward",
    label="Q scaled in place",
    hint="`Q /= ...` changes the caller's own array. Write `Q / d_k**0.5`, which makes a new one.",
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
        "result in float64": "`np.sqrt(d_k)` is a float64 of NumPy's, and dividing by it makes float64. Use "
        "`d_k**0.5` or `math.sqrt(d_k)`, plain numbers."
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
    hint="The scale is left out on the way back. The scores are the dot products divided by sqrt(d_k), so dQ and "
    "dK are divided by it as well.",
)
def gradients_unscaled(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, scale=1)


@misconception(
    "attention_backward",
    label="dK not scaled",
    hint="dK is not scaled, dQ is. Both come from the same scores: divide both products, or dS before them.",
)
def gradients_only_queries_scaled(Q, K, V, dZ):
    dQ, dK, dV = backward(Q, K, V, dZ)
    return dQ, dK * Q.shape[-1] ** 0.5, dV


@misconception(
    "attention_backward",
    label="scale from n_k or n_q, not d_k",
    hint="dQ and dK are divided by the root of the number of keys or queries. It is the width of a key that "
    "counts: `K.shape[-1]`, not `K.shape[-2]`.",
)
def gradients_scaled_by_number_of_keys(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, scale=K.shape[-2] ** -0.5)


@misconception(
    "attention_backward",
    label="d_k read from axis 1",
    hint="d_k is read from `Q.shape[1]`, which is the last axis of a matrix only; in a batch it is the number of "
    "queries. Count from the end: `Q.shape[-1]`.",
)
def gradients_scaled_by_axis_one(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, scale=Q.shape[1] ** -0.5)


@misconception(
    "attention_backward",
    label="weights computed without the scale",
    hint="The weights are computed here without the scale, and differ from those of `attention_forward`. Take them "
    "from there: `_, A = attention_forward(Q, K, V)`.",
)
def gradients_of_unscaled_weights(Q, K, V, dZ):
    A = softmax(Q @ transposed(K))
    fits(K.shape[-2], V.shape[-2])
    return back(A, Q, K, V, dZ)


@misconception(
    "attention_backward",
    label="softmax's gradient left out",
    hint="dQ and dK are made from dA, as if the weights were the scores. Carry dA through `softmax_backward` first.",
)
def gradients_past_the_softmax(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: dA)


@misconception(
    "attention_backward",
    label="row sum left out",
    hint="The softmax's gradient is `A * dA` here; the sum over the row is left out. Use your `softmax_backward`.",
)
def gradients_without_row_sum(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: A * dA)


@misconception(
    "attention_backward",
    label="only the Jacobian's diagonal",
    hint="The softmax's gradient is `A * (1 - A) * dA` here, the diagonal of its Jacobian alone. Use your "
    "`softmax_backward`.",
)
def gradients_by_the_diagonal(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: A * (1 - A) * dA)


@misconception(
    "attention_backward",
    label="keepdims missing",
    hint="The row sum in the softmax's gradient lost its axis, and is then lined up with the columns. Keep it, "
    "with `keepdims=True`, in `softmax_backward` or here.",
)
def gradients_without_keepdims(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: A * (dA - (A * dA).sum(-1)))


@misconception(
    "attention_backward",
    label="summed down the columns",
    hint="The softmax's gradient is summed down the columns, over the queries. The softmax ran along the rows: "
    "`axis=-1`.",
)
def gradients_by_columns(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: A * (dA - (A * dA).sum(-2, keepdims=True)))


@misconception(
    "attention_backward",
    label="softmax's gradient taken at the scores",
    hint="`softmax_backward` needs the weights, `softmax_backward(A, dA)`.",
)
def gradients_at_the_scores(Q, K, V, dZ):
    S = scaled(Q, K)
    return back(attend(Q, K, V)[1], Q, K, V, dZ, through=lambda A, dA: through_softmax(S, dA))


@misconception(
    "attention_backward",
    label="A not transposed for dV",
    hint="dV is `A @ dZ`, whose sizes fit only where n_q = n_k. Key j's value was used by every query i with "
    "weight A[i, j]: transpose `A`.",
)
def gradients_values_without_transpose(Q, K, V, dZ):
    dQ, dK, _ = backward(Q, K, V, dZ)
    return dQ, dK, attend(Q, K, V)[1] @ dZ


@misconception(
    "attention_backward",
    label="dS not transposed for dK",
    hint="dK is `dS @ Q`, whose sizes fit only where n_q = n_k. Key j was met by every query i: transpose `dS`.",
)
def gradients_keys_without_transpose(Q, K, V, dZ):
    A = attend(Q, K, V)[1]
    d_products = through_softmax(A, dZ @ transposed(V)) / Q.shape[-1] ** 0.5
    return d_products @ K, d_products @ Q, transposed(A) @ dZ


@misconception(
    "attention_backward",
    label="dK and dV swapped",
    hint="Return them as the arguments stand: `dQ, dK, dV`.",
)
def gradients_values_second(Q, K, V, dZ):
    dQ, dK, dV = backward(Q, K, V, dZ)
    return dQ, dV, dK


@misconception(
    "attention_backward",
    label="dQ made from Q, dK from K",
    hint="`K` and `Q` are exchanged in the last products: dQ is made from `Q`, dK from `K`. Raising q_i changes "
    "its scores by the keys: `dS @ K`, and `dS^T @ Q`.",
)
def gradients_own_matrices(Q, K, V, dZ):
    A = attend(Q, K, V)[1]
    d_products = through_softmax(A, dZ @ transposed(V)) / Q.shape[-1] ** 0.5
    return d_products @ Q, transposed(d_products) @ K, transposed(A) @ dZ


@misconception(
    "attention_backward",
    label="one length for queries and keys",
    hint="`Q` has n_q rows and dQ too; `K`, `V`, dK and dV have n_k.",
)
def gradients_one_length(Q, K, V, dZ):
    n = min(Q.shape[-2], K.shape[-2])
    parts = backward(*(own[..., :n, :] for own in (Q, K, V, dZ)))
    filled = tuple(np.zeros_like(own) for own in (Q, K, V))
    for own, part in zip(filled, parts, strict=True):
        own[..., :n, :] = part
    return filled


@misconception(
    "attention_backward",
    label="dQ and dK left at zero",
    hint="dQ and dK are 0, as if the weights were constants. The loss reaches them through the softmax: dA = dZ "
    "V^T, then `softmax_backward`.",
)
def gradients_direct_path_only(Q, K, V, dZ):
    return np.zeros_like(Q), np.zeros_like(K), backward(Q, K, V, dZ)[2]


@misconception(
    "attention_backward",
    label="dZ not used",
    hint="These are the gradients of the sum of Z. Each entry of Z counts with its own factor in dZ.",
)
def gradients_of_the_sum(Q, K, V, dZ):
    return backward(Q, K, V, np.ones_like(dZ))


@misconception(
    "attention_backward",
    label="Z used instead of dZ",
    hint="The way back starts from Z, not from `dZ`: the result of the forward pass was taken for its gradient.",
)
def gradients_from_the_result(Q, K, V, dZ):
    return backward(Q, K, V, attend(Q, K, V)[0])


@misconception(
    "attention_backward",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN. Take the weights from your "
    "`attention_forward`, once it holds for large scores.",
)
def gradients_overflow(Q, K, V, dZ):
    E = np.exp(scaled(Q, K))
    return back(E / E.sum(-1, keepdims=True), Q, K, V, dZ)


@misconception(
    "attention_backward",
    label="one maximum for all rows",
    hint="One maximum of all scores is subtracted; a query whose scores are far below it gets 0 / 0, which is NaN. "
    "Subtract each row's own, or take the weights from your `attention_forward`.",
)
def gradients_one_maximum(Q, K, V, dZ):
    S = scaled(Q, K)
    E = np.exp(S - S.max())
    return back(E / E.sum(-1, keepdims=True), Q, K, V, dZ)


@misconception(
    "attention_backward",
    label="all axes reversed by .T",
    hint="Exchange the last two alone: `np.swapaxes(X, -1, -2)`.",
)
def gradients_all_axes_reversed(Q, K, V, dZ):
    A = attend(Q, K, V)[1]
    d_products = through_softmax(A, dZ @ V.T) / Q.shape[-1] ** 0.5
    return d_products @ K, d_products.T @ Q, A.T @ dZ


@misconception(
    "attention_backward",
    label="summed over the batch",
    hint="Each sequence has its own queries, keys and values, and so its own gradients.",
)
def gradients_summed_over_batch(Q, K, V, dZ):
    return tuple(own.sum(tuple(range(own.ndim - 2))) for own in backward(Q, K, V, dZ))


@misconception(
    "attention_backward",
    label="dZ stretched to fit",
    hint="A `dZ` of size 1 was stretched to the shape of Z, as `dZ + np.zeros_like(Z)` or `np.broadcast_to` does. "
    "It must have that shape: raise `ValueError`.",
)
def gradients_stretch_upstream(Q, K, V, dZ):
    return backward(Q, K, V, np.broadcast_to(dZ, attend(Q, K, V)[0].shape))


@misconception(
    "attention_backward",
    label="single value stretched over all keys",
    hint="A `V` with one row was stretched over all keys: dA then has one column, and `A * dA` takes it without a "
    "word. Use your `softmax_backward`, once it raises, or take the weights from `attention_forward`, where "
    "`A @ V` raises.",
)
def gradients_stretch_one_value(Q, K, V, dZ):
    return back(softmax(scaled(Q, K)), Q, K, V, dZ)


@misconception(
    "attention_backward",
    label="input changed in place",
    hint="An argument is changed in place, by `Q /= ...`, `dZ *= ...` or `out=`. The caller still needs it: make a "
    "new array.",
)
def gradients_in_place(Q, K, V, dZ):
    Q /= Q.shape[-1] ** 0.5
    A = softmax(Q @ transposed(K))
    dS = through_softmax(A, dZ @ transposed(V))
    return dS @ K / Q.shape[-1] ** 0.5, transposed(dS) @ Q, transposed(A) @ dZ


@misconception(
    "attention_backward",
    label="some results in float64",
    hint="`np.sqrt(d_k)` is a float64 of NumPy's, and dividing by it makes float64. Use `d_k**0.5`, a plain number.",
)
def gradients_to_float64(Q, K, V, dZ):
    return back(attend(Q, K, V)[1], Q, K, V, dZ, scale=1 / np.sqrt(Q.shape[-1]))


# attention_backward: right


@families(
    *COMMON,
    "only the first of the results returned",
    "a dictionary instead of a tuple",
    hints={
        "result in float64": "All three are float64 for float32 inputs. Perhaps the weights come as float64 from "
        "`attention_forward` (mend that first); `astype(float)`, and `np.zeros` without a dtype, make float64 as "
        "well."
    },
    shapes="n_q d_k, n_k d_k, n_k d_v, n_q d_v",
)
@right("attention_backward")
def gradients_in_steps(Q, K, V, dZ):
    return backward(Q, K, V, dZ)


# Wrong only when sizes are equal, beyond some length, or for small numbers


@misconception(
    "softmax",
    label="softmax over the columns where square",
    hint="Where there are as many rows as scores in a row, softmax runs over the columns. The axis is the last one, "
    "whatever the sizes are.",
)
def softmax_axis_by_size(S):
    return softmax(S, axis=-2 if S.ndim > 1 and S.shape[-1] == S.shape[-2] else -1)


@misconception(
    "softmax",
    label="first 512 scores of a row only",
    hint="Scores after the 512th get no weight: a length is written into the code. Take n from `S.shape[-1]`.",
)
def softmax_512_scores(S):
    A = softmax(S[..., :512])
    return np.concatenate([A, np.zeros_like(S[..., 512:])], axis=-1)


@misconception(
    "softmax",
    label="small weights dropped",
    hint="Weights below some small number are set to 0. A small weight is a weight: leave it.",
)
def softmax_small_dropped(S):
    A = softmax(S)
    return np.where(A < 5e-4, A.dtype.type(0), A)


@misconception(
    "softmax_jacobian",
    label="only the first 64 weights",
    hint="Rows after the 64th are 0: a length is written into the code. Take n from `len(a)`.",
)
def softmax_jacobian_64_weights(a):
    J = np.diag(a) - np.outer(a, a)
    J[64:] = 0
    return J


@misconception(
    "softmax_jacobian",
    label="small weights dropped",
    hint="Weights below some small number are taken for 0. A small weight has small slopes, and not none: leave it.",
)
def softmax_jacobian_small_dropped(a):
    a = np.where(a < 1e-6, a.dtype.type(0), a)
    return np.diag(a) - np.outer(a, a)


@misconception(
    "softmax_backward",
    label="gradient transposed where square",
    hint="Where there are as many rows as weights in a row, `dA` is turned over. Its rows are those of `A`.",
)
def softmax_backward_turned_when_square(A, dA):
    fits(A.shape, dA.shape)
    return through_softmax(A, transposed(dA) if dA.ndim > 1 and dA.shape[-1] == dA.shape[-2] else dA)


@misconception(
    "softmax_backward",
    label="first 64 weights of a row only",
    hint="Weights after the 64th are left out: a length is written into the code. Sum over the whole row.",
)
def softmax_backward_64_weights(A, dA):
    fits(A.shape, dA.shape)
    return A * (dA - (A * dA)[..., :64].sum(-1, keepdims=True))


@misconception(
    "softmax_backward",
    label="small weights dropped",
    hint="Weights below some small number are taken for 0. A small weight with a large gradient counts: leave it.",
)
def softmax_backward_small_dropped(A, dA):
    fits(A.shape, dA.shape)
    return through_softmax(np.where(A < 1e-5, A.dtype.type(0), A), dA)


@misconception(
    "attention_forward",
    label="keys mixed where shapes agree",
    hint="Self-attention often has one shape for all: what is mixed are the values, `V`.",
)
def attention_forward_mixes_keys_when_shapes_agree(Q, K, V):
    return attend(Q, K, K if K.shape == V.shape else V)


@misconception(
    "attention_forward",
    label="Z written into V",
    hint="Where Z has the shape of `V` it is written into `V`, which is the caller's. Return new arrays.",
)
def attention_forward_into_its_input(Q, K, V):
    Z, A = attend(Q, K, V)
    if Z.shape == V.shape:
        V[...] = Z
    return Z, A


@misconception(
    "attention_forward",
    label="only the first 512 keys",
    hint="Keys after the 512th get no weight: a length is written into the code. Take n_k from `K.shape[-2]`.",
)
def attention_forward_512_keys(Q, K, V):
    fits(K.shape[-2], V.shape[-2])
    Z, A = attend(Q, K[..., :512, :], V[..., :512, :])
    return Z, np.concatenate([A, np.zeros((*Q.shape[:-1], max(K.shape[-2] - 512, 0)), dtype=A.dtype)], axis=-1)


@misconception(
    "attention_forward",
    label="small weights dropped",
    hint="Weights below some small number are set to 0. A small weight on a large value counts: use all of them.",
)
def attention_forward_small_dropped(Q, K, V):
    A = softmax(scaled(Q, K))
    A = np.where(A < 2e-5, A.dtype.type(0), A)
    return A @ V, A


@misconception(
    "attention_backward",
    label="keys for values where shapes agree",
    hint="Where `V` has the shape of `K`, the gradient goes back through `K`. Self-attention often has one shape for "
    "all: Z is made of the values, `V`.",
)
def attention_backward_keys_for_values(Q, K, V, dZ):
    fits(dZ.shape[-1], V.shape[-1])
    A = attend(Q, K, V)[1]
    dQ, dK, dV = back(A, Q, K, K if K.shape == V.shape else V, dZ)
    return dQ, dK, dV


@misconception(
    "attention_backward",
    label="dV written into V",
    hint="dV is written into `V`, which is the caller's, and the next call finds it changed. Return new arrays.",
)
def attention_backward_into_its_input(Q, K, V, dZ):
    dQ, dK, dV = backward(Q, K, V, dZ)
    if V.shape == dZ.shape and V.flags.writeable:
        V[...] = dV
    return dQ, dK, dV


@misconception(
    "attention_backward",
    label="only the first 512 queries",
    hint="Queries after the 512th get no gradient: a length is written into the code. Take n_q from `Q.shape[-2]`.",
)
def attention_backward_512_queries(Q, K, V, dZ):
    dQ, dK, dV = backward(Q, K, V, dZ)
    dQ[..., 512:, :] = 0
    return dQ, dK, dV


@misconception(
    "attention_backward",
    label="small weights dropped",
    hint="Weights below some small number are taken for 0. With a large gradient they count: use all of them.",
)
def attention_backward_small_dropped(Q, K, V, dZ):
    fits(dZ.shape[-1], V.shape[-1])
    A = attend(Q, K, V)[1]
    return back(np.where(A < 2e-5, A.dtype.type(0), A), Q, K, V, dZ)

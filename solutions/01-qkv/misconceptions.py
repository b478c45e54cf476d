"""Wrong answers that people really give, each with a hint. Students get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, and that its own hint is shown. The right answers here are those from which
`families` makes the mistakes that any function can have; all others are in `right_answers.py`.
"""

import numpy as np

from checking import COMMON, families, misconception, right
from checking.answer_parts import softmax, transposed


def attend(Q, K, V):
    return softmax(Q @ transposed(K)) @ V


# by_hand: wrong

WORDS = np.array([[1, 0], [1, 1], [0, 2]])
KEYS = np.array([[np.log(2), 0], [np.log(2) + 1, -1], [2, -2]])
VALUES = np.array([[9, 9], [9, 27], [0, 36]])


def asked_with(query, keys=KEYS, values=VALUES):
    return softmax(keys @ np.array(query)) @ values


@misconception(
    "by_hand",
    label="scores divided by their sum",
    hint="Only the first two values were mixed, half and half, as if the scores were divided by their sum. Softmax "
    "first takes e to the power of each score, then divides, so a score of 0 also gets a weight.",
)
def by_hand_without_exponential():
    return [9, 18]


@misconception(
    "by_hand",
    label="scores used as weights",
    hint="The values were added up with the scores themselves as weights. Turn the scores into weights first: take "
    "e to the power of each, and divide by the sum of all three.",
)
def by_hand_without_softmax():
    return [36 * np.log(2), 72 * np.log(2)]


@misconception(
    "by_hand",
    label="all words weighted equally",
    hint="This is the plain mean of the three values. The scores are not all equal, so the weights are not equal "
    "either.",
)
def by_hand_plain_mean():
    return [6, 24]


@misconception(
    "by_hand",
    label="scores divided by sqrt(d_k)",
    hint="The scaling comes in chapter 2. Here the scores are used unscaled.",
)
def by_hand_scaled():
    return asked_with([2**0.5, 2**0.5])


@misconception(
    "by_hand",
    label="weights not divided by their sum",
    hint="The values were added up with e to the power of the scores. Divide these numbers by their sum to get "
    "weights.",
)
def by_hand_not_normalised():
    return [72, 180]


@misconception(
    "by_hand",
    label="one winner takes all",
    hint="This is the value of a single word. Attention mixes all three values, each multiplied by its weight.",
)
def by_hand_hard():
    return [9, 9]


@misconception(
    "by_hand",
    label="the first word's row",
    hint="This is the result for the first word, whose query is the first row of X W_q. Use the second row.",
)
def by_hand_first_word():
    return asked_with([3, 1])


@misconception(
    "by_hand",
    label="query not projected",
    hint="The second word itself was compared with the keys. Its query is the second row of X W_q.",
)
def by_hand_unprojected_query():
    return asked_with([1, 1])


@misconception(
    "by_hand",
    label="keys not projected",
    hint="The query was compared with the words themselves. Their keys are the rows of X W_k.",
)
def by_hand_unprojected_keys():
    return asked_with([2, 2], keys=WORDS)


@misconception(
    "by_hand",
    label="values not projected",
    hint="The weights are right, but the words themselves were mixed. Their values are the rows of X W_v.",
)
def by_hand_unprojected_values():
    return [8 / 9, 2 / 3]


@misconception(
    "by_hand",
    label="keys used as values",
    hint="The weights are right, but the keys were mixed. Mix the values, the rows of X W_v.",
)
def by_hand_mixes_keys():
    return asked_with([2, 2], values=KEYS)


@misconception(
    "by_hand",
    label="queries and keys swapped",
    hint="The key of the second word was compared with all queries. Compare its query with all keys.",
)
def by_hand_swapped():
    return asked_with(KEYS[1], keys=[[3, 1], [2, 2], [-2, 2]])


@misconception(
    "by_hand",
    label="matrices transposed",
    hint="The matrices were transposed, or multiplied from the left. Words are rows: entry j of x W is x times "
    "column j of W.",
)
def by_hand_turned():
    return asked_with(
        [4, 0], [[np.log(2), 1], [np.log(2), 0], [0, -2]], [[9, 0], [18, 18], [18, 36]]
    )


# project: wrong


@misconception(
    "project",
    label="W transposed",
    hint="`W` is transposed, but it already has shape (d_in, d_out). Use `X @ W`, without `.T`.",
)
def project_with_turned_matrix(X, W):
    return X @ W.T


@misconception(
    "project",
    label="W multiplied from the left",
    hint="`W` is multiplied from the left. Vectors are rows here, so `W` goes on the right: `X @ W`.",
)
def project_from_the_left(X, W):
    return W @ X


@misconception(
    "project",
    label="result transposed",
    hint="The result has shape (d_out, n), because `W.T @ X.T` treats vectors as columns. Here they are rows: `X @ "
    "W`.",
)
def project_columns(X, W):
    return transposed(X @ W)


@misconception(
    "project",
    label="entrywise product instead of matrix product",
    hint="`*` multiplies entry by entry. The matrix product, `@`, multiplies rows by columns.",
)
def project_entrywise(X, W):
    return X * W


@misconception(
    "project",
    label="only the first vector",
    hint="Only row 0 of `X` is projected. `X @ W` projects all rows at once.",
)
def project_first_vector(X, W):
    return X[0] @ W


@misconception(
    "project",
    label="mean instead of sum",
    hint="This is the mean over d_in. A projection is the sum: remove the division.",
)
def project_mean(X, W):
    return X @ W / X.shape[-1]


# project: right


@families(
    *COMMON, "decimals cut off", "result written into an argument", shapes="n d_in, d_in d_out"
)
@right("project")
def project_matmul(X, W):
    return X @ W


# qkv: wrong


@misconception(
    "qkv",
    label="K and V swapped",
    hint="The function returns them in the order Q, V, K. Return `Q, K, V`.",
)
def qkv_values_second(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_v, X @ W_k


@misconception(
    "qkv",
    label="Q and K swapped",
    hint="The first of the three must be `X` projected by `W_q`, the second `X` projected by `W_k`.",
)
def qkv_keys_first(X, W_q, W_k, W_v):
    return X @ W_k, X @ W_q, X @ W_v


@misconception(
    "qkv",
    label="keys made with W_q",
    hint="The keys equal the queries. K is `X` projected by `W_k`, not by `W_q`.",
)
def qkv_keys_are_queries(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_q, X @ W_v


@misconception(
    "qkv",
    label="values made with W_k",
    hint="The values equal the keys. V is `X` projected by `W_v`, so a token can pass on something other than what "
    "it is compared by.",
)
def qkv_values_are_keys(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_k, X @ W_k


@misconception(
    "qkv",
    label="values not projected",
    hint="The values are `X` itself. They also need a projection, by `W_v`.",
)
def qkv_values_unprojected(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_k, X


@misconception(
    "qkv",
    label="projections applied one after another",
    hint="`W_k` was applied to Q. Each of the three is a projection of `X` itself.",
)
def qkv_chained(X, W_q, W_k, W_v):
    Q = X @ W_q
    K = Q @ W_k
    return Q, K, K @ W_v


@misconception(
    "qkv",
    label="projection matrices transposed",
    hint="The matrices are transposed, but they already have shape (d_in, d_out). Remove `.T`.",
)
def qkv_turned_matrices(X, W_q, W_k, W_v):
    return X @ W_q.T, X @ W_k.T, X @ W_v.T


@misconception(
    "qkv",
    label="Q, K and V transposed",
    hint="Each of the three has shape (d, n). Vectors are rows here: `X @ W` has shape (n, d).",
)
def qkv_columns(X, W_q, W_k, W_v):
    return transposed(X @ W_q), transposed(X @ W_k), transposed(X @ W_v)


@misconception(
    "qkv",
    label="stacked into one array",
    hint="`np.stack` needs equal shapes, and d_v may differ from d_k. Return a tuple, `Q, K, V`.",
)
def qkv_stacked(X, W_q, W_k, W_v):
    return np.stack([X @ W_q, X @ W_k, X @ W_v])


@misconception(
    "qkv",
    label="cut into three equal parts",
    hint="The joined projection is split into three equal parts, but d_v may differ from d_k. Split it at d_k and "
    "at 2 d_k.",
)
def qkv_equal_thirds(X, W_q, W_k, W_v):
    joined = X @ np.concatenate([W_q, W_k, W_v], axis=1)
    third = joined.shape[-1] // 3
    return joined[..., :third], joined[..., third : 2 * third], joined[..., 2 * third :]


@misconception(
    "qkv",
    label="queries divided by sqrt(d_k)",
    hint="Here the queries are the plain projection. Scaling comes in chapter 2.",
)
def qkv_scaled_queries(X, W_q, W_k, W_v):
    return X @ W_q / W_q.shape[1] ** 0.5, X @ W_k, X @ W_v


# qkv: right


@families(
    *COMMON,
    "only the first of the results returned",
    "a dictionary instead of a tuple",
    shapes="n d_in, d_in d_q, d_in d_k, d_in d_v",
)
@right("qkv")
def qkv_each(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_k, X @ W_v


# scores: wrong


@misconception(
    "scores",
    label="scores transposed",
    hint="Rows and columns are swapped: this is `K @ Q^T`. Rows belong to queries: `Q @ K^T`.",
)
def scores_turned(Q, K):
    return K @ transposed(Q)


@misconception(
    "scores",
    label="keys compared with keys",
    hint="The keys are compared with the keys, so the shape is (n_k, n_k). Compare each query with each key: `Q @ "
    "K^T`.",
)
def scores_keys_with_keys(Q, K):
    return K @ transposed(K)


@misconception(
    "scores",
    label="K not transposed",
    hint="`Q @ K` does not fit in general, but (n_q, d_k) times (d_k, n_k) does: swap the last two axes of `K`.",
)
def scores_without_transpose(Q, K):
    return Q @ K


@misconception(
    "scores",
    label="scores divided by sqrt(d_k)",
    hint="This exercise needs raw dot products. Scaling comes in chapter 2.",
)
def scores_scaled(Q, K):
    return Q @ transposed(K) / np.sqrt(Q.shape[-1])


@misconception(
    "scores",
    label="Q scaled in place",
    hint="Scaling `Q` in place changes the caller's array, and this exercise needs raw dot products. Leave `Q` as "
    "it is.",
)
def scores_scaled_in_place(Q, K):
    Q /= np.sqrt(Q.shape[-1])
    return Q @ transposed(K)


@misconception(
    "scores",
    label="softmax already applied",
    hint="These are weights, after the softmax. `scores` returns the dot products themselves.",
)
def scores_are_weights(Q, K):
    return softmax(Q @ transposed(K))


@misconception(
    "scores",
    label="entrywise product instead of matrix product",
    hint="`*` multiplies entry by entry. `Q @ K^T` computes the dot product of each query with each key.",
)
def scores_entrywise(Q, K):
    return Q * K


@misconception(
    "scores",
    label="works for a single sequence only",
    hint="`K.T` reverses all axes, including the batch, and a loop over the rows of `Q` and `K` iterates over the "
    "batch instead. `Q @ np.swapaxes(K, -1, -2)` swaps only the last two axes.",
)
def scores_all_axes_reversed(Q, K):
    return Q @ K.T


@misconception(
    "scores",
    label="reshaped instead of transposed",
    hint="`reshape` keeps the numbers in their old order, so it does not transpose. Use `np.swapaxes(K, -1, -2)`.",
)
def scores_reshaped(Q, K):
    return Q @ K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2])


@misconception(
    "scores",
    label="cosine similarity instead of dot product",
    hint="This is cosine similarity: the vectors are divided by their lengths. Return the raw dot products.",
)
def scores_cosine(Q, K):
    Q = Q / np.linalg.norm(Q, axis=-1, keepdims=True)
    return Q @ transposed(K / np.linalg.norm(K, axis=-1, keepdims=True))


@misconception(
    "scores",
    label="squared distance instead of dot product",
    hint="This is the negative squared distance. A score is the dot product: multiply, then sum over d_k.",
)
def scores_distance(Q, K):
    return -((Q[..., :, None, :] - K[..., None, :, :]) ** 2).sum(-1)


@misconception(
    "scores",
    label="every sequence paired with every other",
    hint="Queries are compared with the keys of all other sequences: `np.inner`, `np.dot` and `np.tensordot` pair "
    "all leading axes. `@` keeps the sequences separate.",
)
def scores_all_pairs_of_sequences(Q, K):
    return np.inner(Q, K)


# scores: right


@families(*COMMON, "result written into an argument", shapes="n_q d_k, n_k d_k")
@right("scores")
def scores_matmul(Q, K):
    return Q @ transposed(K)


# weighted_sum: wrong


@misconception(
    "weighted_sum",
    label="A transposed",
    hint="`A` is transposed, but its rows already belong to queries. Use `A @ V`.",
)
def weighted_sum_turned(A, V):
    return transposed(A) @ V


@misconception(
    "weighted_sum",
    label="product in the wrong order",
    hint="The factors are in the wrong order. (n_q, n_k) times (n_k, d_v) fits: `A @ V`.",
)
def weighted_sum_from_the_left(A, V):
    return V @ A


@misconception(
    "weighted_sum",
    label="result transposed",
    hint="The rows of the result belong to queries: `A @ V`.",
)
def weighted_sum_columns(A, V):
    return transposed(A @ V)


@misconception(
    "weighted_sum",
    label="entrywise product instead of matrix product",
    hint="`*` multiplies entry by entry. Multiply each value by its weight and sum: `A @ V`.",
)
def weighted_sum_entrywise(A, V):
    return A * V


@misconception(
    "weighted_sum",
    label="divided by the number of keys",
    hint="The sum is divided by n_k. The weights already contain the shares, so no further division is needed.",
)
def weighted_sum_mean(A, V):
    return A @ V / A.shape[-1]


@misconception(
    "weighted_sum",
    label="weights divided by their sum",
    hint="Use the weights as they are. Only softmax makes them sum to 1.",
)
def weighted_sum_normalised(A, V):
    return (A / A.sum(-1, keepdims=True)) @ V


@misconception(
    "weighted_sum",
    label="hard lookup instead of a mixture",
    hint="Only the value with the largest weight is used, which is a hard lookup. A soft lookup mixes all values: "
    "`A @ V`.",
)
def weighted_sum_hard(A, V):
    return np.take_along_axis(V, A.argmax(-1)[..., None], axis=-2)


@misconception(
    "weighted_sum",
    label="values added up without weights",
    hint="The values are summed without their weights, so every query gets the same result. Use `A`.",
)
def weighted_sum_plain(A, V):
    return np.repeat(V.sum(-2, keepdims=True), A.shape[-2], axis=-2)


@misconception(
    "weighted_sum",
    label="softmax applied to the weights",
    hint="`A` already contains the weights. Use them as they are.",
)
def weighted_sum_softmax(A, V):
    return softmax(A) @ V


@misconception(
    "weighted_sum",
    label="weighted values not added up",
    hint="The result still has the n_k axis. Sum over it, or use `@`.",
)
def weighted_sum_without_sum(A, V):
    return A[..., None] * V[..., None, :, :]


@misconception(
    "weighted_sum",
    label="V overwritten through an alias",
    hint="`mixed = V` makes no copy, only a second name for the array. So `mixed *= ...` changes `V` itself, also "
    "for the next query. Write `V * A[..., i, :, None]`, which makes a new array.",
)
def weighted_sum_second_name(A, V):
    rows = []
    for i in range(A.shape[-2]):
        mixed = V
        mixed *= A[..., i, :, None]
        rows.append(mixed.sum(-2))
    return np.stack(rows, axis=-2)


@misconception(
    "weighted_sum",
    label="extra weights or values dropped",
    hint="Extra weights or values are dropped, as `zip` does. If their numbers differ, the caller made a mistake: "
    "raise `ValueError`.",
)
def weighted_sum_drops_rest(A, V):
    n = min(A.shape[-1], V.shape[-2])
    return A[..., :n] @ V[..., :n, :]


@misconception(
    "weighted_sum",
    label="every sequence paired with every other",
    hint="Weights are applied to the values of all other sequences: `np.dot` and `np.tensordot` pair all leading "
    "axes. `@` keeps the sequences separate.",
)
def weighted_sum_all_pairs_of_sequences(A, V):
    return np.dot(A, V)


@misconception(
    "weighted_sum",
    label="one query at a time, no batch",
    hint="A loop over the rows of `A` works for a single sequence. With batch axes in front, it iterates over the "
    "batch instead. Count axes from the end, as `@` does.",
)
def weighted_sum_looped(A, V):
    return np.array([sum(weight * v for weight, v in zip(a, V, strict=True)) for a in A])


# weighted_sum: right


@families(*COMMON, "result written into an argument", shapes="n_q n_k, n_k d_v")
@right("weighted_sum")
def weighted_sum_matmul(A, V):
    return A @ V


# soft_lookup: wrong


@misconception(
    "soft_lookup",
    label="softmax over the queries",
    hint="The columns sum to 1. Each query distributes its weight over the keys, the last axis.",
)
def soft_lookup_over_queries(Q, K, V):
    return softmax(Q @ transposed(K), axis=-2) @ V


@misconception(
    "soft_lookup",
    label="softmax over the whole matrix",
    hint="Softmax runs over the whole matrix, so all weights together sum to 1. Each row must sum to 1: `axis=-1`.",
)
def soft_lookup_over_everything(Q, K, V):
    return softmax(Q @ transposed(K), axis=(-1, -2)) @ V


@misconception(
    "soft_lookup",
    label="softmax missing",
    hint="The raw scores are used as weights. Apply the softmax first: `softmax(scores(Q, K))`.",
)
def soft_lookup_without_softmax(Q, K, V):
    return Q @ transposed(K) @ V


@misconception(
    "soft_lookup",
    label="scores divided by sqrt(d_k)",
    hint="This exercise needs the raw scores. Scaling comes in chapter 2.",
)
def soft_lookup_scaled(Q, K, V):
    return softmax(Q @ transposed(K) / np.sqrt(Q.shape[-1])) @ V


@misconception(
    "soft_lookup",
    label="Q scaled in place",
    hint="Scaling `Q` in place changes the caller's array, and this exercise needs the raw scores. Leave `Q` as it "
    "is.",
)
def soft_lookup_scaled_in_place(Q, K, V):
    Q /= np.sqrt(Q.shape[-1])
    return attend(Q, K, V)


@misconception(
    "soft_lookup",
    label="queries and keys swapped",
    hint="`Q` and `K` are swapped, so the scores have a row for each key. Rows belong to queries: `Q @ K^T`. If you "
    "call your own `scores` here, look at its check first.",
)
def soft_lookup_turned(Q, K, V):
    return softmax(K @ transposed(Q)) @ V


@misconception(
    "soft_lookup",
    label="keys mixed instead of values",
    hint="Keys are only for comparing. Mix the values, `V`.",
)
def soft_lookup_mixes_keys(Q, K, V):
    return softmax(Q @ transposed(K)) @ K


@misconception(
    "soft_lookup",
    label="keys and values swapped",
    hint="`K` and `V` are swapped. Compare queries with keys, and mix values.",
)
def soft_lookup_compares_values(Q, K, V):
    return softmax(Q @ transposed(V)) @ K


@misconception(
    "soft_lookup",
    label="weights returned, values not mixed",
    hint="The function returns the weights, (n_q, n_k). One step is missing: mix the values with them.",
)
def soft_lookup_weights(Q, K, V):
    return softmax(Q @ transposed(K))


@misconception(
    "soft_lookup",
    label="weights returned as well",
    hint="The function returns a pair, the result and the weights. Return only the result.",
)
def soft_lookup_pair(Q, K, V):
    A = softmax(Q @ transposed(K))
    return A @ V, A


@misconception(
    "soft_lookup",
    label="hard lookup instead of a mixture",
    hint="The best key gets all the weight, which is a hard lookup. A soft lookup mixes all values by their weights.",
)
def soft_lookup_hard(Q, K, V):
    return np.take_along_axis(V, (Q @ transposed(K)).argmax(-1)[..., None], axis=-2)


@misconception(
    "soft_lookup",
    label="exponentials not normalized",
    hint="The exponentials are not divided by their sum. Weights must sum to 1 along each row.",
)
def soft_lookup_not_normalised(Q, K, V):
    S = Q @ transposed(K)
    return np.exp(S - S.max(-1, keepdims=True)) @ V


@misconception(
    "soft_lookup",
    label="scores divided by their sum",
    hint="With this formula, negative scores can give negative weights. Use the given `softmax`.",
)
def soft_lookup_share_of_sum(Q, K, V):
    S = Q @ transposed(K)
    return S / S.sum(-1, keepdims=True) @ V


@misconception(
    "soft_lookup",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN. Subtract each row's maximum first, or use "
    "the given `softmax`.",
)
def soft_lookup_overflows(Q, K, V):
    E = np.exp(Q @ transposed(K))
    return E / E.sum(-1, keepdims=True) @ V


@misconception(
    "soft_lookup",
    label="one maximum for all rows",
    hint="The maximum of all scores is subtracted, so a row far below it becomes 0 / 0, which is NaN. Subtract each "
    "row's own maximum, with `axis=-1, keepdims=True`.",
)
def soft_lookup_one_maximum(Q, K, V):
    S = Q @ transposed(K)
    E = np.exp(S - S.max())
    return E / E.sum(-1, keepdims=True) @ V


@misconception(
    "soft_lookup",
    label="works for a single sequence only",
    hint="`K.T` reverses all axes, including the batch, and a loop over the rows of `Q` and `K` iterates over the "
    "batch instead. `np.swapaxes(K, -1, -2)` swaps only the last two axes. If you call your own `scores` here, look "
    "at its check first.",
)
def soft_lookup_all_axes_reversed(Q, K, V):
    return softmax(Q @ K.T) @ V


@misconception(
    "soft_lookup",
    label="extra keys or values dropped",
    hint="Extra keys or values are dropped, as `zip` does. If a key has no value, the caller made a mistake: raise "
    "`ValueError`.",
)
def soft_lookup_drops_rest(Q, K, V):
    n = min(K.shape[-2], V.shape[-2])
    return attend(Q, K[..., :n, :], V[..., :n, :])


@misconception(
    "soft_lookup",
    label="one query at a time, no batch",
    hint="A loop over the rows of `Q` works for a single sequence. With batch axes in front, it iterates over the "
    "batch instead. Your `scores` and `weighted_sum` take all queries at once.",
)
def soft_lookup_looped(Q, K, V):
    return np.array([softmax(K @ q) @ V for q in Q])


@misconception(
    "soft_lookup",
    label="row sums without keepdims",
    hint="The sum (or the maximum) of each row lost its axis. Shapes (n_q, n_k) and (n_q,) do not match, or the "
    "columns are divided instead. Keep the axis with `axis=-1, keepdims=True`, or use the given `softmax`.",
)
def soft_lookup_without_keepdims(Q, K, V):
    S = Q @ transposed(K)
    E = np.exp(S - S.max(-1, keepdims=True))
    return E / E.sum(-1) @ V


# soft_lookup: right


@families(*COMMON, "result written into an argument", shapes="n_q d_k, n_k d_k, n_k d_v")
@right("soft_lookup")
def soft_lookup_in_steps(Q, K, V):
    return attend(Q, K, V)


# Wrong only when sizes are equal, beyond some length, or for small numbers


@misconception(
    "project",
    label="W transposed when square",
    hint="`W` is transposed if its shape allows it, and a square matrix always allows it. The rows of `W` always "
    "belong to d_in: use `X @ W`, without looking at shapes.",
)
def project_turned_when_square(X, W):
    return X @ (W.T if W.shape[1] == X.shape[-1] else W)


@misconception(
    "project",
    label="W transposed to make it fit",
    hint="A `W` of shape (d_out, d_in) is silently transposed. A caller who passes such a matrix made a mistake, "
    "and notices it only if `X @ W` raises.",
)
def project_turned_to_fit(X, W):
    return X @ (W.T if W.shape[0] != X.shape[-1] else W)


@misconception(
    "project",
    label="only the first 512 vectors",
    hint="Vectors after the 512th are left out: the code contains a fixed length. Take n from `X.shape[-2]`.",
)
def project_512_vectors(X, W):
    result = X @ W
    result[..., 512:, :] = 0
    return result


@misconception(
    "project",
    label="rounded to a few decimals",
    hint="Rounding the result removes small numbers. Round only when you print.",
)
def project_rounded(X, W):
    return np.round(X @ W, 4)


@misconception(
    "qkv",
    label="values made with W_k when shapes agree",
    hint="In self-attention all three matrices often have the same shape. Each projection still has its own matrix.",
)
def qkv_values_are_keys_when_shapes_agree(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_k, X @ (W_k if W_k.shape == W_v.shape else W_v)


@misconception(
    "qkv",
    label="V written into X",
    hint="When V has the shape of `X`, it is written into `X`, which belongs to the caller. Return new arrays.",
)
def qkv_into_its_input(X, W_q, W_k, W_v):
    parts = X @ W_q, X @ W_k, X @ W_v
    if parts[2].shape == X.shape:
        X[...] = parts[2]
    return parts


@misconception(
    "qkv",
    label="only the first 64 numbers",
    hint="Only the first 64 numbers of each vector are used: the code contains a fixed width. Take d_in from "
    "`X.shape[-1]`.",
)
def qkv_64_numbers(X, W_q, W_k, W_v):
    return tuple(
        X[..., :64] @ W[:64] if W.shape[0] == X.shape[-1] else X @ W for W in (W_q, W_k, W_v)
    )


@misconception(
    "scores",
    label="K transposed only when necessary",
    hint="`K` is transposed only if `Q @ K` does not fit. When n_k equals d_k it fits, but gives other numbers. "
    "Always transpose `K`.",
)
def scores_turned_when_needed(Q, K):
    return Q @ (K if K.shape[-2] == Q.shape[-1] == K.shape[-1] else transposed(K))


@misconception(
    "scores",
    label="only the first 512 keys",
    hint="Keys after the 512th get the score 0: the code contains a fixed length. Take n_k from `K.shape[-2]`.",
)
def scores_512_keys(Q, K):
    S = Q @ transposed(K)
    S[..., 512:] = 0
    return S


@misconception(
    "scores",
    label="small scores set to 0",
    hint="Scores below a threshold are set to 0. Keep all scores, however small.",
)
def scores_small_dropped(Q, K):
    S = Q @ transposed(K)
    return np.where(np.abs(S) < 1e-5, S.dtype.type(0), S)


@misconception(
    "weighted_sum",
    label="A transposed when square",
    hint="`A` is transposed when there are as many queries as keys. Its rows always belong to queries: `A @ V`.",
)
def weighted_sum_turned_when_square(A, V):
    return (transposed(A) if A.shape[-1] == A.shape[-2] else A) @ V


@misconception(
    "weighted_sum",
    label="only the first 64 keys",
    hint="Keys after the 64th are left out of the sum: the code contains a fixed length. Use `A.shape[-1]`.",
)
def weighted_sum_64_keys(A, V):
    return A[..., :64] @ V[..., :64, :] if A.shape[-1] == V.shape[-2] else A @ V


@misconception(
    "weighted_sum",
    label="small weights dropped",
    hint="Weights below a threshold are treated as 0. A small weight on a large value counts: use all weights.",
)
def weighted_sum_small_dropped(A, V):
    return np.where(np.abs(A) < 1e-4, A.dtype.type(0), A) @ V


@misconception(
    "soft_lookup",
    label="softmax over the queries when square",
    hint="When there are as many queries as keys, softmax runs over the queries. The keys are always the last axis.",
)
def soft_lookup_axis_by_size(Q, K, V):
    S = Q @ transposed(K)
    return softmax(S, axis=-2 if S.shape[-2] == K.shape[-2] else -1) @ V


@misconception(
    "soft_lookup",
    label="only the first 512 keys",
    hint="Keys after the 512th get no weight: the code contains a fixed length. Take n_k from `K.shape[-2]`.",
)
def soft_lookup_512_keys(Q, K, V):
    if K.shape[-2] == V.shape[-2]:
        K, V = K[..., :512, :], V[..., :512, :]
    return attend(Q, K, V)


@misconception(
    "soft_lookup",
    label="small weights dropped",
    hint="Weights below a threshold are set to 0. A small weight on a large value counts: use all weights.",
)
def soft_lookup_small_dropped(Q, K, V):
    A = softmax(Q @ transposed(K))
    return np.where(A < 1e-5, A.dtype.type(0), A) @ V

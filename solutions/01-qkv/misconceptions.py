"""Wrong answers that people really give, each with the hint it deserves. Released inside the archive only.

A check that fails is explained by the listed answer that behaves as the student's function does. The tests
of the course prove that every wrong answer here fails, and that its own hint is shown. The right answers are those
from which `families` makes the mistakes that any function can have; all others are in `right_answers.py`.
"""

import numpy as np

from checking import COMMON, families, misconception, right
from checking.pieces import softmax, transposed


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
    hint="Only the first two values were mixed, half and half: as if the scores were divided by their sum. Softmax "
    "takes e to the power of each score first, and then divides: a score of 0 has a weight too.",
)
def by_hand_without_exponential():
    return [9, 18]


@misconception(
    "by_hand",
    label="scores used as weights",
    hint="The values were added up with the scores themselves. Make weights of these first: e to the power of each, "
    "divided by the sum of all three.",
)
def by_hand_without_softmax():
    return [36 * np.log(2), 72 * np.log(2)]


@misconception(
    "by_hand",
    label="all words weighted alike",
    hint="This is the plain mean of the three values. The scores are not all equal: nor are the weights.",
)
def by_hand_plain_mean():
    return [6, 24]


@misconception(
    "by_hand",
    label="scores divided by the root of d_k",
    hint="That comes in chapter 2; here they are used as they are.",
)
def by_hand_scaled():
    return asked_with([2**0.5, 2**0.5])


@misconception(
    "by_hand",
    label="weights not divided by their sum",
    hint="The values were added up with e to the power of the scores. These are no weights yet: divide them by their "
    "sum.",
)
def by_hand_not_normalised():
    return [72, 180]


@misconception(
    "by_hand",
    label="one winner takes all",
    hint="This is the value of one word alone. Attention mixes all three values, each by its weight.",
)
def by_hand_hard():
    return [9, 9]


@misconception(
    "by_hand",
    label="the first word's row",
    hint="This is what becomes of the first word. Its query is the first row of X W_q; take the second.",
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
    hint="The weights are right, but the keys were mixed. What is mixed are the values, the rows of X W_v.",
)
def by_hand_mixes_keys():
    return asked_with([2, 2], values=KEYS)


@misconception(
    "by_hand",
    label="queries and keys exchanged",
    hint="The key of the second word was compared with all queries. Compare its query with all keys.",
)
def by_hand_swapped():
    return asked_with(KEYS[1], keys=[[3, 1], [2, 2], [-2, 2]])


@misconception(
    "by_hand",
    label="matrices transposed",
    hint="The matrices were turned over, or stood on the left. Words are rows: entry j of x W is x times column j of "
    "W.",
)
def by_hand_turned():
    return asked_with([4, 0], [[np.log(2), 1], [np.log(2), 0], [0, -2]], [[9, 0], [18, 18], [18, 36]])


# project: wrong


@misconception(
    "project",
    label="W transposed",
    hint="`W` is turned over. It has shape (d_in, d_out) already: `X @ W`, without `.T`.",
)
def project_with_turned_matrix(X, W):
    return X @ W.T


@misconception(
    "project",
    label="W multiplied from the left",
    hint="The matrix stands on the left. Vectors are rows here, so it goes on the right: `X @ W`.",
)
def project_from_the_left(X, W):
    return W @ X


@misconception(
    "project",
    label="result transposed",
    hint="The result is transposed, (d_out, n): `W.T @ X.T` treats vectors as columns. Here they are rows: `X @ W`.",
)
def project_columns(X, W):
    return transposed(X @ W)


@misconception(
    "project",
    label="entrywise product instead of matrix product",
    hint="`*` multiplies entry by entry and needs equal shapes. A matrix product, `@`, multiplies rows by columns.",
)
def project_entrywise(X, W):
    return X * W


@misconception(
    "project",
    label="only the first vector",
    hint="`X @ W` takes all rows at once.",
)
def project_first_vector(X, W):
    return X[0] @ W


@misconception(
    "project",
    label="mean instead of sum",
    hint="This is the mean over d_in. A projection is the sum: leave the division out.",
)
def project_mean(X, W):
    return X @ W / X.shape[-1]


# project: right


@families(*COMMON, "decimals cut off", "result written into an argument", shapes="n d_in, d_in d_out")
@right("project")
def project_matmul(X, W):
    return X @ W


# qkv: wrong


@misconception("qkv", label="K and V swapped", hint="The order is Q, V, K. Return `Q, K, V`.")
def qkv_values_second(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_v, X @ W_k


@misconception(
    "qkv", label="Q and K swapped", hint="Q and K changed places: the first of the three is `X` projected by `W_q`."
)
def qkv_keys_first(X, W_q, W_k, W_v):
    return X @ W_k, X @ W_q, X @ W_v


@misconception(
    "qkv",
    label="keys made with W_q",
    hint="The keys are the queries again: K is `X` projected by `W_k`, not by `W_q`.",
)
def qkv_keys_are_queries(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_q, X @ W_v


@misconception(
    "qkv",
    label="values made with W_k",
    hint="The values are the keys: V is `X` projected by `W_v`. What is compared and what is passed on may differ.",
)
def qkv_values_are_keys(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_k, X @ W_k


@misconception(
    "qkv", label="values not projected", hint="The values are `X` itself. They are projected as well, by `W_v`."
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
    hint="The matrices are turned over. They have shape (d_in, d_out) already: no `.T`.",
)
def qkv_turned_matrices(X, W_q, W_k, W_v):
    return X @ W_q.T, X @ W_k.T, X @ W_v.T


@misconception(
    "qkv",
    label="Q, K and V transposed",
    hint="Each of the three is transposed, (d, n). Vectors are rows here: `X @ W` gives (n, d).",
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
    hint="The joined projection is cut into three equal parts, but d_v may differ from d_k. Cut at d_k and at 2 d_k.",
)
def qkv_equal_thirds(X, W_q, W_k, W_v):
    joined = X @ np.concatenate([W_q, W_k, W_v], axis=1)
    third = joined.shape[-1] // 3
    return joined[..., :third], joined[..., third : 2 * third], joined[..., 2 * third :]


@misconception(
    "qkv",
    label="queries divided by sqrt(d_k)",
    hint="Here they are the plain projection; scaling is chapter 2.",
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
    hint="Rows and columns are exchanged: this is `K @ Q^T`. Queries make the rows: `Q @ K^T`.",
)
def scores_turned(Q, K):
    return K @ transposed(Q)


@misconception(
    "scores",
    label="keys compared with keys",
    hint="Keys meet keys, so the shape is (n_k, n_k). Each query meets each key: `Q @ K^T`.",
)
def scores_keys_with_keys(Q, K):
    return K @ transposed(K)


@misconception(
    "scores",
    label="K not transposed",
    hint="`K` is not transposed. (n_q, d_k) times (d_k, n_k) fits: exchange the last two axes of `K`.",
)
def scores_without_transpose(Q, K):
    return Q @ K


@misconception(
    "scores",
    label="scores divided by sqrt(d_k)",
    hint="Raw dot products are asked here; scaling is chapter 2.",
)
def scores_scaled(Q, K):
    return Q @ transposed(K) / np.sqrt(Q.shape[-1])


@misconception(
    "scores",
    label="Q scaled in place",
    hint="The caller's array changes, and raw dot products are asked here. Leave `Q` as it is.",
)
def scores_scaled_in_place(Q, K):
    Q /= np.sqrt(Q.shape[-1])
    return Q @ transposed(K)


@misconception(
    "scores",
    label="softmax already applied",
    hint="These are weights: softmax was applied already. `scores` returns the dot products themselves.",
)
def scores_are_weights(Q, K):
    return softmax(Q @ transposed(K))


@misconception(
    "scores",
    label="entrywise product instead of matrix product",
    hint="`*` multiplies entry by entry. A dot product of each query with each key is `Q @ K^T`.",
)
def scores_entrywise(Q, K):
    return Q * K


@misconception(
    "scores",
    label="right for a single sequence only",
    hint="This fits a single sequence: `K.T` reverses all axes, the batch among them, and a loop over the rows of "
    "`Q` and `K` runs over the batch instead. `Q @ np.swapaxes(K, -1, -2)` uses the last two axes alone.",
)
def scores_all_axes_reversed(Q, K):
    return Q @ K.T


@misconception(
    "scores",
    label="reshaped instead of transposed",
    hint="`reshape` refills the numbers in their old order; it does not transpose. Use `np.swapaxes(K, -1, -2)`.",
)
def scores_reshaped(Q, K):
    return Q @ K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2])


@misconception(
    "scores",
    label="cosine similarity instead of dot product",
    hint="This is cosine similarity: vectors are divided by their lengths. Raw dot products are asked.",
)
def scores_cosine(Q, K):
    Q = Q / np.linalg.norm(Q, axis=-1, keepdims=True)
    return Q @ transposed(K / np.linalg.norm(K, axis=-1, keepdims=True))


@misconception(
    "scores",
    label="squared distance instead of dot product",
    hint="This is minus the squared distance. A score is the dot product: multiply, then add up over d_k.",
)
def scores_distance(Q, K):
    return -((Q[..., :, None, :] - K[..., None, :, :]) ** 2).sum(-1)


@misconception(
    "scores",
    label="every sequence paired with every other",
    hint="Every sequence meets the keys of all the others: `np.inner`, `np.dot` and `np.tensordot` pair all "
    "leading "
    "axes. `@` keeps each sequence to itself.",
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
    "weighted_sum", label="A transposed", hint="`A` is turned over. Its rows belong to queries already: `A @ V`."
)
def weighted_sum_turned(A, V):
    return transposed(A) @ V


@misconception(
    "weighted_sum",
    label="product in the wrong order",
    hint="The order is exchanged. (n_q, n_k) times (n_k, d_v) fits: `A @ V`.",
)
def weighted_sum_from_the_left(A, V):
    return V @ A


@misconception(
    "weighted_sum",
    label="result transposed",
    hint="Queries make the rows: `A @ V`.",
)
def weighted_sum_columns(A, V):
    return transposed(A @ V)


@misconception(
    "weighted_sum",
    label="entrywise product instead of matrix product",
    hint="`*` multiplies entry by entry. Multiply each value by its weight and add up: `A @ V`.",
)
def weighted_sum_entrywise(A, V):
    return A * V


@misconception(
    "weighted_sum",
    label="divided by the number of keys",
    hint="The sum is divided by n_k. The weights are the shares already: no further mean.",
)
def weighted_sum_mean(A, V):
    return A @ V / A.shape[-1]


@misconception(
    "weighted_sum",
    label="weights divided by their sum",
    hint="They are used as they are; making them sum to 1 is softmax's task.",
)
def weighted_sum_normalised(A, V):
    return (A / A.sum(-1, keepdims=True)) @ V


@misconception(
    "weighted_sum",
    label="hard lookup instead of a mixture",
    hint="Only the value with the largest weight is taken: a hard lookup. A soft one mixes all values, `A @ V`.",
)
def weighted_sum_hard(A, V):
    return np.take_along_axis(V, A.argmax(-1)[..., None], axis=-2)


@misconception(
    "weighted_sum",
    label="values added up without weights",
    hint="The values are added up without their weights, so every query gets the same. Use `A`.",
)
def weighted_sum_plain(A, V):
    return np.repeat(V.sum(-2, keepdims=True), A.shape[-2], axis=-2)


@misconception(
    "weighted_sum",
    label="softmax applied to the weights",
    hint="Use them as they are.",
)
def weighted_sum_softmax(A, V):
    return softmax(A) @ V


@misconception(
    "weighted_sum",
    label="weighted values not added up",
    hint="The axis n_k is still in the result. Sum over it, or use `@`.",
)
def weighted_sum_without_sum(A, V):
    return A[..., None] * V[..., None, :, :]


@misconception(
    "weighted_sum",
    label="V overwritten through a second name",
    hint="`mixed = V` gives the array a second name; it makes no copy, so `mixed *= ...` changes `V` itself, "
    "and the "
    "next query finds it changed. Write `V * A[..., i, :, None]`, which makes a new array.",
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
    hint="Weights or values that are left over are dropped, as `zip` does. Different numbers of them are a "
    "mistake of the "
    "caller: raise `ValueError`.",
)
def weighted_sum_drops_rest(A, V):
    n = min(A.shape[-1], V.shape[-2])
    return A[..., :n] @ V[..., :n, :]


@misconception(
    "weighted_sum",
    label="every sequence paired with every other",
    hint="Every sequence meets the values of all the others: `np.dot` and `np.tensordot` pair all leading axes. "
    "`@` keeps each sequence to itself.",
)
def weighted_sum_all_pairs_of_sequences(A, V):
    return np.dot(A, V)


@misconception(
    "weighted_sum",
    label="one query at a time, no batch",
    hint="A loop over the rows of `A` fits a single sequence: with batch axes in front, it runs over the batch. Use "
    "axes counted from the end, as `@` does.",
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
    hint="The columns sum to 1. Each query shares out its weight over the keys, the last axis.",
)
def soft_lookup_over_queries(Q, K, V):
    return softmax(Q @ transposed(K), axis=-2) @ V


@misconception(
    "soft_lookup",
    label="softmax over the whole matrix",
    hint="Softmax runs over the whole matrix, so that all weights together sum to 1. Each row sums to 1: `axis=-1`.",
)
def soft_lookup_over_everything(Q, K, V):
    return softmax(Q @ transposed(K), axis=(-1, -2)) @ V


@misconception(
    "soft_lookup",
    label="softmax missing",
    hint="The raw scores are used as weights. `softmax(scores(Q, K))` first.",
)
def soft_lookup_without_softmax(Q, K, V):
    return Q @ transposed(K) @ V


@misconception(
    "soft_lookup",
    label="scores divided by sqrt(d_k)",
    hint="The raw ones are asked here; scaling is chapter 2.",
)
def soft_lookup_scaled(Q, K, V):
    return softmax(Q @ transposed(K) / np.sqrt(Q.shape[-1])) @ V


@misconception(
    "soft_lookup",
    label="Q scaled in place",
    hint="The caller's array changes, and the raw scores are asked here. Leave `Q` as it is.",
)
def soft_lookup_scaled_in_place(Q, K, V):
    Q /= np.sqrt(Q.shape[-1])
    return attend(Q, K, V)


@misconception(
    "soft_lookup",
    label="queries and keys swapped",
    hint="`Q` and `K` are exchanged: the scores have a row for each key. Rows belong to queries: `Q @ K^T`. "
    "If you call your own `scores` here, look at its check first.",
)
def soft_lookup_turned(Q, K, V):
    return softmax(K @ transposed(Q)) @ V


@misconception(
    "soft_lookup",
    label="keys mixed instead of values",
    hint="They serve to compare; what is mixed are the values, `V`.",
)
def soft_lookup_mixes_keys(Q, K, V):
    return softmax(Q @ transposed(K)) @ K


@misconception(
    "soft_lookup",
    label="keys and values swapped",
    hint="`K` and `V` are exchanged: queries are compared with keys, and values are mixed.",
)
def soft_lookup_compares_values(Q, K, V):
    return softmax(Q @ transposed(V)) @ K


@misconception(
    "soft_lookup",
    label="weights returned, values not mixed",
    hint="These are the weights, (n_q, n_k). One step is left: mix the values with them.",
)
def soft_lookup_weights(Q, K, V):
    return softmax(Q @ transposed(K))


@misconception(
    "soft_lookup",
    label="weights returned as well",
    hint="A pair came back, result and weights. Here the result alone is asked.",
)
def soft_lookup_pair(Q, K, V):
    A = softmax(Q @ transposed(K))
    return A @ V, A


@misconception(
    "soft_lookup",
    label="hard lookup instead of a mixture",
    hint="The best key takes everything: a hard lookup. A soft one mixes all values by their weights.",
)
def soft_lookup_hard(Q, K, V):
    return np.take_along_axis(V, (Q @ transposed(K)).argmax(-1)[..., None], axis=-2)


@misconception(
    "soft_lookup",
    label="exponentials not normalised",
    hint="The exponentials are not divided by their sum: weights must sum to 1 along each row.",
)
def soft_lookup_not_normalised(Q, K, V):
    S = Q @ transposed(K)
    return np.exp(S - S.max(-1, keepdims=True)) @ V


@misconception(
    "soft_lookup",
    label="scores divided by their sum",
    hint="Negative scores then give negative weights: take `softmax`, which is given.",
)
def soft_lookup_share_of_sum(Q, K, V):
    S = Q @ transposed(K)
    return S / S.sum(-1, keepdims=True) @ V


@misconception(
    "soft_lookup",
    label="row maximum not subtracted",
    hint="`np.exp` of a large score is infinite, and inf / inf is NaN. Subtract each row's maximum first, or "
    "take the "
    "`softmax` that is given.",
)
def soft_lookup_overflows(Q, K, V):
    E = np.exp(Q @ transposed(K))
    return E / E.sum(-1, keepdims=True) @ V


@misconception(
    "soft_lookup",
    label="one maximum for all rows",
    hint="One maximum of all scores is subtracted; a row far below it becomes 0 / 0, which is NaN. Subtract "
    "each row's own, "
    "with `axis=-1, keepdims=True`.",
)
def soft_lookup_one_maximum(Q, K, V):
    S = Q @ transposed(K)
    E = np.exp(S - S.max())
    return E / E.sum(-1, keepdims=True) @ V


@misconception(
    "soft_lookup",
    label="right for a single sequence only",
    hint="This fits a single sequence: `K.T` reverses all axes, the batch among them, and a loop over the rows of "
    "`Q` and `K` runs over the batch instead. `np.swapaxes(K, -1, -2)` exchanges the last two axes alone. If you "
    "call your own `scores` here, look at its check first.",
)
def soft_lookup_all_axes_reversed(Q, K, V):
    return softmax(Q @ K.T) @ V


@misconception(
    "soft_lookup",
    label="extra keys or values dropped",
    hint="Keys or values that are left over are dropped, as `zip` does. A key without a value is a mistake "
    "of the caller: "
    "raise `ValueError`.",
)
def soft_lookup_drops_rest(Q, K, V):
    n = min(K.shape[-2], V.shape[-2])
    return attend(Q, K[..., :n, :], V[..., :n, :])


@misconception(
    "soft_lookup",
    label="one query at a time, no batch",
    hint="A loop over the rows of `Q` fits a single sequence: with batch axes in front, it runs over the batch. Your "
    "`scores` and `weighted_sum` take all queries at once.",
)
def soft_lookup_looped(Q, K, V):
    return np.array([softmax(K @ q) @ V for q in Q])


@misconception(
    "soft_lookup",
    label="row sums without keepdims",
    hint="The sum (or the maximum) of each row has lost its axis: (n_q, n_k) and (n_q,) do not fit, or divide the "
    "columns. Keep it with `axis=-1, keepdims=True`, or take the `softmax` that is given.",
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


# Wrong only where sizes agree, beyond some length, or for small numbers


@misconception(
    "project",
    label="W transposed where it is square",
    hint="`W` is turned over until it fits, and a square matrix fits either way. Its rows are d_in always: `X @ W`, "
    "without looking at shapes.",
)
def project_turned_when_square(X, W):
    return X @ (W.T if W.shape[1] == X.shape[-1] else W)


@misconception(
    "project",
    label="W transposed where only that fits",
    hint="A `W` of shape (d_out, d_in) is turned over without a word. Who hands in such a matrix has mixed something "
    "up, and learns of it if `X @ W` raises.",
)
def project_turned_to_fit(X, W):
    return X @ (W.T if W.shape[0] != X.shape[-1] else W)


@misconception(
    "project",
    label="only the first 512 vectors",
    hint="Vectors after the 512th are left out: a length is written into the code. Take n from `X.shape[-2]`.",
)
def project_512_vectors(X, W):
    result = X @ W
    result[..., 512:, :] = 0
    return result


@misconception(
    "project",
    label="rounded to decimals",
    hint="The result is rounded to a few decimals, which takes small numbers away. Round when you print.",
)
def project_rounded(X, W):
    return np.round(X @ W, 4)


@misconception(
    "qkv",
    label="values made with W_k where shapes agree",
    hint="Self-attention often has one shape for all: each of the three has its own matrix even so.",
)
def qkv_values_are_keys_when_shapes_agree(X, W_q, W_k, W_v):
    return X @ W_q, X @ W_k, X @ (W_k if W_k.shape == W_v.shape else W_v)


@misconception(
    "qkv",
    label="V written into X",
    hint="Where V has the shape of `X` it is written into `X`, which is the caller's. Return new arrays.",
)
def qkv_into_its_input(X, W_q, W_k, W_v):
    parts = X @ W_q, X @ W_k, X @ W_v
    if parts[2].shape == X.shape:
        X[...] = parts[2]
    return parts


@misconception(
    "qkv",
    label="only the first 64 numbers",
    hint="Only the first 64 numbers of each vector are used: a width is written into the code. Take d_in from "
    "`X.shape[-1]`.",
)
def qkv_64_numbers(X, W_q, W_k, W_v):
    return tuple(X[..., :64] @ W[:64] if W.shape[0] == X.shape[-1] else X @ W for W in (W_q, W_k, W_v))


@misconception(
    "scores",
    label="K transposed only where it must be",
    hint="`K` is transposed only where `Q @ K` does not fit by itself. As soon as n_k equals d_k it does, and gives "
    "other numbers: transpose `K` always.",
)
def scores_turned_when_needed(Q, K):
    return Q @ (K if K.shape[-2] == Q.shape[-1] == K.shape[-1] else transposed(K))


@misconception(
    "scores",
    label="only the first 512 keys",
    hint="Keys after the 512th get the score 0: a length is written into the code. Take n_k from `K.shape[-2]`.",
)
def scores_512_keys(Q, K):
    S = Q @ transposed(K)
    S[..., 512:] = 0
    return S


@misconception(
    "scores",
    label="small scores set to 0",
    hint="Scores below some small number are set to 0. They are scores too: leave them.",
)
def scores_small_dropped(Q, K):
    S = Q @ transposed(K)
    return np.where(np.abs(S) < 1e-5, S.dtype.type(0), S)


@misconception(
    "weighted_sum",
    label="A transposed where it is square",
    hint="Where there are as many queries as keys `A` is turned over. Its rows are queries always: `A @ V`.",
)
def weighted_sum_turned_when_square(A, V):
    return (transposed(A) if A.shape[-1] == A.shape[-2] else A) @ V


@misconception(
    "weighted_sum",
    label="only the first 64 keys",
    hint="A length is in the code: keys after the 64th are left out of the sum. Use `A.shape[-1]`.",
)
def weighted_sum_64_keys(A, V):
    return A[..., :64] @ V[..., :64, :] if A.shape[-1] == V.shape[-2] else A @ V


@misconception(
    "weighted_sum",
    label="small weights dropped",
    hint="Weights below some small number are taken for 0. A small weight on a large value counts: use all of them.",
)
def weighted_sum_small_dropped(A, V):
    return np.where(np.abs(A) < 1e-4, A.dtype.type(0), A) @ V


@misconception(
    "soft_lookup",
    label="softmax over the queries where square",
    hint="Where there are as many queries as keys softmax runs over the queries. The keys are the last axis, always.",
)
def soft_lookup_axis_by_size(Q, K, V):
    S = Q @ transposed(K)
    return softmax(S, axis=-2 if S.shape[-2] == K.shape[-2] else -1) @ V


@misconception(
    "soft_lookup",
    label="only the first 512 keys",
    hint="Keys after the 512th get no weight: a length is written into the code. Take n_k from `K.shape[-2]`.",
)
def soft_lookup_512_keys(Q, K, V):
    if K.shape[-2] == V.shape[-2]:
        K, V = K[..., :512, :], V[..., :512, :]
    return attend(Q, K, V)


@misconception(
    "soft_lookup",
    label="small weights dropped",
    hint="Weights below some small number are set to 0. A small weight on a large value counts: use all of them.",
)
def soft_lookup_small_dropped(Q, K, V):
    A = softmax(Q @ transposed(K))
    return np.where(A < 1e-5, A.dtype.type(0), A) @ V

"""Wrong answers that people really give, each with a hint. Students get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, and that its own hint is shown. The right answers here are those from which
`families` makes the mistakes that any function can have; all others are in `right_answers.py`.

One mistake cannot be listed, because it never behaves the same way twice: draws from `np.random` instead of `rng`.
The check itself names it.
"""

import math

import numpy as np

from checking import COMMON, families, misconception, right
from checking.answer_parts import scaled, softmax, transposed


def pairs(d_k, num_pairs, rng):
    """Return queries and keys, (num_pairs, d_k) each."""
    return rng.standard_normal((num_pairs, d_k)), rng.standard_normal((num_pairs, d_k))


def dots(d_k, num_pairs, rng):
    Q, K = pairs(d_k, num_pairs, rng)
    return (Q * K).sum(-1)


def entropy(A, logarithm=np.log):
    return -(A * logarithm(np.where(A > 0, A, 1))).sum(-1)


# by_hand: wrong


@misconception(
    "by_hand",
    label="formula for mean 0",
    hint="The chapter's formula, d_k times the square of an entry's variance, is only for entries with mean 0. "
    "These have mean 1/2.",
)
def by_hand_as_if_centred():
    return [1, 1 / 4, 1 / 16]


@misconception(
    "by_hand",
    label="square of the mean not subtracted",
    hint="The mean of the square is not yet the variance. For each product, subtract the square of the mean.",
)
def by_hand_mean_square():
    return [1, 1, 1 / 4]


@misconception(
    "by_hand",
    label="variance divided by the root of d_k",
    hint="Dividing a random number by T divides its variance by T squared, so dividing by the root of d_k divides "
    "the variance by d_k.",
)
def by_hand_divided_once():
    return [1, 3 / 4, 3 / 8]


@misconception(
    "by_hand",
    label="standard deviations instead of variances",
    hint="The variance is the mean squared distance from the mean, without taking a root.",
)
def by_hand_deviations():
    return [1, 3**0.5 / 2, 3**0.5 / 4]


@misconception(
    "by_hand",
    label="single tosses added instead of products",
    hint="A product of two tosses is 1 only if both tosses are 1. Its mean is 1/4, not 1/2.",
)
def by_hand_single_tosses():
    return [2, 1, 1 / 4]


# score_variance: wrong


@misconception(
    "score_variance",
    label="standard deviation instead of variance",
    hint="Use `.var()`, not `.std()`, and take no square root.",
)
def score_variance_is_deviation(d_k, num_pairs, rng):
    return dots(d_k, num_pairs, rng).std()


@misconception(
    "score_variance",
    label="dot products divided by sqrt(d_k)",
    hint="Dividing by sqrt(d_k) before taking the variance hides the growth that you are measuring. Use the raw q . "
    "k here; scaling is 2.2.",
)
def score_variance_of_scaled(d_k, num_pairs, rng):
    return (dots(d_k, num_pairs, rng) / d_k**0.5).var()


@misconception(
    "score_variance",
    label="dot products divided by d_k",
    hint="A dot product is a sum. This is the mean of the products, or the entries were scaled by d_k**-0.5, as "
    "layers scale their weights. Use `.sum(-1)` on products of N(0, 1) entries.",
)
def score_variance_of_mean(d_k, num_pairs, rng):
    Q, K = pairs(d_k, num_pairs, rng)
    return (Q * K).mean(-1).var()


@misconception(
    "score_variance",
    label="products not added up",
    hint="This is the variance of single products q_c k_c. Sum over d_k first, then take the variance of the sums.",
)
def score_variance_without_sum(d_k, num_pairs, rng):
    Q, K = pairs(d_k, num_pairs, rng)
    return (Q * K).var()


@misconception(
    "score_variance",
    label="keys equal to the queries",
    hint="Each query is its own key: q . q has mean d_k and variance 2 d_k. Draw the keys after the queries, from "
    "the same `rng`. Don't copy or restart the generator in between.",
)
def score_variance_query_is_key(d_k, num_pairs, rng):
    Q = rng.standard_normal((num_pairs, d_k))
    return (Q * Q).sum(-1).var()


@misconception(
    "score_variance",
    label="entries uniform from 0 to 1",
    hint="`rng.random` is uniform from 0 to 1, so its mean is not 0. Entries are N(0, 1): use `rng.standard_normal`.",
)
def score_variance_uniform(d_k, num_pairs, rng):
    Q, K = rng.random((num_pairs, d_k)), rng.random((num_pairs, d_k))
    return (Q * K).sum(-1).var()


@misconception(
    "score_variance",
    label="cosines instead of dot products",
    hint="The vectors are divided by their lengths, so this is the variance of a cosine. Leave the vectors as drawn.",
)
def score_variance_of_cosine(d_k, num_pairs, rng):
    Q, K = pairs(d_k, num_pairs, rng)
    return ((Q * K).sum(-1) / np.linalg.norm(Q, axis=-1) / np.linalg.norm(K, axis=-1)).var()


@misconception(
    "score_variance",
    label="mean instead of variance",
    hint="This is the mean of the dot products, which is about 0. Return their variance: `.var()`.",
)
def score_variance_is_mean(d_k, num_pairs, rng):
    return dots(d_k, num_pairs, rng).mean()


@misconception(
    "score_variance",
    label="one query for all pairs",
    hint="One query is used for all pairs, so the result depends on its random length. Every pair needs its own "
    "query: draw (num_pairs, d_k) of them.",
)
def score_variance_one_query(d_k, num_pairs, rng):
    q, K = rng.standard_normal(d_k), rng.standard_normal((num_pairs, d_k))
    return (K @ q).var()


@misconception(
    "score_variance",
    label="one key for all pairs",
    hint="One key is used for all queries, so the result depends on its random length. Every pair needs its own key: "
    "draw (num_pairs, d_k) of them.",
)
def score_variance_one_key(d_k, num_pairs, rng):
    Q, k = rng.standard_normal((num_pairs, d_k)), rng.standard_normal(d_k)
    return (Q @ k).var()


@misconception(
    "score_variance",
    label="summed over the pairs",
    hint="The sum runs over the pairs, so there are d_k sums and their variance grows with num_pairs. Sum over the "
    "d_k entries: the last axis of (num_pairs, d_k).",
)
def score_variance_over_pairs(d_k, num_pairs, rng):
    Q, K = pairs(d_k, num_pairs, rng)
    return (Q * K).sum(0).var()


@misconception(
    "score_variance",
    label="mean not subtracted",
    hint="This is the mean of the squared dot products. With few pairs their mean is not 0: subtract it before you "
    "square, or use `.var()`.",
)
def score_variance_around_zero(d_k, num_pairs, rng):
    return np.mean(dots(d_k, num_pairs, rng) ** 2)


@misconception(
    "score_variance",
    label="every query with every key",
    hint="`Q @ K.T` compares every query with every key. These num_pairs squared dot products are not independent "
    "and take much memory. Pair row i of `Q` only with row i of `K`: `(Q * K).sum(-1)`.",
)
def score_variance_all_with_all(d_k, num_pairs, rng):
    Q, K = pairs(d_k, num_pairs, rng)
    # The variance of all entries of Q @ K.T, without making them.
    mean = Q.mean(0) @ K.mean(0)
    return ((Q.T @ Q) * (K.T @ K)).sum() / num_pairs**2 - mean**2


@misconception(
    "score_variance",
    label="formula instead of a measurement",
    hint="The variances of the entries are measured, but d_k enters by a formula, which assumes what you should "
    "show. Compute the dot products and take their variance.",
)
def score_variance_by_formula(d_k, num_pairs, rng):
    Q, K = pairs(d_k, num_pairs, rng)
    return d_k * Q.var() * K.var()


@misconception(
    "score_variance",
    label="d_k itself returned",
    hint="Theory predicts d_k. Here the function should measure it, with numbers drawn from `rng`.",
)
def score_variance_returns_d_k(d_k, num_pairs, rng):
    return float(d_k)


@misconception(
    "score_variance",
    label="new generator with a fixed seed",
    hint="The function makes its own generator with a fixed seed, `np.random.default_rng(0)`. Draw from the "
    "argument `rng`; the caller chooses the seed.",
)
def score_variance_own_seed(d_k, num_pairs, rng):
    return dots(d_k, num_pairs, np.random.default_rng(0)).var()


@misconception(
    "score_variance",
    label="NumPy's global seed set",
    hint="`np.random.seed(0)` resets NumPy's global generator for the whole program. Draw from the argument `rng`: "
    "`rng.standard_normal(...)`.",
)
def score_variance_global_seed(d_k, num_pairs, rng):
    return dots(d_k, num_pairs, np.random.RandomState(0)).var()


@misconception(
    "score_variance",
    label="always 100 pairs",
    hint="The function draws 100 pairs for every num_pairs. Use `num_pairs` in the shape.",
)
def score_variance_hundred_pairs(d_k, num_pairs, rng):
    return dots(d_k, 100, rng).var()


@misconception(
    "score_variance",
    label="first entry left out",
    hint="The first of the d_k entries is missing, perhaps because of `range(1, d_k)`. Sum over all entries.",
)
def score_variance_one_entry_short(d_k, num_pairs, rng):
    Q, K = pairs(d_k, num_pairs, rng)
    return (Q * K)[:, 1:].sum(-1).var()


@misconception(
    "score_variance",
    label="dot products instead of their variance",
    hint="The function returns the num_pairs dot products themselves. Return their variance, one number.",
)
def score_variance_returns_products(d_k, num_pairs, rng):
    return dots(d_k, num_pairs, rng)


# score_variance: right


@families(
    "returns nothing",
    "decimals cut off",
    hints={
        "decimals cut off": "`int(...)` or `round(...)` cuts the decimals off. Return the variance as it is."
    },
)
@right("score_variance")
def score_variance_measured(d_k, num_pairs, rng):
    return dots(d_k, num_pairs, rng).var()


# scaled_scores: wrong


@misconception(
    "scaled_scores",
    label="scores not scaled",
    hint="These are the raw dot products. Divide them by the square root of d_k.",
)
def scaled_scores_unscaled(Q, K):
    return Q @ transposed(K)


@misconception(
    "scaled_scores",
    label="divided by d_k, not sqrt(d_k)",
    hint="The scores are divided by d_k. Either the square root is missing, or the scores are scaled twice (once "
    "for `Q`, once for `K` or for the product). Dividing scores by a number divides their variance by its square.",
)
def scaled_scores_by_width(Q, K):
    return Q @ transposed(K) / Q.shape[-1]


@misconception(
    "scaled_scores",
    label="exponent 1/2 without parentheses",
    hint="`/ d_k ** 1/2` means `/ d_k / 2`, because `**` binds more tightly than `/`. Write `** 0.5` or "
    "`math.sqrt(d_k)`.",
)
def scaled_scores_half_width(Q, K):
    return Q @ transposed(K) / Q.shape[-1] ** 1 / 2


@misconception(
    "scaled_scores",
    label="multiplied by sqrt(d_k), not divided",
    hint="Multiplying by sqrt(d_k) makes the variance even larger. Divide instead.",
)
def scaled_scores_multiplied(Q, K):
    return Q @ transposed(K) * math.sqrt(Q.shape[-1])


@misconception(
    "scaled_scores",
    label="divided by 8 for every d_k",
    hint="8 is sqrt(64), which is right only for d_k = 64. Take d_k from `Q.shape[-1]`.",
)
def scaled_scores_by_eight(Q, K):
    return Q @ transposed(K) / 8


@misconception(
    "scaled_scores",
    label="scale from n_k instead of d_k",
    hint="The scores are divided by the root of the number of keys. Dot products grow with the number of their "
    "terms, which is d_k: `K.shape[-1]`, not `K.shape[-2]`.",
)
def scaled_scores_by_keys(Q, K):
    return Q @ transposed(K) / math.sqrt(K.shape[-2])


@misconception(
    "scaled_scores",
    label="d_k read from axis 1",
    hint="`Q.shape[1]` is d_k only without leading axes; in a batch it is another dimension. Count from the end: "
    "`Q.shape[-1]`.",
)
def scaled_scores_second_size(Q, K):
    return Q @ transposed(K) / math.sqrt(Q.shape[1])


@misconception(
    "scaled_scores",
    label="cosines instead of dot products",
    hint="Queries and keys are divided by their lengths, so the scores are cosines. Leave the vectors as they are, "
    "and divide their dot product by sqrt(d_k) only.",
)
def scaled_scores_of_cosine(Q, K):
    lengths = np.linalg.norm(Q, axis=-1)[..., :, None] * np.linalg.norm(K, axis=-1)[..., None, :]
    return Q @ transposed(K) / lengths


@misconception(
    "scaled_scores",
    label="scores divided by their standard deviation",
    hint="The scale depends only on the width: sqrt(d_k).",
)
def scaled_scores_by_deviation(Q, K):
    S = Q @ transposed(K)
    return S / S.std()


@misconception(
    "scaled_scores",
    label="softmax already applied",
    hint="These are weights, after the softmax. Return the scaled scores themselves.",
)
def scaled_scores_are_weights(Q, K):
    return softmax(scaled(Q, K))


@misconception(
    "scaled_scores",
    label="scores clipped",
    hint="Large scores are clipped, here at 50. A stable softmax handles scores of any size, so leave them "
    "unchanged.",
)
def scaled_scores_clipped(Q, K):
    return np.clip(scaled(Q, K), -50, 50)


@misconception(
    "scaled_scores",
    label="Q scaled in place",
    hint="`Q /= ...` changes the caller's array. Write `Q / ...`, which makes a new array.",
)
def scaled_scores_in_place(Q, K):
    Q /= math.sqrt(Q.shape[-1])
    return Q @ transposed(K)


@misconception(
    "scaled_scores",
    label="scores transposed",
    hint="Rows and columns are swapped: this is `K @ Q^T`. Rows belong to queries: `Q @ K^T`.",
)
def scaled_scores_turned(Q, K):
    return scaled(K, Q)


@misconception(
    "scaled_scores",
    label="K not transposed",
    hint="`Q @ K` does not fit in general, but (n_q, d_k) times (d_k, n_k) does: swap the last two axes of `K`.",
)
def scaled_scores_without_transpose(Q, K):
    return Q @ K / math.sqrt(Q.shape[-1])


@misconception(
    "scaled_scores",
    label="all axes reversed by .T",
    hint="`K.T` reverses all axes, including the batch. Swap only the last two: `np.swapaxes(K, -1, -2)`.",
)
def scaled_scores_all_axes_reversed(Q, K):
    return Q @ K.T / math.sqrt(Q.shape[-1])


@misconception(
    "scaled_scores",
    label="reshaped instead of transposed",
    hint="`reshape` keeps the numbers in their old order, so it does not transpose. Use `np.swapaxes(K, -1, -2)`.",
)
def scaled_scores_reshaped(Q, K):
    return Q @ K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2]) / math.sqrt(Q.shape[-1])


@misconception(
    "scaled_scores",
    label="every sequence paired with every other",
    hint="Queries are compared with the keys of all other sequences: `np.inner`, `np.dot` and `np.tensordot` pair "
    "all leading axes. `@` keeps the sequences separate.",
)
def scaled_scores_all_pairs_of_sequences(Q, K):
    return np.inner(Q, K) / math.sqrt(Q.shape[-1])


@misconception(
    "scaled_scores",
    label="float16 widened to float32",
    hint="float16 becomes float32, because `np.float32(...)` is wider. A Python number such as `math.sqrt(d_k)` "
    "does not change the dtype.",
)
def scaled_scores_by_float32(Q, K):
    return Q @ transposed(K) / np.float32(math.sqrt(Q.shape[-1]))


# scaled_scores: right


@families(
    *COMMON,
    "result written into an argument",
    hints={
        "result in float64": "`np.sqrt(d_k)` is a NumPy float64 number, and dividing by it gives float64. Use "
        "`math.sqrt(d_k)` or `d_k ** 0.5`."
    },
    shapes="n_q d_k, n_k d_k",
)
@right("scaled_scores")
def scaled_scores_matmul(Q, K):
    return scaled(Q, K)


# weights_entropy: wrong


@misconception(
    "weights_entropy",
    label="logarithm to base 2",
    hint="Entropy in nats uses the natural logarithm, `np.log`.",
)
def weights_entropy_in_bits(A):
    return entropy(A, np.log2)


@misconception(
    "weights_entropy",
    label="minus sign missing",
    hint="Logarithms of weights below 1 are negative, but an entropy is not.",
)
def weights_entropy_without_minus(A):
    return -entropy(A)


@misconception(
    "weights_entropy",
    label="NaN where a weight is 0",
    hint="For a weight of 0, this is 0 times minus infinity, which is NaN. Take the logarithm only where the weight "
    "is positive: `np.log(np.where(A > 0, A, 1))`.",
)
def weights_entropy_nan_at_zeros(A):
    return -(A * np.log(A)).sum(-1)


@misconception(
    "weights_entropy",
    label="math.log(0) raises an error",
    hint="Skip weights of 0: `for a in row if a > 0`.",
)
def weights_entropy_math_log(A):
    return np.array([-sum(a * math.log(a) for a in row) for row in A], dtype=A.dtype)


@misconception(
    "weights_entropy",
    label="entropy 0 where a weight is 0",
    hint="`np.nan_to_num` comes after the sum, so one weight of 0 makes its whole row 0. Set the single terms to 0, "
    "before the sum.",
)
def weights_entropy_rows_to_zero(A):
    return np.nan_to_num(-(A * np.log(A)).sum(-1))


@misconception(
    "weights_entropy",
    label="small number inside the logarithm",
    hint="A small number inside the logarithm, such as 1e-9, is 0 in float16, and 0 times log 0 is again NaN. Take "
    "the logarithm only where the weight is positive: `np.log(np.where(A > 0, A, 1))`.",
)
def weights_entropy_small_number(A):
    return -(A * np.log(A + 1e-9)).sum(-1)


@misconception(
    "weights_entropy",
    label="factor a before the logarithm missing",
    hint="Each term is a ln a, not ln a.",
)
def weights_entropy_without_weight(A):
    return -np.log(np.where(A > 0, A, 1)).sum(-1)


@misconception(
    "weights_entropy",
    label="mean instead of sum",
    hint="This is the mean of -a ln a over the keys. The entropy is their sum.",
)
def weights_entropy_mean(A):
    return entropy(A) / A.shape[-1]


@misconception(
    "weights_entropy",
    label="summed over the queries",
    hint="Each query has its own weights, along the last axis: `axis=-1`.",
)
def weights_entropy_over_queries(A):
    return entropy(transposed(A))


@misconception(
    "weights_entropy",
    label="one sum for the whole array",
    hint="All terms are summed to one number, as `.sum()` without an axis and `A[A > 0]` do. Each query has its own "
    "entropy: `axis=-1`.",
)
def weights_entropy_of_everything(A):
    return np.asarray(entropy(A).sum())


@misconception(
    "weights_entropy",
    label="axis 1 instead of the last",
    hint="The sum runs over `axis=1`, which is the last axis only without leading axes. Count from the end: "
    "`axis=-1`.",
)
def weights_entropy_axis_one(A):
    return -(A * np.log(np.where(A > 0, A, 1))).sum(axis=1)


@misconception(
    "weights_entropy",
    label="terms not added up",
    hint="The result still has the n_k axis. Sum over it.",
)
def weights_entropy_without_sum(A):
    return -A * np.log(np.where(A > 0, A, 1))


@misconception(
    "weights_entropy",
    label="axis of the keys kept",
    hint="The result still has the n_k axis, with size 1. Remove `keepdims=True`.",
)
def weights_entropy_kept_axis(A):
    return entropy(A)[..., None]


@misconception(
    "weights_entropy",
    label="softmax applied to the weights",
    hint="`A` already contains weights. Use them as they are.",
)
def weights_entropy_of_softmax(A):
    return entropy(softmax(A))


@misconception(
    "weights_entropy",
    label="divided by the largest possible entropy",
    hint="The entropy is divided by ln n_k, its largest value. Return it in nats, without the division.",
)
def weights_entropy_share_of_largest(A):
    return entropy(A) / math.log(A.shape[-1]) if A.shape[-1] > 1 else entropy(A)


@misconception(
    "weights_entropy",
    label="perplexity instead of entropy",
    hint="This is e to the power of the entropy: perplexity, a number of keys. Return the entropy itself.",
)
def weights_entropy_perplexity(A):
    return np.exp(entropy(A))


@misconception(
    "weights_entropy",
    label="zeros of A filled in place",
    hint="`A[A == 0] = 1` writes into the caller's array, so its zeros are lost. `np.where(A > 0, A, 1)` makes a "
    "new array.",
)
def weights_entropy_fills_zeros(A):
    weights = A.copy()
    A[A == 0] = 1
    return -(weights * np.log(A)).sum(-1)


# weights_entropy: right


@families(
    but=["leading axes left flattened", "assert instead of ValueError"],
    hints={
        "result in float64": "Some step makes float64: `np.zeros` without a dtype, `astype(float)`, or Python "
        "numbers in `np.array`."
    },
)
@right("weights_entropy")
def weights_entropy_where(A):
    return entropy(A)


# Wrong only when sizes are equal, beyond some length, or for small numbers


@misconception(
    "score_variance",
    label="only the first 64 entries",
    hint="Entries after the 64th are left out of the dot product: the code contains a fixed width. Use `d_k`.",
)
def score_variance_64_entries(d_k, num_pairs, rng):
    Q, K = rng.standard_normal((2, num_pairs, d_k))
    return float((Q * K)[:, :64].sum(-1).var())


@misconception(
    "score_variance",
    label="keys left out",
    hint="The sum of a query's entries also has variance d_k, but it is not a dot product, and it scatters less. "
    "Multiply each entry of the query by the key's entry before you sum.",
)
def score_variance_without_keys(d_k, num_pairs, rng):
    Q = rng.standard_normal((num_pairs, d_k))
    return float(Q.sum(-1).var())


@misconception(
    "scaled_scores",
    label="K transposed only when necessary",
    hint="`K` is transposed only if `Q @ K` does not fit. When n_k equals d_k it fits, but gives other numbers. "
    "Always transpose `K`.",
)
def scaled_scores_turned_when_needed(Q, K):
    turned = K if K.shape[-2] == Q.shape[-1] == K.shape[-1] else np.swapaxes(K, -1, -2)
    return Q @ turned / math.sqrt(Q.shape[-1])


@misconception(
    "scaled_scores",
    label="only the first 512 keys",
    hint="Keys after the 512th get the score 0: the code contains a fixed length. Take n_k from `K.shape[-2]`.",
)
def scaled_scores_512_keys(Q, K):
    S = Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1])
    S[..., 512:] = 0
    return S


@misconception(
    "scaled_scores",
    label="d_k capped at 64",
    hint="The divisor never exceeds the root of 64. It should be the root of `Q.shape[-1]` for queries of any width.",
)
def scaled_scores_capped(Q, K):
    return Q @ np.swapaxes(K, -1, -2) / math.sqrt(min(Q.shape[-1], 64))


@misconception(
    "scaled_scores",
    label="small scores set to 0",
    hint="Scores below a threshold are set to 0. Keep all scores, however small.",
)
def scaled_scores_small_dropped(Q, K):
    S = Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1])
    return np.where(np.abs(S) < 1e-5, S.dtype.type(0), S)


@misconception(
    "weights_entropy",
    label="summed over the queries when square",
    hint="When there are as many queries as keys, the sum runs over the queries. The keys are always the last axis.",
)
def weights_entropy_axis_by_size(A):
    logarithms = np.log(np.where(A > 0, A, 1))
    return -(A * logarithms).sum(axis=-2 if A.ndim > 1 and A.shape[-1] == A.shape[-2] else -1)


@misconception(
    "weights_entropy",
    label="only the first 512 queries",
    hint="Queries after the 512th get the entropy 0: the code contains a fixed length. Take n_q from `A.shape[-2]`.",
)
def weights_entropy_512_queries(A):
    H = -(A * np.log(np.where(A > 0, A, 1))).sum(axis=-1)
    H[..., 512:] = 0
    return H


@misconception(
    "weights_entropy",
    label="small weights dropped",
    hint="Weights below a threshold are treated as 0. Many small weights add up: leave out only weights of 0.",
)
def weights_entropy_small_dropped(A):
    return -(A * np.log(np.where(A > 4e-4, A, 1))).sum(axis=-1)

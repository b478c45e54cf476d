"""Checks of exercise 2. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Arrays are compared with `specifications`, which computes them as sums over elements. It is in checking.zip together
with the runtime, `checking`, so that no one sees an answer by accident. The tolerance is `RTOL` in
`checking/expect.py` unless a check gives another. Random results are compared with bounds that a right answer, no
matter in which order it draws, misses less than once in 10^9. Each check explains how its bound was found.
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

import itertools
import math

import numpy as np

from checking import (
    Message,
    StandardChecks,
    Suite,
    expect,
    expect_agrees,
    expect_all_agree,
    expect_by_hand,
    expect_close,
    expect_unchanged,
    noncontiguous,
    told_by,
)
from checking.expect import as_array, describe
from checking.words import joined
from specifications import entropies, scaled_products

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 2, How much a dot product varies",
        "score_variance": "chapter 2, How much a dot product varies",
        "scaled_scores": "chapter 2, How much a dot product varies",
        "weights_entropy": "chapter 2, Temperature",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset


# by_hand


@check()
def by_hand_coins(by_hand, draw):
    """Returns mean and variance for four tosses against four, and the variance after the division."""
    tosses = np.array(list(itertools.product([0, 1], repeat=8)))  # all 256 outcomes, equally likely
    scores = (tosses[:, :4] * tosses[:, 4:]).sum(-1)
    expect_by_hand(by_hand(), [scores.mean(), scores.var(), (scores / math.sqrt(4)).var()])


# score_variance
#
# For n pairs the sample variance of q . k has mean d_k and standard deviation d_k sqrt(2 / (n - 1) + 6 / (n d_k)):
# the excess kurtosis of q . k is 6 / d_k. Its tails are heavier than a normal distribution's, so bounds do not count
# standard deviations: see each check.


def generator(draw):
    return np.random.default_rng(draw.rng.integers(2**62))


def measured(score_variance, *arguments):
    """Return a result of `score_variance` as a float; fail if it is not a finite number."""
    result = score_variance(*arguments)
    array = as_array(result)
    expect(
        array is not None and not array.ndim,
        Message("Expected one number, got {found}.", found=describe(result)),
    )
    expect(
        np.isfinite(array),
        Message("Expected a finite number, got {found}.", found=str(float(array))),
    )
    return float(array)


AT_ONCE = 20  # results that are requested together


def several(score_variance, cases):
    """Yield the result of `score_variance` for each list of arguments."""
    score_variance.ahead(cases)
    for case in cases:
        yield measured(score_variance, *case)


SURE = 21
ALMOST_SURE = 7


def like_right(score_variance, draw, d_k, num_pairs, low, high, right, wrong):
    """Measure until it is clear whether results are between `low` and `high` times d_k as often as right ones.

    It is Wald's test. `right` and `wrong` are the probabilities of such a result, each rounded towards the other one,
    so that a step multiplies the likelihood ratio of wrong to right by at most 1 on average for a right answer, and
    that of right to wrong for a wrong one. The first reaches e^21 for a right answer with a probability below
    e^-21 = 7.6e-10; the second reaches e^7 for a wrong answer less than once in 1000.

    Returns
    -------
    bool, int, int
        Whether they are, how many results were between the two, and how many there were.
    """
    if_near, if_far = math.log(wrong / right), math.log((1 - wrong) / (1 - right))
    evidence, near, calls = 0.0, 0, 0
    while calls < 800:
        for result in several(
            score_variance, [(d_k, num_pairs, generator(draw)) for _ in range(AT_ONCE)]
        ):
            is_near = low <= result / d_k <= high
            evidence += if_near if is_near else if_far
            near, calls = near + is_near, calls + 1
            if not -ALMOST_SURE < evidence < SURE:
                return evidence < SURE, near, calls
    return True, near, calls


# The laws that wrong answers follow instead of d_k. The message names them, in any order of the draws.
LAWS = [
    (Message("d_k squared"), lambda d_k, num_pairs: d_k**2),
    (Message("2 d_k, the variance of q . q"), lambda d_k, num_pairs: 2 * d_k),
    (
        Message("the square root of d_k, like the standard deviation"),
        lambda d_k, num_pairs: math.sqrt(d_k),
    ),
    (
        Message("1 for every d_k, as with single products of two entries, or scaled scores"),
        lambda d_k, num_pairs: 1,
    ),
    (Message("1 / d_k"), lambda d_k, num_pairs: 1 / d_k),
    (
        Message("d_k / 9, as with entries that are uniform from -1 to 1"),
        lambda d_k, num_pairs: d_k / 9,
    ),
    # Uniform from 0 to 1: mean 1/2 and variance 1/12, so that a product has variance 1/144 + 2/48.
    (
        Message("7 d_k / 144, as with entries that are uniform from 0 to 1"),
        lambda d_k, num_pairs: 7 * d_k / 144,
    ),
    (Message("num_pairs instead of d_k"), lambda d_k, num_pairs: num_pairs),
]


def followed(widths, num_pairs, results):
    """Return a sentence on the law that wrong results follow instead of d_k, as far as three of them show it."""
    for name, law in LAWS:
        if all(
            abs(result / law(d_k, num_pairs) - 1) < 0.2
            for d_k, result in zip(widths, results, strict=True)
        ):
            return Message("They follow {law}.", law=name)
    shares = [result / d_k for d_k, result in zip(widths, results, strict=True)]
    if min(shares) <= 0:
        return Message("A variance is positive.")
    if max(shares) < 1.4 * min(shares):
        share = float(np.mean(shares))
        message = "They are about {share} d_k, as if the variance of an entry were {variance}."
        return Message(message, share=f"{share:.2g}", variance=f"{math.sqrt(share):.2g}")
    message = "They are not proportional to d_k. Perhaps there are fewer pairs than num_pairs, or one query for all."
    return Message(message)


@check(weight=0.5)
def score_variance_number(score_variance, draw):
    """Returns one number that is not negative, even for only two pairs."""
    measured(score_variance, draw.sizes(1)[0], 20, generator(draw))
    two = list(several(score_variance, [(3, 2, generator(draw)) for _ in range(AT_ONCE)]))
    # A difference of equal numbers may be below 0 by its rounding. A mean of two dot products is below -0.3 in one of
    # 20 calls except once in 10^4.
    if min(two) < -0.3 or max(two) <= 0:
        message = "With two pairs, expected variances above 0, got numbers from {least} to {most}."
        message = Message(message, least=f"{min(two):.4g}", most=f"{max(two):.4g}")
        expect(False, message, ["the result is one number"])


@check(weight=3, needs=[score_variance_number])
def score_variance_value(score_variance, draw):
    """Returns a value near d_k for any d_k: with 250 pairs, and with 100 pairs when d_k is above 500."""
    widths, num_pairs, calls = draw.sizes(3), 250, 5
    cases = [(d_k, num_pairs, generator(draw)) for d_k in widths for _ in range(calls)]
    results = np.reshape(list(several(score_variance, cases)), (3, calls)).mean(1).tolist()
    # At d_k = 3, the worst case, the mean of 5 right answers is further off less than once in 10^10: Chernoff's bound
    # for the 1250 squared scores, truncated where they occur less than once in 10^15. Their squared means subtract
    # at most 1/20, and dividing by num_pairs - 1 adds 1/250.
    right = [abs(result / d_k - 1) <= 0.5 for d_k, result in zip(widths, results, strict=True)]
    if not all(right):
        pairs = zip(widths, results, strict=True)
        shown = [
            Message("{result} for d_k = {d_k}", result=f"{result:.4g}", d_k=d_k)
            for d_k, result in pairs
        ]
        message = (
            "With {num_pairs} pairs of N(0, 1) entries, the variance should be about d_k. The means of {calls} "
            "results were {shown}. {followed}"
        )
        follows = followed(widths, num_pairs, results)
        shown = joined("{left}, {right}", shown)
        message = Message(message, num_pairs=num_pairs, calls=calls, shown=shown, followed=follows)
        expect(False, message, ["the result is one number"])
    # A right answer's result is in this range with probability 0.997, or 0.97 with only 100 pairs. With one query
    # for all pairs, the probability is 0.44 (by simulation).
    alike, near, calls = like_right(
        score_variance, draw, 3, num_pairs, 0.5, 1.4, right=0.93, wrong=0.48
    )
    message = Message(
        "For d_k = 3 and num_pairs = {num_pairs}, only {near} of {calls} results were between 1.5 and 4.2. Nearly "
        "all should be. Perhaps there are far fewer pairs than num_pairs, or one query or key for all of them.",
        num_pairs=num_pairs,
        near=near,
        calls=calls,
    )
    expect(alike, message, ["the results are right on average"])
    # A score of so many terms is nearly normal: above 2.4 or below 0.3 times d_k less than once in 10^10 (Chernoff's
    # bound for 100 squared normal numbers, whose variances differ by a tenth or so).
    wide = draw.long()
    result = measured(score_variance, wide, 100, generator(draw))
    message = Message(
        "With 100 pairs of N(0, 1) entries, the variance should be about d_k = {wide}, but was {result}.",
        wide=wide,
        result=f"{result:.4g}",
    )
    expect(0.3 <= result / wide <= 2.4, message, ["small d_k are right"])


@check(weight=1, needs=[score_variance_value])
def score_variance_generator(score_variance, draw):
    """Draws only from `rng`: the same generator gives the same result, different generators different results."""
    d_k = draw.sizes(1)[0]
    results = []
    for _ in range(6):
        rng = generator(draw)
        first, again = several(score_variance, [(d_k, 100, rng)] * 2)  # each call gets a copy
        # Results differ by a tenth or so from draw to draw, so two agree to 10^-6 by chance once in 10^5.
        expect(
            abs(first - again) <= 1e-6 * abs(first),
            Message(
                "Two calls with generators in the same state returned {first} and {again}. Some number does not "
                "come from `rng`: look for `np.random.` and for a second generator.",
                first=f"{first:.6g}",
                again=f"{again:.6g}",
            ),
        )
        results.append(first)
    expect(
        any(result % 1 for result in results),
        Message(
            "All results are integers, such as {result}. The decimals are cut off, or nothing was measured.",
            result=f"{results[0]:g}",
        ),
        ["the same generator gives the same result"],
    )
    # Six draws in float32 agree by chance less than once in 10^25.
    expect(
        len(set(results)) > 1,
        Message(
            "Six generators in different states all gave {result}, so the result does not depend on `rng`. Measure "
            "it with numbers drawn from `rng`, without your own seed.",
            result=f"{results[0]:.6g}",
        ),
        ["the same generator gives the same result"],
    )


@check(weight=1, needs=[score_variance_generator])
def score_variance_scatter(score_variance, draw):
    """With 100 pairs, results scatter like the variance of 100 dot products of normal entries, none used twice."""
    # A right answer's result is this near with probability 0.50. With all 10,000 dot products of 100 queries and 100
    # keys, it is 0.99 (by simulation, as the others here).
    scatters, near, calls = like_right(
        score_variance, draw, 31, 100, 0.9, 1.1, right=0.52, wrong=0.97
    )
    expect_scatter(scatters, 31, near, calls, 0.1, 0.5)
    # At d_k = 1 it is 0.41, and 0.71 if the keys are left out: sums of normal entries have the same variance, but
    # scatter less.
    scatters, near, calls = like_right(
        score_variance, draw, 1, 100, 0.85, 1.15, right=0.44, wrong=0.7
    )
    expect_scatter(scatters, 1, near, calls, 0.15, 0.41)


def expect_scatter(scatters, d_k, near, calls, within, share):
    """Fail unless it is so; `near` of `calls` results with 100 pairs were within this share of d_k from d_k."""
    message = Message(
        "For d_k = {d_k} and num_pairs = 100, {near} of {calls} results were within {percent}% of {d_k}. That is too "
        "good: with 100 pairs, about {usual} should be. Either more than num_pairs dot products are used, or the "
        "products are not those of two normal numbers.",
        d_k=d_k,
        near=near,
        calls=calls,
        percent=round(100 * within),
        usual=round(share * calls),
    )
    expect(scatters, message, ["the results are right on average", "all draws are from `rng`"])


@check(weight=1, needs=[score_variance_scatter])
def score_variance_precision(score_variance, draw):
    """With 2000 pairs, nearly all results are within a tenth of d_k: each pair has its own query and key."""
    # A right answer's result is this near with probability 0.988. With 100 pairs it is 0.42.
    precise, near, calls = like_right(
        score_variance, draw, 5, 2000, 0.9, 1.1, right=0.98, wrong=0.43
    )
    expect(
        precise,
        Message(
            "For d_k = 5 and num_pairs = 2000, only {near} of {calls} results were between 4.5 and 5.5. With 2000 "
            "independent pairs, nearly all should be.",
            near=near,
            calls=calls,
        ),
        ["the results are roughly right", "all draws are from `rng`"],
    )


@check(weight=0.5, needs=[score_variance_scatter])
def score_variance_two(score_variance, draw):
    """With two pairs, measures how far the two dot products are from their own mean."""
    # Two dot products are often close to each other: the result is below 0.07 d_k with probability 0.29, or 0.21 if
    # it is divided by num_pairs - 1. They are less often both close to 0: with mean squares the probability is 0.07.
    # With far more pairs it is 0.
    own_mean, small, calls = like_right(
        score_variance, draw, 31, 2, -0.001, 0.07, right=0.205, wrong=0.071
    )
    message = Message(
        "For d_k = 31 and num_pairs = 2, only {small} of {calls} results were below 2.2. About {usual} should be, "
        "because two dot products are often close to their own mean. Perhaps their mean is not subtracted, or there "
        "are more than num_pairs of them.",
        small=small,
        calls=calls,
        usual=round(0.25 * calls),
    )
    expect(own_mean, message, ["the results are right on average", "all draws are from `rng`"])


# scaled_scores


scaled_scores_checks = StandardChecks(
    suite,
    "scaled_scores",
    scaled_products,
    sizes="n_q n_k d_k",
    arguments={"Q": "... n_q d_k", "K": "... n_k d_k"},
    result="... n_q n_k",
)
scaled_scores_checks.shape(
    "Returns an array of shape (n_q, n_k) for `Q` (n_q, d_k) and `K` (n_k, d_k)."
)


@check(weight=3, needs=["scaled_scores_shape"])
def scaled_scores_values(scaled_scores, draw):
    """Entry (i, j) of the result is the dot product of query i and key j, divided by the square root of d_k."""
    n_q, n_k, d_k = draw.sizes(3)
    # Three times as large, so that the standard deviation of the scores is far from sqrt(d_k). Twice with the same
    # sizes: nothing may be kept from call to call.
    cases = [(3 * draw.array(n_q, d_k), draw.array(n_k, d_k)) for _ in range(2)]
    expect_all_agree(scaled_scores, scaled_products, cases)
    # All sizes equal, and queries and keys from 1e-6 to 1: each score is compared relative to its own size.
    sizes_q, sizes_k = (draw.magnitudes(n_k, orders=6)[:, None] / 1000 for _ in "QK")
    Q, K = sizes_q * draw.array(n_k, n_k), sizes_k * draw.array(n_k, n_k)
    expect_agrees(scaled_scores, scaled_products, Q, K, unit=sizes_q * sizes_k.T)
    cases = []
    for n_q, n_k, d_k in [(draw.long(), 3, 4), (2, draw.long(), 4), (2, 3, draw.long())]:
        cases.append((noncontiguous(draw.array(n_q, d_k)), noncontiguous(draw.array(n_k, d_k))))
    expect_all_agree(scaled_scores, scaled_products, cases)


scaled_scores_checks.batch(
    "Keeps leading batch dimensions, one or several: queries meet only the keys of their own sequence."
)


scaled_scores_checks.ones(
    "Keeps dimensions of size 1: one query, one key, one number in each, one sequence in the batch.",
    ["n_q", "n_k", "d_k", "batch"],
)


@check(weight=0.5, needs=[scaled_scores_values])
def scaled_scores_large(scaled_scores, draw):
    """Does not clip scores in the thousands."""
    n_q, n_k, d_k = draw.sizes(3)
    Q, K = 40 * draw.array(n_q, d_k), 40 * draw.array(n_k, d_k)
    expect_agrees(scaled_scores, scaled_products, Q, K)


scaled_scores_checks.refuses(
    "Raises `ValueError` when the inner dimensions (d_k) differ, even if one of them is 1.",
    {"d_k": "d_k is {left} and {right}"},
    weight=0,
)


scaled_scores_checks.dtype(
    "Keeps the dtype of its inputs: float32 gives float32, float16 gives float16."
)


scaled_scores_checks.inputs("Does not change `Q` or `K`.")


# weights_entropy


def sharpened(draw, *shape):
    """Return weights with some nearly even rows and some uneven ones; no weight is below e^-3 / 13."""
    raw = np.exp(
        draw.rng.uniform(0, 3, size=shape) * draw.rng.uniform(0.2, 1, size=(*shape[:-1], 1))
    )
    return raw / raw.sum(-1, keepdims=True)


def with_zeros(draw, n_q, n_k):
    """Return weights (n_q, n_k): row i has weight only on its first i + 1 keys, as under a causal mask."""
    A = draw.weights(n_q, n_k) * np.tri(n_q, n_k)
    return A / A.sum(-1, keepdims=True)


def added_inside(H, A):
    """Return a sentence with the number that was added to the weights inside the logarithm; "" if there is none."""

    def with_added(number):
        return -(A * np.log(A + number)).sum(-1)

    low, high = 1e-12, 1.0
    for _ in range(60):
        number = math.sqrt(low * high)
        low, high = (number, high) if with_added(number).sum() > H.sum() else (low, number)
    if not np.allclose(H, with_added(number), rtol=1e-5, atol=0) or not 2e-12 < number < 0.5:
        return ""
    message = "The result is that of {number} added to each weight inside the logarithm, which is too much."
    return Message(message, number=f"{number:.2g}")


weights_entropy_checks = StandardChecks(
    suite,
    "weights_entropy",
    entropies,
    sizes="n_q n_k",
    arguments={"A": "... n_q n_k"},
    result="... n_q",
    weights=["A"],
)
weights_entropy_checks.shape(
    "Returns an array of shape (n_q,) for `A` (n_q, n_k): one number for each query."
)


@check(weight=3, needs=["weights_entropy_shape"])
def weights_entropy_values(weights_entropy, draw):
    """Entry i of the result is minus the sum of a ln a over query i's weights a, with the natural logarithm."""
    n_q, n_k = draw.sizes(2)
    first, again = (
        sharpened(draw, n_q, n_k),
        sharpened(draw, n_q, n_k),
    )  # nothing may be kept from call to call
    # As many queries as keys, sorted so that column sums differ from row sums; then far more queries than keys.
    alike, many = np.sort(sharpened(draw, n_k, n_k)), noncontiguous(sharpened(draw, draw.long(), 3))
    weights_entropy.ahead([(first,), (again,), (alike,), (many,)])
    for A in (first, again, alike, many):
        H = weights_entropy(A)
        with told_by(added_inside, H, A):
            expect_close(H, entropies(A))


@check(weight=2, needs=[weights_entropy_values])
def weights_entropy_zeros(weights_entropy, draw):
    """A weight of 0 adds nothing: all weight on one key gives 0, halves on two keys give ln 2."""
    n_q, n_k = draw.sizes(2)
    on_one, on_two = np.zeros((2, n_k, n_k))
    np.fill_diagonal(on_one, 1)
    on_two[:, 0] = on_two[:, 1] = 0.5
    # Together, so that 0 has the tolerance of numbers near 1: adding 10^-6 inside the logarithm does no harm here.
    expect_all_agree(
        weights_entropy,
        entropies,
        [(np.concatenate([on_one, on_two]),), (with_zeros(draw, n_q, n_k),)],
    )


@check(weight=2, needs=[weights_entropy_values])
def weights_entropy_batch(weights_entropy, draw):
    """Keeps leading batch dimensions, one or several: `A` (..., n_q, n_k) gives (..., n_q)."""
    n_q, n_k, b = draw.sizes(3)
    leads = [(b,), (2, b), (3, 2, 2)]
    expect_all_agree(
        weights_entropy, entropies, [(sharpened(draw, *lead, n_q, n_k),) for lead in leads]
    )


weights_entropy_checks.ones(
    "Keeps dimensions of size 1: one query, one sequence in the batch. A single key gives 0.",
    ["n_q", "batch", "n_k", "n_q,n_k"],
)


@check(weight=1, needs=[weights_entropy_values])
def weights_entropy_long(weights_entropy, draw):
    """Counts small weights: a thousand of similar size, and a hundred next to a large one."""
    # Ten times the usual tolerance: an answer that adds 10^-6 inside the logarithm is off by 1.5 in 10^4 here.
    A = draw.weights(draw.sizes(1)[0], 1009)
    expect_close(weights_entropy(A), entropies(A), rtol=1e-3)
    # 90% of the entropy comes from weights near 1e-4; adding 10^-6 inside the logarithm changes it by 1 in 10^3.
    A = 1e-4 * draw.rng.uniform(0.5, 1.5, size=(3, 101))
    A[:, 0] = 1 - A[:, 1:].sum(-1)
    expect_close(weights_entropy(A), entropies(A), rtol=2.5e-3)


weights_entropy_checks.dtype(
    "Keeps the dtype of the weights: float32 gives float32, float16 gives float16."
)


@check(weight=0.5, needs=[weights_entropy_zeros, "weights_entropy_dtype"])
def weights_entropy_half(weights_entropy, draw):
    """A weight of 0 also adds nothing in float16."""
    n_q, n_k = draw.sizes(2)
    A = with_zeros(draw, n_q, n_k).astype(np.float16)
    # Each step in float16 rounds by at most 2^-11: a logarithm, a product and n_k - 1 <= 12 sums of terms of the
    # same sign are off by less than 15 / 2048 = 0.8%. Adding 2^-10 inside the logarithm is off by as much again.
    expect_close(weights_entropy(A), entropies(A.astype(float)), rtol=0.03)


@check(weight=0.5, needs=["weights_entropy_shape"])
def weights_entropy_inputs(weights_entropy, draw):
    """Does not change `A`, including its zeros."""
    n_q, n_k = draw.sizes(2)
    expect_unchanged(weights_entropy, "A", with_zeros(draw, n_q, n_k))

"""Checks of exercise 3. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Gradients are compared with slopes measured by central differences in float64. For batches and large scores, they are
compared with `specifications`, which computes them as sums over elements. It is in checking.zip together with the
runtime, `checking`, so that no one sees an answer by accident. The default tolerance is `RTOL` in
`checking/expect.py`, relative to the largest expected magnitude. It leaves room for a right answer that computes in
float32 internally, which is by far the largest difference between right answers.
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
    StandardChecks,
    Suite,
    as_sum,
    counts_in,
    expect,
    expect_agrees,
    expect_all_agree,
    expect_all_raise,
    expect_array,
    expect_by_hand,
    expect_close,
    expect_dtypes,
    expect_inputs_kept,
    expect_tuple,
    noncontiguous,
    told_by,
)
from specifications import (
    attended,
    attention_weights,
    carried_back,
    entrywise_jacobian,
    gradients,
    weights_of,
)

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 3, Backward through softmax: grades and their average",
        "softmax": "chapter 3, Softmax that doesn't break",
        "softmax_jacobian": "chapter 3, The Jacobian: how each weight responds to each score",
        "softmax_backward": "chapter 3, Backward through softmax: grades and their average",
        "attention_forward": "chapter 3, Backward through all of attention",
        "attention_backward": "chapter 3, Backward through all of attention",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset


# Slopes by central differences. With a third derivative f''' the formula is off by STEP^2 f''' / 6, and rounding adds
# about 1e-16 |f| / STEP. Here |f| and |f'''| stay below 1000 and slopes reach at least 0.01, so the two errors are
# below 2e-8 and 1e-8: both are far below RTOL.
STEP = 1e-5

MOST_TERMS = 3  # of a sum that a message names

# For a single row or column, where sums may be small by chance, so that float32 rounding is no longer small next to
# them: it is of the order of 1e-7, while the largest number is below 1e-3 once in about 10^6 draws.
SINGLE = 1e-3

# For scores in the thousands. exp(s - logsumexp(s)) in float32 rounds a number below 16384 to within 5e-4, and a
# weight changes by that share. In float64 this effect is negligible.
LARGE = 2e-3


def slopes(function, X):
    """Return the slope of a number in every entry of `X`; `function` maps a stack of X to their numbers."""
    nudges = STEP * np.eye(X.size).reshape(X.size, *X.shape)
    return ((function(X + nudges) - function(X - nudges)) / (2 * STEP)).reshape(X.shape)


# Inputs


def spread(X):
    """Return X with its first column positive and its second negative: no row is nearly constant.

    A gradient that is constant along a row gives 0 through softmax, so only rounding would remain.
    """
    X = X.copy()
    X[..., :1], X[..., 1:2] = np.abs(X[..., :1]), -np.abs(X[..., 1:2])
    return X


def sequences(draw, *lead, n_q, n_k, d_k, d_v):
    """Return Q, K, V whose weights are neither even nor all on one key, so that a wrong softmax or scale shows."""
    V = np.swapaxes(spread(draw.array(*lead, d_v, n_k)), -1, -2).copy()
    return 1.5 * draw.array(*lead, n_q, d_k), draw.array(*lead, n_k, d_k), V


def of_all_magnitudes(draw, *lead):
    """Return Q, K, V of equal sizes, with weights from 1e-6 to 1: the smaller the weight, the larger the value."""
    (n,) = draw.sizes(1)
    Q, K, V = sequences(draw, *lead, n_q=n, n_k=n, d_k=n, d_v=n)
    size = draw.magnitudes(n, orders=6)
    Q[..., 0], K[..., 0] = 1, np.log(size) * np.sqrt(n)
    return Q, K, V / size[:, None]


def far_apart(draw, rows):
    """Return integers from -3750 to 3750, at least 1500 apart, one for each of six rows (or fewer).

    e^-1500 is 0 in float64, so a row whose own maximum is not subtracted becomes 0 / 0 or inf / inf.
    """
    return 1500 * draw.rng.permutation(6)[:rows] - 3750


def large_sequences(draw, *, n_k, d_v):
    """Return Q, K, V of shape (2, 3, ...) whose scores are in the thousands, and differ by thousands between queries.

    The numbers are integers and d_k is 16, whose root is exact, so float32 stores the scores without rounding.
    """
    Q, K = (draw.rng.integers(-1, 2, size=(2, n, 16)).astype(float) for n in (3, n_k))
    Q[..., 0], K[..., 0] = 4 * far_apart(draw, 6).reshape(2, 3), 1
    return Q, K, draw.array(2, n_k, d_v)


# by_hand


@check()
def by_hand_gradient(by_hand, draw):
    """Returns the gradient with respect to the three scores."""
    a, da = np.array([0.2, 0.3, 0.5]), np.array([10.0, 0, 2])
    slopes = np.array([[a[i] * ((i == j) - a[j]) for j in range(3)] for i in range(3)])
    expect_by_hand(by_hand(), [(da * slopes[:, j]).sum() for j in range(3)])


# softmax


@check(weight=1)
def softmax_shape(softmax, draw):
    """Returns weights of the same shape as the scores (n_q, n_k)."""
    S = draw.array(*draw.sizes(2))
    expect_array(softmax(S), S.shape)


def added_to_sum(A, S):
    """Return a sentence with the number that was added to the sum of each row; "" if there is none."""
    for E in (np.exp(S - S.max(axis=-1, keepdims=True)), np.exp(S)):
        total = E.sum(axis=-1, keepdims=True)
        number = (total * (1 / A.sum(axis=-1, keepdims=True) - 1)).mean()
        if number > 0 and np.allclose(A, E / (total + number), rtol=1e-5, atol=0):
            message = (
                "The result is that of {number} added to the sum of each row, which is too much."
            )
            return Message(message, number=f"{number:.2g}")
    return ""


@check(weight=3, needs=[softmax_shape])
def softmax_values(softmax, draw):
    """Each weight is e^score, divided by the sum of e^score over its row."""
    n_q, n_k = draw.sizes(2)
    S = draw.array(n_q, n_k)
    A = softmax(S)
    with told_by(added_to_sum, A, S):
        expect_close(A, weights_of(S))
    with told_by(lambda: REPEATED):
        expect_agrees(softmax, weights_of, draw.array(n_q, n_k))
    # As many rows as scores in a row, and weights from 1e-6 to 1: each is compared relative to its own size.
    S = draw.array(n_k, n_k) + np.log(draw.magnitudes(n_k, orders=6))
    A = softmax(S)
    with told_by(added_to_sum, A, S):
        expect_close(A, weights_of(S), unit=weights_of(S))
    cases = [(noncontiguous(draw.array(*shape)),) for shape in [(2, draw.long()), (draw.long(), 3)]]
    expect_all_agree(softmax, weights_of, cases)


@check(weight=2, needs=[softmax_values])
def softmax_batch(softmax, draw):
    """Keeps leading batch dimensions, several or none: a batch of matrices, a batch of batches, a single row."""
    n_q, n_k, b = draw.sizes(3)
    leads = [(b, n_q), (2, b, n_q), (3, 2, 2, n_q), ()]
    expect_all_agree(softmax, weights_of, [(draw.array(*lead, n_k),) for lead in leads])


@check(weight=1, needs=[softmax_values])
def softmax_ones(softmax, draw):
    """Keeps dimensions of size 1: one row, one score in a row (its weight is 1), one matrix in the batch."""
    n_q, n_k = draw.sizes(2)
    cases = [(draw.array(*shape),) for shape in [(1, n_k), (n_q, 1), (1, 1), (1, n_q, n_k)]]
    expect_all_agree(softmax, weights_of, cases)


@check(weight=2, needs=[softmax_values])
def softmax_large(softmax, draw):
    """Scores in the thousands, positive or negative, give the same weights as small ones with equal differences."""
    n_q, n_k = draw.sizes(2)
    # Integers, which float32 stores exactly.
    S = draw.rng.integers(-2, 3, size=(n_q, n_k)).astype(float)
    expect_agrees(softmax, weights_of, S + 10_000, rtol=LARGE)
    expect_agrees(softmax, weights_of, S - 10_000, rtol=LARGE)
    # Two scores of each row are far above the rest, not the first: only their difference matters.
    S[:, 1:3] += 5_000
    expect_agrees(softmax, weights_of, S, rtol=LARGE)


@check(weight=2, needs=[softmax_values])
def softmax_rows(softmax, draw):
    """Rows whose scores differ by thousands do not affect each other, in a batch or in one matrix."""
    (n_k,) = draw.sizes(1)
    for lead in [(2, 3), (3,)]:
        S = draw.rng.integers(-2, 3, size=(*lead, n_k)) + far_apart(draw, np.prod(lead)).reshape(
            *lead, 1
        )
        expect_agrees(softmax, weights_of, S.astype(float), rtol=LARGE)


@check(weight=1, needs=[softmax_values])
def softmax_any_size(softmax, draw):
    """Returns finite weights for scores of any size: 1e30 in float64, the largest numbers in float16."""
    (n,) = draw.sizes(1)
    # In each row one score is so far above the rest that it gets all the weight: by 1e30, or by 32, the distance
    # between the largest float16 numbers (e^-32 is 1e-14), so that no rounding changes which score it is.
    ranks = draw.rng.permuted(
        np.tile(np.arange(n), (3, 1)), axis=1
    )  # (3, n): 0 to n - 1 in each row
    everything = (ranks == n - 1).astype(float)
    S = 1e30 * np.stack([ranks[0], ranks[1] - n, 2 * ranks[2] - n])  # positive, negative, both
    expect_close(softmax(S), everything)
    most = np.finfo(np.float16).max
    S = np.stack(
        [
            most - 32.0 * (n - 1 - ranks[0]),
            -most + 32.0 * ranks[1],
            np.where(everything[2], most, -most),
        ]
    )
    expect_close(softmax(S.astype(np.float16)), everything)


@check(weight=0, needs=[softmax_any_size])
def softmax_equal(softmax, draw):
    """Equal scores get equal weights, however large they are: 1e17 in float64, thousands in float16."""
    (n,) = draw.sizes(1)
    for S in (
        np.full((2, n), 1e17),
        np.full((2, n), -1e17),
        np.full((2, n), 4000, dtype=np.float16),
    ):
        expect_close(softmax(S), np.full((2, n), 1 / n), rtol=LARGE)


@check(weight=1, needs=[softmax_values])
def softmax_infinite(softmax, draw):
    """A score of -inf gets a weight of exactly 0 and does not affect the other weights of its row."""
    n_q, n_k = draw.sizes(2)
    S = draw.array(n_q, n_k)
    S[0] = -1e30 * draw.rng.permutation(
        np.arange(1, n_k + 1)
    )  # below most numbers that may replace -inf
    gone = draw.rng.permuted(np.arange(n_k) < np.arange(n_q)[:, None] % (n_k - 1) + 1, axis=1)
    S[gone] = -np.inf
    got = expect_array(softmax(S), S.shape)
    expect_close(got, weights_of(S))
    passed = [
        Message("the shape {shape} is right", shape=str(got.shape)),
        "the other weights are right",
    ]
    expect(
        (got[gone] == 0).all(),
        Message(
            "Expected a weight of exactly 0 for every score of -inf, got up to {most}.",
            most=f"{got[gone].max():.3g}",
        ),
        passed,
    )


@check(weight=0.5, needs=[softmax_shape])
def softmax_dtype(softmax, draw):
    """Keeps the dtype of its input: float32 gives float32, float16 gives float16."""
    expect_dtypes(softmax, draw.array(*draw.sizes(2)))


@check(weight=0.5, needs=[softmax_shape])
def softmax_inputs(softmax, draw):
    """Does not change `S`, and accepts a read-only array."""
    expect_inputs_kept(softmax, "S", draw.array(*draw.sizes(2)))


# softmax_jacobian


def measured_jacobian(s):
    """Return the slope of every weight i in every score j, measured."""
    nudges = STEP * np.eye(len(s))
    return (
        (weights_of(s + nudges) - weights_of(s - nudges)) / (2 * STEP)
    ).T  # (n, n), a row for each weight


@check(weight=1)
def jacobian_shape(softmax_jacobian, draw):
    """Returns an array of shape (n, n) for weights (n,)."""
    (n,) = draw.sizes(1)
    expect_array(softmax_jacobian(draw.weights(n)), (n, n))


def long_enough(draw):
    """Return a length above 16, of which a fixed length would be a part; the terms of a sum can be found as well."""
    return 14 + draw.sizes(1)[0]


@check(weight=2, needs=[jacobian_shape])
def jacobian_diagonal(softmax_jacobian, draw):
    """Each diagonal entry is the slope of a weight in its own score (positive), as measured on softmax."""
    s = draw.array(long_enough(draw))
    J = expect_array(softmax_jacobian(weights_of(s)), (len(s), len(s)))
    with told_by(made_of, J, weights_of(s)):
        expect_close(
            np.diagonal(J), np.diagonal(measured_jacobian(s)), what=Message("the diagonal")
        )


def made_of(J, a):
    """Return a sentence naming the few simple matrices whose sum is `J`; "" if there are none, or if `J` is right."""
    ones = np.ones_like(a)
    terms = {
        "diag(a)": np.diag(a),
        "a a^T": np.outer(a, a),
        "diag(a^2)": np.diag(a**2),
        "I": np.eye(len(a)),
    }
    terms |= {"a 1^T": np.outer(a, ones), "1 a^T": np.outer(ones, a), "1 1^T": np.outer(ones, ones)}
    terms |= {"a^2 1^T": np.outer(a**2, ones), "1 (a^2)^T": np.outer(ones, a**2)}
    counts = {term: count for term, count in (counts_in(J, terms) or {}).items() if count}
    if not 0 < len(counts) <= MOST_TERMS or as_sum(counts) == as_sum({"diag(a)": 1, "a a^T": -1}):
        return ""
    return Message("The result is {sum}.", sum=as_sum(counts))


@check(weight=3, needs=[jacobian_shape])
def jacobian_others(softmax_jacobian, draw):
    """Each entry off the diagonal is the slope of a weight in another score (negative), as measured on softmax."""
    n = long_enough(draw)
    for _ in range(2):  # with the same length, so that nothing may be kept from call to call
        s = draw.array(n)
        diagonal = np.eye(len(s), dtype=bool)
        J = expect_array(softmax_jacobian(weights_of(s)), diagonal.shape)
        expected = np.where(diagonal, 0, measured_jacobian(s))
        with told_by(made_of, J, weights_of(s)):
            expect_close(
                np.where(diagonal, 0, J),
                expected,
                what=Message("the entries off the diagonal (which is shown as 0)"),
            )


@check(weight=1, needs=[jacobian_diagonal, jacobian_others])
def jacobian_saturated(softmax_jacobian, draw):
    """Handles weights that are 0, tiny or nearly 1: a weight of 1 gives zeros, and nothing is NaN."""
    (n,) = draw.sizes(1)
    a = np.zeros(n)
    a[draw.rng.integers(n)] = 1
    expect_close(softmax_jacobian(a), np.zeros((n, n)))
    # A softmax of scores 2000 apart: all but three weights are exactly 0.
    s = draw.array(n)
    s[draw.rng.permutation(n)[3:]] -= 2000
    a = weights_of(s)
    expect_agrees(softmax_jacobian, entrywise_jacobian, a)
    # Weights from 1e-8 to 1: each slope is compared relative to the smaller of its two weights.
    a = draw.magnitudes(n) * draw.weights(n)
    a /= a.sum()
    expect_agrees(softmax_jacobian, entrywise_jacobian, a, unit=np.minimum.outer(a, a))


@check(weight=1, needs=[jacobian_diagonal, jacobian_others])
def jacobian_layouts(softmax_jacobian, draw):
    """Returns [[0]] for a single weight, and works for long rows and for a row that is a column of a matrix."""
    expect_close(softmax_jacobian(np.ones(1)), np.zeros((1, 1)))
    n = 129 + sum(draw.sizes(2))  # 512 would need a quarter of a million entries
    a = draw.weights(n)
    expected = np.where(np.eye(n, dtype=bool), a * (1 - a), -np.multiply.outer(a, a))
    for weights in (a, np.stack([a, a], axis=1)[:, 0]):
        expect_close(softmax_jacobian(weights), expected)


@check(weight=0.5, needs=[jacobian_shape])
def jacobian_dtype(softmax_jacobian, draw):
    """Keeps the dtype of its input: float32 gives float32, float16 gives float16."""
    expect_dtypes(softmax_jacobian, draw.weights(*draw.sizes(1)))


@check(weight=0.5, needs=[jacobian_shape])
def jacobian_inputs(softmax_jacobian, draw):
    """Does not change `a`, and accepts a read-only array."""
    expect_inputs_kept(softmax_jacobian, "a", draw.weights(*draw.sizes(1)))


# softmax_backward


def weights_and_gradient(draw, *shape):
    """Return weights that are far from even, and a gradient for them."""
    return weights_of(1.5 * draw.array(*shape)), spread(draw.array(*shape))


@check(weight=1)
def backward_shape(softmax_backward, draw):
    """Returns an array of the same shape as `A` and `dA` (n_q, n_k)."""
    A, dA = weights_and_gradient(draw, *draw.sizes(2))
    expect_array(softmax_backward(A, dA), A.shape)


@check(weight=4, needs=[backward_shape])
def backward_values(softmax_backward, draw):
    """Each entry is the slope of sum(dA * softmax(S)) in one score, as measured."""
    n_q, n_k = draw.sizes(2)
    S, dA = 1.5 * draw.array(n_q, n_k), spread(draw.array(n_q, n_k))
    expected = slopes(lambda stack: (dA * weights_of(stack)).sum((-2, -1)), S)
    expect_close(softmax_backward(weights_of(S), dA), expected)
    with told_by(lambda: REPEATED):
        expect_agrees(softmax_backward, carried_back, *weights_and_gradient(draw, n_q, n_k))
    expect_close(softmax_backward(noncontiguous(weights_of(S)), noncontiguous(dA)), expected)
    # As many rows as weights in a row, and weights from 1e-8 to 1: the smaller the weight, the larger its gradient.
    A = weights_of(draw.array(n_k, n_k) + np.log(draw.magnitudes(n_k)))
    expect_agrees(softmax_backward, carried_back, A, spread(draw.array(n_k, n_k)) / A)
    cases = [
        (*weights_and_gradient(draw, *shape),) for shape in [(2, draw.long()), (draw.long(), 3)]
    ]
    expect_all_agree(softmax_backward, carried_back, cases)


@check(weight=2, needs=[backward_values])
def backward_batch(softmax_backward, draw):
    """Keeps leading batch dimensions, several or none: a batch of matrices, a batch of batches, a single row."""
    n_q, n_k, b = draw.sizes(3)
    leads = [(b, n_q), (2, b, n_q), (3, 2, 2, n_q), ()]
    cases = [(*weights_and_gradient(draw, *lead, n_k),) for lead in leads]
    expect_all_agree(softmax_backward, carried_back, cases)


@check(weight=1, needs=[backward_values])
def backward_ones(softmax_backward, draw):
    """Keeps dimensions of size 1: one row, one weight in a row (its gradient is 0), one matrix in the batch."""
    n_q, n_k = draw.sizes(2)
    cases = [
        (*weights_and_gradient(draw, *shape),)
        for shape in [(1, n_k), (n_q, 1), (1, 1), (1, n_q, n_k)]
    ]
    expect_all_agree(softmax_backward, carried_back, cases)


@check(weight=1, needs=[backward_values])
def backward_saturated(softmax_backward, draw):
    """A score whose weight is 0 gets gradient 0; so does every score of a row with all its weight in one place."""
    n_q, n_k = draw.sizes(2)
    S = draw.array(n_q, n_k)
    S[
        draw.rng.permuted(
            np.arange(n_k) >= 1 + np.arange(n_q)[:, None] % n_k * np.ones(n_k), axis=1
        )
    ] -= 2000
    expect_agrees(softmax_backward, carried_back, weights_of(S), draw.array(n_q, n_k))


@check(weight=0, needs=[backward_values])
def backward_refuses(softmax_backward, draw):
    """Raises `ValueError` when the two values of n differ, even if one of them is 1."""
    n_q, n_k, other = draw.sizes(3)
    refused = []  # arguments, and what is wrong with them
    for left, right in [(n_k, other), (n_k, 1), (1, n_k)]:
        because = Message("n is {left} and {right}", left=left, right=right)
        refused.append(((draw.weights(n_q, left), draw.array(n_q, right)), because))
    expect_all_raise([ValueError], softmax_backward, refused)


@check(weight=0.5, needs=[backward_shape])
def backward_dtype(softmax_backward, draw):
    """Keeps the dtype of its inputs: float32 gives float32, float16 gives float16."""
    expect_dtypes(softmax_backward, *weights_and_gradient(draw, *draw.sizes(2)))


@check(weight=0.5, needs=[backward_shape])
def backward_inputs(softmax_backward, draw):
    """Does not change `A` or `dA`, and accepts read-only arrays."""
    expect_inputs_kept(softmax_backward, ["A", "dA"], *weights_and_gradient(draw, *draw.sizes(2)))


# attention_forward


forward_checks = StandardChecks(
    suite,
    "attention_forward",
    attended,
    sizes="n_q n_k d_k d_v",
    arguments={"Q": "... n_q d_k", "K": "... n_k d_k", "V": "... n_k d_v"},
    result={"Z": "... n_q d_v", "A": "... n_q n_k"},
    inputs=sequences,
    prefix="forward",
)
forward_checks.shape("Returns a tuple of two arrays: Z (n_q, d_v) and A (n_q, n_k).")


@check(weight=3, needs=["forward_shape"])
def forward_weights(attention_forward, draw):
    """Row i of A is the softmax of query i's dot products with all keys, divided by sqrt(d_k)."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    Q, K, V = sequences(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
    expect_close(
        expect_tuple(attention_forward(Q, K, V), "ZA")[1], attention_weights(Q, K), what="A"
    )
    Q, K, V = sequences(draw, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v)
    with told_by(lambda: REPEATED):
        expect_close(
            expect_tuple(attention_forward(Q, K, V), "ZA")[1], attention_weights(Q, K), what="A"
        )


@check(weight=2, needs=[forward_weights])
def forward_result(attention_forward, draw):
    """Row i of Z is the sum of the values, each times its weight in row i of A."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    sizes = {"n_q": n_q, "n_k": n_k, "d_k": d_k, "d_v": d_v}
    cases = [sequences(draw, **sizes), sequences(draw, **sizes), of_all_magnitudes(draw)]
    for n_q, n_k in [(draw.long(), 3), (2, draw.long())]:
        cases.append([*map(noncontiguous, sequences(draw, n_q=n_q, n_k=n_k, d_k=5, d_v=4))])
    expect_all_agree(attention_forward, attended, cases, names="ZA")


forward_checks.batch(
    "Keeps leading batch dimensions, one or several: each sequence attends to its own keys and values.",
    needs=["result"],
)


forward_checks.ones(
    "Keeps dimensions of size 1: one query, one key, d_k = 1, d_v = 1, one sequence in the batch.",
    ["n_q", "n_k", "d_k", "d_v", "batch"],
    needs=["result"],
    rtol=SINGLE,
)


@check(weight=1, needs=[forward_result])
def forward_large(attention_forward, draw):
    """Returns the right, finite weights for scores in the thousands that also differ by thousands."""
    n_k, d_v = draw.sizes(2)
    Q, K, V = large_sequences(draw, n_k=n_k, d_v=d_v)
    expect_agrees(attention_forward, attended, Q, K, V, names="ZA", rtol=LARGE)
    # One key's scores are far above the others', or below them.
    K[..., 0] = np.arange(n_k) == 1
    expect_agrees(attention_forward, attended, Q, K, V, names="ZA", rtol=LARGE)


forward_checks.refuses(
    "Raises `ValueError` when the values of d_k, or the numbers of keys and values, differ, even if one is 1.",
    {"d_k": "d_k is {left} and {right}", "n_k": "keys: {keys}, values: {values}"},
    weight=0,
    needs=["result"],
)


forward_checks.dtype(
    "Returns Z and A in the dtype of the inputs: float32 gives float32, float16 gives float16."
)


forward_checks.inputs(
    "Does not change `Q`, `K` or `V`, and accepts read-only arrays.", read_only=True
)


# attention_backward

GRADIENTS = ("dQ", "dK", "dV")


def upstream(draw, *lead, n_q, n_k, d_k, d_v):
    """Return Q, K, V and a gradient dZ, all entries of which differ."""
    return *sequences(draw, *lead, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v), draw.array(*lead, n_q, d_v)


def expect_slopes(attention_backward, draw, name):
    """Fail unless one of the three gradients is the slope of sum(dZ * Z), measured in every entry."""
    at = GRADIENTS.index(name)
    # As many queries as keys, so that a product with a transposed matrix fits, and its value shows which one it is.
    n, d_k, d_v = draw.sizes(3)
    Q, K, V, dZ = upstream(draw, n_q=n, n_k=n, d_k=d_k, d_v=d_v)

    def loss(stack):
        return (
            dZ * attended(*[stack if i == at else array for i, array in enumerate((Q, K, V))])[0]
        ).sum((-2, -1))

    expected = slopes(loss, (Q, K, V)[at])
    expect_close(expect_tuple(attention_backward(Q, K, V, dZ), GRADIENTS)[at], expected, what=name)


@check(weight=1)
def gradients_shape(attention_backward, draw):
    """Returns a tuple of three arrays: dQ, dK and dV, with the shapes of `Q`, `K` and `V`."""
    n, d_k, d_v = draw.sizes(3)
    Q, K, V, dZ = upstream(draw, n_q=n, n_k=n, d_k=d_k, d_v=d_v)
    parts = expect_tuple(attention_backward(Q, K, V, dZ), GRADIENTS)
    for part, array, name in zip(parts, (Q, K, V), GRADIENTS, strict=True):
        expect_array(part, array.shape, what=name)


@check(weight=2, needs=[gradients_shape])
def gradient_of_values(attention_backward, draw):
    """dV, the direct path: each entry is the slope of sum(dZ * Z) in one entry of `V`, as measured."""
    expect_slopes(attention_backward, draw, "dV")


@check(weight=3, needs=[gradients_shape])
def gradient_of_queries(attention_backward, draw):
    """dQ, through the softmax: each entry is the slope of sum(dZ * Z) in one entry of `Q`, as measured."""
    expect_slopes(attention_backward, draw, "dQ")


@check(weight=3, needs=[gradients_shape])
def gradient_of_keys(attention_backward, draw):
    """dK, through the softmax: each entry is the slope of sum(dZ * Z) in one entry of `K`, as measured."""
    expect_slopes(attention_backward, draw, "dK")


ALL_THREE = [gradient_of_values, gradient_of_queries, gradient_of_keys]


@check(weight=1, needs=ALL_THREE)
def gradients_lengths(attention_backward, draw):
    """Works for any sizes: more keys than queries, or fewer, hundreds of either, or all sizes equal."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    # Twice with the same sizes: nothing may be kept from call to call.
    sizes = [(n_q, n_k), (n_q, n_k), (n_k, n_q)]
    cases = [upstream(draw, n_q=queries, n_k=keys, d_k=d_k, d_v=d_v) for queries, keys in sizes]
    Q, K, V = of_all_magnitudes(draw)
    cases.append((Q, K, V, draw.array(*Q.shape)))
    for queries, keys in [(draw.long(), 3), (2, draw.long())]:
        cases.append(upstream(draw, n_q=queries, n_k=keys, d_k=5, d_v=4))
    expect_all_agree(attention_backward, gradients, cases, names=GRADIENTS)


@check(weight=2, needs=[gradients_lengths])
def gradients_batch(attention_backward, draw):
    """Keeps leading batch dimensions, one or several: each sequence has its own gradients."""
    n_q, n_k, d_k, d_v, b = draw.sizes(5)
    leads = [(b,), (2, b), (3, 2, 2)]
    cases = [upstream(draw, *lead, n_q=n_q, n_k=n_k, d_k=d_k, d_v=d_v) for lead in leads]
    cases.append([*map(noncontiguous, upstream(draw, b, n_q=n_k, n_k=n_q, d_k=d_v, d_v=d_k))])
    expect_all_agree(attention_backward, gradients, cases, names=GRADIENTS)


@check(weight=1, needs=[gradients_lengths])
def gradients_ones(attention_backward, draw):
    """Keeps dimensions of size 1: one query, one key (dQ and dK are 0), d_k = 1, d_v = 1, a batch of one."""
    n_q, n_k, d_k, d_v = draw.sizes(4)
    sizes = {"n_q": n_q, "n_k": n_k, "d_k": d_k, "d_v": d_v}
    cases = [upstream(draw, **(sizes | {name: 1})) for name in sizes] + [upstream(draw, 1, **sizes)]
    expect_all_agree(attention_backward, gradients, cases, names=GRADIENTS, rtol=SINGLE)


@check(weight=1, needs=[gradients_lengths])
def gradients_large(attention_backward, draw):
    """Returns the right, finite gradients for scores in the thousands that also differ by thousands."""
    n_k, d_v = draw.sizes(2)
    Q, K, V = large_sequences(draw, n_k=n_k, d_v=d_v)
    dZ = draw.array(*Q.shape[:-1], d_v)
    expect_agrees(attention_backward, gradients, Q, K, V, dZ, names=GRADIENTS, rtol=LARGE)
    # One key's scores are far above the others', or below them.
    K[..., 0] = np.arange(n_k) == 1
    expect_agrees(attention_backward, gradients, Q, K, V, dZ, names=GRADIENTS, rtol=LARGE)


@check(weight=0, needs=[gradients_lengths])
def gradients_refuse(attention_backward, draw):
    """Raises `ValueError` when `Q`, `K` and `V` do not fit, or `dZ` is not shaped like Z, even if a size is 1."""
    n_q, n_k, d_k, d_v, other = draw.sizes(5)
    fitting = {"Q": (n_q, d_k), "K": (n_k, d_k), "V": (n_k, d_v), "dZ": (n_q, d_v)}
    refused = []  # arguments, and what is wrong with them
    for name, axis in [("Q", 1), ("K", 1), ("K", 0), ("V", 0), ("dZ", 0), ("dZ", 1)]:
        for wrong in (other, 1):
            shape = [wrong if i == axis else size for i, size in enumerate(fitting[name])]
            arguments = [
                draw.array(*dimensions) for dimensions in (fitting | {name: shape}).values()
            ]
            because = Message(
                "axis {axis} of {name} should have size {size}, but has size {wrong}",
                axis=axis,
                name=name,
                size=fitting[name][axis],
                wrong=str(wrong),
            )
            refused.append((arguments, because))
    expect_all_raise([ValueError], attention_backward, refused)


@check(weight=0.5, needs=[gradients_shape])
def gradients_dtype(attention_backward, draw):
    """Returns dQ, dK and dV in the dtype of the inputs: float32 gives float32, float16 gives float16."""
    n, d_k, d_v = draw.sizes(3)
    expect_dtypes(
        attention_backward, *upstream(draw, n_q=n, n_k=n, d_k=d_k, d_v=d_v), names=GRADIENTS
    )


@check(weight=0.5, needs=[gradients_shape])
def gradients_inputs(attention_backward, draw):
    """Does not change `Q`, `K`, `V` or `dZ`, and accepts read-only arrays."""
    # The results have their shape, and could be written into them.
    (n,) = draw.sizes(1)
    arguments = upstream(draw, n_q=n, n_k=n, d_k=n, d_v=n)
    expect_inputs_kept(attention_backward, ["Q", "K", "V", "dZ"], *arguments)

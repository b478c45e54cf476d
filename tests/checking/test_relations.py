"""Relations between a wrong result and the expected one: each where it holds, and near misses,
which are not said.
"""

import json
import sys
from types import ModuleType

import numpy as np
import pytest

from autograder.authoring import loader
from autograder.authoring.hint_coverage import hints
from autograder.checking import Draw, Report, Suite, families, misconception, right, show
from autograder.checking.expect import (
    expect_agrees,
    expect_array,
    expect_close,
    expect_dtypes,
    expect_raises,
    expect_unchanged,
)
from autograder.checking.relations import MOST_ELEMENTS, RELATIONS, Mismatch, only_there, relate

SEED = 3


def case(change, number, shape=("b", "n_q", "n_k")):
    """Return the case of one draw: an expected array with these axes, and what `change` makes of
    it.
    """
    draw = Draw(number, "relations")
    sizes = dict(zip(["b", "n_q", "n_k", "d_k"], draw.sizes(4), strict=True))
    expected = draw.array(*[sizes[name] for name in shape])
    return Mismatch(expected, np.asarray(change(expected, sizes)), sizes=sizes)


def relation_to(change, **named):
    """Return the relation that three draws show for a change."""
    others = [case(change, number, **named) for number in (2, 3)]
    return str(relate(case(change, 1, **named), lambda: others))


def one_wrong(e, places):
    g = e.copy()
    g[places] += 5
    return g


def with_nan(e, places, number=np.nan):
    g = e.copy()
    g[places] = number
    return g


HOLDS = {
    "Every element of the result is 0.": lambda e, sizes: 0 * e,
    "Every element of the result is the same number.": lambda e, sizes: np.full_like(e, 4),
    "Each element of the result is -1 times the expected one.": lambda e, sizes: -e,
    "Each element of the result is sqrt(d_k) = ": lambda e, sizes: e * sizes["d_k"] ** 0.5,
    "Each element of the result is 1 / sqrt(d_k) = ": lambda e, sizes: e / sizes["d_k"] ** 0.5,
    "Each element of the result is sqrt(d_k / n_q) = ": lambda e, sizes: (
        e * (sizes["d_k"] / sizes["n_q"]) ** 0.5
    ),
    "Each element of the result is 2 times": lambda e, sizes: 2 * e,
    "Each element of the result is 1.7 times": lambda e, sizes: 1.7 * e,
    "All elements of the result are off by the same factor": lambda e, sizes: e * np.abs(e).sum(),
    "Each element of the result is the expected one plus 1.": lambda e, sizes: e + 1,
    "Each element of the result is 1 divided by the expected one.": lambda e, sizes: 1 / e,
    "Each element of the result is the exponential of the expected one.": lambda e, sizes: np.exp(
        e
    ),
    "Each element of the result is the absolute value of the expected one.": lambda e, sizes: (
        np.abs(e)
    ),
    "Each element of the result is the expected one truncated to an integer.": lambda e, sizes: (
        np.trunc(e)
    ),
    "The transpose of the result is right.": lambda e, sizes: np.swapaxes(e, -1, -2),
    "The axes of the result are in the wrong order.": lambda e, sizes: e.T,
    "The axes of the result are in the wrong order, and `reshape` or `view` gave it the right "
    "shape.": (lambda e, sizes: e.transpose(1, 0, 2).reshape(e.shape)),
    "Along axis -1, the result has the right numbers in the wrong order.": lambda e, sizes: np.roll(
        e, 1, -1
    ),
    "Along axis -2, the result has the right numbers in the wrong order.": lambda e, sizes: np.roll(
        e, 1, -2
    ),
    "All numbers of the result are right, but in the wrong places.": (
        lambda e, sizes: np.random.default_rng(0).permutation(e.ravel()).reshape(e.shape)
    ),
    "Along axis -1, the result is in reverse order.": lambda e, sizes: e[..., ::-1],
    "Each row of the result is the same, but they should differ.": lambda e, sizes: np.broadcast_to(
        np.cos(e.sum(-2, keepdims=True)), e.shape
    ),
    "The elements of the result are right and in the right order, but the shape is wrong.": lambda e, sizes: (
        e.reshape(-1, e.shape[-1])
    ),
    "Each row of the result is the expected one times a factor of its own.": lambda e, sizes: (
        e * np.exp(e[..., :1])
    ),
    "Each row of the result is the expected one plus a constant of its own.": lambda e, sizes: (
        e - e.max(-1, keepdims=True) * 3
    ),
    "Only the first row of the result is wrong.": lambda e, sizes: one_wrong(e, np.s_[:, 0]),
    "Only the first column of the result is right.": lambda e, sizes: np.where(
        np.arange(e.shape[-1]) > 0, np.tan(e), e
    ),
    "Along axis -1, the result is right up to index 1 and wrong from index 2 on.": lambda e, sizes: (
        np.where(np.arange(e.shape[-1]) < 2, e, np.tan(e))
    ),
    "Every element of the result is NaN.": lambda e, sizes: e * np.nan,
    "Where the result is not NaN, it is right.": lambda e, sizes: np.where(e > 0, e, np.nan),
}


@pytest.mark.parametrize("start", HOLDS)
def test_a_relation_is_reported_where_it_is_true(start):
    assert relation_to(HOLDS[start]).startswith(start)


NOTHING = {
    "other places and one other number": lambda e, sizes: np.roll(one_wrong(e, (0, 0, 0)), 1, -1),
    "right": lambda e, sizes: e,
    "right up to rounding": lambda e, sizes: e * (1 + 1e-6),
    "another function": lambda e, sizes: np.sin(7 * e),
    "nearly transposed": lambda e, sizes: one_wrong(np.swapaxes(e, -1, -2).copy(), np.s_[0, 1, 1]),
    "nearly a multiple": lambda e, sizes: one_wrong(3 * e, np.s_[0, 1, 1]) * (1 + 0.01 * np.cos(e)),
    "nearly the other sign": lambda e, sizes: -e * (1 + 0.01 * np.cos(9 * e)),
    "nearly reversed": lambda e, sizes: e[..., ::-1] + 0.01 * np.cos(9 * e),
    "nearly shifted": lambda e, sizes: np.roll(e, 1, -1) + 0.01 * np.cos(9 * e),
    "one element wrong": lambda e, sizes: one_wrong(e, np.s_[1, 1, 1]),
    "of another size": lambda e, sizes: np.cos(9 * np.ones((2, 2))) * e[0, :2, :2],
    "empty": lambda e, sizes: e[:0],
}


@pytest.mark.parametrize("name", NOTHING)
def test_near_misses_are_not_relations(name):
    assert relation_to(NOTHING[name]) == ""


def test_a_relation_of_one_draw_alone_is_not_reported():
    """By accident: in the first draw alone it is transposed, or the factor is a root of a size."""

    def by_accident(e, sizes):
        return e * 1.5 if sizes == case(lambda e, sizes: e, 1).sizes else np.sin(9 * e)

    assert relation_to(by_accident) == ""
    first = case(lambda e, sizes: 2 * e, 1)
    assert relate(first, lambda: []) == ""
    assert relate(first, lambda: [Mismatch(), first]) == ""


def test_an_ambiguous_relation_is_not_reported():
    """Two sizes of one value give no name to a factor; constants and symmetric arrays are no
    evidence.
    """

    def alike(number):
        mismatch = case(lambda e, sizes: e * sizes["d_k"] ** 0.5, number)
        mismatch.sizes = dict.fromkeys(mismatch.sizes, mismatch.sizes["d_k"])
        return mismatch

    assert "sqrt" not in str(relate(alike(1), lambda: [alike(2), alike(3)]))
    ones = [Mismatch(np.ones((3, 4)), np.full((3, 4), 2.0)) for _ in range(3)]
    assert relate(ones[0], lambda: ones[1:]) == ""
    even = [
        Mismatch(np.ones((n, 5)) / 5, np.cos(np.arange(n * 5.0)).reshape(n, 5)) for n in (3, 4, 6)
    ]
    assert relate(even[0], lambda: even[1:]) == ""
    single = [
        Mismatch(np.array([[number_at]]), np.array([[number_at + 1]]))
        for number_at in (2.0, 3.0, 5.0)
    ]
    assert "row" not in str(relate(single[0], lambda: single[1:]))


@pytest.mark.parametrize(
    "got",
    [
        np.full((3, 5), np.inf),
        np.full((3, 5), 1e300),
        np.array([["a"] * 5] * 3),
        np.array([[None] * 5] * 3),
        np.zeros((3, 5), dtype=bool),
        np.zeros((3, 5), dtype=np.uint8),
        np.full((3, 5), -(2**63)),
        np.zeros((0, 5)),
        np.zeros(()),
        np.zeros((1,) * 30),
        np.zeros(MOST_ELEMENTS + 1),
    ],
)
def test_no_value_is_too_odd(got):
    e = Draw(1).array(3, 5)
    for expected in (e, e * np.inf, e > 0):
        mismatch = Mismatch(
            expected, got if got.dtype.kind in "biuf" else None, arguments={"X": got}, result=got
        )
        with np.errstate(all="ignore"):
            assert [dict(relation(mismatch)) for relation in RELATIONS]


# Through a suite.


@pytest.fixture
def listed(monkeypatch):
    """The module `misconceptions`, with a right answer for `scores` and no wrong one."""

    @families("returns nothing")
    @right("scores")
    def scores_matmul(Q, K):
        return Q @ np.swapaxes(K, -1, -2)

    module = ModuleType("misconceptions")
    module.scores_matmul = scores_matmul
    monkeypatch.setitem(sys.modules, "misconceptions", module)
    return module


@pytest.fixture
def suite(listed):
    suite = Suite("checks", read={})
    products = listed.scores_matmul

    @suite.check()
    def shape(scores, draw):
        """The shape is right."""
        n_q, n_k, d_k = draw.sizes(3)
        expect_array(scores(draw.array(n_q, d_k), draw.array(n_k, d_k)), (n_q, n_k))

    @suite.check(needs=shape)
    def values(scores, draw):
        """The values are right."""
        n_q, n_k, d_k = draw.sizes(3)
        expect_agrees(scores, products, draw.array(n_q, d_k), draw.array(n_k, d_k))

    @suite.check(needs=values)
    def batch(scores, draw):
        """A batch is right."""
        b, n_q, n_k, d_k = draw.sizes(4)
        expect_agrees(scores, products, draw.array(b, n_q, d_k), draw.array(b, n_k, d_k))

    @suite.check(needs=values)
    def refuses(scores, draw):
        """Sizes that differ raise ValueError."""
        n_q, n_k, d_k = draw.sizes(3)
        expect_raises(
            [ValueError], scores, draw.array(n_q, d_k), draw.array(n_k, 1), because="d_k differs"
        )

    @suite.check(needs=values)
    def dtype(scores, draw):
        """The dtype is kept."""
        n_q, n_k, d_k = draw.sizes(3)
        expect_dtypes(scores, draw.array(n_q, d_k), draw.array(n_k, d_k))

    @suite.check(needs=values)
    def inputs(scores, draw):
        """The inputs stay."""
        n_q, n_k, d_k = draw.sizes(3)
        expect_unchanged(scores, "QK", draw.array(n_q, d_k), draw.array(n_k, d_k))

    return suite


def relations_of(suite, function):
    return {
        result.name: str(result.relation)
        for result in suite.examine("scores", function, 1, SEED).results
        if result.relation
    }


def in_place(Q, K):
    S = Q @ np.swapaxes(K, -1, -2)
    Q /= 2
    return S


@pytest.mark.parametrize(
    ("function", "check", "start"),
    [
        (lambda Q, K: K @ Q.T, "shape", "The transpose of the result is right."),
        (lambda Q, K: Q, "shape", "The elements of the result are those of the argument `Q`."),
        (
            lambda Q, K: np.sin(Q @ Q.T),
            "shape",
            "In terms of the sizes, the shape is (n_q, n_q), but should be (n_q, n_k).",
        ),
        (
            lambda Q, K: Q @ K.T / Q.shape[-1] ** 0.5,
            "values",
            "Each element of the result is 1 / sqrt(d_k) = ",
        ),
        (
            lambda Q, K: np.abs(Q) @ K.T,
            "values",
            "The values of the result are those expected for `Q` in absolute values.",
        ),
        (
            lambda Q, K: Q @ np.flip(K, 0).T,
            "values",
            "The values of the result are those expected for `K` in reverse order along axis -2.",
        ),
        (
            lambda Q, K: (
                np.einsum("...qd,...kd->...qk", Q, K)
                if Q.ndim < 3
                else np.sin(Q @ np.swapaxes(K, -1, -2))
            ),
            "batch",
            "Each sequence on its own is right, but the batch is not.",
        ),
        (
            lambda Q, K: np.einsum("...qd,...kd->...qk", Q, K),
            "refuses",
            "The values of the result are those expected for `K` rep",
        ),
        (
            lambda Q, K: (Q @ np.swapaxes(K, -1, -2)).astype("f4"),
            "dtype",
            "The dtype is float32 for every dtype of",
        ),
        (
            in_place,
            "inputs",
            "Each element of the argument `Q` is 1 / 2 = 0.5 times the expected one.",
        ),
    ],
)
def test_a_suite_says_the_relation_of_a_check_that_failed(suite, function, check, start):
    assert relations_of(suite, function)[check].startswith(start)


def test_a_listed_answer_has_precedence(suite, listed):
    @misconception("scores", label="scores scaled", hint="Leave it out.")
    def scaled(Q, K):
        return Q @ np.swapaxes(K, -1, -2) / Q.shape[-1] ** 0.5

    assert relations_of(suite, scaled)
    listed.scaled = scaled
    assert relations_of(suite, scaled) == {}


def test_right_and_random_results_get_no_relation(suite, listed):
    rng = np.random.default_rng(1)
    assert relations_of(suite, listed.scores_matmul) == {}
    (random,) = relations_of(suite, lambda Q, K: rng.normal(size=(len(Q), len(K)))).values()
    assert random.startswith("A second call with the same arguments changes the result.")
    assert relations_of(suite, lambda Q, K: None) == {}


def test_a_check_that_takes_long_is_not_run_again(suite, monkeypatch):
    calls = []

    def doubled(Q, K):
        calls.append(1)
        return Q @ np.swapaxes(K, -1, -2) * 2

    assert relations_of(suite, doubled)
    again, calls[:] = len(calls), []
    monkeypatch.setattr("checking.diagnosis.QUICK", 0)
    assert relations_of(suite, doubled) == {}
    assert len(calls) < again


def test_a_relation_is_stored_and_shown(suite):
    report = suite.examine("scores", lambda Q, K: Q @ np.swapaxes(K, -1, -2) / Q.shape[-1], 1, SEED)
    restored = Report.from_dict(json.loads(json.dumps(report.to_dict())))
    assert restored == report
    sentence = str(report.results[1].relation)
    assert sentence.startswith("Each element of the result is 1 / d_k = ")
    assert f"          {sentence}" in show.text(restored).splitlines() and sentence in show.as_html(
        restored
    )


def test_most_unlisted_wrong_answers_get_an_explanation():
    """Each listed wrong answer, taken off the list; in exercise 1, as an example."""
    exercise = loader.load(loader.FOLDERS[0])
    told = {own.name: (own.kind, own.words) for own in hints(exercise, "weighted_sum")}
    assert len(told) == len(exercise.suite.listed("wrong_for", "weighted_sum"))
    assert told["weighted_sum_columns"] == ("relation", "The transpose of the result is right.")
    assert told["weighted_sum_works_for_two_axes_only"][0] in ("error", "cause")
    assert told["weighted_sum_returns_nothing"][0] == "difference"
    assert sum(said != "nothing" for said, _words in told.values()) > 0.7 * len(told)


def test_a_cause_is_shown_only_if_another_draw_agrees(suite, listed):
    """What does as a listed answer in the first draw alone, by accident, is told no cause."""

    @misconception("scores", label="scores scaled", hint="Leave it out.")
    def scaled(Q, K):
        return Q @ np.swapaxes(K, -1, -2) / Q.shape[-1] ** 0.5

    listed.scaled = scaled

    def causes(function):
        return {
            result.cause
            for result in suite.examine("scores", function, 1, SEED).results
            if result.cause
        }

    drawn = set()

    def remembered(Q, K):
        drawn.add((Q.shape, K.shape))
        return scaled(Q, K)

    def by_accident(Q, K):
        return scaled(Q, K) if (Q.shape, K.shape) in drawn else 3 * scaled(Q, K)

    suite.examine("scores", remembered, 1, SEED, diagnosis=False)
    assert causes(lambda Q, K: scaled(Q, K)) == {"scaled"}
    assert causes(by_accident) == set()


COUNTS = {
    "4 n² d_model + 8 n d_model": lambda n, d_model, num_heads: (
        8 * n * d_model + 4 * n**2 * d_model
    ),
    "8 d_model² num_heads + 4 n² d_model": lambda n, d_model, num_heads: (
        8 * num_heads * d_model**2 + 4 * n**2 * d_model
    ),
    "28 n³": lambda n, d_model, num_heads: 28 * n**3,
    "4 n d_model / num_heads": lambda n, d_model, num_heads: 4 * n * d_model // num_heads,
    "0 for all arguments": lambda n, d_model, num_heads: 0,
}


@pytest.mark.parametrize("power", COUNTS)
def test_a_wrong_count_is_reported_in_powers_of_its_arguments(power):
    exercise = loader.load(
        next(folder for folder in loader.FOLDERS if folder.name == "09-complexity")
    )
    report = exercise.suite.examine("attention_flops", COUNTS[power], 1, SEED)
    assert f"Your results are {power}." in {str(result.relation) for result in report.results}


def test_a_count_that_fits_no_powers_gets_no_relation():
    exercise = loader.load(
        next(folder for folder in loader.FOLDERS if folder.name == "09-complexity")
    )
    report = exercise.suite.examine(
        "attention_flops", lambda n, d_model, num_heads: n**n % 1009 + d_model, 1, SEED
    )
    assert not any(result.relation for result in report.results)


def test_of_four_axes_the_second_is_that_of_heads():
    def of_first_head(e, sizes):
        return np.broadcast_to(e[:, :1], e.shape)

    sentence = relation_to(of_first_head, shape=("b", "n_q", "n_k", "d_k"))
    assert sentence == "Each head of the result is the same, but they should differ."


def test_wrong_elements_that_are_0_are_reported_among_small_ones():
    def mismatch(number):
        e = case(lambda e, sizes: e, number).expected
        wrong = np.abs(e) < np.median(np.abs(e))
        e = np.where(wrong, 1e-9 * e, e)
        return Mismatch(e, np.where(wrong, 0, e), wrong=wrong)

    assert (
        relate(mismatch(1), lambda: [mismatch(2), mismatch(3)]).text
        == "The wrong elements of {what} are all 0."
    )


def test_that_few_numbers_are_in_other_places_says_nothing():
    """Of zeros and ones, as a mask has them, many arrangements come by chance."""
    e = np.array([[1.0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 1, 0]])
    mismatch = Mismatch(e, np.roll(e, 2, -1))
    assert "wrong order" not in str(relate(mismatch, lambda: [mismatch, mismatch]))


def test_elements_of_a_vector_are_not_called_completely_wrong():
    mismatch = Mismatch(np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 3, 4]))
    assert not [message for _, message in only_there(mismatch) if "completely" in str(message)]


def numbers(*pairs):
    mismatches = [Mismatch(np.asarray(float(e)), np.asarray(float(g))) for e, g in pairs]
    return str(relate(mismatches[0], lambda: mismatches[1:]))


def test_a_number_that_is_always_the_same_is_no_function_of_the_expected_one():
    assert numbers((2, 1), (5, 1), (3, 1)) == "", "the sign of it, for example"
    assert numbers((2, 4), (2, 4), (2, 4)) == "", "its square, or twice as much"
    assert (
        numbers((2, 4), (3, 9), (5, 25)) == "The number in the result is the square of the "
        "expected one."
    )


def test_a_small_number_is_looked_at_in_many_draws(listed):
    """That it is one less than expected happens in three draws, too, by accident."""
    suite = Suite("checks", read={})

    @right("count")
    def of_all(X):
        return int((X > 0).sum())

    listed.of_all = of_all

    @suite.check()
    def values(count, draw):
        """It counts the positive elements."""
        X = draw.array(20)
        expect_close(np.asarray(count(X)), of_all(X))

    drawn = []
    suite.examine("count", lambda X: drawn.append(X) or -5, 1, SEED, diagnosis=False)
    for seed in (SEED + 1, SEED + 2):
        suite.examine("count", lambda X: drawn.append(X) or -5, 1, seed, diagnosis=False)

    def by_accident(X):
        return of_all(X) - (1 if any(np.array_equal(X, other) for other in drawn) else 2)

    relations = [suite.examine("count", function, 1, SEED).results[0].relation for function in (
        lambda X: of_all(X) - 1, by_accident
    )]  # fmt: skip
    assert str(relations[0]) == "The number in the result is the expected one minus 1."
    assert "minus 1" not in str(relations[1])

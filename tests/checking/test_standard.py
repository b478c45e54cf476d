"""Standard checks: what each one accepts and rejects, and what an author declares with them."""

import re
import types

import numpy as np
import pytest

from autograder.checking import (
    Draw,
    StandardChecks,
    Suite,
    misconception_of_each,
    noncontiguous,
    right,
)
from autograder.checking.answer_parts import stretched, transposed
from autograder.checking.answers import answers_in
from autograder.checking.report import Status

NO_ANSWERS = types.ModuleType("misconceptions")
KINDS = ["shape", "batch", "ones", "refuses", "dtype", "inputs"]


def products(Q, K):
    return Q @ transposed(K)


@pytest.fixture
def suite():
    suite = Suite("standard", read={})
    suite.answer_modules = [NO_ANSWERS]
    checks = StandardChecks(
        suite,
        "scores",
        products,
        sizes="n_q n_k d_k",
        arguments={"Q": "... n_q d_k", "K": "... n_k d_k"},
        result="... n_q n_k",
    )
    checks.shape("Has a shape.")
    checks.batch("Keeps a batch.", needs=["shape"])
    checks.ones("Keeps ones.", ["n_q", "n_k,d_k", "batch"], needs=["shape"])
    checks.refuses("Refuses.", {"d_k": "d_k is {left} and {right}"}, weight=0, needs=["shape"])
    checks.dtype("Keeps the dtype.")
    checks.inputs("Keeps its inputs.", batch=True, read_only=True)
    return suite


def failures(suite, function, seed=1):
    """Return the kinds of the checks that do not pass."""
    results = suite.examine("scores", function, seed=seed).results
    return [
        result.name.removeprefix("scores_") for result in results if result.status != Status.PASSED
    ]


def test_checks_are_declared_in_order_with_names_weights_and_needs(suite):
    checks = suite.checks_of("scores")
    assert [check.__name__ for check in checks] == [f"scores_{kind}" for kind in KINDS]
    assert [check.weight for check in checks] == [1, 2, 1, 0, 0.5, 0.5]
    assert [check.needs for check in checks] == [(), *[("scores_shape",)] * 5]
    assert checks[2].title == "Keeps ones."


def swapped(Q, K):
    return products(K, Q)


def first_sequence(Q, K):
    return products(Q, K) if Q.ndim == 2 or len(Q) == 1 else products(Q, K)[:1]


def squeezed(Q, K):
    return np.squeeze(products(Q, K))


def stretched_products(Q, K):
    return stretched(Q, transposed(K))


def double(Q, K):
    return products(Q, K).astype(float)


def in_place(Q, K):
    result = products(Q, K)
    if result.shape == Q.shape:
        Q[...] = result
    return result


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (products, []),
        (swapped, KINDS),
        (first_sequence, ["batch"]),
        (squeezed, ["ones"]),
        (stretched_products, ["refuses"]),
        (double, ["dtype"]),
        (in_place, ["inputs"]),
    ],
    ids=["right", "swapped", "first sequence", "squeezed", "stretched", "float64", "in place"],
)
def test_each_check_rejects_its_mistake_alone(suite, function, kinds):
    assert failures(suite, function) == kinds


def test_sizes_have_their_names_in_feedback(suite):
    result = suite.examine("scores", swapped, seed=1).results[0]
    assert "should be (n_q, n_k)" in str(result.relation)


def test_a_mismatch_names_both_sizes(suite):
    report = suite.examine("scores", stretched_products, seed=1)
    message = str(report.results[KINDS.index("refuses")].message)
    assert re.search(r"\(d_k is \d+ and 1\), scores should raise ValueError", message)


def test_parts_of_a_tuple_and_weights():
    suite = Suite("standard", read={})
    suite.answer_modules = [NO_ANSWERS]

    def both(A, V):
        return A @ V, A

    checks = StandardChecks(
        suite,
        "mix",
        both,
        sizes="n_q n_k d_v",
        arguments={"A": "... n_q n_k", "V": "... n_k d_v"},
        result={"Z": "... n_q d_v", "A": "... n_q n_k"},
        weights=["A"],
        prefix="mixed",
    )
    checks.shape("Has shapes.")
    checks.dtype("Keeps the dtype.")
    rows = []

    def remembers(A, V):
        rows.append(A.sum(-1))
        return both(A, V)

    report = suite.examine("mix", remembers)
    assert report.score == 1
    assert [result.name for result in report.results] == ["mixed_shape", "mixed_dtype"]
    assert all(np.allclose(row, 1, atol=1e-2) for row in rows)
    report = suite.examine("mix", lambda A, V: (A @ V, A[:1]))
    assert "Expected A to have shape" in str(report.results[0].message)


def test_a_check_of_each_function_may_need_another_one():
    suite = Suite("standard", read={})

    @suite.check_each("f", "g")
    def first(function, draw):
        """Comes first."""

    @suite.check_each("f", "g", needs=[first])
    def second(function, draw):
        """Comes second."""

    assert [check.needs for check in suite.checks_of("g")] == [(), ("g_first",)]


def test_a_mistake_of_two_classes_is_listed_for_each():
    class A:
        def step(self):
            return "right"

    class B(A):
        pass

    right("A")(A)
    right("B")(B)

    @misconception_of_each(A, B)("a wrong step", "Look at the step.")
    class WrongStep:
        def step(self):
            return "wrong"

    module = types.ModuleType("misconceptions")
    vars(module).update(A=A, B=B, WrongStep=WrongStep)
    (answer,) = answers_in(module, "wrong_for", "B")
    assert (answer.__name__, answer.label) == ("B_WrongStep", "a wrong step")
    assert answer().step() == "wrong"
    assert isinstance(answer(), B)


def test_tensors_are_drawn_like_arrays():
    torch = pytest.importorskip("torch")
    X = Draw(1).tensor(2, 3)
    assert X.dtype == torch.float64
    assert np.array_equal(X.numpy(), Draw(1).array(2, 3))
    turned = noncontiguous(X)
    assert torch.equal(turned, X)
    assert turned.stride() == (1, 2)
    mask = Draw(1).mask(50, 4)
    assert mask.any(-1).all()
    assert not mask.all(-1).any()
    assert Draw(1).mask(5, 1).all()

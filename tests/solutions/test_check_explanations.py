"""What the checks of exercises find out themselves about a wrong result: each sentence, where it
holds.
"""

import copy

import numpy as np
import pytest
import torch

from autograder.authoring import loader
from autograder.checking import Failed, as_sum, counts_in, told_by

SEED = 3


def message_of(exercise, subject, function):
    """Return what the first failed check of a function found out."""
    (folder,) = [folder for folder in loader.FOLDERS if folder.name == exercise]
    results = loader.load(folder).suite.examine(subject, function, 1, SEED).results
    first = next(result for result in results if result.status.is_unmet)
    return str(first.relation)


def test_explains_an_array_as_a_sum_if_there_is_one_way():
    a, b = np.arange(6.0), np.ones(6)
    assert counts_in(2 * a - b, {"a": a, "b": b, "c": a**2}) == pytest.approx(
        {"a": 2, "b": -1, "c": 0}
    )
    assert counts_in(torch.tensor(a), {"a": torch.tensor(a), "b": b}) == pytest.approx(
        {"a": 1, "b": 0}
    )
    assert counts_in(a**3, {"a": a, "b": b}) is None, "it is no sum of them"
    assert counts_in(a, {"a": a, "twice": 2 * a}) is None, "they cannot be told apart"
    assert counts_in(a, {"a": a[:3]}) is None and counts_in(a * np.nan, {"a": a}) is None
    assert as_sum({"C": -0.25, "A": 1.0, "B": 0.0}) == "A - 0.25 C" and as_sum({"A": -1.0}) == "-A"
    assert counts_in(a + 1e-3 * a**2, {"a": a, "b": b}) is None, "what is left is no rounding"
    assert counts_in(a + 1e-3 * a**2, {"a": a, "b": b}, rtol=0.01) is not None
    assert as_sum({"A": 0.0}) == "0"


@pytest.mark.parametrize(
    ("gap", "sentence"),
    [
        (
            lambda attend, X, p: np.abs(attend(X) - attend(X)[p]).max() / 3,
            "was called only with X.",
        ),
        (
            lambda attend, X, p: np.abs(attend(X[p[::-1]]) - attend(X)[p]).max(),
            "never called with X[permutation]",
        ),
        (lambda attend, X, p: np.abs(attend(X[p])).max(), "never called with X itself"),
        (
            lambda attend, X, p: max(np.abs(attend(X[[i]]) - X[[i]]).max() for i in p),
            "called with one word at a time",
        ),
        (
            lambda attend, X, p: np.median(np.abs(attend(X[p]) - attend(X)[p])),
            "is the median of all absolute differences",
        ),
        (
            lambda attend, X, p: abs((attend(X[p]) - attend(X)[p])[3, 1]),
            "one of the differences, the one in row 3, column",
        ),
    ],
)
def test_explains_a_permutation_gap(gap, sentence):
    assert sentence in message_of("04-position", "permutation_gap", gap)


@pytest.mark.parametrize(
    ("jacobian", "expected"),
    [
        (lambda a: np.diag(a) + 2 * np.outer(a, a), "The result is diag(a) + 2 a a^T."),
        (lambda a: np.diag(a**3), ""),
        (lambda a: np.round(np.diag(a) - np.outer(a, a), 3), ""),
        (lambda a: np.diag(a) - 1.004 * np.outer(a, a), ""),
        (lambda a: np.diag(np.sqrt(a)) - np.outer(a, a), ""),
        (lambda a: a[:, None] * (np.eye(len(a)) - a[:, None]), "The result is diag(a) - a^2 1^T."),
    ],
)
def test_explains_a_jacobian_as_a_sum(jacobian, expected):
    sentence = message_of("03-softmax-gradients", "softmax_jacobian", jacobian)
    assert sentence == expected or (not expected and "The result is" not in sentence)


def test_explains_a_slope_by_its_points():
    def middle(lengths, seconds):
        x, y = np.log(lengths), np.log(seconds)
        return (y[3] - y[2]) / (x[3] - x[2])

    sentence = message_of("09-complexity", "fit_exponent", middle)
    start = (
        "Double the seconds of one point. For the first to the last point, the result changes "
        "by 0.00, 0.00, -"
    )
    assert sentence.startswith(start)


@pytest.mark.slow
def test_counts_heads_in_a_result():
    def changed(change):
        def cut(layer, head):
            if not 0 <= head < layer.num_heads:
                raise ValueError(head)
            other = copy.deepcopy(layer)
            d_head = other.W_o.weight.shape[1] // layer.num_heads
            change(other.W_o.weight.data, slice(head * d_head, (head + 1) * d_head), d_head)
            return other

        return message_of("08-heads", "ablate_head", cut)

    def one_and_the_first(weight, columns, d_head):
        weight[:, columns] = weight[:, :d_head] = 0

    def doubled(weight, columns, d_head):
        weight[:, columns] *= 2

    def half_of_it(weight, columns, d_head):
        weight[:, columns][:, : d_head // 2] = 0

    assert (
        "Heads 0 to 4 count 0, 1, 0, 1, 1 times in the result. The counts should be 1, 1, 0, "
        "1, 1." in changed(one_and_the_first)
    )
    assert (
        "count 1, 1, 2, 1, 1 times in the result. The counts should be 1, 1, 0, 1, 1."
        in changed(doubled)
    )
    assert "not a sum of whole heads" in changed(half_of_it)


@pytest.mark.slow
def test_explains_a_gradient_as_a_sum_of_products():
    (folder,) = [folder for folder in loader.FOLDERS if folder.name == "11-gpu"]
    names = loader.load(folder).suite.checks[0].__globals__
    random = torch.Generator().manual_seed(SEED)
    q, k, v, upstream = (
        torch.randn(1, 2, 20, 8, dtype=torch.float64, generator=random) for _ in range(4)
    )
    out, lse = names["attended"](q, k, v)
    P = (q @ k.mT / 8**0.5 - lse[..., None]).exp()
    D, dP = (upstream * out).sum(-1, keepdim=True), upstream @ v.mT

    def sentence_of(gradient, name):
        return str(names["made_of"](gradient, name, q, k, v, upstream, False)).partition(
            ", where "
        )[0]

    scale = 8**-0.5
    assert sentence_of(scale * (P * (dP + D)) @ k, "Q") == (
        "The gradient of Q is 0.354 (P*dP) K + 0.354 (P*D) K, and should be 0.354 (P*dP) K - "
        "0.354 (P*D) K"
    )
    assert sentence_of(P @ upstream, "V") == "The gradient of V is P dO, and should be P^T dO"
    assert sentence_of(P**2 @ upstream, "V") == ""
    dS = scale * P * (dP - D)
    for name, right in (("Q", dS @ k), ("K", dS.mT @ q), ("V", P.mT @ upstream)):
        actual, wanted = sentence_of(right, name).split(", and should be ")
        assert actual == f"The gradient of {name} is {wanted}", "what is told to be right is"


def test_an_error_in_an_explanation_changes_no_failure():
    with pytest.raises(Failed) as caught, told_by(lambda: 1 / 0):
        raise Failed("It is 3.")
    assert (caught.value.message, caught.value.relation) == ("It is 3.", "")
    with pytest.raises(Failed) as caught, told_by(lambda name: f"Of {name}.", "x"):
        raise Failed("It is 3.")
    assert caught.value.relation == "Of x."


@pytest.mark.slow
def test_numbers_that_were_copied_and_changed_are_not_called_new():
    (folder,) = [folder for folder in loader.FOLDERS if folder.name == "06-multi-head"]
    is_new = loader.load(folder).suite.checks[0].__globals__["is_new"]
    random = torch.Generator().manual_seed(SEED)
    values = {
        name: torch.randn(6, 6, dtype=torch.float64, generator=random) for name in ("W_q", "W_o")
    }
    wanted = values["W_o"]
    assert is_new(torch.randn(6, 6, generator=random), wanted, values)
    copied = [
        wanted.flip(0),
        wanted.float().flip(1),
        values["W_q"].float(),
        3 * wanted,
        -wanted,
        wanted + 1,
        wanted.half(),
    ]
    assert not any(is_new(answer, wanted, values) for answer in copied)

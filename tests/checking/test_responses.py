"""How a wrong result responds to a change of arguments or parameters: each relation where it
holds, and no other.
"""

import time
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

from autograder.checking import Failed, Suite, backward, noncontiguous, right
from autograder.checking.expect import expect_agrees, expect_close

SEED = 3
AGAIN = (
    "A second call with the same arguments changes the result. Is it random, or is something "
    "stored between calls?"
)


def softmax(S):
    powers = np.exp(S - S.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attend(Q, K, V):
    return softmax(Q @ np.swapaxes(K, -1, -2)) @ V


def hidden(Q, K, V, mask):
    S = np.where(mask(*np.ogrid[: Q.shape[-2], : K.shape[-2]]), Q @ np.swapaxes(K, -1, -2), -np.inf)
    return softmax(S) @ V


def suite_of(name, answer, inputs):
    """Return a suite with one check, that a function agrees with `answer` for what
    `inputs(draw)` returns.
    """
    suite = Suite("checks", {})

    @suite.check()
    def values(function, draw):
        """The values are right."""
        expect_agrees(function, answer, *inputs(draw))

    suite.checks[0].subject = name
    listed = ModuleType("listed")
    listed.answer = right(name)(answer)
    suite.answer_modules = [listed]
    return suite


def relation_of(suite, name, function):
    (result,) = suite.examine(name, function, 1, SEED).results
    assert result.status == "failed"
    return str(result.relation)


def of_attention(draw):
    n = int(draw.rng.integers(4, 7))
    return [draw.array(2, n, d) for d in (3, 3, 5)]


ATTENTION = {
    "Changing the numbers in `K` should change the result, but does not.": (
        lambda Q, K, V: softmax(np.sin(9 * Q) @ np.swapaxes(Q, -1, -2)) @ V
    ),
    "For example, row 0 of the result should depend on row 3 of `K`, but does not.": (
        lambda Q, K, V: hidden(Q, K, V, lambda i, j: j < 3)
    ),
    "For example, row 0 of the result depends on row 1 of `Q`, but should not.": (
        lambda Q, K, V: attend(np.sin(Q + Q.sum(-2, keepdims=True)), K, V)
    ),
    "Adding 1 to all of `K` should not change the result, but does.": (
        lambda Q, K, V: softmax(Q @ np.swapaxes(np.sin(K), -1, -2)) @ V
    ),
}


@pytest.mark.parametrize("start", ATTENTION)
def test_wrong_attention_is_described(start):
    assert relation_of(
        suite_of("attend", attend, of_attention), "attend", ATTENTION[start]
    ).startswith(start)


def causal(Q, K, V):
    return hidden(Q, K, V, lambda i, j: j <= i)


def test_rows_that_look_ahead_are_reported():
    suite = suite_of("causal", causal, of_attention)
    start = "Row i of the result depends on rows after i of `V`, but should not."
    assert relation_of(suite, "causal", lambda Q, K, V: attend(np.sin(9 * Q), K, V)).startswith(
        start
    )


def slope(X):
    """Return a number that a stretched X leaves as it is, and of the first two columns alone."""
    x, y = np.log(np.abs(X[:, 0])), np.log(np.abs(X[:, 1]))
    return np.array([((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()])


def of_rows(draw):
    return [np.abs(draw.array(6, 3)) + 1]


@pytest.mark.parametrize(
    ("function", "start"),
    [
        (lambda X: slope(X + 1), "Doubling `X` should not change the result, but does."),
        (lambda X: np.sin(slope(X / X.sum())), ""),
    ],
)
def test_a_reduction_is_recognized_by_its_elements(function, start):
    sentence = relation_of(suite_of("slope", slope, of_rows), "slope", function)
    assert sentence.startswith(start) if start else sentence == ""


@pytest.mark.parametrize(
    ("answer", "function", "start"),
    [
        (
            lambda x: np.sin(x),
            lambda x: np.cos(x - x.mean()),
            "Adding 1 to all of `x` should change the result, but does not.",
        ),
        (
            lambda x: 3 * np.abs(x) * x[0],
            lambda x: np.cos(x[::-1] / x[0]) * x[0],
            "Doubling `x` should multiply the result by 4, but multiplies it by 2.",
        ),
        (
            lambda x: 3 * np.abs(x),
            lambda x: np.cos(x) * x,
            "Doubling `x` should multiply the result by 2, but does not.",
        ),
        (
            lambda x: np.sin(x),
            lambda x: np.abs(x) * x[0] ** 2,
            "Doubling `x` multiplies the result by 8, but should not.",
        ),
        (
            lambda x: np.sin(x),
            lambda x: np.cos(9 * x / x[0]),
            "Doubling `x` should change the result, but does not.",
        ),
    ],
)
def test_additive_and_homogeneous_functions_are_recognized(answer, function, start):
    suite = suite_of("law", answer, lambda draw: [draw.array(*draw.sizes(1))])
    assert relation_of(suite, "law", function).startswith(start)


def test_a_random_result_is_reported_only_as_random():
    rng = np.random.default_rng(1)
    suite = suite_of("attend", attend, of_attention)
    sentence = relation_of(
        suite, "attend", lambda Q, K, V: attend(Q, K, V) + rng.normal(size=V.shape)
    )
    assert sentence == AGAIN


def test_what_a_right_answer_does_not_repeat_either_is_no_fault():
    rng = np.random.default_rng(1)
    suite = suite_of("attend", attend, of_attention)
    suite.answer_modules[0].answer = right("attend")(
        lambda Q, K, V: attend(Q, K, V) + rng.normal(size=V.shape)
    )
    assert (
        relation_of(suite, "attend", lambda Q, K, V: attend(Q, K, V) + rng.normal(size=V.shape))
        == ""
    )


def test_relations_are_looked_for_with_a_plain_function_where_right_answers_are_slow():
    def slow(Q, K, V):
        raise AssertionError("nobody is to wait for it")

    def exchanged(Q, K, V):
        return attend(K, Q, V)

    suite = suite_of("attend", attend, of_attention)
    sentence = relation_of(suite, "attend", exchanged)
    assert sentence == "The values of the result are those expected for `Q` and `K` exchanged."
    suite.answer_modules[0].answer = right("attend")(slow)
    suite.plain["attend"] = attend
    assert relation_of(suite, "attend", exchanged) == sentence


def test_what_takes_long_is_not_asked_again_and_again():
    """Hints must not use up a limit."""
    calls = []

    def slowly(Q, K, V):
        calls.append(1)
        begun = time.process_time()
        while time.process_time() - begun < 0.1:
            pass
        return hidden(Q, K, V, lambda i, j: j < 3)

    suite = suite_of("attend", attend, of_attention)
    assert relation_of(suite, "attend", slowly) == ""
    assert len(calls) < 30


# Rounding, and results of 0


SPECIAL = {
    "all zero": lambda x: np.zeros_like(x),
    "zero but for rounding": lambda x: (x + 0.1) - x - 0.1,
    "all equal": lambda x: np.full_like(x, 0.25),
    "one number": lambda x: np.array([x.mean()]),
    "a scalar": lambda x: np.asarray(x.sum()),
    "partly zero": lambda x: np.where(x > 1, x, 0.0),
    "partly NaN": lambda x: np.where(x > 1, x, np.nan),
    "tiny": lambda x: x * 1e-30,
    "of a size of 1": lambda x: x[:1, :1] * 3,
    "usual": lambda x: softmax(x) @ x.T,
}
NOISE = {
    "none": lambda y: y,
    "of rounding": lambda y: y * (1 + 3e-16 * np.cos(np.arange(y.size)).reshape(y.shape)),
    "around 0": lambda y: (
        y
        + 2e-16
        * np.abs(np.nan_to_num(y)).max(initial=0)
        * np.sin(np.arange(y.size)).reshape(y.shape)
    ),
    "in single precision": lambda y: y.astype(np.float32).astype(float),
}


def rejected(answer):
    """Return a suite whose only check rejects everything, with the expected numbers and what
    came.
    """
    suite = suite_of("f", answer, lambda draw: [draw.array(*draw.sizes(2))])

    def body(f, draw):
        x = draw.array(*draw.sizes(2))
        expected, got = answer(x), f(x)
        raise Failed("It is not exactly right.", (), expected, got, np.ones(np.shape(got), bool))

    body.__dict__.update(vars(suite.checks[0]))
    body.__name__ = "body"
    suite.checks[0] = body
    return suite


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("kind", SPECIAL)
def test_a_right_answer_up_to_rounding_differs_in_nothing(kind, noise):
    answer = SPECIAL[kind]
    assert relation_of(rejected(answer), "f", lambda x: NOISE[noise](answer(x))) == ""


@pytest.mark.parametrize("kind", ["all zero", "zero but for rounding"])
@pytest.mark.parametrize(
    "wrong", [np.zeros_like, np.ones_like, lambda x: x - x.mean(), lambda x: 0 * x + x.shape[0]]
)
def test_a_zero_result_gets_no_multiple(kind, wrong):
    sentence = relation_of(rejected(SPECIAL[kind]), "f", wrong)
    assert "Doubling" not in sentence and "should change" not in sentence


def test_a_result_of_rounding_alone_responds_to_nothing():
    def gap(x):
        return np.array([float(x.shape[0])])

    def pooled(x):
        return np.array([np.abs(x[::-1].mean(0) - x.mean(0)).max()]) + 1e-17

    assert relation_of(rejected(gap), "f", pooled) == ""


def of_a_transposed_array(draw):
    return [noncontiguous(draw.array(*draw.sizes(2)))]


def in_memory(x):
    """Return the rows of an array as if it were contiguous."""
    flat = np.lib.stride_tricks.as_strided(x, (x.size,), (x.itemsize,))
    return flat.reshape(x.shape) * 1.0


def test_a_second_call_has_the_same_layout_and_a_difference_is_reported():
    suite = suite_of("f", lambda x: 1.0 * x, of_a_transposed_array)
    assert relation_of(suite, "f", in_memory) == (
        "For a contiguous copy of `x`, the result is right: it should not depend on the memory "
        "layout."
    )


def test_of_tensors_too_the_layout_stays():
    suite = suite_of(
        "f",
        lambda x: x * 1.0,
        lambda draw: [torch.tensor(draw.array(*draw.sizes(2))).mT.contiguous().mT],
    )
    assert relation_of(
        suite, "f", lambda x: torch.as_strided(x, x.shape, (x.shape[1], 1)) * 1.0
    ).startswith("For a contiguous")


def test_a_small_effect_is_not_reported():
    """The scores hide a token all but wholly: what is left of it is neither nothing nor an
    influence.
    """
    suite = suite_of("attend", attend, of_attention)
    sentence = relation_of(
        suite,
        "attend",
        lambda Q, K, V: softmax(Q @ np.swapaxes(K, -1, -2) - 15 * np.eye(Q.shape[-2])) @ V,
    )
    assert "should depend" not in sentence


# Modules


class Layer(nn.Module):
    """Adds a network to x, after a norm."""

    def __init__(self, d):
        super().__init__()
        self.one, self.two = nn.Linear(d, d), nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        return x + self.two(torch.tanh(self.one(self.norm(x))))


class Twice(Layer):
    def forward(self, x):
        return x + self.two(torch.tanh(self.two(self.norm(x))))


class Relu(Layer):
    def forward(self, x):
        return x + self.two(torch.relu(self.one(self.norm(x))))


class InTheEnd(Layer):
    def forward(self, x):
        return x + self.two(torch.tanh(self.one(self.norm(x)))) ** 3


class FromTheStart(Layer):
    def forward(self, x):
        return x + self.two(torch.tanh(self.one(self.norm((x - x.mean(-1, keepdim=True)) ** 3))))


class Fewer(Layer):
    """Another way to write it: all words of all sequences in a row."""

    def forward(self, x):
        rows = x.flatten(0, 1)
        return (rows + self.two(torch.tanh(self.one(self.norm(rows)))) ** 3).view_as(x)


class Before(Layer):
    """Calls a part with something else first."""

    def forward(self, x):
        self.one(x)
        return x + self.two(torch.tanh(self.one(self.norm(x)))) ** 3


class OtherNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x) ** 3


class OwnNorm(Layer):
    def __init__(self, d):
        super().__init__(d)
        self.norm = OtherNorm(d)


class WithoutNorm(Layer):
    def forward(self, x):
        return x + self.two(torch.tanh(self.one(x)))


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            lambda x: 3 * x.sin(),
            "The result of the forward pass is wrong here as well, so its gradients are wrong too.",
        ),
        (lambda x: x.sin() + (x - x.detach()), ""),
    ],
)
def test_gradients_of_a_wrong_result_are_reported_as_consequence(function, sentence):
    suite = suite_of("f", lambda x: x.sin(), lambda draw: [])

    @suite.check()
    def gradients(f, draw):
        """Gradients flow."""
        x, upstream = torch.tensor(draw.array(3, 4)), torch.tensor(draw.array(3, 4))
        expect_close(backward(f, x, upstream=upstream)[1][0], upstream * x.cos())

    del suite.checks[0]
    assert relation_of(suite, "f", function) == sentence


@pytest.fixture
def suite():
    suite = Suite("checks", {})

    @suite.check()
    def values(Layer, draw):
        """The values are right."""
        d = int(draw.rng.integers(3, 6))
        layer = type(suite.answer_modules[0].answer(d))(d).to(torch.float64)
        state = {
            name: torch.tensor(draw.array(*part.shape)) for name, part in layer.state_dict().items()
        }
        layer.load_state_dict(state)
        module = Layer.loaded((d,), state, torch.float64, training=False)
        expect_agrees(module, lambda x: layer(x).detach(), torch.tensor(draw.array(2, 3, d)))

    listed = ModuleType("listed")
    listed.answer = right("Layer")(Layer)
    suite.answer_modules = [listed]
    return suite


@pytest.mark.parametrize(
    ("answer", "start"),
    [
        (Twice, "The output of `norm` is right, but the input of `two` is wrong."),
        (WithoutNorm, "The input of `one` is wrong."),
        (Relu, "The output of `one` is right, but the input of `two` is wrong."),
        (InTheEnd, "The output of `two` is right, but the result computed from it is wrong."),
        (FromTheStart, "The input of `norm` is wrong."),
        (Fewer, "The output of `two` is right, but the result computed from it is wrong."),
        (Before, "The output of `two` is right, but the result computed from it is wrong."),
        (OwnNorm, "The input of `norm` is right, but its output is wrong."),
    ],
)
def test_use_of_module_parameters_is_reported(suite, answer, start):
    assert relation_of(suite, "Layer", answer).startswith(start)


def test_the_modules_are_afterwards_as_they_were(suite):
    before = []

    class Watched(WithoutNorm):
        def forward(self, x):
            before.append({name: part.clone() for name, part in self.state_dict().items()})
            return super().forward(x)

        def __del__(self):
            before.append(len(self.one._forward_pre_hooks))

    assert relation_of(suite, "Layer", Watched)
    assert all(torch.equal(part, before[0][name]) for name, part in before[1].items())

"""Checks of torch's modules: what a class under test made is asked, compared and recognized, as
functions are.
"""

import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

from autograder.checking import (
    Failed,
    Subject,
    Suite,
    backward,
    expect_agrees,
    expect_gradients,
    expect_parameters,
    expect_raises,
    expect_tensor,
    expect_unchanged,
    misconception,
    right,
)
from autograder.checking.answers import answers_in, families
from autograder.checking.diagnosis import same


class Scale(nn.Module):
    """Multiplies by its weights, and adds n."""

    def __init__(self, n):
        super().__init__()
        if n < 1:
            raise ValueError("n")
        self.n, self.weight = n, nn.Parameter(torch.rand(n))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        return x * self.weight + self.n


def message_of(call, *arguments, **named):
    with pytest.raises(Failed) as caught:
        call(*arguments, **named)
    return str(caught.value.message)


def test_a_module_is_made_loaded_called_and_remembered():
    subject = Subject("Scale", Scale)
    layer = subject.module(2)
    assert layer.shapes() == {"weight": (2,)} and layer.read("n") == 2 and layer.read("m") is None
    layer.to(torch.float64).train(False).load({"weight": torch.tensor([2.0, 3.0])})
    assert layer.state()["weight"].dtype == torch.float64
    x = torch.ones(2, dtype=torch.float64)
    expect_agrees(layer, lambda x: np.array([4.0, 5.0]) + 0 * x.numpy(), x)
    assert [call.method for call in subject.calls if call.method != "state_dict"] == [
        "",
        "read",
        "read",
        "to",
        "train",
        "load",
        "forward",
    ]
    expect_unchanged(layer, ["x"], x)
    expect_raises([RuntimeError], layer, torch.ones(3), because="the sizes differ")
    assert message_of(layer, torch.ones(3)).startswith(
        "Scale(2) raised RuntimeError for arguments of shape (3,)"
    )
    assert message_of(subject.module, 0).startswith("Called with 0, Scale raised ValueError")


def test_a_value_that_is_no_module_is_reported():
    assert "to create a PyTorch module" in message_of(Subject("f", lambda: None).module)
    assert "to create a PyTorch module" in message_of(Subject("f", lambda: 3.0).module)
    odd = Subject("f", lambda: type("Odd", (nn.Module,), {"state_dict": lambda self, **more: 3})())
    assert "not a dict of tensors" in message_of(odd.module().shapes)


def test_an_object_that_lives_elsewhere_is_compared_by_what_it_may_be():
    """A class that forgot `nn.Module`, graded in a guest, is recognized by the listed one that
    forgot it too.
    """

    def elsewhere(**variables):
        return type("Layer", (), {"_method": lambda *arguments: None, **variables})()

    plain, module = elsewhere(_is_module=False, __call__=None), elsewhere(_is_module=True)
    assert same(plain, type("Forgot", (), {})()) and same(module, nn.Linear(1, 1))
    others = [nn.Linear(1, 1), None, "text", lambda x: x, module]
    assert not any(same(plain, other) or same(other, plain) for other in others)
    assert not any(same(module, other) for other in [type("Forgot", (), {})(), None, lambda x: x])
    assert "to create a PyTorch module, got a value of type Layer" in message_of(
        Subject("f", lambda: plain).module
    )


def test_wrong_names_and_shapes_of_parameters_are_reported():
    layer = Subject("Linear", lambda: nn.Linear(2, 3)).module()
    expect_parameters(layer, {"weight": (3, 2), "bias": (3,)})
    assert "`W.weight`. Unexpected: `weight`" in message_of(
        expect_parameters, layer, {"W.weight": (3, 2), "bias": (3,)}
    )
    assert "Missing in the `state_dict` of Linear(): `more`." in message_of(
        expect_parameters, layer, {"weight": (3, 2), "bias": (3,), "more": ()}
    )
    assert "Unexpected in the `state_dict` of Linear(): `bias`" in message_of(
        expect_parameters, layer, {"weight": (3, 2)}
    )
    message = message_of(expect_parameters, layer, {"weight": (2, 3), "bias": (3,)})
    assert "`weight` of Linear() to have shape (2, 3), got (3, 2)" in message


def test_a_second_name_of_a_parameter_is_none_too_many():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
            self.linear = self.net[0]

        def forward(self, x):
            return self.net(x)

    layer = Subject("Both", Both).module()
    expected = {"linear.weight": (3, 2), "linear.bias": (3,)}
    expect_parameters(layer, expected)
    assert set(layer.shapes()) == {*expected, "net.0.weight", "net.0.bias"}
    layer.load({"linear.weight": torch.zeros(3, 2), "linear.bias": torch.ones(3)})
    assert torch.allclose(layer(torch.ones(1, 2)), torch.tensor(1.0).tanh())
    _, _, named = backward(layer, torch.ones(1, 2))
    assert expect_gradients(layer, named, expected).keys() == expected.keys()
    assert "Unexpected in " in message_of(expect_parameters, layer, {"linear.weight": (3, 2)})


def test_what_is_loaded_converted_and_set_is_one_call():
    layer = (
        Subject("Scale", Scale)
        .module(2)
        .load({"weight": torch.tensor([2.0, 3.0])}, torch.float64, training=False)
    )
    assert [call.method for call in layer.calls] == ["", "load"] and layer.read("training") is False
    assert layer.load({}, training=True).read("training") is True
    assert layer.state()["weight"].dtype == torch.float64

    def tripled(module, times):
        return [float(module.weight.sum()) * times, type(module).__name__]

    assert layer.run_remote(tripled, 3) == [15.0, "Scale"] and layer.calls[-1].method == "tripled"


def test_gradients_of_modules_and_functions_and_where_they_are_cut_off():
    layer = Subject("Linear", lambda: nn.Linear(2, 3)).module()
    x, upstream = torch.ones(4, 2), torch.ones(4, 3)
    _, (of_x,), named = backward(layer, x, upstream=upstream)
    assert (
        of_x.shape == (4, 2) and (named["bias"] == 4).all() and layer.calls[-1].method == "backward"
    )
    expect_gradients(layer, named, {"bias": None})
    assert "No gradient reached `more`" in message_of(
        expect_gradients, layer, named, {"bias": None, "more": None}
    )
    _, (of_x,), _ = backward(Subject("double", lambda x: 2 * x), x)
    assert (of_x == 2).all()
    assert "The result of f is cut off from autograd" in message_of(
        backward, Subject("f", lambda x: x.detach()), x
    )


def test_a_given_module_stays_with_the_check_and_shows_its_changes():
    linear = nn.Linear(2, 2, bias=False)
    subject = Subject("same", lambda module: module)
    module = subject.given(linear, "module")
    subject.module(module).load({"weight": torch.zeros(2, 2)})
    assert not module.state()["weight"].any() and linear.weight.any()


def test_tensors_are_expected_with_torchs_dtypes():
    expect_tensor(torch.ones(2, dtype=torch.bfloat16), (2,), torch.bfloat16)
    assert "to be a tensor, got an array" in message_of(expect_tensor, np.ones(2))
    assert "dtype float32, got bfloat16" in message_of(
        expect_tensor, torch.ones(2).bfloat16(), None, torch.float32
    )


def test_what_depends_on_chance_is_the_same_in_each_call_and_no_draw_is_lost():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    drawn = Subject("drawn", lambda: torch.rand(2))
    assert torch.equal(drawn(), drawn()) and torch.equal(torch.rand(3), expected)


@pytest.fixture
def scales(monkeypatch):
    """A suite for `Scale`, whose misconceptions list a wrong and a right one."""
    suite = Suite("checks", read={})

    @suite.check()
    def scale_values(Scale, draw):
        """It multiplies by its weights and adds n."""
        (n,) = draw.sizes(1)
        layer, weight = Scale.module(n), torch.tensor(draw.array(n))
        layer.to(torch.float64).load({"weight": weight})
        expect_agrees(layer, lambda x: x * weight + n, torch.tensor(draw.array(n)))

    @misconception("Scale", "n forgotten", "Add n.")
    class Forgets(Scale):
        def forward(self, x):
            return x * self.weight

    @families("returns nothing", "cut off from autograd")
    @right("Scale")
    class Right(Scale):
        pass

    module = ModuleType("misconceptions")
    module.forgets, module.right, module.derived = Forgets, Right, type("Derived", (Right,), {})
    monkeypatch.setitem(sys.modules, "misconceptions", module)
    return suite


def test_listed_classes_name_the_cause_and_families_are_made_of_them(scales):
    class Mine(Scale):
        def forward(self, x):
            return self.weight * x

    (result,) = scales.examine("Scale", Mine).results
    assert (result.status, result.cause, result.label) == ("failed", "Forgets", "n forgotten")
    (result,) = scales.examine(
        "Scale", type("Mine", (Scale,), {"forward": lambda self, x: None})
    ).results
    assert result.label == "returns nothing"
    assert [answer.__name__ for answer in scales.listed("right_for", "Scale")] == ["Right"], (
        "a derived class is not declared"
    )
    names = [
        answer.__name__
        for answer in answers_in(sys.modules["misconceptions"], "wrong_for", "Scale")
    ]
    assert names == ["Forgets", "Scale_returns_nothing", "Scale_cut_off_from_autograd"]


def test_two_modules_that_lack_something_are_alike_if_they_lack_the_same(scales):
    """Where a check says no more of a module than what it lacks, that is all there is to
    compare.
    """
    suite = Suite("checks", read={})

    @suite.check()
    def parameters(Scale, draw):
        """It has its parameters."""
        (n,) = draw.sizes(1)
        expect_parameters(Scale.module(n), {"weight": (n,)})

    def named(name):
        class Mine(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.register_parameter(name, nn.Parameter(torch.rand(n)))

        return Mine

    bare = sys.modules["misconceptions"].bare = misconception(
        "Scale", label="a bias alone", hint="Scale."
    )(named("bias"))
    (result,), (other,) = (
        suite.examine("Scale", answer).results for answer in (bare, named("weights"))
    )
    assert str(result.message) != str(other.message)
    assert (result.label, other.label) == ("a bias alone", "")


def test_relations_are_found_of_what_a_module_returns(scales):
    class Mine(Scale):
        def forward(self, x):
            return 3 * super().forward(x)

    (result,) = scales.examine("Scale", Mine).results
    assert str(result.relation) == "Each element of the result is 3 times the expected one."

    class Negates(Scale):
        def forward(self, x):
            return super().forward(-x)

    (result,) = scales.examine("Scale", Negates).results
    assert (
        str(result.relation) == "The values of the result are those expected for `x` with the "
        "opposite sign."
    )


def test_what_is_not_written_yet_is_not_called_wrong(scales):
    class Begun(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(n))

        def forward(self, x):
            raise NotImplementedError

    for stub in (Begun, lambda n: nn.ModuleList([nn.Linear(n, n)])):
        (result,) = scales.examine("Scale", stub).results
        assert result.status == "blocked" and "not written yet" in str(result.message)


def test_checks_of_earlier_releases_find_the_module_by_its_former_name():
    layer = Subject("Scale", Scale).module(2)
    assert layer.own is layer.module

"""Whether a module that a function is given is left as it was: each sentence that says it is
not.
"""

import pytest
import torch
from torch import nn

from autograder.checking import Failed, Module, Subject, left_as_it_was


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.width, self.part = 2, nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        return self.part(x) * self.width


def ignored(*arguments):
    return None


def enlarge(layer):
    with torch.no_grad():
        layer.part.weight.add_(1)


def replace(layer):
    with torch.no_grad():
        layer.part.weight = nn.Parameter(layer.part.weight.clone())


def patch(layer):
    layer.part.__class__ = type(
        "Other", (nn.Linear,), {"forward": lambda self, x: 2 * nn.Linear.forward(self, x)}
    )


CHANGES = {
    "element": (enlarge, "4 of 4 elements of the parameter part.weight of `layer` are wrong."),
    "buffer": (
        lambda layer: layer.seen.add_(1),
        "1 of 1 elements of the buffer seen of `layer` is wrong.",
    ),
    "name": (
        lambda layer: layer.register_parameter("more", nn.Parameter(torch.ones(1))),
        "`layer` has different parameters, buffers or modules after the call than before.",
    ),
    "mode": (
        lambda layer: layer.eval(),
        "`layer` was in training mode before the call, but is in evaluation mode after it.",
    ),
    "part": (
        lambda layer: layer.part.eval(),
        "`part` of `layer` was in training mode before the call, but is in evaluation",
    ),
    "frozen": (
        lambda layer: layer.requires_grad_(False),
        "The parameter part.weight of `layer` had `requires_grad=True` before the call, but has "
        "False after it.",
    ),
    "hook": (
        lambda layer: layer.part.register_forward_hook(ignored),
        "`part` of `layer` has a new hook after the call, from `register_forward_hook`.",
    ),
    "hook on a gradient": (
        lambda layer: layer.part.bias.register_hook(ignored),
        "`part.bias` of `layer` has a new hook after the call, from `register_hook`.",
    ),
    "lost": (
        lambda layer: layer._backward_hooks.clear(),
        "`layer` has lost a hook in the call, from `register_full_backward_hook`.",
    ),
    "changed": (
        lambda layer: setattr(layer, "width", 3),
        "`width` of `layer` was 2 before the call, but is 3 after it.",
    ),
    "added": (
        lambda layer: setattr(layer, "note", {}),
        "`layer` has a new attribute `note` after the call.",
    ),
    "removed": (
        lambda layer: delattr(layer, "width"),
        "`layer` has lost its attribute `width` in the call.",
    ),
    "class": (
        patch,
        "`__class__` of `part` of `layer` was Linear before the call, but is Other after it.",
    ),
    "gradient": (
        lambda layer: layer.zero_grad(),
        "The call changed or removed the gradient of the parameter part.weight of `layer`.",
    ),
    "another parameter": (
        replace,
        "The call changed or removed the gradient of the parameter part.weight",
    ),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_a_changed_module_is_reported(change, message):
    layer = Layer()
    layer.register_full_backward_hook(ignored)
    module = Module(Subject("f", change), layer, "layer")
    with pytest.raises(Failed) as caught, left_as_it_was(module, torch.ones(1, 2)):
        change(layer)
    assert str(caught.value.message).startswith(message)


def test_results_are_asked_for_the_same_input(monkeypatch):
    """They show what nothing else does, such as a method of the class that was exchanged."""
    module = Module(Subject("f", ignored), Layer(), "layer")
    with pytest.raises(Failed) as caught, left_as_it_was(module, torch.ones(1, 2)):
        monkeypatch.setattr(Layer, "forward", lambda self, x: x + 5)
    assert "of the result of `layer` for the same input are wrong" in str(caught.value.message)
    for other in (lambda self, x: (x, x), lambda self, x: x / None):
        with pytest.raises(Failed) as caught, left_as_it_was(module, torch.ones(1, 2)):
            monkeypatch.setattr(Layer, "forward", other)
        assert "returns something else" in str(caught.value.message) or "Expected" in str(
            caught.value
        )


def test_what_is_put_back_is_left_as_it_was():
    layer = Layer()
    with left_as_it_was(Module(Subject("f", ignored), layer, "layer"), torch.ones(1, 2)):
        handle = layer.part.register_forward_hook(ignored)
        layer.eval()(torch.ones(1, 2))
        handle.remove()
        layer.train()
    with left_as_it_was(Module(Subject("f", ignored), nn.ModuleList([layer]), "layers")):
        pass


def test_a_module_is_called_by_name():
    class Named(nn.Module):
        def forward(self, x, mask=None):
            return x if mask is None else x * mask

    layer = Subject("Named", Named).module()
    x, mask = torch.ones(2), torch.tensor([True, False])
    assert torch.equal(layer.by_name(x, mask=mask), layer(x, mask)) and torch.equal(
        layer.by_name(x=x), x
    )
    with pytest.raises(Failed) as caught:
        layer.by_name(x, other=mask)
    assert "Named() raised TypeError: " in str(caught.value.message) and "'other'" in str(
        caught.value.message
    )

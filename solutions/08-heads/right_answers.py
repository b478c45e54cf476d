"""Right answers that look different from ours; the tests run the checks on them. Students do not get them.

Some allow any broadcasting, and fail only advice: these also earn all points.
"""

import copy

import numpy as np
import torch
from torch import nn

from checking import right
from misconceptions import losses, over_batch, reached, silenced, square, squares_of, there

# by_hand


@right("by_hand")
def by_hand_as_a_tensor():
    return torch.tensor([0.888889, 0.666667, 0.5, 2])


# previous_token_score


@right("previous_token_score")
def previous_token_score_loop(A):
    square(A)
    batch = A if A.dim() == 4 else A[None]
    b, h, n, _ = batch.shape
    total = [sum(batch[s, t, i, i - 1] for s in range(b) for i in range(1, n)) for t in range(h)]
    return torch.stack(total) / (b * (n - 1))


@right("previous_token_score")
def previous_token_score_indexed(A):
    i = torch.arange(1, A.shape[-1])
    return over_batch(A[..., i, i - 1].mean(-1), A.dim())


@right("previous_token_score")
def previous_token_score_einsum(A):
    square(A)
    A = A.reshape(-1, *A.shape[-3:])
    below = torch.ones(A.shape[-1] - 1).diag(-1).to(A.dtype)
    return torch.einsum("bhij,ij->h", A, below) / (len(A) * (A.shape[-1] - 1))


# effective_rank


@right("effective_rank")
def effective_rank_loop(A, energy=0.9):
    squares = squares_of(A).tolist()
    total, so_far, count = sum(squares), 0.0, 0
    for square_ in squares:
        so_far, count = so_far + square_, count + 1
        if so_far >= energy * total:
            break
    return count


@right("effective_rank")
def effective_rank_numpy(A, energy=0.9):
    if A.ndim != 2:
        raise ValueError("two axes, please")
    singular = np.linalg.svd(A.detach().numpy(), compute_uv=False)
    return int(np.searchsorted(np.cumsum(singular**2), energy * np.sum(singular**2)) + 1)


@right("effective_rank")
def effective_rank_eigenvalues(A, energy=0.9):
    if A.ndim != 2:
        raise IndexError("two axes, please")
    A = A.detach().double()
    squares = torch.linalg.eigvalsh(A @ A.T if len(A) < len(A.T) else A.T @ A).flip(0).clamp(min=0)
    return reached(squares, energy)


@right("effective_rank")
def effective_rank_what_is_left(A, energy=0.9):
    squares = squares_of(A)
    total = A.detach().square().sum()  # the same sum, without singular values
    return next(r for r in range(1, len(squares) + 1) if squares[r:].sum() <= (1 - energy) * total)


# ablate_head


@right("ablate_head")
def ablate_head_values(layer, head):
    copied, columns = copy.deepcopy(layer), there(layer, head)
    with torch.no_grad():
        copied.W_v.weight[columns] = 0
        if copied.W_v.bias is not None:
            copied.W_v.bias[columns] = 0
    return copied


@right("ablate_head")
def ablate_head_loaded(layer, head):
    columns = there(layer, head)
    copied = type(layer)(layer.d_model, layer.num_heads, layer.W_o.bias is not None)
    state = {name: part.clone() for name, part in layer.state_dict().items()}
    state["W_o.weight"][:, columns] = 0
    copied.to(state["W_o.weight"].dtype).load_state_dict(state)
    return copied.train(layer.training)


@right("ablate_head")
def ablate_head_multiplied(layer, head):
    copied, columns = copy.deepcopy(layer), there(layer, head)
    keep = torch.ones(layer.d_model, dtype=layer.W_o.weight.dtype)
    keep[columns] = 0
    copied.W_o.weight = nn.Parameter(copied.W_o.weight.detach() * keep)
    return copied


@right("ablate_head")
def ablate_head_hook(layer, head):
    copied, columns = copy.deepcopy(layer), there(layer, head)

    def silence(module, inputs):
        changed = inputs[0].clone()
        changed[..., columns] = 0
        return (changed,)

    copied.W_o.register_forward_pre_hook(silence)
    return copied


@right("ablate_head")
def ablate_head_wrapped(layer, head):
    """A module around a copy that passes on all its arguments."""
    columns = there(layer, head)

    class Without(nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = copy.deepcopy(layer)
            self.train(layer.training)

        def forward(self, *arguments, **named):
            with torch.no_grad():
                self.whole.W_o.weight[:, columns] = 0
            return self.whole(*arguments, **named)

    return Without()


@right("ablate_head")
class ablate_head_class(nn.Module):
    """A class that is called, whose instance is a newly written layer."""

    def __init__(self, layer, head):
        super().__init__()
        self.own = there(layer, head)
        self.heads = layer.num_heads
        self.parts = nn.ModuleList(
            copy.deepcopy(part) for part in (layer.W_q, layer.W_k, layer.W_v, layer.W_o)
        )
        self.train(layer.training)

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        inputs = zip(self.parts, (query, key, value), strict=False)
        q, k, v = (part(X).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part, X in inputs)
        S = q @ k.mT / q.shape[-1] ** 0.5
        A = (S if mask is None else S.masked_fill(~mask, -torch.inf)).softmax(-1)
        Z = (A @ v).transpose(1, 2).flatten(2)
        keep = torch.ones_like(Z[0, 0])
        keep[self.own] = 0
        return self.parts[-1](Z * keep), A


# head_importance


@right("head_importance")
def head_importance_hooks(layer, loss):
    """A hook for each head, which is removed again."""
    whole, importances = float(loss(layer)), []
    for head in range(layer.num_heads):
        columns = there(layer, head)

        def silence(module, inputs, columns=columns):
            changed = inputs[0].clone()
            changed[..., columns] = 0
            return (changed,)

        handle = layer.W_o.register_forward_pre_hook(silence)
        importances.append(float(loss(layer)) - whole)
        handle.remove()
    return torch.tensor(importances)


@right("head_importance")
def head_importance_values(layer, loss):
    without, whole = losses(layer, loss, ablate_head_values)
    return torch.tensor(without, dtype=torch.float64) - whole


@right("head_importance")
def head_importance_put_back(layer, loss):
    whole, importances = float(loss(layer)), torch.zeros(layer.num_heads)
    for head in range(layer.num_heads):
        columns = there(layer, head)
        with torch.no_grad():
            before = layer.W_o.weight[:, columns].clone()
            layer.W_o.weight[:, columns] = 0
            importances[head] = float(loss(layer)) - whole
            layer.W_o.weight[:, columns] = before
    return importances


@right("head_importance")
def head_importance_stacked(layer, loss):
    whole = torch.as_tensor(loss(layer))
    return (
        torch.stack(
            [torch.as_tensor(loss(silenced(layer, head))) for head in range(layer.num_heads)]
        )
        - whole
    )


@right("head_importance")
def head_importance_without_gradients(layer, loss):
    with torch.no_grad():
        whole = torch.as_tensor(loss(layer), dtype=torch.float64)
        without = torch.tensor(
            [torch.as_tensor(loss(silenced(layer, head))) for head in range(layer.num_heads)]
        )
    return without.double() - whole

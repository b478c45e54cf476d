"""The page of ten questions: each answer leads to cells that show it, and its module computes
what PyTorch's does.
"""

import re

import pytest
import torch

from autograder.course.config import ROOT

BOOK = ROOT / "book"
PAGE = BOOK / "ten-questions.md"


def questions():
    """The parts of the page, a question each."""
    return re.split(r"^## ", PAGE.read_text(encoding="utf8"), flags=re.M)[1:]


def test_each_of_ten_answers_leads_to_cells_that_there_are_once():
    assert [int(part.split(".")[0]) for part in questions()] == list(range(1, 11))
    labels = [
        label
        for path in BOOK.glob("[0-9][0-9]-*.md")
        for label in re.findall(r"^\((cell-[\w-]+)\)=$", path.read_text(encoding="utf8"), re.M)
    ]
    for part in questions():
        shown = re.findall(r"^Shown in: (.*)$", part, re.M)
        assert len(shown) == 1, part.splitlines()[0]
        cells = re.findall(r"\]\((cell-[\w-]+)\)", shown[0])
        assert len(cells) >= 2, part.splitlines()[0]
        assert not [cell for cell in cells if labels.count(cell) != 1]
        assert "*A follow-up:*" in part


@pytest.fixture(scope="module")
def layer():
    """The module of question 10, of width 12."""
    (code,) = re.findall(r"^```\{code-block\} python\n(.*?)^```", questions()[9], re.M | re.S)
    assert max(map(len, code.splitlines())) <= 72
    here = {}
    exec(code, here)
    return lambda heads, width=12: here["MultiHeadAttention"](width, heads).double()


@pytest.mark.parametrize("heads", [1, 3, 12])
@pytest.mark.parametrize("kind", ["none", "causal", "padding"])
def test_the_module_is_pytorchs(layer, heads, kind):
    torch.manual_seed(0)
    mine = layer(heads)
    query, key, value = torch.randn(2, 5, 12), torch.randn(2, 7, 12), torch.randn(2, 7, 12)
    query, key, value = (x.double().requires_grad_() for x in (query, key, value))
    mask = {
        "none": None,
        "causal": torch.ones(5, 7, dtype=torch.bool).tril(2),
        "padding": (torch.arange(7) < torch.tensor([[7], [3]]))[:, None, None],
    }[kind]
    theirs = torch.nn.MultiheadAttention(12, heads, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([W.weight for W in (mine.W_q, mine.W_k, mine.W_v)]))
        theirs.in_proj_bias.copy_(torch.cat([W.bias for W in (mine.W_q, mine.W_k, mine.W_v)]))
        theirs.out_proj.weight.copy_(mine.W_o.weight)
        theirs.out_proj.bias.copy_(mine.W_o.bias)
    attn_mask = None if mask is None else ~mask.expand(2, heads, 5, 7).flatten(0, 1)
    expected, weights = theirs(query, key, value, attn_mask=attn_mask, average_attn_weights=False)
    out, A = mine(query, key, value, mask)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(A, weights)
    dout = torch.randn_like(out)
    for ours, right in zip(
        torch.autograd.grad(out, (query, key, value), dout),
        torch.autograd.grad(expected, (query, key, value), dout),
        strict=True,
    ):
        torch.testing.assert_close(ours, right)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_row_without_a_key_is_zeros_both_ways(layer, dtype):
    mine = layer(3).to(dtype)
    x = torch.randn(2, 4, 12, dtype=dtype, requires_grad=True)
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[1] = False
    out, A = mine(x, x, x, mask)
    assert not A[:, :, 1].any() and A[:, :, 0].sum(-1).allclose(
        torch.ones((), dtype=dtype), atol=1e-2
    )
    assert torch.equal(out[:, 1], mine.W_o.bias.expand(2, 12))
    out.sum().backward()
    assert x.grad.isfinite().all() and all(p.grad.isfinite().all() for p in mine.parameters())


def test_a_mask_for_each_sequence_needs_an_axis_for_the_heads(layer):
    torch.manual_seed(0)
    mine, x = layer(2), torch.randn(2, 5, 12, dtype=torch.float64)
    mask = (torch.arange(5) < torch.tensor([[5], [3]]))[:, None]  # (b, 1, n_k)
    A = mine(x, x, x, mask[:, None])[1]
    assert not A[1, :, :, 3:].any() and A[0].all()
    # b = h: the mask of the second sequence became that of the second head
    met = mine(x, x, x, mask)[1]
    assert met.shape == A.shape and not met[:, 1, :, 3:].any() and met[:, 0].all()
    with pytest.raises(RuntimeError):
        layer(3)(x, x, x, mask)


def test_a_row_of_the_score_gradient_is_weight_times_grade_above_average():
    torch.manual_seed(0)
    S, V, dz = (torch.randn(size, dtype=torch.float64) for size in ((4,), (4, 3), (3,)))
    a, grades = S.requires_grad_().softmax(-1), V @ dz
    (dS,) = torch.autograd.grad(a @ V, S, dz)
    torch.testing.assert_close(dS, a * (grades - a @ grades))


def test_heads_that_do_not_divide_the_width_are_refused(layer):
    with pytest.raises(ValueError, match="divide"):
        layer(5)

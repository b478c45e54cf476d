"""The page of ten questions: each answer leads to cells that show it, and its module computes
what PyTorch's does.
"""

import re

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 (as PyTorch’s own pages do)

from autograder.course.config import ROOT

BOOK = ROOT / "book"
PAGE = BOOK / "ten-questions.md"


def questions():
    """The parts of the page, a question each."""
    return re.split(r"^## ", PAGE.read_text(encoding="utf8"), flags=re.M)[1:]


def test_each_of_sixteen_answers_leads_to_cells_that_there_are_once():
    assert [int(part.split(".")[0]) for part in questions()] == list(range(1, 17))
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


# ---- the six that are asked today


def says(number, *phrases):
    """Whether an answer has some phrases, in its words and with its numbers."""
    text = " ".join(questions()[number - 1].split())
    return all(phrase in text for phrase in phrases)


def drawn(*shapes):
    """Random tensors of 64 bits."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def test_a_cache_gives_the_same_rows_and_has_the_stated_bytes():
    X, W_q, W_k, W_v = drawn((9, 6), (6, 4), (6, 4), (6, 5))
    whole = F.scaled_dot_product_attention(X @ W_q, X @ W_k, X @ W_v, is_causal=True)
    keys, values = X[:0] @ W_k, X[:0] @ W_v
    for x, expected in zip(X[:, None], whole, strict=True):
        keys, values = torch.cat([keys, x @ W_k]), torch.cat([values, x @ W_v])
        row = F.scaled_dot_product_attention(x @ W_q, keys, values)[0]
        torch.testing.assert_close(row, expected)
    one = 2 * 32 * 8 * 128 * 2
    assert says(11, f"{one:,} bytes per token", f"{one * 131_072 / 1e9:.1f} GB for 131,072 tokens")


def test_tiles_with_rescaled_sums_are_exact_and_save_the_stated_memory():
    q, K, V = drawn((4,), (12, 4), (12, 3))
    top, total, mix = torch.tensor(-torch.inf), 0.0, 0.0
    for k, v in zip(K.split(5), V.split(5), strict=True):
        s = k @ q / 2
        new = torch.maximum(top, s.max())
        total = (top - new).exp() * total + (s - new).exp().sum()
        mix = (top - new).exp() * mix + (s - new).exp() @ v
        top = new
    torch.testing.assert_close(mix / total, (K @ q / 2).softmax(-1) @ V)
    assert says(12, f"{2 * 4 * 4096**2 / 1e6:.0f} MB in each head", "exact attention")


def test_query_heads_share_key_heads_as_stated():
    Q, K, V = drawn((1, 6, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    expected = F.scaled_dot_product_attention(Q, K, V, enable_gqa=True)
    own = [t * 2 // 6 for t in range(6)]  # the formula
    torch.testing.assert_close(F.scaled_dot_product_attention(Q, K[:, own], V[:, own]), expected)
    assert torch.equal(K[:, own], K.repeat_interleave(3, 1))
    wrong = K.repeat(1, 3, 1, 1)
    assert wrong.shape == K[:, own].shape and not torch.equal(wrong, K[:, own])
    assert says(13, r"\lfloor t\, h_{kv} / h_q \rfloor", "the cache is a quarter as large")
    assert 4 * 8 == 32


def turned(x, place):
    """One query or key (d,) at a place: every pair turned, as in chapter 4."""
    angles = place * 10000.0 ** (-torch.arange(0, len(x), 2, dtype=torch.float64) / len(x))
    a, b = x[0::2], x[1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten()


def test_rotary_scores_depend_on_the_distance_only():
    q, k = drawn((8,), (8,))
    here = turned(q, 5) @ turned(k, 3)
    torch.testing.assert_close(here, turned(q, 105) @ turned(k, 103))
    torch.testing.assert_close(here, q @ turned(k, 3 - 5))
    assert not torch.isclose(here, turned(q, 5) @ turned(k, 4))
    torch.testing.assert_close(turned(q, 105).norm(), q.norm())
    assert says(14, "at places 3 and 5 have the same score at 103 and 105", "changes no lengths")


def test_a_latent_vector_needs_no_unpacking_and_is_as_short_as_stated():
    q, c, W_k, W_v = drawn((3, 4), (9, 6), (3, 6, 4), (3, 6, 5))  # 3 heads, r = 6
    unpacked = F.scaled_dot_product_attention(q[:, None], c @ W_k, c @ W_v)
    weights = (q[:, None] @ W_k.mT @ c.mT / 2).softmax(-1)  # (3, 1, 9)
    torch.testing.assert_close(weights @ c @ W_v, unpacked)
    full = 2 * 128 * 128
    assert says(15, f"{full:,} numbers", f"{full / (512 + 64):.0f} times as many")


def steps_needed(answers, slots):
    """The steps that answers of so many tokens take: in fixed batches, and with slots that are
    filled again after every step.
    """
    fixed = sum(max(answers[i : i + slots]) for i in range(0, len(answers), slots))
    free_from = [0] * slots
    for tokens in answers:
        first = free_from.index(min(free_from))
        free_from[first] += tokens
    return fixed, max(free_from)


def test_a_server_needs_the_stated_steps_and_places():
    assert steps_needed([8, 2, 2, 2, 2, 2], 3) == (10, 8)
    assert says(16, "8, 2, 2, 2, 2 and 2 tokens, fixed batches need 10 steps", "batches need 8.")
    pages = -(-1000 // 16)
    assert says(16, f"1000 tokens take {pages} pages of 16, with {16 * pages - 1000} empty places")
    assert says(16, f"A row for 8192 tokens would have {8192 - 1000}.")


def test_drafts_change_no_probability_and_give_the_stated_tokens():
    p, q = (own.softmax(0) for own in drawn((50,), (50,)))
    p[7] = q[11] = 0.0  # impossible in one of the two
    p, q = p / p.sum(), q / q.sum()
    kept = torch.where(q > 0, q * (p / q).clamp(max=1), 0)
    rest = (p - q).clamp(min=0)
    torch.testing.assert_close(kept, torch.minimum(p, q))
    torch.testing.assert_close(kept + (1 - kept.sum()) * rest / rest.sum(), p)
    tokens = sum(0.8**i for i in range(5))
    assert says(16, f"four drafts give {tokens:.2f} tokens on average")

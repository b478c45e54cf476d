"""Checks of exercise 14. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Results are compared with `specifications`, which computes head by head, token by token and step by step. It is in
checking.zip together with the runtime, `checking`, so that no one sees an answer by accident. Inputs are in float64
unless a check says otherwise. Lists of tokens, pages and steps are compared exactly. For other results the tolerance is
`RTOL` in `checking/expect.py`, which explains how it was chosen. The probabilities that `accept` gets are multiples of 1/16,
1/64 or 1/2048, so that no rounding decides about a token.
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

from fractions import Fraction

import numpy as np
import torch

from checking import (
    Failed,
    Message,
    Suite,
    backward,
    expect,
    expect_all_raise,
    expect_by_hand,
    expect_close,
    expect_tensor,
    expect_tensor_dtypes,
    expect_unchanged,
    noncontiguous,
    told_by,
)
from checking.expect import as_plain, describe
from checking.words import counted
from specifications import (
    SPECIFICATIONS,
    ends_of,
    mean_tokens,
    pages_of,
    round_of,
)

torch.set_num_threads(1)  # everything here is small

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 14, By hand",
        "paged_attention": "chapter 14, Pages",
        "packed_attention": "chapter 14, Padding against packing",
        "shared_pages": "chapter 14, Sharing a prefix",
        "continuous_batching": "chapter 14, Continuous batching",
        "accept": "chapter 14, Speculative decoding",
        "tokens_expected": "chapter 14, When drafts pay",
    },
)
check, check_each = suite.check, suite.check_each
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset

REFUSED = (ValueError, RuntimeError, IndexError)
NAMES = {
    "paged_attention": ("q", "K_pages", "V_pages", "table", "lengths"),
    "packed_attention": ("Q", "K", "V", "lengths"),
    "shared_pages": ("prompts", "page_size"),
    "continuous_batching": ("arrivals", "steps", "slots"),
    "accept": ("draft", "p", "q", "u", "v"),
}


# by_hand


@check()
def by_hand_numbers(by_hand, draw):
    """Returns the three results for the drafted word, then the steps in which the four requests end."""
    p, q = np.array([0.15, 0.4, 0.15, 0.3]), np.array([0.5, 0.3, 0.2, 0])
    more = np.maximum(p - q, 0)
    ends = ends_of([0, 0, 2, 1], [4, 1, 2, 3], 2)
    expect_by_hand(by_hand(), [p[0] / q[0], *(more / more.sum()), np.minimum(p, q).sum(), *ends])


# Lists of whole numbers


MOST_SHOWN = 24


def shown(value):
    """Return a value in a message: a list or a tensor as a list, cut off if it is long."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, float):
        return f"{value:.4g}" if float(f"{value:.4g}") != 1 or value == 1 else "just below 1"
    if isinstance(value, (list, tuple)):
        rest = ["..."] if len(value) > MOST_SHOWN else []
        return f"[{', '.join([*map(shown, value[:MOST_SHOWN]), *rest])}]"
    return str(value)


def named_arguments(function, arguments):
    """Return the arguments of a call by name, as a part of a sentence."""
    pairs = zip(NAMES[function.name], arguments, strict=True)
    return ", ".join(f"{name} = {shown(value)}" for name, value in pairs)


def numbers_in(result, what):
    """Return a list of whole numbers as one of Python's own; fail if it is no list, or has something else in it."""
    if not isinstance(result, (list, tuple)):
        message = Message(
            "Expected {what} to be a list, got {found}.", what=what, found=describe(result)
        )
        raise Failed(message, explained=True)
    numbers = []
    for item in result:
        plain = as_plain(item)
        if plain is None or plain.ndim or plain != np.round(plain):
            message = "Expected {what} to contain whole numbers, got {found} in it."
            raise Failed(Message(message, what=what, found=describe(item)), explained=True)
        numbers.append(int(plain))
    return numbers


def arguments_after_call(function, *arguments):
    """Call a function, and return its arguments as they are after that."""
    function(*arguments)
    return arguments


def expect_lists_unchanged(function, *arguments):
    """Fail if a call changes one of the lists among its arguments."""
    after = function.run_remote(arguments_after_call, *arguments)
    for name, before, now in zip(NAMES[function.name], arguments, after, strict=True):
        message = "The list `{name}` was changed, but the caller still needs it. Work on a copy."
        expect(not isinstance(before, list) or now == before, Message(message, name=name))


def results_of(function, cases, read_result):
    """Return the results for lists of arguments, as `read_result` reads them, up to the first that fails, and that
    failure or None.

    All are computed before one of them is judged: a mistake shows by what it does in all cases. They are sent ahead in
    one message.
    """
    function.ahead(cases)
    results = []
    for case in cases:
        try:
            results.append(read_result(function(*case)))
        except Failed as failure:
            return results, failure
    return results, None


def expect_lists(function, cases, expected_of, read_result):
    """Fail unless `read_result(function(*case))` equals `expected_of(*case)` for each case."""
    wanted = [expected_of(*case) for case in cases]
    results, failure = results_of(function, cases, read_result)
    for case, expected, got in zip(cases, wanted, results, strict=False):
        if got != expected:
            message = Message(
                "For {arguments}, expected {wanted}, got {found}.",
                arguments=named_arguments(function, case),
                wanted=shown(expected),
                found=shown(got),
            )
            right = sum(a == b for a, b in zip(results, wanted, strict=False))
            passed = counted(
                "{count} of {size} results is right",
                "{count} of {size} results are right",
                right,
                size=len(cases),
            )
            raise Failed(message, [passed] if right else [])
    if failure:
        raise failure


# Attention: inputs


def sizes(draw, count):
    """Return `count` small sizes, all different."""
    return [int(size) for size in draw.rng.permutation([2, 3, 4, 5, 7])[:count]]


def widths(draw):
    """Return different widths of keys and of values, the first of them even."""
    d_k = int(draw.rng.choice([4, 6]))
    return d_k, d_k + int(draw.rng.choice([1, 3]))


def queries(draw, *shape):
    """Return queries whose weights differ, but are not near 0 or 1."""
    return 1.5 * draw.tensor(*shape)


def paged_case(draw, lengths, P, d_k, d_v, h=1, h_kv=1, more=1, rest=None, kind=torch.int64):
    """Return the arguments of `paged_attention` for these lengths: the pages of all are in a random order.

    There are two pages that no sequence uses, `more` columns in the table that none needs, and numbers in the rows
    beyond each length. Table entries beyond the pages that a sequence needs are the numbers of pages of others, unless
    `rest` is given.
    """
    lengths = torch.tensor(lengths, dtype=kind)
    needed = [-(-int(length) // P) for length in lengths]
    num_pages = sum(needed) + 2
    free = iter(draw.rng.permutation(num_pages).tolist())
    columns = max(max(needed), 1) + more
    if rest is None:
        table = torch.tensor(draw.rng.integers(num_pages, size=(len(lengths), columns)), dtype=kind)
    else:
        table = torch.full((len(lengths), columns), rest, dtype=kind)
    for s, count in enumerate(needed):
        pages = [next(free) for _ in range(count)]
        if pages == sorted(pages):  # never in the order of the pool
            pages.reverse()
        table[s, :count] = torch.tensor(pages, dtype=kind)
    K_pages = draw.tensor(num_pages, P, h_kv, d_k)
    V_pages = draw.tensor(num_pages, P, h_kv, d_v)
    return queries(draw, len(lengths), h, d_k), K_pages, V_pages, table, lengths


def with_nan_in_unused_rows(arguments):
    """Return arguments of `paged_attention` with NaN in all rows of pages that belong to no token."""
    q, K_pages, V_pages, table, lengths = arguments
    P, unused = K_pages.shape[1], torch.ones(K_pages.shape[:2], dtype=torch.bool)
    for pages, length in zip(table.tolist(), lengths.tolist(), strict=True):
        for t in range(length):
            unused[pages[t // P], t % P] = False
    unused = unused[..., None, None]
    return (
        q,
        K_pages.masked_fill(unused, torch.nan),
        V_pages.masked_fill(unused, torch.nan),
        table,
        lengths,
    )


def packed_case(draw, lengths, d_k, d_v, h=1, h_kv=1):
    """Return the arguments of `packed_attention` for these lengths."""
    n = sum(lengths)
    parts = queries(draw, n, h, d_k), draw.tensor(n, h_kv, d_k), draw.tensor(n, h_kv, d_v)
    return *parts, list(lengths)


def expect_all(function, cases):
    """Fail unless the results are right for each list of arguments; all of them are sent ahead in one message."""
    function.ahead(cases)
    for case in cases:
        expect_close(function(*case), SPECIFICATIONS[function.name](*case))


def with_noncontiguous(case):
    """Return arguments whose tensors of three or four axes have another layout in memory."""
    return [
        noncontiguous(part) if torch.is_tensor(part) and part.ndim > 2 else part for part in case
    ]


# paged_attention


@check(weight=1)
def paged_attention_shape(paged_attention, draw):
    """Returns a tensor of shape (b, h, d_v)."""
    (b, P, h), (d_k, d_v) = sizes(draw, 3), widths(draw)
    case = paged_case(draw, [P] * b, P, d_k, d_v, h=h, h_kv=h)
    expect_tensor(paged_attention(*case), (b, h, d_v))


@check(weight=2, needs=[paged_attention_shape])
def paged_attention_pages(paged_attention, draw):
    """Finds the tokens on the pages that the table names, if all of these are full."""
    d_k, d_v = widths(draw)
    # Three pages of 9 tokens for each sequence, and two of 8. 9 is a multiple of 3, and 8 of 2: otherwise an answer that
    # mixes up pages and places within them finds the right tokens in another order. Once, values are wider than keys.
    three_pages = paged_case(draw, [27] * 3, 9, d_k, d_v, more=0)
    two_pages = paged_case(draw, [16] * 4, 8, d_v, d_k, more=0)
    expect_all(paged_attention, [three_pages, two_pages, with_noncontiguous(three_pages)])


@check(weight=2, needs=[paged_attention_pages])
def paged_attention_lengths(paged_attention, draw):
    """Each query sees the tokens of its sequence, and nothing of the rows and pages after them."""
    (d_k, d_v), P = widths(draw), int(draw.rng.choice([3, 4, 5]))
    lengths = [2 * P - 1, P + 1, 1, 3 * P, P]
    few = paged_case(draw, lengths, P, d_k, d_v)
    cases = [few, paged_case(draw, lengths[::-1], P, d_k, d_v, more=2)]
    expect_all(paged_attention, [*cases, paged_case(draw, [2 * P - 1], P, d_k, d_v, more=0)])


@check(weight=1, needs=[paged_attention_lengths])
def paged_attention_nan(paged_attention, draw):
    """NaN in rows that belong to no token has no effect, and neither has −1 in the table."""
    (d_k, d_v), P = widths(draw), int(draw.rng.choice([3, 4, 5]))
    lengths = [P + 1, 2 * P, 1]
    q, K_pages, V_pages, *places = paged_case(draw, lengths, P, d_k, d_v, rest=-1)
    _, K_nan, V_nan, *_ = with_nan_in_unused_rows((q, K_pages, V_pages, *places))
    cases = [(q, K_nan, V_pages), (q, K_pages, V_nan), (q, K_nan, V_nan)]
    with told_by(why_nan, paged_attention):
        expect_all(paged_attention, [(*case, *places) for case in cases])
    with told_by(where_nan, paged_attention):
        # Here each entry of the table is a page that is needed.
        case = paged_case(draw, [P + 1, 2 * P - 1, P + 2], P, d_k, d_v, more=0)
        expect_no_nan_in_gradients(paged_attention, draw, with_nan_in_unused_rows(case))


def expect_no_nan_in_gradients(function, draw, case):
    """Fail if a gradient has NaN; whether gradients are right otherwise is a check of its own."""
    try:
        gradients = gradients_of(function, draw, case)
    except Failed:
        return
    for what, got, expected in gradients:
        if got is not None and torch.as_tensor(got).isnan().any():
            expect_close(got, expected, what=what)


def gradients_of(function, draw, case):
    """Return for queries, keys and values what their gradient is called, the gradient, and the expected one."""
    leaves = [part.clone().requires_grad_() for part in case[:3]]
    expected = SPECIFICATIONS[function.name](*leaves, *case[3:])
    upstream = draw.tensor(*expected.shape)
    (expected * upstream).sum().backward()
    _, grads, _ = backward(function, *case, upstream=upstream)
    names = [Message("the gradient of {name}", name=name) for name in NAMES[function.name][:3]]
    return list(zip(names, grads[:3], [leaf.grad for leaf in leaves], strict=True))


def why_nan(paged_attention):
    """Return what leads to NaN in the last result, or an empty string if there is none."""
    if not torch.as_tensor(paged_attention.calls[-1].result).isnan().any():
        return ""
    return where_nan(paged_attention)


def where_nan(paged_attention):
    """Return where the inputs of the last call have NaN, and how it spreads."""
    _, K_pages, V_pages, *_ = paged_attention.calls[-1].arguments
    where = [
        name
        for name, pool in zip("KV", (K_pages, V_pages), strict=True)
        if torch.as_tensor(pool).isnan().any()
    ]
    message = "The only NaN in the inputs are in unused rows of {where}. 0 times NaN is NaN, and so is NaN plus a number."
    return Message(message, where=" and ".join(f"`{name}_pages`" for name in where))


@check(weight=1, needs=[paged_attention_lengths])
def paged_attention_empty(paged_attention, draw):
    """A sequence of length 0 gets zeros, next to others and alone."""
    (d_k, d_v), P = widths(draw), int(draw.rng.choice([3, 4, 5]))
    some = paged_case(draw, [0, P + 1, 0], P, d_k, d_v, h=2, h_kv=1)
    alone = paged_case(draw, [0], P, d_k, d_v, h=2, h_kv=2, rest=-1)
    expect_all(paged_attention, [some, alone, with_nan_in_unused_rows(alone)])
    expect_no_nan_in_gradients(paged_attention, draw, some)


@check(weight=2, needs=[paged_attention_lengths])
def paged_attention_heads(paged_attention, draw):
    """Query head i uses key head i // (h / h_kv): with fewer key heads, as many, or one."""
    (d_k, d_v), P = widths(draw), int(draw.rng.choice([3, 4, 5]))
    cases = [
        paged_case(draw, [P + 1, 2 * P], P, d_k, d_v, h=h, h_kv=h_kv)
        for h, h_kv in [(4, 2), (6, 3), (3, 3), (4, 1), (6, 2)]
    ]
    expect_all(paged_attention, cases)


@check(weight=0.5, needs=[paged_attention_lengths])
def paged_attention_large(paged_attention, draw):
    """Finite for scores of any size: thousands above 0, and thousands below."""
    (d_k, d_v), P = widths(draw), int(draw.rng.choice([3, 4, 5]))
    q, K_pages, *rest = paged_case(draw, [P + 1, 2 * P, 1], P, d_k, d_v)
    cases = [(sign * q.abs() * 3000, K_pages.abs(), *rest) for sign in (1, -1)]
    expect_all(paged_attention, cases)


@check(weight=0.5, needs=[paged_attention_lengths])
def paged_attention_shared(paged_attention, draw):
    """Two sequences may share pages."""
    (d_k, d_v), P = widths(draw), int(draw.rng.choice([3, 4, 5]))
    q, K_pages, V_pages, table, lengths = paged_case(draw, [2 * P + 1, 3 * P - 1, P], P, d_k, d_v)
    table[1, :2] = table[0, :2]
    table[2, 0] = table[0, 0]
    expect_all(paged_attention, [(q, K_pages, V_pages, table, lengths)])


@check(weight=0.5, needs=[paged_attention_lengths])
def paged_attention_integers(paged_attention, draw):
    """The table and the lengths may be int32."""
    (d_k, d_v), P = widths(draw), int(draw.rng.choice([3, 4, 5]))
    case = paged_case(draw, [P + 1, 2 * P - 1], P, d_k, d_v, h=2, h_kv=1, rest=-1, kind=torch.int32)
    expect_all(paged_attention, [case])


@check(weight=1, needs=[paged_attention_lengths])
def paged_attention_sizes(paged_attention, draw):
    """Works when all dimensions are equal, for hundreds of tokens or sequences, and for dimensions of size 1."""
    size, long = int(draw.rng.integers(3, 6)), draw.long()
    alike = paged_case(draw, [size] * size, size, size, size, h=size, h_kv=size, more=size - 1)
    cases = [alike, paged_case(draw, [size, size - 1], size, size, size, more=size - 1)]
    cases.append(paged_case(draw, [long + 90, 1], 7, 2, 3))
    cases.append(paged_case(draw, [long, long - 5], long, 2, 3))
    cases.append(paged_case(draw, (1 + np.arange(long) % 3).tolist(), 2, 2, 3))
    cases.append(paged_case(draw, [3, 2], 2, 2, long))
    cases.append(paged_case(draw, [3, 2], 1, 1, 1, h=2, h_kv=1))
    cases.append(paged_case(draw, [1], 1, 1, 1, more=0))
    expect_all(paged_attention, cases)


# packed_attention


@check(weight=1)
def packed_attention_shape(packed_attention, draw):
    """Returns a tensor of shape (n, h, d_v)."""
    (n, other), (d_k, d_v), h = sizes(draw, 2), widths(draw), 3
    case = packed_case(draw, [n, other], d_k, d_v, h=h, h_kv=h)
    expect_tensor(packed_attention(*case), (n + other, h, d_v))


@check(weight=1.5, needs=[packed_attention_shape])
def packed_attention_one(packed_attention, draw):
    """A single sequence gets causal attention, scaled by 1/√d_k."""
    (d_k, d_v), n = widths(draw), int(draw.rng.choice([10, 12]))
    case = packed_case(draw, [n], d_k, d_v)
    expect_all(
        packed_attention, [case, packed_case(draw, [n + 1], d_v, d_k), with_noncontiguous(case)]
    )


@check(weight=2.5, needs=[packed_attention_one])
def packed_attention_values(packed_attention, draw):
    """No token sees a token of another sequence, for different lengths in any order, and for equal ones."""
    (d_k, d_v), lengths = widths(draw), sizes(draw, 4)
    cases = [
        packed_case(draw, several, d_k, d_v)
        for several in (lengths, sorted(lengths), lengths[:2] * 2)
    ]
    expect_all(packed_attention, [*cases, packed_case(draw, [3, 3, 3], d_k, d_v)])


@check(weight=1, needs=[packed_attention_values])
def packed_attention_short(packed_attention, draw):
    """Lengths may be 0 and 1: at the beginning, in the middle, and at the end."""
    (d_k, d_v), (n, other) = widths(draw), sizes(draw, 2)
    several = [[0, n, 0, 0, other], [n, 1, other, 0], [1, 1, n, 1], [0, 1], [1, 0, 1], [1]]
    expect_all(packed_attention, [packed_case(draw, lengths, d_k, d_v) for lengths in several])


@check(weight=0.5, needs=[packed_attention_values])
def packed_attention_large(packed_attention, draw):
    """Finite for scores of any size: thousands above 0, and thousands below."""
    Q, K, *rest = packed_case(draw, sizes(draw, 3), *widths(draw))
    expect_all(packed_attention, [(sign * Q.abs() * 3000, K.abs(), *rest) for sign in (1, -1)])


@check(weight=2, needs=[packed_attention_values])
def packed_attention_heads(packed_attention, draw):
    """Query head i uses key head i // (h / h_kv): with fewer key heads, as many, or one."""
    (d_k, d_v), lengths = widths(draw), sizes(draw, 2)
    cases = [
        packed_case(draw, lengths, d_k, d_v, h=h, h_kv=h_kv)
        for h, h_kv in [(4, 2), (6, 3), (3, 3), (4, 1), (6, 2)]
    ]
    expect_all(packed_attention, cases)


@check(weight=1, needs=[packed_attention_values])
def packed_attention_sizes(packed_attention, draw):
    """Works when all dimensions are equal, for hundreds of tokens or sequences, and for dimensions of size 1."""
    size, long = int(draw.rng.integers(3, 6)), draw.long()
    cases = [packed_case(draw, [size], size, size, h=size, h_kv=size)]
    cases.append(packed_case(draw, [size] * size, size, size, h=size, h_kv=size))
    cases.append(packed_case(draw, [long, 3], 2, 3))
    cases.append(packed_case(draw, (1 + np.arange(long) % 2).tolist(), 2, 3))
    cases.append(packed_case(draw, [3, 2], 2, long))
    cases.append(packed_case(draw, [3, 2], 1, 1, h=2, h_kv=1))
    cases.append(packed_case(draw, [1], 1, 1))
    expect_all(packed_attention, cases)


# What is checked for both functions of attention


def attention_case(function, draw):
    """Return arguments of a function of attention: there are several heads, and three sequences."""
    d_k, d_v = widths(draw)
    if function.name == "paged_attention":
        return paged_case(draw, [5, 3, 1], 3, d_k, d_v, h=4, h_kv=2)
    return packed_case(draw, [4, 1, 3], d_k, d_v, h=4, h_kv=2)


def check_both(weight, needs):
    """Declare a check of the two functions of attention."""
    return check_each("paged_attention", "packed_attention", weight=weight, needs=[needs])


@check_both(weight=1.5, needs="heads")
def gradients(function, draw):
    """Gradients flow from the result to queries, keys and values."""
    for what, got, expected in gradients_of(function, draw, attention_case(function, draw)):
        name = what.values["name"]
        message = Message("No gradient reaches {name}: it is cut off from autograd.", name=name)
        expect(got is not None, message)
        expect_close(got, expected, what=what)


@check_both(weight=0.5, needs="shape")
def dtype(function, draw):
    """The result has the dtype of the inputs, float32 or float64."""
    case = attention_case(function, draw)
    shape = SPECIFICATIONS[function.name](*case).shape
    exact = [part.float() if is_floating(part) else part for part in case]
    kinds = (torch.float32, torch.float64)
    cases = [[part.to(kind) if is_floating(part) else part for part in exact] for kind in kinds]
    function.ahead(cases)
    results = {kind: function(*case) for kind, case in zip(kinds, cases, strict=True)}
    expect_tensor_dtypes(results, shape)


def is_floating(part):
    return torch.is_tensor(part) and part.is_floating_point()


@check(weight=0.5, needs=[paged_attention_shape])
def paged_attention_inputs(paged_attention, draw):
    """Does not change its inputs."""
    (d_k, d_v), P = widths(draw), int(draw.rng.choice([3, 4, 5]))
    case = paged_case(draw, [P + 1, 0, 2 * P], P, d_k, d_v, rest=-1)
    expect_unchanged(paged_attention, NAMES["paged_attention"], *case)
    nan = with_nan_in_unused_rows(case)
    paged_attention(*nan)
    for name, before, after in zip(
        "KV", nan[1:3], paged_attention.calls[-1].arguments[1:3], strict=True
    ):
        message = "The argument `{name}` was changed in place: NaN in it is gone, but the caller still needs the pages."
        is_kept = torch.equal(torch.isnan(torch.as_tensor(after)), torch.isnan(before))
        expect(is_kept, Message(message, name=f"{name}_pages"))


@check(weight=0.5, needs=[packed_attention_shape])
def packed_attention_inputs(packed_attention, draw):
    """Does not change its inputs."""
    case = packed_case(draw, [4, 0, 3], *widths(draw))
    expect_unchanged(packed_attention, NAMES["packed_attention"], *case)
    expect_lists_unchanged(packed_attention, *case)


@check(weight=0, needs=[paged_attention_heads])
def paged_attention_refuses(paged_attention, draw):
    """Raises when h is not a multiple of h_kv, widths differ, or a length is beyond the table."""
    d_k, d_v = widths(draw)
    q, K_pages, V_pages, table, lengths = paged_case(draw, [5, 3], 3, d_k, d_v, h=4, h_kv=4, more=0)
    fewer = K_pages[:, :, :3], V_pages[:, :, :3]
    sentence = Message("d_k is {d_k} for queries and 1 for keys", d_k=d_k)
    cases = [
        ((q, *fewer, table, lengths), Message("h is 4 and h_kv is 3")),
        ((q, K_pages[..., :1], V_pages, table, lengths), sentence),
        (
            (q, K_pages, V_pages, table, lengths + 3),
            Message("the table has room for 6 tokens, and there are 8"),
        ),
    ]
    expect_all_raise(REFUSED, paged_attention, cases)


@check(weight=0, needs=[packed_attention_heads])
def packed_attention_refuses(packed_attention, draw):
    """Raises when h is not a multiple of h_kv, or the sum of the lengths is not n."""
    Q, K, V, _ = packed_case(draw, [4, 3], *widths(draw), h=4, h_kv=4)
    cases = [((Q, K[:, :3], V[:, :3], [4, 3]), Message("h is 4 and h_kv is 3"))]
    for lengths in ([4, 2], [4, 4]):
        because = Message("n is 7 and the lengths are {lengths}", lengths=str(lengths))
        cases.append(((Q, K, V, lengths), because))
    expect_all_raise(REFUSED, packed_attention, cases)


# shared_pages


def tables_in(result):
    """Return the tables and the number of pages, as lists and numbers; fail if a result is something else."""
    if not isinstance(result, (list, tuple)) or len(result) != 2:
        message = Message("Expected (tables, num_pages), got {found}.", found=describe(result))
        raise Failed(message, explained=True)
    tables, num_pages = result
    if not isinstance(tables, (list, tuple)):
        message = Message(
            "Expected {what} to be a list, got {found}.", what="tables", found=describe(tables)
        )
        raise Failed(message, explained=True)
    what = [Message("the table of prompt {number}", number=number) for number in range(len(tables))]
    read = [numbers_in(table, name) for table, name in zip(tables, what, strict=True)]
    return read, numbers_in([num_pages], "num_pages")[0]


def expect_pages(shared_pages, *cases):
    """Fail unless the tables and the number of pages are right for each list of arguments."""
    expect_lists(shared_pages, cases, pages_of, tables_in)


def tokens(draw, *counts):
    """Return lists of so many tokens: all tokens in all lists are different."""
    order = draw.rng.permutation(1000).tolist()
    return [[order.pop() for _ in range(count)] for count in counts]


@check(weight=0.5)
def shared_pages_kinds(shared_pages, draw):
    """Returns a list of tables, one for each prompt, and a number."""
    first, second = tokens(draw, 5, 3)
    tables, _ = tables_in(shared_pages([first, second], 2))
    message = "Expected a table for each of 2 prompts, got {found}."
    expect(len(tables) == 2, Message(message, found=len(tables)))


def results_of_two_calls(function, prompts, page_size):
    """Return the results of two calls with the same prompts; they are the same even if the first call changes them."""
    copies = [list(prompt) for prompt in prompts]
    first = function(prompts, page_size)
    prompts[:] = copies
    return first, function(prompts, page_size)


@check(weight=0.5, needs=[shared_pages_kinds])
def shared_pages_again(shared_pages, draw):
    """Begins with an empty cache in each call."""
    prompts = tokens(draw, 5, 7)
    first, second = map(tables_in, shared_pages.run_remote(results_of_two_calls, prompts, 2))
    message = "Two calls with the same prompts returned {first}, then {second}. Is something kept from call to call?"
    expect(first == second, Message(message, first=shown(first), second=shown(second)))


@check(weight=2, needs=[shared_pages_again])
def shared_pages_numbers(shared_pages, draw):
    """If no tokens are the same, each prompt gets new pages, numbered in order; the last may be full or not."""
    P, other = int(draw.rng.choice([3, 4])), int(draw.rng.choice([2, 5]))
    cases = [(tokens(draw, 2 * P + 1, P - 1, P + 2), P), (tokens(draw, P, 3 * P, 1, 2 * P), P)]
    cases.append((tokens(draw, other + 1, 1, 3 * other), other))
    expect_pages(shared_pages, *cases)


@check(weight=1, needs=[shared_pages_numbers])
def shared_pages_equal(shared_pages, draw):
    """Equal prompts share all pages if the last one is full."""
    P = int(draw.rng.choice([2, 3, 4]))
    a, b, c = tokens(draw, 3 * P, P, 2)
    expect_pages(shared_pages, ([a, a, a], P), ([b, a, c, b, a], P), ([b, b], P))


@check(weight=3, needs=[shared_pages_equal])
def shared_pages_beginning(shared_pages, draw):
    """Prompts share the full pages of a common beginning, up to the page with the first difference."""
    P = int(draw.rng.choice([3, 4]))
    common, a, b, c, d = tokens(draw, 2 * P, P + 1, 2 * P, 1, P)
    cases = [[common + a, common + b], [common, common + a, c, common[:P], common + b]]
    cases.append(
        [common + a, common[: P + 1] + b]
    )  # the first difference is in the middle of a page
    cases.append([common + a, common[:-1] + c + d])  # it is at the end of one
    cases.append([common + a, c, common + b, common[:P] + c, common + b[:P] + c])
    expect_pages(shared_pages, *[(prompts, P) for prompts in cases], (cases[-1][::-1], P))


@check(weight=1.5, needs=[shared_pages_beginning])
def shared_pages_before(shared_pages, draw):
    """A page with the same tokens is another page if any page before it differs, or its place does."""
    P = int(draw.rng.choice([2, 3, 4]))
    a, b, c, d = tokens(draw, P, P, P, P)
    several = [[a + b, b], [a + b, c + b], [a + b + d, c + b + d], [a + b + d, a + c + d]]
    several += [[a + a + a, a + a], [a + b + d, c + b + d, a + c + d, a + b, b + d]]
    expect_pages(shared_pages, *[(prompts, P) for prompts in several])


@check(weight=1.5, needs=[shared_pages_beginning])
def shared_pages_partial(shared_pages, draw):
    """A page that is not full is not shared, with an equal page or with the beginning of a full one."""
    P = int(draw.rng.choice([3, 4]))
    a, b = tokens(draw, P, P)
    growing = [a + b[:1], a + b, a + b[:-1], a + b, a[:1], a]
    several = [[a + b[:1], a + b[:1]], [a + b[:-1]] * 3, growing, growing[::-1]]
    expect_pages(shared_pages, *[(prompts, P) for prompts in several])


@check(weight=1, needs=[shared_pages_numbers])
def shared_pages_empty(shared_pages, draw):
    """An empty prompt has an empty table, and without prompts there are no tables and no pages."""
    a, b = tokens(draw, 5, 4)
    expect_pages(shared_pages, ([a, [], b], 3), ([[]], 2), ([], 2), ([[], a, []], 5))


@check(weight=1, needs=[shared_pages_beginning])
def shared_pages_tokens(shared_pages, draw):
    """Tokens are compared one by one, in order: other tokens of the same sum, digits or kinds are another page."""
    x, y = draw.rng.permutation([3, 7]).tolist()
    several = [[[x, x, y, y], [x, y, y, y]], [[x, y], [x - 1, y + 1]], [[x, y], [y, x]]]
    several += [[[1, 12], [11, 2], [112, 0], [1, 120]], [[x, x, y, y], [x, y, x, y], [y, x]]]
    expect_pages(shared_pages, *[(prompts, len(prompts[0])) for prompts in several])


@check(weight=1.5, needs=[shared_pages_before, shared_pages_partial])
def shared_pages_many(shared_pages, draw):
    """Works for many prompts of few different tokens, for pages of one token, and for pages longer than all prompts."""
    lengths = draw.rng.permutation(np.resize(np.arange(12), 40))
    prompts = [draw.rng.integers(2, size=length).tolist() for length in lengths]
    long = draw.rng.integers(3, size=draw.long()).tolist()
    cases = [(prompts, 2), (prompts, 1), (prompts, 3), (prompts, 12), (prompts, 13)]
    expect_pages(shared_pages, *cases, ([long, long[:-1], long[:9]], 8))


@check(weight=0.5, needs=[shared_pages_kinds])
def shared_pages_inputs(shared_pages, draw):
    """Does not change the prompts."""
    expect_lists_unchanged(shared_pages, tokens(draw, 5, 4, 2), 2)


# continuous_batching


def requests(draw, count, most=6, last=None):
    """Return so many arrivals, up to `last`, and numbers of steps, up to `most`, which all occur in a long list."""
    last = count if last is None else last
    arrivals = draw.rng.integers(last + 1, size=count).tolist()
    return arrivals, draw.rng.integers(1, most + 1, size=count).tolist()


def steps_in(result):
    return numbers_in(result, Message("the result"))


def expect_ends(continuous_batching, *cases):
    """Fail unless each request ends in the right step, for each list of arguments."""
    expect_lists(continuous_batching, cases, ends_of, steps_in)


@check(weight=0.5)
def continuous_batching_kinds(continuous_batching, draw):
    """Returns a list of steps, one for each request."""
    found = steps_in(continuous_batching([0, 0, 1], [2, 1, 3], 2))
    message = "Expected the steps in which 3 requests end, got {found} numbers."
    expect(len(found) == 3, Message(message, found=len(found)))


@check(weight=1.5, needs=[continuous_batching_kinds])
def continuous_batching_free(continuous_batching, draw):
    """With a slot for each request, no request waits: it begins in the step before which it arrives."""
    arrivals, steps = draw.rng.permutation(6).tolist(), draw.rng.integers(1, 7, size=6).tolist()
    cases = [
        ([0] * 4, [3, 1, 4, 2], 4),
        ([2], [3], 1),
        ([4], [1], 1),
        (arrivals, steps, 6),
        (arrivals, steps, 9),
    ]
    expect_ends(continuous_batching, *cases)


@check(weight=3, needs=[continuous_batching_free])
def continuous_batching_slots(continuous_batching, draw):
    """A request that waits takes a slot in the step after another request ended there."""
    _, steps = requests(draw, 7)
    cases = [([0, 0, 1, 2, 3, 4], [6, 8, 5, 2, 4, 1], 2), ([0] * 5, [4, 1, 2, 3, 1], 2)]
    cases += [([0] * 7, steps, 3), ([0] * 7, steps[::-1], 2), ([0] * 4, [1, 2, 1, 3], 1)]
    expect_ends(continuous_batching, *cases, ([0] * 6, [2] * 6, 2))


@check(weight=2, needs=[continuous_batching_slots])
def continuous_batching_arrivals(continuous_batching, draw):
    """No request begins before it arrives, and a server may have nothing to do for a while."""
    gap = int(draw.rng.integers(20, 40))
    cases = [([0, 1, 2, 5, 9], [3, 4, 1, 1, 2], 2), ([3, gap, gap + 1], [2, 3, 1], 1)]
    cases.append(([1, 1, 2, gap, gap, gap + 1], [2, 5, 4, 3, 1, 2], 2))
    cases += [([0, 2, 4, 6], [2, 2, 2, 2], 1), ([2, 10, 20, 30, 41], [3, 2, 1, 4, 2], 1)]
    expect_ends(continuous_batching, *cases)


@check(weight=2, needs=[continuous_batching_slots])
def continuous_batching_order(continuous_batching, draw):
    """Slots are taken in order of arrival, then of number, whatever order the list is in."""
    cases = [([4, 0, 1, 0, 3], [1, 3, 2, 4, 2], 1), ([5, 4, 3, 2, 1, 0], [2, 4, 3, 1, 5, 6], 2)]
    cases.append(([2, 0, 2, 1, 2], [4, 5, 1, 3, 2], 1))
    cases.append(([6, 2, 0, 2], [1, 1, 2, 3], 1))
    expect_ends(continuous_batching, *cases)


@check(weight=1.5, needs=[continuous_batching_arrivals, continuous_batching_order])
def continuous_batching_many(continuous_batching, draw):
    """Works for hundreds of requests, and for requests of hundreds of steps."""
    cases = [(*requests(draw, 12, last=8), slots) for slots in (1, 2, 3, 5)]
    cases.append((*requests(draw, draw.long(), last=400), 3))
    cases.append((*requests(draw, 30, most=draw.long(), last=900), 4))
    cases.append(([0] * 12, [draw.long() for _ in range(12)], 1))  # the last ends after 6,000 steps
    expect_ends(continuous_batching, *cases)


@check(weight=0.5, needs=[continuous_batching_free])
def continuous_batching_none(continuous_batching, draw):
    """Without requests, the result is an empty list."""
    expect_ends(continuous_batching, ([], [], 1), ([], [], 3))


@check(weight=0.5, needs=[continuous_batching_kinds])
def continuous_batching_inputs(continuous_batching, draw):
    """Does not change the lists that it gets."""
    expect_lists_unchanged(continuous_batching, [2, 0, 1, 0], [3, 1, 2, 4], 2)


# accept


def distribution(draw, vocab):
    """Return whole numbers above 0 that sum to 64, or to 2048 for a large vocabulary."""
    parts = 64 if vocab < 32 else 2048
    return 1 + draw.rng.multinomial(parts - vocab, draw.rng.dirichlet(np.full(vocab, 0.7)))


def target_and_draft(draw, vocab):
    """Return parts of the target and of the draft: for some token the target has at most two thirds of the draft's."""
    while True:
        p, q = distribution(draw, vocab), distribution(draw, vocab)
        if (3 * p <= 2 * q).any():
            return p, q


def accept_case(draw, vocab, k, refused=(), dtype=torch.float64):
    """Return the arguments of `accept` for a draft of k tokens, of which some are refused: these places.

    u and v are far from where the result changes.
    """
    rows = [target_and_draft(draw, vocab) for _ in range(k)]
    p = np.array([row for row, _ in rows] + [distribution(draw, vocab)])
    p, q = p / p[0].sum(), np.array([row for _, row in rows]).reshape(k, vocab) / p[0].sum()
    draft, u = [], []
    for i in range(k):
        fits = np.flatnonzero(3 * p[i] <= 2 * q[i]) if i in refused else np.arange(vocab)
        draft.append(int(draw.rng.choice(fits)))
        ratio = min(1.0, p[i, draft[i]] / q[i, draft[i]])
        low, high = (ratio + 0.1, 0.99) if i in refused else (0.02 * ratio, 0.85 * ratio)
        u.append(float(draw.rng.uniform(low, high)))
    end = min(refused, default=k)
    v = v_of_random_token(draw, p[k] if end == k else np.maximum(p[end] - q[end], 0))
    p, q, u = (torch.tensor(part, dtype=dtype) for part in (p, q, u))
    return torch.tensor(draft, dtype=torch.int64), p, q, u, v


def v_of_random_token(draw, weights):
    """Return v in the middle of what belongs to a token, which is drawn at random."""
    edges = np.concatenate([[0.0], np.cumsum(weights / weights.sum())])
    token = int(draw.rng.choice(np.flatnonzero(weights)))
    return float((edges[token] + edges[token + 1]) / 2)


def tokens_in(result):
    return numbers_in(result, Message("the result"))


def expect_rounds(accept, *cases):
    """Fail unless the tokens of the round are right for each list of arguments."""
    wanted = [round_of(*case) for case in cases]
    results, failure = results_of(accept, cases, tokens_in)
    for case, expected, got in zip(cases, wanted, results, strict=False):
        if got != expected:
            raise Failed(round_message(*case, expected, got), passed_parts(got, expected))
    if failure:
        raise failure


def round_message(draft, p, q, u, v, wanted, found):
    """Return the message on a round with wrong tokens: it names the numbers that decide about them."""
    return Message(
        "Expected {wanted}, got {found}. The draft is {draft}, p / q of its tokens {ratios}, u is {u}, and v is {v}.",
        wanted=shown(wanted),
        found=shown(found),
        v=shown(v),
        **round_values(draft, p, q, u),
    )


def round_values(draft, p, q, u):
    """Return what decides which tokens of a draft are kept, as texts for a message."""
    at = torch.arange(len(draft))
    ratios = p[at, draft] / q[at, draft]
    return {"draft": shown(draft), "ratios": shown(ratios), "u": shown(u)}


def passed_parts(found, wanted):
    """Return what passed about the tokens of a round."""
    passed = []
    if len(found) == len(wanted):
        passed.append(Message("the number of tokens, {count}, is right", count=len(found)))
    if len(wanted) > 1 and found[: len(wanted) - 1] == wanted[:-1]:
        passed.append(Message("the tokens that are kept are right"))
    return passed


@check(weight=0.5)
def accept_kinds(accept, draw):
    """Returns a list of 1 to k + 1 tokens."""
    vocab, k = 5, 3
    cases = [accept_case(draw, vocab, k), accept_case(draw, vocab, k, refused=[1])]
    accept.ahead(cases)
    for case in cases:
        found = tokens_in(accept(*case))
        message = "Expected 1 to {most} tokens, got {found}."
        expect(1 <= len(found) <= k + 1, Message(message, most=k + 1, found=shown(found)))


@check(weight=2, needs=[accept_kinds])
def accept_kept(accept, draw):
    """If all tokens are kept, the result is the draft, and one token more from p[k]."""
    cases = [accept_case(draw, vocab, k) for vocab, k in 5 * [(6, 3), (4, 1), (9, 5), (3, 4)]]
    # By chance, all tokens of these could also be kept with another row of q.
    p = of_sixteenths((4, 8, 4), (4, 4, 8), (8, 4, 4))
    q = of_sixteenths((4, 8, 4), (8, 4, 4))
    two = torch.tensor([0, 1]), p, q, torch.tensor([0.5, 0.75]).double(), 0.3
    expect_rounds(accept, *cases, two)


@check(weight=2, needs=[accept_kinds])
def accept_refused(accept, draw):
    """Ends with the first token that is not kept: one token takes its place, and none follows."""
    cases = [
        accept_case(draw, vocab, k, at)
        for vocab, k, at in 6 * [(6, 4, [2]), (5, 3, [0]), (6, 5, [1, 3, 4]), (7, 5, [4])]
    ]
    kept = [round_of(*case)[:-1] for case in cases]
    results, failure = results_of(accept, cases, tokens_in)
    for (draft, p, q, u, _), expected, got in zip(cases, kept, results, strict=False):
        if len(got) != len(expected) + 1 or got[:-1] != expected:
            message = (
                "Expected {kept} and one token more, got {found}. The draft is {draft}, p / q of its tokens {ratios}, and u "
                "is {u}."
            )
            values = round_values(draft, p, q, u)
            text = Message(message, kept=shown(expected), found=shown(got), **values)
            raise Failed(text, passed_parts(got, [*expected, 0]))
    if failure:
        raise failure


PAIRS = [((2, 7, 2, 5), (8, 4, 4, 0)), ((5, 5, 1, 5), (4, 8, 2, 2))]
"""Sixteenths of a target and of a draft: p / q is a multiple of 1/8 or above 1, and so is each probability after a
refusal."""
EIGHTHS = [(i + 0.5) / 8 for i in range(8)]


@check(weight=3, needs=[accept_refused])
def accept_distribution(accept, draw):
    """Over all drafts, u and v, the first token has the target's distribution, whatever the draft's is."""
    for pair in PAIRS:
        target, drafter = (torch.tensor(parts) / 16.0 for parts in pair)
        p, q = torch.stack([target, torch.full((4,), 0.25)]).double(), drafter[None].double()
        drafts = [token for token in range(4) if drafter[token]]
        tries = [(token, u, v) for token in drafts for u in EIGHTHS for v in EIGHTHS]
        cases = [
            (torch.tensor([token]), p, q, torch.tensor([u]).double(), v) for token, u, v in tries
        ]
        accept.ahead(cases)
        shares = np.zeros(4)
        for case in cases:
            first, *_ = tokens_in(accept(*case))
            message = "Expected tokens from 0 to 3, got {found}. Do the probabilities that you draw from sum to 1?"
            expect(0 <= first < 4, Message(message, found=first))
            shares[first] += float(drafter[case[0]]) / len(EIGHTHS) ** 2
        what = Message(
            "the shares of the first token for p = {p} and q = {q}",
            p=shown(target),
            q=shown(drafter),
        )
        expect_close(shares, target.double().numpy(), what=what)


@check(weight=1.5, needs=[accept_kept, accept_distribution])
def accept_places(accept, draw):
    """Each place of the draft has its own p and q, in float64 and in float32."""
    cases = [
        accept_case(draw, vocab, k, at)
        for vocab, k, at in 3 * [(6, 4, [2]), (5, 3, [1]), (7, 5, [2, 4]), (4, 4, [3])]
    ]
    cases += [accept_case(draw, 6, 4, at, dtype=torch.float32) for at in ([0], [2], [])]
    expect_rounds(accept, *cases)


def of_sixteenths(*rows, dtype=torch.float64):
    """Return distributions that are given in sixteenths."""
    return torch.tensor(rows, dtype=dtype) / 16


def round_of_one(token, p, q, u, v, dtype=torch.float64):
    """Return the arguments of `accept` for a single drafted token; p and q in sixteenths, the last p the same for all."""
    p, q = of_sixteenths(p, [4, 0, 4, 8, 0][: len(p)], dtype=dtype), of_sixteenths(q, dtype=dtype)
    return torch.tensor([token]), p, q, torch.tensor([u], dtype=dtype), v


REFUSED_AT_0 = (0, 4, 4, 4, 4), (8, 2, 4, 2, 0)
"""Sixteenths of p and of q: token 0 is refused for all u, and the residual is (0, 2, 0, 2, 4) eighths."""
LAST_REFUSED = (4, 4, 6, 2, 0), (2, 4, 2, 8, 0)
"""Token 3 is refused for u above 1/4, and the residual is (2, 0, 4, 0, 0) sixths."""


@check(weight=1.5, needs=[accept_distribution])
def accept_sums(accept, draw):
    """Draws the smallest token whose cumulative sum is greater than v: not equal to it, and not 0 if v is 0."""
    last = of_sixteenths((0, 4, 4, 0, 8))
    nothing = torch.empty(0, dtype=torch.int64), last, last[:0], last[:0, 0]
    values = (0.0, 0.25, 0.5, 0.2, 0.75, 0.6)
    cases = [round_of_one(0, *REFUSED_AT_0, 0.5, v) for v in values]
    kept = [round_of_one(1, *REFUSED_AT_0, 0.5, v) for v in values]
    expect_rounds(accept, *cases, *kept, *[(*nothing, v) for v in values])


@check(weight=1, needs=[accept_sums])
def accept_rounding(accept, draw):
    """If no cumulative sum is greater than a v of nearly 1, draws the last token with a probability above 0."""
    cases = []
    for dtype in (torch.float32, torch.float64):
        for v in (1 - 2.0**-53, 1 - 1e-9):
            cases += [
                round_of_one(0, *REFUSED_AT_0, 0.5, v, dtype),
                round_of_one(3, *LAST_REFUSED, 0.9, v, dtype),
            ]
            cases.append(round_of_one(1, *REFUSED_AT_0, 0.5, v, dtype))
    even, drafter = [(1, 2, 2, 2, 2, 2, 2, 3)] * 3, [(7, 1, 1, 1, 1, 1, 1, 3)] * 2
    for dtype in (torch.float32, torch.float64):  # six times 1/6 is less than 1 in float64
        p, q = of_sixteenths(*even, dtype=dtype), of_sixteenths(*drafter, dtype=dtype)
        cases.append(
            (torch.tensor([3, 0]), p, q, torch.tensor([0.5, 0.9], dtype=dtype), 1 - 2.0**-53)
        )
    draft, p, q, u, v = round_of_one(1, *REFUSED_AT_0, 0.5, 1 - 1e-9)
    expect_rounds(accept, *cases, (draft, p * (1 - 1e-7), q, u, v))


@check(weight=1, needs=[accept_distribution])
def accept_limits(accept, draw):
    """u = 0 keeps no token of probability 0, and each other one; p = q keeps a token for all u."""
    p, q = (0, 8, 7, 1), (4, 2, 2, 8)
    cases = [
        round_of_one(0, p, q, 0.0, 0.3),
        round_of_one(3, p, q, 0.0, 0.3),
        round_of_one(3, p, q, 0.1, 0.3),
    ]
    alike = (3, 5, 6, 2)
    cases += [round_of_one(token, alike, alike, u, 0.3) for token, u in [(1, 0.999), (2, 0.0)]]
    cases.append(round_of_one(1, p, q, 0.999, 0.3))
    expect_rounds(accept, *cases)


@check(weight=0.5, needs=[accept_kept])
def accept_no_draft(accept, draw):
    """Without a draft, k = 0, the round is one token from p[0]."""
    expect_rounds(accept, *[accept_case(draw, vocab, 0) for vocab in (4, 6, 3)])


@check(weight=1, needs=[accept_places])
def accept_sizes(accept, draw):
    """Works for hundreds of tokens in the draft or in the vocabulary, for few, and for k = vocab."""
    long = draw.long()
    cases = [accept_case(draw, 3, long), accept_case(draw, 4, long, refused=[long - 2])]
    cases += [
        accept_case(draw, long, 2),
        accept_case(draw, long, 2, refused=[1]),
        accept_case(draw, 2, 1, refused=[0]),
    ]
    cases += [
        accept_case(draw, 4, 4),
        accept_case(draw, 4, 4, refused=[1]),
        accept_case(draw, 4, 3, refused=[2]),
    ]
    one = torch.ones(3, 1, dtype=torch.float64)
    cases.append((torch.tensor([0, 0]), one, one[:2], torch.tensor([0.5, 0.1]).double(), 0.7))
    expect_rounds(accept, *cases)


@check(weight=0.5, needs=[accept_kinds])
def accept_inputs(accept, draw):
    """Does not change its inputs."""
    for at in ([1], []):
        expect_unchanged(accept, NAMES["accept"], *accept_case(draw, 6, 3, at))


# tokens_expected


def number_in(result):
    """Return a result, any kind of number, as a float; fail and name what else it is."""
    plain = as_plain(float(result) if isinstance(result, Fraction) else result)
    if plain is None or plain.ndim:
        raise Failed(
            Message("Expected one number, got {found}.", found=describe(result)), explained=True
        )
    if not np.isfinite(plain):
        message = Message("Expected a finite number, got {found}.", found=str(float(plain)))
        raise Failed(message, explained=True)
    return float(plain)


def expect_means(tokens_expected, *cases):
    """Fail unless the mean is right for each alpha and k."""
    tokens_expected.ahead(cases)
    for alpha, k in cases:
        found, wanted = number_in(tokens_expected(alpha, k)), mean_tokens(alpha, k)
        if abs(found - wanted) > 1e-6 * wanted:
            message = "For alpha = {alpha} and k = {k}, expected {wanted}, got {found}."
            values = {"alpha": f"{alpha:.6g}", "wanted": f"{wanted:.6g}", "found": f"{found:.6g}"}
            raise Failed(Message(message, k=k, **values))


@check(weight=1)
def tokens_expected_one(tokens_expected, draw):
    """With one drafted token, returns 1 + alpha."""
    expect_means(
        tokens_expected, *[(round(alpha, 3), 1) for alpha in draw.rng.uniform(0.2, 0.9, 3)]
    )


@check(weight=2, needs=[tokens_expected_one])
def tokens_expected_values(tokens_expected, draw):
    """Returns 1 + alpha + ... + alpha^k for longer drafts."""
    cases = zip(draw.rng.uniform(0.3, 0.9, 5), draw.rng.permutation([2, 3, 4, 5, 8]), strict=True)
    expect_means(tokens_expected, *[(round(alpha, 3), int(k)) for alpha, k in cases])


@check(weight=1, needs=[tokens_expected_one])
def tokens_expected_limits(tokens_expected, draw):
    """Returns k + 1 if alpha is exactly 1, and 1 if alpha is 0."""
    k = int(draw.rng.integers(3, 9))
    expect_means(tokens_expected, (1.0, k), (0.0, k), (1, k + 1), (0, 2))


@check(weight=0.5)
def tokens_expected_no_draft(tokens_expected, draw):
    """Returns 1 without a draft, k = 0."""
    expect_means(tokens_expected, (0.7, 0), (0.3, 0))


@check(weight=0.5, needs=[tokens_expected_values])
def tokens_expected_long(tokens_expected, draw):
    """Works for hundreds of drafted tokens, and for alpha near 1."""
    expect_means(
        tokens_expected,
        (0.999, draw.long()),
        (0.5, draw.long()),
        (0.99, 40),
        (0.9999, 3),
        (0.99999, 40),
    )

"""Checks of exercise 10. You may read them: each is one sentence about a function or a class, with inputs on which a
wrong function or class fails.

Results are compared with `specifications`, which computes all scores at once and multiplies with einsum. It is in
checking.zip together with the runtime, `checking`, so that no one sees an answer by accident. The tolerance is `RTOL`
in `checking/expect.py`, which explains how it was chosen. The course's tests measure how far right answers stay below
it and known mistakes above it. `checking/memory.py` counts how much memory a function holds at once, and `operations`
below how much it computes: both are independent of the clock and the machine.
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

import math

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
    expect_held,
    expect_raises,
    expect_tensor,
    expect_tensor_dtypes,
    expect_tuple,
    expect_unchanged,
    noncontiguous,
)
from checking.modules import run_remote
from checking.peak_memory import peak_memory
from specifications import SPECIFICATIONS, grouped, of_keys, together

torch.set_num_threads(1)  # everything here is small

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 10, By hand",
        "chunked_attention": "chapter 10, Chunks and the online softmax",
        "local_attention": "chapter 10, A local window",
        "linear_attention": "chapter 10, Linear attention",
        "causal_linear_attention": "chapter 10, Linear attention",
        "grouped_query_attention": "chapter 10, Fewer key heads",
        "KVCache": "chapter 10, The cache",
        "merge": "chapter 10, Chunks and the online softmax",
    },
)
check, check_each = suite.check, suite.check_each
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset

REFUSED = (ValueError, RuntimeError, IndexError)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
NAMES = ("Q", "K", "V")
SAMPLE = 32  # queries
CHUNK = 12  # keys: float64 inside, with a few copies of a chunk's scores, is still little memory
PER_PAIR = 0.9  # bytes for each pair of tokens: a mask of booleans has one, scores have two or four
LONGER = 4  # times as many tokens
# For these, what is in proportion to n is 4 times as much, and to n * n 16 times. Chunks of sqrt(n) take 8 times.
MOST_TIMES_HELD = 6
MOST_TIMES_COMPUTED = 8
ATTENTIONS = ("chunked_attention", "local_attention", "linear_attention", "causal_linear_attention")


# by_hand


@check()
def by_hand_online(by_hand, draw):
    """Returns the sum and the weighted sum after each chunk, and the result."""
    s, v = np.log([2.0, 1, 8, 5]), np.array([10.0, 4, 2, 4])
    expected = []
    for seen in (2, 4):
        E = np.exp(s[:seen] - s[:seen].max())
        expected += [E.sum(), E @ v[:seen]]
    expect_by_hand(by_hand(), [*expected, np.exp(s) @ v / np.exp(s).sum()])


# Inputs


def sizes(draw, count=5):
    """Return `count` small sizes, all different."""
    return [int(size) for size in draw.rng.permutation([2, 3, 4, 5, 7])[:count]]


def inputs(draw, lead, n_q, n_k, d_k, d_v):
    """Return Q, K and V."""
    return (
        draw.tensor(*lead, n_q, d_k),
        draw.tensor(*lead, n_k, d_k),
        draw.tensor(*lead, n_k, d_v),
    )


# What is checked for all four functions


def alike(function):
    """Tell whether a function takes as many queries as keys."""
    return function.name in ("local_attention", "causal_linear_attention")


def last(function, draw, n):
    """Return the arguments after Q, K and V: the size of a chunk, or of a window."""
    if function.name == "chunked_attention":
        return (int(draw.rng.integers(2, 4)),)
    return (int(draw.rng.integers(1, 3)),) if function.name == "local_attention" else ()


def expect_attends(function, *arguments):
    expect_close(function(*arguments), SPECIFICATIONS[function.name](*arguments))


def expect_all(function, cases):
    """Call `expect_attends` for each list of arguments; a function in another process gets all in one message."""
    function.ahead(cases)
    for case in cases:
        expect_attends(function, *case)


@check_each(*ATTENTIONS, weight=1)
def shape(function, draw):
    """Returns a tensor of shape (..., n_q, d_v)."""
    b, n_q, n_k, d_k, d_v = sizes(draw)
    n_k = n_q if alike(function) else n_k
    expect_tensor(
        function(*inputs(draw, (b,), n_q, n_k, d_k, d_v), *last(function, draw, n_k)), (b, n_q, d_v)
    )


@check_each("linear_attention", "causal_linear_attention", weight=3, needs=["shape"])
def values(function, draw):
    """Weights are products of features, elu + 1, divided by their sum over the keys that the query may attend to."""
    b, n_q, n_k, d_k, d_v = sizes(draw)
    n_k = n_q if alike(function) else n_k
    Q, K, V = inputs(draw, (b,), n_q, n_k, d_k, d_v)
    others = inputs(
        draw, (b,), n_q, n_k, d_k, d_v
    )  # of the same sizes: nothing may be kept from the first call
    expect_all(function, [(Q, K, V), others, tuple(map(noncontiguous, (Q, K, V)))])


@check(weight=3, needs=["chunked_attention_shape"])
def chunked_attention_values(chunked_attention, draw):
    """Matches full attention for chunk sizes that divide the number of keys, do not divide it, or exceed it."""
    b, n_q, _, d_k, d_v = sizes(draw)
    n_k = 12
    Q, K, V = inputs(draw, (b,), n_q, n_k, d_k, d_v)
    cases = [(Q, K, V, chunk_size) for chunk_size in (3, 5, n_k, 1, n_k - 1, n_k + 4)]
    others = inputs(draw, (b,), n_q, n_k, d_k, d_v)
    expect_all(chunked_attention, [*cases, (*others, 3), (*map(noncontiguous, (Q, K, V)), 5)])


@check(weight=3, needs=["local_attention_shape"])
def local_attention_values(local_attention, draw):
    """Row i attends to the keys j with |i - j| at most `window`, from 0 to beyond n."""
    b, _, _, d_k, d_v = sizes(draw)
    n = 11
    Q, K, V = inputs(draw, (b,), n, n, d_k, d_v)
    cases = [(Q, K, V, window) for window in (4, 0, 1, 2, n - 2, n - 1, n, n + 5)]
    others = inputs(draw, (b,), n, n, d_k, d_v)
    expect_all(local_attention, [*cases, (*others, 4), (*map(noncontiguous, (Q, K, V)), 3)])


@check(weight=0.5, needs=[local_attention_values])
def local_attention_wide(local_attention, draw):
    """Works for windows as wide as a typical block, or wider, in a longer text: 17 to 140 of 150 tokens."""
    Q, K, V = inputs(draw, (1,), 150, 150, 3, 2)
    expect_all(
        local_attention, [(Q, K, V, window) for window in (int(draw.rng.integers(17, 31)), 70, 140)]
    )


@check(weight=3, needs=[chunked_attention_values])
def chunked_attention_causal(chunked_attention, draw):
    """With `causal=True`, query i sees key j only where j <= i + n_k - n_q, no matter which chunk the key is in."""
    b, _, _, d_k, d_v = sizes(draw)
    cases = []
    for n_q, n_k in [(7, 7), (4, 9)]:
        arguments = inputs(draw, (b,), n_q, n_k, d_k, d_v)
        cases += [(*arguments, chunk_size, True) for chunk_size in (2, 3, n_k, n_k + 2)]
    expect_all(chunked_attention, [*cases, cases[-1][:4]])  # and without it, no mask is left


@check(weight=1, needs=[chunked_attention_causal])
def chunked_attention_nothing_to_see(chunked_attention, draw):
    """Returns 0, never NaN, for a query that sees no keys because there are more queries than keys."""
    b, _, _, d_k, d_v = sizes(draw)
    n_q, n_k = 9, 4
    chunks = (1, 2, 3, n_k + 1)
    expect_all(
        chunked_attention,
        [(*inputs(draw, (b,), n_q, n_k, d_k, d_v), chunk_size, True) for chunk_size in chunks],
    )


def far_from_0(draw, b, n, d_v):
    """Return Q, K and V whose scores are close together, a million below 0 in some rows and above it in the others.

    They are whole numbers, which float32 holds exactly.
    """
    Q, K = torch.zeros(b, n, 4, dtype=torch.float64), torch.zeros(b, n, 4, dtype=torch.float64)
    Q[..., 0], K[..., 0] = 2 * in_turn(n), -1e6 - torch.from_numpy(draw.rng.permutation(n))
    return Q, K, draw.tensor(b, n, d_v)


def in_turn(n):
    """Return n signs, 1 and -1 in turn: in the first row, scores stay as they are."""
    return 1 - 2 * (torch.arange(n) % 2)


@check_each("chunked_attention", "local_attention", weight=1, needs=["values"])
def large_scores(function, draw):
    """Handles scores in the thousands, of either sign, that rise or fall along the keys, or all a million below 0."""
    b, n, _, d_k, d_v = sizes(draw)
    n += 6
    Q, K, V = inputs(draw, (b,), n, n, d_k, d_v)
    Q = Q.abs() * in_turn(n)[:, None]  # some rows far above 0, the others far below
    ramp = torch.arange(11.0, n + 11, dtype=Q.dtype)[:, None].expand_as(
        K
    )  # exp of these scores is 0 or inf
    cases = [(Q, keys, V) for keys in (100 * K, 100 * ramp, 100 * ramp.flip(0))]
    extra = last(function, draw, n)
    expect_all(function, [(*case, *extra) for case in (*cases, far_from_0(draw, b, n, d_v))])


@check(weight=1, needs=[chunked_attention_causal, "chunked_attention_large_scores"])
def chunked_attention_large_causal(chunked_attention, draw):
    """Handles such scores under the causal mask, no matter in which order the chunks are read."""
    b, n, _, _, d_v = sizes(draw)
    Q, K, V = far_from_0(draw, b, n + 6, d_v)
    expect_all(chunked_attention, [(Q, scale * K, V, 3, True) for scale in (1, 1e-2)])


@check(weight=0.5, needs=[chunked_attention_values])
def chunked_attention_half(chunked_attention, draw):
    """In float16, a product q k may exceed 65,504 if the score, divided by sqrt(d_k), does not."""
    d_k, n_q, n_k, chunk_size = 64, 3, 5, 2
    Q = torch.full((n_q, d_k), 40, dtype=torch.float16)
    V = draw.tensor(n_k, 2, dtype=torch.float16)
    chosen = int(draw.rng.integers(chunk_size)), int(draw.rng.integers(chunk_size, n_k))
    for largest, second in (chosen, chosen[::-1]):  # in the first chunk, then in a later one
        K = torch.zeros(n_k, d_k, dtype=torch.float16)
        K[largest] = 40
        K[second] = 20
        result = chunked_attention(Q, K, V, chunk_size)
        expect_close(result, V[largest].double().expand(n_q, 2), rtol=1e-2)


@check_each(*ATTENTIONS, weight=1, needs=["values"])
def leading_axes(function, draw):
    """Keeps any number of leading dimensions: none, one, two, three."""
    n_q, n_k, d_k, d_v, _ = sizes(draw)
    n_k = n_q if alike(function) else n_k
    leads = [(), (3, 2), (2, 1, 3)]
    expect_all(
        function,
        [(*inputs(draw, lead, n_q, n_k, d_k, d_v), *last(function, draw, n_k)) for lead in leads],
    )


@check_each(*ATTENTIONS, weight=1, needs=["values"])
def sizes_alike(function, draw):
    """Works when all dimensions are equal, and for long sequences."""
    size = int(draw.rng.integers(3, 6))
    cases = [
        (*inputs(draw, (size,), size, size, size, size), *last(function, draw, size)),
        (*[draw.tensor(size, size, size)] * 3, *last(function, draw, size)),
    ]
    n = draw.long()
    for n_q, n_k in [(n, n)] if alike(function) else [(n, 3), (2, n)]:
        extra = (100,) if function.name == "chunked_attention" else last(function, draw, n)
        cases.append((*inputs(draw, (1,), n_q, n_k, 2, 3), *extra))
    expect_all(function, cases)


@check_each(*ATTENTIONS, weight=1, needs=["values"])
def sizes_of_one(function, draw):
    """Dimensions of size 1 are kept: one sequence, one query, one key, one column."""
    cases = []
    for axis in range(5):
        b, n_q, n_k, d_k, d_v = (1 if i == axis else size for i, size in enumerate(sizes(draw)))
        n_k = n_q if alike(function) else n_k
        cases.append((*inputs(draw, (b,), n_q, n_k, d_k, d_v), *last(function, draw, n_k)))
    expect_all(function, cases)


def long_inputs(draw, n):
    """Return Q, K and V of n tokens, one sequence in float32."""
    return [tensor.float() for tensor in inputs(draw, (1, 1), n, n, 4, 3)]


def expect_small(function, draw, *more):
    """Fail where a function holds n x n of anything, even a small part of it, or where its result is wrong."""
    expect_slow_growth(function, draw, expect_little_held(function, draw, *more), *more)


def expect_little_held(function, draw, *more, per_pair=PER_PAIR):
    """Fail where a function holds `per_pair` bytes for each pair of n tokens, or its result is wrong; return n."""
    # A wrong result is not caused by holding too much: a small call finds it before anything is counted.
    expect_attends(
        function, *inputs(draw, (2, 1), 9, 9, 4, 3), *[min(number, 2) for number in more]
    )
    n = int(draw.rng.integers(680, 720))
    arguments = long_inputs(draw, n)
    result = expect_held(function, int(per_pair * n * n), *arguments, *more)
    expect_rows(function, draw, result, arguments, more)
    return n


def expect_slow_growth(function, draw, n, *more):
    """Fail where a function holds more than MOST_TIMES_HELD as much for LONGER times n tokens as for n."""
    times, sizes_of = growth(function, draw, n, peak_memory, MOST_TIMES_HELD, *more)
    message = (
        "For {long} tokens, {function} held {times} times as much at once as for {n}. In proportion to n, it would be "
        "{longer} times as much."
    )
    expect(
        times <= MOST_TIMES_HELD,
        Message(message, function=function.name, times=f"{times:.1f}", **sizes_of),
    )


def growth(function, draw, n, measure, most, *more):
    """Return how many times as much `measure` finds for LONGER times n tokens as for n, and sizes for a message.

    `measure` is called with the function and arguments, where the function is. It returns a result, which is compared
    here, how much it has found, and possibly the shape and dtype of the largest tensor. `most` times as much is
    accepted.
    """
    amounts, shapes = [], []

    def measured(*copies):
        result, amount, *largest = run_remote(measure, function.function, copies)
        if type(amount) is not int or amount < 0:
            raise TypeError("it could not be measured")
        amounts.append(max(amount, 1))
        shapes.append(list(largest[0]) if largest else [])
        # The list is what this function is compared by with the listed answers. Two did the same if neither grows too
        # much, or if their largest tensors look and grow the same: how many parts there are does not matter. Without a
        # tensor, both have to find about as much.
        if amounts[-1] <= most * amounts[0]:
            return result, [0]
        if not largest:
            return result, [1, round(math.log(amounts[-1] / (LONGER * n) ** 2, 8))]
        return result, [1, shapes[-1].count(LONGER * n), grown_axes(*shapes), largest[1]]

    for tokens in (n, LONGER * n):
        arguments = long_inputs(draw, tokens)
        call = function.call((*arguments, *more), measured, "memory")
        result, _ = function.result(call, function.name)
        expect_rows(function, draw, result, arguments, more)
    return amounts[1] / amounts[0], {"n": str(n), "long": str(LONGER * n), "longer": str(LONGER)}


def grown_axes(short, long):
    """Return how many sizes of a shape are larger in another one; -1 if these have different numbers of axes."""
    if len(short) != len(long):
        return -1
    return sum(before < after for before, after in zip(short, long, strict=True))


def expect_rows(function, draw, result, arguments, more):
    """Fail unless the last rows of a long result are right, and some others that no one can know beforehand.

    All queries would take long.
    """
    n = arguments[0].shape[-2]
    expect_tensor(result, (1, 1, n, arguments[2].shape[-1]))
    exact = [tensor.double() for tensor in arguments]
    for first in (n - SAMPLE, int(draw.rng.integers(n - SAMPLE))):
        rows = slice(first, first + SAMPLE)
        expect_close(result[:, :, rows], rows_of(function.name, exact, more, first))


def rows_of(name, inputs, more, first):
    """Return the results of SAMPLE queries from `first` on, from the tokens on which these depend."""
    begin, end, keys = first, first + SAMPLE, slice(None)
    if name == "local_attention":
        begin = max(first - max(more), 0)
        end += max(more)
        keys = slice(begin, end)
    elif name == "causal_linear_attention" or any(option is True for option in more):  # causal
        keys = slice(end)
    Q, K, V = inputs
    result = SPECIFICATIONS[name](Q[:, :, begin:end], K[:, :, keys], V[:, :, keys], *more)
    return result[:, :, first - begin : first - begin + SAMPLE]


@check(weight=6, needs=[chunked_attention_values], measured=True)
def chunked_attention_memory(chunked_attention, draw):
    """Never holds n_q x n_k scores or weights: long inputs with small chunks need little memory."""
    # Without a mask, larger chunks show it, and there are half as many of them.
    n = expect_little_held(chunked_attention, draw, 2 * CHUNK, per_pair=2 * PER_PAIR)
    # From a shorter text on, as right answers take time in proportion to n * n; then small chunks show what grows.
    expect_slow_growth(chunked_attention, draw, n // LONGER, CHUNK)


@check(weight=2, needs=[chunked_attention_causal, chunked_attention_memory], measured=True)
def chunked_attention_memory_causal(chunked_attention, draw):
    """In the causal case, does not store a mask of all pairs either."""
    n = expect_little_held(chunked_attention, draw, CHUNK, True)
    expect_slow_growth(chunked_attention, draw, n // LONGER, CHUNK, True)


@check(weight=6, needs=[local_attention_values], measured=True)
def local_attention_memory(local_attention, draw):
    """Never holds n x n scores, weights, indices or a mask: long inputs with a small window need little memory."""
    expect_small(local_attention, draw, 3)


@check_each(
    "linear_attention", "causal_linear_attention", weight=4, needs=["values"], measured=True
)
def memory(function, draw):
    """Never holds n x n weights: memory grows in proportion to n."""
    expect_small(function, draw)


def operations(function, *arguments):
    """Call a function; return its result and how many numbers torch computes, no matter in how many steps.

    A matrix product or convolution counts one for each product of two numbers, pooling one for each number in a
    window, and any other operation the size of its largest input or result. Views and copies are free: a loop may
    collect its rows in any way.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    products = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
    free = {"clone", "copy_", "_to_copy", "_unsafe_view", "cat", "stack", "repeat", "flip", "roll"}
    free |= {
        "constant_pad_nd",
        "index",
        "index_select",
        "gather",
        "select_scatter",
        "slice_scatter",
    }
    free |= {"index_put", "index_put_", "index_copy", "index_copy_", "scatter", "scatter_"}
    into_a_part = {"index_add_", "index_fill_", "scatter_add_"}  # of their first tensor
    count = 0

    def tensors(part):
        if isinstance(part, torch.Tensor):
            return [part]
        if isinstance(part, (tuple, list)):
            return [tensor for item in part for tensor in tensors(item)]
        return []

    class Counting(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls):
            return False  # as in checking/peak_memory.py: nothing is compiled here

        def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
            nonlocal count
            result = operation(*arguments, **(keywords or {}))
            name = operation._schema.name.split("::")[-1]
            if operation.is_view or name in free:
                return result
            operands, results = tensors(arguments), tensors(result)
            if name in into_a_part:
                operands, results = operands[1:], []
            if name in products:
                count += results[0].numel() * operands[products[name]].shape[-1]
            elif name == "convolution":
                count += results[0].numel() * operands[1][0].numel()
            elif "pool" in name and isinstance(arguments[1], (tuple, list)):
                count += results[0].numel() * math.prod(arguments[1])
            else:
                count += max([tensor.numel() for tensor in operands + results], default=0)
            return result

    with Counting():
        result = function(*arguments)
    return result, count


@check_each(
    "linear_attention", "causal_linear_attention", weight=2, needs=["memory"], measured=True
)
def time(function, draw):
    """Takes time in proportion to n: each token adds the same number of operations, however many there are."""
    n = int(draw.rng.integers(680, 720))
    times, sizes_of = growth(function, draw, n, operations, MOST_TIMES_COMPUTED)
    message = (
        "For {long} tokens, {function} computed {times} times as many numbers as for {n}. In proportion to n, it would "
        "be {longer} times as many."
    )
    expect(
        times <= MOST_TIMES_COMPUTED,
        Message(message, function=function.name, times=f"{times:.1f}", **sizes_of),
    )


def reached(function, *arguments):
    """Return the arguments' gradients of a specification, the last of the arguments being the upstream one."""
    *arguments, upstream = arguments
    leaves = [argument.clone().requires_grad_() for argument in arguments[:3]]
    (
        SPECIFICATIONS.get(function.name, grouped)(*leaves, *arguments[3:]) * upstream
    ).sum().backward()
    return [leaf.grad for leaf in leaves]


def expect_way_back(function, draw, arguments):
    upstream = draw.tensor(*arguments[0].shape[:-1], arguments[2].shape[-1])
    expected = reached(function, *arguments, upstream)
    _, gradients, _ = backward(function, *arguments, upstream=upstream)
    for name, got, right in zip(NAMES, gradients, expected, strict=False):
        expect(
            got is not None,
            Message("No gradient reaches {name}: it is cut off from autograd.", name=name),
        )
        unit = max(
            np.abs(right.numpy()).max(), 0.1
        )  # where one key is seen, that of queries is 0 but for rounding
        expect_close(
            got, right, what=Message("the gradient of {name}", name=name), unit=np.array(unit)
        )


@check_each(*ATTENTIONS, weight=1, needs=["values"])
def gradients(function, draw):
    """Gradients flow to queries, keys and values."""
    b, n_q, n_k, d_k, d_v = sizes(draw)
    n_k = n_q if alike(function) else n_k + 4  # several chunks
    expect_way_back(
        function, draw, (*inputs(draw, (b,), n_q, n_k, d_k, d_v), *last(function, draw, n_k))
    )


@check(weight=0.5, needs=["chunked_attention_gradients", chunked_attention_nothing_to_see])
def chunked_attention_gradients_causal(chunked_attention, draw):
    """Gradients are right under the causal mask, and never NaN, even if some queries see no keys."""
    b, _, _, d_k, d_v = sizes(draw)
    expect_way_back(chunked_attention, draw, (*inputs(draw, (b,), 9, 7, d_k, d_v), 2, True))


@check_each("linear_attention", "causal_linear_attention", weight=0.5, needs=["gradients"])
def gradients_large(function, draw):
    """Gradients are finite for every x, even where exp(x) overflows."""
    b, n, _, d_k, d_v = sizes(draw)
    Q, K, V = inputs(draw, (b,), n, n, d_k, d_v)
    Q[:, 1, 0] = K[:, 1, 0] = 800  # exp(800) is inf in float64, too
    expect_way_back(function, draw, (Q, K, V))


@check_each(*ATTENTIONS, weight=1, needs=["shape"])
def dtype(function, draw):
    """The result has the inputs' dtype: float32, float64, float16 or bfloat16."""
    b, n_q, n_k, d_k, d_v = sizes(draw)
    n_k = n_q if alike(function) else n_k
    if function.name == "chunked_attention":  # in the causal case, some queries see nothing
        n_q, n_k = max(n_q, n_k), min(n_q, n_k)
    arguments, extra = inputs(draw, (b,), n_q, n_k, d_k, d_v), last(function, draw, n_k)
    arguments = [part.bfloat16() for part in arguments]  # the same numbers in each dtype
    options = [[], [True]] if function.name == "chunked_attention" else [[]]
    cases = [
        [[*(part.to(kind) for part in arguments), *extra, *option] for kind in DTYPES]
        for option in options
    ]
    function.ahead([case for of_option in cases for case in of_option])
    for of_option in cases:
        results = {kind: function(*case) for kind, case in zip(DTYPES, of_option, strict=True)}
        expect_tensor_dtypes(results, (b, n_q, d_v))


@check_each(*ATTENTIONS, weight=0, needs=["values"])
def refuses(function, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` when sizes differ, even if one of them is 1."""
    b, n_q, n_k, d_k, d_v = sizes(draw)
    n_k = n_q if alike(function) else n_k
    extra = last(function, draw, n_k)
    refused = []  # arguments, and what is wrong with them
    for other in (d_k + 1, 1):
        for widths in [(d_k, other), (other, d_k)]:
            arguments = (
                draw.tensor(b, n_q, widths[0]),
                draw.tensor(b, n_k, widths[1]),
                draw.tensor(b, n_k, d_v),
            )
            because = Message("queries of {one}, keys of {other}", one=widths[0], other=widths[1])
            refused.append(((*arguments, *extra), because))
    for keys, value_count in [(n_k, n_k + 1), (n_k, 1), (1, n_k), (n_k + 4, n_k)]:
        queries = keys if alike(function) else n_q
        arguments = (
            draw.tensor(b, queries, d_k),
            draw.tensor(b, keys, d_k),
            draw.tensor(b, value_count, d_v),
        )
        refused.append(
            (
                (*arguments, *extra),
                Message("{keys} keys, values: {own}", keys=keys, own=value_count),
            )
        )
    if function.name == "chunked_attention":
        arguments = (
            draw.tensor(b, n_q, d_k),
            draw.tensor(b, n_k, d_k),
            draw.tensor(b, n_k + 2, d_v),
        )
        because = Message("{n_k} keys, values: {values}", n_k=n_k, values=n_k + 2)
        refused.append(((*arguments, n_k), because))
    if alike(function):
        for queries, keys in [(n_q, n_q + 1), (n_q + 1, n_q), (1, n_q), (n_q, 1)]:
            arguments = inputs(draw, (b,), queries, keys, d_k, d_v)
            because = Message("{queries} queries, {keys} keys", queries=queries, keys=keys)
            refused.append(((*arguments, *extra), because))
    if extra:
        name, wrong = (
            ("chunk_size", (0, -1))
            if function.name == "chunked_attention"
            else ("window", (-1, -3))
        )
        for size in wrong:
            arguments = inputs(draw, (b,), n_q, n_k, d_k, d_v)
            refused.append(((*arguments, size), Message("{name} is {own}", name=name, own=size)))
    expect_all_raise(REFUSED, function, refused)


@check_each(*ATTENTIONS, weight=0.5, needs=["shape"])
def kept(function, draw):
    """Does not change Q, K and V."""
    b, n, d, *_ = sizes(draw)
    extra = last(function, draw, n)
    names = [*NAMES, "chunk_size", "causal"]
    for more in ((), (True,)) if function.name == "chunked_attention" else ((),):
        arguments = (*inputs(draw, (b,), n, n, d, d), *extra, *more)
        expect_unchanged(function, names[: len(arguments)], *arguments)


def chunked_by_name(function, Q, K, V, chunk_size):
    return function(Q, K, V, chunk_size=chunk_size, causal=True)


def local_by_name(function, Q, K, V, window):
    return function(Q, K, V, window=window)


@check(weight=0.25, needs=[chunked_attention_causal])
def chunked_attention_by_name(chunked_attention, draw):
    """Accepts `chunk_size` and `causal` by name."""
    arguments = inputs(draw, (2,), 5, 5, 4, 3)
    result = chunked_attention.run_remote(chunked_by_name, *arguments, 2)
    expect_close(result, SPECIFICATIONS["chunked_attention"](*arguments, 2, True))


@check(weight=0.25, needs=[local_attention_values])
def local_attention_by_name(local_attention, draw):
    """Accepts `window` by name."""
    arguments = inputs(draw, (2,), 5, 5, 4, 3)
    result = local_attention.run_remote(local_by_name, *arguments, 2)
    expect_close(result, SPECIFICATIONS["local_attention"](*arguments, 2))


# grouped_query_attention


def heads(draw, h_q, h_kv, b, n_q, n_k, d_k, d_v):
    """Return Q, K and V with these numbers of heads."""
    K, V = draw.tensor(b, h_kv, n_k, d_k), draw.tensor(b, h_kv, n_k, d_v)
    return draw.tensor(b, h_q, n_q, d_k), K, V


def expect_grouped(function, *cases):
    """Fail unless the result is right for each list of arguments; all of them are sent ahead in one message."""
    function.ahead(cases)
    for arguments in cases:
        expect_close(function(*arguments), grouped(*arguments))


@check(weight=1)
def grouped_query_attention_shape(grouped_query_attention, draw):
    """Returns a tensor of shape (b, h_q, n_q, d_v)."""
    b, n_q, n_k, d_k, d_v = sizes(draw)
    expect_tensor(
        grouped_query_attention(*heads(draw, 6, 3, b, n_q, n_k, d_k, d_v)), (b, 6, n_q, d_v)
    )


@check(weight=3, needs=[grouped_query_attention_shape])
def grouped_query_attention_values(grouped_query_attention, draw):
    """Query head i uses the keys and values of head i // (h_q / h_kv), so neighboring heads share."""
    for h_q, h_kv in [(6, 3), (6, 2), (4, 2)]:
        shape = sizes(draw)
        arguments, others = heads(draw, h_q, h_kv, *shape), heads(draw, h_q, h_kv, *shape)
        expect_grouped(
            grouped_query_attention, arguments, tuple(map(noncontiguous, arguments)), others
        )


@check(weight=1, needs=[grouped_query_attention_values])
def grouped_query_attention_extremes(grouped_query_attention, draw):
    """With one key head, all query heads share it; with as many key heads as query heads, each has its own."""
    cases = [heads(draw, h_q, h_kv, *sizes(draw)) for h_q, h_kv in [(4, 1), (3, 3), (1, 1)]]
    expect_grouped(grouped_query_attention, *cases)


@check(weight=1, needs=[grouped_query_attention_values])
def grouped_query_attention_sizes(grouped_query_attention, draw):
    """Works when all dimensions are equal, for long sequences, and for dimensions of size 1."""
    size = int(draw.rng.choice([2, 4]))
    cases = [heads(draw, 4, 2, size, size, size, size, size), heads(draw, 4, 4, 4, 4, 4, 4, 4)]
    long = draw.long()
    cases += [
        heads(draw, 4, 2, *lengths)
        for lengths in [(1, long, 2, 2, 3), (1, 2, long, 3, 2), (long, 2, 2, 2, 2)]
    ]
    for axis in range(5):
        shape = [1 if i == axis else size for i, size in enumerate(sizes(draw))]
        cases.append(heads(draw, 4, 2, *shape))
    expect_grouped(grouped_query_attention, *cases)


@check(weight=1, needs=[grouped_query_attention_values])
def grouped_query_attention_large_scores(grouped_query_attention, draw):
    """Handles scores in the thousands, of either sign."""
    b, n_q, n_k, d_k, d_v = sizes(draw)
    Q, K, V = heads(draw, 4, 2, b, n_q, n_k, d_k, d_v)
    expect_grouped(grouped_query_attention, (1000 * Q, K, V))


@check(weight=1, needs=[grouped_query_attention_values])
def grouped_query_attention_gradients(grouped_query_attention, draw):
    """Gradients flow to queries, keys and values; a shared head gets the sum over its query heads."""
    expect_way_back(grouped_query_attention, draw, heads(draw, 6, 3, *sizes(draw)))


def expect_heads_refused(grouped_query_attention, draw, h_q, h_kv):
    """Fail unless these numbers of heads raise."""
    arguments = heads(draw, h_q, h_kv, *sizes(draw))
    because = Message("{h_q} query heads, {h_kv} key heads", h_q=h_q, h_kv=h_kv)
    expect_raises(REFUSED, grouped_query_attention, *arguments, because=because)


@check(weight=1)
def grouped_query_attention_refuses_heads(grouped_query_attention, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` when h_q is not a multiple of h_kv."""
    # Worth points: otherwise some queries would get another head's keys, or none. Groups of equal size raise anyway.
    for h_q, h_kv in [(6, 4), (5, 2), (7, 3)]:
        expect_heads_refused(grouped_query_attention, draw, h_q, h_kv)


@check(weight=0, needs=[grouped_query_attention_values])
def grouped_query_attention_refuses(grouped_query_attention, draw):
    """Raises when there are more key heads than query heads or when sizes differ, even if one of them is 1."""
    for h_q, h_kv in [(2, 4), (1, 3)]:
        expect_heads_refused(grouped_query_attention, draw, h_q, h_kv)
    b, n_q, n_k, d_k, d_v = sizes(draw)
    Q, K, V = heads(draw, 6, 3, b, n_q, n_k, d_k, d_v)
    refused = []
    for size in (1, 2, 6):
        because = Message("3 key heads, {own} value heads", own=size)
        refused.append(((Q, K, draw.tensor(b, size, n_k, d_v)), because))
        because = Message("{own} key heads, 3 value heads", own=size)
        refused.append(((Q, draw.tensor(b, size, n_k, d_k), V), because))
    Q, K, V = heads(draw, 3, 3, b, n_q, n_k, d_k, d_v)
    refused.append(((Q, K, V[:, :1]), Message("3 key heads, 1 value head")))
    for size in (n_k + 1, 1):
        because = Message("{n_k} keys, values: {own}", n_k=n_k, own=size)
        refused.append(((Q, K, draw.tensor(b, 3, size, d_v)), because))
    for size in (d_k + 1, 1):
        because = Message("queries of {d_k}, keys of {own}", d_k=d_k, own=size)
        refused.append(((Q, draw.tensor(b, 3, n_k, size), V), because))
    expect_all_raise(REFUSED, grouped_query_attention, refused)


@check(weight=0.5, needs=[grouped_query_attention_shape])
def grouped_query_attention_kept(grouped_query_attention, draw):
    """The result has the inputs' dtype, and Q, K and V do not change."""
    b, n_q, n_k, d_k, d_v = sizes(draw)
    arguments = [part.bfloat16() for part in heads(draw, 4, 2, b, n_q, n_k, d_k, d_v)]
    results = {
        kind: grouped_query_attention(*[tensor.to(kind) for tensor in arguments]) for kind in DTYPES
    }
    expect_tensor_dtypes(results, (b, 4, n_q, d_v))
    for h_kv in (4, 2):
        expect_unchanged(
            grouped_query_attention, NAMES, *heads(draw, 4, h_kv, b, n_q, n_q, d_k, d_k)
        )


# KVCache: operations on a cache run in the process where it is


def appended(cache_class, parts):
    """Append parts, one after another, to a new cache; return all results, and the parts afterwards."""
    cache = cache_class()
    return [cache.append(k, v) for k, v in parts], parts


def changed_afterwards(cache_class, first, second):
    """Append to a new cache, overwrite what was appended, and append more; return the last result."""
    cache = cache_class()
    cache.append(*first)
    for part in first:
        part.zero_()
    return cache.append(*second)


def new_caches(cache_class, parts):
    """Append each part to a new cache; return the results, and what error stopped it after the first, or ""."""
    results = []
    for part in parts:
        try:
            results.append(cache_class().append(*part))
        except Exception as error:
            if not results:
                raise
            return results, f"{type(error).__name__}: {error}"
    return results, ""


def two_caches(cache_class, first, second):
    """Fill two caches in turn; return what each has at the end."""
    a, b = cache_class(), cache_class()
    a.append(*first)
    b.append(*second)
    return a.append(*first), b.append(*second)


def differentiated(cache_class, parts, upstream):
    """Append parts to a new cache, and return the gradients of the last result with respect to all parts."""
    import torch

    with torch.enable_grad():
        parts = [[part.detach().clone().requires_grad_() for part in pair] for pair in parts]
        cache = cache_class()
        for pair in parts:
            result = cache.append(*pair)
        sum(
            (part * gradient).sum() for part, gradient in zip(result, upstream, strict=True)
        ).backward()
    return [part.grad for pair in parts for part in pair]


def refused(cache_class, first, wrong, second):
    """Append, append wrong sizes, append again; return "refused", what else that raised, or "", and the last result."""
    cache = cache_class()
    cache.append(*first)
    raised = ""
    try:
        cache.append(*wrong)
    except (ValueError, RuntimeError, IndexError):
        raised = "refused"
    except Exception as error:
        raised = type(error).__name__
    try:
        return raised, cache.append(*second)
    except Exception:
        return raised, None


def pairs(draw, lead, counts, d_k, d_v):
    """Return pairs of keys and values, one with each of these numbers of tokens."""
    return [(draw.tensor(*lead, n, d_k), draw.tensor(*lead, n, d_v)) for n in counts]


def expect_cached(result, parts, when=""):
    """Fail unless a result is a tuple of the keys and values of all parts."""
    try:
        for name, got, expected in zip(
            "kv", expect_tuple(result, "kv"), together(parts), strict=True
        ):
            expect_close(got, expected, what=name)
    except Failed as failure:
        if when:
            failure.message = Message("{when} {rest}", when=when, rest=failure.message)
        raise


def expect_grows(KVCache, *several):
    """Fail unless a new cache has everything appended so far, part by part; for several caches in turn."""
    KVCache.ahead([(parts,) for parts in several], appended)
    for parts in several:
        results, _ = KVCache.run_remote(appended, parts)
        expect(
            isinstance(results, list) and len(results) == len(parts),
            "`append` should return a tuple each time.",
        )
        for count, result in enumerate(results, 1):
            when = Message("After {count} of {all} calls of `append`:", count=count, all=len(parts))
            expect_cached(result, parts[:count], when)


@check(weight=1)
def KVCache_first(KVCache, draw):
    """A new cache is empty: its first `append` returns a tuple with the keys and values that it was given."""
    b, h, n, d_k, d_v = sizes(draw)
    first, other = (
        (draw.tensor(b, h, n, d_k), draw.tensor(b, h, n, d_v)),
        pairs(draw, (h, b), [n], d_v, d_k)[0],
    )
    results, error = KVCache.run_remote(new_caches, [first, other])
    expect_cached(results[0], [first])
    for part, size in zip(results[0], (d_k, d_v), strict=True):
        expect_tensor(part, (b, h, n, size))
    message = (
        "A new cache rejects keys of shape {shape} after another cache was given keys of shape {other}. Do the two "
        "share their contents? {error}"
    )
    shapes = {"shape": str(tuple(other[0].shape)), "other": str(tuple(first[0].shape))}
    expect(not error, Message(message, **shapes, error=error))
    expect_cached(results[1], [other], Message("Of two new caches, the second:"))


@check(weight=3, needs=[KVCache_first])
def KVCache_grows(KVCache, draw):
    """Each `append`, of one new token or several, returns all keys and values so far, oldest first."""
    b, h, _, d_k, d_v = sizes(draw)
    expect_grows(
        KVCache,
        *[pairs(draw, (b, h), counts, d_k, d_v) for counts in [(4, 1, 1, 1), (1, 3, 2), (1, 1)]],
    )


@check(weight=1, needs=[KVCache_grows])
def KVCache_two(KVCache, draw):
    """Two caches share nothing, even if they grow in turn."""
    b, h, n, d_k, d_v = sizes(draw)
    first, second = pairs(draw, (b, h), (n, n + 1), d_k, d_v)
    cached, other = KVCache.run_remote(two_caches, first, second)
    expect_cached(
        cached, [first, first], Message("Of two caches that were filled in turn, the first:")
    )
    expect_cached(
        other, [second, second], Message("Of two caches that were filled in turn, the second:")
    )


@check(weight=1, needs=[KVCache_grows])
def KVCache_sizes(KVCache, draw):
    """Works for any leading dimensions, equal sizes, a long text, and sizes of 1."""
    cases = [
        ((), (2, 3), 4, 5),
        ((3,), (3, 3), 3, 3),
        ((2, 2), (2, 2), 2, 2),
        ((2, 1, 3), (1, 2), 3, 2),
        ((1, 1), (1, 1), 1, 1),
        ((1, 2), (8 * draw.long(), 1, 7), 2, 1),  # past 4096, a usual size of a cache
    ]
    expect_grows(KVCache, *[pairs(draw, *case) for case in cases])


@check(weight=1, needs=[KVCache_grows])
def KVCache_own_copy(KVCache, draw):
    """Keeps its own copy: the caller may change the appended tensors afterwards."""
    b, h, n, d_k, d_v = sizes(draw)
    for counts in [(n, 1), (1, n)]:
        parts = pairs(draw, (b, h), counts, d_k, d_v)
        when = "After the caller overwrote the first keys and values:"
        expect_cached(KVCache.run_remote(changed_afterwards, *parts), parts, Message(when))


@check(weight=1, needs=[KVCache_grows])
def KVCache_gradients(KVCache, draw):
    """Gradients flow from everything that is returned to each appended part."""
    b, h, n, d_k, d_v = sizes(draw)
    counts = (n, 1, 2)
    parts = pairs(draw, (b, h), counts, d_k, d_v)
    upstream = [draw.tensor(b, h, sum(counts), d) for d in (d_k, d_v)]
    gradients = KVCache.run_remote(differentiated, parts, upstream)
    expected = [
        gradient
        for pair in zip(*[up.split(counts, -2) for up in upstream], strict=True)
        for gradient in pair
    ]
    for got, right in zip(gradients, expected, strict=True):
        expect(
            got is not None, "No gradient reaches an appended part: it is cut off from autograd."
        )
        expect_close(got, right, what=Message("the gradient of a part"))


@check(weight=1, needs=[KVCache_first])
def KVCache_kept(KVCache, draw):
    """The results have the dtype of the appended tensors, which do not change."""
    b, h, n, d_k, d_v = sizes(draw)
    parts = pairs(draw, (b, h), (n, 2), d_k, d_v)
    keys, values = {}, {}
    for kind in DTYPES:
        results, _ = KVCache.run_remote(
            appended, [[tensor.bfloat16().to(kind) for tensor in pair] for pair in parts]
        )
        keys[kind], values[kind] = results[-1]
    expect_tensor_dtypes(keys, (b, h, n + 2, d_k))
    expect_tensor_dtypes(values, (b, h, n + 2, d_v))
    _, after = KVCache.run_remote(appended, parts)
    for pair, part in zip(after, parts, strict=True):
        expect_cached(pair, [part], Message("The appended tensors, after the call:"))


@check(weight=0, needs=[KVCache_grows])
def KVCache_refuses(KVCache, draw):
    """Raises `ValueError` or similar when sizes do not match the cache, which stays as it was."""
    b, h, n, d_k, d_v = sizes(draw)
    usual, thin = (pairs(draw, (b, h), (n, 2), *widths) for widths in [(d_k, d_v), (1, 1)])
    cases = []
    for (first, second), lead, keys, values, d_key, d_value in [
        (usual, (b, h), 1, 2, d_k, d_v),
        (usual, (b, h), 2, 1, d_k, d_v),
        (usual, (b, h), 1, 1, d_k + 1, d_v),
        (usual, (b, h), 1, 1, d_k, d_v + 1),
        (usual, (b, h), 1, 1, d_k + 1, d_v - 1),  # side by side as wide as before
        (usual, (b, h), 1, 1, d_k - 1, d_v + 1),
        (usual, (b, h), 1, 1, 1, d_v),
        (thin, (b, h), 1, 1, d_k, 1),  # what is kept must not be stretched either
        (thin, (b, h), 1, 1, 1, d_v),
        (usual, (b + 1, h), 1, 1, d_k, d_v),
        (usual, (b, h + 1), 1, 1, d_k, d_v),
    ]:
        wrong = draw.tensor(*lead, keys, d_key), draw.tensor(*lead, values, d_value)
        cases.append((first, wrong, second))
    KVCache.ahead(cases, refused)
    for first, wrong, second in cases:
        raised, result = KVCache.run_remote(refused, first, wrong, second)
        sizes_of = [str(tuple(tensor.shape)) for tensor in (*first, *wrong)]
        message = (
            "After k {k_1} and v {v_1}, `append` should raise ValueError or RuntimeError for k {k_2} and v {v_2}, "
            "but {said}."
        )
        outcome = Message("raised {kind}", kind=raised) if raised else Message("did not raise")
        values = dict(zip(("k_1", "v_1", "k_2", "v_2"), sizes_of, strict=True))
        expect(raised == "refused", Message(message, said=outcome, **values))
        expect_cached(
            result,
            [first, second],
            Message("After keys and values with wrong sizes were rejected:"),
        )


# merge


PARTS = "mlu"
WHICH = (Message("first"), Message("second"))


def scores(draw, lead, n, *counts, d_v, size=3.0):
    """Return scores and values with these numbers of keys, one for each part: [(S, V), ...]."""
    return [(size * draw.tensor(*lead, n, n_k), draw.tensor(*lead, n_k, d_v)) for n_k in counts]


def signs(draw, n):
    """Return a column of n signs, 1 and -1, in random order: both are there."""
    return torch.from_numpy(draw.rng.permutation(np.arange(n) % 2))[:, None] * 2 - 1


def hidden(S, rows):
    """Return scores that are -inf in these rows: there the part has no key."""
    S = S.clone()
    S[..., rows, :] = -torch.inf
    return S


def all_keys(several):
    """Return the part of all keys of several parts, given as scores and values."""
    return of_keys(
        *(torch.cat([part[i] for part in several], axis) for i, axis in ((0, -1), (1, -2)))
    )


def expect_part(result, several):
    """Fail unless a result is the part of all keys of several, given as scores and values."""
    parts, expected = expect_tuple(result, PARTS), all_keys(several)
    nothing = torch.isneginf(expected[0]).numpy()
    if parts[0].shape == nothing.shape and np.isfinite(parts[0][nothing]).any():
        message = "In a row where neither part has a key, m should be -inf, got {got}."
        raise Failed(Message(message, got=f"{parts[0][nothing].max():.4g}"), explained=True)
    for name, got, right in zip(PARTS, parts, expected, strict=True):
        expect_close(got, right, what=name)


def expect_merged(merge, *cases):
    """Fail unless two parts, given as scores and values, are merged correctly; for several cases."""
    arguments = [tuple(of_keys(*part) for part in case) for case in cases]
    merge.ahead(arguments)
    for case, parts in zip(cases, arguments, strict=True):
        expect_part(merge(*parts), case)


@check(weight=0.5)
def merge_shape(merge, draw):
    """Returns a tuple of tensors, m (..., n), l (..., n) and u (..., n, d_v), in the dtype of the parts."""
    b, n, k_1, k_2, d_v = sizes(draw)
    parts = [of_keys(*part) for part in scores(draw, (b,), n, k_1, k_2, d_v=d_v)]
    parts = [[tensor.bfloat16() for tensor in part] for part in parts]
    cases = [tuple(tuple(tensor.to(kind) for tensor in part) for part in parts) for kind in DTYPES]
    merge.ahead(cases)
    results = {name: {} for name in PARTS}
    for kind, case in zip(DTYPES, cases, strict=True):
        result = merge(*case)
        expect_tuple(result, PARTS)
        for name, tensor in zip(PARTS, result, strict=True):
            results[name][kind] = tensor
    for name, shape in zip(PARTS, ((b, n), (b, n), (b, n, d_v)), strict=True):
        expect_tensor_dtypes(results[name], shape, what=name)


@check(weight=1.5, needs=[merge_shape])
def merge_ordered(merge, draw):
    """Returns the part of all keys when one part, the first or the second, has the larger scores in all rows."""
    cases = []
    for _ in range(2):
        b, n, k_1, k_2, d_v = sizes(draw)
        (low, V), (high, W) = scores(draw, (b,), n, k_1, k_2, d_v=d_v, size=0.5)
        high = high + 2.5
        cases += [((low, V), (high, W)), ((high, W), (low, V))]
    expect_merged(merge, *cases)


@check(weight=1.5, needs=[merge_shape])
def merge_values(merge, draw):
    """Returns the part of all keys, no matter which part has the larger score in a row, and whether it is above 0."""
    cases = []
    for _ in range(3):
        b, n, k_1, k_2, d_v = sizes(draw)
        (S, V), (T, W) = scores(draw, (b,), n, k_1, k_2, d_v=d_v, size=1.0)
        turn, level = signs(draw, n), signs(draw, n)
        cases.append(((S + 2 * turn + 8 * level, V), (T - 2 * turn + 8 * level, W)))
    # Of the last case: now both have the same largest score in each row.
    S, T = (score - score.amax(-1, keepdim=True) + 8 * level for score in (S, T))
    expect_merged(merge, *cases, ((S, V), (T, W)))


@check(weight=1.5, needs=[merge_ordered])
def merge_no_keys(merge, draw):
    """A part without keys, in some rows or all, does not change the other; two such parts give another, never NaN."""
    b, n, k_1, k_2, d_v = sizes(draw)
    n += 3
    (S, V), (T, W) = scores(draw, (b,), n, k_1, k_2, d_v=d_v)
    rows = list(range(n))
    cases = []
    for without, also_without in [
        (rows, []),
        ([], rows),
        ([0, 2], [1]),
        (rows, rows),
        ([0, 1], [1, 3]),
        (rows, [2]),
    ]:
        cases.append(((hidden(S, without), V), (hidden(T, also_without), W)))
    expect_merged(merge, *cases)


@check(weight=0.5, needs=[merge_values])
def merge_large_scores(merge, draw):
    """Handles scores in the thousands, of either sign, or all a million below 0: no overflow and no loss."""
    b, n, k_1, k_2, d_v = sizes(draw)
    (S, V), (T, W) = scores(draw, (b,), n, k_1, k_2, d_v=d_v)
    cases = [
        ((S + shift, V), (T + other_shift, W))
        for shift in (3000, -3000, 1)
        for other_shift in (3000, -3000, 2)
    ]
    cases.append(((torch.round(S) - 1e6, V), (torch.round(T) - 1e6, W)))
    expect_merged(merge, *cases)


@check(weight=1, needs=[merge_values])
def merge_sizes(merge, draw):
    """Works for any leading dimensions, equal sizes, many rows, and sizes of 1."""
    k_1, k_2, d_v, size, n = sizes(draw)
    cases = [
        scores(draw, lead, rows, k_1, k_2, d_v=columns)
        for lead, rows, columns in [
            ((), n, d_v), ((2, 1, 3), n, d_v), ((size,), size, size), ((n, n), n, n), ((1,), draw.long(), 2),
            ((2,), 3, draw.long()), ((1,), n, d_v), ((size,), 1, d_v), ((size,), n, 1), ((1, 1), 1, 1),
        ]
    ]  # fmt: skip
    expect_merged(merge, *cases)


def merged_and_parts(merge, first, second):
    """Merge two parts; return the result, and the parts afterwards."""
    return merge(first, second), first, second


@check(weight=0.5, needs=[merge_shape])
def merge_kept(merge, draw):
    """Does not change either part."""
    b, n, k_1, k_2, d_v = sizes(draw)
    (S, V), (T, W) = scores(draw, (b,), n + 3, k_1, k_2, d_v=d_v)
    parts = of_keys(hidden(S, [0, 1]), V), of_keys(hidden(T, [1, 2]), W)  # some rows have no keys
    _, *after = merge.run_remote(merged_and_parts, *parts)
    message = (
        "`{name}` of the {which} part was changed in place, but the caller still needs it. Compute a new tensor, and "
        "avoid *=, +=, methods that end in `_`, and writing into rows."
    )
    for which, now, before in zip(WHICH, after, parts, strict=True):
        for name, got, right in zip(PARTS, now, before, strict=True):
            expect(torch.equal(got, right), Message(message, name=name, which=which))


def merged_backward(merge, first, second, upstream):
    """Merge two parts, and return the gradients of all six tensors for u / l and, where there are keys, m + log l."""
    import torch

    with torch.enable_grad():
        parts = [
            [tensor.detach().clone().requires_grad_() for tensor in part]
            for part in (first, second)
        ]
        m, total, mixed = merge(*[tuple(part) for part in parts])
        none = total.detach() == 0
        total = total.masked_fill(none, 1)
        loss = (mixed / total[..., None] * upstream).sum() + (
            m.masked_fill(none, 0) + total.log()
        ).sum()
        loss.backward()
    return [tensor.grad for part in parts for tensor in part]


def expect_merged_backward(merge, draw, several):
    upstream = draw.tensor(*several[0][0].shape[:-1], several[0][1].shape[-1])
    parts = [of_keys(*part) for part in several]
    gradients = merge.run_remote(merged_backward, *parts, upstream)
    expected = merged_backward(SPECIFICATIONS["merge"], *parts, upstream)
    names = [
        Message("{name} of the {which} part", name=name, which=which)
        for which in WHICH
        for name in PARTS
    ]
    for name, got, right, i in zip(names, gradients, expected, range(6), strict=True):
        without = parts[i // 3][1] == 0  # rows without keys: any value will do, if it is a number
        expect(
            got is not None,
            Message("No gradient reaches {name}: it is cut off from autograd.", name=name),
        )
        got = torch.where(
            without.reshape(*without.shape, *[1] * (got.ndim - without.ndim)) & got.isfinite(),
            right,
            got,
        )
        expect_close(
            got, right, what=Message("the gradient of {name}", name=name), unit=np.array(1.0)
        )


@check(weight=1, needs=[merge_values])
def merge_gradients(merge, draw):
    """Gradients flow to m, l and u of both parts."""
    b, n, k_1, k_2, d_v = sizes(draw)
    (S, V), (T, W) = scores(draw, (b,), n, k_1, k_2, d_v=d_v, size=1.0)
    turn = signs(draw, n)  # in some rows the first part has the larger score, in others the second
    expect_merged_backward(merge, draw, [(S + 2 * turn, V), (T - 2 * turn, W)])


@check(weight=0.5, needs=[merge_gradients, merge_no_keys])
def merge_gradients_no_keys(merge, draw):
    """Gradients are never NaN, even if one part or both have no keys."""
    b, n, k_1, k_2, d_v = sizes(draw)
    (S, V), (T, W) = scores(draw, (b,), n + 3, k_1, k_2, d_v=d_v, size=1.0)
    turn = signs(draw, n + 3)
    expect_merged_backward(
        merge, draw, [(hidden(S + 2 * turn, [0, 1]), V), (hidden(T - 2 * turn, [1, 2]), W)]
    )

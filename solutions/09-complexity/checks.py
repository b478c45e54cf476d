"""Checks of exercise 9. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Counts are compared with `specifications`, which adds up matrix products, or the entries of arrays, one by one. It is
in checking.zip together with the runtime, `checking`, so that no one sees an answer by accident. `EXACT` is the
tolerance: a count computed with floats has a smaller rounding error. A slope may be off by `SLOPE`. That of a right
answer is off by less than 1e-9, or by 1e-5 if it computes in float32, and the points are drawn so that other slopes
are further away.
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

import functools
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

from checking import (
    Failed,
    Message,
    Suite,
    expect,
    expect_by_hand,
    expect_inputs_kept,
    expect_raises,
)
from checking.draw import PRIMES
from checking.expect import as_plain, describe
from checking.words import joined
from specifications import (
    BYTES_TERMS,
    COUNT_TERMS,
    DECODE_TERMS,
    FLOPS_TERMS,
    SECONDS_TERMS,
    balanced,
    both,
    bytes_of_weights,
    cached,
    four_projections,
    limits,
    longer,
    matrix_product,
    numbers_in,
    read_in_a_step,
    slope,
    two_products,
)

EXACT = 1e-9
SLOPE = 1e-4
MOST_POINTS, MOVED = (
    9,
    0.02,
)  # how far each point moves a slope is reported for so few points, from this change on

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 9, By hand",
        "attention_flops": "chapter 9, Counting operations",
        "attention_bytes": "chapter 9, Counting bytes",
        "parameter_count": "chapter 9, Counting parameters",
        "crossover_length": "chapter 9, Where the two costs cross",
        "fit_exponent": "chapter 9, By the clock",
        "decode_bytes": "chapter 9, Reading and writing",
        "least_seconds": "chapter 9, Three costs",
        "critical_batch": "chapter 9, Reading and writing",
        "largest_batch": "chapter 9, Reading and writing",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset


# The kinds of results, and what many results have in common.


def as_number(result):
    """Return a result, any kind of number, as a float; fail and name what else it is."""
    if isinstance(result, (bool, np.bool_)):
        raise Failed(
            Message("Expected a number, got {result}.", result=str(result)), explained=True
        )
    plain = as_plain(float(result) if isinstance(result, (int, Fraction, Decimal)) else result)
    if plain is None or plain.ndim:
        raise Failed(
            Message("Expected one number, got {found}.", found=describe(result)), explained=True
        )
    if not np.isfinite(plain):
        raise Failed(
            Message("Expected a finite number, got {found}.", found=str(float(plain))),
            explained=True,
        )
    return float(plain)


def written(number):
    """Return a number as text: whole numbers with all their digits, in groups of three."""
    return f"{number:,.0f}" if number == round(number) and abs(number) < 1e16 else f"{number:,.6g}"


def named(call, names):
    return ", ".join(f"{name} = {value}" for name, value in zip(names, call, strict=False))


def in_terms(calls, results, terms):
    """Return the sum of a few terms that all results are, as text; an empty text if there is none.

    `terms` has a function of a call's arguments for each text. A least-squares fit finds how often each term is in
    the results; it is reported only if nothing is left over.
    """
    columns = np.array([[float(term(*call)) for term in terms.values()] for call in calls])
    results, lengths = np.array(results), np.linalg.norm(columns, axis=0)
    if not np.isfinite([*lengths, np.linalg.norm(results)]).all():
        return ""
    shares, _, rank, _ = np.linalg.lstsq(columns / lengths, results, rcond=None)
    residual = np.abs(columns / lengths @ shares - results).max()
    if rank < len(terms) or not results.any() or residual > 1e-9 * np.abs(results).max():
        return ""
    parts = []
    for name, share, length in zip(terms, shares, lengths, strict=True):
        if abs(share) > 1e-8 * np.linalg.norm(results):
            often = abs(share / length)
            simple = [Fraction(often).limit_denominator(24), Fraction(1, max(round(1 / often), 1))]
            number = next(
                (str(fraction) for fraction in simple if abs(often - fraction) < 1e-6 * often),
                f"{often:.6g}",
            )
            words = [fraction for fraction in (number, name) if fraction != "1"] or ["1"]
            parts.append(f"{'-' if share < 0 else '+'} {' '.join(words)}")
    return " ".join(parts).removeprefix("+ ") if len(parts) <= 4 else ""


def in_powers(calls, results, names):
    """Return the product of powers of the arguments that all results are, or the sum of two, as text.

    The two are found by their angles with the results: all pairs are tried at once.
    """
    powers = [
        exponents
        for exponents in itertools.product((0, 1, 2, 3, -1), repeat=len(names))
        if sum(map(abs, exponents)) < 6
    ]
    columns = np.exp(
        np.log(np.array([call[: len(names)] for call in calls], float)) @ np.array(powers, float).T
    )
    columns /= np.linalg.norm(columns, axis=0)
    between = columns.T @ columns  # the cosines of the angles between two terms
    cosines = columns.T @ (np.array(results) / (np.linalg.norm(results) or 1.0))
    with np.errstate(all="ignore"):
        fit = cosines[:, None] ** 2 + cosines**2 - 2 * between * np.outer(cosines, cosines)
        misfit = 1 - fit / (1 - between**2)
    misfit[~(between**2 < 1 - 1e-9)] = np.inf
    # Each pair is in the table twice.
    best = np.argsort(misfit, axis=None)[:40:2]
    for pair in zip(*np.unravel_index(best, misfit.shape), strict=True):
        terms = {in_words(powers[i], names): product_of(powers[i]) for i in sorted(pair)}
        text = in_terms(calls, results, terms)
        if text:
            return text
    return ""


def product_of(powers):
    """Return a function of a call's arguments: the product of these powers of them."""
    return lambda *call: math.prod(
        float(number) ** power for number, power in zip(call, powers, strict=False)
    )


def in_words(powers, names):
    """Return a product of powers as text, such as "n² d_model / num_heads"."""
    raised = {1: "", 2: "²", 3: "³"}
    above = [name + raised[power] for name, power in zip(names, powers, strict=True) if power > 0]
    below = [name for name, power in zip(names, powers, strict=True) if power < 0]
    return " / ".join([" ".join(above) or "1", *below])


def explained(subject, calls, terms, names=(), sentence="Your results are {found}."):
    """Return a sentence on the terms that the results of these calls consist of; an empty text if there are none."""
    try:
        results = [as_number(subject(*call)) for call in calls]
    except Failed:
        return ""
    if not any(results):
        return Message(sentence, found=Message("0 for all arguments"))
    text = in_terms(calls, results, terms) or (in_powers(calls, results, names) if names else "")
    return Message(sentence, found=text) if text else ""


def failed(message, relation, passed=(), explained=True):
    """Return the failure with a message, and with other findings about the results; see `Failed`."""
    failure = Failed(message, passed, explained=explained)
    failure.relation = relation
    return failure


def expect_counts(subject, calls, specification, names, why):
    """Fail unless the function returns the same counts as `specification`; `why` finds out more about the results."""
    results = [as_number(subject(*call)) for call in calls]
    wanted = [specification(*call) for call in calls]
    right = [
        abs(got - expected) <= EXACT * abs(expected)
        for got, expected in zip(results, wanted, strict=True)
    ]
    if all(right):
        return
    at = right.index(False)
    message = Message(
        "For {arguments}, expected {wanted}, got {result}.",
        arguments=named(calls[at], names),
        wanted=written(wanted[at]),
        result=written(results[at]),
    )
    if results[at] < 0:
        more = "The count is negative because it overflows 32 bits. Use Python's own integers."
        message = Message("{left} {right}", left=message, right=Message(more))
    passed = (
        [Message("{count} of {size} results are right", count=sum(right), size=len(right))]
        if any(right)
        else []
    )
    raise failed(message, why(), passed, explained=results[at] < 0)


# by_hand


@check()
def by_hand_counts(by_hand, draw):
    """Returns the four counts for three words and two heads: multiplications, operations, bytes."""
    n, d_model, num_heads = 3, 4, 2
    query = matrix_product(n, d_model, d_model) / 2
    scores = num_heads * matrix_product(n, d_model // num_heads, n) / 2
    weights = bytes_of_weights(n, d_model, num_heads, np.dtype(np.float32).itemsize)
    expect_by_hand(by_hand(), [query, scores, both(n, d_model, num_heads), weights])


# attention_flops


FLOPS_NAMES = ["n", "d_model", "num_heads"]


def layers(draw, count):
    """Return `count` layers (n, d_model, num_heads), whose n, num_heads and d_head are different odd primes."""
    drawn = [draw.sizes(3) for _ in range(count)]
    return [(n, num_heads * d_head, num_heads) for n, num_heads, d_head in drawn]


def flops_explained(attention_flops, draw):
    return explained(attention_flops, layers(draw, 24), FLOPS_TERMS, FLOPS_NAMES)


@check(weight=0.5)
def attention_flops_number(attention_flops, draw):
    """Returns one number."""
    as_number(attention_flops(*layers(draw, 1)[0]))


def expect_part(attention_flops, draw, part_of, wanted_of, message):
    """Fail with a message unless a part of the FLOPs, computed from those for n and for 2 n, is right."""
    for n, d_model, num_heads in layers(draw, 3):
        once, twice = (
            as_number(attention_flops(length, d_model, num_heads)) for length in (n, 2 * n)
        )
        part, wanted = part_of(once, twice), wanted_of(n, d_model, num_heads)
        if abs(part - wanted) > EXACT * abs(once):
            text = Message(
                message,
                d_model=d_model,
                num_heads=num_heads,
                n=n,
                double=2 * n,
                once=written(once),
                twice=written(twice),
                part=written(part),
                wanted=written(wanted),
            )
            raise failed(text, flops_explained(attention_flops, draw))


@check(weight=2, needs=[attention_flops_number])
def attention_flops_projections(attention_flops, draw):
    """The part proportional to n is the cost of the four projections."""
    expect_part(
        attention_flops,
        draw,
        # Of a n + b n^2, four times the first without the second is 2 a n.
        lambda once, twice: (4 * once - twice) / 2,
        lambda n, d_model, num_heads: four_projections(n, d_model),
        "For d_model = {d_model} and num_heads = {num_heads}, the result is {once} for n = {n} and {twice} for n = "
        "{double}. The part of the first that is proportional to n should be {wanted}, and is {part}.",
    )


@check(weight=2, needs=[attention_flops_number])
def attention_flops_products(attention_flops, draw):
    """The part proportional to the square of n is the cost of the two products of all heads."""
    expect_part(
        attention_flops,
        draw,
        lambda once, twice: (twice - 2 * once) / 2,
        two_products,
        "For d_model = {d_model} and num_heads = {num_heads}, the result is {once} for n = {n} and {twice} for n = "
        "{double}. The part of the first that is proportional to the square of n should be {wanted}, and is {part}.",
    )


@check(weight=1, needs=[attention_flops_number])
def attention_flops_heads(attention_flops, draw):
    """The cost does not depend on the number of heads: with more heads, each is narrower."""
    n, few, more = draw.sizes(3)
    d_model = few * more
    counts = {h: as_number(attention_flops(n, d_model, h)) for h in (1, few, more, d_model)}
    if max(counts.values()) - min(counts.values()) > EXACT * abs(counts[1]):
        shown = [
            Message("{result} for {h}", result=written(counts[h]), h=h) for h in sorted(counts)
        ]
        message = "For n = {n} and d_model = {d_model}, the result depends on the number of heads: {shown}."
        message = Message(message, n=n, d_model=d_model, shown=joined("{left}, {right}", shown))
        raise failed(message, flops_explained(attention_flops, draw))


@check(
    weight=1.5, needs=[attention_flops_projections, attention_flops_products, attention_flops_heads]
)
def attention_flops_values(attention_flops, draw):
    """Returns the right count for different sizes, equal sizes, hundreds of tokens, and one token."""
    (k,) = draw.sizes(1)
    n, d_model, num_heads = layers(draw, 1)[0]
    calls = [
        *layers(draw, 4),
        (k, k, k),
        (d_model, d_model, num_heads),
        (draw.long(), d_model, num_heads),
        (n, 2 * draw.long(), 2),
        (1, d_model, num_heads),
        (n, 1, 1),
        (1, 1, 1),
    ]
    expect_counts(
        attention_flops, calls, both, FLOPS_NAMES, lambda: flops_explained(attention_flops, draw)
    )


@check(weight=1, needs=[attention_flops_values])
def attention_flops_large(attention_flops, draw):
    """Works for a million tokens: nothing overflows, and no array is made."""
    n = 1_000_000 + draw.sizes(1)[0]
    expect_counts(attention_flops, [(n, 4096, 32), (n, 12288, 96)], both, FLOPS_NAMES, lambda: "")


@check(weight=0, needs=[attention_flops_number])
def attention_flops_refuses(attention_flops, draw):
    """Raises `ValueError` when num_heads does not divide d_model."""
    for num_heads, d_head in (draw.sizes(2) for _ in range(3)):
        for d_model in (num_heads * d_head + 1, num_heads - 1):
            because = Message(
                "{num_heads} heads do not divide d_model = {d_model}",
                num_heads=num_heads,
                d_model=d_model,
            )
            expect_raises(
                [ValueError], attention_flops, draw.long(), d_model, num_heads, because=because
            )


# attention_bytes


BYTES_NAMES = ["n", "d_model", "num_heads", "bytes_per_value"]
VALUE_SIZES = [1, 2, 4, 8]


def in_memory(draw, count):
    """Return layers as `layers` does, each with a number of bytes per value."""
    drawn = each_of(draw, VALUE_SIZES, count)
    return [(*layer, int(size)) for layer, size in zip(layers(draw, count), drawn, strict=True)]


def each_of(draw, values, count):
    """Return `count` of these values in random order, each of them equally often where `count` allows."""
    return draw.rng.permutation(np.resize(draw.rng.permutation(values), count))


def bytes_explained(attention_bytes, draw):
    return explained(attention_bytes, in_memory(draw, 26), BYTES_TERMS, BYTES_NAMES)


def expect_ratio(attention_bytes, draw, calls, ratio, change):
    """Fail unless the second of two calls returns `ratio` times the first result; `change` says what differs."""
    first, second = (as_number(attention_bytes(*call)) for call in calls)
    if abs(second - ratio * first) > EXACT * abs(second):
        raise failed(
            Message(
                "For {arguments}, the result is {first}. {change} should make it {wanted}, but makes it {second}.",
                arguments=named(calls[0], BYTES_NAMES),
                first=written(first),
                change=change,
                wanted=written(ratio * first),
                second=written(second),
            ),
            bytes_explained(attention_bytes, draw),
        )


@check(weight=0.5)
def attention_bytes_number(attention_bytes, draw):
    """Returns one number."""
    as_number(attention_bytes(*in_memory(draw, 1)[0]))


@check(weight=1, needs=[attention_bytes_number])
def attention_bytes_length(attention_bytes, draw):
    """Twice as many tokens take four times the memory: every token attends to every token."""
    n, *rest = in_memory(draw, 1)[0]
    for length in (n, draw.long()):
        calls = [(length, *rest), (2 * length, *rest)]
        expect_ratio(attention_bytes, draw, calls, 4, Message("Doubling n"))


@check(weight=1, needs=[attention_bytes_number])
def attention_bytes_heads(attention_bytes, draw):
    """Every head has its own weights: for a fixed d_model, the memory is proportional to the number of heads."""
    n, few, times = draw.sizes(3)
    b = int(draw.rng.choice(VALUE_SIZES))
    calls = [(n, few * times, few, b), (n, few * times, few * times, b)]
    expect_ratio(attention_bytes, draw, calls, times, f"num_heads = {few * times}")


@check(weight=0.5, needs=[attention_bytes_number])
def attention_bytes_width(attention_bytes, draw):
    """Does not depend on d_model: a weight is one number, no matter how wide the vectors are."""
    n, d_model, num_heads, b = in_memory(draw, 1)[0]
    calls = [(n, d_model, num_heads, b), (n, 3 * d_model, num_heads, b)]
    expect_ratio(attention_bytes, draw, calls, 1, f"d_model = {3 * d_model}")


@check(weight=0.5, needs=[attention_bytes_number])
def attention_bytes_values(attention_bytes, draw):
    """Twice as many bytes per value take twice the memory."""
    for b in VALUE_SIZES[:-1]:
        *rest, _ = in_memory(draw, 1)[0]
        calls = [(*rest, b), (*rest, 2 * b)]
        expect_ratio(attention_bytes, draw, calls, 2, f"bytes_per_value = {2 * b}")


@check(
    weight=2,
    needs=[
        attention_bytes_length,
        attention_bytes_heads,
        attention_bytes_width,
        attention_bytes_values,
    ],
)
def attention_bytes_count(attention_bytes, draw):
    """Returns the size of an array (num_heads, n, n), for different, equal and large sizes and for sizes of 1."""
    n, d_model, num_heads, b = in_memory(draw, 1)[0]
    calls = [
        *in_memory(draw, 4),
        (n, n, n, b),
        (draw.long(), d_model, num_heads, b),
        (n, 520, 520, b),
        (1, d_model, num_heads, b),
        (n, d_model, 1, b),
        (1, 1, 1, 1),
    ]
    expect_counts(
        attention_bytes,
        calls,
        bytes_of_weights,
        BYTES_NAMES,
        lambda: bytes_explained(attention_bytes, draw),
    )


@check(weight=0.5, needs=[attention_bytes_count])
def attention_bytes_large(attention_bytes, draw):
    """Works for a million tokens: nothing overflows, and no array is made."""
    n = 1_000_000 + draw.sizes(1)[0]
    # The first is larger than a process's address space, so that no machine starts to allocate such an array.
    expect_counts(
        attention_bytes,
        [(n, 12288, 96, 4), (n, 4096, 32, 2)],
        bytes_of_weights,
        BYTES_NAMES,
        lambda: "",
    )


@check(weight=0, needs=[attention_bytes_number])
def attention_bytes_refuses(attention_bytes, draw):
    """Raises `ValueError` when num_heads does not divide d_model."""
    for n, num_heads, d_head in (draw.sizes(3) for _ in range(3)):
        for d_model in (num_heads * d_head + 1, num_heads - 1):
            because = Message(
                "{num_heads} heads do not divide d_model = {d_model}",
                num_heads=num_heads,
                d_model=d_model,
            )
            expect_raises([ValueError], attention_bytes, n, d_model, num_heads, 4, because=because)


# parameter_count


def parameters_explained(parameter_count, bias):
    sentence = (
        "With biases, your results are {found}."
        if bias
        else "Without biases, your results are {found}."
    )
    return explained(
        parameter_count, [(d_model, bias) for d_model in PRIMES], COUNT_TERMS, ["d_model"], sentence
    )


def widths(draw):
    """Return widths: two small ones, a long one, and 1."""
    return [*draw.sizes(2), draw.long(), 1]


@check(weight=0.5)
def parameter_count_number(parameter_count, draw):
    """Returns one number, with or without biases."""
    (d_model,) = draw.sizes(1)
    for bias in (True, False):
        as_number(parameter_count(d_model, bias))


@check(weight=2, needs=[parameter_count_number])
def parameter_count_weights(parameter_count, draw):
    """Without biases, returns the number of entries in the four weight matrices."""
    calls = [(d_model, False) for d_model in widths(draw)]
    why = functools.partial(parameters_explained, parameter_count, bias=False)
    expect_counts(parameter_count, calls, numbers_in, ["d_model", "bias"], why)


@check(weight=2, needs=[parameter_count_number])
def parameter_count_biases(parameter_count, draw):
    """With biases, each column of each projection adds one parameter."""
    for d_model in widths(draw):
        with_them, without = (as_number(parameter_count(d_model, bias)) for bias in (True, False))
        more, wanted = with_them - without, numbers_in(d_model, True) - numbers_in(d_model, False)
        if abs(more - wanted) > EXACT * abs(with_them):
            raise failed(
                Message(
                    "For d_model = {d_model}, the result is {with_them} with biases and {without} without. The "
                    "biases make a difference of {more}, and should make one of {wanted}.",
                    d_model=d_model,
                    with_them=written(with_them),
                    without=written(without),
                    more=written(more),
                    wanted=written(wanted),
                ),
                parameters_explained(parameter_count, bias=True),
            )


@check(weight=0.5, needs=[parameter_count_number])
def parameter_count_default(parameter_count, draw):
    """The default is `bias=True`."""
    for d_model in draw.sizes(3):
        # The one before the last is without biases, in case a function remembers what it was called with.
        with_bias, _, default = (
            as_number(parameter_count(d_model, *bias)) for bias in ((True,), (False,), ())
        )
        message = "For d_model = {d_model}, the result is {said} with bias=True, but {unsaid} when `bias` is not given."
        expect(
            with_bias == default,
            Message(message, d_model=d_model, said=written(with_bias), unsaid=written(default)),
        )


@check(weight=0.5, needs=[parameter_count_weights, parameter_count_biases])
def parameter_count_large(parameter_count, draw):
    """Works for a very wide layer: nothing overflows, and no array is made."""
    # The first is larger than a process's address space, so that no machine starts to allocate such an array.
    calls = [
        (d_model + draw.sizes(1)[0], bias)
        for d_model in (12_000_000, 65536)
        for bias in (True, False)
    ]
    expect_counts(parameter_count, calls, numbers_in, ["d_model", "bias"], lambda: "")


# crossover_length


def crossing_explained(crossover_length):
    return explained(crossover_length, [(d,) for d in PRIMES], COUNT_TERMS, ["d_model"])


def expect_crossing(crossover_length, d_model):
    """Fail unless the two products cost as much as the four projections at the length that the function returns."""
    n = as_number(crossover_length(d_model))
    if n <= 0:
        message = Message(
            "For d_model = {d_model}, the length should be above 0, and is {n}.",
            d_model=d_model,
            n=written(n),
        )
        raise failed(message, crossing_explained(crossover_length))
    ratio = two_products(n, d_model) / four_projections(n, d_model)
    if abs(ratio - 1) > EXACT:
        products, projections = (
            written(two_products(n, d_model)),
            written(four_projections(n, d_model)),
        )
        raise failed(
            Message(
                "For d_model = {d_model}, the result is {n}. At that length the two products cost {products} FLOPs, "
                "{ratio} times as much as the four projections, which cost {projections}.",
                d_model=d_model,
                n=written(n),
                products=products,
                ratio=f"{ratio:.6g}",
                projections=projections,
            ),
            crossing_explained(crossover_length),
        )


@check(weight=0.5)
def crossover_length_number(crossover_length, draw):
    """Returns one number, a length."""
    as_number(crossover_length(draw.sizes(1)[0]))


@check(weight=2, needs=[crossover_length_number])
def crossover_length_equal(crossover_length, draw):
    """At that length, the two products cost as much as the four projections."""
    for d_model in draw.sizes(3):
        expect_crossing(crossover_length, d_model)


@check(weight=1, needs=[crossover_length_equal])
def crossover_length_widths(crossover_length, draw):
    """The costs are also equal for d_model = 1, for widths of real models, and for very wide layers."""
    for d_model in (1, 2, draw.long(), 768, 12288 + draw.sizes(1)[0]):
        expect_crossing(crossover_length, d_model)


# fit_exponent


def lengths_of(draw, count):
    """Return `count` lengths in rising order, unevenly spaced: each 1.4 to 3 times the one before."""
    steps = draw.rng.uniform(1.4, 3.0, size=count - 1)
    return np.round(draw.rng.uniform(20, 60) * np.cumprod([1.0, *steps])).astype(np.int64)


def scattered(draw, count, power):
    """Return lengths, and seconds that are off the line n^power: far off at the end, and at one point inside.

    Longer lengths always take longer.
    """
    while True:
        lengths = lengths_of(draw, count)
        off = draw.rng.uniform(-0.15, 0.15, size=count)
        off[-1] += draw.rng.uniform(0.5, 0.8)
        off[draw.rng.integers(1, count - 2)] -= draw.rng.uniform(0.4, 0.6)
        seconds = draw.rng.uniform(1, 9) * 1e-5 * lengths**power * np.exp(off)
        if np.diff(seconds).min() > 0:
            return lengths, seconds


def power_of(draw):
    return float(draw.rng.uniform(1.15, 1.85) + draw.rng.integers(0, 2))


def few(values):
    """Return numbers as text, the first six of them."""
    shown = ", ".join(f"{value:.4g}" for value in list(values)[:6])
    return f"({shown}{', ...' if len(values) > 6 else ''})"


LINE = Message("the slope of the least-squares line")
EXACTLY = Message("the power of n that the seconds follow exactly")


def moved_by(fit_exponent, lengths, seconds):
    """Return a sentence on how much each point's seconds change the result; "" if that is right."""
    if len(seconds) > MOST_POINTS:
        return ""
    doubled = [
        np.where(np.arange(len(seconds)) == i, 2.0, 1.0) * seconds for i in range(len(seconds))
    ]
    try:
        before = as_number(fit_exponent(lengths, seconds))
        got = [as_number(fit_exponent(lengths, changed)) - before for changed in doubled]
    except Failed:
        return ""
    wanted = [slope(lengths, changed) - slope(lengths, seconds) for changed in doubled]
    if max(abs(move - other) for move, other in zip(got, wanted, strict=True)) < MOVED:
        return ""
    got, wanted = (
        ", ".join(f"{round(float(move), 2) + 0.0:.2f}" for move in moves) for moves in (got, wanted)
    )
    return Message(
        "Double the seconds of one point. For the first to the last point, the result changes by {came}, and should "
        "change by {wanted}.",
        came=got, wanted=wanted,
    )  # fmt: skip


def expect_slope(fit_exponent, lengths, seconds, line=LINE, why=None):
    """Fail unless the result is the slope of the least-squares line through the logarithms of these points."""
    got, wanted = as_number(fit_exponent(lengths, seconds)), slope(lengths, seconds)
    if abs(got - wanted) > SLOPE:
        raise failed(
            Message(
                "Expected {wanted}, {line}; got {got}. The lengths are {lengths}, the seconds {seconds}.",
                got=f"{got:.5g}",
                line=line,
                wanted=f"{wanted:.5g}",
                lengths=few(lengths),
                seconds=few(seconds),
            ),
            (why and why()) or moved_by(fit_exponent, lengths, np.asarray(seconds)),
            explained=False,
        )


def after_call(function, *arguments):
    """Return the arguments of a function as they are after a call. This runs in the process of the function."""
    function(*arguments)
    return list(arguments)


def expect_kept(subject, names, *arguments):
    """Fail if a call changes a list or a dictionary among its arguments; `names` names them."""
    after = subject.run_remote(after_call, *arguments)
    for name, argument, before in zip(names, after, arguments, strict=True):
        message = "The argument `{name}` was changed in place, but the caller still needs it. Work with a copy."
        expect(str(argument) == str(before), Message(message, name=name))


@check(weight=0.5)
def fit_exponent_number(fit_exponent, draw):
    """Returns one number."""
    as_number(fit_exponent(*scattered(draw, 6, power_of(draw))))


@check(weight=2, needs=[fit_exponent_number])
def fit_exponent_power(fit_exponent, draw):
    """When the seconds follow a power of n exactly, returns its exponent."""
    lengths = lengths_of(draw, 6)
    calls = [(lengths, draw.rng.uniform(1, 9) * 1e-5 * lengths ** power_of(draw)) for _ in range(6)]
    terms = {"p": slope, "1": lambda *call: 1}
    sentence = "At these lengths, with p for the exponent, your results are {found}."
    why = functools.partial(explained, fit_exponent, calls, terms, told=sentence)
    for points in calls:
        expect_slope(fit_exponent, *points, EXACTLY, why)


@check(weight=3, needs=[fit_exponent_power])
def fit_exponent_line(fit_exponent, draw):
    """For scattered points, returns the slope of the least-squares line, in which all points count equally."""
    for count in (6, 5, 9):
        expect_slope(fit_exponent, *scattered(draw, count, power_of(draw)))


@check(weight=0.5, needs=[fit_exponent_power])
def fit_exponent_falling(fit_exponent, draw):
    """The exponent is negative if the times fall as n grows, and 0 if they are constant."""
    for power in (-power_of(draw), 0.0):
        lengths = lengths_of(draw, 6)
        expect_slope(fit_exponent, lengths, (lengths / lengths[-1]) ** power, EXACTLY)


@check(weight=1, needs=[fit_exponent_line])
def fit_exponent_units(fit_exponent, draw):
    """Does not depend on the units: nanoseconds or years for seconds, thousands of tokens for tokens."""
    lengths, seconds = scattered(draw, 7, power_of(draw))
    for per_token, per_second in [(1, 1e9), (1, 3e-8), (1e-3, 1), (1, 1e-7)]:
        expect_slope(fit_exponent, per_token * lengths, per_second * seconds)


@check(weight=1, needs=[fit_exponent_line])
def fit_exponent_order(fit_exponent, draw):
    """Accepts points in any order, and several measurements of the same length."""
    lengths, seconds = scattered(draw, 8, power_of(draw))
    order = np.roll(draw.rng.permutation(8), 1)
    expect_slope(fit_exponent, lengths[order], seconds[order])
    expect_slope(fit_exponent, lengths[::-1].copy(), seconds[::-1].copy())
    # Times that fall: these are not even in order when lengths and seconds are sorted apart.
    expect_slope(fit_exponent, lengths[order], seconds.max() / seconds[order])
    again = draw.rng.uniform(1.5, 2.5, size=8) * seconds
    expect_slope(fit_exponent, np.repeat(lengths, 2), np.stack([seconds, again], axis=1).ravel())
    expect_slope(fit_exponent, np.tile(lengths, 2), np.concatenate([seconds, again]))
    # One length more often than others: the last one, which is far off the line.
    often = np.append(np.arange(8), [7, 7, 7])
    expect_slope(
        fit_exponent, lengths[often], np.append(seconds, again[-1] * np.array([1.0, 1.2, 1.4]))
    )


@check(weight=0.5, needs=[fit_exponent_line])
def fit_exponent_counts(fit_exponent, draw):
    """Works for two points, and for hundreds."""
    lengths, seconds = scattered(draw, 5, power_of(draw))
    expect_slope(fit_exponent, lengths[2:4], seconds[2:4])
    many = np.arange(1, draw.long() + 1) * 8
    off = np.where(np.arange(len(many)) < 512, 0.0, 1.5) + draw.rng.uniform(
        -0.1, 0.1, size=len(many)
    )
    expect_slope(fit_exponent, many, 1e-4 * many ** power_of(draw) * np.exp(off))


@check(weight=0.5, needs=[fit_exponent_line])
def fit_exponent_lists(fit_exponent, draw):
    """Accepts lists of numbers as well as arrays."""
    lengths, seconds = scattered(draw, 6, power_of(draw))
    expect_slope(fit_exponent, lengths.tolist(), seconds.tolist())


@check(weight=0, needs=[fit_exponent_number])
def fit_exponent_refuses(fit_exponent, draw):
    """Raises `ValueError` when there are not as many seconds as lengths, even if one of the two has length 1."""
    lengths, seconds = scattered(draw, 7, power_of(draw))
    for left, right in [(7, 6), (5, 6), (7, 1), (1, 7)]:
        because = Message("there are {left} lengths and {right} seconds", left=left, right=right)
        expect_raises([ValueError], fit_exponent, lengths[:left], seconds[:right], because=because)


@check(weight=0.5, needs=[fit_exponent_number])
def fit_exponent_inputs(fit_exponent, draw):
    """Does not change `lengths` and `seconds`, arrays or lists; arrays may be read-only."""
    lengths, seconds = scattered(draw, 6, power_of(draw))
    lengths, seconds = lengths[::-1].astype(float), seconds[::-1].copy()
    expect_inputs_kept(fit_exponent, ["lengths", "seconds"], lengths, seconds)
    expect_kept(fit_exponent, ["lengths", "seconds"], lengths.tolist(), seconds.tolist())


# decode_bytes


MODEL_NAMES = [
    "num_layers",
    "d_model",
    "num_kv_heads",
    "d_head",
    "num_parameters",
    "bytes_per_number",
]
DECODE_NAMES = ["batch", "context", *MODEL_NAMES]
REAL = [  # real models, with 8 and with 70 billion parameters
    {"num_layers": 32, "d_model": 4096, "num_kv_heads": 8, "num_parameters": 8_030_261_248},
    {"num_layers": 80, "d_model": 8192, "num_kv_heads": 8, "num_parameters": 70_553_706_496},
]


def models(draw, count):
    """Return `count` models, in which several query heads share one key head; most numbers have several bytes."""
    drawn = []
    for size in draw.rng.permutation(np.resize([2, 4, 1], count)):
        num_layers, num_kv_heads, d_head = draw.sizes(3)
        d_model = num_kv_heads * d_head * int(draw.rng.choice([2, 4]))
        numbers = int(draw.rng.integers(2000, 50000)), int(size)
        drawn.append(
            dict(
                zip(MODEL_NAMES, (num_layers, d_model, num_kv_heads, d_head, *numbers), strict=True)
            )
        )
    return drawn


def steps(draw, count):
    """Return the arguments of `count` decoding steps."""
    return [(*draw.sizes(2), *model.values()) for model in models(draw, count)]


def decode_explained(decode_bytes, draw):
    return explained(decode_bytes, steps(draw, 30), DECODE_TERMS)


@check(weight=0.5)
def decode_bytes_number(decode_bytes, draw):
    """Returns one number."""
    as_number(decode_bytes(*steps(draw, 1)[0]))


def expect_read(decode_bytes, draw, part_of, wanted_of, message):
    """Fail with a message unless a part of the bytes, computed from those for c and for 2 c, is right."""
    for batch, context, *model in steps(draw, 3):
        once, twice = (
            as_number(decode_bytes(batch, length, *model)) for length in (context, 2 * context)
        )
        part, wanted = part_of(once, twice), wanted_of(batch, context, *model)
        if abs(part - wanted) > EXACT * abs(once):
            text = Message(
                message,
                arguments=named((batch, context, *model), DECODE_NAMES),
                double=2 * context,
                once=written(once),
                twice=written(twice),
                part=written(part),
                wanted=written(wanted),
            )
            raise failed(text, decode_explained(decode_bytes, draw))


@check(weight=1.5, needs=[decode_bytes_number])
def decode_bytes_parameters(decode_bytes, draw):
    """The part that does not depend on the context is the bytes of all parameters, once for the whole batch."""
    expect_read(
        decode_bytes,
        draw,
        lambda once, twice: 2 * once - twice,
        lambda *call: read_in_a_step(*call) - cached(*call),
        "For {arguments}, the result is {once}; for context = {double}, it is {twice}. The part of the first that "
        "does not depend on the context should be {wanted}, and is {part}.",
    )


@check(weight=2, needs=[decode_bytes_number])
def decode_bytes_caches(decode_bytes, draw):
    """The part proportional to the context is the bytes of the caches of all texts."""
    expect_read(
        decode_bytes,
        draw,
        lambda once, twice: twice - once,
        cached,
        "For {arguments}, the result is {once}; for context = {double}, it is {twice}. The part of the first that is "
        "proportional to the context should be {wanted}, and is {part}.",
    )


@check(weight=1.5, needs=[decode_bytes_parameters, decode_bytes_caches])
def decode_bytes_values(decode_bytes, draw):
    """Returns the right count for different sizes, equal sizes, long texts, and sizes of 1."""
    (k,) = draw.sizes(1)
    batch, context, *model = steps(draw, 1)[0]
    calls = [
        *steps(draw, 4),
        (k, k, k, k, 1, k, k, 2),
        (batch, draw.long(), *model),
        (draw.long(), context, *model),
        (1, context, *model),
        (batch, 1, *model),
        (1, 1, 1, 1, 1, 1, 1, 1),
    ]
    why = functools.partial(decode_explained, decode_bytes, draw)
    expect_counts(decode_bytes, calls, read_in_a_step, DECODE_NAMES, why)


@check(weight=0.5, needs=[decode_bytes_values])
def decode_bytes_large(decode_bytes, draw):
    """Works for models with billions of parameters: nothing overflows, and no array is made."""
    contexts = 1_000_000 + draw.sizes(1)[0], 8192
    calls = [
        (
            batch,
            context,
            model["num_layers"],
            model["d_model"],
            model["num_kv_heads"],
            128,
            model["num_parameters"],
            2,
        )
        for model, batch, context in zip(REAL, (16, 3), contexts, strict=True)
    ]
    expect_counts(decode_bytes, calls, read_in_a_step, DECODE_NAMES, lambda: "")


# least_seconds


STEP_NAMES = ["operations", "moved_bytes", "operations_per_second", "bytes_per_second"]


def bound_by(draw, arithmetic, orders=None):
    """Return a step and a machine, (operations, moved_bytes, operations_per_second, bytes_per_second).

    The time of arithmetic is 1.3 to 2.5 times that of moving bytes, or vice versa. The machine's bandwidth is the
    larger of its two numbers by so many powers of ten.
    """
    longer_one = float(draw.rng.uniform(0.2, 5))
    shorter = longer_one / float(draw.rng.uniform(1.3, 2.5))
    speed = float(draw.rng.uniform(20, 90))
    orders = float(draw.rng.uniform(0.3, 0.9)) if orders is None else orders
    bandwidth = speed * 10**orders
    times = (longer_one, shorter) if arithmetic else (shorter, longer_one)
    return times[0] * speed, times[1] * bandwidth, speed, bandwidth


def expect_longer(least_seconds, draw, arithmetic):
    """Fail unless the longer time is returned: for fast machines, for fast memory, and where the two are close."""
    apart = [sign * float(draw.rng.uniform(0.3, 0.9)) for sign in (1, -1) * 5]
    calls = [bound_by(draw, arithmetic, orders) for orders in (*apart, 0.08, -0.08)]
    why = functools.partial(explained, least_seconds, calls, SECONDS_TERMS)
    expect_counts(least_seconds, calls, longer, STEP_NAMES, why)


@check(weight=0.5)
def least_seconds_number(least_seconds, draw):
    """Returns one number."""
    as_number(least_seconds(*bound_by(draw, True)))


@check(weight=1, needs=[least_seconds_number])
def least_seconds_arithmetic(least_seconds, draw):
    """When arithmetic takes longer than moving the bytes, returns the time for arithmetic."""
    expect_longer(least_seconds, draw, True)


@check(weight=1, needs=[least_seconds_number])
def least_seconds_traffic(least_seconds, draw):
    """When moving the bytes takes longer than arithmetic, returns the time for moving them."""
    expect_longer(least_seconds, draw, False)


@check(weight=0.5, needs=[least_seconds_arithmetic, least_seconds_traffic])
def least_seconds_machines(least_seconds, draw):
    """Works for steps without operations or without bytes, for integers, and for machines of any size."""
    operations, moved, speed, bandwidth = bound_by(draw, True)
    calls = [
        (0, moved, speed, bandwidth),
        (operations, 0, speed, bandwidth),
        (600, 200, 300, 50),
        (900, 200, 300, 100),
    ]
    for scale in (1e12, 1e15, 1e-6):
        calls += [
            (scale * a, scale * b, scale * c, scale * d)
            for a, b, c, d in [bound_by(draw, by_bytes) for by_bytes in (True, False)]
        ]
    calls += [
        (c * 1e-6, 0.5 * d * 1e-6, c, d) for _, _, c, d in [bound_by(draw, True)]
    ]  # a microsecond
    expect_counts(least_seconds, calls, longer, STEP_NAMES, lambda: "")


# critical_batch


BATCH_NAMES = ["operations_per_second", "bytes_per_second", "bytes_per_number"]


def rates(draw, count):
    """Return `count` machines, with the bytes of a number."""
    sizes = each_of(draw, [0.5, 1, 2, 4, 8], count)
    speeds, bandwidths = draw.rng.uniform(500, 900, count), draw.rng.uniform(3, 90, count)
    return [tuple(map(float, machine)) for machine in zip(speeds, bandwidths, sizes, strict=True)]


@check(weight=0.5)
def critical_batch_number(critical_batch, draw):
    """Returns one number."""
    as_number(critical_batch(*rates(draw, 1)[0]))


def expect_balanced(critical_batch, calls):
    """Fail unless each result is the batch at which the operations of a parameter take as long as reading it."""
    for call in calls:
        batch = as_number(critical_batch(*call))
        arithmetic, reading = balanced(batch, *call)
        if abs(arithmetic - reading) > EXACT * reading:
            message = Message(
                "For {arguments}, the result is {batch}. With so many texts, the operations of each parameter take "
                "{arithmetic} seconds, and reading it takes {reading}.",
                arguments=named([f"{number:.6g}" for number in call], BATCH_NAMES),
                batch=written(batch),
                arithmetic=f"{arithmetic:.6g}",
                reading=f"{reading:.6g}",
            )
            relation = (
                explained(critical_batch, calls, {"1": lambda *call: 1.0}, BATCH_NAMES)
                if len(calls) > 9
                else ""
            )
            raise failed(message, relation, explained=False)


@check(weight=2, needs=[critical_batch_number])
def critical_batch_balanced(critical_batch, draw):
    """For that batch, the operations with a matrix take as long as reading it."""
    expect_balanced(critical_batch, rates(draw, 24))


@check(weight=0.5, needs=[critical_batch_balanced])
def critical_batch_machines(critical_batch, draw):
    """Works for fast machines, and returns less than 1 when arithmetic limits even one text."""
    calls = [(3e12 * speed, 2e10 * bandwidth, size) for speed, bandwidth, size in rates(draw, 3)]
    calls += [(bandwidth, speed, size) for speed, bandwidth, size in rates(draw, 3)]
    expect_balanced(critical_batch, [*calls, (990, 30, 2), (7, 2, 1)])


# largest_batch


MACHINE_NAMES = ["memory_bytes", "operations_per_second", "bytes_per_second"]
FAR = 4.0


def limited(draw, by, batch, model=None, context=None):
    """Return arguments of `largest_batch` for which the result is `batch`; the other limits are FAR times as large.

    `by` is "memory", "bytes" or "operations". The limit is between that batch and the next one, far from both.
    Without a model, the parameters are 0.8 to 3 times as many as the numbers in the cache of a text.
    """
    context = context or draw.sizes(1)[0]
    if model is None:
        model = models(draw, 1)[0]
        numbers = cached(1, context, *model.values()) // model["bytes_per_number"]
        model["num_parameters"] = int(numbers * draw.rng.uniform(0.8, 3))
    parameters = model["num_parameters"] * model["bytes_per_number"]
    cache = cached(1, context, *model.values())
    work = limits(context, model, {"operations_per_second": 1.0}, 1.0)["work"]
    off = float(draw.rng.uniform(0.25, 0.75))
    allowed = {
        limit: (batch + off) * (1.0 if limit == by else FAR)
        for limit in ("memory", "bytes", "operations")
    }
    seconds = float(draw.rng.uniform(0.05, 0.5))
    machine = {
        "memory_bytes": int(parameters + cache * allowed["memory"]),
        "operations_per_second": work * allowed["operations"] / seconds,
        "bytes_per_second": (parameters + cache * allowed["bytes"]) / seconds,
    }
    return context, model, machine, seconds


def expect_batch(largest_batch, cases):
    """Fail unless the result is the largest batch that all limits allow; say what each alone would allow."""
    largest_batch.ahead(cases)
    for context, model, machine, seconds in cases:
        got = as_number(largest_batch(context, model, machine, seconds))
        most = limits(context, model, machine, seconds)
        if got != most["batch"]:
            message = Message(
                "For context = {context}, {model}, {machine} and seconds = {seconds}, expected {wanted}, got {got}. "
                "Memory alone would allow {memory}, the bytes of a step {bytes}, and its operations {operations}.",
                context=context,
                model=named(model.values(), model),
                machine=named([f"{number:.6g}" for number in machine.values()], machine),
                seconds=f"{seconds:.4g}",
                wanted=most["batch"],
                got=written(got),
                **{limit: most[limit] for limit in ("memory", "bytes", "operations")},
            )
            raise Failed(message, explained=False)


@check(weight=0.5)
def largest_batch_number(largest_batch, draw):
    """Returns one number."""
    as_number(largest_batch(*limited(draw, "memory", 7)))


def batches(draw):
    """Return four batches, one of them above 30."""
    return [
        int(batch)
        for batch in draw.rng.permutation([*draw.rng.integers(5, 40, 3), draw.rng.integers(31, 40)])
    ]


@check(weight=1.5, needs=[largest_batch_number])
def largest_batch_memory(largest_batch, draw):
    """When memory is the limit, returns the number of caches that fit next to the parameters."""
    expect_batch(largest_batch, [limited(draw, "memory", batch) for batch in batches(draw)])


@check(weight=1.5, needs=[largest_batch_number])
def largest_batch_bytes(largest_batch, draw):
    """When moving the bytes is the limit, returns the largest batch whose bytes are moved in time."""
    expect_batch(largest_batch, [limited(draw, "bytes", batch) for batch in batches(draw)])


@check(weight=1.5, needs=[largest_batch_number])
def largest_batch_operations(largest_batch, draw):
    """When arithmetic is the limit, returns the largest batch whose operations are done in time."""
    expect_batch(largest_batch, [limited(draw, "operations", batch) for batch in batches(draw)])


@check(weight=0.5, needs=[largest_batch_memory, largest_batch_bytes, largest_batch_operations])
def largest_batch_none(largest_batch, draw):
    """Returns 0 if not even one text fits into memory or gets its token in time, and 1 if only one does."""
    cases = [
        limited(draw, by, batch) for by in ("memory", "bytes", "operations") for batch in (0, 1)
    ]
    for by in ("memory_bytes", "bytes_per_second"):  # the parameters alone are too much
        context, model, machine, seconds = limited(draw, "operations", 9)
        cases.append(
            (context, model, {**machine, by: type(machine[by])(machine[by] / 100)}, seconds)
        )
    expect_batch(largest_batch, cases)


@check(weight=0.5, needs=[largest_batch_memory])
def largest_batch_full(largest_batch, draw):
    """Accepts a batch that fills the memory to the last byte, and rejects it if there is one byte less."""
    cases = []
    for batch in batches(draw):
        context, model, machine, seconds = limited(draw, "memory", batch)
        full = read_in_a_step(batch, context, *model.values())
        cases += [
            (context, model, {**machine, "memory_bytes": memory}, seconds)
            for memory in (full, full - 1)
        ]
    expect_batch(largest_batch, cases)


@check(weight=0.5, needs=[largest_batch_number])
def largest_batch_kept(largest_batch, draw):
    """Does not change `model` and `machine`."""
    expect_kept(
        largest_batch, ["context", "model", "machine", "seconds"], *limited(draw, "memory", 7)
    )


@check(weight=0.5, needs=[largest_batch_memory, largest_batch_bytes, largest_batch_operations])
def largest_batch_large(largest_batch, draw):
    """Works for models with billions of parameters, thousands of texts, and long texts."""
    real = {name: {**REAL[0], "d_head": 128, "bytes_per_number": 2}[name] for name in MODEL_NAMES}
    alike = dict.fromkeys(MODEL_NAMES, 4) | {"d_model": 16, "num_parameters": 4000}
    cases = [limited(draw, by, 20, real, 8192) for by in ("memory", "bytes", "operations")]
    cases += [limited(draw, by, 5 * draw.long()) for by in ("memory", "operations")]
    cases += [limited(draw, by, 11, alike, 4 * draw.long()) for by in ("bytes", "operations")]
    expect_batch(largest_batch, cases)


# Counts are whole numbers


def whole_for(arguments):
    """Return a check of a counting function: it is advice, since a float is right up to its precision."""

    def whole(function, draw):
        """The count is an `int`, which keeps all digits."""
        result = function(*arguments)
        as_number(result)
        message = (
            "Expected an int, got {found}. `/` always returns a float; `//` of two ints is an int."
        )
        expect(isinstance(result, (int, np.integer)), Message(message, found=describe(result)))

    return whole


for name, arguments in [
    ("attention_flops", (2, 4, 2)),
    ("attention_bytes", (2, 4, 2, 2)),
    ("parameter_count", (4,)),
    ("crossover_length", (4,)),
    ("decode_bytes", (2, 3, 1, 8, 2, 2, 10, 2)),
    (
        "largest_batch",
        (
            3,
            dict(zip(MODEL_NAMES, (1, 8, 2, 2, 10, 2), strict=True)),
            dict.fromkeys(MACHINE_NAMES, 200),
            9,
        ),
    ),
]:
    suite.check_each(name, weight=0, needs=["number"])(whole_for(arguments))

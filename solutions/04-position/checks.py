"""Checks of exercise 4. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Results are compared with `specifications`, which computes them in another way than you are asked to: row by row for
the gap, number by number for the encoding, and with complex numbers for the rotation. It is in checking.zip together
with the runtime, `checking`, so that no one sees an answer by accident. The default tolerance is `RTOL` in
`checking/expect.py`. The course's tests measure how far right answers stay below it and known mistakes above it.

A right answer may compute its angles in float32. The frequency w = base^(-2i/d) then has a relative error of a few
times 2^-24, and so does the angle p w, which is off by at most about 4 * 6e-8 * p. (The rounding of the exponent
itself counts ln(base) * 2i/d times, but w is smaller by e to that power, so the product stays below p.) For positions
up to 100 this is 2.4e-5, below `RTOL`. `LONG` is for positions up to 1000: 2.4e-4, with a factor of 4 to spare.
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

from checking import (
    REPEATED,
    Failed,
    Message,
    Suite,
    expect,
    expect_agrees,
    expect_array,
    expect_by_hand,
    expect_close,
    expect_dtypes,
    expect_inputs_kept,
    expect_raises,
    noncontiguous,
    told_by,
)
from checking.expect import RTOL, describe
from specifications import encoding_by_number, gap_row_by_row, rotated

LONG = 1e-3

# float16 keeps 11 bits: half a unit in the last place is 2.4e-4 for a sine or cosine, and at most 4.9e-4 for a
# product below 2 and 9.8e-4 for a sum below 4. With |x|, |y| <= 1.5, a right answer that multiplies in float16 is
# off by at most 1.5 * 2 * 2.4e-4 + 2 * 4.9e-4 + 9.8e-4 = 2.7e-3, and the tolerance is relative to numbers near 1.5.
HALF = 5e-3

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 4, Rotary encodings",
        "permutation_gap": "chapter 4, The mathematics: attention can't see order",
        "sinusoidal_encoding": "chapter 4, Sinusoidal encodings",
        "rotary": "chapter 4, Rotary encodings",
    },
)
check = suite.check
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset


# by_hand


@check()
def by_hand_turned(by_hand, draw):
    """Returns the two pairs, each rotated by its own angle."""
    expect_by_hand(by_hand(), rotated(np.array([[1.0, 2, 3, 1]]), np.array([math.pi]), base=4.0)[0])


# permutation_gap


def cycle(draw, n):
    """Return a permutation that is one cycle of all n places: every place moves, and it is not its own inverse."""
    order = draw.rng.permutation(n)
    permutation = np.empty(n, dtype=np.int64)
    permutation[order] = np.roll(order, -1)
    return permutation


def long_and_narrow(draw):
    """Return n and d, with n > d: with at least 5 places, an inverse differs from a missing permutation."""
    d, n = sorted(draw.sizes(2))
    return n, d


def rows(X, d):
    """Return `X` as an array of shape (n, d); raise `ValueError` for another shape."""
    if np.ndim(X) != 2 or np.shape(X)[1] != d:
        raise ValueError(
            f"attend takes an array of shape (n, {d}), and got one of shape {np.shape(X)}"
        )
    return np.asarray(X)


def self_attention(draw, d, d_v):
    """Return self-attention (n, d) -> (n, d_v) without positions.

    A word's own value is added to its result, so that no two rows of the result are equal.
    """
    W_q, W_k, W_v = (draw.array(d, width) / np.sqrt(d) for width in (d, d, d_v))

    def attend(X):
        X = rows(X, d)
        S, V = X @ W_q @ (X @ W_k).T, X @ W_v
        E = np.exp(S - S.max(-1, keepdims=True))
        return V + E / E.sum(-1, keepdims=True) @ V

    return attend


def running_sum(W):
    """Return a function that computes the running sum of the rows of `X` @ `W`."""
    return lambda X: np.cumsum(rows(X, len(W)) @ W, axis=0)


def with_steps(draw, permutation, d, peak, size):
    """Return a function that adds different numbers at each place, so that the gap is 3 |size|, at row `peak`.

    Along the permutation the numbers rise in small steps and fall once: in one column the difference is 3 at
    `peak`, and at most 0.75, with the other sign, elsewhere. Other columns differ by less than 2.4. All times `size`.
    """
    n = len(permutation)
    table = 0.8 * draw.array(n, d)
    # At the peak, all columns differ by at least 0.8, so that the norm of a row is not its largest number.
    table[peak], table[permutation[peak]] = np.abs(table[peak]), -np.abs(table[permutation[peak]])
    column, row = draw.rng.integers(1, d - 1), permutation[peak]
    for height in range(n):
        table[row, column] = 3 * height / (n - 1)
        row = permutation[row]
    return lambda X: rows(X, d) + size * table


def expect_gap(permutation_gap, attend, X, permutation, what):
    """Fail unless the gap equals that of a row-by-row comparison; `what` names the function `attend`."""
    expected = gap_row_by_row(attend, X, permutation)
    # Below 1e-9 it is rounding of numbers around 1, so the gap is 0; the gaps drawn here are above 1e-4 or 0.
    expected = np.asarray(expected if expected > 1e-9 else 0.0)
    taken = []  # the arguments of `attend`

    def noted(argument):
        result = attend(argument)
        taken.append(np.array(argument))
        return result

    before = X.copy()
    got = as_number(permutation_gap(noted, X, permutation))
    if not np.abs(got - expected) <= RTOL * (expected or 1):
        message = "Expected the gap {wanted}, got {got}, for {function}."
        values = {"wanted": f"{expected:.4g}", "got": f"{got:.4g}", "function": what}
        failed = Failed(Message(message, **values), (), expected, got, np.asarray(True))
        failed.relation = without_a_call(taken, before, permutation) or one_of_them(
            got, attend, before, permutation
        )
        raise failed


def without_a_call(taken, X, permutation):
    """Return a sentence on which of the two compared inputs `attend` was not called with; "" if it got both."""

    def was_called_with(array):
        return any(
            argument.shape == array.shape and np.allclose(argument, array) for argument in taken
        )

    if len(X) > 1 and taken and all(len(argument) == 1 for argument in taken):
        return Message(
            "`attend` was called with one word at a time, and a single word can only attend to itself."
        )
    if was_called_with(X[permutation]):
        return "" if was_called_with(X) else Message("`attend` was never called with X itself.")
    if taken and all(argument.shape == X.shape and np.allclose(argument, X) for argument in taken):
        return Message("`attend` was called only with X. Also call it with X[permutation].")
    return Message("`attend` was never called with X[permutation].")


def one_of_them(got, attend, X, permutation):
    """Return a sentence on which difference the number is, or which statistic of all of them; "" if none."""
    differences = attend(X[permutation]) - attend(X)[permutation]
    sizes = np.abs(differences)
    if np.abs(got - np.abs(differences.mean(0)).max()) <= RTOL * got + 1e-12:
        return Message(
            "The means over all places differ by this number. Compare the results row by row."
        )
    for what, number in [
        (Message("the sum"), sizes.sum()),
        (Message("the mean"), sizes.mean()),
        (Message("the median"), np.median(sizes)),
        (Message("the root of the sum of squares"), np.linalg.norm(sizes)),
    ]:
        if sizes.size > 1 and np.abs(got - number) <= RTOL * number:
            return Message("The number is {what} of all absolute differences.", what=what)
    largest = np.unravel_index(sizes.argmax(), sizes.shape)
    matches = np.argwhere(np.abs(sizes - np.abs(got)) <= RTOL * np.abs(got))
    if len(matches) != 1 or tuple(matches[0]) == largest:
        return ""
    (row, column), (i, j) = map(int, matches[0]), map(int, largest)
    return Message(
        "The number is one of the differences, the one in row {row}, column {column}. The largest, {most}, is in "
        "row {i}, column {j}.",
        row=row, column=column, most=f"{differences[i, j]:.4g}", i=i, j=j,
    )  # fmt: skip


def as_number(gap):
    """Return the result as an array without axes; fail if it is not a number."""
    if isinstance(gap, (bool, np.bool_)):
        raise Failed(
            Message(
                "Expected a number, got {gap}. The gap says how far apart the results are, not whether they differ.",
                gap=str(gap),
            ),
            explained=True,
        )
    array = np.asarray(gap)
    if array.ndim or array.dtype.kind not in "iuf":
        raise Failed(
            Message("Expected one number, got {found}.", found=describe(gap)), explained=True
        )
    return array.astype(float)


@check(weight=1)
def gap_number(permutation_gap, draw):
    """Returns one number, not an array or a truth value."""
    n, d = long_and_narrow(draw)
    layer, P = self_attention(draw, d, d), draw.array(n, d)
    as_number(permutation_gap(lambda X: layer(rows(X, d) + P), draw.array(n, d), cycle(draw, n)))


@check(weight=2, needs=[gap_number])
def gap_equivariant(permutation_gap, draw):
    """Returns 0, up to rounding, for self-attention without positions: its rows move along with the words."""
    n, d = long_and_narrow(draw)
    what = Message("self-attention without positions")
    expect_gap(permutation_gap, self_attention(draw, d, d), draw.array(n, d), cycle(draw, n), what)


@check(weight=3, needs=[gap_equivariant])
def gap_values(permutation_gap, draw):
    """Returns the largest absolute difference, in any row or column, whether it is positive or negative."""
    n, d = long_and_narrow(draw)
    # Also as many places as numbers in a word, small numbers, and hundreds of places.
    long = draw.long()
    middle, late = draw.rng.integers(1, n - 1), long - 3
    for shape, peak, size in [
        ((n, d), middle, 1),
        ((n, n), 0, -1e-4),
        ((n, d), n - 1, -1),
        ((long, 3), late, 1),
    ]:
        permutation = cycle(draw, shape[0])
        attend = with_steps(draw, permutation, shape[1], peak, size)
        what = Message(
            "a function that adds different numbers at each place; the differences are largest in row {peak}",
            peak=str(peak),
        )
        expect_gap(
            permutation_gap,
            attend,
            noncontiguous(abs(size) * draw.array(*shape)),
            permutation,
            what,
        )


@check(weight=2, needs=[gap_equivariant])
def gap_functions(permutation_gap, draw):
    """Works for any function of a sequence: one that counts places, looks back, or returns another width."""
    n, d, d_v = draw.sizes(3)
    X, permutation = draw.array(n, d), cycle(draw, n)
    # The results of W are small, so that rounding them shows.
    P, W, layer = draw.array(n, d), 1e-3 * draw.array(d, d_v), self_attention(draw, d, d_v)
    for what, attend in [
        (Message("self-attention with positions added"), lambda X: layer(rows(X, d) + P)),
        (Message("a running sum over the places"), running_sum(np.eye(d))),
        (Message("a function that reverses the places"), lambda X: (rows(X, d) @ W)[::-1].copy()),
        (
            Message("a function that looks only at the first place"),
            lambda X: np.tile(rows(X, d)[0] @ W, (len(X), 1)),
        ),
    ]:
        expect_gap(permutation_gap, attend, X, permutation, what)
    # The last word moves to the first place, and no other one as far; then the first word to the last place.
    order = np.concatenate([[0, n - 1], draw.rng.permutation(np.arange(1, n - 1))])
    first = np.empty(n, dtype=np.int64)
    first[order] = np.roll(order, -1)
    what = Message("a function that appends each row's place")
    for permutation in (first, np.argsort(first)):
        expect_gap(
            permutation_gap,
            lambda X: np.column_stack([rows(X, d), np.arange(len(X))]),
            X,
            permutation,
            what,
        )


@check(weight=1, needs=[gap_values])
def gap_ones(permutation_gap, draw):
    """Works for sizes of 1: one place, one number in a vector, one in a result. The identity gives the gap 0."""
    n, d, d_v = draw.sizes(3)
    for length, width, out in [(1, d, d_v), (n, 1, d_v), (n, d, 1)]:
        what = Message(
            "a running sum with n = {length}, d = {width} and d_v = {out}",
            length=length,
            width=width,
            out=out,
        )
        attend, X = running_sum(draw.array(width, out)), draw.array(length, width)
        expect_gap(permutation_gap, attend, X, cycle(draw, length), what)
    what = Message("a running sum when every place stays where it is")
    expect_gap(permutation_gap, running_sum(np.eye(d)), draw.array(n, d), np.arange(n), what)


@check(weight=0, needs=[gap_equivariant])
def gap_refuses(permutation_gap, draw):
    """Raises `ValueError` when the permutation is not of length n: shorter, longer, or of length 1."""
    n, d = long_and_narrow(draw)
    attend, X = self_attention(draw, d, d), draw.array(n, d)
    for length in (n - 2, 1, n + 2):
        because = Message("n is {n} in X, but {length} in the permutation", n=n, length=length)
        expect_raises(
            [ValueError], permutation_gap, attend, X, cycle(draw, length), because=because
        )


@check(weight=0.5, needs=[gap_number])
def gap_inputs(permutation_gap, draw):
    """Does not change `X` or `permutation`, and accepts read-only arrays."""
    n, d = long_and_narrow(draw)
    attend, X, permutation = self_attention(draw, d, d), draw.array(n, d), cycle(draw, n)
    expect_inputs_kept(permutation_gap, ["attend", "X", "permutation"], attend, X, permutation)


# sinusoidal_encoding


def table_sizes(draw):
    """Return n, odd and large enough for the slower columns to change, and an even d_model."""
    n, half = draw.sizes(2)
    return 16 + n, 2 * half


@check(weight=1)
def sinusoidal_shape(sinusoidal_encoding, draw):
    """Returns an array of shape (n, d_model), in float32 or float64, with a row for each position."""
    n, d_model = table_sizes(draw)
    P = expect_array(sinusoidal_encoding(n, d_model), (n, d_model))
    fine = P.dtype.kind == "f" and P.dtype.itemsize >= 4
    expect(
        fine,
        Message(
            "Expected float32 or float64, got {dtype}, which loses decimals.", dtype=str(P.dtype)
        ),
    )


@check(weight=1, needs=[sinusoidal_shape])
def sinusoidal_start(sinusoidal_encoding, draw):
    """Row 0 is 0, 1, 0, 1, and so on: the sine of 0 in even columns, the cosine of 0 in odd columns."""
    n, d_model = table_sizes(draw)
    P = expect_array(sinusoidal_encoding(n, d_model))
    expect_close(P[0], np.arange(d_model) % 2.0, what=Message("row 0"))


@check(weight=1, needs=[sinusoidal_start])
def sinusoidal_first_pair(sinusoidal_encoding, draw):
    """Columns 0 and 1 are sin p and cos p, because the power of 10000 is 1 there."""
    n, d_model = table_sizes(draw)
    P = expect_array(sinusoidal_encoding(n, d_model))
    expect_close(
        P[:, :2],
        np.array([[math.sin(p), math.cos(p)] for p in range(n)]),
        what=Message("columns 0 and 1"),
    )


def other_base(got, of_base):
    """Return a sentence that names the base that was used instead of 10000; "" if it is none of the usual ones."""
    for base in (10, 100, 1000, 100_000, 500_000, 1_000_000):
        if np.allclose(got, of_base(base), rtol=0, atol=RTOL):
            return Message(
                "The result is right for base {base}. The base is 10000.", base=str(base)
            )
    return ""


@check(weight=3, needs=[sinusoidal_first_pair])
def sinusoidal_values(sinusoidal_encoding, draw):
    """Columns 2i and 2i + 1 are the sine and the cosine of p / 10000^(2i / d_model)."""
    n, d_model = table_sizes(draw)
    P = sinusoidal_encoding(n, d_model)
    with told_by(other_base, P, lambda base: encoding_by_number(n, d_model, base)):
        expect_close(P, encoding_by_number(n, d_model))
    # As wide as long. The sines in the slow columns are small: they are compared relative to their first step.
    steps = 10000.0 ** -(np.arange(0, d_model, 2) / d_model)
    unit = np.stack([steps, np.ones_like(steps)], axis=-1).ravel()  # (d_model,)
    expect_agrees(sinusoidal_encoding, encoding_by_number, d_model, d_model, unit=unit)
    # Far wider than long.
    expect_agrees(sinusoidal_encoding, encoding_by_number, 3, draw.long() // 2 * 2)


@check(weight=1, needs=[sinusoidal_values])
def sinusoidal_ones(sinusoidal_encoding, draw):
    """Keeps small dimensions: one position gives one row, and d_model = 2 gives a single pair."""
    n, d_model = table_sizes(draw)
    for sizes in [(1, d_model), (n, 2), (1, 2)]:
        expect_agrees(sinusoidal_encoding, encoding_by_number, *sizes)


@check(weight=1, needs=[sinusoidal_values])
def sinusoidal_long(sinusoidal_encoding, draw):
    """Works for any length: positions beyond 512, a common table size, are accurate to float32 precision."""
    n, d_model = table_sizes(draw)
    expect_agrees(sinusoidal_encoding, encoding_by_number, 700 + 10 * n, d_model, rtol=LONG)


@check(weight=0, needs=[sinusoidal_shape])
def sinusoidal_refuses(sinusoidal_encoding, draw):
    """Raises `ValueError` when d_model is odd, even if it is 1."""
    n, d_model = table_sizes(draw)
    for odd in (d_model + 1, 1):
        error = sinusoidal_encoding.error(n, odd)
        asked = Message(
            "sinusoidal_encoding should raise ValueError for n = {n} and d_model = {odd}, which is odd",
            n=n,
            odd=odd,
        )
        if error is None:
            result = describe(sinusoidal_encoding.calls[-1].result)
            raise Failed(
                Message("{asked}, but returned {found}.", asked=asked, found=result), explained=True
            )
        if not isinstance(error, ValueError):
            values = {"asked": asked, "kind": type(error).__name__, "error": str(error)}
            message = Message("{asked}, but raised {kind}: {error}", **values)
            raise Failed(message, ["the mistake is noticed"], explained=True)


# rotary


def pair_sizes(draw, least=3):
    """Return n, and d for a number of pairs that is at least `least` and not n."""
    n, half = draw.sizes(2)
    return n, 2 * max(half, least + 1 if n == least else least)


def places(draw, n, most=40):
    """Return n different positions from 2 to `most` + 2, in random order."""
    return 2 + draw.rng.permutation(most)[:n]


@check(weight=1)
def rotary_shape(rotary, draw):
    """Returns an array of shape (n, d) for `X` (n, d) and `positions` (n,)."""
    n, d = pair_sizes(draw)
    result = rotary(draw.array(n, d), places(draw, n))
    expect(not np.iscomplexobj(result), "Expected real numbers, got complex numbers.")
    expect_array(result, (n, d))


@check(weight=1, needs=[rotary_shape])
def rotary_start(rotary, draw):
    """Returns the vectors unchanged at position 0."""
    n, d = pair_sizes(draw)
    X = draw.array(n, d)
    expect_close(rotary(X, np.zeros(n, dtype=np.int64)), X)


def few_digits(Z, X, positions):
    """Return a sentence if all pairs are rotated by about the right angle, but only to three digits; else ""."""

    def as_complex(vectors):
        return vectors[:, 0::2] + 1j * vectors[:, 1::2]

    expected = as_complex(rotated(X, positions))
    off = np.abs(as_complex(np.asarray(Z, dtype=float)) - expected) / np.abs(expected)
    if (off > 2e-3 * np.maximum(positions[:, None], 1)).any() or off.max() > 0.1:
        return ""
    return Message(
        "Angles, or their sines and cosines, are right to about three digits only, as in float16. Compute them in "
        "float32 or float64."
    )


@check(weight=1, needs=[rotary_shape])
def rotary_one_pair(rotary, draw):
    """With d = 2, rotates the vector (1, 0) by its position in radians, to (cos p, sin p)."""
    n = draw.sizes(1)[0]
    positions = places(draw, n)
    expected = np.array([[math.cos(p), math.sin(p)] for p in positions])
    X = np.array([[1.0, 0.0]] * n)
    Z = rotary(X, positions)
    with told_by(few_digits, Z, X, positions):
        expect_close(Z, expected)


@check(weight=1, needs=[rotary_shape])
def rotary_lengths(rotary, draw):
    """Keeps the length of each pair: x^2 + y^2 of columns 2i and 2i + 1 does not change."""
    n, d = pair_sizes(draw)
    X = draw.array(n, d)
    positions = places(draw, n)
    turned = expect_array(rotary(X, positions), (n, d)).astype(float)
    squares = [(Z**2).reshape(n, d // 2, 2).sum(-1) for Z in (turned, X)]
    with told_by(few_digits, turned, X, positions):
        expect_close(*squares, what=Message("the pairs' x^2 + y^2"))


@check(weight=1, needs=[rotary_shape])
def rotary_distance(rotary, draw):
    """Dot products depend only on the distance: they do not change when all positions move by the same amount."""
    n, d = pair_sizes(draw)
    X, positions = draw.array(n, d), places(draw, n)
    shift = int(draw.rng.integers(5, 50))
    here, there = (
        expect_array(rotary(X, at), (n, d)).astype(float) for at in (positions, positions + shift)
    )
    # The largest product is that of a vector with itself, so the tolerance is relative to the squared norms.
    expect_close(
        there @ there.T,
        here @ here.T,
        what=Message("the dot products (all positions moved by {shift})", shift=shift),
    )


@check(weight=3, needs=[rotary_start, rotary_one_pair, rotary_lengths, rotary_distance])
def rotary_values(rotary, draw):
    """Each pair (x, y) becomes (x cos t - y sin t, x sin t + y cos t) with t = position * 10000^(-2i / d)."""
    n, d = pair_sizes(draw)
    X, positions = draw.array(n, d), places(draw, n)
    Z = rotary(X, positions)
    with told_by(
        lambda: (
            other_base(Z, lambda base: rotated(X, positions, base)) or few_digits(Z, X, positions)
        )
    ):
        expect_close(Z, rotated(X, positions))
    with told_by(lambda: REPEATED):
        expect_agrees(rotary, rotated, draw.array(n, d), 1 + places(draw, n))
    # As many vectors as numbers in each, from 1e-4 to 1e4 in size: each is compared relative to its own size.
    size = draw.magnitudes(d)[:, None]
    X, positions = noncontiguous(size * draw.array(d, d)), np.repeat(places(draw, d), 2)[::2]
    expect_agrees(rotary, rotated, X, positions, unit=size)
    expect_agrees(rotary, rotated, draw.array(3, draw.long() // 2 * 2), places(draw, 3))


@check(weight=1, needs=[rotary_values])
def rotary_base(rotary, draw):
    """Uses the third argument, the base, in place of 10000."""
    n, d = pair_sizes(draw)
    for base in (float(draw.rng.uniform(50, 200)), 500000.0):
        expect_agrees(rotary, rotated, draw.array(n, d), places(draw, n), base)
    with told_by(lambda: REPEATED):
        expect_agrees(rotary, rotated, draw.array(n, d), places(draw, n))


@check(weight=2, needs=[rotary_values])
def rotary_batch(rotary, draw):
    """Keeps leading batch dimensions, one or several, and rotates every sequence by the same positions."""
    n, half, b = draw.sizes(3)
    d = 2 * half
    # n sequences of length n fit for any axis of the positions, so a wrong axis shows only in the values.
    for lead in [(b,), (2, b), (3, 2, 2), (n,), (n, n)]:
        expect_agrees(rotary, rotated, draw.array(*lead, n, d), places(draw, n))


@check(weight=1, needs=[rotary_values])
def rotary_any_positions(rotary, draw):
    """Accepts any positions: equal ones, negative ones (which rotate backward), and fractions."""
    n, d = pair_sizes(draw)
    X = draw.array(n, d)
    expect_agrees(rotary, rotated, X, np.full(n, draw.rng.integers(3, 20)))
    expect_agrees(rotary, rotated, X, -places(draw, n))
    expect_agrees(rotary, rotated, X, places(draw, n) + draw.rng.uniform(0.2, 0.8, size=n))


@check(weight=1, needs=[rotary_values])
def rotary_ones(rotary, draw):
    """Keeps dimensions of size 1: one vector, one sequence in the batch. Also works for one pair in a vector."""
    n, d = pair_sizes(draw)
    for shape in [(1, d), (1, n, d), (n, 2), (1, 1, 2)]:
        expect_agrees(rotary, rotated, draw.array(*shape), places(draw, shape[-2]))


@check(weight=0.5, needs=[rotary_values])
def rotary_long(rotary, draw):
    """Is accurate to float32 precision for hundreds of vectors, at positions in the hundreds and thousands."""
    n, d = pair_sizes(draw)
    expect_agrees(rotary, rotated, draw.array(n, d), 600 + places(draw, n, 398), rtol=LONG)
    n = draw.long()
    expect_agrees(rotary, rotated, draw.array(n, 4), places(draw, n, n), rtol=LONG)
    # Beyond the usual model lengths, 2048 to 16,384. With two pairs, float32 angles are accurate to 3e-5 there.
    expect_agrees(rotary, rotated, draw.array(3, 4), 16_400 + places(draw, 3, 4000), rtol=LONG)


@check(weight=0, needs=[rotary_shape])
def rotary_refuses(rotary, draw):
    """Raises `ValueError` when d is odd, or the number of positions is not n, even if a size is 1."""
    n, half, other = draw.sizes(3)
    d = 2 * half
    for odd in (d + 1, 1):
        because = Message("d is {odd}, which is odd", odd=odd)
        expect_raises([ValueError], rotary, draw.array(n, odd), places(draw, n), because=because)
    for length, count in [(n, other), (1, n), (n, 1)]:
        because = Message(
            "n is {length} in X, but the number of positions is {count}",
            length=length,
            count=str(count),
        )
        expect_raises(
            [ValueError], rotary, draw.array(length, d), places(draw, count), because=because
        )


@check(weight=0.5, needs=[rotary_shape])
def rotary_dtype(rotary, draw):
    """Keeps the dtype of `X`, even if the positions are int64: float32 gives float32, float16 gives float16."""
    n, d = pair_sizes(draw)
    expect_dtypes(rotary, draw.array(n, d), places(draw, n))


@check(weight=0.5, needs=[rotary_values])
def rotary_half(rotary, draw):
    """Rotates float16 vectors at positions in the hundreds by exact angles, which need more digits than float16."""
    n, d = pair_sizes(draw, least=7)
    expect_agrees(
        rotary, rotated, draw.array(n, d, dtype=np.float16), 600 + places(draw, n, 398), rtol=HALF
    )


@check(weight=0.5, needs=[rotary_shape])
def rotary_inputs(rotary, draw):
    """Does not change `X` or `positions`, and accepts read-only arrays."""
    n, d = pair_sizes(draw)
    X, positions = draw.array(n, d), places(draw, n)
    expect_inputs_kept(rotary, ["X", "positions"], X, positions)

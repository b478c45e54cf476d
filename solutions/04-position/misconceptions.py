"""Wrong answers that people really give, each with a hint. Students get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, and that its own hint is shown. The right answers here are those from which
`families` makes the mistakes that any function can have; all others are in `right_answers.py`.
"""

import numpy as np

from checking import COMMON, families, misconception, right


def fits(X, permutation):
    if len(permutation) != len(X):
        raise ValueError(f"{len(X)} places, and a permutation of {len(permutation)}")


def differences(attend, X, permutation):
    fits(X, permutation)
    return attend(X[permutation]) - attend(X)[permutation]


# by_hand: wrong


@misconception(
    "by_hand",
    label="rotated in the wrong direction",
    hint="The second pair was rotated clockwise. A quarter turn takes (1, 0) to (0, 1).",
)
def by_hand_clockwise():
    return [-1, -2, 1, -3]


@misconception(
    "by_hand",
    label="one angle for both pairs",
    hint="The second pair rotates more slowly. Its angle is base to the power of -2/d, times the position.",
)
def by_hand_one_angle():
    return [-1, -2, -3, -1]


@misconception(
    "by_hand",
    label="column i paired with i + d/2",
    hint="The halves were paired: columns 0 and 2, 1 and 3. Here neighbors form a pair: columns 0 and 1, 2 and 3.",
)
def by_hand_halves():
    return [-1, -1, -3, 2]


@misconception(
    "by_hand",
    label="numbers multiplied, pairs not mixed",
    hint="Each number was multiplied by its own cosine or sine. A rotation mixes the two numbers of a pair.",
)
def by_hand_not_mixed():
    return [-1, 0, 0, 1]


@misconception(
    "by_hand",
    label="second pair not rotated",
    hint="The second pair is unchanged. It rotates more slowly than the first pair, but it does rotate.",
)
def by_hand_first_pair():
    return [-1, -2, 3, 1]


@misconception(
    "by_hand",
    label="missing 2 in the exponent",
    hint="The second pair was rotated by the position times base to the power of -i/d. The exponent is -2i/d, here "
    "-2/4.",
)
def by_hand_half_exponent():
    return [-1, -2, 2**0.5, 2 * 2**0.5]


@misconception(
    "by_hand",
    label="first pair not rotated",
    hint="The first pair is unchanged. It rotates by the position itself, since base to the power of 0 is 1.",
)
def by_hand_second_pair():
    return [1, 2, -1, 3]


# permutation_gap: wrong


@misconception(
    "permutation_gap",
    label="invariance tested instead of equivariance",
    hint="The results are compared place by place, as if reordering the input should change nothing. That is "
    "invariance. Equivariance means that the rows move along: compare with `attend(X)[permutation]`.",
)
def gap_invariance(attend, X, permutation):
    fits(X, permutation)
    return np.abs(attend(X[permutation]) - attend(X)).max()


@misconception(
    "permutation_gap",
    label="inverse permutation on one side",
    hint="One side is reordered by the permutation, the other by its inverse, which comes from `argsort` or from "
    "`Y[p] = X`. Use the same permutation on both sides: `attend(X[p])` and `attend(X)[p]`.",
)
def gap_inverse_on_input(attend, X, permutation):
    fits(X, permutation)
    return np.abs(attend(X[np.argsort(permutation)]) - attend(X)[permutation]).max()


@misconception(
    "permutation_gap",
    label="columns permuted instead of rows",
    hint="`X[:, p]` reorders the numbers inside each vector. The words are the rows: `X[p]`.",
)
def gap_columns(attend, X, permutation):
    fits(X, permutation)
    return np.abs(attend(X[:, permutation]) - attend(X)[:, permutation]).max()


@misconception(
    "permutation_gap",
    label="compared with the input",
    hint="`attend(X[p])` is compared with the reordered input, `X[p]`, instead of the reordered result, "
    "`attend(X)[p]`.",
)
def gap_to_the_input(attend, X, permutation):
    fits(X, permutation)
    return np.abs(attend(X[permutation]) - X[permutation]).max()


@misconception(
    "permutation_gap",
    label="attend never called with reordered X",
    hint="The result of `attend` is compared with its own reordering, `attend(X)[p]` with `attend(X)`. The question "
    "is what `attend` does with a reordered input, so also call it with `X[p]`.",
)
def gap_one_call(attend, X, permutation):
    fits(X, permutation)
    Z = attend(X)
    return np.abs(Z[permutation] - Z).max()


@misconception(
    "permutation_gap",
    label="attend called word by word",
    hint="`attend` gets one word at a time, which can only attend to itself. Pass the whole sequence.",
)
def gap_word_by_word(attend, X, permutation):
    fits(X, permutation)
    one_by_one = np.concatenate([attend(X[i : i + 1]) for i in permutation])
    return np.abs(one_by_one - attend(X)[permutation]).max()


@misconception(
    "permutation_gap",
    label="mean difference instead of largest",
    hint="This is the mean of the differences, in which a single wrong row nearly disappears. Take the largest: "
    "`.max()`.",
)
def gap_mean(attend, X, permutation):
    return np.abs(differences(attend, X, permutation)).mean()


@misconception(
    "permutation_gap",
    label="differences added up",
    hint="The gap is the largest difference, not the sum: `.max()`.",
)
def gap_sum(attend, X, permutation):
    return np.abs(differences(attend, X, permutation)).sum()


@misconception(
    "permutation_gap",
    label="norm instead of largest entry",
    hint="This is the norm of the differences, the root of a sum of squares. The gap is the largest single entry: "
    "`np.abs(...).max()`.",
)
def gap_norm(attend, X, permutation):
    return np.linalg.norm(differences(attend, X, permutation))


@misconception(
    "permutation_gap",
    label="longest row instead of largest entry",
    hint="This is the norm of the row that differs most. The gap is the largest single entry: `np.abs(...).max()`.",
)
def gap_longest_row(attend, X, permutation):
    return np.linalg.norm(differences(attend, X, permutation), axis=-1).max()


@misconception(
    "permutation_gap",
    label="absolute value missing",
    hint="The largest signed difference misses one far below 0. Take `np.abs` of all differences first, then the "
    "largest.",
)
def gap_without_abs(attend, X, permutation):
    return differences(attend, X, permutation).max()


@misconception(
    "permutation_gap",
    label="relative difference instead of absolute",
    hint="The gap is divided by the size of the results. Return the difference itself, in the units of the results.",
)
def gap_relative(attend, X, permutation):
    return np.abs(differences(attend, X, permutation)).max() / np.abs(attend(X)).max()


@misconception(
    "permutation_gap",
    label="only the first row compared",
    hint="Another row may differ more. Compare all rows.",
)
def gap_first_row(attend, X, permutation):
    return np.abs(differences(attend, X, permutation)[0]).max()


@misconception(
    "permutation_gap",
    label="first row left out",
    hint="Row 0 counts like every other. Compare all rows.",
)
def gap_skips_first_row(attend, X, permutation):
    return np.abs(differences(attend, X, permutation)[1:]).max()


@misconception(
    "permutation_gap",
    label="last row left out",
    hint="A range that ends at n - 1 stops before the last row. Compare all rows.",
)
def gap_skips_last_row(attend, X, permutation):
    return np.abs(differences(attend, X, permutation)[:-1]).max()


@misconception(
    "permutation_gap",
    label="result forced into the shape of X",
    hint="The result of `attend` is put into an array of the shape of `X`, but it may have another width. Use the "
    "result as it is.",
)
def gap_width_of_input(attend, X, permutation):
    fits(X, permutation)
    moved, still = np.zeros_like(X), np.zeros_like(X)
    moved[:], still[:] = attend(X[permutation]), attend(X)
    return np.abs(moved - still[permutation]).max()


@misconception(
    "permutation_gap",
    label="a truth value instead of a number",
    hint="The gap is a number, the largest difference. It says how far apart the two sides are.",
)
def gap_truth_value(attend, X, permutation):
    return bool(np.allclose(differences(attend, X, permutation), 0))


@misconception(
    "permutation_gap",
    label="one number for each row",
    hint="`.max(axis=-1)` takes the largest in each row. Without an axis, `.max()` takes the largest of all.",
)
def gap_per_row(attend, X, permutation):
    return np.abs(differences(attend, X, permutation)).max(axis=-1)


@misconception(
    "permutation_gap",
    label="axis squeezed away",
    hint="`squeeze` removes an axis of size 1, and then there are no rows left to reorder.",
)
def gap_squeezed(attend, X, permutation):
    fits(X, permutation)
    return np.abs(attend(X[permutation]).squeeze() - attend(X).squeeze()[permutation]).max()


@misconception(
    "permutation_gap",
    label="length of the permutation not checked",
    hint="A permutation of any length is accepted: `X[p]` takes the rows in `p`, even if there are fewer than n. "
    "Compare `len(permutation)` with `len(X)` and raise `ValueError`.",
)
def gap_any_length(attend, X, permutation):
    return np.abs(attend(X[permutation]) - attend(X)[permutation]).max()


@misconception(
    "permutation_gap",
    label="X reordered in place",
    hint="`X[:] = X[p]` reorders the caller's array. `X[p]` alone is a new array: give it a name, or pass it "
    "directly to `attend`.",
)
def gap_moves_in_place(attend, X, permutation):
    fits(X, permutation)
    still = attend(X)
    X[:] = X[permutation]
    return np.abs(attend(X) - still[permutation]).max()


# permutation_gap: right


@families("returns nothing", "assert instead of ValueError")
@right("permutation_gap")
def gap_largest(attend, X, permutation):
    return np.abs(differences(attend, X, permutation)).max()


# sinusoidal_encoding: wrong


def even(d_model):
    if d_model % 2:
        raise ValueError(f"d_model is {d_model}, which is odd")


def frequencies(d_model):
    return 10000.0 ** (-np.arange(0, d_model, 2) / d_model)


def interleaved(angles):
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(angles), -1)


def encoding(n, d_model):
    even(d_model)
    return interleaved(np.outer(np.arange(n), frequencies(d_model)))


def encoding_by_exponent(n, d_model, exponents, base=10000.0):
    even(d_model)
    return interleaved(np.arange(n)[:, None] * base ** -np.asarray(exponents, dtype=float))


@misconception(
    "sinusoidal_encoding",
    label="sines and cosines in separate halves",
    hint="All sines come first and all cosines after them, as with `np.concatenate`. Here they alternate: sines in "
    "the columns `0::2`, cosines in `1::2`.",
)
def sinusoidal_halves(n, d_model):
    even(d_model)
    angles = np.outer(np.arange(n), frequencies(d_model))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


@misconception(
    "sinusoidal_encoding",
    label="sine and cosine swapped",
    hint="The cosines are in the even columns. Put sines in the even columns and cosines in the odd ones.",
)
def sinusoidal_cosine_first(n, d_model):
    even(d_model)
    angles = np.outer(np.arange(n), frequencies(d_model))
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(n, d_model)


@misconception(
    "sinusoidal_encoding",
    label="sine in every column",
    hint="The odd columns, 2i + 1, contain the cosine of the same angle.",
)
def sinusoidal_sines_only(n, d_model):
    even(d_model)
    return np.sin(np.outer(np.arange(n), np.repeat(frequencies(d_model), 2)))


@misconception(
    "sinusoidal_encoding",
    label="positions counted from 1",
    hint="The first position is 0: `np.arange(n)`.",
)
def sinusoidal_from_one(n, d_model):
    return encoding(n + 1, d_model)[1:]


@misconception(
    "sinusoidal_encoding",
    label="angles treated as degrees",
    hint="`np.sin` and `np.cos` expect radians, and p / 10000^(2i/d_model) is already in radians.",
)
def sinusoidal_degrees(n, d_model):
    even(d_model)
    return interleaved(np.deg2rad(np.outer(np.arange(n), frequencies(d_model))))


@misconception(
    "sinusoidal_encoding",
    label="base e instead of 10000",
    hint="`np.exp(-2i / d_model)` has base e. For base 10000, multiply the exponent by `np.log(10000)`.",
)
def sinusoidal_base_e(n, d_model):
    return encoding_by_exponent(n, d_model, np.arange(0, d_model, 2) / d_model, np.e)


@misconception(
    "sinusoidal_encoding",
    label="factor 2 applied twice",
    hint="`np.arange(0, d_model, 2)` is already 2i, so divide it by d_model without another factor of 2.",
)
def sinusoidal_two_twice(n, d_model):
    return encoding_by_exponent(n, d_model, 2 * np.arange(0, d_model, 2) / d_model)


@misconception(
    "sinusoidal_encoding",
    label="factor 2 missing",
    hint="With i = 0, 1, 2, ... for the pairs, the exponent is 2i / d_model, which is close to 1 for the last pair.",
)
def sinusoidal_without_two(n, d_model):
    return encoding_by_exponent(n, d_model, np.arange(d_model // 2) / d_model)


@misconception(
    "sinusoidal_encoding",
    label="different angles within a pair",
    hint="Every column has its own angle. Columns 2i and 2i + 1 are a pair and share one angle: the exponent is 2i "
    "/ d_model in both.",
)
def sinusoidal_by_column(n, d_model):
    even(d_model)
    columns = np.arange(d_model)
    angles = np.outer(np.arange(n), 10000.0 ** (-columns / d_model))
    return np.where(columns % 2, np.cos(angles), np.sin(angles))


@misconception(
    "sinusoidal_encoding",
    label="column index used as pair index",
    hint="The exponent of column c is 2c / d_model, as if the column index were the pair index. Column c belongs to "
    "pair i = c // 2, so its exponent is 2 * (c // 2) / d_model.",
)
def sinusoidal_column_for_pair(n, d_model):
    even(d_model)
    columns = np.arange(d_model)
    angles = np.outer(np.arange(n), 10000.0 ** (-2 * columns / d_model))
    return np.where(columns % 2, np.cos(angles), np.sin(angles))


@misconception(
    "sinusoidal_encoding",
    label="exponents from 0 to 1 inclusive",
    hint="The exponents run from 0 to 1, both included (`np.linspace`, or a division by d_model/2 - 1). They should "
    "be 2i / d_model, which is below 1 for the last pair.",
)
def sinusoidal_linspace(n, d_model):
    return encoding_by_exponent(n, d_model, np.linspace(0, 1, d_model // 2))


@misconception(
    "sinusoidal_encoding",
    label="exponent without parentheses",
    hint="Powers bind first: `10000 ** 2 * i / d_model` is 10000^2 times i / d_model. Put the exponent in "
    "parentheses, `10000 ** (2 * i / d_model)`.",
)
def sinusoidal_power_first(n, d_model):
    even(d_model)
    pairs = np.arange(d_model // 2)
    with np.errstate(all="ignore"):
        return interleaved(np.arange(n)[:, None] / (10000**2 * pairs / d_model))


@misconception(
    "sinusoidal_encoding",
    label="multiplied by the power, not divided",
    hint="Positions are multiplied by the power of 10000. Divide by it: later pairs rotate more slowly.",
)
def sinusoidal_multiplied(n, d_model):
    return encoding_by_exponent(n, d_model, -np.arange(0, d_model, 2) / d_model)


@misconception(
    "sinusoidal_encoding",
    label="result transposed",
    hint="Each position is a row, not a column.",
)
def sinusoidal_transposed(n, d_model):
    return encoding(n, d_model).T


@misconception(
    "sinusoidal_encoding",
    label="result in float16",
    hint="float16 keeps only three decimal digits, which cannot distinguish the positions in the slow columns. Keep "
    "the result in float32 or float64.",
)
def sinusoidal_half_precision(n, d_model):
    return encoding(n, d_model).astype(np.float16)


@misconception(
    "sinusoidal_encoding",
    label="table ends at 512 positions",
    hint="The table ends at 512 positions: the code contains a fixed length. Make n rows.",
)
def sinusoidal_table_of_512(n, d_model):
    return encoding(512, d_model)[:n]


@misconception(
    "sinusoidal_encoding",
    label="odd d_model cut to fit",
    hint="With an odd d_model, the last sine has no cosine, and the result is cut off to fit. Raise `ValueError` "
    "when `d_model % 2` is not 0.",
)
def sinusoidal_odd_cut(n, d_model):
    return interleaved(np.outer(np.arange(n), frequencies(d_model)))[:, :d_model]


@misconception(
    "sinusoidal_encoding",
    label="d_model = 1 accepted",
    hint="An odd d_model raises only because the cosines do not fit, but d_model = 1 does not raise: NumPy "
    "broadcasts a size of 1 to any size. Test `d_model % 2` yourself, and raise `ValueError`.",
)
def sinusoidal_one_slips_through(n, d_model):
    angles = np.outer(np.arange(n), frequencies(d_model))
    P = np.zeros((n, d_model))
    P[:, 0::2] = np.sin(angles)
    P[:, 1::2] = np.cos(angles)
    return P


# sinusoidal_encoding: right


@families(
    "returns nothing",
    "a list instead of an array",
    "axis squeezed away",
    "batch axis added",
    "assert instead of ValueError",
    "decimals cut off",
    hints={
        "batch axis added": "Return shape (n, d_model). It broadcasts over a batch by itself.",
        "decimals cut off": "The result array holds integers (`dtype=int`, or an array made like `np.arange(n)`).",
    },
)
@right("sinusoidal_encoding")
def sinusoidal_interleaved(n, d_model):
    return encoding(n, d_model)


# rotary: wrong


def sizes_fit(X, positions):
    if X.shape[-1] % 2:
        raise ValueError(f"d is {X.shape[-1]}, which is odd")
    if np.shape(positions) != (X.shape[-2],):
        raise ValueError(f"{X.shape[-2]} vectors, and positions of shape {np.shape(positions)}")


def speeds(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def turn(X, angles):
    """Turn the pairs of X (..., n, d) by angles that broadcast with (..., n, d/2)."""
    x, y = X[..., 0::2], X[..., 1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    return (
        np.stack([x * cos - y * sin, x * sin + y * cos], axis=-1).reshape(X.shape).astype(X.dtype)
    )


def turned(X, positions, w):
    sizes_fit(X, positions)
    return turn(X, np.multiply.outer(np.asarray(positions, dtype=float), w))


def rotary(X, positions, base=10000.0):
    return turned(X, positions, speeds(X.shape[-1], base))


@misconception(
    "rotary",
    label="halves paired instead of neighbors",
    hint="Column i is paired with column i + d/2, as in GPT-NeoX and Llama. Here neighbors form a pair, columns 2i "
    "and 2i + 1: `X[..., 0::2]` and `X[..., 1::2]`.",
)
def rotary_half_split(X, positions, base=10000.0):
    sizes_fit(X, positions)
    d = X.shape[-1]
    angles = np.multiply.outer(positions, speeds(d, base))
    cos, sin = np.cos(angles), np.sin(angles)
    x, y = X[..., : d // 2], X[..., d // 2 :]
    return np.concatenate([x * cos - y * sin, x * sin + y * cos], axis=-1).astype(X.dtype)


@misconception(
    "rotary",
    label="rotated pairs left in separate halves",
    hint="The rotated pairs are separated: first all x, then all y. Put them back into the columns `0::2` and "
    "`1::2`.",
)
def rotary_joined(X, positions, base=10000.0):
    Z = rotary(X, positions, base)
    return np.concatenate([Z[..., 0::2], Z[..., 1::2]], axis=-1)


@misconception(
    "rotary",
    label="rotation in the wrong direction",
    hint="The pairs rotate the other way: the signs of the two sines are swapped. The formula is x cos t - y sin t "
    "and x sin t + y cos t.",
)
def rotary_clockwise(X, positions, base=10000.0):
    return rotary(X, -np.asarray(positions), base)


@misconception(
    "rotary",
    label="x overwritten before y is computed",
    hint="`X[..., 0::2] = ...` overwrites `x`, which is a view, so the new x is used to compute the new y. Compute "
    "both before writing either.",
)
def rotary_overwritten(X, positions, base=10000.0):
    sizes_fit(X, positions)
    Z = X.copy()
    angles = np.multiply.outer(positions, speeds(X.shape[-1], base))
    cos, sin = np.cos(angles), np.sin(angles)
    x, y = Z[..., 0::2], Z[..., 1::2]
    Z[..., 0::2] = x * cos - y * sin
    Z[..., 1::2] = x * sin + y * cos
    return Z


@misconception(
    "rotary",
    label="encoding added, pairs not rotated",
    hint="The sines and cosines are added to `X`, as in the sinusoidal encoding. A rotary encoding multiplies: it "
    "rotates each pair.",
)
def rotary_added(X, positions, base=10000.0):
    sizes_fit(X, positions)
    angles = np.multiply.outer(positions, speeds(X.shape[-1], base))
    P = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(X.shape[-2:])
    return (X + P).astype(X.dtype)


@misconception(
    "rotary", label="positions counted from 1", hint="Use the given positions, including 0."
)
def rotary_from_one(X, positions, base=10000.0):
    return rotary(X, np.asarray(positions) + 1, base)


@misconception(
    "rotary",
    label="positions counted from the first one",
    hint="The first position is subtracted from all positions, so the first row does not rotate. Dot products among "
    "these rows do not change, but those with rows of another call do. Use the positions as they are.",
)
def rotary_from_the_first(X, positions, base=10000.0):
    return rotary(X, np.asarray(positions) - np.asarray(positions)[0], base)


@misconception(
    "rotary",
    label="row numbers instead of positions",
    hint="The vectors are rotated by their row numbers, `np.arange(n)`. Use `positions`, which may start anywhere "
    "and be in any order.",
)
def rotary_by_row_number(X, positions, base=10000.0):
    sizes_fit(X, positions)
    return rotary(X, np.arange(X.shape[-2]), base)


@misconception(
    "rotary",
    label="angles treated as degrees",
    hint="`np.cos` and `np.sin` expect radians, and position * base^(-2i/d) is already in radians.",
)
def rotary_degrees(X, positions, base=10000.0):
    return rotary(X, np.deg2rad(positions), base)


@misconception(
    "rotary",
    label="factor 2 applied twice",
    hint="`np.arange(0, d, 2)` is already 2i, so divide it by d without another factor of 2, and negate it.",
)
def rotary_two_twice(X, positions, base=10000.0):
    d = X.shape[-1]
    return turned(X, positions, base ** (-2 * np.arange(0, d, 2) / d))


@misconception(
    "rotary",
    label="factor 2 missing",
    hint="With i = 0, 1, 2, ... for the pairs, the exponent is -2i / d.",
)
def rotary_without_two(X, positions, base=10000.0):
    d = X.shape[-1]
    return turned(X, positions, base ** (-np.arange(len(range(0, d, 2))) / d))


@misconception(
    "rotary",
    label="minus sign of the exponent missing",
    hint="Later pairs rotate faster and faster. The angle is the position times base^(-2i/d), or divided by "
    "base^(2i/d).",
)
def rotary_faster(X, positions, base=10000.0):
    return turned(X, positions, 1 / speeds(X.shape[-1], base))


@misconception(
    "rotary",
    label="same angle for all pairs",
    hint="Every pair rotates by the position itself. Pair i must rotate by position * base^(-2i/d).",
)
def rotary_one_speed(X, positions, base=10000.0):
    return turned(X, positions, np.ones(len(range(0, X.shape[-1], 2))))


@misconception(
    "rotary",
    label="different angles within a pair",
    hint="Every column has its own angle, base^(-c/d) for column c. Both numbers of a pair rotate by the same "
    "angle, with 2i in the exponent.",
)
def rotary_by_column(X, positions, base=10000.0):
    sizes_fit(X, positions)
    d = X.shape[-1]
    angles = np.multiply.outer(positions, base ** (-np.arange(d) / d))
    x, y = X[..., 0::2], X[..., 1::2]
    swapped = np.stack([-y, x], axis=-1).reshape(X.shape)
    return (X * np.cos(angles) + swapped * np.sin(angles)).astype(X.dtype)


@misconception(
    "rotary",
    label="angles tiled instead of repeated",
    hint="The cosines are arranged for halves (`np.tile` or `np.concatenate`), but here neighbors form a pair. Both "
    "numbers of a pair need the same angle: `np.repeat(..., 2)`.",
)
def rotary_tiled(X, positions, base=10000.0):
    sizes_fit(X, positions)
    angles = np.multiply.outer(positions, np.tile(speeds(X.shape[-1], base), 2))
    x, y = X[..., 0::2], X[..., 1::2]
    swapped = np.stack([-y, x], axis=-1).reshape(X.shape)
    return (X * np.cos(angles) + swapped * np.sin(angles)).astype(X.dtype)


@misconception(
    "rotary",
    label="halves with angles of neighbors",
    hint="The angles are arranged for neighbors (`np.repeat(..., 2)`), but column i is mixed with column i + d/2, as "
    "`rotate_half` does. Here neighbors form a pair: mix columns 2i and 2i + 1.",
)
def rotary_mixed(X, positions, base=10000.0):
    sizes_fit(X, positions)
    d = X.shape[-1]
    angles = np.multiply.outer(positions, np.repeat(speeds(d, base), 2))
    half = np.concatenate([-X[..., d // 2 :], X[..., : d // 2]], axis=-1)
    return (X * np.cos(angles) + half * np.sin(angles)).astype(X.dtype)


@misconception(
    "rotary",
    label="minus sign missing",
    hint="The new pair is x cos t + y sin t and x sin t + y cos t, which changes its length. In a rotation, one of "
    "the two sines has a minus sign: look at where a quarter turn takes (0, 1).",
)
def rotary_without_minus(X, positions, base=10000.0):
    sizes_fit(X, positions)
    angles = np.multiply.outer(positions, speeds(X.shape[-1], base))
    x, y = X[..., 0::2], X[..., 1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    return (
        np.stack([x * cos + y * sin, x * sin + y * cos], axis=-1).reshape(X.shape).astype(X.dtype)
    )


@misconception(
    "rotary",
    label="minus sign in both rows",
    hint="Both sines have a minus sign, which changes the length of the pair. In a rotation only one of them has: "
    "look at where a quarter turn takes (1, 0).",
)
def rotary_two_minuses(X, positions, base=10000.0):
    sizes_fit(X, positions)
    angles = np.multiply.outer(positions, speeds(X.shape[-1], base))
    x, y = X[..., 0::2], X[..., 1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    return (
        np.stack([x * cos - y * sin, y * cos - x * sin], axis=-1).reshape(X.shape).astype(X.dtype)
    )


@misconception(
    "rotary",
    label="base fixed at 10000",
    hint="The code always uses 10000. Use the argument `base`.",
)
def rotary_fixed_base(X, positions, base=10000.0):
    return rotary(X, positions)


@misconception(
    "rotary",
    label="positions along the batch axis",
    hint="The positions are applied to the sequences of the batch, not to the vectors in each sequence. The vectors "
    "are on the last axis but one: angles of shape (n, d/2) broadcast to it.",
)
def rotary_along_the_batch(X, positions, base=10000.0):
    sizes_fit(X, positions)
    if X.ndim < 3:
        return rotary(X, positions, base)
    return turn(
        X,
        np.multiply.outer(np.asarray(positions, dtype=float), speeds(X.shape[-1], base))[
            :, None, :
        ],
    )


@misconception(
    "rotary",
    label="positions truncated to integers",
    hint="Fractional positions are also valid: use them as they are.",
)
def rotary_whole_positions(X, positions, base=10000.0):
    return rotary(X, np.trunc(positions), base)


@misconception(
    "rotary",
    label="sign of the positions lost",
    hint="A negative position rotates backward: use it as it is.",
)
def rotary_positions_without_sign(X, positions, base=10000.0):
    return rotary(X, np.abs(positions), base)


@misconception(
    "rotary",
    label="positions capped at 512",
    hint="The code contains a fixed length, and larger positions are replaced by it. Compute the angles of the "
    "given positions.",
)
def rotary_table_of_512(X, positions, base=10000.0):
    return rotary(X, np.minimum(positions, 511), base)


@misconception(
    "rotary",
    label="positions shrunk beyond 2048",
    hint="Positions beyond some length are scaled down to fit, a trick that lets models read longer texts than in "
    "training. Here the angle is simply the position times the pair's speed.",
)
def rotary_shrunk(X, positions, base=10000.0):
    return rotary(X, positions * min(1, 2048 / max(np.max(np.abs(positions), initial=0), 1)), base)


@misconception(
    "rotary",
    label="angles in the dtype of X",
    hint="float16 keeps only three decimal digits, so an angle of a few hundred is off by a tenth. Compute the "
    "angles in float32 or float64, then convert the result.",
)
def rotary_angles_in_half(X, positions, base=10000.0):
    sizes_fit(X, positions)
    angles = np.multiply.outer(
        np.asarray(positions).astype(X.dtype), speeds(X.shape[-1], base).astype(X.dtype)
    )
    return turn(X, angles)


@misconception(
    "rotary",
    label="complex numbers returned",
    hint="The real and imaginary parts of the result are the new pairs. Put them into neighboring columns.",
)
def rotary_complex(X, positions, base=10000.0):
    Z = rotary(X, positions, base)
    return Z[..., 0::2] + 1j * Z[..., 1::2]


@misconception(
    "rotary",
    label="odd d accepted",
    hint="With an odd d, the last number has no partner, and the code leaves it unchanged. Raise `ValueError` when "
    "`X.shape[-1] % 2` is not 0.",
)
def rotary_odd_stays(X, positions, base=10000.0):
    even_part = X.shape[-1] // 2 * 2
    return np.concatenate(
        [rotary(X[..., :even_part], positions, base), X[..., even_part:]], axis=-1
    )


@misconception(
    "rotary",
    label="one position stretched to all vectors",
    hint="Writing into an array of the shape of `X` broadcasts a single position. Compare `len(positions)` with "
    "`X.shape[-2]` and raise `ValueError`.",
)
def rotary_stretches_one_position(X, positions, base=10000.0):
    angles = np.multiply.outer(np.asarray(positions, dtype=float), speeds(X.shape[-1], base))
    Z, x, y = np.empty_like(X), X[..., 0::2], X[..., 1::2]
    Z[..., 0::2] = x * np.cos(angles) - y * np.sin(angles)
    Z[..., 1::2] = x * np.sin(angles) + y * np.cos(angles)
    return Z


@misconception(
    "rotary",
    label="X overwritten while still needed",
    hint="Writing into `X` changes the caller's array, and the new x is used to compute the new y. Write into "
    "`np.empty_like(X)`, from the old x and y.",
)
def rotary_overwritten_in_place(X, positions, base=10000.0):
    X[...] = rotary_overwritten(X, positions, base)
    return X


# rotary: right


@families(
    *COMMON,
    "result written into an argument",
    hints={
        "result in float64": "The angles are float64, and make the result float64. End with `.astype(X.dtype)`, or "
        "write into `np.empty_like(X)`.",
        "sizes of 1 stretched": "A size of 1 is stretched to fit: one position for all vectors, or one vector for "
        "all positions. NumPy does so silently. Compare `len(positions)` with `X.shape[-2]` and raise `ValueError`.",
    },
    shapes="n d, n",
)
@right("rotary")
def rotary_turned(X, positions, base=10000.0):
    return rotary(X, positions, base)


# Wrong only when sizes are equal, beyond some length, or for small numbers


@misconception(
    "permutation_gap",
    label="columns permuted when X is square",
    hint="When a word has as many numbers as there are places, the columns are permuted. The places are always the "
    "rows: `X[permutation]`.",
)
def gap_columns_when_square(attend, X, permutation):
    fits(X, permutation)
    moved = X[:, permutation] if X.shape[0] == X.shape[1] else X[permutation]
    return np.abs(attend(moved) - attend(X)[permutation]).max()


@misconception(
    "permutation_gap",
    label="only the first 512 places",
    hint="Places after the 512th are not compared: the code contains a fixed length. Compare all rows.",
)
def gap_512_places(attend, X, permutation):
    return np.abs(differences(attend, X, permutation)[:512]).max()


@misconception(
    "permutation_gap",
    label="rounded to a few decimals",
    hint="Rounding turns a small gap into 0. Round only when you print.",
)
def gap_rounded_to_decimals(attend, X, permutation):
    return round(float(np.abs(differences(attend, X, permutation)).max()), 3)


@misconception(
    "sinusoidal_encoding",
    label="transposed when square",
    hint="When there are as many positions as columns, the table is transposed. A row is always a position.",
)
def sinusoidal_turned_when_square(n, d_model):
    even(d_model)
    angles = np.arange(n)[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)
    P = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, d_model)
    return P.T if n == d_model else P


@misconception(
    "sinusoidal_encoding",
    label="only the first 512 columns",
    hint="Columns after the 512th stay 0: the code contains a fixed width. Fill all d_model columns.",
)
def sinusoidal_512_columns(n, d_model):
    even(d_model)
    angles = np.arange(n)[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)
    P = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, d_model)
    P[:, 512:] = 0
    return P


@misconception(
    "sinusoidal_encoding",
    label="rounded to a few decimals",
    hint="Rounding the table stops the slow columns from changing. Round only when you print.",
)
def sinusoidal_rounded(n, d_model):
    even(d_model)
    angles = np.arange(n)[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)
    return np.round(np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, d_model), 4)


@misconception(
    "rotary",
    label="X transposed when square",
    hint="When there are as many vectors as numbers in each, `X` is transposed. A row is always a vector.",
)
def rotary_turned_when_square(X, positions, base=10000.0):
    square = X.ndim == 2 and X.shape[0] == X.shape[1]
    return rotary(np.swapaxes(X, -1, -2) if square else X, positions, base)


@misconception(
    "rotary",
    label="only the first 512 vectors",
    hint="Vectors after the 512th are not rotated: the code contains a fixed length. Take n from `X.shape[-2]`.",
)
def rotary_512_vectors(X, positions, base=10000.0):
    result = rotary(X, positions, base)
    result[..., 512:, :] = X[..., 512:, :]
    return result


@misconception(
    "rotary",
    label="only the first 64 columns",
    hint="Columns after the 64th are not rotated: the code contains a fixed width. Take d from `X.shape[-1]`.",
)
def rotary_64_columns(X, positions, base=10000.0):
    result = rotary(X, positions, base)
    result[..., 64:] = X[..., 64:]
    return result


@misconception(
    "rotary",
    label="rounded to a few decimals",
    hint="Rounding the result removes small numbers. Round only when you print.",
)
def rotary_rounded(X, positions, base=10000.0):
    return np.round(rotary(X, positions, base), 5)

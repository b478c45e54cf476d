"""Wrong answers that people really give, each with the hint it deserves. Released inside the archive only.

The tests ask that each check is failed by a wrong answer of this list, and that each wrong answer is told its own
hint. `families` makes mistakes that any function can have from one right answer.
"""

import numpy as np

from checking import families, misconception, right


@misconception(
    "by_hand",
    label="means of the rows",
    hint="From each row its own mean was taken. The mean of a column runs over the rows.",
)
def by_hand_rows():
    return [[0.5, -0.5], [1.5, -1.5]]


@misconception(
    "by_hand",
    label="one mean for all numbers",
    hint="One number was taken from all four. Each column has a mean of its own.",
)
def by_hand_one_mean():
    return [[-1, -2], [3, 0]]


@misconception(
    "by_hand",
    label="mean less the number",
    hint="The numbers were taken from the means. Take the means from the numbers.",
)
def by_hand_negated():
    return [[2, 1], [-2, -1]]


@misconception(
    "centred",
    label="row means instead of column means",
    hint="You subtract each row's mean. The mean of a column runs over the rows: over the axis before the last.",
)
def centred_rows(X):
    return X - X.mean(axis=-1, keepdims=True)


@misconception(
    "centred",
    label="one mean for everything",
    hint="You subtract one number from all of X. Each column has a mean of its own.",
)
def centred_by_one_number(X):
    return X - X.mean()


@misconception(
    "centred",
    label="mean returned",
    hint="You return the means. Subtract them from X.",
)
def centred_means(X):
    return X.mean(axis=-2)


@misconception(
    "centred",
    label="mean over the batch too",
    hint="You take the mean over all axes but the last, and so mix the sequences of a batch.",
)
def centred_across_sequences(X):
    return X - X.mean(axis=tuple(range(X.ndim - 1)))


@misconception(
    "centred",
    label="X changed in place",
    hint="`X -= ...` writes into the array that you were given. Make a new one: `X - ...`.",
)
def centred_in_place(X):
    X -= X.mean(axis=-2, keepdims=True)
    return X


@families(but=["assert instead of ValueError"])
@right("centred")
def centred_by_einsum(X):
    return X - (np.einsum("...nd->...d", X) / X.shape[-2])[..., None, :]

"""Wrong answers that people really give, each with a hint. Students get this file only inside the archive.

The course's tests verify that every check is failed by a wrong answer here, and that each wrong answer gets its own
hint. `families` makes the mistakes that any function can have from one right answer.
"""

import numpy as np

from checking import families, misconception, right


@misconception(
    "by_hand",
    label="row means",
    hint="You subtracted each row's own mean. The mean of a column runs over the rows.",
)
def by_hand_rows():
    return [[0.5, -0.5], [1.5, -1.5]]


@misconception(
    "by_hand",
    label="one mean for all numbers",
    hint="You subtracted the same number from all four. Each column has its own mean.",
)
def by_hand_one_mean():
    return [[-1, -2], [3, 0]]


@misconception(
    "by_hand",
    label="mean minus number",
    hint="You subtracted the numbers from the means. Subtract the means from the numbers.",
)
def by_hand_negated():
    return [[2, 1], [-2, -1]]


@misconception(
    "centered",
    label="row means instead of column means",
    hint="You subtract each row's mean. The mean of a column runs over the rows, which is the second-to-last axis.",
)
def centered_rows(X):
    return X - X.mean(axis=-1, keepdims=True)


@misconception(
    "centered",
    label="one mean for everything",
    hint="You subtract one number from all of X. Each column has its own mean.",
)
def centered_by_one_number(X):
    return X - X.mean()


@misconception(
    "centered",
    label="mean returned",
    hint="You return the means. Subtract them from X.",
)
def centered_means(X):
    return X.mean(axis=-2)


@misconception(
    "centered",
    label="mean over the batch",
    hint="You take the mean over all axes but the last, which mixes the sequences of a batch.",
)
def centered_across_sequences(X):
    return X - X.mean(axis=tuple(range(X.ndim - 1)))


@misconception(
    "centered",
    label="X changed in place",
    hint="`X -= ...` changes the input array in place. Make a new array: `X - ...`.",
)
def centered_in_place(X):
    X -= X.mean(axis=-2, keepdims=True)
    return X


@families(but=["assert instead of ValueError"])
@right("centered")
def centered_by_einsum(X):
    return X - (np.einsum("...nd->...d", X) / X.shape[-2])[..., None, :]

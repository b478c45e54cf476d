"""Right answers that look different from ours; the tests run the checks on them. Students do not get this file."""

import numpy as np

from checking import right


@right("by_hand")
def by_hand_in_one_row():
    return -2, -1, 2, 1


@right("centered")
def centered_row_by_row(X):
    mean = sum(X[..., i, :] for i in range(X.shape[-2])) / X.shape[-2]
    return np.stack([X[..., i, :] - mean for i in range(X.shape[-2])], axis=-2)

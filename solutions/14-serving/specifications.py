"""The results that exercise 14 asks for, number by number, for its checks. Released only inside the archive."""

import numpy as np


def less_its_mean(X):
    """Return X (n, d), each column minus its own mean."""
    n, d = X.shape
    means = [sum(column) / n for column in X.T]
    return np.array([[X[i, j] - means[j] for j in range(d)] for i in range(n)])

"""What exercise N asks for, number by number: its checks compare with it. Released inside the archive only."""

import numpy as np


def less_its_mean(X):
    """Return X (n, d), each column less its own mean."""
    n, d = X.shape
    means = [sum(column) / n for column in X.T]
    return np.array([[X[i, j] - means[j] for j in range(d)] for i in range(n)])

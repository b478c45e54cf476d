"""Five words, and small matrices that make their queries, keys and values: a sentence to try figures on."""

import numpy as np

TOKENS = ["the", "cat", "chased", "a", "mouse"]

# One row per word, four made-up features: thing, action, article, already known to the listener.
X = np.array(
    [
        [0.0, 0.0, 1.0, 1.0],
        [1.0, 0.0, 0.0, 0.5],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, -1.0],
        [1.0, 0.0, 0.0, -0.5],
    ]
)  # (5, 4)

# Chosen by hand so that a thing asks for an action, an action for things and an article for things.
W_q = np.array([[0.1, 1.4], [1.1, 0.2], [1.3, -0.2], [0.2, 0.4]])  # (4, 2)
W_k = np.array([[1.6, 0.2], [-0.3, 1.7], [-1.2, -0.8], [0.2, 1.3]])  # (4, 2)
W_v = np.array([[1.0, 1.2], [-1.8, 1.2], [-0.4, -1.4], [1.3, 0.5]])  # (4, 2)

"""Draws the chapter's card on the landing page."""

import numpy as np
from figures import drawing


def draw(axes):
    """Dot products while they grow, and the root of how far they have come."""
    rng = np.random.default_rng(1)
    q, K = rng.normal(size=128), rng.normal(size=(16, 128))
    walk = np.hstack([np.zeros((16, 1)), np.cumsum(q * K, axis=1)])
    c = np.arange(0, 129, 4)
    x = 8 + c * (132 / 128)
    unit = 40 / (3 * np.sqrt(128))
    axes.plot(x, 46 - unit * walk[:, c].T, color=drawing.QUIET, lw=0.7, alpha=0.7)
    for sign in (1, -1):
        axes.plot(x, 46 - sign * 2 * unit * np.sqrt(c), color=drawing.INK, lw=1.4)

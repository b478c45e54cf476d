"""Draws the chapter's card on the landing page."""

import numpy as np
from figures import drawing


def draw(axes):
    """Causal attention tile by tile: done, being worked at, to come, and left out."""
    for i, j in np.ndindex(5, 5):
        look = {"facecolor": "none", "edgecolor": drawing.RULE}
        if j <= i:
            look = {
                "facecolor": drawing.WEIGHT,
                "edgecolor": "none",
                "alpha": 0.35 if (i, j) < (3, 1) else 0.1,
            }
        if (i, j) == (3, 1):
            look = {"facecolor": drawing.WEIGHT, "edgecolor": drawing.INK}
        corner = 42 + 14 * j, 20 + 14 * i
        axes.add_patch(
            drawing.plt.Rectangle(
                corner, 12, 12, linewidth=1.4 if (i, j) == (3, 1) else 0.8, **look
            )
        )
    for k in range(5):
        alpha = 1 if k == 3 else 0.25
        axes.add_patch(
            drawing.plt.Rectangle(
                (28, 20 + 14 * k), 8, 12, facecolor=drawing.QUERY, alpha=alpha, lw=0
            )
        )
        alpha = 1 if k == 1 else 0.25
        axes.add_patch(
            drawing.plt.Rectangle((42 + 14 * k, 6), 12, 8, facecolor=drawing.KEY, alpha=alpha, lw=0)
        )

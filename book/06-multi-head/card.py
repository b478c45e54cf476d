"""Draws the chapter's card on the landing page."""

import numpy as np
from figures import drawing


def draw(axes):
    """A token's numbers in three blocks, each of which finds its own place, and the three side
    by side again.
    """
    for t, places in enumerate(np.eye(4)[[0, 3, 1]]):
        for c in range(4):
            x = 14 + 42 * t + 9 * c
            for y, colour, alpha in (
                (8, drawing.QUERY, 0.3),
                (42, drawing.WEIGHT, 0.1 + 0.9 * places[c]),
                (76, drawing.INK, 0.3),
            ):
                axes.add_patch(
                    drawing.plt.Rectangle((x, y), 8, 8, facecolor=colour, alpha=alpha, linewidth=0)
                )
        for start, end in ((20, 38), (54, 72)):
            axes.plot([31.5 + 42 * t] * 2, [start, end], color=drawing.RULE, lw=1.4)

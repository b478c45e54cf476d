"""Draws the chapter's card on the landing page."""

import numpy as np
from figures import drawing


def draw(axes):
    """A picture of one stroke, cut into patches that move apart; one of them asks."""
    picture = np.zeros((8, 8))
    picture[[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]] = picture[6, 1:7] = picture[1:7, 1] = 1
    for y, x in np.ndindex(8, 8):
        corner = 32 + 9 * x + 4 * (x // 2), 6 + 9 * y + 4 * (y // 2)
        look = (
            {"facecolor": drawing.INK, "alpha": 0.85}
            if picture[y, x]
            else {"facecolor": drawing.QUIET, "alpha": 0.14}
        )
        axes.add_patch(drawing.plt.Rectangle(corner, 8, 8, lw=0, **look))
    axes.add_patch(
        drawing.plt.Rectangle(
            (30.5, 48.5), 20, 20, facecolor="none", edgecolor=drawing.QUERY, lw=1.6
        )
    )

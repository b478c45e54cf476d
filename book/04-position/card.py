"""Draws the chapter's card on the landing page."""

import numpy as np
from figures import drawing


def draw(axes):
    """The first two hands of the encodings of four places, for vectors of eight numbers."""
    for c, p in np.ndindex(2, 4):
        x, y, angle = 22 + 35 * p, 24 + 44 * c, p * 10000 ** (-2 * c / 8)
        axes.add_patch(
            drawing.plt.Circle((x, y), 15, facecolor="none", edgecolor=drawing.QUIET, linewidth=1)
        )
        axes.plot([x, x + 15 * np.sin(angle)], [y, y - 15 * np.cos(angle)], color=drawing.INK, lw=2)

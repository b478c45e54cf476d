"""Draws the chapter's card on the landing page."""

import numpy as np
from figures import drawing


def draw(axes):
    """What each of six words may see, causally."""
    for i, j in np.ndindex(6, 6):
        look = {"edgecolor": drawing.WEIGHT, "facecolor": drawing.WEIGHT}
        if j > i:
            look = {"edgecolor": drawing.RULE, "facecolor": "none"}
        axes.add_patch(
            drawing.plt.Rectangle((33 + 14 * j, 5 + 14 * i), 11.5, 11.5, linewidth=1, **look)
        )

"""Draws the chapter's card on the landing page."""

import numpy as np
from figures import drawing, softmax


def draw(axes):
    """Weights on a beam, supported at the average grade."""
    weights = np.exp(softmax.SCORES) / np.exp(softmax.SCORES).sum()
    average = weights @ np.array(softmax.GRADES)

    def x(grade):
        return 24 + 26 * grade

    axes.plot([8, 140], [62, 62], color=drawing.INK, lw=2, solid_capstyle="round", zorder=3)
    corners = [(x(average), 63), (x(average) - 9, 82), (x(average) + 9, 82)]
    axes.add_patch(drawing.plt.Polygon(corners, closed=True, facecolor=drawing.INK, linewidth=0))
    for weight, grade in zip(weights, softmax.GRADES, strict=True):
        r = 26 * weight**0.5
        axes.add_patch(
            drawing.plt.Circle((x(grade), 61 - r), r, facecolor=drawing.WEIGHT, linewidth=0)
        )

"""Draws the chapter's card on the landing page."""

import numpy as np
from figures import drawing


def draw(axes):
    """Operations against length, both logarithmic: the projections, the two products, and their
    sum.
    """
    n = np.logspace(-1.5, 1.5, 61)  # in units of the crossing

    def at(cost):
        return 74 + 32 * np.log10(n), 56 - 15 * np.log10(cost)

    axes.plot(*at(n), color=drawing.QUIET, lw=1.6)
    axes.plot(*at(n**2), color=drawing.WEIGHT, lw=1.6)
    axes.plot(*at(n + n**2), color=drawing.INK, lw=2.6)
    axes.plot([74], [56], "o", color=drawing.INK, markersize=6, zorder=3)

"""Draws the chapter's card on the landing page."""

import numpy as np
from figures import drawing, qkv


def draw(axes):
    """One query, three keys, three values: lines as wide as the weights of *chased*."""
    s = (qkv.X @ qkv.W_q)[1] @ (qkv.X @ qkv.W_k).T
    weights = np.exp(s) / np.exp(s).sum()
    for y, weight in zip((16, 46, 76), weights, strict=True):
        for x, end in ((62, 16), (96, 132)):
            axes.plot(
                [end, x],
                [46, y],
                color=drawing.WEIGHT,
                lw=1 + 9 * weight,
                alpha=0.45,
                solid_capstyle="butt",
                zorder=1,
            )
        axes.plot([62], [y], "o", color=drawing.KEY, markersize=8.25, zorder=3)
        axes.plot([96], [y], "o", color=drawing.VALUE, markersize=8.25, zorder=3)
    axes.plot([14], [46], "o", color=drawing.QUERY, markersize=11.25, zorder=3)
    axes.plot([134], [46], "o", color=drawing.INK, markersize=11.25, zorder=3)

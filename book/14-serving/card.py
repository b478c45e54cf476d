"""Draws the chapter's card on the landing page."""

from figures import drawing


def draw(axes):
    """Write here what is drawn: three numbers, and the line of their mean."""
    axes.plot([14, 134], [46, 46], color=drawing.RULE, lw=2)
    axes.plot([34, 74, 114], [70, 38, 30], "o", color=drawing.INK, markersize=9)

"""Draws the chapter's card on the landing page."""

from figures import drawing


def draw(axes):
    """A table of pairs: the window that is computed, the chunk of keys at hand, and what is left
    out.
    """
    for i in range(8):
        for j in range(8):
            near = abs(i - j) <= 1
            axes.plot(
                [39 + 10 * j],
                [11 + 10 * i],
                "s",
                color=drawing.WEIGHT if near else drawing.QUIET,
                markersize=5.4,
                alpha=0.9 if near else 0.16,
            )
    axes.plot([74, 94, 94, 74, 74], [6, 6, 86, 86, 6], color=drawing.KEY, lw=1.8)

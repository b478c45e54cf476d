"""Draws the chapter's card on the landing page."""

from figures import drawing


def draw(axes):
    """Three streams, word by word, upwards: parts that add to them, and attention that crosses
    between them.
    """
    for i, x in enumerate((30, 74, 118)):
        axes.plot(
            [x, x], [88, 8], color=drawing.INK, lw=1.4 + 1.2, solid_capstyle="round", zorder=1
        )
        for y, colour in ((60, drawing.VALUE), (28, drawing.QUIET)):
            axes.plot(
                [x],
                [y],
                "o",
                color=drawing.PAPER,
                markeredgecolor=colour,
                markeredgewidth=1.8,
                markersize=9,
                zorder=3,
            )
        for j in range(i):
            start = 30 + 44 * j
            axes.plot([start, x - 5], [80, 62], color=drawing.WEIGHT, lw=1.4, alpha=0.6, zorder=2)

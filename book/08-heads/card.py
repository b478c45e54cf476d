"""Draws the chapter's card on the landing page."""

from figures import drawing


def draw(axes):
    """Eight heads of two layers: what each brings to the sum, two of them cut."""
    axes.plot([74, 74], [88, 4], color=drawing.INK, lw=2.6, solid_capstyle="round", zorder=1)
    for layer, y in enumerate((66, 26)):
        for t, x in enumerate((16, 46, 102, 132)):
            gone = (layer, t) in ((0, 3), (1, 0))
            colour = drawing.RULE if gone else drawing.WEIGHT
            axes.plot([x, 74], [y, y - 14], color=colour, lw=1.6, ls=":" if gone else "-", zorder=0)
            axes.plot(
                [x],
                [y],
                "o",
                color=drawing.PAPER if gone else drawing.WEIGHT,
                markeredgecolor=drawing.QUIET if gone else drawing.WEIGHT,
                markeredgewidth=1.6,
                markersize=11,
                zorder=2,
            )
            if gone:
                for side in (1, -1):
                    axes.plot(
                        [x - 7, x + 7],
                        [y + 7 * side, y - 7 * side],
                        color=drawing.INK,
                        lw=1.6,
                        zorder=3,
                    )

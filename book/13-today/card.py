"""Draws the chapter's card on the landing page."""

from figures import drawing


def draw(axes):
    """A stack of layers: two with a window, then one that sees all, and so on; the last token
    asks.
    """
    for layer in range(6):
        for j in range(10):
            seen = layer % 3 == 0 or j > 6
            colour = drawing.KEY if seen else drawing.QUIET
            corner = (26 + 10 * j, 12 + 12 * layer)
            axes.add_patch(
                drawing.plt.Rectangle(
                    corner, 8, 9, lw=0, facecolor=colour, alpha=0.9 if seen else 0.16
                )
            )
    axes.add_patch(
        drawing.plt.Rectangle((114.5, 9), 11, 75, facecolor="none", edgecolor=drawing.QUERY, lw=1.6)
    )

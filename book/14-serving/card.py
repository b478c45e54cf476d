"""Draws the chapter's card on the landing page."""

from figures import drawing


def draw(axes):
    """Three slots whose requests follow each other without a gap; the last step is being run."""
    rows = ((6, 4), (3, 5, 2), (2, 3, 5))
    colours = (drawing.QUERY, drawing.KEY, drawing.VALUE, drawing.WEIGHT)
    request = 0
    for slot, steps in enumerate(rows):
        x = 18
        for count in steps:
            for _ in range(count):
                axes.add_patch(
                    drawing.plt.Rectangle(
                        (x, 20 + 19 * slot), 9, 15, lw=0, facecolor=colours[request % 4], alpha=0.9
                    )
                )
                x += 11
            request += 1
    axes.add_patch(
        drawing.plt.Rectangle((115.5, 16), 12, 61, facecolor="none", edgecolor=drawing.INK, lw=1.6)
    )

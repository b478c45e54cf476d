"""The small drawing beside each chapter on the landing page: one function a chapter, from the chapter's own numbers.

A chapter without one is shown without.
"""

import numpy as np
from figures import drawing, qkv, softmax

WIDTH, HEIGHT = 148, 92


def _panel():
    return drawing.panels(width=WIDTH, height=HEIGHT, bare=True)


def _dot(axes, x, y, colour, size=11):
    axes.plot([x], [y], "o", color=colour, markersize=size * 0.75, zorder=3)


def queries():
    """One query, three keys, three values: lines as wide as the weights of *chased*."""
    axes = _panel()
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
        _dot(axes, 62, y, drawing.KEY)
        _dot(axes, 96, y, drawing.VALUE)
    _dot(axes, 14, 46, drawing.QUERY, 15)
    _dot(axes, 134, 46, drawing.INK, 15)
    return axes


def walks():
    """Dot products while they grow, and the root of how far they have come."""
    axes = _panel()
    rng = np.random.default_rng(1)
    q, K = rng.normal(size=128), rng.normal(size=(16, 128))
    walk = np.hstack([np.zeros((16, 1)), np.cumsum(q * K, axis=1)])
    c = np.arange(0, 129, 4)
    x = 8 + c * (132 / 128)
    unit = 40 / (3 * np.sqrt(128))
    axes.plot(x, 46 - unit * walk[:, c].T, color=drawing.QUIET, lw=0.7, alpha=0.7)
    for sign in (1, -1):
        axes.plot(x, 46 - sign * 2 * unit * np.sqrt(c), color=drawing.INK, lw=1.4)
    return axes


def grades():
    """Weights on a beam, supported at the average grade."""
    axes = _panel()
    weights = np.exp(softmax.SCORES) / np.exp(softmax.SCORES).sum()
    average = weights @ np.array(softmax.GRADES)

    def x(grade):
        return 24 + 26 * grade

    axes.plot([8, 140], [62, 62], color=drawing.INK, lw=2, solid_capstyle="round", zorder=3)
    corners = [(x(average), 63), (x(average) - 9, 82), (x(average) + 9, 82)]
    axes.add_patch(drawing.plt.Polygon(corners, closed=True, facecolor=drawing.INK, linewidth=0))
    for weight, grade in zip(weights, softmax.GRADES, strict=True):
        r = 26 * weight**0.5
        axes.add_patch(drawing.plt.Circle((x(grade), 61 - r), r, facecolor=drawing.WEIGHT, linewidth=0))
    return axes


def clocks():
    """The first two hands of the encodings of four places, for vectors of eight numbers."""
    axes = _panel()
    for c, p in np.ndindex(2, 4):
        x, y, angle = 22 + 35 * p, 24 + 44 * c, p * 10000 ** (-2 * c / 8)
        axes.add_patch(drawing.plt.Circle((x, y), 15, facecolor="none", edgecolor=drawing.QUIET, linewidth=1))
        axes.plot([x, x + 15 * np.sin(angle)], [y, y - 15 * np.cos(angle)], color=drawing.INK, lw=2)
    return axes


def mask():
    """What each of six words may see, causally."""
    axes = _panel()
    for i, j in np.ndindex(6, 6):
        look = {"edgecolor": drawing.WEIGHT, "facecolor": drawing.WEIGHT}
        if j > i:
            look = {"edgecolor": drawing.RULE, "facecolor": "none"}
        axes.add_patch(drawing.plt.Rectangle((33 + 14 * j, 5 + 14 * i), 11.5, 11.5, linewidth=1, **look))
    return axes


def heads():
    """A token's numbers in three blocks, each of which finds its own place, and the three side by side again."""
    axes = _panel()
    for t, places in enumerate(np.eye(4)[[0, 3, 1]]):
        for c in range(4):
            x = 14 + 42 * t + 9 * c
            for y, colour, alpha in (
                (8, drawing.QUERY, 0.3),
                (42, drawing.WEIGHT, 0.1 + 0.9 * places[c]),
                (76, drawing.INK, 0.3),
            ):
                axes.add_patch(drawing.plt.Rectangle((x, y), 8, 8, facecolor=colour, alpha=alpha, linewidth=0))
        for start, end in ((20, 38), (54, 72)):
            axes.plot([31.5 + 42 * t] * 2, [start, end], color=drawing.RULE, lw=1.4)
    return axes


def stream():
    """Three streams, word by word, upwards: parts that add to them, and attention that crosses between them."""
    axes = _panel()
    for i, x in enumerate((30, 74, 118)):
        axes.plot([x, x], [88, 8], color=drawing.INK, lw=1.4 + 1.2, solid_capstyle="round", zorder=1)
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
    return axes


def cut():
    """Eight heads of two layers: what each brings to the sum, two of them cut."""
    axes = _panel()
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
                    axes.plot([x - 7, x + 7], [y + 7 * side, y - 7 * side], color=drawing.INK, lw=1.6, zorder=3)
    return axes


def costs():
    """Operations against length, both logarithmic: the projections, the two products, and their sum."""
    axes = _panel()
    n = np.logspace(-1.5, 1.5, 61)  # in units of the crossing

    def at(cost):
        return 74 + 32 * np.log10(n), 56 - 15 * np.log10(cost)

    axes.plot(*at(n), color=drawing.QUIET, lw=1.6)
    axes.plot(*at(n**2), color=drawing.WEIGHT, lw=1.6)
    axes.plot(*at(n + n**2), color=drawing.INK, lw=2.6)
    _dot(axes, 74, 56, drawing.INK, 8)
    return axes


def saved():
    """A table of pairs: the window that is computed, the chunk of keys at hand, and what is left out."""
    axes = _panel()
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
    return axes


def tiles():
    """Causal attention tile by tile: done, being worked at, to come, and left out."""
    axes = _panel()
    for i, j in np.ndindex(5, 5):
        look = {"facecolor": "none", "edgecolor": drawing.RULE}
        if j <= i:
            look = {"facecolor": drawing.WEIGHT, "edgecolor": "none", "alpha": 0.35 if (i, j) < (3, 1) else 0.1}
        if (i, j) == (3, 1):
            look = {"facecolor": drawing.WEIGHT, "edgecolor": drawing.INK}
        corner = 42 + 14 * j, 20 + 14 * i
        axes.add_patch(drawing.plt.Rectangle(corner, 12, 12, linewidth=1.4 if (i, j) == (3, 1) else 0.8, **look))
    for k in range(5):
        alpha = 1 if k == 3 else 0.25
        axes.add_patch(drawing.plt.Rectangle((28, 20 + 14 * k), 8, 12, facecolor=drawing.QUERY, alpha=alpha, lw=0))
        alpha = 1 if k == 1 else 0.25
        axes.add_patch(drawing.plt.Rectangle((42 + 14 * k, 6), 12, 8, facecolor=drawing.KEY, alpha=alpha, lw=0))
    return axes


def pieces():
    """A picture of one stroke, cut into patches that move apart; one of them asks."""
    axes = _panel()
    picture = np.zeros((8, 8))
    picture[[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]] = picture[6, 1:7] = picture[1:7, 1] = 1
    for y, x in np.ndindex(8, 8):
        corner = 32 + 9 * x + 4 * (x // 2), 6 + 9 * y + 4 * (y // 2)
        look = (
            {"facecolor": drawing.INK, "alpha": 0.85}
            if picture[y, x]
            else {"facecolor": drawing.QUIET, "alpha": 0.14}
        )
        axes.add_patch(drawing.plt.Rectangle(corner, 8, 8, lw=0, **look))
    axes.add_patch(drawing.plt.Rectangle((30.5, 48.5), 20, 20, facecolor="none", edgecolor=drawing.QUERY, lw=1.6))
    return axes


DRAWINGS = {
    "01-qkv": queries,
    "02-scaling": walks,
    "03-softmax-gradients": grades,
    "04-position": clocks,
    "05-masking": mask,
    "06-multi-head": heads,
    "07-transformer": stream,
    "08-heads": cut,
    "09-complexity": costs,
    "10-efficient": saved,
    "11-gpu": tiles,
    "12-beyond": pieces,
}


def svg(name):
    """Return a chapter's drawing as SVG, or None."""
    return drawing.as_svg(DRAWINGS[name]()) if name in DRAWINGS else None

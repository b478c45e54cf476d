"""One look for every matplotlib figure of the book: colours by role, readable without colour, prints in grey."""

import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

# Okabe and Ito's colours, by what they stand for. Each role also has a marker and a line style of its own.
QUERY, KEY, VALUE = "#0072B2", "#D55E00", "#009E73"
INK, QUIET, RULE = "#1d2733", "#5b6775", "#d9dee5"
PURPLE = "#CC79A7"
WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#ffffff", "#cfe3f1", "#5fa3cf", QUERY, "#00324f"])


def use():
    """Make the book's look the default of the figures that follow."""
    plt.rcParams.update(
        {
            "figure.figsize": (7, 3.2),
            "figure.dpi": 110,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "axes.titlesize": 10.5,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.edgecolor": QUIET,
            "axes.labelcolor": INK,
            "text.color": INK,
            "xtick.color": QUIET,
            "ytick.color": QUIET,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": RULE,
            "grid.linewidth": 0.6,
            "axes.axisbelow": True,
            "lines.linewidth": 2,
            "legend.frameon": False,
        }
    )


def heatmap(ax, A, rows, columns, numbers=True):
    """Draw weights A (n, m) from 0 to 1 as a grid with its numbers, names of rows and of columns."""
    ax.imshow(A, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.grid(False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if numbers:
        for i, row in enumerate(A):
            for j, a in enumerate(row):
                ax.text(j, i, f"{a:.2f}", ha="center", va="center", fontsize=9, color="white" if a > 0.45 else INK)

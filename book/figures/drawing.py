"""Drawings of the book: matplotlib's vectors, in the page's fonts and colours, in panels that stack
on a phone.

    left, right = drawing.panels(2, height=220)
    left.plot(...)
    drawing.show(left, right)

`show` makes one SVG of all panels. The page takes it apart again (`_ext/drawings.py`): there each
panel is an element of its own, and what has one of the colours below follows the page into the
dark.
"""

import functools
import io
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer
from IPython.display import display
from matplotlib import font_manager
from matplotlib.text import Text

ROOT = Path(__file__).resolve().parent.parent.parent
INTER = ROOT / "_build" / "npm" / "node_modules" / "@fontsource-variable" / "inter" / "files"
FONTS = ROOT / "_build" / "fonts"

# By what they stand for, as in the page's style sheet and formulas. A page in the dark has its own
# of each.
QUERY, KEY, VALUE, WEIGHT = "#0068a3", "#b34e00", "#00755a", "#95477a"
INK, QUIET, RULE, PAPER, CARD = "#1d2733", "#566270", "#e3ddcf", "#fdfcf9", "#ffffff"
VARIABLES = {
    QUERY: "--abh-q",
    KEY: "--abh-k",
    VALUE: "--abh-v",
    WEIGHT: "--abh-weight",
    INK: "--abh-ink",
    QUIET: "--abh-quiet",
    RULE: "--abh-rule",
    PAPER: "--abh-paper",
    CARD: "--abh-card",
}
WIDE, NARROW = 460, 344
"""Widths of a panel in CSS pixels: alone, and where two stand side by side.

A phone shows 344 as they are.
"""
ANCHORS = {
    **{"left": "start", "center": "middle", "right": "end"},
    **{"bottom": "start", "baseline": "start", "center_baseline": "middle", "top": "end"},
}
"""What SVG calls the alignment of a text, that of an upright one too."""
LOOK = {
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "font.family": ["Inter", "DejaVu Sans"],
    "font.size": 9.75,  # points: 13 pixels
    "mathtext.fontset": "cm",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "lines.linewidth": 2,
    "legend.frameon": False,
    "svg.fonttype": "path",  # as glyphs, so that every reader has the font, and formulas stay whole
}


@functools.cache
def _look():
    """Make the page's sans-serif font known to matplotlib, in two weights; return the look."""
    FONTS.mkdir(parents=True, exist_ok=True)
    for weight, name in ((400, "Regular"), (700, "Bold")):
        path = FONTS / f"Inter-{name}.ttf"
        if not path.exists():
            font = TTFont(INTER / "inter-latin-wght-normal.woff2")
            # semibold
            instancer.instantiateVariableFont(font, {"wght": min(weight, 600)}, inplace=True)
            font.flavor = None
            names = {
                1: "Inter",
                2: name,
                4: f"Inter {name}",
                6: f"Inter-{name}",
                16: "Inter",
                17: name,
            }
            # glyphs are known by the sixth: two weights under one would mix
            for record in font["name"].names:
                record.string = names.get(record.nameID, record.string)
            font["OS/2"].usWeightClass = weight
            font.save(path)
        font_manager.fontManager.addfont(path)
    return LOOK


def panels(count=1, width=None, height=240, bare=False):
    """Return the axes of so many panels: one alone, or a list of them.

    Parameters
    ----------
    count : int
    width, height : float
        Of each panel, in CSS pixels. Default width: 460 alone, 344 where there are more.
    bare : bool
        Without axes, for drawings: one unit is one CSS pixel, and (0, 0) is at the top left.
    """
    width = width or (WIDE if count == 1 else NARROW)
    plt.rcParams.update(_look())
    made = []
    for _ in range(count):
        figure = plt.figure(
            figsize=(width / 96, height / 96), layout="none" if bare else "constrained"
        )
        if bare:
            axes = figure.add_axes((0, 0, 1, 1))
            axes.set(xlim=(0, width), ylim=(height, 0))
            axes.axis("off")
        else:
            axes = figure.add_subplot()
        made.append(axes)
    return made[0] if count == 1 else made


class Drawing:
    """Panels as one SVG, which IPython shows."""

    def __init__(self, svg):
        self.svg = svg

    def _repr_mimebundle_(self, **_):
        return {"image/svg+xml": self.svg, "text/plain": "a drawing"}


def name_texts(figure):
    """Give the group of each text in the SVG an id that says how the text is aligned, such as
    `start-3`.

    An edition in another language puts its own words there; matplotlib writes the English ones into
    a comment.
    """
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_ticklabels()  # makes them
    for number, text in enumerate(figure.findobj(Text)):
        # Upright words are aligned like others, but along the other direction.
        upright = text.get_rotation() == 90 and text.get_rotation_mode() == "default"
        text.set_gid(f"{ANCHORS[text.get_va() if upright else text.get_ha()]}-{number}")


def as_svg(*panels):
    """Return the panels as one SVG, and close them."""
    x, height, parts = 0, 0, []
    for number, axes in enumerate(panels):
        figure, file = axes.figure, io.StringIO()
        name_texts(figure)
        # The same picture has the same ids each time, and two pictures have different ones.
        salt = (
            f"{number}-{len(axes.get_children())}-{axes.get_title(loc='left')}-{axes.get_xlabel()}"
        )
        with mpl.rc_context({"svg.hashsalt": salt}):
            figure.savefig(file, format="svg", metadata={"Date": None})
        plt.close(figure)
        wide, high = (round(96 * size) for size in figure.get_size_inches())
        svg = file.getvalue()
        inner = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.S)
        inner = re.sub(
            r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>",
            rf'<svg x="{x}" width="{wide}" ' rf'height="{high}" \1>',
            inner,
        )
        parts.append(inner)
        x, height = x + wide + 24, max(height, high)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{x - 24}" height="{height}">' + "".join(parts) + "</svg>"
    )


def show(*panels):
    """Show the panels as one picture, and close them."""
    display(Drawing(as_svg(*panels)))


def heatmap(axes, A, rows, columns, colour=WEIGHT, digits=2, size=None):
    """Draw weights A (n, m) from 0 to 1 as a grid of squares with their numbers, and the rows'
    and columns' names.
    """
    for i, row in enumerate(A):
        for j, a in enumerate(row):
            axes.add_patch(
                plt.Rectangle(
                    (j - 0.5, i - 0.5), 1, 1, facecolor=colour, alpha=float(a), linewidth=0
                )
            )
            if digits is not None:
                ink = PAPER if a > 0.5 else INK
                axes.text(
                    j, i, f"{a:.{digits}f}", ha="center", va="center", color=ink, fontsize=size
                )
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0, labelcolor=INK)
    axes.spines[:].set_visible(False)
    for k in range(len(columns) + 1):
        axes.axvline(k - 0.5, color=RULE, lw=0.8, zorder=0)
    for k in range(len(rows) + 1):
        axes.axhline(k - 0.5, color=RULE, lw=0.8, zorder=0)

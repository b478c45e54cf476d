"""Numbers for the text of a page: what a cell computed, to be named in a sentence with
`{glue:text}`.
"""

from math import log10

from IPython.core.formatters import format_display_data
from IPython.display import display

# A page sets these as raised digits of its own font (`_ext/superscripts.py`).
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
KEPT = "application/papermill.record/"  # what the build looks numbers up by


def measured(name, value):
    """Keep a number, or words, for the text of this page."""
    data, _ = format_display_data(value if isinstance(value, str) else float(value))
    # As `myst_nb.glue(name, value, display=False)` writes it, whose import takes a second of each
    # page.
    kept = {f"{KEPT}{kind}": text for kind, text in data.items()}
    display(kept, raw=True, metadata={"scrapbook": {"name": name, "mime_prefix": KEPT}})


def power(x):
    """The nearest power of ten, to read in a sentence: 0.0012 -> 10⁻³."""
    return "10" + str(round(log10(x))).translate(RAISED)


def scientific(x):
    """A number of one digit, to read in a sentence: 0.0012 -> 1·10⁻³."""
    digit, exponent = f"{x:.0e}".split("e")
    return f"{digit}·10" + str(int(exponent)).translate(RAISED)


def vector(x, digits=2):
    """A few numbers, to read in a sentence: (8.47, −11.91)."""
    return f"({', '.join(f'{number:.{digits}f}' for number in x)})".replace("-", "−")


def spread(values, unit="", digits=1):
    """What several runs gave, from the least to the greatest, to read in a sentence: 96.2–97.0%."""
    scale = 100 if unit == "%" else 1
    low, high = (f"{scale * value:.{digits}f}" for value in (min(values), max(values)))
    return f"{low}{unit}" if low == high else f"{low}–{high}{unit}"


def repeated(page):
    """How often the times in a page's record were measured, to read in a sentence: `record.py`
    repeats them.
    """
    import records

    circumstances = (records.read(page) or {}).get("made", {})
    if "differ" not in circumstances:
        return "once, so a second run may differ, most of all in short times"
    minutes, share = circumstances["minutes"], circumstances["differ"]
    return (
        f"cell by cell until two runs, at least {minutes} minutes apart, differed by no more "
        f"than {share:.0%}"
    )

"""The figure of chapter 14: three numbers, one of which moves, and each of them minus their mean.

The figure computes in JavaScript, so it works on a page without a kernel. This file has its data
and its texts: everything a reader sees comes from `TEXT`, so that a translation passes another
dictionary.
"""

import functools

import traitlets
from figures.course import of_chapter
from figures.widget import Figure, script, style

NUMBERS = [1.0, 5.0, 6.0]


@functools.cache
def chapter():
    """Return what the page's cells with the tag `course-code` define."""
    return of_chapter("14-serving")


TEXT = {
    "title": "Numbers minus their mean",
    "last": "last number",
    "number": "number",
    "less": "minus the mean",
    "try": "Things to try",
    "try_equal": "Nearly equal",
    "try_far": "One far away",
    "say": "The mean is {mean}. Minus the mean, the numbers are {less}, which sum to 0.",
}


class ServingFigure(Figure):
    """Numbers, the last of which moves, and the same numbers minus their mean.

    Args:
        numbers: the first numbers to show.
        text: texts that replace those in `TEXT`.
    """

    _esm = script("serving")
    _css = style("serving")
    numbers = traitlets.List(traitlets.Float()).tag(sync=True)

    def __init__(self, numbers=NUMBERS, text=None):
        super().__init__(TEXT, text, numbers=list(numbers))


def demo():
    """Return a figure that is quick to make, for a try in JupyterLab."""
    return ServingFigure()

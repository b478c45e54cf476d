"""The figure of chapter N: three numbers, one of them to be moved, and what each is less their mean.

The figure computes in JavaScript, so it answers in a page without a kernel. What is here is its data and its words:
everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import functools

import traitlets
from figures.course import of_chapter
from figures.widget import Figure, script, style

NUMBERS = [1.0, 5.0, 6.0]


@functools.cache
def chapter():
    """Return what the page's cells define that are tagged `course-code`."""
    return of_chapter("NN-name")


TEXT = {
    "title": "Numbers less their mean",
    "last": "last number",
    "number": "number",
    "less": "less the mean",
    "try": "Things to try",
    "try_equal": "All but equal",
    "try_far": "One far away",
    "say": "The mean is {mean}. Less it, the numbers are {less}, which sum to 0.",
}


class NAMEFigure(Figure):
    """Numbers, of which the last is to be moved, and the same numbers less their mean.

    Args:
        numbers: as they are shown first.
        text: other words for `TEXT`.
    """

    _esm = script("NAME")
    _css = style("NAME")
    numbers = traitlets.List(traitlets.Float()).tag(sync=True)

    def __init__(self, numbers=NUMBERS, text=None):
        super().__init__(TEXT, text, numbers=list(numbers))


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return NAMEFigure()

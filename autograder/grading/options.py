"""How a batch of submissions is graded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autograder.grading.submissions import Submission


@dataclass(frozen=True)
class Options:
    """How a batch grades.

    Attributes
    ----------
    force : bool
        Whether to grade what has a valid grade again.
    redraw : bool
        Whether to do that with new inputs.
    pages : bool
        Whether to make feedback pages.
    early_pages : bool
        Whether to make each page as soon as its submission has a grade.
    next_submissions : callable, optional
        Called now and then with the number of submissions under way. Returns others, of the
        session's exercises, to grade in the same batch.
    """

    force: bool = False
    redraw: bool = False
    pages: bool = True
    early_pages: bool = False
    next_submissions: Callable[[int], Sequence[Submission]] | None = None

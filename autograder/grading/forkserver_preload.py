"""Loads the modules that worker processes have when they are forked.

Only the fork server imports this.
"""

from autograder.course import startup

startup.begin()  # before the other imports, which it makes faster

from latex2mathml import converter  # noqa: E402

from autograder.feedback import page  # noqa: E402
from autograder.grading import worker  # noqa: E402
from autograder.sanitize import markdown  # noqa: E402

__all__ = ["converter", "markdown", "page", "worker"]

page.prepare()

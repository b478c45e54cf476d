"""What worker processes have loaded when they are forked. Imported by the fork server, and by nobody else."""

from autograder import startup

startup.begin()

from latex2mathml import converter  # noqa: E402

from autograder.feedback import page  # noqa: E402
from autograder.grading import worker  # noqa: E402
from autograder.sanitize import markdown  # noqa: E402

__all__ = ["converter", "markdown", "page", "worker"]

page.prepare()

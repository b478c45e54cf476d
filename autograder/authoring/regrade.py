"""Adds to each notebook the place where students write that they think a check is wrong."""

import nbformat

from autograder.course.cells import Notebook, grade_id
from autograder.course.config import UserError
from autograder.grades.requests import HEADING_ID

TEXT = """## A check that you think is wrong

Write into the empty cell below: the name of the function, a colon, and your reason. For example:

`project: I think this check is wrong, because ...`

When the notebook is graded, your teacher reads it, and answers on your feedback page. You can write up to three, each
on a new line that begins with a function's name and a colon. Asking costs no points, also after the due date, if you
change nothing else. If there is nothing, leave the cell empty."""  # noqa: E501


def add_to(notebook: Notebook, name: str) -> None:
    """Add both cells at the end of the notebook of the exercise `name`.

    Raises
    ------
    UserError
        If the author has a cell of that title.
    """
    if any(grade_id(cell) == HEADING_ID for cell in notebook.cells):
        raise UserError(
            f"{name}: {HEADING_ID!r} is the title of a cell that release adds; choose another "
            "title."
        )
    asks = nbformat.v4.new_markdown_cell(TEXT, id=HEADING_ID)
    marks = {
        "grade": False,
        "grade_id": HEADING_ID,
        "locked": True,
        "schema_version": 3,
        "solution": False,
        "task": False,
    }
    asks.metadata = nbformat.from_dict({"nbgrader": marks})
    notebook.cells += [asks, nbformat.v4.new_markdown_cell("", id="regrade")]

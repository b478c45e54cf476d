"""Names in each released notebook the packages that are there when it is graded."""

from collections.abc import Sequence

from autograder.course.cells import Notebook, is_locked
from autograder.course.config import HEADING

ALONE = (
    "**Packages.** When your notebook is graded, Python has its standard library, `numpy`, "
    "`torch`, `matplotlib`, `ipywidgets`, and what the given cells import. Code that uses another "
    "package fails there."
)
WITH_OTHERS = (
    "**Packages.** When your notebook is graded, Python has its standard library, `numpy`, "
    "`torch`, `matplotlib`, `ipywidgets`, what the given cells import, and the packages below. "
    "Code that uses another package fails there."
)
TEXTS = (ALONE, WITH_OTHERS)


def add_to(notebook: Notebook, packages: Sequence[str]) -> None:
    """Add that paragraph, with the course's own packages, to the notebook's title, if that is a
    locked text.
    """
    texts = (cell for cell in notebook.cells if cell.cell_type == "markdown" and is_locked(cell))
    title = next((cell for cell in texts if HEADING.match(cell.source)), None)
    if title is not None:
        listed = "".join(f"\n- `{name}`" for name in packages)
        title.source += f"\n\n{WITH_OTHERS}\n{listed}" if packages else f"\n\n{ALONE}"

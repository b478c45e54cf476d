"""Where a course is published, from its `_config.yml`, and the cell that fetches a notebook's files
from there.

Colab opens a notebook by itself, without the files that are next to it in the download. `release`
adds a cell after the title that fetches them if they are missing or, without an address, says where
they are. It is locked and does not affect the grade: it is not run when a submission is graded. A
course without a `_config.yml` has no book with downloads, and no such cell.
"""

import re
from pathlib import Path
from typing import Any

import nbformat
import yaml

from autograder.course.cells import SKIPPED, Notebook, grade_id
from autograder.course.config import HEADING, UserError

CONFIG = "_config.yml"
CELL = "fetch_files"
"""The cell's grade_id."""
TEMPLATE = Path(__file__).parent / "templates" / "files.py"
WITHOUT_ADDRESS = """
# @title The files that belong next to this notebook
if not __import__("os").path.exists("checks.py"):
    print("checks.py is missing next to this notebook. Download the exercise from the book, or run: make release")
"""  # noqa: E501
GITHUB = re.compile(r"(?:https?://)?(?:www\.)?github\.com/([\w-]+)/([\w.-]+?)(?:\.git)?/?")


def repository(root: Path) -> str:
    """Return OWNER/NAME of the repository that `repository: url:` names on GitHub, or an empty
    string.
    """
    match = GITHUB.fullmatch(_setting(root, "repository", "url"))
    return "/".join(match.groups()) if match else ""


def site(root: Path) -> str:
    """Return the address of the book, without a slash at its end, or an empty string.

    It is the value of `html: baseurl:`, or else the address where GitHub publishes the repository's
    pages.
    """
    if elsewhere := _setting(root, "html", "baseurl"):
        return elsewhere.rstrip("/")
    owner, _, name = repository(root).partition("/")
    host = f"{owner.lower()}.github.io"
    if not owner:
        return ""
    return f"https://{host}" if name.lower() == host else f"https://{host}/{name}"


def _setting(root: Path, section: str, key: str) -> str:
    """Return the value of a key in the book's configuration; an empty string if there is no book
    or no value.
    """
    try:
        config: Any = yaml.safe_load((root / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{root / CONFIG} is not YAML: {' '.join(str(error).split())}") from None
    part = config.get(section) if isinstance(config, dict) else None
    return str(part.get(key) or "").strip() if isinstance(part, dict) else ""


def add_cell(notebook: Notebook, root: Path, name: str) -> None:
    """Add the cell about the files of the exercise `name` after the notebook's title, if the course
    has a book.

    Raises
    ------
    UserError
        If the author has a cell of that title.
    """
    if not (root / CONFIG).exists():
        return
    address = site(root)
    if any(grade_id(cell) == CELL for cell in notebook.cells):
        raise UserError(
            f"{name}: {CELL!r} is the title of a cell that release adds; choose another title."
        )
    text = (TEMPLATE.read_text(encoding="utf-8") if address else WITHOUT_ADDRESS).strip()
    code = text.replace("SITE", address).replace("NN-name", name)
    cell = nbformat.v4.new_code_cell(code, id=CELL)
    marks = {
        "grade": False,
        "grade_id": CELL,
        "locked": True,
        "schema_version": 3,
        "solution": False,
        "task": False,
    }
    # Folded in JupyterLab and in Colab: a student who has the files need not read it.
    folded = {"jupyter": {"source_hidden": True}, "cellView": "form"}
    cell.metadata = nbformat.from_dict({"nbgrader": marks, "tags": [SKIPPED], **folded})
    first = notebook.cells[0]
    notebook.cells.insert(
        1 if first.cell_type == "markdown" and HEADING.match(first.source) else 0, cell
    )

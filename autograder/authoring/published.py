"""Where a course is published, by its `_config.yml`; and the cell with which a notebook fetches its files from there.

Colab opens a notebook by itself, without the files that lie beside it in the download. `release` puts a cell behind
the title that fetches them where they are missing. It is locked and decides nothing: it is not run when a submission
is graded. A course that has no `_config.yml`, or no address in it, has no such cell.
"""

import re
from pathlib import Path
from typing import Any

import nbformat
import yaml

from autograder.cells import SKIPPED, Notebook, grade_id
from autograder.config import HEADING, UserError

CONFIG = "_config.yml"
CELL = "fetch_files"
"""The cell's grade_id."""
TEMPLATE = Path(__file__).parent / "templates" / "files.py"
GITHUB = re.compile(r"(?:https?://)?(?:www\.)?github\.com/([\w-]+)/([\w.-]+?)(?:\.git)?/?")


def repository(root: Path) -> str:
    """Return OWNER/NAME of the repository that `repository: url:` says lies on GitHub, or an empty string."""
    found = GITHUB.fullmatch(_said(root, "repository", "url"))
    return "/".join(found.groups()) if found else ""


def site(root: Path) -> str:
    """Return the address of the book, without a slash at its end, or an empty string.

    It is what `html: baseurl:` says, or else where GitHub publishes the repository's pages.
    """
    if elsewhere := _said(root, "html", "baseurl"):
        return elsewhere.rstrip("/")
    owner, _, name = repository(root).partition("/")
    host = f"{owner.lower()}.github.io"
    return "" if not owner else f"https://{host}" if name.lower() == host else f"https://{host}/{name}"


def _said(root: Path, section: str, key: str) -> str:
    """Return what a key of the book's configuration says; an empty string where there is no book, or nothing said."""
    try:
        config: Any = yaml.safe_load((root / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{root / CONFIG} is not YAML: {' '.join(str(error).split())}") from None
    part = config.get(section) if isinstance(config, dict) else None
    return str(part.get(key) or "").strip() if isinstance(part, dict) else ""


def add_cell(notebook: Notebook, root: Path, name: str) -> None:
    """Put the cell that fetches the files of the exercise `name` behind the notebook's title, if there is a site.

    Raises
    ------
    UserError
        If the author has a cell of that title.
    """
    address = site(root)
    if not address:
        return
    if any(grade_id(cell) == CELL for cell in notebook.cells):
        raise UserError(f"{name}: the title {CELL!r} is that of the cell which release adds; choose another one.")
    text = TEMPLATE.read_text(encoding="utf-8").strip()
    code = text.replace("SITE", address).replace("NN-name", name)
    cell = nbformat.v4.new_code_cell(code, id=CELL)
    marks = {"grade": False, "grade_id": CELL, "locked": True, "schema_version": 3, "solution": False, "task": False}
    # Folded in JupyterLab and in Colab: whoever has the files need not read it.
    folded = {"jupyter": {"source_hidden": True}, "cellView": "form"}
    cell.metadata = nbformat.from_dict({"nbgrader": marks, "tags": [SKIPPED], **folded})
    first = notebook.cells[0]
    notebook.cells.insert(1 if first.cell_type == "markdown" and HEADING.match(first.source) else 0, cell)

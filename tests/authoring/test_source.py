"""An author's text read as nbgrader's notebook: what each cell is, and how a fault in it is
named.
"""

import re

import jupytext
import pytest

from autograder.authoring import loader, source
from autograder.course.config import UserError

TEXT = """\
# %% hello [markdown]
# # Read this

# %% given tags=["wide"]
import checks

# %% double
def double(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %%
# Yours.
double(3)

# %% check_double
checks.run("double", points=4)

# %% runs points=1.5
assert double(1) == 2

# %% why [markdown] points=3
# Say why.

# %% sketch points=2
### BEGIN SOLUTION
double(4)
### END SOLUTION
"""
FAULTS = {
    'double")': (
        'checks.run("double")',
        'checks.run("double", points=n)',
        "needs its points as a number",
    ),
    "negative": ("points=1.5", "points=-1", "needs its points as a number"),
    "twice": ("# %% check_double", "# %% check_double points=4", "has points twice"),
    "title": ("# %% double", "# %%", "a solution but no title"),
    "no title": ("# %% check_double", "# %%", "points but no title"),
    "spaces": ("# %% given", "# %% given things", "must be a grade_id"),
    "again": ("# %% why", "# %% hello", "is used twice"),
    "half": ("### END SOLUTION\n\n# %%\n", "\n# %%\n", "do not come in pairs"),
    "option": ("points=3", "point=3", "has 'point'"),
    "old": ("points=3", 'nbgrader={"grade": true}', "has 'nbgrader'"),
    "unread": ("points=3", "points=three", "has 'incorrectly_encoded_metadata'"),
    "syntax": ("return 2 * x", "return 2 *", "is not Python"),
}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def marks(cell):
    flags = cell.metadata.get("nbgrader", {})
    return {
        name: flags[name] for name in ("grade", "locked", "solution", "points") if name in flags
    }


def test_each_kind_of_cell_has_nbgraders_marks(tmp_path):
    notebook = source.read(write(tmp_path / "text.py", TEXT))
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
    given_marks = {"grade": False, "locked": True, "solution": False}
    assert marks(cells["hello"]) == given_marks and cells["hello"].cell_type == "markdown"
    assert marks(cells["given"]) == given_marks and cells["given"].metadata["tags"] == ["wide"]
    assert marks(cells["double"]) == {"grade": False, "locked": False, "solution": True}
    assert marks(cells[None]) == {} and cells[None].source == "# Yours.\ndouble(3)"
    assert marks(cells["check_double"]) == {
        "grade": True,
        "locked": True,
        "solution": False,
        "points": 4,
    }
    assert marks(cells["runs"]) == {"grade": True, "locked": True, "solution": False, "points": 1.5}
    assert marks(cells["why"]) == {"grade": True, "locked": False, "solution": True, "points": 3}
    assert marks(cells["sketch"]) == {"grade": True, "locked": False, "solution": True, "points": 2}
    assert [cell.id for cell in notebook.cells][:3] == ["hello", "given", "double"]
    assert source.read(tmp_path / "text.py") == notebook


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_that_names_file_and_line(tmp_path, fault):
    old, new, message = FAULTS[fault]
    if fault == 'double")':
        old = 'checks.run("double", points=4)'
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    with pytest.raises(UserError) as error:
        source.read(write(tmp_path / "solutions" / "01-x" / "01-x.py", text))
    match = re.fullmatch(r"solutions/01-x/01-x\.py:(\d+): (.*)", str(error.value))
    assert match and message in match[2]
    line = text.splitlines()[int(match[1]) - 1]
    changed = next(
        line for line, was in zip(text.splitlines(), TEXT.splitlines(), strict=False) if line != was
    )
    if old.startswith("# %%") or fault == "syntax":
        assert line == changed
    else:
        assert line.startswith("# %%")


def test_a_header_inside_a_string_is_not_counted(tmp_path):
    text = TEXT.replace("# Yours.\n", 'quoted = """\n# %% no cell\n"""\n')
    notebook = source.read(write(tmp_path / "text.py", text))
    where = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith("# %%")]
    where.remove(text.splitlines().index("# %% no cell") + 1)
    assert source.lines(text, notebook) == where


@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_a_text_is_as_jupytext_writes_it(folder):
    """So that it can be opened and saved in Jupyter, and nothing but what was changed differs."""
    text = (folder / f"{folder.name}.py").read_text(encoding="utf-8")
    assert jupytext.writes(jupytext.reads(text, fmt="py:percent"), fmt="py:percent") == text

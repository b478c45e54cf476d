"""The small course of the corpus, which has nothing to do with attention: written somewhere, handed
in, graded.
"""

import json
import shutil
from types import SimpleNamespace

import nbformat
import pytest
from hostile import TOY
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring.release import release
from autograder.commands import console
from autograder.course.config import ROOT, Course, UserError

RIGHT = {"add": "def add(a, b):\n    return b + a", "twice": "def twice(a):\n    return a + a"}


def toy_course(root, settings=""):
    """Write the toy course of the corpus below `root`, with these lines behind our
    nbgrader_config.py; return it.
    """
    shutil.copytree(TOY, root, dirs_exist_ok=True)
    text = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    (root / "nbgrader_config.py").write_text(text + settings, encoding="utf-8")
    return Course(root=root)


def released(root, settings=""):
    """Write the toy course below `root`, and release its exercise; return the course."""
    course = toy_course(root, settings)
    (exercise,) = course.sources()
    release(course, exercise)
    return course


def hand_in(
    folder,
    student,
    answers=None,
    raw=None,
    stamp=None,
    change=lambda notebook: None,
    name="01-toy",
    toy=None,
):
    """Write a submission below `folder`: the released notebook with these answers, or these
    bytes.

    `raw` has the bytes, or makes them of the notebook; `change` changes the notebook before it is
    written; `name` is that of its file.
    """
    submission = folder / student / "01-toy"
    submission.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.read(toy.exercises()[0].notebook, as_version=4)
    if raw is not None:
        (submission / "01-toy.ipynb").write_bytes(raw(notebook) if callable(raw) else raw)
    else:
        for cell in notebook.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            cell.source = (answers or {}).get(grade_id, cell.source)
        change(notebook)
        nbformat.write(notebook, submission / f"{name}.ipynb")
    if stamp:
        (submission / "timestamp.txt").write_text(stamp)


def run(course, *arguments):
    """Run the command line on a course; a UserError comes back as exit code 1 with its message."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console.out, "_width", 200)
        command = [*map(str, arguments), "--course", str(course.root)]
        result = CliRunner().invoke(cli.app, command)
    if isinstance(result.exception, UserError):
        return SimpleNamespace(exit_code=1, output=f"{result.output}\nError: {result.exception}")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def record_of(course, student):
    return json.loads(
        (course.output_folder / "autograded" / student / "01-toy" / "grade.json").read_text()
    )

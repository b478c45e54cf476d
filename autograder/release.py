"""Release: the author's text becomes nbgrader's source notebook, and that becomes the student's folder."""

import hashlib
import re
import shutil
from pathlib import Path

import jupytext
import nbformat
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import capture_log
from traitlets.config import Config

from autograder.course import UserError
from autograder.gradebook import QUIET

RUNTIME = Path(__file__).parent / "runtime" / "checking"
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def source_notebook(exercise):
    """Return the exercise's notebook with solutions, made from its text.

    jupytext gives cells new ids at every reading; here they follow from grade ids and contents, so that the
    same text always makes the same notebook.
    """
    notebook = jupytext.read(exercise.text)
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    taken = set()
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        name = grade_id or "cell-" + hashlib.sha256(cell.source.encode()).hexdigest()[:10]
        name = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:60]
        if name in taken and grade_id:
            raise UserError(f"{exercise.text}: the grade_id {grade_id!r} stands twice; each must be its own.")
        while name in taken:
            name += "x"
        taken.add(name)
        cell.id = name
    return notebook


def release(course, exercise, into=None):
    """Build what students get: the notebook without solutions, its checks, and the runtime they need.

    Parameters
    ----------
    course : Course
    exercise : Exercise
    into : Path, optional
        Where the released folder goes. Default: `exercises/NN-name/`, replaced whole once all is built.

    Returns
    -------
    Path
        The released folder.

    Raises
    ------
    UserError
        If nbgrader cannot make the release; the old one is left as it was.
    """
    into = into or exercise.released
    nbformat.write(source_notebook(exercise), exercise.solution / f"{exercise.name}.ipynb")
    building = Path("_build") / "release"
    config = Config(course.config)
    config.CourseDirectory.release_directory = str(building)
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    converter.coursedir.assignment_id = exercise.name
    converter.log = QUIET
    outcome = capture_log(converter)
    if not outcome["success"]:
        reason = outcome["error"].strip().splitlines()[-1]
        raise UserError(f"nbgrader could not release {exercise.name}: {reason}")
    built = course.root / building / exercise.name
    shutil.copytree(RUNTIME, built / "checking", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(into, ignore_errors=True)
    into.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(built, into)
    return into

"""Release: makes nbgrader's source notebook from the author's text, and the student's folder
from that.
"""

import shutil
from pathlib import Path

import nbformat
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import capture_log
from traitlets.config import Config

from autograder.authoring import (
    handout,
    packages,
    published,
    regrade,
    source,
    translations,
    verified,
)
from autograder.checking import words
from autograder.course import archive, catalogs
from autograder.course.config import Course, Exercise, UserError
from autograder.grades import gradebook


def release(course: Course, exercise: Exercise, into: Path | None = None) -> Path:
    """Build what students get: the notebook in all languages, without solutions, and what lies
    beside it.

    Parameters
    ----------
    course : Course
    exercise : Exercise
    into : Path, optional
        Where the released folder goes. Default: `exercises/NN-name/`, replaced as a whole once
        everything is built.

    Returns
    -------
    Path
        The released folder.

    Raises
    ------
    UserError
        If nbgrader cannot make the release; the old one is left unchanged.
    """
    into = into or exercise.released
    notebook = source.read(exercise.text)
    published.add_cell(notebook, course.root, exercise.name)
    packages.add_to(notebook, course.packages_of(exercise))
    regrade.add_to(notebook, exercise.name)
    nbformat.write(notebook, exercise.solution / f"{exercise.name}.ipynb")
    # Before nbgrader, which copies it with the other files of the folder.
    archive.write(exercise.solution)
    # nbgrader also writes the exercise into it: it must be this course's
    with gradebook.opened(course):
        pass
    building = Path("_build") / "release"
    config = Config(course.config)
    config.CourseDirectory.release_directory = str(building)
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    converter.coursedir.assignment_id = exercise.name
    converter.log = gradebook.QUIET
    outcome = capture_log(converter)
    if not outcome["success"]:
        reason = outcome["error"].strip().splitlines()[-1]
        raise UserError(f"nbgrader could not release {exercise.name}: {reason}")
    built = course.root / building / exercise.name
    # A catalog that cannot be read is refused here, while the earlier release is still there.
    texts = {
        language: catalogs.of_texts(course.root, language, exercise.name)
        for language in catalogs.languages(course.root)
    }
    # Only now: all that can be refused has been done.
    shutil.rmtree(into, ignore_errors=True)
    into.parent.mkdir(parents=True, exist_ok=True)
    # Never the record, even if nbgrader's configuration does not ignore it: it names wrong answers.
    shutil.copytree(built, into, ignore=shutil.ignore_patterns(f"*{verified.NAME}*"))
    editions = {words.ENGLISH: nbformat.read(into / exercise.notebook.name, as_version=4)}
    for language, translated in texts.items():
        if translated:
            edition = translations.edition(into / exercise.notebook.name, language, translated)
            nbformat.write(edition, into / exercise.edition(language).name)
            editions[language.replace("_", "-")] = edition
    handout.write(course, exercise, editions, into)
    return into

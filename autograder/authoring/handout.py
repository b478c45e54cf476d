"""What lies beside a released notebook for the student: `exercise.json`, which the checks read,
and `AGENTS.md`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder.checking import words
from autograder.checking.progress import RELEASED
from autograder.course import deadlines
from autograder.course.cells import Notebook, call_of, grade_id, is_check
from autograder.course.config import HEADING, Course, Exercise

AGENTS = "AGENTS.md"
TEMPLATE = Path(__file__).parent / "templates" / AGENTS


def write(
    course: Course, exercise: Exercise, editions: Mapping[str, Notebook], folder: Path
) -> None:
    """Write both files into a released folder.

    Parameters
    ----------
    course : Course
        Its `deadlines.toml` and its configuration say when the exercise is due, and whether hints
        are staged.
    exercise : Exercise
    editions : mapping
        The released notebook, by language.
    folder : Path
        Where the files go.
    """
    english = editions[words.ENGLISH]
    about: dict[str, Any] = {
        "title": {language: _title(notebook) for language, notebook in editions.items()},
        "points": _points(english),
        "given": {language: _given_sources(notebook) for language, notebook in editions.items()},
    }
    due = deadlines.read(course).due.get(exercise.name)
    if due:
        about["due"] = due.isoformat(timespec="minutes")
    if course.staged_hints:
        about["hints"] = "staged"
    (folder / RELEASED).write_text(
        json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    text = TEMPLATE.read_text(encoding="utf-8").replace("NN-name", exercise.name)
    (folder / AGENTS).write_text(text, encoding="utf-8")


def _title(notebook: Notebook) -> str:
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return next((heading[1] for text in texts if (heading := HEADING.match(text))), "")


def _points(notebook: Notebook) -> dict[str, float]:
    """Return the points of each function that a cell checks, in the notebook's order."""
    calls = (call_of(cell) for cell in notebook.cells if is_check(cell))
    return {call.subject: call.points or 0 for call in calls if call}


def _given_sources(notebook: Notebook) -> dict[str, str]:
    """Return the given text of each function that a cell checks."""
    texts = {grade_id(cell): cell.source for cell in notebook.cells}
    return {name: texts[name] for name in _points(notebook) if name in texts}

"""Make a new exercise, which works, from a template: one function, its checks and its listed answers."""

import re
from pathlib import Path

from autograder.course import Course, Exercise, UserError

TEMPLATE = Path(__file__).parent / "templates" / "exercise"
NAME = re.compile(r"(\d\d)-([a-z0-9]+(?:-[a-z0-9]+)*)")


def make(course: Course, name: str) -> list[Path]:
    """Write the folder of an exercise that there is none of yet; return its files.

    Raises
    ------
    UserError
        If the course is none, its name is none for an exercise, or there is something of that name.
    """
    exercise = Exercise(name, Path(course.config.CourseDirectory.root))
    found = NAME.fullmatch(name)
    if found is None:
        raise UserError(
            f"{name!r} is no name for an exercise: two digits, a hyphen, and words in lower case with "
            "hyphens between them, such as 12-beyond."
        )
    if exercise.solution.exists():
        raise UserError(f"solutions/{name} is there already; choose another name, or move it away.")
    number, title = str(int(found[1])), found[2].replace("-", " ").capitalize()
    exercise.solution.mkdir(parents=True)
    made = []
    for template in sorted(TEMPLATE.glob("*.*")):
        text = template.read_text(encoding="utf-8").replace("NN-name", name).replace("TITLE", title)
        text = re.sub(r"\bN\b(?=\.)|(?<=chapter )N\b|(?<=exercise )N\b", number, text)
        path = exercise.solution / template.name.replace("NN-name", name)
        path.write_text(text, encoding="utf-8")
        made.append(path)
    return made

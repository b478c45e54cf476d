"""Make a new working chapter with its exercise, from templates; without a book, only the
exercise.
"""

import re
from pathlib import Path

from autograder.authoring import chapters
from autograder.course.config import Course, Exercise, UserError

TEMPLATES = Path(__file__).parent / "templates"
NAME = re.compile(r"(\d\d)-([a-z0-9]+(?:-[a-z0-9]+)*)")
READ = 'read={{"by_hand": "chapter {number}, By hand", "centered": "chapter {number}, The code"}}'


def make(course: Course, name: str, exercise_only: bool = False) -> tuple[list[Path], list[Path]]:
    """Write the files of a new chapter and its exercise, and list the chapter.

    Parameters
    ----------
    course : Course
        If it has a book, with entries of chapters, the chapter is made; otherwise only the
        exercise.
    name : str
        Such as 15-sparse-attention.
    exercise_only : bool
        Whether to make only the exercise in any case.

    Returns
    -------
    tuple of two lists of Path
        The files that were made, and those whose lists have the chapter now.

    Raises
    ------
    UserError
        If there is no course, the name is not valid for an exercise or already exists, or the
        number is not that of the next chapter.
    """
    root = Path(course.config.CourseDirectory.root)
    words = _words(name)
    has_chapter = not exercise_only and bool(chapters.files(root))
    known = list(chapters.read(root)) if has_chapter else []
    texts = {}
    if has_chapter:
        texts = _filled(TEMPLATES / "chapter", root, words | {"BEFORE": known[-1] if known else ""})
        # and headings to send readers to
        words |= {r"(?<=__name__, )read=\{\}": READ.format(number=int(name[:2]))}
    texts |= _filled(TEMPLATES / "exercise", Exercise(name, root).solution, words)
    for path in (Exercise(name, root).solution, *texts):
        if path.exists():
            in_book = path.is_relative_to(root / "book")
            alone = "; for only the exercise, use --exercise-only" if in_book else ""
            where = path.relative_to(root).as_posix()
            raise UserError(f"{where} already exists; choose another name, or move it away{alone}.")
    number = 1 + max((int(other[:2]) for other in known), default=0)
    if has_chapter and int(name[:2]) != number:
        raise UserError(
            f"{name}: the next chapter has the number {number:02}. For only an exercise, use "
            "--exercise-only."
        )
    # After all that can be refused: a chapter is made as a whole.
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    changed = [root / listed for listed in chapters.write(root)] if has_chapter else []
    return list(texts), changed


def _words(name: str) -> dict[str, str]:
    """Return the placeholders of a template, as patterns, and their replacements; longer ones
    come first.
    """
    match = NAME.fullmatch(name)
    if match is None:
        raise UserError(
            f"{name!r} is not a valid name for an exercise. Use two digits and words in lower "
            "case, joined by hyphens, such as 12-beyond."
        )
    number, parts = str(int(match[1])), match[2].split("-")
    return {
        "NN-name": name,
        "TITLE": " ".join(parts).capitalize(),
        "abh-NAME": f"abh-{match[2]}",
        "NAMEFigure": "".join(map(str.capitalize, parts)) + "Figure",
        "NAME": "_".join(parts),
        r"\bN\b(?=\.)|(?<=[Cc]hapter )N\b|(?<=exercise )N\b|(?<=\| )N(?= \|)|(?<=\*\*)N(?=\*\*)": number,  # noqa: E501
    }


def _filled(template: Path, folder: Path, words: dict[str, str]) -> dict[Path, str]:
    """Return the files that a folder of templates makes below `folder`, with their texts."""

    def fill(text: str) -> str:
        for pattern, word in words.items():
            text = re.sub(pattern, word, text)
        return text

    files = sorted(
        path for path in template.rglob("*.*") if path.is_file() and "__pycache__" not in path.parts
    )
    return {
        folder / fill(str(path.relative_to(template))): fill(path.read_text(encoding="utf-8"))
        for path in files
    }

"""The exercises of this course: loaded once, and what is known of them without loading."""

import functools
import re

from autograder.authoring import chapters, loader

MARK = r"\*About (\d+) minutes · (easy ●○○|medium ●●○|hard ●●●)\*"


@functools.cache
def loaded(folder):
    """Return an exercise of this course, loaded once in each process: no test changes it."""
    return loader.load(folder)


def subjects_of(folder):
    """Return the functions that an exercise's notebook checks, in order, without loading it:
    pytest asks for them.
    """
    return re.findall(
        r'^checks\.run\("(\w+)"', (folder / f"{folder.name}.py").read_text(encoding="utf-8"), re.M
    )


def assert_sends_to_chapter(folder):
    """Of each function; an exercise that has no chapter yet sends nobody anywhere."""
    exercise, chapter = loaded(folder), chapters.read(loader.ROOT).get(folder.name)
    assert set(exercise.suite.read) == (set(exercise.subjects) if chapter else set())
    pages = [page.read_text(encoding="utf8") for page in chapter.pages] if chapter else []
    headings = re.findall(r"^#+ (.+)$", "\n".join(pages), re.M)
    for subject, reference in exercise.suite.read.items():
        named, _, heading = reference.partition(", ")
        assert named == f"chapter {int(folder.name[:2])}" and heading in headings, (
            f"{subject}: {reference}"
        )


def assert_times_below_headings(folder):
    """Of the exercise and of all that it asks; the times of its parts add up, without that of
    the stretch task.
    """
    exercise, marks = loaded(folder), {}
    for cell in exercise.cells(grade=False, solution=False):
        if cell.cell_type == "markdown" and re.search(r"^\*About", cell.source, re.M):
            (marks[cell.id],) = re.findall(rf"^{MARK}$", cell.source, re.M)
    asked = {
        f"ask_{cell.id.partition('_')[0]}"
        for cell in exercise.cells(solution=True)
        if cell.cell_type != "code"
    }
    asked |= {f"ask_{subject}" for subject in exercise.subjects}
    assert set(marks) == {"title", "think", "stretch"} | asked
    minutes = {name: int(mark[0]) for name, mark in marks.items()}
    assert minutes["title"] == sum(minutes.values()) - minutes["title"] - minutes["stretch"]


def assert_pencil_question_first(folder):
    exercise = loaded(folder)
    assert exercise.subjects[0] == "by_hand" and "by_hand" in exercise.without_points

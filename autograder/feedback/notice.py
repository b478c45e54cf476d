"""What a page says of the hand-in that it answers, on a feedback page or on a short page alone."""

import re
from collections.abc import Iterable

from autograder.checking import words
from autograder.checking.words import Message
from autograder.course.config import Exercise
from autograder.feedback import page
from autograder.sanitize import code

HERE = "<!--hand-in-->"
"""Where a feedback page has room for these sentences."""
POINTS = re.compile(r"<!--points-->.*?<!--/points-->", re.DOTALL)
"""What a feedback page says of points. Nothing that a student wrote can be such a comment."""
LANGUAGE = re.compile(r'<html lang="([\w-]+)"')


def language_of(feedback: str) -> str:
    """Return the language of a feedback page, such as zh_CN; "" if it does not say."""
    # Only in the head: further down, a student's text could say so.
    match = LANGUAGE.search(feedback, 0, 1000)
    return match[1].replace("-", "_") if match else ""


def with_notice(feedback: str, sentences: Iterable[Message], points: bool) -> str:
    """Return a feedback page with sentences on its hand-in, and without points unless `points`."""
    if not points:
        feedback = POINTS.sub("", feedback)
    notes = "".join(f'<p class="note">{code.inline(str(each))}</p>\n' for each in sentences)
    if HERE not in feedback:  # the short page of a fault, or one of an older release
        return f"{feedback}{notes}"
    return feedback.replace(HERE, notes, 1)


def notice_page(exercise: Exercise, student: str, sentences: Iterable[Message]) -> str:
    """Return a page that only has sentences on a hand-in, in the language in use."""
    language = words.language()
    return page.from_template(
        "notice.html.j2",
        language=language,
        assignment=exercise.name,
        title=exercise.title_in("" if language == words.ENGLISH else language),
        student=student,
        sentences=[str(sentence) for sentence in sentences],
    )

"""The page on what the checks catch has every exercise, every listed wrong answer, and a check for each."""

import re

import pytest

import exercises


@pytest.fixture(scope="module")
def page(html):
    return (html / "book" / "catches.html").read_text(encoding="utf8")


@pytest.mark.parametrize("folder", exercises.FOLDERS, ids=lambda folder: folder.name)
def test_every_wrong_answer_stands_there_with_its_check(page, folder):
    exercise = exercises.load(folder)
    for subject in exercise.subjects:
        part = re.search(rf'<details[^>]*id="catches-{folder.name}-{subject}".*?</details>', page, re.S)
        assert part, f"book/catches.md has no table of {folder.name}"
        rows = re.findall(r"<tr.*?</tr>", part[0].partition("<tbody>")[2], re.S)
        assert len(rows) == len(exercise.suite.listed("wrong_for", subject))
        for row in rows:
            answer, caught, hint = (
                re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row, re.S)
            )
            assert answer and caught and hint

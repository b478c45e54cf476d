"""The corpus itself: its cases can be told apart and written, and the book has a place and a
recording for each.
"""

import importlib
import re
from collections import Counter

import pytest

from autograder.corpus import CASES, GROUPS, recorded
from autograder.course.config import ROOT

FIT_FOR_A_FOLDER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MOST_NAME = 60


@pytest.fixture
def extension(monkeypatch):
    """The module that makes the book's page of the corpus."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    return importlib.import_module("corpus")


def test_every_case_has_a_name_of_its_own_that_is_fit_for_a_folder():
    counts = Counter(case.name for case in CASES)
    assert [name for name, count in counts.items() if count > 1] == []
    assert [
        name for name in counts if not FIT_FOR_A_FOLDER.fullmatch(name) or len(name) > MOST_NAME
    ] == []


def test_every_student_is_another():
    counts = Counter(case.student or case.name for case in CASES)
    assert [student for student, count in counts.items() if count > 1] == []


def test_every_group_has_a_title_and_a_section_in_the_book(extension):
    assert set(extension._titles()) == set(GROUPS)
    page = (ROOT / "book" / "hostile.md").read_text(encoding="utf-8")
    sections = [
        re.findall(r"^```\{corpus\} (\w+)$", part, re.MULTILINE) for part in page.split("\n## ")
    ]
    assert [names for names in sections if names] == [[name] for name in GROUPS], (
        "in the order of the summary"
    )


def test_every_case_has_a_recording_and_no_other_has():
    names = {case.name for case in CASES}
    kept = set(recorded()["cases"])
    assert sorted(names - kept) == [], "run: python -m autograder stock CASE ..."
    assert sorted(kept - names) == []

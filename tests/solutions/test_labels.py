"""Every listed wrong answer has a label that people read: in feedback, in tables, in the book.

Whatever folder appears in `solutions/` is tested here without a change; so is the corpus's
small course.
"""

import importlib
from collections import Counter

import pytest
from exercise_tools import loaded

from autograder.authoring import answer_trials, loader

SMALL_COURSES = [
    loader.ROOT / "tests" / "hostile" / "toy" / "solutions" / "01-toy",
]
FEWEST_CHARACTERS, MOST_CHARACTERS = 2, 60
FEWEST_WORDS, MOST_WORDS = 2, 7
# What a label may begin with in upper case: names, of matrices too.
NAMES = {
    "Gini",
    "Jacobian",
    "Jacobians",
    "NaN",
    "None",
    "NumPy's",
    "PyTorch's",
    "A",
    "K",
    "Q",
    "V",
    "W",
    "W_o",
}
NAMES |= {"W_o's", "W_q", "X", "Z", "GELU", "ReLU", "SiLU"}
each_exercise = pytest.mark.parametrize(
    "folder", [*loader.FOLDERS, *SMALL_COURSES], ids=lambda folder: folder.name
)


def listed(folder):
    """Yield each wrong answer that is listed for a function of an exercise, with the function's
    name.
    """
    exercise = loaded(folder)
    for subject in exercise.subjects:
        yield from ((subject, wrong) for wrong in exercise.suite.listed("wrong_for", subject))


@pytest.fixture
def catches(monkeypatch):
    """The module that makes the book's page of wrong answers."""
    monkeypatch.syspath_prepend(str(loader.ROOT / "book" / "_ext"))
    return importlib.import_module("catches")


@each_exercise
def test_every_wrong_answer_has_a_label_of_its_subject_alone(folder):
    answers = list(listed(folder))
    assert {subject for subject, _ in answers} == set(
        loaded(folder).subjects
    ) or folder in SMALL_COURSES
    assert [answer.__name__ for _, answer in answers if not answer.label] == []
    counts = Counter((subject, answer.label) for subject, answer in answers)
    assert [label for label, count in counts.items() if count > 1] == [], (
        "two wrong answers share a label"
    )


@each_exercise
def test_labels_are_a_few_plain_words(folder, catches):
    """Short enough for a table's cell, and to stand in a sentence: no full stop, no code, a
    small first letter.
    """
    for subject, answer in listed(folder):
        label = answer.label
        assert FEWEST_CHARACTERS <= len(label) <= MOST_CHARACTERS, label
        assert FEWEST_WORDS <= len(label.split()) <= MOST_WORDS, label
        assert label == " ".join(label.split()), "spaces at an end, or two in a row"
        assert not label[0].isupper() or label.split()[0].strip(",") in NAMES, label
        assert not label.endswith("."), label
        assert "`" not in label and "@" not in label, label
        # A spreadsheet takes a cell that begins like this for a formula.
        assert label[0] not in "-+=", label
        # It says more than the function's name. A family's is named after its label.
        family = answer.__module__.endswith("checking.answers")
        assert family or label != catches.words(answer.__name__, subject), answer.__name__


def test_without_a_label_the_page_shows_the_name_in_words(catches):
    def wrong(label):
        return answer_trials.Wrong("scores_keys_first", label, "", [], False, [], False)

    assert catches.mistake(wrong(""), "scores") == "keys first"
    assert (
        catches.mistake(wrong("keys and queries swapped"), "scores") == "keys and queries swapped"
    )

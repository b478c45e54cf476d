"""Every listed wrong answer has a label that people read: in feedback, in tables, in the book.

Whatever folder appears in `solutions/` is tested here without a change; so is the corpus's
small course.
"""

import importlib
from collections import Counter

import pytest

from autograder.authoring import answer_trials, loader

SMALL_COURSES = [
    loader.ROOT / "autograder" / "corpus" / "toy" / "solutions" / "01-toy",
]
FEWEST_CHARACTERS, MOST_CHARACTERS = 2, 60
FEWEST_WORDS, MOST_WORDS = 2, 7
# What a label may begin with in upper case: names, of matrices too.
NAMES = {"Gini", "Jacobian", "Jacobians", "NaN", "None", "NumPy's", "PyTorch's", "A", "K", "Q", "V", "W", "W_o"}
NAMES |= {"W_o's", "W_q", "X", "Z", "GELU", "ReLU", "SiLU"}
SUBJECTS = [
    (folder, subject) for folder in [*loader.FOLDERS, *SMALL_COURSES] for subject in loader.load(folder).subjects
]
each_subject = pytest.mark.parametrize(
    ("folder", "subject"), SUBJECTS, ids=[f"{folder.name}-{subject}" for folder, subject in SUBJECTS]
)


@pytest.fixture
def catches(monkeypatch):
    """The module that makes the book's page of wrong answers."""
    monkeypatch.syspath_prepend(str(loader.ROOT / "book" / "_ext"))
    return importlib.import_module("catches")


@each_subject
def test_every_wrong_answer_has_a_label_of_its_subject_alone(folder, subject):
    wrong = loader.load(folder).suite.listed("wrong_for", subject)
    assert wrong or folder in SMALL_COURSES
    assert [answer.__name__ for answer in wrong if not answer.label] == []
    counts = Counter(answer.label for answer in wrong)
    assert [label for label, count in counts.items() if count > 1] == [], "two wrong answers share a label"


@each_subject
def test_labels_are_a_few_plain_words(folder, subject):
    """Short enough for a table's cell, and to stand in a sentence: no full stop, no code, a small first letter."""
    for answer in loader.load(folder).suite.listed("wrong_for", subject):
        label = answer.label
        assert FEWEST_CHARACTERS <= len(label) <= MOST_CHARACTERS, label
        assert FEWEST_WORDS <= len(label.split()) <= MOST_WORDS, label
        assert label == " ".join(label.split()), "spaces at an end, or two in a row"
        assert not label[0].isupper() or label.split()[0].strip(",") in NAMES, label
        assert not label.endswith("."), label
        assert "`" not in label and "@" not in label, label
        # A spreadsheet takes a cell that begins like this for a formula.
        assert label[0] not in "-+=", label


@each_subject
def test_labels_say_more_than_the_function_s_name(folder, subject, catches):
    for answer in loader.load(folder).suite.listed("wrong_for", subject):
        family = answer.__module__.endswith("checking.answers")  # named after its label
        assert family or answer.label != catches.words(answer.__name__, subject), answer.__name__


def test_without_a_label_the_page_shows_the_name_in_words(catches):
    def wrong(label):
        return answer_trials.Wrong("scores_keys_first", label, "", [], False, [], False)

    assert catches.mistake(wrong(""), "scores") == "keys first"
    assert catches.mistake(wrong("keys and queries swapped"), "scores") == "keys and queries swapped"

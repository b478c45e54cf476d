"""What became of an exercise's listed answers is written down once, and counts until what decides it has changed."""

import pytest
from conftest import toy_course

from autograder.authoring import answer_trials, verify


@pytest.fixture
def folder(tmp_path):
    return toy_course(tmp_path).root / "solutions" / "01-toy"


def test_whoever_verifies_writes_down_what_the_book_shows(folder):
    assert answer_trials.recorded(folder) is None
    assert verify.fault(folder) == ""
    kept = answer_trials.recorded(folder)
    assert [own.subject for own in kept] == ["add", "twice"]
    wrong = {own.name: own for own in kept[0].wrong}
    assert wrong["subtracts"].recognised and not wrong["subtracts"].passes
    assert wrong["subtracts"].failed[0][0] == "adds"
    assert kept == answer_trials.of(folder)


def test_what_is_written_down_is_not_tried_again(folder, monkeypatch):
    found = answer_trials.of(folder)
    monkeypatch.setattr(answer_trials, "tried", lambda *arguments: pytest.fail("tried again"))
    assert answer_trials.of(folder) == found


@pytest.mark.parametrize("name", ["checks.py", "misconceptions.py", "01-toy.py"])
def test_another_text_is_tried_anew(folder, name):
    answer_trials.of(folder)
    path = folder / name
    path.write_text(path.read_text(encoding="utf-8") + "\n# one line more\n", encoding="utf-8")
    assert answer_trials.recorded(folder) is None


@pytest.mark.parametrize("text", ["", "[1]", '{"from": ""}', "{", "null"])
def test_a_record_that_cannot_be_read_is_none(folder, text):
    answer_trials.of(folder)
    (record,) = folder.parent.parent.glob("_build/listed/*.json")
    record.write_text(text, encoding="utf-8")
    assert answer_trials.recorded(folder) is None


def test_a_wrong_answer_that_passes_is_written_down_with_its_seeds(folder):
    path = folder / "misconceptions.py"
    path.write_text(path.read_text(encoding="utf-8").replace("return a - b", "return a + b"), encoding="utf-8")
    assert "passes every check of add (seed 1)" in verify.fault(folder)
    assert answer_trials.recorded(folder) is None, "what is refused is not written down"
    wrong = {own.name: own for own in answer_trials.of(folder)[0].wrong}
    assert wrong["subtracts"].passes == list(answer_trials.SEEDS) and not wrong["subtracts"].failed

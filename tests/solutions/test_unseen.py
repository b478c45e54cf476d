"""Answers that were written from the released notebooks alone: they are what they say, and are
counted.
"""

import pytest

from autograder.authoring import loader, unseen
from autograder.checking.diagnosis import Diagnosis

EACH = {"wrong": 10, "right": 3}  # for each function, at least
WRITTEN = [folder for folder in loader.FOLDERS if unseen.answers(folder.name)]
each_exercise = pytest.mark.parametrize("folder", WRITTEN, ids=lambda folder: folder.name)


def test_what_is_recorded_is_of_all_that_were_written():
    assert list(unseen.recorded()) == [folder.name for folder in WRITTEN]
    assert len(list(unseen.FOLDER.glob("*.py"))) == len(WRITTEN), "a file belongs to no exercise"


@pytest.mark.slow
@each_exercise
def test_there_are_enough_for_each_function_and_none_twice(folder):
    exercise, answers = loader.load(folder), unseen.answers(folder.name)
    for subject in exercise.programs:
        of_subject = [answer for answer in answers if answer.subject == subject]
        assert all(
            sum(answer.kind == kind for answer in of_subject) >= least
            for kind, least in EACH.items()
        )
        assert (
            len({answer.about for answer in of_subject})
            == len({answer.cell for answer in of_subject})
            == len(of_subject)
        )


@each_exercise
def test_the_counts_are_of_these_answers(folder):
    """Mend: python benchmarks/unseen.py NN"""
    answers, row = unseen.answers(folder.name), unseen.recorded()[folder.name]
    assert {
        kind: sum(answer.kind == kind for answer in answers) for kind in ("wrong", "right")
    } == {kind: row[kind] for kind in ("wrong", "right")}
    total = sum(row[kind] for kind in ("cause", "relation", "words", "nothing"))
    assert total + len(row["accepted"]) == row["wrong"]
    known = {f"{answer.subject}: {answer.about}" for answer in answers}
    assert {*row["accepted"], *row["rejected"]} <= known


@pytest.fixture
def faults(monkeypatch):
    """The exceptions of ours that cost a student a hint, and are not shown to anybody."""
    errors, findings = [], Diagnosis.findings

    def watched(*arguments):
        try:
            yield from findings(*arguments)
        except Exception as error:
            errors.append(error)
            raise

    monkeypatch.setattr(Diagnosis, "findings", watched)
    return errors


@pytest.mark.long
@each_exercise
def test_what_the_checks_make_of_them_is_what_is_recorded(folder, faults):
    """Of all right ones, and of every second wrong one; `benchmarks/unseen.py` looks at all."""
    row = unseen.recorded()[folder.name]
    for trial in unseen.results(folder, every=2):
        about = f"{trial.answer.subject}: {trial.answer.about}"
        if trial.answer.kind == "right":
            assert (trial.lost > 0) == (about in row["rejected"]), trial
        else:
            assert (trial.lost == 0) == (about in row["accepted"]), trial
    assert not faults


def test_a_parameter_filled_from_another_is_reported(faults, monkeypatch):
    some = [
        answer for answer in unseen.answers("06-multi-head") if "W_o is transposed" in answer.about
    ]
    some += [
        answer
        for answer in unseen.answers("06-multi-head")
        if "projection is filled from" in answer.about
    ]
    monkeypatch.setattr(unseen, "answers", lambda name: some)
    (folder,) = (folder for folder in WRITTEN if folder.name == "06-multi-head")
    assert [told.words for told in unseen.results(folder) if told.answer.subject == "fuse"] == [
        "The transpose of W_o.weight is right.",
        "The values of W_k.weight are those expected for W_q.weight.",
    ]
    assert not faults


def test_an_answer_that_is_like_another_one_is_read(tmp_path, monkeypatch):
    whole = "def f(x):\n    y = x\n\n    return y + 1"
    text = (
        f"# %% right f: plainly\n{whole}\n\n# %% wrong f: less\n# As: plainly\n# @@\n#\n# -    "
        " return y + 1\n"
    )
    text += "# +     z = y\n# +     return z - 1\n# @@\n# -     y = x\n"
    monkeypatch.setattr(unseen, "FOLDER", tmp_path)
    (tmp_path / "01-toy.py").write_text(text, encoding="utf-8")
    plainly, less = unseen.answers("01-toy")
    assert plainly == unseen.Unseen("right", "f", "plainly", whole)
    assert less == unseen.Unseen("wrong", "f", "less", "def f(x):\n\n    z = y\n    return z - 1")
    (tmp_path / "01-toy.py").write_text(
        text.replace("# -     y = x", "# -     y = z"), encoding="utf-8"
    )
    with pytest.raises(ValueError, match="occur exactly once in the cell"):
        unseen.answers("01-toy")

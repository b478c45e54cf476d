"""The same answer gets the same grade: what is drawn are numbers, and not whether a check has a
certain case.
"""

import os
import tomllib
import warnings
from pathlib import Path

import pytest
from exercise_tools import subjects_of

from autograder.authoring import draws, loader

EXCEPTIONS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""For each exercise and function, the answers of which this is not so, each with the reason."""

SUBJECTS = [(folder, subject) for folder in loader.FOLDERS for subject in subjects_of(folder)]


def test_each_exception_is_of_a_function_and_has_a_reason():
    for name, functions in EXCEPTIONS.items():
        (folder,) = (folder for folder in loader.FOLDERS if folder.name == name)
        assert functions.keys() <= set(subjects_of(folder))
        assert all(
            reason.endswith(".") for answers in functions.values() for reason in answers.values()
        )


@pytest.mark.long
@pytest.mark.skipif(
    bool(os.environ.get("CI")), reason="an hour of computing for all: run it after changing a check"
)
@pytest.mark.parametrize(
    ("folder", "subject"), SUBJECTS, ids=lambda parameter: getattr(parameter, "name", parameter)
)
def test_points_and_the_first_cause_do_not_depend_on_the_draw(folder, subject):
    """Of each wrong answer, listed or written without sight of the lists, with 12 seeds."""
    known = EXCEPTIONS.get(folder.name, {}).get(subject, {})
    unlike = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (draws.listed, draws.written):
            for drawn in kind(folder, {subject}, draws.SEEDS, True):
                if not (drawn.same_points and drawn.same_cause):
                    unlike[drawn.name] = drawn
    unexpected = [drawn for name, drawn in unlike.items() if name not in known]
    assert not unexpected, "\n".join(map(str, unexpected))
    assert known.keys() <= unlike.keys(), "an exception is none any longer: remove it"


def test_an_answer_with_points_that_depend_on_the_draw_is_found(monkeypatch):
    seen = draws.Drawn("f", "lucky", [0.5, 0.5, 0.75], ["", "", ""])
    steady = draws.Drawn("f", "steady", [0.5, 0.5, 0.505], ["", "", ""])
    other = draws.Drawn("f", "told by chance", [0.5, 0.5, 0.5], ["", "transposed", ""])
    assert [drawn.same_points for drawn in (seen, steady, other)] == [False, True, True]
    assert [drawn.same_cause for drawn in (seen, steady, other)] == [True, True, False]

"""The sample class: what its recipe says is what is handed in, and what each gets for it."""

import copy
import importlib
import json
import subprocess
import sys

import nbformat
import pytest

from autograder.authoring.answer_cells import AnswerCells
from autograder.course.config import ROOT

POINTS = {
    "ada": 20,
    "boris": 20,
    "chen": 16,
    "dalia": 16,
    "emeka": 11,
    "farah": 17,
    "goran": 19.78,
    "hana": 0,
}
"""What the eight get for exercise 1, of 20."""


@pytest.fixture(scope="module")
def recipe():
    """The module that makes the class."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        yield importlib.import_module("make_class")


@pytest.fixture(scope="module")
def sample(recipe, tmp_path_factory):
    """The folder of the class, made."""
    folder = tmp_path_factory.mktemp("sample") / "submitted"
    recipe.make(folder)
    return folder


@pytest.mark.slow
def test_eight_students_hand_in_seventeen_notebooks_and_the_same_again(recipe, sample, tmp_path):
    assert sorted(student.name for student in sample.iterdir()) == sorted(POINTS)
    files = {
        path.relative_to(sample): path.read_bytes() for path in sample.rglob("*") if path.is_file()
    }
    assert len([path for path in files if path.suffix == ".ipynb"]) == 17
    assert [str(path) for path in files if path.suffix != ".ipynb"] == [
        "goran/01-qkv/timestamp.txt"
    ]
    (tmp_path / "nobody").mkdir()
    recipe.make(tmp_path)
    assert files == {
        path.relative_to(tmp_path): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }


def test_what_is_handed_in_is_the_released_notebook_with_answers_in_it(sample):
    for path in sample.glob("*/*/*.ipynb"):
        if path.parent.parent.name == "hana":  # the upload broke off
            with pytest.raises(json.JSONDecodeError):
                json.loads(path.read_text(encoding="utf-8"))
            continue
        handed_in, released = (
            nbformat.read(file, as_version=4)
            for file in (path, ROOT / "exercises" / path.parent.name / path.name)
        )
        nbformat.validate(handed_in)
        for cell, released_cell in zip(handed_in.cells, released.cells, strict=True):
            assert (cell.id, cell.metadata) == (released_cell.id, released_cell.metadata)
            assert cell.source == released_cell.source or cell.metadata["nbgrader"]["solution"]


@pytest.mark.slow
def test_what_is_wrong_costs_what_it_should(sample, tmp_path):
    command = [sys.executable, "-m", "autograder", "grade", "01-qkv", "--no-sandbox", "--jobs", "1"]
    result = subprocess.run(
        [*command, "--submitted", str(sample), "--into", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stderr
    points = {}
    for path in tmp_path.glob("**/01-qkv/grade.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        points[record["student"]] = round(
            sum(cell["points"] for cell in record["cells"].values()), 2
        )
    assert points == POINTS


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"scores": "no_such_answer"}, "01-qkv lists no answer no_such_answer for scores."),
        ({"scores": {"no such text": ""}}, "the author's scores of 01-qkv has no 'no such text'."),
        ({"no_such_cell": "unwritten"}, "01-qkv has no cell no_such_cell to be written."),
    ],
)
def test_a_recipe_that_does_not_fit_is_one_line(recipe, wrong, message):
    released = nbformat.read(ROOT / "exercises/01-qkv/01-qkv.ipynb", as_version=4)
    cells = AnswerCells(ROOT / "solutions" / "01-qkv", released)
    before = copy.deepcopy(released)
    with pytest.raises(SystemExit) as raised:
        recipe.submission(cells, wrong)
    assert str(raised.value) == f"class.toml: {message}"
    assert released == before

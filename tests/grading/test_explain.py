"""`explain` shows what a check drew and what came of it, of a notebook and of a grade; a seed
repeats inputs.
"""

import ast
import json
import re

import nbformat
import numpy as np
import pytest
from hostile.case import Case
from toy_course import toy_course
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import loader
from autograder.authoring.release import release
from autograder.grades.results import Kind
from autograder.grading import explain
from autograder.sandbox import bubblewrap

MINUS = "def add(a, b):\n    return a - b"
CHANGES = "def add(a, b):\n    a[...] = 0\n    return '\\x1b[31m' + 'x' * 500"
HELPED = "from helper import plus\n\ndef add(a, b):\n    return plus(a, b)"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A released course of one small exercise; minus and helped have handed in."""
    course = toy_course(tmp_path_factory.mktemp("course"))
    release(course, course.sources()[0])
    for student, add in (("minus", MINUS), ("helped", HELPED)):
        folder = Case(student, 0, "", {}, Kind.WRONG, cells={"add": add}).write(
            course.exercises()[0].notebook, course.submitted
        )
    (folder / "helper.py").write_text("def plus(a, b):\n    return a + b\n")
    return course


@pytest.fixture(scope="module")
def graded(isolated, course):
    """The same course, graded."""
    result = run(course, "grade", "--jobs", "1")
    assert result.exit_code == 0, result.output
    return course


def run(course, *arguments):
    return CliRunner().invoke(cli.app, [*map(str, arguments), "--course", str(course.root)])


def notebook(course, folder, add=MINUS):
    """Write a notebook with this answer into a folder of its own."""
    return Case("own", 0, "", {}, Kind.WRONG, cells={"add": add}).write(
        course.exercises()[0].notebook, folder
    ) / ("01-toy.ipynb")


@pytest.fixture
def bare(monkeypatch):
    """A machine without a sandbox."""
    monkeypatch.setattr(bubblewrap, "missing", lambda: ["bubblewrap is not installed"])


def test_a_notebook_is_explained(course, tmp_path, bare):
    result = run(course, "explain", notebook(course, tmp_path), "--seed", 7, "--check", "adds")
    assert result.exit_code == 0, result.output
    assert "add: 1 of 4 points, seed 7" in result.output and "keeps_shape" not in result.output
    a, b, returned, expected, got = (
        values(result.output, name) for name in ("a", "b", "returned", "expected", "got")
    )
    assert np.allclose(a - b, returned, atol=2e-4) and np.allclose(a + b, expected, atol=2e-4)
    assert np.array_equal(returned, got) and "First wrong element [0, 0]" in result.output
    assert (
        "does the same here as these listed answers: subtracted instead of added" in result.output
    )
    again = run(
        course, "explain", notebook(course, tmp_path / "again"), "--seed", 7, "--check", "add"
    )
    assert (
        np.array_equal(values(again.output.partition("  adds")[2], "a"), a)
        and "keeps_shape" in again.output
    )


def test_the_checks_are_the_exercises_whatever_this_process_has_loaded(course, tmp_path, bare):
    loader.load(loader.FOLDERS[0])
    result = run(course, "explain", notebook(course, tmp_path), "--seed", 7)
    assert result.exit_code == 0 and "add: 1 of 4 points, seed 7" in result.output


def values(output, name):
    """Return the numbers that are printed under a name."""
    part = re.search(rf"^ +{name}: float64 (\(.*\))\n((?: +\[.*\n)+)", output, re.M)
    return np.fromstring(re.sub(r"[][]", " ", part[2]), sep=" ").reshape(ast.literal_eval(part[1]))


@pytest.mark.slow
def test_a_seed_repeats_what_check_shows(course, tmp_path):
    path = notebook(course, tmp_path)
    first, again, other = (run(course, "check", path, "--seed", seed).stdout for seed in (7, 7, 8))
    assert first == again != other and "seed=7" in first


@pytest.mark.slow
def test_a_grade_is_explained(graded):
    """With the seed, the files and the points that it had; and still when what was handed in is
    gone.
    """
    path = graded.paths_of("minus", "01-toy").record
    record = json.loads(path.read_text(encoding="utf-8"))
    result = run(graded, "explain", path)
    assert result.exit_code == 0, result.output
    assert (
        f"add: 1 of 4 points, seed {record['seed']}\n" in result.output
        and "twice: 2 of 2" in result.output
    )
    helped = graded.paths_of("helped", "01-toy").record
    assert "add: 4 of 4 points" in run(graded, "explain", helped, "--check", "add").output
    moved = graded.submitted.rename(graded.root / "elsewhere")
    try:
        assert explain.CUT in run(graded, "explain", path, "--no-sandbox").output
        without = run(graded, "explain", helped, "--no-sandbox")
        assert "No module named " in without.output and explain.CUT in without.output
    finally:
        moved.rename(graded.submitted)


@pytest.mark.slow
def test_a_changed_exercise_is_reported(graded):
    checks = graded.exercises()[0].released / "checks.py"
    before = checks.read_text(encoding="utf-8")
    checks.write_text(before + "\n# changed\n", encoding="utf-8")
    result = run(graded, "explain", graded.paths_of("minus", "01-toy").record, "--no-sandbox")
    checks.write_text(before, encoding="utf-8")
    assert result.exit_code == 0 and explain.CHANGED in result.output


@pytest.mark.slow
def test_what_others_wrote_does_not_run_without_a_sandbox(graded, bare):
    path = graded.paths_of("minus", "01-toy").record
    result = run(graded, "explain", path)
    assert result.exit_code == 1 and "--no-sandbox" in str(result.exception)
    assert run(graded, "explain", path, "--no-sandbox").exit_code == 0


def test_arguments_are_shown_as_drawn_and_nothing_acts_on_the_terminal(course, tmp_path, bare):
    result = run(course, "explain", notebook(course, tmp_path, CHANGES), "--check", "keeps_shape")
    assert (
        result.exit_code == 0
        and "\x1b" not in result.output
        and "returned: '\\x1b[31mxx" in result.output
    )
    assert np.abs(values(result.output, "a")).min() >= 0.5
    assert max(map(len, result.output.splitlines())) < 500


def test_bad_input_is_one_line(course, tmp_path, bare):
    path = notebook(course, tmp_path)
    other = tmp_path / "grade.json"
    other.write_text("{}")
    broken = tmp_path / "broken.ipynb"
    broken.write_text("{")
    for arguments, message in (
        ([tmp_path / "none.ipynb"], "There is no file"),
        (
            [path, "--check", "subs"],
            "No check and no function is called 'subs'; there are: add, keeps_shape, adds, twice",
        ),
        ([other], "is not a grade of this course"),
        ([broken], "not valid JSON"),
    ):
        result = run(course, "explain", *arguments)
        assert result.exit_code == 1 and message in str(result.exception), result.output
    assert run(course, "explain", path, "--seed", "-1").exit_code == 2


def test_a_notebook_that_is_none_of_the_course_is_refused(course, tmp_path, bare):
    path = tmp_path / "other.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), path)
    assert "belongs to no exercise" in str(run(course, "explain", path).exception)

"""Every exercise is held to its promises: wrong answers fail and are recognized, right ones pass,
always.

Whatever folder appears in `solutions/` is tested here without a change.
"""

import ast
import functools
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import nbformat
import numpy as np
import pytest
from exercise_tools import (
    assert_pencil_question_first,
    assert_sends_to_chapter,
    assert_times_below_headings,
    loaded,
    subjects_of,
)
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import answer_trials, loader, source
from autograder.checking import helpers, machine
from autograder.checking.expect import RTOL
from autograder.checking.subject import attempt
from autograder.course import archive
from autograder.course.cells import call_of
from autograder.course.config import ROOT

FEW_WRONG, MANY_WRONG = range(1), range(1, 5)
FEW_RIGHT, MANY_RIGHT = range(2), range(2, 30)
FEWER = 14
"""Of an exercise with PyTorch, whose checks take ten times as long, every fourteenth seed is
tried.
"""
LEAST_MARGIN = 100
IN_THE_SANDBOX = {"right_for": 5, "wrong_for": 1}
KINDS = ("right_for", "wrong_for")
# A guest has no checks. The listed answers import the runtime, so that it comes with them.
PICK = """import sys
sys.path.insert(0, "listed.zip")
for name in ("checking", "specifications", "misconceptions"):
    sys.modules.pop(name, None)
import misconceptions, right_answers

spelt = list(vars(misconceptions).values()) + list(vars(right_answers).values())
members = [member for own in spelt for member in getattr(own, "families", ())]
picked = next(own for own in spelt + members if getattr(own, "__name__", "") == {answer!r})
{subject} = picked
"""
WITH_A_KERNEL = """

import triton


@triton.jit
def kernel():
    pass


{subject} = (kernel, picked)[1]
"""
"""Checks of kernels read the text of the cells, and the listed answers' is in the archive."""
SUBJECTS = [(folder, subject) for folder in loader.FOLDERS for subject in subjects_of(folder)]
each_exercise = pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)


def with_torch(folder):
    return bool(
        re.search(r"^import torch", (folder / "checks.py").read_text(encoding="utf8"), re.M)
    )


def slow_but_first(folder):
    """The quick tests take one exercise: `release` runs the listed answers of each that changes."""
    return [] if folder == loader.FOLDERS[0] else [pytest.mark.slow]


each_subject = pytest.mark.parametrize(
    ("folder", "subject"),
    [
        pytest.param(*pair, id=f"{pair[0].name}-{pair[1]}", marks=slow_but_first(pair[0]))
        for pair in SUBJECTS
    ],
)


def on_seeds(few, many):
    """Parametrize a test of each function with `seeds`: a few for the first exercise, many in the
    long tests.

    `release` tried the listed answers of each exercise. Of many seeds, an exercise with PyTorch
    gets every fourteenth, or else a few.
    """
    params = []
    for folder, subject in SUBJECTS:
        name = f"{folder.name}-{subject}"
        if folder == loader.FOLDERS[0]:
            params.append(pytest.param(folder, subject, few, id=f"{name}-few"))
        seeds = (many[FEWER::FEWER] or few) if with_torch(folder) else many
        params.append(
            pytest.param(folder, subject, seeds, id=f"{name}-many", marks=pytest.mark.long)
        )
    return pytest.mark.parametrize(("folder", "subject", "seeds"), params)


@functools.cache
def caught(folder, subject, seed):
    """Return each listed wrong answer, with the name and the cause of each check that it fails,
    in order.
    """
    caught_answers = loader.caught(loaded(folder), subject, seed)
    return [
        (wrong, [(result.name, result.cause) for result in failed])
        for wrong, failed in caught_answers
    ]


@each_subject
def test_answers_are_listed_and_each_wrong_one_has_its_own_hint(folder, subject):
    suite = loaded(folder).suite
    wrong, right = (suite.listed(kind, subject) for kind in ("wrong_for", "right_for"))
    assert wrong and right
    assert len({answer.hint for answer in wrong}) == len(wrong), "two wrong answers share a hint"
    assert not {answer.__name__ for answer in wrong} & {answer.__name__ for answer in right}


@on_seeds(FEW_WRONG, MANY_WRONG)
def test_wrong_answers_fail_and_are_recognized(folder, subject, seeds):
    """The first check that fails names the answer's own hint, and its values lie far outside the
    tolerance.
    """
    exercise, unlike = loaded(folder), []
    for seed in seeds:
        for wrong, failed in caught(folder, subject, seed):
            if not failed:
                unlike.append(f"{wrong.__name__}, seed {seed}: not caught")
                continue
            name, cause = failed[0]
            if cause != wrong.__name__:
                unlike.append(f"{wrong.__name__}, seed {seed}: taken for {cause or 'nothing'}")
            check = next(
                check for check in exercise.suite.checks_of(subject) if check.__name__ == name
            )
            failure = attempt(check, wrong, seed).failure
            # a GPU's roundings are small
            if failure.expected is not None and not getattr(wrong, "on", ""):
                got, expected = (
                    np.asarray(array, dtype=float) for array in (failure.got, failure.expected)
                )
                with np.errstate(all="ignore"):
                    unit = np.abs(expected).max() or 1 if failure.unit is None else failure.unit
                    distance = np.max(np.abs(got - expected) / unit)
                if distance <= LEAST_MARGIN * RTOL:  # NaN and inf are as far as can be
                    unlike.append(
                        f"{wrong.__name__}, seed {seed}: off by {distance / RTOL:.0f} "
                        "tolerances only"
                    )
    assert not unlike, "\n".join(unlike)


@on_seeds(FEW_RIGHT, MANY_RIGHT)
def test_right_answers_get_full_points(folder, subject, seeds):
    suite = loaded(folder).suite
    for right in suite.listed("right_for", subject):
        for seed in seeds:
            report = suite.examine(subject, right, points=1, seed=seed)
            messages = [
                f"{result.name}: {result.message}" for result in report.results if result.message
            ]
            assert report.score + report.pending == 1, f"{right.__name__}, seed {seed}: {messages}"


def all_that_its_author_has(folder):
    """Return the bytes of an archive of an exercise, with the right answers too."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in archive.sources(folder).items():
            zipped.writestr(name, data)
        zipped.write(folder / "right_answers.py", "right_answers.py")
    return packed.getvalue()


@pytest.mark.long
@each_exercise
def test_listed_answers_are_worth_the_same_in_the_sandbox(isolated, folder, tmp_path):
    """A class whose students hand in the listed answers: the first right and wrong ones."""
    exercise, handed_in = loaded(folder), {}
    listed = exercise.suite.listed
    answers = {
        # Of the wrong ones the first are spelt out, and the last is a member of a family.
        s: [answer for kind, most in IN_THE_SANDBOX.items() for answer in listed(kind, s)[:most]]
        + listed("wrong_for", s)[-1:]
        for s in exercise.subjects
    }
    parts = all_that_its_author_has(folder)
    for number in range(max(map(len, answers.values()))):
        notebook = nbformat.read(
            ROOT / "exercises" / folder.name / f"{folder.name}.ipynb", as_version=4
        )
        for cell in notebook.cells:
            subject = cell.metadata.get("nbgrader", {}).get("grade_id")
            if subject in answers and number < len(answers[subject]):
                answer = answers[subject][number].__name__
                cell.source = PICK.format(subject=subject, answer=answer)
                if '"triton"' in (folder / "checks.py").read_text(encoding="utf8"):
                    cell.source += WITH_A_KERNEL.format(subject=subject)
                handed_in[f"s{number}", subject] = answer
        folder_handed_in = tmp_path / "submitted" / f"s{number}" / folder.name
        folder_handed_in.mkdir(parents=True)
        nbformat.write(notebook, folder_handed_in / f"{folder.name}.ipynb")
        (folder_handed_in / "listed.zip").write_bytes(parts)
    into = tmp_path / "graded"
    result = CliRunner().invoke(
        cli.app, ["grade", "--submitted", str(tmp_path / "submitted"), "--into", str(into)]
    )
    assert result.exit_code == 0, result.output[-2000:]
    for (student, subject), answer in handed_in.items():
        record = json.loads(
            (into / "autograded" / student / folder.name / "grade.json").read_text(encoding="utf8")
        )
        cell = record["cells"][f"check_{subject}"]
        (function,) = [
            listed_answer
            for kind in KINDS
            for listed_answer in listed(kind, subject)
            if listed_answer.__name__ == answer
        ]
        report = exercise.suite.examine(subject, function, cell["max_points"], record["seed"])
        statuses = [(check["name"], check["status"], check["cause"]) for check in cell["checks"]]
        assert statuses == [(r.name, r.status, r.cause) for r in report.results], answer
        assert cell["points"] == report.score


@each_subject
def test_an_unwritten_stub_gets_nothing_and_is_not_called_wrong(folder, subject):
    def stub(*arguments, **named):
        raise NotImplementedError

    suite = loaded(folder).suite
    for function in (stub, None):
        report = suite.examine(subject, function, points=1)
        assert report.score == 0
        assert {result.status for result in report.results} == {"blocked"}
    assert suite.examine(subject, lambda *arguments: None, points=1).score == 0


@functools.cache
def recorded(folder):
    """Return what `release` found of an exercise's listed answers, function by function; found
    now if it changed.
    """
    return {own.subject: own for own in answer_trials.results(folder)}


@each_subject
def test_every_check_is_earned(folder, subject):
    """A check that no listed wrong answer fails may be checking nothing."""
    # What needs what this machine lacks is not run here, and no record has what only a GPU shows.
    checks = [
        check for check in loaded(folder).suite.checks_of(subject) if not machine.lacks(check.on)
    ]
    failed = {name for wrong in recorded(folder)[subject].wrong for name, _title in wrong.failed}
    if any(check.on in answer_trials.GPU for check in checks):
        failed |= {
            name
            for _wrong, failed in caught(folder, subject, FEW_WRONG[0])
            for name, _cause in failed
        }
    assert {check.__name__ for check in checks} <= failed


MEASURING = {"expect_held", "launches", "outside", "TorchDispatchMode"}
"""What checks use that measure where the function under test runs."""


@each_exercise
def test_checks_that_measure_say_so(folder):
    """Their outcome is the word of a student's process; the record and the book mark them."""
    text = (folder / "checks.py").read_text(encoding="utf8")
    tree = ast.parse(text)
    for function in tree.body:
        function.decorator_list = []  # they name other checks
    for check in loaded(folder).suite.checks:
        # of one that several functions have
        body = check.__name__.removeprefix(f"{check.subject}_")
        defined = helpers.definitions([tree], check.__name__) or helpers.definitions([tree], body)
        if not defined:  # made by `checking.standard`, or by a function of another name
            assert not check.measured, check.__name__
            continue
        code = [part for node in defined for part in ast.walk(node)]
        names = {getattr(part, field, None) for part in code for field in ("id", "attr", "name")}
        assert check.measured == bool(names & MEASURING), check.__name__


@each_exercise
def test_each_function_has_a_check_cell_of_its_name(folder):
    exercise = loaded(folder)
    cells = exercise.cells(grade=True, solution=False)
    assert [call_of(cell).subject for cell in cells] == exercise.subjects
    assert [cell.metadata.nbgrader.grade_id for cell in cells] == [
        f"check_{name}" for name in exercise.subjects
    ]


@each_exercise
def test_feedback_sends_readers_to_a_heading_of_the_chapter(folder):
    assert_sends_to_chapter(folder)


@each_exercise
def test_time_and_difficulty_follow_each_heading(folder):
    assert_times_below_headings(folder)


@each_exercise
def test_a_question_for_a_pencil_comes_first_and_costs_nothing(folder):
    assert_pencil_question_first(folder)


@each_exercise
def test_cells_to_write_have_one_solution_and_cells_to_play_with_do_nothing_yet(folder):
    """Or of a class one for each method, so that the methods' names and docstrings are given."""
    exercise = loaded(folder)
    written = [cell for cell in exercise.cells(solution=True) if cell.cell_type == "code"]
    assert written
    for cell in written:
        functions = [
            node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.FunctionDef)
        ]
        assert cell.source.count(source.BEGIN) == len(functions), cell.source
    for cell in exercise.notebook.cells:
        if "nbgrader" not in cell.metadata:
            assert all(line.startswith("#") for line in cell.source.splitlines() if line), (
                cell.source
            )


@pytest.mark.long
@pytest.mark.slow
@each_exercise
def test_the_solution_runs_as_a_plain_script_with_full_points(folder, tmp_path):
    """From another folder, without a display, without a word on stderr."""
    copy = shutil.copytree(folder, tmp_path / "there" / folder.name)
    environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, str(copy / f"{folder.name}.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    exercise = loaded(folder)
    pattern = r"^(\w+): ([\d.]+) of ([\d.]+) points(?:; ([\d.]+) pending)?$"
    earned = re.findall(pattern, result.stdout, re.M)
    assert [subject for subject, *_ in earned] == exercise.programs
    assert all(
        round(float(s) + float(wait or 0), 2) == float(points) for _, s, points, wait in earned
    ), result.stdout
    ungraded = re.findall(r"^(\w+): (?:passed|partly pending), ungraded$", result.stdout, re.M)
    assert set(ungraded) == exercise.without_points

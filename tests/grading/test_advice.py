"""A check with weight 0 is advice: run, said and recognized like any other, and nobody loses
anything by it.
"""

import copy
import functools
import json
import math

import nbformat
import pytest
from bs4 import BeautifulSoup
from hostile.case import RIGHT
from report_tools import rows_of
from toy_course import toy_course
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import answer_trials, hint_coverage, loader, mutants, verify
from autograder.authoring.release import release
from autograder.checking import Report, Status, Suite, diagnosis, expect, show
from autograder.course.config import Course, Exercise
from autograder.grades import reasons
from autograder.grades.records import from_text, to_text
from autograder.grades.report import _columns, _least_telling, _marks, costs
from autograder.grades.results import Kind
from autograder.grading.batch import record_of

IMPORTS = "expect_array, expect_close"
CHECKS = '''

@check(weight=0)
def refuses(add, draw):
    """Another shape raises `ValueError`."""
    n, m = draw.sizes(2)
    expect_raises([ValueError], add, draw.array(n, m), draw.array(1, m), because="the shapes differ")
'''
SOLUTION = "    return a + b"
CHECKED = """    if a.shape != b.shape:
        raise ValueError("the shapes differ")
    return a + b"""
LISTED = """

@misconception("add", label="another shape stretched", hint="A size of 1 was stretched.")
def stretches(a, b):
    return a + b
"""
RIGHT_ANSWERS = """from checking import right
import numpy as np


@right("add")
def add_natural(a, b):
    return np.subtract(a, -b)


@right("add")
def add_strict(a, b):
    if np.shape(a) != np.shape(b):
        raise ValueError
    return np.add(a, b)
"""
STRETCHES, STRICT, WRONG = "return a + b", CHECKED.strip(), "return a - b"
# What students hand in for `add`, and the points that it is worth, of 4.
ANSWERS = {
    "natural": (STRETCHES, 4),
    "strict": (STRICT, 4),
    "wrong": (WRONG, 1),
    "blank": ("raise NotImplementedError", 0),
}


def course_with_advice(folder):
    """Write a toy course with advice on its first function."""
    toy_course(folder)
    solution = folder / "solutions" / "01-toy"
    for name, change in {
        "checks.py": lambda text: text.replace(IMPORTS, f"{IMPORTS}, expect_raises") + CHECKS,
        "misconceptions.py": lambda text: text + LISTED,
        "01-toy.py": lambda text: text.replace(SOLUTION, CHECKED, 1),
    }.items():
        path = solution / name
        text = path.read_text(encoding="utf8")
        assert change(text) != text
        path.write_text(change(text), encoding="utf8")
    (solution / "right_answers.py").write_text(RIGHT_ANSWERS, encoding="utf8")
    return solution


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return course_with_advice(tmp_path_factory.mktemp("advice") / "course")


@pytest.fixture(scope="module")
def course(folder):
    course = Course(root=folder.parent.parent)
    release(course, course.sources()[0])
    released = nbformat.read(course.exercises()[0].notebook, as_version=4)
    for student, (body, _points) in ANSWERS.items():
        notebook = copy.deepcopy(released)
        for cell in notebook.cells:
            cell.source = {**RIGHT, "add": f"def add(a, b):\n    {body}", "proof": "Because."}.get(
                cell.id, cell.source
            )
        target = course.submitted / student / "01-toy"
        target.mkdir(parents=True)
        nbformat.write(notebook, target / "01-toy.ipynb")
    return course


def run(course, *arguments):
    result = CliRunner().invoke(cli.app, [*map(str, arguments), "--course", str(course.root)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def graded(isolated, course):
    return course, run(course, "grade", "--jobs", 1)


# Declaring it.


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf])
def test_a_weight_is_finite_and_not_negative(weight):
    with pytest.raises(ValueError, match="the check holds has weight"):

        @Suite("checks", {}).check(weight=weight)
        def holds(add, draw):
            """It holds."""


def test_points_may_not_wait_for_advice():
    suite = Suite("checks", {})

    @suite.check(weight=0)
    def advised(add, draw):
        """It should."""

    with pytest.raises(ValueError, match="needs 'advised', which is advice"):

        @suite.check(needs=advised)
        def holds(add, draw):
            """It holds."""


def test_a_function_without_a_check_that_is_worth_points_is_refused(tmp_path):
    course = course_with_advice(tmp_path)
    path = course / "checks.py"
    path.write_text(
        path.read_text(encoding="utf8").replace("@check()", "@check(weight=0)"), encoding="utf8"
    )
    fault = verify.fault(course)
    assert (
        "no check of twice is worth points" in fault and "checks.py:" in fault and "\n" not in fault
    )


# What a check cell says.


def examined(folder, answer, points=4):
    return loader.load(folder).suite.examine("add", answer, points, 7)


def natural(a, b):
    return a + b


def test_advice_costs_nothing_and_shows_its_hint(folder):
    report = examined(folder, natural)
    assert (report.score, report.pending, show.standing(report), show.needs_fixing(report)) == (
        4,
        0,
        Status.PASSED,
        False,
    )
    advice = report.results[-1]
    assert (advice.status, advice.cause, advice.weight) == (Status.ADVICE, "stretches", 0)
    text = show.text(report)
    assert text.startswith("add: 4 of 4 points") and "FAILED" not in text
    assert "  advice, worth no points: Another shape raises `ValueError`." in text.splitlines()
    assert "A size of 1 was stretched." in text and "Read:" not in text and "again" not in text
    page = show.as_html(report)
    assert "i advice, worth no points: Another shape" in page and "A size of 1" in page
    assert show.COLOR[Status.FAILED] not in page and show.MARK[Status.FAILED] not in page
    assert Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_for_advice_alone_a_listed_answer_is_tried_once_in_a_process(folder, monkeypatch):
    """Right answers that do not take it are in every class: which listed ones could be the cause
    is remembered.
    """
    tried, fails = [], diagnosis._fails_as.__wrapped__
    monkeypatch.setattr(
        diagnosis, "_fails_as", functools.cache(lambda *asked: tried.append(asked) or fails(*asked))
    )
    suite, counts = loader.load(folder).suite, []
    for seed in range(3):
        assert suite.examine("add", natural, 4, seed).results[-1].cause == "stretches"
        counts.append(len(tried))
    assert counts[0] == counts[1] == counts[2] > 0


def test_advice_is_below_checks_with_points():
    suite = Suite("checks", {})
    suite.answer_modules = [loader.source]

    @suite.check(weight=0)
    def advised(add, draw):
        """It should."""
        expect(add(1) == 2, "It is not.")

    @suite.check()
    def holds(add, draw):
        """It holds."""
        expect(add(1) == 1, "It is not.")

    report = suite.examine("add", lambda a: a, 4, 7)
    lines = show.text(report).splitlines()
    assert lines[0] == "add: 4 of 4 points" and "passed" in lines[1] and "advice" in lines[2]
    assert show.as_html(report).index("It holds") < show.as_html(report).index("It should")
    wrong = suite.examine("add", lambda a: 3 * a, 4, 7)
    assert wrong.score == 0 and show.standing(wrong) == Status.FAILED


def test_without_points_it_leaves_the_head_as_it_is(folder):
    assert show.text(examined(folder, natural, points=0)).startswith("add: passed, ungraded")


def test_beside_a_mistake_the_mistake_counts(folder):
    report = examined(folder, lambda a, b: a - b)
    statuses = {result.name: result.status for result in report.results}
    assert statuses == {"keeps_shape": "passed", "adds": "failed", "refuses": "advice"}
    assert report.score == 1 and show.needs_fixing(report) and "checks.run(" in show.text(report)
    unwritten = examined(folder, None)
    assert {result.status for result in unwritten.results} == {"blocked"} and unwritten.score == 0


def test_its_words_are_translated(folder, monkeypatch):
    monkeypatch.setattr(
        show, "_", lambda text: {"advice, worth no points": "Rat, ohne Punkte"}.get(text, text)
    )
    assert "Rat, ohne Punkte" in show.text(examined(folder, natural))


# Authors.


def test_listed_answers_are_verified_with_advice(folder):
    assert verify.fault(folder) == ""
    first, _twice = answer_trials.results(folder)
    assert [(right.name, right.lost) for right in first.right] == [
        ("add_natural", ""),
        ("add_strict", ""),
    ]
    by_name = {wrong.name: wrong for wrong in first.wrong}
    trial = by_name["stretches"]
    assert (
        trial.advice
        and trial.recognized
        and not trial.passed_seeds
        and [name for name, _ in trial.failed] == ["refuses"]
    )
    assert not by_name["subtracts"].advice
    said = [answer.kind for answer in hint_coverage.hints(loader.load(folder), "add")]
    assert len(said) == 2  # and the one that only advice tells is among them


@pytest.mark.slow
def test_mutants_killed_by_advice_alone_are_counted(folder):
    mutants_tried = mutants.look_at(Exercise("01-toy", folder.parent.parent), "add", workers=1)
    row = mutants_tried.rows["add"]
    assert 0 < row.advice < row.killed and row.by["refuses"] >= row.advice
    every, _made = mutants.mutants_of(loader.load(folder), "add")
    unchecked = next(
        column
        for column in every
        if column.name.startswith("reference: if a.shape != b.shape:  ->  (dropped)")
    )
    outcome = mutants.examine(folder, unchecked)
    assert outcome.killed and outcome.advice and outcome.first == ["refuses"] * 3
    # What its original does not follow either tells nothing of a mutant.
    alike = mutants.Mutant("add", "add_natural", "", "def add_natural(a, b):\n    return a + b\n")
    assert not mutants.examine(folder, alike).killed


# A class.


@pytest.mark.slow
@pytest.mark.parametrize("student", ANSWERS)
def test_grading_gives_the_points_and_no_reason_speaks_of_it(graded, student):
    record = record_of(graded[0], student, "01-toy")
    cell = record.cells["check_add"]
    assert cell.points == ANSWERS[student][1] and cell.max_points == 4
    assert record.kind == (Kind.RIGHT if cell.points == 4 else Kind.WRONG)
    lines = [line for line in reasons.lines_of(record) if line.startswith("add")]
    assert len(lines) == (cell.points < 4) and "Another shape" not in str(lines)
    assert from_text(to_text(record)) == record
    statuses = [check.status for check in cell.checks]
    assert statuses[-1] == {"strict": "passed", "blank": "blocked"}.get(student, "advice")


def page_of(course, student):
    path = course.paths_of(student, "01-toy").page
    return BeautifulSoup(path.read_text(encoding="utf8"), "html.parser").body


def text_of(element):
    return " ".join(element.get_text(" ").split())


@pytest.mark.slow
def test_the_page_shows_a_note_and_no_card(graded):
    page = page_of(graded[0], "natural")
    assert not page.select(".card") and not page.select("li.failed")
    top = text_of(page.select_one(".sum"))
    assert "Advice, worth no points: add" in top and "Every check passed" not in top
    note = text_of(page.select_one("#at-check_add li.advice"))
    assert (
        "Advice, worth no points: Another shape raises ValueError" in note
        and "A size of 1 was stretched." in note
    )
    assert "To repeat these inputs" not in text_of(page)
    assert "Advice" not in text_of(page_of(graded[0], "strict"))
    wrong = page_of(graded[0], "wrong")
    assert len(wrong.select(".card")) == 1 and "Another shape" not in text_of(
        wrong.select_one(".cards")
    )


@pytest.mark.slow
def test_the_report_counts_no_failure_and_no_points(graded):
    course, _printed = graded
    records = [record_of(course, student, "01-toy") for student in ANSWERS]
    lost, met = costs(records)
    assert not [row for row in lost if "Another shape" in row.title]
    assert not [row for row in met if row.label == "another shape stretched"]
    columns = _columns(records)
    column = next(column for column in columns if column.check == "refuses")
    assert (column.failed, column.advised, column.blocked) == (0, 2, 1)
    assert column not in _least_telling(columns, records)[1]
    assert ("advice", column) in _marks(records[0], columns)
    run(course, "report")
    page = (course.output_folder / "report.html").read_text(encoding="utf8")
    assert "i advice, worth no points" in page
    assert "i" in rows_of(page)["natural", "01-toy"]["marks"].values()


@pytest.mark.slow
def test_check_and_explain_speak_of_it(graded):
    course, _printed = graded
    printed = run(course, "check", course.submitted / "natural" / "01-toy" / "01-toy.ipynb")
    assert (
        "6 of 6 points" in printed
        and "advice, worth no points" in printed
        and "FAILED" not in printed
    )
    shown = run(
        course, "explain", course.paths_of("natural", "01-toy").record, "--check", "refuses"
    )
    assert "advice  refuses" in shown
    assert (
        "does the same here as these listed answers: " in shown
        and "another shape stretched" in shown
    )

"""A check cell worth 0 points, a question for a pencil: checked and answered like any other, and
it costs nothing.
"""

import copy
import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import nbformat
import numpy as np
import pytest
from bs4 import BeautifulSoup
from hostile.case import RIGHT
from nbgrader.api import Gradebook
from toy_course import toy_course
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import loader, verify
from autograder.authoring.release import release
from autograder.checking import Failed, Message, expect_by_hand, show
from autograder.checking.expect import as_numbers
from autograder.course.config import ROOT, Course
from autograder.grades import reasons
from autograder.grades.report import costs
from autograder.grades.results import Kind
from autograder.grading.batch import record_of

SECRET = "one for both\n"
TEXT = '''
# %% by_hand
def by_hand():
    """Return 1/2 + 1/4 and 1/2 - 1/4."""
    ### BEGIN SOLUTION
    return [3 / 4, 1 / 4]
    ### END SOLUTION

# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% add
'''
IMPORTS = "import misconception, right"
CHECKS = '''

@check()
def sum_and_difference(by_hand, draw):
    """The sum, and then the difference."""
    expect_by_hand(by_hand(), [1 / 2 + 1 / 4, 1 / 2 - 1 / 4])
'''
LISTED = """

@misconception("by_hand", label="both exchanged", hint="The sum comes first.")
def exchanged():
    return [1 / 4, 3 / 4]


@misconception("by_hand", label="thirds for quarters", hint="Half of a half is a quarter.")
def thirds():
    return [5 / 6, 1 / 6]


@right("by_hand")
def in_decimals():
    return 0.75, 0.25
"""
TASKS = ("by_hand", "check_by_hand")
# What is handed in for the question, beside right answers to all else; None: a notebook from before
# there was one.
ANSWERS = {
    "done": "def by_hand():\n    from fractions import Fraction as F\n    return F(3, 4), F(1, 4)",
    "exchanged": "import numpy as np\n\n\ndef by_hand():\n    return np.array([[0.25], [0.75]])",
    "thirds": "def by_hand():\n    return 0.83, 0.17",
    "odd": "def by_hand():\n    return 'no idea'",
    "dies": "def by_hand():\n    import os\n    os._exit(0)",
    "raises": "1 / 0",
    "blank": "",
    "before": None,
}


def course_without_points(folder):
    """Write a toy course with a question for a pencil before its two functions."""
    toy_course(folder)
    solution = folder / "solutions" / "01-toy"
    for name, change in {
        "01-toy.py": lambda text: text.replace("\n# %% add\n", TEXT),
        "checks.py": lambda text: (
            text.replace("expect_array,", "expect_array, expect_by_hand,") + CHECKS
        ),
        "misconceptions.py": lambda text: text.replace("import misconception", IMPORTS) + LISTED,
    }.items():
        path = solution / name
        path.write_text(change(path.read_text(encoding="utf8")), encoding="utf8")
    return solution


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    root = tmp_path_factory.mktemp("without") / "course"
    course_without_points(root)
    (root / ".course-secret").write_text(SECRET)
    course = Course(root=root)
    release(course, course.sources()[0])
    released = nbformat.read(course.exercises()[0].notebook, as_version=4)
    for student, answer in ANSWERS.items():
        notebook = copy.deepcopy(released)
        if answer is None:
            notebook.cells = [cell for cell in notebook.cells if cell.id not in TASKS]
        for cell in notebook.cells:
            cell.source = {**RIGHT, "by_hand": answer or cell.source, "proof": "Because."}.get(
                cell.id, cell.source
            )
        folder = course.submitted / student / "01-toy"
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / "01-toy.ipynb")
    return course


def run(course, *arguments):
    result = CliRunner().invoke(cli.app, [*map(str, arguments), "--course", str(course.root)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def graded(isolated, course):
    return course, run(course, "grade", "--jobs", 1)


def page_of(course, student):
    path = course.paths_of(student, "01-toy").page
    return BeautifulSoup(path.read_text(encoding="utf8"), "html.parser").body


def text_of(element):
    return " ".join(element.get_text(" ").split())


# What counts as an answer.


@pytest.mark.parametrize(
    "answer",
    [
        [0.75, 0.25, 1 / 3],
        (0.75, 0.25, 0.33),
        (np.float32(0.75), [0.25], 0.334),
        np.array([[0.75, 0.25, 0.333]]),
        [Fraction(3, 4), Decimal("0.25"), Fraction(1, 3)],
    ],
    ids=str,
)
def test_numbers_count_to_two_decimals_whatever_they_are_kept_in(answer):
    expect_by_hand(answer, [3 / 4, 1 / 4, 1 / 3])


@pytest.mark.parametrize(
    ("answer", "message", "passed"),
    [
        ([0.75, 0.3, 0.33], "The number at index [1] is wrong: 0.3.", ["2 of 3 numbers are right"]),
        ([float("nan")] * 3, "The number at index [0] is wrong: nan.", []),
        ([0.75], "Expected 3 numbers, got 1 number.", []),
        ([], "Expected 3 numbers, got 0 numbers.", []),
        (None, "Expected 3 numbers, got None (is a `return` missing?).", []),
        ("0.75", "Expected 3 numbers, got text. Write the answer without quotation marks.", []),
        (
            [0.75, "0.25", 1],
            "Expected 3 numbers, got text. Write the answer without quotation marks.",
            [],
        ),
        ([0.75, {}, 1], "Expected 3 numbers, got a list of 3.", []),
    ],
)
def test_a_wrong_number_is_reported_without_the_right_one(answer, message, passed):
    with pytest.raises(Failed) as failed:
        expect_by_hand(answer, [3 / 4, 1 / 4, 1 / 3])
    assert (
        str(failed.value.message) == message and [str(line) for line in failed.value.held] == passed
    )


def test_a_hint_follows_a_wrong_number_only():
    with pytest.raises(Failed) as failed:
        expect_by_hand([1, 3], [1, 2], Message("Both are whole."))
    assert str(failed.value.message) == "The number at index [1] is wrong: 3. Both are whole."
    with pytest.raises(Failed, match=r"Expected 2 numbers, got 1 number.$"):
        expect_by_hand([1], [1, 2], Message("Both are whole."))
    expect_by_hand([1, 2], [1, 2], Message("Both are whole."))


def test_a_number_of_a_matrix_is_named_by_row_and_column_and_a_single_one_not_at_all():
    for answer, expected, position in (
        ([1, 2, 3, 5], [[1, 2], [3, 4]], " at index [1, 1]"),
        (3, 4, ""),
    ):
        with pytest.raises(Failed, match="is wrong") as failed:
            expect_by_hand(answer, expected)
        assert f"The number{position} is wrong" in str(failed.value.message)
    expect_by_hand(4, 4)
    assert as_numbers({}) is None and as_numbers(object()) is None


# Authors.


def test_the_cell_is_graded_worth_nothing_and_adds_nothing(course):
    notebook = nbformat.read(course.exercises()[0].notebook, as_version=4)
    cell = next(cell for cell in notebook.cells if cell.id == "check_by_hand")
    assert cell.metadata.nbgrader.grade and cell.metadata.nbgrader.points == 0
    assert "3 / 4" not in str(notebook)
    exercise = loader.load(course.sources()[0].solution)
    assert (exercise.without_points, exercise.programs) == ({"by_hand"}, ["add", "twice"])


def test_release_verifies_the_listed_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be taken for the next text
    course = course_without_points(tmp_path)
    assert verify.fault(course) == ""
    for file, old, new, fault in (
        (
            "misconceptions.py",
            "return [1 / 4, 3 / 4]",
            "return [3 / 4, 1 / 4]",
            "exchanged is listed as",
        ),
        (
            "misconceptions.py",
            "return 0.75, 0.25",
            "return 0.75, 0.2",
            "the right answer in_decimals does not pass",
        ),
        (
            "01-toy.py",
            "return [3 / 4, 1 / 4]",
            "return [3 / 4]",
            "the solution of by_hand does not pass",
        ),
    ):
        text = (course / file).read_text(encoding="utf8")
        assert old in text
        (course / file).write_text(text.replace(old, new), encoding="utf8")
        assert fault in verify.fault(course)
        (course / file).write_text(text, encoding="utf8")


# Students, in their own notebook.


def examined(course, answer):
    exercise = loader.load(course.sources()[0].solution)
    return exercise.suite.examine("by_hand", answer, points=0)


@pytest.mark.parametrize(
    ("answer", "head", "cause"),
    [
        (lambda: [0.75, 0.25], "passed", ""),
        (lambda: (0.25, 0.75), "not passed yet", "exchanged"),
        (lambda: np.array([0.83, 0.17]), "not passed yet", "thirds"),
        (lambda: [1.5, 0.5], "not passed yet", ""),
        (None, "not done yet", ""),
    ],
    ids=["right", "another order", "rounded", "twice as large", "none"],
)
def test_feedback_speaks_of_no_points_and_recognises_numbers(course, answer, head, cause):
    report = examined(course, answer)
    (result,) = report.results
    assert (report.score, result.cause, result.relation) == (0, cause, "")
    for shown in (show.text(report), show.as_html(report)):
        assert f"{head}, ungraded" in shown and "0 of 0" not in shown and "seed" not in shown
        assert ("Read:" in shown) == False  # noqa: E712 (this toy names no place to read)
        assert not (set(shown.split()) & {"0.75", "0.75."}), (
            "what is right is still to be worked out"
        )


# A class.


@pytest.mark.slow
@pytest.mark.parametrize("student", ANSWERS)
def test_no_answer_costs_a_point(graded, student):
    course, _printed = graded
    record = record_of(course, student, "01-toy")
    cell = record.cells["check_by_hand"]
    assert (record.score, record.max_score) == (6, 9)  # the proof waits for a person
    assert (cell.points, cell.max_points) == (0, 0)
    assert record.kind == (Kind.LIMIT if student == "dies" else Kind.RIGHT)
    lines = reasons.lines_of(record)
    assert not any(reason.startswith("by_hand") for reason in lines), lines
    missing = [reason for reason in lines if "missing and ha" in reason]
    assert [any(name in reason for reason in missing) for name in TASKS] == [
        student == "before"
    ] * 2
    with Gradebook(course.db_url, course.course_id) as book:
        assert book.find_submission("01-toy", student).score == 6
        assert book.find_grade("check_by_hand", "01-toy", "01-toy", student).max_score == 0


STATES = {
    "done": "passed",
    "blank": "not done yet",
    "before": "not done yet",
    "raises": "not done yet",
}


@pytest.mark.slow
@pytest.mark.parametrize("student", ANSWERS)
def test_the_feedback_page_has_the_result_without_points(graded, student):
    page = page_of(graded[0], student)
    (row,) = [bar for bar in page.select(".bars a") if "by_hand" in bar.text]
    assert f"{STATES.get(student, 'not passed yet')}, ungraded" in text_of(row) and not row.select(
        ".bar"
    )
    assert not page.select(".card") and "0 of 0" not in text_of(page)
    top = text_of(page.select_one(".sum"))
    assert "Every check passed" not in top  # the proof waits


@pytest.mark.slow
def test_the_page_shows_the_hint_of_a_wrong_answer(graded):
    check = text_of(page_of(graded[0], "exchanged").select_one("#at-check_by_hand .check"))
    assert (
        "The number at index [0] is wrong: 0.25. both exchanged. The sum comes first." in check
        and "seed" not in check
    )
    assert "The sum comes first" not in text_of(page_of(graded[0], "done"))


@pytest.mark.slow
def test_open_questions_are_listed_next_to_full_points(graded, course):
    with Gradebook(course.db_url, course.course_id) as book:
        for student in ("done", "blank"):
            grade = book.find_grade("proof", "01-toy", "01-toy", student)
            grade.manual_score, grade.needs_manual_grade = 3, False
        book.db.commit()
    try:
        run(course, "grade", "--jobs", 1)
        full, after = (
            text_of(page_of(course, student).select_one(".sum")) for student in ("done", "blank")
        )
        assert "9 of 9 points" in full and "Every check passed" in full
        assert "9 of 9 points" in after and "No points were lost." in after
    finally:
        with Gradebook(course.db_url, course.course_id) as book:
            for student in ("done", "blank"):
                grade = book.find_grade("proof", "01-toy", "01-toy", student)
                grade.manual_score, grade.needs_manual_grade = None, True
            book.db.commit()


@pytest.mark.slow
def test_the_report_counts_its_mistakes_and_no_points(graded):
    course, _ = graded
    run(course, "report")
    page = BeautifulSoup(
        (course.output_folder / "report.html").read_text(encoding="utf8"), "html.parser"
    )
    assert any("by hand, ungraded" in text_of(head) for head in page.select(".picture .up"))
    lost, met = costs([record_of(course, student, "01-toy") for student in ANSWERS])
    assert [row for row in lost if row[0] == "by_hand"] == []
    assert {(item.label, item.students) for item in met if item.function == "by_hand"} == {
        ("both exchanged", 1),
        ("thirds for quarters", 1),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("student", "head"),
    [("done", "passed"), ("thirds", "not passed yet"), ("blank", "not done yet")],
)
def test_check_and_explain_speak_of_it_too(graded, student, head):
    course, _ = graded
    printed = run(course, "check", course.submitted / student / "01-toy" / "01-toy.ipynb")
    assert f"by_hand: {head}, ungraded" in printed and "6 of 6 points" in printed
    shown = run(course, "explain", course.paths_of(student, "01-toy").record, "--check", "by_hand")
    assert f"by_hand: {head}, ungraded, seed" in shown
    assert ("does the same here as these listed answers: thirds for quarters" in shown) == (
        student == "thirds"
    )


@pytest.mark.long
@pytest.mark.slow
def test_nbgrader_autograde_gives_the_same(graded, tmp_path):
    course, _ = graded
    there = tmp_path / "course"
    shutil.copytree(
        course.root, there, ignore=shutil.ignore_patterns("gradebook.db", "autograded", "feedback")
    )
    other = Course(root=there)
    release(other, other.sources()[0])
    for command in (["autograde", "01-toy"], ["generate_feedback", "01-toy"]):
        result = subprocess.run(
            [sys.executable, "-m", "nbgrader", *command],
            cwd=there,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert result.returncode == 0, result.stderr[-3000:]

    def points(course_graded):
        with Gradebook(course_graded.db_url, course_graded.course_id) as book:
            return {
                submission.student.id: {
                    grade.name: grade.auto_score for grade in submission.notebooks[0].grades
                }
                for submission in book.find_assignment("01-toy").submissions
            }

    assert points(other) == points(course)
    assert {grades["check_by_hand"] for grades in points(other).values()} == {0}


@pytest.mark.slow
def test_a_record_from_before_is_read(graded):
    """One without the cell, and one whose cells have no labels, as they were written before
    there were such cells.
    """
    course, _ = graded
    raw = json.loads(course.paths_of("done", "01-toy").record.read_text(encoding="utf8"))
    del raw["cells"]["check_by_hand"]
    course.paths_of("done", "01-toy").record.write_text(json.dumps(raw), encoding="utf8")
    try:
        run(course, "report")
        assert "Graded 0" in run(course, "grade", "--jobs", 1)
    finally:
        run(course, "grade", "--jobs", 1, "--force")

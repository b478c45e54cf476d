"""Regrade requests: what a student writes about a check, kept by `grade`, listed by `report`, and answered."""

import nbformat
import pytest
from bs4 import BeautifulSoup
from conftest import toy_course
from nbgrader.api import Gradebook
from test_grading import RIGHT, hand_in, run

from autograder.authoring import regrade
from autograder.authoring.release import release
from autograder.course.config import Course, UserError
from autograder.grades import records, report, requests
from autograder.grades.records import record_of
from autograder.grades.results import Request, SavedCell

CELLS = [
    ("code", "add", "def add(a, b): return a - b", {"solution": True, "grade": False, "locked": False}),
    ("code", "check_add", 'checks.run("add", points=4)', {"solution": False, "grade": True, "locked": True}),
    ("code", "twice", "def twice(a): return a", {"solution": True, "grade": False, "locked": False}),
    ("code", "check_twice", 'checks.run("twice", points=2)', {"solution": False, "grade": True, "locked": True}),
    ("markdown", requests.HEAD, regrade.TEXT, {"solution": False, "grade": False, "locked": True}),
]


def found(*texts):
    """Return the requests and notes for a notebook that ends with these texts of its student."""
    cells = []
    for kind, name, source, marks in CELLS:
        made = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        cells.append(made(source, metadata={"nbgrader": {"grade_id": name, "points": 1, **marks}}))
    own = [nbformat.v4.new_markdown_cell(text) for text in texts]
    asked, notes = requests.found_in([*cells, nbformat.v4.new_code_cell("add: no request"), *own])
    return [(request.function, request.answer, request.text) for request in asked], [note.text for note in notes]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("add: I think this check is wrong", [("add", "add", "I think this check is wrong")]),
        ("- `add`: why\n  so\n\n* **twice**：错了", [("add", "add", "why\n  so"), ("twice", "twice", "错了")]),
        ("add: one\nnote: of the same\nadd: two", [("add", "add", "one\nnote: of the same"), ("add", "add", "two")]),
        ("", []),
        ("  \n", []),
    ],
)
def test_a_request_begins_with_the_name_of_a_function(text, expected):
    assert found(text) == (expected, [])


def test_what_names_no_function_is_told_to_its_student():
    assert found("I think that all are wrong.", "add: this one") == (
        [("add", "add", "this one")],
        [requests.NAMELESS],
    )
    assert found("Subtract: no") == ([], [requests.NAMELESS])


def test_three_requests_are_kept_and_none_is_long():
    asked, notes = found(*(f"add: {number} {'x' * 5_000}\x1b[31m" for number in range(5)))
    assert len(asked) == 3 and notes == [requests.TOO_MANY]
    assert all(len(text) == requests.MOST_TEXT and "\x1b" not in text for _, _, text in asked)


def test_a_notebook_of_an_older_release_has_no_requests():
    assert requests.found_in([nbformat.v4.new_markdown_cell("add: why")]) == ([], [])


def test_an_earlier_comment_is_no_answer_to_a_new_request():
    saved = {"add": SavedCell(comment="Well done.")}
    (new,) = requests.begun([Request("add", "add", "why")], [], saved)
    assert new.before == "Well done." and new.with_reply(saved).open
    later = {"add": SavedCell(comment="Well done. You are right: 4 points.")}
    assert not new.with_reply(later).open
    (again,) = requests.begun([Request("add", "add", "why")], [new], later)  # the same notebook, graded once more
    assert again.before == "Well done." and not again.with_reply(later).open
    (other,) = requests.begun([Request("add", "add", "but why?")], [new], later)
    assert other.with_reply(later).open


def test_an_author_s_cell_of_that_title_is_refused(tmp_path):
    course = toy_course(tmp_path / "course")
    (exercise,) = course.sources()
    exercise.text.write_text(f"{exercise.text.read_text()}\n# %% {requests.HEAD} [markdown]\n# Mine.\n")
    with pytest.raises(UserError, match="'ask_regrade' is the title of a cell that release adds"):
        release(course, exercise)


@pytest.mark.slow
def test_a_request_from_the_notebook_to_its_answer(isolated, tmp_path, monkeypatch):
    made = toy_course(tmp_path / "course")
    course = Course(root=made.root, into=made.root)
    for exercise in course.sources():
        release(course, exercise)

    def ask(student, text, **answers):
        def change(notebook):
            assert notebook.cells[-1].source == "" and notebook.cells[-1].cell_type == "markdown"
            notebook.cells[-1].source = text

        hand_in(course.submitted, student, {**RIGHT, **answers}, change=change, toy=course)

    def grade():
        said = run(course, "grade", "--into", course.into)
        assert said.exit_code == 0, said.output

    def page():
        text = course.graded("ada", "01-toy").page.read_text(encoding="utf-8")
        return " ".join(BeautifulSoup(text, "html.parser").get_text().split())

    ask("ada", "add: <b>Why</b> not minus?", add="def add(a, b):\n    return a - b")
    ask("ben", "")
    grade()
    assert "Your regrade request on add waits for an answer." in page()
    assert "Write why at the end of your notebook, and submit it again." in page()
    said = run(course, "report", "--into", course.into).output
    assert "1 regrade request is open." in said
    html = BeautifulSoup((course.into / "report.html").read_text(encoding="utf-8"), "html.parser")
    (asked,) = html.select("li:has(> .asked)")
    assert asked.a.text == "ada" and asked.select_one(".asked").text == "<b>Why</b> not minus?"
    assert "Each element is the sum of the two." in asked.text
    explain = asked.select("code")[-1].text
    assert explain == "python -m autograder explain autograded/ada/01-toy/grade.json --check add"
    monkeypatch.chdir(course.root)
    assert "returned" in run(course, *explain.split()[3:]).output
    assert "1 of these grades have an open regrade request." in " ".join(
        run(course, "export", "--into", course.into).output.split()
    )
    anonymous = report.write(course, course.into / "anonymous.html", anonymous=True)
    assert anonymous.assignments[0].open_requests == 1 and anonymous.assignments[0].requests == []
    assert "not minus" not in (course.into / "anonymous.html").read_text(encoding="utf-8")

    with Gradebook(course.db_url, course.course_id) as book:  # what the formgrader writes
        book.find_comment("add", "01-toy", "01-toy", "ada").manual_comment = "Subtracting is not adding."
        book.db.commit()
    assert not records.open_requests(course)
    grade()
    assert "Your regrade request on add is answered" in page() and "Subtracting is not adding." in page()
    assert "regrade request" not in run(course, "report", "--into", course.into).output

    ask("ada", "add: But why?", add="def add(a, b):\n    return a - b")
    grade()
    (request,) = record_of(course, "ada", "01-toy").requests
    assert request.open and request.before == "Subtracting is not adding."
    assert [record.student for record in records.open_requests(course)] == ["ada"]

"""Regrade requests: what a student writes about a check, kept by `grade`, listed by `report`,
and answered.
"""

import json
import secrets

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook
from toy_course import RIGHT, hand_in, run, toy_course

from autograder.authoring import regrade
from autograder.authoring.release import release
from autograder.course import cells, deadlines
from autograder.course.config import Course, UserError
from autograder.grades import late, records, report, requests
from autograder.grades.records import record_of
from autograder.grades.results import Request, StoredCell
from autograder.grading import submissions
from autograder.grading.notebook import MOST_CELLS

CELLS = [
    (
        "code",
        "add",
        "def add(a, b): return a - b",
        {"solution": True, "grade": False, "locked": False},
    ),
    (
        "code",
        "check_add",
        'checks.run("add", points=4)',
        {"solution": False, "grade": True, "locked": True},
    ),
    (
        "code",
        "twice",
        "def twice(a): return a",
        {"solution": True, "grade": False, "locked": False},
    ),
    (
        "code",
        "check_twice",
        'checks.run("twice", points=2)',
        {"solution": False, "grade": True, "locked": True},
    ),
    (
        "markdown",
        requests.HEADING_ID,
        regrade.TEXT,
        {"solution": False, "grade": False, "locked": True},
    ),
]


def requests_in(*texts):
    """Return the requests and notes for a notebook that ends with these texts of its student."""
    given_cells = []
    for kind, name, source, marks in CELLS:
        new_cell = (
            nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        )
        given_cells.append(
            new_cell(source, metadata={"nbgrader": {"grade_id": name, "points": 1, **marks}})
        )
    own_cells = [nbformat.v4.new_markdown_cell(text) for text in texts]
    asked, notes = requests.found_in(
        [*given_cells, nbformat.v4.new_code_cell("add: no request"), *own_cells]
    )
    return [(request.function, request.answer, request.text) for request in asked], [
        note.text for note in notes
    ]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("add: I think this check is wrong", [("add", "add", "I think this check is wrong")]),
        (
            "- `add`: why\n  so\n\n* **twice**：错了",
            [("add", "add", "why\n  so"), ("twice", "twice", "错了")],
        ),
        (
            "add: one\nnote: of the same\nadd: two",
            [("add", "add", "one\nnote: of the same"), ("add", "add", "two")],
        ),
        ("`add: not so`", [("add", "add", "not so")]),
        ("`add: not so`", [("add", "add", "not so")]),
        ("", []),
        ("  \n", []),
    ],
)
def test_a_request_begins_with_the_name_of_a_function(text, expected):
    assert requests_in(text) == (expected, [])


def test_a_request_without_a_function_is_reported_to_its_student():
    assert requests_in("I think that all are wrong.", "add: this one") == (
        [("add", "add", "this one")],
        [requests.NAMELESS],
    )
    assert requests_in("Subtract: no") == ([], [requests.NAMELESS])
    assert str(requests.parsed("Subtract: no", {"add": "add", "twice": "twice"})[1][0]).endswith(
        "`add`, `twice`."
    )


@pytest.mark.parametrize(
    "text",
    ["_" * 20_000 + "!", "1" * 3_000_000, "*" * 3_000_000, "add:\n" * 3_000_000, "`" * 1_000_000],
)
def test_no_text_takes_hours_to_read(text):
    asked, _ = requests_in(text)
    assert len(asked) <= requests.MOST


def test_a_language_is_looked_for_at_the_end_of_a_cell_alone():
    source = " " * 3_000_000 + "x"  # from the beginning, that takes hours
    assert cells.without_language(source) == source
    assert cells.without_language(cells.with_language("a = 1", "zh_CN")) == "a = 1"


def test_at_most_three_short_requests_are_recorded():
    asked, notes = requests_in(*(f"add: {number} {'x' * 5_000}\x1b[31m" for number in range(5)))
    assert len(asked) == 3 and notes == [requests.TOO_MANY]
    assert all(len(text) == requests.MOST_TEXT and "\x1b" not in text for _, _, text in asked)


def test_a_notebook_of_an_older_release_has_no_requests():
    assert requests.found_in([nbformat.v4.new_markdown_cell("add: why")]) == ([], [])


def test_an_earlier_comment_is_no_answer_to_a_new_request():
    stored = {"add": StoredCell(comment="Well done.")}
    (new,) = requests.with_earlier_comments([Request("add", "add", "why")], [], stored)
    assert new.before == "Well done." and new.with_reply(stored).open
    later = {"add": StoredCell(comment="Well done. You are right: 4 points.")}
    assert not new.with_reply(later).open
    # the same notebook, graded once more
    (again,) = requests.with_earlier_comments([Request("add", "add", "why")], [new], later)
    assert again.before == "Well done." and not again.with_reply(later).open
    (other,) = requests.with_earlier_comments([Request("add", "add", "but why?")], [new], later)
    assert other.with_reply(later).open


def test_an_author_s_cell_of_that_title_is_refused(tmp_path):
    course = toy_course(tmp_path / "course")
    (exercise,) = course.sources()
    exercise.text.write_text(
        f"{exercise.text.read_text()}\n# %% {requests.HEADING_ID} [markdown]\n# Mine.\n"
    )
    with pytest.raises(UserError, match="'ask_regrade' is the title of a cell that release adds"):
        release(course, exercise)


@pytest.mark.slow
def test_a_request_from_the_notebook_to_its_answer(isolated, tmp_path, monkeypatch):
    toy = toy_course(tmp_path / "course")
    course = Course(root=toy.root, output_folder=toy.root)
    for exercise in course.sources():
        release(course, exercise)

    def ask(student, text, **answers):
        def change(notebook):
            assert notebook.cells[-1].source == "" and notebook.cells[-1].cell_type == "markdown"
            notebook.cells[-1].source = text

        hand_in(course.submitted, student, {**RIGHT, **answers}, change=change, toy=course)

    def grade():
        output = run(course, "grade", "--into", course.output_folder)
        assert output.exit_code == 0, output.output

    def page():
        text = course.paths_of("ada", "01-toy").page.read_text(encoding="utf-8")
        return " ".join(BeautifulSoup(text, "html.parser").get_text().split())

    ask("ada", "add: <b>Why</b> not minus?", add="def add(a, b):\n    return a - b")
    ask("ben", "")
    grade()
    assert "Your regrade request on add waits for an answer." in page()
    assert "Write why at the end of your notebook, and submit it again." in page()
    output = run(course, "report", "--into", course.output_folder).output
    assert "1 regrade request is open." in output
    html = BeautifulSoup(
        (course.output_folder / "report.html").read_text(encoding="utf-8"), "html.parser"
    )
    (asked,) = html.select("li:has(> .asked)")
    assert asked.a.text == "ada" and asked.select_one(".asked").text == "<b>Why</b> not minus?"
    assert "Each element is the sum of the two." in asked.text
    explain = asked.select("code")[-1].text
    assert explain == "python -m autograder explain autograded/ada/01-toy/grade.json --check add"
    monkeypatch.chdir(course.root)
    assert "returned" in run(course, *explain.split()[3:]).output
    for options in ((), ("--anonymous",)):
        output = run(course, "export", "--into", course.output_folder, *options).output
        assert "1 of these grades have an open regrade request." in " ".join(output.split())
    anonymous = report.write(course, course.output_folder / "anonymous.html", anonymous=True)
    assert anonymous.assignments[0].open_requests == 1 and anonymous.assignments[0].requests == []
    assert "not minus" not in (course.output_folder / "anonymous.html").read_text(encoding="utf-8")

    with Gradebook(course.db_url, course.course_id) as book:  # what the formgrader writes
        book.find_comment(
            "add", "01-toy", "01-toy", "ada"
        ).manual_comment = "Subtracting is not adding."
        book.db.commit()
    assert not records.open_requests(course)
    grade()
    assert (
        "Your regrade request on add is answered" in page()
        and "Subtracting is not adding." in page()
    )
    assert "regrade request" not in run(course, "report", "--into", course.output_folder).output

    ask("ada", "add: But why?", add="def add(a, b):\n    return a - b")
    grade()
    (request,) = record_of(course, "ada", "01-toy").requests
    assert request.open and request.before == "Subtracting is not adding."
    assert [record.student for record in records.open_requests(course)] == ["ada"]


LATE = f"""
c.AssignLatePenalties.plugin_class = "{late.PLUGIN}"
c.PerDay.percent = 10
"""


@pytest.mark.slow
@pytest.mark.parametrize("exchange", [False, True])
def test_to_ask_after_the_due_date_is_no_late_work(isolated, tmp_path, exchange):
    toy = toy_course(tmp_path / "course", LATE)
    course = Course(root=toy.root, output_folder=toy.root)
    deadlines.path_of(course).write_text("[due]\n01-toy = 2026-01-10T00:00:00Z\n", encoding="utf-8")
    for exercise in course.sources():
        release(course, exercise)
    wrong = {**RIGHT, "add": "def add(a, b):\n    return a - b"}

    def submit(day, request="", answers=wrong, count=None):
        def change(notebook):
            notebook.cells[-1].source = request
            for cell in notebook.cells:
                if cell.cell_type == "code":  # as Jupyter saves what was run again
                    cell.execution_count = count

        stamp = f"2026-01-{day:02d} 12:00:00 UTC"
        hand_in(course.submitted, "ada", answers, change=change, stamp=stamp, toy=course)
        if exchange:  # each hand-in has another one
            secret = course.submitted / "ada" / "01-toy" / submissions.SECRET
            secret.write_text(secrets.token_hex(64))

    def grade(*options):
        output = run(course, "grade", "--into", course.output_folder, *options)
        assert output.exit_code == 0, output.output
        record = record_of(course, "ada", "01-toy")
        (row,) = records.rows(course)
        return (
            output.output,
            row["late_submission_penalty"],
            [request.text for request in record.requests],
            record.seed,
        )

    submit(9)
    _, penalty, asked, seed = grade()
    assert (penalty, asked) == (0, [])
    submit(12, "add: Why?", count=7)
    assert grade()[1:] == (0, ["Why?"], seed)
    assert "Graded 0; 1 unchanged" in grade()[0]
    assert grade("--force")[1:] == (0, ["Why?"], seed)
    submit(13, "add: But why?", count=8)
    output, *rest = grade()
    assert "Graded 0; 1 unchanged" in output and rest == [0, ["But why?"], seed]
    assert "Your regrade request on add waits" in BeautifulSoup(
        course.paths_of("ada", "01-toy").page.read_text(encoding="utf-8"), "html.parser"
    ).get_text(" ", strip=True).replace("  ", " ")
    submit(13, "add: But why?", answers=RIGHT)  # new work, and late
    output, penalty, asked, other = grade()
    assert "Graded 1" in output and penalty > 0 and asked == ["But why?"] and other != seed
    submit(12, answers=RIGHT)  # an instructor corrects the time: nothing is asked
    assert grade()[1] == pytest.approx(1.8)


def test_a_request_and_what_was_run_are_no_part_of_a_digest():
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("add = 1", id="add"),
            nbformat.v4.new_markdown_cell(
                regrade.TEXT,
                id=requests.HEADING_ID,
                metadata={"nbgrader": {"grade_id": requests.HEADING_ID}},
            ),
            nbformat.v4.new_markdown_cell("", id=requests.CELL),
        ]
    )

    def split(change):
        content = json.loads(nbformat.writes(notebook))
        change(content)
        return submissions.split(json.dumps(content).encode())

    part, request = split(lambda content: None)
    assert request == ""
    assert split(lambda content: content["cells"][2].update(source="add: why")) == (
        part,
        "add: why",
    )
    assert split(lambda content: content["cells"][0].update(execution_count=4)) == (part, "")
    assert split(lambda content: content["cells"][0].update(source="add = 2"))[0] != part
    # What is graded is no request, whatever it is called.
    answer = {"nbgrader": {"grade": True, "solution": True, "locked": False, "grade_id": "proof"}}
    changed = split(lambda content: content["cells"][2].update(source="Because.", metadata=answer))
    assert changed[0] != part and changed[1] == ""
    assert (
        split(
            lambda content: content["cells"][2].update(cell_type="code", outputs=[], source="x = 1")
        )[0]
        != part
    )
    # Of an earlier format, grading reads other cells than these.
    earlier = json.loads(nbformat.writes(notebook)) | {"nbformat": 3, "worksheets": []}
    many = json.loads(nbformat.writes(notebook))
    many["cells"] *= MOST_CELLS
    for data in (
        b"",
        b"[]",
        b"{" * 9_000 + requests.HEADING_ID.encode(),
        json.dumps({"cells": 7, "x": requests.HEADING_ID}).encode(),
        json.dumps(earlier).encode(),
        json.dumps(many).encode(),
    ):
        assert submissions.split(data) == (data, "")
    assert submissions.split(None) == (None, "")

"""Grades and feedback go back to a school's system: its columns and names, what changed alone,
and without names.
"""

import csv
import io
import re
import shutil
import sys
import zipfile

import pytest

from autograder import cli
from autograder.course.config import ROOT, Course, UserError
from autograder.grades import gradebook, records
from autograder.school import exporting, roster
from autograder.school.exporting import System
from autograder.school.layouts import Exercises

CLASS = {
    "al1": ("Ada", "Lovelace", "ada@example.edu", 7.5),
    "cb2": ("Charles", "Babbage", "cb@example.edu", 10.0),
    "jm3": ("Jörg", "Müller", "", 1 / 3),
    "=evil": ("=cmd|' /C calc'!A0", "Eve", "eve@example.edu", 2.0),
}
MOODLE = """Identifier,Full name,ID number,Email address,Status,Grade,Maximum grade,Grade can be changed,\
Last modified (submission),Last modified (grade),Feedback comments
Participant 901,Ada Lovelace,al1,ada@example.edu,Submitted for grading,,10.00,Yes,"Monday, 2 November 2026",-,- good
Participant 902,Charles Babbage,cb2,cb@example.edu,Submitted for grading,3.00,10.00,Yes,-,-,
Participant 903,Jörg Müller,,,Submitted for grading,,10.00,Yes,-,-,
Participant 904,Nobody Else,ne4,ne@example.edu,No submission,,10.00,Yes,-,-,
"""
CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,01-qkv: projections (77),Quiz (78),Current Score
    Points Possible,,,,,10.00,5.00,(read only)
"Lovelace, Ada",501,al1,ada,A,,4,80
"Müller, Jörg",503,,jm3,A,1,,20
"Student, Test",999,,test,A,,,
"""


@pytest.fixture
def course(tmp_path):
    """A course with an exercise of ten points, a gradebook with a class of four, and their
    pages.
    """
    root = tmp_path / "course"
    shutil.copytree(
        ROOT / "exercises/01-qkv", root / "exercises/01-qkv", ignore=shutil.ignore_patterns("*.zip")
    )
    (root / "exercises/01-qkv/checking.zip").touch()
    shutil.copy(ROOT / "nbgrader_config.py", root)
    course = Course(root=root)
    with gradebook.opened(course) as book:
        book.add_assignment("01-qkv")
        book.add_notebook("01-qkv", "01-qkv")
        book.add_grade_cell("check", "01-qkv", "01-qkv", max_score=10, cell_type="code")
        for student, (first, last, email, score) in CLASS.items():
            book.add_student(student, first_name=first, last_name=last, email=email or None)
            book.add_submission("01-qkv", student)
            grade = book.find_grade("check", "01-qkv", "01-qkv", student)
            grade.auto_score, grade.needs_manual_grade = score, False
            page = course.paths_of(student, "01-qkv").page
            page.parent.mkdir(parents=True)
            page.write_text(f"<p>{student}</p>")
        book.db.commit()
    return course


@pytest.fixture
def sheet(tmp_path):
    def written(data, name="sheet.csv"):
        (tmp_path / name).write_text(data, encoding="utf-8-sig")
        return roster.read_sheet(tmp_path / name)

    return written


def read(table, path):
    table.write(path)
    assert [each.name for each in path.parent.glob("*.new")] == []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_moodles_worksheet_is_filled_in_and_no_comment_is_touched(course, sheet, tmp_path):
    table = exporting.to_moodle(records.rows(course), sheet(MOODLE), anonymous=False)
    head, *rows = read(table, tmp_path / "out.csv")
    expected = (
        "Identifier,Full name,ID number,Email address,Status,Grade,Maximum grade,Last "
        "modified (grade)"
    )
    assert ",".join(head) == expected
    assert [(row[0], row[5], row[7]) for row in rows] == [
        ("Participant 901", "7.5", "-"), ("Participant 902", "10", "-"),
        ("Participant 903", "0.33", "-"),
    ]  # fmt: skip
    assert table.missing == [("=evil", "not in sheet.csv")]


def test_canvas_gets_students_and_the_column_of_the_exercise(course, sheet, tmp_path):
    rows, known = records.rows(course), Exercises(course.exercises())
    table = exporting.to_canvas(rows, sheet(CANVAS), known, anonymous=False)
    assert read(table, tmp_path / "out.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "01-qkv: projections (77)"],
        ["    Points Possible", "", "", "", "", "10"],
        ["Lovelace, Ada", "501", "al1", "ada", "A", "7.5"],
        ["Müller, Jörg", "503", "", "jm3", "A", "0.33"],
    ]
    without = CANVAS.replace("01-qkv: projections (77)", "Another (77)")
    # a new one
    assert (
        exporting.to_canvas(rows, sheet(without), known, anonymous=False).headings[-1] == "01-qkv"
    )
    titled = CANVAS.replace("01-qkv: projections (77)", f'"{known.all["01-qkv"].title} (77)"')
    assert (
        exporting.to_canvas(rows, sheet(titled), known, anonymous=False)
        .headings[-1]
        .endswith("(77)")
    )


def test_a_student_named_by_canvas_is_found_by_canvas_number(course, sheet):
    rows = [
        {
            **records.rows(course)[0],
            "student_id": "someoneelse_501",
            "first_name": "",
            "last_name": "",
            "email": "",
        }
    ]
    table = exporting.to_canvas(rows, sheet(CANVAS), Exercises(course.exercises()), anonymous=False)
    assert [line.cells[1] for line in table.lines] == ["501"]


def test_gradescopes_columns(course, tmp_path):
    head, *rows = read(
        exporting.to_gradescope(records.rows(course), anonymous=False), tmp_path / "out.csv"
    )
    assert ",".join(head) == "First Name,Last Name,SID,Email,Total Score,Max Points,Status"
    assert ["Ada", "Lovelace", "al1", "ada@example.edu", "7.5", "10", "Graded"] in rows


def test_no_cell_is_a_formula(course, sheet, tmp_path):
    evil = (
        MOODLE + "Participant 905,=cmd|' /C calc'!A0 "
        "Eve,=evil,eve@example.edu,Submitted,,10,Yes,-,-,\n"
    )
    rows = records.rows(course)
    for table in (
        exporting.to_csv(rows, anonymous=False),
        exporting.to_gradescope(rows, anonymous=False),
        exporting.to_moodle(rows, sheet(evil), anonymous=False),
    ):
        rows_written = read(table, tmp_path / "out.csv")
        assert any("calc" in cell for row in rows_written for cell in row)
        assert not [
            cell
            for row in rows_written
            for cell in row
            if cell[:1] in ("=", "+", "@") or re.match("-.", cell)
        ]


@pytest.mark.parametrize("system", System)
def test_only_what_changed_since_an_earlier_export(course, sheet, tmp_path, system):
    def exported():
        rows = records.rows(course)
        if system == System.MOODLE:
            return exporting.to_moodle(rows, sheet(MOODLE), anonymous=False)
        if system == System.CANVAS:
            return exporting.to_canvas(
                rows, sheet(CANVAS), Exercises(course.exercises()), anonymous=False
            )
        return {System.CSV: exporting.to_csv, System.GRADESCOPE: exporting.to_gradescope}[system](
            rows, False
        )

    read(exported(), tmp_path / "first.csv")
    second = exported()
    second.changed_since(tmp_path / "first.csv")
    assert second.lines == []
    with gradebook.opened(course) as book:
        book.find_grade("check", "01-qkv", "01-qkv", "al1").manual_score = 9
        book.db.commit()
    second = exported()
    second.changed_since(tmp_path / "first.csv")
    assert [line.grades[0]["student_id"] for line in second.lines] == ["al1"]
    with pytest.raises(UserError, match="other columns"):
        (tmp_path / "other.csv").write_text("a,b\n1,2\n")
        second.changed_since(tmp_path / "other.csv")


def test_anonymous_files_have_no_names(course, sheet, tmp_path):
    rows = records.rows(course)
    people = {
        value for student, person in CLASS.items() for value in (student, *person[:3]) if value
    }
    people |= {"Lovelace, Ada", "Ada Lovelace", "Müller, Jörg"}
    for table in (
        exporting.to_csv(rows, anonymous=True),
        exporting.to_gradescope(rows, anonymous=True),
        exporting.to_moodle(rows, sheet(MOODLE), anonymous=True),
        exporting.to_canvas(rows, sheet(CANVAS), Exercises(course.exercises()), anonymous=True),
    ):
        cells = {cell for row in read(table, tmp_path / "out.csv") for cell in row}
        assert not cells & people and not [
            cell for cell in cells if any(name in cell for name in ("Lovelace", "@"))
        ]
    assert cells >= {"501", "7.5"}  # Canvas's number is left, by which it takes the row


def test_feedback_for_moodle_is_named_as_its_importer_parts_it(course, sheet, tmp_path):
    table = exporting.to_moodle(records.rows(course), sheet(MOODLE), anonymous=False)
    assert exporting.feedback(course, table, System.MOODLE, tmp_path / "feedback.zip") == []
    with zipfile.ZipFile(tmp_path / "feedback.zip") as pages:
        names = pages.namelist()
        assert pages.read("al1_901_assignfeedback_file_01-qkv.html") == b"<p>al1</p>"
    # Moodle takes the second of five parts as its number, the third and fourth as the plugin, the
    # rest as the file.
    assert [name.split("_", 4)[1:] for name in names] == [
        [number, "assignfeedback", "file", "01-qkv.html"] for number in ("901", "902", "903")
    ]


def test_feedback_for_others_is_a_mail_merge(course, tmp_path):
    table = exporting.to_csv(records.rows(course), anonymous=False)
    course.paths_of("cb2", "01-qkv").page.unlink()
    assert exporting.feedback(course, table, System.CSV, tmp_path / "feedback.zip") == [
        "cb2 01-qkv"
    ]
    with zipfile.ZipFile(tmp_path / "feedback.zip") as pages:
        listed = list(csv.DictReader(io.StringIO(pages.read("mail-merge.csv").decode())))
        assert {row["Attachment"] for row in listed} == set(pages.namelist()) - {"mail-merge.csv"}
    (ada,) = (row for row in listed if row["Student"] == "al1")
    assert (ada["Email"], ada["Points"], ada["Attachment"]) == (
        "ada@example.edu",
        "7.5",
        "al1_01-qkv.html",
    )


def test_two_students_with_similar_names_have_separate_pages(course, tmp_path):
    rows = [{**records.rows(course)[0], "student_id": student} for student in ('a"b', "a_b", "A_B")]
    for row in rows:
        page = course.paths_of(row["student_id"], "01-qkv").page
        page.parent.mkdir(parents=True)
        page.write_text(row["student_id"])
    exporting.feedback(
        course, exporting.to_csv(rows, anonymous=False), System.CSV, tmp_path / "feedback.zip"
    )
    with zipfile.ZipFile(tmp_path / "feedback.zip") as pages:
        listed = list(csv.DictReader(io.StringIO(pages.read("mail-merge.csv").decode())))
        by_student = {
            row["Attachment"]: (row["Student"], pages.read(row["Attachment"]).decode())
            for row in listed
        }
    assert by_student == {
        "a_b_01-qkv.html": ('a"b', 'a"b'),
        "a_b_01-qkv-2.html": ("a_b", "a_b"),
        "A_B_01-qkv-3.html": ("A_B", "A_B"),
    }


@pytest.mark.parametrize(
    "call, line",
    [
        (
            lambda rows, sheet, known: exporting.to_moodle(rows, sheet(CANVAS), False),
            "no columns Identifier and Grade",
        ),
        (
            lambda rows, sheet, known: exporting.to_canvas(rows, sheet(MOODLE), known, False),
            "no columns Student, ID",
        ),
        (
            lambda rows, sheet, known: exporting.to_moodle(
                rows, sheet(MOODLE.replace("10.00", "100")), False
            ),
            "Moodle's assignment has 100 points, but 01-qkv has 10",
        ),
        (
            lambda rows, sheet, known: exporting.to_canvas(
                rows, sheet(CANVAS.replace("10.00", "8")), known, False
            ),
            "Canvas's assignment has 8 points",
        ),
        (
            lambda rows, sheet, known: exporting.to_canvas(
                rows, sheet(CANVAS.replace("Quiz", "01-qkv")), known, False
            ),
            "several columns for 01-qkv",
        ),
        (
            lambda rows, sheet, known: exporting.to_moodle(
                rows[:1], sheet(MOODLE.splitlines()[0] + "\nP 9,X,x,x@y\n"), False
            ),
            "No student with a grade is in",
        ),
        (
            lambda rows, sheet, known: exporting.to_moodle(
                [*rows, {**rows[0], "assignment": "02-scaling"}], sheet(MOODLE), False
            ),
            "This format holds one exercise",
        ),
        (
            lambda rows, sheet, known: exporting.to_moodle(
                [*rows, {**rows[1], "student_id": "ada"}], sheet(MOODLE), False
            ),
            "both match al1",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(course, sheet, call, line):
    with pytest.raises(UserError, match=re.escape(line)) as refused:
        call(records.rows(course), sheet, Exercises(course.exercises()))
    assert "\n" not in str(refused.value)


@pytest.fixture
def command(course, tmp_path, monkeypatch, capsys):
    """Return a function that runs the command, and returns its status and what it said on both
    ways out.
    """

    def run(*arguments):
        monkeypatch.setattr(
            sys,
            "argv",
            ["autograder", "export", *map(str, arguments), "--course", str(course.root)],
        )
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.chdir(tmp_path)
        try:
            cli.main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
        return status, *capsys.readouterr()

    return run


def test_the_command_as_someone_runs_it(command, course, sheet, tmp_path):
    sheet(MOODLE, "worksheet.csv")
    moodle = ["01-qkv", "--for", "moodle", "--sheet", "worksheet.csv"]
    status, output, wrong = command(*moodle, "--feedback", "feedback.zip")
    assert status == 0 and "3 grades: grades-moodle.csv" in output and "3 pages" in output
    assert "=evil is not in the file" in wrong
    shutil.move(course.root / "grades-moodle.csv", tmp_path / "sent.csv")
    status, output, wrong = command(*moodle, "--since", "sent.csv")
    assert (
        status == 0
        and "Nothing was written" in output
        and not (course.root / "grades-moodle.csv").exists()
    )
    status, output, wrong = command()
    assert status == 0 and "4 grades: grades.csv" in output


@pytest.mark.parametrize(
    "arguments, line",
    [
        (["--for", "blackboard"], "There is no format 'blackboard'"),
        (["--for", "moodle"], "Name Moodle's grading worksheet"),
        (["--for", "canvas"], "Name Canvas's gradebook"),
        (["--sheet", "worksheet.csv"], "--sheet is for Moodle and Canvas"),
        (["--anonymous", "--feedback", "a.zip"], "Feedback pages name their students"),
        (["--anonymous", "--since", "a.csv"], "Without names, changed grades"),
        (["--for", "lti", "--anonymous"], "--for lti writes no file"),
        (["01-qkv", "01-qk"], "There is no exercise '01-qk'. Did you mean 01-qkv?"),
        (
            ["--since", "sent.csv", "--to", "./sent.csv"],
            "sent.csv is also the file of --since, and would be",
        ),
        (
            ["--for", "moodle", "--sheet", "worksheet.csv", "--to", "worksheet.csv"],
            "is also the file of --sheet",
        ),
        (["--feedback", "a.csv", "--to", "a.csv"], "is also the file of --feedback"),
        (
            ["--since", "sent.csv", "--feedback", "sent.csv"],
            "is also the file of --since, and would be overwritten.",
        ),
        (["--to", "."], "is a folder. Name a file with --to."),
        (["--to", "link.csv"], "is a link, a device or a pipe"),
        (["--to", "/dev/null"], "is a link, a device or a pipe"),
        (["--to", "deadlines.toml"], "is the name of a file of the course"),
        (
            ["--to", "none/a.csv"],
            "There is no folder none for a.csv. Make it, or name another with --to.",
        ),
        (
            ["--to", "a.csv", "--feedback", "none/a.zip"],
            "Make it, or name another with --feedback.",
        ),
    ],
)
def test_a_users_mistake_is_one_line(command, sheet, tmp_path, arguments, line):
    sheet(MOODLE, "worksheet.csv")
    (tmp_path / "sent.csv").touch()
    (tmp_path / "link.csv").symlink_to("sent.csv")
    before = sorted(path.name for path in tmp_path.iterdir())
    status, _, wrong = command(*arguments)
    assert status == 1 and line in wrong and len(wrong.splitlines()) == 1
    assert (
        sorted(path.name for path in tmp_path.iterdir()) == before
        and not (tmp_path / "sent.csv").stat().st_size
    )


def test_brackets_in_a_path_are_shown_as_they_are(command, tmp_path):
    (tmp_path / "w [ws26]").mkdir()
    status, output, _ = command(
        "--to", "w [ws26]/odd[" + "b].csv", "--feedback", "w [ws26]/f[bold].zip"
    )
    assert (
        status == 0
        and "4 grades: w [ws26]/odd[b].csv" in output
        and "4 pages: w [ws26]/f[bold].zip" in output
    )
    status, output, _ = command("--since", "w [ws26]/odd[b].csv", "--to", "new.csv")
    assert status == 0 and "since w [ws26]/odd[b].csv. Nothing" in output


def test_what_is_no_exercise_any_more_has_grades_still(command, course):
    shutil.rmtree(course.root / "exercises/01-qkv")
    status, output, _ = command("01-qkv")
    assert status == 0 and "4 grades: grades.csv" in output

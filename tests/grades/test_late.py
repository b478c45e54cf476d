"""Late work: due dates and extensions from `deadlines.toml`, the rule `PerDay`, free days, and
who reads of them.
"""

import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from types import SimpleNamespace

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook
from toy_course import RIGHT, hand_in, record_of, run, toy_course

from autograder.authoring.release import release
from autograder.course import deadlines
from autograder.course.config import ROOT, Course, UserError
from autograder.grades import late, records, report
from autograder.grades.late import LatenessFacts, PerDay

DAY = late.DAY
RULE = f"""
c.AssignLatePenalties.plugin_class = "{late.PLUGIN}"
c.PerDay.percent = 10
c.PerDay.at_most = 3
c.PerDay.free_days = 2
"""
DATES = """
timezone = "Europe/Berlin"

[due]
01-toy = 2026-01-10T01:00:00
"""


@pytest.mark.parametrize(
    "seconds, points",
    [(1, 9.0), (DAY, 9.0), (DAY + 1, 8.0), (3 * DAY, 7.0), (3 * DAY + 1, 0.0), (90 * DAY, 0.0)],
)
def test_each_day_that_has_begun_costs_a_tenth_and_after_the_third_all_points_are_lost(
    seconds, points
):
    rule = PerDay(percent=10.0, at_most=3)
    assert 10 - rule.late_submission_penalty("ada", 10.0, seconds) == pytest.approx(points)


def test_without_a_last_day_no_more_than_all_points_are_lost():
    assert PerDay(percent=40.0).late_submission_penalty("ada", 10.0, 9 * DAY) == 10.0


@pytest.mark.parametrize(
    "free, at_most, late_by, used",
    [
        (5, None, [2 * DAY, 0, 4 * DAY, 1], [2, 0, 3, 0]),
        (5, 3, [20 * DAY, DAY + 1], [0, 2]),  # the first would get no points with all five
        (2, 0, [DAY, 3 * DAY, DAY], [1, 0, 1]),
        (0, 3, [DAY], [0]),
    ],
)
def test_free_days_are_used_as_soon_as_possible_and_not_in_vain(free, at_most, late_by, used):
    assert PerDay(free_days=free, at_most=at_most).free_days_used(late_by) == used


@pytest.fixture
def course(tmp_path):
    """A course with due dates and a rule, and nothing released."""
    toy = toy_course(tmp_path / "course", RULE)
    course = Course(root=toy.root, output_folder=toy.root)
    deadlines.path_of(course).write_text(DATES, encoding="utf-8")
    return course


def test_free_days_go_to_what_was_due_first_whatever_was_graded_first(course):
    due = datetime(2026, 1, 10)
    all_facts = [
        LatenessFacts("02-later", due + timedelta(days=9), due + timedelta(days=7)),
        LatenessFacts("01-toy", due + timedelta(days=2), due, timedelta(days=1)),
        LatenessFacts("03-undated", due, None),
    ]
    by_student = late.Rule(course).deadlines_of(all_facts)
    assert by_student["01-toy"] == late.Deadline(
        "2026-01-11T01:00+01:00", DAY, free_days_used=1, free_days_left=1
    )
    assert by_student["02-later"] == late.Deadline(
        "2026-01-17T00:00+00:00", 0.0, free_days_used=1, free_days_left=0
    )
    assert by_student["03-undated"] == late.Deadline()


def test_the_dates_and_the_rule_that_the_page_shows_are_valid(tmp_path):
    page = (ROOT / "book" / "grading.md").read_text(encoding="utf-8")
    dates = re.search(r"```toml\n(timezone.*?)```", page, re.DOTALL)[1].replace("01-qkv", "01-toy")
    (rule,) = re.findall(r"```python\n([^`]*c\.PerDay[^`]*)```", page)
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    assert all(f"# {line}" in config for line in rule.splitlines())
    toy = toy_course(tmp_path / "course", f"\n{rule}")
    course = Course(root=toy.root, output_folder=toy.root)
    deadlines.path_of(course).write_text(re.sub("02-scaling.*", "", dates), encoding="utf-8")
    late_by = LatenessFacts("01-toy", datetime(2026, 12, 8), datetime(2026, 12, 1))
    rule = late.Rule(course)
    assert rule.dates.due.keys() == {"01-toy"}
    assert (
        rule.deadlines_of([late_by])["01-toy"].free_days_used == 5
        and rule.penalty("ada", 10.0, 2 * DAY, 0) == 2.0
    )


def test_a_date_without_a_time_is_the_end_of_that_day(course):
    deadlines.path_of(course).write_text(
        'timezone = "Asia/Tokyo"\n[due]\n01-toy = 2026-01-10\n', encoding="utf-8"
    )
    assert deadlines.utc(deadlines.read(course).due["01-toy"]) == datetime(2026, 1, 10, 14, 59, 59)


EXTENSION = '\n[[extension]]\nstudent = "ada"\nexercise = "01-toy"\ntime = "3d"\n'


def test_a_day_of_an_extension_has_24_hours_when_the_clock_changes(course):
    deadlines.path_of(course).write_text(
        'timezone = "Europe/Berlin"\n[due]\n01-toy = 2026-03-28T23:59:00\n' + EXTENSION,
        encoding="utf-8",
    )
    dates = deadlines.read(course)
    assert deadlines.utc(dates.due_of("ada", "01-toy")) == datetime(2026, 3, 31, 22, 59)
    assert deadlines.utc(dates.due_of("ben", "01-toy")) == datetime(2026, 3, 28, 22, 59)
    assert dates.due_of("ada", "02-toy") is None


def test_the_last_extension_counts_and_none_takes_it_back(course):
    path = deadlines.path_of(course)
    path.write_text(DATES + EXTENSION + EXTENSION.replace("3d", "12h"), encoding="utf-8")
    dates = deadlines.read(course)
    assert (
        dates.extension("ada", "01-toy") == timedelta(hours=12)
        and dates.extension("ben", "01-toy") is None
    )
    assert [extension.time for extension in dates.in_force()] == [timedelta(hours=12)]
    path.write_text(DATES + EXTENSION + EXTENSION.replace("3d", "0d"), encoding="utf-8")
    assert deadlines.read(course).extension("ada", "01-toy") is None and not list(
        deadlines.read(course).in_force()
    )


FAULTS = {
    "[due": "deadlines.toml is not TOML",
    f"due = {'9' * 5000}\n": "deadlines.toml is not TOML",
    f"due = {'[' * 5000}\n": "deadlines.toml is not TOML",
    'timezone = "UTC"\n[due]\n01-toy = 9999-12-31\n' + EXTENSION: "is after the year 9999",
    "[due]\n01-toy = 2026-01-10 23:59\n": "Dates look like this: 2026-12-01T23:59:00.",
    "[dues]\n01-toy = 2026-01-10\n": "deadlines.toml has dues, but there is no such key. Did you "
    "mean due?",
    "[due]\n01-toi = 2026-01-10\n": "deadlines.toml: There is no exercise '01-toi'. Did you mean "
    "01-toy?",
    '[due]\n01-toy = "tomorrow"\n': "due.01-toy should be a date such as 2026-12-01T23:59:00, but "
    "is 'tomorrow'.",
    "[due]\n01-toy = 2026-01-10\n": "due.01-toy has no time zone. Begin the file with",
    'timezone = "Berlin"\n': "there is no time zone 'Berlin'.",
    EXTENSION: "01-toy has no due date, so an extension has no effect.",
    DATES + EXTENSION.replace("3d", "-3d"): "extension.time: '-3d' is no length of time. Write "
    "hours, days or weeks",
    DATES
    + EXTENSION.replace('time = "3d"', "days = 3"): "deadlines.toml has extension.days, but there "
    "is no such key",
    DATES + EXTENSION.replace('student = "ada"\n', ""): "an extension has no student.",
    DATES + EXTENSION.replace("01-toy", "02-toy"): "deadlines.toml: There is no exercise '02-toy'.",
    DATES + "\n[extension]\nada = 3\n": "deadlines.toml: extension should be a list",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_in_the_file_is_one_line_that_names_it(course, text):
    deadlines.path_of(course).write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        deadlines.read(course)
    assert FAULTS[text] in str(error.value) and "\n" not in str(error.value)


CONFIG_FAULTS = {
    RULE + "c.PerDay.percent = -10\n": "'percent' trait of a PerDay instance should not be less "
    "than 0",
    RULE + "c.PerDay.free_days = 1.5\n": "'free_days' trait of a PerDay instance expected an int",
    RULE + "c.PerDay.precent = 10\n": "has c.PerDay.precent, but there is no such setting. Did "
    "you mean percent?",
    "c.PerDay.percent = 10\n": "c.PerDay has no effect while another rule is set. Add: "
    "c.AssignLatePenalties",
}


@pytest.mark.parametrize("settings", CONFIG_FAULTS)
def test_a_fault_in_the_rule_is_one_line_that_names_it(tmp_path, settings):
    with pytest.raises(UserError) as error:
        late.Rule(toy_course(tmp_path, f"\n{settings}"))
    assert CONFIG_FAULTS[settings] in str(error.value) and "\n" not in str(error.value)


ADDS = """
from nbgrader.plugins import LateSubmissionPlugin


class Adds(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return -1.0


c.AssignLatePenalties.plugin_class = Adds
"""


def test_a_rule_that_adds_points_is_refused(tmp_path):
    with pytest.raises(UserError, match="it is -1, which would add points"):
        late.Rule(toy_course(tmp_path, ADDS)).penalty("ada", 5.0, DAY, 0)


def extended(course, *arguments):
    return run(course, "extend", *arguments, "--into", course.output_folder)


def test_an_extension_that_cannot_be_given_changes_nothing(course):
    assert "There are no students yet." in extended(course, "ada", "01-toy", "3d").output
    (course.submitted / "ada").mkdir(parents=True)
    for arguments, fault in {
        ("adda", "01-toy", "3d"): "There is no student 'adda'. Did you mean ada?",
        ("ada", "01-toi", "3d"): "There is no exercise '01-toi'. Did you mean 01-toy?",
        ("ada", "01-toy", "soon"): "'soon' is no length of time.",
        ("ada", "01-toy"): "Name the student, the exercise and the time",
    }.items():
        output = extended(course, *arguments)
        assert output.exit_code == 1 and fault in output.output
    assert deadlines.path_of(course).read_text(encoding="utf-8") == DATES
    deadlines.path_of(course).unlink()
    assert "01-toy has no due date" in extended(course, "ada", "01-toy", "3d").output
    assert not deadlines.path_of(course).exists()


def test_extensions_are_written_below_what_is_there_and_listed(course):
    assert "No student has an extension." in extended(course).output
    (course.submitted / "ada").mkdir(parents=True)
    reason = 'ill, "really" \\ \x7f'
    output = extended(course, "ada", "01-toy", "3d", "--reason", reason)
    assert (
        output.exit_code == 0
        and "ada: 01-toy is due on 2026-01-13 01:00 (UTC+01:00)." in output.output
    )
    assert deadlines.path_of(course).read_text(encoding="utf-8").startswith(DATES.rstrip())
    assert deadlines.read(course).extension("ada", "01-toy") == timedelta(days=3)
    output = extended(course)
    assert "3 days" in output.output and 'ill, "really"' in output.output


@pytest.mark.parametrize(
    ("file", "line"),
    [
        (DATES + "extension = []\n", "in another way"),
        (DATES.replace("2026-01-10T01:00:00", "9999-12-30"), "after the year 9999"),
    ],
)
def test_an_extension_that_the_file_cannot_have_changes_nothing(course, file, line):
    path = deadlines.path_of(course)
    # A key of the file itself comes before its tables.
    head, tables = file.split("[due]")
    extensions = "extension = []\n" if "extension = []" in tables else ""
    file = f"{head}{extensions}[due]{tables.replace('extension = []', '')}"
    path.write_text(file, encoding="utf-8")
    (course.submitted / "ada").mkdir(parents=True)
    output = extended(course, "ada", "01-toy", "3d")
    assert output.exit_code != 0 and line in " ".join(output.output.split())
    assert path.read_text(encoding="utf-8") == file


def test_a_file_of_dates_keeps_its_mode_and_may_begin_with_a_mark(course):
    path = deadlines.path_of(course)
    path.write_text(DATES, encoding="utf-8-sig")  # as Windows' Notepad does
    path.chmod(0o664)
    (course.submitted / "ada").mkdir(parents=True)
    assert extended(course, "ada", "01-toy", "3d").exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o664
    assert deadlines.read(course).extension("ada", "01-toy") == timedelta(days=3)


def test_a_date_that_no_calendar_has_is_named(course):
    file = DATES.replace("2026-01-10T01:00:00", "9999-12-31").replace(
        "Europe/Berlin", "America/New_York"
    )
    deadlines.path_of(course).write_text(file, encoding="utf-8")
    with pytest.raises(UserError, match=r"due\.01-toy is outside of the calendar"):
        deadlines.read(course)


def test_an_extension_over_a_change_of_the_clock_has_one_date_everywhere(course):
    dates = DATES.replace("2026-01-10T01:00:00", "2026-10-24T23:59:00")
    deadlines.path_of(course).write_text(dates, encoding="utf-8")
    due = datetime(2026, 10, 24, 21, 59)
    rule = late.Rule(course)
    deadline, without = (
        rule.deadlines_of([LatenessFacts("01-toy", due, due, extension)])["01-toy"]
        for extension in (timedelta(days=3), None)
    )
    assert deadline.due == "2026-10-27T22:59+01:00"
    (course.submitted / "ada").mkdir(parents=True)
    output = extended(course, "ada", "01-toy", "3d")
    assert "ada: 01-toy is due on 2026-10-27 22:59 (UTC+01:00)." in output.output
    dated = [SimpleNamespace(deadline=each) for each in (deadline, without)]
    assert report._due_dates(dated) == ["2026-10-24T23:59+02:00"]


@pytest.mark.slow
def test_a_class_with_late_work_from_the_first_grade_to_an_extension(isolated, course):
    for exercise in course.sources():
        release(course, exercise)
    # the earlier exercise, in which Ada used a free day
    with Gradebook(course.db_url, course.course_id) as book:
        book.update_or_create_assignment(
            "00-before", duedate="2026-01-02T00:00:00", course_id=course.course_id
        )
        book.update_or_create_student("ada")
        book.update_or_create_submission("00-before", "ada", timestamp="2026-01-02T10:00:00")
    for student, stamp in {
        "ada": "2026-01-12 12:00:00 UTC",
        "ben": "2026-01-09 12:00:00 UTC",
    }.items():
        hand_in(course.submitted, student, RIGHT, stamp=stamp, toy=course)
    assert run(course, "grade", "--into", course.output_folder).exit_code == 0

    def page(student):
        text = course.paths_of(student, "01-toy").page.read_text(encoding="utf-8")
        return " ".join(BeautifulSoup(text, "html.parser").get_text().split())

    def stored(student):
        (row,) = (
            row
            for row in records.rows(course)
            if (row["student_id"], row["assignment"]) == (student, "01-toy")
        )
        return row["late_submission_penalty"], row["score"]

    assert stored("ada") == (pytest.approx(1.2), pytest.approx(4.8)) and stored("ben") == (0, 6)
    assert (
        "It was due on 2026-01-10 01:00 (UTC+01:00). It was submitted 2 days, 12 hours after the "
        "due date; " in page("ada")
    )
    assert "points lost: 1.2. 1 free day used; 0 left." in page("ada")
    assert "It was due on 2026-01-10 01:00 (UTC+01:00)." in page("ben") and "submitted" not in page(
        "ben"
    )
    record = record_of(course, "ada")
    assert record["deadline"]["free_days_used"] == 1

    extended(course, "ada", "01-toy", "2d", "--reason", "ill")
    output = run(course, "grade", "--dry-run", "--into", course.output_folder)
    assert (
        "Would grade 0 of 2: 0 new, 1 gain, 0 lose." in output.output
        and "late: −1.2 → −0" in output.output
    )
    assert stored("ada")[1] == pytest.approx(4.8)
    output = run(course, "grade", "--into", course.output_folder)
    assert "Graded 0; 2 unchanged" in output.output and stored("ada") == (0, 6)
    assert "It was due on 2026-01-12 01:00 (UTC+01:00), with your extension of 2 days." in page(
        "ada"
    )
    assert "12 hours after the due date; no points are lost. 1 free day used; 0 left." in page(
        "ada"
    )
    (part,) = report.write(course, course.output_folder / "report.html").assignments
    output = " ".join(map(str, part.dates))
    assert (
        output == "Due on 2026-01-10 01:00 (UTC+01:00). 1 submission was late. Extensions: ada "
        "(2 days)."
    )
    assert [str(row.late) for row in part.rows] == ["12 hours late", "None"] and part.rows[
        0
    ].score == 6
    assert not any("late −" in reason for row in part.rows for reason in row.reasons)
    (part,) = report.write(
        course, course.output_folder / "anonymous.html", anonymous=True
    ).assignments
    assert "ada" not in " ".join(map(str, part.dates)) and "1 student has an extension." in map(
        str, part.dates
    )
    with Gradebook(course.db_url, course.course_id) as book:  # what nbgrader's own commands read
        assert book.find_submission("01-toy", "ada").extension == timedelta(days=2)
        assert book.find_assignment("01-toy").duedate == datetime(2026, 1, 10)

    hand_in(course.submitted, "cem", RIGHT, stamp="2026-01-12 12:00:00 UTC", toy=course)
    extended(course, "cem", "01-toy", "3d")  # before anything of his was graded
    assert run(course, "grade", "--into", course.output_folder).exit_code == 0 and stored(
        "cem"
    ) == (0, 6)
    assert "with your extension of 3 days." in page("cem") and "submitted" not in page("cem")

    # The exercise is taken out of the file, and its dates are the gradebook's own again.
    deadlines.path_of(course).unlink()
    assert "Graded 0; 3 unchanged" in run(
        course, "grade", "--into", course.output_folder
    ).output and stored("ada") == (0, 6)


@pytest.mark.slow
def test_free_days_are_spent_once_whatever_is_graded_first(isolated, course):
    """The exercise due first is handed in last: its days are no longer free for the one that was
    graded before.
    """
    second = course.root / "solutions" / "02-toy"
    shutil.copytree(course.root / "solutions" / "01-toy", second)
    (second / "01-toy.py").rename(second / "02-toy.py")
    deadlines.path_of(course).write_text(DATES + "02-toy = 2026-01-17T01:00:00\n", encoding="utf-8")
    for exercise in course.sources():
        release(course, exercise)

    def submit(name, stamp):
        folder = course.submitted / "ada" / name
        folder.mkdir(parents=True)
        notebook = nbformat.read(course.root / "exercises" / name / f"{name}.ipynb", as_version=4)
        for cell in notebook.cells:
            cell.source = RIGHT.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
        nbformat.write(notebook, folder / f"{name}.ipynb")
        (folder / "timestamp.txt").write_text(stamp)

    def penalties():
        return {row["assignment"]: row["late_submission_penalty"] for row in records.rows(course)}

    submit("02-toy", "2026-01-19 00:00:00 UTC")
    assert run(course, "grade", "--into", course.output_folder).exit_code == 0
    assert penalties() == {"02-toy": 0}
    submit("01-toy", "2026-01-12 00:00:00 UTC")
    output = run(course, "grade", "01-toy", "--into", course.output_folder)
    assert output.exit_code == 0 and penalties() == {"01-toy": 0, "02-toy": pytest.approx(1.2)}
    output = run(course, "grade", "--into", course.output_folder)
    assert "late −1.2" in output.output and penalties() == {
        "01-toy": 0,
        "02-toy": pytest.approx(1.2),
    }
    page = course.paths_of("ada", "02-toy").page.read_text(encoding="utf-8")
    assert (
        "points lost: 1.2" in page and "free day" not in page and "No points were lost." not in page
    )


@pytest.mark.slow
def test_nbgrader_autograde_subtracts_the_same_penalty(isolated, course):
    """With the dates and the extension of the file, and with free days."""
    for exercise in course.sources():
        release(course, exercise)
    deadlines.path_of(course).write_text(DATES + EXTENSION.replace("3d", "1d"), encoding="utf-8")
    hand_in(course.submitted, "ada", RIGHT, stamp="2026-01-14 12:00:00 UTC", toy=course)
    command = [sys.executable, "-m", "nbgrader", "autograde", "01-toy", "--create"]
    result = subprocess.run(command, cwd=course.root, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    # four days late, of which two are free
    with Gradebook(course.db_url, course.course_id) as book:
        submission = book.find_submission("01-toy", "ada")
        assert submission.extension == timedelta(days=1)
        assert submission.notebooks[0].late_submission_penalty == pytest.approx(1.2)

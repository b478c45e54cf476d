"""Before a grade changes and after: what `grade --dry-run` says and writes not, and what the
report says then.
"""

import dataclasses

import pytest
from bs4 import BeautifulSoup
from report_tools import rows_of
from toy_course import RIGHT, hand_in, run, toy_course

from autograder.authoring.release import release
from autograder.checking import Result, Status
from autograder.checking.words import Message
from autograder.course.config import Course
from autograder.grades import changes
from autograder.grades.records import CODEC, record_of
from autograder.grades.results import CellResult, Kind, Record

pytestmark = pytest.mark.long


def all_files(folder):
    """Every file below a folder, but what Python compiled: what is in it, and when it was
    written.
    """
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def course(isolated, tmp_path):
    """A toy course of its own, with the submissions of three students."""
    course = toy_course(tmp_path / "course")
    for exercise in course.sources():
        release(course, exercise)
    for student, answers in {"ada": RIGHT, "ben": {"add": RIGHT["add"]}, "cem": {}}.items():
        hand_in(tmp_path / "submitted", student, answers, toy=course)
    return Course(root=course.root, output_folder=course.root)


def test_a_dry_run_in_which_the_grader_fails_ends_with_an_error(course, tmp_path):
    checks = course.root / "exercises" / "01-toy" / "checks.py"
    with checks.open("a", encoding="utf-8") as file:
        file.write("\nimport os\nif os.path.exists('/proc/self'): os.kill(os.getpid(), 9)\n")
    submitted = tmp_path / "submitted"
    output = run(course, "grade", "--submitted", submitted, "--into", course.root, "--dry-run")
    assert output.exit_code != 0
    assert "3 of 3 could not be graded." in output.output
    assert "are kept" not in output.output and "0 lose" in output.output


def test_a_dry_run_says_what_would_change_and_writes_nothing(course, tmp_path):
    grade = ("grade", "--submitted", tmp_path / "submitted", "--into", course.output_folder)
    before = all_files(course.root)
    output = run(course, *grade, "--dry-run")
    assert output.exit_code == 0, output.output
    assert "Would grade 3 of 3: 3 new, 0 gain, 0 lose. Nothing was written." in output.output
    assert all_files(course.root) == before

    assert run(course, *grade).exit_code == 0
    before = all_files(course.root)
    output = run(course, *grade, "--dry-run")
    assert (
        "Would grade 0 of 3: 0 new, 0 gain, 0 lose." in output.output
        and all_files(course.root) == before
    )

    # A check is mended: it asked too little, and Ada's answer no longer passes; Ben hands in more;
    # Dora is new.
    hand_in(tmp_path / "submitted", "ben", RIGHT, toy=course)
    hand_in(tmp_path / "submitted", "dora", RIGHT, toy=course)
    checks = course.root / "exercises" / "01-toy" / "checks.py"
    text = checks.read_text(encoding="utf-8")
    checks.write_text(
        text.replace("expect_close(twice(a), a + a)", "expect_close(twice(a), a + a + 1)"),
        encoding="utf-8",
    )
    assert checks.read_text(encoding="utf-8") != text
    before = all_files(course.root)
    output = run(course, *grade, "--dry-run")
    assert output.exit_code == 0, output.output
    (ada,) = [line for line in output.output.splitlines() if " ada " in line]
    assert (
        "doubles: passed → failed" in ada
        and "−" not in ada
        and "Nothing was written" in output.output
    )
    assert " 1 new" in output.output and all_files(course.root) == before
    assert not list((course.root / "feedback" / "dora").glob("*"))


def record(student, score, status, kind=Kind.WRONG):
    """A record of one cell with one check."""
    check = Result("keeps", "It keeps.", 1.0, status, Message(""))
    cell = CellResult(score, 4.0, subject="keep", checks=[check])
    return Record(
        student,
        "01",
        "",
        "",
        1,
        True,
        "",
        kind,
        Message(""),
        [],
        [],
        {"check_keep": cell},
        score,
        4.0,
    )


def test_the_largest_loss_is_first_and_what_stays_is_left_out():
    before = [
        record(name, points, Status.PASSED) for name, points in (("a", 4.0), ("b", 2.0), ("c", 3.0))
    ]
    after = [
        record("a", 4.0, Status.PASSED),
        record("b", 3.0, Status.PASSED),
        record("c", 0.0, Status.FAILED),
        record("d", 1.0, Status.PASSED),
    ]
    differences = changes.between(
        {(submission.student, submission.assignment): submission for submission in before}, after
    )
    assert [(change.after.student, change.difference) for change in differences] == [
        ("c", -3),
        ("b", 1),
        ("d", 1),
    ]
    assert differences[0].steps() == [("keeps", "passed → failed", -4.0), ("keep", "3 → 0", 1.0)]
    assert differences[1].steps() == [("keep", "2 → 3", 1.0)]
    by_hand = changes.Change(after[0], dataclasses.replace(after[0], score=4.5))
    assert by_hand.steps() == [(changes.BY_HAND, "", 0.5)]
    total, *by_check = changes.sums(differences)
    assert str(total) == "all: 1 gains 1 point, 1 loses 3 points"
    assert [str(line) for line in by_check] == [
        "keeps: 1 loses 4 points", "keep: 2 gain 2 points in all"
    ]  # fmt: skip


def cell(points, **statuses):
    """A cell of 4 points with checks of these names, which weigh the same."""
    checks = [
        Result(name, "It holds.", 1.0, status, Message("")) for name, status in statuses.items()
    ]
    return CellResult(points, 4.0, subject="keep", checks=checks)


def graded(name, cells, **more):
    """A record of these cells."""
    latest = record(name, sum(cell.points for cell in cells.values()), Status.PASSED)
    return dataclasses.replace(latest, cells=cells, **more)


@pytest.mark.parametrize(
    ("then", "now", "through"),
    [
        (
            cell(2, a=Status.PASSED, b=Status.FAILED),
            cell(2, a=Status.FAILED, b=Status.PASSED),
            [("a", "passed → failed", -2), ("b", "failed → passed", 2)],
        ),
        # A check more: what the others are worth less is its doing.
        (
            cell(4, a=Status.PASSED),
            cell(2, a=Status.PASSED, b=Status.FAILED),
            [("b", "new → failed", -2)],
        ),
        (
            cell(2, a=Status.PASSED, b=Status.FAILED),
            cell(4, a=Status.PASSED),
            [("b", "failed → gone", 2)],
        ),
        (cell(3), cell(4), [("keep", "3 → 4", 1)]),
        (cell(4, a=Status.PASSED), cell(0), [("keep", "4 → 0", -4)]),
        (None, cell(4, a=Status.PASSED), [("keep", "new → 4", 4)]),
    ],
)
def test_points_go_to_the_check_that_moved_them(then, now, through):
    before = graded("ada", {"check_keep": then} if then else {})
    change = changes.Change(before, graded("ada", {"check_keep": now}))
    assert (
        change.steps() == through and sum(points for _, _, points in through) == change.difference
    )


def test_a_new_submission_is_not_attributed_to_a_check():
    same = (
        graded("ada", {"k": cell(4, a=Status.PASSED)}),
        graded("ada", {"k": cell(0, a=Status.FAILED)}),
    )
    other = (
        graded("ben", {"k": cell(0, a=Status.FAILED)}, submission_digest="first"),
        graded("ben", {"k": cell(4, a=Status.PASSED)}, submission_digest="second"),
    )
    late = (graded("cem", {}), graded("cem", {}, score=-1.0, penalty=1.0))
    differences = [changes.Change(*pair) for pair in (same, other, late)]
    assert [change.is_resubmission for change in differences] == [False, True, False]
    assert [str(line) for line in changes.sums(differences)] == [
        "all: 1 gains 4 points, 2 lose 5 points in all",
        "resubmitted: 1 gains 4 points",
        "a: 1 loses 4 points",
        "late: 1 loses 1 point",
    ]


def test_the_latest_change_of_a_history():
    once, more = (
        graded("ada", {"k": cell(points, a=Status.PASSED)}, graded_at=f"day {points}")
        for points in (2, 4)
    )
    ours = dataclasses.replace(once, kind=Kind.INFRASTRUCTURE, score=0.0)

    def latest(last, *history):
        return changes.latest(
            dataclasses.replace(last, history=[CODEC.unstructure(past) for past in history])
        )

    assert latest(more) is None and latest(more, more) is None
    again = dataclasses.replace(more, graded_at="day 9")
    changed = latest(again, once, more)  # graded a third time, which changed nothing
    assert (changed.before.score, changed.after.score, changed.when) == (2, 4, "day 4")
    assert latest(more, ours) is None, "what was our own fault was no grade"
    assert changes.latest(dataclasses.replace(more, history=[{"score": "no record"}])) is None


def test_a_corrected_check_changes_grades(course, tmp_path):
    """What `--dry-run` says beforehand, `report` says afterwards."""
    hand_in(
        tmp_path / "submitted",
        "dora",
        {"add": RIGHT["add"], "twice": "def twice(a):\n    return a + a + 1\n"},
        toy=course,
    )
    grade = (
        "grade",
        "--submitted",
        tmp_path / "submitted",
        "--into",
        course.output_folder,
        "--jobs",
        1,
    )
    assert run(course, *grade).exit_code == 0
    scores = {
        student: record_of(course, student, "01-toy").score
        for student in ("ada", "ben", "cem", "dora")
    }
    checks = course.root / "exercises" / "01-toy" / "checks.py"
    text = checks.read_text(encoding="utf-8")
    mended = text.replace("expect_close(twice(a), a + a)", "expect_close(twice(a), a + a + 1)")
    assert mended != text
    checks.write_text(mended, encoding="utf-8")
    output = run(course, *grade, "--dry-run")
    assert output.exit_code == 0, output.output
    sums = [line for line in output.output.splitlines() if line.startswith(("all: ", "doubles: "))]
    assert len(sums) == 2 and all("1 gains" in line and "1 loses" in line for line in sums), (
        output.output
    )

    assert run(course, *grade).exit_code == 0
    for options, name in ((), "report.html"), (("--anonymous",), "report-anonymous.html"):
        assert run(course, "report", "--into", course.output_folder, *options).exit_code == 0
        written = (course.output_folder / name).read_text(encoding="utf-8")
        page = BeautifulSoup(written, "html.parser")
        heading = page.find("h3", string="Grades that have changed")
        assert [item.text for item in heading.find_next("ul").find_all("li")] == sums
        by_student = {
            student: row["change"]
            for (student, _), row in rows_of(written).items()
            if row["change"]
        }
        if options:
            assert len(by_student) == 2 and all(
                student.startswith("Student ") for student in by_student
            )
            continue
        assert set(by_student) == {"ada", "dora"}
        for student, sign, how in (("ada", -1, "passed → failed"), ("dora", 1, "failed → passed")):
            before, now = by_student[student], record_of(course, student, "01-toy")
            assert (before["earlier"], before["now"]) == (
                scores[student],
                now.score,
            ) and sign * before["difference"] > 0
            assert f"doubles: {how}" in before["through"] and before["when"] == now.graded_at[
                :16
            ].replace("T", " ")

"""`grade --dry-run` says which grades would change, and through which check, and writes nothing."""

import pytest
from conftest import toy_course
from test_grading import RIGHT, hand_in, run

from autograder.authoring.release import release
from autograder.checking import Status
from autograder.checking.words import Message
from autograder.course import Course
from autograder.grading import rehearsal
from autograder.results import CellResult, CheckResult, Kind, Record


def all_files(folder):
    """Every file below a folder: what is in it, and when it was written."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture
def course(isolated, tmp_path):
    """A toy course of its own, with the submissions of three students."""
    made = toy_course(tmp_path / "course")
    for exercise in made.sources():
        release(made, exercise)
    for student, answers in {"ada": RIGHT, "ben": {"add": RIGHT["add"]}, "cem": {}}.items():
        hand_in(tmp_path / "submitted", student, answers, toy=made)
    return Course(root=made.root, into=made.root)


def test_a_dry_run_says_what_would_change_and_writes_nothing(course, tmp_path):
    grade = ("grade", "--submitted", tmp_path / "submitted", "--into", course.into)
    before = all_files(course.root)
    said = run(course, *grade, "--dry-run")
    assert said.exit_code == 0, said.output
    assert "Would grade 3 of 3: 3 new, 0 gain, 0 lose. Nothing was written." in said.output
    assert all_files(course.root) == before

    assert run(course, *grade).exit_code == 0
    before = all_files(course.root)
    said = run(course, *grade, "--dry-run")
    assert "Would grade 0 of 3: 0 new, 0 gain, 0 lose." in said.output and all_files(course.root) == before

    # A check is mended: it asked too little, and Ada's answer no longer passes; Ben hands in more; Dora is new.
    hand_in(tmp_path / "submitted", "ben", RIGHT, toy=course)
    hand_in(tmp_path / "submitted", "dora", RIGHT, toy=course)
    checks = course.root / "exercises" / "01-toy" / "checks.py"
    text = checks.read_text(encoding="utf-8")
    checks.write_text(
        text.replace("expect_close(twice(a), a + a)", "expect_close(twice(a), a + a + 1)"), encoding="utf-8"
    )
    assert checks.read_text(encoding="utf-8") != text
    before = all_files(course.root)
    said = run(course, *grade, "--dry-run")
    assert said.exit_code == 0, said.output
    (ada,) = [line for line in said.output.splitlines() if " ada " in line]
    assert "doubles: passed → failed" in ada and "−" not in ada and "Nothing was written" in said.output
    assert " 1 new" in said.output and all_files(course.root) == before
    assert not list((course.root / "feedback" / "dora").glob("*"))


def record(student, score, status, kind=Kind.WRONG):
    """A record of one cell with one check."""
    check = CheckResult("keeps", "It keeps.", 1.0, status, Message(""))
    cell = CellResult(score, 4.0, subject="keep", checks=[check])
    return Record(student, "01", "", "", 1, True, "", kind, Message(""), [], [], {"check_keep": cell}, score, 4.0)


def test_the_largest_loss_is_first_and_what_stays_is_left_out():
    before = [record(name, points, Status.PASSED) for name, points in (("a", 4.0), ("b", 2.0), ("c", 3.0))]
    after = [
        record("a", 4.0, Status.PASSED),
        record("b", 3.0, Status.PASSED),
        record("c", 0.0, Status.FAILED),
        record("d", 1.0, Status.PASSED),
    ]
    found = rehearsal.changes({(one.student, one.assignment): one for one in before}, after)
    assert [(change.after.student, change.difference) for change in found] == [("c", -3), ("b", 1), ("d", 1)]
    assert found[0].through() == [("keeps", "passed → failed")]
    assert found[1].through() == [("keep", "2 → 3")]

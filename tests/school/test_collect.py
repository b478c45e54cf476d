"""What schools hand over becomes `submitted/`: layouts, lists of a class, hostile archives,
nothing half written.
"""

import gzip
import io
import json
import os
import re
import shutil
import socket
import stat
import struct
import sys
import tarfile
import unicodedata
import zipfile
import zlib
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath, PureWindowsPath

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder import cli
from autograder.course.config import ROOT, Course, UserError
from autograder.course.limits import Limits
from autograder.grades import gradebook
from autograder.sanitize import text
from autograder.school import archives, hand_ins, roster
from autograder.school.archives import opened
from autograder.school.hand_ins import STAGE, Collector, Fate
from autograder.school.layouts import Exercises, student_of
from autograder.school.roster import Clues


def notebook(*grade_ids, note="", solution=False):
    """Return the bytes of a notebook with cells of these grade ids."""
    marks = {"solution": True} if solution else {}
    cells = [
        {
            "cell_type": "code",
            "source": note,
            "metadata": {"nbgrader": {"grade_id": name, **marks}},
            "outputs": [],
        }
        for name in grade_ids
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


QKV = notebook("by_hand", "project", "scores")
SCALING = notebook("by_hand", "scale", "proof")


def zip_of(path, files, **attributes):
    """Write a zip with these files, each with its bytes or an entry and its bytes; return its
    path or bytes.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (2026, 11, 2, 9, 0, 0))
            for attribute, value in attributes.items():
                setattr(entry, attribute, value)
            archive.writestr(entry, data)
    return path


def zipped(files, **attributes):
    buffer = io.BytesIO()
    zip_of(buffer, files, **attributes)
    return buffer.getvalue()


def tar_of(files, kind=tarfile.REGTYPE, form=tarfile.PAX_FORMAT):
    """Return the bytes of a tar.gz with these files, by name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=form) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.type, entry.linkname = (
                len(data),
                kind,
                "/etc/passwd" * (kind != tarfile.REGTYPE),
            )
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture
def course(tmp_path):
    """A course with two exercises, as far as collecting looks at it."""
    root = tmp_path / "course"
    for name, data in (("01-qkv", QKV), ("02-scaling", SCALING)):
        folder = root / "exercises" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.ipynb").write_bytes(data)
        (folder / "checking.zip").write_bytes(b"")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    return Course(root=root)


@pytest.fixture
def collect(course):
    """Return a function that plans what becomes of archives, and then writes it."""

    def run(*paths, people="", only="", write=True):
        known = None
        if people:
            (course.root / "students.csv").write_text(people, encoding="utf-8")
            known = roster.read(course.root / "students.csv")
        exercises = Exercises(course.exercises())
        collector = Collector(exercises, known, only, course.submitted, Limits())
        sources = [opened(path, student_of(exercises)) for path in paths]
        plan = collector.plan([source.__enter__() for source in sources])
        if write:
            collector.write(plan.to_write)
        for source in sources:
            source.__exit__(None, None, None)
        return plan

    return run


def placed(plan):
    return {
        (submission.student, submission.exercise): submission.layout
        for submission, _ in plan.chosen
    }


def reasons(plan):
    return {path.rpartition(": ")[2]: reason for path, reason in plan.unplaced}


def tree(folder):
    """Return every file below a folder, with its bytes and its time."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


PEOPLE = (
    "id,name,email\nal1,Ada Lovelace,ada.lovelace@example.edu\ncb2,Charles "
    "Babbage,cb@example.edu\njm3,Jörg Müller,\n"
)


# Layouts.


@pytest.mark.parametrize(
    "path, layout",
    [
        ("Ada Lovelace_12345_assignsubmission_file/01-qkv.ipynb", "Moodle"),
        ("Ada Lovelace_12345_assignsubmission_file_/01-qkv.ipynb", "Moodle"),
        ("Ada Lovelace_12345_assignsubmission_file_01-qkv.ipynb", "Moodle"),
        (
            "Course-Exercise 1-77/Ada Lovelace_12345_assignsubmission_file_/work/01-qkv (1).ipynb",
            "Moodle",
        ),
        ("lovelaceada_12345_67890_01-qkv.ipynb", "Canvas"),
        ("lovelaceada_LATE_12345_67890_01-qkv.ipynb", "Canvas"),
        ("submissions/lovelaceada_12345_67890_01-qkv-2.ipynb", "Canvas"),
        ("HW1_al1_attempt_2026-11-02-09-17-36_01-qkv.ipynb", "Blackboard"),
        ("gradebook_x/Week 2_first_al1_attempt_2026-11-02-09-17-36_Untitled.ipynb", "Blackboard"),
        ("397063-2557369 - Ada Lovelace - Nov 2, 2026 926 PM/01-qkv.ipynb", "Brightspace"),
        (
            "Week 2 Download/397063-2557369 - Ada Lovelace - Nov 2, 2026 1126 AM/Untitled.ipynb",
            "Brightspace",
        ),
        ("al1_01-qkv.ipynb", "by name"),
        ("01-qkv_al1 (2).ipynb", "by name"),
        ("Ada Lovelace - 01-qkv-Copy1.ipynb", "by name"),
        ("Lovelace, Ada/01-qkv (1).ipynb", "by name"),
        ("all/al1/01-qkv/01-qkv.ipynb", "by name"),
        ("ada.lovelace/01_qkv.ipynb", "by name"),
        ("ada.lovelace@example.edu.ipynb", "by name"),
        ("al1/Untitled.ipynb", "by name"),
        ("al1_01-qkv.ipynb.txt", "by name"),
        ("al1/01-qkv.ipynb.json", "by name"),
        ("lovelaceada_12345_67890_01-qkv.ipynb.txt", "Canvas"),
        ("multi_feedback_HW1_08/Lovelace_Ada_al1_1234567/20261126091400_01-qkv.ipynb", "ILIAS"),
        ("HW1/King_Ada_al1_7/20261126091400_Untitled.ipynb", "ILIAS"),
        ("Task_2026-11-26/Lovelace_Ada_x7/2_submissions/01-qkv.ipynb", "OpenOLAT"),
        ("Task_2026-11-26/King_Ada_al1/4_revisions/work/Untitled.ipynb", "OpenOLAT"),
        ("Task/al1/2_submissions/01-qkv.ipynb", "by name"),
        ("HW1/al1/20261126091400_01-qkv.ipynb", "by name"),
        (
            "lovelaceada_12345_67890_Team-Charles Babbage_2_assignsubmission_file_01-qkv.ipynb",
            "Canvas",
        ),
        ("Ada Lovelace_12345_assignsubmission_file_hw_1_2_01-qkv.ipynb", "Moodle"),
    ],
)
def test_each_layout_gives_student_and_exercise(collect, tmp_path, path, layout):
    plan = collect(zip_of(tmp_path / "all.zip", {path: QKV}), people=PEOPLE)
    assert placed(plan) == {("al1", "01-qkv"): layout} and not plan.unplaced
    assert (tmp_path / "course/submitted/al1/01-qkv/01-qkv.ipynb").read_bytes() == QKV


METADATA = """---
submission_501:
  :submitters:
  - :name: Ada Lovelace
    :sid: al1
    :email: ada@example.edu
  - :name: Charles Babbage
    :sid: null
    :email: cb@example.edu
  :created_at: 2026-11-02 09:17:36.193420000 -08:00
  :status: processed
"""


def test_gradescope_gives_students_and_time_also_for_groups(collect, tmp_path):
    files = {
        "assignment_9_export/submission_metadata.yml": METADATA,
        "assignment_9_export/submission_501/01-qkv.ipynb": QKV,
        "assignment_9_export/submission_501/data/numbers.csv": "1,2\n",
        "assignment_9_export/submission_502/01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "export.zip", files))
    assert placed(plan) == {
        ("al1", "01-qkv"): "Gradescope",
        ("cb@example.edu", "01-qkv"): "Gradescope",
    }
    assert "submission_502" in reasons(plan)["assignment_9_export/submission_502/01-qkv.ipynb"]
    folder = tmp_path / "course/submitted/al1/01-qkv"
    assert (folder / "timestamp.txt").read_text() == "2026-11-02 17:17:36.193420 UTC"
    assert (folder / "data/numbers.csv").read_text() == "1,2\n"


@pytest.mark.parametrize(
    "yaml", ["a: [", "- 1", "&a [*a]", "submission_501: {':submitters': 3}", "\x00"]
)
def test_a_broken_gradescope_list_places_no_submission(collect, tmp_path, yaml):
    files = {"submission_metadata.yml": yaml, "submission_501/01-qkv.ipynb": QKV}
    plan = collect(zip_of(tmp_path / "export.zip", files))
    assert not plan.chosen and "submission_501/01-qkv.ipynb" in reasons(plan)


def test_a_folder_is_taken_as_a_zip_is(collect, tmp_path):
    folder = tmp_path / "unzipped" / "Ada Lovelace_1_assignsubmission_file_"
    folder.mkdir(parents=True)
    (folder / "01-qkv.ipynb").write_bytes(QKV)
    (folder / ".DS_Store").write_bytes(b"x")
    plan = collect(tmp_path / "unzipped", people=PEOPLE)
    assert placed(plan) == {("al1", "01-qkv"): "Moodle"} and not plan.unplaced


def test_a_students_zip_is_opened_and_what_is_the_courses_stays_out(collect, tmp_path):
    inner = {
        "01-qkv/01-qkv.ipynb": QKV,
        "01-qkv/checks.py": "x",
        "01-qkv/checking.zip": "no zip",
        "01-qkv/own.py": "a = 1",
    }
    files = {"Ada Lovelace_1_assignsubmission_file_/my work.zip": zipped(inner)}
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert placed(plan) == {("al1", "01-qkv"): "Moodle"} and not plan.unplaced
    there = tree(tmp_path / "course/submitted")
    assert sorted(there) == ["al1/01-qkv/01-qkv.ipynb", "al1/01-qkv/own.py"]


# Nobody hands in for somebody else.


@pytest.mark.parametrize(
    "path",
    [
        "Ada Lovelace_1_assignsubmission_file_/Charles "
        "Babbage_2_assignsubmission_file_/01-qkv.ipynb",
        "Ada Lovelace_1_assignsubmission_file_/babbagecharles_2_3_01-qkv.ipynb",
        "Ada Lovelace_1_assignsubmission_file_/cb2_01-qkv.ipynb",
        "lovelaceada_5_6_babbagecharles_7_8_01-qkv.ipynb",
        "lovelaceada_5_6_work.zip/Charles Babbage_2_assignsubmission_file_/01-qkv.ipynb",
        "lovelaceada_5_6_work.zip/submission_2/01-qkv.ipynb",
        "al1.zip/Charles Babbage_2_assignsubmission_file_/01-qkv.ipynb",
        "al1.zip/cb2_01-qkv.ipynb",
        "HW1/Lovelace_Ada_al1_7/20261126091400_Babbage_Charles_cb2_8/20261126091400_01-qkv.ipynb",
        "HW1/Lovelace_Ada_al1/2_submissions/Babbage_Charles_cb2/4_revisions/01-qkv.ipynb",
        "HW1/Lovelace_Ada_x_cb2/2_submissions/01-qkv.ipynb",
        "HW1/Babbage_Charles_x_cb2_8/20261126091400_01-qkv.ipynb",
        "al1/cb2_01-qkv.ipynb",
    ],
)
def test_the_name_of_a_file_says_nothing_about_its_student(collect, tmp_path, path):
    outer, within, inner = path.partition(".zip/")
    files = {f"{outer}.zip": zipped({inner: QKV})} if within else {path: QKV}
    files |= {"submission_metadata.yml": "submission_2: {':submitters': [{':sid': cb2}]}"}
    archive = zip_of(tmp_path / "all.zip", files)
    assert ("cb2", "01-qkv") not in placed(collect(archive, people=PEOPLE))
    if not path.startswith("al1/"):
        assert all(
            not student.startswith(("cb2", "Charles", "babb"))
            for student, _ in placed(collect(archive))
        )


ATTEMPT = "HW1_al1_attempt_2026-11-02-09-17-36_"


def zipped_in_2099(data):
    return zipped({NAME: data}, date_time=(2099, 1, 1, 0, 0, 0))


def test_in_blackboard_a_file_name_changes_no_student(collect, tmp_path):
    """Blackboard's user name is behind that of the assignment: a file named as in Moodle seems
    to begin before it.
    """
    files = {
        f"{ATTEMPT}x-Charles Babbage_900_assignsubmission_file_w.zip": zipped_in_2099(QKV + b" "),
        f"{ATTEMPT}x-nobody_901_assignsubmission_file_01-qkv.ipynb": QKV,
        "HW1_cb2_attempt_2026-11-03-09-17-36_01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    theirs = [
        submission.source_path for submission, _ in plan.chosen if submission.student == "cb2"
    ]
    assert theirs == ["all.zip: HW1_cb2_attempt_2026-11-03-09-17-36_01-qkv.ipynb"]


@pytest.mark.parametrize(
    "name", ["x_77_88_01-qkv.ipynb", "x_77_assignsubmission_file_01-qkv.ipynb", "w.zip"]
)
def test_in_blackboard_a_file_of_any_name_is_its_students(collect, tmp_path, name):
    data = zipped_in_2099(QKV) if name.endswith(".zip") else QKV
    plan = collect(zip_of(tmp_path / "all.zip", {ATTEMPT + name: data}), people=PEOPLE)
    assert placed(plan) == {("al1", "01-qkv"): "Blackboard"}
    assert plan.chosen[0][0].time.year == 2026


FOLDERS = [
    "Charles Babbage_2_assignsubmission_file_/w.zip",
    "babbagecharles_2_3_w.zip",
    "submission_2/w.zip",
    "x_cb2_attempt_2099-01-01-00-00-00_01-qkv.ipynb",
    "1-2 - Charles Babbage - Sep 24, 2099 926 PM/w.zip",
    "Babbage_Charles_cb2_8/20991126091400_w.zip",
    "Babbage_Charles_cb2/2_submission/w.zip",
    "cb2_01-qkv.ipynb",
    "cb2/w.zip",
]


@pytest.mark.parametrize("people", [PEOPLE, ""], ids=["roster", "no roster"])
@pytest.mark.parametrize("student", ["al1", "hal"])
@pytest.mark.parametrize("path", FOLDERS)
def test_files_in_a_student_folder_belong_to_that_student(collect, tmp_path, path, student, people):
    data = zipped_in_2099(QKV + b" ") if path.endswith(".zip") else QKV + b" "
    parts = path.rpartition("/")
    files = {
        f"{student}/{parts[0]}{parts[1]}{at}{parts[2]}": data for at in ("", *map(str, range(9)))
    }
    files[f"{student}/{path}"] = data
    files |= {
        f"{student}/submission_metadata.yml": "submission_2: {':submitters': [{':sid': cb2}]}",
        "cb2/01-qkv.ipynb": QKV,
        "jm3/01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=people)
    theirs = [
        submission.source_path
        for submission, _ in plan.chosen
        if submission.student not in (student, "jm3")
    ]
    assert theirs == ["all.zip: cb2/01-qkv.ipynb"]


@pytest.mark.parametrize("path", FOLDERS)
def test_the_folder_of_the_only_student_contradicts_the_names_in_it(collect, tmp_path, path):
    data = zipped_in_2099(QKV) if path.endswith(".zip") else QKV
    for archive, folder in (("all.zip", "al1/"), ("al1.zip", "")):
        files = {
            f"{folder}{path}": data,
            f"{folder}submission_metadata.yml": "submission_2: {':submitters': [{':sid': cb2}]}",
        }
        plan = collect(zip_of(tmp_path / archive, files), people=PEOPLE)
        assert ("cb2", "01-qkv") not in placed(plan)
        assert placed(plan) or plan.unplaced


def test_folders_of_exercises_sections_and_downloads_are_no_students(collect, tmp_path):
    def students(*paths, people=PEOPLE):
        plan = collect(zip_of(tmp_path / "all.zip", dict.fromkeys(paths, QKV)), people=people)
        return {submission.student for submission, _ in plan.chosen}

    for people in (PEOPLE, ""):
        assert students(
            "01-qkv/al1/a.ipynb", "01-qkv/cb2/b.ipynb", "02-scaling/x/a.txt", people=people
        ) == {
            "al1",
            "cb2",
        }
        assert students("x/al1_01-qkv.ipynb", "y/cb2_01-qkv.ipynb", people=people) == {"al1", "cb2"}
    assert students("section A/al1/01-qkv.ipynb", "section B/cb2/01-qkv.ipynb") == {"al1", "cb2"}
    downloads = {
        f"HW{at}/{name}_{at}_assignsubmission_file_/01-qkv.ipynb"
        for at, name in enumerate(("Ada Lovelace", "Charles Babbage"))
    }
    assert students(*downloads) == {"al1", "cb2"}


def test_gradescopes_list_and_the_time_of_a_hand_in_are_not_the_students_to_write(
    collect, tmp_path
):
    forged = "submission_501: {':submitters': [{':sid': cb2}]}"
    files = {
        "export/submission_metadata.yml": "submission_501: {':submitters': [{':sid': al1}]}",
        "export/submission_501/submission_metadata.yml": forged,
        "export/submission_501/timestamp.txt": "2020-01-01 00:00:00 UTC",
        "export/submission_501/work.zip": zipped(
            {"submission_metadata.yml": forged, "01-qkv.ipynb": QKV}
        ),
    }
    plan = collect(zip_of(tmp_path / "export.zip", files), people=PEOPLE)
    assert set(placed(plan)) == {("al1", "01-qkv")}
    files = {"Ada Lovelace_1_assignsubmission_file_/01-qkv.ipynb": QKV}
    files["Ada Lovelace_1_assignsubmission_file_/timestamp.txt"] = "2020-01-01 00:00:00 UTC"
    collect(zip_of(tmp_path / "moodle.zip", files))
    assert not list((tmp_path / "course/submitted").rglob("timestamp.txt"))


GROUPS = [
    "Team_1-Ada Lovelace_51_assignsubmission_file_/01-qkv.ipynb",
    "Team_1-Charles Babbage_52_assignsubmission_file_/01-qkv.ipynb",
    "Die-Drei-Jörg Müller_53_assignsubmission_file_/01-qkv.ipynb",
    "Default group-Anna-Lena Noether_54_assignsubmission_file_/01-qkv.ipynb",
]
NOETHER = "an4,Anna-Lena Noether,an@example.edu\n"
WORKSHEET = (
    "Identifier,Full name,ID number\nParticipant 51,Ada Lovelace,al1\nParticipant 52,Charles "
    "Babbage,cb2\n"
    "Participant 53,Jörg Müller,jm3\nParticipant 54,Anna-Lena Noether,an4\n"
)


@pytest.mark.parametrize("people", [WORKSHEET, PEOPLE + NOETHER], ids=["by number", "by name"])
def test_the_name_of_a_group_before_a_students_is_passed_over(collect, tmp_path, people):
    plan = collect(zip_of(tmp_path / "all.zip", dict.fromkeys(GROUPS, QKV)), people=people)
    assert {student for student, _ in placed(plan)} == {
        "al1",
        "cb2",
        "jm3",
        "an4",
    } and not plan.unplaced


def test_without_a_list_nothing_is_guessed_of_a_groups_name(collect, tmp_path):
    plan = collect(zip_of(tmp_path / "all.zip", dict.fromkeys(GROUPS[:2], QKV)))
    assert {student for student, _ in placed(plan)} == {
        "Team_1-Ada Lovelace",
        "Team_1-Charles Babbage",
    }


def test_a_name_with_a_hyphen_is_no_groups(collect, tmp_path):
    names = ["Anna-Charles Babbage", "Ada Lovelace"]
    files = {
        f"{name}_{at}_assignsubmission_file_/01-qkv.ipynb": QKV for at, name in enumerate(names)
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert set(placed(plan)) == {("al1", "01-qkv")}
    sheet = (
        "Identifier,Full name,ID number\nParticipant 0,Jörg Müller,jm3\nParticipant 1,Ada "
        "Lovelace,al1\n"
    )
    plan = collect(tmp_path / "all.zip", people=sheet)
    assert (
        set(placed(plan)) == {("al1", "01-qkv")} and "worksheet of another" in plan.unplaced[0][1]
    )


def test_two_students_of_one_name_in_two_groups_differ_by_number(collect, tmp_path):
    files = {
        f"Team {at}-Ada Lovelace_{at}_assignsubmission_file_/01-qkv.ipynb": QKV for at in (1, 2)
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert not plan.chosen and all(
        "several students have this name" in reason for reason in reasons(plan).values()
    )


def test_anonymous_students_are_found_by_number(collect, tmp_path):
    files = {f"Participant_{n}_assignsubmission_file_/01-qkv.ipynb": QKV for n in (7, 8)}
    sheet = "Identifier,Status,Grade\nParticipant 7,Submitted,\nParticipant 8,Submitted,\n"
    plan = collect(zip_of(tmp_path / "all.zip", files), people=sheet)
    assert set(placed(plan)) == {("Participant 7", "01-qkv"), ("Participant 8", "01-qkv")}


# Exercises.


def test_a_renamed_notebook_is_known_by_its_cells(collect, tmp_path):
    files = {
        "Ada Lovelace_1_assignsubmission_file_/Untitled3.ipynb": SCALING,
        "Charles Babbage_2_assignsubmission_file_/homework.ipynb": notebook("other"),
        "Jörg Müller_3_assignsubmission_file_/02-scaling.ipynb": b"no notebook at all",
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert set(placed(plan)) == {("al1", "02-scaling"), ("jm3", "02-scaling")}
    assert "cells" in reasons(plan)["Charles Babbage_2_assignsubmission_file_/homework.ipynb"]
    plan = collect(tmp_path / "all.zip", people=PEOPLE, only="01-qkv")
    # where nothing tells, it is the one that is collected
    assert set(placed(plan)) == {("cb2", "01-qkv")}
    assert "is 02-scaling" in reasons(plan)["Jörg Müller_3_assignsubmission_file_/02-scaling.ipynb"]


def test_a_renamed_notebook_of_an_old_format_or_encoding_is_known_by_its_cells(collect, tmp_path):
    old = json.loads(SCALING)
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {},
        "worksheets": [{"cells": old["cells"]}],
    }
    files = {
        "Ada Lovelace_1_assignsubmission_file_/Untitled.ipynb": json.dumps(old).encode(),
        "Charles Babbage_2_assignsubmission_file_/homework.ipynb": SCALING.decode().encode(
            "utf-16"
        ),
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert set(placed(plan)) == {("al1", "02-scaling"), ("cb2", "02-scaling")} and not plan.unplaced


def test_the_notebook_of_one_exercise_under_anothers_name_is_filed_by_its_cells(collect, tmp_path):
    misnamed = zip_of(tmp_path / "all.zip", {"al1_01-qkv.ipynb": SCALING})
    plan = collect(misnamed)
    ((submission, fate),) = plan.chosen
    assert (submission.exercise, submission.named_exercise, fate) == (
        "02-scaling",
        "01-qkv",
        Fate.NEW,
    )
    assert collect(misnamed).chosen[0][1] == Fate.SAME
    assert "is 02-scaling, but only 01-qkv" in collect(misnamed, only="01-qkv").unplaced[0][1]
    again = zip_of(
        tmp_path / "again.zip",
        {"al1_02-scaling.ipynb": notebook("scale", note="newer")},
        date_time=(2026, 11, 9, 9, 0, 0),
    )
    assert collect(again).chosen[0][1] == Fate.NEWER


def test_a_misnamed_notebook_replaces_no_other(collect, tmp_path):
    right = notebook("scale", "proof", note="the right one")
    files = {"al1_02-scaling.ipynb": right, "al1_01-qkv.ipynb": SCALING}
    plan = collect(zip_of(tmp_path / "all.zip", files))
    assert [submission.named_exercise for submission, _ in plan.chosen] == [""]
    says = (
        "is named 01-qkv, but has the cells of 02-scaling, for which al1 submitted another notebook"
    )
    assert reasons(plan) == {"al1_01-qkv.ipynb": says}
    newer = zip_of(
        tmp_path / "newer.zip", {"al1_01-qkv.ipynb": SCALING}, date_time=(2026, 12, 1, 9, 0, 0)
    )
    assert reasons(collect(newer)) == {"al1_01-qkv.ipynb": says}
    assert (tmp_path / "course/submitted/al1/02-scaling/02-scaling.ipynb").read_bytes() == right


def test_names_that_only_look_like_an_exercises(course):
    exercises = Exercises(course.exercises())
    assert [
        exercises.named(name)
        for name in ("101-qkv.ipynb", "01-qkv2.ipynb", "01-qkv 02-scaling.ipynb")
    ] == [""] * 3
    # the end of an id is no mark of a copy
    assert exercises.without("01-qkv_al-12.ipynb") == "al-12"


# Several of one student.


def test_the_newest_is_chosen_and_the_others_are_named(collect, tmp_path):
    newer = notebook("project", note="newer")
    files = {"lovelaceada_5_91_01-qkv-1.ipynb": newer, "lovelaceada_5_90_01-qkv.ipynb": QKV}
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert (tmp_path / "course/submitted/al1/01-qkv/01-qkv.ipynb").read_bytes() == newer
    assert "01-qkv-1.ipynb" in reasons(plan)["lovelaceada_5_90_01-qkv.ipynb"]


@pytest.mark.parametrize(
    "path",
    [
        "HW1_al1_attempt_2026-11-{:02}-09-17-36_01-qkv.ipynb",
        "397063-2557369 - Ada Lovelace - Nov {}, 2026 926 PM/01-qkv.ipynb",
    ],
    ids=["Blackboard", "Brightspace"],
)
def test_the_last_of_several_attempts_is_chosen(collect, course, tmp_path, path):
    def written(answer):
        marks = {"nbgrader": {"grade_id": "project", "solution": True}}
        cells = [nbformat.v4.new_code_cell(answer, metadata=marks)]
        return nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()

    (course.root / "exercises" / "01-qkv" / "01-qkv.ipynb").write_bytes(written("..."))
    files = {path.format(day): written(f"day = {day}") for day in (9, 10, 8)}
    extra = {
        "index.html": b"<html>",
        "HW1_al1_attempt_2026-11-10-09-17-36.txt": b"Name: Ada Lovelace",
    }
    plan = collect(zip_of(tmp_path / "class.zip", files | extra), people=PEOPLE)
    assert [submission.notebook.path for submission, _ in plan.chosen] == [path.format(10)]
    assert [(submission.student, submission.exercise) for submission, _ in plan.chosen] == [
        ("al1", "01-qkv")
    ]


ATTEMPTS = {
    "Blackboard": "HW1_al1_attempt_2026-11-{:02}-09-17-36_01-qkv.ipynb",
    "Brightspace": "397063-2557369 - Ada Lovelace - Nov {}, 2026 926 PM/01-qkv.ipynb",
    "Canvas": "lovelaceada_5_{:05}_01-qkv.ipynb",
    "ILIAS": "HW1/Lovelace_Ada_al1_7/202611{:02}091400_01-qkv.ipynb",
    "OpenOLAT": "HW1/Lovelace_Ada_al1/{}_submissions/01-qkv.ipynb",
}
GIVEN = notebook("project", note="def project():\n    ...", solution=True)
WRITTEN = notebook("project", note="def project():\n    return 1", solution=True)


@pytest.fixture
def given_answers(course):
    """A course whose exercise 01-qkv has an answer cell."""
    (course.root / "exercises" / "01-qkv" / "01-qkv.ipynb").write_bytes(GIVEN)


@pytest.mark.usefixtures("given_answers")
@pytest.mark.parametrize("path", [path for name, path in ATTEMPTS.items() if name != "OpenOLAT"])
@pytest.mark.parametrize(
    "attempts, counts, reason",
    [
        ([WRITTEN, GIVEN], 0, "has no answer; all.zip: "),
        ([GIVEN, GIVEN + b" "], 1, "submitted a newer one"),
        ([GIVEN, WRITTEN], 1, "submitted a newer one"),
        ([WRITTEN, WRITTEN + b" ", GIVEN], 1, "submitted a newer one"),
        ([WRITTEN, b"{"], 1, "submitted a newer one"),  # which is named in its feedback
    ],
)
def test_the_newest_attempt_with_an_answer_counts_and_all_others_are_named(
    collect, tmp_path, path, attempts, counts, reason
):
    paths = [path.format(8 + 2 * at) for at in range(len(attempts))]
    files = dict(zip(reversed(paths), reversed(attempts), strict=True))
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert [submission.notebook.path for submission, _ in plan.chosen] == [paths[counts]]
    assert (tmp_path / "course/submitted/al1/01-qkv/01-qkv.ipynb").read_bytes() == attempts[counts]
    others = [path for path in paths if path != paths[counts]]
    assert sorted(path.partition(": ")[2] for path, _ in plan.unplaced) == sorted(others)
    assert reason in dict(plan.unplaced)[f"all.zip: {others[0]}"]


@pytest.mark.usefixtures("given_answers")
def test_an_answer_is_one_wherever_it_was_written(collect, tmp_path):
    bare = json.loads(WRITTEN)
    bare["cells"][0]["metadata"] = {}
    files = {ATTEMPTS["Canvas"].format(1): WRITTEN, ATTEMPTS["Canvas"].format(2): json.dumps(bare)}
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert [submission.order for submission, _ in plan.chosen] == [2]
    files = {"al1/01-qkv.ipynb": GIVEN, "al1/01-qkv.zh.ipynb": WRITTEN}
    plan = collect(zip_of(tmp_path / "all.zip", files))
    assert [submission.notebook.path for submission, _ in plan.chosen] == ["al1/01-qkv.zh.ipynb"]
    assert list(reasons(plan)) == ["al1/01-qkv.ipynb"]


@pytest.mark.usefixtures("given_answers")
def test_no_blank_notebook_replaces_an_answer_whichever_is_collected_first(collect, tmp_path):
    older = zip_of(tmp_path / "monday.zip", {"al1_01-qkv.ipynb": WRITTEN})
    blank = zip_of(
        tmp_path / "tuesday.zip", {"al1_01-qkv.ipynb": GIVEN}, date_time=(2026, 11, 3, 9, 0, 0)
    )
    there = tmp_path / "course/submitted/al1/01-qkv/01-qkv.ipynb"
    assert [collect(path).chosen[0][1] for path in (older, blank)] == [Fate.NEW, Fate.BLANK]
    assert there.read_bytes() == WRITTEN
    shutil.rmtree(tmp_path / "course/submitted")
    assert [collect(path).chosen[0][1] for path in (blank, older)] == [Fate.NEW, Fate.ANSWERED]
    assert there.read_bytes() == WRITTEN


def test_a_revision_in_openolat_is_newer_and_a_tutors_file_is_no_submission(collect, tmp_path):
    path = "HW1/Lovelace_Ada_al1/{}/01-qkv.ipynb"
    files = {
        path.format(step): notebook("project", note=step)
        for step in ("2_submissions", "4_revisions")
    }
    files |= {
        path.format(step): QKV for step in ("1_tasks", "3_corrections", "5_revisions_corrections")
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert [submission.notebook.path for submission, _ in plan.chosen] == [
        path.format("4_revisions")
    ]
    assert (
        "OpenOLAT has no submissions" in reasons(plan)[path.format("3_corrections")]
        and len(plan.unplaced) == 4
    )


def test_the_last_of_canvas_attempts_is_chosen(collect, tmp_path):
    names = ["01-qkv.ipynb", "01-qkv-1.ipynb", "01-qkv-2.ipynb", "01-qkv-10.ipynb"]
    files = {
        f"lovelaceada_5_{90 + at}_{name}": notebook("project", note=name)
        for at, name in enumerate(names)
    }
    files = dict(sorted(files.items()))
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert [submission.notebook.path for submission, _ in plan.chosen] == [
        "lovelaceada_5_93_01-qkv-10.ipynb"
    ]
    assert len(plan.unplaced) == 3


def test_what_is_there_is_replaced_by_a_newer_one_alone(collect, tmp_path):
    newer = notebook("project", note="newer")
    first, second = tmp_path / "monday.zip", tmp_path / "tuesday.zip"
    zip_of(first, {"al1_01-qkv.ipynb": QKV})
    zip_of(second, {"al1_01-qkv.ipynb": newer}, date_time=(2026, 11, 3, 9, 0, 0))
    fates = [collect(path).chosen[0][1] for path in (first, second, first, second)]
    assert fates == [Fate.NEW, Fate.NEWER, Fate.OLDER, Fate.SAME]
    there = tmp_path / "course/submitted/al1/01-qkv"
    assert (there / "01-qkv.ipynb").read_bytes() == newer
    # the time of a download is not when it was handed in
    assert not (there / "timestamp.txt").exists()
    (there / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
    zip_of(first, {"al1_01-qkv.ipynb": QKV}, date_time=(2026, 11, 10, 9, 0, 0))
    assert collect(first).chosen[0][1] == Fate.OLDER


def test_a_second_run_changes_nothing(collect, tmp_path):
    files = {
        "al1/01-qkv/01-qkv.ipynb": QKV,
        "al1/01-qkv/own.py": "a = 1",
        "al1/01-qkv/timestamp.txt": "2026-11-02 10:00:00 UTC",
    }
    collect(zip_of(tmp_path / "all.zip", files))
    before = tree(tmp_path / "course/submitted")
    assert (
        before["al1/01-qkv/timestamp.txt"][0] == b"2026-11-02 10:00:00.000000 UTC"
        and len(before) == 3
    )
    assert (
        collect(tmp_path / "all.zip").to_write == []
        and tree(tmp_path / "course/submitted") == before
    )


def test_a_time_known_later_is_written_and_nothing_else_changes(collect, tmp_path):
    archive = zip_of(
        tmp_path / "all.zip", {"Ada Lovelace_1_assignsubmission_file_/01-qkv.ipynb": QKV}
    )
    sheet = (
        "Identifier,Full name,ID number,Last modified (submission)\nParticipant 1,Ada Lovelace,al1,"
    )
    there = tmp_path / "course/submitted/al1/01-qkv"
    fates = [collect(archive, people=PEOPLE).chosen[0][1]]
    (there / "01-qkv.zh.ipynb").write_bytes(QKV)
    before = tree(there)
    for day in (2, 2, 3):
        fates.append(
            collect(archive, people=f'{sheet}"{day} November 2026, 10:11 AM"\n').chosen[0][1]
        )
        local = datetime(2026, 11, day, 10, 11).astimezone(UTC)
        assert (there / "timestamp.txt").read_text() == f"{local:%Y-%m-%d %H:%M}:00.000000 UTC"
    assert fates == [Fate.NEW, Fate.STAMPED, Fate.SAME, Fate.STAMPED]
    after = tree(there)
    assert {name: after[name] for name in before} == before and len(after) == 3
    assert list((tmp_path / "course/submitted").glob(f"{STAGE}*")) == []


def test_files_outside_exercise_folders_are_placed_in_one(collect, tmp_path):
    submitted = tmp_path / "course/submitted"
    for path in ("gus/01-qkv.ipynb", "hal/01_qkv/01-qkv.ipynb", "ida/01-qkv/01-qkv.ipynb"):
        (submitted / path).parent.mkdir(parents=True)
        (submitted / path).write_bytes(QKV)
    plan = collect(submitted)
    assert {submission.student: fate for submission, fate in plan.chosen} == {
        "gus": Fate.NEW, "hal": Fate.NEW, "ida": Fate.SAME,
    }  # fmt: skip
    assert (submitted / "gus/01-qkv/01-qkv.ipynb").exists() and (
        submitted / "hal/01-qkv/01-qkv.ipynb"
    ).exists()


def test_a_run_that_fails_or_is_killed_leaves_nothing_half_written(collect, tmp_path, monkeypatch):
    files = {"al1_01-qkv.ipynb": QKV, "cb2_01-qkv.ipynb": QKV}
    zip_of(tmp_path / "all.zip", files)
    submitted = tmp_path / "course/submitted"
    gone = 2**22 + 1  # no process has this number
    (submitted / f"{STAGE}{socket.gethostname()}-{gone}" / "0").mkdir(parents=True)
    elsewhere = submitted / f"{STAGE}another-machine-{gone}"  # may still be at work there
    elsewhere.mkdir()
    written = Path.write_bytes

    def full(path, data):
        if path.parent.name == "1":
            raise OSError(28, "No space left on device")
        return written(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError):
        collect(tmp_path / "all.zip")
    assert list(submitted.iterdir()) == [elsewhere]
    monkeypatch.undo()
    collect(tmp_path / "all.zip")
    assert {path.name for path in submitted.iterdir()} == {elsewhere.name, "al1", "cb2"}


# The list of a class.


@pytest.mark.parametrize(
    "data",
    [
        "\ufeffID;Name;E-Mail\njm3;Müller, Jörg;jm@example.edu\n".encode(),
        "Matrikelnummer;Vorname;Nachname;E-Mail\njm3;Jörg;Müller;jm@example.edu\n".encode("cp1252"),
        "student_id\tfirst_name\tlast_name\temail\njm3\tJörg\tMüller\tjm@example.edu\n".encode(
            "utf-16"
        ),
        'Identifier,"Full name","ID number"\r\n"Participant 77","Jörg Müller",jm3\r\n'.encode(),
        'Student,ID,SIS User ID,Section\n"    Points Possible",,,\n"Müller, Jörg",77,jm3,A\n'.encode(),
        "id,first name,last name,email\njm3,Jörg,Müller,jm@example.edu\n".encode("utf-16-le"),
        "id,first name,last name,email\njm3,Jörg,Müller,jm@example.edu\n".encode("utf-16-be"),
        "\ufeffsep=;\r\nID;Name;E-Mail\r\njm3;Müller, Jörg;jm@example.edu\r\n".encode(),
        "sep=\t\nid\tname, and first name\tfirst name\tlast name\njm3\tx\tJörg\tMüller\n".encode(),
    ],
)
def test_lists_are_read_as_schools_write_them(tmp_path, data):
    (tmp_path / "class.csv").write_bytes(data)
    (person,) = roster.read(tmp_path / "class.csv").people
    assert (person.id, person.first_name, person.last_name, person.email.partition("@")[0] or "jm") == (
        "jm3", "Jörg", "Müller", "jm",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("gbk", ["李明", "王芳"]),
        ("gbk", ["朱镕基", "张玥", "欧阳娜娜", "Tom"]),
        ("gbk", ["明 李", "芳 王", "Tom李"]),
        ("gb18030", ["李明", "古丽·买买提", "𠮷田"]),
        ("cp1252", ["José", "Müller"]),
        ("cp1252", ["Müller", "Jörg"]),  # here all pairs of bytes are GBK
        ("cp1252", ["Hélène", "Frédéric", "Jérémy"]),
        ("cp1252", ["Sääksi"]),
        ("cp1252", ["Öz"]),
        ("cp1252", ["Éléa Ås"]),
        ("cp1252", ["O’Brien"]),
    ],
)
def test_the_encoding_of_a_list_is_found(tmp_path, encoding, names):
    rows = [f"s{number},{name},s{number}@example.edu" for number, name in enumerate(names)]
    (tmp_path / "class.csv").write_bytes("\r\n".join(["id,name,email", *rows, ""]).encode(encoding))
    people = roster.read(tmp_path / "class.csv").people
    assert [f"{person.first_name} {person.last_name}".strip() for person in people] == names


@pytest.mark.parametrize(
    "data, line",
    [
        (b"", "is empty"),
        (b"id,name\n", "has no students"),
        (b"colour,size\nred,3\n", "no column that identifies students"),
        (b"id\nada\nAda\n", "row 3: the id 'Ada' is already in row 2"),
        (b"\nid,n\n\n,\nada,\n\nAda,\n", "row 7: the id 'Ada' is already in row 5"),
        (b"sep=,\nid,n\n\n../ada,\n", "row 3: the id '../ada' cannot be"),
        (b"id\n../ada\n", "row 2: the id '../ada' cannot be a folder's name"),
        (b"id\n.\n", "cannot be a folder's name"),
        (b"id\nnul\n", "Windows has a device"),
        (
            b"PK\x03\x04\x00\x00",
            "is a spreadsheet or another zip file, not a CSV file. Save the list as CSV",
        ),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00\x00", "is not a CSV file. Save the list as CSV"),
        (b'id,name\n"' + b"x" * 200_000, "is not a CSV file"),
    ],
)
def test_a_list_that_is_none_is_refused_in_one_line(tmp_path, data, line):
    (tmp_path / "class.csv").write_bytes(data)
    with pytest.raises(UserError, match=re.escape(line)) as refused:
        roster.read(tmp_path / "class.csv")
    assert "class.csv" in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("listed", "query"),
    [
        ("Łukasz Wałęsa", "Lukasz Walesa"),
        ("Søren Ærø", "Soren Aero"),
        ("Đorđe Petrović", "Dorde Petrovic"),
        ("Großmann Weiß", "Grossmann Weiss"),
        ("Þóra Guðrún", "Thora Gudrun"),
        ("Işıl Çağlar", "Isil Caglar"),
        ("Jörg Müller", "J rg M ller"),
        ("Jörg Müller", "J_rg_M_ller"),
        ("Łukasz Wałęsa", " ukasz Wa  sa"),
        ("Zoë Saldaña", "Zo  Salda a"),
    ],
)
def test_a_name_matches_in_plain_letters_and_with_blanks_for_others(listed, query):
    first, last = listed.split()
    people = roster.Roster(
        [roster.Person("x1", first, last), roster.Person("x2", "Ada", "Lovelace")]
    )
    for name in (query, listed, query.upper(), unicodedata.normalize("NFD", listed)):
        assert people.find(Clues(names=(name,))) == (people.people[0], ""), name
    numbered = roster.Roster([roster.Person("x1", first, last, numbers=(("moodle", "7"),))])
    assert numbered.find(Clues(("moodle", "7"), names=(query,)))[0]


def test_blanks_for_letters_match_no_other_student():
    people = roster.Roster([roster.Person("a", "Zoë", "Lind"), roster.Person("b", "Zo", "Lind")])
    assert (
        people.find(Clues(names=("Zo Lind",)))[0].id == "b"
        and people.find(Clues(names=("Zoë Lind",)))[0].id == "a"
    )
    people = roster.Roster([roster.Person("a", "Åö", "Li"), roster.Person("b", "Éü", "Li")])
    assert people.find(Clues(names=("Li",)))[0] is None
    people = roster.Roster(
        [roster.Person("a", "Jörg", "Weber"), roster.Person("b", "Jürg", "Weber")]
    )
    assert people.find(Clues(names=("J rg Weber",))) == (None, "may be a or b")


def test_an_ambiguous_student_is_not_guessed():
    people = roster.Roster(
        [
            roster.Person("a1", "Ada", "Lovelace"),
            roster.Person("a2", "Ada", "Lovelace"),
            roster.Person("bob"),
        ]
    )
    assert people.find(Clues(names=("lovelaceada",))) == (None, "may be a1 or a2")
    assert people.find(Clues(ids=("a2",), names=("Ada Lovelace",)))[0].id == "a2"
    # bob named a file after Ada
    assert people.find(Clues(ids=("bob",), names=("Ada Lovelace",)))[0] is None
    assert people.find(Clues(ids=("", "ada"), names=("Ada",))) == (None, "not in the roster")


def test_two_students_of_one_name_differ_by_system_number(collect, tmp_path):
    files = {f"Ada Lovelace_{n}_assignsubmission_file_/01-qkv.ipynb": QKV for n in (1, 2)}
    archive = zip_of(tmp_path / "all.zip", files)
    for people in ("", PEOPLE):
        plan = collect(archive, people=people)
        assert not plan.chosen and all(
            "several students" in reason for reason in reasons(plan).values()
        )
    sheet = "Identifier,Full name,Email address,Last modified (submission)\n"
    sheet += 'Participant 1,Ada Lovelace,a@example.edu,"Monday, 2 November 2026, 10:11 AM"\n'
    sheet += "Participant 2,Ada Lovelace,b@example.edu,-\n"
    plan = collect(archive, people=sheet)
    assert set(placed(plan)) == {("a@example.edu", "01-qkv"), ("b@example.edu", "01-qkv")}
    stamp = (tmp_path / "course/submitted/a@example.edu/01-qkv/timestamp.txt").read_text()
    local = datetime(2026, 11, 2, 10, 11).astimezone(UTC)
    assert stamp == f"{local:%Y-%m-%d %H:%M}:00.000000 UTC"
    assert not (tmp_path / "course/submitted/b@example.edu/01-qkv/timestamp.txt").exists()


@pytest.mark.parametrize("other", ["ada lovelace", "\u200bAda Lovelace", "Ada\u00ad Lovelace"])
def test_without_a_list_a_name_that_looks_like_anothers_is_refused_and_says_what_to_do(
    collect, tmp_path, other
):
    moodle = "{}_{}_assignsubmission_file_/01-qkv.ipynb"
    files = {
        moodle.format("Ada Lovelace", 1): QKV,
        moodle.format(other, 2): QKV,
        moodle.format("Ada-Lovelace", 3): QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files))
    # another folder, which nobody confuses
    assert set(placed(plan)) == {("Ada-Lovelace", "01-qkv")}
    assert len(plan.unplaced) == 2 and all("--roster" in reason for _, reason in plan.unplaced)
    plan = collect(
        zip_of(
            tmp_path / "loose.zip", {"Ada Lovelace/01-qkv.ipynb": QKV, f"{other}/01-qkv.ipynb": QKV}
        )
    )
    assert not plan.chosen and len(plan.unplaced) == 2
    assert all(
        "look like one name: name a roster with --roster" in reason for _, reason in plan.unplaced
    )


def test_the_worksheet_of_another_assignment_matches_no_student(collect, tmp_path):
    files = {"Ada Lovelace_1_assignsubmission_file_/01-qkv.ipynb": QKV}
    sheet = "Identifier,Full name,Email address\nParticipant 1,Charles Babbage,cb@example.edu\n"
    plan = collect(zip_of(tmp_path / "all.zip", files), people=sheet)
    assert not plan.chosen and "worksheet of another assignment" in plan.unplaced[0][1]


def test_nbgraders_table_of_students_is_filled_and_nothing_is_taken_from_it(course):
    people = [roster.Person("al1", "Ada", "Lovelace", "ada@example.edu"), roster.Person("cb2")]
    people = roster.Roster(people).columns()
    assert gradebook.enroll(course, people) == 2 and gradebook.enroll(course, people) == 0
    assert (
        gradebook.enroll(course, {"al1": {"first_name": "Ada", "last_name": "King"}, "cb2": {}})
        == 1
    )
    with gradebook.opened(course) as book:
        names = {
            student.id: (student.first_name, student.last_name, student.email)
            for student in book.students
        }
    assert names == {"al1": ("Ada", "King", "ada@example.edu"), "cb2": (None, None, None)}


# Hostile archives.


def link(path):
    return zip_of(
        path,
        {"al1_01-qkv.ipynb": "/etc/passwd"},
        create_system=3,
        external_attr=(stat.S_IFLNK | 0o777) << 16,
    )


def device(path):
    return zip_of(
        path, {"al1_01-qkv.ipynb": b""}, create_system=3, external_attr=(stat.S_IFCHR | 0o666) << 16
    )


def encrypted(path):
    data = bytearray(zipped({"al1_01-qkv.ipynb": QKV}))
    for sign, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(sign) + offset] |= 1
    path.write_bytes(data)
    return path


def twice(path):
    with zipfile.ZipFile(path, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("al1_01-qkv.ipynb", QKV)
        archive.writestr("al1_01-qkv.ipynb", SCALING)
    return path


def bomb(path):
    """A zip that says of a small file that it unpacks to 4 GB, twice."""
    data = bytearray(zipped({"al1_01-qkv.ipynb": QKV, "cb2_01-qkv.ipynb": QKV}))
    at = -1
    while (at := data.find(b"PK\x01\x02", at + 1)) >= 0:
        data[at + 24 : at + 28] = struct.pack("<I", 4_000_000_000)
    path.write_bytes(data)
    return path


def cut_off(path):
    path.write_bytes(zipped({"al1_01-qkv.ipynb": QKV})[:-30])
    return path


def text_file(path):
    path.write_bytes(b"Dear sir, here is my homework.")
    return path


HOSTILE = {
    "outside of it": lambda path: zip_of(path, {"al1_01-qkv.ipynb": QKV, "../../evil.ipynb": QKV}),
    "whose path leads outside": lambda path: zip_of(path, {"/etc/evil.ipynb": QKV}),
    "path leads outside": lambda path: zip_of(path, {"C:\\evil.ipynb": QKV}),
    "leads outside of it, ..": lambda path: zip_of(path, {"..\\evil.ipynb": QKV}),
    "a link or device": link,
    "link or device": device,
    "is encrypted": encrypted,
    "two files named": twice,
    "MB are allowed": bomb,
    "cannot be unpacked": cut_off,
    "File is not a zip": text_file,
    "nested folders": lambda path: zip_of(path, {"a/" * 30 + "01-qkv.ipynb": QKV}),
}


@pytest.mark.parametrize("line", HOSTILE)
def test_a_hostile_archive_is_refused_in_one_line(collect, tmp_path, line):
    path = HOSTILE[line](tmp_path / "all.zip")
    with pytest.raises(UserError, match=re.escape(line)) as refused:
        collect(path)
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "course/submitted").exists()


def test_too_many_files_are_refused(collect, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_ENTRIES", 3)
    with pytest.raises(UserError, match="has 4 files; at most 3 are allowed"):
        collect(zip_of(tmp_path / "all.zip", {f"{n}.txt": b"" for n in range(4)}))


@pytest.mark.parametrize("line", [line for line in HOSTILE if line != "nested folders"])
def test_a_students_hostile_zip_is_theirs_alone(collect, tmp_path, line):
    data = HOSTILE[line](tmp_path / "inner.zip").read_bytes()
    files = {
        "Ada Lovelace_1_assignsubmission_file_/work.zip": data,
        "Charles Babbage_2_assignsubmission_file_/01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert set(placed(plan)) == {("cb2", "01-qkv")}
    assert list(reasons(plan)) == ["Ada Lovelace_1_assignsubmission_file_/work.zip"]


def other_compression(path):
    """A zip whose file says that it has 9 bytes, and unpacks to 100 MB at once."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("al1_01-qkv.ipynb", bytes(100_000_000))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<I", 9)
    path.write_bytes(data)
    return path


HOSTILE["unusual compression"] = other_compression


def negative(data):
    """A tar.gz whose file has a negative size."""
    raw = bytearray(gzip.decompress(data))
    raw[124:136] = b"\xff" * 10 + b"\xfe\x00"
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    return gzip.compress(bytes(raw))


NAME = "01-qkv.ipynb"
HOSTILE_TARS = {
    "outside of it": lambda: tar_of({NAME: QKV, "../../evil.ipynb": QKV}),
    "whose path leads outside": lambda: tar_of({"/etc/evil.ipynb": QKV}),
    "has a link or device, 01-qkv": lambda: tar_of({NAME: b""}, tarfile.SYMTYPE),
    "a link or device, 01-qkv": lambda: tar_of({NAME: b""}, tarfile.LNKTYPE),
    "link or device, 01-qkv": lambda: tar_of({NAME: b""}, tarfile.CHRTYPE),
    "or device, 01-qkv": lambda: tar_of({NAME: b""}, tarfile.FIFOTYPE),
    "device, 01-qkv": lambda: tar_of(
        {NAME: bytes(512)}, tarfile.GNUTYPE_SPARSE, tarfile.GNU_FORMAT
    ),
    "two files named": lambda: gzip.compress(
        gzip.decompress(tar_of({NAME: QKV}))[:-10240].rstrip(b"\0") + b"\0"
    ),
    "has more than 3 files": lambda: tar_of({f"{n}.txt": b"" for n in range(4)}),
    "unpacks to more than 1 MB": lambda: tar_of({"zeros": bytes(2_000_000)}),
    "cut off, or has more": lambda: tar_of({NAME: QKV})[:-30],
    "more than one part": lambda: tar_of({NAME: QKV}) * 2,
    "is cut off": lambda: gzip.compress(gzip.decompress(tar_of({NAME: QKV * 50}))[:5000]),
    "nested folders": lambda: tar_of({"a/" * 30 + NAME: QKV}),
    "description is too long": lambda: tar_of({"1" * 90_000: QKV}),
    "name or description is too long": lambda: tar_of({"1" * 90_000: QKV}, form=tarfile.GNU_FORMAT),
    "cannot be unpacked": lambda: gzip.compress(b"Dear sir"),
    "cannot be unpacked: ": lambda: b"Dear sir",
    "01-qkv.ipynb is cut off": lambda: negative(tar_of({NAME: QKV})),
}
del HOSTILE_TARS["two files named"]


@pytest.mark.parametrize("line", HOSTILE_TARS)
def test_a_students_hostile_tar_is_theirs_alone(collect, tmp_path, monkeypatch, line):
    monkeypatch.setattr(archives, "MOST_ENTRIES_OF_ONE", 3)
    monkeypatch.setattr(archives, "MOST_MB_OF_ONE", 1)
    files = {
        "Ada Lovelace_1_assignsubmission_file_/work.tar.gz": HOSTILE_TARS[line](),
        "Charles Babbage_2_assignsubmission_file_/01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert set(placed(plan)) == {("cb2", "01-qkv")}
    ((path, reason),) = reasons(plan).items()
    assert path == "Ada Lovelace_1_assignsubmission_file_/work.tar.gz" and line in reason
    assert sorted(tree(tmp_path / "course/submitted")) == ["cb2/01-qkv/01-qkv.ipynb"]


def test_a_tar_and_a_gzipped_notebook_are_unpacked_and_a_tar_of_data_stays(collect, tmp_path):
    inner = {
        "./work/01-qkv.ipynb": QKV,
        "./work/data/numbers.csv": b"1,2",
        "./._01-qkv.ipynb": b"x",
    }
    data = tar_of({"numbers.csv": b"1,2"})
    files = {
        "397063-6203 - Ada Lovelace - Sep 14, 2018 926 PM/01-qkv.tar.gz": tar_of(inner),
        "397064-6203 - Charles Babbage - Sep 14, 2018 926 PM/01-qkv.ipynb.gz": gzip.compress(QKV),
        "397065-6203 - Jörg Müller - Sep 14, 2018 926 PM/01-qkv.ipynb": QKV,
        "397065-6203 - Jörg Müller - Sep 14, 2018 926 PM/data.tgz": data,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert {student for student, _ in placed(plan)} == {"al1", "cb2", "jm3"} and not plan.unplaced
    there = tree(tmp_path / "course/submitted")
    assert sorted(there) == [
        "al1/01-qkv/01-qkv.ipynb", "al1/01-qkv/data/numbers.csv", "cb2/01-qkv/01-qkv.ipynb",
        "jm3/01-qkv/01-qkv.ipynb", "jm3/01-qkv/data.tgz",
    ]  # fmt: skip
    assert there["al1/01-qkv/01-qkv.ipynb"][0] == there["cb2/01-qkv/01-qkv.ipynb"][0] == QKV
    assert there["jm3/01-qkv/data.tgz"][0] == data
    plan = collect(
        zip_of(tmp_path / "loose.zip", {"gus_01-qkv.tgz": tar_of({"hal_01-qkv.ipynb": QKV})})
    )
    assert set(placed(plan)) == {("gus", "01-qkv")}


def test_a_packed_file_is_unpacked_once(collect, tmp_path, monkeypatch):
    listed, unzip = [], archives._of_zip
    monkeypatch.setattr(archives, "_of_zip", lambda *zips: listed.append(1) or unzip(*zips))
    inner = zipped({"01-qkv.ipynb": QKV, **{f"{n}.txt": b"x" for n in range(50)}})
    files = {
        "Ada Lovelace_1_assignsubmission_file_/all.zip": bytes(3_000_000) + inner,
        "Charles Babbage_2_assignsubmission_file_/01-qkv.ipynb": QKV,
    }
    for _ in range(2):
        listed.clear()
        plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
        assert len(placed(plan)) == 2 and len(listed) == 2  # with the archive itself
    assert len(tree(tmp_path / "course/submitted")) == 52


@pytest.mark.parametrize(
    "limit, reason", [("MOST_MB_OF_ONE", "10 MB in all"), ("MOST_ENTRIES_OF_ONE", "5 files in all")]
)
def test_packed_files_of_one_student_use_no_quota_of_others(tmp_path, monkeypatch, limit, reason):
    monkeypatch.setattr(archives, limit, 1)
    inner = zipped({"zeros": bytes(900_000)})
    files = {f"lovelaceada_1_{n}_work.zip": inner for n in range(9)}
    files |= {
        "lovelaceada_1_99_01-qkv.ipynb": QKV,
        "zbabbagecharles_2_7_work.zip": zipped({NAME: QKV}),
    }
    with opened(zip_of(tmp_path / "all.zip", files), student_of(Exercises([]))) as source:
        refused = dict(source.refused)
        assert len(source.files) == 7  # five of hers, and two notebooks
    assert len(refused) == 4 and all(reason in line for line in refused.values())


@pytest.mark.parametrize(
    ("paths", "rooms"),
    [
        (
            [
                ATTEMPT + name
                for name in ("w.zip", "a_1_1_w.zip", "c_1_assignsubmission_file_w.zip")
            ],
            {"al1"},
        ),
        (["al1/a_1_1_w.zip", "al1/x/w.zip", "al1/y/w.zip", "cb2/w.zip"], {"al1", "cb2"}),
        (["01-qkv/al1/w.zip", "01-qkv/cb2/w.zip", "02-scaling/al1/x/w.zip"], {"al1", "cb2"}),
    ],
)
def test_one_student_has_one_room(course, paths, rooms):
    assert set(map(student_of(Exercises(course.exercises()))(paths), paths)) == rooms


def test_packed_files_that_are_refused_are_counted_too(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_ENTRIES_OF_ONE", 2)
    monkeypatch.setattr(archives, "MOST_ATTEMPTS", 2)
    inner = zipped({f"{n}.txt": b"" for n in range(3)})
    files = {f"lovelaceada_1_{n}_work.zip": inner for n in range(9)} | {
        "babbagecharles_2_7_01-qkv.ipynb": QKV
    }
    with opened(zip_of(tmp_path / "all.zip", files), student_of(Exercises([]))) as source:
        assert [reason for _, reason in source.refused].count("has more than 2 files") == 3
        assert len(source.refused) == 9 and len(source.files) == 1


def described(kind, *bodies):
    """Return entries of a tar that describe what follows, each with one of these bodies."""
    written = b""
    for body in bodies:
        entry = tarfile.TarInfo("x")
        entry.type, entry.size = kind, len(body)
        written += entry.tobuf(tarfile.USTAR_FORMAT) + body + bytes(-len(body) % 512)
    return written


def in_tar(description):
    return description + tarfile.TarInfo(NAME).tobuf(tarfile.USTAR_FORMAT) + bytes(1024)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        # searched in quadratic time
        (in_tar(described(tarfile.XHDTYPE, b"1" * 4000)), "descriptions are too long"),
        (
            in_tar(described(tarfile.XHDTYPE, *[b"1000 a=" + b"x" * 992 + b"\n"] * 5)),
            "descriptions are too long",
        ),
        # each gets a copy
        (in_tar(described(tarfile.XGLTYPE, b"10 00000=\n")), "description of all its files"),
        (in_tar(described(tarfile.XGLTYPE, b"12 comment=\n")), ""),  # as Git writes it
    ],
    ids=["digits", "many", "global", "comment"],
)
def test_what_describes_the_files_of_a_tar_is_limited(monkeypatch, data, reason):
    monkeypatch.setattr(archives._Headers, "remaining", 4096)
    if reason:
        with pytest.raises(archives.FileRefused, match=reason):
            archives._of_tar(data)
    else:
        assert [file.path for file in archives._of_tar(data)] == [NAME]


def empty_blocks(size):
    """Return about so many bytes of deflate that hold nothing: stored blocks of length 0."""
    return b"\0\0\0\xff\xff" * (size // 5) + b"\3\0"


def raw_zip(data, sizes, size):
    """Return a zip of entries that all lead to the same deflated data, and say that they unpack
    to `size` bytes.
    """
    local = (
        struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 33, 0, len(data), size, 1, 0) + b"0" + data
    )
    listed = b"".join(
        struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 33, 0, len(data), size, 1, 0, 0, 0, 0, 0, 0
        )
        + b"%d" % n
        for n in range(sizes)
    )
    return (
        local
        + listed
        + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, sizes, sizes, len(listed), len(local), 0)
    )


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("w.zip", raw_zip(empty_blocks(200_000), 1, 1), "unpack to only"),
        (
            "w.zip",
            raw_zip(zlib.compress(bytes(100_000), wbits=-15), 9, 100_000),
            "share their bytes",
        ),
        (
            "w.ipynb.gz",
            gzip.compress(b"")[:10] + empty_blocks(200_000) + bytes(8),
            "unpack to only",
        ),
    ],
    ids=["empty", "shared", "gzip"],
)
def test_packed_bytes_that_hold_nothing_are_not_read(collect, tmp_path, name, data, reason):
    files = {f"lovelaceada_1_5_{name}": data, "babbagecharles_2_7_01-qkv.ipynb": QKV}
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert set(placed(plan)) == {("cb2", "01-qkv")} and reason in plan.unplaced[0][1]


def test_a_gzip_of_several_chunks_is_read(monkeypatch):
    monkeypatch.setattr(archives, "CHUNK", 100)
    data = bytes(range(256)) * 40
    for level in (0, 9):
        assert archives._gunzipped(gzip.compress(data, level) + bytes(512)) == data
    with pytest.raises(archives.FileRefused, match="more than one part"):
        archives._gunzipped(gzip.compress(data, 0) * 2)


def test_a_backslash_in_a_students_file_name_is_theirs_alone(collect, tmp_path):
    files = {
        f"{ATTEMPT}a\\..\\..\\x.ipynb": QKV,
        f"{ATTEMPT}a\\b.ipynb": QKV,
        f"{ATTEMPT}a/b.ipynb": QKV,
        "HW1_cb2_attempt_2026-11-03-09-17-36_01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert ("cb2", "01-qkv") in placed(plan)
    assert any("leads outside" in reason for _, reason in plan.unplaced)


def test_what_an_archive_unpacks_to_is_limited_in_all(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_MB", 1)
    files = {
        f"al{n}_work.zip": zipped({NAME: bytes(600_000)}, compress_type=zipfile.ZIP_DEFLATED)
        for n in range(3)
    }
    with opened(zip_of(tmp_path / "all.zip", files), student_of(Exercises([]))) as source:
        assert [path for path, _ in source.refused] == ["al1_work.zip", "al2_work.zip"]
        assert (
            all("collect it separately" in reason for _, reason in source.refused)
            and len(source.files) == 1
        )


def test_very_many_notebooks_of_one_student_are_not_read(collect, tmp_path, monkeypatch):
    monkeypatch.setattr(hand_ins, "MOST_NOTEBOOKS", 3)
    files = {
        "lovelaceada_1_0_notes.pdf": b"x",
        **{f"lovelaceada_1_{n}_01-qkv.ipynb": QKV for n in range(1, 5)},
        "babbagecharles_2_7_01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert set(placed(plan)) == {("cb2", "01-qkv")}
    assert reasons(plan) == {
        "lovelaceada_1_1_01-qkv.ipynb": "is one of 4 notebooks of lovelaceada_1; at most 3 are read"
    }


def test_a_packed_file_in_a_packed_file_is_not_opened(collect, tmp_path):
    inner = zipped({"more.zip": zipped({"01-qkv.ipynb": QKV})})
    plan = collect(
        zip_of(tmp_path / "all.zip", {"Ada Lovelace_1_assignsubmission_file_/work.zip": inner}),
        people=PEOPLE,
    )
    where = "all.zip: Ada Lovelace_1_assignsubmission_file_/work.zip/more.zip"
    why = "is packed twice, and is not opened: unpack it, and collect the folder"
    assert not plan.chosen and plan.unplaced == [(where, why)]
    plan = collect(zip_of(tmp_path / "all.zip", {"al1_01-qkv.zip": inner, "cb2_01-qkv.ipynb": QKV}))
    assert reasons(plan) == {"al1_01-qkv.zip/more.zip": why} and len(plan.chosen) == 1


@pytest.mark.parametrize(
    "path", ["Ada Lovelace_1_assignsubmission_file_/{}", "al1_{}", "lovelaceada_5_6_{}"]
)
@pytest.mark.parametrize(
    "name", ["01-qkv.rar", "01-qkv.7z", "01-qkv.tar.xz", "01-qkv.html", "01-qkv.pdf"]
)
def test_what_is_handed_in_without_a_notebook_is_named(collect, tmp_path, path, name):
    files = {path.format(name): b"x", "Charles Babbage_2_assignsubmission_file_/01-qkv.ipynb": QKV}
    ((where, reason),) = reasons(collect(zip_of(tmp_path / "all.zip", files))).items()
    assert where == path.format(name)
    if name.endswith((".html", ".pdf")):
        assert "has no notebook among these files: " in reason and reason.endswith(name)
    else:
        assert "unpack it into a folder next to it, and collect the folder" in reason


def test_what_macos_adds_to_a_zip_is_passed_over(collect, tmp_path):
    inner = {
        "01-qkv.ipynb": QKV,
        "__MACOSX/._01-qkv.ipynb": b"x",
        "__MACOSX/work/._own.py": b"x",
        ".DS_Store": b"x",
    }
    files = {
        "Ada Lovelace_1_assignsubmission_file_/work.zip": zipped(inner),
        "__MACOSX/._Ada Lovelace_1": b"x",
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    assert set(placed(plan)) == {("al1", "01-qkv")} and not plan.unplaced
    assert list(tree(tmp_path / "course/submitted")) == ["al1/01-qkv/01-qkv.ipynb"]


def test_a_bomb_of_many_entries_is_refused_before_it_is_listed(collect, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_ENTRIES_OF_ONE", 3)
    inner = zipped({f"{n}.txt": b"" for n in range(4)})
    plan = collect(
        zip_of(tmp_path / "all.zip", {"Ada Lovelace_1_assignsubmission_file_/work.zip": inner})
    )
    assert plan.unplaced == [
        ("all.zip: Ada Lovelace_1_assignsubmission_file_/work.zip", "has more than 3 files")
    ]


def test_a_notebook_that_is_too_large_is_not_placed(collect, tmp_path, monkeypatch):
    files = {"al1_01-qkv.ipynb": b" " * 3_000_000, "cb2_01-qkv.ipynb": QKV}
    collector_limits = Limits(notebook_mb=2)
    monkeypatch.setattr(sys.modules[__name__], "Limits", lambda: collector_limits)
    plan = collect(zip_of(tmp_path / "all.zip", files))
    assert (
        set(placed(plan)) == {("cb2", "01-qkv")}
        and "at most 2 MB" in reasons(plan)["al1_01-qkv.ipynb"]
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_links_and_pipes_in_a_folder_are_never_read(collect, tmp_path):
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "al1_01-qkv.ipynb").symlink_to(ROOT / "exercises/01-qkv/01-qkv.ipynb")
    (folder / "more").symlink_to(tmp_path)
    os.mkfifo(folder / "cb2_01-qkv.ipynb")
    plan = collect(folder)
    assert (
        not plan.chosen
        and set(reasons(plan).values()) == {"is a link or device"}
        and len(plan.unplaced) == 3
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
def test_names_that_are_no_text(collect, tmp_path):
    folder = os.fsencode(tmp_path / "all") + b"/M\xfcller"
    Path(os.fsdecode(folder)).mkdir(parents=True)
    Path(os.fsdecode(folder + b"/01-qkv.ipynb")).write_bytes(QKV)
    raw = zip_of(tmp_path / "latin.zip", {"Muller_01-qkv.ipynb": QKV}).read_bytes()
    # cp437, as Windows writes it
    (tmp_path / "latin.zip").write_bytes(raw.replace(b"Muller", b"M\x81ller"))
    assert set(placed(collect(tmp_path / "all", tmp_path / "latin.zip"))) == {
        ("M%FCller", "01-qkv"),
        ("Müller", "01-qkv"),
    }


@pytest.mark.parametrize("name", ["..", ".ssh", "con", "a:b", "x" * 200, "ada ", "al\u202e1"])
def test_a_name_that_would_leave_the_folder_is_not_placed(collect, tmp_path, name):
    files = {
        "submission_metadata.yml": json.dumps({"submission_1": {":submitters": [{":sid": name}]}}),
        "submission_1/01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files))
    there = [submission.student for submission, _ in plan.chosen]
    assert there in ([], ["ada"]) and all(text.unfit(student) == "" for student in there)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
        | st.sampled_from(["..", ".", "", "C:", "a\\b", "01-qkv"]),
        min_size=1,
        max_size=5,
    )
)
def test_whatever_a_path_is_it_stays_within(parts):
    """A path in a zip is refused, passed over, or read as one that lies below the folder."""
    path = "/".join(parts)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(path or "x"), b"x")
    try:
        with zipfile.ZipFile(io.BytesIO(buffer.getvalue())) as again:
            files = archives._of_zip(again, 10, 10)
    except archives.FileRefused:
        return
    for file in files:
        read = PurePosixPath(file.path)
        assert (
            not read.is_absolute()
            and ".." not in read.parts
            and "\\" not in file.path
            and "\0" not in file.path
        )
        assert file.path == text.name(file.path)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=20) | st.sampled_from(["..", "a/b", "a\\b", "C:", "\0"]))
def test_a_name_that_fits_is_one_folder_below(name):
    if not text.unfit(name):
        assert (
            Path("submitted", name).parent == Path("submitted")
            and PurePosixPath("x", name).name == name
        )
        assert PureWindowsPath("x", name).parts == ("x", name)


# The command.


class Typed(io.StringIO):
    """What somebody types, at a terminal if they type anything."""

    def isatty(self):
        return bool(self.getvalue())


@pytest.fixture
def command(course, tmp_path, monkeypatch, capsys):
    """Return a function that runs the command, and returns its status and what it said on both
    ways out.
    """

    def run(*arguments, typed=""):
        monkeypatch.setattr(
            sys,
            "argv",
            ["autograder", "collect", *map(str, arguments), "--course", str(course.root)],
        )
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "stdin", Typed(typed))
        try:
            cli.main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
        return status, *capsys.readouterr()

    return run


def test_the_command_shows_asks_writes_and_enters_the_class(command, course, tmp_path):
    archive = zip_of(tmp_path / "all.zip", {"al1_01-qkv.ipynb": QKV, "who_01-qkv.ipynb": QKV})
    (tmp_path / "class.csv").write_text(PEOPLE, encoding="utf-8")
    status, output, wrong = command(archive, "--roster", tmp_path / "class.csv")
    assert status == 1 and "al1" in output and "not in the roster" in output
    assert len(wrong.splitlines()) == 1 and "--yes" in wrong and not course.submitted.exists()
    status, output, _ = command(archive, "--roster", tmp_path / "class.csv", "--yes", "--anonymous")
    assert status == 0 and "Student 1" in output and "al1" not in output and "who" not in output
    assert (course.submitted / "al1/01-qkv/01-qkv.ipynb").exists()
    with gradebook.opened(course) as book:
        assert {student.id for student in book.students} == {"al1", "cb2", "jm3"}
    # nothing to write, nobody to be asked
    assert command(archive, "--roster", tmp_path / "class.csv")[0] == 0


def test_somebody_at_a_terminal_is_asked(command, course, tmp_path):
    archive = zip_of(tmp_path / "all.zip", {"al1_01-qkv.ipynb": QKV})
    assert command(archive, typed="n\n")[0] == 1 and not course.submitted.exists()
    assert (
        command(archive, typed="y\n")[0] == 0
        and (course.submitted / "al1/01-qkv/01-qkv.ipynb").exists()
    )


@pytest.mark.parametrize(
    "arguments, line",
    [
        (["nowhere.zip"], "nowhere.zip does not exist"),
        (["class.csv"], "class.csv cannot be unpacked"),
        (["all.zip", "--exercise", "07-none"], "There is no exercise '07-none'"),
        (["all.zip", "--roster", "none.csv"], "none.csv"),
        (["empty"], "No notebook was found"),
    ],
)
def test_a_users_mistake_is_one_line(command, tmp_path, arguments, line):
    zip_of(tmp_path / "all.zip", {"al1_01-qkv.ipynb": QKV})
    (tmp_path / "class.csv").write_text(PEOPLE, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    status, _, wrong = command(*arguments)
    assert status == 1 and line in wrong and len(wrong.splitlines()) == 1

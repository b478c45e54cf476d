"""What students hand in, read from disk: whatever lies there, it is one submission's problem and
nobody else's.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hostile.naming import LATIN, LATIN_SHOWN, nested
from hypothesis import given
from hypothesis import strategies as st

from autograder.course import seeds
from autograder.course.config import Course, Exercise
from autograder.course.limits import Limits
from autograder.grading import submissions
from autograder.grading.submissions import Submission, beside, find, read_file
from autograder.sandbox import bubblewrap

LIMITS = Limits()
TOY = Exercise("01-toy", Path("/nowhere"))
NOTEBOOK = b'{"cells": []}'


@pytest.fixture
def submitted(tmp_path):
    """An empty folder of submissions; what lies too deep for shutil is gone afterwards."""
    folder = tmp_path / "submitted"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def hand_in(submitted, student="ada", name="01-toy", file="01-toy.ipynb", data=NOTEBOOK):
    """Write a hand-in; return it as it is found."""
    folder = submitted / student / name
    folder.mkdir(parents=True, exist_ok=True)
    if data is not None:
        (folder / file).write_bytes(data)
    return Submission(student, TOY, folder)


def names(submitted, *exercises):
    return [item.student for item in find(exercises or [TOY], submitted)]


# Finding.


def test_hand_ins_are_found_by_exercise_and_student_and_nothing_else_is(submitted):
    other = Exercise("02-other", Path("/nowhere"))
    for student, name in (
        ("bob", "01-toy"),
        ("ada", "02-other"),
        ("ada", "01-toy"),
        ("eve", "03-none"),
        (".git", "01-toy"),
    ):
        hand_in(submitted, student, name)
    (submitted / "note.txt").write_text("from the platform")
    pairs = [(item.exercise.name, item.student) for item in find([TOY, other], submitted)]
    assert pairs == [("01-toy", "ada"), ("01-toy", "bob"), ("02-other", "ada")]


def test_a_folder_in_capitals_is_the_exercises_and_one_of_the_very_name_goes_first(submitted):
    hand_in(submitted, "ada", "01-TOY", "01-TOY.IPYNB")
    hand_in(submitted, "bob", "01-Toy")
    exact = hand_in(submitted, "bob", "01-toy")
    ada, bob = find([TOY], submitted)
    assert bob.folder == exact.folder
    unit = ada.read(LIMITS)
    assert unit.data == NOTEBOOK and "01-TOY.IPYNB" in str(unit.notes[0])


def test_odd_names_of_students_become_text_and_stay_apart(submitted):
    for student in (LATIN, LATIN_SHOWN, "\x1b[2J", "n" * 250, "n" * 249, "ä" * 120, "plain name"):
        hand_in(submitted, student)
    students = names(submitted)
    assert {LATIN_SHOWN, f"{LATIN_SHOWN}~", "%1B[2J", "plain name"} < set(students)
    assert len(set(students)) == 7 and all(
        len(name.encode()) <= submissions.MOST_NAME for name in students
    )
    assert students == names(submitted)  # each time the same


def test_names_with_a_path_are_never_read_from_a_folder(submitted):
    hand_in(submitted, "a%2F..")
    (name,) = names(submitted)
    assert "/" not in name and name == "a%2F.."


# Reading.


def test_a_plain_submission_is_read(submitted):
    item = hand_in(submitted)
    (item.folder / "helper.py").write_text("x = 1\n")
    (item.folder / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    (item.folder / "checks.py").write_text("mine")
    unit = item.read(LIMITS)
    assert (unit.student, unit.assignment, unit.notebook, unit.data) == (
        "ada",
        "01-toy",
        "01-toy.ipynb",
        NOTEBOOK,
    )
    assert (
        unit.files == {"helper.py": b"x = 1\n"} and unit.stamp.startswith("2026") and not unit.notes
    )
    assert not str(unit.problem)


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("my solution.ipynb", "my solution.ipynb"),
        ("01-TOY.IPYNB", "01-TOY.IPYNB"),
        (f"{LATIN}.ipynb", f"{LATIN_SHOWN}.ipynb"),
        ("\x1b[2J\u202e.ipynb", "%1B[2J%E2%80%AE.ipynb"),
    ],
)
def test_the_only_notebook_is_taken_whatever_it_is_called(submitted, file, shown):
    unit = hand_in(submitted, file=file).read(LIMITS)
    assert unit.data == NOTEBOOK
    assert str(unit.notes[0]) == f"The notebook was named {shown}; it was graded all the same."


def test_of_two_other_notebooks_none_is_taken(submitted):
    item = hand_in(submitted, file="draft.ipynb")
    hand_in(submitted, file="final.ipynb")
    unit = item.read(LIMITS)
    assert unit.data is None and str(unit.problem) == (
        "There is no 01-toy.ipynb in the folder, but more than one other notebook: draft.ipynb, "
        "final.ipynb. Submit one of them under that name."
    )
    hand_in(submitted, file="01-Toy.ipynb", data=b"this one")
    assert item.read(LIMITS).data == b"this one"


@pytest.mark.parametrize(
    "file", ["01-toy.ipynb.txt", "01-toy.ipynb.json", "01-TOY.IPYNB.TXT", "mine.ipynb.txt"]
)
def test_an_ending_that_a_browser_adds_is_no_fault(submitted, file):
    item = hand_in(submitted, file=file)
    (item.folder / f"._{file}").write_bytes(b"left by macOS")
    unit = item.read(LIMITS)
    assert unit.data == NOTEBOOK and file not in unit.files
    assert str(unit.notes[0]) == f"The notebook was named {file}; it was graded all the same."
    hand_in(submitted, data=b"the plain one")
    assert item.read(LIMITS).data == b"the plain one"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            ["01-toy.ipynb.zip", "notes.txt"],
            "but 01-toy.ipynb.zip. Unpack it, and submit the notebook that is in it.",
        ),
        (["01-toy.7z"], "but 01-toy.7z. Unpack it, and submit the notebook that is in it."),
        (
            ["01-toy.html"],
            "but 01-toy.html. Submit the notebook itself, a file that ends in .ipynb.",
        ),
        (
            ["a.py", "b.py", "c.py", "d.py"],
            "but a.py, b.py, c.py. Submit the notebook itself, a file that ends in .ipynb.",
        ),
        (["timestamp.txt", ".DS_Store", "._01-toy.ipynb", "checks.py"], "in the folder."),
        ([], "in the folder."),
    ],
)
def test_a_link_or_folder_instead_of_a_notebook_is_named(submitted, files, says):
    item = hand_in(submitted, data=None)
    for file in files:
        (item.folder / file).write_bytes(b"x")
    unit = item.read(LIMITS)
    assert unit.data is None and str(unit.problem).startswith(
        "There is no 01-toy.ipynb in the folder"
    )
    assert str(unit.problem).endswith(says)


def of_cells(*names):
    cells = [{"id": name, "metadata": {"nbgrader": {"grade_id": name}}} for name in names]
    return json.dumps({"cells": cells}).encode()


def test_the_notebook_of_another_exercise_is_malformed_and_named(submitted, tmp_path):
    for name, cells in (
        ("01-toy", ("given", "add", "check_add")),
        ("02-other", ("given", "mean", "check_mean")),
    ):
        (tmp_path / "exercises" / name).mkdir(parents=True)
        (tmp_path / "exercises" / name / f"{name}.ipynb").write_bytes(of_cells(*cells))
    hand_in(submitted, data=of_cells("given", "mean", "check_mean"))
    item = Submission("ada", Exercise("01-toy", tmp_path), submitted / "ada" / "01-toy")
    unit = item.read(LIMITS)
    assert unit.data is None and not unit.notes
    assert str(unit.problem) == (
        "01-toy.ipynb is the notebook of 02-other. Hand in that of 01-toy under this name."
    )
    hand_in(submitted, data=of_cells("given", "add", "mean", "check_mean"))
    other = item.read(LIMITS)
    assert other.data and other.digest != unit.digest


def test_notebooks_that_no_exercise_claims_are_named(tmp_path):
    for path in (
        "ada/01-toy/draft.ipynb", "ada/02-other/02-other.ipynb", "ada/01-TOY/deep/x.ipynb",
        "ada/notes.txt",
        "gus/01-toy.ipynb", "gus/02.ipynb", "hal/01_toy/a/01-toy.ipynb",
        "ida/.ipynb_checkpoints/01-toy.ipynb",
        "loose.ipynb",
    ):  # fmt: skip
        (tmp_path / "submitted" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "submitted" / path).touch()
    for name in ("01-toy", "02-other"):
        (tmp_path / "exercises" / name).mkdir(parents=True)
    gus, hal, loose = submissions.strays(Course(root=tmp_path), tmp_path / "submitted")
    collect = (
        f"To place such files, run: python -m autograder collect {tmp_path}/submitted; then "
        "remove them."
    )
    assert gus == f"gus/01-toy.ipynb is not in an exercise's folder and was left out. {collect}"
    assert hal.startswith("hal/01_toy/a/01-toy.ipynb is not in an exercise's folder")
    assert loose == "loose.ipynb is not a student's folder and was left out."


def in_place_of_the_folder(item):
    shutil.rmtree(item.folder)
    item.folder.write_bytes(NOTEBOOK)


def a_link(item):
    item.folder.rename(item.folder.with_name("elsewhere"))
    item.folder.symlink_to(item.folder.with_name("elsewhere"))


def a_linked_notebook(item):
    (item.folder / "01-toy.ipynb").rename(item.folder / "real.txt")
    (item.folder / "01-toy.ipynb").symlink_to(item.folder / "real.txt")


def a_folder_of_its_name(item):
    (item.folder / "01-toy.ipynb").unlink()
    (item.folder / "01-toy.ipynb").mkdir()


def a_pipe(item):
    (item.folder / "01-toy.ipynb").unlink()
    os.mkfifo(item.folder / "01-toy.ipynb")


def too_large(item):
    with (item.folder / "01-toy.ipynb").open("wb") as file:
        file.truncate(80_000_000)


def gone(item):
    shutil.rmtree(item.folder)


BROKEN = {
    in_place_of_the_folder: "01-toy is a file, but should be a folder with the notebook in it.",
    a_link: "01-toy is a link to another folder.",
    a_linked_notebook: "01-toy.ipynb is not a regular file.",
    a_folder_of_its_name: "01-toy.ipynb is not a regular file.",
    a_pipe: "01-toy.ipynb is not a regular file.",
    too_large: "01-toy.ipynb has 80 MB; the maximum is 50 MB.",
    gone: "The folder could not be read: No such file or directory.",
}


@pytest.mark.parametrize("spoil", BROKEN, ids=lambda spoil: spoil.__name__)
def test_what_is_no_notebook_is_its_submissions_problem(submitted, spoil):
    item = hand_in(submitted)
    spoil(item)
    unit = item.read(LIMITS)
    assert unit.data is None and str(unit.problem) == BROKEN[spoil] and unit.digest


def test_a_name_that_no_system_call_takes_is_a_problem_of_its_own(submitted):
    unit = Submission("ada", TOY, submitted / "a\0b").read(LIMITS)
    assert unit.data is None and "could not be read" in str(unit.problem)


@pytest.mark.skipif(
    os.getuid() != 0, reason="as an ordinary user, the corpus itself tries what may not be read"
)
@pytest.mark.slow
def test_what_an_ordinary_user_may_not_read_is_its_submissions_problem(
    isolated, submitted, tmp_path
):
    for student, closed in (
        ("ada", "ada/01-toy"),
        ("bob", "bob/01-toy/01-toy.ipynb"),
        ("cai", "cai"),
        ("dee", ""),
    ):
        hand_in(submitted, student)
        if closed:
            (submitted / closed).chmod(0)
    subprocess.run(
        ["chown", "-R", f"{bubblewrap.NOBODY}:{bubblewrap.NOBODY}", str(tmp_path)], check=True
    )
    program = (
        "from pathlib import Path\nfrom autograder.course.config import Exercise\n"
        "from autograder.course.limits import Limits\n"
        "from autograder.grading.submissions import find\n"
        f"for item in find([Exercise('01-toy')], Path({str(submitted)!r})):\n"
        "    print(item.student, '|', item.read(Limits()).problem)\n"
    )
    root = Path(submissions.__file__).parents[2]
    paths = f"PYTHONPATH={root}"
    python = [shutil.which("env"), paths, sys.executable, "-c", program]
    command = bubblewrap.as_nobody(python, read=[root], write=[tmp_path])
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stdout.splitlines() == [
        "ada | The folder could not be read: Permission denied.",
        "bob | 01-toy.ipynb could not be read: Permission denied.",
        "cai | The folder could not be read: Permission denied.",
        "dee | ",
    ], result.stderr


# What lies beside.


def test_files_beside_are_read_in_a_fixed_order_without_what_is_the_courses(submitted):
    folder = hand_in(submitted).folder
    for name in (
        "b.py",
        "a/deep/c.txt",
        "__pycache__/x.pyc",
        ".ipynb_checkpoints/y",
        "checking/own.py",
        "a/checks.py",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    (folder / "other.ipynb").touch()
    files, notes = beside(folder, 1)
    assert list(files) == ["b.py", "a/checks.py", "a/deep/c.txt"] and not notes


def test_names_beside_may_be_any_bytes(submitted):
    folder = hand_in(submitted).folder
    for name in (LATIN, "\x1b[2J\n"):
        (folder / name).write_bytes(b"x")
    files, notes = beside(folder, 1)
    assert set(files) == {LATIN, "\x1b[2J\n"} and not notes


@pytest.mark.parametrize(("count", "name"), [(1100, "d"), (18, "d" * 250)], ids=["deep", "long"])
def test_deep_folders_are_left_out_with_a_line(submitted, count, name):
    folder = hand_in(submitted).folder
    (folder / "near.txt").touch()
    nested(count, name)(folder)
    files, (note,) = beside(folder, 1)
    assert (
        list(files) == ["near.txt"]
        and "could not be read and was left out" in str(note)
        and len(str(note)) < 300
    )


def test_too_many_other_files_are_all_left_out(submitted):
    folder = hand_in(submitted).folder
    for name in ("one", "other"):
        (folder / name).write_bytes(bytes(600_000))
    assert set(beside(folder, 2)[0]) == {"one", "other"}
    files, (note,) = beside(folder, 1)
    assert not files and "exceed 1 MB, or are more than 1000" in str(note)
    (folder / "one").unlink()
    for number in range(submissions.MOST_FILES + 1):
        (folder / f"{number}.txt").touch()
    assert beside(folder, 1)[0] == {}


def test_one_file_that_is_too_large_is_left_out(submitted):
    folder = hand_in(submitted).folder
    (folder / "large").write_bytes(bytes(2_000_000))
    (folder / "small").touch()
    files, (note,) = beside(folder, 1)
    assert list(files) == ["small"] and "large next to the notebook could not be read" in str(note)


# Time stamps.


@pytest.mark.parametrize("kind", ["long", "folder", "link"])
def test_an_unreadable_timestamp_is_reported(submitted, kind):
    item = hand_in(submitted)
    path = item.folder / "timestamp.txt"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    else:
        path.write_text("x" * 10_000)
    unit = item.read(LIMITS)
    assert unit.stamp is None and unit.notes == [submissions.UNREAD_STAMP]
    assert unit.data == NOTEBOOK


def test_a_time_stamp_of_odd_bytes_is_text(submitted):
    item = hand_in(submitted)
    (item.folder / "timestamp.txt").write_bytes(b"\xff\x002026")
    assert item.read(LIMITS).stamp == "\N{REPLACEMENT CHARACTER}\x002026"


def test_no_file_is_read_beyond_what_is_allowed(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(1000))
    assert read_file(path, 0.001)[0] == bytes(1000)
    path.write_bytes(bytes(1001))
    assert read_file(path, 0.001)[0] is None


# Digests.


@given(st.lists(st.binary(max_size=6), max_size=5), st.lists(st.binary(max_size=6), max_size=5))
def test_two_digests_are_one_only_for_the_same_parts(first, other):
    assert (seeds.digest_of(*first) == seeds.digest_of(*other)) == (first == other)


def test_no_byte_can_change_sides(submitted):
    """Two hand-ins that are alike once their parts are put together have two digests."""
    digests = set()
    layouts = [
        {"a": b"b", "c": b"d"},
        {"a": b"bcd"},
        {"ab": b"cd"},
        {"a": b"b\0c\0d"},
        {"a\n": b"bcd"},
        {LATIN: b"bcd"},
        {LATIN_SHOWN: b"bcd"},
        {"d/a": b"bcd"},
    ]
    for number, layout in enumerate(layouts):
        item = hand_in(submitted, f"s{number}")
        for name, data in layout.items():
            (item.folder / name).parent.mkdir(exist_ok=True)
            (item.folder / name).write_bytes(data)
        digests.add(item.read(LIMITS).digest)
    stamped = hand_in(submitted, "stamped")
    (stamped.folder / "timestamp.txt").write_bytes(b"")
    digests |= {stamped.read(LIMITS).digest, hand_in(submitted, "plain").read(LIMITS).digest}
    assert len(digests) == len(layouts) + 2


def test_equal_submissions_have_the_same_digest(submitted):
    first, other = hand_in(submitted, "ada"), hand_in(submitted, "bob")
    for item in (first, other):
        (item.folder / "x.py").write_text("1")
    assert first.read(LIMITS).digest == other.read(LIMITS).digest == first.read(LIMITS).digest


# What is loaded beforehand.


@pytest.mark.parametrize(
    ("source", "loaded"),
    [
        ("import torch", ("torch",)),
        ("from torch.nn import functional as F", ("torch",)),
        ("import torchvision", ()),
        ("# no torch is needed", ()),
    ],
)
def test_torch_is_loaded_once_where_a_submission_imports_it(submitted, source, loaded):
    hand_in(submitted, student="abe", data=None)
    plain = hand_in(submitted, student="bob")
    late = hand_in(
        submitted, data=json.dumps({"cells": [{"source": ["x = 1\n", source]}]}).encode()
    )
    broken = Submission("eve", TOY, submitted / "eve" / "01-toy")
    missing = Submission("abe", TOY, submitted / "abe" / "01-toy")
    assert submissions.imported([broken, missing, plain, late], LIMITS.notebook_mb) == loaded

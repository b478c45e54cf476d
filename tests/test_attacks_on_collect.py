# ruff: noqa: F811 (fixtures)
"""Attacks on `collect` that were open on 28 November 2026, each the smallest input that shows it, or a part of it."""

import contextlib
import io
import struct
import tarfile
import time
import tracemalloc
import zipfile
import zlib

import pytest
from test_collect import PEOPLE, QKV, collect, course, placed, zip_of  # noqa: F401

from autograder.school import archives
from autograder.school.layouts import whose

ATTEMPT = "HW1_al1_attempt_2026-11-02-09-17-36_"


def zipped_in_2099(files):
    """Return the bytes of a zip whose files say that they are of 2099."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, data in files.items():
            made.writestr(zipfile.ZipInfo(name, (2099, 1, 1, 0, 0, 0)), data)
    return buffer.getvalue()


def test_in_blackboard_nobody_hands_in_for_somebody_else(collect, tmp_path):
    """Blackboard's user name is behind that of the assignment: a file named as in Moodle begins before it."""
    files = {
        f"{ATTEMPT}x-Charles Babbage_900_assignsubmission_file_w.zip": zipped_in_2099({"01-qkv.ipynb": QKV + b" "}),
        f"{ATTEMPT}x-nobody_901_assignsubmission_file_01-qkv.ipynb": QKV,
        "HW1_cb2_attempt_2026-11-03-09-17-36_01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    theirs = [hand_in.where for hand_in, _ in plan.chosen if hand_in.student == "cb2"]
    assert theirs == ["all.zip: HW1_cb2_attempt_2026-11-03-09-17-36_01-qkv.ipynb"]


@pytest.mark.parametrize("name", ["x_77_88_01-qkv.ipynb", "x_77_assignsubmission_file_01-qkv.ipynb"])
def test_in_blackboard_a_file_has_any_name(collect, tmp_path, name):
    plan = collect(zip_of(tmp_path / "all.zip", {ATTEMPT + name: QKV}), people=PEOPLE)
    assert set(placed(plan)) == {("al1", "01-qkv")}


def test_in_blackboard_a_packed_file_is_its_students(collect, tmp_path):
    plan = collect(
        zip_of(tmp_path / "all.zip", {f"{ATTEMPT}w.zip": zipped_in_2099({"01-qkv.ipynb": QKV})}), people=PEOPLE
    )
    assert set(placed(plan)) == {("al1", "01-qkv")}


def test_in_blackboard_one_student_has_one_room():
    """Each zip of another name would have 700 MB for itself: eight of them fill the room of the class."""
    names = ["w.zip", "a_1_1_w.zip", "b_1_1_w.zip", "c_1_assignsubmission_file_w.zip"]
    assert {whose([ATTEMPT + name for name in names])(ATTEMPT + name) for name in names} == {"al1"}


FOLDERS = {
    "Charles Babbage_2_assignsubmission_file_/w.zip": "Moodle",
    "babbagecharles_2_3_w.zip": "Canvas",
    "submission_2/w.zip": "Gradescope",
    "x_cb2_attempt_2099-01-01-00-00-00_01-qkv.ipynb": "Blackboard",
    "1-2 - Charles Babbage - Sep 24, 2099 926 PM/w.zip": "Brightspace",
    "Babbage_Charles_cb2_8/20991126091400_w.zip": "ILIAS",
    "Babbage_Charles_cb2/2_submission/w.zip": "OpenOLAT",
}


@pytest.mark.parametrize("path", FOLDERS)
def test_below_a_students_folder_nobody_hands_in_for_somebody_else(collect, tmp_path, path):
    """For GitHub Classroom and others, the book says to make a folder for each student: what is in it is theirs."""
    files = {
        f"al1/{path}": zipped_in_2099({"01-qkv.ipynb": QKV + b" "}) if path.endswith(".zip") else QKV + b" ",
        "al1/submission_metadata.yml": "submission_2: {':submitters': [{':sid': cb2}], ':created_at': 2099-01-01}",
        "cb2/01-qkv.ipynb": QKV,
        "jm3/01-qkv.ipynb": QKV,
    }
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    theirs = [hand_in.where for hand_in, _ in plan.chosen if hand_in.student == "cb2"]
    assert theirs == ["all.zip: cb2/01-qkv.ipynb"]


def slow_tar(count, size=63_999):
    """Return a tar whose files have long descriptions of digits, in which Python looks for `1 hdrcharset=`."""
    made = b""
    for number in range(count):
        description = tarfile.TarInfo("x")
        description.type, description.size = tarfile.XHDTYPE, size
        made += description.tobuf(tarfile.USTAR_FORMAT) + b"1" * size + bytes(-size % 512)
        made += tarfile.TarInfo(f"{number}.ipynb").tobuf(tarfile.USTAR_FORMAT)
    return made + bytes(1024)


def empty_blocks(size):
    """Return about so many bytes of deflate that hold nothing: each block of 90 bits is a table and its end."""

    def bits(value, count):
        return [value >> at & 1 for at in range(count)]

    def block(last):
        order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1]
        head = [last, *bits(2, 2), *bits(0, 5), *bits(0, 5), *bits(14, 4)]
        lengths = [bit for symbol in order for bit in bits(symbol in (1, 18), 3)]
        return [*head, *lengths, 1, *bits(138 - 11, 7), 1, *bits(118 - 11, 7), 0, 0, 0]

    def packed(stream):
        stream = stream + [0] * (-len(stream) % 8)
        return bytes(sum(bit << at for at, bit in enumerate(stream[i : i + 8])) for i in range(0, len(stream), 8))

    four = packed(block(0) * 4)
    return four * (size // len(four)) + packed(block(1))


def slow_zip(count, size):
    """Return a zip of which all files have the same data: each one's own header leads past those of the others."""
    data = empty_blocks(size)
    head, names = 30 + 3, [b"%03d" % number for number in range(count)]
    made, listed = b"", b""
    for number, name in enumerate(names):
        past = head * (count - number - 1)
        made += struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 33, 0, len(data), 1, 3, past) + name
        listed += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 33, 0, len(data), 1, 3, 0, 0, 0, 0, 0, head * number
        ) + name  # fmt: skip
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(listed), len(made) + len(data), 0)
    return made + data + listed + end


# The whole of each takes an hour: here is a small part of it, in a time that has room for a busy machine.
SLOW = {
    "w.tar": (lambda: slow_tar(12), 12 / 1000),
    "w.zip": (lambda: slow_zip(100, 1_000_000), 100 / 1000 * 1 / 70),
}


@pytest.mark.parametrize("name", SLOW)
def test_one_students_packed_file_keeps_collect_busy_for_minutes_at_most(collect, tmp_path, name):
    make, part = SLOW[name]
    data = make()
    assert len(zlib.compress(data)) < 100_000
    files = {f"lovelaceada_1_5_{name}": data, "babbagecharles_2_7_01-qkv.ipynb": QKV}
    start = time.process_time()
    plan = collect(zip_of(tmp_path / "all.zip", files), people=PEOPLE)
    took = time.process_time() - start
    assert set(placed(plan)) == {("cb2", "01-qkv")}
    assert took / part < 300, f"{took:.0f} s for {part:.2%} of the file: {took / part / 60:.0f} minutes for all of it"


def test_what_a_tar_says_of_all_its_files_is_not_kept_for_each_of_them():
    """With 60 such headers and 1000 files, 5 MB (1 MB packed) take 20 GB: each file gets a copy of all keys."""

    def header(kind, body):
        described = tarfile.TarInfo("x")
        described.type, described.size = kind, len(body)
        return described.tobuf(tarfile.USTAR_FORMAT) + body + bytes(-len(body) % 512)

    made = b"".join(
        header(tarfile.XGLTYPE, b"".join(b"10 %05x=\n" % key for key in range(start, start + 6399)))
        for start in range(0, 5 * 6400, 6400)
    )
    made += b"".join(tarfile.TarInfo(f"{number}.ipynb").tobuf(tarfile.USTAR_FORMAT) for number in range(200))
    tracemalloc.start()
    try:
        with contextlib.suppress(archives.Refused):
            archives._of_tar(made + bytes(1024))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000, f"{peak / 1e6:.0f} MB for a tar of {len(made) / 1e6:.1f} MB"

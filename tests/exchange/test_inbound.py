"""What is taken from nbgrader's exchange, and what is refused: whatever a user of the machine can put
there.
"""

import os
import stat
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from exchange_tools import OTHERS, name_of, submit

from autograder.course.limits import Limits
from autograder.exchange import inbound
from autograder.exchange.inbound import Entry, HandInRefused, Unfinished

pytestmark = pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="the exchange needs Linux")
LIMITS = Limits(notebook_mb=1, beside_mb=1)
NOTEBOOK = {"01-toy.ipynb": "{}"}
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be several users"
)


@pytest.fixture
def exchange(tmp_path):
    (tmp_path / "inbound").mkdir()
    return tmp_path


def read(exchange, hand_in, owner="ada", limits=LIMITS):
    """Read a hand-in whose folder belongs to a user of this name."""
    with inbound.opened(exchange / "inbound") as folder:
        return inbound.read(folder, Entry.parse(hand_in.folder.name), limits, lambda uid: owner)


def refused(exchange, hand_in, **named):
    """Return why a hand-in is refused."""
    with pytest.raises(HandInRefused) as error:
        read(exchange, hand_in, **named)
    return str(error.value)


def test_a_hand_in_is_read_with_the_files_next_to_it(exchange):
    files = {**NOTEBOOK, "01-toy.zh.ipynb": "{ }", "data/a.csv": "1,2", "checks.py": "ours"}
    hand_in = submit(exchange, "ada", files)
    copied = read(exchange, hand_in)
    assert copied.files == {
        "01-toy.ipynb": b"{}", "01-toy.zh.ipynb": b"{ }", "data/a.csv": b"1,2",
    }  # fmt: skip
    assert copied.notebooks == ["01-toy", "01-toy.zh"] and copied.secret == hand_in.secret
    assert abs(copied.arrived - datetime.now(UTC)) < timedelta(seconds=10)
    copied.write(exchange / "copy", "%Y-%m-%d %H:%M:%S.%f UTC")
    written = {path.name: stat.S_IMODE(path.stat().st_mode) for path in exchange.glob("copy/**/*")}
    assert written == {
        "01-toy.ipynb": 0o600, "01-toy.zh.ipynb": 0o600, "data": 0o700, "a.csv": 0o600,
        "timestamp.txt": 0o600, "submission_secret.txt": 0o600,
    }  # fmt: skip
    assert stat.S_IMODE((exchange / "copy").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "name, work",
    [
        ("ada+01-toy+2026-11-29 10:00:00.000000 UTC+AAAABBBB-_CC", ("ada", "01-toy")),
        ("ada+01-toy+2026-11-29 10:00:00.000000 UTC", ("ada", "01-toy")),
        ("ada+lovelace+01-toy+2026-11-29 10:00:00 UTC+AAAABBBBCCCC", ("ada+lovelace", "01-toy")),
    ],
)
def test_a_name_says_whose_it_is(name, work):
    entry = Entry.parse(name)
    assert (entry.student, entry.exercise) == work
    assert entry.time == datetime(2026, 11, 29, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "name", ["", "ada", "ada+01-toy", "..+01-toy+2026-11-29 UTC", ".ada+01-toy+2026-11-29 UTC"]
)
def test_other_names_are_refused(name):
    with pytest.raises(HandInRefused):
        Entry.parse(name)


def test_one_that_is_not_finished_waits(exchange):
    hand_in = submit(exchange, "ada", NOTEBOOK, finish=False)
    with pytest.raises(Unfinished, match="it was not completed"):
        read(exchange, hand_in)
    hand_in.folder.chmod(0o777)
    assert read(exchange, hand_in).notebooks == ["01-toy"]


def test_a_hand_in_under_another_users_name_is_refused(exchange):
    hand_in = submit(exchange, "ada", NOTEBOOK)
    assert refused(exchange, hand_in, owner="boris") == "it belongs to boris, not to ada"
    assert "it belongs to user" in refused(exchange, hand_in, owner="")


def link(path, target):
    path.symlink_to(target)


def hard_link(path, target):
    path.hardlink_to(target)


def pipe(path, target):
    os.mkfifo(path)


@pytest.mark.parametrize(
    "make, kind", [(link, "a link"), (hard_link, "a hard link"), (pipe, "a named pipe")]
)
@pytest.mark.parametrize("name", ["01-toy.ipynb", "notes.txt", "submission_secret.txt", "data/x"])
def test_what_is_no_plain_file_is_refused_and_never_waited_for(exchange, make, kind, name):
    secret = exchange / "course-secret"
    secret.write_text("keep this")
    files = {**NOTEBOOK, "data/y": ""}
    hand_in = submit(exchange, "ada", files, finish=False)
    (hand_in.folder / name).unlink(missing_ok=True)
    make(hand_in.folder / name, secret)
    hand_in.folder.chmod(0o777)
    began = time.monotonic()
    assert f"{name} is {kind}" in refused(exchange, hand_in)
    assert time.monotonic() - began < 5


def test_a_folder_that_is_a_link_is_refused(exchange):
    (exchange / "private").mkdir()
    (exchange / "private" / "01-toy.ipynb").write_text("{}")
    hand_in = submit(exchange, "ada", NOTEBOOK, finish=False)
    (hand_in.folder / "data").symlink_to(exchange / "private")
    hand_in.folder.chmod(0o777)
    assert refused(exchange, hand_in) == "data is a link"
    other = exchange / "inbound" / name_of("ada")
    other.symlink_to(exchange / "private")
    with (
        inbound.opened(exchange / "inbound") as folder,
        pytest.raises(HandInRefused, match="a link"),
    ):
        inbound.stat_of(folder, other.name)


def test_a_student_whose_own_hand_in_is_refused_can_fetch_why(exchange):
    hand_in = submit(exchange, "ada", {**NOTEBOOK, "a.ipynb": "x" * 2_000_000})
    with pytest.raises(HandInRefused, match=r"a.ipynb has more than 1 MB") as error:
        read(exchange, hand_in)
    assert error.value.secret == hand_in.secret
    assert error.value.notebooks == ["01-toy", "a"]
    with pytest.raises(HandInRefused) as error:
        read(exchange, hand_in, owner="boris")
    assert error.value.secret == "" and error.value.notebooks == ()


@pytest.mark.slow
def test_too_many_and_too_large_files_next_to_a_notebook_are_left_out(exchange):
    many = {f"data/{number}": "" for number in range(4_000)}
    hand_in = submit(exchange, "ada", {**NOTEBOOK, **many})
    began = time.monotonic()
    copied = read(exchange, hand_in)
    assert time.monotonic() - began < 10
    assert list(copied.files) == ["01-toy.ipynb"] and "were left out" in copied.note
    copied = read(exchange, submit(exchange, "ada", {**NOTEBOOK, "large": b"x" * 1_100_000}))
    assert list(copied.files) == ["01-toy.ipynb"] and "were left out" in copied.note
    flood = {f"{number}.ipynb": "{}" for number in range(30)}
    assert "more than 20 notebooks" in refused(exchange, submit(exchange, "ada", flood))


def test_a_sparse_file_takes_no_memory(exchange):
    hand_in = submit(exchange, "ada", NOTEBOOK, finish=False)
    os.truncate(hand_in.folder / "01-toy.ipynb", 50_000_000_000)
    hand_in.folder.chmod(0o777)
    assert "more than 1 MB" in refused(exchange, hand_in)


def test_notebooks_keep_the_time_at_which_they_were_saved(exchange, tmp_path):
    hand_in = submit(exchange, "ada", {**NOTEBOOK, "01-toy.zh.ipynb": "{}"}, finish=False)
    os.utime(hand_in.folder / "01-toy.ipynb", (1e9, 1e9))
    os.utime(hand_in.folder / "01-toy.zh.ipynb", (9e9, 9e9))  # in the future
    hand_in.folder.chmod(0o777)
    read(exchange, hand_in).write(tmp_path / "copy", "%Y-%m-%d %H:%M:%S.%f %Z")
    early, late = (
        (tmp_path / "copy" / name).stat().st_mtime for name in ("01-toy.ipynb", "01-toy.zh.ipynb")
    )
    assert early == 1e9 < late <= time.time()


def test_deep_folders_are_left_out(exchange):
    copied = read(exchange, submit(exchange, "ada", {**NOTEBOOK, "a/" * 60 + "b": "x"}))
    assert list(copied.files) == ["01-toy.ipynb"] and copied.note


def test_a_hand_in_without_a_notebook_is_refused(exchange):
    assert refused(exchange, submit(exchange, "ada", {"a.txt": ""})) == "it has no notebook"


@pytest.mark.parametrize("secret", ["", "short", "g" * 128, "../" * 42, "A" * 128])
def test_only_a_proper_secret_is_one(exchange, secret):
    copied = read(exchange, submit(exchange, "ada", NOTEBOOK, secret=secret))
    assert copied.secret == ""


@pytest.mark.parametrize("away", [timedelta(days=-3), timedelta(days=3), timedelta(days=26_000)])
def test_a_time_that_cannot_be_is_not_believed(exchange, away):
    copied = read(exchange, submit(exchange, "ada", NOTEBOOK, time=datetime.now(UTC) + away))
    assert abs(copied.submitted - datetime.now(UTC)) < timedelta(seconds=10)
    copied = read(exchange, submit(exchange, "ada", NOTEBOOK, time="2026-99-99 99:99"))
    assert abs(copied.submitted - datetime.now(UTC)) < timedelta(seconds=10)


def test_a_time_that_can_be_is_the_one_that_the_student_sees(exchange):
    time = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=20)
    assert read(exchange, submit(exchange, "ada", NOTEBOOK, time=time)).submitted == time


def test_who_changes_a_file_after_submitting_submits_later(exchange):
    hand_in = submit(exchange, "ada", NOTEBOOK)
    before = read(exchange, hand_in).arrived
    time.sleep(0.05)
    (hand_in.folder / "01-toy.ipynb").write_text("{ }")
    assert read(exchange, hand_in).arrived > before


@pytest.mark.parametrize("change", ["rename a folder", "remove a file", "add a folder"])
def test_who_changes_names_in_a_folder_after_submitting_submits_later(exchange, change):
    """The answers could be in the names."""
    files = {"01-toy.ipynb": "{}", "bits/1/x.txt": "", "bits/2/x.txt": "", "bits/y.txt": ""}
    hand_in = submit(exchange, "ada", files)
    before = read(exchange, hand_in).arrived
    time.sleep(0.05)
    bits = hand_in.folder / "bits"
    match change:
        case "rename a folder":
            (bits / "1").rename(bits / "the answer")
        case "remove a file":
            (bits / "y.txt").unlink()
        case "add a folder":
            (bits / "3").mkdir()
    assert read(exchange, hand_in).arrived > before


def test_a_file_that_changes_while_it_is_read_is_read_again_later(exchange):
    """One writer goes on and on: whatever is read is whole, or is not taken."""
    hand_in = submit(exchange, "ada", {"01-toy.ipynb": "a" * 900_000})
    path, stop = hand_in.folder / "01-toy.ipynb", threading.Event()

    def change():
        letter = 0
        while not stop.is_set():
            letter = (letter + 1) % 26
            with path.open("r+b") as file:
                file.write(bytes([97 + letter]) * 900_000)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(2000):  # the system's clock of files has steps of some milliseconds
            try:
                read(exchange, hand_in)
            except Unfinished as error:
                if "changes while it is read" in str(error):
                    break
        else:
            pytest.fail("no change was noticed")
    finally:
        stop.set()
        thread.join()
    assert read(exchange, hand_in).notebooks == ["01-toy"]


def test_a_folder_that_is_replaced_while_it_is_read_is_not_followed(exchange, monkeypatch):
    secret = exchange / "private"
    secret.mkdir()
    (secret / "x").write_text("keep this")
    hand_in = submit(exchange, "ada", {**NOTEBOOK, "data/x": "mine"})
    stat_of = os.stat

    def replaced(name, **named):
        state = stat_of(name, **named)
        if name == "data":  # the attacker is faster than the next step
            (hand_in.folder / "data").rename(hand_in.folder / "moved")
            (hand_in.folder / "data").symlink_to(secret)
        return state

    monkeypatch.setattr(inbound.os, "stat", replaced)
    assert "data was replaced while it was read" in refused(exchange, hand_in)


@pytest.mark.parametrize(
    "time",
    [
        "2024-01-01 00:00:00 -9999", "2024-01-01 00:00:00 UTC-99", "2024-01-01T00:00:00-2400",
        "9999-12-31 23:59:59 -2359",
    ],
)  # fmt: skip
def test_a_time_zone_that_cannot_be_is_no_time(exchange, time):
    hand_in = submit(exchange, "ada", NOTEBOOK, time=time)
    assert Entry.parse(hand_in.folder.name).time is None
    assert abs(read(exchange, hand_in).submitted - datetime.now(UTC)) < timedelta(seconds=10)


def test_a_key_is_valid_text_and_each_name_has_another():
    names = [os.fsdecode(b"\xff"), "%FF", "%25FF", "a\nb", "a%0Ab", "é"]
    keys = [inbound.key_of(name) for name in names]
    assert len(set(keys)) == len(names)
    assert all(key.encode().decode().isprintable() for key in keys)
    plain = name_of("ada")
    assert inbound.key_of(plain) == plain


def deep_folder(folder, name, depth):
    """Make folders in each other; their path may be longer than the system permits."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=handle)
        below = os.open(name, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)


@pytest.mark.parametrize("name", ["d" * 250, "d" * 120])
def test_paths_that_no_copy_could_have_are_left_out(exchange, name):
    hand_in = submit(exchange, "ada", NOTEBOOK, finish=False)
    deep_folder(hand_in.folder, name, 18)
    hand_in.folder.chmod(0o777)
    copied = read(exchange, hand_in)
    assert list(copied.files) == ["01-toy.ipynb"] and copied.note
    copied.write(exchange / "copy", "%Y-%m-%d")
    long = submit(exchange, "ada", {**NOTEBOOK, "n" * 200 + ".ipynb": "{}"})
    assert "longer than 140 bytes" in refused(exchange, long)


def test_a_notebook_whose_name_is_no_text_has_no_page(exchange):
    copied = read(exchange, submit(exchange, "ada", {**NOTEBOOK, os.fsdecode(b"\xff.ipynb"): "{}"}))
    assert copied.notebooks == ["01-toy"]


@needs_root
def test_real_users_own_their_hand_ins(exchange):
    (exchange / "inbound").chmod(0o2733)
    daemon = submit(exchange, "daemon", NOTEBOOK, uid=OTHERS["daemon"])
    forged = submit(exchange, "daemon", NOTEBOOK, uid=OTHERS["bin"])
    mixed = submit(exchange, "daemon", {**NOTEBOOK, "a": ""}, uid=OTHERS["daemon"])
    os.chown(mixed.folder / "a", OTHERS["bin"], -1)
    mixed.folder.chmod(0o777)
    unknown = submit(exchange, "daemon", NOTEBOOK, uid=3_999_999)
    with inbound.opened(exchange / "inbound") as folder:
        assert inbound.read(folder, Entry.parse(daemon.folder.name), LIMITS).files
        for hand_in, reason in (
            (forged, "it belongs to bin, not to daemon"),
            (mixed, "a belongs to another user"),
            (unknown, "it belongs to user 3999999, not to daemon"),
        ):
            with pytest.raises(HandInRefused, match=reason):
                inbound.read(folder, Entry.parse(hand_in.folder.name), LIMITS)

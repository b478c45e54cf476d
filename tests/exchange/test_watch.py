"""The watch: what is handed in through nbgrader's exchange is graded at once, and answered."""

import contextlib
import errno
import json
import os
import random
import re
import secrets
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import types
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from exchange_tools import OTHERS, exchange_of, notebook_with, submit
from toy_course import RIGHT, run, toy_course

from autograder.authoring import translations
from autograder.authoring.release import release
from autograder.commands import doctor
from autograder.course import deadlines, locks
from autograder.course.config import ROOT, Course, UserError
from autograder.course.limits import Limits
from autograder.course.watch_settings import WatchSettings
from autograder.exchange import (
    arrivals,
    collecting,
    delays,
    fairness,
    hand_in_folders,
    inbound,
    intake,
    permissions,
    publishing,
    running_batch,
    state,
    watch,
)
from autograder.exchange.publishing import Publisher, feedback_name
from autograder.exchange.state import HandInRow, HandInStore, State
from autograder.exchange.warm import WarmExecutor
from autograder.exchange.watch import Watch
from autograder.feedback import notice
from autograder.grades import gradebook, late, records, report
from autograder.grades.records import record_of
from autograder.grading import batch, worker
from autograder.grading.executors import LocalExecutor
from autograder.grading.worker_config import WorkerConfig

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the exchange needs Linux")
WRONG = {**RIGHT, "add": "def add(a, b):\n    return a - b"}
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be several users"
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A released toy course."""
    course = toy_course(tmp_path_factory.mktemp("toy") / "course")
    for exercise in course.sources():
        release(course, exercise)
    return course


class WatchedCourse:
    """A course with an exchange, in which the students are names of one system user."""

    def __init__(self, toy, folder, settings="", owners=False):
        shutil.copytree(toy.root, folder / "course")
        self.root = folder / "exchange"
        lines = f"\nc.Exchange.root = {str(self.root)!r}\nc.Watch.check_owner = {owners}\n"
        with (folder / "course" / "nbgrader_config.py").open("a", encoding="utf-8") as file:
            file.write(lines + settings)
        self.course = Course(root=folder / "course", output_folder=folder / "course")
        self.exchange = exchange_of(self.course, self.root)
        self.events = []

    def say(self, event, **values):
        self.events.append((event, values.get("student", ""), values))

    def students_of_events(self, *wanted):
        """Return the students that events of these kinds are about."""
        return [student for event, student, _ in self.events if event in wanted]

    def trouble_notes(self):
        """Return what the watch said that is wrong, and that it went on."""
        return [values["note"] for event, _, values in self.events if event in ("waits", "goes on")]

    def submit(self, student, answers=RIGHT, request="", notebooks=("01-toy",), **named):
        text = notebook_with(self.course, answers, request)
        files = {f"{name}.ipynb": text for name in notebooks}
        return submit(self.exchange, student, files, **named)

    def watch(self, **named):
        return Watch(self.course, self.exchange, self.say, jobs=1, **named)

    def run_once(self):
        """Do what there is to do."""
        with self.watch() as watching:
            watching.run(once=True)
            return watching.troubles


@pytest.fixture
def watched(toy, tmp_path):
    return WatchedCourse(toy, tmp_path)


def text_of(page):
    return " ".join(BeautifulSoup(page, "html.parser").get_text(" ").split())


# Whose turn it is.


def rows(*works):
    return [
        HandInRow(f"{number}", student, exercise, arrived=float(number))
        for number, (student, exercise) in enumerate(works)
    ]


def chosen(waiting, attempts=float("inf"), hour=float("inf")):
    return fairness.choose(waiting, lambda row: attempts <= 0, lambda student: hour)


def names(rows):
    return [row.name for row in rows]


def test_students_take_turns_and_only_the_newest_counts():
    waiting = rows(("ada", "1"), ("ada", "2"), ("ada", "3"), ("ben", "1"), ("ada", "1"))
    choice = chosen(waiting)
    assert names(choice.superseded) == ["0"]
    assert names(choice.grade) == ["1", "3", "2", "4"]


def test_a_flood_delays_no_one():
    flood = [("mal", str(number)) for number in range(200)]
    choice = chosen(rows(*flood, ("ada", "1"), ("ben", "1")))
    assert {row.student for row in choice.grade[:3]} == {"mal", "ada", "ben"}
    choice = chosen(rows(*[("mal", "1")] * 200, ("ada", "1")))
    assert len(choice.superseded) == 199 and len(choice.grade) == 2


def test_limits_hold_back_or_leave_out():
    waiting = rows(("ada", "1"), ("ada", "2"), ("ben", "1"))
    choice = chosen(waiting, hour=1)
    assert len(choice.grade) == 2 and len(choice.later) == 1 and choice.limited == []
    assert names(chosen(waiting, attempts=0).limited) == ["0", "1", "2"]


# Settings.


@pytest.mark.parametrize(
    "line, message",
    [
        ('c.Watch.shows = "all"', 'c.Watch.shows should be one of "points", "reasons"'),
        ("c.Watch.attempts = -1", "c.Watch.attempts should be a whole number above 0"),
        ("c.Watch.per_hours = 3", "c.Watch.per_hours, but there is no such key. Did you mean"),
        ('c.Watch.scores = "canvas"', 'c.Watch.scores should be one of "", "lti"'),
    ],
)
def test_a_wrong_setting_is_one_line(toy, tmp_path, line, message):
    watched = WatchedCourse(toy, tmp_path, f"{line}\n")
    with pytest.raises(UserError) as error:
        WatchSettings.configured(watched.course.config)
    assert message in str(error.value)


def test_the_settings_have_defaults(watched):
    settings = WatchSettings.configured(watched.course.config)
    assert settings == WatchSettings("points", 0, 20, "", check_owner=False)


# The database of hand-ins.


def test_a_row_is_kept_and_found_again(tmp_path):
    path = tmp_path / "watch.db"
    with HandInStore(path) as hand_ins:
        row = hand_ins.keep(HandInRow("a", "ada", "1", arrived=2.0, secret="s", notebooks=["n"]))
        other = hand_ins.keep(HandInRow("b", "ada", "1", State.GRADED, arrived=1.0, graded=9.0))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with HandInStore(path) as hand_ins:
        assert hand_ins.in_state(State.WAITING) == [row] and hand_ins.names == {"a", "b"}
        assert hand_ins.newest_graded() == [other]
        assert hand_ins.count_attempts("ada", "1") == hand_ins.count_graded("ada", 8.5) == 1
        assert hand_ins.count_graded("ada", 9.5) == 0


def test_a_damaged_database_is_named(tmp_path):
    (tmp_path / "watch.db").write_bytes(b"no database, but long enough to be one" * 30)
    with pytest.raises(UserError, match=r"watch.db is damaged, .* Move it away"):
        HandInStore(tmp_path / "watch.db")


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE hand_ins ADD COLUMN of_a_newer_version",
        "UPDATE hand_ins SET notebooks = '[', state = 'graded'",
        "UPDATE hand_ins SET state = 'of a newer version'",
    ],
)
def test_a_database_with_other_columns_or_values_is_named(tmp_path, change):
    path = tmp_path / "watch.db"
    with HandInStore(path) as hand_ins:
        hand_ins.keep(HandInRow("a", "ada", "1"))
    with sqlite3.connect(path) as database:
        database.execute(change)
    database.close()
    with pytest.raises(UserError, match=r"watch.db is damaged, or of another version: "):
        HandInStore(path)


def test_a_database_that_another_program_has_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "BUSY_SECONDS", 0.1)
    path = tmp_path / "watch.db"
    with HandInStore(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError, match=r"database is locked. Close other programs"):
            HandInStore(path)


def test_times_in_the_future_hold_no_one_back(tmp_path):
    """They were written while the clock was ahead. What comes later is newer."""
    now = time.time()
    with HandInStore(tmp_path / "watch.db") as hand_ins:
        for name, state, hours in [("a", State.GRADED, 25), ("b", State.WAITING, 24)]:
            ahead = now + 3600 * hours
            hand_ins.keep(HandInRow(name, "ada", name, state, arrived=ahead, graded=ahead))
        hand_ins.limit_times()
        rows = [*hand_ins.in_state(State.GRADED), *hand_ins.in_state(State.WAITING)]
        graded, waiting = [(row.arrived, row.graded) for row in rows]
        assert now <= min(waiting) < min(graded) <= max(graded) < now + 60
    folders = hand_in_folders.HandInFolders(tmp_path / "submitted")
    folder = folders.submission_folder("ada", "1")
    folder.mkdir(parents=True)
    for hours, is_newer in [(24, False), (-1, True)]:
        stamp = datetime.now(UTC) + timedelta(hours=hours)
        (folder / "timestamp.txt").write_text(f"{stamp:%Y-%m-%d %H:%M:%S.%f} UTC")
        arrived = datetime.now(UTC) - timedelta(hours=2)
        assert folders.is_newer("ada", "1", "secret", arrived) == is_newer


def test_a_clock_that_is_set_back_changes_no_order(watched, monkeypatch):
    now = time.time()
    with watched.watch() as watching:
        hand_ins = [
            watching.hand_ins.keep(
                HandInRow(str(seconds), "ben", str(seconds), arrived=now + seconds)
            )
            for seconds in (-20, 20, 80, 3600)
        ]
        monkeypatch.setattr(time, "time", lambda: now)
        watching.intake.look()
        # What a batch read before does not bring its time back.
        watching.hand_ins.keep(replace(hand_ins[-1], tries=1))
        rows = watching.hand_ins.in_state(State.WAITING)
        assert [row.name for row in rows] == ["-20", "20", "80", "3600"] and rows[-1].tries == 1
        assert rows[-1].arrived == pytest.approx(now, abs=0.1) and rows[0].arrived == now - 20


def test_what_was_handed_in_last_is_graded_though_the_clock_was_set_back(watched, monkeypatch):
    """The time next to the placed submission is still that of the wrong clock."""
    newer = watched.submit("ada")
    with watched.watch() as watching:
        watching.intake.look()
        (row,) = watching.hand_ins.in_state(State.WAITING)
        placed = HandInRow(
            "earlier", "ada", "01-toy", State.GRADED, row.arrived - 60, secrets.token_hex(64)
        )
        watching.hand_ins.keep(placed)
        folder = watching.folders.submission_folder("ada", "01-toy")
        folder.mkdir(parents=True)
        (folder / "submission_secret.txt").write_text(placed.secret)
        stamp = datetime.now(UTC) - timedelta(minutes=30)
        (folder / "timestamp.txt").write_text(f"{stamp:%Y-%m-%d %H:%M:%S.%f} UTC")
        monkeypatch.setattr(time, "time", lambda: row.arrived - 3600)
        watching.intake.look()
        monkeypatch.undo()
        waiting = watching.hand_ins.in_state(State.WAITING)
        assert [row.secret for row in watching.queue.place(waiting)] == [newer.secret]
        # Between what it knows, the database decides.
        shutil.copytree(folder, watching.folders.waiting_folder(row.name))
        (folder / "submission_secret.txt").write_text(placed.secret)
        (folder / "timestamp.txt").write_text("2020-01-01 00:00:00 UTC")
        watching.hand_ins.forget(placed.name)
        watching.hand_ins.keep(replace(placed, arrived=time.time()))
        assert watching.queue.place(waiting) == []


# Taking, without grading.


def test_hand_ins_are_taken_and_refused_with_a_line_each(watched):
    watched.submit("ada")
    unfinished = watched.submit("ben", finish=False)
    odd = submit(watched.exchange, "x", {}, name="x+y+2026-01-01 UTC")
    (watched.exchange / "inbound" / "stray").write_text("")
    with watched.watch() as watching:
        watching.intake.look()
        watching.intake.look()  # which logs nothing again
        assert (
            watched.students_of_events("taken") == ["ada"]
            and len(watched.students_of_events("refused")) == 1
        )
        reasons = {
            values["name"]: values["reason"]
            for _, _, values in watched.events
            if "reason" in values
        }
        assert reasons == {odd.folder.name: "there is no exercise y"}
        (note,) = [values["note"] for event, _, values in watched.events if event == "note"]
        assert note.startswith("1 entries of inbound are passed over") and "not folders" in note
        unfinished.folder.chmod(0o777)
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ada", "ben"]


def test_a_half_written_one_is_refused_after_ten_minutes(watched, monkeypatch):
    watched.submit("ada", finish=False)
    with watched.watch() as watching:
        watching.intake.look()
        assert watched.events == []
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 601)
        watching.intake.look()
        (event,) = watched.events
        assert event[0] == "refused" and "10 minutes have passed" in event[2]["reason"]


def test_one_user_is_copied_a_few_at_a_time(toy, tmp_path):
    watched = WatchedCourse(toy, tmp_path)
    hand_ins = [watched.submit("mal") for _ in range(12)]
    with watched.watch() as watching:
        watching.intake.look()
        assert len(watched.students_of_events("taken")) == intake.MOST_AT_ONCE
        watching.intake.look()
        watching.intake.look()
        assert len(watched.students_of_events("taken")) == len(hand_ins)
        taken = [values["name"] for event, _, values in watched.events if event == "taken"]
        assert taken == [hand_in.folder.name for hand_in in hand_ins]


@needs_root
def test_hand_ins_under_another_name_change_nothing_of_its_owner(toy, tmp_path):
    watched = WatchedCourse(toy, tmp_path, owners=True)
    right = watched.submit("daemon", uid=OTHERS["daemon"])
    future = datetime(2099, 1, 1, tzinfo=UTC)
    watched.submit("daemon", WRONG, uid=OTHERS["bin"], time=future)
    with watched.watch() as watching:
        watching.intake.look()
        (row,) = watching.hand_ins.in_state(State.WAITING)
        assert row.secret == right.secret
        (refused,) = watching.hand_ins.in_state(State.REFUSED)
        assert refused.note == "it belongs to bin, not to daemon" and refused.secret == ""


def raw(watched, name):
    """Make a complete folder of this name in the exchange."""
    folder = watched.exchange / "inbound" / os.fsdecode(name)
    folder.mkdir()
    folder.chmod(0o777)


def test_a_name_that_is_no_text_is_refused_once(watched):
    raw(watched, b"me+\xff+2024-01-01 00:00:00 UTC")
    raw(watched, b"me\xff+01-toy+2024-01-01 00:00:00 UTC")
    raw(watched, b"\xff")
    watched.submit("ada")
    with watched.watch() as watching:
        watching.intake.look()
        watching.intake.look()
        rows = watching.hand_ins.in_state(State.REFUSED)
        assert watching.troubles == [] and watched.students_of_events("taken") == ["ada"]
    assert {row.name for row in rows} == {
        "me%FF+01-toy+2024-01-01 00:00:00 UTC", "me+%FF+2024-01-01 00:00:00 UTC",
    }  # fmt: skip
    assert len(watched.students_of_events("refused")) == 2
    json.dumps(watched.events, ensure_ascii=False).encode()


def test_one_that_the_program_fails_on_stops_no_other(watched, monkeypatch):
    broken = watched.submit("ada").folder.name
    watched.submit("ben")
    read, tried = watch.inbound.read, []

    def fail(folder, entry, *rest):
        if entry.name == broken:
            tried.append(entry.name)
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        return read(folder, entry, *rest)

    monkeypatch.setattr(inbound, "read", fail)
    with watched.watch() as watching:
        for _ in range(3):
            watching.intake.look()
        assert (
            watched.students_of_events("taken") == ["ben"]
            and len(tried) == 1
            and watching.troubles == []
        )
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 7)
        watching.intake.look()
        watching.intake.look()
        assert len(tried) == 2
        notes = [values["note"] for event, _, values in watched.events if event == "note"]
        assert len(notes) == 1 and f"{broken} is skipped" in notes[0]
        monkeypatch.setattr(inbound, "read", read)
        monkeypatch.setattr(time, "monotonic", lambda: now + 40)
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ben", "ada"]


@pytest.mark.parametrize("reason", [errno.EIO, errno.EMFILE, errno.ESTALE])
def test_a_disk_that_fails_refuses_no_hand_in_and_holds_up_no_other(watched, monkeypatch, reason):
    broken, _ = watched.submit("ada").folder.name, watched.submit("ben")
    opened, now = os.open, time.monotonic()

    def fail(path, *arguments, **named):
        if path == broken:
            raise OSError(reason, os.strerror(reason))
        return opened(path, *arguments, **named)

    with watched.watch() as watching:
        monkeypatch.setattr(os, "open", fail)
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ben"]
        monkeypatch.setattr(time, "monotonic", lambda: now + 700)
        watching.intake.look()
        assert watched.students_of_events("refused") == []
        monkeypatch.setattr(os, "open", opened)
        monkeypatch.setattr(time, "monotonic", lambda: now + 1400)
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ben", "ada"]


def test_a_full_disk_is_no_fault_of_a_hand_in(watched, monkeypatch):
    watched.submit("ada")

    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with watched.watch() as watching:
        monkeypatch.setattr(watching.folders, "write", fail)
        watching.intake.look()
        assert watching.troubles == ["No space left on device"]
        monkeypatch.undo()
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ada"] and watching.troubles == []


def test_an_answer_that_the_program_fails_on_stops_no_other(watched, monkeypatch):
    hand_ins = [watched.submit(student, notebooks=("other",)) for student in ("ada", "ben")]
    publish = Publisher.publish

    def fail(publisher, row):
        if row.student == "ada":
            raise ValueError("an unexpected fault")
        return publish(publisher, row)

    monkeypatch.setattr(Publisher, "publish", fail)
    with watched.watch() as watching:
        watching.intake.look()
        for row in watching.hand_ins.in_state(State.WAITING):
            watching.queue.leave(row, State.LIMITED)
        watching.publish_due()
        watching.publish_due()
    assert [bool(hand_in.feedback("other")) for hand_in in hand_ins] == [False, True]
    notes = [values["note"] for event, _, values in watched.events if event == "note"]
    assert len(notes) == 1 and "ValueError: an unexpected fault" in notes[0]


def test_other_entries_are_counted_and_not_looked_at_again(watched, monkeypatch):
    for number in range(50):
        (watched.exchange / "inbound" / f"junk{number}").write_text("")
        (watched.exchange / "inbound" / f"mal+x+2024-01-01 {number} UTC").write_text("")
    watched.submit("ada")
    stat_of, looked_at = os.stat, []

    def count(name, **named):
        if "dir_fd" in named:
            looked_at.append(name)
        return stat_of(name, **named)

    with watched.watch() as watching:
        watching.intake.look()
        assert (
            watched.students_of_events("taken") == ["ada"]
            and watched.students_of_events("refused") == []
        )
        monkeypatch.setattr(arrivals.os, "stat", count)
        watching.intake.look()
        watching.intake.look()
        assert looked_at == []
    (note,) = [values["note"] for event, _, values in watched.events if event == "note"]
    assert note.startswith("100 entries of inbound are passed over")


def test_a_flood_of_hand_ins_costs_little_and_delays_no_other(watched, monkeypatch):
    for number in range(300):
        raw(watched, f"mal+x+2024-01-01 {number} UTC".encode())
    watched.submit("ada")
    key_of, keys = inbound.key_of, []
    monkeypatch.setattr(inbound, "key_of", lambda name: keys.append(name) or key_of(name))
    with watched.watch() as watching:
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ada"]
        count = len(watched.students_of_events("refused"))
        assert 0 < count <= intake.MOST_AT_ONCE
        assert len(keys) < 3 * arrivals.MOST_LOOKED_AT
        watching.intake.look()
        assert len(watched.students_of_events("refused")) == 2 * count


def test_a_user_who_hands_in_all_the_time_is_slowed_down(watched, monkeypatch):
    monkeypatch.setattr(arrivals, "MOST_PER_HOUR", 2)
    for _ in range(3):
        watched.submit("mal")
    watched.submit("ada")
    with watched.watch() as watching:
        watching.intake.look()
        watching.intake.look()
        assert sorted(watched.students_of_events("taken")) == ["ada", "mal", "mal"]
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 3601)
        watching.intake.look()
        assert watched.students_of_events("taken").count("mal") == 3


def test_empty_files_count_as_well(watched, monkeypatch):
    monkeypatch.setattr(intake, "MOST_BYTES", 1_000_000)
    text = notebook_with(watched.course, RIGHT)
    empty = {f"{number}/x": "" for number in range(20)}
    for _ in range(2):
        submit(watched.exchange, "mal", {"01-toy.ipynb": text, **empty})
    with watched.watch() as watching:
        watching.intake.look()
        assert len(watched.students_of_events("taken")) == 1


def test_one_that_changes_is_read_again_after_a_while(watched, monkeypatch):
    watched.submit("ada")
    reads = []

    def change(*rest):
        reads.append(rest)
        raise inbound.Unfinished("it changes while it is read")

    monkeypatch.setattr(inbound, "read", change)
    with watched.watch() as watching:
        for _ in range(3):
            watching.intake.look()
        assert len(reads) == 1 and watched.events == []
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 601)
        watching.intake.look()
        assert len(reads) == 2 and watched.students_of_events("refused") == ["ada"]


def test_each_student_has_one_copy_of_an_exercise_that_waits(watched):
    hand_ins = [watched.submit("ada") for _ in range(4)]
    waiting = watched.course.submitted / ".waiting"
    with watched.watch() as watching:
        watching.intake.look()
        (row,) = watching.hand_ins.in_state(State.WAITING)
        assert row.secret == hand_ins[-1].secret and len(list(waiting.iterdir())) == 1
        assert len(watching.hand_ins.in_state(State.SUPERSEDED)) == 3
        watching.publish_due()
    assert all("newer one" in hand_in.feedback() for hand_in in hand_ins[:3])


def test_an_earlier_one_that_comes_later_is_not_copied(watched):
    now = datetime.now(UTC)
    late = watched.submit("ada", time=now - timedelta(seconds=5))
    watched.submit("ada", time=now - timedelta(seconds=30))
    with watched.watch() as watching:
        watching.intake.look()
        (row,) = watching.hand_ins.in_state(State.WAITING)
        assert row.secret == late.secret
        assert len(list((watched.course.submitted / ".waiting").iterdir())) == 1


def test_few_bytes_are_copied_in_one_look(watched, monkeypatch):
    monkeypatch.setattr(intake, "MOST_BYTES_OF_ALL", 1)
    for student in ("ada", "ada", "ben"):
        watched.submit(student)
    with watched.watch() as watching:
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ada", "ben"]  # the first one of each
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ada", "ben", "ada"]


def test_a_hand_in_that_cannot_be_compared_stops_no_other(toy, tmp_path, monkeypatch):
    watched = WatchedCourse(toy, tmp_path, "c.Watch.attempts = 1\n")
    watched.submit("ada")
    watched.submit("ben")
    with watched.watch() as watching:
        watching.intake.look()
        ada, _ = watching.hand_ins.in_state(State.WAITING)
        graded = replace(ada, name="before", state=State.GRADED, graded=1.0)
        watching.hand_ins.keep(graded)

        def fail(row):
            raise ValueError("an unexpected fault")

        monkeypatch.setattr(watching.queue, "_is_new_work", fail)
        waiting = watching.hand_ins.in_state(State.WAITING)
        assert [row.student for row in watching._chosen(waiting)] == ["ben"]
        assert len(watching.hand_ins.in_state(State.WAITING)) == 2


def test_the_same_work_again_counts_in_the_hour(tmp_path):
    with HandInStore(tmp_path / "watch.db") as hand_ins:
        hand_ins.keep(HandInRow("a", "ada", "1", State.GRADED, graded=9.0))
        hand_ins.keep(HandInRow("b", "ada", "1", State.GRADED, graded=9.5, attempt=False))
        assert hand_ins.count_attempts("ada", "1") == 1
        assert hand_ins.count_graded("ada", 8.0) == 2


def test_work_on_which_the_grader_failed_counts_in_the_hour_once_a_newer_one_came(tmp_path):
    with HandInStore(tmp_path / "watch.db") as hand_ins:
        failed = hand_ins.keep(HandInRow("a", "ada", "1", tries=2, graded=9.0))
        assert hand_ins.count_graded("ada", 8.0) == 0
        hand_ins.keep(replace(failed, state=State.SUPERSEDED))
        hand_ins.keep(HandInRow("b", "ada", "1", State.SUPERSEDED))
        assert hand_ins.count_graded("ada", 8.0) == 1


def test_pages_are_for_the_notebooks_of_the_exercise(watched):
    hand_in = watched.submit("ada", notebooks=("01-toy", *(f"n{number}" for number in range(9))))
    with watched.watch() as watching:
        watching.intake.look()
        for row in watching.hand_ins.in_state(State.WAITING):
            watching.queue.leave(row, State.LIMITED)
        watching.publish_due()
    assert [path.name for path in (watched.exchange / "feedback").iterdir()] == [
        hand_in.path().name
    ]


@needs_root
@pytest.mark.parametrize("name", ["", "inbound", "feedback"])
def test_an_exchange_of_another_user_is_refused(watched, name):
    path = watched.exchange / name
    os.chown(path, OTHERS["bin"], -1)
    for command in (("collect", "exchange"), ("watch", "--once")):
        result = run(watched.course, *command, "--into", watched.course.output_folder)
        output = " ".join(result.output.split())
        assert result.exit_code == 1 and "belongs to another user (number 2)" in output
        assert "chown -h" in output
    assert path in [fault.path for fault in permissions.problems(watched.course, [])]
    os.chown(path, os.geteuid(), -1)
    permissions.check_owners(watched.course, watched.exchange)
    os.chown(watched.root, OTHERS["bin"], -1)
    with pytest.raises(UserError, match="belongs to another user"):
        permissions.check_owners(watched.course, watched.exchange)


def test_a_copy_that_was_killed_is_made_again(watched):
    watched.submit("ada")
    waiting = watched.course.submitted / ".waiting"
    for left in ("a.part", "b", "c.old"):
        (waiting / left).mkdir(parents=True)
    with watched.watch() as watching:
        assert list(waiting.iterdir()) == []
        watching.intake.look()
        (copy,) = waiting.iterdir()
        assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    with watched.watch() as watching:
        assert list(waiting.iterdir()) == [copy]
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ada"]


def test_an_exchange_that_vanishes_and_returns_is_waited_for(watched):
    with watched.watch() as watching:
        watched.root.rename(watched.root.with_name("away"))
        for _ in range(3):
            watching.intake.look()
        (note,) = watched.trouble_notes()
        assert "No such file or directory" in note and note.endswith("/inbound")
        watched.root.with_name("away").rename(watched.root)
        watched.submit("ada")
        watching.intake.look()
        assert watched.trouble_notes()[1:] == ["exchange: in order again"]
        assert watched.students_of_events("taken") == ["ada"]


def test_a_full_disk_is_waited_for(watched, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(*arguments, **named):
        raise full

    watched.submit("ada")
    with watched.watch() as watching:
        with monkeypatch.context() as patch:
            patch.setattr("autograder.exchange.inbound.HandIn.write", fail)
            watching.intake.look()
            watching.intake.look()
        assert watched.trouble_notes() == ["No space left on device"]
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ada"]


def test_a_second_watch_is_refused(watched):
    with watched.watch(), pytest.raises(UserError, match="Another watch runs for this course"):
        watched.watch().__enter__()
    with watched.watch():
        pass


def test_a_second_watch_of_the_same_submissions_is_refused(watched, tmp_path):
    """It would remove the copies that wait for the first one."""
    hand_in = watched.submit("ada")
    with watched.watch() as watching:
        watching.intake.look()
        (copy,) = watching.hand_ins.in_state(State.WAITING)
        other = Course(root=watched.course.root, output_folder=tmp_path / "trial")
        with pytest.raises(UserError, match="for its submissions"):
            Watch(other, watched.exchange, watched.say, watched.course.submitted).__enter__()
        assert watching.folders.waiting_folder(copy.name).is_dir()
    assert hand_in.folder.is_dir()


# Answers, without grading.


def page_of(course, student, secret, text):
    """Write a feedback page as `grade` does."""
    place = course.paths_of(student, "01-toy")
    place.pages.mkdir(parents=True, exist_ok=True)
    (place.pages / "submission_secret.txt").write_text(secret)
    place.page.write_text(text, encoding="utf-8")


def test_pages_are_published_under_each_notebooks_name_for_all_to_read(watched):
    secret = secrets.token_hex(64)
    row = HandInRow(
        "a", "ada", "01-toy", State.GRADED, time.time(), secret, ["01-toy", "01-toy.zh"]
    )
    page_of(watched.course, "ada", secret, f"<html lang='en'>{notice.HERE}</html>")
    before = os.umask(0o077)
    try:
        with watched.watch() as watching:
            shutil.rmtree(watched.exchange / "feedback")
            row = watching.publisher.publish(row)
    finally:
        os.umask(before)
    pages = list((watched.exchange / "feedback").iterdir())
    assert len(pages) == 2 and all(re.fullmatch(r"[0-9a-f]{32}\.html", page.name) for page in pages)
    assert pages[0].samefile(pages[1])  # the same page takes its bytes once
    assert {stat.S_IMODE(page.stat().st_mode) for page in pages} == {0o644}
    assert stat.S_IMODE((watched.exchange / "feedback").stat().st_mode) == 0o711
    assert "This is the hand-in of" in pages[0].read_text()
    with watched.watch() as watching:
        assert watching.publisher.publish(row) is row  # it is published
        page_of(watched.course, "ada", secret, f"<html lang='en'>{notice.HERE}new</html>")
        assert watching.publisher.publish(row) != row


def test_only_the_last_hand_ins_of_a_student_keep_their_pages(watched, monkeypatch):
    """However often someone hands in pages of many megabytes."""
    monkeypatch.setattr(publishing, "MOST_PAGES", 2)
    ids = [secrets.token_hex(64) for _ in range(4)]
    with watched.watch() as watching:
        for number, secret in enumerate(ids):
            row = HandInRow(secret, "ada", "01-toy", State.GRADED, 1e9 + number, secret, ["01-toy"])
            page_of(watched.course, "ada", secret, f"<html lang='en'>{notice.HERE}mine</html>")
            watching.publisher.publish(row)
    pages = [
        watched.exchange / "feedback" / f"{feedback_name(each, '01-toy')}.html" for each in ids
    ]
    texts = [page.read_text() for page in pages]
    assert ["mine" in text for text in texts] == [False, False, True, True]
    assert all("fetch the feedback of these" in text for text in texts[:2])


def test_a_moved_due_date_hides_all_pages_or_is_tried_again(toy, tmp_path, monkeypatch):
    watched = WatchedCourse(toy, tmp_path, "c.Watch.shows = 'after due date'\n")
    ids = [secrets.token_hex(64) for _ in range(2)]
    with watched.watch() as watching:
        for number, secret in enumerate(ids):
            row = HandInRow(secret, "ada", "01-toy", State.GRADED, 1e9 + number, secret, ["01-toy"])
            page_of(watched.course, "ada", secret, f"<html lang='en'>{notice.HERE}mine</html>")
            row = watching.publisher.publish(row)
        deadlines.path_of(watched.course).write_text("[due]\n01-toy = 2099-01-01T00:00:00Z\n")
        watching.publisher.read_dates()
        written, write = [], watching.publisher._write

        def fail(name, page, same=None):
            if written:
                raise OSError(errno.ENOSPC, "No space left on device")
            written.append(name)
            write(name, page, same)

        monkeypatch.setattr(watching.publisher, "_write", fail)
        with pytest.raises(OSError):
            watching.publisher.publish(row)
        monkeypatch.undo()
        (row,) = watching.hand_ins.newest_graded()
        watching.publisher.publish(row)
    pages = [path.read_text() for path in (watched.exchange / "feedback").iterdir()]
    assert len(pages) == 2 and not any("mine" in page for page in pages)


def test_every_answer_is_in_the_catalogs():
    texts = [text for name, text in vars(publishing).items() if name.isupper()]
    sentences = {text for text in texts if isinstance(text, str) and text.endswith(".")}
    assert publishing.OLDER in sentences and sentences <= set(translations.engine_texts())


def test_due_dates_that_were_away_for_a_while_count_again(watched):
    path = deadlines.path_of(watched.course)
    path.write_text("[due]\n01-toy = 2099-01-01T00:00:00Z\n")
    with watched.watch() as watching:
        publisher = watching.publisher
        for name in ("moved.toml", path.name):
            publisher.read_dates()
            path = path.rename(path.with_name(name))
        publisher.read_dates()
        assert publisher.deadlines.due


def test_a_page_of_another_hand_in_is_not_published(watched):
    row = HandInRow(
        "a", "ada", "01-toy", State.GRADED, time.time(), secrets.token_hex(64), ["01-toy"]
    )
    page_of(watched.course, "ada", secrets.token_hex(64), "<html lang='en'>theirs</html>")
    with watched.watch() as watching:
        watching.publisher.publish(row)
    (page,) = (watched.exchange / "feedback").iterdir()
    assert "theirs" not in page.read_text() and "You handed in a newer one" in page.read_text()


def test_points_can_be_left_out_of_a_page():
    points = "<!--points--><b>3</b><!--/points-->"
    page = f"<html>{points}{notice.HERE}why{points}</html>"
    assert notice.with_notice(page, [], points=False) == "<html>why</html>"
    assert "<b>3</b>" in notice.with_notice(page, [], points=True)


def test_the_platform_gets_scores_after_a_batch_and_then_once_a_minute(toy, tmp_path, monkeypatch):
    watched = WatchedCourse(toy, tmp_path, 'c.Watch.scores = "lti"\n')
    lines = [["1 score sent"], [], []]
    module = types.ModuleType("autograder.school.lti")
    module.send_pending = lambda course: lines.pop(0)
    monkeypatch.setitem(sys.modules, "autograder.school.lti", module)
    with watched.watch() as watching:
        watching.send_scores(now=True)
        watching.send_scores(now=False)
        assert len(lines) == 2
        watching._scores_at = 0
        watching.send_scores(now=False)
        assert len(lines) == 1
    assert [values["note"] for event, _, values in watched.events] == ["1 score sent"]


# With grading.


def test_a_hand_in_is_graded_and_its_feedback_published(isolated, watched):
    """One with a Chinese notebook alone, one without a secret; and a umask that closes all."""
    ada = watched.submit("ada", WRONG, notebooks=("01-toy", "01-toy.zh"))
    ben = watched.submit("ben", notebooks=("01-toy.zh",))
    watched.submit("cai", secret="")
    before = os.umask(0o077)
    try:
        assert watched.run_once() == []
    finally:
        os.umask(before)
    assert sorted(watched.students_of_events("graded")) == ["ada", "ben", "cai"]
    assert sorted(watched.students_of_events("published")) == ["ada", "ben"]
    page = text_of(ada.feedback())
    assert ada.feedback() == ada.feedback("01-toy.zh")
    assert "This is the hand-in of" in page and "Where points were lost" in page
    assert "At most 20 of your hand-ins are graded in an hour; 19 are left." in page
    assert ben.feedback("01-toy.zh") and not ben.feedback()
    for hand_in, name in ((ada, "01-toy"), (ben, "01-toy.zh")):
        assert stat.S_IMODE(hand_in.path(name).stat().st_mode) == 0o644
    for path in (watched.course.submitted, watched.course.autograded, watched.course.feedback):
        assert {stat.S_IMODE(each.stat().st_mode) for each in path.rglob("*")} <= {0o600, 0o700}
    (stamp,) = {
        record_of(watched.course, name, "01-toy").seconds_late for name in ("ada", "ben", "cai")
    }
    assert stamp == 0
    path = watched.course.output_folder / "report.html"
    assert len(report.write(watched.course, path).today) == 3
    assert "Handed in today: 3 submissions" in text_of(path.read_text())
    anonymous = report.write(watched.course, path, anonymous=True)
    assert len(anonymous.today) == 3 and "ada" not in path.read_text()
    # Nothing is done twice, and a hand-in without a secret leaves none of an earlier one.
    watched.events.clear()
    watched.submit("ada", secret="")
    watched.run_once()
    assert watched.students_of_events("graded", "published") == ["ada"]
    assert "submission_secret.txt" not in {
        path.name for path in watched.course.output_folder.glob("*/ada/01-toy/*")
    }
    assert "Where points were lost" in text_of(ada.feedback())  # its own answer stays


def test_no_one_waits_for_a_slow_hand_in(isolated, watched, monkeypatch):
    """Not those of its batch, not one whose page exists already, and not one who joins later."""
    monkeypatch.setattr(running_batch, "JOIN_AFTER", 0.0)
    monkeypatch.setattr(watch, "JOIN_AFTER", 0.0)
    watched.submit("ben")
    watched.run_once()
    watched.events.clear()
    slow = "import time\nwhile time.process_time() < 8:\n    pass\n"
    for student in ("mal", "ben", "cai"):
        watched.submit(
            student, {**RIGHT, "add": slow + RIGHT["add"]} if student == "mal" else RIGHT
        )
    with Watch(watched.course, watched.exchange, watched.say, jobs=2) as watching:
        watching.intake.look()
        later = threading.Timer(0.5, watched.submit, ["ada"])
        later.start()
        watching.grade()
        later.join()
    *first, last = watched.students_of_events("published")
    assert sorted(first) == ["ada", "ben", "cai"] and last == "mal"


def test_what_a_student_was_told_before_changes_with_the_state(watched):
    hand_in = watched.submit("ada")
    with watched.watch() as watching:
        watching.intake.look()
        (row,) = watching.hand_ins.in_state(State.WAITING)
        watching.publisher.settings = replace(watching.settings, per_hour=1)
        watching._publish_now(row)  # that it waits
        before = hand_in.feedback()
        (row,) = watching.hand_ins.in_state(State.WAITING)
        watching.queue.leave(row, State.LIMITED)
        watching.publish_due()
        assert before and hand_in.feedback() != before


def test_a_full_disk_uses_up_no_hand_ins_of_the_hour(watched, monkeypatch):
    monkeypatch.setattr(arrivals, "MOST_PER_HOUR", 2)
    watched.submit("ada")
    with watched.watch() as watching:
        write = watching.folders.write

        def fail(hand_in):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(watching.folders, "write", fail)
        for _ in range(5):
            watching.intake.look()
        assert watched.students_of_events("taken") == [] and watching.troubles
        monkeypatch.setattr(watching.folders, "write", write)
        watching.intake.look()
        assert watched.students_of_events("taken") == ["ada"]


def test_numbers_without_a_user_count_as_one(watched):
    finder = arrivals.Arrivals(str.isdigit, str.isdigit, {7: "ada"}.get)
    users = {finder._user(types.SimpleNamespace(st_uid=uid), "x") for uid in (7, 100_000, 100_001)}
    assert users == {7, None}


def test_of_thousands_of_unfinished_entries_few_are_looked_at_again(watched, monkeypatch):
    finder = arrivals.Arrivals(lambda name: False, lambda name: True, inbound.user_name)
    for _ in range(arrivals.MOST_LOOKED_AT + 20):
        watched.submit("ada", finish=False)
    looks = []
    arrival = finder._arrival
    monkeypatch.setattr(finder, "_arrival", lambda *about: looks.append(1) or arrival(*about))
    with inbound.opened(watched.exchange / "inbound") as folder:
        finder.find(folder)
        looks.clear()
        assert len(finder.find(folder)) == arrivals.MOST_LOOKED_AT == len(looks)


def test_an_unfinished_entry_is_found_when_it_is_complete(watched):
    finder = arrivals.Arrivals(lambda name: False, lambda name: True, inbound.user_name)
    hand_in = watched.submit("ada", finish=False)
    with inbound.opened(watched.exchange / "inbound") as folder:
        assert [each.is_complete for each in finder.find(folder)] == [False]
        hand_in.folder.chmod(0o777)
        assert [each.is_complete for each in finder.find(folder)] == [True]


def test_a_batch_has_one_hand_in_of_each_student(watched):
    waiting = rows(("mal", "1"), ("mal", "2"), ("ada", "1"), ("mal", "3"))
    with watched.watch() as watching:
        assert names(watching.batch.next_of(waiting)) == ["0", "2"]


def who_joins(watching, batch, began, free_workers):
    """Return the hand-ins that join a batch which began then."""
    watching.batch.rows, watching.batch._began = batch, began
    watching._go_on_while_grading()
    return watching._joining(free_workers)


def test_only_those_join_a_batch_whom_it_does_not_serve_yet(watched, monkeypatch):
    now = time.time()
    works = ("mal", "1"), ("mal", "2"), ("ada", "1"), ("ben", "2"), ("cai", "1")
    waiting = [replace(row, arrived=now + row.arrived) for row in rows(*works)]
    batch = {waiting[0].work: waiting[0]}
    with watched.watch() as watching:
        for row in waiting:
            watching.hand_ins.keep(row)
        monkeypatch.setattr(watching.queue, "place", lambda rows: rows)
        monkeypatch.setattr(watching.queue, "_has_copy", lambda row: True)
        watching.batch.exercises = {"1"}
        began = time.monotonic() - running_batch.JOIN_AFTER - 1
        assert names(who_joins(watching, batch, began, free_workers=1)) == [
            "2"
        ]  # not mal, not exercise 2
        assert names(who_joins(watching, batch, began, free_workers=9)) == ["2", "4"]
        finished = {waiting[0].work: replace(waiting[0], state=State.GRADED)}
        assert names(who_joins(watching, finished, began, free_workers=9)) == [
            "2",
            "4",
        ]  # mal comes last
        assert who_joins(watching, batch, began, free_workers=0) == []
        assert who_joins(watching, batch, time.monotonic(), free_workers=9) == []
        assert names(who_joins(watching, batch, began - 3600, free_workers=9)) == ["2", "4"]
        watching.queue.settings = replace(watching.settings, per_hour=1)
        graded = HandInRow("earlier", "cai", "2", State.GRADED, graded=now)
        watching.hand_ins.keep(graded)
        assert names(who_joins(watching, batch, began, free_workers=9)) == ["2"]
        watching.batch.exercises = {"1", "2"}  # workers have both from an earlier batch
        watching.queue.settings = replace(watching.settings, per_hour=0)
        assert names(who_joins(watching, batch, began, free_workers=9)) == ["2", "3", "4"]
        watching.stopping = True
        assert who_joins(watching, batch, began, free_workers=9) == []


@pytest.fixture
def joining(watched, monkeypatch):
    """Return what can join a batch in which Mal's hand-in runs, or is finished: Ada's, if any."""
    mal = HandInRow("0", "mal", "01-toy", arrived=time.time())
    with watched.watch() as watching:
        watching.hand_ins.keep(mal)
        watching.hand_ins.keep(HandInRow("1", "ada", "01-toy", arrived=time.time()))
        monkeypatch.setattr(watching.queue, "place", lambda rows: rows)
        monkeypatch.setattr(watching.queue, "_has_copy", lambda row: True)
        watching.batch.exercises, watching.batch._names = {"01-toy"}, {mal.name}

        def join(state=State.WAITING):
            watching._published_at = 0.0  # it looks for reasons now and then
            began = time.monotonic() - 3600
            batch = {mal.work: replace(mal, state=state)}
            return names(who_joins(watching, batch, began, free_workers=1))

        assert join() == ["1"] and join(State.GRADED)[-1:] == ["1"]
        yield watching, join


def long_waiting(name, student, exercise):
    """Return a hand-in that has waited for longer than others may join before it."""
    return HandInRow(name, student, exercise, arrived=time.time() - running_batch.MOST_WAIT - 1)


NEXT_BATCH_IS_NEEDED = {
    "another program waits": lambda watching, monkeypatch: monkeypatch.setattr(
        gradebook, "is_wanted", lambda course: True
    ),
    "no worker has the exercise": lambda watching, monkeypatch: watching.hand_ins.keep(
        long_waiting("2", "ben", "02-new")
    ),
    "a batch failed": lambda watching, monkeypatch: (
        watching.hand_ins.keep(long_waiting("2", "ben", "01-toy")),
        watching.batch._suspects.add("2"),
    ),
    "one fault": lambda watching, monkeypatch: (
        watching.hand_ins.keep(long_waiting("2", "ben", "01-toy")),
        watching.batch._names.add("2"),
        watching.batch._suspects.add("2"),
        watching.batch.students_with_faults.add("ben"),
    ),
}


@pytest.mark.parametrize("reason", NEXT_BATCH_IS_NEEDED)
def test_others_join_a_batch_that_should_end_only_while_it_cannot(joining, monkeypatch, reason):
    watching, join = joining
    NEXT_BATCH_IS_NEEDED[reason](watching, monkeypatch)
    assert "1" in join()
    assert join(State.GRADED) == []


def test_others_join_again_when_no_one_waits_for_the_end_any_more(joining, monkeypatch):
    _, join = joining
    with monkeypatch.context() as patch:
        patch.setattr(gradebook, "is_wanted", lambda course: True)
        join()
        assert join(State.GRADED) == []
    assert "1" in join(State.GRADED)


def test_a_hand_in_that_is_not_to_be_graded_now_ends_no_batch(joining):
    watching, join = joining
    watching.hand_ins.keep(long_waiting("2", "ben", "02-new"))
    watching.events.delays.add("2")
    join()
    assert "1" in join(State.GRADED)


def test_no_one_joins_a_batch_whose_workers_should_grade_nothing_more(joining, monkeypatch):
    watching, join = joining
    monkeypatch.setattr(watching.executor, "is_outdated", lambda: True)
    assert join() == []


def test_a_batch_with_faults_ends_but_others_join_while_it_cannot(joining):
    watching, join = joining
    watching.batch.students_with_faults.update({"eve", "dan", "fay"})
    assert join() == ["1"]  # one of the first is under way
    assert join(State.GRADED) == []


def test_a_batch_does_not_begin_while_another_program_waits_for_the_gradebook(watched):
    watched.submit("ada")
    ready, has_it, free = threading.Event(), threading.Event(), threading.Event()

    def wait():
        with gradebook.opened(watched.course, lambda line: ready.set()):
            has_it.set()
            free.wait(20)

    waiter = threading.Thread(target=wait)
    with watched.watch() as watching:
        watching.intake.look()
        with gradebook.opened(watched.course, print):
            waiter.start()
            assert ready.wait(20)
            while not gradebook.is_wanted(watched.course):
                time.sleep(0.01)
            assert not watching.grade()
            assert "Another program waits for the gradebook" in watching.troubles[0]
        assert has_it.wait(20) and not gradebook.is_wanted(watched.course)
        free.set()
        waiter.join()


def test_an_exercise_that_is_gone_keeps_no_other_from_being_graded(watched):
    with watched.watch() as watching:
        watching.hand_ins.keep(HandInRow("1", "ben", "02-gone", arrived=time.time()))
        watching.batch.begin(rows(("ada", "01-toy")))
        assert watching.batch.exercises == {"01-toy"}
        with pytest.raises(UserError, match="02-gone"):
            watching._grade_batch(rows(("ada", "02-gone")))


def test_nothing_is_placed_where_another_program_would_grade_it(watched, monkeypatch):
    watched.submit("ada")

    @contextmanager
    def busy(course, waiting):
        waiting("Waiting until the gradebook is free. In use by: grade.")
        yield

    with watched.watch() as watching:
        watching.intake.look()
        with monkeypatch.context() as patch:
            patch.setattr(gradebook, "opened", busy)
            assert not watching.grade() and watching.troubles
        assert not (watched.course.submitted / "ada").exists()


def test_what_was_tried_counts_whatever_a_submission_imports(toy, monkeypatch):
    tried = []

    def configure(executor, config, *rest):
        tried.append(config)
        return replace(config, trial_results=(("gpu", "no"),))

    monkeypatch.setattr(LocalExecutor, "configure", configure)
    executor = WarmExecutor(1)
    for imports in [(), ("import torch",), ()]:
        config = WorkerConfig.for_course(toy, toy.exercises(), Limits())
        settled = executor.configure(replace(config, imports=imports), True, False, print)
        assert (settled.trial_results, settled.imports) == ((("gpu", "no"),), imports)
    assert len(tried) == 1


def test_a_hand_in_without_a_secret_is_not_older_than_itself(watched):
    """Its time may be that of a clock that is ahead."""
    watched.submit("ada", secret="none")
    with watched.watch() as watching:
        watching.intake.look()
        (row,) = watching.hand_ins.in_state(State.WAITING)
        assert watching.queue.place([row]) != []
        stamp = datetime.now(UTC) + timedelta(seconds=0.1)
        folder = watching.folders.submission_folder("ada", "01-toy")
        (folder / "timestamp.txt").write_text(f"{stamp:%Y-%m-%d %H:%M:%S.%f} UTC")
        time.sleep(0.2)
        assert watching.queue.place([row]) != []


def test_renaming_a_graded_hand_in_is_no_attempt(isolated, watched):
    first = watched.submit("ada")
    watched.run_once()
    watched.submit("ada", secret=first.secret, time=datetime.now(UTC) + timedelta(seconds=1))
    watched.run_once()
    assert watched.students_of_events("graded") == ["ada", "ada"]
    with watched.watch() as watching:
        assert watching.hand_ins.count_attempts("ada", "01-toy") == 1


def test_a_newer_one_is_graded_and_the_older_says_so(isolated, watched):
    older = watched.submit("ada", WRONG)
    with watched.watch() as watching:
        watching.intake.look()
        newer = watched.submit("ada")
        watching.run(once=True)
    assert (
        watched.students_of_events("superseded") == watched.students_of_events("graded") == ["ada"]
    )
    assert "You handed in a newer one before it was graded." in text_of(older.feedback())
    assert "6 of 9 points" in text_of(newer.feedback())
    third = watched.submit("ada", WRONG)
    watched.run_once()
    assert "Where points were lost" in text_of(third.feedback())
    assert "6 of 9 points" in text_of(newer.feedback())


def test_attempts_and_the_hourly_limit_are_counted_and_told(isolated, toy, tmp_path):
    watched = WatchedCourse(toy, tmp_path, "c.Watch.attempts = 1\n")
    first = watched.submit("ada", WRONG)
    watched.run_once()
    assert "0 of 1 graded hand-ins of this exercise are left." in text_of(first.feedback())
    asks = watched.submit("ada", WRONG, request="add: Why?")  # to ask is no attempt
    watched.run_once()
    assert "Your regrade request on add waits" in text_of(asks.feedback())
    again = watched.submit("ada")
    watched.run_once()
    assert watched.students_of_events("limited") == ["ada"]
    assert "only 1 hand-ins of this exercise are graded" in text_of(again.feedback())
    assert record_of(watched.course, "ada", "01-toy").score < 6

    with (watched.course.root / "nbgrader_config.py").open("a") as file:
        file.write("c.Watch.attempts = 0\nc.Watch.per_hour = 1\n")
    watched.course = Course(root=watched.course.root, output_folder=watched.course.output_folder)
    waits = watched.submit("ada")
    watched.run_once()
    assert "It is not graded yet: at most 1 of your hand-ins" in text_of(waits.feedback())
    with watched.watch() as watching:  # an hour later
        for row in watching.hand_ins.in_state(State.GRADED):
            watching.hand_ins.keep(watch.replace(row, graded=row.graded - 3601))
        watching.run(once=True)
    assert "6 of 9 points" in text_of(waits.feedback())


LATE = f"""
c.AssignLatePenalties.plugin_class = "{late.PLUGIN}"
c.PerDay.percent = 50
"""


def due(watched, when, extension=""):
    lines = f"[due]\n01-toy = {when.strftime('%Y-%m-%dT%H:%M:%SZ')}\n{extension}"
    deadlines.path_of(watched.course).write_text(lines, encoding="utf-8")


def test_the_time_of_arrival_decides_what_is_late_and_asking_costs_nothing(isolated, toy, tmp_path):
    watched = WatchedCourse(toy, tmp_path, LATE)
    now = datetime.now(UTC)
    due(watched, now + timedelta(hours=1))
    early = watched.submit("ada", WRONG)
    watched.submit("mal", WRONG, time=now - timedelta(days=9))
    watched.run_once()
    points = record_of(watched.course, "ada", "01-toy").score
    due(watched, now - timedelta(seconds=1))  # before what comes next; ada's has another time
    stamp = (now - timedelta(minutes=1)).strftime("%Y-%m-%d %H:%M:%S UTC")
    for path in watched.course.root.glob("*/ada/01-toy/timestamp.txt"):
        path.write_text(stamp)
    watched.submit("ada", WRONG, request="add: Why not minus?")
    watched.submit("mal", WRONG, time=now - timedelta(days=9))
    watched.run_once()
    record = record_of(watched.course, "ada", "01-toy")
    assert [request.text for request in record.requests] == ["Why not minus?"]
    rows = {row["student_id"]: row for row in records.rows(watched.course)}
    assert rows["mal"]["late_submission_penalty"] > 0
    assert early.feedback() and points > 0


def test_only_reasons_or_nothing_before_the_due_date(isolated, toy, tmp_path):
    watched = WatchedCourse(toy, tmp_path, 'c.Watch.shows = "reasons"\n')
    hand_in = watched.submit("ada", WRONG)
    watched.run_once()
    page = hand_in.feedback()
    assert "Each element is the sum of the two." in text_of(page)
    assert not re.search(r"\bof 9 points|class=\"n\"|made-of|−\d|of [369]\b", page)
    assert "of 9 points" in watched.course.paths_of("ada", "01-toy").page.read_text()

    config = watched.course.root / "nbgrader_config.py"
    config.write_text(config.read_text().replace('"reasons"', '"after due date"'))
    watched.course = Course(root=watched.course.root, output_folder=watched.course.output_folder)
    due(watched, datetime.now(UTC) + timedelta(hours=1))
    watched.run_once()
    page = text_of(hand_in.feedback())
    assert "You can fetch the feedback after" in page and "sum of the two" not in page
    extension = '[[extension]]\nstudent = "ada"\nexercise = "01-toy"\ntime = "2h"\n'
    due(watched, datetime.now(UTC) - timedelta(hours=1), extension)
    watched.run_once()
    assert "You can fetch the feedback after" in text_of(hand_in.feedback())
    due(watched, datetime.now(UTC) - timedelta(hours=1))
    watched.run_once()
    assert "of 9 points" in hand_in.feedback()


def test_all_hand_ins_of_a_student_follow_the_due_date(isolated, toy, tmp_path):
    watched = WatchedCourse(toy, tmp_path, 'c.Watch.shows = "after due date"\n')
    due(watched, datetime.now(UTC) + timedelta(hours=1))
    hand_ins = []
    for answers in (WRONG, RIGHT):
        hand_ins.append(watched.submit("ada", answers))
        watched.run_once()
    pages = [text_of(hand_in.feedback()) for hand_in in hand_ins]
    assert all("You can fetch the feedback after" in page for page in pages)
    due(watched, datetime.now(UTC) - timedelta(hours=1))
    watched.run_once()
    older, newest = (text_of(hand_in.feedback()) for hand_in in hand_ins)
    assert "You can fetch the feedback after" not in older and "of 9 points" not in older
    assert "of 9 points" in newest
    due(watched, datetime.now(UTC) + timedelta(hours=1))
    watched.run_once()
    assert all("of 9 points" not in text_of(hand_in.feedback()) for hand_in in hand_ins)


def test_the_due_date_may_be_in_the_gradebook_alone(isolated, toy, tmp_path):
    watched = WatchedCourse(toy, tmp_path, 'c.Watch.shows = "after due date"\n')
    with gradebook.opened(watched.course) as book:
        book.update_or_create_assignment(
            "01-toy", duedate="2999-01-01T00:00:00", course_id=watched.course.course_id
        )
    hand_in = watched.submit("ada", WRONG)
    watched.run_once()
    page = text_of(hand_in.feedback())
    assert "You can fetch the feedback after" in page and "sum of the two" not in page


def test_a_hand_in_whose_copy_is_lost_is_taken_again(isolated, watched):
    """It does not get the grade of the earlier one, which lies where it would."""
    watched.submit("ada", WRONG)
    watched.run_once()
    earlier = record_of(watched.course, "ada", "01-toy").score
    hand_in = watched.submit("ada")
    with watched.watch() as watching:
        watching.intake.look()
        (row,) = watching.hand_ins.in_state(State.WAITING)
        shutil.rmtree(watching.folders.waiting_folder(row.name))
        assert not watching.grade()
        assert not watching.hand_ins.in_state(State.WAITING)
    watched.run_once()
    assert record_of(watched.course, "ada", "01-toy").score > earlier
    assert "of 9 points" in hand_in.feedback()


def test_a_page_that_changes_later_is_published_again(isolated, watched):
    hand_in = watched.submit("ada", WRONG)
    watched.run_once()
    before = hand_in.feedback()
    with gradebook.opened(watched.course) as book:
        book.find_comment("add", "01-toy", "01-toy", "ada").manual_comment = "See page 3."
        book.db.commit()
    assert run(watched.course, "grade", "--into", watched.course.output_folder).exit_code == 0
    assert hand_in.feedback() == before
    watched.run_once()
    assert "See page 3." in hand_in.feedback()


def test_a_gradebook_that_another_program_has_is_waited_for(isolated, watched):
    watched.submit("ada")
    with watched.watch() as watching:
        with locks.lock(watched.course.gradebook.with_name("gradebook.db.lock"), print):
            watching.intake.look()
            assert not watching.grade()
            watching._retry_at = 0
            assert not watching.grade()
            (note,) = watched.trouble_notes()
            assert "Waiting until the gradebook" in note and "is free. In use by" in note
        watching._retry_at = 0
        assert watching.grade()
        assert watched.students_of_events("graded") == ["ada"] and len(watched.trouble_notes()) == 2


def test_a_full_disk_while_pages_are_published_is_waited_for(isolated, watched, monkeypatch):
    hand_in = watched.submit("ada")

    def fail(*arguments, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_write", fail)
        assert watched.run_once() == ["No space left on device"]
    assert hand_in.feedback() is None and watched.students_of_events("graded") == ["ada"]
    assert watched.run_once() == []
    assert "6 of 9 points" in text_of(hand_in.feedback())


def test_a_batch_that_ends_between_a_grade_and_its_page_is_completed(
    isolated, watched, monkeypatch
):
    hand_in = watched.submit("ada", WRONG)

    def fail(self, task):
        raise RuntimeError("this is a test")

    with monkeypatch.context() as patch:
        patch.setattr(batch.Batch, "_needs_page", fail)
        assert watched.run_once() == ["RuntimeError: this is a test"]
    assert watched.students_of_events("graded") == ["ada"] and hand_in.feedback() is None
    assert watched.run_once() == []
    assert "Where points were lost" in text_of(hand_in.feedback())
    assert record_of(watched.course, "ada", "01-toy").history == []


def fault(self, task, answer):
    """Stand in for `Batch._outcome`: the grader itself failed on the submission."""
    return worker.ungraded(batch._released(task), "this is a test")


def test_a_hand_in_on_which_the_grader_fails_is_tried_until_it_is_graded(
    isolated, watched, monkeypatch
):
    hand_in = watched.submit("ada")
    with watched.watch() as watching:
        watching.intake.look()
        with monkeypatch.context() as patch:
            patch.setattr(batch.Batch, "_outcome", fault)
            for count in (1, 2, 3, 4):
                watching._retry_at = 0.0
                assert watching.grade()
                (row,) = watching.hand_ins.in_state(State.WAITING)
                assert row.tries == count and "our own fault" in text_of(hand_in.feedback())
                assert not watching.events.delays.is_due(row.name)
                watching._retry_at = 0.0
                assert not watching.grade()  # not at once
                watching.publish_due()
                _, delay = watching.events.delays._failed[row.name]
                assert delay == delays.FIRST_DELAY * 2 ** (count - 1)
                watching.events.delays._failed[row.name] = 0.0, delay  # as if it had passed
        watching._retry_at = 0.0
        assert watching.grade()
    assert "6 of 9 points" in text_of(hand_in.feedback())
    assert watched.students_of_events("failed") == 4 * ["ada"]


# As a program.


@contextmanager
def started(watched, *options):
    """Start a watch as a program; its events are lines of JSON."""
    command = [sys.executable, "-m", "autograder", "watch", "--json", "--jobs", "1"]
    with subprocess.Popen(
        [*command, "--course", str(watched.course.root), *options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def until(condition, seconds=600):
    """Wait for something, and fail if it does not come."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.1)
    return value


def test_a_program_takes_what_comes_and_ends_at_sigterm(isolated, watched):
    with started(watched) as process:
        until(lambda: (watched.course.output_folder / "watch.db").exists())
        hand_in = watched.submit("ada", WRONG)
        until(hand_in.feedback)
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=1800)[0]
    assert process.returncode == 0, output
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    events = [event for event in events if event["event"] != "note"]  # of this machine's homes
    kinds = [event["event"] for event in events]
    assert kinds == ["watching", "taken", "graded", "published", "ended"], output
    assert events[2]["score"] < 6 and events[3]["seconds"] < 120


def killed_at_random(watched, kills, students=4):
    """Hand in while a watch is killed again and again; return the hand-ins that have to be
    answered.
    """
    random.seed(1)
    hand_ins = []
    for number in range(kills):
        with started(watched) as process:
            for student in range(students):
                answers = {**WRONG, "twice": f"def twice(a):\n    return {number} + 2 * a"}
                hand_ins.append(watched.submit(f"student{student}", answers))
            time.sleep(random.uniform(0, 12))
            process.kill()
    with started(watched, "--once") as process:
        output = process.communicate(timeout=1800)[0]
    assert process.returncode == 0, output
    return hand_ins


def assert_each_is_answered_once(watched, hand_ins, students=4):
    assert all(hand_in.feedback() for hand_in in hand_ins)
    for student in range(students):
        record = record_of(watched.course, f"student{student}", "01-toy")
        digests = [entry["submission"] for entry in record.history] + [record.submission_digest]
        assert len(digests) == len(set(digests))  # none was graded twice
        newest = text_of(hand_ins[student - students].feedback())
        assert "You handed in a newer one" not in newest
    with HandInStore(watched.course.output_folder / "watch.db") as rows:
        assert rows.in_state(State.WAITING) == [] and rows.unpublished() == []
        assert len(rows.names) == len(hand_ins)
    assert list((watched.course.submitted / ".waiting").iterdir()) == []
    assert not list((watched.exchange / "feedback").glob("*-tmp.html"))


def test_a_watch_that_is_killed_loses_nothing_and_does_nothing_twice(isolated, watched):
    hand_ins = killed_at_random(watched, 2, students=2)
    assert_each_is_answered_once(watched, hand_ins, students=2)


@pytest.mark.long
def test_ten_kills_lose_nothing(isolated, watched):
    assert_each_is_answered_once(watched, killed_at_random(watched, 10))


@needs_root
@pytest.mark.long
def test_attacks_of_another_user_change_nothing_and_delay_no_one(isolated, toy, tmp_path):
    """daemon works, bin attacks: links, a pipe, another name, 2099, changes, many files, a flood."""
    watched = WatchedCourse(toy, tmp_path, owners=True)
    mine, theirs = OTHERS["daemon"], OTHERS["bin"]
    stop = threading.Event()
    with started(watched) as process:
        until(lambda: (watched.course.output_folder / "watch.db").exists())
        first = watched.submit("daemon", WRONG, uid=mine)
        until(first.feedback)
        before = first.feedback()
        text = notebook_with(watched.course, WRONG)

        def attack(change):
            hand_in = submit(watched.exchange, "bin", {"01-toy.ipynb": text}, finish=False)
            change(hand_in.folder)
            os.chown(hand_in.folder, theirs, theirs)
            hand_in.folder.chmod(0o777)
            return hand_in

        secret = watched.course.secret
        attacks = [
            attack(lambda folder: (folder / "a").symlink_to(secret)),
            attack(lambda folder: (folder / "a").hardlink_to(secret)),
            attack(lambda folder: os.mkfifo(folder / "a")),
        ]
        for name in ("daemon", "bin"):
            watched.submit(name, uid=theirs, time=datetime(2099, 1, 1, tzinfo=UTC))
        many = {f"data/{number}": "" for number in range(10_000)}
        submit(watched.exchange, "bin", {"01-toy.ipynb": text, **many}, uid=theirs)
        changing = watched.submit("bin", uid=theirs)

        def change():
            while not stop.is_set():
                (changing.folder / "01-toy.ipynb").write_text(text)

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(200):
                watched.submit("bin", uid=theirs)
            began = time.monotonic()
            second = watched.submit("daemon", uid=mine)
            until(second.feedback)
            assert time.monotonic() - began < 60
        finally:
            stop.set()
            thread.join()
            process.kill()
    assert first.feedback() == before
    assert "6 of 9 points" in text_of(second.feedback())
    assert all(hand_in.feedback() is None for hand_in in attacks)
    assert secret.read_text().strip() not in "".join(
        path.read_text() for path in (watched.exchange / "feedback").iterdir()
    )
    assert record_of(watched.course, "daemon", "01-toy").score == 6


# Collecting without grading, and what is open to others.


@pytest.fixture(autouse=True)
def umask():
    """Commands of a course with an exchange close what they write; tests do not stay so."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_collect_exchange_takes_the_newest_of_each_and_grades_nothing(watched):
    watched.submit("ada", WRONG)
    time.sleep(0.02)
    newer = watched.submit("ada")
    watched.submit("ben", finish=False)
    link = watched.submit("cai", finish=False)
    (link.folder / "x").symlink_to("/etc/passwd")
    link.folder.chmod(0o777)
    result = run(watched.course, "collect", "exchange", "--into", watched.course.output_folder)
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    assert "x is a link." in output and "it was not completed." in output
    assert "1 written to submitted, 0 left unchanged, 2 refused." in output
    folder = watched.course.submitted / "ada" / "01-toy"
    assert (folder / "submission_secret.txt").read_text() == newer.secret
    assert not (watched.course.submitted / "cai").exists()
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    again = run(
        watched.course, "collect", "exchange", "--into", watched.course.output_folder
    ).output
    assert "0 written to submitted, 1 left unchanged, 2 refused." in " ".join(again.split())
    with watched.watch():
        result = run(watched.course, "collect", "exchange", "--into", watched.course.output_folder)
    assert result.exit_code == 1 and "takes hand-ins by itself" in " ".join(result.output.split())


def test_collect_exchange_is_stopped_by_no_name_and_no_fault(watched, monkeypatch):
    raw(watched, b"me+\xff+2024-01-01 00:00:00 UTC")
    broken = watched.submit("ada", time="2024-01-01 00:00:00 -9999").folder.name
    watched.submit("ben")
    read = collecting.inbound.read

    def fail(folder, entry, *rest):
        if entry.name == broken:
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        return read(folder, entry, *rest)

    monkeypatch.setattr(collecting.inbound, "read", fail)
    collected = collecting.collect(watched.course, watched.exchange, watched.course.submitted)
    assert [entry.student for entry in collected.written] == ["ben"]
    assert (broken, "OSError: [Errno 36] File name too long") in collected.refused
    monkeypatch.setattr(collecting.inbound, "read", read)
    collected = collecting.collect(watched.course, watched.exchange, watched.course.submitted)
    assert [entry.student for entry in collected.written] == ["ada"]


@pytest.mark.parametrize("call", ["open", "stat"])
def test_collect_exchange_takes_no_older_one_because_a_disk_fails(watched, monkeypatch, call):
    watched.submit("ada", WRONG)
    time.sleep(0.02)
    newer = watched.submit("ada")
    works = getattr(os, call)

    def fail(path, *arguments, **named):
        if path == newer.folder.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return works(path, *arguments, **named)

    monkeypatch.setattr(os, call, fail)
    collected = collecting.collect(watched.course, watched.exchange, watched.course.submitted)
    monkeypatch.undo()
    assert collected.written == []
    assert collected.refused == [(newer.folder.name, "it cannot be read: Input/output error")]
    collected = collecting.collect(watched.course, watched.exchange, watched.course.submitted)
    assert [entry.name for entry in collected.written] == [newer.folder.name]


def test_collect_exchange_reads_few_of_one_student(watched, monkeypatch):
    read, reads = collecting.inbound.read, []
    monkeypatch.setattr(
        collecting.inbound, "read", lambda *rest: reads.append(rest[1].student) or read(*rest)
    )
    watched.submit("ben")
    for number in range(9):
        raw(watched, f"ada+01-toy+2024-01-01 {number} UTC".encode())
    collected = collecting.collect(watched.course, watched.exchange, watched.course.submitted)
    assert [entry.student for entry in collected.written] == ["ben"]
    assert reads.count("ada") == collecting.MOST_TRIED == len(collected.refused)


@needs_root
def test_collect_exchange_is_not_misled_by_the_folders_of_another_user(toy, tmp_path):
    watched = WatchedCourse(toy, tmp_path, owners=True)
    right = watched.submit("daemon", uid=OTHERS["daemon"])
    for _ in range(9):
        watched.submit("daemon", WRONG, uid=OTHERS["bin"])
    collected = collecting.collect(watched.course, watched.exchange, watched.course.submitted)
    assert [entry.name for entry in collected.written] == [right.folder.name]


def test_collect_exchange_needs_an_exchange(toy, tmp_path):
    shutil.copytree(toy.root, tmp_path / "course")
    course = Course(root=tmp_path / "course", output_folder=tmp_path / "course")
    for command in (("collect", "exchange"), ("watch",)):
        result = run(course, *command, "--into", course.output_folder)
        assert result.exit_code == 1
        assert "No exchange is configured. Set c.Exchange.root" in " ".join(result.output.split())


def test_doctor_names_what_is_open_to_others_with_its_fix(watched, tmp_path):
    course, home = watched.course, tmp_path / "home"
    home.mkdir(mode=0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(0o755)  # for this test alone, others can come here
    (course.root / "submitted").mkdir(mode=0o777)
    (course.root / "submitted").chmod(0o777)
    for name in ("gradebook.db", ".course-secret"):
        (course.root / name).write_text("")
        (course.root / name).chmod(0o644)
    watched.root.chmod(0o777)
    (watched.exchange / "inbound").chmod(0o777)
    (watched.exchange / "feedback").chmod(0o755)

    def fixes():
        return {fault.path: fault.fix for fault in permissions.problems(course, [home])}

    commands = fixes()
    assert set(commands) >= {
        course.gradebook, course.secret, course.submitted, course.root / "solutions", home,
        watched.root, watched.exchange / "inbound", watched.exchange / "feedback",
    }  # fmt: skip
    for fix in commands.values():
        subprocess.run(fix, shell=True, check=True)
    assert fixes() == {}
    assert stat.S_IMODE(watched.root.stat().st_mode) == 0o1777
    assert stat.S_IMODE((watched.exchange / "inbound").stat().st_mode) == 0o2733
    course.gradebook.chmod(0o644)
    course.root.chmod(0o700)  # nobody can come there
    assert fixes() == {}
    course.root.chmod(0o755)
    unsafe = [one for one in doctor._shared(course.root) if one.state == "unsafe"]
    assert f"{course.gradebook}: other users can read or change it" in [one.value for one in unsafe]


def test_nothing_is_unsafe_where_students_are_no_users(toy):
    assert list(permissions.problems(toy)) == []

"""The watch: what is handed in through nbgrader's exchange is graded at once, and answered."""

import errno
import json
import os
import random
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import types
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from conftest import ROOT, toy_course
from exchange_tools import OTHERS, exchange_of, name_of, notebook_with, submit
from test_grading import RIGHT, run

from autograder.authoring.release import release
from autograder.commands import doctor
from autograder.course import deadlines, locks
from autograder.course.config import Course, UserError
from autograder.course.watch_settings import WatchSettings
from autograder.exchange import fairness, watch
from autograder.exchange.publishing import Publisher
from autograder.exchange.state import HandIns, Row, State
from autograder.exchange.watch import Watch
from autograder.feedback import notice
from autograder.grades import gradebook, late, records
from autograder.grades.records import record_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the exchange needs Linux")
WRONG = {**RIGHT, "add": "def add(a, b):\n    return a - b"}
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be several users"
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A released toy course."""
    course = toy_course(tmp_path_factory.mktemp("toy") / "course")
    for exercise in course.sources():
        release(course, exercise)
    return course


class Class:
    """A course with an exchange, in which the students are names of one system user."""

    def __init__(self, toy, folder, settings="", owners=False):
        shutil.copytree(toy.root, folder / "course")
        self.root = folder / "exchange"
        lines = f"\nc.Exchange.root = {str(self.root)!r}\nc.Watch.check_owner = {owners}\n"
        with (folder / "course" / "nbgrader_config.py").open("a", encoding="utf-8") as file:
            file.write(lines + settings)
        self.course = Course(root=folder / "course", into=folder / "course")
        self.exchange = exchange_of(self.course, self.root)
        self.events = []

    def say(self, event, **values):
        self.events.append((event, values.get("student", ""), values))

    def told(self, *wanted):
        """Return the students that events of these kinds are about."""
        return [student for event, student, _ in self.events if event in wanted]

    def notes(self):
        """Return what the watch said that is wrong, and that it went on."""
        return [
            values["note"] for event, _, values in self.events if event in ("waits", "goes on")
        ]

    def submit(self, student, answers=RIGHT, request="", notebooks=("01-toy",), **named):
        text = notebook_with(self.course, answers, request)
        files = {f"{name}.ipynb": text for name in notebooks}
        return submit(self.exchange, student, files, **named)

    def watch(self, **named):
        return Watch(self.course, self.exchange, self.say, jobs=1, **named)

    def once(self):
        """Do what there is to do."""
        with self.watch() as watching:
            watching.run(once=True)
            return watching.troubles


@pytest.fixture
def school(toy, tmp_path):
    return Class(toy, tmp_path)


def text_of(page):
    return " ".join(BeautifulSoup(page, "html.parser").get_text(" ").split())


# Whose turn it is.


def rows(*works, arrived=None):
    return [
        Row(f"{number}", student, exercise, arrived=float(number))
        for number, (student, exercise) in enumerate(works)
    ]


def chosen(waiting, attempts=float("inf"), hour=float("inf")):
    return fairness.choose(waiting, lambda row: attempts, lambda student: hour)


def names(found):
    return [row.name for row in found]


def test_students_take_turns_and_only_the_newest_counts():
    waiting = rows(("ada", "1"), ("ada", "2"), ("ada", "3"), ("ben", "1"), ("ada", "1"))
    choice = chosen(waiting)
    assert names(choice.superseded) == ["0"]
    assert names(choice.grade) == ["4", "3", "1", "2"] or names(choice.grade)[:2] == ["1", "3"]


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
    school = Class(toy, tmp_path, f"{line}\n")
    with pytest.raises(UserError) as error:
        WatchSettings.configured(school.course.config)
    assert message in str(error.value)


def test_the_settings_have_defaults(school):
    found = WatchSettings.configured(school.course.config)
    assert found == WatchSettings("points", 0, 20, "", check_owner=False)


# The database of hand-ins.


def test_a_row_is_kept_and_found_again(tmp_path):
    path = tmp_path / "watch.db"
    with HandIns(path) as hand_ins:
        row = hand_ins.keep(Row("a", "ada", "1", arrived=2.0, secret="s", notebooks=["n"]))
        other = hand_ins.keep(Row("b", "ada", "1", State.GRADED, arrived=1.0, graded=9.0))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with HandIns(path) as hand_ins:
        assert hand_ins.in_state(State.WAITING) == [row] and hand_ins.names == {"a", "b"}
        assert hand_ins.newest_graded() == [other]
        assert hand_ins.count_attempts("ada", "1") == hand_ins.count_attempts("ada") == 1
        assert hand_ins.count_attempts("ada", since=9.5) == 0


def test_a_damaged_database_is_named(tmp_path):
    (tmp_path / "watch.db").write_bytes(b"no database, but long enough to be one" * 30)
    with pytest.raises(UserError, match="watch.db is damaged: .* Move it away"):
        HandIns(tmp_path / "watch.db")


# Taking, without grading.


def test_hand_ins_are_taken_and_refused_with_a_line_each(school):
    school.submit("ada")
    unfinished = school.submit("ben", finish=False)
    odd = submit(school.exchange, "x", {}, name="x+y+2026-01-01 UTC")
    (school.exchange / "inbound" / "stray").write_text("")
    with school.watch() as watching:
        watching.look()
        watching.look()
        assert school.told("taken") == ["ada"] and len(school.told("refused")) == 2
        reasons = {values["name"]: values["reason"] for _, _, values in school.events[:3] if "reason" in values}
        assert reasons["stray"] == "it is a file, not a folder"
        assert reasons[odd.folder.name] == "there is no exercise y"
        unfinished.folder.chmod(0o777)
        watching.look()
        assert school.told("taken") == ["ada", "ben"]


def test_a_half_written_one_is_refused_after_ten_minutes(school, monkeypatch):
    school.submit("ada", finish=False)
    with school.watch() as watching:
        watching.look()
        assert school.events == []
        now = time.monotonic()
        monkeypatch.setattr(watch.time, "monotonic", lambda: now + 601)
        watching.look()
        (event,) = school.events
        assert event[0] == "refused" and "10 minutes have passed" in event[2]["reason"]


def test_one_user_is_copied_a_few_at_a_time(toy, tmp_path):
    school = Class(toy, tmp_path)
    hand_ins = [school.submit("mal") for _ in range(12)]
    with school.watch() as watching:
        watching.look()
        assert len(school.told("taken")) == watch.MOST_AT_ONCE
        watching.look()
        watching.look()
        assert len(school.told("taken")) == len(hand_ins)
        taken = [values["name"] for event, _, values in school.events if event == "taken"]
        assert taken == [hand_in.folder.name for hand_in in hand_ins]


@as_root
def test_hand_ins_under_another_name_change_nothing_of_its_owner(toy, tmp_path):
    school = Class(toy, tmp_path, owners=True)
    right = school.submit("daemon", uid=OTHERS["daemon"])
    future = datetime(2099, 1, 1, tzinfo=UTC)
    school.submit("daemon", WRONG, uid=OTHERS["bin"], time=future)
    with school.watch() as watching:
        watching.look()
        (row,) = watching.hand_ins.in_state(State.WAITING)
        assert row.secret == right.secret
        (refused,) = watching.hand_ins.in_state(State.REFUSED)
        assert refused.note == "it belongs to bin, not to daemon" and refused.secret == ""


def test_a_copy_that_was_killed_is_made_again(school):
    school.submit("ada")
    waiting = school.course.submitted / ".waiting"
    for left in ("a.part", "b", "c.old"):
        (waiting / left).mkdir(parents=True)
    with school.watch() as watching:
        assert list(waiting.iterdir()) == []
        watching.look()
        (copy,) = waiting.iterdir()
        assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    with school.watch() as watching:
        assert list(waiting.iterdir()) == [copy]
        watching.look()
        assert school.told("taken") == ["ada"]


def test_an_exchange_that_vanishes_and_returns_is_waited_for(school):
    with school.watch() as watching:
        school.root.rename(school.root.with_name("away"))
        for _ in range(3):
            watching.look()
        (note,) = school.notes()
        assert "No such file or directory" in note and note.endswith("/inbound")
        school.root.with_name("away").rename(school.root)
        school.submit("ada")
        watching.look()
        assert school.notes()[1:] == ["exchange: in order again"]
        assert school.told("taken") == ["ada"]


def test_a_full_disk_is_waited_for(school, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(*arguments, **named):
        raise full

    school.submit("ada")
    with school.watch() as watching:
        with monkeypatch.context() as patch:
            patch.setattr("autograder.exchange.inbound.HandIn.write", fail)
            watching.look()
            watching.look()
        assert school.notes() == ["No space left on device"]
        watching.look()
        assert school.told("taken") == ["ada"]


def test_a_second_watch_is_refused(school):
    with school.watch(), pytest.raises(UserError, match="Another watch runs for this course"):
        school.watch().__enter__()
    with school.watch():
        pass


# Answers, without grading.


def page_of(course, student, secret, text):
    """Write a feedback page as `grade` does."""
    place = course.graded(student, "01-toy")
    place.pages.mkdir(parents=True, exist_ok=True)
    (place.pages / "submission_secret.txt").write_text(secret)
    place.page.write_text(text, encoding="utf-8")


def test_pages_are_published_under_each_notebooks_name_for_all_to_read(school):
    secret = secrets.token_hex(64)
    row = Row("a", "ada", "01-toy", State.GRADED, time.time(), secret, ["01-toy", "01-toy.zh"])
    page_of(school.course, "ada", secret, f"<html lang='en'>{notice.HERE}</html>")
    before = os.umask(0o077)
    try:
        with school.watch() as watching:
            shutil.rmtree(school.exchange / "feedback")
            row = watching.publisher.publish(row)
    finally:
        os.umask(before)
    pages = list((school.exchange / "feedback").iterdir())
    assert len(pages) == 2 and all(re.fullmatch(r"[0-9a-f]{32}\.html", page.name) for page in pages)
    assert {stat.S_IMODE(page.stat().st_mode) for page in pages} == {0o644}
    assert stat.S_IMODE((school.exchange / "feedback").stat().st_mode) == 0o711
    assert "This is the hand-in of" in pages[0].read_text()
    with school.watch() as watching:
        assert watching.publisher.publish(row) is row  # it is published
        page_of(school.course, "ada", secret, f"<html lang='en'>{notice.HERE}new</html>")
        assert watching.publisher.publish(row) != row


def test_a_page_of_another_hand_in_is_not_published(school):
    row = Row("a", "ada", "01-toy", State.GRADED, time.time(), secrets.token_hex(64), ["01-toy"])
    page_of(school.course, "ada", secrets.token_hex(64), "<html lang='en'>theirs</html>")
    with school.watch() as watching:
        watching.publisher.publish(row)
    (page,) = (school.exchange / "feedback").iterdir()
    assert "theirs" not in page.read_text() and "You handed in a newer one" in page.read_text()


def test_points_can_be_left_out_of_a_page():
    points = "<!--points--><b>3</b><!--/points-->"
    page = f"<html>{points}{notice.HERE}why{points}</html>"
    assert notice.with_notice(page, [], points=False) == "<html>why</html>"
    assert "<b>3</b>" in notice.with_notice(page, [], points=True)


def test_the_platform_gets_scores_after_a_batch_and_then_once_a_minute(toy, tmp_path, monkeypatch):
    school = Class(toy, tmp_path, 'c.Watch.scores = "lti"\n')
    lines = [["1 score sent"], [], []]
    module = types.ModuleType("autograder.school.lti")
    module.send_pending = lambda course: lines.pop(0)
    monkeypatch.setitem(sys.modules, "autograder.school.lti", module)
    with school.watch() as watching:
        watching.send_scores(now=True)
        watching.send_scores(now=False)
        assert len(lines) == 2
        watching._scores_at = 0
        watching.send_scores(now=False)
        assert len(lines) == 1
    assert [values["note"] for event, _, values in school.events] == ["1 score sent"]

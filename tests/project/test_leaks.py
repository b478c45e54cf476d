"""The look at what tests leave running sees what it is for, and a command that is refused leaves
nothing.
"""

import functools
import shutil
import subprocess

import pytest
from processes import assert_nothing_left, still_running
from toy_course import toy_course
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring.release import release
from autograder.commands import console
from autograder.course.config import Course, UserError


def in_a_sandbox(*command):
    return subprocess.Popen(
        ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", *command]
    )


@pytest.mark.usefixtures("isolated")
def test_what_goes_on_after_a_test_is_found_named_and_ended():
    before = still_running()
    started = in_a_sandbox("sleep", "60")
    try:
        with pytest.raises(
            pytest.fail.Exception, match="test_what_goes_on_after_a_test_is_found_named_and_ended"
        ):
            assert_nothing_left(before, seconds=0.5)
        assert started.wait(timeout=10)  # it was killed
    finally:
        started.kill()


@pytest.mark.usefixtures("isolated")
def test_what_ends_soon_after_a_test_is_waited_for():
    before = still_running()
    started = in_a_sandbox("sleep", "1")
    assert_nothing_left(before)
    assert started.wait(timeout=10) == 0


@pytest.mark.usefixtures("isolated")
def test_a_grading_that_is_refused_leaves_no_warm_parent(tmp_path, monkeypatch):
    """It is refused when its warm parent has begun to start: the gradebook is none."""
    course = toy_course(tmp_path)
    exercise = course.sources()[0]
    release(course, exercise)
    folder = tmp_path / "submitted" / "ada" / exercise.name
    folder.mkdir(parents=True)
    shutil.copy(exercise.notebook, folder)
    (tmp_path / "gradebook.db").write_bytes(b"no database" * 100)
    monkeypatch.setattr(console, "Course", functools.partial(Course, root=tmp_path))
    before = still_running()
    arguments = ["grade", "--submitted", str(tmp_path / "submitted"), "--into", str(tmp_path)]
    # what it raised is kept, as a caller that shows it would
    refused = CliRunner().invoke(cli.app, arguments)
    assert isinstance(refused.exception, UserError)
    assert_nothing_left(before)

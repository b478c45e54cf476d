"""What a student tries who wants another's points, the course's secret, or peace for nobody.

It runs on the hub's machine as that student, with the rights of an account: `test_hub` starts it.
"""

import os
import secrets
import shutil
import threading
import time
from pathlib import Path

INBOUND = Path("/srv/nbgrader/exchange/attention-by-hand/inbound")
COURSE = Path("/home/grace/attention")
NAME, NOTEBOOK = "01-qkv", "01-qkv.ipynb"
GIVEN = Path("given")
NOW = "2026-12-01 10:00:00.000000 UTC"
FUTURE = "2099-01-01 00:00:00.000000 UTC"


def begin(student="boris", time=NOW):
    """Begin a hand-in as nbgrader does, under any name and at any time; return its folder."""
    folder = INBOUND / f"{student}+{NAME}+{time}+{secrets.token_hex(6)}"
    folder.mkdir()
    (folder / "timestamp.txt").write_text(time)
    (folder / "submission_secret.txt").write_text(secrets.token_hex(64))
    return folder


def end(folder):
    folder.chmod(0o777)


def impersonation():
    for moment in (NOW, FUTURE):
        folder = begin("ada", moment)
        shutil.copy(GIVEN / NOTEBOOK, folder)
        end(folder)


def the_future():
    folder = begin(time=FUTURE)
    shutil.copy(GIVEN / NOTEBOOK, folder)
    end(folder)


def links():
    folder = begin()
    (folder / NOTEBOOK).symlink_to(COURSE / "submitted" / "ada" / NAME / NOTEBOOK)
    (folder / "notes.txt").symlink_to(COURSE / ".course-secret")
    end(folder)
    name = f"boris+{NAME}+{NOW}+{secrets.token_hex(6)}"
    (INBOUND / name).symlink_to(COURSE / "submitted" / "ada" / NAME)


def hard_links():
    folder = begin()
    shutil.copy(GIVEN / NOTEBOOK, folder / "again.txt")
    os.link(folder / "again.txt", folder / NOTEBOOK)
    end(folder)


def a_pipe():
    folder = begin()
    os.mkfifo(folder / NOTEBOOK)
    end(folder)


def many_files():
    folder = begin()
    shutil.copy(GIVEN / NOTEBOOK, folder)
    for number in range(10_000):
        (folder / f"{number}.txt").touch()
    end(folder)


def a_folder_that_changes(seconds=20):
    folder = begin()
    shutil.copy(GIVEN / NOTEBOOK, folder)
    end(folder)
    target = COURSE / "submitted" / "ada" / NAME / NOTEBOOK
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        (folder / "new").symlink_to(target)
        (folder / "new").replace(folder / NOTEBOOK)
        shutil.copy(GIVEN / NOTEBOOK, folder / "new")
        (folder / "new").replace(folder / NOTEBOOK)


def a_flood(count=200):
    for _number in range(count):
        folder = begin()
        shutil.copy(GIVEN / NOTEBOOK, folder)
        end(folder)


if __name__ == "__main__":
    changing = threading.Thread(target=a_folder_that_changes)
    changing.start()
    for attack in (impersonation, the_future, links, hard_links, a_pipe, many_files):
        attack()
    a_flood()  # the last: of one user, sixty are looked at in an hour
    changing.join()

"""An exchange as nbgrader makes it, and hand-ins as its `submit` writes them, without waiting for it."""

import base64
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path

import nbformat

from autograder.exchange.publishing import feedback_name
from autograder.school.hand_ins import STAMP_FORMAT

OTHERS = {"daemon": 1, "bin": 2}
"""Users of the system, by name, whom each Linux has: for tests that root runs."""


def exchange_of(course, root):
    """Make the folders of a course's exchange, with the modes that nbgrader gives them."""
    folder = root / course.course_id
    for name, mode in (("outbound", 0o755), ("inbound", 0o2733), ("feedback", 0o711)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name).chmod(mode)
    root.chmod(0o1777)
    return folder


def name_of(student, exercise="01-toy", time=None):
    """Return a name as nbgrader makes it."""
    time = time or datetime.now(UTC)
    stamp = time if isinstance(time, str) else time.strftime(STAMP_FORMAT)
    letters = base64.urlsafe_b64encode(os.urandom(9)).decode()
    return f"{student}+{exercise}+{stamp}+{letters}"


class Submitted:
    """A hand-in in the exchange."""

    def __init__(self, exchange, folder, secret):
        self.exchange, self.folder, self.secret = exchange, folder, secret

    def path(self, notebook="01-toy"):
        """Return where its feedback is published."""
        return self.exchange / "feedback" / f"{feedback_name(self.secret, notebook)}.html"

    def feedback(self, notebook="01-toy"):
        """Return its published feedback; None if there is none."""
        path = self.path(notebook)
        return path.read_text(encoding="utf-8") if path.exists() else None


def notebook_with(course, answers, request="", exercise="01-toy"):
    """Return the released notebook with these answers and a regrade request, as text."""
    (found,) = course.exercises([exercise])
    notebook = nbformat.read(found.notebook, as_version=4)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = answers.get(grade_id, cell.source)
    if request:
        notebook.cells[-1].source = request
    return nbformat.writes(notebook)


def submit(
    exchange,
    student,
    files,
    exercise="01-toy",
    time=None,
    secret=None,
    uid=None,
    finish=True,
    name=None,
):
    """Write a hand-in as nbgrader does: the mode 0777 of its folder comes last.

    `files` are text or bytes by relative path. `secret` is the one to write; "" for no file.
    """
    folder = Path(exchange) / "inbound" / (name or name_of(student, exercise, time))
    secret = secrets.token_hex(64) if secret is None else secret
    contents = dict(files)
    contents["timestamp.txt"] = folder.name.split("+")[2]
    if secret:
        contents["submission_secret.txt"] = secret
    folder.mkdir()
    for relative, text in contents.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        path.chmod(0o644)
    if uid is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, uid, uid)
    folder.chmod(0o777 if finish else 0o755)
    return Submitted(Path(exchange), folder, secret)

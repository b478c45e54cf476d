"""What other users of a shared machine could read or change, each with how to close it."""

import contextlib
import os
import pwd
import shlex
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.course.config import Course, UserError

OTHERS_READ, OTHERS_WRITE, OTHERS_ENTER = 0o004, 0o002, 0o001
PRIVATE = (
    "gradebook.db", "watch.db", ".course-secret", "revealed.json", "deadlines.toml", "report.html",
    "grades.csv", "lti.pem", "lti.json", "solutions", "submitted", "autograded", "feedback",
)  # fmt: skip
"""Files and folders of a course that only graders may read."""
FIRST_USER, NOBODY = 1000, 65534
"""The numbers of people's accounts begin and end here."""


@dataclass(frozen=True)
class PermissionProblem:
    """Something that others could read or change, what they could do, and the fix: a command."""

    path: Path
    risk: str
    fix: str


def problems(course: Course, homes: Iterable[Path] | None = None) -> Iterator[PermissionProblem]:
    """Yield what is open to other users of this machine.

    Parameters
    ----------
    course : Course
        Nothing is yielded for one without an exchange: its students are no users of this machine.
    homes : iterable of Path, optional
        The home folders of all users; by default those that the system names.
    """
    if course.exchange is None:
        return
    yield from _of_owners(course, course.exchange)
    yield from _of_exchange(course.exchange)
    yield from _of_course(course)
    for home in people() if homes is None else homes:
        if _mode(home) & (OTHERS_READ | OTHERS_WRITE | OTHERS_ENTER):
            yield PermissionProblem(
                home, "other users can look into this home", _command("chmod 700", home)
            )


def check_owners(course: Course, exchange: Path) -> None:
    """Check that the course's folder in the exchange is this user's.

    Any user can make a folder in the exchange's root, and be there first.

    Raises
    ------
    UserError
        If another user owns it, or its folders of hand-ins and feedback, or the exchange's root.
    """
    for problem in _of_owners(course, exchange):
        raise UserError(f"{problem.path}: {problem.risk}. Look at it, then run: {problem.fix}")


def people() -> list[Path]:
    """Return the home folders of the accounts of people."""
    accounts = (user for user in pwd.getpwall() if FIRST_USER <= user.pw_uid < NOBODY)
    return sorted({Path(user.pw_dir) for user in accounts if Path(user.pw_dir) != Path("/")})


def _of_owners(course: Course, exchange: Path) -> Iterator[PermissionProblem]:
    """Yield what belongs to others. The course's owner is trusted: watch runs its settings."""
    trusted = {0, os.geteuid(), course.root.stat().st_uid}
    for path in (exchange.parent, exchange, exchange / "inbound", exchange / "feedback"):
        owners = set()
        with contextlib.suppress(OSError):  # it is not there, or it is a link to nothing
            owners.add(path.lstat().st_uid)
            owners.add(path.stat().st_uid)
        for uid in sorted(owners - trusted):
            risk = f"it belongs to another user (number {uid}), who can change all in it"
            yield PermissionProblem(path, risk, _command(f"sudo chown -h {os.geteuid()}", path))


def _of_exchange(folder: Path) -> Iterator[PermissionProblem]:
    root, inbound, feedback = folder.parent, folder / "inbound", folder / "feedback"
    if not root.is_dir():
        yield PermissionProblem(root, "there is no such folder", _command("mkdir -p -m 1777", root))
        return
    if _mode(root) & OTHERS_WRITE and not _mode(root) & stat.S_ISVTX:
        risk = "any user can rename or remove a course in it"
        yield PermissionProblem(root, risk, _command("chmod 1777", root))
    if _mode(folder) & OTHERS_WRITE:
        yield PermissionProblem(folder, "any user can change it", _command("chmod 755", folder))
    if inbound.is_dir():
        if _mode(inbound) & OTHERS_READ:
            risk = "any user can list the hand-ins of others"
            yield PermissionProblem(inbound, risk, _command("chmod 2733", inbound))
        elif _mode(inbound) & 0o003 != 0o003:
            yield PermissionProblem(
                inbound, "students cannot hand in", _command("chmod 2733", inbound)
            )
    if feedback.is_dir():
        if _mode(feedback) & (OTHERS_READ | OTHERS_WRITE):
            risk = "any user can list or change the feedback of others"
            yield PermissionProblem(feedback, risk, _command("chmod 711", feedback))
        elif not _mode(feedback) & OTHERS_ENTER:
            yield PermissionProblem(
                feedback, "students cannot fetch it", _command("chmod 711", feedback)
            )


def _of_course(course: Course) -> Iterator[PermissionProblem]:
    for folder in dict.fromkeys((course.output_folder, course.root)):
        if not _is_reachable(folder):
            continue
        for name in PRIVATE:
            path = folder / name
            if _mode(path) & (OTHERS_READ | OTHERS_WRITE):
                risk = "other users can read or change it"
                yield PermissionProblem(path, risk, _command("chmod -R go=", path))


def _is_reachable(folder: Path) -> bool:
    """Tell whether others can enter a folder and all folders above it."""
    return all(_mode(each) & OTHERS_ENTER for each in (folder, *folder.parents))


def _mode(path: Path) -> int:
    """Return a path's permissions; 0 if it does not exist, or this user may not know."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0


def _command(start: str, path: Path) -> str:
    return f"{start} {shlex.quote(str(path))}"

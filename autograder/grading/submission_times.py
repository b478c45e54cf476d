"""Finds when something was submitted, and whether that is after a given time."""

import re
from datetime import UTC, datetime, timedelta

from autograder.checking.words import Message
from autograder.course.config import STAMP, UserError
from autograder.grading.submissions import (
    STAMP_MB,
    UNREAD_STAMP,
    Submission,
    notebooks_in,
    read_file,
)
from autograder.sanitize import text

AGO = re.compile(r"(\d{1,6}) ?([mhdw])")
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_since(since: str, now: datetime | None = None) -> datetime:
    """Return the time that `--since` gives: a date, a date and time, or how long ago it is.

    Without a time zone, it is in this machine's.

    Raises
    ------
    UserError
        If it is not a time, or is in the future.
    """
    now = now or datetime.now().astimezone()
    try:
        ago = AGO.fullmatch(since.strip())
        if ago:
            time = now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        else:
            time = datetime.fromisoformat(since.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise UserError(
            f"--since {text.line(since, 50)} is not a time. Write a date (2026-11-25), a date and "
            "time (2026-11-25T18:00), or how long ago (90m, 2h, 3d or 1w)."
        ) from None
    if time > now:
        raise UserError(f"--since {time:%Y-%m-%d %H:%M} is in the future. Give a time in the past.")
    return time


def submitted_at(submission: Submission) -> datetime:
    """Return when a submission was submitted: by its `timestamp.txt`, or else when its notebook was
    last written.

    Something unreadable counts as submitted now, so that grading it reports why.
    """
    raw, _ = read_file(submission.folder / STAMP, STAMP_MB)
    time, _ = read_stamp(raw.decode("utf-8", "replace") if raw else None)
    if time:
        return time.replace(tzinfo=UTC)
    try:
        times = [
            path.lstat().st_mtime for path in notebooks_in(submission.folder, submission.exercise)
        ]
        return datetime.fromtimestamp(max(times), UTC)
    except (OSError, ValueError, OverflowError):
        return datetime.now(UTC)


def read_stamp(stamp: str | None) -> tuple[datetime | None, list[Message]]:
    """Return the time that a `timestamp.txt` has (UTC, without a zone, as the gradebook wants
    it), or None.
    """
    from nbgrader.utils import parse_utc

    if stamp is None:
        return None, []
    try:
        return parse_utc(text.line(stamp, 100)), []
    except Exception:  # dateutil has many ways to stumble over what is no date
        return None, [UNREAD_STAMP]

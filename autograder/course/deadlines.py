"""Due dates and students' extensions: `deadlines.toml`, next to the gradebook of the class.

    timezone = "Europe/Berlin"

    [due]
    01-qkv = 2026-12-01T23:59:00
    02-scaling = 2026-12-08        # until the end of that day

    [[extension]]
    student = "ada"
    exercise = "01-qkv"
    time = "3d"
    reason = "ill"

The last extension of a student for an exercise counts; `time = "0d"` takes it back.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from autograder.checking import files
from autograder.course.config import Course, UserError, check_setting

FILE = "deadlines.toml"
IN_FILE = f"{FILE}: "
LENGTH = re.compile(r"(\d{1,4}) ?([hdw])")
UNITS = {"h": "hours", "d": "days", "w": "weeks"}
END_OF_DAY = time(23, 59, 59)


@dataclass(frozen=True)
class Extension:
    """More time for one student and one exercise."""

    student: str
    exercise: str
    time: timedelta
    reason: str = ""


@dataclass(frozen=True)
class Deadlines:
    """The due dates of a class, by exercise and each with its time zone, and its extensions, the
    latest last.
    """

    due: dict[str, datetime] = field(default_factory=dict)
    extensions: list[Extension] = field(default_factory=list)

    def extension(self, student: str, exercise: str) -> timedelta | None:
        """Return the extension of a student for an exercise, or None."""
        for extension in reversed(self.extensions):
            if (extension.student, extension.exercise) == (student, exercise):
                return extension.time or None
        return None

    def due_of(self, student: str, exercise: str) -> datetime | None:
        """Return when an exercise is due for a student, or None if it has no due date."""
        due = self.due.get(exercise)
        more = self.extension(student, exercise)
        return extended(due, more) if due and more else due

    def in_force(self) -> Iterator[Extension]:
        """Yield the extensions that count: not those that a later one replaces or takes back."""
        latest = {
            (extension.student, extension.exercise): extension for extension in self.extensions
        }
        yield from (extension for extension in latest.values() if extension.time)


def path_of(course: Course) -> Path:
    """Return the file of a class with its due dates."""
    return course.output_folder / FILE


def read(course: Course) -> Deadlines:
    """Return the due dates and extensions of a class; none if it has no such file.

    Raises
    ------
    UserError
        If the file is not TOML, names an unknown exercise, or has a date without a time zone or a
        wrong value.
    """
    try:
        content = path_of(course).read_text(encoding="utf-8-sig")  # as Windows' Notepad writes it
    except FileNotFoundError:
        return Deadlines()
    except UnicodeDecodeError as error:
        raise _not_toml(error) from None
    return _parsed(course, content)


def _not_toml(error: Exception) -> UserError:
    return UserError(f"{FILE} is not TOML: {error}. Dates look like this: 2026-12-01T23:59:00.")


def _parsed(course: Course, content: str) -> Deadlines:
    """Return the due dates and extensions in a file's content. For errors, see `read`."""
    try:
        table = tomllib.loads(content)
    except (ValueError, RecursionError) as error:  # also numbers with thousands of digits
        raise _not_toml(error) from None
    for key, value in table.items():
        check_setting(FILE, key, value, {"timezone": str, "due": dict, "extension": list})
    zone = _zone(table["timezone"]) if "timezone" in table else None
    dates = table.get("due", {})
    _check_exercises(course, dates, IN_FILE)
    due = {name: _moment(name, when, zone) for name, when in dates.items()}
    extensions = [_extension(course, due, entry) for entry in table.get("extension", [])]
    return Deadlines(due, extensions)


def length(text: str) -> timedelta:
    """Return the time that a text such as "3d", "12h" or "1w" says.

    Raises
    ------
    UserError
        If it says none.
    """
    match = LENGTH.fullmatch(text.strip())
    if not match:
        raise UserError(
            f"{text!r} is no length of time. Write hours, days or weeks: 12h, 3d or 1w."
        )
    return timedelta(**{UNITS[match[2]]: int(match[1])})


def extend(course: Course, student: str, exercise: str, time: str, reason: str) -> datetime:
    """Add an extension to the file of a class; return the new due date.

    Raises
    ------
    UserError
        If the exercise does not exist or has no due date there, or `time` is no length of time.
        Nothing is written.
    """
    deadlines, more = read(course), length(time)
    _check_exercises(course, [exercise])
    new_due = extended(_due(deadlines.due, exercise), more)
    entry = {"student": student, "exercise": exercise, "time": time.strip(), "reason": reason}
    lines = [f"{name} = {_quoted(value)}" for name, value in entry.items()]
    path = path_of(course)
    # The file is there, because it has the due date. What people wrote in it stays as it is.
    before = path.read_text(encoding="utf-8-sig").rstrip()
    content = "\n".join([before, "", "[[extension]]", *lines, ""])
    try:
        _parsed(course, content)
    except UserError:
        raise UserError(
            f"{FILE} lists its extensions in another way, so that none can be added at its end. "
            "Write each of them as a table, [[extension]], and run this again."
        ) from None
    mode = path.stat().st_mode
    files.write(path.resolve(), content)  # the file itself, if `path` is a link to it
    path.chmod(mode)  # a second instructor may have to read it
    return new_due


def extended(due: datetime, extension: timedelta) -> datetime:
    """Return a due date with an extension; as in the gradebook, a day of it has 24 hours.

    Raises
    ------
    UserError
        If no calendar has that date.
    """
    try:
        # Without UTC, Python adds to the local time, in which a day may have 23 or 25 hours.
        return (due.astimezone(UTC) + extension).astimezone(due.tzinfo)
    except OverflowError:
        raise UserError(
            f"{due:%Y-%m-%d} with an extension of {extension.days} days is after the year 9999. "
            f"Write an earlier date into {FILE}, or none."
        ) from None


def _quoted(text: str) -> str:
    """Return a text as TOML has it: as JSON, except for a character that only TOML forbids."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f'{FILE}: there is no time zone {name!r}. Write one such as "Europe/Berlin".'
        ) from None


def _check_exercises(course: Course, names: Iterable[str], where: str = "") -> None:
    known = {exercise.name for exercise in [*course.released(), *course.sources()]}
    try:
        course.named(list(names), sorted(known))
    except UserError as error:
        raise UserError(f"{where}{error}") from None


def _moment(name: str, when: Any, zone: tzinfo | None) -> datetime:
    """Return a due date with its time zone; a day without a time means the end of that day."""
    # A `datetime` is a `date` as well.
    if isinstance(when, date) and not isinstance(when, datetime):
        when = datetime.combine(when, END_OF_DAY)
    if not isinstance(when, datetime):
        raise UserError(
            f"{FILE}: due.{name} should be a date such as 2026-12-01T23:59:00, but is {when!r}."
        )
    if when.tzinfo is None and zone is None:
        raise UserError(
            f"{FILE}: due.{name} has no time zone. Begin the file with a line such as timezone = "
            '"Europe/Berlin".'
        )
    moment = when if when.tzinfo else when.replace(tzinfo=zone)
    try:
        utc(moment)
    except OverflowError:
        raise UserError(
            f"{FILE}: due.{name} is outside of the calendar in UTC: {when}. Write another date, or "
            "none."
        ) from None
    return moment


def _extension(course: Course, due: dict[str, datetime], entry: Any) -> Extension:
    if not isinstance(entry, dict):
        raise UserError(
            f"{FILE}: each extension should be a table, [[extension]], but one is {entry!r}."
        )
    kinds: dict[str, type] = {"student": str, "exercise": str, "time": str, "reason": str}
    for key, value in entry.items():
        check_setting(FILE, key, value, kinds, within="extension.")
    for key in ("student", "exercise", "time"):
        if key not in entry:
            raise UserError(
                f"{FILE}: an extension has no {key}. It needs a student, an exercise and a time."
            )
    _check_exercises(course, [entry["exercise"]], IN_FILE)
    due_date = _due(due, entry["exercise"])
    try:
        time = length(entry["time"])
    except UserError as error:
        raise UserError(f"{FILE}: extension.time: {error}") from None
    extended(due_date, time)  # raises if no calendar has that date
    return Extension(entry["student"], entry["exercise"], time, entry.get("reason", ""))


def _due(due: dict[str, datetime], exercise: str) -> datetime:
    """Return an exercise's due date, of which there has to be one."""
    if exercise not in due:
        raise UserError(
            f"{exercise} has no due date, so an extension has no effect. Add one to [due] in "
            f"{FILE}: {exercise} = 2026-12-01T23:59:00"
        )
    return due[exercise]


def utc(when: datetime) -> datetime:
    """Return a time as the gradebook wants it: in UTC, without a zone."""
    return when.astimezone(UTC).replace(tzinfo=None)

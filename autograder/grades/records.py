"""Records of grades: `grade.json`, how it is written, and how any version of it is read."""

import contextlib
import json
import random
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from autograder.checking import Result, words
from autograder.checking.words import Message
from autograder.course.config import Course
from autograder.course.deadlines import Deadlines
from autograder.grades import reasons
from autograder.grades.results import CellResult, Record

RECORDED = (
    "name", "title", "weight", "status", "message", "cause", "label", "hint", "on", "relation",
    "measured", "follows",
)  # fmt: skip
"""What a record has of a check's result.

The graded notebook has the rest as well, for the page: what passed before, and the numbers.
"""

SCHEMA = 8
"""The version of `grade.json`; all versions are read.

The first had no number, and texts in place of messages; up to the third, a blocked check was called
waiting; up to the fourth, no check was advice; up to the fifth, none had a relation; up to the
sixth, none followed from another one or measured, no cell said in place of which functions the
course's own answered, and the repairs named what a person still had to grade; up to the seventh,
none said when it was due and with which versions it was graded, or had regrade requests.
"""

MOST_RECORDS, MOST_WHOLE_RECORDS = 1000, 20
"""Earlier records of a submission that are kept, and that are kept with all texts."""

CODEC = Converter(detailed_validation=False)
"""Converts between our dataclasses and JSON's types."""


def _only(*taken: type) -> None:
    """Let `CODEC` accept only values of these types for the first; by itself it would convert
    anything.
    """

    def structure(value: Any, kind: type) -> Any:
        # By `type`, because True is an instance of int.
        if type(value) not in (*taken, kind):
            raise TypeError(f"{value!r} is not of type {kind.__name__}")
        return value if kind in taken else kind(value)  # an enumeration of texts is also a text

    CODEC.register_structure_hook(taken[0], structure)


def _text_or_message(raw: Any, _: Any) -> str | Message:
    message = words.from_dict(raw)
    if not isinstance(message, (str, Message)):
        raise TypeError(f"{raw!r} is not a message")
    return message


def _message(raw: Any, kind: Any) -> Message:
    message = _text_or_message(raw, kind)
    return Message.from_record(message) if isinstance(message, str) else message


_only(str)
_only(bool)
_only(int)
_only(float, int)  # JSON has no difference between 1 and 1.0


def _recorded(result: Result) -> dict[str, Any]:
    return {name: words.to_dict(getattr(result, name)) for name in RECORDED}


# Before the hooks below: cattrs makes those from the hooks that it has then.
CODEC.register_structure_hook(Message, _message)
CODEC.register_structure_hook(str | Message, _text_or_message)
CODEC.register_unstructure_hook(Message, words.to_dict)
CODEC.register_unstructure_hook(Result, _recorded)

KEYS: dict[type, dict[str, str]] = {
    CellResult: {
        "is_graded_by_hand": "manual",
        "manual_points": "given",
        "replaced_functions": "instead",
    },
    Record: {"submission_digest": "submission", "release_digest": "exercise"},
}
"""The fields whose key in a record is not their name: records keep the keys that they have."""

for _kind, _keys in KEYS.items():
    _renamed: dict[str, Any] = {name: override(rename=key) for name, key in _keys.items()}
    CODEC.register_structure_hook(_kind, make_dict_structure_fn(_kind, CODEC, **_renamed))
    CODEC.register_unstructure_hook(_kind, make_dict_unstructure_fn(_kind, CODEC, **_renamed))


def to_text(record: Record) -> str:
    """Return the text of `grade.json`, a line for each part: with an indent, `json` takes ten
    times as long.
    """
    parts = CODEC.unstructure(record) | {"schema": SCHEMA, "pending": record.pending}
    lines = (
        f"{json.dumps(name)}: {json.dumps(part, ensure_ascii=False)}"
        for name, part in parts.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def from_text(text: str) -> Record | None:
    """Return the record in the text of a `grade.json`, of any version; None if there is none."""
    try:
        return parsed(json.loads(text))
    except (ValueError, RecursionError):
        return None


def parsed(raw: Any) -> Record | None:
    """Return the record in a parsed `grade.json`, or in an entry of a history; None if it is not
    a record.
    """
    try:
        record: Record = CODEC.structure(raw, Record)
        # Up to schema 6: now it follows from the cells, which may have been graded since.
        record.repairs = [note for note in record.repairs if note.text != reasons.TO_READ]
        return record
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read(path: Path) -> Record | None:
    """Return the record in a file; None if there is no readable one."""
    try:
        return from_text(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def record_of(course: Course, student: str, name: str) -> Record | None:
    """Return the record of a submission's last grading, or None if there is no readable one."""
    return read(course.paths_of(student, name).record)


def history(path: Path) -> list[dict[str, Any]]:
    """Return a submission's earlier records, including the last one, as they were written.

    A student can submit thousands of times: then older records are without the texts that are of
    any length, and of `MOST_RECORDS` the first and the last ones are kept.

    An unreadable file is kept under the name `grade.json.unreadable`.
    """
    try:
        # Not parsed into records, so that nothing of what an older version wrote is lost.
        last = json.loads(path.read_text(encoding="utf-8"))
        earlier = [*last.pop("history", []), last]
        for record in earlier[:-MOST_WHOLE_RECORDS]:
            if isinstance(record, dict):
                record.update(evidence=[], repairs=[], requests=[])
        return (
            earlier if len(earlier) <= MOST_RECORDS else [earlier[0], *earlier[1 - MOST_RECORDS :]]
        )
    except FileNotFoundError:
        return []
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        with contextlib.suppress(OSError):
            path.replace(path.with_name(f"{path.name}.unreadable"))
        return []


def due_of(course: Course, dates: Deadlines, student: str, exercise: str) -> datetime | None:
    """Return when an exercise is due for a student: by `deadlines.toml`, or else by the gradebook
    when the student's submission was graded; None if it has no due date.
    """
    if exercise in dates.due:
        return dates.due_of(student, exercise)
    record = record_of(course, student, exercise)
    return datetime.fromisoformat(record.deadline.due) if record and record.deadline.due else None


def numbered(students: Iterable[str]) -> dict[str, str]:
    """Return a number for each student, in an order that reveals nothing about names or grades."""
    # Without a seed, from which someone could compute the order again.
    shuffled = sorted(set(students))
    random.SystemRandom().shuffle(shuffled)
    return {student: f"Student {number}" for number, student in enumerate(shuffled, 1)}


# With what the gradebook says today.


def rows(course: Course) -> list[dict[str, Any]]:
    """Return every grade in the gradebook as a dict, by exercise and student, under nbgrader's
    names.

    `needs_manual_grade` says whether a cell still needs a person; `pending` is how many points are
    pending until a machine has what their checks need. Either may raise the score.
    """
    return [row for row, _ in _joined(course)]


def open_requests(course: Course) -> list[Record]:
    """Return the records of submissions with a regrade request that nobody has answered."""
    return [record for record in all_of(course) if any(request.open for request in record.requests)]


def all_of(course: Course) -> list[Record]:
    """Return the records of all graded submissions, with the scores that the gradebook has for
    them now.
    """
    pairs = _joined(course) if course.has_gradebook else []
    return [record for _, record in pairs if record]


def _joined(course: Course) -> list[tuple[dict[str, Any], Record | None]]:
    # nbgrader takes seconds to load, and reading one record does not need it.
    from autograder.grades import gradebook

    pairs = []
    for row, stored in gradebook.rows(course):
        record = record_of(course, row["student_id"], row["assignment"])
        record = record and record.with_stored(stored)
        pairs.append(({**row, "pending": record.pending if record else 0.0}, record))
    return pairs

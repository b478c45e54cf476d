"""What a grade is: results of checks, of cells and of submissions, and the record that is kept of them."""

import dataclasses
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.checking import Status, words
from autograder.checking.words import Message

SCHEMA = 3
"""The version of `grade.json`. Records without one are the first; they are read as well."""

KINDS = ("right", "wrong", "malformed", "limit", "hostile", "infrastructure")


@dataclass
class CheckResult:
    """What one check found of one function. What an unverified one needs of a machine, `on` says."""

    name: str
    title: str
    weight: float
    status: Status
    message: Message
    cause: str = ""
    label: str = ""
    hint: str = ""
    on: str = ""


@dataclass
class CellResult:
    """What one graded cell is worth, and why. `manual` cells are graded by a person.

    `pending` points wait for a machine with what their checks need: they are neither earned nor lost.
    """

    points: float
    max_points: float
    manual: bool = False
    subject: str = ""
    checks: list[CheckResult] = field(default_factory=list)
    error: Message = field(default_factory=lambda: Message(""))
    pending: float = 0.0

    def lost(self) -> float:
        """Return the points that are neither earned nor wait."""
        return self.max_points - self.points - self.pending

    def waits_for(self) -> list[str]:
        """Return what its pending points need of a machine, as checks name it."""
        return sorted({check.on for check in self.checks if check.on}) if self.pending else []


@dataclass
class Outcome:
    """What grading made of one submission.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    reason : Message
        Why, where it is none of right and wrong.
    repairs : list of Message
        What had to be mended before the notebook could be graded, and what else its author should know.
    evidence : list of str
        What was found altered or forged.
    cells : dict
        A `CellResult` for each graded cell, by grade id.
    notebook : str
        The graded notebook, as JSON.
    seconds : dict
        How long each phase of grading took.
    """

    kind: str
    reason: Message
    repairs: list[Message]
    evidence: list[str]
    cells: dict[str, CellResult]
    notebook: str
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def pending(self) -> float:
        """The points that wait for a machine with what their checks need."""
        return _pending(self.cells)


@dataclass
class Standing:
    """How a submission stands in the gradebook: with manual grades, and less what its lateness costs.

    `needs_manual_grade` tells of points that only a person can give; those that wait for a machine are not meant.
    """

    score: float
    max_score: float
    penalty: float = 0.0
    seconds_late: float = 0.0
    needs_manual_grade: bool = False


@dataclass
class Saved:
    """What the gradebook has of a submission: how it stands, and what it has of each cell, by grade id.

    A graded cell has its `score` and `points`, whether it `waits` for a person, and whether one gave its score
    (`by_hand`); an answer has a person's `comment` and nbgrader's `automatic` one.
    """

    standing: Standing
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)

    def digest(self) -> str:
        """Return what tells this from what the gradebook has after somebody changed a score or a comment."""
        text = json.dumps([vars(self.standing), self.cells], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class Record:
    """One submission's grade as it is kept in `grade.json`, earlier ones in `history`."""

    student: str
    assignment: str
    submission: str
    exercise: str
    seed: int
    sandbox: bool
    graded_at: str
    kind: str
    reason: Message
    repairs: list[Message]
    evidence: list[str]
    cells: dict[str, CellResult]
    score: float
    max_score: float
    penalty: float = 0.0
    seconds_late: float = 0.0
    needs_manual_grade: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)
    schema: int = SCHEMA

    @property
    def pending(self) -> float:
        """The points that wait for a machine with what their checks need."""
        return _pending(self.cells)

    def waits_for(self) -> list[str]:
        """Return what its pending points need of a machine, as checks name it."""
        return sorted({what for cell in self.cells.values() for what in cell.waits_for()})

    def with_standing(self, standing: Standing) -> "Record":
        """Return this record with the scores that the gradebook has now."""
        return dataclasses.replace(self, **vars(standing))

    def with_saved(self, saved: Saved) -> "Record":
        """Return this record as the gradebook has it now; what a person has graded waits for no machine."""
        by_hand = {name for name, cell in saved.cells.items() if cell.get("by_hand")}
        return self.settled(by_hand).with_standing(saved.standing)

    def settled(self, by_hand: Collection[str]) -> "Record":
        """Return this record where no points of these cells wait any more: a person gave them."""
        cells = {
            name: dataclasses.replace(cell, pending=0.0) if name in by_hand else cell
            for name, cell in self.cells.items()
        }
        return dataclasses.replace(self, cells=cells)

    def to_json(self) -> str:
        """Return the text of `grade.json`, a line for each part: with an indent, `json` takes ten times as long."""
        parts = _plain(self) | {"pending": self.pending}
        lines = (f"{json.dumps(name)}: {json.dumps(part, ensure_ascii=False)}" for name, part in parts.items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def read(cls, path: Path) -> "Record | None":
        """Return the record in a file; None if there is none that can be read."""
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return None

    @classmethod
    def from_json(cls, text: str) -> "Record | None":
        """Return the record in the text of a `grade.json`, of any schema; None if it holds none."""
        try:
            raw = json.loads(text)
            cells = {name: _cell(cell) for name, cell in raw["cells"].items()}
            known = {entry.name for entry in dataclasses.fields(cls)}
            parts = {name: value for name, value in raw.items() if name in known}
            parts.update(
                cells=cells,
                reason=_message(raw["reason"]),
                repairs=[_message(line) for line in raw["repairs"]],
                history=list(raw.get("history", [])),
                evidence=list(raw.get("evidence", [])),
                schema=SCHEMA,
            )
            record = cls(**parts)
            if record.kind not in KINDS or not isinstance(record.submission, str):
                return None
            return record
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


def _pending(cells: dict[str, CellResult]) -> float:
    return round(sum(cell.pending for cell in cells.values()), 4)


def _message(raw: Any) -> Message:
    """Return the message that stands in a record: a plain text in an older one."""
    found = words.from_dict(raw)
    if isinstance(found, Message):
        return found
    if not isinstance(found, str):
        raise TypeError("a message that is none")
    return Message(found)


def _cell(raw: dict[str, Any]) -> CellResult:
    checks = [CheckResult(**{**check, "message": _message(check["message"])}) for check in raw["checks"]]
    for check in checks:
        check.status = Status(check.status)
    return CellResult(**{**raw, "checks": checks, "error": _message(raw["error"])})


def _plain(value: Any) -> Any:
    """Return dataclasses and messages as plain JSON."""
    if isinstance(value, Message):
        return words.to_dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value

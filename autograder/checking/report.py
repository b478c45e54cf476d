"""Results of checks: a `Result` for each check, a `Report` for a function, with its points."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import numpy as np

from . import words
from .expect import Failed
from .words import Message

MIME = "application/vnd.checking.report+json"
"""The MIME type under which a check cell's output carries its `Report`, for the grader."""

WINDOW = 6
"""Rows and columns of the matrix around a wrong element."""

_ENDS = re.compile(r"\.(?=\s|$)|[。，：]|$")
"""The ends of sentences; in Chinese, where clauses are sentences without a conjunction, those of
clauses as well.
"""
_LEFT_OUT = re.compile(r"\b(?:the|an?|is|are|was|were)\b|[`\s]|[.。，：]$")


class Status(StrEnum):
    """The outcome of a check.

    A check that fails is `failed`, or `advice` if it is worth no points. A blocked one was not run:
    it needs another check first, or the function is not written yet. An unverified one needs what
    this machine lacks: its points are pending.
    """

    PASSED = "passed"
    FAILED = "failed"
    ADVICE = "advice"
    BLOCKED = "blocked"
    UNVERIFIED = "unverified"

    @property
    def is_unmet(self) -> bool:
        """Whether the check was run and did not pass: it failed, or is advice."""
        return self in (Status.FAILED, Status.ADVICE)

    @property
    def costs_points(self) -> bool:
        """Whether the points of the check are lost."""
        return self in (Status.FAILED, Status.BLOCKED)

    @classmethod
    def _missing_(cls, value: object) -> "Status | None":
        return cls.BLOCKED if value == "waiting" else None  # the word of older records


@dataclass
class Result:
    """The finding of one check. For an unverified one, `on` names what it needs.

    `title`, `message`, `held`, `label` and `hint` are for people: each a template in plain text or
    a `Message`. `cause` is the name of the listed wrong answer that fails as this one did, `label`
    the same in words. Where there is none, `relation` may say how the result differs from the
    expected one, and `follows` may name another failed check whose cause makes this one fail as
    well. `raised` is true if the function raised an error where none was expected, `explained` if
    `message` says what is wrong, and not only that numbers differ. `measured` is true if the check
    takes the word of the process in which the function runs.
    """

    name: str
    title: str
    weight: float
    status: Status = Status.PASSED
    message: str | Message = ""
    held: list[str | Message] = field(default_factory=list)
    where: dict[str, Any] | None = None
    cause: str = ""
    label: str = ""
    hint: str = ""
    relation: str | Message = ""
    on: str = ""
    raised: bool = False
    explained: bool = False
    measured: bool = False
    follows: str = ""

    def enter(self, finding: tuple[Any, ...]) -> None:
        """Enter a `Finding`."""
        self.cause, self.label, self.hint, self.relation, self.follows = finding


@dataclass
class Report:
    """The findings of all checks of one function, and its points.

    `pending` are the points that could not be verified on this machine: neither earned nor lost.
    `instead` names the functions that were replaced by the course's own, because they fail
    themselves.
    """

    subject: str
    points: float
    score: float
    seed: int
    read: str
    results: list[Result]
    pending: float = 0.0
    instead: list[str] = field(default_factory=list)

    @property
    def again(self) -> str:
        """The code that a student runs to repeat the same inputs."""
        return f'checks.run("{self.subject}", points={self.points:g}, seed={self.seed})'

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain lists, dicts, strings and finite numbers, as JSON has them."""
        return {part.name: _json(getattr(self, part.name)) for part in fields(self)}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Report":
        """Return the report of which `to_dict` made this; what an older one lacks has its
        default.
        """
        # `explained` was called `tells` in older records
        parts = [{"explained": part.get("tells", False), **part} for part in record["results"]]
        results = [Result(**_known(Result, part)) for part in parts]
        for result in results:
            result.status = Status(result.status)
        return cls(**{**_known(cls, record), "results": results})


def likely(label: Any, hint: Any) -> tuple[str, str]:
    """Return a cause's label and hint in the reader's language: the label without a full stop, the
    hint without a first sentence, or Chinese clause, that repeats it.
    """
    label = words.shown(label).rstrip(words.FULL_STOPS)
    hint = words.shown(hint).strip()
    ends = (end.end() for end in _ENDS.finditer(hint))
    repeated = next((end for end in ends if _bare(hint[:end]) == _bare(label)), 0)
    return label, hint[repeated:].strip()


def _bare(sentence: str) -> str:
    """Return a sentence without what a label leaves out."""
    return _LEFT_OUT.sub("", sentence.casefold())


def cause_text(result: Any) -> str:
    """Return why a check failed, as every reader sees it: the cause with its hint, else a relation,
    or "".

    `result` is a `Result`, or the record of one.
    """
    if not result.cause:
        return words.shown(result.relation)
    label, hint = likely(result.label, result.hint)
    if not label:  # a record from before there were labels
        return hint
    return str(Message("{label}. {hint}", label=label, hint=hint)).rstrip()


def shared_cause_text(result: Any, results: Iterable[Any]) -> str:
    """Return the sentence that says which failed check among `results` has the cause of this one;
    "" if none has.

    Either both have the same cause, and the other one comes first, or this one `follows` the other.
    """
    for other in results:
        if other is not result and result.follows and other.name == result.follows:
            text = (
                "Probably the same mistake as in `{check}`: {label}. It makes this check fail "
                "as well."
            )
            return str(Message(text, check=other.name, label=likely(other.label, "")[0]))
        # Of several with one cause, the first one gives it, and the later ones name that check.
        if other is result and not result.follows:
            return ""
        if result.cause and other.cause == result.cause:
            text = "The same likely cause as in `{check}`: {label}."
            return str(Message(text, check=other.name, label=likely(other.label, "")[0]))
    return ""


def _json(value: Any) -> Any:
    if isinstance(value, Result):
        return {part.name: _json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Message):
        return _json(words.to_dict(value))
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    if isinstance(value, Status):
        return value.value
    # JSON has no NaN and no infinity.
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _known(kind: type[Report] | type[Result], record: dict[str, Any]) -> dict[str, Any]:
    names = {part.name for part in fields(kind)} & record.keys()
    return {
        # `where` is plain numbers; a dict in any other field is a message.
        name: record[name] if name == "where" else words.from_dict(record[name])
        for name in names - {"results"}
    }


def first_wrong(failure: Failed) -> dict[str, Any] | None:
    """Return the first wrong element and the matrix around it (at most 6 by 6), as plain values."""
    expected, got, wrong = failure.expected, failure.got, failure.wrong
    if wrong is None:
        return None
    if not wrong.ndim:
        return {"index": [], "expected": float(expected), "got": float(got)}
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    lead = index[:-2]
    # Windows begin at multiples of their size: they are the tiles of the matrix.
    top = index[-2] // WINDOW * WINDOW if wrong.ndim > 1 else 0
    left = index[-1] // WINDOW * WINDOW
    window = (slice(top, top + WINDOW), slice(left, left + WINDOW))

    def cut(array: Any) -> list[list[float]]:
        cells: list[list[float]] = np.atleast_2d(array[lead])[window].astype(float).tolist()
        return cells

    return {
        "index": list(index),
        "expected": float(expected[index]),
        "got": float(got[index]),
        "lead": list(lead),
        "origin": [top, left],
        "expected_matrix": cut(expected),
        "got_matrix": cut(got),
        "wrong_matrix": np.atleast_2d(wrong[lead])[window].tolist(),
    }

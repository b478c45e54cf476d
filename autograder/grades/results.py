"""The data of a grade: results of checks, of cells and of submissions. `records` stores them."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autograder.checking import Result
from autograder.checking.words import Message
from autograder.course.seeds import Origin


class Kind(StrEnum):
    """The outcome of a submission: whether points were lost, or why it could not be graded as
    submitted.
    """

    RIGHT = "right"
    WRONG = "wrong"
    MALFORMED = "malformed"
    LIMIT = "limit"
    HOSTILE = "hostile"
    INFRASTRUCTURE = "infrastructure"

    @property
    def ungraded(self) -> bool:
        """Whether no cell of the student was graded: the graded notebook is the released one."""
        return self in (Kind.MALFORMED, Kind.INFRASTRUCTURE)


@dataclass
class CellResult:
    """The points of one graded cell, and the reasons.

    If it `is_graded_by_hand`, a person gives the points.

    `checks` are the results of its checks; read from a record, they are without what only the
    graded notebook has of them (`records.RECORDED`).

    `error` says why there are no results of checks; of an answer that a person grades, that it was
    left as it was given.

    `pending` points are neither earned nor lost, until a machine can run their checks.
    `manual_points` are those that a person gave instead of all these. `replaced_functions` names
    the functions that the course's own answered for in its checks. `waits` says that a person still
    has to give points, or to confirm them.
    """

    points: float
    max_points: float
    is_graded_by_hand: bool = False
    subject: str = ""
    checks: list[Result] = field(default_factory=list)
    error: Message = field(default_factory=lambda: Message(""))
    pending: float = 0.0
    manual_points: float | None = None
    replaced_functions: list[str] = field(default_factory=list)
    waits: bool = False

    @property
    def is_untouched(self) -> bool:
        """Whether it is an answer for a person to grade that was left as it was given."""
        return self.is_graded_by_hand and bool(str(self.error))

    def lost(self) -> float:
        """Return the points that are neither earned nor pending."""
        earned = self.points + self.pending if self.manual_points is None else self.manual_points
        return self.max_points - earned

    def waits_for(self) -> list[str]:
        """Return what its pending points need of a machine, as checks name it."""
        return sorted({check.on for check in self.checks if check.on}) if self.pending else []


@dataclass(frozen=True)
class Request:
    """A regrade request: what a student writes about the checks of a function.

    `answer` is the grade id of the cell on which it is answered. `before` is the comment that was
    there when it was written, and `reply` the one that answers it; "" if there is none.
    """

    function: str
    answer: str
    text: str
    before: str = ""
    reply: str = ""

    @property
    def open(self) -> bool:
        """Whether nobody has answered it."""
        return not self.reply

    def with_reply(self, stored: "Mapping[str, StoredCell]") -> "Request":
        """Return this request with the comment that the gradebook has now on its answer, if that
        is a new one.
        """
        comment = stored.get(self.answer, StoredCell()).comment or ""
        return dataclasses.replace(self, reply=comment if comment != self.before else "")


@dataclass
class Outcome:
    """The result of grading one submission.

    Attributes
    ----------
    kind : Kind
    reason : Message
        Why, if it is neither right nor wrong.
    repairs : list of Message
        Repairs made before the notebook could be graded, and other notes for the student.
    evidence : list of str
        Altered or forged parts that were found.
    cells : dict
        A `CellResult` for each graded cell, by grade id.
    notebook : str
        The graded notebook, as JSON.
    seconds : dict
        How long each phase of grading took.
    took : float, optional
        How long all of it took, in seconds; None if no worker finished it.
    worker : str, optional
        Who graded it: machine/process.
    requests : list of Request
        The student's regrade requests.
    versions : dict
        The versions that its worker has, and the worker's machine, by name.
    """

    kind: Kind
    reason: Message
    repairs: list[Message]
    evidence: list[str]
    cells: dict[str, CellResult]
    notebook: str
    seconds: dict[str, float] = field(default_factory=dict)
    took: float | None = None
    worker: str | None = None
    requests: list[Request] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Deadline:
    """When a submission was due.

    Attributes
    ----------
    due : str
        The due date with the student's extension, as ISO 8601 has it: in the time zone of the
        class, or UTC. "" if there is none.
    extension : float
        The student's extension, in seconds.
    free_days_used, free_days_left : int
        The free days that a late submission uses, and those that its student has left after it.
    """

    due: str = ""
    extension: float = 0.0
    free_days_used: int = 0
    free_days_left: int = 0


@dataclass
class SubmissionScore:
    """A submission's score in the gradebook: with manual grades, and minus the late penalty.

    `seconds_late` is counted from the due date with the student's extension, and includes free
    days. `needs_manual_grade` is about points that only a person can give, not about those that
    wait for a machine.
    """

    score: float
    max_score: float
    penalty: float = 0.0
    seconds_late: float = 0.0
    needs_manual_grade: bool = False
    deadline: Deadline = field(default_factory=Deadline)


@dataclass(frozen=True)
class StoredCell:
    """The gradebook's data on one cell.

    A graded cell has its `score` of `points`, whether it `waits` for a person, and whether one gave
    its score (`has_manual_score`); an answer has a person's `comment` and nbgrader's `automatic`
    one.
    """

    score: float = 0.0
    points: float = 0.0
    waits: bool = False
    has_manual_score: bool = False
    comment: str | None = None
    automatic: str | None = None


@dataclass(frozen=True)
class Disclosure:
    """All that a student needs to recompute a grade; a page has it once the exercise's key is
    public.

    Attributes
    ----------
    assignment : str
    key, commitment : str
        The exercise's key, and its hash.
    origin : Origin
        Where the seed comes from. Only the one from the key can be verified.
    seed, guest_seed : int
        The seeds of the checks' inputs, and of the random numbers of the student's own code.
    submission : str
        The digest of the submission, made of the next three.
    notebook : str or None
        The SHA-256 of the notebook; None if there was none.
    stamp : str or None
        The text of its `timestamp.txt`.
    files : dict
        The SHA-256 of each other submitted file, by relative path.
    exercise : str
        The fingerprint of the exercise's release.
    versions : dict
        The versions that it was graded with, and the machine, by name.
    points : dict
        The points from checks, by grade id.
    checks : dict
        How each check ended, by grade id and the check's name with a slash in between.
    """

    assignment: str
    key: str
    commitment: str
    origin: Origin
    seed: int
    guest_seed: int
    submission: str
    notebook: str | None
    stamp: str | None
    files: dict[str, str]
    exercise: str
    versions: dict[str, str]
    points: dict[str, float]
    checks: dict[str, str]


@dataclass
class StoredGrades:
    """The gradebook's data on a submission: its score, and the data on each cell, by grade id.

    Two parts are not from there: `requests` are the student's regrade requests, and `disclosure` is
    what the page shows of the draws, once these are public.
    """

    submission_score: SubmissionScore
    cells: dict[str, StoredCell] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    disclosure: Disclosure | None = None

    def digest(self) -> str:
        """Return a digest that changes when someone changes a score or a comment in the
        gradebook, or at a reveal.
        """
        parts = dataclasses.asdict(self)
        # The names in the digests of all pages so far: with others, all would be made again.
        parts["standing"] = parts.pop("submission_score")
        for cell in parts["cells"].values():
            cell["manual"] = cell.pop("has_manual_score")
        # So that a page from before there were disclosures is still up to date.
        if self.disclosure is None:
            del parts["disclosure"]
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class Record:
    """One submission's grade as it is kept in `grade.json`, earlier ones in `history` as they
    were written.
    """

    student: str
    assignment: str
    submission_digest: str
    release_digest: str
    seed: int
    sandbox: bool
    graded_at: str
    kind: Kind
    reason: Message
    repairs: list[Message]
    evidence: list[str]
    cells: dict[str, CellResult]
    score: float
    max_score: float
    penalty: float = 0.0
    seconds_late: float = 0.0
    needs_manual_grade: bool = False
    deadline: Deadline = field(default_factory=Deadline)
    requests: list[Request] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def pending(self) -> float:
        """The pending points: they wait for a machine that can run their checks, or for a
        person.
        """
        return round(sum(cell.pending for cell in self.cells.values()), 4)

    def waits_for(self) -> list[str]:
        """Return what its pending points need of a machine, as checks name it."""
        return sorted({need for cell in self.cells.values() for need in cell.waits_for()})

    def with_stored(self, stored: StoredGrades) -> "Record":
        """Return this record as the gradebook has it now; points that a person gave are no
        longer pending.
        """
        requests = [request.with_reply(stored.cells) for request in self.requests]
        return dataclasses.replace(
            self,
            cells=with_manual_points(self.cells, stored.cells),
            requests=requests,
            **vars(stored.submission_score),
        )


def with_manual_points(
    cells: Mapping[str, CellResult], stored: Mapping[str, StoredCell]
) -> dict[str, CellResult]:
    """Return the results of cells with what the gradebook says that a person did, or still has
    to do.
    """
    results = {}
    for name, cell in cells.items():
        now = stored.get(name, StoredCell())
        if now.has_manual_score:
            cell = dataclasses.replace(cell, manual_points=now.score, pending=0.0)
        else:
            cell = dataclasses.replace(cell, manual_points=None)
        results[name] = dataclasses.replace(cell, waits=now.waits)
    return results

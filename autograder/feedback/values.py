"""The values for the template of a feedback page, in the order in which they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup

from autograder.checking.report import Report
from autograder.checking.words import Message
from autograder.feedback.outcome_cell import Summary
from autograder.grades.results import Disclosure, SubmissionScore

Text = str | Message


@dataclass(frozen=True)
class FailedCheck:
    """The `Result` of a failed check in words, as a card shows it.

    Not the result itself: a report goes through files that others may write, and what cannot be put
    into words is left out before the page is begun. `matrices` has a name and rows of numbers, each
    with a mark if wrong.
    """

    title: str
    message: str
    held: str
    relation: str
    element: str
    lead: str
    matrices: list[tuple[str, list[list[tuple[str, bool]]]]]
    label: str
    hint: str


@dataclass(frozen=True)
class Function:
    """One graded cell: its name, its points, and the findings of its checks.

    It `waits` for a person, or one gave its points (`has_manual_score`); it is `unwritten` if no
    check could be tried. `worth` is its points in words, `lost` what is lost, `share` per cent of
    what it could have; it `is_full` if none is lost. `advised` tells whether there is advice, which
    costs nothing. `ending` is what there is to say of a cell without a report.
    """

    id: str
    cell: str
    name: str
    score: float
    most: float
    waits: bool
    pending: Message | None
    has_manual_score: bool
    unwritten: bool
    comment: Markup | str
    check: bool
    report: Report | None
    ending: str
    worth: str
    lost: float
    is_full: bool
    advised: bool
    share: float


@dataclass(frozen=True)
class Card:
    """One cause that cost a function points, by what its first check found; without that,
    by a message.
    """

    id: str
    name: str
    lost: float
    comment: Markup | str = ""
    read: Text = ""
    message: Text = ""
    check: FailedCheck | None = None
    others: Sequence[Text] = ()
    blocked: int = 0


@dataclass(frozen=True)
class Output:
    """One output of a cell: preformatted, or as HTML."""

    error: bool = False
    pre: Markup | None = None
    html: Markup | None = None


@dataclass(frozen=True)
class Prose:
    """A text of the course, folded below its title."""

    kind: ClassVar[str] = "text"
    title: Markup
    body: Markup | str


@dataclass(frozen=True)
class GivenCode:
    """Code of the course, and its outputs; `stop` if it was stopped."""

    kind: ClassVar[str] = "given"
    id: str
    title: str
    code: Markup
    outputs: list[Output]
    stop: bool


@dataclass(frozen=True)
class StudentCell:
    """A cell that is the student's to write: text or code, which is folded below `folded` if
    that says something.
    """

    id: str
    stop: bool
    comment: Markup | str
    text: Markup | str
    code: Markup | str
    folded: str
    outputs: list[Output]


@dataclass(frozen=True)
class StudentWork:
    """Cells of the student, next to their points; `source` is the check's code if it left no
    report.
    """

    kind: ClassVar[str] = "work"
    cells: list[StudentCell]
    function: Function | None = None
    printed: Sequence[Output] = ()
    source: Markup | str = ""


@dataclass(frozen=True)
class FeedbackPage:
    """All of a page.

    `made_of` is the digest of what the gradebook has, `summary` is the outcome of the submission,
    `advice` what to do about one that could not be graded. `dates` and `requests` are sentences on
    when it was due and on its regrade requests; `can_ask` tells whether its notebook has a place
    for these. `disclosure` is what a student needs to recompute the grade, once that is public;
    `recompute` is the same as data.
    """

    language: str
    assignment: str
    title: Markup
    student: str
    submission_score: SubmissionScore
    made_of: str
    disclosure: Disclosure | None
    recompute: str
    style: Markup
    summary: Summary | None
    advice: str
    dates: list[Message]
    requests: list[Message]
    can_ask: bool
    functions: list[Function]
    cards: list[Card]
    sections: list[Prose | GivenCode | StudentWork]

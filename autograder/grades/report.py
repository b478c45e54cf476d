"""The instructor's report: one self-contained HTML page on a graded class."""

import base64
import hashlib
import os
import re
import shlex
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from autograder.checking import Result, Status, words
from autograder.checking.report import likely
from autograder.checking.words import Message, counted, shown, translated
from autograder.course import catalogs
from autograder.course.config import Course, UserError
from autograder.grades import changes, item_analysis, reasons, records
from autograder.grades.changes import Change, Sum
from autograder.grades.item_analysis import Attempts, Comparison, Discrimination
from autograder.grades.results import CellResult, Kind, Record
from autograder.sanitize import code, text

BINS = 10
NEARLY_ALL = 0.8
"""Share of a class that fails a check which is pointed out."""
SCREEN = 50
"""Rows that a table of the page shows at one time, and all that it has without JavaScript."""
NAMED = 6
"""How many students are named next to a misconception; more are folded."""
SIGNS = {
    "passed": ("p", "✓"), "failed": ("f", "✗"), "blocked": ("w", "…"), "unverified": ("u", "◌"),
    "advice": ("a", "i"),
    "open": ("o", "?"),
}  # fmt: skip
"""By a mark: its letter in the page's data, and its sign."""
MARKS = {
    "passed": "passed", "failed": "failed", "blocked": "waits", "unverified": "pending",
    "advice": "advice",
    "open": "needs a manual grade",
}  # fmt: skip
"""By a mark: what it is called."""
SCRIPT = Path(__file__).parent.parent / "templates" / "report.js"
ERROR = Message("the cell raised an error")
BY_A_PERSON = Message("Graded by a person.")
WITHOUT_POINTS = "{name}, ungraded"
OTHER_NUMBERS = "The numbers are from one student; they differ for others."
ONLY_NUMBERS = re.compile(r"[-+\d\s.,;:()eE]*|-?inf|nan")
NO_NOTEBOOK = Message("not a notebook")


@dataclass
class Column:
    """One check in the picture of a class, or a cell that has no checks.

    It counts how many students failed it, and for how many it was blocked, unverified or advice.
    """

    cell: str
    check: str
    function: str
    name: str
    title: str
    failed: int = 0
    blocked: int = 0
    unverified: int = 0
    advised: int = 0


@dataclass(frozen=True)
class Bar:
    """One bar of the histogram; its height is in per cent of the highest."""

    label: str
    count: int
    height: float


class CheckCost(NamedTuple):
    """A check of a function, the points that it cost the class, and how many students lost some."""

    function: str
    title: str
    points: float
    students: int


class MissingPackages(NamedTuple):
    """A sentence on the packages that students import and that were not installed; and who these
    students are.
    """

    said: str
    who: list[str]


class Misconception(NamedTuple):
    """A misconception about a function, in the words that students read, how many students have it,
    and which.

    It is a listed one, with its hint, or a relation between the result and the expected one, as
    `label`.
    """

    function: str
    label: str
    hint: str
    students: int
    who: list[str]
    kind: str


@dataclass(frozen=True)
class OpenRequest:
    """A regrade request that nobody has answered, with the failed checks of its function.

    A check has its title and what it found; `explain` is the command that shows its inputs and what
    was returned.
    """

    student: str
    function: str
    text: str
    link: str
    checks: list[tuple[str, str]]
    explain: str


@dataclass(frozen=True)
class SubmissionRow:
    """One submission; `marks` is empty where nothing of it was tried.

    A mark is a status, `open`, or nothing.

    `change` is how its grade last became another, if it ever did; `late` says how late it was, if
    it was.
    """

    student: str
    link: str
    score: float
    pending: float
    marks: list[tuple[str, Column]]
    kind: Kind
    needs_manual_grade: bool
    reasons: list[str]
    earlier: int
    evidence: list[str]
    change: Change | None = None
    late: Message | None = None


@dataclass(frozen=True)
class Assignment:
    """The report on one exercise.

    `hard` and `never` are the columns that nearly all or no students failed; `missed` are packages
    that were not installed; `sums` summarize changed grades; `dates` are sentences on the due date,
    on late submissions and on extensions; `requests` are the open regrade requests, which a report
    without names only counts. `comparison` is with the same exercise in another class, if the
    report names one that has it.
    """

    name: str
    histogram: list[Bar]
    mean: float
    median: float
    max_score: float
    checks: list[CheckCost]
    misconceptions: list[Misconception]
    rows: list[SubmissionRow]
    links: dict[str, str]
    pending: int
    columns: list[Column]
    functions: list[tuple[str, int]]
    hard: list[Column]
    never: list[Column]
    missed: MissingPackages | None = None
    sums: list[Sum] = field(default_factory=list)
    dates: list[Message] = field(default_factory=list)
    requests: list[OpenRequest] = field(default_factory=list)
    open_requests: int = 0
    discriminations: list[Discrimination] = field(default_factory=list)
    attempts: list[Attempts] = field(default_factory=list)
    comparison: Comparison | None = None


@dataclass(frozen=True)
class ComparedClass:
    """The other class of a report: the folder of its grades, and the exercises that only one of
    the classes has.
    """

    folder: Path
    only_here: list[str]
    only_there: list[str]


@dataclass(frozen=True)
class TodaysSubmission:
    """A submission of today: when, whose, of which exercise, its points, and how often this
    student's was graded.
    """

    when: datetime
    student: str
    exercise: str
    link: str
    score: float
    max_score: float
    times: int


@dataclass(frozen=True)
class ClassReport:
    """The report on a class, and the other class that it is compared with, if any.

    `open` counts the submissions graded without a sandbox. `today` has those submitted today, which
    a report without names only counts.
    """

    assignments: list[Assignment]
    students: int
    anonymous: bool
    open: int
    kinds: list[tuple[Kind, int]]
    graded_at: str
    compared_class: ComparedClass | None = None
    today: list[TodaysSubmission] = field(default_factory=list)


def write(
    course: Course, report_path: Path, anonymous: bool = False, beside: Path | None = None
) -> ClassReport:
    """Write the report on all graded submissions to `report_path` in the grader's language; return
    what it says in English.

    Parameters
    ----------
    course : Course
    report_path : Path
    anonymous : bool
        Whether to leave out names and links.
    beside : Path, optional
        The folder with the grades of another class to compare with. None of its students is named.

    Raises
    ------
    UserError
        If nothing is graded yet, or if `beside` has no grades of another class.
    """
    graded = records.all_of(course)
    if not graded:
        raise UserError(
            f"Nothing is graded in {course.output_folder} yet. Run: python -m autograder grade"
        )
    other = (beside, _grades_of_another(course, beside)) if beside else None
    pseudonyms = records.numbered(record.student for record in graded) if anonymous else {}
    today = _today(course, report_path, graded)
    # Twice: in English for `--json`, and for the page in the language of the grader.
    class_report = _class_report(course, report_path, graded, pseudonyms, other, today)
    base = "" if anonymous else f"{_link(course.feedback, report_path)}/"
    with catalogs.for_graders(course.root):
        localized_report = (
            class_report
            if words.language() == words.ENGLISH
            else _class_report(course, report_path, graded, pseudonyms, other, today)
        )
        report_path.write_text(_html(localized_report, base), encoding="utf-8")
    return class_report


def _grades_of_another(course: Course, folder: Path) -> list[Record]:
    """Return the records of the class whose grades are in a folder; raise `UserError` if that is
    no other class.
    """
    if not folder.is_dir():
        raise UserError(
            f"There is no folder {folder}. With --beside, name the --into folder of another class."
        )
    other = Course(root=course.root, output_folder=folder.resolve())
    if other.output_folder == course.output_folder.resolve() or other.db_url == course.db_url:
        raise UserError(
            f"{folder} has the grades of this class. Name the folder of another class "
            "with --beside."
        )
    if not other.has_gradebook:
        raise UserError(
            f"There is no gradebook in {folder}. With --beside, name the --into "
            "folder of another class."
        )
    try:
        graded = records.all_of(other)
    except UserError as error:
        raise UserError(f"{folder} cannot be compared with. {error}") from error
    if not graded:
        raise UserError(
            f"Nothing is graded in {folder}. With --beside, name the --into folder of "
            "a graded class."
        )
    return graded


def _class_report(
    course: Course,
    report_path: Path,
    graded: list[Record],
    pseudonyms: dict[str, str],
    other: tuple[Path, list[Record]] | None,
    today: list[TodaysSubmission],
) -> ClassReport:
    """Return what a report says, in the language in use."""
    ours, theirs = _by_exercise(graded), _by_exercise(other[1] if other else [])
    compared_class = (
        ComparedClass(
            other[0].resolve(), sorted(ours.keys() - theirs), sorted(theirs.keys() - ours)
        )
        if other
        else None
    )
    return ClassReport(
        assignments=[
            _assignment(course, report_path, name, own_records, pseudonyms, theirs.get(name))
            for name, own_records in sorted(ours.items())
        ],
        students=len({record.student for record in graded}),
        anonymous=bool(pseudonyms),
        open=sum(not record.sandbox for record in graded),
        kinds=Counter(record.kind for record in graded).most_common(),
        graded_at=max(record.graded_at for record in graded),
        compared_class=compared_class,
        today=today,
    )


def _today(course: Course, report_path: Path, graded: Iterable[Record]) -> list[TodaysSubmission]:
    """Return what was submitted since midnight in this machine's time zone, the last one first."""
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    submissions = []
    for record in graded:
        # What was graded before today was submitted before today: no file need be read.
        if datetime.fromisoformat(record.graded_at) < midnight:
            continue
        paths = course.paths_of(record.student, record.assignment)
        when = _submitted(paths.stamp)
        if when is None or when < midnight:
            continue
        submissions.append(
            TodaysSubmission(
                when.astimezone(),
                record.student,
                record.assignment,
                _link(paths.page, report_path),
                record.score,
                record.max_score,
                len(record.history) + 1,
            )
        )
    return sorted(submissions, key=lambda each: each.when, reverse=True)


def _submitted(stamp: Path) -> datetime | None:
    """Return the time in a `timestamp.txt`; None if there is none."""
    from nbgrader.utils import parse_utc

    try:
        time: datetime = parse_utc(text.line(stamp.read_text(encoding="utf-8"), 100))
        return time.replace(tzinfo=UTC)
    except Exception:  # dateutil has many ways to fail on a text that is not a date
        return None


def _by_exercise(graded: list[Record]) -> dict[str, list[Record]]:
    by_exercise: dict[str, list[Record]] = {}
    for record in graded:
        by_exercise.setdefault(record.assignment, []).append(record)
    return by_exercise


def _html(class_report: ClassReport, base: str) -> str:
    environment = Environment(
        loader=PackageLoader("autograder"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["code"] = code.inline
    environment.globals.update(
        _=translated, counted=counted, lead=words.lead, between=words.between, gap=words.gap
    )
    environment.globals.update(
        shown=shown, Message=Message, screen=SCREEN, named=NAMED, analysis=item_analysis
    )
    environment.filters["signed"] = _signed
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    # The page's policy runs only the script with this hash: a name cannot add another one.
    script = SCRIPT.read_text(encoding="utf-8")
    return environment.get_template("report.html.j2").render(
        vars(class_report),
        language=words.language(),
        time=_time(class_report.graded_at),
        signs=SIGNS,
        data=_data(class_report, base),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _signed(number: float) -> str:
    """Return a whole number with its sign, as a difference is written."""
    return f"{round(number):+d}".replace("-", "−") if round(number) else "0"


def _time(iso: str) -> str:
    """Return a time (UTC) as a sentence has it."""
    # Other languages write the date in words.
    if words.language() == words.ENGLISH:
        return iso[:16].replace("T", " ")
    from babel.dates import format_date

    when = datetime.fromisoformat(iso)
    return f"{format_date(when, 'long', locale=words.language().replace('-', '_'))} {when:%H:%M}"


def texts_of_script() -> list[str]:
    """Return the texts that report.js shows, for the page's data."""
    return re.findall(r'\b_\("([^"]+)"', SCRIPT.read_text(encoding="utf-8"))


def _link(to: Path, report_path: Path) -> str:
    return quote(os.path.relpath(to, report_path.resolve().parent).replace(os.sep, "/"))


# The rows, as the page's script has them. All of them as elements would be more than a browser
# likes to hold.


class _Texts:
    """Texts of many rows, stored once each; a row has their numbers."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, texts: Sequence[str]) -> list[int]:
        return [self.numbers.setdefault(text, len(self.numbers)) for text in texts]


def _data(class_report: ClassReport, base: str) -> dict[str, Any]:
    """Return what report.js draws: `parts` with a row for each submission, and the texts that
    rows refer to.
    """
    students = sorted(
        {row.student for assignment in class_report.assignments for row in assignment.rows},
        key=_natural,
    )
    numbers = {student: number for number, student in enumerate(students)}
    texts = _Texts()
    parts = []
    for assignment in class_report.assignments:
        columns = [[column.cell, column.check, column.title] for column in assignment.columns]
        rows = [_row_data(row, numbers, texts) for row in assignment.rows]
        parts.append({"name": assignment.name, "columns": columns, "rows": rows})
    signs = {letter: [sign, translated(MARKS[mark])] for mark, (letter, sign) in SIGNS.items()}
    return {
        "base": base, "screen": SCREEN, "signs": signs, "students": students,
        "texts": list(texts.numbers),
        "parts": parts,
        "words": {
            source: translation
            for source in texts_of_script()
            if (translation := translated(source)) != source
        },
    }  # fmt: skip


def _row_data(row: SubmissionRow, numbers: Mapping[str, int], texts: _Texts) -> list[Any]:
    """Return a row of the students' table, as report.js unpacks it: by place, without names."""
    marks = "".join(SIGNS[mark][0] if mark else "." for mark, _ in row.marks)
    tags = []
    if row.needs_manual_grade:
        tags.append(translated("needs a manual grade"))
    if row.earlier:
        tags.append(str(counted("graded once", "graded {count} times", row.earlier + 1)))
    if row.late:
        tags.append(str(row.late))
    return [
        numbers[row.student],
        row.score,
        row.pending,
        translated(row.kind),
        marks,
        texts.of(tags),
        texts.of(row.reasons),
        texts.of(row.evidence),
        _changed(row.change, texts),
    ]


def _changed(change: Change | None, texts: _Texts) -> list[Any]:
    """Return points before, points after, their difference, through what, and when; nothing
    without a change.
    """
    if change is None or change.before is None:
        return []
    when = change.when[:16].replace("T", " ")
    return [
        change.before.score,
        change.after.score,
        change.difference,
        texts.of(change.causes()),
        *texts.of([when]),
    ]


def _assignment(
    course: Course,
    report_path: Path,
    name: str,
    records: list[Record],
    pseudonyms: dict[str, str],
    other_records: list[Record] | None,
) -> Assignment:
    checks, misconceptions = costs(records, pseudonyms)
    columns = _columns(records)
    hard, never = _least_telling(columns, records)
    rows = _rows(course, report_path, records, pseudonyms, columns)
    changed = [row.change for row in rows if row.change]
    # A request has its student's own words, so that a report without names only counts it.
    requests: list[OpenRequest] = []
    for record in [] if pseudonyms else records:
        requests += _open_requests(course, report_path, record)
    return Assignment(
        name=name,
        histogram=_histogram([record.score / (record.max_score or 1) for record in records]),
        mean=statistics.mean(record.score for record in records),
        median=statistics.median(record.score for record in records),
        max_score=records[0].max_score,
        checks=checks,
        misconceptions=misconceptions,
        rows=rows,
        links={row.student: row.link for row in rows},
        pending=sum(record.pending > 0 for record in records),
        columns=columns,
        # Neighboring columns of one function have a common heading, so many columns wide.
        functions=[
            (function, len(list(group)))
            for function, group in groupby(column.function for column in columns)
        ],
        hard=hard,
        never=never,
        missed=_missed(records, pseudonyms),
        sums=changes.sums(changed) if changed else [],
        dates=_dates(records, pseudonyms),
        requests=requests,
        open_requests=sum(request.open for record in records for request in record.requests),
        discriminations=item_analysis.discriminations(records),
        attempts=item_analysis.attempts(records),
        comparison=item_analysis.compared(records, other_records) if other_records else None,
    )


def _open_requests(course: Course, report_path: Path, record: Record) -> Iterator[OpenRequest]:
    """Yield the open regrade requests of a submission."""
    paths = course.paths_of(record.student, record.assignment)
    for request in record.requests:
        if not request.open:
            continue
        cell = next(
            (cell for cell in record.cells.values() if cell.subject == request.function), None
        )
        failed = [check for check in cell.checks if check.status == Status.FAILED] if cell else []
        yield OpenRequest(
            student=record.student,
            function=request.function,
            text=text.block(request.text),
            link=_link(paths.page, report_path),
            checks=[(shown(check.title), text.line(shown(check.message))) for check in failed],
            explain="python -m autograder explain "
            f"{shlex.quote(os.path.relpath(paths.record, course.root))} --check "
            f"{request.function}",
        )


def _dates(records: list[Record], pseudonyms: Mapping[str, str]) -> list[Message]:
    """Return sentences on when an exercise was due, how many were late, and who has an extension.

    If students have no names here, those with an extension are only counted.
    """
    dated = [record for record in records if record.deadline.due]
    if not dated:
        return []
    due = [reasons.moment(due_date) for due_date in _due_dates(dated)]
    when = words.joined("{left}, {right}", due)
    late = sum(record.seconds_late > 0 for record in dated)
    sentences = [
        Message("Due on {when}.", when=when),
        counted("{count} submission was late.", "{count} submissions were late.", late),
    ]
    extended = [record for record in dated if record.deadline.extension]
    is_anonymous = bool(pseudonyms)
    if extended and is_anonymous:
        sentences.append(
            counted(
                "{count} student has an extension.",
                "{count} students have an extension.",
                len(extended),
            )
        )
    elif extended:
        who = [
            Message(
                "{student} ({time})",
                student=record.student,
                time=reasons.duration(record.deadline.extension),
            )
            for record in sorted(extended, key=lambda record: _natural(record.student))
        ]
        sentences.append(
            Message("Extensions: {students}.", students=words.joined("{left}, {right}", who))
        )
    return sentences


def _due_dates(dated: Iterable[Record]) -> list[str]:
    """Return when an exercise was due, without extensions, as ISO 8601 has it."""
    due: dict[datetime, str] = {}
    # If clocks change during an extension, the same moment has two offsets from UTC: that of a
    # student without an extension is shown.
    for deadline in sorted((record.deadline for record in dated), key=lambda each: each.extension):
        moment = datetime.fromisoformat(deadline.due) - timedelta(seconds=deadline.extension)
        due.setdefault(moment, moment.isoformat(timespec="minutes"))
    return [due[moment] for moment in sorted(due)]


def costs(
    records: list[Record], pseudonyms: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[CheckCost], list[Misconception]]:
    """Return what cost a class most: points lost by check (of what is worth any), and what was
    misunderstood.

    Both are sorted by cost; `pseudonyms` has what students are called in place of their names.
    """
    return _check_costs(records), _misconceptions(records, pseudonyms)


def _check_costs(records: Iterable[Record]) -> list[CheckCost]:
    lost: defaultdict[tuple[str, str], float] = defaultdict(float)
    losers: Counter[tuple[str, str]] = Counter()
    for record in records:
        for cell in record.cells.values():
            total_weight = sum(check.weight for check in cell.checks) or 1
            for check in cell.checks:
                if check.status.costs_points and cell.max_points and check.weight:
                    key = (cell.subject, check.title)
                    lost[key] += cell.max_points * check.weight / total_weight
                    losers[key] += 1
    most_first = sorted(lost.items(), key=lambda item: item[1], reverse=True)
    return [CheckCost(*key, points, losers[key]) for key, points in most_first]


def _misconceptions(
    records: Iterable[Record], pseudonyms: Mapping[str, str]
) -> list[Misconception]:
    students: defaultdict[tuple[str, Any], list[str]] = defaultdict(list)
    explanations: dict[tuple[str, Any], Explanation] = {}
    for record in records:
        for cell in record.cells.values():
            # A student with several failed checks of one cause is counted once. In a dict, as the
            # order of a set would differ from run to run.
            of_cell: dict[tuple[str, Any], None] = {}
            for check in cell.checks:
                is_explained = check.cause or str(reasons.relation_of(check))
                if not check.status.costs_points or not is_explained:
                    continue
                key, explanation = _explained(check)
                misconception = cell.subject, key
                of_cell[misconception] = None
                known = explanations.setdefault(misconception, explanation)
                # The same relation with other numbers: each student has other draws.
                if known.label != explanation.label:
                    with_note = known._replace(hint=translated(OTHER_NUMBERS))
                    explanations[misconception] = with_note
            for misconception in of_cell:
                students[misconception].append(pseudonyms.get(record.student, record.student))
    by_frequency = sorted(students.items(), key=lambda item: (-len(item[1]), item[0][0]))
    return [
        Misconception(
            function=misconception[0],
            label=explanations[misconception].label,
            hint=explanations[misconception].hint,
            students=len(who),
            who=sorted(who, key=_natural),
            kind=explanations[misconception].kind,
        )
        for misconception, who in by_frequency
    ]


def _missed(records: list[Record], pseudonyms: Mapping[str, str]) -> MissingPackages | None:
    """Return the packages that a class imports and that were not installed, most first; None
    without any.

    If students have no names here, a package that only one of them imports has none either: it may
    be called after its author.
    """
    who = {}
    for record in records:
        packages = reasons.packages_missed(record)
        if packages:
            who[pseudonyms.get(record.student, record.student)] = packages
    if not who:
        return None
    count = Counter(package for packages in who.values() for package in packages)
    named = [
        f"`{package}` ({number})"
        for package, number in count.most_common(NAMED)
        if number > 1 or not pseudonyms
    ]
    if len(named) < len(count):
        named.append("…")
    sentence = counted(
        "{count} student imports packages that are not installed here: {packages}.",
        "{count} students import packages that are not installed here: {packages}.",
        len(who),
        packages=words.joined("{left}, {right}", named),
    )
    return MissingPackages(str(sentence), sorted(who, key=_natural))


class Explanation(NamedTuple):
    """What a student reads of a failed check: a listed cause with its hint, or a relation."""

    label: str
    hint: str
    kind: str


def _explained(check: Result) -> tuple[Any, Explanation]:
    """Return the key that a check's explanation shares with similar ones, and the explanation."""
    if check.cause:
        label, hint = likely(check.label or reasons.words_of(check.cause), check.hint)
        return label, Explanation(label, hint, "cause")
    relation = reasons.relation_of(check)
    # Without the drawn numbers, in which the same relation differs from student to student.
    values = relation.values.items()
    key = relation.text, *[str(value) for name, value in values if not _is_drawn(name, value)]
    return key, Explanation(str(relation), "", "relation")


def _is_drawn(name: str, value: Any) -> bool:
    """Tell whether a value of a relation is a number that another draw has otherwise."""
    return name not in ("axis", "by") and ONLY_NUMBERS.fullmatch(str(value)) is not None


def _columns(records: list[Record]) -> list[Column]:
    """Return what the class was tried in, in the order of the notebook."""
    # Of all records: an earlier release may have had other checks.
    found: dict[str, dict[str, Column]] = {}
    for record in records:
        for grade_id, cell in record.cells.items():
            columns = found.setdefault(grade_id, {})
            if cell.is_graded_by_hand:
                columns.setdefault(
                    "", Column(grade_id, "", grade_id, translated("by a person"), str(BY_A_PERSON))
                )
            for check in cell.checks:
                name = reasons.words_of(check.name.removeprefix(f"{cell.subject}_"))
                # This function's heading is one column wide, too narrow for its name.
                if not cell.max_points:
                    name = str(Message(WITHOUT_POINTS, name=reasons.words_of(cell.subject)))
                made = Column(grade_id, check.name, cell.subject, name, shown(check.title))
                column = columns.setdefault(check.name, made)
                column.failed += check.status == Status.FAILED
                column.blocked += check.status == Status.BLOCKED
                column.unverified += check.status == Status.UNVERIFIED
                column.advised += check.status == Status.ADVICE
    return [column for columns in found.values() for column in columns.values()]


def _least_telling(
    columns: list[Column], records: list[Record]
) -> tuple[list[Column], list[Column]]:
    """Return the checks that distinguish students least: nearly all failed them, or no one."""
    # Files that could not be read have no checks, and one submission says nothing of a class.
    tried = sum(any(cell.checks for cell in record.cells.values()) for record in records)
    checks = [column for column in columns if column.check and tried > 1]
    hard = [column for column in checks if column.failed >= NEARLY_ALL * tried]
    never = [
        column
        for column in checks
        if not (column.failed or column.blocked or column.unverified or column.advised)
    ]
    return hard, never


def _marks(record: Record, columns: list[Column]) -> list[tuple[str, Column]]:
    """Return the result of a submission in each column: a status, open, or nothing."""
    marks = []
    for column in columns:
        # Graded with a release that does not have this cell.
        cell = record.cells.get(column.cell)
        if cell is None:
            mark = ""
        elif column.check:
            mark = next((check.status for check in cell.checks if check.name == column.check), "")
        elif str(cell.error):
            mark = "failed"
        else:
            mark = "open" if record.needs_manual_grade else "passed"
        marks.append((mark, column))
    return marks


def _histogram(shares: list[float]) -> list[Bar]:
    # All points, and more with extra credit, are in the last bar.
    counts = [0] * BINS
    for share in shares:
        counts[min(int(share * BINS), BINS - 1)] += 1
    width = 100 // BINS
    most = max(counts)
    return [
        Bar(f"{i * width}–{(i + 1) * width}%", count, 100 * count / most)
        for i, count in enumerate(counts)
    ]


def _rows(
    course: Course,
    report_path: Path,
    records: list[Record],
    pseudonyms: dict[str, str],
    columns: list[Column],
) -> list[SubmissionRow]:
    rows = []
    for record in records:
        link = _link(course.paths_of(record.student, record.assignment).page, report_path)
        # A file's name, or the text of an error, may name its author.
        nameless = _without_texts(record) if pseudonyms else record
        rows.append(
            SubmissionRow(
                student=pseudonyms.get(record.student, record.student),
                link="" if pseudonyms else link,
                score=record.score,
                pending=record.pending,
                marks=_marks(record, columns)
                if any(cell.checks for cell in record.cells.values())
                else [],
                kind=record.kind,
                needs_manual_grade=record.needs_manual_grade,
                reasons=[
                    text.line(reason) for reason in reasons.lines_of(nameless, record.penalty)
                ],
                earlier=len(record.history),
                evidence=[] if pseudonyms else [text.block(lines) for lines in record.evidence],
                change=changes.latest(record),
                late=_late(record),
            )
        )
    return sorted(rows, key=lambda row: _natural(row.student))


def _late(record: Record) -> Message | None:
    if record.seconds_late <= 0:
        return None
    return Message("{time} late", time=reasons.duration(record.seconds_late))


def _without_texts(record: Record) -> Record:
    """Return a record without what may come from the student's file: messages, and file names."""

    def clean(cell: CellResult) -> CellResult:
        return replace(cell, error=ERROR) if str(cell.error) else cell

    reason = NO_NOTEBOOK if record.kind == Kind.MALFORMED else record.reason
    cells = {name: clean(cell) for name, cell in record.cells.items()}
    return replace(record, repairs=[], reason=reason, cells=cells)


def _natural(name: str) -> tuple[str, int, str]:
    """Return the key by which "Student 10" comes after "Student 9"."""
    head, _, number = name.rpartition(" ")
    return (head, int(number), name) if number.isdecimal() else (name, 0, name)

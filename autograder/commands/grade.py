"""The command `grade`: a whole class, into nbgrader's gradebook."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from autograder.commands.console import (
    Database,
    Into,
    Jobs,
    Json,
    Names,
    NoSandbox,
    OurFault,
    Root,
    Status,
    Submitted,
    course_at,
    document,
    err,
    keep_private,
    out,
    progress_of,
    say,
    short,
    warn,
    warn_of_gpus,
    write_timings,
)
from autograder.course.config import ROOT, Course, UserError

if TYPE_CHECKING:
    from autograder.grades.changes import Change
    from autograder.grades.results import Record
    from autograder.grading.executors import Executor
    from autograder.grading.session import Session

Force = Annotated[bool, typer.Option("--force", help="Also grade unchanged submissions again.")]
Redraw = Annotated[
    bool,
    typer.Option("--redraw", help="Grade all submissions again, with new inputs for the checks."),
]
OnlyPending = Annotated[
    bool,
    typer.Option(
        "--pending",
        help="Regrade only submissions with pending points that this machine can settle.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Write nothing; show which grades would be new or different."),
]
Since = Annotated[
    str,
    typer.Option(
        help="Grade only submissions since this time: 2026-11-25, 2026-11-25T18:00, or 90m, "
        "2h, 3d, 1w ago.",
        show_default="all",
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option(help="Append one line of JSON per submission to this file.", show_default="none"),
]
ClusterAddress = Annotated[
    str,
    typer.Option(
        help="Grade on the workers of the Dask scheduler at this address, or on N workers "
        "here: local:N.",
        show_default="this machine, without Dask",
    ),
]
# For the sample class of `course.py sample`, which is graded even where no sandbox is possible.
FallBack = Annotated[
    bool,
    typer.Option(
        "--fall-back", hidden=True, help="Run without a sandbox only if none is possible."
    ),
]


def grade(
    exercises: Names = None,
    submitted: Submitted = None,
    into: Into = None,
    db: Database = "",
    force: Force = False,
    redraw: Redraw = False,
    pending: OnlyPending = False,
    dry_run: DryRun = False,
    since: Since = "",
    jobs: Jobs = 0,
    log: LogFile = None,
    as_json: Json = False,
    cluster: ClusterAddress = "",
    no_sandbox: NoSandbox = False,
    fall_back: FallBack = False,
    root: Root = ROOT,
) -> None:
    """Grade a class into nbgrader's gradebook, and write autograded/ and feedback/.

    A submission that has not changed since it was graded is not graded again. Every submission,
    even an unreadable one, gets a grade and a reason. The command ends with status 0, or with 3 if
    the grader itself failed on some of them.
    """
    from autograder.grading import submission_times
    from autograder.grading.dry_run import copied_course, current_records
    from autograder.grading.executors import LocalExecutor
    from autograder.grading.options import Options
    from autograder.grading.session import Session

    course = course_at(root, into, db)
    # All that may fail is within the document, which then has the error.
    with document("grade", as_json) as result, ExitStack() as stack:
        keep_private(course)
        _check_options(dry_run, log, cluster, jobs)
        since_time = submission_times.parse_since(since) if since else None
        executor = stack.enter_context(_connected(cluster)) if cluster else LocalExecutor()
        # A dry run grades into a copy, which is deleted at the end.
        target_course = stack.enter_context(copied_course(course)) if dry_run else course
        earlier_records = current_records(target_course) if dry_run else {}
        session = Session(
            target_course,
            course.exercises(exercises or ()),
            submitted or course.submitted,
            jobs=jobs,
            options=Options(force, redraw, pages=not dry_run),
            pending=pending,
            hide=[course.output_folder],  # in a dry run, the session knows only the copy's
            since=since_time,
            log=log,
            executor=executor,
        )
        if not session.submissions and (pending or session.left_out):
            _say_why_nothing(session, since_time, as_json)
        else:
            _run(session, no_sandbox, fall_back)
        if dry_run:
            _report_changes(course, session, earlier_records, result, as_json)
        else:
            _report_grades(course, session, result, as_json)
        _raise_if_grader_failed(session.records, dry_run)


def _check_options(dry_run: bool, log: Path | None, cluster: str, jobs: int) -> None:
    """Raise `UserError` for options that contradict each other."""
    if dry_run and log:
        raise UserError("--dry-run writes nothing, not even a log. Leave out --log or --dry-run.")
    if cluster and jobs:
        raise UserError(
            "The workers of a cluster set their own number of jobs. Leave out --jobs or --cluster."
        )


@contextmanager
def _connected(address: str) -> Iterator["Executor"]:
    """Connect to a cluster's workers, and leave them at the end."""
    from autograder.grading.cluster import Cluster

    err.print(f"Connecting to {address}.", markup=False, highlight=False, soft_wrap=True)
    cluster = Cluster(address, warn)
    try:
        yield cluster
    finally:
        cluster.close()


def _run(session: "Session", no_sandbox: bool, fall_back: bool) -> None:
    """Grade with progress shown; Ctrl-C ends the command."""
    from autograder.checking.words import translated
    from autograder.course import catalogs

    for stray in session.strays:
        warn(stray)
    session.choose_sandbox(wanted=not no_sandbox, fall_back=fall_back, warn=warn)
    is_on_this_machine = not session.executor.option
    if is_on_this_machine:  # on a cluster, this machine's GPU does not matter
        warn_of_gpus(session.used)
    try:
        with catalogs.for_graders(session.course.root):
            title, starting = translated("Grading"), translated("starting")
            feedback = translated("feedback pages")
        with session, progress_of(title, rate=session.executor.progress) as progress:
            grading = progress.add_task(starting, total=len(session.submissions))
            pages = progress.add_task(feedback, total=len(session.submissions), visible=False)
            for step, record, _kept in session.run():
                task = grading if step == "graded" else pages
                # How many pages are missing is known only after all submissions are graded.
                progress.update(pages, total=session.batch.page_count)
                progress.update(
                    task,
                    visible=True,
                    advance=1,
                    description=f"{record.student} {record.assignment}",
                )
    except KeyboardInterrupt:
        is_dry_run = not session.options.pages
        if is_dry_run:
            warn("Stopped. Nothing was written.")
        else:
            warn("Stopped. Grades so far are kept; the same command continues from there.")
        raise typer.Exit(Status.STOPPED) from None


def _say_why_nothing(session: "Session", since: datetime | None, as_json: bool) -> None:
    """Say why there is nothing to grade; pending points that this machine cannot settle are an
    error.
    """
    if session.pending.elsewhere:
        raise UserError(" ".join(session.pending.sentences()))
    reason = "No points are pending."
    if since and not session.pending.settled_here and session.left_out:
        reason = f"No submission since {since:%Y-%m-%d %H:%M}; {session.left_out} earlier."
    if not as_json:
        say(f"{reason} Nothing was graded.")


def _report_changes(
    course: Course,
    session: "Session",
    earlier_records: "dict[tuple[str, str], Record]",
    result: dict[str, Any],
    as_json: bool,
) -> None:
    """Report the grades that a dry run would change, as text or as JSON."""
    from autograder.commands import documents
    from autograder.course import catalogs
    from autograder.grades import changes

    differences = changes.between(earlier_records, session.records)
    result.update(documents.of_changes(differences, session))
    if not as_json:
        with catalogs.for_graders(course.root):
            _show_changes(differences, session)


def _report_grades(
    course: Course, session: "Session", result: dict[str, Any], as_json: bool
) -> None:
    """Report the grades, as text or as JSON, and what is left to do."""
    from autograder.commands import documents
    from autograder.course import catalogs
    from autograder.grading.session import Pending

    write_timings(session.seconds)
    result.update(documents.of_grades(course, session))
    if session.records and not as_json:
        with catalogs.for_graders(course.root):
            _show_grades(course, session)
    # With --pending, submissions that this machine cannot settle were not graded at all.
    pending = Pending([*session.records, *session.pending.elsewhere], session.executor)
    for line in [*pending.sentences(), *session.misfiled(), *session.missing_grades()]:
        warn(line)


def _show_changes(changes: Sequence["Change"], session: "Session") -> None:
    """Print who would gain and who would lose points, in total and one by one, and because of
    which check.
    """
    from autograder.checking.words import Message, gap
    from autograder.grades.changes import sums

    total, *by_check = sums(changes)
    # New grades have no difference to sum.
    if any(change.before for change in changes):
        for line in (total, *by_check):
            say(str(line))
    if changes:
        out.print(_table_of_changes(changes))
    counts = {
        "new": sum(1 for change in changes if change.before is None),
        "gain": total.gain,
        "lose": total.lose,
    }
    values = {"count": len(session.records) - session.kept, "all": len(session.records), **counts}
    sentences = [
        Message("Would grade {count} of {all}: {new} new, {gain} gain, {lose} lose.", **values)
    ]
    if session.left_out:
        sentences.append(Message("{count} left out: submitted earlier.", count=session.left_out))
    say(gap().join(map(str, [*sentences, Message("Nothing was written.")])))


def _table_of_changes(changes: Sequence["Change"]) -> Table:
    from autograder.checking.words import translated
    from autograder.grades.changes import NEW

    table = Table(show_edge=False, header_style="bold")
    for name in ("Student", "Exercise", "Now", "Then", "Change", "Because of"):
        justify: Literal["left", "right"] = "right" if name in ("Now", "Then", "Change") else "left"
        table.add_column(translated(name), justify=justify, overflow="fold")
    for change in changes:
        before, after = change.before, change.after
        table.add_row(
            escape(after.student),
            after.assignment,
            f"{before.score:g}" if before else "–",
            _points(after),
            f"{change.difference:+g}" if before else translated(NEW),
            _cause(change),
        )
    return table


def _cause(change: "Change") -> str:
    """Return why a grade would change: the checks, or why it could not be graded."""
    from autograder.sanitize import text

    if change.before is None:
        return "–"
    if change.after.kind.ungraded:
        return escape(text.line(str(change.after.reason)))
    return "\n".join(change.causes()) or "–"


def _show_grades(course: Course, session: "Session") -> None:
    """Print all students' points, the reasons for lost points, and how many submissions were
    graded.
    """
    from autograder.checking.words import Message, joined

    records = sorted(session.records, key=lambda record: (record.student, record.assignment))
    out.print(_table(records))
    counts: list[str | Message] = [Message("Graded {count}", count=len(records) - session.kept)]
    if session.kept:
        text = "{count} unchanged and not graded again (use --force to do so)"
        counts.append(Message(text, count=session.kept))
    if session.left_out:
        counts.append(Message("{count} left out: submitted earlier", count=session.left_out))
    if session.renewed:
        counts.append(Message("pages rewritten: {count}", count=session.renewed))
    paths = {
        "gradebook": short(course.database, course),
        "feedback": short(course.feedback, course),
    }
    text = "{done}. Gradebook: {gradebook}  Feedback: {feedback}"
    say(str(Message(text, done=joined("{left}; {right}", counts), **paths)))


def _raise_if_grader_failed(records: Sequence["Record"], dry_run: bool) -> None:
    """Raise `OurFault` if a fault of the grader left submissions without a grade."""
    from autograder.grades.results import Kind

    faults = [record for record in records if record.kind == Kind.INFRASTRUCTURE]
    if faults:
        then = "." if dry_run else "; the other grades are kept."
        raise OurFault(
            f"{len(faults)} of {len(records)} could not be graded. That is our own fault, and no "
            f"points were lost: {faults[0].student}, {faults[0].reason}. Run the same command "
            f"again{then}"
        )


def _table(records: Sequence["Record"]) -> Table:
    from autograder.checking.words import translated
    from autograder.grades import reasons
    from autograder.sanitize import text

    table = Table(show_edge=False, header_style="bold")
    for name in ("Student", "Exercise", "Points", "Lost to"):
        table.add_column(
            translated(name), justify="right" if name == "Points" else "left", overflow="fold"
        )
    for record in records:
        points = _points(record)
        if record.needs_manual_grade:
            points += " +"  # the table's caption says what it means
        lost = [text.line(reason) for reason in reasons.lines_of(record, record.penalty)]
        table.add_row(
            escape(record.student), record.assignment, points, escape("\n".join(lost) or "–")
        )
    if any(record.needs_manual_grade for record in records):
        table.caption = translated("+ needs a manual grade")
    return table


def _points(record: "Record") -> str:
    """Return a record's points, its pending points, and the most points."""
    from autograder.checking.words import Message

    points = f"{record.score:g}"
    if record.pending:
        points += f" {Message('+ {points} pending', points=f'{record.pending:g}')}"
    return f"{points} / {record.max_score:g}"

"""The commands that instructors run on a class: collect, grade, report and export."""

import sys
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
    Json,
    Name,
    Names,
    OurFault,
    Root,
    Status,
    check_place,
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
from autograder.course.watch_settings import LTI

if TYPE_CHECKING:
    from autograder.grades.changes import Change
    from autograder.grades.results import Record
    from autograder.grading.executors import Executor
    from autograder.grading.session import Session
    from autograder.school.exporting import Exported, System
    from autograder.school.hand_ins import Plan

GRADE_FIRST = "Grade first: python -m autograder grade"
EXCHANGE = "exchange"
"""What `collect` is given in place of an archive; a folder of this name needs its full path."""
MOST_REFUSED = 200
"""Refused hand-ins that are listed."""


def collect(
    archives: Annotated[
        list[Path],
        typer.Argument(
            help="Zip files or folders from your learning platform; or the word exchange, for "
            "nbgrader's.",
            show_default=False,
        ),
    ],
    roster: Annotated[
        Path | None,
        typer.Option(
            help="CSV file of the class: id, name, email.", show_default="names from the file names"
        ),
    ] = None,
    exercise: Annotated[
        str,
        typer.Option(
            help="Collect only this exercise.", show_default="each notebook's own exercise"
        ),
    ] = "",
    submitted: Annotated[
        Path | None,
        typer.Option(help="Folder to write STUDENT/EXERCISE/ into.", show_default="submitted/"),
    ] = None,
    into: Into = None,
    db: Database = "",
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Show no names, so that others may see the output.")
    ] = False,
    root: Root = ROOT,
) -> None:
    """Import submissions from Moodle, Canvas, Gradescope, Blackboard, Brightspace, ILIAS, OpenOLAT
    or loose files.

    A table shows which file belongs to which student before anything is written. With a roster,
    files are matched to its students, who are also entered in nbgrader's table of students. An
    existing submission is replaced only by a newer one.
    """
    from autograder.course.limits import Limits
    from autograder.grades import gradebook
    from autograder.school import roster as rosters
    from autograder.school.archives import opened
    from autograder.school.hand_ins import Collector
    from autograder.school.layouts import Exercises, student_of

    course = course_at(root, into, db)
    keep_private(course)
    if archives == [Path(EXCHANGE)]:
        _collect_exchange(course, exercise, submitted or course.submitted, roster, anonymous)
        return
    known = course.exercises()
    course.exercises([exercise] if exercise else [])
    people = rosters.read(roster) if roster else None
    target = submitted or course.submitted
    exercises = Exercises(known)
    collector = Collector(exercises, people, exercise, target, Limits.configured(course.config))
    with ExitStack() as stack:
        plan = collector.plan(
            [stack.enter_context(opened(archive, student_of(exercises))) for archive in archives]
        )
        _show_plan(plan, anonymous)
        count = len(plan.to_write)
        if count and not yes:
            if not sys.stdin.isatty():
                raise UserError(
                    "Nothing was written: there is no terminal to confirm in. Check the table, "
                    "then add --yes."
                )
            if not typer.confirm(
                f"Write {count} submission{'s' * (count > 1)} to {short(target, course)}?"
            ):
                raise UserError("Nothing was written.")
        course.output_folder.mkdir(parents=True, exist_ok=True)
        enrolled = gradebook.enroll(course, people.columns()) if people else 0
        collector.write(plan.to_write)
    unchanged = len(plan.chosen) - count
    summary = f"{count} written to {short(target, course)}, {unchanged} left unchanged"
    if enrolled:
        summary += f", {enrolled} students entered in {short(course.database, course)}"
    say(f"{summary}, {len(plan.unplaced)} files not assigned.")


def _collect_exchange(
    course: Course, exercise: str, submitted: Path, roster: Path | None, anonymous: bool
) -> None:
    """Take the newest hand-in of each student from nbgrader's exchange."""
    from autograder.commands.watch import exchange_of
    from autograder.exchange import permissions
    from autograder.exchange.collecting import collect
    from autograder.sanitize import text

    if roster:
        raise UserError(
            "In an exchange, students have the names of system users: leave out --roster."
        )
    exchange = exchange_of(course, None)
    permissions.check_owners(course, exchange)
    collected = collect(course, exchange, submitted, exercise)
    if not anonymous:
        for name, reason in collected.refused[:MOST_REFUSED]:
            warn(f"{text.line(text.name(name), 200)}: {reason}.")
        if len(collected.refused) > MOST_REFUSED:
            warn(f"{len(collected.refused) - MOST_REFUSED} more are refused, and not listed.")
    say(
        f"{len(collected.written)} written to {short(submitted, course)}, "
        f"{collected.unchanged} left unchanged, {len(collected.refused)} refused."
    )


def _show_plan(plan: "Plan", anonymous: bool) -> None:
    """Show which file belongs to which student, and which files could not be assigned."""
    from autograder.grades import records
    from autograder.sanitize import text

    names = records.numbered(hand_in.student for hand_in, _ in plan.chosen) if anonymous else {}
    table = Table(show_edge=False, header_style="bold")
    for name in ("Student", "Exercise", "File", "Submitted", "Layout", "Action"):
        table.add_column(name, overflow="fold")
    for hand_in, fate in plan.chosen:
        time = f"{hand_in.time.astimezone():%Y-%m-%d %H:%M}" if hand_in.time else "–"
        if not hand_in.time_known:
            time = f"? (file: {time})"
        action = fate.value
        if hand_in.named_exercise:
            action += f"; named {hand_in.named_exercise}, with the cells of {hand_in.exercise}"
        table.add_row(
            escape(names.get(hand_in.student, text.line(hand_in.student))),
            hand_in.exercise,
            "" if names else escape(text.line(hand_in.source_path)),
            f"{time} late" if hand_in.late else time,
            hand_in.layout,
            action,
        )
    if plan.chosen:
        out.print(table)
    if plan.unplaced and not anonymous:
        table = Table(
            title="Not assigned", title_justify="left", show_edge=False, header_style="bold"
        )
        table.add_column("File", overflow="fold")
        table.add_column("Reason", overflow="fold")
        for file, reason in plan.unplaced:
            table.add_row(escape(text.line(file)), escape(text.line(reason)))
        out.print(table)
    if not plan.chosen:
        problem = "No notebook was found"
        if plan.unplaced:
            problem = f"None of the {len(plan.unplaced)} files could be assigned"
        raise UserError(
            f"{problem}. Name the zip file or folder that you downloaded, and a roster with "
            "--roster."
        )


def grade(
    exercises: Names = None,
    submitted: Annotated[
        Path | None,
        typer.Option(
            help="Folder with STUDENT/EXERCISE/EXERCISE.ipynb.", show_default="submitted/"
        ),
    ] = None,
    into: Into = None,
    db: Database = "",
    force: Annotated[
        bool, typer.Option("--force", help="Also grade unchanged submissions again.")
    ] = False,
    redraw: Annotated[
        bool,
        typer.Option(
            "--redraw", help="Grade all submissions again, with new inputs for the checks."
        ),
    ] = False,
    pending: Annotated[
        bool,
        typer.Option(
            "--pending",
            help="Regrade only submissions with pending points that this machine can settle.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Write nothing; show which grades would be new or different."
        ),
    ] = False,
    since: Annotated[
        str,
        typer.Option(
            help="Grade only submissions since this time: 2026-11-25, 2026-11-25T18:00, or 90m, "
            "2h, 3d, 1w ago.",
            show_default="all",
        ),
    ] = "",
    jobs: Annotated[
        int, typer.Option(help="How many to grade at a time.", show_default="one per core")
    ] = 0,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Append one line of JSON per submission to this file.", show_default="none"
        ),
    ] = None,
    as_json: Json = False,
    cluster: Annotated[
        str,
        typer.Option(
            help="Grade on the workers of the Dask scheduler at this address, or on N workers "
            "here: local:N.",
            show_default="this machine, without Dask",
        ),
    ] = "",
    no_sandbox: Annotated[
        bool,
        typer.Option(
            "--no-sandbox", help="At your own risk: run submissions with your permissions."
        ),
    ] = False,
    fall_back: Annotated[
        bool,
        typer.Option(
            "--fall-back", hidden=True, help="Run without a sandbox only if none is possible."
        ),
    ] = False,
    root: Root = ROOT,
) -> None:
    """Grade a class into nbgrader's gradebook, and write autograded/ and feedback/.

    A submission that has not changed since it was graded is not graded again. Every submission,
    even an unreadable one, gets a grade and a reason. The command ends with status 0, or with 3 if
    the grader itself failed on some of them.
    """
    from autograder.commands import documents
    from autograder.course import catalogs
    from autograder.grades import changes
    from autograder.grading import recent
    from autograder.grading.dry_run import copied_course, current_records
    from autograder.grading.executors import LocalExecutor
    from autograder.grading.session import Pending, Session

    course = course_at(root, into, db)
    keep_private(course)
    with document("grade", as_json) as result, ExitStack() as stack:
        if dry_run and log:
            raise UserError(
                "--dry-run writes nothing, not even a log. Leave out --log or --dry-run."
            )
        if cluster and jobs:
            raise UserError(
                "The workers of a cluster set their own number of jobs. Leave out "
                "--jobs or --cluster."
            )
        since_time = recent.moment(since) if since else None
        executor = stack.enter_context(_connected(cluster)) if cluster else LocalExecutor()
        # A dry run grades into a copy, which is deleted at the end.
        target_course = stack.enter_context(copied_course(course)) if dry_run else course
        earlier_records = current_records(target_course) if dry_run else {}
        session = Session(
            target_course,
            course.exercises(exercises or ()),
            submitted or course.submitted,
            jobs,
            force,
            redraw,
            pending,
            pages=not dry_run,
            hide=[course.output_folder],
            since=since_time,
            log=log,
            executor=executor,
        )
        if not session.submissions and (pending or session.left_out):
            _say_why_nothing(session, since_time, as_json)
        else:
            _grade(session, no_sandbox, fall_back)
        if dry_run:
            differences = changes.between(earlier_records, session.records)
            result.update(documents.of_changes(differences, session))
            if not as_json:
                with catalogs.for_graders(course.root):
                    _show_changes(differences, session)
            return
        write_timings(session.seconds)
        result.update(documents.of_grades(course, session))
        if session.records and not as_json:
            with catalogs.for_graders(course.root):
                _show_grades(course, session)
        for line in Pending(
            [*session.records, *session.pending.elsewhere], session.executor
        ).sentences():
            warn(line)
        for line in session.misfiled():
            warn(line)
        _raise_if_grader_failed(session.records)


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


def _grade(session: "Session", no_sandbox: bool, fall_back: bool) -> None:
    """Grade with progress shown; Ctrl-C ends the command."""
    from autograder.checking.words import translated
    from autograder.course import catalogs

    for stray in session.strays:
        warn(stray)
    session.choose_sandbox(wanted=not no_sandbox, fall_back=fall_back, warn=warn)
    if not session.executor.option:
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
                progress.update(pages, total=session.batch.page_count)
                progress.update(
                    task,
                    visible=True,
                    advance=1,
                    description=f"{record.student} {record.assignment}",
                )
    except KeyboardInterrupt:
        if session.pages:
            warn("Stopped. Grades so far are kept; the same command continues from there.")
        else:
            warn("Stopped. Nothing was written.")
        raise typer.Exit(Status.STOPPED) from None


def _show_changes(changes: Sequence["Change"], session: "Session") -> None:
    """Print who would gain and who would lose points, in total and one by one, and because of
    which check.
    """
    from autograder.checking.words import Message, gap, translated
    from autograder.grades.changes import NEW, RESUBMITTED, sums
    from autograder.sanitize import text

    table = Table(show_edge=False, header_style="bold")
    for name in ("Student", "Exercise", "Now", "Then", "Change", "Because of"):
        justify: Literal["left", "right"] = "right" if name in ("Now", "Then", "Change") else "left"
        table.add_column(translated(name), justify=justify, overflow="fold")
    for change in changes:
        now, then = change.before, change.after
        causes = [str(step) for step in change.through()]
        if change.anew:
            causes.insert(0, str(RESUBMITTED))
        through = "\n".join(causes) or "–"
        table.add_row(
            escape(then.student),
            then.assignment,
            f"{now.score:g}" if now else "–",
            _points(then),
            f"{change.difference:+g}" if now else translated(NEW),
            escape(text.line(str(then.reason)) if then.kind.ungraded else through) if now else "–",
        )
    total, *by_check = sums(changes)
    if any(change.before for change in changes):
        for line in (total, *by_check):
            say(str(line))
    if changes:
        out.print(table)
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


def _raise_if_grader_failed(records: Sequence["Record"]) -> None:
    """Raise an error if our own fault left submissions without a grade."""
    from autograder.grades.results import Kind

    faults = [record for record in records if record.kind == Kind.INFRASTRUCTURE]
    if faults:
        raise OurFault(
            f"{len(faults)} of {len(records)} could not be graded. That is our own fault, and no "
            f"points were lost: {faults[0].student}, {faults[0].reason}. Run the same command "
            "again; the other grades are kept."
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
        points = _points(record) + " +" * record.needs_manual_grade
        lost = (
            "\n".join(text.line(reason) for reason in reasons.lines_of(record, record.penalty))
            or "–"
        )
        table.add_row(escape(record.student), record.assignment, points, escape(lost))
    if any(record.needs_manual_grade for record in records):
        table.caption = translated("+ needs a manual grade")
    return table


def _points(record: "Record") -> str:
    """Return a record's points, those that are pending, and all that there are."""
    from autograder.checking.words import Message

    points = f"{record.score:g}"
    if record.pending:
        points += f" {Message('+ {points} pending', points=f'{record.pending:g}')}"
    return f"{points} / {record.max_score:g}"


def extend(
    student: Annotated[
        str, typer.Argument(help="The student's id.", show_default="list the extensions")
    ] = "",
    exercise: Annotated[
        str, typer.Argument(help="The exercise, such as 01-qkv.", show_default=False)
    ] = "",
    time: Annotated[
        str,
        typer.Argument(
            help="How much more time: 12h, 3d or 1w. 0d takes an extension back.",
            show_default=False,
        ),
    ] = "",
    reason: Annotated[
        str, typer.Option(help="Why; for the list of extensions.", show_default=False)
    ] = "",
    into: Into = None,
    db: Database = "",
    root: Root = ROOT,
) -> None:
    """Give a student more time for an exercise, or list all extensions.

    Writes into deadlines.toml, which also has the due dates. `grade` reads it each time: it
    computes the late penalties again and runs no submission for that. `grade --dry-run` first shows
    who gains and who loses points.
    """
    from autograder.course import deadlines
    from autograder.grades import gradebook
    from autograder.grades.reasons import moment
    from autograder.sanitize import text

    course = course_at(root, into, db)
    keep_private(course)
    if not student:
        _list_extensions(course)
        return
    if not (exercise and time):
        raise UserError(
            "Name the student, the exercise and the time: extend ada 01-qkv 3d --reason ill"
        )
    gradebook.check_student(course, student)
    due = deadlines.extend(course, student, exercise, time, text.line(reason))
    say(
        f"{student}: {exercise} is due on {moment(due.isoformat())}. Written to "
        f"{short(deadlines.path_of(course), course)}; it counts from the next `python -m "
        "autograder grade` on."
    )


def _list_extensions(course: Course) -> None:
    from autograder.course import deadlines
    from autograder.grades.reasons import duration
    from autograder.sanitize import text

    extensions = list(deadlines.read(course).in_force())
    if not extensions:
        say("No student has an extension.")
        return
    table = Table(show_edge=False, header_style="bold")
    for name in ("Student", "Exercise", "Extension", "Reason"):
        table.add_column(name, overflow="fold")
    for extension in extensions:
        table.add_row(
            escape(text.line(extension.student)),
            extension.exercise,
            str(duration(extension.time.total_seconds())),
            escape(text.line(extension.reason)),
        )
    out.print(table)


def commit(into: Into = None, root: Root = ROOT) -> None:
    """Print a hash for each exercise, to publish on the first day: it fixes the inputs of the
    checks.

    After the due date, `reveal` makes the key public that has this hash. The hashes follow from
    .course-secret, which is made if there is none. They stay the same: run the command again for an
    exercise that you add later.
    """
    from autograder.course.seeds import Seeds

    course = course_at(root, into)
    keep_private(course)
    names = sorted({exercise.name for exercise in [*course.released(), *course.sources()]})
    if not names:
        course.exercises()
        raise UserError(f"{course.root} has no exercises. Name the course folder with --course.")
    course.output_folder.mkdir(parents=True, exist_ok=True)
    seeds = Seeds(course)
    for name in names:
        say(f"{name} {seeds.commitment(name)}")
        if name in seeds.revealed:
            warn(
                f"The key of {name} is public already, so a new class cannot use this hash. Grade "
                "that class into another folder, with --into."
            )


def reveal(
    exercise: Name,
    submitted: Annotated[
        Path | None,
        typer.Option(
            help="Folder with STUDENT/EXERCISE/EXERCISE.ipynb.", show_default="submitted/"
        ),
    ] = None,
    without_due_date: Annotated[
        bool,
        typer.Option("--without-due-date", help="Also reveal an exercise that has no due date."),
    ] = False,
    into: Into = None,
    db: Database = "",
    root: Root = ROOT,
) -> None:
    """After the due date, make public from what the inputs of an exercise were drawn, so that
    students can recompute.

    Each feedback page gets the seed of its grade. Grades do not change, and this cannot be taken
    back. Later submissions draw from another key, which stays secret.
    """
    from autograder.grading import recompute

    course = course_at(root, into, db)
    keep_private(course)
    (chosen,) = course.exercises([exercise])
    revealed = recompute.reveal(
        course, chosen, submitted or course.submitted, without_due_date, warn
    )
    say(f"{exercise} key {revealed.key}")
    say(f"{exercise} hash {revealed.commitment}")
    say(
        f"Pages rewritten: {revealed.pages}. The key is in {short(course.revealed, course)}: keep "
        f"this file with {short(course.secret, course)}."
    )
    if revealed.left:
        warn(
            f"{revealed.left} submissions have to be graded first. Run: python -m autograder grade "
            f"{exercise}"
        )


def report(
    into: Into = None,
    db: Database = "",
    anonymous: Annotated[
        bool,
        typer.Option(
            "--anonymous", help="Leave out names and links, so that others may see the page."
        ),
    ] = False,
    beside: Annotated[
        Path | None,
        typer.Option(
            help="Compare with another class, such as last year's: the folder of its gradebook "
            "and autograded/.",
            show_default="no comparison",
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="report.html in --into")
    ] = None,
    as_json: Json = False,
    root: Root = ROOT,
) -> None:
    """Write an HTML page for the instructor: scores, the checks that cost the most points, a row
    for each student.
    """
    from autograder.checking.words import counted, lead
    from autograder.commands import documents
    from autograder.course import catalogs
    from autograder.grades.report import write

    course = course_at(root, into, db)
    keep_private(course)
    with document("report", as_json) as result:
        path = to or course.output_folder / (
            "report-anonymous.html" if anonymous else "report.html"
        )
        if to:
            check_place(to, "--to")
        class_report = write(course, path, anonymous, beside)
        result.update(documents.of_report(class_report, path))
        if not as_json:
            with catalogs.for_graders(course.root):
                say(f"{lead('Report:')}{short(path, course)}")
                asked = sum(assignment.open_requests for assignment in class_report.assignments)
                if asked:
                    line = counted(
                        "{count} regrade request is open.",
                        "{count} regrade requests are open.",
                        asked,
                    )
                    say(str(line))


def export(
    exercises: Names = None,
    system: Annotated[
        str,
        typer.Option("--for", help="csv, moodle, canvas or gradescope; lti sends scores at once."),
    ] = "csv",
    sheet: Annotated[
        Path | None,
        typer.Option(
            help="Moodle's grading worksheet or Canvas's gradebook, to fill in.", show_default=False
        ),
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            help="An earlier export: write only changes since then.", show_default="all grades"
        ),
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option(help="Zip file to write with all feedback pages.", show_default="none"),
    ] = None,
    into: Into = None,
    db: Database = "",
    anonymous: Annotated[
        bool,
        typer.Option(
            "--anonymous", help="Leave out names and addresses, so that others may see the file."
        ),
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            help="File to write.", show_default="grades.csv or grades-SYSTEM.csv in --into"
        ),
    ] = None,
    root: Root = ROOT,
) -> None:
    """Write the grades as CSV, with the columns of nbgrader's own export or of your learning
    platform.

    Moodle and Canvas import only a file that they exported, with the grades filled in: name it with
    --sheet. With `--for lti`, no file is written: the learning platform gets the scores that it
    does not have yet.
    """
    from autograder.grades import records
    from autograder.school import exporting
    from autograder.school.exporting import System

    course = course_at(root, into, db)
    keep_private(course)
    if system == LTI:
        _send_scores(course, exercises or (), to_file=bool(sheet or since or feedback or to))
        return
    _check_export(system, feedback, since, anonymous)
    if not course.has_gradebook:
        raise UserError(f"There is no gradebook at {course.gradebook}. {GRADE_FIRST}")
    path = to or course.output_folder / (
        "grades.csv" if system == System.CSV else f"grades-{system}.csv"
    )
    _check_places(path, sheet, since, feedback)
    grades = records.rows(course)
    # An exercise that was removed still has grades.
    unknown = set(exercises or ()) - {row["assignment"] for row in grades}
    if unknown:
        course.exercises(sorted(unknown))  # raises for a name that is no exercise
    grades = [row for row in grades if not exercises or row["assignment"] in exercises]
    if not grades:
        named = f" for {', '.join(exercises)}" if exercises else ""
        raise UserError(
            f"There are no grades{named} in {course.database} yet. Run: python -m autograder grade"
        )
    exported = _exported(course, System(system), grades, sheet, anonymous)
    if since:
        exported.changed_since(since)
        if not exported.lines:
            say(f"No grade has changed since {short(since, course)}. Nothing was written.")
            return
    exported.write(path)
    written = [grade for line in exported.lines for grade in line.grades]
    say(f"{len(written)} grades: {short(path, course)}")
    if feedback:
        without_page = exporting.feedback(course, exported, System(system), feedback)
        say(f"{len(written) - len(without_page)} pages: {short(feedback, course)}")
        if without_page:
            warn(
                f"{len(without_page)} have no page, such as {without_page[0]}. Run: python -m "
                "autograder grade"
            )
    if not anonymous:
        for student, reason in exported.missing:
            warn(f"{student} is not in the file: {reason}.")
    elif exported.missing:
        warn(f"{len(exported.missing)} students have grades but are not in the file.")
    requests = records.open_requests(course)
    asked = {(record.student, record.assignment) for record in requests}
    asked &= {(row["student_id"], row["assignment"]) for row in written}
    if asked:
        warn(f"{len(asked)} of these grades have an open regrade request. The report lists them.")
    pending = exporting.pending(written)
    if pending and system != System.CSV:
        warn(
            f"{pending} of these grades may still rise: they need a manual grade, or have "
            "pending points."
        )


def _check_export(system: str, feedback: Path | None, since: Path | None, anonymous: bool) -> None:
    """Raise `UserError` for a format that does not exist, or options that contradict each other."""
    from autograder.school.exporting import System

    if system not in list(System):
        raise UserError(f"There is no format {system!r}. Use one of {', '.join(System)}.")
    if feedback and anonymous:
        raise UserError("Feedback pages name their students. Leave out --feedback or --anonymous.")
    if since and anonymous and system in (System.CSV, System.GRADESCOPE):
        raise UserError(
            "Without names, changed grades cannot be found. Leave out --since or --anonymous."
        )


def _send_scores(course: Course, exercises: Sequence[str], to_file: bool) -> None:
    """Send the learning platform the scores that it does not have yet, and say what became of them.

    Raises
    ------
    UserError
        If the platform has not taken all of them, or an option is about a file.
    """
    from autograder.school import lti

    if to_file:
        raise UserError(
            "--for lti writes no file. Leave out --sheet, --since, --feedback and --to."
        )
    course.exercises(exercises)
    if not course.has_gradebook:
        raise UserError(f"There is no gradebook at {course.gradebook}. {GRADE_FIRST}")
    sent = lti.send(course, exercises)
    for line in sent.lines():
        say(line)
    if sent.hidden:
        say(f"{sent.hidden} scores are not sent yet: c.Watch.shows hides them from students.")
    for student in sent.unknown:
        warn(f"{student} has never logged in through the learning platform, so no score was sent.")
    if not sent.lines():
        say("The learning platform has all scores.")
    if sent.refused:
        raise UserError("The learning platform has not taken all scores (see above).")


def _check_places(
    path: Path, sheet: Path | None, since: Path | None, feedback: Path | None
) -> None:
    """Raise `UserError` unless the export can be written, without overwriting a file that the
    same command reads.
    """
    named = {"--sheet": sheet, "--since": since, "--feedback": feedback, "--to": path}
    for option in ("--to", "--feedback"):
        written = named.pop(option)
        if written:
            check_place(written, option)
        for other, other_path in named.items():
            if written and other_path and other_path.resolve() == written.resolve():
                raise UserError(
                    f"{written} is also the file of {other}, and would be overwritten. Name "
                    f"another with {option}."
                )


def _exported(
    course: Course,
    system: "System",
    grades: list[dict[str, Any]],
    sheet: Path | None,
    anonymous: bool,
) -> "Exported":
    """Return grades in the format of a system."""
    from autograder.school import exporting, roster
    from autograder.school.exporting import System
    from autograder.school.layouts import Exercises

    if system in exporting.WHERE:
        if sheet is None:
            raise UserError(
                f"{system.title()} imports only a file that it exported. Name "
                f"{exporting.WHERE[system]} with --sheet."
            )
        filled = roster.read_sheet(sheet)
        if system == System.MOODLE:
            return exporting.to_moodle(grades, filled, anonymous)
        return exporting.to_canvas(grades, filled, Exercises(course.exercises()), anonymous)
    if sheet is not None:
        raise UserError(
            "--sheet is for Moodle and Canvas. Add --for moodle or --for canvas, or "
            "leave out --sheet."
        )
    if system == System.GRADESCOPE:
        return exporting.to_gradescope(grades, anonymous)
    return exporting.to_csv(grades, anonymous)

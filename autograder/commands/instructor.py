"""What instructors run on a class: to grade it, and to see and to take away what came of that."""

import contextlib
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from autograder.commands.console import (
    Database,
    Into,
    Names,
    Root,
    course_at,
    out,
    progress_of,
    short,
    warn,
    warn_of_gpus,
    write_timings,
)
from autograder.course import ROOT, Course, UserError

if TYPE_CHECKING:
    from autograder.grading.rehearsal import Change
    from autograder.grading.session import Session, Waiting
    from autograder.results import Record


def grade(
    exercises: Names = None,
    submitted: Annotated[
        Path | None, typer.Option(help="Folder with STUDENT/EXERCISE/EXERCISE.ipynb.", show_default="submitted/")
    ] = None,
    into: Into = None,
    db: Database = "",
    force: Annotated[bool, typer.Option("--force", help="Grade unchanged submissions again as well.")] = False,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Grade all of them again, with the checks' inputs drawn anew.")
    ] = False,
    pending: Annotated[
        bool, typer.Option("--pending", help="Grade again only what has points that wait for what this machine has.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; show which grades would be new, and which would change.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="How many to grade at one time.", show_default="one for each core")] = 0,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="At your own risk: run submissions with your rights.")
    ] = False,
    fall_back: Annotated[
        bool, typer.Option("--fall-back", hidden=True, help="Do so only where there can be no sandbox.")
    ] = False,
    course: Root = ROOT,
) -> None:
    """Grade a class into nbgrader's gradebook, and write autograded/ and feedback/.

    A submission that has not changed since it was graded is not graded again. Whatever students handed in,
    every one of them gets a grade and a reason, and the command ends with status 0.
    """
    from autograder.grading import rehearsal
    from autograder.grading.session import Session, Waiting

    where = course_at(course, into, db)
    with contextlib.ExitStack() as stack:
        known = rehearsal.before(where) if dry_run else {}
        place = stack.enter_context(rehearsal.copied(where)) if dry_run else where
        session = Session(
            place,
            where.exercises(exercises or ()),
            submitted or where.submitted,
            jobs,
            force,
            redraw,
            pending,
            pages=not dry_run,
            hide=[where.into],
        )
        if pending and not session.submissions:
            _nothing_to_settle(session.waiting)
            return
        _grade(session, no_sandbox, fall_back)
    if dry_run:
        _show_changes(rehearsal.changes(known, session.records), session)
        return
    write_timings(session.seconds)
    _show_grades(where, session.records, session.kept, session.renewed)
    for line in Waiting([*session.records, *session.waiting.elsewhere]).said():
        warn(line)


def _grade(session: "Session", no_sandbox: bool, fall_back: bool) -> None:
    """Grade with progress shown; Ctrl-C ends the command."""
    session.isolate(wanted=not no_sandbox, fall_back=fall_back, warn=warn)
    warn_of_gpus(session.used)
    try:
        with session, progress_of("Grading", rate=True) as progress:
            for stray in session.strays:
                warn(f"{stray} is no student's folder, and was left out.")
            grading = progress.add_task("starting", total=len(session.submissions))
            pages = progress.add_task("feedback pages", total=len(session.submissions), visible=False)
            for step, record, _kept in session.run():
                task = grading if step == "graded" else pages
                progress.update(pages, total=session.batch.pages)
                progress.update(task, visible=True, advance=1, description=f"{record.student} {record.assignment}")
    except KeyboardInterrupt:
        warn(
            "Stopped. What was graded is kept; the same command goes on from there."
            if session.pages
            else "Stopped. Nothing was written."
        )
        raise typer.Exit(130) from None


def _show_changes(changes: Sequence["Change"], session: "Session") -> None:
    """Print whose grades would be other, and through which check; and how many."""
    from autograder.sanitize import text

    table = Table(show_edge=False, header_style="bold")
    for name in ("Student", "Exercise", "Now", "Then", "Change", "Through"):
        table.add_column(name, justify="right" if name in ("Now", "Then", "Change") else "left", overflow="fold")
    for change in changes:
        now, then = change.before, change.after
        waiting = f" + {then.pending:g} waiting" if then.pending else ""
        through = "\n".join(f"{name}: {how}" for name, how in change.through()) or "–"
        table.add_row(
            escape(then.student),
            then.assignment,
            f"{now.score:g}" if now else "–",
            f"{then.score:g}{waiting} / {then.max_score:g}",
            f"{change.difference:+g}" if now else "new",
            escape(text.line(str(then.reason)) if then.kind.ungraded else through) if now else "–",
        )
    if changes:
        out.print(table)
    gains, losses = (sum(1 for c in changes if c.before and sign * c.difference > 0) for sign in (1, -1))
    new = sum(1 for change in changes if change.before is None)
    graded, all_of_them = len(session.records) - session.kept, len(session.records)
    out.print(
        f"Would grade {graded} of {all_of_them}: {new} new, {gains} gain, {losses} lose. Nothing was written.",
        highlight=False,
    )


def _nothing_to_settle(waiting: "Waiting") -> None:
    """Say that nothing waits; where something does, but for what this machine lacks, that is an error."""
    if waiting.elsewhere:
        raise UserError(" ".join(waiting.said()))
    out.print("No points wait. Nothing was graded.", highlight=False)


def _show_grades(where: Course, records: list["Record"], kept: int, renewed: int) -> None:
    """Print everybody's points and what they were lost to; our own faults are an error."""
    from autograder.results import Kind

    records = sorted(records, key=lambda record: (record.student, record.assignment))
    out.print(_table(records))
    done = f"Graded {len(records) - kept}"
    if kept:
        done += f"; {kept} unchanged and not graded again (--force does)"
    if renewed:
        done += f"; pages made anew: {renewed}"
    out.print(
        f"{done}. Gradebook: {short(where.db_url, where)}  Feedback: {short(where.feedback, where)}",
        highlight=False,
    )
    faults = [record for record in records if record.kind == Kind.INFRASTRUCTURE]
    if faults:
        raise UserError(
            f"{len(faults)} of {len(records)} could not be graded through our own fault, and lost no points: "
            f"{faults[0].student}, {faults[0].reason}. Run the same command again; the others are kept."
        )


def _table(records: Sequence["Record"]) -> Table:
    from autograder import reasons
    from autograder.sanitize import text

    table = Table(show_edge=False, header_style="bold")
    for name in ("Student", "Exercise", "Points", "Lost to"):
        table.add_column(name, justify="right" if name == "Points" else "left", overflow="fold")
    for record in records:
        waiting = f" + {record.pending:g} waiting" if record.pending else ""
        points = f"{record.score:g}{waiting} / {record.max_score:g}"
        if record.needs_manual_grade:
            points += " +"
        lost = "\n".join(text.line(reason) for reason in reasons.of(record, record.penalty)) or "–"
        table.add_row(escape(record.student), record.assignment, points, escape(lost))
    if any(record.needs_manual_grade for record in records):
        table.caption = "+ waits for a manual grade"
    return table


def report(
    into: Into = None,
    db: Database = "",
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="No names and no links, for showing to others.")
    ] = False,
    to: Annotated[Path | None, typer.Option(help="File to write.", show_default="report.html in --into")] = None,
    course: Root = ROOT,
) -> None:
    """Write one HTML page for the instructor: scores, what cost the class most, and every student's row."""
    from autograder.report import write

    where = course_at(course, into, db)
    path = to or where.into / ("report-anonymous.html" if anonymous else "report.html")
    write(where, path, anonymous)
    out.print(f"Report: {short(path, where)}", highlight=False)


def export(
    into: Into = None,
    db: Database = "",
    to: Annotated[Path | None, typer.Option(help="File to write.", show_default="grades.csv in --into")] = None,
    course: Root = ROOT,
) -> None:
    """Write the grades as CSV, in the columns of nbgrader's own export."""
    from autograder import records
    from autograder.sanitize import text

    where = course_at(course, into, db)
    if not where.db and not where.gradebook.exists():
        raise UserError(f"There is no gradebook at {where.gradebook}. Grade first: python -m autograder grade")
    rows = records.rows(where)
    if not rows:
        raise UserError(f"There is no grade in {where.db_url} yet. Run: python -m autograder grade")
    path = to or where.into / "grades.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({name: text.cell_of_table(value) for name, value in row.items()})
    out.print(f"{len(rows)} grades: {short(path, where)}", highlight=False)

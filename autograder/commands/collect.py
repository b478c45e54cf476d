"""The command `collect`: submissions from a learning platform's download or nbgrader's exchange."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from autograder.commands.console import (
    CollectedInto,
    Database,
    Into,
    Root,
    course_at,
    keep_private,
    out,
    say,
    short,
    warn,
)
from autograder.course.config import ROOT, Course, UserError

if TYPE_CHECKING:
    from autograder.school.hand_ins import Plan

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
    submitted: CollectedInto = None,
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
    course = course_at(root, into, db)
    keep_private(course)
    target = submitted or course.submitted
    if archives == [Path(EXCHANGE)]:
        _collect_exchange(course, target, exercise, roster, anonymous)
    else:
        _collect_archives(course, target, exercise, roster, anonymous, archives, yes)


def _collect_archives(
    course: Course,
    target: Path,
    exercise: str,
    roster: Path | None,
    anonymous: bool,
    archives: list[Path],
    yes: bool,
) -> None:
    """Show which file belongs to which student, and write the submissions after a yes."""
    from autograder.course.limits import Limits
    from autograder.grades import gradebook
    from autograder.school import roster as rosters
    from autograder.school.archives import opened
    from autograder.school.hand_ins import Collector
    from autograder.school.layouts import Exercises, student_of

    exercises = Exercises(course.exercises())
    if exercise:
        course.exercises([exercise])  # raises for an unknown name, before anything is read
    people = rosters.read(roster) if roster else None
    collector = Collector(exercises, people, exercise, target, Limits.configured(course.config))
    # Archives stay open until the end: submissions are read from them again when they are written.
    with ExitStack() as stack:
        plan = collector.plan(
            [stack.enter_context(opened(archive, student_of(exercises))) for archive in archives]
        )
        _show_plan(plan, anonymous)
        count = len(plan.to_write)
        if count and not yes:
            _confirm(count, short(target, course))
        # A first run may have no folder for the gradebook yet.
        course.output_folder.mkdir(parents=True, exist_ok=True)
        # Before the files: if the gradebook cannot be opened, nothing is written.
        enrolled = gradebook.enroll(course, people.columns()) if people else 0
        collector.write(plan.to_write)
    unchanged = len(plan.chosen) - count
    summary = f"{count} written to {short(target, course)}, {unchanged} left unchanged"
    if enrolled:
        summary += f", {enrolled} students entered in {short(course.database, course)}"
    say(f"{summary}, {len(plan.unplaced)} files not assigned.")


def _confirm(count: int, folder: str) -> None:
    """Ask whether to write submissions to a folder; raise `UserError` without a yes."""
    if not sys.stdin.isatty():
        raise UserError(
            "Nothing was written: there is no terminal to confirm in. Check the table, "
            "then add --yes."
        )
    if not typer.confirm(f"Write {count} submission{'s' * (count > 1)} to {folder}?"):
        raise UserError("Nothing was written.")


def _collect_exchange(
    course: Course, target: Path, exercise: str, roster: Path | None, anonymous: bool
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
    # Any user can make the course's folder in an exchange, and be there first.
    permissions.check_owners(course, exchange)
    collected = collect(course, exchange, target, exercise)
    if not anonymous:
        for name, reason in collected.refused[:MOST_REFUSED]:
            warn(f"{text.line(text.name(name), 200)}: {reason}.")
        if len(collected.refused) > MOST_REFUSED:
            warn(f"{len(collected.refused) - MOST_REFUSED} more are refused, and not listed.")
    say(
        f"{len(collected.written)} written to {short(target, course)}, "
        f"{collected.unchanged} left unchanged, {len(collected.refused)} refused."
    )


def _show_plan(plan: "Plan", anonymous: bool) -> None:
    """Show which file belongs to which student, and which files could not be assigned.

    Raises
    ------
    UserError
        If there is no submission to write or to keep.
    """
    if plan.chosen:
        out.print(_table_of_chosen(plan, anonymous))
    if plan.unplaced and not anonymous:  # names of files and reasons may contain students' names
        out.print(_table_of_unplaced(plan))
    if not plan.chosen:
        problem = "No notebook was found"
        if plan.unplaced:
            problem = f"None of the {len(plan.unplaced)} files could be assigned"
        raise UserError(
            f"{problem}. Name the zip file or folder that you downloaded, and a roster with "
            "--roster."
        )


def _table_of_chosen(plan: "Plan", anonymous: bool) -> Table:
    from autograder.grades import records
    from autograder.sanitize import text

    names = records.numbered(hand_in.student for hand_in, _ in plan.chosen) if anonymous else {}
    table = Table(show_edge=False, header_style="bold")
    for name in ("Student", "Exercise", "File", "Submitted", "Layout", "Action"):
        table.add_column(name, overflow="fold")
    for hand_in, fate in plan.chosen:
        time = f"{hand_in.time.astimezone():%Y-%m-%d %H:%M}" if hand_in.time else "–"
        # The time of a file may be that of the download: it is no time of submission.
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
    return table


def _table_of_unplaced(plan: "Plan") -> Table:
    from autograder.sanitize import text

    table = Table(title="Not assigned", title_justify="left", show_edge=False, header_style="bold")
    table.add_column("File", overflow="fold")
    table.add_column("Reason", overflow="fold")
    for file, reason in plan.unplaced:
        table.add_row(escape(text.line(file)), escape(text.line(reason)))
    return table

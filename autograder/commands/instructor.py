"""The shorter commands that instructors run on a class: extensions, hashes, keys, the report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from autograder.commands.console import (
    Database,
    Into,
    Json,
    Name,
    Root,
    Submitted,
    check_writable,
    course_at,
    document,
    keep_private,
    out,
    say,
    short,
    warn,
)
from autograder.course.config import ROOT, Course, UserError

if TYPE_CHECKING:
    from autograder.grades.report import ClassReport


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
    # A misspelled student would get an extension that never counts, and no one would notice.
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
    # An instructor may commit to an exercise before its release.
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
    submitted: Submitted = None,
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
    from autograder.commands import documents
    from autograder.grades.report import write

    course = course_at(root, into, db)
    with document("report", as_json) as result:
        keep_private(course)
        path = to or course.output_folder / (
            "report-anonymous.html" if anonymous else "report.html"
        )
        if to:  # before the report is computed
            check_writable(to, "--to")
        class_report = write(course, path, anonymous, beside)
        result.update(documents.of_report(class_report, path))
        if not as_json:
            _say_report(course, class_report, path)


def _say_report(course: Course, class_report: "ClassReport", path: Path) -> None:
    """Say where the report is, and how many regrade requests are open."""
    from autograder.checking.words import counted, lead
    from autograder.course import catalogs

    with catalogs.for_graders(course.root):
        say(f"{lead('Report:')}{short(path, course)}")
        asked = sum(assignment.open_requests for assignment in class_report.assignments)
        if asked:
            line = counted(
                "{count} regrade request is open.", "{count} regrade requests are open.", asked
            )
            say(str(line))

"""The command `race`: the kernels of a class, compared with each other and with the course's
own.
"""

from typing import TYPE_CHECKING, Literal

import typer
from rich.markup import escape
from rich.table import Table

from autograder.commands.console import (
    Into,
    Name,
    NoSandbox,
    Root,
    Status,
    Submitted,
    check_writable,
    course_at,
    out,
    progress_of,
    say,
    short,
    warn,
)
from autograder.course.config import ROOT

if TYPE_CHECKING:
    from autograder.racing.race import Contest


def race(
    exercise: Name,
    submitted: Submitted = None,
    into: Into = None,
    no_sandbox: NoSandbox = False,
    root: Root = ROOT,
) -> None:
    """Compare the kernels of a graded class: their time on a GPU or, without one, the bytes that
    they move.

    Submissions with all points for the kernels take part, and so do the course's own kernels. They
    are checked again on this machine. The result is race.html and race.csv in --into. No grade
    changes.
    """
    from autograder.racing.race import Contest, write_csv, write_page

    course = course_at(root, into)
    (chosen,) = course.exercises([exercise])
    contest = Contest(course, chosen, submitted or course.submitted)
    page, table = course.output_folder / "race.html", course.output_folder / "race.csv"
    for path in (page, table):  # before any kernel runs
        check_writable(path, "--into")
    contest.choose_sandbox(not no_sandbox, warn)
    try:
        with contest, progress_of("Race") as progress:
            checking = progress.add_task("checking again", total=len(contest.entrants))
            for name in contest.check():
                progress.update(checking, advance=1, description=f"checked again: {name}")
            laps = progress.add_task("", total=len(contest.entrants) * len(contest.race.values))
            for line in contest.run():
                progress.update(laps, advance=1, description=line)
    except KeyboardInterrupt:
        warn("Stopped. Nothing was written.")
        raise typer.Exit(Status.STOPPED) from None
    write_page(contest, page)
    write_csv(contest, table)
    _show(contest)
    say(f"Page: {short(page, course)}  Table: {short(table, course)}")


def _show(contest: "Contest") -> None:
    """Print the places, and who was left out."""
    from autograder.racing.race import conditions_of, score_of

    timed, setting = contest.mode.timed, contest.race.setting
    table = Table(show_edge=False, header_style="bold")
    measured = ("Time, rival = 1", "GPU") if timed else ("Moved", "Launches")
    for name in ("", "Entrant", setting, *measured):
        justify: Literal["left", "right"] = "left" if name in ("Entrant", "GPU") else "right"
        table.add_column(name, justify=justify, overflow="fold")
    for entry in contest.placed():
        launches = str(sum(run.launches for run in entry.lap.measured))
        table.add_row(
            str(entry.rank),
            escape(entry.entrant.name),
            str(entry.lap.value),
            score_of(contest, entry.score),
            conditions_of(entry.lap.conditions) if timed else launches,
            style="dim" if entry.entrant.course else None,
        )
    out.print(table)
    if contest.left_out:
        table = Table(title="Left out", title_justify="left", show_edge=False, header_style="bold")
        for name in ("Student", "Reason"):
            table.add_column(name, overflow="fold")
        for entrant in contest.left_out:
            table.add_row(escape(entrant.student), escape(entrant.reason))
        out.print(table)
    if timed:
        say(f"The rival is {contest.race.rival}.")
    else:
        say(
            "No GPU: nothing was timed. Kernels were counted in Triton's interpreter, and ranked "
            "by bytes moved."
        )
    say(
        "The numbers come from where a submission runs, and could be faked. They are worth no "
        "points."
    )

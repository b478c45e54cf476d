"""The command line: `python -m autograder`, installed also as `attention-by-hand`. What is done, others do.

Messages name the first, which works wherever Python finds the package.
"""

import logging
import os
import sys
import warnings

import typer
from rich.table import Table

from autograder import startup
from autograder.commands import author, instructor, student
from autograder.commands.console import Root, out, say_error
from autograder.course import ROOT, UserError

app = typer.Typer(
    help="Release, check and grade the course's exercises.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; a fault that the user can mend is one line and status 1."""
    startup.begin()
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # to ask torch for a GPU starts nothing on it
    warnings.filterwarnings("ignore")
    logging.getLogger("traitlets").setLevel(logging.CRITICAL)
    try:
        app(standalone_mode=True)
    except UserError as error:
        _fail(str(error))
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        _fail(f"{error.strerror or error}{where}")


def _fail(reason: str) -> None:
    say_error(reason)
    sys.exit(1)


def doctor(course: Root = ROOT) -> None:
    """Show in one screen what this machine has and lacks for reading, checking, grading and building."""
    from autograder.doctor import findings

    table = Table(show_edge=False, header_style="bold")
    for name in ("", "What", "Found", "What it is for, or the mend"):
        table.add_column(name)
    needed = 0
    for finding in findings(course.resolve()):
        mark = {"ok": "[green]ok[/]", "missing": "[red]missing[/]", "optional": "[yellow]absent[/]"}[finding.state]
        table.add_row(mark, finding.what, finding.found, finding.note)
        needed += finding.state == "missing"
    out.print(table)
    if needed:
        raise UserError(
            f"{needed} needed thing{'s are' if needed > 1 else ' is'} missing; the last column says what to do."
        )


COMMANDS = {
    "Students": (student.check, student.explain),
    "Instructors": (instructor.collect, instructor.grade, instructor.report, instructor.export),
    "Authors": (
        author.new,
        author.release,
        author.lists,
        author.mutants,
        author.hint_coverage,
        author.stock,
    ),
    "Everybody": (doctor,),
}
"""Each command, under those who run it."""

for who, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=who)(command)

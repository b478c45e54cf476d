"""The command line: `python -m autograder`, also installed as `attention-by-hand`. Other modules do
the work.

Messages name the first form, which works wherever Python finds the package.
"""

import inspect
import logging
import os
import sys
import traceback
import warnings
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from autograder.commands import author, instructor, student
from autograder.commands.bundle import bundle
from autograder.commands.collect import collect
from autograder.commands.console import (
    MEANINGS,
    Json,
    Root,
    Status,
    document,
    line_of,
    out,
    say_error,
    status_of,
)
from autograder.commands.export import export
from autograder.commands.grade import grade
from autograder.commands.race import race
from autograder.commands.watch import watch
from autograder.course import startup
from autograder.course.config import ROOT, UserError

if TYPE_CHECKING:
    from autograder.commands.doctor import Finding

INSTALLED = "attention-by-hand"
"""The name under which shells complete: they do not complete what follows `python -m`."""

app = typer.Typer(
    help="Release, check and grade the course's exercises.",
    epilog="Exit status. "
    + " ".join(f"{status:d}: {means}." for status, means in MEANINGS.items()),
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # `main` reports errors
)


def main() -> None:
    """Run the command line. A fault that the user can fix is reported in one line; `Status` has
    the exit statuses.
    """
    # Before the modules that it speeds up are imported: those of the commands.
    startup.begin()
    # With this, torch can look for a GPU without starting anything on it.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    # Warnings of libraries are not for users, and stderr has one line for each error.
    warnings.filterwarnings("ignore")
    logging.getLogger("traitlets").setLevel(logging.CRITICAL)
    completes = any(word in ("--install-completion", "--show-completion") for word in sys.argv[1:2])
    try:
        app(prog_name=INSTALLED if completes else None)
    except (UserError, OSError) as error:
        say_error(line_of(error))
        sys.exit(status_of(error))
    except Exception:  # our own fault: the traceback is for us
        traceback.print_exc()
        sys.exit(Status.FAULT)


def doctor(as_json: Json = False, root: Root = ROOT) -> None:
    """Show what this machine has and lacks for reading, checking, grading and building."""
    from autograder.commands import documents
    from autograder.commands.doctor import findings

    with document("doctor", as_json) as result:
        found_items = findings(root.resolve())
        result.update(documents.of_findings(found_items))
        if not as_json:
            _show_findings(found_items)
        # After the table: the error sets the exit status, and refers to the table's last column.
        for state in ("missing", "unsafe"):
            count = sum(finding.state == state for finding in found_items)
            if count:
                kind = "required item" if state == "missing" else "item"
                items = f"{count} {kind}s are" if count > 1 else f"{count} {kind} is"
                raise UserError(f"{items} {state}; the last column says what to do.")


def _show_findings(items: "list[Finding]") -> None:
    table = Table(show_edge=False, header_style="bold")
    for name in ("", "Item", "Found", "Purpose, or how to fix it"):
        table.add_column(name)
    marks = {
        "ok": "[green]ok[/]",
        "missing": "[red]missing[/]",
        "unsafe": "[red]unsafe[/]",
        "optional": "[yellow]absent[/]",
    }
    for finding in items:
        table.add_row(
            marks[finding.state], finding.item, escape(finding.value), escape(finding.note)
        )
    out.print(table)


COMMANDS = {
    "Students": (student.check, student.explain),
    "Instructors": (
        instructor.commit,
        collect,
        grade,
        watch,
        instructor.extend,
        instructor.reveal,
        instructor.report,
        export,
        race,
        bundle,
    ),
    "Authors": (
        author.new,
        author.release,
        author.lists,
        author.chapter,
        author.mutants,
        author.hint_coverage,
    ),
    "Everyone": (doctor,),
}
"""Each command, under those who run it."""

for who, commands in COMMANDS.items():
    for command in commands:
        # Each paragraph in one line: rich would keep the breaks of the docstring.
        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        about = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        app.command(rich_help_panel=who, help=about)(command)

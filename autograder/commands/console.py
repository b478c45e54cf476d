"""What all commands share: their options, and how they print messages."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from autograder.course.config import ROOT, Course, Exercise, UserError

OWN_FILES = ("nbgrader_config.py", "deadlines.toml", "gradebook.db", "watch.db", ".course-secret")
"""The course's own files: no output may replace them."""

TIMINGS = "AUTOGRADER_TIMINGS"
"""The environment variable that names a file for the seconds of each phase of `grade` or
`check`.
"""

VERSION = 1
"""Of the documents that `--json` prints."""

# Lines are printed with `soft_wrap`: rich would break them, and the paths in them, at the width of
# the terminal.
out = Console()
err = Console(stderr=True)


class Status(IntEnum):
    """How a command ends: the number in `$?`. `MEANINGS` describes each."""

    FINE = 0
    FAILED = 1
    USAGE = 2  # click's own
    FAULT = 3
    STOPPED = 130  # as in shells: 128 + SIGINT


MEANINGS = {
    Status.FINE: "done",
    Status.FAILED: "a problem with your input, or a failed verification (one line names the "
    "problem and the fix)",
    Status.USAGE: "no such command, option or value",
    Status.FAULT: "our fault (some submissions were not graded, or the program broke); no student "
    "lost points",
    Status.STOPPED: "stopped with Ctrl-C; finished work is kept",
}


class OurFault(UserError):
    """A fault of ours that left something undone; the user may still be able to fix it."""


def status_of(error: Exception) -> Status:
    """Return the status in which an error ends a command."""
    by_user = isinstance(error, (UserError, OSError)) and not isinstance(error, OurFault)
    return Status.FAILED if by_user else Status.FAULT


def _exercises(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of exercises that begin like this, for the shell; none if the folder is
    not a course.
    """
    # `root` is the parameter of --course, if that is already on the line.
    course = course_at(context.params.get("root") or ROOT)
    try:
        exercises = [*course.exercises(), *course.sources()]
    except (UserError, OSError):
        return []
    return sorted({exercise.name for exercise in exercises if exercise.name.startswith(incomplete)})


Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="Exercises, such as 01-qkv; by default, all.",
        show_default=False,
        autocompletion=_exercises,
    ),
]
Name = Annotated[
    str,
    typer.Argument(
        help="An exercise, such as 11-gpu.", show_default=False, autocompletion=_exercises
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON document and nothing else; all messages go to stderr."
    ),
]
Root = Annotated[
    Path,
    typer.Option(
        "--course",
        help="The course folder, with exercises/ and nbgrader_config.py.",
        show_default="the folder of this program, or else the current one",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, help="Repeat the inputs of this seed.", show_default="a new seed"),
]
Into = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the gradebook, autograded/ and feedback/.",
        show_default="the course folder",
    ),
]
Database = Annotated[
    str,
    typer.Option(
        "--db",
        help="SQLAlchemy URL of the gradebook.",
        show_default="the one in nbgrader_config.py, or gradebook.db in --into",
    ),
]
Submitted = Annotated[
    Path | None,
    typer.Option(help="Folder with STUDENT/EXERCISE/EXERCISE.ipynb.", show_default="submitted/"),
]
CollectedInto = Annotated[
    Path | None,
    typer.Option(help="Folder to write STUDENT/EXERCISE/ into.", show_default="submitted/"),
]
Jobs = Annotated[
    int, typer.Option(help="How many to grade at a time.", show_default="one per core")
]
NoSandbox = Annotated[
    bool,
    typer.Option("--no-sandbox", help="At your own risk: run submissions with your permissions."),
]


def say_error(reason: str) -> None:
    """Print what went wrong, in one line."""
    from autograder.sanitize import text

    # The reason may quote a student's file: `line` removes line ends and control characters.
    err.print(f"[bold red]Error:[/] {escape(text.line(reason))}", highlight=False, soft_wrap=True)


def line_of(error: Exception) -> str:
    """Return the line that a user reads about an error."""
    if isinstance(error, OSError):
        return f"{error.strerror or error}" + (f" {error.filename}" if error.filename else "")
    return str(error)


@contextmanager
def document(command: str, wanted: bool) -> Iterator[dict[str, Any]]:
    """At the end, print the dict that this yields as JSON, if `wanted`; it also has the error.

    `version`, `command`, `status` and `error` are in each document.
    """
    result: dict[str, Any] = {}

    def print_document(status: int, error: str = "") -> None:
        if wanted:
            whole = {
                "version": VERSION,
                "command": command,
                "status": int(status),
                "error": error,
                **result,
            }
            # NaN is no JSON, and many programs refuse the whole document.
            sys.stdout.write(json.dumps(whole, indent=1, allow_nan=False) + "\n")

    try:
        yield result
    except typer.Exit as ended:
        print_document(ended.exit_code)
        raise
    except (UserError, OSError) as error:
        print_document(status_of(error), line_of(error))
        raise
    print_document(Status.FINE)


def course_at(root: Path, into: Path | None = None, db: str = "") -> Course:
    """Return the course in a folder, with its grades in another folder or database if these are
    named.
    """
    root = root.resolve()
    return Course(root=root, output_folder=into.resolve() if into else root, db=db)


def keep_private(course: Course) -> None:
    """Let all that this process writes be readable for its user alone, if students are users of
    this machine.
    """
    # All users of a machine share its exchange. Without one, the system's own rule counts.
    if course.exchange:
        os.umask(0o077)


def warn_of_gpus(exercises: Sequence[Exercise]) -> None:
    """Warn about exercises that need a GPU, if there is none."""
    if any(exercise.settings.gpu for exercise in exercises):
        from autograder.commands.doctor import missing_gpu

        for line in missing_gpu(exercises):
            warn(line)


def say(line: str) -> None:
    """Print what was done, even if a path has brackets."""
    out.print(line, markup=False, highlight=False, soft_wrap=True)


def warn(line: str) -> None:
    """Print what the user should know."""
    err.print(f"[yellow]{escape(line)}[/]", highlight=False, soft_wrap=True)


def check_writable(path: Path, option: str) -> None:
    """Raise `UserError` unless a file can be written there; `option` names another.

    A file replaces what is there: so that may not be a device, a link, or one of the course's own
    files.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder. Name a file with {option}.")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(
            f"{path} is a link, a device or a pipe, and would be replaced. Name a file with "
            f"{option}."
        )
    if path.name in OWN_FILES:
        raise UserError(
            f"{path.name} is the name of a file of the course, which would be lost. Name another "
            f"with {option}."
        )
    if not path.parent.is_dir():
        raise UserError(
            f"There is no folder {path.parent} for {path.name}. Make it, or name "
            f"another with {option}."
        )
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"You cannot write to {path.parent}. Name a file elsewhere with {option}.")


def write_timings(seconds: dict[str, Any]) -> None:
    """Write where the time went, if the environment asks for it."""
    if os.environ.get(TIMINGS):
        Path(os.environ[TIMINGS]).write_text(json.dumps(seconds, indent=1) + "\n")


def short(path: object, course: Course) -> str:
    """Shorten a path or URL below the course's folder, so that a line of output stays readable."""
    return str(path).replace(f"{course.root}/", "")


class _Rate(ProgressColumn):
    """The text that `by` returns, how many are done per second, and how long the rest will take."""

    def __init__(self, by: Callable[[], str]):
        super().__init__()
        self.by = by

    def render(self, task: Task) -> Text:
        seconds = task.time_remaining
        rest = f", {seconds // 60:.0f}:{seconds % 60:02.0f} left" if seconds else ""
        return Text(f"{self.by()}{task.speed:.1f}/s{rest}" if task.speed else "")


@contextmanager
def progress_of(title: str, rate: Callable[[], str] | None = None) -> Iterator[Progress]:
    """Show a progress bar; if `rate` is given, also the text that it returns and how many are
    done per second.
    """
    with Progress(
        SpinnerColumn(),
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *([_Rate(rate)] if rate else []),
        TextColumn("{task.description}", markup=False),  # a student's id may have brackets
        console=err,  # stdout has results alone
    ) as progress:
        yield progress

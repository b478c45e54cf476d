"""What all commands share: their options, and how they speak to who runs them."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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

from autograder.course import Course, Exercise

TIMINGS = "AUTOGRADER_TIMINGS"
"""The environment variable that names a file for the seconds of each phase of `grade` or `check`."""

out = Console()
err = Console(stderr=True)

Names = Annotated[
    list[str] | None, typer.Argument(help="Exercises, such as 01-qkv. Default: all.", show_default=False)
]
Root = Annotated[
    Path,
    typer.Option("--course", help="The course's folder: exercises/ and nbgrader_config.py.", show_default="this"),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Repeat the inputs of this seed.", show_default="drawn afresh")]
Into = Annotated[
    Path | None,
    typer.Option(help="Folder of the gradebook, autograded/ and feedback/.", show_default="the course's folder"),
]
Database = Annotated[
    str, typer.Option("--db", help="SQLAlchemy URL of the gradebook.", show_default="gradebook.db in --into")
]


def say_error(reason: str) -> None:
    """Say what went wrong, in one line."""
    from autograder.sanitize import text

    err.print(f"[bold red]Error:[/] {escape(text.line(reason))}", highlight=False, soft_wrap=True)


def course_at(root: Path, into: Path | None = None, db: str = "") -> Course:
    """Return the course in a folder, with its grades in another, or in another database, where these are named."""
    root = root.resolve()
    return Course(root=root, into=into.resolve() if into else root, db=db)


def warn_of_gpus(exercises: Sequence[Exercise]) -> None:
    """Warn of exercises that need a GPU, where there is none."""
    if any(exercise.settings.gpu for exercise in exercises):
        from autograder.doctor import unverified

        for line in unverified(exercises):
            warn(line)


def warn(line: str) -> None:
    """Say what whoever runs this should know."""
    err.print(f"[yellow]{escape(line)}[/]", highlight=False, soft_wrap=True)


def write_timings(seconds: dict[str, Any]) -> None:
    """Write where the time went, where the environment asks for it."""
    if os.environ.get(TIMINGS):
        Path(os.environ[TIMINGS]).write_text(json.dumps(seconds, indent=1) + "\n")


def short(path: object, course: Course) -> str:
    """Shorten a path or URL below the course's folder, so that a line of output stays readable."""
    return str(path).replace(f"{course.root}/", "")


class _Rate(ProgressColumn):
    """How many a second, and how long the rest will take; before that, what `by` says."""

    def __init__(self, by: Callable[[], str]):
        super().__init__()
        self.by = by

    def render(self, task: Task) -> Text:
        left = task.time_remaining
        rest = f", {left // 60:.0f}:{left % 60:02.0f} left" if left else ""
        return Text(f"{self.by()}{task.speed:.1f}/s{rest}" if task.speed else "")


@contextmanager
def progress_of(title: str, rate: Callable[[], str] | None = None) -> Iterator[Progress]:
    """Show how far something is; where `rate` is given, what it returns and how many a second."""
    with Progress(
        SpinnerColumn(),
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *([_Rate(rate)] if rate else []),
        TextColumn("{task.description}", markup=False),
        console=err,
    ) as progress:
        yield progress

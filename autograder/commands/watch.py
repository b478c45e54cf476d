"""`watch`: grades what students hand in through nbgrader's exchange, and publishes feedback."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from autograder.commands.console import (
    CollectedInto,
    Database,
    Into,
    Jobs,
    Root,
    Status,
    course_at,
    err,
    keep_private,
    out,
    progress_of,
    warn,
)
from autograder.course.config import ROOT, Course, UserError

if TYPE_CHECKING:
    from autograder.exchange.watch import Say, Watch

Exchange = Annotated[
    Path | None,
    typer.Option(
        help="Root of nbgrader's exchange.", show_default="c.Exchange.root in nbgrader_config.py"
    ),
]


def watch(
    exchange: Exchange = None,
    submitted: CollectedInto = None,
    into: Into = None,
    db: Database = "",
    jobs: Jobs = 0,
    once: Annotated[
        bool, typer.Option("--once", help="Do what there is to do now, and end.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line for each event.")
    ] = False,
    root: Root = ROOT,
) -> None:
    """Grade what students submit through nbgrader's exchange at once, and publish their feedback.

    It runs until you stop it: Ctrl-C or SIGTERM ends it after the running batch. You can kill it
    at any time; the next one continues. Its settings are `c.Watch` in nbgrader_config.py.
    """
    from autograder.exchange import permissions
    from autograder.exchange.watch import Watch
    from autograder.sandbox import bubblewrap

    course = course_at(root, into, db)
    if lacks := bubblewrap.missing():
        raise UserError(
            f"Submissions cannot be isolated on this machine: {'; '.join(lacks)}. Fix that: "
            "`watch` runs what students submit while no one looks at it, so it needs a sandbox."
        )
    course.exercises()  # raises if none is released: there is nothing to grade with
    keep_private(course)
    folder = exchange_of(course, exchange)
    permissions.check_owners(course, folder)
    with Watch(course, folder, _logger(as_json), submitted, jobs) as watching:
        try:
            with _ended_by_signals(watching), _shown(watching, as_json):
                watching.say("watching", note=str(folder))
                for fault in permissions.problems(course):
                    watching.say("note", note=f"{fault.path}: {fault.risk}. Fix: {fault.fix}")
                watching.run(once)
        except KeyboardInterrupt:
            raise typer.Exit(Status.STOPPED) from None
        watching.say("ended")
        # Without --once, what is wrong now is tried again: it was said when it happened.
        if once and watching.troubles:
            raise UserError(" ".join(watching.troubles))


def exchange_of(course: Course, root: Path | None) -> Path:
    """Return the course's folder in the exchange that is named, or in the configured one.

    Raises
    ------
    UserError
        If there is none.
    """
    folder = root.resolve() / course.course_id if root else course.exchange
    if folder is None:
        raise UserError(
            "No exchange is configured. Set c.Exchange.root in nbgrader_config.py, or name its "
            "root with --exchange."
        )
    return folder


def _logger(as_json: bool) -> "Say":
    """Return the function that prints events, each in one line."""

    def say(event: str, **values: Any) -> None:
        from autograder.sanitize import text

        now = datetime.now(UTC)
        if as_json:
            line = {"time": now.isoformat(timespec="milliseconds"), "event": event, **values}
            print(json.dumps(line), flush=True)  # a program reads each event as it happens
            return
        shown = [f"{now.astimezone():%H:%M:%S}", event]
        shown += [str(values[name]) for name in ("student", "exercise") if values.get(name)]
        if "score" in values:
            shown.append(f"{values['score']:g}/{values['max_score']:g}")
        if event in ("graded", "published"):
            shown.append(f"after {values['seconds']:.1f} s")
        shown += [str(values[name]) for name in ("reason", "note") if values.get(name)]
        out.print(text.line(" ".join(shown)), markup=False, highlight=False, soft_wrap=True)

    return say


@contextmanager
def _ended_by_signals(watching: "Watch") -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end the watch after the running batch; a second Ctrl-C ends it now."""

    def end(number: int, _frame: object) -> None:
        if watching.stopping and number == signal.SIGINT:
            raise KeyboardInterrupt
        watching.stopping = True
        warn("Ending after the running batch.")

    # SIGTERM is how systemd and containers end a service.
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _shown(watching: "Watch", as_json: bool) -> Iterator[None]:
    """Show the running batch where there is a terminal."""
    if as_json or not err.is_terminal:
        yield
        return
    with progress_of("Watching") as progress:
        watching.progress = _Bar(progress)
        yield


class _Bar:
    """A progress bar for the running batch."""

    def __init__(self, progress: Progress):
        self.progress, self.task = progress, progress.add_task("", total=None)

    def __call__(self, title: str, count: int, total: int) -> None:
        """Show how many of the batch are graded."""
        self.progress.update(self.task, description=title, completed=count, total=total)

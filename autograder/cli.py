"""The command line: `python -m autograder`. Arguments come in, words go out; what is done, others do."""

import csv
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from rich.table import Table
from rich.text import Text

from autograder import startup
from autograder.course import ROOT, Course, Exercise, UserError

if TYPE_CHECKING:
    from autograder.grading.session import Waiting
    from autograder.results import Outcome, Record

TIMINGS = "AUTOGRADER_TIMINGS"
"""The environment variable that names a file for the seconds of each phase of `grade` or `check`."""

app = typer.Typer(
    help="Release, check and grade the course's exercises.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
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
    _say_error(reason)
    sys.exit(1)


def _say_error(reason: str) -> None:
    from autograder.sanitize import text

    err.print(f"[bold red]Error:[/] {escape(text.line(reason))}", highlight=False, soft_wrap=True)


@app.command()
def release(exercises: Names = None, course: Root = ROOT) -> None:
    """Verify exercises, and build what students get: solutions/ -> exercises/, through nbgrader.

    One that has not changed since its last release is neither verified nor built again.
    """
    from autograder.authoring import verify

    where = _course(course)
    chosen = where.sources(exercises or ())
    changed = [exercise for exercise in chosen if not verify.is_current(where, exercise)]
    if changed:
        _verify(changed)
        _build(where, changed)
    for exercise in chosen:
        done = "Released" if exercise in changed else "Unchanged:"
        out.print(f"{done} {_short(exercise.released, where)}", highlight=False)
    _warn_of_gpus(chosen)


def _verify(exercises: list[Exercise]) -> None:
    """Verify exercises; refuse if one has a fault."""
    from autograder.authoring import verify

    found = []
    with _progress("Verifying") as progress:
        task = progress.add_task("", total=len(exercises))
        for exercise, fault in verify.faults(exercises):
            progress.update(task, advance=1, description=exercise.name)
            found += [fault] if fault else []
    for fault in found[1:]:
        _say_error(fault)
    if found:
        raise UserError(found[0])


def _build(where: Course, exercises: list[Exercise]) -> None:
    """Build what students get of exercises that have been verified."""
    from autograder.authoring import release, verify

    with _progress("Releasing") as progress:
        task = progress.add_task("", total=len(exercises))
        for exercise in exercises:
            progress.update(task, description=exercise.name)
            release.release(where, exercise)
            verify.remember(where, exercise)
            progress.advance(task)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Its name, such as 13-sparse.", show_default=False)],
    exercise_only: Annotated[bool, typer.Option("--exercise-only", help="Without a chapter of the book.")] = False,
    course: Root = ROOT,
) -> None:
    """Make a chapter and its exercise, small ones that work, to be made into yours.

    Of a chapter: two pages, an interactive figure and its test; all that lists chapters lists it. A course without a
    book gets the exercise alone.
    """
    from autograder.authoring.new import make

    where = _course(course)
    made, listed = make(where, name, exercise_only)
    for path in made:
        out.print(f"Made {_short(path, where)}", highlight=False)
    for path in listed:
        out.print(f"Listed in {_short(path, where)}", highlight=False)
    build = ", then make book" if listed else ""
    out.print(
        f"Next: write your own in their place, then python -m autograder release {name}{build}",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def lists(course: Root = ROOT) -> None:
    """Write what lists the book's chapters, _toc.yml and README.md, anew from book/chapters.toml."""
    from autograder.authoring import chapters

    where = _course(course)
    if not (where.root / chapters.SOURCE).exists():
        raise UserError(f"{where.root} has no {chapters.SOURCE}, so that there are no chapters to be listed.")
    written = chapters.write(where.root)
    for name in written:
        out.print(f"Wrote {name}", highlight=False)
    if not written:
        out.print(f"All that lists chapters is as {chapters.SOURCE} has it", highlight=False)


@app.command()
def check(
    notebook: Annotated[Path, typer.Argument(help="Your notebook, such as 01-qkv.ipynb.")],
    seed: Seed = None,
    course: Root = ROOT,
) -> None:
    """Grade your own notebook and see the feedback here. Nothing is handed in, and your file stays as it is."""
    from autograder.grading.self_check import SelfCheck

    if not notebook.exists():
        raise UserError(f"There is no file {notebook}.")
    where = _course(course)
    with SelfCheck(where, notebook, seed) as single:
        _warn_of_gpus([single.exercise])
        with _progress("Running your cells") as progress:
            task = progress.add_task(single.exercise.title, total=single.cells)
            outcome = single.grade(on_cell=lambda cell: progress.advance(task))
        _show_check(outcome)
        _write_timings(single.seconds())


@app.command()
def explain(
    path: Annotated[Path, typer.Argument(help="A notebook, or the grade.json of a graded submission.")],
    check: Annotated[
        str, typer.Option("--check", help="A check, or a function with all its checks.", show_default="all")
    ] = "",
    seed: Seed = None,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="At your own risk: run the notebook with your rights.")
    ] = False,
    course: Root = ROOT,
) -> None:
    """Show what each check drew, what came back, and which listed wrong answers do the same.

    A notebook runs in a sandbox where there can be one. What was handed in runs nowhere else, unless you say so.
    """
    from autograder.explain import Explainer, lines

    if not path.exists():
        raise UserError(f"There is no file {path}.")
    with Explainer(_course(course), path, check, seed, sandbox=not no_sandbox) as explainer:
        _warn_of_gpus([explainer.exercise])
        with _progress("Running the cells") as progress:
            task = progress.add_task(explainer.exercise.title, total=explainer.single.cells)
            found = explainer.explanations(lambda cell: progress.advance(task))
        for explanation in found:
            for line, style in lines(explanation, whole=bool(check)):
                out.print(Text(line, style), soft_wrap=True)
            out.print()
        for note in explainer.notes:
            _warn(note)
        again = f"python -m autograder explain {path} --seed {explainer.single.unit.seed}"
        out.print(f"The same inputs again: {again}", highlight=False, markup=False, soft_wrap=True)


def _show_check(outcome: "Outcome") -> None:
    """Print what `check` found: errors of cells, the checks' feedback, what was repaired, and the points."""
    from autograder import reasons
    from autograder.checking import show
    from autograder.sanitize import text

    for line in reasons.of_cells(json.loads(outcome.notebook)["cells"]):
        show.write(line)
    for note in outcome.repairs:
        out.print(text.line(str(note)), highlight=False, markup=False)
    if str(outcome.reason):
        out.print(text.line(str(outcome.reason)), highlight=False, markup=False)
    for grade_id, cell in outcome.cells.items():
        if cell.pending:
            out.print(str(reasons.pending(cell.subject or grade_id, cell.pending, cell.waits_for())), highlight=False)
    checks = [cell for cell in outcome.cells.values() if not cell.manual]
    earned, most = sum(cell.points for cell in checks), sum(cell.max_points for cell in checks)
    by_hand = sum(cell.max_points for cell in outcome.cells.values() if cell.manual)
    read = f", and {by_hand:g} more are given by the person who reads what you wrote" if by_hand else ""
    out.print(f"[bold]{earned:g} of {most:g} points[/]{read}", highlight=False)


@app.command()
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
    from autograder.grading.session import Session, Waiting

    where = _course(course, into, db)
    session = Session(
        where, where.exercises(exercises or ()), submitted or where.submitted, jobs, force, redraw, pending
    )
    if pending and not session.submissions:
        _nothing_to_settle(session.waiting)
        return
    session.isolate(wanted=not no_sandbox, fall_back=fall_back, warn=_warn)
    _warn_of_gpus(session.used)
    try:
        with session, _progress("Grading", rate=True) as progress:
            for stray in session.strays:
                _warn(f"{stray} is no student's folder, and was left out.")
            grading = progress.add_task("starting", total=len(session.submissions))
            pages = progress.add_task("feedback pages", total=len(session.submissions), visible=False)
            for step, record, _kept in session.run():
                task = grading if step == "graded" else pages
                progress.update(pages, total=session.batch.pages)
                progress.update(task, visible=True, advance=1, description=f"{record.student} {record.assignment}")
    except KeyboardInterrupt:
        _warn("Stopped. What was graded is kept; the same command goes on from there.")
        raise typer.Exit(130) from None
    _write_timings(session.seconds)
    _show_grades(where, session.records, session.kept, session.renewed)
    for line in Waiting([*session.records, *session.waiting.elsewhere]).said():
        _warn(line)


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
        f"{done}. Gradebook: {_short(where.db_url, where)}  Feedback: {_short(where.feedback, where)}",
        highlight=False,
    )
    faults = [record for record in records if record.kind == Kind.INFRASTRUCTURE]
    if faults:
        raise UserError(
            f"{len(faults)} of {len(records)} could not be graded through our own fault, and lost no points: "
            f"{faults[0].student}, {faults[0].reason}. Run the same command again; the others are kept."
        )


@app.command()
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

    where = _course(course, into, db)
    path = to or where.into / ("report-anonymous.html" if anonymous else "report.html")
    write(where, path, anonymous)
    out.print(f"Report: {_short(path, where)}", highlight=False)


@app.command()
def export(
    into: Into = None,
    db: Database = "",
    to: Annotated[Path | None, typer.Option(help="File to write.", show_default="grades.csv in --into")] = None,
    course: Root = ROOT,
) -> None:
    """Write the grades as CSV, in the columns of nbgrader's own export."""
    from autograder import records
    from autograder.sanitize import text

    where = _course(course, into, db)
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
    out.print(f"{len(rows)} grades: {_short(path, where)}", highlight=False)


@app.command()
def hint_coverage(exercises: Names = None, course: Root = ROOT) -> None:
    """Count what wrong answers are told that are not listed: each listed one is taken off the list, and examined."""
    from autograder.authoring.hint_coverage import table

    for exercise in _course(course).sources(exercises or ()):
        with err.status(exercise.name):
            rows = table(exercise.solution)
        out.print(rows)


@app.command()
def stock(
    cases: Annotated[
        list[str] | None, typer.Argument(help="Cases of the corpus. Default: all.", show_default=False)
    ] = None,
) -> None:
    """Record what nbgrader's plain settings make of the corpus, in autograder/corpus/stock.json. Takes minutes."""
    from autograder.corpus import stock

    for line in stock.record(cases or []):
        out.print(line, highlight=False, markup=False, soft_wrap=True)


@app.command()
def mutants(
    exercises: Names = None,
    function: Annotated[str, typer.Option(help="This function alone.", show_default="all")] = "",
    survivors: Annotated[
        bool, typer.Option("--survivors", help="Show what passed, as lines for equal.toml.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="How many to examine at one time.", show_default="one for each core")] = 0,
    course: Root = ROOT,
) -> None:
    """Change right answers in one place at a time, and count how many of these mutants the checks reject.

    What became of them is written to book/data/mutants.json. The status is 1 if one passes that equal.toml does not
    mark, or if a mark does not fit.
    """
    from autograder.authoring.mutants import look_at

    fine = True
    for exercise in _course(course).sources(exercises or ()):
        found = look_at(exercise, function, jobs or None)
        table = Table(title=exercise.name, title_justify="left")
        for head in ("function", "mutants", "examined", "killed", "told why", "equal", "survived"):
            table.add_column(head, justify="left" if head == "function" else "right")
        for subject, row in found.rows.items():
            counts = row.made, row.examined, row.killed, row.told, row.equal, len(row.survived)
            table.add_row(subject, *map(str, counts))
        for subject, lines in found.unmarked.items() if survivors else ():
            text = "\n".join([f'[{subject}."why"]', *lines])
            out.print(text, markup=False, highlight=False, soft_wrap=True)
        out.print(table)
        for line in found.misfits:
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        fine = fine and not found.misfits and not found.unmarked
    if not fine:
        raise typer.Exit(1)


@app.command()
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


def _course(root: Path, into: Path | None = None, db: str = "") -> Course:
    root = root.resolve()
    return Course(root=root, into=into.resolve() if into else root, db=db)


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


def _warn_of_gpus(exercises: Sequence[Exercise]) -> None:
    """Warn of exercises that need a GPU, where there is none."""
    if any(exercise.settings.gpu for exercise in exercises):
        from autograder.doctor import unverified

        for line in unverified(exercises):
            _warn(line)


def _warn(line: str) -> None:
    err.print(f"[yellow]{escape(line)}[/]", highlight=False, soft_wrap=True)


def _write_timings(seconds: dict[str, Any]) -> None:
    """Write where the time went, where the environment asks for it."""
    if os.environ.get(TIMINGS):
        Path(os.environ[TIMINGS]).write_text(json.dumps(seconds, indent=1) + "\n")


def _short(path: object, course: Course) -> str:
    """Shorten a path or URL below the course's folder, so that a line of output stays readable."""
    return str(path).replace(f"{course.root}/", "")


class _Rate(ProgressColumn):
    """How many a second, and how long the rest will take."""

    def render(self, task: Task) -> Text:
        left = task.time_remaining
        rest = f", {left // 60:.0f}:{left % 60:02.0f} left" if left else ""
        return Text(f"{task.speed:.1f}/s{rest}" if task.speed else "")


@contextmanager
def _progress(title: str, rate: bool = False) -> Iterator[Progress]:
    with Progress(
        SpinnerColumn(),
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *([_Rate()] if rate else []),
        TextColumn("{task.description}", markup=False),
        console=err,
    ) as progress:
        yield progress

"""The command line: `python -m autograder`."""

import csv
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from autograder.course import ROOT, Course, UserError

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
Into = Annotated[
    Path, typer.Option(help="Folder of the gradebook, autograded/ and feedback/.", show_default="the course's folder")
]
Database = Annotated[
    str, typer.Option("--db", help="SQLAlchemy URL of the gradebook.", show_default="gradebook.db in --into")
]


def main():
    """Run the command line; a fault that the user can mend is one line and status 1."""
    warnings.filterwarnings("ignore")
    logging.getLogger("traitlets").setLevel(logging.CRITICAL)
    try:
        app(standalone_mode=True)
    except UserError as error:
        err.print(f"[bold red]Error:[/] {_plain(error)}", highlight=False, soft_wrap=True)
        sys.exit(1)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        err.print(
            f"[bold red]Error:[/] {_plain(error.strerror or error)}{_plain(where)}", highlight=False, soft_wrap=True
        )
        sys.exit(1)


@app.command()
def release(exercises: Names = None):
    """Build what students get: solutions/ -> exercises/, through nbgrader."""
    from autograder import gradebook
    from autograder.release import release as build

    course = Course()
    with _progress("Releasing") as progress:
        chosen = course.exercises(exercises or ())
        task = progress.add_task("", total=len(chosen))
        for exercise in chosen:
            progress.update(task, description=exercise.name)
            with gradebook.opened(course):
                folder = build(course, exercise)
            progress.advance(task)
    for exercise in chosen:
        out.print(f"Released {folder.parent.relative_to(ROOT) / exercise.name}", highlight=False)


@app.command()
def check(notebook: Annotated[Path, typer.Argument(help="Your notebook, such as 01-qkv.ipynb.")]):
    """Grade your own notebook and see the feedback here. Nothing is handed in, and your file stays as it is."""
    import nbformat

    from autograder import engine, submission
    from autograder.limits import Limits
    from autograder.sandbox import Bare

    if not notebook.exists():
        raise UserError(f"There is no file {notebook}.")
    course = Course()
    limits = Limits(config=course.config).plain()
    guests = Bare(limits)
    guests.start()  # Python starts there while the notebook is read here
    try:
        from autograder.judge import Fault, Judge
        from checking import show

        own = _notebook_at(notebook, limits)
        exercise = _exercise_of(course, notebook, own)
        restored = submission.restore(own, nbformat.read(exercise.notebook, as_version=4))
        code = [cell for cell in restored.notebook.cells if cell.cell_type == "code"]
        with _progress("Running your cells") as progress:
            task = progress.add_task(exercise.name, total=len(code))
            ended = engine.execute(
                restored.notebook,
                Judge(exercise),
                guests,
                limits,
                seed=_fresh_seed(),
                guest_seed=_fresh_seed(),
                files=_files_of(course, notebook, exercise, limits),
                on_cell=lambda cell: progress.advance(task),
            )
    except (Fault, RuntimeError) as error:
        raise UserError(f"The checks could not run: {error}. Try `python -m autograder doctor`.") from error
    finally:
        guests.close()
    earned, most, by_hand = 0.0, 0.0, 0.0
    for cell in restored.notebook.cells:
        if not engine.is_check(cell):
            own = cell.metadata.get("nbgrader", {})
            by_hand += own.get("points", 0) if own.get("grade") else 0
            for output in cell.get("outputs", []):
                if output.output_type == "error":
                    show.write(f"The cell {cell.id} ended in an error: {output.ename}: {output.evalue}\n")
            continue
        points, worth = engine.points_of(cell)
        earned, most = earned + points, most + worth
        texts = [out.data["text/plain"] for out in cell.outputs if out.output_type == "display_data"]
        texts = texts or [out.text for out in cell.outputs if out.output_type == "stream"]
        show.write("\n".join(texts) + "\n")
    for line in restored.repairs:
        out.print(line, highlight=False, markup=False)
    for name, error in ended:
        out.print(f"Stopped in the cell {name}: {error}", highlight=False, markup=False)
    read = f", and {by_hand:g} more are given by the person who reads what you wrote" if by_hand else ""
    out.print(f"[bold]{earned:g} of {most:g} points[/]{read}", highlight=False)


@app.command()
def grade(
    exercises: Names = None,
    submitted: Annotated[
        Path, typer.Option(help="Folder with STUDENT/EXERCISE/EXERCISE.ipynb.", show_default="submitted/")
    ] = ROOT / "submitted",
    into: Into = ROOT,
    db: Database = "",
    force: Annotated[bool, typer.Option("--force", help="Grade unchanged submissions again as well.")] = False,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Grade all of them again, with the checks' inputs drawn anew.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="How many to grade at one time.", show_default="one for each core")] = 0,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="At your own risk: run submissions with your rights.")
    ] = False,
    fall_back: Annotated[
        bool, typer.Option("--fall-back", hidden=True, help="Do so only where there can be no sandbox.")
    ] = False,
):
    """Grade a class into nbgrader's gradebook, and write autograded/ and feedback/.

    A submission that has not changed since it was graded is not graded again. Whatever students handed in,
    every one of them gets a grade and a reason, and the command ends with status 0.
    """
    from autograder import pool

    course = Course(into=into.resolve(), db=db)
    chosen = course.exercises(exercises or ())
    if not submitted.is_dir():
        raise UserError(f"There is no folder {submitted}. Name the one with the submissions: --submitted DIR")
    there = [one for one in chosen if one.notebook.exists() and any(submitted.glob(f"*/{one.name}"))]
    if there:
        pool.preload(course.root / "exercises", [exercise.name for exercise in there])

    from autograder import sandbox
    from autograder.limits import Limits

    lacks = [] if no_sandbox else sandbox.missing()
    if lacks and not fall_back:
        raise UserError(
            f"Submissions cannot be isolated on this machine: {'; '.join(lacks)}. "
            "Mend that, or grade at your own risk with --no-sandbox."
        )
    if lacks or no_sandbox:
        because = f", because {'; '.join(lacks)}" if lacks else ""
        err.print(
            f"[yellow]Without a sandbox{_plain(because)}: submissions run with your rights.[/]", highlight=False
        )
    setting = pool.Setting(
        root=str(course.root),
        exercises=tuple(exercise.name for exercise in there),
        limits=Limits(config=course.config).plain(),
        sandbox=not (lacks or no_sandbox),
        hidden=(str(course.root), str(course.into), str(submitted.resolve())),
    )
    nursery = pool.nursery(setting) if there else None

    from autograder import grade as grading
    from autograder import gradebook, submission

    items = submission.find(course, chosen, submitted.resolve())
    with _progress("Grading", rate=True) as progress:
        task = progress.add_task("starting", total=len(items))
        grading.prepare(course, chosen, items, submitted)
        records, kept = [], 0
        with gradebook.opened(course) as book:
            for record, old in grading.grade_all(
                course,
                book,
                items,
                {exercise.name: grading.exercise_digest(exercise) for exercise in there},
                setting,
                nursery,
                jobs=min(jobs if jobs > 0 else len(os.sched_getaffinity(0)), len(items)),
                force=force,
                redraw=redraw,
            ):
                records.append(record)
                kept += old
                progress.update(task, advance=1, description=f"{record['student']} {record['assignment']}")
    if nursery:
        nursery.close()
    records.sort(key=lambda record: (record["student"], record["assignment"]))
    out.print(_table(records, grading.reasons))
    done = f"Graded {len(records) - kept}"
    if kept:
        done += f"; {kept} unchanged and not graded again (--force does)"
    out.print(
        f"{done}. Gradebook: {_short(course.db_url)}  Feedback: {_short(course.into / 'feedback')}", highlight=False
    )
    faults = [record for record in records if record["kind"] == "infrastructure"]
    if faults:
        raise UserError(
            f"{len(faults)} of {len(records)} could not be graded through our own fault, and lost no points: "
            f"{faults[0]['student']}, {faults[0]['reason']}. Run the same command again; the others are kept."
        )


@app.command()
def report(
    into: Into = ROOT,
    db: Database = "",
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="No names and no links, for showing to others.")
    ] = False,
    to: Annotated[Path | None, typer.Option(help="File to write.", show_default="report.html in --into")] = None,
):
    """Write one HTML page for the instructor: scores, what cost the class most, and every student's row."""
    from autograder.report import write

    course = Course(into=into.resolve(), db=db)
    path = to or course.into / ("report-anonymous.html" if anonymous else "report.html")
    write(course, path, anonymous)
    out.print(f"Report: {_short(path)}", highlight=False)


@app.command()
def export(
    into: Into = ROOT,
    db: Database = "",
    to: Annotated[Path | None, typer.Option(help="File to write.", show_default="grades.csv in --into")] = None,
):
    """Write the grades as CSV, in the columns of nbgrader's own export."""
    from autograder import gradebook

    course = Course(into=into.resolve(), db=db)
    _must_exist(course)
    rows = gradebook.rows(course)
    if not rows:
        raise UserError(f"There is no grade in {course.db_url} yet. Run: python -m autograder grade")
    path = to or course.into / "grades.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    out.print(f"{len(rows)} grades: {_short(path)}", highlight=False)


@app.command()
def doctor():
    """Show in one screen what this machine has and lacks for reading, checking, grading and building."""
    from autograder.doctor import findings

    table = Table(show_edge=False, header_style="bold")
    for name in ("", "What", "Found", "What it is for, or the mend"):
        table.add_column(name)
    needed = 0
    for finding in findings():
        mark = {"ok": "[green]ok[/]", "missing": "[red]missing[/]", "optional": "[yellow]absent[/]"}[finding.state]
        table.add_row(mark, finding.what, finding.found, finding.note)
        needed += finding.state == "missing"
    out.print(table)
    if needed:
        raise UserError(
            f"{needed} needed thing{'s are' if needed > 1 else ' is'} missing; the last column says what to do."
        )


def _exercise_of(course, path, notebook):
    """Return the exercise that a notebook answers: by its file name, else by its graded cells."""
    import nbformat

    exercises = [exercise for exercise in course.exercises() if exercise.notebook.exists()]
    for exercise in exercises:
        if exercise.name == path.stem:
            return exercise
    own, shared = {cell.get("id") for cell in notebook.cells}, {}
    for exercise in exercises:
        cells = nbformat.read(exercise.notebook, as_version=4).cells
        graded = {cell.id for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")}
        shared[exercise] = len(own & graded)
    if any(shared.values()):
        return max(shared, key=shared.get)
    names = ", ".join(exercise.name for exercise in exercises)
    raise UserError(f"{path.name} belongs to no exercise here. The exercises are: {names or 'none released yet'}.")


def _notebook_at(path, limits):
    """Return the notebook in a student's file, or say what it is instead."""
    from autograder import submission

    data, problem = submission.read_file(path, limits["notebook_mb"])
    try:
        if data is None:
            raise submission.Malformed(problem)
        return submission.parse(data, path.name)
    except submission.Malformed as error:
        raise UserError(f"{error} Open it in Jupyter and save it again, or start from the released one.") from None


def _files_of(course, path, exercise, limits):
    """Return the files beside a student's notebook, unless it lies in the release itself."""
    from autograder import submission

    released = submission.beside(exercise.released, limits["beside_mb"])[0]
    if path.parent.resolve() == exercise.released.resolve():
        return released
    return {**submission.beside(path.parent, limits["beside_mb"])[0], **released}


def _table(records, reasons):
    table = Table(show_edge=False, header_style="bold")
    for name, justify in (("Student", "left"), ("Exercise", "left"), ("Points", "right"), ("Lost to", "left")):
        table.add_column(name, justify=justify, overflow="fold")
    for record in records:
        points = f"{record['score']:g} / {record['max_score']:g}"
        if record["needs_manual_grade"]:
            points += " +"
        table.add_row(
            _plain(record["student"]), record["assignment"], points, _plain("\n".join(reasons(record)) or "–")
        )
    if any(record["needs_manual_grade"] for record in records):
        table.caption = "+ waits for a manual grade"
    return table


def _must_exist(course):
    path = course.into / "gradebook.db"
    if not course.db and not path.exists():
        raise UserError(f"There is no gradebook at {path}. Grade first: python -m autograder grade")


def _fresh_seed():
    import secrets

    return secrets.randbits(48)


def _plain(text):
    from rich.markup import escape

    return escape(str(text))


def _short(path):
    """Shorten a path or URL below the course's folder, so that a line of output stays readable."""
    return str(path).replace(f"{ROOT}/", "")


class _Rate(ProgressColumn):
    """How many a second, and how long the rest will take."""

    def render(self, task):
        left = task.time_remaining
        rest = f", {left // 60:.0f}:{left % 60:02.0f} left" if left else ""
        return Text(f"{task.speed:.1f}/s{rest}" if task.speed else "")


def _progress(title, rate=False):
    return Progress(
        SpinnerColumn(),
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *([_Rate()] if rate else []),
        TextColumn("{task.description}", markup=False),
        console=err,
    )

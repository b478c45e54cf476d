"""The commands for authors of exercises: make one, try it, release it, and test its tests."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from autograder.commands.console import (
    Names,
    Root,
    Status,
    course_at,
    err,
    out,
    progress_of,
    say,
    say_error,
    short,
    warn,
    warn_of_gpus,
)
from autograder.course import locks
from autograder.course.config import ROOT, Course, Exercise, UserError

if TYPE_CHECKING:
    from autograder.authoring.mutants import Findings


def release(
    exercises: Names = None,
    verify_all: Annotated[
        bool,
        typer.Option(
            "--verify", help="Also verify exercises that verified.json records as verified."
        ),
    ] = False,
    root: Root = ROOT,
) -> None:
    """Verify exercises and build the students' versions: solutions/ -> exercises/, through
    nbgrader.

    Skips the verification of an exercise that verified.json records as verified in its present
    state. Skips the build of an exercise that has not changed since its last release here.
    """
    course = course_at(root)
    chosen = course.sources(exercises or ())
    with locks.lock(
        course.root / "_build" / "release.lock",
        lambda who: warn(f"Waiting for another release to finish: {who}."),
    ):
        _release(course, chosen, verify_all)
    warn_of_gpus(chosen)


def _release(course: Course, chosen: list[Exercise], verify_all: bool) -> None:
    """Verify and build the exercises that need it, and print what was done."""
    from autograder.authoring import verified

    to_verify = [
        exercise for exercise in chosen if verify_all or not verified.holds(exercise.solution)
    ]
    if to_verify:
        _verify(to_verify)
    changed = [exercise for exercise in chosen if not verified.is_released(course, exercise)]
    if changed:
        _build(course, changed)
    for exercise in chosen:
        word = "Unchanged:"
        if exercise in changed:
            word = "Released"
        elif exercise in to_verify:
            word = "Verified"
        say(f"{word} {short(exercise.released, course)}")
    verified_earlier = sum(exercise not in to_verify for exercise in changed)
    if verified_earlier:
        verb = "was" if verified_earlier == 1 else "were"
        say(
            f"{verified_earlier} of them {verb} verified earlier (see verified.json); use --verify "
            "to verify all again"
        )


def _verify(exercises: list[Exercise]) -> None:
    """Verify exercises; raise `UserError` if one has a fault."""
    from autograder.authoring import verify

    faults = []
    with progress_of("Verifying") as progress:
        task = progress.add_task("", total=len(exercises))
        for exercise, fault in verify.faults(exercises):
            progress.update(task, advance=1, description=exercise.name)
            faults += [fault] if fault else []
    # `main` prints the error that is raised here: the first one, below the others.
    for fault in faults[1:]:
        say_error(fault)
    if faults:
        raise UserError(faults[0])


def _build(course: Course, exercises: list[Exercise]) -> None:
    """Build the students' versions of verified exercises."""
    from autograder.authoring import release, verified

    with progress_of("Releasing") as progress:
        task = progress.add_task("", total=len(exercises))
        for exercise in exercises:
            progress.update(task, description=exercise.name)
            release.release(course, exercise)
            verified.note_release(course, exercise)
            progress.advance(task)


def new(
    name: Annotated[
        str, typer.Argument(help="The new name, such as 15-sparse.", show_default=False)
    ],
    exercise_only: Annotated[
        bool, typer.Option("--exercise-only", help="Make no chapter of the book.")
    ] = False,
    root: Root = ROOT,
) -> None:
    """Make a small working chapter and its exercise, as a starting point for your own.

    The chapter has two pages, an interactive figure and its test, and is added to every list of
    chapters. A course without a book gets only the exercise.
    """
    from autograder.authoring.new import make

    course = course_at(root)
    paths, listed = make(course, name, exercise_only)
    for path in paths:
        say(f"Made {short(path, course)}")
    for path in listed:
        say(f"Listed in {short(path, course)}")
    build = ", then make book" if listed else ""
    say(f"Next: replace them with your own, then run python -m autograder release {name}{build}")


def lists(root: Root = ROOT) -> None:
    """Rewrite the lists of chapters, in _toc.yml and README.md, from book/NN-name/entries.md."""
    from autograder.authoring import chapters

    course = course_at(root)
    written = chapters.write(course.root)
    for name in written:
        say(f"Wrote {name}")
    if not written:
        say(f"The lists of chapters already match book/NN-name/{chapters.ENTRIES}")


def chapter(
    name: Annotated[
        str, typer.Argument(help="Its number or name, such as 06.", show_default=False)
    ],
    root: Root = ROOT,
) -> None:
    """List the files of a chapter, and what it enters into pages that chapters share, each entry
    with its line.
    """
    from autograder.authoring import chapters

    known = list(chapters.read(course_at(root).root).values())
    chosen = [entry for entry in known if name in (entry.name, entry.name[:2], str(entry.number))]
    if not chosen:
        listed = ", ".join(entry.name for entry in known)
        raise UserError(f"There is no chapter {name}. The chapters are {listed}.")
    for line in chosen[0].listing():
        say(line)


def mutants(
    exercises: Names = None,
    function: Annotated[str, typer.Option(help="Only this function.", show_default="all")] = "",
    survivors: Annotated[
        bool,
        typer.Option("--survivors", help="Show the mutants that the checks passed."),
    ] = False,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Record the mutants that pass as equal, after you looked at each."
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option(help="How many to run at a time.", show_default="one per core")
    ] = 0,
    root: Root = ROOT,
) -> None:
    """Change right answers in one place at a time, and count how many of these mutants the checks
    reject.

    Writes the counts to book/data/mutants.json, and everything else to _build/mutants.json. Ends
    with status 1 if more mutants of a function pass the checks than are recorded as equal, or if
    one has no result because the course's own answer failed as well.
    """
    from autograder.authoring.mutants import look_at

    passed = True
    for exercise in course_at(root).sources(exercises or ()):
        findings = look_at(exercise, function, jobs or None, accept)
        for subject, row in findings.rows.items():
            passed = passed and not findings.survived(subject) and not row.without_result
            for mutant in row.passed if survivors else ():
                say(f"{subject}: {mutant}")
            for mutant in row.without_result:
                say(f"{subject}: no result, because the course's own answer also failed: {mutant}")
        out.print(_table_of_mutants(exercise, findings))
    if not passed:
        raise typer.Exit(Status.FAILED)


def _table_of_mutants(exercise: Exercise, findings: "Findings") -> Table:
    table = Table(title=exercise.name, title_justify="left")
    table.add_column("function")
    for head in ("mutants", "examined", "killed", "explained", "by advice", "equal", "survived"):
        table.add_column(head, justify="right")
    for subject, row in findings.rows.items():
        survived = findings.survived(subject)
        # `row.equal` counts all mutants that passed: those recorded as equal, and the survivors.
        equal = row.equal - survived
        counts = (row.made, row.examined, row.killed, row.told, row.advice, equal, survived)
        table.add_row(subject, *map(str, counts))
    return table


def hint_coverage(exercises: Names = None, root: Root = ROOT) -> None:
    """Estimate how many unknown wrong answers would get a hint.

    Takes each known wrong answer off the list in turn, and checks it as if it were unknown.
    """
    from autograder.authoring.hint_coverage import table

    for exercise in course_at(root).sources(exercises or ()):
        with err.status(exercise.name):
            rows = table(exercise.solution)
        out.print(rows)

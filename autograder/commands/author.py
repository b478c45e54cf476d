"""The commands for authors of exercises: make one, try it, release it, and test its tests."""

from typing import Annotated

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


def release(
    exercises: Names = None,
    anew: Annotated[
        bool,
        typer.Option(
            "--verify", help="Also verify exercises that verified.json records as verified."
        ),
    ] = False,
    course: Root = ROOT,
) -> None:
    """Verify exercises and build the students' versions: solutions/ -> exercises/, through
    nbgrader.

    Skips the verification of an exercise that verified.json records as verified in its present
    state. Skips the build of an exercise that has not changed since its last release here.
    """
    where = course_at(course)
    chosen = where.sources(exercises or ())
    with locks.held(
        where.root / "_build" / "release.lock",
        lambda who: warn(f"Waiting for another release to finish: {who}."),
    ):
        _release(where, chosen, anew)
    warn_of_gpus(chosen)


def _release(where: Course, chosen: list[Exercise], anew: bool) -> None:
    """Verify and build the exercises that need it, and print what was done."""
    from autograder.authoring import verified

    doubtful = [exercise for exercise in chosen if anew or not verified.holds(exercise.solution)]
    if doubtful:
        _verify(doubtful)
    changed = [exercise for exercise in chosen if not verified.is_released(where, exercise)]
    if changed:
        _build(where, changed)
    for exercise in chosen:
        done = (
            "Released"
            if exercise in changed
            else "Verified"
            if exercise in doubtful
            else "Unchanged:"
        )
        say(f"{done} {short(exercise.released, where)}")
    if relied := [exercise for exercise in changed if exercise not in doubtful]:
        verb = "was" if len(relied) == 1 else "were"
        line = (
            f"{len(relied)} of them {verb} verified earlier (see verified.json); use --verify "
            "to verify all again"
        )
        say(line)


def _verify(exercises: list[Exercise]) -> None:
    """Verify exercises; raise `UserError` if one has a fault."""
    from autograder.authoring import verify

    found = []
    with progress_of("Verifying") as progress:
        task = progress.add_task("", total=len(exercises))
        for exercise, fault in verify.faults(exercises):
            progress.update(task, advance=1, description=exercise.name)
            found += [fault] if fault else []
    for fault in found[1:]:
        say_error(fault)
    if found:
        raise UserError(found[0])


def _build(where: Course, exercises: list[Exercise]) -> None:
    """Build the students' versions of verified exercises."""
    from autograder.authoring import release, verified

    with progress_of("Releasing") as progress:
        task = progress.add_task("", total=len(exercises))
        for exercise in exercises:
            progress.update(task, description=exercise.name)
            release.release(where, exercise)
            verified.note_release(where, exercise)
            progress.advance(task)


def new(
    name: Annotated[
        str, typer.Argument(help="The new name, such as 13-sparse.", show_default=False)
    ],
    exercise_only: Annotated[
        bool, typer.Option("--exercise-only", help="Make no chapter of the book.")
    ] = False,
    course: Root = ROOT,
) -> None:
    """Make a small working chapter and its exercise, as a starting point for your own.

    The chapter has two pages, an interactive figure and its test, and is added to every list of
    chapters. A course without a book gets only the exercise.
    """
    from autograder.authoring.new import make

    where = course_at(course)
    made, listed = make(where, name, exercise_only)
    for path in made:
        say(f"Made {short(path, where)}")
    for path in listed:
        say(f"Listed in {short(path, where)}")
    build = ", then make book" if listed else ""
    say(f"Next: replace them with your own, then run python -m autograder release {name}{build}")


def lists(course: Root = ROOT) -> None:
    """Rewrite the lists of chapters, in _toc.yml and README.md, from book/NN-name/entries.md."""
    from autograder.authoring import chapters

    where = course_at(course)
    written = chapters.write(where.root)
    for name in written:
        say(f"Wrote {name}")
    if not written:
        say(f"The lists of chapters already match book/NN-name/{chapters.ENTRIES}")


def chapter(
    name: Annotated[
        str, typer.Argument(help="Its number or name, such as 06.", show_default=False)
    ],
    course: Root = ROOT,
) -> None:
    """List the files of a chapter, and what it enters into pages that chapters share, each entry
    with its line.
    """
    from autograder.authoring import chapters

    known = list(chapters.read(course_at(course).root).values())
    found = next((one for one in known if name in (one.name, one.name[:2], str(one.number))), None)
    if found is None:
        raise UserError(
            f"There is no chapter {name}. The chapters are {', '.join(one.name for one in known)}."
        )
    for line in found.listing():
        say(line)


def mutants(
    exercises: Names = None,
    function: Annotated[str, typer.Option(help="Only this function.", show_default="all")] = "",
    survivors: Annotated[
        bool,
        typer.Option(
            "--survivors", help="Show the mutants that the checks passed, as lines for equal.toml."
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option(help="How many to run at a time.", show_default="one per core")
    ] = 0,
    course: Root = ROOT,
) -> None:
    """Change right answers in one place at a time, and count how many of these mutants the checks
    reject.

    Writes the counts to book/data/mutants.json, and everything else to _build/mutants.json. Ends
    with status 1 if a mutant passes the checks and equal.toml does not mark it as equal, or if a
    mark there matches no such mutant.
    """
    from autograder.authoring.mutants import look_at

    fine = True
    for exercise in course_at(course).sources(exercises or ()):
        found = look_at(exercise, function, jobs or None)
        table = Table(title=exercise.name, title_justify="left")
        for head in (
            "function",
            "mutants",
            "examined",
            "killed",
            "explained",
            "by advice",
            "equal",
            "survived",
        ):
            table.add_column(head, justify="left" if head == "function" else "right")
        for subject, row in found.rows.items():
            counts = (
                row.made,
                row.examined,
                row.killed,
                row.told,
                row.advice,
                row.equal,
                len(row.survived),
            )
            table.add_row(subject, *map(str, counts))
        for subject, lines in found.unmarked.items() if survivors else ():
            text = "\n".join([f'[{subject}."why"]', *lines])
            say(text)
        out.print(table)
        for line in found.misfits:
            say(line)
        fine = fine and not found.misfits and not found.unmarked
    if not fine:
        raise typer.Exit(Status.FAILED)


def hint_coverage(exercises: Names = None, course: Root = ROOT) -> None:
    """Estimate how many unknown wrong answers would get a hint.

    Takes each known wrong answer off the list in turn, and checks it as if it were unknown.
    """
    from autograder.authoring.hint_coverage import table

    for exercise in course_at(course).sources(exercises or ()):
        with err.status(exercise.name):
            rows = table(exercise.solution)
        out.print(rows)


def stock(
    cases: Annotated[
        list[str] | None,
        typer.Argument(help="Cases of autograder/corpus; by default, all.", show_default=False),
    ] = None,
) -> None:
    """Grade the submissions of autograder/corpus with nbgrader's default settings.

    This takes minutes. The outcomes are written to autograder/corpus/stock.json.
    """
    from autograder.corpus import stock

    for line in stock.record(cases or []):
        say(line)

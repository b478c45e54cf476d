"""The commands that students run on their own notebooks; instructors also use `explain`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from autograder.commands.console import (
    Root,
    Seed,
    course_at,
    out,
    progress_of,
    warn,
    warn_of_gpus,
    write_timings,
)
from autograder.course.config import ROOT, UserError

if TYPE_CHECKING:
    from autograder.grades.results import Disclosure, Outcome


def check(
    notebook: Annotated[Path, typer.Argument(help="Your notebook, such as 01-qkv.ipynb.")],
    seed: Seed = None,
    graded_as: Annotated[
        Path | None,
        typer.Option(
            "--as",
            help="Your feedback page: repeat the inputs of your grade, and compare the points.",
            show_default=False,
        ),
    ] = None,
    root: Root = ROOT,
) -> None:
    """Grade your own notebook and show the feedback here. Nothing is submitted, and your file does
    not change.

    With --as, the command ends with status 1 if anything differs from your grade.
    """
    from autograder.checking import words
    from autograder.checking.words import translated
    from autograder.course import archive
    from autograder.grading import recompute
    from autograder.grading.self_check import SelfCheck

    if not notebook.exists():
        raise UserError(f"There is no file {notebook}.")
    if graded_as and seed is not None:
        raise UserError("The page of --as has the seed. Leave out --seed or --as.")
    course = course_at(root)
    page = recompute.read_page(graded_as) if graded_as else None
    with SelfCheck(course, notebook, seed) as single:
        # Gives the notebook the seeds of the page.
        others = recompute.prepare(single, page) if page else []
        warn_of_gpus([single.exercise])
        with words.use(single.language, archive.locales(single.exercise)):
            title = single.exercise.title_in(words.language())
            with progress_of(translated("Running your cells")) as progress:
                task = progress.add_task(title, total=single.cells)
                outcome = single.grade(on_cell=lambda cell: progress.advance(task))
            _show_check(outcome, json.loads(outcome.notebook)["cells"])
        write_timings(single.seconds())
    if page:
        _compare(page, outcome, others)


def _compare(page: "Disclosure", outcome: "Outcome", others: list[str]) -> None:
    """Print whether a notebook is worth what its page says; raise `UserError` if anything
    differs.
    """
    from autograder.course.seeds import Origin
    from autograder.grading import recompute
    from autograder.sanitize import text

    differences = list(recompute.differences(page, outcome))
    # Another version of a library is no difference itself, but may be the cause of one.
    for line in [*others, *differences, *(recompute.other_versions(page) if differences else ())]:
        out.print(line, highlight=False, markup=False, soft_wrap=True)
    if others or differences:
        problem = "the results are the same, but the submission differs"
        if differences:
            problem = "the points or checks above differ"
        raise UserError(f"This is not the grade on the page: {problem}. The lines above say where.")
    count = sum(len(cell.checks) for cell in outcome.cells.values())
    message = f"Same points and same results in all {count} checks as on the page."
    if page.stamp is not None:
        message += f" The digest includes this time: {text.line(page.stamp, 100)}."
    if page.origin == Origin.KEY:
        message += (
            " The seed follows from the key with this hash; compare it with your course's: "
            f"{page.commitment}"
        )
    else:
        message += " No published hash confirms how the seed was drawn; the page says why."
    out.print(message, highlight=False, markup=False, soft_wrap=True)


def explain(
    path: Annotated[
        Path, typer.Argument(help="A notebook, or the grade.json of a graded submission.")
    ],
    check: Annotated[
        str,
        typer.Option(
            "--check", help="A check, or a function for all of its checks.", show_default="all"
        ),
    ] = "",
    seed: Seed = None,
    no_sandbox: Annotated[
        bool,
        typer.Option(
            "--no-sandbox", help="At your own risk: run the notebook with your permissions."
        ),
    ] = False,
    root: Root = ROOT,
) -> None:
    """Show each check's inputs, the returned values, and which known wrong answers return the same
    values.

    The notebook runs in a sandbox if this machine can make one. A submission runs only in a
    sandbox, unless you give --no-sandbox.
    """
    from autograder.grading.explain import Explainer, lines

    if not path.exists():
        raise UserError(f"There is no file {path}.")
    with Explainer(course_at(root), path, check, seed, sandbox=not no_sandbox) as explainer:
        warn_of_gpus([explainer.exercise])
        with progress_of("Running the cells") as progress:
            task = progress.add_task(explainer.exercise.title, total=explainer.single.cells)
            explanations = explainer.explanations(lambda cell: progress.advance(task))
        for explanation in explanations:
            for line, style in lines(explanation, whole=bool(check)):
                out.print(Text(line, style), soft_wrap=True)
            out.print()
        for note in explainer.notes:
            warn(note)
        again = f"python -m autograder explain {path} --seed {explainer.single.unit.seed}"
        out.print(f"To repeat these inputs: {again}", highlight=False, markup=False, soft_wrap=True)


def _show_check(outcome: "Outcome", cells: list[Any]) -> None:
    """Print what `check` found: errors of cells, the checks' feedback, what was repaired, and
    the points.
    """
    from autograder.checking import show
    from autograder.grades import reasons
    from autograder.sanitize import text

    for line in reasons.cell_feedback(cells):
        show.write(line)
    for note in outcome.repairs:
        out.print(text.line(str(note)), highlight=False, markup=False)
    if str(outcome.reason):
        out.print(text.line(str(outcome.reason)), highlight=False, markup=False)
    for grade_id, cell in outcome.cells.items():
        if cell.pending:
            pending = reasons.pending(cell.subject or grade_id, cell.pending, cell.waits_for())
            out.print(str(pending), highlight=False, markup=False)
    out.print(str(reasons.points_sentence(outcome)), style="bold", highlight=False, markup=False)

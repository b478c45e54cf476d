"""How long a student waits for the first feedback: from a notebook's first cell to its first check
that gives points.

    python benchmarks/first_check.py [NN-name ...]

For each released exercise, the cells up to that check run in a new Jupyter kernel, in a folder of
their own, with what a student would have written in them: the author's solution, then a wrong
answer that is listed, then one that nobody listed, for which feedback looks longest. The table has
seconds on the clock and of the processor (all of its threads), the points, and which large packages
are loaded in the end.
"""

import ast
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from autograder.authoring.answer_cells import AnswerCells
from autograder.course.cells import call_of, grade_id

ROOT = Path(__file__).resolve().parent.parent
LARGE = ("torch", "matplotlib", "triton", "sympy", "scipy")
BEGIN = "import sys, time\n_since = time.perf_counter(), time.process_time()"
END = f"""
[time.perf_counter() - _since[0], time.process_time() - _since[1], [own for own in {LARGE} if own in sys.modules]]
"""  # noqa: E501
# The right answer with other numbers, which are no listed answer's.
UNLISTED = """
_right = {name}

def _other(result):
    return type(result)(map(_other, result)) if type(result) in (tuple, list) else 1.37 * result + 0.1

def {name}(*arguments, **named):
    return _other(_right(*arguments, **named))
"""  # noqa: E501


def cells(folder):
    """Return the code of a released notebook's cells up to the first check with points, for each
    kind of answer.
    """
    released = nbformat.read(folder / f"{folder.name}.ipynb", as_version=4)
    answers, found = AnswerCells(ROOT / "solutions" / folder.name, released), []
    for cell in released.cells:
        if cell.cell_type == "code":
            found.append(answers.solutions.get(grade_id(cell), cell.source))
            call = call_of(cell)
            if call and call.points:
                break
    *before, check = found
    # The first wrong answer that is listed, for the function of that check.
    listed = next(iter(answers.listed(call.subject, "wrong")))
    wrong = {
        "listed": answers.cell(call.subject, listed),
        "unlisted": UNLISTED.format(name=call.subject),
    }
    return {"right": found, **{kind: [*before, own, check] for kind, own in wrong.items()}}


def measured(folder, code):
    """Return seconds on the clock, seconds of the processor, points and packages, of cells in a
    new kernel.
    """
    notebook = new_notebook(cells=[new_code_cell(each) for each in (BEGIN, *code, END)])
    with tempfile.TemporaryDirectory() as place:
        own = shutil.copytree(
            folder, Path(place) / folder.name, ignore=shutil.ignore_patterns("__pycache__")
        )
        notebook = NotebookClient(notebook, resources={"metadata": {"path": own}}).execute()
    # The last two results: that of the check cell, and that of END.
    *_, points, (clock, processor, loaded) = (
        ast.literal_eval(output.data["text/plain"])
        for cell in notebook.cells
        for output in cell.outputs
        if output.output_type == "execute_result"
    )
    return clock, processor, points, loaded


def main(*names):
    """Print the table."""
    print(f"{'exercise':22}{'answer':10}{'clock':>8}{'processor':>11}{'points':>8}   loaded")
    for folder in sorted(path.parent for path in (ROOT / "exercises").glob("*/*.ipynb")):
        if not names or folder.name in names:
            for kind, code in cells(folder).items():
                clock, processor, points, loaded = measured(folder, code)
                row = (
                    f"{folder.name:22}{kind:10}{clock:8.2f}{processor:11.2f}{points:8.2f}   "
                    f"{', '.join(loaded)}"
                )
                print(row, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

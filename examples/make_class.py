"""Make the sample class of `class.toml`, from the exercises as they are released now.

    python examples/make_class.py [folder]

Writes `<folder>/<student>/01-qkv/01-qkv.ipynb` and so on (default: `_build/sample/submitted`). The
same release gives the same files.
"""

import copy
import shutil
import sys
import tomllib
from pathlib import Path

import nbformat

from autograder.authoring.answer_cells import AnswerCells

ROOT = Path(__file__).resolve().parent.parent
RECIPE = Path(__file__).with_name("class.toml")
UNWRITTEN = "unwritten"


def answer(cells, grade_id, recipe):
    """Return the source of a student's cell.

    Parameters
    ----------
    cells : AnswerCells
        The exercise's answers.
    grade_id : str
        Which cell.
    recipe : str, dict or None
        What `class.toml` says of it; None is the author's answer.

    Raises
    ------
    SystemExit
        If the exercise has nothing of that name, or its answer no such text.
    """
    if recipe == UNWRITTEN:
        return cells.stubs[grade_id]
    if isinstance(recipe, str) and " " in recipe:
        return recipe.strip()
    if isinstance(recipe, str):
        if recipe not in cells.listed(grade_id, "wrong") | cells.listed(grade_id, "right"):
            raise SystemExit(f"class.toml: {cells.name} lists no answer {recipe} for {grade_id}.")
        return cells.cell(grade_id, recipe)
    source = cells.solutions[grade_id]
    for before, after in (recipe or {}).items():
        if before not in source:
            raise SystemExit(
                f"class.toml: the author's {grade_id} of {cells.name} has no {before!r}."
            )
        source = source.replace(before, after)
    return source


def submission(cells, recipe):
    """Return the released notebook with a student's answers in it: `recipe` has those that are
    not the author's.
    """
    if strange := set(recipe) - set(cells.stubs):
        raise SystemExit(f"class.toml: {cells.name} has no cell {strange.pop()} to be written.")
    notebook = copy.deepcopy(cells.released)
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if metadata.get("solution"):
            cell.source = answer(cells, metadata["grade_id"], recipe.get(metadata["grade_id"]))
    return notebook


def make(into):
    """Write the class into the folder `into`; what was there goes."""
    shutil.rmtree(into, ignore_errors=True)
    students, exercises = tomllib.loads(RECIPE.read_text(encoding="utf-8")), {}
    for student, handed_in in students.items():
        late, arrived = handed_in.pop("late", ""), handed_in.pop("arrived", 1)
        for name, recipe in handed_in.items():
            if name not in exercises:
                path = ROOT / "exercises" / name / f"{name}.ipynb"
                if not path.is_file():
                    raise SystemExit(
                        f"{path} is not there. Run: python -m autograder release {name}"
                    )
                exercises[name] = AnswerCells(
                    ROOT / "solutions" / name, nbformat.read(path, as_version=4)
                )
            folder = into / student / name
            folder.mkdir(parents=True)
            text = nbformat.writes(submission(exercises[name], recipe)) + "\n"
            (folder / f"{name}.ipynb").write_text(
                text[: int(arrived * len(text))], encoding="utf-8"
            )
            if late:
                (folder / "timestamp.txt").write_text(f"{late}\n", encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "_build" / "sample" / "submitted")

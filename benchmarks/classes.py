"""Make a class for an exercise of the course: `python benchmarks/classes.py 01-qkv FOLDER --count
200 --kind mixed`.

What students hand in is put together from `solutions/`: the author's solutions, and the right and
wrong answers that are listed there (not those of families), written into the released notebook as a
student would. The same seed makes the same class, no two notebooks are alike, and nobody is
hostile.
"""

import argparse
import ast
import copy
from dataclasses import dataclass
from pathlib import Path
from random import Random

import nbformat

from autograder.authoring import loader
from autograder.authoring.answer_cells import AnswerCells

ROOT = Path(__file__).resolve().parent.parent
SEED = 1
STUB = "raise NotImplementedError()"
RIGHT, WRONG, ERROR = "right", "wrong", "error"
# The kinds of ten students in a row, so that the first few are like the class as a whole.
KINDS = {"right": [RIGHT] * 10, "mixed": [RIGHT] * 5 + [WRONG] * 4 + [ERROR]}
MOST_WRONG = 3  # wrong answers of one student


@dataclass
class Student:
    """One submission: whose it is, what kind of student that is, and which answer is in each
    written cell.

    `answers` has a label for each: "solution", the name of the listed answer, or the name of the
    error.
    """

    name: str
    kind: str
    answers: dict
    notebook: nbformat.NotebookNode


def answers_of(name):
    """Return the answers to an exercise of `solutions/` that is released, such as 01-qkv:
    `AnswerCells`.
    """
    released = nbformat.read(ROOT / "exercises" / name / f"{name}.ipynb", as_version=4)
    return AnswerCells(ROOT / "solutions" / name, released)


# What ends in an error: each function makes such a cell of a released one.


def _left_unwritten(stub, number):
    return stub


def _no_python(stub, number):
    return stub.replace(STUB, f"return ({number},")


def _raises(stub, number):
    return stub.replace(STUB, f"return undefined_{number}")


ERRORS = {"left unwritten": _left_unwritten, "no Python": _no_python, "an exception": _raises}


def students(answers, kind, count, seed=SEED):
    """Return a class for an exercise.

    Parameters
    ----------
    answers : AnswerCells
    kind : str
        `right`: everybody is right, by the author's solutions and by answers that look different.
        `mixed`: half are; two fifths have one to three wrong answers; the others have an error in
        one or two cells.
    count : int
    seed : int
        Another seed makes another class.

    Returns
    -------
    list of Student
        In the order of their names. A larger class begins with the same students.
    """
    found = []
    for number in range(count):
        block, place = divmod(number, len(KINDS[kind]))
        kinds = list(KINDS[kind])
        # Each block and each student has its own seed: a larger class begins with the same ones.
        Random(f"{seed} {answers.name} {kind} block {block}").shuffle(kinds)
        rng = Random(f"{seed} {answers.name} {kind} {number}")
        found.append(_student(answers, f"student{number:04d}", kinds[place], number, rng))
    return found


def _faulty(answers, kind, rng):
    """Draw the functions that a student of a kind gets wrong."""
    if kind == WRONG:
        possible = [subject for subject in answers.subjects if answers.listed(subject, WRONG)]
        return set(rng.sample(possible, rng.randint(1, min(MOST_WRONG, len(possible)))))
    if kind == ERROR:
        possible = answers.subjects
        return set(rng.sample(possible, rng.randint(1, min(2, len(possible)))))
    return set()


def _student(answers, name, kind, number, rng):
    faulty = _faulty(answers, kind, rng)
    cells, labels = {}, {}
    for grade_id, solution in answers.solutions.items():
        label, source = "solution", solution
        if grade_id in faulty and kind == ERROR:
            label = rng.choice(list(ERRORS))
            source = ERRORS[label](answers.stubs[grade_id], number)
        elif grade_id in faulty:
            label = rng.choice(list(answers.listed(grade_id, WRONG)))
            source = answers.cell(grade_id, label)
        elif grade_id in answers.subjects and rng.random() < 0.5:  # the other half has the author's
            label = rng.choice(list(answers.listed(grade_id, RIGHT)))
            source = answers.cell(grade_id, label)
        cells[grade_id], labels[grade_id] = source, label
    notebook = copy.deepcopy(answers.released)
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and metadata.get("solution"):
            # The number is another one for each student: no two notebooks are alike.
            attempt = number * 100 + rng.randrange(100)
            cell.source = f"# try {attempt}\n{cells[metadata['grade_id']]}"
        elif metadata.get("solution"):
            cell.source = f"{cells[metadata['grade_id']]}\n\n({name})"
        elif cell.cell_type == "code" and not metadata and rng.random() < 0.5:  # half of them play
            cell.source = _played(cell.source)
    return Student(name, kind, labels, notebook)


def _played(source):
    """Return a cell to play with, with the # taken away from its last lines as far as they are
    Python.
    """
    lines = source.rstrip().split("\n")
    for first in range(len(lines)):
        code = [line.removeprefix("# ") for line in lines[first:]]
        try:
            ast.parse("\n".join(code))
        except SyntaxError:
            continue
        return "\n".join([*lines[:first], *code])
    return source


def write(found, name, folder):
    """Write the submissions of a class to `folder`/STUDENT/EXERCISE/EXERCISE.ipynb."""
    for student in found:
        place = folder / student.name / name
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.ipynb").write_text(
            nbformat.writes(student.notebook) + "\n", encoding="utf8"
        )


def main():
    """Write a class into a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("exercise", choices=[folder.name for folder in loader.FOLDERS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--kind", choices=KINDS, default="mixed")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    found = students(answers_of(options.exercise), options.kind, options.count, options.seed)
    write(found, options.exercise, options.folder)
    print(f"{len(found)} submissions below {options.folder}")


if __name__ == "__main__":
    main()

"""Make a class for an exercise of the course: `python benchmarks/classes.py 01-qkv FOLDER --count 200 --kind mixed`.

What students hand in is put together from `solutions/`: the author's solutions, and the right and wrong answers that
`misconceptions.py` spells out (not those of families), written into the released notebook as a student would. The
same seed makes the same class, no two notebooks are alike, and nobody is hostile.
"""

import argparse
import ast
import copy
import re
import symtable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

import nbformat

from autograder.authoring import loader
from autograder.checking import pieces

ROOT = Path(__file__).resolve().parent.parent
# Not 11: of a kernel with a mistake it lists what that computes, in torch, and no cell that a student would write.
FOLDERS = [folder for folder in loader.FOLDERS if folder.name != "11-gpu"]
SEED = 1
STUB = "raise NotImplementedError()"
RIGHT, WRONG, ERROR = "right", "wrong", "error"
# Of every ten students in a row, so that the first few are like the class as a whole.
KINDS = {"right": [RIGHT] * 10, "mixed": [RIGHT] * 5 + [WRONG] * 4 + [ERROR]}
MOST_WRONG = 3
DECLARES = ("misconception", "right", "families")  # the decorators of `checking` that list an answer


@dataclass
class Student:
    """One submission: whose it is, what kind of student that is, and which answer stands in each written cell.

    `answers` has a label for each: "solution", the name of the listed answer, or the name of the error.
    """

    name: str
    kind: str
    answers: dict
    notebook: nbformat.NotebookNode


class Answers:
    """The answers to one exercise, as the source of the cells that a student would write.

    Parameters
    ----------
    name : str
        The exercise, such as 01-qkv: a folder of `solutions/` that is released.
    """

    def __init__(self, name):
        self.name = name
        self.exercise = loader.load(ROOT / "solutions" / name)
        self.released = nbformat.read(ROOT / "exercises" / name / f"{name}.ipynb", as_version=4)
        sources = [
            Path(module.__file__).read_text(encoding="utf8") for module in (pieces, self.exercise.misconceptions)
        ]
        self.text = "\n".join(sources)
        self.lines = self.text.splitlines()
        self.statements = {}
        for statement in ast.parse(self.text).body:
            # What comes from `checking` is in the text already: a student does not import it.
            if not (isinstance(statement, ast.ImportFrom) and statement.module.startswith("checking")):
                self.statements.update(dict.fromkeys(_bound(statement), statement))

    @cached_property
    def solutions(self):
        """The author's solution for each cell that students write, text cells too, by grade id."""
        marks = re.compile(r"^[ #]*### (BEGIN|END) SOLUTION\n?", re.M)
        cells = self.exercise.cells(solution=True)
        return {cell.metadata["nbgrader"]["grade_id"]: marks.sub("", cell.source).rstrip() for cell in cells}

    @cached_property
    def stubs(self):
        """The cells that students write, as they are released, by grade id."""
        found = {}
        for cell in self.released.cells:
            metadata = cell.metadata.get("nbgrader", {})
            if metadata.get("solution"):
                found[metadata["grade_id"]] = cell.source
        return found

    @cached_property
    def given(self):
        """The names that the released notebook defines: imports, given functions, functions to be written."""
        code = [cell.source for cell in self.released.cells if cell.cell_type == "code"]
        return {name for source in code for statement in ast.parse(source).body for name in _bound(statement)}

    @property
    def subjects(self):
        """The names of the functions under test, in order."""
        return self.exercise.subjects

    def listed(self, subject, kind):
        """Return the names of the right or the wrong answers that are listed for a function, in order."""
        found = vars(self.exercise.misconceptions).items()
        listed = [name for name, answer in found if getattr(answer, f"{kind}_for", None) == subject]
        # What a decorator of the exercise's own makes an answer of is no answer as it is written.
        return [name for name in listed if name in self.statements and _declared(self.statements[name])]

    def cell(self, subject, answer):
        """Return a listed answer as a student's cell: the imports and helpers that it needs, and the function.

        A helper that has the name of something in the notebook gets another one, so that it replaces nothing there.
        """
        needed, open_names = set(), [answer]
        while open_names:
            name = open_names.pop()
            if name in self.statements and name not in needed:
                needed.add(name)
                open_names += _used(self._source(self.statements[name]))
        imports = {name for name in needed if isinstance(self.statements[name], (ast.Import, ast.ImportFrom))}
        names = {name: f"my_{name}" for name in needed - imports - {answer} if name in self.given}
        names[answer] = subject
        parts, written = [], set()
        for name in sorted(needed - {answer}, key=lambda name: self.statements[name].lineno):
            statement = self.statements[name]
            if statement not in written and not (name in imports and name in self.given):
                parts.append(_renamed(self._source(statement), names))
            written.add(statement)
        function = _renamed(self._source(self.statements[answer]), names)
        parts.append(_with_docstring(function, self.stubs[subject]))
        return "\n\n\n".join(parts)

    def _source(self, statement):
        """Return a statement of misconceptions.py as it stands there, without what lists it as an answer."""
        decorators = getattr(statement, "decorator_list", [])
        first = statement.lineno
        if decorators and not _declared(statement):
            first = decorators[0].lineno
        return "\n".join(self.lines[first - 1 : statement.end_lineno])


def _declared(statement):
    """Tell whether a statement is a function or a class that `checking` lists as an answer, as it stands there."""
    decorators = getattr(statement, "decorator_list", [])
    return bool({getattr(getattr(own, "func", own), "id", None) for own in decorators} & set(DECLARES))


def _bound(statement):
    """Return the names that a statement at the level of the module binds."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _used(source):
    """Return the names that a piece of code takes from its module, or from Python itself."""
    tables, used = [symtable.symtable(source, "misconceptions.py", "exec")], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        module = table.get_type() == "module"
        used |= {own.get_name() for own in table.get_symbols() if own.is_referenced() and (module or own.is_global())}
    return used


def _renamed(source, names):
    """Return code in which some names are replaced by others, where they are used and where they are defined."""
    lines, places = source.encode().split(b"\n"), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id in names:
            places.append((node.lineno - 1, node.col_offset, node.id))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in names:
            after = node.col_offset + len("def ")
            places.append((node.lineno - 1, lines[node.lineno - 1].index(node.name.encode(), after), node.name))
    for line, column, name in sorted(places, reverse=True):
        before, after = lines[line][:column], lines[line][column:]
        lines[line] = before + names[name].encode() + after.removeprefix(name.encode())
    return b"\n".join(lines).decode()


def _with_docstring(function, stub):
    """Return a function with the docstring of the released cell, which students leave where it is."""
    written, released = ast.parse(function).body[-1], ast.parse(stub).body[-1]
    if ast.get_docstring(written) or not ast.get_docstring(released):
        return function
    docstring = released.body[0]
    lines, first = function.split("\n"), written.body[0].lineno - 1
    lines[first:first] = stub.split("\n")[docstring.lineno - 1 : docstring.end_lineno]
    return "\n".join(lines)


# What ends in an error: each makes such a cell of a released one.


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
    answers : Answers
    kind : str
        `right`: everybody is right, by the author's solutions and by answers that look different. `mixed`: half are;
        two fifths have one to three wrong answers; the others have an error in one or two cells.
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
        Random(f"{seed} {answers.name} {kind} block {block}").shuffle(kinds)
        rng = Random(f"{seed} {answers.name} {kind} {number}")
        found.append(_student(answers, f"student{number:04d}", kinds[place], number, rng))
    return found


def _student(answers, name, kind, number, rng):
    faulty = set()
    if kind == WRONG:
        faulty = set(rng.sample(answers.subjects, rng.randint(1, min(MOST_WRONG, len(answers.subjects)))))
    elif kind == ERROR:
        faulty = set(rng.sample(answers.subjects, rng.randint(1, min(2, len(answers.subjects)))))
    cells, labels = {}, {}
    for grade_id, solution in answers.solutions.items():
        label, source = "solution", solution
        if grade_id in faulty and kind == ERROR:
            label = rng.choice(list(ERRORS))
            source = ERRORS[label](answers.stubs[grade_id], number)
        elif grade_id in faulty:
            label = rng.choice(answers.listed(grade_id, WRONG))
            source = answers.cell(grade_id, label)
        elif grade_id in answers.subjects and rng.random() < 0.5:  # the other half has the author's
            label = rng.choice(answers.listed(grade_id, RIGHT))
            source = answers.cell(grade_id, label)
        cells[grade_id], labels[grade_id] = source, label
    notebook = copy.deepcopy(answers.released)
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and metadata.get("solution"):
            cell.source = f"# try {number * 100 + rng.randrange(100)}\n{cells[metadata['grade_id']]}"
        elif metadata.get("solution"):
            cell.source = f"{cells[metadata['grade_id']]}\n\n({name})"
        elif cell.cell_type == "code" and not metadata and rng.random() < 0.5:  # half of them play
            cell.source = _played(cell.source)
    return Student(name, kind, labels, notebook)


def _played(source):
    """Return a cell to play with, with the # taken away from its last lines as far as they are Python."""
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
        (place / f"{name}.ipynb").write_text(nbformat.writes(student.notebook) + "\n", encoding="utf8")


def main():
    """Write a class into a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("exercise", choices=[folder.name for folder in FOLDERS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--kind", choices=KINDS, default="mixed")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    found = students(Answers(options.exercise), options.kind, options.count, options.seed)
    write(found, options.exercise, options.folder)
    print(f"{len(found)} submissions below {options.folder}")


if __name__ == "__main__":
    main()

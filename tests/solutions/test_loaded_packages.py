"""Nobody waits for a package that an exercise does not use: what is loaded when feedback stands."""

import importlib
import re
import shutil
import subprocess
import sys

import nbformat
import pytest

from autograder.authoring import loader
from autograder.authoring.answer_cells import AnswerCells
from autograder.checking import machine
from autograder.course.cells import call_of, grade_id, last_graded
from autograder.course.config import ROOT

pytestmark = pytest.mark.long

LARGE = {"torch", "triton", "matplotlib", "sympy", "scipy", "pandas"}
# Cells lie in files, which Triton reads a kernel from.
RUN = f"""
import sys
for own in sys.argv[1:]:
    exec(compile(open(own, encoding="utf-8").read(), own, "exec"))
print("loaded:", *sorted({LARGE} & set(sys.modules)))
"""


def imports_torch(folder):
    return bool(
        re.search(
            r"^import torch", (folder / f"{folder.name}.py").read_text(encoding="utf-8"), re.M
        )
    )


each_exercise = pytest.mark.parametrize(
    "folder",
    [
        pytest.param(
            folder, marks=[pytest.mark.slow] if folder != loader.FOLDERS[0] else [], id=folder.name
        )
        for folder in loader.FOLDERS
    ],
)
each_of_numpy = pytest.mark.parametrize(
    "folder",
    [folder for folder in loader.FOLDERS if not imports_torch(folder)],
    ids=lambda folder: folder.name,
)


@pytest.fixture(scope="module")
def first_check():
    """The benchmark that measures how long a student waits for the first feedback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("first_check")


def loaded(folder, code, target):
    """Return which large packages are loaded when cells have run in a fresh process, and what
    their checks said.
    """
    copied = shutil.copytree(ROOT / "exercises" / folder.name, target)
    names = [f"cell{number}.py" for number in range(len(code))]
    for name, source in zip(names, code, strict=True):
        (copied / name).write_text(source, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", RUN, *names], cwd=copied, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    *lines, last = ran.stdout.splitlines()
    return set(last.split()[1:]), "\n".join(lines)


@each_exercise
def test_the_first_check_loads_what_the_exercise_uses(folder, first_check, tmp_path):
    """With a right answer and with wrong ones, whose cause is looked for."""
    used = {"torch"} if imports_torch(folder) else set()
    if folder.name == "11-gpu" and machine.has("triton"):
        used.add("triton")
    for kind, code in first_check.cells(ROOT / "exercises" / folder.name).items():
        packages, output = loaded(folder, code, tmp_path / kind)
        assert ("FAILED" in output) == (kind != "right"), output
        assert ("Likely cause" in output) == (kind == "listed"), output
        assert packages == used, kind


@pytest.mark.slow
@each_of_numpy
def test_what_needs_no_torch_never_loads_it(folder, first_check, tmp_path):
    """Neither does any other check, of the author's solutions and of numbers that nobody listed."""
    released = nbformat.read(
        ROOT / "exercises" / folder.name / f"{folder.name}.ipynb", as_version=4
    )
    solutions, code = AnswerCells(folder, released).solutions, []
    for cell in released.cells[: last_graded(released.cells) + 1]:
        if cell.cell_type == "code":
            code.append(solutions.get(grade_id(cell), cell.source))
            call = call_of(cell)
            if call and call.points:
                code += [
                    first_check.UNLISTED.format(name=call.subject),
                    cell.source,
                    f"{call.subject} = _right",
                ]
    packages, output = loaded(folder, code, tmp_path / folder.name)
    assert "FAILED" in output
    assert not packages

"""No function that stands in a released text file earns the points of a function that students are
asked for.

Nobody should meet an answer in passing: specifications and listed wrong answers lie in the archive,
right answers are not released. What stands in plain text are the cells of the notebook and
`checks.py`. A piece of an earlier exercise that a later notebook gives, such as softmax, is judged
within its own exercise only: there nobody is asked for it any more, and whoever opens two exercises
side by side has been through the first.
"""

import ast
import json
import os
import subprocess
import sys

import nbformat
import pytest
from plain_answers import answers_in_text
from toy_course import toy_course

from autograder.authoring import loader, release
from autograder.course import archive
from autograder.course.config import ROOT, Exercise

TEMPLATE = ROOT / "autograder" / "authoring" / "templates" / "exercise"
TOY = ROOT / "tests" / "hostile" / "toy" / "solutions" / "01-toy"
each_exercise = pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)


@pytest.mark.slow
@each_exercise
def test_nothing_in_plain_text_is_an_answer(folder):
    """Mend: move it to `specifications.py`, which students get inside the archive."""
    assert answers_in_text(Exercise(folder.name)) == []


ANSWERS = {
    "def added(a, b):\n    return a + b\n": "added in checks.py is an answer to add",
    "def either(a, b, fault=''):\n    return a - b if fault else a + b\n": "either in checks.py is an answer to add",
    "TABLE = {'sum': lambda a, b: a + b}\n": "<lambda> in checks.py is an answer to add",
    "class Sum:\n    def __new__(cls, *parts):\n        return sum(parts)\n": "Sum in checks.py is an answer to add",
}


@pytest.mark.parametrize("text", ANSWERS, ids=["plainly", "by default", "in a table", "as a class"])
def test_an_answer_in_the_checks_is_found(tmp_path, text):
    course = toy_course(tmp_path)
    (exercise,) = course.sources()
    checks = exercise.solution / "checks.py"
    checks.write_text(checks.read_text(encoding="utf-8") + "\n\n" + text, encoding="utf-8")
    release.release(course, exercise)
    assert ANSWERS[text] in answers_in_text(exercise)


def test_an_answer_in_a_given_cell_is_found_and_others_are_not(tmp_path):
    course = toy_course(tmp_path)
    (exercise,) = course.sources()
    release.release(course, exercise)
    assert answers_in_text(exercise) == []
    notebook = nbformat.read(exercise.notebook, as_version=4)
    source = "unknown(1)\n\n\ndef double(a):\n    return 2 * a\n\n\ndef half(a):\n    return a / 2"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    nbformat.write(notebook, exercise.notebook)
    assert answers_in_text(exercise) == ["double in the notebook is an answer to twice"]


# How checks.py finds the archive.


def head(text):
    """Return the lines between the docstring of a checks.py and what else it imports."""
    tree = ast.parse(text)
    last = next(node for node in tree.body if isinstance(node, ast.If))
    return "\n".join(text.splitlines()[tree.body[0].end_lineno : last.end_lineno]).strip()


def test_each_exercise_finds_its_archive_in_the_same_lines():
    """Those of the toy and of the exercise that `new` makes too."""
    paths = [folder / "checks.py" for folder in [TEMPLATE, TOY, *loader.FOLDERS]]
    heads = {str(path.relative_to(ROOT)): head(path.read_text(encoding="utf-8")) for path in paths}
    (first, *others) = heads
    assert heads[first].startswith("import importlib.util") and heads[first].endswith("    )")
    assert [path for path in others if heads[path] != heads[first]] == []


def in_python(code, folder):
    """Run code in a plain Python that was started in a folder and knows nothing of this course."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )


def students_folder(root, name, answer):
    """Write what a student gets, for an exercise whose specification says `answer`; return the
    folder.
    """
    solution, folder = root / "solutions" / name, root / name
    solution.mkdir(parents=True)
    folder.mkdir()
    text = TOY.joinpath("checks.py").read_text(encoding="utf-8")
    text += f"\nfrom specifications import {answer}\n"
    (folder / "checks.py").write_text(text, encoding="utf-8")
    specified = (
        TOY.joinpath("specifications.py").read_text(encoding="utf-8")
        + f"\n{answer} = where = {name!r}\n"
    )
    (solution / "specifications.py").write_text(specified, encoding="utf-8")
    (solution / "misconceptions.py").write_text(f"where = {name!r}\n", encoding="utf-8")
    archive.write(solution).replace(folder / archive.NAME)
    return folder


def test_each_exercise_imports_its_archive_when_several_are_open(tmp_path):
    folders = [students_folder(tmp_path, name, f"answer_{name}") for name in "ab"]
    code = """
import os, sys, json
found = []
for folder in json.loads(%r):
    os.chdir(folder)
    sys.modules.pop("checks", None)
    import checks, misconceptions, specifications
    found.append([checks.__file__, specifications.where, misconceptions.where])
print(json.dumps(found))
"""
    result = in_python(
        code % json.dumps([str(folder) for folder in [*folders, folders[0]]]), tmp_path
    )
    assert result.returncode == 0, result.stderr
    names = [(folder, folder.name) for folder in [*folders, folders[0]]]
    assert json.loads(result.stdout) == [
        [str(folder / "checks.py"), name, name] for folder, name in names
    ]


def test_a_missing_archive_is_one_line_and_found_once_it_is_there(tmp_path):
    folder = students_folder(tmp_path, "a", "answer")
    elsewhere = tmp_path / "elsewhere.zip"
    (folder / archive.NAME).replace(elsewhere)
    code = f"""
import os
try:
    import checks
except ImportError as error:
    print(error)
os.replace({str(elsewhere)!r}, {archive.NAME!r})
import checks
print(checks.answer)
"""
    result = in_python(code, folder)
    assert result.returncode == 0, result.stderr
    line = (
        "checking.zip is missing next to checks.py. Unpack the exercise again, or run: make release"
    )
    assert result.stdout.splitlines() == [line, "a"]

"""What a grading machine lacks: a cell runs on without it, a note names it, and it gives no one
a point.
"""

import json
import types

import nbformat
import pytest
from judge_tools import asking, run_notebook
from student import executed
from toy_course import toy_course

from autograder.authoring import packages
from autograder.authoring.release import release
from autograder.checking import Status, undefined
from autograder.checking.report import Report, Result
from autograder.checking.suite import RunningNotebook
from autograder.checking.undefined import Ran
from autograder.checking.words import Message
from autograder.commands import doctor
from autograder.course import imports
from autograder.course.config import ROOT, Course, UserError
from autograder.grades import reasons
from autograder.grading.lacking import MissingPackageNotes
from autograder.grading.worker_config import WorkerConfig

USED = (
    "from absent_one import reduce\nimport numpy as np, absent_two.part as two\nimport "
    "absent_three.part\n"
)
USED += "shades = other = two.shades(3)\n"
EACH_USE = {
    "called": "reduce(1)",
    "an attribute": "two.part",
    "of a module": "absent_three.part.sum",
    "a class": "isinstance(1, reduce)",
    "a base": "exec('class Own(reduce): pass')",
    "numbers": "reduce + 1, 1 + reduce, -reduce, reduce @ reduce",
    "another number": "1 + reduce",
    "an array": "np.asarray(reduce)",
    "an entry": "reduce[0]",
    "a loop": "[one for one in reduce]",
    "a length": "len(reduce)",
    "a truth": "bool(reduce)",
    "compared": "reduce < 3",
    "assigned": "shades + 1",
    "set": "setattr(reduce, 'here', 1)",
}


@pytest.fixture(scope="module")
def on(guests, toy):
    """A guest in which a student's cell has imported what is not there: its judge, and its last
    reply.
    """
    with asking(guests, toy) as run:
        judge = run("")

        def cell(source, skip_missing=True):
            message = {"op": "cell", "skip_missing": skip_missing}
            return judge.notebook.guest.request(message, [source.encode()])[0].get("lacking")

        cell(USED + "def used(what):\n    return eval(what)")
        yield judge, cell


@pytest.mark.parametrize("use", EACH_USE)
def test_each_use_raises_the_error_of_the_import(on, use):
    judge, _ = on
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'absent_(one|two|three)'"):
        judge.lookup("used")(EACH_USE[use])


def test_what_an_import_binds_claims_nothing(on):
    judge, _ = on
    for name in ("__array_interface__", "__dlpack__", "__wrapped__"):
        assert judge.lookup("used")(f"hasattr(two, {name!r})") is False
    assert judge.lookup("used")("repr(two)") == "<absent_two is not installed>"
    assert judge.lookup("used")("np.ones(2).sum()") == 2.0, (
        "what is there, and is imported in the same line"
    )


def test_a_cell_says_what_it_went_on_without(on):
    _, cell = on
    source = (
        "import absent_one as one\none.begin()\n%matplotlib qt\nimport "
        "matplotlib\nmatplotlib.use('TkAgg')\nx = 1"
    )
    entries = cell(source)
    assert ["absent_one", ""] in entries and ["absent_one", "one.begin()"] in entries
    assert ["", "%matplotlib qt"] in entries
    assert cell("import numpy\nimport torch.nn as nn\n%matplotlib inline\nx = 2") == []
    assert cell("1 + one.begin()") == [["absent_one", ""]], "and what stopped it"


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import absent_one\nexcept ImportError:\n    there = 'no'",
        "import importlib.util\nthere = 'yes' if importlib.util.find_spec('absent_one') else 'no'",
        "import absent_one\ntry:\n    import absent_one as again\nexcept ImportError:\n    there "
        "= 'no'",
        "import sys\nimport absent_one\nthere = 'yes' if 'absent_one' in sys.modules else 'no'",
        "%%time\nimport absent_one\nthere = 'no'",
        "%%capture\nimport absent_one\nthere = 'no'",
        "import torch.absent\nthere = 'no' if torch.ones(1) == 1 else 'yes'",
        "from __future__ import annotations\nimport absent_one\nthere = 'no'",
        "import absent_one\ncolors = absent_one.palette(3)\nthere = 'no'",
        "import absent_one, asyncio\nprint(await asyncio.sleep(0))\nx = await asyncio.sleep(0, "
        "'no')\nthere = x",
    ],
)
def test_python_answers_as_it_does_elsewhere(on, source):
    judge, cell = on
    cell("there = None\nimport torch")
    cell(source)
    assert judge.lookup("there") == "no"


@pytest.mark.parametrize(
    "source", ["import absent_one", "%no_such_magic", "absent = 1\nfrom absent_one import absent"]
)
def test_a_locked_cell_stops_as_it_does_elsewhere(on, source):
    judge, cell = on
    cell("after = 0")
    assert cell(f"{source}\nafter = 1", skip_missing=False) is None
    assert judge.lookup("after") == 0


def test_the_last_expression_is_shown(guests, toy):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("import json\njson.dumps([1])\njson.dumps([2])")]
    )
    run_notebook(notebook, toy, guests)
    (shown,) = notebook.cells[0].outputs
    assert shown.data["text/plain"] == "'[2]'"


# What the judge makes of it.

CELL = nbformat.v4.new_code_cell("import absent_one\nmatplotlib.use(\n    'TkAgg')", id="mine")
CONTROL, LONG = "\x1b[2J\u202e", "a" * 10_000


def test_nothing_is_named_that_is_there_or_no_name():
    lacking = MissingPackageNotes()
    lacking.add(
        CELL,
        [
            ["numpy", ""],
            ["os.path", ""],
            [CONTROL, ""],
            ["a b", ""],
            ["", "not of the cell()"],
            [1, 2],
            3,
        ],
    )
    lacking.add(CELL, {"a": 1})
    lacking.add(CELL, None)
    assert lacking.notes() == []


def test_a_package_is_named_once_with_its_cells():
    lacking = MissingPackageNotes()
    other = nbformat.v4.new_code_cell("from google.colab import files", id="other")
    lacking.add(
        CELL,
        [["absent_one", ""], ["absent_one", "absent_one.begin()"], ["", "matplotlib.use('TkAgg')"]],
    )
    lacking.add(other, [["absent_one", ""], ["google", ""]])
    package, colab, statement = lacking.notes()
    assert (package.text, package.values) == (
        reasons.NOT_INSTALLED,
        {"package": "absent_one", "cells": "mine, other"},
    )
    assert colab.values["package"] == "google.colab"
    assert str(statement).startswith("`matplotlib.use('TkAgg')` does not work")


def test_names_are_bounded():
    lacking = MissingPackageNotes()
    lacking.add(CELL, [[LONG, ""], *([f"absent_{number}", ""] for number in range(10_000))])
    names = [str(note.values["package"]) for note in lacking.notes()]
    assert len(names) == 6 and names[0] == "a" * 60 + "…"


def test_what_a_function_misses_as_it_is_called_is_named():
    message = Message(
        "{function} raised {kind}: {error}",
        function="f",
        kind="ModuleNotFoundError",
        error="No module named 'absent_one'",
    )
    report = Report("f", 4, 0, 1, "", [Result("values", "Adds.", 1, Status.FAILED, message)])
    lacking = MissingPackageNotes()
    lacking.add_errors(report)
    assert [note.values for note in lacking.notes()] == [{"package": "absent_one", "cells": "f"}]


# Why a function is not defined.

ADD = "def add(a, b):\n    return a + b"
WHY = {
    "timeit": ([Ran("one", f"%%timeit\n{ADD}")], "begins with `%%timeit`"),
    "an error": (
        [Ran("one", ADD, "ZeroDivisionError", "by zero")],
        "The cell one, which should define it, raised Zero",
    ),
    "the last": (
        [Ran("one", ADD, "KeyError", "1"), Ran("two", "add = 1", "NameError", "x")],
        "cell two",
    ),
    "time": ([Ran("one", f"%%time\n{ADD}")], ""),
    "no error": ([Ran("one", ADD)], ""),
    "another's error": ([Ran("one", "def added(a):\n    pass\nadd(1)", "KeyError", "1")], ""),
    "a comment": ([Ran("one", "# def add(a, b):\nx == 1", "KeyError", "1")], ""),
    "nothing": ([], ""),
}


@pytest.mark.parametrize("case", WHY)
def test_the_cell_that_should_define_a_function_says_why_it_does_not(case):
    cells, expected = WHY[case]
    why = str(undefined.why_undefined("add", cells))
    assert (expected in why) if expected else why == ""


def test_a_notebook_names_the_magic_or_the_error(monkeypatch):
    def kernel(sources, error=None):
        last = types.SimpleNamespace(
            info=types.SimpleNamespace(raw_cell=sources[-2]),
            error_before_exec=None,
            error_in_exec=error,
        )
        history = types.SimpleNamespace(input_hist_raw=sources)
        shell = types.SimpleNamespace(history_manager=history, last_execution_result=last)
        monkeypatch.setitem(
            __import__("sys").modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell)
        )
        return str(RunningNotebook().why_undefined("add"))

    check = "checks.run('add', points=4)"
    assert "the cell [1] begins with `%%bash`" in kernel(["", f"%%bash\n{ADD}", check])
    assert "The cell [1], which should define it, raised KeyError: 'x'" in kernel(
        ["", ADD, check], KeyError("x")
    )
    assert (
        kernel(["", ADD, "1 + 1", check])
        == ""
        == kernel(["", ADD, "1 / 0", check], ZeroDivisionError())
    )


# The packages that a course adds.


def test_a_module_is_looked_for_and_not_imported():
    known = {
        "numpy": True,
        "torch.nn": True,
        "os.path": True,
        "absent_one": False,
        "torch.absent": False,
        "a" * 999: False,
    }
    assert {name: imports.is_installed(name) for name in known} == known


@pytest.fixture
def added(tmp_path):
    """A course that adds a package that is there, and one that is not."""
    course = toy_course(tmp_path / "course", "\nc.Course.packages = ['sympy']\n")
    (exercise,) = course.sources()
    text = exercise.text.read_text(encoding="utf-8")
    exercise.text.write_text(
        text.replace("# %% [markdown]", "# %% title [markdown]", 1), encoding="utf-8"
    )
    (exercise.solution / "exercise.toml").write_text("packages = ['absent_one']", encoding="utf-8")
    release(course, exercise)
    return course


def test_a_course_adds_packages(added):
    """Notebooks name them, doctor says whether they are there, and the warm parent loads them."""
    (exercise,) = added.exercises()
    title = nbformat.read(exercise.notebook, as_version=4).cells[0].source
    assert title.endswith(f"{packages.WITH_OTHERS}\n\n- `sympy`\n- `absent_one`")
    (finding,) = doctor._packages_of_course(added.root)
    assert (finding.state, finding.value) == ("missing", "without absent_one")
    assert "-m pip install absent_one" in finding.note
    pool = WorkerConfig(str(added.root), ("01-toy",), None, packages=("sympy",)).pool()
    assert json.loads(pool.load_only) == ["sympy", "absent_one"]


def test_a_course_that_adds_none_says_so_too():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# 1. Adding")])
    packages.add_to(notebook, [])
    assert notebook.cells[0].source == "# 1. Adding", "only a locked text is the course's"
    notebook.cells[0].metadata["nbgrader"] = {
        "locked": True,
        "solution": False,
        "grade": False,
        "grade_id": "title",
    }
    packages.add_to(notebook, [])
    assert notebook.cells[0].source == f"# 1. Adding\n\n{packages.ALONE}"
    assert list(doctor._packages_of_course(ROOT)) == [] == Course().packages


@pytest.mark.parametrize(
    "line, message",
    [
        (
            "c.Course.packages = ['a b']",
            "c.Course.packages should name packages as Python imports them",
        ),
        ("c.Course.packages = 'einops'", "c.Course.packages should be a list"),
        ("c.Course.package = ['einops']", "Did you mean packages?"),
    ],
)
def test_a_fault_in_the_configuration_is_one_line(tmp_path, line, message):
    course = toy_course(tmp_path, f"\n{line}\n")
    with pytest.raises(UserError, match=message.replace("?", r"\?").replace(".", r"\.")):
        _ = course.config


@pytest.mark.slow
def test_a_kernel_knows_its_cells(tmp_path):
    """In a student's own notebook the check names the magic, and the error of the cell before
    it.
    """
    course = toy_course(tmp_path / "course")
    release(course, course.sources()[0])
    check = "import checks\nchecks.run('add', points=4)"
    for cells, expected in (
        ([f"%%timeit\n{ADD}", "1 + 1"], "the cell [1] begins with `%%timeit`"),
        ([f"import absent_one\n{ADD}"], "raised ModuleNotFoundError: No module named 'absent_one'"),
    ):
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in (*cells, check)]
        )
        executed_notebook = executed(notebook, course.exercises()[0].released)
        assert expected in nbformat.writes(executed_notebook)

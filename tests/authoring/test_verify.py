"""What `release` verifies: each fault is one line that names file and line; and nothing is
verified twice.
"""

import re
import shutil

import pytest
from hostile import TOY
from toy_course import toy_course
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import verify
from autograder.checking import machine

TEXT, CHECKS, LISTED = "01-toy.py", "checks.py", "misconceptions.py"
RIGHT = '@right("add")\ndef other(a, b):\n    return {}\n'
# What is changed in which file, the line that is named (by how it begins), and what is said.
FAULTS = {
    "text": (TEXT, "return a + b", "return a +", "    return a +", "not Python"),
    "checks": (CHECKS, "a + a)", "a + a", "    expect_close(twice(a), a + a", "was never closed"),
    "misconceptions": (LISTED, "return a - b", "return a -", "    return a -", "not Python"),
    "import": (
        CHECKS,
        "import numpy",
        "import nunpy",
        "import nunpy",
        "ModuleNotFoundError: No module named 'nunpy'",
    ),
    "needs": (CHECKS, '["keeps_shape"]', '["keeps"]', "@check(weight=3", "needs 'keeps'"),
    "suite": (
        CHECKS,
        "run, hint, status, reset = suite.run, ",
        "hint, status, reset = ",
        None,
        "needs a suite and run",
    ),
    "points": (TEXT, "points=4", "points=n", "# %% check_add", "needs its points as a number"),
    "check of nothing": (
        TEXT,
        'run("twice"',
        'run("double"',
        "# %% check_twice",
        "double has no checks in checks.py",
    ),
    "no check cell": (
        TEXT,
        '# %% check_twice\nchecks.run("twice", points=2)',
        "",
        "# %% twice",
        "no check cell checks",
    ),
    "idle check": (
        CHECKS,
        "def doubles(twice,",
        "def doubles(thrice,",
        "@check()",
        "doubles checks 'thrice', its first argument, but no cell of 01-toy.py defines that",
    ),
    "given whole": (
        TEXT,
        "    ### BEGIN SOLUTION\n    return 2 * a\n    ### END SOLUTION",
        "    return 2 * a",
        "# %% twice",
        "'twice' is checked, but students get it complete; put the part that they write between "
        "###",
    ),
    "no parentheses": (CHECKS, "@check()", "@check", "@check", "write @check() above doubles"),
    "f-string": (
        CHECKS,
        "expect_close(twice(a), a + a)",
        'expect_close(\n        twice(a),\n        a + a,\n        because=f"The sum is {a + '
        'a}.",\n    )',
        "        because=",
        "an f-string cannot be translated",
    ),
    "no value": (
        CHECKS,
        "expect_close(twice(a), a + a)",
        'expect_close(twice(a), a + a, Message("What {is} it?", it=1))',
        "    expect_close(twice(a), a + a, Message",
        "no value for {is}",
    ),
    "no hint": (LISTED, ', hint="You subtract."', "", "@misconception(", "subtracts has no hint"),
    "empty hint": (LISTED, '"You subtract."', '" "', "@misconception(", "subtracts has no hint"),
    "slip": (
        LISTED,
        "return a - b",
        "return a - bb",
        "@misconception(",
        "caught by a slip, NameError: name 'bb'",
    ),
    "slip of a module": (
        LISTED,
        "return a - b",
        "import math\n\n    return math.minus(a, b)",
        "@misconception(",
        "only caught by a slip, AttributeError: module 'math' has no attribute 'minus'",
    ),
    "two of one name": (
        LISTED,
        "    return a - b",
        "    return a - b\n\n\ndef subtracts(a, b):\n    return b - a",
        "def subtracts",
        "subtracts replaces the one on line 7",
    ),
    "family that passes": (
        LISTED,
        '"""Wrong',
        RIGHT.format("b + a").replace("@right", '@families("only the first sequence")\n@right'),
        "@families",
        "the family 'only the first sequence' is listed as a wrong answer but passes every check "
        "of add (seed 1); "
        'add a check that it fails, or leave it out with but=["only the first sequence"].',
    ),
    "family of nothing": (
        LISTED,
        '"""Wrong',
        RIGHT.format("b + a").replace('@right("add")', '@families("returns nothing")'),
        "@families",
        'write @right("function") between it and other',
    ),
    "check not run": (
        CHECKS,
        "@check()",
        '@check()\ndef as_number(half, draw):\n    "A."\n\n\n@check()',
        "@check()",
        "no check cell runs the check as_number",
    ),
    "listed": (
        LISTED,
        '("add"',
        '("sum"',
        "@misconception(",
        "subtracts is listed for sum, which has no checks",
    ),
    "solution": (
        TEXT,
        "return a + b",
        "return a - b",
        'checks.run("add"',
        "the solution of add does not pass the check adds",
    ),
    "script": (
        TEXT,
        "# %% check_add",
        "# %%\n1 / 0\n\n# %% check_add",
        "1 / 0",
        "running it ended in ZeroDivisionError",
    ),
    "exit": (
        TEXT,
        "# %% check_add",
        "# %%\nraise SystemExit\n\n# %% check_add",
        "raise SystemExit",
        "ended in SystemExit",
    ),
    "wrong": (
        LISTED,
        "return a - b",
        "return a + b",
        "@misconception(",
        "passes every check of add",
    ),
    "right": (
        LISTED,
        '"""Wrong',
        RIGHT.format("a - b"),
        "@right(",
        "the right answer other does not pass the check adds",
    ),
    "a check stumbles": (
        CHECKS,
        "    n, m = draw.sizes(2)\n    expect_array",
        "    n, m = 1 / 0\n    expect_array",
        "    n, m = 1 / 0",
        "ZeroDivisionError",
    ),
}


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(TOY / "solutions" / "01-toy", tmp_path / "solutions" / "01-toy")


def change(folder, file, old, new):
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    if new.startswith(("@right", "@families")):  # a listed answer more
        text, old, new = (
            text.replace("import misc", "import families, right, misc") + "\n\n" + new,
            "",
            "",
        )
    (folder / file).write_text(text.replace(old, new, 1) if old else text, encoding="utf-8")


def test_a_correct_exercise_has_no_fault(folder):
    change(folder, LISTED, '"""Wrong', RIGHT.format("b + a"))
    assert verify.fault(folder) == ""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line_that_names_file_and_line(folder, name):
    file, old, new, line, message = FAULTS[name]
    if name == "check not run":
        change(
            folder,
            TEXT,
            "# %% check_add",
            "# %% half\ndef half(a):\n    return a / 2\n\n# %% check_add",
        )
    change(folder, file, old, new)
    fault = verify.fault(folder)
    match = re.match(r"solutions/01-toy/(?P<file>[\w.-]+\.py)(:(?P<line>\d+):)? ", fault)
    assert match and message in fault and "\n" not in fault, fault
    if line is not None:
        named = (
            (folder / match["file"])
            .read_text(encoding="utf-8")
            .splitlines()[int(match["line"]) - 1]
        )
        assert match["file"] == file and named.startswith(line), fault


@pytest.mark.parametrize("file", [CHECKS, LISTED])
def test_a_file_that_is_missing_is_named(folder, file):
    (folder / file).unlink()
    assert verify.fault(folder).startswith(f"solutions/01-toy/{file} is missing")


GPU = '''@check(on="gpu")
def on_a_gpu(add, draw):
    """A GPU adds them."""
    a, b = draw.array(2), draw.array(2)
    expect_close(add(a, b), a + b)
    assert a is b, "what runs on a GPU goes wrong"


@check()
'''


def test_what_needs_a_gpu_is_not_run_without_one(folder, monkeypatch):
    monkeypatch.setattr(machine, "_tried", {"gpu": ""})
    change(folder, CHECKS, "@check()", GPU)
    assert "on_a_gpu needs a GPU, but submissions of this exercise do not get one" in verify.fault(
        folder
    )
    (folder / "exercise.toml").write_text("gpu = true")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert verify.fault(folder) == ""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert "does not pass the check on_a_gpu" in verify.fault(folder)


def test_a_wrong_answer_that_only_a_gpu_shows_is_marked_as_such(folder, monkeypatch):
    monkeypatch.setattr(machine, "_tried", {"gpu": ""})
    (folder / "exercise.toml").write_text("gpu = true")
    change(folder, CHECKS, "@check()", GPU.replace("a is b", "True"))
    slow = (
        '@misconception("add", label="slow", hint="Faster."{})\ndef slow(a, b):\n    return a + b\n'
    )
    text = (folder / LISTED).read_text(encoding="utf-8")
    (folder / LISTED).write_text(text + "\n\n" + slow.format(""), encoding="utf-8")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert 'give it on="gpu" if only a GPU shows it' in verify.fault(folder)
    (folder / LISTED).write_text(text + "\n\n" + slow.format(', on="gpu"'), encoding="utf-8")
    assert verify.fault(folder) == ""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert "slow is listed as a wrong answer but passes every check" in verify.fault(folder)


def released(course, *names):
    result = CliRunner().invoke(cli.app, ["release", *names, "--course", str(course.root)])
    return result.exit_code, result.stdout, result.exception


@pytest.mark.slow
def test_release_verifies_what_changed_and_refuses_what_has_a_fault(tmp_path):
    """Each step is one an author takes; what was released stays until what follows it has no
    fault.
    """
    course = toy_course(tmp_path)
    exercise = course.sources()[0]
    assert released(course)[:2] == (0, "Released exercises/01-toy\n")
    notebook = exercise.notebook.read_bytes()
    assert released(course)[:2] == (0, "Unchanged: exercises/01-toy\n")

    change(exercise.solution, LISTED, "return a - b", "return a + b")
    status, printed, error = released(course)
    assert (status, printed) == (1, "") and "passes every check of add" in str(error)
    assert exercise.notebook.read_bytes() == notebook and released(course)[0] == 1

    change(exercise.solution, LISTED, "return a + b", "return a - b")
    exercise.notebook.write_text("edited by hand")
    assert released(course)[1].startswith(
        "Released exercises/01-toy\n1 of them was verified earlier"
    )
    assert exercise.notebook.read_bytes() == notebook

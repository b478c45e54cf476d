"""Kernels of Triton's are watched, counted and tried alike with a GPU and without one, with each
version of Triton.

A GPU changes one thing, which is seen without one (`gpu_machine.py`): Triton compiles, and checks
interpret that.
"""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from autograder.authoring import loader, verified
from autograder.checking import kernels, machine
from autograder.course.config import ROOT

pytestmark = pytest.mark.long

VERSIONS = ("3.4.0", "3.5.1", "3.6.0", "3.8.0")
"""The last of each that `kernels` has a row for, besides the one that is installed."""
FOLDER = ROOT / "solutions" / "11-gpu"
MINUTES = 60


@pytest.fixture(autouse=True)
def triton():
    """Triton is installed, where there is one for this machine."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("not verified here: no triton, which is made for Linux on x86-64")


def as_a_gpu_machine(part, packages=None):
    """Run `gpu_machine.py`, with what is installed or with other packages before that; return
    what it found.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if packages:
        environment["PYTHONPATH"] = str(packages)
    command = [sys.executable, str(ROOT / "tests" / "helpers" / "gpu_machine.py"), part]
    result = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60 * MINUTES
    )
    assert not result.returncode, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def expect_all_but_what_needs_a_gpu(functions):
    """The author's answer has all points, but for those that wait for a GPU."""
    assert not [function["lost"] for function in functions.values() if function["lost"]]
    assert all(
        round(function["points"] + function["waiting"], 2) == function["of"]
        for function in functions.values()
    )
    assert {name: function["waiting"] > 0 for name, function in functions.items() if function["of"]} == {
        "flash_attention_forward": True, "flash_attention": True, "MultiHeadLayer": True,
    }  # fmt: skip
    assert sum(function["points"] for function in functions.values()) > 21.5


@pytest.mark.slow
def test_compiled_kernels_are_watched_and_triton_is_as_before():
    outcome = as_a_gpu_machine("trial")
    assert (outcome["said"], outcome["same"], outcome["compiled"]) == ("", True, True)


@pytest.mark.slow
def test_the_right_kernels_have_all_points_where_triton_compiles():
    expect_all_but_what_needs_a_gpu(as_a_gpu_machine("solved"))


@pytest.mark.long
def test_listed_answers_are_recognized_where_triton_compiles():
    outcome = as_a_gpu_machine("listed")
    recorded = {
        name: function
        for name, function in verified.read(FOLDER).items()
        if name in outcome["functions"]
    }
    assert set(recorded) == {"flash_attention_forward", "flash_attention"}
    assert not outcome["lost"] and not outcome["lacking"]
    assert {name: function["wrong"] for name, function in outcome["functions"].items()} == {
        name: function.wrong for name, function in recorded.items()
    }
    assert {name: function["unrecognized"] for name, function in outcome["functions"].items()} == {
        name: function.unrecognized for name, function in recorded.items()
    }


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_kernels_are_judged_with_other_versions_of_triton(version):
    """Interpreted and compiled; sizes are converted as the newest NumPy wants it."""
    packages = ROOT / "_build" / "triton" / version
    if not (packages / "triton").exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-compile",
            "--target",
            packages,
        ]
        result = subprocess.run(
            [*map(str, pip), f"triton=={version}"], capture_output=True, text=True
        )
        if result.returncode:
            pytest.skip(
                f"not verified here: triton {version} cannot be installed: "
                f"{result.stderr.strip().splitlines()[-1:]}"
            )
    outcome = as_a_gpu_machine("trial", packages)
    assert outcome == {"triton": version, "said": "", "same": True, "compiled": True}
    expect_all_but_what_needs_a_gpu(as_a_gpu_machine("solved", packages))
    code = "import warnings; warnings.filterwarnings('error', message='.*ndim > 0 to a scalar')\n"
    code += "from autograder.checking import kernels; print(repr(kernels.trial('triton')))"
    environment = os.environ | {
        "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}",
        "TRITON_INTERPRET": "1",
    }
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert result.stdout == "''\n", result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        (
            "kernels.interpreter.GridExecutor._init_args_hst = None",
            "TypeError: 'NoneType' object is not callable",
        ),
        ("kernels.interpreter._interpreter = None", "InterpreterError: AttributeError"),
        ("kernels.interpreter.InterpretedFunction.rewrite = None", "TypeError"),
        ("kernels.outside = lambda *arguments: (0, 0)", "said to keep to them"),
        (
            "kernels.launches = lambda *arguments: (False, False)",
            "launches of kernels are not seen",
        ),
    ],
)
def test_a_machine_that_cannot_watch_kernels_fails_no_answer(breaks, reason):
    """Whatever another version changes inside, checks of kernels wait, and the reason is said."""
    code = f"""
import json, os, sys
os.environ["TRITON_INTERPRET"] = "1"
from autograder.authoring import loader
from autograder.checking import kernels, machine
from autograder.commands import doctor
kernels.load()
{breaks}
suite = loader.load(loader.Path({str(FOLDER)!r})).suite
answer = next(own for own in suite.listed("right_for", "flash_attention_forward"))
report = suite.examine("flash_attention_forward", answer, points=9)
found = doctor._triton()
print(json.dumps([report.score, report.pending, sorted({{str(own.message) for own in report.results}}),
                  [own.cause or str(own.relation) for own in report.results if own.cause or own.relation],
                  found.state, found.note]))
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert not result.returncode, result.stderr
    score, pending, messages, causes, state, note = json.loads(result.stdout.splitlines()[-1])
    assert (score, pending, causes, state) == (0.0, 9.0, [], "optional")
    assert any(
        "the course's own code for it fails here as well" in message and reason in message
        for message in messages
    )
    assert reason in note and "points for kernels are pending" in note


@pytest.mark.slow
def test_a_layer_is_compiled_here():
    assert kernels.trial("compile") == ""


def test_every_check_that_uses_triton_or_compiles_says_so():
    """Nothing is judged by more than NumPy and torch unless its check names it, or one that it
    needs.
    """
    suite = loader.load(FOLDER).suite
    named = {check.__name__: {check.on} for check in suite.checks}
    for check in suite.checks:
        for need in check.needs:
            named[check.__name__] |= named[need]
    kernel = {check.__name__ for check in suite.checks if check.subject.startswith("flash_")}
    assert all("triton" in named[name] for name in kernel)
    assert all("bf16" in named[name] for name in kernel if name.endswith("on_a_gpu"))
    assert named["layer_compiles"] >= {"compile"} and named["layer_on_a_gpu"] >= {"gpu"}


def test_a_trial_runs_once_and_is_reported(monkeypatch):
    tried = []
    monkeypatch.setattr(machine, "_tried", {})
    monkeypatch.setattr(
        kernels, "trial", lambda library: tried.append(library) or "OSError: no compiler"
    )
    assert machine.has("compile") and not machine.lacks("compile")
    reason = str(machine.fails("compile"))
    assert reason == str(machine.fails("compile")) == str(machine.lacks("compile")) and tried == [
        "compile"
    ]
    assert (
        "torch.compile" in reason
        and "OSError: no compiler" in reason
        and not machine.has("compile")
    )
    machine.presume({"compile": ""})
    assert machine.has("compile") and not machine.fails("compile") and tried == ["compile"]

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
MINUTES = 15


@pytest.fixture(autouse=True)
def triton():
    """Triton is installed, where there is one for this machine."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("not verified here: no triton, which is made for Linux on x86-64")


def as_a_gpu_machine(what, packages=None):
    """Run `gpu_machine.py`, with what is installed or with other packages before that; return
    what it found.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if packages:
        environment["PYTHONPATH"] = str(packages)
    command = [sys.executable, str(ROOT / "tests" / "helpers" / "gpu_machine.py"), what]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60 * MINUTES
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def expect_all_but_what_needs_a_gpu(found):
    """The author's answer has all points, but for those that wait for a GPU."""
    assert not [own["lost"] for own in found.values() if own["lost"]]
    assert all(round(own["points"] + own["waiting"], 2) == own["of"] for own in found.values())
    assert {name: own["waiting"] > 0 for name, own in found.items() if own["of"]} == {
        "flash_attention_forward": True, "flash_attention": True, "MultiHeadLayer": True,
    }  # fmt: skip
    assert sum(own["points"] for own in found.values()) > 21.5


@pytest.mark.slow
def test_compiled_kernels_are_watched_and_triton_is_as_before():
    found = as_a_gpu_machine("trial")
    assert (found["said"], found["same"], found["compiled"]) == ("", True, True)


@pytest.mark.slow
def test_the_right_kernels_have_all_points_where_triton_compiles():
    expect_all_but_what_needs_a_gpu(as_a_gpu_machine("solved"))


@pytest.mark.long
def test_listed_answers_are_told_as_listed_where_triton_compiles():
    found = as_a_gpu_machine("listed")
    kept = {name: own for name, own in verified.read(FOLDER).items() if name in found["functions"]}
    assert set(kept) == {"flash_attention_forward", "flash_attention"}
    assert not found["lost"] and not found["lacking"]
    assert {name: own["wrong"] for name, own in found["functions"].items()} == {
        name: own.wrong for name, own in kept.items()
    }
    assert {name: own["unrecognised"] for name, own in found["functions"].items()} == {
        name: own.unrecognised for name, own in kept.items()
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
        done = subprocess.run(
            [*map(str, pip), f"triton=={version}"], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(
                f"not verified here: triton {version} cannot be installed: "
                f"{done.stderr.strip().splitlines()[-1:]}"
            )
    found = as_a_gpu_machine("trial", packages)
    assert found == {"triton": version, "said": "", "same": True, "compiled": True}
    expect_all_but_what_needs_a_gpu(as_a_gpu_machine("solved", packages))
    code = "import warnings; warnings.filterwarnings('error', message='.*ndim > 0 to a scalar')\n"
    code += "from autograder.checking import kernels; print(repr(kernels.trial('triton')))"
    environment = os.environ | {
        "PYTHONPATH": f"{packages}{os.pathsep}{ROOT}",
        "TRITON_INTERPRET": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "''\n", done.stderr


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
def test_a_machine_on_which_kernels_cannot_be_watched_blames_nobody(breaks, reason):
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
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    score, pending, messages, causes, state, note = json.loads(done.stdout.splitlines()[-1])
    assert (score, pending, causes, state) == (0.0, 9.0, [], "optional")
    assert any(
        "the course's own code for it fails here as well" in said and reason in said
        for said in messages
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


def test_what_was_tried_is_tried_once_and_told(monkeypatch):
    tried = []
    monkeypatch.setattr(machine, "_tried", {})
    monkeypatch.setattr(kernels, "trial", lambda what: tried.append(what) or "OSError: no compiler")
    assert machine.has("compile") and not machine.lacks("compile")
    said = str(machine.fails("compile"))
    assert said == str(machine.fails("compile")) == str(machine.lacks("compile")) and tried == [
        "compile"
    ]
    assert "torch.compile" in said and "OSError: no compiler" in said and not machine.has("compile")
    machine.presume({"compile": ""})
    assert machine.has("compile") and not machine.fails("compile") and tried == ["compile"]

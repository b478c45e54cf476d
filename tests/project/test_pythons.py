"""Where people are: which Pythons CI finds, what it installs in them, and what an ordinary user
gets.
"""

import importlib.util
import json
import os
import pwd
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement

from autograder.course.config import ROOT


def module(path):
    """Return a script that lies in no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem + "_script", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


ci = module(ROOT / ".ci" / "pythons.py")
student = module(ROOT / "tests" / "helpers" / "student.py")
OWN = ".".join(map(str, sys.version_info[:2]))


def script(folder, name, text):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_python_is_found_where_it_runs(tmp_path):
    """A shim of a version that is not active, or one of another version, is passed over for the
    next.
    """
    shims, real = tmp_path / "shims", tmp_path / "real"
    script(shims, f"python{OWN}", "exit 127")
    script(shims, "python3.12" if OWN != "3.12" else "python3.13", f'exec "{sys.executable}" "$@"')
    script(shims, "python3.10", "echo 3.10.1")
    here = script(real, f"python{OWN}", f'exec "{sys.executable}" "$@"')
    assert ci.pythons([shims, real]) == {OWN: here}


def test_pyenvs_pythons_are_looked_at_the_newest_first(tmp_path, monkeypatch):
    for name in ("3.12.9", "3.12.10", "3.9.1", "pypy3.10-7.3"):
        (tmp_path / "versions" / name / "bin").mkdir(parents=True)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin::relative")
    found = [
        path.parent.name if isinstance(path, Path) else path for path in ci.folders_of_pythons()
    ]
    assert found[0] == "/usr/bin" and found.index("3.12.10") < found.index("3.12.9") < found.index(
        "3.9.1"
    )


def test_the_promised_pythons_are_the_same_everywhere():
    course = module(ROOT / "course.py")
    assert ci.promised() == [f"3.{minor}" for minor in range(course.LEAST[1], course.LAST[1] + 1)]
    assert ci.PROJECT["requires-python"] == f">={ci.promised()[0]}"
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert json.loads(re.search(r"python: (\[.*\])", text)[1]) == ci.promised()


def test_each_thing_that_students_install_has_a_least_version():
    versions = dict(line.split("==") for line in ci.least())
    for requirement in map(Requirement, ci.PROJECT["dependencies"]):
        assert requirement.specifier.contains(versions[requirement.name]), requirement


@pytest.mark.parametrize(
    ("pythons", "newcomer", "newest", "least"),
    [
        ({"3.11": "a", "3.12": "b", "3.13": "c"}, ["c"], ["c"], "b"),
        ({"3.11": "a", "3.13": "c", "3.14": "d"}, ["d"], ["c", "d"], sys.executable),
        ({"3.11": "a", "3.12": "b"}, ["b"], ["b"], sys.executable),
        ({"3.11": "a"}, [], [], sys.executable),
    ],
)
def test_each_other_python_solves_the_exercises(pythons, newcomer, newest, least):
    parts = ci.parts(pythons, "3.11")
    assert [part[1] for part in parts if part[0] == ci.as_newcomer] == newcomer
    students = [part[1:] for part in parts if part[0] == ci.as_student]
    assert [path for path, constraints, _ in students if not constraints] == newest
    assert [(path, constraints) for path, constraints, _ in students if constraints] == [
        (least, ci.least())
    ]
    missing = [version for version in ci.promised() if version not in pythons]
    assert [part[1] for part in parts if part[0] == ci.as_promised] == missing
    turns = [
        part
        for turn in range(47, 59)
        for part in ci.parts(pythons, "3.11", turn)
        if part[0] != ci.as_promised
    ]
    assert sorted(map(str, turns)) == sorted(
        str(part) for part in parts if part[0] != ci.as_promised
    )


def test_what_fails_is_shown_and_counts(tmp_path, capsys):
    assert ci.run(
        "good", tmp_path, ["sh", "-c", "echo linux x86_64, Python 3.12.1, and more; echo not this"]
    )
    assert not ci.run("bad", tmp_path, ["sh", "-c", "echo why; exit 3"], ["sh", "-c", "echo never"])
    output = capsys.readouterr().out
    assert (
        "good: fine" in output and "Python 3.12.1, and more" in output and "not this" not in output
    )
    assert "bad: FAILED" in output and "why" in output and "never" not in output


def checked(*waiting, points=2.0):
    """Return a notebook with one check cell, worth 4 points, of which results wait: (what for,
    the reason).
    """
    results = [{"status": "unverified", "on": on, "message": why} for on, why in waiting]
    data = {
        "text/plain": "",
        student.REPORT: {"results": [{"status": "passed", "on": "", "message": ""}, *results]},
    }
    outputs = [
        nbformat.v4.new_output("display_data", data=data),
        nbformat.v4.new_output("execute_result", data={"text/plain": str(points)}),
    ]
    cell = nbformat.v4.new_code_cell("", outputs=outputs)
    cell.metadata.nbgrader = {"grade": True, "solution": False, "grade_id": "check_it", "points": 4}
    return nbformat.v4.new_notebook(cells=[cell])


@pytest.mark.parametrize(
    ("lacking", "waiting", "faults"),
    [
        ({"gpu"}, [("gpu", "no GPU")], []),
        ({"gpu", "triton"}, [("gpu", "no GPU"), ("triton", "no Triton")], []),
        (set(), [("gpu", "no GPU")], ["check_it is not verified here, and should be: no GPU"]),
        ({"gpu"}, [("gpu", "no GPU"), ("triton", "kernels fail")], ["and should be: kernels fail"]),
        ({"gpu"}, [], ["check_it earns 2.0 of 4"]),
    ],
)
def test_what_waits_without_need_is_a_fault(tmp_path, monkeypatch, lacking, waiting, faults):
    folder = tmp_path / "01-toy"
    folder.mkdir()
    nbformat.write(nbformat.v4.new_notebook(), folder / "01-toy.ipynb")
    results = iter([checked(points=0.0), checked(*waiting)])
    monkeypatch.setattr(student, "executed", lambda notebook, folder_of: next(results))
    lines = student.faults(folder, "", lacking)
    assert len(lines) == len(faults) and all(
        words in line for words, line in zip(faults, lines, strict=True)
    )


def test_exercises_without_their_archives_are_one_line(tmp_path, capsys):
    assert (
        student.main(tmp_path, tmp_path) == 1
        and "python course.py release" in capsys.readouterr().out
    )


PINS = dict(
    re.findall(
        r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.M
    )
)


def table():
    """Return the rows of README's table of what the course runs on: cells by the first one."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## What it runs on\n")[2]
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("name", ["torch", "NumPy", "Triton", "nbgrader"])
def test_readmes_table_has_the_versions_that_are_declared_and_pinned(name):
    tried, promised, _ = table()[name]
    groups = [ci.PROJECT["dependencies"], *ci.PROJECT["optional-dependencies"].values()]
    declared = {
        requirement.name: requirement.specifier
        for group in groups
        for requirement in map(Requirement, group)
    }[name.lower()]
    bounds = {each.operator: each.version for each in declared}
    assert f"**{PINS[name.lower()]}**" in tried
    assert promised == f"from {bounds['>=']}" + (f", before {bounds['<']}" if "<" in bounds else "")
    if len(bounds) == 1:  # what students install, which CI tries with its least versions too
        assert tried.startswith(bounds[">="])


def test_readmes_table_has_the_pythons_that_are_promised():
    tried, promised, not_going = table()["Python"]
    assert promised == f"{ci.promised()[0]} to {ci.promised()[-1]}"
    assert tried.startswith(f"**{ci.promised()[0]}**") and "3.10" in not_going


@pytest.mark.long
@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, to be another user"
)
def test_an_ordinary_user_gets_the_exercises_and_grades_the_sample_class():
    """From nothing, with the system's own Python, in an odd folder; `.ci/pythons.py` builds the
    book in one.
    """
    python, owner = Path("/usr/bin/python3"), pwd.getpwnam("nobody")
    tried = subprocess.run([python, "-c", ci.MAKES_ENVIRONMENTS], capture_output=True, text=True)
    version = tried.stdout.strip()
    if tried.returncode or ci.numbers(version)[:2] < ci.numbers(ci.promised()[0]):
        reason = (
            f"{python} is too old, or has no venv module (Debian: apt install python3-venv): "
            f"{version}"
        )
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="newcomer-") as temporary:
        Path(temporary).chmod(0o755)
        folder, home = Path(temporary, ci.ODD), Path(temporary, "home")
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        subprocess.run(["chown", "-R", f"{owner.pw_uid}:{owner.pw_gid}", folder, home], check=True)
        ours = (
            "LC_",
            "LANG",
            "PYTHON",
            "PYTEST",
            "XDG_",
            "TRITON",
            "OMP_",
            "VIRTUAL_ENV",
            "TESTS_OF",
        )
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(ours)
        }
        environment |= {
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C",
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        }
        user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        command = [*user, python, "course.py", "sample"]
        result = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8"
        )
        shown = result.stdout[-5000:] + result.stderr[-5000:]
        assert result.returncode == 0, shown
        assert re.search(rf"^Python {re.escape(version)} \({python}\)\.$", result.stdout, re.M), (
            shown
        )
        phases = re.findall(r"^(\w+) +\d+\.\d s$", result.stdout, re.M)
        assert phases == ["install", "release", "sample"], shown
        assert not re.search(
            r"Traceback|WARNING|without a sandbox", result.stdout + result.stderr
        ), shown
        assert (folder / "_build" / "sample" / "report.html").stat().st_uid == owner.pw_uid

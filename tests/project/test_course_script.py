"""course.py: what it does on which system, what it refuses, and that make has no way of its own."""

import ast
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.course.config import ROOT

spec = importlib.util.spec_from_file_location("course_script", ROOT / "course.py")
course = importlib.util.module_from_spec(spec)
spec.loader.exec_module(course)

SYSTEMS = ("linux", "darwin", "win32")


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """What course.py would run, in order, in a folder of its own with an environment that is
    there.
    """
    commands = []
    monkeypatch.setattr(course, "ROOT", tmp_path)
    monkeypatch.setattr(course, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(course, "BUILD", tmp_path / "_build")
    monkeypatch.setattr(
        course, "run", lambda *command, failure: commands.append(" ".join(map(str, command)))
    )
    monkeypatch.setattr(course, "has", lambda program: True)
    for name in (
        "requirements.txt",
        "requirements-hub.txt",
        "requirements-test.txt",
        "pyproject.toml",
    ):
        (tmp_path / name).touch()
    course.python().parent.mkdir(parents=True)
    course.python().touch()
    return commands


def test_it_needs_nothing_but_python():
    tree = ast.parse((ROOT / "course.py").read_text(encoding="utf-8"))
    names = [
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    ]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert names and all(name.partition(".")[0] in sys.stdlib_module_names for name in names)
    assert not {"fcntl", "resource", "pwd", "grp"} & set(names)


def test_an_old_python_reads_it_as_far_as_its_refusal():
    ast.parse((ROOT / "course.py").read_text(encoding="utf-8"), feature_version=(3, 7))


def test_where_python_is():
    assert course.python_of(Path("v"), "win32") == Path("v/Scripts/python.exe")
    assert (
        course.python_of(Path("v"), "darwin")
        == course.python_of(Path("v"), "linux")
        == Path("v/bin/python")
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_needs_linux_says_so_in_one_line_and_is_left_out(
    system, commands, monkeypatch, capsys
):
    monkeypatch.setattr(course, "python", lambda: course.python_of(course.VENV, "linux"))
    course.in_phases("course", system)
    output = capsys.readouterr().out
    assert ("autograder release" in " ".join(commands)) and "book/tools/build.py" in commands
    graded = any("autograder grade" in command for command in commands)
    assert graded == (system == "linux") == (course.ELSEWHERE["sample"] not in output)
    ran = [phase for phase in course.PHASES if re.search(rf"^{phase} +\d+\.\d s$", output, re.M)]
    assert ran == [phase for phase in course.PHASES if graded or phase != "sample"]
    assert all(f"{phase}: about " in output for phase in ran)


@pytest.mark.parametrize(
    ("system", "machine", "has", "lacks"),
    [
        ("linux", "x86_64", list(course.WITHOUT), []),
        (
            "linux",
            "x86_64",
            ["bubblewrap", "namespaces", "libseccomp", "Chromium"],
            ["an NVIDIA GPU"],
        ),
        ("linux", "x86_64", [], ["an NVIDIA GPU", "bubblewrap", "libseccomp", "Chromium"]),
        ("linux", "riscv64", ["bubblewrap", "libseccomp", "Chromium"], ["Triton", "namespaces"]),
        ("darwin", "arm64", ["Chromium"], ["Linux", "Triton"]),
        ("win32", "AMD64", ["an NVIDIA GPU"], ["Linux", "Triton"]),
    ],
)
def test_what_is_left_out_for_want_of_what(system, machine, has, lacks):
    missing, lacking = course.looked_for(system, machine, has.__contains__)
    assert lacking == lacks and set(lacks) <= set(course.WITHOUT)
    assert set(missing) == set(has) - {"Linux", "Triton"} - (
        set() if system == "linux" else set(has)
    )


def test_it_says_first_what_it_found(commands, monkeypatch, capsys):
    monkeypatch.setattr(course, "has", lambda program: program != "bubblewrap")
    monkeypatch.setattr(sys, "platform", "linux")
    (course.VENV / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.4\n", encoding="utf-8")
    assert course.main([]) == 0
    machine, python, looked_for, lack, *rest = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\w+ on \w+, \d+ GB free, and the first run needs about 9.*", machine)
    assert python.startswith("Python 3.12.4 from .venv")
    assert (
        looked_for.startswith("Found: ")
        and looked_for.endswith("libseccomp, Chromium.")
        and "bubblewrap" not in looked_for
    )
    assert lack.startswith("Without bubblewrap: the sample class is graded without a sandbox")
    assert not any("Without" in line for line in rest)
    assert course.main([]) == 0 and "needs about" not in capsys.readouterr().out, (
        "what is installed needs no room"
    )
    assert course.main(["lists"]) == 0 and "Python" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "venv", "message"),
    [
        ((3, 13, 0), (), "Python 3.13.0 (/p)."),
        ((3, 13, 0), (3, 13, 0), "Python 3.13.0 from .venv."),
        (
            (3, 13, 0),
            (3, 11, 2),
            "Python 3.11.2 from .venv, not 3.13.0 (/p): to change it, delete .venv.",
        ),
        (
            (3, 15, 0),
            (),
            "Python 3.15.0 (/p); the newest tested version is 3.14, so this may not work.",
        ),
        ((3, 11, 2), (3, 15, 1), "; the newest tested version is 3.14, so this may not work."),
    ],
)
def test_which_python_is_used_is_one_line(version, venv, message):
    line = course.of_this_python(version, "/p", venv)
    assert message in line and "\n" not in line


def test_an_environment_of_an_old_python_is_named(commands, capsys):
    (course.VENV / "pyvenv.cfg").write_text("version_info = 3.10.13.final.0\n", encoding="utf-8")
    assert course.main(["install"]) == 1 and not commands
    assert (
        "has Python 3.10.13, but this course needs 3.11 or newer. Delete that folder"
        in capsys.readouterr().err
    )


def test_a_book_that_is_there_although_it_failed_ends_nothing_but_the_status_says_so(
    commands, monkeypatch, capsys
):
    def failing():
        raise course.Refused("The book was not built (status 1).")

    monkeypatch.setitem(course.PHASES, "book", failing)
    monkeypatch.setattr(sys, "platform", "linux")
    assert course.main([]) == 1 and not any("autograder grade" in command for command in commands)
    assert capsys.readouterr().err == "The book was not built (status 1).\n"
    (course.BUILD / "html").mkdir(parents=True)
    (course.BUILD / "html" / "index.html").touch()
    assert course.main([]) == 1 and any("autograder grade" in command for command in commands)
    out, err = capsys.readouterr()
    assert err.splitlines()[-1].startswith("Failed: book (see above).")
    assert re.search(r"^book .*, failed$", out, re.M) and "The book is available: run" in out
    assert course.main(["book"]) == 1


REFUSALS = {
    "old": (
        ((3, 10, 4), "linux", "/c", True, "/usr/bin/python3"),
        "needs Python 3.11 or newer; /usr/bin/python3 is 3.10",
    ),
    "no venv": (((3, 12, 1), "linux", "/c", False, "python"), "apt install python3.12-venv"),
    "colon": (((3, 12, 1), "darwin", "/a:b/c", True, "python"), "':' in its path"),
    "semicolon": (((3, 12, 1), "win32", "C:\\a;b", True, "python"), "';' in its path"),
    "question": (((3, 12, 1), "linux", "/why?", True, "python"), "'?' in its path"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_each_refusal_is_one_line_with_a_fix(name):
    arguments, message = REFUSALS[name]
    line = course.refusal(*arguments)
    assert message in line and "\n" not in line


def test_it_takes_paths_that_are_odd_and_work():
    for system, root in (("linux", "/a b/ü#%"), ("win32", "C:\\Users\\Ada Lovelace\\c")):
        assert course.refusal((3, 13, 0), system, root, True, "python") == ""


def test_it_installs_what_is_used_and_for_tests_the_rest(commands, monkeypatch):
    # what is not kept is better compiled once
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    course.install()
    assert commands[0] == "-m pip install -r requirements.txt" and "--editable ." in commands[1]
    commands.clear()
    course.install()
    assert not commands, "once is enough"
    course.install("hub", "test")
    lists = "-r requirements.txt -r requirements-hub.txt -r requirements-test.txt"
    assert commands[0] == f"-m pip install {lists}"
    commands.clear()
    later = course.VENV.joinpath(".installed").stat().st_mtime + 5
    os.utime(course.ROOT / "requirements.txt", (later, later))
    course.install()
    assert len(commands) == 2, "another list is installed anew"
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (course.VENV / ".installed").unlink()
    course.install()
    assert commands[2] == "-m pip install --no-compile -r requirements.txt"


def test_a_hub_is_installed_and_started_on_linux_alone(commands, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(course.os, "execv", lambda path, command: started.append(command))
    monkeypatch.setattr(course.sys, "platform", "linux")
    assert course.main(["hub"]) == 0
    assert any("-r requirements-hub.txt" in line for line in commands)
    assert started[0][1].endswith("demonstration.py")
    monkeypatch.setattr(course.sys, "platform", "darwin")
    assert course.main(["hub"]) == 1 and "needs Linux" in capsys.readouterr().err


def test_what_failed_is_not_taken_for_installed(commands, monkeypatch, capsys):
    def failing(*command, failure):
        raise course.Refused(failure)

    monkeypatch.setattr(course, "run", failing)
    assert course.main(["install"]) == 1
    assert "If the network is down, connect and run this again\n" in capsys.readouterr().err
    assert not (course.VENV / ".installed").exists()


@pytest.mark.parametrize("how", ["fails", "is interrupted"])
def test_an_unfinished_environment_is_removed(commands, monkeypatch, capsys, how):
    shutil.rmtree(course.VENV)

    def half(command, **options):
        course.VENV.mkdir()
        (course.VENV / "pyvenv.cfg").touch()
        if how == "is interrupted":
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(command, 1, stderr="Traceback\nOSError: no space left\n")

    monkeypatch.setattr(subprocess, "run", half)
    assert course.main(["install"]) == (130 if how == "is interrupted" else 1)
    errors = capsys.readouterr().err
    assert not course.VENV.exists() and errors.strip().count("\n") == 0
    assert ("no space left" in errors) == (how == "fails")


def test_a_folder_that_is_no_environment_is_named_and_left(commands, capsys):
    course.python().unlink()
    assert course.main(["install"]) == 1 and "Delete that folder" in capsys.readouterr().err
    assert course.VENV.exists()


def test_the_sample_class_is_made_again_when_an_exercise_is_newer(commands):
    gradebook = course.BUILD / "sample" / "gradebook.db"
    gradebook.parent.mkdir(parents=True)
    gradebook.touch()
    notebook = course.ROOT / "exercises" / "01-toy" / "01-toy.ipynb"
    notebook.parent.mkdir(parents=True)
    notebook.touch()
    for older in (True, False):
        moment = gradebook.stat().st_mtime + (-5 if older else 5)
        for path in (notebook, notebook.parent):
            os.utime(path, (moment, moment))
        course.sample()
        assert gradebook.exists() == older


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("test", "-m pytest -n logical --maxprocesses 8 -m not (long and slow)"),
        ("lint", "-m mypy"),
        ("lists", "-m autograder lists"),
        ("lock", ".ci/lock.py"),
        ("test-exercise", "-k 01-qkv"),
    ],
)
def test_a_target_runs_its_command(commands, target, command):
    text = course.ROOT / "solutions" / "01-qkv" / "01-qkv.py"
    text.parent.mkdir(parents=True)
    text.touch()
    assert course.main([target, "01-qkv"] if target == "test-exercise" else [target]) == 0
    assert any(command in line for line in commands)


def test_other_systems_solve_the_exercises_instead_of_running_tests(commands, monkeypatch, capsys):
    monkeypatch.setattr(course, "python", lambda: course.python_of(course.VENV, "linux"))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert course.main(["test"]) == 0
    assert (
        commands[-1] == "tests/helpers/student.py exercises solutions"
        and course.ELSEWHERE["test"] in capsys.readouterr().out
    )


def test_what_is_missing_is_one_line(commands, capsys):
    assert course.main(["serve"]) == 1 and course.main(["test-exercise"]) == 1
    errors = capsys.readouterr().err
    assert (
        "not built yet. Run: python course.py" in errors
        and "Name the exercise" in errors
        and errors.count("\n") == 2
    )
    assert course.main(["test-exercise", "14-nope"]) == 1
    assert capsys.readouterr().err.startswith("There is no exercise 14-nope; there are: ")
    assert not any("pytest" in line for line in commands)
    with pytest.raises(SystemExit):
        course.main(["cuorse"])
    assert "invalid choice: 'cuorse'" in capsys.readouterr().err


def test_make_knows_the_same_names_and_has_no_way_of_its_own():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = set(re.findall(r"^([\w -]+):(?!=)", makefile, re.M))
    named = {name for rule in rules for name in rule.split()} - {"help", "clean"}
    assert named == set(course.TARGETS)
    recipes = [line for line in makefile.splitlines() if line.startswith("\t")]
    assert all("course.py" in line or line == "\trm -rf _build" for line in recipes)


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_make_hands_on_the_python_that_it_is_given():
    for target, expected in (
        ("course", "/x/python course.py course"),
        ("test-exercise", "course.py test-exercise 01-a"),
    ):
        command = ["make", "--dry-run", target, "PYTHON=/x/python", "NAME=01-a"]
        output = subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
        assert expected in output


def test_without_triton_the_pages_that_need_it_are_not_run(monkeypatch):
    run_pages = importlib.import_module("run_pages")
    monkeypatch.setattr(run_pages, "find_spec", lambda name: None)
    assert [page.stem for page in run_pages.pages_that_cannot_run()] == [
        "11-kernel",
        "11-gpu-deeper",
    ]
    monkeypatch.setattr(run_pages, "find_spec", lambda name: object())
    assert run_pages.pages_that_cannot_run() == []

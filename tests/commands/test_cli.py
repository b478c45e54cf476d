"""The command line under both its names: the module that Python runs, and the command that an
install makes.
"""

import os
import subprocess
import sys

import pytest

from autograder.course.config import ROOT

# As pip writes it for an entry point.
SCRIPT = (
    "import sys\nfrom autograder.cli import main\nif __name__ == '__main__':\n    "
    "sys.exit(main())\n"
)
NAMES = ["python -m autograder", "attention-by-hand"]


@pytest.fixture(params=NAMES)
def command(request, tmp_path):
    """Return a name of the command, and a function that runs it elsewhere than in the course."""
    script = tmp_path / "attention-by-hand"
    script.write_text(SCRIPT)
    begin = [str(script)] if request.param == script.name else ["-m", "autograder"]

    def run(*arguments):
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        whole = [sys.executable, *begin, *map(str, arguments)]
        return subprocess.run(whole, cwd=tmp_path, env=variables, capture_output=True, text=True)

    return request.param, run


def test_its_usage_has_the_name_under_which_it_was_run(command):
    name, run = command
    result = run("--help")
    assert result.returncode == 0 and f"Usage: {name} " in result.stdout


def test_a_start_waits_for_no_slow_library():
    slow = ("numpy", "nbformat", "nbgrader", "sqlalchemy", "torch")
    code = f"import sys, autograder.cli; print([name for name in {slow} if name in sys.modules])"
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True
    )
    assert result.stdout == "[]\n"


def test_a_users_mistake_is_one_line_under_either_name(command, tmp_path):
    _, run = command
    result = run("export", "--into", tmp_path)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert (
        result.stderr
        == f"Error: There is no gradebook at {tmp_path}/gradebook.db. Grade first: python -m "
        "autograder grade\n"
    )


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="grading in several processes needs sockets on Linux"
)
def test_a_folder_for_temporary_files_with_too_long_a_name(command, tmp_path, monkeypatch):
    _, run = command
    deep = tmp_path / "deep" / ("n" * 100)
    handed_in = tmp_path / "submitted" / "ada" / "01-qkv"
    handed_in.mkdir(parents=True)
    deep.mkdir(parents=True)
    (handed_in / "01-qkv.ipynb").write_bytes((ROOT / "exercises/01-qkv/01-qkv.ipynb").read_bytes())
    monkeypatch.setenv("TMPDIR", str(deep))
    result = run(
        "grade", "01-qkv", "--submitted", tmp_path / "submitted", "--into", tmp_path, "--no-sandbox"
    )
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "Set TMPDIR to a shorter one" in result.stderr and len(result.stderr.splitlines()) <= 2

"""CI's plugin that runs the tests in parts (.ci/part.py)."""

import os
import subprocess
import sys

from autograder.course.config import ROOT

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_first(number): pass

@pytest.mark.parametrize("number", range(20))
def test_second(number): pass

def test_alone(): pass
"""


def collected(folder, *options):
    """Return the ids of the tests that pytest chooses in a folder."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "part", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".ci"), "PYTEST_ADDOPTS": ""}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert not run.stderr, run.stderr
    return [line for line in run.stdout.splitlines() if "::" in line]


def test_each_test_is_in_one_part_and_those_with_the_same_parameters_together(tmp_path):
    (tmp_path / "test_them.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    everything = collected(tmp_path)
    parts = [collected(tmp_path, "--part", f"{part}/3") for part in range(3)]
    assert (
        sorted(test for part in parts for test in part) == sorted(everything)
        and len(everything) == 41
    )
    assert all(parts)
    for part in parts:
        first, second = (
            {test.partition("[")[2] for test in part if f"::{name}[" in test}
            for name in ("test_first", "test_second")
        )
        assert first == second

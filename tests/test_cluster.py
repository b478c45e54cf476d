"""Grading on a Dask cluster: the same grades, whatever dies; and one line wherever it can't be."""

import json
import os
import subprocess
import sys

import nbformat
import pytest
from conftest import toy_course

from autograder.authoring.release import release
from autograder.corpus.case import RIGHT, WRONG

COUNT = 6


@pytest.fixture(scope="module")
def course(isolated, tmp_path_factory):
    """A toy course and a small class: right, wrong, one that ends Python, one that is no notebook."""
    root = tmp_path_factory.mktemp("cluster")
    own = toy_course(root)
    release(own, own.sources()[0])
    for number in range(COUNT):
        hand_in(root / "submitted" / f"s{number:02}", {**RIGHT, **(WRONG if number % 3 == 1 else {})}, number)
    hand_in(root / "submitted" / "s02", {**RIGHT, "add": "import os\nos._exit(0)"}, 2)
    (root / "submitted" / "s03" / "01-toy" / "01-toy.ipynb").write_text("{")
    return own


def hand_in(student, answers, number, released=None):
    """Write a submission with these answers."""
    folder = student / "01-toy"
    folder.mkdir(parents=True, exist_ok=True)
    path = released or student.parent.parent / "exercises" / "01-toy" / "01-toy.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in answers:
            cell.source = f"{answers[name]}\n# {number}"
    nbformat.write(notebook, folder / "01-toy.ipynb")


def with_secret(into):
    """Make a folder for grades with the course's secret, so that draws can be compared between folders."""
    into.mkdir(parents=True)
    (into / ".course-secret").write_text("one for all these tests\n")
    return into


def command(course, into, *more):
    arguments = ["--course", course.root, "--into", into, *more]
    return [sys.executable, "-m", "autograder", "grade", *map(str, arguments)]


def graded(course, into, *more, status=0, **environment):
    """Grade; return what was said, as one line."""
    run = subprocess.run(
        command(course, into, *more), capture_output=True, text=True, env={**os.environ, **environment}, timeout=240
    )
    said = " ".join((run.stdout + run.stderr).split())
    assert run.returncode == status, said[-2000:]
    assert "Traceback" not in said
    return said


def kept(into):
    """Return what was written of each student, without the time: the record's bytes, the notebook's, the page's."""
    found = {}
    for path in sorted(into.glob("autograded/*/01-toy/grade.json")):
        lines = path.read_text().splitlines(keepends=True)
        student = path.parent.parent.name
        page = into / "feedback" / student / "01-toy" / "01-toy.html"
        record = "".join(line for line in lines if not line.startswith('"graded_at": '))
        assert len(lines) == record.count("\n") + 1 and json.loads("".join(lines))["history"] == []
        found[student] = record, path.with_name("01-toy.ipynb").read_text(), page.read_text()
    return found


@pytest.fixture(scope="module")
def local(course, tmp_path_factory):
    """What grading on this machine, without Dask, writes."""
    into = with_secret(tmp_path_factory.mktemp("local") / "into")
    graded(course, into, "--jobs", 1)
    found = kept(into)
    assert len(found) == COUNT and len({record for record, _, _ in found.values()}) == COUNT
    return found


@pytest.mark.slow
def test_workers_here_write_what_a_local_run_writes(course, local, tmp_path):
    into = with_secret(tmp_path / "into")
    said = graded(course, into, "--cluster", "local:2")
    assert "Graded 6." in said and kept(into) == local


def test_a_local_run_imports_no_dask():
    code = "import sys, autograder.grading.session, autograder.grading.batch, autograder.cli\n"
    code += "assert not {'dask', 'distributed', 'autograder.grading.cluster'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_dask_one_line_says_what_to_install(course, tmp_path):
    (tmp_path / "distributed.py").write_text("raise ImportError('not here')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    said = graded(course, tmp_path / "into", "--cluster", "local:2", status=1, PYTHONPATH=path)
    assert 'python -m pip install ".[cluster]"' in said and not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cluster", "local:many"], "--cluster local:many names no number of workers"),
        (["--cluster", "local:0"], "--cluster local:0 names no number of workers"),
        (["--cluster", "local:2", "--jobs", "3"], "Leave out --jobs, or --cluster"),
        (["--cluster", "tcp://127.0.0.1:9"], "There is no Dask scheduler to be reached at tcp://127.0.0.1:9"),
        (["--cluster", "nonsense"], "There is no Dask scheduler to be reached at nonsense"),
    ],
)
def test_what_names_no_cluster_is_one_line(course, tmp_path, options, said):
    soon = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    assert said in graded(course, tmp_path / "into", *options, status=1, **soon)
    assert not (tmp_path / "into").exists()

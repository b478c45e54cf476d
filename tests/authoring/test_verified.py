"""What was verified stands in a record beside the exercise, and counts until what decides it has
changed.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from toy_course import toy_course
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import answer_trials, loader, verified, verify
from autograder.checking import machine
from autograder.course import archive
from autograder.course.config import ROOT


@pytest.fixture
def course(tmp_path):
    return toy_course(tmp_path)


@pytest.fixture
def folder(course):
    return course.root / "solutions" / "01-toy"


def release(course, *options):
    result = CliRunner().invoke(cli.app, ["release", *options, "--course", str(course.root)])
    assert result.exit_code == 0, result.exception
    return result.stdout


@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_the_record_of_each_exercise_is_valid(folder):
    """Who edits an exercise, or what verifies it, runs `make release`, which writes it anew."""
    assert verified.holds(folder), (
        f"solutions/{folder.name}/verified.json is not of these sources. Run: make release"
    )


def test_verification_records_the_counts_of_the_book(folder):
    assert not verified.holds(folder)
    tried = answer_trials.results(folder)
    assert not verified.holds(folder), "the book tries, and does not verify"
    assert verify.fault(folder) == ""
    trials = answer_trials.results(folder)
    assert [trial.subject for trial in trials] == ["add", "twice"]
    wrong = {answer.name: answer for answer in trials[0].wrong}
    assert wrong["subtracts"].recognized and not wrong["subtracts"].passed_seeds
    assert wrong["subtracts"].failed[0][0] == "adds"
    assert trials == tried


def test_what_is_recorded_is_not_tried_again(folder, monkeypatch):
    verify.fault(folder)
    monkeypatch.setattr(answer_trials, "try_answers", lambda *arguments: pytest.fail("tried again"))
    assert [trial.subject for trial in answer_trials.results(folder)] == ["add", "twice"]


def test_the_same_sources_make_the_same_bytes(folder):
    verify.fault(folder)
    record = folder / verified.NAME
    before = record.read_bytes()
    record.unlink()
    verify.fault(folder)
    assert record.read_bytes() == before
    assert len(before) < 2000 and max(map(len, before.splitlines())) < 100, "to be read in a diff"


@pytest.mark.parametrize(
    "name", ["checks.py", "misconceptions.py", "01-toy.py", "exercise.toml", "data.csv"]
)
def test_another_text_is_verified_again(folder, name):
    verify.fault(folder)
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write("\n# one line more\n")
    assert not verified.holds(folder)


@pytest.mark.parametrize("name", ["01-toy.ipynb", "checking.zip", ".checks.py.swp"])
def test_what_is_made_from_it_or_decides_nothing_is_no_part_of_it(folder, name):
    verify.fault(folder)
    (folder / name).write_text("# of another time\n", encoding="utf-8")
    assert verified.holds(folder)


def test_how_lines_end_is_no_part_of_it(folder):
    verify.fault(folder)
    for path in folder.glob("*.*"):
        if path.name != archive.NAME:
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert verified.holds(folder)


def test_another_runtime_is_verified_again(folder, tmp_path, monkeypatch):
    verify.fault(folder)
    runtime = tmp_path / "checking"
    runtime.mkdir()
    (runtime / "suite.py").write_text("# another\n", encoding="utf-8")
    monkeypatch.setattr(archive, "RUNTIME", runtime)
    assert not verified.holds(folder)


def test_other_tools_are_verified_again(folder, monkeypatch):
    verify.fault(folder)
    monkeypatch.setattr(verified, "TOOLS", verified.TOOLS[1:])
    assert not verified.holds(folder)


def test_another_version_is_verified_again_and_another_build_is_not(folder, monkeypatch):
    monkeypatch.setattr(verified.metadata, "version", lambda name: "2.0+cpu")
    verify.fault(folder)
    monkeypatch.setattr(verified.metadata, "version", lambda name: "2.0+cu130")
    assert verified.holds(folder)
    monkeypatch.setattr(
        verified.metadata, "version", lambda name: "2.1" if name == "torch" else "2.0"
    )
    assert not verified.holds(folder)


def test_what_one_machine_lacked_is_verified_where_it_is_not_lacking(folder, monkeypatch):
    path = folder / "checks.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("@check()", '@check(on="triton")'), encoding="utf-8")
    monkeypatch.setattr(machine, "has", lambda need: False)
    assert verify.fault(folder) == "" and verified.holds(folder)
    monkeypatch.setattr(machine, "has", lambda need: True)
    assert not verified.holds(folder)
    assert verify.fault(folder) == "" and verified.holds(folder)
    monkeypatch.setattr(machine, "has", lambda need: False)
    assert verified.holds(folder)


def test_a_gpu_leaves_nothing_in_the_record(folder, monkeypatch):
    (folder / "exercise.toml").write_text("gpu = true")
    path = folder / "checks.py"
    text = path.read_text(encoding="utf-8")
    check = '@check(on="gpu")\ndef added(add, draw):\n    """A GPU adds."""\n'
    check += "    a = draw.array(2)\n    expect_close(add(a, a), a + a)\n"
    path.write_text(text.replace("@check()", check + "\n\n@check()", 1), encoding="utf-8")
    records = []
    for there in (False, True):
        monkeypatch.setattr(machine, "has", lambda need, there=there: there)
        assert verify.fault(folder) == ""
        records.append((folder / verified.NAME).read_bytes())
    assert records[0] == records[1] and b"added" not in records[0]


BROKEN = {
    "empty": lambda text: "",
    "a list": lambda text: "[1]",
    "null": lambda text: "null",
    "cut off": lambda text: text[: len(text) // 2],
    "a conflict": lambda text: f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n",
    "without functions": lambda text: json.dumps(
        {"verified": json.loads(text)["verified"], "not verified": []}
    ),
    "an answer taken out": lambda text: text.replace('"subtracts": "adds', '"subtract": "adds'),
    "a check taken out": lambda text: text.replace('"subtracts": "adds', '"subtracts": "'),
    "not UTF-8": lambda text: b"\xff\xfe",
}


def test_a_broken_or_edited_record_is_written_again(course, folder):
    release(course)
    record = folder / verified.NAME
    text = record.read_text(encoding="utf-8")
    for name, edit in BROKEN.items():
        broken = edit(text)
        assert broken != text
        record.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
        assert not verified.holds(folder), name
    assert release(course) == "Verified exercises/01-toy\n"
    assert record.read_text(encoding="utf-8") == text


def test_what_is_refused_is_not_recorded(folder):
    path = folder / "misconceptions.py"
    path.write_text(
        path.read_text(encoding="utf-8").replace("return a - b", "return a + b"), encoding="utf-8"
    )
    assert "passes every check of add (seed 1)" in verify.fault(folder)
    assert not (folder / verified.NAME).exists()
    wrong = {own.name: own for own in answer_trials.results(folder)[0].wrong}
    assert (
        wrong["subtracts"].passed_seeds == list(answer_trials.SEEDS)
        and not wrong["subtracts"].failed
    )


def test_what_is_saved_while_it_is_verified_is_not_taken_for_verified(folder, monkeypatch):
    tried = answer_trials.try_answers

    def saved_meanwhile(*arguments):
        with (folder / "checks.py").open("a", encoding="utf-8") as file:
            file.write("# one line more\n")
        return tried(*arguments)

    monkeypatch.setattr(answer_trials, "try_answers", saved_meanwhile)
    assert verify.fault(folder) == "" and not verified.holds(folder)


def test_a_release_relies_on_a_valid_record(course, folder, monkeypatch):
    assert release(course) == "Released exercises/01-toy\n"
    record = (folder / verified.NAME).read_bytes()
    (course.root / "_build" / "released" / "01-toy.json").unlink()  # as in a fresh clone
    monkeypatch.setattr(verify, "faults", lambda exercises: pytest.fail("verified again"))
    line = "1 of them was verified earlier (see verified.json); use --verify to verify all again\n"
    assert release(course) == f"Released exercises/01-toy\n{line}"
    assert release(course) == "Unchanged: exercises/01-toy\n"
    monkeypatch.undo()
    assert release(course, "--verify") == "Verified exercises/01-toy\n"
    assert (folder / verified.NAME).read_bytes() == record


def test_a_new_due_date_is_released(course, folder):
    release(course)
    (course.root / "deadlines.toml").write_text("[due]\n01-toy = 2099-01-01T00:00:00Z\n")
    assert release(course).startswith("Released exercises/01-toy\n")
    assert '"due": "2099-01-01T00:00+00:00"' in (
        course.root / "exercises" / "01-toy" / "exercise.json"
    ).read_text(encoding="utf-8")
    assert release(course) == "Unchanged: exercises/01-toy\n"


@pytest.mark.slow
def test_students_do_not_get_the_record(course, folder):
    """Not even from a course whose nbgrader_config.py is older than records."""
    config = course.root / "nbgrader_config.py"
    config.write_text(
        config.read_text(encoding="utf-8").replace(f'    "{verified.NAME}",\n', ""),
        encoding="utf-8",
    )
    release(course)
    (course.root / "_build" / "released" / "01-toy.json").unlink()
    release(course)
    assert (folder / verified.NAME).exists()
    assert not list((course.root / "exercises").rglob(verified.NAME))


@pytest.mark.slow
def test_two_releases_at_one_time(course, folder):
    command = [sys.executable, "-m", "autograder", "release", "--course", str(course.root)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def run(_):
        return subprocess.run(
            command, cwd=course.root, env=environment, capture_output=True, text=True
        )

    with ThreadPoolExecutor() as pool:
        results = list(pool.map(run, range(2)))
    assert [result.returncode for result in results] == [0, 0], results
    assert all("Traceback" not in result.stderr for result in results), results
    outputs = sorted(result.stdout for result in results)  # the second finds the first one's work
    assert outputs == ["Released exercises/01-toy\n", "Unchanged: exercises/01-toy\n"]
    assert verified.holds(folder)
    assert release(course).endswith("exercises/01-toy\n")
    assert {path.name for path in folder.iterdir() if path.name.startswith(".")} == set()

"""Release, check, grade, report and export, on a toy course that has nothing to do with
attention.
"""

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook
from report_tools import rows_of
from servers import jupyter
from toy_course import RIGHT, hand_in, record_of, run, toy_course

from autograder.authoring.release import release
from autograder.commands import doctor
from autograder.course import archive, seeds
from autograder.course.config import ROOT, Course
from autograder.course.limits import Limits
from autograder.grades import gradebook, reasons, records
from autograder.grades.results import Kind
from autograder.grading import backends, batch, notebook
from autograder.grading.judge import Judge
from autograder.sandbox.budget import Budget
from autograder.sandbox.guest import Ended
from autograder.sandbox.guests import GuestPool, UnsandboxedGuests


def altered(notebook):
    cells = {cell.id: cell for cell in notebook.cells}
    cells["check_add"].source = "4.0"
    cells["check_add"].metadata.nbgrader.points = 500
    cells["check_twice"].metadata.tags = ["skip-execution"]


def copied(notebook):
    notebook.cells.insert(3, nbformat.from_dict(notebook.cells[2]))


def deleted(notebook):
    notebook.cells = [cell for cell in notebook.cells if cell.id != "check_add"]


def stripped(notebook):
    for cell in notebook.cells:
        cell.metadata = {}


def strange(notebook):
    """Return the released notebook as JSON, with metadata, ids and sources that no editor
    writes.
    """
    raw = json.loads(nbformat.writes(notebook))
    raw["cells"][0]["metadata"] = None
    raw["cells"][1]["id"] = ["a list"]
    raw["cells"][1]["metadata"]["nbgrader"] = 7
    raw["cells"][2]["metadata"]["nbgrader"]["grade_id"] = {"a": 1}
    raw["cells"][3]["source"] = ["def twice(a):\n", "    return 2 * a"]
    raw["cells"].append({"cell_type": "code", "source": "1 / 0"})
    return json.dumps(raw).encode()


NOISY = (
    "import sys, warnings\ndef add(a, b):\n    warnings.warn('hm')\n    print(1, "
    "file=sys.stderr)\n    return a + b"
)
CLASS = {
    # student: (what is handed in, points, kind, what the reasons must say)
    "rita": ({"answers": RIGHT}, 6, Kind.WRONG, ["proof −3: no response"]),
    "proved": ({"answers": {**RIGHT, "proof": "Because."}}, 6, Kind.RIGHT, []),
    "minus": (
        {"answers": {**RIGHT, "add": "def add(a, b):\n    return a - b"}},
        3,
        Kind.WRONG,
        ["likely cause: subtracted instead of added"],
    ),
    "blank": ({}, 0, Kind.WRONG, ["add, or a function that it calls, is not written yet"]),
    "noisy": ({"answers": {**RIGHT, "add": NOISY}}, 6, Kind.WRONG, []),
    "syntax": (
        {"answers": {**RIGHT, "add": "def add(a, b) return a"}},
        2,
        Kind.WRONG,
        ["add is not defined"],
    ),
    "dies": (
        {"answers": {**RIGHT, "twice": "import os; os._exit(0)"}},
        4,
        Kind.LIMIT,
        ["ended Python"],
    ),
    "exits": (
        {"answers": {**RIGHT, "add": "def add(a, b):\n    raise SystemExit(0)"}},
        2,
        Kind.WRONG,
        ["SystemExit"],
    ),
    "garbage": ({"raw": b"no json"}, 0, Kind.MALFORMED, ["not valid JSON"]),
    "empty": ({"raw": b""}, 0, Kind.MALFORMED, ["is empty"]),
    "latin": ({"raw": "é".encode("latin-1")}, 0, Kind.MALFORMED, ["not UTF-8"]),
    "list": ({"raw": b"[1, 2]"}, 0, Kind.MALFORMED, ["not a notebook"]),
    "altered": ({"change": altered}, 0, Kind.HOSTILE, ["locked cell check_add had been changed"]),
    "copied": ({"answers": RIGHT, "change": copied}, 6, Kind.WRONG, ["appears twice"]),
    "deleted": ({"answers": RIGHT, "change": deleted}, 6, Kind.WRONG, ["check_add was missing"]),
    "stripped": ({"answers": RIGHT, "change": stripped}, 6, Kind.WRONG, []),
    "strange": (
        {"raw": strange},
        2,
        Kind.WRONG,
        ["add, or a function that it calls, is not written yet"],
    ),
    "renamed": (
        {"answers": RIGHT, "name": "my solution"},
        6,
        Kind.WRONG,
        ["was named my solution.ipynb"],
    ),
    "odd [name]*": ({"answers": RIGHT}, 6, Kind.WRONG, []),
}


@pytest.fixture(scope="module")
def graded(isolated, toy, tmp_path_factory):
    """The toy class, graded by the command line: its folder of grades, and what the command
    printed.
    """
    folder = tmp_path_factory.mktemp("submitted")
    for student, (handed_in, *_) in CLASS.items():
        hand_in(folder, student, toy=toy, **handed_in)
    result = run(toy, "grade", "--submitted", folder, "--into", toy.root)
    assert result.exit_code == 0, result.output
    return toy, folder, result.output


def reasons_of(course, student):
    record = batch.record_of(course, student, "01-toy")
    return reasons.lines_of(record, record.penalty)


def test_the_release_has_checks_and_runtime_and_no_solution(toy):
    exercise = toy.exercises()[0]
    names = {
        path.relative_to(exercise.released).as_posix() for path in exercise.released.rglob("*")
    }
    there = {"01-toy.ipynb", "checks.py", "checking.zip", "exercise.json", "AGENTS.md"}
    assert there <= names <= {*there, "exercise.toml"}
    packed = archive.read(exercise.archive)
    assert {"misconceptions.py", "checking/suite.py"} <= set(
        packed
    ) and "right_answers.py" not in packed
    everything = b"".join(
        [*(path.read_bytes() for path in exercise.released.iterdir()), *packed.values()]
    )
    assert b"return a + b" not in everything and b"addition commutes" not in everything


@pytest.mark.slow
def test_nbgrader_makes_the_same_release(toy, tmp_path):
    exercise = toy.exercises()[0]
    ours = {
        path.name: path.read_bytes()
        for path in exercise.released.iterdir()
        if path.name not in seeds.BESIDE
    }
    shutil.copytree(toy.root, tmp_path / "course")
    shutil.rmtree(tmp_path / "course" / "exercises")
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", exercise.name]
    result = subprocess.run(command, cwd=tmp_path / "course", capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    theirs = tmp_path / "course" / "exercises" / exercise.name
    assert {path.name: path.read_bytes() for path in theirs.iterdir()} == ours


def test_a_release_is_the_same_each_time(toy, tmp_path):
    exercise = toy.exercises()[0]
    release(toy, exercise, into=tmp_path / "again")
    for path in exercise.released.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert (
                tmp_path / "again" / path.relative_to(exercise.released)
            ).read_bytes() == path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("student", CLASS)
def test_every_submission_gets_its_grade_and_a_reason(graded, student):
    course, _, output = graded
    _, points, kind, says = CLASS[student]
    record = record_of(course, student)
    lines = "\n".join(reasons_of(course, student))
    assert (record["score"], record["kind"]) == (points, kind), lines
    for wanted in says:
        assert wanted in lines
    with Gradebook(course.db_url, course.course_id) as book:
        assert book.find_submission("01-toy", student).score == points
    page = (course.output_folder / "feedback" / student / "01-toy" / "01-toy.html").read_text()
    assert f"<strong>{points:g}</strong> of 9 points" in page
    assert student.split("[")[0] in output


@pytest.mark.slow
def test_unchanged_submissions_are_not_graded_again_and_keep_their_history(graded):
    course, folder, _ = graded
    before = record_of(course, "minus")
    result = run(course, "grade", "--submitted", folder, "--into", course.output_folder)
    assert f"{len(CLASS)} unchanged" in result.output and "Graded 0" in result.output
    hand_in(folder, "minus", RIGHT, toy=course)
    try:
        result = run(course, "grade", "--submitted", folder, "--into", course.output_folder)
        after = record_of(course, "minus")
        assert "Graded 1" in result.output
        assert (after["score"], len(after["history"]), after["history"][0]["score"]) == (
            6,
            1,
            before["score"],
        )
    finally:
        hand_in(folder, "minus", CLASS["minus"][0]["answers"], toy=course)
        run(course, "grade", "--submitted", folder, "--into", course.output_folder)
    again = record_of(course, "minus")
    assert again["seed"] == before["seed"] and again["cells"] == before["cells"]
    assert [old["score"] for old in again["history"]] == [3, 6]


@pytest.mark.slow
def test_what_a_person_gave_renews_the_page_and_runs_nothing(graded, monkeypatch):
    course, folder, _ = graded
    pages = {path: path.stat().st_mtime_ns for path in course.feedback.glob("*/*/*.html")}
    with Gradebook(course.db_url, course.course_id) as book:
        grade = book.find_grade("proof", "01-toy", "01-toy", "proved")
        grade.manual_score, grade.needs_manual_grade = 2.5, False
        book.find_comment(
            "proof", "01-toy", "01-toy", "proved"
        ).manual_comment = "Nearly: say *why*."
        book.db.commit()

    def nobody(*arguments):
        raise AssertionError("nothing is to be run")

    monkeypatch.setattr(backends, "Local", nobody)
    monkeypatch.setattr(GuestPool, "start", nobody)
    try:
        for pages_made in ("pages rewritten: 1", ""):
            result = run(course, "grade", "--submitted", folder, "--into", course.output_folder)
            assert "Graded 0" in result.output and pages_made in result.output
            assert bool(pages_made) == ("rewritten" in result.output)
            assert "proof −0.5: graded by a person" in " ".join(result.output.split())
        renewed = [path for path, before in pages.items() if path.stat().st_mtime_ns != before]
        assert [path.parent.parent.name for path in renewed] == ["proved"]
        page = renewed[0].read_text()
        assert "<strong>8.5</strong> of 9 points" in page and "Nearly: say <em>why</em>." in page
        assert "to be graded by a person" not in page
    finally:
        with Gradebook(course.db_url, course.course_id) as book:
            grade = book.find_grade("proof", "01-toy", "01-toy", "proved")
            grade.manual_score, grade.needs_manual_grade = None, True
            book.db.commit()


@pytest.mark.slow
def test_a_manual_grade_outlives_a_regrading(graded):
    course, folder, _ = graded
    with Gradebook(course.db_url, course.course_id) as book:
        grade = book.find_grade("proof", "01-toy", "01-toy", "proved")
        assert grade.needs_manual_grade
        grade.manual_score, grade.needs_manual_grade = 2.5, False
        book.db.commit()
    run(course, "grade", "--force", "--submitted", folder, "--into", course.output_folder)
    with Gradebook(course.db_url, course.course_id) as book:
        assert book.find_submission("01-toy", "proved").score == 8.5
        grade = book.find_grade("proof", "01-toy", "01-toy", "proved")
        grade.manual_score = None
        book.db.commit()


@pytest.fixture
def by_hand(isolated, toy, tmp_path):
    """Return functions that submit, grade, and give points as the formgrader does."""
    root = tmp_path / "course"
    shutil.copytree(
        toy.root, root, ignore=shutil.ignore_patterns("gradebook.db", "autograded", "feedback")
    )
    course = Course(root=root, output_folder=root)

    def submit(proof, **answers):
        answers = {**RIGHT, **answers} | ({"proof": proof} if proof else {})
        hand_in(root / "submitted", "ada", answers, toy=course)

    def grade(*options):
        """Return what each of those who read a grade is told: the score, and whether a person
        still has to look.
        """
        printed = run(course, "grade", *options, "--into", root).output
        run(course, "report", "--into", root)
        run(course, "export", "--into", root)
        with (root / "grades.csv").open(newline="") as file:
            (row,) = csv.DictReader(file)
        page = BeautifulSoup(
            (root / "feedback/ada/01-toy/01-toy.html").read_text(), "html.parser"
        ).get_text(" ")
        shown = rows_of((root / "report.html").read_text())["ada", "01-toy"]
        with Gradebook(course.db_url, course.course_id) as book:
            submission = book.find_submission("01-toy", "ada")
            comments = [
                comment.auto_comment or ""
                for notebook in submission.notebooks
                for comment in notebook.comments
            ]
            score, waits = submission.score, submission.needs_manual_grade
        top = (
            nbformat.read(root / "autograded/ada/01-toy/01-toy.ipynb", as_version=4).cells[0].source
        )
        assert float(row["score"]) == score == shown["score"]
        assert f"{score:g} of 9 points" in " ".join(page.split())
        assert (
            (row["needs_manual_grade"] == "True") == waits == ("+ needs a manual grade" in printed)
        )
        assert waits == any(
            words in page for words in ("still to be graded", "still has to", "still have to")
        )
        assert not any("proof" in words or "person" in words for words in [*comments, top])
        table = " ".join(printed.split())
        for reason in shown["reasons"]:
            assert reason in table
        return score, waits, shown["reasons"], " ".join(page.split())

    def give(points, cell="proof"):
        with Gradebook(course.db_url, course.course_id) as book:
            grade = book.find_grade(cell, "01-toy", "01-toy", "ada")
            grade.manual_score, grade.needs_manual_grade = points, False
            book.db.commit()

    return submit, grade, give


READ = "A person grades proof; until then it has 0 points."
CONFIRM = (
    "A person gave 2 of 3 points for proof, and has to confirm them: it was graded again since."
)
LOST = "proof −1: graded by a person"


@pytest.mark.slow
def test_manual_grades_are_the_same_in_every_output(by_hand):
    submit, grade, give = by_hand
    submit("Because.")
    assert grade()[:3] == (6.0, True, [READ])
    give(2.0)
    for options in ((), ("--force",)):  # the answer is the one that the person read
        score, waits, reasons_shown, page = grade(*options)
        assert (score, waits, reasons_shown) == (8.0, False, [LOST])
        assert "These points were given by a person." in page and "until then" not in page
    submit("Because.", twice="def twice(a):\n    return 2 * a")
    assert grade()[:3] == (8.0, False, [LOST])
    submit("Because it commutes.")
    score, waits, reasons_shown, page = grade()
    assert (score, waits, reasons_shown) == (8.0, True, [LOST, CONFIRM])
    assert "proof : a person gave 2 of 3 points, and still has to confirm them." in page
    assert grade("--force")[:3] == (8.0, True, [LOST, CONFIRM])  # nobody has looked yet
    submit("")
    score, waits, reasons_shown, page = grade()
    assert (score, waits, reasons_shown) == (8.0, True, [LOST, CONFIRM]) and "No response." in page
    give(0.0)
    assert grade()[:3] == (6.0, False, ["proof −3: graded by a person"])


@pytest.mark.slow
def test_points_given_for_a_function_are_in_the_comment_after_the_next_run(by_hand):
    submit, grade, give = by_hand
    submit("", add="def add(a, b):\n    return a - b")
    assert any("subtracted" in reason for reason in grade()[2])
    give(4.0, "check_add")
    for options in ((), ("--force",)):
        assert grade(*options)[:3] == (6.0, False, ["proof −3: no response"])
    submit("")
    # other points by the checks than those that the person saw
    score, waits, reasons_shown, _ = grade()
    assert (score, waits) == (6.0, True) and any(
        "4 of 4 points for add" in reason for reason in reasons_shown
    )


def with_due_date(toy, root, rule):
    """Return a copy of the toy course in which the exercise is due on 10 January 2026, with a
    rule for late work.
    """
    shutil.copytree(
        toy.root, root, ignore=shutil.ignore_patterns("gradebook.db", "autograded", "feedback")
    )
    with (root / "nbgrader_config.py").open("a") as config:
        config.write(rule)
    course = Course(root=root, output_folder=root)
    with gradebook.opened(course) as book:
        gradebook.register(course, book, course.exercises()[0])
    with Gradebook(course.db_url, course.course_id) as book:
        book.update_or_create_assignment(
            "01-toy", duedate="2026-01-10T00:00:00", course_id=course.course_id
        )
    return course


@pytest.mark.slow
def test_late_penalties_are_nbgraders(toy, tmp_path):
    plugin = (
        "c.SubmissionPlugin.penalty_method = 'zero'\nc.LateSubmissionPlugin.penalty_method = "
        "'zero'\n"
    )
    course = with_due_date(toy, tmp_path / "course", plugin)
    hand_in(
        course.root / "submitted",
        "late",
        RIGHT,
        stamp="2026-01-11 00:30:00 America/Los_Angeles",
        toy=course,
    )
    hand_in(course.root / "submitted", "early", RIGHT, stamp="2026-01-09 00:00:00 UTC", toy=course)
    hand_in(course.root / "submitted", "undated", RIGHT, stamp="some day", toy=course)
    result = run(course, "grade", "--submitted", course.root / "submitted", "--into", course.root)
    assert result.exit_code == 0
    late, early, undated = (record_of(course, name) for name in ("late", "early", "undated"))
    assert (late["score"], late["penalty"], early["score"]) == (0, 6, 6)
    assert "late −6" in reasons_of(course, "late")
    assert undated["score"] == 6 and "could not be read as a date" in undated["repairs"][0]
    with Gradebook(course.db_url, course.course_id) as book:
        book.update_or_create_assignment(
            "01-toy", duedate="2026-01-20T00:00:00", course_id=course.course_id
        )
    result = run(course, "grade", "--submitted", course.root / "submitted", "--into", course.root)
    assert "Graded 0; 3 unchanged" in result.output and "late −6" not in result.output
    (row,) = (row for row in records.rows(course) if row["student_id"] == "late")
    assert (row["score"], row["late_submission_penalty"]) == (6, 0)


@pytest.mark.slow
def test_the_late_rule_of_the_page_subtracts_a_tenth_for_each_week(toy, tmp_path):
    page = (ROOT / "book" / "grading.md").read_text(encoding="utf8")
    (rule,) = re.findall(r"```python\n([^`]*LateSubmissionPlugin[^`]*)```", page)
    course = with_due_date(toy, tmp_path / "course", rule)
    hand_in(course.root / "submitted", "late", RIGHT, stamp="2026-01-11 08:30:00 UTC", toy=course)
    assert (
        run(
            course, "grade", "--submitted", course.root / "submitted", "--into", course.root
        ).exit_code
        == 0
    )
    late = record_of(course, "late")
    assert late["penalty"] == pytest.approx(0.1 * 6) and late["score"] == pytest.approx(0.9 * 6)


@pytest.mark.slow
def test_report_and_export(graded):
    course, _, _ = graded
    assert run(course, "report", "--into", course.output_folder).exit_code == 0
    page = (course.output_folder / "report.html").read_text()
    assert 'href="feedback/minus/01-toy/01-toy.html"' in page and "You subtract." in page
    assert "http" not in page.replace("http-equiv", "")
    marks = rows_of(page)["minus", "01-toy"]["marks"]
    linked = [check for (cell, check), sign in marks.items() if (cell, sign) == ("check_add", "✗")]
    feedback = BeautifulSoup(
        (course.output_folder / "feedback/minus/01-toy/01-toy.html").read_text(), "html.parser"
    )
    assert linked and all(
        feedback.find(id=f"at-check_add.{name}")["class"] == ["failed"] for name in linked
    )
    assert run(course, "report", "--anonymous", "--into", course.output_folder).exit_code == 0
    page = (course.output_folder / "report-anonymous.html").read_text()
    assert "Student 1<" in page and "href=" not in page and '"base":""' in page
    assert (
        not any(f">{student}<" in page or f'"{student}"' in page for student in CLASS)
        and "my solution" not in page
    )
    assert {student for student, _ in rows_of(page)} == {
        f"Student {number + 1}" for number in range(len(CLASS))
    }
    assert run(course, "export", "--into", course.output_folder).exit_code == 0
    with (course.output_folder / "grades.csv").open(newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert set(rows) == set(CLASS)
    assert all(
        float(rows[student]["score"]) == points for student, (_, points, _, _) in CLASS.items()
    )


@pytest.mark.slow
def test_what_only_grades_loads_neither_nbgrader_nor_nbconvert():
    """They take longer to load than a notebook to check."""
    code = "import sys, autograder.grading.self_check, autograder.grading.worker\n"
    code += "print(*{'nbgrader', 'nbconvert'} & {*sys.modules})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.split() == []


def test_a_start_compiles_no_grammar_of_addresses():
    code = (
        "from autograder.course import startup; startup.begin(); import sys, jsonschema; "
        "print('lark' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert result.stdout == "False\n", result.stderr


@pytest.mark.slow
def test_check_shows_a_student_the_feedback(graded):
    course, folder, _ = graded
    notebook_path = folder / "minus" / "01-toy" / "01-toy.ipynb"
    before = notebook_path.read_bytes()
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "autograder",
            "check",
            str(notebook_path),
            "--course",
            str(course.root),
        ],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert "You subtract." in process.stdout and "3 of 6 points" in process.stdout
    assert notebook_path.read_bytes() == before


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("engine", [True, False], ids=["engine", "stock"])
def test_nbgrader_commands_give_the_same_grades(graded, tmp_path, engine):
    """`nbgrader autograde`, `generate_feedback` and the formgrader work on the course after
    `release`.
    """
    course, folder, _ = graded
    root = tmp_path / "course"
    shutil.copytree(
        course.root, root, ignore=shutil.ignore_patterns("gradebook.db", "autograded", "feedback")
    )
    graded_by_nbgrader = Course(root=root, output_folder=root)
    release(graded_by_nbgrader, graded_by_nbgrader.sources()[0])
    for student in ("rita", "minus", "blank", "noisy"):
        shutil.copytree(folder / student, root / "submitted" / student)
    if not engine:
        with (root / "nbgrader_config.py").open("a") as file:
            file.write("del c.Autograde\n")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CHECKING_SEED": "7",
    }
    for command in ("autograde", "generate_feedback"):
        process = subprocess.run(
            [sys.executable, "-m", "nbgrader", command, "01-toy"],
            cwd=root,
            capture_output=True,
            text=True,
            env=environment,
        )
        assert process.returncode == 0, process.stderr[-2000:]
    for student in ("rita", "minus", "blank", "noisy"):
        with Gradebook(graded_by_nbgrader.db_url, graded_by_nbgrader.course_id) as book:
            assert book.find_submission("01-toy", student).score == CLASS[student][1]
        assert (root / "feedback" / student / "01-toy" / "01-toy.html").exists()
        assert not (root / "autograded" / student / "01-toy" / "01-toy.py").exists()
    extension = "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}"
    with jupyter(root, "jupyter_server", extension) as (address, token):
        ask = urllib.request.Request(
            address + "formgrader/api/submissions/01-toy",
            headers={"Authorization": f"token {token}"},
        )
        rows = {row["student"]: row for row in json.load(urllib.request.urlopen(ask, timeout=30))}
    assert rows["minus"]["score"] == 3 and rows["minus"]["autograded"]


def one_line(result, *words):
    assert result.exit_code == 1
    message = result.output.strip().splitlines()[-1]
    assert message.startswith("Error: ") and "Traceback" not in result.output
    for word in words:
        assert word in message, message


def test_bad_input_gets_one_clear_line(toy, tmp_path):
    one_line(run(toy, "release", "01-tay"), "01-tay", "Did you mean 01-toy?")
    one_line(run(toy, "grade", "09-none", "--into", tmp_path), "09-none", "01-toy")
    one_line(
        run(toy, "grade", "--submitted", tmp_path / "none", "--into", tmp_path),
        "no folder",
        "--submitted",
    )
    (tmp_path / "submitted").mkdir()
    empty = run(toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path)
    one_line(empty, "Nothing to grade", "STUDENT/01-toy/01-toy.ipynb")
    one_line(run(toy, "check", tmp_path / "none.ipynb"), "no file")
    (tmp_path / "bad.ipynb").write_text("{")
    one_line(run(toy, "check", tmp_path / "bad.ipynb"), "not valid JSON", "Open it in Jupyter")
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "other.ipynb")
    one_line(run(toy, "check", tmp_path / "other.ipynb"), "belongs to no exercise", "01-toy")
    one_line(run(toy, "report", "--into", tmp_path / "new"), "Nothing is graded")
    one_line(run(toy, "export", "--into", tmp_path / "new"), "no gradebook")


def test_a_problem_with_a_fix_gets_no_advice_to_open_the_file(toy, tmp_path):
    (tmp_path / "01-toy.ipynb").write_bytes(b"PK\x03\x04")
    result = run(toy, "check", tmp_path / "01-toy.ipynb")
    one_line(result, "Unpack it, and submit the notebook")
    assert "Jupyter" not in result.output


@pytest.mark.slow
def test_the_notebook_of_another_exercise_is_named_and_offered_to_be_placed(toy, tmp_path):
    course = Course(root=tmp_path / "course", output_folder=tmp_path / "course")
    shutil.copytree(
        toy.root,
        course.root,
        ignore=shutil.ignore_patterns("gradebook.db", "autograded", "feedback"),
    )
    other = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("x", id=name) for name in ("mean", "check_mean")]
    )
    paths = [course.root / "exercises/02-other/02-other.ipynb"]
    paths.append(course.root / "submitted/wrong/01-toy/01-toy.ipynb")
    for path in paths:
        path.parent.mkdir(parents=True)
        nbformat.write(other, path)
    result = run(
        course, "grade", "01-toy", "--submitted", course.root / "submitted", "--into", course.root
    )
    message = "01-toy.ipynb is the notebook of 02-other. Hand in that of 01-toy under this name."
    assert result.exit_code == 0 and record_of(course, "wrong")["kind"] == "malformed"
    flat = " ".join(result.output.split())
    assert f"wrong: {message} To place such files, run: python -m autograder collect" in flat, (
        result.output
    )
    one_line(run(course, "check", paths[1]), message, "name it 02-other.ipynb")


def test_a_notebook_is_checked_whatever_another_exercise_lacks(tmp_path):
    course = toy_course(tmp_path / "course")
    assert run(course, "release").exit_code == 0
    shutil.copytree(course.root / "exercises" / "01-toy", course.root / "exercises" / "02-other")
    folder, other = (course.root / "exercises" / name for name in ("01-toy", "02-other"))
    (other / "01-toy.ipynb").rename(other / "02-other.ipynb")
    (other / "checking.zip").unlink()
    report = run(course, "check", folder / "01-toy.ipynb")
    assert report.exit_code == 0 and "0 of 6 points" in report.output, report.output
    one_line(
        run(course, "check", other / "02-other.ipynb"),
        "02-other/checking.zip is missing",
        "release 02-other",
    )
    (folder / "checking.zip").unlink()
    result = run(course, "grade")
    one_line(
        result,
        "exercises/01-toy/checking.zip and 1 more are missing. Run: python -m autograder release",
    )
    assert doctor._exercises(course.root).value == "none"


def test_a_gradebook_of_another_course_is_left_alone(toy, tmp_path, monkeypatch):
    # nbgrader itself calls alembic by name when it makes a database.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db", "chemistry") as book:
        book.add_assignment("acids", course_id="chemistry")
    hand_in(tmp_path / "submitted", "ada", RIGHT, toy=toy)
    one_line(
        run(toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path),
        "chemistry",
        "--db",
    )
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db", "chemistry") as book:
        assert [a.name for a in book.assignments] == ["acids"] and not book.students
    (tmp_path / "gradebook.db").write_bytes(b"this is no database, whatever its name says" * 100)
    one_line(
        run(toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path), "gradebook.db"
    )


def test_a_folder_that_cannot_be_written_is_named(toy, tmp_path):
    hand_in(tmp_path / "submitted", "ada", RIGHT, toy=toy)
    (tmp_path / "file").write_text("in the way")
    one_line(
        run(toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path / "file"),
        "--into",
    )


def test_added_cells_keep_their_place(toy):
    released = nbformat.read(toy.exercises()[0].notebook, as_version=4)
    cell = nbformat.from_dict(released)
    cell.cells.insert(
        2, nbformat.v4.new_code_cell("helper = 1", metadata={"tags": ["skip-execution"]})
    )
    restored = notebook.restore(cell, released)
    assert [cell.source for cell in restored.notebook.cells][2] == "helper = 1"
    assert not restored.notebook.cells[2].metadata and not restored.repairs


NOTHING = "import numpy as np\ndef add(a, b):\n    return a * np.nan"


@pytest.mark.slow
def test_a_report_with_nan_is_plain_json(toy, tmp_path):
    """A number that JSON does not have would make a kernel warn, and nbgrader take the warning
    for a failure.
    """
    hand_in(tmp_path / "submitted", "nan", {**RIGHT, "add": NOTHING}, toy=toy)
    run(toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path)
    text = (tmp_path / "autograded" / "nan" / "01-toy" / "01-toy.ipynb").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert "All" in text or "NaN" in text


def test_without_a_sandbox_grading_refuses_and_says_what_to_install(toy, tmp_path, monkeypatch):
    from autograder.sandbox import bubblewrap as sandbox

    hand_in(tmp_path / "submitted", "ada", RIGHT, toy=toy)
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    refused = run(toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path)
    one_line(refused, "bubblewrap is not installed", "apt install bubblewrap", "--no-sandbox")
    assert not (tmp_path / "autograded").exists()


@pytest.mark.slow
def test_without_a_sandbox_grading_needs_an_option_and_is_reported(toy, tmp_path):
    hand_in(tmp_path / "submitted", "ada", RIGHT, toy=toy)
    hand_in(tmp_path / "submitted", "bob", {**RIGHT, "twice": "import os; os._exit(0)"}, toy=toy)
    result = run(
        toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path, "--no-sandbox"
    )
    assert result.exit_code == 0
    cells = [
        json.loads((tmp_path / f"autograded/{name}/01-toy/grade.json").read_text())
        for name in ("ada", "bob")
    ]
    assert [(record["score"], record["sandbox"], record["kind"]) for record in cells] == [
        (6, False, Kind.WRONG),  # the proof is unanswered
        (4, False, Kind.LIMIT),
    ]
    assert run(toy, "report", "--into", tmp_path).exit_code == 0
    assert "graded without a sandbox" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_redraw_draws_other_inputs_and_a_grading_again_the_same(toy, tmp_path):
    hand_in(tmp_path / "submitted", "ada", RIGHT, toy=toy)
    seeds = []
    for more in ((), ("--force",), ("--redraw",)):
        assert (
            run(
                toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path, *more
            ).exit_code
            == 0
        )
        seeds.append(
            json.loads((tmp_path / "autograded/ada/01-toy/grade.json").read_text())["seed"]
        )
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.mark.slow
def test_a_changed_file_beside_the_notebook_is_another_submission(toy, tmp_path):
    helper = {**RIGHT, "add": "from helper import add"}
    hand_in(tmp_path / "submitted", "ada", helper, toy=toy)
    beside = tmp_path / "submitted" / "ada" / "01-toy" / "helper.py"
    scores = []
    for sign in "-+":
        beside.write_text(f"def add(a, b):\n    return a {sign} b\n")
        assert (
            run(toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path).exit_code
            == 0
        )
        scores.append(
            json.loads((tmp_path / "autograded/ada/01-toy/grade.json").read_text())["score"]
        )
    assert scores == [3, 6]


def command_of(course, folder, into):
    arguments = ["grade", "--course", course, "--submitted", folder, "--into", into]
    return [sys.executable, "-m", "autograder", *map(str, arguments)]


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to mount small disks")
def test_no_room_for_temporary_files_is_one_clear_line(isolated, toy, tmp_path):
    hand_in(tmp_path / "submitted", "ada", RIGHT, toy=toy)
    shutil.copytree(
        toy.root, tmp_path / "course", ignore=shutil.ignore_patterns("autograded", "feedback")
    )
    # As they are, for this checkout may lie there, and with room for nothing.
    full = "mount --bind $place $place; mount -o remount,bind,ro $place"
    command = shlex.join(command_of("/mnt/course", "/mnt/submitted", "/mnt/grades"))
    script = (
        f"mount --bind '{tmp_path}' /mnt; for place in /tmp /var/tmp /media; do {full}; "
        "done; cd /media; "
    )
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script + command], capture_output=True, text=True
    )
    assert result.returncode == 1 and "Traceback" not in result.stderr, result.stderr[-2000:]
    assert (
        result.stderr.strip()
        .splitlines()[-1]
        .startswith("Error: No usable temporary directory found")
    )


@pytest.mark.slow
def test_ctrl_c_ends_without_a_traceback_and_what_was_graded_is_kept(isolated, toy, tmp_path):
    waits = {**RIGHT, "add": "import time\ntime.sleep(15)\n" + RIGHT["add"]}
    hand_in(tmp_path / "submitted", "ada", RIGHT, toy=toy)
    hand_in(tmp_path / "submitted", "bob", waits, toy=toy)
    into = tmp_path / "grades"
    running = subprocess.Popen(
        [*command_of(toy.root, tmp_path / "submitted", into), "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # whoever runs the tests may ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 600
    while not (into / "autograded/ada/01-toy/grade.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: all of the group
    output, _ = running.communicate(timeout=600)
    assert running.returncode == 130 and "Traceback" not in output, output[-2000:]
    course = Course(root=toy.root, output_folder=into)
    assert (
        batch.record_of(course, "ada", "01-toy").score == 6
        and batch.record_of(course, "bob", "01-toy") is None
    )
    # that nothing of it goes on, conftest.py asks


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"[1]", b'{"kind": "\xff"}'], ids=["a list", "not UTF-8"])
def test_a_record_that_is_none_is_graded_again(isolated, toy, tmp_path, data):
    hand_in(tmp_path / "submitted", "ada", RIGHT, toy=toy)
    path = tmp_path / "autograded/ada/01-toy/grade.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    result = run(toy, "grade", "--submitted", tmp_path / "submitted", "--into", tmp_path)
    assert result.exit_code == 0 and "Graded 1." in result.output
    assert json.loads(path.read_text())["score"] == 6
    assert path.with_name("grade.json.unreadable").read_bytes() == data


def test_large_arguments_of_callbacks_end_at_a_limit(toy):
    """A check may give a function to a student's; what that one hands to it, again and again,
    has an end.
    """
    limits = Limits(received_mb=100)
    guests = UnsandboxedGuests(limits)
    guests.start()
    try:
        judge = Judge(toy.exercises()[0], limits)
        judge.begin(seed=1)
        judge.notebook.guest = guest = guests.guest(Budget(limits))
        guest.request({"op": "start", "seed": 1, "files": []})
        text = b"import numpy as np\ndef f(g):\n    while True:\n        g(np.ones(10_000))"
        guest.request({"op": "cell"}, [text])
        taken = []
        with pytest.raises(Ended) as ended:
            judge.lookup("f")(lambda array: taken.append(array.nbytes))
        assert ended.value.kind == Kind.LIMIT and "sent more than the judge accepts" in str(
            ended.value.message
        )
        assert 0 < sum(taken) <= 100 << 20 and guest.ended
    finally:
        guests.close()

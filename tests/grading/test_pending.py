"""Points that wait for a machine with what their checks need: in checks, records, gradebook,
pages and commands.
"""

import json
import sys
from types import ModuleType

import nbformat
import pytest
from hostile.case import RIGHT, WRONG
from nbgrader.api import Gradebook
from report_tools import rows_of
from toy_course import toy_course

from autograder import nbgrader_plugin
from autograder.authoring.release import release
from autograder.checking import (
    Message,
    Report,
    Suite,
    expect_close,
    machine,
    misconception,
    right,
    show,
)
from autograder.checking.answers import answers_in
from autograder.commands import doctor
from autograder.commands.grade import grade as grade_command
from autograder.course.config import UserError
from autograder.grades import reasons, report
from autograder.grades.records import SCHEMA, from_text, rows, to_text
from autograder.grades.results import (
    CellResult,
    Kind,
    Record,
    StoredCell,
    StoredGrades,
    SubmissionScore,
)
from autograder.grading import batch
from autograder.grading.explain import CheckExplanation, Explanation, lines
from autograder.grading.session import Pending

SEED = 5


@pytest.fixture(autouse=True)
def english(monkeypatch):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def has(monkeypatch):
    """What this machine has: a set to be changed, empty at first."""
    available = set()
    monkeypatch.setattr(machine, "has", lambda need: need in available)
    monkeypatch.setattr(machine, "_tried", dict.fromkeys(machine.LACKS, ""))
    return available


@pytest.fixture
def suite(monkeypatch):
    """A suite on `double`, of 10 points: weights 3 anywhere, 5 on a GPU, 1 that needs that, 1
    with Triton.
    """
    suite = Suite("checks", read={"double": "chapter 1, Twice"})

    @suite.check(weight=3)
    def values(double, draw):
        """Each is twice as large."""
        A = draw.array(3)
        expect_close(double(A), 2 * A)

    @suite.check(weight=5, needs=values, on="gpu")
    def values_on_a_gpu(double, draw):
        """On a GPU as well."""
        A = draw.array(3)
        expect_close(double(A), 2 * A)

    @suite.check(weight=1, needs=values_on_a_gpu)
    def twice(double, draw):
        """Twice over."""
        A = draw.array(3)
        expect_close(double(double(A)), 4 * A)

    @suite.check(weight=1, on="triton")
    def kernel(double, draw):
        """In a kernel."""
        A = draw.array(3)
        expect_close(double(A), 2 * A)

    @misconception("double", "three times", "Twice.")
    def thrice(A):
        return 3 * A

    @misconception("double", "seen by a GPU", on="gpu")
    def on_a_gpu(A):
        return 5 * A

    @right("double")
    def plus(A):
        return A + A

    module = ModuleType("misconceptions")
    module.thrice, module.on_a_gpu, module.plus = thrice, on_a_gpu, plus
    monkeypatch.setitem(sys.modules, "misconceptions", module)
    return suite


class Counting:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, A):
        self.calls += 1
        return self.function(A)


# In checks.


def test_what_a_machine_lacks_is_not_verified_and_its_points_wait(suite, has):
    double = Counting(lambda A: 2 * A)
    report = suite.examine("double", double, points=10, seed=SEED)
    assert [result.status for result in report.results] == [
        "passed",
        "unverified",
        "unverified",
        "unverified",
    ]
    assert [result.on for result in report.results] == ["", "gpu", "gpu", "triton"]
    assert (report.score, report.pending, double.calls) == (3.0, 7.0, 1)
    assert "GPU" in str(report.results[1].message) and "Triton" in str(report.results[3].message)
    has |= {"gpu", "triton"}
    report = suite.examine("double", double, points=10, seed=SEED)
    assert {result.status for result in report.results} == {"passed"}
    assert (report.score, report.pending) == (10.0, 0.0)


def test_what_needs_a_failed_check_waits_for_that_and_no_points_are_pending(suite, has):
    report = suite.examine("double", lambda A: 3 * A, points=10, seed=SEED)
    assert [result.status for result in report.results] == [
        "failed",
        "blocked",
        "blocked",
        "unverified",
    ]
    assert (report.score, report.pending) == (0.0, 1.0)
    assert [result.cause for result in report.results] == ["thrice", "", "", ""]
    report = suite.examine("double", None, points=10, seed=SEED)
    assert {result.status for result in report.results} == {"blocked"} and not report.pending


def test_a_failing_course_answer_costs_no_points(suite, has, monkeypatch):
    """With another version of a library a check may be wrong: it says so, names no cause, and
    its points wait.
    """
    has |= {"gpu", "triton"}
    broken = sys.modules["misconceptions"]
    plus = broken.plus
    assert suite.examine("double", lambda A: 3 * A, points=10, seed=SEED).score == 0.0
    monkeypatch.setattr(broken, "plus", right("double")(lambda A: A.is_gone))
    assert (
        suite.examine("double", lambda A: 3 * A, points=10, seed=SEED).results[0].status == "failed"
    )
    for function in (plus, lambda A: A.is_gone + A.is_gone):
        report = suite.examine("double", function, points=10, seed=SEED)
        if function is plus:
            assert report.score == 10.0  # what passes, passes
            continue
        assert {result.status for result in report.results} == {"unverified"}
        assert (report.score, report.pending) == (0.0, 10.0)
        assert not any(result.cause or result.relation for result in report.results)
        assert "the course's own answer fails this check as well" in str(report.results[0].message)
        assert [result.on for result in report.results] == ["own", "own", "own", "triton"]
    # Whoever examines the own answer itself is told that it fails.
    report = suite.examine("double", broken.plus, points=10, seed=SEED)
    assert [result.status for result in report.results] == [
        "failed",
        "blocked",
        "blocked",
        "failed",
    ]


def test_points_that_wait_for_other_versions_may_be_settled_anywhere(suite, has, monkeypatch):
    monkeypatch.setattr(machine, "has", lambda need: need == "own")
    monkeypatch.setattr(sys.modules["misconceptions"], "plus", right("double")(lambda A: A.is_gone))
    cell = cell_of(suite.examine("double", lambda A: A.is_gone, points=10, seed=SEED))
    assert cell.pending > 0 and "own" in cell.waits_for()
    cell.checks = [check for check in cell.checks if check.on == "own"]
    (line,) = Pending([record_with({"check": cell})]).sentences()
    assert "need versions with which the course's own answer passes: run `" in line


def test_pending_points_are_what_the_score_would_rise_by(suite, has):
    pending = suite.examine("double", lambda A: 2 * A, points=1.07, seed=SEED)
    assert round(pending.score + pending.pending, 2) == 1.07


def test_unknown_machines_are_refused(suite):
    with pytest.raises(ValueError, match=r"the check fast has on='tpu'.*gpu, triton"):

        @suite.check(on="tpu")
        def fast(double, draw):
            """On a TPU."""

    with pytest.raises(ValueError, match="the wrong answer slow has on='cpu'"):

        @misconception("double", on="cpu")
        def slow(A):
            return A


def test_a_wrong_answer_that_only_a_gpu_shows_is_left_out_without_one(suite, has):
    assert [wrong.__name__ for wrong in suite.listed("wrong_for", "double")] == ["thrice"]
    assert len(answers_in(sys.modules["misconceptions"], "wrong_for", "double")) == 2
    has.add("gpu")
    assert [wrong.__name__ for wrong in suite.listed("wrong_for", "double")] == [
        "thrice",
        "on_a_gpu",
    ]


def test_a_report_says_what_was_not_verified_and_never_in_red(suite, has):
    report = suite.examine("double", lambda A: 2 * A, points=10, seed=SEED)
    text, drawn = show.text(report), show.as_html(report)
    assert text.startswith("double: 3 of 10 points; 7 pending\n")
    assert (
        "pending On a GPU as well.\n          This check needs a GPU that PyTorch can use" in text
    )
    assert "Read:" not in text and "seed=" not in text
    assert (
        drawn.count("pending: ") == 3 and show.COLOR["failed"] not in drawn and "Read:" not in drawn
    )
    assert show.standing(report) == "unverified"
    report = suite.examine("double", lambda A: 2 * A, points=0, seed=SEED)
    assert show.text(report).startswith("double: partly pending, ungraded\n")


def test_reports_are_stored_and_older_ones_are_read(suite, has):
    report = suite.examine("double", lambda A: 2 * A, points=10, seed=SEED)
    record = report.to_dict()
    assert Report.from_dict(record).to_dict() == record and record["pending"] == 7.0
    del record["pending"]
    for result in record["results"]:
        del result["on"]
    older = Report.from_dict(record)
    assert older.pending == 0.0 and older.results[1].on == ""


def test_triton_is_looked_for_and_not_imported():
    loaded = "triton" in sys.modules
    assert machine.has("triton") in (True, False)
    assert ("triton" in sys.modules) == loaded


# In records.


def cell_of(report):
    return CellResult(
        report.score,
        report.points,
        subject="double",
        checks=report.results,
        pending=report.pending,
    )


def record_with(cells):
    most = sum(cell.max_points for cell in cells.values())
    return Record(
        "ada",
        "01-toy",
        "d",
        "v",
        1,
        True,
        "now",
        Kind.RIGHT,
        Message(""),
        [],
        [],
        cells,
        score=3.0,
        max_score=most,
    )


def test_a_record_sums_what_waits_until_a_person_gives_the_points(suite, has):
    record = record_with(
        {"check": cell_of(suite.examine("double", lambda A: 2 * A, points=10, seed=SEED))}
    )
    assert (record.pending, record.waits_for()) == (7.0, ["gpu", "triton"])
    document = json.loads(to_text(record))
    assert (document["schema"], document["pending"], document["cells"]["check"]["pending"]) == (
        SCHEMA,
        7.0,
        7.0,
    )
    again = from_text(to_text(record))
    assert again.pending == 7.0 and again.waits_for() == ["gpu", "triton"]
    (line,) = reasons.lines_of(record)
    assert line == (
        "double: 7 pending (not lost), because these checks need a machine with a GPU and Triton"
    )
    settled = record.with_stored(
        StoredGrades(
            SubmissionScore(9.0, 10.0), {"check": StoredCell(has_manual_score=True, score=9.0)}
        )
    )
    assert settled.pending == 0.0 and settled.waits_for() == [] and settled.score == 9.0
    assert (
        reasons.lines_of(settled)
        == reasons.lines_of(from_text(to_text(settled)))
        == ["double −1: graded by a person"]
    )
    whole = record.with_stored(
        StoredGrades(
            SubmissionScore(10.0, 10.0), {"check": StoredCell(has_manual_score=True, score=10.0)}
        )
    )
    assert (
        reasons.lines_of(whole) == []
        and reasons.lines_of(whole.with_stored(StoredGrades(SubmissionScore(3.0, 10.0)))) != []
    )


def test_older_records_have_nothing_that_waits(suite, has):
    record = record_with({"check": cell_of(suite.examine("double", None, points=10, seed=SEED))})
    document = json.loads(to_text(record))
    del document["pending"], document["cells"]["check"]["pending"]
    for check in document["cells"]["check"]["checks"]:
        del check["on"]
    document["schema"] = 2
    assert from_text(json.dumps(document)).pending == 0.0


def test_what_this_machine_can_settle_and_what_it_cannot(suite, has):
    cell = cell_of(suite.examine("double", lambda A: 2 * A, points=10, seed=SEED))
    records = [record_with({"check": cell}), record_with({})]
    assert Pending(records).settled_here == [] and len(Pending(records).elsewhere) == 1
    has.add("gpu")
    assert len(Pending(records).elsewhere) == 1  # it also waits for Triton
    has.add("triton")
    assert len(Pending(records).settled_here) == 1 and Pending(records).elsewhere == []


# A class.

ON_A_GPU = '''

import pathlib

from autograder.checking import machine

machine.has = lambda what: what != "gpu" or pathlib.Path({flag!r}).exists()
machine.presume(dict.fromkeys(machine.LACKS, ""))


@check(weight=4, needs=["adds"], on="gpu")
def adds_on_a_gpu(add, draw):
    """A GPU adds them, too."""
    a, b = draw.array(2), draw.array(2)
    expect_close(add(a, b), a + b)
'''


@pytest.fixture
def course(tmp_path, monkeypatch):
    """The toy course, where half the points of `add` need a GPU; it has one when the file `gpu`
    is there.
    """
    flag = tmp_path / "gpu"
    course = toy_course(tmp_path / "course")
    checks = course.sources()[0].solution / "checks.py"
    checks.write_text(checks.read_text() + ON_A_GPU.format(flag=str(flag)))
    release(course, course.sources()[0])
    monkeypatch.setattr(machine, "has", lambda need: need != "gpu" or flag.exists())
    for student, cells in {"ada": RIGHT, "bob": {**RIGHT, **WRONG}}.items():
        notebook = nbformat.read(course.exercises()[0].notebook, as_version=4)
        for cell in notebook.cells:
            cell.source = cells.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
        folder = course.root / "submitted" / student / "01-toy"
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / "01-toy.ipynb")
    return course


def graded(course, student):
    record = batch.record_of(course, student, "01-toy")
    page = course.paths_of(student, "01-toy").page
    with Gradebook(course.db_url, course.course_id) as book:
        grade = book.find_grade("check_add", "01-toy", "01-toy", student)
        return record, (grade.auto_score, bool(grade.needs_manual_grade)), page.read_text()


def output_of(capsys):
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


@pytest.mark.slow
def test_a_class_without_a_gpu_and_then_with_one(course, tmp_path, capsys):
    grade_command(root=course.root, no_sandbox=True, jobs=1)
    shown = output_of(capsys)
    assert "4 + 2 pending / 9 +" in shown  # the last +: the proof waits for a person
    assert (
        "1 submission has pending points that need a GPU: run `python -m autograder grade "
        "--pending` on a" in shown
    )
    record, grade, page = graded(course, "ada")
    assert record.kind == Kind.RIGHT and record.pending == 2.0 and grade == (2.0, True)
    assert (
        page.count("<code>add</code>: 2 pending (not lost). These checks need a machine with a GPU")
        == 2
    )
    assert (
        "Where points were lost" not in page
        and "still to be graded by a person (points possible: 2" not in page
    )
    other, other_grade, other_page = graded(course, "bob")
    assert (
        other.pending == 0.0
        and other_grade == (0.5, False)
        and "pending (not lost)" not in other_page
    )

    # The report and the table for others.
    report.write(course, tmp_path / "report.html")
    written = (tmp_path / "report.html").read_text()
    assert "1 has pending points" in written and "+ 2 pending" in written
    assert "◌" in rows_of(written)["ada", "01-toy"]["marks"].values()
    assert {row["student_id"]: row["pending"] for row in rows(course)} == {"ada": 2.0, "bob": 0.0}

    # Here they cannot be settled: nothing changes.
    before = course.paths_of("ada", "01-toy").record.read_bytes()
    with pytest.raises(UserError, match="1 submission has pending points that need a GPU"):
        grade_command(root=course.root, no_sandbox=True, jobs=1, pending=True)
    assert course.paths_of("ada", "01-toy").record.read_bytes() == before

    # On a machine with a GPU they can; a plain run keeps the grade, and says so.
    (tmp_path / "gpu").touch()
    capsys.readouterr()
    grade_command(root=course.root, no_sandbox=True, jobs=1)
    assert "which this machine has: run `python -m autograder grade --pending`" in output_of(capsys)
    assert course.paths_of("ada", "01-toy").record.read_bytes() == before
    unmoved = course.paths_of("bob", "01-toy").record.read_bytes()
    grade_command(root=course.root, no_sandbox=True, jobs=1, pending=True)
    assert "waiting" not in output_of(capsys)
    again, grade, page = graded(course, "ada")
    assert again.kind == Kind.RIGHT and again.pending == 0.0 and grade == (4.0, False)
    assert (
        again.seed == record.seed and len(again.history) == 1 and "pending (not lost)" not in page
    )
    assert course.paths_of("bob", "01-toy").record.read_bytes() == unmoved

    # Then nothing waits.
    grade_command(root=course.root, no_sandbox=True, jobs=1, pending=True)
    assert "No points are pending" in output_of(capsys)


@pytest.mark.slow
def test_a_person_may_settle_what_waits(course, tmp_path, capsys):
    grade_command(root=course.root, no_sandbox=True, jobs=1)
    with Gradebook(course.db_url, course.course_id) as book:
        grade = book.find_grade("check_add", "01-toy", "01-toy", "ada")
        grade.manual_score, grade.needs_manual_grade = 3.5, False
        book.db.commit()
    capsys.readouterr()
    grade_command(root=course.root, no_sandbox=True, jobs=1)
    table = output_of(capsys)
    assert "waiting" not in table and "add −0.5: graded by a person" in table
    assert "pending (not lost)" not in course.paths_of("ada", "01-toy").page.read_text()
    assert {row["student_id"]: row["pending"] for row in rows(course)} == {"ada": 0.0, "bob": 0.0}
    (tmp_path / "gpu").touch()
    grade_command(root=course.root, no_sandbox=True, jobs=1, pending=True)
    assert "No points are pending" in output_of(capsys)


@pytest.mark.slow
def test_nbgrader_autograde_marks_pending_points(course):
    grade_command(root=course.root, no_sandbox=True, jobs=1)
    assert "autograder.nbgrader_plugin.Grades" in course.config.Autograde.autograde_preprocessors
    for student, marked in {"ada": True, "bob": False}.items():
        by_grade = graded(course, student)[1]
        with Gradebook(course.db_url, course.course_id) as book:
            row = book.find_grade("check_add", "01-toy", "01-toy", student)
            row.auto_score, row.needs_manual_grade = None, not marked
            book.db.commit()
        notebook = nbformat.read(course.paths_of(student, "01-toy").notebook, as_version=4)
        resources = {
            "notebook": "01-toy",
            "assignment": "01-toy",
            "student": student,
            "db_url": course.db_url,
        }
        nbgrader_plugin.Grades().preprocess(notebook, {"nbgrader": resources})
        assert graded(course, student)[1] == by_grade and by_grade[1] is marked


# What this machine can do.


@pytest.mark.slow
def test_doctor_says_how_kernels_run_and_what_needs_a_gpu(course, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert "their points are pending" in doctor._triton().note
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: "3.7.1")
    assert doctor._triton().note == "kernels run in its interpreter, on the CPU, and can be traced"
    (exercise,) = course.exercises()
    (exercise.released / "exercise.toml").write_text("gpu = true")
    (line,) = doctor.missing_gpu([exercise])
    assert (
        line.startswith("01-toy needs a GPU for 1 check, but torch finds none here")
        and "--pending" in line
    )
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "A chip")
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda: True)
    monkeypatch.setattr(machine, "has", lambda need: not machine._tried[need])
    monkeypatch.setattr(machine, "_tried", dict.fromkeys(machine.LACKS, ""))
    assert doctor._triton().note == "kernels run natively, on the GPU, and can be traced"
    machine.presume({"bf16": "too old"})
    assert "but not in bfloat16: This check needs a GPU with bfloat16" in doctor._triton().note
    machine.presume({"triton": "OSError: no compiler"})
    assert doctor._triton().state == "optional" and "OSError: no compiler" in doctor._triton().note
    assert [finding.value for finding in doctor._torch()][
        1
    ] == "A chip, bf16" and doctor.missing_gpu([exercise]) == []


def test_a_report_explained_has_no_calls_for_what_was_not_verified(suite, has):
    report = suite.examine("double", lambda A: 2 * A, points=10, seed=SEED)
    explained = [CheckExplanation(result) for result in report.results]
    text = " ".join(text for text, _ in lines(Explanation(report, ["A"], explained), whole=False))
    assert (
        "unverified  kernel" in text
        and "This check needs Triton" in text
        and "no listed answer" not in text
    )

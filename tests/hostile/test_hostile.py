"""The corpus of submissions that hurt graders: each must have its outcome, in the sandbox, as
root and as nobody.
"""

import csv
import dataclasses
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil
import pytest
from nbgrader.api import Gradebook
from toy_course import toy_course
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring.release import release
from autograder.course.config import ROOT, Course
from autograder.grades import reasons, records
from autograder.grades.results import Kind
from autograder.grading import batch
from autograder.sandbox import bubblewrap
from hostile import CASES
from hostile import case as cases

HERE = Path(__file__).parent
QUICK = """
c.Limits.cpu_seconds = 5
c.Limits.cpu_seconds_in_all = 20
c.Limits.idle_seconds = 4
c.Limits.idle_seconds_in_all = 15
c.Limits.judge_seconds = 5
c.Limits.memory_mb = 1000
"""
BY_NAME = {case.name: case for case in CASES}
# Control codes, marks that turn text around, and halves of letters: none of these is shown as it
# came.
ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
FORMULA = tuple("=+-@\t\r")
# of a graded notebook and of a page: what the limits say, and the course's own part of it
MOST_BYTES = 21_000_000


@dataclass
class Graded:
    """A graded class of the corpus: which cases are in it, and how the batch failed, if it did."""

    course: Course
    names: list[str]
    before: dict[Path, bytes]
    failure: str = ""
    output: str = ""


def make(root, names=tuple(BY_NAME)):
    """Make the toy course and a class of these cases; return the course and the folder of
    submissions.
    """
    course = toy_course(root / "course", QUICK)
    release(course, course.sources()[0])
    submitted = root / "submitted"
    for name in names:
        BY_NAME[name].write(course.exercises()[0].notebook, submitted)
    neighbour = submitted / cases.NEIGHBOUR / "01-toy"
    neighbour.mkdir(parents=True)
    notebook = nbformat.read(course.exercises()[0].notebook, as_version=4)
    notebook.cells.append(nbformat.v4.new_markdown_cell(cases.WORK))
    cases.save(notebook, neighbour)
    return course, submitted


def grade_class(course, submitted, *more):
    """Grade by the command line; return what it printed."""
    command = [
        "grade",
        "--submitted",
        submitted,
        "--into",
        course.output_folder,
        "--course",
        course.root,
        *more,
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADERS_TOKEN", cases.TOKEN)
        result = CliRunner().invoke(cli.app, [str(part) for part in command])
    if result.exception:
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def selected(session):
    """Return the names of the cases that this run tests; all of them where it tests none by
    name.
    """
    items = [
        item
        for item in session.items
        if getattr(item, "originalname", "") == test_each_case.__name__
    ]
    return [item.callspec.params["name"] for item in items] or list(BY_NAME)


@pytest.fixture(scope="module")
def corpus(request, isolated, tmp_path_factory):
    """The selected cases, graded in one batch by two workers.

    A batch that fails leaves each case its own failure.
    """
    names = selected(request.session)
    course, submitted = make(tmp_path_factory.mktemp("corpus"), names)
    before = {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file()}
    graded = Graded(course, names, before)
    try:
        graded.output = grade_class(course, submitted, "--jobs", "2")
    except (Exception, SystemExit) as error:
        graded.failure = f"{type(error).__name__}: {error}"
    yield graded
    remove(submitted)


def remove(folder):
    """Remove a folder in which some lie too deep for shutil."""
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def outcome(course, case):
    """Return a case's record, page and graded notebook."""
    record = batch.record_of(course, case.graded_as, "01-toy")
    if record is None:
        raise OSError("there is no record that can be read")
    place = course.paths_of(case.graded_as, "01-toy")
    return record, place.page.read_text(), place.notebook.read_text()


def judged(case, record, page, notebook, grader=None):
    """Compare one case's outcome, as the user `grader` graded it, with what it must be; return
    what differs.
    """
    if case.root_reads and (os.getuid() if grader is None else grader) == 0:
        case = dataclasses.replace(case, points=cases.ALL, kind=Kind.RIGHT, says="")
    wrong = []
    points = {name: record.cells[name].points for name in ("check_add", "check_twice")}
    if points != case.points:
        wrong.append(f"points {points}, not {case.points}")
    if record.pending:
        wrong.append(f"{record.pending} points are pending")
    if record.kind not in (case.kind, case.may):
        wrong.append(f"kind {record.kind}, not {case.kind}")
    said = "\n".join(reasons.lines_of(record, record.penalty))
    if case.says not in said:
        wrong.append(f"the reasons do not say {case.says!r}: {said}")
    if record.kind != Kind.RIGHT and not said:
        wrong.append("points are lost without a reason")
    if record.kind == Kind.HOSTILE and not record.evidence:
        wrong.append("called hostile without evidence")
    for secret in filter(
        None, (case.secret, cases.WORK, cases.TOKEN, cases.SOLUTION, cases.REACHED)
    ):
        if secret in page or secret in notebook:
            wrong.append(f"shows {secret!r}")
    if cases.live(page):
        wrong.append(f"live in the page: {cases.live(page)}")
    for what, text in (("the page", page), ("the graded notebook", notebook)):
        if len(text.encode("utf-8", "replace")) > MOST_BYTES:
            wrong.append(f"{what} has {len(text.encode('utf-8', 'replace')) / 1e6:.0f} MB")
    for what, text in (
        ("the record", records.to_text(record)),
        ("the reasons", said),
        ("the page", page),
    ):
        if ACTS.search(text):
            wrong.append(f"acts in {what}: {around(text)}")
    return wrong


def around(text):
    """Return what stands about the first character that acts in a terminal."""
    place = ACTS.search(text).start()
    return ascii(text[max(place - 40, 0) : place + 40])


@pytest.mark.slow
@pytest.mark.parametrize(  # every third case in each run of `make test`
    "name",
    [
        pytest.param(name, marks=() if place % 3 == 0 else pytest.mark.long)
        for place, name in enumerate(BY_NAME)
    ],
)
def test_each_case(corpus, name):
    """A hostile or odd submission gets what it is worth."""
    case = BY_NAME[name]
    try:
        found = outcome(corpus.course, case)
    except OSError as error:
        pytest.fail(
            f"not graded: {error}; the batch: {corpus.failure or 'ended well'}", pytrace=False
        )
    wrong = judged(case, *found)
    assert not wrong, "; ".join(wrong)


@pytest.mark.slow
def test_the_batch_ends_well(corpus):
    assert not corpus.failure


@pytest.mark.slow
def test_nothing_of_the_course_was_changed(corpus):
    before = corpus.before
    after = {path: path.read_bytes() for path in before if path.exists()}
    changed = [path.name for path in before if after.get(path) != before[path]]
    assert not [name for name in changed if not name.startswith("gradebook.db")]


@pytest.mark.slow
def test_the_gradebook_has_every_submission_and_its_reason(corpus):
    course = corpus.course
    with Gradebook(course.db_url, course.course_id) as book:
        found = {own.student.id: own for own in book.find_assignment("01-toy").submissions}
        assert set(found) == {*(BY_NAME[name].graded_as for name in corpus.names), cases.NEIGHBOUR}
        for name in corpus.names:
            case = BY_NAME[name]
            if case.root_reads and os.getuid() == 0:
                continue
            own = found[case.graded_as]
            assert own.score <= sum(case.points.values())
            comments = "".join(entry.auto_comment or "" for entry in own.notebooks[0].comments)
            assert not ACTS.search(comments), (name, around(comments))
            if case.kind in (Kind.MALFORMED, Kind.LIMIT, Kind.HOSTILE) and not case.may:
                assert comments.startswith(f"{case.kind}: "), (name, comments)


@pytest.mark.slow
def test_nothing_acts_in_the_terminal(corpus):
    assert not ACTS.search(corpus.output), around(corpus.output)
    assert not [name for name in corpus.names if BY_NAME[name].graded_as[:20] not in corpus.output]


@pytest.mark.slow
def test_the_table_of_grades_holds_text_and_no_formula(corpus):
    course = corpus.course
    command = ["export", "--into", course.output_folder, "--course", course.root]
    result = CliRunner().invoke(cli.app, [str(part) for part in command])
    assert result.exit_code == 0, result.output
    with (course.output_folder / "grades.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["student_id"].removeprefix("'") for row in rows} == {
        *(BY_NAME[name].graded_as for name in corpus.names),
        cases.NEIGHBOUR,
    }
    values = [value for row in rows for value in row.values()]
    assert not [value for value in values if value.startswith(FORMULA) or ACTS.search(value)]


def test_every_case_has_a_name_of_its_own():
    assert len(BY_NAME) == len(CASES)


@pytest.mark.slow
def test_what_submissions_started_is_gone(corpus):
    running = [" ".join(own.info["cmdline"] or []) for own in psutil.process_iter(["cmdline"])]
    left = [line for line in running if "hostile_mark" in line]
    assert not left  # what holds these submissions, conftest.py asks for


@pytest.mark.slow
def test_a_check_that_computes_for_minutes_in_one_call_ends_as_a_limit_and_nobody_else_waits(
    isolated, tmp_path
):
    """Nothing in a process can interrupt such a call, so the kernel ends that process, and the
    grade is complete.
    """
    course = toy_course(
        tmp_path / "course", QUICK.replace("judge_seconds = 5", "judge_seconds = 1")
    )
    checks = course.sources()[0].solution / "checks.py"
    slow = (
        "    if result[0] < 0:\n        np.ones((4000, 4000), np.float16) @ np.ones((4000, "
        "4000), np.float16)\n"
    )
    text = checks.read_text().replace(
        "    expect_close(twice(a), a + a)\n",
        f"    result = twice(a)\n{slow}    expect_close(result, a + a)\n",
    )
    checks.write_text(text)
    released = release(course, course.sources()[0]) / "01-toy.ipynb"
    submitted = tmp_path / "submitted"
    for name, sign in (("negative", "-"), ("other", "")):
        twice = f"import numpy as np\ndef twice(a):\n    return {sign}(1 + np.abs(a))"
        cases.Case(name, 44, "", cases.ALL, Kind.LIMIT, cells={"twice": twice}).write(
            released, submitted
        )
    grade_class(course, submitted, "--jobs", "1")
    stopped, other = (batch.record_of(course, name, "01-toy") for name in ("negative", "other"))
    assert (stopped.kind, str(stopped.reason)) == (
        Kind.LIMIT,
        "it kept the judge computing for more than 1 seconds.",
    )
    assert [stopped.cells[name].points for name in cases.ALL] == [0, 0]
    assert (other.kind, other.cells["check_add"].points) == (Kind.WRONG, 4)
    page = course.paths_of("negative", "01-toy").page.read_text()
    assert "it kept the judge computing" in page and "np.abs(a)" in page


@pytest.mark.long
@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="the tests already run as an ordinary user"
)
def test_the_corpus_as_nobody(isolated, tmp_path):
    """Run by root, the same batch once more as nobody: what root may, must not be what protects."""
    course, submitted = make(tmp_path)
    subprocess.run(
        ["chown", "--recursive", "--no-dereference", "65534:65534", str(tmp_path)], check=True
    )
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    code = (
        "import sys; sys.path[:0] = sys.argv[1:4]\n"
        "from pathlib import Path\nimport test_hostile as t\nfrom autograder.course.config import "
        "Course\n"
        "root = Path(sys.argv[4])\n"
        "t.grade_class(Course(root=root / 'course', output_folder=root / 'course'), root / 'submitted', "
        "'--jobs', '2')\n"
        "import os; print('graded as', os.getuid())"
    )
    folders = map(str, (HERE, HERE.parent, HERE.parent / "helpers"))
    (tmp_path / "run.py").write_text(f"if __name__ == '__main__':\n    exec({code!r})\n")
    command = bubblewrap.as_nobody(
        [sys.executable, str(tmp_path / "run.py"), *folders, str(tmp_path)],
        read=[ROOT],
        write=[tmp_path],
    )
    (tmp_path / "tmp").mkdir(mode=0o777)
    os.chown(tmp_path / "tmp", 65534, 65534)
    own = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path / "tmp")}
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=900, env=own)
    finally:
        remove(submitted)
    assert "graded as 65534" in run.stdout, run.stdout[-3000:] + run.stderr[-3000:]
    wrong = {case.name: judged(case, *outcome(course, case), grader=65534) for case in CASES}
    assert not {name: what for name, what in wrong.items() if what}

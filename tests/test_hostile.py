"""The corpus of submissions that hurt graders: each must have its outcome, in the sandbox, as root and as nobody."""

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest
from hostile import case as cases
from hostile.corpus import CASES
from nbgrader.api import Gradebook
from typer.testing import CliRunner

from autograder import cli, grade, sandbox
from autograder.course import ROOT, Course
from autograder.release import release

HERE = Path(__file__).parent
QUICK = "\nc.Limits.cpu_seconds = 5\nc.Limits.idle_seconds = 4\nc.Limits.memory_mb = 1000\n"
BY_NAME = {case.name: case for case in CASES}


def make(root):
    """Make the toy course and the corpus as a class of it; return the course and the folder of submissions."""
    shutil.copytree(HERE / "toy", root / "course")
    text = (ROOT / "nbgrader_config.py").read_text()
    (root / "course" / "nbgrader_config.py").write_text(text + QUICK)
    course = Course(root=root / "course", into=root / "course")
    release(course, course.exercises()[0])
    submitted = root / "submitted"
    for case in CASES:
        case.write(course.exercises()[0].notebook, submitted)
    neighbour = submitted / cases.NEIGHBOUR / "01-toy"
    neighbour.mkdir(parents=True)
    notebook = nbformat.read(course.exercises()[0].notebook, as_version=4)
    notebook.cells.append(nbformat.v4.new_markdown_cell(cases.WORK))
    cases.save(notebook, neighbour)
    return course, submitted


def grade_class(course, submitted, *more):
    """Grade by the command line; return what it printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "Course", functools.partial(Course, root=course.root))
        patch.setenv("GRADERS_TOKEN", cases.TOKEN)
        result = CliRunner().invoke(
            cli.app, ["grade", "--submitted", str(submitted), "--into", str(course.into), *more]
        )
    if result.exception:
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def corpus(isolated, tmp_path_factory):
    """The whole corpus, graded in one batch by two workers."""
    course, submitted = make(tmp_path_factory.mktemp("corpus"))
    before = {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file()}
    grade_class(course, submitted, "--jobs", "2")
    return course, submitted, before


def outcome(course, case):
    folder = course.into / "autograded" / case.name / "01-toy"
    record = json.loads((folder / grade.RECORD).read_text())
    page = (course.into / "feedback" / case.name / "01-toy" / "01-toy.html").read_text()
    return record, page, (folder / "01-toy.ipynb").read_text()


def judged(case, record, page, notebook):
    """Compare one case's outcome with what it must be; return the differences as sentences."""
    wrong = []
    points = {name: record["cells"][name]["points"] for name in ("check_add", "check_twice")}
    if points != case.points:
        wrong.append(f"points {points}, not {case.points}")
    if record["kind"] not in (case.kind, case.may):
        wrong.append(f"kind {record['kind']}, not {case.kind}")
    reasons = "\n".join(grade.reasons(record))
    if case.says not in reasons:
        wrong.append(f"the reasons do not say {case.says!r}: {reasons}")
    if record["kind"] != "right" and not reasons:
        wrong.append("points are lost without a reason")
    if record["kind"] == "hostile" and not record["evidence"]:
        wrong.append("called hostile without evidence")
    for secret in filter(None, (case.secret, cases.WORK, cases.TOKEN, cases.SOLUTION, cases.REACHED)):
        if secret in page or secret in notebook:
            wrong.append(f"shows {secret!r}")
    if cases.live(page):
        wrong.append(f"live in the page: {cases.live(page)}")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_a_hostile_or_odd_submission_gets_what_it_is_worth(corpus, name):
    case = BY_NAME[name]
    wrong = judged(case, *outcome(corpus[0], case))
    assert not wrong, "; ".join(wrong)


@pytest.mark.slow
def test_nothing_of_the_course_was_changed(corpus):
    course, _, before = corpus
    after = {path: path.read_bytes() for path in before if path.exists()}
    changed = [path.name for path in before if after.get(path) != before[path]]
    assert not [name for name in changed if not name.startswith("gradebook.db")]


@pytest.mark.slow
def test_the_gradebook_has_every_submission_and_its_reason(corpus):
    course, _, _ = corpus
    with Gradebook(course.db_url, course.course_id) as book:
        found = {own.student.id: own for own in book.find_assignment("01-toy").submissions}
        assert set(found) == {*BY_NAME, cases.NEIGHBOUR}
        for name, case in BY_NAME.items():
            assert found[name].score <= sum(case.points.values())
            comments = "".join(own.auto_comment or "" for own in found[name].notebooks[0].comments)
            if case.kind in ("malformed", "limit", "hostile") and not case.may:
                assert comments.startswith(f"{case.kind}: "), (name, comments)


@pytest.mark.slow
def test_what_submissions_started_is_gone(corpus):
    running = [" ".join(own.info["cmdline"] or []) for own in psutil.process_iter(["cmdline"])]
    left = [line for line in running if "hostile_mark" in line]
    assert not left
    mine = [own for own in psutil.Process().children(recursive=True) if "bwrap" in own.name()]
    assert not psutil.wait_procs(mine, timeout=5)[1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="the tests already run as an ordinary user")
def test_the_corpus_as_an_ordinary_user(isolated, tmp_path):
    """Run by root, the same batch once more as nobody: what root may, must not be what protects."""
    course, submitted = make(tmp_path)
    for path in [tmp_path, *tmp_path.rglob("*")]:
        if not path.is_symlink():
            os.chown(path, 65534, 65534)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    code = (
        "import sys; sys.path[:0] = [sys.argv[1]]\n"
        "from pathlib import Path\nimport test_hostile as t\nfrom autograder.course import Course\n"
        "root = Path(sys.argv[2])\n"
        "t.grade_class(Course(root=root / 'course', into=root / 'course'), root / 'submitted', '--jobs', '2')\n"
        "import os; print('graded as', os.getuid())"
    )
    (tmp_path / "run.py").write_text(f"if __name__ == '__main__':\n    exec({code!r})\n")
    command = sandbox.as_nobody(
        [sys.executable, str(tmp_path / "run.py"), str(HERE), str(tmp_path)],
        read=[ROOT],
        write=[tmp_path],
    )
    (tmp_path / "tmp").mkdir(mode=0o777)
    os.chown(tmp_path / "tmp", 65534, 65534)
    own = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path / "tmp")}
    run = subprocess.run(command, capture_output=True, text=True, timeout=900, env=own)
    assert "graded as 65534" in run.stdout, run.stdout[-3000:] + run.stderr[-3000:]
    wrong = {case.name: judged(case, *outcome(course, case)) for case in CASES}
    assert not {name: what for name, what in wrong.items() if what}

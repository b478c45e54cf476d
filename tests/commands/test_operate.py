"""What programs rely on: documents in JSON, statuses, the log, what is recent, and what a shell
completes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from document_tools import fields
from nbgrader.api import Gradebook
from packaging.specifiers import SpecifierSet
from toy_course import RIGHT, hand_in, toy_course

from autograder import cli
from autograder.authoring.release import release
from autograder.commands import console, doctor, documents
from autograder.commands.console import MEANINGS, OurFault, Status, status_of
from autograder.course.config import ROOT, Course, UserError
from autograder.grades import gradebook, records, report
from autograder.grading import submission_times
from autograder.grading.submissions import Submission
from autograder.sandbox import bubblewrap

pytestmark = pytest.mark.long

OLD = "2026-01-02 10:00:00 UTC"


def command(*arguments, name=("-m", "autograder"), **environment):
    """Run the command line in a process of its own; return how it ended."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **environment}
    whole = [sys.executable, *name, *map(str, arguments)]
    return subprocess.run(whole, env=variables, capture_output=True, text=True, cwd=ROOT)


@pytest.fixture
def here(monkeypatch, capsys):
    """Run the command line in this process, which need not load it all again; return how it
    ended.
    """

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["autograder", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return SimpleNamespace(
            returncode=ended.value.code, stdout=captured.out, stderr=captured.err
        )

    return run


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A toy course, and three students' submissions, one of them old."""
    course = toy_course(tmp_path_factory.mktemp("toy"))
    for exercise in course.sources():
        release(course, exercise)
    hand_in(course.submitted, "ada", RIGHT, toy=course, stamp=OLD)
    hand_in(course.submitted, "ben", {"add": RIGHT["add"]}, toy=course)
    hand_in(course.submitted, "cem \x1b[2J", raw=b"no json", toy=course)
    return course


@pytest.fixture(scope="module")
def graded(isolated, toy):
    """The course graded twice, the second time what is recent alone: both processes, and the
    log.
    """
    log = toy.root / "log.jsonl"
    grade = ("grade", "--course", toy.root, "--json", "--log", log)
    return toy, command(*grade), command(*grade, "--since", "2h"), log


def test_grade_prints_one_document_that_says_what_the_gradebook_says(graded):
    toy, first, _, _ = graded
    assert first.returncode == 0 and "Grading" in first.stderr, first.stderr
    document = json.loads(first.stdout)
    assert (document["command"], document["status"], document["error"]) == ("grade", 0, "")
    assert (document["graded"], document["kept"], document["left_out"]) == (3, 0, 0)
    rows = {row["student_id"]: row for row in records.rows(toy)}
    assert [submission["student"] for submission in document["submissions"]] == sorted(
        rows
    ) and len(rows) == 3
    for submission in document["submissions"]:
        row, record = (
            rows[submission["student"]],
            records.record_of(toy, submission["student"], "01-toy"),
        )
        assert (submission["score"], submission["max_score"]) == (row["score"], row["max_score"])
        assert (submission["kind"], submission["seed"], submission["exercise"]) == (
            record.kind,
            record.seed,
            "01-toy",
        )
    assert "twice −2" in document["submissions"][1]["reasons"][0]
    assert "\x1b" not in first.stdout and document["gradebook"] == toy.db_url


def test_a_gradebooks_password_is_in_no_document(toy):
    class Nothing:
        records, kept, left_out, renewed = (), 0, 0, 0

    document = documents.of_grades(
        Course(root=toy.root, db="postgresql+psycopg://ada:secret@db/grades"), Nothing()
    )
    assert (
        "secret" not in str(document)
        and document["gradebook"] == "postgresql+psycopg://ada:***@db/grades"
    )


def test_the_log_has_a_line_for_each_submission_as_it_ended(graded):
    toy, _, _, log = graded
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [line["kept"] for line in lines] == [False] * 3 + [True] * 2
    for line in lines:
        record = records.record_of(toy, line["student"], line["exercise"])
        assert [line[name] for name in ("kind", "score", "max_score", "pending", "seed")] == [
            getattr(record, name) for name in ("kind", "score", "max_score", "pending", "seed")
        ]
        assert datetime.fromisoformat(line["time"]) <= datetime.now(UTC)
        if line["kept"]:
            assert line["seconds"] is line["worker"] is None
        else:
            assert (
                0 < line["seconds"] < 60 and int(line["worker"].rpartition("/")[2]) != os.getpid()
            )
    assert "\x1b" not in log.read_text(encoding="utf-8")


def test_what_is_older_than_since_is_left_out_and_counted(graded):
    toy, _, second, _ = graded
    document = json.loads(second.stdout)
    assert [submission["student"][:3] for submission in document["submissions"]] == ["ben", "cem"]
    assert (document["graded"], document["kept"], document["left_out"]) == (0, 2, 1)
    for path in toy.submitted.glob("*/01-toy/*.ipynb"):
        os.utime(path, (0, 0))
    result = command("grade", "--course", toy.root, "--since", "1h")
    assert result.returncode == 0 and "; 3 earlier. Nothing was graded." in result.stdout
    assert "Traceback" not in result.stderr


def test_the_document_of_a_dry_run_lists_grades_that_would_change(graded, tmp_path):
    toy = graded[0]
    hand_in(tmp_path, "ben", RIGHT, toy=toy)
    hand_in(tmp_path, "dora", RIGHT, toy=toy)
    arguments = ("grade", "--course", toy.root, "--submitted", tmp_path, "--dry-run", "--json")
    document = json.loads(command(*arguments).stdout)
    ben, dora = document["changes"]
    assert document["dry_run"] and (document["graded"], document["kept"]) == (2, 0)
    assert (ben["student"], ben["now"], ben["then"], ben["difference"]) == ("ben", 4.0, 6.0, 2.0)
    assert {"check": "doubles", "how": "blocked → passed"} in ben["through"]
    assert (dora["student"], dora["now"], dora["then"], dora["through"]) == ("dora", None, 6.0, [])
    refused = command(*arguments, "--log", tmp_path / "log")
    assert refused.returncode == 1 and not (tmp_path / "log").exists()
    assert json.loads(refused.stdout)["error"].startswith("--dry-run writes nothing")


def test_the_reports_document_has_its_numbers_and_no_name_if_there_shall_be_none(graded, tmp_path):
    toy = graded[0]
    result = command("report", "--course", toy.root, "--json", "--to", tmp_path / "r.html")
    document = json.loads(result.stdout)
    (exercise,) = document["exercises"]
    graded_now = records.all_of(toy)
    lost, _ = report.costs(graded_now)
    assert document["students"] == 3 and document["kinds"] == {"wrong": 2, "malformed": 1}
    assert exercise["mean"] == pytest.approx(sum(record.score for record in graded_now) / 3)
    assert sum(bar["count"] for bar in exercise["histogram"]) == len(exercise["rows"]) == 3
    assert [(item["title"], item["points"]) for item in exercise["lost"]] == [
        (item.title, item.points) for item in lost
    ]
    assert (tmp_path / "r.html").exists()
    result = command(
        "report", "--course", toy.root, "--json", "--anonymous", "--to", tmp_path / "a.html"
    )
    assert json.loads(result.stdout)["anonymous"] and "Student 1" in result.stdout
    assert not [name for name in ("ada", "ben", "cem") if f'"{name}' in result.stdout]


@pytest.mark.slow
def test_doctors_document_has_what_it_found(toy):
    result = command("doctor", "--course", toy.root, "--json")
    document = json.loads(result.stdout)
    findings = {finding["what"]: finding for finding in document["findings"]}
    assert findings["Python"]["state"] == "ok" and findings["Exercises"]["found"] == "01-toy"
    assert (
        document["status"]
        == result.returncode
        == any(finding["state"] == "missing" for finding in document["findings"])
    )


def test_the_page_has_every_field_and_no_other(graded, tmp_path):
    toy, first, _, log = graded
    hand_in(tmp_path, "ben", RIGHT, toy=toy)
    dry = ("grade", "--course", toy.root, "--submitted", tmp_path, "--dry-run", "--json")
    reported = ("report", "--course", toy.root, "--json", "--to", tmp_path / "r.html")
    texts = [
        first.stdout,
        log.read_text().splitlines()[0],
        command(*dry).stdout,
        command(*reported).stdout,
    ]
    names = {name for text in texts for name in fields(json.loads(text))}
    page = (ROOT / "book" / "operating.md").read_text(encoding="utf-8")
    assert not [name for name in names if f"`{name}`" not in page and f'"{name}"' not in page]
    rows = [row.split("|")[1] for row in page.splitlines() if re.match(r"\|( …)? `[a-z_]+`", row)]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)} - {"90m"}
    # Those of `watch`, which tests/exchange/ looks at.
    events = {"watching", "taken", "refused", "graded", "published", "scores", "waits"}
    assert len(named) > 30 and named - events <= names


def test_each_way_to_end_has_its_status(tmp_path, here):
    assert command("--help").returncode == Status.FINE
    assert here("report", "--into", tmp_path).returncode == Status.FAILED
    assert here("grade", "--no-such-option").returncode == Status.USAGE
    assert here("no-such-command").returncode == Status.USAGE
    assert [status_of(kind("x")) for kind in (UserError, OSError, OurFault, ValueError)] == [
        1,
        1,
        3,
        3,
    ]
    document = json.loads(here("grade", "--json", "--course", tmp_path).stdout)
    assert document["status"] == 1 and document["error"].startswith(
        f"There is no folder {tmp_path}/submitted."
    )


def test_a_class_in_the_wrong_folders_is_reported(toy, tmp_path, here):
    (tmp_path / "handed in" / "gus").mkdir(parents=True)
    (tmp_path / "handed in" / "gus" / "01-toy.ipynb").write_bytes(
        toy.exercises()[0].notebook.read_bytes()
    )
    result = here(
        "grade", "--course", toy.root, "--submitted", tmp_path / "handed in", "--into", tmp_path
    )
    assert (
        result.returncode == 1
        and "gus/01-toy.ipynb is not in an exercise's folder and was left out." in result.stderr
    )


@pytest.mark.parametrize(
    "data",
    [b"no gradebook at all, but a long text" * 99, b"SQLite format 3\0" + bytes(range(256)) * 99],
)
def test_a_broken_gradebook_is_named_with_its_fix(toy, tmp_path, data, here):
    (tmp_path / "gradebook.db").write_bytes(data)
    for more in ((), ("--dry-run",)):
        arguments = ("--course", toy.root, "--submitted", toy.submitted, "--into", tmp_path)
        result = here("grade", *arguments, "--no-sandbox", *more)
        assert result.returncode == 1 and "Traceback" not in result.stderr
        assert (
            "Restore a backup, or move the file away and grade again"
            in result.stderr.splitlines()[-1]
        )
    assert (tmp_path / "gradebook.db").read_bytes() == data


@pytest.mark.parametrize(
    "name",
    [
        "grade",
        "check",
        "collect",
        "report",
        "export",
        pytest.param("doctor", marks=pytest.mark.slow),
    ],
)
def test_a_fault_in_the_configuration_is_a_users(toy, tmp_path, name, here):
    shutil.copytree(toy.root, tmp_path / "course", ignore=shutil.ignore_patterns("*.db"))
    (tmp_path / "course" / "nbgrader_config.py").write_text("this is no python")
    notebook = tmp_path / "course" / "exercises" / "01-toy" / "01-toy.ipynb"
    arguments = {"check": [notebook], "collect": [tmp_path / "course" / "submitted"]}.get(name, [])
    result = here(name, *arguments, "--course", tmp_path / "course")
    assert result.returncode == 1 and "Traceback" not in result.stderr
    if name != "doctor":
        assert result.stderr.splitlines()[-1].startswith(
            "Error: nbgrader_config.py, line 1 cannot be run: SyntaxError"
        )


@pytest.mark.parametrize("command", ["grade", "report"])
def test_a_fault_in_the_configuration_is_in_the_document(tmp_path, command, here):
    (tmp_path / "nbgrader_config.py").write_text("this is no python")
    result = here(command, "--json", "--course", tmp_path)
    document = json.loads(result.stdout)
    assert (result.returncode, document["status"], document["command"]) == (1, 1, command)
    assert document["error"].startswith("nbgrader_config.py, line 1 cannot be run: SyntaxError")


def test_a_fault_of_ours_shows_its_traceback_and_has_a_status_of_its_own(monkeypatch, capsys):
    monkeypatch.setattr(cli, "app", lambda **kwargs: 1 / 0)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == Status.FAULT and "ZeroDivisionError" in capsys.readouterr().err


def test_what_is_left_ungraded_through_our_fault_has_a_status_of_its_own(isolated, tmp_path):
    course = toy_course(tmp_path / "broken")
    release(course, course.sources()[0])
    hand_in(course.submitted, "ada", RIGHT, toy=course)
    checks = course.root / "exercises" / "01-toy" / "checks.py"
    checks.write_text(
        checks.read_text() + "\nimport os\nif os.path.exists('/proc/self'): "
        "os.kill(os.getpid(), 9)\n"
    )
    result = command("grade", "--course", course.root, "--json", "--log", course.root / "log.jsonl")
    document = json.loads(result.stdout)
    assert (
        result.returncode == document["status"] == Status.FAULT
        and "our own fault" in document["error"]
    )
    assert document["submissions"][0]["kind"] == "infrastructure"
    line = json.loads((course.root / "log.jsonl").read_text())
    assert line["kind"] == "infrastructure" and line["worker"] is None


def test_help_lists_all_statuses(here):
    output = " ".join(here("--help").stdout.split())
    for status in Status:
        assert f"{status:d}: {MEANINGS[status]}" in output


def test_an_unwritable_log_is_reported_before_grading(toy, tmp_path, here):
    result = here(
        "grade", "--course", toy.root, "--into", tmp_path, "--log", tmp_path, "--no-sandbox"
    )
    assert (
        result.returncode == 1 and "Is a directory. Name another file with --log." in result.stderr
    )
    assert not list(tmp_path.rglob("grade.json"))


NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("90m", NOW - timedelta(minutes=90)),
        ("2h", NOW - timedelta(hours=2)),
        ("3d", NOW - timedelta(days=3)),
        ("1 w", NOW - timedelta(weeks=1)),
        ("2026-11-25T12:00+02:00", NOW - timedelta(hours=2)),
        ("2026-11-25 11:59Z", NOW - timedelta(minutes=1)),
        ("2026-11-24", datetime(2026, 11, 24).astimezone()),
    ],
)
def test_a_time_is_a_date_or_how_long_ago(text, time):
    assert submission_times.parse_since(text, NOW) == time


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2x", "-2h", "999999w", "2026-13-01", "2026-11-25T13:00Z"]
)
def test_what_is_no_time_that_is_past_is_refused_in_one_line(text):
    with pytest.raises(UserError) as refused:
        submission_times.parse_since(text, NOW)
    assert str(refused.value).startswith("--since") and "\n" not in str(refused.value)


def test_the_stamp_says_when_something_was_handed_in_and_without_one_the_file(toy, tmp_path):
    hand_in(tmp_path, "ada", RIGHT, toy=toy, stamp="2026-01-02 10:00:00 Europe/Berlin")
    submission = Submission("ada", toy.exercises()[0], tmp_path / "ada" / "01-toy")
    assert submission_times.submitted_at(submission) == datetime(2026, 1, 2, 9, tzinfo=UTC)
    (submission.folder / "timestamp.txt").write_text("no date")
    os.utime(submission.folder / "01-toy.ipynb", (86400, 86400))
    assert submission_times.submitted_at(submission) == datetime(1970, 1, 2, tzinfo=UTC)
    for path in submission.folder.iterdir():
        path.unlink()
    assert datetime.now(UTC) - submission_times.submitted_at(submission) < timedelta(minutes=1)


def completed(tmp_path, words):
    """Return what bash is told to offer after these words."""
    script = tmp_path / "attention-by-hand"
    script.write_text("from autograder.cli import main\nmain()\n")
    asked = {
        "_ATTENTION_BY_HAND_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    return command(name=[script], **asked).stdout.split()


def test_a_shell_completes_commands_and_the_exercises_of_the_course(toy, tmp_path):
    assert completed(tmp_path, "attention-by-hand gra") == ["grade"]
    assert completed(tmp_path, f"attention-by-hand release --course {toy.root} 0") == ["01-toy"]
    names = sorted(exercise.name for exercise in Course().exercises())
    for course, begun, completions in (
        (None, "", names),
        (None, "1", [name for name in names if name.startswith("1")]),
        (tmp_path, "", []),
    ):
        assert console._exercises(SimpleNamespace(params={"root": course}), begun) == completions


@pytest.mark.slow
def test_the_script_for_a_shell_completes_the_installed_command_alone():
    result = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m autograder --show-completion; true"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    last = result.stdout.strip().splitlines()[-1]
    assert last.startswith("complete ") and last.endswith(" attention-by-hand")


EARLIER = Path(__file__).with_name("release-0.1.0.zip")
"""What version 0.1.0 left of one student of its own sample class: two exercises, graded by its
own code, and for the proof of the second 4 points and a comment by hand.
"""


def gradebook_of(folder):
    """Return by exercise the points, and of the proof the points and the comment that a person
    gave.
    """
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "attention-by-hand") as book:
        submissions = {
            name: book.find_submission(name, "chen") for name in ("01-qkv", "02-scaling")
        }
        notebook = submissions["02-scaling"].notebooks[0]
        points = [grade.manual_score for grade in notebook.grades if grade.name == "proof_variance"]
        comments = [
            comment.manual_comment
            for comment in notebook.comments
            if comment.name == "proof_variance"
        ]
        return (
            {name: submission.score for name, submission in submissions.items()},
            points,
            comments,
        )


def test_what_an_earlier_release_graded_goes_on_with_its_gradebook(isolated, tmp_path):
    zipfile.ZipFile(EARLIER).extractall(tmp_path)
    before = gradebook_of(tmp_path)
    assert before == ({"01-qkv": 11.0, "02-scaling": 17.0}, [4.0], ["Why are they independent?"])
    was = [
        json.loads(path.read_text())
        for path in sorted(tmp_path.glob("autograded/chen/*/grade.json"))
    ]
    grade = (
        "grade",
        "01-qkv",
        "02-scaling",
        "--submitted",
        tmp_path / "submitted",
        "--into",
        tmp_path,
        "--json",
    )
    first = json.loads(command(*grade).stdout)
    assert (first["status"], first["graded"]) == (0, 2), first["error"]
    # Chen's `scores` is wrong, and no longer takes 5 points from `soft_lookup`, which calls it.
    assert gradebook_of(tmp_path) == ({**before[0], "01-qkv": 16.0}, *before[1:])
    assert [submission["score"] for submission in first["submissions"]] == [16.0, 17.0]
    course = Course(output_folder=tmp_path)
    now = [records.record_of(course, "chen", name) for name in ("01-qkv", "02-scaling")]
    assert [record.pop("history") for record in was] == [[], []]
    assert [record.history for record in now] == [[past] for past in was]
    again = json.loads(command(*grade).stdout)
    assert (again["status"], again["graded"], again["kept"]) == (0, 0, 2)
    document = json.loads(command("report", "--into", tmp_path, "--json").stdout)
    assert [exercise["rows"][0]["score"] for exercise in document["exercises"]] == [16.0, 17.0]
    assert [exercise["rows"][0]["earlier"] for exercise in document["exercises"]] == [1, 1]
    page = (tmp_path / "feedback" / "chen" / "02-scaling" / "02-scaling.html").read_text(
        encoding="utf-8"
    )
    assert "Why are they independent?" in page


def released_without(course, grade_id):
    """Take a cell out of the released toy; return its path and what it was."""
    path = course.exercises()[0].notebook
    text = path.read_text()
    notebook = nbformat.reads(text, as_version=4)
    notebook.cells = [
        cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") != grade_id
    ]
    nbformat.write(notebook, path)
    return path, text


def test_new_cells_are_added_to_a_gradebook_and_a_removed_check_is_refused(isolated, tmp_path):
    course = toy_course(tmp_path / "toy")
    release(course, course.sources()[0])
    hand_in(course.submitted, "ada", RIGHT, toy=course)
    hand_in(course.submitted, "ben", {"add": RIGHT["add"]}, toy=course)
    path, whole = released_without(course, "check_twice")
    with gradebook.opened(course) as book:
        gradebook.register(course, book, course.exercises()[0])
    assert command("grade", "--course", course.root).returncode == 0
    path.write_text(whole)  # the newer release
    # who graded then may have no more of it than the gradebook
    shutil.rmtree(course.submitted / "ben")
    assert command("grade", "--course", course.root).returncode == 0
    rows = {row["student_id"]: row for row in records.rows(course)}
    assert [(rows[name]["score"], rows[name]["max_score"]) for name in ("ada", "ben")] == [
        (6.0, 9.0),
        (4.0, 9.0),
    ]
    released_without(course, "check_twice")
    result = command("grade", "--course", course.root)
    assert (
        result.returncode == 1
        and "grades for another version of 01-toy, with different cells" in result.stderr
    )
    assert {row["student_id"]: row for row in records.rows(course)} == rows


CONTAINERS = sorted((ROOT / "containers").glob("*.Dockerfile"))


def instructions(path):
    """Return a Dockerfile's instructions, each with what follows, long lines put together."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return [
        line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")
    ]


@pytest.mark.parametrize("path", CONTAINERS, ids=lambda path: path.stem)
def test_what_a_container_is_made_of_is_there(path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    steps = instructions(path)
    assert steps[0] == ["FROM", "python:3.11-slim-bookworm"]
    assert "FROM python:3.11-" in (ROOT / ".devcontainer" / "Dockerfile").read_text(
        encoding="utf-8"
    )
    assert SpecifierSet(project["requires-python"]).contains("3.11")
    copied = [
        source
        for name, rest in steps
        if name == "COPY"
        for source in rest.split()[:-1]
        if source[0] != "-"
    ]
    patterns = path.with_name(f"{path.name}.dockerignore").read_text(encoding="utf-8").splitlines()
    assert copied and all((ROOT / source).exists() for source in copied)
    assert "*" in patterns and {f"!{source}" for source in copied} == {
        line for line in patterns if line[0] == "!"
    }
    (installed,) = [
        rest for name, rest in steps if name == "RUN" and rest.startswith("pip install")
    ]
    extras = re.search(r'"\.\[([\w,]+)\]"', installed)[1].split(",")
    assert set(extras) <= project["optional-dependencies"].keys()
    files = {project["readme"], *project["license-files"], "pyproject.toml", "requirements.txt"}
    assert files <= set(copied)  # what the install reads
    users = [rest for name, rest in steps if name == "USER"]
    assert users and f"useradd --create-home {users[0]}" in path.read_text(encoding="utf-8")


def test_the_container_that_grades_has_what_its_sandbox_needs(monkeypatch, here):
    path = ROOT / "containers" / "grade.Dockerfile"
    text, by_keyword = path.read_text(encoding="utf-8"), dict(instructions(path))
    assert json.loads(by_keyword["ENTRYPOINT"]) == ["python", "-m", "autograder"]
    names = {command.__name__ for commands in cli.COMMANDS.values() for command in commands}
    assert json.loads(by_keyword["CMD"])[0] in names
    used = re.search(r"attention-grade (grade .*)", text)[1].split()
    output = " ".join(here("grade", "--help").stdout.split())
    assert used[0] in names and all(word in output for word in used if word.startswith("--"))
    apt = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert all(name in text and name in apt for name in ("bubblewrap", "libseccomp2"))
    options = re.findall(r"--security-opt (\S+)", bubblewrap.OPENED)
    assert re.findall(r"--security-opt (\S+)", text) == options
    assert (
        json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())["securityOpt"]
        == options
    )
    # A container that may make no namespaces, as bubblewrap says it there.
    refused = SimpleNamespace(
        returncode=1, stderr="bwrap: No permissions to create new namespace\n"
    )
    monkeypatch.setattr(bubblewrap.subprocess, "run", lambda *args, **kwargs: refused)
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: f"/usr/bin/{name}")
    for marked in (True, False):
        monkeypatch.setattr(bubblewrap, "in_container", lambda marked=marked: marked)
        finding = doctor._isolation()
        assert (
            finding.state == "optional" and "No permissions to create new namespace" in finding.note
        )
        assert (bubblewrap.OPENED in finding.note) == marked and "sysctl" in finding.note


def test_a_container_is_known_by_what_its_makers_leave(monkeypatch):
    monkeypatch.setattr(bubblewrap.Path, "exists", lambda path: False)
    for name in ("container", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert not bubblewrap.in_container()
    monkeypatch.setenv("container", "podman")
    assert bubblewrap.in_container()
    monkeypatch.delenv("container")
    monkeypatch.setattr(bubblewrap.Path, "exists", lambda path: str(path) == "/.dockerenv")
    assert bubblewrap.in_container()

"""The operator pages say what to type: each block runs as printed in a copy of the course, with
the usual prefix.
"""

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import nbformat
import pytest
import typer
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderApp

from autograder import cli
from autograder.authoring.answer_cells import AnswerCells
from autograder.course.config import ROOT

BOOK = ROOT / "book"
PREFIX = ".venv/bin/python -m "
RUN = ("grading", "operating", "collecting", "classroom")
OPERATOR = (*RUN, "changing-grades", "database", "cluster")
BLOCK = re.compile(r"^( *)```bash\n(.*?)^ *```$", re.M | re.S)
NAME = "01-qkv"

ELSEWHERE = {
    "apt install bubblewrap libseccomp2": "installs packages of the system, as root",
    ".venv/bin/python -m jupyter_server": "a server that runs until it is stopped: "
    "test_formgrader.py starts it",
    ".venv/bin/python -m autograder grade 11-gpu": "over a minute without a GPU: test_race.py",
    "source .venv/bin/activate": "changes the files of somebody's shell: test_operate.py asks for "
    "completions",
    "docker build": "Docker is not where the tests run: test_operate.py compares the files with "
    "what they need",
    "docker run": "Docker is not where the tests run",
    "sysctl": "changes the machine, as root",
    ".venv/bin/python -m nbgrader release_assignment": "an exchange and students: test_exchange.py",
    ".venv/bin/python -m nbgrader collect": "an exchange and students: test_exchange.py",
    "make course": "installs and builds all, and pip downloads: test_bundle.py",
    "PIP_INDEX_URL=": "pip downloads: test_bundle.py",
    "python3.11 -m venv .venv": "installs from the folder that `bundle` makes: test_bundle.py",
    "python3.11 -m http.server": "a server that runs until it is stopped",
    ".venv/bin/jupyter lab": "a server that runs until it is stopped",
}
"""How a block begins that needs something from elsewhere, and what, or which file tests it."""

WORKSHEET = """Identifier,Full name,ID number,Email address,Status,Grade,Maximum grade,Grade can be changed,\
Last modified (submission),Last modified (grade),Feedback comments
Participant 901,Ada Lovelace,al1,ada@example.edu,Submitted for grading,,20.00,Yes,"Monday, 2 November 2026",-,
"""


def blocks(name):
    """Return the blocks of commands of a page, in order."""
    text = (BOOK / f"{name}.md").read_text(encoding="utf8")
    return [textwrap.dedent(block) for _indent, block in BLOCK.findall(text)]


def of_elsewhere(block):
    """Return the entries of ELSEWHERE that a block begins with."""
    return [begins for begins in ELSEWHERE if block.startswith(begins)]


HERE = [
    (name, number)
    for name in RUN
    for number, block in enumerate(blocks(name))
    if not of_elsewhere(block)
]


class Copy:
    """A copy of the course in a folder of its own, with a small class that has been graded."""

    def __init__(self, folder):
        self.root, self.home, self.mail = folder / "course", folder / "home", folder / "mail.txt"
        for name in ("autograder", "exercises", "locale"):
            left_out = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, self.root / name, ignore=left_out)
        for name in ("nbgrader_config.py", "pyproject.toml", "requirements.txt"):
            shutil.copy(ROOT / name, self.root)
        (self.root / ".venv").symlink_to(sys.prefix)
        (self.home / "bin").mkdir(parents=True)
        (self.home / "bin" / "mail").write_text(
            f'#!/bin/sh\n{{ echo "$@"; cat; }} > "{self.mail}"\n'
        )
        (self.home / "bin" / "mail").chmod(0o755)
        self.hand_in()

    def hand_in(self):
        """Write the class, and the files that pages name: a roster, a worksheet, loose
        notebooks.
        """
        released = {name: notebook_of(name) for name in (NAME, "02-scaling")}
        for student, name, text in (
            ("al1", NAME, released[NAME]),
            ("al1", "02-scaling", released["02-scaling"]),
            ("bob", NAME, released[NAME]),
            ("hana", NAME, released[NAME][: len(released[NAME]) // 2]),
        ):
            path = self.root / "submitted" / student / name / f"{name}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf8")
        roster = re.search(
            r"```text\n(id,.*?)```", (BOOK / "collecting.md").read_text(encoding="utf8"), re.S
        )[1]
        (self.root / "students.csv").write_text(roster, encoding="utf8")
        (self.root / "worksheet.csv").write_text(WORKSHEET, encoding="utf8")
        (self.root / "folder").mkdir()
        (self.root / "folder" / f"ada lovelace_{NAME}.ipynb").write_text(
            released[NAME], encoding="utf8"
        )

    def run(self, block):
        """Run commands as somebody would who types them, and says yes; return what they printed."""
        script = self.home / "block.sh"
        script.write_text(block, encoding="utf8")
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(self.home / "bin"), os.environ["PATH"]]),
            "PYTHONPATH": str(self.root),
            "COLUMNS": "200",
        }
        options = [] if block.startswith("#!") else ["-e", "-o", "pipefail"]
        ours, theirs = pty.openpty()  # `collect` asks nobody without a terminal
        os.write(ours, b"y\n")
        try:
            result = subprocess.run(
                ["bash", *options, str(script)],
                cwd=self.root,
                env=environment,
                stdin=theirs,
                capture_output=True,
                text=True,
            )
        finally:
            os.close(ours)
            os.close(theirs)
        assert result.returncode == 0, f"{block}\n{result.stdout[-1500:]}\n{result.stderr[-1500:]}"
        return result.stdout

    def students(self):
        """Return who is in the gradebook."""
        with Gradebook(f"sqlite:///{self.root / 'gradebook.db'}", "attention-by-hand") as book:
            return {student.id for student in book.students}


def notebook_of(name):
    """Return an exercise's notebook with the author's answers."""
    cells = AnswerCells(
        ROOT / "solutions" / name,
        nbformat.read(ROOT / "exercises" / name / f"{name}.ipynb", as_version=4),
    )
    for cell in cells.released.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if metadata.get("solution"):
            cell.source = cells.solutions[metadata["grade_id"]]
    return nbformat.writes(cells.released) + "\n"


@pytest.fixture(scope="module")
def course(isolated, tmp_path_factory):
    """The copy of the course, graded once."""
    copy = Copy(tmp_path_factory.mktemp("operator"))
    copy.run(f"{PREFIX}autograder grade --log grading.jsonl")
    return copy


def sent(course):
    """Make the file that was sent to Moodle."""
    if not (course.root / "sent.csv").exists():
        course.run(
            f"{PREFIX}autograder export {NAME} --for moodle --sheet worksheet.csv "
            "--feedback feedback.zip"
        )
        (course.root / "grades-moodle.csv").rename(course.root / "sent.csv")


def downloaded(person, *replaced):
    """Return what makes a download from Moodle with one person's notebook, and deletes what it
    replaces.
    """

    def download(course):
        away(*replaced)(course)
        with zipfile.ZipFile(course.root / "submissions.zip", "w") as archive:
            archive.writestr(f"{person}_901_assignsubmission_file/{NAME}.ipynb", notebook_of(NAME))

    return download


def away(*names):
    """Return what deletes files, for a block that makes them."""

    def delete(course):
        for name in names:
            path = course.root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    return delete


def there(*names):
    """Return what tells whether a block made these files."""
    return lambda course, output: all((course.root / name).exists() for name in names)


def last_year(course):
    """Put the grades of another class next to the course."""
    folder = course.root.parent / "2025"
    shutil.copytree(course.root / "autograded", folder / "autograded")
    shutil.copy(course.root / "gradebook.db", folder)


def is_mailed_once(course, output):
    """Tell whether the mail names hana's file, with its kind said once."""
    mail = course.mail.read_text(encoding="utf8")
    return (
        f"hana {NAME}, malformed: {NAME}.ipynb is not a notebook" in mail
        and mail.count("malformed") == 1
    )


def has_pages(course, output):
    """Tell whether the archive has a page for each student and exercise, and the table for a
    mail merge.
    """
    with zipfile.ZipFile(course.root / "feedback.zip") as archive:
        pages = [name for name in archive.namelist() if name.endswith(".html")]
    submitted = list((course.root / "autograded").glob("*/*/grade.json"))
    of_ada = [page for page in pages if Path(page).name.startswith("al1")]
    return (
        "mail-merge.csv" in archive.namelist() and len(pages) == len(submitted) and len(of_ada) == 2
    )


def dated(course):
    """Write the due dates that the page shows."""
    dates = re.search(
        r"```toml\n(timezone.*?)```", (BOOK / "grading.md").read_text(encoding="utf8"), re.S
    )[1]
    (course.root / "deadlines.toml").write_text(dates, encoding="utf8")


def overdue(course):
    """Write a due date that is over, and grade what was collected since."""
    (course.root / "deadlines.toml").write_text(
        f"[due]\n{NAME} = 2026-01-10T23:59:00Z\n", encoding="utf8"
    )
    course.run(f"{PREFIX}autograder grade {NAME}")


def at_home(course):
    """Put a student's notebook and page where the page's command looks for them, after a reveal."""
    overdue(course)
    course.run(f"{PREFIX}autograder reveal {NAME}")
    shutil.copy(course.root / "submitted" / "al1" / NAME / f"{NAME}.ipynb", course.root)
    shutil.copy(course.root / "feedback" / "al1" / NAME / f"{NAME}.html", course.root)


# By how a block begins: what is done before it, what is another here, and what tells that it did
# its work.
AS_PRINTED = {
    ("grading", f"{PREFIX}autograder doctor"): (
        downloaded("Grace Hopper", "report.html", "grades.csv"),
        {},
        lambda course, output: (
            there("report.html", "grades.csv")(course, output) and "Grace Hopper" in output
        ),
    ),
    ("grading", f"{PREFIX}autograder grade\n"): (
        away("autograded/bob"),
        {},
        there(f"autograded/bob/{NAME}/grade.json"),
    ),
    ("grading", f"{PREFIX}autograder report --beside"): (
        last_year,
        {},
        lambda course, output: (
            "the class in 2025" in (course.root / "report.html").read_text(encoding="utf8")
        ),
    ),
    ("grading", f"{PREFIX}autograder extend"): (
        dated,
        {"ada": "al1"},
        lambda course, output: (
            "al1: 01-qkv is due on 2026-12-04 23:59 (UTC+01:00)." in output and "3 days" in output
        ),
    ),
    ("grading", f"{PREFIX}autograder commit"): (
        None,
        {},
        lambda course, output: re.search(f"^{NAME} [0-9a-f]{{64}}$", output, re.M),
    ),
    ("grading", f"{PREFIX}autograder reveal"): (
        overdue,
        {},
        lambda course, output: f"{NAME} key " in output,
    ),
    ("grading", f"{PREFIX}autograder check"): (
        at_home,
        {},
        lambda course, output: "Same points and same results" in output,
    ),
    ("operating", "#!/bin/bash"): (
        away("autograded/hana"),
        {"/srv/attention": "{root}"},
        is_mailed_once,
    ),
    ("operating", f"{PREFIX}autograder grade --json"): (
        None,
        {},
        lambda course, output: {"al1\t01-qkv\t20", "hana\t01-qkv\t0"} <= set(output.splitlines()),
    ),
    ("operating", "jq -r 'select("): (
        None,
        {"> 0.6": "> 0"},
        lambda course, output: any(
            line.startswith("al1\t01-qkv\t") for line in output.splitlines()
        ),
    ),
    ("operating", "rm -r submitted/bob"): (
        None,
        {},
        lambda course, output: "bob" not in course.students(),
    ),
    ("collecting", f"{PREFIX}autograder collect submissions.zip"): (
        downloaded("Ada Lovelace", f"submitted/al1/{NAME}"),
        {},
        there(f"submitted/al1/{NAME}/{NAME}.ipynb"),
    ),
    (
        "collecting",
        f"{PREFIX}autograder export {NAME} --for moodle --sheet worksheet.csv --feedback",
    ): (
        away("grades-moodle.csv", "feedback.zip"),
        {},
        lambda course, output: (
            "20.00" in (course.root / "grades-moodle.csv").read_text(encoding="utf8")
        ),
    ),
    ("collecting", f"{PREFIX}autograder collect folder"): (
        away(f"submitted/al1/{NAME}", "feedback.zip"),
        {},
        has_pages,
    ),
    (
        "collecting",
        f"{PREFIX}autograder export {NAME} --for moodle --sheet worksheet.csv --since",
    ): (
        sent,
        {},
        lambda course, output: "Nothing was written" in output,
    ),
}


def test_each_block_is_run_or_has_its_reason():
    assert {
        begins for name in RUN for block in blocks(name) for begins in of_elsewhere(block)
    } == set(ELSEWHERE)
    known = [
        (name, [key for key in AS_PRINTED if matches(key, name, blocks(name)[number])])
        for name, number in HERE
    ]
    assert all(len(keys) == 1 for _name, keys in known), known
    assert {key for _name, keys in known for key in keys} == set(AS_PRINTED)


def matches(key, name, block):
    """Tell whether an entry of AS_PRINTED is that of a page's block."""
    return key[0] == name and block.startswith(key[1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), HERE)
def test_a_block_does_what_its_page_says(course, name, number):
    block = blocks(name)[number]
    if "jq " in block and not shutil.which("jq"):
        pytest.skip("jq is not installed (Debian: apt-get install jq)")
    (before, others, did) = next(
        expected for key, expected in AS_PRINTED.items() if matches(key, name, block)
    )
    if before:
        before(course)
    for printed, here in others.items():
        assert printed in block
        block = block.replace(printed, here.format(root=course.root))
    output = course.run(block)
    assert did(course, output), output


# ---- all commands, those in sentences also
# ---------------------------------------------------------------


def commands(name):
    """Return each command of a page: the lines of its blocks, and what sentences have as code."""
    text = (BOOK / f"{name}.md").read_text(encoding="utf8")
    commands = [
        line for block in blocks(name) for line in re.sub(r"\\\n *", "", block).splitlines()
    ]
    prose = re.sub(r"^ *(`{3,}).*?^ *\1$", "", text, flags=re.M | re.S)
    commands += [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose)]
    return [re.split(r" \| | > | < | 2> |  # |  +# ", line)[0].strip() for line in commands]


@pytest.mark.parametrize("name", OPERATOR)
def test_each_command_has_the_prefix_of_the_readme_and_options_that_exist(name):
    assert PREFIX + "autograder grade" in (ROOT / "README.md").read_text(encoding="utf8")
    program, checked = typer.main.get_command(cli.app), 0
    for line in commands(name):
        assert not re.match(r"(\w+=\S+ )*(python -[mc]|nbgrader |dask |pip )", line), line
        _before, ours, rest = line.partition(f"{PREFIX}autograder ")
        if ours:
            command, *words = shlex.split(rest)
            known = program.commands[command]
            # raises at an option that there isn't
            known.make_parser(known.context_class(known)).parse_args(words)
            checked += 1
        _before, theirs, rest = line.partition(f"{PREFIX}nbgrader ")
        assert not theirs or rest.split()[0] in NbGraderApp().subcommands, line
    assert checked

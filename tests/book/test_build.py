"""What a build of the book does with a page that fails, warns or is newer than its record:
`book/tools/build.py`.
"""

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from autograder.course.config import ROOT

pytestmark = pytest.mark.long

HEAD = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
kernelspec:
  name: python3
  display_name: Python 3
---

# {title}

"""
GLUE = "from figures.prose import measured\nmeasured('share', 'nine tenths')"
PAGES = {
    "fine": [(GLUE,), ("print('all', 'is well')",)],
    "fails": [("import math",), ("print('begun')\nmath.sqrt(-1)",), (GLUE,)],
    "dies": [("1 + 1",), ("import os\nos._exit(1)",)],
    "lasts": [("import time\ntime.sleep(60)",)],
    "typo": [("1 + 1",), ("x = = 1",)],
    "stderr": [("import sys\nprint('to', 'whom', file=sys.stderr)\nprint('said', 'all')",)],
    "warns": [("import warnings\nwarnings.warn('of nothing')\nprint('warned', 'all')",)],
    "picture": [
        (
            "from IPython.display import SVG, display\ndisplay(SVG('<svg "
            'xmlns="http://www.w3.org/2000/svg"/>\'))',
        )
    ],
    "old": [("made = 1 + 2\nprint('an', 'experiment')", "recorded"), ("print('made', made)",)],
    "lacks": [("made = other = 3", "recorded"), ("print(made, other)",)],
}
WITHOUT = "; the page is in the book without its results"
SAID = {
    "fails": "book/fails.md, cell 2 (line 18): ValueError: math domain error",
    "dies": "book/dies.md, cell 2 (line 18): its kernel died, perhaps for want of memory",
    "lasts": "book/lasts.md, cell 1 (line 14): it takes longer than 8 s",
    "typo": "book/typo.md, cell 2 (line 18): SyntaxError: invalid syntax",
    "lacks": "book/lacks.md, cell 1 (line 14): its record has no other; run python book/tools/record.py "
    "lacks",
}
OLD = "book/old.md: its record is older than its code; the book has what was recorded"


def page(title, cells):
    """The text of a page of some cells, each its code and its tags, and of a sentence with a
    number.
    """
    blocks = [
        "```{code-cell} ipython3\n"
        + (f":tags: [{', '.join(tags)}]\n" if tags else "")
        + f"{code}\n```\n\n"
        for code, *tags in cells
    ]
    sentence = "It is {glue:text}`share`.\n" if any(cell[0] == GLUE for cell in cells) else ""
    return HEAD.format(title=title) + "".join(blocks) + sentence


def make(folder, pages):
    """A book of some pages that is built as the real one is, with neither exercises nor what npm
    has.
    """
    book, npm = folder / "book", folder / "_build" / "npm"
    (book / "data" / "experiments").mkdir(parents=True)
    tools, figures = book / "tools", book / "figures"
    tools.mkdir()
    figures.mkdir()
    npm.mkdir(parents=True)
    javascript = importlib.import_module("javascript")
    for name in (
        "build.py",
        "editions.py",
        "javascript.py",
        "record.py",
        "records.py",
        "run_pages.py",
        *javascript.NPM_FILES,
    ):
        shutil.copy(ROOT / "book" / "tools" / name, tools)
    for name in ("__init__.py", "prose.py"):
        shutil.copy(ROOT / "book" / "figures" / name, figures)
    (npm / "stamp").write_text(
        javascript.digest(*(tools / name for name in javascript.NPM_FILES)), encoding="utf8"
    )
    run_pages = (tools / "run_pages.py").read_text(encoding="utf8")
    shorter = run_pages.replace("SECONDS, EXPERIMENT = 120, 600", "SECONDS, EXPERIMENT = 8, 600")
    assert shorter != run_pages
    (tools / "run_pages.py").write_text(shorter, encoding="utf8")
    (folder / "_config.yml").write_text(
        "title: A book\nonly_build_toc_files: true\nexecute:\n  execute_notebooks: cache\n  "
        "stderr_output: warn\n"
        "sphinx:\n  config:\n    nb_execution_raise_on_error: true\n",
        encoding="utf8",
    )
    (book / "index.md").write_text("# A book\n\nOf a few pages.\n", encoding="utf8")
    chapters = "".join(f"- file: book/{name}\n" for name in pages)
    (folder / "_toc.yml").write_text(
        f"format: jb-book\nroot: book/index\nchapters:\n{chapters}", encoding="utf8"
    )
    for name in pages:
        (book / f"{name}.md").write_text(page(name, PAGES[name]), encoding="utf8")
    return folder


def command(folder, *words):
    """Run a command of the book's; return the exit status and what it said."""
    environment = os.environ | {"COLUMNS": "60"}
    result = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.returncode, result.stdout


def edit(folder, name, old, new):
    """Change a page."""
    path = folder / "book" / f"{name}.md"
    text = path.read_text(encoding="utf8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf8")


def built(folder, name):
    """The HTML of a page."""
    return (folder / "_build" / "html" / "book" / f"{name}.html").read_text(encoding="utf8")


def log(folder):
    return (folder / "_build" / "book.log").read_text(encoding="utf8")


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A reader's build of all these pages, with records of two that were made before their code
    changed.
    """
    folder = make(tmp_path_factory.mktemp("reader"), PAGES)
    assert command(folder, "book/tools/record.py")[0] == 0
    edit(folder, "old", "made = 1 + 2", "made = 1 + 3")
    record = folder / "book" / "data" / "experiments" / "lacks.json"
    record_before = json.loads(record.read_text(encoding="utf8"))
    del record_before["cells"][0]["values"]["other"]
    record.write_text(json.dumps(record_before), encoding="utf8")
    return folder, *command(folder, "book/tools/build.py")


@pytest.mark.slow
def test_a_book_is_built_whatever_its_pages_do(book):
    """A line for each page that failed and for each old record, and for nothing else; the exit
    status is 1.
    """
    _folder, status, output = book
    lines = output.splitlines()
    assert status == 1 and "Traceback" not in output, output
    assert sorted(line for line in lines if ".md" in line) == sorted(
        [OLD, *(f"{phrase}{WITHOUT}" for phrase in SAID.values())]
    )
    assert lines[-2].startswith("the book is at _build/html/index.html")
    assert (
        lines[-1] == "pages are without their results, for what is said above; more of it is "
        "in _build/book.log"
    )
    assert len(lines) == 4 + 6 + 2, output


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_what_is_in_the_book_of_each_page(book, name):
    """All of it, or its text and code without results."""
    folder, _status, _said = book
    html = built(folder, name)
    assert ('class="cell_output' in html) is (name not in SAID) and "Traceback" not in html
    shown = {
        "fine": "nine tenths",
        "old": "made 3",
        "stderr": "said all",
        "warns": "warned all",
        "picture": "<img",
    }
    assert shown.get(name, "") in html
    assert "to whom" not in html and "UserWarning" not in html


@pytest.mark.slow
def test_the_log_has_all_of_it(book):
    """Of each step, what went wrong with its traceback included."""
    folder, _status, _said = book
    text = log(folder)
    assert [line.split(",")[0] for line in text.splitlines() if line.startswith("== ")] == [
        *("== downloads", "== what npm has", "== code", "== pages")
    ]
    assert (
        "math.sqrt(-1)" in text
        and "No key 'share' found in glue data" in text
        and "\x1b" not in text
    )
    assert all(line in text for line in SAID.values())


@pytest.mark.slow
def test_a_corrected_page_has_its_results(book):
    """The next build runs it again, and only it and those that failed."""
    folder = book[0]
    edit(folder, "fails", "math.sqrt(-1)", "math.sqrt(4)")
    for name in ("dies", "lasts", "typo", "lacks"):
        (folder / "book" / f"{name}.md").write_text(page(name, [("1 + 1",)]), encoding="utf8")
    (folder / "book" / "data" / "experiments" / "lacks.json").unlink()
    status, output = command(folder, "book/tools/build.py")
    assert status == 0 and "5 of 10 run" in output, output
    assert "2.0" in built(folder, "fails") and "nine tenths" in built(folder, "fails")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["fails"], [f"^{re.escape(SAID['fails'])}$"]),
        (
            ["stderr", "warns"],
            [
                rf"book/{name}\.md:\d+: WARNING: stderr was found in the cell outputs"
                for name in ("stderr", "warns")
            ],
        ),
        (
            ["old"],
            [
                r"^book/old\.md: its code is newer than its record: run python book/tools/record\.py "
                r"old$"
            ],
        ),
    ],
)
def test_a_strict_build_refuses(tmp_path, names, message):
    """A page that fails; one that writes to stderr, or warns; a record that is older than its
    page.
    """
    folder = make(tmp_path, names)
    if "old" in names:
        assert command(folder, "book/tools/record.py", "old")[0] == 0
        edit(folder, "old", "made = 1 + 2", "made = 1 + 3")
    status, lines = command(folder, "book/tools/build.py", "--strict")
    assert status == 1 and "Traceback" not in lines, lines
    assert re.search(r"all of it in _build/book\.log", lines)
    for line in message:
        assert re.search(line, lines, re.MULTILINE) and re.search(
            line, log(folder), re.MULTILINE
        ), lines


@pytest.mark.slow
def test_stderr_of_an_experiment_is_printed_and_not_recorded(tmp_path):
    folder = make(tmp_path, ["old"])
    edit(
        folder, "old", "print('an'", "import sys\nprint('to', 'whom', file=sys.stderr)\nprint('an'"
    )
    status, output = command(folder, "book/tools/record.py", "old")
    assert (
        status == 0
        and "book/old.md, cell 1 (line 14): it also wrote to stderr, which is not kept: to whom"
        in output
    )
    status, output = command(folder, "book/tools/build.py", "--strict")
    assert status == 0 and "to whom" not in built(folder, "old"), output


@pytest.mark.slow
def test_a_build_that_is_interrupted_says_so_in_a_line(tmp_path):
    """And leaves no process behind."""
    folder = make(tmp_path, ["lasts"])
    edit(folder, "lasts", "time.sleep(60)", "open('begun', 'w').close()\ntime.sleep(60)")
    process = subprocess.Popen(
        [sys.executable, "book/tools/build.py"], cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    for _ in range(600):
        if (folder / "book" / "begun").exists():
            break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=1800)
    assert process.returncode == 130, output
    assert output.splitlines()[2:] == [
        "interrupted; what is done is kept, and the same command goes on"
    ], output


@pytest.mark.parametrize("step", ["check_downloads", "fetch_packages"])
def test_what_a_step_did_not_foresee_is_a_line_and_in_the_log(tmp_path, monkeypatch, capsys, step):
    build = importlib.import_module("build")

    def broken():
        raise OSError("no room left")

    monkeypatch.setattr(build, step, broken)
    monkeypatch.setattr(build, "fetch_packages", broken)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "LOG", tmp_path / "book.log")
    assert build.build(strict=False) == 1
    output = capsys.readouterr().out
    assert (
        "OSError: no room left" in output
        and "Traceback" not in output
        and "all of it in book.log" in output
    )
    assert "Traceback" in (tmp_path / "book.log").read_text(encoding="utf8")

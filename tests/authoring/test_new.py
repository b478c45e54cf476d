"""A new exercise and a new chapter work as they are made: released, listed, built, and passing
their own tests.
"""

import re
import shutil
import subprocess
import sys

import pytest
from exercise_tools import (
    assert_pencil_question_first,
    assert_sends_to_chapter,
    assert_times_below_headings,
)
from plain_answers import answers_in_text
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import chapters, loader, verify
from autograder.course.config import ROOT, Course, Settings, UserError

pytestmark = pytest.mark.long


@pytest.fixture
def course(tmp_path):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    return Course(root=tmp_path)


def run(course, *arguments):
    return CliRunner().invoke(cli.app, [*arguments, "--course", str(course.root)])


def test_a_new_exercise_can_be_released(course):
    result = run(course, "new", "06-multi-head")
    assert result.exit_code == 0 and "python -m autograder release 06-multi-head" in result.output
    folder = course.root / "solutions" / "06-multi-head"
    text = (folder / "06-multi-head.py").read_text(encoding="utf-8")
    assert (
        text.startswith("# %% title [markdown]\n# # 6. Multi head\n")
        and "## 6.1 `centered`" in text
    )
    assert "TITLE" not in text and "name" not in {path.stem for path in folder.iterdir()}
    assert Settings.read(folder) == Settings()
    assert run(course, "release").exit_code == 0
    assert course.exercises()[0].title == "6. Multi head"
    assert answers_in_text(course.exercises()[0]) == []
    assert "YOUR CODE" in course.exercises()[0].notebook.read_text(encoding="utf-8").upper()


def test_its_lists_do_what_the_tests_ask_for(course):
    """Each wrong answer is told its own hint, and each check is failed by one of them."""
    run(course, "new", "06-multi-head")
    folder = course.root / "solutions" / "06-multi-head"
    assert verify.fault(folder) == ""
    exercise = loader.load(folder)
    (cell,) = exercise.cells(grade_id="given")
    assert "import numpy as np" in cell.source  # for the cells to play with
    idle = {check.__name__ for check in exercise.suite.checks}
    for subject in exercise.subjects:
        for wrong, failed in loader.caught(exercise, subject, seed=0):
            assert failed and failed[0].cause == wrong.__name__
            idle -= {result.name for result in failed}
    assert not idle
    # What every exercise has beside its functions.
    assert_times_below_headings(folder)
    assert_pencil_question_first(folder)


@pytest.mark.parametrize(
    "name", ["multi-head", "6-multi", "06_multi", "06-Multi", "06-", "../06-x", "06-multi--head"]
)
def test_a_bad_name_is_refused_with_one_line(course, name):
    result = run(course, "new", name)
    assert result.exit_code == 1 and "is not a valid name for an exercise" in str(result.exception)
    assert not (course.root / "solutions").exists()


def test_what_is_there_stays(course, tmp_path):
    folder = course.root / "solutions" / "06-multi-head"
    folder.mkdir(parents=True)
    result = run(course, "new", "06-multi-head")
    assert (
        result.exit_code == 1
        and "already exists" in str(result.exception)
        and not list(folder.iterdir())
    )


def test_a_folder_that_is_no_course_is_refused(tmp_path):
    result = run(Course(root=tmp_path), "new", "06-multi-head")
    assert (
        result.exit_code == 1
        and "is not a course" in str(result.exception)
        and not list(tmp_path.iterdir())
    )


# ---- a chapter
# -------------------------------------------------------------------------------------------

NAME = f"{len(chapters.read(ROOT)) + 1:02}-sparse-attention"  # the next one
LAST = list(chapters.read(ROOT))[-1]
PAGES = [f"book/{NAME}", f"book/{NAME}-deeper"]
README = """Chapters:

<!-- chapters: made by `make lists` from book/NN-name/entries.md -->
<!-- end of chapters -->

More.
"""


@pytest.fixture
def with_book(course):
    """A course with this course's chapters: their pages, and what lists them."""
    (course.root / "book").mkdir()
    for path in (ROOT / "book").glob("*.md"):
        shutil.copy(path, course.root / "book")
    for chapter in chapters.read(ROOT).values():
        shutil.copytree(
            chapter.folder,
            course.root / "book" / chapter.name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    shutil.copy(ROOT / "_toc.yml", course.root)
    (course.root / "README.md").write_text(README, encoding="utf-8")
    return course


def files(course):
    return {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file()}


def test_a_new_chapter_is_in_all_lists(with_book):
    before = files(with_book)
    result = run(with_book, "new", NAME)
    assert result.exit_code == 0 and result.output.count("Listed in") == 2
    expected = {
        path.relative_to(with_book.root).as_posix() for path in set(files(with_book)) - set(before)
    }
    figure = {f"sparse_attention.{kind}" for kind in ("py", "js", "css")}
    entries = {chapters.ENTRIES, "references.bib", "card.py"}
    folder = figure | entries | {"test_figure_sparse_attention.py"}
    assert expected >= {f"{page}.md" for page in PAGES} | {f"book/{NAME}/{name}" for name in folder}
    assert expected >= {
        f"solutions/{NAME}/{file}" for file in (f"{NAME}.py", "checks.py", "exercise.toml")
    }
    assert all(f"Made {path}\n" in result.output for path in expected)
    for path in expected:
        text = (with_book.root / path).read_text(encoding="utf-8")
        assert not re.search(r"NAME|TITLE|NN|chapter N\b", text), path
        assert not path.startswith(f"book/{NAME}/") or max(map(len, text.splitlines())) <= 118, path
    contents = (with_book.root / "_toc.yml").read_text(encoding="utf-8")
    assert (
        re.findall(r"file: (book/\d\S+)", contents)[-2:] == PAGES
        and "book/01-qkv-deeper" in contents
    )
    *_others, last = re.findall(
        r"^\d+\. .*", (with_book.root / "README.md").read_text(encoding="utf-8"), re.M
    )
    assert (
        last == f"{int(NAME[:2])}. *Sparse attention*: write here, in a few words, what it is about"
    )
    assert list(chapters.read(with_book.root))[-1] == NAME and not chapters.stale(with_book.root)


def test_a_chapter_may_have_more_pages(with_book):
    """They are listed by name, those that go deeper last, and are among the chapter's files."""
    for name in ("more-deeper", "zeros", "more"):
        (with_book.root / "book" / f"01-{name}.md").write_text("# More\n", encoding="utf-8")
    run(with_book, "lists")
    listed = re.findall(
        r"file: book/(01-\S+)", (with_book.root / "_toc.yml").read_text(encoding="utf-8")
    )
    assert listed == ["01-qkv", "01-more", "01-zeros", "01-more-deeper", "01-qkv-deeper"]
    assert {f"book/{name}.md" for name in listed} <= set(
        run(with_book, "chapter", "1").output.splitlines()
    )
    assert len(chapters.read(with_book.root)) == len(chapters.read(ROOT))


def test_a_new_chapter_needs_a_name_and_a_number_of_its_own(with_book):
    run(with_book, "new", NAME)
    before = files(with_book)
    other = f"{int(NAME[:2]) + 2:02}-other"
    for name, reason in (
        (NAME, "already exists"),
        ("01-other", "the next chapter"),
        (other, "the next chapter"),
    ):
        result = run(with_book, "new", name)
        assert (
            result.exit_code == 1
            and reason in str(result.exception)
            and "\n" not in str(result.exception)
        )
    assert files(with_book) == before


def test_a_chapter_that_is_there_can_get_an_exercise(with_book):
    page = with_book.root / "book" / "01-qkv.md"
    before = page.read_bytes()
    assert "for only the exercise, use --exercise-only" in str(
        run(with_book, "new", "01-qkv").exception
    )
    assert run(with_book, "new", "01-qkv", "--exercise-only").exit_code == 0
    assert page.read_bytes() == before and not (with_book.root / "tests").exists()
    assert "read={}" in (with_book.root / "solutions" / "01-qkv" / "checks.py").read_text(
        encoding="utf-8"
    )


def test_lists_are_made_again(with_book):
    assert run(with_book, "lists").output == "Wrote README.md\n"
    assert "already match book/NN-name/entries.md" in run(with_book, "lists").output
    readme = with_book.root / "README.md"
    listed = readme.read_text(encoding="utf-8")
    assert listed.startswith("Chapters:\n") and listed.endswith("\nMore.\n")
    chapters.files(with_book.root)[-1].unlink()  # a chapter is taken out
    assert run(with_book, "lists").output == "Wrote _toc.yml\nWrote README.md\n"
    assert len(listed.splitlines()) - len(readme.read_text(encoding="utf-8").splitlines()) == 1


HEAD = '---\nafter: [11-gpu]\nneeds: ""\nlearn: ""\nabout: ""\n---\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEAD.replace('needs: ""', "needs: a: b"), rf"{LAST}/entries\.md:3: this is not YAML"),
        (HEAD.replace("needs", "need"), rf"{LAST}/entries\.md:1: should begin with"),
        (HEAD.replace("[11-gpu]", "11"), rf"{LAST}/entries\.md:1: should begin with"),
        ("## Letters\n", rf"{LAST}/entries\.md:1: should begin with"),
        (
            HEAD.replace("11-gpu", "11"),
            rf"{LAST}/entries\.md:2: 11 is not the name of an earlier chapter",
        ),
        (f"{HEAD}\nGPU\n", rf"{LAST}/entries\.md:8: there is text before the first heading"),
        (
            f"{HEAD}\n## Glosary\n",
            rf"{LAST}/entries\.md:8: a heading is one of Letters, .*, and each " r"comes once",
        ),
        (f"{HEAD}## Letters\n\n## Letters\n", rf"{LAST}/entries\.md:9: a heading is one of"),
    ],
)
def test_a_fault_in_entries_is_one_line(with_book, text, reason):
    chapters.files(with_book.root)[-1].write_text(text, encoding="utf-8")
    result = run(with_book, "lists")
    assert (
        result.exit_code == 1
        and re.search(reason, str(result.exception))
        and "\n" not in str(result.exception)
    )


def test_a_fault_of_files_is_one_line(with_book):
    book = with_book.root / "book"
    for name, reason in (
        ("99-none", "book/99-none.md has no title"),
        ("none", "book/none/entries.md: its folder should have the name of a chapter"),
    ):
        (book / name).mkdir()
        (book / name / chapters.ENTRIES).write_text(HEAD, encoding="utf-8")
        assert reason in str(run(with_book, "lists").exception)
    for path in chapters.files(with_book.root):
        path.unlink()
    assert "has no book/NN-name/entries.md" in str(run(with_book, "lists").exception)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("| A1 | | 08 | It is so. |", rf"{LAST}/entries\.md:11: expected a row such as"),
        (
            "| D14 | 003 | | It is so. |\n| Z1 | 009 |",
            rf"{LAST}/entries\.md:12: expected a row such as",
        ),
        (
            "| A1 | 000 | | It is so. |",
            rf"{LAST}/entries\.md: .* A1 is already entered by chapter 01",
        ),
    ],
)
def test_a_fault_in_claims_is_one_line(with_book, rows, reason):
    table = (
        f"{HEAD}\n## Claims\n| Claim | Documents | Also in | Statement "
        f"|\n|---|---|---|---|\n{rows}\n"
    )
    chapters.files(with_book.root)[-1].write_text(table, encoding="utf-8")
    with pytest.raises(UserError, match=reason):
        chapters.claims(with_book.root)


def test_one_command_lists_all_of_a_chapter(with_book):
    run(with_book, "new", NAME)
    chapter_files = {path for path in files(with_book) if NAME in str(path)}
    lines = run(with_book, "chapter", NAME[:2]).output.splitlines()
    assert {line for line in lines if ":" not in line} == {
        path.relative_to(with_book.root).as_posix() for path in chapter_files
    }
    entries = f"book/{NAME}/{chapters.ENTRIES}"
    written = (with_book.root / entries).read_text(encoding="utf-8").splitlines()
    for entry in (
        "Letters: $X$",
        f"Functions: **{int(NAME[:2])}** `centered(X)`",
        "Glossary: centering",
        "Cheat sheet",
    ):
        (number,) = re.findall(rf"^{entries}:(\d+)  {re.escape(entry)}$", "\n".join(lines), re.M)
        assert entry.rpartition(": ")[2] in written[int(number) - 1] or entry == "Cheat sheet"
    assert not [line for line in lines if "Claims" in line]
    assert "book/10-efficient/entries.md:" in run(with_book, "chapter", "10").output
    assert (
        "book/10-efficient/references.bib:1  Reference: ainslie2023"
        in run(with_book, "chapter", "10").output
    )
    assert "There is no chapter 40. The chapters are 01-qkv, " in str(
        run(with_book, "chapter", "40").exception
    )


@pytest.fixture(scope="module")
def built(html, tmp_path_factory):
    """A copy of this course with a new chapter, which alone is built, with what other builds
    fetched.
    """
    root = tmp_path_factory.mktemp("course")
    for name in ("nbgrader_config.py", "_config.yml", "_toc.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    shutil.copytree(
        ROOT / "book", root / "book", ignore=shutil.ignore_patterns("__pycache__", "node_modules")
    )
    shutil.copy(ROOT / "conftest.py", root)
    shutil.copytree(ROOT / "tests" / "helpers", root / "tests" / "helpers")
    (root / "_build").mkdir()
    (root / "_build" / "npm").symlink_to(html.parent / "npm")
    course = Course(root=root)
    for command in ("new", "release"):
        assert run(course, command, NAME).exit_code == 0
    entries, contents = root / "book" / NAME / chapters.ENTRIES, root / "_toc.yml"
    for path in set(chapters.files(root)) - {entries}:
        path.unlink()
    entries.write_text(
        re.sub("after: .*", "after: []", entries.read_text(encoding="utf-8")), encoding="utf-8"
    )
    run(course, "lists")
    contents.write_text(
        contents.read_text(encoding="utf-8").partition("  - caption: At hand")[0], encoding="utf-8"
    )
    (root / "book" / "index.md").write_text("# A book\n\nOf one chapter.\n", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "book/tools/build.py", "--strict"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
    return course


def test_a_new_chapter_is_built_without_a_warning(built):
    html = built.root / "_build" / "html"
    page = (html / "book" / f"{NAME}.html").read_text(encoding="utf-8")
    for part in (
        "The idea in a picture",
        "By hand",
        "The code",
        "Common mistakes",
        "Recap",
        "The exercise",
    ):
        assert re.search(rf"<h2>.*{part}<", page), part
    assert f"exercise-{NAME}" in page and "[-3.  1.  2.]" in page and 'class="abh-selftest' in page
    assert "1.00 0.51" in (html / f"{PAGES[1]}.html").read_text(encoding="utf-8")
    assert (html / "exercises" / f"{NAME}.zip").exists()


def test_the_test_of_a_new_figure_passes(built):
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-rs", f"book/{NAME}"],
        cwd=built.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0 and "passed" in result.stdout, result.stdout


def test_a_new_exercise_sends_readers_to_its_chapter(built, monkeypatch):
    monkeypatch.setattr(loader, "ROOT", built.root)
    assert_sends_to_chapter(built.root / "solutions" / NAME)

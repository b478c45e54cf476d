"""Exercises in another language: the same cells with other texts, the same grade, and feedback
in that language.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook
from toy_course import toy_course
from typer.testing import CliRunner

from autograder import cli, nbgrader_plugin
from autograder.authoring import packages, sentences, translations, verified
from autograder.authoring.release import release
from autograder.checking import Message, suite, words
from autograder.course import archive, catalogs, seeds
from autograder.course.cells import grade_id
from autograder.course.config import ROOT, UserError, edition_of
from autograder.course.limits import Limits
from autograder.grades.results import CellResult
from autograder.grading.notebook import parse, restore
from autograder.grading.submissions import Submission
from autograder.school.archives import opened
from autograder.school.hand_ins import Collector
from autograder.school.layouts import Exercises

pytestmark = pytest.mark.long

ENGLISH, CHINESE = "01-toy.ipynb", "01-toy.zh.ipynb"
TITLE = """# %% title [markdown]
# # Toy
#
# Add two numbers, as long as
# you like:
#
# - first `a + b`, which is
#   $a + b$;
# - then twice, in `01-toy.ipynb`.
#
# $$
# a + b
# $$
#
# $$ a + b \\text{ in all} $$
#
# | Points | For |
# |---|---|
# | 1 | a proof |
#
# <details><summary>An answer</summary>
#
# Four.
#
# </details>

"""
WRONG = {"add": "def add(a, b):\n    return a - b", "twice": "def twice(a):\n    return a * 2"}
RIGHT = {**WRONG, "add": "def add(a, b):\n    return a + b"}
NOT_YET = "The result has the shape of a."
"""A text that nobody has translated."""


def chinese(text):
    """Return what stands for a translation of a text: itself, behind a sign."""
    return "".join(f"※{part}" for part in re.split(r"(?<=\n)", text))


def write_catalogs(root, leave=(NOT_YET,)):
    """Translate all texts of a course but these."""
    for name, texts in translations.texts_by_catalog(root).items():
        catalog = Catalog(locale="zh_CN")
        for text in texts:
            many = isinstance(text, tuple)
            translation = (chinese(text[1]),) if many else chinese(text)
            catalog.add(text, None if text in leave else translation)
        path = catalogs.path_of(root, "zh_CN", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            write_po(file, catalog, width=0)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The toy course with a text cell, its catalogs, and all of it released."""
    course = toy_course(tmp_path_factory.mktemp("translated") / "course")
    text = course.sources()[0].text
    text.write_text(TITLE + text.read_text(encoding="utf-8"), encoding="utf-8")
    write_catalogs(course.root)
    release(course, course.sources()[0])
    return course


@pytest.fixture(scope="module")
def exercise(course):
    return course.exercises()[0]


def read(path):
    return nbformat.read(path, as_version=4)


def write(path, notebook, answers=None):
    """Write a released notebook with these answers."""
    for cell in notebook.cells:
        cell.source = (answers or {}).get(grade_id(cell), cell.source)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


# What is released.


def test_the_notebook_is_the_same_but_for_its_texts(exercise):
    english, other = read(exercise.notebook), read(exercise.edition("zh_CN"))
    assert exercise.edition("zh_CN").name == "01-toy.zh.ipynb" and exercise.editions == [
        exercise.edition("zh_CN")
    ]
    assert [cell.id for cell in other.cells] == [cell.id for cell in english.cells]
    for ours, theirs in zip(english.cells, other.cells, strict=True):
        metadata = {**theirs.metadata.get("nbgrader", {}), "checksum": ""}
        assert metadata == {**ours.metadata.get("nbgrader", {}), "checksum": ""}
        assert (ours.source == theirs.source) == (grade_id(ours) not in ("title", "ask_regrade"))
    assert words.language_of(other) == "zh_CN" and words.language_of(english) == ""


def test_each_text_is_one_line_and_formulas_change_only_in_words(exercise):
    assert read(exercise.edition("zh_CN")).cells[0].source.split("\n") == [
        "# ※Toy", "",
        "※Add two numbers, as long as you like:", "",
        "- ※first `a + b`, which is $a + b$;",
        "- ※then twice, in `01-toy.zh.ipynb`.", "",
        "$$", "a + b", "$$", "",
        r"$$※ a + b \text{ in all} $$", "",
        "| ※Points | ※For |", "|---|---|", "| 1 | ※a proof |", "",
        "<details><summary>※An answer</summary>", "", "※Four.", "", "</details>", "",
        f"※{packages.ALONE}",
    ]  # fmt: skip


@pytest.mark.slow
def test_nbgrader_takes_its_checksums_for_right(exercise, tmp_path):
    path = shutil.copy(exercise.edition("zh_CN"), tmp_path)
    for name in ("checks.py", "checking.zip"):
        shutil.copy(exercise.released / name, tmp_path)
    command = [sys.executable, "-m", "nbgrader", "validate", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (
        "have changed" not in result.stdout + result.stderr and "VALIDATION FAILED" in result.stdout
    ), result.stderr


def test_a_language_changes_no_grade_and_needs_no_verification(course, exercise, tmp_path):
    state, version = verified.state(exercise.solution), seeds.version_of(exercise)
    assert any(
        name.endswith("zh_CN/LC_MESSAGES/checking.mo") for name in archive.read(exercise.archive)
    )
    bare = toy_course(tmp_path / "bare")
    bare.sources()[0].text.write_text(exercise.text.read_text(encoding="utf-8"), encoding="utf-8")
    release(bare, bare.sources()[0])
    (without,) = bare.exercises()
    assert not without.editions
    assert (verified.state(without.solution), seeds.version_of(without)) == (state, version)
    assert without.notebook.read_bytes() == exercise.notebook.read_bytes()
    verified.note_release(course, exercise)
    assert verified.is_released(course, exercise)
    path = catalogs.path_of(course.root, "zh_CN", "feedback/01-toy")
    before = path.read_bytes()
    path.write_bytes(before.replace("※Each".encode(), "※※Each".encode()))
    assert not verified.is_released(course, exercise)
    path.write_bytes(before)
    assert verified.is_released(course, exercise) and archive.is_current(exercise)


def test_a_stale_or_fuzzy_entry_stays_english(exercise, tmp_path):
    path = catalogs.path_of(tmp_path, "zh_CN", "exercises/01-toy")
    path.parent.mkdir(parents=True)
    path.write_text(
        '#, fuzzy\nmsgid "Toy"\nmsgstr "玩具"\n\nmsgid "Tea"\nmsgstr "茶"\n\nmsgid '
        '"Four."\nmsgstr ""\n'
    )
    assert catalogs.of_texts(tmp_path, "zh_CN", "01-toy") == {"Tea": "茶"}
    made = translations.edition(exercise.notebook, "zh_CN", {"Tea": "茶", "An answer": "答案"})
    assert made.cells[0].source == read(exercise.notebook).cells[0].source.replace(
        "An answer", "答案"
    ).replace("then twice, in `01-toy.ipynb`.", "then twice, in `01-toy.zh.ipynb`.")


def test_a_broken_catalogue_is_one_line(course, tmp_path):
    path = catalogs.path_of(tmp_path, "zh_CN", "exercises/01-toy")
    path.parent.mkdir(parents=True)
    path.write_text('<<<<<<< ours\nmsgid "Toy"\nmsgstr "玩"\n')
    with pytest.raises(UserError, match=r"01-toy\.po is not a valid catalog: "):
        catalogs.of_texts(tmp_path, "zh_CN", "01-toy")


@pytest.mark.slow
def test_a_broken_catalogue_leaves_no_part_of_an_archive(course):
    folder = course.sources()[0].solution
    path = catalogs.path_of(course.root, "zh_CN", "feedback/01-toy")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('<<<<<<< ours\nmsgid "Toy"\nmsgstr "玩"\n')
    before = sorted(folder.iterdir())
    with pytest.raises(UserError, match=r"01-toy\.po is not a valid catalog: "):
        archive.write(folder)
    assert sorted(folder.iterdir()) == before
    write_catalogs(course.root)


@pytest.mark.slow
def test_a_notebook_that_fetches_its_files_says_its_language(tmp_path):
    """In Colab, which does not tell where the notebook lies."""
    course = toy_course(tmp_path / "course")
    text = course.sources()[0].text
    text.write_text(TITLE + text.read_text(encoding="utf-8"), encoding="utf-8")
    (course.root / "_config.yml").write_text("html: {baseurl: https://example.org}")
    write_catalogs(course.root)
    release(course, course.sources()[0])
    (exercise,) = course.exercises()
    cells = {cell.id: cell for cell in read(exercise.edition("zh_CN")).cells}
    assert cells["fetch_files"].source.endswith(
        'os.environ["LANGUAGE"] = "zh_CN"  # of the feedback'
    )
    assert compile(cells["fetch_files"].source, "cell", "exec")
    path = write(tmp_path / "01-toy" / CHINESE, read(exercise.edition("zh_CN")), RIGHT)
    result = CliRunner().invoke(
        cli.app, ["check", str(path), "--course", str(course.root)], catch_exceptions=False
    )
    assert "6 of 6 points" in result.output and "restored" not in result.output


GIVEN = "# %% given\nimport math\n\n"


@pytest.fixture(scope="module")
def with_given(tmp_path_factory):
    """The toy exercise with a cell of given code, released in both languages."""
    course = toy_course(tmp_path_factory.mktemp("given") / "course")
    text = course.sources()[0].text
    text.write_text(TITLE + GIVEN + text.read_text(encoding="utf-8"), encoding="utf-8")
    write_catalogs(course.root)
    release(course, course.sources()[0])
    return course.exercises()[0]


@pytest.mark.slow
def test_a_notebook_answers_in_its_language_however_it_is_run(with_given, tmp_path):
    """No editor names the notebook here, as under nbconvert and papermill: its first code cell
    says the language.
    """
    folder = shutil.copytree(with_given.released, tmp_path / "01-toy")
    path = write(folder / CHINESE, read(folder / CHINESE), WRONG)
    unset = dict.fromkeys([*words.SETTINGS, "JPY_SESSION_NAME", "PYTHONPATH"], "")
    command = [
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        "--allow-errors",
        "--inplace",
        str(path),
    ]
    subprocess.run(
        [sys.executable, "-m", *command],
        env={**os.environ, **unset},
        capture_output=True,
        check=True,
    )
    (check,) = [cell for cell in read(path).cells if grade_id(cell) == "check_add"]
    lines = [out.data["text/plain"] for out in check.outputs if out.output_type == "display_data"]
    assert "※subtracted instead of added" in lines[0], check.outputs


@pytest.mark.parametrize("source", ["all", "no marks", "no ids"])
def test_the_line_that_names_the_language_is_no_change(with_given, source):
    """Whatever an editor leaves of the metadata, and with it of the language."""
    released, theirs = read(with_given.notebook), read(with_given.edition("zh_CN"))
    cell = next(cell for cell in theirs.cells if grade_id(cell) == "given")
    assert (
        cell.source.startswith("import math\n")
        and 'os.environ["LANGUAGE"] = "zh_CN"' in cell.source
    )
    theirs.metadata = {}
    for cell in theirs.cells if source != "all" else ():
        cell.metadata = {}
        if source == "no ids":
            del cell["id"]
    restored = restore(parse(json.dumps(theirs).encode(), CHINESE), released)
    assert not restored.evidence and "given" not in " ".join(str(note) for note in restored.repairs)
    assert [cell.source for cell in restored.notebook.cells if grade_id(cell) == "given"] == [
        "import math"
    ]


# In the student's own Jupyter.


CHECK = """
import json, os, sys
sys.path.insert(0, os.getcwd())
add = lambda a, b: a - b
import checks
checks.run("add", points=4, seed=5)
"""


def checked(folder, name, **environment):
    """Return what a check says in a kernel that Jupyter started for a notebook."""
    unset = dict.fromkeys(words.SETTINGS, "")
    environment = {**os.environ, **unset, "PYTHONPATH": "", "JPY_SESSION_NAME": name, **environment}
    result = subprocess.run(
        [sys.executable, "-c", CHECK],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


def test_a_check_answers_in_the_language_of_the_notebook(exercise, tmp_path):
    folder = shutil.copytree(exercise.released, tmp_path / "01-toy")
    output = checked(folder, str(folder / "01-toy.zh.ipynb"))
    assert (
        "※FAILED" in output
        and "※Each element is the sum of the two." in output
        and f" {NOT_YET}" in output
    )
    assert "※subtracted instead of added" in output and "※To repeat these inputs:" in output
    (folder / "01-toy.zh.ipynb").rename(folder / "张三.ipynb")  # whose cells say it still
    assert "※" in checked(folder, str(folder / "张三.ipynb")) and "※" in checked(
        folder, "RTC:elsewhere/张三.ipynb"
    )
    assert "※" not in checked(folder, str(folder / "01-toy.ipynb"))
    assert "※" not in checked(folder, str(folder / "none.ipynb"))
    assert "※" in checked(folder, str(folder / "01-toy.ipynb"), LANGUAGE="zh_CN.UTF-8")


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"checking": {}},
        {"checking": "zh_CN"},
        {"checking": {"language": ["zh_CN"]}},
        {"checking": None},
        [],
    ]
    + [
        {"checking": {"language": language}}
        for language in ("../../etc", "zh_CN\n", "z" * 10_000, "", 7, "xx_YY", "zh_TW")
    ],
)
def test_an_unknown_language_falls_back(exercise, metadata):
    language = words.language_of({"metadata": metadata})
    with words.use(language, archive.locales(exercise)):
        assert str(Message("the result")) == "the result" and words.language() == "en"


@pytest.mark.parametrize("language", ["zh_CN", "zh", "zh-CN"])
def test_a_language_has_several_spellings(exercise, language):
    with words.use(language, archive.locales(exercise)):
        assert str(Message("the result")) == "※the result" and words.language() == "zh-CN"
        assert str(words.counted("{count} number", "{count} numbers", 1)) == "※1 numbers"


def test_a_space_separates_chinese_and_latin_letters(tmp_path, monkeypatch):
    folder = tmp_path / "zh_CN" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    catalog = Catalog(locale="zh_CN")
    for text, said in {
        "{what} is {found}.": "{what}是{found}。",
        "Read:": "请读：",
        "{left}; {right}": "{left}；{right}",
    }.items():
        catalog.add(text, said)
    with (folder / "checking.mo").open("wb") as file:
        write_mo(file, catalog)
    with words.use("zh_CN", tmp_path):
        assert str(Message("{what} is {found}.", what="K", found="`x`")) == "K 是 `x`。"
        assert str(Message("{what} is {found}.", what="结果", found="（2）")) == "结果是（2）。"
        assert (
            str(Message("{left}; {right}", left="一。", right="二")) == "一。；二"
            and words.gap() == ""
        )
        assert str(Message("{a} {b}", a="一。", b="二。")) == "一。二。"
        assert words.lead("Read:") == "请读：" and words.enumerated(["一。", "二。"]) == "一；二"
    assert words.lead("Read:") == "Read: " and words.enumerated(["One.", "two."]) == "One; two"
    assert words.enumerated([]) == ""


def test_vs_code_gives_the_path_of_the_notebook(exercise, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert suite._notebook_language() == ""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__vsc_ipynb_file__", str(exercise.edition("zh_CN")), raising=False)
    assert suite._notebook_language() == "zh_CN"


# Where submissions come in.


def taken(course, exercise, files):
    """Return what is graded of a submission with these files, and what is said of it."""
    folder = course.root / "taken" / "ada" / exercise.name
    shutil.rmtree(folder.parent, ignore_errors=True)
    for name, (language, answers, time) in files.items():
        path = exercise.edition(language) if language else exercise.notebook
        os.utime(write(folder / name, read(path), answers), (time, time))
    unit = Submission("ada", exercise, folder).read(Limits())
    return unit.notebook, [str(note) for note in unit.notes]


@pytest.mark.parametrize(
    "files, which, message",
    [
        ({CHINESE: ("zh_CN", WRONG, 9)}, CHINESE, ""),
        ({"01-TOY.ZH.ipynb": ("zh_CN", WRONG, 9)}, "01-TOY.ZH.ipynb", "graded all the same"),
        # as given out, though saved later
        ({CHINESE: ("zh_CN", WRONG, 5), ENGLISH: ("", {}, 9)}, CHINESE, ""),
        ({CHINESE: ("zh_CN", {}, 9), ENGLISH: ("", WRONG, 5)}, ENGLISH, ""),
        ({CHINESE: ("zh_CN", {}, 9), ENGLISH: ("", {}, 5)}, ENGLISH, ""),
        (
            {CHINESE: ("zh_CN", WRONG, 9), ENGLISH: ("", RIGHT, 5)},
            CHINESE,
            f"{CHINESE}, which was saved last",
        ),
        (
            {CHINESE: ("zh_CN", WRONG, 5), ENGLISH: ("", RIGHT, 9)},
            ENGLISH,
            f"{ENGLISH}, which was saved last",
        ),
        # one and the same
        ({CHINESE: ("zh_CN", WRONG, 9), ENGLISH: ("zh_CN", WRONG, 5)}, CHINESE, ""),
        (
            {"张三.ipynb": ("zh_CN", WRONG, 9)},
            "张三.ipynb",
            "张三.ipynb; it was graded all the same",
        ),
    ],
)
def test_one_notebook_is_graded_whatever_its_language(course, exercise, files, which, message):
    notebook, notes = taken(course, exercise, files)
    assert notebook == which and (message in " ".join(notes) if message else not notes)


@pytest.mark.parametrize(
    "name, language",
    [
        (CHINESE, (exercise_name := "01-toy", "zh")),
        (ENGLISH, (exercise_name, "")),
        ("01-toy.zh.IPYNB", (exercise_name, "zh")),
        ("01-toy.tests.ipynb", ("01-toy.tests", "")),
    ],
)
def test_a_file_says_its_language(name, language):
    assert edition_of(name) == language


def collected(course, tmp_path, files):
    """Return what `collect` makes of a zip: students' notebooks by name, and what could not be
    placed.
    """
    path = tmp_path / "handed.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for name, (source, answers) in files.items():
            zipped.writestr(name, write(tmp_path / "own.ipynb", read(source), answers).read_bytes())
    submitted = tmp_path / "submitted"
    collector = Collector(Exercises(course.exercises()), None, "", submitted, Limits())
    with opened(path) as source:
        plan = collector.plan([source])
        collector.write(plan.to_write)
    collected_files = {
        path.relative_to(submitted).as_posix(): path.read_text("utf-8")
        for path in submitted.rglob("*.ipynb")
    }
    return collected_files, plan.unplaced


def test_collect_takes_it_for_the_exercise(course, exercise, tmp_path):
    zh, en = exercise.edition("zh_CN"), exercise.notebook
    files, unplaced = collected(course, tmp_path, {
        "ada_01-toy.zh.ipynb": (zh, WRONG),
        "bob/01-toy.zh.ipynb": (zh, WRONG), "bob/01-toy.ipynb": (en, {}),
        "cai/01-toy.zh (1).ipynb": (zh, WRONG),
    })  # fmt: skip
    assert sorted(files) == [f"{student}/01-toy/01-toy.ipynb" for student in ("ada", "bob", "cai")]
    assert [path for path, _ in unplaced] == [
        "handed.zip: bob/01-toy.ipynb"
    ] and "has no answer" in unplaced[0][1]
    assert all(words.language_of(json.loads(text)) == "zh_CN" for text in files.values())


# Graded.


@pytest.fixture(scope="module")
def graded(course, exercise, tmp_path_factory):
    """A class whose students write in one language or the other; by student, the page and the
    record.
    """
    into = tmp_path_factory.mktemp("graded")
    submitted = into / "submitted"
    zh, en = exercise.edition("zh_CN"), exercise.notebook
    hand_ins = {
        "wen": (CHINESE, zh, WRONG), "eve": (ENGLISH, en, WRONG),
        "wei": (CHINESE, zh, RIGHT), "ann": (ENGLISH, en, RIGHT),
        "odd": (CHINESE, zh, WRONG),
    }  # fmt: skip
    for student, (name, source, answers) in hand_ins.items():
        path = write(submitted / student / "01-toy" / name, read(source), answers)
        if student == "odd":
            path.write_text(path.read_text("utf-8").replace('"zh_CN"', '"<script>"'), "utf-8")
    (submitted / "bad" / "01-toy").mkdir(parents=True)
    (submitted / "bad" / "01-toy" / CHINESE).write_text("no notebook")
    arguments = [
        "grade",
        "--course",
        str(course.root),
        "--into",
        str(into),
        "--submitted",
        str(submitted),
    ]
    result = CliRunner().invoke(
        cli.app, [*arguments, "--no-sandbox", "--jobs", "1"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return {
        student: (
            BeautifulSoup(
                (into / "feedback" / student / "01-toy" / "01-toy.html").read_text("utf-8"),
                "html.parser",
            ),
            json.loads(
                (into / "autograded" / student / "01-toy" / "grade.json").read_text("utf-8")
            ),
        )
        for student in (*hand_ins, "bad")
    }


@pytest.mark.slow
def test_both_languages_are_worth_the_same(graded):
    for ours, theirs in (("eve", "wen"), ("ann", "wei"), ("eve", "odd")):
        assert graded[ours][1]["score"] == graded[theirs][1]["score"] > 0
        assert graded[theirs][1]["kind"] in ("right", "wrong") and not graded[theirs][1]["evidence"]
    assert graded["wen"][1]["repairs"] == graded["eve"][1]["repairs"]  # no text was put back
    assert graded["bad"][1]["kind"] == "malformed"


@pytest.mark.slow
def test_each_student_reads_their_own_language(graded):
    page, text = graded["wen"][0], graded["wen"][0].get_text(" ", strip=True)
    assert page.html["lang"] == "zh-CN" and page.h1.text == "※Toy"
    assert "※Where points were lost" in text and "※Each element is the sum of the two." in text
    assert "※Likely cause: ※subtracted instead of added." in text and "※You subtract." in text
    assert NOT_YET in text and f"※{NOT_YET}" not in text
    assert graded["eve"][0].html["lang"] == "en" and "※" not in graded["eve"][0].text


@pytest.mark.slow
def test_what_says_no_language_by_its_cells_does_by_its_name(graded):
    assert (
        graded["odd"][0].html["lang"] == "zh-CN"
        and graded["odd"][1]["repairs"] == graded["wen"][1]["repairs"]
    )
    assert graded["bad"][0].html["lang"] == "zh-CN" and graded["bad"][0].h1.text == "※Toy"


@pytest.mark.slow
def test_table_and_report_are_in_the_graders_language(course, exercise, tmp_path, monkeypatch):
    """Whatever the students write in; programs read English."""
    write(tmp_path / "submitted" / "eve" / "01-toy" / ENGLISH, read(exercise.notebook), WRONG)
    (tmp_path / "submitted" / "non" / "01-toy").mkdir(parents=True)

    # a process of its own: workers have the language with which their server began
    def run(command, *arguments):
        line = [
            sys.executable,
            "-m",
            "autograder",
            command,
            "--course",
            str(course.root),
            "--into",
            str(tmp_path),
        ]
        return subprocess.run([*line, *arguments], cwd=ROOT, capture_output=True, text=True).stdout

    monkeypatch.setenv("LANGUAGE", "zh_CN")
    grade = ("grade", "--submitted", str(tmp_path / "submitted"), "--no-sandbox", "--jobs", "1")
    table = " ".join(run(*grade).replace("│", " ").split())  # whatever the width of the console
    for phrase in (
        "※Student",
        "※Lost to",
        "※likely cause: ※subtracted instead of added",
        "※malformed",
        "※Graded 2",
    ):
        assert phrase in table
    assert "※" not in run(*grade, "--json") and "※" not in run("report", "--json")
    page = BeautifulSoup((tmp_path / "report.html").read_text("utf-8"), "html.parser")
    assert page.html["lang"] == "zh-CN" and page.h1.text == "※Class report"
    assert page.find("th", attrs={"data-by": "who"}).text == "※Student"
    columns = json.loads(page.find(id="data").string)["parts"][0]["columns"]
    assert "※Each element is the sum of the two." in [title for _, _, title in columns]
    missing = BeautifulSoup(
        (tmp_path / "feedback/non/01-toy/01-toy.html").read_text("utf-8"), "html.parser"
    )
    words = missing.get_text(" ", strip=True)
    assert missing.h1.text == "※Toy" and f"{ENGLISH} or {CHINESE}" in words.replace("※", "")
    assert "※Submit your notebook again" in words and "Open your notebook" not in words


def test_check_and_nbgrader_know_it(course, exercise, tmp_path, monkeypatch):
    path = write(tmp_path / "01-toy" / CHINESE, read(exercise.edition("zh_CN")), WRONG)
    result = CliRunner().invoke(
        cli.app, ["check", str(path), "--course", str(course.root)], catch_exceptions=False
    )
    assert (
        result.exit_code == 0
        and "※subtracted instead of added" in result.output
        and "3 of 6 points" in result.output
    )
    assert "※Running your cells" in result.output and "※Toy" in result.output
    monkeypatch.chdir(course.root)
    notebooks = [str(path)]
    nbgrader_plugin.under_its_name("01-toy", "ada", notebooks)
    assert notebooks == [str(tmp_path / "01-toy" / ENGLISH)]
    assert Path(notebooks[0]).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_nbgrader_commands_grade_a_notebook_in_its_language(tmp_path):
    course = toy_course(tmp_path / "course", settings="\nc.Run.sandbox = False\n")
    text = course.sources()[0].text
    text.write_text(TITLE + text.read_text(encoding="utf-8"), encoding="utf-8")
    write_catalogs(course.root)
    release(course, course.sources()[0])
    (toy,) = course.exercises()
    zh, en = toy.edition("zh_CN"), toy.notebook
    submitted = course.root / "submitted"
    write(submitted / "ada" / "01-toy" / CHINESE, read(zh), WRONG)
    write(submitted / "bob" / "01-toy" / CHINESE, read(zh), RIGHT)
    write(submitted / "bob" / "01-toy" / ENGLISH, read(en))
    write(submitted / "cai" / "01-toy" / ENGLISH, read(en), WRONG)
    for command in ("autograde", "generate_feedback"):
        subprocess.run(
            [sys.executable, "-m", "nbgrader", command, "01-toy"], cwd=course.root, check=True
        )
    with Gradebook(course.db_url, course.course_id) as book:
        assert [notebook.name for notebook in book.find_assignment("01-toy").notebooks] == [
            "01-toy"
        ]
        assert {who: book.find_submission("01-toy", who).score for who in ("ada", "bob", "cai")} == {
            "ada": 3.0, "bob": 6.0, "cai": 3.0,
        }  # fmt: skip
    pages = {
        path.parents[1].name: path.read_text("utf-8")
        for path in course.root.glob("feedback/*/*/*.html")
    }
    assert {who: 'lang="zh-CN"' in page for who, page in pages.items()} == {
        "ada": True,
        "bob": True,
        "cai": False,
    }


# The catalogs of this course.


CATALOGUES = list(catalogs.files(ROOT))


SEVERAL = {"context", "memory", "value"}
"""Terms that are also other things: an argument in code, a decoder's memory, the value of a key."""


@pytest.mark.slow
@pytest.mark.parametrize("language", catalogs.languages(ROOT))
def test_one_thing_has_one_term(language):
    """Where English has a term in words, its translation has the one of terms.toml, but for
    turns of phrase.
    """
    terms = tomllib.loads((ROOT / "locale" / language / "terms.toml").read_text(encoding="utf-8"))[
        "terms"
    ]
    pairs = []
    for path in CATALOGUES:
        if path.parents[2].name == language:
            with path.open("rb") as file:
                pairs += [
                    (str(entry.id), str(entry.string))
                    for entry in read_po(file, locale=language)
                    if entry.id and entry.string
                ]
    plain = [
        (re.sub(r"`[^`]*`|\$[^$]*\$|\{\w+\}", " ", text).lower(), translation.lower())
        for text, translation in pairs
    ]
    for term, wanted in terms.items():
        if "(" not in term and term not in SEVERAL:
            translations_of_term = [
                translation
                for text, translation in plain
                if re.search(rf"\b{re.escape(term.lower())}s?\b", text)
            ]
            without = [
                translation
                for translation in translations_of_term
                if wanted.lower() not in translation
            ]
            assert len(without) <= max(3, len(translations_of_term) // 10), (term, wanted, without)


def test_sentences_of_checks_can_be_translated():
    """An f-string is put together before anybody could look it up."""
    for path in sorted(ROOT.glob("solutions/*/checks.py")):
        assert not list(sentences.faults(ast.parse(path.read_text(encoding="utf-8")))), path


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ('expect_close(a, b, because=f"the sum is {a}")', [1]),
        ('expect_array(a, (1,), what=f"the sum of {a}")', [1]),
        ('raise Failed(f"the sum is {a}")', [1]),
        ('raise Failed(Message(f"the sum is {a}"))', [1]),
        ('expect(\n    ok,\n    f"the sum is {a}",\n)', [3]),
        ('expect(ok, "right" if a else f"the sum is {a}")', [1]),
        ('def f(a):\n    said = f"the sum is {a}"\n    expect(a, said)', [2]),
        ('def f(a):\n    said = f"the sum is {a}"\n\ndef g(said):\n    expect(a, said)', []),
        ('expect_close(a, b, what=f"d{name}")', []),
        ('expect_ratio(f, f"num_heads = {h}")', []),
        ('raise ValueError(f"the sum is {a}")', []),
        ('Message("{left} and {right}", left=f"{a:g}")', [1]),
        ('Message("{left} and {right}", **values)', []),
        ('counted("{count} number of {n}", "{count} numbers of {n}", 3, n=1)', []),
    ],
)
def test_a_sentence_that_cannot_be_translated_is_found(code, lines):
    assert [line for line, _ in sentences.faults(ast.parse(code))] == lines


@pytest.mark.slow
def test_a_text_is_in_one_catalogue():
    found = translations.texts_by_catalog(ROOT)
    for kind in (catalogs.EXERCISES, catalogs.FEEDBACK):
        texts = [text for name, given in found.items() if name.startswith(kind) for text in given]
        assert len(texts) == len(set(texts)) and len(texts) > 100


@pytest.mark.slow
def test_what_the_engine_says_is_found():
    texts = translations.texts_by_catalog(ROOT)["feedback/autograder"]
    for text in (
        "right",
        "FAILED",
        "expected",
        "returns nothing",
        "Your notebook",
        "it ended Python.",
    ):
        assert text in texts
    assert ("{count} number", "{count} numbers") in texts
    assert str(CellResult(0.0, 1.0).error) == ""


def test_texts_that_a_loop_goes_through_are_found():
    """Relations name what they found by such texts: of a table, of pairs, and no others."""
    engine = translations.engine_texts()
    assert {
        "in absolute values",
        "the square of the expected one",
    } < {text for text in engine if isinstance(text, str)}
    assert "1 / ln 2" not in engine


def test_texts_under_an_annotated_name_are_found(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        "HINTS: dict[str, str] = {'a': 'swap the axes'}\n"
        "TITLES = {'a': 'The two axes'}\n"
        "OTHERS: dict[str, str] = {'a': 'never passed'}\n"
        "UNSET: str\n"
        "def hint(name):\n    return Message(HINTS[name], title=translated(TITLES[name]))\n"
    )
    never = re.compile("(?!)")
    assert translations.in_python(module, never) == ["swap the axes", "The two axes"]

"""The pages for instructors: made of the recorded counts, the limits and the benchmarks."""

import dataclasses
import html as entities
import importlib
import json
import re
import shutil
import sys

import pytest
from benchmark_tools import MEASURED
from book_pages import visit, watch
from sphinx.testing.util import SphinxTestApp

from autograder.course.config import ROOT
from autograder.course.limits import Limits
from autograder.grades.results import Kind

KINDS = [kind for kind in Kind if kind != Kind.RIGHT]
EXTENSIONS = ROOT / "book" / "_ext"
COUNTS = json.loads((ROOT / "book" / "data" / "hostile.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The two pages alone, built as `built(results)` with those benchmarks: their HTML, and what
    Sphinx warns of.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(EXTENSIONS), *sys.path])
        grading = importlib.import_module("grading")

        def build(results=None):
            root = tmp_path_factory.mktemp("pages")
            (root / "book").mkdir()
            (root / "exercises" / "99-new").mkdir(parents=True)
            (root / "exercises" / "99-new" / "99-new.ipynb").touch()
            myst = 'myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]\n'
            myst += 'exclude_patterns = ["benchmarks"]\n'
            (root / "conf.py").write_text(
                f"extensions = ['myst_parser', 'corpus', 'grading']\n{myst}"
            )
            (root / "index.md").write_text(
                "# Book\n\n```{toctree}\nbook/grading\nbook/collecting\nbook/hostile\n```\n"
            )
            pictures = "book/_static/pictures"
            shutil.copytree(ROOT / pictures, root / pictures)
            names = ("grading", "collecting", "hostile")
            linked = set()
            for name in names:
                shutil.copy(ROOT / "book" / f"{name}.md", root / "book")
                linked |= set(
                    re.findall(r"\]\(([\w-]+)\.md", (root / "book" / f"{name}.md").read_text())
                )
            for name in linked.difference(names):  # pages that need more than this to be built
                (root / "book" / f"{name}.md").write_text(f"---\norphan: true\n---\n\n# {name}\n")
            patch.setattr(grading, "BENCHMARKS", root / "benchmarks")
            shutil.copytree(
                ROOT / "benchmarks", root / "benchmarks", ignore=shutil.ignore_patterns("*.json")
            )
            if results:
                (root / "benchmarks" / "results.json").write_text(json.dumps(results))
            app = SphinxTestApp(srcdir=root, builddir=root / "_build")
            try:
                app.build()
                pages = [
                    (root / "_build" / "html" / "book" / f"{name}.html")
                    for name in ("grading", "hostile")
                ]
                return *(page.read_text() for page in pages), app.warning.getvalue()
            finally:
                app.cleanup()

        yield build


@pytest.fixture(scope="module")
def pages(built):
    return built()


def rows(page, name):
    """Return the cells' texts of the rows of the first table of a class."""
    table = re.search(rf'<table class="[^"]*\b{name}\b.*?</table>', page, re.DOTALL)[0]
    table = re.findall(r"<tr.*?</tr>", table.partition("<tbody>")[2], re.DOTALL)
    return [[text(cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)] for row in table]


def text(part):
    """Return the text of a part of a page, with plain quotation marks."""
    cell_text = entities.unescape(re.sub(r"<[^>]+>", " ", part)).translate(
        str.maketrans("’“”", '\'""')
    )
    return " ".join(cell_text.split())


def test_nothing_is_warned_of(pages):
    assert not pages[2]


def test_the_tables_have_the_recorded_counts(pages):
    _, page, _ = pages
    groups, stock = COUNTS["groups"], COUNTS["stock"]
    *by_group, total = rows(page, "abh-summed")
    columns = ["cases", Kind.RIGHT, *KINDS[:4]]
    for row in by_group:
        assert sum(int(cell) for cell in row[2:] if cell != "–") == int(row[1])
    assert {tuple(row[1:]) for row in by_group} == {
        tuple(str(counts.get(column, "–")) for column in columns) for counts in groups.values()
    }
    cases = sum(counts["cases"] for counts in groups.values())
    assert total[1] == str(cases) and f"The same {cases} submissions" in text(page)
    assert f"Recorded until {stock['date']} with nbgrader {stock['nbgrader']}" in text(page)
    for outcome, words in (("more", "more points than earned"), ("ungraded", "no grade")):
        assert f"{words} {stock['outcomes'][outcome]}" in text(page)


def test_the_limits_are_those_of_the_engine(pages):
    said_as = {"no": False, "yes": True}
    shown = {
        name: (said_as[value] if value in said_as else float(value), meaning)
        for name, value, meaning in rows(pages[0], "abh-limits")
    }
    plain = str.maketrans("’“”", '\'""')
    assert {
        name: (value, shown_text.translate(plain)) for name, (value, shown_text) in shown.items()
    } == {
        limit.name: (limit.default, limit.metadata["help"]) for limit in dataclasses.fields(Limits)
    }


def test_every_kind_is_explained(pages):
    source = (ROOT / "autograder" / "grades" / "results.py").read_text(encoding="utf8")
    for kind in KINDS:
        assert f'"{kind}"' in source
        section = pages[0].partition(f'id="kind-{kind}"')[2].partition("</section>")[0]
        assert [text(term) for term in re.findall(r"<dt>.*?</dt>", section, re.DOTALL)] == [
            "What it means",
            "What the student reads",
            "What to do",
        ], kind


def test_what_the_page_quotes_is_what_is_said(pages):
    engine = (ROOT / "autograder").rglob("*.py")
    source = " ".join("".join(path.read_text() for path in engine).split())
    for words in (
        "Submissions cannot be isolated on this machine",
        "is not a notebook: it is not valid JSON",
        "it computed for more than",
        "it ended Python",
    ):
        assert words in text(pages[0]) and words in source


def test_benchmarks_are_shown_where_there_are_any(built, pages):
    assert "This has not been measured on this checkout" in text(pages[0])
    page, _, warned = built(MEASURED)
    assert not warned
    assert "This has not been measured" not in page and "21.0 s (9.5/s)" in text(page)
    assert "Not measured yet: 99-new." in text(page)


@pytest.mark.slow
@pytest.mark.browser
def test_the_pages_are_in_the_book(page, site):
    trouble = watch(page, site)
    visit(page, site, "index")
    for name, title in (("grading", "Grading a class"), ("hostile", "What submissions were tried")):
        assert page.locator("nav.bd-links").get_by_role("link", name=title).count() == 1
        visit(page, site, name)
        assert page.locator("article.bd-article h1").inner_text().startswith(title)
    page.set_viewport_size({"width": 360, "height": 740})
    visit(page, site, "hostile")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not trouble

"""The instructor's pages: made of the corpus, the recording, the limits and the benchmarks as
they are.
"""

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

from autograder.corpus import CASES, GROUPS, recorded
from autograder.course.config import ROOT
from autograder.course.limits import Limits
from autograder.grades.results import Kind

KINDS = [kind for kind in Kind if kind != Kind.RIGHT]
EXTENSIONS = ROOT / "book" / "_ext"
STOCK = recorded()
UNEARNED = {
    case.name
    for case in CASES
    if any(
        (STOCK["cases"][case.name]["points"][name] or 0) > earned
        for name, earned in case.points.items()
    )
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The two pages alone, built as `built(results)` with those benchmarks: their HTML, and what
    Sphinx warns of.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(EXTENSIONS), *sys.path])
        grading = importlib.import_module("grading")

        def build(results=None, more=""):
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
            own = ("grading", "collecting", "hostile")
            linked = set()
            for name in own:
                shutil.copy(ROOT / "book" / f"{name}.md", root / "book")
                linked |= set(
                    re.findall(r"\]\(([\w-]+)\.md", (root / "book" / f"{name}.md").read_text())
                )
            for name in linked.difference(own):  # pages that need more than this to be built
                (root / "book" / f"{name}.md").write_text(f"---\norphan: true\n---\n\n# {name}\n")
            (root / "book" / "hostile.md").open("a").write(more)
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
    found = re.search(rf'<table class="[^"]*\b{name}\b.*?</table>', page, re.DOTALL)[0]
    found = re.findall(r"<tr.*?</tr>", found.partition("<tbody>")[2], re.DOTALL)
    return [[text(cell) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)] for row in found]


def text(part):
    """Return the text of a part of a page, with plain quotation marks."""
    own = entities.unescape(re.sub(r"<[^>]+>", " ", part)).translate(str.maketrans("’“”", '\'""'))
    return " ".join(own.split())


def test_nothing_is_warned_of(pages):
    assert not pages[2]


def test_every_case_has_its_row(pages):
    _, page, _ = pages
    assert len(re.findall(r"<details class=\"abh-cases\"", page)) == len(GROUPS)
    assert page.count("<td><p>") >= len(CASES)
    shown = re.findall(r'<table class="[^"]*abh-corpus.*?</table>', page, re.DOTALL)
    names = [
        name
        for part in shown
        for name in re.findall(r"<code[^>]*><span " r'class="pre">([^<]+)</span></code>', part)
    ]
    assert sorted(names) == sorted(case.name for case in CASES)
    assert sum(len(re.findall("<tr", part.partition("<tbody>")[2])) for part in shown) == len(CASES)


def test_a_row_says_what_a_case_must_get_and_what_was_recorded(pages):
    _, page, _ = pages
    first = rows(page, "abh-corpus")
    by_name = {case.name: case for case in CASES}
    for number, does, here, there in first:
        case = by_name[does.split()[-1]]
        assert number == str(case.row) and case.does[1:] in does
        assert here.startswith(f"{sum(case.points.values()):g} of 6 {case.kind}")
        own = STOCK["cases"][case.name]
        got = sum(points or 0 for points in own["points"].values())
        assert there.startswith("no grade" if own["ungraded"] else f"{got:g} of 6")
        assert ("more than earned" in there) == (case.name in UNEARNED)
        same = not own["ungraded"] and own["points"] == case.points
        harmed = own["altered"] or own["left_behind"] or own["no_page"]
        assert there.endswith("the same") == bool(same and not harmed)


def test_the_summary_counts_what_the_rows_say(pages):
    _, page, _ = pages
    counts = rows(page, "abh-summed")
    assert counts[-1][1] == str(len(CASES))
    for row, cases in zip(counts, GROUPS.values(), strict=False):
        kinds = [
            str(sum(case.kind == kind for case in cases) or "–")
            for kind in (Kind.RIGHT, *KINDS[:4])
        ]
        assert row[1:] == [str(len(cases)), *kinds]
    assert f"Recorded until {STOCK['date']} with nbgrader {STOCK['nbgrader']}" in text(page)
    assert f"more points than earned {len(UNEARNED)}" in text(page)
    assert f"no grade {sum(own['ungraded'] for own in STOCK['cases'].values())}" in text(page)


def test_the_limits_are_those_of_the_engine(pages):
    said_as = {"no": False, "yes": True}
    shown = {
        name: (said_as[value] if value in said_as else float(value), meaning)
        for name, value, meaning in rows(pages[0], "abh-limits")
    }
    plain = str.maketrans("’“”", '\'""')
    assert {name: (value, said.translate(plain)) for name, (value, said) in shown.items()} == {
        limit.name: (limit.default, limit.metadata["help"]) for limit in dataclasses.fields(Limits)
    }


def test_every_kind_is_explained(pages):
    source = (ROOT / "autograder" / "grades" / "results.py").read_text(encoding="utf8")
    for kind in KINDS:
        assert f'"{kind}"' in source
        own = pages[0].partition(f'id="kind-{kind}"')[2].partition("</section>")[0]
        assert [text(term) for term in re.findall(r"<dt>.*?</dt>", own, re.DOTALL)] == [
            "What it means",
            "What the student reads",
            "What to do",
        ], kind


def test_what_the_page_quotes_is_what_is_said(pages):
    engine = [path for path in (ROOT / "autograder").rglob("*.py") if "corpus" not in path.parts]
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


def test_an_unknown_group_is_warned_of(built):
    assert "no group 'nobody'" in built(more="\n```{corpus} nobody\n```\n")[2]


@pytest.mark.slow
@pytest.mark.browser
def test_the_pages_are_in_the_book_and_unfold_without_network(page, site):
    trouble = watch(page, site)
    visit(page, site, "index")
    for name, title in (("grading", "Grading a class"), ("hostile", "What submissions were tried")):
        assert page.locator("nav.bd-links").get_by_role("link", name=title).count() == 1
        visit(page, site, name)
        assert page.locator("article.bd-article h1").inner_text().startswith(title)
    page.set_viewport_size({"width": 360, "height": 740})
    visit(page, site, "hostile")
    assert page.locator(".abh-corpus tbody tr").count() == len(CASES)
    for details in page.locator("details.abh-cases").all():
        summary, row = details.locator("summary"), details.locator("tbody tr").first
        assert not row.is_visible()
        summary.focus()
        page.keyboard.press("Enter")
        assert row.is_visible()
        frame = details.locator("table").locator("..")
        assert frame.evaluate("e => e.scrollWidth > e.clientWidth && e.tabIndex === 0")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert not trouble


@pytest.mark.slow
@pytest.mark.browser
def test_the_cases_can_be_narrowed_down(page, site):
    visit(page, site, "hostile")
    seen = page.locator(".abh-corpus tbody tr:visible")
    assert seen.count() == 0
    page.get_by_label("Kind here").select_option("limit")
    limits = sum("limit" in (case.kind, case.may) for case in CASES)
    assert (
        seen.count() == limits
        and f"{limits} of {len(CASES)}" in page.locator(".abh-filter output").inner_text()
    )
    page.get_by_label("Text", exact=True).fill(CASES[0].name)
    page.get_by_label("Kind here").select_option("")
    assert CASES[0].name in seen.first.inner_text()
    page.get_by_label("Text", exact=True).fill("")
    assert seen.count() == 0

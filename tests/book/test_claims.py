"""The claims extension: what it warns of, and that the built ledger leads to the evidence."""

import re
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.testing.util import SphinxTestApp

from autograder.authoring import chapters
from autograder.course.config import ROOT

BOOK = ROOT / "book"
ROWS = chapters.claims(BOOK.parent)
CLAIM = """
```{{claim}} {name}
:verdict: {verdict}
:cell: the-cell
Evidence.
```
"""


def warnings_of(tmp_path, *claims):
    """Build a book of one chapter, 01, with these claims (id, verdict) in it; return what Sphinx
    warns of.
    """
    source = tmp_path / "source"
    (source / "book").mkdir(parents=True)
    (source / "conf.py").write_text(
        "extensions = ['myst_parser', 'claims']\nexclude_patterns = []\n"
    )
    (source / "index.md").write_text("# Book\n\n```{toctree}\nbook/01-qkv\nbook/claims\n```\n")
    chapter = "".join(CLAIM.format(name=name, verdict=verdict) for name, verdict in claims)
    (source / "book" / "01-qkv.md").write_text(f"# One\n\n(the-cell)=\n## Cell\n{chapter}")
    (source / "book" / "claims.md").write_text(
        "# Claims\n\n{claims-count}`answered` of {claims-count}`all`, {claims-count}`wrong` wrong; "
        "{claims-count}`verdicts` verdicts, {claims-count}`twice` twice\n\n"
        "```{claims-ledger}\n```\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BOOK / "_ext"), *sys.path])
        app = SphinxTestApp(srcdir=source, builddir=tmp_path / "build")
        try:
            app.build()
            page = (Path(app.outdir) / "book" / "claims.html").read_text(encoding="utf-8")
            return app.warning.getvalue(), page
        finally:
            app.cleanup()


ALL = [(name, "holds") for name, row in ROWS.items() if "01" in [str(c) for c in row["chapters"]]]


def test_a_chapter_that_answers_all_its_rows_is_quiet(tmp_path):
    warnings, page = warnings_of(tmp_path, *ALL)
    assert "claim" not in warnings, warnings
    assert all(re.search(rf'href="01-qkv\.html#claim-{name.lower()}"', page) for name, _ in ALL)


def test_the_ledger_counts_what_is_answered_and_lists_what_is_not(tmp_path):
    _said, page = warnings_of(tmp_path, *ALL[:-1], (ALL[-1][0], "wrong: not so"))
    assert f"{len(ALL)} of {len(ROWS)}, 1 wrong" in page
    assert f"{len(ROWS) - len(ALL)} statements that no chapter answers yet" in page
    waiting = page[page.index("<details") : page.index("</details>")]
    assert waiting.count("<li>") == len(ROWS) - len(ALL)
    shown = re.findall(r'href="01-qkv\.html#claim-(\w+)"', page)
    # the wrong one, then as the chapter has them
    assert shown == [name.lower() for name, _ in (ALL[-1], *ALL[:-1])]


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        (ALL[1:], f"{ALL[0][0]}"),
        ([*ALL, ("Z9", "holds")], "'Z9' is in no chapter's entries.md"),
        ([*ALL, ALL[0]], "is answered twice"),
        ([(ALL[0][0], "maybe"), *ALL[1:]], "needs :verdict:"),
    ],
    ids=["forgotten", "unknown", "twice", "no verdict"],
)
def test_a_fault_is_a_warning(tmp_path, claims, says):
    warnings, _ = warnings_of(tmp_path, *claims)
    assert says in warnings


@pytest.mark.parametrize(
    ("evidence", "quiet"), [("Evidence.", False), ("See {{cite:t}}`vaswani2017`.", True)]
)
def test_evidence_is_a_cell_or_a_paper(tmp_path, monkeypatch, evidence, quiet):
    monkeypatch.setattr(
        sys.modules[__name__], "CLAIM", CLAIM.replace(":cell: the-cell\nEvidence.", evidence)
    )
    warnings, _ = warnings_of(tmp_path, *ALL)
    assert ("needs :verdict:" not in warnings) == quiet


def test_the_verdicts_of_the_built_book_add_up(html):
    page = (html / "book" / "claims.html").read_text(encoding="utf-8")
    text = " ".join(re.sub(r"<[^>]+>", "", page).split())
    stated, answered = map(
        int, re.search(r"They make (\d+) statements .*? answer (\d+) of them", text).groups()
    )
    twice = int(re.search(r"(\d+) statements belong to two chapters", text)[1])
    verdicts = int(re.search(r"(\d+), of which", text)[1])
    kinds = [
        int(re.search(rf"(\d+) are {name}", text)[1]) for name in ("holds,", "holds when", "wrong")
    ]
    tables = page[page.index('class="abh-ledger') :].partition('<section id="the-five-documents"')[
        0
    ]
    shown = re.findall(r'href="[\w-]+\.html#claim-(\w+)"', tables)
    assert stated == answered == len(ROWS)
    assert verdicts == sum(kinds) == answered + twice
    assert len(shown) == verdicts
    assert {name.upper() for name in shown} == set(ROWS)


def test_the_built_ledger_leads_with_what_is_wrong_in_the_order_of_the_chapters(html):
    ledger = BeautifulSoup(
        (html / "book" / "claims.html").read_text(encoding="utf-8"), "html.parser"
    )
    tables = ledger.select("table.abh-ledger")
    assert [table["class"][1] for table in tables] == [
        "abh-ledger-wrong",
        "abh-ledger-when",
        "abh-ledger-holds",
    ]
    for table, words in zip(tables, ("wrong", "holds when", "holds"), strict=True):
        rows = table.select("tbody tr")
        assert {row.select_one("td:nth-child(2) strong").get_text() for row in rows} == {words}
        chapters_of = [
            re.match(r"(\d\d)-", row.select_one("a[href*='#claim-']")["href"])[1] for row in rows
        ]
        assert chapters_of == sorted(chapters_of)
        assert all(
            f"abh-of-{chapter}" in row["class"]
            for chapter, row in zip(chapters_of, rows, strict=True)
        )


@pytest.mark.long
@pytest.mark.parametrize("edition", ["", "/zh"])
def test_the_ledger_is_filtered_by_verdict_and_chapter_and_is_whole_without_a_script(
    browser, site, edition
):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}{edition}/book/claims.html")
    rows = page.locator("table.abh-ledger tbody tr:visible")
    whole = rows.count()
    assert whole > 80 and not page.locator(".abh-ledger-filter").is_visible()
    context.close()
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(f"{site}{edition}/book/claims.html")
    rows = page.locator("table.abh-ledger tbody tr:visible")
    filtered = page.locator(".abh-ledger-filter")
    assert rows.count() == whole and f"{whole}" in filtered.locator("output").inner_text()
    filtered.locator("input[value=wrong]").check()
    wrong = rows.count()
    assert 0 < wrong < whole and page.locator(".abh-ledger-kind:visible").count() == 1
    assert rows.count() == page.locator("table.abh-ledger-wrong tbody tr").count()
    filtered.locator("select").select_option("01")
    links = rows.locator("a[href*='#claim-']").evaluate_all(
        "links => links.map((a) => a.getAttribute('href'))"
    )
    assert 0 < len(links) < wrong and all(link.startswith("01-") for link in links)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_the_ledger_of_the_built_book_leads_to_box_and_cell(html):
    ledger = (html / "book" / "claims.html").read_text(encoding="utf-8")
    links = re.findall(r'href="(01-qkv(?:-deeper)?)\.html#([^"]+)"', ledger)
    assert {f"claim-{name.lower()}" for name, _ in ALL} <= {anchor for _, anchor in links}
    assert "mathjax/tex-chtml.js" in ledger, "its formulas come from the chapters"
    for chapter, anchor in links:
        page = (html / "book" / f"{chapter}.html").read_text(encoding="utf-8")
        assert f'id="{anchor}"' in page, f"{chapter} has no {anchor}"

"""The book as a PDF: bookmarks, numbers and links in the order of the table of contents, nothing
beyond the paper.
"""

import re
import runpy
import shutil
import unicodedata

import chromium
import editions
import pdf
import pytest
import yaml

from autograder.course.config import ROOT

LANGUAGES = [editions.SOURCE, *editions.languages()]
SOME = ("01-qkv.html", "01-qkv-deeper.html", "02-scaling.html", "cheatsheet.html")
WIDTH = 658
"""The pixels of a line on A4 with its margins."""
BEYOND = """() => [...document.querySelectorAll(".bd-article *")]
    .filter((one) => !one.closest("mjx-container, svg") && one.getBoundingClientRect().width > 1)
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1
                     || (getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth + 2))
    .map((one) => `${one.tagName} ${one.textContent.trim().slice(0, 60)}`)"""
"""What is wider than the paper, or cut off at its edge."""


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_page_of_the_chapters_is_printed_in_its_order_and_none_for_instructors(language):
    chapters = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))["parts"][0][
        "chapters"
    ]
    wanted = [
        file
        for chapter in chapters
        for file in (chapter["file"], *(below["file"] for below in chapter["sections"]))
    ]
    first = {chapter["file"] for chapter in chapters}
    pages = list(pdf.pages(language))
    assert [
        re.sub(r"^/(zh/)?|\.html$", "", page.address) for page in pages[: len(wanted)]
    ] == wanted
    assert [page.below for page in pages[: len(wanted)]] == [file not in first for file in wanted]
    rest = [page.address for page in pages[len(wanted) :]]
    assert any("glossary" in address for address in rest) and not any(
        "grading" in address for address in rest
    )


def test_without_chromium_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert pdf.main([]) == 1
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "apt install chromium" in errors
    assert runpy.run_path(str(ROOT / "course.py"))["CHROMIUM"] == chromium.NAMES


@pytest.fixture
def landing(tmp_path):
    """A landing page with the link."""
    page = tmp_path / "book" / "index.html"
    page.parent.mkdir()
    page.write_text(f'<p {pdf.HIDDEN}><a href="../{pdf.NAME}">PDF</a></p>', encoding="utf8")
    return page


def test_the_link_is_shown_where_there_is_a_pdf(landing):
    pdf.show_pdf(landing)
    assert "hidden" in landing.read_text(encoding="utf8")
    (landing.parent.parent / pdf.NAME).touch()
    pdf.show_pdf(landing)
    assert "hidden" not in landing.read_text(encoding="utf8")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_built_landing_page_has_the_link_and_shows_it_only_with_a_pdf(html, language):
    folder = html / editions.folder(language)
    text = (folder / "book" / "index.html").read_text(encoding="utf8")
    assert f'href="../{pdf.NAME}"' in text
    assert (pdf.HIDDEN in text) != (folder / pdf.NAME).exists()


def plain(text):
    """Return a text without spaces, and as characters what a PDF has as radicals that look the
    same.
    """
    return re.sub(r"\s", "", unicodedata.normalize("NFKC", text))


@pytest.fixture(scope="module", params=LANGUAGES)
def printed(request, browser, html, tmp_path_factory):
    """Some pages of an edition as a PDF: its reader, and the pages."""
    pypdf = pytest.importorskip("pypdf")
    some = [page for page in pdf.pages(request.param) if page.address.endswith(SOME)]
    with pytest.MonkeyPatch.context() as patch, chromium.served(html) as site:
        patch.setattr(pdf, "pages", lambda language: iter(some))
        path = pdf.print_edition(
            browser, site, request.param, tmp_path_factory.mktemp("pdf") / pdf.NAME, str
        )
    return pypdf.PdfReader(path), some, request.param


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.long
class TestPrinted:
    """What is in a PDF of some pages."""

    def test_bookmarks_are_the_pages_with_their_sections(self, printed):
        reader, some, _language = printed
        assert len(some) == len(SOME)
        top = [mark for mark in reader.outline if not isinstance(mark, list)]
        assert [mark.title for mark in top] == [page.title for page in some if not page.below]
        (below, *_others) = [marks for marks in reader.outline if isinstance(marks, list)]
        assert (
            some[1].title in [mark.title for mark in below if not isinstance(mark, list)]
            and len(below) > 5
        )
        places = [reader.get_destination_page_number(mark) for mark in top]
        assert places == [page.first for page in some if not page.below] == sorted(places)

    def test_each_page_has_its_number_and_the_contents_name_it(self, printed):
        reader, some, _language = printed
        texts = [page.extract_text() for page in reader.pages]
        for number, text in enumerate(texts, start=1):
            assert str(number) in text.split(), number
        contents = plain("".join(texts[: some[0].first]))
        assert all(plain(f"{page.title}{page.first + 1}") in contents for page in some)

    def test_all_pages_are_a4_and_links_lead_inside_or_to_the_web(self, printed):
        reader, some, _language = printed
        assert {
            tuple(round(float(size)) for size in page.mediabox[2:]) for page in reader.pages
        } == {(595, 842)}
        links = [note.get_object() for page in reader.pages for note in page.get("/Annots", ())]
        assert not [
            link for link in links if "127.0.0.1" in str(link.get("/A", {}).get("/URI", ""))
        ]
        inside = [link["/Dest"][0].get_object() for link in links if "/Dest" in link]
        assert len(inside) > len(some) and all(page in reader.pages for page in inside)


@pytest.fixture
def paper(browser, site):
    """Return a function that opens a page of the site as it is printed."""
    context = browser.new_context(viewport={"width": WIDTH, "height": 950})
    tab = context.new_page()

    def open_page(address):
        tab.emulate_media(media="screen")
        tab.goto(site + address, wait_until="networkidle")
        tab.add_style_tag(content=pdf.PAPER.format(before=0))
        tab.emulate_media(media="print")
        tab.evaluate(pdf.SETTLED)
        tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        return tab

    yield open_page
    context.close()


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_wider_than_the_paper(language, paper):
    wide = {page.address: paper(page.address).evaluate(BEYOND) for page in pdf.pages(language)}
    assert len(wide) > 30 and not {address: parts for address, parts in wide.items() if parts}


@pytest.mark.browser
@pytest.mark.slow
def test_paper_has_the_figures_and_what_folded_code_printed(paper):
    assert paper("/book/01-qkv.html").locator(".abh-figure").count() == 1
    tab = paper("/book/08-heads-deeper.html")
    folded = tab.locator("details.hide:has(> .cell_output)").first
    assert folded.locator(".cell_output").is_visible()
    assert (
        not folded.locator("summary").is_visible()
        and not folded.locator(".cell_input").is_visible()
    )

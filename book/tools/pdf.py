"""Print the built book: one PDF for each edition, next to its pages in _build/html, through
Chromium.

    python book/tools/pdf.py [language ...]

The chapters and what is at hand for them, in the order of _toc.yml; pages for instructors are not
printed. A contents page, page numbers, and bookmarks for pages and their sections. Interactive
figures are printed in their first state, and folded code is left out. The landing page links to the
file where it is there.
"""

import argparse
import html
import re
import sys
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import chromium
import editions
import yaml
from babel.support import Translations

ROOT = Path(__file__).resolve().parents[2]
NAME = "attention-by-hand.pdf"
HIDDEN = 'class="abh-pdf" hidden'  # of the link to the PDF, on a landing page
PARTS = 2  # of _toc.yml are printed: the chapters, and what is at hand
# Waits until a page is as a reader sees it: images, formulas, fonts and interactive figures.
SETTLED = """async () => {
    for (const image of document.images) image.loading = "eager";
    await window.MathJax?.startup?.promise;
    await document.fonts.ready;
    const ended = performance.now() + 30_000;
    const count = (selector) => document.querySelectorAll(selector).length;
    while (count(".abh-figure") < count("script[type$='widget-view+json']")) {
        if (performance.now() > ended) throw new Error("an interactive figure does not appear");
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
}"""
# Chromium's own bookmarks lack formulas, and the space where a heading's line breaks.
HEADINGS = """() => [...document.querySelectorAll(".bd-article h2")].map((heading) => {
    const own = heading.cloneNode(true);
    own.querySelectorAll(".headerlink").forEach((link) => link.remove());
    for (const one of own.querySelectorAll("mjx-container")) one.replaceWith(one.textContent);
    return own.textContent.trim().replace(/\\s+/g, " ");
})"""
# Page numbers continue from page to page; what scrolls sideways on a screen wraps or shrinks on
# paper.
PAPER = """
@page {{ size: A4; margin: 18mm; @bottom-center {{ content: counter(page); font: 9pt sans-serif; color: #566270; }} }}
html {{ counter-reset: page {before}; }}
@media print {{
  .abh-launch, .abh-ledger-filter {{ display: none !important; }}
  .bd-article :is(.abh-scroll, .pst-scrollable-table-container, .output, .math, pre) {{
    overflow: visible !important;
  }}
  .bd-article:not(:has(.abh-sheet)) table {{ width: 100% !important; min-width: 0 !important; font-size: 8.5pt; }}
  .bd-article:not(:has(.abh-sheet)) table:has(th:nth-child(8)) {{ font-size: 6.8pt; }}
  .bd-article:not(:has(.abh-sheet)) table :is(th, td, p) {{
    overflow-wrap: anywhere; white-space: normal !important;
  }}
  .bd-article:not(:has(.abh-sheet)) table :is(th, td):first-child p:not(:has(a, code)) {{ overflow-wrap: normal; }}
  .bd-article pre {{ white-space: pre-wrap !important; overflow-wrap: anywhere; }}
  .bd-article :is(img, svg) {{ max-width: 100% !important; }}
}}
"""  # noqa: E501
NOTE = (
    "Interactive figures are printed as they first appear, and folded code is left out: both are "
    "in the web edition."
)
CONTENTS = """<!doctype html><html lang="{lang}"><meta charset="utf-8"><title>{title}</title>
<link rel="stylesheet" href="/_static/book.css"><style>{paper}
body {{ font: 11pt/1.5 var(--abh-sans); color: #1d2733; background: #fff; margin: 0; }}
h1 {{ font: 600 30pt/1.1 var(--abh-serif); margin: 20mm 0 6mm; }}
h2 {{ font: 600 11pt/1.4 var(--abh-sans); margin: 6mm 0 1mm; }}
a {{ display: flex; color: inherit; text-decoration: none; }} a.below {{ padding-left: 8mm; font-size: 10pt; }}
a span:first-child {{ flex: 1; border-bottom: .5pt dotted #999; }}
p {{ font-size: 10pt; margin: 0 0 8mm; }}
</style><h1>{title}</h1><p>{note}</p>{list}</html>"""  # noqa: E501


class Refused(Exception):
    """Why nothing is printed, with the fix, in one line."""


@dataclass
class Page:
    """A page of the book, and its PDF once it is printed."""

    address: str  # below the site's
    part: str  # of the table of contents
    below: bool  # whether it is below its chapter's first page
    title: str = ""
    first: int = 0  # sheets of paper before it
    printed: bytes = b""
    headings: list = field(default_factory=list)


def pages(language):
    """Return the pages to print, in order: those of the edition, or else the English ones."""
    words = _words(language)
    for part in yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))["parts"][:PARTS]:
        caption = words(part["caption"])
        for chapter in part["chapters"]:
            for entry in (chapter, *chapter.get("sections", ())):
                file = entry["file"]
                folder = editions.folder(language) if editions.has_page(language, file) else ""
                yield Page(f"/{folder}{file}.html", caption, below=entry is not chapter)


def _words(language):
    """Return what translates the words of the table of contents."""
    if language == editions.SOURCE:
        return str
    return Translations.load(str(editions.LOCALE), [language], domain="extensions").gettext


def print_page(tab, url, before):
    """Return the PDF of an address, its pages numbered from `before` + 1."""
    tab.goto(url, wait_until="networkidle")
    tab.add_style_tag(content=PAPER.format(before=before))
    tab.evaluate(SETTLED)
    return tab.pdf(prefer_css_page_size=True, outline=True, tagged=True, print_background=True)


def contents(title, language, listed):
    """Return the contents page as HTML."""
    rows, part = [], None
    for page in listed:
        if page.part != part:
            part = page.part
            rows.append(f"<h2>{html.escape(part)}</h2>")
        css_class, title = " class=below" * page.below, html.escape(page.title)
        rows.append(
            f'<a href="{page.address}"{css_class}><span>{title}</span>'
            f"<span>{page.first + 1}</span></a>"
        )
    return CONTENTS.format(
        lang=editions.tag(language),
        title=html.escape(title),
        note=html.escape(_words(language)(NOTE)),
        paper=PAPER.format(before=0),
        list="".join(rows),
    )


def print_contents(tab, site, text):
    """Return the PDF of the contents page, which is served as one of the site's, so that it finds
    the book's style.
    """
    tab.route(
        "**/contents-of-the-pdf.html",
        lambda route: route.fulfill(body=text, content_type="text/html"),
    )
    printed = print_page(tab, f"{site}/contents-of-the-pdf.html", 0)
    tab.unroute("**/contents-of-the-pdf.html")
    return printed


def print_edition(browser, site, language, path, say):
    """Print an edition into a file; return its path."""
    from pypdf import PdfReader

    title = editions.read(editions.settings(language))["title"]
    all_pages = list(pages(language))
    tab = browser.new_page()
    for page in all_pages:
        page.title = title_of(page)
    # Printed twice: its own pages count, and only then the numbers that it lists are known.
    draft = print_contents(tab, site, contents(title, language, all_pages))
    before = front = len(PdfReader(BytesIO(draft)).pages)
    for page in all_pages:
        say(f"{page.title} …")
        page.first, page.printed = before, print_page(tab, site + page.address, before)
        page.headings = tab.evaluate(HEADINGS)
        before += len(PdfReader(BytesIO(page.printed)).pages)
    first = print_contents(tab, site, contents(title, language, all_pages))
    tab.close()
    assert len(PdfReader(BytesIO(first)).pages) == front
    joined(first, all_pages, site, title).write(path)
    return path


def show_pdf(landing):
    """Show the link to the PDF on an edition's landing page, if it is there."""
    text = landing.read_text(encoding="utf8")
    if (landing.parent.parent / NAME).exists() and HIDDEN in text:
        landing.write_text(text.replace(HIDDEN, HIDDEN.removesuffix(" hidden")), encoding="utf8")


def title_of(page):
    """Return a page's title, with the chapter's number, as the sidebar has it."""
    text = (editions.HTML / page.address[1:]).read_text(encoding="utf8")
    heading = re.search(
        r'<article class="bd-article".*?<h1>(.*?)<a class="headerlink"', text, re.S
    )[1]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", heading)).split())


def joined(first, entries, site, title):
    """Return the writer of the whole book: bookmarks for pages and sections, and links that lead
    to its pages.
    """
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter()
    writer.append(explicit(PdfReader(BytesIO(first))), import_outline=False)
    chapter = None
    for page in entries:
        reader = explicit(PdfReader(BytesIO(page.printed)))
        marks = sections(reader, page.headings)
        writer.append(reader, import_outline=False)
        above = chapter if page.below else None
        outline = writer.add_outline_item(title=page.title, page_number=page.first, parent=above)
        chapter = chapter if page.below else outline
        for name, number in marks:
            writer.add_outline_item(title=name, page_number=page.first + number, parent=outline)
    lead_to_pages(writer, {site + page.address: page.first for page in entries}, site)
    writer.add_metadata({"/Title": title})
    writer.compress_identical_objects()
    return writer


def sections(reader, headings):
    """Return the headings below a page's title: (text, the number of its page)."""
    # Chromium's bookmarks: the page's title, and below it a list of the sections, which may nest.
    nested = [item for item in reader.outline if isinstance(item, list)]
    marks = [mark for mark in (nested[0] if nested else []) if not isinstance(mark, list)]
    names = headings if len(headings) == len(marks) else [mark.title for mark in marks]
    return [
        (name, reader.get_destination_page_number(mark))
        for name, mark in zip(names, marks, strict=True)
    ]


def explicit(reader):
    """Return the reader, each link within its page with a place instead of a name.

    In the whole book a name would be ambiguous: several pages have it.
    """
    from pypdf.generic import ArrayObject, NameObject, NullObject

    named = reader.named_destinations
    for page in reader.pages:
        for note in page.get("/Annots", ()):
            link = note.get_object()
            name = link.get("/Dest") or link.get("/A", {}).get("/D")
            if isinstance(name, str) and name in named:
                destination = named[name]
                left, top = destination.left or NullObject(), destination.top or NullObject()
                link[NameObject("/Dest")] = ArrayObject(
                    [destination.page, NameObject("/XYZ"), left, top, NullObject()]
                )
                link.pop("/A", None)
    return reader


def lead_to_pages(writer, firsts, site):
    """Let a link to a page of the book lead to its page here; take away those to pages that are
    not printed.
    """
    from pypdf.generic import ArrayObject, NameObject, NullObject

    for page in writer.pages:
        annotations = ArrayObject()
        for note in page.get("/Annots", ()):
            link = note.get_object()
            uri = str(link.get("/A", {}).get("/URI", ""))
            number = firsts.get(uri.partition("#")[0])
            if number is not None:
                target = writer.pages[number].indirect_reference
                link[NameObject("/Dest")] = ArrayObject(
                    [target, NameObject("/XYZ"), *[NullObject()] * 3]
                )
                link.pop("/A")
            if number is not None or not uri.startswith(site):
                annotations.append(note)
        if "/Annots" in page:
            page[NameObject("/Annots")] = annotations


def main(arguments=None):
    """Print the editions; return the exit status."""
    parser = argparse.ArgumentParser(description="Print the built book as PDF.")
    known = [editions.SOURCE, *editions.languages()]
    parser.add_argument(
        "languages",
        nargs="*",
        metavar="language",
        help=f"of {', '.join(known)}; all if none is named",
    )
    wanted = parser.parse_args(arguments).languages or known
    try:
        program = chromium.executable()
        if program is None:
            raise Refused(
                f"Chromium prints the PDF, and none of {', '.join(chromium.NAMES)} is here. "
                "Debian: apt install chromium"
            )
        if not (editions.HTML / "book" / "index.html").exists():
            raise Refused("The book is not built yet. Run: python course.py book")
        if strange := set(wanted) - set(known):
            raise Refused(f"There is no edition {strange.pop()}; there are {', '.join(known)}.")
    except Refused as reason:
        print(reason, file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    with chromium.served(editions.HTML) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=chromium.arguments())
        for language in wanted:
            path = editions.HTML / editions.folder(language) / NAME
            print_edition(browser, site, language, path, lambda text: print(text, flush=True))
            show_pdf(path.parent / "book" / "index.html")
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

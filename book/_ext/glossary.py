"""Says for each term of the glossary where a chapter explains it.

The place is found, not written down, in the English text, which a node keeps when it is translated:
the first section that has the term in bold, or as its heading or a box's, chapters before what goes
deeper; or else the first one with the term in its heading. A term that no chapter explains so gets
no link, and fails a test.

In Chinese the terms are in the order of their sounds.
"""

import itertools
import re
from pathlib import Path, PurePosixPath

from docutils import nodes
from sphinx import addnodes
from sphinx.locale import get_translation

from autograder.authoring.chapters import DEEPER, chapter_of_page, order

_ = get_translation("extensions")
CHAPTER = re.compile(r"(\d\d)-.*?(-deeper)?$")
BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
ROOT = Path(__file__).resolve().parent.parent.parent
RARE = {"熵": "商"}
"""For each character that GB 2312 doesn't count by its sound, a common one that sounds the same."""
SILENT = (nodes.literal_block, nodes.math_block, nodes.raw, nodes.comment)


def pattern(term):
    """Return what finds a term in a text: any case, words joined by a space or a hyphen, the
    usual endings.
    """
    words = re.split(r"[\s-]+", re.sub(r"\s*\(.*?\)", "", term).strip())
    return re.compile(
        r"(?<![\w-])" + r"[\s-]+".join(map(re.escape, words)) + r"(s|es|d|ed)?(?![\w-])", re.I
    )


def standing_out(node):
    """Yield what stands out in a section, without its subsections: headings, and what paragraphs
    have in bold.
    """
    for child in node.children:
        if isinstance(child, nodes.title):
            yield child.rawsource or child.astext()
        elif not isinstance(child, (nodes.section, *SILENT)):
            for part in child.findall(lambda node: isinstance(node, nodes.paragraph | nodes.title)):
                if isinstance(part, nodes.title):
                    yield (part.rawsource or part.astext()).rstrip(".")
                else:
                    yield from (words.rstrip(".") for words in BOLD.findall(part.rawsource))


def sections(env):
    """Yield (page, section, what stands out) of all chapters, what goes deeper last."""
    pages = [page for page in env.found_docs if CHAPTER.match(PurePosixPath(page).name)]
    for page in sorted(pages, key=lambda page: (page.endswith(DEEPER), *order(page, ROOT))):
        for section in env.get_doctree(page).findall(nodes.section):
            yield page, section, list(standing_out(section))


def tell(app, doctree, docname):
    """Add to each term's line the link to where it is explained."""
    terms = [
        item
        for book in doctree.findall(addnodes.glossary)
        for item in book.findall(nodes.definition_list_item)
    ]
    if not terms:
        return
    if app.config.language.startswith("zh"):
        for parent in {id(item.parent): item.parent for item in terms}.values():
            parent[:] = sorted(parent.children, key=sound)
    all_sections = list(sections(app.env))  # read once: each page comes from the disk
    for item in terms:
        expression = pattern(item[0].rawsource or item[0].astext())
        explained = (
            (page, section)
            for page, section, texts in all_sections
            if any(map(expression.fullmatch, texts))
        )
        headed = (
            (page, section)
            for page, section, _texts in all_sections
            if expression.search(next(section.findall(nodes.title)).rawsource)
        )
        first = next(itertools.chain(explained, headed), None)
        if first:
            item[-1][-1] += link(app, docname, *first)


def sound(item):
    """Return what a Chinese term is sorted by: GB 2312 has the common characters in the order of
    their sounds.
    """
    name = item[0].astext().partition("（")[0].lower()
    return name.translate(str.maketrans(RARE)).encode("gb18030")


def heading(section):
    """Return the title of a section."""
    return next(section.findall(nodes.title)).astext()


def link(app, docname, page, section):
    """Return the link to a section: the chapter's number and the section's title."""
    # A chapter may have several pages: only its first one is named by the chapter's number alone.
    number, deeper = CHAPTER.match(PurePosixPath(page).name).groups()
    title = heading(section)
    itself = not isinstance(section.parent, nodes.section)  # the page
    if itself and (deeper or chapter_of_page(page, ROOT) == PurePosixPath(page).name):
        words = _("Chapter %d, going deeper") if deeper else _("Chapter %d")
        words %= int(number)
    else:
        words = (_("Chapter %d, deeper: %s") if deeper else _("Chapter %d: %s")) % (
            int(number),
            title,
        )
    address = app.builder.get_relative_uri(docname, page) + "#" + section["ids"][0]
    return [
        nodes.Text(" "),
        nodes.reference("", words, internal=True, refuri=address, classes=["abh-told"]),
    ]


def rewrite(app, env):
    """Return the pages with a glossary: they are written again whenever any page was read."""
    return [page for page in env.found_docs if PurePosixPath(page).name == "glossary"]


def setup(app):
    """Register it."""
    app.connect("env-updated", rewrite)
    app.connect("doctree-resolved", tell)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

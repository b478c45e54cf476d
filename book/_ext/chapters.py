"""What each chapter enters into the pages that all chapters share, from book/NN-name/entries.md.

* `{chapter-map}` on the landing page shows what builds on what, how long each chapter takes, what
  has to be known, its exercise, and its other pages. Entries begin with what the chapter builds on,
  needs and teaches; what the pages know themselves is taken from there: title and number, the
  minutes ("About 20 minutes", without those of pages that go deeper), the exercise and its points.
  Drawings are those of `book/NN-name/card.py`.
* `{entries} Glossary` shows what the files have below that heading: the rows of one table, the
  terms of one glossary in order, or the blocks of the cheat sheet.
* The works in `book/NN-name/references.bib` can be cited.

A chapter of _toc.yml without a file of entries is a warning, and so is such a file without a
chapter.
"""

import contextlib
import html
import itertools
import re
import runpy
import sys
from pathlib import Path, PurePosixPath

from docutils import nodes
from docutils.statemachine import StringList
from drawings import in_page
from sphinx import addnodes
from sphinx.errors import ConfigError
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from theme import read_exercise

from autograder.authoring import chapters
from autograder.course.config import UserError

logger = logging.getLogger(__name__)
_ = get_translation("extensions")
BOOK = Path(__file__).resolve().parent.parent
MINUTES = re.compile(r"^About (\d+) minutes", re.M)


class chapter_map(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """Stands where the map goes until every chapter has been read."""


class MapDirective(SphinxDirective):
    """The place of the map."""

    def run(self):
        return [chapter_map()]


class EntriesDirective(SphinxDirective):
    """What the chapters have below one heading of their entries, joined."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        self.env.note_dependency(str(BOOK.parent / "_toc.yml"))  # which a new chapter changes
        heading, parts = self.arguments[0], []
        if heading not in chapters.SECTIONS:
            raise self.error(
                f"entries have no heading {heading!r}, but {', '.join(chapters.SECTIONS)}"
            )
        for chapter in chapters.read(BOOK.parent).values():
            self.env.note_dependency(str(chapter.entries))
            if heading in chapter.sections:
                first, lines = chapter.sections[heading]
                if heading == "Cheat sheet":
                    # Three lines come before the entries': their numbers in warnings stay right.
                    title = f"## [{chapter.number} {chapter.title}]({chapter.page.name})"
                    lines = [":::::{div} abh-sheet-block", title, "", *lines, ":::::"]
                    first -= 3
                source = str(chapter.entries)
                parts.append(nodes.container())
                with reported(self.state.document, source):
                    self.state.nested_parse(
                        StringList(lines, source=source), first - 1 - self.lineno, parts[-1]
                    )
        return joined(parts)


@contextlib.contextmanager
def reported(document, source):
    """Let warnings name another file, as MyST's own `include` does, which is wrong by a line."""
    reporter = document.reporter
    before = document["source"], reporter.source, reporter.get_source_and_line
    document["source"] = reporter.source = source
    reporter.get_source_and_line = lambda line: (source, line)
    try:
        yield
    finally:
        document["source"], reporter.source, reporter.get_source_and_line = before


def joined(parts):
    """Return the nodes of all parts, but one table with the rows of all, one glossary with the
    terms in order.
    """
    for kind, inner in ((nodes.table, nodes.tbody), (addnodes.glossary, nodes.definition_list)):
        of_kind = [node for part in parts for node in part if isinstance(node, kind)]
        if not of_kind:
            continue
        first, *others = of_kind
        for other in others:
            next(first.findall(inner)).extend(next(other.findall(inner)).children)
            other.parent.remove(other)
        if kind is addnodes.glossary:
            (terms,) = first.findall(inner)
            terms[:] = sorted(terms, key=lambda term: term[0].astext().lower())
    return [node for part in parts for node in part]


def lanes(rows):
    """Return the lines between chapters that are no neighbors: (from, to, lane), none over
    another.
    """
    names, made = list(rows), []
    for end, row in enumerate(rows.values()):
        for start in sorted(names.index(name) for name in row.after):
            if end - start > 1:
                # the first lane that no line beside this one has
                taken = {lane for first, last, lane in made if first <= end and start <= last}
                lane = next(lane for lane in itertools.count() if lane not in taken)
                made.append((start, end, lane))
    return made


def fill(app, doctree, docname):
    """Put the map in its place."""
    for node in list(doctree.findall(chapter_map)):
        rows = chapters.read(BOOK.parent)
        node.replace_self(nodes.raw("", picture(app, docname, rows), format="html"))


def picture(app, docname, rows):
    """Return the map as HTML: a list, with the lines between its rows drawn beside it."""
    names, crossing = list(rows), lanes(rows)
    rail = max((lane + 1 for *_ends, lane in crossing), default=0)
    lines = [
        line("arc", start, end, f"{rail - lane} / {rail + 1}") for start, end, lane in crossing
    ]
    for end, row in enumerate(rows.values()):
        neighbours = [start for start in map(names.index, row.after) if end - start == 1]
        lines += [line("line", start, end, rail + 1) for start in neighbours]
    items = [
        f'<li style="grid-row: {place}; grid-column: 1 / -1">{card(app, docname, name, rows)}</li>'
        for place, name in enumerate(names, 1)
    ]
    columns = ".9rem " * rail + "2rem minmax(0, 1fr)"
    return (
        f'<div class="abh-map" style="--lanes: {rail}; grid-template-columns: {columns}">'
        f'<div class="abh-map-lines" aria-hidden="true">{"".join(lines)}</div>'
        f'<ol role="list">{"".join(items)}</ol></div>'
    )


def line(kind, start, end, column):
    """Return the line between two rows, counted from 0, to where the last begins; its style
    leads it on.
    """
    return (
        f'<span class="abh-map-{kind}" style="grid-row: {start + 1} / {end + 1}; grid-column: '
        f'{column}"></span>'
    )


def card(app, docname, name, rows):
    """Return one chapter's row."""
    row, first_page = rows[name], f"book/{name}"
    to = app.builder.get_relative_uri
    number, title = number_of(app, name), html.escape(title_of(app, name))
    deeper = [page for page in row.pages if page.stem.endswith(chapters.DEEPER)]
    core = [page.read_text(encoding="utf8") for page in row.pages if page not in deeper]
    minutes = sum(int(stated[1]) for stated in map(MINUTES.search, core) if stated)
    notebook = BOOK.parent / "exercises" / name / f"{name}.ipynb"
    facts = [_("%s minutes") % minutes] if minutes else []
    if notebook.exists():
        points = _("Exercise, %g points") % read_exercise(notebook)[1]
        facts.append(
            f'<a href="{to(docname, first_page)}#exercise-{name}" aria-label="{points}: '
            f'{title}">{points}</a>'
        )
    for other in row.pages[1:]:
        address, label = to(docname, f"book/{other.stem}"), ""
        words = html.escape(title_of(app, other.stem))
        if [other] == deeper:  # the only one of its kind
            words = _("Going deeper")
            label = f' aria-label="{words}: {title}"'
        facts.append(f'<a href="{address}"{label}>{words}</a>')
    before = [number_of(app, other) for other in row.after]
    needs = (
        [(_("chapter %s") if len(before) == 1 else _("chapters %s")) % ", ".join(before)]
        if before
        else []
    )
    needs += [html.escape(str(_(row.needs)))] if row.needs else []
    chapter = _("Chapter %d") % int(number)
    named = f'<span class="visually-hidden">{chapter}: </span>{title}'
    # Calls of `_` within an f-string would not be found for the catalog.
    needed = _("You need %s.") % str(_(", and ")).join(needs)
    return f"""<span class="abh-map-dot" aria-hidden="true">{number}</span>
<div class="abh-map-card"><div class="abh-map-words">
<p class="abh-map-title"><a href="{to(docname, first_page)}">{named}</a></p>
<p>{html.escape(str(_(row.learn)))}</p>
<p class="abh-map-needs">{needed}</p>
<p class="abh-map-facts">{"".join(f"<span>{fact}</span>" for fact in facts)}</p>
</div>{drawing(row)}</div>"""


def drawing(row):
    """Return a chapter's drawing as HTML: none where its entries have no program that draws one."""
    program = row.folder / "card.py"
    if not program.exists():
        return ""
    sys.path.insert(0, str(BOOK))
    from figures import drawing

    axes = drawing.panels(width=148, height=92, bare=True)
    runpy.run_path(str(program))["draw"](axes)
    svg = in_page(drawing.as_svg(axes), "", f"map-{row.name}")
    return svg.replace(' role="img" aria-label=""', ' aria-hidden="true"')


def number_of(app, name):
    """A chapter's number in the table of contents, or in its name."""
    numbers = app.env.toc_secnumbers.get(f"book/{name}", {}).get("")
    return str(numbers[0] if numbers else int(name[:2]))


def title_of(app, name):
    """A chapter's title."""
    title = app.env.titles.get(f"book/{name}")
    return title.astext() if title else name


def check(app, env):
    """Warn of a chapter without a row, and of a row without a chapter."""
    if not BOOK.is_relative_to(env.srcdir):
        return
    rows = set(chapters.read(BOOK.parent))
    pages = {PurePosixPath(page).name for page in env.found_docs if re.match(r"book/\d\d-", page)}
    named = {chapters.chapter_of_page(page, BOOK.parent) for page in pages}
    for name in sorted((rows - pages) | (named - rows)):
        logger.warning(
            "%s: a chapter needs entries, book/NN-name/entries.md, and these a chapter",
            name,
            type="chapters",
        )


def add_references(app, config):
    """Let pages cite the works that chapters enter."""
    if "bibtex_bibfiles" in config:
        files = sorted(BOOK.glob("[0-9][0-9]-*/references.bib"))
        works = [path.relative_to(BOOK.parent).as_posix() for path in files]
        config.bibtex_bibfiles = [*config.bibtex_bibfiles, *works]


def look(app):
    """End the build where entries have a fault that would leave out part of them."""
    try:
        chapters.claims(BOOK.parent)
    except UserError as error:
        raise ConfigError(str(error)) from None


def rewrite(app, env):
    """The page with the map is written again whenever any page was read."""
    return [env.config.root_doc]


def setup(app):
    """Register it."""
    app.add_node(chapter_map)
    app.add_directive("chapter-map", MapDirective)
    app.add_directive("entries", EntriesDirective)
    app.connect("config-inited", add_references)
    app.connect("builder-inited", look)
    app.connect("env-updated", rewrite)
    app.connect("env-check-consistency", check)
    app.connect("doctree-resolved", fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

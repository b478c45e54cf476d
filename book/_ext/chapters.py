"""The chapters on the landing page: what builds on what, how long each takes, what has to be known, and its exercise.

`{chapter-map}` shows the rows of book/chapters.toml. A row names what a chapter builds on; what the chapter knows
itself is taken from there: its title and number, the minutes ("About 20 minutes"), its exercise and the points. A
chapter of _toc.yml that has no row is a warning. Drawings are those of figures/cards.py.
"""

import html
import re
import sys
from pathlib import Path, PurePosixPath

from docutils import nodes
from drawings import in_page
from house import read_exercise
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from autograder.authoring import chapters

logger = logging.getLogger(__name__)
_ = get_translation("extensions")
BOOK = Path(__file__).resolve().parent.parent
SOURCE = BOOK.parent / chapters.SOURCE
MINUTES = re.compile(r"^About (\d+) minutes", re.M)


class chapter_map(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """Stands where the map goes until every chapter has been read."""


class MapDirective(SphinxDirective):
    """The place of the map."""

    def run(self):
        self.env.note_dependency(str(SOURCE))
        return [chapter_map()]


def lanes(rows):
    """Return the lines between chapters that are no neighbours: (from, to, lane), none over another."""
    names, made = list(rows), []
    for end, row in enumerate(rows.values()):
        for start in sorted(names.index(name) for name in row.after):
            if end - start > 1:
                taken = {lane for first, last, lane in made if first <= end and start <= last}
                made.append((start, end, next(lane for lane in range(len(names)) if lane not in taken)))
    return made


def fill(app, doctree, docname):
    """Put the map in its place."""
    for place in list(doctree.findall(chapter_map)):
        rows = chapters.read(BOOK.parent)
        place.replace_self(nodes.raw("", picture(app, docname, rows), format="html"))


def picture(app, docname, rows):
    """Return the map as HTML: a list, with the lines between its rows drawn beside it."""
    sys.path.insert(0, str(BOOK))
    from figures import cards

    names, crossing = list(rows), lanes(rows)
    rail = max((lane + 1 for *_ends, lane in crossing), default=0)
    lines = [line("arc", start, end, f"{rail - lane} / {rail + 1}") for start, end, lane in crossing]
    for end, row in enumerate(rows.values()):
        neighbours = [start for start in map(names.index, row.after) if end - start == 1]
        lines += [line("line", start, end, rail + 1) for start in neighbours]
    items = [
        f'<li style="grid-row: {place}; grid-column: 1 / -1">{card(app, docname, name, rows, cards.svg(name))}</li>'
        for place, name in enumerate(names, 1)
    ]
    columns = ".9rem " * rail + "2rem minmax(0, 1fr)"
    return (
        f'<div class="abh-map" style="--lanes: {rail}; grid-template-columns: {columns}">'
        f'<div class="abh-map-lines" aria-hidden="true">{"".join(lines)}</div>'
        f'<ol role="list">{"".join(items)}</ol></div>'
    )


def line(kind, start, end, column):
    """Return the line between two rows, counted from 0, to where the last begins; its style leads it on."""
    return f'<span class="abh-map-{kind}" style="grid-row: {start + 1} / {end + 1}; grid-column: {column}"></span>'


def card(app, docname, name, rows, svg):
    """Return one chapter's row."""
    row, page = rows[name], f"book/{name}"
    to = app.builder.get_relative_uri
    number, title = number_of(app, name), html.escape(title_of(app, name))
    minutes = MINUTES.search((BOOK / f"{name}.md").read_text(encoding="utf8"))
    notebook = BOOK.parent / "exercises" / name / f"{name}.ipynb"
    facts = [_("%s minutes") % minutes[1]] if minutes else []
    if notebook.exists():
        points = _("Exercise, %g points") % read_exercise(notebook)[1]
        facts.append(f'<a href="{to(docname, page)}#exercise-{name}" aria-label="{points}: {title}">{points}</a>')
    if f"{page}-deeper" in app.env.found_docs:
        words = _("Going deeper")
        facts.append(f'<a href="{to(docname, page + "-deeper")}" aria-label="{words}: {title}">{words}</a>')
    before = [number_of(app, other) for other in row.after]
    needs = [(_("chapter %s") if len(before) == 1 else _("chapters %s")) % ", ".join(before)] if before else []
    needs += [html.escape(str(_(row.needs)))] if row.needs else []
    drawing = (
        in_page(svg, "", f"map-{name}").replace(' role="img" aria-label=""', ' aria-hidden="true"') if svg else ""
    )
    named = f'<span class="visually-hidden">{_("Chapter %d") % int(number)}: </span>{title}'
    needed = _("You need %s.") % str(_(", and ")).join(needs)  # no call in the text below: none is looked for there
    return f"""<span class="abh-map-dot" aria-hidden="true">{number}</span>
<div class="abh-map-card"><div class="abh-map-words">
<p class="abh-map-title"><a href="{to(docname, page)}">{named}</a></p>
<p>{html.escape(str(_(row.learn)))}</p>
<p class="abh-map-needs">{needed}</p>
<p class="abh-map-facts">{"".join(f"<span>{fact}</span>" for fact in facts)}</p>
</div>{drawing}</div>"""


def number_of(app, name):
    """A chapter's number in the table of contents, or in its name."""
    found = app.env.toc_secnumbers.get(f"book/{name}", {}).get("")
    return str(found[0] if found else int(name[:2]))


def title_of(app, name):
    """A chapter's title."""
    title = app.env.titles.get(f"book/{name}")
    return title.astext() if title else name


def check(app, env):
    """Warn of a chapter without a row, and of a row without a chapter."""
    if not SOURCE.is_relative_to(env.srcdir):
        return
    rows = set(chapters.read(BOOK.parent))
    pages = {PurePosixPath(page).name for page in env.found_docs if re.match(r"book/\d\d-(?!.*-deeper$)", page)}
    for name in sorted(rows ^ pages):
        logger.warning("%s: a chapter needs a row in book/chapters.toml, and a row a chapter", name, type="chapters")


def rewrite(app, env):
    """The page with the map is written again whenever any page was read."""
    return [env.config.root_doc]


def setup(app):
    """Register it."""
    app.add_node(chapter_map)
    app.add_directive("chapter-map", MapDirective)
    app.connect("env-updated", rewrite)
    app.connect("env-check-consistency", check)
    app.connect("doctree-resolved", fill)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

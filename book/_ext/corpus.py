"""The hostile submissions in tests/hostile/, as tables, and what tables of other pages share.

`{corpus-summary}` counts the outcomes that each group must have here, and those of nbgrader's
default settings: as `python -m hostile.stock` recorded them in book/data/hostile.json.
"""

import functools
import gettext
import io
import json

from docutils import nodes
from sphinx.locale import get_translation
from sphinx.util.docutils import SphinxDirective

from autograder.authoring import loader
from autograder.course import catalogs
from autograder.grades.results import Kind

_ = get_translation("extensions")
KINDS = [kind for kind in Kind if kind != Kind.INFRASTRUCTURE]
COUNTS = loader.ROOT / "book" / "data" / "hostile.json"

OUTCOMES = {
    "same": _("the same points as here, and no harm"),
    "more": _("more points than earned"),
    "less": _("fewer points than earned"),
    "ungraded": _("no grade"),
    "leaked": _("shows data that is not its own"),
    "altered": _("alters data that is not its own"),
    "left_behind": _("leaves processes behind"),
    "no_page": _("no feedback page"),
    "live_script": _("a live script in the feedback"),
    "batch_stopped": _("the next student is not graded"),
}
"""What nbgrader alone can do with a case, by the names in the recorded counts."""


TITLES = {
    "forging": _("Forging points"),
    "leaking": _("Reaching what is not theirs"),
    "denying": _("Dying, hanging, flooding"),
    "exhausting": _("Using what no limit sees"),
    "showing": _("Trouble on the feedback page"),
    "malformed": _("Not the released notebook"),
    "naming": _("Odd names, metadata and values"),
    "honest": _("Odd, but honest"),
}


class corpus_details(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """A list that is folded; `summary` is its line."""


def feedback(env, exercise=catalogs.SHARED):
    """A function that translates what feedback says in an exercise; by default what it says in
    any of them.
    """
    for name in {catalogs.ENGINE, catalogs.SHARED, exercise}:
        path = catalogs.path_of(loader.ROOT, env.config.language, f"{catalogs.FEEDBACK}/{name}")
        if path.exists():
            env.note_dependency(str(path))
    return _catalog(env.config.language, exercise)


@functools.cache
def _catalog(language, exercise):
    compiled = io.BytesIO(catalogs.of_feedback(loader.ROOT, language, exercise))
    return gettext.GNUTranslations(compiled).gettext


shown = functools.partial(nodes.paragraph, translatable=False)
"""A paragraph that is translated already."""


class SummaryDirective(SphinxDirective):
    """How many cases there are, and their outcomes, here and there."""

    def run(self):
        self.env.note_dependency(str(COUNTS))
        counts = json.loads(COUNTS.read_text(encoding="utf-8"))
        groups, stock = counts["groups"], counts["stock"]
        columns = ["cases", *map(str, KINDS)]
        rows = [
            [title, *(str(groups[name].get(column) or "–") for column in columns)]
            for name, title in TITLES.items()
        ]
        sums = [sum(group.get(column, 0) for group in groups.values()) for column in columns]
        rows.append([_("All"), *map(str, sums)])
        head = [_("Group"), _("Cases"), *map(feedback(self.env), map(str, KINDS))]
        here = table(head, rows, (30, *[12] * 6), "abh-counts", "abh-summed")
        rows = [[title, str(stock["outcomes"].get(name, 0))] for name, title in OUTCOMES.items()]
        alone = table([_("Outcome"), _("Cases")], rows, (60, 12), "abh-counts")
        total = _("%d submissions, and the kind of outcome that each must have here:") % sums[0]
        again = _("The same %d submissions, graded by nbgrader alone:") % stock["cases"]
        recorded = _(
            "Recorded until %s with nbgrader %s and its default settings, except 20 seconds for a "
            "cell instead of 30, on Python %s. A run that took longer than 90 seconds was stopped, "
            "and counts as no grade. One submission can be in several of these lines."
        ) % (stock["date"], stock["nbgrader"], stock["python"])
        note = shown("", recorded, classes=["abh-recorded"])
        return [shown("", total), here, shown("", again), alone, note]


def table(head, body, widths, *names):
    """A docutils table: `head` is a list of titles, `body` rows of cells, a cell a text or a
    list of nodes.
    """
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=width) for width in widths]
    titles = [nodes.entry("", shown("", str(title))) for title in head]
    group += nodes.thead("", nodes.row("", *titles))
    rows = []
    for row in body:
        cells = [cell if isinstance(cell, list) else [shown("", str(cell))] for cell in row]
        rows.append(nodes.row("", *(nodes.entry("", *cell) for cell in cells)))
    group += nodes.tbody("", *rows)
    return nodes.table("", group, classes=list(names))


def visit_details(self, node):
    self.body.append(self.starttag(node, "details", CLASS="abh-cases"))
    self.body.append(f"<summary>{self.encode(node['summary'])}</summary>\n")


def depart_details(self, node):
    self.body.append("</details>\n")


def setup(app):
    app.add_node(corpus_details, html=(visit_details, depart_details))
    app.add_directive("corpus-summary", SummaryDirective)
    app.add_css_file("grading.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

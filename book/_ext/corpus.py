"""The corpus of hostile and odd submissions, as tables: made from autograder/corpus/ whenever the
book is built.

* `{corpus-summary}` counts the outcomes that each group must have here, and those of nbgrader's
  default settings.
* `{corpus} forging` is one group, row by row, folded into a <details>.
* `{corpus-filter}` is the place where corpus.js, in a browser, puts a filter for all groups.

A case without a recording in stock.json, and a group that the corpus doesn't have, are warnings.
"""

import functools
import gettext
import io
import json
from collections import Counter

from docutils import nodes
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from autograder import corpus
from autograder.authoring import loader
from autograder.corpus import case
from autograder.course import catalogs
from autograder.grades.results import Kind

logger = logging.getLogger(__name__)
_ = get_translation("extensions")
N_ = str  # marks what is translated later
KINDS = [kind for kind in Kind if kind != Kind.INFRASTRUCTURE]

# The possible harms of a case without the engine: the key, the column's title, and the text of a
# row.
HARMS = {
    "more": (_("more points than earned"), _("more than earned")),
    "less": (_("fewer points than earned"), _("fewer than earned")),
    "ungraded": (_("no grade"), _("no grade")),
    "leaked": (_("shows data that is not its own"), _("shows data that is not its own")),
    "altered": (_("alters data that is not its own"), _("alters data that is not its own")),
    "left_behind": (_("leaves processes behind"), _("leaves processes behind")),
    "no_page": (_("no feedback page"), _("no feedback page")),
    "live_script": (_("a live script in the feedback"), _("a live script in the feedback")),
    "batch_stopped": (
        _("the next student is not graded"),
        _("the next student is not graded either"),
    ),
}
REASONS = (
    N_("inconsistent checksums"),
    N_("longer than 90 seconds"),
    N_("no reason is named"),
    N_("the grader was killed"),
)
"""Why nbgrader gave no grade, in stock.json, where it is not the name of an error."""


class corpus_details(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """One group of cases, folded; `summary` is its line."""


def groups():
    """The corpus: group -> cases, each group's in the order of their numbers."""
    return {name: sorted(cases, key=lambda case: case.row) for name, cases in corpus.GROUPS.items()}


def harms(case, row):
    """The keys of HARMS that the recording `row` shows, compared with what the case must get."""
    points = [(row["points"][name], earned) for name, earned in case.points.items()]
    found = {name for name in HARMS if row.get(name)}
    if any((own or 0) > earned + 1e-6 for own, earned in points):
        found.add("more")
    elif not row["ungraded"] and any((own or 0) < earned - 1e-6 for own, earned in points):
        found.add("less")
    return [name for name in HARMS if name in found]


def feedback(env, exercise=catalogs.SHARED):
    """A function that translates what feedback says in an exercise; by default what it says in
    any of them.
    """
    for name in {catalogs.ENGINE, catalogs.SHARED, exercise}:
        path = catalogs.path_of(loader.ROOT, env.config.language, f"{catalogs.FEEDBACK}/{name}")
        if path.exists():
            env.note_dependency(str(path))
    return _catalogue(env.config.language, exercise)


@functools.cache
def _catalogue(language, exercise):
    held = io.BytesIO(catalogs.of_feedback(loader.ROOT, language, exercise))
    return gettext.GNUTranslations(held).gettext


shown = functools.partial(nodes.paragraph, translatable=False)
"""A paragraph that is translated already."""


class _Directive(SphinxDirective):
    def recording(self):
        """What stock nbgrader did, as recorded."""
        for path in (*sorted(corpus.STOCK.parent.glob("*.py")), corpus.STOCK):
            self.env.note_dependency(str(path))
        return corpus.recorded()

    def warn(self, message, *values):
        logger.warning(message, *values, location=self.get_location(), type="corpus")

    def said(self, text):
        """A paragraph that translators find."""
        paragraph = nodes.paragraph("", text)
        self.set_source_info(paragraph)
        return paragraph


class SummaryDirective(_Directive):
    """How many cases there are, and their outcomes, here and there."""

    def run(self):
        stock = self.recording()
        cases = stock["cases"]
        here, there, count = [], Counter(), 0
        for name, own in groups().items():
            kinds = Counter(case.kind for case in own)
            here.append(
                [_titles()[name], str(len(own)), *(str(kinds[kind] or "–") for kind in KINDS)]
            )
            count += len(own)
            for one in own:
                if one.name in cases:
                    there.update(harms(one, cases[one.name]) or ["same"])
        totals = [
            sum(int(row[place]) for row in here if row[place] != "–")
            for place in range(1, len(KINDS) + 2)
        ]
        here.append([_("All"), *map(str, totals)])
        first = table(
            [_("Group"), _("Cases"), *map(feedback(self.env), KINDS)],
            here,
            (30, *[12] * 6),
            "abh-counts",
            "abh-summed",
        )
        body = [[_("the same points as here, and no harm"), str(there["same"])]]
        body += [[title, str(there[name])] for name, (title, _row) in HARMS.items()]
        second = table([_("Outcome"), _("Cases")], body, (60, 12), "abh-counts")
        recorded = _(
            "Recorded until %s with nbgrader %s and its default settings, on Python %s. "
            "One submission can be in several of these lines."
        )
        return [
            shown(
                "", _("%d submissions, and the kind of outcome that each must have here:") % count
            ),
            first,
            shown("", _("The same %d submissions, graded by nbgrader alone:") % len(cases)),
            second,
            shown(
                "",
                recorded % (stock["date"], stock["nbgrader"], stock["python"]),
                classes=["abh-recorded"],
            ),
        ]


class corpus_filter(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """Where the filter is to be."""


class FilterDirective(_Directive):
    """An empty place: readers without JavaScript see nothing there."""

    def run(self):
        return [corpus_filter()]


class CorpusDirective(_Directive):
    """One group of cases, a row for each."""

    required_arguments = 1

    def run(self):
        name, cases = self.arguments[0], self.recording()["cases"]
        own = groups().get(name)
        if own is None:
            self.warn("the corpus has no group %r; it has %s", name, ", ".join(groups()))
            return []
        missing = [case.name for case in own if case.name not in cases]
        if missing:
            self.warn(
                "stock.json has no recording of %s: run python -m autograder stock",
                ", ".join(missing),
            )
        body = [self.row(case, cases.get(case.name)) for case in own]
        details = corpus_details(summary=_("%d cases") % len(own), ids=[f"corpus-{name}"])
        head = [_("No."), _("What it does"), _("Here"), _("nbgrader alone")]
        details += table(head, body, (6, 44, 20, 30), "abh-corpus")
        return [details]

    def row(self, case, stock):
        """The cells of a row."""
        most = sum(self.worth().values())
        kinds = [feedback(self.env)(str(kind)) for kind in (case.kind, case.may) if kind]
        kinds = _("%s or %s") % tuple(kinds) if case.may else kinds[0]
        here = [shown("", _("%g of %g") % (sum(case.points.values()), most))]
        here.append(
            shown("", "", nodes.inline("", kinds, classes=["abh-kind", f"abh-kind-{case.kind}"]))
        )
        does = [
            self.said(case.does[:1].upper() + case.does[1:]),
            shown("", "", nodes.literal("", case.name)),
        ]
        return [str(case.row), does, here, self.there(case, stock, most) if stock else []]

    @staticmethod
    def worth():
        """The most that the toy exercise's check cells are worth."""
        return case.ALL

    @staticmethod
    def there(case, stock, most):
        """The outcome of a case without the engine: the points, and each harm with a sign and in
        words.
        """
        found = harms(case, stock)
        got = _("%g of %g") % (sum(own or 0 for own in stock["points"].values()), most)
        if stock["ungraded"]:
            reason = stock["reason"]
            got = _("no grade (%s)") % _(reason) if reason else _("no grade")
            found = [name for name in found if name != "ungraded"]
        bad = bool(found) or stock["ungraded"]
        lines = [
            shown(
                "",
                str(got),
                classes=["abh-harm" if bad and stock["ungraded"] else "abh-points-got"],
            )
        ]
        lines += [shown("", str(HARMS[name][1]), classes=["abh-harm"]) for name in found]
        if not bad:
            lines.append(shown("", str(_("the same")), classes=["abh-same"]))
        return lines


def _titles():
    return {
        "forging": _("Forging points"),
        "leaking": _("Reaching what is not theirs"),
        "denying": _("Dying, hanging, flooding"),
        "exhausting": _("Using what no limit sees"),
        "showing": _("Trouble on the feedback page"),
        "malformed": _("Not the released notebook"),
        "naming": _("Odd names, metadata and values"),
        "honest": _("Odd, but honest"),
    }


def table(head, body, widths, *names):
    """A docutils table: `head` is a list of titles, `body` rows of cells, a cell a text or a
    list of nodes.
    """
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead(
        "", nodes.row("", *(nodes.entry("", shown("", str(title))) for title in head))
    )
    rows = [
        [cell if isinstance(cell, list) else [shown("", str(cell))] for cell in row] for row in body
    ]
    group += nodes.tbody(
        "", *(nodes.row("", *(nodes.entry("", *cell) for cell in row)) for row in rows)
    )
    return nodes.table("", group, classes=list(names))


def visit_details(self, node):
    self.body.append(self.starttag(node, "details", CLASS="abh-cases"))
    self.body.append(f"<summary>{self.encode(node['summary'])}</summary>\n")


def depart_details(self, node):
    self.body.append("</details>\n")


def visit_filter(self, node):
    words = {
        "submissions": _("Submissions"),
        "text": _("Text"),
        "kind": _("Kind here"),
        "kinds": _("all kinds"),
        "alone": _("nbgrader alone"),
        "outcomes": _("all outcomes"),
        "same": _("the same"),
        "or": _("%s or %s").replace("%s", ""),
        "of": _("{0} of {1}"),
        "left": _("{0} of {1} submissions"),
        "all": _("{0} submissions"),
    }
    said = json.dumps({name: str(text) for name, text in words.items()}, ensure_ascii=False)
    self.body.append(self.starttag(node, "div", **{"data-corpus-filter": said}) + "</div>\n")
    raise nodes.SkipNode


def nothing(self, node):
    """Other builders show the table as it is."""


def setup(app):
    others = dict.fromkeys(("latex", "text", "man", "texinfo"), (nothing, nothing))
    app.add_node(corpus_details, html=(visit_details, depart_details), **others)
    app.add_node(corpus_filter, html=(visit_filter, None), **others)
    app.add_directive("corpus-filter", FilterDirective)
    app.add_directive("corpus-summary", SummaryDirective)
    app.add_directive("corpus", CorpusDirective)
    app.add_css_file("grading.css")
    app.add_js_file("corpus.js", loading_method="defer")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

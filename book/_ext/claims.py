"""What the five documents say, answered where a chapter shows it, and collected in a ledger.

* `{claim} A7` in a chapter is a box: the statement (kept once, in book/claims.yml), the verdict, the evidence.
  `:verdict:` starts with "holds" or "wrong:"; `:cell:` is the label of the cell that shows it.
* `{claims-ledger}` lists every box of the book with its verdict and links to the box and to the cell.

An unknown id, the same id twice on a page, and a row that names a chapter which doesn't answer it are warnings.
"""

import re
from functools import cache
from pathlib import Path, PurePosixPath

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
_ = get_translation("claims")
SOURCE = Path(__file__).resolve().parent.parent / "claims.yml"
VERDICT = re.compile(r"(holds|wrong)(?=$|:|,| when )")


class ledger(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """Stands where the table goes until every chapter has been read."""


@cache
def read_rows(changed):
    """The rows of claims.yml: id -> {documents, chapters, statement}. `changed` is the file's time."""
    return yaml.safe_load(SOURCE.read_text(encoding="utf8"))


def rows():
    """The rows of claims.yml as it stands."""
    return read_rows(SOURCE.stat().st_mtime_ns)


def kind(verdict):
    """The class of a verdict: holds, when or wrong; None when it starts with neither word."""
    match = VERDICT.match(verdict)
    if match is None:
        return None
    return "when" if verdict.startswith("holds when") else match[1]


def emphasised(verdict):
    """A verdict with its leading words strong: "**holds when** keys are equally long"."""
    head = "holds when" if verdict.startswith("holds when") else VERDICT.match(verdict)[1]
    return f"**{head}**{verdict[len(head) :]}"


class ClaimDirective(SphinxDirective):
    """One statement of the documents, with the verdict and the evidence."""

    required_arguments = 1
    has_content = True
    option_spec = {"verdict": directives.unchanged_required, "cell": directives.unchanged_required}

    def run(self):
        name, where = self.arguments[0], self.get_location()
        self.env.note_dependency(str(SOURCE))
        row, verdict = rows().get(name), " ".join(self.options.get("verdict", "").split())
        if row is None:
            logger.warning("claim %r is not in claims.yml", name, location=where, type="claims")
            return []
        if kind(verdict) is None or "cell" not in self.options:
            logger.warning(
                "claim %s needs :verdict: (holds, holds when …, wrong: …) and :cell:",
                name,
                location=where,
                type="claims",
            )
            return []
        answered = self.env.claims_answered.setdefault(self.env.docname, [])
        if name in answered:
            logger.warning("claim %s is answered twice on this page", name, location=where, type="claims")
            return []
        answered.append(name)

        link = addnodes.pending_xref(
            "",
            nodes.inline("", _("See the cell")),
            refdomain="std",
            reftype="ref",
            refexplicit=True,
            reftarget=self.options["cell"].lower(),
            refdoc=self.env.docname,
            refwarn=True,
        )
        box = nodes.container(classes=["abh-claim", f"abh-claim-{kind(verdict)}"], ids=[f"claim-{name.lower()}"])
        box["claim"], box["names"] = name, [f"claim-{name.lower()}"]
        box["cell"] = self.options["cell"].lower()
        self.state.document.note_explicit_target(box)  # so that [](#claim-a7) leads here
        box += nodes.paragraph(
            "", "", nodes.strong("", name), nodes.Text(" · " + documents(row)), classes=["abh-claim-source"]
        )
        box += self.parsed(row["statement"], "abh-claim-statement")
        box += self.parsed(emphasised(verdict), "abh-claim-verdict")
        evidence = nodes.container(classes=["abh-claim-evidence"])
        self.state.nested_parse(self.content, self.content_offset, evidence)
        evidence += nodes.paragraph("", "", link, classes=["abh-claim-link"])
        box += evidence
        self.set_source_info(box)
        return [box]

    def parsed(self, text, name):
        """A line of Markdown as a container of class `name`."""
        part = nodes.container(classes=[name])
        self.state.nested_parse(StringList([text], source=self.env.doc2path(self.env.docname)), self.lineno - 1, part)
        return part


class LedgerDirective(SphinxDirective):
    """The table of all claims that the book answers so far."""

    def run(self):
        self.env.note_dependency(str(SOURCE))
        self.env.claims_ledgers.add(self.env.docname)
        return [ledger()]


def documents(row):
    """ "document 000" or "documents 000, 001"."""
    names = row["documents"]
    return (_("document %s") if len(names) == 1 else _("documents %s")) % ", ".join(names)


def fill_ledgers(app, doctree, docname):
    """Replace each ledger by its table, from the boxes as the (perhaps translated) chapters show them."""
    for place in list(doctree.findall(ledger)):
        found = {}
        for chapter in sorted(app.env.claims_answered):
            tree = app.env.get_doctree(chapter)
            for box in tree.findall(lambda n: isinstance(n, nodes.container) and "claim" in n):
                found.setdefault(box["claim"], []).append((chapter, box))
        table = [row for name in rows() for row in ledger_rows(app, docname, found.get(name, []))]
        place.replace_self(build_table([_("Id"), _("What it says"), _("Verdict"), _("Shown in")], table))


def ledger_rows(app, docname, boxes):
    """One row of the table for each box: id and documents, statement, verdict, links."""
    for chapter, box in boxes:
        address = app.builder.get_relative_uri(docname, chapter) + "#" + box["ids"][0]
        title = app.env.titles[chapter].astext()
        parts = {child["classes"][0]: child for child in box}
        yield [
            [
                nodes.paragraph("", "", nodes.strong("", box["claim"])),
                nodes.paragraph("", ", ".join(rows()[box["claim"]]["documents"]), classes=["abh-quiet"]),
            ],
            [p.deepcopy() for p in parts["abh-claim-statement"]],
            [p.deepcopy() for p in parts["abh-claim-verdict"]],
            [
                nodes.paragraph("", "", nodes.reference("", title, internal=True, refuri=address)),
                nodes.paragraph("", "", *cell_link(app, docname, box), classes=["abh-quiet"]),
            ],
        ]


def cell_link(app, docname, box):
    """A link to the cell that shows it; nothing where the label is unknown, which the chapter warns of."""
    chapter, label, *_title = app.env.get_domain("std").anonlabels.get(box["cell"], (None, None))
    if chapter:
        uri = app.builder.get_relative_uri(docname, chapter) + "#" + label
        yield nodes.reference("", _("the cell"), internal=True, refuri=uri)


def build_table(head, body):
    """A docutils table: `head` is a list of titles, `body` rows of cells, a cell a list of nodes."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=width) for width in (8, 40, 34, 18)[: len(head)]]
    group += nodes.thead("", nodes.row("", *(nodes.entry("", nodes.paragraph("", title)) for title in head)))
    group += nodes.tbody("", *(nodes.row("", *(nodes.entry("", *cell) for cell in row)) for row in body))
    return nodes.table("", group, classes=["abh-ledger"])


def prepare(app):
    """The two things remembered between builds: page -> ids that it answers, and the pages with a ledger."""
    if not hasattr(app.env, "claims_answered"):
        app.env.claims_answered, app.env.claims_ledgers = {}, set()


def purge(app, env, docname):
    """Forget a page that is about to be read again."""
    env.claims_answered.pop(docname, None)
    env.claims_ledgers.discard(docname)


def merge(app, env, docnames, other):
    """Take over what a parallel reader remembered."""
    env.claims_answered.update({d: other.claims_answered[d] for d in docnames if d in other.claims_answered})
    env.claims_ledgers.update(other.claims_ledgers & set(docnames))


def check(app, env):
    """Warn of rows that name a chapter of this book which doesn't answer them."""
    for docname in sorted(env.found_docs):
        number = re.match(r"(\d\d)-", PurePosixPath(docname).name)
        if not number or docname.endswith("-deeper"):
            continue
        wanted = [name for name, row in rows().items() if number[1] in row["chapters"]]
        pages = (docname, f"{docname}-deeper")
        answered = {name for page in pages for name in env.claims_answered.get(page, [])}
        missing = [name for name in wanted if name not in answered]
        if missing:
            logger.warning(
                "claims.yml says that this chapter answers %s", ", ".join(missing), location=docname, type="claims"
            )


def rewrite(app, env):
    """A ledger is written again whenever any page was read."""
    for docname in env.claims_ledgers:  # statements hold formulas, which the page's own source may not
        env.get_domain("math").data["has_equations"][docname] = True
    return sorted(env.claims_ledgers)


def setup(app):
    app.add_node(ledger)
    app.add_directive("claim", ClaimDirective)
    app.add_directive("claims-ledger", LedgerDirective)
    app.connect("builder-inited", prepare)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-updated", rewrite)
    app.connect("env-check-consistency", check)
    app.connect("doctree-resolved", fill_ledgers)
    app.add_css_file("claims.css")
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}

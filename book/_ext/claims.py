"""What the five documents say, answered where a chapter shows it, and collected in a ledger.

* `{claim} A7` in a chapter is a box: the statement (kept once, in the entries of the first chapter
  that answers it, its entries.md, and translated once, in the catalog `extensions`), the verdict,
  the evidence. `:verdict:` starts with "holds" or "wrong:"; `:cell:` is the label of the cell that
  shows it. Without one the evidence cites a paper.
* `{claims-ledger}` lists every box of the book, the wrong ones first and then chapter by chapter,
  with its verdict and links to the box and to the cell, and at the end, folded, the statements that
  no chapter answers yet. With `_static/claims.js` it has a filter; without, it has all rows.
* `` {claims-count}`answered` `` is how many statements the book answers so far, ``
  {claims-count}`all` `` how many there are, `` {claims-count}`verdicts` `` how many boxes there
  are, `` {claims-count}`twice` `` how many statements have more than one, and ``
  {claims-count}`wrong` `` how many boxes begin with that verdict (or `holds`, or `when`).

An unknown id, the same id twice on a page, and a row that names a chapter which doesn't answer it
are warnings.
"""

import functools
import html
import re
from collections import Counter
from functools import cache
from pathlib import Path, PurePosixPath

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from autograder.authoring import chapters

logger = logging.getLogger(__name__)
_ = get_translation("extensions")
ROOT = Path(__file__).resolve().parent.parent.parent
VERDICT = re.compile(r"(holds|wrong)(?=$|:|,| when )")
KINDS = {"wrong": _("Wrong"), "when": _("Holds when"), "holds": _("Holds")}
"""The verdicts, in the order of the ledger; a translation is looked up as a page is written."""


class ledger(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """Stands where the tables go until every chapter has been read; holds all statements."""


class count(nodes.Inline, nodes.Element):  # noqa: N801
    """Stands where a number goes."""


@cache
def read_rows(changed):
    """The claims of all entries: id -> {documents, chapters, statement}.

    `changed` is the files' times: entries that have changed are read again.
    """
    return chapters.claims(ROOT)


def files():
    """The files of entries: the chapter's two digits -> the path."""
    return {path.parent.name[:2]: path for path in chapters.files(ROOT)}


def rows():
    """The claims of the entries as they are now."""
    return read_rows(tuple(path.stat().st_mtime_ns for path in files().values()))


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
    option_spec = {  # noqa: RUF012 (as docutils has it)
        "verdict": directives.unchanged_required,
        "cell": directives.unchanged_required,
    }

    def run(self):
        name, where = self.arguments[0], self.get_location()
        row, verdict = rows().get(name), " ".join(self.options.get("verdict", "").split())
        # The statement is in the entries of the first chapter that answers it; an unknown one may
        # come into any.
        for number, path in files().items():
            if row is None or number == row["chapters"][0]:
                self.env.note_dependency(str(path))
        if row is None:
            logger.warning(
                "claim %r is in no chapter's entries.md", name, location=where, type="claims"
            )
            return []
        shown = "cell" in self.options or any("{cite" in line for line in self.content)
        if kind(verdict) is None or not shown:
            logger.warning(
                "claim %s needs :verdict: (holds, holds when …, wrong: …), and :cell: or a paper "
                "that it cites",
                name,
                location=where,
                type="claims",
            )
            return []
        answered = self.env.claims_answered.setdefault(self.env.docname, [])
        if name in answered:
            logger.warning(
                "claim %s is answered twice on this page", name, location=where, type="claims"
            )
            return []
        answered.append(name)
        return [self.box(name, row, verdict)]

    def box(self, name, row, verdict):
        """Return the box of a claim: its source, statement, verdict and folded evidence."""
        box = nodes.container(
            classes=["abh-claim", f"abh-claim-{kind(verdict)}"], ids=[f"claim-{name.lower()}"]
        )
        box["claim"], box["names"] = name, [f"claim-{name.lower()}"]
        box["cell"] = self.options.get("cell", "").lower()
        self.state.document.note_explicit_target(box)  # so that [](#claim-a7) leads here
        box += nodes.paragraph(
            "",
            "",
            nodes.strong("", name),
            nodes.Text(" · " + documents(row)),
            classes=["abh-claim-source"],
        )
        box += statement(self, row, nodes.container(classes=["abh-claim-statement"]))
        box += parsed(self, emphasised(verdict), nodes.container(classes=["abh-claim-verdict"]))
        evidence = nodes.container(classes=["abh-claim-evidence"])
        self.state.nested_parse(self.content, self.content_offset, evidence)
        if box["cell"]:
            evidence += nodes.paragraph("", "", self.link(box["cell"]), classes=["abh-claim-link"])
        box += unfolding(_("Why"), "abh-claim-why", evidence)
        self.set_source_info(box)
        return box

    def link(self, cell):
        """A link to the cell that shows it."""
        return addnodes.pending_xref(
            "",
            nodes.inline("", _("See the cell")),
            refdomain="std",
            reftype="ref",
            refexplicit=True,
            reftarget=cell,
            refdoc=self.env.docname,
            refwarn=True,
        )


class LedgerDirective(SphinxDirective):
    """The tables of all claims that the book answers so far."""

    def run(self):
        for path in files().values():
            self.env.note_dependency(str(path))
        self.env.claims_ledgers.add(self.env.docname)
        node = ledger()
        node += [statement(self, row, nodes.list_item(claim=name)) for name, row in rows().items()]
        return [node]


def count_role(name, rawtext, text, lineno, inliner, options=None, content=()):
    """A number that is known when every chapter has been read."""
    inliner.document.settings.env.claims_ledgers.add(inliner.document.settings.env.docname)
    return [count(of=text)], []


def parsed(directive, text, part):
    """Put a line of Markdown into a node."""
    source = directive.env.doc2path(directive.env.docname)
    directive.state.nested_parse(StringList([text], source=source), directive.lineno - 1, part)
    return part


def statement(directive, row, part):
    """Put a row's statement into a node, in the edition's language."""
    english = row["statement"]
    part = parsed(directive, str(_(english)), part)
    for paragraph in part.findall(nodes.paragraph):
        paragraph["translatable"] = False
    return part


def documents(row):
    """ "document 000" or "documents 000, 001"."""
    names = row["documents"]
    return (_("document %s") if len(names) == 1 else _("documents %s")) % ", ".join(names)


def fill_ledgers(app, doctree, docname):
    """Replace each ledger by its tables, from the boxes as the (perhaps translated) chapters
    show them.
    """
    ledgers, numbers = list(doctree.findall(ledger)), list(doctree.findall(count))
    if not ledgers and not numbers:
        return
    boxes = boxes_by_chapter(app.env)
    every = [one for of_chapter in boxes.values() for one in of_chapter]
    fill_numbers(numbers, [box for _page, box in every])
    answered = {box["claim"] for _page, box in every}
    for node in ledgers:
        content = [controls(app, boxes)]
        for name, title in KINDS.items():
            found = [one for one in every if f"abh-claim-{name}" in one[1]["classes"]]
            if found:
                content.append(nodes.rubric("", str(title), classes=["abh-ledger-kind"]))
                content[-1]["heading-level"] = 3
                head = [_("Claim"), _("Verdict"), _("Shown in")]
                content.append(
                    build_table(head, ledger_rows(app, docname, found), f"abh-ledger-{name}")
                )
        waiting = [item for item in node if item["claim"] not in answered]
        if waiting:
            content += folded(
                _("%d statements that no chapter answers yet") % len(waiting), waiting
            )
        node.replace_self(content)


def boxes_by_chapter(env):
    """The boxes of the book, in its order: chapter -> (page, box) of each."""
    boxes = {}
    for page in sorted(env.claims_answered, key=lambda page: chapters.order(page, ROOT)):
        found = env.get_doctree(page).findall(
            lambda n: isinstance(n, nodes.container) and "claim" in n
        )
        chapter = str(PurePosixPath(page).with_name(chapters.chapter_of_page(page, ROOT)))
        boxes.setdefault(chapter, []).extend((page, box) for box in found)
    return {chapter: found for chapter, found in boxes.items() if found}


def fill_numbers(numbers, boxes):
    """Replace each place of a number by what it counts."""
    times = Counter(box["claim"] for box in boxes)
    known = {"answered": len(times), "all": len(rows()), "verdicts": len(boxes)}
    known["twice"] = sum(many > 1 for many in times.values())
    for number in numbers:
        of_kind = sum(f"abh-claim-{number['of']}" in box["classes"] for box in boxes)
        number.replace_self(nodes.Text(str(known.get(number["of"], of_kind))))


def controls(app, boxes):
    """The filter, hidden until a script can use it: a verdict, and a chapter."""
    verdicts = "".join(
        f'<label><input type="radio" name="verdict" value="{name}"{" checked" * (not name)}> '
        f"{html.escape(str(title))}</label>"
        for name, title in {"": _("All verdicts"), **KINDS}.items()
    )
    chapters_named = {
        "": _("All chapters"),
        **{PurePosixPath(name).name[:2]: heading(app, name) for name in boxes},
    }
    options = "".join(
        f'<option value="{name}">{html.escape(str(t))}</option>'
        for name, t in chapters_named.items()
    )
    # Calls of `_` within an f-string would not be found for the catalog.
    legend, chapter, shown = _("Show"), _("Chapter"), _("{shown} of {all}")
    return nodes.raw(
        "",
        '<form class="abh-ledger-filter" '
        f"hidden><fieldset><legend>{legend}</legend>{verdicts}</fieldset><select "
        f'aria-label="{chapter}">{options}</select><output data-of="{shown}"></output></form>',
        format="html",
        translatable=False,
    )


def heading(app, chapter):
    """A chapter's number and title."""
    number = app.env.toc_secnumbers.get(chapter, {}).get("", ())
    return " ".join(
        [".".join(map(str, number)), app.env.titles.get(chapter, nodes.title("", chapter)).astext()]
    ).strip()


def folded(summary, items):
    """A list that opens on demand."""
    for item in items:
        item.insert(0, nodes.inline("", item["claim"] + " · ", classes=["abh-quiet"]))
    return unfolding(summary, "abh-open-claims", nodes.bullet_list("", *items))


def unfolding(summary, name, content):
    """What opens on demand, as nodes."""
    opening = f'<details class="{name}"><summary>{html.escape(summary)}</summary>'
    return [
        nodes.raw("", opening, format="html", translatable=False),
        content,
        nodes.raw("", "</details>", format="html"),
    ]


def ledger_rows(app, docname, boxes):
    """For each box the class of its chapter, and a row: statement with id and documents,
    verdict, links.
    """
    for page, box in boxes:
        address = app.builder.get_relative_uri(docname, page) + "#" + box["ids"][0]
        parts = {child["classes"][0]: child for child in box if child.get("classes")}
        source = f"{box['claim']} · {documents(rows()[box['claim']])}"
        answer = _("The answer to %s") % box["claim"]
        yield (
            f"abh-of-{PurePosixPath(page).name[:2]}",
            [
                [
                    *(p.deepcopy() for p in parts["abh-claim-statement"]),
                    nodes.paragraph("", source, classes=["abh-quiet"]),
                ],
                [p.deepcopy() for p in parts["abh-claim-verdict"]],
                [
                    nodes.paragraph(
                        "", "", nodes.reference("", answer, internal=True, refuri=address)
                    ),
                    nodes.paragraph("", "", *cell_link(app, docname, box), classes=["abh-quiet"]),
                ],
            ],
        )


def cell_link(app, docname, box):
    """A link to the cell that shows it; nothing where there is none, or where the chapter warns
    of its label.
    """
    chapter, label, *_title = app.env.get_domain("std").anonlabels.get(box["cell"], (None, None))
    if chapter:
        uri = app.builder.get_relative_uri(docname, chapter) + "#" + label
        words = _("The cell in “%s”") % section_of(app.env, chapter, label)
        yield nodes.reference("", words, internal=True, refuri=uri)


@functools.cache  # `get_doctree` reads a page from the disk, and a page has many of the cells
def section_of(env, page, label):
    """The title of the section of a page in which a label stands."""
    node = next(
        node
        for node in env.get_doctree(page).findall(nodes.Element)
        if label in node.get("ids", ())
    )
    while not isinstance(node, nodes.section):
        node = node.parent
    return next(node.findall(nodes.title)).astext()


def build_table(head, body, name):
    """A docutils table: `head` is a list of titles, `body` rows of a class and cells, a cell a
    list of nodes.
    """
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=width) for width in (42, 40, 18)]
    group += nodes.thead(
        "", nodes.row("", *(nodes.entry("", nodes.paragraph("", title)) for title in head))
    )
    group += nodes.tbody(
        "",
        *(
            nodes.row("", *(nodes.entry("", *cell) for cell in row), classes=[chapter])
            for chapter, row in body
        ),
    )
    return nodes.table("", group, classes=["abh-ledger", name])


def prepare(app):
    """The two things remembered between builds: page -> ids that it answers, and the pages with
    a ledger.
    """
    if not hasattr(app.env, "claims_answered"):
        app.env.claims_answered, app.env.claims_ledgers = {}, set()


def purge(app, env, docname):
    """Forget a page that is about to be read again."""
    env.claims_answered.pop(docname, None)
    env.claims_ledgers.discard(docname)


def merge(app, env, docnames, other):
    """Take over what a parallel reader remembered."""
    env.claims_answered.update(
        {d: other.claims_answered[d] for d in docnames if d in other.claims_answered}
    )
    env.claims_ledgers.update(other.claims_ledgers & set(docnames))


def check(app, env):
    """Warn of rows that name a chapter of this book which doesn't answer them."""
    for docname in sorted(env.found_docs):
        chapter = PurePosixPath(docname).name
        if not (ROOT / "book" / chapter / chapters.ENTRIES).exists():
            continue
        wanted = [name for name, row in rows().items() if chapter[:2] in row["chapters"]]
        pages = [
            page for page in env.claims_answered if chapters.chapter_of_page(page, ROOT) == chapter
        ]
        answered = {name for page in pages for name in env.claims_answered[page]}
        missing = [name for name in wanted if name not in answered]
        if missing:
            logger.warning(
                "book/%s/entries.md says that this chapter answers %s",
                chapter,
                ", ".join(missing),
                location=docname,
                type="claims",
            )


def rewrite(app, env):
    """A ledger is written again whenever any page was read."""
    return sorted(env.claims_ledgers)


def setup(app):
    app.add_node(ledger)
    app.add_node(count)
    app.add_role("claims-count", count_role)
    app.add_directive("claim", ClaimDirective)
    app.add_directive("claims-ledger", LedgerDirective)
    app.connect("builder-inited", prepare)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-updated", rewrite)
    app.connect("env-check-consistency", check)
    app.connect("doctree-resolved", fill_ledgers)
    app.add_css_file("claims.css")
    app.add_js_file("claims.js", loading_method="defer")
    return {
        "version": "1",
        "env_version": 1,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }

"""What an edition in another language has beside its catalogs (editions.py): the switch, links,
figures.

* Each page has a link to the same page in the other language. A page that is English only has one
  to its chapter, or to the landing page.
* An edition is written without the pages that are English only. Its links lead to them, in English,
  and say so.
* Styles, scripts and fonts are those of the English edition, and so are downloads.
* The words of interactive figures come from the catalog `figures`, those of drawings from
  `drawings`, those of the extensions from `extensions`.
"""

import html
import itertools
import json
import re
import sys
import unicodedata
from pathlib import Path, PurePosixPath

from docutils import nodes
from myst_nb.ext.glue.roles import PasteTextRole
from sphinx.builders.dummy import DummyBuilder
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.locale import get_translation
from sphinx.locale import init as init_catalog
from sphinx.transforms import SphinxTransform, i18n
from sphinx.util.nodes import extract_messages

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import editions

from autograder.authoring.chapters import chapter_of_page

_, figures = get_translation("extensions"), get_translation("figures")
N_ = str  # marks what is translated later
TEMPLATES = Path(__file__).resolve().parent.parent / "_templates"
NUMBER = re.compile(r"(?<![a-z\d])\d+(?:,\d{3})*(?:\.\d+)?")  # not that of float64
PASTED = (
    N_("at no length up to {0} tokens"),
    N_("below {0} tokens, the shortest measured"),
    N_("between {0} and {1} tokens"),
    N_("head {0} of layer {1}"),
    N_("head {0} of layer {1} and head {2} of layer {3}"),
    N_("{0} days"),
    N_("{0} hours"),
    N_("{0} minutes"),
    N_("{0} seconds"),
    N_("{0} milliseconds"),
    N_("one thread"),
    N_("{0} to {1}"),
    N_("{0}% to {1}%"),
    N_("{0} (single tables {1} to {2})"),
    N_("{0} and {1}"),
    N_("{0}% and {1}%"),
    N_("{0} and −{1}"),
    N_("−{0} and {1}"),
    N_("−{0} and −{1}"),
    N_("(not known)"),
    N_("(not measured)"),
    N_("once, so a second run may differ, most of all in short times"),
    N_("cell by cell until two runs, at least {0} minutes apart, differed by no more than {1}%"),
    N_("equal to the last bit"),
    N_("equal up to rounding, to {0}e-{1} of the largest"),
    N_("one text of {0} tokens"),
    N_("{0} texts of {1} tokens"),
    N_("with the backward pass"),
    N_("this number: on this GPU, L{0} was not yet measured"),
    N_("what was measured on this GPU"),
    N_("not yet measured"),
    N_("On a GPU, causal, with {0} tokens, it took {1}% of the time."),
)
"""What cells compute for the text of a page, or a part of it between commas, but for the numbers
in it.
"""
TABLES = (
    N_("A step of the layer in the profiler"),
    N_("A training step of {0} tokens"),
    N_(": which kernels ran, and for how long."),
    N_("Accuracy"),
    N_("against float64"),
    N_("for {0} tokens: the larger error of causal and not"),
    N_("the largest of three gradients."),
    N_("Attention alone"),
    N_("causal"),
    N_("with {0} heads"),
    N_("{0} heads"),
    N_("in milliseconds:"),
    N_("Attention in numbers"),
    N_("Cited: CS{0} (Stanford), assignment {1}, leaderboard of {2}: one H{3}."),
    N_("Memory"),
    N_(
        "beyond the inputs, as the exponent of a line fitted over the length: {0} is a table, {1} "
        "is none."
    ),
    N_("MiB beyond the inputs"),
    N_("The configuration of CS{0}’s contest"),
    N_("The layer in numbers"),
    N_("The whole layer"),
    N_("as cited"),
    N_("as one CUDA graph or compiled"),
    N_("asked"),
    N_("attention"),
    N_("backward"),
    N_("batch {0}"),
    N_("calls"),
    N_("CUDA graph"),
    N_("compiled"),
    N_("descriptors"),
    N_("eager or CUDA graph: speed over nn.MultiheadAttention with weights"),
    N_("eager or CUDA graph: speed over the fastest of PyTorch’s"),
    N_("eager: speed over nn.MultiheadAttention with weights"),
    N_("eager: speed over the fastest of PyTorch’s"),
    N_("fastest of ours: TFLOP/s"),
    N_("forward"),
    N_("forward and backward together:"),
    N_("forward+backward"),
    N_("gradients"),
    N_("heads of {0}"),
    N_("implementation"),
    N_("kernel"),
    N_("kernel by kernel: not yet measured."),
    N_("kernel: milliseconds in the leaderboard’s configuration"),
    N_("kernel: share of the ceiling of products"),
    N_("kernel: time over FlashAttention’s in PyTorch"),
    N_("keys"),
    N_("layer"),
    N_("longest first"),
    N_("naive"),
    N_("nn.MultiheadAttention with weights"),
    N_("of"),
    N_("one pass"),
    N_("out of memory"),
    N_("own kernel"),
    N_("part"),
    N_("persistent"),
    N_("projections"),
    N_("queries"),
    N_("queries × keys"),
    N_("result"),
    N_("share"),
    N_("stages"),
    N_("the best of {0}"),
    N_("today"),
    N_("warps"),
    N_("{0} heads of {1}"),
    N_("{0} tokens"),
)
"""What cells put into tables and boxes, in the same way."""
MODELS = (
    N_("model"),
    N_("year"),
    N_("layers"),
    N_("GB"),
    N_("{0} window {1}"),
    N_("{0} chunk {1}"),
    N_("{0} full"),
    N_("{0} latent"),
    N_("{0} linear"),
    N_("{0} selected"),
    N_("heads"),
    N_("key heads"),
    N_("width"),
    N_("norms"),
    N_("query-key norm"),
    N_("pre"),
    N_("post"),
    N_("both"),
    N_("no"),
    N_("all heads"),
    N_("each head"),
    N_("no gains"),
    N_("what else its attention has"),
    N_("scores capped at {0}"),
    N_("biases of Q, K, V"),
    N_("norms of the latent vectors"),
    N_("scores divided by √{0}, not √{1}"),
    N_("scores grow with the position in full layers"),
    N_("a learned sink in each head; biases"),
    N_("a gate on each head’s result; gated delta rule in linear layers"),
    N_("norms of the latent vectors; an indexer with {0} heads chooses {1} tokens"),
    N_("norms of the latent vectors; delta rule with a decay for each row in linear layers"),
    N_("base"),
    N_("stretched"),
    N_("rotations"),
    N_("feed-forward"),
    N_("by parts"),
    N_("all alike"),
    N_("{0} of {1} numbers"),
    N_("half of the numbers"),
    N_("a quarter of the numbers"),
    N_("{0} of {1} experts"),
    N_("base {0} and no stretch in windows"),
    N_("stretched in full layers only"),
    N_("none in full layers"),
    N_("none in every fourth layer"),
    N_("none at all"),
    N_("SwiGLU with limits"),
    N_("source"),
)
"""What the tables of models have, in the same way."""
EDITION_STATIC_FILES = ("documentation_options.js", "language_data.js", "translations.js")
"""What an edition has of its own among static files."""
CLOSING, OPENING = re.compile(r"[，。；：、？！）》”’]+"), re.compile(r"[（《“‘]+$")
"""What no line begins with, and what none ends with."""
CATALOGS = ("figures", "drawings", "extensions")
"""Those that belong to no page."""
PROMPTS = ("prompt_show", "prompt_hide")
SHOWN = (("image", "alt"), ("figure", "caption"))
SUMMARY = re.compile(r"(?<=<summary>)[^<]+(?=</summary>)")
TITLES = (N_("References"),)
"""Titles of the book's pages that are in English only."""
STATE = "ipywidgets_state"  # under which myst-nb keeps what a page's widgets are


def is_whole(app):
    """Tell whether this is the English edition, which has every page."""
    return app.config.language == editions.SOURCE


def path_to_site(app):
    """Return the way from an edition's folder to the site's."""
    return "" if is_whole(app) else "../"


class EditionBuilder(StandaloneHTMLBuilder):
    """Writes the pages that are translated; those that are not are read, so that links to them
    are known.
    """

    name = "html"

    def _has(self, docname):
        return (
            editions.has_page(self.config.language, docname) or docname not in self.env.found_docs
        )

    def get_target_uri(self, docname, typ=None):
        """Return a page's address; that of an English page is beside the edition."""
        address = super().get_target_uri(docname, typ)
        return address if self._has(docname) else f"{path_to_site(self.app)}{address}"

    def get_outdated_docs(self):
        """Yield the pages to be written again."""
        yield from filter(self._has, super().get_outdated_docs())

    def prepare_writing(self, docnames):
        """Leave out the pages that are English only: this is where the set of all is known."""
        docnames -= {name for name in docnames if not self._has(name)}
        super().prepare_writing(docnames)
        # page: [parent, previous, next]. A page that is not in the edition is skipped.
        relations = self.relations
        for name in filter(self._has, relations):
            for side in (1, 2):
                while (other := relations[name][side]) and not self._has(other):
                    relations[name][side] = relations.get(other, [None] * 3)[side]

    def load_indexer(self, docnames):
        """Read the index of the last build where there is one; that it lacks English pages is as
        it should be.
        """
        if (Path(self.outdir) / self.searchindex_filename).exists():
            super().load_indexer(docnames)


class MessagesBuilder(DummyBuilder):
    """Only reads what has changed, and writes what there is to translate of it."""

    name = "messages"

    def get_outdated_docs(self):
        """Return nothing: no page is written."""
        return []

    def write(self, *arguments, **named):
        """Write no page."""

    def finish(self):
        """Write what there is to translate of each page."""
        (Path(self.outdir) / "messages.json").write_text(
            json.dumps(self.env.messages), encoding="utf8"
        )


class Pasted(PasteTextRole):
    """`{glue:text}`: where a page is without its results, an ellipsis; in a translation, the number
    of the page.

    Translations are parsed by themselves.
    """

    def run(self):
        """Return the nodes."""
        if "nb_renderer" not in self.document and "::" not in self.text:
            key = self.text if ":" in self.text else f"{self.text}:s"
            self.text = f"{Path(self.document.settings.env.docname).name}.md::{key}"
        pasted, messages = super().run()
        return pasted or [nodes.Text("…")], messages


def configure_edition(app, config):
    """Take the builder of editions, where this is one; leave out English pages, where only
    messages are wanted.
    """
    if config.messages_only:
        wanted = set().union(*map(editions.pages, editions.languages()))
        config.exclude_patterns += [
            f"{name}.*"
            for name in app.config.external_site_map
            if name not in wanted | {config.root_doc}
        ]
        config.exclude_patterns += app.config.external_site_map.globs()
    app.add_role_to_domain("glue", "text", Pasted(), override=True)
    if config.language != editions.SOURCE:
        app.add_builder(EditionBuilder, override=True)
        parse_once()


def prepare_environment(app):
    """Make room for messages; give an edition what cells made, and the table of contents
    headings in its language.
    """
    if not hasattr(app.env, "messages"):
        app.env.messages = {}
    if not is_whole(app):
        for part in app.config.external_site_map.root.subtrees:
            part.caption = str(_(part.caption))
        # Both editions may be built at once, so that each has its own pictures.
        pictures = editions.BUILD / "jupyter_execute" / editions.folder(app.config.language)
        app.env.mystnb_config = app.env.mystnb_config.copy(output_folder=str(pictures))


def translated(value):
    """Return the words of a figure in the edition's language: a text, or lists and dictionaries
    of texts.
    """
    if isinstance(value, dict):
        return {key: translated(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [translated(inner) for inner in value]
    return str(figures(value)) if isinstance(value, str) and value else value


def translate_figures(app, doctree):
    """Put the edition's words into the figures of a page."""
    if is_whole(app):
        return
    for catalog in CATALOGS:
        app.env.note_dependency(str(editions.catalog_folder(app.config.language) / f"{catalog}.po"))
    files = app.env.nb_metadata.get(app.env.docname, {}).get("js_files", {})
    if STATE in files:
        address, attributes = files[STATE]
        state = json.loads(attributes["body"])
        for model in state["state"].values():
            if isinstance(model["state"].get("text"), dict):
                model["state"]["text"] = translated(model["state"]["text"])
        # It is within a <script>, which "</script>" in a text would end.
        body = json.dumps(state).replace("</", r"<\/")
        files[STATE] = (address, {**attributes, "body": body})


class PageMessages(SphinxTransform):
    """Keeps what there is to translate of a page, in its order, at the moment when Sphinx puts in
    translations.

    Alternative texts and captions of what a cell shows are taken from the cell, which need not have
    run. What Sphinx would pass over is made ready for it (cells of tables), or translated here:
    descriptions in the front matter, words in formulas, what unfolds a cell's code, and the
    summaries of what else unfolds.
    """

    default_priority = i18n.Locale.default_priority - 1

    def apply(self):
        """Keep the messages in the environment, and translate what Sphinx would not."""
        for paragraph in self.document.findall(nodes.paragraph):
            if isinstance(paragraph.parent, nodes.entry) and not paragraph.source:
                paragraph.source, paragraph.line = self.document["source"], paragraph.parent.line
        # The descriptions in the front matter wait in nodes of their own.
        waiting = (node.details.get("nodes", []) for node in self.document.findall(nodes.pending))
        descriptions = [node for node in itertools.chain(*waiting) if isinstance(node, nodes.meta)]
        self.env.messages[self.env.docname] = self.messages(descriptions)
        if is_whole(self.app):
            return
        if not editions.has_page(self.config.language, self.env.docname):
            for title in self.document.findall(nodes.title):
                title[:] = [nodes.Text(str(_(title.astext())))]  # links have it, if not the page
        self.translate(descriptions)

    def messages(self, descriptions):
        """Return the texts of the page in its order, those of the front matter first."""
        of_nodes = {}
        for node, message in extract_messages(self.document):
            of_nodes.setdefault(id(node), []).append(message)
        texts = [node["content"] for node in descriptions]
        for node in self.document.findall(nodes.Element):
            if is_cell(node):
                display_options = node["cell_metadata"].get("mystnb", {})
                texts += [
                    display_options[part][key].strip()
                    for part, key in SHOWN
                    if key in display_options.get(part, {})
                ]
                prompts = [f"code_{key}" for key in PROMPTS]
                texts += [display_options[key] for key in prompts if key in display_options]
            elif self_or_ancestor(node, is_output_or_front_matter):
                continue
            elif is_page_html(node):
                texts += SUMMARY.findall(node.astext())
            else:
                texts += of_nodes.get(id(node), [])
        return texts

    def translate(self, descriptions):
        """Translate descriptions, what unfolds a cell or else, and formulas by the page's
        catalog.
        """
        catalog, _found = init_catalog(
            [str(editions.LOCALE)], self.config.language, self.env.docname
        )
        for node in descriptions:
            node["content"] = catalog.gettext(node["content"])
        for cell in self.document.findall(is_cell):
            for key in filter(cell.hasattr, PROMPTS):
                cell[key] = catalog.gettext(cell[key])
        for opening in self.document.findall(is_page_html):
            text = SUMMARY.sub(
                lambda match: html.escape(catalog.gettext(match[0])), opening.astext()
            )
            opening.rawsource = text
            opening[:] = [nodes.Text(text)]
        for formula in self.document.findall(nodes.math_block):
            text = catalog.gettext(formula.rawsource or formula.astext())
            formula.rawsource = text
            formula[:] = [nodes.Text(text)]
            formula["translatable"] = False


def is_cell(node):
    """Tell whether a node is a cell of code, with what it gave."""
    return isinstance(node, nodes.Element) and node.get("nb_element") == "cell_code"


def is_page_html(node):
    """Tell whether a node is a page's own HTML, which may have the summary of a <details>."""
    if not isinstance(node, nodes.raw) or node.get("format") != "html":
        return False
    translatable = node.get("translatable", True)
    return translatable and not self_or_ancestor(node, is_output_or_front_matter)


def is_output_or_front_matter(node):
    """Tell whether a node is what a cell gave, or a field of the front matter."""
    return node.get("nb_element") == "cell_code_output" or isinstance(
        node, nodes.docinfo | nodes.field_list
    )


def self_or_ancestor(node, which):
    """Tell whether `which` is true of a node or of one of its ancestors."""
    return node is not None and (which(node) or self_or_ancestor(node.parent, which))


def translate_pasted(app, doctree, docname):
    """Translate what a page's cells computed for its sentences, tables and boxes, whatever the
    numbers in it are.
    """
    if is_whole(app):
        return
    for node in doctree.findall(nodes.inline):
        if "pasted-text" in node["classes"]:
            text = node.astext()
            translated_text = in_parts(text)
            node[:] = [nodes.Text(translated(text) if translated_text == text else translated_text)]
            close_up(node)
    for shown in doctree.findall(nodes.container):
        for text in list(shown.findall(nodes.Text)) if "cell_output" in shown["classes"] else []:
            if not self_or_ancestor(text.parent, is_verbatim):
                text.parent.replace(text, nodes.Text(in_parts(text.astext())))


def close_up(node):
    """Take away the spaces beside words that begin or end with a wide letter, such as a Chinese
    one.
    """
    words, parent, at = node.astext(), node.parent, node.parent.index(node)
    for edge, beside, strip in ((words[:1], at - 1, str.rstrip), (words[-1:], at + 1, str.lstrip)):
        wide = edge and unicodedata.east_asian_width(edge) in "WF"
        if wide and 0 <= beside < len(parent) and isinstance(parent[beside], nodes.Text):
            parent[beside] = nodes.Text(strip(parent[beside].astext(), " "))


def is_verbatim(node):
    """Tell whether a node is code, a formula, or text for the page as it is."""
    return isinstance(node, nodes.FixedTextElement | nodes.literal | nodes.math)


def without_numbers(text):
    """Return a text with a place for each number: "head {0} of layer {1}"."""
    places = itertools.count()
    return NUMBER.sub(lambda _match: f"{{{next(places)}}}", text)


def translated_with_numbers(text, translate=_):
    """Return a text in the edition's language, translated whatever numbers are in it."""
    words, numbers = without_numbers(text), NUMBER.findall(text)
    if not words:  # of which a catalog has its header
        return text
    template = str(translate(words))
    if template == words:
        return text
    return re.sub(r"\{(\d+)\}", lambda match: numbers[int(match[1])], template)


def in_parts(text):
    """Return a text in the edition's language: as a whole, or each part between commas; as it is
    if none is known.
    """
    whole = text.strip()
    translation = translated_with_numbers(whole)
    if translation != whole:
        return translation
    parts = re.split(r",(?:\s|$)", whole)
    translations = [translated_with_numbers(part) for part in parts]
    return text if translations == parts else "，".join(translations)


def keep_together(app, doctree, docname):
    """Let a formula and the signs beside it be on one line: browsers would break it there,
    whatever the sign is.
    """
    for formula in [] if is_whole(app) else list(doctree.findall(nodes.math)):
        parent, at = formula.parent, formula.parent.index(formula)
        group = nodes.inline("", "", classes=["abh-whole"])
        before, after = "", ""
        if at and isinstance(parent[at - 1], nodes.Text):
            before = (OPENING.search(parent[at - 1]) or [""])[0]
        if at + 1 < len(parent) and isinstance(parent[at + 1], nodes.Text):
            after = (CLOSING.match(parent[at + 1]) or [""])[0]
        if not before + after:
            continue
        if before:
            parent[at - 1] = nodes.Text(parent[at - 1].removesuffix(before))
        if after:
            parent[at + 1] = nodes.Text(parent[at + 1].removeprefix(after))
        parent[at] = group
        group += [nodes.Text(before), formula, nodes.Text(after)]


def counterpart(app, pagename, language):
    """Return the page of another edition that a page's switch leads to, and whether it is the
    same one.
    """
    if (
        language == editions.SOURCE
        or editions.has_page(language, pagename)
        or pagename not in app.env.found_docs
    ):
        return pagename, True
    chapter = str(PurePosixPath(pagename).with_name(chapter_of_page(pagename, editions.ROOT)))
    return (chapter if editions.has_page(language, chapter) else app.config.root_doc), False


def add_language_links(app, pagename, templatename, context, doctree):
    """Give a page its links to other editions."""
    up = "../" * pagename.count("/") + path_to_site(app)
    context["editions"], alternates = [], []
    for language in (editions.SOURCE, *editions.languages()):
        page, is_same_page = counterpart(app, pagename, language)
        address = f"{editions.folder(language)}{page}.html"
        if is_same_page:
            alternates.append(
                (editions.tag(language), app.config.html_baseurl + address or up + address)
            )
        if language != app.config.language:
            link = {
                "address": up + address,
                "tag": editions.tag(language),
                "name": editions.name(language),
            }
            context["editions"].append({**link, "same": is_same_page})
    if len(alternates) > 1:
        context["metatags"] = context.get("metatags", "") + "".join(
            f'\n<link rel="alternate" hreflang="{tag}" href="{address}" />'
            for tag, address in alternates
        )


def remove_shared_static(app, exception):
    """Remove an edition's static files but its own: its pages have those of the English one."""
    if exception or is_whole(app) or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    # In reverse: what is in a folder comes before the folder, which has to be empty.
    for path in sorted(static.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        elif path.name not in EDITION_STATIC_FILES or path.parent != static:
            path.unlink()


def patch_html(app, exception):
    """Let an edition's pages have the static files of the English one, mark its links to English
    pages, and translate the theme's own words.
    """
    if exception or is_whole(app) or app.builder.format != "html":
        return
    words = {  # that the theme and Sphinx have in English only
        "Color mode": _("Color mode"),
        "Link to this equation": _("Link to this equation"),
        "Link to this heading": _("Link to this heading"),
        "Link to this image": _("Link to this image"),
        "Link to this term": _("Link to this term"),
        "Main": _("Main"),
        "Page": _("Page"),
        "System Settings": _("System settings"),
        "Toggle primary sidebar": _("Show or hide the table of contents"),
        "Toggle secondary sidebar": _("Show or hide what is on this page"),
    }
    to_site = path_to_site(app)
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf8")
        up = "../" * (len(path.relative_to(app.outdir).parts) - 1)
        page = with_english_static(text, up, to_site)
        page = with_marked_links(page, up, to_site)
        page = with_translated_labels(page, words)
        if page != text:
            path.write_text(page, encoding="utf8")


def with_english_static(page, up, to_site):
    """Insert `to_site` before each static file that the edition does not have: the English one's is
    in the folder above.
    """
    own_files = "|".join(map(re.escape, EDITION_STATIC_FILES))
    return re.sub(rf'="(?={up}_static/(?!{own_files}))', f'="{to_site}', page)


def with_marked_links(page, up, to_site):
    """Give each link to a page outside of the edition, which is an English one, its language, by
    which `book.css` marks it.
    """
    to_english = rf'<a (?![^>]*hreflang)(?=[^>]*href="{up}{to_site}book/)'
    return re.sub(to_english, '<a hreflang="en" ', page)


def with_translated_labels(page, words):
    """Translate each title or label that is one of these words, and no more."""
    listed = "|".join(map(re.escape, words))
    return re.sub(
        rf'(?<=(?:title|label)=")({listed})(?=")',
        lambda match: html.escape(str(words[match[0]])),
        page,
    )


def parse_once():
    """Parse each translation once, not twice: Sphinx first parses all of them for titles and terms,
    and forgets the others.
    """
    parse, waiting = i18n.publish_msgstr, {}

    def publish(app, source, source_path, source_line, config, settings):
        key = source_path, source_line, source
        parsed = waiting.pop(key, None)
        if parsed is None or any(
            child.parent is not parsed for child in parsed.children
        ):  # a title's, now in the page
            parsed = waiting[key] = parse(app, source, source_path, source_line, config, settings)
        return parsed

    i18n.publish_msgstr = publish


def setup(app):
    """Register all of it."""
    for catalog in CATALOGS:
        app.add_message_catalog(catalog, str(editions.LOCALE))
    app.config.templates_path.append(str(TEMPLATES))
    app.add_config_value("messages_only", False, "")
    app.add_builder(MessagesBuilder)
    app.add_transform(PageMessages)
    app.connect("config-inited", configure_edition, priority=950)
    app.connect("builder-inited", prepare_environment, priority=900)
    app.connect("doctree-read", translate_figures)
    app.connect("doctree-resolved", translate_pasted, priority=300)
    app.connect("doctree-resolved", keep_together, priority=400)
    app.connect("html-page-context", add_language_links, priority=100)
    app.connect("build-finished", remove_shared_static, priority=900)
    app.connect("build-finished", patch_html, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

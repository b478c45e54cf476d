"""How a student's Markdown becomes HTML: by mistune, with what Jupyter adds to Markdown. It is cleaned after that."""

import html
from urllib.parse import unquote

import mistune
from mistune import BlockParser, HTMLRenderer, InlineParser

from autograder.checking.words import Message
from autograder.feedback import code
from autograder.sanitize.markup import ATTACHED, LINE_BREAKS, LINK, PICTURE, name_of

PLUGINS = ("strikethrough", "table", "url", "task_lists", "def_list")
DISPLAYED = r"(?<!\\)\$\$.*?(?<!\\)\$\$|\\\\\[.*?\\\\\]|\\begin\{(?P<NAME>[a-zA-Z]*\*?)\}.*?\\end\{(?P=NAME)\}"
IN_A_LINE = r"(?<![$\\])\$(?!\$).+?(?<![$\\])\$|\\\\\(.*?\\\\\)"
HEADING = r"^ {0,3}(?P<atx_1>#{1,6})(?!#+)(?P<atx_2>.*?)$"
DELIMITERS = {r"\\[": "$$", r"\\(": "$"}
DOLLAR = "<span>$</span>"
"""A dollar sign that begins no formula: alone in its element, it finds no other."""


def _line(message):
    """Return a line in the place of a picture."""
    return f"<em>{html.escape(str(message))}</em>"


def formulas(parser):
    """Leave formulas as they are, wherever Jupyter sees some; a plugin for mistune."""
    displayed = DISPLAYED.replace("NAME", "environment")
    parser.block.specification["atx_heading"] = HEADING  # without a blank after it, too
    parser.block.register("formula", f"(?s:{displayed})", _formula_alone, before="fenced_code")
    for rules in (parser.block.list_rules, parser.block.block_quote_rules):
        parser.block.insert_rule(rules, "formula", before="fenced_code")
    parser.inline.register("formula", f"(?s:{displayed}|{IN_A_LINE})", _formula, before="escape")
    parser.renderer.register("formula", lambda renderer, text: html.escape(text, quote=False))


def _formula_alone(block: BlockParser, match, state):
    """Keep a formula's lines together; what it is, is found in its paragraph."""
    state.add_paragraph(match[0])
    return match.end()


def _formula(inline: InlineParser, match, state):
    text = match[0]
    delimiter = DELIMITERS.get(text[:3])
    state.append_token({"type": "formula", "raw": f"{delimiter}{text[3:-3]}{delimiter}" if delimiter else text})
    return match.end()


def as_html(text, renderer):
    """Return Markdown as HTML, which is not clean yet."""
    return mistune.create_markdown(renderer=renderer, plugins=[*PLUGINS, formulas])(text)


class Renderer(HTMLRenderer):
    """mistune's renderer, which notes whether a text holds more than text, links and pictures of its own."""

    def __init__(self, attachments=None):
        super().__init__(escape=False, allow_harmful_protocols=True)
        self.pictures, self.harmless = attachments or {}, True

    def text(self, text):
        """Keep dollar signs that were written with a backslash from being taken for a formula."""
        return super().text(text).replace("$", DOLLAR)

    def block_code(self, code_text, info=None):
        """Colour code whose language is named; of a diagram, show the source."""
        language = (info or "").split(maxsplit=1)[0] if (info or "").strip() else ""
        self.harmless &= not language.startswith("mermaid")  # which other programs put into a page as it is
        return code.block(code_text, language)

    def block_html(self, html):
        """Let HTML through to the cleaning; other programs would not clean it."""
        self.harmless = False
        return super().block_html(html)

    def inline_html(self, html):
        """Let HTML through to the cleaning; other programs would not clean it."""
        self.harmless &= html in LINE_BREAKS
        return super().inline_html(html)

    def link(self, text, url, title=None):
        """Note a link that leads anywhere but to a page, an address or a place in this page."""
        self.harmless &= bool(LINK.match(url))
        return super().link(text, url, title)

    def image(self, text, url, title=None):
        """Show a picture of the cell's own; for any other a line of text."""
        text = text.replace(DOLLAR, "$")
        if not url.startswith(ATTACHED):
            self.harmless = False
            if PICTURE.fullmatch(url):
                return super().image(text, url, title)
            return _line(Message("[A picture from elsewhere is not fetched: {address}]", address=url[:200]))
        name = name_of(url, self.pictures)
        self.harmless &= url == f"{ATTACHED}{name}"
        if name is None:
            shown = unquote(url[len(ATTACHED) :])[:200]
            message = "[The picture {name} is not in the notebook, or is none that can be shown.]"
            return _line(Message(message, name=shown))
        return super().image(text, url, title)

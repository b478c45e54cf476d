"""Makes a student's Markdown inert: mistune makes HTML of it, with what Jupyter adds, and
`markup` cleans that.
"""

import html
import re
from typing import cast
from urllib.parse import unquote

import mistune
from mistune import BlockParser, BlockState, HTMLRenderer, InlineParser, InlineState, Markdown

from autograder.checking.words import Message
from autograder.sanitize import code, markup
from autograder.sanitize.markup import (
    ATTACHED,
    LINE_BREAKS,
    LINK,
    MOST_TEXT,
    MOST_WORK,
    PICTURE,
    Attachments,
    name_of,
)

PLUGINS = ("strikethrough", "table", "url", "task_lists", "def_list")
DISPLAYED = r"(?<!\\)\$\$.*?(?<!\\)\$\$|\\\\\[.*?\\\\\]|\\begin\{(?P<NAME>[a-zA-Z]*\*?)\}.*?\\end\{(?P=NAME)\}"  # noqa: E501
IN_A_LINE = r"(?<![$\\])\$(?!\$).+?(?<![$\\])\$|\\\\\(.*?\\\\\)"
HEADING = r"^ {0,3}(?P<atx_1>#{1,6})(?!#+)(?P<atx_2>.*?)$"
DELIMITERS = {r"\\[": "$$", r"\\(": "$"}
MARK = re.compile(r"[^\w \t]|_")
DOLLAR = "<span>$</span>"
"""A dollar sign that begins no formula: alone in its element, it finds no other."""


def inert_markdown(text: str, attachments: Attachments | None = None) -> tuple[str, bool]:
    """Return Markdown as inert HTML, and whether the Markdown itself was harmless: only text, links
    and its pictures.

    Harmless Markdown can be left in a notebook that other programs show. The parameters are those
    of `markup.inert_html`; like that, this raises nothing.
    """
    if "\n" not in text and text.startswith(
        (markup.OPENING, "<p>")
    ):  # one block of HTML, which Markdown leaves as it is
        return markup.inert_html(text, attachments), False
    if markdown_work(text) > MOST_WORK:
        return markup.plain_text(text, markup.TOO_LARGE), False
    renderer = Renderer(attachments)
    shown, laid_out = markup.laid_out(text, lambda: as_html(text, renderer), attachments)
    return shown, laid_out and renderer.harmless


def markdown_work(text: str) -> int:
    """Return a bound, without unit, of what it costs to parse Markdown."""
    if len(text) > MOST_TEXT:
        return MOST_WORK + 1
    return len(text) * (len(MARK.findall(text)) + 4 * text.count("\\")) // 100


def _line(message: Message) -> str:
    """Return a line in the place of a picture."""
    return f"<em>{html.escape(str(message))}</em>"


def formulas(md: Markdown) -> None:
    """Leave formulas as they are, wherever Jupyter sees some; a plugin for mistune, which names
    its argument.
    """
    displayed = DISPLAYED.replace("NAME", "environment")
    md.block.specification["atx_heading"] = HEADING  # without a blank after it, too
    md.block.register("formula", f"(?s:{displayed})", _formula_alone, before="fenced_code")
    for rules in (md.block.list_rules, md.block.block_quote_rules):
        md.block.insert_rule(rules, "formula", before="fenced_code")
    md.inline.register("formula", f"(?s:{displayed}|{IN_A_LINE})", _formula, before="escape")
    cast(HTMLRenderer, md.renderer).register(
        "formula", lambda renderer, text: html.escape(text, quote=False)
    )


def _formula_alone(block: BlockParser, match: re.Match[str], state: BlockState) -> int:
    """Keep a formula's lines together; what it is, is found in its paragraph."""
    state.add_paragraph(match[0])
    return match.end()


def _formula(inline: InlineParser, match: re.Match[str], state: InlineState) -> int:
    text = match[0]
    delimiter = DELIMITERS.get(text[:3])
    state.append_token(
        {"type": "formula", "raw": f"{delimiter}{text[3:-3]}{delimiter}" if delimiter else text}
    )
    return match.end()


def as_html(text: str, renderer: "Renderer") -> str:
    """Return Markdown as HTML, which is not clean yet."""
    return str(mistune.create_markdown(renderer=renderer, plugins=[*PLUGINS, formulas])(text))


class Renderer(HTMLRenderer):
    """mistune's renderer, which notes whether a text holds more than text, links and pictures of
    its own.
    """

    def __init__(self, attachments: Attachments | None = None):
        super().__init__(escape=False, allow_harmful_protocols=True)
        self.pictures, self.harmless = attachments or {}, True

    def text(self, text: str) -> str:
        """Keep dollar signs that were written with a backslash from being taken for a formula."""
        return super().text(text).replace("$", DOLLAR)

    def block_code(self, code_text: str, info: str | None = None) -> str:
        """Color code whose language is named; of a diagram, show the source."""
        language = (info or "").split(maxsplit=1)[0] if (info or "").strip() else ""
        # Other programs put a diagram into a page as it is, and color all languages, some of which
        # can take them forever.
        self.harmless &= language.lower() in ("", *code.PYTHON)
        return code.block(code_text, language)

    def block_html(self, html: str) -> str:
        """Let HTML through to the cleaning; other programs would not clean it."""
        self.harmless = False
        return super().block_html(html)

    def inline_html(self, html: str) -> str:
        """Let HTML through to the cleaning; other programs would not clean it."""
        self.harmless &= html in LINE_BREAKS
        return super().inline_html(html)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Note a link that leads anywhere but to a page, an address or a place in this page."""
        self.harmless &= bool(LINK.match(url))
        return super().link(text, url, title)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """Show a picture of the cell's own; for any other a line of text."""
        text = text.replace(DOLLAR, "$")
        if not url.startswith(ATTACHED):
            self.harmless = False
            if PICTURE.fullmatch(url):
                return super().image(text, url, title)
            return _line(
                Message("[A picture from elsewhere is not fetched: {address}]", address=url[:200])
            )
        name = name_of(url, self.pictures)
        self.harmless &= url == f"{ATTACHED}{name}"
        if name is None:
            shown = unquote(url[len(ATTACHED) :])[:200]
            message = "[The picture {name} is not in the notebook, or is none that can be shown.]"
            return _line(Message(message, name=shown))
        return super().image(text, url, title)

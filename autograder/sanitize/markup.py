"""Makes HTML from a student inert: nothing in it runs, is fetched, or is laid over the page.

A parser cleans (nh3), once, and last: what `inert_html` returns is shown as it is. What cannot be
cleaned in reasonable time is shown as plain text, with a line that says so. Nothing here raises.
"""

import base64
import binascii
import functools
import html
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

import nh3

from autograder.checking.words import Message

Attachments = Mapping[str, Mapping[str, str]]
"""Pictures of a text cell, as base64 text by MIME type, by name."""

TAGS = set(
    "a abbr b blockquote br caption code col colgroup dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i "
    "img input ins kbd li ol p pre s samp small span strong sub sup table tbody td tfoot th thead "
    "tr tt u ul var".split()
)
ATTRIBUTES = {
    "*": {"style", "title"},
    "a": {"href"},
    "img": {"alt", "src"},
    "input": {"checked"},
    "ol": {"start"},
    "table": {"border"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}
# Of classes, those of highlighted code alone: a page's style sheet has others that lay a box over
# everything.
CLASSES = {"span": {"c", "k", "m", "nf", "s"}, "table": {"dataframe"}}
STYLES = set(
    "background-color border color font-family font-size font-style font-weight margin padding "
    "text-align text-decoration vertical-align white-space width".split()
)
# Words, colors and lengths. No minus, because a negative margin covers what is before it; no way to
# write url().
STYLE_VALUE = re.compile(
    r"(?:rgba?\([0-9., %]*+\)|#[0-9a-f]++|[0-9.]++(?:px|em|ex|rem|pt|%)?+|[a-z]++(?:-[a-z]++)*+|[ "
    r",/]++)*+"
)
LINK = re.compile(r"#|https?://|mailto:", re.IGNORECASE)
PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=]++")
ATTACHED = "attachment:"
LINE_BREAKS = ("<br>", "<br/>", "<br />")

MAGIC = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}

MOST_TEXT = 200_000
"""Characters of one text that are shown."""
MOST_GROWTH = 4
"""How many times as long as the text its HTML may be; tags that are never closed can make far
more of it.
"""
SMALL = 10_000
"""Characters of HTML that are never too many."""
MOST_STYLE = 1000
"""Characters of one `style`."""

MOST_WORK = 1_000_000
"""What one text may cost, as `html_work` and `markdown_work` count it: at most about a second.

What nesting, unclosed tags and & cost a parser grows with the square of their number; so do the
marks of Markdown, above all the backslashes of formulas. Ordinary texts stay below a hundredth of
this.
"""
FORMATTING = re.compile(
    r"<(?:a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\b", re.IGNORECASE
)

TOO_LARGE = Message(
    "This text is too long or too deeply nested to be laid out; it is shown as it was written."
)
FAILED = Message("This text could not be laid out; it is shown as it was written.")
CUT = Message("[cut here: the rest is more than is shown]")

# In a notebook, HTML stands on one line between these: Markdown passes it on as it is, and finds no
# marks in it.
OPENING, CLOSING = "<div>", "</div>"
LINE_ENDS = str.maketrans(
    {"\n": "&#10;", "\r": "&#13;", "\v": " ", "\f": " ", "\x85": " ", "\u2028": " ", "\u2029": " "}
)


def inert_html(text: str, attachments: Attachments | None = None) -> str:
    """Return HTML without anything that acts, is fetched, or covers other parts of the page.

    Parameters
    ----------
    text : str
        HTML, as a student's code or text cell has it.
    attachments : Attachments, optional
        As `outputs.clean_attachments` returns them, for `src="attachment:NAME"`.
    """
    return laid_out(text, lambda: text, attachments)[0]


def laid_out(
    text: str, as_html: Callable[[], str], attachments: Attachments | None
) -> tuple[str, bool]:
    """Return the HTML that `as_html` makes of a text, cleaned, and True; or the text as it is,
    and False.
    """
    try:
        page = as_html()
        if html_work(page) > MOST_WORK:
            return plain_text(text, TOO_LARGE), False
        cleaned = (_cleaner(attachments) if attachments else _CLEANER).clean(page)
    except Exception:  # among others RecursionError: whatever a student wrote is never our fault
        return plain_text(text, FAILED), False
    pictures = sum(len(data) for bundle in (attachments or {}).values() for data in bundle.values())
    if len(cleaned) > MOST_GROWTH * len(page) + pictures + SMALL:
        return plain_text(text, TOO_LARGE), False
    return cleaned, True


def as_markdown(cleaned: str) -> str:
    """Return inert HTML as Markdown that shows just this HTML, everywhere."""
    line = cleaned.translate(LINE_ENDS)
    return line if line.startswith(OPENING) else OPENING + line + CLOSING


def plain_text(text: str, reason: Message) -> str:
    """Return text as HTML that shows it as it was written, below a line that says why."""
    shown = html.escape(text[:MOST_TEXT], quote=False)
    cut = f"<p><em>{CUT}</em></p>" if len(text) > MOST_TEXT else ""
    return f"<div><p><em>[{html.escape(str(reason))}]</em></p><pre>{shown}</pre>{cut}</div>"


def html_work(text: str) -> int:
    """Return a bound, without unit, of what it costs to parse HTML."""
    tags = text.count("<")
    return tags * (tags // 100 + len(FORMATTING.findall(text))) + text.count("&") ** 2 // 10_000


def picture_type(data: bytes) -> str | None:
    """Return the MIME type of a picture's bytes, or None if they are no picture that pages show."""
    return next((mime for mime, magic in MAGIC.items() if magic.match(data)), None)


def picture_bytes(text: str) -> bytes | None:
    """Return the bytes of base64 text, or None if it is none."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def as_base64(text: str) -> str:
    """Return a drawing's text in base64."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def as_picture(mime: str, encoded: str) -> str:
    """Return an `img` of base64 text."""
    alt = html.escape(str(Message("A figure from this cell")))
    return f'<img alt="{alt}" src="data:{mime};base64,{encoded}">'


def name_of(address: str, attachments: Attachments) -> str | None:
    """Return the attachment that `attachment:NAME` means, or None; Markdown writes a blank as
    %20, and so on.
    """
    name = address[len(ATTACHED) :]
    return next((known for known in (name, unquote(name)) if known in attachments), None)


def _attribute(attachments: Attachments, tag: str, name: str, value: str) -> str | None:
    """Return the value that an attribute may keep, or None."""
    if name == "style":
        return _style(value)
    if name == "href":
        return value.strip() if LINK.match(value.strip()) else None
    if name == "src":
        if value.startswith(ATTACHED):
            known = name_of(value, attachments)
            value = _data(attachments[known]) if known else ""
        address = "".join(value.split())
        return address if PICTURE.fullmatch(address) else None
    return value


def _data(bundle: Mapping[str, str]) -> str:
    return next(f"data:{mime};base64,{''.join(data.split())}" for mime, data in bundle.items())


def _style(text: str) -> str | None:
    """Return the declarations that are known and plain."""
    if len(text) > MOST_STYLE:
        return None
    pairs = [part.partition(":") for part in text.lower().split(";")]
    declarations = [
        (name.strip(), value.strip()) for name, _, value in pairs if name.strip() in STYLES
    ]
    return (
        ";".join(f"{name}:{value}" for name, value in declarations if STYLE_VALUE.fullmatch(value))
        or None
    )


def _cleaner(attachments: Attachments) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=TAGS,
        attributes=ATTRIBUTES,
        allowed_classes=CLASSES,
        attribute_filter=functools.partial(_attribute, attachments),
        filter_style_properties=STYLES,
        # The filter above checks each address; these are the forms that it accepts and returns.
        url_schemes={"http", "https", "mailto", "data", "attachment"},
        # Without a mouse, a long line can be scrolled by keys.
        set_tag_attribute_values={
            "input": {"type": "checkbox", "disabled": ""},
            "pre": {"tabindex": "0"},
        },
    )


_CLEANER = _cleaner({})

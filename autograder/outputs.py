"""What a guest's outputs become before anybody's browser sees them: bounded, and without anything that acts."""

import base64
import binascii
import re
from html.parser import HTMLParser

import bleach
import nbformat
from bleach.css_sanitizer import CSSSanitizer
from nbconvert.filters import markdown2html

from autograder.guest import wire

SAFE_TEXT = ("text/plain", "text/latex")
PICTURES = ("image/png", "image/jpeg", "image/gif")
CUT = "[this output was too large to keep]"
MARKUP = re.compile(r"[<&]|script:", re.IGNORECASE)
CODE = re.compile(r"<(script|style)\b.*?(</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
TAGS = (
    "a abbr b blockquote br caption code col colgroup dd div dl dt em h1 h2 h3 h4 h5 h6 hr i kbd li ol p pre s samp "
    "small span strong sub sup table tbody td tfoot th thead tr tt u ul var"
).split()
ATTRIBUTES = {
    "*": ["style", "title"],
    "a": ["href"],
    "td": ["colspan", "rowspan"],
    "th": ["colspan", "rowspan", "scope"],
}
STYLES = [
    "background-color", "border", "color", "font-family", "font-size", "font-style", "font-weight", "margin",
    "padding", "text-align", "text-decoration", "vertical-align", "white-space", "width",
]  # fmt: skip


def new_output(kind, **parts):
    """Return an output. nbformat's own maker holds each against its schema, which takes longer than all else here."""
    if kind == "execute_result":
        parts.update(metadata={}, execution_count=None)
    return nbformat.from_dict({"output_type": kind, **parts})


class Collected:
    """One cell's outputs, as they come from its guest.

    Parameters
    ----------
    limits : dict
        `output_kb` and `picture_kb` bound what is kept.
    """

    def __init__(self, limits):
        self.left, self.picture = limits["output_kb"] << 10, limits["picture_kb"] << 10
        self.pictures_left = 5 * self.picture
        self.outputs, self.cut = [], False

    def add(self, raw):
        """Take one output, or what is left of it when all that could act is gone."""
        kind = raw.get("output_type") if isinstance(raw, dict) else None
        if kind == "clear":
            self.outputs = []
        elif kind == "stream":
            self._stream("stderr" if raw.get("name") == "stderr" else "stdout", self._text(raw.get("text")))
        elif kind == "error":
            lines = raw.get("traceback")
            trace = [self._text(line) for line in lines[:100]] if isinstance(lines, list) else []
            name, value = (wire.clean(str(raw.get(part)), 2000) for part in ("ename", "evalue"))
            self.outputs.append(new_output("error", ename=name, evalue=value, traceback=trace))
        elif kind in ("display_data", "execute_result") and isinstance(raw.get("data"), dict):
            data = self._bundle(raw["data"])
            if data and len(self.outputs) < 500:
                self.outputs.append(new_output(kind, data=data, metadata={}))

    def _text(self, text):
        text = wire.clean(text if isinstance(text, str) else "", 10**9)
        if len(text) > self.left:
            text, self.cut = text[: self.left], True
        self.left -= len(text)
        return text

    def _stream(self, name, text):
        last = self.outputs[-1] if self.outputs else None
        if last is not None and last.output_type == "stream" and last.name == name:
            last.text += text
        elif text:
            self.outputs.append(new_output("stream", name=name, text=text))

    def _bundle(self, raw):
        data = {}
        for mime, value in raw.items():
            if mime in SAFE_TEXT and isinstance(value, str):
                data[mime] = self._text(value)
            elif mime in PICTURES and isinstance(value, str):
                data.update(self._picture(mime, value))
            elif mime == "image/svg+xml" and isinstance(value, str):
                data.update(self._drawing(value))
            elif mime == "text/html" and isinstance(value, str):
                data[mime] = without_action(self._text(value))
            elif mime == "text/markdown" and isinstance(value, str):
                value = self._text(value)
                if acts(value):
                    data.setdefault("text/html", without_action(markdown2html(value)))
                else:
                    data[mime] = value
        return data

    def _picture(self, mime, value):
        try:
            size = len(base64.b64decode("".join(value.split()), validate=True))
        except (binascii.Error, ValueError):
            return {}
        if size > self.picture or size > self.pictures_left:
            self.cut = True
            return {"text/plain": CUT}
        self.pictures_left -= size
        return {mime: "".join(value.split())}

    def _drawing(self, value):
        """Return an SVG as a picture: in an `img`, a browser runs none of its scripts."""
        encoded = base64.b64encode(value.encode("utf-8", "replace")).decode()
        if len(encoded) > min(self.picture, self.pictures_left):
            self.cut = True
            return {"text/plain": CUT}
        self.pictures_left -= len(encoded)
        return {"text/html": f'<img alt="a drawing" src="data:image/svg+xml;base64,{encoded}">'}


def without_action(text):
    """Return HTML or Markdown without scripts, handlers, frames, forms and anything that a browser would fetch."""
    if not MARKUP.search(text):
        return text
    return bleach.clean(
        CODE.sub("", text),
        tags=TAGS,
        attributes=ATTRIBUTES,
        protocols=["http", "https", "mailto"],
        css_sanitizer=CSSSanitizer(allowed_css_properties=STYLES),
        strip=True,
    )


class _Look(HTMLParser):
    """Looks for what would act, or be fetched, when a page is shown."""

    def __init__(self):
        super().__init__()
        self.acts = False

    def handle_starttag(self, tag, attrs):
        """Note a tag or an attribute that is not plain text's."""
        self.acts |= tag not in (*TAGS, "img")
        for name, value in attrs:
            address = "".join((value or "").split()).lower()
            if name in ("href", "src"):
                scheme = re.match(r"[^/?#:]*:", address)
                known = ("http:", "https:", "mailto:") if name == "href" else ("attachment:",)
                picture = name == "src" and re.match(r"data:image/(png|jpeg|gif)[;,]", address)
                self.acts |= bool(scheme and scheme[0] not in known and not picture) or address.startswith("//")
            else:
                self.acts |= name not in (
                    "alt",
                    "title",
                    "style",
                    "class",
                    "id",
                    "colspan",
                    "rowspan",
                    "start",
                    "align",
                )

    def handle_decl(self, decl):
        """Note a declaration."""
        self.acts = True

    handle_pi = unknown_decl = handle_decl


def acts(text):
    """Tell whether Markdown, rendered as nbconvert does it, holds anything but text, links and its own pictures."""
    if not re.search(r"[<&]|\]\s*[(:\[]|:", text):
        return False
    look = _Look()
    look.feed(markdown2html(text))
    look.close()
    return look.acts


def clean_markdown(cells):
    """Take what could act out of a student's Markdown cells; text, formulas and plain links stay as they are."""
    for cell in cells:
        if cell.cell_type == "markdown" and acts(cell.source):
            cell.source = re.sub(r"\n\s*\n", "\n", without_action(markdown2html(cell.source)))
        elif cell.cell_type == "raw":
            for name in ("raw_mimetype", "format"):
                cell.metadata.pop(name, None)


def plain(text):
    """Return a sentence that may quote a student, so that no page takes part of it for markup."""
    return text.replace("<", "‹").replace(">", "›").replace("](", "] (").replace("]:", "] :").replace("`", "'")

"""Puts drawings into the page itself, where they have its fonts and colours, and stack on a phone.

* What `figures/drawing.py` draws is one SVG with a nested one for each panel. In a page each panel
  is an `<svg>` of its own, in a row that wraps; colours that stand for something become the page's
  own variables. Texts are drawn as glyphs; in an edition in another language, those with words
  become text, from the catalog `drawings`.
* `{inline-svg} _static/hero.svg` is a figure, with a number and a caption, of an SVG that has its
  title inside.
"""

import html
import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from docutils.parsers.rst import directives
from edition_pages import is_whole, translated_with_numbers
from sphinx.locale import get_translation
from sphinx.util.docutils import SphinxDirective

figures, drawings = get_translation("figures"), get_translation("drawings")
WORDS = re.compile(r"(<(?:text|title|desc)\b[^>]*>)([^<]+)")
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
ANCHOR = re.compile(r"(start|middle|end)-\d+")
SCALE = re.compile(r"\s*scale\(([\d.]+) -[\d.]+\)")
PLACE = re.compile(r"translate\(([-\d.]+) [-\d.]+\)(?: scale\(([\d.]+)\))?")
SIGNS = {"\\cdot": "·", "\\sqrt": "√", "-": "−", "'": "′", "{": "", "}": ""}
"""The TeX in drawings whose words are translated, as letters."""
VARIABLE = {
    "": '<tspan class="abh-variable">{}</tspan>',
    "_": '<tspan class="abh-sub" dy="0.25em">{}</tspan><tspan dy="-0.2em">\u200b</tspan>',
}
ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)


def colours():
    """Return the page's variable for each colour that stands for something."""
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from figures import drawing

    return drawing.VARIABLES


def words_of(svg):
    """Return the texts of a drawing, in its order."""
    return [html.unescape(words) for words in COMMENT.findall(svg)]


def translated(words):
    """Return a text of a drawing in the edition's language, whatever numbers are in it."""
    return translated_with_numbers(words, drawings)


def reword(panel):
    """Put the words of a panel into the edition's language: text in the place of glyphs, with
    the same anchor.

    Matplotlib writes each text as a comment, and after it the group of its glyphs. A glyph's
    coordinates are in 64ths of a unit, of which the font's size is 100.
    """
    far = {}  # glyph: how far right it goes
    for path in panel.iter(f"{{{SVG}}}path"):
        if "id" in path.attrib:
            points = re.findall(r"(-?[\d.]+) -?[\d.]+", path.get("d", ""))
            far[path.get("id")] = max(map(float, points), default=0) / 64
    for group in list(panel.iter(f"{{{SVG}}}g")):
        anchor, words = ANCHOR.fullmatch(group.get("id", "")), ""
        for part in list(group) if anchor else []:
            if part.tag is ElementTree.Comment:
                words = html.unescape(part.text).strip()
            elif (said := translated(words)) != words:
                write(part, said, anchor[1], far)


def write(glyphs, words, anchor, far):
    """Put words into the place of glyphs. Their definitions are kept: other texts may use them."""
    used = glyphs.findall(f"{{{SVG}}}use")
    width, bold = 0, False
    for glyph in used:
        name = glyph.get(f"{{{XLINK}}}href")[1:]
        x, scale = PLACE.match(glyph.get("transform", "translate(0 0)")).groups()
        width, bold = max(width, float(x) + float(scale or 1) * far[name]), bold or "Bold" in name
    size = 100 * float(SCALE.search(glyphs.get("transform"))[1])
    for part in [part for part in glyphs if part.tag != f"{{{SVG}}}defs"]:
        glyphs.remove(part)
    glyphs.set("transform", SCALE.sub("", glyphs.get("transform")))
    x = {"start": 0, "middle": width * size / 200, "end": width * size / 100}[anchor]
    style = f"font-size: {size:g}px; text-anchor: {anchor}" + ("; font-weight: 600" if bold else "")
    inner = re.sub(
        r"\$([^$]*)\$", lambda formula: letters(formula[1]), html.escape(words, quote=False)
    )
    text = f'<text xmlns="{SVG}" x="{x:.2f}" style="{style}">{inner}</text>'
    glyphs.append(ElementTree.fromstring(text))  # noqa: S314 (our own)


def letters(formula):
    """Return a short formula as parts of an SVG's text: variables in italics, what follows `_`
    lower and smaller.
    """
    for tex, sign in SIGNS.items():
        formula = formula.replace(tex, sign)
    return re.sub(r"(_?)([A-Za-z])", lambda match: VARIABLE[match[1]].format(match[2]), formula)


def in_page(svg, alt, prefix, english=True):
    """Return a drawing as HTML: its panels in a row that wraps, their colours the page's.

    Parameters
    ----------
    svg : str
    alt : str
        What a screen reader says.
    prefix : str
        Makes the ids in this drawing different from those of others.
    english : bool
        Leave its words as they are.
    """
    reader = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))  # noqa: S314 (our own drawing)
    root, parts = ElementTree.fromstring(svg, reader), []  # noqa: S314
    for number, panel in enumerate(root.findall(f"{{{SVG}}}svg")):
        width = panel.attrib.pop("width")
        panel.attrib.pop("height")
        panel.attrib.pop("x")
        panel.attrib["style"] = f"width: {width}px"
        panel.attrib["aria-hidden"] = "true"
        if not english:
            reword(panel)
        text = COMMENT.sub("", ElementTree.tostring(panel, encoding="unicode"))
        text = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}-{number}-", text)
        parts.append(re.sub(r"\s*\n\s*", " ", text))
    body = "".join(parts)
    for colour, variable in colours().items():
        body = re.sub(colour, f"var({variable})", body, flags=re.I)
    return f'<div class="abh-drawing" role="img" aria-label="{html.escape(alt)}">{body}</div>'


def put_in(app, doctree, docname):
    """Replace the pictures that are drawings."""
    if app.builder.format != "html":
        return
    number = itertools.count(1)
    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir) / image["uri"].lstrip("/")
        if path.suffix != ".svg" or "jupyter_execute" not in path.parts:
            continue
        made = in_page(
            path.read_text(encoding="utf8"), image.get("alt", ""), f"d{next(number)}", is_whole(app)
        )
        image.replace_self(nodes.raw("", made, format="html"))


def translate(app, doctree):
    """Put the words of SVG files that a page has into the edition's language."""
    for drawing in list(doctree.findall(nodes.raw)):
        text = re.sub(
            WORDS, lambda part: part[1] + str(figures(" ".join(part[2].split()))), drawing.astext()
        )
        if "</svg>" in text:
            drawing.replace_self(nodes.raw("", text, format="html"))


class InlineSvg(SphinxDirective):
    """A figure of an SVG file; the path is relative to the page, the content is the caption."""

    required_arguments = 1
    option_spec = {"name": directives.unchanged}  # noqa: RUF012 (as docutils has it)
    has_content = True

    def run(self):
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        figure = nodes.figure(classes=["abh-inline"])
        figure += nodes.raw("", Path(path).read_text(encoding="utf8"), format="html")
        parsed = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, parsed)
        caption = nodes.caption(parsed[0].rawsource, "", *parsed[0].children)
        # Sphinx translates a node that has its source, its line and its raw source.
        caption.source, caption.line = parsed[0].source, parsed[0].line
        figure += caption
        self.set_source_info(figure)
        self.add_name(figure)
        return [figure]


def setup(app):
    """Register both."""
    app.add_directive("inline-svg", InlineSvg)
    app.connect("doctree-read", translate)
    app.connect("doctree-resolved", put_in)
    app.add_css_file("drawings.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

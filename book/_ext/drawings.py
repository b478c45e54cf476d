"""Puts drawings into the page itself, where they have its fonts and colours, and stack on a phone.

* What `figures/drawing.py` draws is one SVG with a nested one for each panel. In a page each panel is an `<svg>` of
  its own, in a row that wraps; colours that stand for something become the page's own variables.
* `{inline-svg} _static/hero.svg` is a figure, with a number and a caption, of an SVG that has its title inside.
"""

import html
import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.locale import get_translation
from sphinx.util.docutils import SphinxDirective

figures = get_translation("figures")
WORDS = re.compile(r"(<(?:text|title|desc)\b[^>]*>)([^<]+)")
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)


def colours():
    """Return the page's variable for each colour that stands for something."""
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from figures import drawing

    return drawing.VARIABLES


def in_page(svg, alt, prefix):
    """Return a drawing as HTML: its panels in a row that wraps, their colours the page's.

    Parameters
    ----------
    svg : str
    alt : str
        What a screen reader says.
    prefix : str
        Makes the ids in this drawing different from those of others.
    """
    root = ElementTree.fromstring(svg)  # noqa: S314 (our own drawing)
    parts = []
    for number, panel in enumerate(root.findall(f"{{{SVG}}}svg")):
        width = panel.attrib.pop("width")
        panel.attrib.pop("height")
        panel.attrib.pop("x")
        panel.attrib["style"] = f"width: {width}px"
        panel.attrib["aria-hidden"] = "true"
        text = ElementTree.tostring(panel, encoding="unicode")
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
        made = in_page(path.read_text(encoding="utf8"), image.get("alt", ""), f"d{next(number)}")
        image.replace_self(nodes.raw("", made, format="html"))


def translate(app, doctree):
    """Put the words of SVG files that a page has into the edition's language."""
    for drawing in list(doctree.findall(nodes.raw)):
        text = re.sub(WORDS, lambda part: part[1] + str(figures(" ".join(part[2].split()))), drawing.astext())
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
        figure += nodes.caption("", "", *parsed[0].children)
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

"""What is seen of a page where it is found: in a search engine, and in the book's own search.

* The landing page's title says what the book is, not its name twice.
* A page has a description: that of its front matter (`myst: html_meta: description:`), or else how
  its text begins.
* `finding.js` shows search results as prose: formulas in plain letters, no code.
"""

import textwrap

from docutils import nodes
from sphinx.locale import get_translation

_ = get_translation("extensions")
LONGEST = 160  # characters: what search engines show


def describe(app, doctree):
    """Give a page that has no description the beginning of its text."""
    if any(meta.get("name") == "description" for meta in doctree.findall(nodes.meta)):
        return
    text = (
        p
        for p in doctree.findall(nodes.paragraph)
        if isinstance(p.parent, nodes.section) and not p["classes"]
    )
    opening = next((p.astext() for p in text), "")
    if opening:
        sentence = textwrap.shorten(opening, LONGEST, placeholder=" …")
        doctree.insert(0, nodes.meta(name="description", content=sentence))


def name_landing_page(app, pagename, templatename, context, doctree):
    """Say on the landing page what the book is."""
    if pagename == app.config.root_doc:
        context["docstitle"] = ""
        context["title"] = _("%s: a hands-on course on self-attention") % app.config.html_title


def setup(app):
    """Register all of it."""
    app.add_js_file("finding.js", loading_method="defer")
    app.connect("doctree-read", describe)
    app.connect("html-page-context", name_landing_page, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Puts words that a page's cell computed into the edition's language: "head 4 of layer 2", "103 seconds".

Cells run once and speak English. What they keep for a sentence (`{glue:text}`) is mostly a number; where it has
words, their form is one of `FORMS`, each of which a catalogue translates like any message.
"""

import re

from docutils import nodes
from sphinx.locale import get_translation

_ = get_translation("extensions")


def N_(text):  # noqa: N802  (the name that Babel looks for)
    """Mark a text for the catalogue."""
    return text


FORMS = (
    N_("head {head} of layer {layer}"),
    N_("between {short} and {long} tokens"),
    N_("below {length} tokens, the shortest measured"),
    N_("at no length up to {length} tokens"),
    N_("{count} days"),
    N_("{count} hours"),
    N_("{count} minutes"),
    N_("{count} seconds"),
    N_("{count} milliseconds"),
    N_("{first} and {second}"),
)


def translated(text):
    """Return such words in the edition's language; what has no such form as it is."""
    for form in FORMS:
        parts = re.split(r"\{(\w+)\}", form)
        names, words = parts[1::2], map(re.escape, parts[::2])
        found = re.fullmatch("(.+?)".join(words), text)
        if found and (form.startswith("{first}") or all(re.fullmatch(r"[\d.,]+", part) for part in found.groups())):
            values = {name: translated(part) for name, part in zip(names, found.groups(), strict=True)}
            return str(_(form)).format(**values)
    return text


def translate(app, doctree, docname):
    """Translate what cells kept for sentences."""
    if app.config.language == "en":
        return
    for node in doctree.findall(lambda node: "pasted-text" in getattr(node, "attributes", {}).get("classes", ())):
        text = node.astext()
        if (said := translated(text)) != text:
            node.children = []
            node += nodes.Text(said)


def setup(app):
    """Register it."""
    app.connect("doctree-resolved", translate)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

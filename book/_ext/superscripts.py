"""Sets raised digits in prose as superscripts of the page's own font.

The characters ⁰ to ⁹ and ⁻ come from whatever font has them, in three heights and sizes within one
number. Text keeps them (it is readable everywhere, in notebooks too); a page shows `10⁻³⁵` as
10<sup>−35</sup>.
"""

import re

from docutils import nodes

RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
PLAIN = str.maketrans(RAISED, "−0123456789")
RUN = re.compile(f"([{RAISED}]+)")
AS_IT_IS = (
    nodes.literal,
    nodes.literal_block,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.superscript,
    nodes.comment,
)


def inside(node, kinds):
    """Tell whether a node stands within one of these kinds."""
    while node := node.parent:
        if isinstance(node, kinds):
            return True
    return False


def raise_digits(app, doctree, docname):
    """Replace each run of raised digits by a superscript."""
    for text in list(doctree.findall(nodes.Text)):
        parts = RUN.split(text.astext())
        if len(parts) == 1 or inside(text, AS_IT_IS):
            continue
        made = [
            nodes.superscript("", part.translate(PLAIN))
            if RUN.fullmatch(part)
            else nodes.Text(part)
            for part in parts
            if part
        ]
        text.parent.replace(text, made)


def setup(app):
    """Register it: last of all, so that notebooks and tables made late are past."""
    app.connect("doctree-resolved", raise_digits, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

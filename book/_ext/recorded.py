"""Says under an experiment that it was recorded: when, with what, and how long it took.

The cells are those tagged `recorded` whose code the page shows; `records` keeps what they gave.
"""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.locale import get_translation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import records

_ = get_translation("extensions")


def holds_code(node):
    """Tell whether a node holds a cell's code."""
    return node.get("nb_element") == "cell_code_source"


def say(app, doctree):
    """Put a line under each experiment of a page."""
    cells = [
        node for node in doctree.findall(nodes.container) if node.get("nb_element") == "cell_code"
    ]
    experiments = [node for node in cells if records.TAG in node["cell_metadata"].get("tags", ())]
    record = records.read(Path(app.env.docname).name) if experiments else None
    if not record:
        return
    app.env.note_dependency(str(records.path_of(Path(app.env.docname).name)))
    versions = record["made"]
    # The page has no nodes of cells tagged `remove-cell`, but its record has their values.
    source = Path(app.env.doc2path(app.env.docname)).read_text(encoding="utf8")
    tags = records.recorded_tags(source)
    on_page = [
        cell
        for cell, cell_tags in zip(record["cells"], tags, strict=True)
        if "remove-cell" not in cell_tags
    ]
    for node, cell in zip(experiments, on_page, strict=True):
        # its code is removed, and not only folded
        if not any(map(holds_code, node.findall(nodes.Element))):
            continue
        about = _("Recorded on %s: %.0f s with PyTorch %s and NumPy %s.") % (
            versions["date"],
            cell["seconds"],
            versions["torch"],
            versions["numpy"],
        )
        node.parent.insert(
            node.parent.index(node) + 1, nodes.paragraph("", about, classes=["abh-recorded"])
        )


def setup(app):
    """Register it."""
    app.connect("doctree-read", say)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Makes a notebook of each chapter, to download: its text and the code that the page shows.

The page's own plumbing is not in it (cells that only draw, or that keep a number for a sentence),
so it runs wherever NumPy, PyTorch and Matplotlib are. `{notebook-link}` in a page is the link to
it.
"""

import re
import sys
from pathlib import Path

import nbformat
from docutils import nodes
from notebook_links import links
from sphinx.locale import get_translation
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import records

_ = get_translation("extensions")
FOLDER = "notebooks"
TAKES = re.compile(r"^globals\(\)\.update\(of_chapter\(\"([\w-]+)\"\)\).*\n?", re.MULTILINE)
"""How a page takes what its chapter defines; in its notebook stands the chapter's code instead."""


def file_of(docname):
    """Return the name of a page's notebook: not that of the chapter alone, which its exercise
    has.
    """
    name = Path(docname).name
    return f"{name}.ipynb" if name.endswith("-deeper") else f"{name}-chapter.ipynb"


class chapter_link(nodes.reference):  # noqa: N801 (docutils names its nodes so)
    """The link to a page's notebook."""


class MarkdownVisitor(nodes.NodeVisitor):
    """Collects what a part of a page says, as Markdown that Jupyter shows."""

    def __init__(self, document, macros):
        super().__init__(document)
        self.parts, self.macros, self.prefix = [], macros, ""

    def text(self):
        """Return the Markdown."""
        return re.sub(r"\n{3,}", "\n\n", "".join(self.parts)).strip()

    def formula(self, text):
        """Return a formula without the book's own macros."""
        for name, (arguments, body) in self.macros.items():
            if not arguments:
                text = re.sub(rf"\\{name}(?![A-Za-z])", lambda _, body=body: body, text)
        return text

    def visit_Text(self, node):  # noqa: N802
        """Plain text; a dollar in it is no formula."""
        self.parts.append(node.astext().replace("$", r"\$").replace("\n", " "))

    def visit_math(self, node):
        """A formula in a line."""
        self.parts.append(f"${self.formula(node.astext())}$")
        raise nodes.SkipNode

    def visit_math_block(self, node):
        """A formula of its own."""
        body = self.formula(node.astext()).strip()
        if "\\begin{" not in body and "\\\\" in body:
            body = f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"
        self.parts.append(f"\n\n$$\n{body}\n$$\n\n")
        raise nodes.SkipNode

    def visit_literal(self, node):
        """Code in a line."""
        self.parts.append(f"`{node.astext()}`")
        raise nodes.SkipNode

    def visit_literal_block(self, node):
        """A block of code that is no cell."""
        self.parts.append(f"\n\n```\n{node.astext()}\n```\n\n")
        raise nodes.SkipNode

    def visit_list_item(self, node):
        """A point of a list."""
        self.parts.append("\n- ")

    def visit_row(self, node):
        """A row of a table, as one line."""
        cells = []
        for entry in node:
            inner = MarkdownVisitor(self.document, self.macros)
            entry.walkabout(inner)
            cells.append(inner.text().replace("\n", " ").replace("|", r"\|"))
        self.parts.append("| " + " | ".join(cells) + " |\n")
        if isinstance(node.parent, nodes.thead):
            self.parts.append("|" + " --- |" * len(cells) + "\n")
        raise nodes.SkipNode

    def visit_paragraph(self, node):
        """A paragraph; the first of a list's point stays on its line."""
        if not isinstance(node.parent, nodes.list_item) or node.parent.index(node):
            self.parts.append("\n\n")

    def depart_paragraph(self, node):
        """Its end."""
        self.parts.append("\n")

    def visit_table(self, node):
        """A table stands apart."""
        self.parts.append("\n\n")

    def skip(self, node):
        """Leave out what only a page has."""
        raise nodes.SkipNode

    visit_raw = visit_image = visit_target = visit_colspec = visit_comment = skip
    visit_substitution_definition = visit_figure = visit_exercise_card = skip

    def wrapped(mark):  # noqa: N805 (makes the two methods of a node that has marks around it)
        """Return methods that put a mark before and after."""
        return (lambda self, node: self.parts.append(mark),) * 2

    visit_strong, depart_strong = wrapped("**")
    visit_emphasis, depart_emphasis = wrapped("*")

    def unknown_visit(self, node):
        """Everything else is what is in it."""

    unknown_departure = unknown_visit


def standalone_source(code):
    """Return a cell's code as it runs without the book."""
    code = TAKES.sub(lambda match: records.chapter_code(match[1]) + "\n", code)
    return code.replace("from figures.course import of_chapter\n", "")


def is_source(node):
    """Tell whether a node holds a cell's code."""
    return isinstance(node, nodes.Element) and node.get("nb_element") == "cell_code_source"


def cells_of(doctree, macros):
    """Return a page's cells: text between, and the code that the page shows."""
    cells, waiting = [], []

    def flush():
        text = "\n\n".join(part for part in waiting if part)
        waiting.clear()
        if text:
            cells.append(nbformat.v4.new_markdown_cell(text))

    def take(node, level):
        for child in node.children:
            if isinstance(child, nodes.section):
                take(child, level + 1)
            elif isinstance(child, nodes.title):
                waiting.append("#" * max(1, level) + " " + child.astext())
            elif isinstance(child, nodes.container) and child.get("nb_element") == "cell_code":
                # perhaps folded, unless it is removed
                source = next(child.findall(is_source), None)
                if source:
                    flush()
                    cells.append(
                        nbformat.v4.new_code_cell(standalone_source(source.astext().strip()))
                    )
            elif {"abh-selftest", "abh-pointer", "abh-recorded"} & set(child.get("classes", [])):
                continue
            else:
                visitor = MarkdownVisitor(doctree, macros)
                child.walkabout(visitor)
                waiting.append(visitor.text())

    take(doctree, 0)
    flush()
    return cells


def write(app, doctree, docname):
    """Write the notebook of a page that has the link to it."""
    links = list(doctree.findall(chapter_link))
    if app.builder.format != "html" or not links:
        return
    written = app.config.mathjax3_config["tex"]["macros"]
    macros = {
        name: (isinstance(body, list), re.sub(r"\\class\{[^}]*\}\{([^}]*)\}", r"\1", str(body)))
        for name, body in written.items()
    }
    notebook = nbformat.v4.new_notebook(cells=cells_of(doctree, macros))
    for number, cell in enumerate(notebook.cells):  # the same page, the same file
        cell.id = f"cell-{number}"
    notebook.metadata = {
        "kernelspec": {
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        }
    }
    path = Path(app.outdir) / FOLDER / file_of(docname)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


class NotebookLink(SphinxDirective):
    """The line under a chapter's title that leads to its notebook."""

    def run(self):
        name = file_of(self.env.docname)
        up = "../" * self.env.docname.count("/")
        line = nodes.paragraph(classes=["abh-pointer", "abh-notebook"], translatable=False)
        line += nodes.inline("", _("Notebook"), classes=["abh-kicker"])
        link = chapter_link("", name, refuri=f"{up}{FOLDER}/{name}")
        line += [link, *links(self.env, f"{FOLDER}/{name}")]
        return [line]


def setup(app):
    """Register the link, and what it leads to."""
    app.add_node(chapter_link, html=(visit_link, depart_link))
    app.add_directive("notebook-link", NotebookLink)
    app.connect("doctree-resolved", write, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def visit_link(self, node):
    """A link that the browser saves."""
    self.body.append(f'<a href="{node["refuri"]}" download>')


def depart_link(self, node):
    """Its end."""
    self.body.append("</a>")

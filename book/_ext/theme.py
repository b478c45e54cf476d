"""The theme of the book: everything served from the book itself, and the exercise card.

* Drops sphinx-thebe, whose script breaks every page and names a CDN.
* Copies what pages need in the browser (MathJax, fonts, the widgets' runtime) out of `_build/npm/`.
* `{exercise} 01-qkv` shows an exercise: title, points, one zip to download and how to open it, or
  where it opens without an install. The page that holds the card also gets a line under its title
  that leads there.
* `{pdf-link}` leads to the PDF of the edition; it is hidden until `make pdf` has printed one.
"""

import filecmp
import functools
import json
import shutil
import sys
import zipfile
from pathlib import Path

import anywidget
from docutils import nodes
from notebook_links import links
from sphinx.errors import ExtensionError
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import editions
from edition_pages import is_whole, path_to_site
from pdf import NAME as PDF
from pdf import show_pdf

from autograder.course import archive
from autograder.course.config import Exercise

logger = logging.getLogger(__name__)
_ = get_translation("extensions")

# What a page may ask for, as npm package and the place it gets under _static/vendor/.
# MathJax's other outputs, its menu and its speech engine are 10 MB that nothing here asks for.
VENDOR = {
    "mathjax/es5/tex-chtml.js": "mathjax/tex-chtml.js",
    "mathjax/es5/input/tex/extensions": "mathjax/input/tex/extensions",
    "mathjax/es5/output/chtml/fonts/woff-v2": "mathjax/output/chtml/fonts/woff-v2",
    "mathjax/LICENSE": "mathjax/LICENSE",
    "requirejs/require.js": "require.js",
    "@jupyter-widgets/html-manager/dist/embed-amd.js": "html-manager/embed-amd.js",
    "@jupyter-widgets/html-manager/dist/*.woff2": "html-manager/",
    "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2": "fonts/inter.woff2",
    "@fontsource-variable/inter/LICENSE": "fonts/inter-LICENSE",
    "@fontsource-variable/source-serif-4/files/source-serif-4-latin-opsz-normal.woff2": "fonts/serif.woff2",  # noqa: E501
    "@fontsource-variable/source-serif-4/files/source-serif-4-latin-opsz-italic.woff2": "fonts/serif-italic.woff2",  # noqa: E501
    "@fontsource-variable/source-serif-4/LICENSE": "fonts/source-serif-4-LICENSE",
    "@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2": "fonts/mono.woff2",  # noqa: E501
    "@fontsource-variable/jetbrains-mono/LICENSE": "fonts/jetbrains-mono-LICENSE",
}
SKIP = {"__pycache__", ".ipynb_checkpoints"}


def copy(source, target):
    """Copy a file or folder where it differs."""
    if source.is_dir():
        for path in source.iterdir():
            copy(path, target / path.name)
    elif not target.exists() or not filecmp.cmp(source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def copy_vendor(app):
    """Put what pages load beside them."""
    if app.builder.format != "html" or not is_whole(app):
        return
    npm = Path(app.srcdir) / "_build" / "npm" / "node_modules"
    vendor = Path(app.outdir) / "_static" / "vendor"
    for package_path, target in VENDOR.items():
        folder, _slash, name = package_path.rpartition("/")
        files = list((npm / folder).glob(name))
        if not files:
            raise ExtensionError(
                f"_build/npm has no {package_path}: run `make book`, which downloads it"
            )
        for path in files:
            copy(path, vendor / target / path.name if target.endswith("/") else vendor / target)
    copy(Path(anywidget.__file__).parent / "nbextension" / "index.js", vendor / "anywidget.js")


def drop_thebe(app):
    """Undo what sphinx-thebe registered; Jupyter Book loads it whether it is used or not."""
    for listeners in app.events.listeners.values():
        listeners[:] = [entry for entry in listeners if entry.handler.__module__ != "sphinx_thebe"]
    app.registry.css_files[:] = [
        (name, attributes)
        for name, attributes in app.registry.css_files
        if name != "sphinx-thebe.css"
    ]


def read_exercise(path):
    """The title and points of a released notebook: its first heading, and the sum over its
    graded cells.
    """
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    prose = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    heading = next((line for line in prose.splitlines() if line.startswith("# ")), path.stem)
    metadata = [cell["metadata"].get("nbgrader", {}) for cell in cells]
    points = sum(cell.get("points", 0) for cell in metadata if cell.get("grade"))
    return heading.removeprefix("# ").strip(), points


def released(app):
    """The notebooks of the released exercises."""
    notebooks = sorted((Path(app.srcdir) / "exercises").glob("*/*.ipynb"))
    return [notebook for notebook in notebooks if notebook.stem == notebook.parent.name]


def require_archives(app):
    """Refuse to build downloads in which what the checks import from is missing, or not that of
    the exercise.
    """
    for notebook in released(app) if app.builder.format == "html" else []:
        if fault := archive.fault(Exercise(notebook.stem, Path(app.srcdir))):
            raise ExtensionError(fault)


def pack(folder, target):
    """Zip a released exercise under its own name; the same files always make the same bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # A fixed date and mode, whatever the files have here.
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if path.is_file() and not SKIP & set(parts) and path.suffix != ".pyc":
                entry = zipfile.ZipInfo(
                    "/".join((folder.name, *parts)), date_time=(2026, 1, 1, 0, 0, 0)
                )
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o100644 << 16
                packed.writestr(entry, path.read_bytes())


def pack_exercises(app, exception):
    """Make one zip of each released exercise."""
    if exception or app.builder.format != "html" or not is_whole(app):
        return
    zips = Path(app.outdir) / "exercises"
    shutil.rmtree(zips, ignore_errors=True)
    for notebook in released(app):
        pack(notebook.parent, zips / f"{notebook.stem}.zip")


class exercise_card(nodes.container):  # noqa: N801 (docutils names its nodes so)
    """The card; `pointer` is the line about it that goes under the page's title."""


class ExerciseDirective(SphinxDirective):
    """`{exercise} NN-name`: the card of exercises/NN-name/."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        notebook = Path(self.env.srcdir) / "exercises" / name / f"{name}.ipynb"
        self.env.note_dependency(str(notebook))
        if not notebook.exists():
            message = (
                "exercises/%s/%s.ipynb is missing: run `make release`, which makes it from "
                "solutions/"
            )
            logger.warning(message, name, name, location=self.get_location(), type="theme")
            return []
        title, points = read_exercise(notebook)
        language = editions.language_code(self.env.app.config.language)
        opened = notebook.with_suffix(f".{language}.ipynb")  # the edition's own, in the same zip
        opened = opened if opened.exists() else notebook
        worth = _("%g points") % points
        up = "../" * self.env.docname.count("/") + path_to_site(self.env.app)

        # what is said here is translated already
        paragraph = functools.partial(nodes.paragraph, translatable=False)
        card = exercise_card(classes=["abh-exercise"], ids=[f"exercise-{name}"])
        card["pointer"] = (title, worth)
        card += paragraph("", _("Exercise"), classes=["abh-kicker"])
        card += paragraph("", title, classes=["abh-exercise-title"])
        download = paragraph(classes=["abh-exercise-facts"])
        link = nodes.reference(
            "", _("Download %s") % f"{name}.zip", refuri=f"{up}exercises/{name}.zip"
        )
        link["classes"] = ["abh-button"]
        elsewhere = links(self.env, f"exercises/{name}/{opened.name}", "abh-button", "abh-quiet")
        download += [link, *elsewhere, nodes.inline("", worth, classes=["abh-points"])]
        card += download
        card += paragraph("", _("Unpack and open it:"))
        card += shell(f"python -m zipfile -e {name}.zip .\njupyter lab {name}/{opened.name}")
        if elsewhere:
            note = _(
                "Colab and Binder need no installation, but keep nothing: download your notebook "
                "before you leave."
            )
            card += paragraph("", note)
        return [card]


class PdfLinkDirective(SphinxDirective):
    """A line that leads to the PDF of the edition, if there is one."""

    def run(self):
        words = _("The whole book as a PDF, to print")
        line = f'<p class="abh-pdf" hidden><a href="../{PDF}">{words}</a></p>'
        return [nodes.raw("", line, format="html", translatable=False)]


def show_pdfs(app, error):
    """Show the link to the PDF of this edition where it is printed."""
    landing = Path(app.outdir) / "book" / "index.html"
    if app.builder.format == "html" and landing.exists():
        show_pdf(landing)


def shell(text):
    """A block of commands."""
    return nodes.literal_block(text, text, language="bash")


def point_to_exercise(app, doctree):
    """Say under a page's title which exercise it has, and lead there."""
    for card in list(doctree.findall(exercise_card)):
        title, worth = card.attributes.pop("pointer")
        if not is_whole(app):  # the chapter's title, which is the exercise's, is translated now
            title = title.partition(" ")[0] + " " + next(doctree.findall(nodes.title)).astext()
            card[1].replace_self(nodes.paragraph("", title, classes=card[1]["classes"]))
        line = nodes.paragraph(classes=["abh-pointer"])
        line += nodes.inline("", _("Exercise"), classes=["abh-kicker"])
        line += nodes.reference("", title, refid=card["ids"][0], internal=True)
        line += nodes.inline("", worth, classes=["abh-points"])
        section = next(doctree.findall(nodes.section))
        section.insert(section.first_child_matching_class(nodes.title) + 1, line)


def notice_formulas(app, doctree, docname):
    """Let a page have MathJax whose formulas came late, from a directive that is filled in at
    the end.
    """
    if next(doctree.findall(lambda node: isinstance(node, nodes.math | nodes.math_block)), None):
        app.env.get_domain("math").data["has_equations"][docname] = True


def visit_card(translator, node):
    """Open the card as a landmark of its own."""
    translator.body.append(
        translator.starttag(node, "aside", CLASS="", **{"aria-label": _("Exercise")})
    )


def depart_card(translator, node):
    """Close the card."""
    translator.body.append("</aside>\n")


def setup(app):
    """Register all of it; must be loaded after sphinx_thebe, as local extensions are."""
    drop_thebe(app)
    app.add_css_file("book.css", priority=900)
    app.add_js_file("book.js", loading_method="defer")
    app.add_node(exercise_card, html=(visit_card, depart_card))
    app.add_directive("exercise", ExerciseDirective)
    app.add_directive("pdf-link", PdfLinkDirective)
    app.connect("builder-inited", require_archives)
    app.connect("builder-inited", copy_vendor)
    app.connect("doctree-read", point_to_exercise)
    app.connect("doctree-resolved", notice_formulas, priority=900)
    app.connect("build-finished", pack_exercises)
    app.connect("build-finished", show_pdfs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

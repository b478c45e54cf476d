"""Two tables of the instructor's page, made from what they are about whenever the book is built.

* `{limits}` lists what a submission may use: names, values and meanings are those of
  `autograder.course.limits.Limits`.
* `{benchmarks}` shows what benchmarks/results.json holds, as `benchmarks/run.py --table` prints it
  (`benchmarks/tables.py` makes both), and which exercises are not in it yet; without that file, it
  says so. `{benchmarks} cluster` shows what `benchmarks/cluster.py --table` prints.
"""

import dataclasses
import importlib.util
import json
import re
from pathlib import Path

from catches import MeasuredDirective
from corpus import table
from docutils import nodes
from docutils.statemachine import StringList
from edition_pages import translated_with_numbers, without_numbers
from sphinx.locale import get_translation
from sphinx.util.docutils import SphinxDirective

from autograder.course import limits

_ = get_translation("extensions")
BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
TABLES = BENCHMARKS / "tables.py"
NAMES = re.compile(r"; Python |; of the run: |^\d\d-[a-z-]+$")
"""What of the tables stays as it is: the machine, what a run was made of in the order of its
parts, and exercises.
"""


class LimitsDirective(SphinxDirective):
    """The table of limits."""

    def run(self):
        self.env.note_dependency(limits.__file__)
        body = []
        for limit in dataclasses.fields(limits.Limits):
            meaning = nodes.paragraph("", limit.metadata["help"])
            self.set_source_info(meaning)
            body.append(
                [
                    [nodes.paragraph("", "", nodes.literal("", limit.name), translatable=False)],
                    _value(limit.default),
                    [meaning],
                ]
            )
        return [
            table([_("Name"), _("Value"), _("What it limits")], body, (26, 10, 60), "abh-limits")
        ]


def _value(default):
    """A limit's value: a number, or whether it is on."""
    if isinstance(default, bool):
        return _("yes") if default else _("no")
    return f"{default:g}"


class BenchmarksDirective(SphinxDirective):
    """The tables of what was measured; with an argument, such as `cluster`, only this part."""

    optional_arguments = 1

    def run(self):
        results = BENCHMARKS / "results.json"
        # Also while it isn't there: the page is then read again each time, and shows it when it is.
        self.env.note_dependency(str(results))
        self.env.note_dependency(str(TABLES))
        measured = json.loads(results.read_text(encoding="utf8")) if results.exists() else {}
        part = self.arguments[0] if self.arguments else ""
        if not measured or (part and part not in measured):
            text = _(
                "This has not been measured on this checkout yet: benchmarks/results.json "
                "has no such entry."
            )
            return [nodes.paragraph("", text, classes=["abh-unmeasured"], translatable=False)]
        tables = _tables()
        text = tables.PARTS[part](measured) if part else tables.markdown(measured)
        lines = text.splitlines()
        missing = [] if part else unmeasured(measured)
        lines = [translated(line) for line in lines]
        if missing:
            lines += ["", _("Not measured yet: %s.") % ", ".join(missing)]
        box = nodes.container(classes=["abh-measured"])
        source = StringList(lines, source=str(results))
        self.state.nested_parse(source, self.lineno - 1, box)
        for node in box.findall(nodes.TextElement):
            node["translatable"] = False
        return [box]


def cells(line):
    """Return the cells of a row of a table; of another line, the line.

    Spaces around a bar are left out, so that a cell is a message of the catalog.
    """
    return re.split(r"(?<=\|) *| *(?=\|)", line)


def translated(line):
    """Return a line of what was measured in the edition's language."""
    return " ".join(map(translated_with_numbers, cells(line)))


def messages():
    """Return what `{benchmarks}` says on the page about grading, with places for the numbers."""
    tables = _tables()
    results = json.loads((BENCHMARKS / "results.json").read_text(encoding="utf8"))
    lines = [*tables.markdown(results).splitlines(), *tables.exchange(results).splitlines()]
    texts = [cell for line in lines for cell in cells(line) if not NAMES.search(cell)]
    return list(map(without_numbers, texts))


def unmeasured(results):
    """Return the exercises of the course that the results have no class of."""
    released = sorted(path.parent.name for path in BENCHMARKS.parent.glob("exercises/*/*.ipynb"))
    return [name for name in released if name not in results.get("class", {})]


def _tables():
    """The module benchmarks/tables.py, which needs nothing beside Python."""
    spec = importlib.util.spec_from_file_location("benchmarks_tables", TABLES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def setup(app):
    app.add_directive("limits", LimitsDirective)
    app.add_directive("benchmarks", BenchmarksDirective)
    app.add_directive("catches-measured", MeasuredDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

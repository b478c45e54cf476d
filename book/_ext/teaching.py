"""The numbers on the page "Teaching with this book": how long things take, and how often a mistake
was found.

* `{takes}` with `reading 1 2` says how long the first pages of chapters 1 and 2 take to read, as
  the pages themselves say; `reading all` is for all chapters. `pencil` is the time that they add
  for pencil and figure, and `exercise` the time that the released notebooks state.
* `{mistake}` with `1 soft_lookup: softmax over the queries` is the label of a listed mistake of
  exercise 1 in the edition's language, and the function's name. It also says how many of the unseen
  wrong answers to this function got this cause, as `benchmarks/unseen.py` recorded. No unseen
  answer was written for a pencil question.
* `{unseen}` with `wrong` counts the unseen wrong answers to all exercises.
* `{chapter-times}` is a table of all chapters: what each builds on, and how long each takes.

A label that the list of the function does not have is a warning.
"""

import functools
import json
import re

from corpus import feedback, table
from docutils import nodes
from sphinx import addnodes
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from autograder.authoring import chapters, loader, unseen

logger = logging.getLogger(__name__)
_ = get_translation("extensions")
FOLDERS = {int(folder.name[:2]): folder for folder in loader.FOLDERS}
STATED = re.compile(r"^About (\d+) minutes to read, and (\d+) more", re.M)
STATED_IN_NOTEBOOK = re.compile(r"^\*About (\d+) minutes", re.M)
KINDS = ("reading", "pencil", "exercise")
PENCIL = "by_hand"
HOUR = 60
LONG = 120
"""From so many minutes on, hours are easier to read."""
ALL = "all"


def notebook_of(name):
    """The released notebook of a chapter."""
    return loader.ROOT / "exercises" / name / f"{name}.ipynb"


def pages_of(name):
    """The pages of a chapter for a first reading."""
    pages = chapters.read(loader.ROOT)[name].pages
    return [page for page in pages if not page.stem.endswith(chapters.DEEPER)]


def minutes(kind, name):
    """How many minutes a chapter takes: `kind` is one of `KINDS`."""
    if kind == "exercise":
        cells = json.loads(notebook_of(name).read_text(encoding="utf8"))["cells"]
        prose = "\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
        )
        return int(STATED_IN_NOTEBOOK.search(prose)[1])
    stated = (STATED.search(page.read_text(encoding="utf8")) for page in pages_of(name))
    return sum(int(match[KINDS.index(kind) + 1]) for match in stated if match)


def duration(total):
    """Minutes as people say them: "75 min", "10 h 10 min"."""
    if total < LONG:
        return _("%d min") % total
    hours, rest = divmod(total, HOUR)
    return _("%d h %d min") % (hours, rest) if rest else _("%d h") % hours


@functools.cache
def labels(folder):
    """The labels of the listed mistakes of an exercise, by function."""
    exercise = loader.load(folder)
    listed = functools.partial(exercise.suite.listed, "wrong_for")
    return {subject: {wrong.label for wrong in listed(subject)} for subject in exercise.subjects}


def recognition_counts(name, subject, label):
    """How many of the unseen wrong answers to a function got this cause; None if that is not
    recorded.
    """
    causes = unseen.recorded().get(name, {}).get("causes", {}).get(subject)
    # A label that is not among the named ones was found in none of them.
    return causes and (causes["named"].get(label, 0), causes["wrong"])


class TakesRole(SphinxRole):
    """How long some chapters take."""

    def run(self):
        kind, *numbers = self.text.split()
        known = {str(number): folder.name for number, folder in FOLDERS.items()}
        names = (
            list(known.values()) if numbers == [ALL] else [known.get(number) for number in numbers]
        )
        if kind not in KINDS or None in names:
            logger.warning(
                "no such time: %s", self.text, location=self.get_location(), type="teaching"
            )
            return [], []
        for name in names:
            for file in (notebook_of(name), *pages_of(name)):
                self.env.note_dependency(str(file))
        return [nodes.inline("", duration(sum(minutes(kind, name) for name in names)))], []


class MistakeRole(SphinxRole):
    """A listed mistake, and how often it was found."""

    def run(self):
        function, _colon, label = self.text.partition(": ")
        number, _space, subject = function.partition(" ")
        folder = FOLDERS.get(int(number)) if number.isdecimal() else None
        if not folder or label not in labels(folder).get(subject, ()):
            logger.warning(
                "no such mistake: %s", self.text, location=self.get_location(), type="teaching"
            )
            return [], []
        for file in (folder / "misconceptions.py", unseen.RECORD):
            self.env.note_dependency(str(file))
        shown = nodes.inline(
            "", "", nodes.emphasis("", feedback(self.env, folder.name)(label)), nodes.Text(" (")
        )
        if subject == PENCIL:
            shown += nodes.Text(_("pencil question"))
        else:
            shown += nodes.literal("", subject)
            if counts := recognition_counts(folder.name, subject, label):
                shown += nodes.Text(", " + _("%d of %d") % counts)
            else:
                logger.warning(
                    "no record of causes: %s",
                    self.text,
                    location=self.get_location(),
                    type="teaching",
                )
        shown += nodes.Text(")")
        return [shown], []


class UnseenRole(SphinxRole):
    """A count of all unseen answers."""

    def run(self):
        self.env.note_dependency(str(unseen.RECORD))
        return [nodes.Text(f"{sum(row[self.text] for row in unseen.recorded().values()):,}")], []


class ChapterTimesDirective(SphinxDirective):
    """What each chapter builds on, and how long it takes."""

    def run(self):
        body, rows = [], chapters.read(loader.ROOT)
        for name, row in rows.items():
            for file in (row.entries, notebook_of(name), *pages_of(name)):
                self.env.note_dependency(str(file))
            before = ", ".join(str(rows[other].number) for other in row.after)
            chapter = nodes.paragraph(
                "", "", nodes.Text(f"{row.number} "), self.link(name), translatable=False
            )
            body.append(
                [[chapter], before or "–", *(duration(minutes(kind, name)) for kind in KINDS)]
            )
        times = (duration(sum(minutes(kind, name) for name in rows)) for kind in KINDS)
        body.append([_("All"), "", *times])
        head = [_("Chapter"), _("Builds on"), _("Reading"), _("Pencil, figure"), _("Exercise")]
        return [table(head, body, (36, 14, 17, 17, 16), "abh-summed")]

    def link(self, name):
        """A link to a chapter, under its title."""
        return addnodes.pending_xref(
            "", nodes.inline("", ""), refdomain="std", reftype="doc", reftarget=f"/book/{name}",
            refexplicit=False,
            refdoc=self.env.docname, refwarn=True,
        )  # fmt: skip


def setup(app):
    app.add_role("takes", TakesRole())
    app.add_role("mistake", MistakeRole())
    app.add_role("unseen", UnseenRole())
    app.add_directive("chapter-times", ChapterTimesDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

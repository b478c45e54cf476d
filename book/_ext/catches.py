"""Which wrong answer is caught by which check, and with which hint: made by running the exercises' own checks.

* `{catches-summary}` counts, for each exercise: functions, checks, wrong answers, right answers that look different.
* `{catches} 01-qkv` is one exercise: a table for each function, folded into a <details>.

What is listed as wrong and caught by no check is a warning, and an exercise that isn't there.
"""

import importlib
import sys
from functools import cache
from pathlib import Path

from corpus import corpus_details, table
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
_ = get_translation("catches")
ROOT = Path(__file__).resolve().parent.parent.parent
SEED = 1


def folders():
    """The folders of all exercises, and the module that the tests load them with."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        tools = importlib.import_module("exercises")
    finally:
        sys.path.remove(str(ROOT / "tests"))
    return tools, {folder.name: folder for folder in tools.FOLDERS}


@cache
def found(name, changed):
    """What the checks of an exercise make of its listed answers: (function, checks, right answers, rows) for each.

    `changed` is when its files were, so that nothing is run twice for the same files. A row is the wrong answer's
    name in words, its hint, and (name, title) of each check that fails, the first one first.
    """
    tools, known = folders()
    exercise = tools.load(known[name])
    suite, own = exercise.suite, []
    for subject in exercise.subjects:
        rows = []
        for wrong, failed in tools.caught(exercise, subject, SEED):
            rows.append((words(wrong.__name__, subject), wrong.hint, [(r.name, r.title) for r in failed]))
        names = [check.__name__ for check in suite.of(subject)]
        own.append((subject, names, len(suite.listed("right_for", subject)), rows))
    return own


def words(name, subject):
    """A function's name as words, without what it stands for: "scores_keys_first" -> "keys first"."""
    return name.removeprefix(subject).strip("_").replace("_", " ")


class _Directive(SphinxDirective):
    def of(self, name):
        """The results of one exercise."""
        _tools, known = folders()
        if name not in known:
            message = "there is no exercise %r; there are %s"
            logger.warning(message, name, ", ".join(known), location=self.get_location(), type="catches")
            return []
        paths = sorted(known[name].glob("*.py")) + sorted((ROOT / "autograder/runtime/checking").glob("*.py"))
        for path in paths:
            self.env.note_dependency(str(path))
        return found(name, tuple(path.stat().st_mtime_ns for path in paths))

    def parsed(self, text):
        """A line of Markdown, as nodes."""
        part = nodes.container()
        self.state.nested_parse(StringList([text], source=self.env.doc2path(self.env.docname)), self.lineno - 1, part)
        return list(part.children)


class SummaryDirective(_Directive):
    """How many checks and answers each exercise has."""

    def run(self):
        body, total = [], [0, 0, 0, 0]
        for name in folders()[1]:
            own = self.of(name)
            counts = [len(own), 0, 0, 0]
            for _subject, checks, right, rows in own:
                counts = [counts[0], counts[1] + len(checks), counts[2] + len(rows), counts[3] + right]
            body.append([name, *map(str, counts)])
            total = [a + b for a, b in zip(total, counts, strict=True)]
        body.append([_("All"), *map(str, total)])
        head = [_("Exercise"), _("Functions"), _("Checks"), _("Wrong answers"), _("Right, but different")]
        return [table(head, body, (28, 18, 18, 18, 18), "abh-counts", "abh-summed")]


class CatchesDirective(_Directive):
    """One exercise: each function's wrong answers, who catches them, and what the student reads."""

    required_arguments = 1

    def run(self):
        parts = []
        for subject, checks, right, rows in self.of(self.arguments[0]):
            summary = _("%s: %d wrong answers, %d checks") % (subject, len(rows), len(checks))
            details = corpus_details(summary=summary, ids=[f"catches-{self.arguments[0]}-{subject}"])
            head = [_("Wrong answer"), _("Caught by"), _("Hint")]
            body = [self.row(subject, *row) for row in rows]
            details += table(head, body, (22, 36, 42), "abh-corpus", "abh-catches")
            told = _("%d right answers that look different pass all of these checks.") % right
            details += nodes.paragraph("", told, classes=["abh-recorded"])
            parts.append(details)
        return parts

    def row(self, subject, answer, hint, failed):
        """The cells of a row."""
        if not failed:
            message = "%s: the wrong answer %r is caught by no check"
            logger.warning(message, subject, answer, location=self.get_location(), type="catches")
            return [answer, "", self.parsed(hint)]
        caught = self.parsed(failed[0][1])
        if len(failed) > 1:
            also = ", ".join(words(name, subject) for name, _title in failed[1:])
            caught.append(nodes.paragraph("", _("also: %s") % also, classes=["abh-quiet"]))
        return [answer, caught, self.parsed(hint)]


def setup(app):
    app.add_directive("catches-summary", SummaryDirective)
    app.add_directive("catches", CatchesDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

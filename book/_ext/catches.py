"""Which wrong answer is caught by which check, and with which hint: made by running the exercises' own checks.

* `{catches-summary}` counts, for each exercise: functions, checks, wrong answers, those caught and recognised, and
  right answers that look different and are not rejected.
* `{catches-mutants}` counts, for each exercise, what became of its mutants: as `python -m autograder.mutants` wrote
  it down, because that takes minutes.
* `{catches} 01-qkv` is one exercise: a table for each function, folded into a <details>.

What is listed as wrong and caught by no check is a warning, and so are a right answer that is rejected, a mutant that
passes, and an exercise that isn't there.
"""

import multiprocessing
import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from corpus import corpus_details, table
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from autograder import authoring, mutants

logger = logging.getLogger(__name__)
_ = get_translation("catches")
ROOT = Path(__file__).resolve().parent.parent.parent
SEED = 1
RIGHT_SEEDS = range(3)


def folders():
    """The folders of all exercises, and the module that the tests load them with."""
    return authoring, {folder.name: folder for folder in authoring.FOLDERS}


def found(name):
    """What the checks of an exercise make of its listed answers: (function, checks, right answers, rows) for each.

    The right answers are two lists of names: those that lose no points under any of the seeds, and those that do.
    A row is the wrong answer's label, its hint, (name, title) of each check that fails, the first one first, and
    whether that one recognises it.
    """
    tools, known = folders()
    exercise = tools.load(known[name])
    suite, own = exercise.suite, []
    for subject in exercise.subjects:
        rows = []
        for wrong, failed in tools.caught(exercise, subject, SEED):
            recognised = bool(failed) and failed[0].cause == wrong.__name__
            rows.append((mistake(wrong, subject), wrong.hint, [(r.name, r.title) for r in failed], recognised))
        names = [check.__name__ for check in suite.of(subject)]
        right = [], []
        for answer in suite.listed("right_for", subject):
            reports = [suite.examine(subject, answer, 1.0, seed) for seed in RIGHT_SEEDS]
            # What needs a machine that this is not is left open: the page would differ from one machine to the next.
            good = all(round(report.score + report.pending, 2) == 1 for report in reports)
            right[not good].append(answer.__name__)
        own.append((subject, names, right, rows))
    return own


_FOUND = {}


def prepared(names):
    """For each exercise what `found` gives; several at once, and nothing twice for the same files."""
    wanted = {name: (name, tuple(path.stat().st_mtime_ns for path in decides(name))) for name in names}
    missing = sorted((name for name, key in wanted.items() if key not in _FOUND), reverse=True)  # longest first
    if missing:
        spawn = multiprocessing.get_context("spawn")  # a fork of a process in which torch runs may hang
        with ProcessPoolExecutor(min(len(missing), os.cpu_count() or 1), mp_context=spawn) as pool:
            _FOUND.update(zip(map(wanted.get, missing), pool.map(found, missing), strict=True))
    return {name: _FOUND[key] for name, key in wanted.items()}


def decides(name):
    """The files that decide what is found."""
    return sorted(folders()[1][name].glob("*.py")) + sorted((ROOT / "autograder/runtime/checking").glob("*.py"))


def mistake(wrong, subject):
    """A wrong answer's label, such as "scores transposed"; without one, its function's name in words."""
    return wrong.label or words(wrong.__name__, subject)


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
        for path in decides(name):
            self.env.note_dependency(str(path))
        return prepared([name])[name]

    def parsed(self, text):
        """A line of Markdown, as nodes."""
        part = nodes.container()
        self.state.nested_parse(StringList([text], source=self.env.doc2path(self.env.docname)), self.lineno - 1, part)
        return list(part.children)


class SummaryDirective(_Directive):
    """How many checks and answers each exercise has."""

    def run(self):
        body, total = [], Counter()
        prepared(folders()[1])
        for name in folders()[1]:
            counts = Counter()
            for subject, checks, (good, rejected), rows in self.of(name):
                for answer in rejected:
                    message = "%s: the right answer %s is rejected"
                    logger.warning(message, subject, answer, location=self.get_location(), type="catches")
                counts += Counter(functions=1, checks=len(checks), wrong=len(rows), right=len(good))
                counts += Counter(recognised=sum(recognised for *_row, recognised in rows))
            body.append(self.row(name, counts))
            total += counts
        body.append(self.row(_("All"), total))
        head = [_("Exercise"), _("Functions"), _("Checks"), _("Wrong"), _("Recognised"), _("Right")]
        return [table(head, body, (30, 14, 14, 14, 14, 14), "abh-counts", "abh-summed")]

    @staticmethod
    def row(name, counts):
        return [name, *(str(counts[own]) for own in ("functions", "checks", "wrong", "recognised", "right"))]


class MutantsDirective(_Directive):
    """What became of the mutants of each exercise, as it was written down."""

    KINDS = ("examined", "killed", "told", "equal", "survived")

    def run(self):
        self.env.note_dependency(str(mutants.RECORD))
        body, total = [], Counter()
        for name, functions in mutants.recorded().items():
            counts = Counter()
            for subject, row in functions.items():
                for mutant in row["survived"]:
                    message = "%s: no check rejects the mutant %s"
                    logger.warning(message, subject, mutant, location=self.get_location(), type="catches")
                counts.update({kind: row[kind] for kind in ("examined", "killed", "told")})
                counts.update(equal=len(row["equal"]), survived=len(row["survived"]))
            body.append([name, *(str(counts[kind]) for kind in self.KINDS)])
            total += counts
        body.append([_("All"), *(str(total[kind]) for kind in self.KINDS)])
        head = [_("Exercise"), _("Mutants"), _("Killed"), _("Told why"), _("Equal"), _("Passed")]
        return [table(head, body, (30, 14, 14, 14, 14, 14), "abh-counts", "abh-summed")]


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
            told = _("%d right answers that look different pass all of these checks.") % len(right[0])
            row = mutants.recorded().get(self.arguments[0], {}).get(subject)
            if row:
                killed = _("Of %d mutants, %d are rejected and %d behave as their original.")
                told = f"{told} {killed % (row['examined'], row['killed'], len(row['equal']))}"
            details += nodes.paragraph("", told, classes=["abh-recorded"])
            parts.append(details)
        return parts

    def row(self, subject, answer, hint, failed, _recognised):
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
    app.add_directive("catches-mutants", MutantsDirective)
    app.add_directive("catches", CatchesDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

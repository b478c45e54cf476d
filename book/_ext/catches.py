"""Which wrong answer is caught by which check, and with which hint: made by running the exercises' own checks.

* `{catches-summary}` counts, for each exercise: functions, checks, wrong answers, those caught and recognised, and
  right answers that look different and are not rejected.
* `{catches-mutants}` counts, for each exercise, what became of its mutants: as `autograder mutants` wrote it down,
  because that takes minutes.
* `{catches-accuracy}` counts, for each exercise, what is told to wrong answers that nobody listed, and how many right
  ones are rejected: as `benchmarks/accuracy.py` and `autograder mutants` wrote it down.
* `{catches-unseen}` counts the same for answers that were never listed: as `benchmarks/unseen.py` wrote it down.
* `{catches}` is a heading for each exercise, and below it a table for each function, folded into a <details>.

What became of each answer is `autograder.authoring.answer_trials`'s: as each exercise's record has it, or tried where
none holds.

What is listed as wrong and caught by no check is a warning, and so are a right answer that is rejected and a mutant
that passes.
"""

import functools
import json
import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from corpus import corpus_details, table
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.locale import get_translation
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from autograder import cores
from autograder.authoring import answer_trials, chapters, loader, mutants, unseen, verified

logger = logging.getLogger(__name__)
_ = get_translation("extensions")
FOLDERS = {folder.name: folder for folder in loader.FOLDERS}


@functools.cache
def results():
    """For each exercise what became of its listed answers; of several that are to be tried, some at once."""
    untried = [folder for folder in reversed(FOLDERS.values()) if not verified.holds(folder)]  # the last take longest
    tried = {}
    if untried:
        spawn = multiprocessing.get_context("spawn")  # a fork of a process in which torch runs may hang
        with ProcessPoolExecutor(min(len(untried), cores.count()), mp_context=spawn) as pool:
            tried = dict(zip(untried, pool.map(answer_trials.of, untried), strict=True))
    return {name: tried.get(folder) or answer_trials.of(folder) for name, folder in FOLDERS.items()}


def mistake(wrong, subject):
    """A wrong answer's label, such as "scores transposed"; without one, its function's name in words."""
    return wrong.label or words(wrong.name, subject)


def words(name, subject):
    """A function's name as words, without what it stands for: "scores_keys_first" -> "keys first"."""
    return name.removeprefix(subject).strip("_").replace("_", " ")


def earning(own):
    """How many right answers of a function lose no points."""
    return sum(not answer.lost for answer in own.right)


class _Directive(SphinxDirective):
    def of(self, name):
        """The results of one exercise."""
        for path in answer_trials.decides(FOLDERS[name]):
            self.env.note_dependency(str(path))
        return results()[name]

    def parsed(self, text):
        """A line of Markdown, as nodes."""
        part = nodes.container()
        self.state.nested_parse(StringList([text], source=self.env.doc2path(self.env.docname)), self.lineno - 1, part)
        return list(part.children)


class SummaryDirective(_Directive):
    """How many checks and answers each exercise has."""

    def run(self):
        body, total = [], Counter()
        for name in FOLDERS:
            counts = Counter()
            for own in self.of(name):
                for answer in filter(lambda answer: answer.lost, own.right):
                    message = "%s: the right answer %s is rejected"
                    logger.warning(message, own.subject, answer.name, location=self.get_location(), type="catches")
                counts += Counter(functions=1, checks=len(own.checks), wrong=len(own.wrong), right=earning(own))
                counts += Counter(recognised=sum(wrong.recognised for wrong in own.wrong))
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

    KINDS = ("examined", "killed", "told", "advice", "equal", "survived")

    def run(self):
        self.env.note_dependency(str(loader.ROOT / mutants.RECORD))
        body, total = [], Counter()
        for name, functions in mutants.recorded().items():
            counts = Counter()
            for subject, row in functions.items():
                for mutant in row["survived"]:
                    message = "%s: no check rejects the mutant %s"
                    logger.warning(message, subject, mutant, location=self.get_location(), type="catches")
                counts.update({kind: row[kind] for kind in ("examined", "killed", "told", "advice", "equal")})
                counts.update(survived=len(row["survived"]))
            body.append([name, *(str(counts[kind]) for kind in self.KINDS)])
            total += counts
        body.append([_("All"), *(str(total[kind]) for kind in self.KINDS)])
        head = [_("Exercise"), _("Mutants"), _("Killed"), _("Told why"), _("By advice"), _("Equal"), _("Passed")]
        return [table(head, body, (28, 12, 12, 12, 12, 12, 12), "abh-counts", "abh-summed")]


class AccuracyDirective(_Directive):
    """How often checks are wrong, and how often they say why: counts that were written down."""

    def run(self):
        path = loader.ROOT / "book" / "data" / "accuracy.json"
        for file in (path, loader.ROOT / mutants.RECORD):
            self.env.note_dependency(str(file))
        found = json.loads(path.read_text(encoding="utf8")) if path.exists() else {}
        body, total = [], Counter()
        for name, functions in found.items():
            counts = sum(map(self.counts, functions.values()), Counter())
            counts += sum(map(self.of_mutants, mutants.recorded().get(name, {}).values()), Counter())
            body.append(self.row(name, counts))
            total += counts
        body.append(self.row(_("All"), total))
        head = [_("Exercise"), _("Wrong"), _("Cause"), _("Relation"), _("Own words"), _("Nothing"), _("Cause astray")]
        head += [_("Accepted"), _("Right"), _("Rejected")]
        return [table(head, body, (19, 9, 9, 9, 9, 9, 9, 9, 9, 9), "abh-counts", "abh-summed")]

    @staticmethod
    def counts(own):
        """What is told to answers that were left out or have two mistakes, and how many right ones lost points."""
        counts = {name: own[name] for name in ("cause", "relation", "nothing", "astray")}
        counts |= {"wrong": own["left_out"], "words": own["error"] + own["what_came"]}
        right, rejected = (own["right" + what] + own["rewrites" + what] for what in ("", "_rejected"))
        pairs = Counter(own["pairs"] | {"wrong": sum(own["pairs"].values())})
        return Counter(counts | {"right": right, "rejected": rejected}) + pairs

    @staticmethod
    def of_mutants(row):
        """What is told to mutants. One that does not come to an end is told so."""
        wrong, told = row["killed"] + len(row["survived"]), row["told"] + row["endless"]
        return Counter(
            wrong=wrong, cause=row["cause"], relation=row["relation"], words=told - row["cause"] - row["relation"],
            nothing=row["killed"] - told, accepted=len(row["survived"]),
        )  # fmt: skip

    @staticmethod
    def row(name, counts):
        kinds = ("wrong", "cause", "relation", "words", "nothing", "astray", "accepted", "right", "rejected")
        return [name, *(str(counts[kind]) for kind in kinds)]


class UnseenDirective(_Directive):
    """What became of answers that were never listed: counts that were written down."""

    KINDS = ("wrong", "accepted_at_first", "accepted", "told", "nothing", "right", "rejected")

    def run(self):
        self.env.note_dependency(str(unseen.RECORD))
        body, total = [], Counter()
        for name, row in unseen.recorded().items():
            counts = Counter({kind: len(own) if isinstance(own, list) else own for kind, own in row.items()})
            counts["told"] = counts["cause"] + counts["relation"] + counts["words"]
            body.append([name, *(str(counts[kind]) for kind in self.KINDS)])
            total += counts
        body.append([_("All"), *(str(total[kind]) for kind in self.KINDS)])
        head = [_("Exercise"), _("Wrong"), _("Accepted at first"), _("Accepted now"), _("Told why"), _("Nothing")]
        head += [_("Right"), _("Rejected")]
        return [table(head, body, (28, 10, 11, 11, 10, 10, 10, 10), "abh-counts", "abh-summed")]


class CatchesDirective(_Directive):
    """Each exercise, and each of its functions: the wrong answers, who catches them, and what the student reads."""

    def run(self):
        self.env.note_dependency(str(loader.ROOT / chapters.SOURCE))  # a new chapter may bring a new exercise
        return [self.section(name) for name in FOLDERS]

    def section(self, name):
        """One exercise, under its own heading."""
        title = _("Exercise %d") % int(name[:2])
        section = nodes.section("", nodes.title("", title), names=[nodes.fully_normalize_name(title)])
        self.state.document.note_implicit_target(section, section)
        section += [self.function(name, own) for own in self.of(name)]
        return section

    def function(self, name, own):
        """The table of one function."""
        summary = _("%s: %d wrong answers, %d checks") % (own.subject, len(own.wrong), len(own.checks))
        details = corpus_details(summary=summary, ids=[f"catches-{name}-{own.subject}"])
        head = [_("Wrong answer"), _("Caught by"), _("Hint")]
        body = [self.row(own.subject, wrong) for wrong in own.wrong]
        details += table(head, body, (22, 36, 42), "abh-corpus", "abh-catches")
        told = _("%d right answers that look different pass all of these checks.") % earning(own)
        row = mutants.recorded().get(name, {}).get(own.subject)
        if row:
            killed = _("Of %d mutants, %d are rejected and %d behave as their original.")
            told = f"{told} {killed % (row['examined'], row['killed'], row['equal'])}"
        details += nodes.paragraph("", told, classes=["abh-recorded"])
        return details

    def row(self, subject, wrong):
        """The cells of a row."""
        answer = mistake(wrong, subject)
        if not wrong.failed:
            message = "%s: the wrong answer %r is caught by no check"
            logger.warning(message, subject, answer, location=self.get_location(), type="catches")
            return [answer, "", self.parsed(wrong.hint)]
        (_name, title), *others = wrong.failed
        caught = self.parsed(title)
        if wrong.advice:
            caught.append(nodes.paragraph("", _("advice, worth no points"), classes=["abh-quiet"]))
        if others:
            also = ", ".join(words(name, subject) for name, _title in others)
            caught.append(nodes.paragraph("", _("also: %s") % also, classes=["abh-quiet"]))
        return [answer, caught, self.parsed(wrong.hint)]


def setup(app):
    app.add_directive("catches-summary", SummaryDirective)
    app.add_directive("catches-mutants", MutantsDirective)
    app.add_directive("catches-accuracy", AccuracyDirective)
    app.add_directive("catches-unseen", UnseenDirective)
    app.add_directive("catches", CatchesDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

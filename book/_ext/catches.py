"""Which wrong answer is caught by which check, and with which hint: made by running the exercises'
own checks.

* `{catches-summary}` counts, for each exercise: functions, checks, wrong answers, those caught and
  recognized, and right answers that look different and are not rejected.
* `{catches-mutants}` counts, for each exercise, the outcomes of its mutants: as `autograder
  mutants` recorded them, because that takes minutes.
* `{catches-accuracy}` counts, for each exercise, the feedback for wrong answers that are not
  listed, and how many right ones are rejected: as `benchmarks/accuracy.py` and `autograder mutants`
  recorded them.
* `{catches-unseen}` counts the same for answers that were never listed: as `benchmarks/unseen.py`
  recorded them.
* `{catches-told}` says in a sentence what share of these answers gets what, and which exercise is
  the weakest.
* `{catches-pages}` leads to a page for each exercise, `catches/exercise-NN-name`, and to each of
  its functions there.
* `{catches-measured}` lists the checks that take the word of the student's process, by exercise and
  function; `grading` registers it, whose page shows it.
* `{catches} NN-name` has a table for each function of an exercise, folded into a <details>.

The pages of the exercises are written before the book is read, from the list of the exercises: they
are not tracked, and _toc.yml has all of them in one line. An edition reads them in its own words:
those of `extensions`, and for what students read those of feedback.

The results for each answer come from `autograder.authoring.answer_trials`: from each exercise's
record, or computed if none is valid.

A wrong answer that no check catches is a warning, and so are a rejected right answer and a mutant
that passes.
"""

import functools
import json
import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from corpus import corpus_details, feedback, shown, table
from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.locale import get_translation
from sphinx.locale import init as init_catalog
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import editions

from autograder.authoring import answer_trials, chapters, loader, mutants, unseen, verified
from autograder.course import cores

logger = logging.getLogger(__name__)
_ = get_translation("extensions")
FOLDERS = {folder.name: folder for folder in loader.FOLDERS}
PAGES = "book/catches/exercise-"
"""How the names of the exercises' pages begin."""
PAGE = """---
myst:
  html_meta:
    description: "{description}"
---

# {heading}

{text}

```{{catches}} {name}
```
"""


@functools.cache
def results():
    """For each exercise the results for its listed answers; if several must be computed, some
    run in parallel.
    """
    # the last take longest
    untried = [folder for folder in reversed(FOLDERS.values()) if not verified.holds(folder)]
    tried = {}
    if untried:
        # a fork of a process in which torch runs may hang
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(len(untried), cores.count()), mp_context=spawn) as pool:
            tried = dict(zip(untried, pool.map(answer_trials.results, untried), strict=True))
    return {
        name: tried.get(folder) or answer_trials.results(folder) for name, folder in FOLDERS.items()
    }


def mistake(wrong, subject):
    """A wrong answer's label, such as "scores transposed"; without one, its function's name in
    words.
    """
    return wrong.label or words(wrong.name, subject)


def words(name, subject):
    """A function's name as words, without what it stands for: "scores_keys_first" -> "keys
    first".
    """
    return name.removeprefix(subject).strip("_").replace("_", " ")


def accepted(function):
    """How many right answers of a function lose no points."""
    return sum(not answer.lost for answer in function.right)


class _Directive(SphinxDirective):
    def of(self, name):
        """The results of one exercise."""
        for path in answer_trials.deciding_files(FOLDERS[name]):
            self.env.note_dependency(str(path))
        return results()[name]

    def parsed(self, text):
        """A line of Markdown that is translated already, as nodes."""
        part = nodes.container()
        self.state.nested_parse(
            StringList([text], source=self.env.doc2path(self.env.docname)), self.lineno - 1, part
        )
        # Sphinx would look for it in the page's catalog, which has the English.
        for paragraph in part.findall(nodes.paragraph):
            paragraph["translatable"] = False
        return list(part.children)


class SummaryDirective(_Directive):
    """How many checks and answers each exercise has."""

    def run(self):
        body, total = [], Counter()
        for name in FOLDERS:
            counts = Counter()
            for function in self.of(name):
                for answer in filter(lambda answer: answer.lost, function.right):
                    message = "%s: the right answer %s is rejected"
                    logger.warning(
                        message,
                        function.subject,
                        answer.name,
                        location=self.get_location(),
                        type="catches",
                    )
                counts += Counter(
                    functions=1,
                    checks=len(function.checks),
                    wrong=len(function.wrong),
                    right=accepted(function),
                )
                counts += Counter(recognized=sum(wrong.recognized for wrong in function.wrong))
            body.append(self.row(name, counts))
            total += counts
        body.append(self.row(_("All"), total))
        head = [_("Exercise"), _("Functions"), _("Checks"), _("Wrong"), _("Recognized"), _("Right")]
        return [table(head, body, (30, 14, 14, 14, 14, 14), "abh-counts", "abh-summed")]

    @staticmethod
    def row(name, counts):
        return [
            name,
            *(
                str(counts[kind])
                for kind in ("functions", "checks", "wrong", "recognized", "right")
            ),
        ]


class MutantsDirective(_Directive):
    """The recorded outcomes of each exercise's mutants."""

    KINDS = ("examined", "killed", "told", "advice", "equal")

    def run(self):
        self.env.note_dependency(str(loader.ROOT / mutants.RECORD))
        body, total = [], Counter()
        for name, functions in mutants.recorded().items():
            counts = Counter()
            for row in functions.values():
                counts.update({kind: row[kind] for kind in self.KINDS})
            body.append([name, *(str(counts[kind]) for kind in self.KINDS)])
            total += counts
        body.append([_("All"), *(str(total[kind]) for kind in self.KINDS)])
        head = [
            _("Exercise"),
            _("Mutants"),
            _("Killed"),
            _("Explained"),
            _("By advice"),
            _("Equal"),
        ]
        return [table(head, body, (30, 14, 14, 14, 14, 14), "abh-counts", "abh-summed")]


class AccuracyDirective(_Directive):
    """How often checks are wrong, and how often they explain a mistake: recorded counts."""

    RECORD = loader.ROOT / "book" / "data" / "accuracy.json"

    def run(self):
        by_exercise = self.by_exercise()
        body = [self.row(name, counts) for name, counts in by_exercise.items()]
        body.append(self.row(_("All"), sum(by_exercise.values(), Counter())))
        head = [
            _("Exercise"),
            _("Wrong"),
            _("Cause"),
            _("Relation"),
            _("Own words"),
            _("Nothing"),
            _("Cause astray"),
        ]
        head += [_("Accepted"), _("Right"), _("Rejected")]
        return [table(head, body, (19, 9, 9, 9, 9, 9, 9, 9, 9, 9), "abh-counts", "abh-summed")]

    def by_exercise(self):
        """What was counted, for each exercise."""
        for file in (self.RECORD, loader.ROOT / mutants.RECORD):
            self.env.note_dependency(str(file))
        counted = {}
        for name, functions in json.loads(self.RECORD.read_text(encoding="utf8")).items():
            counts = sum(map(self.counts, functions.values()), Counter())
            counted[name] = counts + sum(
                map(self.of_mutants, mutants.recorded().get(name, {}).values()), Counter()
            )
        return counted

    @staticmethod
    def counts(row):
        """The feedback for answers that were left out or have two mistakes, and how many right
        ones lost points.
        """
        counts = {name: row[name] for name in ("cause", "relation", "nothing", "astray")}
        counts |= {"wrong": row["left_out"], "words": row["error"] + row["difference"]}
        right = row["right"] + row["rewrites"]
        rejected = row["right_rejected"] + row["rewrites_rejected"]
        pairs = Counter(row["pairs"] | {"wrong": sum(row["pairs"].values())})
        return Counter(counts | {"right": right, "rejected": rejected}) + pairs

    @staticmethod
    def of_mutants(row):
        """The feedback for mutants. One that does not finish counts as explained."""
        explained = row["told"] + row["endless"]
        return Counter(
            wrong=row["killed"],
            cause=row["cause"],
            relation=row["relation"],
            words=explained - row["cause"] - row["relation"],
            nothing=row["killed"] - explained,
        )

    @staticmethod
    def row(name, counts):
        kinds = (
            "wrong",
            "cause",
            "relation",
            "words",
            "nothing",
            "astray",
            "accepted",
            "right",
            "rejected",
        )
        return [name, *(str(counts[kind]) for kind in kinds)]


class ToldDirective(AccuracyDirective):
    """The same in a sentence: what share of the wrong answers gets what, and which exercise is
    the weakest.
    """

    def run(self):
        by_exercise = self.by_exercise()
        everything = sum(by_exercise.values(), Counter())
        share = {name: counts["nothing"] / counts["wrong"] for name, counts in by_exercise.items()}
        weakest = max(share, key=share.get)
        kinds = ("cause", "relation", "words", "nothing")
        cause, relation, own_words, nothing = (
            f"{everything[kind] / everything['wrong']:.0%}" for kind in kinds
        )
        average = everything["nothing"] / everything["wrong"]
        sentence = _(
            "**In short:** of {all} unlisted wrong answers, {cause} get a likely cause, "
            "{relation} a relation, {words} the check's own words, and {nothing} only that a "
            "check failed. Exercise {weakest} is the weakest: {share} of its wrong answers get "
            "nothing, {times} times the average. The section [below](#how-often-checks-are-wrong) "
            "says how this was counted."
        )
        values = {"cause": cause, "relation": relation, "words": own_words, "nothing": nothing}
        values |= {
            "all": f"{everything['wrong']:,}",
            "weakest": int(weakest[:2]),
            "share": f"{share[weakest]:.0%}",
        }
        return self.parsed(sentence.format(**values, times=f"{share[weakest] / average:.1f}"))


class UnseenDirective(_Directive):
    """The results for answers that were never listed: recorded counts."""

    KINDS = ("wrong", "accepted_at_first", "accepted", "told", "nothing", "right", "rejected")

    def run(self):
        self.env.note_dependency(str(unseen.RECORD))
        body, total = [], Counter()
        for name, row in unseen.recorded().items():
            counts = Counter(
                {
                    kind: len(value) if isinstance(value, list) else value
                    for kind, value in row.items()
                    if kind != "causes"
                }
            )
            counts["told"] = counts["cause"] + counts["relation"] + counts["words"]
            body.append([name, *(str(counts[kind]) for kind in self.KINDS)])
            total += counts
        body.append([_("All"), *(str(total[kind]) for kind in self.KINDS)])
        head = [
            _("Exercise"),
            _("Wrong"),
            _("Accepted at first"),
            _("Accepted now"),
            _("Explained"),
            _("Nothing"),
        ]
        head += [_("Right"), _("Rejected")]
        return [table(head, body, (28, 10, 11, 11, 10, 10, 10, 10), "abh-counts", "abh-summed")]


class PagesDirective(_Directive):
    """A line for each exercise, which leads to its page, and to each of its functions there.

    Lines and links have the ids that exercises and functions had when all of them were on this
    page.
    """

    def run(self):
        # a new chapter, which is added there, may bring a new exercise
        self.env.note_dependency(str(loader.ROOT / "_toc.yml"))
        listed = nodes.bullet_list(classes=["abh-catches-pages"])
        for name in FOLDERS:
            exercise = nodes.Text(_("Exercise %d, %s") % (int(name[:2]), title_of(self.env, name)))
            line = shown("", "", self.link("doc", f"/{PAGES}{name}", exercise))
            for function in self.of(name):
                target = f"catches-{name}-{function.subject}"
                link = self.link("ref", target.lower(), nodes.literal("", function.subject))
                line += [nodes.Text(" · "), nodes.inline("", "", link, ids=[target])]
            listed += nodes.list_item("", line, ids=[f"exercise-{int(name[:2])}"])
        return [listed]

    def link(self, kind, target, shown):
        """A link that Sphinx resolves when it has read all pages."""
        reference = addnodes.pending_xref(
            "", nodes.inline("", "", shown), refdomain="std", reftype=kind, reftarget=target,
            refexplicit=True,
            refdoc=self.env.docname, refwarn=True,
        )  # fmt: skip
        self.set_source_info(reference)
        return reference


class MeasuredDirective(_Directive):
    """The checks that take the word of the process in which a student's function runs."""

    def run(self):
        listed = nodes.bullet_list()
        for name, folder in FOLDERS.items():
            self.env.note_dependency(str(folder / "checks.py"))
            translated = feedback(self.env, name)
            suite = loader.load(folder).suite
            measured = [check for check in suite.checks if check.measured]
            for subject in dict.fromkeys(check.subject for check in measured):
                titles = [translated(check.title) for check in measured if check.subject == subject]
                listed += nodes.list_item(
                    "", *self.parsed(f"`{subject}` ({name}): {' '.join(titles)}")
                )
        return [listed]


class CatchesDirective(_Directive):
    """Each function of an exercise: the wrong answers, who catches them, and what the student
    reads.
    """

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        return [self.function(name, function) for function in self.of(name)]

    def function(self, name, results):
        """The table of one function."""
        summary = _("%s (wrong answers: %d, checks: %d)") % (
            results.subject,
            len(results.wrong),
            len(results.checks),
        )
        target = f"catches-{name}-{results.subject}"
        details = corpus_details(summary=summary, ids=[target], names=[target.lower()])
        self.state.document.note_explicit_target(details)
        head = [_("Wrong answer"), _("Caught by"), _("Hint")]
        body = [
            self.row(results.subject, wrong, feedback(self.env, name)) for wrong in results.wrong
        ]
        details += table(head, body, (22, 36, 42), "abh-corpus", "abh-catches")
        sentence = _("%d right answers that look different pass all of these checks.") % accepted(
            results
        )
        row = mutants.recorded().get(name, {}).get(results.subject)
        if row:
            killed = _("Of %d mutants, %d are rejected and %d behave like their original.")
            sentence = f"{sentence} {killed % (row['examined'], row['killed'], row['equal'])}"
        details += shown("", str(sentence), classes=["abh-recorded"])
        return details

    def row(self, subject, wrong, translated):
        """The cells of a row; `translated` translates what feedback says."""
        answer, hint = translated(mistake(wrong, subject)), self.parsed(translated(wrong.hint))
        if not wrong.failed:
            message = "%s: the wrong answer %r is caught by no check"
            logger.warning(message, subject, answer, location=self.get_location(), type="catches")
            return [answer, "", hint]
        (_name, title), *others = wrong.failed
        caught = self.parsed(translated(title))
        if wrong.advice:
            caught.append(shown("", translated("advice, worth no points"), classes=["abh-quiet"]))
        if others:
            also = shown("", _("also: "), classes=["abh-quiet"])
            for number, (name, _title) in enumerate(others):
                also += [nodes.Text(" · " if number else ""), nodes.literal("", name)]
            caught.append(also)
        return [answer, caught, hint]


def title_of(env, name):
    """An exercise's title: that of its chapter in the edition's language, or else its name."""
    known = chapters.read(loader.ROOT)
    catalog, _found = init_catalog([str(editions.LOCALE)], env.config.language, f"book/{name}")
    return catalog.gettext(known[name].title) if name in known else name


def write_pages(app, config):
    """Make an empty page for each exercise, unless there is one; remove others."""
    folder = (Path(app.srcdir) / PAGES).parent
    folder.mkdir(exist_ok=True)
    wanted = {Path(app.srcdir) / f"{PAGES}{name}.md" for name in FOLDERS}
    for path in {*folder.glob("*.md")} - wanted:
        path.unlink(missing_ok=True)  # both editions may be built at once
    for path in wanted:
        if not path.exists():
            path.touch()


def fill_page(app, docname, source):
    """Give an exercise's page its text, in the edition's language."""
    if not docname.startswith(PAGES):
        return
    app.env.note_dependency(str(loader.ROOT / "_toc.yml"))
    name = docname.removeprefix(PAGES)
    values = {"number": int(name[:2]), "title": title_of(app.env, name)}
    parts = {
        "description": _(
            "Exercise {number}, {title}: which wrong answer is caught by which check, and with "
            "which hint."
        ),
        "heading": _("Exercise {number}: wrong answers"),
        "text": _(
            "These are the listed answers to exercise {number}, *{title}*. Open a function to see "
            "its wrong answers. *Caught by* is the first check that fails, in the words that the "
            "student reads; *also* names the others that fail. *Hint* is what the student also "
            "reads. [What the checks catch](../catches.md) has the counts for all exercises."
        ),
    }
    source[0] = PAGE.format(
        name=name, **{key: part.format(**values) for key, part in parts.items()}
    )


def setup(app):
    app.connect("config-inited", write_pages)  # before _toc.yml is read, which names them
    app.connect("source-read", fill_page)
    app.add_directive("catches-summary", SummaryDirective)
    app.add_directive("catches-mutants", MutantsDirective)
    app.add_directive("catches-accuracy", AccuracyDirective)
    app.add_directive("catches-told", ToldDirective)
    app.add_directive("catches-unseen", UnseenDirective)
    app.add_directive("catches-pages", PagesDirective)
    app.add_directive("catches", CatchesDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Gives each chapter the number in its file's name: 09-complexity is chapter 9, while 08 is still to be written.

Sphinx counts the entries of a numbered table of contents, and numbers figures and equations by what came out. In
between, the first of each chapter's numbers is put right here.
"""

import functools
import re
from pathlib import PurePosixPath

from docutils import nodes
from sphinx.environment.collectors.toctree import TocTreeCollector

CHAPTER = re.compile(r"(\d\d)-")


def renumbered(assign):
    """Return the method that numbers sections, followed by what puts the chapters' numbers right."""

    @functools.wraps(assign)
    def assigned(self, env):
        before = env.toc_secnumbers
        assign(self, env)
        for page, found in env.toc_secnumbers.items():
            named = CHAPTER.match(PurePosixPath(page).name)
            if named:
                own = int(named[1])
                env.toc_secnumbers[page] = {place: rest and (own, *rest[1:]) for place, rest in found.items()}
                for shown in (env.titles[page], *env.tocs[page].findall(nodes.reference)):
                    if shown.get("secnumber"):
                        shown["secnumber"] = [own, *shown["secnumber"][1:]]
        return [page for page, found in env.toc_secnumbers.items() if found != before.get(page)]

    assigned.by_name = True
    return assigned


def put_right(app):
    """Follow whatever numbers the sections, Sphinx or what took its place, once in a process."""
    for collector in TocTreeCollector.__subclasses__() or [TocTreeCollector]:
        if not hasattr(collector.assign_section_numbers, "by_name"):
            collector.assign_section_numbers = renumbered(collector.assign_section_numbers)


def setup(app):
    """Register it."""
    app.connect("builder-inited", put_right)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

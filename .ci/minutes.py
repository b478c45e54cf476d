"""Counts how long a chapter's pages take: `.venv/bin/python .ci/minutes.py`, a part of `make lint`.

Each core page says "About 25 minutes to read, and 10 more with pencil and figure". It is refused
where that is not what is counted, rounded up to five minutes: 150 words a minute, 15 seconds for a
formula of its own, 4 for a line of code that can be seen, folded or not, and 45 for a self-test.
With a pencil, the section *By hand* takes three times as long again.
"""

import math
import re
import sys
from pathlib import Path

import english

ROOT = Path(__file__).resolve().parent.parent
WORDS_A_MINUTE, FORMULA, LINE, SELFTEST = 150, 15, 4, 45  # the last three in seconds
PENCIL = 3  # times as long as reading
# A fenced block: its fence, its directive or language, what is in it.
BLOCK = re.compile(r"^(`{3,})\{?([\w-]*)\}?[^\n]*\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
FORMULAS = re.compile(r"^\$\$.*?\$\$$", re.MULTILINE | re.DOTALL)
HIDDEN = re.compile(r"^:?tags:.*\bremove-(cell|input)\b", re.MULTILINE)
# Of a code cell: in YAML between dashes, or a line for each.
OPTIONS = re.compile(r"\A(---\n.*?\n---\n|(?::[\w-]+:[^\n]*\n)*)", re.DOTALL)
BY_HAND = re.compile(r"^## [^\n]*\b[Bb]y hand\b.*?(?=^## )", re.MULTILINE | re.DOTALL)


def seconds(text):
    """Return how many seconds it takes to read a Markdown text."""
    spent = 0.0

    def count(block):
        """Add what a fenced block takes, and take it out of the words."""
        nonlocal spent
        _, kind, inside = block.groups()
        if kind == "selftest":
            spent += SELFTEST
        elif kind == "math":
            spent += FORMULA
        elif kind == "code-cell":
            shown = not HIDDEN.search(OPTIONS.match(inside)[0])
            lines = [line for line in OPTIONS.sub("", inside).splitlines() if line.strip()]
            spent += LINE * len(lines) * shown
        elif kind in ("python", "text", "bash"):
            spent += LINE * len(inside.splitlines())
        else:  # a box: it has words, and perhaps blocks of its own
            return BLOCK.sub(count, inside)
        return ""

    text = BLOCK.sub(count, text)
    spent += FORMULA * len(FORMULAS.findall(text))
    prose = " ".join(paragraph for _, paragraph in english.paragraphs(FORMULAS.sub("", text)))
    words = re.findall(r"\w[\w'’-]*", english.NO_TEXT.sub(" x ", prose))
    return spent + 60 * len(words) / WORDS_A_MINUTE


def fives(spent):
    """Return seconds as minutes, rounded up to a multiple of five."""
    return 5 * math.ceil(spent / 300)


def minutes(text):
    """Return how many minutes a page takes to read, and how many more with a pencil."""
    by_hand = BY_HAND.search(text)
    return fives(seconds(text)), fives(PENCIL * seconds(by_hand[0])) if by_hand else 0


def main():
    """Print the core pages that do not say the minutes that are counted; return the exit status."""
    status = 0
    for page in sorted(ROOT.glob("book/[0-9][0-9]-*.md")):
        if page.stem.endswith("-deeper"):
            continue
        text = page.read_text(encoding="utf8")
        reading, pencil = minutes(text)
        sentence = f"About {reading} minutes to read, and {pencil} more with pencil and figure."
        if sentence not in text:
            status = 1
            print(f"{page.relative_to(ROOT)}: write '{sentence}', as counted")
    return status


if __name__ == "__main__":
    sys.exit(main())

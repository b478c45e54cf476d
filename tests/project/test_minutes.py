"""How long a page takes to read, as `.ci/minutes.py` counts it.

`make lint` compares what the pages say.
"""

import sys

import pytest

from autograder.course.config import ROOT

sys.path.insert(0, str(ROOT / ".ci"))

import minutes

WORDS = "word " * 150 + "\n\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (WORDS, 60),
        (f"{'a word in $x + y$ and `code` ' * 25}\n", 60),
        ("$$\nx = y\n$$\n", 15),
        ("```{math}\n:label: eq\nx = y\n```\n", 15),
        ("```{code-cell} ipython3\nx = 1\n\ny = 2\n```\n", 8),
        ("```{code-cell} ipython3\n:tags: [course-code]\nx = 1\n```\n", 4),
        ("```{code-cell} ipython3\n:tags: [remove-input]\nx = 1\n```\n", 0),
        (
            '```{code-cell} ipython3\n---\ntags: [hide-input]\nmystnb:\n  show: "Code"\n---\nx = ' '1\n```\n',
            4,
        ),
        (f"```{{notebook-link}}\n```\n\n{WORDS}```{{code-cell}}\n:tags: [remove-cell]\nx = " "1\n```\n", 60),
        (f"````{{selftest}}\nIs it so?\n\n```{{answer}} right\n{WORDS}```\n````\n", 45),
        (f"```{{admonition}} By the way\n{WORDS}\n$$\nx = y\n$$\n```\n", 75),
    ],
    ids=[
        "words", "formulas in a line are words", "formula", "formula with a label", "code",
        "code with tags",
        "code that is not shown", "folded code", "an empty block", "self-test", "box",
    ],
)  # fmt: skip
def test_what_takes_time(text, seconds):
    assert minutes.seconds(text) == pytest.approx(seconds)


def test_a_page_says_what_is_counted(tmp_path, monkeypatch, capsys):
    page = tmp_path / "book" / "01-page.md"
    page.parent.mkdir()
    monkeypatch.setattr(minutes, "ROOT", tmp_path)
    text = (
        f"# Title\n\nAbout 20 minutes to read, and 10 more with pencil and figure.\n\n{WORDS * 12}"
    )
    page.write_text(f"{text}## By hand\n\n{WORDS * 3}## Code\n\n{WORDS}", encoding="utf8")
    assert minutes.main() == 0
    page.write_text(f"{text}## By hand\n\n{WORDS}## Code\n\n{WORDS * 8}", encoding="utf8")
    assert minutes.main() == 1
    assert (
        "write 'About 25 minutes to read, and 5 more with pencil and figure.'"
        in capsys.readouterr().out
    )

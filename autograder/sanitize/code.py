"""How code and what a terminal shows become HTML: a few classes, which the page's style sheet
colors.
"""

import contextlib
import contextvars
import functools
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

CLASSES = {
    Comment: "c",
    Keyword: "k",
    Operator.Word: "k",
    Name.Function: "nf",
    Name.Class: "nf",
    Name.Decorator: "nf",
    Number: "m",
    String: "s",
}
"""What is colored, by pygments' own short names; everything else looks like text."""
PYTHON = ("python", "python3", "ipython", "ipython3")
"""The only language that is colored. For some others, pygments needs a time that doubles with each
character of a text made for that.
"""
MOST_HIGHLIGHTED = 20_000
"""Characters of one block that are colored."""
MOST_ON_A_PAGE = 200_000
"""Characters of all blocks of a page that are colored: they take about three seconds."""
LONG_GAP = re.compile(r"\s{200}")
"""Of blanks and line ends in a row, the lexer's time grows with the square of the number."""

CONTROL = re.compile(
    r"\x1b\[([0-9;]{0,50})m|\x1b\[[0-?]*[ " r"-/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b"
)


@dataclass
class _Budget:
    """How many characters may still be colored."""

    remaining: float


_budget: contextvars.ContextVar[_Budget | None] = contextvars.ContextVar("_budget", default=None)


@contextlib.contextmanager
def limited_coloring() -> Iterator[None]:
    """Color at most `MOST_ON_A_PAGE` characters of code in this `with` block."""
    token = _budget.set(_Budget(MOST_ON_A_PAGE))
    try:
        yield
    finally:
        _budget.reset(token)


def may_color(text: str) -> bool:
    """Tell whether Python code will be colored, if it is given to `block` now."""
    budget = _budget.get()
    most = min(MOST_HIGHLIGHTED, budget.remaining) if budget else MOST_HIGHLIGHTED
    return len(text) <= most and not LONG_GAP.search(text)


def block(text: str, language: str = "python") -> str:
    """Return code as a block, colored if it is Python and not too long."""
    if language.lower() in PYTHON and may_color(text):
        budget = _budget.get()
        if budget:
            budget.remaining -= len(text)
        shown = _colored(text)
    else:
        shown = html.escape(text, quote=False)
    return f'<pre tabindex="0"><code>{shown}</code></pre>\n'


def inline(text: Any) -> Markup:
    """Escape a text; text between backticks becomes code."""
    pieces = str(escape(str(text))).split("`")
    if len(pieces) % 2 == 0:
        return Markup("`".join(pieces))
    for i in range(1, len(pieces), 2):
        pieces[i] = f"<code>{pieces[i]}</code>"
    return Markup("".join(pieces))


@functools.cache
def _class(token: Any) -> str:
    # that kind or one below
    return next((name for kind, name in CLASSES.items() if token in kind), "")


@functools.lru_cache(500)
def _colored(text: str) -> str:
    """Return the tokens of Python code as HTML; neighbors of one class share an element."""
    parts: list[str] = []
    last = ""
    for token, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        name = _class(token) if value.strip() else last
        if name != last:
            if last:
                parts.append("</span>")
            if name:
                parts.append(f'<span class="{name}">')
            last = name
        parts.append(html.escape(value, quote=False))
    if last:
        parts.append("</span>")
    return "".join(parts)


def terminal(text: str) -> str:
    """Return what was printed as HTML: bold and the eight colors of a terminal stay, other
    codes go.
    """
    parts: list[str] = []
    start = 0
    style = ("", "")
    for code in CONTROL.finditer(text):
        parts.append(_styled(text[start : code.start()], style))
        start = code.end()
        if code[1] is not None:
            style = _style_after(style, code[1])
    return "".join([*parts, _styled(text[start:], style)])


def _styled(text: str, style: tuple[str, str]) -> str:
    classes = " ".join(filter(None, style))
    shown = html.escape(text, quote=False)
    return f'<span class="{classes}">{shown}</span>' if classes and text else shown


def _style_after(style: tuple[str, str], codes: str) -> tuple[str, str]:
    """Return weight and color after some codes, such as 1;31."""
    weight, color = style
    numbers = [int(number or 0) for number in codes.split(";")]
    while numbers:
        number = numbers.pop(0)
        if number in (38, 48):  # a color by number (5;N) or by its parts (2;R;G;B): left out
            is_by_parts = numbers[:1] == [2]
            numbers = numbers[4 if is_by_parts else 2 :]
            color = "" if number == 38 else color
        elif number == 0:
            weight = color = ""
        elif number in (1, 22):
            weight = "b" if number == 1 else ""
        elif 30 <= number <= 37 or 90 <= number <= 97:
            color = f"t{number % 10}"
        elif number == 39:
            color = ""
    return weight, color

"""LaTeX in the text of clean HTML becomes MathML, which a browser shows without a script.

latex2mathml reads a formula. What it makes is written out here, by element and attribute, from
lists of those that only lay out: a formula can no more act, link or cover than plain text can. What
is too long, too deep, or more than latex2mathml understands stays as it was written. Nothing here
raises.
"""

import functools
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ELEMENTS = set(
    "math menclose mfrac mi mn mo mover mpadded mphantom mroot mrow mspace msqrt mstyle msub "
    "msubsup msup mtable mtd mtext mtr munder munderover".split()
)
YES_OR_NO = re.compile(r"true|false")
WORD = re.compile(r"[a-z][a-z-]*")
# Short enough that nothing leaves its own formula.
LENGTH = re.compile(r"-?[0-2]?(?:\.[0-9]{1,4})?(?:em|ex)|-?[0-2]?[0-9](?:\.[0-9]{1,4})?(?:px|pt)|0")
ATTRIBUTES = {
    **dict.fromkeys(
        ("accent", "displaystyle", "fence", "largeop", "movablelimits", "stretchy"), YES_OR_NO
    ),
    "display": re.compile("block"),
    **dict.fromkeys(("form", "mathvariant", "notation"), WORD),
    **dict.fromkeys(
        ("depth", "height", "linethickness", "lspace", "maxsize", "minsize", "rspace", "width"),
        LENGTH,
    ),
    "mathcolor": re.compile(r"[a-z]+|#[0-9a-fA-F]{3,6}"),
    "scriptlevel": re.compile(r"[0-2]"),
}
# The environments that latex2mathml knows, in place of those that lay out nearly the same.
AS_LATEX2MATHML_HAS_THEM = {
    **dict.fromkeys(("align", "align*", "aligned", "eqnarray", "eqnarray*", "split"), "align*"),
    **dict.fromkeys(
        ("equation", "equation*", "gather", "gather*", "gathered", "multline", "multline*"),
        "matrix",
    ),
    **{
        name: name
        for name in "array bmatrix cases matrix pmatrix smallmatrix vmatrix Vmatrix".split()
    },
}
ENVIRONMENT = re.compile(r"\\(begin|end)\{([a-z]+\*?)\}")
DEFINES = re.compile(r"\\(?:re|provide)?new|\\[gex]?def\b|\\let\b|\\DeclareMath")
"""A formula's own commands can make a few letters into a million."""

PRIMES = re.compile("[\u2032\u2033\u2034\u2057]+")
# At the beginning, or after one of `OPENS`, TeX sets a sign without an operator's space.
SIGNS = {"-", "\u2212", "+"}
OPENS = {"(", "[", "{", ",", "=", "\u2248"}
THIN_SPACE = '<mspace width=".17em"></mspace>'

MOST_LENGTH = 2000
"""Characters of one formula."""
MOST_DEPTH = 30
"""How deep braces, growing brackets, and environments may be nested."""
MOST_ON_A_PAGE = 20_000
"""Characters of formulas on one page that a student may have written; each takes some 25
microseconds.
"""
MOST_GROWTH = 100
"""The most characters of MathML for each character of a formula."""

TAG = re.compile(r'<(/?)([a-zA-Z][a-zA-Z0-9]*)(?:[^<>"]|"[^"]*")*>')
LITERAL = {"code", "pre"}
OPENING = re.compile(r"\\\$|\$\$?|\\\(|\\\[|\\begin\{([a-zV]+\*?)\}")
CLOSING = {"$": re.compile(r"(?<![$\\])\$"), "$$": re.compile(r"(?<!\\)\$\$")}
CLOSING.update({r"\(": re.compile(r"\\\)"), r"\[": re.compile(r"\\\]")})
INLINE = {"$", r"\("}
DEEPER = re.compile(r"\\left\b|\\begin\b|(?<!\\)\{")
LESS_DEEP = re.compile(r"\\right\b|\\end\b|(?<!\\)\}")


@dataclass
class FormulaBudget:
    """How many characters of formulas a page may still have."""

    remaining: float = MOST_ON_A_PAGE


def with_formulas(clean: str, budget: FormulaBudget) -> str:
    """Return clean HTML with MathML in place of the formulas in its text; code stays as it is.

    Parameters
    ----------
    clean : str
        HTML as nh3 writes it.
    budget : FormulaBudget
        Is used up; formulas that find none stay as they are.
    """
    if "$" not in clean and "\\" not in clean:
        return clean
    parts, start, literal = [], 0, 0
    # `literal` counts how many elements with code are open.
    for tag in TAG.finditer(clean):
        text = clean[start : tag.start()]
        parts += [text if literal else _typeset(text, budget), tag[0]]
        start = tag.end()
        if tag[2] in LITERAL:
            literal = max(0, literal + (-1 if tag[1] else 1))
    text = clean[start:]
    return "".join([*parts, text if literal else _typeset(text, budget)])


def _typeset(text: str, budget: FormulaBudget) -> str:
    """Return a run of text, without tags, with its formulas as MathML."""
    parts, start = [], 0
    for begin, end, latex, inline in _formulas_in(text):
        source = html.unescape(latex).strip()
        budget.remaining -= len(source)
        typeset = mathml(source, inline) if budget.remaining >= 0 else None
        if typeset:
            parts += [text[start:begin], typeset]
            start = end
    return "".join([*parts, text[start:]])


def _formulas_in(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """Yield a text's formulas: where each begins and ends, its LaTeX, and whether it stands in a
    line.
    """
    position, unclosed = 0, set()
    while opening := OPENING.search(text, position):
        position = opening.end()
        name = opening[1]
        # A written dollar sign, one that never closes, or an environment that is no formula.
        if (
            opening[0] == r"\$"
            or opening[0] in unclosed
            or (name and name not in AS_LATEX2MATHML_HAS_THEM)
        ):
            continue
        pattern = CLOSING.get(opening[0]) or re.compile(re.escape(f"\\end{{{name}}}"))
        closing = pattern.search(text, position)
        if closing is None:
            unclosed.add(opening[0])  # looked for once, however often one is opened
            continue
        whole = text[opening.start() : closing.end()]
        position = closing.end()
        yield (
            opening.start(),
            position,
            whole if name else text[opening.end() : closing.start()],
            opening[0] in INLINE,
        )


@functools.lru_cache(1000)
def mathml(latex: str, inline: bool) -> str | None:
    """Return a formula as MathML, or None if it is better shown as it was written."""
    if not latex or len(latex) > MOST_LENGTH or _depth(latex) > MOST_DEPTH or DEFINES.search(latex):
        return None
    from latex2mathml.converter import Converter  # reads its table of symbols when it is imported

    try:
        display = "inline" if inline else "block"
        known = ENVIRONMENT.sub(_known, latex)
        result = _written(Converter(display=display).convert_to_element(known))
    except Exception:  # what latex2mathml raises is not said anywhere; among it RecursionError
        return None
    if len(result) > MOST_GROWTH * (len(latex) + 10):
        return None
    return result if inline else f'<span class="formula">{result}</span>'


def _depth(latex: str) -> int:
    """Return how deep a formula's parts are nested."""
    steps = [(match.start(), 1) for match in DEEPER.finditer(latex)]
    steps += [(match.start(), -1) for match in LESS_DEEP.finditer(latex)]
    depth = deepest = 0
    for _, step in sorted(steps):
        depth = max(0, depth + step)
        deepest = max(deepest, depth)
    return deepest


def _known(match: re.Match[str]) -> str:
    return f"\\{match[1]}{{{AS_LATEX2MATHML_HAS_THEM.get(match[2], match[2])}}}"


def _written(element: Any) -> str:
    """Return an element of latex2mathml's as HTML: what is on the lists, and its text escaped."""
    tag, attributes = element.tag, element.attrib
    # Each child with the one before it, None for the first.
    inside = "".join(
        _written_after(before, child)
        for before, child in zip([None, *element], element, strict=False)
    )
    # What is on no list leaves its children; so does a row of one.
    if tag not in ELEMENTS or (tag == "mrow" and len(element) == 1):
        return _text(element) + inside
    if tag == "msup" and PRIMES.fullmatch(_text(element[1])):  # the sign stands high by itself
        return f"<mrow>{inside}</mrow>"
    allowed = "".join(
        f' {name}="{value}"'
        for name, value in attributes.items()
        if name in ATTRIBUTES and ATTRIBUTES[name].fullmatch(value)
    )
    if attributes.get("columnalign") in ("left", "right"):  # which no browser reads
        allowed += f' style="text-align:{attributes["columnalign"]}"'
    return f"<{tag}{allowed}>{_text(element)}{inside}</{tag}>"


def _written_after(before: Any, element: Any) -> str:
    """Return an element as `_written` does, spaced as TeX spaces it after the one before."""
    text = _text(element)
    if element.tag == "mo" and not element.attrib:
        if text == "/":
            return '<mo lspace="0" rspace="0">/</mo>'
        if text in SIGNS and (before is None or (before.tag == "mo" and _text(before) in OPENS)):
            return f'<mo form="prefix">{text}</mo>'
        if text.isalpha() and text.isascii():  # a name, as \operatorname gives it
            return f"<mi>{text}</mi>" if text[1:] else f'<mi mathvariant="normal">{text}</mi>'
    # TeX sets a space between a function's name, such as `softmax`, and its argument.
    gap = (
        before is not None
        and before.tag == "mi"
        and len(_text(before)) > 1
        and element.tag not in ("mo", "mspace")
    )
    return THIN_SPACE * gap + _written(element)


def _text(element: Any) -> str:
    # latex2mathml writes symbols as entities, for a step that is not taken here.
    return html.escape(html.unescape(element.text or ""), quote=False)

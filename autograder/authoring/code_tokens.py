"""Code without the parts that only people read, the same on every Python: the basis of fingerprints
of code.

Python versions write a syntax tree in different ways, and may or may not split an f-string into
tokens. So the tokens are taken as they are in the text, and an f-string as one token.
"""

import io
import token
import tokenize
from collections.abc import Iterator

OUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.DEDENT,
}
BEGIN, END = (
    {value for name, value in vars(token).items() if name in {f"FSTRING_{edge}", f"TSTRING_{edge}"}}
    for edge in ("START", "END")
)
"""The tokens that begin and end a string that is split into tokens; before Python 3.12 none is."""


def plain(text: str) -> str:
    """Return Python code without comments, docstrings and blank lines, its tokens separated by
    single spaces.

    Line breaks within brackets do not matter. Every statement that is only a string is left out,
    and so are a figure's words: the value that a module assigns to `TEXT`.

    Raises
    ------
    SyntaxError
        If the text cannot be split into tokens.
    """
    lines = []
    try:
        for depth, line in _statements(text):
            words = depth == 0 and [string for _kind, string in line[:2]] == ["TEXT", "="]
            if not (words or all(kind == tokenize.STRING for kind, _string in line)):
                lines.append(" " * depth + " ".join(string for _kind, string in line))
    except tokenize.TokenError as error:
        raise SyntaxError(*error.args[:1]) from None
    return "\n".join(lines)


def _statements(text: str) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """Yield the logical lines of code: the depth of each, and its tokens with their kinds."""
    lines = io.StringIO(text, newline=None).readlines()
    depth, within, begun = 0, 0, (0, 0)
    line: list[tuple[int, str]] = []
    for kind, string, start, end, _line in tokenize.generate_tokens(iter(lines).__next__):
        depth += (kind == tokenize.INDENT) - (kind == tokenize.DEDENT)
        if kind in BEGIN:
            begun = begun if within else start
            within += 1
        elif kind in END:
            within -= 1
            if not within:
                line.append((kind, _between(lines, begun, end)))
        elif kind == tokenize.NEWLINE:
            yield depth, line
            line = []
        elif not within and kind not in OUT:
            line.append((kind, string))


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return the text between two places, each a line's number from 1 and a column."""
    first, start_column = start
    last, end_column = end
    if first == last:
        return lines[first - 1][start_column:end_column]
    return "".join(
        [lines[first - 1][start_column:], *lines[first : last - 1], lines[last - 1][:end_column]]
    )

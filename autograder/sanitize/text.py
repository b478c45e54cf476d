"""The one border for text that comes from file names, metadata, time stamps and students: cleaned
here, once.

What passed `line` or `block` can be written to any file, database, terminal or table without acting
there.
"""

import re

MOST_LINE = 2_000
MOST_BLOCK = 100_000
MOST_WORD = 200
MOST_NAME = 120  # bytes: every file system and the gradebook's columns take that

# Control codes move a terminal's cursor or ring its bell; bidirectional marks make a line read
# backwards.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BIDIRECTIONAL = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ACTING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\x1b(?!\\[[0-9;]*m)"
)
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_WORD = re.compile(rf"\S{{{MOST_WORD + 1},}}")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
# What Windows allows in no name, whatever folder or ending it has.
_NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)


def block(text: str, most: int = MOST_BLOCK) -> str:
    """Return text of several lines as it may be kept: valid Unicode, without control codes, at
    most `most` long.
    """
    text = text if len(text) <= most else text[:most] + " …"
    text = valid(_COLOR.sub("", text))
    text = _CONTROL.sub(_shown, text.replace("\r\n", "\n").replace("\r", "\n"))
    return _BIDIRECTIONAL.sub(_shown, text)


def printed(text: str) -> str:
    """Return what a cell printed as a notebook may keep it: of all that acts, only colors and
    carriage returns.
    """
    return _ACTING.sub(_shown, valid(text))


def valid(text: str) -> str:
    """Return text that any file can hold: without half characters. What acts in it still does."""
    return text.encode("utf-8", "replace").decode("utf-8")


def line(text: str, most: int = MOST_LINE) -> str:
    """Return text as one line, cleaned as `block` does, with words that no page could wrap cut
    short.
    """
    words = " ".join(block(text, most).split())
    return _WORD.sub(lambda word: f"{word[0][:MOST_WORD]}…", words)


def name(raw: str) -> str:
    """Return a file's or a student's name as text: bytes that are no UTF-8, and control codes, as
    `%` and hex digits.

    A name that is plain text already stays as it is.
    """
    return b"".join(_percent(letter) for letter in raw).decode("utf-8")


def _percent(letter: str) -> bytes:
    half = "\ud800" <= letter <= "\udfff"  # how Python writes a byte that is no UTF-8
    if half or letter in "\t\n" or _CONTROL.match(letter) or _BIDIRECTIONAL.match(letter):
        is_byte = "\udc80" <= letter <= "\udcff"
        data = letter.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
        return "".join(f"%{byte:02X}" for byte in data).encode()
    return letter.encode()


def unfit(name: str) -> str:
    """Return why a name can't be that of a file or folder on every system, to stand behind it;
    "" if it can.
    """
    character = _NOT_IN_NAMES.search(name)
    if not name.strip(". ") or name[0] in ". " or name[-1] in ". ":
        return "cannot be a folder's name: it is empty, or has a dot or blank at an end"
    if character:
        return f"cannot be a folder's name: it has the character {character[0]}"
    if _DEVICES.match(name):
        return "cannot be a folder's name: Windows has a device of that name"
    acts = _CONTROL.search(name) or _BIDIRECTIONAL.search(name)
    if name != valid(name) or acts or set(name) & {"\n", "\t"}:
        return "cannot be a folder's name: it has characters that do not show"
    if len(name.encode()) > MOST_NAME:
        return f"cannot be a folder's name: it is longer than {MOST_NAME} bytes"
    return ""


def cell_of_table(value: object) -> object:
    """Return a value for a CSV file: text that a spreadsheet would run as a formula is quoted by
    an apostrophe.
    """
    if isinstance(value, str) and value.startswith(FORMULA):
        return "'" + value
    return value


def _shown(match: re.Match[str]) -> str:
    return "\N{REPLACEMENT CHARACTER}"

"""Recognizes a file submitted as a notebook: its encoding, its real kind, and its exercise."""

import codecs
import functools
import itertools
import json
import re
from pathlib import Path

from autograder.checking.words import Message
from autograder.course.config import Exercise
from autograder.grades.file_problems import (
    CONFLICT,
    HTML,
    OF_ANOTHER,
    OTHER_ENCODING,
    OTHER_FILE,
    ZIP,
)

READ_AS = "{name} is saved as {encoding}; it was read all the same. A notebook should be UTF-8."
SIGNATURES = {
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"%PDF": "a PDF file",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
}
"""The first bytes of other files submitted under a notebook's name, and their kinds."""
CONFLICT_MARKER = re.compile(r"^(?:<{7}|={7}|>{7})(?: .*)?$", re.MULTILINE)
"""The lines that Git puts into a file of which two versions disagree."""
CONFLICT_MARKER_IN_JSON = re.compile(r"^[ \t]*(<{7}|\|{7}|={7}|>{7})(?=[ \r]|$)", re.MULTILINE)
"""The same, also indented or left over: no line of JSON begins like this."""

ID = re.compile(rb'"(?:grade_id|id)" ?: ?"([\w-]{1,80})"')
SUBJECT = re.compile(rb"checks\.run\(\\?[\"']([\w.]{1,80})")
"""What identifies an exercise in the bytes of a notebook: cell ids, and the functions that its
checks run.
"""

MOST_FEATURES = 100_000
"""Ids and subjects that are looked for in one notebook."""
Features = tuple[frozenset[bytes], frozenset[bytes]]
"""The cell ids, and the functions that checks run, in a notebook."""


def encoding_of(data: bytes) -> str:
    """Return how a notebook is saved: as its byte-order mark says, or the zeros in its first
    four bytes.
    """
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Only in front of an object does the pattern of zeros say what the encoding is.
    detected = json.detect_encoding(data[:4]) if data[:1] in (b"{", b"\0") else "utf-8"
    return "utf-8-sig" if detected == "utf-8" else detected


def encoding_notes(data: bytes | None, name: str) -> list[Message]:
    """Return a sentence on how a notebook is saved, where that is not as it should be; it is
    read all the same.
    """
    encoding = encoding_of(data) if data else "utf-8-sig"
    return (
        []
        if encoding == "utf-8-sig"
        else [Message(READ_AS, name=name, encoding=encoding[:6].upper())]
    )


def not_text_message(data: bytes, name: str) -> Message:
    """Return what a file that is not text really is, and what to do about it."""
    if data.startswith(b"PK\x03\x04"):
        return Message(ZIP, name=name)
    for signature, kind in SIGNATURES.items():
        if data.startswith(signature):
            return Message(OTHER_FILE, name=name, kind=Message(kind))
    if data.lstrip()[:1] == b"{" and b"\0" not in data:
        return Message(OTHER_ENCODING, name=name)
    return Message("{name} is not UTF-8 text.", name=name)


def not_json_message(decoded: str, name: str, line: int) -> Message:
    """Return what a text that is not a notebook really is, and what to do about it."""
    start = decoded[:200].lstrip().lower()
    if start.startswith(("<!doctype", "<html", "<?xml")):
        return Message(HTML, name=name)
    if start.startswith("pk\3\4"):
        return Message(ZIP, name=name)
    if start.startswith("%pdf"):
        return Message(OTHER_FILE, name=name, kind=Message(SIGNATURES[b"%PDF"]))
    # Only if it begins like JSON or with a marker: other texts underline their headings like this.
    may_have_markers = decoded[:200].lstrip()[:1] in ("{", "<", "=", ">")
    conflict = CONFLICT_MARKER_IN_JSON.search(decoded) if may_have_markers else None
    if conflict:
        first = decoded.count("\n", 0, conflict.start()) + 1
        return Message(CONFLICT, name=name, line=first, mark=conflict[1])
    return Message(
        "{name} is not a notebook: it is not valid JSON, line {line}.", name=name, line=line
    )


def features(data: bytes, wanted: Features | None = None) -> Features:
    """Return the ids and subjects in a notebook, of those `wanted`: it only searches bytes, and
    trusts nothing.
    """
    # Without its zeros, the ASCII in UTF-16 and UTF-32 is plain ASCII.
    plain = data.replace(b"\0", b"") if encoding_of(data) != "utf-8-sig" else data
    found = []
    for kind, pattern in enumerate((ID, SUBJECT)):
        matches = itertools.islice(pattern.finditer(plain), MOST_FEATURES)
        values = (match[1] for match in matches)
        found.append(frozenset(values) if wanted is None else wanted[kind].intersection(values))
    return found[0], found[1]


def identify_exercise(data: bytes, known: dict[str, Features], name: str = "") -> str:
    """Return the exercise whose notebook this is by its `features`, those of each exercise `known`;
    "" where unclear.

    Where it is called after the exercise `name`, it is that one's, unless nearly nothing of it is
    there, and most of another one is.
    """
    wanted = (
        frozenset().union(*(ids for ids, _ in known.values())),
        frozenset().union(*(subjects for _, subjects in known.values())),
    )
    present = features(data, wanted)
    shares = dict.fromkeys(known, 0.0)
    for exercise, of_exercise in known.items():
        others = [of_other for other, of_other in known.items() if other != exercise]
        # The larger share counts: an editor may have removed all ids, or a student the checks.
        for kind in (0, 1):
            unique = of_exercise[kind].difference(*(of_other[kind] for of_other in others))
            share = len(present[kind] & unique) / max(len(unique), 1)
            shares[exercise] = max(shares[exercise], share)
    ranked = sorted(((share, exercise) for exercise, share in shares.items()), reverse=True)
    ranked += [(0.0, "")] * 2  # a course may have one exercise, or none
    (most, best), (second, _) = ranked[:2]
    if name:
        return best if name in known and shares[name] < 0.25 and most > 0.5 else name
    return best if most > second else ""


def known_features(root: Path) -> dict[str, Features]:
    """Return what tells each exercise of a course from the others, for `identify_exercise`."""
    paths = [
        path
        for path in sorted((root / "exercises").glob("*/*.ipynb"))
        if path.stem == path.parent.name
    ]
    return {path.stem: _features_of(path, path.stat().st_mtime_ns) for path in paths}


# `written` only identifies the version of the file: a release may write it again.
@functools.lru_cache(200)
def _features_of(path: Path, written: int) -> Features:
    return features(path.read_bytes())


def wrong_exercise_message(exercise: Exercise, data: bytes, name: str) -> Message | None:
    """Return a sentence where a file is the notebook of another exercise of the course; None
    where it is not.
    """
    other = identify_exercise(data, known_features(exercise.root), exercise.name)
    return (
        Message(OF_ANOTHER, name=name, other=other, exercise=exercise.name)
        if other != exercise.name
        else None
    )

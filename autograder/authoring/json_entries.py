"""Writes recorded data as JSON in which an entry is a line: short files, and diffs that show
which entry changed.
"""

import json
from pathlib import Path
from typing import Any

from autograder.checking import files

WIDTH = 118


def text_of(value: Any, levels: int = 2) -> str:
    """Return JSON whose objects and lists have their entries on separate lines, down to some
    levels.

    If all of them fit into one line, they stay on it. Keys that begin a line are sorted; the others
    keep their order.
    """
    return _lines(value, levels, 0) + "\n"


def _lines(value: Any, levels: int, depth: int) -> str:
    whole = json.dumps(value, ensure_ascii=False)
    if depth == levels or len(whole) + depth <= WIDTH or not isinstance(value, (dict, list)):
        return whole
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key)}: {_lines(value[key], levels, depth + 1)}" for key in sorted(value)
        ]
    else:
        parts = [_lines(item, levels, depth + 1) for item in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    margin = "\n" + " " * (depth + 1)
    return f"{begin}{margin}{f',{margin}'.join(parts)}\n{' ' * depth}{end}"


def write(path: Path, value: Any, levels: int = 2) -> None:
    """Write `text_of` a value into a file, completely or not at all: others may read it
    meanwhile.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, text_of(value, levels))

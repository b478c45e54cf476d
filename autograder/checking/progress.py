"""Where a student stands in the exercises of a folder, and each exercise's cells as they were
given.

`exercise.json`, next to a notebook, is what `release` says of an exercise: its `title` and its
`given` cells, by language; the `points` of its functions; and, where the course has them, the date
it is `due`, and "staged" `hints`. `.progress.json` beside it has the points that each function had
when it was checked last.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from . import files, words
from .report import Report

RELEASED, CHECKED = "exercise.json", ".progress.json"
STAGED = "staged"


@dataclass(frozen=True)
class Standing:
    """An exercise's points as the checks last found them, and the first function with points left;
    "" for none.

    `checked` is false if none of its functions has been checked. `due` is its due date in words; ""
    if unknown.
    """

    name: str
    title: str
    score: float
    points: float
    checked: bool
    next: str
    due: str


def released(folder: Path) -> dict[str, Any]:
    """Return what an exercise's folder says of it; empty if it says nothing."""
    return _read(folder / RELEASED)


def note(folder: Path, report: Report) -> None:
    """Keep the points of a function that was checked; a folder that cannot be written keeps
    none.
    """
    path = folder / CHECKED
    scores = {**_read(path), report.subject: report.score}
    with contextlib.suppress(OSError):
        files.write(path, json.dumps(scores, indent=1))


def standings(folder: Path) -> Iterator[Standing]:
    """Yield how the exercises stand that are next to this exercise's folder, and itself."""
    for path in sorted(folder.parent.glob(f"*/{RELEASED}")):
        about = _read(path)
        checked = _read(path.with_name(CHECKED))
        # Functions without points are optional: they are never what comes next.
        points = {name: float(most) for name, most in about.get("points", {}).items() if most}
        # The points of a function may have changed in a new release.
        score = {name: min(_number(checked.get(name)), most) for name, most in points.items()}
        unfinished = [name for name in points if score[name] < points[name]]
        yield Standing(
            path.parent.name,
            in_language(about.get("title", {})),
            sum(score.values()),
            sum(points.values()),
            any(name in checked for name in points),
            unfinished[0] if unfinished else "",
            _due(about.get("due", "")),
        )


def in_language(texts: dict[str, Any]) -> Any:
    """Return what is said in the reader's language, or else in English; "" if in neither."""
    return texts.get(words.language()) or texts.get(words.ENGLISH, "")


def _due(text: str) -> str:
    if not text:
        return ""
    when = datetime.fromisoformat(text)
    return f"{when:%Y-%m-%d %H:%M} (UTC{when.isoformat()[-6:]})"


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _read(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if there is none that can be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    # A student may edit both files, and break them: then nothing is known.
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}

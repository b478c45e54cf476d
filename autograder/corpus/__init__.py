"""The corpus: submissions that grading must survive, each with the outcome that it must have,
group by group.
"""

import json
from pathlib import Path
from typing import Any

from autograder.corpus import (
    denying,
    exhausting,
    forging,
    honest,
    leaking,
    malformed,
    naming,
    showing,
)
from autograder.corpus.case import ALL

TOY = Path(__file__).parent / "toy"
"""The course that every case hands in to."""

GROUPS = {
    "forging": forging.CASES,
    "leaking": leaking.CASES,
    "denying": denying.CASES,
    "exhausting": exhausting.CASES,
    "showing": showing.CASES,
    "malformed": malformed.CASES,
    "naming": naming.CASES,
    "honest": honest.CASES,
}
CASES = [case for cases in GROUPS.values() for case in cases]

STOCK = Path(__file__).parent / "stock.json"
"""What stock nbgrader did with each case, where that differs from `USUAL`; `python -m autograder
stock` writes it.
"""

USUAL = {
    "points": list(ALL.values()),
    "reason": "",
    "leaked": False,
    "altered": False,
    "left_behind": 0,
    "no_page": False,
    "live_script": False,
    "batch_stopped": False,
}
"""All points for the check cells (None: no grade, for that reason), and no harm."""


def recorded() -> dict[str, Any]:
    """Return `stock.json` with complete rows: also with what is usual, and with the points by
    check cell.
    """
    found: dict[str, Any] = (
        json.loads(STOCK.read_text(encoding="utf-8")) if STOCK.exists() else {"cases": {}}
    )
    for name, own in found["cases"].items():
        row = {**USUAL, **own}
        found["cases"][name] = row | {
            "points": dict(zip(ALL, row["points"], strict=True)),
            "ungraded": None in row["points"],
        }
    return found

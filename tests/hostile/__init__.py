"""Submissions that grading must survive, each with the outcome that it must have, group by group."""

from pathlib import Path

from hostile import (
    denying,
    exhausting,
    forging,
    honest,
    leaking,
    malformed,
    naming,
    showing,
)

TOY = Path(__file__).parent / "toy"
"""The course whose exercise all cases are submissions of."""

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

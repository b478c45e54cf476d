"""What the beginning of every feedback page says, and a minimal page as a fallback.

It says from which data of the gradebook the page was made: if the gradebook has others, the page is
made again. Once the draws of an exercise are public, it also has all that a student needs to
recompute the grade. To write and read this, the code of the full page need not be loaded.
"""

import html
import json
import re

from autograder.course.seeds import BITS, KEY
from autograder.grades import reasons
from autograder.grades.records import CODEC
from autograder.grades.results import Disclosure, Record

POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""
"""Of a page without style and pictures: nothing that might have been overlooked in it can act."""

MADE_OF = re.compile(r'<meta name="made-of" content="([0-9a-f]+)">')
DISCLOSED = re.compile(r'<meta name="recompute" content="([^"]*)">')

MOST_POINTS = 1_000_000


def made_of(page: str) -> str | None:
    """Return the digest of the data that a page was made from, as given at its beginning; None
    if there is none.
    """
    match = MADE_OF.search(page)
    return match[1] if match else None


def disclosed(disclosure: Disclosure | None) -> str:
    """Return what a page has as data of its draws: JSON, or "" if these are not public."""
    return json.dumps(CODEC.unstructure(disclosure)) if disclosure else ""


def disclosed_in(page: str) -> Disclosure | None:
    """Return what a page says of its draws; None if it does not.

    The page may come from anywhere: only values of the right types are taken from it, and hashes
    that are hashes.
    """
    match = DISCLOSED.search(page)
    try:
        disclosure: Disclosure | None = (
            CODEC.structure(json.loads(html.unescape(match[1])), Disclosure) if match else None
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if disclosure is None:
        return None
    # The right types are not enough: a number may be too large for a seed, a text no hash.
    seeds_fit = all(0 <= seed < 2**BITS for seed in (disclosure.seed, disclosure.guest_seed))
    points_fit = all(0 <= points <= MOST_POINTS for points in disclosure.points.values())
    hashes = [
        disclosure.key,
        disclosure.commitment,
        disclosure.submission,
        disclosure.exercise,
        disclosure.notebook or disclosure.submission,
        *disclosure.files.values(),
    ]
    are_hashes = all(KEY.fullmatch(value) for value in hashes)
    return disclosure if seeds_fit and points_fit and are_hashes else None


def bare_page(record: Record, fault: str) -> str:
    """Return a minimal page if the full one could not be made: points, reasons, and whose fault
    it is.
    """
    name = html.escape(record.assignment)
    lines = "".join(
        f"<li>{html.escape(line)}</li>" for line in reasons.lines_of(record, record.penalty)
    )
    return (
        "<!doctype html><html lang='en'><meta "
        f"charset='utf-8'>{POLICY}<title>{name}</title><h1>{name}: {record.score:g} of "
        f"{record.max_score:g} points</h1><ul>{lines}</ul><p>The full page could not be made, "
        f"through our own fault: {html.escape(fault)}</p>"
    )

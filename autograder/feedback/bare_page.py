"""Reads the beginning of a feedback page without loading the page code, and makes a minimal page as a fallback."""

import html
import re

from autograder.grades import reasons
from autograder.grades.results import Record

POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""
"""Of a page without style and pictures: nothing that might have been overlooked in it can act."""

MADE_OF = re.compile(r'<meta name="made-of" content="([0-9a-f]+)">')


def made_of(page: str) -> str | None:
    """Return the digest of the data that a page was made from, as given at its beginning; None if there is none."""
    found = MADE_OF.search(page)
    return found[1] if found else None


def bare_page(record: Record, fault: str) -> str:
    """Return a minimal page if the full one could not be made: points, reasons, and whose fault it is."""
    name = html.escape(record.assignment)
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in reasons.of(record, record.penalty))
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'>{POLICY}<title>{name}</title>"
        f"<h1>{name}: {record.score:g} of {record.max_score:g} points</h1>"
        f"<ul>{lines}</ul><p>The full page could not be made, through our own fault: {html.escape(fault)}</p>"
    )

"""Checks that say what is wrong and why: the small runtime that travels with every exercise.

An exercise's `checks.py` makes one `Suite` and declares checks with it; its `misconceptions.py`
lists wrong answers that have a name (`misconception`) and right ones that look different (`right`).
Needs numpy alone; shows drawn feedback in Jupyter and plain text elsewhere.
"""

from checking.draw import Draw
from checking.expect import (
    Failed,
    expect,
    expect_array,
    expect_close,
    expect_raises,
    expect_unchanged,
)
from checking.suite import MIME, Report, Result, Subject, Suite, backward, misconception, right

__all__ = [
    "MIME",
    "Draw",
    "Failed",
    "Report",
    "Result",
    "Subject",
    "Suite",
    "backward",
    "expect",
    "expect_array",
    "expect_close",
    "expect_raises",
    "expect_unchanged",
    "misconception",
    "right",
]

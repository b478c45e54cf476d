"""Checks that say what is wrong and why: the small runtime that travels with every exercise.

An exercise's `checks.py` makes one `Suite` and declares checks with it; its `misconceptions.py`
lists wrong answers that have a name (`misconception`) and right ones that look different (`right`).
Needs numpy alone; shows drawn feedback in Jupyter and plain text elsewhere.
"""

from checking.answers import COMMON, families, misconception, right
from checking.draw import Draw, noncontiguous, read_only
from checking.expect import (
    Failed,
    expect,
    expect_agrees,
    expect_array,
    expect_by_hand,
    expect_close,
    expect_dtypes,
    expect_inputs_kept,
    expect_raises,
    expect_tensor,
    expect_tuple,
    expect_unchanged,
)
from checking.memory import expect_held
from checking.modules import Module, expect_gradients, expect_parameters
from checking.suite import MIME, Report, Result, Subject, Suite, backward, placed
from checking.words import Message

DECIDES = ("suite.py", "draw.py", "expect.py", "machine.py", "modules.py", "memory.py")
"""The files of this package that decide what a submission is worth; the others only show it."""

__all__ = [
    "COMMON",
    "DECIDES",
    "MIME",
    "Draw",
    "Failed",
    "Message",
    "Module",
    "Report",
    "Result",
    "Subject",
    "Suite",
    "backward",
    "expect",
    "expect_agrees",
    "expect_array",
    "expect_by_hand",
    "expect_close",
    "expect_dtypes",
    "expect_gradients",
    "expect_held",
    "expect_inputs_kept",
    "expect_parameters",
    "expect_raises",
    "expect_tensor",
    "expect_tuple",
    "expect_unchanged",
    "families",
    "misconception",
    "noncontiguous",
    "placed",
    "read_only",
    "right",
]

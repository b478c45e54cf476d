"""Checks that say what is wrong and why: the small runtime that travels with every exercise.

An exercise's `checks.py` makes one `Suite` and declares checks with it; its `misconceptions.py`
lists wrong answers that have a name (`misconception`) and right ones that look different (`right`).
Needs numpy alone; shows drawn feedback in Jupyter and plain text elsewhere.
"""

import sys

from . import answer_parts, diagnosis, kernels, machine, relations, show, subject, suite, words  # noqa: F401
from .answers import COMMON, families, misconception, misconception_of_each, right
from .draw import Draw, noncontiguous, read_only
from .expect import (
    REPEATED,
    Failed,
    expect,
    expect_agrees,
    expect_all_agree,
    expect_all_raise,
    expect_array,
    expect_as_in_float64,
    expect_by_hand,
    expect_close,
    expect_dtypes,
    expect_inputs_kept,
    expect_raises,
    expect_tensor,
    expect_tensor_dtypes,
    expect_tuple,
    expect_unchanged,
    told_by,
)
from .memory import expect_held
from .module_state import left_as_it_was
from .modules import CUTS, Module, backward, expect_gradients, expect_module, expect_parameters
from .report import MIME, Report, Result, Status
from .standard import StandardChecks
from .subject import Subject
from .suite import Suite, use_host
from .sums import as_sum, counts_in
from .words import Message

SHOWS = (
    "answers.py",
    "diagnosis.py",
    "files.py",
    "guidance.py",
    "helpers.py",
    "mismatch.py",
    "progress.py",
    "relations.py",
    "responses.py",
    "show.py",
    "sums.py",
    "undefined.py",
    "words.py",
    "checking.mo",
)
"""The files of this package that only say what was found.

A change of any other makes grades out of date.
"""

__all__ = [
    "COMMON",
    "CUTS",
    "MIME",
    "REPEATED",
    "SHOWS",
    "Draw",
    "Failed",
    "Message",
    "Module",
    "Report",
    "Result",
    "StandardChecks",
    "Status",
    "Subject",
    "Suite",
    "as_sum",
    "backward",
    "counts_in",
    "expect",
    "expect_agrees",
    "expect_all_agree",
    "expect_all_raise",
    "expect_array",
    "expect_as_in_float64",
    "expect_by_hand",
    "expect_close",
    "expect_dtypes",
    "expect_gradients",
    "expect_held",
    "expect_inputs_kept",
    "expect_module",
    "expect_parameters",
    "expect_raises",
    "expect_tensor",
    "expect_tensor_dtypes",
    "expect_tuple",
    "expect_unchanged",
    "families",
    "kernels",
    "left_as_it_was",
    "misconception",
    "misconception_of_each",
    "noncontiguous",
    "read_only",
    "right",
    "told_by",
    "use_host",
]

# An exercise's archive has this package by its short name, and its files import it so. In the
# course's repository it is `autograder.checking`; there both names are one package, so that no
# class is there twice.
if __name__ != "checking":
    for _name in [
        name for name in sys.modules if name == __name__ or name.startswith(f"{__name__}.")
    ]:
        sys.modules["checking" + _name.removeprefix(__name__)] = sys.modules[_name]

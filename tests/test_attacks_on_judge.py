"""Attacks on the judge that were open on 28 November 2026: each ends a check cell in an error of the judge's own."""

from types import SimpleNamespace

import numpy as np
import pytest

from autograder.checking import helpers, kernels
from autograder.checking.undefined import Ran
from autograder.grading.judge import Judge

KERNEL = Ran("kernel", "@triton.jit\ndef kernel(): pass\ndef attention(): return kernel")


@pytest.mark.parametrize("source", ["not " * 20_000 + "1", "!ls\n" * 600], ids=["deep", "magics"])
def test_a_cell_that_cannot_be_read_defines_nothing(source):
    """The text of all cells is read for exercise 11."""
    code = Judge.code_of(SimpleNamespace(ran=[KERNEL, Ran("other", source)]), "attention")
    assert kernels.written_in(code)


def test_whatever_a_guest_says_its_code_names(monkeypatch):
    monkeypatch.setattr(helpers, "run_remote", lambda *asked: [np.zeros(2), np.zeros(2)])
    assert helpers.names_used(len, {"add": sum}) == []

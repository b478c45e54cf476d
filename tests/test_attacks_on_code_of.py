"""The judge reads the text of all cells for exercise 11: what is no code must not end its check. Open."""

from types import SimpleNamespace

import pytest

from autograder.checking import kernels
from autograder.checking.undefined import Ran
from autograder.grading.judge import Judge

KERNEL = Ran("kernel", "@triton.jit\ndef kernel(): pass\ndef attention(): return kernel")


@pytest.mark.parametrize("source", ["not " * 20_000 + "1", "!ls\n" * 600], ids=["deep", "magics"])
def test_a_cell_that_cannot_be_read_defines_nothing(source):
    code = Judge.code_of(SimpleNamespace(ran=[KERNEL, Ran("other", source)]), "attention")
    assert kernels.written_in(code)

"""What tests of the benchmarks share."""

import importlib
import importlib.util

import pytest

from autograder.course.config import ROOT


@pytest.fixture(scope="module")
def benchmarks():
    """Imports a module of benchmarks/ by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module


@pytest.fixture(scope="module")
def triton():
    """Triton is installed, where there is one for this machine."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("no triton: it is made for Linux on x86-64")

"""Numbers for the text of a page: `book/figures/prose.py`."""

import sys
from pathlib import Path

import myst_nb
import numpy as np
import pytest
from IPython.utils.capture import capture_output

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from figures import prose


@pytest.mark.parametrize(
    "value", [3, 0.1 + 0.2, 1e-12, "it's “so”", np.float32(0.1), float("nan")]
)
def test_what_is_measured_is_what_the_build_keeps(ipython, value):
    """The same output as that of MyST-NB's own function."""
    with capture_output() as ours:
        prose.measured("name", value)
    with capture_output() as theirs:
        myst_nb.glue("name", value if isinstance(value, str) else float(value), display=False)
    (one,), (other,) = ours.outputs, theirs.outputs
    assert (one.data, one.metadata) == (other.data, other.metadata)


@pytest.fixture(scope="module")
def ipython():
    """IPython, in this process."""
    from IPython.core.interactiveshell import InteractiveShell

    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()

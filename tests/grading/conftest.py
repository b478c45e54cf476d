"""What tests of grading share: the guests that run cells."""

import pytest
from judge_tools import LIMITS

from autograder.course.config import ROOT
from autograder.sandbox.guests import GuestPool, UnsandboxedGuests


@pytest.fixture(scope="module", params=["sandbox", "bare"])
def guests(request, toy):
    """Where guests come from: in the sandbox, and as ordinary processes."""
    if request.param == "bare":
        pool = UnsandboxedGuests(LIMITS)
    else:
        request.getfixturevalue("isolated")
        pool = GuestPool(LIMITS, ["torch"], [str(toy.root), str(ROOT)])
    yield pool
    pool.close()

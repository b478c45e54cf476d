"""The limits on what a submission may use in total, with any number of guests."""

from typing import Any

from autograder.checking.words import Message
from autograder.course.limits import Limits

COMPUTED = "it computed for more than {seconds} seconds."
WAITED = "it was idle for more than {seconds} seconds."
COMPUTED_IN_ALL = "the notebook computed for more than {seconds} seconds in all."
WAITED_IN_ALL = "the notebook was idle for more than {seconds} seconds in all."
TOOK_IN_ALL = "the notebook took more than {seconds} seconds in all."
SENT_TOO_MUCH = "it sent more than the judge accepts."


class Budget:
    """The resources that a submission has used; all its guests share one.

    Attributes
    ----------
    cpu, idle : float
        Seconds of computing, and seconds in which the judge waited and nothing ran.
    wall : float
        Seconds for which the judge waited, or was busy with what a guest sent.
    received : int
        Bytes that came from guests.
    """

    def __init__(self, limits: Limits):
        self.limits = limits
        self.cpu = self.idle = self.wall = 0.0
        self.received = 0

    def spent(self) -> Message | None:
        """Return which limit was exceeded, as the end of a sentence, or None."""
        limits = self.limits
        if self.cpu > limits.cpu_seconds_in_all:
            return _seconds(COMPUTED_IN_ALL, limits.cpu_seconds_in_all)
        if self.idle > limits.idle_seconds_in_all:
            return _seconds(WAITED_IN_ALL, limits.idle_seconds_in_all)
        if self.wall > limits.wall_seconds_in_all:
            return _seconds(TOOK_IN_ALL, limits.wall_seconds_in_all)
        if self.received > limits.received_mb << 20:
            return Message(SENT_TOO_MUCH)
        return None


class Meter:
    """Writes what one guest uses into a submission's budget.

    Only time for which the judge itself waited counts as waiting, and each wait for no more than
    its length: a judge that was stopped, or had no turn, has not waited.
    """

    def __init__(self, budget: Budget):
        self.budget = budget
        self._cpu = self._idle = 0.0  # of this guest at the last look
        self._waited = 0.0  # since then
        # the budget's computing and idle seconds at the first look of this request
        self._start: tuple[float, float] | None = None

    def begin(self) -> None:
        """Begin a request."""
        self._start = None
        self._waited = 0.0

    def waited(self, seconds: float) -> None:
        """Count a wait of the judge."""
        self._waited += seconds
        self.budget.wall += seconds

    def busy(self, seconds: float) -> None:
        """Count what the judge computed for what the guest sent."""
        self.budget.wall += seconds

    def look(self, usage: dict[str, Any]) -> Message | None:
        """Record what the guest uses now; return which limit it exceeds, or None."""
        budget, limits = self.budget, self.budget.limits
        budget.cpu += max(0.0, usage["cpu"] - self._cpu)
        budget.idle += min(max(0.0, usage["idle"] - self._idle), self._waited)
        self._cpu = usage["cpu"]
        self._idle = usage["idle"]
        self._waited = 0.0
        if self._start is None:
            self._start = budget.cpu, budget.idle
        if budget.cpu - self._start[0] > limits.cpu_seconds:
            return _seconds(COMPUTED, limits.cpu_seconds)
        if budget.idle - self._start[1] > limits.idle_seconds:
            return _seconds(WAITED, limits.idle_seconds)
        return budget.spent()


def _seconds(template: str, seconds: float) -> Message:
    return Message(template, seconds=f"{seconds:g}")

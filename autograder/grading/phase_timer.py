"""Measures where time goes: seconds by phase, each counted once."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class PhaseTimer:
    """Adds up the seconds spent in each phase. A phase within a phase is counted for itself alone.

    Attributes
    ----------
    seconds : dict
        By phase.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = []

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Count what runs inside for `phase`."""
        start = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            took = time.perf_counter() - start
            self.add({phase: took - self._inner.pop()})
            if self._inner:
                self._inner[-1] += took

    def add(self, seconds: Mapping[str, float]) -> None:
        """Add what was counted elsewhere, such as in another process."""
        for phase, took in seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + took

    def summary(self, submissions: int) -> dict[str, Any]:
        """Return how many submissions were graded, the seconds since this was made, and those by
        phase in order.
        """
        wall = time.perf_counter() - self._began
        return {"submissions": submissions, "wall": wall, "phases": dict(self.seconds)}

"""Where the time of one submission goes: seconds by phase, each counted once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class PhaseTimer:
    """Adds up the seconds spent in each phase. A phase within a phase is counted for itself alone."""

    def __init__(self) -> None:
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
            self.seconds[phase] = self.seconds.get(phase, 0.0) + took - self._inner.pop()
            if self._inner:
                self._inner[-1] += took

"""Counts what a guest has used, from one look at its processes to the next; independent of the
operating system.
"""

from dataclasses import dataclass

# of waiting for a disk that a guest may need: a process in vfork looks as if it waited for one
DISK_SECONDS = 10.0


@dataclass
class Look:
    """The state of a guest's processes at one moment.

    Attributes
    ----------
    cpu : float
        Seconds computed by the processes that live, and by those that they have waited for.
    running : bool
        Whether a process runs, or waits only for its turn.
    disk : bool
        Whether a process cannot be woken: it waits for a disk, or stands in vfork.
    made : bool
        Whether processes were made since the last look.
    """

    cpu: float
    running: bool
    disk: bool = False
    made: bool = False


class Tally:
    """Adds looks up to seconds of computing, and seconds in which nothing ran.

    Parameters
    ----------
    longest : float
        Seconds that one look may add, however long ago the last was: whoever counts may have been
        stopped, or may not have had its turn, and that is no guest's time.
    """

    def __init__(self, longest: float):
        self.longest = longest
        self.cpu = self.idle = self.disk = 0.0
        self._totals, self._middle = [0.0, 0.0, 0.0], 0.0

    def add(self, look: Look, elapsed: float) -> None:
        """Take account of a look, so many seconds after the last."""
        elapsed = min(elapsed, self.longest)
        grown = self._grown(look.cpu)
        if look.made and look.cpu <= self._totals[-2]:
            grown = max(grown, elapsed)  # what ran has gone without a trace: nobody waited for it
        self.cpu += grown
        if grown or look.running:
            return
        if look.disk and self.disk < DISK_SECONDS:
            self.disk += elapsed
        else:
            self.idle += elapsed

    def _grown(self, total: float) -> float:
        """Return how much the seconds of computing have grown, one look late.

        While a process ends, its seconds can be seen twice, or not at all, for one look; the middle
        of three is right. Seconds that stay away are those of processes that nobody waits for; they
        have been counted.
        """
        self._totals = [*self._totals[1:], total]
        before, self._middle = self._middle, sorted(self._totals)[1]
        return max(0.0, self._middle - before)

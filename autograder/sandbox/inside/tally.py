"""Counts what a guest has used, from one look at its processes to the next; independent of the
operating system.
"""

from dataclasses import dataclass

# A guest may wait so long for a disk. There is a limit, because a process in vfork looks as if it
# waited for one.
MOST_DISK_SECONDS = 10.0


@dataclass
class Look:
    """The state of a guest's processes at one moment.

    Attributes
    ----------
    cpu : float
        Seconds computed by the processes that live, and by those that they have waited for.
    running : bool
        Whether a thread of a process runs, or waits only for its turn.
    waits_for_disk : bool
        Whether a process cannot be woken: it waits for a disk, or is in vfork.
    has_new : bool
        Whether processes were started since the last look.
    """

    cpu: float
    running: bool
    waits_for_disk: bool = False
    has_new: bool = False


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
        self.cpu = self.idle = self.disk_seconds = 0.0
        self._totals = [0.0, 0.0, 0.0]
        self._median = 0.0

    def add(self, look: Look, elapsed: float) -> None:
        """Take account of a look, so many seconds after the last."""
        elapsed = min(elapsed, self.longest)
        previous = self._totals[-1]
        grown = self._growth_to(look.cpu)
        if look.has_new and look.cpu <= previous:
            # A process started and ended between the looks. No parent waited for it, so its seconds
            # are in no count: take the whole time.
            grown = max(grown, elapsed)
        self.cpu += grown
        if look.running:
            return
        # A process that wakes only for a moment between two looks sleeps for the rest of the time.
        asleep = max(0.0, elapsed - grown)
        if look.waits_for_disk and self.disk_seconds < MOST_DISK_SECONDS:
            self.disk_seconds += asleep
        else:
            self.idle += asleep

    def _growth_to(self, total: float) -> float:
        """Note a total, and return how much the seconds of computing have grown, one look late.

        While a process ends, one look can see its seconds twice, or not at all: so the median of
        three looks counts. Seconds that disappear are those of processes that no parent waits for;
        they have been counted.
        """
        self._totals = [*self._totals[1:], total]
        before = self._median
        self._median = sorted(self._totals)[1]
        return max(0.0, self._median - before)

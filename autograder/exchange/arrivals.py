"""Which entries of the exchange are hand-ins to take now.

Any user of the machine can write any number of entries, under any names. Therefore each look does
as little as possible for each entry, and the same for each user.
"""

import functools
import os
import stat
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from autograder.exchange import inbound

MOST_LOOKED_AT = 50
"""New entries of one user that a look considers: complete hand-ins first, the oldest first."""
MOST_PER_HOUR = 60
"""Hand-ins of one user that are tried in an hour; others wait where they are."""
HOUR = 3600.0


@dataclass(frozen=True)
class Arrival:
    """A folder that may be a new hand-in.

    Attributes
    ----------
    name : str
        Of its folder, as the file system has it.
    user : object
        Whose it is: the number of a system user, or that and the student in its name.
    changed : float
        When it changed last, in seconds since 1970.
    is_complete : bool
        Whether nbgrader's `submit` writes nothing more to it.
    rank : int
        How many due entries of the same user come before it in this look.
    """

    name: str
    user: object
    changed: float
    is_complete: bool
    rank: int = 0


class Arrivals:
    """Finds new hand-ins in an exchange.

    Parameters
    ----------
    is_known, is_due : callable
        Tell of a hand-in's key whether it was taken or refused, and whether it may be tried now.
    owner_of : callable or None
        Returns the name of a system user. None if students are no system users: then users are told
        apart by hand-ins' names as well.
    """

    def __init__(
        self,
        is_known: Callable[[str], bool],
        is_due: Callable[[str], bool],
        owner_of: Callable[[int], str] | None,
    ):
        self.is_known, self.is_due = is_known, is_due
        self._owner = functools.lru_cache(10_000)(owner_of) if owner_of else None
        self._known: set[str] = set()
        self._non_hand_ins: set[str] = set()
        self._seen: dict[str, Arrival] = {}
        self._tried: defaultdict[object, deque[float]] = defaultdict(deque)
        self._first_seen: dict[str, float] = {}

    def forget(self) -> None:
        """Consider all entries again, also those that were known."""
        self._known.clear()

    def find(self, folder: int) -> list[Arrival]:
        """Return what to take or to wait for now; users take turns.

        Parameters
        ----------
        folder : int
            The descriptor of the folder of hand-ins.
        """
        names = set(inbound.names_in(folder))
        self._known &= names
        self._non_hand_ins &= names
        self._seen = {name: each for name, each in self._seen.items() if name in names}
        self._first_seen = {name: at for name, at in self._first_seen.items() if name in names}
        by_user: dict[object, list[Arrival]] = defaultdict(list)
        for name in names - self._known - self._non_hand_ins:
            arrival = self._seen.get(name) or self._arrival(folder, name)
            if arrival:
                by_user[arrival.user].append(arrival)
        considered = [each for arrivals in by_user.values() for each in self._considered(arrivals)]
        latest = [self._looked_at_again(folder, each) for each in considered]
        return sorted(filter(None, latest), key=lambda each: (each.rank, each.changed, each.name))

    def _looked_at_again(self, folder: int, arrival: Arrival) -> Arrival | None:
        """Return an entry as it is now; None if it is gone. Only one that was not complete can
        have changed since.
        """
        if arrival.is_complete:
            return arrival
        now = self._arrival(folder, arrival.name)
        return replace(now, rank=arrival.rank) if now else None

    def count_non_hand_ins(self) -> int:
        """Return how many entries cannot be hand-ins: they have other names, or are no folders."""
        return len(self._non_hand_ins)

    def note_tried(self, user: object) -> None:
        """Note that a hand-in of a user was taken, refused, or found to be unfinished."""
        self._tried[user].append(time.monotonic())

    def _left_this_hour(self, user: object) -> int:
        tried = self._tried[user]
        while tried and tried[0] < time.monotonic() - HOUR:
            tried.popleft()
        if not tried:
            del self._tried[user]
        return MOST_PER_HOUR - len(tried)

    def seconds_seen(self, name: str) -> float:
        """Return for how long an entry has been found."""
        return time.monotonic() - self._first_seen[name]

    def _arrival(self, folder: int, name: str) -> Arrival | None:
        try:
            state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:  # it has just gone
            return None
        if not stat.S_ISDIR(state.st_mode) or not inbound.looks_like_hand_in(name):
            self._non_hand_ins.add(name)
            return None
        arrival = Arrival(name, self._user(state, name), state.st_ctime, inbound.is_complete(state))
        # One user can have thousands of entries: of those only a few are looked at again.
        self._seen[name] = arrival
        return arrival

    def _user(self, state: os.stat_result, name: str) -> object:
        """Return whose an entry is. All numbers without a user count as one: anyone may have
        thousands of them.
        """
        if self._owner is None:
            return state.st_uid, name.partition("+")[0]
        return state.st_uid if self._owner(state.st_uid) else None

    def _considered(self, arrivals: list[Arrival]) -> Iterator[Arrival]:
        """Yield the entries of one user that are new and due, in order."""
        looked_at = rank = 0
        most = min(MOST_LOOKED_AT, self._left_this_hour(arrivals[0].user))
        for arrival in sorted(arrivals, key=lambda each: (not each.is_complete, each.changed)):
            key = inbound.key_of(arrival.name)
            if self.is_known(key):
                self._known.add(arrival.name)
                self._seen.pop(arrival.name, None)
                continue
            if looked_at >= most:
                break
            looked_at += 1
            self._first_seen.setdefault(arrival.name, time.monotonic())
            if self.is_due(key):
                yield replace(arrival, rank=rank)
                rank += 1

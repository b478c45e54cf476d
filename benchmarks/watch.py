"""Watch a command and everything it starts: memory, sandboxes, and what is left when it is
killed.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import time

import psutil

MEGABYTE = 1e6
EVERY = 0.5  # seconds between two looks
LEFT_BEHIND = 15  # seconds that processes have to go when their main process was killed


def started(arguments, cwd, **more):
    """Start Python with these arguments, silently; return the process."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd, env=dict(os.environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **more,
    )  # fmt: skip


def descendants(process):
    """Return the processes below one, each with whether it is or lies in a sandbox; and the number
    of sandboxes.

    A sandbox is a bubblewrap that is in no other: as root, one stands in another.
    """
    found, sandboxes = [], 0
    levels = [(psutil.Process(process.pid), False)]
    while levels:
        parent, inside = levels.pop()
        with contextlib.suppress(psutil.Error):
            for child in parent.children():
                within = inside
                with contextlib.suppress(psutil.Error):
                    within = inside or child.name() == "bwrap"
                sandboxes += within and not inside
                found.append((child, within))
                levels.append((child, within))
    return found, sandboxes


class Watch:
    """Looks every half second at what a process and its descendants hold, until it ends."""

    def __init__(self, process):
        self.process, self.samples, self.start = process, [], time.time()
        main = psutil.Process(process.pid)
        while process.poll() is None:
            began = time.perf_counter()
            with contextlib.suppress(psutil.Error):
                self.samples.append(self._look(main))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.01, EVERY - (time.perf_counter() - began)))
        self.seconds = time.time() - self.start

    def _look(self, main):
        """Add up the proportional memory (PSS: what is shared is divided among those who share
        it).
        """
        below, sandboxes = descendants(self.process)
        sample = {
            "t": time.time() - self.start,
            "sandboxes": sandboxes,
            "main": 0,
            "workers": 0,
            "sandboxed": 0,
        }
        for one, kind in [
            (main, "main"),
            *((child, ("workers", "sandboxed")[inside]) for child, inside in below),
        ]:
            with contextlib.suppress(psutil.Error, OSError):
                sample[kind] += one.memory_full_info().pss / MEGABYTE
        sample["pss"] = sample["main"] + sample["workers"] + sample["sandboxed"]
        return sample

    def peak(self, key):
        """Return the largest value of all samples."""
        return max((sample[key] for sample in self.samples), default=0)

    def mean(self, key, first, last):
        """Return the mean of a value over the samples between two times, in seconds from the
        start.
        """
        found = [sample[key] for sample in self.samples if first <= sample["t"] <= last]
        return statistics.mean(found) if found else None


def still_there(processes, seconds=LEFT_BEHIND):
    """Return the command lines of those processes that are there when they have had some seconds
    to go.
    """
    deadline = time.monotonic() + seconds
    while True:
        left = []
        for one in processes:
            with contextlib.suppress(psutil.Error):
                if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                    left.append(f"{one.pid} {' '.join(one.cmdline())[:80]}")
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)

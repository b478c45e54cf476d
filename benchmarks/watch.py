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
LEFT_BEHIND = 15  # seconds that processes have to end when their main process was killed


def started(arguments, cwd, **more):
    """Start Python with these arguments, silently; return the process."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd, env=dict(os.environ), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **more,
    )  # fmt: skip


def descendants(process):
    """Return the processes below one, and how many sandboxes are among them.

    A sandbox is a bubblewrap that is in no other: as root, one runs in another.
    """
    found, sandboxes = [], 0
    todo = [(psutil.Process(process.pid), False)]
    while todo:
        parent, inside = todo.pop()
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            for child in parent.children():
                within = inside
                with contextlib.suppress(psutil.Error):
                    within = inside or child.name() == "bwrap"
                sandboxes += within and not inside
                found.append(child)
                todo.append((child, within))
    return found, sandboxes


def until_it_ends(process):
    """Measure twice a second what a process and its descendants use, until it ends; return this as
    a `Usage`.
    """
    usage, main = Usage(time.time()), psutil.Process(process.pid)
    while process.poll() is None:
        began = time.perf_counter()
        with contextlib.suppress(psutil.Error):
            usage.samples.append(_sample(process, main, usage.start))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.01, EVERY - (time.perf_counter() - began)))
    usage.seconds = time.time() - usage.start
    return usage


def _sample(process, main, start):
    """Return the memory of the main process, and of all (PSS: memory that several processes share
    is divided among them).
    """
    below, sandboxes = descendants(process)
    of_main = _proportional_memory(main)
    of_all = of_main + sum(map(_proportional_memory, below))
    return {"t": time.time() - start, "sandboxes": sandboxes, "main": of_main, "pss": of_all}


class Usage:
    """What a process and its descendants used: `samples`, and the `seconds` until it ended."""

    def __init__(self, start):
        self.start, self.samples, self.seconds = start, [], 0.0

    def peak(self, key):
        """Return the largest value of all samples."""
        return max((sample[key] for sample in self.samples), default=0)

    def mean(self, key, first, last):
        """Return the mean of a value over the samples between two times, in seconds from the
        start.
        """
        found = [sample[key] for sample in self.samples if first <= sample["t"] <= last]
        return statistics.mean(found) if found else None


def _proportional_memory(process):
    with contextlib.suppress(psutil.Error, OSError):
        return process.memory_full_info().pss / MEGABYTE
    return 0.0  # it has ended


def still_there(processes, seconds=LEFT_BEHIND):
    """Return the command lines of the processes that have not ended after some seconds."""
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

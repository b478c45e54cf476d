"""The keeper: the first process of a guest's namespaces.

It counts what the guest uses, and ends all of it.
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import time
from typing import Any, NoReturn

from autograder.sandbox.inside.tally import Look, Tally

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")  # the unit of times in /proc, per second
PAGE = os.sysconf("SC_PAGE_SIZE")
EVERY_MS = 50  # milliseconds from one look to the next
SOON = 0.04  # seconds: a look so soon after the last is made only when the judge asks
LONGEST = 0.1  # seconds that one look may add; see Tally
DEAD = b"X"
RUNNING = b"R"
UNINTERRUPTIBLE = b"D"


def keep(guest: int, control: socket.socket, limits: dict[str, Any]) -> NoReturn:
    """Watch over one guest as the first process of its namespaces; never return.

    It answers the judge's questions with what the guest uses. When the judge is gone, or the guest
    is, or takes too much memory, everything ends.
    """
    ended: dict[str, Any] = {"ended": "gone"}
    try:
        ended = _watch(guest, control, limits)
    finally:  # whatever a guest can bring about here is its own end
        with contextlib.suppress(OSError):
            control.send(json.dumps(ended).encode())
        os._exit(0)


def _watch(guest: int, control: socket.socket, limits: dict[str, Any]) -> dict[str, Any]:
    """Count until the guest ends, or must; return why."""
    # The guest begins with the same memory as this process, which does not count.
    most = _rss_bytes("self") + (limits["memory_mb"] << 20)
    tally = Tally(LONGEST)
    processes = Processes()
    seen = time.monotonic()
    poll = select.poll()
    poll.register(control, select.POLLIN | select.POLLHUP)
    while True:
        asked = poll.poll(EVERY_MS)
        if asked and not control.recv(16):  # the judge is gone: no one is left to be told
            os._exit(0)
        now = time.monotonic()
        if asked or now - seen > SOON:
            look = processes.look()
            tally.add(look, now - seen)
            seen = now
        if asked:
            control.send(json.dumps({"cpu": tally.cpu, "idle": tally.idle}).encode())
        if processes.stopped_beyond(most):
            return {"ended": "memory"}
        code = _exit_code(guest)
        if code is not None:
            return {"ended": "exit" if code >= 0 else "signal", "code": abs(code)}


def _exit_code(guest: int) -> int | None:
    """Wait for the processes that have ended; return the guest's exit code if it is one of them.

    It is negative for a signal.
    """
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return None
            if pid == guest:
                return os.waitstatus_to_exitcode(status)
    return None


def _stopped_if_still_beyond(processes: "Processes", most: int) -> bool:
    """Stop all processes and tell whether they have more than `most` bytes in use now; if not, they
    continue.

    A guest that is not stopped may free the memory and answer before it ends: then another cell
    would be blamed.
    """
    with contextlib.suppress(ProcessLookupError):  # all may have ended meanwhile
        os.kill(-1, signal.SIGSTOP)  # all but this one, which is the first of its namespace
        if processes.memory_in_detail(most) > most:
            return True
        os.kill(-1, signal.SIGCONT)
    return False


class Processes:
    """The data on a guest in `/proc`.

    Attributes
    ----------
    memory : int
        Bytes at the last look, as if no two processes shared any: never less than what is used.
    """

    def __init__(self) -> None:
        self.memory = 0
        self._last_pid = _last_pid()
        self._socket_bytes = socket_bytes()

    def look(self) -> Look:
        """Return what the processes show now."""
        ticks = pages = 0
        running = disk = False
        for name in _names():
            try:
                with open(f"/proc/{name}/stat", "rb", 0) as file:
                    # What is before the last bracket is a name that the process chose, with any
                    # bracket in it.
                    fields = file.read().rpartition(b")")[2].split()
                with open(f"/proc/{name}/statm", "rb", 0) as file:
                    pages += int(file.read().split()[1])
            except OSError:
                continue
            state = fields[0]
            if state == DEAD:
                continue  # its parent's count has its seconds already
            threads = int(fields[17])
            # The state above is that of the main thread, which may wait for another one.
            running = running or state == RUNNING or (threads > 1 and _has_running_thread(name))
            disk |= state == UNINTERRUPTIBLE
            # Its own, and those of its children that have ended: user and system.
            ticks += int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])
        # The first process of a namespace gets the children of those that have ended.
        orphans = resource.getrusage(resource.RUSAGE_CHILDREN)
        last_pid = _last_pid()
        has_new = last_pid != self._last_pid
        self._last_pid = last_pid
        self.memory = pages * PAGE + _sockets() * self._socket_bytes
        cpu = ticks / CLOCK_TICKS + orphans.ru_utime + orphans.ru_stime
        return Look(cpu, running, disk, has_new)

    def stopped_beyond(self, most: int) -> bool:
        """Stop the processes if they use more than `most` bytes, and tell whether they do.

        A rough count, which takes no time, comes before an exact one, which takes much.
        """
        if self.memory <= most or self.memory_in_detail(most) <= most:
            return False
        return _stopped_if_still_beyond(self, most)

    def memory_in_detail(self, most: int) -> int:
        """Return the bytes in use, with what processes share with others in it once, if they are
        beyond `most`.

        What is mapped of files in the scratch space counts as memory here, although those have a
        limit besides.
        """
        roughly = sum(_rss_bytes(name) for name in _names()) + _sockets() * self._socket_bytes
        if roughly <= most:
            return roughly
        return sum(_pss_bytes(name) for name in _names()) + _sockets() * self._socket_bytes


def _names() -> list[str]:
    # 1 is this process.
    return [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def _has_running_thread(name: str) -> bool:
    """Tell whether one of a process's threads runs, or waits only for its turn."""
    threads: list[str] = []
    with contextlib.suppress(OSError):  # it has ended meanwhile
        threads = os.listdir(f"/proc/{name}/task")
    for thread in threads:
        with (
            contextlib.suppress(OSError),  # this one has ended meanwhile
            open(f"/proc/{name}/task/{thread}/stat", "rb", 0) as file,
        ):
            if file.read().rpartition(b")")[2].split()[0] == RUNNING:
                return True
    return False


def _last_pid() -> bytes:
    """Return the number of the process that was made last in these namespaces."""
    with open("/proc/loadavg", "rb", 0) as file:
        return file.read().split()[-1]


def _rss_bytes(name: str) -> int:
    """Return a process's memory without the files that it maps: fast, but too much after a fork."""
    return _fields(f"/proc/{name}/status", b"RssAnon:", b"RssShmem:")


def _pss_bytes(name: str) -> int:
    """Return a process's memory with its part of what several share: slow, so asked only near
    the limit.
    """
    return _fields(f"/proc/{name}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:") or _rss_bytes(name)


def _fields(path: str, *names: bytes) -> int:
    """Return the sum of a file's lines that begin with these names, in bytes; 0 if the process
    is gone.
    """
    try:
        with open(path, "rb") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith(names))
    except OSError:
        return 0


def _sockets() -> int:
    """Return how many sockets there are in the guest's network."""
    with open("/proc/net/sockstat", "rb", 0) as file:
        return int(file.readline().split()[2])


def socket_bytes() -> int:
    """Return how much the kernel may keep for one socket: it does not say how much it does.

    A guest cannot have larger buffers than these (see seccomp.py and linux.bound_tcp_buffers).
    """
    most = 0
    for name in ("wmem_default", "rmem_default"):
        with open(f"/proc/sys/net/core/{name}", "rb", 0) as file:
            most += int(file.read())
    return most

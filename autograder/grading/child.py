"""A process of the judge's own that computes the course's answers for guests, and can be ended at
any time.

It is forked from the judge, so it has the answers already. One call of NumPy or torch may take
minutes, and nothing in the same process can interrupt it: this process is killed instead. It lives
on for later calls, and ends with the judge.
"""

import ctypes
import gc
import os
import select
import signal
import socket
import struct
import sys
import time
import weakref
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from autograder.grading.memory_limit import at_most_more
from autograder.sandbox.inside import wire
from autograder.sandbox.inside.link import receive_exactly

HEAD = struct.Struct("!BdQ")
"""What stands before a reply: which it is, the CPU seconds that it took, and its length."""
WAIT_SECONDS = 0.1
MOST_IDLE = 60.0  # seconds in which it neither answers nor computes
PR_SET_PDEATHSIG = 1
CLOCK_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Reply(Enum):
    """What came of a call: a frame for the guest, or that what the guest sent is no call."""

    FRAME = 0
    VIOLATION = 1


class Overrun(Exception):
    """A call took longer than it may."""


class Died(Exception):
    """The process ended in a call."""


def can_fork() -> bool:
    """Tell whether a process like this one can be forked, and computes as this one does.

    Where torch sees a GPU it has threads that a fork does not have, and refuses to differentiate
    there.
    """
    if sys.platform != "linux":
        return False
    torch = sys.modules.get("torch")
    return torch is None or not torch.cuda.device_count()


class Child:
    """A process forked from this one, which answers one call after another.

    Parameters
    ----------
    answer : callable
        `answer(message, blobs)` returns the frame with the reply to a guest's call. It is called in
        the child.
    memory : int
        Bytes that the child may use beyond what it begins with; more is a `MemoryError`.
    """

    def __init__(self, answer: Callable[[dict[str, Any], list[memoryview]], bytes], memory: int):
        parent_end, child_end = socket.socketpair()
        parent = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            # The child must never return into the judge's code, whatever happens.
            try:
                with at_most_more(memory):
                    _serve(child_end, answer, parent)
            finally:
                os._exit(1)
        child_end.close()
        self.connection = parent_end
        # Not a method: it also runs when a judge is dropped, and at the end of Python.
        self.close = weakref.finalize(self, _end, self.pid, parent_end)

    def is_there(self) -> bool:
        """Tell whether the process runs: somebody else may have ended it."""
        if self.close.alive and os.waitpid(self.pid, os.WNOHANG) != (0, 0):
            self.close()
        return self.close.alive

    def ask(
        self, message: dict[str, Any], blobs: list[memoryview], seconds: float
    ) -> tuple[bytes, float]:
        """Return the frame with the reply to a guest's call, and the CPU seconds that it took.

        Raises
        ------
        wire.Violation
            If what the guest sent is no call.
        Overrun, Died
            If it took more than so many CPU seconds, or the process is gone: it is then closed.
        """
        try:
            self.connection.sendall(wire.pack(message, blobs))
            kind, took, size = HEAD.unpack(self._received(HEAD.size, seconds))
            reply = self._received(size, seconds)
        except OSError:
            self.close()
            raise Died from None
        except BaseException:  # whatever it is, the next reply would be that to this call
            self.close()
            raise
        if Reply(kind) == Reply.VIOLATION:
            raise wire.Violation(reply.decode())
        return reply, took

    def _received(self, size: int, seconds: float) -> bytes:
        """Return so many bytes; meanwhile look at what the process computes."""
        data, begun, idle = bytearray(size), self._cpu_seconds(), 0.0
        view = memoryview(data)
        while view:
            start = time.monotonic()
            if select.select([self.connection], [], [], WAIT_SECONDS)[0]:
                count = self.connection.recv_into(view)
                if not count:
                    raise ConnectionResetError
                view = view[count:]
                continue
            # A judge that was stopped meanwhile has not waited for so long.
            idle += min(time.monotonic() - start, 2 * WAIT_SECONDS)
            computed = self._cpu_seconds() - begun
            if computed > seconds or idle - computed > MOST_IDLE:
                raise Overrun
        return bytes(data)

    def _cpu_seconds(self) -> float:
        """Return the CPU seconds of all threads of the process so far."""
        # After the command's name in parentheses; utime and stime are then fields 11 and 12.
        fields = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def _end(pid: int, connection: socket.socket) -> None:
    connection.close()
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def _serve(
    connection: socket.socket,
    answer: Callable[[dict[str, Any], list[memoryview]], bytes],
    parent: int,
) -> None:
    """Be the child: answer until the parent is gone."""
    import resource

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The judge may have ended before the kernel knew that this process has to end with it.
    if os.getppid() != parent:
        return
    gc.freeze()  # what was there before is the parent's: to look at it would copy its memory
    # Ctrl-C ends the judge, and this process with it. `ask` limits its time.
    for number in (signal.SIGINT, signal.SIGPROF):
        signal.signal(number, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    # `killed_after` limits only the check in which it was forked, and it lives on after that.
    resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
    _keep_only(connection.fileno())  # a guest's connection must end when the judge closes it
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # the others are not forked
    while True:
        size = sum(wire.lengths(head := receive_exactly(connection, wire.HEAD.size)))
        frame = memoryview(receive_exactly(connection, size))
        start = time.process_time()
        text = wire.lengths(head)[0]
        kind = Reply.FRAME
        try:
            reply = answer(*wire.unpack(bytes(frame[:text]), frame[text:]))
        except wire.Violation as error:
            kind, reply = Reply.VIOLATION, str(error).encode()
        connection.sendall(HEAD.pack(kind.value, time.process_time() - start, len(reply)) + reply)


def _keep_only(descriptor: int) -> None:
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, most)

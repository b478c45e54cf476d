"""Sources of guests: forks of a warm parent inside bubblewrap, or ordinary processes without a
sandbox.
"""

import contextlib
import dataclasses
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from typing import Any, Protocol

import psutil

from autograder.course.limits import Limits
from autograder.sandbox import bubblewrap
from autograder.sandbox.budget import Budget
from autograder.sandbox.guest import LONGEST_WAIT, START_SECONDS, Ended, Guest
from autograder.sandbox.inside.tally import Look, Tally
from autograder.sanitize import text

# seconds for an answer that takes none: on a busy machine, a process may wait long for its turn
PATIENCE = 60
MOST_ANSWER = 4096  # bytes of an answer of a keeper's, or of the warm parent's
MOST_REASON = 300
WARM = b"warm"
ENDED_SILENTLY = "it ended without a message; `python -m autograder doctor` tests it"


class Guests(Protocol):
    """A source of guests, one after another."""

    @property
    def warm(self) -> bool:
        """Whether a guest is there at once, and need not wait until everything is loaded."""

    def start(self) -> None:
        """Begin to load what guests need, while other things are done."""

    def guest(self, budget: Budget | None = None) -> Guest:
        """Return a new `Guest`; raise `Ended` if its budget is spent, RuntimeError if none can
        be had.
        """

    def close(self) -> None:
        """End what was started."""


def _check_not_spent(budget: Budget | None) -> None:
    """Raise `Ended` instead of starting a guest for a submission that has used up what it may."""
    beyond = budget.spent() if budget is not None else None
    if beyond:
        raise Ended(beyond)


class GuestPool:
    """A warm parent in its sandbox, which forks guests for any number of workers.

    Parameters
    ----------
    limits : Limits
        Of a guest that is asked for without a budget; one with a budget has that one's.
    imports : sequence of str
        Modules to load beforehand, and to use a little: what they load late is then there as well.
    hidden : sequence of str
        Folders that no guest may see, wherever they lie.
    gpu : bool
        Whether guests may use this machine's GPU.
    load_only : sequence of str
        Modules that are only loaded.
    rehearsals : sequence of str
        Cells to run beforehand as well.
    """

    def __init__(
        self,
        limits: Limits,
        imports: Iterable[str] = (),
        hidden: Iterable[str] = (),
        gpu: bool = False,
        load_only: Iterable[str] = (),
        rehearsals: Iterable[str] = (),
    ):
        self.limits, self.gpu = limits, gpu
        self.imports = json.dumps(list(imports))
        self.load_only = json.dumps(list(load_only))
        self.rehearsals = json.dumps(list(rehearsals))
        self.hidden = [str(path) for path in hidden]
        self.process: subprocess.Popen[bytes] | None = None
        self._last: Channel | None = None

    @property
    def warm(self) -> bool:
        """Whether a guest is forked at once, and need not wait until everything is loaded."""
        return self._last is not None and self._last.warm

    def start(self) -> None:
        """Start the warm parent, if it does not run yet; it warms up while other things are
        done.
        """
        if self.process and self.process.poll() is None:
            return
        self.close()
        self._channels, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        loaded = [self.imports, self.load_only, "gpu" if self.gpu else "", self.rehearsals]
        command = [*bubblewrap.python(), "parent.main", str(theirs.fileno()), *loaded]
        self.process = subprocess.Popen(
            bubblewrap.command(command, self.hidden, self.gpu), pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self._log, cwd="/", process_group=0,
        )  # fmt: skip
        theirs.close()

    def channel(self, core: int | None = None) -> socket.socket:
        """Return a worker's own way to guests: a socket for `Channel`, which can be sent to another
        process.

        Its guests keep to the core of that number, if one is given.
        """
        self.start()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            socket.send_fds(
                self._channels, [json.dumps({"core": core}).encode()], [theirs.fileno()]
            )
        except OSError:
            raise RuntimeError(f"the sandbox did not start: {self.last_words()}") from None
        theirs.close()
        return ours

    def guest(self, budget: Budget | None = None) -> Guest:
        """Return a new `Guest`, for callers that need only one at a time; raise `Ended` if its
        budget is spent.
        """
        if self._last is None or self.process is None or self.process.poll() is not None:
            self._last = Channel(self.channel(), self.limits)
        try:
            return self._last.guest(budget)
        except RuntimeError as error:
            self._last = None
            raise RuntimeError(f"{error} {self.last_words()}") from None

    def last_words(self) -> str:
        """Return the last line that the warm parent wrote before it ended, or an empty string."""
        if not self.process or self.process.poll() is None:
            return ""
        self._log.seek(0)
        return " ".join(self._log.read().decode("utf-8", "replace").strip().splitlines()[-1:])

    def close(self) -> None:
        """End the warm parent, and everything that it started."""
        if self._last:
            self._last.close()
            self._last = None
        if self.process:
            # The whole group: bubblewrap's inner processes end with it only after they have asked
            # the kernel for that.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self._channels.close()
            self._log.close()
            self.process = None


class Channel:
    """A worker's own way to guests, one at a time."""

    def __init__(self, connection: socket.socket, limits: Limits):
        self.connection, self.limits, self.warm = connection, limits, False
        connection.settimeout(START_SECONDS)

    def start(self) -> None:
        """Do nothing: the warm parent runs already."""

    def guest(self, budget: Budget | None = None) -> Guest:
        """Return a new `Guest`; wait until the warm parent is warm.

        Raise `Ended` if its budget is spent.
        """
        _check_not_spent(budget)
        limits = budget.limits if budget is not None else self.limits
        ours, theirs = socket.socketpair()
        control, keepers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            if not self.warm:
                self._await_warmth()
            asked = json.dumps(dataclasses.asdict(limits)).encode()
            socket.send_fds(self.connection, [asked], [theirs.fileno(), keepers.fileno()])
        except OSError as error:
            raise RuntimeError(f"the sandbox is gone: {error}.") from None
        theirs.close()
        keepers.close()
        guest = Guest(ours, limits, _KeeperUsage(control), control.close, budget)
        guest.wait_until_ready()
        return guest

    def _await_warmth(self) -> None:
        """Wait until the warm parent is warm; raise RuntimeError, with its reason, if it will
        not be.
        """
        answer = self.connection.recv(MOST_ANSWER)
        if answer != WARM:
            reason = text.line(answer.decode("utf-8", "replace"), MOST_REASON)
            raise RuntimeError(f"the sandbox did not start: {reason or ENDED_SILENTLY}.")
        self.warm = True

    def close(self) -> None:
        """Give the channel up."""
        self.connection.close()


class _KeeperUsage:
    """Asks a keeper what its guest uses."""

    def __init__(self, control: socket.socket):
        self.control = control
        self.last: dict[str, Any] | None = None
        control.settimeout(PATIENCE)

    def __call__(self) -> dict[str, Any]:
        if self.last:
            return self.last
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionError):
                self.control.send(b"?")
            try:
                answer = self.control.recv(MOST_ANSWER)
            except ConnectionResetError:
                # It ended without reading the question; its last message follows this error.
                answer = self.control.recv(MOST_ANSWER)
            usage: dict[str, Any] = json.loads(answer or b'{"ended": "gone"}')
        except (OSError, ValueError):
            usage = {"ended": "gone"}
        # A keeper says it once, and is gone.
        if "ended" in usage:
            self.last = usage
        return usage


class UnsandboxedGuests:
    """Guests without a sandbox: each an ordinary process with your own rights, on any system.

    Parameters
    ----------
    limits : Limits
    imports : sequence of str
        Modules that each loads as it starts, while the judge does other things.
    gpu : bool
        Whether they use this machine's GPU.
    """

    warm = False  # each loads what it imports

    def __init__(self, limits: Limits, imports: Iterable[str] = (), gpu: bool = False):
        self.limits, self.imports, self.gpu = limits, list(imports), gpu
        self._running: _Started | None = None

    def start(self) -> None:
        """Start the next guest beforehand."""
        self._running = self._running or self._started()

    def guest(self, budget: Budget | None = None) -> Guest:
        """Return a new `Guest`; raise `Ended` if its budget is spent."""
        _check_not_spent(budget)
        started = self._running or self._started()
        self._running = None
        listener, process = started.listener, started.process
        listener.settimeout(START_SECONDS)
        try:
            connection, _ = listener.accept()
            connection.settimeout(10)
            # Any program of this machine can connect to the port: only the guest knows the token.
            if connection.recv(len(started.token), socket.MSG_WAITALL) != started.token:
                raise RuntimeError("another program answered instead of the guest")
        except (OSError, RuntimeError) as error:
            _end_tree(process, started.folder)
            raise RuntimeError(f"Python did not start for the notebook: {error}") from None
        finally:
            listener.close()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        limits = budget.limits if budget is not None else self.limits
        usage = _ProcessUsage(process)
        guest = Guest(connection, limits, usage, lambda: _end_tree(process, started.folder), budget)
        guest.wait_until_ready()
        return guest

    def close(self) -> None:
        """End a guest that was started and not asked for."""
        if self._running:
            self._running.listener.close()
            _end_tree(self._running.process, self._running.folder)
            self._running = None

    def _started(self) -> "_Started":
        listener = socket.create_server(("127.0.0.1", 0))
        token = secrets.token_hex(16)
        folder = tempfile.mkdtemp(prefix="guest-")
        process = subprocess.Popen(
            [
                *bubblewrap.python(str(bubblewrap.PROGRAM.parent.parent)),
                "responder.main",
                f"127.0.0.1:{listener.getsockname()[1]}:{token}",
                *self.imports,
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=os.name == "posix",
            env={**os.environ, **bubblewrap.environment(self.gpu)},
        )
        return _Started(listener, process, token.encode(), folder)


@dataclasses.dataclass
class _Started:
    """An ordinary process that will connect to `listener` and say `token` first; it works in
    `folder`.
    """

    listener: socket.socket
    process: subprocess.Popen[bytes]
    token: bytes
    folder: str


class _ProcessUsage:
    """Reports what an ordinary process and its children use."""

    def __init__(self, process: subprocess.Popen[bytes]):
        self.process = process
        self.tally = Tally(LONGEST_WAIT)
        self.last_look = time.monotonic()
        self.last_cpu = 0.0

    def __call__(self) -> dict[str, Any]:
        code = self.process.poll()
        if code is not None:
            return {"ended": "signal" if code < 0 else "exit", "code": abs(code)}
        cpu, running, disk = 0.0, False, False
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(self.process.pid)
            for process in [top, *top.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    # its own, and those of its children that have ended
                    cpu += sum(process.cpu_times()[:4])
                    status = process.status()
                    running |= status == psutil.STATUS_RUNNING
                    disk |= status == psutil.STATUS_DISK_SLEEP
        # A status is that of the main thread, which may wait for one that computes.
        running |= cpu > self.last_cpu
        now = time.monotonic()
        self.tally.add(Look(cpu, running, disk), now - self.last_look)
        self.last_look = now
        self.last_cpu = cpu
        return {"cpu": self.tally.cpu, "idle": self.tally.idle}


def _end_tree(process: subprocess.Popen[bytes], folder: str) -> None:
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    # The rest of its group: a process whose parent has ended is no child of it any more.
    if os.name == "posix":
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)

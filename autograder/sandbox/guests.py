"""Guests, seen from the judge: its end of the wire, and where guests come from.

`Nursery` and `Lane` have them from a warm parent inside bubblewrap; `Bare` starts ordinary processes instead. The
guests of one submission share a `Budget`.
"""

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

import psutil

from autograder.checking.words import Message
from autograder.sandbox import bubblewrap
from autograder.sandbox.budget import Budget, Meter
from autograder.sandbox.inside import wire
from autograder.sandbox.inside.tally import Look, Tally

START_SECONDS = 180
PATIENCE = 60  # seconds for an answer that takes none: on a busy machine, a process may wait long for its turn
WAIT_SECONDS = 0.1  # of one wait for a guest; after it, the guest's keeper is asked
LONGEST_WAIT = 2 * WAIT_SECONDS  # that is counted: who was stopped in the meantime has not waited
ASK_SECONDS = 1.0  # after which the keeper is asked though the guest sends without a pause
HALF_A_MESSAGE = 3  # times the idle limit, for the rest of a message, and for a guest that takes none
ANSWERS_BEFORE_AN_END = 100  # of a keeper, until a guest that has cut the wire is taken to live
CHUNK = 1 << 16  # bytes that are read at a time
MOST_ANSWER = 4096  # bytes of a keeper's answer

FORGED = "on the wire to the judge came {what}: a forged reply."
CANNOT_BE_TAKEN = "it sent what cannot be taken ({kind})."
NO_ANSWER = "Python did not answer any more."
OVER = "the run is over."
MEMORY = "it took more than {most} MB of memory."
ENDED_BY = "it ended Python itself, by {signal}."
ENDED_WITH = "it ended Python itself, with status {status}."
ENDED_ITSELF = "it ended Python itself."


class Ended(Exception):
    """The guest is gone; the message says why. `kind` is limit or hostile."""

    ended = True

    def __init__(self, message: str | Message, kind: str = "limit"):
        super().__init__(str(message))
        self.message = message if isinstance(message, Message) else Message(message)
        self.kind = kind


class Guest:
    """The judge's end of the wire to one guest.

    Parameters
    ----------
    connection : socket
    limits : dict
    usage : callable
        `usage()` returns what the guest uses now: a dict with `cpu` and `idle` (seconds), or with `ended`, why it is
        gone.
    stop : callable
        Ends the guest and everything that it started.
    budget : Budget, optional
        What its submission may use in all; without, the guest has one to itself.
    """

    def __init__(self, connection, limits: dict, usage: Callable, stop: Callable, budget: Budget | None = None):
        self.connection, self.limits, self.usage, self.stop = connection, limits, usage, stop
        self.budget = budget or Budget(limits)
        self.ended: Ended | None = None
        self._meter, self._asked = Meter(self.budget), 0.0
        self._came, self._chunk = bytearray(), memoryview(bytearray(CHUNK))
        connection.setblocking(False)

    def request(
        self,
        message: dict,
        blobs: Iterable[bytes] = (),
        on_output: Callable = lambda output: None,
        on_callback: Callable | None = None,
    ) -> tuple[dict, list]:
        """Send a request and return the reply with its blobs.

        Raises
        ------
        Ended
            If the guest is gone, goes beyond a limit, or sends what no honest guest sends.
        """
        if self.ended:
            raise self.ended
        frame = wire.pack(message, blobs)
        self._meter.begin()
        self._asked = time.monotonic()
        try:
            self._send(frame)
            while True:
                answer, data = self._frame()
                kind = answer.get("op")
                if kind == "output":
                    self._handled(on_output, answer.get("output"))
                elif kind == "callback" and on_callback:
                    self._send(self._handled(on_callback, answer, data))
                elif kind == "done":
                    return answer, data
                else:
                    raise wire.Violation("a message of no known kind")
        except wire.Violation as error:
            raise self.fail(Message(FORGED, what=str(error)), "hostile") from None
        except ConnectionError:
            raise self.fail(self._epitaph()) from None

    def close(self) -> None:
        """End the guest."""
        if self.ended is None:
            self.ended = Ended(OVER)
        self.stop()
        self.connection.close()

    def fail(self, message: str | Message, kind: str = "limit") -> Ended:
        """End the guest; return the `Ended` to raise."""
        self.ended = ended = Ended(message, kind)
        self.stop()
        return ended

    def wait_until_ready(self) -> None:
        """Wait until the guest says that it can begin; raise RuntimeError if it does not."""
        deadline = time.monotonic() + START_SECONDS
        try:
            while not self._is_whole():
                if time.monotonic() > deadline:
                    raise RuntimeError("a guest did not start in time")
                if not select.select([self.connection], [], [], WAIT_SECONDS)[0]:
                    usage = self.usage()
                    if "ended" in usage:
                        raise RuntimeError(f"a guest did not start: {self._epitaph(usage)}")
                self._receive()
        except (ConnectionError, wire.Violation):
            raise RuntimeError(f"a guest did not start: {self._epitaph()}") from None
        self._taken()

    def _handled(self, handler, *arguments):
        """Return what a handler makes of what the guest sent. If it cannot, that is the guest's end, and not ours."""
        start = time.process_time()
        try:
            return handler(*arguments)
        except (Ended, wire.Violation):
            raise
        except Exception as error:
            raise self.fail(Message(CANNOT_BE_TAKEN, kind=type(error).__name__)) from error
        finally:
            self._meter.busy(time.process_time() - start)

    def _send(self, frame):
        view, waited = memoryview(frame), 0.0
        while view:
            try:
                view = view[self.connection.send(view) :]
                waited = 0.0
            except BlockingIOError:
                waited += self._wait(to_send=True)
                if waited > HALF_A_MESSAGE * self.limits["idle_seconds"]:
                    raise self.fail(NO_ANSWER) from None

    def _frame(self):
        """Return the next frame; wait for it, within the limits."""
        waited = 0.0  # for the rest of it, once it has begun
        while not self._is_whole():
            begun = bool(self._came)
            seconds = self._wait()
            waited += seconds if begun else 0.0
            if waited > HALF_A_MESSAGE * self.limits["idle_seconds"]:
                raise wire.Violation("half a message")
            self._receive()
        return wire.unpack(*self._taken())

    def _receive(self):
        """Take what has come, if anything; raise `ConnectionResetError` if no more ever will."""
        with contextlib.suppress(BlockingIOError):
            count = self.connection.recv_into(self._chunk)
            if not count:
                raise ConnectionResetError
            self._came += self._chunk[:count]
            self.budget.received += count
            if self._beyond_bytes():
                self._look()

    def _is_whole(self):
        """Tell whether a frame has come whole."""
        size = wire.HEAD.size
        return len(self._came) >= size and len(self._came) >= size + sum(wire.lengths(self._came[:size]))

    def _beyond_bytes(self):
        return self.budget.received > self.limits["received_mb"] << 20

    def _taken(self):
        """Return the text and the data of the frame that has come, and leave what came behind it."""
        size, came = wire.HEAD.size, self._came
        text, data = wire.lengths(came[:size])
        self._came = came[size + text + data :]
        whole = memoryview(came).toreadonly()
        return bytes(whole[size : size + text]), whole[size + text : size + text + data]

    def _wait(self, to_send=False):
        """Wait for the guest a little; return the seconds that count."""
        start = time.monotonic()
        wanted = [self.connection]
        ready = select.select([] if to_send else wanted, wanted if to_send else [], [], WAIT_SECONDS)
        now = time.monotonic()
        waited = min(now - start, LONGEST_WAIT)
        self._meter.waited(waited)
        if not any(ready) or now - self._asked > ASK_SECONDS:
            self._look()
        return waited

    def _look(self):
        """Compare what the guest uses with the limits."""
        self._asked = time.monotonic()
        usage = self.usage()
        if "ended" in usage:
            raise self.fail(self._epitaph(usage))
        beyond = self._meter.look(usage)
        if beyond:
            raise self.fail(beyond)

    def _epitaph(self, last: dict | None = None) -> Message:
        """Return why the guest is gone, as far as its keeper knows."""
        # One that lives after a hundred answers has only cut the wire; one that ends may be long at it.
        for _ in range(ANSWERS_BEFORE_AN_END):
            if last and "ended" in last:
                break
            last = self.usage()
            time.sleep(0.02)
        last = last or {}
        cause, code = last.get("ended"), int(last.get("code", 0))
        if cause == "memory":
            return Message(MEMORY, most=self.limits["memory_mb"])
        if cause == "signal":
            with contextlib.suppress(ValueError):
                return Message(ENDED_BY, signal=signal.Signals(code).name)
        if cause == "exit":
            return Message(ENDED_WITH, status=code)
        if cause == "sandbox":
            raise RuntimeError(f"the sandbox could not be made: {last.get('text')}")
        return Message(ENDED_ITSELF)


def _not_spent(budget):
    """Raise `Ended` instead of starting a guest for a submission that has used up what it may."""
    beyond = budget.spent() if budget is not None else None
    if beyond:
        raise Ended(beyond)


class Nursery:
    """A warm parent in its sandbox, which forks guests for any number of workers.

    Parameters
    ----------
    limits : dict
        Of a guest that is asked for without a budget; one with a budget has that one's.
    imports : sequence of str
        Modules to load beforehand, and to use a little: what they load late is then there as well.
    hidden : sequence of str
        Folders that no guest may see, wherever they lie.
    gpu : bool
        Whether guests may use this machine's GPU.
    besides : sequence of str
        Modules that are only loaded.
    """

    def __init__(self, limits, imports=(), hidden=(), gpu=False, besides=()):
        self.limits, self.gpu = limits, gpu
        self.imports, self.besides = json.dumps(list(imports)), json.dumps(list(besides))
        self.hidden = [str(path) for path in hidden]
        self.process = self.lanes = self.last = None

    @property
    def warm(self) -> bool:
        """Whether a guest is forked at once, and need not wait until everything is loaded."""
        return self.last is not None and self.last.warm

    def start(self):
        """Start the warm parent, if it does not run yet; it warms up while other things are done."""
        if self.process and self.process.poll() is None:
            return
        self.close()
        self.lanes, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        parent = f"{bubblewrap.INSIDE}/parent.py"
        loaded = [self.imports, self.besides, "gpu" if self.gpu else ""]
        command = [sys.executable, "-s", parent, str(theirs.fileno()), *loaded]
        self.process = subprocess.Popen(
            bubblewrap.command(command, self.hidden, self.gpu), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self.log, cwd="/", process_group=0,
        )  # fmt: skip
        theirs.close()

    def lane(self, core=None):
        """Return a worker's own way to guests: a socket for `Lane`, which can be sent to another process.

        Its guests keep to the core of that number, if one is given.
        """
        self.start()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            socket.send_fds(self.lanes, [json.dumps({"core": core}).encode()], [theirs.fileno()])
        except OSError:
            raise RuntimeError(f"the sandbox did not start: {self.last_words()}") from None
        theirs.close()
        return ours

    def guest(self, budget: Budget | None = None) -> Guest:
        """Return a new `Guest`, for whoever needs only one at a time; raise `Ended` if its budget is spent."""
        if self.last is None or self.process is None or self.process.poll() is not None:
            self.last = Lane(self.lane(), self.limits)
        try:
            return self.last.guest(budget)
        except RuntimeError as error:
            self.last = None
            raise RuntimeError(f"{error} {self.last_words()}") from None

    def last_words(self) -> str:
        """Return the last line that the warm parent wrote before it ended, or an empty string."""
        if not self.process or self.process.poll() is None:
            return ""
        self.log.seek(0)
        return " ".join(self.log.read().decode("utf-8", "replace").strip().splitlines()[-1:])

    def close(self):
        """End the warm parent, and whatever it started."""
        if self.last:
            self.last.close()
            self.last = None
        if self.process:
            # The whole group: bubblewrap's inner processes end with it only once they have asked for that.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.lanes.close()
            self.process = None


class Lane:
    """A worker's own way to guests, one at a time."""

    def __init__(self, connection, limits):
        self.connection, self.limits, self.warm = connection, limits, False
        connection.settimeout(START_SECONDS)

    def start(self):
        """Do nothing: the warm parent runs already."""

    def guest(self, budget: Budget | None = None) -> Guest:
        """Return a new `Guest`; wait until the warm parent is warm. Raise `Ended` if its budget is spent."""
        _not_spent(budget)
        limits = budget.limits if budget is not None else self.limits
        ours, theirs = socket.socketpair()
        control, keepers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            if not self.warm and self.connection.recv(16) != b"warm":
                raise RuntimeError("the sandbox did not start.")
            self.warm = True
            socket.send_fds(self.connection, [json.dumps(limits).encode()], [theirs.fileno(), keepers.fileno()])
        except OSError as error:
            raise RuntimeError(f"the sandbox is gone: {error}.") from None
        theirs.close()
        keepers.close()
        guest = Guest(ours, limits, _Asked(control), control.close, budget)
        guest.wait_until_ready()
        return guest

    def close(self):
        """Give the lane up."""
        self.connection.close()


class _Asked:
    """Asks a keeper what its guest uses."""

    def __init__(self, control):
        self.control, self.last = control, None
        control.settimeout(PATIENCE)

    def __call__(self):
        if self.last:
            return self.last
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionError):
                self.control.send(b"?")
            try:
                answer = self.control.recv(MOST_ANSWER)
            except ConnectionResetError:  # it ended with the question unread; what it sent last comes after this
                answer = self.control.recv(MOST_ANSWER)
            usage = json.loads(answer or b'{"ended": "gone"}')
        except (OSError, ValueError):
            usage = {"ended": "gone"}
        if "ended" in usage:
            self.last = usage
        return usage


class Bare:
    """Guests without a sandbox: each an ordinary process with your own rights, on any system.

    Parameters
    ----------
    limits : dict
    imports : sequence of str
        Modules that each loads as it starts, while the judge does other things.
    gpu : bool
        Whether they use this machine's GPU.
    """

    warm = False  # each loads what it imports

    def __init__(self, limits, imports=(), gpu=False):
        self.limits, self.imports, self.gpu, self.running = limits, list(imports), gpu, None

    def start(self):
        """Start the next guest beforehand."""
        if self.running is None:
            self.running = self._started()

    def guest(self, budget: Budget | None = None) -> Guest:
        """Return a new `Guest`; raise `Ended` if its budget is spent."""
        _not_spent(budget)
        self.start()
        (listener, process, token, folder), self.running = self.running, None
        listener.settimeout(START_SECONDS)
        try:
            connection, _ = listener.accept()
            connection.settimeout(10)
            if connection.recv(len(token), socket.MSG_WAITALL) != token:
                raise RuntimeError("another program answered in place of the guest")
        except OSError as error:
            process.kill()
            raise RuntimeError(f"Python did not start for the notebook: {error}") from None
        finally:
            listener.close()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        limits = budget.limits if budget is not None else self.limits
        guest = Guest(connection, limits, _Watched(process), lambda: _end_tree(process, folder), budget)
        guest.wait_until_ready()
        return guest

    def close(self):
        """End a guest that was started and not asked for."""
        if self.running:
            listener, process, _, folder = self.running
            listener.close()
            _end_tree(process, folder)
            self.running = None

    def _started(self):
        listener = socket.create_server(("127.0.0.1", 0))
        token = secrets.token_hex(16)
        folder = tempfile.mkdtemp(prefix="guest-")
        process = subprocess.Popen(
            [
                sys.executable,
                str(bubblewrap.PROGRAM / "shell.py"),
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
        return listener, process, token.encode(), folder


class _Watched:
    """Tells what an ordinary process and its children use."""

    def __init__(self, process):
        self.process, self.seen, self.tally = process, time.monotonic(), Tally(LONGEST_WAIT)

    def __call__(self):
        code = self.process.poll()
        if code is not None:
            return {"ended": "signal" if code < 0 else "exit", "code": abs(code)}
        cpu, running, disk = 0.0, False, False
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(self.process.pid)
            for process in [top, *top.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    cpu += sum(process.cpu_times()[:4])  # its own, and those of its children that have ended
                    status = process.status()
                    running |= status == psutil.STATUS_RUNNING
                    disk |= status == psutil.STATUS_DISK_SLEEP
        now = time.monotonic()
        self.tally.add(Look(cpu, running, disk), now - self.seen)
        self.seen = now
        return {"cpu": self.tally.cpu, "idle": self.tally.idle}


def _end_tree(process, folder):
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    if os.name == "posix":
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)

"""One guest, seen from the judge: its end of the wire, and the limits that are kept there."""

import contextlib
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from autograder.checking.words import Message
from autograder.course.limits import Limits
from autograder.grades.results import Kind
from autograder.sandbox.budget import Budget, Meter
from autograder.sandbox.inside import wire

START_SECONDS = 180
WAIT_SECONDS = 0.1  # of one wait for a guest; after it, the guest's keeper is asked
LONGEST_WAIT = 2 * WAIT_SECONDS  # that is counted: who was stopped in the meantime has not waited
ASK_SECONDS = 1.0  # after which the keeper is asked though the guest sends without a pause
STALL_FACTOR = 3  # times the idle limit: for the rest of a message, or a guest that reads nothing
ANSWERS_BEFORE_AN_END = 100  # of a keeper, until a guest that has cut the wire is taken to live
CHUNK = 1 << 16  # bytes that are read at a time

FORGED = "the judge received {what}: a forged reply."
CANNOT_BE_TAKEN = "it sent something that cannot be read ({kind})."
NO_ANSWER = "Python stopped responding."
OVER = "the run is over."
MEMORY = "it used more than {most} MB of memory."
ENDED_BY = "it ended Python, with signal {signal}."
ENDED_WITH = "it ended Python, with exit status {status}."
ENDED_ITSELF = "it ended Python."


class Ended(Exception):
    """The guest is gone; the message says why. `kind` is limit or hostile."""

    ended = True

    def __init__(self, message: str | Message, kind: Kind = Kind.LIMIT):
        super().__init__(str(message))
        self.message = message if isinstance(message, Message) else Message(message)
        self.kind = kind


class Guest:
    """The judge's end of the wire to one guest.

    Parameters
    ----------
    connection : socket
    limits : Limits
    usage : callable
        `usage()` returns what the guest uses now: a dict with `cpu` and `idle` (seconds), or with
        `ended`, why it is gone.
    stop : callable
        Ends the guest and everything that it started.
    budget : Budget, optional
        What its submission may use in all; without, the guest has one to itself.
    """

    def __init__(
        self,
        connection: socket.socket,
        limits: Limits,
        usage: Callable[[], dict[str, Any]],
        stop: Callable[[], object],
        budget: Budget | None = None,
    ):
        self.connection, self.limits, self.usage, self.stop = connection, limits, usage, stop
        self.budget = budget or Budget(limits)
        self.ended: Ended | None = None
        self._meter = Meter(self.budget)
        self._last_look = 0.0  # when the keeper was asked
        self._received = bytearray()  # and not taken yet
        self._chunk = memoryview(bytearray(CHUNK))
        connection.setblocking(False)

    def request(
        self,
        message: dict[str, Any],
        blobs: Sequence[bytes] = (),
        on_output: Callable[[Any], object] = lambda output: None,
        on_callback: Callable[[Any, Any], bytes] | None = None,
    ) -> tuple[dict[str, Any], list[memoryview]]:
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
        self._last_look = time.monotonic()
        try:
            self._send(frame)
            while True:
                answer, data = self._next_frame()
                kind = answer.get("op")
                if kind == "output":
                    self._handled(on_output, answer.get("output"))
                elif kind == "callback" and on_callback:
                    self._send(self._handled(on_callback, answer, data))
                elif kind == "done":
                    return answer, data
                else:
                    raise wire.Violation("a message of unknown kind")
        except wire.Violation as error:
            raise self.fail(Message(FORGED, what=str(error)), Kind.HOSTILE) from None
        except ConnectionError:
            raise self.fail(self._epitaph()) from None

    def close(self) -> None:
        """End the guest."""
        if self.ended is None:
            self.ended = Ended(OVER)
        self.stop()
        self.connection.close()

    def fail(self, message: str | Message, kind: Kind = Kind.LIMIT) -> Ended:
        """End the guest; return the `Ended` to raise: the first one, since all that fails later
        follows from that.
        """
        if self.ended is None:
            self.ended = Ended(message, kind)
            self.stop()
        return self.ended

    def wait_until_ready(self) -> None:
        """Wait until the guest says that it can begin; raise RuntimeError if it does not."""
        deadline = time.monotonic() + START_SECONDS
        try:
            while not self._has_whole_frame():
                if time.monotonic() > deadline:
                    raise RuntimeError("a guest did not start in time")
                if not select.select([self.connection], [], [], WAIT_SECONDS)[0]:
                    usage = self.usage()
                    if "ended" in usage:
                        raise RuntimeError(f"a guest did not start: {self._epitaph(usage)}")
                self._receive()
        except (ConnectionError, wire.Violation):
            raise RuntimeError(f"a guest did not start: {self._epitaph()}") from None
        self._take_frame()

    def _handled(self, handler: Callable[..., Any], *arguments: Any) -> Any:
        """Return a handler's result for what the guest sent; if it fails, only the guest ends."""
        # Of this process alone: if it is stopped or has no turn, that is not the guest's doing.
        start = time.process_time()
        try:
            return handler(*arguments)
        except (Ended, wire.Violation):
            raise
        except Exception as error:
            raise self.fail(Message(CANNOT_BE_TAKEN, kind=type(error).__name__)) from error
        finally:
            self._meter.busy(time.process_time() - start)

    def _send(self, frame: bytes) -> None:
        view, waited = memoryview(frame), 0.0
        while view:
            try:
                view = view[self.connection.send(view) :]
                waited = 0.0
            except BlockingIOError:
                waited += self._wait(to_send=True)
                if waited > STALL_FACTOR * self.limits.idle_seconds:
                    raise self.fail(Message(NO_ANSWER)) from None

    def _next_frame(self) -> tuple[dict[str, Any], list[memoryview]]:
        """Return the next frame; wait for it, within the limits."""
        waited = 0.0  # for the rest of a frame, after its first bytes
        while not self._has_whole_frame():
            has_begun = bool(self._received)
            seconds = self._wait()
            waited += seconds if has_begun else 0.0
            if waited > STALL_FACTOR * self.limits.idle_seconds:
                raise wire.Violation("half a message")
            self._receive()
        return wire.unpack(*self._take_frame())

    def _receive(self) -> None:
        """Receive the bytes that are there, if any; raise `ConnectionResetError` at their end."""
        with contextlib.suppress(BlockingIOError):
            count = self.connection.recv_into(self._chunk)
            if not count:
                raise ConnectionResetError
            self._received += self._chunk[:count]
            self.budget.received += count
            # At once: until the next look, a guest could send much more.
            if self._beyond_bytes():
                self._look()

    def _has_whole_frame(self) -> bool:
        """Tell whether a whole frame is received."""
        size = wire.HEAD.size
        if len(self._received) < size:
            return False
        return len(self._received) >= size + sum(wire.lengths(self._received[:size]))

    def _beyond_bytes(self) -> bool:
        return self.budget.received > self.limits.received_mb << 20

    def _take_frame(self) -> tuple[bytes, memoryview]:
        """Return the text and the data of the received frame; leave the bytes after it."""
        received = self._received
        head = wire.HEAD.size
        text_size, data_size = wire.lengths(received[:head])
        text_end = head + text_size
        end = text_end + data_size
        # A new object, because the views below stay on the old one.
        self._received = received[end:]
        view = memoryview(received).toreadonly()
        return bytes(view[head:text_end]), view[text_end:end]

    def _wait(self, to_send: bool = False) -> float:
        """Wait for the guest a little; return the seconds that count."""
        start = time.monotonic()
        readers = [] if to_send else [self.connection]
        writers = [self.connection] if to_send else []
        ready = select.select(readers, writers, [], WAIT_SECONDS)
        now = time.monotonic()
        waited = min(now - start, LONGEST_WAIT)
        self._meter.waited(waited)
        if not any(ready) or now - self._last_look > ASK_SECONDS:
            self._look()
        return waited

    def _look(self) -> None:
        """Compare what the guest uses with the limits."""
        self._last_look = time.monotonic()
        usage = self.usage()
        if "ended" in usage:
            raise self.fail(self._epitaph(usage))
        beyond = self._meter.look(usage)
        if beyond:
            raise self.fail(beyond)

    def _epitaph(self, last: dict[str, Any] | None = None) -> Message:
        """Return why the guest is gone, as far as its keeper knows; wait two seconds until it is.

        Raises
        ------
        RuntimeError
            If the sandbox could not be made.
        """
        # If it still runs after a hundred answers, it has only closed its end of the wire.
        for _ in range(ANSWERS_BEFORE_AN_END):
            if last and "ended" in last:
                break
            last = self.usage()
            time.sleep(0.02)
        last = last or {}
        cause = last.get("ended")
        code = int(last.get("code", 0))
        if cause == "memory":
            return Message(MEMORY, most=self.limits.memory_mb)
        if cause == "signal":
            with contextlib.suppress(ValueError):
                return Message(ENDED_BY, signal=signal.Signals(code).name)
        if cause == "exit":
            return Message(ENDED_WITH, status=code)
        if cause == "sandbox":
            raise RuntimeError(f"the sandbox could not be made: {last.get('text')}")
        return Message(ENDED_ITSELF)

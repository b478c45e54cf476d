"""The guest's end of the wire to the judge."""

import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

from autograder.sandbox.inside import wire


class Link:
    """Sends and receives frames; any of the guest's threads may send."""

    def __init__(self, connection: socket.socket):
        self.connection, self.lock = connection, threading.RLock()

    def send(self, message: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        """Send one frame."""
        frame = wire.pack(message, blobs)
        with self.lock:
            self.connection.sendall(frame)

    def receive(self) -> tuple[dict[str, Any], list[memoryview]]:
        """Wait for one frame; end when the other side is gone."""
        text, size = wire.lengths(self._exactly(wire.HEAD.size))
        whole = memoryview(self._exactly(text + size))
        return wire.unpack(bytes(whole[:text]), whole[text:])

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        got = 0
        while got < size:
            count = self.connection.recv_into(view[got:])
            if not count:
                # Not `sys.exit`: a student's code could catch that, or go on at the exit.
                os._exit(0)
            got += count
        return bytes(data)

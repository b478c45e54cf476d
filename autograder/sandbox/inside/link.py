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
        text, size = wire.lengths(receive_exactly(self.connection, wire.HEAD.size))
        whole = memoryview(receive_exactly(self.connection, text + size))
        return wire.unpack(bytes(whole[:text]), whole[text:])


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """Return the next bytes of a connection; end this process when the other side is gone."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            # Not `sys.exit`: a student's code could catch that, or go on at the exit.
            os._exit(0)
        view = view[count:]
    return bytes(data)

"""The process that measures, as `gpu.py` starts, asks and ends it.

After a fault on a device, a process can compute nothing more: only this one has to be replaced.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import traceback

from gpu_needs import Absent

HUNG = 180  # seconds that one case may take at most


class Died(Exception):
    """The process ended, or was ended, before it answered."""


class Worker:
    """A process that answers one question after the other.

    Starting it takes seconds, so it is kept.
    """

    def __init__(self):
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        self.process = spawn.Process(target=serve, args=(theirs,))
        self.process.start()
        theirs.close()

    def ask(self, question, seconds):
        """Return the answer, ("found", what) or ("failed", why) or ("absent", why).

        Raises
        ------
        TimeoutError
            If it did not come within `seconds`; the process is gone then.
        Died
            If the process ended by itself.
        """
        try:
            self.connection.send(question)
            if self.connection.poll(max(0, seconds)):
                return self.connection.recv()
        except (EOFError, OSError) as error:
            self.end()
            raise Died(_how(self.process.exitcode)) from error
        self.end()
        raise TimeoutError

    def end(self):
        """End it, with all that it started."""
        self.connection.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()


def _how(code):
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with status {code}"


def serve(connection):
    """Answer until the other end is closed: what machine this is, which cases a part has, what
    one of them measures.
    """
    os.setsid()  # so that it can be ended with all that it starts
    os.dup2(2, 1)  # libraries print: stdout is for the tables of `gpu.py`
    sys.stdout = sys.stderr
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            connection.send(_answer(*connection.recv()))


def _answer(part, case=None):
    try:
        import gpu_parts

        if part == "machine":
            return "found", gpu_parts.machine()
        cases = gpu_parts.PARTS[part]()
        if case is None:
            return "found", list(cases)
        try:
            return "found", cases[case]()
        finally:
            gpu_parts.tidy()
    except Absent as absent:
        return "absent", str(absent)
    except Exception as error:  # whatever it is, the other parts go on
        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {error}".splitlines()[0][:300]

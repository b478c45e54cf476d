"""Submissions that try to use time or memory that no limit sees, or to make the grader at fault"""

import textwrap

import nbformat

from autograder.grades.results import Kind
from hostile.case import ALL, NONE, RIGHT, TWICE, ZERO, Case, code, find

# How a cell finds its guest's end of the wire.
WIRE = code(
    """
    import os, struct, time
    def is_socket(number):
        try:
            return number > 2 and os.readlink(f"/proc/self/fd/{number}").startswith("socket")
        except OSError:
            return False
    wire = next((number for number in range(3, 256) if is_socket(number)), None)
    end = time.monotonic() + 90
    """
)
COMPUTES = "start = time.monotonic()\nwhile time.monotonic() < start + 0.03:\n    pass\n"


def holds(name, does, text, says=""):
    """Return a case whose cell `add` goes on for long, or takes much, and defines nothing."""
    return Case(name, does, TWICE, Kind.LIMIT, says=says, cells={"add": code(text)})


def before_the_checks(*texts):
    """Return an edit that adds cells of the student's own before the first check."""

    def edit(notebook, folder):
        place = find(notebook, "check_add")
        notebook.cells[place:place] = [nbformat.v4.new_code_cell(code(text)) for text in texts]

    return edit


def asks(name, does, text, **more):
    """Return a case whose `add` is wrong, so that the course's stands in for it while the wrong
    `twice` calls it.
    """
    twice = (
        "import numpy as np\ndef twice(a):\n"
        + textwrap.indent(code(text), "    ")
        + "\n    return 0"
    )
    return Case(name, does, NONE, cells={**ZERO, "twice": twice}, **more)


CASES = [
    # Time that no limit sees
    holds(
        "waits-in-vfork",
        "waits for a child process in vfork, while it looks busy",
        """
        import ctypes
        libc = ctypes.PyDLL(None)
        if libc.vfork() == 0:
            libc.sleep(90)
            libc._exit(0)
        """,
        says="idle",
    ),
    holds(
        "brief-children",
        "computes in child processes that end before they are counted",
        f"""
import os, time
end = time.monotonic() + 90
while time.monotonic() < end:
    if os.fork() == 0:
        {COMPUTES.replace(chr(10), chr(10) + "        ")}
        os._exit(0)
    os.wait()
""",
        says="computed",
    ),
    holds(
        "brief-children-unawaited",
        "computes in brief child processes that the system is told to forget",
        f"""
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 90
while time.monotonic() < end:
    if os.fork() == 0:
        {COMPUTES.replace(chr(10), chr(10) + "        ")}
        os._exit(0)
    time.sleep(0.03)
""",
        says="computed",
    ),
    holds(
        "brief-orphans",
        "computes in brief grandchild processes, which no process waits for",
        f"""
import os, time
end = time.monotonic() + 90
while time.monotonic() < end:
    if os.fork() == 0:
        if os.fork() == 0:
            {COMPUTES.replace(chr(10), chr(10) + "            ")}
        os._exit(0)
    os.wait()
    time.sleep(0.04)
""",
        says="computed",
    ),
    holds(
        "wakes-again-and-again",
        "sleeps, and computes for a moment twenty times a second",
        """
        import time
        end = time.monotonic() + 90
        while time.monotonic() < end:
            start = time.process_time()
            while time.process_time() < start + 0.01:
                pass
            time.sleep(0.04)
        """,
        says="idle",
    ),
    Case(
        "sleeps-again-and-again",
        "sleeps in forty cells, a little less than the limit of a cell in each",
        NONE,
        Kind.LIMIT,
        says="in all",
        edit=before_the_checks(*["import time\ntime.sleep(3.5)"] * 40),
    ),
    Case(
        "computes-anew-in-each-guest",
        "computes in three cells, and ends Python, so that they run again",
        NONE,
        Kind.LIMIT,
        says="in all",
        edit=before_the_checks(
            *[
                "import time\nend = time.process_time() + 3\nwhile time.process_time() < end:\n    "
                "pass"
            ]
            * 3,
            *["import os\nos._exit(0)"] * 3,
        ),
    ),
    holds(
        "frame-trickled",
        "sends the judge a frame, one byte every half second",
        WIRE
        + "\n"
        + code(
            """
            frame = struct.pack("!II", 1000, 0) + b"{" * 1000
            while wire and time.monotonic() < end:
                os.write(wire, frame[:1])
                frame = frame[1:]
                time.sleep(0.5)
            """
        ),
        says="idle",
    ),
    holds(
        "half-a-frame",
        "sends the judge half a frame, and sleeps",
        WIRE + '\nif wire:\n    os.write(wire, struct.pack("!II", 1000, 0))\ntime.sleep(90)',
        says="idle",
    ),
    holds(
        "outputs-trickled",
        "clears its output fifty times a second, and does nothing else",
        """
        import time
        from IPython.display import clear_output
        end = time.monotonic() + 90
        while time.monotonic() < end:
            clear_output()
            time.sleep(0.02)
        """,
    ),
    asks(
        "course-answer-slow",
        "has the course's own `add` multiply matrices for minutes, in one call of NumPy",
        "add(np.ones((1900, 1900), np.float16), 0)",
        kind=Kind.LIMIT,
        says="it kept the judge computing for more than 5 seconds",
    ),
    asks(
        "course-answer-slow-again-and-again",
        "has the course's own `add` multiply smaller matrices, in many calls of several threads",
        """
        import threading
        def work():
            for _ in range(1000):
                add(np.ones((600, 600), np.float16), 0)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """,
        kind=Kind.LIMIT,
        says="it kept the judge computing for more than 5 seconds",
    ),
    asks(
        "course-answer-too-large",
        "gives the course's own `add` more numbers than any check has",
        """
        try:
            result = add(np.ones((2100, 2100), np.float16), 0)
        except ValueError as error:
            result = 0 if "numbers" in str(error) else None
        if type(result) is not int:  # neither one's own nor refused
            raise SystemExit
        """,
        kind=Kind.WRONG,
    ),
    # Memory that no limit sees
    asks(
        "course-answer-memory",
        "has the course's own `add` make a matrix of 1.8 GB",
        "add(np.ones((30_000, 1), np.float16), 0)",
        kind=Kind.WRONG,
    ),
    holds(
        "shared-map",
        "fills 1,500 MB of a shared map, and then waits",
        """
        import mmap, time
        kept = mmap.mmap(-1, 1500 << 20)
        for start in range(0, len(kept), 1 << 20):
            kept[start : start + (1 << 20)] = bytes(1 << 20)
        time.sleep(2)
        """,
        says="memory",
    ),
    holds(
        "shared-map-of-children",
        "fills a shared map of 1,500 MB in fifteen child processes, 100 MB in each",
        """
        import mmap, os, time
        kept = mmap.mmap(-1, 1500 << 20)
        for child in range(15):
            if os.fork() == 0:
                for start in range(child * 100 << 20, (child + 1) * 100 << 20, 1 << 20):
                    kept[start : start + (1 << 20)] = bytes(1 << 20)
                time.sleep(3)
                os._exit(0)
        time.sleep(3)
        """,
        says="memory",
    ),
    holds(
        "socket-buffers",
        "fills the buffers of as many sockets as twenty child processes can have",
        """
        import os, socket, time
        kept = []
        for child in range(20):
            if os.fork() == 0:
                try:
                    while True:
                        pair = socket.socketpair()
                        kept.append(pair)
                        pair[0].setblocking(False)
                        pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
                        try:
                            while True:
                                pair[0].send(bytes(1 << 16))
                        except BlockingIOError:
                            pass
                except OSError:
                    pass
                time.sleep(3)
                os._exit(0)
        time.sleep(3)
        """,
        says="memory",
    ),
    # Choosing infrastructure
    Case(
        "signals-to-process-1",
        "sends every signal to process 1, if it sees only a few processes",
        ALL,
        Kind.RIGHT,
        cells={
            "add": RIGHT["add"]
            + "\n\n"
            + code(
                """
                import os, time
                if len([name for name in os.listdir("/proc") if name.isdigit()]) < 20 and os.getpid() < 20:
                    for number in range(1, 65):
                        try:
                            os.kill(1, number)
                        except OSError:
                            pass
                    time.sleep(0.3)
                """
            )
        },
    ),
]

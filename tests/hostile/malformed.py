"""Submissions that are not the notebook that was given out, or no notebook."""

import copy
import json
import os
import zipfile

import nbformat
from nbgrader.utils import compute_checksum

from autograder.grades.results import Kind
from hostile.case import ALL, LIVE, NONE, RIGHT, TWICE, WORK, ZERO, Case, find, save


def instead(data):
    """Return an edit that hands in these bytes in place of the notebook; a function makes them
    of the notebook.
    """

    def edit(notebook, folder):
        (folder / "01-toy.ipynb").write_bytes(data(notebook) if callable(data) else data)
        return False

    return edit


def of_json(change):
    """Return an edit that changes the notebook as plain JSON, beyond what nbformat would write."""

    def edit(notebook, folder):
        raw = json.loads(nbformat.writes(notebook))
        raw = change(raw) or raw
        (folder / "01-toy.ipynb").write_text(json.dumps(raw))
        return False

    return edit


def broken(name, does, data, says="", edit=None, **more):
    return Case(name, does, NONE, Kind.MALFORMED, says=says, edit=edit or instead(data), **more)


def mended(name, does, edit, says="", points=ALL, kind=Kind.RIGHT, **more):
    """Return a case whose notebook can be put right again."""
    return Case(name, does, points, kind, says=says, edit=edit, **more)


def text_of(notebook):
    return nbformat.writes(notebook).encode()


def copied(grade_id, keep_id=False):
    def edit(notebook, folder):
        place = find(notebook, grade_id)
        again = copy.deepcopy(notebook.cells[place])
        if not keep_id:
            again["id"] = "another"
        notebook.cells.insert(place + 1, again)

    return edit


def deleted(*grade_ids):
    def edit(notebook, folder):
        for grade_id in grade_ids:
            del notebook.cells[find(notebook, grade_id)]

    return edit


def flagged(grade_id, **flags):
    def edit(notebook, folder):
        notebook.cells[find(notebook, grade_id)].metadata["nbgrader"].update(flags)

    return edit


def stripped(ids):
    """Return an edit that takes all metadata away, and the cells' ids too unless told to keep
    them.
    """

    def edit(notebook, folder):
        for cell in notebook.cells:
            cell["metadata"] = {}
            if not ids:
                del cell["id"]
        notebook["metadata"] = {}
        if not ids:
            notebook["nbformat_minor"] = 4

    return edit


def renamed(name):
    def edit(notebook, folder):
        save(notebook, folder, name)
        return False

    return edit


def zipped(notebook, folder):
    with zipfile.ZipFile(folder / "01-toy.ipynb.zip", "w") as made:
        made.writestr("01-toy.ipynb", nbformat.writes(notebook))
    return False


def older(points, source=""):
    """Return an edit that puts the check of a release with other points there, or an altered
    one.
    """

    def edit(notebook, folder):
        cell = notebook.cells[find(notebook, "check_add")]
        cell.source = cell.source.replace("points=4", f"points={points}")
        cell.metadata["nbgrader"]["points"] = points
        cell.metadata["nbgrader"]["checksum"] = compute_checksum(cell)
        cell.source = source or cell.source

    return edit


def kernel(name, language):
    def edit(notebook, folder):
        notebook.metadata["kernelspec"] = {"name": name, "display_name": name, "language": language}
        notebook.metadata["language_info"] = {"name": language}

    return edit


def format_3(notebook, folder):
    old = nbformat.convert(copy.deepcopy(notebook), 3)
    (folder / "01-toy.ipynb").write_text(nbformat.v3.writes_json(old))
    return False


def split(notebook, folder):
    """Jupyter's split of a cell: both halves have its metadata."""
    place = find(notebook, "add")
    second = copy.deepcopy(notebook.cells[place])
    notebook.cells[place].source = "def plus(a, b):\n    return a + b"
    second.source, second["id"] = "def add(a, b):\n    return plus(a, b)", "second-half"
    notebook.cells.insert(place + 1, second)


def merged(notebook, folder):
    """Jupyter's merge of two cells: the first one's metadata, both texts."""
    place = find(notebook, "add")
    notebook.cells[place].source += "\n\n" + notebook.cells[place + 1].source
    del notebook.cells[place + 1]


def backwards(notebook, folder):
    notebook.cells.reverse()


def as_text(notebook, folder):
    """A solution cell made a text cell, as one wrong key does."""
    place = find(notebook, "add")
    old = notebook.cells[place]
    notebook.cells[place] = nbformat.v4.new_markdown_cell(
        old.source, metadata=old.metadata, id=old.id
    )


def respaced(notebook, folder):
    cell = notebook.cells[find(notebook, "check_add")]
    cell.source = "import checks\n\n\nchecks.run('add', points = 4)  # 4 points\n"


def odd_json(raw):
    raw["cells"][0]["metadata"] = None
    raw["cells"][0]["source"] = ["# Toy\n", "Add two numbers."]
    for cell in raw["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = None, "7"
            cell["source"] = (
                cell["source"]
                if isinstance(cell["source"], list)
                else cell["source"].splitlines(True)
            )
    raw["nbformat_minor"] = 99
    raw["metadata"]["kernelspec"] = 7


def surrogates(raw):
    raw["cells"].append(
        {"cell_type": "markdown", "id": "odd", "metadata": {}, "source": "half a letter: \ud83d"}
    )


def unknown_cell(raw):
    raw["cells"].append(
        {"cell_type": "heading", "id": "odd", "metadata": {}, "source": "A heading", "level": 1}
    )


def deep(raw):
    nested = []
    for _ in range(400):
        nested = [nested]
    raw["metadata"]["deep"] = nested


def no_cells(raw):
    raw["cells"] = []


def stored_outputs(notebook, folder):
    text = "x" * 10_000_000
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("stream", text=text)]
            break


def stored_script(notebook, folder):
    cell = notebook.cells[find(notebook, "add")]
    text = f"<script>{LIVE}()</script>"
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": text})]


def directory(notebook, folder):
    (folder / "01-toy.ipynb").mkdir()
    return False


def fifo(notebook, folder):
    os.mkfifo(folder / "01-toy.ipynb")
    return False


def link(target):
    def edit(notebook, folder):
        (folder / "01-toy.ipynb").symlink_to(target)
        return False

    return edit


def nothing(notebook, folder):
    return False


def two_others(notebook, folder):
    save(notebook, folder, "first try.ipynb")
    save(notebook, folder, "second try.ipynb")
    return False


def old_copy_beside(notebook, folder):
    own = copy.deepcopy(notebook)
    own.cells[find(own, "add")].source = ZERO["add"]
    save(own, folder, "01-toy-Copy1.ipynb")
    (folder / ".ipynb_checkpoints").mkdir()
    save(own, folder / ".ipynb_checkpoints", "01-toy-checkpoint.ipynb")


def big(notebook, folder):
    notebook.cells.append(nbformat.v4.new_markdown_cell("x" * 51_000_000))


def other_notebook(notebook):
    return nbformat.writes(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(1)")])
    ).encode()


def unread(name, does, old, new, says):
    """Return a case whose `add` Python cannot read: its reasons name the line and what it is
    that stands there.
    """
    return Case(
        name, does, TWICE, Kind.WRONG, says=says, cells={"add": RIGHT["add"].replace(old, new)}
    )


CASES = [
    # Cells copied, deleted, flagged
    mended("check-copied", "has a check cell twice", copied("check_add"), says="check_add"),
    mended(
        "check-copied-with-id",
        "has a check cell twice, with the same id",
        copied("check_twice", keep_id=True),
    ),
    mended("solution-split", "splits a solution cell; both halves have its metadata", split),
    mended("cells-merged", "merges a solution cell and its check", merged, says="check_add"),
    mended("check-deleted", "deletes a check cell", deleted("check_add"), says="check_add"),
    mended("checks-all-deleted", "deletes all check cells", deleted("check_add", "check_twice")),
    mended(
        "solution-deleted",
        "deletes a solution cell",
        deleted("add"),
        says="add",
        points=TWICE,
        kind=Kind.WRONG,
    ),
    mended(
        "grade-flag-off",
        "switches a check cell's grade flag off",
        flagged("check_add", grade=False),
        kind=Kind.HOSTILE,
    ),
    mended(
        "solution-flag-on",
        "marks a check cell as a solution",
        flagged("check_add", solution=True),
        kind=Kind.HOSTILE,
    ),
    mended(
        "solution-marked-graded",
        "marks a solution cell as graded, with points",
        flagged("add", grade=True, points=50),
        may=Kind.HOSTILE,
    ),
    mended(
        "schema-old",
        "claims that its metadata has an older version",
        flagged("check_add", schema_version=1),
    ),
    mended(
        "check-reformatted",
        "changes only spaces, quotes and a comment in a locked cell",
        respaced,
    ),
    mended("order-reversed", "has all cells in reverse order", backwards),
    mended("solution-as-text", "turns a solution cell into text, by accident", as_text),
    # No notebook
    broken("empty-file", "is an empty file", b"", says="empty"),
    broken("not-json", "is not JSON", b"def add(a, b): return a + b", says="JSON"),
    broken(
        "half-a-file",
        "is cut off in the middle",
        lambda nb: text_of(nb)[: len(text_of(nb)) // 2],
        says="JSON",
    ),
    broken(
        "merge-conflict",
        "has merge conflict markers",
        lambda nb: text_of(nb).replace(b' "cells"', b'<<<<<<< HEAD\n "cells"', 1),
        says="merge conflict",
    ),
    broken(
        "not-utf8",
        "is in Latin-1 instead of UTF-8",
        lambda nb: text_of(nb).replace(b"Toy", b"T\xf6y", 1),
        says="save it as UTF-8",
    ),
    broken(
        "binary",
        "has the bytes of a compressed file",
        b"PK\x03\x04" + bytes(range(256)) * 40,
        says="zip archive",
    ),
    broken(
        "zipped",
        "has its notebook only in a zip",
        None,
        says="but 01-toy.ipynb.zip. Unpack it",
        edit=zipped,
    ),
    broken("a-list", "is JSON, but a list", b"[1, 2]", says="not a notebook"),
    broken("json-number", "is JSON, but a number too long to read", b"9" * 10_000),
    broken("json-too-deep", "is JSON nested 100,000 levels deep", b"[" * 100_000 + b"]" * 100_000),
    broken("over-50-mb", "has 51 MB of text", None, says="MB", edit=big),
    broken("a-directory", "has a directory in place of the notebook", None, edit=directory),
    broken(
        "a-fifo",
        "has a named pipe in place of the notebook, which no one writes to",
        None,
        edit=fifo,
    ),
    broken(
        "link-to-neighbour",
        "is a link to another student's notebook",
        None,
        edit=link("../../zoe-next-door/01-toy/01-toy.ipynb"),
        secret=WORK,
    ),
    broken(
        "link-to-system",
        "is a link to one of the machine's files",
        None,
        edit=link("/etc/passwd"),
        secret="root:x:0",
    ),
    broken("link-to-itself", "is a link to itself", None, edit=link("01-toy.ipynb")),
    broken("no-file", "is an empty folder", None, edit=nothing),
    broken(
        "two-other-names", "has two notebooks, neither with the right name", None, edit=two_others
    ),
    broken(
        "html-page",
        "is the page of a login form, saved as the notebook",
        b"<!doctype html><html><form>Sign in</form></html>",
        says="web page",
    ),
    Case("no-cells", "has no cells", NONE, Kind.MALFORMED, edit=of_json(no_cells), may=Kind.WRONG),
    Case(
        "another-notebook",
        "is another notebook",
        NONE,
        Kind.MALFORMED,
        edit=instead(other_notebook),
        may=Kind.WRONG,
    ),
    # Odd, but ours
    mended(
        "byte-order-mark",
        "starts with a byte order mark",
        instead(lambda nb: b"\xef\xbb\xbf" + text_of(nb)),
    ),
    mended(
        "utf16",
        "is saved in UTF-16",
        instead(lambda nb: text_of(nb).decode().encode("utf-16")),
        says="UTF-16",
    ),
    mended(
        "ending-added",
        "has .txt appended to its name",
        renamed("01-toy.ipynb.txt"),
        says="01-toy.ipynb.txt",
    ),
    mended(
        "another-release",
        "is of another release, with other points",
        older(5),
        says="another release",
    ),
    mended(
        "another-release-altered",
        "is of another release, and a check in it was altered",
        older(5, "checks.run('add', points=5) + 4"),
        says="a locked cell was changed",
        kind=Kind.HOSTILE,
    ),
    mended(
        "windows-lines",
        "has Windows line endings in every cell",
        of_json(
            lambda raw: (
                [c.update(source="".join(c["source"]).replace("\n", "\r\n")) for c in raw["cells"]]
                and None
            )
        ),
    ),
    mended(
        "renamed",
        "has another name",
        renamed("my solution (2).ipynb"),
        says="my solution (2).ipynb",
    ),
    mended("renamed-unicode", "has a name in another script", renamed("résumé ✏ 練習.ipynb")),
    mended("copies-beside", "has older copies next to it", old_copy_beside),
    mended("metadata-stripped", "has lost all metadata", stripped(ids=True)),
    mended("ids-stripped", "has lost all metadata and all cell ids", stripped(ids=False)),
    mended("foreign-kernel", "asks for a missing kernel", kernel("ir", "R")),
    mended(
        "own-environment",
        "names a kernel of the student's machine",
        kernel("conda-env-ml-py", "python"),
    ),
    mended("format-3", "is in notebook format 3", format_3),
    mended("odd-json", "has JSON values that no editor writes", of_json(odd_json)),
    mended("surrogates", "has half a character in a text", of_json(surrogates)),
    mended("nested-metadata", "has deeply nested metadata", of_json(deep)),
    mended(
        "unknown-cell-type",
        "has a cell of an obsolete type",
        of_json(unknown_cell),
        may=Kind.MALFORMED,
    ),
    mended("stored-outputs", "has 10 MB of stored output", stored_outputs),
    mended("stored-script", "has a script in a stored output", stored_script),
    # Code that cannot be read
    Case(
        "syntax-error",
        "has a syntax error in one cell",
        TWICE,
        Kind.WRONG,
        says="add",
        cells={"add": "def add(a, b) return a + b"},
    ),
    Case(
        "null-byte",
        "has a null character in its code",
        TWICE,
        Kind.WRONG,
        cells={"add": RIGHT["add"] + "\n# \0"},
    ),
    Case(
        "unclosed-string",
        "has a string that is not closed",
        TWICE,
        Kind.WRONG,
        cells={"add": RIGHT["add"] + '\n"""'},
    ),
    Case(
        "nested-code",
        "has code too deeply nested to be read",
        TWICE,
        Kind.WRONG,
        cells={"add": "x = " + "(" * 500 + ")" * 500 + "\n" + RIGHT["add"]},
        may=Kind.LIMIT,
    ),
    unread(
        "no-break-space",
        "has a no-break space from a web page in its code",
        "    return",
        "\u00a0   return",
        "U+00A0",
    ),
    unread(
        "zero-width-space", "has a zero-width space in its code", "b + a", "b\u200b + a", "U+200B"
    ),
    unread(
        "typographic-quotes",
        "has a word processor's quotes in its code",
        "b + a",
        "b + a + len(\u201c\u201d)",
        "U+201C",
    ),
    unread(
        "fullwidth-colon",
        "has a full-width (Chinese) colon in its code",
        "b):",
        "b)\uff1a",
        "fullwidth colon",
    ),
    unread(
        "conflict-in-a-cell",
        "has merge conflict markers in its code",
        "    return b + a",
        "<<<<<<< HEAD\n    return b + a\n=======\n    return a + b\n>>>>>>> main",
        "merge conflict",
    ),
    Case(
        "tabs-and-spaces",
        "mixes tabs and spaces",
        TWICE,
        Kind.WRONG,
        cells={"add": "def add(a, b):\n\tc = a\n        return c + b"},
    ),
]

"""What is kept of the book's long experiments: `book/tools/records.py`."""

import ast
import json
import re
import shutil
import subprocess
import sys
import time

import jupytext
import nbformat
import numpy as np
import pytest
import record
import records
import run_pages
import torch

from autograder.course.config import ROOT

PAGES = [
    page
    for page in run_pages.pages()
    if re.search(rf"^:?tags: .*\b{records.TAG}\b", page.read_text("utf8"), re.M)
]


def notebook(*cells):
    """A notebook of cells of code: each a text, or a text and its tags."""
    cells_made = [cell if isinstance(cell, tuple) else (cell,) for cell in cells]
    return nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(code, metadata={"tags": list(tags)})
            for code, *tags in cells_made
        ]
    )


def same(a, b):
    """Two values are alike: types, dtypes, shapes and numbers."""
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if hasattr(a, "dtype"):
        alike = type(a) is type(b) and a.dtype == b.dtype and tuple(a.shape) == tuple(b.shape)
        return alike and bool(((a == b) | ((a != a) & (b != b))).all())
    return type(a) is type(b) and a == b


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        0.1 + 0.2,
        float("inf"),
        "π",
        [1, (2.0, "x"), []],
        {"a": {1: (2,), "b": None}, (16, "far"): [3]},
        {records.MARK: "a key that looks like ours"},
        np.float32(1.5),
        np.arange(6).reshape(2, 3)[:, ::2],
        np.zeros((0, 3), dtype=np.float16),
        np.linspace(0, 1, 500, dtype=np.float32),
        np.round(np.linspace(-9, 9, 500), 3),
        np.round(np.linspace(-9, 9, 500), 3).astype(np.float32),
        np.array([float("inf"), 1e300, 1e-300, float("nan")] * 20),
        np.arange(500) + 1j,
        [1 / 3] * 60,
        np.array([True, False]),
        torch.randn(3, 4, dtype=torch.float64),
        torch.randn(2, 300).T,
        torch.tensor(2),
        {"weights": [torch.ones(100, dtype=torch.float32)]},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_survives_encoding(value):
    """Through JSON, as a record is."""
    assert same(records.decoded(json.loads(json.dumps(records.encoded(value)))), value)


@pytest.mark.parametrize(
    "many", [np.array, torch.DoubleTensor, list], ids=["numpy", "torch", "list"]
)
def test_many_floats_of_64_bits_keep_32(many):
    """They take half the room, and come back as the type that they were."""
    value = many([1 / number for number in range(1, 999)])
    text = json.dumps(records.encoded(value))
    back = records.decoded(json.loads(text))
    assert kind_of(back) == kind_of(value) and not same(back, value)
    assert np.allclose(back, value, rtol=1e-7, atol=0) and len(text) < 6 * 998


def test_a_value_of_two_pages_is_stored_once(tmp_path):
    """A large value of another page of the chapter; it stays when the first page's record gets
    another one.
    """

    def record_of(seed, **more):
        values = {"weights": np.random.default_rng(seed).random(400), "small": 1, **more}
        return a_record("", **values) | {"made": {}}

    def size():
        return records.path_of("01-qkv-deeper", tmp_path).stat().st_size

    records.store_record("01-qkv-deeper", record_of(1, more=2), tmp_path)
    alone = size()
    records.store_record("01-qkv", record_of(1), tmp_path)
    assert size() < alone / 5 and "small" in records.path_of("01-qkv-deeper", tmp_path).read_text(
        encoding="utf8"
    )
    assert records.read("01-qkv-deeper", tmp_path) == record_of(1, more=2)
    records.store_record("01-qkv", record_of(2), tmp_path)
    assert size() == alone and records.read("01-qkv-deeper", tmp_path) == record_of(1, more=2)
    assert records.read("01-qkv", tmp_path) == record_of(2)


@pytest.mark.parametrize(
    "value", [torch.nn.Linear(2, 2), len, {"rng": np.random.default_rng()}, {1, 2}, object()]
)
def test_what_is_no_number_is_refused(value):
    """Models, generators and the like."""
    with pytest.raises(TypeError, match="cannot be recorded"):
        records.encoded(value)


def test_which_parts_of_a_cell_are_recorded_and_which_run():
    """Names that are read elsewhere are kept; definitions are run each time."""
    cell = (
        "import math\nwidth, (low, high) = 8, (0, 1)\nrows, usual = [], 3\n"
        "for step in range(3):\n    rows.append(step)\n    last = step\n"
        "def far(x):\n    return x + width\ndef unread(rows=usual):\n    return high\n"
        "with open('x') as file:\n    pass\nbest = [n for n in rows]\n"
    )
    page = notebook(
        "def early(step):\n    file = step\n    return lambda: last + file\ndef unused():\n    "
        "return high\n"
        "older = [high for one in ()]",
        (cell, "recorded"),
        "print(rows, best, [step for step in ()])",
        ("print(file)", "recorded"),
        "far(early(low))",
    )
    recorded = records.cells_of(page)[0]
    assert records.assigned_names(cell) == set(
        "width low high rows usual step last file best".split()
    )
    assert records.names_to_record(page, recorded) == [
        "best",
        "last",
        "low",
        "rows",
        "usual",
        "width",
    ]
    assert "import math" in records.definitions(cell) and "open" not in records.definitions(cell)


def test_what_changes_a_digest():
    """Code does, in the cell or before it; comments, drawings and kept numbers do not."""
    plain = notebook(
        "n = 3",
        ("result = n", "recorded"),
        ("draw(result)", "remove-input"),
        ("assert n", "remove-cell"),
    )
    before = records.digest(plain)
    for index, code in ((0, "n = 3  # words"), (2, "draw(result, 2)"), (3, "assert n == 3")):
        other = notebook(
            "n = 3",
            ("result = n", "recorded"),
            ("draw(result)", "remove-input"),
            ("assert n", "remove-cell"),
        )
        other.cells[index].source = code
        assert records.digest(other) == before
    for index, code in ((0, "n = 4"), (1, "result = n + 1")):
        other = notebook(
            "n = 3",
            ("result = n", "recorded"),
            ("draw(result)", "remove-input"),
            ("assert n", "remove-cell"),
        )
        other.cells[index].source = code
        assert records.digest(other) != before


PAGE = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
kernelspec:
  name: python3
  display_name: Python 3
---

# A page

```{code-cell} ipython3
import numpy as np
import torch

torch.manual_seed(0)
given = [1, 2]
model = torch.nn.Linear(1, 1)
rng, draws = np.random.default_rng(0), torch.Generator()
```

```{code-cell} ipython3
:tags: [recorded]
from pathlib import Path

def log(text):
    with Path("log.txt").open("a") as file:
        file.write(text)

log("run ")
made = {"numbers": torch.arange(3.0) / 3, "of": len(given)}
print("made", made["of"])
```

```{code-cell} ipython3
print(made["numbers"].sum().item(), torch.rand(1).item(), np.random.rand(), callable(log))
```
"""

RUN = """
import sys
from pathlib import Path
sys.path.insert(0, "tools")
import run_pages
page = Path("page.md").resolve()
notebook, seconds, failure = run_pages.execute(page, run_pages.read(page), rerun="rerun" in sys.argv)
print(failure.message if failure else "|".join(o.text for c in notebook.cells for o in c.get("outputs", ())))
print([cell.source for cell in notebook.cells if cell.cell_type == "code"][1].splitlines()[0])
"""


NO_RECORD = (
    "book/page.md: 1 of its cells are recorded, and its record has 0; run python "
    "book/tools/record.py page"
)


@pytest.fixture
def book(tmp_path):
    """A book of one page, with what runs it."""
    (tmp_path / "tools").mkdir()
    for name in ("records.py", "run_pages.py"):
        shutil.copy(ROOT / "book" / "tools" / name, tmp_path / "tools")
    (tmp_path / "page.md").write_text(PAGE, encoding="utf8")
    return tmp_path


def run(book, *how):
    """Run the page as the build does; return what its cells printed, or the last line of what
    went wrong.
    """
    result = subprocess.run(
        [sys.executable, "-c", RUN, *how], cwd=book, capture_output=True, text=True, check=True
    )
    output, first = result.stdout.strip().rsplit("\n", 1)
    assert first == "from pathlib import Path"  # the page's own code is what a reader sees
    return output


@pytest.mark.long
@pytest.mark.slow
def test_a_page_has_an_experiment_from_its_record(book):
    """Run once, then taken from the record, with the same outputs and draws behind it, its code
    changed or not.
    """
    log = book / "log.txt"
    assert run(book) == NO_RECORD
    first = run(book, "rerun")
    assert log.read_text() == "run " and "made 2" in first and "True" in first
    assert run(book) == first
    assert log.read_text() == "run "
    assert run(book, "rerun") == first
    assert log.read_text() == "run run "
    page = book / "page.md"
    page.write_text(
        page.read_text(encoding="utf8").replace("given = [1, 2]", "given = [1, 2, 3]"),
        encoding="utf8",
    )
    assert run(book) == first
    assert "made 3" in run(book, "rerun")
    assert log.read_text() == "run run run "
    record = book / "data" / "experiments" / "page.json"
    assert json.loads(record.read_text(encoding="utf8"))["cells"][0]["printed"] == "made 3\n"
    changed = page.read_text(encoding="utf8").replace(
        'print(made["numbers"]', 'print(text, made["numbers"]'
    )
    page.write_text(
        changed.replace('print("made",', 'text = "new"\nprint("made",'), encoding="utf8"
    )
    assert run(book) == (
        "book/page.md, cell 2 (line 24): its record has no text; run python book/tools/record.py page"
    )
    record.write_text("<<<<<<< a merge", encoding="utf8")
    assert run(book) == NO_RECORD


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("given.append(3)", "this one changes given"),
        ("with torch.no_grad():\n    model.bias.zero_()", "this one changes model"),
        ("rng.random(), torch.rand(1, generator=draws)", "this one changes draws, rng"),
        ("made = torch.nn.Linear(1, 1)", "made is read outside of the recorded cell that makes it"),
        (
            "from IPython.display import display\ndisplay(3)",
            "a recorded cell prints, and shows nothing else",
        ),
    ],
)
def test_what_a_recorded_cell_may_not_do(book, code, complaint):
    """One line says it, and nothing is written."""
    page = book / "page.md"
    text = page.read_text(encoding="utf8").replace('print("made", made["of"])', code)
    page.write_text(text, encoding="utf8")
    output = run(book, "rerun")
    assert (
        output.startswith("book/page.md, cell 2 (line 24): ")
        and complaint in output
        and "\n" not in output
    )
    assert not (book / "data").exists()


def spin():
    """A program that keeps a core busy."""
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])


def test_work_of_others_is_seen():
    """That of a program which runs beside; not what this one has waited for."""
    busy = spin()
    try:
        used = record.watch_others()
        time.sleep(1.5)
        assert used() > 0.3
    finally:
        busy.kill()
        busy.wait()


TIMED, UNTIMED = ":tags: [clock, recorded]", ":tags: [recorded]"


@pytest.mark.parametrize(
    ("tags", "loads", "times", "lines", "recorded"),
    [
        (
            TIMED,
            [0.4, 0.9, 0.4, 0.9],
            [1.0, 1.09],
            [],
            {"others": 0.9, "minutes": 0.0, "differ": 0.083},
        ),
        (
            TIMED,
            [0.4] * 6,
            [1.0, 1.2, 1.25],
            ["two runs differ by 17% in cell 0 ['numbers'] 0"],
            {"differ": 0.04},
        ),
        (
            TIMED,
            [0.4] * 6,
            [1.0, 1.2, 1.4],
            ["17%", "14%", "no two of 3 runs gave times that agree within 10%"],
            None,
        ),
        (TIMED, [0.4] * 6, [1.0, 1.2, 1.01], ["17%"], {"differ": 0.01}),
        (TIMED, [1.6], [], ["other programs use 1.6 of 2 cores", "run this again"], None),
        (TIMED, [0.1, 1.6], [1.0], ["other programs use 1.6 of 2 cores"], None),
        (TIMED, [0.1, 0.1, 0.1, 1.6], [1.0, 1.0], ["other programs use 1.6 of 2 cores"], None),
        (UNTIMED, [1.6, 1.6], [1.0], [], {"others": 1.6}),
    ],
    ids=[
        "quiet",
        "disturbed at first",
        "disturbed",
        "disturbed between",
        "busy before",
        "busy during",
        "busy later",
        "no clock",
    ],
)
def test_a_time_is_recorded_on_a_quiet_machine_once_it_has_been_repeated(
    tags, loads, times, lines, recorded, tmp_path, monkeypatch, capsys
):
    """Lines say how busy, or which time differed; nothing is run in vain, and a refused record
    stays.
    """
    page, path = tmp_path / "page.md", tmp_path / "page.json"
    page.write_text(PAGE.replace(UNTIMED, tags), encoding="utf8")
    path.write_text('{"old": 1}', encoding="utf8")
    loads, times = iter(loads), iter(times)

    def watch():
        load = next(loads)
        return lambda: load

    def execute(page, source, rerun, folder):
        values = {"numbers": records.encoded(np.array([next(times)])), "of": 3}
        records.store_record("page", {"made": {}, "cells": [{"values": values}]}, folder)
        return notebook(), 1.0, None

    for module, name, value in (
        (records, "FOLDER", tmp_path),
        (record, "LOOK", 0),
        (record, "WAIT", 0),
        (record, "RUNS", 3),
        (record, "watch_others", watch),
        (record.os, "cpu_count", lambda: 2),
        (run_pages, "pages", lambda: [page]),
        (run_pages, "execute", execute),
        (records.store_record, "__defaults__", (tmp_path,)),
        (sys, "argv", ["records.py", "page"]),
    ):
        monkeypatch.setattr(module, name, value)
    assert record.main() == (1 if recorded is None else 0)
    lines_printed = capsys.readouterr().out.splitlines()
    written = json.loads(path.read_text(encoding="utf8"))
    expected = lines if recorded is None else [*lines, "page: 1 s"]
    assert len(lines_printed) == len(expected) or "other programs" in lines_printed[0]
    for line in lines:
        assert any(line in printed for printed in lines_printed)
    assert (
        written == {"old": 1} if recorded is None else recorded.items() <= written["made"].items()
    )
    assert next(times, None) is None


@pytest.mark.slow
def test_a_chapters_code_is_what_jupytext_reads():
    """Of each page: the cells that its figure, or another page's, takes."""
    read = 0
    for page in run_pages.pages():
        cells = jupytext.read(page).cells
        code = "\n".join(
            cell.source for cell in cells if "course-code" in cell.metadata.get("tags", ())
        )
        assert records.chapter_code(page.stem) == code
        read += bool(code)
    assert read > 5


OFF, OTHERS = 0.1, 0.2  # see `differences`


def masked(text):
    """A text without its numbers, and without the room that they take."""
    return " ".join(re.sub(r"[-+]?(\d[\d,.]*(e[-+]?\d+)?|inf|nan)%?", "#", text).split())


def kind_of(part):
    """What a part of a value is, but for its numbers; a text as it is."""
    if part is None or isinstance(part, str):
        return part
    return type(part).__name__, str(getattr(part, "dtype", "")), tuple(getattr(part, "shape", ()))


def is_off(a, b, by=0.0):
    """Tell whether two numbers, or two arrays, differ by more than a share of the larger one."""
    a, b = np.asarray(a), np.asarray(b)
    if np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
        return False
    return not np.linalg.norm((a - 1.0 * b).reshape(-1)) <= by * max(
        np.linalg.norm(1.0 * m.reshape(-1)) for m in (a, b)
    )


def differences(before, after, timed=()):
    """Return what a record that was made anew says otherwise than the kept one, in words; nothing
    if all is well.

    Names, sizes, types and texts are equal. Numbers can't be, nor can the words that a model draws:
    on another processor, which may have the same name, sums are rounded otherwise, and a training
    makes much of little. So at most a share `OTHERS` of a page's numbers, an array being one, is
    off by more than a share `OFF`; a printed line counts as one, off if the words between its
    numbers differ. For what a page says of them, it has its own asserts. Of cells that measure
    time, numbers and texts may be any, but not what is printed between them.

    Parameters
    ----------
    kept, made : dict
        Records, as `records.read` returns them.
    timed : set of int
        The numbers of the cells that measure time.
    """
    differences_found, count, off = [], 0, []
    for number, (old, new) in enumerate(zip(before["cells"], after["cells"], strict=True)):
        lines = [[masked(line) for line in cell["printed"].splitlines()] for cell in (old, new)]
        prints = f"cell {number} prints {new['printed']!r}, not {old['printed']!r}"
        if len(lines[0]) != len(lines[1]):
            differences_found.append(prints)
        count += len(lines[0])
        off += [prints for before, after in zip(*lines, strict=False) if before != after]
        a, b = (dict(records.parts(records.decoded(cell["values"]))) for cell in (old, new))
        if list(a) != list(b):
            differences_found.append(
                f"cell {number} has {sorted(a.keys() ^ b.keys())} in one of them, or in "
                "another order"
            )
            continue
        for path in () if number in timed else a:
            difference = f"cell {number}: {path} is {b[path]!r}, not {a[path]!r}"
            if kind_of(a[path]) != kind_of(b[path]):
                differences_found.append(difference)
            elif not (a[path] is None or isinstance(a[path], str)):
                count += 1
                off += [difference] * is_off(a[path], b[path], OFF)
    if len(off) > OTHERS * count:
        differences_found.append(
            f"{len(off)} of {count} numbers are far off, such as {'; '.join(off[:20])}"
        )
    return differences_found[:20]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_experiment_is_repeated_and_compared(page, tmp_path):
    """What is recorded comes out again, and the page's own asserts hold of it; of times, they
    hold of the recorded ones.

    The checkout's record stays.

    A record is also held to its code, by a digest, at every run.
    """
    recorded = records.path_of(page.stem).read_bytes()
    _notebook, _seconds, failure = run_pages.execute(
        page, run_pages.read(page), rerun=True, folder=tmp_path, keep_times=True
    )
    assert not failure
    assert records.path_of(page.stem).read_bytes() == recorded
    cells = records.cells_of(run_pages.read(page))
    timed = {number for number, cell in cells.items() if "clock" in records.tags(cell)}
    assert differences(records.read(page.stem), records.read(page.stem, tmp_path), timed) == []


def a_record(printed, **values):
    """A record of one cell."""
    values = {name: records.encoded(value) for name, value in values.items()}
    return {"cells": [{"printed": printed, "values": values}]}


@pytest.mark.parametrize(
    ("change", "otherwise", "timed"),
    [
        ({}, "", ""),
        ({"loss": 0.5000001}, "", ""),
        ({"loss": 0.6}, "", ""),
        ({"loss": float("nan")}, "", ""),
        ({"curve": [1.0] * 19 + [2.0]}, "", ""),
        ({"curve": [1.0] * 14 + [2.0] * 6}, "6 of 25 numbers", ""),
        ({"curve": [1.0] * 21}, "curve", "curve"),
        ({"weights": np.append(np.ones(99), 1.5)}, "", ""),
        ({"weights": np.ones(99)}, "weights", ""),
        ({"weights": np.ones(100, dtype=np.float32)}, "weights", ""),
        ({"weights": torch.ones(100, dtype=torch.float64)}, "weights", ""),
        ({"loss": "0.5"}, "loss", ""),
        ({"name": "b"}, "name", ""),
        ({"name": None}, "name", ""),
        ({"best": {1: (2, 3)}}, "best", "best"),
        ({"more": 1}, "more", "more"),
        ({"printed": "a loss of  0.51\n"}, "", ""),
        ({"printed": "the loss of 0.5\n"}, "", "prints"),
        ({"printed": "a loss of 0.5\nand more\n"}, "prints", "prints"),
        ({"printed": "a loss of nan\n"}, "", ""),
    ],
)
def test_a_record_that_says_otherwise_is_noticed(change, otherwise, timed):
    """Of an experiment, and of a cell that measures time."""
    plain = {
        "loss": 0.5,
        "curve": [1.0] * 20,
        "weights": np.ones(100),
        "off": torch.tensor([True]),
        "name": "a",
    }
    plain |= {"best": {1: (2,)}, "printed": "a loss of 0.50\n"}
    for complaint, clock in ((otherwise, ()), (timed, {0})):
        differences_found = differences(a_record(**plain), a_record(**plain | change), clock)
        assert complaint in " ".join(differences_found) if complaint else differences_found == [], (
            differences_found,
            clock,
        )


@pytest.mark.slow
def test_what_is_recorded_is_of_this_code():
    """If not: run `python book/tools/record.py PAGE`, and commit what it writes.

    And nothing is kept of other pages.
    """
    assert [page for page in run_pages.pages() if records.cells_of(run_pages.read(page))] == PAGES
    assert [
        page.stem for page in PAGES if not records.is_current(page.stem, run_pages.read(page))
    ] == []
    assert {path.stem for path in records.FOLDER.iterdir()} == {page.stem for page in PAGES}


def calls(tree):
    """The last names of what code calls: `train` of `train()` and `figure.train()`, `step` of
    `optimizer.step()`.
    """
    functions = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {
        function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        for function in functions
    }


def training(pages_notebook):
    """The cells of a page that train a model whenever the page is built, by their first line."""
    cells = [cell for cell in pages_notebook.cells if cell.cell_type == "code"]
    behind = records.modules("\n".join(cell.source for cell in cells)).values()
    texts = [
        *(cell.source for cell in cells),
        *(path.read_text(encoding="utf8") for path in behind),
    ]
    nodes = [
        node
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    ]
    functions = {node.name: calls(node) for node in nodes}
    trains = {"step"}
    while more := {name for name, called in functions.items() if called & trains} - trains:
        trains |= more
    for cell in cells:
        run = ast.parse(cell.source)
        run.body = [node for node in run.body if not isinstance(node, records.DEFINES)]
        if records.TAG not in records.tags(cell) and calls(run) & trains:
            yield cell.source.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in run_pages.pages() if page.stem < "09"], ids=lambda page: page.stem
)
def test_no_model_is_trained_when_a_page_is_built(page):
    """What training gives depends on the processor: it is recorded, and a page asserts of the
    record.
    """
    assert list(training(run_pages.read(page))) == []


def test_training_that_is_not_recorded_is_found():
    define = (
        "def train(n):\n    for _ in range(n):\n        optimizer.step()\n\ndef runs():\n    "
        "return train(3)"
    )
    loop = "for _ in (1, 2):\n    optimizer.step()"
    recorded_page = notebook(define, ("losses = train(9)", "recorded"), "a = runs()", loop, "b = 1")
    assert list(training(recorded_page)) == ["a = runs()", "for _ in (1, 2):"]


@pytest.mark.parametrize("value", ["two words", 3, 0.1 + 0.2, np.float32(1.5), torch.tensor(2.5)])
def test_a_number_for_a_sentence_is_recorded_as_the_build_stores_it(value, monkeypatch):
    """As `glue` writes it, whose import takes long."""
    from figures import prose
    from myst_nb.ext import glue

    shown = []
    for module, name in ((prose, "display"), (glue, "ipy_display")):
        monkeypatch.setattr(module, name, lambda *arguments, **how: shown.append((arguments, how)))
    prose.measured("name", value)
    glue.glue("name", value if isinstance(value, str) else float(value), display=False)
    assert shown[0] == shown[1]


def test_each_experiment_on_a_page_says_when_it_was_recorded_and_how_long_it_took(html):
    """Only what stands on the page: neither a cell that is removed, nor one whose code is."""
    for page in run_pages.pages():
        recorded = records.read(page.stem)
        if not recorded:
            continue
        tags = records.recorded_tags(page.read_text(encoding="utf8"))
        shown = [
            cell
            for cell, tags_of_cell in zip(recorded["cells"], tags, strict=True)
            if "remove" not in tags_of_cell
        ]
        text = (html / "book" / f"{page.stem}.html").read_text(encoding="utf8")
        lines = re.findall(r'<p class="abh-recorded">(.*?)</p>', text)
        assert len(lines) == len(shown), page.stem
        for line, cell in zip(lines, shown, strict=True):
            assert f": {cell['seconds']:.0f} s with" in line

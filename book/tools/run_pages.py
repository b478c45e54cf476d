"""Runs the code of the book's pages before the book is built: several at once, and only those that
changed.

What a page's cells gave goes into Jupyter Book's own cache, from which its build takes it. A page
has changed when its code has, or a module under `figures/` that it imports, or a file of `data/`
that it names. A page that measures time, which has a cell tagged `clock`, runs when the others
have, alone. Cells tagged `recorded` are long experiments: what they gave is taken from the page's
record (`records`).

A page that fails is in the book without its results; a strict build ends with it, and where a
record is older than its page's code.
"""

import ast
import hashlib
import json
import os
import re
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import nbclient
import records
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from myst_nb.core.config import NbParserConfig
from myst_nb.core.read import create_nb_reader
from myst_parser.config.main import MdParserConfig

from autograder.authoring import json_entries

BOOK = Path(__file__).resolve().parent.parent
BUILD = BOOK.parent / "_build"
CACHE = BUILD / ".jupyter_cache"
# of each page: the digest of all that it was run from, and how long that took
STAMPS = CACHE / "pages.json"
SECONDS, EXPERIMENT = 120, 600
"""The longest that one cell may take, and that one of a page may whose experiments are made
anew.
"""
WITHOUT = "the page is in the book without its results"


@dataclass
class Fault:
    """Why a page failed: in one line, and with all that Python says."""

    said: str
    traceback: str = ""


@dataclass
class Step:
    """What became of a step of the build.

    `said` is a few words, or None where nothing can follow; `lines` is what to say besides, `wrong`
    whether that is a fault, and `log` has more on it.
    """

    said: str | None
    lines: list[str] = field(default_factory=list)
    wrong: bool = False
    log: str = ""


def pages():
    """Return the pages that have code, as paths."""
    named = re.findall(r"file: (book/\S+)", (BOOK.parent / "_toc.yml").read_text(encoding="utf8"))
    paths = [BOOK.parent / f"{name}.md" for name in named]
    return [
        path
        for path in paths
        if "\nkernelspec:" in path.read_text(encoding="utf8").partition("\n---\n")[0]
    ]


def digest(page):
    """Return a digest of a page's code, the modules of `figures/` behind it, the data that it
    names, and versions.
    """
    cells = [cell.source for cell in read(page).cells if cell.cell_type == "code"]
    code, parts = "\n".join(cells), [cell.encode() for cell in cells]
    for name, path in records.modules(code).items():
        # An interactive figure is written into the page with its script and its style.
        parts += [
            file.read_bytes()
            for file in sorted(path.parent.glob(f"{name}.*"))
            if file.suffix != ".pyc"
        ]
        if name == "widget":
            parts += [file.read_bytes() for file in sorted((path.parent / "common").iterdir())]
    parts += [taken.encode() for taken in records.taken(code)]
    data = [BOOK / name for name in re.findall(r"data/[\w.-]+\w", code)]
    parts += [path.read_bytes() for path in [*data, records.path_of(page.stem)] if path.is_file()]
    parts += [
        metadata.version(name).encode() for name in ("numpy", "torch", "matplotlib", "ipykernel")
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def read(page):
    """Return a page as a notebook, as the build reads it."""
    text = page.read_text(encoding="utf8")
    try:
        return create_nb_reader(str(page), MdParserConfig(), NbParserConfig(), text).read(text)
    except Exception as error:
        raise ValueError(f"book/{page.name}: {error}") from error


def wants_triton(page):
    """Tell whether a page has code that imports Triton, which is for Linux."""
    code = [cell.source for cell in read(page).cells if cell.cell_type == "code"]
    return bool(re.search(r"^\s*import triton\b", "\n".join(code), re.MULTILINE))


def not_run():
    """Return the pages whose code cannot run on this machine."""
    return [] if find_spec("triton") else [page for page in pages() if wants_triton(page)]


def measures_time(notebook):
    """Tell whether a page measures time as it runs: with a cell tagged `clock`, which is not
    taken from a record.
    """
    return any(
        "clock" in tags and records.TAG not in tags for tags in map(records.tags, notebook.cells)
    )


def place(page, notebook, cell):
    """Return where a cell of code is, in words: its number among these, and its line in the
    page.
    """
    number = sum(one.cell_type == "code" for one in notebook.cells[: index(notebook, cell) + 1])
    return (
        f"book/{page.name}, cell {number} (line "
        f"{notebook.metadata.source_map[index(notebook, cell)]})"
    )


def index(notebook, cell):
    """Return which of a notebook's cells this one is: others may be equal."""
    return next(number for number, one in enumerate(notebook.cells) if one is cell)


def quiet():
    """Let kernels warn of their own affairs to nobody: what matters of a page is in its outputs."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def execute(page, anew=False, into=records.FOLDER):
    """Run a page's cells in a kernel of its own; return the notebook, the seconds, and the fault,
    or None.

    Parameters
    ----------
    page : Path
    anew : bool
        Make its experiments anew, and write its record.
    into : Path
        The folder that the record is written into.
    """
    notebook, began = read(page), time.perf_counter()
    try:
        fault = unfit(page, notebook, anew) or ran(page, notebook, anew, into)
    except Exception as error:  # such as a kernel that does not start
        fault = Fault(f"book/{page.name}: {in_a_line(error)}", traceback.format_exc())
    return notebook, time.perf_counter() - began, fault


def unfit(page, notebook, anew):
    """Return why a page cannot be run: a cell is not Python, or its experiments are not in its
    record.
    """
    for cell in notebook.cells:
        try:
            ast.parse(cell.source if cell.cell_type == "code" else "")
        except SyntaxError as error:
            return Fault(
                f"{place(page, notebook, cell)}: {in_a_line(error)}", traceback.format_exc()
            )
    if lack := None if anew else records.lacking(page.stem, notebook):
        why, cell = lack
        where = place(page, notebook, cell) if cell else f"book/{page.name}"
        return Fault(f"{where}: {why}; run python book/tools/record.py {page.stem}")
    return None


def ran(page, notebook, anew, into):
    """Run a page's cells; return the fault, or None."""
    recorded = records.cells_of(notebook)
    sources = {number: cell.source for number, cell in recorded.items()}
    limit, begun = EXPERIMENT if anew else SECONDS, []

    def note(cell, cell_index):
        begun.append(cell)

    with tempfile.TemporaryDirectory() as folder:
        for number, source in records.as_run(
            notebook, page.stem, Path(folder) if anew else None
        ).items():
            recorded[number].source = source
        try:
            client = nbclient.NotebookClient(
                notebook, timeout=limit, record_timing=False, on_cell_start=note
            )
            client.execute(cwd=str(page.parent), env=environment())
        except (
            nbclient.exceptions.CellControlSignal,
            nbclient.exceptions.DeadKernelError,
        ) as error:
            where = place(page, notebook, begun[-1]) if begun else f"book/{page.name}"
            return Fault(f"{where}: {in_a_line(error, limit)}", traceback.format_exc())
        finally:
            for number, source in sources.items():
                recorded[number].source = source
        if anew and recorded:
            for cell in recorded.values():
                try:
                    records.printed(cell)
                except ValueError as error:
                    return Fault(f"{place(page, notebook, cell)}: {error}")
            records.write(page.stem, notebook, folder, into)
    return None


def environment():
    """Return the environment of a page's kernel, which imports `records` from this folder."""
    paths = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def in_a_line(error, limit=SECONDS):
    """Return what went wrong in one line."""
    if isinstance(error, nbclient.exceptions.CellTimeoutError):
        return f"it takes longer than {limit} s"
    if isinstance(error, nbclient.exceptions.DeadKernelError):
        return "its kernel died, perhaps for want of memory"
    if isinstance(error, nbclient.exceptions.CellExecutionError):
        kind, said = error.ename, error.evalue
    else:
        kind, said = type(error).__name__, getattr(error, "msg", "") or str(error)
    return f"{kind}: {first[0][:300]}" if (first := said.strip().splitlines()) else kind


def executed(pool, pages):
    """Yield each page with what `execute` returns: several at once, and then one by one those
    that measure time.
    """
    alone = [page for page in pages if measures_time(read(page))]
    jobs = {pool.submit(execute, page): page for page in pages if page not in alone}
    for job in as_completed(jobs):
        page = jobs[job]
        try:
            yield page, job.result()
        except BrokenProcessPool:
            yield (
                page,
                (
                    None,
                    0.0,
                    Fault(
                        f"book/{page.name}: the process that ran it ended, perhaps for "
                        "want of memory"
                    ),
                ),
            )
    for page in alone:
        yield page, pool.submit(execute, page).result()


def outdated():
    """Return the pages whose code is newer than their record."""
    notebooks = {page: read(page) for page in pages() if records.read(page.stem)}
    return [
        page
        for page, own in notebooks.items()
        if records.cells_of(own) and not records.is_current(page.stem, own)
    ]


def run(report=lambda text: None, strict=False):
    """Run the pages that changed; return what became of it, as a `Step`.

    Parameters
    ----------
    report : callable
        Is told, in a few words, how far it is.
    strict : bool
        Let nothing follow where a page fails, or is newer than its record.
    """
    old = outdated()
    if strict and old:
        mend = "its code is newer than its record: run python book/tools/record.py"
        return Step(None, [f"book/{page.name}: {mend} {page.stem}" for page in old])
    notes = [
        f"book/{page.name}: its record is older than its code; the book has what was recorded"
        for page in old
    ]
    CACHE.mkdir(parents=True, exist_ok=True)
    stamps = json.loads(STAMPS.read_text(encoding="utf8")) if STAMPS.exists() else {}
    left_out = not_run()
    wanted = {page: digest(page) for page in pages() if page not in left_out}
    stale = [
        page
        for page, value in reversed(wanted.items())
        if stamps.get(page.name, {}).get("digest") != value
    ]
    # The longest first, so that the last one is short: those that have never run by their size,
    # then the others.
    took = {
        page: stamps.get(page.name, {}).get("seconds", 1e9 + page.stat().st_size) for page in stale
    }
    stale.sort(key=lambda page: -took[page])
    cache, faults = get_cache(str(CACHE)), []

    def keep(page, notebook, seconds, stamp):
        about = CacheBundleIn(notebook, str(page), data={"execution_seconds": seconds})
        cache.cache_notebook_bundle(about, check_validity=False, overwrite=True)
        stamps.pop(page.name, None)
        stamps.update(stamp)
        json_entries.write(STAMPS, stamps)

    for page in left_out:  # without results, but not run by the build either
        keep(page, read(page), 0.0, {})
    with ProcessPoolExecutor(min(len(stale), os.cpu_count() or 1) or 1, initializer=quiet) as pool:
        for number, (page, (notebook, seconds, fault)) in enumerate(executed(pool, stale), 1):
            report(f"{number} of {len(stale)} run")
            if fault:
                faults.append(fault)
                notebook = read(page)
            stamp = {"digest": digest(page), "seconds": round(seconds, 1)}
            keep(page, notebook, seconds, {} if fault else {page.name: stamp})
            # the build reads a page again whose text is newer, not one whose modules are
            os.utime(page)
    said = f"{len(stale)} of {len(wanted)} run" if stale else "none has changed"
    lines = [*notes, *(fault.said if strict else f"{fault.said}; {WITHOUT}" for fault in faults)]
    log = "\n".join(
        re.sub(r"\x1b\[[0-9;]*m", "", f"{fault.said}\n{fault.traceback}") for fault in faults
    )
    return Step(None if faults and strict else said, lines, bool(faults), log)

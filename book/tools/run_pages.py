"""Runs the code of the book's pages before the book is built: several at once, and only those that
changed.

The outputs of a page's cells go into Jupyter Book's own cache, from which its build takes them. A
page has changed when anything in `digest` has. A page that measures time, which has a cell tagged
`clock`, runs when the others have, alone. Cells tagged `recorded` are long experiments: their
results are taken from the page's record (`records`).

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

TOOLS = Path(__file__).resolve().parent
BOOK = TOOLS.parent
BUILD = BOOK.parent / "_build"
CACHE = BUILD / ".jupyter_cache"
# of each page: the digest of all that it was run from, and how long that took
STAMPS = CACHE / "pages.json"
PACKAGES = ("numpy", "torch", "matplotlib", "ipykernel")
"""The packages whose versions a page's outputs depend on."""
FILE_NAME = re.compile(r"""(?<=Path\(["'])[^"'\n]+|data/[\w.-]+\w""")
"""A file that a page's code names: as `Path("13-today/models.toml")`, or in `data/`."""
SECONDS, EXPERIMENT = 120, 600
"""The longest that a cell may take in a build, and when its page's experiments are run."""
WITHOUT = "the page is in the book without its results"
ENDED = "the process that ran it ended, perhaps for want of memory"
OUTDATED = "its code is newer than its record: run python book/tools/record.py"
OLD_RECORD = "its record is older than its code; the book has what was recorded"


@dataclass
class PageFailure:
    """Why a page failed: in one line, and with all that Python says."""

    message: str
    traceback: str = ""


@dataclass
class StepResult:
    """The result of a step of the build.

    `summary` is a few words, or None if the build has to end here; `messages` are lines for the
    console, `failed` says whether something ran and failed, and `log` has more on it.
    """

    summary: str | None
    messages: list[str] = field(default_factory=list)
    failed: bool = False
    log: str = ""


# Pages.


def pages():
    """Return the pages that have code, as paths."""
    contents = (BOOK.parent / "_toc.yml").read_text(encoding="utf8")
    paths = [BOOK.parent / f"{name}.md" for name in re.findall(r"file: (book/\S+)", contents)]
    # A page has code if its front matter names a kernel.
    heads = {path: path.read_text(encoding="utf8").partition("\n---\n")[0] for path in paths}
    return [path for path, head in heads.items() if "\nkernelspec:" in head]


def read(page):
    """Return a page as a notebook, as the build reads it."""
    text = page.read_text(encoding="utf8")
    try:
        return create_nb_reader(str(page), MdParserConfig(), NbParserConfig(), text).read(text)
    except Exception as error:
        raise ValueError(f"book/{page.name}: {error}") from error


def code_cells(notebook):
    """Return a notebook's cells of code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def digest(page, notebook):
    """Return a digest of what a page's outputs depend on: its code, the figures' modules that it
    imports, the files that it names, its record, and versions.
    """
    sources = [cell.source for cell in code_cells(notebook)]
    code = "\n".join(sources)
    # A cell that takes the chapter's code, `of_chapter("NN-name")`, reads it from another page.
    texts = [*sources, *records.used_chapter_code(code), *map(metadata.version, PACKAGES)]
    files = [BOOK / name for name in FILE_NAME.findall(code)]
    files.append(records.path_of(page.stem))
    for name, path in records.modules(code).items():
        # An interactive figure is written into the page with its script and its style.
        files += [path, path.with_suffix(".js"), path.with_suffix(".css")]
        if name == "widget":
            files += sorted((path.parent / "common").iterdir())
    contents = [path.read_bytes() for path in files if path.is_file()]
    return hashlib.sha256(b"\0".join([*map(str.encode, texts), *contents])).hexdigest()


def wants_triton(notebook):
    """Tell whether a page has code that imports Triton, which is for Linux."""
    code = "\n".join(cell.source for cell in code_cells(notebook))
    return bool(re.search(r"^\s*import triton\b", code, re.MULTILINE))


def pages_that_cannot_run():
    """Return the pages whose code cannot run on this machine."""
    return [] if find_spec("triton") else [page for page in pages() if wants_triton(read(page))]


def measures_time(notebook):
    """Tell whether a page measures time as it runs: with a cell tagged `clock`, which is not
    taken from a record.
    """
    tags_of_cells = map(records.tags, notebook.cells)
    return any("clock" in tags and records.TAG not in tags for tags in tags_of_cells)


def location(page, notebook, cell):
    """Return where a cell of code is, in words: its number among these, and its line in the
    page.
    """
    # By identity: other cells may be equal.
    index = next(index for index, other in enumerate(notebook.cells) if other is cell)
    number = sum(other.cell_type == "code" for other in notebook.cells[: index + 1])
    return f"book/{page.name}, cell {number} (line {notebook.metadata.source_map[index]})"


# Running one.


def execute(page, notebook, rerun=False, folder=records.FOLDER, keep_times=False):
    """Run a page's cells in a new kernel; return the notebook, the seconds, and the failure, or
    None.

    Parameters
    ----------
    page : Path
    notebook : NotebookNode
        The page as `read` returns it; its cells get their outputs.
    rerun : bool
        Run its experiments again, and write its record.
    folder : Path
        The folder that the record is written into.
    keep_times : bool
        Give the cells after one that measures time its recorded values.
    """
    start = time.perf_counter()
    try:
        failure = why_it_cannot_run(page, notebook, rerun)
        if failure is None:
            failure = run_cells(page, notebook, rerun, folder, keep_times)
    except Exception as error:  # such as a kernel that does not start
        failure = PageFailure(f"book/{page.name}: {in_one_line(error)}", traceback.format_exc())
    return notebook, time.perf_counter() - start, failure


def why_it_cannot_run(page, notebook, rerun):
    """Return why a page cannot be run, as a `PageFailure`, or None: a cell is not Python, or its
    experiments are not in its record.
    """
    for cell in code_cells(notebook):
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            where = location(page, notebook, cell)
            return PageFailure(f"{where}: {in_one_line(error)}", traceback.format_exc())
    lack = None if rerun else records.why_unusable(page.stem, notebook)
    if lack:
        reason, cell = lack
        where = location(page, notebook, cell) if cell else f"book/{page.name}"
        return PageFailure(f"{where}: {reason}; run python book/tools/record.py {page.stem}")
    return None


def run_cells(page, notebook, rerun, folder, keep_times=False):
    """Run a page's cells; return the failure, or None."""
    recorded = records.cells_of(notebook)
    sources = {number: cell.source for number, cell in recorded.items()}
    limit = EXPERIMENT if rerun else SECONDS
    started = []

    def note(cell, cell_index):
        started.append(cell)

    # The code that stands in for recorded cells is there only while the kernel runs.
    with tempfile.TemporaryDirectory() as values:
        as_run = records.as_run(notebook, page.stem, Path(values) if rerun else None, keep_times)
        for number, source in as_run.items():
            recorded[number].source = source
        # A busy kernel sends a line in parts, and myst-nb would make a line of each.
        client = nbclient.NotebookClient(
            notebook,
            timeout=limit,
            record_timing=False,
            on_cell_start=note,
            coalesce_streams=True,
        )
        try:
            client.execute(cwd=str(page.parent), env=environment())
        except (
            nbclient.exceptions.CellControlSignal,
            nbclient.exceptions.DeadKernelError,
        ) as error:
            where = location(page, notebook, started[-1]) if started else f"book/{page.name}"
            return PageFailure(f"{where}: {in_one_line(error, limit)}", traceback.format_exc())
        finally:
            for number, source in sources.items():
                recorded[number].source = source
        if not rerun or not recorded:
            return None
        for cell in recorded.values():
            try:
                records.printed(cell)  # raises for what a record cannot have
            except ValueError as error:
                return PageFailure(f"{location(page, notebook, cell)}: {error}")
        records.write_page_record(page.stem, notebook, values, folder)
    return None


def environment():
    """Return the environment of a page's kernel, which imports `records` from this folder."""
    paths = [str(TOOLS), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def in_one_line(error, limit=SECONDS):
    """Return an error of a page as one line, without its traceback."""
    if isinstance(error, nbclient.exceptions.CellTimeoutError):
        return f"it takes longer than {limit} s"
    if isinstance(error, nbclient.exceptions.DeadKernelError):
        return "its kernel died, perhaps for want of memory"
    if isinstance(error, nbclient.exceptions.CellExecutionError):
        kind, message = error.ename, error.evalue
    else:
        kind, message = type(error).__name__, getattr(error, "msg", "") or str(error)
    lines = message.strip().splitlines()
    return f"{kind}: {lines[0][:300]}" if lines else kind


# Running those that changed.


def discard_stderr():
    """Drop what kernels write to stderr about themselves: all of a page is in its outputs."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def executed(notebooks):
    """Yield each page with what `execute` returns: several at once, and then one by one those
    that measure time.

    If a process ends, the pool stops, and nothing tells which page ended it: all pages that had not
    run then also run one by one.
    """
    alone = [page for page, notebook in notebooks.items() if measures_time(notebook)]
    together = [page for page in notebooks if page not in alone]
    processes = min(len(together), os.cpu_count() or 1) or 1
    with ProcessPoolExecutor(processes, initializer=discard_stderr) as pool:
        jobs = {pool.submit(execute, page, notebooks[page]): page for page in together}
        for job in as_completed(jobs):
            try:
                yield jobs[job], job.result()
            except BrokenProcessPool:
                alone.append(jobs[job])
    for page in alone:
        with ProcessPoolExecutor(1, initializer=discard_stderr) as pool:
            try:
                yield page, pool.submit(execute, page, notebooks[page]).result()
            except BrokenProcessPool:
                yield page, (None, 0.0, PageFailure(f"book/{page.name}: {ENDED}"))


def outdated(notebooks):
    """Return the pages whose code is newer than their record.

    Parameters
    ----------
    notebooks : dict
        The pages, each as `read` returns it.
    """
    return [
        page
        for page, notebook in notebooks.items()
        if records.read(page.stem)
        and records.cells_of(notebook)
        and not records.is_current(page.stem, notebook)
    ]


class Outputs:
    """The pages' outputs in Jupyter Book's cache, with the digest of what each was run from."""

    def __init__(self):
        CACHE.mkdir(parents=True, exist_ok=True)
        self.cache = get_cache(str(CACHE))
        self.stamps = json.loads(STAMPS.read_text(encoding="utf8")) if STAMPS.exists() else {}

    def is_current(self, page, digest_now):
        """Tell whether a page was run from what it is made of now."""
        return self.stamps.get(page.name, {}).get("digest") == digest_now

    def expected_seconds(self, page):
        """Return how long a page took; one that has never run counts as longer, by its size."""
        return self.stamps.get(page.name, {}).get("seconds", 1e9 + page.stat().st_size)

    def store(self, page, notebook, seconds, stamp=None):
        """Put a page's outputs into the cache; without a stamp, the page runs again next time."""
        bundle = CacheBundleIn(notebook, str(page), data={"execution_seconds": seconds})
        # Pages without results are stored as well, so no check that each cell was run.
        self.cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
        self.stamps.pop(page.name, None)
        if stamp:
            self.stamps[page.name] = stamp
        json_entries.write(STAMPS, self.stamps)


def run(report=lambda text: None, strict=False):
    """Run the pages that changed; return the result, as a `StepResult`.

    Parameters
    ----------
    report : callable
        Is called with a few words on how far it is.
    strict : bool
        Let nothing follow where a page fails, or is newer than its record.
    """
    notebooks = {page: read(page) for page in pages()}
    old = outdated(notebooks)
    if strict and old:
        return StepResult(None, [f"book/{page.name}: {OUTDATED} {page.stem}" for page in old])
    outputs = Outputs()
    for page in pages_that_cannot_run():  # without results, but not run by the build either
        outputs.store(page, notebooks.pop(page), 0.0)
    digests = {page: digest(page, notebook) for page, notebook in notebooks.items()}
    stale = [page for page in notebooks if not outputs.is_current(page, digests[page])]
    failures = run_stale(stale, notebooks, digests, outputs, report)
    summary = f"{len(stale)} of {len(notebooks)} run" if stale else "none has changed"
    messages = [f"book/{page.name}: {OLD_RECORD}" for page in old]
    messages += [
        failure.message if strict else f"{failure.message}; {WITHOUT}" for failure in failures
    ]
    log = "\n".join(f"{failure.message}\n{failure.traceback}" for failure in failures)
    log = re.sub(r"\x1b\[[0-9;]*m", "", log)  # IPython colors its tracebacks
    return StepResult(None if failures and strict else summary, messages, bool(failures), log)


def run_stale(stale, notebooks, digests, outputs, report):
    """Run pages, several at once, and store their outputs; return the failures."""
    # The longest first, so that the last one is short.
    stale = sorted(stale, key=outputs.expected_seconds, reverse=True)
    failures = []
    results = executed({page: notebooks[page] for page in stale})
    for number, (page, (with_outputs, seconds, failure)) in enumerate(results, 1):
        report(f"{number} of {len(stale)} run")
        if failure:
            failures.append(failure)
            outputs.store(page, notebooks[page], seconds)  # without outputs
        else:
            stamp = {"digest": digests[page], "seconds": round(seconds, 1)}
            outputs.store(page, with_outputs, seconds, stamp)
        # Sphinx reads a page again whose text is newer, not one whose modules are.
        os.utime(page)
    return failures

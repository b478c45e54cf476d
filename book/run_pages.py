"""Runs the code of the book's pages before the book is built: several at once, and only those that changed.

    python book/run_pages.py    # every page, however old; how long each takes goes into data/seconds.json

What a page's cells gave goes into Jupyter Book's own cache, from which its build takes it. A page has changed when
its code has, or a module under `figures/` that it imports, or a file of `data/` that it names. A page that measures
time, which has a cell tagged `clock`, runs when the others have, alone. Cells tagged `recorded` are long experiments:
what they gave is taken from the page's record while their code is the same, and made anew otherwise (`records`).
"""

import hashlib
import json
import os
import re
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import records
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from myst_nb.core.config import NbParserConfig
from myst_nb.core.read import create_nb_reader
from myst_parser.config.main import MdParserConfig
from rich.console import Console

BOOK = Path(__file__).resolve().parent
BUILD = BOOK.parent / "_build"
CACHE = BUILD / ".jupyter_cache"
STAMPS = CACHE / "pages.json"  # of each page: the digest of all that it was run from, and how long that took
USUAL = BOOK / "data" / "seconds.json"  # of each page, by name: how long it took where that was last written down
SECONDS = 120
"""The longest that one cell may take."""


def pages():
    """Return the pages that have code, as paths."""
    named = re.findall(r"file: (book/\S+)", (BOOK.parent / "_toc.yml").read_text(encoding="utf8"))
    paths = [BOOK.parent / f"{name}.md" for name in named]
    return [path for path in paths if "\nkernelspec:" in path.read_text(encoding="utf8").partition("\n---\n")[0]]


def digest(page):
    """Return a digest of a page's code, the modules of `figures/` behind it, the data that it names, and versions."""
    cells = [cell.source for cell in read(page).cells if cell.cell_type == "code"]
    code, parts = "\n".join(cells), [cell.encode() for cell in cells]
    for name, path in records.modules(code).items():
        # An interactive figure is written into the page with its script and its style.
        parts += [file.read_bytes() for file in sorted(path.parent.glob(f"{name}.*")) if file.suffix != ".pyc"]
        if name == "widget":
            parts += [file.read_bytes() for file in sorted((path.parent / "common").iterdir())]
    data = [BOOK / name for name in re.findall(r"data/[\w.-]+\w", code)]
    parts += [path.read_bytes() for path in [*data, records.path_of(page.stem)] if path.is_file()]
    parts += [metadata.version(name).encode() for name in ("numpy", "torch", "matplotlib", "ipykernel")]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def read(page):
    """Return a page as a notebook, as the build reads it."""
    text = page.read_text(encoding="utf8")
    return create_nb_reader(str(page), MdParserConfig(), NbParserConfig(), text).read(text)


def wants_triton(page):
    """Tell whether a page has code that imports Triton, which is for Linux on x86-64."""
    code = [cell.source for cell in read(page).cells if cell.cell_type == "code"]
    return bool(re.search(r"^\s*import triton\b", "\n".join(code), re.MULTILINE))


def not_run():
    """Return the pages whose code cannot run on this machine."""
    return [] if find_spec("triton") else [page for page in pages() if wants_triton(page)]


def measures_time(page, notebook):
    """Tell whether a page measures time as it runs: with a cell tagged `clock`, which is not taken from a record."""
    timed = [records.tags(cell) for cell in notebook.cells if "clock" in records.tags(cell)]
    if any(records.TAG not in tags for tags in timed):
        return True
    return bool(timed) and not records.is_current(page.stem, notebook)


def quiet():
    """Let kernels warn of their own affairs to nobody: what matters of a page is in its outputs."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def execute(page, anew=False, into=records.FOLDER):
    """Run a page's cells in a kernel of its own; return the notebook, the seconds, and what went wrong.

    Parameters
    ----------
    page : Path
    anew : bool
        Make its experiments anew, though its record is of this code.
    into : Path
        The folder that the record is written into, where they are made anew.
    """
    notebook = read(page)
    recorded = records.cells_of(notebook)
    sources = {number: cell.source for number, cell in recorded.items()}
    anew = bool(recorded) and (anew or not records.is_current(page.stem, notebook))
    with tempfile.TemporaryDirectory() as folder:
        for number, source in records.as_run(notebook, page.stem, Path(folder) if anew else None).items():
            recorded[number].source = source
        limit = max(SECONDS, 600 * anew)
        done = single_nb_execution(notebook, cwd=str(page.parent), timeout=limit, allow_errors=False)
        for number, source in sources.items():
            recorded[number].source = source
        fault = done.exc_string and f"{page.name}: {done.exc_string}"
        if anew and not fault:
            try:
                records.write(page.stem, notebook, folder, into)
            except ValueError as error:
                fault = f"{page.name}: {error}"
    return done.nb, done.time, fault


def executed(pool, pages):
    """Yield each page with what `execute` returns: several at once, and then one by one those that measure time."""
    alone = [page for page in pages if measures_time(page, read(page))]
    jobs = {pool.submit(execute, page): page for page in pages if page not in alone}
    for job in as_completed(jobs):
        yield jobs[job], job.result()
    for page in alone:
        yield page, pool.submit(execute, page).result()


def run(report=lambda text: None):
    """Run the pages that changed; return a sentence about it, and lines about what failed.

    Parameters
    ----------
    report : callable
        Is told, in a few words, how far it is.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    stamps = json.loads(STAMPS.read_text(encoding="utf8")) if STAMPS.exists() else {}
    left_out = not_run()
    wanted = {page: digest(page) for page in pages() if page not in left_out}
    stale = [page for page, value in reversed(wanted.items()) if stamps.get(page.name, {}).get("digest") != value]
    # The longest first, so that the last one is short; one that has never run may be long.
    usual = json.loads(USUAL.read_text(encoding="utf8"))
    took = {page: stamps.get(page.name, {}).get("seconds", usual.get(page.stem, 1e9)) for page in stale}
    stale.sort(key=lambda page: -took[page])
    cache, complaints = get_cache(str(CACHE)), []
    for page in left_out:  # without results, but not run by the build either
        cache.cache_notebook_bundle(CacheBundleIn(read(page), str(page)), check_validity=False, overwrite=True)
        stamps.pop(page.name, None)
        STAMPS.write_text(json.dumps(stamps, indent=1), encoding="utf8")
    with ProcessPoolExecutor(min(len(stale), os.cpu_count() or 1) or 1, initializer=quiet) as pool:
        for number, (page, (notebook, seconds, fault)) in enumerate(executed(pool, stale), 1):
            report(f"{number} of {len(stale)} run")
            if fault:
                complaints += fault.splitlines()[-30:]
                continue
            cache.cache_notebook_bundle(
                CacheBundleIn(notebook, str(page), data={"execution_seconds": seconds}),
                check_validity=False,
                overwrite=True,
            )
            stamps[page.name] = {"digest": digest(page), "seconds": round(seconds, 1)}
            STAMPS.write_text(json.dumps(stamps, indent=1), encoding="utf8")
            os.utime(page)  # the build reads a page again whose text is newer, not one whose modules are
    ran = f"{len(stale)} of {len(wanted)} run" if stale else "none has changed"
    return (None if complaints else ran), complaints


def main():
    """Run every page, and write down how long each takes; return the exit status."""
    STAMPS.unlink(missing_ok=True)
    with Console().status("pages …") as status:
        sentence, complaints = run(status.update)
    print(*complaints or [sentence], sep="\n")
    if not complaints:
        stamps = json.loads(STAMPS.read_text(encoding="utf8"))
        seconds = {page.stem: round(stamps[page.name]["seconds"]) for page in pages()}
        USUAL.write_text(json.dumps(seconds, indent=1) + "\n", encoding="utf8")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

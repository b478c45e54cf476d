"""Build the book into _build/html, everything it needs in the browser included.

    python book/build.py [--cold]

`--cold` forgets what earlier builds left (pages and executed cells), as CI does.
"""

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import editions
import javascript
import run_pages
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
BAD = re.compile(r"WARNING|ERROR|CRITICAL|Error: .")
console = Console(highlight=False)


def fetch_packages():
    """What npm has for the pages and their JavaScript, into _build/npm/."""
    try:
        return "fetched" if javascript.fetch() else "nothing new", []
    except RuntimeError as error:
        return None, str(error).splitlines()


def look_at_downloads():
    """See that the exercises' archives are there, and theirs, before minutes are spent on the pages' code."""
    from autograder import archive
    from autograder.course import Exercise

    notebooks = [path for path in sorted(ROOT.glob("exercises/*/*.ipynb")) if path.stem == path.parent.name]
    faults = [fault for fault in (archive.fault(Exercise(path.stem, ROOT)) for path in notebooks) if fault]
    return (None, faults) if faults else (f"{len(notebooks)} exercises", [])


def build_pages(language=editions.SOURCE):
    """Jupyter Book, every warning an error; the whole log goes to _build/book.log, or that of another edition.

    Pages that cannot run here are in it without results, and named; what they are warned of is no error then.
    """
    left_out = run_pages.not_run()
    command = [sys.executable, "book/editions.py", language, *(["--lenient"] if left_out else [])]
    environment = os.environ | {"NO_COLOR": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    log = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    (BUILD / ("book.log" if language == editions.SOURCE else f"{language}.log")).write_text(log, encoding="utf8")
    if done.returncode:
        # Sphinx warns about a page only when it reads it: forget what was read, so that the next run warns again.
        (editions.doctrees(language) / "environment.pickle").unlink(missing_ok=True)
        lines = log.splitlines()
        return None, [line for line in lines if BAD.search(line) and "IPKernelApp" not in line] or lines[-20:]
    site = editions.HTML / editions.folder(language)
    built = f"{len(list((site / 'book').glob('*.html')))} pages"
    names = ", ".join(page.stem for page in left_out)
    return f"{built}; without Triton, which is for Linux, no results in {names}" if left_out else built, []


def main():
    """Run the steps; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the book into _build/html.")
    parser.add_argument("--cold", action="store_true", help="forget what earlier builds left")
    if parser.parse_args().cold:
        for path in (
            *BUILD.glob(".doctrees*"),
            *(BUILD / name for name in ("html", ".jupyter_cache", "jupyter_execute")),
        ):
            shutil.rmtree(path, ignore_errors=True)
    BUILD.mkdir(exist_ok=True)
    steps = {
        "downloads": look_at_downloads,
        "what npm has": fetch_packages,
        "code": run_pages.run,
        "pages": build_pages,
    }
    for language in editions.languages():
        steps[f"pages in {editions.name(language)}"] = functools.partial(build_pages, language)
    for label, step in steps.items():
        start = time.perf_counter()
        with console.status(f"{label} …") as status:
            more = (lambda text, label=label: status.update(f"{label} … {text}"),) if step is run_pages.run else ()
            result, complaints = step(*more)
        seconds = f"{time.perf_counter() - start:5.1f} s"
        if result is None:
            for line in complaints:
                console.print(line, markup=False, soft_wrap=True)
            console.print(
                f"[red]the book failed[/] at {label} after {seconds.strip()}"
                f" ({len(complaints)} lines above; all of it in _build/book.log)"
            )
            return 1
        console.print(f"[green]✓[/] {label:<24} {seconds}  {result}")
    console.print("[green]the book is at[/] _build/html/index.html; `make serve` shows it", soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

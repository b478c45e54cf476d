"""Build the book into _build/html, everything it needs in the browser included.

    python book/tools/build.py [--cold] [--strict]

A reader's build ends with a book: a page that fails is in it without its results, and the exit
status is 1; warnings are in _build/book.log; a record that is older than its page's code is taken,
and named. `--strict` refuses all three, as CI and what publishes the book do. `--cold` forgets what
earlier builds left (pages and executed cells).
"""

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import editions
import javascript
import run_pages
from rich.console import Console
from run_pages import Step

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
LOG = BUILD / "book.log"
BAD = re.compile(r"WARNING|ERROR|CRITICAL|Error: .")
console = Console(highlight=False)


def fetch_packages():
    """What npm has for the pages and their JavaScript, into _build/npm/."""
    try:
        return Step("fetched" if javascript.fetch() else "nothing new")
    except RuntimeError as error:
        return Step(None, str(error).splitlines())


def look_at_downloads():
    """See that the exercises' archives are there, and theirs, before minutes are spent on the
    pages' code.
    """
    from autograder.course import archive
    from autograder.course.config import Exercise

    notebooks = [
        path for path in sorted(ROOT.glob("exercises/*/*.ipynb")) if path.stem == path.parent.name
    ]
    faults = [
        fault for fault in (archive.fault(Exercise(path.stem, ROOT)) for path in notebooks) if fault
    ]
    return Step(None if faults else f"{len(notebooks)} exercises", faults)


def build_pages(language=editions.SOURCE, strict=False):
    """Jupyter Book; where it is strict, every warning is an error.

    Pages that cannot run here are in it without results, and named; what they are warned of is no
    error then.
    """
    left_out = run_pages.not_run()
    command = [
        sys.executable,
        "book/tools/editions.py",
        language,
        *([] if strict and not left_out else ["--lenient"]),
    ]
    environment = os.environ | {"NO_COLOR": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    if done.returncode:
        # Sphinx warns about a page only when it reads it: forget what was read, so that the next
        # run warns again.
        (editions.doctrees(language) / "environment.pickle").unlink(missing_ok=True)
        lines = log.splitlines()
        bad = [line for line in lines if BAD.search(line) and "IPKernelApp" not in line]
        return Step(None, bad or lines[-20:], log=log)
    site = editions.HTML / editions.folder(language)
    built = f"{len(list((site / 'book').glob('*.html')))} pages"
    if left_out:
        names = ", ".join(page.stem for page in left_out)
        built += f"; without Triton, which is for Linux, no results in {names}"
    if warned := sum("WARNING: " in line for line in log.splitlines()):
        built += f"; {warned} warnings, in {LOG.relative_to(ROOT)}"
    return Step(built, log=log)


def done(step, *given):
    """Do a step; return what became of it, and its seconds.

    What it didn't foresee ends the build as what it did, without a traceback but in the log.
    """
    start = time.perf_counter()
    try:
        became = step(*given)
    except Exception as error:
        became = Step(None, [run_pages.in_a_line(error)], log=traceback.format_exc())
    return became, time.perf_counter() - start


def build(strict):
    """Run the steps, those of a group side by side; return the exit status."""
    LOG.write_text("", encoding="utf8")
    editions_of_pages = {"pages": functools.partial(build_pages, strict=strict)}
    for language in editions.languages():
        label = f"pages in {editions.name(language)}"
        editions_of_pages[label] = functools.partial(build_pages, language, strict=strict)
    groups = [
        {"downloads": look_at_downloads},
        {"what npm has": fetch_packages},
        {"code": functools.partial(run_pages.run, strict=strict)},
        editions_of_pages,
    ]
    wrong = 0
    for group in groups:
        doing = f"{', '.join(group)} …"
        with console.status(doing) as status:
            told = (
                (lambda text, doing=doing: status.update(f"{doing} {text}"),)
                if "code" in group
                else ()
            )
            if len(group) > 1:  # an edition is a process of its own
                with ThreadPoolExecutor(len(group)) as pool:
                    results = list(pool.map(done, group.values()))
            else:
                results = [done(step, *told) for step in group.values()]
        for label, (became, seconds) in zip(group, results, strict=True):
            tell(label, became, seconds)
        if any(became.said is None for became, _ in results):
            return 1
        wrong += sum(became.wrong for became, _ in results)
    console.print(
        "[green]the book is at[/] _build/html/index.html; `make serve` shows it", soft_wrap=True
    )
    if wrong:
        why = f"for what is said above; more of it is in {LOG.relative_to(ROOT)}"
        console.print(f"[red]pages are without their results[/], {why}", soft_wrap=True)
    return 1 if wrong else 0


def tell(label, became, seconds):
    """Say what became of a step, on the console and, with all that it printed, in the log."""
    heading = f"== {label}, {seconds:.1f} s: {became.said or 'failed'}"
    with LOG.open("a", encoding="utf8") as log:
        print(heading, *became.lines, became.log, sep="\n", file=log)
    if became.said is not None:
        console.print(f"[green]✓[/] {label:<24} {seconds:5.1f} s  {became.said}", soft_wrap=True)
    for line in became.lines:
        console.print(line, markup=False, soft_wrap=True)
    if became.said is None:
        console.print(
            f"[red]the book failed[/] at {label} after {seconds:.1f} s"
            f" ({len(became.lines)} lines above; all of it in {LOG.relative_to(ROOT)})",
            soft_wrap=True,
        )


def main():
    """Build the book; return the exit status."""
    parser = argparse.ArgumentParser(description="Build the book into _build/html.")
    parser.add_argument("--cold", action="store_true", help="forget what earlier builds left")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse warnings, pages that fail, and records older than their page",
    )
    given = parser.parse_args()
    if given.cold:
        for path in (
            *BUILD.glob(".doctrees*"),
            *(BUILD / name for name in ("html", ".jupyter_cache", "jupyter_execute")),
        ):
            shutil.rmtree(path, ignore_errors=True)
    BUILD.mkdir(exist_ok=True)
    try:
        return build(given.strict)
    except KeyboardInterrupt:
        console.print("interrupted; what is done is kept, and the same command goes on")
        return 130


if __name__ == "__main__":
    sys.exit(main())

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
from run_pages import StepResult

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "_build"
LOG = BUILD / "book.log"
# The lines of a log to print if a step fails.
FAULT = re.compile(r"WARNING|ERROR|CRITICAL|Error: .")
console = Console(highlight=False)


def fetch_packages():
    """Fetch the npm packages of the pages into _build/npm/."""
    try:
        return StepResult("fetched" if javascript.fetch() else "nothing new")
    except RuntimeError as error:
        return StepResult(None, str(error).splitlines())


def check_downloads():
    """Check that each exercise has its archive, before minutes are spent on the pages' code."""
    from autograder.course import archive
    from autograder.course.config import Exercise

    notebooks = [
        path for path in sorted(ROOT.glob("exercises/*/*.ipynb")) if path.stem == path.parent.name
    ]
    faults = [archive.fault(Exercise(path.stem, ROOT)) for path in notebooks]
    messages = [fault for fault in faults if fault]
    return StepResult(None if messages else f"{len(notebooks)} exercises", messages)


def build_pages(language=editions.SOURCE, strict=False):
    """Build one edition with Jupyter Book; with `strict`, each warning is an error.

    If pages cannot run here, they are in it without results, and warnings are no errors.
    """
    left_out = run_pages.pages_that_cannot_run()
    command = [sys.executable, "book/tools/editions.py", language]
    if not strict or left_out:
        command.append("--lenient")
    process = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_COLOR": "1", "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log = re.sub(r"\x1b\[[0-9;]*m", "", process.stdout)
    if process.returncode:
        # Sphinx warns about a page only when it reads it: forget what was read, so that the next
        # run warns again.
        (editions.doctrees(language) / "environment.pickle").unlink(missing_ok=True)
        lines = log.splitlines()
        # Kernels also warn, of their own affairs.
        faults = [line for line in lines if FAULT.search(line) and "IPKernelApp" not in line]
        return StepResult(None, faults or lines[-20:], log=log)
    site = editions.HTML / editions.folder(language)
    summary = f"{len(list((site / 'book').glob('*.html')))} pages"
    if left_out:
        names = ", ".join(page.stem for page in left_out)
        summary += f"; without Triton, which is for Linux, no results in {names}"
    warnings = sum("WARNING: " in line for line in log.splitlines())
    if warnings:
        summary += f"; {warnings} warnings, in {LOG.relative_to(ROOT)}"
    return StepResult(summary, log=log)


def timed(step, *arguments):
    """Run a step; return its result and the seconds that it took.

    An error that it doesn't handle becomes its result: one line, with the traceback in the log.
    """
    start = time.perf_counter()
    try:
        result = step(*arguments)
    except Exception as error:
        result = StepResult(None, [run_pages.in_one_line(error)], log=traceback.format_exc())
    return result, time.perf_counter() - start


def build(strict):
    """Run the steps, those of a group side by side; return the exit status."""
    LOG.write_text("", encoding="utf8")
    editions_of_pages = {"pages": functools.partial(build_pages, strict=strict)}
    for language in editions.languages():
        label = f"pages in {editions.name(language)}"
        editions_of_pages[label] = functools.partial(build_pages, language, strict=strict)
    # Those of a group run side by side; the next group needs what they made.
    groups = [
        {"downloads": check_downloads},
        {"what npm has": fetch_packages},
        {"code": functools.partial(run_pages.run, strict=strict)},
        editions_of_pages,
    ]
    failed = False
    for group in groups:
        heading = f"{', '.join(group)} …"
        with console.status(heading) as status:
            if "code" in group:

                def update(text, heading=heading, status=status):
                    status.update(f"{heading} {text}")

                results = [timed(group["code"], update)]
            else:  # an edition is a process of its own
                with ThreadPoolExecutor(len(group)) as pool:
                    results = list(pool.map(timed, group.values()))
        for label, (result, seconds) in zip(group, results, strict=True):
            report(label, result, seconds)
        if any(result.summary is None for result, _ in results):
            return 1
        failed = failed or any(result.failed for result, _ in results)
    console.print(
        "[green]the book is at[/] _build/html/index.html; `make serve` shows it", soft_wrap=True
    )
    if failed:
        why = f"for what is said above; more of it is in {LOG.relative_to(ROOT)}"
        console.print(f"[red]pages are without their results[/], {why}", soft_wrap=True)
    return 1 if failed else 0


def report(label, result, seconds):
    """Print the result of a step on the console and, with all that the step printed, in the log."""
    heading = f"== {label}, {seconds:.1f} s: {result.summary or 'failed'}"
    with LOG.open("a", encoding="utf8") as log:
        print(heading, *result.messages, result.log, sep="\n", file=log)
    if result.summary is not None:
        console.print(f"[green]✓[/] {label:<24} {seconds:5.1f} s  {result.summary}", soft_wrap=True)
    for message in result.messages:
        console.print(message, markup=False, soft_wrap=True)
    if result.summary is None:
        console.print(
            f"[red]the book failed[/] at {label} after {seconds:.1f} s"
            f" ({len(result.messages)} lines above; all of it in {LOG.relative_to(ROOT)})",
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
    arguments = parser.parse_args()
    if arguments.cold:
        folders = [BUILD / name for name in ("html", ".jupyter_cache", "jupyter_execute")]
        for path in (*BUILD.glob(".doctrees*"), *folders):
            shutil.rmtree(path, ignore_errors=True)
    BUILD.mkdir(exist_ok=True)
    try:
        return build(arguments.strict)
    except KeyboardInterrupt:
        console.print("interrupted; what is done is kept, and the same command goes on")
        return 130


if __name__ == "__main__":
    sys.exit(main())

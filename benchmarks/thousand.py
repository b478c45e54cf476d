"""A course of a thousand students: graded, graded again, and its report in a browser.

A part of `run.py`.
"""

import contextlib
import os
import shutil
import sqlite3
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path

import classes
import graders
import watch

from autograder.authoring import loader

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "book" / "tools"))

import chromium  # noqa: E402 (it is one of the book's tools)

EXERCISES = [folder.name for folder in loader.FOLDERS[:5]]
VISITS = 3  # of the report, each in a browser that has seen nothing; the median counts
# What a person waits for: text, and a page that is drawn and answers. Milliseconds from when it was
# asked for.
FIRST_SCREEN = """() => new Promise(resolve => requestAnimationFrame(() => setTimeout(() =>
  resolve({paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
           ready: performance.now()}))))"""
SEARCHED = """text => new Promise(resolve => {
  const field = document.querySelector("input[type=search]"), began = performance.now();
  field.value = text;
  field.dispatchEvent(new Event("input", {bubbles: true}));
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
})"""


def measure(options, known, out):
    """Grade a mixed class in the first five exercises; then run each other command, and open the
    report in a browser.
    """
    submitted, into = options.work / "thousand", options.work / "thousand-graded"
    shutil.rmtree(submitted, ignore_errors=True)
    shutil.rmtree(into, ignore_errors=True)
    right = _write_class(submitted, options.students, options.seed)
    known.clear()
    known.update(
        students=options.students, exercises=EXERCISES,
        submissions=options.students * len(EXERCISES), jobs=options.jobs,
        date=datetime.now(UTC).isoformat(timespec="seconds"), load=os.getloadavg()[0], commands={},
    )  # fmt: skip
    places = ["--into", into]
    grade = ["grade", *EXERCISES, "--submitted", submitted, *places, "--jobs", options.jobs]
    for said, command in {
        "grade": grade,
        "grade, nothing to do": grade,
        "grade --dry-run, nothing to do": [*grade, "--dry-run"],
        "report": ["report", *places],
        "export": ["export", *places],
    }.items():
        into.mkdir(exist_ok=True)
        known["commands"][said] = found = _run(command)
        out.print(
            f"{said}: {found['seconds']:.1f} s, {found['main_mb']:.0f} MB, all "
            f"{found['peak_mb']:.0f} MB"
        )
        if said == "grade":
            _expect_all_graded(into, right, options.students)
            known["sizes_mb"] = {
                name: _size(into / name) for name in ("gradebook.db", "autograded", "feedback")
            }
        yield known
    known["sizes_mb"] |= {name: _size(into / name) for name in ("report.html", "grades.csv")}
    known["browser"] = visit(into, f"student{options.students - 1:04d}")
    out.print(", ".join(f"{name} {value:g}" for name, value in known["browser"].items()))
    yield known


def _write_class(submitted, count, seed):
    """Write a mixed class for each exercise; return the names of the students who are right."""
    right = {}
    for name in EXERCISES:
        students = classes.students(classes.answers_of(name), "mixed", count, seed)
        classes.write(students, name, submitted)
        right[name] = {student.name for student in students if student.kind == classes.RIGHT}
    return right


def _run(command):
    """Run a command of the course; return its seconds and its memory."""
    process = watch.started(["-m", "autograder", *command], ROOT)
    watched = watch.until_it_ends(process)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}.")
    return {
        "seconds": watched.seconds,
        "main_mb": watched.peak("main"),
        "peak_mb": watched.peak("pss"),
    }


def _expect_all_graded(into, right, count):
    """End with an error unless each submission has a grade, a record and a page, and each right
    one all points.
    """
    with contextlib.closing(sqlite3.connect(into / "gradebook.db")) as book:
        graded = dict(
            book.execute(
                "select assignment.name, count(*) from submitted_assignment"
                " join assignment on assignment.id = assignment_id group by assignment.name"
            )
        )
    for name, students in right.items():
        found = (
            graded.get(name, 0),
            len(graders.records(into, name)),
            graders.pages(into, name),
        )
        if set(found) != {count}:
            raise SystemExit(f"{name}: of {count}, gradebook, records and pages have {found}")
        scores = graders.scores(into, name)
        lost = graders.not_full({key: own for key, own in scores.items() if key[0] in students})
        if lost:
            raise SystemExit(
                f"Right submissions of {name} lost points:\n  " + "\n  ".join(lost[:30])
            )


def _size(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / watch.MEGABYTE


def visit(into, student):
    """Open the report as a browser gets it from a server, and search for a student.

    Returns
    -------
    dict
        Seconds until text is on the screen (`first_text`), and until the script has done its part
        and the browser has drawn it (`first_screen`); seconds of a search; rows of tables and
        elements that the page then has.
    """
    from playwright.sync_api import sync_playwright

    program = chromium.executable()
    if program is None:
        raise SystemExit(
            f"No browser opens the report: none of {', '.join(chromium.NAMES)} is installed."
        )
    found = {"first_text": [], "first_screen": [], "search": []}
    with chromium.served(into) as site, sync_playwright() as playwright:
        for _ in range(VISITS):
            browser = playwright.chromium.launch(executable_path=program, args=chromium.arguments())
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(f"{site}/report.html", wait_until="domcontentloaded")
            shown = page.evaluate(FIRST_SCREEN)
            found["first_text"].append((shown["paint"] or shown["ready"]) / 1e3)
            found["first_screen"].append(shown["ready"] / 1e3)
            rows, elements = page.locator("tr").count(), page.locator("*").count()
            found["search"].append(page.evaluate(SEARCHED, student) / 1e3)
            if not page.get_by_text(student, exact=True).first.is_visible():
                raise SystemExit(f"The report's search does not find {student}.")
            browser.close()
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {**medians, "rows": rows, "elements": elements}

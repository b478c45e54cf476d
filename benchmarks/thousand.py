"""A course of a thousand students: graded, graded again, and its report in a browser.

A part of `run.py`.
"""

import contextlib
import functools
import http.server
import os
import shutil
import sqlite3
import statistics
import threading
from datetime import UTC, datetime
from pathlib import Path

import classes
import graders
import watch

from autograder.authoring import loader

ROOT = Path(__file__).resolve().parent.parent
EXERCISES = [folder.name for folder in loader.FOLDERS[:5]]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
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
    """Grade a mixed class in the first five exercises; then each other command, and the report
    in a browser.
    """
    submitted, into = options.work / "thousand", options.work / "thousand-graded"
    shutil.rmtree(submitted, ignore_errors=True)
    shutil.rmtree(into, ignore_errors=True)
    right = {}
    for name in EXERCISES:
        students = classes.students(
            classes.answers_of(name), "mixed", options.students, options.seed
        )
        classes.write(students, name, submitted)
        right[name] = {student.name for student in students if student.kind == classes.RIGHT}
    count = options.students * len(EXERCISES)
    known.clear()
    known.update(
        students=options.students, exercises=EXERCISES, submissions=count, jobs=options.jobs,
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
        process = watch.started(["-m", "autograder", *command], ROOT)
        watched = watch.Watch(process)
        if process.returncode:
            raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}.")
        found = {
            "seconds": watched.seconds,
            "main_mb": watched.peak("main"),
            "peak_mb": watched.peak("pss"),
        }
        known["commands"][said] = found
        out.print(
            f"{said}: {found['seconds']:.1f} s, {found['main_mb']:.0f} MB, all "
            f"{found['peak_mb']:.0f} MB"
        )
        if said == "grade":
            _proper(into, right, options.students)
            known["sizes_mb"] = {
                name: _size(into / name) for name in ("gradebook.db", "autograded", "feedback")
            }
        yield known
    known["sizes_mb"] |= {name: _size(into / name) for name in ("report.html", "grades.csv")}
    known["browser"] = visit(into, f"student{options.students - 1:04d}")
    out.print(", ".join(f"{name} {value:g}" for name, value in known["browser"].items()))
    yield known


def _proper(into, right, count):
    """End with an error unless everybody has a grade, a record and a page, and who is right has
    all points.
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
            len(list(into.glob(f"autograded/*/{name}/grade.json"))),
            graders.pages(into, name),
        )
        if set(found) != {count}:
            raise SystemExit(f"{name}: of {count}, gradebook, records and pages have {found}")
        lost = [
            line
            for line in graders.not_full(graders.scores(into, name))
            if line.partition(" ")[0] in students
        ]
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

    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        raise SystemExit(
            f"No browser opens the report: none of {', '.join(BROWSERS)} is installed."
        )

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    found = {"first_text": [], "first_screen": [], "search": []}
    handler = functools.partial(Quiet, directory=str(into))
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        sync_playwright() as playwright,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(VISITS):
            browser = playwright.chromium.launch(
                executable_path=executable, args=["--no-sandbox"] if os.geteuid() == 0 else []
            )
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(
                f"http://127.0.0.1:{server.server_port}/report.html", wait_until="domcontentloaded"
            )
            shown = page.evaluate(FIRST_SCREEN)
            found["first_text"].append((shown["paint"] or shown["ready"]) / 1e3)
            found["first_screen"].append(shown["ready"] / 1e3)
            rows, elements = page.locator("tr").count(), page.locator("*").count()
            if page.locator("input[type=search]").count():
                found["search"].append(page.evaluate(SEARCHED, student) / 1e3)
                if not page.get_by_text(student, exact=True).first.is_visible():
                    raise SystemExit(f"The report's search does not find {student}.")
            browser.close()
        server.shutdown()
    medians = {name: statistics.median(values) for name, values in found.items() if values}
    return {**medians, "rows": rows, "elements": elements}

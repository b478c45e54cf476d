"""Grading a class: every submission gets a grade and a reason, whatever was handed in."""

import copy
import hashlib
import hmac
import json
import os
import re
import secrets
from collections import Counter
from datetime import UTC, datetime

import nbformat
from nbclient.exceptions import CellExecutionError
from nbgrader.utils import determine_grade, is_grade, parse_utc

from autograder import engine, gradebook, submission
from autograder.course import UserError

RECORD = "grade.json"


def course_secret(course):
    """Return the secret from which each submission's draws follow; made once, kept in `.course-secret`."""
    path = course.into / ".course-secret"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32) + "\n")
    return path.read_text().strip()


def seed_for(secret, exercise, digest):
    """Return the seed of a submission's draws: the same for the same hand-in, unknown to who handed it in."""
    mac = hmac.new(secret.encode(), f"{exercise}\0{digest}".encode(), hashlib.sha256)
    return int.from_bytes(mac.digest()[:6], "big")


def exercise_digest(exercise):
    """Return a fingerprint of a released exercise: grades made with another version are out of date."""
    mac = hashlib.sha256()
    for path in sorted(exercise.released.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            mac.update(path.relative_to(exercise.released).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return mac.hexdigest()


def record_of(course, item):
    """Return the record of a submission's last grading, or None."""
    try:
        return json.loads((course.into / "autograded" / item.student / item.exercise.name / RECORD).read_text())
    except (OSError, json.JSONDecodeError):
        return None


def prepare(course, exercises, items, submitted):
    """Look before anything is graded: outputs can be written, exercises are released, the gradebook is ours."""
    if not items:
        names = ", ".join(exercise.name for exercise in exercises)
        raise UserError(
            f"Nothing to grade: {submitted} has no folder STUDENT/EXERCISE for {names}. "
            f"Put each notebook at {submitted}/STUDENT/{exercises[0].name}/{exercises[0].name}.ipynb."
        )
    for exercise in exercises:
        if not exercise.notebook.exists():
            raise UserError(f"{exercise.name} is not released yet. Run: python -m autograder release {exercise.name}")
    try:
        for name in ("autograded", "feedback"):
            (course.into / name).mkdir(parents=True, exist_ok=True)
            probe = course.into / name / f".write-{os.getpid()}"
            probe.touch()
            probe.unlink()
        course_secret(course)
    except OSError as error:
        raise UserError(
            f"Cannot write in {error.filename}: {error.strerror}. Grades go below {course.into}; "
            "make it writable, or name another folder with --into."
        ) from error
    for exercise in {item.exercise.name: item.exercise for item in items}.values():
        gradebook.register(course, exercise)


def current(course, book, item, version):
    """Return the record of a submission that needs no grading again, or None."""
    record = record_of(course, item)
    page = course.into / "feedback" / item.student / item.exercise.name / f"{item.exercise.name}.html"
    if not record or record["submission"] != item.digest() or record["exercise"] != version or not page.exists():
        return None
    return record if gradebook.holds(book, item) else None


def grade(course, item, version, on_cell=lambda cell: None):
    """Grade one submission, write its notebook, grade, feedback and record, and return the record."""
    released = nbformat.read(item.exercise.notebook, as_version=4)
    digest = item.digest()
    seed = seed_for(course_secret(course), item.exercise.name, digest)
    timestamp, repairs = _timestamp(item)
    if item.notebook.name != f"{item.exercise.name}.ipynb":
        repairs.append(f"The notebook was called {item.notebook.name} and has been taken all the same.")
    kind, reason = "", ""
    try:
        restored = submission.restore(submission.read(item.notebook), released)
        notebook, repairs = restored.notebook, repairs + restored.repairs
    except submission.Malformed as error:
        kind, reason = "malformed", str(error)
        notebook = _unanswered(released, reason)
    else:
        try:
            reason = engine.execute(notebook, item.exercise, seed, extras=item.folder, on_cell=on_cell)
            kind = "limit" if reason else ""
        except (RuntimeError, CellExecutionError) as error:
            raise UserError(
                f"{item.student}, {item.exercise.name}: {error}. Run `python -m autograder doctor`."
            ) from error
    cells = {cell.metadata.nbgrader.grade_id: _cell_record(cell) for cell in notebook.cells if is_grade(cell)}
    if not kind and any(own["points"] < own["max_points"] for own in cells.values()):
        kind = "wrong"
    saved = gradebook.save(course, item, notebook, timestamp, f"{kind}: {reason}" if reason else "")
    earlier = record_of(course, item) or {}
    record = {
        "student": item.student,
        "assignment": item.exercise.name,
        "submission": digest,
        "exercise": version,
        "seed": seed,
        "graded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "kind": kind or "right",
        "reason": reason,
        "repairs": repairs,
        "cells": cells,
        **saved,
    }
    history = earlier.pop("history", [])
    record["history"] = history + ([earlier] if earlier else [])
    _write(course, item, notebook, record)
    return record


def reasons(record):
    """Return a line for each cell that lost points: how many, what did not hold, and the likely cause."""
    lines = []
    if record["reason"]:
        lines.append(f"{record['kind']}: {record['reason']}")
    if record["kind"] != "malformed":
        for grade_id, cell in record["cells"].items():
            lost = cell["max_points"] - cell["points"]
            if lost > 1e-9 and (cell["checks"] or not record["reason"]):
                lines.append(f"{cell['subject'] or grade_id} −{lost:g}: {lost_to(cell)}")
    if record["penalty"]:
        lines.append(f"late −{record['penalty']:g}")
    return lines + record["repairs"]


def lost_to(cell):
    """Return what cost a check cell its points, in a line: the first check that failed, and the likely cause."""
    failed = [check for check in cell["checks"] if check["status"] == "failed"]
    waiting = [check for check in cell["checks"] if check["status"] == "waiting"]
    if failed:
        named = [check for check in failed if check["cause"]]
        others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        cause = f"likely {named[0]['cause'].replace('_', ' ')}" if named else failed[0]["message"][:160].rstrip(".")
        return f"{cause}; does not hold: {failed[0]['title'].rstrip('.')}{others}"
    if waiting:
        return waiting[0]["message"]
    return cell["error"] or "the check did not run to its end"


def _cell_record(cell):
    points, most = determine_grade(cell)
    if not engine.is_check(cell):  # graded by hand: only an untouched cell has points already, none
        error = "" if points is None else "no response"
        points = most if points is None else points
        return {"points": points, "max_points": most, "subject": "", "checks": [], "error": error}
    report = engine.report_of(cell) or {}
    kept = ("name", "title", "weight", "status", "message", "cause", "hint")
    text = "".join(out.get("text", "") for out in cell.outputs if out.output_type == "stream").strip()
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # a traceback's colours
    return {
        "points": points,
        "max_points": most,
        "subject": report.get("subject", ""),
        "checks": [{key: check[key] for key in kept} for check in report.get("results", [])],
        "error": "" if report else text.splitlines()[-1][:200] if text else "",
    }


def _timestamp(item):
    """Return when a submission came in (UTC, without a zone, as the gradebook wants it), or None."""
    path = item.folder / "timestamp.txt"
    try:
        return parse_utc(path.read_text().strip()), []
    except OSError:
        return None, []
    except (ValueError, OverflowError):
        return None, ["timestamp.txt could not be read as a date; the submission counts as in time."]


def _unanswered(released, reason):
    """Return the released notebook as a graded one with no points, headed by the reason."""
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        if engine.is_check(cell):
            engine.settle(cell)
    head = nbformat.v4.new_markdown_cell(f"**This submission could not be graded.** {reason}")
    head.id = "reason"
    notebook.cells.insert(0, head)
    return notebook


def _write(course, item, notebook, record):
    """Write the graded notebook, the feedback page and, last of all, the record that says that both are there."""
    name = item.exercise.name
    graded, pages = (course.into / kind / item.student / name for kind in ("autograded", "feedback"))
    for folder in (graded, pages):
        folder.mkdir(parents=True, exist_ok=True)
    files = {
        graded / f"{name}.ipynb": nbformat.writes(notebook),
        pages / f"{name}.html": gradebook.feedback_page(course, item, copy.deepcopy(notebook)),
        graded / RECORD: json.dumps(record, indent=1, ensure_ascii=False),
    }
    for path, text in files.items():
        new = path.with_name(path.name + ".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    stamp = item.folder / "timestamp.txt"
    if stamp.is_file():
        (graded / "timestamp.txt").write_bytes(stamp.read_bytes())


def costs(records):
    """Return what cost a class most: points lost by check, and how often each misconception was met.

    Returns
    -------
    tuple of list
        Rows (exercise, function, check's title, points lost, students), and rows
        (exercise, function, misconception, hint, students); both sorted by cost.
    """
    lost, met, students, hints = Counter(), Counter(), Counter(), {}
    for record in records:
        for cell in record["cells"].values():
            total = sum(check["weight"] for check in cell["checks"]) or 1
            causes = set()
            for check in cell["checks"]:
                if check["status"] == "passed":
                    continue
                key = (record["assignment"], cell["subject"], check["title"])
                lost[key] += cell["max_points"] * check["weight"] / total
                students[key] += 1
                if check["cause"]:
                    causes.add((record["assignment"], cell["subject"], check["cause"]))
                    hints[record["assignment"], cell["subject"], check["cause"]] = check["hint"]
            met.update(causes)
    checks = [(*key, points, students[key]) for key, points in lost.most_common()]
    return checks, [(*key, hints[key], count) for key, count in met.most_common()]

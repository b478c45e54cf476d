"""The instructor's report: one self-contained HTML page on a graded class."""

import os
import random
import statistics
from collections import Counter

from jinja2 import Environment, PackageLoader, select_autoescape

from autograder import gradebook
from autograder.course import UserError
from autograder.grade import costs, reasons, record_of
from autograder.submission import Submission

BINS = 10


def write(course, path, anonymous=False):
    """Write the report on all graded submissions to `path`.

    Raises
    ------
    UserError
        If nothing is graded yet.
    """
    records = graded(course)
    if not records:
        raise UserError(f"Nothing is graded in {course.into} yet. Run: python -m autograder grade")
    names = _numbers(records) if anonymous else {}
    assignments = []
    for name in sorted({record["assignment"] for record in records}):
        own = [record for record in records if record["assignment"] == name]
        checks, misconceptions = costs(own)
        shares = [record["score"] / (record["max_score"] or 1) for record in own]
        assignments.append(
            {
                "name": name,
                "histogram": _histogram(shares),
                "mean": statistics.mean(record["score"] for record in own),
                "median": statistics.median(record["score"] for record in own),
                "max_score": own[0]["max_score"],
                "checks": checks,
                "misconceptions": misconceptions,
                "rows": _rows(course, path, own, names),
            }
        )
    environment = Environment(loader=PackageLoader("autograder"), autoescape=select_autoescape())
    page = environment.get_template("report.html.j2").render(
        assignments=assignments,
        students=len({record["student"] for record in records}),
        anonymous=anonymous,
        open=sum(not record.get("sandbox") for record in records),
        kinds=Counter(record["kind"] for record in records).most_common(),
        graded_at=max(record["graded_at"] for record in records),
    )
    path.write_text(page, encoding="utf-8")


def graded(course):
    """Return the records of all graded submissions, with the scores that the gradebook has for them now."""
    records = []
    for row in gradebook.rows(course) if _exists(course) else []:
        name, student = row["assignment"], row["student_id"]
        exercise = next((e for e in course.exercises() if e.name == name), None)
        record = exercise and record_of(course, Submission(student, exercise, course.into))
        if record:
            records.append({**record, **{name: row[name] for name in ("score", "max_score", "needs_manual_grade")}})
    return records


def _exists(course):
    return bool(course.db) or (course.into / "gradebook.db").exists()


def _numbers(records):
    """Return a number for each student, in an order that tells nothing of names or grades."""
    students = sorted({record["student"] for record in records})
    random.SystemRandom().shuffle(students)
    return {student: f"Student {number}" for number, student in enumerate(students, 1)}


def _histogram(shares):
    counts = [0] * BINS
    for share in shares:
        counts[min(int(share * BINS), BINS - 1)] += 1
    width = 100 // BINS
    most = max(counts)
    return [
        {"label": f"{i * width}–{(i + 1) * width} %", "count": count, "height": 100 * count / most}
        for i, count in enumerate(counts)
    ]


def _rows(course, path, records, names):
    rows = []
    for record in records:
        page = course.into / "feedback" / record["student"] / record["assignment"] / f"{record['assignment']}.html"
        link = os.path.relpath(page, path.resolve().parent).replace(os.sep, "/")
        rows.append(
            {
                "student": names.get(record["student"], record["student"]),
                "link": "" if names else link,
                "score": record["score"],
                "kind": record["kind"],
                "manual": record["needs_manual_grade"],
                # What a file was called, or what an error said, may name its author.
                "reasons": _nameless(record) if names else reasons(record),
                "earlier": len(record["history"]),
                "evidence": [] if names else record.get("evidence", []),
            }
        )
    return sorted(rows, key=lambda row: _natural(row["student"]))


def _nameless(record):
    clean = {
        **record,
        "repairs": [],
        "reason": "not a notebook" if record["kind"] == "malformed" else record["reason"],
    }
    clean["cells"] = {
        name: {**cell, "error": "the cell ended in an error" if cell["error"] else ""}
        for name, cell in record["cells"].items()
    }
    return reasons(clean)


def _natural(name):
    head, _, number = name.rpartition(" ")
    return (head, int(number), name) if number.isdigit() else (name, 0, name)

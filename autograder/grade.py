"""Grading a class: every submission gets a grade and a reason, whatever was handed in.

Workers grade (`autograder.work`); this process hands out the work and is the one writer of the gradebook and of the
files. What is written last of a submission is its record: where that is, all of it is.
"""

import hashlib
import hmac
import html
import json
import os
import secrets
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime

import nbformat
from nbgrader.utils import parse_utc

from autograder import gradebook, pool, work
from autograder.course import UserError
from autograder.outputs import plain

RECORD = "grade.json"
TRIES = 3


def course_secret(course):
    """Return the secret from which each submission's draws follow; made once, kept in `.course-secret`."""
    path = course.into / ".course-secret"
    if not path.exists() or not path.read_text().strip():
        new = path.with_name(f".course-secret.{os.getpid()}")
        new.touch(mode=0o600)
        new.write_text(secrets.token_hex(32) + "\n")
        new.replace(path)
    return path.read_text().strip()


def seed_for(secret, purpose, digest):
    """Return a seed: the same for the same purpose and hand-in, unknown to who handed it in."""
    mac = hmac.new(secret.encode(), f"{purpose}\0{digest}".encode(), hashlib.sha256)
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


def current(course, book, item, digest, version):
    """Return the record of a submission that needs no grading again, or None."""
    record = record_of(course, item)
    page = course.into / "feedback" / item.student / item.exercise.name / f"{item.exercise.name}.html"
    if not record or record["submission"] != digest or record["exercise"] != version or not page.exists():
        return None
    if record["kind"] == "infrastructure":
        return None
    now = gradebook.standing(book, item)
    return {**record, **now} if now else None


def grade_all(
    course, book, items, versions, setting, nursery, jobs=1, force=False, redraw=False, on_start=lambda item: None
):
    """Grade submissions with `jobs` workers; yield each one's record as it is written, and whether it is an old one.

    Parameters
    ----------
    course : Course
    book : Gradebook
        Open; this process alone writes to it.
    items : list of Submission
    versions : dict
        The digest of each released exercise.
    setting : Setting
        Where workers work.
    nursery : Nursery or None
        Where their guests come from; see `pool.nursery`.
    jobs : int
        How many processes grade at one time.
    force, redraw : bool
        Whether to grade what has a grade already, and whether with inputs drawn anew.
    on_start : callable, optional
        Called with each submission when its turn comes.
    """
    secret = course_secret(course)
    waiting, running, suspects = deque(items), {}, deque()
    workers = None
    try:
        while waiting or running or suspects:
            # When a worker died, what it may have died of is tried again, one at a time.
            most, broken = 1 if suspects else 2 * jobs, False
            while (waiting or suspects) and len(running) < most:
                if suspects:
                    task = suspects.popleft()
                else:
                    item = waiting.popleft()
                    on_start(item)
                    unit = item.read(setting.limits)
                    old = (
                        None
                        if force or redraw
                        else current(course, book, item, unit.digest, versions[unit.assignment])
                    )
                    book.db.rollback()  # leave no transaction open while submissions run
                    if old:
                        yield old, True
                        continue
                    drawn = f"{unit.assignment}\0{secrets.token_hex(8)}" if redraw else unit.assignment
                    unit.seed = seed_for(secret, drawn, unit.digest)
                    unit.guest_seed = seed_for(secret, f"guest\0{unit.assignment}", unit.digest)
                    task = _Task(item, unit)
                workers = workers or pool.Workers(jobs, setting, nursery)
                if not _submit(task, workers, running):
                    suspects.appendleft(task)
                    broken = True
                    break
            done = wait(running, return_when=FIRST_COMPLETED)[0] if running else ()
            for future in done:
                task = running.pop(future)
                try:
                    answer = workers.result(future)
                except BrokenProcessPool:
                    broken = True
                    suspects.append(task)
                    continue
                except Exception as error:  # the page could not be made; the grade is safe
                    yield (
                        task.write(course, _bare_page(task, error), versions[task.unit.assignment], setting.sandbox),
                        False,
                    )
                    continue
                if task.result is None:
                    task.result, task.tries = answer, 0
                    task.save(course, book)
                    if not _submit(task, workers, running):
                        suspects.append(task)
                        broken = True
                else:
                    yield task.write(course, answer, versions[task.unit.assignment], setting.sandbox), False
            if broken:
                suspects.extend(running.values())
                running.clear()
                workers.close()
                workers = None
                for task in [task for task in suspects if task.tries >= TRIES]:
                    suspects.remove(task)
                    yield task.give_up(course, book, versions[task.unit.assignment], setting.sandbox), False
    finally:
        if workers:
            workers.close()


def _submit(task, workers, running):
    """Give a task's next step to a worker; tell whether there still is any."""
    try:
        running[task.submit(workers)] = task
    except BrokenProcessPool:
        return False
    return True


class _Task:
    """One submission on its way: graded by a worker, saved here; its page made by a worker, its record here."""

    def __init__(self, item, unit):
        self.item, self.unit, self.result, self.saved, self.tries = item, unit, None, None, 0

    def submit(self, workers):
        """Give a worker what comes next."""
        self.tries += 1
        if self.result is None:
            return workers.submit("grade", self.unit)
        return workers.submit("page", self.unit, self.result["notebook"], self.saved)

    def save(self, course, book):
        """Write the points into the gradebook."""
        self.timestamp, unread = _timestamp(self.unit.stamp)
        self.result["repairs"] += unread
        notebook = nbformat.v4.reads(self.result["notebook"])
        lines = reasons({**self.result, "penalty": 0})
        comment = (
            "\n\n".join(plain(line) for line in lines)
            if self.result["kind"] != "right" or self.result["repairs"]
            else ""
        )
        ungraded = self.result["kind"] == "infrastructure"
        self.saved = gradebook.save(course, book, self.unit, notebook, self.timestamp, comment[:5000], ungraded)

    def write(self, course, page, version, isolated):
        """Write the graded notebook, the page and the record; return the record."""
        earlier = record_of(course, self.item) or {}
        record = {
            "student": self.unit.student,
            "assignment": self.unit.assignment,
            "submission": self.unit.digest,
            "exercise": version,
            "seed": self.unit.seed,
            "sandbox": isolated,
            "graded_at": datetime.now(UTC).isoformat(timespec="seconds"),
            **{name: value for name, value in self.result.items() if name != "notebook"},
            **{name: value for name, value in self.saved.items() if name != "cells"},
        }
        history = earlier.pop("history", [])
        record["history"] = history + ([earlier] if earlier else [])
        name = self.unit.assignment
        graded, pages = (course.into / kind / self.unit.student / name for kind in ("autograded", "feedback"))
        for folder in (graded, pages):
            folder.mkdir(parents=True, exist_ok=True)
        files = {
            graded / f"{name}.ipynb": self.result["notebook"],
            pages / f"{name}.html": page,
            graded / RECORD: json.dumps(record, indent=1, ensure_ascii=False),
        }
        if self.unit.stamp is not None:
            files = {graded / "timestamp.txt": self.unit.stamp, **files}
        for path, text in files.items():
            new = path.with_name(path.name + ".new")
            new.write_text(text, encoding="utf-8")
            new.replace(path)
        return record

    def give_up(self, course, book, version, isolated):
        """Write that workers died of this submission again and again: our fault, and no zero."""
        if self.result:  # graded, and only the page is missing
            return self.write(course, _bare_page(self, "the process that made it ended"), version, isolated)
        released = nbformat.read(self.item.exercise.notebook, as_version=4)
        self.result = work.ungraded(released, f"the process that graded it ended, {TRIES} times")
        self.save(course, book)
        notebook = nbformat.reads(self.result["notebook"], as_version=4)
        page = gradebook.feedback_page(course, self.unit, notebook, self.saved)
        return self.write(course, page, version, isolated)


def _bare_page(task, error):
    """Return a page in place of one that could not be made: the points, the reasons, and whose fault it is."""
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in reasons({**task.saved, **task.result}))
    return (
        f"<!doctype html><meta charset='utf-8'><title>{html.escape(task.unit.assignment)}</title>"
        f"<h1>{html.escape(task.unit.assignment)}: {task.saved['score']:g} of {task.saved['max_score']:g} points</h1>"
        f"<ul>{lines}</ul><p>The full page could not be made, through our own fault: {html.escape(str(error))}</p>"
    )


def reasons(record):
    """Return a line for each cell that lost points: how many, what did not hold, and the likely cause."""
    lines = []
    if record["reason"]:
        lines.append(f"{record['kind']}: {record['reason']}")
    if record["kind"] not in ("malformed", "infrastructure"):
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


def _timestamp(stamp):
    """Return when a submission came in (UTC, without a zone, as the gradebook wants it), or None."""
    if stamp is None:
        return None, []
    try:
        return parse_utc(stamp.strip()), []
    except (ValueError, OverflowError):
        return None, ["timestamp.txt could not be read as a date; the submission counts as in time."]


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

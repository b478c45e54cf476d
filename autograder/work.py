"""What a worker does: one submission in, a graded notebook and its reasons out. It never sees the gradebook.

A worker is a process of its own: the judge of the submissions it is given, with a nursery for their guests. The
unit of work and the result are plain values.
"""

import contextlib
import copy
import gc
import html
import json
import multiprocessing.connection
import os
import pickle
import re
import shutil
import signal
import threading
from pathlib import Path

import nbformat
from nbgrader.utils import determine_grade, is_grade

from autograder import engine, gradebook, submission
from autograder.course import Course, Exercise
from autograder.judge import Fault, Judge
from autograder.sandbox import Bare, Lane, Nursery

MOST_MEMORY = 8 << 30


class Worker:
    """Grades submissions, one after another."""

    def __init__(self, setting, lane=None):
        self.setting, self.course = setting, Course(root=Path(setting.root), into=Path(setting.root))
        self.released, self.judges = {}, {}
        for name in setting.exercises:
            exercise = Exercise(name, self.course.root)
            self.released[name] = nbformat.read(exercise.notebook, as_version=4)
            self.judges[name] = Judge(exercise)
        if not setting.sandbox:
            self.guests = Bare(setting.limits)
        elif lane:
            self.guests = Lane(lane, setting.limits)
        else:
            self.guests = Nursery(setting.limits, (), setting.hidden)
        self.guests.start()

    def close(self):
        """End what this worker started."""
        self.guests.close()

    def grade(self, unit, on_cell=lambda cell: None):
        """Grade one submission.

        Returns
        -------
        dict
            `kind` and `reason`, `repairs` (sentences), `evidence` (what was found altered), `cells` (by grade
            id), and the graded `notebook` as text. What our own fault left ungraded has the kind infrastructure.
        """
        for attempt in (1, 2):
            try:
                return self._grade(unit, on_cell)
            except Exception as error:  # whatever it is, it is not the student's
                known = isinstance(error, (Fault, RuntimeError))
                fault = str(error) if known else f"{type(error).__name__}: {error}"
                if attempt == 2:
                    return ungraded(self.released[unit.assignment], fault)

    def page(self, unit, text, saved):
        """Return the feedback page of a graded notebook, with what the gradebook says of it."""
        return gradebook.feedback_page(self.course, unit, nbformat.v4.reads(text), saved)

    def _grade(self, unit, on_cell):
        released = self.released[unit.assignment]
        repairs = [unit.left_out] if unit.left_out else []
        if unit.data is not None and unit.notebook != f"{unit.assignment}.ipynb":
            repairs.append(f"The notebook was called {unit.notebook} and has been taken all the same.")
        try:
            if unit.data is None:
                raise submission.Malformed(unit.problem)
            restored = submission.restore(submission.parse(unit.data, unit.notebook), released)
        except submission.Malformed as error:
            notebook = copy.deepcopy(released)
            for cell in notebook.cells:
                if engine.is_check(cell):
                    engine.set_outcome(cell, 0.0)
            return _result("malformed", str(error), notebook, repairs, [])
        ended = self.run(unit, restored.notebook, on_cell)
        kind, reason, evidence = outcome(ended, restored.evidence)
        return _result(kind, reason, restored.notebook, repairs + restored.repairs, evidence)

    def run(self, unit, notebook, on_cell=lambda cell: None):
        """Run a restored notebook; return what ended its guests, as `engine.execute` does."""
        judge = self.judges[unit.assignment]
        released = submission.beside(judge.exercise.released, self.setting.limits["beside_mb"])[0]
        return engine.execute(
            notebook,
            judge,
            self.guests,
            self.setting.limits,
            unit.seed,
            unit.guest_seed,
            {**unit.files, **released},
            on_cell,
        )


def outcome(ended, evidence):
    """Return the kind of an outcome that has nothing to do with points (or nothing), its reason, and the evidence.

    Parameters
    ----------
    ended : list of tuple
        What ended guests, as `engine.execute` returns it.
    evidence : list of str
        The locked cells that had been altered.
    """
    stops = [f"In the cell {name}: {error}" for name, error in ended]
    forged = [line for line, (_, error) in zip(stops, ended, strict=True) if error.kind == "hostile"]
    if forged or evidence:
        reason = " ".join(forged) or "a locked cell was altered; it was restored before grading."
        return "hostile", reason, [*evidence, *forged]
    if ended:
        return "limit", " ".join(dict.fromkeys(stops)), []
    return "", "", []


def ungraded(released, fault):
    """Return the result of a submission that our own fault left without a grade."""
    reason = f"our own fault, so that these points wait for a person: {fault}"
    return _result("infrastructure", reason, copy.deepcopy(released), [], [])


def _result(kind, reason, notebook, repairs, evidence):
    cells = {cell.metadata.nbgrader.grade_id: _cell_record(cell) for cell in notebook.cells if is_grade(cell)}
    if not kind:
        lost = any(own["points"] < own["max_points"] for own in cells.values())
        kind = "wrong" if lost else "right"
    read = [name for name, own in cells.items() if own["manual"] and not own["error"]]
    notes = [f"The points for {name} are given by the person who reads it; until then they are 0." for name in read]
    notes = repairs + notes
    if kind not in ("right", "wrong") or notes:
        notebook.cells.insert(0, head(kind, reason, notes, evidence))
    return {
        "kind": kind,
        "reason": reason,
        "repairs": repairs,
        "evidence": evidence,
        "cells": cells,
        "notebook": json.dumps(notebook, ensure_ascii=False),
    }


def head(kind, reason, repairs, evidence):
    """Return the cell that says at the head of the graded notebook what happened to it."""
    parts = [f"<strong>{html.escape(kind)}</strong>" + (f": {html.escape(reason)}" if reason else "")]
    parts += [html.escape(line) for line in repairs]
    text = "".join(f"<p>{part}</p>" for part in parts)
    text += "".join(f"<pre>{html.escape(lines)}</pre>" for lines in evidence)
    cell = nbformat.v4.new_markdown_cell(re.sub(r"\n\s*\n", "\n", text).replace("\n", "&#10;"))
    cell.id = "outcome"
    return cell


def _cell_record(cell):
    if not engine.is_check(cell):  # graded by hand: only an untouched cell has points already, none
        points, most = determine_grade(cell)
        error = "" if points is None else "no response"
        points = most if points is None else points
        return {"points": points, "max_points": most, "manual": True, "subject": "", "checks": [], "error": error}
    points, most = engine.points_of(cell)
    report = engine.report_of(cell) or {}
    kept = ("name", "title", "weight", "status", "message", "cause", "hint")
    text = "".join(out.get("text", "") for out in cell.outputs if out.output_type == "stream").strip()
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # a traceback's colours
    return {
        "points": points,
        "max_points": most,
        "manual": False,
        "subject": report.get("subject", ""),
        "checks": [{key: check[key] for key in kept} for check in report.get("results", [])],
        "error": "" if report else text.splitlines()[-1][:200] if text else "",
    }


_worker = None


def start(setting, lanes, taken, folder):
    """Make this process a worker, which ends with the process that asked for it, however that one ends."""
    global _worker
    with taken.get_lock():
        number, taken.value = taken.value, taken.value + 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ImportError):  # no such thing on Windows
        import resource

        # What a guest makes the judge compute ends in a MemoryError, not with the machine.
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        soft = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(MOST_MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    parent = multiprocessing.parent_process().sentinel
    threading.Thread(target=_end_with, args=(parent, folder), daemon=True).start()
    _worker = Worker(setting, lanes[number % len(lanes)] if lanes else None)
    gc.collect()
    gc.freeze()


def _end_with(sentinel, folder):
    multiprocessing.connection.wait([sentinel])
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def call(path):
    """Call a method of this process's worker, as the file says; return the name of the file with the answer."""
    name, arguments = pickle.loads(path.read_bytes())
    path.unlink()
    try:
        answer = getattr(_worker, name)(*arguments)
    except Exception as error:
        answer = RuntimeError(f"{type(error).__name__}: {error}")
    told = path.with_suffix(".answer")
    told.write_bytes(pickle.dumps(answer))
    return told

"""One submission in, its outcome out; and its feedback page. All grading goes through here.

A worker has the judges of the exercises it was made for, and the source of their guests. It never
sees the gradebook: the unit of work and the outcome are plain values.
"""

import contextlib
import copy
import dataclasses
import functools
import importlib.metadata
import json
import os
import platform
import socket
import time
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import nbformat

from autograder.checking import machine, words
from autograder.checking.words import Message
from autograder.course import archive
from autograder.course.cells import (
    Cell,
    Notebook,
    grade_id,
    is_check,
    is_graded,
    is_locked,
    points_worth,
    set_points,
    texts,
)
from autograder.course.config import edition_of
from autograder.course.limits import Limits
from autograder.feedback import outcome_cell
from autograder.grades import requests
from autograder.grades.results import CellResult, Kind, Outcome, StoredGrades
from autograder.grading.file_kinds import encoding_notes
from autograder.grading.judge import Checked, Judge, killed_after
from autograder.grading.notebook import (
    NO_ROOM,
    Malformed,
    Restored,
    editions_of,
    parse,
    restore,
)
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.remote import TOO_LONG, CourseCheckError
from autograder.grading.run import Execution, execute, execution_of_ended_judge
from autograder.grading.submissions import Unit, beside
from autograder.grading.worker_config import WorkerConfig
from autograder.sandbox.guest import Ended
from autograder.sandbox.guests import Guests
from autograder.sanitize import text
from autograder.sanitize.outputs import MOST_NOTES, bound, clean_markdown

TRIES = 2
"""How often a submission is graded, if a fault of our own ends that."""
MOST_FAULT = 300
ALTERED = "a locked cell was changed; it was restored before grading."
IN_CELL = "In the cell {cell}: {reason}"
OUR_FAULT = "our own fault; a person will give these points: {fault}"
COMPUTING = ("numpy", "torch", "triton")
NO_RESPONSE = Message("no response")
MORE_NOTES = "Further remarks of this kind are left out."
MODERATE = 1_000_000
"""Bytes of a notebook for which the memory of a worker is enough, unless the fault is ours."""
PREPARE_SECONDS = 60.0
"""Half of the seconds of computing after which the kernel ends a worker that reads a notebook or
makes a page: ordinary ones take a thousandth of that.
"""


class Worker:
    """Grades submissions, one after another.

    Parameters
    ----------
    worker_config : WorkerConfig
    guests : Guests, optional
        Where guests come from; by default what the configuration asks for.
    """

    def __init__(self, worker_config: WorkerConfig, guests: Guests | None = None):
        self.worker_config = worker_config
        trial_results = dict(worker_config.trial_results)
        # Checks run in this process, and would try for themselves what was tried where guests run.
        machine.presume(trial_results)
        if trial_results.get("gpu"):  # what a guest cannot use, no check may ask for
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self.guests = guests or worker_config.guests()
        self.guests.start()
        self.released: dict[str, dict[str, Notebook]] = {}
        self.locales: dict[str, zipfile.Path | None] = {}
        self.judges: dict[str, Judge] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.limits: dict[str, Limits] = {}
        for name in worker_config.exercises:
            exercise, limits = worker_config.exercise(name), worker_config.limits_of(name)
            self.released[name] = editions_of(exercise)
            self.locales[name] = archive.locales(exercise)
            self.judges[name] = Judge(exercise, limits)
            self.files[name] = beside(exercise.released, limits.beside_mb)[0]
            self.limits[name] = limits

    def close(self) -> None:
        """End what this worker started."""
        self.guests.close()

    def grade(self, unit: Unit, on_cell: Callable[[Cell], None] = lambda cell: None) -> Outcome:
        """Grade one submission.

        What our own fault left ungraded has the kind infrastructure; it is tried twice.
        """
        start = time.perf_counter()
        outcome = self._tried(unit, on_cell)
        outcome.took = round(time.perf_counter() - start, 3)
        outcome.worker = f"{socket.gethostname()}/{os.getpid()}"
        outcome.versions = versions()
        return outcome

    def stopped(self, unit: Unit) -> Outcome:
        """Return the outcome of a submission that kept a worker computing until the kernel ended
        it: no points.
        """
        return self._tried(unit, lambda cell: None, runs=False)

    def _tried(self, unit: Unit, on_cell: Callable[[Cell], None], runs: bool = True) -> Outcome:
        fault = ""
        for _ in range(TRIES):
            try:
                return self._grade(unit, on_cell, runs)
            except MemoryError:  # it would take as much a second time
                fault = "the memory for its results was used up"
                break
            except Exception as error:  # whatever it is, it is not the student's
                known = isinstance(error, (CourseCheckError, RuntimeError))
                fault = str(error) if known else f"{type(error).__name__}: {error}"
        return ungraded(self.released[unit.assignment][self._language_here(unit)], fault)

    def page(self, unit: Unit, notebook: str, stored: StoredGrades) -> tuple[str, float]:
        """Return the feedback page of a graded notebook, with what the gradebook says of it, and
        how long it took.
        """
        start = time.perf_counter()
        limits, locales = self.limits[unit.assignment], self.locales[unit.assignment]
        with _bounded():
            html = page(unit, notebook, stored, limits, locales)
        return html, time.perf_counter() - start

    def apply(self, unit: Unit, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function makes of this worker, a submission and more arguments, such as
        a race's lap.
        """
        return function(self, unit, *arguments)

    def _grade(self, unit: Unit, on_cell: Callable[[Cell], None], runs: bool) -> Outcome:
        clock = PhaseTimer()
        released, locales = self.released[unit.assignment], self.locales[unit.assignment]
        with clock("restore"), _bounded():
            try:
                if unit.data is None:
                    raise Malformed(unit.problem)
                submitted = parse(unit.data, unit.notebook)
            except Malformed as error:
                # A file that cannot be read has no metadata: its name may say the language.
                language = self._edition(
                    unit, edition_of(unit.notebook)[1] or self._language_here(unit)
                )
                with words.use(language, locales):
                    return malformed(released[language], unit, error.message)
        language = self._edition(unit, words.language_of(submitted) or edition_of(unit.notebook)[1])
        with words.use(language, locales):
            return self._judged(unit, submitted, released[language], clock, on_cell, runs)

    def _edition(self, unit: Unit, language: str) -> str:
        """Return the language of the released notebook that is meant by a language; "" for the
        English one.
        """
        released = self.released[unit.assignment]
        prefix = language.partition("_")[0]
        editions = [edition for edition in released if prefix and edition.startswith(prefix)]
        return editions[0] if editions else ""

    def _language_here(self, unit: Unit) -> str:
        """Return the language that the environment asks for."""
        return words.environment_language(list(filter(None, self.released[unit.assignment])))

    def _judged(
        self,
        unit: Unit,
        submitted: Notebook,
        released: Notebook,
        clock: PhaseTimer,
        on_cell: Callable[[Cell], None],
        runs: bool,
    ) -> Outcome:
        """Run what is a notebook, and return what it is worth; all that is said is in the language
        in use.

        Without `runs`, nothing is run: its judge was ended.
        """
        limits = self.limits[unit.assignment]
        with clock("restore"), _bounded():
            try:
                restored = restore(submitted, released, unit.files)
                asked, unread = requests.found_in(restored.notebook.cells)
                student_cells = [
                    cell for cell in restored.notebook.cells if cell.id not in restored.as_released
                ]
                left_out = clean_markdown(student_cells, limits)
            except MemoryError:
                if len(unit.data or b"") < MODERATE:
                    raise
                return malformed(released, unit, Message(NO_ROOM, name=unit.notebook))
        # After `restore`, which looks for answers in the student's own files only.
        unit.files = {**unit.files, **self.files[unit.assignment]}
        judge = self.judges[unit.assignment]
        if not runs:
            execution = execution_of_ended_judge(
                restored.notebook, Ended(Message(TOO_LONG, seconds=f"{limits.judge_seconds:g}"))
            )
        else:
            execution = execute(restored.notebook, judge, self.guests, unit, limits, clock, on_cell)
        kind, reason, evidence = _ending(execution, restored.evidence)
        with clock("serialise"):
            notes = unit.notes + encoding_notes(unit.data, unit.notebook)
            notes += restored.repairs + left_out + execution.lacking.notes() + unread
            if len(notes) > MOST_NOTES:
                notes = [*notes[:MOST_NOTES], Message(MORE_NOTES)]
            stops = [(cell, error.message) for cell, error in execution.guest_ends if cell]
            outcome = _outcome(kind, reason, notes, evidence, restored, execution.checked, stops)
            # too many bytes: a letter has up to 4
            perhaps = len(outcome.notebook) > limits.graded_mb * 250_000
            if perhaps and bound(restored.notebook, limits, is_locked):
                outcome.notebook = json.dumps(restored.notebook, ensure_ascii=False)
        outcome.requests = asked
        outcome.seconds = clock.seconds
        return outcome


def _bounded() -> contextlib.AbstractContextManager[None]:
    """Let the kernel end this worker if a notebook keeps it computing while nothing is run."""
    return killed_after(PREPARE_SECONDS) if Judge.expendable else contextlib.nullcontext()


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions on which results may depend to the last digit, and the machine, by
    name.
    """
    installed = {"Python": platform.python_version()}
    for name in COMPUTING:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return {**installed, "machine": f"{platform.system()} {platform.machine()}"}


def page(
    unit: Unit, notebook: str, stored: StoredGrades, limits: Limits, locales: zipfile.Path | None
) -> str:
    """Return the feedback page of a graded notebook, in its language, with what the gradebook
    says of it.
    """
    # templates, which whoever only grades need not load
    from autograder.feedback.page import render

    graded = nbformat.from_dict(json.loads(notebook))
    with words.use(words.language_of(graded), locales):
        return render(
            graded,
            stored,
            assignment=unit.assignment,
            student=unit.student,
            most_mb=limits.graded_mb,
        )


def malformed(released: Notebook, unit: Unit, reason: Message) -> Outcome:
    """Return the outcome of what is no notebook: the released one, worth nothing."""
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        if is_check(cell):
            set_points(cell, 0.0)
    return _outcome(Kind.MALFORMED, reason, unit.notes, [], _untouched(notebook), {})


def ungraded(released: Notebook, fault: str) -> Outcome:
    """Return the outcome of a submission that our own fault left without a grade."""
    reason = Message(OUR_FAULT, fault=text.line(fault, MOST_FAULT))
    return _outcome(Kind.INFRASTRUCTURE, reason, [], [], _untouched(copy.deepcopy(released)), {})


def _untouched(notebook: Notebook) -> Restored:
    return Restored(notebook, as_released={cell.id for cell in notebook.cells})


def _ending(execution: Execution, altered: list[str]) -> tuple[Kind | None, Message, list[str]]:
    """Return the kind of an outcome that has nothing to do with points (or nothing), its reason,
    and the evidence.
    """
    stops = [
        (error.kind, Message(IN_CELL, cell=cell, reason=error.message) if cell else error.message)
        for cell, error in execution.guest_ends
    ]
    forged = [message for kind, message in stops if kind == Kind.HOSTILE]
    if forged or altered:
        reason = _joined(forged) if forged else Message(ALTERED)
        return Kind.HOSTILE, reason, [*altered, *(str(message) for message in forged)]
    if stops:
        return Kind.LIMIT, _joined([message for _, message in stops]), []
    return None, Message(""), []


def _joined(messages: list[Message]) -> Message:
    """Return several sentences as one, none of them twice."""
    different = list({str(message): message for message in messages}.values())
    if len(different) == 1:
        return different[0]
    names = [f"part{number}" for number in range(len(different))]
    return Message(
        " ".join(f"{{{name}}}" for name in names), **dict(zip(names, different, strict=True))
    )


def _outcome(
    kind: Kind | None,
    reason: Message,
    notes: list[Message],
    evidence: list[str],
    restored: Restored,
    checked: dict[str, Checked],
    stops: Sequence[tuple[str, Message]] = (),
) -> Outcome:
    """Return the outcome of a graded notebook, and put the general remarks at its top."""
    notebook = restored.notebook
    cells = {
        grade_id(cell) or cell.id: _cell_result(
            cell, checked.get(grade_id(cell) or cell.id), cell.id in restored.as_released
        )
        for cell in notebook.cells
        if is_graded(cell)
    }
    if kind is None:
        # Points of checks are fractions of a cell's: their sums differ in the last digits.
        lost = any(result.lost() > 1e-9 for result in cells.values())
        kind = Kind.WRONG if lost else Kind.RIGHT
    if kind not in (Kind.RIGHT, Kind.WRONG) or notes:
        summary = outcome_cell.Summary(kind, reason, notes, evidence, list(stops))
        notebook.cells.insert(0, outcome_cell.cell(summary))
    return Outcome(kind, reason, notes, evidence, cells, json.dumps(notebook, ensure_ascii=False))


def _cell_result(cell: Cell, checked: Checked | None, untouched: bool) -> CellResult:
    most = points_worth(cell)
    if not is_check(cell):  # graded by hand: only an untouched cell has points already, none
        if untouched:
            return CellResult(0.0, most, is_graded_by_hand=True, error=NO_RESPONSE)
        return CellResult(most, most, is_graded_by_hand=True)  # nothing is lost yet
    if checked is None:
        return CellResult(0.0, most)
    report = checked.report
    # A check cell with plain assertions has no report: the last line that it printed says why.
    if report is None:
        printed = "".join(texts(cell)).strip()
        last = text.line(printed.splitlines()[-1], 200) if printed else ""
        error = checked.error if str(checked.error) else Message(last)
        return CellResult(checked.points, most, error=error)
    pending = round(min(report.pending, most - checked.points), 4)
    return CellResult(
        checked.points,
        most,
        subject=report.subject,
        # The graded notebook has the numbers; those of a whole class would fill the memory.
        checks=[dataclasses.replace(result, where=None) for result in report.results],
        pending=pending,
        replaced_functions=report.instead,
    )

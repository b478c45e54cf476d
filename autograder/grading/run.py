"""Runs a restored notebook, and leaves in each check cell exactly one outcome.

A student's cells run in a guest, check cells in the judge. A guest that dies costs the cell that
killed it: a new one runs the cells before it again, and the rest is graded. What stands behind the
last graded cell of code changes no grade, and is not run.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import nbformat

from autograder.checking.words import Message
from autograder.course import imports
from autograder.course.cells import (
    Cell,
    Notebook,
    grade_id,
    is_check,
    is_code,
    is_locked,
    is_skipped,
    last_graded,
    new_output,
    set_points,
)
from autograder.course.limits import Limits
from autograder.grading.judge import Checked, Judge
from autograder.grading.lacking import Lacking
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.submissions import Unit
from autograder.sandbox.budget import Budget
from autograder.sandbox.guest import Ended, Guest
from autograder.sandbox.guests import Guests
from autograder.sanitize.outputs import Collected

STOPPED = "This cell was stopped: {reason}"
STOPPED_IN_CHECK = "Stopped in this check: {reason}"
CUT = "[The rest of the output was cut off.]"
CELL_NOT_RUN = "This cell was not run, because cells of this notebook made Python exit too often."
CHECK_NOT_RUN = "This check was not run, because cells of this notebook made Python exit too often."
BEHIND = "The cells from here on do not affect the grade and were not run."


@dataclass
class Execution:
    """The results of running a notebook.

    Attributes
    ----------
    checked : dict
        The outcome of each check cell, by grade id.
    stops : list of tuple
        The ids of cells that ended their guest, and why.
    lacking : Lacking
        What the student's cells went on without, because this machine lacks it.
    """

    checked: dict[str, Checked] = field(default_factory=dict)
    stops: list[tuple[str, Ended]] = field(default_factory=list)
    lacking: Lacking = field(default_factory=Lacking)


def execute(
    notebook: Notebook,
    judge: Judge,
    guests: Guests,
    unit: Unit,
    limits: Limits,
    clock: PhaseTimer | None = None,
    on_cell: Callable[[Cell], None] = lambda cell: None,
) -> Execution:
    """Run `notebook` cell by cell, its check cells in the judge; its outputs are filled in.

    Parameters
    ----------
    notebook : Notebook
        As `notebook.restore` makes it.
    judge : Judge
    guests : Guests
        The source of guests.
    unit : Unit
        Whose work it is: the seeds, of which no guest learns the checks', and the files beside the
        notebook.
    limits : Limits
        What the submission may use; see `autograder.course.limits`.
    clock : PhaseTimer, optional
        Counts the time of each phase.
    on_cell : callable, optional
        Called with each code cell after it ran.

    Raises
    ------
    Fault, RuntimeError
        If our own part failed: the checks, or the sandbox.
    """
    run = _Run(judge, guests, unit, limits, clock or PhaseTimer())
    end = len(notebook.cells) if limits.run_all_cells else last_graded(notebook.cells) + 1
    cells = [cell for cell in notebook.cells[:end] if is_code(cell) and not is_skipped(cell)]
    judge.begin(unit.seed, run.clock)
    try:
        for index, cell in enumerate(cells):
            cell.outputs, cell.execution_count = [], None
            run.cell(cell, cells[:index])
            on_cell(cell)
    finally:
        run.close()
    behind = [cell for cell in notebook.cells[end:] if is_code(cell)]
    for cell in behind:
        cell.outputs, cell.execution_count = [], None
    if behind:
        behind[0].outputs = [_line("stdout", Message(BEHIND))]
    return run.execution


def not_run(notebook: Notebook, ended: Ended) -> Execution:
    """Return the execution of a notebook whose judge was ended: at which cell is not known, so
    none is run.
    """
    execution = Execution(stops=[("", ended)])
    for cell in filter(is_code, notebook.cells):
        cell.outputs, cell.execution_count = [], None
        if is_check(cell):
            error = Message(STOPPED_IN_CHECK, reason=ended.message)
            cell.outputs = [_line("stdout", error)]
            execution.checked[grade_id(cell) or cell.id] = Checked(
                set_points(cell, 0.0), error=error
            )
    return execution


class _Run:
    """One submission's run: its guests, one after another, and the results of its cells."""

    def __init__(self, judge: Judge, guests: Guests, unit: Unit, limits: Limits, clock: PhaseTimer):
        self.judge, self.guests, self.unit, self.limits, self.clock = (
            judge,
            guests,
            unit,
            limits,
            clock,
        )
        self.budget = Budget(limits)
        self.execution = Execution()
        self.guest: Guest | None = None
        self.killers: set[str] = set()

    def cell(self, cell: Cell, before: list[Cell]) -> None:
        """Run one code cell, or say why it is not run."""
        if len(self.execution.stops) >= self.limits.deaths:
            if is_check(cell):
                self._settle(cell, Checked(error=Message(CHECK_NOT_RUN)))
                cell.outputs.insert(0, _line("stdout", Message(CHECK_NOT_RUN)))
            else:
                cell.outputs = [_line("stderr", Message(CELL_NOT_RUN))]
        elif is_check(cell):
            self._check(cell, before)
        else:
            self._run(cell, before)

    def _run(self, cell: Cell, before: list[Cell]) -> None:
        collected = Collected(self.limits)
        try:
            guest = self.guest_after(before)
            with self.clock("student's cells"):
                self.execution.lacking.add(cell, run_cell(guest, cell, collected.add))
        except Ended as error:
            self._lost(cell, error)
            collected.outputs.append(_line("stderr", Message(STOPPED, reason=error.message)))
        if collected.cut:
            collected.outputs.append(_line("stderr", Message(CUT)))
        cell.outputs = collected.outputs
        self.judge.note(cell)

    def _check(self, cell: Cell, before: list[Cell]) -> None:
        try:
            guest = self.guest_after(before)
            with self.clock("checks"):
                run_cell(guest, cell)
                checked = self.judge.check(cell, guest)
            if checked.report:
                self.execution.lacking.add_errors(checked.report)
        except Ended as error:
            checked = Checked(ended=error)
        cell.outputs = [nbformat.from_dict(output) for output in checked.outputs]
        if checked.ended:
            self._lost(cell, checked.ended)
            checked.error = Message(STOPPED_IN_CHECK, reason=checked.ended.message)
            cell.outputs.append(_line("stdout", checked.error))
        self._settle(cell, checked)

    def _settle(self, cell: Cell, checked: Checked) -> None:
        checked.points = set_points(cell, checked.points)
        self.execution.checked[grade_id(cell) or cell.id] = checked

    def guest_after(self, before: list[Cell]) -> Guest:
        """Return a living guest that has run the cells before; raise `Ended` if one of them ends
        it again.
        """
        while self.guest is None or self.guest.ended:
            self.close()
            with self.clock("fork" if self.guests.warm else "warming up"):
                self.guest = self.guests.guest(self.budget)
                start = {
                    "op": "start",
                    "seed": self.unit.guest_seed,
                    "files": list(self.unit.files),
                }
                self.guest.request(start, list(self.unit.files.values()))
            if self.execution.stops:
                with self.clock("student's cells, again"):
                    for cell in before:
                        if cell.id not in self.killers and not self._again(cell):
                            break
        return self.guest

    def _again(self, cell: Cell) -> bool:
        """Run a cell once more, or the imports of a check cell, in a guest that follows one that
        died.
        """
        assert self.guest is not None
        try:
            run_cell(self.guest, cell)
        except Ended as error:  # it went well before, and does not now
            self._lost(cell, error)
            if len(self.execution.stops) > 2 * self.limits.deaths:
                raise
            return False
        return True

    def _lost(self, cell: Cell, error: Ended) -> None:
        self.execution.stops.append((cell.id, error))
        self.killers.add(cell.id)

    def close(self) -> None:
        """End the guest that lives."""
        if self.guest:
            self.guest.close()
            self.guest = None


@contextlib.contextmanager
def running(
    cells: Sequence[Cell], judge: Judge, guests: Guests, unit: Unit, limits: Limits
) -> Iterator[Guest]:
    """Run cells without their checks, and yield the guest that has run them; raise `Ended` if
    one of them ends it.
    """
    run = _Run(judge, guests, unit, limits, PhaseTimer())
    try:
        guest = run.guest_after([])
        for cell in cells:
            run_cell(guest, cell)
        yield guest
    finally:
        run.close()


def run_cell(
    guest: Guest, cell: Cell, on_output: Callable[[Any], None] = lambda output: None
) -> Any:
    """Have a guest run a cell, or the imports of a check cell; return what it says that a
    student's cell lacked.
    """
    if is_check(cell):
        for source in imports.statements([cell]):
            run_in(guest, source)
        return None
    return run_in(guest, cell.source, on_output, goes_on=not is_locked(cell))


def run_in(
    guest: Guest,
    source: str,
    on_output: Callable[[Any], None] = lambda output: None,
    goes_on: bool = False,
) -> Any:
    """Have a guest run the text of a cell, which crosses as bytes: it may be long.

    With `goes_on`, it runs on without packages that are not installed; return what the guest says
    that these are.
    """
    reply, _ = guest.request(
        {"op": "cell", "goes_on": goes_on}, [source.encode()], on_output=on_output
    )
    return reply.get("lacking")


def _line(stream: str, message: Message) -> Cell:
    return new_output("stream", name=stream, text=f"{message}\n")

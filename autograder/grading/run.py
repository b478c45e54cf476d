"""Runs a restored notebook, and leaves in each check cell exactly one outcome.

A student's cells run in a guest, check cells in the judge. A guest that dies costs the cell that
killed it: a new one runs the cells before it again, and the rest is graded. Cells after the last
graded code cell cannot change a grade: they are not run, unless `run_all_cells` is set.
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
from autograder.grading.lacking import MissingPackageNotes
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.submissions import Unit
from autograder.sandbox.budget import Budget
from autograder.sandbox.guest import Ended, Guest
from autograder.sandbox.guests import Guests
from autograder.sanitize.outputs import Collected

STOPPED = "This cell was stopped: {reason}"
STOPPED_IN_CHECK = "Stopped in this check: {reason}"
CUT = "[The rest of the output was cut off.]"
OUTPUT_ROOM = 2
"""How many times the size of a graded notebook its outputs may have while it runs."""
CELL_NOT_RUN = "This cell was not run, because cells of this notebook made Python exit too often."
CHECK_NOT_RUN = "This check was not run, because cells of this notebook made Python exit too often."
REST_NOT_RUN = "The cells from here on do not affect the grade and were not run."


@dataclass
class Execution:
    """The results of running a notebook.

    Attributes
    ----------
    checked : dict
        The outcome of each check cell, by grade id.
    guest_ends : list of tuple
        The ids of cells that ended their guest, and why.
    lacking : MissingPackageNotes
        What the student's cells went on without, because this machine lacks it.
    """

    checked: dict[str, Checked] = field(default_factory=dict)
    guest_ends: list[tuple[str, Ended]] = field(default_factory=list)
    lacking: MissingPackageNotes = field(default_factory=MissingPackageNotes)


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
        Whose work it is: its seeds, of which no guest gets that of the checks, and its files other
        than the notebook.
    limits : Limits
        What the submission may use; see `autograder.course.limits`.
    clock : PhaseTimer, optional
        Counts the time of each phase.
    on_cell : callable, optional
        Called with each code cell after it ran.

    Raises
    ------
    CourseCheckError, RuntimeError
        If our own part failed: the checks, or the sandbox.
    """
    run = _Run(judge, guests, unit, limits, clock or PhaseTimer())
    end = len(notebook.cells) if limits.run_all_cells else last_graded(notebook.cells) + 1
    cells = [cell for cell in notebook.cells[:end] if is_code(cell) and not is_skipped(cell)]
    judge.begin(unit.seed, run.clock)
    try:
        for index, cell in enumerate(cells):
            _clear_outputs(cell)
            run.step(cell, cells[:index])
            on_cell(cell)
    finally:
        run.close()
        judge.begin(0)  # frees what it keeps of this submission, which may be large
    rest = [cell for cell in notebook.cells[end:] if is_code(cell)]
    for cell in rest:
        _clear_outputs(cell)
    if rest:
        rest[0].outputs = [_stream_output("stdout", Message(REST_NOT_RUN))]
    return run.execution


def execution_of_ended_judge(notebook: Notebook, ended: Ended) -> Execution:
    """Return the execution of a notebook whose judge was ended: at which cell is not known, so
    none is run.
    """
    execution = Execution(guest_ends=[("", ended)])
    for cell in filter(is_code, notebook.cells):
        _clear_outputs(cell)
        if is_check(cell):
            error = Message(STOPPED_IN_CHECK, reason=ended.message)
            cell.outputs = [_stream_output("stdout", error)]
            execution.checked[grade_id(cell) or cell.id] = Checked(
                set_points(cell, 0.0), error=error
            )
    return execution


class _Run:
    """One submission's run: its guests, one after another, and the results of its cells."""

    def __init__(self, judge: Judge, guests: Guests, unit: Unit, limits: Limits, clock: PhaseTimer):
        self.judge = judge
        self.guests = guests
        self.unit = unit
        self.limits = limits
        self.clock = clock
        self.budget = Budget(limits)
        self.execution = Execution()
        self.guest: Guest | None = None
        self.fatal_cells: set[str] = set()
        # The graded notebook is cut to `graded_mb` in the end. Until then a notebook of many cells
        # must not fill this process's memory.
        self.output_room = int(OUTPUT_ROOM * limits.graded_mb * 1_000_000)

    def step(self, cell: Cell, earlier_cells: list[Cell]) -> None:
        """Run one code cell, or say why it is not run."""
        # Each new guest runs all earlier cells again: with many ends, that would take hours.
        if len(self.execution.guest_ends) >= self.limits.deaths:
            self._leave_out(cell)
        elif is_check(cell):
            self._run_check_cell(cell, earlier_cells)
        else:
            self._run_student_cell(cell, earlier_cells)

    def _leave_out(self, cell: Cell) -> None:
        """Say in a cell that it is not run; a check cell gets no points."""
        if is_check(cell):
            self._enter(cell, Checked(error=Message(CHECK_NOT_RUN)))
            cell.outputs.insert(0, _stream_output("stdout", Message(CHECK_NOT_RUN)))
        else:
            cell.outputs = [_stream_output("stderr", Message(CELL_NOT_RUN))]

    def _run_student_cell(self, cell: Cell, earlier_cells: list[Cell]) -> None:
        collected = Collected(self.limits, self.output_room)
        try:
            guest = self.guest_after(earlier_cells)
            if guest is None:
                self._leave_out(cell)
                return
            with self.clock("student's cells"):
                self.execution.lacking.add(cell, run_cell(guest, cell, collected.add))
        except Ended as error:
            self._note_end(cell, error)
            collected.outputs.append(
                _stream_output("stderr", Message(STOPPED, reason=error.message))
            )
        self.output_room -= collected.kept
        if collected.cut:
            collected.outputs.append(_stream_output("stderr", Message(CUT)))
        cell.outputs = collected.outputs
        self.judge.note(cell)

    def _run_check_cell(self, cell: Cell, earlier_cells: list[Cell]) -> None:
        try:
            guest = self.guest_after(earlier_cells)
            if guest is None:
                self._leave_out(cell)
                return
            with self.clock("checks"):
                # In a notebook, later cells can use what a check cell imports.
                run_cell(guest, cell)
                checked = self.judge.check(cell, guest)
            if checked.report:
                self.execution.lacking.add_errors(checked.report)
        except Ended as error:
            checked = Checked(ended=error)
        cell.outputs = [nbformat.from_dict(output) for output in checked.outputs]
        if checked.ended:
            # The guest runs the student's functions: its end is the check's end as well.
            self._note_end(cell, checked.ended)
            checked.error = Message(STOPPED_IN_CHECK, reason=checked.ended.message)
            cell.outputs.append(_stream_output("stdout", checked.error))
        self._enter(cell, checked)

    def _enter(self, cell: Cell, checked: Checked) -> None:
        checked.points = set_points(cell, checked.points)
        self.execution.checked[grade_id(cell) or cell.id] = checked

    def guest_after(self, earlier_cells: list[Cell]) -> Guest | None:
        """Return a living guest that has run the earlier cells.

        A cell that went well before, but ends the new guest, is left out from then on, and another
        guest is started. If cells have ended more than twice as many guests as a submission may
        lose, return None.

        Raises
        ------
        Ended
            If a guest ends as it starts, or none may be started: the budget is spent.
        """
        while self.guest is None or self.guest.ended:
            if len(self.execution.guest_ends) > 2 * self.limits.deaths:
                return None
            self.close()
            # The first guest of all waits until the warm parent has loaded everything.
            with self.clock("fork" if self.guests.warm else "warming up"):
                self.guest = _start_guest(self.guests, self.unit, self.budget)
            # Before any end, this is the guest for the first cell: there is nothing to run again.
            if self.execution.guest_ends:
                with self.clock("student's cells, again"):
                    for cell in earlier_cells:
                        if cell.id not in self.fatal_cells and not self._replay(cell):
                            break
        return self.guest

    def _replay(self, cell: Cell) -> bool:
        """Run a cell once more, or the imports of a check cell, in a guest that follows one that
        died; return whether it lives.
        """
        assert self.guest is not None
        try:
            run_cell(self.guest, cell)
        except Ended as error:  # it went well before, and does not now
            self._note_end(cell, error)
            return False
        return True

    def _note_end(self, cell: Cell, error: Ended) -> None:
        self.execution.guest_ends.append((cell.id, error))
        self.fatal_cells.add(cell.id)

    def close(self) -> None:
        """End the guest that lives."""
        if self.guest:
            self.guest.close()
            self.guest = None


def _start_guest(guests: Guests, unit: Unit, budget: Budget) -> Guest:
    """Return a new guest that has the seed and the files of a submission."""
    guest = guests.guest(budget)
    try:
        start = {"op": "start", "seed": unit.guest_seed, "files": list(unit.files)}
        guest.request(start, list(unit.files.values()))
    except BaseException:
        guest.close()
        raise
    return guest


@contextlib.contextmanager
def guest_after_cells(
    cells: Sequence[Cell], guests: Guests, unit: Unit, limits: Limits
) -> Iterator[Guest]:
    """Run cells without their checks, and yield the guest that has run them; raise `Ended` if
    one of them ends it.
    """
    guest = _start_guest(guests, unit, Budget(limits))
    try:
        for cell in cells:
            run_cell(guest, cell)
        yield guest
    finally:
        guest.close()


def run_cell(
    guest: Guest, cell: Cell, on_output: Callable[[Any], None] = lambda output: None
) -> Any:
    """Have a guest run a cell, or the imports of a check cell; return the packages that a
    student's cell lacked, as the guest reports them.
    """
    if is_check(cell):
        for source in imports.statements([cell]):
            send_source(guest, source)
        return None
    return send_source(guest, cell.source, on_output, skip_missing=not is_locked(cell))


def send_source(
    guest: Guest,
    source: str,
    on_output: Callable[[Any], None] = lambda output: None,
    skip_missing: bool = False,
) -> Any:
    """Have a guest run the text of a cell, which crosses as bytes: it may be long.

    With `skip_missing`, it runs on without packages that are not installed; return what the guest
    says that these are.
    """
    reply, _ = guest.request(
        {"op": "cell", "skip_missing": skip_missing}, [source.encode()], on_output=on_output
    )
    return reply.get("lacking")


def _clear_outputs(cell: Cell) -> None:
    cell.outputs, cell.execution_count = [], None


def _stream_output(stream: str, message: Message) -> nbformat.NotebookNode:
    return new_output("stream", name=stream, text=f"{message}\n")

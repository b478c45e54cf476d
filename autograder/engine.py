"""The engine: runs a restored notebook, and leaves in each check cell exactly one outcome.

A student's cells run in a guest, check cells in the judge. A guest that dies costs the cell that killed it: a new one
runs the cells before it again, and the rest is graded.
"""

import contextlib
import math

import nbformat

from autograder.judge import MIME, imports_of
from autograder.outputs import Collected, clean_markdown, new_output
from autograder.sandbox import Ended

NOT_RUN = "was not run, because cells of this notebook ended Python too often."


def execute(notebook, judge, guests, limits, seed, guest_seed, files=None, on_cell=lambda cell: None):
    """Run `notebook` cell by cell, its check cells in the judge.

    Parameters
    ----------
    notebook : NotebookNode
        A restored notebook; its outputs are filled in.
    judge : Judge
    guests : Nursery or Bare
        Where guests come from.
    limits : dict
        What the submission may use; see `autograder.limits`.
    seed : int
        The seed of the checks' draws; no guest learns it.
    guest_seed : int
        The seed of the student's own random numbers.
    files : dict, optional
        The files that lie beside the notebook: bytes by relative path.
    on_cell : callable, optional
        Called with each code cell after it ran.

    Returns
    -------
    list of tuple
        For each cell that ended its guest: the cell's id, and the `Ended` that says why.

    Raises
    ------
    Fault, RuntimeError
        If our own part failed: the checks, or the sandbox.
    """
    clean_markdown(cell for cell in notebook.cells if not is_locked(cell))
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    run = _Run(guests, limits, guest_seed, files or {})
    judge.begin(seed)
    try:
        for place, cell in enumerate(cells):
            cell.outputs, cell.execution_count = [], None
            if len(run.ended) >= limits["deaths"]:
                _not_run(cell)
            elif is_check(cell):
                _check(run, judge, cells[:place], cell)
            else:
                _cell(run, cells[:place], cell)
            on_cell(cell)
    finally:
        run.close()
    return run.ended


class _Run:
    """The guests of one submission, one after another."""

    def __init__(self, guests, limits, seed, files):
        self.guests, self.limits, self.seed, self.files = guests, limits, seed, files
        self.guest, self.ended, self.killers = None, [], set()

    def with_guest(self, before):
        """Return a living guest that has run the cells before; raise `Ended` if one of them ends it again."""
        while self.guest is None or self.guest.ended:
            self.close()
            self.guest = self.guests.guest()
            start = {"op": "start", "seed": self.seed, "files": list(self.files)}
            self.guest.request(start, list(self.files.values()))
            if self.ended:
                for cell in before:
                    if cell.id not in self.killers and not self._again(cell):
                        break
        return self.guest

    def _again(self, cell):
        try:
            for source in _sources(cell):
                self.guest.request({"op": "cell", "source": source})
        except Ended as error:  # it went well before, and does not now
            self.lost(cell, error)
            if len(self.ended) > 2 * self.limits["deaths"]:
                raise
            return False
        return True

    def lost(self, cell, error):
        self.ended.append((cell.id, error))
        self.killers.add(cell.id)

    def close(self):
        if self.guest:
            self.guest.close()
            self.guest = None


def _sources(cell):
    """Return what of a cell runs in the guest: a student's cell, or the imports of a check cell."""
    return imports_of([cell]) if is_check(cell) else [cell.source]


def _cell(run, before, cell):
    collected = Collected(run.limits)
    try:
        run.with_guest(before).request({"op": "cell", "source": cell.source}, on_output=collected.add)
    except Ended as error:
        run.lost(cell, error)
        note = new_output("stream", name="stderr", text=f"This cell was stopped: {error}\n")
        collected.outputs.append(note)
    if collected.cut:
        note = new_output("stream", name="stderr", text="[More was put out than is kept.]\n")
        collected.outputs.append(note)
    cell.outputs = collected.outputs


def _check(run, judge, before, cell):
    most = float(cell.metadata.nbgrader.points)
    try:
        guest = run.with_guest(before)
        for source in imports_of([cell]):
            guest.request({"op": "cell", "source": source})
        points, outputs, ended = judge.check(cell, guest)
    except Ended as error:
        points, outputs, ended = 0.0, [], error
    if ended:
        run.lost(cell, ended)
    cell.outputs = [nbformat.from_dict(output) for output in outputs]
    if ended:
        note = new_output("stream", name="stdout", text=f"Stopped in this check: {ended}\n")
        cell.outputs.append(note)
    set_outcome(cell, min(points, most))


def _not_run(cell):
    if is_check(cell):
        cell.outputs = [new_output("stream", name="stdout", text=f"This check {NOT_RUN}\n")]
        set_outcome(cell, 0.0)
    else:
        cell.outputs = [new_output("stream", name="stderr", text=f"This cell {NOT_RUN}\n")]


def is_check(cell):
    """Tell whether a cell is a check cell: graded by running, worth points."""
    own = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "code" and own.get("grade", False) and not own.get("solution", False)


def is_locked(cell):
    """Tell whether a cell comes from the release as it is."""
    own = cell.metadata.get("nbgrader")
    return bool(own) and not own.get("solution", False)


def set_outcome(cell, points):
    """Leave in a check cell exactly one outcome that nbgrader reads as points: a number from 0 to its maximum."""
    most = float(cell.metadata.nbgrader.points)
    points = float(points) if math.isfinite(points) and 0 <= points <= most else 0.0
    cell.outputs = [output for output in cell.outputs if output.output_type != "execute_result"]
    result = new_output("execute_result", data={"text/plain": repr(points)})
    cell.outputs.append(result)


def points_of(cell):
    """Return the points in a check cell that has its outcome, and the most it is worth."""
    earned = 0.0
    for output in cell.outputs:
        if output.output_type == "execute_result":
            with contextlib.suppress(ValueError, KeyError):
                earned = float(output.data["text/plain"])
    return earned, float(cell.metadata.nbgrader.points)


def report_of(cell):
    """Return the checks' report in a check cell that has its outcome, or None."""
    for output in cell.outputs:
        report = output.get("data", {}).get(MIME)
        if isinstance(report, dict):
            return report
    return None

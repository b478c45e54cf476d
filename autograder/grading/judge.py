"""The judge: runs check cells, asks the student's notebook for values, and alone decides what a
cell is worth.

A check cell reads here as it does in a student's Jupyter: a name that the cells before it define is
a callable that asks the guest. Replies are plain values; nothing that the guest sends can be more
than a wrong answer.
"""

import ast
import builtins
import contextlib
import functools
import importlib
import io
import math
import os
import signal
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autograder import checking
from autograder.checking import MIME, Report, show
from autograder.checking.helpers import definitions
from autograder.checking.undefined import Ran, why_undefined
from autograder.checking.words import Message
from autograder.course import imports
from autograder.course.cells import Cell, grade_id, points_worth
from autograder.course.config import ARCHIVE, Exercise
from autograder.course.limits import Limits
from autograder.grading.own_cells import parse_python
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.remote import TOO_LONG, CourseAnswers, CourseCheckError, RemoteNotebook
from autograder.sandbox.guest import Ended, Guest
from autograder.sanitize import text

MOST_PIECE = 2000
"""Characters of one output that a guest sends during a check, or of an error's text."""
MOST_CODE = 200_000
"""Characters of a notebook's code of which the judge makes a tree: a thousand times as many
bytes.
"""
MOST_ERROR = 200


@dataclass
class Checked:
    """The outcome of one check cell: points, outputs, the checks' report, and why its guest
    ended, if it did.
    """

    points: float = 0.0
    outputs: list[dict[str, Any]] = field(default_factory=list)
    report: Report | None = None
    error: Message = field(default_factory=lambda: Message(""))
    ended: Ended | None = None


class Names(dict[str, Any]):
    """The names that a check cell sees: its own, the course's imports, and behind them the
    guest's.
    """

    def __init__(self, notebook: RemoteNotebook):
        super().__init__(__name__="__main__", __builtins__=builtins)
        self.notebook = notebook

    def __missing__(self, name: str) -> Any:
        # After a KeyError, Python looks among its builtins: a guest cannot replace them here.
        if hasattr(builtins, name):
            raise KeyError(name)
        return self.notebook.find(name)


class Judge:
    """Runs the check cells of one submission at a time; the place where their checks run, as
    `checking` asks of it.

    Parameters
    ----------
    exercise : Exercise
        Its released folder holds the checks.
    limits : Limits
        `judge_seconds` bounds what one check cell may make the judge compute.

    Attributes
    ----------
    cells_run : list of Ran
        The student's cells that have run in guests so far.
    """

    expendable = False
    """Whether this process may be killed, since another one replaces it."""

    def __init__(self, exercise: Exercise, limits: Limits):
        self.exercise, self.limits = exercise, limits
        self.course_answers = CourseAnswers(limits.judge_seconds)
        self.begin(0)

    def begin(self, seed: int, clock: PhaseTimer | None = None) -> None:
        """Start a submission: fresh names, the seed of its draws, and a clock for what its calls
        take.
        """
        self.seed = seed
        self.notebook = RemoteNotebook(
            self._printed_by_guest, clock or PhaseTimer(), self.course_answers
        )
        self.names = Names(self.notebook)
        self.cells_run: list[Ran] = []
        self.printed = io.StringIO()
        self.output_room = 0  # how many more characters the present check may print
        self.checked = Checked()

    def load(self) -> None:
        """Load the checks while there is time; errors in them are reported when they run."""
        _read_checks_from(self.exercise.released)
        with contextlib.suppress(Exception):
            importlib.import_module("checks")

    def check(self, cell: Cell, guest: Guest) -> Checked:
        """Run one check cell.

        Returns
        -------
        Checked
            Its points are a finite number from 0 to the cell's.

        Raises
        ------
        CourseCheckError
            If the checks themselves are at fault.
        """
        self.notebook.guest, self.output_room = guest, self.limits.output_kb << 10
        self.notebook.begin_check()
        self.checked = checked = Checked()
        _read_checks_from(self.exercise.released)
        try:
            checked.points = _points(self._run(cell, guest), points_worth(cell))
        except CourseCheckError:
            raise
        except Ended as error:
            self._print(str(Message("This check stopped: {reason}", reason=error.message)))
        except Exception as error:
            # An error of the check cell itself; the same error in a student's function is not.
            if isinstance(error, (ImportError, SyntaxError)) and not getattr(
                error, "from_guest", False
            ):
                raise CourseCheckError(
                    f"the check cell {cell.id} cannot run: {type(error).__name__}: {error}"
                ) from error
            checked.error = _message_of(error, str(cell.id))
            self._print(str(checked.error))
        self._flush()
        checked.ended = guest.ended
        return checked

    def _run(self, cell: Cell, guest: Guest) -> Any:
        """Run a check cell's code; return what its last line evaluates to."""
        body, last = _parsed(cell.source, str(cell.id))
        with contextlib.ExitStack() as stack:
            stack.enter_context(checking.use_host(self))
            stack.enter_context(contextlib.redirect_stdout(self.printed))
            # Wrong results may divide by zero or overflow here: that is for the check to say.
            stack.enter_context(warnings.catch_warnings())
            stack.enter_context(np.errstate(all="ignore"))
            stack.enter_context(_interrupted_after(self.limits.judge_seconds, guest))
            if self.expendable:
                stack.enter_context(killed_after(self.limits.judge_seconds))
            warnings.simplefilter("ignore")
            # A check cell is the course's own: `restore` puts it back whatever was handed in.
            exec(body, self.names)  # noqa: S102
            return eval(last, self.names) if last else None  # noqa: S307

    def note(self, cell: Cell) -> None:
        """Remember a cell that has run: a later check may miss what it was to define, or look at
        its text.
        """
        kind = error = ""
        for output in cell.outputs:
            if output.output_type == "error":  # the last one counts
                kind = text.line(output.ename, MOST_ERROR)
                error = text.line(output.evalue, MOST_ERROR)
        name = text.line(grade_id(cell) or cell.id, MOST_ERROR)
        self.cells_run.append(Ran(name, cell.source, kind, error))

    # What `checking` asks of the place where it runs.

    def lookup(self, name: str) -> Any:
        """Return what the guest has under a name now, or None."""
        return self.notebook.find(name, missing=None)

    def why_undefined(self, name: str) -> Message | str:
        """Return why the guest does not have a name: the error or the magic of the cell that was
        to define it.
        """
        return why_undefined(name, self.cells_run)

    def instead(self, answers: dict[str, Any]) -> contextlib.AbstractContextManager[set[str]]:
        """Replace these names with the course's answers within the context; yield those that
        were called, so far.
        """
        return self.notebook.instead(answers)

    def code_of(self, name: str) -> list[ast.AST] | None:
        """Return what defines a name in the cells that ran, and what that uses; None if it
        cannot be known.
        """
        if not self.cells_run:
            return None
        trees, room = [], MOST_CODE
        for cell in self.cells_run:
            room -= len(cell.source)
            if room < 0:
                break
            # A cell that is no Python has defined nothing.
            with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                trees.append(parse_python(cell.source))
        return definitions(trees, name)

    def show(self, report: Report) -> None:
        """Keep a report for the graded notebook."""
        self._flush()  # what was printed before the report stays above it
        self.checked.report = report
        bundle = {
            "text/plain": show.text(report),
            "text/html": show.as_html(report),
            MIME: report.to_dict(),
        }
        self.checked.outputs.append({"output_type": "display_data", "data": bundle, "metadata": {}})

    # Outputs.

    def _printed_by_guest(self, output: Any) -> None:
        if not isinstance(output, dict) or output.get("output_type") != "stream":
            return
        if self.output_room > 0:
            piece = text.block(str(output.get("text")), min(self.output_room, MOST_PIECE))
            self.output_room -= len(piece)
            self.printed.write(piece)

    def _print(self, line: str) -> None:
        self.printed.write(line + "\n")

    def _flush(self) -> None:
        printed = self.printed.getvalue()
        self.printed.seek(0)
        self.printed.truncate()
        if printed:
            self.checked.outputs.append(
                {"output_type": "stream", "name": "stdout", "text": printed}
            )


@contextlib.contextmanager
def _interrupted_after(seconds: float, guest: Guest) -> Iterator[None]:
    """Bound what a guest can make the judge compute: beyond it, the guest is ended and the check is
    interrupted.

    This works only in the main thread of a process, and only where such timers exist.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def interrupt(number: int, frame: types.FrameType | None) -> None:
        raise guest.fail(Message(TOO_LONG, seconds=f"{seconds:g}"))

    before = signal.signal(signal.SIGPROF, interrupt)
    # again each second: a check may catch what is raised
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def killed_after(seconds: float) -> Iterator[None]:
    """Let the kernel kill this process, with SIGXCPU, when it computes for more than twice so many
    seconds.

    `_interrupted_after` has then tried to interrupt a judge, which works between two steps of
    Python, but not in one call of NumPy, or of a regular expression.
    """
    import resource

    # The kernel counts whole seconds, from the start of the process.
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = math.ceil(time.process_time() + 2 * seconds)
    resource.setrlimit(
        resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


_loaded: dict[str, dict[str, types.ModuleType]] = {}
_current = ""


def _read_checks_from(released: Path) -> None:
    """Let `import checks` mean the checks in this folder; those of other exercises are put by
    until needed.
    """
    global _current
    folder = str(released)
    # Modules of these names from elsewhere, such as those that an author's tools have loaded.
    for name in imports.EXERCISE:
        if name in sys.modules and not any(
            _is_in(sys.modules[name], known) for known in (folder, _current)
        ):
            del sys.modules[name]
    if folder == _current:
        return
    modules = _loaded.setdefault(_current, {})
    for name, module in list(sys.modules.items()):
        if _is_in(module, _current):
            modules[name] = sys.modules.pop(name)
    # The folder, and the archive in it that its checks import from.
    others = [path for path in sys.path if not (_current and _below(path, _current))]
    sys.path[:] = [folder, str(released / ARCHIVE), *others]
    sys.modules.update(_loaded.get(folder, {}))
    _current = folder
    importlib.invalidate_caches()


def _is_in(module: types.ModuleType, folder: str) -> bool:
    """Tell whether a module was loaded from a folder."""
    return bool(folder) and _below(str(getattr(module, "__file__", None) or ""), folder)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


@functools.lru_cache(1000)
def _parsed(source: str, name: str) -> tuple[types.CodeType, types.CodeType | None]:
    """Return a cell's code: all of it but a last expression, and that expression."""
    # As in Jupyter, a semicolon at the end hides the value; the cell then only asserts.
    tree = imports.parsed(source)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        final = tree.body.pop()
        assert isinstance(final, ast.Expr)
        last = compile(ast.Expression(final.value), name, "eval")
    return compile(tree, name, "exec"), last


def _points(value: Any, most: float) -> float:
    """Return the points of a check cell that finished: its own number, or all if it only
    asserts.
    """
    if value is None or value is True:
        return most
    # Another value than a number, such as a text, was only to be shown.
    try:
        points = float(value)
    except (TypeError, ValueError):
        return most
    if not math.isfinite(points):
        return 0.0
    return min(max(points, 0.0), most)


def _message_of(error: Exception, name: str) -> Message:
    """Return the message to the student about an exception in a check cell: the error, and its
    line.
    """
    # The last frame in the cell itself: deeper ones are in the checks or in a library.
    line_number = 0
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == name:
            line_number = frame.lineno or 0
    message = text.block(str(error), MOST_PIECE)
    error_text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return (
        Message("{what} (line {line} of the check)", what=error_text, line=line_number)
        if line_number
        else Message("{what}", what=error_text)
    )

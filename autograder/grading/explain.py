"""Explains a grade: the inputs of each check, the returned values, and which listed wrong answers
do the same.

The notebook is graded as by `check`. In addition, each check runs once more on the same inputs,
with a judge that records every call of the function under test.
"""

import ast
import contextlib
import dataclasses
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autograder.checking import Report, Result, Status, Subject, show, use_host
from autograder.checking.diagnosis import outcome_if_alike
from autograder.checking.expect import Failed, as_plain, is_module
from autograder.checking.subject import Call, run_check, twin
from autograder.course import seeds
from autograder.course.cells import OUTCOME_ID, Cell, Notebook, is_code
from autograder.course.config import Course, Exercise, UserError
from autograder.course.limits import Limits
from autograder.grades import records
from autograder.grades.results import Record
from autograder.grading import submissions
from autograder.grading.judge import Checked, Judge
from autograder.grading.self_check import SelfCheck
from autograder.sandbox import bubblewrap
from autograder.sandbox.guests import Guest
from autograder.sanitize import text

MOST_CALLS = 3
"""How many calls of a check are shown, unless a single check was requested."""
MOST_NUMBERS = 150
"""The most numbers of an array that is printed: enough for any matrix of two drawn sizes."""
MOST_WIDTH = 120
MOST_TEXT = 300
STYLES = {Status.PASSED: "green", Status.FAILED: "red", Status.ADVICE: "cyan"}
CHANGED = "The exercise has changed since then, so this may differ from the grade."
CUT = (
    "The submission is no longer there; this shows the graded notebook, without the files next "
    "to it."
)


@dataclass
class RecordedCall:
    """One call of the function under test: its arguments as drawn, and the outcome.

    `method` names the method called on a module that it made, such as "forward".
    """

    arguments: tuple[Any, ...]
    result: Any = None
    error: BaseException | None = None
    method: str = ""


@dataclass
class CheckExplanation:
    """One check: what it found, the calls that it made, why it failed, and the listed wrong
    answers that do alike.
    """

    result: Result
    calls: list[RecordedCall] = field(default_factory=list)
    failure: Failed | None = None
    matching_answers: list[str] = field(default_factory=list)


@dataclass
class Explanation:
    """All the checks of one function that were asked for, the names of its parameters, and those
    of its `forward`.
    """

    report: Report
    parameters: list[str]
    checks: list[CheckExplanation]
    forward: list[str] = field(default_factory=list)


class Recording(Subject):
    """The function under test, which records the arguments of each call as drawn."""

    drawn: list[tuple[Any, ...]]

    def call(
        self, arguments: Any, function: Any = None, method: str = "", must_raise: bool = False
    ) -> Call:
        """Make a call, and write its arguments down before."""
        twins: dict[int, Any] = {}
        self.drawn.append(tuple(twin(argument, twins) for argument in arguments))
        return super().call(arguments, function, method, must_raise)


class Explaining(Judge):
    """A judge that records what its checks do.

    Parameters
    ----------
    judge : Judge
        The judge that it replaces.
    released : Notebook
    wanted : str
        A check, or a function under test; by default all of them.

    Attributes
    ----------
    explanations : list of Explanation
    names_known : list of str
        The checks and functions that there are.
    """

    def __init__(self, judge: Judge, released: Notebook, wanted: str = ""):
        super().__init__(judge.exercise, judge.limits)
        self.released, self.wanted = released, wanted
        self.explanations: list[Explanation] = []
        self.names_known: list[str] = []

    def check(self, cell: Cell, guest: Guest) -> Checked:
        """Run one check cell, and then its checks once more."""
        checked = super().check(cell, guest)
        checks = getattr(sys.modules.get("checks"), "suite", None)
        if checked.report is not None and checks is not None:
            subject = checked.report.subject
            self.names_known += [subject, *(check.__name__ for check in checks.checks_of(subject))]
            explained = [
                self._explained(result, checked.report, checks, guest)
                for result in checked.report.results
                if self.wanted in ("", subject, result.name)
            ]
            if explained:
                parameters = _parameters(self.released, subject, "__init__")
                forward = _parameters(self.released, subject, "forward")
                self.explanations.append(
                    Explanation(checked.report, parameters, explained, forward)
                )
        return checked

    def _explained(
        self, result: Result, report: Report, checks: Any, guest: Guest
    ) -> CheckExplanation:
        explained = CheckExplanation(result)
        # Nothing was called, or the guest that would be called is gone.
        if result.status in (Status.BLOCKED, Status.UNVERIFIED) or guest.ended:
            return explained
        check = next(
            check for check in checks.checks_of(report.subject) if check.__name__ == result.name
        )
        recording = Recording(report.subject, self.lookup(report.subject))
        recording.drawn = []
        # Another exception than a check's own ends the explanation of this one check, and nothing
        # else.
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(Exception))
            stack.enter_context(use_host(self))
            stack.enter_context(checks.with_answers(report.instead, self))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            attempt = run_check(check, recording, report.seed)
            calls, explained.failure, _seconds = attempt
            explained.calls = [
                RecordedCall(arguments, call.result, call.error, call.method)
                for arguments, call in zip(recording.drawn, calls, strict=True)
            ]
            explained.matching_answers = [
                wrong.label
                for wrong in checks.listed("wrong_for", report.subject)
                if outcome_if_alike(check, wrong, report.seed, attempt)
            ]
        return explained


def _parameters(released: Notebook, subject: str, method: str) -> list[str]:
    """Return the names of a function's parameters, as the released notebook defines it; of a
    class, a method's.
    """
    # Not the student's notebook: the released stubs name the parameters as the checks mean them.
    for cell in filter(is_code, released.cells):
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:  # a magic
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == subject:
                function = node if isinstance(node, ast.FunctionDef) else _method(node, method)
                if function is not None:
                    names = [parameter.arg for parameter in function.args.args]
                    return [name for name in names if name != "self"]
    return []


def _method(definition: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return a method of a class, or None."""
    for part in definition.body:
        if isinstance(part, ast.FunctionDef) and part.name == name:
            return part
    return None


class Explainer:
    """One notebook, or one graded submission, to be explained; use it in a `with` block.

    Parameters
    ----------
    course : Course
    path : Path
        A notebook, or the `grade.json` of a graded submission.
    wanted : str
        A check, or a function under test; by default all of them.
    seed : int, optional
        Where the draws come from. Default: the seed of the grade; for a notebook a new one.
    sandbox : bool
        Whether the cells of a notebook run in a sandbox where there can be one; those of a graded
        submission, which others have written, run nowhere else unless this is False.

    Raises
    ------
    UserError
        If there is nothing to explain, or no sandbox.
    """

    def __init__(
        self,
        course: Course,
        path: Path,
        wanted: str = "",
        seed: int | None = None,
        sandbox: bool = True,
    ):
        lacks = bubblewrap.missing() if sandbox else []
        self.wanted, self.notes, record = wanted, list[str](), None
        notebook = path
        if path.suffix == ".json":
            record = _record(path)
            notebook = path.with_name(f"{record.assignment}.ipynb")
            if not notebook.exists():
                raise UserError(
                    f"The graded notebook is not next to {path.name}: there is no {notebook}."
                )
            if lacks:
                raise UserError(
                    f"Other people's code cannot be isolated on this machine: {'; '.join(lacks)}. "
                    "Fix that, or run it at your own risk with --no-sandbox."
                )
            above = path.resolve().parents  # autograded/STUDENT/EXERCISE/grade.json
            course = dataclasses.replace(
                course, output_folder=above[3] if len(above) > 3 else course.output_folder
            )
        self.single = SelfCheck(course, notebook, seed, sandbox and not lacks)
        self.exercise = self.single.exercise
        if record is not None:
            self._as_graded(course, record, seed)
        # The worker grades as ever, with another judge.
        judges = self.single.worker.judges
        released = self.single.worker.released[self.exercise.name][""]
        self.judge = Explaining(judges[self.exercise.name], released, wanted)
        judges[self.exercise.name] = self.judge

    def _as_graded(self, course: Course, record: Record, seed: int | None) -> None:
        """Replace the graded notebook by the submission that was graded, with its seeds."""
        unit = self.single.unit
        handed_in = _handed_in(course, self.exercise, record, self.single.limits)
        if handed_in is not None:
            unit = self.single.unit = handed_in
        else:
            unit.files, unit.notes = {}, []
            self.notes.append(CUT)
            # The grader's own cell is no part of what was submitted.
            raw = json.loads(unit.data or b"{}")
            raw["cells"] = [cell for cell in raw.get("cells", []) if cell.get("id") != OUTCOME_ID]
            unit.data = json.dumps(raw).encode()
        unit.seed = record.seed if seed is None else seed
        if course.secret.exists():
            unit.guest_seed = seeds.Seeds(course).guest(
                record.assignment, record.submission_digest, record.seed
            )
        if record.release_digest != seeds.version_of(self.exercise):
            self.notes.append(CHANGED)

    def explanations(self, on_cell: Any) -> list[Explanation]:
        """Return what the checks did.

        Raises
        ------
        UserError
            If there is no check of the name that is wanted, or none ran.
        """
        outcome = self.single.grade(on_cell)
        if str(outcome.reason):
            self.notes.append(str(outcome.reason))
        if not self.judge.explanations:
            known = list(dict.fromkeys(self.judge.names_known))
            if self.wanted and known:
                raise UserError(
                    f"No check and no function is called {self.wanted!r}; there are: "
                    f"{', '.join(known)}."
                )
            notes = " ".join(self.notes)
            raise UserError(
                f"There is nothing to explain: no check of the course ran. {notes}".strip()
            )
        return self.judge.explanations

    def __enter__(self) -> "Explainer":
        return self

    def __exit__(self, *error: object) -> None:
        self.single.guests.close()


def _record(path: Path) -> Record:
    """Return the record in a `grade.json`."""
    try:
        record = records.from_text(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        record = None
    if record is None:
        raise UserError(
            f"{path} is not a grade of this course. Name autograded/STUDENT/EXERCISE/grade.json."
        )
    return record


def _handed_in(
    course: Course, exercise: Exercise, record: Record, limits: Limits
) -> submissions.Unit | None:
    """Return the graded submission, if it is still in its folder and has not changed."""
    if not course.submitted.is_dir():
        return None
    for submission in submissions.find([exercise], course.submitted):
        if submission.student == record.student:
            unit = submission.read(limits)
            return unit if unit.digest == record.submission_digest else None
    return None


# In words.


def lines(explanation: Explanation, whole: bool) -> Iterator[tuple[str, str]]:
    """Yield what is said of a function's checks, line by line, each with the style that it is shown
    in.

    Parameters
    ----------
    explanation : Explanation
    whole : bool
        Whether every call is shown, and every listed answer of a check that passed.
    """
    report = explanation.report
    yield f"{report.subject}: {show.points(report)}, seed {report.seed}", "bold"
    for explained in explanation.checks:
        result = explained.result
        yield f"  {result.status}  {result.name}", STYLES.get(result.status, "dim")
        yield f"    {text.line(str(result.title))}", ""
        if result.message:
            yield f"    {text.line(str(result.message))}", ""
        yield from _of_calls(explanation, explained, whole)
        if explained.failure is not None and explained.failure.expected is not None:
            yield "    compared", "bold"
            if result.where:
                yield f"      {show.element(result.where)}", ""
            yield from _of_value("expected", explained.failure.expected)
            yield from _of_value("got", explained.failure.got)
        answers = explained.matching_answers
        if answers and (result.status.is_unmet or whole):
            yield f"    does the same here as these listed answers: {'; '.join(answers)}", "cyan"
        elif answers:
            yield f"    {len(answers)} listed wrong answers do the same here and also pass", "dim"
        elif result.status.is_unmet:
            yield "    no listed answer does the same here", "cyan"


def _of_calls(
    explanation: Explanation, explained: CheckExplanation, whole: bool
) -> Iterator[tuple[str, str]]:
    """Yield the first calls of a check, or all of them, and how many are not shown."""
    count = len(explained.calls)
    shown = count if whole else min(count, MOST_CALLS)
    for number, call in enumerate(explained.calls[:shown], 1):
        method = f": {call.method}" if call.method else ""
        yield from _of_call(explanation, call, f"call {number} of {count}{method}")
    if count > shown:
        yield f"    … and {count - shown} more; --check {explained.result.name} shows all", "dim"


def _of_call(
    explanation: Explanation, call: RecordedCall, number: str
) -> Iterator[tuple[str, str]]:
    yield f"    {number}", "bold"
    for index, value in enumerate(call.arguments):
        names = explanation.forward if call.method else explanation.parameters
        named = names[index] if index < len(names) else f"argument {index + 1}"
        yield from _of_value(named, value)
    if call.error is not None:
        yield (
            f"      raised {type(call.error).__name__}: {text.line(str(call.error), MOST_TEXT)}",
            "",
        )
    else:
        yield from _of_value("returned", call.result)


def _of_value(named: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield a value's type and shape, and its numbers where they are few."""
    if type(value) in (tuple, list):
        yield f"      {named}: a {type(value).__name__} of {len(value)}", ""
        for index, item in enumerate(value[:MOST_CALLS]):
            yield from _of_value(f"{named}[{index}]", item)
        return
    array = as_plain(value)
    if array is None or not hasattr(value, "shape"):
        what = "a function" if callable(value) and not is_module(value) else repr(value)
        yield f"      {named}: {text.line(what, MOST_TEXT)}", ""
        return
    kind = "" if isinstance(value, (np.ndarray, np.generic)) else "tensor of "
    yield f"      {named}: {kind}{getattr(value, 'dtype', array.dtype)} {array.shape}", ""
    if array.size <= MOST_NUMBERS:
        numbers = np.array2string(
            array, precision=4, suppress_small=True, max_line_width=MOST_WIDTH
        )
        yield from ((f"        {line}", "") for line in numbers.splitlines())

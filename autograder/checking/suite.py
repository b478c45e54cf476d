"""Suites: declare checks, run them on a function, and show what they found."""

import ast
import contextlib
import difflib
import importlib
import inspect
import json
import math
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from . import guidance, machine, progress, show, words
from .answers import answers_in
from .diagnosis import Diagnosis, reference_answer
from .expect import describe, shapes
from .helpers import names_used
from .report import MIME, Report, Result, Status, first_wrong
from .stand_ins import noting
from .subject import Attempt, Call, Check, attempt, is_listed
from .undefined import Ran, why_undefined
from .words import Message, joined


class CheckHost(Protocol):
    """Where checks run: it has the functions under test, and shows the reports on them."""

    @property
    def seed(self) -> int:
        """The seed of the draws."""

    def lookup(self, name: str) -> Any:
        """Return the object with a name, or None."""

    def why_undefined(self, name: str) -> Message | str:
        """Return why there is no object with a name; "" if that does not show."""

    def instead(self, answers: dict[str, Any]) -> contextlib.AbstractContextManager[set[str]]:
        """Replace these names with the course's answers within the context; yield those that
        were called, so far.
        """

    def code_of(self, name: str) -> list[ast.AST] | None:
        """Return what defines a name in the text of the cells that ran, and what it uses; None
        if that is unknown.
        """

    def show(self, report: Report) -> None:
        """Show a `Report`."""


class RunningNotebook:
    """The host of checks that a student runs: the notebook or script that is running."""

    @property
    def seed(self) -> int:
        """The seed of the draws: a new one each time."""
        # The variable makes the run of a whole notebook repeatable, as in a test.
        return int(os.environ.get("CHECKING_SEED") or secrets.randbits(48))

    def lookup(self, name: str) -> Any:
        """Return what the running notebook has under a name, or None."""
        return vars(sys.modules["__main__"]).get(name)

    def why_undefined(self, name: str) -> Message | str:
        """Return why the running notebook does not have a name; "" outside of IPython, or if it
        does not show.
        """
        return why_undefined(name, _cells_run())

    @contextlib.contextmanager
    def instead(self, answers: dict[str, Any]) -> Iterator[set[str]]:
        """Replace these names of the running notebook with the course's answers within the context.

        Yield the names of those that were called, so far.
        """
        names = vars(sys.modules["__main__"])
        before = {name: names[name] for name in answers if name in names}
        called: set[str] = set()
        names.update({name: noting(name, answer, called) for name, answer in answers.items()})
        try:
            yield called
        finally:
            for name in answers:
                names.pop(name, None)  # a name that was not there before is gone again
            names.update(before)

    def code_of(self, name: str) -> None:
        """Return None: which cells a student ran, and in what order, is not known here."""

    def show(self, report: Report) -> None:
        """Show a `Report` to the student who runs the check, in the language of the notebook;
        keep its points.
        """
        folder = _exercise_folder()
        if folder and _shell():  # a script, such as a test, is no student at work
            progress.note(folder, report)
        with words.use(_notebook_language()):
            staged = _are_hints_staged()
            show.report(guidance.without_hints(report) if staged else report, MIME)
            if staged:
                guidance.show_how_to_get_hints(report)


def _shell() -> Any:
    """Return the IPython that runs here, or None."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def _exercise_folder() -> Path | None:
    """Return the folder of the exercise whose checks were imported last; None outside of one."""
    file = getattr(sys.modules.get("checks"), "__file__", None)
    return Path(file).resolve().parent if file else None


def _are_hints_staged() -> bool:
    """Tell whether the course wants causes to be given by `hint`, one hint at a time."""
    folder = _exercise_folder()
    return folder is not None and progress.released(folder).get("hints") == progress.STAGED


def _cells_run() -> list[Ran]:
    """Return the cells that the running notebook has run; of the last one before this check also
    its error.
    """
    shell = _shell()
    cells: list[Ran] = []
    # Another version of IPython may not have these attributes: then the check is shown without.
    with contextlib.suppress(Exception):
        for number, source in enumerate(shell.history_manager.input_hist_raw):
            cells.append(Ran(f"[{number}]", source))
        last = shell.last_execution_result
        error = last.error_before_exec or last.error_in_exec
        # The last cell is the one with this check: it has not ended.
        if error is not None and cells[-2].source == last.info.raw_cell:
            cells[-2] = replace(cells[-2], kind=type(error).__name__, error=str(error)[:MOST_ERROR])
    return cells


def _notebook_language() -> str:
    """Return the language in which the running notebook was released; "" where that is unknown."""
    names = vars(sys.modules["__main__"])
    file = os.environ.get("JPY_SESSION_NAME") or names.get("__vsc_ipynb_file__", "")
    with contextlib.suppress(Exception):  # with an unreadable file, the check is shown in English
        # Jupyter runs in the notebook's folder
        path = Path(file) if Path(file).is_file() else Path(Path(file).name)
        return words.language_of(json.loads(path.read_text(encoding="utf-8")))
    return ""


class Points(float):
    """The value of a check cell's last line. nbgrader reads the number; notebooks show an empty
    text instead.
    """

    def _repr_html_(self) -> str:
        return ""


MOST_ERROR = 200
REFERENCE_FAILS = (
    "With the versions that are installed here, the course's own answer fails this check "
    "as well: {said}"
)

_RUNNING_NOTEBOOK: CheckHost = RunningNotebook()
_host = ContextVar("host", default=_RUNNING_NOTEBOOK)


@contextlib.contextmanager
def use_host(host: CheckHost) -> Iterator[None]:
    """Run checks elsewhere than in a student's notebook, for as long as the context lasts.

    Parameters
    ----------
    host : CheckHost
    """
    token = _host.set(host)
    try:
        yield
    finally:
        _host.reset(token)


class Suite:
    """The checks of one exercise.

    Parameters
    ----------
    module : str
        `__name__` of the exercise's checks module. A module `misconceptions` beside it is read when
        a check fails.
    read : dict
        For each function under test, where in the book to read.
    plain : dict, optional
        For functions whose right answers are slow, such as kernels without a GPU: a function that
        returns the same for the same arguments quickly. It is used to find the relation between a
        wrong result and a right one.
    answers : dict, optional
        What replaces a failing function when a later function that calls it is checked. Default:
        the right answer of `misconceptions`.
    """

    def __init__(
        self,
        module: str,
        read: dict[str, str],
        plain: dict[str, Callable[..., Any]] | None = None,
        answers: dict[str, Callable[..., Any]] | None = None,
    ):
        self.module, self.read, self.plain = module, read, plain or {}
        self.replacements = answers or {}
        self.checks: list[Check] = []
        # functions that the course's answers replace now
        self.instead: frozenset[str] = frozenset()
        # modules of listed answers; without any, `misconceptions` is imported
        self.answer_modules: list[ModuleType] = []
        self._seeds: dict[str, int] = {}  # of the last run of each function
        # for each function: the failed check, and how many hints
        self._hinted: dict[str, tuple[str, int]] = {}

    def check(
        self,
        weight: float = 1,
        needs: str | Callable[..., Any] | Sequence[Any] = (),
        on: str = "",
        measured: bool = False,
    ) -> Callable[[Any], Any]:
        """Declare a check: its first parameter names the function under test, its docstring is its
        title.

        `weight` is relative to the function's other checks; with 0, the check is advice: its
        findings are shown and cost nothing. `needs` are the checks that must pass before this one
        is useful, the functions themselves or their names; until they pass, this one is blocked.
        `on` is what it needs from the machine, one of `machine.LACKS`, such as "gpu". If that is
        absent, or the course's own code fails with it, neither this check nor those that need it
        are run, and their points are pending until a machine has it. `measured` says that the check
        takes the word of the process in which the function runs, such as for how much memory it
        held: a result can be compared with the right one, a measurement cannot.

        Raises
        ------
        ValueError
            If the check has no docstring or a taken name, needs an unknown check or mere advice,
            has an unknown `on`, or its weight is negative or not finite.
        """

        def declare(function: Any) -> Any:
            need_list = [needs] if isinstance(needs, str) or callable(needs) else needs
            function.weight = weight
            function.needs = tuple(getattr(need, "__name__", need) for need in need_list)
            function.subject = next(iter(inspect.signature(function).parameters))
            function.title = " ".join((function.__doc__ or "").split())
            function.measured = measured
            self._check_declaration(function)
            function.on = machine.known(on, f"the check {function.__name__}")
            self.checks.append(function)
            return function

        return declare

    def _check_declaration(self, check: Check) -> None:
        """Raise `ValueError` if a new check cannot be one; see `check`."""
        name, subject = check.__name__, check.subject
        if not check.title:
            raise ValueError(
                f"the check {name} has no docstring: write the sentence that students read there"
            )
        if not (math.isfinite(check.weight) and check.weight >= 0):
            raise ValueError(
                f"the check {name} has weight {check.weight}: give a positive number, or 0 for "
                "advice"
            )
        weights = {other.__name__: other.weight for other in self.checks_of(subject)}
        if name in weights:
            raise ValueError(
                f"{subject} has two checks called {name}: give the second another name"
            )
        for need in check.needs:
            if need not in weights:
                known = ", ".join(weights) or "none"
                raise ValueError(
                    f"the check {name} needs {need!r}, but no check of {subject} declared "
                    f"before it has that name; those are: {known}"
                )
            if not weights[need]:
                raise ValueError(
                    f"the check {name} needs {need!r}, which is advice: points must not "
                    "depend on it"
                )

    def check_each(
        self,
        *subjects: str,
        weight: float = 1,
        needs: Sequence[str | Callable[..., Any]] = (),
        measured: bool = False,
    ) -> Callable[[Any], Any]:
        """Declare a check of each of these functions: `values` of the function NAME is the check
        `NAME_values`.

        `needs` are checks that were declared in the same way before, or their names without the
        function's.
        """

        def declare(body: Any) -> Any:
            for subject in subjects:
                needed = [f"{subject}_{getattr(need, '__name__', need)}" for need in needs]
                check = check_of(subject, f"{subject}_{body.__name__}", body.__doc__, body)
                self.check(weight, needed, measured=measured)(check)
            return body

        return declare

    def checks_of(self, subject: str) -> list[Check]:
        """Return the checks of one function, in the order in which they were declared."""
        return [check for check in self.checks if check.subject == subject]

    @staticmethod
    def code_of(subject: str) -> list[ast.AST] | None:
        """Return the code that defines a function under test, and what it uses, as a notebook's
        cells have it.

        It is None where that cannot be known, as in a student's own notebook.
        """
        return _host.get().code_of(subject)

    def listed(self, kind: str, subject: str) -> list[Any]:
        """Return the answers listed for `subject`; `kind` is `wrong_for` or `right_for`.

        Answers that fail only on a machine with what this one lacks are left out.
        """
        modules = self.answer_modules or [importlib.import_module("misconceptions")]
        answers = [answer for module in modules for answer in answers_in(module, kind, subject)]
        return [answer for answer in answers if not machine.lacks(getattr(answer, "on", ""))]

    def run(
        self, subject: str, points: float, seed: int | None = None, as_json: bool = False
    ) -> Points:
        """Check the function named `subject` of the running notebook or script; show the feedback.

        Parameters
        ----------
        subject : str
            The name of the function under test.
        points : float
            The points of the cell. With 0, feedback says whether all checks pass, and mentions no
            points.
        seed : int, optional
            Repeats an earlier run's inputs. Without it, new inputs are drawn.
        as_json : bool, optional
            Print the report as JSON instead, for a program, such as a tutor.

        Returns
        -------
        Points
            The points earned, from 0 to `points`: a number, which notebooks do not show beside the
            report.
        """
        host = _host.get()
        last_shapes: dict[str, str | Message] = {}

        def attempt_noting_shapes(check: Check, function: Any, seed: int) -> Attempt:
            observed = attempt(check, function, seed)
            if as_json and observed.calls:
                last_shapes[check.__name__] = shapes(observed.calls[-1].arguments)
            return observed

        seed = host.seed if seed is None else seed
        self._seeds[subject] = seed
        report = self._report(subject, points, seed, host, attempt_noting_shapes)
        if as_json:
            shown = guidance.without_hints(report) if _are_hints_staged() else report
            with words.use(_notebook_language()):
                guidance.show_json(shown, last_shapes)
        else:
            host.show(report)
        return Points(report.score)

    def _report(
        self,
        subject: str,
        points: float,
        seed: int,
        host: CheckHost,
        run_attempt: Callable[[Check, Any, int], Attempt] = attempt,
    ) -> Report:
        """Return the report on a function of a notebook, without what earlier functions that it
        calls do wrong.
        """
        function = host.lookup(subject)
        report = self.examine(subject, function, points, seed, run_attempt=run_attempt)
        if any(result.status.costs_points for result in report.results):
            report = self._on_its_own(report, function, host)
        return report

    def hint(self, subject: str) -> None:
        """Show a hint on what a function's first failed check found, and with each call one more.

        The first says where to read, the next how the result differs from a right one, the last the
        likely cause, if there is one. The inputs are those of the last `run`.

        Parameters
        ----------
        subject : str
            The name of the function under test.
        """
        with words.use(_notebook_language()):
            if self._is_unknown(subject):
                return
            host = _host.get()
            seed = self._seeds.setdefault(subject, host.seed)
            report = self._report(subject, 0.0, seed, host)
            failed = [result.name for result in report.results if result.status.costs_points]
            first = failed[0] if failed else ""
            previous, count = self._hinted.get(subject, ("", 0))
            count = count + 1 if first == previous else 1
            self._hinted[subject] = first, count
            guidance.show_hints(report, count)

    def status(self) -> None:
        """Show all exercises in this folder: their points as the checks last found them, and
        what is next.
        """
        folder = _exercise_folder()
        with words.use(_notebook_language()):
            standings = list(progress.standings(folder)) if folder else []
            guidance.show_status(standings, folder.name if folder else "", self.read)

    def reset(self, subject: str) -> None:
        """Put the given text of a function into a new cell below this one; what is there stays as
        it is.

        Parameters
        ----------
        subject : str
            The name of the function under test.
        """
        folder = _exercise_folder()
        shell = _shell()
        with words.use(_notebook_language()):
            if self._is_unknown(subject):
                return
            released = progress.released(folder) if folder else {}
            cells = progress.in_language(released.get("given", {}))
            text = cells.get(subject, "") if cells else ""
            guidance.show_given(subject, text, has_cells=shell is not None)
            if shell is not None and text:
                shell.set_next_input(text)

    def _is_unknown(self, subject: str) -> bool:
        """Tell, and say, that there is no function under test of this name."""
        known = list(dict.fromkeys(check.subject for check in self.checks))
        if subject in known:
            return False
        close = difflib.get_close_matches(str(subject), known, n=1)
        names = joined("{left}, {right}", [f"`{name}`" for name in (close or known)])
        guidance.write(
            Message(
                "There is no function `{name}` here. There is: {names}.", name=subject, names=names
            )
        )
        return True

    def _on_its_own(self, report: Report, function: Any, host: CheckHost) -> Report:
        """Return the report on a function without what earlier functions that it calls do wrong.

        The earlier functions that its code names are examined in order, each with the course's
        answers in place of those before it that failed. Then the function itself is examined, with
        the course's answer in place of each that failed. This second report counts if the function
        did call one of these answers, and lost nothing by it.
        """
        try:
            failing = self._failing_helpers(report, function, host)
            if not failing:
                return report
            with self.with_answers(failing, host) as called:
                second = self.examine(report.subject, function, report.points, report.seed)
        except Exception as error:
            if not getattr(error, "ended", False):
                raise
            return report  # the guest ended on the way: there is only the first report
        second.instead = [name for name in failing if name in called]
        lost_nothing = second.score + second.pending >= report.score + report.pending
        return second if second.instead and lost_nothing else report

    def _failing_helpers(self, report: Report, function: Any, host: CheckHost) -> list[str]:
        """Return the earlier functions that a function's code names, that fail, and that the course
        can replace.

        The code is in a student's process, so this only saves examining the others: `host` sees
        what is called. A function that the course has no answer for, such as a pencil question, is
        judged as it is, and so is a class that inherits from one that fails: its own code cannot be
        distinguished from what it inherits.
        """
        subjects = list(dict.fromkeys(check.subject for check in self.checks))
        earlier = subjects[: subjects.index(report.subject)]
        helpers = {name: host.lookup(name) for name in earlier if self._answer(name) is not None}
        failing: list[str] = []
        for name in names_used(function, helpers) if helpers else ():
            with self.with_answers(failing, host):
                helper = self.examine(name, helpers[name], seed=report.seed, diagnosis=False)
            if any(result.status.costs_points for result in helper.results):
                failing.append(name)
        return failing

    @contextlib.contextmanager
    def with_answers(self, names: Sequence[str], host: CheckHost) -> Iterator[set[str]]:
        """Replace these names of a notebook with the course's answers; checks see them in
        `instead`.

        The context's value is the set of those that were called so far.
        """
        if not names:
            yield set()
            return
        self.instead = frozenset(names)
        try:
            with host.instead({name: self._answer(name) for name in names}) as called:
                yield called
        finally:
            self.instead = frozenset()

    def _answer(self, name: str) -> Any:
        """Return the course's answer for a function; None where it has none at hand."""
        return self.replacements.get(name) or reference_answer(self.listed("right_for", name))

    # Numbers that memory happened to hold are compared, converted and shown like others.
    @np.errstate(all="ignore")
    def examine(
        self,
        subject: str,
        function: Any,
        points: float = 1.0,
        seed: int = 0,
        *,
        run_attempt: Callable[[Check, Any, int], Attempt] = attempt,
        diagnosis: Diagnosis | bool = True,
    ) -> Report:
        """Return the `Report` on `function`, an answer for `subject`.

        Parameters
        ----------
        subject : str
        function : callable
        points : float
        seed : int
        run_attempt : callable, optional
            Does as `subject.attempt`, and may remember what it did.
        diagnosis : Diagnosis or bool, optional
            Finds why checks failed. Default: a new one. With False, no reasons are searched for.

        Raises
        ------
        ValueError
            If there is no check for it.
        """
        checks = self.checks_of(subject)
        if not checks:
            raise ValueError(f"there is no check for {subject!r} in {self.module}")
        examination = _Examination(_why_unwritten(subject, function))
        for check in checks:
            self._run(check, function, seed, run_attempt, examination)
        if diagnosis and any(observed.failure for observed in examination.attempts.values()):
            finder = diagnosis if isinstance(diagnosis, Diagnosis) else Diagnosis()
            self._enter_findings(finder, examination, subject, function, seed)
        score, pending = examination.score_and_pending(float(points))
        return Report(
            subject,
            float(points),
            score,
            seed,
            read=self.read.get(subject, ""),
            results=list(examination.results.values()),
            pending=pending,
        )

    def _enter_findings(
        self,
        finder: Diagnosis,
        examination: "_Examination",
        subject: str,
        function: Any,
        seed: int,
    ) -> None:
        """Enter in the results of failed checks why they failed, as far as that is known."""
        # A fault in our list of wrong answers must not cost a student points.
        with contextlib.suppress(Exception):
            findings = finder.findings(
                self.checks_of(subject),
                function,
                examination.attempts,
                self.listed("wrong_for", subject),
                self.listed("right_for", subject),
                seed,
                self.plain.get(subject),
            )
            for name, finding in findings:
                examination.results[name].enter(finding)

    def _run(
        self,
        check: Check,
        function: Any,
        seed: int,
        run_attempt: Callable[[Check, Any, int], Attempt],
        examination: "_Examination",
    ) -> None:
        """Run a check, unless it waits for another one or for another machine; enter its result."""
        name = check.__name__
        result = Result(name, check.title, check.weight, measured=check.measured)
        examination.results[name] = result
        if examination.blocks(check, result):
            return
        lacks = examination.lacks(check)
        if lacks is None:
            observed = run_attempt(check, function, seed)
            # Now `blocks` blocks all later checks with the same message, which is shown once.
            earlier = examination.attempts.values()
            if observed.failure is not None and _is_unwritten(observed.calls, earlier):
                message = (
                    "{function}, or a function that it calls, is not written yet: it raises "
                    "NotImplementedError."
                )
                examination.unwritten = Message(message, function=check.subject)
                result.status = Status.BLOCKED
                result.message = examination.unwritten
                return
            if reason := self._why_reference_fails(check, function, observed, seed):
                lacks = (check.on or machine.OWN_ANSWER, reason)
        if lacks is not None:
            examination.unverified[name] = lacks
            result.on, result.message = lacks
            result.status = Status.UNVERIFIED
            return
        examination.attempts[name] = observed
        failure = observed.failure
        if failure is not None:
            examination.failed[name] = [name]
            result.status = Status.FAILED if check.weight else Status.ADVICE
            result.message = failure.message
            result.held = failure.held
            result.where = first_wrong(failure)
            result.raised = failure.raised
            result.explained = failure.explained

    def _why_reference_fails(
        self, check: Check, function: Any, observed: Attempt, seed: int
    ) -> Message | str:
        """Return a sentence if the course's own answer also fails a check that ended in an error.

        Then no one loses a point: the cause is another version of a library.
        """
        if observed.failure is None or not observed.failure.raised or not check.weight:
            return ""
        if any(getattr(call.error, "ended", False) for call in observed.calls[-1:]):
            return ""  # the guest is gone
        if is_listed(function):
            return ""
        if check.subject in self.plain:
            return ""  # slow ones, such as kernels: the machine is tried before they are judged
        with contextlib.suppress(Exception):  # a list that cannot be loaded is no excuse
            reference = reference_answer(self.listed("right_for", check.subject))
            if reference is not None:
                failure = attempt(check, reference, seed).failure
                return Message(REFERENCE_FAILS, said=failure.message) if failure else ""
        return ""


@dataclass
class _Examination:
    """The results of a function's checks so far, by the name of the check.

    `unwritten` says why there is nothing to check, if that is so. `failed` has, for each check
    that failed or waits, the failed ones that are the reason; `unverified`, for each that cannot be
    verified here, what it needs of the machine, and why the machine lacks it.
    """

    unwritten: str | Message
    results: dict[str, Result] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)
    unverified: dict[str, tuple[str, str | Message]] = field(default_factory=dict)

    def score_and_pending(self, points: float) -> tuple[float, float]:
        """Return how many of these points are earned, and how many more may be, elsewhere."""
        results = self.results.values()
        total = sum(result.weight for result in results) or 1  # all checks may be advice
        earned = sum(result.weight for result in results if result.status == Status.PASSED)
        unverified = sum(result.weight for result in results if result.status == Status.UNVERIFIED)
        score = round(points * earned / total, 2)
        # Rounded in sum, so that score and pending points are what will be earned if all pass.
        attainable = round(points * (earned + unverified) / total, 2)
        return score, round(attainable - score, 2)

    def blocks(self, check: Check, result: Result) -> bool:
        """Tell whether a check must wait, and enter the reason: the checks that failed, without
        those that wait themselves.
        """
        failed = [name for need in check.needs for name in self.failed.get(need, ())]
        waits_for = list(dict.fromkeys(failed))
        if not (self.unwritten or waits_for):
            return False
        # A check that waits for this one names the failed checks, and not this one.
        self.failed[check.__name__] = waits_for
        names = joined("{left}, {right}", [f"`{name}`" for name in waits_for]) if waits_for else ""
        result.status = Status.BLOCKED
        result.message = self.unwritten or Message("Waits for {checks}.", checks=names)
        return True

    def lacks(self, check: Check) -> tuple[str, str | Message] | None:
        """Return what a check needs and this machine lacks, with the reason; None if it can be
        run.
        """
        if reason := machine.lacks(check.on):
            return check.on, reason
        for need in check.needs:
            if need in self.unverified:
                return self.unverified[need]
        # Last, because it tries what the machine has, which takes seconds once.
        reason = machine.fails(check.on)
        return (check.on, reason) if reason else None


def check_of(subject: str, name: str, title: str | None, body: Callable[[Any, Any], object]) -> Any:
    """Return a function of `subject` and `draw` that does what the body does, as a check of that
    function.
    """

    def check(function: Any, draw: Any) -> None:
        body(function, draw)

    check.__name__, check.__doc__ = name, title
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in (subject, "draw")]
    check.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    # `inspect.unwrap` finds the file of the body: sizes are looked for in its frames.
    check.__wrapped__ = body  # type: ignore[attr-defined]
    return check


def _why_unwritten(subject: str, function: Any) -> str | Message:
    """Return why there is nothing to check, or an empty string."""
    if function is None:
        message = (
            "{function} is not defined. Run the cell that defines it, and see whether it "
            "raises an error."
        )
        return _host.get().why_undefined(subject) or Message(message, function=subject)
    if not callable(function):
        return Message(
            "Expected {function} to be a function, got {found}.",
            function=subject,
            found=describe(function),
        )
    return ""


def _is_unwritten(calls: list[Call], earlier: Iterable[Attempt]) -> bool:
    """Tell whether the first call says that the function is still to be written, or a call of
    what it made. One that has returned something in an earlier check is written, at least in part.
    """
    has_returned = {call.method for each in earlier for call in each.calls if call.error is None}
    relevant = [call for number, call in enumerate(calls) if number == 0 or call.method]
    return any(
        isinstance(call.error, NotImplementedError) and call.method not in has_returned
        for call in relevant
    )

"""Verify exercises before their release: test what an exercise promises, and report its first fault
in one line.

Its text, its modules and its settings are readable; check cells, checks and listed answers name the
same functions; its solution earns all points; each listed wrong answer fails a check, and no listed
right answer does.
"""

import ast
import contextlib
import importlib
import inspect
import io
import itertools
import multiprocessing
import os
import traceback
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.course import cores, startup
from autograder.course.config import Exercise, Settings, UserError

if TYPE_CHECKING:
    from autograder.authoring import answer_trials, loader
    from autograder.checking import Report

MODULES = ("checks.py", "misconceptions.py")
FURTHER = ("specifications.py", "right_answers.py")


def faults(exercises: Sequence[Exercise]) -> Iterator[tuple[Exercise, str]]:
    """Yield each exercise once it has been verified, with its first fault: one line, or an empty
    string.

    Authors' code runs in separate processes, one for each core.
    """
    if not exercises:
        return
    # Not a fork: `fault` sets variables that modules read when they are imported.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(len(exercises), cores.count()), mp_context=spawn) as pool:
        # The later ones take longest, and begin first: no core is left with one at the end.
        futures = {
            pool.submit(fault, exercise.solution): exercise for exercise in reversed(exercises)
        }
        # nbgrader takes seconds to load, and is needed next.
        importlib.import_module("autograder.authoring.release")
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                names = ", ".join(exercise.name for exercise in exercises)
                raise UserError(
                    f"Python itself crashed while these were verified: {names}. Find the code "
                    "that crashes it."
                ) from None


def fault(folder: Path) -> str:
    """Return the first fault of the exercise in an author's folder, or an empty string."""
    startup.begin()
    os.environ["MPLBACKEND"] = "Agg"
    # Kernels are interpreted where there is no GPU. Triton asks as it is imported, and torch's
    # compiler imports it.
    if not Path("/dev/nvidiactl").exists():
        os.environ.setdefault("TRITON_INTERPRET", "1")
    warnings.simplefilter("ignore")
    try:
        _verify(folder)
    except UserError as error:
        return str(error)
    return ""


def _verify(folder: Path) -> None:
    from autograder.authoring import answer_trials, syntax, verified

    # First, so that a file which is changed during the run does not count as verified.
    state = verified.state(folder)
    settings = Settings.read(folder)
    for name in [*MODULES, *(name for name in FURTHER if (folder / name).exists())]:
        _require_readable(folder / name)
        for line, problem in syntax.faults(folder / name):
            raise UserError(f"{_short(folder / name, line)}: {problem}")
    exercise = _loaded(folder)
    _require_same_names(exercise)
    _require_settings_for_machine(exercise, settings)
    # Checks that need what this machine lacks are left out, and `release` says so.
    _require_all_points(exercise)
    trials = []
    for subject in exercise.subjects:
        trials.append(answer_trials.try_answers(exercise, subject))
        _require_listed_results(exercise, trials[-1])
    verified.write(folder, state, *answer_trials.to_record(exercise, trials))


def _require_settings_for_machine(exercise: "loader.Loaded", settings: Settings) -> None:
    """Refuse a check on a GPU if guests would not get one: every answer would fail it on a
    machine with a GPU.
    """
    for check in exercise.suite.checks:
        if check.on == "gpu" and not settings.gpu:
            where = _location(exercise.folder / "checks.py", check)
            raise UserError(
                f"{where}: the check {check.__name__} needs a "
                "GPU, but submissions of this exercise do not get one; write gpu = true in its "
                "exercise.toml."
            )


def _short(path: Path, line: int | None = None) -> str:
    """Return a place in a file for authors: `solutions/01-qkv/checks.py:12`."""
    path_in_course = str(Path(*path.parts[-3:]))
    return path_in_course if line is None else f"{path_in_course}:{line}"


def _require_readable(path: Path) -> None:
    try:
        ast.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{_short(path)} is missing; an exercise has {', '.join(MODULES)} next to its text."
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"{_short(path)} is not UTF-8 text; save it as such.") from None
    except SyntaxError as error:
        raise UserError(f"{_short(path, error.lineno)}: this is not Python: {error.msg}.") from None


def _loaded(folder: Path) -> "loader.Loaded":
    from autograder.authoring import loader

    with _quiet(folder, "loading it"):
        exercise = loader.load(folder)
    if not hasattr(exercise.checks, "suite") or not hasattr(exercise.checks, "run"):
        raise UserError(
            f"{_short(folder / 'checks.py')} needs a suite and run: suite = "
            "Suite(...); run = suite.run"
        )
    return exercise


def _require_same_names(exercise: "loader.Loaded") -> None:
    """Check that the notebook's cells, the checks and the listed answers name the same
    functions.
    """
    from autograder.authoring import source

    path = exercise.folder / f"{exercise.folder.name}.py"
    lines = source.lines(path.read_text(encoding="utf-8"), exercise.notebook)
    cells = list(zip(exercise.notebook.cells, lines, strict=True))
    answers, given = _defined_in(cells, answers=True), _defined_in(cells, answers=False)
    _require_functions(exercise, path, answers, given)
    run = _checked_by_cells(exercise, path, cells, answers, given)
    _require_check_cells(exercise, path, cells, run)
    _require_points(exercise)
    _require_checks_of_answers(exercise)


def _require_functions(
    exercise: "loader.Loaded", path: Path, written: dict[str, int], given: dict[str, int]
) -> None:
    for check in exercise.suite.checks:
        if check.subject not in written | given:
            raise UserError(
                f"{_location(exercise.folder / 'checks.py', check)}: {check.__name__} checks "
                f"{check.subject!r}, its first argument, but no cell of {path.name} defines that; "
                f"the cells define: {', '.join(written) or 'nothing'}."
            )


def _checked_by_cells(
    exercise: "loader.Loaded",
    path: Path,
    cells: Sequence[tuple[Any, int]],
    written: dict[str, int],
    given: dict[str, int],
) -> set[str]:
    """Return the functions that check cells run; refuse one that has no checks, or that students
    do not write.
    """
    from autograder.authoring import source
    from autograder.course.cells import call_of, is_check

    subjects = exercise.subjects
    run: set[str] = set()
    for cell, line in cells:
        call = call_of(cell) if is_check(cell) else None
        if call and call.subject not in subjects:
            raise UserError(
                f"{_short(path, line)}: {call.subject} has no checks in checks.py; "
                f"it has checks for: {', '.join(subjects) or 'nothing'}."
            )
        if call and call.subject not in written:
            raise UserError(
                f"{_short(path, given[call.subject])}: {call.subject!r} is checked, but students "
                f"get it complete; put the part that they write between {source.BEGIN} and "
                f"{source.END}."
            )
        if call:
            run.add(call.subject)
    return run


def _require_check_cells(
    exercise: "loader.Loaded", path: Path, cells: Sequence[tuple[Any, int]], run: set[str]
) -> None:
    """Refuse an answer cell that no check cell checks, and a check that no cell runs."""
    from autograder.course.cells import grade_id, is_answer, is_check, is_code, is_read

    named = {name for cell, _line in cells if is_check(cell) for name in _names(cell.source)}
    for cell, line in cells:
        defined = (
            _defined(cell.source) if is_code(cell) and is_answer(cell) and not is_read(cell) else []
        )
        if defined and not (run | named) & set(defined):
            raise UserError(
                f"{_short(path, line)}: no check cell checks {defined[0]}; "
                f'add one after {grade_id(cell)} that ends in checks.run("{defined[0]}", '
                "points=...)."
            )
    for check in exercise.suite.checks:
        if check.subject not in run:
            raise UserError(
                f"{_location(exercise.folder / 'checks.py', check)}: no check cell runs the check "
                f"{check.__name__}; "
                f'add one to the notebook that ends in checks.run("{check.subject}", points=...).'
            )


def _require_points(exercise: "loader.Loaded") -> None:
    for tested in exercise.subjects:
        checks = exercise.suite.checks_of(tested)
        if not any(check.weight for check in checks):
            where = _location(exercise.folder / "checks.py", checks[0])
            raise UserError(
                f"{where}: no check of {tested} is worth points; give one of them a weight above 0."
            )


def _require_checks_of_answers(exercise: "loader.Loaded") -> None:
    """Refuse a listed answer for a function without checks, and a wrong one without a hint."""
    from autograder.checking.answers import answers_in

    folder, subjects = exercise.folder, exercise.subjects
    for answer in [answer for module in exercise.answers for answer in vars(module).values()]:
        subject = getattr(answer, "wrong_for", None) or getattr(answer, "right_for", None)
        if isinstance(subject, str) and subject not in subjects:
            where = _answer_location(folder, answer)
            raise UserError(
                f"{where}: {answer.__name__} is listed for {subject}, which "
                f"has no checks; there are checks for: {', '.join(subjects)}."
            )
    for tested in subjects:
        listed = [answers_in(module, "wrong_for", tested) for module in exercise.answers]
        for wrong in itertools.chain(*listed):
            if not wrong.hint.strip():
                raise UserError(
                    f"{_answer_location(folder, wrong)}: {_called(wrong)} has no hint; "
                    'write hint="...", which says what the code does and what to look at.'
                )


def _defined_in(cells: Sequence[tuple[Any, int]], answers: bool) -> dict[str, int]:
    """Return the names that students' own cells define, or that the given cells do, each with
    its cell's line.
    """
    from autograder.course import imports
    from autograder.course.cells import is_answer, is_code

    names: dict[str, int] = {}
    for cell, line in cells:
        if is_code(cell) and is_answer(cell) == answers:
            body = imports.parsed(cell.source).body
            assigned = {
                target.id: line
                for node in body
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            names |= dict.fromkeys(_defined(cell.source), line) | assigned
    return names


def _called(answer: Any) -> str:
    """Return the name of an answer, for its author: a member of a family by its label."""
    return f"the family {answer.label!r}" if hasattr(answer, "made_from") else str(answer.__name__)


def _names(code: str) -> set[str]:
    from autograder.course import imports

    return {node.id for node in ast.walk(imports.parsed(code)) if isinstance(node, ast.Name)}


def _defined(code: str) -> list[str]:
    """Return the functions and classes that a cell's code defines."""
    from autograder.course import imports

    return [
        node.name
        for node in imports.parsed(code).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]


def _location(path: Path, declared: Any) -> str:
    """Return where a check or a listed answer is declared, if it is in this file."""
    with contextlib.suppress(OSError, TypeError):
        if inspect.getsourcefile(declared) == str(path):
            return _short(path, inspect.getsourcelines(declared)[1])
    return _short(path)


def _answer_location(folder: Path, answer: Any) -> str:
    """Return where a listed answer is declared; for a member of a family, where the family's
    right answer is.
    """
    answer = getattr(answer, "made_from", answer)
    return _location(folder / f"{answer.__module__}.py", answer)


class _Author:
    """The place where an author's solution is checked: the notebook's text, run as a script."""

    def __init__(self, suite: Any, seeds: Sequence[int]):
        self.suite = suite
        self.names = {"__name__": "__main__"}
        self.seed, *self.others = seeds

    def lookup(self, name: str) -> Any:
        """Return what the script has under a name now, or None."""
        return self.names.get(name)

    def why_undefined(self, name: str) -> str:
        """Return that it does not show: a script that defines less ends in an error of its own."""
        return ""

    def instead(self, answers: dict[str, Any]) -> contextlib.AbstractContextManager[set[str]]:
        """Leave the script unchanged: its failures have been reported."""
        return contextlib.nullcontext(set())

    def code_of(self, name: str) -> None:
        """Return None: checks do not look at an author's text."""

    def show(self, report: "Report") -> None:
        """Raise `_Lost` if the solution lost points in this report, or with another seed."""
        _require_full_report(report, f"the solution of {report.subject}")
        for seed in self.others:
            again = self.suite.examine(
                report.subject, self.lookup(report.subject), report.points, seed
            )
            _require_full_report(again, f"the solution of {report.subject}")


class _Lost(Exception):
    """A solution or right answer did not earn all points."""


def _require_full_report(report: "Report", description: str) -> None:
    from autograder.authoring import answer_trials

    if said := answer_trials.lost(report):
        raise _Lost(f"{description} {said}")


def _require_all_points(exercise: "loader.Loaded") -> None:
    from autograder.authoring import answer_trials
    from autograder.checking import use_host

    path = exercise.folder / f"{exercise.folder.name}.py"
    host = _Author(exercise.suite, answer_trials.SEEDS)
    with _quiet(exercise.folder, "running it"), use_host(host):
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), host.names)  # noqa: S102 (an author's own text)


def _require_listed_results(exercise: "loader.Loaded", trial: "answer_trials.AnswerTrials") -> None:
    from autograder.checking import machine

    suite, folder = exercise.suite, exercise.folder
    answers = {
        answer.__name__: answer
        for kind in ("wrong_for", "right_for")
        for answer in suite.listed(kind, trial.subject)
    }
    fix = "add a check that it fails, or take it off the list"
    if any(machine.lacks(check.on) for check in suite.checks_of(trial.subject)):
        fix += ', or give it on="gpu" if only a GPU shows it'
    for wrong in trial.wrong:
        answer = answers[wrong.name]
        where = _answer_location(folder, answer)
        if wrong.passed_seeds:
            its_fix = fix
            if hasattr(answer, "made_from"):
                leave_out = f'leave it out with but=["{wrong.label}"]'
                its_fix = fix.replace("take it off the list", leave_out)
            raise UserError(
                f"{where}: {_called(answer)} is listed as a wrong answer but passes "
                f"every check of {trial.subject} (seed {wrong.passed_seeds[0]}); {its_fix}."
            )
        if wrong.slip:
            raise UserError(
                f"{where}: {_called(answer)} is only caught by a slip, {wrong.slip}; "
                "fix that, so that the checks find its mistake instead."
            )
    for right in trial.right:
        if right.lost:
            where = _answer_location(folder, answers[right.name])
            raise UserError(f"{where}: the right answer {right.name} {right.lost}")


@contextlib.contextmanager
def _quiet(folder: Path, doing: str) -> Iterator[None]:
    """Run an author's code without its output; report an exception in one line, with the
    author's last line.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a script may also exit
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if Path(frame.filename).parent == folder]
        location = (
            _short(Path(theirs[-1].filename), theirs[-1].lineno) if theirs else _short(folder)
        )
        message = str(error)
        if not isinstance(error, _Lost):
            message = f"{doing} ended in {type(error).__name__}: {error}"
        raise UserError(f"{location}: {message}") from None

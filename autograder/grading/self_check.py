"""One notebook on its author's own machine: graded like any other, without a sandbox and without
a gradebook.
"""

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from autograder.checking import words
from autograder.checking.words import Message
from autograder.course import seeds
from autograder.course.config import Course, Exercise, UserError, edition_of
from autograder.course.limits import Limits
from autograder.grades.results import Kind, Outcome
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.worker_config import WorkerConfig
from autograder.sanitize import text

STARTING = "imports, the guest starting beside them"


class SelfCheck:
    """A student's notebook, and the worker that grades it; use it in a `with` block.

    Parameters
    ----------
    course : Course
    path : Path
        The notebook.
    seed : int, optional
        The seed of the checks' inputs. Default: a new one.
    sandbox : bool
        Whether its cells run in a sandbox.

    Attributes
    ----------
    exercise : Exercise
        The one that the notebook answers.
    language : str
        The language that the notebook was released in; "" for English.
    cells : int
        How many code cells there are to run, for a progress bar.
    """

    def __init__(self, course: Course, path: Path, seed: int | None = None, sandbox: bool = False):
        self.timer = PhaseTimer()
        self.course, self.path, self.seed = course, path, seed
        with self.timer(STARTING):
            # The name alone says in time which imports the guest has to load: reading comes later.
            self.limits = Limits.configured(course.config)
            named = _of_name(course.released(), path)
            exercises = [named] if named else []
            self.worker_config = WorkerConfig.for_course(course, exercises, self.limits, sandbox)
            self.guests = self.worker_config.guests()
            # Python starts there and loads what the notebook imports, while it is read here.
            self.guests.start()
        try:
            with self.timer(STARTING):  # here, so that the next phase is reading alone
                importlib.import_module("autograder.grading.worker")
            with self.timer("reading the notebook"):
                self._read()
            with self.timer("loading the checks, the guest starting beside them"):
                self.worker.judges[self.exercise.name].load()
        except BaseException:
            self.guests.close()
            raise

    def _read(self) -> None:
        # Imported here, while the guest starts.
        from autograder.course.cells import is_code
        from autograder.grading import file_kinds, submissions
        from autograder.grading.worker import Worker

        data, problem = submissions.read_file(self.path, self.limits.notebook_mb)
        parsed = _parsed(self.path, data, problem)
        assert data is not None
        self.exercise = _exercise_of(self.course, self.path, parsed)
        self.language = words.language_of(parsed) or edition_of(self.path.name)[1]
        another = file_kinds.wrong_exercise_message(self.exercise, data, text.name(self.path.name))
        if another:
            raise UserError(
                f"{another} To check this one, name it {another.values['other']}.ipynb."
            )
        self.worker = Worker(
            dataclasses.replace(self.worker_config, exercises=(self.exercise.name,)), self.guests
        )
        self.limits = self.worker.limits[self.exercise.name]
        self.cells = sum(
            is_code(cell) for cell in self.worker.released[self.exercise.name][""].cells
        )
        # Next to a notebook in the folder of the release are the course's files, not a student's.
        files: dict[str, bytes] = {}
        notes: list[Message] = []
        if self.path.parent.resolve() != self.exercise.released.resolve():
            files, notes = submissions.beside(self.path.parent, self.limits.beside_mb)
        self.unit = submissions.Unit(
            student="",
            assignment=self.exercise.name,
            notebook=text.name(self.path.name),
            data=data,
            problem=problem,
            stamp=None,
            files=files,
            notes=notes,
            seed=seeds.fresh_seed() if self.seed is None else self.seed,
            guest_seed=seeds.fresh_seed(),
        )

    def grade(self, on_cell: Callable[[Any], None]) -> Outcome:
        """Return what the notebook is worth, and why.

        Raises
        ------
        UserError
            If the checks cannot run here.
        """
        with self.timer("running it"):
            outcome = self.worker.grade(self.unit, on_cell)
        if outcome.kind == Kind.INFRASTRUCTURE:
            raise UserError(
                f"The checks could not run: {outcome.reason}. Try `python -m autograder doctor`."
            )
        self.timer.add({f"  {phase}": took for phase, took in outcome.seconds.items()})
        return outcome

    def seconds(self) -> dict[str, Any]:
        """Return where the time went."""
        return self.timer.summary(1)

    def __enter__(self) -> "SelfCheck":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.guests.close()


def _parsed(path: Path, data: bytes | None, problem: Message) -> Any:
    """Return the notebook in a file; raise `UserError` if it is none."""
    from autograder.grades import file_problems
    from autograder.grading import notebook

    try:
        if data is None:
            raise notebook.Malformed(problem)
        return notebook.parse(data, text.name(path.name))
    except notebook.Malformed as error:
        reason = str(error.message)
        if error.message.text not in file_problems.SAY_HOW:
            reason += " Open it in Jupyter and save it again, or start from the released one."
        raise UserError(reason) from None


def _of_name(exercises: list[Exercise], path: Path) -> Exercise | None:
    """Return the exercise that a notebook is called after, or None."""
    name, _ = edition_of(path.name)
    return next((exercise for exercise in exercises if exercise.name.lower() == name.lower()), None)


def _exercise_of(course: Course, path: Path, parsed: Any) -> Exercise:
    """Return the exercise that a notebook answers: by its file name, else by its graded cells."""
    import nbformat

    from autograder.course.cells import grade_id, is_graded

    exercises = course.released() or course.exercises()  # where none is, that says which to release
    named = _of_name(exercises, path)
    if named:
        return course.exercises([named.name])[0]
    ids = {cell.get("id") for cell in parsed.cells} | {grade_id(cell) for cell in parsed.cells}
    shared = {}
    for exercise in exercises:
        cells = nbformat.read(exercise.notebook, as_version=4).cells
        shared[exercise] = len(ids & {cell.id for cell in cells if is_graded(cell)})
    if any(shared.values()):
        most = max(shared, key=lambda exercise: shared[exercise])
        return course.exercises([most.name])[0]
    names = ", ".join(exercise.name for exercise in exercises)
    raise UserError(
        f"{text.name(path.name)} belongs to no exercise here. The exercises are: "
        f"{names or 'none released yet'}."
    )

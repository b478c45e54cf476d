"""A race: the kernels of a class, compared with each other and with the course's own.

It changes no grade.

Submissions run in guests, as in grading. The course's own kernels have a guest of their own, so no
student's process ever has the course's answer.
"""

import contextlib
import copy
import csv
import dataclasses
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import Environment, PackageLoader

from autograder.checking import machine
from autograder.checking.words import Message
from autograder.course import cores, seeds
from autograder.course.cells import Notebook
from autograder.course.config import Course, Exercise, Race, UserError
from autograder.course.limits import Limits
from autograder.grades import reasons
from autograder.grades.records import record_of
from autograder.grades.results import CellResult, Kind, Outcome, Record
from autograder.grading import submissions
from autograder.grading.backends import Backend, Job
from autograder.grading.executors import LocalExecutor
from autograder.grading.submissions import Unit
from autograder.grading.worker_config import WorkerConfig
from autograder.racing import gpu_conditions, laps
from autograder.racing.laps import MOST_REASON, Lap, Measured, Mode, geometric_mean
from autograder.sanitize import code, text

COURSE = "the course's own"
MOST_NAMED = 3
COUNTS = {
    "launches": "launches",
    "programs": "programs",
    "loaded": "bytes loaded",
    "stored": "bytes stored",
    "products": "tiles multiplied",
}
"""What is counted without a GPU, and what people read for it."""


@dataclass
class Entrant:
    """One submission that takes part, or the course's own, and its laps: one for each value of
    the setting.
    """

    name: str
    unit: Unit
    course: bool = False
    laps: list[Lap] = field(default_factory=list)


@dataclass(frozen=True)
class LeftOut:
    """A submission that does not take part, or was dropped, and the reason."""

    student: str
    reason: str


@dataclass(frozen=True)
class Placed:
    """An entrant's place, its best lap, and the score of that: lower is better; see
    `Contest.score`.
    """

    rank: int
    entrant: Entrant
    lap: Lap
    score: float


class Contest:
    """One race over a class; use it in a `with` block, after `choose_sandbox`.

    Parameters
    ----------
    course : Course
    exercise : Exercise
    submitted : Path
        The folder with the submissions.

    Attributes
    ----------
    entrants : list of Entrant
        Those who take part; `check` drops those that fail.
    left_out : list of LeftOut

    Raises
    ------
    UserError
        If the exercise has no race, or no submission qualifies.
    """

    def __init__(self, course: Course, exercise: Exercise, submitted: Path):
        self.course, self.exercise, self.race = course, exercise, race_of(course, exercise)
        submissions.expect_folder(submitted)
        self.executor = LocalExecutor()
        self.executor.begin(course.root, [exercise.name])
        limits = Limits.configured(course.config)
        hand_ins = submissions.find([exercise], submitted)
        self.worker_config = WorkerConfig.for_course(
            course,
            [exercise],
            limits,
            hidden=[submitted.resolve()],
            imports=submissions.imported(hand_ins, limits.notebook_mb),
        )
        self.entrants: list[Entrant] = []
        self.left_out: list[LeftOut] = []
        records = [record_of(course, item.student, exercise.name) for item in hand_ins]
        if not any(records):
            state = "has a grade" if hand_ins else "was found"
            raise UserError(
                f"No submission of {exercise.name} in {submitted} {state}. The race takes those "
                f"with all points for {self._functions}. Run: python -m autograder grade "
                f"{exercise.name}"
            )
        for submission, record in zip(hand_ins, records, strict=True):
            unit = submission.read(self.worker_config.limits_of(exercise.name))
            # With new seeds: what was checked once with known inputs is checked again with others.
            self._admit(
                Entrant(_name_of(submission.student), _redrawn(unit)), self._refusal(record, unit)
            )
        self._expect_some()

    @property
    def _functions(self) -> str:
        return " and ".join(self.race.functions)

    def _admit(self, entrant: Entrant, refusal: str) -> None:
        if refusal:
            self.left_out.append(LeftOut(entrant.name, refusal))
        else:
            self.entrants.append(entrant)

    def _refusal(self, record: Record | None, unit: Unit) -> str:
        """Return why a submission does not take part, as its record says; "" if it does."""
        if record is None:
            return "It has no grade yet."
        if record.submission_digest != unit.digest:
            return "It has changed since it was graded; grade it again first."
        if record.kind.ungraded:
            return text.line(f"It could not be graded: {record.reason}", MOST_REASON)
        return self._lost(record.cells)

    def _lost(self, cells: dict[str, CellResult]) -> str:
        """Return which of the race's functions lost points, and to what, or was not graded; ""
        if there is none.
        """
        for name in self.race.functions:
            cell = next((cell for cell in cells.values() if cell.subject == name), None)
            if cell is None:
                return f"{name} was not graded."
            if cell.lost() > 1e-9:
                return text.line(f"{name} lost points: {reasons.lost_to(cell)}", MOST_REASON)
        return ""

    def _expect_some(self) -> None:
        """Raise `UserError` if no student is left."""
        if all(entrant.course for entrant in self.entrants):
            first, others = self.left_out[:MOST_NAMED], self.left_out[MOST_NAMED:]
            named = " ".join(f"{entry.student}: {entry.reason.rstrip('.')}." for entry in first)
            more = f" And {len(others)} more." if others else ""
            raise UserError(f"No submission of {self.exercise.name} can take part. {named}{more}")

    def choose_sandbox(self, wanted: bool, warn: Callable[[str], None]) -> None:
        """Decide whether submissions run in a sandbox, and how kernels are measured; add the
        course's own.
        """
        self.worker_config = self.executor.configure(self.worker_config, wanted, False, warn)
        self.mode = mode_of(self.worker_config)
        notebook = _solved(self.exercise)
        if notebook:
            unit = Unit(
                "", self.exercise.name, self.exercise.notebook.name, notebook, Message(""), None, {}
            )
            self.entrants.append(Entrant(COURSE, _redrawn(unit), course=True))
        else:
            warn(f"The course's own kernels do not take part: there is no {self.exercise.text}.")

    def __enter__(self) -> "Contest":
        self.executor.open(self.worker_config, soon=True)
        return self

    def __exit__(self, *error: object) -> None:
        self.executor.close()

    def check(self) -> Iterator[str]:
        """Check all entrants again on this machine, with new inputs; drop those that fail.

        Yield each one's name.
        """
        entrants, self.entrants = self.entrants, []
        jobs = [Job(number, "grade", (entrant.unit,)) for number, entrant in enumerate(entrants)]
        refusals: dict[int, str] = {}
        with self._backend(min(cores.count(), len(jobs))) as backend:
            for key, answer in _answers(backend, jobs):
                refusals[key] = self._failure(answer)
                yield entrants[key].name
        for number, entrant in enumerate(entrants):
            self._admit(entrant, refusals[number])
        self._expect_some()

    def _failure(self, answer: Outcome | Exception) -> str:
        """Return why an entrant failed when it was checked again, or ""."""
        if isinstance(answer, Exception):
            return text.line(f"It could not be checked on this machine: {answer}", MOST_REASON)
        if answer.kind in (Kind.MALFORMED, Kind.INFRASTRUCTURE):
            return text.line(
                f"It could not be checked on this machine: {answer.reason}", MOST_REASON
            )
        lost = self._lost(answer.cells)
        return lost and f"Checked again on this machine: {lost}"

    def run(self) -> Iterator[str]:
        """Measure the entrants with each value of the setting; yield each lap's name.

        Timed laps run one by one.
        """
        timed, count = self.mode.timed, len(self.race.values)
        pairs = [(entrant, value) for entrant in self.entrants for value in self.race.values]
        jobs = [
            Job(key, "apply", (entrant.unit, laps.lap_of, value, self.mode))
            for key, (entrant, value) in enumerate(pairs)
        ]
        results: dict[int, Lap] = {}
        with self._backend(1 if timed else min(cores.count(), len(jobs))) as backend:
            # Timed laps one by one: each has the GPU to itself.
            batches = [[job] for job in jobs] if timed else [jobs]
            for batch in batches:
                with gpu_conditions.sample_conditions(timed) as conditions:
                    for key, answer in _answers(backend, batch):
                        entrant, value = pairs[key]
                        if isinstance(answer, Exception):
                            reason = text.line(f"It could not be run: {answer}", MOST_REASON)
                            answer = Lap(value, reason=reason)
                        answer.conditions = conditions  # filled in when this context ends
                        results[key] = answer
                        yield f"{entrant.name}, {self.race.setting} = {value}"
        for number, entrant in enumerate(self.entrants):
            first = number * count
            entrant.laps = [results[key] for key in range(first, first + count)]
        # Over a copy, because entrants without any lap are removed.
        for entrant in list(self.entrants):
            if all(lap.reason for lap in entrant.laps):
                self.entrants.remove(entrant)
                lap = entrant.laps[0]
                reason = f"With {self.race.setting} = {lap.value}: {lap.reason}"
                self.left_out.append(LeftOut(entrant.name, reason))
        self._expect_some()

    @contextlib.contextmanager
    def _backend(self, jobs: int) -> Iterator[Backend]:
        backend = self.executor.backend(jobs)
        try:
            yield backend
        finally:
            backend.close()

    def score(self, lap: Lap) -> float:
        """Return what laps are ranked by: the time in units of the rival's, a geometric mean; or
        bytes moved.
        """
        if self.mode.timed:
            return geometric_mean([part.milliseconds / part.rival for part in lap.measured])
        return float(sum(part.moved for part in lap.measured))

    def placed(self) -> list[Placed]:
        """Return the entrants' places, each with its best lap; those with equal scores share a
        place.
        """
        scored = []
        for entrant in self.entrants:
            finished = [lap for lap in entrant.laps if not lap.reason]
            best = min(finished, key=self.score)
            scored.append((self.score(best), entrant, best))
        scored.sort(key=lambda entry: (entry[0], entry[1].name))
        placed = []
        for score, entrant, lap in scored:
            better = sum(other < score for other, _, _ in scored)
            placed.append(Placed(1 + better, entrant, lap, score))
        return placed


def _answers(backend: Backend, jobs: list[Job]) -> Iterator[tuple[int, Any]]:
    """Yield the key and the answer of each of these jobs, as they are done."""
    waiting, running = deque(jobs), 0
    while waiting or running:
        while waiting and backend.free():
            backend.submit(waiting.popleft())
            running += 1
        job, answer = backend.result()
        running -= 1
        yield job.key, answer


def race_of(course: Course, exercise: Exercise) -> Race:
    """Return what is raced in an exercise; if there is nothing, raise `UserError` and name those
    that have a race.
    """
    race = exercise.settings.race
    if race is None:
        names = ", ".join(other.name for other in course.released() if other.settings.race)
        raise UserError(
            f"{exercise.name} has no kernels to race: its exercise.toml has no [race]. Exercises "
            f"with one: {names or 'none'}."
        )
    return race


def mode_of(worker_config: WorkerConfig) -> Mode:
    """Return how kernels are measured where guests of a worker run; raise `UserError` if they
    cannot be.
    """
    # What was tried in a guest counts more than what is installed here.
    trial_results = dict(worker_config.trial_results)
    if reason := trial_results.get("triton") or str(machine.lacks("triton")):
        raise UserError(f"No kernel can run here, so there is no race: {reason}")
    if worker_config.uses_gpu():
        return Mode(
            "cuda", "bfloat16" if trial_results.get("bf16") == "" else "float16", timed=True
        )
    return Mode("cpu", "float16", timed=False)


def _name_of(student: str) -> str:
    """Return a student's name, marked where it reads like the name of the course's own entrant."""
    # By its letters alone, so that no spacing or punctuation makes another name of it.
    name = text.line(student)

    def letters(title: str) -> str:
        return "".join(filter(str.isalnum, title.casefold()))

    return f"{name} (a student)" if letters(COURSE) in letters(name) else name


def _redrawn(unit: Unit) -> Unit:
    """Return a unit of work with new seeds."""
    return dataclasses.replace(unit, seed=seeds.fresh_seed(), guest_seed=seeds.fresh_seed())


def _solved(exercise: Exercise) -> bytes | None:
    """Return the released notebook with the author's solutions, as a file; None if the author's
    text is not here.
    """
    if not exercise.text.exists():
        return None
    from autograder.authoring import source
    from autograder.authoring.answer_cells import solutions_in

    notebook: Notebook = copy.deepcopy(nbformat.read(exercise.notebook, as_version=4))
    # Made here and never written: the released folder must not have the solutions.
    solutions = solutions_in(source.read(exercise.text))
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = solutions.get(grade_id, cell.source)
    return str(nbformat.writes(notebook)).encode()


# What people read.


def score_of(contest: Contest, score: float) -> str:
    """Return a score as text."""
    return f"{score:.2f} ×" if contest.mode.timed else f"{score / 1e6:.2f} MB"


def cells_of(contest: Contest, measured: Measured) -> list[str]:
    """Return what was measured of one part at one length, as the cells of a row under
    `columns_of`.
    """
    if contest.mode.timed:
        return [
            f"{measured.milliseconds:,.3f}",
            f"{measured.rival:,.3f}",
            f"{measured.milliseconds / measured.rival:.2f} ×",
        ]
    return [f"{getattr(measured, name):,}" for name in COUNTS]


def columns_of(contest: Contest) -> list[str]:
    """Return the headings of what was measured."""
    if contest.mode.timed:
        return ["ms", "Rival's", "Ratio"]
    return [name.capitalize() for name in COUNTS.values()]


def note_of(contest: Contest, placed: Placed) -> str:
    """Return a line on the laps of an entrant that are not its best, and on the conditions of
    the GPU.
    """
    laps = [lap for lap in placed.entrant.laps if lap is not placed.lap]
    parts = [
        f"{contest.race.setting} = {lap.value}: "
        f"{lap.reason or score_of(contest, contest.score(lap))}"
        for lap in laps
    ]
    conditions = conditions_of(placed.lap.conditions)
    return "; ".join([*parts, f"GPU: {conditions}"] if conditions else parts)


def conditions_of(conditions: dict[str, Any]) -> str:
    """Return the conditions of a GPU in one line; "" if they are not known."""
    if not conditions:
        return ""
    clock = "–".join(map(str, sorted(set(conditions["sm_mhz"]))))
    slowed = f", slowed by {', '.join(conditions['slowed_by'])}" if conditions["slowed_by"] else ""
    return f"{clock} MHz, up to {conditions['celsius']} °C and {conditions['watts']:.0f} W{slowed}"


def write_page(contest: Contest, path: Path) -> None:
    """Write the page."""
    placed = contest.placed()
    environment = Environment(
        loader=PackageLoader("autograder"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["code"] = code.inline
    most = max(entry.score for entry in placed)
    page = environment.get_template("race.html.j2").render(
        title=contest.exercise.title,
        functions=contest.race.functions,
        rival=contest.race.rival,
        setting=contest.race.setting,
        values=contest.race.values,
        mode=contest.mode,
        device=device_of(contest.mode),
        made_at=f"{datetime.now().astimezone():%Y-%m-%d %H:%M}",
        open=not contest.worker_config.sandbox,
        columns=columns_of(contest),
        left_out=contest.left_out,
        rows=[
            {
                "rank": entry.rank,
                "name": entry.entrant.name,
                "course": entry.entrant.course,
                "value": entry.lap.value,
                "score": score_of(contest, entry.score),
                "width": f"{100 * entry.score / most:.1f}",
                "parts": [
                    (f"{part.part}, n = {part.n}", cells_of(contest, part))
                    for part in entry.lap.measured
                ],
                "note": note_of(contest, entry),
            }
            for entry in placed
        ],
    )
    path.write_text(page, encoding="utf-8")


def device_of(mode: Mode) -> str:
    """Return where kernels ran, with versions."""
    import torch
    import triton

    device = torch.cuda.get_device_name() if mode.device == "cuda" else "a CPU"
    return f"{device}, torch {torch.__version__.partition('+')[0]}, Triton {triton.__version__}"


def write_csv(contest: Contest, path: Path) -> None:
    """Write a line for each part at each length, also of laps that are not the best, and for
    each reason.
    """
    timed = contest.mode.timed
    columns = ["milliseconds", "rival_milliseconds"] if timed else list(COUNTS)
    names = [
        "rank",
        "entrant",
        "is_course",
        contest.race.setting,
        "best",
        "part",
        "n",
        *columns,
        "reason",
    ]
    lines: list[list[Any]] = [names]
    for entry in contest.placed():
        for lap in entry.entrant.laps:
            about = [
                entry.rank,
                text.cell_of_table(entry.entrant.name),
                int(entry.entrant.course),
                lap.value,
                int(lap is entry.lap),
            ]
            for part in lap.measured:
                if timed:
                    values = [part.milliseconds, part.rival]
                else:
                    values = [getattr(part, name) for name in COUNTS]
                lines.append([*about, part.part, part.n, *values, ""])
            if lap.reason:
                lines.append([*about, "", "", *[""] * len(columns), text.cell_of_table(lap.reason)])
    for dropped in contest.left_out:
        blank = [""] * (len(names) - 3)
        lines.append(
            ["", text.cell_of_table(dropped.student), *blank, text.cell_of_table(dropped.reason)]
        )
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)

"""Grades that anyone can recompute: what a page discloses, the reveal of an exercise, and the
comparison at home.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from autograder.course import deadlines, seeds
from autograder.course.config import Course, Exercise, UserError
from autograder.course.limits import Limits
from autograder.feedback.bare_page import disclosed_in
from autograder.grades import reasons
from autograder.grades.results import CellResult, Disclosure, Outcome, Record
from autograder.grading import submissions
from autograder.grading.submissions import Unit
from autograder.grading.worker_config import WorkerConfig
from autograder.sanitize import text

if TYPE_CHECKING:
    from autograder.grading.self_check import SelfCheck

MOST_PAGE = 4_000_000
"""How many characters of a page are read: its head has the data, and the files of a submission
have names.
"""
NOT_RUN = "not run"
MOST_NAMED = 3
NOT_A_PAGE = (
    "{name} is not a feedback page of this course. Name the page that you got back, such "
    "as 01-qkv.html."
)
NOT_REVEALED = (
    "{name} does not have the seed of its grade. Your course adds it after the due date, unless "
    "your submission could not be run. Then download the page again."
)


@dataclass(frozen=True)
class Fingerprints:
    """What of a submission has to be the same at home: see `Disclosure`."""

    submission: str
    notebook: str | None
    stamp: str | None
    files: dict[str, str]


def fingerprints(unit: Unit) -> Fingerprints:
    """Return the fingerprints of a submission that was just read."""
    files = {name: _sha256(data) for name, data in unit.files.items()}
    return Fingerprints(
        unit.digest, _sha256(unit.data) if unit.data is not None else None, unit.stamp, files
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def disclosure(
    course_seeds: seeds.Seeds, record: Record, submitted: Fingerprints
) -> Disclosure | None:
    """Return what the page of a grade shows of its draws, once the exercise's key is public.

    None while it is secret, if nothing of the submission was run, or if the submission is no longer
    the graded one.
    """
    name = record.assignment
    if name not in course_seeds.revealed or record.kind.ungraded:
        return None
    if record.submission_digest != submitted.submission:
        return None
    return Disclosure(
        assignment=name,
        key=course_seeds.key(name),
        commitment=seeds.commitment_of(name, course_seeds.key(name)),
        origin=course_seeds.origin(name, record.submission_digest, record.seed),
        seed=record.seed,
        guest_seed=course_seeds.guest(name, record.submission_digest, record.seed),
        submission=record.submission_digest,
        notebook=submitted.notebook,
        stamp=submitted.stamp,
        files=submitted.files,
        exercise=record.release_digest,
        versions=record.versions,
        points=_points(record.cells),
        checks=_checks(record.cells),
    )


def _points(cells: dict[str, CellResult]) -> dict[str, float]:
    return {name: cell.points for name, cell in cells.items() if not cell.is_graded_by_hand}


def _checks(cells: dict[str, CellResult]) -> dict[str, str]:
    return {
        f"{name}/{check.name}": str(check.status)
        for name, cell in cells.items()
        for check in cell.checks
    }


# At the course.


@dataclass(frozen=True)
class Revealed:
    """The result of a reveal: the key, the hash that was published for it, and the number of pages
    rewritten.

    `left` is the number of submissions that have to be graded again before they get a page.
    """

    key: str
    commitment: str
    pages: int
    left: int


def reveal(
    course: Course,
    exercise: Exercise,
    submitted: Path,
    undated: bool,
    on_wait: Callable[[str], None],
) -> Revealed:
    """Make the key of an exercise public, and put the seeds onto the pages of its graded
    submissions.

    From then on, submissions that have no grade yet draw from another key. No submission is run.

    Parameters
    ----------
    course : Course
    exercise : Exercise
    submitted : Path
        Where the submissions are.
    undated : bool
        Whether an exercise without a due date may be revealed.
    on_wait : callable
        Called with a line if another process grades into the gradebook; this one waits until it
        ends.

    Raises
    ------
    UserError
        If a student still has time, submissions have no grade yet, or the secret could be guessed.
        Nothing is revealed then.
    """
    from autograder.grades import gradebook
    from autograder.grading.batch import Batch

    submissions.expect_folder(submitted)
    worker_config = WorkerConfig.for_course(course, [exercise], Limits.configured(course.config))
    with gradebook.opened(course, on_wait) as book:
        gradebook.register(course, book, exercise)
        writer = gradebook.Writer(course, book)
        writer.set_dates()
        batch = Batch(course, writer, _no_backend, worker_config)
        course_seeds = batch.seeds
        states = {
            submission: batch.refresh(submission)
            for submission in submissions.find([exercise], submitted)
        }
        # A second reveal only makes the pages of what was graded since.
        if exercise.name not in course_seeds.revealed:
            _refuse_early(exercise.name, writer.last_due(exercise.name), undated)
            _refuse_ungraded(
                exercise.name,
                [submission.student for submission, (decided, _) in states.items() if not decided],
            )
            course_seeds.reveal(exercise.name)
        graded = [submission for submission, (_, keeps) in states.items() if keeps]
        pages = sum(step == "page" for step, _, _ in batch.run(graded))
    return Revealed(
        course_seeds.key(exercise.name),
        course_seeds.commitment(exercise.name),
        pages,
        len(states) - len(graded),
    )


def _no_backend() -> NoReturn:
    raise UserError(
        "A submission was replaced just now, and has to be graded first. Run: python "
        "-m autograder grade"
    )


def _refuse_early(name: str, due: datetime | None, undated: bool) -> None:
    if due is None and not undated:
        raise UserError(
            f"{name} has no due date, so students may still work on it. Add one to [due] in "
            f"{deadlines.FILE}, or if they are done, add --without-due-date."
        )
    if due is not None and due >= datetime.now(UTC):
        raise UserError(
            f"The last student has time for {name} until {reasons.moment(due.isoformat())}. "
            "Reveal it after that."
        )


def _refuse_ungraded(name: str, students: list[str]) -> None:
    if students:
        count = "1 submission has" if len(students) == 1 else f"{len(students)} submissions have"
        raise UserError(
            f"{count} no grade for {name} yet, or changed since: "
            f"{text.line(', '.join(students[:MOST_NAMED]))}. A seed drawn after the reveal could "
            "not be compared with the published hash. First run: python -m autograder grade "
            f"{name}"
        )


# At home.


def read_page(path: Path) -> Disclosure:
    """Return what a feedback page discloses.

    The page may come from anywhere: nothing in it is run or opened.

    Raises
    ------
    UserError
        If it is no feedback page, does not have the seed, or contradicts itself.
    """
    name = text.line(path.name)
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            page = file.read(MOST_PAGE)
    except FileNotFoundError:
        raise UserError(f"There is no file {path}.") from None
    disclosed = disclosed_in(page)
    if disclosed is None:
        raise UserError(
            (NOT_REVEALED if 'name="made-of"' in page else NOT_A_PAGE).format(name=name)
        )
    expected = tuple(
        seeds.seed_for(disclosed.key, purpose, disclosed.submission)
        for purpose in (seeds.CHECKS, seeds.GUEST)
    )
    if seeds.commitment_of(disclosed.assignment, disclosed.key) != disclosed.commitment:
        raise UserError(
            f"{name} contradicts itself: its hash is not the hash of its key. "
            "Download the page again."
        )
    if disclosed.origin == seeds.Origin.KEY and expected != (disclosed.seed, disclosed.guest_seed):
        raise UserError(
            f"{name} contradicts itself: its seed does not follow from its key and its digest. "
            "Download the page again, and if it still says so, show it to your instructor."
        )
    return disclosed


def prepare(single: "SelfCheck", page: Disclosure) -> list[str]:
    """Let a notebook be graded as the page says that it was; return a sentence on each thing that
    is different.

    Only the files next to the notebook that were submitted with it are there.

    Raises
    ------
    UserError
        If the page is of another exercise.
    """
    if page.assignment != single.exercise.name:
        other = text.line(page.assignment, 100)
        raise UserError(
            f"The page is of {other}, but the notebook is of {single.exercise.name}. Name the "
            "right page."
        )
    unit = single.unit
    unit.seed, unit.guest_seed = page.seed, page.guest_seed
    unit.files = {name: data for name, data in unit.files.items() if name in page.files}
    unit.notes = unit.notes if page.files else []
    sentences = list(_other_files(unit, page))
    # With the same files, a digest that differs comes from a page that someone changed.
    stamp = None if page.stamp is None else page.stamp.encode("utf-8", "replace")
    if not sentences and submissions.digest_of(unit.data, stamp, unit.files) != page.submission:
        sentences.append(
            "The digest on the page is not the one of these files and the time stamp on the page."
        )
    # In the folder of the release, the student's notebook is in the place of the released one.
    in_place = single.path.resolve().parent == single.exercise.released.resolve()
    if not in_place and page.exercise != seeds.version_of(single.exercise):
        sentences.append(
            f"{page.assignment} was graded with another release of the exercise than the one here."
        )
    return sentences


def _other_files(unit: Unit, page: Disclosure) -> Iterator[str]:
    """Yield a sentence on each file that is missing, or is not the one that was graded."""
    if _sha256(unit.data or b"") != page.notebook:
        yield f"{unit.notebook} is not the notebook that was graded: its SHA-256 is different."
    for name, expected in sorted(page.files.items()):
        if name not in unit.files:
            yield (
                f"{text.line(name, 100)} was submitted with the notebook, and is missing "
                "next to it."
            )
        elif _sha256(unit.files[name]) != expected:
            yield (
                f"{text.line(name, 100)} is not the file that was submitted: its SHA-256 "
                "is different."
            )


def differences(page: Disclosure, outcome: Outcome) -> Iterator[str]:
    """Yield a sentence on each check, and on each cell's points, that differ between a page and
    an outcome.
    """
    graded = {**page.checks, **_in_words(page.points)}
    local = {**_checks(outcome.cells), **_in_words(_points(outcome.cells))}
    for name in dict.fromkeys([*graded, *local]):
        then, now = graded.get(name, NOT_RUN), local.get(name, NOT_RUN)
        if then != now or name not in local:
            yield text.line(f"{name.replace('/', ': ', 1)}: {then} on the page, {now} here")


def _in_words(points: dict[str, float]) -> dict[str, str]:
    return {name: f"{each:g} points" for name, each in points.items()}


def other_versions(page: Disclosure) -> Iterator[str]:
    """Yield a sentence on each version that differs between the grading and this machine."""
    from autograder.grading.worker import versions

    local = versions()
    if not page.versions:
        yield (
            "The page does not say with which versions it was graded, because an older release "
            "graded it."
        )
        return
    for name in dict.fromkeys([*page.versions, *local]):
        graded, version = page.versions.get(name, "none"), local.get(name, "none")
        if graded != version:
            yield text.line(f"{name}: {graded} on the page, {version} here", 300)

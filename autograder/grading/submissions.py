"""Students' submissions: found below a folder, and read once, as data.

Nothing here runs or trusts any of it.
"""

import functools
import itertools
import json
import os
import re
import shlex
import stat
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.checking import words
from autograder.checking.words import Message, joined
from autograder.course import archive, seeds
from autograder.course.config import STAMP, Course, Exercise, UserError, edition_of
from autograder.course.limits import Limits
from autograder.grades import requests
from autograder.grades.file_problems import MISSING, OTHERS, PACKED, SEVERAL
from autograder.grading.file_kinds import wrong_exercise_message
from autograder.grading.notebook import is_as_given, read_cell, read_current
from autograder.sanitize import text

OURS = (
    "checks.py", "exercise.toml", archive.NAME, STAMP, *seeds.BESIDE,
    "misconceptions.py", "checking",
)  # fmt: skip
"""Files next to a notebook that belong to the course, even in a submission; the last two did
before version 0.2.
"""
SECRET = "submission_secret.txt"  # noqa: S105 (a file's name)
"""The file by which nbgrader's exchange gives feedback only to its own student."""

NOTEBOOK = re.compile(r"\.ipynb(?:\.txt|\.json)?$", re.IGNORECASE)
"""The ending of a notebook's name; browsers and Windows add one of their own."""
IMPORTS_TORCH = re.compile(rb"\b(?:import|from) +torch\b")
PASSED_OVER = (".ipynb_checkpoints", "__pycache__")
MOST_FILES = 1000
MOST_DEPTH = 20
MOST_NAME = text.MOST_NAME
MOST_NAMED = 3
ARCHIVE = re.compile(r"\.(zip|7z|rar|gz|tgz|tar|bz2|xz)$", re.IGNORECASE)
STAMP_MB = 0.001
JSON_BYTES = 6
"""How many bytes JSON takes at most for one byte of a file's name."""
MOST_SPLIT = 5_000_000
"""Of how many bytes a notebook may be to be read here, before it is graded."""
UNREAD_STAMP = Message(
    "timestamp.txt could not be read as a date; the submission counts as on time."
)


@dataclass
class Unit:
    """One unit of work: plain values, with everything that grading one submission takes.

    Attributes
    ----------
    student, assignment : str
    notebook : str
        The name of the submitted file.
    data : bytes or None
        Its contents; None if it cannot be read, and then `problem` says why.
    stamp : str or None
        The text of its `timestamp.txt`.
    files : dict
        The other submitted files: bytes by relative path.
    notes : list of Message
        What its author should know about how it was read.
    digest : str
        A fingerprint of all that decides the grade: see `digest_of`.
    request : str
        The text of the notebook's cell for regrade requests, which decides none.
    secret : str
        The text of its `submission_secret.txt`, if nbgrader's exchange brought it; "" otherwise.
        Each hand-in has another one, so that it is no part of the digest.
    seed, guest_seed : int
        The seeds of the checks' draws and of the student's random numbers.
    """

    student: str
    assignment: str
    notebook: str
    data: bytes | None
    problem: Message
    stamp: str | None
    files: dict[str, bytes]
    notes: list[Message] = field(default_factory=list)
    digest: str = ""
    request: str = ""
    secret: str = ""
    seed: int = 0
    guest_seed: int = 0


@dataclass(frozen=True)
class Submission:
    """One student's submission for one exercise: `submitted/STUDENT/EXERCISE/`."""

    student: str
    exercise: Exercise
    folder: Path

    def read(self, limits: Limits) -> Unit:
        """Return the `Unit` of work that grades this submission: everything is read once, here.

        A problem with its folder or its files affects only this submission.
        """
        try:
            return self._read(limits)
        except (OSError, ValueError) as error:  # ValueError: a name that no system call takes
            reason = getattr(error, "strerror", None) or str(error)
            return self._unit(
                None, Message("The folder could not be read: {reason}.", reason=text.line(reason))
            )

    def _read(self, limits: Limits) -> Unit:
        kind = os.lstat(self.folder).st_mode
        if stat.S_ISLNK(kind):
            return self._unit(
                None,
                Message("{name} is a link to another folder.", name=text.name(self.folder.name)),
            )
        if not stat.S_ISDIR(kind):
            problem = Message(
                "{name} is a file, but should be a folder with the notebook in it.",
                name=text.name(self.folder.name),
            )
            return self._unit(None, problem)
        path, data, problem, both = self._notebook(limits.notebook_mb)
        raw_stamp, _ = read_file(self.folder / STAMP, STAMP_MB)
        files, notes = beside(self.folder, limits.beside_mb)
        # Not among the files of the digest: each hand-in through the exchange has another secret.
        secret = files.pop(SECRET, b"")
        name = text.name(path.name)
        another = wrong_exercise_message(self.exercise, data, name) if data else None
        if both:
            notes.insert(0, both)
        elif data is not None and not another and edition_of(name)[0] != self.exercise.name:
            notes.insert(
                0, Message("The notebook was named {name}; it was graded all the same.", name=name)
            )
        if raw_stamp is None and os.path.lexists(self.folder / STAMP):
            notes.append(UNREAD_STAMP)
        unit = self._unit(None if another else data, another or problem, name, files, notes)
        unit.stamp = raw_stamp.decode("utf-8", "replace") if raw_stamp is not None else None
        unit.digest = digest_of(data, raw_stamp, files)
        unit.request = split(data)[1]
        unit.secret = secret.decode("utf-8", "replace")
        return unit

    def _notebook(self, most_mb: float) -> tuple[Path, bytes | None, Message, Message | None]:
        """Return the file of the notebook, the result of `read_file`, and a note if there was a
        choice.

        A notebook without any answers is ignored if there is one in another language; otherwise the
        last saved counts.
        """
        candidates = [
            (path, *read_file(path, most_mb)) for path in notebooks_in(self.folder, self.exercise)
        ]
        # A folder often has the untouched notebook of the other language as well.
        written = candidates
        if len(candidates) > 1:
            written = [item for item in candidates if not is_as_given(self.exercise, item[1])]
        if len(written) > 1:
            path, data, problem = max(written, key=lambda item: os.lstat(item[0]).st_mtime)
        else:
            path, data, problem = (written or candidates)[0]
        if problem.text == MISSING:
            problem = _missing(self.folder, _named(self.exercise))
        # Copies with the same bytes are no choice that a student has to know about.
        if all(item[1] == data for item in written):
            return path, data, problem, None
        names = joined("{left} and {right}", [text.name(item[0].name) for item in written])
        sentence = "The folder has {names}; {name}, which was saved last, is graded."
        return path, data, problem, Message(sentence, names=names, name=text.name(path.name))

    def _unit(
        self,
        data: bytes | None,
        problem: Message,
        name: str = "",
        files: dict[str, bytes] | None = None,
        notes: list[Message] | None = None,
    ) -> Unit:
        return Unit(
            student=self.student,
            assignment=self.exercise.name,
            notebook=name or f"{self.exercise.name}.ipynb",
            data=data,
            problem=problem,
            stamp=None,
            files=files or {},
            notes=notes or [],
            digest=seeds.digest_of(str(problem).encode("utf-8", "replace")),
        )


def digest_of(data: bytes | None, stamp: bytes | None, files: Mapping[str, bytes]) -> str:
    """Return the fingerprint of a submission: of its notebook, its `timestamp.txt`, and the files
    next to them.

    Of a notebook with a cell for regrade requests, only what grading reads counts, and no request:
    to ask is no new work.
    """
    # With a mark in front, so that a file that is missing differs from an empty one.
    parts = [b"" if part is None else b"1" + part for part in (split(data)[0], stamp)]
    for file in sorted(files):
        parts += [os.fsencode(file), files[file]]
    return seeds.digest_of(*parts)


def split(data: bytes | None) -> tuple[bytes | None, str]:
    """Return what of a notebook decides its grade, and the text of its cell for regrade requests.

    A file that has no such cell, or is large or no notebook that grading reads as it is, counts as
    a whole.
    """
    if data is None or len(data) > MOST_SPLIT or requests.HEADING_ID.encode() not in data:
        return data, ""
    return _split(data)


@functools.lru_cache(2)  # of a hand-in, both parts are asked for several times
def _split(data: bytes) -> tuple[bytes, str]:
    try:
        raw = read_current(data)
        cells = [read_cell(cell) for cell in raw["cells"]]
        asked = [cell for cell in cells if cell.get("id") == requests.CELL and _is_plain_text(cell)]
        request = "\n".join(cell.pop("source") for cell in asked)
        parts = [raw.get("nbformat"), words.language_of(raw), cells]
        return json.dumps(parts, sort_keys=True).encode(), request
    except Exception:  # whatever a file has that is no notebook
        return data, ""


def _is_plain_text(cell: Mapping[str, Any]) -> bool:
    """Tell whether a cell is text that is never graded."""
    return cell["cell_type"] == "markdown" and not cell["metadata"] and "attachments" not in cell


def notebooks_in(folder: Path, exercise: Exercise) -> list[Path]:
    """Return the files of a folder that may be the notebook: those of the exercise's name, one for
    each language.

    If there are none, it is the only notebook in the folder, or else the one that should be there.
    """
    # Under its exact name if it is there, else in other capitals or with an added ending.
    listed = sorted(filter(is_notebook, os.listdir(folder)))
    plain = [entry for entry in listed if entry.lower().endswith(".ipynb")]
    names = []
    for wanted in [exercise.notebook.name, *(path.name for path in exercise.editions)]:
        for entries in (plain, listed):
            alike = [entry for entry in entries if _plain_name(entry) == wanted.lower()]
            if wanted in alike or len(alike) == 1:
                names.append(wanted if wanted in alike else alike[0])
                break
    others = plain or listed
    missing = others if len(others) == 1 else [exercise.notebook.name]
    return [folder / entry for entry in names or missing]


def is_notebook(name: str) -> bool:
    """Tell whether a file has a notebook's name; systems leave names that begin with a dot next
    to notebooks.
    """
    return bool(NOTEBOOK.search(name)) and not name.startswith(".")


def _plain_name(entry: str) -> str:
    """Return a notebook's name without what browsers and Windows add, in small letters."""
    return NOTEBOOK.sub(".ipynb", entry).lower()


def _named(exercise: Exercise) -> str | Message:
    """Return what an exercise's notebook is called, in all languages."""
    return joined(
        "{left} or {right}", [path.name for path in (exercise.notebook, *exercise.editions)]
    )


def _missing(folder: Path, name: str | Message) -> Message:
    """Return a sentence on a missing notebook, which names what is there instead."""
    left_out = (*OURS, *PASSED_OVER)
    entries = sorted(
        entry for entry in os.listdir(folder) if not entry.startswith(".") and entry not in left_out
    )
    for matches, sentence in (
        ([entry for entry in entries if is_notebook(entry)], SEVERAL),
        ([entry for entry in entries if ARCHIVE.search(entry)], PACKED),
        (entries, OTHERS),
    ):
        if matches:
            shown = [text.line(text.name(entry), 100) for entry in matches[:MOST_NAMED]]
            return Message(sentence, name=name, found=", ".join(shown))
    return Message(MISSING, name=name)


def read_file(path: Path, most_mb: float) -> tuple[bytes | None, Message]:
    """Return a file's bytes, or None and the reason why there are none."""
    name, most = text.name(path.name), int(most_mb * 1_000_000)
    try:
        # Reading a pipe would wait for ever, and a link may lead to a file of the instructor's.
        kind = os.lstat(path).st_mode
        if not stat.S_ISREG(kind):
            return None, Message("{name} is not a regular file.", name=name)
        descriptor = os.open(
            path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        )
        with open(descriptor, "rb") as file:
            data = file.read(most + 1)
            # Of a file that is too large, only the beginning was read.
            size = max(len(data), os.fstat(file.fileno()).st_size)
        if len(data) > most:
            sentence = "{name} has {size} MB; the maximum is {most} MB."
            return None, Message(sentence, name=name, size=f"{size / 1e6:.0f}", most=most_mb)
        return data, Message("")
    except FileNotFoundError:
        return None, Message(MISSING, name=name)
    except OSError as error:
        return None, Message(
            "{name} could not be read: {reason}.", name=name, reason=error.strerror or str(error)
        )


def beside(folder: Path, most_mb: float) -> tuple[dict[str, bytes], list[Message]]:
    """Return the files next to a notebook that are not the course's, and notes about them for
    its author.
    """
    files: dict[str, bytes] = {}
    size, unread = 0, ""
    for relative in _walk(folder):
        data = None if relative.endswith("/") else read_file(folder / relative, most_mb)[0]
        if data is None:
            unread = unread or relative
            continue
        size += len(data) + JSON_BYTES * len(os.fsencode(relative))
        if size > most_mb * 1_000_000 or len(files) >= MOST_FILES:
            sentence = (
                "The files next to the notebook were left out: they exceed {most} MB, or are more "
                "than {count}."
            )
            return {}, [Message(sentence, most=most_mb, count=MOST_FILES)]
        files[relative] = data
    if not unread:
        return files, []
    sentence = "{name} next to the notebook could not be read and was left out."
    return files, [Message(sentence, name=text.line(text.name(unread.rstrip("/")), 100))]


def _walk(folder: Path) -> Iterator[str]:
    """Yield the relative paths of the files below a folder, links and notebooks left out, in a
    fixed order.

    A folder that cannot be read, or is too deep, is yielded in place of its contents, with a slash
    at its end.
    """
    waiting = [""]
    while waiting:
        relative = waiting.pop()
        try:
            entries = sorted(
                os.scandir(os.path.join(folder, relative)), key=lambda entry: entry.name
            )
            for entry in entries:
                path = relative + entry.name
                if path in OURS or entry.name in PASSED_OVER or entry.is_symlink():
                    continue
                if entry.is_dir() and path.count("/") < MOST_DEPTH:
                    waiting.append(f"{path}/")
                elif entry.is_dir():
                    yield f"{path}/"
                elif entry.is_file() and not NOTEBOOK.search(entry.name):
                    yield path
        except OSError:
            yield relative or "./"


def expect_folder(submitted: Path) -> None:
    """Raise `UserError` unless there is a folder of this name."""
    if not submitted.is_dir():
        raise UserError(
            f"There is no folder {submitted}. Name the one with the submissions: --submitted DIR"
        )


def find(exercises: Iterable[Exercise], submitted: Path) -> list[Submission]:
    """Return the submissions for these exercises below the folder `submitted`, by exercise and
    student.
    """
    submissions, taken = [], set[tuple[str, str]]()
    students = sorted(entry for entry in os.listdir(submitted) if not entry.startswith("."))
    for exercise in exercises:
        for student in students:
            folder = _folder_of(submitted / student, exercise.name)
            if folder is None:
                continue
            name = _fitting(text.name(student))
            # Two names of any bytes may be equal once they are text.
            while (name, exercise.name) in taken:
                name += "~"
            taken.add((name, exercise.name))
            submissions.append(Submission(name, exercise, folder))
    return submissions


def strays(course: Course, submitted: Path) -> Iterator[str]:
    """Yield a sentence on each entry of `submitted` whose notebooks belong to no exercise, and
    are not graded.
    """
    known = {folder.name.lower() for folder in (course.root / "exercises").glob("*")}
    for student in sorted(entry for entry in os.listdir(submitted) if not entry.startswith(".")):
        if is_notebook(student) and (submitted / student).is_file():
            yield f"{text.line(text.name(student))} is not a student's folder and was left out."
        # One for each student is enough to see that files are in the wrong place.
        for first in itertools.islice(_unclaimed(submitted / student, known), 1):
            named = text.line(text.name(os.path.relpath(first, submitted)))
            yield (
                f"{named} is not in an exercise's folder and was left out. "
                "To place such files, run: "
                f"python -m autograder collect {shlex.quote(str(submitted))}; then remove them."
            )


def _unclaimed(student: Path, known: Container[str]) -> Iterator[str]:
    """Yield the paths of the notebooks in a student's folder that are not in the folder of an
    exercise.
    """
    for folder, folders, files in os.walk(student):
        yield from (os.path.join(folder, file) for file in sorted(files) if is_notebook(file))
        # Exercises have their folders directly below the student's.
        claimed = known if folder == str(student) else ()
        unclaimed = [
            name for name in folders if name.lower() not in claimed and name not in PASSED_OVER
        ]
        depth = folder.count(os.sep) - str(student).count(os.sep)
        # In place: `os.walk` goes on with what is left in this list.
        folders[:] = sorted(unclaimed) if depth < MOST_DEPTH else []


def imported(submissions: Iterable[Submission], most_mb: float) -> tuple[str, ...]:
    """Return the slow modules that some of these submissions import.

    This only looks at bytes and trusts nothing: it decides what is loaded once instead of once per
    submission.
    """
    for submission in submissions:
        try:
            paths = notebooks_in(submission.folder, submission.exercise)
        except (OSError, ValueError):  # reading it will say what is wrong
            continue
        if any(IMPORTS_TORCH.search(read_file(path, most_mb)[0] or b"") for path in paths):
            return ("torch",)
    return ()


def _fitting(name: str) -> str:
    """Return a student's name, shortened so that every database and file system accepts it."""
    if len(name.encode()) <= MOST_NAME:
        return name
    # A character has up to 4 bytes; the digest keeps two long names that begin alike different.
    return f"{name[: MOST_NAME // 4]}~{seeds.digest_of(name.encode())[:8]}"


def _folder_of(student: Path, name: str) -> Path | None:
    """Return where a student's submission for an exercise is, ignoring case; None if there is
    none.
    """
    if os.path.lexists(student / name):
        return student / name
    if not os.path.isdir(student):
        return None
    try:
        entries = sorted(os.listdir(student))
    except OSError:
        return student / name  # reading it will say what is wrong
    return next((student / entry for entry in entries if entry.lower() == name.lower()), None)

"""Matches collected files to students: first makes a plan, then writes each submission
completely or not at all.
"""

import os
import re
import shutil
import socket
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path, PurePosixPath

import psutil
from dateutil import parser

from autograder.course.config import STAMP, UserError
from autograder.course.limits import Limits
from autograder.grading.notebook import is_as_given
from autograder.grading.submissions import (
    ARCHIVE,
    MOST_FILES,
    NOTEBOOK,
    OURS,
    STAMP_MB,
    beside,
    is_notebook,
    read_file,
)
from autograder.sanitize import text
from autograder.school.archives import TAR, File, FileRefused, Source
from autograder.school.layouts import ENDING, Author, Exercises, Naming, authors_of, submitters_in
from autograder.school.roster import Clues, Person, Roster, key, same_folder

STAMP_FORMAT = "%Y-%m-%d %H:%M:%S.%f UTC"
"""As nbgrader's exchange writes it."""
STAGE = ".collecting-"
MOST_NAMED = 3
MOST_NOTEBOOKS = 100
"""Notebooks of one student in one archive: some attempts at each exercise."""
NOTHING_BESIDE = re.compile(rf"{NOTEBOOK.pattern}|\.zip$", re.IGNORECASE)


class Fate(StrEnum):
    """What is done with a submission, depending on the files that are already in its place."""

    NEW = "new"
    NEWER = "replaces an older one"
    ANSWERED = "replaces one without an answer"
    SAME = "already there"
    STAMPED = "already there; its time is written"
    OLDER = "skipped: a newer one is there"
    BLANK = "skipped: it has no answer, and the one that is there has"


WRITTEN = (Fate.NEW, Fate.NEWER, Fate.ANSWERED, Fate.STAMPED)


@dataclass(frozen=True)
class CollectedSubmission:
    """One student's submission of one exercise.

    Attributes
    ----------
    source_path : str
        Its source file, for people: archive and path.
    time : datetime or None
        When it was submitted, or else the time of its file, which is usually the time of the
        download.
    time_known : bool
        Whether `time` is when it was submitted; only such a time is written to `timestamp.txt`.
    beside : dict
        The other files that belong to it, by relative path.
    named_exercise : str
        Another exercise that the notebook is named after, although its cells are those of
        `exercise`; or "".
    blank : bool
        Whether no answer was written in it.
    """

    student: str
    exercise: str
    source_path: str
    layout: str
    time: datetime | None
    time_known: bool
    late: bool
    order: int
    notebook: File
    beside: dict[str, File]
    named_exercise: str = ""
    blank: bool = False

    def newer_than(self) -> tuple[float, ...]:
        """Return a sort key that is larger for a newer submission of the same student and
        exercise.
        """
        # Of two files at the same time, a copy has another name, and counts less.
        plain = self.notebook.path.rpartition("/")[2] == f"{self.exercise}.ipynb"
        time = self.time.timestamp() if self.time else 0.0
        # The student's machine wrote this time: it decides only between files of one hand-in.
        packed = self.notebook.packed_time
        packed_time = packed.timestamp() if packed else 0.0
        return time, self.order, plain, packed_time


@dataclass
class Plan:
    """The plan: each submission with its fate, and each file that could not be assigned, with
    the reason.
    """

    chosen: list[tuple[CollectedSubmission, Fate]] = field(default_factory=list)
    unplaced: list[tuple[str, str]] = field(default_factory=list)

    @property
    def to_write(self) -> list[CollectedSubmission]:
        """The submissions that are not there yet, or whose time of submission is not there yet."""
        return [submission for submission, fate in self.chosen if fate in WRITTEN]


class Collector:
    """Plans what is done with collected files.

    Parameters
    ----------
    exercises : Exercises
    roster : Roster or None
        The class; without one, students get the names in the file names.
    only : str
        The only exercise to collect, also for a notebook that cannot be identified; "" for all
        exercises.
    submitted : Path
        Where submissions are.
    limits : Limits
        How large a notebook and the files next to it may be.
    """

    def __init__(
        self,
        exercises: Exercises,
        roster: Roster | None,
        only: str,
        submitted: Path,
        limits: Limits,
    ):
        self.exercises, self.roster, self.only = exercises, roster, only
        self.submitted, self.limits = submitted, limits

    def plan(self, sources: Iterable[Source]) -> Plan:
        """Return the plan for some archives and folders; nothing is written."""
        plan = Plan()
        submissions: list[CollectedSubmission] = []
        for source in sources:
            plan.unplaced += [(f"{source.name}: {path}", reason) for path, reason in source.refused]
            submissions += self._of_source(source, plan)
        several: dict[tuple[str, str], list[CollectedSubmission]] = defaultdict(list)
        for submission in submissions:
            several[same_folder(submission.student), submission.exercise].append(submission)
        for _, attempts in sorted(several.items()):
            misnamed = [submission for submission in attempts if submission.named_exercise]
            if 0 < len(misnamed) < len(attempts):
                plan.unplaced += [
                    (submission.source_path, _misnamed(submission)) for submission in misnamed
                ]
                attempts = [submission for submission in attempts if not submission.named_exercise]
            try:
                self._choose(_by_age(attempts), plan)
            except FileRefused as error:
                plan.unplaced += [(submission.source_path, str(error)) for submission in attempts]
        return plan

    def _choose(self, attempts: list[CollectedSubmission], plan: Plan) -> None:
        """Choose the newest of one student's attempts that has an answer, or else the newest; list
        the others.

        Raises
        ------
        FileRefused
            If they may be those of several students, or if it cannot be read.
        """
        names = list(dict.fromkeys(submission.student for submission in attempts))
        if len(names) > 1:
            raise FileRefused(
                f"{' and '.join(names[:MOST_NAMED])} look like one name: name a roster "
                "with --roster"
            )
        answered = [submission for submission in attempts if not submission.blank]
        chosen = (answered or attempts)[-1]
        plan.chosen.append((chosen, self._fate(chosen)))
        newer = False
        for submission in attempts:
            if submission is chosen:
                newer = True
            elif newer:
                reason = f"has no answer; {chosen.source_path} has one, and counts"
                plan.unplaced.append((submission.source_path, reason))
            else:
                reason = f"{chosen.student} submitted a newer one, {chosen.source_path}"
                plan.unplaced.append((submission.source_path, reason))

    def _of_source(self, source: Source, plan: Plan) -> Iterator[CollectedSubmission]:
        """Yield the submissions of one archive or folder."""
        naming = Naming(source.paths, self.exercises)
        by_folder = self._has_folder_for_each(source, naming)
        try:
            submitters = submitters_in(source.files, naming)
        except FileRefused as error:
            plan.unplaced.append((source.name, str(error)))
            submitters = {}
        parts: dict[tuple[str, str, str, str], list[tuple[Author, File]]] = defaultdict(list)
        for file in source.files:
            authors, reason = authors_of(file, naming, submitters, by_folder)
            for author in authors:
                # Without a platform, the same name in two folders may be two students.
                folder = file.path.rpartition("/")[0] if author.layout == "by name" else ""
                parts[author.layout, author.student, author.number, folder].append((author, file))
            if not authors and _is_notebook(file.path):
                plan.unplaced.append((f"{source.name}: {file.path}", reason))
        has_groups = _have_groups([author_files[0][0] for author_files in parts.values()])
        # The roster knows people by the letters of their names; without one, a name is that of a
        # folder.
        same_name = key if self.roster else same_folder
        numbers = defaultdict(set)
        for author_files in parts.values():
            author = author_files[0][0]
            numbers[_name_key(author, has_groups, same_name)].add(author.number)
        for author_files in parts.values():
            author, file = author_files[0]
            has_unique_name = len(numbers[_name_key(author, has_groups, same_name)]) == 1
            owners = self._folder_owners(source, naming, file)
            yield from self._of_student(
                source, author_files, plan, has_unique_name, has_groups, owners
            )

    def _has_folder_for_each(self, source: Source, naming: Naming) -> bool:
        """Tell whether a folder for each student names the authors, and not the files in it, which
        students name.

        With a roster: whether most folders are those of its students. Without one: whether most
        have a notebook that is not named after somebody.
        """
        folders = {} if naming.layout else naming.folders(source.paths)
        if self.roster:
            of_students = sum(
                self.roster.find(Clues(ids=(name,), names=(name,)))[0] is not None
                for name in folders
            )
        else:
            of_students = sum(not all(map(self._names_author, paths)) for paths in folders.values())
        return 2 * of_students > len(folders)

    def _names_author(self, path: str) -> bool:
        base = path.rpartition("/")[2]
        return bool(self.exercises.named(base) and self.exercises.without(base))

    def _folder_owners(self, source: Source, naming: Naming, file: File) -> list[Person]:
        """Return the students after whom a source, or a common folder in it, is named."""
        names = [re.sub(rf"({ENDING})$", "", source.name), *naming.below(file.path)[0].split("/")]
        if not self.roster:
            return []
        people = [self.roster.find(Clues(ids=(name,), names=(name,)))[0] for name in names]
        return [person for person in people if person]

    def _of_student(
        self,
        source: Source,
        author_files: list[tuple[Author, File]],
        plan: Plan,
        has_unique_name: bool,
        has_groups: bool,
        folder_owners: list[Person],
    ) -> Iterator[CollectedSubmission]:
        """Yield the submissions among the files of one student.

        `has_unique_name` says that no one else has the same name, `has_groups` that a group's name
        precedes each student's. `folder_owners` are the students after whom the archive, or a
        folder of all these files, is named.
        """
        notebooks = [(author, file) for author, file in author_files if _is_notebook(file.path)]
        if not notebooks:
            self._list_files_without_notebook(source, author_files, plan)
            return
        if len(notebooks) > MOST_NOTEBOOKS:
            author, file = notebooks[0]
            reason = (
                f"is one of {len(notebooks)} notebooks of {author.student}; at most "
                f"{MOST_NOTEBOOKS} are read"
            )
            plan.unplaced.append((f"{source.name}: {file.path}", reason))
            return
        files_beside = self._readable_beside(source, author_files, notebooks, plan)
        for author, file in notebooks:
            source_path = f"{source.name}: {file.path}"
            try:
                exercise, named_exercise = self._exercise(file, is_only=len(notebooks) == 1)
                student, person = self._student(author, has_unique_name, has_groups)
                # What is in another student's folder may be theirs, whatever the file's own name
                # says.
                others = [owner.id for owner in folder_owners if owner != person]
                if others:
                    raise FileRefused(f"may be {' or '.join([student, *others])}")
                time = _time_submitted(author, file, person, author_files)
                blank = self._is_blank(exercise, file)
            except FileRefused as error:
                plan.unplaced.append((source_path, str(error)))
                continue
            yield CollectedSubmission(
                student=student,
                exercise=exercise,
                source_path=source_path,
                layout=author.layout,
                time=time or file.time,
                time_known=time is not None,
                late=author.late,
                order=author.order,
                notebook=file,
                beside=files_beside[author.folder],
                named_exercise=named_exercise,
                blank=blank,
            )

    def _list_files_without_notebook(
        self, source: Source, author_files: list[tuple[Author, File]], plan: Plan
    ) -> None:
        """List the files of a student who submitted no notebook. Files that no platform named an
        author of are listed if one of them is named after an exercise.
        """
        author, first = author_files[0]
        bases = [file.path.rpartition("/")[2] for _, file in author_files]
        packed = [file for _, file in author_files if ARCHIVE.search(file.path)]
        if packed:
            plan.unplaced += [
                (f"{source.name}: {file.path}", _not_opened(file))
                for file in packed[:MOST_NOTEBOOKS]
            ]
        elif author.layout != "by name" or any(map(self.exercises.named, bases)):
            shown = ", ".join(bases[:MOST_NAMED])
            plan.unplaced.append(
                (
                    f"{source.name}: {first.path}",
                    f"{author.student} has no notebook among these files: {shown}",
                )
            )

    def _readable_beside(
        self,
        source: Source,
        author_files: list[tuple[Author, File]],
        notebooks: list[tuple[Author, File]],
        plan: Plan,
    ) -> dict[str, dict[str, File]]:
        """Return the files next to the notebooks of each folder. If they are too large, or cannot
        be read, there are none, and the plan says so.
        """
        files_beside = _files_beside(author_files, {author.folder for author, _ in notebooks})
        for folder, files in files_beside.items():
            try:
                _contents(files, self.limits)
            except FileRefused:
                path = next(file.path for author, file in notebooks if author.folder == folder)
                reason = (
                    "is collected without the files next to it: more than "
                    f"{self.limits.beside_mb} MB, or unreadable"
                )
                plan.unplaced.append((f"{source.name}: {path}", reason))
                files_beside[folder] = {}
        return files_beside

    def _is_blank(self, exercise: str, file: File) -> bool:
        """Tell whether a notebook has no answer."""
        return is_as_given(
            self.exercises.all[exercise], file.read(self.limits.notebook_mb * 1_000_000)
        )

    def _exercise(self, file: File, is_only: bool) -> tuple[str, str]:
        """Return a notebook's exercise, and the exercise that it is named after if it is a
        different one.
        """
        named = self.exercises.named(file.path.rpartition("/")[2])
        exercise = self.exercises.holding(file.read(self.limits.notebook_mb * 1_000_000), named)
        if not exercise and is_only:
            exercise = self.only
        if not exercise:
            raise FileRefused("neither its name nor its cells match an exercise")
        if self.only and exercise != self.only:
            raise FileRefused(f"is {exercise}, but only {self.only} is collected")
        return exercise, named if named != exercise else ""

    def _student(
        self, author: Author, has_unique_name: bool, has_groups: bool
    ) -> tuple[str, Person | None]:
        if self.roster:
            person, reason = self.roster.find(author.clues)
            if person is None and (has_groups or self.roster.knows(author.clues.number)):
                clues = [author.clues._replace(names=(name,)) for name in _behind_group(author)]
                people = [self.roster.find(clue)[0] for clue in clues]
                person = next(filter(None, people), None)
            if person is None:
                raise FileRefused(reason)
            if not has_unique_name and author.clues.number not in person.numbers:
                raise FileRefused(f"may be {person.id}, but several students have this name")
            return person.id, person
        if not has_unique_name and author.layout == "Moodle":
            raise FileRefused(
                f"several students are called {author.student}: name a roster with --roster, for "
                "Moodle its worksheet"
            )
        unfit = text.unfit(author.student)
        if unfit:
            raise FileRefused(f"{author.student} {unfit}; name a roster with --roster")
        return author.student, None

    def _fate(self, submission: CollectedSubmission) -> Fate:
        """Return what is done with a submission, given the files that are already in its place.

        Raises
        ------
        FileRefused
            If the notebook cannot be read, or has the name of another exercise and differs from
            the one that is there.
        """
        target = self.submitted / submission.student / submission.exercise
        # Read in any case, because it may be refused.
        collected = submission.notebook.read(self.limits.notebook_mb * 1_000_000)
        if not os.path.lexists(target):
            return Fate.NEW
        notebook = target / f"{submission.exercise}.ipynb"
        present, _ = read_file(notebook, self.limits.notebook_mb)
        raw, _ = read_file(target / STAMP, STAMP_MB)
        present_time = _date(raw.decode("utf-8", "replace")) if raw else None
        if submission.named_exercise and present != collected:
            raise FileRefused(_misnamed(submission))
        is_present_blank = is_as_given(self.exercises.all[submission.exercise], present)
        if present not in (None, collected) and submission.blank != is_present_blank:
            return Fate.ANSWERED if is_present_blank else Fate.BLANK
        if present == collected and beside(target, self.limits.beside_mb)[0] == _contents(
            submission.beside, self.limits
        ):
            has_other_time = submission.time_known and present_time != submission.time
            return Fate.STAMPED if has_other_time else Fate.SAME
        if present_time is None:  # without a timestamp.txt, the files' own times count
            files = [notebook]
            if present is None:
                files = [path for path in target.glob("*") if path.is_file()]
            times = [path.stat().st_mtime for path in files]
            present_time = datetime.fromtimestamp(max(times, default=0), UTC)
        return Fate.NEWER if submission.time and submission.time > present_time else Fate.OLDER

    def write(self, submissions: Iterable[CollectedSubmission]) -> int:
        """Write submissions into nbgrader's layout, each completely or not at all; return how many.

        All are written to a temporary folder, and moved into place when they are complete.
        """
        self.submitted.mkdir(parents=True, exist_ok=True)
        # With the host's name: no one here knows whether a process of another machine still runs.
        host = f"{STAGE}{socket.gethostname()}-"
        for leftover in self.submitted.glob(f"{host}[0-9]*"):  # of a run that was killed
            process = int(leftover.name.removeprefix(host))
            # This process has not made one yet: one with its number is of an earlier process.
            if process == os.getpid() or not psutil.pid_exists(process):
                shutil.rmtree(leftover)
        stage = self.submitted / f"{host}{os.getpid()}"
        stage.mkdir()
        try:
            staged = [
                (submission, self._staged(submission, stage / str(number)))
                for number, submission in enumerate(submissions)
            ]
            for submission, folder in staged:
                target = self.submitted / submission.student / submission.exercise
                target.parent.mkdir(exist_ok=True)
                if self._fate(submission) is Fate.STAMPED:
                    (folder / STAMP).replace(target / STAMP)
                    continue
                if os.path.lexists(target):
                    target.replace(stage / f"{folder.name}.old")
                folder.replace(target)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
        return len(staged)

    def _staged(self, submission: CollectedSubmission, folder: Path) -> Path:
        notebook = folder / f"{submission.exercise}.ipynb"
        folder.mkdir()
        try:
            notebook.write_bytes(submission.notebook.read(self.limits.notebook_mb * 1_000_000))
            contents = _contents(submission.beside, self.limits)
        except FileRefused as error:  # it could be read a moment ago
            raise UserError(f"{submission.source_path} {error}. Nothing was written.") from None
        for relative, data in contents.items():
            path = folder / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        # Another time is only that of a file, which must not count as the time of submission.
        if submission.time and submission.time_known:
            (folder / STAMP).write_text(
                submission.time.astimezone(UTC).strftime(STAMP_FORMAT), encoding="utf-8"
            )
        if submission.time:
            # A later run compares this time to find out which submission is newer.
            seconds = submission.time.timestamp()
            os.utime(notebook, (seconds, seconds))
        return folder


def _by_age(submissions: list[CollectedSubmission]) -> list[CollectedSubmission]:
    """Return submissions of one student and exercise, the newest last.

    If one system numbers all of them, the numbers decide: in its archives, all files have the time
    of the download.
    """
    if all(submission.order for submission in submissions):
        return sorted(
            submissions, key=lambda submission: (submission.order, *submission.newer_than())
        )
    return sorted(submissions, key=CollectedSubmission.newer_than)


def _name_key(author: Author, has_groups: bool, same_name: Callable[[str], str]) -> tuple[str, str]:
    """Return a key that is equal for two authors who differ only in their number; `same_name`
    returns that of a name.
    """
    name = author.clues.names[0]
    if has_groups and author.layout == "Moodle":
        name = _behind_group(author)[-1]
    return author.layout, same_name(name) or author.student


def _have_groups(authors: list[Author]) -> bool:
    """Tell whether Moodle wrote a group's name and a hyphen before each student's name: all
    names have a hyphen.
    """
    names = {author.number: author.student for author in authors if author.layout == "Moodle"}
    return len(names) > 1 and all("-" in name for name in names.values())


def _behind_group(author: Author) -> list[str]:
    """Return the possible student names after a group's name, the longest first: both may have
    hyphens.
    """
    parts = author.student.split("-") if author.layout == "Moodle" else []
    return ["-".join(parts[cut:]).strip() for cut in range(1, len(parts))]


def _misnamed(submission: CollectedSubmission) -> str:
    return (
        f"is named {submission.named_exercise}, but has the cells of {submission.exercise}, "
        f"for which {submission.student} submitted another notebook"
    )


def _not_opened(file: File) -> str:
    """Return what to do about a packed file that is not unpacked."""
    if file.packed:
        return "is packed twice, and is not opened: unpack it, and collect the folder"
    if TAR.search(file.path):
        return "has no notebook in it"
    return (
        "is not opened, as no .zip or .tar.gz: unpack it into a folder next to it, and collect "
        "the folder"
    )


def _files_beside(
    author_files: list[tuple[Author, File]], homes: set[str]
) -> dict[str, dict[str, File]]:
    """Return the files that belong to the notebooks of each folder: those in it and below, by
    relative path.

    A file belongs to the nearest folder with a notebook.
    """
    files_of: dict[str, dict[str, File]] = {home: {} for home in homes}
    for author, file in author_files:
        above = [str(parent).removeprefix(".") for parent in PurePosixPath(author.rest).parents]
        home = next((folder for folder in above if folder in homes), None)
        if home is None:
            continue
        relative = author.rest.removeprefix(f"{home}/") if home else author.rest
        names = relative.split("/")
        if NOTHING_BESIDE.search(relative) or names[0] in OURS:
            continue
        if len(relative.encode()) <= text.MOST_NAME and not any(map(text.unfit, names)):
            files_of[home][relative] = file
    for home, files in files_of.items():
        # A zip can have a file and, as if it were a folder, files in it.
        folders = {
            same_folder(str(parent)) for relative in files for parent in Path(relative).parents
        }
        separate = [entry for entry in files.items() if same_folder(entry[0]) not in folders]
        files_of[home] = dict(separate[:MOST_FILES])
    return files_of


def _contents(files: dict[str, File], limits: Limits) -> dict[str, bytes]:
    """Return the files next to a notebook, as bytes by relative path.

    Raises
    ------
    FileRefused
        If they are larger than grading allows, or if one cannot be read.
    """
    contents: dict[str, bytes] = {}
    remaining = limits.beside_mb * 1_000_000
    for relative, file in files.items():
        contents[relative] = file.read(remaining)
        remaining -= len(contents[relative])
    return contents


def _is_notebook(path: str) -> bool:
    return is_notebook(path.rpartition("/")[2])


def _stamp_of(notebook: File, author_files: list[tuple[Author, File]]) -> datetime | None:
    """Return the time in nbgrader's `timestamp.txt` next to a notebook, if there is a readable one.

    One in a student's packed file is not trusted.
    """
    if notebook.packed:
        return None
    wanted = "/".join([*notebook.path.split("/")[:-1], STAMP])
    for _, file in author_files:
        if file.path == wanted:
            return _date(file.read(int(STAMP_MB * 1_000_000)).decode("utf-8", "replace"))
    return None


def _time_submitted(
    author: Author, notebook: File, person: Person | None, author_files: list[tuple[Author, File]]
) -> datetime | None:
    """Return when a notebook was submitted, if the platform, Moodle's worksheet or nbgrader says
    so.
    """
    if person and author.layout == "Moodle" and author.clues.number in person.numbers:
        return _time_of(person)
    if author.layout == "by name":
        return _stamp_of(notebook, author_files)
    return author.handed_in


def _time_of(person: Person | None) -> datetime | None:
    """Return a person's time of submission from Moodle's worksheet, which has local times."""
    return _date(person.handed_in, local=True) if person and person.handed_in else None


def _date(written: str, local: bool = False) -> datetime | None:
    try:
        # A student can write this text.
        date: datetime = parser.parse(text.line(written, 100))
    except Exception:  # dateutil has many ways to fail on a text that is not a date
        return None
    if date.tzinfo is None:
        return date.astimezone() if local else date.replace(tzinfo=UTC)
    return date

"""The layouts of learning platforms' downloads: who submitted a file, and which exercise it is.

A row of `LAYOUTS` is a pattern of paths. A new platform is a new row. If its paths do not say all
that `Author` needs, it is also a case in `authors_of`, as Gradescope and Canvas are. `_moment`
reads only times as Brightspace writes them. One layout is chosen for all of an archive: students
choose names of files, and these may look like those of another system.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import yaml

from autograder.course.config import Exercise
from autograder.grading import file_kinds
from autograder.school.archives import File, FileRefused, StudentOf
from autograder.school.roster import Clues

METADATA = "submission_metadata.yml"
"""The list next to the folders of all submissions. Elsewhere, or packed, a student wrote it."""
MOST_METADATA_MB = 50
"""Gradescope's list also has the output of its own autograder for each student."""

COPY = r"(?:-\d{1,2}(?![^\W_])| ?\(\d+\)|[-_ ]copy ?\d*| - copy)?"
"""The text that browsers, Jupyter, operating systems and Canvas append to the name of a second
copy.
"""
LANGUAGE = r"(?:\.[a-z]{2,3}(?![^\W_]))?"
"""The ending of an exercise's name in the file name of its notebook in another language."""

ENDING = r"\.ipynb(\.txt|\.json)?|\.zip|\.tar|\.tgz|\.gz"
"""The endings of notebooks and packed files."""
SUBMITTED = re.compile(rf"({ENDING})$", re.IGNORECASE)
"""The end of the name of a file that may be, or have, a notebook."""


@dataclass(frozen=True)
class Author:
    """The person who submitted a file, as far as the path shows.

    Attributes
    ----------
    layout : str
        The name of the layout, for people.
    clues : Clues
        Clues for a search in the roster.
    student : str
        The student's name if there is no roster; "" if it is unknown.
    number : str
        A number that distinguishes two authors of the same name; "" if it is unknown.
    rest : str
        The path below the part that names the author.
    order : int
        The number of the submission, if the system counts them: the higher, the newer.
    handed_in : datetime or None
        When the file was submitted, if the system says so.
    late : bool
        Whether the system marks the submission as late.
    """

    layout: str
    clues: Clues
    student: str
    rest: str
    number: str = ""
    order: int = 0
    handed_in: datetime | None = None
    late: bool = False

    @property
    def folder(self) -> str:
        """The folder of `rest`, or "" if it is in none."""
        return self.rest.rpartition("/")[0]


LAYOUTS = (
    # Moodle, "Download all submissions": a folder for each student; on request, and before 3.1,
    # files side by side. Before 4.1 the folder's name ends in one more underscore. If groups
    # submit, it starts with the group's name.
    ("Moodle", re.compile(r"(?P<name>[^/]+?)_(?P<number>\d+)_assignsubmission_file(?:_?/|_)(?P<rest>.+)")),  # noqa: E501
    # Canvas, "Download Submissions": last and first name in one word, then the numbers of the
    # student and the file.
    ("Canvas", re.compile(
        r"(?:(?P<name>[^\W\d][^/]*?)(?P<late>_LATE)?_(?P<number>\d+)|(?P<first>LATE_)?(?P<hidden>anon_[^/_]+))"
        r"_(?P<order>\d+)_(?P<rest>.+)"
    )),
    # Gradescope, "Export Submissions": numbered folders; a file next to them has the students.
    ("Gradescope", re.compile(r"(?P<folder>submission_\d+)/(?P<rest>.+)")),
    # Blackboard, "Assignment File Download": the assignment, the user's name, and when, before the
    # file's own name.
    ("Blackboard", re.compile(
        r"[^/]+?_(?P<id>[^/_]+)_attempt_(?P<order>\d{4}(?:-\d\d){5})_(?P<rest>.+)"
    )),
    # Brightspace, "Download" of submissions: a folder for each of them, with two numbers, the name,
    # and when.
    ("Brightspace", re.compile(
        r"\d+-\d+ - (?P<name>[^/]+?) - (?P<when>[A-Z][a-z]+ \d+, \d{4} \d{3,4} [AP]M)/(?P<rest>.+)"
    )),
    # ILIAS: a folder with last name, first name, login and number; each file begins with when it
    # was submitted.
    ("ILIAS", re.compile(
        r"(?P<name>[^/_]+_[^/_]+)_(?P<id>[^/_]+)_(?P<number>\d+)/(?P<order>\d{14})_(?P<rest>.+)"
    )),
    # OpenOLAT: a folder with last name, first name and login; in it, a folder for each step of the
    # assignment.
    ("OpenOLAT", re.compile(
        r"(?P<name>[^/_]+_[^/_]+)_(?P<id>[^/_]+)/(?P<order>2_submission|4_revision)s?/(?P<rest>.+)"
    )),
)  # fmt: skip
"""The layouts that name an author, as patterns of the paths below a common folder.

The groups of a pattern are:

- `name`, `id`, `number`: the student's name, login, and number in the system, for the roster.
- `hidden`: the pseudonym of an anonymous student.
- `folder`: Gradescope's, of which a file next to it says who submitted it.
- `order`: the number or time of the submission; the higher its digits, the newer.
- `when`: the time of the submission in words.
- `late`, `first`: the mark of a late submission, after the name or before it.
- `rest`: the student's own path. It, and the names inside a packed file, come from the student.
"""

NOT_AUTHOR = ("order", "when", "late", "first", "rest")
"""The groups of these patterns that differ between two files of one author."""

TIME = re.compile(r"^\d{14}(?![^\W_])")
"""The time at the beginning of a file's name, as ILIAS writes it."""
STEP = re.compile(r"[1-9]_(?:submission|revision)s?", re.IGNORECASE)
OF_TUTORS = re.compile(r"[1-9]_(?:task|correction|solution|revisions?_correction)s?", re.IGNORECASE)
"""The folders of one step of an assignment in OpenOLAT. They are no one's name."""


class Naming:
    """How the paths of one archive or folder name the authors: by the same layout for all.

    Attributes
    ----------
    layout : str
        The name of a row of `LAYOUTS`, or "" if the names of files and folders are those of
        students.
    bases : list of str
        The common folder of the authors, "" or with a slash at its end; several, if each is a
        download of its own.
    """

    def __init__(self, paths: Sequence[str], exercises: "Exercises"):
        self.exercises = exercises
        self.layout, self.bases = _chosen(list(paths), "")
        self._pattern = dict(LAYOUTS).get(self.layout)

    def below(self, path: str) -> tuple[str, str]:
        """Return the common folder that a path is in, and the path below it; if it is in none,
        "" and the path.
        """
        base = next(filter(path.startswith, self.bases), "")
        return base, path[len(base) :]

    def match(self, path: str) -> re.Match[str] | None:
        """Return the match of the layout's pattern with a path below the common folder."""
        return self._pattern.fullmatch(self.below(path)[1]) if self._pattern else None

    def folder(self, path: str) -> str:
        """Return the name of the first folder below the common one that is not just an
        exercise's name, or "".
        """
        *folders, _ = self.below(path)[1].split("/")
        return next(filter(None, map(self.exercises.without, folders)), "")

    def folders(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return the paths in each `folder`; none if most files are in no such folder."""
        by_folder = defaultdict(list)
        others = 0
        for path in filter(SUBMITTED.search, paths):
            folder = self.folder(path)
            if folder:
                by_folder[folder].append(path)
            else:
                others += 1
        return dict(by_folder) if 1 < len(by_folder) > others else {}

    def student_of(self, path: str) -> str:
        """Return a text that is equal for the paths of all files that one student submitted."""
        matched = self.match(path)
        if not matched:
            return self.folder(path) or path
        return "/".join(
            value for name, value in matched.groupdict().items() if value and name not in NOT_AUTHOR
        )


def student_of(exercises: "Exercises") -> StudentOf:
    """Return the function by which `archives.opened` finds out what one student submitted."""
    return lambda paths: Naming(paths, exercises).student_of


def _chosen(paths: list[str], base: str) -> tuple[str, list[str]]:
    """Return the layout of most entries of the folder `base` and the common folders; see `Naming`.

    A folder counts as one, however many files a student put into it. Of layouts that fit the same
    number of entries, the one whose part ends first is the system's: students name only what
    follows.
    """
    entries = defaultdict(list)
    for path in paths:
        entries[path[len(base) :].partition("/")[0]].append(path)
    folders = {name: inside for name, inside in entries.items() if inside[0] != f"{base}{name}"}
    files = [name for name in entries if name not in folders and SUBMITTED.search(name)]
    counted = [*folders, *files] or list(entries)
    votes: list[tuple[int, int, str]] = []
    for layout, pattern in LAYOUTS:
        ends = []
        for name in counted:
            matches = (pattern.fullmatch(path[len(base) :]) for path in entries[name])
            match = next(filter(None, matches), None)
            ends += [match.start("rest")] if match else []
        votes.append((len(ends), -sum(ends), layout))
    most, _, layout = max(votes, key=lambda vote: vote[:2])
    if 2 * most >= len(counted) > 0:
        return layout, [base]
    if files or not folders:
        return "", [base]
    inner = [_chosen(inside, f"{base}{name}/") for name, inside in folders.items()]
    if len(inner) == 1 or (inner[0][0] and len({layout for layout, _ in inner}) == 1):
        return inner[0][0], [folder for _, several in inner for folder in several]
    return "", [base]


def authors_of(
    file: File, naming: Naming, submitters: dict[str, list[Author]], by_folder: bool
) -> tuple[list[Author], str]:
    """Return the authors of a file, several for a group; or none, and the reason.

    `by_folder` says that the source has a folder for each student, whose name alone counts.
    """
    matched = naming.match(file.path)
    if not matched:
        return _loose(file, naming, by_folder)
    layout = naming.layout
    part = {name: value or "" for name, value in matched.groupdict().items()}
    if layout == "Gradescope":
        named = submitters.get(naming.below(file.path)[0] + part["folder"], [])
        authors = [replace(author, rest=part["rest"]) for author in named]
        return authors, "" if authors else f"no {METADATA} says who submitted {part['folder']}"
    name = part.get("id") or part.get("name") or part.get("hidden", "")
    number, order = part.get("number", ""), re.sub(r"\D", "", part.get("order", ""))
    ids = tuple(filter(None, (part["id"], number))) if "id" in part else ()
    author = Author(
        layout=layout,
        clues=Clues((layout.lower(), number), ids, names=(part.get("name", ""),)),
        # Moodle numbers a class again for each assignment; in Canvas, a student keeps one number.
        student=f"{name}_{number}" if layout == "Canvas" and number else name,
        rest=part["rest"],
        number=number,
        order=int(order or 0) or _moment(part.get("when", "")),
        late=bool(part.get("late") or part.get("first")),
    )
    return [author], ""


def _moment(written: str) -> int:
    """Return a time as Brightspace writes it, such as `Sep 24, 2024 926 PM`, as a number; 0 for
    other texts.
    """
    day, _, clock = written.rpartition(", ")
    year, time, half = [*clock.split(" "), "", "", ""][:3]
    try:
        moment = datetime.strptime(f"{day} {year} {time:0>4} {half}", "%b %d %Y %I%M %p")
    except ValueError:
        return 0
    return int(moment.strftime("%Y%m%d%H%M"))


def _loose(file: File, naming: Naming, by_folder: bool) -> tuple[list[Author], str]:
    """Return the author in the name of a file, `ada_01-qkv.ipynb`, or of a folder,
    `ada/01-qkv/01-qkv.ipynb`.
    """
    exercises = naming.exercises
    *folders, base = file.path.split("/")
    of_tutors = [folder for folder in folders if OF_TUTORS.fullmatch(folder)]
    if of_tutors and not file.packed:
        return [], f"is in the folder {of_tutors[0]}, where OpenOLAT has no submissions"
    folder = naming.folder(file.packed or file.path)
    if by_folder and folder:
        return [Author("by name", Clues(ids=(folder,), names=(folder,)), folder, base)], ""
    # The names inside a packed file are the student's.
    outer = [*reversed(file.packed.split("/"))] if file.packed else []
    names = [name for name in map(exercises.without, outer) if name]
    names = names or [name for name in map(exercises.without, [base, *reversed(folders)]) if name]
    if not names:
        return [], "neither its name nor its folders say whose it is"
    # `Untitled.ipynb` in a folder says less about its author than the folder's name.
    student = names[0]
    if len(names) > 1 and exercises.without(base) and not exercises.named(base):
        student = names[1]
    # The name of a packed file, not a name inside it, says whose it is.
    student = exercises.without(file.packed.rpartition("/")[2]) or student
    return [Author("by name", Clues(ids=tuple(names), names=tuple(names)), student, base)], ""


def submitters_in(files: Iterable[File], naming: Naming) -> dict[str, list[Author]]:
    """Return who submitted each folder of Gradescope's export, according to the
    `submission_metadata.yml` next to it.

    Raises
    ------
    FileRefused
        If that is not YAML, or is too large.
    """
    submitters = {}
    if naming.layout != "Gradescope":
        return {}
    bases = {f"{base}{METADATA}": base for base in naming.bases}
    for file in files:
        if file.packed or file.path not in bases:
            continue
        try:
            # Only as texts: no dates, and none of the merged maps by which a small file may expand
            # to a huge one.
            loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
            metadata = yaml.load(file.read(MOST_METADATA_MB * 1_000_000), Loader=loader)  # noqa: S506
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise FileRefused(
                f"has a {METADATA} that cannot be read: {str(error).splitlines()[0]}"
            ) from None
        for folder, entry in metadata.items() if isinstance(metadata, dict) else ():
            if isinstance(folder, str) and isinstance(entry, dict):
                submitters[bases[file.path] + folder] = _submitters(entry)
    return submitters


def _submitters(entry: dict[str, Any]) -> list[Author]:
    when = _time(entry.get(":created_at"))
    authors = []
    listed = entry.get(":submitters")
    for person in listed if isinstance(listed, list) else ():
        if not isinstance(person, dict):
            continue
        sid, email, name = (_text(person.get(key)) for key in (":sid", ":email", ":name"))
        student = sid or email or name
        clues = Clues(ids=(sid, email), names=(name,))
        authors.append(Author("Gradescope", clues, student, "", handed_in=when))
    return [author for author in authors if author.student]


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) and value != "null" else ""


def _time(written: Any) -> datetime | None:
    """Return a time as Ruby writes it into YAML, such as `2026-11-02 09:17:36.193420000 -08:00`,
    or else None.
    """
    try:
        iso = re.sub(r" (?=(Z|UTC|[+-]\d\d:?\d\d)$)", "", str(written)).replace("UTC", "Z")
        time = datetime.fromisoformat(iso)
    except ValueError:
        return None
    return time if time.tzinfo else None


class Exercises:
    """The course's exercises, and how a notebook of one is recognized."""

    def __init__(self, exercises: Sequence[Exercise]):
        self.all = {exercise.name: exercise for exercise in exercises}
        # "01-qkv", "01_qkv" and "01 qkv", but neither "101-qkv" nor "01-qkv2".
        self._patterns = {
            name: re.compile(
                rf"(?<![^\W_]){'[-_ ]?'.join(map(re.escape, name.split('-')))}{LANGUAGE}(?![^\W_]){COPY}",  # noqa: E501
                re.IGNORECASE,
            )
            for name in self.all
        }

    def named(self, name: str) -> str:
        """Return the exercise that the name of a file or folder contains; "" for none and for
        several.
        """
        matches = [exercise for exercise, pattern in self._patterns.items() if pattern.search(name)]
        return matches[0] if len(matches) == 1 else ""

    def without(self, name: str) -> str:
        """Return the name of a file or folder without the exercise, the ending and marks of a
        copy.
        """
        stem = TIME.sub("", re.sub(rf"( ?\(\d+\))?({ENDING})+$", "", name, flags=re.IGNORECASE))
        stem = "" if STEP.fullmatch(stem) else stem
        for pattern in self._patterns.values():
            stem = pattern.sub("", stem)
        return stem.strip(" _-.+")

    def holding(self, data: bytes, named: str = "") -> str:
        """Return the exercise whose cells a notebook has; "" for none and for several.

        If it is `named` after an exercise, that is returned, unless its cells are clearly those of
        another one.
        """
        return file_kinds.identify_exercise(data, self._features, named)

    @cached_property
    def _features(self) -> dict[str, file_kinds.Features]:
        return {
            name: file_kinds.features(exercise.notebook.read_bytes())
            for name, exercise in self.all.items()
        }

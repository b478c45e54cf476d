"""The course on disk: its paths, its exercises with their settings, and nbgrader's
configuration.
"""

import ast
import copy
import dataclasses
import difflib
import glob
import json
import re
import tomllib
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from traitlets.config import Config, PyFileConfigLoader

from autograder.course.limits import Limits

CONFIG = "nbgrader_config.py"
SETTINGS = "exercise.toml"
ARCHIVE = "checking.zip"
STAMP = "timestamp.txt"
"""When something was submitted, in nbgrader's format; next to the notebook."""
HEADING = re.compile(r"\s*# +(.*\S)")
EDITION = re.compile(r"\.([a-z]{2,3})$", re.IGNORECASE)
"""What follows an exercise's name in the name of its notebook in another language."""
AT_ONCE, STAGED = "at once", "staged"
"""When checks in a notebook give their hints: `c.Course.hints`."""
TITLE = "The title is the first heading of the exercise's notebook; remove this line. "


def _root() -> Path:
    """Return the course that the program is in, or the current folder if it is installed by
    itself.
    """
    parent = Path(__file__).resolve().parent.parent.parent
    return parent if (parent / CONFIG).exists() else Path.cwd()


ROOT = _root()


def edition_of(name: str) -> tuple[str, str]:
    """Return the exercise that a file of this name is the notebook of, and its language; "" if
    the name has none.
    """
    stem = re.sub(r"\.ipynb$", "", name, flags=re.IGNORECASE)
    match = EDITION.search(stem)
    return (stem[: match.start()], match[1]) if match else (stem, "")


PASSWORDS = (
    re.compile(r"(://[^:@/\s]*:|^[^:@/\s]+:(?!//))\S*@"),
    re.compile(r"(?i)(\w*passw(?:or)?d=)[^&\s]*"),
)


def masked(url: str) -> str:
    """Return a text with URLs in it, or a single URL, without the passwords."""
    for password in PASSWORDS:
        url = password.sub(lambda match: f"{match[1]}***{'@' * match[0].endswith('@')}", url)
    return url


class UserError(Exception):
    """A fault that the user can fix: one clear line that names the problem and the fix."""


@dataclass(frozen=True)
class Race:
    """What `race` compares of an exercise's kernels: the table `[race]` in its `exercise.toml`.

    Attributes
    ----------
    functions : list of str
        Two functions of the notebook with the same inputs: the first is measured forward, the
        second forward and backward. Students with all points for both take part.
    rival : str
        What they are compared with, in words.
    setting : str
        A name of the notebook that the kernels depend on, such as the side of a tile.
    values : list of int
        The values of it to try.
    lengths, counted : list of int
        The lengths to time on a GPU, and to count in Triton's interpreter without one. Results are
        compared at the last of `counted`.
    code : str
        Python code, which defines `inputs(n)`, a list of float32 tensors; `forward(function,
        *inputs)` and `with_gradients(function, *inputs)`, the output of either function; and
        `rival(*inputs)`, the right output.
    """

    functions: list[str]
    rival: str
    setting: str
    values: list[int]
    lengths: list[int]
    counted: list[int]
    code: str

    @classmethod
    def read(cls, named: str, table: dict[str, Any]) -> "Race":
        """Return the race that a table describes; raise `UserError`, which calls the file
        `named`, if it doesn't.
        """
        kinds: dict[str, type] = {
            entry.name: str if entry.type is str else list for entry in dataclasses.fields(cls)
        }
        for key, value in table.items():
            check_setting(named, key, value, kinds, within="race.")
            item = str if key == "functions" else int
            fits = kinds[key] is not list or (value and all(type(part) is item for part in value))
            if not fits:
                items = "names" if item is str else "whole numbers"
                raise UserError(
                    f"{named}: race.{key} should be a list of {items}, but is {value!r}."
                )
        for key in kinds:
            if key not in table:
                raise UserError(f"{named}: [race] has no {key}. It needs: {', '.join(kinds)}.")
        if len(table["functions"]) != 2:
            raise UserError(
                f"{named}: race.functions should name two functions, but is {table['functions']!r}."
            )
        return cls(**table)


@dataclass(frozen=True)
class Settings:
    """The settings in an exercise's `exercise.toml`; without that file, all have their defaults.

    Attributes
    ----------
    gpu : bool
        Whether some of its checks need a GPU; guests may then use the machine's.
    limits : dict
        What a submission may use, where it differs from the rest of the course; see
        `autograder.course.limits`.
    rehearsal : str
        Code that runs once before a class is graded, if it is slow the first time; guests get what
        it loads.
    packages : list of str
        The packages that notebooks may import, besides those of the course; as they are imported.
    race : Race, optional
        What `race` compares.
    """

    gpu: bool = False
    rehearsal: str = ""
    limits: dict[str, Any] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)
    race: Race | None = None

    @classmethod
    def read(cls, folder: Path) -> "Settings":
        """Return the settings of the exercise in a folder.

        Raises
        ------
        UserError
            If the file is not TOML, has an unknown key, or a value of the wrong type; it names
            both.
        """
        path = folder / SETTINGS
        named = f"{folder.parent.name}/{folder.name}/{SETTINGS}"
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{named} is not TOML: {error}.") from None
        for key, value in table.items():
            check_setting(named, key, value, _KEYS)
        for key, value in table.get("limits", {}).items():
            check_setting(named, key, value, _limit_types(), within="limits.")
        _expect_packages(named, table.get("packages", []))
        if "race" in table:
            table["race"] = Race.read(named, table["race"])
        return cls(**table)


_KEYS = {"gpu": bool, "limits": dict, "packages": list, "race": dict, "rehearsal": str}
_IN_WORDS = {
    str: "text",
    bool: "true or false",
    dict: "a table",
    list: "a list",
    int: "a whole number",
    float: "a number",
}


def check_setting(
    named: str, key: str, value: Any, kinds: dict[str, type], within: str = ""
) -> None:
    """Raise `UserError` unless `kinds` has this key, and for the value's type."""
    if key not in kinds:
        hint = TITLE if key == "title" else _meant(difflib.get_close_matches(key, kinds, n=1))
        raise UserError(
            f"{named} has {within}{key}, but there is no such key. {hint}The keys are: "
            f"{', '.join(kinds)}."
        )
    right = type(value) is kinds[key] or (kinds[key] is float and type(value) is int)
    if not right or (kinds[key] in (int, float) and not value > 0):
        above = " above 0" if kinds[key] in (int, float) else ""
        raise UserError(
            f"{named}: {within}{key} should be {_IN_WORDS[kinds[key]]}{above}, but is {value!r}."
        )


def _expect_packages(named: str, names: Iterable[Any], within: str = "") -> None:
    """Raise `UserError` unless these are names that Python can import."""
    for name in names:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise UserError(
                f"{named}: {within}packages should name packages as Python imports them, such as "
                f"'einops', but has {name!r}."
            )


def _meant(close: Sequence[str]) -> str:
    return f"Did you mean {close[0]}? " if close else ""


@dataclass(frozen=True)
class Exercise:
    """One exercise: `solutions/NN-name/` and what is built from it."""

    name: str
    root: Path = ROOT

    @property
    def solution(self) -> Path:
        """The folder that the author writes."""
        return self.root / "solutions" / self.name

    @property
    def text(self) -> Path:
        """The notebook's source: a text file in jupytext's percent format."""
        return self.solution / f"{self.name}.py"

    @property
    def released(self) -> Path:
        """The folder that students get."""
        return self.root / "exercises" / self.name

    @property
    def notebook(self) -> Path:
        """The released notebook."""
        return self.released / f"{self.name}.ipynb"

    def edition(self, language: str) -> Path:
        """Return the released notebook of another language: for zh_CN, `01-qkv.zh.ipynb`."""
        return self.released / f"{self.name}.{re.split('[-_]', language)[0]}.ipynb"

    @property
    def editions(self) -> list[Path]:
        """The released notebooks of other languages: the same cells, with other texts."""
        paths = self.released.glob(f"{glob.escape(self.name)}.*.ipynb")
        return sorted(path for path in paths if edition_of(path.name)[0] == self.name)

    @property
    def archive(self) -> Path:
        """The archive that its checks import from, next to the released notebook."""
        return self.released / ARCHIVE

    @cached_property
    def settings(self) -> Settings:
        """What its `exercise.toml` says, as it was released."""
        return Settings.read(self.released)

    @cached_property
    def wants(self) -> tuple[str, ...]:
        """What its checks need of the machine, as their `on=` names it, once for each check; as
        it was released.
        """
        try:
            text = (self.released / "checks.py").read_text(encoding="utf-8")
            nodes = list(ast.walk(ast.parse(text))) if " on=" in text else []
        except (OSError, SyntaxError, UnicodeDecodeError):  # loading it gives a better message
            return ()
        named = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "on"]
        return tuple(str(node.value) for node in named if isinstance(node, ast.Constant))

    @cached_property
    def title(self) -> str:
        """The first heading of its notebook, such as "1. Queries, keys and values"."""
        return self.title_in("")

    def title_in(self, language: str) -> str:
        """Return its title in a language, or in English if it has no notebook in that language."""
        edition = self.edition(language)
        path = edition if edition.exists() else self.notebook
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        except FileNotFoundError:
            return self.name
        texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        return next((heading[1] for text in texts if (heading := HEADING.match(text))), self.name)


@dataclass(frozen=True)
class SubmissionPaths:
    """Where one graded submission is: the notebook and its record, and the feedback page."""

    folder: Path
    pages: Path
    name: str

    @property
    def notebook(self) -> Path:
        """The graded notebook, with outputs and points."""
        return self.folder / f"{self.name}.ipynb"

    @property
    def record(self) -> Path:
        """The grade and its reasons; written last."""
        return self.folder / "grade.json"

    @property
    def stamp(self) -> Path:
        """When it was submitted, as nbgrader keeps it."""
        return self.folder / STAMP

    @property
    def page(self) -> Path:
        """The feedback page."""
        return self.pages / f"{self.name}.html"


@dataclass(frozen=True)
class Course:
    """A course: its folder, and where its grades go.

    `output_folder` has the gradebook, `autograded/`, `feedback/` and the course's secret; for the
    instructor's own class it is the course's folder, as nbgrader has it.
    """

    root: Path = ROOT
    output_folder: Path = field(default=Path())
    db: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.output_folder == Path():
            object.__setattr__(self, "output_folder", self.root)

    @cached_property
    def db_url(self) -> str:
        """SQLAlchemy's URL of the gradebook: the one given, the one in nbgrader's configuration, or
        a file.

        The configuration is for the class in the course's folder. Grades that go elsewhere have a
        gradebook there.
        """
        configured = self._configured.CourseDirectory.get("db_url") if self._is_own() else None
        return self.db or configured or f"sqlite:///{self.gradebook}"

    def _is_own(self) -> bool:
        return self.output_folder == self.root and (self.root / CONFIG).exists()

    @property
    def database(self) -> str:
        """The gradebook's URL for people to read: without a password."""
        return masked(self.db_url)

    @property
    def has_gradebook(self) -> bool:
        """Whether there is a gradebook, as far as files show."""
        return self.db_url != f"sqlite:///{self.gradebook}" or self.gradebook.exists()

    @property
    def gradebook(self) -> Path:
        """The gradebook's file, where no other database is named."""
        return self.output_folder / "gradebook.db"

    @property
    def secret(self) -> Path:
        """The file with the secret from which draws follow."""
        return self.output_folder / ".course-secret"

    @property
    def revealed(self) -> Path:
        """The file with the keys of the exercises whose seeds are public."""
        return self.output_folder / "revealed.json"

    @property
    def submitted(self) -> Path:
        """Where submissions are, if no other folder is named."""
        return self.root / "submitted"

    @property
    def autograded(self) -> Path:
        """Where graded notebooks and records go."""
        return self.output_folder / "autograded"

    @property
    def feedback(self) -> Path:
        """Where feedback pages go."""
        return self.output_folder / "feedback"

    def paths_of(self, student: str, name: str) -> SubmissionPaths:
        """Return where the graded submission of a student for the exercise `name` is."""
        return SubmissionPaths(
            self.autograded / student / name, self.feedback / student / name, name
        )

    @cached_property
    def _configured(self) -> Config:
        """What `nbgrader_config.py` says."""
        if not (self.root / CONFIG).exists():
            raise UserError(
                f"{self.root} is not a course: it has no {CONFIG}. Name the course "
                "folder with --course."
            )
        try:
            config = PyFileConfigLoader(CONFIG, path=str(self.root)).load_config()
        except Exception as error:  # whatever a file of Python may raise
            message = error.msg if isinstance(error, SyntaxError) else error
            fault = f"{type(error).__name__}: {message}"
            raise UserError(
                f"{CONFIG}{_line_of(error)} cannot be run: {fault}. Fix it in {self.root}."
            ) from None
        check_limits(config)
        for key, value in config.Course.items():
            check_setting(CONFIG, key, value, {"packages": list, "hints": str}, within="c.Course.")
        _expect_packages(CONFIG, config.Course.get("packages", []), within="c.Course.")
        if config.Course.get("hints", AT_ONCE) not in (AT_ONCE, STAGED):
            raise UserError(
                f'{CONFIG}: c.Course.hints should be "{AT_ONCE}" or "{STAGED}", but is '
                f"{config.Course.hints!r}."
            )
        return config

    @cached_property
    def config(self) -> Config:
        """nbgrader's configuration of this course, as `nbgrader_config.py` gives it."""
        config = copy.deepcopy(self._configured)
        config.CourseDirectory.root = str(self.root)
        config.CourseDirectory.db_url = self.db_url
        config.CourseDirectory.autograded_directory = str(self.autograded)
        config.CourseDirectory.feedback_directory = str(self.feedback)
        return config

    @cached_property
    def exchange(self) -> Path | None:
        """This course's folder in nbgrader's exchange, if the configuration names an exchange: its
        students are users of this machine then.
        """
        root = self._configured.Exchange.get("root") if (self.root / CONFIG).exists() else None
        return Path(root).expanduser() / self.course_id if root else None

    @cached_property
    def packages(self) -> list[str]:
        """The packages that notebooks of this course may import, besides those that it needs
        itself.
        """
        if not (self.root / CONFIG).exists():
            return []
        return list(self._configured.Course.get("packages", []))

    @property
    def staged_hints(self) -> bool:
        """Whether checks in notebooks leave causes to `checks.hint`, which gives them one at a
        time.
        """
        return (self.root / CONFIG).exists() and self._configured.Course.get("hints") == STAGED

    def packages_of(self, exercise: Exercise) -> list[str]:
        """Return the packages that the course and the author of an exercise add for its
        notebooks.
        """
        return list(dict.fromkeys([*self.packages, *Settings.read(exercise.solution).packages]))

    @property
    def course_id(self) -> str:
        """The name under which nbgrader files this course."""
        return str(self.config.CourseDirectory.course_id)

    def exercises(self, names: Sequence[str] = ()) -> list[Exercise]:
        """Return the released exercises of these names, or all of them.

        Raises
        ------
        UserError
            If there is no exercise of that name, or it is not released yet.
        """
        known = [exercise.name for exercise in self.released()]
        written = _folders(self.root.glob("solutions/*/*.py"))
        for name in names or (() if known else written):
            if name in written and name not in known:
                raise UserError(
                    f"{name} is not released yet. Run: python -m autograder release {name}"
                )
        chosen = self.named(names, known)
        lacking = [exercise for exercise in chosen if not exercise.archive.exists()]
        if lacking:
            first = lacking[0].name
            others = len(lacking) - 1
            missing = f"exercises/{first}/{ARCHIVE}"
            if others:
                raise UserError(
                    f"{missing} and {others} more are missing. Run: python -m autograder release"
                )
            raise UserError(f"{missing} is missing. Run: python -m autograder release {first}")
        return chosen

    def released(self) -> list[Exercise]:
        """Return the exercises with a released notebook, including those without the archive
        next to it.
        """
        return self.named((), _folders(self.root.glob("exercises/*/*.ipynb")))

    def sources(self, names: Sequence[str] = ()) -> list[Exercise]:
        """Return the exercises of these names that have an author's text here, or all of them.

        Raises
        ------
        UserError
            If there is no exercise of that name.
        """
        return self.named(names, _folders(self.root.glob("solutions/*/*.py")))

    def named(self, names: Sequence[str], known: list[str]) -> list[Exercise]:
        """Return the exercises of these names, or all `known` ones; raise `UserError` for an
        unknown name.
        """
        for name in names:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
                listed = ", ".join(known) or "none yet"
                raise UserError(
                    f"There is no exercise {name!r}. {_meant(close)}The exercises are: {listed}."
                )
        return [Exercise(name, self.root) for name in (names or known)]


def _line_of(error: Exception) -> str:
    """Return ", line 3" if an error is in that line of the configuration; "" if the line is
    unknown.
    """
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name == CONFIG
    ]
    line = error.lineno if isinstance(error, SyntaxError) else next(reversed(lines), None)
    return f", line {line}" if line else ""


def check_limits(config: Config) -> None:
    """Raise `UserError` unless the limits in a configuration exist, have the right type and are
    above 0.
    """
    for section in difflib.get_close_matches("Limits", config, cutoff=0.8):
        if section != "Limits":
            raise UserError(
                f"{CONFIG} has c.{section}, which has no effect. Did you mean c.Limits?"
            )
    for key, value in config.Limits.items():
        check_setting(CONFIG, key, value, _limit_types(), within="c.Limits.")


def _limit_types() -> dict[str, type]:
    return {name: type(default) for name, default in dataclasses.asdict(Limits()).items()}


def _folders(paths: Iterable[Path]) -> list[str]:
    """Return the names of folders with a file of their own name, such as `01-qkv/01-qkv.py`."""
    return sorted(
        path.stem
        for path in paths
        if path.stem == path.parent.name and re.match(r"\d\d-", path.stem)
    )

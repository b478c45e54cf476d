"""The course on disk: its folders, its exercises, and nbgrader's configuration of it."""

import difflib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from traitlets.config import PyFileConfigLoader

ROOT = Path(__file__).resolve().parent.parent


class UserError(Exception):
    """A fault that the user can mend: one clear line that names the thing and the mend."""


@dataclass(frozen=True)
class Exercise:
    """One exercise: `solutions/NN-name/` and what is built from it."""

    name: str
    root: Path = ROOT

    @property
    def solution(self):
        """The folder that the author writes."""
        return self.root / "solutions" / self.name

    @property
    def text(self):
        """The notebook's source: a text file in jupytext's percent format."""
        return self.solution / f"{self.name}.py"

    @property
    def released(self):
        """The folder that students get."""
        return self.root / "exercises" / self.name

    @property
    def notebook(self):
        """The released notebook."""
        return self.released / f"{self.name}.ipynb"


@dataclass(frozen=True)
class Course:
    """A course: the repository it lives in, and where its grades go.

    `into` holds the gradebook, `autograded/`, `feedback/` and the course's secret; for the instructor's
    own class it is the repository's root, as nbgrader has it.
    """

    root: Path = ROOT
    into: Path = ROOT
    db: str = ""

    @property
    def db_url(self):
        """SQLAlchemy's address of the gradebook."""
        return self.db or f"sqlite:///{self.into / 'gradebook.db'}"

    @cached_property
    def config(self):
        """nbgrader's configuration of this course, as `nbgrader_config.py` gives it."""
        config = PyFileConfigLoader("nbgrader_config.py", path=str(self.root)).load_config()
        config.CourseDirectory.root = str(self.root)
        config.CourseDirectory.db_url = self.db_url
        config.CourseDirectory.autograded_directory = str(self.into / "autograded")
        config.CourseDirectory.feedback_directory = str(self.into / "feedback")
        return config

    @property
    def course_id(self):
        """The name under which nbgrader files this course."""
        return self.config.CourseDirectory.course_id

    def exercises(self, names=()):
        """Return the exercises of these names, or all of them.

        Raises
        ------
        UserError
            If there is no exercise of that name.
        """
        known = sorted(path.parent.name for path in self.root.glob("solutions/*/*.py") if _is_text(path))
        for name in names:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
                meant = f" Did you mean {close[0]}?" if close else ""
                raise UserError(f"There is no exercise {name!r}.{meant} The exercises are: {', '.join(known)}.")
        return [Exercise(name, self.root) for name in (names or known)]


def _is_text(path):
    return path.stem == path.parent.name and re.match(r"\d\d-", path.stem)

"""Where hand-ins lie that were copied: first among those that wait, then in `submitted/`."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from autograder.course.config import STAMP, Exercise
from autograder.course.text_files import read_text
from autograder.exchange.inbound import HandIn
from autograder.grading.submission_times import read_stamp
from autograder.grading.submissions import SECRET, Submission
from autograder.school.hand_ins import STAMP_FORMAT

WAITING = ".waiting"
"""A folder in `submitted/`; no student has a name with a dot at its beginning."""
PART, OLD = ".part", ".old"


class HandInFolders:
    """The folders of hand-ins: `submitted/.waiting/ID/` and `submitted/STUDENT/EXERCISE/`.

    Parameters
    ----------
    submitted : Path
        Made if it does not exist.
    """

    def __init__(self, submitted: Path):
        self.submitted, self.waiting = submitted, submitted / WAITING
        self.waiting.mkdir(mode=0o700, parents=True, exist_ok=True)

    def waiting_folder(self, name: str) -> Path:
        """Return the folder of a hand-in that waits, by its key."""
        # A key can be longer than a file name may be: it writes some bytes with three characters.
        return self.waiting / hashlib.sha256(name.encode()).hexdigest()[:32]

    def submission_folder(self, student: str, exercise: str) -> Path:
        """Return the folder in which `grade` looks for a submission."""
        return self.submitted / student / exercise

    def write(self, hand_in: HandIn) -> None:
        """Write a hand-in among those that wait, completely or not at all."""
        folder = self.waiting_folder(hand_in.entry.key)
        building = folder.with_name(folder.name + PART)
        for left in (building, folder):  # of a run that was killed
            shutil.rmtree(left, ignore_errors=True)
        try:
            hand_in.write(building, STAMP_FORMAT)
            building.rename(folder)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise

    def place(self, name: str, student: str, exercise: str) -> None:
        """Move a hand-in to where `grade` looks for it. It may be there already, if a run was
        killed.
        """
        source, target = self.waiting_folder(name), self.submission_folder(student, exercise)
        if not source.exists():
            return
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        old = source.with_name(source.name + OLD)
        shutil.rmtree(old, ignore_errors=True)
        if os.path.lexists(target):
            # If a run is killed between these two, the next one places `source`, which is still
            # there.
            target.rename(old)
        source.rename(target)
        shutil.rmtree(old, ignore_errors=True)

    def has(self, name: str, student: str, exercise: str, secret: str) -> bool:
        """Tell whether the copy of a hand-in is there: it waits, or was moved already."""
        if not self.is_placed(name):
            return True
        placed = self.submission_folder(student, exercise)
        # Without a secret, nothing tells it from another submission of this student.
        return placed.exists() and (not secret or self.secret_of(student, exercise) == secret)

    def is_placed(self, name: str) -> bool:
        """Tell whether a hand-in does not wait any more."""
        return not self.waiting_folder(name).exists()

    def secret_of(self, student: str, exercise: str) -> str | None:
        """Return the secret of the submission that is there; None if it has none."""
        return read_text(self.submission_folder(student, exercise) / SECRET)

    def remove(self, name: str) -> None:
        """Remove a hand-in that waits and is not needed."""
        shutil.rmtree(self.waiting_folder(name), ignore_errors=True)

    def remove_others(self, names: Iterable[str]) -> None:
        """Remove what killed runs left: all but the folders of the hand-ins of these names."""
        waiting = {self.waiting_folder(name).name for name in names}
        for folder in self.waiting.iterdir():
            if folder.name not in waiting:
                shutil.rmtree(folder, ignore_errors=True)

    def is_newer(self, student: str, exercise: str, secret: str, arrived: datetime) -> bool:
        """Tell whether the submission that is there is another one, submitted after `arrived`."""
        folder = self.submission_folder(student, exercise)
        if secret and self.secret_of(student, exercise) == secret:
            return False
        # The time in the file is UTC, without a zone.
        stamp = read_stamp(read_text(folder / STAMP))[0]
        if stamp is None:
            return False
        time = stamp.replace(tzinfo=UTC)
        # One in the future was written while the clock was wrong.
        return arrived < time <= datetime.now(UTC)

    def submission(self, name: str, student: str, exercise: Exercise) -> Submission:
        """Return a hand-in that waits, or that was moved already, to be read."""
        folder = self.waiting_folder(name)
        return Submission(
            student,
            exercise,
            folder if folder.exists() else self.submission_folder(student, exercise.name),
        )

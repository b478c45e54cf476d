"""A line of JSON for each finished submission, to watch a class being graded or to count
afterwards.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

from autograder.course.config import UserError
from autograder.grades.results import Outcome, Record


class Log:
    """A file to which lines are added; use it in a `with` block.

    Raises
    ------
    UserError
        If it cannot be written.
    """

    def __init__(self, path: Path):
        try:
            # With a buffer of one line: someone may watch the file while a class is graded.
            self._file = path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise UserError(
                f"The log {path} cannot be written: {error.strerror}. Name another file with --log."
            ) from None

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, record: Record, outcome: Outcome | None) -> None:
        """Add the line of a submission: its new outcome, or None if it kept its grade."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "student": record.student,
            "exercise": record.assignment,
            "kind": record.kind,
            "score": record.score,
            "max_score": record.max_score,
            "pending": record.pending,
            "kept": outcome is None,
            "seconds": outcome.took if outcome else None,
            "worker": outcome.worker if outcome else None,
            "seed": record.seed,
        }
        self._file.write(json.dumps(line) + "\n")

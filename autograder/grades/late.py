"""Late work: a rule by name for nbgrader's plugin, the free days of a student, and the rule that
a course has.
"""

import contextlib
import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from traitlets import Float, Integer

from autograder.course import deadlines
from autograder.course.config import CONFIG, Course, UserError
from autograder.grades.results import Deadline

DAY = 86_400
PLUGIN = "autograder.grades.late.PerDay"


class PerDay(LateSubmissionPlugin):
    """A rule for late work: each day that has begun costs a percentage of the points that were
    earned.
    """

    percent = Float(
        0.0, min=0.0, max=100.0, help="Per cent of the earned points, for each day that has begun."
    ).tag(config=True)
    at_most = Integer(
        None,
        min=0,
        allow_none=True,
        help="Days that may be late; later work gets no points. Default: any number.",
    ).tag(config=True)
    free_days = Integer(
        0, min=0, help="Days that each student may be late in the whole course without a loss."
    ).tag(config=True)

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float:
        """Return the points that a submission loses.

        Parameters
        ----------
        student_id : str
        score : float
            The points earned.
        total_seconds_late : float
            How late it is, without free days.
        """
        days = _days(total_seconds_late)
        if self.at_most is not None and days > self.at_most:
            return score
        return score * min(1.0, self.percent / 100 * days)

    def free_days_used(self, seconds_late: Sequence[float]) -> list[int]:
        """Return how many free days each submission of a student uses, given how late they are, by
        due date.

        They are used as soon as possible, but not for a submission that would get no points even
        with them.
        """
        remaining, used = self.free_days, []
        for seconds in seconds_late:
            days = _days(seconds)
            free = min(days, remaining)
            if self.at_most is not None and days - free > self.at_most:
                free = 0
            used.append(free)
            remaining -= free
        return used


def _days(seconds: float) -> int:
    return math.ceil(seconds / DAY)


@dataclass(frozen=True)
class LatenessFacts:
    """What decides how late a submission is; times are UTC without a zone, as the gradebook has
    them.
    """

    exercise: str
    handed_in: datetime | None
    due: datetime | None
    extension: timedelta | None = None

    @property
    def seconds_late(self) -> float:
        """How late it is, given the due date and the student's extension."""
        if self.handed_in is None or self.due is None:
            return 0.0
        return max(
            0.0, (self.handed_in - self.due - (self.extension or timedelta())).total_seconds()
        )


class Rule:
    """A course's rule for late work: the plugin that its configuration names, as nbgrader loads it.

    Raises
    ------
    UserError
        If the configuration has an unknown setting of `PerDay`, one without an effect, or one that
        is not valid.
    """

    def __init__(self, course: Course):
        config = course.config
        with _pointing_to_config():
            preprocessor = AssignLatePenalties(config=config)
            preprocessor.init_plugin()
        self._plugin = preprocessor.plugin_inst
        # Also with another rule: a setting of `PerDay` without an effect is a mistake.
        _check_settings(config.PerDay, isinstance(self._plugin, PerDay))
        self.dates = deadlines.read(course)

    @property
    def has_free_days(self) -> bool:
        """Whether a submission's penalty also depends on the other ones of its student."""
        return isinstance(self._plugin, PerDay) and self._plugin.free_days > 0

    def deadlines_of(self, all_facts: Sequence[LatenessFacts]) -> dict[str, Deadline]:
        """Return when all submissions of one student were due, by exercise, and the free days that
        they use.

        Free days are used in the order of the due dates, without extensions.
        """
        # By name where dates are equal, so that free days always go to the same exercise.
        dated = [facts for facts in all_facts if facts.due]
        dated.sort(key=lambda facts: (facts.due, facts.exercise))
        remaining, used = 0, [0] * len(dated)
        if isinstance(self._plugin, PerDay):
            remaining = self._plugin.free_days
            used = self._plugin.free_days_used([facts.seconds_late for facts in dated])
        by_exercise = dict.fromkeys((facts.exercise for facts in all_facts), Deadline())
        for facts, days in zip(dated, used, strict=True):
            remaining -= days
            by_exercise[facts.exercise] = self._deadline(facts, days, remaining)
        return by_exercise

    def _deadline(self, facts: LatenessFacts, used: int, remaining: int) -> Deadline:
        extension = facts.extension or timedelta()
        assert facts.due is not None
        due = (facts.due + extension).replace(tzinfo=UTC)
        # The gradebook has UTC; `deadlines.toml` has the zone in which the class reads dates.
        named = self.dates.due.get(facts.exercise)
        due = due.astimezone(named.tzinfo) if named else due
        return Deadline(
            due.isoformat(timespec="minutes"), extension.total_seconds(), used, remaining
        )

    def penalty(
        self, student: str, score: float, seconds_late: float, free_days: int
    ) -> float | None:
        """Return the points that a submission loses; None if it is not late, or if the rule takes
        none.

        Raises
        ------
        UserError
            If the rule fails, or adds points.
        """
        # The rule gets the seconds that cost something, and need not know of free days.
        counted = seconds_late - free_days * DAY
        if counted <= 0:
            return None
        with _pointing_to_config():
            penalty: float | None = self._plugin.late_submission_penalty(student, score, counted)
            # "not >=" also refuses NaN.
            if penalty is not None and not penalty >= 0:
                raise ValueError(f"it is {penalty:g}, which would add points")
            return None if penalty is None else min(penalty, score)


def _check_settings(settings: Mapping[str, Any], has_effect: bool) -> None:
    """Raise `UserError` for a setting of `PerDay` that traitlets would ignore."""
    known = PerDay.class_trait_names(config=True)
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"Did you mean {close[0]}? " if close else ""
            names = "percent, at_most, free_days"
            raise UserError(
                f"{CONFIG} has c.PerDay.{name}, but there is no such setting. "
                f"{meant}There are: {names}."
            )
    if settings and not has_effect:
        raise UserError(
            f"{CONFIG}: c.PerDay has no effect while another rule is set. "
            f'Add: c.AssignLatePenalties.plugin_class = "{PLUGIN}"'
        )


@contextlib.contextmanager
def _pointing_to_config() -> Iterator[None]:
    """Turn an error of the rule for late work into one that points to the configuration."""
    try:
        yield
    except Exception as error:  # whatever a class that the configuration names may raise
        raise UserError(
            f"{CONFIG}: the penalty for late work cannot be computed: {error}. "
            "Fix c.AssignLatePenalties, c.PerDay or c.LateSubmissionPlugin there."
        ) from error

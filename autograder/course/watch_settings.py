"""The settings of `watch`, which grades what students hand in: `c.Watch` in the configuration."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from traitlets.config import Config

from autograder.course.config import CONFIG, UserError, check_setting

POINTS, REASONS, AFTER_DUE_DATE = "points", "reasons", "after due date"
SHOWS = (POINTS, REASONS, AFTER_DUE_DATE)
LTI = "lti"


@dataclass(frozen=True)
class WatchSettings:
    """The settings of `watch`.

    Attributes
    ----------
    shows : str
        What students see at once: "points" shows points and reasons, "reasons" only reasons, and
        "after due date" nothing before the exercise's due date, with the student's extension.
    attempts : int
        How many hand-ins of one exercise are graded for a student; 0 for any number.
    per_hour : int
        How many hand-ins are graded for a student in an hour; 0 for any number.
    scores : str
        "lti" sends scores to the learning platform after each batch; "" sends none.
    check_owner : bool
        Whether a hand-in must belong to the system user whose name it has. False is only for a
        demonstration in which all students are one system user: anyone can then hand in under any
        name.
    """

    shows: str = POINTS
    attempts: int = 0
    per_hour: int = 20
    scores: str = ""
    check_owner: bool = True

    @classmethod
    def configured(cls, config: Config) -> "WatchSettings":
        """Return the settings in nbgrader's configuration of a course (`c.Watch`).

        Raises
        ------
        UserError
            If there is no setting of that name, or its value is not possible.
        """
        configured = dict(config.Watch)
        kinds: dict[str, type] = {each.name: type(each.default) for each in dataclasses.fields(cls)}
        for name, value in configured.items():
            # `check_setting` wants more than 0. False is equal to 0, and stays wrong.
            if name in ("attempts", "per_hour") and value == 0 and type(value) is int:
                continue
            check_setting(CONFIG, name, value, kinds, within="c.Watch.")
        _check_choice(configured, "shows", SHOWS)
        _check_choice(configured, "scores", ("", LTI))
        return cls(**configured)


def _check_choice(configured: dict[str, Any], name: str, choices: tuple[str, ...]) -> None:
    value = configured.get(name, choices[0])
    if value not in choices:
        listed = ", ".join(f'"{choice}"' for choice in choices)
        raise UserError(f"{CONFIG}: c.Watch.{name} should be one of {listed}, but is {value!r}.")

"""Scores for the school's learning platform, by LTI 1.3 (Assignment and Grade Services).

A score is sent if it differs from the one that the platform has taken. `lti.json`, next to the
gradebook, has those, and is written after each one. A score that is refused therefore stays to be
sent, and one that is sent twice is the same score.

The platform's addresses and the course's key are `c.LTI` in nbgrader_config.py. The hub writes the
file `launches` when people log in through the platform: the platform's number of each person, and
the address that takes scores, when the instructor logs in.
"""

import dataclasses
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autograder.checking import files
from autograder.course import deadlines, locks
from autograder.course.config import CONFIG, Course, UserError, check_setting
from autograder.course.deadlines import Deadlines
from autograder.course.watch_settings import AFTER_DUE_DATE, POINTS, WatchSettings
from autograder.grades import records

Grade = dict[str, Any]
"""A grade under nbgrader's own names, as `records.rows` returns it."""

FILE, LOCK = "lti.json", "lti.lock"
LONGEST_WAIT = 10
"""Seconds that the platform may take for an answer."""
SECONDS_OF_WATCH = 5
"""After this time, `watch` leaves the remaining scores for later, and grades."""
TEMPORARY = (401, 429)
"""Statuses of a refusal that would meet all other scores as well; so does any from 500."""


@dataclass(frozen=True)
class Settings:
    """The settings for sending scores.

    Attributes
    ----------
    client_id : str
        The course's id on the platform.
    token_url : str
        The platform's address for access tokens.
    key : str
        File with the course's private key (PEM); the platform has the public key.
    launches : str
        File that the hub writes: `settings.toml` of the hub has the same path.
    """

    client_id: str = ""
    token_url: str = ""
    key: str = ""
    launches: str = ""

    @classmethod
    def configured(cls, course: Course) -> "Settings":
        """Return the settings in nbgrader's configuration of a course (`c.LTI`).

        Raises
        ------
        UserError
            If one is missing, unknown, or no text.
        """
        given = dict(course.config.LTI)
        names = [each.name for each in dataclasses.fields(cls)]
        for name, value in given.items():
            check_setting(CONFIG, name, value, dict.fromkeys(names, str), within="c.LTI.")
        missing = [f"c.LTI.{name}" for name in names if not given.get(name)]
        if missing:
            raise UserError(f"{CONFIG} lacks {', '.join(missing)}. See the page A class on a hub.")
        return cls(**given)


@dataclass(frozen=True)
class Launches:
    """What the hub wrote down when people logged in through the platform.

    Attributes
    ----------
    lineitems : str
        The address for the columns of the platform's gradebook.
    scope : list of str
        What the platform permits.
    people : dict
        The platform's number of each person, by account.
    """

    lineitems: str
    scope: list[str]
    people: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "Launches":
        """Return what the file says.

        Raises
        ------
        UserError
            If it cannot be read, or the platform has named no address for scores.
        """
        try:
            launches = cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise UserError(
                f"{path} cannot be read: {error}. The hub writes it when someone logs in through "
                "the learning platform."
            ) from None
        if not launches.lineitems:
            raise UserError(
                "The learning platform has named no address for scores. Permit grade services for "
                "this tool there, and log in again as the instructor."
            )
        if not launches.scope:
            raise UserError(
                "The learning platform permits this tool nothing with scores: it names no scope. "
                "Permit grade services there, and log in again as the instructor."
            )
        return launches


@dataclass
class Sent:
    """What became of the scores.

    Attributes
    ----------
    count : int
        How many the platform has taken.
    refused : dict
        The scores that it has not taken, such as "ada 01-qkv", by the reason.
    waiting : int
        How many were not tried, because of a refusal that would meet them all or for lack of time.
    unknown : list of str
        Students with grades who never logged in through the platform.
    hidden : int
        How many scores students may not see yet.
    """

    count: int = 0
    refused: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    waiting: int = 0
    unknown: list[str] = field(default_factory=list)
    hidden: int = 0

    def lines(self) -> list[str]:
        """Return sentences about it; none if nothing was done."""
        lines = []
        if self.count:
            lines.append(f"{self.count} scores sent to the learning platform.")
        for reason, scores in self.refused.items():
            others = f" and {len(scores) - 1} more" if len(scores) > 1 else ""
            lines.append(
                f"Refused: {scores[0]}{others}: {reason}. The next run sends what was refused."
            )
        if self.waiting:
            lines.append(f"{self.waiting} scores wait for the next run.")
        return lines


class State:
    """The scores that the platform has taken, in a file that is always complete."""

    def __init__(self, course: Course):
        self.path = course.output_folder / FILE
        self.scores: dict[str, dict[str, Any]] = {}
        if self.path.exists():
            self.scores = json.loads(self.path.read_text(encoding="utf-8"))

    def has(self, grade: Grade) -> bool:
        """Tell whether the platform has taken this score."""
        return self.scores.get(_name(grade)) == _score(grade)

    def refused_at(self, grade: Grade) -> float:
        """Return when the platform refused this score, in seconds since 1970; 0 if it did not."""
        return float(self.scores.get(_name(grade), {}).get("refused", 0))

    def refuse(self, grade: Grade) -> None:
        """Note that the platform refused a score: it comes after the others in the next run."""
        self.scores[_name(grade)] = {"refused": time.time()}
        files.write(self.path, json.dumps(self.scores, indent=1))

    def add(self, grade: Grade) -> None:
        """Note that the platform has taken a score."""
        self.scores[_name(grade)] = _score(grade)
        files.write(self.path, json.dumps(self.scores, indent=1))


def send_pending(course: Course) -> list[str]:
    """Send the scores that have changed, for a few seconds; return lines for the log of `watch`.

    Raises
    ------
    UserError
        If a setting is missing or wrong, or another program sends scores now.
    """
    return send(course, seconds=SECONDS_OF_WATCH, waiting=_refuse_to_wait).lines()


def _refuse_to_wait(holder: str) -> None:
    raise UserError(f"Another program sends scores now: {holder}.")


def send(
    course: Course,
    exercises: Collection[str] = (),
    seconds: float = math.inf,
    waiting: Callable[[str], None] = lambda holder: None,
) -> Sent:
    """Send the scores of a course, or of some exercises, that the platform does not have yet.

    `waiting` is called with the name of another program that sends scores, before waiting for it.

    Raises
    ------
    UserError
        If a setting is missing or wrong, or the packages for it are not installed.
    """
    settings = Settings.configured(course)
    with locks.lock(course.output_folder / LOCK, waiting):
        state, sent = State(course), Sent()
        grades = [
            grade
            for grade in records.rows(course)
            if not state.has(grade) and (not exercises or grade["assignment"] in exercises)
        ]
        shown = _visibility(course)
        visible = [grade for grade in grades if shown(grade)]
        sent.hidden = len(grades) - len(visible)
        if visible:
            launches = Launches.read(course.root / settings.launches)
            known = [grade for grade in visible if grade["student_id"] in launches.people]
            known.sort(key=state.refused_at)  # what is refused again and again delays no other
            sent.unknown = sorted({grade["student_id"] for grade in visible} - set(launches.people))
            _send(course, settings, launches, known, state, sent, time.monotonic() + seconds)
        return sent


def _send(
    course: Course,
    settings: Settings,
    launches: Launches,
    grades: list[Grade],
    state: State,
    sent: Sent,
    end: float,
) -> None:
    """Send scores until the time is over, or a refusal would meet all others as well."""
    from pylti1p3.exception import LtiException, LtiServiceException
    from requests.exceptions import RequestException

    platform = Platform(course, settings, launches) if grades else None
    for at, grade in enumerate(grades):
        if platform is None or time.monotonic() >= end:
            sent.waiting = len(grades) - at
            return
        try:
            platform.put(grade, launches.people[grade["student_id"]])
        except (LtiException, RequestException, ValueError) as error:
            status = error.response.status_code if isinstance(error, LtiServiceException) else 0
            sent.refused[_reason(error)].append(_name(grade))
            state.refuse(grade)
            # Without a status, it is the network, the key, or an answer that cannot be read.
            if not status or status in TEMPORARY or status >= 500:
                sent.waiting = len(grades) - at - 1
                return
            continue
        state.add(grade)
        sent.count += 1


class Platform:
    """The learning platform.

    Raises
    ------
    UserError
        If the packages for it are not installed, or the key cannot be read.
    """

    def __init__(self, course: Course, settings: Settings, launches: Launches):
        try:
            from pylti1p3.assignments_grades import AssignmentsGradesService
            from pylti1p3.registration import Registration
            from pylti1p3.service_connector import ServiceConnector
        except ImportError as error:
            raise UserError(
                f"Sending scores needs {error.name}. Run: pip install -r requirements-hub.txt"
            ) from None
        registration = Registration()
        registration.set_client_id(settings.client_id)
        registration.set_auth_token_url(settings.token_url)
        private, public = _keys(course.root / settings.key)
        registration.set_tool_private_key(private)
        registration.set_tool_public_key(public)
        connector = ServiceConnector(registration, _session())
        endpoint: Any = {"lineitems": launches.lineitems, "scope": launches.scope}
        self._titles = {exercise.name: exercise.title for exercise in course.released()}
        self._service = AssignmentsGradesService(connector, endpoint)
        # So the platform is asked for each column once in a run.
        self._columns: dict[str, Any] = {}

    def put(self, grade: Grade, person: str) -> None:
        """Send a score into the exercise's column, which is made if there is none."""
        from pylti1p3.grade import Grade as Score

        score = Score()
        score.set_score_given(float(grade["score"]))
        score.set_score_maximum(float(grade["max_score"]))
        score.set_timestamp(datetime.now(UTC).isoformat(timespec="milliseconds"))
        score.set_activity_progress("Completed")
        score.set_grading_progress(_score(grade)["progress"])
        score.set_user_id(person)
        self._service.put_grade(score, self._column(grade))

    def _column(self, grade: Grade) -> Any:
        from pylti1p3.lineitem import LineItem

        name = grade["assignment"]
        if name not in self._columns:
            column = LineItem()
            column.set_tag(name)
            column.set_resource_id(name)
            column.set_label(self._titles.get(name) or name)
            column.set_score_maximum(float(grade["max_score"]))
            self._columns[name] = self._service.find_or_create_lineitem(column)
        return self._columns[name]


def _session() -> Any:
    """Return a session that does not wait for ever."""
    import requests

    class Session(requests.Session):
        def request(self, *arguments: Any, **options: Any) -> requests.Response:
            # `requests` itself waits without end.
            options.setdefault("timeout", LONGEST_WAIT)
            return super().request(*arguments, **options)

    return Session()


def _keys(path: Path) -> tuple[str, str]:
    """Return the private key in a file, and its public key, both as PEM."""
    from jwcrypto.jwk import JWK

    try:
        key = JWK.from_pem(path.read_bytes())
        return str(key.export_to_pem(True, None).decode()), str(key.export_to_pem().decode())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is not a private key ({error}). Run: openssl genrsa -out {path} 2048"
        ) from None


def _visibility(course: Course) -> Callable[[Grade], bool]:
    """Return what tells whether a student may see a score now, by `c.Watch.shows`."""
    shows = WatchSettings.configured(course.config).shows
    dates: Deadlines = deadlines.read(course)

    def is_visible(grade: Grade) -> bool:
        if shows == POINTS:
            return True
        due = records.due_of(course, dates, grade["student_id"], grade["assignment"])
        return due < datetime.now(UTC) if due else shows == AFTER_DUE_DATE

    return is_visible


def _name(grade: Grade) -> str:
    return f"{grade['student_id']} {grade['assignment']}"


def _score(grade: Grade) -> dict[str, Any]:
    """Return what the platform gets of a grade."""
    final = not (grade["needs_manual_grade"] or grade["pending"])
    return {
        "score": grade["score"],
        "max_score": grade["max_score"],
        "progress": "FullyGraded" if final else "PendingManual",
    }


def _reason(error: Exception) -> str:
    """Return a refusal in a line."""
    from pylti1p3.exception import LtiServiceException

    if isinstance(error, LtiServiceException):
        return f"status {error.response.status_code} from {error.response.url}"
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]

"""Publishes feedback in nbgrader's exchange, where its *Fetch Feedback* looks for it.

nbgrader wants a page for each notebook of a hand-in, and only who knows the hand-in's secret finds
them: `feedback/` cannot be listed, and a page's name is a hash of the secret.
"""

import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from autograder.checking import words
from autograder.checking.words import Message, counted
from autograder.course import archive, deadlines
from autograder.course.config import Course, Exercise, edition_of
from autograder.course.deadlines import Deadlines
from autograder.course.text_files import read_text
from autograder.course.watch_settings import AFTER_DUE_DATE, REASONS, WatchSettings
from autograder.exchange.arrivals import HOUR
from autograder.exchange.state import HandInRow, HandInStore, State
from autograder.grades.reasons import moment
from autograder.grades.records import due_of
from autograder.grading.submissions import SECRET
from autograder.sanitize import text

FOLDER_MODE = 0o711
"""Of nbgrader's folder of published feedback: no one but its owner can list it."""
MOST_PAGES = 3
"""Hand-ins of a student and exercise whose pages stay as they are: a page can have many megabytes,
which count as the instructor's.
"""

TAKEN = "This is the hand-in of {time}."
SUPERSEDED = "You handed in a newer one before it was graded. The newer one has the feedback."
LIMITED = (
    "It was not graded: only {count} hand-ins of this exercise are graded, and you have used them. "
    "The last graded one counts."
)
REFUSED = "It was not taken: {reason}. Remove the cause, and submit again."
OLDER = (
    "It was graded, and its feedback was here. You have handed in newer ones since: fetch the "
    "feedback of these."
)
LATER = "It was graded. You can fetch the feedback after {due}, when the exercise is due."
NEXT_HOUR = (
    "It is not graded yet: at most {count} of your hand-ins are graded in an hour. It keeps the "
    "time at which you handed it in."
)
NO_PAGE = (
    "The page with its feedback could not be made, through our own fault. Ask your instructor."
)
PAGE = "The result changes if your course grades it again; then you can fetch it again."
NOTICES = {
    State.WAITING: NEXT_HOUR,
    State.SUPERSEDED: SUPERSEDED,
    State.LIMITED: LIMITED,
    State.REFUSED: REFUSED,
}
"""The sentence for each state in which a hand-in has no feedback page."""


@dataclass(frozen=True)
class Notice:
    """What a student can fetch: a sentence, and with `PAGE` the feedback page.

    `detail` is the date in the sentence, or what the page is made from.
    """

    text: str
    detail: str = ""

    @property
    def version(self) -> str:
        """A text that differs from that of any other notice of the same hand-in."""
        return f"{self.text} {self.detail}"


class Publisher:
    """Publishes the notice of each hand-in of a course.

    Parameters
    ----------
    course : Course
    folder : Path
        The exchange's folder of feedback. It is made if it does not exist, but the exchange's
        folder of the course is not.
    settings : WatchSettings
    hand_ins : HandInStore
    """

    def __init__(
        self, course: Course, folder: Path, settings: WatchSettings, hand_ins: HandInStore
    ):
        self.course, self.folder = course, folder
        self.settings, self.hand_ins = settings, hand_ins
        self.deadlines = Deadlines()
        self._dates_of = (0, 0)

    def publish(self, row: HandInRow) -> HandInRow:
        """Publish the notice of a hand-in, unless it is published already; return its row.

        Raises
        ------
        OSError
            If the exchange cannot be written. What was published before is still there then.
        """
        notice = self._notice(row) if row.secret else None
        if notice is None or notice.version == row.published:
            return row
        if notice.text == LATER:  # the due date was moved: earlier pages have points as well
            # Before its own: until that is written, all of this is done again.
            for each in self._graded_with(row, PAGE):
                self._put(each, notice)
        row = self._put(row, notice)
        if notice.text == PAGE:
            older = self._graded_with(row, PAGE)[:-MOST_PAGES]
            for each in older + self._graded_with(row, LATER):
                self._put(each, Notice(OLDER))
        return row

    def _graded_with(self, row: HandInRow, notice: str) -> list[HandInRow]:
        """Return the graded hand-ins of a row's work with this notice, the first ones first."""
        graded = self.hand_ins.of_work(row.work, State.GRADED)
        return [each for each in graded if each.published.startswith(notice)]

    def _put(self, row: HandInRow, notice: Notice) -> HandInRow:
        """Write the pages with a notice; return the row of the hand-in."""
        written: dict[str, str] = {}
        for name in self._published_notebooks(row):
            page = self._page(row, notice, edition_of(f"{name}.ipynb")[1])
            file = feedback_name(row.secret, name)
            self._write(file, page, same=written.get(page))
            written[page] = file
        return self.hand_ins.keep(replace(row, published=notice.version))

    def read_dates(self) -> None:
        """Read the due dates and extensions again if their file has changed."""
        try:
            # Before the file is read: a change in between then shows at the next look.
            state = deadlines.path_of(self.course).stat()
        except FileNotFoundError:
            self.deadlines, self._dates_of = Deadlines(), (0, 0)
            return
        if self._dates_of != (state.st_mtime_ns, state.st_size):
            self.deadlines = deadlines.read(self.course)
            self._dates_of = (state.st_mtime_ns, state.st_size)

    def _hidden_until(self, student: str, exercise: str) -> datetime | None:
        """Return the due date until which a student may not see feedback on an exercise; None if
        they may see it now.
        """
        if self.settings.shows != AFTER_DUE_DATE:  # spares reading records at each look
            return None
        due = due_of(self.course, self.deadlines, student, exercise)
        return due if due and due >= datetime.now(UTC) else None

    def _notice(self, row: HandInRow) -> Notice | None:
        """Return the notice of a hand-in as it should be now; None if there is none yet."""
        is_fault = row.state == State.WAITING and row.tries > 0  # the grader failed on it
        if row.state != State.GRADED and not is_fault:
            # Any other row that waits comes here only if the hourly limit holds it back: see
            # `HandInQueue.choose`.
            return Notice(NOTICES[row.state])
        paths = self.course.paths_of(row.student, row.exercise)
        try:
            state = paths.page.stat()
        except OSError:  # it is being made
            return None
        if read_text(paths.pages / SECRET) != row.secret:  # the page is of another hand-in
            # If the page of this hand-in was published before, then that copy stays.
            return None if row.published else Notice(SUPERSEDED)
        hidden_until = self._hidden_until(row.student, row.exercise)
        if hidden_until:
            return Notice(LATER, hidden_until.isoformat())
        return Notice(PAGE, f"{self.settings.shows} {state.st_mtime_ns} {state.st_size}")

    def _published_notebooks(self, row: HandInRow) -> list[str]:
        """Return the notebooks for which pages are published: the exercise's editions. If there is
        none, then it is the first notebook: a single one is graded under any name.
        """
        # `feedback_name` could not encode any other name.
        valid = [name for name in row.notebooks if name == text.valid(name)]
        editions = [name for name in valid if edition_of(f"{name}.ipynb")[0] == row.exercise]
        released = 1 + len(Exercise(row.exercise, self.course.root).editions)
        return editions[: max(released, 2)] or valid[:1]

    def _page(self, row: HandInRow, notice: Notice, edition: str) -> str:
        """Return a page; `edition` is the language in the notebook's name, for a short one."""
        from autograder.feedback import notice as notices  # which takes a second to load

        exercise = Exercise(row.exercise, self.course.root)
        if notice.text == PAGE:
            paths = self.course.paths_of(row.student, row.exercise)
            feedback = paths.page.read_text(encoding="utf-8", errors="replace")
            points = self.settings.shows != REASONS
            # A page without these marks, such as the bare one, cannot be shown without its points.
            if points or notices.HERE in feedback:
                with words.use(notices.language_of(feedback), archive.locales(exercise)):
                    return notices.with_notice(feedback, self._sentences(row, notice), points)
            notice = Notice(NO_PAGE)
        with words.use(edition, archive.locales(exercise)):
            return notices.notice_page(exercise, row.student, self._sentences(row, notice))

    def _sentences(self, row: HandInRow, notice: Notice) -> Iterator[Message]:
        """Yield what a page says of its hand-in."""
        settings = self.settings
        values: dict[str, dict[str, object]] = {
            LIMITED: {"count": settings.attempts},
            REFUSED: {"reason": row.note},
            LATER: {"due": moment(notice.detail) if notice.text == LATER else ""},
            NEXT_HOUR: {"count": settings.per_hour},
        }
        yield Message(TAKEN, time=self._moment(row.arrived))
        yield Message(notice.text, **values.get(notice.text, {}))
        if row.note and row.state == State.GRADED:
            yield Message(row.note)
        if row.state == State.GRADED:
            yield from self._limits(row)

    def _limits(self, row: HandInRow) -> Iterator[Message]:
        """Yield sentences on the limits of the course, and how much of them is left."""
        settings = self.settings
        if settings.attempts:
            used = self.hand_ins.count_attempts(row.student, row.exercise)
            yield counted(
                "{count} of {most} graded hand-ins of this exercise is left.",
                "{count} of {most} graded hand-ins of this exercise are left.",
                max(0, settings.attempts - used),
                most=settings.attempts,
            )
        if settings.per_hour:
            used = self.hand_ins.count_graded(row.student, time.time() - HOUR)
            yield counted(
                "At most {most} of your hand-ins are graded in an hour; {count} is left.",
                "At most {most} of your hand-ins are graded in an hour; {count} are left.",
                max(0, settings.per_hour - used),
                most=settings.per_hour,
            )

    def _moment(self, when: float) -> str:
        # `Deadlines` keeps the file's time zone only as that of its dates.
        zone = next((date.tzinfo for date in self.deadlines.due.values()), UTC)
        return moment(datetime.fromtimestamp(when, zone).isoformat(timespec="seconds"))

    def _write(self, name: str, page: str, same: str | None = None) -> None:
        """Write a page, all or nothing, which everyone who knows its name can read.

        `same` is the name of another page that has just been written with the same text, such as
        that of another edition: it is written once, and has both names.
        """
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(mode=FOLDER_MODE)
            # Only of a folder made here: nbgrader's own mode, or one that was chosen, stays.
            self.folder.chmod(FOLDER_MODE)  # the umask may have taken something away
        path = self.folder / f"{name}.html"
        building = self.folder / f"{name}-tmp.html"  # as nbgrader names it
        try:
            if not (same and _is_linked(building, self.folder / f"{same}.html")):
                with building.open("w", encoding="utf-8", errors="replace") as file:
                    file.write(page)
                    os.fchmod(file.fileno(), 0o644)
            building.replace(path)
        except OSError:
            building.unlink(missing_ok=True)
            raise


def _is_linked(path: Path, same: Path) -> bool:
    """Make `path` another name of a file; tell whether the file system could do that."""
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        path.hardlink_to(same)
        return True
    return False


@functools.lru_cache(1000)
def feedback_name(secret: str, notebook: str) -> str:
    """Return the name of a notebook's published feedback, as nbgrader makes it, without `.html`."""
    return hashlib.md5((secret + notebook).encode(), usedforsecurity=False).hexdigest()

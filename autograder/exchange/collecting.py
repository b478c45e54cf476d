"""`collect exchange`: takes the newest hand-in of each student safely, without grading it."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.course import locks
from autograder.course.config import Course, UserError
from autograder.course.limits import Limits
from autograder.course.watch_settings import WatchSettings
from autograder.exchange import inbound
from autograder.exchange.delays import is_general
from autograder.exchange.hand_in_folders import HandInFolders
from autograder.exchange.inbound import Entry, HandIn, HandInRefused, Unfinished, Unreadable
from autograder.exchange.watch import LOCK
from autograder.sanitize import text

MOST_TRIED = 5
"""Hand-ins of a student and exercise that are read until one is not refused, the newest first."""


@dataclass
class Collected:
    """What became of the hand-ins in an exchange.

    `written` has those that are in `submitted/` now, `unchanged` counts students and exercises of
    which that was there or a newer one is, and `refused` has the name and the reason of each that
    was not taken.
    """

    written: list[Entry] = field(default_factory=list)
    unchanged: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)


def collect(course: Course, exchange: Path, submitted: Path, exercise: str = "") -> Collected:
    """Copy the newest complete hand-in of each student and exercise to `submitted`.

    Parameters
    ----------
    course : Course
    exchange : Path
        The course's folder in the exchange.
    submitted : Path
    exercise : str
        The only one to collect; "" for all.

    Raises
    ------
    UserError
        If the exchange has no hand-ins, or a watch is running, which takes them itself.
    """
    collected, folders = Collected(), HandInFolders(submitted)
    known = {each.name: each for each in course.exercises([exercise] if exercise else [])}
    limits = Limits.configured(course.config)
    check_owner = WatchSettings.configured(course.config).check_owner
    owner_of = inbound.user_name if check_owner else None
    inbound_folder = exchange / "inbound"
    if not inbound_folder.is_dir():
        raise UserError(
            f"There is no folder {inbound_folder}. Release an exercise first: nbgrader "
            "release_assignment; or name another exchange in c.Exchange.root."
        )
    with (
        # `_refuse` raises, so this does not wait for the watch to end.
        locks.lock(course.output_folder / LOCK, _refuse),
        inbound.opened(inbound_folder) as folder,
    ):
        for entries in _newest_first(folder, collected):
            wanted = [entry for entry in entries if entry.exercise in known]
            for entry in wanted[:MOST_TRIED]:
                settings = known[entry.exercise].settings
                limit = replace(limits, **settings.limits)
                try:
                    hand_in = inbound.read(folder, entry, limit, owner_of)
                    _write(hand_in, folders, collected)
                except Unreadable as error:
                    # An older one must not count in its place.
                    collected.refused.append((entry.name, str(error)))
                except Exception as error:  # one that fails keeps no other from being taken
                    collected.refused.append((entry.name, _reason(error)))
                    continue
                break
    return collected


def _newest_first(folder: int, collected: Collected) -> list[list[Entry]]:
    """Return the complete hand-ins of each student and exercise, those that arrived last first.

    Those of another system user come apart: they may be refused, and must not use up the tries.
    Where a disk fails, none is returned: the newest is not known.
    """
    by_work: dict[tuple[str, str, int], list[tuple[float, Entry]]] = defaultdict(list)
    unreadable = set()
    for name in sorted(inbound.names_in(folder)):
        try:
            entry = Entry.parse(name)
            state = inbound.stat_of(folder, name)
        except Unreadable as error:
            unreadable.add((entry.student, entry.exercise))
            collected.refused.append((name, str(error)))
            continue
        except Exception as error:  # any user can make an entry with any name
            collected.refused.append((name, _reason(error)))
            continue
        by_work[entry.student, entry.exercise, state.st_uid].append((state.st_ctime, entry))
    return [
        [entry for _, entry in sorted(entries, key=lambda each: each[0], reverse=True)]
        for (student, exercise, _), entries in by_work.items()
        if (student, exercise) not in unreadable
    ]


def _write(hand_in: HandIn, folders: HandInFolders, collected: Collected) -> None:
    student, exercise = hand_in.entry.student, hand_in.entry.exercise
    present = folders.secret_of(student, exercise)
    # The same secret is the same hand-in: each `submit` of nbgrader makes a new one.
    is_there = bool(hand_in.secret) and hand_in.secret == present
    if is_there or folders.is_newer(student, exercise, hand_in.secret, hand_in.submitted):
        collected.unchanged += 1
        return
    folders.write(hand_in)
    folders.place(hand_in.entry.key, student, exercise)
    collected.written.append(hand_in.entry)


def _reason(error: Exception) -> str:
    """Return why one hand-in was not taken; raise what would meet all others as well."""
    if isinstance(error, HandInRefused | Unfinished):
        return str(error)
    if is_general(error):
        raise error
    return text.line(f"{type(error).__name__}: {error}", 200)


def _refuse(holder: str) -> None:
    raise UserError(
        f"A watch runs for this course, and takes hand-ins by itself: {holder}. To collect them "
        "with this command, end it first."
    )

"""Hand-ins in nbgrader's exchange, copied safely: nothing that a student writes there is trusted.

nbgrader's `submit` makes a folder `inbound/STUDENT+EXERCISE+TIME+RANDOM`, and as its last step
gives it the mode 0777. Any user of the machine can make such a folder, under any name and with
anything in it. Therefore the folder must belong to the user whose name it has. Its files are opened
through handles of their folders, never through links, and must be regular files of the same user.
The time of arrival is the kernel's, not the one that the name has.
"""

import contextlib
import errno
import itertools
import os
import pwd
import re
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dateutil import parser

from autograder.course.config import STAMP
from autograder.course.limits import Limits
from autograder.grading.submissions import (
    MOST_DEPTH,
    MOST_FILES,
    NOTEBOOK,
    OURS,
    PASSED_OVER,
    SECRET,
    is_notebook,
)
from autograder.sanitize import text

NAME = re.compile(
    # The last part is 9 random bytes in base64; `c.ExchangeSubmit.add_random_string` may leave it
    # out.
    r"(?P<student>.+)\+(?P<exercise>[^+]+)\+(?P<time>\d{4}-\d\d-\d\d[^+]*)(?:\+[\w-]{12})?"
)
LOOKS_LIKE_HAND_IN = re.compile(r"\+\d{4}-\d\d-\d\d[^+]*(?:\+[\w-]{12})?\Z")
"""A first look at a name, which takes no longer than the name is."""
COMPLETE = 0o777
"""The mode of a folder to which nbgrader's `submit` writes nothing more."""
IS_SECRET = re.compile(r"[0-9a-f]{128}")
OF_THE_MACHINE = (
    errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ENODEV, errno.ENOTCONN,
)  # fmt: skip
"""Errors that no student's files cause."""
MOST_SKEW = timedelta(minutes=1)
"""By how much the time in a name may differ from the time of arrival to be taken as right, and by
how much any time may be later than now: beyond that, a clock was wrong.
"""
MOST_LISTED = 5_000
"""Entries of a hand-in, in all its folders."""
MOST_NOTEBOOKS = 20
MOST_SECRET = 1_000
MOST_PATH, MOST_COMPONENT = 1_000, 140
"""Bytes of a file's path and of each name in it: a copy, which lies deeper, can have them too."""
CHUNK = 1 << 20
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe would wait for someone who writes to it.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
LEFT_OUT = (
    "the files next to the notebook were left out: they exceed {most} MB, or are over {count}"
)


class HandInRefused(Exception):
    """A hand-in that will never be taken; the text is the reason.

    If it is the student's own, `secret` and `notebooks` say where the reason can be published, as
    in `HandIn`.
    """

    secret: str = ""
    notebooks: Sequence[str] = ()


class Unreadable(Exception):
    """A hand-in that a disk or the machine does not let anyone read now; it is tried again."""


class Unfinished(Exception):
    """A hand-in that is still being written; the text says what is missing."""


@dataclass(frozen=True)
class Entry:
    """The name of a hand-in's folder, which says whose it is, of which exercise, and when."""

    name: str
    student: str
    exercise: str
    time: datetime | None

    @property
    def key(self) -> str:
        """The name as text that any database and log can have."""
        return key_of(self.name)

    @classmethod
    def parse(cls, name: str) -> "Entry":
        """Return the entry of this name.

        Raises
        ------
        HandInRefused
            If nbgrader's `submit` does not make such a name.
        """
        parts = NAME.fullmatch(name)
        if not parts:
            raise HandInRefused("its name is not STUDENT+EXERCISE+TIME")
        student = parts["student"]
        if unfit := text.unfit(student):
            raise HandInRefused(f"the student's name {unfit}")
        return cls(name, student, parts["exercise"], _time_of(parts["time"]))


def key_of(name: str) -> str:
    """Return the name of a hand-in's folder as valid text, which no other name has: bytes that are
    no UTF-8, control codes and `%` are written as `%` and hex digits.
    """
    return text.name(name.replace("%", "%25"))


def looks_like_hand_in(name: str) -> bool:
    """Tell whether a name ends in a time, as that of each hand-in does."""
    return bool(LOOKS_LIKE_HAND_IN.search(name))


def _time_of(written: str) -> datetime | None:
    try:
        with warnings.catch_warnings(action="ignore"):  # of time zones that dateutil does not know
            time: datetime = parser.parse(written[:100])
        zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
        return zoned.astimezone(UTC)  # which some time zones and years do not permit
    except Exception:  # dateutil has many ways to fail on a text that is not a date
        return None


@dataclass
class HandIn:
    """A hand-in that was read completely.

    Attributes
    ----------
    entry : Entry
    arrived : datetime
        When it was complete, by the clock of the exchange's file system.
    files : dict
        The contents of its files, by relative path: notebooks at the top, and the files next to
        them.
    secret : str
        What its feedback is filed under, 128 hexadecimal digits; "" if it has no proper one.
    note : str
        What was left out, if anything.
    modified : dict
        When each file was last changed, in nanoseconds since 1970: of two notebooks, the one that
        was saved last is graded.
    entries : int
        How many files and folders it has, with those that were left out.
    """

    entry: Entry
    arrived: datetime
    files: dict[str, bytes] = field(default_factory=dict)
    secret: str = ""
    note: str = ""
    modified: dict[str, int] = field(default_factory=dict)
    entries: int = 0

    @property
    def submitted(self) -> datetime:
        """When it counts as submitted: the time in its name if that is plausible, else its
        arrival.
        """
        time = self.entry.time
        is_plausible = time is not None and abs(time - self.arrived) <= MOST_SKEW
        return time if time is not None and is_plausible else self.arrived

    @property
    def notebooks(self) -> list[str]:
        """The names of its notebooks without `.ipynb`: nbgrader looks for feedback on each."""
        return _notebook_names(path for path in self.files if "/" not in path)

    def write(self, folder: Path, stamp_format: str) -> None:
        """Write its files into a new folder, with its time and its secret, as nbgrader has them.

        Only the user of this process can read them.
        """
        folder.mkdir(mode=0o700)
        contents = dict(self.files)
        contents[STAMP] = self.submitted.astimezone(UTC).strftime(stamp_format).encode()
        if self.secret:
            contents[SECRET] = self.secret.encode()
        for relative, data in contents.items():
            path = folder / relative
            for parent in reversed(path.relative_to(folder).parents):
                (folder / parent).mkdir(mode=0o700, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                if relative in (STAMP, SECRET) or is_notebook(relative):
                    # The database says that it is there, even after a power failure.
                    file.flush()
                    os.fsync(file.fileno())
            if relative in self.modified:
                os.utime(path, ns=(self.modified[relative], self.modified[relative]))


def _notebook_names(names: Iterable[str]) -> list[str]:
    """Return the names of the notebooks among these files, without `.ipynb`, in order."""
    # nbgrader's *Fetch Feedback* looks for `.ipynb` alone, not for the other endings of a notebook.
    notebooks = [name for name in names if name.endswith(".ipynb") and is_notebook(name)]
    valid = [name for name in notebooks if name == text.valid(name)]
    return [name.removesuffix(".ipynb") for name in sorted(valid)]


def user_name(uid: int) -> str:
    """Return the name of a system user; "" if there is none of this number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


@contextlib.contextmanager
def opened(inbound: Path) -> Iterator[int]:
    """Open the folder of hand-ins, for the functions below.

    Raises
    ------
    OSError
        If it is not there, or cannot be read.
    """
    # No O_NOFOLLOW: this folder is the course's own, which `check_owners` has looked at.
    descriptor = os.open(inbound, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names_in(inbound: int) -> list[str]:
    """Return the names of all hand-ins, complete or not."""
    with os.scandir(inbound) as entries:
        return [entry.name for entry in entries]


def stat_of(inbound: int, name: str) -> os.stat_result:
    """Return what the system says of a complete hand-in's folder.

    Raises
    ------
    HandInRefused
        If it is not a folder.
    Unfinished
        If it is not complete.
    Unreadable
        If a disk or the machine fails.
    """
    try:
        state = os.stat(name, dir_fd=inbound, follow_symlinks=False)
    except FileNotFoundError:
        raise Unfinished("it was removed") from None
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from None
    if not stat.S_ISDIR(state.st_mode):
        raise HandInRefused(f"it is {_kind(state)}, not a folder")
    if not is_complete(state):
        raise Unfinished("it was not completed")
    return state


def is_complete(state: os.stat_result) -> bool:
    """Tell from the state of a hand-in's folder whether nothing more is written to it."""
    return state.st_mode & 0o777 == COMPLETE


def read(
    inbound: int, entry: Entry, limits: Limits, owner_of: Callable[[int], str] | None = user_name
) -> HandIn:
    """Return a hand-in, read through handles of its folders.

    Parameters
    ----------
    inbound : int
        The descriptor of the folder of hand-ins.
    entry : Entry
    limits : Limits
        How large notebooks and other files may be.
    owner_of : callable or None
        Returns the name of a system user. None does not compare the owner's name.

    Raises
    ------
    HandInRefused
        If it is not the student's, or has something in it that is no regular file of theirs.
    Unfinished
        If it is not complete, or changes while it is read.
    Unreadable
        If a disk or the machine fails.
    """
    before = stat_of(inbound, entry.name)
    if owner_of and (owner := owner_of(before.st_uid)) != entry.student:
        raise HandInRefused(
            f"it belongs to {owner or f'user {before.st_uid}'}, not to {entry.student}"
        )
    try:
        folder = os.open(entry.name, FOLDER, dir_fd=inbound)
    except OSError as error:
        raise _refusal(error, "it") from None
    try:
        # Between the two looks, another folder may have come under this name.
        if not _is_same(before, os.fstat(folder)):
            raise Unfinished("it changes while it is read")
        reader = _Reader(limits, before.st_uid)
        try:
            reader.read_folder(folder)
            if not reader.notebooks:
                raise HandInRefused("it has no notebook")
        except HandInRefused as error:
            # Only here, after the owner was compared: no one else may decide where a page is
            # published.
            error.secret, error.notebooks = reader.feedback_target(folder)
            raise
        after = os.fstat(folder)
    except OSError as error:  # such as a file that was removed
        raise _refusal(error, "it") from None
    finally:
        os.close(folder)
    if not _is_same(before, after):
        raise Unfinished("it changes while it is read")
    files = {**reader.notebooks, **reader.others}
    # The folder's ctime is not enough: its user can still write to a file in it. No user can set a
    # ctime.
    arrived = datetime.fromtimestamp(max(after.st_ctime_ns, reader.latest_ctime) / 1e9, UTC)
    latest = int(arrived.timestamp() * 1e9)  # times of the future, or before 1970, are not real
    modified = {path: min(max(time, 0), latest) for path, time in reader.modified.items()}
    return HandIn(
        entry, arrived, files, reader.secret, reader.note, modified, entries=reader.entry_count
    )


class _Reader:
    """Reads the files of one hand-in, which all belong to one user."""

    def __init__(self, limits: Limits, uid: int):
        self.limits, self.uid = limits, uid
        self.notebooks: dict[str, bytes] = {}
        self.others: dict[str, bytes] = {}
        self.secret = ""
        self.note = ""
        self.modified: dict[str, int] = {}
        self.latest_ctime = 0
        self.entry_count = 0
        self.notebook_bytes = self.limits.notebook_mb * 1_000_000 * 2
        self.other_bytes = self.limits.beside_mb * 1_000_000

    def read_folder(self, folder: int, relative: str = "") -> None:
        """Read the files of an open folder, and of those in it."""
        for name in sorted(self._names(folder)):
            path = relative + name
            if path in OURS or name in PASSED_OVER:
                continue
            state = os.stat(name, dir_fd=folder, follow_symlinks=False)
            self._check(state, path)
            if stat.S_ISDIR(state.st_mode):
                self._enter(folder, name, path, state)
            elif path == SECRET:
                self.secret = self._secret(folder)
            elif not relative and is_notebook(name):
                self._take_notebook(folder, name)
            elif not NOTEBOOK.search(name):
                self._take_other(folder, name, path, state.st_size)

    def feedback_target(self, folder: int) -> tuple[str, list[str]]:
        """Return under which secret, and for which notebooks, the reason of a refusal can be
        published, as far as the hand-in has them.

        Its secret may come after what it is refused for.
        """
        with contextlib.suppress(OSError, HandInRefused, Unfinished):
            self.secret = self.secret or self._secret(folder)
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, MOST_LISTED)]
        return self.secret, _notebook_names(names)[:MOST_NOTEBOOKS]

    def _secret(self, folder: int) -> str:
        data = self._contents(folder, SECRET, SECRET, MOST_SECRET).decode("ascii", "replace")
        return data if IS_SECRET.fullmatch(data) else ""

    def _names(self, folder: int) -> list[str]:
        names = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self.entry_count += 1
                if self.entry_count > MOST_LISTED:
                    raise HandInRefused(f"it has more than {MOST_LISTED} files")
                names.append(entry.name)
        return names

    def _check(self, state: os.stat_result, path: str) -> None:
        """Refuse all but folders and regular files of the hand-in's user."""
        shown = text.line(text.name(path), 100)
        is_folder = stat.S_ISDIR(state.st_mode)
        if not (is_folder or stat.S_ISREG(state.st_mode)):
            raise HandInRefused(f"{shown} is {_kind(state)}")
        if state.st_uid != self.uid:
            raise HandInRefused(f"{shown} belongs to another user")
        # Any user may write to a complete folder, and could link another file of this student into
        # it.
        if not is_folder and state.st_nlink != 1:
            raise HandInRefused(f"{shown} is a hard link to another file")

    def _enter(self, folder: int, name: str, path: str, state: os.stat_result) -> None:
        if path.count("/") >= MOST_DEPTH or _is_too_long(name, path):
            self._leave_out()
            return
        try:
            below = os.open(name, FOLDER, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, text.line(text.name(path), 100)) from None
        try:
            before = os.fstat(below)
            self.read_folder(below, f"{path}/")
            after = os.fstat(below)
        finally:
            os.close(below)
        if not (_is_same(state, before) and _is_same(before, after)):
            raise Unfinished(f"{text.line(text.name(path), 100)} changes while it is read")
        # Names can carry an answer: whoever renames or removes something in a folder hands in then.
        self.latest_ctime = max(self.latest_ctime, after.st_ctime_ns)

    def _take_notebook(self, folder: int, name: str) -> None:
        if _is_too_long(name, name):
            shown = text.line(text.name(name), 100)
            raise HandInRefused(f"{shown}: the name is longer than {MOST_COMPONENT} bytes")
        if len(self.notebooks) >= MOST_NOTEBOOKS:
            raise HandInRefused(f"it has more than {MOST_NOTEBOOKS} notebooks")
        most = min(self.notebook_bytes, self.limits.notebook_mb * 1_000_000)
        self.notebooks[name] = self._contents(folder, name, name, most)
        self.notebook_bytes -= len(self.notebooks[name])

    def _take_other(self, folder: int, name: str, path: str, size: int) -> None:
        if self.leaves_out:
            return
        is_too_much = size > self.other_bytes or len(self.others) >= MOST_FILES
        if is_too_much or _is_too_long(name, path):
            self._leave_out()
            return
        self.others[path] = self._contents(folder, name, path, self.other_bytes)
        self.other_bytes -= len(self.others[path])

    @property
    def leaves_out(self) -> bool:
        """Whether the files next to the notebook are left out: `note` says so."""
        return bool(self.note)

    def _leave_out(self) -> None:
        # All or nothing, as when `grade` reads a submission's folder.
        self.others.clear()
        self.note = LEFT_OUT.format(most=self.limits.beside_mb, count=MOST_FILES)

    def _contents(self, folder: int, name: str, path: str, most: int) -> bytes:
        """Return the bytes of a file, of which there may be at most so many."""
        shown = text.line(text.name(path), 100)
        try:
            descriptor = os.open(name, FILE, dir_fd=folder)
        except OSError as error:
            raise _refusal(error, shown) from None
        with open(descriptor, "rb", buffering=0) as file:
            # Again, and of what is open: the name may lead to another file than when `read_folder`
            # looked.
            before = os.fstat(descriptor)
            self._check(before, path)
            # The size is counted, not asked for: the file can grow while it is read.
            parts: list[bytes] = []
            size = 0
            while part := file.read(CHUNK):
                parts.append(part)
                size += len(part)
                if size > most:
                    raise HandInRefused(f"{shown} has more than {most / 1e6:g} MB")
            after = os.fstat(descriptor)
        if not _is_same(before, after) or after.st_size != size:
            raise Unfinished(f"{shown} changes while it is read")
        self.latest_ctime = max(self.latest_ctime, after.st_ctime_ns)
        self.modified[path] = after.st_mtime_ns
        return b"".join(parts)


def _is_too_long(name: str, path: str) -> bool:
    """Tell whether a copy of a file could have a path that the system does not permit."""
    return len(os.fsencode(name)) > MOST_COMPONENT or len(os.fsencode(path)) > MOST_PATH


def _is_same(before: os.stat_result, after: os.stat_result) -> bool:
    """Tell whether two looks at a file or folder found the same one, unchanged."""
    names = ("st_dev", "st_ino", "st_mode", "st_uid", "st_nlink", "st_mtime_ns", "st_ctime_ns")
    return all(getattr(before, name) == getattr(after, name) for name in names)


def _refusal(error: OSError, shown: str) -> Exception:
    """Return why something could not be read: for good, while it is still written, or until a disk
    or the machine is well again.
    """
    if error.errno in OF_THE_MACHINE:
        return Unreadable(f"{shown} cannot be read: {error.strerror}")
    # A link, no folder, a socket: `read_folder` saw something else under this name just before.
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
        return HandInRefused(f"{shown} was replaced while it was read")
    if error.errno == errno.EACCES:
        return HandInRefused(f"{shown} cannot be read: its permissions do not allow it")
    return Unfinished(f"{shown} cannot be read: {error.strerror}")


def _kind(state: os.stat_result) -> str:
    return KINDS.get(stat.S_IFMT(state.st_mode), "a file")

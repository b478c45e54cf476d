"""What an archive or a folder holds, as data: listed and bounded before any of it is read, and never unpacked.

An archive that a school's system made holds nothing odd; if it does, it is refused whole, in one line. Within it lie
zips that students made: what is wrong with one of these is that student's, and the rest is taken.
"""

import contextlib
import io
import lzma
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from autograder import archive
from autograder.config import UserError
from autograder.grading.submissions import read_file
from autograder.sanitize import text

MOST_ENTRIES = 50_000
"""Files of one archive: a thousand students with fifty each."""
MOST_MB = 5_000
"""What an archive unpacks to: a thousand students with 5 MB each."""
MOST_ENTRIES_OF_ONE = 1_000
"""Files in a zip that one student handed in; grading reads no more beside a notebook."""
MOST_MB_OF_ONE = 70
"""What one student's zip has and unpacks to: the largest notebook that is graded, and files beside it."""
MOST_PATH = 1_000
"""Letters of a path; systems take no more, and patterns of paths need time that grows with them."""
MOST_DEPTH = 20
"""Folders in folders; grading looks no deeper."""

IGNORED = re.compile(r"(^|/)(__MACOSX|__pycache__|\.[^/]*|desktop\.ini|Thumbs\.db)(/|$)", re.IGNORECASE)
"""What systems and Jupyter leave behind, and no student hands in."""

BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
    EOFError, OSError, OverflowError, RuntimeError, ValueError,
)  # fmt: skip
"""What `zipfile` raises for what is no zip, is cut off, or is packed in a way that it does not know."""

_CENTRAL = b"PK\x01\x02"  # stands before each entry in a zip's list of them


class Refused(Exception):
    """Why an archive, or a file of it, is not taken; to stand behind its name."""


@dataclass(frozen=True)
class File:
    """One file of what was handed over.

    Attributes
    ----------
    path : str
        Where it lies, as text with slashes; a zip within counts as a folder.
    time : datetime or None
        The time that it has there, with this machine's zone; None if it has none.
    read : callable
        Takes the most bytes that are wanted, and returns what is in it.

        Raises `Refused` if there is more, or if it cannot be read.
    """

    path: str
    time: datetime | None
    read: Callable[[int], bytes] = field(repr=False)


@dataclass(frozen=True)
class Source:
    """An archive or folder: its files, and what of it is not taken with the reason."""

    name: str
    files: list[File]
    refused: list[tuple[str, str]]


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """Open an archive or a folder; its files can be read until it is closed.

    Raises
    ------
    UserError
        If it is neither, or holds what no school's system puts there.
    """
    name = text.line(text.name(path.name or str(path)), 200)
    if path.is_dir():
        yield _with_zips(name, *_of_folder(path))
        return
    if not path.exists():
        raise UserError(f"There is no {path}. Name the folder or the zip that you downloaded.")
    with contextlib.ExitStack() as held:
        try:
            with _as_refused():
                opened_zip = held.enter_context(zipfile.ZipFile(path))
            source = _with_zips(name, _of_zip(opened_zip, MOST_ENTRIES, MOST_MB), [])
        except Refused as error:
            raise UserError(f"{path} {error}. Nothing was taken; download it again, or name a folder.") from None
        yield source


def _with_zips(name: str, files: list[File], refused: list[tuple[str, str]]) -> Source:
    """Return a source with the zips that students handed in opened, one level deep."""
    found: list[File] = []
    for file in files:
        base = file.path.rpartition("/")[2]
        if not base.lower().endswith(".zip") or base == archive.NAME:
            found.append(file)
            continue
        try:
            found += _inside(file)
        except Refused as error:
            refused.append((file.path, str(error)))
    return Source(name, found, refused)


def _inside(outer: File) -> list[File]:
    """Return the files of a student's zip; each is read from it anew, so that none is kept."""

    def zipped() -> zipfile.ZipFile:
        data = outer.read(MOST_MB_OF_ONE * 1_000_000)
        if data.count(_CENTRAL) > MOST_ENTRIES_OF_ONE:  # before zipfile makes an object of each
            raise Refused(f"holds more than {MOST_ENTRIES_OF_ONE} files")
        return zipfile.ZipFile(io.BytesIO(data))

    def reading(path: str) -> Callable[[int], bytes]:
        def read(most: int) -> bytes:
            with _as_refused(), zipped() as again:
                listed = _of_zip(again, MOST_ENTRIES_OF_ONE, MOST_MB_OF_ONE)
                return next(file for file in listed if file.path == path).read(most)

        return read

    with _as_refused(), zipped() as opened_zip:
        listed = _of_zip(opened_zip, MOST_ENTRIES_OF_ONE, MOST_MB_OF_ONE)
        return [File(f"{outer.path}/{file.path}", file.time, reading(file.path)) for file in listed]


@contextmanager
def _as_refused() -> Iterator[None]:
    try:
        yield
    except BROKEN as error:
        raise Refused(f"cannot be unpacked: {text.line(str(error), 200) or type(error).__name__}") from None


def _of_zip(opened_zip: zipfile.ZipFile, most_entries: int, most_mb: int) -> list[File]:
    """Return the files of a zip.

    Raises
    ------
    Refused
        If one of them has no business in a zip, whatever else is in it.
    """
    entries = opened_zip.infolist()
    if len(entries) > most_entries:
        raise Refused(f"holds {len(entries)} files; {most_entries} is the most")
    size = sum(entry.file_size for entry in entries)
    if size > most_mb * 1_000_000:
        raise Refused(f"unpacks to {size / 1e6:.0f} MB; {most_mb} MB is the most")
    found: dict[str, File] = {}
    for entry in entries:
        path = _path(entry)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Refused(f"holds a link or device, {path}")
        if path.endswith("/") or IGNORED.search(path):
            continue
        if entry.flag_bits & 1:
            raise Refused(f"is encrypted ({path}): unpack it with its password and name the folder")
        if path in found:
            raise Refused(f"holds two files named {path}")
        found[path] = File(path, _when(entry.date_time), _reading(opened_zip, entry))
    return list(found.values())


def _path(entry: zipfile.ZipInfo) -> str:
    """Return where a file of a zip lies, as text with slashes.

    Raises
    ------
    Refused
        If that is outside of the zip, or too deep.
    """
    raw = entry.orig_filename
    if not entry.flag_bits & 0x800:  # not said to be UTF-8, and read as cp437: it mostly is UTF-8 all the same
        with contextlib.suppress(UnicodeError):
            raw = raw.encode("cp437").decode("utf-8")
    raw = raw.replace("\\", "/")  # some of Windows' programs write these
    shown = text.line(text.name(raw), 200)
    parts = raw.rstrip("/").split("/")
    if raw.startswith("/") or re.match(r"[A-Za-z]:", raw) or ".." in parts:
        raise Refused(f"holds a file that would lie outside of it, {shown}")
    if "\0" in raw:
        raise Refused(f"holds a file with a zero byte in its name, {shown}")
    if len(raw) > MOST_PATH:
        raise Refused(f"holds a path of more than {MOST_PATH} letters, {shown}")
    if len(parts) > MOST_DEPTH:
        raise Refused(f"holds more than {MOST_DEPTH} folders in one another, {shown}")
    return "/".join(text.name(part) for part in parts if part not in ("", ".")) + ("/" if raw.endswith("/") else "")


def _reading(opened_zip: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        if entry.file_size > most:
            raise Refused(f"has {entry.file_size / 1e6:.0f} MB; {most / 1e6:g} MB is the most")
        with _as_refused(), opened_zip.open(entry) as file:
            return file.read()  # which is no more than the list of the zip says

    return read


def _when(stamp: tuple[int, ...]) -> datetime | None:
    try:
        return datetime(*stamp).astimezone()  # type: ignore[arg-type]  # six numbers
    except (ValueError, OverflowError, OSError):
        return None


def _of_folder(folder: Path) -> tuple[list[File], list[tuple[str, str]]]:
    """Return the files below a folder, in a fixed order, and what of it is not taken."""
    files: list[File] = []
    refused: list[tuple[str, str]] = []
    waiting = [""]
    while waiting:
        relative = waiting.pop()
        for entry in sorted(os.scandir(folder / relative), key=lambda entry: entry.name):
            raw = relative + entry.name
            path = text.name(raw)
            if IGNORED.search(path):
                continue
            kind = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(kind.st_mode):
                if raw.count("/") >= MOST_DEPTH:
                    refused.append((path, f"lies more than {MOST_DEPTH} folders deep"))
                else:
                    waiting.append(f"{raw}/")
            elif not stat.S_ISREG(kind.st_mode):
                refused.append((path, "is a link or device"))
            elif len(files) >= MOST_ENTRIES:
                raise UserError(
                    f"{folder} holds more than {MOST_ENTRIES} files. Name a folder with submissions alone."
                )
            else:
                files.append(
                    File(path, datetime.fromtimestamp(kind.st_mtime).astimezone(), _reading_path(folder / raw))
                )
    return files, refused


def _reading_path(path: Path) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        data, problem = read_file(path, most / 1e6)
        if data is None:
            raise Refused(f"cannot be read: {problem}")
        return data

    return read

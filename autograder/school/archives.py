"""The contents of an archive or a folder, as data: listed and limited before any of it is read, and never unpacked.

An archive made by a learning platform has nothing unusual. An archive that has is refused as a whole, with one line.
It may have zip files that students made: a problem in one of these affects only that student.
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

from autograder.course import archive
from autograder.course.config import UserError
from autograder.grading.submissions import read_file
from autograder.sanitize import text

MOST_ENTRIES = 50_000
"""Files in one archive: a thousand students with fifty files each."""
MOST_MB = 5_000
"""Unpacked size of an archive: a thousand students with 5 MB each."""
MOST_ENTRIES_OF_ONE = 1_000
"""Files in one student's zip file; grading reads no more files next to a notebook."""
MOST_MB_OF_ONE = 70
"""Size of one student's zip file, packed and unpacked: the largest notebook that is graded, and files next to it."""
MOST_PATH = 1_000
"""Characters of a path: systems accept no more, and the time to match a pattern grows with the length."""
MOST_DEPTH = 20
"""Nested folders; grading looks no deeper."""

IGNORED = re.compile(r"(^|/)(__MACOSX|__pycache__|\.[^/]*|desktop\.ini|Thumbs\.db)(/|$)", re.IGNORECASE)
"""Files that operating systems and Jupyter make, and that are not part of a submission."""

BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
    EOFError, OSError, OverflowError, RuntimeError, ValueError,
)  # fmt: skip
"""The errors that `zipfile` raises for a file that is not a zip, is cut off, or uses an unknown compression."""

_CENTRAL = b"PK\x01\x02"  # precedes each entry in a zip's list of entries


class Refused(Exception):
    """An archive, or a file in it, is refused; the text is the reason, and is shown after the file's name."""


@dataclass(frozen=True)
class File:
    """One file of an archive or folder.

    Attributes
    ----------
    path : str
        Its path, as text with slashes; a nested zip counts as a folder.
    time : datetime or None
        Its time there, in this machine's time zone; None if it has none.
    read : callable
        Takes the maximal number of bytes, and returns the contents.

        Raises `Refused` if there is more, or if it cannot be read.
    """

    path: str
    time: datetime | None
    read: Callable[[int], bytes] = field(repr=False)


@dataclass(frozen=True)
class Source:
    """An archive or folder: its files, and those that are refused, with the reason."""

    name: str
    files: list[File]
    refused: list[tuple[str, str]]


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """Open an archive or a folder; its files can be read until it is closed.

    Raises
    ------
    UserError
        If it is neither, or if it contains something that no learning platform puts there.
    """
    name = text.line(text.name(path.name or str(path)), 200)
    if path.is_dir():
        yield _with_zips(name, *_of_folder(path))
        return
    if not path.exists():
        raise UserError(f"{path} does not exist. Name the folder or the zip file that you downloaded.")
    with contextlib.ExitStack() as held:
        try:
            with _as_refused():
                opened_zip = held.enter_context(zipfile.ZipFile(path))
            source = _with_zips(name, _of_zip(opened_zip, MOST_ENTRIES, MOST_MB), [])
        except Refused as error:
            raise UserError(f"{path} {error}. Nothing was collected; download it again, or name a folder.") from None
        yield source


def _with_zips(name: str, files: list[File], refused: list[tuple[str, str]]) -> Source:
    """Return a source with students' zip files opened, one level deep."""
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
    """Return the files of a student's zip; each is read from it when needed, so that none is kept in memory."""

    def zipped() -> zipfile.ZipFile:
        data = outer.read(MOST_MB_OF_ONE * 1_000_000)
        if data.count(_CENTRAL) > MOST_ENTRIES_OF_ONE:  # before zipfile makes an object of each
            raise Refused(f"has more than {MOST_ENTRIES_OF_ONE} files")
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
        If one of them does not belong in a zip; then the whole zip is refused.
    """
    entries = opened_zip.infolist()
    if len(entries) > most_entries:
        raise Refused(f"has {len(entries)} files; at most {most_entries} are allowed")
    size = sum(entry.file_size for entry in entries)
    if size > most_mb * 1_000_000:
        raise Refused(f"unpacks to {size / 1e6:.0f} MB; at most {most_mb} MB are allowed")
    found: dict[str, File] = {}
    for entry in entries:
        path = _path(entry)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Refused(f"has a link or device, {path}")
        if path.endswith("/") or IGNORED.search(path):
            continue
        if entry.flag_bits & 1:
            raise Refused(f"is encrypted ({path}): unpack it with its password, and name the folder")
        if path in found:
            raise Refused(f"has two files named {path}")
        found[path] = File(path, _when(entry.date_time), _reading(opened_zip, entry))
    return list(found.values())


def _path(entry: zipfile.ZipInfo) -> str:
    """Return the path of a file in a zip, as text with slashes.

    Raises
    ------
    Refused
        If the path is outside of the zip, or too deep.
    """
    raw = entry.orig_filename
    if not entry.flag_bits & 0x800:  # not marked as UTF-8, and read as cp437; usually it is UTF-8
        with contextlib.suppress(UnicodeError):
            raw = raw.encode("cp437").decode("utf-8")
    raw = raw.replace("\\", "/")  # some Windows programs write these
    shown = text.line(text.name(raw), 200)
    parts = raw.rstrip("/").split("/")
    if raw.startswith("/") or re.match(r"[A-Za-z]:", raw) or ".." in parts:
        raise Refused(f"has a file whose path leads outside of it, {shown}")
    if "\0" in raw:
        raise Refused(f"has a file with a zero byte in its name, {shown}")
    if len(raw) > MOST_PATH:
        raise Refused(f"has a path of more than {MOST_PATH} characters, {shown}")
    if len(parts) > MOST_DEPTH:
        raise Refused(f"has more than {MOST_DEPTH} nested folders, {shown}")
    return "/".join(text.name(part) for part in parts if part not in ("", ".")) + ("/" if raw.endswith("/") else "")


def _reading(opened_zip: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        if entry.file_size > most:
            raise Refused(f"has {entry.file_size / 1e6:.0f} MB; at most {most / 1e6:g} MB are allowed")
        with _as_refused(), opened_zip.open(entry) as file:
            return file.read()  # at most the size in the zip's list

    return read


def _when(stamp: tuple[int, ...]) -> datetime | None:
    try:
        return datetime(*stamp).astimezone()  # type: ignore[arg-type]  # six numbers
    except (ValueError, OverflowError, OSError):
        return None


def _of_folder(folder: Path) -> tuple[list[File], list[tuple[str, str]]]:
    """Return the files below a folder, in a fixed order, and those that are refused."""
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
                    refused.append((path, f"is more than {MOST_DEPTH} folders deep"))
                else:
                    waiting.append(f"{raw}/")
            elif not stat.S_ISREG(kind.st_mode):
                refused.append((path, "is a link or device"))
            elif len(files) >= MOST_ENTRIES:
                raise UserError(f"{folder} has more than {MOST_ENTRIES} files. Name a folder with only submissions.")
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

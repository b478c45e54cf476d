"""The contents of an archive or a folder, as data: listed and limited before any of it is read, and
never unpacked.

An archive made by a learning platform has nothing unusual. An archive that has is refused as a
whole, with one line. It may have packed files that students made: a problem in one of these affects
only that student. Each is unpacked once, into a temporary file without a name.
"""

import contextlib
import io
import lzma
import os
import re
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

from autograder.course import archive
from autograder.course.config import UserError
from autograder.grading.submissions import NOTEBOOK, read_file
from autograder.sanitize import text

MOST_ENTRIES = 50_000
"""Files in one archive: a thousand students with fifty files each."""
MOST_MB = 5_000
"""Unpacked size of an archive: a thousand students with 5 MB each."""
MOST_ENTRIES_OF_ONE = 1_000
"""Files in one packed file; grading reads no more files next to a notebook."""
MOST_MB_OF_ONE = 70
"""Size of one packed file, packed and unpacked: the largest notebook that is graded, and files
next to it.
"""
MOST_ATTEMPTS = 5
"""How many of the largest packed files one student may submit.

Otherwise one could fill the disk, or take hours.
"""
MOST_TAR_HEADER = 4_096
"""Bytes of one description of a file of a tar, such as a long name."""
MOST_TAR_HEADERS = 1_000_000
"""Bytes of all such descriptions of a tar that are longer than a block."""
DIGITS = re.compile(rb"\d{64}")
"""`tarfile` searches digits in a time that grows with the square of their number.

No description has so many.
"""
CHUNK = 64_000
"""Bytes that are unpacked at once."""
MOST_PATH = 1_000
"""Characters of a path: systems accept no more, and the time to match a pattern grows with the
length.
"""
MOST_DEPTH = 20
"""Nested folders; grading looks no deeper."""

IGNORED = re.compile(
    r"(^|/)(__MACOSX|__pycache__|\.[^/]*|desktop\.ini|Thumbs\.db)(/|$)", re.IGNORECASE
)
"""Files that operating systems and Jupyter make, and that are not part of a submission."""

TAR = re.compile(r"\.(tar|tar\.gz|tgz)$", re.IGNORECASE)
GZIPPED_NOTEBOOK = re.compile(rf"{NOTEBOOK.pattern.removesuffix('$')}\.gz$", re.IGNORECASE)

BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error,
    EOFError, OSError, OverflowError, RuntimeError, ValueError,
)  # fmt: skip
"""The errors that `zipfile` and `tarfile` raise for a file of another kind, or one that is cut
off.
"""

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""With any other, `zipfile` may unpack gigabytes at once, even from a file whose entry says that
it has 100 bytes.
"""

StudentOf = Callable[[Sequence[str]], Callable[[str], str]]
"""Takes all paths of an archive or folder, with packed files as files.

Returns a function that takes one path, and returns the same text for all that one student
submitted.
"""

_CENTRAL = b"PK\x01\x02"  # precedes each entry in a zip's list of entries


class FileRefused(Exception):
    """An archive, or a file in it, is refused; the text is the reason, and is shown after the
    file's name.
    """


@dataclass(frozen=True)
class File:
    """One file of an archive or folder.

    Attributes
    ----------
    path : str
        Its path, as text with slashes; a packed file counts as a folder.
    time : datetime or None
        Its time there, in this machine's time zone; None if it has none. In a packed file, the time
        of that.
    read : callable
        Takes the maximal number of bytes, and returns the contents.

        Raises `FileRefused` if there is more, or if it cannot be read.
    packed : str
        The path of the packed file that it is in, which a student made; "" if it is in none.
    packed_time : datetime or None
        Its time in that packed file, which is what the student's machine says.
    """

    path: str
    time: datetime | None
    read: Callable[[int], bytes] = field(repr=False)
    packed: str = ""
    packed_time: datetime | None = None


@dataclass(frozen=True)
class Source:
    """An archive or folder: its files, those that are refused, with the reason, and the paths
    before unpacking.
    """

    name: str
    files: list[File]
    refused: list[tuple[str, str]]
    paths: list[str]


def _each_its_own(paths: Sequence[str]) -> Callable[[str], str]:
    return lambda path: path


@contextmanager
def opened(path: Path, student_of: StudentOf = _each_its_own) -> Iterator[Source]:
    """Open an archive or a folder; its files can be read until it is closed.

    Parameters
    ----------
    path : Path
    student_of : callable, optional
        See `StudentOf`: all that one student submitted shares its limits.

    Raises
    ------
    UserError
        If it is neither, or if it contains something that no learning platform puts there.
    """
    name = text.line(text.name(path.name or str(path)), 200)
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(tempfile.TemporaryFile(prefix="collect-"))
        if path.is_dir():
            yield _unpacked(name, *_of_folder(path), disk, student_of)
            return
        if not path.exists():
            raise UserError(
                f"{path} does not exist. Name the folder or the zip file that you downloaded."
            )
        try:
            with _as_refused():
                opened_zip = stack.enter_context(zipfile.ZipFile(path))
            refused: list[tuple[str, str]] = []
            files = _of_zip(opened_zip, MOST_ENTRIES, MOST_MB, refused)
            source = _unpacked(name, files, refused, disk, student_of)
        except FileRefused as error:
            raise UserError(
                f"{path} {error}. Nothing was collected; download it again, or name a folder."
            ) from None
        yield source


def _unpacked(
    name: str,
    files: list[File],
    refused: list[tuple[str, str]],
    disk: IO[bytes],
    student_of: StudentOf,
) -> Source:
    """Return a source with students' packed files unpacked, one level deep."""
    paths = [file.path for file in files]
    unpacking = Unpacking(disk, student_of(paths))
    unpacked: list[File] = []
    for file in files:
        base = file.path.rpartition("/")[2]
        tar = bool(TAR.search(base))
        packed = tar or GZIPPED_NOTEBOOK.search(base) or base.lower().endswith(".zip")
        if base == archive.NAME or not packed:
            unpacked.append(file)
            continue
        try:
            inside = unpacking.files(file)
        except FileRefused as error:
            refused.append((file.path, str(error)))
            continue
        # A tar without a notebook is data, which a notebook reads as it is.
        is_data = tar and not any(NOTEBOOK.search(unpacked_file.path) for unpacked_file in inside)
        unpacked += [file] if is_data else inside
    return Source(name, unpacked, refused, paths)


class Unpacking:
    """Unpacks students' packed files, each of them once, and limits what each student takes.

    Parameters
    ----------
    disk : file
        A temporary file, for the contents.
    student_of : callable
        Takes the path of a packed file, and returns the same text for all of one student.
    """

    def __init__(self, disk: IO[bytes], student_of: Callable[[str], str]):
        self.disk, self.student_of = disk, student_of
        self.sizes, self.counts = Counter[str](), Counter[str]()

    def files(self, outer: File) -> list[File]:
        """Return the files of a packed file.

        Raises
        ------
        FileRefused
            If it has something that does not belong there, or if it exceeds a limit.
        """
        self._count(outer, 0, 0)  # before it is read
        data = outer.read(MOST_MB_OF_ONE * 1_000_000)
        self._count(outer, 0, len(data))
        try:
            with _as_refused():
                listed = _listed(outer, data)
        except FileRefused:
            # It took time to refuse it.
            self.counts[self.student_of(outer.path)] += MOST_ENTRIES_OF_ONE
            raise
        self._count(outer, len(listed), 0)
        return [
            File(
                f"{outer.path}/{file.path}",
                outer.time,
                self._store(outer, file),
                outer.path,
                file.time,
            )
            for file in listed
        ]

    def _store(self, outer: File, file: File) -> Callable[[int], bytes]:
        """Return a function that reads a file's contents, which are unpacked now."""
        try:
            data = file.read(MOST_MB_OF_ONE * 1_000_000)
        except FileRefused as error:
            return _refusing_reader(str(error))
        size = len(data)
        self._count(outer, 0, size)
        start = self.disk.seek(0, os.SEEK_END)
        if start + size > MOST_MB * 1_000_000:
            raise FileRefused(
                f"is not unpacked, because others unpack to {MOST_MB} MB: collect it separately"
            )
        self.disk.write(data)

        def read(most: int) -> bytes:
            _check_size(size, most)
            self.disk.seek(start)
            return self.disk.read(size)

        return read

    def _count(self, outer: File, files: int, size: int) -> None:
        """Count what is read for a student: packed files and, unpacked, what is in them.

        Raises
        ------
        FileRefused
            If it is too much.
        """
        student = self.student_of(outer.path)
        self.counts[student] += files
        self.sizes[student] += size
        most_mb = 2 * MOST_ATTEMPTS * MOST_MB_OF_ONE
        most_files = MOST_ATTEMPTS * MOST_ENTRIES_OF_ONE
        if self.sizes[student] > most_mb * 1_000_000:
            raise FileRefused(
                f"is one of this student's packed files that have more than {most_mb} MB in all"
            )
        if self.counts[student] > most_files:
            raise FileRefused(
                "is one of this student's packed files that have more than "
                f"{most_files} files in all"
            )


def _listed(outer: File, data: bytes) -> list[File]:
    """Return the files of a packed file with these bytes.

    Raises
    ------
    FileRefused
        If it has something that does not belong there.
    """
    base = outer.path.rpartition("/")[2]
    if GZIPPED_NOTEBOOK.search(base):
        return [File(base[: -len(".gz")], outer.time, _reader_of(_gunzipped(data)))]
    if TAR.search(base):
        return _of_tar(data if base.lower().endswith(".tar") else _gunzipped(data))
    if data.count(_CENTRAL) > MOST_ENTRIES_OF_ONE:  # before zipfile makes an object of each
        raise FileRefused(f"has more than {MOST_ENTRIES_OF_ONE} files")
    return _of_zip(zipfile.ZipFile(io.BytesIO(data)), MOST_ENTRIES_OF_ONE, MOST_MB_OF_ONE)


def _reader_of(data: bytes) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        _check_size(len(data), most)
        return data

    return read


def _refusing_reader(reason: str) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        raise FileRefused(reason)

    return read


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise FileRefused(f"has {size / 1e6:.0f} MB; at most {most / 1e6:g} MB are allowed")


def _gunzipped(data: bytes) -> bytes:
    """Return what a gzip file has, which is limited before it is unpacked.

    Raises
    ------
    FileRefused
        If it is too large, cut off, or has more than one part.
    """
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    contents = bytearray()
    most = MOST_MB_OF_ONE * 1_000_000
    end = 0
    while end < len(data) and not unpacking.eof:
        start, end = end, end + CHUNK
        contents += unpacking.decompress(data[start:end], most + 1 - len(contents))
        if len(contents) > most:
            raise FileRefused(f"unpacks to more than {MOST_MB_OF_ONE} MB")
        _check_packing(start, len(contents))
    if not unpacking.eof or (unpacking.unused_data + data[end:]).strip(b"\0"):
        raise FileRefused("cannot be unpacked: it is cut off, or has more than one part")
    return bytes(contents)


def _check_packing(packed: int, size: int) -> None:
    """Refuse many packed bytes that unpack to almost nothing: reading them takes as long as
    reading a file.
    """
    if packed > 1.1 * size + CHUNK:
        raise FileRefused(f"has {packed / 1e6:.1f} MB that unpack to only {size / 1e6:.1f} MB")


class _Headers(io.BytesIO):
    """A tar, of which `tarfile` reads only the headers."""

    remaining = MOST_TAR_HEADERS

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= MOST_TAR_HEADER:
            raise FileRefused("has a file whose name or description is too long")
        data = super().read(size)
        self.remaining -= size if size > tarfile.BLOCKSIZE else 0
        if self.remaining < 0 or DIGITS.search(data):
            raise FileRefused("has files whose names or descriptions are too long")
        return data


def _of_tar(data: bytes) -> list[File]:
    """Return the files of a tar.

    Raises
    ------
    FileRefused
        If one of them does not belong in a tar; then the whole tar is refused.
    """
    files: dict[str, File] = {}
    with tarfile.open(fileobj=_Headers(data), mode="r:") as opened_tar:
        count = 0
        while (entry := opened_tar.next()) is not None:
            count += 1
            opened_tar.members.clear()  # type: ignore[attr-defined]  # otherwise it keeps all of them
            # Git writes a comment; each file gets a copy of these headers.
            if not opened_tar.pax_headers.keys() <= {"comment"}:
                raise FileRefused(
                    "has a description of all its files, which no usual program writes"
                )
            if count > MOST_ENTRIES_OF_ONE:
                raise FileRefused(f"has more than {MOST_ENTRIES_OF_ONE} files")
            path = _path(entry.name)
            if not (entry.isfile() or entry.isdir()) or entry.issparse():
                raise FileRefused(f"has a link or device, {path}")
            if entry.isdir() or path.endswith("/") or IGNORED.search(path):
                continue
            if path in files:
                raise FileRefused(f"has two files named {path}")
            end = entry.offset_data + entry.size
            if not entry.offset_data <= end <= len(data):
                raise FileRefused(f"cannot be unpacked: {path} is cut off")
            read = _reader_of(data[entry.offset_data : end])
            files[path] = File(path, _time_of_seconds(entry.mtime), read)
    return list(files.values())


@contextmanager
def _as_refused() -> Iterator[None]:
    try:
        yield
    except BROKEN as error:
        reason = text.line(str(error), 200) or type(error).__name__
        raise FileRefused(f"cannot be unpacked: {reason}") from None


def _of_zip(
    opened_zip: zipfile.ZipFile,
    most_entries: int,
    most_mb: int,
    refused: list[tuple[str, str]] | None = None,
) -> list[File]:
    """Return the files of a zip.

    Parameters
    ----------
    opened_zip : ZipFile
        It stays open as long as the files are read.
    most_entries, most_mb : int
        How many files it may have, and how large they may be unpacked, all together.
    refused : list of (path, reason), optional
        Gets files whose only fault is a backslash: learning platforms keep those that students
        typed. Without the list, such a file refuses the whole zip.

    Raises
    ------
    FileRefused
        If one of them does not belong in a zip, or if it is too large; then the whole zip is
        refused.
    """
    entries = opened_zip.infolist()
    if len(entries) > most_entries:
        raise FileRefused(f"has {len(entries)} files; at most {most_entries} are allowed")
    size = sum(entry.file_size for entry in entries)
    if size > most_mb * 1_000_000:
        raise FileRefused(f"unpacks to {size / 1e6:.0f} MB; at most {most_mb} MB are allowed")
    # `start_dir` is where the list of entries begins; all data is before it.
    if sum(entry.compress_size for entry in entries) > opened_zip.start_dir:
        raise FileRefused("has files that share their bytes")
    files: dict[str, File] = {}
    with_backslash: set[str] = set()
    for entry in entries:
        raw = _name(entry)
        try:
            path = _path(raw)
        except FileRefused as error:
            if refused is None or not _is_right_before_backslash(raw):
                raise
            refused.append((text.line(text.name(raw), 200), str(error)))
            continue
        kind = stat.S_IFMT(entry.external_attr >> 16)  # the upper half is the Unix mode
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise FileRefused(f"has a link or device, {path}")
        if path.endswith("/") or IGNORED.search(path):
            continue
        if entry.flag_bits & 1:
            raise FileRefused(
                f"is encrypted ({path}): unpack it with its password, and name the folder"
            )
        if entry.compress_type not in COMPRESSIONS:
            raise FileRefused(
                f"uses an unusual compression ({path}): unpack it, and name the folder"
            )
        _check_packing(entry.compress_size, entry.file_size)
        if "\\" in raw:
            with_backslash.add(path)
        if path in files:
            if refused is None or path not in with_backslash:
                raise FileRefused(f"has two files named {path}")
            refused.append((path, "has the name of another file"))
            continue
        files[path] = File(path, _time_of_stamp(entry.date_time), _zip_reader(opened_zip, entry))
    return list(files.values())


def _name(entry: zipfile.ZipInfo) -> str:
    """Return the name of a file in a zip, as it was written."""
    raw = entry.orig_filename
    if not entry.flag_bits & 0x800:  # not marked as UTF-8, and read as cp437; usually it is UTF-8
        with contextlib.suppress(UnicodeError):
            raw = raw.encode("cp437").decode("utf-8")
    return raw


def _is_right_before_backslash(raw: str) -> bool:
    """Tell whether a path that is refused is right up to its first backslash: what is before it
    was written by a learning platform.
    """
    before, backslash, _ = raw.partition("\\")
    try:
        return bool(backslash and _path(before))
    except FileRefused:
        return False


def _path(raw: str) -> str:
    """Return the path of a file in an archive, as text with slashes.

    Raises
    ------
    FileRefused
        If the path is outside of the archive, or too deep.
    """
    raw = raw.replace("\\", "/")  # some Windows programs write these
    shown = text.line(text.name(raw), 200)
    parts = raw.rstrip("/").split("/")
    if raw.startswith("/") or re.match(r"[A-Za-z]:", raw) or ".." in parts:
        raise FileRefused(f"has a file whose path leads outside of it, {shown}")
    if "\0" in raw:
        raise FileRefused(f"has a file with a zero byte in its name, {shown}")
    if len(raw) > MOST_PATH:
        raise FileRefused(f"has a path of more than {MOST_PATH} characters, {shown}")
    if len(parts) > MOST_DEPTH:
        raise FileRefused(f"has more than {MOST_DEPTH} nested folders, {shown}")
    path = "/".join(text.name(part) for part in parts if part not in ("", "."))
    return f"{path}/" if raw.endswith("/") else path


def _zip_reader(opened_zip: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        _check_size(entry.file_size, most)
        with _as_refused(), opened_zip.open(entry) as file:
            return file.read()  # at most the size in the zip's list

    return read


def _time_of_stamp(stamp: tuple[int, ...]) -> datetime | None:
    try:
        return datetime(*stamp).astimezone()  # type: ignore[arg-type]  # six numbers
    except (ValueError, OverflowError, OSError):
        return None


def _time_of_seconds(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds).astimezone() if seconds else None
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
                raise UserError(
                    f"{folder} has more than {MOST_ENTRIES} files. Name a folder with "
                    "only submissions."
                )
            else:
                time = datetime.fromtimestamp(kind.st_mtime).astimezone()
                files.append(File(path, time, _path_reader(folder / raw)))
    return files, refused


def _path_reader(path: Path) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        data, problem = read_file(path, most / 1e6)
        if data is None:
            raise FileRefused(f"cannot be read: {problem}")
        return data

    return read

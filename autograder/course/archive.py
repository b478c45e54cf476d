"""`checking.zip`, next to a released notebook: Python imports from it, and no one reads it by
accident.

It has the checks' runtime (`checking`), the specifications that checks compare with, and the listed
wrong answers. `release` makes it; git ignores it. The same sources make the same bytes.
"""

import io
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

from autograder import checking
from autograder.checking import files
from autograder.course import catalogs
from autograder.course.config import ARCHIVE as NAME
from autograder.course.config import Exercise

MODULES = ("specifications.py", "misconceptions.py")
"""The author's files that students do not get as text.

An exercise without specifications has none.
"""

RUNTIME = Path(checking.__file__).parent
LOCALES = "checking/locale/"
"""Where the catalogs of other languages are in an archive."""
# The first time that a zip can have; that of its files would make other bytes each time.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def sources(solution: Path) -> dict[str, bytes]:
    """Return the contents of the archive of the exercise in an author's folder: bytes by name."""
    present = [solution / name for name in MODULES if (solution / name).exists()]
    contents = {path.name: path.read_bytes() for path in present}
    root, name = solution.parent.parent, solution.name
    for language in catalogs.languages(root):
        catalog = catalogs.of_feedback(root, language, name)
        contents[f"{LOCALES}{language}/LC_MESSAGES/checking.mo"] = catalog
    return {**contents, **runtime()}


def runtime() -> dict[str, bytes]:
    """Return the files of the checks' runtime, by the names that they have in an archive."""
    paths = sorted(RUNTIME.rglob("*.py"))
    return {f"checking/{path.relative_to(RUNTIME).as_posix()}": path.read_bytes() for path in paths}


def write(solution: Path) -> Path:
    """Write the archive of an exercise into its author's folder, where nbgrader finds it; return
    it.
    """
    target = solution / NAME
    contents = sources(solution)  # which may be refused, before anything is written
    with (
        files.replaced(target) as building,
        zipfile.ZipFile(building, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            # The upper half is the Unix mode.
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return target


def locales(exercise: Exercise) -> zipfile.Path | None:
    """Return where the catalogs of a released exercise are, for `words.use`; None if there is no
    archive.
    """
    try:
        stat = exercise.archive.stat()
    except OSError:
        return None
    return _locales(exercise.archive, stat.st_mtime_ns, stat.st_size)


# The last two arguments, here and below, only let the cache notice another file.
@lru_cache(50)
def _locales(path: Path, _changed: int, _size: int) -> zipfile.Path | None:
    try:
        # In memory, because it is kept: an open file would stay open.
        return zipfile.Path(zipfile.ZipFile(io.BytesIO(path.read_bytes())), LOCALES)
    except (OSError, zipfile.BadZipFile):
        return None


def is_current(exercise: Exercise) -> bool:
    """Tell whether a released exercise has an archive made from the present files of its
    author's folder.
    """
    try:
        return read(exercise.archive) == sources(exercise.solution)
    except OSError:
        return False


def fault(exercise: Exercise) -> str:
    """Return what is wrong with the archive of a released exercise, and the fix, in one line; ""
    if nothing is.
    """
    if is_current(exercise):
        return ""
    state = "older than its sources" if exercise.archive.exists() else "missing"
    path = exercise.archive.relative_to(exercise.root).as_posix()
    return f"{path} is {state}. Run: python -m autograder release {exercise.name}"


def read(path: Path) -> dict[str, bytes]:
    """Return the contents of an archive: bytes by name.

    Raises
    ------
    OSError
        If it does not exist, or is not an archive.
    """
    stat = path.stat()
    # A copy, because the kept one is for all callers.
    return dict(_read(path, stat.st_mtime_ns, stat.st_size))


@lru_cache(50)
def _read(path: Path, _changed: int, _size: int) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in sorted(archive.namelist())}
    except (zipfile.BadZipFile, zlib.error) as error:
        raise OSError(f"{path} is not a zip archive: {error}") from error

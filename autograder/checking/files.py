"""Writes files completely or not at all: meanwhile readers get the old one."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a new path in the same folder; when the context ends, its file replaces the one at
    `path`. After an error it is deleted, and an `OSError` names the path.
    """
    # In the same folder: only within one file system does renaming replace a file at once. The
    # process number keeps two writers apart.
    building = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield building
        building.replace(path)
    except OSError as error:
        # To write on a full disk is an error without a name.
        error.filename = error.filename or str(path)
        raise
    finally:
        building.unlink(missing_ok=True)


def write(path: Path, content: str) -> None:
    """Write a text as UTF-8, with the same line ends on each system.

    Half a letter becomes a question mark: texts of students may have some, and UTF-8 has none.
    """
    with replaced(path) as building:
        building.write_text(content, encoding="utf-8", errors="replace", newline="\n")

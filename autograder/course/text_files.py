"""Small text files in a course's folders, which may be absent, unreadable, or changed by others."""

from pathlib import Path

from autograder.checking import files


def read_text(path: Path) -> str | None:
    """Return the text of a file; None if there is none that can be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def keep_text(path: Path, content: str) -> None:
    """Let a file have this content, all or nothing; remove it if the content is ""."""
    if not content:
        path.unlink(missing_ok=True)
    elif read_text(path) != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, content)

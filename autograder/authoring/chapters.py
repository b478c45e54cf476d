"""The chapters of the course's book, and the lists of them: made from book/chapters.toml and the titles of pages."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from autograder.course.config import UserError

SOURCE = Path("book") / "chapters.toml"
MADE = re.compile(r"(?<=chapters: made by `make lists`)([^\n]*\n)(.*?)(?=^[^\n]*end of chapters)", re.M | re.S)
"""The part of a file that `write` makes: the lines between the two marks, which are comments."""


@dataclass(frozen=True)
class Chapter:
    """A chapter: its row in book/chapters.toml, and its page.

    Attributes
    ----------
    name : str
        Such as 01-qkv.
    page : Path
        Its first page, which need not exist yet.
    after : list of str
        The names of chapters that it builds on directly.
    needs, learn, about : str
        Other prerequisites, what a reader can do afterwards, and the text after its title in README.md, or "".
    """

    name: str
    page: Path
    after: list[str]
    needs: str
    learn: str
    about: str

    @property
    def number(self) -> int:
        """The number in its name, which is also the number in the table of contents."""
        return int(self.name[:2])

    @property
    def deeper(self) -> Path:
        """Its second page, which need not exist."""
        return self.page.with_name(f"{self.name}-deeper.md")

    @property
    def title(self) -> str:
        """The first heading of its page.

        Raises
        ------
        UserError
            If there is no page, or no heading in it.
        """
        text = self.page.read_text(encoding="utf-8") if self.page.exists() else ""
        found = re.search(r"^# (.+)$", text, re.M)
        if found is None:
            raise UserError(f"{SOURCE} has a chapter {self.name}, but book/{self.name}.md has no title.")
        return found[1].strip()


ROW = {field.name for field in fields(Chapter)} - {"name", "page"}


def read(root: Path) -> dict[str, Chapter]:
    """Return the chapters of the course in `root` by their names, in the order of their numbers.

    Raises
    ------
    UserError
        If the file is not TOML, or a row has the wrong keys.
    """
    try:
        rows = tomllib.loads((root / SOURCE).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{SOURCE} is not TOML: {error}.") from None
    for name, row in rows.items():
        if not re.match(r"\d\d-", name) or not isinstance(row, dict) or set(row) != ROW:
            raise UserError(f"{SOURCE}: [{name}] should be a chapter such as 01-qkv, with {', '.join(sorted(ROW))}.")
    return {name: Chapter(name, root / "book" / f"{name}.md", **rows[name]) for name in sorted(rows)}


def contents(chapter: Chapter) -> str:
    """Return a chapter's lines in the table of contents, `_toc.yml`."""
    lines = f"      - file: book/{chapter.name}\n"
    if chapter.deeper.exists():
        lines += f"        sections:\n          - file: book/{chapter.deeper.stem}\n"
    return lines


def line(chapter: Chapter) -> str:
    """Return a chapter's line in README.md."""
    about = f": {chapter.about}" if chapter.about else ""
    return f"{chapter.number}. *{chapter.title}*{about}\n"


LISTS: dict[str, Callable[[Chapter], str]] = {"_toc.yml": contents, "README.md": line}


def stale(root: Path) -> dict[str, str]:
    """Return the corrected files of the course in `root` whose lists of chapters differ from `SOURCE`.

    A file that does not exist, or lacks the two marks, has no such list.
    """
    chapters, found = read(root).values(), {}
    for name, entry in LISTS.items():
        text = (root / name).read_text(encoding="utf-8") if (root / name).exists() else ""
        made = MADE.search(text)
        if made and made[2] != (entries := "".join(map(entry, chapters))):
            found[name] = text[: made.start(2)] + entries + text[made.end(2) :]
    return found


def write(root: Path) -> list[str]:
    """Write the lists of the course in `root` that are stale; return their names."""
    files = stale(root)
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    return list(files)

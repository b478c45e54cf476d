"""The chapters of the course's book: what each enters into shared pages and lists, and which
files it has.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from autograder.course.config import UserError

ENTRIES = "entries.md"
"""The file in a chapter's folder with its entries in shared pages and lists."""
DEEPER = "-deeper"
"""How the names of pages for a second reading end."""
MADE = re.compile(
    r"(?<=chapters: made by `make lists`)([^\n]*\n)(.*?)(?=^[^\n]*end of chapters)", re.M | re.S
)
"""The part of a file that `write` makes: the lines between the two marks, which are comments."""
HEAD = {"after": list, "needs": str, "learn": str, "about": str}
SECTIONS = ("Letters", "Functions", "Glossary", "Cheat sheet", "Claims")
CLAIM = re.compile(r"\| ([A-Z]\d+) \| ([^|]+) \| ([\d, ]*)\| (.+) \|$")
FILES = (
    "book/{number}-*.md",
    "book/{name}/*",
    "book/data/experiments/{number}-*.json",
    "solutions/{name}/*",
    "exercises/{name}/*",
    "tests/unseen/{name}.py",
    "locale/*/LC_MESSAGES/*/{number}-*.po",
)
"""Where a chapter's files are. Programs make those in data/experiments/ and exercises/, and in
solutions/ the notebook, checking.zip and verified.json.
"""


@dataclass(frozen=True)
class Chapter:
    """A chapter: its pages, and its entries in shared pages and lists.

    Attributes
    ----------
    name : str
        Such as 01-qkv.
    root : Path
        The course's folder.
    after : list of str
        The names of chapters that it builds on directly.
    needs, learn, about : str
        Other prerequisites, what a reader can do afterwards, and the text after its title in
        README.md, or "".
    sections : dict of str to tuple of int and list of str
        The sections of its entries by their headings in `SECTIONS`: the number of the first line,
        and the lines.
    """

    name: str
    root: Path
    after: list[str]
    needs: str
    learn: str
    about: str
    sections: dict[str, tuple[int, list[str]]]

    @property
    def number(self) -> int:
        """The number in its name, which is also the number in the table of contents."""
        return int(self.name[:2])

    @property
    def folder(self) -> Path:
        """The folder of all that is read of it beside its pages."""
        return self.root / "book" / self.name

    @property
    def page(self) -> Path:
        """Its first page, which need not exist yet."""
        return self.root / "book" / f"{self.name}.md"

    @property
    def pages(self) -> list[Path]:
        """Its pages that exist, in their order."""
        return sorted(
            self.root.glob(f"book/{self.name[:3]}*.md"),
            key=lambda page: order(page.stem, self.root),
        )

    @property
    def entries(self) -> Path:
        """The file of its entries."""
        return self.folder / ENTRIES

    @property
    def title(self) -> str:
        """The first heading of its page.

        Raises
        ------
        UserError
            If there is no page, or no heading in it.
        """
        text = self.page.read_text(encoding="utf-8") if self.page.exists() else ""
        heading = re.search(r"^# (.+)$", text, re.M)
        if heading is None:
            raise UserError(
                f"book/{self.name}/ belongs to a chapter, but book/{self.name}.md has no title."
            )
        return heading[1].strip()

    @property
    def claims(self) -> dict[str, dict[str, Any]]:
        """The claims that it is the first chapter to answer: {name: {documents, chapters,
        statement}}.

        Raises
        ------
        UserError
            If a row of the table does not have the four cells.
        """
        claims = {}
        for number, line in self._rows("Claims"):
            row = CLAIM.match(line)
            if row is None:
                where = self.entries.relative_to(self.root).as_posix()
                raise UserError(
                    f"{where}:{number}: expected a row such as | A9 | 000, 002 | 08 | Heads "
                    "differ. |."
                )
            documents, also = (re.split(r",\s*", cell.strip()) for cell in row.group(2, 3))
            claims[row[1]] = {
                "documents": documents,
                "chapters": [self.name[:2], *filter(None, also)],
                "statement": row[4],
            }
        return claims

    def _rows(self, heading: str) -> Iterator[tuple[int, str]]:
        """Yield the rows of a section's table below its head, each with the number of its line."""
        first, lines = self.sections.get(heading, (0, []))
        rows = [(number, line) for number, line in enumerate(lines, first) if line.startswith("|")]
        # Without the table's headings and the line below them.
        yield from rows[2:]

    def listing(self) -> Iterator[str]:
        """Yield its files, relative to the course's folder, and below those of its entries each
        entry with its line.
        """
        files: list[Path] = []
        for pattern in FILES:
            matches = self.root.glob(pattern.format(name=self.name, number=self.name[:2]))
            files += sorted(path for path in matches if path.is_file())
        for path in files:
            name = path.relative_to(self.root).as_posix()
            yield name
            if path == self.entries:
                yield from (f"{name}:{number}  {entry}" for number, entry in self._entries())
            elif path.suffix == ".bib":
                lines = path.read_text(encoding="utf-8").splitlines()
                works = (
                    (number, re.match(r"@\w+\{(.+),", line)) for number, line in enumerate(lines, 1)
                )
                yield from (
                    f"{name}:{number}  Reference: {work[1]}" for number, work in works if work
                )

    def _entries(self) -> Iterator[tuple[int, str]]:
        """Yield its entries, each with the number of its line."""
        for heading, (first, lines) in self.sections.items():
            if heading == "Cheat sheet":
                yield first, heading
            elif heading == "Glossary":
                terms = (
                    (number, line)
                    for number, line in enumerate(lines, first)
                    if re.match(r"\w", line)
                )
                yield from ((number, f"{heading}: {line}") for number, line in terms)
            else:
                rows = ((number, line.split(" | ")[0][2:]) for number, line in self._rows(heading))
                yield from ((number, f"{heading}: {first_cell}") for number, first_cell in rows)


def files(root: Path) -> list[Path]:
    """Return the files of entries in the course in `root`, in the order of their chapters."""
    return sorted(root.glob(f"book/*/{ENTRIES}"))


def chapter_of_page(page: str, root: Path) -> str:
    """Return the name of the chapter that a page belongs to, such as 01-qkv for 01-qkv-deeper: its
    first page's.

    A page that belongs to no chapter has the name that it would have as one.
    """
    name = PurePosixPath(page).name
    if re.match(r"\d\d-", name):
        for entries in sorted(root.glob(f"book/{name[:3]}*/{ENTRIES}")):
            return entries.parent.name
    return name


def order(page: str, root: Path) -> tuple[str, bool, bool, str]:
    """Return what pages are sorted by: each chapter's first page, the others by name, those that
    go deeper last.
    """
    name, chapter = PurePosixPath(page).name, chapter_of_page(page, root)
    return chapter, name != chapter, name.endswith(DEEPER), name


def read(root: Path) -> dict[str, Chapter]:
    """Return the chapters of the course in `root` by their names, in the order of their numbers.

    Raises
    ------
    UserError
        If there are no entries, or a file of entries has a fault; it names the line.
    """
    paths = files(root)
    if not paths:
        raise UserError(f"{root} has no book/NN-name/{ENTRIES}, so it has no chapters.")
    chapters: dict[str, Chapter] = {}
    for path in paths:
        name, where = path.parent.name, path.relative_to(root).as_posix()
        if not re.match(r"\d\d-", name):
            raise UserError(
                f"{where}: its folder should have the name of a chapter, such as 01-qkv."
            )
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise UserError(f"{where} is not UTF-8: {error}.") from None
        # Without a head, `end` is 0, and `_head` refuses what is then empty.
        end = lines.index("---", 1) if lines[:1] == ["---"] and "---" in lines[1:] else 0
        chapter = Chapter(
            name, root, **_head(where, lines[1:end]), sections=_sections(where, lines, end + 1)
        )
        if unknown := [other for other in chapter.after if other not in chapters]:
            line = next(number for number, line in enumerate(lines, 1) if line.startswith("after"))
            raise UserError(
                f"{where}:{line}: {unknown[0]!r} is not the name of an earlier "
                "chapter, such as 01-qkv."
            )
        chapters[name] = chapter
    return chapters


def _head(where: str, lines: list[str]) -> dict[str, Any]:
    """Return what is between the first lines `---`: a row of the map on the landing page."""
    try:
        row = yaml.safe_load("\n".join(lines))
    except yaml.MarkedYAMLError as error:
        # YAML counts from 0, and does not have the first line of the file, `---`.
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise UserError(f"{where}:{line}: this is not YAML: {error.problem}.") from None
    fits = isinstance(row, dict) and row.keys() == HEAD.keys()
    if not fits or not all(isinstance(row[key], kind) for key, kind in HEAD.items()):
        raise UserError(
            f"{where}:1: should begin with ---, then after (a list), needs, learn, about, then ---."
        )
    return dict(row)


def _sections(where: str, lines: list[str], first: int) -> dict[str, tuple[int, list[str]]]:
    """Return the sections of a file's lines, from the line with the index `first`."""
    sections: dict[str, tuple[int, list[str]]] = {}
    body: list[str] = []
    code = False
    for number, line in enumerate(lines[first:], first + 1):
        if line.startswith("```"):
            code = not code
        if line.startswith("## ") and not code:
            heading = line[3:].strip()
            if heading not in SECTIONS or heading in sections:
                raise UserError(
                    f"{where}:{number}: a heading is one of {', '.join(SECTIONS)}, "
                    "and each comes once."
                )
            body = []
            sections[heading] = number + 1, body
        elif sections:
            body.append(line)
        elif line.strip():
            raise UserError(
                f"{where}:{number}: there is text before the first heading, such as "
                f"## {SECTIONS[0]}."
            )
    return sections


def claims(root: Path) -> dict[str, dict[str, Any]]:
    """Return the claims of all chapters by their names, in order.

    Raises
    ------
    UserError
        If two chapters enter the same claim, or a row has a fault.
    """
    rows: dict[str, dict[str, Any]] = {}
    for chapter in read(root).values():
        for name, row in chapter.claims.items():
            if name in rows:
                raise UserError(
                    f"book/{chapter.name}/{ENTRIES}: the claim {name} is already "
                    f"entered by chapter {rows[name]['chapters'][0]}; write this chapter's "
                    "number there, below Also in."
                )
            rows[name] = row
    # A10 comes after A9.
    return dict(sorted(rows.items(), key=lambda item: (item[0][0], int(item[0][1:]))))


def contents(chapter: Chapter) -> str:
    """Return a chapter's lines in the table of contents, `_toc.yml`."""
    others = [
        f"          - file: book/{page.stem}\n" for page in chapter.pages if page != chapter.page
    ]
    return "".join(
        [
            f"      - file: book/{chapter.name}\n",
            *(["        sections:\n", *others] if others else []),
        ]
    )


def line(chapter: Chapter) -> str:
    """Return a chapter's line in README.md."""
    about = f": {chapter.about}" if chapter.about else ""
    return f"{chapter.number}. *{chapter.title}*{about}\n"


LISTS: dict[str, Callable[[Chapter], str]] = {"_toc.yml": contents, "README.md": line}


def stale(root: Path) -> dict[str, str]:
    """Return the corrected files of the course in `root` whose lists of chapters differ from the
    chapters' entries.

    A file that does not exist, or lacks the two marks, has no such list.
    """
    chapter_list = read(root).values()
    corrected = {}
    for name, entry in LISTS.items():
        text = (root / name).read_text(encoding="utf-8") if (root / name).exists() else ""
        generated = MADE.search(text)
        if generated and generated[2] != (entries := "".join(map(entry, chapter_list))):
            corrected[name] = text[: generated.start(2)] + entries + text[generated.end(2) :]
    return corrected


def write(root: Path) -> list[str]:
    """Write the lists of the course in `root` that are stale; return their names."""
    files = stale(root)
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    return list(files)

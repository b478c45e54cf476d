"""A class roster from a CSV file: students by id, e-mail or name.

Moodle's grading worksheet and Canvas's gradebook are also rosters. They have the numbers that these
systems use in the names of downloaded files.
"""

import csv
import io
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from autograder.course.config import UserError
from autograder.sanitize import text

MOST_MB = 20
"""A class of ten thousand with long rows has 5 MB, so a larger file is not a roster."""

COLUMNS = {
    "id": (
        "id", "student id", "id number", "idnumber", "sis user id", "sid", "username", "user name",
        "login",
        "sis login id", "matriculation number", "matrikelnummer",
    ),
    "name": ("name", "full name", "student", "student name"),
    "first_name": ("first name", "firstname", "given name", "vorname"),
    "last_name": ("last name", "lastname", "surname", "family name", "nachname"),
    "email": ("email", "e-mail", "email address", "e-mail address", "mail"),
}  # fmt: skip
"""Names of columns, in lower case with blanks; of several, the first that has a value in a row
counts.
"""

PLAIN = str.maketrans(
    {
        "ł": "l",
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "æ": "ae",
        "œ": "oe",
        "ı": "i",
        "ħ": "h",
        "ŧ": "t",
        "ŋ": "n",
    }
)
"""Letters that are not accented forms of others, and their spelling in names with only English
letters.
"""
LEAST_BARE = 4

SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""A first line that gives Excel the separator."""

IDENTIFIER, SUBMITTED = "identifier", "last modified (submission)"
"""Moodle's columns: its number of a student in one assignment, and the time of submission."""


@dataclass(frozen=True)
class Person:
    """One student of a class; unknown fields are "".

    Attributes
    ----------
    id : str
        The student's folder, and their id in the gradebook.
    numbers : tuple of (str, str)
        A system and its number of them: ("moodle", "1234").
    also : tuple of str
        Other ids in the roster, such as a login.
    row : int
        Their row in the file, counted from 0 below the headings.
    handed_in : str
        When they submitted, as text from Moodle's worksheet.
    """

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    numbers: tuple[tuple[str, str], ...] = ()
    also: tuple[str, ...] = ()
    row: int = 0
    handed_in: str = ""


class Clues(NamedTuple):
    """Clues to a file's author: a system's number, what may be an id or e-mail, and what may be
    a name.
    """

    number: tuple[str, str] = ("", "")
    ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """A CSV file: its unchanged headings, its rows (each as long as the headings), and the rows'
    numbers.
    """

    path: Path
    headings: list[str]
    rows: list[list[str]]
    numbers: list[int]

    def column(self, *names: str) -> int:
        """Return the column of the first of these headings, ignoring case; -1 if there is none."""
        plain = [_plain(heading) for heading in self.headings]
        return next((plain.index(name) for name in names if name in plain), -1)

    @property
    def is_canvas(self) -> bool:
        """Whether this is Canvas's gradebook, whose `ID` is Canvas's own number of a student."""
        return {"student", "id", "section"} <= {_plain(heading) for heading in self.headings}


def read_sheet(path: Path) -> Sheet:
    """Read a CSV file: with or without a byte-order mark, with commas, semicolons or tabs.

    Raises
    ------
    UserError
        If it cannot be read as one.
    """
    with path.open("rb") as file:
        data = file.read(MOST_MB * 1_000_000 + 1)
    if len(data) > MOST_MB * 1_000_000:
        raise UserError(f"{path} has more than {MOST_MB} MB, which is too large for a roster.")
    decoded = _decoded(data)
    if "\0" in decoded:
        description = "not a CSV file"
        if data[:2] == b"PK":
            description = "a spreadsheet or another zip file, not a CSV file"
        raise UserError(
            f"{path} is {description}. Save the list as CSV (in a spreadsheet: Save As, CSV UTF-8)."
        )
    first, _, rest = decoded.partition("\n")
    separator_line = SEPARATOR.fullmatch(first.rstrip("\r"))
    if separator_line:
        delimiter = separator_line[1]
        decoded = rest
    else:
        delimiter = max(",;\t", key=first.count)
    lines = csv.reader(io.StringIO(decoded, newline=""), delimiter=delimiter)
    try:
        rows = {number: row for number, row in enumerate(lines, 1) if any(row)}
    except csv.Error as error:
        raise UserError(
            f"{path} is not a CSV file: {error}. Save the list as CSV (in a spreadsheet: Save As)."
        ) from None
    if not rows:
        raise UserError(f"{path} is empty.")
    headings, *others = rows.values()
    width = len(headings)
    # A row may have fewer or more cells than there are headings.
    filled = [(row + [""] * width)[:width] for row in others]
    return Sheet(path, [heading.strip() for heading in headings], filled, list(rows)[1:])


def _decoded(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    # UTF-16 without a byte-order mark: every second byte of ASCII text is zero.
    for zeros, encoding in ((data[1:20:2], "utf-16-le"), (data[:20:2], "utf-16-be")):
        if len(zeros) > 1 and not any(zeros):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:  # as spreadsheets on Chinese Windows write CSV: GBK, which is a part of this encoding
        chinese = data.decode("gb18030")
    except UnicodeDecodeError:
        chinese = ""
    # Spreadsheets of Western Europe write CSV in cp1252.
    return chinese if _is_chinese(chinese) else data.decode("cp1252", "replace")


def _is_chinese(decoded: str) -> bool:
    """Tell whether most words that are not ASCII are Chinese: a text that was decoded as GBK, but
    may be Western.

    Western letters before others also decode as GBK, often with English letters next to them:
    `Müller` as `M黮ler`. Such pairs are rare characters; a Chinese word has at least one common
    character.
    """
    words = re.findall(r"[A-Za-z\x80-\U0010ffff]+", decoded)
    foreign = [word for word in words if not word.isascii()]
    without_latin = [word for word in foreign if not re.search("[A-Za-z]", word)]
    chinese = [word for word in without_latin if any(map(_is_common, word))]
    return 2 * len(chinese) > len(foreign)


def _is_common(letter: str) -> bool:
    """Tell whether a character is one of the Chinese ones in GB 2312, whose two bytes are both
    outside of ASCII.
    """
    return "\u4e00" <= letter <= "\u9fff" and all(byte > 0xA0 for byte in letter.encode("gb18030"))


def _plain(heading: str) -> str:
    return " ".join(heading.replace("_", " ").split()).casefold()


def key(name: str) -> str:
    """Return a name for comparison: only letters and digits, without accents and strokes, in one
    case.
    """
    plain = unicodedata.normalize("NFKD", name).casefold().translate(PLAIN)
    letters = unicodedata.normalize("NFKD", plain)
    return "".join(letter for letter in letters if letter.isalnum())


def _bare(name: str) -> str:
    """Return the `key` of a name whose letters with accents a system replaced by blanks; "" if
    too little is left.
    """
    letters = unicodedata.normalize("NFC", name)
    bare = key("".join(letter for letter in letters if letter.isascii()))
    return bare if len(bare) >= LEAST_BARE and bare != key(name) else ""


@dataclass
class Roster:
    """A class; `find` returns the student that a file's clues mean."""

    people: list[Person]
    path: Path = Path()
    _known: dict[str, dict[str, list[Person]]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        tables: dict[str, defaultdict[str, list[Person]]] = {
            kind: defaultdict(list) for kind in ("number", "id", "email", "mailbox", "name", "bare")
        }
        for person in self.people:
            for number in person.numbers:
                tables["number"][" ".join(number)].append(person)
            for name in {person.id.casefold(), *map(str.casefold, person.also)}:
                tables["id"][name].append(person)
            if person.email:
                tables["email"][person.email.casefold()].append(person)
                tables["mailbox"][person.email.partition("@")[0].casefold()].append(person)
            for name in _names(person):
                tables["name"][name].append(person)
            for name in _names(person, _bare) - {""}:
                tables["bare"][name].append(person)
        self._known = {kind: dict(table) for kind, table in tables.items()}

    def columns(self) -> dict[str, dict[str, str]]:
        """Return the columns of nbgrader's table of students for each student, by id."""
        names = ("first_name", "last_name", "email")
        return {
            person.id: {name: getattr(person, name) for name in names} for person in self.people
        }

    def find(self, clues: Clues) -> tuple[Person | None, str]:
        """Return the student that the clues mean, or None and the reason; if they may mean
        several, also None.
        """
        names = {key(name) for name in clues.names} - {""}
        people = self._known["number"].get(" ".join(clues.number), [])
        names_there = set[str]()  # none if the system hides the names
        if len(people) == 1:
            names_there = _names(people[0]) | (_names(people[0], _bare) - {""})
        if clues.number[0] == "moodle" and names and names_there and names_there.isdisjoint(names):
            # Moodle numbers a class again for each assignment.
            reason = (
                f"its number belongs to {people[0].id}: is the roster the worksheet of "
                "another assignment?"
            )
            return None, reason
        if not people:
            people = self._by_words(clues, names)
        if len(people) == 1:
            return people[0], ""
        if people:
            return None, f"may be {' or '.join(person.id for person in people[:5])}"
        return None, "not in the roster"

    def knows(self, number: tuple[str, str]) -> bool:
        """Tell whether a system's number belongs to exactly one student."""
        return len(self._known["number"].get(" ".join(number), [])) == 1

    def _by_words(self, clues: Clues, names: set[str]) -> list[Person]:
        """Return the students that the ids and e-mails mean, or else the names; all of them if
        these disagree.
        """
        words = [
            (kind, word.casefold()) for word in clues.ids for kind in ("id", "email", "mailbox")
        ]
        by_id = self._all(words)
        by_name = self._all([("name", name) for name in sorted(names)])
        by_name = by_name or self._all([("bare", name) for name in sorted(names)])
        if by_id and by_name and not any(person in by_name for person in by_id):
            return by_id + by_name
        return by_id or by_name

    def _all(self, words: list[tuple[str, str]]) -> list[Person]:
        people = (person for kind, word in words for person in self._known[kind].get(word, []))
        return list(dict.fromkeys(people))


def _names(person: Person, reading: Callable[[str], str] = key) -> set[str]:
    """Return all forms of a person's name, by `key`: first name first, last name first, and so
    on.
    """
    words = f"{person.first_name} {person.last_name}".split()
    return {reading("".join(words[cut:] + words[:cut])) for cut in range(len(words))}


def read(path: Path) -> Roster:
    """Read the roster of a class from a CSV file.

    Raises
    ------
    UserError
        If it has no column that identifies a student, or if ids occur twice or cannot be names of
        folders.
    """
    return of_sheet(read_sheet(path))


def of_sheet(sheet: Sheet) -> Roster:
    """Return the class in a sheet; see `read`."""
    where = {field: _where(sheet, names) for field, names in COLUMNS.items()}
    number = sheet.column(IDENTIFIER), "moodle"
    if sheet.is_canvas:
        number = sheet.column("id"), "canvas"
        # Canvas's own number is no id that the school knows.
        where["id"].remove(number[0])
    if not where["id"] and not where["email"] and number[0] < 0:
        listed = ", ".join(text.line(heading, 40) for heading in sheet.headings[:12])
        raise UserError(
            f"{sheet.path} has no column that identifies students, such as id or email. Its "
            f"headings are: {listed}."
        )
    people: list[Person] = []
    lines: dict[str, int] = {}
    for index, row in enumerate(sheet.rows):
        person = _person(sheet, row, index, where, number)
        if person is None:
            continue
        line = f"{sheet.path}, row {sheet.numbers[index]}"
        unfit = text.unfit(person.id)
        if unfit:
            raise UserError(
                f"{line}: the id {text.line(person.id, 60)!r} {unfit}. Correct it in the roster."
            )
        earlier = lines.setdefault(same_folder(person.id), sheet.numbers[index])
        if earlier != sheet.numbers[index]:
            raise UserError(
                f"{line}: the id {person.id!r} is already in row {earlier}. Correct "
                "it in the roster."
            )
        people.append(person)
    if not people:
        raise UserError(f"{sheet.path} has no students.")
    return Roster(people, sheet.path)


def same_folder(name: str) -> str:
    """Return a key that is equal for two names that are the same folder on some system, or look
    the same.
    """
    # Without invisible characters, such as a space of no width.
    shown = (letter for letter in name if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFC", "".join(shown)).casefold()


def _where(sheet: Sheet, names: Sequence[str]) -> list[int]:
    plain = [_plain(heading) for heading in sheet.headings]
    return [plain.index(name) for name in names if name in plain]


def _person(
    sheet: Sheet,
    row: Sequence[str],
    index: int,
    where: dict[str, list[int]],
    number: tuple[int, str],
) -> Person | None:
    """Return the person in a row; None if there is none, as in Canvas's rows about the
    assignments.
    """

    def value(column: str) -> str:
        texts = (_value(row[at]) for at in where[column])
        return next(filter(None, texts), "")

    # Canvas's row of the most points, which has no student.
    if row and row[0].strip().startswith("Points Possible"):
        return None
    number_there = _value(row[number[0]]) if number[0] >= 0 else ""
    digits = re.search(r"\d+$", number_there)
    identity = value("id") or value("email") or number_there
    if not identity:
        return None
    first, last = value("first_name"), value("last_name")
    if value("name") and not (first and last):
        first, last = _parted(value("name"))
    submitted = sheet.column(SUBMITTED)
    return Person(
        id=identity,
        first_name=first,
        last_name=last,
        email=value("email"),
        numbers=((number[1], digits[0]),) if digits else (),
        also=tuple(filter(None, (_value(row[at]) for at in where["id"]))),
        row=index,
        handed_in=row[submitted].strip() if submitted >= 0 else "",
    )


def _value(cell: str) -> str:
    """Return a cell without the apostrophe that keeps a spreadsheet from taking it for a
    formula.
    """
    value = cell.strip()
    return value[1:] if value[:1] == "'" and value[1:2] in text.FORMULA else value


def _parted(name: str) -> tuple[str, str]:
    """Return the first and last name of a full name: split at the comma, or else before the last
    word.
    """
    last, comma, first = name.partition(",")
    if not comma:
        first, _, last = name.rpartition(" ")
    return first.strip(), last.strip()

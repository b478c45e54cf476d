"""Exports grades and feedback to a learning platform, with the columns and file names that it
imports.

Moodle and Canvas identify a row by numbers of their own. So their files are filled in, not made:
Moodle's grading worksheet, and Canvas's gradebook. Other fields that they would import, such as
comments, are left out.
"""

import contextlib
import csv
import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from autograder.checking import files
from autograder.course.config import Course, UserError
from autograder.grades import records
from autograder.sanitize import text
from autograder.school import roster
from autograder.school.layouts import Exercises
from autograder.school.roster import Clues, Roster, Sheet

Grade = dict[str, Any]
"""A grade under nbgrader's own names, as `records.rows` has it."""


class System(StrEnum):
    """Where grades go."""

    CSV = "csv"
    MOODLE = "moodle"
    CANVAS = "canvas"
    GRADESCOPE = "gradescope"


WHERE = {
    System.MOODLE: "Moodle's grading worksheet (in English: Submissions, Download grading "
    "worksheet)",
    System.CANVAS: "Canvas's gradebook (Grades: Export, Export Entire Gradebook)",
}
GRADESCOPE = ["First Name", "Last Name", "SID", "Email", "Total Score", "Max Points", "Status"]
PERSONAL = ("student_id", "last_name", "first_name", "email", "timestamp")
MAIL_MERGE = "mail-merge.csv"
NUMBERS = (roster.IDENTIFIER, "grade", "maximum grade", "last modified (grade)")
PEOPLE = ("full name", "id number", "username", "email address", "status")
"""The columns of Moodle's worksheet that are kept: those that its importer needs, and those that
name a student.
"""


@dataclass(frozen=True)
class Line:
    """A row of a file, and the grades in it."""

    cells: list[str]
    grades: list[Grade]


@dataclass
class Exported:
    """The content of an export.

    Attributes
    ----------
    key, values : list of int
        The columns that identify a row, and those with its grades.
    above : list of list of str
        Rows between the headings and the students.
    missing : list of (str, str)
        The students whose grades are not in it, and why.
    """

    headings: list[str]
    lines: list[Line]
    key: list[int]
    values: list[int]
    above: list[list[str]] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)

    def changed_since(self, path: Path) -> None:
        """Leave out the rows whose grades are those of an earlier file.

        Raises
        ------
        UserError
            If that file has different columns.
        """
        earlier = roster.read_sheet(path)
        names = [self.headings[at] for at in (*self.key, *self.values)]
        if not set(names) <= set(earlier.headings):
            raise UserError(
                f"{path} has other columns than this export. Name a file that the "
                "same command wrote."
            )
        where = [earlier.headings.index(name) for name in names]
        known = {tuple(row[at].strip() for at in where) for row in earlier.rows}
        self.lines = [
            line
            for line in self.lines
            if tuple(line.cells[at].strip() for at in (*self.key, *self.values)) not in known
        ]

    def write(self, path: Path) -> None:
        """Write the file, all or nothing."""
        with files.replaced(path) as new, new.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(
                [self.headings, *self.above, *(line.cells for line in self.lines)]
            )


def to_csv(grades: list[Grade], anonymous: bool) -> Exported:
    """Return all grades in the columns of nbgrader's own export."""
    headings = list(grades[0])
    exercise, student = headings.index("assignment"), headings.index("student_id")
    names = records.numbered(grade["student_id"] for grade in grades) if anonymous else {}
    lines = []
    for grade in grades:
        shown = grade
        if names:
            hidden = dict.fromkeys(PERSONAL, "")
            shown = {**grade, **hidden, "student_id": names[grade["student_id"]]}
        lines.append(Line([_cell(value) for value in shown.values()], [grade]))
    if names:  # by number: as they come, the names in the gradebook give the order
        lines.sort(key=lambda line: (line.cells[exercise], _number(line.cells[student])))
    values = [
        headings.index(name) for name in ("score", "max_score", "needs_manual_grade", "pending")
    ]
    return Exported(headings, lines, [exercise, student], values)


def to_gradescope(grades: list[Grade], anonymous: bool) -> Exported:
    """Return the grades of one exercise with the columns of Gradescope's own export."""
    _only_exercise(grades)
    names = records.numbered(grade["student_id"] for grade in grades) if anonymous else {}
    lines = []
    for grade in grades:
        person = [grade["first_name"], grade["last_name"], grade["student_id"], grade["email"]]
        if names:
            person = ["", "", names[grade["student_id"]], ""]
        cells = [*person, _points(grade["score"]), _points(grade["max_score"]), "Graded"]
        lines.append(Line([_cell(value) for value in cells], [grade]))
    if names:
        lines.sort(key=lambda line: _number(line.cells[2]))
    return Exported(GRADESCOPE, lines, [2, 3], [4, 5])


def _number(name: str) -> int:
    """Return the number in a name from `records.numbered`."""
    return int(name.rpartition(" ")[2])


def to_moodle(grades: list[Grade], sheet: Sheet, anonymous: bool) -> Exported:
    """Return Moodle's worksheet of an assignment with the grades in it.

    Raises
    ------
    UserError
        If it is not a worksheet, or its assignment has different points than the exercise.
    """
    exercise = _only_exercise(grades)
    key, points = sheet.column(roster.IDENTIFIER), sheet.column("grade")
    if key < 0 or points < 0:
        raise UserError(
            f"{sheet.path} has no columns Identifier and Grade. Name {WHERE[System.MOODLE]}."
        )
    matched, missing = _matched(grades, sheet, System.MOODLE)
    most = sheet.column("maximum grade")
    lines = []
    for row, (grade,) in matched.items():
        cells = list(sheet.rows[row])
        if most >= 0:
            _check_points(cells[most], grade, exercise, "Moodle's assignment")
        cells[points] = _points(grade["score"])
        lines.append(Line([_cell(value) for value in cells], [grade]))
    columns = [sheet.column(name) for name in (NUMBERS if anonymous else (*NUMBERS, *PEOPLE))]
    exported = Exported(sheet.headings, lines, [key], [points], missing=missing)
    return _with_columns(exported, sorted(at for at in columns if at >= 0))


def to_canvas(grades: list[Grade], sheet: Sheet, known: Exercises, anonymous: bool) -> Exported:
    """Return Canvas's gradebook with the grades in it: who they are, and a column for each
    exercise.

    An exercise's column is the one that has its name or its title; where there is none, Canvas
    offers to make one.

    Raises
    ------
    UserError
        If it is not a Canvas gradebook, or its assignment has different points than the exercise.
    """
    if not sheet.is_canvas:
        raise UserError(
            f"{sheet.path} has no columns Student, ID and Section. Name {WHERE[System.CANVAS]}."
        )
    key, last = sheet.column("id"), sheet.column("section")
    columns = {
        name: _assignment(sheet, name, known)
        for name in dict.fromkeys(grade["assignment"] for grade in grades)
    }
    matched, missing = _matched(grades, sheet, System.CANVAS)
    headings = sheet.headings[: last + 1] + [
        sheet.headings[at] if at >= 0 else name for name, at in columns.items()
    ]
    worth = {grade["assignment"]: grade for grade in grades}
    above = []
    # Canvas has up to three rows of its own before the students.
    for row in sheet.rows[:3]:
        if row[0].strip().startswith("Points Possible"):
            for name, at in columns.items():
                _check_points(row[at] if at >= 0 else "", worth[name], name, "Canvas's assignment")
            above = [row[: last + 1] + [_points(worth[name]["max_score"]) for name in columns]]
    lines = []
    for row_at, own_grades in matched.items():
        row = sheet.rows[row_at]
        points = {grade["assignment"]: _points(grade["score"]) for grade in own_grades}
        cells = [
            *row[: last + 1],
            *(points.get(name, row[at] if at >= 0 else "") for name, at in columns.items()),
        ]
        lines.append(Line([_cell(value) for value in cells], own_grades))
    values = list(range(last + 1, len(headings)))
    exported = Exported(headings, lines, [key], values, above, missing)
    # The columns stay, because Canvas asks for them; only its number identifies a student.
    if anonymous:
        for line in exported.lines:
            for at in range(last + 1):
                if at != key:
                    line.cells[at] = ""
    return exported


def feedback(course: Course, exported: Exported, system: System, path: Path) -> list[str]:
    """Write the feedback pages of an export into one zip file; return the submissions without a
    page.

    For Moodle the files are named for its "Upload multiple feedback files in a zip". For others
    each has the names of the student and the exercise, and a CSV file next to them lists addresses,
    points and pages, for a mail merge.
    """
    lacking: list[str] = []
    listed: list[list[str]] = []
    taken: set[str] = set()
    with files.replaced(path) as new, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
        for line in exported.lines:
            for grade in line.grades:
                student, exercise = grade["student_id"], grade["assignment"]
                page = course.paths_of(student, exercise).page
                if not page.exists():
                    lacking.append(f"{student} {exercise}")
                    continue
                if system == System.MOODLE:
                    # Moodle's identifier has a word before the number: `Participant 51`.
                    number = re.sub(r"\D", "", line.cells[exported.key[0]])
                    # Moodle reads the parts between underscores, so that the name must have none.
                    name = f"{_file_name(student).replace('_', ' ')}_{number}_assignfeedback_file_{exercise}.html"  # noqa: E501
                else:
                    name = f"{_distinct(f'{_file_name(student)}_{exercise}', taken)}.html"
                    person = [
                        grade[key]
                        for key in ("email", "first_name", "last_name", "student_id", "assignment")
                    ]
                    points = [_points(grade["score"]), _points(grade["max_score"])]
                    listed.append([_cell(value) for value in (*person, *points, name)])
                archive.write(page, name)
        if system != System.MOODLE:
            buffer = io.StringIO()
            headings = [
                "Email",
                "First Name",
                "Last Name",
                "Student",
                "Exercise",
                "Points",
                "Of",
                "Attachment",
            ]
            csv.writer(buffer).writerows([headings, *listed])
            archive.writestr(MAIL_MERGE, buffer.getvalue())
    return lacking


def pending(grades: Iterable[Grade]) -> int:
    """Return how many grades may still rise: they need a manual grade, or have pending points."""
    return sum(bool(grade["needs_manual_grade"] or grade["pending"]) for grade in grades)


def _only_exercise(grades: Sequence[Grade]) -> str:
    names = sorted({grade["assignment"] for grade in grades})
    if len(names) > 1:
        raise UserError(f"This format holds one exercise. Name one of {', '.join(names)}.")
    return str(names[0])


def _matched(
    grades: list[Grade], sheet: Sheet, system: System
) -> tuple[dict[int, list[Grade]], list[tuple[str, str]]]:
    """Return the grades by their row in the sheet, in its order, and the students who are in
    none.
    """
    people = roster.of_sheet(sheet)
    by_row: dict[int, list[Grade]] = {}
    missing: dict[str, str] = {}
    for grade in grades:
        person, reason = _person(grade, people, system)
        if person is None:
            missing[grade["student_id"]] = reason.replace("the roster", sheet.path.name)
            continue
        row_grades = by_row.setdefault(person.row, [])
        if any(other["student_id"] != grade["student_id"] for other in row_grades):
            both = f"{row_grades[0]['student_id']} and {grade['student_id']}"
            raise UserError(
                f"{both} both match {person.id} in {sheet.path}. Correct the roster, "
                "and collect again."
            )
        row_grades.append(grade)
    if not by_row:
        raise UserError(f"No student with a grade is in {sheet.path}. Name {WHERE[system]}.")
    return dict(sorted(by_row.items())), sorted(missing.items())


def _person(grade: Grade, people: Roster, system: System) -> tuple[roster.Person | None, str]:
    """Return the person whose grade this is, from the student's data in the gradebook."""
    student = grade["student_id"]
    number = re.search(r"_(\d+)$", student)  # as `collect` names Canvas's students without a roster
    return people.find(
        Clues(
            (system.value, number[1]) if number and system == System.CANVAS else ("", ""),
            ids=(student, grade["email"]),
            names=(f"{grade['first_name']} {grade['last_name']}", student),
        )
    )


def _assignment(sheet: Sheet, name: str, known: Exercises) -> int:
    """Return the column of an exercise in Canvas's gradebook, by its name or its title; -1 if
    there is none.
    """
    title = roster.key(known.all[name].title) if name in known.all else ""
    columns = []
    for at, heading in enumerate(sheet.headings):
        # Canvas adds its own number of the assignment.
        assignment = re.sub(r" \(\d+\)$", "", heading)
        has_name = name in (assignment, known.named(assignment))
        if has_name or (title and roster.key(assignment) == title):
            columns.append(at)
    if len(columns) > 1:
        headings = " and ".join(sheet.headings[at] for at in columns)
        raise UserError(
            f"{sheet.path} has several columns for {name}: {headings}. Remove all but one."
        )
    return columns[0] if columns else -1


def _check_points(points_there: str, grade: Grade, exercise: str, assignment: str) -> None:
    """Refuse a scale that isn't the exercise's: the points would be misread."""
    with contextlib.suppress(ValueError):
        # Some languages have a decimal comma. A cell that is no number says nothing about the
        # scale.
        most = float(points_there.replace(",", "."))
        if abs(most - grade["max_score"]) > 0.005:
            points = _points(grade["max_score"])
            raise UserError(
                f"{assignment} has {most:g} points, but {exercise} has {points}. "
                f"Set it to {points} there, and export it again."
            )


def _with_columns(exported: Exported, columns: list[int]) -> Exported:
    """Return an export with only some of its columns."""
    lines = [Line([line.cells[at] for at in columns], line.grades) for line in exported.lines]
    headings = [exported.headings[at] for at in columns]
    key = [columns.index(at) for at in exported.key]
    values = [columns.index(at) for at in exported.values]
    return Exported(headings, lines, key, values, missing=exported.missing)


def _points(points: float) -> str:
    return f"{points:.2f}".rstrip("0").rstrip(".")


def _cell(value: object) -> str:
    """Return a value as text that a spreadsheet won't take for a formula; "-" is none."""
    if isinstance(value, str) and value != "-":
        return str(text.cell_of_table(value))
    return str(value)


def _file_name(student: str) -> str:
    # The list for a mail merge has this as a cell as well, which may be no formula.
    return re.sub(r'^[-=+@]|[<>:"/\\|?*]', "_", text.name(student))


def _distinct(name: str, taken: set[str]) -> str:
    """Return a name, with a number after it if it is taken, and take it; file systems may ignore
    case.
    """
    distinct, number = name, 1
    while distinct.casefold() in taken:
        number += 1
        distinct = f"{name}-{number}"
    taken.add(distinct.casefold())
    return distinct

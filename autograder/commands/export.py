"""The command `export`: grades for nbgrader's users and for learning platforms."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.commands.console import (
    Database,
    Into,
    Names,
    Root,
    check_writable,
    course_at,
    keep_private,
    say,
    short,
    warn,
)
from autograder.course.config import ROOT, Course, UserError
from autograder.course.watch_settings import LTI

if TYPE_CHECKING:
    from autograder.school.exporting import Exported, System

GRADE_FIRST = "Grade first: python -m autograder grade"

SystemName = Annotated[
    str,
    typer.Option("--for", help="csv, moodle, canvas or gradescope; lti sends scores at once."),
]
Sheet = Annotated[
    Path | None,
    typer.Option(
        help="Moodle's grading worksheet or Canvas's gradebook, to fill in.", show_default=False
    ),
]
EarlierExport = Annotated[
    Path | None,
    typer.Option(
        help="An earlier export: write only changes since then.", show_default="all grades"
    ),
]
FeedbackZip = Annotated[
    Path | None,
    typer.Option(help="Zip file to write with all feedback pages.", show_default="none"),
]
WithoutNames = Annotated[
    bool,
    typer.Option(
        "--anonymous", help="Leave out names and addresses, so that others may see the file."
    ),
]
ExportedFile = Annotated[
    Path | None,
    typer.Option(
        help="File to write.", show_default="grades.csv, or such as grades-moodle.csv, in --into"
    ),
]


def export(
    exercises: Names = None,
    system: SystemName = "csv",
    sheet: Sheet = None,
    since: EarlierExport = None,
    feedback: FeedbackZip = None,
    into: Into = None,
    db: Database = "",
    anonymous: WithoutNames = False,
    to: ExportedFile = None,
    root: Root = ROOT,
) -> None:
    """Write the grades as CSV, with the columns of nbgrader's own export or of your learning
    platform.

    Moodle and Canvas import only a file that they exported, with the grades filled in: name it with
    --sheet. With `--for lti`, no file is written: the learning platform gets the scores that it
    does not have yet.
    """
    from autograder.school.exporting import System

    course = course_at(root, into, db)
    keep_private(course)
    if system == LTI:
        of_files = bool(sheet or since or feedback or to or anonymous)
        _send_scores(course, exercises or (), of_files)
        return
    _check_export(system, feedback, since, anonymous)
    if not course.has_gradebook:
        raise UserError(f"There is no gradebook at {course.gradebook}. {GRADE_FIRST}")
    kind = "" if system == System.CSV else f"-{system}"
    without_names = "-anonymous" if anonymous else ""
    path = to or course.output_folder / f"grades{kind}{without_names}.csv"
    _check_places(path, sheet, since, feedback)
    exported = _exported(
        course, System(system), _chosen_grades(course, exercises or ()), sheet, anonymous
    )
    if since:
        exported.changed_since(since)
        if not exported.lines:
            say(f"No grade has changed since {short(since, course)}. Nothing was written.")
            return
    exported.write(path)
    written = [grade for line in exported.lines for grade in line.grades]
    say(f"{len(written)} grades: {short(path, course)}")
    if feedback:
        _write_feedback(course, exported, System(system), feedback)
    _warn_of_missing(exported, anonymous)
    _warn_of_requests(course, written)
    if system != System.CSV:  # which says so in columns of its own
        _warn_of_pending(written)


def _chosen_grades(course: Course, exercises: Sequence[str]) -> list[dict[str, Any]]:
    """Return the gradebook's rows for these exercises, or all of them.

    Raises
    ------
    UserError
        If there are none, or for a name that is no exercise.
    """
    from autograder.grades import records

    grades = records.rows(course)
    # An exercise that was removed from the course still has grades.
    unknown = set(exercises) - {row["assignment"] for row in grades}
    if unknown:
        course.exercises(sorted(unknown))  # raises for a name that is no exercise
    grades = [row for row in grades if not exercises or row["assignment"] in exercises]
    if not grades:
        named = f" for {', '.join(exercises)}" if exercises else ""
        raise UserError(
            f"There are no grades{named} in {course.database} yet. Run: python -m autograder grade"
        )
    return grades


def _write_feedback(course: Course, exported: "Exported", system: "System", path: Path) -> None:
    """Write the feedback pages of the exported grades into a zip file."""
    from autograder.school import exporting

    without_page = exporting.feedback(course, exported, system, path)
    count = sum(len(line.grades) for line in exported.lines) - len(without_page)
    say(f"{count} pages: {short(path, course)}")
    if without_page:
        warn(
            f"{len(without_page)} have no page, such as {without_page[0]}. Run: python -m "
            "autograder grade"
        )


def _warn_of_missing(exported: "Exported", anonymous: bool) -> None:
    """Warn about students whose grades are not in the file, such as those whom a sheet lacks."""
    if not anonymous:
        for student, reason in exported.missing:
            warn(f"{student} is not in the file: {reason}.")
    elif exported.missing:
        warn(f"{len(exported.missing)} students have grades but are not in the file.")


def _warn_of_requests(course: Course, written: Sequence[dict[str, Any]]) -> None:
    """Warn about written grades for which a student has asked for a regrade."""
    from autograder.grades import records

    requests = records.open_requests(course)
    asked = {(record.student, record.assignment) for record in requests}
    asked &= {(row["student_id"], row["assignment"]) for row in written}
    if asked:
        warn(f"{len(asked)} of these grades have an open regrade request. The report lists them.")


def _warn_of_pending(written: Sequence[dict[str, Any]]) -> None:
    """Warn about written grades that are not final yet."""
    from autograder.school import exporting

    pending = exporting.pending(written)
    if pending:
        warn(
            f"{pending} of these grades may still rise: they need a manual grade, or have "
            "pending points."
        )


def _check_export(system: str, feedback: Path | None, since: Path | None, anonymous: bool) -> None:
    """Raise `UserError` for a format that does not exist, or options that contradict each other."""
    from autograder.school.exporting import System

    if system not in list(System):
        raise UserError(f"There is no format {system!r}. Use one of {', '.join(System)}.")
    if feedback and anonymous:
        raise UserError("Feedback pages name their students. Leave out --feedback or --anonymous.")
    # Moodle's and Canvas's files keep an id without the names.
    if since and anonymous and system in (System.CSV, System.GRADESCOPE):
        raise UserError(
            "Without names, changed grades cannot be found. Leave out --since or --anonymous."
        )


def _send_scores(course: Course, exercises: Sequence[str], of_files: bool) -> None:
    """Send the learning platform the scores that it does not have yet, and say what became of them.

    `of_files` says whether the user gave an option for files.

    Raises
    ------
    UserError
        If the platform has not taken all of them, or such an option was given.
    """
    from autograder.school import lti

    if of_files:
        raise UserError(
            "--for lti writes no file. Leave out --sheet, --since, --feedback, --anonymous and "
            "--to."
        )
    course.exercises(exercises)  # raises for an unknown name
    if not course.has_gradebook:
        raise UserError(f"There is no gradebook at {course.gradebook}. {GRADE_FIRST}")
    sent = lti.send(course, exercises)
    for line in sent.lines():
        say(line)
    if sent.hidden:
        say(f"{sent.hidden} scores are not sent yet: c.Watch.shows hides them from students.")
    for student in sent.unknown:
        warn(f"{student} has never logged in through the learning platform, so no score was sent.")
    if not sent.lines():
        say("The learning platform has all scores.")
    if sent.refused:
        raise UserError("The learning platform has not taken all scores (see above).")


def _check_places(
    path: Path, sheet: Path | None, since: Path | None, feedback: Path | None
) -> None:
    """Raise `UserError` unless the export can be written, without overwriting a file that the
    same command reads.
    """
    # Each file that is written is compared with those that are read, and these two with each other.
    named = {"--sheet": sheet, "--since": since, "--feedback": feedback, "--to": path}
    for option in ("--to", "--feedback"):
        written = named.pop(option)
        if written:
            check_writable(written, option)
        for other, other_path in named.items():
            if written and other_path and other_path.resolve() == written.resolve():
                raise UserError(
                    f"{written} is also the file of {other}, and would be overwritten. Name "
                    f"another with {option}."
                )


def _exported(
    course: Course,
    system: "System",
    grades: list[dict[str, Any]],
    sheet: Path | None,
    anonymous: bool,
) -> "Exported":
    """Return grades in the format of a system."""
    from autograder.school import exporting, roster
    from autograder.school.exporting import System
    from autograder.school.layouts import Exercises

    if system in exporting.WHERE:
        if sheet is None:
            raise UserError(
                f"{system.title()} imports only a file that it exported. Name "
                f"{exporting.WHERE[system]} with --sheet."
            )
        filled = roster.read_sheet(sheet)
        if system == System.MOODLE:
            return exporting.to_moodle(grades, filled, anonymous)
        return exporting.to_canvas(grades, filled, Exercises(course.exercises()), anonymous)
    if sheet is not None:
        raise UserError(
            "--sheet is for Moodle and Canvas. Add --for moodle or --for canvas, or "
            "leave out --sheet."
        )
    if system == System.GRADESCOPE:
        return exporting.to_gradescope(grades, anonymous)
    return exporting.to_csv(grades, anonymous)

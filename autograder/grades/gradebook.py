"""Reads and writes nbgrader's gradebook; one process grades into it at a time.

`Writer` and `rows` query nbgrader's tables directly; the rest uses its API.
"""

import contextlib
import difflib
import functools
import logging
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import nbformat
import nbgrader.api
from alembic.script import ScriptDirectory
from nbgrader.api import (
    Assignment,
    Base,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    InvalidEntry,
    MissingEntry,
    SolutionCell,
    SourceCell,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    new_uuid,
)
from nbgrader.preprocessors import SaveCells
from nbgrader.utils import is_grade, is_solution
from sqlalchemy import Connection, bindparam, insert, inspect, make_url, select, text, update
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from autograder.course import deadlines, locks
from autograder.course.config import Course, Exercise, UserError, masked
from autograder.grades import database, late
from autograder.grades.results import (
    Deadline,
    Kind,
    Outcome,
    StoredCell,
    StoredGrades,
    SubmissionScore,
)

# nbgrader logs each database error with a traceback; the user gets one line of ours instead.
QUIET = logging.getLogger("autograder.nbgrader")
QUIET.setLevel(logging.CRITICAL)

STUDENTS, SUBMISSIONS, NOTEBOOKS, GRADES, COMMENTS = (
    kind.__table__ for kind in (Student, SubmittedAssignment, SubmittedNotebook, Grade, Comment)
)

NO_RESPONSE = "No response."
"""nbgrader's comment on an answer that was left as it was given."""

SAME_POINTS = 0.005
"""Up to this difference, points count as the same."""

PAUSES = (0.0, 1.0, 2.0, 4.0)
"""Seconds before each retry of a write after a dropped connection: a server takes a while to
restart.
"""

Done = TypeVar("Done")


class GradeRefused(Exception):
    """The gradebook does not accept this submission."""


@contextmanager
def opened(course: Course, on_wait: Callable[[str], None] | None = None) -> Iterator[Gradebook]:
    """Open the course's gradebook, and make it if there is none.

    Parameters
    ----------
    course : Course
    on_wait : callable, optional
        Given by a process that grades into it. With every database, only one such process runs at a
        time: another waits until it ends, and calls this once with a line that names it. Readers
        and manual graders do not wait.

    Raises
    ------
    UserError
        If the database reports an error, is not a gradebook, or has another course.
    """

    def wait(holder: str) -> None:
        assert on_wait is not None
        on_wait(f"Waiting until the gradebook {course.database} is free. In use by: {holder}.")
        # For `is_wanted`: a `watch` that has the gradebook takes no more submissions then.
        while_waiting.enter_context(locks.lock(_wish_of(course), lambda holder: None))

    try:
        with contextlib.ExitStack() as while_waiting, contextlib.ExitStack() as stack:
            if on_wait and not database.is_server(course.db_url):
                stack.enter_context(locks.lock(_lock_of(course), wait))
            gradebook = stack.enter_context(
                _open(course.db_url, course.course_id, wait if on_wait else None)
            )
            while_waiting.close()
            foreign = sorted({a.course_id for a in gradebook.assignments} - {course.course_id})
            if foreign:
                raise UserError(
                    f"{course.database} is the gradebook of another course ({', '.join(foreign)}). "
                    "Name this course's own with --db, or move that one away."
                )
            # The query began a transaction, and none should stay open for as long as a class takes.
            gradebook.db.rollback()
            yield gradebook
    except (SQLAlchemyError, InvalidEntry) as error:
        fix = database.fix(error)
        raise UserError(
            f"The gradebook {course.database} cannot be used: {database.reason(error)}. {fix}"
            f"{'Or name' if fix else 'Name'} another with --db. Nothing in this one was changed."
        ) from error


def _lock_of(course: Course) -> Path:
    """Return the lock file for a database that is a file, or for which we know no other lock."""
    url = make_url(course.db_url)
    # Next to the file, so that all who grade into it find the same lock.
    named = url.database if url.get_backend_name() == "sqlite" else None
    path = Path(named) if named and named != ":memory:" else course.gradebook
    return path.with_name(f"{path.name}.lock")


def _wish_of(course: Course) -> Path:
    """Return the file that a process locks while it waits for the gradebook."""
    lock = _lock_of(course)
    return lock.with_suffix(".wanted")


def is_wanted(course: Course) -> bool:
    """Tell whether another process of this machine waits for the gradebook, to grade into it."""
    return locks.is_locked(_wish_of(course))


def _open(url: str, course_id: str, wait: Callable[[str], None] | None = None) -> Gradebook:
    """Return nbgrader's gradebook with a connection of ours.

    Raises
    ------
    UserError
        If its database was made by another version of nbgrader.
    """
    with _patched_nbgrader(
        create_engine=functools.partial(database.engine, on_wait=wait), app_log=QUIET
    ):
        gradebook = Gradebook(url, course_id)
    try:
        _check_version(gradebook.db.connection(), url)
        gradebook.db.rollback()
    except BaseException:
        gradebook.close()
        raise
    return gradebook


def _check_version(connection: Connection, url: str) -> None:
    """Raise `UserError` unless the tables are those of this nbgrader."""
    scripts, tables = _scripts(), inspect(connection)
    # Alembic, which makes nbgrader's tables, keeps their version in a table of its own.
    version = None
    if tables.has_table("alembic_version"):
        version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if version is None:  # its maker was killed before the version was written, or it is very old
        columns = {column["name"] for column in tables.get_columns(STUDENTS.name)}
        version = scripts.get_current_head() if columns == set(STUDENTS.columns.keys()) else None
    if version == scripts.get_current_head():
        return
    if version is None or version in {script.revision for script in scripts.walk_revisions()}:
        # Its last migration adds a column that may not be NULL, and only in SQLite does it give
        # existing rows a value.
        fix = (
            "nbgrader cannot upgrade that on a server: keep it, and name a new database with --db."
            if database.is_server(url)
            else f"Make a copy of it, then run: nbgrader db upgrade --db {url}"
        )
        raise UserError(f"The gradebook {masked(url)} was made by an older nbgrader. {fix}")
    raise UserError(
        f"The gradebook {masked(url)} was made by a newer nbgrader than this one "
        f"({nbgrader.__version__}). Install the newer nbgrader, or name another gradebook with "
        "--db."
    )


@contextmanager
def _patched_nbgrader(**replacements: Any) -> Iterator[None]:
    """Let nbgrader use these in place of its own, and know the version of its newest tables.

    By itself it starts another Python to find out, which takes seconds.
    """
    replacements["get_alembic_version"] = _scripts().get_current_head
    originals = {name: getattr(nbgrader.api, name) for name in replacements}
    vars(nbgrader.api).update(replacements)
    try:
        yield
    finally:
        vars(nbgrader.api).update(originals)


def _scripts() -> ScriptDirectory:
    """Return the versions of its tables that nbgrader knows."""
    return ScriptDirectory(str(Path(nbgrader.__file__).parent / "alembic"))


def copy(source: str, target: str) -> int:
    """Copy a whole gradebook into a database that has none yet; return the number of rows.

    Parameters
    ----------
    source, target : str
        Their URLs, of any databases. The first is only read; on a server, in one consistent
        snapshot.

    Raises
    ------
    UserError
        If one of them cannot be used, or the second is not empty.
    """
    url_in_use = source  # the message about an error names the database in use then
    try:
        with contextlib.ExitStack() as stack:
            engines = [database.engine(url) for url in (source, target)]
            for engine in engines:
                stack.callback(engine.dispose)
            source_connection = stack.enter_context(engines[0].connect())
            if database.is_server(source):
                source_connection = source_connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            # nbgrader makes the tables when it first opens a database.
            if not inspect(source_connection).has_table(Student.__tablename__):
                return 0
            _check_version(source_connection, source)
            url_in_use = target
            _open(target, "").close()  # makes the tables
            target_connection = stack.enter_context(engines[1].begin())
            for table in Base.metadata.sorted_tables:
                if target_connection.execute(select(table).limit(1)).first():
                    raise UserError(f"{masked(target)} already has grades. Name a new database.")
            url_in_use = source
            count = _copy_rows(source_connection, target_connection)
    except SQLAlchemyError as error:
        raise UserError(
            f"The gradebook {masked(url_in_use)} cannot be copied: {database.reason(error)}. "
            f"{database.fix(error)}Nothing was written."
        ) from error
    return count


def _copy_rows(source: Connection, target: Connection) -> int:
    count = 0
    # Sorted so that a row comes after the rows to which it refers.
    for table in Base.metadata.sorted_tables:
        rows = [dict(row) for row in source.execute(select(table)).mappings()]
        count += len(rows)
        if rows:
            target.execute(insert(table), rows)
    return count


def register(course: Course, gradebook: Gradebook, exercise: Exercise) -> None:
    """Write an exercise's cells and points into the gradebook, so that submissions can refer to
    them.
    """
    released = nbformat.read(exercise.notebook, as_version=4)
    gradebook.update_or_create_assignment(exercise.name, course_id=course.course_id)
    if _is_registered(gradebook, exercise.name, released):
        return
    resources = {
        "nbgrader": {
            "assignment": exercise.name,
            "notebook": exercise.name,
            "student": None,
            "db_url": course.db_url,
        }
    }
    _update_cells(gradebook, exercise.name, released)
    # nbgrader writes through a connection of its own; at the end, this one reads all of it again.
    gradebook.db.rollback()
    try:
        with _patched_nbgrader():
            SaveCells(config=course.config, log=QUIET).preprocess(released, resources)
    except RuntimeError:
        raise UserError(
            f"{course.database} has grades for another version of {exercise.name}, with different "
            "cells. Keep that gradebook for that version, and name a new one with --db."
        ) from None
    gradebook.db.expire_all()


def _update_cells(gradebook: Gradebook, name: str, released: Any) -> None:
    """Give an exercise that has submissions the cells of a newer release, which nbgrader refuses to
    do.

    A new cell gets a row for each submission, without points yet. A removed text cell is deleted.
    If a removed cell has points or an answer, nothing is changed.
    """
    try:
        notebook = gradebook.find_notebook(name, name)
    except MissingEntry:
        return
    cells = {
        cell.metadata.nbgrader.grade_id: cell
        for cell in released.cells
        if cell.metadata.get("nbgrader")
    }
    graded = {key for key, cell in cells.items() if is_grade(cell)}
    answers = {key for key, cell in cells.items() if is_solution(cell)}
    had_graded = {cell.name for cell in notebook.grade_cells}
    had_answers = {cell.name for cell in notebook.solution_cells}
    # Without submissions, nbgrader makes the change itself; a removed cell is its to refuse.
    if (
        not notebook.submissions
        or had_graded - graded
        or had_answers - answers
        or notebook.task_cells
    ):
        return
    db, source_cells = gradebook.db, {cell.name: cell for cell in notebook.source_cells}
    for key, cell in cells.items():
        if key not in source_cells:
            db.add(
                SourceCell(
                    name=key, notebook=notebook, cell_type=cell.cell_type, source=cell.source
                )
            )
        if key in graded - had_graded:
            _add_grade_cell(db, notebook, key, cell)
        if key in answers - had_answers:
            _add_solution_cell(db, notebook, key)
    for key in source_cells.keys() - cells.keys():
        db.delete(source_cells[key])
    db.commit()


def _add_grade_cell(db: Any, notebook: Any, key: str, cell: Any) -> None:
    points = float(cell.metadata.nbgrader["points"])
    new = GradeCell(name=key, notebook=notebook, cell_type=cell.cell_type, max_score=points)
    db.add_all([new, *(Grade(cell=new, notebook=submitted) for submitted in notebook.submissions)])


def _add_solution_cell(db: Any, notebook: Any, key: str) -> None:
    new = SolutionCell(name=key, notebook=notebook)
    db.add_all(
        [new, *(Comment(cell=new, notebook=submitted) for submitted in notebook.submissions)]
    )


def _is_registered(gradebook: Gradebook, name: str, released: Any) -> bool:
    """Tell whether the gradebook has exactly the cells of a released notebook, with their points
    and texts.
    """
    try:
        notebook = gradebook.find_notebook(name, name)
    except MissingEntry:
        return False
    wanted = {
        cell.metadata.nbgrader.grade_id: (cell.source, cell.metadata.nbgrader.get("points", 0))
        for cell in released.cells
        if cell.metadata.get("nbgrader")
    }
    points = {cell.name: cell.max_score for cell in notebook.grade_cells}
    registered = {
        cell.name: (cell.source, points.get(cell.name, 0)) for cell in notebook.source_cells
    }
    return registered == wanted


class Writer:
    """Writes submissions into an open gradebook, and reads their state.

    It uses the tables of nbgrader's API directly, and looks up the cells of each exercise once:
    through its objects, nbgrader makes about thirty queries for each submission.
    """

    def __init__(self, course: Course, gradebook: Gradebook):
        self.course, self.gradebook = course, gradebook
        self._exercises: dict[str, _Exercise] = {}
        self._rule = late.Rule(course)

    def set_dates(self) -> None:
        """Give nbgrader's tables the due dates of `deadlines.toml`, and the extensions for these
        exercises.
        """
        db, dates = self.gradebook.db, self._rule.dates
        for exercise in self.gradebook.assignments:
            if exercise.name not in dates.due:
                continue
            exercise.duedate = deadlines.utc(dates.due[exercise.name])
            for submission in exercise.submissions:
                submission.extension = dates.extension(submission.student_id, exercise.name)
        db.commit()
        self._exercises.clear()  # they have the due dates from before

    def last_due(self, name: str) -> datetime | None:
        """Return when an exercise is due for the student with the longest extension; None if it
        has no due date.
        """
        due = self._exercise(name).due
        asked = select(SUBMISSIONS.c.extension).where(
            SUBMISSIONS.c.assignment_id == self._exercise(name).assignment_id
        )
        # A student without a submission has no row yet, but may have an extension.
        stored = [
            extension for extension in self.gradebook.db.execute(asked).scalars() if extension
        ]
        announced = [each.time for each in self._rule.dates.in_force() if each.exercise == name]
        self.gradebook.db.rollback()
        if not due:
            return None
        longest = max([*stored, *announced], default=timedelta())
        return (due + longest).replace(tzinfo=UTC)

    def read(self, name: str, student: str) -> StoredGrades | None:
        """Return a submission's present grades, including manual ones, or None if it is not graded.

        The late penalty is the stored one.
        """

        def work() -> StoredGrades | None:
            submission = self._graded_submission(name, student)
            return submission.stored() if submission else None

        return self._in_transaction(name, student, work)

    def refresh(
        self,
        name: str,
        student: str,
        points: Mapping[str, float],
        comment: Callable[[StoredGrades], str],
    ) -> StoredGrades | None:
        """Compute a submission's late penalty for the present due date, and its automatic comment
        for what a person graded since; store both.

        Return the grades, or None if it is not graded, or has not these points from checks, by
        cell: such as in an older copy of the gradebook.
        """

        def work() -> StoredGrades | None:
            submission = self._graded_submission(name, student)
            if submission is None or not submission.has_points(points):
                return None
            before = submission.penalty, submission.automatic
            submission.penalty = self._penalty(submission)
            submission.automatic = comment(submission.stored())
            if (submission.penalty, submission.automatic) != before:
                self._write(submission)
            self._update_other_penalties(submission)
            return submission.stored()

        return self._in_transaction(name, student, work)

    def penalize(self, name: str, student: str) -> None:
        """Compute a submission's late penalty for the present due date, and store it."""

        def work() -> None:
            submission = self._submission(name, student)
            if submission is not None:
                submission.penalty = self._penalty(submission)
                self._write_penalty(submission)
                self._update_other_penalties(submission)

        self._in_transaction(name, student, work)

    def write(
        self,
        name: str,
        student: str,
        outcome: Outcome,
        timestamp: datetime | None,
        comment: Callable[[StoredGrades], str] = lambda stored: "",
        unchanged: Container[str] = (),
    ) -> StoredGrades:
        """Write a submission's points, time stamp and late penalty, all or nothing.

        A manual grade is kept. It is marked for review, as nbgrader does, unless the cell is among
        the `unchanged` answers, or its checks give the points that they gave. A submission that our
        own fault left without an outcome has no points: it needs a person.

        `comment` returns the automatic comment, given what the gradebook then says.

        Raises
        ------
        GradeRefused
            If the database rejects this submission; nothing of it is written then.
        UserError
            If the database accepts no writes.
        """

        def work() -> StoredGrades:
            submission = self._submission(name, student) or self._add_submission(name, student)
            submission.timestamp = timestamp
            submission.deadline = self._deadline(submission)
            submission.take(outcome, unchanged)
            # In this order: the penalty needs the points, and the comment needs both.
            submission.penalty = self._penalty(submission)
            submission.automatic = comment(submission.stored())
            self._write(submission)
            self._update_other_penalties(submission)
            return submission.stored()

        return self._in_transaction(name, student, work)

    def _in_transaction(self, name: str, student: str, work: Callable[[], Done]) -> Done:
        """Make one transaction of what is done; leave none open.

        If the connection drops, all of it is repeated with a new one. That is safe even if it
        dropped after the database wrote everything and before it could confirm: the values depend
        only on the outcome and on manual grades, so the second write changes nothing. The new
        connection takes the lock again, so that still no other process grades.
        """
        pauses, dropped = list(PAUSES), False
        while True:
            try:
                result = work()
                self.gradebook.db.commit()
                return result
            # Once the connection has dropped, the next ones may fail as well: a server restarts.
            except (OperationalError, locks.Locked) as error:
                dropped = dropped or getattr(error, "connection_invalidated", False)
                if not dropped or not pauses:
                    raise UserError(self._lost(name, student, error)) from error
            except (SQLAlchemyError, ValueError) as error:
                raise GradeRefused(database.reason(error)) from error
            finally:
                self.gradebook.db.rollback()
            time.sleep(pauses.pop(0))

    def _lost(self, name: str, student: str, error: Exception) -> str:
        """Return the message for a database that accepts no more writes."""
        gradebook = f"gradebook {self.course.database}"
        if isinstance(error, locks.Locked):
            return (
                f"The connection to the {gradebook} dropped, and {error} now grades into it. "
                "Earlier grades are kept."
            )
        return (
            f"The {gradebook} refused the grade of {student} for {name}: {database.reason(error)}. "
            "Earlier grades are kept; fix it and run the same command again."
        )

    def _exercise(self, name: str) -> "_Exercise":
        if name not in self._exercises:
            notebook = self.gradebook.find_notebook(name, name)
            graded = [*notebook.grade_cells, *notebook.task_cells]
            commented = [*notebook.solution_cells, *notebook.task_cells]
            self._exercises[name] = _Exercise(
                name=name,
                assignment_id=notebook.assignment.id,
                notebook_id=notebook.id,
                due=notebook.assignment.duedate,
                graded={cell.id: (cell.name, cell.max_score or 0.0) for cell in graded},
                commented={cell.id: cell.name for cell in commented},
            )
        return self._exercises[name]

    def _submission(self, name: str, student: str) -> "_Submission | None":
        """Return a submission's rows, or None if there is none."""
        exercise = self._exercise(name)
        row = self.gradebook.db.execute(
            select(
                SUBMISSIONS.c.id, SUBMISSIONS.c.timestamp, SUBMISSIONS.c.extension,
                NOTEBOOKS.c.id.label("notebook"), NOTEBOOKS.c.late_submission_penalty,
            )
            .join(NOTEBOOKS, NOTEBOOKS.c.assignment_id == SUBMISSIONS.c.id)
            .where(
                SUBMISSIONS.c.assignment_id == exercise.assignment_id,
                SUBMISSIONS.c.student_id == student,
                NOTEBOOKS.c.notebook_id == exercise.notebook_id,
            )
        ).first()  # fmt: skip
        if row is None:
            return None
        submission = _Submission(
            exercise, student, row.id, row.notebook, row.timestamp, row.extension
        )
        submission.penalty = row.late_submission_penalty
        submission.deadline = self._deadline(submission)
        # By cell as well, though the notebook would do: the tables' indices begin with the cell,
        # and without an index each query looks through the whole class.
        for table, rows, cells in (
            (GRADES, submission.grades, exercise.graded),
            (COMMENTS, submission.comments, exercise.commented),
        ):
            asked = self.gradebook.db.execute(
                select(table).where(table.c.notebook_id == row.notebook, table.c.cell_id.in_(cells))
            )
            rows.update({entry["cell_id"]: dict(entry) for entry in asked.mappings()})
        return submission

    def _graded_submission(self, name: str, student: str) -> "_Submission | None":
        """Return a submission's rows, or None if it has no grade."""
        submission = self._submission(name, student)
        # nbgrader's own commands add a submission before it has any points.
        return submission if submission and submission.is_graded() else None

    def _add_submission(self, name: str, student: str) -> "_Submission":
        """Add a submission without points, and its student if necessary."""
        exercise, db = self._exercise(name), self.gradebook.db
        if db.execute(select(STUDENTS.c.id).where(STUDENTS.c.id == student)).first() is None:
            db.execute(insert(STUDENTS).values(id=student))
        # `set_dates` gave extensions only to the submissions that there were.
        extension = self._rule.dates.extension(student, name)
        added = _Submission(exercise, student, new_uuid(), new_uuid(), extension=extension)
        values = {
            "id": added.id,
            "assignment_id": exercise.assignment_id,
            "student_id": student,
            "extension": extension,
        }
        db.execute(insert(SUBMISSIONS).values(values))
        db.execute(
            insert(NOTEBOOKS).values(
                id=added.notebook_id, assignment_id=added.id, notebook_id=exercise.notebook_id
            )
        )
        for table, rows, cells in (
            (GRADES, added.grades, exercise.graded),
            (COMMENTS, added.comments, exercise.commented),
        ):
            entries = [
                {"id": new_uuid(), "cell_id": cell, "notebook_id": added.notebook_id}
                for cell in cells
            ]
            if entries:
                db.execute(insert(table), entries)
            rows.update({entry["cell_id"]: entry for entry in entries})
        return added

    def _write(self, submission: "_Submission") -> None:
        """Write the changes to a submission's rows."""
        db = self.gradebook.db
        db.execute(
            update(SUBMISSIONS)
            .where(SUBMISSIONS.c.id == submission.id)
            .values(timestamp=submission.timestamp)
        )
        self._write_penalty(submission)
        # One statement for all rows of a table, with a list of values.
        for table, rows, names in (
            (GRADES, submission.grades, ("auto_score", "needs_manual_grade")),
            (COMMENTS, submission.comments, ("auto_comment",)),
        ):
            changes = [
                {"key": row["id"], **{name: row.get(name) for name in names}}
                for row in rows.values()
            ]
            if changes:
                statement = update(table).where(table.c.id == bindparam("key"))
                db.connection().execute(
                    statement.values({name: bindparam(name) for name in names}), changes
                )

    def _write_penalty(self, submission: "_Submission") -> None:
        row = update(NOTEBOOKS).where(NOTEBOOKS.c.id == submission.notebook_id)
        self.gradebook.db.execute(row.values(late_submission_penalty=submission.penalty))

    @property
    def has_free_days(self) -> bool:
        """Whether a submission's penalty also depends on the other ones of its student."""
        return self._rule.has_free_days

    def _deadline(self, submission: "_Submission") -> Deadline:
        """Return when a submission was due, and how many of its student's free days it uses."""
        return self._rule.deadlines_of([*self._others(submission), submission.lateness_facts()])[
            submission.exercise.name
        ]

    def _others(self, submission: "_Submission") -> list[late.LatenessFacts]:
        """Return what decides how late the other submissions of the same student are."""
        # By all other exercises, as the table's index begins with these: see `_submission`.
        names = dict(self.gradebook.db.execute(select(Assignment.id, Assignment.name)).all())
        others = self.gradebook.db.execute(
            select(
                SUBMISSIONS.c.assignment_id,
                SUBMISSIONS.c.timestamp,
                SUBMISSIONS.c.extension,
                Assignment.duedate,
            )
            .join(Assignment, Assignment.id == SUBMISSIONS.c.assignment_id)
            .where(
                SUBMISSIONS.c.assignment_id.in_(names.keys() - {submission.exercise.assignment_id}),
                SUBMISSIONS.c.student_id == submission.student,
            )
        )
        return [
            late.LatenessFacts(
                names[other.assignment_id], other.timestamp, other.duedate, other.extension
            )
            for other in others
        ]

    def _update_other_penalties(self, submission: "_Submission") -> None:
        """Store the penalties of the student's other late submissions again: all of them share
        the free days.
        """
        if not self.has_free_days:
            return
        for facts in self._others(submission):
            if not facts.seconds_late:
                continue
            try:
                other = self._submission(facts.exercise, submission.student)
            except MissingEntry:  # an exercise of nbgrader's that has no notebook of this name
                continue
            if other is None:
                continue
            penalty = self._penalty(other)
            if penalty != other.penalty:
                other.penalty = penalty
                self._write_penalty(other)

    def _penalty(self, submission: "_Submission") -> float | None:
        """Return the late penalty by the course's rule, at most all points."""
        seconds = submission.lateness_facts().seconds_late
        free_days = submission.deadline.free_days_used
        return self._rule.penalty(submission.student, submission.score(), seconds, free_days)


@dataclass(frozen=True)
class _Exercise:
    """An exercise in the gradebook: its name, ids, the due date, and its cells by id."""

    name: str
    assignment_id: str
    notebook_id: str
    due: datetime | None
    graded: dict[str, tuple[str, float]]
    commented: dict[str, str]


@dataclass
class _Submission:
    """A submission's rows: `grades` and `comments` by the id of their cell."""

    exercise: _Exercise
    student: str
    id: str
    notebook_id: str
    timestamp: datetime | None = None
    extension: timedelta | None = None
    penalty: float | None = None
    deadline: Deadline = field(default_factory=Deadline)
    grades: dict[str, dict[str, Any]] = field(default_factory=dict)
    comments: dict[str, dict[str, Any]] = field(default_factory=dict)

    def take(self, outcome: Outcome, unchanged: Container[str]) -> None:
        """Put an outcome into the rows: points, and nbgrader's comment on an untouched answer."""
        for cell, row in self.grades.items():
            name = self.exercise.graded.get(cell, ("", 0.0))[0]
            result = outcome.cells.get(name)
            if result is None:
                continue
            has_manual_grade = row.get("manual_score") is not None
            # A person has to read what was written; an untouched answer has its points: none.
            waits = result.is_graded_by_hand and not result.is_untouched
            is_lost_by_us = outcome.kind == Kind.INFRASTRUCTURE and not has_manual_grade
            points = None if waits or is_lost_by_us else result.points
            if result.is_graded_by_hand:
                is_same_answer = name in unchanged
            else:
                is_same_answer = row.get("auto_score") == points
            row["auto_score"] = points
            if not has_manual_grade:
                row["needs_manual_grade"] = points is None or result.pending > 0
            elif not is_same_answer:  # a manual grade for other work has to be confirmed
                row["needs_manual_grade"] = True
        for cell, row in self.comments.items():
            result = outcome.cells.get(self.exercise.commented.get(cell, ""))
            row["auto_comment"] = NO_RESPONSE if result and result.is_untouched else None

    @property
    def automatic(self) -> str:
        """The automatic comment on all of it, at its first answer; "" for none."""
        first = self._first()
        comment = first.get("auto_comment") if first else None
        return "" if comment in (None, NO_RESPONSE) else comment

    @automatic.setter
    def automatic(self, comment: str) -> None:
        # nbgrader's "No response." stays, if there is nothing else to say.
        first = self._first()
        if first and (comment or self.automatic):
            first["auto_comment"] = comment or None

    def _first(self) -> dict[str, Any] | None:
        return next(
            (self.comments[cell] for cell in self.exercise.commented if cell in self.comments), None
        )

    def is_graded(self) -> bool:
        """Tell whether each cell has points, or needs a manual grade."""
        return all(
            row["auto_score"] is not None
            or row["manual_score"] is not None
            or row["needs_manual_grade"]
            for row in self.grades.values()
        )

    def has_points(self, points: Mapping[str, float]) -> bool:
        """Tell whether its cells have these points from checks, as far as no person graded them."""
        for cell, row in self.grades.items():
            name = self.exercise.graded[cell][0]
            if name not in points or row["manual_score"] is not None:
                continue
            if row["auto_score"] is None or abs(row["auto_score"] - points[name]) > SAME_POINTS:
                return False
        return True

    def lateness_facts(self) -> late.LatenessFacts:
        """Return what decides how late it is."""
        return late.LatenessFacts(
            self.exercise.name, self.timestamp, self.exercise.due, self.extension
        )

    def score(self) -> float:
        """Return the points of all cells."""
        return sum(_score(row) for row in self.grades.values())

    def submission_score(self) -> SubmissionScore:
        """Return its score, penalty and state."""
        penalty = self.penalty or 0.0
        return SubmissionScore(
            score=round(max(0.0, self.score() - penalty), 4),
            max_score=sum(most for _, most in self.exercise.graded.values()),
            penalty=penalty,
            seconds_late=self.lateness_facts().seconds_late,
            needs_manual_grade=any(_waits(row) for row in self.grades.values()),
            deadline=self.deadline,
        )

    def stored(self) -> StoredGrades:
        """Return its grades as the gradebook has them."""
        return StoredGrades(self.submission_score(), self.cells())

    def cells(self) -> dict[str, StoredCell]:
        """Return the grade of each cell."""
        cells: dict[str, dict[str, Any]] = {}
        for cell, row in self.grades.items():
            name, most = self.exercise.graded[cell]
            has_manual_score = row.get("manual_score") is not None
            cells.setdefault(name, {}).update(
                score=_score(row), points=most, waits=_waits(row), has_manual_score=has_manual_score
            )
        for cell, row in self.comments.items():
            cells.setdefault(self.exercise.commented[cell], {}).update(
                comment=row.get("manual_comment"), automatic=row.get("auto_comment")
            )
        return {name: StoredCell(**parts) for name, parts in cells.items()}


def _score(row: Mapping[str, Any]) -> float:
    """Return the points of a grade's row: manual points take precedence over the checks'."""
    points = row.get("auto_score") if row.get("manual_score") is None else row["manual_score"]
    return 0.0 if points is None else points + (row.get("extra_credit") or 0.0)


def _waits(row: Mapping[str, Any]) -> bool:
    """Tell whether a grade's row needs a person.

    A marked row that has points from the checks, and no manual points, has pending points: it needs
    a machine.
    """
    only_pending = row.get("auto_score") is not None and row.get("manual_score") is None
    return bool(row["needs_manual_grade"]) and not only_pending


def enroll(course: Course, people: Mapping[str, Mapping[str, str]]) -> int:
    """Write a class into nbgrader's table of students; return how many were new or changed.

    Parameters
    ----------
    course : Course
        The course.
    people : mapping
        The `first_name`, `last_name` and `email` of each student, by id. What is "" stays
        unchanged, and so do students who are not here.
    """
    changed = 0
    with opened(course) as gradebook:
        known = {student.id: student for student in gradebook.students}
        for student_id, columns in people.items():
            columns = {name: value for name, value in columns.items() if value}
            student = known.get(student_id)
            if student is None:
                gradebook.db.add(Student(id=student_id, **columns))
                changed += 1
                continue
            changed += any(getattr(student, name) != value for name, value in columns.items())
            for name, value in columns.items():
                setattr(student, name, value)
        gradebook.db.commit()
    return changed


def check_student(course: Course, student: str) -> None:
    """Raise `UserError` unless the gradebook or the folder of submissions has a student of this
    id.
    """
    if not course.has_gradebook and not course.submitted.is_dir():
        raise UserError(
            "There are no students yet. Collect their submissions first: python -m "
            "autograder collect"
        )
    # A student who has not been graded yet is only in the folder.
    known = {folder.name for folder in course.submitted.glob("*/")}
    if course.has_gradebook:
        with opened(course) as gradebook:
            known |= {entry.id for entry in gradebook.students}
    if student not in known:
        close = difflib.get_close_matches(student, known, n=1)
        meant = f"Did you mean {close[0]}? " if close else ""
        raise UserError(
            f"There is no student {student!r}. {meant}Students are those in the gradebook and in "
            f"{course.submitted}."
        )


def rows(course: Course) -> list[tuple[dict[str, Any], StoredGrades]]:
    """Return every grade, by exercise and student.

    Returns
    -------
    list of tuple
        The grade under nbgrader's own names, where `needs_manual_grade` says whether a cell still
        needs a person; and its scores and people's comments. Unlike what `Writer.read` returns,
        these have no points of cells and are not rounded, and a submission that is not graded yet
        is there as well.
    """
    rule = late.Rule(course)
    with opened(course) as gradebook:
        db = gradebook.db
        # One query for each table: nbgrader's objects would make a dozen for each submission.
        max_scores = dict(db.execute(select(Assignment.id, Assignment.max_score)).all())
        cells = _grades_by_submission(db)
        comments = _comments_by_submission(db)
        penalties = _penalties_by_submission(db)
        entries = _submission_entries(db)
    # Free days are the student's, so that a deadline depends on all submissions together.
    students: dict[str, list[late.LatenessFacts]] = {}
    for entry in entries:
        students.setdefault(entry.student_id, []).append(_lateness_facts(entry))
    deadlines_by_student = {
        student: rule.deadlines_of(all_facts) for student, all_facts in students.items()
    }
    # Sorted here: databases put letters in orders of their own.
    return [
        _row(
            entry,
            cells.get(entry.id, []),
            comments.get(entry.id, {}),
            penalties.get(entry.id, 0.0),
            max_scores[entry.assignment_id],
            deadlines_by_student[entry.student_id][entry.name],
        )
        for entry in sorted(entries, key=lambda entry: (entry.name, entry.student_id))
    ]


# In nbgrader's tables, the `assignment_id` of a submitted notebook is the id of its submission.


def _grades_by_submission(db: Any) -> dict[str, list[Any]]:
    rows = db.execute(
        select(
            NOTEBOOKS.c.assignment_id, BaseCell.name, GRADES.c.auto_score, GRADES.c.manual_score,
            GRADES.c.extra_credit, GRADES.c.needs_manual_grade,
        )
        .join(GRADES, GRADES.c.notebook_id == NOTEBOOKS.c.id)
        .join(BaseCell, BaseCell.id == GRADES.c.cell_id)
    )  # fmt: skip
    grades: dict[str, list[Any]] = {}
    for row in rows.mappings():
        grades.setdefault(row["assignment_id"], []).append(row)
    return grades


def _comments_by_submission(db: Any) -> dict[str, dict[str, str]]:
    """Return people's comments by submission and by the name of their cell."""
    rows = db.execute(
        select(NOTEBOOKS.c.assignment_id, BaseCell.name, COMMENTS.c.manual_comment)
        .join(COMMENTS, COMMENTS.c.notebook_id == NOTEBOOKS.c.id)
        .join(BaseCell, BaseCell.id == COMMENTS.c.cell_id)
        .where(COMMENTS.c.manual_comment.is_not(None))
    )
    comments: dict[str, dict[str, str]] = {}
    for submission, name, comment in rows:
        comments.setdefault(submission, {})[name] = comment
    return comments


def _penalties_by_submission(db: Any) -> dict[str, float]:
    rows = db.execute(select(NOTEBOOKS.c.assignment_id, NOTEBOOKS.c.late_submission_penalty))
    penalties: dict[str, float] = {}
    for submission, penalty in rows:
        penalties[submission] = penalties.get(submission, 0.0) + (penalty or 0.0)
    return penalties


def _submission_entries(db: Any) -> Sequence[Any]:
    """Return each submission with its student and its exercise."""
    entries: Sequence[Any] = db.execute(
        select(
            SUBMISSIONS.c.id, SUBMISSIONS.c.assignment_id, SUBMISSIONS.c.timestamp,
            SUBMISSIONS.c.extension, SUBMISSIONS.c.student_id,
            STUDENTS.c.last_name, STUDENTS.c.first_name, STUDENTS.c.email,
            Assignment.name, Assignment.duedate,
        )
        .join(STUDENTS, STUDENTS.c.id == SUBMISSIONS.c.student_id)
        .join(Assignment, Assignment.id == SUBMISSIONS.c.assignment_id)
    ).all()  # fmt: skip
    return entries


def _lateness_facts(entry: Any) -> late.LatenessFacts:
    return late.LatenessFacts(entry.name, entry.timestamp, entry.duedate, entry.extension)


def _row(
    entry: Any,
    cells: list[Any],
    comments: dict[str, str],
    penalty: float,
    most: float,
    deadline: Deadline,
) -> tuple[dict[str, Any], StoredGrades]:
    score = sum(_score(cell) for cell in cells)
    row = {
        "assignment": entry.name,
        "duedate": entry.duedate or "",
        "timestamp": entry.timestamp or "",
        "student_id": entry.student_id,
        "last_name": entry.last_name or "",
        "first_name": entry.first_name or "",
        "email": entry.email or "",
        "raw_score": score,
        "late_submission_penalty": penalty,
        "score": max(0.0, score - penalty),
        "max_score": most,
        "needs_manual_grade": any(_waits(cell) for cell in cells),
    }
    submission_score = SubmissionScore(
        row["score"],
        most,
        penalty,
        _lateness_facts(entry).seconds_late,
        row["needs_manual_grade"],
        deadline,
    )
    stored_cells = {
        cell["name"]: StoredCell(
            _score(cell), waits=_waits(cell), has_manual_score=cell["manual_score"] is not None
        )
        for cell in cells
    }
    for name, comment in comments.items():
        stored_cells[name] = replace(stored_cells.get(name, StoredCell()), comment=comment)
    return row, StoredGrades(submission_score, stored_cells)

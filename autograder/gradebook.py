"""The one writer of nbgrader's gradebook, and of the feedback pages made from it."""

import functools
import html
import logging
import re
from contextlib import contextmanager
from pathlib import Path

import nbformat
import nbgrader.api
from alembic.script import ScriptDirectory
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter, TemplateExporter
from nbconvert.filters import markdown2html
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader.api import Grade, Gradebook, InvalidEntry, MissingEntry
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties, GetGrades, NbGraderPreprocessor, SaveAutoGrades, SaveCells
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_by_name
from pygments.util import ClassNotFound
from sqlalchemy.exc import SQLAlchemyError

from autograder.course import UserError

QUIET = logging.getLogger("autograder.nbgrader")
QUIET.setLevel(logging.CRITICAL)


def _newest_schema():
    """Return the version of nbgrader's newest database; it asks the same of another Python, for seconds."""
    return ScriptDirectory(str(Path(nbgrader.__file__).parent / "alembic")).get_current_head()


nbgrader.api.get_alembic_version = _newest_schema


@contextmanager
def opened(course):
    """Open the course's gradebook, and make it if there is none.

    Raises
    ------
    UserError
        If the database refuses, is no gradebook, or holds another course.
    """
    try:
        with Gradebook(course.db_url, course.course_id) as gradebook:
            foreign = sorted({a.course_id for a in gradebook.assignments} - {course.course_id})
            if foreign:
                raise UserError(
                    f"{course.db_url} is the gradebook of another course ({', '.join(foreign)}). "
                    "Name this course's own with --db, or move that file away."
                )
            yield gradebook
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", error)).splitlines()[0]
        raise UserError(
            f"The gradebook {course.db_url} cannot be used: {reason}. "
            "Name another with --db; nothing in it was changed."
        ) from error


def register(course, exercise):
    """Write an exercise's cells and points into the gradebook, so that submissions can refer to them."""
    released = nbformat.read(exercise.notebook, as_version=4)
    with opened(course) as gradebook:
        gradebook.update_or_create_assignment(exercise.name, course_id=course.course_id)
        try:
            SaveCells(config=course.config, log=QUIET).preprocess(released, _resources(course, exercise.name))
        except RuntimeError:
            raise UserError(
                f"{course.db_url} has grades for another version of {exercise.name}, with other cells. "
                "Keep that gradebook for that version, and name a new one with --db."
            ) from None


def standing(gradebook, submission):
    """Return how a submission stands in the gradebook now, manual grades and all, or None if it is not graded."""
    try:
        found = gradebook.find_submission(submission.exercise.name, submission.student)
    except MissingEntry:
        return None
    grades = [grade for own in found.notebooks for grade in own.grades]
    graded = all(g.auto_score is not None or g.manual_score is not None or g.needs_manual_grade for g in grades)
    return _standing(found) if graded else None


def _standing(found):
    return {
        "score": round(max(0.0, found.score - (found.late_submission_penalty or 0.0)), 4),
        "max_score": found.max_score,
        "penalty": found.late_submission_penalty or 0.0,
        "seconds_late": found.total_seconds_late,
        "needs_manual_grade": found.needs_manual_grade,
    }


class _Save(SaveAutoGrades):
    """nbgrader's own writer of points, on a gradebook that is open already."""

    def preprocess(self, notebook, resources):
        """Write the points and comments of a notebook's cells."""
        own = resources["nbgrader"]
        self.notebook_id, self.assignment_id, self.student_id = own["notebook"], own["assignment"], own["student"]
        return NbGraderPreprocessor.preprocess(self, notebook, resources)


class _Rows:
    """One submission's rows of the gradebook, read at once: nbgrader asks for each cell's with a query of its own."""

    def __init__(self, own):
        self.db = self  # what asks for a commit of each cell gets one of all of them, later
        self.grades = {grade.name: grade for grade in own.grades}
        self.comments = {comment.name: comment for comment in own.comments}

    def commit(self):
        """Do nothing yet."""

    def find_grade(self, cell, *names):
        """Return a cell's grade."""
        return self.grades[cell]

    def find_comment(self, cell, *names):
        """Return a cell's comment."""
        return self.comments[cell]


@contextmanager
def _whole(gradebook):
    """Make one transaction of what nbgrader commits piece by piece: a submission is written whole, or not at all."""
    commit, gradebook.db.commit = gradebook.db.commit, gradebook.db.flush
    try:
        yield
        commit()
    except BaseException:
        gradebook.db.rollback()
        raise
    finally:
        gradebook.db.commit = commit


def save(course, gradebook, unit, notebook, timestamp, comment="", ungraded=False):
    """Write a graded notebook's points, time stamp and late penalty into the gradebook.

    A manual grade is kept, and marked for another look, as nbgrader does.

    Parameters
    ----------
    course : Course
    gradebook : Gradebook
        Open, as `opened` gives it.
    unit : Unit
        Whose work it is.
    notebook : NotebookNode
        With an outcome in each check cell.
    timestamp : datetime or None
    comment : str
        The reason, for the gradebook's comments.
    ungraded : bool
        Whether our own fault left the checks without an outcome: their points then wait for a person.

    Returns
    -------
    dict
        `score`, `max_score`, `penalty`, `seconds_late` and `needs_manual_grade`, as the gradebook has them now, and
        under `cells` each graded cell's `score`, `points` and `comment`.

    Raises
    ------
    UserError
        If the database refuses; nothing of this submission is written then.
    """
    name, student = unit.assignment, unit.student
    resources = _resources(course, name, student)
    try:
        with _whole(gradebook):
            gradebook.update_or_create_student(student)
            gradebook.update_or_create_submission(name, student, timestamp=timestamp)
            found = gradebook.find_submission(name, student)
            own = found.notebooks[0]
            pen = _Save(config=course.config, log=QUIET)
            pen.gradebook = _Rows(own)
            pen.preprocess(notebook, resources)
            for grade in own.grades if ungraded else ():
                if grade.manual_score is None:
                    grade.auto_score, grade.needs_manual_grade = None, True
            for first in own.comments[:1] if comment else ():
                first.auto_comment = comment
            _again(gradebook, own, found)
            _late(course, found, own)
            _again(gradebook, own, found)
            return {**_standing(found), "cells": _cells(own)}
    except (SQLAlchemyError, InvalidEntry) as error:
        reason = str(getattr(error, "orig", error)).splitlines()[0]
        raise UserError(
            f"The gradebook {course.db_url} refused the grade of {student} for {name}: {reason}. "
            "What was graded before is kept; mend it and run the same command again."
        ) from error


def _again(gradebook, own, found):
    """Write what is pending, and read again what the database computes of it: scores, maxima, what waits."""
    gradebook.db.flush()
    gradebook.db.query(Grade).filter(Grade.notebook_id == own.id).populate_existing().all()
    gradebook.db.refresh(own)
    gradebook.db.refresh(found)


def _late(course, found, own):
    """Assign nbgrader's late penalty, by the plugin that the configuration names."""
    own.late_submission_penalty = None
    if found.total_seconds_late > 0:
        rule = AssignLatePenalties(config=course.config, log=QUIET)
        rule.init_plugin()
        penalty = rule.plugin_inst.late_submission_penalty(found.student.id, own.score, found.total_seconds_late)
        if penalty is not None:
            own.late_submission_penalty = rule._check_late_penalty(own, penalty)


def _cells(own):
    """Return what a feedback page says of each cell: its score and points, and its comment."""
    cells = {}
    for grade in own.grades:
        cells.setdefault(grade.name, {}).update(score=grade.score, points=grade.max_score)
    for comment in own.comments:
        cells.setdefault(comment.name, {})["comment"] = comment.comment
    return cells


class _Given(NbGraderPreprocessor):
    """Does what nbgrader's `GetGrades` does, from values at hand: a page can be made where no gradebook is."""

    def preprocess(self, notebook, resources):
        """Put each cell's score and comment into its metadata."""
        saved = resources["nbgrader"].pop("saved")
        for cell in notebook.cells:
            own = saved["cells"].get(cell.metadata.get("nbgrader", {}).get("grade_id"))
            if own:
                cell.metadata.nbgrader.update(own)
        resources["nbgrader"].update(
            score=saved["score"], max_score=saved["max_score"], late_penalty=saved["penalty"]
        )
        return notebook, resources


class _Page(HTMLExporter):
    """nbconvert's exporter, with what it does again for every student remembered.

    The code of locked cells is the same in a whole class, and is highlighted once. nbconvert parses each finished
    page once more to describe pictures; here the description is put in where it is missing.
    """

    def from_notebook_node(self, nb, resources=None, **more):
        """Return a notebook's page, and the resources."""
        self.register_filter("highlight_code", self._highlighted)
        output, resources = TemplateExporter.from_notebook_node(self, nb, resources, **more)
        return re.sub(r"<img (?![^>]*\balt=)", '<img alt="A picture that this cell drew" ', output), resources

    def _highlighted(self, source, language=None, metadata=None):
        return _highlight(source, language or (metadata or {}).get("magics_language") or "ipython3")

    def _preprocess(self, nb, resources):
        """Let the preprocessors at the notebook itself: nobody needs it afterwards, and it was put together here."""
        for preprocessor in self._preprocessors:
            nb, resources = preprocessor(nb, resources)
        return nb, resources

    @pass_context
    def markdown2html(self, context, source):
        """Return Markdown as HTML; texts without attachments are the same in a whole class."""
        if context.get("cell", {}).get("attachments"):
            return super().markdown2html(context, source)
        return _markdown(source)


class _Css(CSSHTMLHeaderPreprocessor):
    """nbconvert's style sheet, made once."""

    made = None

    def _generate_header(self, resources):
        self.made = self.made or super()._generate_header(resources)
        return self.made


_markdown = functools.lru_cache(500)(markdown2html)


@functools.lru_cache(500)
def _highlight(source, language):
    lexer, formatter = _code(language)
    return highlight(source or " ", lexer, formatter)


@functools.lru_cache(20)
def _code(language):
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        lexer = TextLexer()
    return lexer, HtmlFormatter(cssclass=f" highlight hl-{html.escape(language)}")


_exporters = {}


def feedback_page(course, unit, notebook, saved):
    """Return nbgrader's feedback page for a graded notebook, as HTML.

    Parameters
    ----------
    course : Course
    unit : Unit
    notebook : NotebookNode
        Is changed: scores go into its metadata.
    saved : dict
        What `save` returned.
    """
    if course not in _exporters:
        converter = GenerateFeedback(coursedir=CourseDirectory(config=course.config), config=course.config)
        exporter = _Page(parent=converter, config=converter.config)
        for preprocessor in converter.preprocessors:
            own = {GetGrades: _Given, CSSHTMLHeaderPreprocessor: _Css}.get(preprocessor, preprocessor)
            exporter.register_preprocessor(own, enabled=True)
        _exporters[course] = exporter
    resources = _resources(course, unit.assignment, unit.student)
    resources["nbgrader"]["saved"] = saved
    resources["unique_key"] = unit.assignment
    return _exporters[course].from_notebook_node(notebook, resources=resources)[0]


def rows(course):
    """Return every grade in the gradebook as a dict, by exercise and student, under nbgrader's own names.

    `needs_manual_grade` tells whether a cell of it still waits for a person, so that the score may rise.
    """
    with opened(course) as gradebook:
        return [
            {
                "assignment": found.assignment.name,
                "duedate": found.assignment.duedate or "",
                "timestamp": found.timestamp or "",
                "student_id": found.student.id,
                "last_name": found.student.last_name or "",
                "first_name": found.student.first_name or "",
                "email": found.student.email or "",
                "raw_score": found.score,
                "late_submission_penalty": found.late_submission_penalty or 0.0,
                "score": max(0.0, found.score - (found.late_submission_penalty or 0.0)),
                "max_score": found.max_score,
                "needs_manual_grade": found.needs_manual_grade,
            }
            for assignment in sorted(gradebook.assignments, key=lambda a: a.name)
            for found in sorted(assignment.submissions, key=lambda s: s.student.id)
        ]


def _resources(course, name, student=None):
    return {
        "nbgrader": {
            "assignment": name,
            "notebook": name,
            "student": student,
            "db_url": course.db_url,
        }
    }

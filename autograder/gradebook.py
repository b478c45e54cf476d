"""The one writer of nbgrader's gradebook, and of the feedback pages made from it."""

import logging
from contextlib import contextmanager

import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades, SaveCells
from sqlalchemy.exc import SQLAlchemyError

from autograder.course import UserError

QUIET = logging.getLogger("autograder.nbgrader")
QUIET.setLevel(logging.CRITICAL)


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
            SaveCells(config=course.config, log=QUIET).preprocess(released, _resources(course, exercise))
        except RuntimeError:
            raise UserError(
                f"{course.db_url} has grades for another version of {exercise.name}, with other cells. "
                "Keep that gradebook for that version, and name a new one with --db."
            ) from None


def holds(gradebook, submission):
    """Tell whether the gradebook has a grade for this submission."""
    try:
        found = gradebook.find_submission(submission.exercise.name, submission.student)
    except MissingEntry:
        return False
    return all(
        grade.auto_score is not None or grade.needs_manual_grade for nb in found.notebooks for grade in nb.grades
    )


def save(course, submission, notebook, timestamp, comment=""):
    """Write a graded notebook's points, time stamp and late penalty into the gradebook.

    A manual grade is kept, and marked for another look, as nbgrader does.

    Returns
    -------
    dict
        `score`, `max_score`, `penalty`, `seconds_late` and `needs_manual_grade`, as the gradebook has them now.
    """
    name, student = submission.exercise.name, submission.student
    resources = _resources(course, submission.exercise, student)
    with opened(course) as gradebook:
        gradebook.update_or_create_student(student)
        gradebook.update_or_create_submission(name, student, timestamp=timestamp)
    try:
        SaveAutoGrades(config=course.config, log=QUIET).preprocess(notebook, resources)
        AssignLatePenalties(config=course.config, log=QUIET).preprocess(notebook, resources)
    except SQLAlchemyError as error:
        raise UserError(f"The gradebook {course.db_url} refused a grade: {getattr(error, 'orig', error)}") from error
    with opened(course) as gradebook:
        found = gradebook.find_submission(name, student)
        if comment:
            for own in found.notebooks[0].comments[:1]:
                own.auto_comment = comment
            gradebook.db.commit()
        return {
            "score": round(max(0.0, found.score - (found.late_submission_penalty or 0.0)), 4),
            "max_score": found.max_score,
            "penalty": found.late_submission_penalty or 0.0,
            "seconds_late": found.total_seconds_late,
            "needs_manual_grade": found.needs_manual_grade,
        }


def feedback_page(course, submission, notebook):
    """Return nbgrader's feedback page for a graded notebook, as HTML."""
    converter = GenerateFeedback(coursedir=CourseDirectory(config=course.config), config=course.config)
    exporter = converter.exporter_class(parent=converter, config=converter.config)
    for preprocessor in converter.preprocessors:
        exporter.register_preprocessor(preprocessor, enabled=True)
    resources = _resources(course, submission.exercise, submission.student)
    resources["unique_key"] = submission.exercise.name
    return exporter.from_notebook_node(notebook, resources=resources)[0]


def rows(course):
    """Return every grade in the gradebook as a dict, by exercise and student, under nbgrader's own names."""
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
            }
            for assignment in sorted(gradebook.assignments, key=lambda a: a.name)
            for found in sorted(assignment.submissions, key=lambda s: s.student.id)
        ]


def _resources(course, exercise, student=None):
    return {
        "nbgrader": {
            "assignment": exercise.name,
            "notebook": exercise.name,
            "student": student,
            "db_url": course.db_url,
        }
    }

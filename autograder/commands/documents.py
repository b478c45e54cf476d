"""The documents that `--json` prints for each command, as plain values. *Operating the grader*
lists all fields.

Programs rely on these fields. You may add one. If you change the name or meaning of one, raise
`console.VERSION`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.checking.words import shown
from autograder.course.config import Course
from autograder.grades import reasons
from autograder.grades.results import Record

if TYPE_CHECKING:
    from autograder.commands.doctor import Finding
    from autograder.grades.changes import Change
    from autograder.grades.item_analysis import Comparison
    from autograder.grades.report import (
        Assignment,
        ClassReport,
        Column,
        ComparedClass,
        SubmissionRow,
    )
    from autograder.grading.session import Session


def of_grades(course: Course, session: "Session") -> dict[str, Any]:
    """Return the results of `grade`: the counts, and each submission with its grade and the
    reasons.
    """
    return {
        "gradebook": course.database,
        "autograded": str(course.autograded),
        "feedback": str(course.feedback),
        "graded": len(session.records) - session.kept,  # `records` has the kept ones as well
        "kept": session.kept,
        "left_out": session.left_out,
        "pages_renewed": session.renewed,
        "submissions": [_grade(record) for record in sorted(session.records, key=_by_student)],
    }


def _by_student(record: Record) -> tuple[str, str]:
    return record.student, record.assignment


def _grade(record: Record) -> dict[str, Any]:
    return {
        "student": record.student,
        "exercise": record.assignment,
        "kind": record.kind,
        "score": record.score,
        "max_score": record.max_score,
        "pending": record.pending,
        "penalty": record.penalty,
        "needs_manual_grade": record.needs_manual_grade,
        "reasons": reasons.lines_of(record, record.penalty),
        "sandbox": record.sandbox,
        "seed": record.seed,
        "graded_at": record.graded_at,
    }


def of_changes(changes: Sequence["Change"], session: "Session") -> dict[str, Any]:
    """Return the results of `grade --dry-run`: whose grade would be new or different, and
    because of which checks.
    """
    return {
        "dry_run": True,
        "graded": len(session.records) - session.kept,
        "kept": session.kept,
        "left_out": session.left_out,
        "changes": [
            {
                "student": change.after.student,
                "exercise": change.after.assignment,
                "now": change.before.score if change.before else None,
                "then": change.after.score,
                "difference": change.difference if change.before else None,
                "max_score": change.after.max_score,
                "pending": change.after.pending,
                "kind": change.after.kind,
                "through": [{"check": step.name, "how": step.how} for step in change.steps()],
            }
            for change in changes
        ],
    }


def of_report(class_report: "ClassReport", path: Path) -> dict[str, Any]:
    """Return the numbers of the report at `path`; without names if the report has none."""
    return {
        "page": str(path),
        "anonymous": class_report.anonymous,
        "students": class_report.students,
        "without_sandbox": class_report.open,
        "graded_at": class_report.graded_at,
        "kinds": {str(kind): count for kind, count in class_report.kinds},
        "beside": _compared_class(class_report.compared_class)
        if class_report.compared_class
        else None,
        "handed_in_today": len(class_report.today),
        "exercises": [_exercise(assignment) for assignment in class_report.assignments],
    }


def _compared_class(other: "ComparedClass") -> dict[str, Any]:
    return {
        "folder": str(other.folder),
        "only_here": other.only_here,
        "only_there": other.only_there,
    }


def _exercise(assignment: "Assignment") -> dict[str, Any]:
    return {
        "exercise": assignment.name,
        "submissions": len(assignment.rows),
        "mean": assignment.mean,
        "median": assignment.median,
        "max_score": assignment.max_score,
        "pending": assignment.pending,
        "open_requests": assignment.open_requests,
        "histogram": [{"share": bar.label, "count": bar.count} for bar in assignment.histogram],
        # A program gets a title's text, and not a template with its values.
        "lost": [{**lost._asdict(), "title": shown(lost.title)} for lost in assignment.checks],
        "misconceptions": [met._asdict() for met in assignment.misconceptions],
        "hard": [_check(column) for column in assignment.hard],
        "never_failed": [_check(column) for column in assignment.never],
        "discrimination": [
            {
                **row.item._asdict(),
                "correlation": row.correlation,
                "passed": row.passed,
                "students": row.students,
            }
            for row in assignment.discriminations
        ],
        "attempts": [
            {**row.item._asdict(), "median": row.median, "students": row.students}
            for row in assignment.attempts
        ],
        "comparison": _comparison(assignment.comparison) if assignment.comparison else None,
        "rows": [_row(row) for row in assignment.rows],
    }


def _comparison(comparison: "Comparison") -> dict[str, Any]:
    return {
        "here": comparison.this_class._asdict(),
        "there": comparison.other_class._asdict(),
        "difference": comparison.difference,
        "checks": [
            {
                **pair.item._asdict(),
                "here": pair.this_class._asdict() if pair.this_class else None,
                "there": pair.other_class._asdict() if pair.other_class else None,
                "difference": pair.difference,
            }
            for pair in comparison.checks
        ],
    }


def _check(column: "Column") -> dict[str, Any]:
    return {
        "function": column.function,
        "check": column.check,
        "title": column.title,
        "failed": column.failed,
    }


def _row(row: "SubmissionRow") -> dict[str, Any]:
    return {
        "student": row.student,
        "score": row.score,
        "pending": row.pending,
        "kind": row.kind,
        "needs_manual_grade": row.needs_manual_grade,
        "reasons": row.reasons,
        "evidence": row.evidence,
        "earlier": row.earlier,
    }


def of_findings(findings: Iterable["Finding"]) -> dict[str, Any]:
    """Return what `doctor` found; the state of an item is ok, missing, unsafe or optional."""
    return {
        "findings": [
            {
                "what": finding.item,
                "state": finding.state,
                "found": finding.value,
                "note": finding.note,
            }
            for finding in findings
        ]
    }

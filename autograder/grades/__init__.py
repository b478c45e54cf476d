"""Grades: results and their records, nbgrader's gradebook, the report."""

"""The hostile cases: their names differ and are valid, and each has a recording."""

import json
import re
from collections import Counter

from hostile import CASES, stock

FIT_FOR_A_FOLDER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MOST_NAME = 60
RECORD = "run: PYTHONPATH=tests python -m hostile.stock CASE ..."


def test_names_of_cases_differ_and_are_fit_for_a_folder():
    counts = Counter(case.name for case in CASES)
    assert [name for name, count in counts.items() if count > 1] == []
    assert [
        name for name in counts if not FIT_FOR_A_FOLDER.fullmatch(name) or len(name) > MOST_NAME
    ] == []


def test_names_of_students_differ():
    counts = Counter(case.student or case.name for case in CASES)
    assert [student for student, count in counts.items() if count > 1] == []


def test_every_case_has_a_recording_and_no_other_has():
    names = {case.name for case in CASES}
    recorded = set(stock.recorded()["cases"])
    assert sorted(names - recorded) == [], RECORD
    assert sorted(recorded - names) == []


def test_the_book_has_the_counts():
    assert json.loads(stock.COUNTS.read_text(encoding="utf-8")) == stock.counts(), RECORD


def test_harms_are_what_differs_from_the_required_outcome():
    case = next(case for case in CASES if case.points == {"check_add": 4, "check_twice": 0})
    assert stock.harms(case, stock.USUAL | {"points": [4, 0]}) == []
    assert stock.harms(case, stock.USUAL) == ["more"]
    assert stock.harms(case, stock.USUAL | {"points": [3, 0], "no_page": True}) == [
        "no_page",
        "less",
    ]
    assert stock.harms(case, stock.USUAL | {"points": [None, 0]}) == ["ungraded"]
    assert stock.harms(case, stock.USUAL | {"points": [None, 2]}) == ["ungraded", "more"]

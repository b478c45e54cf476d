"""Records of grades: what is written can be read, older ones too, and rubbish is no record."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.checking import Result, Status
from autograder.checking.files import write
from autograder.checking.words import Message
from autograder.course.config import Course
from autograder.grades import reasons, records
from autograder.grades.records import SCHEMA, from_text, history, record_of, to_text
from autograder.grades.results import CellResult, Kind, Record, StoredGrades, SubmissionScore

# A record as it was written before records had a schema number.
OLD = {
    "student": "ada",
    "assignment": "01-toy",
    "submission": "ab" * 32,
    "exercise": "cd" * 32,
    "seed": 7,
    "sandbox": True,
    "graded_at": "2026-01-01T00:00:00+00:00",
    "kind": "wrong",
    "reason": "",
    "repairs": ["The locked cell check_add had been changed and has been restored."],
    "evidence": ["check_add:\n-4\n+500"],
    "cells": {
        "check_add": {
            "points": 1.0,
            "max_points": 4.0,
            "manual": False,
            "subject": "add",
            "checks": [
                {
                    "name": "adds",
                    "title": "Each element is the sum of the two.",
                    "weight": 3,
                    "status": "failed",
                    "message": "expected {3}, found {1}",
                    "cause": "subtracts_them",
                    "hint": "You subtract.",
                }
            ],
            "error": "",
        },
        "proof": {
            "points": 0.0,
            "max_points": 3.0,
            "manual": True,
            "subject": "",
            "checks": [],
            "error": "no response",
        },
    },
    "seconds": {"cells": 0.5},
    "score": 1.0,
    "max_score": 7.0,
    "penalty": 0.5,
    "seconds_late": 60.0,
    "needs_manual_grade": False,
    "history": [],
}


def test_a_record_without_a_schema_is_read():
    record = from_text(json.dumps(OLD))
    assert (record.score, record.kind, record.seed) == (1.0, Kind.WRONG, 7)
    assert reasons.lines_of(record, record.penalty) == [
        "add −3: likely cause: subtracts them; failed: Each element is the sum of the two",
        "proof −3: no response",
        "late −0.5",
        "The locked cell check_add had been changed and has been restored.",
    ]


def test_an_old_record_becomes_one_of_today():
    record = from_text(json.dumps(OLD))
    again = json.loads(to_text(record))
    assert again["schema"] == SCHEMA and "seconds" not in again
    assert from_text(to_text(record)) == record


def waiting(**parts):
    """Return a record with a check that was blocked, as records up to the third version have it."""
    check = {
        **OLD["cells"]["check_add"]["checks"][0],
        "status": "waiting",
        "message": WAITS,
        **parts,
    }
    return {**OLD, "cells": {"check_add": {**OLD["cells"]["check_add"], "checks": [check]}}}


WAITS = {"text": "Waits until this holds: {name}", "values": {"name": "shapes"}}
VERSIONS = {
    1: {**waiting(message="Waits until this holds: shapes")},
    2: {**waiting(), "schema": 2, "pending": 0.0},
    3: {**waiting(on="", label=""), "schema": 3, "pending": 0.0},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_each_version_are_read(version):
    record = from_text(json.dumps(VERSIONS[version]))
    (check,) = record.cells["check_add"].checks
    assert check.status is Status.BLOCKED and str(check.message) == "Waits until this holds: shapes"
    again = json.loads(to_text(record))
    assert (
        again["schema"] == SCHEMA
        and again["cells"]["check_add"]["checks"][0]["status"] == "blocked"
    )
    assert from_text(to_text(record)) == record


def change(**parts):
    return json.dumps({**OLD, **parts})


RUBBISH = {
    "empty": "",
    "half": json.dumps(OLD)[:200],
    "a list": "[1]",
    "a number": "7",
    "null": "null",
    "nested": "[" * 100_000,
    "long number": "1" * 5000,
    "no cells": json.dumps({name: part for name, part in OLD.items() if name != "cells"}),
    "cells a list": change(cells=[]),
    "a cell a list": change(cells={"add": []}),
    "a cell of other parts": change(cells={"add": {"points": 1, "checks": [], "error": ""}}),
    "a check without a message": change(
        cells={"add": {**OLD["cells"]["check_add"], "checks": [{"name": "x"}]}}
    ),
    "reason a number": change(reason=7),
    "reason a list": change(reason=["x"]),
    "reason without values": change(reason={"text": "x"}),
    "repairs null": change(repairs=None),
    "kind unknown": change(kind="splendid"),
    "kind a list": change(kind=[]),
    "kind a dict": change(kind={}),
    "status unknown": json.dumps(waiting(status="splendid")),
    "weight a text": json.dumps(waiting(weight="3")),
    "submission null": change(submission=None),
    "history a number": change(history=7),
    "evidence null": change(evidence=None),
    "no student": json.dumps({name: part for name, part in OLD.items() if name != "student"}),
}


@pytest.mark.parametrize("text", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_no_record(text):
    assert from_text(text) is None


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
VALUES = st.one_of(TEXT, st.integers(), st.floats(allow_nan=False), st.lists(TEXT, max_size=3))
MESSAGES = st.recursive(
    st.builds(Message, TEXT),
    lambda inner: st.builds(
        lambda text, values: Message(text, **values),
        TEXT,
        st.dictionaries(st.sampled_from("abc"), st.one_of(VALUES, inner), max_size=3),
    ),
    max_leaves=3,
)
POINTS = st.floats(0, 100)
CHECKS = st.builds(
    Result,
    TEXT,
    TEXT,
    POINTS,
    st.sampled_from(Status),
    st.one_of(TEXT, MESSAGES),
    cause=TEXT,
    label=TEXT,
    hint=TEXT,
    relation=st.one_of(TEXT, MESSAGES),
)
CELLS = st.builds(
    CellResult, POINTS, POINTS, st.booleans(), TEXT, st.lists(CHECKS, max_size=2), MESSAGES
)
RECORDS = st.builds(
    Record,
    student=TEXT,
    assignment=TEXT,
    submission_digest=TEXT,
    release_digest=TEXT,
    seed=st.integers(0, 2**48),
    sandbox=st.booleans(),
    graded_at=TEXT,
    kind=st.sampled_from(Kind),
    reason=MESSAGES,
    repairs=st.lists(MESSAGES, max_size=2),
    evidence=st.lists(TEXT, max_size=2),
    cells=st.dictionaries(TEXT, CELLS, max_size=2),
    score=POINTS,
    max_score=POINTS,
    penalty=POINTS,
    seconds_late=POINTS,
    needs_manual_grade=st.booleans(),
    history=st.lists(st.dictionaries(TEXT, TEXT, max_size=2), max_size=2),
)


@given(RECORDS)
def test_what_is_written_is_what_is_read(record):
    text = to_text(record)
    again = from_text(text)
    assert to_text(again) == text
    assert reasons.lines_of(again, again.penalty) == reasons.lines_of(record, record.penalty)
    assert {**vars(again), "cells": 0, "reason": 0, "repairs": 0} == {
        **vars(record), "cells": 0, "reason": 0, "repairs": 0
    }  # fmt: skip


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), TEXT, st.sampled_from(list(OLD))),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(list(OLD)), inner)
        ),
    ),
    st.sampled_from([None, *OLD]),
)
def test_any_json_is_a_record_that_can_be_written_or_none(value, index):
    record = from_text(json.dumps(value if index is None else {**OLD, index: value}))
    assert record is None or from_text(to_text(record)) is not None


def test_the_scores_of_today_go_into_a_record():
    record = from_text(json.dumps(OLD)).with_stored(
        StoredGrades(SubmissionScore(2.5, 7.0, needs_manual_grade=True))
    )
    assert (record.score, record.penalty, record.needs_manual_grade, record.seed) == (
        2.5,
        0.0,
        True,
        7,
    )
    assert {part.name for part in dataclasses.fields(SubmissionScore)} < {
        part.name for part in dataclasses.fields(Record)
    }


# On disk.

BYTES = {
    "a list": b"[1]",
    "not UTF-8": b'{"kind": "\xff"}',
    "empty": b"",
    "a text": b'"grade"',
    "zeros": bytes(100),
}


@pytest.mark.parametrize("data", BYTES.values(), ids=BYTES)
def test_a_file_without_a_record_is_moved_away_and_stops_nothing(tmp_path, data):
    course = Course(root=tmp_path, output_folder=tmp_path)
    path = course.paths_of("ada", "01-toy").record
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    assert record_of(course, "ada", "01-toy") is None
    assert history(path) == []
    assert not path.exists() and path.with_name("grade.json.unreadable").read_bytes() == data


def test_a_folder_with_the_name_of_a_record_stops_nothing(tmp_path):
    course = Course(root=tmp_path, output_folder=tmp_path)
    path = course.paths_of("ada", "01-toy").record
    path.mkdir(parents=True)
    assert record_of(course, "ada", "01-toy") is None and history(path) == []
    write(path, "{}")
    assert path.read_text() == "{}"


def test_the_history_of_thousands_of_submissions_has_a_limit(tmp_path):
    path = tmp_path / "grade.json"
    texts = ["a text of any length"]
    whole = {**OLD, "evidence": texts, "repairs": texts, "requests": []}
    whole.pop("history")
    numbered = [{**whole, "seed": number} for number in range(records.MOST_RECORDS + 5)]
    path.write_text(json.dumps({**numbered[-1], "history": numbered[:-1]}), encoding="utf-8")
    earlier = history(path)
    assert [record["seed"] for record in earlier] == [0, *range(6, records.MOST_RECORDS + 5)]
    for name in ("evidence", "repairs"):
        assert [len(record[name]) for record in earlier[-22:]] == [0, 0, *[1] * 20]
    assert all(map(records.parsed, earlier))


def test_the_history_has_earlier_records_as_they_were(tmp_path):
    path = tmp_path / "grade.json"
    assert history(path) == []
    first = {name: part for name, part in OLD.items() if name != "history"}
    path.write_text(json.dumps(OLD))
    assert history(path) == [first]
    path.write_text(json.dumps({**OLD, "score": 3.0, "history": [first]}))
    assert history(path) == [first, {**first, "score": 3.0}]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "grade.json"
    write(path, "half a letter: \ud800")
    assert path.read_text() == "half a letter: ?" and [
        each.name for each in tmp_path.iterdir()
    ] == ["grade.json"]

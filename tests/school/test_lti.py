"""Scores reach a learning platform by LTI: each one once, none is lost, none before it is shown."""

import json
import shutil

import pytest
from jwcrypto.jwk import JWK
from lti_platform import CLIENT, SCOPE, Platform
from toy_course import run

from autograder.course import locks
from autograder.course.config import ROOT, Course, UserError
from autograder.grades import gradebook
from autograder.school import lti

SCORES = {"ada": 7.5, "bob": 10.0, "cem": 2.0}
SETTINGS = """
c.LTI.client_id = {client!r}
c.LTI.token_url = "{address}/token"
c.LTI.key = "lti.pem"
c.LTI.launches = "launches.json"
"""


@pytest.fixture
def platform():
    platform = Platform()
    yield platform
    platform.close()


@pytest.fixture
def course(tmp_path, platform):
    """A graded class of three; bob has never logged in through the platform."""
    root = tmp_path / "course"
    released = root / "exercises" / "01-qkv"
    without_archive = shutil.ignore_patterns("*.zip")
    shutil.copytree(ROOT / "exercises" / "01-qkv", released, ignore=without_archive)
    (released / "checking.zip").touch()
    key = JWK.generate(kty="RSA", size=2048)
    (root / "lti.pem").write_bytes(key.export_to_pem(True, None))
    platform.tool = key.export_to_pem().decode()
    people = {"ada": "number-of-ada", "cem": "number-of-cem"}
    launches = {"lineitems": f"{platform.address}/lineitems", "scope": SCOPE, "people": people}
    (root / "launches.json").write_text(json.dumps(launches))
    configure(root, SETTINGS.format(client=CLIENT, address=platform.address))
    course = Course(root=root)
    with gradebook.opened(course) as book:
        book.add_assignment("01-qkv")
        book.add_notebook("01-qkv", "01-qkv")
        book.add_grade_cell("check", "01-qkv", "01-qkv", max_score=10, cell_type="code")
        for student, score in SCORES.items():
            book.add_student(student)
            book.add_submission("01-qkv", student)
            grade = book.find_grade("check", "01-qkv", "01-qkv", student)
            grade.auto_score, grade.needs_manual_grade = score, False
        book.db.commit()
    return course


def configure(root, settings):
    text = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    (root / "nbgrader_config.py").write_text(text + settings, encoding="utf-8")


def regrade(course, student, score):
    with gradebook.opened(course) as book:
        book.find_grade("check", "01-qkv", "01-qkv", student).auto_score = score
        book.db.commit()


def taken(platform):
    return [(score["userId"], score["scoreGiven"]) for _column, score in platform.scores]


def test_scores_go_into_one_column_and_only_changes_are_sent_again(course, platform):
    assert lti.send_pending(course) == ["2 scores sent to the learning platform."]
    assert taken(platform) == [("number-of-ada", 7.5), ("number-of-cem", 2.0)]
    (column,) = platform.columns
    assert (column["tag"], column["label"], column["scoreMaximum"]) == (
        "01-qkv", "1. Queries, keys and values", 10,
    )  # fmt: skip
    _column, score = platform.scores[0]
    assert (score["gradingProgress"], score["scoreMaximum"]) == ("FullyGraded", 10)
    assert lti.send_pending(course) == []
    regrade(course, "ada", 8.0)
    assert lti.send_pending(course) == ["1 scores sent to the learning platform."]
    assert taken(platform)[2:] == [("number-of-ada", 8.0)] and len(platform.columns) == 1


def test_a_refused_score_is_sent_again_and_holds_up_no_other(course, platform):
    platform.refusals = [lambda score: 422]
    first, refused = lti.send_pending(course)
    assert first == "1 scores sent to the learning platform."
    assert refused.startswith("Refused: ada 01-qkv: status 422 from")
    assert taken(platform) == [("number-of-cem", 2.0)]
    assert lti.send_pending(course) == ["1 scores sent to the learning platform."]
    assert taken(platform)[1:] == [("number-of-ada", 7.5)]


def test_scores_that_are_refused_each_time_come_after_the_others(course, platform):
    platform.refusals = [lambda score: 500]
    lti.send_pending(course)
    assert taken(platform) == []
    platform.refusals = [lambda score: 200, lambda score: 500]
    lti.send_pending(course)
    assert taken(platform) == [("number-of-cem", 2.0)]


def test_watch_does_not_wait_for_another_program(course):
    refusal = pytest.raises(UserError, match="Another program sends scores now")
    with locks.lock(course.output_folder / lti.LOCK, lambda holder: None), refusal:
        lti.send_pending(course)


def test_a_platform_that_permits_nothing_is_one_line(course):
    path = course.root / "launches.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "scope": []}))
    with pytest.raises(UserError, match="permits this tool nothing with scores"):
        lti.send_pending(course)


@pytest.mark.parametrize("status", [500, 401])
def test_a_platform_that_refuses_all_is_asked_once(course, platform, status):
    platform.refusals = [lambda score: status] * 2
    refused, waiting = lti.send_pending(course)
    assert f"status {status}" in refused and waiting == "1 scores wait for the next run."
    assert len(platform.refusals) == 1


def test_a_platform_that_is_away_or_slow_loses_nothing(course, platform, monkeypatch):
    platform.close()
    (refused, _waiting) = lti.send_pending(course)
    assert "ConnectionError" in refused
    again = Platform()
    again.tool, again.delay = platform.tool, 1.0
    monkeypatch.setattr(lti, "LONGEST_WAIT", 0.2)
    configure(course.root, SETTINGS.format(client=CLIENT, address=again.address))
    try:
        (refused, _waiting) = lti.send_pending(Course(root=course.root))
        assert "Timeout" in refused and not again.scores
    finally:
        again.close()


def test_watch_is_not_kept_from_grading(course, platform, monkeypatch):
    monkeypatch.setattr(lti, "SECONDS_OF_WATCH", 0)
    assert lti.send_pending(course) == ["2 scores wait for the next run."]
    assert lti.send(course).count == 2


def test_a_tool_with_another_key_sends_nothing(course, platform):
    other = JWK.generate(kty="RSA", size=2048)
    (course.root / "lti.pem").write_bytes(other.export_to_pem(True, None))
    refused, _waiting = lti.send_pending(course)
    assert "status 401" in refused and not platform.scores and not platform.columns


DATES = "[due]\n01-qkv = {due}\n"
OVER, FUTURE = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("shows", "due", "count"),
    [
        ("points", FUTURE, 2), ("reasons", FUTURE, 0), ("after due date", FUTURE, 0),
        ("points", "", 2), ("reasons", "", 0), ("after due date", "", 2),
        ("reasons", OVER, 2), ("after due date", OVER, 2),
    ],
)  # fmt: skip
def test_no_score_is_sent_that_students_may_not_see(course, platform, shows, due, count):
    if due:
        (course.root / "deadlines.toml").write_text(DATES.format(due=due))
    text = SETTINGS.format(client=CLIENT, address=platform.address) + f"c.Watch.shows = {shows!r}\n"
    configure(course.root, text)
    sent = lti.send(Course(root=course.root))
    assert (sent.count, sent.hidden) == (count, 0 if count else 3)


def test_export_says_what_became_of_the_scores(course, platform):
    platform.refusals = [lambda score: 422]
    result = run(course, "export", "--for", "lti")
    assert result.exit_code == 1 and "ada 01-qkv" in result.output
    assert "bob has never logged in" in " ".join(result.output.split())
    result = run(course, "export", "--for", "lti", "01-qkv")
    assert result.exit_code == 0 and "1 scores sent" in result.output
    assert "The learning platform has all" in run(course, "export", "--for", "lti").output
    result = run(course, "export", "--for", "lti", "--to", "grades.csv")
    assert result.exit_code == 1 and "Leave out" in result.output


def test_what_is_missing_is_named(course, platform):
    (course.root / "launches.json").unlink()
    with pytest.raises(UserError, match=r"launches\.json cannot be read"):
        lti.send_pending(course)
    configure(course.root, "c.LTI.client_id = 'x'\n")
    with pytest.raises(UserError, match=r"lacks c\.LTI\.token_url, c\.LTI\.key, c\.LTI\.launches"):
        lti.send_pending(Course(root=course.root))


def test_a_kill_between_two_scores_loses_none(course, platform, monkeypatch):
    class Killed(BaseException):
        pass

    def die(state, grade):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(lti.State, "add", die)
        with pytest.raises(Killed):
            lti.send_pending(course)
    assert lti.send_pending(course) == ["2 scores sent to the learning platform."]
    assert taken(platform)[0] == taken(platform)[1] == ("number-of-ada", 7.5)

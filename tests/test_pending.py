"""Points that wait for a machine with what their checks need: in checks, records, gradebook, pages and commands."""

import sys
from types import ModuleType

import pytest

from checking import Report, Suite, machine, misconception, right, show
from checking.answers import listed

SEED = 5


@pytest.fixture(autouse=True)
def english(monkeypatch):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def has(monkeypatch):
    """What this machine has: a set to be changed, empty at first."""
    found = set()
    monkeypatch.setattr(machine, "has", lambda what: what in found)
    return found


@pytest.fixture
def suite(monkeypatch):
    """A suite on `double`, of 10 points: weights 3 anywhere, 5 on a GPU, 1 that needs that, 1 with Triton."""
    own = Suite("checks", read={"double": "chapter 1, Twice"})

    @own.check(weight=3)
    def values(double, draw):
        """Each is twice as large."""
        A = draw.array(3)
        assert_close(double(A), 2 * A)

    @own.check(weight=5, needs=values, on="gpu")
    def values_on_a_gpu(double, draw):
        """On a GPU as well."""
        A = draw.array(3)
        assert_close(double(A), 2 * A)

    @own.check(weight=1, needs=values_on_a_gpu)
    def twice(double, draw):
        """Twice over."""
        A = draw.array(3)
        assert_close(double(double(A)), 4 * A)

    @own.check(weight=1, on="triton")
    def kernel(double, draw):
        """In a kernel."""
        A = draw.array(3)
        assert_close(double(A), 2 * A)

    @misconception("double", "three times", "Twice.")
    def thrice(A):
        return 3 * A

    @misconception("double", "seen by a GPU", on="gpu")
    def on_a_gpu(A):
        return 5 * A

    @right("double")
    def plus(A):
        return A + A

    module = ModuleType("misconceptions")
    module.thrice, module.on_a_gpu, module.plus = thrice, on_a_gpu, plus
    monkeypatch.setitem(sys.modules, "misconceptions", module)
    return own


def assert_close(got, wanted):
    from checking import expect_close

    expect_close(got, wanted)


class Counting:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, A):
        self.calls += 1
        return self.function(A)


# In checks.


def test_what_a_machine_lacks_is_not_verified_and_its_points_wait(suite, has):
    double = Counting(lambda A: 2 * A)
    report = suite.examine("double", double, points=10, seed=SEED)
    assert [result.status for result in report.results] == ["passed", "unverified", "unverified", "unverified"]
    assert [result.on for result in report.results] == ["", "gpu", "gpu", "triton"]
    assert (report.score, report.pending, double.calls) == (3.0, 7.0, 1)
    assert "GPU" in str(report.results[1].message) and "Triton" in str(report.results[3].message)
    has |= {"gpu", "triton"}
    report = suite.examine("double", double, points=10, seed=SEED)
    assert {result.status for result in report.results} == {"passed"}
    assert (report.score, report.pending) == (10.0, 0.0)


def test_what_needs_a_failed_check_waits_for_that_and_no_points_are_pending(suite, has):
    report = suite.examine("double", lambda A: 3 * A, points=10, seed=SEED)
    assert [result.status for result in report.results] == ["failed", "waiting", "waiting", "unverified"]
    assert (report.score, report.pending) == (0.0, 1.0)
    assert [result.cause for result in report.results] == ["thrice", "", "", ""]
    report = suite.examine("double", None, points=10, seed=SEED)
    assert {result.status for result in report.results} == {"waiting"} and not report.pending


def test_pending_points_are_what_the_score_would_rise_by(suite, has):
    pending = suite.examine("double", lambda A: 2 * A, points=1.07, seed=SEED)
    assert round(pending.score + pending.pending, 2) == 1.07


def test_unknown_machines_are_refused(suite):
    with pytest.raises(ValueError, match="the check fast says on='tpu'.*gpu, triton"):

        @suite.check(on="tpu")
        def fast(double, draw):
            """On a TPU."""

    with pytest.raises(ValueError, match="the wrong answer slow says on='cpu'"):

        @misconception("double", on="cpu")
        def slow(A):
            return A


def test_a_wrong_answer_that_only_a_gpu_shows_is_left_out_without_one(suite, has):
    assert [wrong.__name__ for wrong in suite.listed("wrong_for", "double")] == ["thrice"]
    assert len(listed(sys.modules["misconceptions"], "wrong_for", "double")) == 2
    has.add("gpu")
    assert [wrong.__name__ for wrong in suite.listed("wrong_for", "double")] == ["thrice", "on_a_gpu"]


def test_a_report_says_what_was_not_verified_and_never_in_red(suite, has):
    report = suite.examine("double", lambda A: 2 * A, points=10, seed=SEED)
    text, drawn = show.text(report), show.as_html(report)
    assert text.startswith("double: 3 of 10 points; 7 wait, not verified here\n")
    assert "not verified here On a GPU as well.\n          It needs a GPU that torch can use" in text
    assert "Read:" not in text and "seed=" not in text
    assert drawn.count("not verified here: ") == 3 and show.COLOUR["failed"] not in drawn and "Read:" not in drawn
    assert show.standing(report) == "unverified"
    report = suite.examine("double", lambda A: 2 * A, points=0, seed=SEED)
    assert show.text(report).startswith("double: not all of it verified here, without points\n")


def test_reports_are_kept_and_older_ones_are_read(suite, has):
    report = suite.examine("double", lambda A: 2 * A, points=10, seed=SEED)
    kept = report.to_dict()
    assert Report.from_dict(kept).to_dict() == kept and kept["pending"] == 7.0
    del kept["pending"]
    for result in kept["results"]:
        del result["on"]
    older = Report.from_dict(kept)
    assert older.pending == 0.0 and older.results[1].on == ""


def test_triton_is_looked_for_and_not_imported():
    loaded = "triton" in sys.modules
    assert machine.has("triton") in (True, False)
    assert ("triton" in sys.modules) == loaded

"""Calls that a check sends ahead: they go to a guest in one message, and come out as if each had
been made alone.
"""

import numpy as np
import pytest
import torch
from toy_course import toy_course

from autograder.authoring.release import release
from autograder.checking import Subject
from autograder.checking import helpers as helper_functions
from autograder.checking.diagnosis import same_call
from autograder.checking.expect import Failed, expect_all_agree, expect_dtypes
from autograder.checking.helpers import names_used
from autograder.checking.modules import Step, run_remote
from autograder.checking.responses import seen_by_parts
from autograder.course.config import ROOT
from autograder.course.limits import Limits
from autograder.grades.results import Kind
from autograder.grading.judge import Judge
from autograder.sandbox import guests
from autograder.sandbox.guest import Ended

LIMITS = Limits(cpu_seconds=6, idle_seconds=3)
CELL = """
import torch
seen = []
def half(x):
    seen.append(len(seen))
    if x is None:
        raise ValueError("nothing")
    x /= 2
    return x
class Doubled(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        if size < 0:
            raise ValueError("below 0")
        self.w = torch.nn.Parameter(torch.zeros(size))
    def forward(self, x):
        return 2 * self.w * x
def halves(x):
    return [half(part) for part in x]
def other(half):
    exec("def other(x): return half(x)", found := {"half": half})
    return found["other"]
other = other(lambda x: x)
class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    def forward(self, x, mask=None):
        return self.second(self.first(x) + 1)
def ends(x):
    import os
    os._exit(3)
"""


@pytest.fixture(scope="module")
def toy(isolated, tmp_path_factory):
    """A released exercise, and guests for it."""
    course = toy_course(tmp_path_factory.mktemp("toy"))
    exercise = course.sources()[0]
    release(course, exercise)
    pool = guests.GuestPool(LIMITS, ["torch"], [str(course.root), str(ROOT)])
    yield exercise, pool
    pool.close()


@pytest.fixture
def judge(toy):
    """A judge whose guest has run the cell; `sent` lists what it was asked."""
    exercise, pool = toy
    judge = Judge(exercise, LIMITS)
    judge.notebook.guest = guest = pool.guest()
    guest.request({"op": "start", "seed": 1, "files": []})
    guest.request({"op": "cell"}, [CELL.encode()])
    judge.sent, request = [], guest.request

    def noted(message, *rest, **more):
        judge.sent.append(message["op"])
        return request(message, *rest, **more)

    guest.request = noted
    yield judge
    guest.close()


def under_test(judge, name):
    return Subject(name, judge.lookup(name))


def test_calls_sent_ahead_are_one_message_with_the_same_results(judge):
    alone, together = under_test(judge, "half"), under_test(judge, "half")
    cases = [(np.arange(3.0),), (np.ones((2, 2)),)]
    expected = [alone(*case) for case in cases]
    judge.sent.clear()
    together.ahead(cases)
    assert judge.sent == ["several"]
    for case, wanted in zip(cases, expected, strict=True):
        np.testing.assert_array_equal(together(*case), wanted)
    assert judge.sent == ["several"]
    # what was changed in place is changed here
    for mine, other in zip(together.calls, alone.calls, strict=True):
        np.testing.assert_array_equal(mine.arguments[0], other.arguments[0])
    np.testing.assert_array_equal(cases[0][0], np.arange(3.0))


def test_an_error_belongs_to_its_call(judge):
    half = under_test(judge, "half")
    cases = [(np.ones(1),), (None,), (np.ones(2),)]
    half.ahead(cases)
    assert half(*cases[0]) == 0.5
    assert isinstance(half.error(*cases[1]), ValueError)
    assert half(*cases[2]).shape == (2,)
    assert judge.sent.count("several") == 1 and "call" not in judge.sent


def test_another_call_than_was_sent_ahead_is_made_and_the_rest_forgotten(judge):
    half = under_test(judge, "half")
    cases = [(np.ones(1),), (np.ones(2),)]
    half.ahead(cases)
    assert half(np.full(3, 4.0)).tolist() == [2, 2, 2]
    assert half(*cases[1]).tolist() == [0.5, 0.5]
    assert judge.sent[-2:] == ["call", "call"]


def test_a_module_is_made_loaded_and_called_in_one_message(judge):
    x = torch.ones(2, dtype=torch.float64)
    under_test_class = under_test(judge, "Doubled")
    layer = under_test_class.loaded(
        (2,), {"w": torch.tensor([1.0, 3.0])}, torch.float64, False, ahead=[(x,), (2 * x,)]
    )
    assert layer(x).tolist() == [2, 6]
    assert judge.sent == ["find", "several"]
    assert layer(x).tolist() == [2, 6]
    assert judge.sent == ["find", "several", "call"]
    with pytest.raises(Failed, match="below 0"):
        under_test_class.loaded((-1,), {}, ahead=[(x,)])


def test_calls_of_a_module_are_remembered_as_if_made_alone(judge):
    x, w = torch.ones(2, dtype=torch.float64), torch.tensor([1.0, 3.0])
    together, alone = under_test(judge, "Doubled"), under_test(judge, "Doubled")
    together.loaded((2,), {"w": w}, torch.float64, ahead=[(x,)])(x)
    alone.module(2).load({"w": w}, torch.float64)(x)
    assert [call.method for call in together.calls] == ["", "load", "forward"]
    assert all(map(same_call, together.calls, alone.calls))


def test_a_call_that_ends_its_guest_ends_those_with_it(judge):
    ends = under_test(judge, "ends")
    ends.ahead([(1,), (2,)])
    with pytest.raises(Failed, match="did not finish"):
        ends(1)


@pytest.mark.parametrize("replies", [None, [], [1, 2], [{}, {}, {}], {"0": {}}])
def test_a_reply_to_something_else_is_hostile(judge, replies):
    judge.notebook.guest.request = lambda *arguments, **more: (
        {"op": "done", "replies": replies},
        [],
    )
    half = judge.notebook
    with pytest.raises(Ended) as ended:
        half.ask_several([Step("", (1,), "call", 0, (1,))] * 2)
    assert ended.value.kind == Kind.HOSTILE


def test_where_the_function_lives_here_nothing_is_called_before_its_time():
    calls = []
    subject = Subject("own", lambda x: calls.append(x) or x)
    subject.ahead([(1,), (2,)])
    assert not calls
    assert subject(1) == 1 and calls == [1]


def test_what_a_check_makes_around_a_function_is_asked_without_being_sent_ahead():
    expect_dtypes(lambda X: 2 * X, np.ones((2, 3)))
    expect_all_agree(lambda X: 2 * X, lambda X: X + X, [[np.ones((2, 3))]])
    with pytest.raises(Failed, match="float64"):
        expect_dtypes(lambda X: 2.0 * X.astype(float), np.ones((2, 3)))


def test_what_a_function_calls_is_found_where_it_lives(judge):
    """Of two functions of one name, it is the notebook's own that is looked for."""
    helpers = {name: judge.lookup(name) for name in ("half", "Doubled", "ends")}
    assert names_used(judge.lookup("halves"), helpers) == ["half"]
    assert names_used(judge.lookup("other"), helpers) == []


def test_a_guest_may_say_anything_about_what_its_code_names(monkeypatch):
    for reply, names in [
        ([np.zeros(2), "add"], ["add"]),
        ("add", []),
        ([["add"]], []),
        ({"add": "called"}, []),
    ]:
        monkeypatch.setattr(helper_functions, "run_remote", lambda *asked, reply=reply: reply)
        assert helper_functions.names_used(len, {"add": sum}) == names


def test_inputs_and_outputs_of_submodules_are_seen_in_the_guest(judge):
    """It crosses as plain tensors, and no hook stays behind."""
    outer = under_test(judge, "Outer").module()
    outer.load({name: torch.ones(part) for name, part in outer.shapes().items()})
    judge.sent.clear()
    for _ in range(2):
        seen = run_remote(seen_by_parts, outer.module, ([np.ones((2, 3), np.float32), None],))
        assert [
            (direction, name, len(numbers), masks) for direction, name, numbers, masks in seen
        ] == [
            (direction, name, 1, [])
            for name in ("first", "second")
            for direction in ("into", "out of")
        ]
        assert [float(numbers[0].unique()) for _, _, numbers, _ in seen] == [1, 4, 5, 16]
    assert judge.sent == ["run", "run"]

"""Nobody pays twice: a function that calls one that fails is tried with the course's answer in
its place.
"""

import ast
import copy
import dataclasses
import inspect
import os
import signal
import sys
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch
from toy_course import toy_course

from autograder.authoring import loader, release
from autograder.authoring.answer_cells import AnswerCells
from autograder.checking import Subject, backward, kernels
from autograder.checking.modules import run_remote
from autograder.checking.suite import RunningNotebook
from autograder.checking.undefined import Ran
from autograder.course.config import ROOT, Course
from autograder.course.limits import Limits
from autograder.grading import submissions
from autograder.grading.judge import Judge
from autograder.grading.worker import Worker
from autograder.grading.worker_config import WorkerConfig
from autograder.sandbox import guests
from autograder.sandbox.guest import Ended

LIMITS = Limits(cpu_seconds=6, idle_seconds=3)
CELL = """
import copy, gc, types
import torch
def twice(x):
    return x
def four_times(x):
    return twice(twice(x))
class Layer(torch.nn.Module):
    pass
class Net(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = Layer(size, bias=False)
        self.again = Layer(size)
    def forward(self, x):
        return self.again(self.layer(x)[0])[0]
def without(module, part):
    raise NotImplementedError
def cut(module):
    return without(module, 1)
def parts(x):
    found = [own for own in gc.get_objects() if isinstance(own, types.FunctionType)]
    twice(x)
    return [own.__name__ for own in found]
def hands_on(x):
    return twice(parts)
"""


def distinctive_doubling(x):
    return x + x


class Layer(torch.nn.Module):
    def __init__(self, size, bias=True):
        super().__init__()
        if size < 1:
            raise ValueError("below 1")
        self.size = size
        self.own = torch.nn.Parameter(torch.ones(size))
        self.norm = torch.nn.LayerNorm(size)
        self.steps = torch.nn.ModuleList([torch.nn.Linear(size, size, bias=bias), torch.nn.GELU()])

    def forward(self, x, mask=None):
        for step in self.steps:
            x = step(x)
        allowed = (x > 0) if mask is None else mask
        return self.norm(x) * self.own, allowed


def without(module, part):
    import copy

    copied = copy.deepcopy(module)
    with torch.no_grad():
        copied.own[part] = 0
    return copied


@pytest.fixture(scope="module")
def toy(isolated, tmp_path_factory):
    """A released exercise, and guests for it."""
    course = toy_course(tmp_path_factory.mktemp("toy"))
    exercise = course.sources()[0]
    release.release(course, exercise)
    pool = guests.GuestPool(LIMITS, ["torch"], [str(course.root), str(ROOT)])
    yield exercise, pool
    pool.close()


@pytest.fixture
def judge(toy):
    """A judge whose guest has run the cell."""
    exercise, pool = toy
    judge = Judge(exercise, LIMITS)
    judge.notebook.guest = guest = pool.guest()
    guest.request({"op": "start", "seed": 1, "files": []})
    guest.request({"op": "cell"}, [CELL.encode()])
    yield judge
    guest.close()


def under_test(judge, name):
    return Subject(name, judge.lookup(name))


def test_a_function_is_replaced_and_restored(judge):
    four_times, x = under_test(judge, "four_times"), np.arange(3.0)
    assert four_times(x).tolist() == [0, 1, 2]
    with judge.instead({"twice": distinctive_doubling, "new": distinctive_doubling}):
        assert four_times(x).tolist() == [0, 4, 8]
        assert callable(judge.lookup("new"))
    assert four_times(x).tolist() == [0, 1, 2]
    assert judge.lookup("new") is None
    with pytest.raises(RuntimeError), judge.instead({"twice": distinctive_doubling}):
        raise RuntimeError
    assert four_times(x).tolist() == [0, 1, 2]


def test_the_names_that_were_called_are_known(judge):
    four_times, x = under_test(judge, "four_times"), np.arange(3.0)
    with judge.instead(
        {"twice": distinctive_doubling, "Layer": Layer, "without": without}
    ) as answered:
        assert not answered
        four_times(x)
        assert answered == {"twice"}
        under_test(judge, "Net").module(4)
        assert answered == {"twice", "Layer"}


def test_the_names_that_were_called_are_known_in_a_students_notebook(monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "twice", lambda x: x, raising=False)
    monkeypatch.setattr(main, "Layer", type("Layer", (), {}), raising=False)
    with RunningNotebook().instead(
        {"twice": distinctive_doubling, "Layer": Layer, "without": without}
    ) as answered:
        assert not answered and str(inspect.signature(main.twice)) == "(x)"
        assert main.twice(3) == 6 and answered == {"twice"}
        layer = main.Layer(4, bias=False)
        assert answered == {"twice", "Layer"}
        assert (
            isinstance(layer, Layer)
            and isinstance(layer, main.Layer)
            and type(layer).__name__ == "Layer"
        )
        assert layer.state_dict().keys() == Layer(4, bias=False).state_dict().keys()
        assert copy.deepcopy(layer).size == 4
    assert main.twice(3) == 3 and not issubclass(main.Layer, Layer)


def test_gradients_flow_through_a_replacement_as_in_the_course_answer(judge):
    x = torch.arange(3.0, dtype=torch.float64)
    with judge.instead({"twice": distinctive_doubling}):
        result, gradients, _ = backward(under_test(judge, "four_times").function, x, upstream=x)
    assert result.tolist() == [0, 4, 8] and gradients[0].tolist() == [0, 4, 8]
    with (
        judge.instead({"twice": torch.no_grad()(distinctive_doubling)}),
        pytest.raises(Exception, match="grad"),
    ):
        backward(under_test(judge, "four_times").function, x, upstream=x)


def test_a_class_is_replaced_with_its_parameters(judge):
    torch.manual_seed(0)
    x, upstream = torch.randn(2, 4, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64)

    class Net(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.layer, self.again = Layer(size, bias=False), Layer(size)

        def forward(self, x):
            return self.again(self.layer(x)[0])[0]

    here = Net(4).double()
    with judge.instead({"Layer": Layer}):
        module = under_test(judge, "Net").module(4)
        assert module.shapes() == {
            name: tuple(part.shape) for name, part in here.state_dict().items()
        }
        module.load(here.state_dict(), torch.float64)
        gradients = backward(module, x, upstream=upstream)
        expected = backward(here, x, upstream=upstream)
        torch.testing.assert_close(gradients[0], expected[0])
        torch.testing.assert_close(gradients[1][0], expected[1][0])
        assert gradients[2].keys() == expected[2].keys()
        for name, gradient in expected[2].items():
            torch.testing.assert_close(gradients[2][name], gradient)
        assert isinstance(under_test(judge, "Net").error(0), ValueError)


def test_a_copy_of_a_module_is_returned(judge):
    def tried(function, values):
        import torch

        layer = torch.nn.Module()
        layer.own = torch.nn.Parameter(values)
        layer.forward = lambda x: layer.own * x
        output = function(layer)
        return output is layer, layer.own.detach(), output.own.detach()

    with judge.instead({"without": without}):
        same, before, after = run_remote(tried, judge.lookup("cut"), (torch.ones(3),))
    assert not same and before.tolist() == [1, 1, 1] and after.tolist() == [1, 0, 1]


def test_nothing_of_how_it_computes_is_in_the_guest(judge):
    """All functions that Python holds there are looked at, before and while one stands in."""
    with judge.instead({"twice": distinctive_doubling}):
        names = judge.lookup("parts")(np.ones(1))
    assert "four_times" in names and distinctive_doubling.__name__ not in names


def test_what_is_no_value_and_what_is_too_large_is_an_error_of_the_guests_own(judge):
    def squared(x):
        return np.ones((len(x), len(x))) @ x

    with judge.instead({"twice": squared}):
        large = under_test(judge, "four_times").error(np.ones(200_000))
        assert isinstance(large, MemoryError)
        assert under_test(judge, "four_times")(np.ones(2)).tolist() == [4, 4]
        assert isinstance(under_test(judge, "hands_on").error(np.ones(2)), (TypeError, ValueError))
    with judge.instead({"twice": lambda ask: ask(1)}):
        assert isinstance(under_test(judge, "hands_on").error(np.ones(2)), TypeError), (
            "it is not called back"
        )
    with judge.instead({"Layer": Layer}):
        assert under_test(judge, "Net").error(10**9) is not None
    assert judge.notebook.guest.ended is None


# What code uses


KERNELS = """
import triton
from triton import jit as compiled

@triton.autotune([], key=[])
@triton.jit
def decorated(x): ...

@compiled
def renamed(x): ...

made = triton.jit(len)

class Attend:
    @staticmethod
    def forward(x):
        return decorated[(1,)](x)
"""
TEXTS = {
    "def f(x): decorated[(1,)](x)": True,
    "def f(x): return Attend.forward(x)": True,
    "def f(x):\n    def inside(): return renamed\n    return inside()[(1,)](x)": True,
    "f = lambda x: made[(1,)](x)": True,
    "def f(x): return x": False,
    "def f(x): return 'decorated'": False,
    "def g(x): decorated[(1,)](x)": False,
    "jit = 0\ndef f(x): return jit": False,
    "a = " * 3000 + "1\ndef f(x): return a, decorated": True,
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_kernel_is_looked_for_in_the_text_that_a_function_uses(text, tmp_path):
    exercise = SimpleNamespace(released=tmp_path)
    judge = Judge(exercise, Limits())
    assert kernels.written_in(judge.code_of("f")), "which cells ran is not known"
    others = "%matplotlib inline", "def broken(:", "not " * 20_000 + "1", "!ls\n" * 600
    judge.cells_run = [Ran("cell", source) for source in (KERNELS, *others, text)]
    assert kernels.written_in(judge.code_of("f")) == TEXTS[text]


# What it may compute, and when


MULTIPLIES = """
import numpy as np, threading
kept = []
def product(X, Y):
    return X
def slow(x):
    return product(np.ones((3000, 600), np.float16), np.ones((600, 3000), np.float16))
def large(x):
    return product(np.ones((3000, 3000), np.float16), x)
def keeps(x):
    kept.append(product)
    return product(x, x)
def uses_kept(x):
    return kept[0](x, x)
def with_function(f, x):
    kept.append(f)
    return f(x)
def with_many(f, x):
    return f(np.ones(50_000))
def in_threads(x):
    results = []
    threads = [threading.Thread(target=lambda: results.append(product(x, x))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(results)
def forged(x, place):
    import gc
    (responder,) = [own for own in gc.get_objects() if type(own).__name__ == "Responder"]
    return responder.call_back(place, ("call", None, {}, (x, x), {}), {})
"""


@pytest.fixture
def impatient(toy):
    """A judge that computes one second for a check."""
    exercise, pool = toy
    impatient_judge = Judge(exercise, dataclasses.replace(LIMITS, judge_seconds=1))

    def begin():
        if impatient_judge.notebook.guest is not None:
            impatient_judge.notebook.guest.close()
        guest = pool.guest()
        impatient_judge.notebook.guest = guest
        guest.request({"op": "start", "seed": 1, "files": []})
        guest.request({"op": "cell"}, [MULTIPLIES.encode()])
        return guest

    impatient_judge.begin_guest = begin
    begin()
    yield impatient_judge
    impatient_judge.notebook.guest.close()
    impatient_judge.course_answers.close()


def test_a_product_that_takes_minutes_is_ended_at_the_limit_which_is_named(impatient):
    x, guest = np.eye(2), impatient.notebook.guest
    with pytest.raises(Ended), impatient.instead({"product": np.matmul}):
        impatient.lookup("slow")(x)
    assert str(guest.ended) == "it kept the judge computing for more than 1 seconds."
    assert not impatient.course_answers.process.close.alive
    impatient.begin_guest()
    impatient.notebook.begin_check()
    with impatient.instead({"product": np.matmul}):
        assert impatient.lookup("keeps")(x).tolist() == x.tolist(), "another submission is answered"


def test_what_is_larger_than_any_check_is_refused_at_once(impatient):
    with impatient.instead({"product": np.matmul}):
        error = under_test(impatient, "large").error(np.eye(2))
    assert isinstance(error, ValueError) and "numbers" in str(error) and "product" in str(error)
    assert isinstance(under_test(impatient, "with_many").error(np.sum, np.eye(2)), ValueError)
    assert impatient.notebook.guest.ended is None


def test_a_stored_replacement_refuses_calls_after_its_time(impatient):
    x = np.eye(2)
    with impatient.instead({"product": np.matmul}) as answered:
        under_test(impatient, "keeps")(x)
        asked_before = impatient.notebook.callback_count - 1
        assert under_test(impatient, "forged")(x, asked_before).tolist() == x.tolist()
    answered.clear()
    assert "yours again" in str(under_test(impatient, "uses_kept").error(x))
    assert "too late" in str(under_test(impatient, "forged").error(x, asked_before))
    with impatient.instead({"product": np.matmul}) as later:
        assert "yours again" in str(under_test(impatient, "uses_kept").error(x))
        assert "too late" in str(under_test(impatient, "forged").error(x, asked_before))
        assert not later
    assert not answered and impatient.notebook.guest.ended is None


def test_a_function_of_a_check_answers_in_its_check_alone(impatient):
    x, calls_before = np.eye(2), impatient.notebook.callback_count
    assert under_test(impatient, "with_function")(np.sum, x) == 2
    impatient.notebook.begin_check()
    assert "too late" in str(under_test(impatient, "forged").error(x, calls_before))


def test_threads_are_answered_one_after_another(impatient):
    with impatient.instead({"product": np.matmul}):
        assert impatient.lookup("in_threads")(np.eye(2)).tolist() == [[8, 0], [0, 8]]


def test_a_crash_of_the_process_that_computes_ends_the_guest_alone(impatient):
    def crashes(X, Y):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(Ended, match="crash"), impatient.instead({"product": crashes}):
        impatient.lookup("keeps")(np.eye(2))


# The exercises


def named_in(source):
    """Return the names that code uses."""
    return {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}


def helpers_of(folder):
    """Return the functions of an exercise that a later solution calls."""
    exercise = loader.load(folder)
    cells = {
        cell.metadata["nbgrader"]["grade_id"]: cell.source for cell in exercise.cells(solution=True)
    }
    source = "\n".join(
        cell.source
        for cell in exercise.cells(solution=False, grade=False)
        if cell.cell_type == "code"
    )
    used = {name: named_in(source) for name, source in cells.items() if name in exercise.programs}
    used["given"] = named_in(source)
    return [
        name
        for name in exercise.programs
        if any(name in used[other] for other in used if other != name)
    ]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("folder", loader.FOLDERS, ids=lambda folder: folder.name)
def test_an_unwritten_function_costs_only_its_points(folder):
    course = Course(ROOT)
    (exercise,) = course.exercises([folder.name])
    released = nbformat.read(exercise.notebook, as_version=4)
    cells = AnswerCells(exercise.solution, released)
    roots, limits = (str(course.root), str(course.output_folder)), Limits.configured(course.config)
    setting = WorkerConfig(roots[0], (folder.name,), limits, False, roots)
    pool = setting.guests()
    pool.start()
    worker = Worker(setting, pool)

    def lost(unwritten):
        notebook = nbformat.read(exercise.notebook, as_version=4)
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in cells.solutions and name != unwritten:
                cell.source = cells.solutions[name]
        unit = submissions.Unit(
            student="", assignment=folder.name, notebook=f"{folder.name}.ipynb", stamp=None,
            problem="",
            data=nbformat.writes(notebook).encode(), files={}, notes=[], seed=5, guest_seed=6,
        )  # fmt: skip
        outcome = worker.grade(unit, lambda *_: None)
        by_subject = {
            cell.subject: cell for cell in outcome.cells.values() if not cell.is_graded_by_hand
        }
        return {
            name: cell
            for name, cell in by_subject.items()
            if cell.points + cell.pending < cell.max_points - 0.01
        }

    try:
        for helper in helpers_of(folder):
            assert list(lost(helper)) == [helper], helper
    finally:
        pool.close()

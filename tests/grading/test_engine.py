"""The engine: what crosses between guest and judge, what a check cell is worth, and what limits
do.
"""

import contextlib
import json
import socket
import threading
from types import SimpleNamespace

import nbformat
import numpy as np
import psutil
import pytest
import torch
from judge_tools import LIMITS, asking, judge_with, run_notebook

from autograder.checking.expect import describe
from autograder.checking.subject import Stopwatch
from autograder.course.cells import is_check, points_of
from autograder.course.config import ROOT
from autograder.grades.results import Kind
from autograder.grading import judge
from autograder.grading.remote import CourseCheckError
from autograder.sandbox import guests as sandbox
from autograder.sandbox.guest import Ended, Guest
from autograder.sandbox.inside import wire


@pytest.fixture
def asked(guests, toy):
    """`asking`, with a guest for each test."""
    with asking(guests, toy) as run:
        yield run


@pytest.fixture(scope="module")
def asked_on(guests, toy):
    """`asking`, with one guest for all tests that leave it alive: an ordinary process takes a
    second to start.
    """
    with asking(guests, toy) as run:
        yield run


# Values.

VALUES = [
    None, True, 3, -(2**70), 2.5, float("inf"), 1 + 2j, "text", "", [], (), {},
    [1, (2.0, "a"), {"k": None}],
    np.float32(1.5), np.int8(-3), np.array(2.0), np.zeros((0, 3)), np.arange(6).reshape(2, 3),
    np.arange(24.0).reshape(4, 6)[::2, ::-3], np.arange(6.0).reshape(2, 3).T,
    np.array([True, False]),
    np.broadcast_to(np.float32(2), (3, 4)), np.array([np.nan, -np.inf]),
    np.arange(3, dtype=np.float16),
    torch.arange(6).reshape(2, 3).float().T, torch.ones(3, dtype=torch.bfloat16),
    torch.tensor(1.5), torch.float16,
]  # fmt: skip


def same(a, b):
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and torch.equal(a, b)
        )
    if isinstance(a, (np.ndarray, np.generic)):
        return (
            type(a) is type(b)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and np.array_equal(a, b, equal_nan=True)
        )
    return type(a) is type(b) and (a == b or repr(a) == repr(b))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:20].replace("\n", " "))
def test_a_value_is_the_same_after_both_crossings(asked_on, value):
    judge = asked_on("def echo(x):\n    return x")
    assert same(judge.lookup("echo")(value), value)


def test_layout_crosses(asked):
    judge = asked(
        "def look(x):\n"
        "    return x.strides, x.flags.c_contiguous, x.flags.f_contiguous, x.flags.writeable, "
        "x.flags.owndata"
    )
    look = judge.lookup("look")
    view = np.arange(24.0).reshape(4, 6)[::2, ::-3]
    assert look(view)[:2] == (view.strides, False)
    fortran = np.asfortranarray(np.ones((3, 2)))
    assert look(fortran)[:3] == (fortran.strides, False, True)
    frozen = np.ones(3)
    frozen.flags.writeable = False
    assert look(frozen)[3] is False
    assert look(np.broadcast_to(1.0, (2, 3)))[0] == (0, 0)


def test_the_same_array_twice_is_one_array(asked):
    judge = asked("def one(a, b):\n    return a is b")
    x = np.ones(3)
    assert judge.lookup("one")(x, x) is True
    assert judge.lookup("one")(x, x.copy()) is False


def test_a_change_in_place_is_copied_back(asked):
    judge = asked("def spoil(a, t):\n    a += 1\n    t.mul_(2)\n    return None")
    base = np.zeros((4, 6))
    a, t = base[::2, 1:4], torch.ones(2, 3).T
    judge.lookup("spoil")(a, t)
    assert (base.sum(), a.sum()) == (6, 6) and t.tolist() == [[2, 2]] * 3


def test_a_new_shape_in_place_is_copied_back(asked):
    judge = asked(
        "def turn(a, b):\n    a.shape = (3, 2)\n    a[0] = 7\n    b.resize((4,), refcheck=False)"
    )
    a, b = np.zeros((2, 3)), np.ones((2, 2))
    judge.lookup("turn")(a, b)
    assert a.tolist() == [[7, 7], [0, 0], [0, 0]] and b.shape == (4,)


def test_exceptions_cross_as_type_and_text(asked):
    judge = asked(
        "class Own(ValueError): pass\n"
        "def bad(kind):\n"
        "    if kind == 'own': raise Own('mine')\n"
        "    if kind == 'exit': raise SystemExit(0)\n"
        "    if kind == 'unicode': b'\\xff'.decode()\n"
        "    raise KeyError('gone')"
    )
    bad = judge.lookup("bad")
    with pytest.raises(ValueError, match="mine") as caught:
        bad("own")
    assert type(caught.value).__name__ == "Own"
    with pytest.raises(Exception, match="0") as caught:
        bad("exit")
    assert type(caught.value).__name__ == "SystemExit" and not isinstance(caught.value, SystemExit)
    with pytest.raises(ValueError, match="utf-8"):
        bad("unicode")
    with pytest.raises(KeyError):
        bad("")


def test_a_function_of_the_judge_can_be_called_and_its_error_caught(asked):
    judge = asked(
        "def use(f, x):\n    try:\n        f(-1)\n    except ValueError as error:\n        return "
        "f(x), str(error)"
    )

    def f(x):
        if np.any(np.asarray(x) < 0):
            raise ValueError("negative")
        return x * 2

    doubled, message = judge.lookup("use")(f, np.ones(3))
    assert message == "negative" and doubled.tolist() == [2, 2, 2]


def test_generators_and_modules_are_built_again_in_the_guest(asked):
    judge = asked(
        "import torch\ndef draw(rng):\n    return rng.normal(size=3)\n"
        "def spawned(rng):\n    return rng.spawn(1)[0].normal(size=3)\ndef run(m, x):\n    return "
        "m(x, x, x)[0]"
    )
    assert np.array_equal(
        judge.lookup("draw")(np.random.default_rng(5)), np.random.default_rng(5).normal(size=3)
    )
    seed = np.random.default_rng(5).integers(2**62)  # a number of NumPy's, as checks draw it
    children = np.random.default_rng(seed).spawn(2)
    rng = np.random.default_rng(seed)
    rng.spawn(1)  # what was spawned before is counted over there as well
    assert np.array_equal(judge.lookup("spawned")(rng), children[1].normal(size=3))
    module = torch.nn.MultiheadAttention(6, 2, bias=False, batch_first=True).eval()
    x = torch.randn(2, 5, 6)
    assert torch.allclose(judge.lookup("run")(module, x), module(x, x, x)[0], atol=1e-6)


LAYER = """
import torch
class Layer(torch.nn.Module):
    def __init__(self, n, m):
        super().__init__()
        if n < 1:
            raise ValueError("n")
        self.W, self.sizes = torch.nn.Linear(n, m), (n, m)
    def forward(self, x):
        return self.W(x)
"""


def test_a_students_module_is_made_loaded_called_and_differentiated(asked):
    judge = asked(LAYER)
    layer = judge.lookup("Layer")(3, 2)
    twin = torch.nn.Linear(3, 2)
    layer.W.load_state_dict(twin.state_dict())
    x = torch.randn(4, 3)
    assert torch.allclose(layer(x), twin(x)) and layer.sizes == (3, 2)
    assert torch.equal(layer.state_dict()["W.weight"], twin.weight)
    assert isinstance(layer.W.weight, torch.nn.Parameter)
    from autograder.checking import backward

    upstream = torch.randn(4, 2)
    mine, his = backward(layer, x, upstream=upstream), backward(twin, x, upstream=upstream)
    assert torch.allclose(mine[0], his[0]) and torch.allclose(mine[1][0], his[1][0])
    assert torch.allclose(mine[2]["W.weight"], his[2]["weight"]) and torch.allclose(
        mine[2]["W.bias"], his[2]["bias"]
    )
    with pytest.raises(ValueError, match="n"):
        judge.lookup("Layer")(0, 2)


FUSED = """
import torch
def shared(module):
    own = torch.nn.Linear(2, 2)
    own.weight = module["parts"][0].weight
    return own
def noted(module):
    kinds = [type(part).__name__ for part in module.parts]
    return [module.n, module.name, kinds, "b" in dict(module.named_children())]
"""


def test_a_module_of_the_checks_is_made_of_parts_and_stays_in_the_guest(asked):
    from autograder.checking import Subject

    judge = asked(FUSED)
    parts = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, bias=False)])
    module = torch.nn.ModuleDict({"parts": parts, "b": torch.nn.Linear(1, 1)})
    module.n, module.name = 3, "heads"
    assert judge.lookup("noted")(module) == [3, "heads", ["Linear", "Linear"], True]
    subject = Subject("shared", judge.lookup("shared"))
    twin = subject.given(module, "module")
    layer = subject.module(twin)
    assert torch.equal(twin.state()["parts.0.weight"], parts[0].weight)
    layer.load({"weight": torch.zeros(2, 2)})
    assert not twin.state()["parts.0.weight"].any() and parts[0].weight.any()


def test_a_module_is_asked_over_the_wire_as_it_is_here(asked):
    from autograder.checking import Subject, expect_parameters

    class Layer(torch.nn.Module):  # as in LAYER
        def __init__(self, n, m):
            super().__init__()
            self.W = torch.nn.Linear(n, m)

        def forward(self, x):
            return self.W(x)

    values = {"W.weight": torch.ones(2, 3), "W.bias": torch.zeros(2)}
    for function in (asked(LAYER).lookup("Layer"), Layer):
        layer = Subject("Layer", function).module(3, 2)
        drawn = layer.state()["W.weight"]
        expect_parameters(layer, {"W.weight": (2, 3), "W.bias": (2,)})
        layer.to(torch.bfloat16).train(False).load(values)
        assert layer(torch.ones(1, 3).bfloat16()).tolist() == [[3, 3]]
        assert layer.error(torch.ones(1, 2).bfloat16()) is not None
        assert layer.state()["W.weight"].dtype == torch.bfloat16
        again = Subject("Layer", function).module(3, 2)
        assert torch.equal(again.state()["W.weight"], drawn), "each call draws the same"


def doubled(module, values, times):
    """Runs where the module lives, with nothing of what stands around it."""
    import torch

    with torch.no_grad():
        for _ in range(times):
            module.W.weight.mul_(values[0])
    return [float(module.W.weight.sum()), values, type(module).__name__]


def test_a_function_of_the_checks_runs_where_the_module_is(asked):
    from autograder.checking import Failed, Subject

    judge = asked(LAYER)
    values = {"W.weight": torch.ones(2, 3), "W.bias": torch.zeros(2)}
    requests = []
    for function in (judge.lookup("Layer"), asked_for(LAYER)["Layer"]):
        notebook = getattr(function, "_notebook", None)
        layer = Subject("Layer", function).module(3, 2)
        if notebook is not None:
            request = notebook._request
            notebook._request = lambda *arguments, request=request, **more: (
                requests.append(arguments[0]["op"]) or request(*arguments, **more)
            )
        layer.load(values, torch.bfloat16, training=False)
        assert layer.run_remote(doubled, [2.0], 3) == [48.0, [2.0], "Layer"]
        assert (
            layer.calls[-1].method == "doubled"
            and layer.state()["W.weight"].dtype == torch.bfloat16
        )
        with pytest.raises(Failed, match=r"Layer\(3, 2\).doubled raised IndexError"):
            layer.run_remote(doubled, [], 1)
    assert requests == ["run", "run", "call", "run"], "one request each"


def asked_for(source):
    names = {}
    exec(source, names)
    return names


class Shown(torch.nn.Module):
    """A module of the check's own: what it is given is seen here."""

    def __init__(self, seen):
        super().__init__()
        self.most, self.seen = 4, seen
        self.scale = torch.nn.Parameter(torch.tensor([2.0]))

    def forward(self, x, more=0):
        if len(x) > self.most:
            raise ValueError("too many")
        self.seen.append((x.tolist(), more))
        return 3 * x + more


SHOWN = """
import torch
def use(model, x):
    model.eval()
    (scale,) = model.parameters()
    with torch.no_grad():
        try:
            model(torch.ones(5))
        except ValueError as error:
            said = str(error)
        return [model(x), model(x, more=1), model.most, float(scale), isinstance(model, torch.nn.Module), said]
"""


def test_a_module_of_a_class_of_the_checks_is_called_back(asked):
    from autograder.checking import Subject

    for function in (asked(SHOWN).lookup("use"), asked_for(SHOWN)["use"]):
        model = Shown(seen := []).train()
        subject = Subject("use", function)
        twin = subject.given(model, "model")
        assert twin.read("training") is True
        once, more, *rest = subject(twin, torch.tensor([1.0, 2.0]))
        assert (
            once.tolist() == [3, 6]
            and more.tolist() == [4, 7]
            and rest == [4, 2.0, True, "too many"]
        )
        assert twin.read("training") is False and model.training
        if hasattr(function, "_notebook"):
            assert seen == [([1.0, 2.0], 0), ([1.0, 2.0], 1)], "the judge's own was asked"


def test_a_name_means_what_it_means_when_it_is_used(asked):
    judge = asked("def f():\n    return 1")
    f = judge.lookup("f")
    asked("def f():\n    return 2")
    assert f() == 2 and judge.lookup("nowhere") is None


ODD_RESULTS = [
    "object()", "(i for i in ())", "lambda: 1", "[[]] * 3 + [print]", "np.array([object()])",
    "10**5000",
    "'x' * 10**7", "np.ma.array([1.0], mask=[True])", "np.matrix([[1]])",
    "type('F', (float,), {'__eq__': lambda *a: True})(2)",
    "np.ones(2).view(type('A', (np.ndarray,), {'__array_function__': None}))",
    "torch.nn.Parameter(torch.ones(2))",
    "np.lib.stride_tricks.as_strided(np.ones(3), (10**6, 10**6), (0, 0))", "np.array(['a'])",
    "{1, 2}", "range(3)",
    "['x' * 99_000] * 90",
    "torch.ones(2).to_sparse()", "iter([])", "np.datetime64('2020')", "deep()", "loop()",
    "float('nan')",
]  # fmt: skip
ODD = """
import numpy as np, torch
def deep():
    x = []
    for _ in range(100000): x = [x]
    return x
def loop():
    d = {}; d['d'] = d
    return d
"""


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("np.ones(2, complex)", "an array of complex128"),
        ("np.array([object()])", "an array of Python objects"),
        ("np.array(['a'])", "an array of text"),
        ("torch.ones(2).to_sparse()", "a sparse_coo tensor"),
        ("object()", "a value of type object"),
    ],
)
def test_an_array_without_real_numbers_is_named_by_what_it_has(asked_on, expression, kind):
    odd = asked_on(ODD + f"def odd():\n    return {expression}").lookup("odd")()
    assert str(describe(odd)) == kind


def test_the_seconds_that_a_guest_computes_count_and_those_that_it_sleeps_hardly(asked_on):
    judge = asked_on(
        "import time\n"
        "def computes():\n    begun = time.process_time()\n    while time.process_time() - begun "
        "< 0.6: pass\n"
        "def sleeps():\n    time.sleep(0.6)"
    )
    seconds = {}
    for name in ("computes", "sleeps"):
        function = judge.lookup(name)
        watch = Stopwatch(function)
        function()
        seconds[name] = watch.seconds
    assert seconds["computes"] > seconds["sleeps"] > 0


@pytest.mark.parametrize("expression", ODD_RESULTS)
def test_an_odd_result_is_a_value_or_an_error_and_the_guest_lives(asked_on, expression):
    judge = asked_on(ODD + f"def odd():\n    return {expression}\ndef fine():\n    return 1")
    try:
        judge.lookup("odd")()
    except Ended:
        raise
    except Exception as error:
        assert str(error)
    assert judge.lookup("fine")() == 1


# Forged frames: the judge's side, against whoever holds the other end.

FRAMES = [
    b"\xff" * 64,
    wire.HEAD.pack(10, 0) + b"not json!!",
    wire.HEAD.pack(2, 0) + b"[]",
    wire.pack({"op": "nothing"}),
    wire.HEAD.pack(4, 8) + b"null" + b"x" * 8,
    wire.pack(
        {"op": "callback", "callback": 0, "arguments": {"t": "tuple", "v": []}, "keywords": {}}
    ),
    wire.HEAD.pack(len(b'{"op": "done", "blobs": [-8, 8]}'), 0)
    + b'{"op": "done", "blobs": [-8, 8]}',
    wire.HEAD.pack(200_000, 0) + b"[" * 200_000,
    wire.HEAD.pack(20_000, 0) + b'{"op":' + b"9" * 19_993 + b"}",
]
VALUES_FORGED = [
    {"t": "array", "dtype": "<f8", "shape": [10**9], "strides": [8], "offset": 0, "b": 0},
    {"t": "array", "dtype": "<f8", "shape": [2**40, 2**40], "strides": [0, 0], "offset": 0, "b": 0},
    {"t": "array", "dtype": "<f8", "shape": [1], "strides": [8], "offset": -8, "b": 0},
    {"t": "array", "dtype": "|O", "shape": [1], "strides": [8], "offset": 0, "b": 0},
    {"t": "array", "dtype": "f8,O", "shape": [1], "strides": [8], "offset": 0, "b": 0},
    {"t": "array", "dtype": "<f8", "shape": [1], "strides": [8], "offset": 0, "b": 7},
    {"t": "array", "dtype": "<f8", "shape": [-1], "strides": [8], "offset": 0, "b": 0},
    {"t": "array", "dtype": "<f8", "shape": ["1"], "strides": [8], "offset": 0, "b": 0},
    {"t": "array"},
    {"t": "tensor", "dtype": "float64", "shape": [4], "strides": [8], "b": 0, "device": "cpu"},
    {"t": "tensor", "dtype": "load", "shape": [1], "strides": [1], "b": 0, "device": "cpu"},
    {"t": "tensor", "dtype": "float64", "shape": [2**40], "strides": [0], "b": 0, "device": "cpu"},
    {"t": "same", "v": 0},
    {"t": "same", "v": True},
    {"t": "mine", "v": 0},
    {"t": "callback", "v": 0},
    {"t": "module", "v": {}},
    {"t": "generator", "v": {}},
    {"t": "handle", "v": -1},
    {"t": "dict", "v": [[{"t": "list", "v": []}, 1]]},
    {"t": "dtype", "v": "__class__"},
    {"t": ["list"]},
    ["a plain list"],
    {"t": "complex", "v": 1},
    {"t": "float", "v": "__import__('os')"},
]


def against(frames, usage=lambda: {"cpu": 0.0, "idle": 0.0}):
    """Return a judge's guest whose other end sends these frames, whatever it is asked."""
    ours, theirs = socket.socketpair()
    threading.Thread(
        target=lambda: [theirs.sendall(frame) for frame in frames], daemon=True
    ).start()
    guest = Guest(ours, LIMITS, usage, lambda: None)
    guest.other = theirs
    return guest


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
def test_a_forged_frame_ends_the_guest_and_is_named(toy, frame):
    judge = judge_with(toy, against([frame]))
    with pytest.raises(Ended, match="forged") as caught:
        judge.notebook.find("add")
    assert caught.value.kind == Kind.HOSTILE


@pytest.mark.parametrize("value", VALUES_FORGED, ids=range(len(VALUES_FORGED)))
def test_a_forged_value_ends_the_guest_and_is_named(toy, value):
    judge = judge_with(
        toy, against([wire.pack({"op": "done", "value": value, "found": True}, [b"x" * 8])])
    )
    with pytest.raises(Ended, match="forged") as caught:
        judge.notebook.ask("call", {"name_of": "add"})
    assert caught.value.kind == Kind.HOSTILE and judge.notebook.guest.ended


@pytest.mark.parametrize(
    "changed",
    [{"0": 7}, {"9": 0}, {"x": 0}, {"0": 0}, [0], {"0": None}, "0"],
    ids=lambda value: json.dumps(value),
)
def test_a_forged_change_is_noticed(toy, changed):
    judge = judge_with(
        toy, against([wire.pack({"op": "done", "value": None, "changed": changed}, [b"x" * 8])])
    )
    x = np.ones(3)
    with pytest.raises(Ended) as caught:
        judge.notebook.ask("call", {"name_of": "add"}, (x,))
    assert caught.value.kind == Kind.HOSTILE and x.sum() == 3


@pytest.mark.parametrize(
    "shape",
    [{"0": [7]}, {"9": [3]}, {"x": [3]}, {"0": [-3, -1]}, {"0": [1.5, 2]}, [3], {"0": 3}, {"1": [6]}],
    ids=lambda value: json.dumps(value),
)  # fmt: skip
def test_a_forged_shape_is_noticed(toy, shape):
    judge = judge_with(toy, against([wire.pack({"op": "done", "value": None, "reshaped": shape})]))
    x, view = np.ones(3), np.ones((4, 6))[:2, :3]
    with pytest.raises(Ended) as caught:
        judge.notebook.ask("call", {"name_of": "add"}, (x, view))
    assert caught.value.kind == Kind.HOSTILE and (x.shape, view.shape) == ((3,), (2, 3))


def test_half_a_message_is_not_waited_for_without_end(toy, monkeypatch):
    monkeypatch.setattr("autograder.sandbox.guest.STALL_FACTOR", 0.1)
    judge = judge_with(toy, against([wire.HEAD.pack(100, 0) + b"{"]))
    with pytest.raises(Ended, match="half a message"):
        judge.notebook.find("add")


# What a check cell is worth.


def worth(toy, guests, source, before="def f(x):\n    return 2 * x", points=4):
    """Return the points of one check cell after one cell of a student's, and its outputs as
    text.
    """
    notebook = nbformat.v4.new_notebook()
    mark = {
        "nbgrader": {
            "grade": True,
            "solution": False,
            "points": points,
            "grade_id": "check",
            "locked": True,
        }
    }
    notebook.cells = [
        nbformat.v4.new_code_cell(before),
        nbformat.v4.new_code_cell(source, metadata=mark),
    ]
    ended = run_notebook(notebook, toy, guests).guest_ends
    return points_of(notebook.cells[1]), nbformat.writes(notebook), ended


@pytest.mark.parametrize(
    "source, points",
    [
        ("assert f(3) == 6", 4),
        ("assert f(3) == 7", 0),
        ("assert f(3) == 7, 'no'", 0),
        ("import numpy as np\nnp.testing.assert_allclose(f(np.ones(3)), [2, 2, 2])", 4),
        ("import numpy as np\nnp.testing.assert_allclose(f(np.ones(3)), [2, 2, 3])", 0),
        ("f(3) - 3.5", 2.5),
        ("float('nan')", 0),
        ("-3", 0),
        ("500.0", 4),
        ("4.0000001", 4),
        ("False", 0),
        ("True", 4),
        ("print('fine')", 4),
        (
            "def helper(x):\n    return f(x) + 1\nassert helper(1) == 3 and [f(i) for i in (1, 2)] "
            "== [2, 4]",
            4,
        ),
        ("assert len([1]) == 1 and abs(f(-1)) == 2", 4),
        ("f.__class__ = 3", 0),
        ("g(1)", 0),
        ("%time f(1)\n3", 3),
    ],
)
def test_what_a_check_cell_is_worth(toy, guests, source, points):
    assert worth(toy, guests, source)[0] == points


def test_a_check_cell_uses_builtins_and_imports_of_the_judge(toy, guests):
    before = (
        "import builtins, numpy\nabs = max = len = lambda *a: 7\nnumpy.testing.assert_allclose = "
        "print\n"
        "numpy.allclose = lambda *a, **k: True\nbuiltins.AssertionError = ValueError\ndef f(x):\n "
        "   return 3"
    )
    source = "import numpy as np\nassert len([]) == 0\nnp.testing.assert_allclose(f(1), 4)"
    assert worth(toy, guests, source, before)[0] == 0


def test_a_check_that_cannot_be_imported_is_our_fault(toy, guests):
    with pytest.raises(CourseCheckError, match="no_such_module"):
        worth(toy, guests, "import no_such_module")


# Limits, and what a dead guest costs.


def four(source):
    """Return a notebook of two functions and their checks; `source` stands before the second."""
    notebook = nbformat.v4.new_notebook()

    def mark(name):
        return {
            "nbgrader": {
                "grade": True,
                "solution": False,
                "points": 1,
                "grade_id": name,
                "locked": True,
            }
        }

    notebook.cells = [
        nbformat.v4.new_code_cell("def one():\n    return 1", id="one"),
        nbformat.v4.new_code_cell("assert one() == 1", metadata=mark("check_one"), id="check_one"),
        nbformat.v4.new_code_cell(source, id="middle"),
        nbformat.v4.new_code_cell("def two():\n    return one() + 1", id="two"),
        nbformat.v4.new_code_cell("assert two() == 2", metadata=mark("check_two"), id="check_two"),
    ]
    return notebook


STUBBORN = """import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""
DEADLY = {
    "exit": ("import os; os._exit(0)", "status 0"),
    "exec": ("import os; os.execv('/bin/true', ['true'])", "status 0"),
    "signal": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    "crash": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "loop": (STUBBORN, "computed for more than 6 seconds"),
    "wait": ("import threading; threading.Event().wait()", "idle for more than 3 seconds"),
    "lock": (
        "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "idle for more",
    ),
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", DEADLY)
def test_a_dead_guest_costs_the_cell_that_killed_it(toy, guests, name):
    source, says = DEADLY[name]
    notebook = four(source)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    ended = run_notebook(notebook, toy, guests).guest_ends
    points = [points_of(cell) for cell in notebook.cells if is_check(cell)]
    assert points == [1, 1] and [cell for cell, _ in ended] == ["middle"]
    assert says in str(ended[0][1]) and ended[0][1].kind == Kind.LIMIT
    survivors = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # one that ends while it is looked at
            ours = "bwrap" in child.name() or "parent.main" in child.cmdline()
            # starts and ends processes as it likes, if a test before had one
            browsers = "chrom" in child.name()
            if child.pid not in before and not ours and not browsers:
                survivors.append(child)
    assert not psutil.wait_procs(survivors, timeout=3)[1]


def test_a_function_that_ends_python_fails_one_check(toy, guests):
    notebook = four("def one():\n    import os\n    os._exit(3)")
    notebook.cells.insert(3, nbformat.v4.new_code_cell("assert one() == 1", id="again"))
    notebook.cells[3].metadata = {
        "nbgrader": {
            "grade": True,
            "solution": False,
            "points": 1,
            "grade_id": "again",
            "locked": True,
        }
    }
    notebook.cells[-1].source = "assert 1 + 1 == 2"
    ended = run_notebook(notebook, toy, guests).guest_ends
    assert [points_of(cell) for cell in notebook.cells if is_check(cell)] == [1, 0, 1]
    assert [cell for cell, _ in ended] == ["again"]


def test_every_cell_deadly_still_ends(toy, guests):
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell("import os; os._exit(1)", id=f"c{i}") for i in range(20)
    ]
    ended = run_notebook(notebook, toy, guests).guest_ends
    assert len(ended) == LIMITS.deaths and "was not run" in nbformat.writes(notebook)


class MortalGuests:
    """A source of guests that only pretend to run cells: the first one ends at the cell "last", and
    each later one at the first cell that it gets.
    """

    warm = True

    def __init__(self):
        self.count = 0

    def guest(self, budget):
        self.count += 1
        return MortalGuest("last" if self.count == 1 else "")


class MortalGuest:
    def __init__(self, deadly):
        self.deadly, self.ended = deadly, None

    def request(self, message, blobs, **handlers):
        if message["op"] == "cell" and self.deadly in blobs[0].decode():
            self.ended = Ended("it ended Python.")
            raise self.ended
        return {"op": "done"}, []

    def close(self):
        pass


@pytest.mark.parametrize("check", [False, True], ids=["cell", "check"])
def test_a_cell_that_no_guest_lives_to_run_is_not_blamed(toy, check):
    earlier = [f"c{number}" for number in range(20)]
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(name, id=name) for name in [*earlier, "last"]]
    mark = {"grade": True, "solution": False, "points": 1, "grade_id": "next", "locked": True}
    notebook.cells.append(
        nbformat.v4.new_code_cell("1", id="next", metadata={"nbgrader": mark} if check else {})
    )
    execution = run_notebook(notebook, toy, MortalGuests())
    ended = [cell for cell, _ in execution.guest_ends]
    assert ended == ["last", *earlier[: 2 * LIMITS.deaths]]
    says = nbformat.writes(nbformat.v4.new_notebook(cells=notebook.cells[-1:]))
    assert "was not run" in says and "topped" not in says
    if check:
        assert points_of(notebook.cells[-1]) == 0
        assert "was not run" in str(execution.checked["next"].error)


def test_a_students_random_numbers_are_the_same_at_each_grading_and_differ_by_seed(toy, guests):
    def drawn(seed):
        source = (
            "import random, numpy, torch\nprint(random.random(), numpy.random.rand(), "
            "torch.rand(1))"
        )
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
        run_notebook(notebook, toy, guests, seed)
        return notebook.cells[0].outputs[0].text

    again = drawn(5)
    assert drawn(5) == again != drawn(6)


def test_an_exception_of_a_cell_is_an_output_of_its_own(toy, guests):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    run_notebook(notebook, toy, guests)
    (output,) = notebook.cells[0].outputs
    assert (output.output_type, output.ename, output.evalue) == (
        "error",
        "ZeroDivisionError",
        "division by zero",
    )


# What notebooks normally do.

WORKS = {
    "rich output": (
        "from IPython.display import display, Markdown\ndisplay(Markdown('*hi*'))",
        "*hi*",
    ),
    "a plot": ("import matplotlib.pyplot as plt\nplt.plot([1, 2]);", "image/png"),
    "an svg": (
        "%config InlineBackend.figure_formats = ['svg']\nimport matplotlib.pyplot as "
        "plt\nplt.plot([1, 2]);",
        "image/svg+xml;base64",
    ),
    "a table": (
        "from IPython.display import HTML\nHTML('<table><tr><td>1</td></tr></table>')",
        "<td>1</td>",
    ),
    "magics": ("%timeit -n1 -r1 1", "loop"),
    "a magic without its mark": ("pwd", "/"),
    "a pasted prompt": ("In [1]: pasted = 7\n   ...: print(pasted)", "7"),
    "a magic among lines": ("pasted = 5\nfound = %who_ls\nprint('pasted' in found)", "True"),
    "cell magics": ("%%time\nprint('timed')", "timed"),
    "a shell command": ("!echo from the shell", "from the shell"),
    "bash": ("%%bash\necho from bash", "from bash"),
    "os.system": ("import os\nos.system('echo from system');", "from system"),
    "a widget": ("import ipywidgets\nipywidgets.IntSlider(3)", "IntSlider"),
    "await": ("import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')", "awaited"),
    "threads": (
        "import threading\nt = threading.Thread(target=print, args=('threaded',)); t.start(); "
        "t.join()",
        "threaded",
    ),
    "processes": (
        "import multiprocessing as mp\ndef child(x):\n    print('child', x)\n    return x * x\n"
        "with mp.get_context('fork').Pool(2) as pool:\n    print(pool.map(child, [2, 3]))",
        "[4, 9]",
    ),
    "warnings": ("import warnings\nwarnings.warn('careful')", "careful"),
    "files": ("open('mine.txt', 'w').write('kept')\nprint(open('mine.txt').read())", "kept"),
    "tqdm-like": ("import sys\nfor i in range(3): sys.stderr.write(f'\\r{i}')", "2"),
    "stdout's buffer": ("import sys\nsys.stdout.buffer.write(b'bytes')", "bytes"),
    "its own checks": ("from checks import run\nrun('add', points=4)", "when a notebook is graded"),
    "torch threads": ("import torch\nprint('threads', torch.get_num_threads())", "threads 1"),
    "default dtype": (
        "import torch\nprint(torch.get_default_dtype(), torch.is_grad_enabled())",
        "float32 True",
    ),
}


@pytest.mark.parametrize("name", WORKS)
def test_what_notebooks_normally_do_works(toy, guests, name):
    source, says = WORKS[name]
    if isinstance(guests, sandbox.UnsandboxedGuests) and name == "torch threads":
        # an ordinary process has as many as the machine
        source, says = "print('threads 1')", "threads 1"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    assert not run_notebook(notebook, toy, guests).guest_ends
    text = nbformat.writes(notebook)
    assert says in text and '"output_type": "error"' not in text, text


LEAVES = """
import os
left = []
FOLDERS = "/ /dev /tmp /scratch /guest /etc /proc /sys /usr /var/tmp /dev/shm /dev/pts".split()
for folder in FOLDERS:
    try:
        with open(os.path.join(folder, "left-behind"), "w") as file:
            file.write("mine")
        left.append(folder)
    except OSError:
        pass
print("wrote", left)
"""
FINDS = """
import os
found = [folder for folder in ("/", "/dev", "/tmp", "/scratch", "/guest", "/etc", "/var/tmp", "/dev/shm", "/dev/pts")
         if os.path.exists(os.path.join(folder, "left-behind"))]
print("found", found)
"""


def shown(guest, source):
    outputs = []
    guest.request({"op": "cell"}, [source.encode()], on_output=outputs.append)
    return "".join(output.get("text", output.get("evalue", "")) for output in outputs)


@pytest.fixture
def pair(isolated, toy):
    """Two guests that live at the same time, over two channels of one warm parent."""
    pool = sandbox.GuestPool(LIMITS, ["torch"], [str(toy.root), str(ROOT)])
    channels = [sandbox.Channel(pool.channel(), LIMITS) for _ in range(2)]
    guests_started = [channel.guest() for channel in channels]
    yield guests_started
    for guest in guests_started:
        guest.close()
    pool.close()


def test_what_one_guest_leaves_no_other_finds(pair, isolated):
    first, second = pair
    assert "wrote" in shown(first, LEAVES) and "/scratch" in shown(first, LEAVES)
    assert "found []" in shown(second, FINDS)


SERVES = """
import socket
own = socket.socket(socket.AF_UNIX); own.bind("\\0meet"); own.listen()
port = socket.create_server(("127.0.0.1", 45671))
print("listening")
"""
MEETS = """
import socket
for family, address in ((socket.AF_UNIX, "\\0meet"), (socket.AF_INET, ("127.0.0.1", 45671))):
    try:
        socket.socket(family).connect(address); print("MET", family)
    except OSError as error:
        print("alone", error.errno)
"""


def test_guests_cannot_find_each_other(pair):
    first, second = pair
    assert "listening" in shown(first, SERVES) and "MET" in shown(first, MEETS)
    text = shown(second, MEETS)
    assert "MET" not in text and text.count("alone") == 2


REACHES = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, call):
    try:
        print("REACHED" if call() not in (-1, None) else "refused", name)
    except (OSError, AttributeError, ValueError) as error:
        print("refused", name)
tried("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).fileno())
tried("packets", lambda: socket.socket(17, socket.SOCK_RAW).fileno())
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).fileno())
tried("unshare", lambda: libc.unshare(0x10000000))
tried("mount", lambda: libc.mount(b"none", b"/scratch", b"tmpfs", 0, None))
tried("ptrace", lambda: libc.ptrace(16, 1, 0, 0))
tried("keyctl", lambda: libc.syscall(250, 0, -3, 1))
tried("bpf", lambda: libc.syscall(321, 0, 0, 0))
tried("memory of process 1", lambda: open("/proc/1/mem", "rb"))
tried("environment of process 1", lambda: open("/proc/1/environ", "rb").read())
tried("descriptors of process 1", lambda: os.listdir("/proc/1/fd"))
tried("the kernel's settings", lambda: open("/proc/sys/kernel/hostname", "w"))
tried("another user", lambda: os.setuid(0))
tried("real time", lambda: libc.sched_setattr(0, 0, 0))
links = []
for name in os.listdir("/proc/self/fd"):
    try:
        links.append(os.readlink("/proc/self/fd/" + name))
    except OSError:
        pass  # the one that listed them
print([link for link in links if "socket" in link])
"""


def test_what_a_guest_has_no_use_for_is_refused(pair):
    text = shown(pair[0], REACHES)
    assert text.count("refused") == 14 and "REACHED" not in text, text
    assert text.count("socket:") == 1, text  # its own end of the wire, and no other's


def test_a_judge_that_is_made_to_compute_too_much_says_so(asked):
    judge = asked(
        "import numpy as np\ndef f(g):\n"
        "    big = np.lib.stride_tricks.as_strided(np.ones(1), (9_000,), (0,))\n"
        "    try:\n        g(big)\n    except Exception as error:\n        return "
        "type(error).__name__"
    )
    assert judge.lookup("f")(lambda x: np.ones((len(x), len(x), 4))) in (
        "MemoryError",
        "_ArrayMemoryError",
    )


def test_the_last_message_of_a_keeper_is_read_after_an_unread_question():
    ours, keepers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked = sandbox._KeeperUsage(ours)
    ours.send(b"?")
    keepers.send(b'{"ended": "exit", "code": 3}')
    keepers.close()
    assert asked() == {"ended": "exit", "code": 3} == asked()


@pytest.mark.parametrize(
    "line",
    ["tl.load?", "%timeit 1", "!ls", "x = (7\n     % 3)"],
    ids=["help", "magic", "shell", "%"],
)
def test_a_cell_with_a_line_of_ipython_still_tells_what_it_defines(line):
    cell = nbformat.v4.new_code_cell(f"{line}\n\ndef add(a, b):\n    return a + b\n")
    host = SimpleNamespace(cells_run=[cell])
    (definition, *_) = judge.Judge.code_of(host, "add")
    assert definition.name == "add"

"""The runtime that travels with every exercise, piece by piece: expectations, calls, suites,
words and pictures.
"""

import contextlib
import functools
import io
import json
import subprocess
import sys
import time
import warnings
import zipfile
from types import ModuleType

import numpy as np
import pytest
import torch
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from IPython.core.formatters import DisplayFormatter

from autograder import checking
from autograder.checking import (
    COMMON,
    Draw,
    Failed,
    Message,
    Report,
    Result,
    Status,
    Suite,
    diagnosis,
    families,
    machine,
    misconception,
    right,
    show,
    use_host,
    words,
)
from autograder.checking.answer_parts import fits, scaled, softmax, stretched, transposed
from autograder.checking.answers import FAMILIES, answers_in
from autograder.checking.diagnosis import same
from autograder.checking.draw import noncontiguous, read_only
from autograder.checking.expect import (
    as_numbers,
    describe,
    expect,
    expect_agrees,
    expect_array,
    expect_close,
    expect_dtypes,
    expect_inputs_kept,
    expect_raises,
    expect_tuple,
    expect_unchanged,
    shapes,
    told_by,
)
from autograder.checking.report import cause_text, first_wrong
from autograder.checking.stand_ins import noting
from autograder.checking.subject import Subject, attempt, twin
from autograder.course import seeds
from autograder.course.config import Exercise

SEED = 5


@pytest.fixture(autouse=True)
def english(monkeypatch):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def suite():
    """A suite on `double`: a shape, values that need it, and a refusal; weights 1, 2 and 3."""
    suite = Suite("checks", read={"double": "chapter 1, Twice"})

    @suite.check(weight=1)
    def keeps_shape(double, draw):
        """The shape of `A` is kept."""
        A = draw.array(*draw.sizes(2))
        expect_array(double(A), A.shape)

    @suite.check(weight=2, needs=keeps_shape)
    def values(double, draw):
        """Each entry is twice as large."""
        A = draw.array(*draw.sizes(2))
        expect_close(double(A), 2 * A)

    @suite.check(weight=3)
    def refuses_text(double, draw):
        """A text raises `TypeError`."""
        expect_raises([TypeError], double, "a text", because="it is no array")

    return suite


@pytest.fixture
def list_wrong(monkeypatch):
    """Return a function that makes these answers the module `misconceptions`."""

    def make(*answers):
        module = ModuleType("misconceptions")
        vars(module).update({answer.__name__: answer for answer in answers})
        monkeypatch.setitem(sys.modules, "misconceptions", module)

    make()
    return make


def double(A):
    if isinstance(A, str):
        raise TypeError("no array")
    return A * 2


def failure(expectation, *arguments, **named):
    with pytest.raises(Failed) as caught:
        expectation(*arguments, **named)
    return str(caught.value.message), [str(line) for line in caught.value.held]


# What is expected.


def test_expect_close_counts_wrong_elements_and_lists_what_passed():
    expected = np.arange(6.0).reshape(2, 3)
    got = expected.copy()
    expect_close(got, expected)
    got[1, 2] = 0
    passed = ["the shape (2, 3) is right", "5 of 6 elements are right"]
    assert failure(expect_close, got, expected) == (
        "1 of 6 elements of the result is wrong.",
        passed,
    )
    got[1] = np.nan
    message, passed = failure(expect_close, got, expected, what="A")
    assert message == "3 of 6 elements of A are wrong. 3 of them are NaN."
    got = np.full((2, 3), np.nan)
    got[0, 0] = expected[0, 0]
    assert failure(expect_close, got, expected)[1] == [
        "the shape (2, 3) is right",
        "1 of 6 elements is right",
    ]
    assert failure(expect_close, np.float64(1), np.asarray(2.0)) == (
        "1 of 1 elements of the result is wrong.",
        [],
    )
    assert failure(expect_close, np.array([1.0, np.nan]), np.array([1.0, 2.0]))[0].endswith(
        " 1 of them is NaN."
    )


def test_expect_close_measures_by_the_largest_finite_magnitude():
    expect_close(np.array([1e-3, 100.0]), np.array([0.0, 100.0]))
    expect_close(np.array([0.0, np.inf]), np.array([0.0, np.inf]))
    assert failure(expect_close, np.array([1e-3, 1.0]), np.array([0.0, 1.0]))
    assert failure(expect_close, np.array([0.0, np.inf]), np.array([0.0, -np.inf]))
    assert failure(expect_close, np.array([1e-3, np.inf]), np.array([0.0, np.inf]))


def test_expect_array_names_shape_dtype_and_type():
    A = np.zeros((2, 3))
    assert expect_array(A, (2, 3), np.float64) is not A
    assert failure(expect_array, A, (2, 5)) == (
        "Expected the result to have shape (2, 5), got (2, 3).",
        ["the number of axes (2) is right", "the size of axis 0 is right"],
    )
    assert (
        failure(expect_array, np.zeros((2, 3, 4)), (2, 5, 4))[1][1]
        == "the sizes of axes 0, 2 are right"
    )
    assert failure(expect_array, A, (3, 2))[1] == ["the number of axes (2) is right"]
    assert failure(expect_array, A, (6,)) == (
        "Expected the result to have shape (6,), got (2, 3).",
        [],
    )
    assert failure(expect_array, A, (2, 3), np.float32, what="Z") == (
        "Expected Z to have dtype float32, got float64.",
        ["the shape (2, 3) is right"],
    )
    assert failure(expect_array, A, dtype=np.float32)[1] == []
    for value, words_for_it in (
        (None, "None (is a `return` missing?)"),
        ([1.0, 2.0], "a list of 2"),
        (3.0, "a value of type float"),
        (np.float64(3), "an array of shape ()"),
        ("abc", "a value of type str"),
        (np.complex128(1j), "a value of type complex128"),
    ):
        if not isinstance(value, np.generic):
            assert (
                failure(expect_array, value)[0] == "Expected the result to be an array, got "
                f"{words_for_it}."
            )
    assert str(describe(np.zeros((4, 1)))) == "an array of shape (4, 1)"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.ones(3, complex), "an array of complex128"),
        (np.array([1, None]), "an array of Python objects"),
        (np.array(["a"]), "an array of text"),
        (np.array([(1, 2)], dtype=[("a", int), ("b", int)]), "an array of records"),
        (np.array(["2026-01-01"], "M8[D]"), "an array of datetime64[D]"),
        (torch.ones(3, dtype=torch.complex64), "a complex64 tensor"),
        (torch.ones(3).to_sparse(), "a sparse_coo tensor"),
        (torch.ones(3, device="meta"), "a meta tensor"),
    ],
)
def test_what_has_no_real_numbers_is_named_by_what_it_has(value, kind):
    assert (
        failure(expect_array, value)[0] == "Expected the result to contain real numbers, got "
        f"{kind}."
    )


def test_tensors_of_any_real_kind_are_numbers():
    for value in (torch.ones(3, dtype=torch.float8_e4m3fn), torch.ones(3, dtype=torch.bfloat16)):
        assert (expect_array(value, (3,)) == 1).all()
    assert (expect_array(torch._neg_view(torch.ones(3))) == -1).all()


def test_expect_raises_wants_the_right_kind():
    expect_raises([TypeError], Subject("double", double), "a text", because="it is no array")
    arguments = (np.zeros((2, 3)), 4, len)
    message, passed = failure(
        expect_raises,
        [ValueError, TypeError],
        Subject("f", lambda *a: None),
        *arguments,
        because="sizes differ",
    )
    assert message == (
        "Called with (2, 3), 4, a function (sizes differ), f should raise ValueError or "
        "TypeError, but returned None (is a `return` missing?). The caller would not notice the "
        "mistake."
    )
    assert passed == []
    message, passed = failure(
        expect_raises, [ValueError], Subject("f", {}.__getitem__), 7, because="no key"
    )
    assert message == "Called with 7 (no key), f should raise ValueError, but raised KeyError: 7"
    assert passed == ["the function raises an error"]
    assert str(shapes(())) == ""


def test_shapes_of_lists_whose_parts_are_not_alike():
    pairs = [(np.zeros((2, 3)), np.zeros((2, 4))), (np.zeros(1), 5)]
    assert str(shapes([pairs, [1.0, 2.0]])) == "[[(2, 3), (2, 4)], [(1,), 5]], (2,)"


def test_expect_unchanged_looks_at_what_the_function_got():
    def adds_in_place(A, B):
        B += A
        return B

    A, B = np.ones(3), np.ones(3)
    expect_unchanged(Subject("add", np.add), ["A", "B"], A, B)
    message, _ = failure(expect_unchanged, Subject("add", adds_in_place), ["A", "B"], A, B)
    assert message.startswith("The argument `B` was changed in place, ")
    assert (B == 1).all()


def failure_of(expectation, *arguments, **named):
    with pytest.raises(Failed) as failed:
        expectation(*arguments, **named)
    return str(failed.value)


def test_expect_tuple_names_what_came_instead():
    A, B = np.ones(2), np.zeros((3, 1))
    first, second = expect_tuple([A, B], "AB")
    assert np.array_equal(first, A) and np.array_equal(second, B)
    message = "Expected a tuple of 2 arrays, (A, B), got "
    assert failure_of(expect_tuple, None, "AB") == message + "None (is a `return` missing?)."
    assert failure_of(expect_tuple, B, "AB") == message + "an array of shape (3, 1)."
    assert failure_of(expect_tuple, (A, B, A), "AB") == message + "a tuple of 3."
    assert failure_of(expect_tuple, {"A": A, "B": B}, "AB") == message + "a value of type dict."
    assert (
        failure_of(expect_tuple, (A, [1, 2]), ("A", "dB"))
        == "Expected dB to be an array, got a list of 2."
    )


def test_expect_agrees_compares_a_result_or_each_part_of_it():
    A = np.array([1.0, 2.0])
    expect_agrees(Subject("f", lambda A: 2 * A), lambda A: A + A, A)
    expect_agrees(Subject("f", lambda A: (A, 2 * A)), lambda A: [A, A + A], A, names="XY")
    close = Subject("f", lambda A: A * 1.01)
    expect_agrees(close, lambda A: A, A, rtol=0.02)
    assert (
        failure_of(expect_agrees, close, lambda A: A, A)
        == "2 of 2 elements of the result are wrong."
    )
    parts = Subject("f", lambda A: (A, A + np.array([0, 1])))
    assert (
        failure_of(expect_agrees, parts, lambda A: (A, A), A, names="XY")
        == "1 of 2 elements of Y is wrong."
    )


def test_expect_dtypes_converts_what_is_floating_and_nothing_else():
    seen = []

    def identity(A, mask, n):
        seen.append((A.dtype, mask.dtype, type(n)))
        return A, A

    expect_dtypes(Subject("kept", identity), np.ones(2), np.ones(2, dtype=bool), 3, names="XY")
    assert seen == [
        (np.dtype(dtype), np.dtype(bool), int) for dtype in (np.float32, np.float64, np.float16)
    ]
    wide = Subject("wide", lambda A: A.astype(float))
    assert failure_of(expect_dtypes, wide, np.ones(2)).endswith(
        "to have dtype float32, got float64."
    )
    second = Subject("second", lambda A: (A, A.astype(np.float32)))
    assert failure_of(expect_dtypes, second, np.ones(2), names="XY").startswith(
        "Expected Y to have"
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("lost", [0, np.nan, np.inf])
def test_expect_dtypes_finds_a_result_that_is_lost_in_one_dtype(dtype, lost):
    def only_in_others(A):
        return np.full_like(A, lost) if A.dtype == dtype else 3 * A

    message = failure_of(expect_dtypes, Subject("f", only_in_others), np.array([0.7, 2.1]))
    assert message.startswith(f"2 of 2 elements of the result in {dtype} are wrong.")
    second = Subject("g", lambda A: (A, only_in_others(A)))
    assert f"of Y in {dtype}" in failure_of(expect_dtypes, second, np.ones(2), names="XY")


def test_expect_dtypes_leaves_mistakes_that_all_dtypes_share_to_other_checks():
    A = np.array([0.7, 2.1, 5.3])
    expect_dtypes(Subject("f", lambda A: A * A.dtype.type(np.nan)), A)
    expect_dtypes(Subject("f", lambda A: A / A.dtype.type(7)), A)
    expect_dtypes(Subject("f", lambda A: np.where(A > 1, A, np.inf).astype(A.dtype)), A)


def test_expect_inputs_kept_also_gives_arrays_that_cannot_be_written_to():
    def put_back(function, A):
        before = A.copy()
        A += 1
        A[:] = before
        return function(A)

    subject = Subject("put_back", put_back)
    expect_unchanged(subject, ["function", "A"], np.sum, np.ones(2))
    assert "read-only" in failure_of(
        expect_inputs_kept, subject, ["function", "A"], np.sum, np.ones(2)
    )
    expect_inputs_kept(
        Subject("sum", lambda function, A: function(A)), ["function", "A"], np.sum, np.ones(2)
    )


def test_arrays_in_other_layouts_have_the_same_values():
    A = np.arange(24.0).reshape(2, 3, 4)
    turned, locked = noncontiguous(A), read_only(A)
    assert (
        np.array_equal(turned, A)
        and not turned.flags.c_contiguous
        and turned.strides[-2:] == (8, 24)
    )
    assert np.array_equal(locked, A) and not locked.flags.writeable and A.flags.writeable
    assert not np.shares_memory(locked, A)


def test_the_pieces_of_answers():
    Q, K = np.arange(6.0).reshape(2, 3) / 4, np.arange(12.0).reshape(4, 3) / 8
    assert np.allclose(scaled(Q, K), np.einsum("id,jd->ij", Q, K) / 3**0.5)
    assert scaled(Q.astype(np.float32), K.astype(np.float32)).dtype == np.float32
    assert np.array_equal(transposed(np.stack([Q, Q])), np.stack([Q.T, Q.T]))
    assert np.allclose(softmax(Q), np.exp(Q) / np.exp(Q).sum(-1, keepdims=True))
    assert np.isfinite(softmax(np.array([[1e4, -1e4]]))).all()
    assert np.allclose(softmax(Q, axis=-2).sum(-2), 1)
    assert np.allclose(stretched(Q, K.T), Q @ K.T)
    assert np.allclose(stretched(Q[:, :1], K.T), Q[:, :1] * K.T.sum(0))
    fits(3, 3)
    with pytest.raises(ValueError, match="the d_k is 2 and 3"):
        fits(2, 3, "d_k")


def test_a_call_is_quiet_and_remembered():
    def noisy(A):
        warnings.warn("hm", stacklevel=1)
        print("to stderr", file=sys.stderr)
        return A / 0

    out, err = io.StringIO(), io.StringIO()
    subject = Subject("noisy", noisy)
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        assert np.isinf(subject(np.ones(2))).all()
    assert (out.getvalue(), err.getvalue()) == ("to stderr\n", "")

    stored = np.zeros(2)

    def returns_the_same(A):
        stored[:] = A
        return stored

    subject = Subject("same", returns_the_same)
    first = subject(np.ones(2))
    subject(np.full(2, 9.0))
    assert (first == 1).all() and (subject.calls[0].result == 1).all()


def test_a_result_that_cannot_be_copied_is_a_wrong_answer(suite, list_wrong):
    def yields(A):
        yield 2 * A

    class Odd(torch.autograd.Function):
        pass

    list_wrong(yields)
    for function in (
        yields,
        lambda A: [Odd()],
        lambda A: sys.stdout.buffer,
        lambda A: {"x": iter([A])},
    ):
        report = suite.examine("double", function, 6, SEED)
        assert not report.score and report.results[0].status == "failed", function


def test_an_exit_is_a_wrong_answer_and_an_interrupt_is_not():
    def leaves(kind, *arguments):
        raise kind(*arguments)

    message, _ = failure(Subject("f", lambda A: leaves(SystemExit, "bye")), np.zeros((2, 1)))
    assert message == "f raised SystemExit for arguments of shape (2, 1): bye"
    message, _ = failure(Subject("f", lambda A: leaves(MemoryError)), np.zeros((2, 1)))
    assert message == "f raised MemoryError for arguments of shape (2, 1): no message"
    with pytest.raises(KeyboardInterrupt):
        Subject("f", lambda A: leaves(KeyboardInterrupt))(1)


# Arguments are copied as they are.


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.arange(12.0).reshape(3, 4).T,
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(12.0)[::-2],
        np.arange(24).reshape(2, 3, 4)[:, ::2, 1:],
        np.broadcast_to(np.arange(3.0), (4, 3)),
        np.lib.stride_tricks.sliding_window_view(np.arange(7.0), 3),
        np.zeros((1, 5))[:, ::2],
        np.array(2.5),
        np.zeros((0, 3)),
        np.zeros((3, 0))[::-1],
        np.ones(3, bool),
        np.ones(3, complex),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}{array.strides}",
)
def test_a_twin_has_the_values_strides_and_memory_order(array):
    copied = twin(array, {})
    assert copied is not array and not np.shares_memory(copied, array)
    assert (copied.shape, copied.strides, copied.dtype) == (array.shape, array.strides, array.dtype)
    assert copied.flags.writeable == array.flags.writeable
    assert copied.flags.f_contiguous == array.flags.f_contiguous
    assert np.array_equal(copied, array)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4).T,
        torch.arange(24).reshape(2, 3, 4)[:, ::2, 1:],
        torch.arange(3.0).expand(4, 3),
        torch.arange(7.0).unfold(0, 3, 1),
        torch.zeros(3, 0),
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, requires_grad=True),
        torch.nn.Parameter(torch.ones(2), requires_grad=False),
    ],
    ids="turned gaps repeats overlaps empty half leaf parameter".split(),
)
def test_a_twin_of_a_tensor_is_like_it(tensor):
    copied = twin(tensor, {})
    assert copied is not tensor and (copied.data_ptr() != tensor.data_ptr() or not tensor.numel())
    for ask in (type, torch.Tensor.size, torch.Tensor.stride):
        assert ask(copied) == ask(tensor)
    assert (copied.dtype, copied.requires_grad, copied.is_leaf) == (
        tensor.dtype,
        tensor.requires_grad,
        True,
    )
    assert torch.equal(copied, tensor)


def test_twins_keep_identity_and_read_only_and_pass_on_what_cannot_be_copied():
    array = np.ones(3)
    array.flags.writeable = False
    rng = np.random.default_rng(1)
    arguments = (array, array, [array, {"a": array}], rng, len, "text", None)
    first, second, (third, inside), generator, *rest = twin(arguments, {})
    assert first is second is third is inside["a"] and not first.flags.writeable
    assert generator is not rng and generator.random() == rng.random()
    assert rest == [len, "text", None]
    overlapping = np.lib.stride_tricks.sliding_window_view(np.arange(4.0), 2, writeable=True)
    copied = twin(overlapping, {})
    copied[0, 1] = 9
    assert copied[1, 0] == 9 and overlapping[1, 0] == 1


# Draws.


def test_draws_repeat_differ_by_check_and_hide_nothing():
    draw, again, other = Draw(SEED, "a"), Draw(SEED, "a"), Draw(SEED, "b")
    assert draw.sizes(5) == again.sizes(5) and sorted(draw.sizes(5)) == [3, 5, 7, 11, 13]
    assert all(len(set(Draw(seed, "a").sizes(3))) == 3 for seed in range(20))
    first, second = Draw(SEED, "a").array(4, 5), other.array(4, 5)
    assert np.array_equal(first, Draw(SEED, "a").array(4, 5)) and not np.array_equal(first, second)
    assert (np.abs(first) >= 0.5).all() and (np.abs(first) <= 1.5).all()
    assert draw.array(2, dtype=np.float32).dtype == np.float32
    weights = draw.weights(4, 5)
    assert (weights > 0).all() and np.allclose(weights.sum(-1), 1)


# Suites.


def test_points_are_partial_and_rounded(suite):
    assert suite.examine("double", double, 6, SEED).score == 6
    report = suite.examine("double", lambda A: A * 2, 10, SEED)  # a text doubles, too
    assert [result.status for result in report.results] == ["passed", "passed", "failed"]
    assert report.score == 5
    report = suite.examine("double", lambda A: A * 3, 10, SEED)
    assert [result.status for result in report.results] == ["passed", "failed", "failed"]
    assert report.score == 1.67
    assert (report.points, report.seed, report.read) == (10, SEED, "chapter 1, Twice")


def test_a_check_waits_for_what_it_needs(suite):
    report = suite.examine("double", lambda A: A[0], 6, SEED)
    assert [result.status for result in report.results] == ["failed", "blocked", "failed"]
    assert str(report.results[1].message) == "Waits for `keeps_shape`."
    assert (
        "  waits   Each entry is twice as large. (for `keeps_shape`)"
        in show.text(report).splitlines()
    )
    page = show.as_html(Report.from_dict(report.to_dict()))
    assert "failed <code>keeps_shape</code>: The shape" in page
    assert "waits for <code>keeps_shape</code>: Each entry" in page


def test_a_check_waits_for_what_failed_and_not_for_what_waits_itself(suite):
    keeps_shape, values, refuses_text = suite.checks

    @suite.check(needs=[values, refuses_text, keeps_shape])
    def last(double, draw):
        """Needs all."""

    report = suite.examine("double", lambda A: None, 7, SEED)
    assert str(report.results[3].message) == "Waits for `keeps_shape`, `refuses_text`."


@pytest.mark.parametrize("function", [None, 3, "stub"])
def test_what_is_not_written_waits(suite, function):
    def stub(A):
        raise NotImplementedError

    sentences = {
        None: "double is not defined. Run the cell that defines it, and see whether it raises an "
        "error.",
        3: "Expected double to be a function, got a value of type int.",
        "stub": "double, or a function that it calls, is not written yet: it raises "
        "NotImplementedError.",
    }
    report = suite.examine("double", stub if function == "stub" else function, 6, SEED)
    assert {result.status for result in report.results} == {"blocked"} and report.score == 0
    assert {str(result.message) for result in report.results} == {sentences[function]}
    assert show.text(report).splitlines() == ["double: 0 of 6 points", f"  {sentences[function]}"]
    page = show.as_html(report)
    assert (
        page.count(sentences[function]) == 1
        and "<li" not in page
        and page.count("<div") == page.count("</div>")
    )


def test_a_missing_part_costs_only_the_checks_of_that_part(suite):
    """Some of torch's operations raise the same error in float16, for example."""

    def halfway(A):
        if isinstance(A, str):
            raise NotImplementedError("no text")
        return 2 * A

    report = suite.examine("double", halfway, 6, SEED)
    (refuses,) = [result for result in report.results if result.name == "refuses_text"]
    assert refuses.status == "failed" and "NotImplementedError: no text" in str(refuses.message)
    assert not any(
        result.status == "blocked" and "not written" in str(result.message)
        for result in report.results
    )


def test_points_are_a_number_that_a_notebook_does_not_show(suite):
    with use_host(Desk()):
        points = suite.run("double", 6)
    shown, _metadata = DisplayFormatter().format(points)
    assert shown == {"text/plain": "6.0", "text/html": ""}
    assert points == 6 and isinstance(points, float)


def test_a_result_that_a_check_stumbles_over_fails_it():
    suite = Suite("checks", read={})

    @suite.check()
    def sums(f, draw):
        """The sum is 3."""
        assert f(1).sum() == 3

    (result,) = suite.examine("f", lambda n: [n], 1, SEED).results
    assert result.status == "failed"
    assert (
        str(result.message)
        == "f returned a list of 1, which this check cannot use: 'list' object has no attribute "
        "'sum'"
    )


def test_what_an_author_mistypes_is_named_at_once(suite):
    def check(double, draw):
        """Holds."""

    with pytest.raises(
        ValueError, match=r"needs 'keep_shape', but no check of double .* " r"keeps_shape, values"
    ):
        suite.check(needs=["keep_shape"])(check)
    with pytest.raises(ValueError, match="needs 'check'"):  # itself
        suite.check(needs="check")(check)
    check.__name__ = "values"
    with pytest.raises(ValueError, match="two checks called values"):
        suite.check()(check)
    check.__name__, check.__doc__ = "undocumented", None
    with pytest.raises(ValueError, match="undocumented has no docstring"):
        suite.check()(check)
    with pytest.raises(ValueError, match="there is no check for 'triple' in checks"):
        suite.examine("triple", double)
    assert len(suite.checks) == 3


def test_needs_are_functions_or_names_one_or_several(suite):
    keeps_shape, values, _ = suite.checks
    every = {}
    for name, needs in {
        "a": keeps_shape,
        "b": "keeps_shape",
        "c": [values, "keeps_shape"],
        "d": (),
    }.items():

        def check(double, draw):
            """Holds."""

        check.__name__ = name
        every[name] = suite.check(needs=needs)(check).needs
    assert every == {
        "a": ("keeps_shape",),
        "b": ("keeps_shape",),
        "c": ("values", "keeps_shape"),
        "d": (),
    }

    def elsewhere(triple, draw):
        """Holds."""

    with pytest.raises(
        ValueError, match=r"elsewhere needs 'values', but no check of triple .* " r"those are: none"
    ):
        suite.check(needs=values)(elsewhere)


class Desk:
    """A place where `double` is known, and where reports are kept."""

    seed, shown = 41, ()

    def lookup(self, name):
        return {"double": double}.get(name)

    def show(self, report):
        self.shown += (report,)


def test_checks_run_on_the_host_that_is_set(suite):
    desk = Desk()
    with use_host(desk):
        assert suite.run("double", 6) == 6
        assert suite.run("double", 6, seed=7) == 6
    assert [report.seed for report in desk.shown] == [41, 7]
    # here again, where nobody has defined it
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert suite.run("double", 6, seed=7) == 0
    assert "double is not defined" in out.getvalue() and len(desk.shown) == 2


# Likely causes.


@misconception("double", label="squared", hint="`*` with itself squares.")
def squares(A):
    return A * A


@misconception("double", hint="Two is added.")
def adds_two(A):
    return A + 2


@misconception("double", label="loses a row", hint="A row is lost.")
def loses_a_row(A):
    return 2 * A[1:]


def causes(suite, function):
    return [result.cause for result in suite.examine("double", function, 1, SEED).results]


def test_a_cause_is_named_where_the_listed_answer_fails_alike(suite, list_wrong):
    list_wrong(squares, adds_two, loses_a_row, double)
    # A text: `squares` and `adds_two` raise what is asked for, `loses_a_row` returns another text.
    assert causes(suite, lambda A: A**2 if not isinstance(A, str) else A) == ["", "squares", ""]
    assert causes(suite, lambda A: 2 + A if not isinstance(A, str) else A) == ["", "adds_two", ""]
    assert causes(suite, loses_a_row) == ["loses_a_row", "", "loses_a_row"]
    assert causes(suite, lambda A: A * 3) == ["", "", ""]
    report = suite.examine("double", adds_two, 1, SEED)
    assert (report.results[1].label, report.results[1].hint) == ("adds two", "Two is added.")


def test_an_answer_that_passes_a_check_is_no_cause_of_failing_it(list_wrong):
    suite, counter = Suite("checks", read={}), []

    @suite.check()
    def holds_for_one_name(f, draw):
        """Holds for listed answers only."""
        f(1)
        if not counter:
            counter.append(1)
            raise Failed("fails the first time")

    @misconception("f", hint="Never shown.")
    def answers_in(n):
        return n

    list_wrong(answers_in)
    (result,) = suite.examine("f", lambda n: n, 1, SEED).results
    assert (result.status, result.cause) == ("failed", "")


@pytest.fixture
def table_of_squares(list_wrong):
    """Examine f(n) for n = 1, 2, 3, right where it is n² times `unit`; returns its causes, by
    check.

    `table_of_squares(came, unit, wrong)` takes what comes for each n, of the function and of listed
    answers, by name.
    """
    suite = Suite("checks", read={})
    units = []

    @suite.check()
    def at_one(f, draw):
        """f(1) is 1."""
        expect_close(np.asarray(f(1)), 1 * units[-1])

    @suite.check()
    def at_two(f, draw):
        """f(2) is 4."""
        expect_close(np.asarray(f(2)), 4 * units[-1])

    @suite.check()
    def at_three(f, draw):
        """f(3) is 9."""
        expect_close(np.asarray(f(3)), 9 * units[-1])

    def examined(wrong_values, unit, **wrong):
        def table(name, values):
            def answer(n):
                return values[n - 1] * unit

            answer.__name__ = name
            return misconception("f", hint=name)(answer)

        units.append(unit)
        list_wrong(*[table(name, values) for name, values in wrong.items()])
        return [
            result.cause for result in suite.examine("f", table("", wrong_values), 1, SEED).results
        ]

    return examined


SEVERAL, ONE = np.array([1.0, 0.3, -2.0]), np.float64(1)


def test_the_cause_that_explains_most_checks_wins_and_the_first_of_equals(table_of_squares):
    wrong = {"part": (7, 4, 8), "more": (7, 8, 9), "more_too": (7, 8, 9)}
    assert table_of_squares((7, 8, 9), SEVERAL, **wrong) == ["more", "more", ""]
    assert table_of_squares((7, 4, 9), SEVERAL, **wrong) == [
        "part",
        "",
        "",
    ]  # both explain one more


def test_a_cause_agrees_in_every_failed_check_that_it_fails(table_of_squares):
    assert table_of_squares((7, 8, 9), SEVERAL, other=(7, 5, 9)) == ["", "", ""]
    assert table_of_squares((7, 8, 9), SEVERAL, other=(7, 4, 9)) == [
        "other",
        "",
        "",
    ]  # what it passes is none of its


def test_a_single_number_is_enough_only_if_all_other_checks_agree(table_of_squares):
    assert table_of_squares((7, 4, 9), ONE, other=(7, 4, 8)) == ["", "", ""]
    assert table_of_squares((7, 4, 9), np.ones(3), other=(7, 4, 8)) == ["", "", ""]
    assert table_of_squares((7, 4, 9), ONE, same=(7, 4, 9)) == ["same", "", ""]


def test_a_single_number_is_enough_if_it_agrees_in_many_draws(list_wrong):
    suite = Suite("checks", read={})

    def count(X):
        return int((X > 0).sum())

    @suite.check()
    def counted(f, draw):
        """It counts what is positive."""
        X = draw.array(20)
        expect_close(np.asarray(f(X)), count(X))

    @suite.check()
    def at_ones(f, draw):
        """Of ones it counts all."""
        expect_close(np.asarray(f(np.ones(4))), 4)

    @misconception("f", hint="What is 0 or less.")
    def others(X):
        return int((X <= 0).sum())

    list_wrong(others)

    def causes(function):
        return [result.cause for result in suite.examine("f", function, 1, SEED).results]

    assert causes(lambda X: 4 if len(X) == 4 else others(X)) == ["others", ""]
    drawn = []
    for seed in (SEED, SEED + 1):
        suite.examine("f", lambda X: drawn.append(X) or 0, 1, seed, diagnosis=False)
    drawn = {X.tobytes() for X in drawn if len(X) > 4}
    assert causes(lambda X: 4 if len(X) == 4 else others(X) + (X.tobytes() not in drawn)) == [
        "",
        "",
    ]


def test_a_text_that_a_check_got_is_no_evidence(list_wrong):
    """Such as what an error said on another device: the mistake that the listed answer has is
    not seen in it.
    """
    suite = Suite("checks", read={})

    @suite.check()
    def values(f, draw):
        """Values."""
        expect_close(f(draw.array(3)), np.zeros(3))

    @suite.check()
    def elsewhere(f, draw):
        """It runs on another device."""
        replies = f.run_remote(lambda f: [str(f(None))])
        if replies != ["fine"]:
            raise Failed(f"There it said: {replies}")

    @misconception("f", hint="True means: may attend.")
    def mask_the_other_way(x):
        return "two devices" if x is None else x

    list_wrong(mask_the_other_way)
    causes = [result.cause for result in suite.examine("f", mask_the_other_way, 1, SEED).results]
    assert causes == ["mask_the_other_way"] * 2
    report = suite.examine("f", lambda x: "two devices" if x is None else 0 * x, 1, SEED)
    assert [result.status for result in report.results] == ["passed", "failed"]
    assert report.results[1].cause == ""


def test_no_numbers_are_shown_after_an_exception(list_wrong):
    suite = Suite("checks", read={})

    @suite.check()
    def twice(f, draw):
        """f(f(2)) is 8."""
        with told_by(lambda: "What came is 2 a."):
            expect_close(np.asarray(f(f(2))), 8)

    list_wrong()
    assert suite.examine("f", lambda n: n, 1, SEED).results[0].relation == "What came is 2 a."
    report = suite.examine("f", lambda n: 4 if n == 2 else 1 / 0, 1, SEED)
    assert report.results[0].raised and report.results[0].relation == ""


def test_small_numbers_are_alike_on_the_scale_of_the_check(list_wrong):
    """Next to the largest number, all small ones look the same."""
    suite = Suite("checks", read={})

    @suite.check()
    def halved(f, draw):
        """Halves each number, large or small."""
        numbers = draw.rng.uniform(1, 2, 5) * [1, 1e-5, 1e-6, 1e-7, 1e-8]
        expect_close(f(numbers), numbers / 2, unit=numbers)

    @misconception("f", hint="Small numbers become 0.")
    def cuts(numbers):
        return np.where(numbers < 1e-3, 0, numbers / 2)

    list_wrong(cuts)
    doubled = lambda numbers: np.where(numbers < 1e-3, 2 * numbers, numbers / 2)  # noqa: E731
    for answer, cause in (lambda numbers: cuts(numbers), "cuts"), (doubled, ""):
        assert suite.examine("f", answer, 1, SEED).results[0].cause == cause


@pytest.mark.parametrize(
    ("got", "cause"),
    [(6, "thrice"), (6.0, "thrice"), (np.float32(6), "thrice"), (np.int64(6), "thrice"), (7, "")],
)
def test_a_mistake_is_recognized_in_every_dtype(list_wrong, got, cause):
    suite = Suite("checks", read={})

    @suite.check()
    def at_two(f, draw):
        """f(2) is 4."""
        expect_close(np.asarray(f(2)), 4)

    @misconception("f", hint="Three times.")
    def thrice(n):
        return 3 * n

    list_wrong(thrice)
    assert suite.examine("f", lambda n: got, 1, SEED).results[0].cause == cause


@pytest.mark.parametrize(
    "got",
    [
        lambda n: np.array([3, 4.0]) * n,
        lambda n: np.array([3, 4], np.float32) * n,
        lambda n: torch.tensor([3, 4.0]) * n,
        lambda n: [3.0 * n, 4.0 * n],
        lambda n: (np.float32(3 * n), 4 * n),
    ],
)
def test_a_mistake_is_recognized_in_any_dtype_and_container_that_the_check_takes(list_wrong, got):
    suite = Suite("checks", read={})

    @suite.check()
    def at_two(f, draw):
        """f(2) is (1, 2)."""
        n = draw.sizes(1)[0]
        expect_close(np.asarray(f(n)), np.array([1, 2]) * n)

    @misconception("f", hint="Two more.")
    def more(n):
        return np.array([3, 4]) * n

    list_wrong(more)
    assert suite.examine("f", got, 1, SEED).results[0].cause == "more"


def test_where_a_check_asks_for_a_dtype_another_one_is_another_mistake(list_wrong):
    suite = Suite("checks", read={})

    @suite.check()
    def dtype(f, draw):
        """f(x) has the dtype of x."""
        expect_array(f(draw.array(3).astype(np.float32)), dtype=np.float32)

    @misconception("f", hint="float64.")
    def double_precision(x):
        return x.astype(float)

    list_wrong(double_precision)
    for kind, cause in [(float, "double_precision"), (np.float16, ""), (int, "")]:
        assert (
            suite.examine("f", lambda x, kind=kind: x.astype(kind), 1, SEED).results[0].cause
            == cause
        )


def test_what_a_cause_is_hangs_on_no_seed_and_not_on_how_busy_the_machine_is(
    list_wrong, monkeypatch
):
    """A function that is a listed one in some draws only is that one in none: all are asked
    about the same others.
    """
    suite = Suite("checks", read={})

    @suite.check()
    def size(f, draw):
        """The result has the size of x."""
        expect_array(f(draw.array(*draw.sizes(2))), (0,))

    @misconception("f", hint="Rows.")
    def rows(x):
        return np.zeros(x.shape[0])

    def longest(x):
        return np.zeros(max(x.shape))

    list_wrong(rows)
    assert {suite.examine("f", rows, 1, seed).results[0].cause for seed in range(9)} == {"rows"}
    assert {suite.examine("f", longest, 1, seed).results[0].cause for seed in range(30)} == {""}
    begun = time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: 4 * begun())  # as where four others compute
    assert suite.examine("f", longest, 1, 5).results[0].cause == ""
    assert suite.examine("f", rows, 1, 5).results[0].cause == "rows"


@pytest.fixture
def in_two_checks(list_wrong):
    """A suite with two checks, of which the first one raises an error for what the second one
    knows as a mistake.
    """
    suite = Suite("checks", read={})

    @suite.check()
    def of_columns(f, draw):
        """f takes columns."""
        x = draw.array(3, 2)
        expect_close(f(x), 2 * x)

    @suite.check()
    def of_rows(f, draw):
        """f takes rows."""
        x = draw.array(3)
        expect_close(f(x), 2 * x)

    @misconception("f", label="turned", hint="It is turned.")
    def turned(x):
        if x.ndim > 1:
            raise ValueError("no columns")
        return 2 * x[::-1]

    list_wrong(turned)
    return suite


def test_a_check_says_that_it_fails_because_of_what_another_one_found(in_two_checks):
    def also(x):
        if x.ndim > 1:
            raise ValueError("two axes")
        return 2 * x[::-1]

    report = in_two_checks.examine("f", also, 1, SEED)
    first, second = report.results
    assert (first.follows, first.cause, second.follows, second.cause) == (
        "of_rows",
        "",
        "",
        "turned",
    )
    message = "Probably the same mistake as in `of_rows`: turned. It makes this check fail as well."
    assert message in show.text(
        report
    ) and "of_rows</code>: turned. It makes this check fail as well." in show.as_html(report)
    assert show.text(report).count("Likely cause: turned.") == 1
    assert Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report


@pytest.mark.parametrize("first", [lambda x: x, lambda x: x.no_such_name, lambda x: 2 * x])
def test_another_failure_is_not_reported_as_a_consequence(in_two_checks, first):
    report = in_two_checks.examine("f", lambda x: first(x) if x.ndim > 1 else 2 * x[::-1], 1, SEED)
    assert [result.follows for result in report.results] == ["", ""]


def test_a_repeated_cause_is_shown_by_its_label(suite, list_wrong):
    list_wrong(loses_a_row)
    report = suite.examine("double", loses_a_row, 1, SEED)
    assert [result.cause for result in report.results] == ["loses_a_row", "", "loses_a_row"]
    name = report.results[0].name
    text, page = show.text(report), show.as_html(report)
    assert f"The same likely cause as in `{name}`: loses a row." in text
    assert f"The same likely cause as in <code>{name}</code>: loses a row." in page
    assert text.count("A row is lost.") == page.count("A row is lost.") == 1


def test_numbers_that_memory_happened_to_hold_are_compared_without_a_warning(list_wrong):
    """A NaN that signals makes NumPy warn where it is converted, and `empty` may give one."""
    suite = Suite("checks", read={})
    signals = np.frombuffer(b"\x01\x00\x80\x7f" * 2, np.float32)

    @suite.check()
    def at_ones(f, draw):
        """f(1) is 2."""
        expect_close(f(np.ones(2)), np.full(2, 2, np.float32))

    @misconception("f", hint="Nothing is written.")
    def empty(A):
        return signals.copy()

    list_wrong(empty)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = suite.examine("f", lambda A: signals[::-1].copy(), 1, SEED)
        of_empty = suite.examine("f", empty, 1, SEED)
    assert np.isnan(report.results[0].where["got"]) and of_empty.results[0].cause == "empty"


def test_a_truth_value_is_no_number(list_wrong):
    suite = Suite("checks", read={})

    @suite.check()
    def at_one(f, draw):
        """f(1) is 2."""
        expect(np.asarray(f(1)).max() == 2, "It is not.")

    @misconception("f", hint="One.")
    def scalar(n):
        return 1

    @misconception("f", hint="Ones.")
    def ones(n):
        return np.ones(3)

    list_wrong(scalar, ones)
    for got, cause in [(1.0, "scalar"), (True, ""), (np.ones(3), "ones"), (np.ones(3) > 0, "")]:
        assert suite.examine("f", lambda n, got=got: got, 1, SEED).results[0].cause == cause


def test_a_compiler_is_only_asked_about_answers_that_are_alike_elsewhere(list_wrong, monkeypatch):
    """To compile each of fifty listed answers takes longer than a judge may compute."""
    monkeypatch.setitem(machine._tried, "compile", "")
    suite, asked = Suite("checks", read={}), []

    @suite.check()
    def doubles(f, draw):
        """f(A) is 2 A."""
        A = draw.array(2, 3)
        expect_close(f(A), 2 * A)

    @suite.check(on="compile")
    def compiles(f, draw):
        """f makes one graph."""
        answer = f("a graph")
        if isinstance(answer, str):
            raise Failed(Message("It came to {came}", came=answer), explained=True)

    def listed(name, factor, answer_to_text):
        def answer(A):
            asked.append((name, A if isinstance(A, str) else "an array"))
            return answer_to_text if isinstance(A, str) else factor * A

        answer.__name__ = name
        return misconception("f", hint=name)(answer)

    list_wrong(
        *(listed(f"times_{n}", n, "no graph") for n in (3, 4, 5)), listed("prints", 2, "no graph")
    )
    report = suite.examine("f", lambda A: "no graph" if isinstance(A, str) else 2 * A, 1, SEED)
    assert [result.cause for result in report.results] == ["", "prints"]
    assert {name for name, argument in asked if argument == "a graph"} == {"prints"}


def test_a_search_for_a_cause_ends_before_the_judge_has_computed_too_much(list_wrong, monkeypatch):
    monkeypatch.setattr(diagnosis, "MOST_SEARCHED", 0.3)
    suite, asked = Suite("checks", read={}), []

    @suite.check()
    def doubles(f, draw):
        """f(2) is 4."""
        expect_close(np.asarray(f(2)), 4)

    def listed(number):
        def answer(n):
            asked.append(number)
            begun = time.process_time()
            while time.process_time() - begun < 0.2:
                pass
            return number

        answer.__name__ = f"always_{number}"
        return misconception("f", hint="Always the same.")(answer)

    list_wrong(*map(listed, range(10, 20)))
    assert suite.examine("f", lambda n: 10, 1, SEED).results[0].cause == "" and len(set(asked)) < 4
    monkeypatch.setattr(diagnosis, "MOST_SEARCHED", 60)
    assert suite.examine("f", lambda n: 10, 1, SEED).results[0].cause == "always_10"


def test_a_relation_found_by_a_check_is_shown_without_a_cause(list_wrong):
    suite = Suite("checks", read={})

    @suite.check()
    def at_two(f, draw):
        """f(2) is 4."""
        failure = Failed("It is not.")
        failure.relation = f"It is {f(2) / 4:g} times 4."
        raise failure

    @misconception("f", hint="Three times.")
    def thrice(n):
        return 3 * n

    list_wrong(thrice)
    for function, cause, relation in [
        (thrice, "thrice", ""),
        (lambda n: 4 * n, "", "It is 2 times 4."),
    ]:
        (result,) = suite.examine("f", function, 1, SEED).results
        assert (result.cause, result.relation) == (cause, relation)


def test_a_broken_listed_answer_costs_no_point(suite, list_wrong):
    broken = misconception("double", hint="x")(lambda A: A)
    del broken.hint
    list_wrong(broken)
    assert suite.examine("double", lambda A: A, 6, SEED).score == 1


def product(*labels, **named):
    """A module that lists X @ W, and the families that are asked for."""

    @families(*labels, **named)
    @right("product")
    def by_matmul(X, W):
        return X @ W

    module = ModuleType("misconceptions")
    module.by_matmul = by_matmul
    return module


def members(module):
    return {answer.label: answer for answer in answers_in(module, "wrong_for", "product")}


def test_a_family_has_what_any_function_can_get_wrong():
    module = product(*FAMILIES, shapes="n d_in, d_in d_out")
    answers = members(module)
    assert list(answers) == [*FAMILIES, "sizes of 1 stretched"]
    X, W = np.arange(6.0).reshape(2, 3) + 0.5, np.arange(12.0).reshape(3, 4)
    batch = np.stack([X, X + 1])
    Y = X @ W
    assert answers["returns nothing"](X, W) is None
    assert answers["a list instead of an array"](X, W) == Y.tolist()
    assert np.array_equal(answers["only the first of the results returned"](X, W), Y[0])
    assert answers["a dictionary instead of a tuple"](X, W).keys() == {0, 1}
    half = [array.astype(np.float16) for array in (X, W)]
    assert answers["result in float64"](*half).dtype == np.float64
    assert answers["result always in float32"](*half).dtype == np.float32
    assert np.array_equal(answers["decimals cut off"](X, W), np.trunc(Y))
    assert answers["axis squeezed away"](X[:1], W).shape == (4,)
    assert answers["batch axis added"](X, W).shape == (1, 2, 4)
    assert np.array_equal(answers["only the first sequence"](batch, W), Y)
    assert np.array_equal(answers["works for two axes only"](X, W), Y)
    with pytest.raises(ValueError, match="too many values to unpack"):
        answers["works for two axes only"](batch, W)
    assert answers["leading axes left flattened"](batch, W).shape == (4, 4)
    with pytest.raises(AssertionError):
        answers["assert instead of ValueError"](X, W[:2])
    square, eye = X[:, :2].copy(), np.eye(2) * 3
    assert answers["result written into an argument"](square, eye) is square and square[0, 0] == 1.5
    assert answers["floats instead of booleans"](X > 1, W > 1).dtype == float
    assert answers["integers instead of booleans"](X > 1, W > 1).dtype == int
    assert np.allclose(answers["sizes of 1 stretched"](X[:, :1], W), X[:, :1] * W.sum(0))
    assert np.allclose(answers["sizes of 1 stretched"](X, W[:1]), X.sum(-1, keepdims=True) * W[:1])
    with pytest.raises(ValueError, match="mismatch"):
        answers["sizes of 1 stretched"](X, W[:2])


def test_a_family_changes_each_of_several_results():
    @families("axis squeezed away")
    @right("both")
    def both(X):
        return X, X[:1]

    module = ModuleType("misconceptions")
    module.both = both
    (squeezed,) = answers_in(module, "wrong_for", "both")
    assert [part.shape for part in squeezed(np.ones((2, 3)))] == [(2, 3), (3,)]
    assert squeezed.__name__ == "both_axis_squeezed_away"


def test_families_can_be_chosen_omitted_and_reworded():
    assert list(members(product())) == [label for label in FAMILIES if label in COMMON]
    answers = members(product(but=["result in float64"], hints={"returns nothing": "Hand it on."}))
    assert answers["returns nothing"].hint == "Hand it on." and len(answers) == len(COMMON) - 1
    assert list(members(product("batch axis added"))) == ["batch axis added"]
    assert [answer.__name__ for answer in answers_in(product(), "right_for", "product")] == [
        "by_matmul"
    ]
    for named, message in [
        (
            {"but": ["squeezed"]},
            "no family of mistakes called 'squeezed'; there are: returns nothing,",
        ),
        (
            {"hints": {"sizes of 1 stretched": "..."}},
            "no family of mistakes called 'sizes of 1 stretched'",
        ),
        (
            {"but": ["batch axis added"]},
            "'batch axis added' is left out or has a new hint, but does not apply",
        ),
        (
            {"hints": {"returns nothing": "..."}, "but": ["returns nothing"]},
            "'returns nothing' is left out",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            product(**named)


def test_what_a_check_hands_over_as_a_function_is_not_called_twice(list_wrong):
    """A function among the arguments may remember: listed answers then run the whole check, not
    its first call.
    """
    suite = Suite("checks", read={})

    @suite.check()
    def asks_once(f, draw):
        """The function is asked once."""
        asked = []
        f(lambda: asked.append(1))
        if len(asked) != 1:
            raise Failed(f"asked {len(asked)} times")

    @misconception("f", hint="Twice.")
    def twice(g):
        g(), g()

    @misconception("f", hint="Never.")
    def never(g):
        pass

    list_wrong(never, twice)
    (result,) = suite.examine("f", lambda g: [g(), g()].clear(), 1, SEED).results
    assert (result.status, str(result.message)) == ("failed", "asked 2 times")


# The window around the first wrong element.


def compared(expected, *wrong):
    expected = np.asarray(expected, float)
    got = expected.copy()
    for index in wrong:
        got[index] += 100
    try:
        expect_close(got, expected)
    except Failed as error:
        return first_wrong(error)


def test_the_window_contains_the_first_wrong_element():
    where = compared(np.arange(63.0).reshape(7, 9), (6, 8), (6, 7))
    assert (where["index"], where["expected"], where["got"]) == ([6, 7], 61, 161)
    assert where["origin"] == [6, 6] and where["lead"] == []
    assert where["expected_matrix"] == [[60, 61, 62]]
    assert where["got_matrix"] == [[60, 161, 162]]
    assert where["wrong_matrix"] == [[False, True, True]]
    where = compared(np.zeros((13, 13)), (5, 6))
    assert where["origin"] == [0, 6]
    assert np.shape(where["got_matrix"]) == (6, 6) and where["got_matrix"][5][0] == 100
    where = compared(np.zeros((2, 3, 4, 5)), (1, 2, 0, 4), (1, 2, 3, 3))
    assert where["index"] == [1, 2, 0, 4] and where["lead"] == [1, 2]
    assert np.argwhere(where["wrong_matrix"]).tolist() == [[0, 4], [3, 3]]


def test_the_window_of_a_vector_and_of_a_number():
    where = compared(np.arange(8.0), (7,))
    assert (where["index"], where["origin"], where["lead"]) == ([7], [0, 6], [])
    assert where["expected_matrix"] == [[6, 7]] and where["wrong_matrix"] == [[False, True]]
    assert compared(3.0, ()) == {"index": [], "expected": 3.0, "got": 103.0}
    assert compared(np.zeros((1, 1)), (0, 0))["got_matrix"] == [[100]]
    assert first_wrong(Failed("no arrays")) is None


# Feedback, as text and as HTML.


@pytest.fixture
def report(suite, list_wrong):
    list_wrong(squares)
    return suite.examine("double", lambda A: A * A, 6, SEED)


def test_feedback_as_text(report):
    text = show.text(report).splitlines()
    assert text[0] == "double: 4 of 6 points"
    assert text[1] == "  passed  The shape of `A` is kept."
    assert text[2] == "  FAILED  Each entry is twice as large. (`values`)"
    assert text[3].strip().endswith("elements of the result are wrong.")
    assert text[4].strip().startswith("Passed: the shape (")
    assert text[5].strip() == "Likely cause: squared. `*` with itself squares."
    assert text[6].strip().startswith("First wrong element [0, 0]: expected ")
    assert text[7].strip() == "expected:" and any(
        line.strip() == "got (* = wrong):" for line in text
    )
    assert text[-2:] == [
        "  Read: chapter 1, Twice",
        '  To repeat these inputs: checks.run("double", points=6, seed=5)',
    ]


def test_feedback_at_a_leading_index():
    suite = Suite("checks", read={})

    @suite.check()
    def zeros(f, draw):
        """Kept."""
        expect_close(f(1), np.zeros((2, 3, 4)))

    report = suite.examine("f", lambda n: np.ones((2, 3, 4)), 1, SEED)
    text = show.text(report)
    assert "expected at [0]:" in text and "got at [0] (* = wrong):" in text
    assert "at leading index [0]" in show.as_html(report)


def test_feedback_as_html_escapes_and_marks_code(suite, list_wrong):
    list_wrong()

    def evil(A):
        raise ValueError("<script>alert(1)</script> & `code`")

    page = show.as_html(suite.examine("double", evil, 6, SEED))
    assert (
        "<script" not in page
        and "&lt;script&gt;alert(1)&lt;/script&gt; &amp; <code>code</code>" in page
    )
    assert "The shape of <code>A</code> is kept." in page
    assert page.count("waits for <code>keeps_shape</code>: Each entry is twice as large.") == 1
    assert "<code>checks.run(&quot;double&quot;, points=6, seed=5)</code>" in page
    assert page.count("<div") == page.count("</div>")
    assert show.code("one ` alone <") == "one ` alone &lt;"


def test_nothing_to_say_where_all_is_well(suite):
    report = suite.examine("double", double, 6, SEED)
    assert "seed" not in show.text(report) and "Read" not in show.as_html(report)


def test_a_number_that_is_not_finite_is_shown_from_json_as_well(suite, list_wrong):
    report = suite.examine("double", lambda A: A * np.nan, 6, SEED)
    record = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert record["results"][1]["where"]["got"] == "nan"
    assert show.text(Report.from_dict(record)) == show.text(report)
    assert show.as_html(Report.from_dict(record)) == show.as_html(report)


def test_a_console_that_cannot_show_it_gets_a_question_mark(monkeypatch):
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", console)
    show.write("−1")
    console.flush()
    assert console.buffer.getvalue().split() == [b"?1"]


# Words.


def test_a_message_becomes_json_and_a_message_again(report):
    record = json.loads(json.dumps(report.to_dict()))
    message = record["results"][1]["message"]
    assert message["text"] == "{count} of {size} elements of {what} is wrong."
    assert message["values"]["what"] == {"text": "the result", "values": {}}
    assert record["results"][1]["title"] == "Each entry is twice as large."
    again = Report.from_dict(record)
    assert again.results[1].message == report.results[1].message
    assert again.results[1].held == report.results[1].held
    assert again == report


def test_an_older_record_stays_readable(report):
    record = report.to_dict()
    for result in record["results"]:
        result["message"], result["held"] = words.shown(result["message"]), ["the shape is right"]
        del result["label"]
        result["tells"] = not result.pop("explained")
    record["more"] = "of a later time"
    again = Report.from_dict(record)
    assert [result.explained for result in again.results] == [
        not result.explained for result in report.results
    ]
    text = show.text(again)
    assert (
        "Likely cause: `*` with itself squares." in text
        and "elements of the result are wrong." in text
    )
    assert "Passed: the shape is right." in text


def test_values_are_put_in_once_and_a_template_reaches_into_nothing():
    message = Message("{a} {b.__class__} {b}", a="{b}", b=3)
    assert str(message) == "{b} {b.__class__} 3"
    assert str(Message("a {brace} without values")) == "a {brace} without values"
    assert (
        str(Message("{all}", all=["One.", Message("{n} two", n=2), "three"])) == "One; 2 two; three"
    )
    assert words.to_dict(Message("plain")) == "plain" and words.from_dict("plain") == "plain"
    nested = Message("{left}, {right}", left=Message("{n}", n=1), right=["a", Message("b")])
    assert words.from_dict(json.loads(json.dumps(words.to_dict(nested)))) == nested


GERMAN = {
    (
        "{count} of {size} elements of {what} is wrong.",
        "{count} of {size} elements of {what} are wrong.",
    ): (
        "{count} von {size} Einträgen in {what} ist falsch.",
        "Falsch in {what}: {count} von {size}.",
    ),
    "the result": "dem Ergebnis",
    "the shape {shape} is right": "die Form {shape} stimmt",
    "None (is a `return` missing?)": "None (fehlt ein `return`?)",
    "Expected {what} to be an array, got {found}.": "{found} steht in {what}, wo ein Array "
    "hingehört.",
    "Each entry is twice as large.": "Jeder Eintrag ist doppelt so groß。",
    "The shape of `A` is kept.": "Die Form von `A` bleibt.",
    "for {checks}": "auf {checks}",
    "waits": "wartet",
    "`*` with itself squares.": "`*` mit sich selbst quadriert.",
    "squared": "quadriert",
    "{label}. {hint}": "{hint} ({label})",
    "Likely cause:": "Wohl:",
    "FAILED": "FALSCH",
    "{score} of {points} points": "{score} von {points} Punkten",
    "expected": "erwartet",
}


@pytest.fixture
def german(tmp_path, monkeypatch):
    """A small catalogue, compiled, where the checks look for it."""
    catalog = Catalog(locale="de")
    for text, translation in GERMAN.items():
        catalog.add(text, translation)
    path = tmp_path / "de" / "LC_MESSAGES" / "checking.mo"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        write_mo(file, catalog)
    monkeypatch.setattr(words, "LOCALES", tmp_path)


def test_feedback_in_another_language(report, suite, german):
    english_text = show.text(report)
    record = json.loads(json.dumps(report.to_dict()))
    with words.use("de"):
        text, page = show.text(report), show.as_html(report)
        waiting = show.text(suite.examine("double", lambda A: None, 6, SEED))
        assert show.text(Report.from_dict(record)) == text
    lines = text.splitlines()
    assert lines[0] == "double: 4 von 6 Punkten"
    assert lines[2] == "  FALSCH  Jeder Eintrag ist doppelt so groß。 (`values`)"
    assert lines[3].strip().startswith("Falsch in dem Ergebnis: ")
    assert lines[4].strip().startswith("Passed: die Form (")
    assert lines[5].strip() == "Wohl: `*` mit sich selbst quadriert. (quadriert)"
    assert lines[7].strip() == "erwartet:"
    assert (
        "falsch <code>values</code>: Jeder Eintrag" in page
        and "<code>*</code> mit sich selbst quadriert. (quadriert)" in page
    )
    assert "None (fehlt ein `return`?) steht in dem Ergebnis, wo ein Array hingehört." in waiting
    assert (
        "  wartet  Jeder Eintrag ist doppelt so groß。 (auf `keeps_shape`)" in waiting.splitlines()
    )
    assert show.text(report) == english_text


def test_a_message_has_a_value_for_each_name():
    with pytest.raises(ValueError, match=r"'{a} of {b}' has no value for {b}"):
        Message("{a} of {b}", a=1, c=2)
    with pytest.raises(ValueError, match=r"no value for {total}"):
        words.counted("{count} number", "{count} numbers of {total}", 2)
    old_message = {"text": "{a} of {b}", "values": {"a": 1}}  # in a record of an older release
    assert (
        str(words.from_dict(old_message)) == "1 of {b}"
        and words.from_dict(old_message).to_dict() == old_message
    )


def test_the_language_is_the_environments_where_none_is_asked_for(german, monkeypatch):
    message = words.counted(*next(iter(GERMAN)), 1, size=6, what=Message("the result"))
    assert str(message) == "1 of 6 elements of the result is wrong."
    monkeypatch.setenv("LANGUAGE", "de")
    words._translations.cache_clear()  # a process reads its environment once
    assert str(message) == "1 von 6 Einträgen in dem Ergebnis ist falsch."
    with words.use("xx"):  # for which there is no catalogue
        assert str(message) == "1 von 6 Einträgen in dem Ergebnis ist falsch."
    monkeypatch.setenv("LANGUAGE", "xx")
    words._translations.cache_clear()
    with words.use("xx"):
        assert str(message) == "1 of 6 elements of the result is wrong."
    assert words.translated("") == ""  # not the catalogue's head
    words._translations.cache_clear()


def test_what_only_shows_is_listed_and_all_else_decides(tmp_path):
    """A new module of the runtime makes grades out of date until somebody says that it decides
    nothing.
    """
    folder = words.LOCALES.parent
    assert all((folder / name).is_file() for name in checking.SHOWS if name.endswith(".py"))

    def version(name, **files):
        exercise = Exercise("01-toy", tmp_path / name)
        exercise.released.mkdir(parents=True)
        with zipfile.ZipFile(exercise.archive, "w") as written:
            for path, text in {"checking/suite.py": "", "checking/show.py": "", **files}.items():
                written.writestr(path, text)
        return seeds.version_of(exercise)

    first = version("first")
    assert version("same") == first
    assert version("shown otherwise", **{"checking/show.py": "STATUS = {}"}) == first
    assert version("translated", **{"checking/locale/de/LC_MESSAGES/checking.mo": "..."}) == first
    assert version("decided otherwise", **{"checking/suite.py": "total = 1"}) != first
    assert version("a new module", **{"checking/new.py": ""}) != first
    assert version("a module beside it", **{"show.py": ""}) != first


def test_both_names_of_the_runtime_are_one_package():
    """A class that was there twice would be none that an instance check knows."""
    files = [path.stem for path in words.LOCALES.parent.glob("*.py") if path.stem != "__init__"]
    script = (
        "import sys, autograder.checking as checking\n"
        f"for name in {files}:\n"
        "    assert sys.modules['checking.' + name] is sys.modules['autograder.checking.' + "
        "name], name\n"
        "assert sys.modules['checking'] is checking\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_older_word_for_a_blocked_check_is_read(suite):
    record = suite.examine("double", lambda A: None, 6, SEED).to_dict()
    assert [result["status"] for result in record["results"]] == ["failed", "blocked", "failed"]
    older = json.loads(json.dumps(record).replace('"blocked"', '"waiting"'))
    assert Report.from_dict(older) == Report.from_dict(record)
    with pytest.raises(ValueError, match="elsewhere"):
        Status("elsewhere")


def test_what_a_listed_class_keeps_for_all_of_its_objects_is_new_in_each_attempt():
    suite = Suite("checks", read={"Collects": "chapter 1"})

    @suite.check()
    def only_its_own(Collects, draw):
        """One object has what it was given."""
        first = Collects()
        expect(first.add(1) == [1], "more than one")
        expect(Collects().add(2) == [2], "another's as well")

    @misconception("Collects")
    class Collects_shared:  # noqa: N801 (as listed answers are named)
        collected = []  # noqa: RUF012 (the mistake)

        def add(self, item):
            self.collected.append(item)
            return list(self.collected)

    (check,) = suite.checks
    failures = [str(attempt(check, Collects_shared, SEED).failure) for _ in range(2)]
    assert failures == ["another's as well"] * 2
    assert Collects_shared.collected == []


# Where many mistakes come to the same, and where a mistake lies elsewhere.


@pytest.mark.parametrize(
    ("nothing", "cause"),
    [
        (lambda n: n * np.nan, ""),  # without any number, nothing tells one mistake from another
        (lambda n: n * 0.0, "nothing_left"),
        (lambda n: np.ones(3), "nothing_left"),
        (lambda n: n @ np.ones(5), "nothing_left"),
    ],
    ids=["NaN", "zeros", "ones", "an error"],
)
def test_what_many_mistakes_come_to_has_a_cause_only_if_that_explains_all_checks(
    list_wrong, nothing, cause
):
    suite = Suite("checks", read={})

    @suite.check()
    def doubled(f, draw):
        """f doubles."""
        X = draw.array(3)
        expect_close(f(X), 2 * X)

    @suite.check()
    def shifted(f, draw):
        """f doubles what is beyond 100, too."""
        X = 100 + draw.array(3)
        expect_close(f(X), 2 * X)

    @misconception("f", hint="Nothing is left.")
    def nothing_left(X):
        return nothing(X)

    list_wrong(nothing_left)
    whole = suite.examine("f", lambda X: nothing(X), 1, SEED).results
    half = suite.examine("f", lambda X: nothing(X) if X[0] < 50 else 2 * X, 1, SEED).results
    assert [result.cause for result in whole] == [cause, cause]
    assert [(result.status, result.cause) for result in half] == [("failed", ""), ("passed", "")]


def test_a_function_that_calls_one_which_fails_is_tried_with_a_right_one(list_wrong):
    suite = Suite("checks", read={}, answers={"double": lambda X: 2 * X})

    @suite.check()
    def doubles(double, draw):
        """double doubles."""
        X = draw.array(3)
        expect_close(double(X), 2 * X)

    @suite.check()
    def quadruples(quadruple, draw):
        """quadruple is four times."""
        X = draw.array(3)
        expect_close(quadruple(X), 4 * X)

    @misconception("quadruple", hint="Six times.")
    def six_times(X):
        return 6 * X

    list_wrong(six_times)
    shown = []
    notebook = {"__name__": "notebook"}

    class There:
        seed = SEED
        lookup = staticmethod(notebook.get)
        show = staticmethod(shown.append)
        code_of = staticmethod(lambda name: None)

        @contextlib.contextmanager
        def instead(self, answers):
            answered = set()
            with pytest.MonkeyPatch.context() as patch:
                for name, answer in answers.items():
                    patch.setitem(notebook, name, noting(name, answer, answered))
                yield answered

    source = (
        "def double(X): return 3 * X\ndef twice(X): return double(X)\ndef quadruple(X): "
        "return 2 * twice(X)"
    )
    exec(source, notebook)
    with use_host(There()):
        suite.run("quadruple", 1)
        exec("def quadruple(X):\n    return 6 * X", notebook)
        suite.run("quadruple", 1)
        elsewhere = {"double": lambda X: 2 * X}
        exec("def quadruple(X):\n    return 3 * double(X)", elsewhere)
        notebook["quadruple"] = elsewhere["quadruple"]
        suite.run("quadruple", 1)
        exec("def quadruple(X):\n    if 0:\n        double(X)\n    return 6 * X", notebook)
        suite.run("quadruple", 1)
        suite.replacements.clear()
        exec(source, notebook)
        suite.run("quadruple", 4)
    calls, alone, imported, mentions, no_answer = shown
    assert calls.score == 1 and calls.instead == ["double"], (
        "it is right, and its helper of a helper is not"
    )
    assert (alone.score, alone.results[0].cause) == (0, "six_times")
    assert imported.results[0].cause == "six_times", "the notebook's own `double` is another one"
    assert notebook["double"](1) == 3, "it is put back"
    assert (mentions.score, mentions.pending, mentions.instead) == (0, 0, []), "it calls nothing"
    assert mentions.results[0].cause == "six_times"
    assert (no_answer.score, no_answer.pending, no_answer.instead) == (0, 0, []), (
        "it is judged as it is"
    )


def test_what_cancels_is_the_same_whatever_rounding_leaves_of_it():
    """A gradient that is 0 by the formula is another tiny number on another processor."""
    first, other = (np.full((1, 4), noise, np.float32) for noise in (3e-8, -5e-8))
    gradient = np.full((1, 4), 0.5, np.float32)
    assert same((first, gradient), (other, gradient)) and same(
        (2, (first, gradient)), (2, (other, gradient))
    )
    assert not same((first, first), (other, other)) and not same(first, other)
    assert not same((100 * first, gradient), (other, gradient)) and not same(
        (first, 1.01 * gradient), (other, gradient)
    )
    assert not same(
        (first.astype(float), gradient.astype(float)), (other.astype(float), gradient.astype(float))
    )
    half = gradient.astype(np.float16)
    assert not same((1e-4 * half, half), (-1e-4 * half, half)), (
        "16 roundings of float16 would be 1 %"
    )
    assert not same((3, 10**9), (4, 10**9)) and not same((first, gradient), (other,))
    assert same({"Q": first, "V": gradient}, {"Q": other, "V": gradient})
    assert same((gradient, {"Q": first}), (gradient, {"Q": other}))
    assert not same({"Q": first, "V": gradient}, {"Q": other, "V": 1.01 * gradient})


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_neighbors_in_16_bits_are_the_same(name):
    """Two processes add in different orders, and round the sums to different neighbors."""
    dtype = getattr(torch, name)
    numbers = torch.tensor([4.0, 0.5, 64.0], dtype=dtype)
    step = numbers * torch.finfo(dtype).eps  # to the next number: these are powers of 2
    assert same(numbers, numbers + step) and same((numbers,), (numbers + step,), by_value=True)
    assert not same(numbers, numbers + 4 * step)
    assert not same(numbers.float(), (numbers + step).float()), "float32 does not round so much"


def test_an_exception_is_shown_without_torch_frames_and_with_arguments_described():
    def fails(*arguments):
        raise RuntimeError(
            "size 4 is invalid\nException raised from infer at Utils.cpp:30\nframe #0: (0x7f)"
        )

    message = failure_of(Subject("fails", fails), 5, np.ones(2))
    assert (
        message == "Called with 5, an array of shape (2,), fails raised RuntimeError: size 4 "
        "is invalid"
    )
    assert "arguments of shape (2,), (3,): size" in failure_of(
        Subject("fails", fails), np.ones(2), np.ones(3)
    )

    def probed(function, *arguments):
        return function(*arguments)

    asked = Subject("fails", fails)
    assert (
        failure_of(asked.run_remote, probed, 5, (), 0)
        == "fails raised RuntimeError: size 4 is invalid"
    )
    run_given = functools.partial(asked.run_remote, given="a layer of 3 heads")
    assert (
        failure_of(run_given, probed, 5) == "fails raised RuntimeError for a layer of 3 heads: "
        "size 4 is invalid"
    )


@pytest.mark.parametrize(
    ("label", "hint", "sentence"),
    [
        ("W transposed", "W transposed.", "W transposed."),
        (
            "W transposed",
            "`W` is transposed. Leave it as it is.",
            "W transposed. Leave it as it is.",
        ),
        (
            "W transposed",
            "W transposed twice. Once is enough.",
            "W transposed. W transposed twice. Once is enough.",
        ),
        (
            "divided by d.",
            "The scores are divided by d.",
            "divided by d. The scores are divided by d.",
        ),
        ("W 转置了", "`W` 转置了。保持原样。", "W 转置了. 保持原样。"),
        ("", "W is transposed.", "W is transposed."),
    ],
)
def test_a_label_that_begins_its_hint_is_not_repeated(label, hint, sentence):
    result = Result(
        "values", "It is right.", 1, Status.FAILED, cause="turned", label=label, hint=hint
    )
    assert cause_text(result) == sentence
    result = Result(
        "values", "It is right.", 1, Status.FAILED, relation=Message("It is {n} times.", n=3)
    )
    assert cause_text(result) == "It is 3 times."


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ([1, True, 2.5], [1, 1, 2.5]),
        ([[1, 2], [3]], [1, 2, 3]),
        ([], []),
        ([2**63, -1], [2.0**63, -1]),
        ([10**400, 1.5], None),
        ([[1.5, 2], [10**400, 1]], None),
        ([1, "2"], None),
    ],
    ids=str,
)
def test_the_numbers_of_a_list_are_taken_at_once_or_one_by_one(value, numbers):
    """An integer that no array holds is no number, and no error of the judge."""
    taken = as_numbers(value)
    assert (taken is None) == (numbers is None)
    if numbers is not None:
        assert taken.tolist() == numbers

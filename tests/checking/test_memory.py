"""What a function holds at once is counted: the same on every machine, and not fooled by views,
lists or NumPy.
"""

import subprocess
import sys

import numpy as np
import pytest
import torch

from autograder import checking
from autograder.checking.memory import peak_memory
from autograder.checking.peak_memory import Ledger
from autograder.checking.subject import Subject

N, D, CHUNK = 1000, 4, 16
SQUARE = N * N
KEPT = torch.ones(N, N, dtype=torch.bool)


def whole(Q, K):
    return (Q @ K.mT).sum(-1)


def booleans(Q, K):
    mask = torch.ones(N, N, dtype=torch.bool)
    return mask.sum(-1) + Q.sum(-1)


def booleans_from_before(Q, K):
    return KEPT.sum(-1) + Q.sum(-1)


def indices(Q, K):
    return Q * (torch.arange(N)[:, None] - torch.arange(N)).sum()


def products(Q, K):
    return (Q[:, None] * K).sum((1, 2))


def into(Q, K):
    S = torch.empty(0)
    torch.mm(Q, K.T, out=S)
    return Q


def all_chunks(Q, K):
    scores = [Q @ K[j : j + CHUNK].mT for j in range(0, N, CHUNK)]
    return sum(row.sum(-1) for row in scores)


def numpys(Q, K):
    return torch.from_numpy((Q.numpy() @ K.numpy().T).sum(-1))


def lists(Q, K):
    return [[0.5] * N for _ in range(N)] and Q


def chunks(Q, K):
    total = 0
    for j in range(0, N, CHUNK):
        scores = Q @ K[j : j + CHUNK].mT
        total = total + (scores - scores.amax(-1, keepdim=True)).sum(-1)
    return total


def views(Q, K):
    return (Q.expand(N, N, D)[0] + K.unfold(0, 3, 1).sum(-1)[0]).sum(-1)


def rows(Q, K):
    return torch.stack([(query @ K.mT).sum() for query in Q])


def attention_of_torch(Q, K):
    return torch.nn.functional.scaled_dot_product_attention(
        Q[None, None], K[None, None], K[None, None]
    )


def sparse(Q, K):
    places = torch.arange(N)
    band = torch.sparse_coo_tensor(torch.stack([places, places]), (Q * K).sum(-1), (N, N))
    return torch.sparse.mm(band, K).sum(-1) + band.to_sparse_csr() @ Q[:, 0]


def arguments():
    return torch.randn(2, N, D, generator=torch.Generator().manual_seed(1)).unbind()


@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    [
        (whole, (N, N), "float32"),
        (booleans, (N, N), "bool"),
        (booleans_from_before, (N, N), "bool"),
        (indices, (N, N), "int64"),
        (products, (N, N, D), "float32"),
        (into, (N, N), "float32"),
        (all_chunks, (N, CHUNK), "float32"),
    ],
)
def test_n_by_n_memory_fails_with_its_message(function, shape, dtype):
    with pytest.raises(checking.Failed) as failed:
        checking.expect_held(Subject("own", function), SQUARE // 2, *arguments())
    message = str(failed.value)
    assert f"{shape} and dtype {dtype}" in message and "in the line `" in message


@pytest.mark.parametrize("function", [numpys, lists])
def test_what_numpy_and_python_hold_counts(function):
    with pytest.raises(checking.Failed, match="MB at once"):
        checking.expect_held(Subject("own", function), SQUARE // 2, *arguments())


@pytest.mark.parametrize("function", [chunks, views, rows, attention_of_torch, sparse])
def test_less_memory_passes_and_the_result_is_returned(function):
    result = checking.expect_held(Subject("own", function), SQUARE * 2 // 3, *arguments())
    np.testing.assert_allclose(result, function(*arguments()), rtol=1e-5)


def test_the_parts_of_a_sparse_tensor_count():
    ledger = Ledger((), {})
    numbers = torch.ones(N)
    places = torch.arange(N)
    for tensor in (
        torch.sparse_coo_tensor(torch.stack([places, places]), numbers, (N, N)),
        torch.sparse_csr_tensor(torch.arange(N + 1), places, numbers, (N, N)),
        torch.sparse_csc_tensor(torch.arange(N + 1), places, numbers, (N, N)),
    ):
        ledger.clear()
        ledger.see(tensor)
        # A number has 4 bytes, and one or two places of 8.
        assert 12 * N <= ledger.now <= 20 * N + 8


def test_peak_memory_is_the_same_each_time():
    assert (
        peak_memory(whole, *arguments())[1] // 1000 == peak_memory(whole, *arguments())[1] // 1000
    )
    assert peak_memory(whole, *arguments())[2:] == ((N, N), "float32", "return (Q @ K.mT).sum(-1)")


def test_a_forged_count_is_refused():
    class Odd:
        def __call__(self, Q, K):
            return Q

        _method = None  # as a handle of an object in another process has it

        def _run(self, name, source, function):
            return self.says

    for says in [
        None,
        (1, 2),
        (1, -1, (), "", ""),
        (1, "0", (), "", ""),
        (1, 10**9, ("x",), "", ""),
        (1, 1, (), 3, ""),
    ]:
        Odd.says = says
        with pytest.raises(checking.Failed, match="could not be counted"):
            checking.expect_held(Subject("own", Odd()), SQUARE, *arguments())
    Odd.says = 1, SQUARE + 1, (3,), "float32", "a`\x1b\u202eb" * 100
    with pytest.raises(checking.Failed) as failed:
        checking.expect_held(Subject("own", Odd()), SQUARE, *arguments())
    assert (
        "\x1b" not in str(failed.value)
        and "\u202e" not in str(failed.value)
        and len(str(failed.value)) < 400
    )


LIGHT = """
import sys
import torch
from autograder.checking.memory import peak_memory
from autograder.checking.peak_memory import Ledger
from autograder.checking.modules import backward
peak_memory(lambda X: X @ X.mT, torch.ones(20, 4))
X, upstream = torch.ones(3, 4), torch.arange(9.0).reshape(3, 3)
result, (gradient,), _ = backward(lambda X: X @ X.mT, X, upstream=upstream)
assert torch.equal(gradient, (upstream + upstream.mT) @ X)
print(sorted({"torch._dynamo", "sympy"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_neither_torchs_compiler_nor_sympy_is_loaded_for_a_student_who_waits():
    result = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=1800
    )
    assert result.stdout == "[]\n", result.stderr

"""The kernel that reads keys and values through a page table is right, and the benchmark's part on
it runs as far as it can without a GPU.

Kernels run in processes of their own: whether Triton interprets or compiles is decided when it is
imported.
"""

import shutil

import pytest
import torch
from benchmark_tools import python

from autograder.course.config import ROOT

pytestmark = pytest.mark.long

FOLDER = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def tables(benchmarks):
    """The module that makes tables of a record."""
    return benchmarks("gpu_tables")


RIGHT = """
import itertools
import math

import torch
from paged import Blocks, paged_attention

torch.manual_seed(3)


def plain(q, K_pages, V_pages, table, lengths):
    out = torch.zeros(*q.shape[:2], V_pages.shape[3], dtype=torch.float64)
    page_size, group = K_pages.shape[1], q.shape[1] // K_pages.shape[2]
    for s, i in itertools.product(range(len(q)), range(q.shape[1])):
        weights = []
        for t in range(lengths[s]):
            key = K_pages[table[s, t // page_size], t % page_size, i // group].double()
            weights.append(math.exp(key @ q[s, i].double() / math.sqrt(q.shape[2])))
        for t, weight in enumerate(weights):
            value = V_pages[table[s, t // page_size], t % page_size, i // group].double()
            out[s, i] += weight / sum(weights) * value
    return out


def drawn(page_size, lengths, h, h_kv, d_k, d_v):
    # pages from the last to the first, two that no sequence has; NaN and -1 where nothing may be read
    needed = [-(-n // page_size) for n in lengths]
    free = list(range(sum(needed) + 2))
    table = torch.full((len(lengths), max(needed) + 2), -1)
    K_pages, V_pages = (torch.full((len(free), page_size, h_kv, d), math.nan) for d in (d_k, d_v))
    for s, n in enumerate(lengths):
        for j in range(needed[s]):
            table[s, j] = free.pop()
        for t in range(n):
            place = table[s, t // page_size], t % page_size
            K_pages[place], V_pages[place] = torch.randn(h_kv, d_k), torch.randn(h_kv, d_v)
    return torch.randn(len(lengths), h, d_k), K_pages, V_pages, table, torch.tensor(lengths)


def compare(inputs, limit, *options):
    before = [tensor.clone() for tensor in inputs]
    right = plain(*inputs)
    for parts, blocks in itertools.product((None, 1, 2, 5), options or (None,)):
        out = paged_attention(*inputs, parts=parts, blocks=blocks)
        assert out.dtype == inputs[0].dtype and out.shape == right.shape
        error = ((out.double() - right).norm() / max(right.norm(), 1e-30)).item()
        assert error < limit, (parts, blocks, error, [tensor.shape for tensor in inputs])
        empty = inputs[4] == 0
        assert not out[empty].any()
    assert all(torch.equal(tensor.nan_to_num(7), old.nan_to_num(7)) for tensor, old in zip(inputs, before))


for page_size in (1, 3, 16, 48):
    lengths = [0, page_size, 2 * page_size, 1, 37, page_size + 1]
    for sizes in ((6, 2, 24, 24), (3, 3, 16, 40), (4, 1, 64, 7)):
        compare(drawn(page_size, lengths, *sizes), 1e-6)
compare(drawn(32, [70], 20, 1, 1, 1), 1e-6, Blocks(16, 4, 1), Blocks(64, 4, 1))  # 20 heads in a group
compare(drawn(4, [5, 5], 2, 2, 32, 32), 1e-6)  # equal lengths, equal widths
compare(drawn(16, [0, 0], 2, 1, 16, 16), 1e-6)
for dtype, limit in ((torch.float16, 1e-3), (torch.bfloat16, 2e-2)):
    q, K_pages, V_pages, *rest = drawn(16, [33, 0, 16], 4, 2, 32, 32)
    compare([tensor.to(dtype) for tensor in (q, K_pages, V_pages)] + rest, limit)
q, K_pages, V_pages, table, lengths = drawn(16, [33, 5], 4, 2, 32, 32)
short = [tensor.int() for tensor in (table, lengths)]
result = paged_attention(q, K_pages, V_pages, *short)
assert torch.equal(result, paged_attention(q, K_pages, V_pages, table, lengths))
assert torch.equal(result, paged_attention(q.mT.contiguous().mT, K_pages, V_pages, *short))
assert paged_attention(q[:0], K_pages, V_pages, table[:0], lengths[:0]).shape == (0, 4, 32)
big = paged_attention(300 * q, K_pages, V_pages, table, lengths)  # no overflow
assert big.isfinite().all()
print("right")
"""


@pytest.mark.slow
def test_the_kernel_returns_what_a_loop_over_tokens_does(triton):
    """In the interpreter: odd sizes, page sizes 1 to 48, grouped heads, d_v and d_k that differ,
    empty sequences, full pages, NaN beyond a length, -1 in the table, any number of parts.
    """
    assert python("-c", RIGHT, TRITON_INTERPRET="1").split() == ["right"]


@pytest.mark.slow
def test_the_kernel_is_right_on_a_gpu(triton):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: the kernel is not verified natively here")
    assert "largest_error" in python("-c", "import gpu_paged; print(gpu_paged.right())")


COMPILED = """
import gpu_compile
import paged

for page_size, width, blocks in ((1, 128, paged.BLOCKS[0]), (16, 64, paged.BLOCKS[1]),
                                 (256, 128, paged.BLOCKS[0]), (48, 128, paged.BLOCKS[2])):
    compiled = gpu_compile.paged("decode", page_size, width, blocks)
    print(*(word in compiled.asm["ptx"] for word in ("mma", "cp.async")), *gpu_compile.resources(compiled))
compiled = gpu_compile.paged("merge", 1, 128, None)
print(True, True, *gpu_compile.resources(compiled))
"""


@pytest.mark.slow
def test_the_kernel_compiles_for_a_gpu_where_there_is_none(triton, tmp_path):
    """For an H100: on its tensor cores, with loads that run ahead, and no register spilled."""
    shown = python("-c", COMPILED, TRITON_CACHE_DIR=str(tmp_path)).splitlines()
    assert len(shown) == 5
    for line in shown:
        *units, registers, local = line.split()
        assert units == ["True", "True"] and int(registers) <= 168 and local == "0", line


REFUSED = """
import torch
from paged import paged_attention

q, pages = torch.ones(2, 6, 16), torch.ones(5, 4, 3, 16)
table, lengths = torch.zeros(2, 2, dtype=torch.int64), torch.tensor([3, 8])
for wrong in (dict(q=q[0]), dict(K_pages=pages[..., :8]), dict(V_pages=pages[:, :3]), dict(q=q[:, :4]),
              dict(table=table[:1]), dict(lengths=lengths[:1]), dict(table=table.float()), dict(q=q.half()),
              dict(lengths=lengths > 3), dict(V_pages=torch.ones(5, 4, 3, 257)),
              dict(K_pages=torch.ones(5, 3, 4, 16).transpose(1, 2)), dict()):
    right = dict(q=q, K_pages=pages, V_pages=pages, table=table, lengths=lengths)
    try:
        paged_attention(**right | wrong)
    except ValueError as error:
        print(error)
"""


@pytest.mark.slow
def test_sizes_that_do_not_fit_are_refused(triton):
    shown = python("-c", REFUSED).splitlines()
    assert len(shown) == 12 and "TRITON_INTERPRET" in shown[-1] and "(6, 16)" in shown[0]


@pytest.mark.slow
def test_the_part_runs_on_a_cpu(triton, tmp_path):
    shown = python("gpu.py", "paged", "--quick", "--record", tmp_path / "r.json")
    assert "3 of 3 cases" in shown and "## Decoding over pages\n\n|" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "case"),
    [
        (
            "known = inside[:, None] & (columns_v < D_V)",
            "known = (inside[:, None] | True) & (columns_v < D_V)",
            "right",
        ),
        ("weights = tl.exp2(sums - ", "weights = tl.exp2(0 * sums - ", "right"),
        ("page * PAGE + tokens % PAGE", "sequence * PAGE + tokens % PAGE", "b = 2, n = 40, equal"),
    ],
    ids=["reads values beyond the length", "parts count alike", "no table"],
)
def test_a_wrong_kernel_is_found_before_it_is_timed(triton, tmp_path, right, wrong, case):
    folder = tmp_path / "benchmarks"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "paged.py").read_text(encoding="utf-8")
    assert text.count(right) == 1
    (folder / "paged.py").write_text(text.replace(right, wrong), encoding="utf-8")
    line = ("gpu.py", "paged", "--quick", "--record", tmp_path / "r.json")
    shown = python(*line, status=1, folder=folder, PYTHONPATH=str(ROOT))
    assert f"failed: paged, {case}: RuntimeError" in shown


def test_the_table_has_the_fastest_blocks_and_ratios(tables):
    about = {"batch": 64, "n": 4096, "lengths": "mixed", "page_size": None}
    rows = [about | {"implementation": "one row, SDPA", "milliseconds": 2.0}]
    rows += [
        about | {"implementation": "pages of 16, kernel", "page_size": 16, "milliseconds": ms}
        for ms in (3.0, 2.5, None)
    ]
    rows += [about | {"implementation": "gather, SDPA", "page_size": 16, "milliseconds": 8.0}]
    table = tables.TABLES["Decoding over pages"]
    shown = table({"paged": {"largest_error": {}, "rows": rows}}).splitlines()
    assert shown[0].endswith("| one row, SDPA | pages of 16, kernel | gather, SDPA, pages of 16 |")
    assert shown[2] == "| 64 | 4096 | mixed | 2 ms, 1.00 | 2.5 ms, 1.25 | 8 ms, 4.00 |"
    assert not table({}) and not table({"paged": {"largest_error": {}}})

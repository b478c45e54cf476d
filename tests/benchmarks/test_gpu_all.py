"""`benchmarks/gpu.py all`: one command for all that a device is wanted for, proven without one.

What it does with answers that come, fail or never come is tried on a made-up process; the whole way
is gone once, in Triton's interpreter.
"""

import contextlib
import importlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from autograder.course.config import ROOT
from autograder.racing import gpu_conditions

pytestmark = pytest.mark.long

BENCHMARK = ROOT / "benchmarks" / "gpu.py"
RECORD = ROOT / "book" / "data" / "gpu.json"
MACHINE = {"device": "a card", "date": "2026-01-01", "torch": "9"}
RIGHT = {"out, float32": 1e-7}


@pytest.fixture
def gpu(benchmarks):
    """The command's module."""
    return benchmarks("gpu")


def command(*arguments, path=BENCHMARK, status=0):
    """Run the command; return what it printed."""
    line = [sys.executable, "-W", "ignore", str(path), *map(str, arguments)]
    result = subprocess.run(line, capture_output=True, text=True, timeout=600, cwd=path.parent)
    assert result.returncode == status, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


# With a made-up process.


class Process:
    """Answers by a table of parts, {part: {case: a value, or an exception to be raised}}; it
    keeps what was asked.
    """

    def __init__(self, parts):
        self.parts, self.asked, self.started = parts, [], 0

    def __call__(self):
        self.started += 1
        return self

    def ask(self, question, seconds):
        """Answer as the process does."""
        part, *case = question
        if part == "machine":
            return "found", MACHINE
        if not case:
            return "found", list(self.parts[part])
        self.asked.append((part, case[0]))
        answer = self.parts[part][case[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, tuple) else ("found", answer)

    def end(self):
        """Nothing is left to be ended."""


PARTS = {
    "check": {"kernel": RIGHT},
    "layer": {"n = 16": [{"n": 16, "peak_bytes": None}], "n = 32": [{"n": 32, "peak_bytes": None}]},
    "timing": {"product": {"events": 1.0}},
}


def measure(gpu, monkeypatch, path, parts, names=("check", "layer", "timing"), budget=60):
    """Measure with a made-up process; return the run and what was asked."""
    process = Process(parts)
    monkeypatch.setattr(gpu, "Worker", process)
    run = gpu.Run(path, budget)
    with gpu.Progress(disable=True) as progress:
        run.measure(names, progress)
    return run, process


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_results_are_written_and_a_second_call_measures_nothing(gpu, monkeypatch, tmp_path):
    run, process = measure(gpu, monkeypatch, tmp_path / "r.json", PARTS)
    record = read(tmp_path / "r.json")
    assert record["measured"] == dict.fromkeys(PARTS, "2026-01-01") and not record["unfinished"]
    assert [row["n"] for row in record["layer"]] == [16, 32] and record["timing"] == {"events": 1.0}
    assert process.started == 2, "the ways to time need a process of their own"
    assert not run.failed and "layer" in run.summary() and "2 of 2 cases" in run.summary()
    _, process = measure(gpu, monkeypatch, tmp_path / "r.json", PARTS)
    assert not process.asked and read(tmp_path / "r.json") == record
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    "fault", [RuntimeError("an illegal address"), TimeoutError(), ("failed", "out of luck")]
)
def test_a_case_that_fails_costs_only_itself_and_is_tried_again(gpu, monkeypatch, tmp_path, fault):
    parts = {**PARTS, "layer": {"n = 16": fault, "n = 32": [{"n": 32, "peak_bytes": None}]}}
    run, _ = measure(gpu, monkeypatch, tmp_path / "r.json", parts)
    assert list(run.failed) == [("layer", "n = 16")] and "failed: layer, n = 16" in run.summary()
    record = read(tmp_path / "r.json")
    assert record["unfinished"] == {"layer": ["n = 32"]} and set(record["measured"]) == {
        "check",
        "timing",
    }
    _, process = measure(gpu, monkeypatch, tmp_path / "r.json", PARTS)
    assert process.asked == [("layer", "n = 16")]
    record = read(tmp_path / "r.json")
    assert sorted(row["n"] for row in record["layer"]) == [16, 32] and "layer" in record["measured"]


def test_of_a_process_that_dies_another_takes_over(gpu, monkeypatch, tmp_path):
    died = gpu.Died("its process was ended by SIGKILL")
    run, process = measure(
        gpu, monkeypatch, tmp_path / "r.json", {**PARTS, "layer": {"n = 16": died, "n = 32": []}}
    )
    assert (
        run.failed == {("layer", "n = 16"): "its process was ended by SIGKILL"}
        and process.started == 3
    )


def test_missing_programs_are_reported_and_the_rest_runs(gpu, monkeypatch, tmp_path):
    parts = {**PARTS, "layer": {"n = 16": ("absent", "not installed: bwrap"), "n = 32": []}}
    run, _ = measure(gpu, monkeypatch, tmp_path / "r.json", parts)
    assert run.outcome["layer"] == "left out: not installed: bwrap" and not run.failed
    assert set(read(tmp_path / "r.json")["measured"]) == {"check", "timing"}


def test_where_something_is_wrong_nothing_else_is_measured(gpu, monkeypatch, tmp_path):
    parts = {**PARTS, "check": {"kernel": {"wrong": ["dq: n = 7: 3.0e-01, more than 2e-03"]}}}
    with pytest.raises(gpu.Wrong, match="dq: n = 7"):
        measure(gpu, monkeypatch, tmp_path / "r.json", parts)
    assert set(read(tmp_path / "r.json")["measured"]) == {"check"}
    with pytest.raises(gpu.Wrong):  # the record remembers it
        measure(gpu, monkeypatch, tmp_path / "r.json", PARTS)
    assert set(read(tmp_path / "r.json")["measured"]) == {"check"}
    monkeypatch.setattr(gpu.gpu_compile, "digests", lambda: {"kernels": "mended"})
    run, _ = measure(gpu, monkeypatch, tmp_path / "r.json", PARTS)
    assert set(run.record.data["measured"]) == set(PARTS)


def test_no_case_begins_when_the_time_is_over(gpu, monkeypatch, tmp_path):
    now = [0.0]
    monkeypatch.setattr(gpu.time, "monotonic", lambda: now[0])

    class Slow(Process):
        def ask(self, question, seconds):
            now[0] += 40 * (len(question) == 2)
            return super().ask(question, seconds)

    process = Slow(PARTS | {"layer": {f"n = {n}": [] for n in range(5)}})
    monkeypatch.setattr(gpu, "Worker", process)
    run = gpu.Run(tmp_path / "r.json", 130)
    with gpu.Progress(disable=True) as progress:
        run.measure(["check", "layer", "timing"], progress)
    assert process.asked == [
        ("check", "kernel"),
        ("layer", "n = 0"),
        ("layer", "n = 1"),
        ("timing", "product"),
    ]
    assert run.outcome["layer"].startswith("left: 3 of 5 cases"), (
        "a part has its turn of 90 s, then the next one's is"
    )
    assert now[0] <= 160


def test_a_record_of_another_machine_or_of_other_kernels_is_not_gone_on_with(
    gpu, monkeypatch, tmp_path
):
    path = tmp_path / "r.json"
    names = ("check", "layer", "timing")
    measure(gpu, monkeypatch, path, PARTS, names)
    monkeypatch.setattr(gpu.gpu_compile, "digests", lambda: {"kernels": "other kernels"})
    _, process = measure(gpu, monkeypatch, path, PARTS, names)
    assert {part for part, _ in process.asked} == {"check", "layer"}, (
        "the ways to time have no kernel of ours"
    )
    monkeypatch.setitem(MACHINE, "torch", "10")
    run, process = measure(gpu, monkeypatch, path, PARTS, names)
    assert run.record.lost == ["torch"] and len(process.asked) == 4


def test_the_record_of_another_device_is_not_overwritten(gpu, monkeypatch, tmp_path):
    path = tmp_path / "r.json"
    measure(gpu, monkeypatch, path, PARTS)
    before = path.read_bytes()
    monkeypatch.setitem(MACHINE, "device", "another device")
    with pytest.raises(LookupError, match=r"another device than another device.*--record"):
        measure(gpu, monkeypatch, path, PARTS)
    assert path.read_bytes() == before


def test_a_process_that_hangs_or_is_killed_is_ended_and_reported(benchmarks):
    worker = benchmarks("gpu_worker")
    hung = worker.Worker()
    with pytest.raises(TimeoutError):
        hung.ask(("machine",), 0.01)
    assert not hung.process.is_alive()
    killed = worker.Worker()
    os.kill(killed.process.pid, signal.SIGKILL)
    with pytest.raises(worker.Died, match="SIGKILL"):
        killed.ask(("machine",), 60)


def test_clocks_heat_and_throttling_are_read(gpu, tmp_path, monkeypatch):
    lines = [
        "1980, 45, 210.55, 0x0000000000000000",
        "1410, 81, 699.1, 0x0000000000000024",
        "[N/A], 3, 3, 0x0",
        "...",
    ]
    expected = {
        "sm_mhz": [1410, 1980],
        "celsius": 81,
        "watts": 699.1,
        "slowed_by": ["power cap", "software, heat"],
    }
    assert (
        gpu_conditions.summarize_samples(lines) == expected
        and gpu_conditions.summarize_samples(["no device"]) is None
    )
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho '{lines[0]}'\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    run, _ = measure(gpu, monkeypatch, tmp_path / "r.json", {})
    with gpu.conditions(run.record, "layer"):
        time.sleep(0.5)
    assert read(tmp_path / "r.json")["conditions"]["layer"]["sm_mhz"] == [1980, 1980]


# The goals.


def attention(name, direction, milliseconds, width=128, tflop_s=100.0):
    about = {
        "implementation": name,
        "direction": direction,
        "causal": True,
        "dtype": "bfloat16",
        "n": 4096,
    }
    return {
        **about,
        "heads": 16,
        "d_head": width,
        "batch": 1,
        "milliseconds": milliseconds,
        "tflop_s": tflop_s,
    }


def test_goals_are_reckoned_from_the_rows(benchmarks):
    """A made-up record: each goal's figure, whether it was met, and by how much it was missed."""
    tables = benchmarks("gpu_tables")
    rows = [attention("kernel", "forward", 2.0, tflop_s=70.0), attention("flash", "forward", 1.0)]
    rows += [
        attention("kernel", "backward", 4.0, 64, 40.0),
        attention("flash", "backward", 4.0, 64),
    ]
    rows += [attention("flash", "forward", None, 64, None)]
    layers = {"layer": 10.0, "layer, cudnn": 9.0, "nn.MultiheadAttention with weights": 40.0}
    step = {"direction": "forward+backward", "n": 4096, "d_model": 2048, "heads": 16}
    record = {
        "machine": MACHINE,
        "attention": rows,
        "ceilings": {"matmul_tflop_s": {"bfloat16": 100.0}},
    }
    record["layer"] = [
        {**step, "implementation": name, "milliseconds": milliseconds}
        for name, milliseconds in layers.items()
    ]
    record["layer"] += [{**step, "n": 256, "implementation": "layer", "milliseconds": 99.0}]
    record["leaderboard"] = {
        "cited_milliseconds": {"best": 5.4},
        "rows": [attention("kernel", "", 5.0)],
    }
    known = {
        goal.what: (goal.reached, goal.said())
        for goal in tables.goals(record)
        if goal.reached is not None
    }
    assert list(known.values()) == [
        (0.9, "missed by 10%"),
        (4.0, "met"),
        (0.7, "met"),
        (2.0, "missed by 33%"),
        (0.4, "missed by 20%"),
        (1.0, "met"),
        (5.0, "met"),
    ]
    assert len(tables.goals(record)) == 19
    lines = tables.told_goals(record)
    assert lines.count("NOT YET MEASURED") == 12 and lines.count("look at ") == 3


def test_a_layer_in_a_graph_is_compared_with_one_in_a_graph(benchmarks):
    """At 512 tokens both have one, at 1,024 only ours, at 8,192 neither."""
    tables, slow = benchmarks("gpu_tables"), "nn.MultiheadAttention with weights"
    times = {
        (512, "layer"): 4.0,
        (512, slow): 8.0,
        (512, "layer, CUDA graph"): 1.0,
        (512, f"{slow}, CUDA graph"): 5.0,
    }
    times |= {(1024, "layer"): 4.0, (1024, slow): 6.0, (1024, "layer, CUDA graph"): 1.0}
    times |= {(8192, "layer"): 1.0, (8192, slow): 7.0}
    rows = [{"n": n, "implementation": name, "milliseconds": ms} for (n, name), ms in times.items()]
    record = {"layer": [row | {"direction": "forward"} for row in rows]}
    reached = {
        goal.what.split(":")[0]: goal.reached for goal in tables.goals(record) if goal.reached
    }
    assert reached == {"layer, eager": 1.5, "layer, eager or CUDA graph": 5.0}


def test_beside_flash_attention_3_the_fastest_of_ours_counts(benchmarks):
    """Forward a kernel or a step; backward the two kernels of any step together, or one pass, by
    five products.
    """
    tables, about = (
        benchmarks("gpu_tables"),
        {"d_head": 64, "causal": True, "n": 16384, "heads": 16},
    )
    times = (
        ("forward", 2.0),
        ("forward", 1.0),
        ("queries", 1.0),
        ("keys", 2.0),
        ("keys", 5.0),
        ("backward", 4.0),
    )
    record = {"variants": [about | {"kernel": kernel, "milliseconds": ms} for kernel, ms in times]}
    flops = 4 * 16 * 64 * 16384 * 16385 / 2 / 1e9
    assert tables.fastest_rate(record, "forward", 64, True) == pytest.approx(flops)
    assert tables.fastest_rate(record, "backward", 64, True) == pytest.approx(2.5 * flops / 3)
    assert tables.fastest_rate(record, "backward", 64, False) is None
    record["attention"] = [attention("kernel", "forward", 1.0, 64, 999.0) | {"n": 16384}]
    assert tables.fastest_rate(record, "forward", 64, True) == 999


def test_a_short_call_is_timed_again_until_it_is_steady_or_not_shown(benchmarks, monkeypatch):
    pytest.importorskip("triton")
    tools, tries = benchmarks("gpu_tools"), []
    monkeypatch.setattr(tools, "DEVICE", "cuda")
    monkeypatch.setattr(tools, "CALLS", 10)
    monkeypatch.setattr(
        tools, "_once", lambda run: {"milliseconds": None, "deciles": None, "peak_bytes": 7}
    )
    spreads = iter([3.0, 2.0, 1.01, 9.0])

    def bench(run, **_):
        tries.append(next(spreads))
        return [1.0, tries[-1]] * 50

    monkeypatch.setattr(tools.triton.testing, "do_bench", bench)
    measured = tools.measured_short(lambda: None)
    assert len(tries) == 3 and measured["deciles"] == [0.1, 0.101] and "why" not in measured
    spreads = iter([2.0, 1.5, 4.0, 4.0, 4.0, 4.0])
    measured = tools.measured_short(lambda: None)
    assert (measured["milliseconds"], measured["why"], measured["deciles"]) == (
        None,
        "not steady",
        [0.1, 0.15],
    )


def test_goals_of_the_record_are_printed():
    assert "kernel: milliseconds in the leaderboard's configuration" in command("--goals")


def test_a_trace_and_the_course_have_their_tables(benchmarks):
    tables, step = benchmarks("gpu_tables"), {"implementation": "layer", "n": 16}
    trace = [
        {**step, "kernel": name, "start_us": 0.0, "us": us}
        for name, us in (("a", 1.0), ("b", 6.0), ("a", 1.0))
    ]
    trace += [{**step, "host": "cudaLaunchKernel", "start_us": 0.0, "us": 9.0}]
    shown = tables.TABLES["A step in the profiler"]({"trace": trace}).splitlines()
    assert shown[2] == "| layer, n = 16 | `b` | 1 | 6 | 75% |" and shown[3].endswith(
        "| 2 | 2 | 25% |"
    )
    record = {"tests": {"test_gpu.py": {"passed": 3, "failed": {"test_x": "why"}, "skipped": {}}}}
    record["exercise"] = {
        "flash": {"points": 6.5, "of": 7.0, "waiting": 0.5, "checks": 9, "lost": {}}
    }
    standing = {"points": 7.31, "of": 24.0, "waiting": 0.69}
    after = {"ada": {**standing, "points": 8.0, "waiting": 0.0}}
    record["pending"] = {"before": {"ada": standing}, "after": after}
    shown = tables.TABLES["The course on this device"](record)
    assert "3 passed, 1 failed" in shown and "6.5 of 7 points, 0.5 waiting" in shown
    assert "7.31 of 24 and 0.69 waiting, then 8 and 0 waiting" in shown


def test_of_a_profile_the_last_step_counts(benchmarks, monkeypatch):
    """Kernels, outermost operations and launches; not earlier steps, nor the device's copy of
    the mark.
    """
    pytest.importorskip("triton")
    import torch.profiler
    from torch.autograd import DeviceType

    parts = benchmarks("gpu_parts")

    def event(name, start, us, parent=None, device=DeviceType.CPU):
        at = SimpleNamespace(start=start, elapsed_us=lambda: us)
        return SimpleNamespace(name=name, time_range=at, cpu_parent=parent, device_type=device)

    step, cuda = event(parts.STEP, 100, 90), {"device": DeviceType.CUDA}
    linear = event("aten::linear", 105, 20, step)
    events = [event(parts.STEP, 0, 90), event("earlier", 20, 5, **cuda), step, linear]
    events += [event("aten::addmm", 106, 9, linear), event("cudaLaunchKernel", 110, 2, linear)]
    events += [event("cudaDeviceSynchronize", 180, 9, step), event(parts.STEP, 112, 60, **cuda)]
    events += [event("cudnn_sdpa", 112, 60, **cuda)]
    profile = contextlib.nullcontext(SimpleNamespace(events=lambda: events))
    monkeypatch.setattr(torch.profiler, "profile", lambda activities: profile)
    monkeypatch.setattr(parts, "DEVICE", "cuda")
    monkeypatch.setattr(parts, "synchronize", lambda: None)
    device, host = parts.profiled(lambda: None)
    assert device == [("cudnn_sdpa", {"start_us": 12, "us": 60})]
    assert [name for name, _ in host] == ["aten::linear", "cudaLaunchKernel"] and host[0][1][
        "start_us"
    ] == 5


# The block sizes.


def test_what_was_compiled_says_what_is_worth_trying(benchmarks):
    compile_, record = benchmarks("gpu_compile"), {"rows": []}
    about = {
        "kernel": "keys",
        "bytes": 2,
        "d_head": 64,
        "queries": 64,
        "keys": 64,
        "warps": 4,
        "stages": 2,
    }
    fits = {**about, "registers": 168, "local_bytes": 0, "shared_bytes": 40 * 1024}
    record["rows"] = [
        fits,
        {**fits, "local_bytes": 300},
        {**fits, "shared_bytes": 230 * 1024},
        {**about, "why": "late"},
    ]
    assert compile_.worth_trying(record, "keys", 2, 64) == [fits]
    assert compile_.programs(fits) == (3, "registers")
    assert compile_.programs({**fits, "shared_bytes": 110 * 1024}) == (2, "shared memory")
    assert compile_.worth_trying(record, "queries", 2, 64) == []


def test_the_record_of_what_was_compiled_is_of_these_kernels(benchmarks):
    """Each kernel's block sizes of today are in it, fit the chip, and are among those that a
    device would try.
    """
    compile_ = benchmarks("gpu_compile")
    record = compile_.read()
    assert record["kernels"] == compile_.of_kernels(), "run benchmarks/gpu_compile.py"
    groups = itertools.product(compile_.KERNELS, (2, 4), compile_.WIDTHS)
    tuned = [row for row in record["rows"] if row.get("tuned")]
    assert (
        len(tuned)
        == len(compile_.KERNELS) * 2 * len(compile_.WIDTHS)
        == len(compile_.limits(record))
    )
    assert all(
        row in compile_.worth_trying(record, row["kernel"], row["bytes"], row["d_head"])
        for row in tuned
    )
    assert sum(len(compile_.worth_trying(record, *group)) for group in groups) < len(record["rows"])
    for kernel, width in itertools.product(compile_.KERNELS, compile_.WIDTHS):
        assert 3 < len(compile_.worth_trying(record, kernel, 2, width)) <= 36


def test_results_stay_when_only_comments_of_a_measured_file_change(
    benchmarks, tmp_path, monkeypatch
):
    compile_ = benchmarks("gpu_compile")
    before = compile_.digests()
    shutil.copytree(BENCHMARK.parent, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(compile_, "HERE", tmp_path)
    path = tmp_path / "paged.py"
    path.write_text(f"{path.read_text(encoding='utf-8')}\n# why\n", encoding="utf-8")
    assert compile_.digests() == before
    path.write_text(f"{path.read_text(encoding='utf-8')}\nMORE = 1\n", encoding="utf-8")
    assert {key for key, digest in compile_.digests().items() if digest != before[key]} == {
        "paged_code"
    }


def test_a_dry_run_tries_the_steps_of_each_kernel(benchmarks):
    pytest.importorskip("triton")
    variants = benchmarks("gpu_variants")
    assert {kernel for kernel, _ in variants.QUICK_CASES} == {
        kernel for kernel, _ in variants.CASES
    }
    assert set(variants.QUICK_CASES) <= set(variants.CASES)


# The whole way.


@pytest.mark.parametrize(
    "wrong", [["nothing"], ["all", "--budget", "1"], ["--quick", "--record", RECORD]]
)
def test_what_cannot_be_meant_is_refused_in_a_line(wrong):
    line = [sys.executable, str(BENCHMARK), *map(str, wrong)]
    result = subprocess.run(line, capture_output=True, text=True)
    assert result.returncode == 2 and "Traceback" not in result.stderr and "error:" in result.stderr


@pytest.mark.slow
def test_without_a_device_it_says_so():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    result = subprocess.run([sys.executable, str(BENCHMARK), "all"], capture_output=True, text=True)
    assert result.returncode == 1 and result.stderr.strip().startswith(
        "There is no CUDA device here: --quick"
    )


@pytest.mark.slow
def test_all_of_it_runs_on_a_cpu_and_leaves_the_record(benchmarks, tmp_path):
    """It is killed once, and goes on from there; the kernel is right in the interpreter, in each
    dtype.
    """
    if importlib.util.find_spec("triton") is None:
        pytest.skip("no triton: it is made for Linux on x86-64")
    before, path = RECORD.read_bytes(), tmp_path / "r.json"
    line = [sys.executable, "-W", "ignore", str(BENCHMARK), "all", "--quick", "--record", str(path)]
    first = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (path.exists() and read(path)["measured"]):
            assert first.poll() is None
            time.sleep(0.1)
    finally:
        first.kill()
        first.wait()
    shown = command("all", "--quick", "--record", path)
    assert "check" in read(path)["measured"] and "  measured on " in shown
    for tensor in ("out", "lse", "dq", "dk", "dv"):
        for dtype in ("float32", "float16", "bfloat16"):
            assert f"{tensor}, {dtype}" in shown
    for heading in (
        "Ceilings",
        "The layer",
        "Accuracy",
        "A step in the profiler",
        "The course on this device",
    ):
        assert f"## {heading}\n\n|" in shown
    record = read(path)
    assert set(record["measured"]) == set(benchmarks("gpu").PARTS) - {"window", "newest"}
    assert not record["unfinished"] and record["machine"]["interpreter"]
    names = {row["implementation"] for row in record["layer"]}
    assert {
        "layer, compiled",
        "layer, CUDA graph",
        "nn.MultiheadAttention with weights, CUDA graph",
    } <= names
    for kind in ("kernel", "host"):
        assert {row["implementation"] for row in record["trace"] if kind in row} >= {
            "layer",
            "layer, CUDA graph",
        }
    assert all(
        not cell["lost"] and cell["points"] + cell["waiting"] == cell["of"]
        for cell in record["exercise"].values()
    )
    assert record["pending"]["before"]["layer"]["waiting"] > 0
    assert RECORD.read_bytes() == before


@pytest.mark.slow
def test_a_wrong_kernel_ends_it(tmp_path):
    """A kernel that forgets to scale what it has summed to a new maximum: nothing else is
    measured, and it fails.
    """
    folder = tmp_path / "benchmarks"
    shutil.copytree(BENCHMARK.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, right, wrong in (
        ("flash_attention.py", "total = total * shrink + ", "total = total + "),
        (
            "gpu_check.py",
            "SMALL_CASES = [(40, 40, 16), ",
            "SMALL_CASES = [(40, 40, 16)]\n_OTHERS = [",
        ),
    ):
        text = (folder / name).read_text(encoding="utf-8")
        assert text.count(right) == 1
        (folder / name).write_text(text.replace(right, wrong), encoding="utf-8")
    path = tmp_path / "r.json"
    shown = command("all", "--quick", "--record", path, path=folder / "gpu.py", status=1)
    assert "comparisons failed" in shown and "Fix that first" in shown
    assert set(read(path)["measured"]) <= {"check"} and read(path)["check"]["wrong"]


def test_the_compiler_may_keep_what_a_backward_pass_needs():
    """Only a GPU runs the benchmark that asks for it."""
    import torch._functorch.config

    assert isinstance(torch._functorch.config.donated_buffer, bool)

"""Guests that may use a GPU: what they are given, and, where there is a device, a kernel graded
in a real sandbox.
"""

import dataclasses
import os
import shutil

import nbformat
import pytest
import torch
from toy_course import toy_course

from autograder.authoring.release import release
from autograder.checking import machine
from autograder.course.limits import Limits
from autograder.grading import executors
from autograder.grading.session import Session
from autograder.grading.worker import Worker
from autograder.grading.worker_config import WorkerConfig
from autograder.sandbox import bubblewrap, guests

pytestmark = pytest.mark.long

CHECK_ON_A_GPU = '''

@check(weight=4, needs=["adds"], on="gpu")
def adds_on_a_gpu(add, draw):
    """A kernel adds tensors on a GPU."""
    import torch

    a, b = torch.arange(5.0, device="cuda"), torch.ones(5, device="cuda")
    expect_close(add(a, b), [1, 2, 3, 4, 5])
'''
KERNEL = """
import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a, b, out, n, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    inside = at < n
    tl.store(out + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


def add(a, b):
    if not isinstance(a, torch.Tensor):
        return np.add(a, b)
    out = torch.empty_like(a)
    add_kernel[(1,)](a, b, out, a.numel(), SIZE=16)
    assert out.is_cuda and torch.cuda.is_available()
    return out
"""


def test_kernels_are_interpreted_where_a_guest_has_no_gpu():
    assert bubblewrap.environment(gpu=False)["TRITON_INTERPRET"] == "1"
    assert "TRITON_INTERPRET" not in bubblewrap.environment(gpu=True)
    assert bubblewrap.environment(gpu=True)["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1"


def test_devices_are_for_exercises_that_ask_for_them():
    plain, with_gpu = (" ".join(bubblewrap.command(["true"], [], gpu)) for gpu in (False, True))
    assert (
        "/sys/bus/pci" not in plain
        and "/dev/nvidia" not in plain
        and "TRITON_CACHE_DIR" not in plain
    )
    assert "/sys/bus/pci" in with_gpu and "TRITON_CACHE_DIR /scratch/.triton" in with_gpu


def test_a_driver_that_only_the_environment_names_is_seen_by_guests_with_a_gpu(
    tmp_path, monkeypatch
):
    other, driver = tmp_path / "other", tmp_path / "driver"
    other.mkdir(), driver.mkdir()
    (driver / "libcuda.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{other}::relative:{driver}")
    plain, with_gpu = (" ".join(bubblewrap.command(["true"], [], gpu)) for gpu in (False, True))
    assert (
        "LD_LIBRARY_PATH" not in plain and str(driver) not in plain and str(other) not in with_gpu
    )
    assert (
        f"--setenv LD_LIBRARY_PATH {driver} " in with_gpu
        and f"--ro-bind-try {driver} {driver} " in with_gpu
    )
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert "LD_LIBRARY_PATH" not in " ".join(bubblewrap.command(["true"], [], True))


def shown(guest, source):
    """Run a cell; return what it printed, and its exception."""
    outputs = []
    guest.request({"op": "start", "seed": 1, "files": []})
    guest.request({"op": "cell"}, [source.encode()], on_output=outputs.append)
    return "".join(output.get("text", output.get("evalue", "")) for output in outputs)


def test_a_gpu_that_guests_cannot_use_costs_no_points(isolated, tmp_path, monkeypatch):
    """The judge's machine may have a GPU that the sandbox keeps from its guests: then points
    wait.
    """
    course = toy_course(tmp_path / "course")
    (course.sources()[0].solution / "exercise.toml").write_text("gpu = true\n")
    release(course, course.sources()[0])
    (tmp_path / "submitted").mkdir()
    session = Session(course, course.exercises(["01-toy"]), tmp_path / "submitted")
    session.worker_config = dataclasses.replace(session.worker_config, exercises=("01-toy",))
    monkeypatch.setattr(machine, "has", lambda need: True)
    monkeypatch.setattr(machine, "_tried", {})
    notes = []
    session.choose_sandbox(wanted=True, fall_back=False, warn=notes.append)
    if torch.cuda.is_available():
        assert not notes and session.worker_config.uses_gpu()
        return
    assert len(notes) == 1 and notes[0].startswith(
        "Checks that need a GPU cannot run here; their points are pending: "
    )
    assert not session.worker_config.uses_gpu()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    Worker(dataclasses.replace(session.worker_config, sandbox=False)).close()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_what_else_a_trial_prints_is_no_answer(isolated, tmp_path, monkeypatch):
    """Triton, drivers and compilers print what they like; what got no answer does not work, with
    the reason.
    """
    course = toy_course(tmp_path / "course")
    release(course, course.sources()[0])
    setting = WorkerConfig(str(course.root), ("01-toy",), Limits())
    monkeypatch.setattr(
        executors, "TRIALS", 'print("42"); print("[[1], 2]"); print("ld: no")\n' + executors.TRIALS
    )
    assert executors._trials(setting, ["gpu"]).keys() == {"gpu"}
    monkeypatch.setattr(executors, "TRIALS", "1 / 0\n# {wanted}")
    assert executors._trials(setting, ["compile"]) == {
        "compile": "ZeroDivisionError: division by zero"
    }


def test_the_limits_of_a_guest_with_a_gpu_fit_cuda(isolated):
    """Such a guest starts without a device, too: torch's gradients work in it, and the keeper
    counts its memory.
    """
    limits = Limits(memory_mb=700)
    pool = guests.GuestPool(limits, ["torch"], gpu=True)
    source = (
        "import os, resource, torch\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0], "
        "resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
        "print(os.environ.get('TRITON_INTERPRET'), os.environ['TRITON_CACHE_DIR'])\n"
        "x = torch.ones(3, requires_grad=True)\n(2 * x).sum().backward()\nprint(x.grad.tolist())"
    )
    try:
        guest = pool.guest()
        try:
            printed = shown(guest, source).splitlines()
            assert printed == ["-1 1024", "None /scratch/.triton", "[2.0, 2.0, 2.0]"]
            with pytest.raises(guests.Ended, match="more than 700 MB of memory"):
                shown(
                    guest,
                    "held = bytearray(1 << 30)\nheld[:] = bytes([1]) * len(held)\nimport "
                    "time; time.sleep(9)",
                )
        finally:
            guest.close()
    finally:
        pool.close()


# What launches Triton's kernels is built when the first one is, from C, against Python's headers
# and the driver. In the driver's place there is a library of its name, whose functions do nothing.
TRITON_WITHOUT_A_DRIVER = """
import ctypes, os, re, subprocess
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import driver
from triton.compiler import ASTSource

names = set(re.findall(r"\\b(cu[A-Z]\\w+)\\(", Path(driver.dirname, "driver.c").read_text()))
Path("stub.c").write_text("".join(f"int {name}(void) {{ return 0; }}\\n" for name in sorted(names)))
stub = os.path.abspath("libcuda.so.1")
subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-o", stub, "stub.c"], check=True)
subprocess.run(["/sbin/ldconfig", "-p"], check=True, stdout=subprocess.DEVNULL)
os.environ["TRITON_LIBCUDA_PATH"] = os.path.dirname(stub)
ctypes.CDLL(stub, ctypes.RTLD_GLOBAL)
print(callable(driver.CudaUtils().load_binary), any(Path("/scratch/.triton").rglob("cuda_utils*.so")))


@triton.jit
def double(a, out, n, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, 2 * tl.load(a + at, mask=at < n), mask=at < n)


types = {"a": "*fp32", "out": "*fp32", "n": "i32", "SIZE": "constexpr"}
made = triton.compile(ASTSource(double, types, {"SIZE": 16}), target=GPUTarget("cuda", 90, 32))
print(made.asm["cubin"][:4])
"""


def test_triton_builds_and_compiles_in_the_sandbox_where_there_is_no_gpu(isolated):
    """Compiler, headers, linker and ptxas are there, and their results can be written, loaded
    and run.
    """
    if machine.lacks("triton") or not shutil.which("gcc"):
        pytest.skip("not verified here: it needs Triton and gcc")
    pool = guests.GuestPool(Limits(), ["torch"], gpu=True)
    try:
        guest = pool.guest()
        try:
            assert shown(guest, TRITON_WITHOUT_A_DRIVER).splitlines() == [
                "True True",
                "b'\\x7fELF'",
            ]
        finally:
            guest.close()
    finally:
        pool.close()


@pytest.mark.slow
def test_a_kernel_is_graded_on_a_gpu(isolated, tmp_path):
    """A check on a GPU, tensors on it, and a kernel of Triton's that is compiled in the sandbox."""
    for need in ("gpu", "triton"):
        if machine.lacks(need):
            pytest.skip(f"not verified here: a kernel in the sandbox. {machine.lacks(need)}")
    from autograder.grading.self_check import SelfCheck

    course = toy_course(tmp_path)
    folder = course.sources()[0].solution
    (folder / "checks.py").write_text((folder / "checks.py").read_text() + CHECK_ON_A_GPU)
    (folder / "exercise.toml").write_text("gpu = true\n")
    release(course, course.sources()[0])
    notebook = nbformat.read(course.exercises()[0].notebook, as_version=4)
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "add":
            cell.source = KERNEL
    nbformat.write(notebook, tmp_path / "01-toy.ipynb")
    assert "TRITON_INTERPRET" not in os.environ
    with SelfCheck(course, tmp_path / "01-toy.ipynb", seed=1, sandbox=True) as single:
        outcome = single.grade(on_cell=lambda cell: None)
    cell = outcome.cells["check_add"]
    assert [check.status for check in cell.checks] == ["passed"] * 3, [
        str(check.message) for check in cell.checks
    ]
    assert cell.points == 4.0 and cell.pending == 0.0

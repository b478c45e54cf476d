"""Try exercise 11's answers as a machine with a GPU sees them: Triton compiles kernels, and checks
watch them.

    python tests/helpers/gpu_machine.py trial     # what comes before: can kernels be watched, and is all as it was afterwards
    python tests/helpers/gpu_machine.py solved    # the author's answer, in its notebook's order
    python tests/helpers/gpu_machine.py listed    # all listed answers, right and wrong

There need be no GPU: tensors lie on the CPU, and each launch is interpreted, by what watches
kernels on a GPU. It prints one line of JSON.
"""

import json
import os
import sys
import warnings
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "0"  # before Triton is imported: kernels are compiled
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
# What NumPy 2.5 refuses, earlier ones warn of: a size that is an array with an axis.
warnings.filterwarnings("error", message=".*ndim > 0 to a scalar", category=DeprecationWarning)

import torch  # noqa: E402

from autograder.checking import kernels, machine  # noqa: E402

FOLDER = ROOT / "solutions" / "11-gpu"


def trial():
    """Return what the trial says, and whether Triton's language is as before, and compiles for a
    GPU.
    """
    kernels.load()
    kernel = kernels._kernel()
    places = kernels._language()
    before = [dict(vars(module)) for module in places]
    with kernels.interpreted():
        reason = kernels.trial("triton")
    same = all(
        vars(module).keys() == names.keys()
        and all(vars(module)[name] is names[name] for name in names)
        for module, names in zip(places, before, strict=True)
    )
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    at = {name: (kernel.arg_names.index(name),) for name in ("GUARDED", "TILE")}
    types = {"x": "*fp32", "out": "*fp32", "n": "i32", "GUARDED": "constexpr", "TILE": "constexpr"}
    source = ASTSource(kernel, types, {at["GUARDED"]: True, at["TILE"]: 16})
    cubin = kernels.triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
    return {
        "triton": kernels.triton.__version__,
        "said": reason,
        "same": same,
        "compiled": cubin[:4] == b"\x7fELF",
    }


def solved():
    """Return for each function of the author's answer points, points that wait, and what was
    lost.
    """
    from gpu_course import LAST_FIGURE, SCRIPT, Place

    from autograder.checking import use_host

    sys.path.insert(0, str(FOLDER))
    text = SCRIPT.read_text(encoding="utf-8").partition(LAST_FIGURE)[0]
    text = text.replace('os.environ["TRITON_INTERPRET"] = "1"', "pass")
    namespace = Place()
    with kernels_interpreted(), use_host(namespace):
        exec(compile(text, str(SCRIPT), "exec"), namespace.names)
    return namespace.found


def listed():
    """Return what became of the listed answers that are kernels, as it is recorded of the
    exercise.
    """
    import dataclasses

    from autograder.authoring import answer_trials, loader

    exercise = loader.load(FOLDER)
    with_kernels = sorted(
        {check.subject for check in exercise.suite.checks if check.on == "triton"}
    )
    with kernels_interpreted():
        trials = [answer_trials.try_answers(exercise, subject) for subject in with_kernels]
        lacking, functions = answer_trials.to_record(exercise, trials)
    lost = {
        trial.subject: {right.name: right.lost for right in trial.right if right.lost}
        for trial in trials
    }
    return {
        "lacking": sorted(lacking),
        "lost": {subject: names for subject, names in lost.items() if names},
        "functions": {
            subject: dataclasses.asdict(function) for subject, function in functions.items()
        },
    }


def kernels_interpreted():
    """Let each launch be interpreted; the trial's own kernel is one that Triton compiles, too."""
    kernels.load()
    kernels._kernel()
    return kernels.interpreted()


if __name__ == "__main__":
    assert not machine.has("gpu"), "there is a GPU here: run the tests of one"
    torch.set_num_threads(1)
    print(json.dumps({"trial": trial, "solved": solved, "listed": listed}[sys.argv[1]]()))

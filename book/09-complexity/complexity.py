"""What chapter 09 says of the machine that it is built on, and its figure, of that machine and of a
recorded GPU.

The figure computes in JavaScript (complexity.js), so it answers in a page without a kernel.
Everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import contextlib
import ctypes
import os
from datetime import UTC, datetime

import records
import torch
import traitlets
from figures import gpu_record
from figures.widget import Figure, script, style

# glibc decides by what was freed before whether it keeps memory, so times of large tables differ by
# up to 40 % between runs. With these limits, a table above 17 MB is always new memory from the
# system; smaller ones are kept.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
with contextlib.suppress(AttributeError, OSError, TypeError):  # systems without glibc
    ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, 2**30)
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 17_000_000)

DTYPES = {"float32": 4, "bfloat16": 2}  # bytes per number

# What the sliders stop at.
STOPS = {
    "n": [2**k for k in range(18)],  # 1 to 131,072
    "context": [0, *(2**k for k in range(4, 18))],  # nothing, or 16 to 131,072
    "d_model": [2**k for k in range(6, 14)],  # 64 to 8192
    "num_heads": [2**k for k in range(7)],  # 1 to 64
    "batch": [2**k for k in range(9)],  # 1 to 256
}
START = {"n": 1024, "context": 0, "d_model": 512, "num_heads": 8, "batch": 1, "block": 0}
START |= {"dtype": "float32", "machine": 0}

# The things to try, in the order of `TEXT["tries"]`: what each sets.
TRIES = [
    START | {"n": 64},
    START,
    START | {"n": 16384},
    START | {"n": 16384, "num_heads": 64},
    START | {"n": 1, "context": 1024},
    START | {"n": 16384, "dtype": "bfloat16", "machine": 1},
]


def software():
    """Return what this machine is measured with."""
    return f"one thread, PyTorch {torch.__version__.partition('+')[0]}"


def conditions():
    """Return when and where times are taken now, as sentences have it: `date`, `machine`,
    `cores`.
    """
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{records.processor()}, {software()}",
        "cores": str(os.cpu_count()),
    }


def others(page):
    """Return how many cores other programs used while a page was recorded, as a sentence has it."""
    record = records.read(page) or {}
    return (
        f"{record['made']['others']:.1f}" if "others" in record.get("made", {}) else "(not known)"
    )


def here(speed, bandwidth):
    """Return this machine as the figure wants one.

    Parameters
    ----------
    speed : dict
        Operations per second by dtype, as measured.
    bandwidth : float
        Bytes per second, read and written, as measured.

    Returns
    -------
    dict
        `name`, `what` (what it was measured with), `speed`, `bandwidth`, and `memory` in bytes.
    """
    return {
        "name": records.processor(),
        "what": software(),
        "speed": speed,
        "bandwidth": bandwidth,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def crossed(lengths, ratios):
    """Return where a ratio of times rose above 1 for good, as a sentence has it: between two of the
    lengths.

    Short texts measure calls, so it may be above 1 there too, and fall again.
    """
    below = [i for i, ratio in enumerate(ratios) if ratio < 1]
    if not below:
        return f"below {lengths[0]} tokens, the shortest measured"
    if below[-1] == len(lengths) - 1:
        return f"at no length up to {lengths[-1]} tokens"
    return f"between {lengths[below[-1]]} and {lengths[below[-1] + 1]} tokens"


def size(count):
    """Return a number of bytes as a sentence has it: 3,200,000,000 -> 3.2 GB."""
    power = min(4, max(0, (len(str(int(count))) - 1) // 3))
    value = count / 1000**power
    return f"{value:.{0 if value >= 10 else 1}f} {('bytes', 'KB', 'MB', 'GB', 'TB')[power]}"


def duration(seconds):
    """Return a time as a sentence has it, with two digits: 0.0312 -> 31 milliseconds."""
    units = (
        (86400, "days"),
        (3600, "hours"),
        (60, "minutes"),
        (1, "seconds"),
        (1e-3, "milliseconds"),
    )
    unit, name = next(
        (one for one in units if seconds >= (1.95 if one[0] > 1 else 0.95) * one[0]), units[-1]
    )
    value = seconds / unit
    return f"{value:.{0 if value >= 9.95 else 1}f} {name}"


TEXT = {
    "title": "The least that one layer can cost",
    "try": "Things to try",
    "tries": [
        "A short text",
        "Where they cross",
        "A long text",
        "Many heads",
        "One token",
        "On a GPU",
    ],
    "machine": "Machine",
    "dtype": "Numbers",
    "part": "Cost of",
    "parts": ["attention", "whole block"],
    "n": "n, tokens",
    "context": "c, in cache",
    "d_model": "d_model, width",
    "num_heads": "h, heads",
    "batch": "b, batch",
    "time": "Time, at least",
    "arithmetic": "arithmetic",
    "traffic": "memory traffic",
    "steps": ["Q, K, V", "Scores", "Softmax", "Weighted sum", "Times W_o", "MLP"],
    "none": "not counted",
    "both": "{step}: arithmetic {arithmetic}, memory traffic {traffic}",
    "sum": "total",
    "memory": "Memory, while softmax runs",
    "parameters": "parameters",
    "tokens": "X, Q, K, V, Z",
    "weights": "scores, weights",
    "cache": "cache of K, V",
    "share": "{total} of {capacity}",
    "alone": "{total}",
    "summary": "{part} takes at least {time} on {machine} ({what}). {limit} {compared}",
    "one": ["Attention", "The block"],
    "times": [
        "The two products cost {ratio} times as much as the four projections.",
        "The two products cost {ratio} times as much as projections and MLP.",
    ],
    "level": [
        "The two products cost as much as the four projections.",
        "The two products cost as much as projections and MLP.",
    ],
    "moved": "Of the bytes moved, {parameters} are parameters and {cache} are cached keys and "
    "values.",
    "percent": "{number}%",
    "by_arithmetic": "Arithmetic limits it.",
    "by_traffic": "Memory traffic limits it: numbers arrive too slowly.",
    "by_size": "But it can’t run: it needs {total} of memory, and there is only {capacity}.",
}


class ComplexityFigure(Figure):
    """Time and memory of one layer on a machine, no better than its arithmetic and its memory
    allow.

    Args:
        machines: what `here` and `gpu_record.card` return.
        state: what is shown first, with the keys of `START`.
        tries: states that a button sets; named by `text["tries"]`.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("complexity"), style("complexity")
    machines = traitlets.List().tag(sync=True)
    stops = traitlets.Dict().tag(sync=True)
    dtypes = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    tries = traitlets.List().tag(sync=True)

    def __init__(self, machines, state=START, tries=TRIES, text=None):
        if not machines or None in machines:
            raise ValueError("the figure wants machines that were measured")
        if (
            any(state[name] not in stops for name, stops in STOPS.items())
            or state["dtype"] not in DTYPES
        ):
            raise ValueError(f"what is shown first is at a stop of each slider, not {state}")
        super().__init__(
            TEXT,
            text,
            machines=list(machines),
            stops=STOPS,
            dtypes=DTYPES,
            state=dict(state),
            tries=list(tries),
        )


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab: of the recorded GPU
    alone.
    """
    return ComplexityFigure([gpu_record.card(gpu_record.read("data/gpu.json"))])

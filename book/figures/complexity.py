"""What chapter 09 measures of a machine, what was recorded of a GPU, and the figure made of both.

The figure computes in JavaScript (complexity.js), so it answers in a page without a kernel. Everything a reader sees
comes from `TEXT`, so that a translation passes another dictionary.
"""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

# A thread that waits for the other lets other programs run, instead of turning round and round: on a machine that is
# not idle the two would else wait for each other for milliseconds. It counts when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import records
import torch
import traitlets
from figures.widget import Figure, script, style

THREADS = 2
DTYPES = {"float32": 4, "bfloat16": 2}  # bytes per number

# What the sliders stop at.
STOPS = {
    "n": [2**k for k in range(18)],  # 1 to 131,072
    "d_model": [2**k for k in range(6, 14)],  # 64 to 8192
    "num_heads": [2**k for k in range(7)],  # 1 to 64
    "batch": [2**k for k in range(9)],  # 1 to 256
}
START = {"n": 1024, "d_model": 512, "num_heads": 8, "batch": 1, "dtype": "float32", "machine": 0}

# The things to try, in the order of `TEXT["tries"]`: what each sets.
TRIES = [
    START | {"n": 64},
    START,
    START | {"n": 16384},
    START | {"n": 16384, "num_heads": 64},
    START | {"n": 1},
    START | {"n": 16384, "dtype": "bfloat16", "machine": 1},
]


def shortest(f, budget=0.2):
    """Return the seconds of the shortest of some runs, after one to warm up: what disturbs a run adds to it."""
    f()
    times = []
    while len(times) < 3 or sum(times) < budget:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def what():
    """Return what this machine is measured with."""
    return f"{THREADS} threads, PyTorch {torch.__version__.partition('+')[0]}"


def conditions():
    """Return when and where times are taken now, as sentences have it: `date`, `machine`, `load`, `cores`.

    The load is how many programs at a time wanted a core in the last minute.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{records.processor()}, {what()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "cores": str(cores),
    }


def here(size=1536, megabytes=128):
    """Measure this machine with two threads: how fast it multiplies matrices, and how fast it copies memory.

    Returns
    -------
    dict
        `name`, `what` (what it was measured with), `speed` by dtype in operations per second, `bandwidth` in bytes
        per second (read and written), `memory` in bytes.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    speed = {}
    for name in DTYPES:
        A, B = torch.randn(2, size, size).to(getattr(torch, name))
        speed[name] = 2 * size**3 / shortest(lambda A=A, B=B: A @ B)
    source = torch.ones(megabytes * 10**6 // 4)
    target = torch.empty_like(source)
    bandwidth = 2 * 4 * len(source) / shortest(lambda: target.copy_(source))
    torch.set_num_threads(threads)
    return {
        "name": records.processor(),
        "what": what(),
        "speed": speed,
        "bandwidth": bandwidth,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def recorded(path):
    """Read what was measured on a GPU; None where nothing was.

    Parameters
    ----------
    path : str
        Relative to the folder of the pages.
    """
    file = Path(__file__).resolve().parent.parent / path
    return json.loads(file.read_text(encoding="utf8")) if file.exists() else None


def gpu(record):
    """Return a recorded GPU as `here` returns this machine; None where nothing was recorded."""
    if not record:
        return None
    machine, ceilings = record["machine"], record["ceilings"]
    return {
        "name": machine["device"],
        "what": f"PyTorch {str(machine['torch']).partition('+')[0]}, {machine['date']}",
        "speed": {name: 1e12 * ceilings["matmul_tflop_s"][name] for name in DTYPES},
        "bandwidth": 1e9 * ceilings["copy_gb_s"],
        "memory": memory_of(machine),
    }


def memory_of(machine):
    """Return the memory of a recorded GPU in bytes, or 0 where it isn't recorded."""
    for name, unit in (("memory_bytes", 1), ("memory_gb", 1e9), ("memory_gib", 2**30)):
        if name in machine:
            return int(machine[name] * unit)
    return 0


def rows(record, part, **same):
    """Return a record's rows with these values: by implementation, {n: row}, without those that ran out of memory."""
    found = {}
    for row in (record or {}).get(part, []):
        if row["milliseconds"] is not None and all(row[name] == value for name, value in same.items()):
            found.setdefault(row["implementation"], {})[row["n"]] = row
    return found


def told(record, n=16384, lengths=(512, 8192)):
    """Return what the page says of a recorded GPU, by name; `TEXT["nothing"]` for what was not recorded.

    Parameters
    ----------
    record : dict or None
    n : int
        Where attention with and without tables is compared.
    lengths : pair of int
        Where a recurrent network is compared with attention.
    """
    card, said = gpu(record), {}
    if card:
        said["gpu"] = f"{card['name']}, {card['what']}"
        said["gpu_bandwidth"] = f"{card['bandwidth'] / 1e9:,.0f}"
        for name, speed in card["speed"].items():
            said[f"gpu_{name}"] = f"{speed / 1e9:,.0f}"
            said[f"gpu_ridge_{name}"] = f"{speed / card['bandwidth']:.0f}"
    attention = rows(record, "attention", direction="forward", causal=True, dtype="bfloat16", d_head=64)
    exponents = (record or {}).get("memory_exponent", {}).get("attention", {})
    for name in ("naive", "flash"):
        row = attention.get(name, {}).get(n)
        if row:
            said[f"gpu_{name}_time"] = duration(row["milliseconds"] / 1e3)
            said[f"gpu_{name}_bytes"] = size(row["peak_bytes"])
        if "forward" in exponents.get(name, {}):
            said[f"gpu_{name}_exponent"] = f"{exponents[name]['forward']['exponent']:.2f}"
    race = rows(record, "rnn", direction="forward+backward")
    for which, m in zip(("short", "long"), lengths, strict=True):
        pair = [race.get(name, {}).get(m) for name in ("nn.GRU", "layer")]
        if all(pair):
            said[f"gpu_race_{which}"] = f"{pair[0]['milliseconds'] / pair[1]['milliseconds']:.1f}"
    names = ["gpu", "gpu_bandwidth", "gpu_race_short", "gpu_race_long"]
    names += [f"gpu_{what}{name}" for name in DTYPES for what in ("", "ridge_")]
    names += [f"gpu_{name}_{what}" for name in ("naive", "flash") for what in ("time", "bytes", "exponent")]
    return {name: said.get(name, TEXT["nothing"]) for name in names}


def size(count):
    """Return a number of bytes as a sentence has it: 3,200,000,000 -> 3.2 GB."""
    power = min(4, max(0, (len(str(int(count))) - 1) // 3))
    value = count / 1000**power
    return f"{value:.{0 if value >= 10 else 1}f} {('bytes', 'KB', 'MB', 'GB', 'TB')[power]}"


def duration(seconds):
    """Return a time as a sentence has it, with two digits: 0.0312 -> 31 milliseconds."""
    units = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"), (1e-3, "milliseconds"))
    unit, name = next((one for one in units if seconds >= (1.95 if one[0] > 1 else 0.95) * one[0]), units[-1])
    value = seconds / unit
    return f"{value:.{0 if value >= 9.95 else 1}f} {name}"


TEXT = {
    "title": "What one layer of attention costs at least",
    "try": "Things to try",
    "tries": ["A short text", "Where they cross", "A long text", "Many heads", "One token", "On a GPU"],
    "machine": "Machine",
    "dtype": "Numbers",
    "nothing": "not yet measured",
    "unmeasured": "GPU (not yet measured)",
    "n": "n, tokens",
    "d_model": "d_model, width",
    "num_heads": "h, heads",
    "batch": "b, batch",
    "time": "Time, at least",
    "arithmetic": "arithmetic",
    "traffic": "memory traffic",
    "steps": ["Q, K, V", "Scores", "Softmax", "Weighted sum", "Times W_o"],
    "both": "{step}: arithmetic {arithmetic}, memory traffic {traffic}",
    "sum": "together",
    "memory": "Memory, at most at once",
    "parameters": "parameters",
    "tokens": "X, Q, K, V, Z",
    "weights": "scores, weights",
    "share": "{total} of {capacity}",
    "alone": "{total}",
    "summary": "One layer takes at least {time} on {machine} ({what}). {limit} {compared}",
    "times": "The two products cost {ratio} times what the four projections cost.",
    "level": "The two products cost as much as the four projections.",
    "by_arithmetic": "Arithmetic limits it.",
    "by_traffic": "Memory traffic limits it: numbers arrive too slowly.",
    "by_size": "But it can’t run: it needs {total} of memory, and there are {capacity}.",
}


class ComplexityFigure(Figure):
    """Time and memory of one layer of attention on a machine, no better than its arithmetic and its memory allow.

    Args:
        machines: what `here` and `gpu` return; None for one that was not measured.
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
        if not machines or machines[0] is None:
            raise ValueError("the figure wants a machine that was measured, and then others")
        if any(state[name] not in stops for name, stops in STOPS.items()) or state["dtype"] not in DTYPES:
            raise ValueError(f"what is shown first is at a stop of each slider, not {state}")
        super().__init__(
            TEXT, text, machines=list(machines), stops=STOPS, dtypes=DTYPES, state=dict(state), tries=list(tries)
        )


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return ComplexityFigure([here(64, 1), None])

"""The figure of chapter 11, and what its pages show of what was measured on a GPU.

The figure computes in JavaScript (gpu.js), so it answers in a page without a kernel. Everything a reader sees comes
from `TEXT`, so that a translation passes another dictionary. Tables come from `benchmarks/gpu_tables.py`. What was
not measured does not appear, neither its table nor the sentence above it. One box names it, and what measures it.
"""

import importlib.util
from pathlib import Path

import traitlets
from figures import drawing, gpu_record
from figures.widget import Figure, script, style
from IPython.display import Markdown

ROOT = Path(__file__).resolve().parent.parent.parent
N, WIDTH, SIZE, SUM_SIZE = 1024, 64, 2, 4  # tokens, d_head, bytes of a number in memory, and of a score on the chip
SIDES = [64, 128, 256]  # of a tile
LIMITS = [228 * 1024, 256 * 1024]  # bytes of shared memory and of registers that an SM of an H100 has (nvidia2022)
START = {"way": "tiled", "rows": 128, "columns": 128, "causal": False, "step": 1}

# The things to try, in the order of `TEXT["tries"]`: what each sets.
TRIES = [
    START,
    START | {"step": 64},
    START | {"way": "naive", "step": 3},
    START | {"rows": 64, "step": 128},
    START | {"rows": 256, "step": 32},
    START | {"causal": True, "step": 21},
]

TEXT = {
    "title": "Tiles of attention between memory and the chip",
    "try": "Things to try",
    "tries": ["The first tile", "To the end", "Naive", "Low tiles", "High tiles", "Causal"],
    "way": "Scores",
    "ways": {"tiled": "tile by tile", "naive": "naive: a whole table"},
    "rows": "Queries in a tile",
    "columns": "Keys in a tile",
    "mask": "Mask",
    "masks": ["none", "causal"],
    "step": "Step",
    "back": "Back",
    "next": "Next",
    "memory": "In memory",
    "table": "Scores and weights: {n} × {n}, {bytes}",
    "no_table": "Dashed: scores that memory never sees",
    "chip": "On the chip",
    "parts": ["block of Q", "tile of K", "tile of V", "tile of scores", "sums of Z"],
    "rooms": ["shared memory", "registers"],
    "room": "{held} of {limit}",
    "limit": "Of an H100’s, for each SM.",
    "too_much": "Such tiles do not fit an H100.",
    "passing": "Each step works through its rows in pieces, and hands its whole result to memory.",
    "moved": "Bytes moved",
    "so_far": "so far",
    "whole": "naive, in all",
    "read": "read",
    "written": "written",
    "begin": "Q, K and V lie in memory, {n} rows of {d} numbers each, and nothing is on the chip.",
    "tile": "Tile {step} of {steps}: queries {i} meet keys {j}.",
    "first": "A block of Q is read, and stays for this row of tiles. The first tiles of K and V are read, too.",
    "middle": "The next tiles of K and V replace the last ones. The sums are scaled to the new maximum, and go on.",
    "last": "That was the row’s last tile: these rows of Z are divided by their totals, and written.",
    "done": "Moved {moved}; naive moves {naive}, {ratio} times as much, and keeps a table of {table}.",
    "skipped": "{skipped} of {all} tiles lie above the diagonal: not computed, not even read.",
    "naive_steps": [
        "",
        "Q and K are read, and {n} × {n} scores written.",
        "Softmax reads every score, and writes every weight.",
        "The weights are read once more, with V; Z is written. Four trips of {table} made {moved} of traffic.",
    ],
}


class TilesFigure(Figure):
    """Attention tile by tile: what is read, written and held on the chip, beside the naive way.

    Args:
        state: what is shown first, with the keys of `START`.
        tries: states that a button sets; named by `text["tries"]`.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("gpu"), style("gpu")
    sizes = traitlets.Dict().tag(sync=True)
    sides = traitlets.List().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    tries = traitlets.List().tag(sync=True)

    def __init__(self, state=START, tries=TRIES, text=None):
        if state["rows"] not in SIDES or state["columns"] not in SIDES or state["way"] not in TEXT["ways"]:
            raise ValueError(f"what is shown first is one of the figure's choices, not {state}")
        sizes = {"n": N, "d": WIDTH, "size": SIZE, "sum_size": SUM_SIZE, "limits": LIMITS}
        super().__init__(TEXT, text, sizes=sizes, sides=SIDES, state=dict(state), tries=list(tries))


def tables():
    """Return the module that makes Markdown tables of a record: `benchmarks/gpu_tables.py`."""
    spec = importlib.util.spec_from_file_location("gpu_tables", ROOT / "benchmarks" / "gpu_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# What a page says above each table of `benchmarks/gpu_tables.py`.
LEADS = {
    "Ceilings": "First the ceilings:",
    "Goals": "What the course's kernel and layer should reach, and what they did:",
    "Attention": (
        "**Attention alone**, with 16 heads: the course's kernel beside PyTorch's backends, flex attention and the "
        "naive way."
    ),
    "The layer": (
        "**The whole layer**, $d_\\text{model} = 2048$, 16 heads, beside PyTorch's and beside the bare cost of its "
        "projections:"
    ),
    "The leaderboard's configuration": (
        "**A known course's contest.** Stanford's CS336 had its students of 2025 write this kernel, on one H100, for "
        "one configuration:"
    ),
    "A step in the profiler": "**A step of the layer in the profiler**: which kernels ran, and for how long.",
    "Memory over n, as an exponent": (
        "**Memory** beyond the inputs, as the exponent of a line fitted over the length: 2 is a table, 1 is none."
    ),
    "Accuracy": "**Accuracy** on the GPU, against float64, of the result and of the gradients:",
    "Ways to time": "What these mistakes make of one product:",
    "Windows": "Measured, with one window after another:",
}
# What the box says of the parts of a record that are not there.
PARTS = {
    "attention": "attention alone, the course's kernel beside each of PyTorch's",
    "layer": "the whole layer",
    "trace": "which kernels a step runs",
    "memory_exponent": "memory over the length",
    "accuracy": "errors beside float64",
    "timing": "what mistakes in timing make of a product",
    "window": "windows",
}


def made(record, title):
    """Return a table of the record as Markdown; None where nothing of it was measured."""
    if title == "The leaderboard's configuration" and not record.get("leaderboard", {}).get("rows"):
        return None  # other people's times alone
    parts = (tables().TABLES[title](record) or "").split("\n\n")
    return "\n\n".join(map(narrow, parts)) or None


def narrow(part):
    """Return a table whose first column's long heading stands above it: on a phone it would push the rest away."""
    head, _, rest = part.partition("\n")
    cells = head.strip("| ").split(" | ")
    what, _, long = cells[0].rpartition("; ")
    if not rest or len(long) < 30:
        return part
    return "\n".join([f"*{long}*", "", "| " + " | ".join([what, *cells[1:]]) + " |", rest])


def table(record, title, folded=False):
    """Return a table of the record as Markdown, below what is said of it; None where nothing of it was measured.

    Parameters
    ----------
    record : dict
        What `gpu_record.read` returns.
    title : str
        The key of the table in `benchmarks/gpu_tables.py`, and in `LEADS`.
    folded : bool
        Whether the table opens at a click: for many rows.
    """
    found = made(record, title)
    if found and folded:
        found = f":::{{admonition}} {title}, in numbers\n:class: dropdown\n\n{found}\n:::"
    return found and Markdown(f"{LEADS[title]}\n\n{found}")


def box(record):
    """Return one box about what a GPU will add, and how; None where all was measured."""
    return gpu_record.box(record, PARTS)


def measured_on(record):
    """Return device and date of a record, to stand in a sentence."""
    if not record:
        return tables().NOT_YET
    versions = ", ".join(f"{name} {str(record['machine'][name]).partition('+')[0]}" for name in ("torch", "triton"))
    return f"{record['machine']['device']}, {versions}, {record['machine']['date']}"


def tuned(record, top=1):
    """Return the quickest block sizes of each kernel and width as Markdown, fastest first; None of no record."""
    rows, groups = record.get("tuning", []), {}
    for row in rows:
        groups.setdefault((row["kernel"], row["d_head"]), []).append(row)
    if not groups:
        return None
    lines = [
        "| kernel | $d_\\text{head}$ | queries × keys | warps | stages | ms | TFLOP/s |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    for (name, width), found in groups.items():
        for row in sorted(found, key=lambda row: row["milliseconds"])[:top]:
            sizes = f"{row['queries']} × {row['keys']} | {row['warps']} | {row['stages']}"
            lines.append(f"| {name} | {width} | {sizes} | {row['milliseconds']:.3f} | {row['tflop_s']:.0f} |")
    return Markdown("\n".join(lines))


def roof(record, marks):
    """Draw a recorded GPU's roof for each dtype, and marks at (name, operations per byte).

    Returns
    -------
    drawing or None
        The plot; None where nothing was recorded.
    """
    if not record.get("ceilings"):
        return None
    ceilings = record["ceilings"]
    axes = drawing.panels(height=185)
    x = [10 ** (k / 50) for k in range(-20, 201)]
    slope = ceilings["copy_gb_s"] / 1e3  # TFLOP/s for each operation per byte
    for name, line in (("float32", ":"), ("tf32", "--"), ("bfloat16", "-")):
        top = ceilings["matmul_tflop_s"][name]
        axes.plot(x, [min(top, slope * a) for a in x], color=drawing.INK, lw=1.7, ls=line)
        low = -12 if name == "tf32" else 4
        axes.annotate(name, (x[-1], top), xytext=(0, low), textcoords="offset points", ha="right")
    top = max(ceilings["matmul_tflop_s"].values())
    for (name, a), marker in zip(marks, "Dsov", strict=False):
        y = min(ceilings["matmul_tflop_s"]["bfloat16"], slope * a)
        axes.plot([a], [y], marker, color=drawing.WEIGHT, ms=8, label=name, ls="")
    axes.legend(loc="lower right")
    axes.set(xlabel="operations per byte", ylabel="TFLOP/s", xscale="log", yscale="log", xlim=(0.4, 1e4),
             ylim=(1, 4 * top))  # fmt: skip
    axes.set_xticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1,000", "10,000"])
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.minorticks_off()
    return drawing.show(axes)


def speeds(record, direction="forward", width=64):
    """Draw milliseconds of each implementation over the length, causal and bfloat16; None where there are none."""
    found = gpu_record.rows(record, "attention", direction=direction, causal=True, dtype="bfloat16", d_head=width)
    if not found:
        return None
    axes = drawing.panels(height=290)
    looks = {"kernel": (drawing.WEIGHT, "-"), "naive": (drawing.QUIET, "-"), "flash": (drawing.QUERY, "-")}
    looks |= {"cudnn": (drawing.QUERY, "--"), "efficient": (drawing.VALUE, "--"), "flex": (drawing.KEY, "--")}
    looks |= {"math": (drawing.QUIET, "--")}
    for name, rows in found.items():
        colour, line = looks.get(name, (drawing.INK, ":"))
        points = sorted(rows.items())
        axes.plot([n for n, _ in points], [row["milliseconds"] for _, row in points], line, color=colour, label=name)
    axes.set(xlabel="tokens, $n$", ylabel="milliseconds", xscale="log", yscale="log")
    lengths = sorted({n for rows in found.values() for n in rows})
    axes.set_xticks(lengths, [f"{n:,}" if n < 1000 else f"{n // 1024}k" for n in lengths])
    axes.minorticks_off()
    axes.legend()
    return drawing.show(axes)


def told(record):
    """Return what the pages say in sentences of a recorded GPU, by name, or that it was not measured."""
    said, nothing = {"card": measured_on(record)}, tables().NOT_YET
    ceilings = record.get("ceilings")
    if ceilings:
        speed = ceilings["matmul_tflop_s"]
        said["copy"] = f"{ceilings['copy_gb_s']:,.0f}"
        said |= {f"speed_{name}": f"{value:,.0f}" for name, value in speed.items()}
        said |= {f"ridge_{name}": f"{1e3 * value / ceilings['copy_gb_s']:.0f}" for name, value in speed.items()}
        said["faster"] = f"{speed['bfloat16'] / speed['float32']:.0f}"
    found = [row for row in record.get("tuning", []) if row["kernel"] == "forward" and row["d_head"] == WIDTH]
    best = max(found, key=lambda row: row["tflop_s"], default=None)
    if best and ceilings:
        said["tuned_forward_64"], said["tuned_rows"] = f"{best['tflop_s']:.0f}", f"{best['queries']}"
        said["tuned_roof"] = f"{best['queries'] * ceilings['copy_gb_s'] / 1e3:.0f}"
        said["tuned_share"] = f"{best['tflop_s'] / ceilings['matmul_tflop_s']['bfloat16']:.0%}"
    names = ["card", "copy", "faster", "tuned_forward_64", "tuned_rows", "tuned_roof", "tuned_share"]
    names += [f"{what}_{name}" for what in ("speed", "ridge") for name in ("float32", "tf32", "float16", "bfloat16")]
    return {name: said.get(name, nothing) for name in names}


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return TilesFigure(state=START | {"step": 9})

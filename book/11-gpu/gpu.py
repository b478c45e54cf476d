"""The figure of chapter 11, and what its pages show of what was measured on a GPU.

The figure computes in JavaScript (gpu.js), so it answers in a page without a kernel. Everything a
reader sees comes from `TEXT`, so that a translation passes another dictionary. Goals come from
`benchmarks/gpu_tables.py`. What was not measured does not appear, neither its table nor the
sentence above it. One box names it, and what measures it.
"""

import ast
import importlib.util
import re
import textwrap
from pathlib import Path

import traitlets
from figures import drawing, gpu_record
from figures.widget import Figure, script, style
from IPython.display import Markdown

ROOT = Path(__file__).resolve().parent.parent.parent
# tokens, d_head, bytes of a number in memory, and of a score on the chip
N, WIDTH, SIZE, SUM_SIZE = 1024, 64, 2, 4
SIDES = [64, 128, 256]  # of a tile
# bytes of shared memory and of registers that an SM of an H100 has (nvidia2022)
LIMITS = [228 * 1024, 256 * 1024]
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
# ... and on the chapter's first page, in the order of `TEXT["naive_tries"]`.
NAIVE_TRIES = [
    START | {"way": "naive"},
    START | {"way": "naive", "step": 3},
    START | {"step": 64},
]

TEXT = {
    "title": "Tiles of attention between memory and the chip",
    "try": "Things to try",
    "tries": ["The first tile", "To the end", "Naive", "Low tiles", "High tiles", "Causal"],
    "naive_tries": ["The scores", "All three steps", "Tile by tile"],
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
    "no_table": "Dashed: scores that are never in memory",
    "chip": "On the chip",
    "parts": ["block of Q", "tile of K", "tile of V", "tile of scores", "sums of Z"],
    "rooms": ["shared memory", "registers"],
    "room": "{held} of {limit}",
    "limit": "Limits of an H100, for each SM.",
    "too_much": "Such tiles do not fit an H100.",
    "passing": "Each step works through its rows in pieces, and writes its whole result to memory.",
    "moved": "Bytes moved",
    "so_far": "so far",
    "whole": "naive, in all",
    "read": "read",
    "written": "written",
    "begin": "Q, K and V are in memory, {n} rows of {d} numbers each, and nothing is on the chip.",
    "tile": "Tile {step} of {steps}: queries {i} meet keys {j}.",
    "first": "A block of Q is read, and stays for this row of tiles. The first tiles of K and V "
    "are also read.",
    "middle": "The next tiles of K and V replace the last ones. Sums are rescaled to the new "
    "maximum, and continue.",
    "last": "That was the row’s last tile: these rows of Z are divided by their totals, and "
    "written.",
    "done": "Moved {moved}; naive moves {naive}, {ratio} times as much, and keeps a table of "
    "{table}.",
    "skipped": "{skipped} of {all} tiles are above the diagonal: neither computed nor read.",
    "naive_steps": [
        "",
        "Q and K are read, and {n} × {n} scores are written.",
        "Softmax reads every score, and writes every weight.",
        "The weights are read again, with V; Z is written. Moving {table} four times made {moved} "
        "of traffic.",
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
        if (
            state["rows"] not in SIDES
            or state["columns"] not in SIDES
            or state["way"] not in TEXT["ways"]
        ):
            raise ValueError(f"what is shown first is one of the figure's choices, not {state}")
        sizes = {"n": N, "d": WIDTH, "size": SIZE, "sum_size": SUM_SIZE, "limits": LIMITS}
        super().__init__(TEXT, text, sizes=sizes, sides=SIDES, state=dict(state), tries=list(tries))


def tables():
    """Return the module that makes Markdown tables of a record: `benchmarks/gpu_tables.py`."""
    spec = importlib.util.spec_from_file_location(
        "gpu_tables", ROOT / "benchmarks" / "gpu_tables.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# What a page says above each table: of `benchmarks/gpu_tables.py`, or of `MAKERS`.
LEADS = {
    "Goals": "",
    "Attention": "**Attention alone**, causal, with 16 heads, in milliseconds:",
    "The layer": "**The whole layer**, causal, $d_\\text{model} = 2048$, 16 heads, bfloat16, in "
    "milliseconds:",
    "The leaderboard's configuration": "**The configuration of CS336's contest**, forward and "
    "backward together:",
    "A step in the profiler": "**A step of the layer in the profiler**: which kernels ran, and "
    "for how long.",
    "Memory over n, as an exponent": (
        "**Memory** beyond the inputs, as the exponent of a line fitted over the length: 2 is a "
        "table, 1 is none."
    ),
    "Accuracy": (
        "**Accuracy**, against float64, for 2000 tokens: the larger error of causal and not, the "
        "largest of three gradients."
    ),
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


def markdown(record, title):
    """Return a table of the record as Markdown; None where nothing of it was measured."""
    if title in MAKERS:
        return MAKERS[title](record)
    parts = (tables().TABLES[title](record) or "").split("\n\n")
    return "\n\n".join(map(narrow, parts)) or None


def _milliseconds(title, rows, names=None):
    """Return one table of milliseconds over the length, with what it is of above it; no text of
    no rows.
    """
    cells = {(row["n"], row["implementation"]): row for row in rows}
    names = [
        name
        for name in names or dict.fromkeys(name for _, name in cells)
        if any(name == of for _, of in cells)
    ]
    lines = [
        [f"{n:,}", *(_of_one(cells.get((n, name))) for name in names)]
        for n in sorted({n for n, _ in cells})
    ]
    return f"*{title}*\n\n{gpu_record.table(['$n$', *names], lines)}" if lines else ""


def _of_one(row):
    """Return the milliseconds of a row to three digits, with their deciles below, or why there
    are none.
    """
    if row is None:
        return ""
    if row["milliseconds"] is None:
        return row.get("why", "")
    middle, *ends = (
        f"{ms:#.3g}".rstrip(".") for ms in (row["milliseconds"], *(row.get("deciles") or ()))
    )
    return f"{middle}<br><small>{'–'.join(ends)}</small>" if ends else middle


def duration(row, digits, scale=1):
    """Return the milliseconds of a row as a sentence has them, with their deciles: 1.44
    (1.32–1.45).
    """
    middle, *ends = (
        f"{scale * ms:.{digits}f}" for ms in (row["milliseconds"], *(row.get("deciles") or ()))
    )
    return f"{middle} ({'–'.join(ends)})" if ends else middle


def apart(row, other):
    """Tell whether the first takes less time than the second: its ninth decile is below the
    other's first.
    """
    return row["deciles"][1] < other["deciles"][0]


def _attention(record):
    rows = [row for row in record.get("attention", ()) if row["causal"]]
    groups = {}
    for row in rows:
        if row["dtype"] == "bfloat16" and row["direction"] != "forward+backward":
            groups.setdefault(f"{row['direction']}, heads of {row['d_head']}, bfloat16", []).append(
                row
            )
    sections = [
        _milliseconds(title, group, tables().ORDER)
        for title, group in sorted(groups.items(), reverse=True)
    ]
    full = {}
    for row in rows:
        if row["dtype"] == "float32":
            full.setdefault((row["n"], row["direction"], row["d_head"]), {})[
                row["implementation"]
            ] = row
    if full:
        names = [name for name in tables().ORDER if any(name in cells for cells in full.values())]
        lines = [
            [f"{n:,}", way, d, *(_of_one(cells.get(name)) for name in names)]
            for (n, way, d), cells in full.items()
        ]
        sections.append(
            "*float32*\n\n" + gpu_record.table(["$n$", "", "$d_\\text{head}$", *names], lines)
        )
    return "\n\n".join(sections) or None


def _layer(record):
    sections = []
    for way in DIRECTIONS:
        rows = [row for row in record.get("layer", ()) if row["direction"] == way]
        short = [
            row for row in rows if row["implementation"].endswith((tables().GRAPH, "compiled"))
        ]
        sections += [_milliseconds(way, [row for row in rows if row not in short])]
        sections += [_milliseconds(f"{way}, as one CUDA graph or compiled", short)]
    return "\n\n".join(filter(None, sections)) or None


def _leaderboard(record):
    """The quickest first, those that are cited among them."""
    leaderboard = record.get("leaderboard", {})
    rows = [
        (row["milliseconds"], row["implementation"], row["peak_bytes"])
        for row in leaderboard.get("rows", ())
        if row["milliseconds"]
    ]
    if not rows:
        return None  # other people's times alone
    cited = leaderboard["cited_milliseconds"]
    rows += [
        (cited["best"], "the best of 2025, as cited", None),
        (cited["naive"], "naive, as cited", None),
    ]
    head = (
        f"*batch {leaderboard['batch']}, {leaderboard['heads']} heads of {leaderboard['d_head']}, "
        f"n = {leaderboard['n']:,}, "
        f"{leaderboard['dtype']}, causal*"
    )
    lines = [
        [name, f"{ms:.3g}", f"{size / 2**20:,.0f}" if size else ""]
        for ms, name, size in sorted(rows, key=lambda row: row[0])
    ]
    cells = gpu_record.table(["", "ms", "MiB beyond the inputs"], lines)
    return f"{head}\n\n{cells}\n\nCited: {cited['where']}."


def _accuracy(record):
    groups = {}
    for row in record.get("accuracy", ()):
        key = row["dtype"], "result" if row["quantity"] == "out" else "gradients"
        cells = groups.setdefault(key, {})
        cells[row["implementation"]] = max(row["error"], cells.get(row["implementation"], 0.0))
    names = [name for name in tables().ORDER if any(name in cells for cells in groups.values())]
    rows = [
        [*key, *(f"{cells[name]:.1e}" if name in cells else "" for name in names)]
        for key, cells in groups.items()
    ]
    return gpu_record.table(["dtype", "of", *names], rows) or None


def _trace(record):
    """The kernels that take the most of a step, for each kind of layer."""
    groups, sections = {}, []
    for row in tables().kernels_of(record):
        kernels = groups.setdefault(f"{row['implementation']}, {row['n']:,} tokens", {})
        kernels.setdefault(row["kernel"].replace("|", "/"), []).append(row["us"])
    for title, kernels in groups.items():
        whole = sum(map(sum, kernels.values()))
        most = sorted(kernels.items(), key=lambda item: -sum(item[1]))[:6]
        lines = [
            [f"`{name[:60]}`", len(us), f"{sum(us):.0f}", f"{sum(us) / whole:.0%}"]
            for name, us in most
        ]
        sections.append(
            f"*{title}*\n\n{gpu_record.table(['kernel', 'calls', 'µs', 'share'], lines)}"
        )
    return "\n\n".join(sections) or None


DIRECTIONS = ("forward", "backward", "forward+backward")


def goals(record):
    """Return what was asked of the course's kernel and layer and was measured: {what:
    {direction: Goal}}.
    """
    answers = {}
    for goal in tables().goals(record):
        if goal.reached is not None:
            ways = [way for way in reversed(DIRECTIONS) if f", {way}" in goal.what] or [
                "forward+backward"
            ]
            answers.setdefault(goal.what.replace(f", {ways[0]}", ""), {})[ways[0]] = goal
    return answers


def _goals(record):
    rows = []
    for goal_name, ways in goals(record).items():
        first = next(iter(ways.values()))
        shown = tables().shown
        asked = ", ".join(dict.fromkeys(shown(goal.asked) for goal in ways.values()))
        in_row = [ways.get("forward"), ways.get("backward") or ways.get("forward+backward")]
        cells = [
            ""
            if goal is None
            else shown(goal.reached)
            if goal.met
            else f"**{shown(goal.reached)}**"
            for goal in in_row
        ]
        name = re.sub(r", (causal|from n = 4,096|n = 512 to 16,384)\b", "", goal_name).replace(
            " = ", "\u00a0=\u00a0"
        )
        rows.append([name, f"{'≤' if first.at_most else '≥'} {asked}", *cells])
    return gpu_record.table(["", "asked", "forward", "backward"], rows) or None


MAKERS = {
    "Goals": _goals,
    "Attention": _attention,
    "The layer": _layer,
    "The leaderboard's configuration": _leaderboard,
    "Accuracy": _accuracy,
    "A step in the profiler": _trace,
}


def narrow(part):
    """Return a table whose first column's long heading stands above it: on a phone it would push
    the rest away.
    """
    head, _, rest = part.partition("\n")
    cells = head.strip("| ").split(" | ")
    first, _, long = cells[0].rpartition("; ")
    if not rest or len(long) < 30:
        return part
    return "\n".join([f"*{long}*", "", "| " + " | ".join([first, *cells[1:]]) + " |", rest])


def table(record, title):
    """Return a table of the record as Markdown, below what is said of it; None where nothing of it
    was measured.

    Parameters
    ----------
    record : dict
        What `gpu_record.read` returns.
    title : str
        The key of the table in `MAKERS` or `benchmarks/gpu_tables.py`, and in `LEADS`.
    """
    text = markdown(record, title)
    return text and Markdown(f"{LEADS[title]}\n\n{text}".strip())


def folded(record, title, parts):
    """Return several tables, below one another, as a box that opens at a click; None where
    nothing was measured.
    """
    texts = [shown.data for shown in (table(record, part) for part in parts) if shown]
    whole = "\n\n".join(texts)
    return (
        Markdown(f":::{{admonition}} {title}\n:class: dropdown\n\n{whole}\n:::") if texts else None
    )


def box(record):
    """Return one box about what a GPU will add, and how; None where all was measured."""
    return gpu_record.box(record, PARTS)


def measured_on(record):
    """Return device and date of a record, to stand in a sentence."""
    if not record:
        return tables().NOT_YET
    versions = ", ".join(
        f"{name} {str(record['machine'][name]).partition('+')[0]}" for name in ("torch", "triton")
    )
    return f"{record['machine']['device']}, {versions}, {record['machine']['date']}"


def tuned(record, top=1):
    """Return the quickest block sizes of each kernel and width as Markdown, fastest first; None
    of no record.
    """
    rows, groups = record.get("tuning", []), {}
    for row in rows:
        groups.setdefault((row["kernel"], row["d_head"]), []).append(row)
    if not groups:
        return None
    lines = [
        "| kernel | $d_\\text{head}$ | queries × keys | warps | stages | ms | TFLOP/s |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    for (name, width), settings in groups.items():
        for row in sorted(settings, key=lambda row: row["milliseconds"])[:top]:
            sizes = f"{row['queries']} × {row['keys']} | {row['warps']} | {row['stages']}"
            lines.append(
                f"| {name} | {width} | {sizes} | {row['milliseconds']:.3f} | {row['tflop_s']:.0f} |"
            )
    return Markdown("\n".join(lines))


def loop(source):
    """Return the lines of the innermost loop of a function, each in one line: {the name that it
    binds: line}.
    """
    tree = ast.parse(textwrap.dedent(source))
    innermost = [node for node in ast.walk(tree) if isinstance(node, ast.For)][-1]
    lines = {"for": f"for {ast.unparse(innermost.target)} in {ast.unparse(innermost.iter)}:"}
    return lines | {node.targets[0].id: f"    {ast.unparse(node)}" for node in innermost.body}


def beside(left, right):
    """Return the innermost loops of two functions beside each other, what binds the same name in
    the same line.

    Parameters
    ----------
    left, right : str
        Their sources. What one of them does not bind leaves its line empty.
    """
    loops = loop(left), loop(right)
    longer, other = sorted(loops, key=len, reverse=True)
    if [name for name in longer if name in other] != list(other):
        raise ValueError("the two loops bind the same names in different orders")
    heads = [f"`{ast.parse(textwrap.dedent(source)).body[0].name}`" for source in (left, right)]
    cells = [
        [f"`{lines[name].strip()}`" if name in lines else "" for lines in loops] for name in longer
    ]
    return Markdown(gpu_record.table(heads, cells).replace("---:", "---"))


PLACES = {"rows": (2, 3), "n": 4, "d": 2}


def places():
    """Draw the places of the tile of one program, and the matrix whose numbers lie there."""
    rows, n, d = PLACES["rows"], PLACES["n"], PLACES["d"]
    axes = drawing.panels(width=460, height=158, bare=True)
    side = 30

    def table(x, y, cells, name, lit=()):
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                at = (x + side * j, y + side * i)
                if i in lit:
                    axes.add_patch(
                        drawing.plt.Rectangle(
                            at, side, side, facecolor=drawing.KEY, alpha=0.2, lw=0
                        )
                    )
                axes.add_patch(
                    drawing.plt.Rectangle(at, side, side, facecolor="none", edgecolor=drawing.QUIET)
                )
                axes.text(at[0] + side / 2, at[1] + side / 2, str(cell), ha="center", va="center")
        axes.text(
            x + side * len(cells[0]) / 2,
            y + side * len(cells) + 14,
            name,
            ha="center",
            va="center",
            color=drawing.QUIET,
        )

    table(44, 45, [[i * d] for i in rows], "rows[:, None] * d")
    axes.text(112, 75, "+", ha="center", va="center", fontsize=13)
    table(134, 60, [list(range(d))], "entry")
    axes.text(216, 75, "=", ha="center", va="center", fontsize=13)
    table(238, 45, [[i * d + c for c in range(d)] for i in rows], "", lit=range(len(rows)))
    table(364, 8, [[i * d + c for c in range(d)] for i in range(n)], "x (4, 2)", lit=rows)
    axes.annotate("", (360, 98), (302, 78), arrowprops={"arrowstyle": "->", "color": drawing.QUIET})
    drawing.show(axes)


LOOKS = {
    "naive": ("naive", drawing.QUIET, "-", "^"),
    "efficient": ("efficient", drawing.VALUE, "-", "P"),
    "flash": ("FlashAttention", drawing.KEY, "-", "s"),
    "cudnn": ("cuDNN", drawing.QUERY, "--", "D"),
    "kernel": ("ours", drawing.WEIGHT, "-", "o"),
}
MAIN = ("naive", "flash", "cudnn", "kernel")


def lengths(axes, values):
    """Give an axis the lengths that were measured, as its only marks."""
    axes.set(xlabel="tokens, $n$", xscale="log", yscale="log")
    axes.set_xticks(values, [f"{n:,}" if n < 1000 else f"{n // 1024}k" for n in values])


def times(record, width=64, names=MAIN, ways=("forward", "forward+backward"), height=220):
    """Draw milliseconds over the length for each way, causal and bfloat16.

    Parameters
    ----------
    record : dict
    width : int
        Of a head.
    names : tuple of str
        Keys of `LOOKS`.
    ways : tuple of str
        Two of `DIRECTIONS`.
    height : float
        Of a panel, in CSS pixels.

    Returns
    -------
    drawing or None
        The plot; None where not all of it was measured.
    """
    both = [gpu_record.rows(record, "attention", direction=direction, causal=True, dtype="bfloat16", d_head=width)  # noqa: E501
            for direction in ways]  # fmt: skip
    if not all(set(names) <= rows.keys() for rows in both):
        return None
    panels = drawing.panels(2, height=height)
    for axes, rows, way in zip(panels, both, ways, strict=True):
        title = way.capitalize().replace("+", " and ")
        for name in names:
            label, colour, line, marker = LOOKS[name]
            points = sorted((n, row["milliseconds"]) for n, row in rows[name].items())
            axes.plot(
                *zip(*points, strict=True), line, color=colour, marker=marker, ms=4.5, label=label
            )
            for n, row in rows[name].items():
                if row.get("deciles"):
                    axes.plot([n, n], row["deciles"], color=colour, lw=3, alpha=0.5)
        lengths(axes, sorted(rows["kernel"]))
        axes.set(title=title, ylim=(0.003, 300))
        axes.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
        axes.minorticks_off()
        named(axes, apart=10 ** (85 / height))
    panels[0].set(ylabel="milliseconds")
    return drawing.show(*panels)


def named(axes, apart):
    """Write each line's name at its right end, or above an end that comes early; names are so
    many times apart.
    """
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    ends = [line.get_xydata()[-1] for line in lines]
    last, before = max(x for x, _ in ends), float("inf")
    for (x, y), line in sorted(zip(ends, lines, strict=True), key=lambda pair: -pair[0][1]):
        early = x < last
        before = before if early else min(y * 1.15, before / apart)
        axes.annotate(
            line.get_label(),
            (x, y if early else before),
            xytext=(-8, 2) if early else (7, 0),
            textcoords="offset points",
            ha="right" if early else "left",
            color=line.get_color(),
            va="baseline" if early else "center",
            fontsize=9,
        )
    axes.set_xlim(axes.get_xlim()[0], 9 * last)


L2 = {"gb_s": 6900, "what": "published for an H100 PCIe"}
"""What `gpu-benches` has for 10 to 33 MB (ernst2023).

It stands where the record has no measurement of its own.
"""


def cache_speed(record):
    """Return GB/s of reading from the L2 cache, and whether this record's GPU was measured."""
    measured = record.get("cache", {}).get("l2_gb_s")
    return (measured, True) if measured else (L2["gb_s"], False)


def roofs(record, n=16_384, rows=128):
    """Draw the ceiling of products, the slopes of memory and L2, and attention's marks; None of
    no record.
    """
    ceilings = record.get("ceilings")
    if not ceilings:
        return None
    top, slope = ceilings["matmul_tflop_s"]["bfloat16"], ceilings["copy_gb_s"] / 1e3
    cache = cache_speed(record)[0] / 1e3
    axes = drawing.panels(width=620, height=330)
    x = [0.5, 20_000]
    for speed, colour, label, at in (
        (cache, drawing.QUERY, "L2", 6.5),
        (slope, drawing.KEY, "memory (HBM)", 6.5),
    ):
        axes.plot([x[0], top / speed, x[1]], [speed * x[0], top, top], color=colour, zorder=1)
        above = speed == cache
        axes.annotate(
            f"{label}, {speed:.1f} TB/s",
            (at, speed * at),
            xytext=(-6 if above else 6, 6 if above else -6),
            textcoords="offset points",
            ha="right" if above else "left",
            va="bottom" if above else "top",
            color=colour,
        )
    axes.axhline(top, color=drawing.INK, zorder=2)
    axes.annotate(
        f"products in bfloat16, {top:.0f} TFLOP/s",
        (1, top),
        xytext=(0, 5),
        textcoords="offset points",
    )
    marks = [
        ("softmax of a table", 5 / 4, slope, drawing.KEY, (8, -4), "left"),
        ("with tables", WIDTH / 2, slope, drawing.KEY, (8, -4), "left"),
        (f"tiles of {rows}, from L2", rows, cache, drawing.QUERY, (2, 11), "left"),
        ("compulsory traffic", n / 2, slope, drawing.KEY, (0, -16), "center"),
    ]
    for label, intensity, speed, colour, offset, side in marks:
        y = min(top, speed * intensity)
        axes.plot([intensity], [y], "o", color=colour, ms=7, zorder=3)
        axes.annotate(
            label, (intensity, y), xytext=offset, textcoords="offset points", ha=side, va="center"
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=x,
        ylim=(1, 2000),
        xlabel="operations per byte",
        ylabel="TFLOP/s",
    )
    axes.set_xticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1,000", "10,000"])
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.minorticks_off()
    return drawing.show(axes)


def layer_rows(record, direction):
    """Return the layer's rows, {name: {n: row}}: of short texts, those that were one CUDA graph."""
    rows = gpu_record.rows(record, "layer", direction=direction)
    without_graphs = {
        name: dict(row_by_n) for name, row_by_n in rows.items() if not name.endswith(tables().GRAPH)
    }
    for name, row_by_n in without_graphs.items():
        graph = rows.get(name + tables().GRAPH, {})
        without_graphs[name] = {
            n: row for n, row in {**row_by_n, **graph}.items() if n >= tables().SHORT or n in graph
        }
    return {name: row_by_n for name, row_by_n in without_graphs.items() if row_by_n}


def fastest(by_name, n):
    """Return the row of the fastest of PyTorch's layers with n tokens."""
    rows = [by_name[name][n] for name in tables().FASTEST if n in by_name.get(name, ())]
    return min(rows, key=lambda row: row["milliseconds"])


def layers(record):
    """Draw how many times the layer's time others take, over the length, forward and in training;
    None of none.

    A bar at a point goes from the smallest quotient of deciles to the largest.
    """
    both = [layer_rows(record, direction) for direction in ("forward", "forward+backward")]
    if not all("layer" in by_name for by_name in both):
        return None
    panels = drawing.panels(2, height=210)
    for axes, by_name, title in zip(panels, both, ("Forward", "Forward and backward"), strict=True):
        ours = by_name["layer"]
        fast = {n: fastest(by_name, n) for n in ours}
        slow = by_name.get("nn.MultiheadAttention with weights", {})
        axes.axhline(1, color=drawing.INK, lw=1.3)
        for label, other, colour, line, marker in (
            ("nn.MultiheadAttention with weights", slow, drawing.QUIET, "-", "^"),
            ("the fastest of PyTorch's", fast, drawing.QUERY, "--", "D"),
        ):
            points = sorted(
                (n, row["milliseconds"] / ours[n]["milliseconds"]) for n, row in other.items()
            )
            axes.plot(
                *zip(*points, strict=True), line, color=colour, marker=marker, ms=4.5, label=label
            )
            for n, row in other.items():
                if row.get("deciles"):
                    (low, high), (least, most) = row["deciles"], ours[n]["deciles"]
                    axes.plot([n, n], [low / most, high / least], color=colour, lw=3, alpha=0.5)
        lengths(axes, sorted(ours))
        axes.set(title=title, ylim=(0.5, 60))
        axes.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
        axes.minorticks_off()
    panels[0].set(ylabel="times our layer's time")
    panels[1].legend(loc="upper left")
    return drawing.show(*panels)


KINDS = {
    "attention": ("sdpa", "flash", "fmha", "ttention", "cudnn::fusion", "oftmax"),
    "copies and casts": ("Cat", "copy", "Memset", "Memcpy", "Fill", "convert"),
    "products": ("nvjet", "gemm", "cutlass", "mm", "linear"),
    "sums and the rest": ("",),
}
"""Of kernels: words in their names. The first kind that has one is theirs."""
KIND_COLORS = dict(
    zip(KINDS, (drawing.KEY, drawing.VALUE, drawing.QUERY, drawing.WEIGHT), strict=True)
)
IDLE = "idle"
SHORT = 512  # tokens of the step that is traced with what the CPU does


def kind(name):
    """Return which of `KINDS` a kernel is."""
    return next(
        name_of_kind for name_of_kind, words in KINDS.items() if any(word in name for word in words)
    )


def step_of(record, name, n):
    """Return the kernels of a traced training step, and its operations and launches on the CPU:
    two lists of rows.
    """
    rows = [
        row for row in record.get("trace", ()) if (row["implementation"], row["n"]) == (name, n)
    ]
    return [row for row in rows if "kernel" in row], [row for row in rows if "host" in row]


def shares(record, name, n):
    """Return microseconds of a training step by kind, and those in which the GPU is idle; an empty
    dict of none.

    Kernels are those of the profiler. The whole step was measured without it, since the profiler
    slows launches down.
    """
    kernels, _ = step_of(record, name, n)
    whole = layer(record, "forward+backward", name, n).get("milliseconds")
    if not kernels or not whole:
        return {}
    microseconds = dict.fromkeys(KINDS, 0.0)
    for row in kernels:
        microseconds[kind(row["kernel"])] += row["us"]
    return microseconds | {IDLE: max(0.0, 1e3 * whole - sum(microseconds.values()))}


def steps(record, n=SHORT, long=4096):
    """Draw a training step of n tokens in the profiler, from Python and as a CUDA graph, and where
    its time goes.

    Parameters
    ----------
    record : dict
    n, long : int
        Tokens of the steps in the timeline, and of one more step whose shares are shown.

    Returns
    -------
    drawing or Markdown
        Without such a trace in the record, a line that says so.
    """
    eager, graph = ("layer", "launched from Python"), ("layer" + tables().GRAPH, "as a CUDA graph")
    traced = {label: step_of(record, name, n) for name, label in (eager, graph)}
    bars = {f"{tokens:,} tokens, {label}": shares(record, name, tokens)
            for (name, label), tokens in ((eager, n), (graph, n), (eager, long))}  # fmt: skip
    if not all(kernels for kernels, _ in traced.values()) or not all(bars.values()):
        return Markdown(f"*A training step of {n} tokens, kernel by kernel: {tables().NOT_YET}.*")
    line, shared = (
        drawing.panels(1, width=620, height=190),
        drawing.panels(1, width=620, height=170),
    )
    _timeline(line, traced)
    for y, parts in enumerate(bars.values()):
        at, whole = 0, sum(parts.values())
        for part, us in parts.items():
            colour = KIND_COLORS.get(part, drawing.RULE)
            shared.barh(
                y, us / whole, left=at, color=colour, height=0.6, label=part if y == 0 else None
            )
            if us > 0.08 * whole:
                shared.text(at + us / whole / 2, y, f"{us / whole:.0%}", ha="center", va="center",
                            color=drawing.INK if part == IDLE else drawing.PAPER)  # fmt: skip
            at += us / whole
    shared.set(xlim=(0, 1), ylim=(len(bars) - 0.5, -0.6), title="Shares of a step", xticks=[])
    shared.set_yticks(range(len(bars)), bars)
    shared.spines[:].set_visible(False)
    shared.tick_params(axis="y", length=0)
    shared.figure.legend(loc="outside lower center", ncols=5, columnspacing=1, handlelength=1)
    return drawing.show(line, shared)


def _timeline(axes, traced):
    """Draw steps below each other: what the CPU does, its launches in ink, and kernels by kind,
    over microseconds.
    """
    names, y = [], 0
    for label, (kernels, host) in traced.items():
        calls = [row for row in host if row["host"].startswith("cu")]
        for rows, name in ((host, f"CPU, {label}"), (kernels, "GPU")):
            for row in rows:
                tick = row in calls
                colour = (
                    drawing.INK
                    if tick
                    else drawing.RULE
                    if rows is host
                    else KIND_COLORS[kind(row["kernel"])]
                )
                axes.broken_barh(
                    [(row["start_us"], max(row["us"], 1.0))],
                    (y - 0.35, 0.7),
                    facecolor=colour,
                    lw=0,
                )
            names.append(name)
            y += 1
    axes.set(
        ylim=(y - 0.5, -0.5),
        xlim=(0, None),
        xlabel="µs, in the profiler",
        title="One training step",
    )
    axes.set_yticks(range(y), names)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def attention(record, direction, name, n, width=64, dtype="bfloat16"):
    """Return the row of causal attention in this case; an empty dict where it was not measured,
    or did not fit.
    """
    found = gpu_record.rows(
        record, "attention", direction=direction, causal=True, dtype=dtype, d_head=width
    )
    return found.get(name, {}).get(n, {})


def layer(record, direction, name, n):
    """Return the row of the layer in this case; an empty dict where it was not measured, or did
    not fit.
    """
    return gpu_record.rows(record, "layer", direction=direction).get(name, {}).get(n, {})


def measurements(record):
    """Return what the pages say in sentences of a recorded GPU, by name, or that it was not
    measured.
    """
    names = [
        "card",
        "copy",
        "faster",
        "tuned_forward_64",
        "tuned_rows",
        "tuned_roof",
        "tuned_share",
    ]
    names += [
        f"{quantity}_{name}"
        for quantity in ("speed", "ridge")
        for name in ("float32", "tf32", "float16", "bfloat16")
    ]
    names += [
        "roof_softmax",
        "roof_naive",
        "roof_tiles",
        "l2",
        "l2_said",
        "l2_ridge",
        "table_ps",
        "again_ps",
    ]
    names += ["exponentials_64", "exponentials_128", "backward_rate_64"]
    names += [f"wide_{name}{end}" for name in (*MAIN, "math") for end in ("", "_back")]
    names += ["queries_rate", "above_datasheet", "tuned_n", "without_weights"]
    parts = (
        _measured_ceilings,
        _measured_attention,
        _measured_layers,
        _measured_steps,
        _measured_goals,
        _measured_rest,
    )
    texts = {"card": measured_on(record)}
    for words in parts:
        texts |= words(record)
    return dict.fromkeys([*names, *NAMES], tables().NOT_YET) | texts


# What sentences say beside ceilings and sizes of tiles.
NAMES = [
    *(
        "naive_ms",
        "naive_mib",
        "kernel_ms",
        "kernel_mib",
        "kernel_times",
        "cudnn_share",
        "short_kernel",
        "short_cudnn",
    ),
    *(
        "long_64",
        "long_128",
        "wide_rate",
        "float32_kernel",
        "float32_naive",
        "contest",
        "contest_best",
    ),
    *(
        "contest_cudnn",
        "contest_naive",
        "flash_backward_long",
        "goal_flash_forward",
        "goal_flash_backward",
        "goal_share_64",
    ),
    *("goal_share_128", "goals_met", "goals_missed", "layer_least", "layer_least_n", "layer_long"),
    *(
        "weights_forward_short",
        "weights_both_short",
        "own_times",
        "own_copies",
        "weights_forward",
        "weights_both",
        "graph_short",
    ),
    *("graph_short_eager", "contest_steps", "timing_first", "timing_no_wait", "timing_too_fast"),
    *(
        "timing_wait",
        "timing_events",
        "timing_rate",
        "timing_zeros",
        "window_forward",
        "window_all_forward",
    ),
    *(
        "short_launches",
        "short_graph_launches",
        "short_step",
        "short_busy",
        "short_idle",
        "short_graph_step",
        "short_graph_busy",
    ),
    *("short_graph_idle", "graph_step", "graph_theirs", "compiled_step"),
    *("compiled_step_ms", "compiled_step_eager"),
    *("window_both", "window_all_both", "lowest_clock", "highest_clock"),
]


def _measured_ceilings(record):
    ceilings = record.get("ceilings")
    if not ceilings:
        return {}
    speed, slope = ceilings["matmul_tflop_s"], ceilings["copy_gb_s"] / 1e3
    texts = {
        "copy": f"{ceilings['copy_gb_s']:,.0f}",
        "faster": f"{speed['bfloat16'] / speed['float32']:.0f}",
    }
    texts |= {f"speed_{name}": f"{value:,.0f}" for name, value in speed.items()}
    texts |= {f"ridge_{name}": f"{value / slope:.0f}" for name, value in speed.items()}
    intensities = {"softmax": 5 / 4, "naive": WIDTH / 2, "tiles": 128}
    texts |= {
        f"roof_{name}": f"{min(speed['bfloat16'], slope * a):.0f}"
        for name, a in intensities.items()
    }
    cache, measured = cache_speed(record)
    texts["l2_said"] = (
        "what was measured on this GPU"
        if measured
        else "this number: on this GPU, L2 was not yet measured"
    )
    texts |= {"l2": f"{cache / 1e3:.1f}", "l2_ridge": f"{1e3 * speed['bfloat16'] / cache:.0f}"}
    again = 4 * WIDTH / speed["bfloat16"] + 2 / EXPONENTIALS  # two products and two exponentials
    texts |= {"table_ps": f"{6 / slope:.2f}", "again_ps": f"{again:.2f}"}
    texts["above_datasheet"] = f"{speed['bfloat16'] / DATASHEET:.0%}"
    for width in (64, 128):
        texts[f"exponentials_{width}"] = f"{speed['bfloat16'] / (4 * width * EXPONENTIALS):.0%}"
    texts |= _measured_tuning(record)
    rows = [
        row
        for row in record.get("tuning", [])
        if row["kernel"] == "forward" and row["d_head"] == WIDTH
    ]
    best = max(rows, key=lambda row: row["tflop_s"], default=None)
    if best:
        texts |= {"tuned_forward_64": f"{best['tflop_s']:.0f}", "tuned_rows": f"{best['queries']}"}
        texts |= {"tuned_n": f"{best['n']:,}"} if "n" in best else {}
        texts |= {
            "tuned_roof": f"{best['queries'] * slope:.0f}",
            "tuned_share": f"{best['tflop_s'] / speed['bfloat16']:.0%}",
        }
    return texts


# 10^12 a second on an H100: operations of 16 bits (nvidia2023); exp (shah2024)
DATASHEET, EXPONENTIALS = 989, 3.9


def _measured_tuning(record):
    """The rates of the two backward kernels, and of both together with five products, as papers
    count.
    """
    best = {}
    for row in record.get("tuning", ()):
        key = row["kernel"], row["d_head"]
        best[key] = min(best.get(key, row), row, key=lambda own: own["milliseconds"])
    texts = {}
    if ("queries", WIDTH) in best:
        texts["queries_rate"] = f"{best['queries', WIDTH]['tflop_s']:.0f}"
    both = [best[kernel, WIDTH] for kernel in ("queries", "keys") if (kernel, WIDTH) in best]
    if len(both) == 2:
        work = 5 * both[0]["heads"] * WIDTH * both[0]["n"] * (both[0]["n"] + 1)
        texts["backward_rate_64"] = f"{work / sum(row['milliseconds'] for row in both) / 1e9:.0f}"
    return texts


LONG = (8192, 16_384, 32_768)


def _measured_attention(record):
    """Return the texts on attention, by the names that the pages glue."""
    naive, kernel, other = (
        attention(record, "forward", name, 16_384) for name in ("naive", "kernel", "cudnn")
    )
    wide = attention(record, "forward", "kernel", 16_384, width=128)
    short = [attention(record, "forward", name, 1024) for name in ("kernel", "cudnn")]
    full = [
        attention(record, "backward", name, 4096, 128, "float32") for name in ("kernel", "naive")
    ]
    texts = {}
    for end, way in (("", "forward"), ("_back", "backward")):
        for name in (*MAIN, "math"):
            if row := attention(record, way, name, 16_384, width=128):
                texts[f"wide_{name}{end}"] = duration(row, 2 if row["milliseconds"] < 10 else 1)
    if naive and kernel and other and wide:
        texts |= {
            "naive_ms": duration(naive, 1),
            "naive_mib": f"{naive['peak_bytes'] / 2**20:,.0f}",
        }
        texts |= {
            "kernel_ms": duration(kernel, 2),
            "kernel_mib": f"{kernel['peak_bytes'] / 2**20:.0f}",
        }
        texts["kernel_times"] = f"{naive['milliseconds'] / kernel['milliseconds']:.0f}"
        texts["cudnn_share"] = f"{other['milliseconds'] / kernel['milliseconds']:.0%}"
        texts["wide_rate"] = f"{wide['tflop_s'] / kernel['tflop_s']:.1f}"
        if record.get("ceilings"):
            top = record["ceilings"]["matmul_tflop_s"]["bfloat16"]
            texts |= {
                "long_64": f"{kernel['tflop_s'] / top:.0%}",
                "long_128": f"{wide['tflop_s'] / top:.0%}",
            }
    backward = [attention(record, "backward", name, n, width) for n in LONG for width in (64, 128)
                for name in ("kernel", "flash")]  # fmt: skip
    if all(backward):
        ratios = [
            ours["milliseconds"] / theirs["milliseconds"]
            for ours, theirs in zip(backward[::2], backward[1::2], strict=True)
        ]
        texts["flash_backward_long"] = f"{max(ratios):.0%}"
    if all(short):
        rows = zip(("kernel", "cudnn"), short, strict=True)
        # in microseconds
        texts |= {f"short_{name}": duration(row, 1, 1e3) for name, row in rows}
    if all(full):
        texts |= {
            f"float32_{name}": duration(row, 1)
            for name, row in zip(("kernel", "naive"), full, strict=True)
        }
    leaderboard = record.get("leaderboard", {})
    contest = {row["implementation"]: row for row in leaderboard.get("rows", ())}
    if {"kernel", "cudnn", "naive"} <= contest.keys():
        texts |= {
            "contest": duration(contest["kernel"], 2),
            "contest_best": f"{leaderboard['cited_milliseconds']['best']:.2f}",
        }
        texts |= {
            "contest_cudnn": duration(contest["cudnn"], 2),
            "contest_naive": duration(contest["naive"], 0),
        }
        texts |= {"contest_steps": duration(contest["steps"], 2)} if "steps" in contest else {}
    return texts


def _measured_layers(record):
    both = {way: layer_rows(record, way) for way in ("forward", "forward+backward")}
    by_name, weights = both["forward+backward"], "nn.MultiheadAttention with weights"
    if not {"layer", "layer, own kernel", weights} <= by_name.keys():
        return {}
    layer_by_n = by_name["layer"]
    ratio = {
        n: fastest(by_name, n)["milliseconds"] / row["milliseconds"]
        for n, row in layer_by_n.items()
    }
    at = min((n for n in layer_by_n if 512 <= n <= 16_384), key=ratio.get)
    texts = {"layer_least": f"{ratio[at]:.2f}", "layer_least_n": f"{at:,}"}
    texts["layer_long"] = f"{min(ratio[n] for n in layer_by_n if n >= 4096):.2f}"
    own_kernel = by_name["layer, own kernel"][16_384]["milliseconds"]
    texts["own_times"] = f"{own_kernel / layer_by_n[16_384]['milliseconds']:.2f}"
    for word, way in (("weights_forward", "forward"), ("weights_both", "forward+backward")):
        for end, n, digits in (("", 16_384, 0), ("_short", 1024, 1)):
            ours, slow = (both[way].get(name, {}).get(n) for name in ("layer", weights))
            if ours and slow:
                texts[word + end] = f"{slow['milliseconds'] / ours['milliseconds']:.{digits}f}"
    bare = both["forward"].get("nn.MultiheadAttention", {}).get(16_384)
    if bare:
        texts["without_weights"] = (
            f"{bare['milliseconds'] / both['forward']['layer'][16_384]['milliseconds']:.1f}"
        )
    graph, eager = (
        layer(record, "forward", "layer" + tables().GRAPH, SHORT),
        layer(record, "forward", "layer", SHORT),
    )
    if graph and eager:
        texts |= {"graph_short": duration(graph, 3), "graph_short_eager": duration(eager, 3)}
    steps = [
        row for row in tables().kernels_of(record) if row["implementation"] == "layer, own kernel"
    ]
    copies = sum(row["us"] for row in steps if "direct_co" in row["kernel"])
    if copies:
        texts["own_copies"] = f"{copies / sum(row['us'] for row in steps):.0%}"
    return texts


def _measured_steps(record):
    """What a training step of few tokens spends: in microseconds and shares, from Python and as
    a CUDA graph.
    """
    texts, graph = {}, tables().GRAPH
    for word, name in (("short", "layer"), ("short_graph", "layer" + graph)):
        if launches := sum(row["host"].startswith("cu") for row in step_of(record, name, SHORT)[1]):
            texts[f"{word}_launches"] = str(launches)
        if parts := shares(record, name, SHORT):
            whole = sum(parts.values())
            texts |= {
                f"{word}_step": f"{whole:.0f} µs",
                f"{word}_busy": f"{whole - parts[IDLE]:.0f} µs",
            }
            texts |= {f"{word}_idle": f"{parts[IDLE] / whole:.0%}"}
    for word, other, name in (
        ("graph_step", "layer" + graph, "layer"),
        ("graph_theirs", "nn.MultiheadAttention" + graph, "nn.MultiheadAttention"),
        ("compiled_step", "layer, compiled", "layer"),
    ):
        eager, faster = (
            layer(record, "forward+backward", layer_name, SHORT) for layer_name in (name, other)
        )
        if eager and faster:
            texts[word] = f"{eager['milliseconds'] / faster['milliseconds']:.1f} times"
            texts |= {f"{word}_ms": duration(faster, 2), f"{word}_eager": duration(eager, 2)}
    return texts


def _measured_goals(record):
    goals_reached = [goal for goal in tables().goals(record) if goal.reached is not None]
    texts = {
        "goals_met": str(sum(goal.met for goal in goals_reached)),
        "goals_missed": str(sum(not goal.met for goal in goals_reached)),
    }
    words = {
        "goal_flash_forward": ("kernel: time over", ", forward"),
        "goal_flash_backward": ("kernel: time over", ", backward"),
        "goal_share_64": ("kernel: share", "forward, causal, d = 64"),
        "goal_share_128": ("kernel: share", "forward, causal, d = 128"),
    }
    for goal in goals_reached:
        texts |= {
            word: f"{goal.reached:.0%}"
            for word, parts in words.items()
            if all(part in goal.what for part in parts)
        }
    return texts if goals_reached else {}


def _measured_rest(record):
    texts, timing = {}, record.get("timing")
    if timing:
        texts |= {
            "timing_first": f"{timing['first_call']:.0f}",
            "timing_zeros": f"{timing['events_zeros']:.2f}",
        }
        texts |= {
            "timing_wait": f"{timing['with_waiting']:.2f}",
            "timing_events": f"{timing['events']:.2f}",
        }
        texts["timing_no_wait"] = f"{timing['without_waiting']:.3f}"
        texts["timing_too_fast"] = f"{timing['flops'] / timing['without_waiting'] / 1e9:,.0f}"
        texts["timing_rate"] = f"{timing['flops'] / timing['events'] / 1e9:.0f}"
    windows = {(row["window"], row["direction"]): row for row in record.get("window", ())}
    for word, way in (("forward", "forward"), ("both", "forward+backward")):
        if {(None, way), (1024, way)} <= windows.keys():
            texts |= {f"window_{word}": duration(windows[1024, way], 2)}
            texts |= {f"window_all_{word}": duration(windows[None, way], 2)}
    clocks = [
        record.get("conditions", {}).get(part, {}).get("sm_mhz") for part in ("attention", "layer")
    ]
    if all(clocks):
        texts |= {
            "lowest_clock": f"{min(low for low, _ in clocks):,}",
            "highest_clock": f"{max(high for _, high in clocks):,}",
        }
    return texts


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return TilesFigure(state=START | {"step": 9})

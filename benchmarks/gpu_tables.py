"""Show what was measured on a GPU as Markdown tables: for `gpu.py --table`, and for the book.

A record may lack parts, and rows within a part: what was not measured is said to be so, and never
filled in.
"""

import itertools
import math
from typing import NamedTuple

NOT_YET = "not yet measured"
ORDER = ("kernel", "steps", "cudnn", "flash", "efficient", "math", "naive", "flex")
FORWARD, BACKWARD, BOTH = "forward", "backward", "forward+backward"
WIDTHS = (64, 128)
SHORT = 4096  # below so many tokens, the times of calls are those of a CUDA graph
KERNELS = ("forward", "queries", "keys", "backward")
FASTEST = ("layer, cudnn", "layer, flash", "layer, efficient", "nn.MultiheadAttention")
WEIGHTS = "nn.MultiheadAttention with weights"
GRAPH = ", CUDA graph"  # at the end of a name: the whole call is one
# Both sides of a comparison are started in the same way: from Python ("eager"), or as the faster of
# that and a graph.
EAGER, EITHER = "eager", "eager or CUDA graph"
CITED_BEST = 5.364  # milliseconds of the leaderboard's best, as the record cites it with its source


def everything(record):
    """Return all tables, each under its heading; of a part that was not measured, the heading
    and that it was not.
    """
    parts = []
    for title, make in TABLES.items():
        parts += [f"## {title}", make(record) or f"*{NOT_YET.capitalize()}.*"]
    return "\n\n".join([*parts, machine(record)]) + "\n"


def machine(record):
    """Return one line: what this was measured on, with which versions, and when."""
    about = record["machine"]
    versions = [
        f"{name} {about[name]}" for name in ("driver", "cuda", "torch", "triton") if about.get(name)
    ]
    return f"{about['device']}; {', '.join(versions)}. {about['date']}."


def shown(value):
    """Return a goal's number as tables have it."""
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


class Goal(NamedTuple):
    """What is asked of a machine's record, and what it says."""

    what: str
    reached: float | None  # None where it was not measured
    asked: float
    at_most: bool  # whether `asked` is the most, not the least
    where: str  # what to look at if it is missed

    @property
    def met(self):
        """Whether it was met; None where nothing was measured."""
        if self.reached is None:
            return None
        reached = round(self.reached, 2)  # as it is shown: 1.00 is not less than 1.00
        return reached <= self.asked if self.at_most else reached >= self.asked

    def asked_for(self):
        """Say what is asked."""
        return f"{'at most' if self.at_most else 'at least'} {shown(self.asked)}"

    def said(self):
        """Say it in a few words."""
        if self.met is None:
            return NOT_YET
        if self.met:
            return "met"
        return f"missed by {abs(self.reached / self.asked - 1):.0%}"


FORWARD_LIMITS = (
    "occupancy (registers and shared memory of compiled.json), exponentials on the special units"
)
BACKWARD_LIMITS = (
    "registers and spills in compiled.json, the second pass over the scores, "
    "exponentials taken twice"
)
LAYER_LIMITS = (
    "the trace: which backend was chosen, copies between projections and attention, launches"
)


# TFLOP/s that are asked of the fastest of ours with 16,384 tokens, by direction, width and
# causality. They are set by the rates that Shah et al. (2024) give for FlashAttention-3 on an H100:
# about 90 % forward, and 80 % backward.
BESIDE_FLASH_3 = {
    (FORWARD, 64, True): 445,
    (FORWARD, 128, True): 554,
    (BACKWARD, 64, False): 379,
    (BACKWARD, 128, False): 449,
}
LONG = 16384


def fastest_rate(record, direction, width, causal):
    """Return the TFLOP/s of the fastest of ours with 16,384 tokens, kernel or step; None if none
    was measured.
    """
    same = {"direction": direction, "d_head": width, "causal": causal, "n": LONG}
    same |= {"dtype": "bfloat16"}
    rates = []
    for row in record.get("attention", ()):
        if row["implementation"] in ("kernel", "steps") and _has(row, same):
            rates.append(row["tflop_s"])
    times, heads = {}, 0
    for row in record.get("variants", ()):
        same = (row["d_head"], row.get("causal", True), row["n"]) == (width, causal, LONG)
        if same and row["milliseconds"]:
            heads = row["heads"]
            times[row["kernel"]] = min(row["milliseconds"], times.get(row["kernel"], math.inf))
    if direction == FORWARD:
        least, products = times.get("forward", math.inf), 2
    else:  # two kernels after each other, or one that does both
        two = times.get("queries", math.inf) + times.get("keys", math.inf)
        least, products = min(two, times.get("backward", math.inf)), 5
    if least < math.inf:
        scores = LONG * (LONG + 1) // 2 if causal else LONG**2
        rates.append(2 * products * heads * width * scores / least / 1e9)
    return max((rate for rate in rates if rate), default=None)


def _has(row, same):
    """Tell whether a row has these values."""
    return all(row[key] == value for key, value in same.items())


def goals(record):
    """Return the goals, as a list of Goal: each is judged by the worst of the lengths that it is
    asked for.
    """
    return [
        *_layer_goals(record),
        *_kernel_goals(record),
        *_fastest_goals(record),
        _leaderboard_goal(record),
    ]


def _layer_goals(record):
    """Yield how many times as fast as PyTorch's the layer has to be."""
    for direction, mode in itertools.product((FORWARD, BOTH), (EAGER, EITHER)):
        lengths = _by_n(record.get("layer", ()), direction).items()
        by_n = [own for n, own in lengths if 512 <= n <= LONG]
        for theirs, name, asked in (
            (FASTEST, "the fastest of PyTorch's", 1.0),
            ((WEIGHTS,), WEIGHTS, 3.0),
        ):
            what = f"layer, {mode}: speed over {name}, {direction}, n = 512 to 16,384"
            ratios = _layer_ratios(by_n, theirs, mode == EITHER)
            yield Goal(what, min(ratios, default=None), asked, False, LAYER_LIMITS)


def _kernel_goals(record):
    """Yield which share of the ceiling the kernel has to reach, and how much slower than
    FlashAttention in PyTorch it may be.
    """
    ceiling = (record.get("ceilings") or {}).get("matmul_tflop_s", {}).get("bfloat16")
    for direction, share, where in (
        (FORWARD, 0.6, FORWARD_LIMITS),
        (BACKWARD, 0.5, BACKWARD_LIMITS),
    ):
        for width in WIDTHS:
            same = {"implementation": "kernel", "causal": True, "d_head": width}
            rows = [row for row in _long(record, direction) if _has(row, same)]
            rates = [row["tflop_s"] for row in rows if row.get("tflop_s")]
            reached = min(rates) / ceiling if rates and ceiling else None
            what = (
                f"kernel: share of the ceiling of products, {direction}, causal, d = {width}, "
                "from n = 4,096"
            )
            yield Goal(what, reached, share, False, where)
        ratios = [
            case["kernel"] / case["flash"]
            for case in _cases(record, direction)
            if case.get("kernel") and case.get("flash")
        ]
        what = f"kernel: time over FlashAttention's in PyTorch, {direction}, from n = 4,096"
        yield Goal(what, max(ratios, default=None), 1.5, True, where)


def _fastest_goals(record):
    """Yield how fast the fastest of ours has to be with 16,384 tokens."""
    for (direction, width, causal), asked in BESIDE_FLASH_3.items():
        reached = fastest_rate(record, direction, width, causal)
        what = (
            f"fastest of ours: TFLOP/s, {direction}, {'causal' if causal else 'not causal'}, d "
            f"= {width}"
        )
        where = FORWARD_LIMITS if direction == FORWARD else BACKWARD_LIMITS
        yield Goal(f"{what}, n = 16,384", reached, asked, False, where)


def _leaderboard_goal(record):
    own = record.get("leaderboard") or {"rows": ()}
    times = [
        row["milliseconds"]
        for row in own["rows"]
        if row["implementation"] == "kernel" and row["milliseconds"]
    ]
    best = own["cited_milliseconds"]["best"] if times else CITED_BEST
    what = "kernel: milliseconds in the leaderboard's configuration"
    return Goal(what, min(times, default=None), best, True, BACKWARD_LIMITS)


def _layer_ratios(by_n, theirs, graphs):
    """Return, for each length, how many times as fast as the fastest of `theirs` our layer is.

    With `graphs`, calls in a CUDA graph count as well. A length at which only one side has a graph
    is left out. Without a length at which both have one, nothing is returned.
    """
    ours, ratios, both = ("layer", "layer, own kernel"), [], not graphs
    for times in by_n:
        our_time, their_time = _least(times, ours), _least(times, theirs)
        if graphs:
            our_graph = _least(times, ours, GRAPH)
            their_graph = _least(times, theirs, GRAPH)
            if math.isinf(our_graph) != math.isinf(their_graph):
                continue
            both = both or max(our_graph, their_graph) < math.inf
            our_time, their_time = min(our_time, our_graph), min(their_time, their_graph)
        if max(our_time, their_time) < math.inf:
            ratios.append(their_time / our_time)
    return ratios if both else []


def _least(times, names, end=""):
    """Return the least time of some implementations, whose names have this end; inf if none was
    measured.
    """
    return min((times[name + end] for name in names if name + end in times), default=math.inf)


def _long(record, direction):
    """Return the rows of attention in bfloat16 from n = 4,096 on."""
    rows = [
        row
        for row in record.get("attention", ())
        if row["direction"] == direction and row["milliseconds"]
    ]
    return [row for row in rows if row["dtype"] == "bfloat16" and row["n"] >= 4096]


def _cases(record, direction):
    cases = {}
    for row in _long(record, direction):
        case = cases.setdefault((row["n"], row["d_head"], row["causal"]), {})
        case[row["implementation"]] = row["milliseconds"]
    return cases.values()


def _goals(record):
    rows = [
        (goal.what, shown(goal.reached), goal.asked_for(), goal.said())
        for goal in goals(record)
        if goal.reached is not None
    ]
    return _table(("goal, at worst", "reached", "asked", ""), rows, right=(1, 2)) if rows else None


def told_goals(record):
    """Return the goals as text for a terminal: what was met, what was missed by how much, and
    what to look at.
    """
    lines = [machine(record), ""]
    for goal in goals(record):
        reached = "" if goal.reached is None else f" {shown(goal.reached)};"
        lines.append(f"{goal.said().upper():16} {goal.what}:{reached} asked: {goal.asked_for()}")
        if goal.met is False:
            lines.append(f"{'':16} look at {goal.where}")
    return "\n".join(lines)


def _ceilings(record):
    own = record.get("ceilings")
    if not own:
        return None
    rows = [("copying, bytes read and bytes written", f"{own['copy_gb_s']:.0f} GB/s")]
    if cache := record.get("cache"):
        rows.append(("reading from the L2 cache", f"{cache['l2_gb_s']:.0f} GB/s"))
    rows += [
        (f"product of matrices, {name}", f"{value:.0f} TFLOP/s")
        for name, value in own["matmul_tflop_s"].items()
    ]
    return _table(("ceiling", "measured"), rows, right=(1,))


def _attention(record):
    """A table for each width, causality, dtype and direction: milliseconds (TFLOP/s) over the
    length.
    """
    groups = {}
    for row in record.get("attention", ()):
        key = (row["d_head"], row["causal"], row["dtype"], row["direction"])
        groups.setdefault(key, []).append(row)
    found = []
    for (width, causal, dtype, direction), rows in groups.items():
        title = (
            f"{direction}, {'causal' if causal else 'not causal'}, {rows[0]['heads']} heads "
            f"of {width}, {dtype}"
        )
        measured = {row["implementation"] for row in rows}
        found.append(_over_n(rows, title, [name for name in ORDER if name in measured]))
    return "\n\n".join(found)


def _layer(record):
    title = "{direction}, causal, d_model = {d_model}, {heads} heads, bfloat16"
    return _by_direction(record.get("layer", ()), title)


def _recurrent(record):
    return _by_direction(record.get("rnn", ()), "{direction}, d_model = {d_model}, bfloat16")


def _by_direction(rows, title):
    """A table for each direction; `title` has places for the values of its first row."""
    found = []
    for direction in (FORWARD, BOTH):
        same = [row for row in rows if row["direction"] == direction]
        if same:
            names = list(dict.fromkeys(row["implementation"] for row in same))
            found.append(_over_n(same, title.format(**same[0]), names))
    return "\n\n".join(found)


def _over_n(rows, title, names):
    """A table of what was measured, with a row for each length and a column for each name."""
    cells = {(row["n"], row["implementation"]): _cell(row) for row in rows}
    lengths = sorted({row["n"] for row in rows})
    body = [(n, *(cells.get((n, name), "") for name in names)) for n in lengths]
    return _table((f"n; {title}", *names), body, right=range(len(names) + 1))


def _cell(row):
    if row["milliseconds"] is None:
        return row.get("why", "")
    said = f"{row['milliseconds']:.3g} ms"
    if row.get("deciles"):
        said += " ({:.3g} to {:.3g})".format(*row["deciles"])
    if row.get("tflop_s"):
        said += f", {row['tflop_s']:.0f} TFLOP/s"
    if row.get("peak_bytes"):
        said += f", {row['peak_bytes'] / 2**20:.0f} MiB"
    return said


def _leaderboard(record):
    own = record.get("leaderboard")
    if not own:
        return None
    cited = own["cited_milliseconds"]
    rows = [(row["implementation"], _cell(row)) for row in own["rows"]] or [
        ("all of ours", NOT_YET)
    ]
    rows += [
        ("naive, as cited", f"{cited['naive']:.1f} ms"),
        ("the best, as cited", f"{cited['best']:.2f} ms"),
    ]
    head = (
        f"batch {own['batch']}, {own['heads']} heads of {own['d_head']}, n = {own['n']}, "
        f"{own['dtype']}, causal"
    )
    return (
        _table((head, "forward and backward"), rows, right=(1,)) + f"\n\nCited: {cited['where']}."
    )


def _accuracy(record):
    cells, names = {}, {}
    for row in record.get("accuracy", ()):
        names[row["implementation"]] = True
        by_name = cells.setdefault((row["dtype"], row["causal"], row["quantity"]), {})
        by_name[row["implementation"]] = f"{row['error']:.1e}"
    body = []
    for (dtype, causal, what), by_name in cells.items():
        errors = (by_name.get(name, "") for name in names)
        body.append((dtype, "yes" if causal else "no", what, *errors))
    return body and _table(("dtype", "causal", "of", *names), body, right=range(3, 3 + len(names)))


def _memory(record):
    rows = []
    for part, own in record.get("memory_exponent", {}).items():
        for name, directions in own.items():
            row = [part, name]
            for each in (FORWARD, BOTH):
                row.append(f"{directions[each]['exponent']:.2f}" if each in directions else "")
            rows.append(row)
    return rows and _table(("part", "implementation", FORWARD, BOTH), rows, right=(2, 3))


def _tuning(record):
    rows = []
    for row in record.get("tuning", ()):
        about = [row[key] for key in ("kernel", "dtype", "d_head", "n")]
        blocks = (f"{row['queries']} x {row['keys']}", row["warps"], row["stages"])
        speed = (f"{row['milliseconds']:.3f} ms", f"{row['tflop_s']:.0f} TFLOP/s")
        rows.append((*about, *blocks, *speed))
    head = ("kernel", "dtype", "d_head", "n", "queries x keys", "warps", "stages", "median", "rate")
    return rows and _table(head, rows, right=range(2, len(head)))


def _variants(record):
    """A row for each kernel, width and length: the milliseconds of each step, with its fastest
    blocks.
    """
    rows = record.get("variants", ())
    steps = list(dict.fromkeys(row["step"] for row in rows))
    cells = {
        (row["kernel"], row["d_head"], row["n"], row["step"]): f"{row['milliseconds']:#.3g}"
        for row in rows
    }
    kinds = sorted(
        {key[:3] for key in cells}, key=lambda key: (key[1], KERNELS.index(key[0]), key[2])
    )
    body = [(*kind, *(cells.get((*kind, step), "") for step in steps)) for kind in kinds]
    return body and _table(("kernel", "d_head", "n", *steps), body, right=range(1, 3 + len(steps)))


def _paged(record):
    """A row for each batch: the milliseconds of each way with its fastest blocks, and their ratio
    to SDPA with one row per sequence.
    """
    times = {}
    for row in (record.get("paged") or {}).get("rows", ()):
        name = row["implementation"]
        if row["page_size"] and name.startswith("gather"):
            name = f"{name}, pages of {row['page_size']}"
        if row["milliseconds"]:
            by_name = times.setdefault((row["batch"], row["n"], row["lengths"]), {})
            by_name[name] = min(row["milliseconds"], by_name.get(name, math.inf))
    names = list(dict.fromkeys(name for by_name in times.values() for name in by_name))
    body = []
    for batch, by_name in times.items():
        base = by_name.get("one row, SDPA")
        cells = []
        for name in names:
            cell = f"{by_name[name]:.3g} ms" if name in by_name else ""
            if cell and base:
                cell += f", {by_name[name] / base:.2f}"
            cells.append(cell)
        body.append((*batch, *cells))
    head = ("sequences", "n", "lengths", *names)
    return body and _table(head, body, right=(0, 1, *range(3, len(head))))


def _timing(record):
    own = record.get("timing")
    names = {
        "first_call": "the first call of all",
        "without_waiting": "a clock, without waiting for the device",
        "with_waiting": "a clock, waiting for it",
        "events": "events on the device, many calls",
        "events_zeros": "the same, of zeros",
    }
    return own and _table(
        (own["what"], "ms"), [(said, own[name]) for name, said in names.items()], right=(1,)
    )


def _window(record):
    rows = [
        (row["window"] or "all before", row["direction"], _cell(row))
        for row in record.get("window", ())
    ]
    return rows and _table(("flex attention, window", "direction", "measured"), rows, right=(2,))


def _check(record):
    own = record.get("check")
    rows = [(kind, error) for kind, error in (own or {}).items() if kind != "wrong"]
    return rows and _table(("largest distance from float64", "of all cases"), rows, right=(1,))


def _course(record):
    rows = []
    for file, own in (record.get("tests") or {}).items():
        said = (
            f"{own['passed']} passed, {len(own['failed'])} failed, {len(own['skipped'])} left out"
        )
        rows.append((f"`{file}`", said))
    for name, own in (record.get("exercise") or {}).items():
        said = (
            f"{own['points']:g} of {own['of']:g} points, {own['waiting']:g} waiting, "
            f"{own['checks']} checks"
        )
        rows.append((f"exercise 11, solved: `{name}`", said))
    graded = record.get("pending") or {}
    for name, own in graded.get("after", {}).items():
        before = graded["before"][name]
        first = f"{before['points']:g} of {before['of']:g} and {before['waiting']:g} waiting"
        said = f"{first}, then {own['points']:g} and {own['waiting']:g} waiting"
        rows.append((f"graded without a GPU, then `--pending`: {name}", said))
    return rows and _table(("on this device", "found"), rows)


def kernels_of(record):
    """Return the rows of a trace that are kernels: what the CPU did has rows as well."""
    return [row for row in record.get("trace", ()) if "kernel" in row]


def _trace(record):
    """Sum the microseconds of each kernel in a step of the layer; what takes the most comes
    first.
    """
    found = {}
    for row in kernels_of(record):
        kernels = found.setdefault((row["implementation"], row["n"]), {})
        kernels.setdefault(row["kernel"], []).append(row["us"])
    rows = []
    for (name, n), kernels in found.items():
        whole = sum(map(sum, kernels.values())) or 1
        for kernel, times in sorted(kernels.items(), key=lambda item: -sum(item[1]))[:8]:
            said = kernel.replace("|", "/")[:60]
            took = (len(times), f"{sum(times):.0f}", f"{sum(times) / whole:.0%}")
            rows.append((f"{name}, n = {n}", f"`{said}`", *took))
    return rows and _table(("a step of", "kernel", "calls", "µs", "share"), rows, right=(2, 3, 4))


def _by_n(rows, direction):
    found = {}
    for row in rows:
        if row["direction"] == direction and row["milliseconds"]:
            found.setdefault(row["n"], {})[row["implementation"]] = row["milliseconds"]
    return found


def _table(head, rows, right=()):
    """Return a Markdown table; the columns whose numbers stand in `right` are aligned to the
    right.
    """
    marks = ["---:" if number in right else "---" for number in range(len(head))]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, marks, *rows))


TABLES = {
    "Goals": _goals,
    "Ceilings": _ceilings,
    "Right, compared with float64": _check,
    "The course on this device": _course,
    "Attention": _attention,
    "The layer": _layer,
    "The leaderboard's configuration": _leaderboard,
    "A step in the profiler": _trace,
    "Accuracy": _accuracy,
    "Memory over n, as an exponent": _memory,
    "A recurrent layer beside attention": _recurrent,
    "Windows": _window,
    "Ways to time": _timing,
    "Block sizes": _tuning,
    "Steps towards faster kernels": _variants,
    "Decoding over pages": _paged,
}

"""Show what was measured on a GPU as Markdown tables: for `gpu.py --table`, and for the book.

A record may lack parts, and rows within a part: what was not measured is said to be so, and never filled in.
"""

NOT_YET = "not yet measured"
ORDER = ("kernel", "cudnn", "flash", "efficient", "math", "naive", "flex")
FORWARD, BACKWARD, BOTH = "forward", "backward", "forward+backward"


def everything(record):
    """Return all tables, each under its heading; of a part that was not measured, the heading and that it was not."""
    parts = []
    for title, make in TABLES.items():
        parts += [f"## {title}", make(record) or f"*{NOT_YET.capitalize()}.*"]
    return "\n\n".join([*parts, machine(record)]) + "\n"


def machine(record):
    """Return one line: what this was measured on, with which versions, and when."""
    about = record["machine"]
    versions = [f"{name} {about[name]}" for name in ("driver", "cuda", "torch", "triton") if about.get(name)]
    return f"{about['device']}; {', '.join(versions)}. {about['date']}."


def goals(record):
    """Return the goals: [(what, what was reached or None, what is asked at least)]."""
    found = []
    for direction, goal in ((FORWARD, 0.6), (BACKWARD, 0.5)):
        ratios = []
        for case in _cases(record, direction):
            best = min((ms for name, ms in case.items() if name not in ("kernel", "naive")), default=None)
            if best and case.get("kernel"):
                ratios.append(best / case["kernel"])
        what = f"speed of the kernel over the fastest of PyTorch's, {direction}, bfloat16, from n = 4096: at worst"
        found.append((what, min(ratios, default=None), goal))
    layers = _by_n(record.get("layer", ()), BOTH)
    with_weights = [own["nn.MultiheadAttention with weights"] / own["layer"] for own in layers.values()
                    if own.get("layer") and own.get("nn.MultiheadAttention with weights")]  # fmt: skip
    found.append(("speed of the layer over nn.MultiheadAttention with weights, a step: at best",
                  max(with_weights, default=None), 3))  # fmt: skip
    parts = _beside_its_parts(record)
    found.append(("time of projections and the fastest attention over that of the layer, from n = 4096: at worst",
                  min(parts, default=None), 0.9))  # fmt: skip
    return found


def _beside_its_parts(record):
    layers, ratios = _by_n(record.get("layer", ()), BOTH), []
    for n, own in layers.items():
        width = next(row["d_model"] // row["heads"] for row in record["layer"])
        same = {"n": n, "d_head": width, "causal": True, "dtype": "bfloat16", "direction": BOTH}
        attention = [row["milliseconds"] for row in record.get("attention", ()) if _fits(row, same)]
        best = min(filter(None, attention), default=None)
        if n >= 4096 and best and own.get("layer") and own.get("projections"):
            ratios.append((own["projections"] + best) / own["layer"])
    return ratios


def _cases(record, direction):
    cases = {}
    for row in record.get("attention", ()):
        if row["direction"] == direction and row["dtype"] == "bfloat16" and row["n"] >= 4096 and row["milliseconds"]:
            case = cases.setdefault((row["n"], row["d_head"], row["causal"]), {})
            case[row["implementation"]] = row["milliseconds"]
    return cases.values()


def _goals(record):
    rows = []
    for what, reached, goal in goals(record):
        rows.append((what, NOT_YET if reached is None else f"{reached:.2f}", f"{goal:.2f}"))
    return _table(("goal", "reached", "asked"), rows, right=(1, 2))


def _ceilings(record):
    own = record.get("ceilings")
    if not own:
        return None
    rows = [("copying, bytes read and bytes written", f"{own['copy_gb_s']:.0f} GB/s")]
    rows += [
        (f"product of matrices, {name}", f"{value:.0f} TFLOP/s") for name, value in own["matmul_tflop_s"].items()
    ]
    return _table(("ceiling", "measured"), rows, right=(1,))


def _attention(record):
    """A table for each width, causality, dtype and direction: milliseconds (TFLOP/s) over the length."""
    groups = {}
    for row in record.get("attention", ()):
        key = (row["d_head"], row["causal"], row["dtype"], row["direction"])
        groups.setdefault(key, []).append(row)
    found = []
    for (width, causal, dtype, direction), rows in groups.items():
        title = f"{direction}, {'causal' if causal else 'not causal'}, {rows[0]['heads']} heads of {width}, {dtype}"
        found.append(
            _over_n(rows, title, [name for name in ORDER if any(row["implementation"] == name for row in rows)])
        )
    return "\n\n".join(found)


def _layer(record):
    found = []
    for direction in (FORWARD, BOTH):
        rows = [row for row in record.get("layer", ()) if row["direction"] == direction]
        if rows:
            title = f"{direction}, causal, d_model = {rows[0]['d_model']}, {rows[0]['heads']} heads, bfloat16"
            found.append(_over_n(rows, title, dict.fromkeys(row["implementation"] for row in rows)))
    return "\n\n".join(found)


def _recurrent(record):
    found = []
    for direction in (FORWARD, BOTH):
        rows = [row for row in record.get("rnn", ()) if row["direction"] == direction]
        if rows:
            title = f"{direction}, d_model = {rows[0]['d_model']}, bfloat16"
            found.append(_over_n(rows, title, dict.fromkeys(row["implementation"] for row in rows)))
    return "\n\n".join(found)


def _over_n(rows, title, names):
    names = list(names)
    cells = {(row["n"], row["implementation"]): _cell(row) for row in rows}
    lengths = sorted({row["n"] for row in rows})
    body = [(n, *(cells.get((n, name), "") for name in names)) for n in lengths]
    return _table((f"n; {title}", *names), body, right=range(len(names) + 1))


def _cell(row):
    if row["milliseconds"] is None:
        return row.get("why", "")
    said = f"{row['milliseconds']:.3g} ms"
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
    rows = [(row["implementation"], _cell(row)) for row in own["rows"]] or [("all of ours", NOT_YET)]
    rows += [("naive, as cited", f"{cited['naive']:.1f} ms"), ("the best, as cited", f"{cited['best']:.1f} ms")]
    head = f"batch {own['batch']}, {own['heads']} heads of {own['d_head']}, n = {own['n']}, {own['dtype']}, causal"
    return _table((head, "forward and backward"), rows, right=(1,)) + f"\n\nCited: {cited['where']}."


def _accuracy(record):
    cells, names = {}, {}
    for row in record.get("accuracy", ()):
        names[row["implementation"]] = True
        cells[(row["dtype"], row["causal"], row["quantity"]), row["implementation"]] = f"{row['error']:.1e}"
    keys = dict.fromkeys(key for key, _ in cells)
    body = [
        (dtype, "yes" if causal else "no", what, *(cells.get(((dtype, causal, what), name), "") for name in names))
        for dtype, causal, what in keys
    ]
    return body and _table(("dtype", "causal", "of", *names), body, right=range(3, 3 + len(names)))


def _memory(record):
    rows = []
    for part, own in record.get("memory_exponent", {}).items():
        for name, directions in own.items():
            said = [f"{directions[each]['exponent']:.2f}" if each in directions else "" for each in (FORWARD, BOTH)]
            rows.append((part, name, *said))
    return rows and _table(("part", "implementation", FORWARD, BOTH), rows, right=(2, 3))


def _tuning(record):
    rows = []
    for row in record.get("tuning", ()):
        blocks = f"{row['queries']} x {row['keys']}"
        speed = (f"{row['milliseconds']:.3f} ms", f"{row['tflop_s']:.0f} TFLOP/s")
        rows.append(
            (row["kernel"], row["dtype"], row["d_head"], row["n"], blocks, row["warps"], row["stages"], *speed)
        )
    head = ("kernel", "dtype", "d_head", "n", "queries x keys", "warps", "stages", "median", "rate")
    return rows and _table(head, rows, right=range(2, len(head)))


def _timing(record):
    own = record.get("timing")
    names = {
        "first_call": "the first call of all",
        "without_waiting": "a clock, without waiting for the device",
        "with_waiting": "a clock, waiting for it",
        "events": "events on the device, many calls",
        "events_zeros": "the same, of zeros",
    }
    return own and _table((own["what"], "ms"), [(said, own[name]) for name, said in names.items()], right=(1,))


def _window(record):
    rows = [(row["window"] or "all before", row["direction"], _cell(row)) for row in record.get("window", ())]
    return rows and _table(("flex attention, window", "direction", "measured"), rows, right=(2,))


def _check(record):
    own = record.get("check")
    return own and _table(("largest distance from float64", "of all cases"), own.items(), right=(1,))


def _by_n(rows, direction):
    found = {}
    for row in rows:
        if row["direction"] == direction and row["milliseconds"]:
            found.setdefault(row["n"], {})[row["implementation"]] = row["milliseconds"]
    return found


def _fits(row, same):
    return all(row[key] == value for key, value in same.items())


def _table(head, rows, right=()):
    """Return a Markdown table; the columns whose numbers stand in `right` are aligned to the right."""
    marks = ["---:" if number in right else "---" for number in range(len(head))]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, marks, *rows))


TABLES = {
    "Goals": _goals,
    "Ceilings": _ceilings,
    "Right, compared with float64": _check,
    "Attention": _attention,
    "The layer": _layer,
    "The leaderboard's configuration": _leaderboard,
    "Accuracy": _accuracy,
    "Memory over n, as an exponent": _memory,
    "A recurrent layer beside attention": _recurrent,
    "Windows": _window,
    "Ways to time": _timing,
    "Block sizes": _tuning,
}

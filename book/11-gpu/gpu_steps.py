"""The steps of `benchmarks/variants.py` as a page shows them: a table, and what sentences say of
it.
"""

from figures import gpu_record
from figures.gpu import duration, tables

KERNELS = {"forward": "forward", "queries": "*queries*: $d\\Q$", "keys": "*keys*: $d\\K$, $d\\V$"}
BOTH = "queries, keys"
STEPS = ("today", "descriptors", "longest first", "persistent", "one pass")
NAMES = (
    "both_shorter",
    "few_forward_64",
    "few_forward_128",
    "many_forward",
    "many_keys",
    "one_pass",
)


def times(record):
    """Return the milliseconds of each step with its fastest blocks: {(kernel, d_head, n): {step:
    milliseconds}}.

    `BOTH` is the sum of the two backward kernels, or the kernel that does it in one pass.
    """
    cells = {}
    for row in record.get("variants", ()):
        step, name = (
            row["step"].partition(",")[0],
            BOTH if row["kernel"] == "backward" else row["kernel"],
        )
        cell = cells.setdefault((name, row["d_head"], row["n"]), {})
        cell[step] = min(row["milliseconds"], cell.get(step, float("inf")))
    for (name, width, n), cell in cells.items():
        if name == BOTH:
            two = [cells.get((kernel, width, n), {}) for kernel in ("queries", "keys")]
            cell |= {
                step: sum(own[step] for own in two)
                for step in STEPS
                if all(step in own for own in two)
            }
    return cells


def table(record):
    """Return the table as Markdown; None where nothing was measured."""
    cells = times(record)
    kinds = [
        (name, width, n) for name in (*KERNELS, BOTH) for width in (64, 128) for n in (4096, 16_384)
    ]
    lines = [
        [
            KERNELS.get(name, name),
            width,
            f"{n:,}",
            *(_cell(cells[name, width, n].get(step)) for step in STEPS),
        ]
        for name, width, n in kinds
        if (name, width, n) in cells
    ]
    return (
        gpu_record.Markdown(gpu_record.table(["", "$d_\\text{head}$", "$n$", *STEPS], lines))
        if lines
        else None
    )


def _cell(milliseconds):
    return "" if milliseconds is None else f"{milliseconds:#.3g}"


def measurements(record):
    """Return what sentences say: the share of today's time that a step takes, by the names of
    `NAMES`.
    """
    cells = times(record)

    def share(step, name, width, n, base="today"):
        cell = cells.get((name, width, n), {})
        return f"{cell[step] / cell[base]:.0%}" if {step, base} <= cell.keys() else tables().NOT_YET

    first = "longest first"
    return {
        "card": record["machine"]["device"] if cells else tables().NOT_YET,
        "few_forward_64": share(first, "forward", 64, 4096),
        "few_forward_128": share(first, "forward", 128, 4096),
        "many_forward": share(first, "forward", 64, 16_384),
        "many_keys": share("descriptors", "keys", 128, 16_384),
        "both_shorter": share(first, BOTH, 64, 4096),
        "one_pass": share("one pass", BOTH, 64, 16_384, base=first),
    }


def again(record):
    """Return what sentences say of the second time, causal and forward with heads of 64: a step's
    milliseconds.

    By the step and the length: "today", of the kernel as it then was; "descriptors"; "gluon".
    """
    texts = {}
    for step, n in (
        (step, n) for step in ("today", "descriptors", "gluon") for n in (4096, 16_384)
    ):
        same = {"kernel": "forward", "step": step, "causal": True, "d_head": 64, "n": n}
        rows = [
            row
            for row in record.get("variants", ())
            if all(row.get(key) == value for key, value in same.items())
        ]
        best = min(rows, key=lambda row: row["milliseconds"], default=None)
        texts[f"{step}_{n}"] = duration(best, 3 if n == 4096 else 2) if best else tables().NOT_YET
    return texts

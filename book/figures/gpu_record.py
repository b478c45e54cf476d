"""What was recorded of attention on a GPU.

Pages ask here alone, so that nothing stands where nothing was measured.

`benchmarks/gpu.py` writes the record. Each function gives nothing (an empty dict, None, "") for
what is not in it: a page leaves out the row, the sentence or the plot, and one box on it says what
a GPU will add (`awaits`).
"""

import json
from pathlib import Path

from IPython.display import Markdown

COMMAND = "python benchmarks/gpu.py all --budget 540"
"""What measures all of it on a GPU."""
TITLE = "What a GPU will add"
BOX = (
    "On a machine with a GPU, `{command}` measures {parts}, and records the results. This page "
    "shows them when it is built again."
)


def read(path):
    """Return what was recorded on a GPU; an empty dict where nothing was.

    Parameters
    ----------
    path : str
        Relative to the folder of the pages. (A page names it, so that it is run again when the
        record is another.)
    """
    file = Path(__file__).resolve().parent.parent / path
    return json.loads(file.read_text(encoding="utf8")) if file.exists() else {}


def card(record, dtypes=("float32", "bfloat16")):
    """Return a recorded GPU as `complexity.here` returns this machine; None where its ceilings
    were not recorded.
    """
    machine, ceilings = record.get("machine"), record.get("ceilings")
    if not (machine and ceilings):
        return None
    return {
        "name": machine["device"],
        "what": f"PyTorch {str(machine['torch']).partition('+')[0]}, {machine['date']}",
        "speed": {name: 1e12 * ceilings["matmul_tflop_s"][name] for name in dtypes},
        "bandwidth": 1e9 * ceilings["copy_gb_s"],
        "memory": int(1e9 * machine.get("memory_gb", 0)),
    }


def rows(record, part, **same):
    """Return a part's rows with these values: by implementation, {n: row}, without those that ran
    out of memory.

    An empty dict where nothing like that was measured.
    """
    found = {}
    for row in record.get(part, []):
        if row["milliseconds"] is not None and all(
            row.get(name) == value for name, value in same.items()
        ):
            found.setdefault(row["implementation"], {})[row["n"]] = row
    return found


def costs(record):
    """Return rows over the length, {n: row}: causal attention with `tables`, `fused`, and the four
    `projections`.

    Forward, bfloat16, 2048 wide. An empty dict where one of them was not measured.
    """
    attention = rows(
        record, "attention", direction="forward", causal=True, dtype="bfloat16", d_head=128
    )
    layers = rows(record, "layer", direction="forward")
    found = {
        "tables": attention.get("naive"),
        "fused": attention.get("cudnn"),
        "projections": layers.get("projections"),
    }
    return found if all(found.values()) else {}


def table(head, lines):
    """Return a Markdown table of the lines in which nothing is None; an empty text where there is
    none.

    Parameters
    ----------
    head : list of str
    lines : list of lists
        Words or numbers, None for what was not measured.
    """
    full = [list(map(str, line)) for line in lines if None not in line]
    marks = ["---", *["---:"] * (len(head) - 1)]
    return (
        "\n".join("| " + " | ".join(line) + " |" for line in (list(head), marks, *full))
        if full
        else ""
    )


def awaits(record, parts):
    """Return what a page's box says of the parts that were not measured; an empty text where all
    were.

    Parameters
    ----------
    record : dict
    parts : dict
        What the page calls a part, by the part's name in the record.
    """
    left = [words for name, words in parts.items() if not record.get(name)]
    said = left[0] if len(left) == 1 else f"{', '.join(left[:-1])} and {left[-1]}" if left else ""
    return BOX.format(command=COMMAND, parts=said) if left else ""


def box(record, parts):
    """Return `awaits` as a box of the page; None where all was measured."""
    said = awaits(record, parts)
    return Markdown(f":::{{admonition}} {TITLE}\n:class: note\n\n{said}\n:::") if said else None

"""The figure of chapter 14: six requests on a server with three slots, in static or continuous
batches, and their tokens in the cache, as long rows and as pages.

The figure computes in JavaScript (serving.js), so it answers in a page without a kernel. `computed`
is the same in Python, for the page's sentences and for tests. Everything a reader sees comes from
`TEXT`, so that a translation passes another dictionary.
"""

import functools
import math

import traitlets
from figures.course import of_chapter
from figures.widget import Figure, script, style

SIZES = {
    "slots": 3,
    "page": 4,
    "prompt": 10,
    "prefix": 8,
    "longest": 20,
    "pages": 15,
    "last": 8,
    "most": 8,
}
"""Of the example: slots, places of a page, tokens of each prompt and how many of them are the same
in all, places of a long row, pages of the pool; the last arrival and the most steps that a reader
can choose.
"""
EXAMPLES = [
    {"arrivals": [0, 0, 0, 1, 3, 4], "steps": [8, 3, 2, 6, 2, 4]},
    {"arrivals": [0, 0, 0, 0, 0, 0], "steps": [8, 3, 2, 6, 2, 4]},
    {"arrivals": [0, 0, 0, 0, 0, 0], "steps": [8, 2, 2, 2, 2, 2]},
]
"""Requests to begin with, and others: by which step each arrives, and how many steps it needs."""
STEPS = [
    {"schedule": "static", "prefix": "own", "about": "time", "now": 3},
    {"schedule": "continuous", "prefix": "own", "about": "time", "now": 3},
    {"schedule": "continuous", "prefix": "own", "about": "cache", "now": 6},
    {"schedule": "continuous", "prefix": "shared", "about": "cache", "now": 6},
]
"""What the buttons set, in their order."""


@functools.cache
def chapter():
    """Return what the page's cells with the tag `course-code` define."""
    return of_chapter("14-serving")


def _in_order(arrivals):
    """Return the requests in order of arrival, then of number."""
    return sorted(range(len(arrivals)), key=lambda r: (arrivals[r], r))


def continuous(arrivals, steps, slots):
    """Return (start, slot) of each request; one that waits takes a free slot at once."""
    free, placed = [0] * slots, {}
    for r in _in_order(arrivals):
        start = max(arrivals[r], min(free))
        slot = next(s for s in range(slots) if free[s] <= start)
        free[slot] = start + steps[r]
        placed[r] = start, slot
    return [placed[r] for r in range(len(steps))]


def fixed(arrivals, steps, slots):
    """Return (start, slot) of each request; a batch starts when all of the one before ended."""
    queue, t, placed = _in_order(arrivals), 0, {}
    while queue:
        t = max(t, arrivals[queue[0]])
        batch = [r for r in queue if arrivals[r] <= t][:slots]
        placed.update({r: (t, slot) for slot, r in enumerate(batch)})
        t += max(steps[r] for r in batch)
        queue = [r for r in queue if r not in batch]
    return [placed[r] for r in range(len(steps))]


def _tables(placed, steps, total, shared):
    """Return for each step the page table of each request; empty where it does not run."""
    page, now, tables = SIZES["page"], [[] for _ in steps], []
    for t in range(total):
        runs = [start <= t < start + c for (start, _), c in zip(placed, steps, strict=True)]
        now = [table if on else [] for table, on in zip(now, runs, strict=True)]
        for r in (r for r, on in enumerate(runs) if on):
            while len(now[r]) < math.ceil((SIZES["prompt"] + t - placed[r][0]) / page):
                j = len(now[r])
                known = [table[j] for table in now if len(table) > j]
                if shared and (j + 1) * page <= SIZES["prefix"] and known:
                    now[r].append(known[0])
                else:
                    taken = {p for table in now for p in table}
                    now[r].append(min(set(range(SIZES["pages"])) - taken))
        tables.append([list(table) for table in now])
    return tables


def computed(state):
    """Return all that the figure shows in a state, by name."""
    arrivals, steps, shared = state["arrivals"], state["steps"], state["prefix"] == "shared"
    slots, page, count = SIZES["slots"], SIZES["page"], len(steps)
    placed = (fixed if state["schedule"] == "static" else continuous)(arrivals, steps, slots)
    starts, slot = ([one[k] for one in placed] for k in (0, 1))
    ends = [start + c - 1 for start, c in zip(starts, steps, strict=True)]
    total = max(ends) + 1
    now = min(state["now"], total - 1)
    tables = _tables(placed, steps, total, shared)
    lengths = [
        SIZES["prompt"] + now - start if start <= now <= end else 0
        for start, end in zip(starts, ends, strict=True)
    ]

    def owners(t):
        return [[r for r in range(count) if p in tables[t][r]] for p in range(SIZES["pages"])]

    held, before = owners(now), owners(max(0, now - 1))
    taken, tokens = sum(map(bool, held)), sum(lengths)
    repeated = page * sum(max(0, len(who) - 1) for who in held)
    return {
        "now": now,
        "total": total,
        "ends": ends,
        "starts": starts,
        "slot": slot,
        "idle": slots * total - sum(steps),
        "wait": sum(s - a for s, a in zip(starts, arrivals, strict=True)) / count,
        "end": sum(ends) / count,
        "lengths": lengths,
        "owners": held,
        "tables": tables[now],
        "freed": [p for p in range(SIZES["pages"]) if before[p] and not held[p]],
        "taken": taken,
        "empty_rows": slots * SIZES["longest"] - tokens,
        "empty_pages": taken * page - (tokens - repeated),
        "most": max(len({p for table in step for p in table}) for step in tables),
    }


TEXT = {
    "title": "Three slots, six requests, and the pages of their cache",
    "try": "Step by step",
    "steps": ["Static batches", "Continuous batches", "Pages", "A shared prefix"],
    "requests": "Requests",
    "examples": ["As at first", "All at once", "One long, five short"],
    "readouts": ["idle slot-steps:", "mean wait, in steps:", "mean last step:"],
    "of": "{idle} of {all}",
    "slot": "slot {number}",
    "axis": "step",
    "request": "request",
    "arrives": "arrival",
    "needs": "steps",
    "now": "step shown",
    "request_label": "Request {name} arrives before step {arrives} and runs in slot {slot} from "
    "step {start} to {end}.",
    "rows": "One long row for each slot",
    "rows_note": "{places} places are reserved, {empty} of them empty",
    "pages": "Pages of four places",
    "pages_note": "{taken} of {pages} pages are taken, {empty} places in them empty",
    "freed": "freed",
    "table": "{name}: {table}",
    "say": {
        "time_static": "A batch starts when all of the batch before has ended. Slots wait for the "
        "longest request: {idle} of {all} slot-steps are idle. A request waits {wait} steps on "
        "average, and the last one ends after {total} steps.",
        "time_continuous": "A request that waits takes a slot as soon as one is free. {idle} of "
        "{all} slot-steps are idle. A request waits {wait} steps on average, and the last one "
        "ends after {total} steps.",
        "cache_own": "In step {now}, long rows have {rows} empty places, and pages {pages}. A "
        "request takes a page when it needs one, and its pages are free again in the step after "
        "its last. In all steps, at most {most} pages are taken at once.",
        "cache_shared": "All prompts begin with the same eight tokens. {shared} pages with a "
        "double frame are shared in step {now}, and {taken} pages are taken. In all steps, at "
        "most {most} pages are taken at once.",
    },
}


class ServingFigure(Figure):
    """Requests in the slots of a server, step by step, and where the cache keeps their tokens.

    Args:
        text: texts that replace those in `TEXT`.
    """

    _esm = script("serving")
    _css = style("serving")
    sizes = traitlets.Dict().tag(sync=True)
    steps = traitlets.List().tag(sync=True)
    examples = traitlets.List().tag(sync=True)

    def __init__(self, text=None):
        super().__init__(TEXT, text, sizes=SIZES, steps=STEPS, examples=EXAMPLES)


def demo():
    """Return a figure that is quick to make, for a try in JupyterLab."""
    return ServingFigure()

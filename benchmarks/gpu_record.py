"""The record of what was measured on a GPU: read, put together, and written so that a kill loses
nothing.
"""

import copy
import json

import numpy as np

from autograder.authoring import json_entries

EMPTY = {
    "measured": {},  # the date of each part that is complete
    "unfinished": {},  # the cases that were measured of each part that is not
    "attention": [],
    "layer": [],
    "accuracy": [],
    "memory_exponent": {},
}
PARTS_OF = {
    "kernels": (
        *("check", "tests", "variants", "paged", "attention", "layer"),
        *("leaderboard", "newest", "accuracy", "trace", "tuning"),
    ),
    "layer_code": ("check", "layer", "trace"),
    "steps_code": ("variants",),
    "gluon_code": ("variants",),
    "paged_code": ("paged",),
}
"""The parts in which each measured file runs: if it has changed, their results are dropped."""


class Record:
    """A record in a file: part by part, and each part case by case.

    Parameters
    ----------
    path : Path
        The file; it need not exist.
    machine : dict
        What is measured on now. A record of another machine, or of other versions, starts again.
    digests : dict
        The fingerprint of each file that is measured, by the keys of `PARTS_OF`. Where it is
        another, those parts are dropped.

    Attributes
    ----------
    data : dict
    lost : list of str
        What differs from the record in the file, so that it began anew; empty if it goes on.
    """

    def __init__(self, path, machine, digests):
        self.path, self.lost = path, []
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if found:
            self.lost = [
                key
                for key in machine
                if key != "date" and machine[key] != found["machine"].get(key)
            ]
        if not found or self.lost:
            found = {}
        # The machine comes first in the file.
        self.data = {"machine": {}, **copy.deepcopy(EMPTY), **found}
        self.data["machine"] = machine
        for key, digest in digests.items():
            if self.data.get(key) != digest:
                for part in PARTS_OF[key]:
                    self.drop(part)
                self.data[key] = digest

    def drop(self, part):
        """Forget what was measured of a part."""
        self.data["measured"].pop(part, None)
        self.data["unfinished"].pop(part, None)
        if part in EMPTY:
            self.data[part] = []
        else:
            self.data.pop(part, None)

    def has(self, part):
        """Tell whether all of a part was measured."""
        return part in self.data["measured"]

    def done(self, part):
        """Return the cases of an unfinished part that were measured."""
        return list(self.data["unfinished"].get(part, ()))

    def add(self, part, case, found):
        """Put in the results of one case, and write the file."""
        if not self.done(part):  # the part begins, perhaps again: forget what it had
            self.drop(part)
        self.data[part] = merged(self.data.get(part), found)
        self.data["unfinished"].setdefault(part, []).append(case)
        self.write()

    def finish(self, part):
        """Note that all cases of a part were measured, and write the file."""
        self.data["unfinished"].pop(part, None)
        self.data["measured"][part] = self.data["machine"]["date"]
        self.write()

    def write(self):
        """Write the file at once or not at all: each part is one line."""
        self.data["memory_exponent"] = memory_exponent(self.data)
        json_entries.write(self.path, self.data, levels=1)


def merged(old, new):
    """Return old results with new ones: lists are joined, dicts are merged key by key, and
    anything else is replaced.
    """
    if isinstance(old, list) and isinstance(new, list):
        return old + new
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
    return new


def memory_exponent(data):
    """Fit how memory beyond the inputs grows with the length: 1 is linear, 2 is n x n."""
    found = {}
    narrow = min((row["d_head"] for row in data.get("attention", ())), default=0)
    chosen = [("attention", {"d_head": narrow, "causal": True, "dtype": "bfloat16"}), ("layer", {})]
    for part, same in chosen:
        for (name, direction), points in _peaks(data.get(part, ()), same).items():
            # A line through two points fits always. `backward` alone starts from an existing graph.
            if direction != "backward" and len(points) > 2:
                slope = float(np.polyfit(*np.log(np.array(points, float)).T, 1)[0])
                lengths = [n for n, _peak in points]
                entry = {"exponent": round(slope, 3), "from_n": min(lengths), "to_n": max(lengths)}
                found.setdefault(part, {}).setdefault(name, {})[direction] = entry
    return found


def _peaks(rows, same):
    """Return {(implementation, direction): [(n, bytes at the peak)]} of rows with these values."""
    groups = {}
    for row in rows:
        if row["peak_bytes"] and all(row[key] == value for key, value in same.items()):
            key = (row["implementation"], row["direction"])
            groups.setdefault(key, []).append((row["n"], row["peak_bytes"]))
    return groups

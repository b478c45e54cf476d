"""The masks and scores of chapter 05, and the figure that lets a reader edit a mask and choose how it is computed.

The figure computes in JavaScript (masking.js), so it answers in a page without a kernel. What is here is its data and
its words: everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import numpy as np
import traitlets
from figures.widget import Figure, script, style

TOKENS = ["the", "cat", "chased", "a", "mouse", "."]
PAD = "[pad]"

# Scores of six queries (rows) and six keys, made up: some of the largest belong to keys that come later.
SCORES = np.array(
    [
        [0.4, 1.9, -0.6, 0.2, 1.1, -1.2],
        [1.3, 0.5, 2.1, -0.7, 0.8, -0.4],
        [-0.8, 2.4, 0.3, -1.1, 2.9, 0.1],
        [0.2, -0.5, 0.7, 0.6, 2.2, -0.9],
        [0.6, 1.2, 1.8, 1.4, 0.5, -0.3],
        [-0.2, 0.9, 1.5, -0.6, 1.0, 0.7],
    ]
)  # (6, 6)

# What may be added to the score of a key that is not allowed; None leaves such keys out of the sum, our convention.
FILLS = [None, -np.inf, -1e9, -1e6, -1e4]
FORMATS = ["fp32", "bf16", "fp16"]

_all = np.ones((6, 6), dtype=bool)
_sentence, _padding = ["the", "cat", "slept", "."], [PAD, PAD]
PRESETS = [
    {"name": "all", "queries": TOKENS, "keys": TOKENS, "mask": _all},
    {"name": "causal", "queries": TOKENS, "keys": TOKENS, "mask": np.tril(_all)},
    {"name": "cache", "queries": TOKENS[3:], "keys": TOKENS, "mask": np.tril(_all)[3:]},
    {
        "name": "padding",
        "queries": _sentence + _padding,
        "keys": _sentence + _padding,
        "mask": _all & (np.arange(6) < 4),
    },
    {
        "name": "left",
        "queries": _padding + _sentence,
        "keys": _padding + _sentence,
        "mask": np.tril(_all) & (np.arange(6) >= 2),
    },
]

TEXT = {
    "title": "A mask to edit, and the weights that a machine makes of it",
    "preset": "Start from a mask:",
    "all": "all",
    "causal": "causal",
    "cache": "causal, with a cache",
    "padding": "padding",
    "left": "causal, padded on the left",
    "fill": "What a forbidden score gets:",
    "ours": "left out (ours)",
    "added": "+ ({fill})",
    "format": "Numbers:",
    "scale": "scores times",
    "reset": "Back to the mask chosen above",
    "mask": "The mask",
    "mask_note": "A row is a query, a column a key. Click a cell: ✓ may attend, ✕ may not.",
    "weights": "The weights",
    "weights_note": "Shaded by weight. A bold frame marks weight on a forbidden key. Choose a row to see its steps.",
    "steps": "One row, step by step",
    "steps_note": "The query “{query}”, each number rounded to {format}. exp is taken of the filled score "
    "minus the largest of them.",
    "query": "query",
    "key": "key",
    "score": "score",
    "filled": "filled",
    "power": "exp",
    "weight": "weight",
    "allowed": "may attend",
    "forbidden": "may not",
    "cell": "query {query}, key {key}: {state}",
    "leaks": "leaks",
    "nan": "NaN",
    "empty": "empty",
    "fine": "fine",
    "row": "row",
    "left_out": "left out",
    "leak_word": "leak",
    "summary": "{how} in {format}, scores times {scale}: {verdict}",
    "how_ours": "Forbidden keys left out",
    "how_added": "{fill} added to forbidden scores",
    "all_fine": "no weight on a forbidden key.",
    "some_empty": "nothing leaks. Rows with nothing to attend to: {count}, with weights 0.",
    "some_leak": "rows that put weight on forbidden keys: {count} of {total}. The largest share is {share} %.",
    "some_nan": "rows that are NaN: {count} of {total}.",
}


class MaskingFigure(Figure):
    """Scores, a mask to edit, and the weights as a machine computes them in fp32, bf16 or fp16.

    Args:
        scores: (n, n) numbers.
        presets: dictionaries with `name` (a key of `TEXT`), `queries` (the last n_q of n), `keys` (n names) and
            `mask` (n_q, n), True where the query may attend to the key.
        preset, fill, kind: indices into `presets`, `FILLS` and `FORMATS`, shown first.
        row: index of the row that is shown step by step.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("masking"), style("masking")
    scores = traitlets.List().tag(sync=True)
    presets = traitlets.List().tag(sync=True)
    fills = traitlets.List().tag(sync=True)
    formats = traitlets.List().tag(sync=True)
    preset = traitlets.Int(0).tag(sync=True)
    fill = traitlets.Int(0).tag(sync=True)
    kind = traitlets.Int(0).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)

    def __init__(self, scores=SCORES, presets=PRESETS, preset=4, fill=2, kind=0, row=1, text=None):
        scores = np.asarray(scores, dtype=float)
        n = len(scores)
        if scores.shape != (n, n):
            raise ValueError(f"scores have the shape (n, n), not {scores.shape}")
        shown = []
        for one in presets:
            mask = np.asarray(one["mask"], dtype=bool)
            if len(one["keys"]) != n or len(one["queries"]) > n or mask.shape != (len(one["queries"]), n):
                raise ValueError(
                    f"{len(one['queries'])} queries and {len(one['keys'])} keys want a mask of shape "
                    f"({len(one['queries'])}, {n}), not {mask.shape}"
                )
            shown.append({**one, "mask": mask.tolist()})
        # JSON knows no infinity: it crosses as text
        fills = [None if f is None else str(f) for f in FILLS]
        super().__init__(
            TEXT,
            text,
            scores=scores.tolist(),
            presets=shown,
            fills=fills,
            formats=FORMATS,
            preset=preset,
            fill=fill,
            kind=kind,
            row=row,
        )

"""The figure of chapter 04: the words of chapter 1 in any order and at any place, with and without
a sense of place.

The figure computes in JavaScript (position.js), so it answers in a page without a kernel. What is
here is its data and its words: everything a reader sees comes from `TEXT`, so that a translation
passes another dictionary.
"""

import numpy as np
import traitlets
from figures import qkv
from figures.widget import Figure, script, style

WORDS = qkv.WORDS  # cat, chased, mouse


def _one_more(M, axis):
    """A column (axis 1) or row (axis 0) of zeros more: pairs need an even width."""
    return np.concatenate([M, np.zeros_like(M[:, :1] if axis else M[:1])], axis=axis).astype(float)


# Chapter 1's words and matrices; a fourth number is 0 until a place is written there, and nobody
# reads it.
X = _one_more(qkv.X, 1)  # (3, 4)
W_q, W_k, W_v = (_one_more(W, 0) for W in (qkv.W_q, qkv.W_k, qkv.W_v))  # (4, 2) each

ENCODINGS = ["none", "sinusoidal", "rotary"]
FARTHEST = 20  # the last place that the first word can be moved to
REACH = [-5.0, 7.0]  # the lines of outputs go from here to there

# The things to try, in the order of `TEXT["tries"]`; encoding as in `PositionFigure`.
TRIES = [
    {"order": [2, 1, 0], "encoding": 0, "start": 0},
    {"order": [2, 1, 0], "encoding": 1, "start": 0},
    {"order": [2, 1, 0], "encoding": 2, "start": 0},
    {"order": [0, 1, 2], "encoding": 1, "start": 10},
    {"order": [0, 1, 2], "encoding": 2, "start": 10},
]

TEXT = {
    "title": "Attention over three words, to reorder by hand",
    "try": "In turn",
    "tries": [
        "Swap cat and mouse",
        "Add places",
        "Turn by place",
        "Move along, added",
        "Move along, turned",
    ],
    "choose": "Places",
    "none": "none",
    "sinusoidal": "added",
    "rotary": "turned",
    "start": "first place",
    "start_name": "Place of the first word",
    "reset": "Start again",
    "note": "Drag a word up or down. Its row shows the weights that it gives to all words, itself "
    "included. Rings show “{sentence}” from place 0.",
    "word": "word",
    "weights": "weights",
    "output": "output",
    "change": "change",
    "mean": "mean",
    "handle": "{place} {word}: the arrow keys up and down move it.",
    "move": "Move “{word}”",
    "up": "up",
    "down": "down",
    "compare": "Largest change compared with “{sentence}” from place 0",
    "words": "word by word",
    "places": "place by place",
    "means": "mean",
    "equivariant": "✓ equivariant",
    "invariant": "✓ invariant",
    "same": "✓ the same",
    "not_equivariant": "not equivariant",
    "not_invariant": "not invariant",
    "not_same": "not the same",
    "and": "” and “",
    "one_most": "“{most}” the most, by {change}.",
    "some_most": "“{most}” the most, by {change}.",
    "summary_original": "“{sentence}”, from place 0. Press a button, or move a word.",
    "summary_order_same": "“{sentence}”. Every word keeps its output: outputs move along with "
    "their words.",
    "summary_order_changed": "“{sentence}”. Order matters now. Outputs have changed, {most}",
    "summary_start_same": "“{sentence}”, now at places {first} to {last}. No output has changed.",
    "summary_start_changed": "“{sentence}”, now at places {first} to {last}. The order is the "
    "same, yet outputs have changed, {most}",
}


class PositionFigure(Figure):
    """One layer of attention over n words that a reader reorders and moves along; how places enter
    is a choice.

    Args:
        tokens: n words.
        X: (n, d_model) the words' vectors, d_model even.
        W_q, W_k: (d_model, d_k), d_k even.
        W_v: (d_model, d_v); outputs are shown between `REACH[0]` and `REACH[1]`.
        order: the words' indices in the order shown first; the order of `tokens` is what all is
        compared with. encoding: index into `ENCODINGS` of the choice shown first. start: the place
        of the first word, from 0 to `FARTHEST`. tries: states that a button sets, each with
        `order`, `encoding` and `start`; named by `text["tries"]`. text: the words of the figure, by
        the keys of `TEXT`.
    """

    _esm, _css = script("position"), style("position")
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    X = traitlets.List().tag(sync=True)
    W_q = traitlets.List().tag(sync=True)
    W_k = traitlets.List().tag(sync=True)
    W_v = traitlets.List().tag(sync=True)
    order = traitlets.List(traitlets.Int()).tag(sync=True)
    encoding = traitlets.Int(0).tag(sync=True)
    start = traitlets.Int(0).tag(sync=True)
    farthest = traitlets.Int(FARTHEST).tag(sync=True)
    reach = traitlets.List(REACH).tag(sync=True)
    tries = traitlets.List().tag(sync=True)

    def __init__(
        self, tokens, X, W_q, W_k, W_v, order=None, encoding=0, start=0, tries=TRIES, text=None
    ):
        n = len(tokens)
        order = list(range(n)) if order is None else [int(i) for i in order]
        X, W_q, W_k, W_v = (np.asarray(M, dtype=float) for M in (X, W_q, W_k, W_v))
        d_model, d_k = W_q.shape
        shapes = X.shape, W_k.shape, W_v.shape[:1]
        if shapes != ((n, d_model), (d_model, d_k), (d_model,)) or d_model % 2 or d_k % 2:
            raise ValueError(
                f"{n} tokens need X ({n}, d_model), W_q and W_k (d_model, d_k) with d_model and "
                f"d_k even, and W_v (d_model, d_v), not {X.shape}, {W_q.shape}, {W_k.shape} and "
                f"{W_v.shape}"
            )
        for words in [order, *(state["order"] for state in tries)]:
            if sorted(words) != list(range(n)):
                raise ValueError(
                    f"an order of {n} words must be a permutation of 0 to {n - 1}, not {words}"
                )
        super().__init__(
            TEXT,
            text,
            tokens=list(tokens),
            X=X.tolist(),
            W_q=W_q.tolist(),
            W_k=W_k.tolist(),
            W_v=W_v.tolist(),
            order=order,
            encoding=encoding,
            start=start,
            tries=list(tries),
        )


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return PositionFigure(WORDS, X, W_q, W_k, W_v, encoding=1, start=10)

"""The figure of chapter 04: five words in any order through attention, with and without a sense of place.

The figure computes in JavaScript (position.js), so it answers in a page without a kernel. What is here is its data
and its words: everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import numpy as np
import traitlets
from figures.widget import Figure, script, style

TOKENS = ["the", "cat", "chased", "a", "mouse"]

# One row a word: numbers without a meaning, chosen so that the outputs are easy to tell apart, in any order.
X = np.array(
    [
        [-0.7, 0.1, -0.8, -1.4],
        [2.0, 1.5, -1.5, 0.5],
        [-1.7, 1.2, 0.1, 1.9],
        [0.4, 1.3, 1.3, 1.1],
        [0.0, 1.4, 1.8, 0.3],
    ]
)  # (5, 4)
W_q = np.array([[0.6, 1.3], [-0.5, -0.2], [0.4, -0.4], [0.0, 0.8]])  # (4, 2)
W_k = np.array([[1.9, -0.2], [-0.3, -0.8], [0.0, 1.3], [0.6, -0.4]])  # (4, 2)
W_v = np.array([[0.5, 0.3], [0.1, -0.3], [0.6, -0.5], [-0.1, 0.6]])  # (4, 2)

ENCODINGS = ["none", "sinusoidal", "rotary"]
REACH = 1.6  # the plane of outputs goes from -REACH to REACH

TEXT = {
    "title": "Attention over five words, to reorder by hand",
    "choose": "How does attention know about places?",
    "none": "it doesn’t",
    "sinusoidal": "added (sinusoidal)",
    "rotary": "turned (rotary)",
    "strength": "strength",
    "reset": "Back to “{sentence}”",
    "order": "Reorder the words",
    "order_note": "Drag a word up or down. Each row: how a word weighs all the others.",
    "place": "place",
    "word": "word",
    "change": "change",
    "change_long": "change of the output",
    "handle": "{word}, at place {place} of {n}. The arrow keys up and down move it.",
    "move": "Move “{word}”",
    "up": "up",
    "down": "down",
    "watch": "Watch the outputs",
    "watch_note": "Rings: outputs in the old order. Dots: now. Diamond: the mean of all five.",
    "picture": "Plane of outputs. Each word has a ring, its output in the old order, and a dot, its output now: "
    "{outputs}.",
    "at": "{word} from {before} to {now}",
    "compare": "compared with the old order",
    "largest": "largest change",
    "words": "word with word",
    "places": "place with place",
    "mean": "mean with mean",
    "equivariant": "✓ equivariant",
    "invariant": "✓ invariant",
    "not_equivariant": "not equivariant",
    "not_invariant": "not invariant",
    "summary_same": "“{sentence}”. Every word has the output it had: outputs move along with the words.",
    "summary_changed": "“{sentence}”. “{word}” changes most, by {change}: order matters now.",
    "summary_original": "“{sentence}”: this is the old order. Move a word.",
}


class PositionFigure(Figure):
    """One layer of attention over n words that a reader reorders; how places enter is a choice.

    Args:
        tokens: n words.
        X: (n, d_model) the words' vectors, d_model even.
        W_q, W_k: (d_model, d_k), d_k even.
        W_v: (d_model, 2), so that outputs are points of a plane, shown between -REACH and REACH.
        order: the words' indices in the order shown first; the order of `tokens` is what all is compared with.
        encoding: index into `ENCODINGS` of the choice shown first.
        strength: from 0 to 1; what a sinusoidal encoding, or the angle of a turn, is multiplied by.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("position"), style("position")
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    X = traitlets.List().tag(sync=True)
    W_q = traitlets.List().tag(sync=True)
    W_k = traitlets.List().tag(sync=True)
    W_v = traitlets.List().tag(sync=True)
    order = traitlets.List(traitlets.Int()).tag(sync=True)
    encoding = traitlets.Int(0).tag(sync=True)
    strength = traitlets.Float(1.0).tag(sync=True)
    reach = traitlets.Float(REACH).tag(sync=True)

    def __init__(self, tokens, X, W_q, W_k, W_v, order=None, encoding=0, strength=1.0, text=None):
        n = len(tokens)
        order = list(range(n)) if order is None else [int(i) for i in order]
        X, W_q, W_k, W_v = (np.asarray(M, dtype=float) for M in (X, W_q, W_k, W_v))
        d_model, d_k = W_q.shape
        shapes = X.shape, W_k.shape, W_v.shape
        if shapes != ((n, d_model), (d_model, d_k), (d_model, 2)) or d_model % 2 or d_k % 2:
            raise ValueError(
                f"{n} tokens want X ({n}, d_model), W_q and W_k (d_model, d_k) with d_model and d_k even, and W_v "
                f"(d_model, 2), not {X.shape}, {W_q.shape}, {W_k.shape} and {W_v.shape}"
            )
        if sorted(order) != list(range(n)):
            raise ValueError(f"an order of {n} words is a permutation of 0 to {n - 1}, not {order}")
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
            strength=strength,
        )

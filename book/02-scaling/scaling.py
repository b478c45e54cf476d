"""The draws of chapter 02, and the figure that shows what a divisor does to scores, weights and
gradients.

The figure computes in JavaScript (scaling.js), so it answers in a page without a kernel. What is
here is its data and its words: everything a reader sees comes from `TEXT`, so that a translation
passes another dictionary.
"""

import base64

import numpy as np
import traitlets
from figures.widget import Figure, script, style

# entries are whole multiples of 1/16, one byte each, so that page and Python have the same numbers
STEP = 16

# The lengths that the slider stops at, each about 4/3 or 3/2 of the one before.
STOPS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]

_rng = np.random.default_rng(2)
Q = np.round(STEP * _rng.normal(size=(96, STOPS[-1]))) / STEP  # (96, 512) queries
K = np.round(STEP * _rng.normal(size=(16, STOPS[-1]))) / STEP  # (16, 512) keys

# The things to try, in the order of `TEXT["tries"]`; divisor as in `ScalingFigure`.
TRIES = [
    {"d_k": 4, "size": 1.0, "divisor": 0},
    {"d_k": 64, "size": 1.0, "divisor": 0},
    {"d_k": 64, "size": 1.0, "divisor": 1},
    {"d_k": 64, "size": 1.0, "divisor": 2},
    {"d_k": 64, "size": 3.0, "divisor": 1},
]

TEXT = {
    "title": "Scores, weights and gradients as the vectors grow longer",
    "try": "In turn",
    "tries": ["Short vectors", "Long vectors", "Divide by √d_k", "Divide by d_k", "Larger entries"],
    "divide": "Divide the scores by",
    "divisors": ["1", "√d_k", "d_k"],
    "marks": ["1", "√d_k", "d_k"],
    "length": "d_k",
    "size": "σ",
    "length_name": "d_k, the length of queries and keys",
    "size_name": "sigma, the spread of their entries",
    "scores": "{pairs} scores",
    "measured": "spread",
    "predicted": "predicted",
    "score": "score (end bars: all beyond)",
    "score_near": "score, enlarged {times} times",
    "weights": "Weights of query {query}",
    "key": "key (dashed: an even share)",
    "largest": "largest",
    "entropy": "entropy",
    "gradients": "Gradient, by d_k",
    "slope": "the median query’s",
    "another": "Another query",
    "scores_picture": "Histogram of all scores. Their spread is {measured}; the prediction is "
    "{predicted}.",
    "weights_picture": "Bars, one for each key: {weights}.",
    "gradients_picture": "Size of softmax’s gradient for the median query against d_k, a line for "
    "each divisor. At {d_k}: {gradients}.",
    "value": "divided by {mark} {value}",
    "one_best": "Query {query} gives its best key {percent} of the weight.",
    "nearly_all": "over 99%",
    "all_alike": "Query {query} gives all keys the same weight.",
    "closed": "The gaps are wide: in most rows, one key takes most of the weight, and the median "
    "query’s gradient is down to {gradient}.",
    "open": "The gaps are moderate: better keys get more, all keys get some, and the median "
    "query’s gradient is {gradient}.",
    "even": "The gaps are narrow: every key gets about the same weight, whatever the query asks "
    "for.",
    "summary": "Vectors of length {d_k} with σ = {size}, scores divided by {divisor}: their "
    "spread is {measured}. {best} {verdict}",
}


class ScalingFigure(Figure):
    """Scores of some queries with some keys, by length, by the spread of the entries and by what
    divides them.

    Args:
        Q, K: (m, d) and (n, d) entries, multiples of 1/STEP of at most 127/STEP.
        stops: the lengths d_k to choose from, rising, the last at most d.
        d_k: the length shown first, one of `stops`.
        size: the spread sigma of the entries shown first: entries are multiplied by it.
        divisor: what divides the scores at first: 0 for nothing, 1 for sqrt(d_k), 2 for d_k.
        chosen: index of the query whose weights are shown first.
        tries: states that a button sets, each with `d_k`, `size` and `divisor`; named by
        `text["tries"]`. text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("scaling"), style("scaling")
    # the bytes of Q over K, in base64: a third of what numbers take
    rows = traitlets.Unicode().tag(sync=True)
    shape = traitlets.List(traitlets.Int()).tag(sync=True)  # m, n, d
    step = traitlets.Int(STEP).tag(sync=True)
    stops = traitlets.List(traitlets.Int()).tag(sync=True)
    d_k = traitlets.Int().tag(sync=True)
    size = traitlets.Float().tag(sync=True)
    divisor = traitlets.Int().tag(sync=True)
    chosen = traitlets.Int().tag(sync=True)
    tries = traitlets.List().tag(sync=True)

    def __init__(
        self, Q, K, stops=STOPS, d_k=64, size=1.0, divisor=0, chosen=0, tries=TRIES, text=None
    ):
        Q, K = np.asarray(Q, dtype=float), np.asarray(K, dtype=float)
        if Q.ndim != 2 or K.ndim != 2 or Q.shape[1] != K.shape[1]:
            raise ValueError(
                f"Q (m, d) and K (n, d) need the same d, not shapes {Q.shape} and {K.shape}"
            )
        if max(stops) > Q.shape[1] or d_k not in stops:
            raise ValueError(f"stops {stops} must be {Q.shape[1]} at most and contain d_k = {d_k}")
        whole = np.round(STEP * np.vstack([Q, K]))
        if abs(whole).max() > 127 or (whole / STEP != np.vstack([Q, K])).any():
            raise ValueError(f"entries must be multiples of 1/{STEP} of at most {127 / STEP}")
        super().__init__(
            TEXT,
            text,
            rows=base64.b64encode(whole.astype(np.int8).tobytes()).decode(),
            shape=[len(Q), len(K), Q.shape[1]],
            stops=list(stops),
            d_k=d_k,
            size=size,
            divisor=divisor,
            chosen=chosen,
            tries=[state for state in tries if state["d_k"] in stops],
        )


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return ScalingFigure(Q, K)

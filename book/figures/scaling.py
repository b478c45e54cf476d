"""The draws of chapter 02, and the figure that shows what a divisor does to scores, weights and gradients.

The figure computes in JavaScript (scaling.js), so it answers in a page without a kernel. What is here is its data and
its words: everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import base64

import numpy as np
import traitlets
from figures.widget import Figure, script, style

STEP = 32  # entries are whole multiples of 1/32, one byte each, so that page and Python have the same numbers

# The lengths that the slider stops at, each about 4/3 or 3/2 of the one before.
STOPS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]


def draws(rows, d, rng):
    """(rows, d) standard normal entries, rounded to multiples of 1/STEP and cut at what fits into a byte."""
    return np.clip(np.round(STEP * rng.normal(size=(rows, d))), -127, 127) / STEP


_rng = np.random.default_rng(2)
Q = draws(96, STOPS[-1], _rng)  # (96, 512) queries
K = draws(16, STOPS[-1], _rng)  # (16, 512) keys

TEXT = {
    "title": "Scores, weights and gradients as the vectors grow longer",
    "divide": "Divide the scores by",
    "divisors": ["1 (not at all)", "√d_k", "d_k"],
    "marks": ["1", "√d_k", "d_k"],
    "length": "d_k",
    "size": "σ",
    "length_name": "d_k, the length of queries and keys",
    "size_name": "sigma, the spread of their entries",
    "scores": "Scores",
    "scores_note": "All {pairs} scores of {queries} queries with {keys} keys. Line: what the proof predicts. "
    "Ticks below: the query of panel 2.",
    "measured": "spread, measured",
    "predicted": "spread, σ² √d_k / divisor",
    "score": "score (the end bars hold all beyond)",
    "weights": "Weights",
    "weights_note": "One query’s weights. Dashed: an even share.",
    "key": "key",
    "largest": "largest weight",
    "entropy": "entropy (even: {most})",
    "gradient": "size of softmax’s gradient",
    "another": "Another query",
    "query": "query {number} of {queries}",
    "lengths": "At every length",
    "lengths_note": "The same with all three divisors; the thick line is the chosen one. Ring: where you are.",
    "mean_entropy": "mean entropy",
    "median_gradient": "gradient, the median query’s",
    "scores_picture": "Histogram of all scores. Their spread is {measured}, the proof predicts {predicted}. "
    "{beyond} percent lie beyond 30.",
    "weights_picture": "Bars, one a key. Weights in percent: {weights}.",
    "entropy_picture": "Mean entropy against d_k, three lines. At {d_k}: {values}. An even row has {most}.",
    "gradient_picture": "Gradient of softmax for the median query against d_k, three lines. At {d_k}: {values}.",
    "value": "divided by {mark} {value}",
    "summary": "Vectors of length {d_k} with σ = {size}: divided by {divisor}, the scores spread by {measured}. This "
    "query gives its best key {percent} % of the weight. The median query’s gradient is {gradient}.",
}


class ScalingFigure(Figure):
    """Scores of some queries with some keys, by length, by the spread of the entries and by what divides them.

    Args:
        Q, K: (m, d) and (n, d) entries, multiples of 1/STEP of at most 127/STEP, such as `draws` gives.
        stops: the lengths d_k to choose from, rising, the last at most d.
        d_k: the length shown first, one of `stops`.
        size: the spread sigma of the entries shown first: entries are multiplied by it.
        divisor: what divides the scores at first: 0 for nothing, 1 for sqrt(d_k), 2 for d_k.
        chosen: index of the query whose weights are shown first.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("scaling"), style("scaling")
    rows = traitlets.Unicode().tag(sync=True)  # the bytes of Q over K, in base64: a third of what numbers take
    shape = traitlets.List(traitlets.Int()).tag(sync=True)  # m, n, d
    step = traitlets.Int(STEP).tag(sync=True)
    stops = traitlets.List(traitlets.Int()).tag(sync=True)
    d_k = traitlets.Int().tag(sync=True)
    size = traitlets.Float().tag(sync=True)
    divisor = traitlets.Int().tag(sync=True)
    chosen = traitlets.Int().tag(sync=True)

    def __init__(self, Q, K, stops=STOPS, d_k=64, size=1.0, divisor=0, chosen=0, text=None):
        Q, K = np.asarray(Q, dtype=float), np.asarray(K, dtype=float)
        if Q.ndim != 2 or K.ndim != 2 or Q.shape[1] != K.shape[1]:
            raise ValueError(f"Q (m, d) and K (n, d) have the same d, not shapes {Q.shape} and {K.shape}")
        if max(stops) > Q.shape[1] or d_k not in stops:
            raise ValueError(f"stops {stops} end at {Q.shape[1]} at most and hold d_k = {d_k}")
        whole = np.round(STEP * np.vstack([Q, K]))
        if abs(whole).max() > 127 or (whole / STEP != np.vstack([Q, K])).any():
            raise ValueError(f"entries are multiples of 1/{STEP} of at most {127 / STEP}")
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
        )

"""The sentence of chapter 01, its vectors, and the figure that lets a reader move a query.

The figure computes in JavaScript (qkv.js), so it answers in a page without a kernel. What is here is its data and its
words: everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import numpy as np
import traitlets
from figures.widget import Figure, script, style

TOKENS = ["the", "cat", "chased", "a", "mouse"]

# One row a word, four made-up features: thing, action, article, already known to the listener.
X = np.array(
    [
        [0.0, 0.0, 1.0, 1.0],
        [1.0, 0.0, 0.0, 0.5],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, -1.0],
        [1.0, 0.0, 0.0, -0.5],
    ]
)  # (5, 4)

# Chosen by hand so that a thing asks for an action, an action for things and an article for things.
W_q = np.array([[0.1, 1.4], [1.1, 0.2], [1.3, -0.2], [0.2, 0.4]])  # (4, 2)
W_k = np.array([[1.6, 0.2], [-0.3, 1.7], [-1.2, -0.8], [0.2, 1.3]])  # (4, 2)
W_v = np.array([[1.0, 1.2], [-1.8, 1.2], [-0.4, -1.4], [1.3, 0.5]])  # (4, 2)

TEXT = {
    "title": "Attention with one query, to move by hand",
    "choose": "Choose a word to ask its question, or drag the query q yourself.",
    "ask": "Ask",
    "ask_note": "Drag q. Each key drops a thread to the query’s line.",
    "weigh": "Weigh",
    "weigh_note": "The score is q · k. Softmax turns the five scores into weights.",
    "mix": "Mix",
    "mix_note": "Each value times its weight, laid end to end, leads to the output z.",
    "word": "word",
    "score": "q · k",
    "weight": "weight",
    "total": "sum of the weights",
    "first": "q, across",
    "second": "q, up",
    "reset": "Back to the word’s own query",
    "handle": "Query, now {query}. The arrow keys move it; with Shift they move it further.",
    "ask_picture": "Plane of queries and keys. The query is {query}. The keys are drawn as squares, larger "
    "where the weight is larger: {weights}.",
    "mix_picture": "Plane of values. Five dashed arrows are the values. A chain of arrows, one a word, each a value "
    "times its weight, ends at the output {output}, inside the outline of the values.",
    "result": "z = {output}",
    "summary": "“{word}” asks with q = {query}. Most weight, {percent} %, goes to “{best}”. "
    "The output is z = {output}.",
    "summary_moved": "Your query q = {query} gives most weight, {percent} %, to “{best}”. "
    "The output is z = {output}.",
}


class QKVFigure(Figure):
    """Queries, keys and values of n words in two dimensions; choose a word or drag its query.

    Args:
        tokens: n words.
        Q, K, V: (n, 2) each, as arrays or nested lists; shown between -2.4 and 2.4.
        chosen: index of the word whose query is shown first.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("qkv"), style("qkv")
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    Q = traitlets.List().tag(sync=True)
    K = traitlets.List().tag(sync=True)
    V = traitlets.List().tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)

    def __init__(self, tokens, Q, K, V, chosen=0, text=None):
        Q, K, V = (np.asarray(M, dtype=float) for M in (Q, K, V))
        if not Q.shape == K.shape == V.shape == (len(tokens), 2):
            raise ValueError(
                f"{len(tokens)} tokens want Q, K and V of shape ({len(tokens)}, 2), "
                f"not {Q.shape}, {K.shape} and {V.shape}"
            )
        super().__init__(TEXT, text, tokens=list(tokens), Q=Q.tolist(), K=K.tolist(), V=V.tolist(), chosen=chosen)

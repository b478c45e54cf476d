"""The three words of chapter 01, and the figure in which a query meets their keys, step by step.

The figure computes in JavaScript (qkv.js), so it answers in a page without a kernel. What is here
is its data and its words: everything a reader sees comes from `TEXT`, so that a translation passes
another dictionary.
"""

import numpy as np
import traitlets
from figures.widget import Figure, script, style

WORDS = ["cat", "chased", "mouse"]

# One row per word, three made-up features: a thing, an action, already known to the listener.
X = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 0]])  # (3, 3)

# Chosen so that each product is a whole number, and that an action asks for known things, a thing
# for actions.
W_q = np.array([[0, 1], [2, 1], [1, 1]])  # (3, 2)
W_k = np.array([[1, -1], [-1, 2], [0, 1]])  # (3, 2)
W_v = np.array([[2, 4], [0, 2], [2, -4]])  # (3, 2)

TEXT = {
    "title": "Attention with one query, step by step",
    "choose": "Who asks?",
    "steps": "Step",
    "step_names": ["Project", "Dot", "Exponential", "Divide", "Add"],
    "back": "Back",
    "next": "Next",
    "ask": "Queries and keys",
    "mix": "Values",
    "word": "word",
    "key": "key k",
    "score": "q · k",
    "power": "e to q · k",
    "weight": "weight",
    "value": "value v",
    "part": "weight · v",
    "total": "sum",
    "try": "Things to try",
    "try_long": "Ask twice as loudly",
    "try_zero": "Ask nothing",
    "try_turned": "Ask for the opposite",
    "reset": "The word’s own query",
    "handle": "Query, now {query}. The arrow keys move it; with Shift they move it further.",
    "ask_picture": "Plane of queries and keys. The query is {query}. The keys are squares, larger "
    "where the weight is larger: {weights}.",
    "mix_picture": "Plane of values. A chain of arrows, each a value times its weight, ends at "
    "the output {output}, inside the triangle of the values.",
    "say_project": "“{word}” is the row x = {x}. Its query is x W_q = {query}. With W_k and W_v "
    "every word gets a key and a value.",
    "say_project_moved": "You chose the query q = {query}. The keys and values stay as they were.",
    "say_dot": "Multiply the query by each key, entry by entry, and add: {dots}.",
    "say_exponential": "Raise e to each score. All results are positive, and the larger ones pull "
    "ahead: {powers}. Their sum is {total}.",
    "say_divide": "Divide each by their sum, {total}. The weights {weights} sum to 1. {best}",
    "say_add": "Multiply each value by its weight and add them up: z = {parts} = {output}. {best}",
    "one_best": "Most weight is on “{best}”.",
    "all_alike": "All weights are equal.",
    "some_alike": "Most weight is on “{best}”, the same for each.",
    "and": "” and “",
}


class QKVFigure(Figure):
    """Words in two dimensions: choose who asks, or drag the query; go through the five steps.

    Args:
        tokens: n words.
        X: (n, d_model), a row per word.
        W_q, W_k, W_v: (d_model, 2) each; keys are shown between -4 and 4, values between -1 and 5.
        chosen: index of the word whose query is shown first.
        step: which of the five steps is shown first, from 0.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("qkv"), style("qkv")
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    X = traitlets.List().tag(sync=True)
    W_q = traitlets.List().tag(sync=True)
    W_k = traitlets.List().tag(sync=True)
    W_v = traitlets.List().tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, tokens, X, W_q, W_k, W_v, chosen=0, step=0, text=None):
        X, W_q, W_k, W_v = (np.asarray(M, dtype=float) for M in (X, W_q, W_k, W_v))
        if X.ndim != 2 or len(X) != len(tokens):
            raise ValueError(
                f"{len(tokens)} tokens need X of shape ({len(tokens)}, d_model), not {X.shape}"
            )
        for name, W in (("W_q", W_q), ("W_k", W_k), ("W_v", W_v)):
            if W.shape != (X.shape[1], 2):
                raise ValueError(
                    f"X of shape {X.shape} needs {name} of shape ({X.shape[1]}, 2), not {W.shape}"
                )
        data = {"X": X.tolist(), "W_q": W_q.tolist(), "W_k": W_k.tolist(), "W_v": W_v.tolist()}
        super().__init__(TEXT, text, tokens=list(tokens), chosen=chosen, step=step, **data)


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return QKVFigure(WORDS, X, W_q, W_k, W_v, step=4)

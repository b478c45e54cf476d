"""The figure of chapter 03: a row of logits, its weights, its Jacobian, and a gradient on its way back.

The figure computes in JavaScript (softmax.js), so it answers in a page without a kernel. What is here is its words:
everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import numpy as np
import traitlets
from figures.widget import Figure, script, style

TEXT = {
    "title": "A softmax that saturates, and what it does to a gradient",
    "scale": "Multiply all logits by",
    "reset": "Start again",
    "weigh": "Weights",
    "weigh_note": "Softmax of the logits, times the multiplier.",
    "logit": "logit",
    "weight": "weight",
    "logit_of": "Logit of {word}",
    "slopes": "Slopes: the Jacobian",
    "slopes_note": "Row: whose weight answers. Column: whose logit grew. Filled squares gain, hollow ones lose.",
    "slopes_picture": "Jacobian, {n} by {n}. {rows}.",
    "slopes_row": "Weight of {word}: {numbers}",
    "size": "Size of the Jacobian",
    "curve": "Size of the Jacobian against the multiplier, in powers of ten. At {scale} it is {size}.",
    "curve_axis": "multiplier",
    "back": "A gradient on its way back",
    "back_note": "Each logit receives: weight × (its grade − the average grade).",
    "choose": "The grades da, from further up:",
    "word": "word",
    "grade": "da",
    "above": "da − average",
    "gradient": "ds",
    "average": "average of da",
    "total": "sum of ds",
    "summary": "Multiplied by {scale}, “{best}” has {percent} of the weight. The Jacobian’s size is {size}{fallen}.",
    "fallen": ", about {times} times smaller than with the multiplier at 1",
    "moves": " Largest gradient: {largest}, for “{word}”.",
    "still": " No logit is moved.",
}


class SoftmaxFigure(Figure):
    """A row of n logits to move, one multiplier for all, and gradients to send back through softmax.

    Args:
        tokens: n words.
        logits: (n,) numbers between -3 and 3.
        upstreams: pairs of a name and a gradient by the weights (n,); the first is shown first.
        scale: the multiplier shown first, from 0 to 40.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("softmax"), style("softmax")
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    logits = traitlets.List().tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    upstreams = traitlets.List().tag(sync=True)
    scale = traitlets.Float(1.0).tag(sync=True)

    def __init__(self, tokens, logits, upstreams, scale=1.0, text=None):
        logits = np.asarray(logits, dtype=float)
        gradients = [np.asarray(gradient, dtype=float) for _, gradient in upstreams]
        if logits.shape != (len(tokens),) or any(g.shape != logits.shape for g in gradients):
            raise ValueError(
                f"{len(tokens)} tokens want as many logits and gradients of that length, "
                f"not {logits.shape} and {[g.shape for g in gradients]}"
            )
        super().__init__(
            TEXT,
            text,
            tokens=list(tokens),
            logits=logits.tolist(),
            names=[name for name, _ in upstreams],
            upstreams=[g.tolist() for g in gradients],
            scale=float(scale),
        )

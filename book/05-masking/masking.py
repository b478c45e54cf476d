"""The example of chapter 05, and the figure that lets a reader edit its mask and watch the weights,
step by step.

The figure computes in JavaScript (masking.js), so it answers in a page without a kernel. What is
here is its data and its words: everything a reader sees comes from `TEXT`, so that a translation
passes another dictionary.
"""

import numpy as np
import traitlets
from figures.widget import Figure, script, style

WORDS = ["[pad]", "cat", "chased", "mouse"]

# Chosen so that a pencil can follow: the exponentials of the scores, a row per query, a column per
# key.
POWERS = np.array([[4, 1, 2, 1], [4, 2, 1, 1], [2, 3, 1, 4], [3, 1, 3, 1]])  # (4, 4)
SCORES = np.log(POWERS)  # (4, 4), divided by the root already
# (4, 2): chapter 1's values, and what padding happens to hold
V = np.array([[8, 8], [4, 0], [0, 2], [2, 4]])

# The same with another last word: its row, its column and its value are different.
OTHER = "dog"
OTHER_POWERS = np.array([[4, 1, 2, 2], [4, 2, 1, 5], [2, 3, 1, 2], [1, 2, 4, 2]])  # (4, 4)
OTHER_V = np.array([[8, 8], [4, 0], [0, 2], [6, 1]])  # (4, 2)
ANOTHER = (OTHER, np.log(OTHER_POWERS), OTHER_V)

PAST = np.tril(np.ones((4, 4), dtype=bool))  # (4, 4) row i may attend to columns 0 to i
REAL = np.array([False, True, True, True])  # (4,) the words that are none of padding

# Two texts of two words in one row, with the same scores and values; their last word is exchanged
# as well.
PACKED = ["cat", "slept", "mouse", "ran"]
PACKED_OTHER = "hid"
TEXTS = np.array([0, 0, 1, 1])  # (4,) which text each word belongs to
PRESETS = {
    "open": np.ones((4, 4), dtype=bool),
    "causal": PAST,
    "padding": REAL & np.ones((4, 4), dtype=bool),
    "both": PAST & REAL,
    "cache": (PAST & REAL)[2:],  # (2, 4) the last two words are new, and only they ask
    "packed": PAST & (TEXTS[:, None] == TEXTS),
}
# The words of a preset that has its own, and the other last word behind them.
PRESET_WORDS = {"packed": [*PACKED, PACKED_OTHER]}

# What may be added to the score of a forbidden key. None: it becomes -inf, and an empty row is
# guarded, as we do it.
FILLS = [None, -np.inf, -1e9, -1e6, -1e4]
FORMATS = ["fp64", "fp32", "bf16", "fp16"]

# The things to try, in the order of `TEXT["tries"]`; fill and kind as in `MaskingFigure`.
TRIES = [
    {"preset": "open", "fill": 0},
    {"preset": "causal", "fill": 0},
    {"preset": "padding", "fill": 0},
    {"preset": "both", "fill": 1},
    {"preset": "both", "fill": 0},
    {"preset": "cache", "fill": 0},
    {"preset": "packed", "fill": 0},
]
# ... and on the page that goes deeper, in the order of `TEXT["machine_tries"]`.
MACHINE_TRIES = [
    {"preset": "both", "fill": 1, "kind": 1, "exponent": 0},
    {"preset": "both", "fill": 0, "kind": 1, "exponent": 0},
    {"preset": "both", "fill": 2, "kind": 1, "exponent": 0},
    {"preset": "both", "fill": 2, "kind": 3, "exponent": 0},
    {"preset": "both", "fill": 4, "kind": 1, "exponent": 0},
    {"preset": "both", "fill": 4, "kind": 2, "exponent": 0},
    {"preset": "both", "fill": 4, "kind": 1, "exponent": 5},
]

TEXT = {
    "title": "A mask to edit, and the resulting weights, step by step",
    "steps": "Step",
    "step_names": ["Scores", "Mask", "Exponentials", "Weights", "Output"],
    "back": "Back",
    "next": "Next",
    "try": "Things to try",
    "tries": [
        "All open",
        "Causal",
        "Padding",
        "Both",
        "Guard the empty row",
        "Two new words",
        "Two texts, packed",
    ],
    "machine_tries": [
        "Fill with −∞",
        "Guard the empty row",
        "−10⁹ in 32 bits",
        "−10⁹ in fp16",
        "−10⁴ in 32 bits",
        "−10⁴ in bf16",
        "−10⁴ and large scores",
    ],
    "swap": "Another last word",
    "reset": "Start again",
    "query": "query",
    "key": "key",
    "sum": "sum",
    "output": "output",
    "allowed": "may attend",
    "forbidden": "may not",
    "cell": "query {query}, key {key}: {state}; {number}",
    "leak_word": "leak",
    "same": "same",
    "changed": "changed",
    "fill": "Add to forbidden scores",
    "guarded": "−∞, guarded",
    "format": "Numbers",
    "scale": "scores times",
    "comma": "”, “",
    "and": "” and “",
    "say_scores": "How well each query (row) fits each key (column). Click a square to close or "
    "open it.",
    "say_mask": "Squares that are closed: {closed} of {total}. {filled}",
    "becomes": "Each of their scores becomes −∞.",
    "added": "{fill} is added to their scores, and the result rounded to {format}.",
    "say_powers": "The exponential of each number. Closed squares become 0 and add nothing to the "
    "sum of their row.",
    "say_shifted": "The exponential of each number minus the largest of its row, rounded to "
    "{format}.",
    "say_weights": "Each number divided by the sum of its row. {verdict}",
    "say_output": "Each value times its weight, added up. {verdict}",
    "all_fine": "Closed squares have weight 0, exactly.",
    "none_closed": "Nothing is closed, so every key gets weight, even later words and padding.",
    "guard": "“{rows}” may see nothing, and gets 0.",
    "nan_empty": "“{rows}” may see nothing: 0 divided by 0 is not a number (NaN).",
    "nan": "“{rows}” became NaN.",
    "leaks": "“{rows}” put weight on closed squares, up to {share}%.",
    "leak": "“{rows}” puts weight on closed squares, up to {share}%.",
    "swapped": "With “{new}” for “{old}”: {verdict}",
    "all_changed": "every output has changed.",
    "some_changed": "“{rows}” changed; the rest is the same to the last bit.",
    "none_changed": "every output is the same to the last bit.",
}


class MaskingFigure(Figure):
    """A mask to edit, and what becomes of the scores: five steps from scores to outputs.

    Args:
        machine: False computes with doubles, and fills with −∞. True rounds each step as a machine
        would, and adds
            controls for the number that is added to forbidden scores, for the format, and for the
            size of the scores.
        preset: name of the mask in `PRESETS` that is shown first.
        fill, kind: indices into `FILLS` and `FORMATS`, shown first.
        step: which of the five steps is shown first, from 0.
        tries: states that a button sets, with `preset`, `fill` and perhaps `kind` and `exponent`;
        named by
            `text["tries"]`, or `text["machine_tries"]`.
        tokens, scores, values: n words, their scores (n, n) and values (n, d).
        other: another last word, its scores (n, n) and values (n, d): different in the last row and
        column only.
        preset_words: for each preset with words of its own, its n words and the other last one.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("masking"), style("masking")
    machine = traitlets.Bool(False).tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    scores = traitlets.List().tag(sync=True)
    values = traitlets.List().tag(sync=True)
    other = traitlets.Dict().tag(sync=True)
    presets = traitlets.Dict().tag(sync=True)
    preset_words = traitlets.Dict().tag(sync=True)
    fills = traitlets.List().tag(sync=True)
    formats = traitlets.List().tag(sync=True)
    tries = traitlets.List().tag(sync=True)
    preset = traitlets.Unicode().tag(sync=True)
    fill = traitlets.Int(0).tag(sync=True)
    kind = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        machine=False,
        preset="causal",
        fill=0,
        kind=0,
        step=0,
        tries=None,
        tokens=WORDS,
        scores=SCORES,
        values=V,
        other=ANOTHER,
        presets=PRESETS,
        preset_words=PRESET_WORDS,
        text=None,
    ):
        n = len(tokens)
        name, other_scores, other_values = other
        for label, array in (("scores", scores), ("other scores", other_scores)):
            if np.shape(array) != (n, n):
                raise ValueError(
                    f"{n} words want {label} of shape ({n}, {n}), not {np.shape(array)}"
                )
        for array in (values, other_values):
            if len(array) != n:
                raise ValueError(f"{n} words want as many values, not {len(array)}")
        for mask in presets.values():
            if np.ndim(mask) != 2 or not 1 <= len(mask) <= n or np.shape(mask)[1] != n:
                raise ValueError(f"a mask has 1 to {n} rows of {n}, not the shape {np.shape(mask)}")
        for words in preset_words.values():
            if len(words) != n + 1:
                raise ValueError(f"a preset of {n} words wants {n + 1}, not {len(words)}")
        super().__init__(
            TEXT,
            text,
            machine=machine,
            tokens=list(tokens),
            scores=np.asarray(scores, dtype=float).tolist(),
            values=np.asarray(values, dtype=float).tolist(),
            other={
                "word": name,
                "scores": np.asarray(other_scores, dtype=float).tolist(),
                "values": np.asarray(other_values, dtype=float).tolist(),
            },
            presets={key: np.asarray(mask, dtype=bool).tolist() for key, mask in presets.items()},
            preset_words={key: list(words) for key, words in preset_words.items()},
            # JSON knows no infinity: it crosses as text
            fills=[None if f is None else str(f) for f in FILLS],
            formats=FORMATS,
            tries=tries or (MACHINE_TRIES if machine else TRIES),
            preset=preset,
            fill=fill,
            kind=kind,
            step=step,
        )


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return MaskingFigure(machine=True)

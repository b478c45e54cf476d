"""The figure of chapter 13: one block whose parts are exchanged, from the layer of chapter 7 to one
of today, and a grid of layers.

The block is not trained: its weights are drawn by a small generator that JavaScript repeats. The
figure computes in JavaScript (today.js), so it answers in a page without a kernel. `computed` is
the same in Python, for the page's sentences and for tests. Everything a reader sees comes from
`TEXT`, so that a translation passes another dictionary.
"""

import functools
import math

import numpy as np
import traitlets
from figures.course import of_chapter
from figures.widget import Figure, script, style

SIZES = {
    "n": 18,
    "d": 48,
    "heads": 8,
    "layers": 6,
    "window": 3,
    "shift": 2,
    "loud": 2.2,
    "bytes": 2,
    "seed": 13,
}
"""Of the example: tokens, width, heads, layers, tokens that a window sees, places that the text is
moved by, factor of W_q and W_k, bytes of a cached number, and what the random numbers begin with.
"""
CHOICES = {
    "norm": ("layer", "rms"),
    "network": ("gelu", "swiglu"),
    "qk": ("off", "on"),
    "positions": ("learned", "rotary"),
    "kv": ("8", "4", "2", "1"),
    "layers": ("full", "mixed", "windows"),
    "sink": ("off", "on"),
}
"""The parts, in the order of the chapter, and what can be chosen for each."""


def _steps():
    """Return the states from chapter 7's layer to a block of today: one part more each time."""
    old = {part: options[0] for part, options in CHOICES.items()} | {"token": SIZES["n"] - 1}
    found = [old]
    for part, choice in (
        ("norm", "rms"),
        ("network", "swiglu"),
        ("qk", "on"),
        ("positions", "rotary"),
        ("kv", "2"),
        ("layers", "mixed"),
        ("sink", "on"),
    ):
        found.append({**found[-1], part: choice})
    return found


STEPS = _steps()


@functools.cache
def chapter():
    """Return what the page's cells with the tag `course-code` define."""
    return of_chapter("13-today")


def drawn(seed, *shape):
    """Return numbers of mean 0 and variance 1 of such a shape, the same as in JavaScript.

    The generator is mulberry32; a number is a sum of three of its numbers.
    """
    word, mask = seed, 0xFFFFFFFF

    def one():
        nonlocal word
        word = (word + 0x6D2B79F5) & mask
        t = ((word ^ (word >> 15)) * (word | 1)) & mask
        t ^= (t + (((t ^ (t >> 7)) * (t | 61)) & mask)) & mask
        return (t ^ (t >> 14)) / 2**32

    numbers = [2 * (one() + one() + one() - 1.5) for _ in range(math.prod(shape))]
    return np.array(numbers).reshape(shape)


@functools.cache
def weights():
    """Return the tokens and the weights of the example, by name."""
    n, d, seed = SIZES["n"], SIZES["d"], SIZES["seed"]
    hidden, gated = 4 * d, 8 * d // 3
    shapes = {
        "X": ((n, d), 1.3),
        "places": ((n + SIZES["shift"], d), 0.8),
        "W_q": ((d, d), SIZES["loud"] / d**0.5),
        "W_k": ((d, d), SIZES["loud"] / d**0.5),
        "W_v": ((d, d), d**-0.5),
        "W_o": ((d, d), d**-0.5),
        "W_1": ((d, hidden), d**-0.5),
        "W_2": ((hidden, d), hidden**-0.5),
        "W_gate": ((d, gated), d**-0.5),
        "W_up": ((d, gated), d**-0.5),
        "W_down": ((gated, d), gated**-0.5),
    }
    found = {
        name: factor * drawn(seed + k, *shape)
        for k, (name, (shape, factor)) in enumerate(shapes.items())
    }
    found["X"] = found["X"] + 0.5
    found["sinks"] = np.linspace(-1, 2.5, SIZES["heads"])
    return found


def sees(choice, layer):
    """Return how many tokens a token sees in a layer, counted from 0, itself included."""
    full = choice == "full" or (choice == "mixed" and layer % 3 == 2)
    return SIZES["n"] if full else SIZES["window"]


def _layer_norm(x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


def _gelu(x):
    return np.array([0.5 * u * (1 + math.erf(u / math.sqrt(2))) for u in x])


def _scores(state, shift=0):
    """Return the normed rows (n, d), the scores (heads, seen) of the chosen token, and the rows
    as they enter the block.
    """
    page, W = chapter(), weights()
    n, h = SIZES["n"], SIZES["heads"]
    d_k, i, groups = SIZES["d"] // h, state["token"], h // int(state["kv"])
    norm = page["normed"] if state["norm"] == "rms" else _layer_norm
    learned = state["positions"] == "learned"
    X = W["X"] + W["places"][shift : n + shift] if learned else W["X"]
    Y = np.array([norm(x) for x in X])
    first = max(0, i - sees(state["layers"], 0) + 1)

    def vector(x, matrix, head, place):
        x = x @ W[matrix][:, head * d_k : (head + 1) * d_k]
        x = page["normed"](x) if state["qk"] == "on" else x
        return x if learned else page["turned"](x, place + shift)

    S = []
    for t in range(h):
        q = vector(Y[i], "W_q", t, i)
        keys = [vector(Y[j], "W_k", t // groups, j) for j in range(first, i + 1)]
        S.append([q @ k / d_k**0.5 for k in keys])
    return Y, np.array(S), X


def computed(state):
    """Return all that the figure shows in a state: for each part what it does, by name; and the
    stream of the chosen token.
    """
    page, W = chapter(), weights()
    h, d = SIZES["heads"], SIZES["d"]
    d_k, i, kv = d // h, state["token"], int(state["kv"])
    Y, S, X = _scores(state)
    first = i + 1 - S.shape[1]
    E = np.exp(S)
    beyond = np.exp(W["sinks"]) if state["sink"] == "on" else np.zeros(h)
    A = E / (beyond + E.sum(1))[:, None]
    heads = [
        A[t] @ Y[first : i + 1] @ W["W_v"][:, (t * kv // h) * d_k : (t * kv // h + 1) * d_k]
        for t in range(h)
    ]
    after = X[i] + np.concatenate(heads) @ W["W_o"]
    norm = page["normed"] if state["norm"] == "rms" else _layer_norm
    if state["network"] == "swiglu":
        matrices = [W["W_gate"], W["W_up"], W["W_down"]]
        added = page["network"](norm(after), *matrices)
    else:
        matrices = [W["W_1"], W["W_2"]]
        added = _gelu(norm(after) @ W["W_1"]) @ W["W_2"]
    reached = [{i}]
    for layer in reversed(range(SIZES["layers"])):
        wide = sees(state["layers"], layer)
        reached.append({k for j in reached[-1] for k in range(max(0, j - wide + 1), j + 1)})
    rows = sum(min(i + 1, sees(state["layers"], layer)) for layer in range(SIZES["layers"]))
    per = 2 * kv * d_k * SIZES["bytes"]
    return {
        "stream": [X[i], Y[i], after, after + added],
        "mean": Y[i].mean(),
        "size": np.sqrt(np.mean(Y[i] ** 2)),
        "hidden": matrices[0].shape[1],
        "params": sum(matrix.size for matrix in matrices),
        "most": abs(S).max(),
        "gap": abs(_scores(state, SIZES["shift"])[1] - S).max(),
        "per": per,
        "rows": rows,
        "bytes": rows * per,
        "reach": len(reached[-1]),
        "sums": A.sum(1),
    }


TEXT = {
    "title": "One block, part by part: from chapter 7 to today",
    "try": "From chapter 7 to today",
    "steps": [
        "Chapter 7",
        "RMSNorm",
        "SwiGLU",
        "Query-key norm",
        "Rotary",
        "Two key heads",
        "Windows",
        "A sink",
    ],
    "parts": {
        "norm": "norm",
        "network": "network",
        "qk": "query-key norm",
        "positions": "positions",
        "kv": "key heads",
        "layers": "layers",
        "sink": "sink",
    },
    "options": {
        "norm": ["LayerNorm", "RMSNorm"],
        "network": ["GELU", "SwiGLU"],
        "qk": ["off", "on"],
        "positions": ["learned", "rotary"],
        "kv": ["8", "4", "2", "1"],
        "layers": ["full", "mixed", "windows"],
        "sink": ["off", "on"],
    },
    "effect": {
        "norm": "row: mean {mean}, size {size}",
        "network": "{hidden} hidden numbers, {params} weights",
        "qk": "largest score {most}",
        "qk_on": "largest score {most}, limit {limit}",
        "positions": "text moved: scores change by {gap}",
        "kv": "{per} bytes a token in each layer",
        "layers": "cache: {rows} rows, {bytes} bytes",
        "sink": "weights sum to {low}",
        "sink_on": "weights sum to {low} to {high}",
    },
    "thousands": ",",
    "token": "token",
    "stream": "The token’s numbers",
    "strips": ["stream", "normed", "+ attention", "+ network"],
    "strip_label": "{name}: mean {mean}, size {size}",
    "size": "size {size}",
    "grid": "What token {token} depends on",
    "layer": "layer {number}",
    "grid_label": "{layers} layers of {n} tokens. Token {token} sees {seen} tokens in layers 1 to "
    "{layers}. Through all layers it depends on {reach} tokens.",
    "say": {
        "norm": "LayerNorm subtracts the row’s mean and divides by the deviation: mean {mean}, "
        "size {size}.",
        "norm_rms": "RMSNorm divides by the root mean square and subtracts nothing: size {size}, "
        "and the mean stays at {mean}.",
        "network": "Two matrices, {hidden} hidden numbers with a GELU between them.",
        "network_swiglu": "Three matrices. A hidden number is a product of a gate and a content. "
        "With {hidden} of them there are {params} weights, as before.",
        "qk": "Queries and keys have any length, so scores have no limit. The largest is {most}.",
        "qk_on": "Queries and keys have mean square 1. No score can pass the root of the head "
        "width, {limit}. The largest is {most}.",
        "positions": "Each token gets a trained row for its place. If the text moves by {shift} "
        "places, scores change by up to {gap}.",
        "positions_rotary": "Queries and keys turn by their place. If the text moves by {shift} "
        "places, scores change by {gap}.",
        "kv": "{kv} key heads for {heads} query heads: {per} bytes a token in each layer, "
        "{bytes} bytes for this text.",
        "layers": "Every layer sees all tokens before. Its cache has {rows} rows, {bytes} bytes.",
        "layers_mixed": "Two of three layers see {window} tokens. The cache has {rows} rows, "
        "{bytes} bytes. Through the full layers, token {token} depends on {reach} tokens.",
        "layers_windows": "Every layer sees {window} tokens. The cache has {rows} rows, {bytes} "
        "bytes. After {layers} layers, token {token} depends on {reach} tokens.",
        "sink": "Each head’s weights sum to 1, even if no key fits.",
        "sink_on": "A number of its own for each head is one more term of the sum. The weights "
        "of a head sum to {low} to {high}; the rest goes nowhere.",
    },
}


class TodayFigure(Figure):
    """One block with a switch for each part, its stream, and a grid of layers.

    Args:
        text: texts that replace those in `TEXT`.
    """

    _esm = script("today")
    _css = style("today")
    sizes = traitlets.Dict().tag(sync=True)
    parts = traitlets.List().tag(sync=True)
    steps = traitlets.List().tag(sync=True)

    def __init__(self, text=None):
        parts = [[part, list(options)] for part, options in CHOICES.items()]
        super().__init__(TEXT, text, sizes=SIZES, parts=parts, steps=STEPS)


def demo():
    """Return a figure that is quick to make, for a try in JupyterLab."""
    return TodayFigure()

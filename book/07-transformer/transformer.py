"""The tiny GPT of chapter 07, the grammar that its text is made by, and the figure that follows it
word by word.

The model and its training are the page's own: `chapter` takes the cells of 07-transformer.md that
are tagged `course-code`, and `train` runs them. What is here besides is what the figure and its
tests ask about the grammar.

The figure computes in JavaScript (transformer.js), so it answers in a page without a kernel.
Everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import functools

import torch
import traitlets
from figures.course import as_the_page, of_chapter
from figures.widget import Figure, script, style

FAR = ". the cats that the dog sees"  # the next verb belongs to the cats
OTHER = ". the cat that the dogs see"


@functools.cache
def chapter():
    """Return what the page's cells define: the grammar, TinyGPT, train, write and the sizes."""
    return of_chapter("07-transformer")


def train(steps=None):
    """Return the model that the page trains, then in float64; its numbers are rounded, so that
    few digits do.
    """
    page = chapter()
    with as_the_page(page["SEED"], torch.float32):
        model = page["TinyGPT"](**page["SIZES"])
        page["train"](model, page["text_of"](0), page["STEPS"] if steps is None else steps)
    return rebuilt(model.state_dict())


def rebuilt(numbers):
    """Return the model with such numbers, by name, as `state_dict` has them; in float64, and
    rounded.
    """
    with as_the_page(seed=0):
        model = chapter()["TinyGPT"](**chapter()["SIZES"])
    model.load_state_dict(
        {name: number.double().round(decimals=3) for name, number in numbers.items()}
    )
    return model.requires_grad_(False)


@torch.no_grad()
def inside(model, words):
    """Return what happens in the model while it reads some words, at most max_len.

    `weights` (layers, heads, n, n), `parts` (2 layers + 1, n, d), which add up to the stream, and
    `reads` (2 layers + 1, n, vocab), the probabilities of the next word if they are read off after
    each part.
    """
    tokens = torch.tensor([chapter()["VOCABULARY"].index(word) for word in words])
    x = model.words(tokens) + model.places(torch.arange(len(tokens)))
    future = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1)
    weights, parts = [], [x]
    for block in model.blocks:
        Q, K, V = (
            block.qkv(block.norm1(x)).unflatten(-1, (3, block.num_heads, -1)).permute(1, 2, 0, 3)
        )
        A = (Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(future, -torch.inf).softmax(-1)  # (h, n, n)
        heads = block.out((A @ V).transpose(0, 1).flatten(1))
        hidden = block.up(block.norm2(x + heads))
        network = block.down(hidden * (1 + torch.erf(hidden / 2**0.5)) / 2)
        weights.append(A)
        parts += [heads, network]
        x = x + heads + network
    parts = torch.stack(parts)
    return {
        "weights": torch.stack(weights),
        "parts": parts,
        "reads": model.read(model.norm(parts.cumsum(0))).softmax(-1),
    }


# ---- the grammar, from the other side: what may come next
# -------------------------------------------------


START = (
    True,
    "the",
    0,
    0,
)  # of the grammar: in the subject?, place in the phrase, numbers of its noun and inner noun


def _options(state):
    """Return what may come in a state of the grammar, as {word: probability}."""
    page = chapter()
    subject, place, number, inner = state

    def among(words, share=1.0):
        return dict.fromkeys(words, share / len(words))

    verbs = [[pair[n] for pair in page["VERBS"]] for n in (0, 1)]
    onward = among(verbs[number]) if subject else {".": 1.0}
    if place == "named":  # a noun, which may get a clause
        return {word: p / 2 for word, p in onward.items()} | {"that": 0.5}
    if place == "that":
        return {"the": 0.5} | among(verbs[number], 0.5)
    if place in ("the", "whom"):
        return {"the": 1.0}
    nouns = [word for pair in page["NOUNS"] for word in pair]
    return {"their": among(verbs[inner]), "whole": onward}.get(place, among(nouns))


def _onward(state, word):
    """Return the state after a word that may come."""
    subject, place, number, inner = state
    if place in ("named", "whole") and word != "that":  # the phrase is over
        return (False, "the", 0, 0) if subject else START
    nouns = {word: n for pair in chapter()["NOUNS"] for n, word in enumerate(pair)}
    number = nouns[word] if place == "noun" else number
    inner = nouns[word] if place == "other" else inner
    then = {
        "the": "noun",
        "noun": "named",
        "named": "that",
        "other": "their",
        "their": "whole",
        "whom": "last",
    }
    place = ("other" if word == "the" else "whom") if place == "that" else then.get(place, "whole")
    return subject, place, number, inner


def after(words):
    """Return what may come after some sentences and the beginning of one, as {word: probability}.

    Nothing, where the words themselves are none of the grammar.
    """
    state = START
    for word in words:
        if word not in _options(state):
            return {}
        state = _onward(state, word)
    return _options(state)


def expected(windows):
    """Return the probability of each next word for a reader who knows the grammar and sees only the
    window, (b, n).

    The windows (b, n + 1) may begin anywhere in a text, so where in a sentence the reader is shows
    only word by word (Bayes' rule over the states of the grammar). No model can do better on
    average.
    """
    vocabulary, states = chapter()["VOCABULARY"], [START]
    for state in states:  # which grows
        states += [
            new for new in (_onward(state, word) for word in _options(state)) if new not in states
        ]
    # word, from, to
    steps = torch.zeros(len(vocabulary), len(states), len(states), dtype=torch.float64)
    for number, state in enumerate(states):
        for word, p in _options(state).items():
            steps[vocabulary.index(word), number, states.index(_onward(state, word))] = p
    belief = torch.full((len(states),), 1 / len(states), dtype=torch.float64)
    for _ in range(1000):  # how often each state occurs in a text
        belief = belief @ (torch.eye(len(states), dtype=torch.float64) + steps.sum(0)) / 2
    belief, chances = belief.repeat(len(windows), 1), []
    for words in windows.T:
        belief = (belief[:, None] @ steps[words])[:, 0]
        chances.append(belief.sum(-1))
        belief = belief / chances[-1][:, None]
    return torch.stack(chances[1:], -1)


def far_verbs():
    """Return beginnings whose next verb belongs to the farther of two nouns, of another number:
    (words, number).
    """
    page = chapter()
    cases = []
    for n in (0, 1):
        for near in page["NOUNS"]:
            for far in page["NOUNS"]:
                for verb in page["VERBS"]:
                    first = [".", "the", far[n], "that", "the", near[1 - n], verb[1 - n]]
                    second = [".", "the", far[n], "that", verb[n], "the", near[1 - n]]
                    cases += [(first, n), (second, n)]
    return cases


@torch.no_grad()
def agreement(model):
    """Return the share of `far_verbs` at which verbs of the right number get more than the
    others.
    """
    page, right = chapter(), []
    verbs = [[page["VOCABULARY"].index(pair[n]) for pair in page["VERBS"]] for n in (0, 1)]
    for words, n in far_verbs():
        chances = model(torch.tensor([[page["VOCABULARY"].index(word) for word in words]]))[
            0, -1
        ].softmax(-1)
        right.append(chances[verbs[n]].sum() > chances[verbs[1 - n]].sum())
    return torch.stack(right).double().mean().item()


TEXT = {
    "title": "A tiny GPT writes, word by word and layer by layer",
    "steps": "Step",
    "step_first": "Embed",
    "step_layer": "Layer {number}",
    "step_last": "Predict",
    "back": "Back",
    "next": "Next",
    "next_word": "Next word",
    "so_far": "So far",
    "out": "out of sight",
    "head": "layer {layer}, head {head}",
    "weights_picture": "Weights of “{word}”: {weights}.",
    "stream": "The stream of “{word}”",
    "reads": "read off here",
    "part_first": "word and place",
    "part_heads": "+ heads {layer}",
    "part_network": "+ network {layer}",
    "read": "{word} {share}",
    "chances": "Next word",
    "fits": "fits",
    "misfits": "does not fit",
    "temperature": "temperature",
    "try": "Things to try",
    "try_far": "The far subject",
    "try_other": "The other number",
    "try_write": "Write a sentence",
    "try_hot": "Hot",
    "try_cold": "Cold",
    "say_first": "“{word}” becomes {size} numbers: its own, plus those of place {place}. They "
    "start its stream, and every later part adds to it.",
    "say_layer": "“{word}” looks back. {looks} The heads’ output is added to the stream, and then "
    "the network’s.",
    "say_last": "The model expects {most}. {share} of the probability is on words that the "
    "grammar allows here.",
    "look_most": "Head {number} looks at {most}.",
    "look_some": "Head {number} divides its weight between {most}.",
    "most": "“{word}” ({weight})",
    "expected": "“{word}” ({share})",
    "and": " and ",
    "comma": ", ",
}


class TransformerFigure(Figure):
    """A trained TinyGPT that writes: choose the step, and see heads, stream and next word.

    Args:
        model: of `train`.
        words: the beginning of the text, a string.
        step: the step that is shown first, from 0.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("transformer"), style("transformer")
    vocabulary = traitlets.List(traitlets.Unicode()).tag(sync=True)
    nouns = traitlets.List().tag(sync=True)
    verbs = traitlets.List().tag(sync=True)
    model = traitlets.Dict().tag(sync=True)
    starts = traitlets.List().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, model, words=FAR, step=0, text=None):
        page = chapter()
        vocabulary = page["VOCABULARY"]
        starts = [sentence.split() for sentence in (words, FAR, OTHER)]
        unknown = {word for start in starts for word in start} - set(vocabulary)
        if unknown:
            raise ValueError(f"not in the vocabulary: {', '.join(sorted(unknown))}")
        numbers = {name: parameter.tolist() for name, parameter in model.named_parameters()}
        data = {
            "num_heads": model.blocks[0].num_heads,
            "num_layers": len(model.blocks),
            "max_len": model.max_len,
        }
        super().__init__(
            TEXT, text, vocabulary=vocabulary, nouns=[list(pair) for pair in page["NOUNS"]],
            verbs=[list(pair) for pair in page["VERBS"]], model=data | {"numbers": numbers},
            starts=[[vocabulary.index(word) for word in start] for start in starts], step=step,
        )  # fmt: skip


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return TransformerFigure(train(2), step=3)

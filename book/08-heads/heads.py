"""The model of chapter 08 whose heads can be cut, what is left without any of them, and the figure
that cuts.

The model and its training are the page's own: `chapter` takes the cells of 08-heads.md that are
tagged `course-code`, and `train` runs them. `cuts` tries every set of heads once, so the figure
(heads.js) looks up what it shows and answers in a page without a kernel. Everything a reader sees
comes from `TEXT`, so that a translation passes another dictionary.
"""

import functools
import itertools

import torch
import traitlets
from figures.course import as_the_page, of_chapter
from figures.widget import Figure, script, style

FAR = ". the mouse that chases the cats"  # the next verb belongs to the mouse
PAST = ". yesterday the cats that the dog"  # and this one lies in the past
NEAR = ". the dogs"
WINDOWS = 200  # of a new text, in which the loss is measured


@functools.cache
def chapter():
    """Return what the page's cells define: the grammar, the model, its training, and what is
    measured.
    """
    return of_chapter("08-heads")


def train(steps=None):
    """Return the model that the page trains, in float64."""
    page = chapter()
    with as_the_page(page["SEED"]):
        model = page["TinyGPT"]()
        page["train"](model, page["text_of"](0), page["STEPS"] if steps is None else steps)
    return model.requires_grad_(False)


def numbers_of(words):
    """Return a beginning such as `FAR` as numbers, (1, n)."""
    return torch.tensor([[chapter()["VOCABULARY"].index(word) for word in words.split()]])


def far_verbs():
    """Return 108 beginnings whose next verb belongs to the farther of two nouns, of another number.

    A list of pairs: the words, and the form of the verb that is right: 0 one, 1 several.
    """
    page, pairs = chapter(), []
    for many, near, far, verb in itertools.product(
        (0, 1), page["NOUNS"], page["NOUNS"], page["VERBS"]
    ):
        pairs += [
            (f". the {far[many]} that the {near[1 - many]} {verb[1 - many]}", many),
            (f". the {far[many]} that {verb[many]} the {near[1 - many]}", many),
        ]
    return pairs


def past_verbs():
    """Return 36 beginnings after which the first verb comes, in the past (2): pairs as those of
    `far_verbs`.
    """
    nouns = sum(chapter()["NOUNS"], ())
    return [
        (f". yesterday the {noun} that the {second}", 2)
        for noun, second in itertools.product(nouns, nouns)
    ]


def forms(scores):
    """Return the probability of each form of a verb, (..., 3): one, several, past; from scores
    (..., vocab).
    """
    page = chapter()
    places = [[page["VOCABULARY"].index(verb[form]) for verb in page["VERBS"]] for form in range(3)]
    return scores.softmax(-1)[..., torch.tensor(places)].sum(-1)


def keeps(model):
    """Return every way to keep heads, as (2 ** (layers h), layers, h) of 0 and 1; the last head
    changes first.
    """
    layers, h = len(model.blocks), model.blocks[0].num_heads
    return torch.tensor(list(itertools.product((0.0, 1.0), repeat=layers * h))).unflatten(
        -1, (layers, h)
    )


@torch.no_grad()
def cuts(model, windows=WINDOWS, beginnings=(FAR, PAST, NEAR)):
    """Return what is left of a model of two layers for every set of heads that is kept, in the
    order of `keeps`.

    `loss` (s,), on windows of a new text that begin with a sentence; `far` and `past` (s,), the
    share of `far_verbs` and of `past_verbs` at which the right form is the likeliest; for each
    beginning, `forms` (s, 3), the chances of the verb's forms, and `weights` (s, layers, h, n),
    those of its last word.
    """
    page = chapter()
    window = page["windows"](page["text_of"](1, 2000))[:windows]
    verbs = (far_verbs(), past_verbs())
    asked = [torch.cat([numbers_of(words) for words, _ in some]) for some in verbs]
    right = [torch.tensor([form for _, form in some]) for some in verbs]
    begun = [numbers_of(words) for words in beginnings]
    inputs = [window[:, :-1], *asked, *begun]
    results = {
        name: [] for name in ("loss", "far", "past", *(f"forms {words}" for words in beginnings))
    }
    looks = {words: [] for words in beginnings}
    first, last = model.blocks
    for keep in keeps(model):
        if not keep[1].any():  # the first layer's heads have changed
            first.keep = keep[0]
            embedded = [model.words(x) + model.places(torch.arange(x.shape[1])) for x in inputs]
            middle, front = [], []
            for x in embedded:
                middle.append(first(x))
                front.append(first.A[0, :, -1])
        last.keep = keep[1]
        scores, back = [], []
        for x in middle:
            scores.append(model.read(model.norm(last(x))))
            back.append(last.A[0, :, -1])
        results["loss"].append(torch.nn.functional.cross_entropy(scores[0].mT, window[:, 1:]))
        for name, y, form in zip(("far", "past"), scores[1:3], right, strict=True):
            results[name].append((forms(y[:, -1]).argmax(-1) == form).double().mean())
        for number, words in enumerate(beginnings, start=3):
            results[f"forms {words}"].append(forms(scores[number][0, -1]))
            looks[words].append(torch.stack([front[number], back[number]]))
    for block in model.blocks:
        block.keep = torch.ones(block.num_heads)
    results = {name: torch.stack(values) for name, values in results.items()}
    return {
        **{name: results[name] for name in ("loss", "far", "past")},
        "forms": [results[f"forms {words}"] for words in beginnings],
        "weights": [torch.stack(looks[words]) for words in beginnings],
    }


TEXT = {
    "title": "A model with eight heads, and its loss when some are cut",
    "beginning": "The text so far",
    "head": "layer {layer}, head {head}",
    "cut_head": "Cut layer {layer}, head {head}",
    "cut": "cut",
    "weights_picture": "Weights of “{word}”: {weights}.",
    "loss": "Loss on new text",
    "far": "Far verbs right",
    "past": "Verbs in the past right",
    "forms": "The form of the next verb",
    "verbs_like": "like “{verb}”",
    "fits": "fits",
    "try": "Things to try",
    "try_past": "Cut yesterday’s head",
    "try_also": "Another that looks there",
    "try_subject": "Cut the subject’s head",
    "try_pair": "Two at once",
    "try_idle": "The four that cost least",
    "try_none": "Cut all",
    "try_whole": "Whole",
    "say_whole": "All eight heads are active. The loss is {loss}.",
    "say_cut": "{count} of {all} heads are cut. The loss goes from {whole} to {loss}: {change}. "
    "Their separate costs add up to {alone}.",
    "say_one": "One head is cut. The loss goes from {whole} to {loss}: {change} is its importance.",
    "comma": ", ",
}


class HeadsFigure(Figure):
    """A trained model whose heads can be cut, each with a press.

    Args:
        found: what `cuts` returns for a model.
        cut: heads that are cut at first, pairs (layer, head) from 0.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("heads"), style("heads")
    beginnings = traitlets.List().tag(sync=True)
    verbs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    right = traitlets.List(traitlets.Int()).tag(sync=True)
    found = traitlets.Dict().tag(sync=True)
    cut = traitlets.List().tag(sync=True)
    shape = traitlets.List(traitlets.Int()).tag(sync=True)
    picks = traitlets.Dict().tag(sync=True)

    def __init__(self, found, cut=(), text=None):
        def rounded(x, digits):
            return torch.as_tensor(x).double().round(decimals=digits).tolist()

        shape = list(found["weights"][0].shape[1:3])
        data = {name: rounded(found[name], 4) for name in ("loss", "far", "past")}
        data["forms"] = [rounded(x, 4) for x in found["forms"]]
        # The first layer looks as it does whatever is cut; the last one depends on what is cut in
        # the first.
        some = slice(None, None, 2 ** shape[1])
        data["weights"] = [[rounded(x[0, 0], 3), rounded(x[some, 1], 3)] for x in found["weights"]]
        super().__init__(
            TEXT, text, beginnings=[words.split() for words in (FAR, PAST, NEAR)],
            verbs=list(chapter()["VERBS"][0]),
            right=[0, 2, 1], found=data, cut=[list(pair) for pair in cut], shape=shape,
            picks=picks(found, shape),
        )  # fmt: skip


def picks(found, shape):
    """Return which heads the buttons cut, pairs (layer, head) from 0.

    `subject` and `past`: the head of the last layer that looks most at the far subject, and at
    "yesterday"; `also`: the one of that layer that looks second most at "yesterday"; `idle`: the
    four that cost least one at a time; `pair`: the two that cost most together in proportion to
    what they cost one at a time.
    """
    layers, h = shape
    heads = list(itertools.product(range(layers), range(h)))
    full = len(found["loss"]) - 1

    def cost(*numbers):
        place = full - sum(2 ** (len(heads) - 1 - number) for number in numbers)
        return (found["loss"][place] - found["loss"][full]).item()

    def lookers(beginning, words, word):
        return (
            found["weights"][beginning][full][-1, :, words.split().index(word)]
            .argsort(descending=True)
            .tolist()
        )

    alone = [cost(number) for number in range(len(heads))]
    pairs = [
        two
        for two in itertools.combinations(range(len(heads)), 2)
        if alone[two[0]] + alone[two[1]] > 0.02
    ]
    pair = max(pairs, key=lambda two: cost(*two) / (alone[two[0]] + alone[two[1]]))
    idle = sorted(range(len(heads)), key=lambda number: alone[number])[:4]
    past = lookers(1, PAST, "yesterday")
    return {
        "subject": [[layers - 1, lookers(0, FAR, "mouse")[0]]],
        "past": [[layers - 1, past[0]]],
        "also": [[layers - 1, past[1]]],
        "idle": [list(heads[number]) for number in sorted(idle)],
        "pair": [list(heads[number]) for number in pair],
    }


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return HeadsFigure(cuts(train(steps=2), windows=5))

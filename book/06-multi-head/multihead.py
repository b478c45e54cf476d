"""Eight cards, three models that were trained on them, and the figure of chapter 06 that looks at
their heads.

Each card has a letter and a digit. A card is asked for two digits: that of the card on its left,
and that of its twin, which is the same letter in the other size. `train` makes a model with any
number of heads, the same each time.

The figure computes in JavaScript (multihead.js), so it answers in a page without a kernel.
Everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import torch
import traitlets
from figures.course import as_the_page
from figures.widget import Figure, script, style
from torch import nn

LETTERS = list("aAbBcCdD")  # number 2k and number 2k + 1 are twins
DIGITS = 5  # from 1 to 5
CARDS = len(LETTERS)  # in a row, each letter once
WIDTH = 16  # d_model
DEAL = ("bDaCBdcA", "35412531")  # the cards that the figure shows first
NEIGHBOURS = ("cAaDBbCd", "24153124")  # a deal in which the second and the third card are twins


def cards(deal=DEAL):
    """Two strings of letters and digits -> two tensors (8,), numbers from 0."""
    letters, digits = deal
    return torch.tensor([LETTERS.index(x) for x in letters]), torch.tensor(
        [int(x) - 1 for x in digits]
    )


def deal(number, generator):
    """Return so many rows of cards: letters (number, 8) and digits (number, 8), both counted
    from 0.
    """
    letters = torch.rand(number, CARDS, generator=generator).argsort(-1)
    return letters, torch.randint(DIGITS, (number, CARDS), generator=generator)


def answers(letters, digits):
    """Return what is right: (..., 8, 2), the digit on the left (never asked of the first card)
    and the twin's.
    """
    twin = (letters ^ 1)[..., :, None] == letters[..., None, :]  # (..., 8, 8)
    return torch.stack([digits.roll(1, -1), (twin * digits[..., None, :]).sum(-1)], -1)


class Cards(nn.Module):
    """Multi-head attention between embeddings and two answers; rows are vectors, weights on the
    right.
    """

    def __init__(self, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.letters = nn.Parameter(torch.randn(len(LETTERS), WIDTH))
        self.digits = nn.Parameter(torch.randn(DIGITS, WIDTH))
        self.places = nn.Parameter(torch.randn(CARDS, WIDTH))
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(
                self, name, nn.Parameter(torch.empty(WIDTH, WIDTH).uniform_(-1, 1) / WIDTH**0.5)
            )
        self.readout = nn.Parameter(torch.empty(WIDTH, 2 * DIGITS).uniform_(-1, 1) / WIDTH**0.5)

    def embed(self, letters, digits):
        """(..., 8), (..., 8) -> X (..., 8, 16)"""
        return self.letters[letters] + self.digits[digits] + self.places

    def split(self, M):
        """(..., 8, 16) -> (..., h, 8, 16 / h)"""
        return M.unflatten(-1, (self.num_heads, -1)).transpose(-2, -3)

    def forward(self, letters, digits, silent=None):
        """Return scores of the answers (..., 8, 2, 5) and weights (..., h, 8, 8).

        Head `silent` passes on zeros.
        """
        X = self.embed(letters, digits)
        Q, K, V = (self.split(X @ W) for W in (self.W_q, self.W_k, self.W_v))
        A = (Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1)
        Z = A @ V  # (..., h, 8, 16 / h)
        if silent is not None:
            Z = Z.index_fill(-3, torch.tensor([silent]), 0.0)
        out = Z.transpose(-2, -3).flatten(-2) @ self.W_o
        return (out @ self.readout).unflatten(-1, (2, DIGITS)), A


def loss_of(scores, right):
    """Cross-entropy of both answers; the first card has no left neighbour."""
    left = nn.functional.cross_entropy(scores[:, 1:, 0].flatten(0, 1), right[:, 1:, 0].flatten())
    return left + nn.functional.cross_entropy(
        scores[:, :, 1].flatten(0, 1), right[:, :, 1].flatten()
    )


@torch.no_grad()
def correct(model, silent=None, number=2000, seed=1):
    """Return the share of right answers on new cards: for the left neighbour, and for the twin."""
    letters, digits = deal(number, torch.Generator().manual_seed(seed))
    # (number, 8, 2)
    right = model(letters, digits, silent)[0].argmax(-1) == answers(letters, digits)
    return right[:, 1:, 0].double().mean().item(), right[..., 1].double().mean().item()


def train(num_heads, seed=0, steps=500, batch=128, rate=0.01):
    """Return a model that was trained for some seconds; its numbers are rounded, so that few
    digits say all of it.
    """
    with as_the_page(seed, torch.float32):
        generator, model = torch.Generator().manual_seed(seed), Cards(num_heads)
        optimizer = torch.optim.Adam(model.parameters(), rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps)
        for _ in range(steps):
            letters, digits = deal(batch, generator)
            loss = loss_of(model(letters, digits)[0], answers(letters, digits))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return rebuilt(num_heads, model.state_dict())


def rebuilt(num_heads, numbers):
    """Return the model with such numbers, by name, as `state_dict` has them; in float64, and
    rounded.
    """
    with as_the_page(seed=0):
        model = Cards(num_heads)
    model.load_state_dict(
        {name: value.double().round(decimals=3) for name, value in numbers.items()}
    )
    return model.requires_grad_(False)


TEXT = {
    "title": "The heads of a trained model, side by side",
    "choose": "Which card asks?",
    "steps": "Step",
    "step_names": ["Ask", "Pass on", "Join", "Mix"],
    "back": "Back",
    "next": "Next",
    "head": "head {number}",
    "silent": "silent",
    "asks": "asks",
    "left": "left",
    "twin": "twin",
    "passed": "What each head passes on, {size} numbers per head",
    "joined": "Side by side: {size} numbers",
    "mixed": "Times W_o: {size} numbers for “{card}”",
    "question_left": "digit on the left",
    "question_twin": "digit of the twin",
    "share": "{head} adds",
    "chance": "share",
    "record_silent": "Without head {number}, right on new cards: {left} of the digits on the "
    "left, {twin} of the twins’.",
    "weights_picture": "Weights of “{card}”: {weights}.",
    "try": "Things to try",
    "try_two": "Two heads",
    "try_silence": "Silence head 1",
    "try_one": "One head",
    "try_four": "Four heads",
    "try_neighbours": "The twin next door",
    "try_deal": "New cards",
    "say_ask": "“{card}” wants two digits. {looks}",
    "say_pass": "Each head adds up the values of all cards, each times its weight, and gets "
    "{size} numbers. {looks}",
    "say_join": "The heads’ numbers go side by side. Nothing is mixed yet: each block is one "
    "head’s message.",
    "say_mix": "W_o mixes the blocks, and a last matrix reads two digits from them. "
    "On the left: {left}. The twin: {twin}.",
    "look_most": "Head {number} looks at {most}.",
    "look_some": "Head {number} divides its weight between {most}.",
    "look_nothing": "Head {number} is silent.",
    "most": "“{card}” ({weight})",
    "and": " and ",
    "right": "{digit} ({share}), right",
    "wrong": "{digit} ({share}), wrong: it is {truth}",
    "unasked": "there is none",
    "record": "Right on new cards: {left} of the digits on the left, {twin} of the twins’.",
}


class MultiHeadFigure(Figure):
    """Eight cards and one or more trained models: choose who asks, and follow each head to the
    answer.

    Args:
        models: of `train`, with different numbers of heads.
        chosen: index of the card that asks first.
        step: which of the four steps is shown first, from 0.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("multihead"), style("multihead")
    letters = traitlets.List(traitlets.Unicode()).tag(sync=True)
    models = traitlets.List().tag(sync=True)
    deals = traitlets.List().tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, models, chosen=4, step=0, text=None):
        if not models or len({model.num_heads for model in models}) < len(models):
            raise ValueError(
                "the figure wants one or more models, no two with the same number of heads"
            )
        data = []
        for model in models:
            numbers = {name: parameter.tolist() for name, parameter in model.named_parameters()}
            without = [correct(model, silent=t) for t in range(model.num_heads)]
            data.append(
                {
                    "num_heads": model.num_heads,
                    "correct": correct(model),
                    "without": without,
                    **numbers,
                }
            )
        deals = [[tensor.tolist() for tensor in cards(one)] for one in (DEAL, NEIGHBOURS)]
        super().__init__(
            TEXT, text, letters=LETTERS, models=data, deals=deals, chosen=chosen, step=step
        )


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return MultiHeadFigure([train(2, steps=2)])

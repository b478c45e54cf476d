"""A model of 24 cards, the ways to save that chapter 10 tries on it, what they hold in memory, and
its figure.

The cards are those of chapter 6, in a longer row: each has to say the digit of the card on its
left, and that of its twin, which is the same letter in the other size, anywhere in the row. `train`
makes the model, the same each time.

The figure computes in JavaScript (efficient.js), so it answers in a page without a kernel.
Everything a reader sees comes from `TEXT`, so that a translation passes another dictionary.
"""

import string
import weakref

import torch
import traitlets
from figures.course import as_the_page
from figures.widget import Figure, script, style
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# twins side by side
LETTERS = [letter for small in string.ascii_lowercase[:12] for letter in (small, small.upper())]
CARDS = len(LETTERS)  # n, each letter once
DIGITS, WIDTH, HEADS = 5, 32, 4


# ---- the model
# -------------------------------------------------------------------------------------------


def deal(number, seed):
    """Return so many rows of cards: letters (number, 24) and digits (number, 24), both counted
    from 0.
    """
    generator = torch.Generator().manual_seed(seed)
    letters = torch.rand(number, CARDS, generator=generator).argsort(-1)
    return letters, torch.randint(DIGITS, (number, CARDS), generator=generator)


def answers(letters, digits):
    """Return what is right: (..., 24, 2), the digit on the left (never asked of the first card)
    and the twin's.
    """
    twin = (letters ^ 1)[..., :, None] == letters[..., None, :]
    return torch.stack([digits.roll(1, -1), (twin * digits[..., None, :]).sum(-1)], -1)


def attend(Q, K, V):
    """(..., n, d) three times -> (..., n, d)"""
    return (Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1) @ V


class Cards(nn.Module):
    """Multi-head attention between embeddings and two answers, with as many key and value heads as
    wanted.

    With `latent`, all keys and values of a card are made from one short vector of so many numbers.
    """

    def __init__(self, num_kv_heads=HEADS, latent=None):
        super().__init__()
        self.num_kv_heads, self.latent = num_kv_heads, latent
        self.letters = nn.Parameter(torch.randn(CARDS, WIDTH))
        self.digits = nn.Parameter(torch.randn(DIGITS, WIDTH))
        self.places = nn.Parameter(torch.randn(CARDS, WIDTH))
        narrow = WIDTH // HEADS * num_kv_heads
        sizes = {
            "W_q": (WIDTH, WIDTH),
            "W_k": (latent or WIDTH, narrow),
            "W_v": (latent or WIDTH, narrow),
        }
        sizes |= {"W_o": (WIDTH, WIDTH)} | ({"W_c": (WIDTH, latent)} if latent else {})
        for name, size in sizes.items():
            setattr(self, name, nn.Parameter(torch.empty(size).uniform_(-1, 1) / size[0] ** 0.5))
        self.readout = nn.Parameter(torch.empty(WIDTH, 2 * DIGITS).uniform_(-1, 1) / WIDTH**0.5)

    def qkv(self, letters, digits):
        """Return Q (..., 4, n, 8), K and V (..., h_kv, n, 8)."""
        X = self.letters[letters] + self.digits[digits] + self.places
        C = X @ self.W_c if self.latent else X
        projections = (
            (X @ self.W_q, HEADS),
            (C @ self.W_k, self.num_kv_heads),
            (C @ self.W_v, self.num_kv_heads),
        )
        return [Y.unflatten(-1, (h, -1)).transpose(-2, -3) for Y, h in projections]

    def forward(self, letters, digits, core=attend):
        """Return scores of the answers (..., n, 2, 5); `core` does what attention does with Q, K
        and V.
        """
        Q, K, V = self.qkv(letters, digits)
        share = HEADS // self.num_kv_heads
        Z = core(Q, K.repeat_interleave(share, -3), V.repeat_interleave(share, -3))
        return (Z.transpose(-2, -3).flatten(-2) @ self.W_o @ self.readout).unflatten(
            -1, (2, DIGITS)
        )


@torch.no_grad()
def correct(model, core=attend, number=500, seed=1):
    """Return the share of right answers on new cards: for the left neighbour, and for the twin."""
    letters, digits = deal(number, seed)
    right = model(letters, digits, core).argmax(-1) == answers(letters, digits)
    return right[:, 1:, 0].double().mean().item(), right[..., 1].double().mean().item()


def train(num_kv_heads=HEADS, core=attend, steps=400, batch=64, rate=0.01, seed=0, latent=None):
    """Return a model that was trained for some seconds, in float64, with rounded numbers."""
    with as_the_page(seed, torch.float32):
        model = Cards(num_kv_heads, latent)
        optimizer = torch.optim.Adam(model.parameters(), rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, max(steps, 2))
        for step in range(steps):
            letters, digits = deal(batch, 1000 + step)
            scores, right = model(letters, digits, core), answers(letters, digits)
            loss = nn.functional.cross_entropy(
                scores[:, 1:, 0].flatten(0, 1), right[:, 1:, 0].flatten()
            )
            loss = loss + nn.functional.cross_entropy(
                scores[..., 1, :].flatten(0, 1), right[..., 1].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model = rebuilt(model.state_dict(), num_kv_heads, latent)
    if num_kv_heads == HEADS:
        left, twin = looks(model)
        # who looks left first, who looks for twins last: nothing else changes
        order = (twin - left).argsort()
        for name in ("W_q", "W_k", "W_v", "W_o"):
            axis = 0 if name == "W_o" else 1
            parts = getattr(model, name).chunk(HEADS, axis)
            getattr(model, name).copy_(torch.cat([parts[t] for t in order], axis))
    return model


def rebuilt(numbers, num_kv_heads=HEADS, latent=None):
    """Return the model with such numbers, by name, as `state_dict` has them; in float64, and
    rounded.
    """
    with as_the_page(seed=0):
        model = Cards(num_kv_heads, latent)
    model.load_state_dict(
        {name: value.double().round(decimals=3) for name, value in numbers.items()}
    )
    return model.requires_grad_(False)


@torch.no_grad()
def looks(model, number=100, seed=2):
    """Return the weight that each head (4,) gives to the card on the left, and to the twin, on
    average.
    """
    letters, digits = deal(number, seed)
    Q, K, _ = model.qkv(letters, digits)
    A = (Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1)  # (number, 4, n, n)
    twin = ((letters ^ 1)[:, :, None] == letters[:, None, :])[:, None]
    left = A.diagonal(-1, -2, -1)  # (number, 4, n - 1)
    return left.mean((0, 2)), (A * twin).sum(-1).mean((0, 2))


# ---- the ways to save, for all heads at once
# -------------------------------------------------------------


def chunked(Q, K, V, size):
    """Full attention by the online softmax: (..., n, d) three times -> (..., n, d_v), never (n,
    n).
    """
    shape = (*Q.shape[:-1], 1)
    top, total, Z = (
        Q.new_full(shape, -torch.inf),
        Q.new_zeros(shape),
        Q.new_zeros(*Q.shape[:-1], V.shape[-1]),
    )
    for k, v in zip(K.split(size, -2), V.split(size, -2), strict=True):
        S = Q @ k.mT / Q.shape[-1] ** 0.5
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        E, keep = (S - new).exp(), (top - new).exp()
        total, Z, top = keep * total + E.sum(-1, keepdim=True), keep * Z + E @ v, new
    return Z / total


def windowed(Q, K, V, window):
    """Keys at a distance of `window` at most, in blocks of as many queries: never (n, n)."""
    n, size, parts = Q.shape[-2], max(window, 1), []
    for start in range(0, n, size):
        low, high = max(0, start - window), min(n, start + size + window)
        i, j = torch.arange(start, min(n, start + size))[:, None], torch.arange(low, high)
        S = Q[..., start : start + size, :] @ K[..., low:high, :].mT / Q.shape[-1] ** 0.5
        parts.append(
            S.masked_fill((i - j).abs() > window, -torch.inf).softmax(-1) @ V[..., low:high, :]
        )
    return torch.cat(parts, -2)


def linear(Q, K, V):
    """Linear attention with the features elu + 1."""
    q, k = (torch.nn.functional.elu(x) + 1 for x in (Q, K))
    return q @ (k.mT @ V) / (q @ k.sum(-2)[..., None])


def averaged(M, count):
    """(..., h, n, d) -> the same, with neighbouring heads replaced by their average, so that
    `count` are left.
    """
    share = M.shape[-3] // count
    return M.unflatten(-3, (count, share)).mean(-3).repeat_interleave(share, -3)


def grouped(Q, K, V, count):
    """Attention with the average keys and values of each group of heads."""
    return attend(Q, averaged(K, count), averaged(V, count))


def rounded(X, bits):
    """Numbers (..., d) as a cache of so many bits keeps them: integers, times one factor for
    each vector.
    """
    top = 2 ** (bits - 1) - 1
    scale = X.abs().amax(-1, keepdim=True) / top
    return (X / scale).round() * scale


def apart(Z, right):
    """How far Z is from the right one, as a share of its size."""
    return ((Z - right).norm() / right.norm()).item()


# ---- what is in memory
# -----------------------------------------------------------------------------------


class Watch(TorchDispatchMode):
    """Counts the bytes of all tensors that are made while it is on and still there, and the most
    there were.
    """

    def __init__(self):
        super().__init__()
        self.users, self.now, self.most = {}, 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        tensors = [
            tensor for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, torch.Tensor)
        ]
        inputs = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                address, size = (
                    tensor.untyped_storage().data_ptr(),
                    tensor.untyped_storage().nbytes(),
                )
                if address in inputs and address not in self.users:
                    continue  # a view of what was there before
                if address not in self.users:
                    self.now += size
                self.users[address] = self.users.get(address, 0) + 1
                weakref.finalize(tensor, self.gone, address, size)
        self.most = max(self.most, self.now)
        return out

    def gone(self, address, size):
        self.users[address] -= 1
        if not self.users[address]:
            del self.users[address]
            self.now -= size


def most_bytes(f, *inputs):
    """Return the most bytes of tensors that were there at once while f ran, without its inputs."""
    with Watch() as watch:
        f(*inputs)
    return watch.most


# ---- the figure
# ------------------------------------------------------------------------------------------

METHODS = ["full", "chunks", "window", "linear", "grouped"]
STOPS = {
    "chunk": [1, 2, 3, 4, 6, 8, 12, 24],
    "window": list(range(CARDS)),
    "num_kv_heads": [1, 2, 4],
}
START = {"method": "full", "head": 3, "chunk": 6, "window": 2, "num_kv_heads": 2}

# The things to try, in the order of `TEXT["tries"]`: what each sets.
TRIES = [
    START,
    START | {"method": "chunks"},
    START | {"method": "window", "head": 0},
    START | {"method": "window"},
    START | {"method": "linear"},
    START | {"method": "grouped"},
]

TEXT = {
    "title": "Five ways to compute the same attention: pattern, cost and error",
    "try": "Things to try",
    "tries": ["All of it", "In chunks", "A window", "The far twin", "Linear", "Half the key heads"],
    "method": "Method",
    "methods": ["Full", "Chunks", "Window", "Linear", "Fewer key heads"],
    "head": "Head",
    "chunk": "chunk",
    "window": "window",
    "num_kv_heads": "key heads",
    "pattern": "Weights of head {head}",
    "pattern_label": "Weights of head {head}, {method}: {n} queries down, {n} keys across. {most}",
    "keys": "keys",
    "queries": "queries",
    "table": "Each method against full attention",
    "columns": ["Method", "Pairs", "Held", "Cache", "Error"],
    "units": ["", "computed", "at once", "per token", "this head"],
    "of_all": "All heads together: {error}",
    "exact": "0",
    "percent": "{number}%",
    "say_full": "Every query meets every key: {pairs} pairs in each head, and {held} scores at "
    "once.",
    "say_chunks": "The outlined keys are one chunk. All {pairs} pairs are computed, but only "
    "{held} scores and sums are held at once. The result is the same up to rounding.",
    "say_window": "A card sees {window} to each side: {pairs} of {all} pairs. In this head they "
    "have {kept} of the weight, and the output is off by {error}.",
    "say_linear": "No pair is computed: all keys and values go into one table; with sums, {held} "
    "numbers. The weights shown would give the same output; this head’s output is "
    "off by {error}.",
    "say_grouped": "Key heads: {num_kv_heads} instead of 4, averages of the trained ones. That "
    "makes {cache} cached numbers per token instead of {whole}. This head’s output "
    "is off by {error}.",
    "say_grouped_all": "As many key heads as query heads: full attention, with {cache} cached "
    "numbers per token.",
}


class EfficientFigure(Figure):
    """One row of cards, the queries, keys and values of a trained layer, and five ways to attend.

    Args:
        model: of `train`, with four key heads.
        cards: letters and digits of one row, two tensors (24,); by default one of `deal`.
        state: what is shown first, with the keys of `START`.
        tries: states that a button sets; named by `text["tries"]`.
        text: the words of the figure, by the keys of `TEXT`.
    """

    _esm, _css = script("efficient"), style("efficient")
    letters = traitlets.List().tag(sync=True)
    qkv = traitlets.List().tag(sync=True)
    stops = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    tries = traitlets.List().tag(sync=True)

    def __init__(self, model, cards=None, state=START, tries=TRIES, text=None):
        if model.num_kv_heads != HEADS:
            raise ValueError(f"the figure averages key heads itself: it wants a model with {HEADS}")
        if state["method"] not in METHODS or any(
            state[name] not in stops for name, stops in STOPS.items()
        ):
            raise ValueError(
                f"what is shown first is a method and a stop of each slider, not {state}"
            )
        letters, digits = row() if cards is None else cards
        super().__init__(
            TEXT,
            text,
            letters=[LETTERS[k] for k in letters.tolist()],
            qkv=[part.tolist() for part in inputs(model, (letters, digits))],
            stops=STOPS,
            state=dict(state),
            tries=list(tries),
        )


def row(seed=7):
    """Return the row of cards that the figure and the page show: letters and digits (24,)."""
    letters, digits = deal(1, seed)
    return letters[0], digits[0]


def inputs(model, cards=None):
    """Return Q, K, V (4, 24, 8) of one row of cards, rounded to what the figure gets."""
    return [part.round(decimals=4) for part in model.qkv(*(cards or row()))]


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return EfficientFigure(train(steps=2))

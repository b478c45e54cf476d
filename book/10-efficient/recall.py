"""The cards of chapter 10 as a recall task, and one layer with many memories that learns it.

A row of cards is read from left to right. Letters repeat. Each card has to say the digit of the
last card before it that carried its twin, which is the same letter in the other size, or that there
was none.
"""

import math

import torch
from figures.course import as_the_page
from torch import nn
from torch.nn import functional as F  # noqa: N812 (as PyTorch’s own pages do)

LETTERS, CARDS, DIGITS, WIDTH, HEADS = 16, 32, 5, 32, 4
NONE = DIGITS  # the answer where no twin came before
KINDS = (
    "softmax",
    "linear attention",
    "RetNet",
    "Mamba-2",
    "GLA",
    "DeltaNet",
    "Gated DeltaNet",
    "Kimi Linear",
)
SOFTMAX = ("softmax", "blocks")


def deal(number, seed):
    """Return rows of cards: letters, digits, answers, and how far back each answer lies, all
    (number, 32).

    The distance is 0 where no twin came before.
    """
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(LETTERS, (number, CARDS), generator=generator)
    digits = torch.randint(DIGITS, (number, CARDS), generator=generator)
    i = torch.arange(CARDS)
    last = torch.where(twins(letters), i, -1).amax(-1)
    right = torch.where(last < 0, NONE, digits.gather(1, last.clamp(min=0)))
    return letters, digits, right, torch.where(last < 0, 0, i - last)


def twins(letters):
    """Return where a twin came before: (..., n, n), query by key."""
    return ((letters ^ 1)[..., :, None] == letters[..., None, :]).tril(-1)


def mixed(Q, K, V, decay=None, beta=None):
    """All steps of S_t = G_t S_{t-1} + beta_t k_t^T v_t at once, and what each query reads: q_t
    S_t.

    Args:
        Q, K: (..., n, d_k)
        V: (..., n, d_v)
        decay: logarithms of what a step leaves, (..., n, 1) for a whole state or (..., n, d_k) row
        by row. beta: (..., n, 1), how much of what a key reads is replaced: the delta rule. None:
        values are added.
    """
    n = Q.shape[-2]
    if decay is not None:
        past = decay.cumsum(-2)  # all that was left over since the first step, (..., n, 1 or d_k)
        middle = past[..., n // 2 : n // 2 + 1, :]
        Q, erase, K = (
            Q * (past - middle).exp(),
            K * (past - middle).exp(),
            K * (middle - past).exp(),
        )
    else:
        erase = K
    if beta is not None:
        system = torch.eye(n, dtype=Q.dtype) + beta * (erase @ K.mT).tril(-1)  # (..., n, n)
        V = torch.linalg.solve_triangular(system, beta * V, upper=False, unitriangular=True)
    return (Q @ K.mT).tril() @ V


class Recall(nn.Module):
    """One layer of four heads between embeddings and the answer; a blank card comes first in
    each row.
    """

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        for name, rows in (
            ("letters", LETTERS),
            ("digits", DIGITS),
            ("blank", 1),
            ("places", CARDS + 1),
        ):
            setattr(self, name, nn.Parameter(torch.randn(rows, WIDTH)))
        gates = WIDTH if kind in ("GLA", "Kimi Linear") else HEADS
        columns = {
            "W_q": WIDTH,
            "W_k": WIDTH,
            "W_v": WIDTH,
            "W_o": WIDTH,
            "W_g": gates,
            "W_b": HEADS,
        }
        for name, count in (columns | {"readout": DIGITS + 1}).items():
            setattr(
                self, name, nn.Parameter(torch.empty(WIDTH, count).uniform_(-1, 1) / WIDTH**0.5)
            )

    def qkv(self, letters, digits):
        """Return the cards' vectors (b, n, 32), and Q, K and V (b, 4, n, 8), where n counts the
        blank card.
        """
        X = self.letters[letters] + self.digits[digits]
        X = torch.cat([self.blank.expand(len(X), 1, WIDTH), X], 1)
        if self.kind in SOFTMAX:
            X = X + self.places
        return X, *(split(X @ W) for W in (self.W_q, self.W_k, self.W_v))

    def forward(self, letters, digits, see=None):
        """Return scores of the answers (b, 32, 6); `see(Q, K)` says which earlier keys softmax
        may see.
        """
        X, Q, K, V = self.qkv(letters, digits)
        if self.kind in SOFTMAX:
            see = see or (blocks(2) if self.kind == "blocks" else everything)
            Z = (Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(~see(Q, K), -math.inf).softmax(-1) @ V
        elif self.kind == "linear attention":
            W = ((F.elu(Q) + 1) @ (F.elu(K) + 1).mT).tril()
            Z = W / W.sum(-1, keepdim=True) @ V
        else:
            Q, K = (F.normalize(F.silu(x), dim=-1) for x in (Q, K))
            Z = mixed(
                Q,
                K,
                V,
                self.decay(X),
                split(X @ self.W_b).sigmoid() if self.kind in DELTA else None,
            )
            Z = F.rms_norm(Z, Z.shape[-1:])  # in place of a denominator
        return (Z.transpose(-2, -3).flatten(-2) @ self.W_o @ self.readout)[:, 1:]

    def decay(self, X):
        """Return the logarithm of what is left of a state in each step: (..., n, 1) or (..., n,
        8), or None.
        """
        if self.kind == "DeltaNet":
            return None
        if self.kind == "RetNet":
            rates = torch.log(1 - 2.0 ** -torch.arange(2, 2 + HEADS)).to(X)  # from 3/4 to 31/32
            return rates[:, None, None].expand(-1, X.shape[1], 1)
        return F.logsigmoid(split(X @ self.W_g) + 3).clamp(min=-1)  # at first nearly all


DELTA = ("DeltaNet", "Gated DeltaNet", "Kimi Linear")


def split(X):
    """(b, n, 4 w) -> (b, 4, n, w)"""
    return X.unflatten(-1, (HEADS, -1)).transpose(-2, -3)


def train(kind, seed, steps=300, batch=32, rate=0.02):
    """Return a layer that was trained for a few seconds."""
    with as_the_page(seed, torch.float32):
        model = Recall(kind)
        optimizer = torch.optim.Adam(model.parameters(), rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps)
        for step in range(steps):
            letters, digits, right, _ = deal(batch, 1000 * (seed + 1) + step)
            loss = F.cross_entropy(model(letters, digits).flatten(0, 1), right.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.requires_grad_(False)


# ---- which keys a query sees
# -----------------------------------------------------------------------------


def everything(Q, K):
    """All keys up to the query's own place: (n, n)."""
    return torch.ones(Q.shape[-2], K.shape[-2], dtype=torch.bool).tril()


def window(width, first=0):
    """The last `width` keys, and so many of the first ones."""

    def see(Q, K):
        i, j = torch.arange(Q.shape[-2])[:, None], torch.arange(K.shape[-2])
        return everything(Q, K) & ((i - j < width) | (j < first))

    return see


def best(scores, count):
    """The `count` keys with the highest scores (..., n, n) before the query, and its own."""

    def see(Q, K):
        past = everything(Q, K).tril(-1)
        top = scores.masked_fill(~past, -math.inf).topk(count, -1).indices
        chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, top, True)
        return chosen & past | torch.eye(len(past), dtype=torch.bool)

    return see


def blocks(count, size=4):
    """The query's own block of keys, and the `count` - 1 earlier ones whose average key suits it
    best.
    """

    def see(Q, K):
        n = K.shape[-2]
        block = torch.arange(n)[:, None] // size  # (n, 1)
        b = torch.arange(-(-n // size))
        # (..., blocks, d)
        means = F.pad(K, (0, 0, 0, len(b) * size - n)).unflatten(-2, (len(b), size)).mean(-2)
        scores = (Q @ means.mT).masked_fill(b >= block, -math.inf)  # (..., n, blocks)
        chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(
            -1, scores.topk(count - 1, -1).indices, True
        )
        return (chosen | (b == block)).repeat_interleave(size, -1)[..., :n] & everything(Q, K)

    return see

"""Exercise 12 computed pixel by pixel and token by token: its checks compare with this. Students do not get it."""

import numpy as np
import torch


def cut(images, size):
    """Return the patches of pictures (b, c, H, W), each sliced out of its picture."""
    H, W = images.shape[-2:]
    squares = [
        images[:, :, top : top + size, left : left + size].flatten(1)
        for top in range(0, H, size)
        for left in range(0, W, size)
    ]
    return torch.stack(squares, 1)


def joined(tokens, size, channels, height):
    """Return pictures (b, channels, height, width): rows of patches side by side, one row below another."""
    columns = tokens.shape[1] // (height // size)
    squares = [patch.unflatten(-1, (channels, size, size)) for patch in tokens.unbind(1)]
    rows = [
        torch.cat(squares[first : first + columns], -1) for first in range(0, len(squares), columns)
    ]
    return torch.cat(rows, -2)


def placed(tokens, cls, by_row, by_column):
    """Return tokens (b, 1 + n, d), the class token first, and its place added to each other token."""
    columns = len(by_column)
    others = [
        x + by_row[at // columns] + by_column[at % columns] for at, x in enumerate(tokens.unbind(1))
    ]
    return torch.stack([cls + torch.zeros_like(tokens[:, 0]), *others], 1)


def turned(X, rows, columns):
    """Return X (..., n, d), pairs turned as (x + iy) e^(it): the first d / 4 by rows, the others by columns."""
    quarter = X.shape[-1] // 4
    slower = 10000.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    angles = torch.cat([at.double()[:, None] * slower for at in (rows, columns)], -1)
    pairs = torch.view_as_complex(X.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def may_attend(kinds):
    """Return the mask (n, n): each token sees up to a last place; for images it is the last of their run."""
    last = list(range(len(kinds)))
    for i in reversed(range(len(kinds) - 1)):
        if kinds[i] == kinds[i + 1] == "image":
            last[i] = last[i + 1]
    return np.arange(len(kinds)) <= np.array(last)[:, None]


SPECIFICATIONS = {"patches": cut, "unpatch": joined, "with_places": placed, "grid_rotary": turned}

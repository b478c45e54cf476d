"""Right answers that look different from ours; the tests run the checks on them. Students do not get them.

Some allow any broadcasting, and fail only advice: these also earn all points.
"""

import itertools

import numpy as np
import torch
from torch import nn

from checking import right
from misconceptions import ends, fitting, halves, rotary, whole

# by_hand


@right("by_hand")
def by_hand_as_an_array():
    i, j = np.meshgrid([2, 3], [2, 3], indexing="ij")
    return np.stack([10 * i + j, 100 + 10 * i + j])


# patches


@right("patches")
def patches_views(images, size):
    X = images.unflatten(-1, (-1, size)).unflatten(
        -3, (-1, size)
    )  # (b, c, rows, size, columns, size)
    return X.transpose(-3, -2).flatten(2, 3).transpose(1, 2).flatten(2)


@right("patches")
def patches_einsum(images, size):
    b, c, rows, columns = fitting(images, size)
    X = torch.einsum("bcrisj->brscij", images.reshape(b, c, rows, size, columns, size))
    return X.reshape(b, rows * columns, -1)


@right("patches")
def patches_tensor_unfold(images, size):
    fitting(images, size)
    X = images.unfold(2, size, size).unfold(3, size, size)  # (b, c, rows, columns, size, size)
    return X.permute(0, 2, 3, 1, 4, 5).flatten(1, 2).flatten(2)


@right("patches")
def patches_by_slices(images, size):
    H, W = images.shape[-2:]
    if H % size != 0 or W % size != 0:
        raise ValueError(f"{H} x {W} pixels do not make patches of {size} x {size}")
    tokens = []
    for top in range(0, H, size):
        for left in range(0, W, size):
            tokens.append(
                images[:, :, top : top + size, left : left + size].reshape(len(images), -1)
            )
    return torch.stack(tokens, dim=1)


@right("patches")
def patches_by_chunks(images, size):
    fitting(images, size)
    rows = [strip.split(size, dim=3) for strip in images.split(size, dim=2)]
    return torch.cat([square.flatten(1).unsqueeze(1) for strip in rows for square in strip], dim=1)


@right("patches")
def patches_by_convolution(images, size):
    _b, c, _rows, _columns = fitting(images, size)
    weight = torch.eye(c * size * size, dtype=images.dtype).reshape(-1, c, size, size)
    return nn.functional.conv2d(images, weight, stride=size).flatten(2).transpose(1, 2)


@right("patches")
def patches_gathered(images, size):
    b, c, rows, columns = fitting(images, size)
    places = torch.arange(images[0].numel()).reshape(c, rows, size, columns, size)
    order = places.permute(1, 3, 0, 2, 4).reshape(rows * columns, -1)
    return images.reshape(b, -1)[:, order]


# unpatch


@right("unpatch")
def unpatch_permuted(tokens, size, channels, height):
    # A last row that is not full does not fit into the shape; a height between two multiples is not noticed.
    X = tokens.unflatten(-1, (channels, size, size)).unflatten(
        1, (height // size, -1)
    )  # (b, rows, columns, c, i, j)
    return X.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)


@right("unpatch")
def unpatch_einsum(tokens, size, channels, height):
    b, rows, columns = whole(tokens, size, channels, height)
    X = tokens.reshape(b, rows, columns, channels, size, size)
    return torch.einsum("brscij->bcrisj", X).reshape(b, channels, height, columns * size)


@right("unpatch")
def unpatch_by_slices(tokens, size, channels, height):
    b, _rows, columns = whole(tokens, size, channels, height)
    images = tokens.new_zeros(b, channels, height, columns * size)
    for at in range(tokens.shape[1]):
        top, left = at // columns * size, at % columns * size
        images[:, :, top : top + size, left : left + size] = tokens[:, at].reshape(
            b, channels, size, size
        )
    return images


@right("unpatch")
def unpatch_rows_of_patches(tokens, size, channels, height):
    _b, rows, _columns = whole(tokens, size, channels, height)
    strips = []
    for strip in tokens.chunk(rows, dim=1):
        strips.append(
            torch.cat([row.unflatten(1, (channels, size, size)) for row in strip.unbind(1)], dim=3)
        )
    return torch.cat(strips, dim=2)


@right("unpatch")
def unpatch_searched(tokens, size, channels, height):
    """Cut the numbers of all positions, and see where each one went."""
    b, _rows, columns = whole(tokens, size, channels, height)
    places = torch.arange(tokens[0].numel()).reshape(1, channels, height, columns * size)
    order = patches_by_slices(places, size).flatten().argsort()
    return tokens.flatten(1)[:, order].reshape(b, channels, height, columns * size)


# with_places


@right("with_places")
def with_places_repeated(tokens, cls, by_row, by_column):
    P = by_row.repeat_interleave(len(by_column), 0) + by_column.repeat(len(by_row), 1)
    return torch.cat([cls.repeat(len(tokens), 1, 1), tokens + P], 1)


@right("with_places")
def with_places_in_a_grid(tokens, cls, by_row, by_column):
    X = (
        tokens.unflatten(1, (len(by_row), len(by_column)))
        + by_row[:, None, :]
        + by_column[None, :, :]
    )
    return torch.cat((cls.expand(len(tokens), 1, len(cls)), X.flatten(1, 2)), dim=1)


@right("with_places")
def with_places_written(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    result = torch.empty(b, 1 + n, d, dtype=tokens.dtype)
    result[:, 0] = cls
    for r in range(len(by_row)):
        for s in range(len(by_column)):
            at = r * len(by_column) + s
            result[:, 1 + at] = tokens[:, at] + by_row[r] + by_column[s]
    return result


@right("with_places")
def with_places_of_products(tokens, cls, by_row, by_column):
    """One-hot rows and columns times the learned vectors, and no place for the class token."""
    rows, columns = len(by_row), len(by_column)
    at = torch.arange(rows * columns)
    P = nn.functional.one_hot(at // columns, rows).to(by_row) @ by_row
    P = P + nn.functional.one_hot(at % columns, columns).to(by_column) @ by_column
    with_class = torch.cat([torch.zeros_like(tokens[:, :1]) + cls, tokens], 1)
    return with_class + nn.functional.pad(P, (0, 0, 1, 0))


# grid_rotary


@right("grid_rotary")
def grid_rotary_split(X, rows, columns):
    return torch.cat(
        [rotary(half, at) for half, at in zip(halves(X), (rows, columns), strict=True)], dim=-1
    )


@right("grid_rotary")
def grid_rotary_angles(X, rows, columns):
    d = X.shape[-1]
    if d % 4:
        raise ValueError(f"d is {d}")
    slower = 10000.0 ** (-torch.arange(0, d // 2, 2) / (d // 2))
    angles = torch.cat(
        [torch.outer(rows.float(), slower), torch.outer(columns.float(), slower)], 1
    )  # (n, d / 2)
    cos, sin = torch.cos(angles).to(X.dtype), torch.sin(angles).to(X.dtype)
    turned = torch.empty_like(X)
    turned[..., 0::2] = X[..., 0::2] * cos - X[..., 1::2] * sin
    turned[..., 1::2] = X[..., 0::2] * sin + X[..., 1::2] * cos
    return turned


@right("grid_rotary")
def grid_rotary_complex(X, rows, columns):
    n, d = X.shape[-2:]
    if d % 4 or not n == len(rows) == len(columns):
        raise ValueError("sizes that do not fit")
    slower = torch.exp(-torch.arange(d // 4) * 4 / d * np.log(10000))
    angles = (torch.stack([rows, columns], -1)[..., None] * slower).flatten(-2)
    pairs = torch.view_as_complex(X.float().contiguous().unflatten(-1, (-1, 2)))
    return (
        torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles))
        .flatten(-2)
        .to(X.dtype)
    )


@right("grid_rotary")
def grid_rotary_matrices(X, rows, columns):
    first, second = halves(X)
    turned = []
    for half, at in ((first, rows), (second, columns)):
        for i in range(half.shape[-1] // 2):
            angle = at * 10000.0 ** (-2 * i / half.shape[-1])
            cos, sin = angle.cos(), angle.sin()
            R = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2).to(
                X.dtype
            )  # (n, 2, 2)
            turned.append((R @ half[..., 2 * i : 2 * i + 2, None]).squeeze(-1))
    return torch.cat(turned, -1)


# multimodal_mask


@right("multimodal_mask")
def multimodal_mask_entry_by_entry(kinds):
    n = len(kinds)
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(n):
            mask[i, j] = j <= i or (kinds[i] == kinds[j] == "image" and mask[i, j - 1])
    return mask


@right("multimodal_mask")
def multimodal_mask_groups(kinds):
    mask = torch.tril(torch.ones(len(kinds), len(kinds))).bool()
    start = 0
    for kind, members in itertools.groupby(kinds):
        stop = start + len(list(members))
        if kind == "image":
            mask[start:stop, start:stop] = True
        start = stop
    return mask


@right("multimodal_mask")
def multimodal_mask_numbered_runs(kinds):
    image = np.array([kind == "image" for kind in kinds])
    starts = image & ~np.concatenate([[False], image[:-1]])
    run = np.where(image, starts.cumsum(), 0)
    return np.tri(len(kinds), dtype=bool) | ((run[:, None] == run) & (run > 0))


@right("multimodal_mask")
def multimodal_mask_while(kinds):
    n = len(kinds)
    rows = []
    for i in range(n):
        end = i
        while kinds[i] == "image" and end + 1 < n and kinds[end + 1] == "image":
            end += 1
        rows.append([j <= end for j in range(n)])
    return torch.tensor(rows)


@right("multimodal_mask")
def multimodal_mask_blocks(kinds):
    first, last = (torch.tensor(bounds) for bounds in ends(kinds))
    j = torch.arange(len(kinds))
    return (j <= j[:, None]) | ((first[:, None] <= j) & (j <= last[:, None]))

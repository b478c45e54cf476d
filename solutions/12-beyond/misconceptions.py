"""Wrong answers that people really give, each with a hint, and right ones that other mistakes are made from. Students
get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import numpy as np
import torch
from torch import nn

from checking import families, misconception, right

# by_hand: wrong


@misconception(
    "by_hand",
    label="channel by channel within each pixel",
    hint="The two numbers of each pixel are next to each other. All four numbers of the first channel should come "
    "first, then all of the second.",
)
def by_hand_pixel_by_pixel():
    return [22, 122, 23, 123, 32, 132, 33, 133]


@misconception(
    "by_hand",
    label="channel by channel within each row",
    hint="Each row of the patch has the numbers of both channels. All four numbers of the first channel should come "
    "first, then all of the second.",
)
def by_hand_row_by_row():
    return [22, 23, 122, 123, 32, 33, 132, 133]


@misconception(
    "by_hand",
    label="patches counted down the columns",
    hint="That is patch 4 if you count down the columns. Patches are counted row by row: patch 3 is the first in "
    "the second row.",
)
def by_hand_down_the_columns():
    return [4, 5, 14, 15, 104, 105, 114, 115]


@misconception(
    "by_hand",
    label="patches counted from 1",
    hint="That is patch 3. The patch in the upper left corner is patch 0.",
)
def by_hand_from_1():
    return [20, 21, 30, 31, 120, 121, 130, 131]


@misconception(
    "by_hand",
    label="each patch read down its columns",
    hint="That is the right square. Read it row by row: the pixel on the right comes before the pixel below.",
)
def by_hand_transposed():
    return [22, 32, 23, 33, 122, 132, 123, 133]


@misconception(
    "by_hand",
    label="run of eight neighbors in memory",
    hint="Those are eight adjacent numbers in memory. A patch is a square: two pixels in one row, two in the row "
    "below.",
)
def by_hand_run():
    return [112, 113, 114, 115, 120, 121, 122, 123]


@misconception(
    "by_hand",
    label="patch 5 instead of patch 4",
    hint="That is patch 5. In a row of 6 pixels there are 3 patches, so patch 4 is the second in the second row.",
)
def by_hand_next():
    return [24, 25, 34, 35, 124, 125, 134, 135]


# patches: in steps that a mistake can take the place of


def fitting(images, size):
    """Return b, c, and how many rows and columns of patches there are; raise where the last ones are not whole."""
    b, c, H, W = images.shape
    if H % size or W % size:
        raise ValueError("the patches do not fill the picture")
    return b, c, H // size, W // size


def split(images, size):
    """Return the pixels with axes (b, c, row of patches, row, column of patches, column)."""
    b, c, rows, columns = fitting(images, size)
    return images.reshape(b, c, rows, size, columns, size)


def ordered(label, hint, *axes):
    """List the wrong answer that brings the axes of `split` into another order."""

    def answer(images, size):
        X = split(images, size)
        return X.permute(axes).reshape(len(X), -1, X.shape[1] * size * size)

    answer.__name__ = "patches_axes_" + "_".join(map(str, axes))
    return misconception("patches", label, hint)(answer)


patches_pixel_by_pixel = ordered(
    "channel last in each patch",
    "The numbers of a patch are in pixel order, with all channels of a pixel next to each other. The order should "
    "be (channel, row, column): the channels of the patch one after another.",
    0, 2, 4, 3, 5, 1,
)  # fmt: skip
patches_columns_first = ordered(
    "patches counted down the columns",
    "The second patch is below the first one. Count the patches row by row: it should be on the right.",
    0, 4, 2, 1, 3, 5,
)  # fmt: skip
patches_pixels_transposed = ordered(
    "each patch read down its columns",
    "The pixels of each patch go down its columns: rows and columns are swapped at the end of `permute`.",
    0, 2, 4, 1, 5, 3,
)  # fmt: skip
patches_all_transposed = ordered(
    "pictures transposed",
    "Both the patches and the pixels in them go down the columns: the picture was cut as if its rows were its "
    "columns.",
    0, 4, 2, 1, 5, 3,
)  # fmt: skip
patches_row_in_the_middle = ordered(
    "patch dimensions not adjacent",
    "The dimensions are split, but permuted in the wrong way: a row of pixels goes through all patches of a row. "
    "Put the two dimensions that count patches next to each other, before the channel.",
    0, 2, 3, 1, 4, 5,
)  # fmt: skip
patches_spread = ordered(
    "pixels that are not neighbors",
    "Each patch has pixels that are far apart: of the two dimensions that a side is split into, the wrong one "
    "counts the patches. (H, W) splits into (H / size, size, W / size, size), and the first and the third count "
    "patches.",
    0, 3, 5, 1, 2, 4,
)  # fmt: skip


@misconception(
    "patches",
    label="only a reshape",
    hint="`reshape` keeps the order in memory, so each patch is a strip of neighbors in a row. Split both sides "
    "into patches and pixels, reorder the dimensions with `permute`, and reshape at the end.",
)
def patches_reshaped(images, size):
    b, c, rows, columns = fitting(images, size)
    return images.reshape(b, rows * columns, c * size * size)


@misconception(
    "patches",
    label="channels before patches",
    hint="Each token has numbers of one channel, or of mixed channels: before the last `reshape`, the channel "
    "dimension comes before the patches. It belongs after them.",
)
def patches_channels_in_front(images, size):
    X = split(images, size)
    return X.permute(0, 1, 2, 4, 3, 5).reshape(len(X), -1, X.shape[1] * size * size)


@misconception(
    "patches",
    label="one token per channel",
    hint="There is one token for each channel of each patch. A token should have the pixels of all channels: c * "
    "size * size numbers.",
)
def patches_channel_tokens(images, size):
    X = split(images, size)
    return X.permute(0, 2, 4, 1, 3, 5).reshape(len(X), -1, size * size)


@misconception(
    "patches",
    label="one channel only",
    hint="The other channels are lost: `images[:, 0]` takes only the first. With c channels, a patch has c * size * "
    "size numbers.",
)
def patches_one_channel(images, size):
    return patches_unfolded(images[:, :1], size)


@misconception(
    "patches",
    label="channels averaged",
    hint="The channels were averaged, so the picture is gray. Keep them: with c channels, a patch has c * size * "
    "size numbers.",
)
def patches_grey(images, size):
    return patches_unfolded(images.mean(1, keepdim=True), size)


@misconception(
    "patches",
    label="square pictures only",
    hint="Rows and columns of patches are both computed from the height, or both from the width. Pictures need not "
    "be square.",
)
def patches_square(images, size):
    b, c, H, _W = images.shape
    X = images.reshape(b, c, H // size, size, H // size, size)
    return X.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * size * size)


@misconception(
    "patches",
    label="memory layout assumed",
    hint="The pixels are taken by their places in memory: `as_strided` with strides of (c, H, W). In a picture with "
    "another memory layout, such as a transposed one, they are elsewhere. Use `reshape`, or ask for `stride()`.",
)
def patches_strided(images, size):
    b, c, rows, columns = fitting(images, size)
    H, W = images.shape[-2:]
    places = (c * H * W, size * W, size, H * W, W, 1)
    X = images.as_strided((b, rows, columns, c, size, size), places)
    return X.reshape(b, rows * columns, -1)


@misconception(
    "patches",
    label="three channels only",
    hint="The number of channels is written as 3. Take it from the shape: `images.shape[1]`.",
)
def patches_three_channels(images, size):
    b, _c, H, W = images.shape
    X = images.reshape(b, 3, H // size, size, W // size, size)
    return X.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, 3 * size * size)


@misconception(
    "patches",
    label="tokens and numbers swapped",
    hint="`unfold` returns (b, numbers, patches). Here a token is a row: swap the last two dimensions.",
)
def patches_exchanged(images, size):
    fitting(images, size)
    return nn.functional.unfold(images, size, stride=size)


@misconception(
    "patches",
    label="overlapping patches",
    hint="The window moves by one pixel, so patches overlap. It should move by its own width: `stride=size`.",
)
def patches_overlapping(images, size):
    fitting(images, size)
    return nn.functional.unfold(images, size).transpose(1, 2)


@misconception(
    "patches",
    label="size taken as number of patches",
    hint="`size` is used as the number of patches in a row and in a column. It is the width and height of a patch "
    "in pixels.",
)
def patches_so_many(images, size):
    b, c, H, W = images.shape
    X = images.reshape(b, c, size, H // size, size, W // size)
    return X.permute(0, 2, 4, 1, 3, 5).reshape(b, size * size, -1)


@misconception(
    "patches",
    label="grid dimensions kept",
    hint="Rows and columns of patches are two dimensions of the result. They should be one, row by row: `flatten(1, "
    "2)`.",
)
def patches_grid_kept(images, size):
    X = split(images, size)
    return X.permute(0, 2, 4, 1, 3, 5).flatten(3)


@misconception(
    "patches",
    label="edge cut off",
    hint="When `size` does not divide height or width, the pixels at the edge are silently lost. Raise `ValueError`.",
)
def patches_cut_off(images, size):
    return nn.functional.unfold(images, size, stride=size).transpose(1, 2)


@misconception(
    "patches",
    label="edge padded with zeros",
    hint="When `size` does not divide height or width, the picture is padded with zeros. Raise `ValueError` instead.",
)
def patches_padded(images, size):
    H, W = images.shape[-2:]
    return patches_unfolded(nn.functional.pad(images, (0, -W % size, 0, -H % size)), size)


@misconception(
    "patches",
    label="only the height checked",
    hint="A width that is not a multiple of `size` is accepted: part of each row is lost. Check both H and W.",
)
def patches_height_alone(images, size):
    _H, W = images.shape[-2:]
    return patches_unfolded(images[..., : W - W % size], size)


@misconception(
    "patches",
    label="only the width checked",
    hint="A height that is not a multiple of `size` is accepted: the last rows are lost. Check both H and W.",
)
def patches_width_alone(images, size):
    H, _W = images.shape[-2:]
    return patches_unfolded(images[..., : H - H % size, :], size)


IN_PLACE = "The argument itself was changed: every method that ends in `_` works in place. Use the function without `_`."


@misconception("patches", label="pictures changed in place", hint=IN_PLACE)
def patches_in_place(images, size):
    result = patches_unfolded(images, size).clone()
    with torch.no_grad():
        images.sub_(images.mean())
    return result


@misconception(
    "patches",
    label="pixels centered around 0",
    hint="The pixels are shifted so that their mean is 0. That may help in training, but here the numbers should "
    "not change.",
)
def patches_centred(images, size):
    return patches_unfolded(images - images.mean(), size)


# patches: right

HINTS = {
    "a list instead of an array": "The result is a list. Leave `.tolist()` out: the result should be a tensor.",
    "result in float64": "The result is float64 for every input dtype. Leave `.double()` out, and create new "
    "tensors in the dtype of the input.",
    "result always in float32": "The result is float32 for every input dtype. Leave `.float()` out. `torch.zeros` "
    "creates float32 by default; `X.new_zeros(...)` has the dtype of X.",
    "axis squeezed away": "A dimension of size 1 is missing: `squeeze` removes it. One picture is still a batch, "
    "and one patch is still a sequence.",
    "batch axis added": "The result has an extra leading dimension of size 1.",
    "only the first sequence": "`[0]` takes the first of the batch and loses the rest.",
    "works for two axes only": "The number of dimensions is fixed: `n, d = X.shape` works for two. Count sizes and "
    "dimensions from the end: `X.shape[-1]`.",
    "leading axes left flattened": "Restore the leading dimensions: `.unflatten(0, X.shape[:-2])`.",
}
MISTAKES = [
    "returns nothing",
    "a list instead of an array",
    "result in float64",
    "result always in float32",
    "axis squeezed away",
    "batch axis added",
    "only the first sequence",
    "assert instead of ValueError",
    "an array instead of a tensor",
    "cut off from autograd",
]


@families(*MISTAKES, hints={label: hint for label, hint in HINTS.items() if label in MISTAKES})
@right("patches")
def patches_unfolded(images, size):
    fitting(images, size)
    return nn.functional.unfold(images, size, stride=size).transpose(1, 2)


# unpatch


def whole(tokens, size, channels, height):
    """Return b, and how many rows and columns of patches there are; raise where sizes do not fit."""
    b, n, numbers = tokens.shape
    rows = height // size
    if height % size or n % rows or numbers != channels * size * size:
        raise ValueError("the patches do not fill the picture")
    return b, rows, n // rows


def back(label, hint, axes, *order):
    """List a wrong answer that takes the numbers for these axes, and brings them into another order.

    The letters are b, R and C (rows and columns of patches), c, i and j (the row and the column in a patch).
    """

    def answer(tokens, size, channels, height):
        b, rows, columns = whole(tokens, size, channels, height)
        sizes = {"b": b, "R": rows, "C": columns, "c": channels, "i": size, "j": size}
        X = tokens.reshape([sizes[axis] for axis in axes])
        return X.permute([axes.index(axis) for axis in order[0]]).reshape(
            b, channels, height, columns * size
        )

    answer.__name__ = f"unpatch_{axes}_to_{order[0]}"
    return misconception("unpatch", label, hint)(answer)


unpatch_pixel_by_pixel = back(
    "channel last in each patch",
    "The numbers of a token are used in pixel order, with all channels next to each other. Their order is (channel, "
    "row, column).",
    "bRCijc", "bcRiCj",
)  # fmt: skip
unpatch_columns_first = back(
    "patches counted down the columns",
    "The second token is put below the first one. Count the patches row by row: it should be on the right.",
    "bCRcij", "bcRiCj",
)  # fmt: skip
unpatch_pixels_transposed = back(
    "each patch read down its columns",
    "Each patch is in its place, but its rows and columns are swapped.",
    "bRCcij", "bcRjCi",
)  # fmt: skip
unpatch_the_same_order = back(
    "permuted as in patches",
    "The dimensions are permuted in the order of `patches`, `(0, 2, 4, 1, 3, 5)`. The inverse of a permutation "
    "undoes it: here `(0, 3, 1, 4, 2, 5)`.",
    "bRCcij", "bCcRij",
)  # fmt: skip
unpatch_grid_in_front = back(
    "patch dimensions still adjacent",
    "The dimensions that count patches are still next to each other, before the pixels. A row of pixels goes "
    "through all patches of its row: put the pixel row right after its row of patches.",
    "bRCcij", "bcRCij",
)  # fmt: skip
unpatch_spread = back(
    "neighbors put far apart",
    "Neighboring pixels of a patch are put far apart: the position in the patch comes before the number of the "
    "patch. Rows go (row of patches, row in the patch), and columns in the same way.",
    "bRCcij", "bciRjC",
)  # fmt: skip
unpatch_channels_mixed = back(
    "channels after the rows",
    "The channel dimension belongs right after the batch, before rows and columns.",
    "bRCcij", "bRicCj",
)  # fmt: skip


@misconception(
    "unpatch",
    label="only a reshape",
    hint="`reshape` keeps the order in memory: the numbers of one patch fill a row of the picture. Split the "
    "dimensions, permute, and reshape at the end.",
)
def unpatch_reshaped(tokens, size, channels, height):
    b, _rows, columns = whole(tokens, size, channels, height)
    return tokens.reshape(b, channels, height, columns * size)


@misconception(
    "unpatch",
    label="rows from the root of n",
    hint="The number of rows is the root of n, as if each grid were a square. The number of rows follows from "
    "`height`, and that of columns from n.",
)
def unpatch_square(tokens, size, channels, height):
    b, n, _numbers = tokens.shape
    side = int(n**0.5)
    X = tokens.reshape(b, side, side, channels, size, size)
    return X.permute(0, 3, 1, 4, 2, 5).reshape(b, channels, side * size, side * size)


@misconception(
    "unpatch",
    label="height used as the width",
    hint="`height` was used as the width. There are `height // size` rows of patches, and the rest follows.",
)
def unpatch_width(tokens, size, channels, height):
    b, columns, rows = whole(tokens, size, channels, height)
    X = tokens.reshape(b, rows, columns, channels, size, size)
    return X.permute(0, 3, 1, 4, 2, 5).reshape(b, channels, rows * size, columns * size)


@misconception(
    "unpatch",
    label="rows and columns of patches swapped",
    hint="The grid has `height // size` rows of patches, but was given that many columns. The shape is right, but "
    "the patches are in wrong places.",
)
def unpatch_grid_exchanged(tokens, size, channels, height):
    b, columns, rows = whole(tokens, size, channels, height)
    X = tokens.reshape(b, rows, columns, channels, size, size)
    return X.permute(0, 3, 1, 4, 2, 5).reshape(b, channels, height, -1)


@misconception(
    "unpatch",
    label="height taken as number of patches",
    hint="`height` is in pixels. There are `height // size` rows of patches.",
)
def unpatch_height_in_patches(tokens, size, channels, height):
    b, n, _numbers = tokens.shape
    X = tokens.reshape(b, height, n // height, channels, size, size)
    return X.permute(0, 3, 1, 4, 2, 5).reshape(b, channels, height * size, -1)


@misconception(
    "unpatch",
    label="channels last",
    hint="The channels are the last dimension, as plotting libraries expect. Here they should be the second: (b, c, "
    "H, W).",
)
def unpatch_for_drawing(tokens, size, channels, height):
    return unpatch_folded(tokens, size, channels, height).permute(0, 2, 3, 1)


@misconception(
    "unpatch",
    label="left with six dimensions",
    hint="The dimensions were split and permuted, but not merged again: `.reshape(b, channels, height, -1)` is "
    "missing.",
)
def unpatch_six_axes(tokens, size, channels, height):
    b, rows, columns = whole(tokens, size, channels, height)
    return tokens.reshape(b, rows, columns, channels, size, size).permute(0, 3, 1, 4, 2, 5)


@misconception(
    "unpatch",
    label="transposed pictures",
    hint="Rows and columns of the pictures are swapped.",
)
def unpatch_transposed(tokens, size, channels, height):
    return unpatch_folded(tokens, size, channels, height).transpose(-1, -2)


@misconception(
    "unpatch",
    label="incomplete patches dropped",
    hint="A last row that is not full is dropped, or a height that is not a multiple of `size` is cut. Raise "
    "`ValueError`.",
)
def unpatch_dropped(tokens, size, channels, height):
    rows = height // size
    columns = tokens.shape[1] // rows
    return unpatch_folded(tokens[:, : rows * columns], size, channels, rows * size)


@misconception(
    "unpatch",
    label="single picture without its batch",
    hint="A batch of one picture is returned without its batch dimension: `squeeze(0)`, or `[0]`. It should stay "
    "(1, c, H, W).",
)
def unpatch_one_alone(tokens, size, channels, height):
    return unpatch_folded(tokens, size, channels, height).squeeze(0)


@misconception(
    "unpatch",
    label="layout guessed from sizes",
    hint="Tokens and their numbers are swapped when their sizes seem to require it. A token is always a row, even "
    "if n equals channels * size * size.",
)
def unpatch_guessed(tokens, size, channels, height):
    tokens = tokens.transpose(1, 2) if tokens.shape[1] == channels * size * size else tokens
    return unpatch_folded(tokens, size, channels, height)


@misconception("unpatch", label="tokens changed in place", hint=IN_PLACE)
def unpatch_in_place(tokens, size, channels, height):
    result = unpatch_folded(tokens, size, channels, height).clone()
    with torch.no_grad():
        tokens.zero_()
    return result


@families(*MISTAKES, hints={label: hint for label, hint in HINTS.items() if label in MISTAKES})
@right("unpatch")
def unpatch_folded(tokens, size, channels, height):
    _b, _rows, columns = whole(tokens, size, channels, height)
    return nn.functional.fold(tokens.transpose(1, 2), (height, columns * size), size, stride=size)


# with_places: in steps that a mistake can take the place of


class Places:
    """Tokens with their places, behind a class token."""

    def __call__(self, tokens, cls, by_row, by_column):
        self.refuse(tokens, cls, by_row, by_column)
        row, column = self.numbers(len(by_row), len(by_column))
        return self.together(cls, self.add(tokens, by_row[row], by_column[column]))

    def refuse(self, tokens, cls, by_row, by_column):
        n, d = tokens.shape[1:]
        if (
            n != len(by_row) * len(by_column)
            or not d == len(cls) == by_row.shape[1] == by_column.shape[1]
        ):
            raise ValueError("sizes that do not fit")

    def numbers(self, rows, columns):
        """Return the row and the column of each token."""
        at = torch.arange(rows * columns)
        return at // columns, at % columns

    def add(self, tokens, down, across):
        return tokens + down + across

    def together(self, cls, tokens):
        return torch.cat([cls.expand(len(tokens), 1, -1), tokens], 1)


def placing(label, hint):
    """Declare a mistake in a step of `Places`, as a function."""

    def declare(mistake):
        mistaken = type(mistake.__name__, (mistake, Places), {})()

        def answer(tokens, cls, by_row, by_column):
            return mistaken(tokens, cls, by_row, by_column)

        answer.__name__ = mistake.__name__
        return misconception("with_places", label, hint)(answer)

    return declare


@placing("class token last", "The class token comes after the patches. It should come first.")
class with_places_class_last:
    def together(self, cls, tokens):
        return torch.cat([tokens, cls.expand(len(tokens), 1, -1)], 1)


@placing(
    "no class token",
    "The number of tokens did not change: the class token is missing in front of them.",
)
class with_places_no_class:
    def together(self, cls, tokens):
        return tokens


@placing(
    "class token in the first picture only",
    "Only the first picture has the class token, and the others have zeros. `cls.expand(b, 1, d)` gives it to each.",
)
class with_places_class_once:
    def together(self, cls, tokens):
        zeros = tokens.new_zeros(len(tokens), 1, tokens.shape[-1])
        return torch.cat([torch.cat([cls[None, None], zeros[1:]]), tokens], 1)


@placing(
    "class token replaces the first patch",
    "The class token replaced the first patch. It should come in front: there are 1 + n tokens.",
)
class with_places_first_replaced:
    def together(self, cls, tokens):
        return torch.cat([cls.expand(len(tokens), 1, -1), tokens[:, 1:]], 1)


@placing(
    "class token with a place",
    "The class token also got the vectors of row 0 and column 0. It has no place: add places before you put it in "
    "front.",
)
class with_places_class_placed:
    def add(self, tokens, down, across):
        self.first = down[0] + across[0]
        return tokens + down + across

    def together(self, cls, tokens):
        return torch.cat([(cls + self.first).expand(len(tokens), 1, -1), tokens], 1)


@placing(
    "places counted from the class token",
    "The places were added after the class token was put in front. So it got the first place, and each patch got "
    "the place of the one after it. Add places first.",
)
class with_places_shifted:
    def add(self, tokens, down, across):
        self.P = down + across
        return tokens

    def together(self, cls, tokens):
        together = torch.cat([cls.expand(len(tokens), 1, -1), tokens], 1)
        return together + torch.cat([self.P, torch.zeros_like(self.P[:1])])


@placing(
    "rows and columns swapped",
    "Token r * columns + s got another token's place: the tokens are counted down the columns. `by_row[:, None] + "
    "by_column` has them row by row.",
)
class with_places_exchanged:
    def numbers(self, rows, columns):
        at = torch.arange(rows * columns)
        return at % rows, at // rows


@placing(
    "rows repeated in turn",
    "`by_row.repeat(columns, 1)` repeats the whole list of rows. The row should stay the same for a whole row of "
    "patches: `repeat_interleave(columns, 0)`.",
)
class with_places_rows_in_turn:
    def numbers(self, rows, columns):
        at = torch.arange(rows * columns)
        return at % rows, at % columns


@placing(
    "each column repeated",
    "`by_column.repeat_interleave(rows, 0)` gives neighbors in a row the same column. The columns should come in "
    "turn: `by_column.repeat(rows, 1)`.",
)
class with_places_columns_repeated:
    def numbers(self, rows, columns):
        at = torch.arange(rows * columns)
        return at // columns, at // rows


@placing("columns forgotten", "Only the row's vector is added. Also add the column's vector.")
class with_places_rows_alone:
    def add(self, tokens, down, across):
        return tokens + down


@placing("rows forgotten", "Only the column's vector is added. Also add the row's vector.")
class with_places_columns_alone:
    def add(self, tokens, down, across):
        return tokens + across


@placing("no places added", "The tokens did not change: no place is added to them.")
class with_places_none:
    def add(self, tokens, down, across):
        return tokens


@placing("tokens forgotten", "The result has only the places: the tokens themselves are missing.")
class with_places_alone:
    def add(self, tokens, down, across):
        return (down + across).expand(tokens.shape)


@placing(
    "places multiplied", "The vectors of row and column are multiplied. Add both to the token."
)
class with_places_product:
    def add(self, tokens, down, across):
        return tokens + down * across


@placing(
    "tokens multiplied by their places",
    "The tokens are multiplied by their places. Add the places instead.",
)
class with_places_factor:
    def add(self, tokens, down, across):
        return tokens * (down + across)


@placing("mean of row and column", "Row and column are averaged. Add both instead.")
class with_places_mean:
    def add(self, tokens, down, across):
        return tokens + (down + across) / 2


@placing(
    "places of the first picture only",
    "Only the first picture of the batch got places. They are the same for all: `tokens + P` broadcasts (n, d) to "
    "(b, n, d).",
)
class with_places_first_picture:
    def add(self, tokens, down, across):
        return torch.cat([tokens[:1] + down + across, tokens[1:]])


@placing(
    "concatenated instead of added",
    "The places are concatenated to the tokens, which become wider. Add them: the width stays d.",
)
class with_places_beside:
    def add(self, tokens, down, across):
        return torch.cat([tokens, (down + across).expand(tokens.shape)], -1)

    def together(self, cls, tokens):
        return torch.cat([cls.repeat(2).expand(len(tokens), 1, -1), tokens], 1)


@placing(
    "sizes of 1 stretched",
    "Broadcasting silently stretches a size of 1: one token for all places, or one number for a whole vector. "
    "Compare the sizes and raise `ValueError`.",
)
class with_places_stretched:
    def refuse(self, tokens, cls, by_row, by_column):
        pass

    def together(self, cls, tokens):
        return torch.cat([cls.expand(len(tokens), 1, tokens.shape[-1]), tokens], 1)


@misconception(
    "with_places",
    label="places added in place",
    hint="The places were added to `tokens` itself: `+=` works in place. Write `tokens = tokens + ...`.",
)
def with_places_in_place(tokens, cls, by_row, by_column):
    result = with_places_numbered(tokens, cls, by_row, by_column)
    with torch.no_grad():
        tokens += result[:, 1:] - tokens
    return result


@misconception(
    "with_places",
    label="learned vectors cut off",
    hint="No gradient reaches `by_row` and `by_column`: they are used through `.data`, `detach` or "
    "`torch.tensor(...)`, or under `torch.no_grad`. They could never be learned.",
)
def with_places_not_learned(tokens, cls, by_row, by_column):
    return Places()(tokens, cls, by_row.detach(), by_column.detach())


@misconception(
    "with_places",
    label="class token cut off",
    hint="No gradient reaches `cls`: it was copied into a new tensor without its history, or used through `.data` or "
    "under `torch.no_grad`. It could never be learned.",
)
def with_places_class_not_learned(tokens, cls, by_row, by_column):
    return Places()(tokens, cls.detach(), by_row, by_column)


@families(*MISTAKES, hints={label: hint for label, hint in HINTS.items() if label in MISTAKES})
@right("with_places")
def with_places_numbered(tokens, cls, by_row, by_column):
    return Places()(tokens, cls, by_row, by_column)


# grid_rotary


def rotary(X, positions, base=10000.0, width=None, swapped=False, coarse=False):
    """Turn the pairs of X; `width` is the one that the frequencies are reckoned from, by default that of X."""
    d = X.shape[-1]
    if d % 2 or len(positions) != X.shape[-2]:
        raise ValueError("sizes that do not fit")
    angles = positions[:, None] * base ** (
        -torch.arange(0, d, 2, dtype=torch.float64) / (width or d)
    )
    if coarse:
        angles = positions[:, None].to(X.dtype) * (base ** (-torch.arange(0, d, 2) / d)).to(X.dtype)
    cos, sin = angles.cos().to(X.dtype), angles.sin().to(X.dtype)
    x, y = X.chunk(2, -1) if swapped else (X[..., 0::2], X[..., 1::2])
    turned = x * cos - y * sin, x * sin + y * cos
    return torch.cat(turned, -1) if swapped else torch.stack(turned, -1).flatten(-2)


def halves(X):
    if X.shape[-1] % 4:
        raise ValueError("d should be a multiple of 4")
    return X.chunk(2, -1)


def in_halves(label, hint):
    """List the wrong answer that makes the two halves so: of the first half, the second, rows and columns."""

    def declare(function):
        def answer(X, rows, columns):
            return torch.cat(function(*halves(X), rows, columns), -1)

        answer.__name__ = function.__name__
        return misconception("grid_rotary", label, hint)(answer)

    return declare


@in_halves(
    "rows and columns swapped",
    "The first half is rotated by the columns, and the second by the rows. Do the opposite.",
)
def grid_rotary_exchanged(first, second, rows, columns):
    return rotary(first, columns), rotary(second, rows)


@in_halves(
    "both halves by rows",
    "Both halves are rotated by the rows. Rotate the second one by the columns.",
)
def grid_rotary_rows_twice(first, second, rows, columns):
    return rotary(first, rows), rotary(second, rows)


@in_halves(
    "both halves by columns",
    "Both halves are rotated by the columns. Rotate the first one by the rows.",
)
def grid_rotary_columns_twice(first, second, rows, columns):
    return rotary(first, columns), rotary(second, columns)


@in_halves(
    "both halves by the sum",
    "Both halves are rotated by row + column, so all places on a diagonal look alike. Rotate the first half by the "
    "row alone, and the second by the column alone.",
)
def grid_rotary_sum(first, second, rows, columns):
    return rotary(first, rows + columns), rotary(second, rows + columns)


@in_halves(
    "halves in the wrong order",
    "The halves are returned in the wrong order: the one that was rotated by rows comes first.",
)
def grid_rotary_swapped(first, second, rows, columns):
    return rotary(second, columns), rotary(first, rows)


@in_halves(
    "only the first half rotated",
    "The second half did not change. Rotate it by the columns, and the first half by the rows.",
)
def grid_rotary_first_alone(first, second, rows, columns):
    return rotary(first, rows), second


@in_halves(
    "only the second half rotated",
    "The first half did not change. Rotate it by the rows, and the second half by the columns.",
)
def grid_rotary_second_alone(first, second, rows, columns):
    return first, rotary(second, columns)


@in_halves(
    "frequencies of the whole width",
    "The second half continues with the slow frequencies of a vector of d numbers, as if `rotary` was called on all "
    "of X before the halves were cut out. Each half is rotated as a vector of d/2 numbers: cut first, then rotate.",
)
def grid_rotary_cut_afterwards(first, second, rows, columns):
    X = torch.cat([first, second], -1)
    return rotary(X, rows).chunk(2, -1)[0], rotary(X, columns).chunk(2, -1)[1]


@in_halves(
    "frequencies computed with d",
    "Pair i of each half rotates by 10000^(-2i / d) per step, which is 100^(-2i / (d/2)): the exponent has the whole "
    "width d, or the base is 100. In each half the width is d/2 and the base 10000: 10000^(-2i / (d/2)).",
)
def grid_rotary_exponents_of_d(first, second, rows, columns):
    d = 2 * first.shape[-1]
    return rotary(first, rows, width=d), rotary(second, columns, width=d)


@in_halves(
    "column i paired with i + d/4",
    "Within each half, column i is paired with column i + d/4. The convention here is that of exercise 4: "
    "neighbors, 2i and 2i + 1.",
)
def grid_rotary_other_pairs(first, second, rows, columns):
    return rotary(first, rows, swapped=True), rotary(second, columns, swapped=True)


@in_halves(
    "rotated backwards",
    "All pairs rotate the wrong way: the sine has the wrong sign, or the positions were negated.",
)
def grid_rotary_backwards(first, second, rows, columns):
    return rotary(first, -rows), rotary(second, -columns)


@in_halves(
    "counted from 1",
    "One was added to rows and columns. Use them as given: in row 0 nothing rotates.",
)
def grid_rotary_from_1(first, second, rows, columns):
    return rotary(first, rows + 1), rotary(second, columns + 1)


@in_halves(
    "rows and columns ignored",
    "`rows` and `columns` are not used: each patch is rotated by its number in the sequence.",
)
def grid_rotary_numbers(first, second, rows, columns):
    at = torch.arange(len(rows))
    return rotary(first, at), rotary(second, at)


@in_halves(
    "positions shifted to mean 0",
    "The mean was taken off the rows and the columns. Use them as given: in row 0 nothing rotates, wherever the "
    "other patches are.",
)
def grid_rotary_centred(first, second, rows, columns):
    return tuple(
        rotary(half, at - at.double().mean()) for half, at in ((first, rows), (second, columns))
    )


@misconception(
    "grid_rotary",
    label="rows and columns changed in place",
    hint="`rows` and `columns` themselves were changed: `-=`, and every method that ends in `_`, works in place. The "
    "caller still needs them.",
)
def grid_rotary_places_in_place(X, rows, columns):
    result = grid_rotary_in_halves(X, rows, columns)
    for positions in (rows, columns):
        positions -= positions.min()
    return result


@in_halves(
    "whole numbers only",
    "Rows and columns are cut to whole numbers: `.long()` or `.int()`. They need not be whole.",
)
def grid_rotary_whole_numbers(first, second, rows, columns):
    return rotary(first, rows.long()), rotary(second, columns.long())


@in_halves(
    "angles in the dtype of X",
    "The angles are computed in the dtype of X. float16 has 11 bits, which are too few for places in the hundreds. "
    "Compute the angles in float32, and convert the result.",
)
def grid_rotary_coarse(first, second, rows, columns):
    return rotary(first, rows, coarse=True), rotary(second, columns, coarse=True)


@misconception(
    "grid_rotary",
    label="whole vectors by row + column",
    hint="All of X is rotated by row + column, in one rotation or in two, one after the other. So places on a "
    "diagonal look alike. Cut X in two halves first.",
)
def grid_rotary_one_after_the_other(X, rows, columns):
    halves(X)
    return rotary(rotary(X, rows), columns)


@misconception(
    "grid_rotary",
    label="pairs by rows and columns in turn",
    hint="Pairs are rotated by row and by column in turn. Rotate the whole first half by rows: `X[..., :d // 2]`.",
)
def grid_rotary_in_turn(X, rows, columns):
    halves(X)
    pairs = X.unflatten(-1, (-1, 2))
    down, across = (
        rotary(half.flatten(-2), at)
        for half, at in ((pairs[..., 0::2, :], rows), (pairs[..., 1::2, :], columns))
    )
    return torch.stack([half.unflatten(-1, (-1, 2)) for half in (down, across)], -2).flatten(-3)


@misconception(
    "grid_rotary",
    label="even and odd columns as halves",
    hint="`X[..., 0::2]` and `X[..., 1::2]` are not the halves: those are `X[..., :d // 2]` and `X[..., d // 2:]`.",
)
def grid_rotary_even_and_odd(X, rows, columns):
    halves(X)
    return torch.stack([rotary(X[..., 0::2], rows), rotary(X[..., 1::2], columns)], -1).flatten(-2)


@misconception(
    "grid_rotary",
    label="sum of two rotated copies",
    hint="All of X is rotated by rows, all of X by columns, and the two are added. Cut X in two halves, and "
    "concatenate the rotated halves.",
)
def grid_rotary_added(X, rows, columns):
    halves(X)
    return rotary(X, rows) + rotary(X, columns)


@misconception(
    "grid_rotary",
    label="stacked instead of concatenated",
    hint="The two halves are stacked along a new dimension. `torch.cat([...], dim=-1)` concatenates them.",
)
def grid_rotary_stacked(X, rows, columns):
    first, second = halves(X)
    return torch.stack([rotary(first, rows), rotary(second, columns)])


@misconception(
    "grid_rotary",
    label="tokens cut in halves",
    hint="The first half of the tokens is rotated by rows, the second by columns. Cut the last dimension, the "
    "numbers of each token, in halves instead.",
)
def grid_rotary_tokens_halved(X, rows, columns):
    halves(X)
    half = X.shape[-2] // 2
    return torch.cat(
        [rotary(X[..., :half, :], rows[:half]), rotary(X[..., half:, :], columns[half:])], -2
    )


@misconception(
    "grid_rotary",
    label="complex view of any tensor",
    hint="`torch.view_as_complex` takes only numbers that are adjacent in memory, and raises for others. Call "
    "`.contiguous()` first.",
)
def grid_rotary_complex_view(X, rows, columns):
    halves(X)
    torch.view_as_complex(X.unflatten(-1, (-1, 2)).double())
    return grid_rotary_in_halves(X, rows, columns)


@misconception(
    "grid_rotary",
    label="sizes not checked",
    hint="A single row or column for several tokens is silently stretched. Compare their numbers with n, and raise "
    "`ValueError`.",
)
def grid_rotary_stretched(X, rows, columns):
    n = X.shape[-2]
    rows, columns = (
        positions.expand(n) if len(positions) == 1 else positions for positions in (rows, columns)
    )
    return grid_rotary_in_halves(X, rows, columns)


@misconception(
    "grid_rotary",
    label="X changed in place",
    hint="X itself was rotated: a slice is a view, and writing into it changes X.",
)
def grid_rotary_in_place(X, rows, columns):
    result = grid_rotary_in_halves(X, rows, columns)
    with torch.no_grad():
        X.copy_(result)
    return result


TURNED = [label for label in MISTAKES if label != "batch axis added"] + [
    "works for two axes only",
    "leading axes left flattened",
]


@families(*TURNED, hints={label: hint for label, hint in HINTS.items() if label in TURNED})
@right("grid_rotary")
def grid_rotary_in_halves(X, rows, columns):
    first, second = halves(X)
    return torch.cat([rotary(first, rows), rotary(second, columns)], -1)


# multimodal_mask


def ends(kinds):
    """Return the run that each token is in: its first place, and its last. A word is a run of its own."""
    first, last = list(range(len(kinds))), list(range(len(kinds)))
    for i in range(1, len(kinds)):
        if kinds[i] == kinds[i - 1] == "image":
            first[i] = first[i - 1]
    for i in range(len(kinds) - 2, -1, -1):
        if kinds[i] == kinds[i + 1] == "image":
            last[i] = last[i + 1]
    return first, last


def masked(label, hint):
    """List the wrong answer whose token i sees token j where `sees(i, j, image, first, last)`."""

    def declare(sees):
        def answer(kinds):
            n, image = len(kinds), np.array(kinds) == "image"
            first, last = (np.array(bounds)[:, None] for bounds in ends(kinds))
            i, j = np.arange(n)[:, None], np.arange(n)[None]
            return torch.tensor(np.broadcast_to(sees(i, j, image, first, last), (n, n)).copy())

        answer.__name__ = sees.__name__
        return misconception("multimodal_mask", label, hint)(answer)

    return declare


@masked(
    "causal everywhere",
    "The mask is causal for images as well. The tokens of one run of images also see the later ones of that run.",
)
def multimodal_mask_causal(i, j, image, first, last):
    return j <= i


@masked(
    "everything sees everything",
    "Every token sees every other one. Text should see only earlier tokens and itself.",
)
def multimodal_mask_everything(i, j, image, first, last):
    return (i >= 0) & (j >= 0)


@masked(
    "image tokens see all image tokens",
    "All image tokens see one another, across the text between them. Only those of one run should: two pictures "
    "with text in between are two runs.",
)
def multimodal_mask_all_images(i, j, image, first, last):
    return (j <= i) | (image[:, None] & image)


@masked(
    "image tokens see everything",
    "Image tokens also see the text after them. They should see earlier tokens and their own run, and nothing after "
    "it.",
)
def multimodal_mask_images_everything(i, j, image, first, last):
    return (j <= i) | image[:, None]


@masked(
    "text sees later pictures",
    "Text sees the image tokens after it. It should see only earlier tokens and itself.",
)
def multimodal_mask_text_sees_images(i, j, image, first, last):
    return (j <= last) | (~image[:, None] & image)


@masked(
    "images see their own run only",
    "Image tokens see only their own run. They should also see all tokens before it.",
)
def multimodal_mask_run_alone(i, j, image, first, last):
    return np.where(image[:, None], (first <= j) & (j <= last), j <= i)


@masked(
    "text sees no images",
    "Text sees only the text before it. It should also see the images before it.",
)
def multimodal_mask_text_alone(i, j, image, first, last):
    return np.where(image[:, None], j <= last, (j <= i) & ~image)


@masked(
    "each kind sees itself only",
    "A token sees only tokens of its own kind. It should see all earlier tokens, of any kind.",
)
def multimodal_mask_same_kind(i, j, image, first, last):
    return (j <= last) & (image[:, None] == image)


@masked(
    "images see no earlier pictures",
    "An image token sees the text before it and its own run, but not the earlier pictures. It should see all "
    "earlier tokens.",
)
def multimodal_mask_no_earlier_pictures(i, j, image, first, last):
    return (j <= last) & ~(image[:, None] & image & (j < first))


@masked(
    "text does not see itself",
    "A text token does not see itself: `<` instead of `<=`, or `tril(-1)`. It should see earlier tokens and itself.",
)
def multimodal_mask_text_not_itself(i, j, image, first, last):
    return np.where(image[:, None], j <= last, j < i)


@masked(
    "text runs see ahead",
    "Runs of text are treated like runs of images: their tokens see one another. Text should be causal.",
)
def multimodal_mask_runs_of_text(i, j, image, first, last):
    change = np.concatenate([[0], np.cumsum(image[1:] != image[:-1])])
    return (j <= i) | (change[:, None] == change)


@masked(
    "text and images swapped",
    "Text sees its whole run, and images see only earlier tokens. It should be the opposite.",
)
def multimodal_mask_exchanged(i, j, image, first, last):
    change = np.concatenate([[0], np.cumsum(image[1:] != image[:-1])])
    return (j <= i) | ((change[:, None] == change) & ~image)


@masked(
    "rows and columns swapped",
    "Rows and columns are swapped: row i says what token i may attend to.",
)
def multimodal_mask_transposed(i, j, image, first, last):
    return i <= last.T


@masked(
    "hidden tokens marked as True",
    "The mask is inverted: here True means that a token *may* attend.",
)
def multimodal_mask_inverted(i, j, image, first, last):
    return j > last


@masked(
    "nothing before a picture seen",
    "Text after a picture does not see the tokens before that picture. It should see all earlier tokens.",
)
def multimodal_mask_reset(i, j, image, first, last):
    begin = np.maximum.accumulate(np.where(image, first[:, 0], 0))[:, None]
    return (begin <= j) & (j <= last)


@masked(
    "last token of each run missing",
    "The last image token of each run is not seen by those before it: a slice ends one position too early. "
    "`mask[a:b]` ends before b.",
)
def multimodal_mask_end_too_early(i, j, image, first, last):
    return (j <= i) | (j < last)


@masked(
    "text after a picture included",
    "The image tokens of a run also see the first token after it: a slice ends one position too late.",
)
def multimodal_mask_end_too_late(i, j, image, first, last):
    return (j <= i) | (image[:, None] & (j <= last + 1))


@masked(
    "first token of each run missing",
    "The first image token of each run sees no other token of it: the run starts one position too late.",
)
def multimodal_mask_start_too_late(i, j, image, first, last):
    return (j <= i) | ((i > first) & (j <= last))


@masked(
    "only the next image token seen",
    "Of the later tokens in its run, an image token sees only the next one. All tokens of a run should see one "
    "another.",
)
def multimodal_mask_next_one(i, j, image, first, last):
    return (j <= i) | ((j == i + 1) & (j <= last))


@masked(
    "only the first run sees ahead",
    "Only the first run of images is treated as a run: `list.index` finds only the first. There may be several.",
)
def multimodal_mask_first_run(i, j, image, first, last):
    begin = image.argmax() if image.any() else -1
    return (j <= i) | ((first == begin) & image[:, None] & (j <= last))


@masked(
    "only the last run sees ahead",
    "Only the last run of images is treated as a run: it replaces the earlier ones. There may be several.",
)
def multimodal_mask_last_run(i, j, image, first, last):
    end = len(image) - 1 - image[::-1].argmax() if image.any() else -1
    return (j <= i) | ((last == end) & image[:, None] & (j <= last))


@masked(
    "last run forgotten",
    "A picture at the very end is not treated as a run. A run ends where text begins, and also at the end of the "
    "sequence.",
)
def multimodal_mask_open_end(i, j, image, first, last):
    return (j <= i) | ((last < len(image) - 1) & (j <= last))


@masked(
    "one run from first image to last",
    "Everything from the first image token to the last is treated as one run, including the text in between. A run "
    "ends where text begins.",
)
def multimodal_mask_one_block(i, j, image, first, last):
    at = np.flatnonzero(image)
    low, high = (at[0], at[-1]) if len(at) else (0, -1)
    return (j <= i) | ((low <= i) & (i <= high) & (low <= j) & (j <= high))


@masked(
    "everything up to the last picture visible",
    "All tokens up to the last image see one another, as in a prefix. The text among them should be causal.",
)
def multimodal_mask_prefix(i, j, image, first, last):
    high = np.flatnonzero(image)[-1] if image.any() else -1
    return (j <= i) | ((i <= high) & (j <= high))


@misconception(
    "multimodal_mask",
    label="word before a picture sees it",
    hint="The word right before a picture counts as part of its run, and sees the picture. A run has only image "
    "tokens: check that both tokens are images.",
)
def multimodal_mask_word_before(kinds):
    words = torch.tensor([kind == "text" for kind in kinds]).cumsum(
        0
    )  # (n,), the same in a word and in what follows
    return (words[:, None] == words) | torch.ones(len(kinds), len(kinds)).tril().bool()


@misconception(
    "multimodal_mask",
    label="run that starts at position 0",
    hint="A run that starts at position 0 continues to the end of the sequence: `if start:` is false for 0. Write "
    "`if start is not None:`.",
)
def multimodal_mask_start_is_false(kinds):
    mask, start = np.tri(len(kinds), dtype=bool), None
    for i, kind in enumerate(kinds):
        if kind == "image" and start is None:
            start = i
        if kind == "text" and start:
            mask[start:i, start:i] = True
            start = None
    if start is not None:
        mask[start:, start:] = True
    return mask


@misconception(
    "multimodal_mask",
    label="words counted in one byte",
    hint="Two pictures with 256 words between them see each other: the words are counted in one byte, which is 0 "
    "again after 255. Count in `int64`, as `cumsum` does by default.",
)
def multimodal_mask_counted_in_bytes(kinds):
    text = torch.tensor([kind == "text" for kind in kinds])
    before = text.cumsum(0, dtype=torch.uint8)
    runs = (before[:, None] == before) & ~text & ~text[:, None]
    return runs | torch.ones(len(kinds), len(kinds)).tril().bool()


@misconception(
    "multimodal_mask",
    label="0 and -inf instead of booleans",
    hint="The mask has 0 and -inf, to be added to scores. Here True means may attend, and False may not: return "
    "booleans.",
)
def multimodal_mask_added(kinds):
    return torch.zeros(len(kinds), len(kinds)).masked_fill(
        torch.tensor(~multimodal_mask_up_to(kinds)), -torch.inf
    )


@misconception(
    "multimodal_mask",
    label="kinds changed in place",
    hint="The list `kinds` itself was changed, but the caller still needs it. Copy it first: `list(kinds)`.",
)
def multimodal_mask_in_place(kinds):
    mask = multimodal_mask_up_to(kinds)
    kinds.append("text")
    return mask


@misconception(
    "multimodal_mask",
    label="kinds emptied",
    hint="The list `kinds` was emptied: `pop`, `remove` and `del` change the caller's list. Copy it "
    "first: `list(kinds)`.",
)
def multimodal_mask_emptied(kinds):
    mask = multimodal_mask_up_to(kinds)
    kinds.clear()
    return mask


@families(
    "returns nothing",
    "a list instead of an array",
    "floats instead of booleans",
    "integers instead of booleans",
    "axis squeezed away",
    "batch axis added",
    hints={
        "a list instead of an array": "The result is a list. End with `torch.tensor(...)` or `np.array(...)`.",
        "axis squeezed away": "A dimension of size 1 is missing: `squeeze` removes it. One token still makes a mask "
        "(1, 1).",
        "batch axis added": "The result has an extra leading dimension of size 1: the mask should be (n, n).",
    },
)
@right("multimodal_mask")
def multimodal_mask_up_to(kinds):
    return np.arange(len(kinds)) <= np.array(ends(kinds)[1])[:, None]

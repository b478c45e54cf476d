"""Checks of exercise 12. You may read them: each is one sentence about a function, with inputs on which a wrong
function fails.

Results are compared with `specifications`, which cuts out one square after another, and goes token by token. It is in
checking.zip together with the runtime, `checking`, so that no one sees an answer by accident. The tolerance is `RTOL`
in `checking/expect.py`, which explains how it was chosen. The course's tests measure how far right answers stay below
it and known mistakes above it.
"""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).with_name("checking.zip")))
importlib.invalidate_caches()
for other in ("specifications", "misconceptions"):  # of an exercise opened earlier
    sys.modules.pop(other, None)
if not importlib.util.find_spec("checking"):
    raise ImportError(
        "checking.zip is missing next to checks.py. Unpack the exercise again, or run: make release"
    )

import numpy as np
import torch

from checking import (
    Failed,
    Message,
    Suite,
    backward,
    expect,
    expect_all_raise,
    expect_array,
    expect_by_hand,
    expect_close,
    expect_tensor,
    expect_tensor_dtypes,
    expect_unchanged,
    noncontiguous,
)
from specifications import SPECIFICATIONS, may_attend

torch.set_num_threads(1)  # everything here is small

suite = Suite(
    __name__,
    read={
        "by_hand": "chapter 12, By hand",
        "patches": "chapter 12, A picture as a sequence",
        "unpatch": "chapter 12, A picture as a sequence",
        "with_places": "chapter 12, A picture as a sequence",
        "grid_rotary": "chapter 12, Places in two dimensions",
        "multimodal_mask": "chapter 12, Words and pictures under one mask",
    },
)
check, check_each = suite.check, suite.check_each
run, hint, status, reset = suite.run, suite.hint, suite.status, suite.reset

REFUSED = (ValueError, RuntimeError, IndexError)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
ALL = ("patches", "unpatch", "with_places", "grid_rotary")
WIDE, TALL = (4, 3, 2, 5), (3, 4, 5, 2)
"""Pictures, channels or width, rows and columns of patches: all different, and no grid is a square."""
NAMES = {
    "patches": ("images", "size"),
    "unpatch": ("tokens", "size", "channels", "height"),
    "with_places": ("tokens", "cls", "by_row", "by_column"),
    "grid_rotary": ("X", "rows", "columns"),
}


# by_hand


@check()
def by_hand_patch(by_hand, draw):
    """Returns the eight numbers of patch 4, the first channel's before the second's."""
    i, j = np.indices((4, 6))
    channel = 10 * i + j
    expect_by_hand(by_hand(), np.stack([channel, 100 + channel])[:, 2:4, 2:4].ravel())


# Inputs


def sizes(draw, count):
    """Return `count` small sizes, all different."""
    return [int(size) for size in draw.rng.permutation([2, 3, 4, 5])[:count]]


def pictures(draw, b, c, rows, columns, size):
    """Return the arguments of `patches`: b pictures of c channels, cut into rows and columns of patches."""
    return draw.tensor(b, c, rows * size, columns * size), size


def pieces(draw, b, c, rows, columns, size):
    """Return the arguments of `unpatch`."""
    return draw.tensor(b, rows * columns, c * size * size), size, c, rows * size


def grid(draw, b, d, rows, columns, size=None):
    """Return the arguments of `with_places`."""
    return (
        draw.tensor(b, rows * columns, d),
        draw.tensor(d),
        draw.tensor(rows, d),
        draw.tensor(columns, d),
    )


def places(draw, n):
    """Return n positions from 2 to 41, in random order: all different if there are enough."""
    return torch.tensor(2 + draw.rng.permutation(np.arange(max(n, 40)) % 40)[:n])


def turns(draw, b, d, rows, columns, size=None):
    """Return the arguments of `grid_rotary`, of rows times columns tokens; d is made a multiple of 4."""
    n = rows * columns
    return draw.tensor(b, n, 4 * d), places(draw, n), places(draw, n)


DRAWN = {"patches": pictures, "unpatch": pieces, "with_places": grid, "grid_rotary": turns}


def drawn(function, draw, *given_sizes):
    """Return arguments of a function: b, c or d, rows, columns and size are `own`, or small and all different."""
    b, c, rows, columns = given_sizes[:4] or sizes(draw, 4)
    return DRAWN[function.name](
        draw, b, c, rows, columns, given_sizes[4] if given_sizes else int(draw.rng.integers(2, 4))
    )


def several(function, draw):
    """Return arguments of a function for a wide grid, for a tall one, and other numbers for the first."""
    return [drawn(function, draw, *grid, 2) for grid in (WIDE, TALL, WIDE)]


# What is checked for all four functions of tensors


def expect_all(function, cases):
    """Fail unless the results are right for each list of arguments; all of them are sent ahead in one message."""
    function.ahead(cases)
    for case in cases:
        expect_close(function(*case), SPECIFICATIONS[function.name](*case))


# patches and unpatch


@check(weight=1)
def patches_shape(patches, draw):
    """Returns a tensor of shape (b, H / size * W / size, c * size * size)."""
    for b, c, rows, columns in (WIDE, TALL):
        expect_tensor(patches(*pictures(draw, b, c, rows, columns, 3)), (b, rows * columns, 9 * c))


@check(weight=1)
def unpatch_shape(unpatch, draw):
    """Returns a tensor of shape (b, channels, height, width)."""
    for b, c, rows, columns in (WIDE, TALL):
        expect_tensor(unpatch(*pieces(draw, b, c, rows, columns, 3)), (b, c, 3 * rows, 3 * columns))


@check_each("patches", "unpatch", weight=3, needs=["shape"])
def grey(function, draw):
    """With one channel, patches and their pixels are in row-by-row order, also in pictures that are not square."""
    wide, tall = (drawn(function, draw, b, 1, *grid, 2) for b, _, *grid in (WIDE, TALL))
    larger = drawn(function, draw, 2, 1, 3, 4, 3)
    expect_all(function, [wide, tall, larger, (noncontiguous(wide[0]), *wide[1:])])


@check_each("patches", "unpatch", weight=3, needs=["grey"])
def channels(function, draw):
    """With several channels, the numbers of a patch are in the order (channel, row, column)."""
    expect_all(function, several(function, draw))


# with_places


@check(weight=1)
def with_places_shape(with_places, draw):
    """Returns a tensor of shape (b, 1 + rows * columns, d)."""
    for b, d, rows, columns in (WIDE, TALL):
        expect_tensor(with_places(*grid(draw, b, d, rows, columns)), (b, 1 + rows * columns, d))


@check(weight=1, needs=[with_places_shape])
def with_places_first(with_places, draw):
    """The class token comes first in each picture, and nothing is added to it."""
    b, d, rows, columns = sizes(draw, 4)
    tokens, cls, *places = grid(draw, b, d, rows, columns)
    result = expect_tensor(with_places(tokens, cls, *places), (b, 1 + rows * columns, d))
    expect_close(result[:, 0], cls.expand(b, d), what=Message("row 0 of each picture"))


@check(weight=3, needs=[with_places_first])
def with_places_values(with_places, draw):
    """Token r * columns + s gets the vector of row r plus that of column s."""
    cases = several(with_places, draw)
    expect_all(
        with_places,
        [
            *cases,
            tuple(noncontiguous(tensor) if tensor.ndim > 1 else tensor for tensor in cases[0]),
        ],
    )


# grid_rotary


@check(weight=1)
def grid_rotary_shape(grid_rotary, draw):
    """Returns a tensor of shape (n, d) for `X` (n, d), n rows and n columns."""
    n, d = sizes(draw, 2)
    expect_tensor(grid_rotary(draw.tensor(n, 4 * d), places(draw, n), places(draw, n)), (n, 4 * d))


@check(weight=1, needs=[grid_rotary_shape])
def grid_rotary_start(grid_rotary, draw):
    """In row 0 and column 0, the vectors do not change, whatever the rows and columns were in an earlier call."""
    n, d = sizes(draw, 2)
    X, zeros = draw.tensor(n, 4 * d), torch.zeros(n, dtype=torch.int64)
    cases = [(X, places(draw, n), places(draw, n)), (X, zeros, zeros)]
    grid_rotary.ahead(cases)
    elsewhere, here = (expect_array(grid_rotary(*case), (n, 4 * d)) for case in cases)
    if np.array_equal(elsewhere, here):
        message = "Two calls with other rows and columns return the same. Are they used, or are angles kept from a call?"
        raise Failed(Message(message), explained=True)
    expect_close(here, X)


@check(weight=1, needs=[grid_rotary_start])
def grid_rotary_halves(grid_rotary, draw):
    """In row 0, the first half of each vector does not change, and in column 0, the second half does not."""
    n, d = sizes(draw, 2)
    X, zeros = draw.tensor(n, 4 * d), torch.zeros(n, dtype=torch.int64)
    turned = expect_array(grid_rotary(X, zeros, places(draw, n)), (n, 4 * d))
    expect_close(turned[:, : 2 * d], X[:, : 2 * d], what=Message("the first half in row 0"))
    turned = expect_array(grid_rotary(X, places(draw, n), zeros), (n, 4 * d))
    expect_close(turned[:, 2 * d :], X[:, 2 * d :], what=Message("the second half in column 0"))


@check(weight=1, needs=[grid_rotary_shape])
def grid_rotary_lengths(grid_rotary, draw):
    """Rotation keeps lengths: x^2 + y^2 of every pair of columns 2i and 2i + 1 does not change."""
    n, d = sizes(draw, 2)
    X = draw.tensor(n, 4 * d)
    turned = expect_array(grid_rotary(X, places(draw, n), places(draw, n)), (n, 4 * d)).astype(
        float
    )
    squares = [(Z**2).reshape(n, 2 * d, 2).sum(-1) for Z in (turned, X.numpy())]
    expect_close(*squares, what=Message("the pairs' x^2 + y^2"))


@check(weight=1, needs=[grid_rotary_shape])
def grid_rotary_distance(grid_rotary, draw):
    """Only distances count: moving all rows by one number and all columns by another changes no dot product."""
    n, d = sizes(draw, 2)
    X, rows, columns = draw.tensor(n, 4 * d), places(draw, n), places(draw, n)
    down, across = (int(step) for step in draw.rng.permutation(np.arange(5, 30))[:2])
    moved = rows + down, columns + across
    grid_rotary.ahead([(X, rows, columns), (X, *moved)])
    here, there = (
        expect_array(grid_rotary(X, *at), (n, 4 * d)).astype(float)
        for at in ((rows, columns), moved)
    )
    what = Message(
        "the dot products (all moved by {down} rows and {across} columns)", down=down, across=across
    )
    expect_close(there @ there.T, here @ here.T, what=what)


@check(weight=3, needs=[grid_rotary_halves, grid_rotary_lengths, grid_rotary_distance])
def grid_rotary_values(grid_rotary, draw):
    """Rotates each half as `rotary` does for d / 2 numbers: the first by rows, the second by columns."""
    n, d = sizes(draw, 2)
    X, rows, columns = draw.tensor(n, 4 * d), places(draw, n), places(draw, n)
    expect_all(
        grid_rotary, [(X, rows, columns), (noncontiguous(draw.tensor(n, 12)), columns, rows)]
    )


@check(weight=1, needs=[grid_rotary_values])
def grid_rotary_any_place(grid_rotary, draw):
    """Rows and columns may be any numbers, in any order: equal, negative, or fractional."""
    rows, columns, d = sizes(draw, 3)
    n = rows * columns
    X, at = draw.tensor(n, 4 * d), torch.arange(n)
    cases = [(X, at // columns, at % columns), (X, -places(draw, n), torch.full((n,), 3))]
    cases.append(
        (X, places(draw, n) + torch.tensor(draw.rng.uniform(0.2, 0.8, n)), -places(draw, n) / 2)
    )
    expect_all(grid_rotary, cases)


@check(weight=1, needs=[grid_rotary_values])
def grid_rotary_leading_axes(grid_rotary, draw):
    """Keeps any number of leading dimensions: none, one, two, three."""
    n, d = sizes(draw, 2)
    at = places(draw, n), places(draw, n)
    leads = [(), (3,), (n, n), (2, 1, 3)]
    expect_all(grid_rotary, [(draw.tensor(*lead, n, 4 * d), *at) for lead in leads])


# What is checked for all four


VALUES = {
    "patches": "channels",
    "unpatch": "channels",
    "with_places": "values",
    "grid_rotary": "values",
}


@check_each(*ALL, weight=0.5, needs=["shape"])
def kept(function, draw):
    """Does not change its inputs."""
    arguments = drawn(function, draw)
    expect_unchanged(function, NAMES[function.name], *arguments)


def of_all(weight):
    """Declare a check of all four functions, once their values are right."""

    def declare(body):
        for name in ALL:
            check_each(name, weight=weight, needs=[VALUES[name]])(body)
        return body

    return declare


@of_all(weight=1)
def sizes_alike(function, draw):
    """Works for square pictures, equal sizes, and long dimensions."""
    size, n = int(draw.rng.integers(2, 5)), draw.long()
    alike = [(size,) * 5, (1, size, size, size, 1), (2, 3, 4, 4, 2), (2, 1, 2, 2, 2)]
    expect_all(
        function,
        [drawn(function, draw, *lengths) for lengths in [*alike, (1, 1, 2, n, 2), (1, 2, n, 2, 1)]],
    )


@of_all(weight=1)
def sizes_of_one(function, draw):
    """Dimensions of size 1 are kept: one picture, channel, row of patches, column, or pixel in a patch."""
    cases = []
    for axis in range(5):
        lengths = [1 if i == axis else size for i, size in enumerate(sizes(draw, 4))]
        cases.append(drawn(function, draw, *lengths, 1 if axis == 4 else 3))
    # A picture that is one patch, and one that is one pixel.
    expect_all(
        function,
        [*cases, drawn(function, draw, 2, 3, 1, 1, 4), drawn(function, draw, 1, 1, 1, 1, 1)],
    )


def reached(function, arguments, upstream):
    """Return the gradients of a specification with respect to its floating arguments."""
    leaves = [
        argument.clone().requires_grad_() if floating(argument) else argument
        for argument in arguments
    ]
    (SPECIFICATIONS[function.name](*leaves) * upstream).sum().backward()
    return [leaf.grad for leaf in leaves if floating(leaf)]


def floating(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


@of_all(weight=1)
def gradients(function, draw):
    """Gradients flow from the result to every input tensor."""
    arguments = drawn(function, draw)
    upstream = draw.tensor(*SPECIFICATIONS[function.name](*arguments).shape)
    expected = reached(function, arguments, upstream)
    _, gradients, _ = backward(function, *arguments, upstream=upstream)
    gradients = [
        gradient
        for gradient, argument in zip(gradients, arguments, strict=False)
        if floating(argument)
    ]
    for name, got, right in zip(NAMES[function.name], gradients, expected, strict=False):
        expect(
            got is not None,
            Message("No gradient reaches {name}: it is cut off from autograd.", name=name),
        )
        expect_close(got, right, what=Message("the gradient of {name}", name=name))


@of_all(weight=0.5)
def dtype(function, draw):
    """The result has the dtype of the inputs: float32, float64, float16 or bfloat16."""
    arguments = [part.bfloat16() if floating(part) else part for part in drawn(function, draw)]
    shape = SPECIFICATIONS[function.name](*arguments).shape
    cases = [
        [argument.to(kind) if floating(argument) else argument for argument in arguments]
        for kind in DTYPES
    ]
    function.ahead(cases)
    results = {kind: function(*case) for kind, case in zip(DTYPES, cases, strict=True)}
    expect_tensor_dtypes(results, shape)


@check(weight=0.5, needs=[grid_rotary_values])
def grid_rotary_half(grid_rotary, draw):
    """Rotates float16 vectors at positions in the hundreds by angles that are more precise than float16."""
    n = 3 + sizes(draw, 1)[0]
    X = draw.tensor(n, 28, dtype=torch.float16)
    case = X, 600.3 + places(draw, n), 700.3 + places(draw, n)
    # Each of two products and their sum is rounded to 11 bits: see exercise 4.
    expect_close(grid_rotary(*case), SPECIFICATIONS["grid_rotary"](*case), rtol=5e-3)


# Sizes that do not match


@check(weight=1, needs=[patches_shape])
def patches_refuses(patches, draw):
    """Raises `ValueError`, `RuntimeError` or `IndexError` when height or width is not a multiple of `size`."""
    # Worth points: otherwise the edge of the picture would be silently lost.
    b, c = sizes(draw, 2)
    refused = []
    edges = [(7, 8, 3), (6, 7, 3), (7, 6, 3), (9, 4, 6), (4, 9, 6), (5, 5, 2), (3, 3, 4), (8, 2, 4)]
    edges += [(6, 8, 4), (8, 6, 4)]  # the number of pixels is a multiple of that of a patch
    for H, W, size in edges:
        because = Message(
            "pictures of {H} by {W} pixels, patches of {size} by {size}", H=H, W=W, size=size
        )
        refused.append(((draw.tensor(b, c, H, W), size), because))
    expect_all_raise(REFUSED, patches, refused)


@check(weight=0, needs=["unpatch_channels"])
def unpatch_refuses(unpatch, draw):
    """Raises when the height does not match, when the last row is not full, or when tokens have another width."""
    refused = []
    for n, numbers, size, channels, height in [
        (6, 12, 2, 3, 5),
        (7, 12, 2, 3, 4),
        (6, 12, 2, 2, 4),
        (6, 10, 2, 3, 4),
    ]:
        because = Message(
            "n is {n}, size {size}, channels {channels}, height {height}, and a token has {numbers} numbers",
            n=n, size=size, channels=channels, height=height, numbers=numbers,
        )  # fmt: skip
        refused.append(((draw.tensor(2, n, numbers), size, channels, height), because))
    expect_all_raise(REFUSED, unpatch, refused)


@check(weight=0, needs=[with_places_values])
def with_places_refuses(with_places, draw):
    """Raises when there are not rows * columns tokens or when widths differ, even if one of them is 1."""
    b, d, rows, columns = sizes(draw, 4)
    tokens, cls, by_row, by_column = grid(draw, b, d, rows, columns)
    refused = []
    for n in (1, rows * columns + 1):
        because = Message(
            "{rows} rows, {columns} columns, {n} tokens", rows=rows, columns=columns, n=str(n)
        )
        refused.append(((draw.tensor(b, n, d), cls, by_row, by_column), because))
    because = Message("tokens of {d} numbers, another one of {other}", d=d, other=1)
    for i in (1, 2, 3):
        changed = [tokens, cls, by_row, by_column]
        changed[i] = changed[i][..., :1]
        refused.append((tuple(changed), because))
    expect_all_raise(REFUSED, with_places, refused)


@check(weight=0, needs=[grid_rotary_values])
def grid_rotary_refuses(grid_rotary, draw):
    """Raises when d is not a multiple of 4, or rows, columns and tokens differ in number, even if one is 1."""
    n, d = sizes(draw, 2)
    refused = []
    for width in (4 * d + 2, 4 * d + 1, 2, 1):
        because = Message("d is {d}, which is not a multiple of 4", d=str(width))
        refused.append(((draw.tensor(n, width), places(draw, n), places(draw, n)), because))
    X = draw.tensor(n, 4 * d)
    for rows, columns in [(1, n), (n, 1), (1, 1), (n + 1, n), (n, n + 1)]:
        because = Message(
            "n is {n}, there are {rows} rows and {columns} columns", n=n, rows=rows, columns=columns
        )
        refused.append(((X, places(draw, rows), places(draw, columns)), because))
    expect_all_raise(REFUSED, grid_rotary, refused)


# multimodal_mask


def sequence(*runs):
    """Return kinds: so many text tokens, so many image tokens, and so on in turn."""
    return [
        kind for at, count in enumerate(runs) for kind in [("text", "image")[at % 2]] * int(count)
    ]


def expect_mask(multimodal_mask, *several):
    """Fail unless the masks have the right entries; another check tests whether they are booleans."""
    multimodal_mask.ahead([(kinds,) for kinds in several])
    for kinds in several:
        what = Message("the mask")
        if len(kinds) <= 12:
            what = Message("the mask for {kinds}", kinds=" ".join(kinds))
        expect_close(multimodal_mask(kinds), may_attend(kinds).astype(float), what=what)


@check(weight=1)
def multimodal_mask_shape(multimodal_mask, draw):
    """Returns a tensor or array of shape (n, n) for n kinds."""
    kinds = sequence(*sizes(draw, 3))
    expect_array(multimodal_mask(kinds), (len(kinds), len(kinds)), what=Message("the mask"))


@check(weight=1, needs=[multimodal_mask_shape])
def multimodal_mask_boolean(multimodal_mask, draw):
    """The mask is boolean: True where the token may attend, False elsewhere."""
    for kinds in (sequence(*sizes(draw, 3)), ["text"] * 3, ["image"] * 3):
        kind = expect_array(multimodal_mask(kinds), what=Message("the mask")).dtype
        expect(
            kind == np.dtype(bool),
            Message("Expected a mask of booleans, got dtype {dtype}.", dtype=str(kind)),
        )


@check(weight=1, needs=[multimodal_mask_shape])
def multimodal_mask_text(multimodal_mask, draw):
    """Text alone is causal: each token sees the tokens before it and itself."""
    (n,) = sizes(draw, 1)
    expect_mask(multimodal_mask, ["text"] * (n + 1))


@check(weight=1, needs=[multimodal_mask_shape])
def multimodal_mask_image(multimodal_mask, draw):
    """In a picture alone, or in two without text in between, all tokens see one another."""
    (n,) = sizes(draw, 1)
    expect_mask(multimodal_mask, ["image"] * (n + 1))


@check(weight=2, needs=[multimodal_mask_text, multimodal_mask_image])
def multimodal_mask_one_run(multimodal_mask, draw):
    """A picture between words sees the words before it and itself; later words see everything before them."""
    first, count, last = sizes(draw, 3)
    expect_mask(
        multimodal_mask, sequence(first, count, last), sequence(count, first, last)
    )  # as many tokens again


@check(weight=3, needs=[multimodal_mask_one_run])
def multimodal_mask_runs(multimodal_mask, draw):
    """With several pictures separated by text, each sees those before it, and none after it."""
    a, b, c, e = sizes(draw, 4)
    cases = [sequence(1, 2, 1, 3, 2), sequence(a, b, c, e, 1), sequence(1, b, 1, b, 1, b, 1)]
    expect_mask(multimodal_mask, *cases, sequence(*draw.rng.integers(1, 3, 9)))


@check(weight=1, needs=[multimodal_mask_runs])
def multimodal_mask_ends(multimodal_mask, draw):
    """A sequence may start with a picture, end with one, or both."""
    a, b, c, e = sizes(draw, 4)
    expect_mask(
        multimodal_mask,
        sequence(0, a, b),
        sequence(a, b),
        sequence(0, a, b, c),
        sequence(0, a, b, c, e, 1),
    )


@check(weight=1, needs=[multimodal_mask_runs])
def multimodal_mask_ones(multimodal_mask, draw):
    """Works for a single token, and for runs of one image token."""
    expect_mask(
        multimodal_mask,
        ["text"],
        ["image"],
        sequence(1, 1),
        sequence(0, 1, 1),
        sequence(0, 1, 1, 1, 1, 1),
    )


@check(weight=1, needs=[multimodal_mask_runs])
def multimodal_mask_long(multimodal_mask, draw):
    """Works for hundreds of tokens, in many short runs or a few long ones."""
    n = draw.long()
    short = ["image", *[str(kind) for kind in draw.rng.choice(["text", "image"], n)]]
    # 256 words between two pictures: in one byte, 256 is 0.
    expect_mask(
        multimodal_mask, short, sequence(3, n // 2, 2, n // 2, 5), sequence(1, 2, 256, 3, 255, 2)
    )


def mask_and_kinds(function, kinds):
    """Return the mask of a list of kinds, and the list afterwards."""
    return function(kinds), kinds


@check(weight=0.5, needs=[multimodal_mask_shape])
def multimodal_mask_kept(multimodal_mask, draw):
    """Does not change `kinds`."""
    several = [
        sequence(*runs) for runs in ((3, 2, 4), (2, 3), (0, 2, 3))
    ]  # the last run ends in text, and in a picture
    multimodal_mask.ahead([(kinds,) for kinds in several], mask_and_kinds)
    for kinds in several:
        _, after = multimodal_mask.run_remote(mask_and_kinds, kinds)
        message = "The list `kinds` was changed in place, but the caller still needs it. Copy it first: `list(kinds)`."
        expect(after == kinds, message)

"""Answers to 12-beyond."""

# %% wrong patches: strides of a picture that lies in memory row by row, whatever its layout is
def patches(images, size):
    b, c, H, W = images.shape
    if H % size or W % size:
        raise ValueError("the patches do not fill the picture")
    shape = (b, H // size, W // size, c, size, size)
    strides = (c * H * W, size * W, size, H * W, W, 1)
    return torch.as_strided(images, shape, strides).reshape(b, -1, c * size * size)

# %% wrong patches: three channels, as in a photo
def patches(images, size):
    b, _, H, W = images.shape
    if H % size or W % size:
        raise ValueError("the patches do not fill the picture")
    X = images.reshape(b, 3, H // size, size, W // size, size)
    return X.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, 3 * size * size)

# %% wrong unpatch: as many rows as the root of n, rounded down
def unpatch(tokens, size, channels, height):
    b, n, _ = tokens.shape
    rows = int(n**0.5)
    columns = n // rows
    X = tokens.view(b, rows, columns, channels, size, size)
    return X.permute(0, 3, 1, 4, 2, 5).reshape(b, channels, rows * size, columns * size)

# %% wrong with_places: the places are added to the caller's tokens, without gradients
def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    places = (by_row[:, None] + by_column[None]).reshape(n, d)
    with torch.no_grad():
        tokens += places
    return torch.cat([cls.expand(b, 1, d), tokens], dim=1)

# %% wrong grid_rotary: all of X is rotated by the sum of row and column
def grid_rotary(X, rows, columns):
    return rotary(X, rows + columns)

# %% wrong grid_rotary: each half with the base 100, the root of 10000
def grid_rotary(X, rows, columns):
    half = X.shape[-1] // 2
    return torch.cat([rotary(X[..., :half], rows, 100.0), rotary(X[..., half:], columns, 100.0)], -1)

# %% wrong grid_rotary: cosines and sines are kept by the sizes, and used again for other places
KEPT = {}


def grid_rotary(X, rows, columns):
    n, d = X.shape[-2:]
    if (n, d) not in KEPT:
        base = 10000.0 ** (-torch.arange(0, d // 2, 2) / (d // 2))
        angles = torch.cat([rows[:, None] * base, columns[:, None] * base], -1)
        KEPT[n, d] = angles.cos(), angles.sin()
    cos, sin = KEPT[n, d]
    x, y = X[..., 0::2], X[..., 1::2]
    return torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(-2).to(X.dtype)

# %% wrong grid_rotary: rows and columns are counted from their means, in place
def grid_rotary(X, rows, columns):
    rows -= rows.double().mean().to(rows.dtype)
    columns -= columns.double().mean().to(columns.dtype)
    half = X.shape[-1] // 2
    return torch.cat([rotary(X[..., :half], rows), rotary(X[..., half:], columns)], -1)

# %% wrong multimodal_mask: a word is appended to the caller's list, to close the last run
def multimodal_mask(kinds):
    n, start = len(kinds), None
    mask = torch.ones(n, n).tril().bool()
    kinds.append("text")
    for i, kind in enumerate(kinds):
        if kind == "image" and start is None:
            start = i
        elif kind == "text" and start is not None:
            mask[start:i, start:i] = True
            start = None
    return mask

# %% wrong multimodal_mask: the caller's list is emptied from its end
def multimodal_mask(kinds):
    n = len(kinds)
    mask = torch.ones(n, n).tril().bool()
    while kinds:
        stop = len(kinds)
        kind = kinds.pop()
        while kind == "image" and kinds and kinds[-1] == "image":
            kinds.pop()
        mask[len(kinds) : stop, len(kinds) : stop] |= kind == "image"
    return mask

# %% wrong patches: the numbers of a patch in the order row, column, channel
def patches(images, size):
    b, c, H, W = images.shape
    if H % size or W % size:
        raise ValueError(f"{H} by {W} pixels cannot be cut into patches of {size}")
    parts = images.reshape(b, c, H // size, size, W // size, size)
    return parts.permute(0, 2, 4, 3, 5, 1).reshape(b, -1, c * size * size)

# %% wrong patches: counts the patches column by column
def patches(images, size):
    b, c, H, W = images.shape
    if H % size or W % size:
        raise ValueError("H and W must be multiples of size")
    rows = images.split(size, dim=2)
    result = []
    for s in range(W // size):
        for row in rows:
            result.append(row[..., s * size : (s + 1) * size].flatten(1))
    return torch.stack(result, dim=1)

# %% wrong patches: takes as many columns of patches as there are rows
def patches(images, size):
    if images.shape[2] % size or images.shape[3] % size:
        raise ValueError("not a multiple of size")
    steps = range(0, images.shape[2], size)
    tokens = [images[:, :, i : i + size, j : j + size].flatten(1) for i in steps for j in steps]
    return torch.stack(tokens, dim=1)

# %% wrong patches: tests the number of pixels, so two odd edges can pass and are cut off
def patches(images, size):
    b, c, H, W = images.shape
    if (H * W) % (size * size) != 0:
        raise ValueError(f"{H} x {W} is not divisible by {size} x {size}")
    tiles = images.unfold(2, size, size).unfold(3, size, size)
    return tiles.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)

# %% wrong patches: an assert guards the edges, so the error is an AssertionError
def patches(images, size):
    b, c, H, W = images.shape
    assert H % size == 0 and W % size == 0, "size must divide both sides"
    x = images.reshape(b, c, H // size, size, W // size, size)
    x = x.permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, (H // size) * (W // size), c * size**2)

# %% wrong patches: fills an empty tensor that is float32 for any input
def patches(images, size):
    b, c, H, W = images.shape
    if H % size != 0 or W % size != 0:
        raise ValueError("wrong size")
    columns = W // size
    out = torch.empty(b, H // size * columns, c * size * size)
    for t in range(out.shape[1]):
        i, j = t // columns * size, t % columns * size
        out[:, t] = images[:, :, i : i + size, j : j + size].reshape(b, -1)
    return out

# %% wrong patches: as_strided with the strides of a contiguous picture
def patches(images, size):
    b, c, H, W = images.shape
    if H % size or W % size:
        raise ValueError("H or W is not a multiple of size")
    windows = images.as_strided(
        (b, H // size, W // size, c, size, size),
        (c * H * W, size * W, size, H * W, W, 1),
    )
    return windows.reshape(b, -1, c * size * size)

# %% wrong patches: keeps the table of pixel numbers from call to call, for height and width only
tables = {}


def patches(images, size):
    b, c, H, W = images.shape
    if H % size or W % size:
        raise ValueError("the patches do not fit")
    if (H, W) not in tables:
        pixels = torch.arange(H * W).reshape(H // size, size, W // size, size)
        tables[H, W] = pixels.transpose(1, 2).reshape(-1, size * size)
    table = tables[H, W]
    return images.flatten(2)[:, :, table].transpose(1, 2).flatten(2)

# %% wrong patches: a guard that also refuses a picture of one row or one column of patches
def patches(images, size):
    b, c, H, W = images.shape
    if size >= min(H, W):
        raise ValueError("patches must be smaller than the picture")
    if H % size or W % size:
        raise ValueError("H and W must be multiples of size")
    x = images.unflatten(3, (-1, size)).unflatten(2, (-1, size))
    return x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)

# %% wrong patches: cuts under no_grad, so no gradient reaches the pictures
@torch.no_grad()
def patches(images, size):
    b, c, H, W = images.shape
    if H % size or W % size:
        raise ValueError(f"H = {H} and W = {W} must be multiples of {size}")
    x = images.reshape(b, c, H // size, size, W // size, size)
    return torch.einsum("bcrisj->brscij", x).reshape(b, -1, c * size * size)

# %% right patches: pixel_unshuffle, which raises by itself
def patches(images, size):
    return torch.nn.functional.pixel_unshuffle(images, size).flatten(2).transpose(1, 2)

# %% right patches: cuts strips, then squares, with split
def patches(images, size):
    if any(side % size for side in images.shape[2:]):
        raise IndexError("an edge would be cut off")
    tokens = []
    for strip in images.split(size, dim=2):
        for square in strip.split(size, dim=3):
            tokens.append(square.flatten(1))
    return torch.stack(tokens, 1)

# %% right patches: works out row and column of each number and picks all pixels at once
def patches(images, size):
    b, c, H, W = images.shape
    if H != H // size * size or W != W // size * size:
        raise ValueError("the sides are not multiples of size")
    n = (H // size) * (W // size)
    t = torch.arange(n)[:, None]
    k = torch.arange(c * size * size)[None]
    i = t // (W // size) * size + k // size % size
    j = t % (W // size) * size + k % size
    return images[:, (k // size**2).expand(n, -1), i, j]

# %% wrong unpatch: rows and columns of the grid swapped, which only a square grid forgives
def unpatch(tokens, size, channels, height):
    b, n, _ = tokens.shape
    rows = height // size
    columns = n // rows
    x = tokens.reshape(b, columns, rows, channels, size, size)
    x = x.permute(0, 3, 1, 4, 2, 5)
    return x.reshape(b, channels, height, columns * size)

# %% wrong unpatch: reads the numbers of a token as row, column, channel
def unpatch(tokens, size, channels, height):
    b, n, d = tokens.shape
    rows = height // size
    x = tokens.reshape(b, rows, n // rows, size, size, channels)
    return x.permute(0, 5, 1, 3, 2, 4).reshape(b, channels, height, -1)

# %% wrong unpatch: the width is rounded down before it is multiplied
def unpatch(tokens, size, channels, height):
    b, n, d = tokens.shape
    width = n // height * size * size
    x = tokens.reshape(b, height // size, width // size, channels, size, size)
    return x.permute(0, 3, 1, 4, 2, 5).reshape(b, channels, height, width)

# %% wrong unpatch: pastes the patches into float32 zeros
def unpatch(tokens, size, channels, height):
    b, n, d = tokens.shape
    columns = n * size // height
    pictures = torch.zeros(b, channels, height, columns * size)
    for t in range(n):
        r, s = divmod(t, columns)
        block = tokens[:, t].reshape(b, channels, size, size)
        pictures[:, :, r * size : (r + 1) * size, s * size : (s + 1) * size] = block
    return pictures

# %% wrong unpatch: view over batch and tokens, which some memory layouts do not allow
def unpatch(tokens, size, channels, height):
    b, n = tokens.shape[:2]
    rows = height // size
    squares = tokens.view(b * n, channels, size, size)
    x = squares.reshape(b, rows, n // rows, channels, size, size)
    return x.permute(0, 3, 1, 4, 2, 5).reshape(b, channels, height, n // rows * size)

# %% wrong unpatch: turns the caller's tokens with transpose_
def unpatch(tokens, size, channels, height):
    width = tokens.shape[1] * size * size // height
    tokens.transpose_(1, 2)
    return torch.nn.functional.fold(tokens, (height, width), size, stride=size)

# %% wrong unpatch: copies through .data, so the gradient is lost
def unpatch(tokens, size, channels, height):
    b, n, d = tokens.shape
    rows = height // size
    picture = tokens.new_empty(b, channels, rows, size, n // rows, size)
    parts = tokens.data.reshape(b, rows, n // rows, channels, size, size)
    picture.copy_(parts.permute(0, 3, 1, 4, 2, 5))
    return picture.reshape(b, channels, height, -1)

# %% wrong unpatch: remembers the width of the first pictures of a height
def unpatch(tokens, size, channels, height, known={}):
    b, n, d = tokens.shape
    width = known.setdefault((size, height), n * size * size // height)
    grid = tokens.unflatten(1, (height // size, width // size))
    grid = grid.unflatten(3, (channels, size, size))
    return torch.einsum("brscij->bcrisj", grid).reshape(b, channels, height, width)

# %% wrong unpatch: a guard that takes gray and coloured pictures only
def unpatch(tokens, size, channels, height):
    b, n, d = tokens.shape
    if channels not in (1, 3):
        raise ValueError("a picture has 1 or 3 channels")
    if height % size or d != channels * size**2:
        raise ValueError("sizes do not match")
    rows = height // size
    x = tokens.reshape(b, rows, -1, channels, size, size)
    return x.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)

# %% wrong unpatch: squeezes, so one picture loses its batch and a gray one its channel
def unpatch(tokens, size, channels, height):
    rows = []
    columns = tokens.shape[1] // (height // size)
    squares = tokens.unflatten(2, (channels, size, size))
    for row in squares.split(columns, dim=1):
        rows.append(torch.cat(row.unbind(1), dim=-1))
    return torch.cat(rows, dim=-2).squeeze()

# %% right unpatch: pixel_shuffle of a small picture with many channels
def unpatch(tokens, size, channels, height):
    small = tokens.transpose(1, 2).unflatten(2, (height // size, -1))
    return torch.nn.functional.pixel_shuffle(small, size)

# %% right unpatch: glues patches into strips and strips into pictures
def unpatch(tokens, size, channels, height):
    b, n, d = tokens.shape
    if height % size or n % (height // size) or d != channels * size * size:
        raise ValueError("these tokens are no picture")
    columns = n // (height // size)
    strips = []
    for first in range(0, n, columns):
        blocks = [tokens[:, t].reshape(b, channels, size, size) for t in range(first, first + columns)]
        strips.append(torch.cat(blocks, dim=3))
    return torch.cat(strips, dim=2)

# %% right unpatch: looks up for each pixel its token and its place in the token
def unpatch(tokens, size, channels, height):
    width = tokens.shape[1] * size * size // height
    if height % size or width % size or tokens.shape[2] != channels * size * size:
        raise ValueError("sizes do not match")
    if tokens.shape[1] * size * size != height * width:
        raise ValueError("the last row is not full")
    channel = torch.arange(channels)[:, None, None]
    i = torch.arange(height)[:, None]
    j = torch.arange(width)
    token = i // size * (width // size) + j // size
    place = channel * size**2 + i % size * size + j % size
    return tokens[:, token.expand_as(place), place]

# %% wrong with_places: divides by the number of rows instead of columns to find a token's row
def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    rows, columns = len(by_row), len(by_column)
    if n != rows * columns:
        raise ValueError("the number of tokens is not rows * columns")
    t = torch.arange(n)
    placed = tokens + by_row[t // rows % rows] + by_column[t % columns]
    return torch.cat([cls.expand(b, 1, d), placed], dim=1)

# %% wrong with_places: the class token gets the place of the upper left corner
def with_places(tokens, cls, by_row, by_column):
    places = (by_row[:, None] + by_column).flatten(0, 1)
    places = torch.cat([places[:1], places])
    everything = torch.cat([cls.repeat(len(tokens), 1, 1), tokens], dim=1)
    return everything + places

# %% wrong with_places: the class token comes last
def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    places = (by_row.unsqueeze(1) + by_column.unsqueeze(0)).reshape(n, d)
    return torch.cat((tokens + places, cls.expand(b, 1, d)), dim=1)

# %% wrong with_places: adds in place to a reshaped grid that shares the caller's memory
def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    grid = tokens.reshape(b, len(by_row), len(by_column), d)
    grid += by_row[:, None]
    grid += by_column
    return torch.cat([cls.expand(b, 1, d), grid.flatten(1, 2)], 1)

# %% wrong with_places: writes into torch.zeros, so float64 becomes float32
def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    result = torch.zeros(b, n + 1, d)
    result[:, 0] = cls
    for r in range(len(by_row)):
        for s in range(len(by_column)):
            t = r * len(by_column) + s
            result[:, 1 + t] = tokens[:, t] + by_row[r] + by_column[s]
    return result

# %% wrong with_places: copies the class token with new_tensor, so it gets no gradient
def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    first = tokens.new_tensor(cls.tolist()).repeat(b, 1, 1)
    places = by_row.repeat_interleave(len(by_column), dim=0) + by_column.repeat(len(by_row), 1)
    return torch.cat([first, tokens + places], dim=1)

# %% wrong with_places: puts the class token only in front of a batch of one
def with_places(tokens, cls, by_row, by_column):
    places = (by_row[:, None, :] + by_column[None, :, :]).flatten(0, 1)
    return torch.cat([cls[None, None], tokens + places], dim=1)

# %% wrong with_places: keeps the places of the first call for each shape
saved = {}


def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    key = (len(by_row), len(by_column), d)
    if key not in saved:
        saved[key] = (by_row[:, None] + by_column).reshape(-1, d)
    return torch.cat([cls.expand(b, 1, d), tokens + saved[key]], dim=1)

# %% wrong with_places: views all tokens as one long list, which needs contiguous memory
def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    rows, columns = len(by_row), len(by_column)
    flat = tokens.view(b * n, d)
    flat = flat + by_row.repeat_interleave(columns, 0).repeat(b, 1) + by_column.repeat(b * rows, 1)
    return torch.cat([cls.expand(b, 1, d), flat.reshape(b, n, d)], dim=1)

# %% wrong with_places: leaves out the row's vector when there is only one row
def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    if len(by_row) == 1:  # only columns matter
        places = by_column
    else:
        places = (by_row[:, None] + by_column[None]).reshape(n, d)
    return torch.cat([cls.expand(b, 1, d), tokens + places], dim=1)

# %% right with_places: the places are a table with a row of zeros for the class token
def with_places(tokens, cls, by_row, by_column):
    b, n, d = tokens.shape
    if n != len(by_row) * len(by_column):
        raise ValueError("one token for each place, please")
    table = torch.nn.functional.pad((by_row[:, None] + by_column).reshape(n, d), (0, 0, 1, 0))
    return torch.cat([cls.repeat(b, 1, 1), tokens], dim=1) + table

# %% right with_places: one list of vectors, stacked at the end
def with_places(tokens, cls, by_row, by_column):
    columns = by_column.shape[0]
    if tokens.shape[1] != by_row.shape[0] * columns:
        raise ValueError("wrong number of tokens")
    result = [torch.zeros_like(tokens[:, 0]) + cls]
    for t, token in enumerate(tokens.unbind(dim=1)):
        r, s = divmod(t, columns)
        result.append(token + by_row[r] + by_column[s])
    return torch.stack(result, dim=1)

# %% right with_places: adds on the grid, with the columns in front, then flattens
def with_places(tokens, cls, by_row, by_column):
    grid = tokens.unflatten(1, (len(by_row), len(by_column)))  # (b, rows, columns, d)
    grid = (grid.transpose(1, 2) + by_row).transpose(1, 2) + by_column
    first = cls.broadcast_to(len(tokens), 1, -1)
    return torch.hstack([first, grid.flatten(1, 2)])

# %% wrong grid_rotary: the first half turns by the column, the second by the row
def grid_rotary(X, rows, columns):
    first, second = X.chunk(2, dim=-1)
    return torch.cat([rotary(first, columns), rotary(second, rows)], dim=-1)

# %% wrong grid_rotary: rotates all d columns twice and keeps halves, so the angles are those of width d
def grid_rotary(X, rows, columns):
    half = X.shape[-1] // 2
    return torch.cat([rotary(X, rows)[..., :half], rotary(X, columns)[..., half:]], dim=-1)

# %% wrong grid_rotary: makes whole numbers of the positions first
def grid_rotary(X, rows, columns):
    half = X.shape[-1] // 2
    left = rotary(X[..., :half], rows.long())
    right = rotary(X[..., half:], columns.long())
    return torch.cat([left, right], dim=-1)

# %% wrong grid_rotary: the positions take on the dtype of X, so float16 rounds them
def grid_rotary(X, rows, columns):
    half = X.shape[-1] // 2
    rows, columns = rows.to(X.dtype), columns.to(X.dtype)
    return torch.cat([rotary(X[..., :half], rows), rotary(X[..., half:], columns)], dim=-1)

# %% wrong grid_rotary: writes the rotated halves into the caller's X
def grid_rotary(X, rows, columns):
    half = X.shape[-1] // 2
    result = X.clone() if X.requires_grad else X
    result[..., :half] = rotary(X[..., :half], rows)
    result[..., half:] = rotary(X[..., half:], columns)
    return result

# %% wrong grid_rotary: pairs a number with the one a quarter of the width further on
def grid_rotary(X, rows, columns):
    quarter = X.shape[-1] // 4
    speeds = 10000.0 ** (-torch.arange(quarter) / quarter)
    result = []
    for part, places in zip(X.chunk(2, dim=-1), (rows, columns)):
        angles = places[:, None] * speeds
        x, y = part.chunk(2, dim=-1)
        result.append(x * angles.cos() - y * angles.sin())
        result.append(x * angles.sin() + y * angles.cos())
    return torch.cat(result, dim=-1).to(X.dtype)

# %% wrong grid_rotary: takes exactly one leading dimension
def grid_rotary(X, rows, columns):
    b, n, d = X.shape
    if d % 4:
        raise ValueError("d is not a multiple of 4")
    halves = X.reshape(b, n, 2, d // 2)
    return torch.cat([rotary(halves[:, :, 0], rows), rotary(halves[:, :, 1], columns)], dim=-1)

# %% wrong grid_rotary: keeps cosines and sines for n and d, whatever the places are
class Turns:
    known = {}


def grid_rotary(X, rows, columns):
    n, d = X.shape[-2:]
    if (n, d) not in Turns.known:
        speeds = 10000.0 ** (-torch.arange(0, d // 2, 2) / (d // 2))
        angles = torch.cat([rows[:, None] * speeds, columns[:, None] * speeds], dim=-1)
        Turns.known[n, d] = angles.cos(), angles.sin()
    cos, sin = Turns.known[n, d]
    x, y = X[..., ::2], X[..., 1::2]
    return torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(-2).to(X.dtype)

# %% wrong grid_rotary: counts the places from the first patch, as only distances matter
def grid_rotary(X, rows, columns):
    half = X.shape[-1] // 2
    first = rotary(X[..., :half], rows - rows[0])
    second = rotary(X[..., half:], columns - columns[0])
    return torch.cat((first, second), -1)

# %% wrong grid_rotary: its own rotation does not go back to the dtype of X
def grid_rotary(X, rows, columns):
    d = X.shape[-1]
    speeds = 10000.0 ** (-torch.arange(0, d // 2, 2) / (d // 2))
    angles = torch.cat([rows[:, None] * speeds, columns[:, None] * speeds], dim=-1)
    cos, sin = angles.cos(), angles.sin()
    even, odd = X[..., 0::2], X[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

# %% right grid_rotary: both halves below each other, rotated in one call
def grid_rotary(X, rows, columns):
    n, d = X.shape[-2:]
    if d % 4 or len(rows) != n or len(columns) != n:
        raise ValueError("sizes do not match")
    tall = torch.cat(X.chunk(2, dim=-1), dim=-2)  # (..., 2 n, d / 2)
    turned = rotary(tall, torch.cat([rows, columns]))
    return torch.cat(turned.chunk(2, dim=-2), dim=-1)

# %% right grid_rotary: complex numbers in double precision
def grid_rotary(X, rows, columns):
    n, d = X.shape[-2:]
    if d % 4 or rows.shape != (n,) or columns.shape != (n,):
        raise ValueError("sizes do not match")
    speeds = 10000.0 ** (-4 * torch.arange(d // 4, dtype=torch.float64) / d)
    angles = torch.cat([torch.outer(rows.double(), speeds), torch.outer(columns.double(), speeds)], dim=1)
    pairs = torch.complex(X[..., ::2].double(), X[..., 1::2].double())
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2).to(X.dtype)

# %% right grid_rotary: multiplies each pair by a matrix of two by two
def grid_rotary(X, rows, columns):
    n, d = X.shape[-2:]
    if len(rows) != n or len(columns) != n:
        raise IndexError("one row and one column for each patch")
    pairs = X.unflatten(-1, (2, d // 4, 2)).double()  # (..., n, half, pair, 2)
    places = torch.stack([rows, columns], dim=1).double()
    angles = places[..., None] / 10000 ** (torch.arange(d // 4).double() / (d // 4))
    cos, sin = angles.cos(), angles.sin()
    R = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    return torch.einsum("nhpij,...nhpj->...nhpi", R, pairs).flatten(-3).to(X.dtype)

# %% wrong multimodal_mask: an image token sees the image tokens of all runs
def multimodal_mask(kinds):
    image = torch.tensor([kind == "image" for kind in kinds])
    causal = torch.ones(len(kinds), len(kinds), dtype=torch.bool).tril()
    return causal | (image[:, None] & image[None, :])

# %% wrong multimodal_mask: a run is closed by text only, so the last one stays causal
def multimodal_mask(kinds):
    n = len(kinds)
    mask = torch.tril(torch.ones(n, n, dtype=torch.bool))
    start = None
    for i, kind in enumerate(kinds):
        if kind == "image" and start is None:
            start = i
        elif kind == "text" and start is not None:
            mask[start:i, start:i] = True
            start = None
    return mask

# %% wrong multimodal_mask: a run that starts at token 0 counts as no run
def multimodal_mask(kinds):
    n = len(kinds)
    mask = torch.ones(n, n).tril().bool()
    start = None
    for i in range(n + 1):
        if i < n and kinds[i] == "image":
            start = i if start is None else start
        else:
            if start:
                mask[start:i, start:i] = True
            start = None
    return mask

# %% wrong multimodal_mask: an image token looks only one image token ahead
def multimodal_mask(kinds):
    n = len(kinds)
    mask = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        mask[i, : i + 1] = True
        if i + 1 < n and kinds[i] == kinds[i + 1] == "image":
            mask[i, i + 1] = True
    return mask

# %% wrong multimodal_mask: the result holds the numbers 0 and 1, not booleans
def multimodal_mask(kinds):
    n = len(kinds)
    mask = torch.ones(n, n, dtype=torch.int64).tril()
    for i in range(n):
        j = i
        while j < n and kinds[i] == "image" and kinds[j] == "image":
            mask[i, j] = 1
            j += 1
    return mask

# %% wrong multimodal_mask: appends a text to the caller's list to close the last run
def multimodal_mask(kinds):
    n = len(kinds)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    kinds.append("text")
    for i in range(n):
        if kinds[i] == "image":
            mask[i, : kinds.index("text", i)] = True
    return mask

# %% wrong multimodal_mask: an image token also sees the text that ends its run
def multimodal_mask(kinds):
    n = len(kinds)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for i in range(n):
        end = i
        while end < n and kinds[end] == "image":
            end += 1
        mask[i, : end + 1] = True
    return mask

# %% wrong multimodal_mask: numbers the runs by the text before them, so that text sees the run too
def multimodal_mask(kinds):
    text = torch.tensor([kind == "text" for kind in kinds])
    run = text.cumsum(0)
    t = torch.arange(len(kinds))
    return (t[:, None] >= t) | (run[:, None] == run)

# %% wrong multimodal_mask: the columns are the tokens that look, the rows those that are seen
def multimodal_mask(kinds):
    n = len(kinds)
    mask = torch.zeros(n, n, dtype=torch.bool)
    for query in range(n):
        for key in range(n):
            ahead = kinds[query : key + 1]
            mask[key, query] = key <= query or all(kind == "image" for kind in ahead)
    return mask

# %% wrong multimodal_mask: looks up an earlier mask with as many tokens of each kind
masks = {}


def multimodal_mask(kinds):
    n = len(kinds)
    key = (kinds.count("text"), kinds.count("image"))
    if key not in masks:
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        for i in range(n):
            for j in range(i + 1, n):
                mask[i, j] = "text" not in kinds[i : j + 1]
        masks[key] = mask
    return masks[key].clone()

# %% right multimodal_mask: counts the text up to each token, and equal counts are one run
def multimodal_mask(kinds):
    text = torch.tensor([kind == "text" for kind in kinds])
    count = text.cumsum(0)
    same = (count[:, None] == count[None, :]) & ~text[:, None]
    return same | torch.ones_like(same).tril()

# %% right multimodal_mask: from the end, each row reaches to the end of its run
def multimodal_mask(kinds):
    n = len(kinds)
    last = list(range(n))
    for i in reversed(range(n - 1)):
        if kinds[i] == "image" and kinds[i + 1] == "image":
            last[i] = last[i + 1]
    return torch.arange(n) <= torch.tensor(last)[:, None]

# %% right multimodal_mask: blocks of itertools.groupby in a NumPy array
def multimodal_mask(kinds):
    import itertools

    import numpy as np

    mask = np.tri(len(kinds), dtype=bool)
    at = 0
    for kind, group in itertools.groupby(kinds):
        size = len(list(group))
        if kind == "image":
            mask[at : at + size, at : at + size] = True
        at += size
    return mask

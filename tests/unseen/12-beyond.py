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

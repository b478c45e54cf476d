# %% title [markdown]
# # 12. Beyond text
#
# You turn pictures into sequences and back (`patches`, `unpatch`), give the model the position of each patch
# (`with_places`, `grid_rotary`), and write the mask of a sequence of pictures and text (`multimodal_mask`). Read
# chapter 12 of the book first; it cuts gray pictures, and here you write the general form, for any number of channels.
#
# *About 75 minutes · medium ●●○*
#
# **How to work.** Run the cells from the top, in order. Replace each line `raise NotImplementedError()` with your code,
# run that cell, then run the check below it. Run the check as often as you like: it draws new inputs every time.
#
# **How to read the feedback.** Each check is one sentence about your function. It has *passed*, it has *failed*, or
# it *waits* until a check that it builds on has passed. A failed check says what passed, what failed, and where. When
# it recognizes the mistake, it names the likely cause. `seed=...` repeats the same inputs:
# `checks.run("patches", points=5, seed=...)` in a cell of your own. You can earn partial points, and the checks are
# readable: open `checks.py` next to this notebook. *Advice* costs no points.
#
# **Time and difficulty** are below each heading: easy ●○○ means a line or two, medium ●●○ means some thought, and
# hard ●●● means a sheet of paper. Three kinds of tasks are not graded: pencil questions, whose numbers are checked;
# questions to think about; and stretch tasks, whose time is not included above.
#
# **How to hand in.** Restart the kernel, run all cells, save, and hand in this one file under its name,
# `12-beyond.ipynb`. Leave the locked cells as they are; add your own cells where you like.

# %% given
import torch


def rotary(X, positions, base=10000.0):
    """Rotate each pair of columns by an angle that grows with the position (given; exercise 4 is about it).

    Parameters
    ----------
    X : tensor, shape (..., n, d)
        Queries or keys; d is even.
    positions : tensor, shape (n,)
        The position of each row, any numbers.
    base : float
        Columns 2i and 2i + 1 rotate by position * base^(-2i / d) radians.

    Returns
    -------
    tensor, shape (..., n, d)
        In the dtype of `X`.

    Raises
    ------
    ValueError
        If d is odd, or the number of positions differs from n.
    """
    n, d = X.shape[-2:]
    if d % 2 or len(positions) != n:
        raise ValueError(f"X has shape {tuple(X.shape)}, and there are {len(positions)} positions")
    angles = positions[:, None] * base ** (-torch.arange(0, d, 2) / d)  # (n, d / 2)
    cos, sin = angles.cos(), angles.sin()
    x, y = X[..., 0::2], X[..., 1::2]  # (..., n, d / 2) each
    return torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1).flatten(-2).to(X.dtype)


# %% ask_by_hand [markdown]
# ## With a pencil: one patch of two channels
#
# *About 5 minutes · easy ●○○*
#
# A picture has two channels of 4 by 6 pixels. In the first channel, the pixel in row $i$ and column $j$ has the value
# $10i + j$. In the second channel it has the value $100 + 10i + j$. Rows and columns are counted from 0.
#
# The picture is cut into patches of 2 by 2 pixels, and the patches are counted row by row, from 0.
# **Write down patch 4**: its eight numbers, first those of the first channel, and each channel row by row.


# %% by_hand
def by_hand():
    """Return the numbers of patch 4, worked out with a pencil.

    Returns
    -------
    list of 8 numbers
    """
    ### BEGIN SOLUTION
    return [22, 23, 32, 33, 122, 123, 132, 133]
    ### END SOLUTION


# %% check_by_hand
import checks

checks.run("by_hand", points=0)

# %% conventions [markdown]
# ## Six rules for this notebook
#
# - A batch of pictures has shape (b, c, H, W): b pictures of c channels, each H pixels high and W pixels wide. A picture need not
#   be square. Patches are `size` by `size` pixels. n is the number of patches, or of tokens, and d the width of a token.
# - Patches are counted row by row: the first patch is in the upper left corner, the second to the right of it. The
#   numbers of a patch are in the order (channel, row, column).
# - The result has the floating dtype of the inputs. Integers in pictures and tokens are not tested.
# - Gradients flow from the result to every input tensor: no `detach`, no `.data`, no NumPy on the way. (A mask has none.)
# - The inputs do not change, and a result may share its memory with them. Inputs may have any memory layout, like that
#   of a transposed tensor.
# - Advice, worth no points: sizes that do not match (each function lists its own under *Raises*) raise `ValueError`,
#   `RuntimeError` or `IndexError`. Only in 12.1 are they worth points: a picture whose edge is silently cut off looks
#   right.

# %% ask_patches [markdown]
# ## 12.1 `patches`: from a picture to a sequence
#
# *About 15 minutes · medium ●●○*
#
# Cut each picture into squares of `size` by `size` pixels, and write each square as one row of numbers. H and W are
# multiples of `size`, so there are
#
# $$
# n = \frac{H}{\text{size}} \cdot \frac{W}{\text{size}}
# $$
#
# patches, each of $c \cdot \text{size}^2$ numbers.
#
# By hand, with one channel, H = 2, W = 4 and `size` = 2:
#
# $$
# \left(\begin{array}{cc|cc} 0 & 1 & 2 & 3 \\ 4 & 5 & 6 & 7 \end{array}\right)
# \quad \to \quad
# \begin{pmatrix} 0 & 1 & 4 & 5 \\ 2 & 3 & 6 & 7 \end{pmatrix}
# $$
#
# A patch is not a run of neighbors in memory: `reshape` alone gives the right shape but the wrong numbers.


# %% patches
def patches(images, size):
    """Cut pictures into patches, each of them one token.

    Parameters
    ----------
    images : tensor, shape (b, c, H, W)
    size : int
        The height and the width of a patch, in pixels.

    Returns
    -------
    tensor, shape (b, H / size * W / size, c * size * size)
        Patches row by row; the numbers of a patch in the order (channel, row, column).

    Raises
    ------
    ValueError, RuntimeError or IndexError
        If H or W is not a multiple of `size`. This is worth points.
    """
    ### BEGIN SOLUTION
    b, c, H, W = images.shape
    if H % size or W % size:
        raise ValueError(f"pictures of {H} by {W} pixels, patches of {size} by {size}")
    X = images.reshape(
        b, c, H // size, size, W // size, size
    )  # (b, c, row of patches, row, column of patches, column)
    return X.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * size * size)
    ### END SOLUTION


# %%
# For your own experiments. Write the function, then take the # away.
# patches(torch.arange(8.0).reshape(1, 1, 2, 4), 2)

# %% check_patches
import checks

checks.run("patches", points=5)

# %% ask_unpatch [markdown]
# ## 12.2 `unpatch`: and back
#
# *About 10 minutes · medium ●●○*
#
# A model that generates pictures returns patches, which have to be put together again. `unpatch` is the inverse of
# `patches`: for all pictures (b, c, H, W) whose sides are multiples of `size`,
# `unpatch(patches(images, size), size, c, H)` returns the original pictures. The width is not given: it follows from
# the number of tokens and the height.
#
# By hand: 6 tokens with `size` = 2 and a height of 4 are 2 rows of 3 patches, so the picture is 6 pixels wide.


# %% unpatch
def unpatch(tokens, size, channels, height):
    """Combine patches into pictures: the inverse of `patches`.

    Parameters
    ----------
    tokens : tensor, shape (b, n, channels * size * size)
        Patches row by row, as `patches` returns them.
    size : int
        The height and the width of a patch, in pixels.
    channels : int
    height : int
        The height of the pictures, in pixels.

    Returns
    -------
    tensor, shape (b, channels, height, width)
        Where the width is n * size * size / height.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if the height is not a multiple of `size`, if the n patches do not fill whole rows, or
        if a token has another width than channels * size * size.
    """
    ### BEGIN SOLUTION
    b, n, numbers = tokens.shape
    rows = height // size
    if height % size or n % rows or numbers != channels * size * size:
        raise ValueError(f"tokens {tuple(tokens.shape)}, size {size}, channels {channels}, height {height}")
    X = tokens.reshape(b, rows, n // rows, channels, size, size)
    return X.permute(0, 3, 1, 4, 2, 5).reshape(b, channels, height, -1)
    ### END SOLUTION


# %%
# For your own experiments.
# unpatch(torch.tensor([[[0.0, 1, 4, 5], [2, 3, 6, 7]]]), 2, 1, 2)

# %% check_unpatch
import checks

checks.run("unpatch", points=4)

# %% ask_with_places [markdown]
# ## 12.3 `with_places`: a row's vector and a column's vector
#
# *About 10 minutes · easy ●○○*
#
# A learned matrix E has turned the patches into tokens of d numbers. Now each token gets its place, and the class token
# is put in front. The chapter learns one vector for each of the n places. Here there is one for each row of the grid
# and one for each column, `by_row` and `by_column`, and a place is the sum of the two: rows + columns vectors instead
# of rows · columns.
#
# The token of the patch in row r and column s is number $r \cdot \text{columns} + s$ of its picture. Add `by_row[r]` and
# `by_column[s]` to it.
#
# The class token `cls` comes first, the same for each picture. It has no place, and nothing is added to it.
#
# By hand, with d = 1, two rows (10, 20), three columns (1, 2, 3), all tokens 0 and the class token 7, the result is
# $(7, 11, 12, 13, 21, 22, 23)$.


# %% with_places
def with_places(tokens, cls, by_row, by_column):
    """Put a class token in front of the tokens of a picture, and add their places to the others.

    Parameters
    ----------
    tokens : tensor, shape (b, rows * columns, d)
        One for each patch, row by row.
    cls : tensor, shape (d,)
        The class token.
    by_row : tensor, shape (rows, d)
    by_column : tensor, shape (columns, d)

    Returns
    -------
    tensor, shape (b, 1 + rows * columns, d)

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if the number of tokens is not rows * columns, or if widths differ.
    """
    ### BEGIN SOLUTION
    b, n, d = tokens.shape
    if n != len(by_row) * len(by_column) or not d == len(cls) == by_row.shape[1] == by_column.shape[1]:
        raise ValueError(f"tokens {tuple(tokens.shape)}, {len(by_row)} rows and {len(by_column)} columns")
    P = (by_row[:, None] + by_column).reshape(n, d)  # (rows, 1, d) + (columns, d)
    return torch.cat([cls.expand(b, 1, d), tokens + P], dim=1)
    ### END SOLUTION


# %%
# For your own experiments.
# rows, columns = torch.tensor([[10.0], [20]]), torch.tensor([[1.0], [2], [3]])
# with_places(torch.zeros(1, 6, 1), torch.tensor([7.0]), rows, columns).flatten()

# %% check_with_places
import checks

checks.run("with_places", points=3)

# %% ask_grid_rotary [markdown]
# ## 12.4 `grid_rotary`: turned by row and by column
#
# *About 10 minutes · medium ●●○*
#
# A rotary encoding uses one position for each token (exercise 4), but a patch has two. So the d columns of
# queries and keys are cut in two: the first d/2 are rotated by the row of the patch, the last d/2 by its column.
# Each half is rotated as `rotary` rotates a vector of d/2 numbers: `rotary` is given at the top of this notebook,
# and its base stays 10000.
#
# The dot product of a query and a key after these rotations depends only on two distances: the number of rows and the
# number of columns between them.
#
# By hand, with d = 4, in row $\pi/2$ and column $\pi$: each half is one pair. $(3, 1)$ rotates by a quarter of a circle
# to $(-1, 3)$, and $(2, 5)$ by half a circle to $(-2, -5)$. So $(3, 1, 2, 5)$ becomes $(-1, 3, -2, -5)$.


# %% grid_rotary
def grid_rotary(X, rows, columns):
    """Rotate the first half of each vector by the row of its patch, and the second half by its column.

    Parameters
    ----------
    X : tensor, shape (..., n, d)
        Queries or keys; d is a multiple of 4.
    rows : tensor, shape (n,)
        The row of each patch, whole numbers or not, the same for all leading dimensions.
    columns : tensor, shape (n,)
        The column of each patch, in the same form.

    Returns
    -------
    tensor, shape (..., n, d)
        In the dtype of `X`. Compute the angles in float32 or float64 for any dtype.

    Raises
    ------
    ValueError, RuntimeError or IndexError
        Advice, worth no points: if d is not a multiple of 4, or if the number of rows or of columns differs from n.
    """
    ### BEGIN SOLUTION
    half = X.shape[-1] // 2
    return torch.cat([rotary(X[..., :half], rows), rotary(X[..., half:], columns)], dim=-1)
    ### END SOLUTION


# %%
# For your own experiments.
# quarter = torch.tensor([torch.pi / 2])
# grid_rotary(torch.tensor([[3.0, 1, 2, 5]]), quarter, 2 * quarter)

# %% check_grid_rotary
import checks

checks.run("grid_rotary", points=4)

# %% ask_multimodal_mask [markdown]
# ## 12.5 `multimodal_mask`: pictures between words
#
# *About 20 minutes · hard ●●●*
#
# In a sequence of words and pictures, text is written one token at a time, but a picture is there all at once. So
#
# - a text token sees all tokens before it, and itself;
# - an image token sees all tokens before it, itself, and the later image tokens of its own run.
#
# A *run* is a stretch of image tokens without text in between. Two pictures directly after each other are one run.
#
# By hand, for text, image, image, text, image, with True as 1:
#
# $$
# \begin{pmatrix} 1 & 0 & 0 & 0 & 0 \\ 1 & 1 & 1 & 0 & 0 \\ 1 & 1 & 1 & 0 & 0 \\ 1 & 1 & 1 & 1 & 0 \\ 1 & 1 & 1 & 1 & 1
# \end{pmatrix}
# $$
#
# Row 1 is the first image token: it sees the image token after it, but not the one after the text.


# %% multimodal_mask
def multimodal_mask(kinds):
    """Return which tokens may attend to which, in a sequence of text and pictures.

    Parameters
    ----------
    kinds : list of n strings
        "text" or "image" for each token; n is at least 1. Other strings are not tested.

    Returns
    -------
    tensor of bool, shape (n, n)
        True in row i and column j where token i may attend to token j. A NumPy array also works.
    """
    ### BEGIN SOLUTION
    text = torch.tensor([kind == "text" for kind in kinds])
    before = text.cumsum(0)  # the number of words up to here: the same for all image tokens of one run
    run = (before[:, None] == before) & ~text[:, None] & ~text
    return run | torch.ones(len(kinds), len(kinds), dtype=torch.bool).tril()
    ### END SOLUTION


# %%
# For your own experiments.
# multimodal_mask(["text", "image", "image", "text", "image"]).int()

# %% check_multimodal_mask
import checks

checks.run("multimodal_mask", points=4)

# %% pieces [markdown]
# ## A picture taken apart
#
# A picture of 24 by 36 pixels in three colors becomes 24 tokens of 108 numbers. Put together in their order, they are
# the original picture. Put together in another order, they are a puzzle; a model that gets no places sees no
# difference.

# %% demo_pieces
import matplotlib.pyplot as plt

row, column = torch.meshgrid(torch.arange(24.0), torch.arange(36.0), indexing="ij")
red, green, blue = 0.45 + row / 60, 0.65 + row / 120, torch.full_like(row, 0.92)  # a sky
sun = (row - 7) ** 2 + (column - 26) ** 2 < 20
hills = row > 17 + 2.5 * torch.sin(column / 5)
for channel, sunny, hilly in [(red, 0.95, 0.2), (green, 0.75, 0.5), (blue, 0.2, 0.3)]:
    channel[sun], channel[hills] = sunny, hilly
picture = torch.stack([red, green, blue])[None]  # (1, 3, 24, 36)

tokens = patches(picture, 6)  # (1, 24, 108)
order = torch.randperm(24, generator=torch.Generator().manual_seed(12))
figure, panels = plt.subplots(1, 2, figsize=(8.5, 3), layout="constrained")
names = [f"{tokens.shape[1]} patches in order", "in another order"]
for axes, own, name in zip(panels, [tokens, tokens[:, order]], names, strict=True):
    axes.imshow(unpatch(own, 6, 3, 24)[0].permute(1, 2, 0), interpolation="nearest")
    axes.set(title=name, xticks=torch.arange(5.5, 35, 6), yticks=torch.arange(5.5, 23, 6))
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    axes.grid(color="white", linewidth=0.8)

# %% together [markdown]
# ## A picture between words
#
# Now everything comes together: three words, the picture with its class token, and four more words. On the left is your
# mask. In the middle are the attention weights under it (nothing is trained here, all vectors are random): each row
# sums to 1, and no word looks ahead. On the right is the dot product of a query in the middle of a grid with the same
# key everywhere, both rotated by `grid_rotary`: it is largest at the query's own place, and both directions count.

# %% demo_together
generator = torch.Generator().manual_seed(12)
d = 32
E = torch.randn(108, d, generator=generator) / 10
cls, by_row, by_column, words = (torch.randn(m, d, generator=generator) for m in (1, 4, 6, 7))
seen = with_places(tokens @ E, cls[0], by_row, by_column)[0]  # (25, d): the class token and 24 patches
sequence = torch.cat([words[:3], seen, words[3:]])  # (32, d)
mask = torch.as_tensor(multimodal_mask(["text"] * 3 + ["image"] * len(seen) + ["text"] * 4))
S = sequence @ sequence.T / d  # smaller than usual, so that a picture of them has more than one colour
A = S.masked_fill(~mask, -torch.inf).softmax(-1)

rows, columns = torch.arange(9).repeat_interleave(13), torch.arange(13).repeat(9)
turned = grid_rotary(torch.ones(9 * 13, d), rows, columns)
products = (turned @ turned[4 * 13 + 6]).reshape(9, 13)

figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
panels[0].imshow(mask, cmap="Greys", vmax=1.6)
panels[0].set(title="multimodal_mask", xlabel="key", ylabel="query")
panels[1].imshow(A**0.5, cmap="cividis")
panels[1].set(title="weights (square roots)", xlabel="key", ylabel="query")
panels[2].imshow(products, cmap="cividis")
panels[2].set(title="grid_rotary, query in the middle", xlabel="column of the key", ylabel="row of the key")
print(f"rows sum to 1: {torch.allclose(A.sum(-1), torch.ones(len(A)))}")

# %% think [markdown]
# ## To think about: why may patches look ahead?
#
# *About 5 minutes · medium ●●○*
#
# A model with this mask learns to predict the next word. Why is it harmless there that a patch sees the patches after
# it, while a word that sees the words after it would spoil everything? And what if the same model also has to generate
# pictures, patch by patch? Nothing is checked here.
#
# <details><summary>An answer</summary>
#
# A token that is predicted must not be seen. The model has to predict only words: at each word it predicts the next
# token, if that is a word. Patches are given and never predicted, and no patch sees a word after it. So no information
# about a later word reaches an earlier one, not even through the patches. A word that saw the next word would copy it,
# learn nothing, and fail where the next word isn't there yet.
#
# If patches are predicted one at a time, no patch may see later ones, and the mask has to be causal for them as well.
# Or all patches of a picture are predicted at once, from noise or from a picture with holes; then they may see one
# another.
#
# </details>

# %% stretch [markdown]
# ## A stretch task: another order, and a convolution
#
# *About 25 minutes · hard ●●●*
#
# Some libraries write a patch in the order (row, column, channel). A model was trained this way, and its matrix E, (c ·
# size · size, d), matches that order. Find the permutation of E's rows that makes it match your `patches`, and show
# that the tokens are the same. Then make `nn.Conv2d(c, d, kernel_size=size, stride=size)` give these tokens: how do you
# get its weight, (d, c, size, size), from E? There are no points and no check for this task.

# %%
# Yours: the stretch task, or anything else.

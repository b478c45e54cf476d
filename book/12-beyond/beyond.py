"""A small transformer that looks at pictures: one to draw in, where each head looks, and what the
model makes of it.

The pictures, the model and its training are the chapter's own: `chapter()` takes them from the
page, `train` makes the model, the same each time. The figure computes in JavaScript (beyond.js), so
it answers in a page without a kernel. Everything a reader sees comes from `TEXT`, so that a
translation passes another dictionary.
"""

import functools

import numpy as np
import torch
import traitlets
from figures.course import as_the_page, of_chapter
from figures.widget import Figure, script, style

FIRST = (("ring", 6, 2, 1), ("cross", 6, 8, 9))  # shape, size, top, left


@functools.cache
def chapter():
    """Return what the page's cells define: the pictures, patches, ViT and its training."""
    return of_chapter("12-beyond")


def train(steps=None):
    """Return the model that the page trains, in float64; its numbers are rounded, so that few
    digits say it all.
    """
    page = chapter()
    with as_the_page(page["SEED"], torch.float32):
        model, (images, left) = page["ViT"](), page["pictures"](0, 8000)
        page["train"](
            model, page["patches"](images, 4), left, page["STEPS"] if steps is None else steps
        )
    return rebuilt(model.state_dict())


def rebuilt(numbers):
    """Return the model with such numbers, by name, as `state_dict` has them; in float64, and
    rounded.
    """
    with as_the_page(seed=0):
        model = chapter()["ViT"]()
    model.load_state_dict(
        {name: value.double().round(decimals=3) for name, value in numbers.items()}
    )
    return model.requires_grad_(False)


def picture(*shapes):
    """Return a picture (16, 16) of such shapes: name, size, top, left."""
    image = np.zeros((16, 16), dtype="f4")
    for shape, size, top, left in shapes:
        chapter()["draw"](image, shape, size, top, left)
    return torch.tensor(image)


def inside(model, image, places=True):
    """Return what happens in the model while it looks at a picture (16, 16).

    `weights` (layers, heads, 17, 17), the class token first, and `chances` (4,) of what is on the
    left; without `places` no patch knows where it is.
    """
    before = model.places.clone()
    model.places.mul_(places)
    scores = model(chapter()["patches"](image[None].to(before.dtype), 4))[0]
    model.places.copy_(before)
    return {
        "weights": torch.stack([block.A[0] for block in model.blocks]),
        "chances": scores.softmax(-1),
    }


TEXT = {
    "title": "A transformer looks at a picture that you draw",
    "layer": "Layer",
    "asks": "Who asks?",
    "token": "class token",
    "patch": "the patch with the pen",
    "picture": "Picture of {side} by {side} pixels. The pen is in row {row}, column {column}: "
    "{pixel}. Arrow keys move it, the space bar flips the pixel.",
    "on": "dark",
    "off": "light",
    "draw": "Press pixels to draw.",
    "head": "head {number}",
    "self": "token {weight}",
    "weights_picture": "{head}: weights of 4 by 4 patches, row by row: {weights}; class token "
    "{token}.",
    "chances": "What is on the left?",
    "shape_ring": "ring",
    "shape_cross": "cross",
    "shape_plus": "plus",
    "shape_corner": "corner",
    "try": "Things to try",
    "try_swap": "Change places",
    "try_forget": "Forget the places",
    "try_shuffle": "Shuffle the patches",
    "try_alone": "Only the right one",
    "try_other": "Another picture",
    "try_empty": "Empty",
    "say": "“{most}” is on the left, says the model, {share} sure. {looks}",
    "say_forgot": "No patch knows where it is. “{most}”, says the model, {share} sure. {looks}",
    "look_token": "The class token gives {left} of its weight in layer {layer} to the left half "
    "of the picture.",
    "look_patch": "The patch in row {row}, column {column} gives {left} of its weight in layer "
    "{layer} to the left half of the picture.",
}


class BeyondFigure(Figure):
    """A picture to draw in, a small ViT that looks at it, and the weights of its heads.

    Args:
        model: a `ViT` of the chapter, such as `train` returns.
        others: how many pictures "Another picture" goes through.
        text: other words for `TEXT`.
    """

    _esm = script("beyond")
    _css = style("beyond")
    model = traitlets.Dict().tag(sync=True)
    shapes = traitlets.List().tag(sync=True)
    starts = traitlets.List().tag(sync=True)
    others = traitlets.List().tag(sync=True)

    def __init__(self, model, others=12, text=None):
        (one, *here), (two, *there) = FIRST
        starts = [picture(*FIRST), picture((two, *here), (one, *there)), picture(FIRST[1])]
        numbers = {name: parameter.tolist() for name, parameter in model.named_parameters()}
        super().__init__(
            TEXT,
            text,
            model={
                "num_heads": model.blocks[0].num_heads,
                "num_layers": len(model.blocks),
                "numbers": numbers,
            },
            shapes=chapter()["SHAPES"],
            starts=[image.int().tolist() for image in starts],
            others=[image.int().tolist() for image in chapter()["pictures"](3, others)[0]],
        )


def demo():
    """Return a figure that is quickly made, to be tried in JupyterLab."""
    return BeyondFigure(train(steps=2))

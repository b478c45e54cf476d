"""What is asked in exercise 9, product by product: what its checks compare with, released inside the archive only."""

import math

import numpy as np


def matrix_product(rows, terms, columns):
    """Return the FLOPs of (rows, terms) times (terms, columns): an addition for each multiplication."""
    return sum([rows * columns] * 2) * terms


def four_projections(n, d_model, num_heads=1):
    return sum(matrix_product(n, d_model, d_model) for _ in ("Q", "K", "V", "out"))


def two_products(n, d_model, num_heads=1):
    d_head = d_model // num_heads
    return sum(matrix_product(n, d_head, n) + matrix_product(n, n, d_head) for _ in range(num_heads))


def both(n, d_model, num_heads):
    return four_projections(n, d_model, num_heads) + two_products(n, d_model, num_heads)


def bytes_of_weights(n, d_model, num_heads, bytes_per_value):
    """Ask NumPy: for an array of one entry that pretends to have this shape, so that it takes no memory."""
    return np.broadcast_to(np.empty((), dtype=f"V{bytes_per_value}"), (num_heads, n, n)).nbytes


def numbers_in(d_model, bias):
    shapes = [(d_model, d_model)] * 4 + [(d_model,)] * (4 if bias else 0)
    return sum(math.prod(shape) for shape in shapes)


def slope(lengths, seconds):
    """Return the slope of the least-squares line through the logarithms: numbers in Python, one at a time."""
    x, y = ([math.log(float(value)) for value in values] for values in (lengths, seconds))
    x_mean, y_mean = math.fsum(x) / len(x), math.fsum(y) / len(y)
    along = math.fsum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True))
    return along / math.fsum((a - x_mean) ** 2 for a in x)


# What a mistaken count may be a sum of: the checks tell how often each term is in it.

FLOPS_TERMS = {
    "n d_model²": lambda n, d, h: n * d**2,
    "n² d_model": lambda n, d, h: n**2 * d,
    "num_heads n d_model²": lambda n, d, h: h * n * d**2,
    "num_heads n² d_model": lambda n, d, h: h * n**2 * d,
    "n d_model² / num_heads": lambda n, d, h: n * d**2 / h,
    "n² d_model / num_heads": lambda n, d, h: n**2 * d / h,
    "n d_model": lambda n, d, h: n * d,
    "num_heads n d_model": lambda n, d, h: h * n * d,
    "num_heads n²": lambda n, d, h: h * n**2,
    "n²": lambda n, d, h: n**2,
    "n² d_model²": lambda n, d, h: (n * d) ** 2,
    "d_model²": lambda n, d, h: d**2,
}

BYTES_TERMS = {
    "num_heads n² bytes_per_value": lambda n, d, h, b: h * n**2 * b,
    "n² bytes_per_value": lambda n, d, h, b: n**2 * b,
    "n² bytes_per_value / num_heads": lambda n, d, h, b: n**2 * b / h,
    "n d_model bytes_per_value": lambda n, d, h, b: n * d * b,
    "num_heads n d_model bytes_per_value": lambda n, d, h, b: h * n * d * b,
    "n² d_model bytes_per_value": lambda n, d, h, b: n**2 * d * b,
    "num_heads n² d_model bytes_per_value": lambda n, d, h, b: h * n**2 * d * b,
    "n² d_model bytes_per_value / num_heads": lambda n, d, h, b: n**2 * d * b / h,
    "num_heads n bytes_per_value": lambda n, d, h, b: h * n * b,
    "d_model² bytes_per_value": lambda n, d, h, b: d**2 * b,
    "num_heads n²": lambda n, d, h, b: h * n**2,
    "n²": lambda n, d, h, b: n**2,
    "n d_model": lambda n, d, h, b: n * d,
}

COUNT_TERMS = {
    "d_model²": lambda d, *bias: d**2,
    "d_model": lambda d, *bias: d,
    "1": lambda d, *bias: 1,
}

"""Exercise 9 computed product by product: its checks compare with this. Students get it only inside the archive."""

import math

import numpy as np


def matrix_product(rows, terms, columns):
    """Return the FLOPs of (rows, terms) times (terms, columns): an addition for each multiplication."""
    return sum([rows * columns] * 2) * terms


def four_projections(n, d_model, num_heads=1):
    return sum(matrix_product(n, d_model, d_model) for _ in ("Q", "K", "V", "out"))


def two_products(n, d_model, num_heads=1):
    d_head = d_model // num_heads
    return sum(
        matrix_product(n, d_head, n) + matrix_product(n, n, d_head) for _ in range(num_heads)
    )


def both(n, d_model, num_heads):
    return four_projections(n, d_model, num_heads) + two_products(n, d_model, num_heads)


def bytes_of_weights(n, d_model, num_heads, bytes_per_value):
    """Ask NumPy about an array of one entry with this broadcast shape, which takes no memory."""
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


def cached(
    batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number
):
    """Return the bytes of all caches: two arrays for each text and layer."""
    shape = (num_kv_heads, context, d_head)
    return sum(2 * math.prod(shape) * bytes_per_number for _ in range(num_layers)) * batch


def read_in_a_step(batch, context, *model):
    *_, num_parameters, bytes_per_number = model
    return cached(batch, context, *model) + sum([num_parameters] * bytes_per_number)


def longer(operations, moved_bytes, operations_per_second, bytes_per_second):
    times = sorted([operations / operations_per_second, moved_bytes / bytes_per_second])
    return times[1]


def balanced(batch, operations_per_second, bytes_per_second, bytes_per_number):
    """Return the seconds of one parameter's operations in a batch, and those in which it is read."""
    return (batch + batch) / operations_per_second, bytes_per_number / bytes_per_second


def limits(context, model, machine, seconds):
    """Return the batch that each limit alone allows, by its name, and as "batch" what all allow; by bisection.

    "work" is the operations of one text.
    """
    work = 2 * model["num_parameters"]
    for _ in range(model["num_layers"]):
        work += 2 * matrix_product(1, model["d_model"], context)
    allowed = {"work": work}
    for name, cost, most in [
        ("memory", read_in_a_step, machine.get("memory_bytes", 0)),
        ("bytes", read_in_a_step, machine.get("bytes_per_second", 0) * seconds),
        ("operations", lambda batch, *_: batch * work, machine["operations_per_second"] * seconds),
    ]:
        low, high = 0, 2**40  # a batch that is allowed, and one that is not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (middle, high) if cost(middle, context, *model.values()) <= most else (low, middle)
            )
        allowed[name] = low
    return {**allowed, "batch": min(allowed["memory"], allowed["bytes"], allowed["operations"])}


# Terms of which a mistaken count may be a sum: the checks report how often each term is in it.

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

DECODE_TERMS = {
    "num_parameters bytes_per_number": lambda b, c, n, d, h, w, p, s: p * s,
    "batch num_parameters bytes_per_number": lambda b, c, n, d, h, w, p, s: b * p * s,
    "num_layers num_parameters bytes_per_number": lambda b, c, n, d, h, w, p, s: n * p * s,
    "num_parameters": lambda b, c, n, d, h, w, p, s: p,
    "batch context num_layers num_kv_heads d_head bytes_per_number": lambda b, c, n, d, h, w, p, s: (
        b * c * n * h * w * s
    ),
    "batch context num_layers num_kv_heads d_head": lambda b, c, n, d, h, w, p, s: (
        b * c * n * h * w
    ),
    "context num_layers num_kv_heads d_head bytes_per_number": lambda b, c, n, d, h, w, p, s: (
        c * n * h * w * s
    ),
    "batch num_layers num_kv_heads d_head bytes_per_number": lambda b, c, n, d, h, w, p, s: (
        b * n * h * w * s
    ),
    "batch context num_kv_heads d_head bytes_per_number": lambda b, c, n, d, h, w, p, s: (
        b * c * h * w * s
    ),
    "batch context num_layers d_head bytes_per_number": lambda b, c, n, d, h, w, p, s: (
        b * c * n * w * s
    ),
    "batch context num_layers num_kv_heads bytes_per_number": lambda b, c, n, d, h, w, p, s: (
        b * c * n * h * s
    ),
    "batch context num_layers d_model bytes_per_number": lambda b, c, n, d, h, w, p, s: (
        b * c * n * d * s
    ),
    "batch context num_layers num_kv_heads d_model bytes_per_number": lambda b, c, n, d, h, w, p, s: (
        b * c * n * h * d * s
    ),
    "batch context² num_layers num_kv_heads d_head bytes_per_number": lambda b, c, n, d, h, w, p, s: (
        b * c**2 * n * h * w * s
    ),
}

SECONDS_TERMS = {
    "operations / operations_per_second": lambda a, b, c, d: a / c,
    "moved_bytes / bytes_per_second": lambda a, b, c, d: b / d,
    "operations / bytes_per_second": lambda a, b, c, d: a / d,
    "moved_bytes / operations_per_second": lambda a, b, c, d: b / c,
    "operations_per_second / operations": lambda a, b, c, d: c / a,
    "bytes_per_second / moved_bytes": lambda a, b, c, d: d / b,
}

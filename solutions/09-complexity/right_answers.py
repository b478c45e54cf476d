"""Right answers that look different from ours; the tests run the checks on them. Students do not get them.

Some allow any broadcasting, and fail only advice: these also earn all points.
"""

import math
from fractions import Fraction

import numpy as np

from checking import right
from checking.answer_parts import fits
from misconceptions import divided, flops, line, logarithms

# by_hand


@right("by_hand")
def by_hand_array():
    return np.array([48.0, 36.0, 528.0, 72.0])


# attention_flops


@right("attention_flops")
def attention_flops_head_by_head(n, d_model, num_heads):
    d_head = divided(d_model, num_heads)
    total = 0
    for _ in range(num_heads):
        total += (
            3 * 2 * n * d_model * d_head
        )  # the columns of this head, of queries, keys and values
        total += 2 * n * d_head * n + 2 * n * n * d_head
    return total + 2 * n * d_model * d_model


@right("attention_flops")
def attention_flops_of_products(n, d_model, num_heads):
    d_head = divided(d_model, num_heads)
    shapes = [(n, d_model, d_model)] * 4 + [(n, d_head, n), (n, n, d_head)] * num_heads
    return sum(2 * math.prod(shape) for shape in shapes)


@right("attention_flops")
def attention_flops_floating(n, d_model, num_heads):
    d_head = d_model / num_heads
    return 8.0 * n * d_model**2 + num_heads * 4 * n**2 * d_head


@right("attention_flops")
def attention_flops_in_64_bits(n, d_model, num_heads):
    divided(d_model, num_heads)
    sizes = (
        np.array([2 * n, d_model, d_model, 4], dtype=np.int64),
        np.array([4 * n, n, d_model], dtype=np.int64),
    )
    return np.prod(sizes[0]) + np.prod(sizes[1])


# attention_bytes


@right("attention_bytes")
def attention_bytes_of_shape(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    return math.prod((num_heads, n, n)) * bytes_per_value


@right("attention_bytes")
def attention_bytes_head_by_head(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    total = 0
    for _ in range(num_heads):
        total += n * n * bytes_per_value
    return total


@right("attention_bytes")
def attention_bytes_floating(n, d_model, num_heads, bytes_per_value):
    return math.pow(n, 2) * num_heads * bytes_per_value


@right("attention_bytes")
def attention_bytes_in_64_bits(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    return np.prod([num_heads, n, n, bytes_per_value], dtype=np.int64)


# parameter_count


@right("parameter_count")
def parameter_count_of_shapes(d_model, bias=True):
    total = 0
    for _ in ("W_q", "W_k", "W_v", "W_o"):
        total += math.prod([d_model, d_model])
        if bias:
            total += d_model
    return total


@right("parameter_count")
def parameter_count_fused(d_model, bias=True):
    inside = 3 * d_model * d_model + (
        3 * d_model if bias else 0
    )  # queries, keys and values in one array
    outside = d_model * d_model + (d_model if bias else 0)
    return float(inside + outside)


@right("parameter_count")
def parameter_count_in_64_bits(d_model, bias=True):
    width = np.int64(d_model)
    return 4 * (width**2 + np.where(bias, width, 0))


# crossover_length


@right("crossover_length")
def crossover_length_ratio(d_model):
    per_token = 4 * 2 * d_model**2  # of the projections
    per_pair = 2 * 2 * d_model  # of the products
    return per_token / per_pair


@right("crossover_length")
def crossover_length_bisection(d_model):
    low, high = 0, 2**40
    for _ in range(40):
        n = (low + high) // 2
        if flops(n, d_model, 1, projections=0) < flops(n, d_model, 1, products=0):
            low = n
        else:
            high = n
    return high


@right("crossover_length")
def crossover_length_of_all(d_model):
    n = np.arange(1, 3 * d_model + 1)
    dearer = n * n * 4 * d_model >= n * 8 * d_model**2
    return n[dearer][0]


@right("crossover_length")
def crossover_length_roots(d_model):
    return np.roots([4 * d_model, -8 * d_model**2, 0]).max()


# fit_exponent


@right("fit_exponent")
def fit_exponent_polyfit(lengths, seconds):
    slope, _ = np.polyfit(np.log(lengths), np.log(seconds), 1)
    return slope


@right("fit_exponent")
def fit_exponent_lstsq(lengths, seconds):
    if len(lengths) != len(seconds):
        raise ValueError("as many seconds as lengths are needed")
    A = np.stack([np.log2(lengths), np.ones(len(lengths))], axis=1)
    return np.linalg.lstsq(A, np.log2(seconds), rcond=None)[0][0]


@right("fit_exponent")
def fit_exponent_covariances(lengths, seconds):
    if np.shape(lengths) != np.shape(seconds):
        raise ValueError(f"{np.shape(lengths)} and {np.shape(seconds)}")
    C = np.cov(np.log10(lengths), np.log10(seconds))
    return C[0, 1] / C[0, 0]


@right("fit_exponent")
def fit_exponent_in_python(lengths, seconds):
    x = [math.log10(n) for n in lengths]
    y = [math.log10(t) for t in seconds]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    above = below = 0.0
    for a, b in zip(x, y, strict=True):
        above += (a - x_mean) * (b - y_mean)
        below += (a - x_mean) ** 2
    return above / below


@right("fit_exponent")
def fit_exponent_sums(lengths, seconds):
    m = len(lengths)
    if m != len(seconds):
        raise ValueError(f"{m} lengths and {len(seconds)} seconds")
    x, y = np.log(lengths), np.log(seconds)
    return (m * (x * y).sum() - x.sum() * y.sum()) / (m * (x**2).sum() - x.sum() ** 2)


@right("fit_exponent")
def fit_exponent_all_pairs(lengths, seconds):
    # The slope is that between each two points, weighted with the square of their distance.
    x, y = logarithms(lengths, seconds)
    dx, dy = x[:, None] - x, y[:, None] - y
    return float((dx * dy).sum() / (dx * dx).sum())


@right("fit_exponent")
def fit_exponent_correlated(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    if y.std() < 1e-12:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1] * y.std() / x.std())


@right("fit_exponent")
def fit_exponent_statistics(lengths, seconds):
    from statistics import linear_regression

    if len(lengths) != len(seconds):
        raise ValueError("as many seconds as lengths are needed")
    return linear_regression([math.log(n) for n in lengths], [math.log(t) for t in seconds]).slope


@right("fit_exponent")
def fit_exponent_in_float32(lengths, seconds):
    x, y = (np.log(np.asarray(own, dtype=np.float32)) for own in (lengths, seconds))
    fits(len(x), len(y), "number of points")
    return line(x, y)


@right("fit_exponent")
def fit_exponent_ratios(lengths, seconds):
    n, t = np.asarray(lengths) / lengths[0], np.asarray(seconds) / seconds[0]
    fits(n.size, t.size, "number of points")
    return np.polyfit(np.log(n), np.log(t), 1)[0]


# decode_bytes


@right("decode_bytes")
def decode_bytes_text_by_text(
    batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number
):
    total = num_parameters * bytes_per_number
    for _ in range(batch):
        for _ in range(num_layers):
            keys = context * num_kv_heads * d_head * bytes_per_number
            values = keys
            total += keys + values
    return total


@right("decode_bytes")
def decode_bytes_of_shapes(
    batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number
):
    cache = (2, num_layers, batch, num_kv_heads, context, d_head)
    return (math.prod(cache) + num_parameters) * bytes_per_number


@right("decode_bytes")
def decode_bytes_per_position(
    batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number
):
    position = 2 * num_kv_heads * d_head * bytes_per_number * num_layers  # of one text
    return position * batch * context + num_parameters * bytes_per_number


@right("decode_bytes")
def decode_bytes_floating(
    batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number
):
    return float(
        num_parameters
    ) * bytes_per_number + 2.0 * batch * context * num_layers * num_kv_heads * d_head * (
        bytes_per_number
    )


@right("decode_bytes")
def decode_bytes_in_64_bits(
    batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number
):
    sizes = np.array([batch, context, num_layers, num_kv_heads, 2 * d_head], dtype=np.int64)
    return (np.prod(sizes) + num_parameters) * bytes_per_number


# least_seconds


@right("least_seconds")
def least_seconds_compared(operations, moved_bytes, operations_per_second, bytes_per_second):
    computing = operations / operations_per_second
    moving = moved_bytes / bytes_per_second
    if computing > moving:
        return computing
    return moving


@right("least_seconds")
def least_seconds_multiplied(operations, moved_bytes, operations_per_second, bytes_per_second):
    if operations * bytes_per_second > moved_bytes * operations_per_second:
        return operations / operations_per_second
    return moved_bytes / bytes_per_second


@right("least_seconds")
def least_seconds_of_an_array(operations, moved_bytes, operations_per_second, bytes_per_second):
    return (
        np.array([operations, moved_bytes]) / np.array([operations_per_second, bytes_per_second])
    ).max()


@right("least_seconds")
def least_seconds_exactly(operations, moved_bytes, operations_per_second, bytes_per_second):
    computing = Fraction(operations) / Fraction(operations_per_second)
    return max(computing, Fraction(moved_bytes) / Fraction(bytes_per_second))


@right("least_seconds")
def least_seconds_by_attainable_speed(
    operations, moved_bytes, operations_per_second, bytes_per_second
):
    # The roofline as it is usually drawn: the speed that a step of this intensity can reach.
    if not moved_bytes or not operations:
        return operations / operations_per_second + moved_bytes / bytes_per_second
    return operations / min(operations_per_second, operations / moved_bytes * bytes_per_second)


# critical_batch


@right("critical_batch")
def critical_batch_two_times(operations_per_second, bytes_per_second, bytes_per_number):
    per_text = 2 / operations_per_second
    reading = bytes_per_number / bytes_per_second
    return reading / per_text


@right("critical_batch")
def critical_batch_intensity(operations_per_second, bytes_per_second, bytes_per_number):
    balance = operations_per_second / bytes_per_second  # operations for each byte
    return balance / (2 / bytes_per_number)


@right("critical_batch")
def critical_batch_bisection(operations_per_second, bytes_per_second, bytes_per_number):
    low, high = 0.0, 1e30
    for _ in range(200):
        batch = (low + high) / 2
        if 2 * batch / operations_per_second < bytes_per_number / bytes_per_second:
            low = batch
        else:
            high = batch
    return high


@right("critical_batch")
def critical_batch_exactly(operations_per_second, bytes_per_second, bytes_per_number):
    return (
        Fraction(operations_per_second)
        * Fraction(bytes_per_number)
        / (2 * Fraction(bytes_per_second))
    )


@right("critical_batch")
def critical_batch_line(operations_per_second, bytes_per_second, bytes_per_number):
    return np.roots([2 / operations_per_second, -bytes_per_number / bytes_per_second])[0]


# largest_batch


def step(batch, context, model):
    """Return the bytes and the operations of a decoding step."""
    width = model["num_kv_heads"] * model["d_head"]
    numbers = model["num_parameters"] + batch * 2 * context * model["num_layers"] * width
    work = batch * (
        2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    )
    return numbers * model["bytes_per_number"], work


def allowed(batch, context, model, machine, seconds):
    """Tell whether a batch keeps both rules."""
    moved, work = step(batch, context, model)
    taken = max(moved / machine["bytes_per_second"], work / machine["operations_per_second"])
    return moved <= machine["memory_bytes"] and taken <= seconds


@right("largest_batch")
def largest_batch_one_more(context, model, machine, seconds):
    batch = 0
    for more in range(1, 20_000):
        if not allowed(more, context, model, machine, seconds):
            break
        batch = more
    return batch


@right("largest_batch")
def largest_batch_bisection(context, model, machine, seconds):
    low, high = 0, 2**20
    for _ in range(20):
        middle = (low + high) // 2
        if allowed(middle, context, model, machine, seconds):
            low = middle
        else:
            high = middle
    return low


@right("largest_batch")
def largest_batch_of_all(context, model, machine, seconds):
    batches = np.arange(1, 10_000)
    moved, work = step(batches, context, model)
    taken = np.maximum(moved / machine["bytes_per_second"], work / machine["operations_per_second"])
    return int(np.count_nonzero((moved <= machine["memory_bytes"]) & (taken <= seconds)))


@right("largest_batch")
def largest_batch_lines(context, model, machine, seconds):
    (fixed, _), (one, work) = step(0, context, model), step(1, context, model)
    limits = [
        (machine["memory_bytes"] - fixed) / (one - fixed),
        (seconds * machine["bytes_per_second"] - fixed) / (one - fixed),
        seconds * machine["operations_per_second"] / work,
    ]
    return max(0, math.floor(min(limits)))


@right("largest_batch")
def largest_batch_floating(context, model, machine, seconds):
    (fixed, _), (one, work) = step(0, context, model), step(1, context, model)
    by_time = min(
        (seconds * machine["bytes_per_second"] - fixed) / (one - fixed),
        seconds * (machine["operations_per_second"] / work),
    )
    return float(
        np.clip(np.floor(min(by_time, (machine["memory_bytes"] - fixed) / (one - fixed))), 0, None)
    )

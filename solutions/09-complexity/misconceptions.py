"""Wrong answers that people really give, each with a hint, and right ones that other mistakes are made from. Students
get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import math

import numpy as np

from checking import families, misconception, right
from checking.answer_parts import fits


def divided(d_model, num_heads):
    """Return the width of a head; raise `ValueError` if the heads do not divide d_model."""
    if d_model % num_heads:
        raise ValueError(f"{num_heads} heads do not divide {d_model}")
    return d_model // num_heads


def flops(n, d_model, num_heads, projections=4, products=2):
    """Return the FLOPs of so many projections and products."""
    divided(d_model, num_heads)
    return 2 * projections * n * d_model**2 + 2 * products * n**2 * d_model


def logarithms(lengths, seconds):
    x, y = np.log(lengths), np.log(seconds)
    fits(len(x), len(y), "number of points")
    return x, y


def line(x, y):
    """Return the slope of the least-squares line."""
    x = x - x.mean()
    return float((x @ (y - y.mean())) / (x @ x))


# by_hand: wrong


@misconception(
    "by_hand",
    label="additions not counted",
    hint="These are the multiplications alone. FLOPs count an addition with each of them: twice as many.",
)
def by_hand_multiplications():
    return [48, 36, 264, 72]


@misconception(
    "by_hand",
    label="scores at full width",
    hint="Each head is 2 wide, not 4, so each entry of its scores is a sum of two products. Both heads together cost "
    "as much as one head of full width.",
)
def by_hand_full_width():
    return [48, 72, 672, 72]


@misconception(
    "by_hand",
    label="scores of one head only",
    hint="Both heads have scores: 9 entries each.",
)
def by_hand_one_head():
    return [48, 18, 456, 36]


@misconception(
    "by_hand",
    label="output projection left out",
    hint="There are four projections: queries, keys, values, and the one that mixes the heads at the end.",
)
def by_hand_three_projections():
    return [48, 36, 432, 72]


@misconception(
    "by_hand",
    label="weighted sum left out",
    hint="The scores are one of two products. The other, weights times values, costs as much.",
)
def by_hand_one_product():
    return [48, 36, 456, 72]


@misconception(
    "by_hand",
    label="weights of one head only",
    hint="These are the bytes of one head's weights. Each head has its own weights (3, 3).",
)
def by_hand_bytes_of_one_head():
    return [48, 36, 528, 36]


@misconception(
    "by_hand",
    label="bits instead of bytes",
    hint="A float32 number has 32 bits, which are 4 bytes.",
)
def by_hand_bits():
    return [48, 36, 528, 576]


# attention_flops: wrong


@misconception(
    "attention_flops",
    label="multiply-add counted once",
    hint="Each multiplication is counted, but not its addition. A sum of k products is 2k FLOPs.",
)
def attention_flops_once(n, d_model, num_heads):
    return flops(n, d_model, num_heads) // 2


@misconception(
    "attention_flops",
    label="one product, or products without additions",
    hint="The projections are right, but the products are half of what they should be. Either one of them is left "
    "out (queries with keys, or weights with values), or their multiplications are counted without the additions.",
)
def attention_flops_products_once(n, d_model, num_heads):
    return flops(n, d_model, num_heads, products=1)


@misconception(
    "attention_flops",
    label="two projections, or projections without additions",
    hint="The products are right, but the projections are half of what they should be. Either two of the four are "
    "left out, or their multiplications are counted without the additions.",
)
def attention_flops_projections_once(n, d_model, num_heads):
    return flops(n, d_model, num_heads, projections=2)


@misconception(
    "attention_flops",
    label="three projections instead of four",
    hint="The output also has a projection, which mixes the results of the heads.",
)
def attention_flops_three_projections(n, d_model, num_heads):
    return flops(n, d_model, num_heads, projections=3)


@misconception(
    "attention_flops",
    label="projections left out",
    hint="These are the two products alone. The four projections also cost something, and for short sequences even "
    "more.",
)
def attention_flops_without_projections(n, d_model, num_heads):
    return flops(n, d_model, num_heads, projections=0)


@misconception(
    "attention_flops",
    label="products left out",
    hint="These are the projections alone. Two products are missing: queries with keys, and weights with values.",
)
def attention_flops_without_products(n, d_model, num_heads):
    return flops(n, d_model, num_heads, products=0)


@misconception(
    "attention_flops",
    label="every head at full width",
    hint="The products are counted with the full width d_model for each head. A head is d_model / num_heads wide, so "
    "all heads together cost as much as one of full width.",
)
def attention_flops_full_width(n, d_model, num_heads):
    return flops(n, d_model, num_heads, products=2 * num_heads)


@misconception(
    "attention_flops",
    label="num_heads as a factor of everything",
    hint="The total is multiplied by the number of heads. The projections already include all heads, and with more "
    "heads each head's products are narrower.",
)
def attention_flops_times_heads(n, d_model, num_heads):
    return flops(n, d_model, num_heads) * num_heads


@misconception(
    "attention_flops",
    label="products of one head only",
    hint="These are the products of one head, d_model / num_heads wide. There are num_heads of them.",
)
def attention_flops_one_head(n, d_model, num_heads):
    d_head = divided(d_model, num_heads)
    return 8 * n * d_model**2 + 4 * n**2 * d_head


@misconception(
    "attention_flops",
    label="n and d_model swapped",
    hint="A projection is (n, d_model) times (d_model, d_model): n d_model² multiplications.",
)
def attention_flops_exchanged(n, d_model, num_heads):
    divided(d_model, num_heads)
    return flops(d_model, n, 1)


@misconception(
    "attention_flops",
    label="three projections and one product",
    hint="Queries, keys, values and scores are counted: three projections and one product. The weighted sum of the "
    "values is another product, and the output has another projection.",
)
def attention_flops_one_product_of_three(n, d_model, num_heads):
    return flops(n, d_model, num_heads, projections=3, products=1)


@misconception(
    "attention_flops",
    label="softmax counted as well",
    hint="Softmax is also counted, with 3 operations for each weight: exponential, sum, division. That is real work, "
    "but here only matrix products are counted.",
)
def attention_flops_softmax(n, d_model, num_heads):
    return flops(n, d_model, num_heads) + 3 * num_heads * n**2


@misconception(
    "attention_flops",
    label="biases counted as well",
    hint="The bias additions are also counted, one for each entry of a projection. Here only matrix products are "
    "counted.",
)
def attention_flops_biases(n, d_model, num_heads):
    return flops(n, d_model, num_heads) + 4 * n * d_model


@misconception(
    "attention_flops",
    label="one addition fewer per sum",
    hint="A sum of k products is counted with k - 1 additions, which is exact. By the rule of this notebook, and of "
    "most papers, it has k: 2k FLOPs, as if the sum started at 0.",
)
def attention_flops_exact_additions(n, d_model, num_heads):
    d_head = divided(d_model, num_heads)
    projections = 4 * n * d_model * (2 * d_model - 1)
    return projections + num_heads * n**2 * (2 * d_head - 1) + n * d_model * (2 * n - 1)


@misconception(
    "attention_flops",
    label="backward pass counted as well",
    hint="The backward pass is also counted. It costs twice as much as the forward pass, so the total is three times "
    "as much. Count only the forward pass.",
)
def attention_flops_backward(n, d_model, num_heads):
    return 3 * flops(n, d_model, num_heads)


@misconception(
    "attention_flops",
    label="only pairs up to the diagonal",
    hint="Only the n (n + 1) / 2 pairs that a causal mask would keep are counted. There is no mask here, and the "
    "usual matrix product computes all n² pairs anyway.",
)
def attention_flops_causal(n, d_model, num_heads):
    divided(d_model, num_heads)
    return 8 * n * d_model**2 + 2 * n * (n + 1) * d_model


@misconception(
    "attention_flops",
    label="products linear in n",
    hint="Each of the n tokens attends to all n tokens: n² scores.",
)
def attention_flops_linear(n, d_model, num_heads):
    divided(d_model, num_heads)
    return 8 * n * d_model**2 + 4 * n * d_model


@misconception(
    "attention_flops",
    label="caret instead of a power",
    hint="In Python, `^` is not a power but a bitwise XOR: `5 ^ 2` is 7. Write `n**2` or `n * n`.",
)
def attention_flops_caret(n, d_model, num_heads):
    divided(d_model, num_heads)
    return 8 * n * (d_model ^ 2) + 4 * (n ^ 2) * d_model


@misconception(
    "attention_flops",
    label="in GFLOPs",
    hint="The result is divided by 10⁹. Return the number of FLOPs itself.",
)
def attention_flops_billions(n, d_model, num_heads):
    return flops(n, d_model, num_heads) / 1e9


@misconception(
    "attention_flops",
    label="length capped at 512",
    hint="From 512 tokens on, the count stops growing: the code contains a fixed length. Use `n`.",
)
def attention_flops_512_tokens(n, d_model, num_heads):
    return flops(min(n, 512), d_model, num_heads)


@misconception(
    "attention_flops",
    label="overflow of 32-bit integers",
    hint="The numbers have 32 bits (`np.int32`), so they overflow at 2³¹ and become negative. Use Python's own "
    "integers, which have no limit.",
)
def attention_flops_in_32_bits(n, d_model, num_heads):
    divided(d_model, num_heads)
    n, d_model = np.array([n], dtype=np.int32), np.array([d_model], dtype=np.int32)
    return int((8 * n * d_model * d_model + 4 * n * n * d_model)[0])


@misconception(
    "attention_flops",
    label="heads that don't fit accepted",
    hint="A number was returned although num_heads does not divide d_model. There is no such layer: raise "
    "`ValueError`.",
)
def attention_flops_accepts(n, d_model, num_heads):
    return flops(n, d_model, 1)


@misconception(
    "attention_flops",
    label="head width rounded down",
    hint="`d_model // num_heads` silently drops the remainder. Check `d_model % num_heads` first, and raise "
    "`ValueError` if it is not 0.",
)
def attention_flops_rounds_down(n, d_model, num_heads):
    return flops(n, d_model, 1, products=0) + 4 * n**2 * num_heads * (d_model // num_heads)


# attention_flops: right


@families("returns nothing", "a float instead of an int", "assert instead of ValueError")
@right("attention_flops")
def attention_flops_formula(n, d_model, num_heads):
    if d_model % num_heads != 0:
        raise ValueError("num_heads has to divide d_model")
    return 8 * n * d_model**2 + 4 * n**2 * d_model


# attention_bytes: wrong


def entries(n, d_model, num_heads):
    divided(d_model, num_heads)
    return num_heads * n**2


@misconception(
    "attention_bytes",
    label="heads forgotten",
    hint="These are the weights of one head. Each of the num_heads heads has its own weights (n, n).",
)
def attention_bytes_one_head(n, d_model, num_heads, bytes_per_value):
    return entries(n, d_model, num_heads) // num_heads * bytes_per_value


@misconception(
    "attention_bytes",
    label="divided by the heads",
    hint="The heads share d_model among them, but each has its own weights (n, n).",
)
def attention_bytes_by_heads(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    return n**2 * bytes_per_value / num_heads


@misconception(
    "attention_bytes",
    label="bits instead of bytes",
    hint="`bytes_per_value` is already in bytes.",
)
def attention_bytes_bits(n, d_model, num_heads, bytes_per_value):
    return 8 * entries(n, d_model, num_heads) * bytes_per_value


@misconception(
    "attention_bytes",
    label="always 4 bytes per value",
    hint="The code contains a fixed 4, which is right only for float32. Use `bytes_per_value`.",
)
def attention_bytes_float32(n, d_model, num_heads, bytes_per_value):
    return 4 * entries(n, d_model, num_heads)


@misconception(
    "attention_bytes",
    label="numbers counted, not bytes",
    hint="This is the number of weights. Each takes `bytes_per_value` bytes.",
)
def attention_bytes_entries(n, d_model, num_heads, bytes_per_value):
    return entries(n, d_model, num_heads)


@misconception(
    "attention_bytes",
    label="size of the output instead",
    hint="(n, d_model) is the shape of the output, and of queries, keys and values. The weights have one entry for "
    "each pair of tokens, in each head.",
)
def attention_bytes_of_output(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    return n * d_model * bytes_per_value


@misconception(
    "attention_bytes",
    label="head width instead of number of heads",
    hint="d_model / num_heads is the width of a head. The number of heads is num_heads itself.",
)
def attention_bytes_of_width(n, d_model, num_heads, bytes_per_value):
    return n**2 * divided(d_model, num_heads) * bytes_per_value


@misconception(
    "attention_bytes",
    label="linear in n",
    hint="n appears only once. Each of the n queries has a weight for each of the n keys: n².",
)
def attention_bytes_linear(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    return num_heads * n * bytes_per_value


@misconception(
    "attention_bytes",
    label="scores counted as well",
    hint="This is twice the size of the weights: the scores before softmax are also counted. Count only the weights.",
)
def attention_bytes_with_scores(n, d_model, num_heads, bytes_per_value):
    return 2 * entries(n, d_model, num_heads) * bytes_per_value


@misconception(
    "attention_bytes",
    label="only pairs up to the diagonal",
    hint="Only the weights that a causal mask would keep are counted. There is no mask here, and an array also "
    "stores the zeros of a mask.",
)
def attention_bytes_causal(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    return num_heads * (n * (n + 1) // 2) * bytes_per_value


@misconception(
    "attention_bytes",
    label="in MiB",
    hint="The result is divided by 2²⁰. Return the number of bytes itself.",
)
def attention_bytes_mebibytes(n, d_model, num_heads, bytes_per_value):
    return entries(n, d_model, num_heads) * bytes_per_value / 2**20


@misconception(
    "attention_bytes",
    label="caret instead of a power",
    hint="In Python, `^` is not a power but a bitwise XOR: `5 ^ 2` is 7. Write `n**2` or `n * n`.",
)
def attention_bytes_caret(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    return num_heads * (n ^ 2) * bytes_per_value


@misconception(
    "attention_bytes",
    label="overflow of 32-bit integers",
    hint="The numbers have 32 bits (`np.int32`), so they overflow at 2³¹ and become negative. Use Python's own "
    "integers, which have no limit.",
)
def attention_bytes_in_32_bits(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    return int(
        np.prod(np.array([num_heads, n, n, bytes_per_value], dtype=np.int32), dtype=np.int32)
    )


@misconception(
    "attention_bytes",
    label="array really allocated",
    hint="An array of this size is allocated, just to read its `nbytes`. No machine has the memory for a million "
    "tokens: multiply the sizes.",
)
def attention_bytes_of_array(n, d_model, num_heads, bytes_per_value):
    divided(d_model, num_heads)
    dtype = {1: np.int8, 2: np.float16, 4: np.float32, 8: np.float64}[bytes_per_value]
    return np.zeros((num_heads, n, n), dtype=dtype).nbytes


@misconception(
    "attention_bytes",
    label="heads that don't fit accepted",
    hint="A number was returned although num_heads does not divide d_model. The formula does not need d_model, but "
    "there is no such layer: raise `ValueError`.",
)
def attention_bytes_accepts(n, d_model, num_heads, bytes_per_value):
    return num_heads * n**2 * bytes_per_value


# attention_bytes: right


@families("returns nothing", "a float instead of an int", "assert instead of ValueError")
@right("attention_bytes")
def attention_bytes_formula(n, d_model, num_heads, bytes_per_value):
    if d_model % num_heads != 0:
        raise ValueError("num_heads has to divide d_model")
    return bytes_per_value * num_heads * n**2


# parameter_count: wrong


@misconception(
    "parameter_count",
    label="three projections instead of four",
    hint="The output also has a projection, with its own bias.",
)
def parameter_count_three(d_model, bias=True):
    return 3 * (d_model**2 + bias * d_model)


@misconception(
    "parameter_count",
    label="biases never counted",
    hint="The biases are left out for any value of `bias`. With `bias=True`, each projection has d_model more.",
)
def parameter_count_without_biases(d_model, bias=True):
    return 4 * d_model**2


@misconception(
    "parameter_count",
    label="biases always counted",
    hint="With `bias=False` there are none.",
)
def parameter_count_always(d_model, bias=True):
    return 4 * (d_model**2 + d_model)


@misconception(
    "parameter_count",
    label="bias inverted",
    hint="The biases are counted when `bias` is False, and left out when it is True.",
)
def parameter_count_upside_down(d_model, bias=True):
    return 4 * (d_model**2 + (not bias) * d_model)


@misconception(
    "parameter_count",
    label="biases left out by default",
    hint="When `bias` is not given, it is True: write `bias=True` in the first line, as it was given.",
)
def parameter_count_default_false(d_model, bias=False):
    return 4 * (d_model**2 + bias * d_model)


@misconception(
    "parameter_count",
    label="bias of one projection only",
    hint="The bias is counted once. Each of the four projections has one: the factor 4 applies to both.",
)
def parameter_count_one_bias(d_model, bias=True):
    return 4 * d_model**2 + bias * d_model


@misconception(
    "parameter_count",
    label="output without a bias",
    hint="Three biases are counted. The output projection also has one.",
)
def parameter_count_three_biases(d_model, bias=True):
    return 4 * d_model**2 + 3 * bias * d_model


@misconception(
    "parameter_count",
    label="one number for each bias",
    hint="A bias is a vector (d_model,): one number for each column of the projection.",
)
def parameter_count_scalar_biases(d_model, bias=True):
    return 4 * (d_model**2 + bias)


@misconception(
    "parameter_count",
    label="feed-forward network counted as well",
    hint="The feed-forward network is also counted, with weights (d_model, 4 d_model) and (4 d_model, d_model). "
    "Count only the four projections.",
)
def parameter_count_feed_forward(d_model, bias=True):
    return 12 * d_model**2 + bias * 9 * d_model


@misconception(
    "parameter_count",
    label="bytes instead of numbers",
    hint="This is 4 times as much: bytes in float32. Return the number of parameters.",
)
def parameter_count_bytes(d_model, bias=True):
    return 16 * (d_model**2 + bias * d_model)


@misconception(
    "parameter_count",
    label="in millions",
    hint="The result is divided by 10⁶. Return the number of parameters itself.",
)
def parameter_count_millions(d_model, bias=True):
    return 4 * (d_model**2 + bias * d_model) / 1e6


@misconception(
    "parameter_count",
    label="caret instead of a power",
    hint="In Python, `^` is not a power but a bitwise XOR: `5 ^ 2` is 7. Write `d_model**2`.",
)
def parameter_count_caret(d_model, bias=True):
    return 4 * ((d_model ^ 2) + bias * d_model)


@misconception(
    "parameter_count",
    label="overflow of 32-bit integers",
    hint="The numbers have 32 bits (`np.int32`), so they overflow at 2³¹ and become negative. Use Python's own "
    "integers, which have no limit.",
)
def parameter_count_in_32_bits(d_model, bias=True):
    d_model = np.array([d_model], dtype=np.int32)
    return int((4 * d_model * d_model + 4 * bias * d_model)[0])


@misconception(
    "parameter_count",
    label="arrays really allocated",
    hint="Arrays of this size are allocated, just to read their `size`. No machine has the memory for a very wide "
    "layer: multiply the sizes.",
)
def parameter_count_of_arrays(d_model, bias=True):
    return 4 * (np.zeros((d_model, d_model)).size + (np.zeros(d_model).size if bias else 0))


# parameter_count: right


@families("returns nothing", "a float instead of an int")
@right("parameter_count")
def parameter_count_formula(d_model, bias=True):
    return 4 * d_model * d_model + (4 * d_model if bias else 0)


# crossover_length: wrong


@misconception(
    "crossover_length",
    label="d_model itself",
    hint="At n = d_model, the products cost half as much as the projections: there are four projections, but two "
    "products.",
)
def crossover_length_width(d_model):
    return d_model


@misconception(
    "crossover_length",
    label="one product against four projections",
    hint="There are two products: queries with keys, and weights with values.",
)
def crossover_length_one_product(d_model):
    return 4 * d_model


@misconception(
    "crossover_length",
    label="half of d_model",
    hint="The ratio is upside down. Each of the two products costs n² d_model, each of the four projections n "
    "d_model²: solve for n.",
)
def crossover_length_half(d_model):
    return d_model / 2


@misconception(
    "crossover_length",
    label="three projections against two products",
    hint="The output also has a projection: there are four.",
)
def crossover_length_three_projections(d_model):
    return 3 * d_model / 2


@misconception(
    "crossover_length",
    label="square of d_model",
    hint="One d_model is lost: 4 n² d_model = 8 n d_model² has it on both sides. Divide both by 4 n d_model.",
)
def crossover_length_square(d_model):
    return 2 * d_model**2


@misconception(
    "crossover_length",
    label="cost instead of length",
    hint="This is what each of the two costs at the crossover, in FLOPs. Return the length at which the costs are "
    "equal.",
)
def crossover_length_cost(d_model):
    return 16 * d_model**3


@misconception(
    "crossover_length",
    label="first length at which products cost more",
    hint="At the length before it, both cost the same: compare with `>=`, not `>`.",
)
def crossover_length_one_more(d_model):
    return 2 * d_model + 1


@misconception(
    "crossover_length",
    label="search that ends too early",
    hint="The search ends at some length, and returns that length or nothing when the crossover is further away. A "
    "formula needs no search.",
)
def crossover_length_search(d_model):
    for n in range(1, 1000):
        if n >= 2 * d_model:
            return n
    return 1000


@misconception(
    "crossover_length",
    label="length returned with its cost",
    hint="Length and cost are returned together. Return only the length.",
)
def crossover_length_and_cost(d_model):
    return 2 * d_model, 16 * d_model**3


# crossover_length: right


@families("returns nothing", "a float instead of an int")
@right("crossover_length")
def crossover_length_formula(d_model):
    return 2 * d_model


# fit_exponent: wrong


@misconception(
    "fit_exponent",
    label="no logarithms",
    hint="This is the slope of seconds against lengths, without logarithms: seconds per token. The exponent is the "
    "slope between the logarithms of both.",
)
def fit_exponent_linear(lengths, seconds):
    logarithms(lengths, seconds)
    return line(np.asarray(lengths, dtype=float), np.asarray(seconds, dtype=float))


@misconception(
    "fit_exponent",
    label="logarithm of the seconds only",
    hint="That finds the rate of an exponential. For a power law, take the logarithm of both.",
)
def fit_exponent_of_seconds(lengths, seconds):
    _, y = logarithms(lengths, seconds)
    return line(np.asarray(lengths, dtype=float), y)


@misconception(
    "fit_exponent",
    label="logarithm of the lengths only",
    hint="Take the logarithm of both.",
)
def fit_exponent_of_lengths(lengths, seconds):
    x, _ = logarithms(lengths, seconds)
    return line(x, np.asarray(seconds, dtype=float))


@misconception(
    "fit_exponent",
    label="lengths and seconds swapped",
    hint="This is the slope of the lengths against the seconds: the two are swapped. `np.polyfit` expects x first.",
)
def fit_exponent_exchanged(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return line(y, x)


@misconception(
    "fit_exponent",
    label="log2 with the natural logarithm",
    hint="One side has logarithms to base 2, the other natural ones. Any base works if it is the same on both sides.",
)
def fit_exponent_mixed_two(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return line(x / math.log(2), y)


@misconception(
    "fit_exponent",
    label="log1p instead of log",
    hint="`np.log1p(t)` is ln(1 + t), which is about t itself for times far below a second. Use `np.log`.",
)
def fit_exponent_log1p(lengths, seconds):
    logarithms(lengths, seconds)
    return line(np.log1p(lengths), np.log1p(seconds))


@misconception(
    "fit_exponent",
    label="line through the origin",
    hint="This is `sum(x * y) / sum(x * x)` without the means. The factor c is unknown, so subtract both means, or "
    "fit an intercept as well.",
)
def fit_exponent_through_origin(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float(x @ y / (x @ x))


@misconception(
    "fit_exponent",
    label="ratio of the logarithms",
    hint="ln t is divided by ln n, and the quotients are averaged. That would be the exponent only if c were 1. Look "
    "at how ln t changes when ln n does.",
)
def fit_exponent_ratio(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float((y / x).mean())


@misconception(
    "fit_exponent",
    label="intercept instead of slope",
    hint="This is the intercept, ln c. `np.polyfit(x, y, 1)` returns the slope first, then the intercept.",
)
def fit_exponent_intercept(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float(y.mean() - line(x, y) * x.mean())


@misconception(
    "fit_exponent",
    label="slope and intercept returned",
    hint="Slope and intercept are returned together. Return only the slope: `np.polyfit(x, y, 1)[0]`.",
)
def fit_exponent_both(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return np.polyfit(x, y, 1)


@misconception(
    "fit_exponent",
    label="last two points only",
    hint="One inaccurate measurement then decides. Fit a line through all points.",
)
def fit_exponent_last_two(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float((y[-1] - y[-2]) / (x[-1] - x[-2]))


@misconception(
    "fit_exponent",
    label="first and last point only",
    hint="The line goes through the first and the last point, no matter what is between them. The least-squares line "
    "depends on all points.",
)
def fit_exponent_ends(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float((y[-1] - y[0]) / (x[-1] - x[0]))


@misconception(
    "fit_exponent",
    label="last point left out",
    hint="The last point is left out (`[:-1]`, or a loop that ends too early). All points count.",
)
def fit_exponent_without_last(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return line(x[:-1], y[:-1]) if len(x) > 2 else line(x, y)


@misconception(
    "fit_exponent",
    label="mean of neighbors' slopes",
    hint="The slopes from each point to the next are averaged, however long the steps are. Return the slope of the "
    "least-squares line.",
)
def fit_exponent_mean_slope(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float((np.diff(y) / np.diff(x)).mean())


@misconception(
    "fit_exponent",
    label="weighted by the seconds",
    hint="Slow runs count more here. Either the fit is given weights, or the power law is fitted to the seconds "
    "instead of their logarithms. All points count equally.",
)
def fit_exponent_by_seconds(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float(np.polyfit(x, y, 1, w=np.asarray(seconds, dtype=float))[0])


@misconception(
    "fit_exponent",
    label="parabola instead of a line",
    hint="A polynomial of degree 2 is fitted, and its first coefficient is the curvature. A line has degree 1: "
    "`np.polyfit(x, y, 1)`.",
)
def fit_exponent_parabola(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float(np.polyfit(x, y, 2)[0])


@misconception(
    "fit_exponent",
    label="correlation instead of slope",
    hint="This is the correlation of the logarithms, which is never above 1. Return the slope.",
)
def fit_exponent_correlation(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float(np.corrcoef(x, y)[0, 1])


@misconception(
    "fit_exponent",
    label="covariance and variance divided differently",
    hint="`np.cov` divides by m - 1 and `np.var` by m, so the slope is off by that factor. Use `np.cov(x, y)[0, 0]`, "
    "or `ddof=1` in both.",
)
def fit_exponent_two_divisors(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return float(np.cov(x, y)[0, 1] / np.var(x))


@misconception(
    "fit_exponent",
    label="factor per doubling instead of exponent",
    hint="This says how many times longer twice the length takes, 2 to the exponent. Return the exponent itself.",
)
def fit_exponent_doubling(lengths, seconds):
    return 2 ** line(*logarithms(lengths, seconds))


@misconception(
    "fit_exponent",
    label="sign dropped",
    hint="The sign is dropped. If the times fall as n grows, the exponent is below 0.",
)
def fit_exponent_absolute(lengths, seconds):
    return abs(line(*logarithms(lengths, seconds)))


@misconception(
    "fit_exponent",
    label="rounded to two decimals",
    hint="The exponent is rounded. Return it as it is; round only when you print it.",
)
def fit_exponent_rounded(lengths, seconds):
    return round(line(*logarithms(lengths, seconds)), 2)


@misconception(
    "fit_exponent",
    label="lengths and seconds sorted separately",
    hint="Lengths and seconds are sorted independently, so a time may be paired with another length than its own. "
    "The order of the points does not matter: leave them as they are.",
)
def fit_exponent_sorted_apart(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    return line(np.sort(x), np.sort(y))


@misconception(
    "fit_exponent",
    label="measurements of one length averaged",
    hint="A length that was measured four times counts four times. Each measurement is a point, and nothing is "
    "averaged before the fit.",
)
def fit_exponent_mean_of_each(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    each = np.unique(x)
    return line(each, np.array([y[x == length].mean() for length in each]))


@misconception(
    "fit_exponent",
    label="best measurement per length kept",
    hint="When a length was measured several times, only the fastest or the first measurement is kept. Each "
    "measurement is a point of its own.",
)
def fit_exponent_best_of_each(lengths, seconds):
    logarithms(lengths, seconds)
    best = {}
    for n, t in zip(np.asarray(lengths).tolist(), np.asarray(seconds).tolist(), strict=True):
        best[n] = min(t, best.get(n, t))
    return line(np.log(list(best)), np.log(list(best.values())))


@misconception(
    "fit_exponent",
    label="last measurement per length kept",
    hint="When a length was measured several times, only its last measurement is kept, as in a dictionary with the "
    "lengths as keys. Each measurement is a point of its own.",
)
def fit_exponent_last_of_each(lengths, seconds):
    logarithms(lengths, seconds)
    last = dict(zip(np.asarray(lengths).tolist(), np.asarray(seconds).tolist(), strict=True))
    return line(np.log(list(last)), np.log(list(last.values())))


@misconception(
    "fit_exponent",
    label="small number inside the logarithm",
    hint="A small number such as 1e-8 is added inside the logarithm, which hides times of nanoseconds. Times are "
    "above 0: take `np.log(seconds)` itself.",
)
def fit_exponent_small_number(lengths, seconds):
    logarithms(lengths, seconds)
    return line(np.log(lengths), np.log(np.asarray(seconds) + 1e-8))


@misconception(
    "fit_exponent",
    label="at least three points required",
    hint="Two points are rejected, or one of them is left out. Two different lengths define a line.",
)
def fit_exponent_three_points(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    if len(x) < 3:
        raise ValueError("at least three points are needed")
    return line(x, y)


@misconception(
    "fit_exponent",
    label="works for arrays only",
    hint="A list has no `.mean()` or `.shape`, and cannot be divided. Start with `np.asarray(lengths)`, or with "
    "`np.log`, which takes lists.",
)
def fit_exponent_arrays_only(lengths, seconds):
    fits(lengths.shape, seconds.shape, "number of points")
    return line(np.log(lengths), np.log(seconds))


@misconception(
    "fit_exponent",
    label="a TypeError instead of a ValueError",
    hint="`np.polyfit` raises `TypeError` when the sizes differ, and other functions may do the same. Compare the "
    "sizes yourself, and raise `ValueError`.",
)
def fit_exponent_type_error(lengths, seconds):
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


@misconception(
    "fit_exponent",
    label="surplus points dropped",
    hint="`zip` ends with the shorter of the two, and silently drops the rest. `zip(..., strict=True)` raises "
    "`ValueError`; you can also compare the sizes.",
)
def fit_exponent_zip(lengths, seconds):
    points = [(math.log(n), math.log(t)) for n, t in zip(lengths, seconds)]  # noqa: B905
    return line(*np.array(points).T) if len(points) > 1 else 0.0


@misconception(
    "fit_exponent",
    label="size of 1 stretched",
    hint="When one of the two has size 1, broadcasting silently stretches it to the size of the other. Compare the "
    "sizes, and raise `ValueError`.",
)
def fit_exponent_stretched(lengths, seconds):
    x, y = np.broadcast_arrays(np.log(lengths), np.log(seconds))
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / (x * x).sum())


@misconception(
    "fit_exponent",
    label="logarithms written into the arguments",
    hint="`np.log(lengths, out=lengths)` or `lengths[:] = ...` writes into the caller's own array. Make a new one.",
)
def fit_exponent_in_place(lengths, seconds):
    x, y = logarithms(lengths, seconds)
    for array, new in ((lengths, x), (seconds, y)):
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            array[:] = new
    return line(x, y)


@misconception(
    "fit_exponent",
    label="list of the caller sorted",
    hint="A list is sorted in place. `sorted(...)` returns a new one; but the order of the points does not matter.",
)
def fit_exponent_lists_sorted(lengths, seconds):
    logarithms(lengths, seconds)
    if isinstance(lengths, list):
        points = sorted(zip(lengths, seconds, strict=True))
        lengths[:], seconds[:] = ([point[part] for point in points] for part in (0, 1))
    return line(np.log(lengths), np.log(seconds))


# fit_exponent: right


@families(
    "returns nothing",
    "decimals cut off",
    "assert instead of ValueError",
    hints={
        "decimals cut off": "`int(...)` or `round(...)` cuts off the decimals. Return the slope as it is."
    },
)
@right("fit_exponent")
def fit_exponent_centred(lengths, seconds):
    x, y = np.log(np.asarray(lengths)), np.log(np.asarray(seconds))
    if len(x) != len(y):
        raise ValueError(f"{len(x)} lengths and {len(y)} seconds")
    return ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()


# decode_bytes: wrong


def step_bytes(  # in parts that a mistake can take the place of
    batch, context, num_layers, heads, width, num_parameters, size, kinds=2, texts=None, models=1
):
    """Return the bytes of a decoding step: of the parameters, read so many times, and of the caches."""
    texts = batch if texts is None else texts
    return size * (models * num_parameters + kinds * texts * context * num_layers * heads * width)


@misconception(
    "decode_bytes",
    label="keys or values left out",
    hint="Each position has a key and a value in each head. The caches count only one of the two.",
)
def decode_bytes_one_kind(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, w, p, size, kinds=1)


@misconception(
    "decode_bytes",
    label="cache as wide as the model",
    hint="The caches are counted with d_model numbers for each key. Here query heads share keys: all keys of a "
    "position together are num_kv_heads * d_head wide.",
)
def decode_bytes_full_width(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, 1, d_model, p, size)


@misconception(
    "decode_bytes",
    label="width of the model in every head",
    hint="A head is d_head wide, not d_model.",
)
def decode_bytes_model_in_heads(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, d_model, p, size)


@misconception(
    "decode_bytes",
    label="parameters read for each text",
    hint="The parameters are counted once for each text. A parameter that is read serves the whole batch.",
)
def decode_bytes_parameters_per_text(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, w, p, size, models=b)


@misconception(
    "decode_bytes",
    label="parameters counted for each layer",
    hint="`num_parameters` is the number for the whole model, with all of its layers.",
)
def decode_bytes_parameters_per_layer(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, w, p, size, models=num_layers)


@misconception(
    "decode_bytes",
    label="cache of one text only",
    hint="Each text of the batch has its own cache, and the step reads all of them.",
)
def decode_bytes_one_cache(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, w, p, size, texts=1)


@misconception(
    "decode_bytes",
    label="cache of one layer only",
    hint="Each layer has its own keys and values.",
)
def decode_bytes_one_layer(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, 1, h, w, p, size)


@misconception(
    "decode_bytes",
    label="cache of one head only",
    hint="These are the caches of one head. There are num_kv_heads heads in each layer.",
)
def decode_bytes_one_head(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, 1, w, p, size)


@misconception(
    "decode_bytes",
    label="one number for each key",
    hint="A key is a vector with d_head numbers.",
)
def decode_bytes_scalar_keys(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, 1, p, size)


@misconception(
    "decode_bytes",
    label="newest position only",
    hint="The new token attends to all positions of its text, so all of their keys and values are read.",
)
def decode_bytes_one_position(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, 1, num_layers, h, w, p, size)


@misconception(
    "decode_bytes",
    label="square of the context",
    hint="A step has one query for each text, so each key is read once: context appears without a square.",
)
def decode_bytes_square(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c**2, num_layers, h, w, p, size)


@misconception(
    "decode_bytes",
    label="parameters left out",
    hint="These are the caches alone. The step also reads all parameters.",
)
def decode_bytes_without_parameters(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, w, 0, size)


@misconception(
    "decode_bytes",
    label="caches left out",
    hint="These are the parameters alone. The step also reads the cache of each text.",
)
def decode_bytes_without_caches(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(0, c, num_layers, h, w, p, size)


@misconception(
    "decode_bytes",
    label="numbers counted, not bytes",
    hint="This is the number of values that are read. Each takes `bytes_per_number` bytes.",
)
def decode_bytes_numbers(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, w, p, 1)


@misconception(
    "decode_bytes",
    label="cache counted in numbers",
    hint="The parameters are counted in bytes, but the caches in numbers: multiply both by `bytes_per_number`.",
)
def decode_bytes_cache_in_numbers(b, c, num_layers, d_model, h, w, p, size):
    return p * size + step_bytes(b, c, num_layers, h, w, 0, 1)


@misconception(
    "decode_bytes",
    label="parameters counted in numbers",
    hint="The caches are counted in bytes, but the parameters in numbers: multiply both by `bytes_per_number`.",
)
def decode_bytes_parameters_in_numbers(b, c, num_layers, d_model, h, w, p, size):
    return p + step_bytes(b, c, num_layers, h, w, 0, size)


@misconception(
    "decode_bytes",
    label="bits instead of bytes",
    hint="`bytes_per_number` is already in bytes.",
)
def decode_bytes_bits(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, w, p, 8 * size)


@misconception(
    "decode_bytes",
    label="bytes per token",
    hint="The result is divided by the batch size. Return the bytes of the whole step.",
)
def decode_bytes_per_token(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, w, p, size) / b


@misconception(
    "decode_bytes",
    label="in gigabytes",
    hint="The result is divided by 10⁹. Return the number of bytes itself.",
)
def decode_bytes_gigabytes(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, c, num_layers, h, w, p, size) / 1e9


@misconception(
    "decode_bytes",
    label="overflow of 32-bit integers",
    hint="The numbers have 32 bits (`np.int32`), so they overflow at 2³¹ and become negative. Use Python's own "
    "integers, which have no limit.",
)
def decode_bytes_in_32_bits(b, c, num_layers, d_model, h, w, p, size):
    caches = np.prod(np.array([2, b, c, num_layers, h, w, size], dtype=np.int32), dtype=np.int32)
    return p * size + int(caches)


@misconception(
    "decode_bytes",
    label="context capped at 512",
    hint="From 512 positions on, the count stops growing: the code contains a fixed length. Use `context`.",
)
def decode_bytes_512_positions(b, c, num_layers, d_model, h, w, p, size):
    return step_bytes(b, min(c, 512), num_layers, h, w, p, size)


# decode_bytes: right


@families("returns nothing", "a float instead of an int")
@right("decode_bytes")
def decode_bytes_formula(
    batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number
):
    numbers = num_parameters + 2 * batch * context * num_layers * num_kv_heads * d_head
    return numbers * bytes_per_number


# least_seconds: wrong


@misconception(
    "least_seconds",
    label="both times added",
    hint="The two times are added, as if the machine first moved all bytes and then computed. At best it does both "
    "at the same time.",
)
def least_seconds_sum(operations, moved_bytes, operations_per_second, bytes_per_second):
    return operations / operations_per_second + moved_bytes / bytes_per_second


@misconception(
    "least_seconds",
    label="the shorter time",
    hint="After the shorter of the two times, the step is not done: the other part takes longer.",
)
def least_seconds_shorter(operations, moved_bytes, operations_per_second, bytes_per_second):
    return min(operations / operations_per_second, moved_bytes / bytes_per_second)


@misconception(
    "least_seconds",
    label="time of the operations alone",
    hint="The bytes also take time, and in some steps they take longer.",
)
def least_seconds_operations(operations, moved_bytes, operations_per_second, bytes_per_second):
    return operations / operations_per_second


@misconception(
    "least_seconds",
    label="time of the bytes alone",
    hint="The operations also take time, and in some steps they take longer.",
)
def least_seconds_bytes(operations, moved_bytes, operations_per_second, bytes_per_second):
    return moved_bytes / bytes_per_second


@misconception(
    "least_seconds",
    label="mean of both times",
    hint="The mean of the two times is below the longer one, but no step is done before both parts are.",
)
def least_seconds_mean(operations, moved_bytes, operations_per_second, bytes_per_second):
    return (operations / operations_per_second + moved_bytes / bytes_per_second) / 2


@misconception(
    "least_seconds",
    label="ratios upside down",
    hint="Operations per second divided by operations is the number of such steps in a second. A time is the "
    "inverse: operations divided by operations per second.",
)
def least_seconds_upside_down(operations, moved_bytes, operations_per_second, bytes_per_second):
    return max(
        operations_per_second / operations if operations else 0.0,
        bytes_per_second / moved_bytes if moved_bytes else 0.0,
    )


@misconception(
    "least_seconds",
    label="speed and bandwidth swapped",
    hint="The operations are divided by bytes per second, and the bytes by operations per second.",
)
def least_seconds_exchanged(operations, moved_bytes, operations_per_second, bytes_per_second):
    return max(operations / bytes_per_second, moved_bytes / operations_per_second)


@misconception(
    "least_seconds",
    label="larger number decides, not longer time",
    hint="The step's two numbers are compared, operations with bytes. Compare the two times: a machine may be slow "
    "at one of them.",
)
def least_seconds_by_numbers(operations, moved_bytes, operations_per_second, bytes_per_second):
    if operations > moved_bytes:
        return operations / operations_per_second
    return moved_bytes / bytes_per_second


@misconception(
    "least_seconds",
    label="slower rate decides, not longer time",
    hint="The machine's two numbers are compared. Compare the two times: a step may have many operations and few "
    "bytes.",
)
def least_seconds_by_rates(operations, moved_bytes, operations_per_second, bytes_per_second):
    if operations_per_second < bytes_per_second:
        return operations / operations_per_second
    return moved_bytes / bytes_per_second


@misconception(
    "least_seconds",
    label="rounded to whole seconds",
    hint="`//`, `int` or `round` returns whole seconds. Most steps take less than one.",
)
def least_seconds_whole(operations, moved_bytes, operations_per_second, bytes_per_second):
    return max(operations // operations_per_second, moved_bytes // bytes_per_second)


@misconception(
    "least_seconds",
    label="rounded to a few decimals",
    hint="The time is rounded, so a step of a microsecond takes 0.",
)
def least_seconds_rounded(operations, moved_bytes, operations_per_second, bytes_per_second):
    return round(max(operations / operations_per_second, moved_bytes / bytes_per_second), 6)


@misconception(
    "least_seconds",
    label="in milliseconds",
    hint="The result is multiplied by 1000. Return seconds.",
)
def least_seconds_milliseconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    return 1000 * max(operations / operations_per_second, moved_bytes / bytes_per_second)


@misconception(
    "least_seconds",
    label="both times returned",
    hint="Both times are returned together. Return the least time of the step.",
)
def least_seconds_both(operations, moved_bytes, operations_per_second, bytes_per_second):
    return operations / operations_per_second, moved_bytes / bytes_per_second


@misconception(
    "least_seconds",
    label="division by the bytes",
    hint="The operations are divided by the bytes, but a step may move none. Compute and compare the two times.",
)
def least_seconds_by_intensity(operations, moved_bytes, operations_per_second, bytes_per_second):
    if operations / moved_bytes > operations_per_second / bytes_per_second:
        return operations / operations_per_second
    return moved_bytes / bytes_per_second


@misconception(
    "least_seconds",
    label="division by the attainable speed",
    hint="The attainable speed is 0 if a step has no operations, and 0 / 0 is an error. Compute and compare the two "
    "times.",
)
def least_seconds_attainable(operations, moved_bytes, operations_per_second, bytes_per_second):
    if moved_bytes == 0:
        return operations / operations_per_second
    return operations / min(operations_per_second, operations / moved_bytes * bytes_per_second)


# least_seconds: right


@families("returns nothing")
@right("least_seconds")
def least_seconds_longer(operations, moved_bytes, operations_per_second, bytes_per_second):
    return max(operations / operations_per_second, moved_bytes / bytes_per_second)


# critical_batch: wrong


@misconception(
    "critical_batch",
    label="bytes per number left out",
    hint="The two rates are compared as if each parameter had one byte. Reading a parameter moves `bytes_per_number` "
    "bytes.",
)
def critical_batch_without_bytes(speed, bandwidth, size):
    return speed / (2 * bandwidth)


@misconception(
    "critical_batch",
    label="one operation per parameter",
    hint="Each parameter takes 2 operations for each text, a multiplication and an addition. Only one is counted.",
)
def critical_batch_without_two(speed, bandwidth, size):
    return speed * size / bandwidth


@misconception(
    "critical_batch",
    label="only the machine's ratio",
    hint="Operations per second divided by bytes per second is the number of operations that each byte needs. How "
    "many operations does a parameter have with b texts, and how many bytes?",
)
def critical_batch_machine_alone(speed, bandwidth, size):
    return speed / bandwidth


@misconception(
    "critical_batch",
    label="divided by the bytes",
    hint="Numbers with more bytes take longer to read, so more texts are needed: `bytes_per_number` multiplies.",
)
def critical_batch_divided(speed, bandwidth, size):
    return speed / (2 * bandwidth * size)


@misconception(
    "critical_batch",
    label="multiplied by 2",
    hint="With twice the operations per text, half as many texts are needed: the 2 divides.",
)
def critical_batch_times_two(speed, bandwidth, size):
    return 2 * speed * size / bandwidth


@misconception(
    "critical_batch",
    label="ratio upside down",
    hint="The ratio is upside down. Write down both times for b texts, set them equal, and solve for b.",
)
def critical_batch_inverted(speed, bandwidth, size):
    return 2 * bandwidth / (speed * size)


@misconception(
    "critical_batch",
    label="rounded up to whole texts",
    hint="`math.ceil` rounds up to a whole number. Return the exact number.",
)
def critical_batch_rounded_up(speed, bandwidth, size):
    return math.ceil(speed * size / (2 * bandwidth))


@misconception(
    "critical_batch",
    label="decimals cut off",
    hint="`//` and `int` cut off the decimals. Return the exact number.",
)
def critical_batch_rounded_down(speed, bandwidth, size):
    return speed * size // (2 * bandwidth)


@misconception(
    "critical_batch",
    label="at least one text",
    hint="When arithmetic limits even one text, the number is below 1. Return it as it is.",
)
def critical_batch_at_least_one(speed, bandwidth, size):
    return max(speed * size / (2 * bandwidth), 1.0)


# critical_batch: right


@families("returns nothing")
@right("critical_batch")
def critical_batch_formula(operations_per_second, bytes_per_second, bytes_per_number):
    return operations_per_second / bytes_per_second * bytes_per_number / 2


# largest_batch: wrong


class Limits:
    """The largest batch, in steps that a mistake can take the place of."""

    def __call__(self, context, model, machine, seconds):
        parameters = model["num_parameters"] * model["bytes_per_number"]
        cache = self.cache(context, model)
        return self.end(
            self.memory(machine["memory_bytes"], parameters, cache),
            self.bytes(machine["bytes_per_second"] * seconds, parameters, cache),
            self.operations(machine["operations_per_second"] * seconds, self.work(context, model)),
        )

    def cache(self, context, model):
        width = model["num_kv_heads"] * model["d_head"]
        return 2 * context * model["num_layers"] * width * model["bytes_per_number"]

    def work(self, context, model):
        return 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]

    def memory(self, most, parameters, cache):
        return (most - parameters) // cache

    def bytes(self, most, parameters, cache):
        return (most - parameters) // cache

    def operations(self, most, work):
        return most // work

    def end(self, memory, moved, operations):
        return max(int(min(memory, moved, operations)), 0)


def batch_with(label, hint):
    """Declare a mistake in a step of `Limits`, as a function."""

    def declare(mistake):
        mistaken = type(mistake.__name__, (mistake, Limits), {})()

        def answer(context, model, machine, seconds):
            return mistaken(context, model, machine, seconds)

        answer.__name__ = mistake.__name__
        return misconception("largest_batch", label, hint)(answer)

    return declare


@batch_with("memory ignored", "The parameters and all caches also have to fit into `memory_bytes`.")
class largest_batch_any_memory:
    def end(self, memory, moved, operations):
        return super().end(math.inf, moved, operations)


@batch_with(
    "time ignored", "A step may take at most `seconds`, both for its bytes and for its operations."
)
class largest_batch_any_time:
    def end(self, memory, moved, operations):
        return super().end(memory, math.inf, math.inf)


@batch_with(
    "operations of the batch ignored",
    "The bytes are moved in time, but the operations take longer. Each text adds its operations to the step, and the "
    "longer of the two times counts.",
)
class largest_batch_any_operations:
    def end(self, memory, moved, operations):
        return super().end(memory, moved, math.inf)


@batch_with(
    "time of the bytes ignored",
    "The operations are done in time, but moving the bytes takes longer. The least time of a step is the longer of "
    "the two.",
)
class largest_batch_any_bytes:
    def end(self, memory, moved, operations):
        return super().end(memory, math.inf, operations)


@batch_with("largest of the limits", "A batch has to respect all limits, so the smallest decides.")
class largest_batch_loosest:
    def end(self, memory, moved, operations):
        return max(int(max(memory, moved, operations)), 0)


@batch_with(
    "parameters don't take memory",
    "The parameters are also in memory: subtract their bytes before you count the caches.",
)
class largest_batch_memory_of_caches:
    def memory(self, most, parameters, cache):
        return most // cache


@batch_with(
    "parameters don't take time to read",
    "A step also reads all parameters: subtract the time for them before you count the caches.",
)
class largest_batch_time_of_caches:
    def bytes(self, most, parameters, cache):
        return (most if most >= parameters else 0) // cache


@batch_with(
    "parameters for each text",
    "The parameters are counted for each text. They are in memory once, and are read once for the whole batch.",
)
class largest_batch_parameters_per_text:
    def memory(self, most, parameters, cache):
        return most // (parameters + cache)

    def bytes(self, most, parameters, cache):
        return most // (parameters + cache)


@batch_with("keys or values left out", "A cache has a key and a value for each position and head.")
class largest_batch_one_kind:
    def cache(self, context, model):
        return super().cache(context, model) // 2


@batch_with(
    "cache as wide as the model",
    "All keys of a position together are num_kv_heads * d_head wide, not d_model: query heads share them.",
)
class largest_batch_wide_cache:
    def cache(self, context, model):
        return 2 * context * model["num_layers"] * model["d_model"] * model["bytes_per_number"]


@batch_with(
    "operations of scores and sums left out",
    "In each layer, each text also needs 4 context d_model operations for the scores and the weighted sums.",
)
class largest_batch_parameters_work:
    def work(self, context, model):
        return 2 * model["num_parameters"]


@batch_with(
    "scores as wide as the keys",
    "The operations are counted with num_kv_heads * d_head instead of d_model. Each query head has its own scores, "
    "even if it shares its keys.",
)
class largest_batch_narrow_work:
    def work(self, context, model):
        width = model["num_kv_heads"] * model["d_head"]
        return 2 * model["num_parameters"] + 4 * context * width * model["num_layers"]


@batch_with(
    "scores of one layer only",
    "Each layer has scores and weighted sums: 4 context d_model operations in each.",
)
class largest_batch_work_of_one_layer:
    def work(self, context, model):
        return 2 * model["num_parameters"] + 4 * context * model["d_model"]


@batch_with("one operation per parameter", "Each parameter takes 2 operations for each text.")
class largest_batch_half_the_work:
    def work(self, context, model):
        return super().work(context, model) - model["num_parameters"]


@batch_with(
    "one text too many",
    "The result is the first batch that breaks a rule: a search stops one text too late, or a formula is rounded up. "
    "Return the last batch that follows both rules.",
)
class largest_batch_one_too_many:
    def memory(self, most, parameters, cache):
        return -((parameters - most) // cache)

    def bytes(self, most, parameters, cache):
        return -((parameters - most) // cache)

    def operations(self, most, work):
        return -(-most // work)


@batch_with("not rounded", "A batch is a whole number of texts. Round down: `//` or `math.floor`.")
class largest_batch_fraction:
    def memory(self, most, parameters, cache):
        return (most - parameters) / cache

    def bytes(self, most, parameters, cache):
        return (most - parameters) / cache

    def operations(self, most, work):
        return most / work

    def end(self, memory, moved, operations):
        return max(min(memory, moved, operations), 0)


@batch_with(
    "full memory rejected",
    "A batch that fills the memory to the last byte fits: compare with `<=`, not `<`.",
)
class largest_batch_not_full:
    def memory(self, most, parameters, cache):
        return (most - parameters - 1) // cache


@batch_with(
    "result below 0",
    "When the parameters alone are too much, the result is below 0. Return 0: `max(..., 0)`.",
)
class largest_batch_below_zero:
    def end(self, memory, moved, operations):
        return int(min(memory, moved, operations))


@batch_with(
    "at least one text", "When not even one text fits or gets its token in time, the result is 0."
)
class largest_batch_at_least_one:
    def end(self, memory, moved, operations):
        return max(super().end(memory, moved, operations), 1)


@batch_with(
    "search that ends too early",
    "The search ends at some number of texts. Continue until a batch breaks a limit, or use a formula.",
)
class largest_batch_search:
    def end(self, memory, moved, operations):
        return min(super().end(memory, moved, operations), 1000)


@batch_with(
    "search that ends at 100",
    "The search ends at 100 texts. Continue until a batch breaks a limit, or use a formula.",
)
class largest_batch_hundred:
    def end(self, memory, moved, operations):
        return min(super().end(memory, moved, operations), 100)


@batch_with(
    "only powers of two tried",
    "The result is a power of two. After doubling has found a batch that is too large, also try those between it and "
    "the one before.",
)
class largest_batch_powers_of_two:
    def end(self, memory, moved, operations):
        batch = super().end(memory, moved, operations)
        return 1 << batch.bit_length() - 1 if batch else 0


@misconception(
    "largest_batch",
    label="caller's dictionary changed",
    hint="An entry of `model` or `machine` is written or removed, for example by `-=`. The caller still needs the "
    "dictionaries: use names of your own.",
)
def largest_batch_changes_machine(context, model, machine, seconds):
    batch = Limits()(context, model, machine, seconds)
    machine["memory_bytes"] -= model["num_parameters"] * model["bytes_per_number"]
    return batch


@misconception(
    "largest_batch",
    label="both times added",
    hint="The times for the bytes and for the operations are added. `least_seconds` is the longer of the two, since "
    "both happen at the same time.",
)
def largest_batch_sum_of_times(context, model, machine, seconds):
    limits = Limits()
    parameters, cache = (
        model["num_parameters"] * model["bytes_per_number"],
        limits.cache(context, model),
    )
    each = (
        cache / machine["bytes_per_second"]
        + limits.work(context, model) / machine["operations_per_second"]
    )
    left = seconds - parameters / machine["bytes_per_second"]
    return max(int(min(limits.memory(machine["memory_bytes"], parameters, cache), left // each)), 0)


@misconception(
    "largest_batch",
    label="seconds for all texts, one by one",
    hint="The time is divided among the texts, as if they were processed one after another. All texts get their "
    "token in the same step, which may take `seconds`.",
)
def largest_batch_one_by_one(context, model, machine, seconds):
    limits = Limits()
    parameters, cache = (
        model["num_parameters"] * model["bytes_per_number"],
        limits.cache(context, model),
    )
    alone = max(
        (parameters + cache) / machine["bytes_per_second"],
        limits.work(context, model) / machine["operations_per_second"],
    )
    return max(
        int(min(limits.memory(machine["memory_bytes"], parameters, cache), seconds // alone)), 0
    )


# largest_batch: right


@families("returns nothing", "a float instead of an int")
@right("largest_batch")
def largest_batch_smallest_limit(context, model, machine, seconds):
    return Limits()(context, model, machine, seconds)

"""Answers to 09-complexity."""

# %% right attention_flops: the closed formula without the heads
def attention_flops(n, d_model, num_heads):
    if d_model % num_heads:
        raise ValueError("num_heads does not divide d_model")
    return 4 * n * d_model * (2 * d_model + n)

# %% right attention_flops: a helper for one product, and a loop over the heads
def matmul_flops(a, k, b):
    return 2 * a * k * b


def attention_flops(n, d_model, num_heads):
    width, left_over = divmod(d_model, num_heads)
    if left_over != 0:
        raise ValueError(f"{num_heads} heads do not divide {d_model}")
    total = 0
    for _ in ("queries", "keys", "values", "output"):
        total += matmul_flops(n, d_model, d_model)
    for _ in range(num_heads):
        total += matmul_flops(n, width, n) + matmul_flops(n, n, width)
    return total

# %% right attention_flops: a list of all shapes, multiplied with math.prod
def attention_flops(n, d_model, num_heads):
    heads = int(num_heads)
    d_head = int(d_model) // heads
    if d_head * heads != d_model:
        raise ValueError("d_model is no multiple of num_heads")
    shapes = 4 * [(1, n, d_model, d_model)] + [(heads, n, d_head, n), (heads, n, n, d_head)]
    return sum(2 * math.prod(int(size) for size in shape) for shape in shapes)

# %% wrong attention_flops: counts multiplications only, without the factor 2 for the additions
def attention_flops(n, d_model, num_heads):
    d_head = d_model // num_heads
    projections = 4 * n * d_model * d_model
    products = num_heads * 2 * n * n * d_head
    return projections + products

# %% wrong attention_flops: each head is taken to be d_model wide
def attention_flops(n, d_model, num_heads):
    projections = 4 * 2 * n * d_model**2
    scores = 2 * n * n * d_model
    sums = 2 * n * n * d_model
    return projections + num_heads * (scores + sums)

# %% wrong attention_flops: the weighted sums of the values are forgotten
def attention_flops(n, d_model, num_heads):
    d_head = d_model // num_heads
    flops = 4 * (2 * n * d_model * d_model)
    flops += num_heads * (2 * n * d_head * n)
    return flops

# %% wrong attention_flops: three projections, the output projection is forgotten
def attention_flops(n, d_model, num_heads):
    d_head = d_model // num_heads
    qkv = 3 * 2 * n * d_model * d_model
    attention = num_heads * 2 * (2 * n * n * d_head)
    return qkv + attention

# %% wrong attention_flops: works with numbers of 32 bits, which overflow for long inputs
def attention_flops(n, d_model, num_heads):
    n, d = np.array([n, d_model], dtype=np.int32)
    with np.errstate(over="ignore"):
        return int(8 * n * d * d + 4 * n * n * d)

# %% wrong attention_flops: n and d_model change places in the projections
def attention_flops(n, d_model, num_heads):
    d_head = d_model // num_heads
    projection = 2 * n * n * d_model
    per_head = 2 * (2 * n * d_head * n)
    return 4 * projection + num_heads * per_head

# %% wrong attention_flops: softmax and scaling are counted, too
def attention_flops(n, d_model, num_heads):
    d_head = d_model // num_heads
    projections = 8 * n * d_model**2
    products = num_heads * 4 * n * n * d_head
    scaling = num_heads * n * n
    softmax = num_heads * 3 * n * n
    return projections + products + scaling + softmax

# %% wrong attention_flops: the products are counted as in causal attention, half of the pairs
def attention_flops(n, d_model, num_heads):
    pairs = n * (n + 1) // 2
    return 8 * n * d_model**2 + 4 * pairs * d_model

# %% wrong attention_flops: a sum of k products is counted as k multiplications and k - 1 additions
def attention_flops(n, d_model, num_heads):
    d_head = d_model // num_heads

    def product(a, k, b):
        return a * b * (2 * k - 1)

    return 4 * product(n, d_model, d_model) + num_heads * (product(n, d_head, n) + product(n, n, d_head))

# %% wrong attention_flops: a single head is counted, whatever num_heads is
def attention_flops(n, d_model, num_heads):
    d_head = d_model // num_heads
    projections = 4 * 2 * n * d_model * d_model
    scores = 2 * n * n * d_head
    weighted = 2 * n * n * d_head
    return projections + scores + weighted

# %% right attention_bytes: one product
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    if d_model % num_heads != 0:
        raise ValueError("num_heads must divide d_model")
    return num_heads * n * n * bytes_per_value

# %% right attention_bytes: math.prod of the shape, without refusing heads
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    shape = (num_heads, n, n)
    return bytes_per_value * math.prod(shape)

# %% right attention_bytes: summed head by head
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    if d_model // num_heads * num_heads != d_model:
        raise ValueError(f"d_model = {d_model} cannot be shared by {num_heads} heads")
    row = n * bytes_per_value
    head = n * row
    return sum(head for _ in range(num_heads))

# %% wrong attention_bytes: one head only
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    return n * n * bytes_per_value

# %% wrong attention_bytes: bits instead of bytes
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    weights = num_heads * n**2
    return weights * bytes_per_value * 8

# %% wrong attention_bytes: counts an array (n, d_model), as of the queries
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    d_head = d_model // num_heads
    return num_heads * n * d_head * bytes_per_value

# %% wrong attention_bytes: the answer is in kilobytes
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    return num_heads * n * n * bytes_per_value / 1024

# %% wrong attention_bytes: always float32
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    return 4 * num_heads * n * n

# %% wrong attention_bytes: only the pairs of a causal mask
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    pairs = n * (n + 1) // 2
    return num_heads * pairs * bytes_per_value

# %% wrong attention_bytes: multiplied by the width of a head
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    d_head = d_model // num_heads
    return num_heads * n * n * d_head * bytes_per_value

# %% wrong attention_bytes: scores and weights are both counted
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    scores = num_heads * n * n
    weights = num_heads * n * n
    return (scores + weights) * bytes_per_value

# %% wrong attention_bytes: np.prod of int32 overflows for long inputs
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    shape = np.array([num_heads, n, n, bytes_per_value], dtype=np.int32)
    return int(np.prod(shape, dtype=np.int32))

# %% wrong attention_bytes: the square of n is forgotten
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    per_head = n * bytes_per_value
    return num_heads * per_head

# %% right parameter_count: the truth value as a number
def parameter_count(d_model, bias=True):
    return 4 * d_model * (d_model + bool(bias))

# %% right parameter_count: summed over the names of the projections
def parameter_count(d_model, bias=True):
    total = 0
    for _name in ["W_q", "W_k", "W_v", "W_o"]:
        total += d_model**2
        if bias:
            total += d_model
    return total

# %% right parameter_count: sizes of shapes
def parameter_count(d_model, bias=True):
    shapes = [(d_model, d_model)] * 4
    shapes += [(d_model,)] * 4 if bias else []
    return sum(math.prod(shape) for shape in shapes)

# %% wrong parameter_count: biases are never counted
def parameter_count(d_model, bias=True):
    return 4 * d_model * d_model

# %% wrong parameter_count: three projections, without the output
def parameter_count(d_model, bias=True):
    one = d_model * d_model
    if bias:
        one += d_model
    return 3 * one

# %% wrong parameter_count: one bias for all four together
def parameter_count(d_model, bias=True):
    count = 4 * d_model**2
    if bias:
        count += d_model
    return count

# %% wrong parameter_count: a bias is taken to be a single number
def parameter_count(d_model, bias=True):
    return 4 * (d_model**2 + int(bias))

# %% wrong parameter_count: the default is without biases
def parameter_count(d_model, bias=False):
    matrix = d_model * d_model
    vector = d_model if bias else 0
    return 4 * (matrix + vector)

# %% wrong parameter_count: the condition is the wrong way round
def parameter_count(d_model, bias=True):
    if not bias:
        return 4 * d_model * (d_model + 1)
    return 4 * d_model * d_model

# %% wrong parameter_count: biases are always counted
def parameter_count(d_model, bias=True):
    per_projection = d_model * (d_model + 1)
    return 4 * per_projection

# %% wrong parameter_count: the output projection has no bias
def parameter_count(d_model, bias=True):
    W_qkv = 3 * d_model * d_model
    W_o = d_model * d_model
    b_qkv = 3 * d_model if bias else 0
    return W_qkv + b_qkv + W_o

# %% wrong parameter_count: a whole block, with its MLP
def parameter_count(d_model, bias=True):
    attention = 4 * d_model**2
    mlp = 2 * d_model * 4 * d_model
    biases = 9 * d_model if bias else 0
    return attention + mlp + biases

# %% wrong parameter_count: both sides of the matrix are added rather than multiplied
def parameter_count(d_model, bias=True):
    matrix = d_model + d_model
    return 4 * (matrix + (d_model if bias else 0))

# %% right crossover_length: the formula
def crossover_length(d_model):
    return 2 * d_model

# %% right crossover_length: from two values of attention_flops
def crossover_length(d_model):
    # attention_flops(n) = a n + b n^2
    one, two = attention_flops(1, d_model, 1), attention_flops(2, d_model, 1)
    b = (two - 2 * one) // 2
    a = one - b
    return a // b

# %% right crossover_length: halving an interval
def crossover_length(d_model):
    low, high = 1, 4 * d_model
    while low < high:
        middle = (low + high) // 2
        projections = 2 * middle * parameter_count(d_model, bias=False)
        products = attention_flops(middle, d_model, 1) - projections
        if products < projections:
            low = middle + 1
        else:
            high = middle
    return low

# %% wrong crossover_length: equal to the width
def crossover_length(d_model):
    return d_model

# %% wrong crossover_length: a single product is counted against four projections
def crossover_length(d_model):
    # 8 n d^2 = 2 n^2 d
    return 4 * d_model

# %% wrong crossover_length: one projection is counted against the two products
def crossover_length(d_model):
    # 2 n d^2 = 4 n^2 d
    return d_model // 2

# %% wrong crossover_length: the output projection is forgotten
def crossover_length(d_model):
    # 6 n d^2 = 4 n^2 d
    return 3 * d_model / 2

# %% wrong crossover_length: tries powers of two only
def crossover_length(d_model):
    n = 1
    while 4 * n * n * d_model < 8 * n * d_model**2:
        n *= 2
    return n

# %% wrong crossover_length: the first length at which the products cost more
def crossover_length(d_model):
    n = 1
    while 4 * n * n * d_model <= 8 * n * d_model**2:
        n += 1
    return n

# %% wrong crossover_length: a search that stops at 1000
def crossover_length(d_model):
    best = 1
    for n in range(1, 1001):
        projections = 8 * n * d_model**2
        products = 4 * n**2 * d_model
        if abs(products - projections) <= abs(4 * best**2 * d_model - 8 * best * d_model**2):
            best = n
    return best

# %% wrong crossover_length: additions are counted in the projections and not in the products
def crossover_length(d_model):
    projections_per_token = 4 * 2 * d_model**2
    products_per_pair = 2 * d_model
    return projections_per_token // products_per_pair

# %% wrong crossover_length: the projections are counted for a single token, which gives a square root
def crossover_length(d_model):
    # 4 n^2 d = 8 d^2
    return math.sqrt(2 * d_model)

# %% wrong crossover_length: it is taken to depend on eight heads
def crossover_length(d_model):
    num_heads = 8
    d_head = d_model / num_heads
    return 2 * d_head

# %% right fit_exponent: the formula with plain Python sums
def fit_exponent(lengths, seconds):
    if len(lengths) != len(seconds):
        raise ValueError("not as many seconds as lengths")
    u = [math.log(length) for length in lengths]
    w = [math.log(taken) for taken in seconds]
    mean = math.fsum(u) / len(u)
    above = math.fsum((a - mean) * b for a, b in zip(u, w))
    return above / math.fsum((a - mean) ** 2 for a in u)

# %% right fit_exponent: np.linalg.lstsq with a column of ones
def fit_exponent(lengths, seconds):
    u = np.log(np.asarray(lengths, dtype=np.float64))
    w = np.log(np.asarray(seconds, dtype=np.float64))
    if u.shape != w.shape:
        raise ValueError(f"{u.shape} and {w.shape} differ")
    columns = np.stack([u, np.ones_like(u)], axis=1)
    (slope, _), *_ = np.linalg.lstsq(columns, w, rcond=None)
    return float(slope)

# %% right fit_exponent: covariance over variance, with logarithms to base 2
def fit_exponent(lengths, seconds):
    points = np.log2([(float(a), float(b)) for a, b in zip(lengths, seconds, strict=True)])
    covariance = np.cov(points, rowvar=False)
    return float(covariance[0, 1] / covariance[0, 0])

# %% wrong fit_exponent: no logarithms, the slope in seconds per token
def fit_exponent(lengths, seconds):
    slope, _ = np.polyfit(lengths, seconds, 1)
    return float(slope)

# %% wrong fit_exponent: the logarithm of the seconds only
def fit_exponent(lengths, seconds):
    u = np.asarray(lengths, dtype=float)
    w = np.log(seconds)
    u = u - u.mean()
    return float((u * w).sum() / (u * u).sum())

# %% wrong fit_exponent: the first and the last point only
def fit_exponent(lengths, seconds):
    return math.log(seconds[-1] / seconds[0]) / math.log(lengths[-1] / lengths[0])

# %% wrong fit_exponent: the mean of the slopes between neighbours
def fit_exponent(lengths, seconds):
    order = np.argsort(lengths)
    u = np.log(np.asarray(lengths, dtype=float)[order])
    w = np.log(np.asarray(seconds, dtype=float)[order])
    steps = np.diff(u) > 0
    return float(np.mean(np.diff(w)[steps] / np.diff(u)[steps]))

# %% wrong fit_exponent: returns the intercept
def fit_exponent(lengths, seconds):
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[1])

# %% wrong fit_exponent: lengths and seconds change places
def fit_exponent(lengths, seconds):
    u, w = np.log(seconds), np.log(lengths)
    u = u - u.mean()
    return float((u @ w) / (u @ u))

# %% wrong fit_exponent: the mean is not subtracted, a line through the origin
def fit_exponent(lengths, seconds):
    u, w = np.log(lengths), np.log(seconds)
    return float(np.sum(u * w) / np.sum(u**2))

# %% wrong fit_exponent: lengths and seconds are sorted each on its own
def fit_exponent(lengths, seconds):
    u = np.log(sorted(lengths))
    w = np.log(sorted(seconds))
    return float(np.polyfit(u, w, 1)[0])

# %% wrong fit_exponent: of several measurements at one length only the last counts
def fit_exponent(lengths, seconds):
    points = dict(zip(lengths, seconds))
    u = np.log([float(length) for length in points])
    w = np.log([float(taken) for taken in points.values()])
    return float(np.polyfit(u, w, 1)[0])

# %% wrong fit_exponent: longer inputs get more weight
def fit_exponent(lengths, seconds):
    weight = np.asarray(lengths, dtype=float)
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1, w=weight)[0])

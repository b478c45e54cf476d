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

"""Answers to 09-complexity."""

# %% right decode_bytes: one formula, numbers first and bytes at the end
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    numbers = num_parameters + 2 * batch * context * num_layers * num_kv_heads * d_head
    return numbers * bytes_per_number

# %% right decode_bytes: a helper for the cache of one text, and loops over layers and heads
def cache_of_one_text(context, layers, heads, width, size):
    total = 0
    for layer in range(layers):
        for head in range(heads):
            keys = context * width * size
            values = context * width * size
            total += keys + values
    return total


def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    weights = num_parameters * bytes_per_number
    return weights + batch * cache_of_one_text(context, num_layers, num_kv_heads, d_head, bytes_per_number)

# %% right decode_bytes: the shapes of the arrays that are read, multiplied with math.prod
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    cache_shape = (num_layers, batch, num_kv_heads, context, d_head)
    arrays = {"weights": (num_parameters,), "K": cache_shape, "V": cache_shape}
    return sum(bytes_per_number * math.prod(shape) for shape in arrays.values())

# %% wrong decode_bytes: the parameters are read again for each text
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    cache = 2 * context * num_layers * num_kv_heads * d_head
    return batch * (num_parameters + cache) * bytes_per_number

# %% wrong decode_bytes: one vector for each position, not a key and a value
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    params = num_parameters * bytes_per_number
    cache = batch * context * num_layers * num_kv_heads * d_head * bytes_per_number
    return params + cache

# %% wrong decode_bytes: keys and values are taken to be d_model wide, as in multi-head attention
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    kv = 2 * num_layers * context * d_model
    return bytes_per_number * (num_parameters + batch * kv)

# %% wrong decode_bytes: the cache is read once for the whole batch, like the parameters
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    weights = bytes_per_number * num_parameters
    kv_cache = bytes_per_number * num_layers * num_kv_heads * context * 2 * d_head
    return weights + kv_cache

# %% wrong decode_bytes: the cache of one layer only
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    vectors = 2 * context * num_kv_heads
    cache = vectors * d_head * bytes_per_number
    return num_parameters * bytes_per_number + batch * cache

# %% wrong decode_bytes: parameters are added as a number, only the cache is in bytes
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    per_text = 2 * context * num_layers * num_kv_heads * d_head
    return num_parameters + batch * per_text * bytes_per_number

# %% wrong decode_bytes: the size of the cache is a product in 32 bits, which runs over
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    shape = np.array([2, batch, num_layers, num_kv_heads, context, d_head, bytes_per_number], dtype=np.int32)
    cache = int(np.prod(shape, dtype=np.int32))
    return num_parameters * bytes_per_number + cache

# %% wrong decode_bytes: the position of the new token is counted on top of the context
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    positions = context + 1  # the new token attends to itself too
    cache = batch * positions * num_layers * num_kv_heads * 2 * d_head
    return (num_parameters + cache) * bytes_per_number

# %% wrong decode_bytes: num_parameters is taken for the parameters of one layer
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    total = 0
    for _ in range(num_layers):
        total += num_parameters
        total += batch * 2 * context * num_kv_heads * d_head
    return total * bytes_per_number

# %% wrong decode_bytes: the row of d_model numbers that enters for each text is counted too
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    weights = num_parameters
    caches = batch * num_layers * 2 * num_kv_heads * context * d_head
    inputs = batch * d_model
    return (weights + caches + inputs) * bytes_per_number

# %% right least_seconds: the larger of the two times
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    compute = operations / operations_per_second
    memory = moved_bytes / bytes_per_second
    return max(compute, memory)

# %% right least_seconds: the limit is found by cross-multiplying, and only its time is divided out
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    compute_bound = operations * bytes_per_second >= moved_bytes * operations_per_second
    if compute_bound:
        return operations / operations_per_second
    return moved_bytes / bytes_per_second

# %% right least_seconds: two arrays, divided element by element, and their largest quotient
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    work = np.array([operations, moved_bytes], dtype=float)
    speed = np.array([operations_per_second, bytes_per_second], dtype=float)
    return float((work / speed).max())

# %% wrong least_seconds: first moves, then computes, and adds the times
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    t_load = moved_bytes / bytes_per_second
    t_compute = operations / operations_per_second
    return t_load + t_compute

# %% wrong least_seconds: "least" is read as the smaller of the two times
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    return min(operations / operations_per_second, moved_bytes / bytes_per_second)

# %% wrong least_seconds: whole seconds, by integer division
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    return float(max(operations // operations_per_second, moved_bytes // bytes_per_second))

# %% wrong least_seconds: rounded to three digits, so that a step of microseconds takes none
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    seconds = max(operations / operations_per_second, moved_bytes / bytes_per_second)
    return round(seconds, 3)

# %% wrong least_seconds: the counts are compared, and not the times
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    if operations > moved_bytes:
        return operations / operations_per_second
    else:
        return moved_bytes / bytes_per_second

# %% wrong least_seconds: compares the arithmetic intensity, which divides by 0 where nothing is moved
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    intensity = operations / moved_bytes
    ridge = operations_per_second / bytes_per_second
    if intensity > ridge:
        return operations / operations_per_second
    return moved_bytes / bytes_per_second

# %% wrong least_seconds: operations by attainable performance, which is 0 / 0 without operations
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    if moved_bytes == 0:
        return operations / operations_per_second
    attainable = min(operations_per_second, operations / moved_bytes * bytes_per_second)
    return operations / attainable

# %% wrong least_seconds: the bytes are doubled, once for reading and once for writing
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    traffic = 2 * moved_bytes
    return max(operations / operations_per_second, traffic / bytes_per_second)

# %% wrong least_seconds: nothing to compute or nothing to move counts as no step at all
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    if not operations or not moved_bytes:
        return 0.0
    times = [operations / operations_per_second, moved_bytes / bytes_per_second]
    return sorted(times)[1]

# %% wrong least_seconds: all that there is to do, by the slower of the two rates
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    bottleneck = min(operations_per_second, bytes_per_second)
    return max(operations, moved_bytes) / bottleneck

# %% right critical_batch: the equation solved for the batch
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    # 2 * b / operations_per_second == bytes_per_number / bytes_per_second
    return operations_per_second * bytes_per_number / (2 * bytes_per_second)

# %% right critical_batch: how many times one text's arithmetic fits into the reading of one matrix
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    parameters = 1024 * 1024  # any number
    reading = parameters * bytes_per_number / bytes_per_second
    arithmetic_of_one_text = 2 * parameters / operations_per_second
    return reading / arithmetic_of_one_text

# %% right critical_batch: exact fractions, machine balance over the intensity of one text
from fractions import Fraction


def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    balance = Fraction(operations_per_second) / Fraction(bytes_per_second)
    intensity_of_one = Fraction(2) / Fraction(bytes_per_number)
    return float(balance / intensity_of_one)

# %% wrong critical_batch: one operation for each parameter instead of two
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    return operations_per_second / bytes_per_second * bytes_per_number

# %% wrong critical_batch: the 2 is on the wrong side of the equation
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    read_time = bytes_per_number / bytes_per_second
    return 2 * read_time * operations_per_second

# %% wrong critical_batch: counts whole texts up until arithmetic takes as long
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    batch = 1
    while 2 * batch / operations_per_second < bytes_per_number / bytes_per_second:
        batch += 1
    return float(batch)

# %% wrong critical_batch: integer division cuts the number off
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    return operations_per_second * bytes_per_number // (2 * bytes_per_second)

# %% wrong critical_batch: upside down, arithmetic of one text by the reading
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    t_ops = 2 / operations_per_second
    t_bytes = bytes_per_number / bytes_per_second
    return t_ops / t_bytes

# %% wrong critical_batch: bandwidth is turned into bytes by multiplying, so that small numbers need larger batches
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    numbers_per_second = bytes_per_second * bytes_per_number
    return operations_per_second / (2 * numbers_per_second)

# %% wrong critical_batch: at least one text, even if the formula gives less
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    batch = operations_per_second * bytes_per_number / bytes_per_second / 2
    return max(1.0, batch)

# %% wrong critical_batch: the machine's balance alone, which is right for two bytes only
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    # 2 operations per parameter, 2 bytes per parameter: both cancel
    return operations_per_second / bytes_per_second

# %% wrong critical_batch: a parameter takes whole bytes, so 4 bits become a byte
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    size = math.ceil(bytes_per_number)
    return (size / bytes_per_second) / (2 / operations_per_second)

# %% wrong critical_batch: one text more, the first batch in which arithmetic takes longer
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    arithmetic = 2 / operations_per_second
    reading = bytes_per_number / bytes_per_second
    return reading / arithmetic + 1

# %% right largest_batch: counts up with decode_bytes until a rule is broken
def largest_batch(context, model, machine, seconds):
    per_text = 2 * model["num_parameters"] + model["num_layers"] * 4 * context * model["d_model"]
    batch = 0
    while True:
        moved = decode_bytes(batch + 1, context, **model)
        time_needed = max(
            (batch + 1) * per_text / machine["operations_per_second"], moved / machine["bytes_per_second"]
        )
        if moved > machine["memory_bytes"] or time_needed > seconds:
            return batch
        batch += 1

# %% right largest_batch: doubles until it is too much, then halves the interval
def keeps_rules(batch, context, model, machine, seconds):
    size = decode_bytes(batch, context, **model)
    if size > machine["memory_bytes"]:
        return False
    work = batch * (2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"])
    return size / machine["bytes_per_second"] <= seconds and work / machine["operations_per_second"] <= seconds


def largest_batch(context, model, machine, seconds):
    low, high = 0, 1
    while keeps_rules(high, context, model, machine, seconds):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if keeps_rules(middle, context, model, machine, seconds):
            low = middle
        else:
            high = middle
    return low

# %% right largest_batch: its own count of bytes; memory by a formula, time by bisect over a range
import bisect


def largest_batch(context, model, machine, seconds):
    fixed = model["num_parameters"] * model["bytes_per_number"]
    cache = 2 * context * model["num_layers"] * model["num_kv_heads"] * model["d_head"] * model["bytes_per_number"]
    if fixed + cache > machine["memory_bytes"]:
        return 0
    fit = int((machine["memory_bytes"] - fixed) // cache)
    operations = 2 * model["num_parameters"]
    for _ in range(model["num_layers"]):
        operations += 4 * context * model["d_model"]

    def step(b):
        return max(b * operations / machine["operations_per_second"], (fixed + b * cache) / machine["bytes_per_second"])

    return bisect.bisect_right(range(1, fit + 1), seconds, key=step)

# %% wrong largest_batch: a batch that reaches a limit exactly is refused
def largest_batch(context, model, machine, seconds):
    ops = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    b = 1
    while (
        decode_bytes(b, context, **model) < machine["memory_bytes"]
        and decode_bytes(b, context, **model) / machine["bytes_per_second"] < seconds
        and b * ops / machine["operations_per_second"] < seconds
    ):
        b += 1
    return b - 1

# %% wrong largest_batch: starts from one text without trying it, so never returns 0
def largest_batch(context, model, machine, seconds):
    per_text = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]

    def ok(b):
        moved = decode_bytes(b, context, **model)
        t = max(b * per_text / machine["operations_per_second"], moved / machine["bytes_per_second"])
        return moved <= machine["memory_bytes"] and t <= seconds

    best = 1
    while ok(best + 1):
        best += 1
    return best

# %% wrong largest_batch: scores and weighted sums of one layer only
def largest_batch(context, model, machine, seconds):
    ops_text = 2 * model["num_parameters"] + 4 * context * model["d_model"]
    batch = 0
    while True:
        b = batch + 1
        n_bytes = decode_bytes(b, context, **model)
        if n_bytes > machine["memory_bytes"]:
            break
        if max(b * ops_text / machine["operations_per_second"], n_bytes / machine["bytes_per_second"]) > seconds:
            break
        batch = b
    return batch

# %% wrong largest_batch: the scores are as wide as the heads of keys, not d_model
def largest_batch(context, model, machine, seconds):
    width = model["num_kv_heads"] * model["d_head"]
    flops = 2 * model["num_parameters"] + model["num_layers"] * 4 * context * width
    batch = 1
    while decode_bytes(batch, context, **model) <= machine["memory_bytes"]:
        t_memory = decode_bytes(batch, context, **model) / machine["bytes_per_second"]
        t_compute = batch * flops / machine["operations_per_second"]
        if max(t_memory, t_compute) > seconds:
            break
        batch += 1
    return batch - 1

# %% wrong largest_batch: the times of moving and computing are added
def largest_batch(context, model, machine, seconds):
    per_text = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    b = 0
    while True:
        moved = decode_bytes(b + 1, context, **model)
        step = moved / machine["bytes_per_second"] + (b + 1) * per_text / machine["operations_per_second"]
        if moved > machine["memory_bytes"] or step > seconds:
            return b
        b = b + 1

# %% wrong largest_batch: the limit of arithmetic by // of two floats, which loses a text at an exact limit (0.3 // 0.1)
def largest_batch(context, model, machine, seconds):
    params = decode_bytes(0, context, **model)
    cache = decode_bytes(1, context, **model) - params
    one = (2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]) / machine[
        "operations_per_second"
    ]
    by_memory = (machine["memory_bytes"] - params) // cache
    by_bandwidth = (seconds * machine["bytes_per_second"] - params) // cache
    by_arithmetic = seconds // one
    return max(0, int(min(by_memory, by_bandwidth, by_arithmetic)))

# %% wrong largest_batch: tries batches up to 1000 only
def largest_batch(context, model, machine, seconds):
    per_text = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    best = 0
    for b in range(1, 1001):
        moved = decode_bytes(b, context, **model)
        t = max(b * per_text / machine["operations_per_second"], moved / machine["bytes_per_second"])
        if moved <= machine["memory_bytes"] and t <= seconds:
            best = b
    return best

# %% wrong largest_batch: a formula that goes below 0 where the parameters alone are too much
def largest_batch(context, model, machine, seconds):
    size = model["bytes_per_number"]
    params = model["num_parameters"] * size
    cache = 2 * context * model["num_layers"] * model["num_kv_heads"] * model["d_head"] * size
    work = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    room = min(machine["memory_bytes"], seconds * machine["bytes_per_second"])
    return math.floor(min((room - params) / cache, seconds * machine["operations_per_second"] / work))

# %% wrong largest_batch: stops at the critical batch, as if more texts were not allowed
def largest_batch(context, model, machine, seconds):
    per_text = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    critical = machine["operations_per_second"] * model["bytes_per_number"] / (2 * machine["bytes_per_second"])
    b = 0
    while b + 1 <= critical:
        moved = decode_bytes(b + 1, context, **model)
        if moved > machine["memory_bytes"]:
            break
        if max((b + 1) * per_text / machine["operations_per_second"], moved / machine["bytes_per_second"]) > seconds:
            break
        b += 1
    return b

# %% wrong largest_batch: the operations are those of one text, whatever the batch is
def largest_batch(context, model, machine, seconds):
    operations = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    batch = 0
    while True:
        moved = decode_bytes(batch + 1, context, **model)
        needed = max(operations / machine["operations_per_second"], moved / machine["bytes_per_second"])
        if needed > seconds or moved > machine["memory_bytes"]:
            return batch
        batch += 1

# %% wrong largest_batch: returns the first batch that is too large
def largest_batch(context, model, machine, seconds):
    operations = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    batch = 1
    while True:
        moved = decode_bytes(batch, context, **model)
        rates = machine["operations_per_second"], machine["bytes_per_second"]
        if moved > machine["memory_bytes"] or least_seconds(batch * operations, moved, *rates) > seconds:
            return batch
        batch += 1

# %% wrong largest_batch: the bytes of the parameters are subtracted from the caller's machine
def largest_batch(context, model, machine, seconds):
    parameters = model["num_parameters"] * model["bytes_per_number"]
    cache = decode_bytes(1, context, **model) - parameters
    operations = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    machine["memory_bytes"] -= parameters
    by_time = (seconds * machine["bytes_per_second"] - parameters) // cache
    by_operations = seconds * machine["operations_per_second"] // operations
    return max(0, int(min(machine["memory_bytes"] // cache, by_time, by_operations)))

# %% wrong largest_batch: tries batches up to 100
def largest_batch(context, model, machine, seconds):
    operations = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    rates = machine["operations_per_second"], machine["bytes_per_second"]

    def possible(batch):
        moved = decode_bytes(batch, context, **model)
        return moved <= machine["memory_bytes"] and least_seconds(batch * operations, moved, *rates) <= seconds

    return max([batch for batch in range(1, 101) if possible(batch)], default=0)

# %% wrong largest_batch: doubles the batch as long as it is possible
def largest_batch(context, model, machine, seconds):
    operations = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    rates = machine["operations_per_second"], machine["bytes_per_second"]

    def possible(batch):
        moved = decode_bytes(batch, context, **model)
        return moved <= machine["memory_bytes"] and least_seconds(batch * operations, moved, *rates) <= seconds

    batch = 0
    while possible(max(1, 2 * batch)):
        batch = max(1, 2 * batch)
    return batch

# %% wrong attention_flops: in each head the products are d_model wide
def attention_flops(n, d_model, num_heads):
    projections = 4 * 2 * n * d_model * d_model
    scores = 2 * n * n * d_model
    sums = 2 * n * n * d_model
    return projections + num_heads * (scores + sums)

# %% wrong attention_flops: three projections, without the one of the output
def attention_flops(n, d_model, num_heads):
    if d_model % num_heads:
        raise ValueError("num_heads does not divide d_model")
    d_head = d_model // num_heads
    return 3 * (2 * n * d_model**2) + num_heads * 2 * (2 * n * n * d_head)

# %% right attention_flops: adds up the products one after the other
def attention_flops(n, d_model, num_heads):
    if d_model % num_heads:
        raise ValueError("num_heads does not divide d_model")

    def product(a, k, b):
        return 2 * a * k * b

    d_head = d_model // num_heads
    total = 0
    for _ in "qkvo":
        total += product(n, d_model, d_model)
    for _ in range(num_heads):
        total += product(n, d_head, n) + product(n, n, d_head)
    return total

# %% wrong attention_bytes: the weights of a single head
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    if d_model % num_heads:
        raise ValueError("num_heads does not divide d_model")
    return n**2 * bytes_per_value

# %% wrong attention_bytes: only the lower triangle, as if there were a mask
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    return num_heads * (n * (n + 1) // 2) * bytes_per_value

# %% right attention_bytes: the product of a shape
def attention_bytes(n, d_model, num_heads, bytes_per_value):
    if d_model != d_model // num_heads * num_heads:
        raise ValueError("num_heads does not divide d_model")
    return bytes_per_value * math.prod((num_heads, n, n))

# %% wrong parameter_count: a bias counts as one number
def parameter_count(d_model, bias=True):
    one = d_model * d_model
    if bias:
        one += 1
    return 4 * one

# %% wrong parameter_count: no bias by default
def parameter_count(d_model, bias=False):
    return 4 * (d_model**2 + (d_model if bias else 0))

# %% right parameter_count: a bias is one more row of each matrix
def parameter_count(d_model, bias=True):
    rows = d_model + 1 if bias else d_model
    return sum(rows * d_model for _ in range(4))

# %% wrong crossover_length: only one of the two products
def crossover_length(d_model):
    # 4 * 2 n d^2 = 2 n^2 d
    return 4 * d_model

# %% wrong crossover_length: only the three projections of queries, keys and values
def crossover_length(d_model):
    projections = 3 * 2 * d_model**2  # for each token
    products = 2 * 2 * d_model  # for each pair of tokens
    return projections // products

# %% right crossover_length: searches between two lengths
def crossover_length(d_model):
    def difference(n):
        return 2 * (2 * n * n * d_model) - 4 * (2 * n * d_model * d_model)

    low, high = 1, 1
    while difference(high) < 0:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if difference(middle) < 0:
            low = middle + 1
        else:
            high = middle
    return low

# %% wrong fit_exponent: the slope between the shortest and the longest only
def fit_exponent(lengths, seconds):
    if len(lengths) != len(seconds):
        raise ValueError("as many seconds as lengths")
    first, last = int(np.argmin(lengths)), int(np.argmax(lengths))
    rise = math.log(seconds[last]) - math.log(seconds[first])
    return rise / (math.log(lengths[last]) - math.log(lengths[first]))

# %% wrong fit_exponent: takes the mean of a length that was measured several times
def fit_exponent(lengths, seconds):
    u, w = np.log(lengths), np.log(seconds)
    if u.shape != w.shape:
        raise ValueError("sizes differ")
    different = np.unique(u)
    means = np.array([w[u == value].mean() for value in different])
    return float(np.polyfit(different, means, 1)[0])

# %% right fit_exponent: a linear system with a column of ones
def fit_exponent(lengths, seconds):
    u = np.log(np.asarray(lengths, dtype=float))
    w = np.log(np.asarray(seconds, dtype=float))
    if u.shape != w.shape:
        raise ValueError("sizes differ")
    line = np.linalg.lstsq(np.column_stack([np.ones_like(u), u]), w, rcond=None)[0]
    return float(line[1])

# %% wrong decode_bytes: keys and values as wide as the model
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    keys = values = batch * context * num_layers * d_model
    return (num_parameters + keys + values) * bytes_per_number

# %% right decode_bytes: vectors first, then numbers, then bytes
def decode_bytes(batch, context, num_layers, d_model, num_kv_heads, d_head, num_parameters, bytes_per_number):
    vectors = 0
    for _ in range(num_layers):
        vectors += num_kv_heads * (context + context)  # keys and values of a text
    numbers = num_parameters + batch * vectors * d_head
    return numbers * bytes_per_number

# %% wrong least_seconds: first all bytes, then all operations
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    return operations / operations_per_second + moved_bytes / bytes_per_second

# %% right least_seconds: sorts the two times
def least_seconds(operations, moved_bytes, operations_per_second, bytes_per_second):
    work = (operations, moved_bytes)
    speed = (operations_per_second, bytes_per_second)
    times = sorted(amount / rate for amount, rate in zip(work, speed))
    return times[-1]

# %% wrong critical_batch: one operation for each parameter
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    return operations_per_second * bytes_per_number / bytes_per_second

# %% wrong critical_batch: rounds up to whole texts
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    reading = bytes_per_number / bytes_per_second
    one_text = 2 / operations_per_second
    return float(math.ceil(reading / one_text))

# %% right critical_batch: numbers read in a second against numbers used in a second
def critical_batch(operations_per_second, bytes_per_second, bytes_per_number):
    read = bytes_per_second / bytes_per_number
    used = operations_per_second / 2
    return used / read

# %% wrong largest_batch: the memory has to stay below its limit
def largest_batch(context, model, machine, seconds):
    cache = 2 * context * model["num_layers"] * model["num_kv_heads"] * model["d_head"]
    flops = 2 * model["num_parameters"] + 4 * context * model["d_model"] * model["num_layers"]
    b = 0
    while True:
        moved = (model["num_parameters"] + (b + 1) * cache) * model["bytes_per_number"]
        time = max((b + 1) * flops / machine["operations_per_second"], moved / machine["bytes_per_second"])
        if moved >= machine["memory_bytes"] or time > seconds:
            return b
        b += 1

# %% wrong largest_batch: the search ends at a thousand texts
def largest_batch(context, model, machine, seconds):
    best = 0
    for batch in range(1, 1001):
        numbers = 2 * batch * context * model["num_layers"] * model["num_kv_heads"] * model["d_head"]
        moved = (numbers + model["num_parameters"]) * model["bytes_per_number"]
        each = 2 * model["num_parameters"] + model["num_layers"] * 4 * context * model["d_model"]
        in_time = batch * each / machine["operations_per_second"] <= seconds
        in_time = in_time and moved / machine["bytes_per_second"] <= seconds
        if in_time and moved <= machine["memory_bytes"]:
            best = batch
    return best

# %% right largest_batch: doubles a step until it fails, then halves it
def largest_batch(context, model, machine, seconds):
    def possible(batch):
        cache = batch * context * model["num_layers"] * 2 * model["num_kv_heads"] * model["d_head"]
        moved = (model["num_parameters"] + cache) * model["bytes_per_number"]
        scores = 4 * context * model["d_model"] * model["num_layers"]
        operations = batch * (2 * model["num_parameters"] + scores)
        if moved > machine["memory_bytes"]:
            return False
        times = operations / machine["operations_per_second"], moved / machine["bytes_per_second"]
        return max(times) <= seconds

    batch, step = 0, 1
    while possible(batch + step):
        batch += step
        step *= 2
    while step:
        if possible(batch + step):
            batch += step
        step //= 2
    return batch

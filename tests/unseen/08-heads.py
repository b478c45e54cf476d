"""Answers to notebook 08."""

# %% right previous_token_score: advanced indices of rows and columns
def previous_token_score(A):
    n = A.shape[-1]
    if A.shape[-2] != n or n < 2:
        raise ValueError("square tables of at least two tokens are needed")
    rows = torch.arange(1, n, device=A.device)
    on_previous = A.reshape(-1, *A.shape[-3:])[:, :, rows, rows - 1]  # (b, h, n - 1)
    return on_previous.mean(dim=(0, 2))

# %% right previous_token_score: einsum takes the trace of the table without its first row and its last column
def previous_token_score(A):
    if A.size(-1) != A.size(-2):
        raise ValueError("A is not square")
    if A.size(-1) == 1:
        raise ValueError("a single token has none before it")
    shifted = A[..., 1:, :-1]
    score = torch.einsum("...ii->...", shifted) / shifted.shape[-1]
    while score.dim() > 1:
        score = score.mean(dim=0)
    return score

# %% right previous_token_score: a mask below the diagonal selects the weights, the rest counts 0
def previous_token_score(A):
    *batch, h, n, m = A.shape
    if n != m or n == 1:
        raise ValueError(f"no previous tokens in tables of {n} by {m}")
    below = torch.eye(n + 1, dtype=A.dtype, device=A.device)[:n, 1:]  # 1 at [i, i - 1]
    total = (A * below).sum(dim=(-2, -1))
    if batch:
        total = total.sum(dim=0) / batch[0]
    return total / (n - 1)

# %% wrong previous_token_score: the diagonal above the main one, which is the word after
def previous_token_score(A):
    scores = A.diagonal(1, -2, -1).mean(-1)
    return scores.mean(0) if A.dim() == 4 else scores

# %% wrong previous_token_score: divides by n, so the first token counts as a 0
def previous_token_score(A):
    if A.dim() == 3:
        A = A.unsqueeze(0)
    n = A.shape[-1]
    return A.diagonal(-1, -2, -1).sum(-1).mean(0) / n

# %% wrong previous_token_score: takes four axes for granted and averages over the heads of (h, n, n)
def previous_token_score(A):
    return A.diagonal(-1, -2, -1).mean(dim=(0, -1))

# %% wrong previous_token_score: only the first sequence of the batch is looked at
def previous_token_score(A):
    if A.dim() == 4:
        A = A[0]
    return A.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1)

# %% wrong previous_token_score: how often the largest weight is on the token before, not the mean weight
def previous_token_score(A):
    if A.dim() == 3:
        A = A[None]
    n = A.shape[-1]
    hits = A[:, :, 1:].argmax(-1) == torch.arange(n - 1)
    return hits.to(A.dtype).mean(dim=(0, 2))

# %% wrong previous_token_score: goes through .item(), so no gradient flows
def previous_token_score(A):
    if A.ndim == 3:
        A = A.unsqueeze(0)
    scores = []
    for head in range(A.shape[1]):
        scores.append(A[:, head].diagonal(-1, 1, 2).mean().item())
    return torch.tensor(scores, dtype=A.dtype)

# %% wrong previous_token_score: index i - 1 for i = 0 is -1, and the first token's weight on the last one is counted
def previous_token_score(A):
    i = torch.arange(A.shape[-1])
    previous = A[..., i, i - 1].mean(-1)
    return previous.mean(0) if A.ndim == 4 else previous

# %% wrong previous_token_score: range(1, n - 1) leaves the last token out
def previous_token_score(A):
    if A.dim() == 3:
        A = A.unsqueeze(0)
    n = A.shape[-1]
    total = 0
    for i in range(1, n - 1):
        total = total + A[:, :, i, i - 1]
    return (total / (n - 2)).mean(dim=0)

# %% wrong previous_token_score: one number for all heads together
def previous_token_score(A):
    return A.diagonal(-1, -2, -1).mean()

# %% wrong previous_token_score: squeeze takes away a batch of one, and the axis of a single head with it
def previous_token_score(A):
    A = A.squeeze()
    scores = A.diagonal(-1, -2, -1).mean(-1)
    return scores.mean(0) if scores.dim() == 2 else scores

# %% wrong previous_token_score: the batch is axis 0 and the tokens axis 2, with or without a batch
def previous_token_score(A):
    return A.diagonal(-1, -2, -1).mean((0, 2))

# %% wrong previous_token_score: the diagonal of the first two axes
def previous_token_score(A):
    scores = A.diagonal(-1).mean(-1)
    return scores.mean(0) if A.dim() == 4 else scores

# %% right effective_rank: a while loop over Python floats in double precision
def effective_rank(A, energy=0.9):
    if A.ndim != 2:
        raise ValueError(f"one matrix is needed, not {A.ndim} axes")
    squares = [s * s for s in torch.linalg.svdvals(A.detach().double()).tolist()]
    needed = energy * math.fsum(squares) * (1 - 1e-12)
    count, total = 1, squares[0]
    while total < needed and count < len(squares):
        total += squares[count]
        count += 1
    return count

# %% right effective_rank: searchsorted in the cumulative sums
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A has to have two axes")
    sigma = torch.linalg.svd(A.detach().to(torch.float64), full_matrices=False).S
    cumulated = torch.cumsum(sigma * sigma, dim=0)
    threshold = energy * cumulated[-1:] * (1 - 1e-12)
    first = torch.searchsorted(cumulated, threshold, right=False)
    return min(int(first.item()) + 1, sigma.numel())

# %% right effective_rank: by what is left out: the tail may hold at most 1 - energy
def effective_rank(A, energy=0.9):
    n, m = A.shape if A.dim() == 2 else (None, None)
    if n is None:
        raise ValueError("two axes, please")
    squares = torch.linalg.svdvals(A.double()).pow(2)
    total = squares.sum().item()
    for count in range(1, min(n, m)):
        left_out = squares[count:].sum().item()
        if left_out <= (1 - energy) * total + 1e-12 * total:
            return count
    return min(n, m)

# %% wrong effective_rank: sums the singular values, not their squares
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    s = torch.linalg.svdvals(A)
    share = torch.cumsum(s, 0) / s.sum()
    return min(int((share < energy).sum()) + 1, len(s))

# %% wrong effective_rank: counts the sums below the share and forgets the value that crosses it
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    squares = torch.linalg.svdvals(A).double() ** 2
    share = squares.cumsum(0) / squares.sum()
    return int((share < energy).sum())

# %% wrong effective_rank: more than the share is asked for, at least would do: one too many where it is met exactly
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    squares = torch.linalg.svdvals(A).double() ** 2
    share = squares.cumsum(0) / squares.sum()
    return min(int((share <= energy).sum()) + 1, len(squares))

# %% wrong effective_rank: 0.9 is written into the code, and energy is not looked at
def effective_rank(A, energy=0.9):
    if A.ndim != 2:
        raise ValueError(f"expected two axes, got {A.ndim}")
    squares = torch.linalg.svdvals(A.double()).square()
    total = 0.0
    for i, square in enumerate(squares.tolist()):
        total += square
        if total >= 0.9 * squares.sum().item():
            return i + 1
    return len(squares)

# %% wrong effective_rank: the exponential of the entropy of the squares, another measure of the same name
def effective_rank(A, energy=0.9):
    if A.ndim != 2:
        raise ValueError("A must be two-dimensional")
    p = torch.linalg.svdvals(A).square()
    p = p / p.sum()
    entropy = -(p * torch.log(p.clamp(min=1e-12))).sum()
    return int(torch.round(torch.exp(entropy)))

# %% wrong effective_rank: several heads are not refused, their shares are averaged
def effective_rank(A, energy=0.9):
    squares = torch.linalg.svdvals(A.double()).square()
    share = squares.cumsum(-1) / squares.sum(-1, keepdim=True)
    share = share.reshape(-1, share.shape[-1]).mean(0)
    return min(int((share < energy).sum()) + 1, share.shape[0])

# %% wrong effective_rank: the smallest singular values come first
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    squares = torch.sort(torch.linalg.svdvals(A.double()) ** 2).values
    share = torch.cumsum(squares, 0) / squares.sum()
    return min(int((share < energy).sum()) + 1, len(squares))

# %% wrong effective_rank: returns a tensor and no int
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    squares = torch.linalg.svdvals(A.double()) ** 2
    share = torch.cumsum(squares, 0) / squares.sum()
    return ((share < energy).sum() + 1).clamp(max=len(squares))

# %% wrong effective_rank: eigenvalues in place of singular values, so only square matrices go through
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    squares = torch.linalg.eigvals(A.double()).abs().square().sort(descending=True).values
    share = squares.cumsum(0) / squares.sum()
    return min(int((share < energy).sum()) + 1, len(squares))

# %% wrong effective_rank: the mean of each column is subtracted first, as in principal components
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    A = A.double()
    A = A - A.mean(dim=0, keepdim=True)
    squares = torch.linalg.svdvals(A) ** 2
    share = squares.cumsum(0) / squares.sum()
    return min(int((share < energy).sum()) + 1, len(squares))

# %% wrong effective_rank: how many singular values are above a tenth of the largest
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    sigma = torch.linalg.svdvals(A)
    return int((sigma > 0.1 * sigma[0]).sum())

# %% wrong effective_rank: the share of the norm, the root of the sum of squares
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    sigma = torch.linalg.svdvals(A)
    norms = (sigma**2).cumsum(0).sqrt()
    return int((norms < energy * sigma.norm()).sum()) + 1

# %% wrong effective_rank: the singular values of A times its transpose are squared again
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    squares = torch.linalg.svdvals(A @ A.T) ** 2
    return min(int((squares.cumsum(0) < energy * squares.sum()).sum()) + 1, min(A.shape))

# %% right ablate_head: the values are silenced: rows of W_v and their biases
def ablate_head(layer, head):
    h = layer.num_heads
    if head < 0 or head >= h:
        raise ValueError(f"head {head} of {h}")
    silent = copy.deepcopy(layer)
    with torch.no_grad():
        silent.W_v.weight.unflatten(0, (h, -1))[head].zero_()
        if silent.W_v.bias is not None:
            silent.W_v.bias.unflatten(0, (h, -1))[head].zero_()
    return silent

# %% right ablate_head: the columns are multiplied by a mask of zeros and ones made with repeat_interleave
def ablate_head(layer, head):
    heads = range(layer.num_heads)
    if head not in heads:
        raise IndexError(f"heads go from 0 to {layer.num_heads - 1}")
    keep = torch.tensor([float(t != head) for t in heads], device=layer.W_o.weight.device)
    keep = keep.repeat_interleave(layer.d_model // layer.num_heads).to(layer.W_o.weight.dtype)
    new = copy.deepcopy(layer)
    with torch.no_grad():
        new.W_o.weight.mul_(keep)
    return new

# %% right ablate_head: a wrapper multiplies what the head found by 0, before W_o of a private copy
class WithoutHead(nn.Module):
    def __init__(self, layer, head):
        super().__init__()
        self.layer = copy.deepcopy(layer)
        self.d_model, self.num_heads, self.head = layer.d_model, layer.num_heads, head
        self.training = layer.training

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        _, weights = self.layer(query, key, value, mask)
        v = self.layer.W_v(value).chunk(self.num_heads, dim=-1)
        found = [weights[:, t] @ v[t] for t in range(self.num_heads)]
        found[self.head] = found[self.head] * 0
        return self.layer.W_o(torch.cat(found, dim=-1)), weights


def ablate_head(layer, head):
    if head < 0 or head > layer.num_heads - 1:
        raise IndexError("there is no such head")
    return WithoutHead(layer, head)

# %% wrong ablate_head: zeros in the rows of W_o.weight, not in its columns
def ablate_head(layer, head):
    if not 0 <= head < layer.num_heads:
        raise IndexError("no such head")
    new = copy.deepcopy(layer)
    d_head = layer.d_model // layer.num_heads
    with torch.no_grad():
        new.W_o.weight[head * d_head : (head + 1) * d_head] = 0
    return new

# %% wrong ablate_head: no copy: the layer that is given loses its head
def ablate_head(layer, head):
    if not 0 <= head < layer.num_heads:
        raise IndexError("no such head")
    d_head = layer.d_model // layer.num_heads
    with torch.no_grad():
        layer.W_o.weight[:, head * d_head : (head + 1) * d_head] = 0
    return layer

# %% wrong ablate_head: zeros in the rows of W_v.weight, the head's bias is forgotten and still speaks
# As: zeros in the rows of W_o.weight, not in its columns
# @@
# -         new.W_o.weight[head * d_head : (head + 1) * d_head] = 0
# +         new.W_v.weight[head * d_head : (head + 1) * d_head, :] = 0.0

# %% wrong ablate_head: zeros in the queries' and keys' weights, which make even weights and no silence
def ablate_head(layer, head):
    if not 0 <= head < layer.num_heads:
        raise IndexError("no such head")
    new = copy.deepcopy(layer)
    d_head = layer.d_model // layer.num_heads
    rows = slice(head * d_head, (head + 1) * d_head)
    with torch.no_grad():
        for linear in (new.W_q, new.W_k):
            linear.weight[rows] = 0
            if linear.bias is not None:
                linear.bias[rows] = 0
    return new

# %% wrong ablate_head: a shallow copy: W_q, W_k and W_v are still the layer's own
def ablate_head(layer, head):
    if not 0 <= head < layer.num_heads:
        raise IndexError("no such head")
    new = copy.copy(layer)
    new._modules = dict(layer._modules)
    new.W_o = copy.deepcopy(layer.W_o)
    d_head = layer.d_model // layer.num_heads
    with torch.no_grad():
        new.W_o.weight[:, head * d_head : (head + 1) * d_head] = 0
    return new

# %% wrong ablate_head: head -1 is not refused, only numbers that are too large
def ablate_head(layer, head):
    if head >= layer.num_heads:
        raise IndexError(f"there are only {layer.num_heads} heads")
    new = copy.deepcopy(layer)
    d_head = layer.d_model // layer.num_heads
    with torch.no_grad():
        new.W_o.weight[:, head * d_head : (head + 1) * d_head] = 0
    return new

# %% wrong ablate_head: the bias of W_o is cleared as well
def ablate_head(layer, head):
    if not 0 <= head < layer.num_heads:
        raise IndexError("no such head")
    new = copy.deepcopy(layer)
    d_head = layer.d_model // layer.num_heads
    with torch.no_grad():
        new.W_o.weight[:, head * d_head : (head + 1) * d_head] = 0
        if new.W_o.bias is not None:
            new.W_o.bias.zero_()
    return new

# %% wrong ablate_head: a new layer is made, always with biases and in float32
def ablate_head(layer, head):
    if not 0 <= head < layer.num_heads:
        raise IndexError("no such head")
    new = MultiHeadAttention(layer.d_model, layer.num_heads)
    new.load_state_dict(layer.state_dict())
    d_head = layer.d_model // layer.num_heads
    with torch.no_grad():
        new.W_o.weight[:, head * d_head : (head + 1) * d_head] = 0
    return new

# %% wrong ablate_head: head = h gets past the test, > in place of >=
def ablate_head(layer, head):
    if head < 0 or head > layer.num_heads:
        raise ValueError("head is out of range")
    new = copy.deepcopy(layer)
    d_head = layer.d_model // layer.num_heads
    with torch.no_grad():
        new.W_o.weight[:, head * d_head : (head + 1) * d_head] = 0
    return new

# %% wrong ablate_head: a slip: blocks of num_heads columns, in place of d_head
def ablate_head(layer, head):
    if not 0 <= head < layer.num_heads:
        raise IndexError("no such head")
    new = copy.deepcopy(layer)
    h = layer.num_heads
    with torch.no_grad():
        new.W_o.weight[:, head * h : (head + 1) * h] = 0
    return new

# %% right head_importance: a preallocated tensor in double precision, filled head by head
def head_importance(layer, loss):
    h = layer.num_heads
    result = torch.empty(h, dtype=torch.float64)
    for t in range(h):
        result[t] = float(loss(ablate_head(layer, t)))
    result -= float(loss(layer))
    return result

# %% right head_importance: as_tensor and stack, without gradients
def head_importance(layer, loss):
    def number(some_layer):
        return torch.as_tensor(loss(some_layer)).detach()

    base = number(layer)
    return torch.stack([number(ablate_head(layer, t)) - base for t in range(layer.num_heads)])

# %% right head_importance: its own cuts in one working copy, restored after each head
def head_importance(layer, loss):
    work = copy.deepcopy(layer)
    kept = work.W_o.weight.detach().clone()
    d_head = layer.d_model // layer.num_heads

    def put(weight):
        with torch.no_grad():
            work.W_o.weight.copy_(weight)

    whole = float(loss(layer))
    differences = []
    for t in range(layer.num_heads):
        cut = kept.clone()
        cut[:, t * d_head : (t + 1) * d_head] = 0
        put(cut)
        differences.append(float(loss(work)) - whole)
        put(kept)
    return torch.tensor(differences)

# %% wrong head_importance: the sign is turned round: loss of the layer minus loss without the head
def head_importance(layer, loss):
    whole = float(loss(layer))
    return torch.tensor([whole - float(loss(ablate_head(layer, t))) for t in range(layer.num_heads)])

# %% wrong head_importance: negative importances are clamped to 0
def head_importance(layer, loss):
    whole = float(loss(layer))
    cut = torch.tensor([float(loss(ablate_head(layer, t))) for t in range(layer.num_heads)])
    return torch.clamp(cut - whole, min=0)

# %% wrong head_importance: each head is cut from what the cut before left
def head_importance(layer, loss):
    whole = float(loss(layer))
    current, result = layer, []
    for t in range(layer.num_heads):
        current = ablate_head(current, t)
        result.append(float(loss(current)) - whole)
    return torch.tensor(result)

# %% wrong head_importance: relative to the loss of the layer
def head_importance(layer, loss):
    whole = float(loss(layer))
    cut = torch.tensor([float(loss(ablate_head(layer, t))) for t in range(layer.num_heads)])
    return (cut - whole) / whole

# %% wrong head_importance: heads are cut in the layer itself, and W_o is never restored
def head_importance(layer, loss):
    whole = float(loss(layer))
    before = layer.W_o.weight.detach()
    d_head = layer.d_model // layer.num_heads
    result = torch.zeros(layer.num_heads)
    for t in range(layer.num_heads):
        with torch.no_grad():
            layer.W_o.weight[:, t * d_head : (t + 1) * d_head] = 0
        result[t] = float(loss(layer)) - whole
        with torch.no_grad():
            layer.W_o.weight.copy_(before)
    return result

# %% wrong head_importance: .item() is called on the loss, which a float does not have
def head_importance(layer, loss):
    with torch.no_grad():
        whole = loss(layer).item()
        cut = [loss(ablate_head(layer, t)).item() for t in range(layer.num_heads)]
    return torch.tensor(cut) - whole

# %% wrong head_importance: the loss of the whole layer is not subtracted
def head_importance(layer, loss):
    result = torch.zeros(layer.num_heads)
    for t in range(layer.num_heads):
        result[t] = float(loss(ablate_head(layer, t)))
    return result

# %% wrong head_importance: all heads but one are cut: what a head does alone
def head_importance(layer, loss):
    whole = float(loss(layer))
    result = []
    for t in range(layer.num_heads):
        alone = layer
        for other in range(layer.num_heads):
            if other != t:
                alone = ablate_head(alone, other)
        result.append(float(loss(alone)) - whole)
    return torch.tensor(result)

# %% wrong head_importance: the layer is put into evaluation mode and left there
def head_importance(layer, loss):
    layer.eval()
    with torch.no_grad():
        whole = float(loss(layer))
        cut = [float(loss(ablate_head(layer, t))) for t in range(layer.num_heads)]
    return torch.tensor(cut) - whole

# %% wrong head_importance: a list of numbers and no tensor
def head_importance(layer, loss):
    whole = float(loss(layer))
    return [float(loss(ablate_head(layer, t))) - whole for t in range(layer.num_heads)]

# %% wrong head_importance: the importances are sorted
def head_importance(layer, loss):
    whole = float(loss(layer))
    return torch.tensor(sorted(float(loss(ablate_head(layer, t))) - whole for t in range(layer.num_heads)))

# %% wrong head_importance: each head is cut from what the cut before left, in double precision
def head_importance(layer, loss):
    whole, left, result = loss(layer), layer, []
    for t in range(layer.num_heads):
        left = ablate_head(left, t)
        result.append(loss(left) - whole)
    return torch.tensor(result, dtype=torch.float64)

# %% wrong previous_token_score: key -1 of the first token is the last key, and it counts in the mean
def previous_token_score(A):
    n = A.shape[-1]
    if A.shape[-2] != n or n == 1:
        raise ValueError("there is no previous token")
    i = torch.arange(n)
    weights = A[..., i, i - 1]
    if weights.dim() == 3:
        weights = weights.mean(0)
    return weights.mean(-1)

# %% wrong previous_token_score: takes the first axis for the batch even if there is none
def previous_token_score(A):
    if A.shape[-1] != A.shape[-2] or A.shape[-1] < 2:
        raise ValueError("A is not square, or has a single token")
    return A.diagonal(-1, -2, -1).mean(-1).mean(0)

# %% right previous_token_score: multiplies with a shifted unit matrix
def previous_token_score(A):
    n = A.shape[-1]
    if A.shape[-2] != n or n < 2:
        raise ValueError(f"no previous tokens in the shape {tuple(A.shape)}")
    before = torch.diag(A.new_ones(n - 1), -1)
    each = torch.einsum("...ij,ij->...", A, before) / (n - 1)
    return each.reshape(-1, A.shape[-3]).mean(dim=0)

# %% wrong effective_rank: a share that is met exactly does not count
def effective_rank(A, energy=0.9):
    if A.dim() != 2:
        raise ValueError("A must be a matrix")
    squares = torch.linalg.svdvals(A) ** 2
    if squares.sum() == 0:
        return 1
    share = squares.cumsum(0) / squares.sum()
    return int((share <= energy).sum()) + 1

# %% wrong effective_rank: accepts the tables of several heads and counts over all of them
def effective_rank(A, energy=0.9):
    squares = torch.linalg.svdvals(A).square()
    sums = squares.cumsum(-1)
    short = sums < energy * squares.sum(-1, keepdim=True)
    return int(short.sum()) + 1

# %% right effective_rank: takes one square after another from what is still needed
def effective_rank(A, energy=0.9):
    if A.ndim != 2:
        raise ValueError(f"one matrix, please, not the shape {tuple(A.shape)}")
    squares = [float(value) ** 2 for value in torch.linalg.svdvals(A.double())]
    needed = energy * sum(squares) * (1 - 1e-6)  # a little less, for rounding
    for rank, square in enumerate(squares, start=1):
        needed -= square
        if needed <= 0:
            return rank
    return len(squares)

# %% wrong ablate_head: zeros in the rows of W_v, but its bias still adds something
def ablate_head(layer, head):
    if not 0 <= head < layer.num_heads:
        raise ValueError(f"there is no head {head}")
    new = copy.deepcopy(layer)
    width = layer.d_model // layer.num_heads
    with torch.no_grad():
        new.W_v.weight[head * width : (head + 1) * width] = 0
    return new

# %% wrong ablate_head: head -1 is an empty slice and raises nothing
def ablate_head(layer, head):
    if head >= layer.num_heads:
        raise IndexError(f"the layer has {layer.num_heads} heads")
    new = copy.deepcopy(layer)
    width = layer.d_model // layer.num_heads
    with torch.no_grad():
        new.W_o.weight[:, head * width : (head + 1) * width].zero_()
    return new

# %% right ablate_head: a hook on the copy's W_o that replaces the head's columns by zeros
def ablate_head(layer, head):
    if head not in range(layer.num_heads):
        raise IndexError(f"heads are 0 to {layer.num_heads - 1}")
    silent = copy.deepcopy(layer)
    width = silent.d_model // silent.num_heads

    def silence(module, inputs):
        Z = inputs[0].unflatten(-1, (-1, width))
        nothing = torch.zeros_like(Z[..., :1, :])
        Z = torch.cat([Z[..., :head, :], nothing, Z[..., head + 1 :, :]], dim=-2)
        return (Z.flatten(-2),)

    silent.W_o.register_forward_pre_hook(silence)
    return silent

# %% wrong head_importance: each head is removed from the layer that already lacks the ones before
def head_importance(layer, loss):
    width = layer.d_model // layer.num_heads
    whole = float(loss(layer))
    less = copy.deepcopy(layer)
    result = []
    for t in range(layer.num_heads):
        with torch.no_grad():
            less.W_o.weight[:, t * width : (t + 1) * width] = 0
        result.append(float(loss(less)) - whole)
    return torch.tensor(result, dtype=layer.W_o.weight.dtype)

# %% wrong head_importance: what it puts back is a view of the weight that it has set to 0
def head_importance(layer, loss):
    width = layer.d_model // layer.num_heads
    whole = float(loss(layer))
    result = torch.zeros(layer.num_heads, dtype=layer.W_o.weight.dtype)
    for t in range(layer.num_heads):
        columns = slice(t * width, (t + 1) * width)
        saved = layer.W_o.weight.detach()[:, columns]
        with torch.no_grad():
            layer.W_o.weight[:, columns] = 0
            result[t] = float(loss(layer)) - whole
            layer.W_o.weight[:, columns] = saved
    return result

# %% right head_importance: a hook for each head in the layer itself, removed at once
def head_importance(layer, loss):
    width = layer.d_model // layer.num_heads
    whole = loss(layer)
    result = []
    for t in range(layer.num_heads):
        keep = torch.ones(layer.num_heads, dtype=torch.bool).index_fill(0, torch.tensor([t]), False)
        keep = keep.repeat_interleave(width)
        hook = layer.W_o.register_forward_pre_hook(lambda module, inputs: (inputs[0].masked_fill(~keep, 0),))
        try:
            without = loss(layer)
        finally:
            hook.remove()
        result.append(torch.as_tensor(without - whole, dtype=layer.W_o.weight.dtype))
    return torch.stack(result)

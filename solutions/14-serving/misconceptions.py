"""Wrong answers that people really give, each with a hint, and right ones that other mistakes are made from. Students
get this file only inside the archive.

A failed check is explained by the listed answer that behaves like the student's function. The course's tests verify
that every wrong answer here fails, that its own hint is shown, and that every right one passes.
"""

import math

import torch

from checking import families, misconception, right

TENSORS = {
    "a list instead of an array": "The result is a list. Drop `.tolist()` and return a tensor.",
    "result in float64": "Some step produces float64, such as a tensor made from NumPy or `.double()`. Return the "
    "dtype of the inputs.",
    "result always in float32": "The result is float32 for any input: a new tensor is float32 unless it gets a dtype. Use that "
    "of the inputs.",
    "axis squeezed away": "An axis of size 1 is missing: `squeeze` or an index removes it. One head, or one token, still has "
    "its axis.",
}
FAMILIES = [*TENSORS, "returns nothing", "an array instead of a tensor", "cut off from autograd"]


# by_hand: wrong

KEPT, REST, RATE, ENDS = [0.4], [0, 0.25, 0, 0.75], [0.6], [3, 0, 5, 3]


def by_hand(name, label, hint, kept=KEPT, rest=REST, rate=RATE, ends=ENDS):
    """List a wrong answer in which some of the numbers are wrong."""

    def answer():
        return [*kept, *rest, *rate, *ends]

    answer.__name__ = f"by_hand_{name}"
    return misconception("by_hand", label, hint)(answer)


by_hand_reversed = by_hand(
    "reversed",
    "draft's probability divided by the target's",
    "You divided q by p, which is 2.5 here, and above 1. Word 0 is kept with the probability p / q, or 1 if that is smaller.",
    kept=[2.5],
)
by_hand_always_kept = by_hand(
    "always_kept",
    "q / p limited to 1",
    "You divided q by p, which is above 1. The draft model draws word 0 too often, so it is not always kept: divide p by q.",
    kept=[1],
)
by_hand_target = by_hand(
    "target",
    "the target's probability of the word",
    "You gave the probability p of word 0. The draft model has drawn it already, and does so with the probability q: which "
    "part of these draws has to stay, so that p is left?",
    kept=[0.2],
)
by_hand_refused = by_hand(
    "refused",
    "probability of a refusal",
    "You gave the probability that word 0 is refused. The question is when it is kept.",
    kept=[0.6],
)
by_hand_difference = by_hand(
    "difference",
    "difference instead of the ratio",
    "You subtracted p from q. Word 0 is kept with the ratio of the two probabilities.",
    kept=[0.3],
)
by_hand_of_target = by_hand(
    "of_target",
    "refused word replaced from the target",
    "After a refusal you drew from p itself. Then words that the draft model likes would come too often: only what p has more "
    "than q is left to be drawn.",
    rest=[0.2, 0.4, 0.1, 0.3],
)
by_hand_without_the_word = by_hand(
    "without_the_word",
    "target without the refused word",
    "After the refusal you took p without word 0, divided by its sum. Subtract q from p instead, word by word.",
    rest=[0, 0.5, 0.125, 0.375],
)
by_hand_not_normed = by_hand(
    "not_normed",
    "residual not divided by its sum",
    "The four probabilities sum to 0.4. Divide them by their sum.",
    rest=[0, 0.1, 0, 0.3],
)
by_hand_not_cut = by_hand(
    "not_cut",
    "negative differences kept",
    "You kept p − q where it is negative. Such words get 0: the draft model draws them often enough.",
    rest=[-0.3, 0.1, -0.1, 0.3],
)
by_hand_absolute = by_hand(
    "absolute",
    "absolute differences",
    "You took the absolute values of p − q. Negative differences become 0.",
    rest=[0.375, 0.125, 0.125, 0.375],
)
by_hand_of_draft = by_hand(
    "of_draft",
    "q − p instead of p − q",
    "You took what the draft model has more than the target. The words that it draws too rarely are the ones to add: "
    "subtract q from p.",
    rest=[0.75, 0, 0.25, 0],
)
by_hand_uniform = by_hand(
    "uniform",
    "residual shared evenly",
    "Words 1 and 3 get the same in your answer. Each gets its own difference p − q, divided by the sum of both.",
    rest=[0, 0.5, 0, 0.5],
)
by_hand_rate_refused = by_hand(
    "rate_refused",
    "rate of refusals instead of acceptance",
    "0.4 is the probability that a word is refused. The acceptance rate is the rest.",
    rate=[0.4],
)
by_hand_rate_products = by_hand(
    "rate_products",
    "probability that both draw the same",
    "You summed p times q, the probability that two independent draws are the same word. Sum the smaller one of p and q.",
    rate=[0.24],
)
by_hand_rate_mean = by_hand(
    "rate_mean",
    "mean of the ratios",
    "You took the mean of the four probabilities of being kept. Words are drawn with q, so weigh them with q.",
    rate=[0.475],
)
by_hand_rate_largest = by_hand(
    "rate_largest",
    "sum of the larger probabilities",
    "You summed the larger one of p and q, which is above 1. Sum the smaller one.",
    rate=[1.4],
)
by_hand_static = by_hand(
    "static",
    "batch waits until all end",
    "Your requests 2 and 3 begin only after request 0 has ended. With continuous batching, request 3 takes the slot of "
    "request 1 in step 1.",
    ends=[3, 0, 5, 6],
)
by_hand_by_number = by_hand(
    "by_number",
    "order of numbers, arrivals ignored",
    "You let the requests begin in the order of their numbers. Request 3 arrives before request 2, and begins first.",
    ends=[3, 0, 2, 5],
)
by_hand_by_number_waiting = by_hand(
    "by_number_waiting",
    "order of numbers",
    "You let request 2 take the free slot, though request 3 arrived before it.",
    ends=[3, 0, 3, 6],
)
by_hand_late = by_hand(
    "late",
    "slot free one step late",
    "You left a slot empty for one step after each request. A slot whose request ends in step 0 is free in step 1.",
    ends=[3, 0, 6, 4],
)
by_hand_early = by_hand(
    "early",
    "slot free one step early",
    "You let request 2 begin in step 3, in which request 0 still runs. Its slot is free in step 4.",
    ends=[3, 0, 4, 3],
)
by_hand_after = by_hand(
    "after",
    "step after the last one",
    "You gave the step after the last one of each request. Request 1 runs in step 0 alone, so it ends in step 0.",
    ends=[4, 1, 6, 4],
)
by_hand_begins = by_hand(
    "begins",
    "first step instead of the last",
    "You gave the steps in which the requests begin. In which step does each end?",
    ends=[0, 0, 4, 1],
)
by_hand_unlimited = by_hand(
    "unlimited",
    "number of slots ignored",
    "You let three requests run in step 2. There are 2 slots, so request 2 waits.",
    ends=[3, 0, 3, 3],
)
by_hand_from_arrival = by_hand(
    "from_arrival",
    "steps counted from the arrival",
    "You counted the steps from a request's arrival to its end. The question is for the number of the step.",
    ends=[3, 0, 3, 2],
)


# paged_attention: right, in steps that a mistake can take the place of


def token_places(s, length, table, P, num_pages):
    """Return the pages and the rows of the tokens of one sequence."""
    t = torch.arange(length)
    return table[s].long()[t // P], t % P


def own_heads(h, h_kv):
    """Return the key head of each query head."""
    if h % h_kv:
        raise ValueError("the heads do not fit")
    return torch.arange(h) // (h // h_kv)


def scaled(S, d_k, **sizes):
    return S / math.sqrt(d_k)


def softmax(S):
    """Return the weights of scores (h, n)."""
    return S.softmax(-1)


def count_of(length, P, columns):
    """Return how many tokens are read."""
    if length > P * columns:
        raise ValueError("the table is too short")
    return length


def paged_in_steps(
    q, K_pages, V_pages, table, lengths,
    places=token_places, heads=own_heads, value_heads=None, scale=scaled, weigh=softmax, count=count_of, empty=None,
    value_places=None,
):  # fmt: skip
    h, d_k, (num_pages, P, h_kv, width) = q.shape[1], q.shape[2], K_pages.shape
    if width != d_k:
        raise ValueError("the widths differ")
    which = heads(h, h_kv)
    value_which = value_heads(h, h_kv) if value_heads else which
    rows = []
    for s in range(len(q)):
        length = count(int(lengths[s]), P, table.shape[1])
        if not int(lengths[s]) and empty is not None:
            rows.append(empty(q[s], V_pages))
            continue
        at = places(s, length, table, P, num_pages)
        value_at = value_places(s, length, table, P, num_pages) if value_places else at
        K, V = K_pages[at][:, which], V_pages[value_at][:, value_which]  # (n, h, d)
        S = torch.einsum("hd,nhd->hn", q[s], K)
        S = scale(S, d_k=d_k, P=P, d_v=V.shape[-1], n=max(length, 1), h=h, h_kv=h_kv)
        rows.append(torch.einsum("hn,nhd->hd", weigh(S), V))
    return torch.stack(rows)


@families(*FAMILIES, hints=TENSORS)
@right("paged_attention")
def paged_attention_in_steps(q, K_pages, V_pages, table, lengths):
    return paged_in_steps(q, K_pages, V_pages, table, lengths)


def paged(name, label, hint, **steps):
    """List a wrong answer in which some steps are others."""

    def answer(q, K_pages, V_pages, table, lengths):
        return paged_in_steps(q, K_pages, V_pages, table, lengths, **steps)

    answer.__name__ = f"paged_attention_{name}"
    return misconception("paged_attention", label, hint)(answer)


def of_places(name, label, hint, find):
    """List a wrong answer that looks for tokens in other places: `find` gets t, the table's row, P and all of table."""

    def places(s, length, table, P, num_pages):
        pages, rows = find(torch.arange(length), s, table.long(), P)
        return pages % num_pages, rows % P

    return paged(name, label, hint, places=places)


paged_attention_in_order = of_places(
    "in_order",
    "table ignored, pages in order",
    "Token t is looked for on page t // P of the pool: the table is not used. It says where a sequence's pages are.",
    lambda t, s, table, P: (t // P, t % P),
)
paged_attention_after_another = of_places(
    "after_another",
    "pages of one sequence behind another's",
    "Sequence s is looked for on pages s · max_pages and those after it, as if each had a fixed part of the pool. The table "
    "says where the pages are.",
    lambda t, s, table, P: (s * table.shape[1] + t // P, t % P),
)
paged_attention_first_table = of_places(
    "first_table",
    "first row of the table for all",
    "All sequences read the pages of sequence 0. Sequence s has its own row of the table.",
    lambda t, s, table, P: (table[0][t // P], t % P),
)
paged_attention_exchanged = of_places(
    "exchanged",
    "t // P and t % P exchanged",
    "The page is found with t % P, and the row in it with t // P. A page has P tokens that follow one another: which of the "
    "two is the same for all of them?",
    lambda t, s, table, P: (table[s][(t % P) % table.shape[1]], t // P),
)
paged_attention_first_page = of_places(
    "first_page",
    "only the first page read",
    "All tokens are looked for on the sequence's first page. Each P tokens have a page of their own.",
    lambda t, s, table, P: (table[s][0 * t], t % P),
)
paged_attention_consecutive = of_places(
    "consecutive",
    "first page, then its neighbors",
    "The first page is that of the table, and the ones after it are its neighbors in the pool. Each page has its own entry in "
    "the table.",
    lambda t, s, table, P: (table[s][0] + t // P, t % P),
)
paged_attention_shifted = of_places(
    "shifted",
    "places counted from 1",
    "The place of token t is found with t + 1. Tokens are counted from 0.",
    lambda t, s, table, P: (table[s][((t + 1) // P).clamp(max=table.shape[1] - 1)], (t + 1) % P),
)
paged_attention_next_row = of_places(
    "next_row",
    "next sequence's row of the table",
    "Sequence s reads the row of the sequence after it. Use row s of the table.",
    lambda t, s, table, P: (table[(s + 1) % len(table)][t // P], t % P),
)
paged_attention_page_not_multiplied = of_places(
    "page_not_multiplied",
    "page number not multiplied by P",
    "The place in the flat pool is page + row. A page begins after P rows for each page before it.",
    lambda t, s, table, P: ((table[s][t // P] + t % P) // P, (table[s][t // P] + t % P) % P),
)
paged_attention_rows_as_pages = of_places(
    "rows_as_pages",
    "table has an entry for each token",
    "`table[s, t]` is read for token t. The table has one entry for each P tokens.",
    lambda t, s, table, P: (table[s][t % table.shape[1]], t % P),
)
paged_attention_repeated_row = of_places(
    "repeated_row",
    "first row of each page repeated",
    "The row in the page is always 0, so one token of each page is read P times. Token t is in row t % P.",
    lambda t, s, table, P: (table[s][t // P], 0 * t),
)
paged_attention_values_in_order = paged(
    "values_in_order",
    "values read in the pool's order",
    "The keys are found with the table, but the values without it. A token's key and value have the same place.",
    value_places=lambda s, length, table, P, num_pages: (
        torch.arange(length) // P % num_pages,
        torch.arange(length) % P,
    ),
)


# paged_attention, wrong: which tokens


paged_attention_one_more = paged(
    "one_more",
    "one token too many",
    "Each query sees one row after its last token: `<=` in the comparison with the length, or + 1. With a length of n, the "
    "tokens are 0 to n − 1.",
    count=lambda length, P, columns: min(length + 1, P * columns) if length else 0,
)
paged_attention_one_less = paged(
    "one_less",
    "last token missing",
    "Each query misses the last token of its sequence. With a length of n, the tokens are 0 to n − 1.",
    count=lambda length, P, columns: max(length - 1, min(length, 1)),
)
paged_attention_whole_pages = paged(
    "whole_pages",
    "whole last page",
    "All rows of the last page are used, also those beyond the length. Cut the tokens off at the length.",
    count=lambda length, P, columns: -(-length // P) * P,
)
paged_attention_full_pages = paged(
    "full_pages",
    "last page left out unless full",
    "`length // P` pages are read, which leaves out the tokens on the last page if it is not full. Round up.",
    count=lambda length, P, columns: length // P * P,
)
paged_attention_a_page_more = paged(
    "a_page_more",
    "a page too many",
    "`length // P + 1` pages are used to their ends. If the last page is full, that is one page too many, and otherwise its "
    "rows beyond the length are used.",
    count=lambda length, P, columns: min(length // P + 1, columns) * P,
)
paged_attention_all_pages = paged(
    "all_pages",
    "lengths ignored",
    "All entries of the table are used to the end of their pages, so each query sees rows that belong to no token of its "
    "sequence. Use the lengths.",
    count=lambda length, P, columns: P * columns,
)
paged_attention_longest = misconception(
    "paged_attention",
    "longest length for all",
    "All sequences have the length of the longest one. Each has its own.",
)(
    lambda q, K_pages, V_pages, table, lengths: paged_in_steps(
        q, K_pages, V_pages, table, lengths.max().expand(len(lengths))
    )
)
paged_attention_longest.__name__ = "paged_attention_longest"
paged_attention_first_length = misconception(
    "paged_attention",
    "first length for all",
    "All sequences have the length of sequence 0. Each has its own.",
)(
    lambda q, K_pages, V_pages, table, lengths: paged_in_steps(
        q, K_pages, V_pages, table, lengths[:1].expand(len(lengths))
    )
)
paged_attention_first_length.__name__ = "paged_attention_first_length"


@misconception(
    "paged_attention",
    "as many columns as the longest needs",
    "The number of tokens that are read is rounded down to whole pages for the longest sequence, so the last page of the "
    "longest one is cut off.",
)
def paged_attention_columns(q, K_pages, V_pages, table, lengths):
    P = K_pages.shape[1]
    most = max(int(lengths.max()) // P, 1) * P
    return paged_in_steps(
        q, K_pages, V_pages, table, lengths, count=lambda length, P, columns: min(length, most)
    )


# paged_attention, wrong: all sequences at once, with a mask


def at_once(q, K_pages, V_pages, table, lengths, seen=None, clean=True, weigh=None):
    """Return the result of one computation for all sequences, with a mask: right, with the default steps."""
    (b, h, d_k), (num_pages, P, h_kv, width) = q.shape, K_pages.shape
    if width != d_k or h % h_kv or lengths.max() > P * table.shape[1]:
        raise ValueError("sizes do not match")
    pages = table.long() % num_pages
    K, V = K_pages[pages].flatten(1, 2), V_pages[pages].flatten(1, 2)
    mask = torch.arange(K.shape[1]) < lengths[:, None]
    mask = mask if seen is None else seen(mask, K, table, P)
    if clean:
        V = V.masked_fill(~mask[..., None, None], 0)
    K, V = (part.repeat_interleave(h // h_kv, 2) for part in (K, V))
    S = torch.einsum("bhd,bnhd->bhn", q, K) / math.sqrt(d_k)
    mask = mask[:, None].expand_as(S)
    if weigh:
        A = weigh(S, mask)
    else:
        A = S.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num()
    return torch.einsum("bhn,bnhd->bhd", A, V)


def masked(name, label, hint, **steps):
    """List a wrong answer that computes all sequences at once."""

    def answer(q, K_pages, V_pages, table, lengths):
        return at_once(q, K_pages, V_pages, table, lengths, **steps)

    answer.__name__ = f"paged_attention_{name}"
    return misconception("paged_attention", label, hint)(answer)


paged_attention_nan_values = masked(
    "nan_values",
    "weight 0 times NaN",
    "The scores of rows beyond a length are masked, but their values are still multiplied by the weight 0. If such a value is "
    "NaN, so is the product: leave these rows out, or set their values to 0.",
    clean=False,
    weigh=lambda S, mask: (
        S.masked_fill(~mask, torch.finfo(S.dtype).min).softmax(-1).where(mask, torch.zeros_like(S))
    ),
)
paged_attention_nan_scores = masked(
    "nan_scores",
    "NaN scores times the mask",
    "Weights beyond a length are multiplied by 0 after the softmax, but if the score there is NaN, the whole row of weights is "
    "NaN. Replace the score itself.",
    weigh=lambda S, mask: (lambda E: E / E.sum(-1, keepdim=True).clamp(min=1e-30))(
        (S - S.detach().nan_to_num().amax(-1, keepdim=True)).exp() * mask
    ),
)
paged_attention_added_mask = masked(
    "added_mask",
    "mask added to NaN",
    "−1e9 is added to the scores beyond a length, and NaN plus any number is still NaN. Replace the score.",
    weigh=lambda S, mask: (S + torch.where(mask, 0.0, -1e9).to(S)).softmax(-1) * mask,
)
paged_attention_masked_after = masked(
    "masked_after",
    "weights set to 0 after the softmax",
    "Rows beyond a length are removed after the softmax, but they were in its denominator, so the weights of a query no longer "
    "sum to 1. Mask the scores.",
    weigh=lambda S, mask: S.nan_to_num().softmax(-1) * mask,
)
paged_attention_masked_with_0 = masked(
    "masked_with_0",
    "masked scores set to 0",
    "Scores beyond a length are set to 0, which is a score like any other. They need −inf, so that the weight is 0.",
    weigh=lambda S, mask: S.masked_fill(~mask, 0).softmax(-1),
)
paged_attention_mask_reversed = masked(
    "mask_reversed",
    "mask the wrong way round",
    "The tokens of the sequence are masked, and the rows beyond its length are seen.",
    seen=lambda mask, K, table, P: ~mask,
)
paged_attention_not_nan = masked(
    "not_nan",
    "mask where rows are NaN",
    "Rows are left out if they are NaN, and the lengths are not used. Most rows beyond a length contain old numbers.",
    seen=lambda mask, K, table, P: ~K.isnan().flatten(2).any(-1),
)
paged_attention_used_entries = masked(
    "used_entries",
    "mask where the table is −1",
    "Pages are left out if the table is −1, and the lengths are not used. The last page also has rows beyond the length, and "
    "the entries after it may be other pages.",
    seen=lambda mask, K, table, P: (table >= 0).repeat_interleave(P, 1),
)


@misconception(
    "paged_attention",
    "NaN replaced instead of masked",
    "NaN becomes 0, and the rows beyond a length are then seen with a key of 0. The lengths say which rows count.",
)
def paged_attention_nan_replaced(q, K_pages, V_pages, table, lengths):
    P = K_pages.shape[1]
    return paged_in_steps(
        q, K_pages.nan_to_num(), V_pages.nan_to_num(), table, lengths,
        count=lambda length, P, columns: -(-length // P) * P if K_pages.isnan().any() else length,
    ) + 0 * P  # fmt: skip


# paged_attention, wrong: length 0


def empty_as(name, label, hint, empty):
    return paged(name, label, hint, empty=empty)


def refuse_empty(q, V_pages):
    raise ValueError("a sequence has no tokens")


paged_attention_empty_nan = empty_as(
    "empty_nan",
    "NaN for a sequence without tokens",
    "A sequence of length 0 gets NaN: its weights are 0 divided by 0, the softmax of nothing but −inf. It gets zeros.",
    lambda q, V_pages: torch.full((len(q), V_pages.shape[-1]), torch.nan, dtype=q.dtype),
)
paged_attention_empty_mean = empty_as(
    "empty_mean",
    "mean of a page for no tokens",
    "A sequence of length 0 gets the mean of values that it does not have: all of its scores are the same very low number, and "
    "the softmax makes equal weights of them. It gets zeros.",
    lambda q, V_pages: V_pages[-1].mean((0, 1)).nan_to_num(7.0).expand(len(q), -1),
)
paged_attention_empty_refused = empty_as(
    "empty_refused",
    "error for a sequence without tokens",
    "The function raises an error if a length is 0. Such a sequence gets zeros.",
    refuse_empty,
)
paged_attention_empty_query = empty_as(
    "empty_query",
    "ones for a sequence without tokens",
    "A sequence of length 0 gets ones. It gets zeros, as if it saw a value of 0.",
    lambda q, V_pages: torch.ones(len(q), V_pages.shape[-1], dtype=q.dtype),
)


@misconception(
    "paged_attention",
    "row left out for no tokens",
    "Sequences of length 0 have no row in the result, which is shorter than b. They get a row of zeros.",
)
def paged_attention_empty_left_out(q, K_pages, V_pages, table, lengths):
    result = paged_in_steps(q, K_pages, V_pages, table, lengths)
    return result[lengths > 0]


@misconception(
    "paged_attention",
    "at least one token for each",
    "Lengths are at least 1 in the code, so a sequence of length 0 gets the value of a row that is not its own.",
)
def paged_attention_at_least_one(q, K_pages, V_pages, table, lengths):
    return paged_in_steps(
        q,
        K_pages,
        V_pages,
        table % len(K_pages),
        lengths,
        count=lambda n, P, columns: max(count_of(n, P, columns), 1),
    )


# Attention, wrong: heads, scale, softmax; for both functions

HEADS = {
    "tiled": (
        "key heads in turn",
        "Query head i uses key head i % h_kv: the key heads are repeated as a whole, as `repeat` does it. Neighboring query "
        "heads share a key head.",
        lambda h, h_kv: torch.arange(h) % h_kv,
    ),
    "one_head": (
        "first key head for all",
        "All query heads use the first key head. Head i uses key head i // (h / h_kv).",
        lambda h, h_kv: torch.zeros(h, dtype=torch.long),
    ),
    "backwards": (
        "key heads from the last to the first",
        "The key heads are used in the reverse order. Query head 0 uses key head 0.",
        lambda h, h_kv: h_kv - 1 - torch.arange(h) // (h // h_kv),
    ),
    "divided_by_h_kv": (
        "divided by h_kv, not by h / h_kv",
        "Query head i uses key head i // h_kv. As many query heads share a key head as h / h_kv says.",
        lambda h, h_kv: (torch.arange(h) // h_kv).clamp(max=h_kv - 1),
    ),
}
SCALES = {
    "no_scale": (
        "scale missing",
        "The scores are not divided by √d_k.",
        lambda S, **sizes: S,
    ),
    "scaled_by_d_k": (
        "divided by d_k instead of its root",
        "The scores are divided by d_k. Divide by its square root.",
        lambda S, d_k, **sizes: S / d_k,
    ),
    "scaled_by_d_v": (
        "scaled by the width of the values",
        "The scores are divided by √d_v. They are sums of d_k products, so d_k counts.",
        lambda S, d_v, **sizes: S / math.sqrt(d_v),
    ),
    "scaled_by_n": (
        "scaled by the number of tokens",
        "The scores are divided by the root of the number of tokens. They are sums of d_k products, so d_k counts.",
        lambda S, n, **sizes: S / math.sqrt(n),
    ),
    "multiplied": (
        "multiplied by the root",
        "The scores are multiplied by √d_k. Divide by it.",
        lambda S, d_k, **sizes: S * math.sqrt(d_k),
    ),
    "scaled_twice": (
        "scaled twice",
        "The scores are divided by √d_k twice, for example once in the queries. PyTorch's attention also divides.",
        lambda S, d_k, **sizes: S / math.sqrt(d_k) / math.sqrt(d_k),
    ),
    "scaled_by_all_heads": (
        "scaled by the width of all heads",
        "The scores are divided by √(h · d_k). The width that counts is that of one head, d_k.",
        lambda S, d_k, h, **sizes: S / math.sqrt(h * d_k),
    ),
}

for _name, (_label, _hint, _heads) in HEADS.items():
    globals()[f"paged_attention_{_name}"] = paged(_name, _label, _hint, heads=_heads)
for _name, (_label, _hint, _scale) in SCALES.items():
    globals()[f"paged_attention_{_name}"] = paged(_name, _label, _hint, scale=_scale)

paged_attention_scaled_by_page = paged(
    "scaled_by_page",
    "scaled by the page size",
    "The scores are divided by √P, the size taken from another axis of the pages. Divide by √d_k.",
    scale=lambda S, P, **sizes: S / math.sqrt(P),
)
paged_attention_values_tiled = paged(
    "values_tiled",
    "values in turn, keys repeated",
    "Keys are repeated one by one, but values as a whole, so a query head takes the values of another key head.",
    value_heads=lambda h, h_kv: torch.arange(h) % h_kv,
)
paged_attention_no_softmax = paged(
    "no_softmax",
    "scores used as weights",
    "The scores themselves are the weights. The softmax is missing.",
    weigh=lambda S: S,
)
paged_attention_not_normed = paged(
    "not_normed",
    "weights not divided by their sum",
    "The weights are exponentials of the scores, and do not sum to 1. Divide by their sum over all tokens.",
    weigh=lambda S: S.exp(),
)
paged_attention_over_heads = paged(
    "over_heads",
    "softmax over the heads",
    "The softmax runs over the heads. It runs over the tokens of the sequence.",
    weigh=lambda S: S.softmax(0),
)


@misconception(
    "paged_attention",
    "softmax page by page",
    "Each page has a softmax of its own, and the mean of the pages' results is returned. One softmax runs over the tokens of "
    "all pages of a sequence.",
)
def paged_attention_page_means(q, K_pages, V_pages, table, lengths):
    P = K_pages.shape[1]

    def weigh(S):
        parts = [part.softmax(-1) for part in S.split(P, -1)]
        return torch.cat(parts, -1) / len(parts)

    return paged_in_steps(q, K_pages, V_pages, table, lengths, weigh=weigh)


@misconception(
    "paged_attention",
    "results of pages added up",
    "Each page has a softmax of its own, and the pages' results are added. One softmax runs over the tokens of all pages of a "
    "sequence.",
)
def paged_attention_page_sums(q, K_pages, V_pages, table, lengths):
    P = K_pages.shape[1]
    return paged_in_steps(
        q, K_pages, V_pages, table, lengths,
        weigh=lambda S: torch.cat([part.softmax(-1) for part in S.split(P, -1)], -1),
    )  # fmt: skip


@misconception(
    "paged_attention",
    "partial sums not rescaled",
    "The pages' sums are added though each is relative to its own page's largest score. When a new largest score is found, "
    "rescale the sums so far (chapter 10).",
)
def paged_attention_not_rescaled(q, K_pages, V_pages, table, lengths):
    P = K_pages.shape[1]

    def weigh(S):
        E = torch.cat([(part - part.amax(-1, keepdim=True)).exp() for part in S.split(P, -1)], -1)
        return E / E.sum(-1, keepdim=True)

    return paged_in_steps(
        q, K_pages, V_pages, table, lengths, weigh=lambda S: weigh(S) if S.numel() else S
    )


@misconception(
    "paged_attention",
    "keys used as values",
    "The weighted sum is one of keys. It is one of values, whose width is d_v.",
)
def paged_attention_keys_twice(q, K_pages, V_pages, table, lengths):
    return paged_in_steps(q, K_pages, K_pages, table, lengths) + 0 * V_pages.sum()


@misconception(
    "paged_attention",
    "heads put next to each other",
    "The heads' results are flattened to (b, h · d_v). They keep their axis: (b, h, d_v).",
)
def paged_attention_flattened(q, K_pages, V_pages, table, lengths):
    return paged_in_steps(q, K_pages, V_pages, table, lengths).flatten(1)


@misconception(
    "paged_attention",
    "axis of one query left",
    "The result has an axis of size 1 for the query, (b, h, 1, d_v). There is one query for each sequence, and no axis for it.",
)
def paged_attention_query_axis(q, K_pages, V_pages, table, lengths):
    return paged_in_steps(q, K_pages, V_pages, table, lengths)[:, :, None]


@misconception(
    "paged_attention",
    "heads before sequences",
    "The result is (h, b, d_v). The sequences are the first axis.",
)
def paged_attention_heads_first(q, K_pages, V_pages, table, lengths):
    return paged_in_steps(q, K_pages, V_pages, table, lengths).transpose(0, 1)


@misconception(
    "paged_attention",
    "rows and key heads mixed by reshape",
    "The pages (pages, P, h_kv, d_k) are reshaped to (h_kv, tokens, d_k) directly, which mixes tokens and heads. Exchange the "
    "two axes.",
)
def paged_attention_reshaped(q, K_pages, V_pages, table, lengths):
    def mixed(pool):
        pages, P, h_kv, d = pool.shape
        return pool.reshape(pages, h_kv, P, d).transpose(1, 2)

    return paged_in_steps(q, mixed(K_pages), mixed(V_pages), table, lengths)


@misconception(
    "paged_attention",
    "each page for one sequence only",
    "Each page belongs to the last sequence whose row of the table names it. Pages may be shared: look up each sequence's own "
    "row.",
)
def paged_attention_owners(q, K_pages, V_pages, table, lengths):
    P, owner = K_pages.shape[1], {}
    needed = [-(-int(length) // P) for length in lengths]
    for s, count in enumerate(needed):
        owner |= dict.fromkeys(table[s, :count].tolist(), s)
    seen = torch.zeros(len(q), len(K_pages), P, dtype=torch.bool)
    for s, count in enumerate(needed):
        for j, page in enumerate(table[s, :count].tolist()):
            seen[s, page, : int(lengths[s]) - j * P] = owner[page] == s
    rows = []
    count_of(int(lengths.max()), P, table.shape[1])
    which = own_heads(q.shape[1], K_pages.shape[2])
    for own, mask in zip(q, seen, strict=True):
        K, V = K_pages[mask][:, which], V_pages[mask][:, which]
        S = torch.einsum("hd,nhd->hn", own, K) / math.sqrt(q.shape[-1])
        rows.append(torch.einsum("hn,nhd->hd", S.softmax(-1), V))
    return torch.stack(rows)


@misconception(
    "paged_attention",
    "int64 needed for the table",
    "The function works only with a table of int64: `gather` and some other functions of PyTorch refuse int32. Convert with "
    "`.long()` where you need it.",
)
def paged_attention_int64(q, K_pages, V_pages, table, lengths):
    torch.zeros(1).gather(0, table.flatten()[:1] * 0)
    return paged_in_steps(q, K_pages, V_pages, table, lengths)


@misconception(
    "paged_attention",
    "table changed in place",
    "−1 in the table is replaced in place, so the caller's table is another one afterwards. Work on a copy.",
)
def paged_attention_table_changed(q, K_pages, V_pages, table, lengths):
    table[table < 0] = 0
    return paged_in_steps(q, K_pages, V_pages, table, lengths)


@misconception(
    "paged_attention",
    "pages cleaned in place",
    "NaN in the pages is replaced in place, so the caller's cache changes. Make a new tensor.",
)
def paged_attention_pages_changed(q, K_pages, V_pages, table, lengths):
    result = paged_in_steps(q, K_pages, V_pages, table, lengths)
    for pool in (K_pages, V_pages):
        pool.data[pool.isnan()] = 0
    return result


@misconception(
    "paged_attention",
    "queries scaled in place",
    "`q /= ...` changes the caller's queries. Make a new tensor.",
)
def paged_attention_queries_changed(q, K_pages, V_pages, table, lengths):
    result = paged_in_steps(q, K_pages, V_pages, table, lengths)
    q.data /= math.sqrt(q.shape[-1])
    return result


@misconception(
    "paged_attention",
    "weights detached",
    "The attention weights are cut off from autograd, so no gradient reaches queries and keys.",
)
def paged_attention_weights_detached(q, K_pages, V_pages, table, lengths):
    weigh = lambda S: S.softmax(-1).detach() + 0 * S  # noqa: E731
    return paged_in_steps(q, K_pages, V_pages, table, lengths, weigh=weigh)


@misconception(
    "paged_attention",
    "query head left without a key head",
    "h is not a multiple of h_kv, and the heads are shared out all the same. Advice: raise `ValueError`.",
)
def paged_attention_heads_left(q, K_pages, V_pages, table, lengths):
    def heads(h, h_kv):
        return (torch.arange(h) // max(h // h_kv, 1)).clamp(max=h_kv - 1)

    return paged_in_steps(q, K_pages, V_pages, table, lengths, heads=heads)


@misconception(
    "paged_attention",
    "tokens beyond the table left out",
    "A length is beyond the room of the table, and the tokens that have no page are left out. Advice: raise `ValueError`.",
)
def paged_attention_cut(q, K_pages, V_pages, table, lengths):
    return paged_in_steps(
        q, K_pages, V_pages, table, lengths, count=lambda n, P, columns: min(n, P * columns)
    )


@misconception(
    "paged_attention",
    "keys of one number stretched",
    "Keys of width 1 are stretched to the width of the queries, and nothing reports the mistake. Advice: compare the sizes.",
)
def paged_attention_stretched(q, K_pages, V_pages, table, lengths):
    return paged_in_steps(
        q, K_pages.expand(*K_pages.shape[:3], q.shape[-1]), V_pages, table, lengths
    )


# packed_attention: right, in steps


def numbers_of(lengths, n):
    """Return the number of each token's sequence."""
    if sum(lengths) != n:
        raise ValueError("the lengths do not fit")
    return torch.tensor([j for j, length in enumerate(lengths) for _ in range(length)])


def block_and_causal(number, i, j):
    return (number[:, None] == number) & (j <= i)


def packed_in_steps(
    Q, K, V, lengths,
    number=numbers_of, mask=block_and_causal, heads=own_heads, value_heads=None, scale=scaled, weigh=None,
):  # fmt: skip
    (n, h, d_k), h_kv = Q.shape, K.shape[1]
    which = heads(h, h_kv)
    value_which = value_heads(h, h_kv) if value_heads else which
    places = torch.arange(n)
    seen = mask(number(lengths, n), places[:, None], places)
    S = torch.einsum("ihd,jhd->hij", Q, K[:, which])
    S = scale(S, d_k=d_k, d_v=V.shape[-1], n=n, h=h, h_kv=h_kv)
    A = weigh(S, seen) if weigh else S.masked_fill(~seen, -torch.inf).softmax(-1)
    return torch.einsum("hij,jhd->ihd", A, V[:, value_which])


@families(*FAMILIES, hints=TENSORS)
@right("packed_attention")
def packed_attention_in_steps(Q, K, V, lengths):
    return packed_in_steps(Q, K, V, lengths)


def packed(name, label, hint, **steps):
    """List a wrong answer in which some steps are others."""

    def answer(Q, K, V, lengths):
        return packed_in_steps(Q, K, V, lengths, **steps)

    answer.__name__ = f"packed_attention_{name}"
    return misconception("packed_attention", label, hint)(answer)


for _name, (_label, _hint, _heads) in HEADS.items():
    globals()[f"packed_attention_{_name}"] = packed(_name, _label, _hint, heads=_heads)
for _name, (_label, _hint, _scale) in SCALES.items():
    globals()[f"packed_attention_{_name}"] = packed(_name, _label, _hint, scale=_scale)

packed_attention_one_text = packed(
    "one_text",
    "all tokens as one sequence",
    "The mask is causal only, from the beginning of the row, so a token sees the sequences before its own. Each sequence is by "
    "itself.",
    mask=lambda number, i, j: j <= i,
)
packed_attention_not_causal = packed(
    "not_causal",
    "causal mask missing",
    "Within its sequence, a token sees the later tokens. The attention is causal.",
    mask=lambda number, i, j: number[:, None] == number,
)
packed_attention_everything = packed(
    "everything",
    "no mask at all",
    "Each token sees all tokens of all sequences. It sees those of its own sequence, up to itself.",
    mask=lambda number, i, j: (i + j) >= 0,
)
packed_attention_reversed = packed(
    "reversed",
    "causal mask the wrong way round",
    "Tokens see themselves and the later ones. They see themselves and the earlier ones.",
    mask=lambda number, i, j: (number[:, None] == number) & (j >= i),
)
packed_attention_other_sequences = packed(
    "other_sequences",
    "only other sequences seen",
    "Tokens see earlier tokens of other sequences, and in their own only themselves: the comparison of the sequences is the "
    "wrong way round.",
    mask=lambda number, i, j: ((number[:, None] != number) & (j < i)) | (i == j),
)
packed_attention_not_itself = packed(
    "not_itself",
    "token does not see itself",
    "A token sees only those before it, and the first one of a sequence nothing. It also sees itself.",
    weigh=lambda S, seen: (
        S.masked_fill(~seen | torch.eye(S.shape[-1], dtype=torch.bool), -torch.inf)
        .softmax(-1)
        .nan_to_num()
    ),
)
packed_attention_itself_alone = packed(
    "itself_alone",
    "each token sees itself alone",
    "Each token sees only itself, so the result is V. It also sees the tokens before it in its sequence.",
    mask=lambda number, i, j: i == j,
)
packed_attention_equal_lengths = packed(
    "equal_lengths",
    "sequences of equal length",
    "The row is cut into parts of equal length. Sequence j has `lengths[j]` tokens.",
    number=lambda lengths, n: torch.arange(n) // -(-n // max(len(lengths), 1)),
)
packed_attention_length_as_number = packed(
    "length_as_number",
    "sequences named by their length",
    "The length of a token's sequence decides who sees whom, so sequences of equal length see one another. Give each "
    "sequence its own number.",
    number=lambda lengths, n: torch.tensor([m for m in lengths for _ in range(m)]),
)
packed_attention_lengths_as_starts = packed(
    "lengths_as_starts",
    "lengths used as beginnings",
    "A sequence begins at the place `lengths[j]`. It begins after the lengths of all sequences before it: sum them up.",
    number=lambda lengths, n: (torch.arange(n)[:, None] >= torch.tensor(lengths)).sum(-1),
)
packed_attention_ends_inclusive = packed(
    "ends_inclusive",
    "first token counted to the one before",
    "The first token of a sequence is counted as the last one of the sequence before it. A sequence that begins at b and has n "
    "tokens ends before b + n: compare with < there, or look for the place on the other side.",
    number=lambda lengths, n: torch.searchsorted(torch.tensor(lengths).cumsum(0), torch.arange(n)),
)
packed_attention_ends_early = packed(
    "ends_early",
    "last token counted to the next",
    "The last token of a sequence is counted as the first one of the next. A sequence that begins at b has the tokens b to "
    "b + n − 1.",
    number=lambda lengths, n: torch.searchsorted(
        torch.tensor(lengths).cumsum(0), torch.arange(n) + 1, right=True
    ),
)
packed_attention_two_sequences = packed(
    "two_sequences",
    "only the first sequence separated",
    "The first sequence is by itself, and all others are one. Each sequence is by itself.",
    number=lambda lengths, n: torch.arange(n) >= lengths[0],
)
packed_attention_sorted = packed(
    "sorted",
    "lengths sorted",
    "The lengths are sorted before the row is cut. The sequences are in the order of the list.",
    number=lambda lengths, n: numbers_of(sorted(lengths), n),
)
packed_attention_backwards_lengths = packed(
    "backwards_lengths",
    "lengths from the last to the first",
    "The row is cut with the lengths in reverse order. The first sequence has `lengths[0]` tokens.",
    number=lambda lengths, n: numbers_of(lengths[::-1], n),
)
packed_attention_place_in_sequence = packed(
    "place_in_sequence",
    "places compared, not sequences",
    "A token sees all tokens whose place in their own sequence is not after its own, in any sequence. Compare the sequences as "
    "well.",
    number=lambda lengths, n: torch.tensor([i for m in lengths for i in range(m)]),
    mask=lambda place, i, j: place[:, None] >= place,
)
packed_attention_sequence_before = packed(
    "sequence_before",
    "sequences before it seen as a whole",
    "A token sees its own sequence and those before it: `>=` compares the numbers of sequences. Only its own counts.",
    mask=lambda number, i, j: number[:, None] >= number,
)
packed_attention_neighbor = packed(
    "neighbor",
    "sequence just before it seen",
    "A token also sees the sequence just before its own: a block of the mask begins too early.",
    mask=lambda number, i, j: ((number[:, None] - number) <= 1) & (j <= i),
)
packed_attention_no_softmax = packed(
    "no_softmax",
    "scores used as weights",
    "The scores themselves are the weights. The softmax is missing.",
    weigh=lambda S, seen: S * seen,
)
packed_attention_over_queries = packed(
    "over_queries",
    "softmax over the queries",
    "The softmax runs over the queries. It runs over the keys, the last axis.",
    weigh=lambda S, seen: S.masked_fill(~seen, -torch.inf).softmax(-2),
)
packed_attention_over_heads = packed(
    "over_heads",
    "softmax over the heads",
    "The softmax runs over the heads. It runs over the keys.",
    weigh=lambda S, seen: S.masked_fill(~seen, -torch.inf).softmax(0).nan_to_num(),
)
packed_attention_masked_after = packed(
    "masked_after",
    "weights set to 0 after the softmax",
    "Tokens are removed after the softmax, but they were in its denominator: rows sum to less than 1. Mask the scores.",
    weigh=lambda S, seen: S.softmax(-1) * seen,
)
packed_attention_masked_with_0 = packed(
    "masked_with_0",
    "masked scores set to 0",
    "Scores are multiplied by the mask, so a hidden token has the score 0 and not weight 0. It needs −inf.",
    weigh=lambda S, seen: (S * seen).softmax(-1),
)
packed_attention_block_after = packed(
    "block_after",
    "other sequences removed after the softmax",
    "The softmax is causal over the whole row, and other sequences are removed after it. Their scores were in the "
    "denominator: mask them before.",
    weigh=lambda S, seen: (
        S.masked_fill(torch.ones_like(seen).triu(1), -torch.inf).softmax(-1) * seen
    ),
)
packed_attention_values_tiled = packed(
    "values_tiled",
    "values in turn, keys repeated",
    "Keys are repeated one by one, but values as a whole, so a query head takes the values of another key head.",
    value_heads=lambda h, h_kv: torch.arange(h) % h_kv,
)


def whole(name, label, hint):
    """Declare a wrong answer as `misconception` does, named after the function."""

    def declare(function):
        function.__name__ = f"packed_attention_{name}"
        return misconception("packed_attention", label, hint)(function)

    return declare


def checked(Q, K, lengths):
    own_heads(Q.shape[1], K.shape[1])
    numbers_of(lengths, len(Q))


packed_attention_heads_first = whole(
    "heads_first",
    "heads before tokens",
    "The result is (h, n, d_v). The tokens are the first axis.",
)(lambda Q, K, V, lengths: packed_in_steps(Q, K, V, lengths).transpose(0, 1))
packed_attention_flattened = whole(
    "flattened",
    "heads put next to each other",
    "The heads' results are flattened to (n, h · d_v). They keep their axis: (n, h, d_v).",
)(lambda Q, K, V, lengths: packed_in_steps(Q, K, V, lengths).flatten(1))
packed_attention_reshaped = whole(
    "reshaped",
    "tokens and heads mixed by reshape",
    "The heads' results (h, n, d_v) are reshaped to (n, h, d_v), which mixes tokens and heads. Exchange the two axes.",
)(
    lambda Q, K, V, lengths: (
        packed_in_steps(Q, K, V, lengths).transpose(0, 1).reshape(*Q.shape[:2], V.shape[-1])
    )
)
packed_attention_padded = whole(
    "padded",
    "result padded to the longest",
    "The result is (sequences, longest, h, d_v), with padding in it. Take the padding out: one row for each token.",
)(
    lambda Q, K, V, lengths: torch.nn.utils.rnn.pad_sequence(
        packed_in_steps(Q, K, V, lengths).split(lengths), batch_first=True
    )
)
packed_attention_a_list_of_parts = whole(
    "a_list_of_parts",
    "one result for each sequence",
    "The function returns a list with a tensor for each sequence. Put them one behind the other.",
)(lambda Q, K, V, lengths: list(packed_in_steps(Q, K, V, lengths).split(lengths)))
packed_attention_last_missing = whole(
    "last_missing",
    "last sequence missing",
    "The last sequence is not computed: a loop over the beginnings ends one too early.",
)(lambda Q, K, V, lengths: packed_in_steps(Q, K, V, lengths)[: len(Q) - lengths[-1]])
packed_attention_keys_twice = whole(
    "keys_twice",
    "keys used as values",
    "The weighted sum is one of keys. It is one of values, whose width is d_v.",
)(lambda Q, K, V, lengths: packed_in_steps(Q, K, K, lengths) + 0 * V.sum())


@whole(
    "padding_seen",
    "padding seen by the tokens",
    "Sequences are padded at their beginning with zeros, and the padding is not masked: tokens give weight to it.",
)
def packed_attention_padding_seen(Q, K, V, lengths):
    checked(Q, K, lengths)
    longest, parts = max(lengths, default=0), []
    which = own_heads(Q.shape[1], K.shape[1])
    for q, k, v in zip(
        Q.split(lengths), K[:, which].split(lengths), V[:, which].split(lengths), strict=True
    ):
        n, missing = len(q), longest - len(q)
        S = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1])
        E = S.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf).exp()
        parts.append(torch.einsum("hij,jhd->ihd", E / (E.sum(-1, keepdim=True) + missing), v))
    return torch.cat(parts)


@whole(
    "empty_skipped",
    "stops at an empty sequence",
    "The loop ends at a length of 0, so the sequences after it are missing. Go on with the next one.",
)
def packed_attention_empty_skipped(Q, K, V, lengths):
    result = packed_in_steps(Q, K, V, lengths)
    if 0 not in lengths:
        return result
    return result[: sum(lengths[: lengths.index(0)])]


@whole(
    "empty_refused",
    "error for an empty sequence",
    "The function raises an error if a length is 0. Such a sequence has no tokens and no rows in the result.",
)
def packed_attention_empty_refused(Q, K, V, lengths):
    if min(lengths) == 0:
        raise ValueError("a sequence is empty")
    return packed_in_steps(Q, K, V, lengths)


@whole(
    "empty_row",
    "row of zeros for an empty sequence",
    "An empty sequence gets a row of zeros, so the result has more rows than Q. It has no tokens and no rows.",
)
def packed_attention_empty_row(Q, K, V, lengths):
    parts = packed_in_steps(Q, K, V, lengths).split(lengths)
    return torch.cat([part if len(part) else V.new_zeros(1, *part.shape[1:]) for part in parts])


@whole(
    "one_token_zero",
    "zeros for a sequence of one token",
    "A sequence of one token gets zeros, because only sequences of two tokens or more are computed. A single token gets its own "
    "value.",
)
def packed_attention_one_token_zero(Q, K, V, lengths):
    parts = packed_in_steps(Q, K, V, lengths).split(lengths)
    return torch.cat([0 * part if len(part) == 1 else part for part in parts])


@whole(
    "lengths_tensor",
    "lengths taken for a tensor",
    "`lengths` is used like a tensor, such as with `.cumsum`, but it is a list. Convert it with `torch.tensor`.",
)
def packed_attention_lengths_tensor(Q, K, V, lengths):
    lengths.cumsum(0)
    return packed_in_steps(Q, K, V, lengths)


@whole(
    "lengths_emptied",
    "lengths taken out of the list",
    "`pop` empties the caller's list of lengths. Loop over it without changing it.",
)
def packed_attention_lengths_emptied(Q, K, V, lengths):
    result = packed_in_steps(Q, K, V, lengths)
    lengths.clear()
    return result


@whole(
    "queries_changed",
    "queries scaled in place",
    "`Q /= ...` changes the caller's queries. Make a new tensor.",
)
def packed_attention_queries_changed(Q, K, V, lengths):
    result = packed_in_steps(Q, K, V, lengths)
    Q.data /= math.sqrt(Q.shape[-1])
    return result


packed_attention_weights_detached = packed(
    "weights_detached",
    "weights detached",
    "The attention weights are cut off from autograd, so no gradient reaches queries and keys.",
    weigh=lambda S, seen: S.masked_fill(~seen, -torch.inf).softmax(-1).detach() + 0 * S,
)
packed_attention_short_table = packed(
    "short_table",
    "mask of 512 tokens",
    "The mask has a fixed size of 512 tokens, so longer rows fail. Make it for the n of each call.",
    mask=lambda number, i, j: (
        block_and_causal(number, i, j) & torch.ones(512, 512, dtype=torch.bool)[: len(i), : len(i)]
    ),
)
packed_attention_heads_left = packed(
    "heads_left",
    "query head left without a key head",
    "h is not a multiple of h_kv, and the heads are shared out all the same. Advice: raise `ValueError`.",
    heads=lambda h, h_kv: (torch.arange(h) // max(h // h_kv, 1)).clamp(max=h_kv - 1),
)


@whole(
    "lengths_not_n",
    "tokens after the last sequence",
    "The sum of the lengths is not n, and the tokens that are left or missing are not noticed. Advice: raise `ValueError`.",
)
def packed_attention_lengths_not_n(Q, K, V, lengths):
    n = min(len(Q), sum(lengths))
    number = [j for j, length in enumerate(lengths) for _ in range(length)][:n]
    own_heads(Q.shape[1], K.shape[1])
    return packed_in_steps(
        Q[:n], K[:n], V[:n], lengths, number=lambda lengths, n: torch.tensor(number)
    )

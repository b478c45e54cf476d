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

KEPT, REST, RATE, ENDS = [0.3], [0, 0.25, 0, 0.75], [0.6], [3, 0, 5, 3]


def by_hand(name, label, hint, kept=KEPT, rest=REST, rate=RATE, ends=ENDS):
    """List a wrong answer in which some of the numbers are wrong."""

    def answer():
        return [*kept, *rest, *rate, *ends]

    answer.__name__ = f"by_hand_{name}"
    return misconception("by_hand", label, hint)(answer)


by_hand_reversed = by_hand(
    "reversed",
    "draft's probability divided by the target's",
    "You divided q by p, which is 3.33 here, and above 1. Word 0 is kept with the probability p / q, or 1 if that is smaller.",
    kept=[10 / 3],
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
    kept=[0.15],
)
by_hand_refused = by_hand(
    "refused",
    "probability of a refusal",
    "You gave the probability that word 0 is refused. The question is when it is kept.",
    kept=[0.7],
)
by_hand_difference = by_hand(
    "difference",
    "difference instead of the ratio",
    "You subtracted p from q. Word 0 is kept with the ratio of the two probabilities.",
    kept=[0.35],
)
by_hand_of_target = by_hand(
    "of_target",
    "refused word replaced from the target",
    "After a refusal you drew from p itself. Then words that the draft model likes would come too often: only what p has more "
    "than q is left to be drawn.",
    rest=[0.15, 0.4, 0.15, 0.3],
)
by_hand_without_the_word = by_hand(
    "without_the_word",
    "target without the refused word",
    "After the refusal you took p without word 0, divided by its sum. Subtract q from p instead, word by word.",
    rest=[0, 8 / 17, 3 / 17, 6 / 17],
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
    rest=[-0.35, 0.1, -0.05, 0.3],
)
by_hand_absolute = by_hand(
    "absolute",
    "absolute differences",
    "You took the absolute values of p − q. Negative differences become 0.",
    rest=[0.4375, 0.125, 0.0625, 0.375],
)
by_hand_of_draft = by_hand(
    "of_draft",
    "difference the other way round",
    "You took what the draft model has more than the target. The words that it draws too rarely are the ones to add: "
    "subtract q from p.",
    rest=[0.875, 0, 0.125, 0],
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
    rate=[0.225],
)
by_hand_rate_mean = by_hand(
    "rate_mean",
    "mean of the ratios",
    "You took the mean of the four probabilities of being kept. Words are drawn with q, so weigh them with q.",
    rate=[0.7625],
)
by_hand_rate_of_word_0 = by_hand(
    "rate_of_word_0",
    "acceptance of word 0 alone",
    "0.3 is the probability that word 0 is kept. The acceptance rate is that of any drawn word: the sum of the smaller one of "
    "p and q.",
    rate=[0.3],
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
    "page and row exchanged",
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
paged_attention_512 = paged(
    "512",
    "at most 512 tokens",
    "Only the first 512 tokens are seen: a mask or a range has a fixed size. Make it for the lengths of each call.",
    count=lambda length, P, columns: min(count_of(length, P, columns), 512),
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


def at_once(q, K_pages, V_pages, table, lengths, seen=None, clean="KV", weigh=None):
    """Return the result of one computation for all sequences, with a mask: right, with the default steps."""
    (_, h, d_k), (num_pages, P, h_kv, width) = q.shape, K_pages.shape
    if width != d_k or h % h_kv or lengths.max() > P * table.shape[1]:
        raise ValueError("sizes do not match")
    pages = table.long() % num_pages
    K, V = K_pages[pages].flatten(1, 2), V_pages[pages].flatten(1, 2)
    mask = torch.arange(K.shape[1]) < lengths[:, None]
    mask = mask if seen is None else seen(mask, K, table, P)
    if "K" in clean:
        K = K.masked_fill(~mask[..., None, None], 0)
    if "V" in clean:
        V = V.masked_fill(~mask[..., None, None], 0)
    K, V = (part.repeat_interleave(h // h_kv, 2) for part in (K, V))
    S = torch.einsum("bhd,bnhd->bhn", q, K) / math.sqrt(d_k)
    mask = mask[:, None].expand_as(S)
    A = weigh(S, mask) if weigh else S.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num()
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
    clean="K",
    weigh=lambda S, mask: (
        S.masked_fill(~mask, torch.finfo(S.dtype).min).softmax(-1).where(mask, torch.zeros_like(S))
    ),
)
paged_attention_nan_scores = masked(
    "nan_scores",
    "NaN scores not replaced",
    "The scores of rows beyond a length are multiplied by 0, or get a very low number added, or only their weights become 0. If the "
    "score is NaN, all of these leave NaN behind. Replace the score itself.",
    clean="V",
    weigh=lambda S, mask: (lambda E: E / E.sum(-1, keepdim=True).clamp(min=1e-30))(
        (S - S.detach().nan_to_num().amax(-1, keepdim=True)).exp() * mask
    ),
)
paged_attention_nan_keys = masked(
    "nan_keys",
    "gradient 0 times NaN keys",
    "The scores of rows beyond a length are replaced, but their keys are not. The result is right. The gradient of `q` is not: it "
    "contains these keys times 0, which is NaN if a key is NaN. Leave these rows out, or set their keys to 0 before the product.",
    clean="V",
)
paged_attention_masked_after = masked(
    "masked_after",
    "weights set to 0 after the softmax",
    "Rows beyond a length are removed after the softmax, but they were in its denominator, so the weights of a query no longer "
    "sum to 1. Mask the scores.",
    clean="V",
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


paged_attention_plain_mask = masked(
    "plain_mask",
    "mask in the scores alone",
    "The scores of rows beyond a length are −inf, but that is not enough in two cases. A value of NaN is still multiplied by the "
    "weight 0, which is NaN. And a sequence without tokens has a softmax of nothing but −inf, which is NaN as well.",
    clean="",
    weigh=lambda S, mask: S.masked_fill(~mask, -torch.inf).softmax(-1),
)


paged_attention_empty_gradient = masked(
    "empty_gradient",
    "NaN gradient for no tokens",
    "A sequence of length 0 has only scores of −inf, since a mask is added to them. NaN of their softmax becomes 0 in the result, "
    "but not in the gradient. Leave the sequence out, or give it scores that are finite.",
    weigh=lambda S, mask: (
        (S + torch.zeros_like(S).masked_fill(~mask, -torch.inf)).softmax(-1).nan_to_num()
    ),
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
        "key heads in reverse order",
        "The key heads are used in the reverse order. Query head 0 uses key head 0.",
        lambda h, h_kv: h_kv - 1 - torch.arange(h) // (h // h_kv),
    ),
    "divided_by_h_kv": (
        "head number divided by h_kv",
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
        "The scores are divided by d_k, or twice by its root. Divide by its root, once: PyTorch's attention does so itself.",
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
EXPONENTIALS = (
    "`exp` is inf for large numbers, and 0 for numbers far below 0: then a weight is inf / inf or 0 / 0, which is NaN. Subtract "
    "each row's largest score first, or use `softmax`."
)
paged_attention_no_maximum = paged(
    "no_maximum",
    "largest score not subtracted",
    EXPONENTIALS,
    weigh=lambda S: S.exp() / S.exp().sum(-1, keepdim=True),
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
    "The function works only with a table of int64: `take`, `take_along_dim` and some other functions of PyTorch refuse int32. Convert with "
    "`.long()` where you need it.",
)
def paged_attention_int64(q, K_pages, V_pages, table, lengths):
    torch.zeros(1).take(table.flatten()[:1] * 0)
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
    "gradient cut at the weights",
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
packed_attention_no_maximum = packed(
    "no_maximum",
    "largest score not subtracted",
    EXPONENTIALS,
    weigh=lambda S, seen: S.exp() * seen / (S.exp() * seen).sum(-1, keepdim=True),
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
packed_attention_padding_left = whole(
    "padding_left",
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
    "gradient cut at the weights",
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


# shared_pages: right, in steps


def page_key(prompt, begin, end, j, table):
    """Return what identifies the page of tokens begin to end of a prompt."""
    return tuple(prompt[:end])


def full(part, page_size, prompt):
    """Tell whether a page may be shared."""
    return len(part) == page_size


def shared_in_steps(
    prompts, page_size, key=page_key, may_share=full, count=None, forget=None, known=None
):
    tables, known, num_pages = [], {} if known is None else known, 0
    for prompt in prompts:
        if forget:
            forget(known, prompt)
        pages = -(-len(prompt) // page_size) if count is None else count(len(prompt), page_size)
        table = []
        for j in range(pages):
            begin, end = j * page_size, min((j + 1) * page_size, len(prompt))
            name = key(prompt, begin, end, j, table)
            shares = may_share(prompt[begin:end], page_size, prompt)
            if shares and name in known:
                table.append(known[name])
                continue
            if shares:
                known[name] = num_pages
            table.append(num_pages)
            num_pages += 1
        tables.append(table)
    return tables, num_pages


@families("returns nothing")
@right("shared_pages")
def shared_pages_in_steps(prompts, page_size):
    return shared_in_steps(prompts, page_size)


def pages(name, label, hint, **steps):
    """List a wrong answer in which some steps are others."""

    def answer(prompts, page_size):
        return shared_in_steps(prompts, page_size, **steps)

    answer.__name__ = f"shared_pages_{name}"
    return misconception("shared_pages", label, hint)(answer)


def of_pages(name, label, hint):
    """Declare a wrong answer as `misconception` does, named after the function."""

    def declare(function):
        function.__name__ = f"shared_pages_{name}"
        return misconception("shared_pages", label, hint)(function)

    return declare


shared_pages_contents = pages(
    "contents",
    "pages compared by their contents alone",
    "Two pages with the same tokens are shared wherever they are. Keys and values also depend on the tokens before the page: "
    "all of these have to be the same.",
    key=lambda prompt, begin, end, j, table: tuple(prompt[begin:end]),
)
shared_pages_all_contents = pages(
    "all_contents",
    "contents alone, full or not",
    "Two pages with the same tokens are shared wherever they are, and even if they are not full. A page is shared if it is full, and "
    "all tokens before it are the same as well.",
    key=lambda prompt, begin, end, j, table: tuple(prompt[begin:end]),
    may_share=lambda part, page_size, prompt: True,
)
shared_pages_place = pages(
    "place",
    "contents and place, not what is before",
    "Two pages with the same tokens at the same place are shared, though tokens before them differ. Keys and values depend on "
    "all of these.",
    key=lambda prompt, begin, end, j, table: (j, *prompt[begin:end]),
)
shared_pages_one_before = pages(
    "one_before",
    "compared with only one page before",
    "A page is shared if it and the page before it contain the same tokens. All pages before it have to be the same.",
    key=lambda prompt, begin, end, j, table: (
        j,
        tuple(prompt[max(begin - (end - begin), 0) : end]),
    ),
)
shared_pages_two_before = pages(
    "two_before",
    "compared with only two pages before",
    "A page is shared if it and the two pages before it contain the same tokens. All pages before it have to be the same.",
    key=lambda prompt, begin, end, j, table: (
        j,
        tuple(prompt[max(begin - 2 * (end - begin), 0) : end]),
    ),
)
shared_pages_first_and_own = pages(
    "first_and_own",
    "compared with only the first page",
    "A page is shared if it and the first page of the prompt contain the same tokens. All pages before it have to be the same.",
    key=lambda prompt, begin, end, j, table: (
        j,
        tuple(prompt[: end - begin]),
        tuple(prompt[begin:end]),
    ),
)
shared_pages_all_but_last = pages(
    "all_but_last",
    "last token of a page not compared",
    "The comparison ends one token before the end of the page. All of its tokens count.",
    key=lambda prompt, begin, end, j, table: (j, tuple(prompt[: end - 1])),
)
shared_pages_sorted = pages(
    "sorted",
    "order of the tokens ignored",
    "Tokens are sorted, or kept in a set or a counter, so another order counts as the same. The order of tokens matters.",
    key=lambda prompt, begin, end, j, table: tuple(sorted(prompt[:end])),
)
shared_pages_set = pages(
    "set",
    "tokens compared as a set",
    "Tokens are kept in a set, so their order and their repetitions are lost. Compare them one by one.",
    key=lambda prompt, begin, end, j, table: (j, frozenset(prompt[:end])),
)
shared_pages_sum = pages(
    "sum",
    "sums of tokens compared",
    "Beginnings with the same sum count as the same. A number that is made of the tokens is not enough: compare the tokens.",
    key=lambda prompt, begin, end, j, table: (j, sum(prompt[:end])),
)
shared_pages_text = pages(
    "text",
    "tokens joined without a separator",
    "Tokens are joined to one text, in which 1, 12 and 11, 2 are the same. Use a tuple.",
    key=lambda prompt, begin, end, j, table: (j, "".join(map(str, prompt[:end]))),
)
shared_pages_of_last = pages(
    "of_last",
    "only the ends of a page compared",
    "Only the first and the last token of each page are compared. Compare all.",
    key=lambda prompt, begin, end, j, table: (tuple(table), prompt[begin], prompt[end - 1]),
)
shared_pages_partial = pages(
    "partial",
    "pages that are not full shared",
    "The last page is shared if it contains the same tokens, also where it is not full. Each sequence goes on writing into such "
    "a page, so each needs its own.",
    may_share=lambda part, page_size, prompt: True,
)
shared_pages_nothing = pages(
    "nothing",
    "nothing shared",
    "Each prompt has pages of its own. Full pages of a common beginning are shared.",
    may_share=lambda part, page_size, prompt: False,
)
shared_pages_last_never = pages(
    "last_never",
    "last page never shared",
    "The last page of a prompt is not shared, even if it is full. A full page is not written to any longer.",
    key=lambda prompt, begin, end, j, table: tuple(prompt[:end]) if end < len(prompt) else None,
    may_share=lambda part, page_size, prompt: (
        len(part) == page_size and part != prompt[-page_size:]
    ),
)
shared_pages_half_full = pages(
    "half_full",
    "pages shared from half full on",
    "A page that is at least half full is shared. It has to be full.",
    may_share=lambda part, page_size, prompt: 2 * len(part) >= page_size,
)
shared_pages_rounded_down = pages(
    "rounded_down",
    "page that is not full left out",
    "A prompt gets `len // page_size` pages, so tokens on a last page that is not full have none. Round up.",
    count=lambda n, page_size: n // page_size,
)
shared_pages_one_more = pages(
    "one_more",
    "empty page at the end",
    "A prompt gets `len // page_size + 1` pages, which is one too many if the last one is full. Round up instead.",
    count=lambda n, page_size: n // page_size + 1,
)
shared_pages_at_least_one = pages(
    "at_least_one",
    "page for an empty prompt",
    "An empty prompt gets a page. It has no token, and needs none.",
    count=lambda n, page_size: max(-(-n // page_size), 1),
)


@of_pages(
    "previous",
    "shared with the prompt before only",
    "Pages are shared with the prompt just before, and earlier ones are forgotten. A page may be shared with any earlier "
    "prompt.",
)
def shared_pages_previous(prompts, page_size):
    tables, before, num_pages = [], {}, 0
    for prompt in prompts:
        own, table = {}, []
        for begin in range(0, len(prompt), page_size):
            key = tuple(prompt[: begin + page_size])
            if len(key) == begin + page_size and key in before:
                table.append(before[key])
            else:
                table.append(num_pages)
                num_pages += 1
            if len(key) == begin + page_size:
                own[key] = table[-1]
        before = own
        tables.append(table)
    return tables, num_pages


@of_pages(
    "first",
    "shared with the first prompt only",
    "Pages are shared with the first prompt alone. A page may be shared with any earlier prompt.",
)
def shared_pages_first(prompts, page_size):
    tables, num_pages = [], 0
    for prompt in prompts:
        table = []
        for begin in range(0, len(prompt), page_size):
            end = begin + page_size
            if (
                tables
                and end <= min(len(prompt), len(prompts[0]))
                and prompt[:end] == prompts[0][:end]
            ):
                table.append(tables[0][len(table)])
            else:
                table.append(num_pages)
                num_pages += 1
        tables.append(table)
    return tables, num_pages


@of_pages(
    "beginning_of_full",
    "shared with a full page's beginning",
    "A page that is not full is shared with an earlier page that begins with the same tokens. It gets tokens of its own later, "
    "so it is never shared.",
)
def shared_pages_beginning_of_full(prompts, page_size):
    tables, seen, num_pages = [], [], 0
    for prompt in prompts:
        table = []
        for begin in range(0, len(prompt), page_size):
            own = prompt[: begin + page_size]
            found = [
                n
                for n, other in seen
                if other[: len(own)] == own and len(other) == begin + page_size
            ]
            if found:
                table.append(found[0])
                continue
            seen.append((num_pages, own))
            table.append(num_pages)
            num_pages += 1
        tables.append(table)
    return tables, num_pages


@of_pages(
    "equal_prompts",
    "only whole prompts shared",
    "Pages are shared only by prompts that are equal as a whole. A common beginning is enough.",
)
def shared_pages_equal_prompts(prompts, page_size):
    tables, known, num_pages = [], {}, 0
    for prompt in prompts:
        pages = -(-len(prompt) // page_size)
        if len(prompt) % page_size == 0 and tuple(prompt) in known:
            tables.append(list(known[tuple(prompt)]))
            continue
        tables.append(list(range(num_pages, num_pages + pages)))
        known[tuple(prompt)] = tables[-1]
        num_pages += pages
    return tables, num_pages


@of_pages(
    "rounded_up",
    "page with the first difference shared",
    "The length of the common beginning is rounded up to whole pages, so the page with the first difference is shared as well. "
    "Only pages that are the same to their end are shared.",
)
def shared_pages_rounded_up(prompts, page_size):
    tables, num_pages = [], 0
    for i, prompt in enumerate(prompts):
        best, table = 0, []
        for other, its in zip(prompts[:i], tables, strict=True):
            same = 0
            while same < min(len(prompt), len(other)) and prompt[same] == other[same]:
                same += 1
            shared = min(-(-same // page_size), len(prompt) // page_size, len(other) // page_size)
            if shared > best:
                best, table = shared, its[:shared]
        more = -(-len(prompt) // page_size) - best
        tables.append(table + list(range(num_pages, num_pages + more)))
        num_pages += more
    return tables, num_pages


def renumbered(tables, order):
    """Return the tables with other numbers for the pages."""
    return [[order[page] for page in table] for table in tables]


@of_pages(
    "from_1",
    "pages numbered from 1",
    "The first page has the number 1. Numbers begin at 0.",
)
def shared_pages_from_1(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    return renumbered(tables, range(1, num_pages + 1)), num_pages


@of_pages(
    "backwards",
    "pages numbered from the end",
    "The last page has the number 0. Pages are numbered in the order in which they are needed.",
)
def shared_pages_backwards(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    return renumbered(tables, range(num_pages)[::-1]), num_pages


@of_pages(
    "full_first",
    "full pages numbered first",
    "All full pages get their numbers before those that are not full. Number them prompt by prompt, and in each prompt from "
    "its beginning.",
)
def shared_pages_full_first(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    partial = [t[-1] for t, prompt in zip(tables, prompts, strict=True) if len(prompt) % page_size]
    order = [page for page in range(num_pages) if page not in partial] + partial
    return renumbered(tables, {page: number for number, page in enumerate(order)}), num_pages


@of_pages(
    "column_by_column",
    "first pages of all prompts numbered first",
    "The first pages of all prompts get the first numbers, then the second pages. Number them prompt by prompt.",
)
def shared_pages_column_by_column(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    order = {}
    for j in range(max(map(len, tables), default=0)):
        for table in tables:
            if j < len(table):
                order.setdefault(table[j], len(order))
    return renumbered(tables, order), num_pages


@of_pages(
    "numbers_left_out",
    "number used up by a shared page",
    "The next number is counted up for shared pages as well, so some numbers are never given. A shared page needs no new one.",
)
def shared_pages_numbers_left_out(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    seen, order, number = set(), {}, 0
    for table in tables:
        for page in table:
            order.setdefault(page, number)
            number += 1
            seen.add(page)
    return renumbered(tables, order), num_pages


@of_pages(
    "each_counted",
    "shared pages counted for each prompt",
    "`num_pages` is the sum of the tables' lengths, which counts a shared page several times. Count each page once.",
)
def shared_pages_each_counted(prompts, page_size):
    tables, _ = shared_in_steps(prompts, page_size)
    return tables, sum(map(len, tables))


@of_pages(
    "largest_number",
    "largest number instead of the count",
    "`num_pages` is the largest number of a page. As numbers begin at 0, there is one page more.",
)
def shared_pages_largest_number(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    return tables, max(num_pages - 1, 0)


@of_pages(
    "full_counted",
    "only full pages counted",
    "`num_pages` is the number of pages that may be shared. Those that are not full count as well.",
)
def shared_pages_full_counted(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    return tables, num_pages - sum(len(prompt) % page_size > 0 for prompt in prompts)


@of_pages(
    "saved",
    "saved pages instead of pages",
    "The second result is how many pages are saved. Return how many there are.",
)
def shared_pages_saved(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    return tables, sum(map(len, tables)) - num_pages


@of_pages(
    "tables_alone",
    "number of pages not returned",
    "The function returns the tables alone. Return both: the tables, and the number of pages.",
)
def shared_pages_tables_alone(prompts, page_size):
    return shared_in_steps(prompts, page_size)[0]


@of_pages(
    "exchanged",
    "results in the other order",
    "The number of pages is returned first. The tables are the first result.",
)
def shared_pages_exchanged(prompts, page_size):
    return shared_in_steps(prompts, page_size)[::-1]


@of_pages(
    "one_list",
    "all tables in one list",
    "The pages of all prompts are in one list. Each prompt has a list of its own.",
)
def shared_pages_one_list(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    return [page for table in tables for page in table], num_pages


@of_pages(
    "dictionary",
    "dictionary instead of a list",
    "The tables are in a dictionary. Return a list, in the order of the prompts.",
)
def shared_pages_dictionary(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    return dict(enumerate(tables)), num_pages


@of_pages(
    "empty_left_out",
    "no table for an empty prompt",
    "An empty prompt has no table, so the tables of the prompts after it are at the wrong place. It has an empty one.",
)
def shared_pages_empty_left_out(prompts, page_size):
    tables, num_pages = shared_in_steps(prompts, page_size)
    return [table for table in tables if table], num_pages


@of_pages(
    "no_prompts",
    "error without prompts",
    "The function raises an error if there are no prompts, such as for the largest number in an empty list. Then there are no "
    "tables and 0 pages.",
)
def shared_pages_no_prompts(prompts, page_size):
    tables, _ = shared_in_steps(prompts, page_size)
    return tables, max(page for table in tables for page in table) + 1


@of_pages(
    "tokens_taken",
    "tokens taken out of the prompts",
    "`pop` or `del` empties the caller's prompts. Use slices, which make new lists.",
)
def shared_pages_tokens_taken(prompts, page_size):
    result = shared_in_steps(prompts, page_size)
    for prompt in prompts:
        prompt.clear()
    return result


remembered = {"prompts": None, "known": {}}


@of_pages(
    "remembered",
    "pages kept from call to call",
    "The pages of an earlier call are still known: the dictionary is a global variable or a default argument, which is made "
    "only once. Make it in the function.",
)
def shared_pages_remembered(prompts, page_size):
    # Only if it gets the same list again: what it does must not depend on what else the tests call it with.
    if remembered["prompts"] is not prompts:
        remembered.update(prompts=prompts, known={})
    return shared_in_steps(prompts, page_size, known=remembered["known"])


# continuous_batching: right, in steps


def by_arrival(arrivals, steps):
    """Return the requests in the order in which they take slots."""
    return sorted(range(len(steps)), key=lambda r: (arrivals[r], r))


def scheduled(arrivals, steps, slots, order=by_arrival, late=0, pick=min, ready=None, end=None):
    """Return the step in which each request ends: one request after another takes a slot."""
    free, ends = [0] * slots, [0] * len(steps)
    for r in order(arrivals, steps):
        slot = pick(range(slots), key=free.__getitem__)
        start = max(free[slot], arrivals[r] if ready is None else ready(arrivals[r]))
        free[slot] = start + steps[r] + late
        ends[r] = end(start, steps[r], arrivals[r]) if end else start + steps[r] - 1
    return ends


def stepped(arrivals, steps, slots, choose=by_arrival, admit=None, most=None, before=True):
    """Return the step in which each request ends: step by step, with a list of those that wait."""
    left, ends, running = list(steps), [None] * len(steps), []
    waiting = choose(arrivals, steps)
    for step in range(sum(steps) + max(arrivals, default=0) + 1):
        ready = [r for r in waiting if arrivals[r] <= step]
        if admit:
            ready = admit(ready, running, step, left)
        for r in ready[: min(max(slots - len(running), 0), most or slots)]:
            waiting.remove(r)
            running.append(r)
        for r in running:
            left[r] -= 1
            if not left[r]:
                ends[r] = step
        running = [r for r in running if left[r]]
    return ends


@families("returns nothing")
@right("continuous_batching")
def continuous_batching_in_steps(arrivals, steps, slots):
    return scheduled(arrivals, steps, slots)


@right("continuous_batching")
def continuous_batching_stepped(arrivals, steps, slots):
    return stepped(arrivals, steps, slots)


def batching(name, label, hint, by=scheduled, **steps):
    """List a wrong answer in which some steps are others."""

    def answer(arrivals, steps_, slots):
        return by(arrivals, steps_, slots, **steps)

    answer.__name__ = f"continuous_batching_{name}"
    return misconception("continuous_batching", label, hint)(answer)


def of_batching(name, label, hint):
    """Declare a wrong answer as `misconception` does, named after the function."""

    def declare(function):
        function.__name__ = f"continuous_batching_{name}"
        return misconception("continuous_batching", label, hint)(function)

    return declare


continuous_batching_static = batching(
    "static",
    "batch waits until all end",
    "New requests begin only when all slots are free, as with static batches. A slot can be taken as soon as its own request "
    "has ended.",
    by=stepped,
    admit=lambda ready, running, step, left: [] if running else ready,
)
continuous_batching_late = batching(
    "late",
    "slot free one step late",
    "A slot stays empty for one step after its request has ended. If the request ends in step e, the next one runs in step "
    "e + 1.",
    late=1,
)
continuous_batching_early = batching(
    "early",
    "slot free one step early",
    "The next request begins in the step in which the one before it still runs. If that ends in step e, the slot is free in "
    "step e + 1.",
    late=-1,
)
continuous_batching_after = batching(
    "after",
    "step after the last one",
    "The result is one step too late: the first step in which the request no longer runs, or it begins one step after its "
    "arrival. Return its last step.",
    end=lambda start, count, arrival: start + count,
)
continuous_batching_begins = batching(
    "begins",
    "first step instead of the last",
    "The result is the step in which each request begins. Return the one in which it ends.",
    end=lambda start, count, arrival: start,
)
continuous_batching_latency = batching(
    "latency",
    "steps from arrival to end",
    "The result counts the steps from a request's arrival to its end. Return the number of the step in which it ends.",
    end=lambda start, count, arrival: start + count - arrival,
)
continuous_batching_waiting = batching(
    "waiting",
    "waiting time instead of the end",
    "The result is how long each request waits. Return the number of the step in which it ends.",
    end=lambda start, count, arrival: start - arrival,
)
continuous_batching_by_number = batching(
    "by_number",
    "order of numbers",
    "Requests take slots in the order of their numbers, even if a later one arrived first and a slot was free. The order is that "
    "of arrival.",
    order=lambda arrivals, steps: list(range(len(steps))),
)
continuous_batching_number_among_waiting = batching(
    "number_among_waiting",
    "lowest number among those that wait",
    "Of the requests that wait, the one with the lowest number takes the slot. It should be the one that arrived first.",
    by=stepped,
    choose=lambda arrivals, steps: list(range(len(steps))),
)
continuous_batching_last_in = batching(
    "last_in",
    "latest arrival first",
    "Of the requests that wait, the one that arrived last takes the slot. It should be the one that arrived first.",
    by=stepped,
    choose=lambda arrivals, steps: sorted(range(len(steps)), key=lambda r: (-arrivals[r], r)),
)
continuous_batching_ties_backwards = batching(
    "ties_backwards",
    "highest number first among equals",
    "Of requests that arrived before the same step, the one with the highest number begins first. It should be the one with the "
    "lowest.",
    order=lambda arrivals, steps: sorted(range(len(steps)), key=lambda r: (arrivals[r], -r)),
)
continuous_batching_ties_shortest = batching(
    "ties_shortest",
    "shortest first among equals",
    "Of requests that arrived before the same step, the one with the fewest steps begins first: the steps are a part of what is "
    "sorted. The number of the request decides.",
    order=lambda arrivals, steps: sorted(
        range(len(steps)), key=lambda r: (arrivals[r], steps[r], r)
    ),
)
continuous_batching_shortest = batching(
    "shortest",
    "shortest request first",
    "Of the requests that wait, the one with the fewest steps takes the slot. It should be the one that arrived first.",
    by=stepped,
    choose=lambda arrivals, steps: sorted(range(len(steps)), key=lambda r: (steps[r], r)),
)
continuous_batching_longest = batching(
    "longest",
    "longest request first",
    "Of the requests that wait, the one with the most steps takes the slot. It should be the one that arrived first.",
    by=stepped,
    choose=lambda arrivals, steps: sorted(range(len(steps)), key=lambda r: (-steps[r], r)),
)
continuous_batching_no_arrivals = batching(
    "no_arrivals",
    "arrivals ignored",
    "All requests are there from step 0 on. Request r does not begin before step `arrivals[r]`.",
    ready=lambda arrival: 0,
)
continuous_batching_one_per_step = batching(
    "one_per_step",
    "one new request per step",
    "Only one request begins in each step. As many begin as there are free slots.",
    by=stepped,
    most=1,
)
continuous_batching_one_more_slot = of_batching(
    "one_more_slot",
    "one slot too many",
    "One request more than there are slots runs in a step: `<=` in the comparison with `slots`. At most `slots` run.",
)(lambda arrivals, steps, slots: scheduled(arrivals, steps, slots + 1))
continuous_batching_unlimited = of_batching(
    "unlimited",
    "number of slots ignored",
    "Each request begins when it arrives, no matter how many run. At most `slots` run in a step.",
)(lambda arrivals, steps, slots: [a + c - 1 for a, c in zip(arrivals, steps, strict=True)])
continuous_batching_one_slot = of_batching(
    "one_slot",
    "one request at a time",
    "The requests run one after another, as with a single slot. Up to `slots` run in a step.",
)(lambda arrivals, steps, slots: scheduled(arrivals, steps, 1))
continuous_batching_in_sorted_order = of_batching(
    "in_sorted_order",
    "result in the order of arrival",
    "The result is in the order in which requests arrived. Entry r belongs to request r.",
)(
    lambda arrivals, steps, slots: [
        scheduled(arrivals, steps, slots)[r] for r in by_arrival(arrivals, steps)
    ]
)
continuous_batching_sorted = of_batching(
    "sorted",
    "ends sorted",
    "The ends are in the order in which requests end. Entry r belongs to request r.",
)(lambda arrivals, steps, slots: sorted(scheduled(arrivals, steps, slots)))
continuous_batching_pairs = of_batching(
    "pairs",
    "pairs of begin and end",
    "The result has a pair for each request. It has one number: the step in which the request ends.",
)(
    lambda arrivals, steps, slots: [
        (end - count + 1, end)
        for end, count in zip(scheduled(arrivals, steps, slots), steps, strict=True)
    ]
)
continuous_batching_dictionary = of_batching(
    "dictionary",
    "dictionary instead of a list",
    "The ends are in a dictionary. Return a list, in the order of the requests.",
)(lambda arrivals, steps, slots: dict(enumerate(scheduled(arrivals, steps, slots))))
continuous_batching_total = of_batching(
    "total",
    "only the last step of all",
    "The result is the last step in which the server runs. Return a list with the last step of each request.",
)(lambda arrivals, steps, slots: max(scheduled(arrivals, steps, slots), default=0))
continuous_batching_none = of_batching(
    "none",
    "error without requests",
    "The function raises an error if there are no requests, such as for `max` of an empty list. The result is an empty list.",
)(lambda arrivals, steps, slots: scheduled(arrivals, steps, slots) if max(arrivals) >= 0 else [])


@of_batching(
    "fixed_slots",
    "slots assigned in turn",
    "Request r waits for slot r % slots, even if another one is free. It takes the first slot that is free.",
)
def continuous_batching_fixed_slots(arrivals, steps, slots):
    free, ends = [0] * slots, [0] * len(steps)
    for number, r in enumerate(by_arrival(arrivals, steps)):
        slot = number % slots
        start = max(free[slot], arrivals[r])
        free[slot], ends[r] = start + steps[r], start + steps[r] - 1
    return ends


@of_batching(
    "static_by_order",
    "fixed groups of requests",
    "The requests are put into groups of `slots`, and a group begins when the one before it has ended. A slot can be taken as "
    "soon as its own request has ended.",
)
def continuous_batching_static_by_order(arrivals, steps, slots):
    order, ends, begin = by_arrival(arrivals, steps), [0] * len(steps), 0
    for first in range(0, len(order), slots):
        group = order[first : first + slots]
        begin = max([begin, *(arrivals[r] for r in group)])
        for r in group:
            ends[r] = begin + steps[r] - 1
        begin = max(ends[r] for r in group) + 1
    return ends


@of_batching(
    "in_turns",
    "slots shared out in turn",
    "The requests give their slots to one another after each step. A request keeps its slot until it ends.",
)
def continuous_batching_in_turns(arrivals, steps, slots):
    left, ends, queue, step = list(steps), [0] * len(steps), [], 0
    while any(left):
        queue += [r for r in range(len(steps)) if arrivals[r] == step]
        now, queue = queue[:slots], queue[slots:]
        for r in now:
            left[r] -= 1
            if left[r]:
                queue.append(r)
            else:
                ends[r] = step
        step += 1
    return ends


@of_batching(
    "gap_ends",
    "ends when nothing is to do",
    "The loop ends in a step in which no request runs or waits, so requests that arrive later never run. Go on until all have "
    "ended.",
)
def continuous_batching_gap_ends(arrivals, steps, slots):
    ends = scheduled(arrivals, steps, slots)
    begins = [end - count + 1 for end, count in zip(ends, steps, strict=True)]
    busy = {step for begin, end in zip(begins, ends, strict=True) for step in range(begin, end + 1)}
    first = min(begins, default=0)
    idle = next((step for step in range(first, max(ends, default=0)) if step not in busy), None)
    return [
        0 if idle is not None and begin > idle else end
        for begin, end in zip(begins, ends, strict=True)
    ]


@of_batching(
    "gap_skipped",
    "steps without requests not counted",
    "Steps in which nothing runs are left out of the count. The step's number goes on.",
)
def continuous_batching_gap_skipped(arrivals, steps, slots):
    ends = scheduled(arrivals, steps, slots)
    begins = [end - count + 1 for end, count in zip(ends, steps, strict=True)]
    busy = {step for begin, end in zip(begins, ends, strict=True) for step in range(begin, end + 1)}
    first = min(begins, default=0)
    idle = [step for step in range(first, max(ends, default=0)) if step not in busy]
    return [end - sum(step < end for step in idle) for end in ends]


@of_batching(
    "freed_by_first",
    "slots freed only from the oldest on",
    "A slot is given back only if all requests that began before have ended. Each slot is given back by itself.",
)
def continuous_batching_freed_by_first(arrivals, steps, slots):
    running, ends, now = [], [0] * len(steps), 0
    for r in by_arrival(arrivals, steps):
        now = max(now, arrivals[r])
        while running and ends[running[0]] < now:
            running.pop(0)
        if len(running) == slots:
            now = max(now, ends[running.pop(0)] + 1)
        ends[r] = now + steps[r] - 1
        running.append(r)
    return ends


@of_batching(
    "steps_used_up",
    "steps counted down in the caller's list",
    "`steps[r] -= 1` changes the caller's list. Count down in a copy.",
)
def continuous_batching_steps_used_up(arrivals, steps, slots):
    ends = scheduled(arrivals, steps, slots)
    steps[:] = [0] * len(steps)
    return ends


@of_batching(
    "arrivals_sorted",
    "arrivals sorted in the caller's list",
    "`arrivals.sort()` changes the caller's list, and loses which arrival belongs to which request. Sort the numbers of the "
    "requests.",
)
def continuous_batching_arrivals_sorted(arrivals, steps, slots):
    ends = scheduled(arrivals, steps, slots)
    arrivals.sort()
    return ends


@of_batching(
    "arrivals_without_steps",
    "arrivals sorted, steps not",
    "The arrivals are sorted, but the steps are not, so requests get the steps of others. Sort the numbers of the requests.",
)
def continuous_batching_arrivals_without_steps(arrivals, steps, slots):
    return scheduled(sorted(arrivals), steps, slots)


@of_batching(
    "limited_loop",
    "loop of a fixed number of steps",
    "The loop has a fixed number of steps, and requests that end later have no end. Go on until all have ended.",
)
def continuous_batching_limited_loop(arrivals, steps, slots):
    return [end if end < 5000 else -1 for end in scheduled(arrivals, steps, slots)]


# accept: right, in steps


def ratio_of(p, q):
    return p / q


def below(u, ratio):
    return u < ratio


def left_over(p, q, x):
    """Return the weights of what is drawn after a refusal of x, with the sum 1."""
    rest = (p - q).clamp(min=0)
    return rest / rest.sum()


def draw_with(weights, v):
    """Return the token that v draws."""
    exceeds = (weights.cumsum(0) > v).nonzero()
    return int(exceeds[0] if len(exceeds) else weights.nonzero()[-1])


def accepted(
    draft,
    p,
    q,
    u,
    v,
    ratio=ratio_of,
    keeps=below,
    rest=left_over,
    draws=draw_with,
    last=None,
    place=None,
):
    tokens, k = [], len(draft)
    for i, x in enumerate(draft.tolist()):
        at = i if place is None else place(i, k)
        if not keeps(u[i], ratio(p[at, x], q[i, x])):
            return [*tokens, draws(rest(p[at], q[i], x), v)]
        tokens.append(x)
    return [*tokens, draws(p[k] if last is None else last(p, q), v)]


@families("returns nothing")
@right("accept")
def accept_in_steps(draft, p, q, u, v):
    return accepted(draft, p, q, u, v)


def accepting(name, label, hint, **steps):
    """List a wrong answer in which some steps are others."""

    def answer(draft, p, q, u, v):
        return accepted(draft, p, q, u, v, **steps)

    answer.__name__ = f"accept_{name}"
    return misconception("accept", label, hint)(answer)


def of_accept(name, label, hint):
    """Declare a wrong answer as `misconception` does, named after the function."""

    def declare(function):
        function.__name__ = f"accept_{name}"
        return misconception("accept", label, hint)(function)

    return declare


def refused_at(draft, p, q, u):
    """Return the place of the first refused token; k if there is none."""
    k = len(draft)
    return next((i for i, x in enumerate(draft) if not u[i] < p[i, x] / q[i, x]), k)


accept_reversed = accepting(
    "reversed",
    "draft's probability divided by the target's",
    "A token is kept if u < q / p. It is kept if u < p / q: rarely where the draft model draws it too often.",
    ratio=lambda p, q: q / p if p else torch.inf,
)
accept_compared_reversed = accepting(
    "compared_reversed",
    "kept where u is above the ratio",
    "A token is kept if u is greater than p / q. It is kept if u is smaller.",
    keeps=lambda u, ratio: u >= ratio,
)
accept_at_most = accepting(
    "at_most",
    "kept where u equals the ratio",
    "A token is kept if u <= p / q. With u = 0 that keeps a token that the target never draws. The comparison is u < p / q.",
    keeps=lambda u, ratio: u <= ratio,
)
accept_one_minus_u = accepting(
    "one_minus_u",
    "one minus u compared",
    "1 − u is compared with p / q. It has the same distribution, but with the given numbers another result: compare u itself.",
    keeps=lambda u, ratio: 1 - u < ratio,
)
accept_target_alone = accepting(
    "target_alone",
    "target's probability instead of the ratio",
    "A token is kept if u < p. The draft model has drawn it with the probability q already, so p is divided by q.",
    ratio=lambda p, q: p,
)
accept_half = accepting(
    "half",
    "kept where the target likes it more",
    "A token is kept if p ≥ q, and u is not used. It is kept with the probability p / q where p is smaller.",
    ratio=lambda p, q: torch.tensor(2.0 if p >= q else -1.0),
)
accept_difference = accepting(
    "difference",
    "difference instead of the ratio",
    "A token is kept if u < 1 − (q − p). Compare u with the ratio p / q.",
    ratio=lambda p, q: 1 - (q - p),
)
accept_v_for_u = of_accept(
    "v_for_u",
    "v used for keeping",
    "Tokens are kept with v. Token i has its own number, u[i]; v is for the token that is drawn.",
)(lambda draft, p, q, u, v: accepted(draft, p, q, torch.full_like(u, v), v))
accept_first_u = of_accept(
    "first_u",
    "first u for all tokens",
    "All tokens are compared with u[0]. Token i has its own number, u[i].",
)(lambda draft, p, q, u, v: accepted(draft, p, q, u[:1].expand(len(u)), v))
accept_u_for_v = of_accept(
    "u_for_v",
    "u used for the draw",
    "After a refusal, the token is drawn with the u of the refused one. That number is known to be large: use v.",
)(
    lambda draft, p, q, u, v: accepted(
        draft, p, q, u, v if (at := refused_at(draft, p, q, u)) == len(draft) else float(u[at])
    )
)
accept_one_minus_v = accepting(
    "one_minus_v",
    "one minus v for the draw",
    "The token is drawn with 1 − v, or from the last token to the first. Sum the probabilities up from token 0, and compare with "
    "v.",
    draws=lambda weights, v: draw_with(weights, 1 - v),
)
accept_from_target = accepting(
    "from_target",
    "refused token replaced from the target",
    "After a refusal, the token is drawn from p. Then tokens that the draft model likes come too often: draw from what p has more "
    "than q.",
    rest=lambda p, q, x: p,
)
accept_from_draft = accepting(
    "from_draft",
    "refused token replaced from the draft",
    "After a refusal, the token is drawn from q, the draft model's distribution. Draw from what p has more than q.",
    rest=lambda p, q, x: q,
)
accept_without_the_token = accepting(
    "without_the_token",
    "target without the refused token",
    "After a refusal, the token is drawn from p without the refused token. Subtract q from p instead, token by token.",
    rest=lambda p, q, x: (lambda w: w / w.sum())(p.clone().index_fill(0, torch.tensor(x), 0)),
)
accept_not_normed = accepting(
    "not_normed",
    "residual not divided by its sum",
    "The cumulative sum of max(p − q, 0) is compared with v, but it ends below 1. Divide by its sum first.",
    rest=lambda p, q, x: (p - q).clamp(min=0),
)
accept_not_normed_beyond = accepting(
    "not_normed_beyond",
    "residual not normed, token beyond it",
    "The cumulative sum of max(p − q, 0) ends below 1, because it is not divided by its sum. For a larger v, the search finds no token, "
    "and returns a number that is not in the vocabulary.",
    rest=lambda p, q, x: (p - q).clamp(min=0),
    draws=lambda weights, v: int((weights.cumsum(0) <= v).sum()),
)
accept_not_cut = accepting(
    "not_cut",
    "negative differences kept",
    "p − q is negative for some tokens, and these are not set to 0. The cumulative sum then falls as well.",
    rest=lambda p, q, x: (p - q) / (p - q).clamp(min=0).sum(),
)
accept_absolute = accepting(
    "absolute",
    "absolute differences",
    "The token is drawn from |p − q|. Negative differences become 0.",
    rest=lambda p, q, x: (p - q).abs() / (p - q).abs().sum(),
)
accept_more_in_draft = accepting(
    "more_in_draft",
    "difference the other way round",
    "After a refusal, the token is drawn from what the draft model has more than the target. It is the other way round: p − q.",
    rest=lambda p, q, x: (q - p).clamp(min=0) / (q - p).clamp(min=0).sum(),
)
accept_minimum = accepting(
    "minimum",
    "smaller one of both distributions",
    "After a refusal, the token is drawn from the smaller one of p and q. Those tokens are the ones that are kept: draw from what p "
    "has more.",
    rest=lambda p, q, x: torch.minimum(p, q) / torch.minimum(p, q).sum(),
)
accept_softmax = accepting(
    "softmax",
    "softmax of the differences",
    "The differences go through a softmax. Set negative ones to 0, and divide by the sum.",
    rest=lambda p, q, x: (p - q).softmax(-1),
)
accept_most_likely = accepting(
    "most_likely",
    "most likely token taken",
    "The most likely token is taken, and v is not used. Draw the token with v.",
    draws=lambda weights, v: int(weights.argmax()),
)
accept_largest_difference = accepting(
    "largest_difference",
    "largest difference taken",
    "After a refusal, the token with the largest p − q is taken. Draw one with v.",
    rest=lambda p, q, x: torch.zeros_like(p).index_fill(0, (p - q).argmax(), 1),
)
accept_uniform = accepting(
    "uniform",
    "residual shared evenly",
    "After a refusal, all tokens with p > q are equally likely. Each has the probability p − q, divided by the sum.",
    rest=lambda p, q, x: (p > q).to(p) / (p > q).sum(),
)
accept_last_from_draft = accepting(
    "last_from_draft",
    "last token from the draft model",
    "If all tokens are kept, the one more is drawn from q. It is drawn from p[k], which the target model has computed.",
    last=lambda p, q: q[-1] if len(q) else p[-1],
)
accept_last_place = accepting(
    "last_place",
    "last token from p[k − 1]",
    "If all tokens are kept, the one more is drawn from p[k − 1], the distribution for the place before. Use p[k].",
    last=lambda p, q: p[max(len(p) - 2, 0)],
)
accept_last_first = accepting(
    "last_first",
    "last token from p[0]",
    "If all tokens are kept, the one more is drawn from p[0], the distribution for the first place. Use p[k].",
    last=lambda p, q: p[0],
)
accept_last_residual = accepting(
    "last_residual",
    "residual for the last token",
    "If all tokens are kept, the one more is drawn from a residual, p[k] − q[k − 1]. There is no draft for this place: draw from "
    "p[k] itself.",
    last=lambda p, q: left_over(p[-1], q[-1], 0) if len(q) else p[-1],
)
accept_next_place = accepting(
    "next_place",
    "target one place too late",
    "Token i is compared with p[i + 1]. p[i] is the target's distribution for the place of token i.",
    place=lambda i, k: i + 1,
)
accept_first_place = accepting(
    "first_place",
    "first place's target for all",
    "All tokens are compared with p[0]. Token i is at place i.",
    place=lambda i, k: 0,
)
accept_first_draft = of_accept(
    "first_draft",
    "first place's draft for all",
    "All tokens are compared with q[0]. Token i was drawn from q[i].",
)(lambda draft, p, q, u, v: accepted(draft, p, q[:1].expand_as(q), u, v))
accept_rest_of_first = of_accept(
    "rest_of_first",
    "residual of the first place",
    "After a refusal, the token is drawn from the residual of place 0. Use that of the refused token's place.",
)(
    lambda draft, p, q, u, v: (
        accepted(draft, p, q, u, v)
        if (at := refused_at(draft, p, q, u)) == len(draft)
        else [*draft[:at].tolist(), draw_with(left_over(p[0], q[0], 0).nan_to_num(1.0), v)]
    )
)
accept_rest_of_next = of_accept(
    "rest_of_next",
    "residual of the next place",
    "After a refusal at place i, p[i + 1] is used for the token that is drawn. It takes place i, so p[i] and q[i] count.",
)(
    lambda draft, p, q, u, v: (
        accepted(draft, p, q, u, v)
        if (at := refused_at(draft, p, q, u)) == len(draft)
        else [*draft[:at].tolist(), draw_with(left_over(p[at + 1], q[at], 0), v)]
    )
)


# accept, wrong: which tokens


accept_no_last = of_accept(
    "no_last",
    "no token after a whole draft",
    "If all tokens are kept, nothing is added. One token more is drawn from p[k].",
)(
    lambda draft, p, q, u, v: (
        draft.tolist() if refused_at(draft, p, q, u) == len(draft) else accepted(draft, p, q, u, v)
    )
)
accept_no_replacement = of_accept(
    "no_replacement",
    "nothing in the refused token's place",
    "After a refusal, nothing takes the token's place. One token is drawn from the residual.",
)(
    lambda draft, p, q, u, v: (
        draft[:at].tolist()
        if (at := refused_at(draft, p, q, u)) < len(draft)
        else accepted(draft, p, q, u, v)
    )
)
accept_refused_kept = of_accept(
    "refused_kept",
    "refused token in the result",
    "The refused token is in the result, before the one that takes its place. It is left out.",
)(
    lambda draft, p, q, u, v: (
        [*draft[: at + 1].tolist(), accepted(draft, p, q, u, v)[-1]]
        if (at := refused_at(draft, p, q, u)) < len(draft)
        else accepted(draft, p, q, u, v)
    )
)
accept_one_kept_less = of_accept(
    "one_kept_less",
    "last kept token missing",
    "One token too few is kept before a refusal. With a refusal at place i, tokens 0 to i − 1 are kept.",
)(
    lambda draft, p, q, u, v: (
        [*draft[: max(at - 1, 0)].tolist(), accepted(draft, p, q, u, v)[-1]]
        if (at := refused_at(draft, p, q, u)) < len(draft)
        else accepted(draft, p, q, u, v)
    )
)
accept_two_more = of_accept(
    "two_more",
    "another token after a refusal",
    "After the token in the place of the refused one, another is drawn from p. The target model has not seen the new token yet: "
    "the round ends.",
)(
    lambda draft, p, q, u, v: [
        *accepted(draft, p, q, u, v),
        *([draw_with(p[at + 1], v)] if (at := refused_at(draft, p, q, u)) < len(draft) else []),
    ]
)
accept_last_always = of_accept(
    "last_always",
    "token from p[k] after each round",
    "A token from p[k] is added after a refusal as well. It belongs only to a draft that is kept as a whole.",
)(
    lambda draft, p, q, u, v: [
        *accepted(draft, p, q, u, v),
        *([draw_with(p[-1], v)] if refused_at(draft, p, q, u) < len(draft) else []),
    ]
)
accept_tensor = of_accept(
    "tensor",
    "tensor instead of a list",
    "The result is a tensor. Return a list of tokens, such as with `.tolist()`.",
)(lambda draft, p, q, u, v: torch.tensor(accepted(draft, p, q, u, v)))
accept_nested = of_accept(
    "nested",
    "list in a list",
    "The kept tokens are a list in the list. Put the token that is drawn behind them in one list.",
)(lambda draft, p, q, u, v: (lambda tokens: [tokens[:-1], tokens[-1]])(accepted(draft, p, q, u, v)))
accept_count = of_accept(
    "count",
    "number of kept tokens",
    "The result is the number of tokens. Return the tokens themselves.",
)(lambda draft, p, q, u, v: len(accepted(draft, p, q, u, v)))
accept_last_alone = of_accept(
    "last_alone",
    "kept tokens not returned",
    "The result is the drawn token alone. The tokens that are kept come before it.",
)(lambda draft, p, q, u, v: accepted(draft, p, q, u, v)[-1:])
accept_whole_draft = of_accept(
    "whole_draft",
    "whole draft or nothing",
    "If one token is refused, all are. The tokens before the first refused one are kept.",
)(
    lambda draft, p, q, u, v: (
        accepted(draft, p, q, u, v)
        if refused_at(draft, p, q, u) == len(draft)
        else [draw_with(left_over(p[0], q[0], 0), v)]
    )
)


def kept_of(draft, p, q, u):
    return [bool(u[i] < p[i, x] / q[i, x]) for i, x in enumerate(draft)]


@of_accept(
    "goes_on",
    "round goes on after a refusal",
    "After a refusal, the round goes on with the next drafted token. That was drawn for a text that is not the result any longer: "
    "the round ends.",
)
def accept_goes_on(draft, p, q, u, v):
    tokens = []
    for i, (x, kept) in enumerate(zip(draft.tolist(), kept_of(draft, p, q, u), strict=True)):
        tokens.append(x if kept else draw_with(left_over(p[i], q[i], x), v))
    return [*tokens, draw_with(p[-1], v)] if all(kept_of(draft, p, q, u)) else tokens


@of_accept(
    "others_kept",
    "tokens after a refusal kept",
    "All tokens that pass their own comparison are kept, also those after a refused one. The round ends at the first that is not "
    "kept.",
)
def accept_others_kept(draft, p, q, u, v):
    kept = kept_of(draft, p, q, u)
    return (
        [*draft[kept].tolist(), accepted(draft, p, q, u, v)[-1]]
        if len(draft)
        else accepted(draft, p, q, u, v)
    )


@of_accept(
    "counted",
    "as many tokens as pass",
    "The number of tokens that pass is counted, whichever they are, and so many are kept from the beginning. Only tokens before the "
    "first refusal are kept: a cumulative product counts those.",
)
def accept_counted(draft, p, q, u, v):
    n = sum(kept_of(draft, p, q, u))
    weights = p[n] if n == len(draft) else left_over(p[n], q[n], 0)
    return [*draft[:n].tolist(), draw_with(weights.nan_to_num(1.0), v)]


@of_accept(
    "last_refusal",
    "last refusal instead of the first",
    "The round ends at the last token that is not kept, so earlier refused ones are in the result. It ends at the first.",
)
def accept_last_refusal(draft, p, q, u, v):
    kept = kept_of(draft, p, q, u)
    if all(kept):
        return accepted(draft, p, q, u, v)
    at = max(i for i, is_kept in enumerate(kept) if not is_kept)
    return [*draft[:at].tolist(), draw_with(left_over(p[at], q[at], 0), v)]


# accept, wrong: the draw


accept_at_least = accepting(
    "at_least",
    "sum equal to v enough",
    "The token is the first whose cumulative sum is at least v. With v = 0 that is token 0, even if its probability is 0. The sum "
    "has to be greater than v: `searchsorted` needs right=True.",
    draws=lambda weights, v: min(int((weights.cumsum(0) < v).sum()), int(weights.nonzero()[-1])),
)
accept_sum_before = accepting(
    "sum_before",
    "one token too early",
    "The last token whose cumulative sum is not greater than v is taken. Take the next one.",
    draws=lambda weights, v: max(draw_with(weights, v) - 1, 0),
)
accept_next_token = accepting(
    "next_token",
    "one token too late",
    "The token after the first one whose cumulative sum is greater than v is taken: the sum is compared without the token's own "
    "probability.",
    draws=lambda weights, v: min(draw_with(weights, v) + 1, len(weights) - 1),
)
accept_single = accepting(
    "single",
    "probabilities compared without summing",
    "The first token whose own probability is greater than v is taken. Sum the probabilities up first.",
    draws=lambda weights, v: (
        int((weights > v).nonzero()[0]) if (weights > v).any() else int(weights.nonzero()[-1])
    ),
)
accept_sorted = accepting(
    "sorted",
    "most likely tokens first",
    "The probabilities are sorted before they are summed up. Sum them up in the order of the tokens.",
    draws=lambda weights, v: (lambda order: int(order[draw_with(weights[order], v)]))(
        weights.argsort(descending=True)
    ),
)
accept_fraction = accepting(
    "fraction",
    "v as a share of the vocabulary",
    "The token is v times the size of the vocabulary, so all are equally likely. Compare v with the sums of probabilities.",
    draws=lambda weights, v: int(v * len(weights)),
)
accept_first_if_none = accepting(
    "first_if_none",
    "first token where rounding leaves none",
    "If no cumulative sum is greater than v, token 0 is taken: `argmax` of False everywhere is 0. Take the last token with a "
    "probability above 0.",
    draws=lambda weights, v: int((weights.cumsum(0) > v).int().argmax()),
)
accept_last_if_none = accepting(
    "last_if_none",
    "last token where rounding leaves none",
    "If no cumulative sum is greater than v, the last token of the vocabulary is taken, even if its probability is 0. Take the last "
    "one with a probability above 0.",
    draws=lambda weights, v: min(int((weights.cumsum(0) <= v).sum()), len(weights) - 1),
)
accept_error_if_none = accepting(
    "error_if_none",
    "error where rounding leaves none",
    "If no cumulative sum is greater than v, the function raises an error. Take the last token with a probability above 0.",
    draws=lambda weights, v: int((weights.cumsum(0) > v).nonzero()[0]),
)
accept_beyond_if_none = accepting(
    "beyond_if_none",
    "token beyond the vocabulary",
    "If no cumulative sum is greater than v, the result is a token that is not in the vocabulary. Take the last token with a "
    "probability above 0.",
    draws=lambda weights, v: int((weights.cumsum(0) <= v).sum()),
)
accept_random = accepting(
    "random",
    "token drawn at random",
    "The token is drawn with `torch.multinomial`, which has random numbers of its own. Draw it with v.",
    draws=lambda weights, v: int(
        torch.multinomial(
            weights.clamp(min=0) + 1e-9, 1, generator=torch.Generator().manual_seed(int(1e6 * v))
        )
    ),
)


@of_accept(
    "no_draft",
    "error without a draft",
    "The function raises an error if k is 0. Then the round is one token from p[0].",
)
def accept_no_draft(draft, p, q, u, v):
    torch.stack([p[i, x] / q[i, x] for i, x in enumerate(draft)])
    return accepted(draft, p, q, u, v)


@of_accept(
    "nothing_without_draft",
    "nothing without a draft",
    "If k is 0, the result is empty. Then the round is one token from p[0].",
)
def accept_nothing_without_draft(draft, p, q, u, v):
    return accepted(draft, p, q, u, v) if len(draft) else []


@of_accept(
    "changed",
    "p changed in place",
    "`p -= q` changes the caller's distributions. Make a new tensor.",
)
def accept_changed(draft, p, q, u, v):
    result = accepted(draft, p, q, u, v)
    p[: len(q)] -= q
    return result


@of_accept(
    "short",
    "at most 100 drafted tokens",
    "Only the first 100 drafted tokens are looked at. The draft has k tokens.",
)
def accept_short(draft, p, q, u, v):
    k = min(len(draft), 100)
    return accepted(draft[:k], p[: k + 1], q[:k], u[:k], v)


# tokens_expected


@families("returns nothing")
@right("tokens_expected")
def tokens_expected_sum(alpha, k):
    return sum(alpha**i for i in range(k + 1))


def expecting(name, label, hint):
    """Declare a wrong answer as `misconception` does, named after the function."""

    def declare(function):
        function.__name__ = f"tokens_expected_{name}"
        return misconception("tokens_expected", label, hint)(function)

    return declare


tokens_expected_kept = expecting(
    "kept",
    "token that is drawn not counted",
    "The drafted tokens that are kept are counted, but not the one that is drawn at the end. Each round has one: begin with 1.",
)(lambda alpha, k: sum(alpha**i for i in range(1, k + 1)))
tokens_expected_one_less = expecting(
    "one_less",
    "last power missing",
    "The sum ends with alpha^(k − 1): `range(k)` has k numbers, and the closed form needs the exponent k + 1. There are k + 1 "
    "terms.",
)(lambda alpha, k: sum(alpha**i for i in range(k)))
tokens_expected_one_more = expecting(
    "one_more",
    "a power too many",
    "The sum ends with alpha^(k + 1). It ends with alpha^k.",
)(lambda alpha, k: sum(alpha**i for i in range(k + 2)))
tokens_expected_extra = expecting(
    "extra",
    "1 counted twice",
    "The result is 1 too large. The first term, alpha^0, is the token that is drawn: it is not added again.",
)(lambda alpha, k: 1 + sum(alpha**i for i in range(k + 1)))
tokens_expected_linear = expecting(
    "linear",
    "each drafted token counted with alpha",
    "The result is 1 + k · alpha, as if a token could be kept after a refused one. Token i is kept only if all before it are: "
    "alpha^i.",
)(lambda alpha, k: 1 + k * alpha)
tokens_expected_last_power = expecting(
    "last_power",
    "only whole drafts counted",
    "The result is 1 + k · alpha^k, which counts only drafts that are kept as a whole. A part of a draft counts as well.",
)(lambda alpha, k: 1 + k * alpha**k)
tokens_expected_all = expecting(
    "all",
    "probability of a whole draft",
    "The result is a power of alpha, the probability that the draft is kept as a whole. Sum the powers up.",
)(lambda alpha, k: alpha**k)
tokens_expected_infinite = expecting(
    "infinite",
    "draft without an end",
    "The result is 1 / (1 − alpha), the sum of all powers. The draft has k tokens, so the sum ends.",
)(lambda alpha, k: 1 / (1 - alpha))
tokens_expected_division = expecting(
    "division",
    "division by 0 for alpha = 1",
    "The closed form divides by 1 − alpha, which is 0 for alpha = 1. Then all tokens are kept, and the result is k + 1.",
)(lambda alpha, k: (1 - alpha ** (k + 1)) / (1 - alpha))
tokens_expected_k_for_1 = expecting(
    "k_for_1",
    "one too few for alpha 1",
    "For alpha = 1 the result is k. The token that is drawn counts as well.",
)(lambda alpha, k: float(k) if alpha == 1 else (1 - alpha ** (k + 1)) / (1 - alpha))
tokens_expected_nan = expecting(
    "nan",
    "NaN for alpha = 1",
    "The closed form is computed with tensors or NumPy, and gives NaN for alpha = 1: 0 divided by 0. Then the result is k + 1.",
)(
    lambda alpha, k: float(
        (1 - torch.tensor(float(alpha)).double() ** (k + 1))
        / (1 - torch.tensor(float(alpha)).double())
    )
)
tokens_expected_zero = expecting(
    "zero",
    "0 for alpha = 0",
    "For alpha = 0 the result is 0. The token that is drawn is there even if no drafted one is kept.",
)(lambda alpha, k: sum(alpha**i for i in range(k + 1)) if alpha else 0.0)
tokens_expected_logarithm = expecting(
    "logarithm",
    "logarithm of alpha",
    "The powers are computed with the logarithm of alpha, which does not exist for alpha = 0. Use `**`.",
)(lambda alpha, k: sum(math.exp(i * math.log(alpha)) for i in range(k + 1)))
tokens_expected_no_draft = expecting(
    "no_draft",
    "0 for an empty draft",
    "For k = 0 the result is 0. A round without a draft is one step of the target model, and gives 1 token.",
)(lambda alpha, k: sum(alpha**i for i in range(k + 1)) if k else 0.0)
tokens_expected_rounded = expecting(
    "rounded",
    "rounded to a whole number",
    "The result is a whole number. A mean may have decimals.",
)(lambda alpha, k: round(sum(alpha**i for i in range(k + 1))))
tokens_expected_refused = expecting(
    "refused",
    "probability of a refusal",
    "The sum has powers of 1 − alpha, the probability that a token is refused. Use alpha.",
)(lambda alpha, k: sum((1 - alpha) ** i for i in range(k + 1)))
tokens_expected_weighted = expecting(
    "weighted",
    "powers times their numbers",
    "The sum has i · alpha^i, as if alpha^i were the probability of exactly i tokens. It is that of at least i: sum the powers "
    "alone.",
)(lambda alpha, k: 1 + sum(i * alpha**i for i in range(k + 1)))
tokens_expected_no_end = expecting(
    "no_end",
    "whole drafts left out of the mean",
    "The mean has the rounds that end with a refusal, but not those in which all k tokens are kept.",
)(lambda alpha, k: sum((i + 1) * alpha**i * (1 - alpha) for i in range(k)))
tokens_expected_list = expecting(
    "list",
    "list of the powers",
    "The result is a list of the powers. Return their sum.",
)(lambda alpha, k: [alpha**i for i in range(k + 1)])
tokens_expected_near_1 = expecting(
    "near_1",
    "k + 1 for alpha near 1",
    "For alpha near 1 the result is k + 1, as for 1 itself. Only alpha = 1 needs a case of its own.",
)(lambda alpha, k: k + 1.0 if abs(alpha - 1) < 5e-5 else (1 - alpha ** (k + 1)) / (1 - alpha))
tokens_expected_short = expecting(
    "short",
    "sum of at most 20 powers",
    "Only the first 20 powers are summed up. There are k + 1.",
)(lambda alpha, k: sum(alpha**i for i in range(min(k + 1, 20))))
